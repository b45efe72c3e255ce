"""A distribution as it is published: some of its quantiles. Errors of quantiles are predicted from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import BadValue
from ..estimators.interval import Array

# (share, value) pairs, both rising.
Points = tuple[tuple[float, float], ...]
FORM = (
    "expect={0.1: 12_000, 0.5: 24_000, 0.9: 61_000}, published quantiles; in survey.toml expect = [[0.1, 12_000], [0.5, 24_000]]"
)


def read_points(expect: Any, low: float, high: float) -> Points:
    """Published quantiles, as a mapping from shares to values or as pairs, in order and within the bounds.

    >>> read_points({0.9: 60, 0.5: 25}, 0.0, 100.0)
    ((0.5, 25.0), (0.9, 60.0))
    """
    if expect is None:
        return ()
    try:
        pairs = list(expect.items()) if isinstance(expect, Mapping) else [tuple(pair) for pair in expect]
        points = sorted((float(share), float(value)) for share, value in pairs)
    except (TypeError, ValueError):
        raise BadValue("expect= of a quantile holds published quantiles", given=repr(expect)[:80], hint=FORM) from None
    shares, values = [share for share, _ in points], [value for _, value in points]
    if not points or not all(0.0 < share < 1.0 for share in shares) or len(set(shares)) < len(shares):
        raise BadValue("expect= of a quantile maps different shares between 0 and 1 to values", hint=FORM)
    if any(not low <= value <= high for value in values) or values != sorted(values):
        raise BadValue(
            "published quantiles rise with their shares and lie within the bounds",
            given=", ".join(f"{share:g}: {value:g}" for share, value in points),
        )
    return tuple(points)


def read_atoms(atoms: Any, of: str, low: float, high: float) -> tuple[float, ...]:
    """Public values that many units have, in order; the bounds are such values anyway.

    >>> read_atoms([40, 0], "hours", 0.0, 98.0)
    (40.0,)
    """
    given = (atoms,) if isinstance(atoms, int | float) else atoms
    try:
        if isinstance(given, str) or any(isinstance(atom, str | bool) for atom in given):
            raise TypeError
        read = sorted({float(atom) for atom in given})
    except (TypeError, ValueError):
        raise BadValue(
            f"atoms= holds values that many units of {of!r} have", given=repr(atoms)[:80], hint="atoms=(40,)"
        ) from None
    if not all(low <= atom <= high for atom in read):
        raise BadValue(f"the atoms of {of!r} lie within its bounds", given=", ".join(f"{atom:g}" for atom in read))
    return tuple(atom for atom in read if low < atom < high)


def leaf_shares(points: Points, edges: Sequence[float]) -> Array:
    """The share of units in each leaf: published quantiles with straight lines between them; without any, even leaves.

    A leaf that is one value holds what published quantiles put there.

    >>> leaf_shares(((0.5, 1.0),), [0.0, 1.0, 2.0, 4.0]).round(4).tolist()
    [0.5, 0.1667, 0.3333]
    >>> leaf_shares(((0.25, 0.0), (0.5, 1.0)), [0.0, 0.0, 1.0, 2.0]).round(4).tolist()
    [0.25, 0.25, 0.5]
    """
    wide = np.diff(edges) > 0.0
    if not points:
        return wide / np.count_nonzero(wide)
    below = np.interp(edges, *_line(points, float(edges[0]), float(edges[-1])))
    below[0] = 0.0
    for place in np.flatnonzero(~wide).tolist():
        # Up to the value itself, behind which all quantiles that are equal to it are held.
        below[place + 1] = max(below[place], *(share for share, value in points if value <= edges[place]), 0.0)
    below[-1] = 1.0
    return np.diff(below)


def value_at(points: Points, shares: Array, low: float, high: float) -> Array:
    """The values at these shares of the units."""
    values, at = _line(points, low, high)
    return np.interp(shares, at, values)


def _line(points: Points, low: float, high: float) -> tuple[list[float], list[float]]:
    """Values and shares of the published distribution, from bound to bound; equal values are held apart by a hair."""
    values, shares = [low, *(value for _, value in points), high], [0.0, *(share for share, _ in points), 1.0]
    for place in range(1, len(values)):
        values[place] = max(values[place], math.nextafter(values[place - 1], math.inf))
    return values, shares
