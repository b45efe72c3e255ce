"""PrivacyProfile: the curve delta(epsilon) together with its neighbour relation. All privacy arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import BadValue
from .composition import compose_curves
from .curve import Approximate, Curve, Gaussian, Laplace, ZeroConcentrated, curve_from
from .derived import AmplifiedCurve, after_sampling
from .relation import Relation, RelationName


@dataclass(frozen=True)
class PrivacyProfile:
    """A curve delta(epsilon) that holds for every pair of neighbours under one relation, in both orders.

    "add-remove": one record more or less; "replace-one": one record changed, same size; "both": for either.

    `parts` says by which part of that the records of a stratum move the sums, where they move them less because their public
    weight is smaller: neighbours that differ in a record of that stratum alone have the curve of that part. Strata that it does
    not name, and neighbours of which a record changes its stratum, have the whole curve.

    >>> one = PrivacyProfile.pure(1.0, "replace-one")
    >>> two = PrivacyProfile.pure(2.0, "replace-one")
    >>> round(one.compose(two).amplify(0.1).epsilon(0.0), 10)
    1.0676559447
    """

    curve: Curve
    relation: Relation
    parts: tuple[tuple[str, float], ...] = ()

    def __init__(
        self, curve: Curve, relation: Relation | RelationName, parts: Mapping[str, float] | tuple[tuple[str, float], ...] = ()
    ) -> None:
        object.__setattr__(self, "curve", curve)
        object.__setattr__(self, "relation", Relation.read(relation))
        found = sorted(dict(parts).items())
        if any(not 0.0 < part <= 1.0 for _, part in found):
            raise BadValue("a record moves the sums by a part in (0, 1] of their sensitivity")
        object.__setattr__(self, "parts", tuple((label, part) for label, part in found if part < 1.0))

    @classmethod
    def pure(cls, epsilon: float, relation: Relation | RelationName) -> PrivacyProfile:
        """Pure epsilon-DP.

        >>> PrivacyProfile.pure(1.0, "both").epsilon(0.0)
        1.0
        """
        return cls(Approximate(epsilon), relation)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, relation: Relation | RelationName) -> PrivacyProfile:
        """(epsilon, delta)-DP.

        >>> PrivacyProfile.approximate(1.0, 1e-6, "both").delta(1.0)
        1e-06
        """
        if not 0.0 <= delta < 1.0:
            raise BadValue("delta must be in [0, 1)", given=f"delta={delta}")
        return cls(Approximate(epsilon, delta), relation)

    @classmethod
    def laplace(cls, ratio: float, relation: Relation | RelationName) -> PrivacyProfile:
        """One continuous Laplace variable, `ratio` = sensitivity / scale.

        >>> PrivacyProfile.laplace(1.0, "both").delta(0.0) < PrivacyProfile.pure(1.0, "both").delta(0.0)
        True
        """
        return cls(Laplace(ratio), relation)

    @classmethod
    def gaussian(cls, mu: float, relation: Relation | RelationName) -> PrivacyProfile:
        """Continuous Gaussian noise, `mu` = sensitivity / standard deviation.

        >>> round(PrivacyProfile.gaussian(1.0 / 4.2247, "both").epsilon(1e-6), 3)
        1.0
        """
        return cls(Gaussian(mu), relation)

    @classmethod
    def zcdp(cls, rho: float, relation: Relation | RelationName) -> PrivacyProfile:
        """rho-zero-concentrated DP.

        >>> PrivacyProfile.zcdp(0.5, "both").epsilon(1e-6) < 6.0
        True
        """
        return cls(ZeroConcentrated(rho), relation)

    @property
    def whole(self) -> PrivacyProfile:
        """The same for everybody, whatever the stratum."""
        return PrivacyProfile(self.curve, self.relation) if self.parts else self

    def of_part(self, part: float) -> PrivacyProfile:
        """The profile for neighbours that differ in a record which moves the sums by this part.

        >>> PrivacyProfile.zcdp(0.5, "both").of_part(0.5).curve.rho <= 0.126
        True
        """
        return PrivacyProfile(self.curve.of_part(part), self.relation)

    def delta(self, epsilon: float) -> float:
        """The least proved delta at an epsilon >= 0."""
        if not epsilon >= 0.0:
            raise BadValue("epsilon must be at least 0", given=f"epsilon={epsilon}")
        # No curve rises, so one far out stands for all beyond it.
        return self.curve.delta(min(epsilon, 1e6))

    def epsilon(self, delta: float) -> float:
        """The least proved epsilon at a delta in [0, 1); inf where the curve never gets that low."""
        if not 0.0 <= delta < 1.0:
            raise BadValue("delta must be in [0, 1)", given=f"delta={delta}")
        return self.curve.epsilon(delta)

    def compose(self, *others: PrivacyProfile, by: Literal["closed form", "pld"] = "closed form") -> PrivacyProfile:
        """Everything asked of one sample, together. Composition comes before amplification, always."""
        relation = self.relation
        for other in others:
            common = relation.common(other.relation)
            if common is None:
                raise BadValue(
                    "profiles under different neighbour relations do not compose",
                    given=f"{relation!r} and {other.relation!r}",
                    hint="convert one with to_replace_one(); nothing is converted silently",
                )
            relation = common
        return PrivacyProfile(compose_curves([self.curve, *(other.curve for other in others)], by), relation)

    def amplify(self, rate: float) -> PrivacyProfile:
        """The curve seen from outside a sample in which each record is with probability `rate`.

        Holds when: Poisson sampling under add-remove, or simple random sampling without replacement under
        replace-one; the designs know this and call it, or refuse.
        """
        if not 0.0 < rate <= 1.0:
            raise BadValue("a rate must be in (0, 1]", given=f"rate={rate}")
        return self if rate == 1.0 else PrivacyProfile(AmplifiedCurve(self.curve, rate), self.relation)

    def to_replace_one(self) -> PrivacyProfile:
        """The same mechanism under replace-one: removing one record and adding another costs two steps.

        >>> PrivacyProfile.pure(1.0, "add-remove").to_replace_one().epsilon(0.0)
        2.0
        """
        if self.relation == Relation.ADD_REMOVE:
            # Replaced in its stratum, a record is removed from it and another one added to it: two steps of its part.
            return PrivacyProfile(self.curve.steps(2), Relation.REPLACE_ONE, self.parts)
        return PrivacyProfile(self.curve, Relation.REPLACE_ONE, self.parts)

    @property
    def is_amplified(self) -> bool:
        """Whether a sample has amplified this profile already, which it may do once."""
        return after_sampling(self.curve)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `from_dict` reads it back."""
        fields = {"relation": self.relation.value, "curve": self.curve.to_dict()}
        return fields | ({"parts": dict(self.parts)} if self.parts else {})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> PrivacyProfile:
        """The profile that `to_dict` wrote.

        >>> profile = PrivacyProfile.zcdp(0.1, "both")
        >>> PrivacyProfile.from_dict(profile.to_dict()) == profile
        True
        """
        return cls(curve_from(fields["curve"]), fields["relation"], fields.get("parts", {}))
