"""Running: everything charged to one sample so far, added up exactly and charge by charge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ..errors import BadValue, LedgerDisagrees
from .curve import Approximate, Laplace
from .measure import Measure, counted
from .profile import PrivacyProfile
from .relation import Relation
from .rounding import above


@dataclass(frozen=True)
class Running:
    """The charges of one sample, as exact sums: pure and (epsilon, delta) add, rho adds, mu adds in squares.

    A sum of whole amounts is exact, so ten thousand small charges cost what they cost, rounded up once. A further
    charge takes the same time whether there were ten before it or ten thousand.

    >>> one, two = (PrivacyProfile.pure(epsilon, "replace-one") for epsilon in (1.0, 2.0))
    >>> round(Running().plus(one).plus(two).composed.amplify(0.1).epsilon(0.0), 10)
    1.0676559447

    Records of a stratum that moves sums less have sums of their own: for them every charge counts by its part.

    >>> weighted, alike = PrivacyProfile(one.curve, "replace-one", {"small": 0.1}), one
    >>> float(Running().plus(weighted).plus(alike).amount_of("small"))
    1.1
    """

    measure: Measure | None = None
    relation: Relation = Relation.BOTH
    amount: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    count: int = 0
    # What records of a stratum lose, where that is less than the amount.
    by_stratum: Mapping[str, Fraction] = field(default_factory=dict, hash=False)
    # A single charge keeps its own profile, which may be lower than its amount says.
    only: PrivacyProfile | None = field(default=None, compare=False)

    def plus(self, *charges: PrivacyProfile) -> Running:
        """These charges on top."""
        total = self
        for charge in charges:
            total = total._plus(charge)
        return total

    def _plus(self, charge: PrivacyProfile) -> Running:
        curve = charge.curve
        measure, amount = counted(charge)
        if self.measure not in (None, measure):
            # Only one of the filters can be the one that stops; which of them must be settled before the first answer.
            raise LedgerDisagrees(
                "this sample was charged for another kind of noise",
                because="charges in rho, in mu and in epsilon add up by different theorems",
                hint=f'plan(..., noise="{self.measure.noise}")' if self.measure else "",
            )
        # Composition under one relation; profiles of another one are refused as `compose` refuses them.
        relation = self.relation.common(charge.relation)
        if relation is None:
            raise BadValue(
                "profiles under different neighbour relations do not compose",
                given=f"{self.relation!r} and {charge.relation!r}",
            )
        delta = self.delta + Fraction(curve.at_delta) if isinstance(curve, Approximate) and curve.at_delta else self.delta
        parts = {label: measure.of_part(amount, part) for label, part in charge.parts}
        # A charge that does not name a stratum is whole there.
        by_stratum = {
            label: self.amount_of(label) + parts.get(label, amount) for label in dict.fromkeys((*self.by_stratum, *parts))
        }
        only = charge if self.count == 0 else None
        return Running(measure, relation, self.amount + amount, delta, self.count + 1, by_stratum, only)

    def amount_of(self, stratum: str) -> Fraction:
        """What records of a stratum lose of what was charged."""
        return self.by_stratum.get(stratum, self.amount)

    @property
    def composed(self) -> PrivacyProfile:
        """The in-sample profile of all charges together; at least one is needed."""
        if self.measure is None:
            raise BadValue("nothing was charged")
        if self.only is not None and not isinstance(self.only.curve, Laplace):
            return PrivacyProfile(self.only.curve, self.relation, self.only.parts)
        curve = self.measure.curve(above(self.amount), min(1.0, above(self.delta)))
        parts = {label: self.measure.part_of(amount, self.amount) for label, amount in self.by_stratum.items()}
        return PrivacyProfile(curve, self.relation, parts)

    def __bool__(self) -> bool:
        return self.count > 0
