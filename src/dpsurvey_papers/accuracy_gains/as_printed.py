"""What the paper prints, for pictures that show it beside what was found. No figure is computed from it."""

from __future__ import annotations

import tomllib
from importlib import resources


def printed(item: str, figure: str) -> str:
    """A printed figure by its names in printed.toml.

    >>> printed("000-figure-9", "median")
    '0.21'
    """
    text = resources.files(__package__).joinpath("printed.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)[item]["values"][figure]["printed"])
