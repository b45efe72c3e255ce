"""Unequal probabilities: units drawn with probabilities in proportion to a measure of size."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import BadValue, did_you_mean
from ...loss.refused import Refused
from ...loss.transport import profile_of
from ...loss.worst_case.contest import Contest
from ...loss.worst_case.programme import MOST_SPREAD, worst_loss
from ...privacy.curve import Curve
from ...privacy.rounding import amplified, below, log_mixture, up
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_rate
from .independent import Independent

Method = Literal["poisson", "conditional-poisson", "sampford", "pivotal", "pareto", "systematic"]
METHODS: tuple[Method, ...] = ("poisson", "conditional-poisson", "sampford", "pivotal", "pareto", "systematic")
# Units up to which the linear programme is solved for every one of them.
SMALL = 10
PROVED = "docs/designs/pps.md, covering"
SOURCES = {
    "conditional-poisson": f"{PROVED} (proved)",
    "sampford": f"{PROVED}: strongly Rayleigh (Brändén and Jonasson 2012), hence covering (Pemantle and Peres 2014)",
    "pivotal": f"{PROVED}: strongly Rayleigh (Borcea, Brändén and Liggett 2009), hence covering (Pemantle and Peres 2014)",
}
SIZES_PUBLIC = "the measure of size is a public column that does not change with the record's values, and so is its normaliser"
EXACT_PROBABILITIES = "the draw has exactly the stated inclusion probabilities"


@dataclass(frozen=True)
class UnequalProbabilities(Selection):
    """Units with inclusion probabilities pi_i, drawn by a method. With a public measure of size and a method whose
    samples can be matched by one exchange ("covering"), replace-one loses log(1 + pi_i(e^R - 1)), exactly.

    >>> from dpsurvey.design.selection.base import Losses
    >>> design = UnequalProbabilities((0.3, 0.7, 1.0), "public", "sampford")
    >>> round(design.bound(Losses.of(1.0, "replace-one"), "replace-one").details["per_unit"][0], 10)
    0.4157352218
    """

    kind: ClassVar[str] = "pps"
    probabilities: tuple[float, ...]
    measure: Literal["public", "confidential"]
    method: Method

    def __post_init__(self) -> None:
        if not self.probabilities:
            raise BadValue("probabilities must name at least one unit")
        for each in self.probabilities:
            check_rate("probabilities", each)
        if self.measure not in ("public", "confidential"):
            raise BadValue(f"unknown measure {self.measure!r}", hint="public or confidential")
        if self.method not in METHODS:
            raise BadValue(f"unknown method {self.method!r}", hint=did_you_mean(str(self.method), METHODS))
        if self.method != "poisson" and abs(self.total - round(self.total)) > 1e-6:
            raise BadValue(
                "probabilities of a fixed-size method must sum to a whole number",
                given=f"sum {self.total:.9g}",
                hint="the sum is the sample size",
            )

    @property
    def total(self) -> float:
        """The expected sample size."""
        return math.fsum(self.probabilities)

    @property
    def inclusion(self) -> float:
        return max(self.probabilities)

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.method != "poisson"

    @property
    def depends_on_data(self) -> float:
        return 1.0 if self.measure == "public" else math.inf

    @property
    def detection_steps(self) -> float:
        return float(round(self.total)) if self.method == "systematic" else 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if self.measure == "confidential":
            return Refused(
                "the inclusion probabilities are computed from confidential sizes: one record moves everybody's probability",
                "a measure of size that is public, or Poisson sampling with classes of public rates",
                "docs/designs/pps.md: at epsilon 1 the loss is 3.6, 4.7, 5.8 for 2 of 5, 3 of 6, 4 of 7 units",
            )
        if self.method == "poisson":
            return Independent(self.probabilities).bound(losses, neighbours)
        if neighbours == "add-remove":
            return Refused(
                "with one unit more or less a fixed-size method has other probabilities for everybody",
                'neighbours="replace-one", or Poisson sampling with pi = c size and a declared c',
                "rule of declared normalisers, docs/designs/pps.md",
            )
        if self.method == "pareto":
            return Refused(
                "Pareto sampling does not have the stated inclusion probabilities exactly, and its covering is not proved here",
                "conditional Poisson, Sampford or pivotal sampling with the same probabilities",
                PROVED,
            )
        if self.method == "systematic":
            return self._systematic(losses)
        values = [up(log_mixture((p, losses.replace_one))) for p in self.probabilities]
        top = max(values)
        holds = (SECRET, PUBLIC, SAMPLE_ONLY, SIZES_PUBLIC, EXACT_PROBABILITIES)
        return Bound(top, below(top), True, SOURCES[self.method], holds_when=holds, details={"per_unit": values})

    def _systematic(self, losses: Losses) -> Bound:
        """One random start: a sample without the unit may share nothing with any sample that has it."""
        steps = losses.swap(round(self.total), round(self.total))
        uppers = [_one_start(p, losses.replace_one, steps) for p in self.probabilities]
        top = max(uppers)
        lower = max(below(log_mixture((p, losses.replace_one))) for p in self.probabilities)
        holds = (SECRET, PUBLIC, SAMPLE_ONLY, SIZES_PUBLIC, "the order of the units is public and does not change")
        details = {"per_unit": uppers, "never": "log(1 + pi(e^epsilon - 1)) is not a bound for systematic sampling"}
        source = "docs/designs/pps.md, one random start"
        epsilon = losses.replace_one if losses.base == "replace-one" else losses.add_remove
        typed = losses.base != "add-remove" or losses.replace_one == 2.0 * losses.add_remove
        if len(self.probabilities) <= SMALL and typed and 2.0 * self.total * epsilon <= MOST_SPREAD:
            worst = [worst_loss(self._contest(i), epsilon, losses.base) for i in range(len(self.probabilities))]
            top, lower = min(top, max(each.upper for each in worst)), max(each.lower for each in worst)
            lower = min(lower, top)
            exact = top - lower <= 1e-6 * lower
            return Bound(top, lower, exact, source, holds_when=holds, certified_by="linear programme", details=details)
        return Bound(top, min(lower, top), top == lower, source, holds_when=holds, details=details)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if self.method == "poisson":
            return Independent(self.probabilities).sharper(base, losses, neighbours, alpha)
        replaced, p = profile_of(base.steps(2) if losses.base == "add-remove" else base), self.inclusion
        return p * (replaced(alpha) if self.method == "systematic" else replaced(1.0 + (alpha - 1.0) / p))

    def contest(self, neighbours: Neighbours) -> Contest | None:
        if self.method != "systematic" or neighbours != "replace-one" or len(self.probabilities) > 2 * SMALL:
            return None
        return self._contest(max(range(len(self.probabilities)), key=lambda i: self.probabilities[i] % 1.0))

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        if self.contest(neighbours) is None:
            return []
        return [self._contest(i) for i in range(len(self.probabilities))]

    def _contest(self, target: int) -> Contest:
        laws: list[dict[tuple[int, ...], float]] = [{}, {}]
        for chosen, probability in systematic_samples(self.probabilities).items():
            others = tuple(int(i in chosen and i != target) for i in range(len(self.probabilities)))
            here = int(target in chosen)
            for law, tail in zip(laws, ((here, 0), (0, here)), strict=True):
                law[others + tail] = law.get(others + tail, 0.0) + probability
        units = tuple(int(i != target) for i in range(len(self.probabilities)))
        return Contest((*units, 1, 0), laws[0], (*units, 0, 1), laws[1])


def _one_start(p: float, replaced: float, steps: float) -> float:
    """log(1 + p(e^R - 1)/(p + (1-p) e^(R - steps))): every sample without the unit is within `steps` of one with it."""
    far = (1.0 - p) * math.exp(max(-700.0, min(0.0, replaced - steps)))
    return min(replaced, up(amplified(replaced, min(1.0, p / (p + far)))))


def systematic_samples(probabilities: tuple[float, ...]) -> dict[frozenset[int], float]:
    """Every sample of systematic sampling with one uniform start and its probability.

    >>> sorted(map(sorted, systematic_samples((0.5, 0.5, 0.5, 0.5))))
    [[0, 2], [1, 3]]
    """
    ends = list(itertools.accumulate(probabilities, initial=0.0))
    cuts = sorted({round(end % 1.0, 12) for end in ends} | {0.0, 1.0})
    samples: dict[frozenset[int], float] = {}
    for low, high in itertools.pairwise(cuts):
        start = (low + high) / 2.0
        chosen = frozenset(i for i in range(len(probabilities)) if math.floor(ends[i + 1] - start) > math.floor(ends[i] - start))
        samples[chosen] = samples.get(chosen, 0.0) + high - low
    return samples
