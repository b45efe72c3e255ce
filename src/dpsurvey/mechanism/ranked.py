"""Mechanisms that answer from exact counts or order statistics, one row of them for each published number.

They are given secret figures and give back whole numbers: candidates that were chosen, or values on the lattice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ..errors import BadValue
from ..privacy.budget import take_share
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from .base import Norm, Rows
from .exponential import Exponential, rank_scores, weighted_rank_scores, weighted_rank_sensitivity
from .laplace import Laplace
from .order_statistic import Place, global_sensitivity, padded_window, value_at, window_ranks, windowed_smooth_sensitivity
from .propose_test_release import ProposeTestRelease, distance_to_larger
from .smooth import SmoothLaplace

# What stands for an end of an interval that no run was made for.
NO_RUN = -1


@dataclass(frozen=True)
class Targets:
    """What is looked for in one row of counts: ranks (equal weights) or shifts of a share (whole weights); None: no run."""

    runs: tuple[int | None, ...]
    total: int = 0

    @property
    def made(self) -> int:
        """The number of runs that are made."""
        return sum(run is not None for run in self.runs)


@dataclass(frozen=True)
class RankChoices:
    """For each row of a histogram, the leaves that hold some ranks, each by the exponential mechanism.

    With `share` the targets are share * total + shift in steps of weight, where the total is public; without, ranks.
    """

    kind: ClassVar[str] = "exponential"
    norm: ClassVar[Norm] = "L1"
    kurtosis: ClassVar[float] = 0.0
    runs: tuple[Exponential, ...]
    targets: tuple[Targets, ...]
    share: Fraction | None = None

    @classmethod
    def calibrate(
        cls,
        charge: PrivacyProfile,
        targets: tuple[Targets, ...],
        share: Fraction | None = None,
        largest_weight: int = 1,
        *,
        all_places: bool = False,
    ) -> RankChoices:
        """An equal part of the charge for each run of a row that is made; rows are disjoint and have all of it.

        With `all_places`, as up to 0.8, a row also pays for runs that are not made.

        >>> charge = PrivacyProfile.pure(0.6, "replace-one")
        >>> [round(run.epsilon, 6) for run in RankChoices.calibrate(charge, (Targets((1, 5, 9)), Targets((None, 2, 3)))).runs]
        [0.2, 0.3]
        """
        sensitivity = 1 if share is None else weighted_rank_sensitivity(largest_weight, share, Relation.REPLACE_ONE)
        counts = [len(each.runs) if all_places else max(1, each.made) for each in targets]
        by_count = {count: Exponential.calibrate(take_share(charge, 1.0 / count), sensitivity) for count in dict.fromkeys(counts)}
        return cls(tuple(by_count[count] for count in counts), targets, share)

    @property
    def scale(self) -> float:
        """The scale of the Gumbel noise on the scores of the first row."""
        return self.runs[0].scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of a score."""
        return float(self.runs[0].sensitivity)

    @property
    def variance(self) -> float:
        """No additive noise."""
        return 0.0

    def answer(self, rows: Rows) -> Rows:
        """The chosen leaf of every run of every row."""
        found = []
        for row, targets, run in zip(rows, self.targets, self.runs, strict=True):
            up_to = np.cumsum(row)
            below = up_to - np.asarray(row)
            found.append(
                [NO_RUN if target is None else run.choose(self.scores(below, up_to, target, targets)) for target in targets.runs]
            )
        return found

    def scores(self, below: object, up_to: object, target: int, targets: Targets) -> Sequence[int]:
        """How well each leaf fits a target, from the counts below and up to it; any leading axes."""
        if self.share is None:
            return rank_scores(below, up_to, target).tolist()  # type: ignore[no-any-return,arg-type]
        return weighted_rank_scores(below, up_to, targets.total, self.share, target).tolist()  # type: ignore[no-any-return,arg-type]


