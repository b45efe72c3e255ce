"""The exponential mechanism: choose one of several public candidates by noisy scores. Pure and zCDP.

OpenDP adds Gumbel noise to every score and reports the index of the largest, which is the exponential mechanism. Its
noisy max for max-divergence adds exponential noise instead (another law, permute-and-flip), so the Gumbel one is used
for both accounting measures. Proofs: docs/proofs/medians.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import BadValue
from ..privacy.budget import amount
from ..privacy.measure import Measure, counted
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import up
from .base import LARGEST_SCALE, LARGEST_SUM, opendp

Scores = npt.NDArray[np.int64]
# Scores of weighted ranks are this many times smaller than what 64 bits hold.
LARGEST_WEIGHT = 2**60


@dataclass(frozen=True)
class Exponential:
    """P(candidate) proportional to e^(score/scale), scale = 2 sensitivity/epsilon: epsilon-DP and epsilon^2/8-zCDP.

    `sensitivity` is the most that one score can move between neighbours; candidates are public, scores are whole numbers.

    >>> Exponential.calibrate(PrivacyProfile.pure(0.5, "replace-one"), sensitivity=1).epsilon <= 0.5
    True
    >>> round(Exponential.calibrate(PrivacyProfile.zcdp(0.5, "replace-one"), sensitivity=1).epsilon, 9)
    2.0
    """

    kind: ClassVar[str] = "exponential"
    scale: float
    sensitivity: int
    measure: Measure

    def __post_init__(self) -> None:
        if self.sensitivity != int(self.sensitivity) or not 1 <= self.sensitivity <= LARGEST_SUM:
            raise BadValue("a score moves by a whole number, at least 1", given=f"sensitivity={self.sensitivity}")
        if not 0.0 < self.scale <= LARGEST_SCALE:
            raise BadValue("the noise scale is out of range", given=f"scale={self.scale}")

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: int) -> Exponential:
        """The least noise that keeps a pure or a zCDP charge: epsilon itself, or epsilon = sqrt(8 rho)."""
        paid, (measure, _) = amount(charge), counted(charge)
        if not paid > 0.0:
            raise BadValue("a choice needs a positive charge")
        if measure is Measure.MU:
            raise BadValue("a choice is charged in epsilon or in rho", hint='noise="laplace" or "gaussian" for the whole plan')
        rho = measure is Measure.RHO
        mechanism = cls(up(2.0 * sensitivity / (math.sqrt(8.0 * paid) if rho else paid)), sensitivity, measure)
        if (mechanism.epsilon**2 / 8.0 if rho else mechanism.epsilon) > paid:
            raise BadValue("the noise scale is out of range", given=f"charge={paid}, sensitivity={sensitivity}")
        return mechanism

    @property
    def epsilon(self) -> float:
        """2 sensitivity / scale: the width of the range of the privacy loss, hence also a bound on it."""
        return 2.0 * self.sensitivity / self.scale

    def profile(self, relation: Relation) -> PrivacyProfile:
        """The proved profile, in the accounting measure of the charge."""
        if self.measure is Measure.RHO:
            return PrivacyProfile.zcdp(up(self.epsilon**2 / 8.0), relation)
        return PrivacyProfile.pure(up(self.epsilon), relation)

    def choose(self, scores: Sequence[int]) -> int:
        """The index of a candidate, the likelier the higher its score."""
        whole = [int(score) for score in scores]
        if not whole or any(score != given for score, given in zip(whole, scores, strict=True)):
            raise BadValue("scores must be whole numbers, at least one of them")
        if any(abs(score) > LARGEST_SUM for score in whole):
            raise BadValue("a score is too large for 64 bits", hint="use smaller weights")
        measurement = self._measurement()
        if measurement.map(self.sensitivity) > up(self.epsilon**2 / 8.0) * (1.0 + 1e-9):
            raise BadValue("OpenDP's privacy map exceeds the planned rho")
        return int(measurement(whole))

    def _measurement(self) -> Any:
        dp = opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=self.scale)


def rank_scores(below: npt.ArrayLike, at_or_below: npt.ArrayLike, rank: int) -> Scores:
    """How far each candidate t is from being the rank-th smallest value: -max(0, #{x < t} - (rank - 1), rank - #{x <= t}).

    0 exactly where t is that value. Sensitivity 1, for a record replaced and for one added or removed at a fixed rank.

    >>> rank_scores([0, 1, 3, 3], [1, 3, 3, 5], rank=2).tolist()
    [-1, 0, -2, -2]
    """
    under, up_to = _counts(below), _counts(at_or_below)
    return -np.maximum(0, np.maximum(under - (rank - 1), rank - up_to))


def weighted_rank_scores(below: npt.ArrayLike, at_or_below: npt.ArrayLike, total: int, share: Fraction, shift: int = 0) -> Scores:
    """The same for weights: -b max(0, W(x < t) - target, target - W(x <= t)), target = q total + shift, q = share = a/b.

    Weights are whole numbers; `below` and `at_or_below` are sums of them, `total` is the sum of all, `shift` is public.

    >>> weighted_rank_scores([0, 10, 30], [10, 30, 50], 50, Fraction(1, 2)).tolist()
    [-30, 0, -10]
    """
    if not 0 < share < 1:
        raise BadValue("a share must be between 0 and 1", given=f"share={share}")
    if share.denominator * (int(total) + abs(int(shift))) > LARGEST_WEIGHT:
        raise BadValue("the weights are too large for 64 bits", hint="use coarser weights")
    target = share.numerator * int(total) + share.denominator * int(shift)
    under, up_to = share.denominator * _counts(below), share.denominator * _counts(at_or_below)
    return -np.maximum(0, np.maximum(under - target, target - up_to))


def weighted_rank_sensitivity(largest_weight: int, share: Fraction, relation: Relation) -> int:
    """The sensitivity of `weighted_rank_scores` for weights up to `largest_weight`, with q = a/b.

    One record more or less: max(a, b - a) largest_weight. One record replaced, whatever the two weights: b largest_weight.

    >>> weighted_rank_sensitivity(8, Fraction(1, 4), "add-remove"), weighted_rank_sensitivity(8, Fraction(1, 4), "replace-one")
    (24, 32)
    """
    if relation == Relation.ADD_REMOVE:
        return max(share.numerator, share.denominator - share.numerator) * largest_weight
    return share.denominator * largest_weight


def _counts(values: npt.ArrayLike) -> Scores:
    counts = np.asarray(values)
    if not np.issubdtype(counts.dtype, np.integer):
        raise BadValue("counts and sums of weights must be whole numbers")
    return counts.astype(np.int64)
