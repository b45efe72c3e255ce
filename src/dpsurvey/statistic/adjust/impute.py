"""Missing answers: filled with cell means after the noise, at no cost."""

from __future__ import annotations

from collections.abc import Sequence

from ..estimators.interval import Array
from .answer import Adjusted
from .cells import NoisyCells
from .classes import post_stratify


def impute_cell_means(
    answered: NoisyCells,
    missing: Array,
    *,
    thinning: float = 1.0,
    names: Sequence[str] | None = None,
    rule: float = 5.0,
    ordered: bool = False,
) -> Adjusted:
    """The mean of y when every missing answer is the mean of its cell: m = sum_g c_g m_g/sum_g c_g, c_g all units of g.

    `missing` holds the noisy numbers of units without an answer by cell, the fourth sum of each cell: a record adds to the
    triple of its cell or to the fourth sum, so all of them have the sensitivity of the triples alone. The errors
    are those of the answers that are there; a filled answer counts as none (`post_stratify`).

    >>> import numpy as np
    >>> answered = NoisyCells(np.array([[20.0, 0.0, 80.0], [60.0, 0.0, 40.0]]), noise_variance=0.0)
    >>> float(impute_cell_means(answered, np.array([0.0, 100.0])).estimate.round(4))
    0.4667
    """
    return post_stratify(answered, unanswered=missing, thinning=thinning, names=names, rule=rule, ordered=ordered)
