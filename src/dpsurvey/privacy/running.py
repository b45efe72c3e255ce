"""Running: everything charged to one sample so far, added up exactly and charge by charge."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ..errors import BadValue, LedgerDisagrees
from .curve import Approximate, Curve, Gaussian, Laplace, ZeroConcentrated
from .profile import PrivacyProfile
from .relation import Relation
from .rounding import up

# What charges are counted in, by kind of curve; for each there is a proved filter (docs/guides/ledger.md).
MEASURES = {"approximate": "epsilon", "laplace": "epsilon", "zcdp": "rho", "gaussian": "mu"}
NOISE = {"epsilon": "laplace", "rho": "gaussian", "mu": "gaussian"}


def measure_of(profile: PrivacyProfile) -> str:
    """What a charge is counted in: epsilon (and delta), rho, or mu.

    >>> measure_of(PrivacyProfile.zcdp(0.1, "both"))
    'rho'
    """
    if profile.curve.kind not in MEASURES:
        raise BadValue(
            "this profile has no proved filter",
            given=f"kind {profile.curve.kind!r}",
            hint="charge a pure, (epsilon, delta), Laplace, zCDP or Gaussian profile",
        )
    return MEASURES[profile.curve.kind]


@dataclass(frozen=True)
class Running:
    """The charges of one sample, as exact sums: pure and (epsilon, delta) add, rho adds, mu adds in squares.

    A sum of whole amounts is exact, so ten thousand small charges cost what they cost, rounded up once. A further
    charge takes the same time whether there were ten before it or ten thousand.

    >>> one, two = (PrivacyProfile.pure(epsilon, "replace-one") for epsilon in (1.0, 2.0))
    >>> round(Running().plus(one).plus(two).composed.amplify(0.1).epsilon(0.0), 10)
    1.0676559447
    """

    measure: str | None = None
    relation: Relation = Relation.BOTH
    amount: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    count: int = 0
    # A single charge keeps its own curve, which may be lower than its amount says.
    only: Curve | None = field(default=None, compare=False)

    def plus(self, *charges: PrivacyProfile) -> Running:
        """These charges on top."""
        total = self
        for charge in charges:
            total = total._plus(charge)
        return total

    def _plus(self, charge: PrivacyProfile) -> Running:
        measure, curve = measure_of(charge), charge.curve
        if self.measure not in (None, measure):
            # Only one of the filters can be the one that stops; which of them must be settled before the first answer.
            raise LedgerDisagrees(
                "this sample was charged for another kind of noise",
                because="charges in rho, in mu and in epsilon add up by different theorems",
                hint=f'plan(..., noise="{NOISE[self.measure]}")' if self.measure else "",
            )
        # Composition under one relation; profiles of another one are refused as `compose` refuses them.
        relation = self.relation.common(charge.relation)
        if relation is None:
            raise BadValue(
                "profiles under different neighbour relations do not compose",
                given=f"{self.relation!r} and {charge.relation!r}",
            )
        amount, delta = _exact(curve)
        only = curve if self.count == 0 else None
        return Running(measure, relation, self.amount + amount, self.delta + delta if delta else self.delta, self.count + 1, only)

    @property
    def composed(self) -> PrivacyProfile:
        """The in-sample profile of all charges together; at least one is needed."""
        if self.count == 0:
            raise BadValue("nothing was charged")
        if self.only is not None and not isinstance(self.only, Laplace):
            return PrivacyProfile(self.only, self.relation)
        total = _above(self.amount)
        if self.measure == "rho":
            return PrivacyProfile.zcdp(total, self.relation)
        if self.measure == "mu":
            return PrivacyProfile.gaussian(up(math.sqrt(total)), self.relation)
        return PrivacyProfile(Approximate(total, min(1.0, _above(self.delta))), self.relation)

    def __bool__(self) -> bool:
        return self.count > 0


def _exact(curve: Curve) -> tuple[Fraction, Fraction]:
    """The amount of a charge, and its delta."""
    nothing = Fraction(0)
    if isinstance(curve, Approximate):
        return Fraction(curve.at_epsilon), Fraction(curve.at_delta)
    if isinstance(curve, Laplace):
        return Fraction(curve.ratio), nothing
    if isinstance(curve, ZeroConcentrated):
        return Fraction(curve.rho), nothing
    assert isinstance(curve, Gaussian)
    return Fraction(curve.mu) ** 2, nothing


def _above(exact: Fraction) -> float:
    """The least float that is at least an exact sum."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
