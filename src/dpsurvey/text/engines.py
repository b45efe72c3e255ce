"""The engines that can be told to read a file, by the names that Survey and the command line take."""

from __future__ import annotations

from ..errors import BadValue, did_you_mean

# What each is for; the first is taken where nothing is said.
ENGINES = {"duckdb": "", "spark": "for files that one machine cannot read"}
IN_WORDS = ", or ".join(f"{name} {purpose}".strip() for name, purpose in ENGINES.items())


def check_engine(name: str) -> str:
    """The name of an engine; any other text is refused.

    >>> check_engine("duckdb")
    'duckdb'
    """
    if name not in ENGINES:
        raise BadValue(f"unknown engine {name!r}", hint=did_you_mean(str(name), ENGINES))
    return name
