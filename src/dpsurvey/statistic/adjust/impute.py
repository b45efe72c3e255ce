"""Missing answers: filled with cell means after the noise, at no cost; and what filling before the noise would cost."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BadValue
from ...mechanism.base import Norm
from ...privacy.profile import Relation
from ..estimators.interval import Array
from .answer import Adjusted
from .cells import NoisyCells, cell_sensitivity
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


def imputation_sensitivity(
    uses: int | None, relation: Relation = "add-remove", norm: Norm = "L1", *, triple: bool = False
) -> float:
    """The most that sum y (or the triple) over completed records moves, when each record is the donor of at most `uses` others.

    It needs a rule in which one record decides only its own answer and those of the at most k records that it gives to: with
    it or without it, all other records keep their donor. Then adding or removing a record moves sum y in [0, 1] by
    1 for itself and 1 for each of k records that change donor: 1 + k. Replacing it moves its own, the k it gave to and
    the k it now gives to: 1 + 2k. For the triple every changed record counts 2 in L1 and sqrt(2) in L2.
    A rule that serves donors in turn until their uses are spent does not qualify: one record can shift all others.

    >>> imputation_sensitivity(3), imputation_sensitivity(3, "replace-one")
    (4.0, 7.0)
    """
    if uses is None or isinstance(uses, bool) or not isinstance(uses, int) or uses < 0:
        raise BadValue(
            "nobody knows how many records one answer was copied to, so nothing bounds what one person can move",
            given=f"uses={uses!r}",
            hint="cap the uses of a donor by a stable rule and give the cap, or leave answers missing and use impute_cell_means",
        )
    changed = cell_sensitivity("replace-one", norm) if triple else 1.0
    own = 1.0 if relation == "add-remove" else changed
    return own + changed * uses * (1 if relation == "add-remove" else 2)
