"""One chunk of simulated surveys of the coverage study, and the verdicts on all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta

from coverage_classical import Classical
from coverage_designs import DESIGNS, Drawn, sampling
from coverage_frame import Array, make_population
from coverage_grid import EPSILONS, Asked, Scenario, asked, plan_of
from coverage_norms import answer_of, noisy_of_clusters
from coverage_sums import Summation, answered
from dpsurvey.mechanism.cluster_norm import SumsAndNorms
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.encodings import TreeCounts
from dpsurvey.statistic.noisy_sums import NoisySums
from dpsurvey.survey.plan import Item, Plan

AIM, CONFIDENCE, CONSERVATIVE = 0.95, 0.999, 0.975
CHUNK = 2_000
SEED = 20260303
# Doubles that noisy sums may take at once.
AT_ONCE = 1_000_000


@dataclass
class Tally:
    """Surveys, those whose interval covers, private and classical, and those that only one of the two covers; widths; notes."""

    surveys: int = 0
    covered: int = 0
    classical: int = 0
    differ: int = 0
    width: float = 0.0
    classical_width: float = 0.0
    notes: dict[str, int] = field(default_factory=dict)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("surveys", "covered", "classical", "differ", "width", "classical_width"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for note, times in other.notes.items():
            self.notes[note] = self.notes.get(note, 0) + times
        return self


class Chunk:
    """Simulated surveys of one design and size: samples, their exact sums and classical intervals.

    `noted` is the number of releases whose notes are counted; `wanted` names the statistics, all of them if empty.
    """

    def __init__(
        self, design: str, n: int, surveys: int, seed: int, *, copies: int = 40, noted: int = 0, wanted: Iterable[str] = ()
    ) -> None:
        self.design, self.n, self.surveys, self.copies, self.noted = design, n, surveys, copies, noted
        self.numbers = [each for each in asked(design) if not wanted or each.name in wanted]
        self.random = np.random.default_rng([SEED, DESIGNS.index(design), n, seed])
        here = sampling(design, n, copies)
        queries = {
            plan_of(design, n, epsilon, each.statistic, copies).items[0].query: None
            for epsilon in EPSILONS
            for each in self.numbers
        }
        self.summation = _summation(design, n, copies, tuple(queries))
        classical = _classical(design, n, copies)
        self.drawn: list[Drawn] = [here.draw(self.random) for _ in range(surveys)]
        self.exact: dict[Query, Array] = {
            query: np.empty((surveys, query.cells, query.components)) for query in self.summation.places
        }
        self.intervals: list[dict[tuple[str, ...], tuple[float, float]]] = []
        for index, drawn in enumerate(self.drawn):
            for query, sums in self.summation.of(drawn).items():
                self.exact[query][index] = sums
            self.intervals.append(classical.intervals(drawn))

    def tallies(self, epsilons: Iterable[float] = EPSILONS) -> Iterator[tuple[Scenario, Tally]]:
        """Each number at each epsilon: noise, estimate, compare."""
        for epsilon in epsilons:
            found: dict[tuple[str, Query], Tally] = {}
            for each in self.numbers:
                key = each.population, plan_of(self.design, self.n, epsilon, each.statistic, self.copies).items[0].query
                # A total is the size of the frame times the mean, from the same noisy sums, unless its query is another.
                if each.name == "total" and key in found:
                    yield Scenario(self.design, self.n, epsilon, each), found[key]
                    continue
                tally = self.tally(each, epsilon)
                if each.name == "mean":
                    found[key] = tally
                yield Scenario(self.design, self.n, epsilon, each), tally

    def tally(self, number: Asked, epsilon: float) -> Tally:
        """One number at one epsilon."""
        truth = make_population(self.copies).truth(*number.truth)
        low, high, notes = self.private(number.statistic, epsilon)
        ends = np.array([each[number.classical] for each in self.intervals])
        private, classical = (low <= truth) & (truth <= high), (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        return Tally(
            self.surveys,
            int(private.sum()),
            int(classical.sum()),
            int((private != classical).sum()),
            # Medians, because the interval of a ratio may be endless; times surveys, so that chunks add up.
            float(np.median(high - low)) * self.surveys,
            float(np.median(ends[:, 1] - ends[:, 0])) * self.surveys,
            notes,
        )

    def private(self, statistic: Statistic, epsilon: float) -> tuple[Array, Array, dict[str, int]]:
        """Both ends of the private intervals of all surveys; and how often a note stands beside the first few."""
        plan = plan_of(self.design, self.n, epsilon, statistic, self.copies)
        item = plan.items[0]
        query = item.query
        found, notes = [], Counter[str]()
        step = max(1, AT_ONCE // (query.cells * query.components))
        if query.clusters is not None:
            step = max(1, step // len(self.drawn[0].starts))
        for start in range(0, self.surveys, step):
            noisy = self.answers(plan, item, slice(start, start + step), self.random)
            found.append(self._ends(plan, item, noisy))
            for survey in range(min(step, max(0, self.noted - start))):
                one = answer_of(noisy, survey) if isinstance(noisy, NoisySums) else noisy[survey]
                notes += Counter(note.split(":")[0] for note in plan.estimate(item, statistic, one).notes[0])
        lows, highs = zip(*found, strict=True)
        return np.concatenate(lows), np.concatenate(highs), dict(notes)

    def answers(self, plan: Plan, item: Item, here: slice, random: np.random.Generator) -> Array | NoisySums:
        """What the mechanism would answer in some of the surveys."""
        query = item.query
        if isinstance(item.mechanism, SumsAndNorms):
            totals = [self.summation.clusters(query, drawn) for drawn in self.drawn[here]]
            return noisy_of_clusters(plan, item, totals, random)
        if isinstance(query.encoding, TreeCounts):
            return answered(np.stack([self.summation.tree(query, drawn) for drawn in self.drawn[here]]), item, random)
        return answered(self.exact[query][here], item, random)

    @staticmethod
    def _ends(plan: Plan, item: Item, noisy: Array | NoisySums) -> tuple[Array, Array]:
        if isinstance(noisy, np.ndarray) and item.query.encoding.name == "yes" and noisy[0].size == 1 and item.query.steps == 1:
            # Whole numbers repeat, and the exact interval of small counts is slow: each of them once.
            counts, at = np.unique(noisy, return_inverse=True)
            ends = np.array([_counted(plan, float(count)) for count in counts])[at.ravel()]
            return ends[:, 0], ends[:, 1]
        numbers = plan.estimate(item, item.statistics[0], noisy)
        return numbers.low[:, 0], numbers.high[:, 0]


_ENDS: dict[tuple[int, float], tuple[float, float]] = {}


def _counted(plan: Plan, count: float) -> tuple[float, float]:
    # Plans are kept for good by `plan_of`, so their identity names them.
    key = id(plan), count
    if key not in _ENDS:
        numbers = plan.estimate(plan.items[0], plan.statistics[0], np.array([[count]]))
        _ENDS[key] = float(numbers.low[0]), float(numbers.high[0])
    return _ENDS[key]


@lru_cache(maxsize=1)
def _summation(design: str, n: int, copies: int, queries: tuple[Query, ...]) -> Summation:
    return Summation(sampling(design, n, copies), list(queries))


@lru_cache(maxsize=1)
def _classical(design: str, n: int, copies: int) -> Classical:
    return Classical(sampling(design, n, copies))


def clopper_pearson(hits: int, trials: int) -> tuple[float, float]:
    """The exact 99.9 % interval of a coverage."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    return low, float(beta.ppf(1.0 - tail, hits + 1, trials - hits)) if hits < trials else 1.0


