"""The largest pure loss over all epsilon-private mechanisms, as a linear programme.

For an event let g(S) be its probability on the sample S. A mechanism is epsilon-private exactly when
g(S) <= e^(epsilon d(S, T)) g(T) for all S, T; the complement costs nothing, since g may be scaled down. So the worst
loss is log max sum p g / sum q g: linear after fixing sum q g = 1. Its vertices have log g at whole steps of epsilon,
so the solver's answer is rounded to a mechanism that is private exactly; its dual, mended, is a proved upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from ...privacy.relation import Relation, RelationName
from ..chain import log_ratio, surely_attained
from .contest import Contest, steps
from .witness import Witness

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
MOST_SAMPLES = 600
# Beyond this the coefficients e^(epsilon d) are out of the solver's reach.
MOST_SPREAD = 40.0
FAR = 1e6


@dataclass(frozen=True)
class WorstLoss:
    """The worst loss in one order: attained by a mechanism (`lower`), and proved for all of them (`upper`)."""

    lower: float
    upper: float
    witness: Witness

    @property
    def exact(self) -> bool:
        """Whether both sides agree to a millionth."""
        return self.upper - self.lower <= 1e-6 * max(1.0, self.lower)


def worst_loss(contest: Contest, epsilon: float, base: Relation | RelationName) -> WorstLoss:
    """The worst loss of a contest over all mechanisms of a type, in the worse of the two orders.

    >>> drawn = Contest((3, 1), {(2, 0): 0.5, (1, 1): 0.5}, (3, 0), {(2, 0): 1.0})
    >>> round(worst_loss(drawn, 1.0, "replace-one").lower, 10)
    0.620114507
    """
    relation = Relation.read(base)
    answers = [_one_order(each, epsilon, relation) for each in (contest, contest.swapped())]
    worse = max(answers, key=lambda answer: answer.lower)
    return WorstLoss(worse.lower, max(answer.upper for answer in answers), worse.witness)


def _one_order(contest: Contest, epsilon: float, base: Relation) -> WorstLoss:
    samples, p, q = contest.samples, contest.law(contest.first), contest.law(contest.second)
    if len(samples) > MOST_SAMPLES:
        raise BadValue("too many different samples for the linear programme", given=f"{len(samples)}, at most {MOST_SAMPLES}")
    distance = np.array([[steps(base, one, other) for other in samples] for one in samples])
    reach = distance[np.isfinite(distance)]
    if epsilon * float(reach.max()) > MOST_SPREAD:
        raise BadValue("epsilon is too large for the linear programme on this design", given=f"epsilon={epsilon}")
    reached = np.isfinite(distance[:, q > 0.0]).any(axis=1)
    if bool((p[~reached] > 0.0).any()):
        # A sample of the first population that no step leads to from the second: the loss has no bound.
        return WorstLoss(math.inf, math.inf, Witness(contest, epsilon, base, tuple(0.0 for _ in samples)))
    rows, cols = np.nonzero(np.isfinite(distance) & ~np.eye(len(samples), dtype=bool))
    cost = epsilon * distance
    # The distance to the other population's samples is a mechanism already, and near the worst one for large epsilon.
    potential, upper, lower = np.min(distance[:, q > 0.0], axis=1), math.inf, -math.inf
    potential = np.where(np.isfinite(potential), potential, 0.0)
    with np.errstate(divide="ignore"):
        lower = log_ratio(np.log(p), np.log(q), epsilon * potential)
    best = potential
    for _ in range(4):
        # Each round measures g in units of the last answer, so that the solver sees numbers near 1.
        scale = epsilon * potential
        solved = _solved(p, q, rows, cols, cost, scale)
        if solved is None:
            break
        g, flows = solved
        potential = _whole_steps(np.log(np.maximum(g, 1e-300)) + scale, distance, epsilon)
        with np.errstate(divide="ignore"):
            found = log_ratio(np.log(p), np.log(q), epsilon * potential)
        best, lower = (potential, found) if found > lower else (best, lower)
        upper = min(upper, _proved(p, q, flows, rows, cols, cost))
        if upper - lower <= 1e-9 * max(1.0, lower):
            break
    attained = surely_attained(lower, float(np.max(np.abs(epsilon * best)))) if math.isfinite(lower) else lower
    return WorstLoss(attained, max(lower, upper), Witness(contest, epsilon, base, tuple((best - best.max()).tolist())))


def _solved(p: Array, q: Array, rows: Indices, cols: Indices, cost: Array, scale: Array) -> tuple[Array, Array] | None:
    """g in units of e^scale, and the dual flow along each pair of samples."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    units = np.exp(scale - scale.max())
    factors = np.exp(np.minimum(100.0, cost[rows, cols] + scale[cols] - scale[rows]))
    # What is far from binding is left out: the rounded answer and the mended dual stay valid without it.
    bind = np.nonzero(factors < FAR)[0]
    every, rows, cols, factors = len(rows), rows[bind], cols[bind], factors[bind]
    edges = np.arange(len(rows))
    matrix = coo_array(
        (np.concatenate((np.ones(len(rows)), -factors)), (np.concatenate((edges, edges)), np.concatenate((rows, cols)))),
        shape=(len(rows), len(p)),
    )
    size = float(q @ units)
    for presolve, method in ((True, "highs"), (False, "highs-ds"), (False, "highs-ipm")):
        found = linprog(
            -p * units / size,
            A_ub=matrix.tocsr(),
            b_ub=np.zeros(len(rows)),
            A_eq=(q * units / size)[None, :],
            b_eq=[1.0],
            bounds=(0.0, FAR),
            method=method,
            options={"presolve": presolve},
        )
        if found.status == 0:
            break
    else:
        return None
    # A row was divided by the unit of its first sample, and the objective by `size`; the flow undoes both.
    flows = np.zeros(every)
    flows[bind] = np.maximum(0.0, -np.asarray(found.ineqlin.marginals)) * size / units[rows]
    return np.asarray(found.x), flows


def _whole_steps(logs: Array, distance: Array, epsilon: float) -> Array:
    """log g in whole steps of epsilon, mended so that the mechanism is private exactly."""
    rough = np.round((logs - logs.max()) / epsilon)
    mended: Array = np.max(np.where(np.isfinite(distance), rough[None, :] - distance, -np.inf), axis=1)
    return np.asarray(mended - mended.max())


def _proved(p: Array, q: Array, flows: Array, rows: Indices, cols: Indices, cost: Array) -> float:
    """A bound on the ratio from the dual: any non-negative flow gives one, once all left-over mass is sent on."""
    rest, through = p.copy(), p.copy()
    grown = flows * np.exp(cost[rows, cols])
    np.subtract.at(rest, rows, flows)
    np.add.at(rest, cols, grown)
    np.add.at(through, rows, flows)
    np.add.at(through, cols, grown)
    # What passes through a sample may cancel; its rounding error does not.
    rest += 2.0**-52 * (len(p) + 4) * through
    covered = q > 0.0
    for here in np.nonzero(~covered & (rest > 0.0))[0]:
        to = int(np.argmin(np.where(covered, cost[here], np.inf)))
        rest[to] += rest[here] * math.exp(cost[here, to])
    return math.log(max(1e-300, float(np.max(rest[covered] / q[covered])))) + 1e-12
