"""What an allocation may be given: checks that name what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from ...errors import BadValue, did_you_mean
from ..checks import check_count
from ..frame import LARGEST_SIZE, label_text
from .takes import Array, spent, written

RELEASES = ("strata", "total")
# Below this the noise is far larger than any range; above, no noise is left to speak of.
EPSILONS = (1e-9, 1e9)


def check_source(uses: Sequence[str], source: str, public: bool, figures: Mapping[str, Any]) -> str:
    """Where the figures were published; the confidential frame, where they were not."""
    if not isinstance(source, str) or not isinstance(public, bool):
        raise BadValue("source= is a text and public= is True or False", given=f"source={source!r}, public={public!r}")
    if not public:
        return source.strip() or "the confidential frame"
    used = [name for name in ("deviations", "measure") if figures[name] is not None and name in uses]
    if used and not source.strip():
        raise BadValue(
            f"say where these figures were published: {used[0]}",
            because="public means published; figures from unpublished microdata are confidential",
            hint='source="..." names a publication or an earlier release; from confidential rows, public=False',
        )
    return source.strip()


def check_sizes(sizes: Mapping[Any, int]) -> dict[str, int]:
    """Stratum sizes by label: whole numbers of at least 1."""
    if not isinstance(sizes, Mapping) or not sizes:
        raise BadValue("sizes= maps each stratum to its number of units", given=f"a {type(sizes).__name__}")
    checked: dict[str, int] = {}
    for label, size in sizes.items():
        name = label_text(label)
        if name in checked:
            raise BadValue(f"the stratum {name!r} is given twice")
        if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= size <= LARGEST_SIZE:
            raise BadValue(
                f"the size of stratum {name!r} must be a whole number from 1 to {LARGEST_SIZE:g}", given=f"{str(size)[:40]}"
            )
        checked[name] = int(size)
    return checked


def check_figures(
    name: str, figures: Mapping[Any, float] | None, labels: Mapping[str, Any], above: bool = False
) -> dict[str, float] | None:
    """One finite number for each stratum, not negative, or `above` zero, in the order of the strata."""
    if figures is None:
        return None
    if not isinstance(figures, Mapping):
        raise BadValue(f"{name}= maps each stratum to a number", given=f"a {type(figures).__name__}")
    named = {label_text(label): value for label, value in figures.items()}
    for label in named:
        if label not in labels:
            raise BadValue(f"{name} name a stratum without a size", given=repr(label), hint=did_you_mean(label, labels))
    for label in labels:
        if label not in named:
            raise BadValue(f"{name} lack the stratum {label!r}", hint="every stratum needs a figure")
        check_number(f"{name} of stratum {label!r}", named[label], above=above)
    return {label: float(named[label]) for label in labels}


def check_number(name: str, value: Any, above: bool = True) -> float:
    """A finite number above 0, or from 0 on."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    # A whole number may be too large for a float, so it is compared before it is made one.
    if not known or not 0.0 <= value <= sys.float_info.max or (above and value == 0.0):
        raise BadValue(f"{name} must be a finite number {'above' if above else 'of at least'} 0", given=f"{repr(value)[:40]}")
    return float(value)


def check_minimum(minimum: int | Mapping[Any, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """The least units by stratum: one number for all, at most the size, or a mapping; strata that it leaves out get 1.

    >>> check_minimum(3, {"a": 2, "b": 9}), check_minimum({"b": 5}, {"a": 2, "b": 9})
    ({'a': 2, 'b': 3}, {'a': 1, 'b': 5})
    """
    if not isinstance(minimum, Mapping):
        check_count("minimum", minimum, at_least=0)
        return {label: min(minimum, size) for label, size in sizes.items()}
    named = {label_text(label): value for label, value in minimum.items()}
    for label, value in named.items():
        if label not in sizes:
            raise BadValue("minimum names a stratum without a size", given=repr(label), hint=did_you_mean(label, sizes))
        check_count(f"the minimum of stratum {label!r}", value, at_least=0, at_most=sizes[label])
    return {label: named.get(label, 1) for label in sizes}


def by_stratum(name: str, figures: float | Mapping[Any, float], labels: Mapping[str, Any]) -> dict[str, float]:
    """A number above 0 for each stratum, from one number for all or a mapping."""
    if isinstance(figures, Mapping):
        return check_figures(name, figures, labels, above=True) or {}
    return dict.fromkeys(labels, check_number(name, figures))


def check_epsilon(epsilon: float | Mapping[Any, float], labels: Mapping[str, Any]) -> dict[str, float]:
    """The wanted loss of a record by stratum."""
    checked = by_stratum("epsilon", epsilon, labels)
    least, most = EPSILONS
    for label, value in checked.items():
        if not least <= value <= most:
            raise BadValue(f"epsilon must be between {least:g} and {most:g}", given=f"{value:g} in stratum {label!r}")
    return checked


def check_release(release: str | None) -> str:
    """What is published: noisy means of strata, or one noisy mean."""
    release = "strata" if release is None else release
    if release not in RELEASES:
        raise BadValue(f"unknown release {release!r}", hint=did_you_mean(str(release), RELEASES))
    return release


def check_total(n: int, minimum: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    """A sample that fits into the strata and reaches the minimum in each."""
    check_count("n", n)
    least, most = sum(minimum.values()), sum(sizes.values())
    if n > most:
        raise BadValue("n is above the number of units in all strata", given=f"n={n}, units {most}")
    if n < least:
        hint = f"n of at least {least}, or a smaller minimum"
        raise BadValue("n is below the minimum of all strata", given=f"n={n}, {least} in {len(sizes)} strata", hint=hint)


def check_budget(budget: float | None, prices: Array, lower: Array) -> float:
    """A budget that covers the minimum of every stratum."""
    limit = check_number("budget", budget)
    least = spent(written(prices.tolist()), lower.astype("int64"))
    if least > written([limit])[0]:
        raise BadValue("the budget does not cover the minimum", given=f"budget={limit:g}, minimum costs {least:g}")
    return limit


def wanted_se(cv: float | None, mean: float | None, se: float | None) -> float:
    """The standard error that is asked for: itself, or a cv of a published mean.

    >>> wanted_se(0.05, -200.0, None)
    10.0
    """
    if (cv is None) == (se is None):
        raise BadValue("the precision rule needs either cv, with mean, or se", given=f"cv={cv}, se={se}")
    if se is not None:
        if mean is not None:
            raise BadValue("mean is for cv; a standard error needs none", given=f"mean={mean!r}")
        return check_number("se", se)
    if mean is None:
        raise BadValue("a cv needs the mean that it is relative to", hint="mean= of a published figure")
    return check_number("cv", cv) * check_number("mean", abs(mean) if isinstance(mean, Real) else mean)
