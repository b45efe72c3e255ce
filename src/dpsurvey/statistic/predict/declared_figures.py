"""Public figures that errors are predicted from: one for all units, or one for each category of a declared column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from ...design.frame import Frame, label_text
from ...errors import BadValue

# (mean, sd) of a measured column.
MeanAndDeviation = tuple[float, float]
MomentsByLabel = tuple[tuple[str, MeanAndDeviation], ...]
SharesByLabel = tuple[tuple[str, float], ...]
Figure = TypeVar("Figure")


def read_moments(expect: Any, low: float, high: float) -> tuple[MeanAndDeviation | None, MomentsByLabel]:
    """A public (mean, sd), or a mapping from the categories of one column to such pairs; and the pair of all of them.

    >>> read_moments({"north": (10, 2), "south": (30, 2)}, 0.0, 100.0)[0]
    (20.0, 10.198039027185569)
    """
    if expect is None:
        return None, ()
    if not isinstance(expect, Mapping):
        return _moments(expect, low, high), ()
    if not expect:
        raise BadValue("expect= by category is empty", hint='expect={"north": (mean, sd), "south": (mean, sd)}')
    by_label = tuple((label_text(label), _moments(pair, low, high)) for label, pair in expect.items())
    return mixed_moments([(1.0, *pair) for _, pair in by_label]), by_label


def read_shares(expect: Any) -> tuple[float | None, SharesByLabel]:
    """A public proportion, or a mapping from the categories of one column to proportions; and the one of all of them.

    >>> read_shares({"north": 0.1, "south": 0.3})
    (0.2, (('north', 0.1), ('south', 0.3)))
    """
    if expect is None:
        return None, ()
    if not isinstance(expect, Mapping):
        return _share(expect), ()
    if not expect:
        raise BadValue("expect= by category is empty", hint='expect={"north": 0.1, "south": 0.3}')
    by_label = tuple((label_text(label), _share(p)) for label, p in expect.items())
    return math.fsum(p for _, p in by_label) / len(by_label), by_label


def mixed_moments(parts: list[tuple[float, float, float]]) -> MeanAndDeviation:
    """The mean and sd of units of several kinds, from (number, mean, sd) of each.

    >>> mixed_moments([(3.0, 0.0, 1.0), (1.0, 4.0, 1.0)])
    (1.0, 2.0)
    """
    whole = math.fsum(count for count, _, _ in parts)
    mean = math.fsum(count * own for count, own, _ in parts) / whole
    square = math.fsum(count * (sd**2 + (own - mean) ** 2) for count, own, sd in parts) / whole
    return mean, math.sqrt(max(square, 0.0))


def figures_in(
    whole: Figure,
    by_label: tuple[tuple[str, Figure], ...],
    frame: Frame,
    first: tuple[str | None, ...],
    labels: Mapping[str, str],
) -> list[tuple[float, Figure]]:
    """The figures of units with these categories, each with its share: one, or all that are mixed."""
    if not by_label:
        return [(1.0, whole)]
    own = dict(by_label)
    column = column_of(tuple(own), frame, first)
    if column in labels:
        return [(1.0, own[labels[column]])]
    sizes = frame.category_sizes.get(column, dict.fromkeys(own, 1))
    return [(sizes[label] / sum(sizes.values()), figure) for label, figure in own.items()]


def column_of(labels: tuple[str, ...], frame: Frame, first: tuple[str | None, ...]) -> str:
    """The declared column whose categories these are; of several, the strata and then what groups are made of."""
    wanted = set(labels)
    names = [*(column for column in first if column), *frame.categories]
    fitting = [column for column in names if wanted == set(frame.categories.get(column, ()))]
    if not fitting:
        raise BadValue(
            "expect= by category must name every declared category of one column, and no other",
            given=", ".join(sorted(wanted)),
            hint="the strata, a column of by=, or another declared one",
        )
    return fitting[0]


def check_deff(deff: Any) -> float | None:
    """A public design effect, or None."""
    if deff is None:
        return None
    if isinstance(deff, bool) or not isinstance(deff, int | float) or not (0.0 < deff < math.inf):
        raise BadValue("deff= is a public design effect, a positive number", given=repr(deff))
    return float(deff)


def check_published(source: Any) -> str:
    """Where figures were published, in words."""
    if not isinstance(source, str):
        raise BadValue("source= says in words where the figures were published", given=repr(source))
    return source.strip()


def rests_on(figure: str, source: str) -> str:
    """What a prediction rests on, with its source where one is named."""
    return f"{figure}, from {source}" if source else figure


def _moments(pair: Any, low: float, high: float) -> MeanAndDeviation:
    try:
        if any(isinstance(each, str | bool) for each in pair):
            raise TypeError
        mean, sd = (float(each) for each in pair)
    except (TypeError, ValueError):
        raise BadValue("expect= is a public (mean, sd)", given=repr(pair)) from None
    # The largest spread of values between the bounds, with this mean.
    largest = math.sqrt(max((mean - low) * (high - mean), 0.0))
    if not (low <= mean <= high and 0.0 <= sd <= largest * (1.0 + 1e-9)):
        raise BadValue(
            "expect= is a public (mean, sd) within the bounds",
            because=f"with that mean no sd is larger than {largest:.6g}" if low <= mean <= high else "the mean is outside them",
            given=repr(tuple(pair)),
        )
    return mean, sd


def _share(p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 < p < 1.0:
        raise BadValue("expect= is a public proportion in (0, 1)", given=repr(p))
    return float(p)
