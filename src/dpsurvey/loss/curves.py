"""The whole curve delta(epsilon) of a sampled mechanism, from the pure loss of its design."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol

from ..privacy.curve import Approximate, Curve, curve_from
from ..privacy.derived import ManySteps
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import log_expm1, up
from .bound import Bound, Losses, Refused

LARGEST = 1e5


class Sampling(Hashable, Protocol):
    """What a whole curve is computed from: a design, by its public figures."""

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        """The loss of sampling followed by any mechanism with these losses on the sample; or a refusal."""

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        """A bound on the hockey-stick divergence at alpha = e^epsilon' that may beat the general one."""

    def figures(self) -> dict[str, Any]:
        """The public figures, JSON-ready."""


# How figures are read back, by the name they are written under; the room that defines samplings says it.
READERS: dict[str, Callable[[Any], Sampling]] = {}


def largest_below(rising: Callable[[float], float], target: float) -> float:
    """The largest x > 0 with rising(x) <= target, found from below; 0 where even the smallest x is too large."""
    from scipy.optimize import brentq

    high = max(target, 1e-300)
    while rising(high) <= target:
        if high >= LARGEST:
            return high
        high *= 2.0
    low = high
    while rising(low) > target:
        low /= 4.0
        if low < 1e-18 * target:
            return 0.0
    found = float(brentq(lambda x: rising(x) - target, low, high, xtol=1e-300, rtol=1e-15, maxiter=400, disp=False))
    step = 2.0**-53
    while found > 0.0 and rising(found) > target:
        found, step = found * (1.0 - step), 2.0 * step
    return found


@dataclass(frozen=True)
class SampledCurve(Curve):
    """delta'(e') = delta(e) (e^e' - 1)/(e^e - 1), where e is any epsilon whose pure loss under the design is at most e'.

    The lifting theorem: a proof that a design turns pure e into pure e' is a matching of samples, and the same matching
    turns (e, delta) into (e', that delta'). Whatever the design proves beyond it is taken where it is smaller.
    Proof: docs/designs/README.md.
    """

    kind: ClassVar[str] = "sampled"
    after_sampling: ClassVar[bool] = True
    base: Curve
    relation: Relation
    neighbours: Neighbours
    design: Sampling

    def pure(self, epsilon: float) -> float:
        """The proved loss of the design when the mechanism is purely private."""
        answer = _bound(self.design, epsilon, self.relation, self.neighbours)
        # A linear programme that is solved for small epsilon only refuses the others: nothing is claimed there.
        return math.inf if isinstance(answer, Refused) else answer

    @cached_property
    def _corner(self) -> Approximate | None:
        """What an (epsilon, delta) mechanism gives at its own epsilon; a pure one stays pure."""
        base = self.base
        if not isinstance(base, Approximate) or base.at_epsilon == 0.0:
            return None
        outside = self.pure(base.at_epsilon)
        return Approximate(outside, min(1.0, _lifted(base.at_delta, base.at_epsilon, outside))) if outside < 1e9 else None

    def delta(self, epsilon: float) -> float:
        if epsilon <= 0.0:
            return min(1.0, self._sharper(1.0))
        inside = largest_below(self.pure, epsilon)
        found = _lifted(self.base.delta(inside), inside, epsilon) if inside > 0.0 else 1.0
        found = min(found, self._sharper(math.exp(min(700.0, epsilon))))
        return min(1.0, found, self._corner.delta(epsilon) if self._corner is not None else 1.0)

    def _sharper(self, alpha: float) -> float:
        return self.design.sharper(self.base, Losses.of(1.0, self.relation), self.neighbours, alpha)

    def epsilon(self, delta: float) -> float:
        corner = self._corner
        if corner is not None and (delta == 0.0 or delta == corner.at_delta):
            return corner.epsilon(delta)
        if delta == 0.0:
            inside = self.base.epsilon(0.0)
            return self.pure(inside) if 0.0 < inside < math.inf else inside
        found = min(self._from_inside(delta), _least(lambda epsilon: self._sharper(math.exp(min(700.0, epsilon))) <= delta))
        found = min(found, corner.epsilon(delta)) if corner is not None else found
        step = 1e-15
        while math.isfinite(found) and step < 1e-9 and self.delta(found) > delta:
            # The two searches round differently; the claim is the one that `delta` confirms.
            found, step = found * (1.0 + step), 2.0 * step
        return found

    def _from_inside(self, delta: float) -> float:
        """The pure loss of the least inside epsilon whose lifted delta is small enough: no inversion is needed."""

        def enough(inside: float) -> bool:
            return inside > 0.0 and _lifted(self.base.delta(inside), inside, self.pure(inside)) <= delta

        inside = _least(enough)
        return self.pure(inside) if math.isfinite(inside) else math.inf

    def steps(self, count: int) -> Curve:
        return ManySteps(self, count)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "base": self.base.to_dict(),
            "relation": str(self.relation),
            "neighbours": str(self.neighbours),
            "design": self.design.figures(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Curve:
        read, written = next((reader, fields[name]) for name, reader in READERS.items() if name in fields)
        neighbours = Relation.read(fields["neighbours"], allow_both=False)
        return cls(curve_from(fields["base"]), Relation.read(fields["relation"]), neighbours, read(written))


def _least(enough: Callable[[float], bool]) -> float:
    """The least epsilon from which on a bound is small enough, by bisection that keeps the private end; inf if there is none."""
    if enough(0.0):
        return 0.0
    high = next((upper for upper in (2.0**power for power in range(-20, 12)) if enough(upper)), math.inf)
    low = 0.0 if math.isfinite(high) else high
    # Below 1e-12 an epsilon is as good as any smaller one.
    while low < high * (1.0 - 1e-13) and high > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def _bound(design: Sampling, epsilon: float, relation: Relation, neighbours: Neighbours) -> float | Refused:
    answer = design.bound(Losses.of(epsilon, relation), neighbours)
    return answer if isinstance(answer, Refused) else answer.upper


def _lifted(delta: float, inside: float, outside: float) -> float:
    """delta (e^outside - 1)/(e^inside - 1), rounded up."""
    if delta <= 0.0 or outside <= 0.0:
        return 0.0
    return up(delta * math.exp(min(700.0, log_expm1(outside) - log_expm1(inside))))
