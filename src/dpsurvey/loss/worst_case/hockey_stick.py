"""The largest hockey-stick divergence over all (epsilon, delta)-private mechanisms, as a linear programme.

For an event let f(S) be its probability. (epsilon, delta)-privacy of the two-valued mechanism is
f(S) <= e^epsilon f(T) + delta and the same for 1 - f, for all neighbours S, T; the divergence at e^at is the largest
value of sum (p - e^at q) f. All data sets between the samples are variables, so that no step is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import BadValue
from ...privacy.relation import Relation, RelationName
from .contest import Contest, Counts, neighbours_of


@dataclass(frozen=True)
class WorstDelta:
    """The largest delta at one epsilon', and the event probabilities on every data set that attain it."""

    delta: float
    at: float
    contest: Contest
    epsilon: float
    base_delta: float
    base: Relation
    answers: dict[Counts, float]

    def check(self, tolerance: float = 1e-7) -> None:
        """Raise unless the mechanism is (epsilon, delta)-private and attains the divergence, by plain enumeration."""
        for data, yes in self.answers.items():
            for near in neighbours_of(data, self.base):
                if near not in self.answers:
                    continue
                for one, other in ((yes, self.answers[near]), (1.0 - yes, 1.0 - self.answers[near])):
                    if one > math.exp(self.epsilon) * other + self.base_delta + tolerance:
                        raise AssertionError("the witness is not private")
        gain = [sum(p * self.answers[sample] for sample, p in law.items()) for law in (self.contest.first, self.contest.second)]
        if abs(gain[0] - math.exp(self.at) * gain[1] - self.delta) > tolerance:
            raise AssertionError("the witness does not attain its divergence")


def worst_delta(contest: Contest, at: float, epsilon: float, delta: float, base: Relation | RelationName) -> WorstDelta:
    """The largest delta' at epsilon' = at, over all (epsilon, delta)-private mechanisms of a type; the worse order.

    >>> drawn = Contest((1,), {(0,): 0.5, (1,): 0.5}, (0,), {(0,): 1.0})
    >>> round(worst_delta(drawn, math.log(1 + 0.5 * math.expm1(1.0)), 1.0, 1e-3, "add-remove").delta, 9)
    0.0005
    """
    relation = Relation.read(base)
    return max((_one_order(each, at, epsilon, delta, relation) for each in (contest, contest.swapped())), key=lambda w: w.delta)


def _one_order(contest: Contest, at: float, epsilon: float, delta: float, base: Relation) -> WorstDelta:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    if not contest.is_small:
        # With data sets left out, steps would be skipped and the answer would be too large.
        raise BadValue("too many data sets for the linear programme", hint="fewer units; every data set is a variable")
    data = sorted(contest.data_sets())
    index = {each: position for position, each in enumerate(data)}
    edges = [(index[one], index[near]) for one in data for near in neighbours_of(one, base) if near in index]
    factor = math.exp(epsilon)
    heads, tails = np.array([edge[0] for edge in edges], dtype=int), np.array([edge[1] for edge in edges], dtype=int)
    count = np.arange(len(edges))
    half = coo_array(
        (
            np.concatenate((np.ones(len(edges)), np.full(len(edges), -factor))),
            (np.concatenate((count, count)), np.concatenate((heads, tails))),
        ),
        shape=(len(edges), len(data)),
    ).tocsr()
    limits = np.concatenate((np.full(len(edges), delta), np.full(len(edges), delta + factor - 1.0)))
    gain = np.zeros(len(data))
    for sample, p in contest.first.items():
        gain[index[sample]] += p
    for sample, p in contest.second.items():
        gain[index[sample]] -= math.exp(at) * p
    found = linprog(-gain, A_ub=vstack([half, -half]), b_ub=limits, bounds=(0.0, 1.0), method="highs")
    if found.status != 0:
        raise BadValue("the linear programme was not solved", because=str(found.message))
    answers = {each: float(found.x[position]) for each, position in index.items()}
    return WorstDelta(float(-found.fun), at, contest, epsilon, delta, base, answers)
