"""What is leaked, read off the client's own code: every outcome of every respondent, and the exact curve of what is seen.

    report      one report of one respondent; of two rounds, the second one
    linked      both rounds of one respondent, known to be theirs
    counts      the published counts: the sums of marks, and of two rounds the counts of both
    round two   the counts of round two, and nothing else
    published   what is published with noise, with that of one aggregator: of a guarded question the differences of the rounds

The respondent's answer is replaced by another one; the other respondents answer anything, and the worst is taken. Probabilities
of one respondent are exact fractions; those of counts are sums of products of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadValue
from ..mechanism import Mechanism
from ..privacy.rounding import up
from .base import Array, LocalMechanism
from .chance import Chance, every_outcome

Outcome = tuple[int, ...]
Law = dict[Outcome, float]
VIEWS = ("report", "linked", "counts", "round two", "published")
# Sums and products that an enumeration may take.
MOST_WORK = 3e7
# Runs of a client that an enumeration may take, over all answers.
MOST_RUNS = 5e4


@dataclass(frozen=True)
class Contest:
    """What is seen under two answers of one respondent, given the answers of the others: two aligned laws."""

    answer: int
    other_answer: int
    others: tuple[int, ...]
    first: Array
    second: Array
    # The chance of noise too large to be written out, where ratios are no larger than elsewhere; it counts in full.
    rest: float = 0.0

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence: sum of (P - e^epsilon Q)_+."""
        if self.rest and epsilon >= self.epsilon:
            return 0.0
        over = self.first - math.exp(min(epsilon, 700.0)) * self.second
        return min(1.0, up(math.fsum(over[over > 0.0].tolist())) + self.rest)

    @property
    def epsilon(self) -> float:
        """The largest log ratio; infinite where something is possible for one answer only."""
        seen = self.first > 0.0
        if np.any(seen & (self.second == 0.0)):
            return math.inf
        return up(float(np.max(np.log(self.first[seen]) - np.log(self.second[seen]), initial=0.0)))

    @property
    def certain(self) -> float:
        """The chance of seeing something that the other answer makes impossible: delta at every epsilon."""
        return math.fsum(self.first[self.second == 0.0].tolist())


@dataclass(frozen=True)
class Leakage:
    """The exact privacy of one view: the worst over answers, and over what the others answer."""

    view: str
    respondents: int
    contests: tuple[Contest, ...]

    def delta(self, epsilon: float) -> float:
        """The least delta at an epsilon."""
        if not epsilon >= 0.0:
            raise BadValue("epsilon must be at least 0", given=f"epsilon={epsilon}")
        return max(contest.delta(epsilon) for contest in self.contests)

    @property
    def pure_epsilon(self) -> float:
        """The loss with delta 0; infinite where an answer can be proved."""
        return max(contest.epsilon for contest in self.contests)

    @property
    def certain(self) -> float:
        """The chance that an answer is proved: a delta that no epsilon brings down."""
        return max(contest.certain for contest in self.contests)

    def epsilon(self, delta: float) -> float:
        """The least epsilon at a delta; infinite below `certain`."""
        if not 0.0 <= delta < 1.0:
            raise BadValue("delta must be in [0, 1)", given=f"delta={delta}")
        if delta == 0.0 or math.isfinite(self.pure_epsilon):
            low, high = 0.0, self.pure_epsilon
        else:
            low, high = 0.0, 700.0
        if math.isinf(high) or self.delta(high) > delta:
            return high if delta == 0.0 else math.inf
        while high - low > 1e-12 * max(1.0, high):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def views_of(mechanism: LocalMechanism) -> tuple[str, ...]:
    """The views that a mechanism has.

    >>> from dpsurvey.local.randomised_response import warner
    >>> views_of(warner(0.75))
    ('report', 'counts')
    """
    views = VIEWS[:4] if mechanism.rounds > 1 else ("report", "counts")
    return views if mechanism.noise is None else (*views, VIEWS[4])


def leakage(
    mechanism: LocalMechanism,
    view: str = "report",
    respondents: int = 1,
    *,
    others: tuple[int, ...] | None = None,
    answers: tuple[int, int] | None = None,
    most_work: float = MOST_WORK,
) -> Leakage:
    """The exact curve of a view, enumerated from the client's code.

    `others` fixes how many of the other respondents give each answer, `answers` the two answers that are compared, in this
    order; without them the worst is taken. More than `most_work` products are refused.

    >>> from dpsurvey.local.sampling_privacy import sampling_privacy
    >>> counts = leakage(sampling_privacy([0.275, 0.275], 0.45), "counts", 4)
    >>> counts.pure_epsilon, round(counts.certain, 9), round(counts.delta(5.0), 9)
    (inf, 0.45, 0.45)
    """
    if view not in views_of(mechanism):
        raise BadValue(f"{mechanism.title} has no view {view!r}", hint="use one of " + ", ".join(views_of(mechanism)))
    if not mechanism.k:
        raise BadValue("an open domain cannot be enumerated", hint="a listed one with the same epsilon leaks the same")
    if mechanism.paths * mechanism.k > MOST_RUNS:
        raise BadValue(
            "this client has too many sequences of choices to go through",
            given=f"{mechanism.title}, {mechanism.k} categories",
            hint="fewer categories; a hash family is enumerated in its small() version",
        )
    alone = view in ("report", "linked")
    if others is not None:
        if len(others) != mechanism.k or min(others) < 0:
            raise BadValue("others gives a number of respondents for each category", given=f"others={others}")
        respondents = 1 + sum(others)
    if answers is not None and (len(set(answers)) != 2 or not 0 <= min(answers) <= max(answers) < mechanism.k):
        raise BadValue("answers are two different categories", given=f"answers={answers}")
    if respondents < 1 or (alone and respondents > 1):
        raise BadValue(f"the view {view!r} is of one respondent" if alone else "there is at least one respondent")
    single = [_single(mechanism, view, answer) for answer in range(mechanism.k)]
    _check_work(single, respondents, mechanism.k, others, most_work)
    pairs = [answers] if answers else [(one, other) for one in range(mechanism.k) for other in range(mechanism.k) if one != other]
    found = []
    for mixture in [others] if others is not None else list(_mixtures(respondents - 1, mechanism.k)):
        base: Law = {tuple([0] * len(next(iter(single[0])))): 1.0}
        for answer, count in enumerate(mixture):
            for _ in range(count):
                base = _added(base, single[answer])
        laws = {answer: _added(base, single[answer]) for answer in {each for pair in pairs for each in pair}}
        found += [_contest(mechanism, view, pair, tuple(mixture), laws) for pair in pairs]
    return Leakage(view, respondents, tuple(found))


