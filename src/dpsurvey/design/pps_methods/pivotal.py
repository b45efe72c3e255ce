"""Pivotal sampling in random order: units meet in pairs, and each meeting settles the fate of one."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .base import PROVED, Array, Joint, Method, Sampler, Units
from .conditional_poisson import ConditionalPoisson

# Exact joint probabilities visit every subset of the units.
EXACT_UNITS = 11
# Against the exact table, 3 to 6 of 11 or 12 units: joint probabilities off by up to 7 % (typically 3 %), variances of totals
# by up to 2.3 %. Against up to a million draws, 10 of 40 and 60 of 300 units: variances off by up to 1.2 %. On the small frames
# the closed forms of Hájek, Brewer and Donadio, and Deville were worse: variances off by up to 11 %, 23 % and 4.3 %.
APPROXIMATION = (
    "approximation: joint probabilities of greatest entropy with the same pi; the high-entropy principle of "
    "Brewer and Donadio 2003, Survey Methodology 29, 189-196"
)


class Pivotal(Method):
    """Units come in random order; the survivor, with a, meets the next unit, with b.

    If a + b < 1, one of them goes on with a + b (the survivor with chance a / (a + b)) and the other is out. Otherwise
    one is drawn and the other goes on with a + b - 1; the survivor is drawn with chance (1 - b) / (2 - a - b). Each
    meeting keeps the expectation of both, so the inclusion probabilities are exactly pi, in one pass of O(N).

    Deville and Tillé 1998, Biometrika 85, 89-101; random order: Chauvet 2012, Bernoulli 18, 1320-1340.

    >>> Pivotal().draw(np.full(10, 0.3), np.random.Generator(np.random.PCG64(1))).size
    3
    """

    name: ClassVar[str] = "pivotal"
    covering: ClassVar[str] = (
        f"{PROVED}: strongly Rayleigh (Borcea, Brändén and Liggett 2009), hence covering (Pemantle and Peres 2014)"
    )

    def _sampler(self, pi: Array, n: int) -> Sampler:
        def sample(generator: np.random.Generator) -> Units:
            order = generator.permutation(pi.size)
            chances, luck = pi[order].tolist(), generator.random(pi.size).tolist()
            places = order.tolist()
            chosen: list[int] = []
            survivor, a = places[0], chances[0]
            for place, b, u in zip(places[1:], chances[1:], luck[1:], strict=True):
                together = a + b
                if together < 1.0:
                    if u * together >= a:
                        survivor = place
                    a = together
                elif u * (2.0 - together) < 1.0 - b:
                    chosen.append(survivor)
                    survivor, a = place, together - 1.0
                else:
                    chosen.append(place)
                    a = together - 1.0
            # The probabilities add to a whole number, so up to rounding the last survivor has 0 or 1.
            if a > 0.5:
                chosen.append(survivor)
            return np.sort(np.array(chosen, dtype=np.int64))

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        if pi.size <= EXACT_UNITS:
            return Joint(_average_over_orders(pi, n), True, "average over all orders, meeting by meeting")
        return Joint(ConditionalPoisson()._joint(pi, n).matrix, False, APPROXIMATION)


def _average_over_orders(pi: Array, n: int) -> Array:
    """Joint probabilities by a walk over the sets of units that have come so far.

    What the survivor carries is the fractional part of the sum over the set, whatever the order was; so a state is
    the set and the survivor. `drawn[k]` holds, for survivor k, the chance of the state (at [N, N]) with no, one or two
    given units drawn: an extra row and column N stand for "no condition".
    """
    units = pi.size
    everyone = (1 << units) - 1
    totals = [math.fsum(pi[i] for i in range(units) if held >> i & 1) for held in range(everyone + 1)]
    # Sums that should be whole are; otherwise a unit could be drawn in one state and forgotten in the next.
    whole = [math.floor(total + 1e-9) for total in totals]
    states: dict[int, Array] = {}
    for first in range(units):
        start = np.zeros((units, units + 1, units + 1))
        start[first, units, units] = 1.0 / units
        states[1 << first] = start
    for held in range(1, everyone):
        # Every way into this set comes from a smaller one, which has a smaller number.
        drawn = states.pop(held)
        a = max(totals[held] - whole[held], 0.0)
        left = [i for i in range(units) if not held >> i & 1]
        for new in left:
            after = held | 1 << new
            target = states.setdefault(after, np.zeros_like(drawn))
            b, share = float(pi[new]), drawn / len(left)
            if whole[after] == whole[held]:
                stays = a / (a + b)
                target += stays * share
                target[new] += (1.0 - stays) * share.sum(axis=0)
            else:
                first_wins = min(1.0, (1.0 - b) / max(2.0 - a - b, 1.0 - b))
                for k in range(units):
                    if held >> k & 1:
                        target[new] += first_wins * _with(share[k], k)
                        target[k] += (1.0 - first_wins) * _with(share[k], new)
    final = states[everyone]
    if whole[everyone] < n:
        return np.asarray(sum(_with(final[k], k) for k in range(units)))[:units, :units]
    matrix = np.asarray(final.sum(axis=0)[:units, :units])
    np.fill_diagonal(matrix, pi)
    return matrix


def _with(drawn: Array, unit: int) -> Array:
    """The conditions met when `unit` is drawn as well."""
    result = drawn.copy()
    result[unit, :] = drawn[-1, :]
    result[:, unit] = drawn[:, -1]
    result[unit, unit] = drawn[-1, -1]
    return result