@dataclass(frozen=True)
class ShareChoices:
    """For one histogram, the leaves in which shares of its total are reached; the total itself stays secret.

    Scores are those of weighted ranks with the total of the histogram, which moves with a record: for one record more or
    less max(q, 1-q) of the largest weight, for one replaced all of it.
    """

    kind: ClassVar[str] = "exponential"
    norm: ClassVar[Norm] = "L1"
    kurtosis: ClassVar[float] = 0.0
    runs: tuple[Exponential, ...]
    shares: tuple[Fraction, ...]

    @classmethod
    def calibrate(
        cls, charge: PrivacyProfile, shares: Sequence[Fraction], largest_weight: int, relation: Relation
    ) -> ShareChoices:
        """An equal part of the charge for each share."""
        part = take_share(charge, 1.0 / len(shares))
        runs = [Exponential.calibrate(part, weighted_rank_sensitivity(largest_weight, share, relation)) for share in shares]
        return cls(tuple(runs), tuple(shares))

    @property
    def scale(self) -> float:
        """The scale of the Gumbel noise of the first run."""
        return self.runs[0].scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity of a score of the first run."""
        return float(self.runs[0].sensitivity)

    @property
    def variance(self) -> float:
        """No additive noise."""
        return 0.0

    def answer(self, rows: Rows) -> Rows:
        """One row: the chosen leaf of every share."""
        up_to = np.cumsum(rows[0])
        below, total = up_to - np.asarray(rows[0]), int(up_to[-1])
        pairs = zip(self.runs, self.shares, strict=True)
        return [[run.choose(weighted_rank_scores(below, up_to, total, share).tolist()) for run, share in pairs]]


@dataclass(frozen=True)
class NoisyOrderStatistic:
    """One order statistic of each row, by noise of the global or the smooth sensitivity, or by propose-test-release.

    Values are whole lattice steps from 0 to `span`; the average of two middle values is counted in half steps. The answer
    is (1, value), or (0, 0) where the test did not pass.
    """

    norm: ClassVar[Norm] = "L1"
    kurtosis: ClassVar[float] = 0.0
    places: tuple[Place, ...]
    reach: int
    span: int
    how: Laplace | SmoothLaplace | ProposeTestRelease

    @property
    def kind(self) -> str:
        """The name of the noise."""
        return f"median by {self.how.kind}"

    @property
    def scale(self) -> float:
        """The scale of the noise where it is public, else not a number."""
        return self.how.scale if isinstance(self.how, Laplace) else float("nan")

    @property
    def sensitivity(self) -> float:
        """The global sensitivity in half steps."""
        return max(global_sensitivity(place, 0.0, 2.0 * self.span) for place in self.places)

    @property
    def variance(self) -> float:
        """The variance of the noise in squared steps, where it is public."""
        return self.how.variance / 4.0 if isinstance(self.how, Laplace) else float("nan")

    def answer(self, rows: Rows) -> Rows:
        """For each row of order statistics in steps: whether it was released, and the noisy value in half steps."""
        return [self._one(row, place) for row, place in zip(rows, self.places, strict=True)]

    def _one(self, row: Sequence[int], place: Place) -> list[int]:
        first, last = window_ranks(place, self.reach)
        window = padded_window([2 * value for value in row[: last - first + 1]], place, self.reach, 0.0, 2.0 * self.span)
        value = round(float(value_at(window, place)))
        if isinstance(self.how, Laplace):
            return [1, self.how.randomize([value])[0]]
        if isinstance(self.how, SmoothLaplace):
            sensitivity = float(windowed_smooth_sensitivity(window, place, self.how.beta, 2.0 * self.span))
            return [1, self.how.randomize(value, min(sensitivity, 2.0 * self.span))]
        released = self.how.randomize(value, int(distance_to_larger(window, place, self.how.bound)))
        return [0, 0] if released is None else [1, released]


def one_rank_or_two(q: float, size: int) -> Place:
    """The place of a quantile: the two middle values for the median of an even number, else the least value with q below it.

    >>> one_rank_or_two(0.5, 6), one_rank_or_two(0.9, 11)
    (Place(lower=3, upper=4, size=6), Place(lower=10, upper=10, size=11))
    """
    if not 0.0 < q < 1.0:
        raise BadValue("a quantile has an order between 0 and 1", given=f"q={q}")
    if q == 0.5:
        return Place.median(size)
    return Place.rank(min(size, max(1, -int(-q * size // 1))), size)