@lru_cache(maxsize=256)
def _single(mechanism: LocalMechanism, view: str, answer: int) -> Law:
    """What one respondent with this answer adds to what is seen, with its probability: all runs of the client."""

    def run(chance: Chance) -> Outcome:
        report = mechanism.randomize(np.array([answer]), chance)
        return SEEN[view](mechanism, report)

    return {outcome: float(chance) for outcome, chance in every_outcome(run).items()}


def _report(mechanism: LocalMechanism, report: Any) -> Outcome:
    return tuple(int(each) for each in (report[0] if mechanism.rounds == 1 else report[0, 1:]))


def _linked(mechanism: LocalMechanism, report: Any) -> Outcome:
    return tuple(int(each) for each in report[0])


def _counts(mechanism: LocalMechanism, report: Any) -> Outcome:
    return tuple(int(each) for turn in range(mechanism.rounds) for each in mechanism.counts(report, turn)[0])


def _round_two(mechanism: LocalMechanism, report: Any) -> Outcome:
    return tuple(int(each) for each in mechanism.counts(report, 1)[0])


def _published(mechanism: LocalMechanism, report: Any) -> Outcome:
    return tuple(int(each) for each in mechanism.adds(report)[0])


SEEN: dict[str, Callable[[LocalMechanism, Any], Outcome]] = {
    "report": _report,
    "linked": _linked,
    "counts": _counts,
    "round two": _round_two,
    "published": _published,
}


def _added(base: Law, single: Law) -> Law:
    """The law of a sum of two independent vectors."""
    law: Law = {}
    for before, chance in base.items():
        for more, own in single.items():
            outcome = tuple(one + other for one, other in zip(before, more, strict=True))
            law[outcome] = law.get(outcome, 0.0) + chance * own
    return law


def _mixtures(count: int, k: int) -> Iterator[tuple[int, ...]]:
    """All ways to give `count` respondents one of k answers each, as numbers of respondents."""
    if k == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _mixtures(count - first, k - 1):
            yield (first, *rest)


def _contest(
    mechanism: LocalMechanism, view: str, pair: tuple[int, int], others: tuple[int, ...], laws: dict[int, Law]
) -> Contest:
    first, second, rest = laws[pair[0]], laws[pair[1]], 0.0
    if view == "published":
        assert mechanism.noise is not None
        largest = 1 + sum(others)
        noise, reach = _noise(mechanism.noise, len(next(iter(first))), largest)
        # Beyond these edges some noise was not written out. Ratios there are those at the edges, so only delta needs the rest.
        first, second = (
            {each: chance for each, chance in _added(law, noise).items() if largest - reach <= min(each) and max(each) <= reach}
            for law in (first, second)
        )
        rest = max(0.0, 1.0 - math.fsum(first.values())) + 1e-15
    outcomes = sorted(set(first) | set(second))
    one, other = (np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (first, second))
    return Contest(*pair, others, one, other, rest)


def _noise(noise: Mechanism, cells: int, largest: int) -> tuple[Law, int]:
    """The discrete Laplace noise of one aggregator on one or two cells, up to a reach, and the reach."""
    if cells > 2:
        raise BadValue("noise is written out for up to three categories", given=f"{cells + 1} categories")
    scale = noise.scale
    q, reach = math.exp(-1.0 / scale), math.ceil(36.0 * scale) + 2 * largest
    one = {(step,): (1.0 - q) / (1.0 + q) * q ** abs(step) for step in range(-reach, reach + 1)}
    law: Law = {(): 1.0}
    for _ in range(cells):
        law = {(*before, *step): chance * own for before, chance in law.items() for step, own in one.items()}
    return law, reach


def _check_work(single: list[Law], respondents: int, k: int, others: tuple[int, ...] | None, most_work: float) -> None:
    largest = max(len(law) for law in single)
    seen = len({outcome for law in single for outcome in law})
    states = min(float(seen) ** respondents, math.comb(respondents + seen - 1, seen - 1))
    mixtures = 1 if others is not None else math.comb(respondents - 1 + k - 1, k - 1)
    if states * largest * respondents * mixtures > most_work:
        raise BadValue(
            "this is too much to enumerate", given=f"{respondents} respondents, {k} categories", hint="fewer respondents"
        )