def verdict(tally: Tally) -> str:
    """ok, conservative or fails, each beyond 99.9 % of doubt.

    A private interval may cover less than 95 % only where the classical one does too, and by no more than one point less.
    """
    low, high = clopper_pearson(tally.covered, tally.surveys)
    if high >= AIM:
        return "conservative" if low > CONSERVATIVE else "ok"
    gain = (tally.covered - tally.classical) / tally.surveys
    doubt = float(ndtri(0.5 + CONFIDENCE / 2.0)) * math.sqrt(max(tally.differ / tally.surveys - gain**2, 0.0) / tally.surveys)
    classical_fails = clopper_pearson(tally.classical, tally.surveys)[1] < AIM
    return "ok" if classical_fails and gain + doubt >= -0.01 else "fails"


def row_of(scenario: Scenario, tally: Tally, noted: int) -> dict[str, Any]:
    """A row of the table; notes are those beside at least half of the `noted` releases."""
    said = [note for note, times in sorted(tally.notes.items()) if 2 * times >= noted]
    ratio = tally.width / tally.classical_width if tally.classical_width else math.nan
    plan = plan_of(scenario.design, scenario.n, scenario.epsilon, scenario.asked.statistic)
    low, high = clopper_pearson(tally.covered, tally.surveys)
    return {
        "name": scenario.name,
        "design": scenario.design,
        "statistic": scenario.asked.name,
        "population": scenario.asked.population,
        "n": scenario.n,
        "epsilon": scenario.epsilon,
        "surveys": tally.surveys,
        "private": tally.covered / tally.surveys,
        "low": low,
        "high": high,
        "classical": tally.classical / tally.surveys,
        "width ratio": ratio,
        "verdict": verdict(tally),
        "plan warns": bool(plan.advice),
        "notes": said,
    }
