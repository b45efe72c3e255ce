"""Laplace noise that follows the data: its scale is a smooth bound on the local sensitivity. Approximate privacy.

The value and its sensitivity are in whole steps of a public lattice that every record is rounded to *before* anything is
ranked, so data sets of steps are neighbours when the records' are, and a neighbour moves the value by whole steps. The
noise is OpenDP's discrete Laplace. Proofs: docs/proofs/medians.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ..errors import BadData, BadValue
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.rounding import down, up
from .base import LARGEST_SCALE
from .laplace import Laplace

# Floats hold whole steps exactly up to here.
LARGEST_SPAN = 2**52
# What floating point may add to |log(S/S')|: below 1e-12 for a window, 1e-9 for an envelope of a million lines.
ROUNDING = 1e-9
SMALLEST = 1e-300


def smooth_delta(epsilon: float, alpha: float, beta: float) -> float:
    """The exact delta of continuous Laplace noise with scale S/alpha, S a beta-smooth bound, rounded up.

    (1 - e^-beta) exp(-(epsilon + beta)/(e^beta - 1)) cosh(alpha/(e^beta - 1)), the worst case over shifts of at most
    min(S, S') and |log(S/S')| <= beta. Holds when max(alpha, beta + alpha e^-beta) <= epsilon, and is refused otherwise.

    >>> round(smooth_delta(1.0, 0.5, 0.04718), 10)
    2.777e-07
    """
    if not _within(epsilon, alpha, beta):
        raise BadValue(
            "alpha and beta must be positive, and both alpha and beta + alpha e^-beta at most epsilon",
            given=f"epsilon={epsilon}, alpha={alpha}, beta={beta}",
        )
    # What is too large for a float makes the first two terms 0 and the third log 2, the most that they can be.
    growth = math.expm1(beta) if beta < 700.0 else math.inf
    terms = (
        math.log(-math.expm1(-beta)),
        (alpha - epsilon - beta) / growth,
        math.log1p(math.exp(-2.0 * alpha / growth)),
        -math.log(2),
    )
    # Each term has a relative rounding error of a few units in the last place; the logarithm is raised by more than that.
    slack = 2e-15 * math.fsum([abs(epsilon + alpha + beta) / growth, *map(abs, terms)])
    # Never 0, whatever floats can hold: no smooth noise is pure.
    return min(1.0, max(SMALLEST, up(math.exp(math.fsum(terms) + slack))))


def lattice_factor(least_scale: float) -> float:
    """How much larger the delta of discrete noise can be than that of continuous: e^(tanh(1/(2b))/(2b)), b the least scale.

    >>> lattice_factor(1000.0) < 1.0000003, round(lattice_factor(1.0), 3)
    (True, 1.26)
    """
    if not least_scale > 0.0:
        raise BadValue("a noise scale must be positive")
    half = 0.5 / least_scale
    return up(math.exp(half * math.tanh(half))) if half < 700.0 else math.inf


def calibrated(epsilon: float, delta: float) -> tuple[float, float]:
    """alpha = epsilon/2 and the largest beta whose exact delta is at most `delta`; rounded to the private side.

    >>> alpha, beta = calibrated(1.0, 5e-5)
    >>> alpha, round(beta, 5)
    (0.5, 0.08367)
    """
    _check_target(epsilon, delta)
    alpha = epsilon / 2.0
    return alpha, _largest(lambda beta: _within(epsilon, alpha, beta) and smooth_delta(epsilon, alpha, beta) <= delta, epsilon)


def printed(epsilon: float, delta: float) -> tuple[float, float, float]:
    """The recipe as it is usually printed, alpha = epsilon/2 and beta = epsilon/(2 log(2/delta)), and the delta it really has.

    Refused where that is more than the delta asked for, which happens for epsilon above about 11 to 14.

    >>> alpha, beta, real = printed(1.0, 5e-5)
    >>> alpha, round(beta, 5), real < 2.8e-7
    (0.5, 0.04718, True)
    """
    _check_target(epsilon, delta)
    alpha, beta = epsilon / 2.0, epsilon / (2.0 * math.log(2.0 / delta))
    real = smooth_delta(epsilon, alpha, beta) if _within(epsilon, alpha, beta) else 1.0
    if real > delta:
        raise BadValue(
            "the printed recipe does not keep this delta",
            given=f"epsilon={epsilon}, delta={delta}",
            hint="calibrate beta, or ask for a smaller epsilon",
        )
    return alpha, beta, real


@dataclass(frozen=True)
class SmoothLaplace:
    """Discrete Laplace noise of scale max(S, floor)/alpha on one order statistic, S its beta-smooth sensitivity in steps.

    `span` is high - low and `floor` the least S, both public and in steps. Replace-one neighbours, public size.

    >>> mechanism = SmoothLaplace.calibrate(1.0, 5e-5, span=2_000_000, floor=100)
    >>> round(mechanism.beta, 5), mechanism.delta <= 5e-5
    (0.08367, True)
    """

    kind: ClassVar[str] = "smooth laplace"
    epsilon: float
    alpha: float
    beta: float
    span: int
    floor: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.span <= LARGEST_SPAN:
            raise BadValue(
                "the floor must be at least one step and the range at most 2^52 steps",
                given=f"floor={self.floor}, range={self.span}",
            )
        if self.span / self.alpha > LARGEST_SCALE / 2.0:
            raise BadValue("the noise could be larger than 64 bits hold", hint="use a coarser lattice")
        if not (self.beta > 0.0 and _within(self.epsilon, self.alpha, self.beta + ROUNDING)):
            raise BadValue("alpha and beta do not keep this epsilon", given=f"epsilon={self.epsilon}")

    @classmethod
    def calibrate(cls, epsilon: float, delta: float, *, span: int, floor: int = 1) -> SmoothLaplace:
        """The largest beta with a proved delta of at most `delta`, for noise in whole steps."""
        _check_target(epsilon, delta)
        if floor < 1:
            raise BadValue("the floor must be at least one step", given=f"floor={floor}")
        alpha, beta = calibrated(epsilon, delta * (1.0 - 1e-12) / lattice_factor(2.0 * floor / epsilon))
        mechanism = cls(epsilon, alpha, down(beta - ROUNDING), span, floor)
        if mechanism.delta > delta:
            raise BadValue("the noise scale is out of range", given=f"epsilon={epsilon}, delta={delta}")
        return mechanism

    @classmethod
    def as_printed(cls, epsilon: float, delta: float, *, span: int, floor: int = 1) -> SmoothLaplace:
        """The printed recipe, refused where its proved delta is more than the one asked for."""
        alpha, beta, _ = printed(epsilon, delta)
        mechanism = cls(epsilon, alpha, beta, span, floor)
        if mechanism.delta > delta:
            raise BadValue(
                "the printed recipe does not keep this delta in whole steps",
                given=f"epsilon={epsilon}, delta={delta}, floor={floor}",
                hint="calibrate beta, or raise the floor",
            )
        return mechanism

    @property
    def delta(self) -> float:
        """The proved delta at `epsilon`: the exact continuous one times what whole steps may add."""
        factor = lattice_factor(self.floor / self.alpha)
        return min(1.0, up(smooth_delta(self.epsilon, self.alpha, self.beta + ROUNDING) * factor))

    def profile(self, relation: Relation) -> PrivacyProfile:
        """(epsilon, delta) under replace-one; nothing is known about records that come or go."""
        if relation != Relation.REPLACE_ONE:
            raise BadValue("smooth sensitivities are those of replacing one record", given=f"relation={relation!r}")
        return PrivacyProfile.approximate(self.epsilon, self.delta, Relation.REPLACE_ONE)

    def randomize(self, value: int, sensitivity: float) -> int:
        """The value with fresh noise; `sensitivity` is S at this mechanism's beta. Neither it nor the scale is ever shown."""
        if value != int(value):
            raise BadValue("the value must be in whole steps", hint="use half steps for the average of two values")
        if not 0.0 <= sensitivity <= self.span:
            raise BadData("the smooth sensitivity is not within the public range")
        # One step is what OpenDP's own map is asked about; the scale is at most span/alpha, so no error depends on the data.
        return Laplace(up(max(sensitivity, self.floor) / self.alpha), 1.0).randomize([int(value)])[0]


def _within(epsilon: float, alpha: float, beta: float) -> bool:
    """Whether the formula holds: narrow noise against wide never loses more than epsilon."""
    if not (0.0 < alpha <= epsilon < math.inf and 0.0 < beta < math.inf):
        return False
    return up(beta + alpha * math.exp(-beta)) <= epsilon


def _check_target(epsilon: float, delta: float) -> None:
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise BadValue("epsilon must be positive and delta in (0, 1)", given=f"epsilon={epsilon}, delta={delta}")


def _largest(fits: Callable[[float], bool], high: float) -> float:
    """The largest beta below `high` that fits, by bisection that keeps the fitting end; all smaller ones fit too."""
    low = 0.0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0.0:
        raise BadValue("no smooth noise keeps this epsilon and delta")
    return low
