"""Post-stratification on noisy cells: against nonresponse, or for samples whose size by class is random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import BadValue
from ..estimators.interval import Array
from .answer import Adjusted
from .calibrated import calibrated
from .cells import Collapsed, NoisyCells, collapse

SUM_TOLERANCE = 1e-6


def post_stratify(
    cells: NoisyCells,
    shares: Array | None = None,
    *,
    unanswered: Array | None = None,
    thinning: float = 1.0,
    names: Sequence[str] | None = None,
    ordered: bool = False,
) -> Adjusted:
    """The mean m = sum_g W_g (sum y)_g/n_g of classes with public shares W_g, with its errors and 95 % interval.

    Release: the triples of all cells. Classes with a noisy count below 5 times its noise are
    merged first, and the notes name them: inside a merged class nonresponse is no longer adjusted for.
    With `ordered`, classes are listed in a public order and small ones join their neighbour (`collapse`).
    `thinning` is 1 minus the smallest chance that a unit is sampled; 1 is never too small.

    Instead of `shares`, `unanswered` holds the noisy numbers of sampled units without an answer, released as a fourth sum
    of each cell at no further cost. W_g are then the sample's own shares, and their error is added:
    (1-f)/n sum W_g (m_g - m)^2, and the noise of the counts.

    >>> cells = NoisyCells(np.array([[300.0, 0.0, 700.0], [300.0, 0.0, 100.0]]), noise_variance=2.0)
    >>> answer = post_stratify(cells, np.array([0.5, 0.5]))
    >>> float(answer.estimate.round(3)), float(answer.low.round(3)), float(answer.high.round(3))
    (0.525, 0.499, 0.551)
    """
    if (shares is None) == (unanswered is None):
        raise BadValue(
            "give the public shares= of the classes, or unanswered= to take them from the sample", given="both or none"
        )
    known = checked_shares(shares, cells.size, "shares") if shares is not None else None
    labels = list(names) if names is not None else [f"class {index + 1}" for index in range(cells.size)]
    if len(labels) != cells.size:
        raise BadValue("names= has one name for each class", given=f"{len(labels)} names for {cells.size} classes")
    after = collapse(cells, ordered=ordered)
    sampled = None
    if known is not None:
        targets = after.spread(known)
    else:
        assert unanswered is not None
        sampled = after.spread(cells.counts + unanswered)
        targets = np.maximum(sampled, 0.0)
        targets = targets / np.maximum(targets.sum(axis=-1, keepdims=True), 1e-300)
    # Every class is its own indicator; the empty places left by merging have none.
    indicators = np.eye(cells.size) * (after.spread(np.ones(cells.size)) > 0.0)[..., None, :]
    notes = merge_notes(after, labels) if cells.sums.ndim == 2 else []
    return calibrated(after.cells, indicators, targets, thinning, True, notes, sampled)


def checked_shares(shares: Array, size: int, what: str) -> Array:
    """Public shares by cell: not negative, adding up to 1."""
    known = np.asarray(shares, dtype=np.float64)
    if known.shape != (size,):
        raise BadValue(f"{what} has one number for each cell", given=f"{known.shape} for {size} cells")
    if not np.all(np.isfinite(known)) or np.any(known < 0.0) or abs(float(known.sum()) - 1.0) > SUM_TOLERANCE:
        raise BadValue(
            f"{what} are parts of the population: none negative, adding up to 1",
            given=f"a sum of {float(known.sum()):.6g}",
            hint="divide the public counts by their total",
        )
    return known


def merge_notes(after: Collapsed, names: Sequence[str]) -> list[str]:
    """One note that names what was merged, if anything was."""
    together = [name for name, merged in zip(names, after.merged.tolist(), strict=True) if merged]
    if not together:
        return []
    return [f"merged, too small for their noise: {', '.join(together)}; differences between them are not adjusted for"]
