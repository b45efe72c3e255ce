"""What one record can move a weighted total by, under each setting of paper 002."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..errors import BadValue
from ..privacy.relation import Neighbours, NeighboursName, Relation

Range = tuple[float, float]


def weighted_total_sensitivity(
    weights: Sequence[float],
    bounds: Range,
    *,
    neighbours: Neighbours | NeighboursName = Relation.REPLACE_ONE,
    frame: Literal["fixed", "free"] = "fixed",
    n: int | None = None,
    weight_total: Literal["free", "fixed"] = "free",
) -> float:
    """The most that the sum of w x can move between neighbours, x in its bounds, w among (or between the extremes of) `weights`.

    With the frame held fixed the weights are constants of the units: one more or less moves the sum by max |w x|, one
    replaced by another unit by max w x - min w x over all (unit, value) pairs, which may exceed the largest weight times the
    range of x. Where the frame is free, one record may change every weight, and n records add
    (n-1)(max w - min w) max |x| (Bailie and Drechsler, section 4.5.2, for neighbours at distance one). If the weights of a
    sample always add up to the same public number, only weights that rise while others fall move the sum: the largest weight
    times the range of x, and (max w - min w) times that range for every two of the others.

    >>> weighted_total_sensitivity([2, 5, 10], (1, 3))
    28
    >>> weighted_total_sensitivity([1, 6], (-1, 3), frame="free", n=4)
    69
    >>> weighted_total_sensitivity([1, 6], (-1, 3), frame="free", n=4, weight_total="fixed")
    44
    """
    if not weights or min(weights) <= 0.0:
        raise BadValue("weights are positive numbers", given=f"{len(weights)} of them")
    if weight_total not in ("free", "fixed") or (weight_total, frame) == ("fixed", "fixed"):
        raise BadValue(
            'weight_total is "free", or "fixed" beside frame="free"', given=f"weight_total={weight_total!r}, frame={frame!r}"
        )
    low, high = bounds
    pairs = [weight * end for weight in weights for end in (low, high)]
    if frame == "fixed":
        return max(map(abs, pairs)) if neighbours == Relation.ADD_REMOVE else max(pairs) - min(pairs)
    if neighbours == Relation.ADD_REMOVE or n is None:
        raise BadValue(
            "with a free frame the bound is for samples of one public size",
            because="one record more or less would change every weight and the number of weights",
            hint='neighbours="replace-one" and n=, the public number of records',
        )
    if weight_total == "fixed":
        # Measured from the middle m of the range, with R its length: sum |dw| R/2 + (w + w') R/2, where the dw of the others
        # add up to w' - w. As w + w' <= 2 max w - sum dw, that is at most R (max w + the sum of the dw that fall).
        return max(weights) * (high - low) + (n - 1) // 2 * (max(weights) - min(weights)) * (high - low)
    return max(pairs) - min(pairs) + (n - 1) * (max(weights) - min(weights)) * max(abs(low), abs(high))
