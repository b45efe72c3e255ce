"""Two-stage sampling: clusters are drawn, then units inside each, one by one or a fixed number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...errors import BadValue
from ...loss.refused import Refused
from ...loss.symmetric_polynomials import Interval, log_rho
from ...loss.transport import Profile, one_source, profile_of
from ...privacy.curve import Curve
from ...privacy.rounding import amplified, below, log_mixture, up
from .base import (
    PUBLIC,
    SAMPLE_ONLY,
    SECRET,
    Bound,
    Losses,
    Neighbours,
    Selection,
    check_clusters,
    check_count,
    check_rate,
    sizes_unprotected,
)
from .cluster import LABELS, effective_rate, swap_costs
from .simple import binomial

Array = npt.NDArray[np.float64]
BY_RATE = "docs/designs/two-stage.md, Theorem (each unit by itself)"
BY_TAKE = "docs/designs/two-stage.md, Theorem (a fixed number of units)"
INDEPENDENT = "units inside a drawn cluster are drawn independently of everything else"


@dataclass(frozen=True)
class TwoStage(Selection):
    """`take` of the clusters, then inside each drawn one every unit with probability `unit_rate`, or `unit_take` units.

    Sizes are those without the added unit. `capped`: the sizes are public caps, never exceeded in any population.
    By rate, add-remove: log(1 + r(e^d - 1)/(1 + (1 + r(e^d - 1))^-n_i rho(y))), y_j = (1 - r + r e^-d)^n_j.
    By take, f = m/n_i (m/(n_i+1) under add-remove): log(1 + f(e^R - 1)/(1 + e^R rho(y))), y_j = e^-(swap of m units).

    >>> from dpsurvey.design.selection.base import Losses
    >>> design = TwoStage((10,) * 20, 2, unit_rate=0.1)
    >>> round(design.bound(Losses.of(1.0, "add-remove"), "add-remove").upper, 10)
    0.0840586362
    """

    kind: ClassVar[str] = "two-stage"
    sizes: tuple[int, ...]
    take: int
    unit_rate: float | None = None
    unit_take: int | None = None
    unit_in: int | None = None
    capped: bool = False

    def __post_init__(self) -> None:
        check_clusters("cluster-size", self.sizes, self.take, self.unit_in)
        if (self.unit_rate is None) == (self.unit_take is None):
            raise BadValue("give either unit-rate or unit-take", given=f"unit-rate={self.unit_rate}, unit-take={self.unit_take}")
        if self.unit_rate is not None:
            check_rate("unit-rate", self.unit_rate)
        if self.unit_take is not None:
            check_count("unit-take", self.unit_take, at_most=min(self.sizes))
            if self.capped:
                raise BadValue(
                    "a cap does not help where a fixed number of units is taken: in a smaller cluster each has a larger share",
                    hint="give the smallest public cluster size as cluster-size, or use unit-rate",
                )

    @property
    def fraction(self) -> float:
        """The share of clusters that are drawn."""
        return self.take / len(self.sizes)

    @property
    def target(self) -> int:
        """The index of the target's cluster: the given one, or the worst: the largest by rate, the smallest by take."""
        if self.unit_in is not None:
            return self.unit_in - 1
        return int(np.argmax(self.sizes) if self.unit_rate is not None else np.argmin(self.sizes))

    @property
    def inclusion(self) -> float:
        inside = self.unit_rate if self.unit_rate is not None else (self.unit_take or 0) / self.sizes[self.target]
        return self.fraction * inside

    def least_inclusion(self, neighbours: Neighbours) -> float:
        if self.unit_take is None or neighbours == "replace-one":
            return self.inclusion
        return self.fraction * self.unit_take / (self.sizes[self.target] + 1)

    @property
    def detection_steps(self) -> float:
        return 2.0 * (self.unit_take if self.unit_take is not None else (self.unit_rate or 0.0) * max(self.sizes))

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.unit_take is not None

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        if not losses.sizes_protected and (neighbours == "add-remove" and self.unit_take is None):
            return sizes_unprotected("a record more or less")
        scope: Any = (
            "this population"
            if neighbours == "add-remove" and self.unit_rate is not None and not self.capped
            else "every population"
        )
        holds = (SECRET, PUBLIC, LABELS, SAMPLE_ONLY, *self._sizes_note(neighbours))
        return (
            self._by_take(losses, neighbours, scope, holds)
            if self.unit_take is not None
            else self._by_rate(losses, neighbours, scope, holds)
        )

    def _sizes_note(self, neighbours: Neighbours) -> tuple[str, ...]:
        if self.capped:
            return ("no cluster exceeds its stated size in any possible population",)
        if neighbours == "replace-one" and self.unit_take is None:
            return ("the sizes of all clusters are public and the same for both neighbours",)
        if self.unit_take is not None:
            return ("the number of units taken inside a cluster does not follow its size; no cluster is smaller than stated",)
        return ("a guarantee for every population needs a public cap on the cluster sizes",)

    def _rho(self, logs: Array) -> Interval:
        return log_rho(logs, self.take) if len(logs) else Interval(-math.inf, -math.inf)

    def _by_rate(self, losses: Losses, neighbours: Neighbours, scope: Any, holds: tuple[str, ...]) -> Bound:
        assert self.unit_rate is not None
        r, holds = self.unit_rate, (*holds, INDEPENDENT)
        lower_any = below(log_mixture((self.inclusion, min(losses.add_remove, losses.replace_one))))
        if not losses.sizes_protected:
            return Bound(losses.replace_one, lower_any, False, BY_RATE, scope, holds)
        d = losses.add_remove
        more, less = log_mixture((r, d)), log_mixture((r, -d)) if r < 1.0 else -d
        own = self.sizes[self.target] - (self.capped and neighbours == "add-remove")
        rho = self._rho(np.delete(np.asarray(self.sizes, dtype=float), self.target) * less)
        if neighbours == "add-remove":
            empty = own * more
            high, low = effective_rate(0.0, 1.0, Interval(rho.low - empty * (1 + 1e-15), rho.high - empty * (1 - 1e-15)))
            # log(1 + w (e^more - 1)) with w = 1/(1 + e^-empty rho).
            upper, lower = up(amplified(more, high)), below(amplified(more, low))
            exact = losses.base == "add-remove"
            return Bound(upper, lower if exact else min(upper, lower_any), exact, BY_RATE, scope, holds)
        # (u + w)/(v + w) with u = 1 + r(e^d - 1), v = 1 + r(e^-d - 1), w = u^-(n-1) rho: log(1 + (u/v - 1)/(1 + w/v)).
        empty = (own - 1) * more
        inside = Interval(rho.low - empty * (1 + 1e-15), rho.high - empty * (1 - 1e-15))
        high, low = effective_rate(-less, 1.0, inside)
        upper, lower = up(amplified(more - less, high)), below(amplified(more - less, low))
        if losses.base == "add-remove":
            # After nonresponse a replacement may cost a little less than two steps; the bound for two stays valid.
            exact = losses.replace_one >= 2.0 * d
            return Bound(upper, lower if exact else min(upper, lower_any), exact, BY_RATE, scope, holds)
        # Type both: the whole cluster is exchanged instead, and a replaced record costs log(1 + r(e^e - 1)).
        other = effective_rate(more, 1.0, Interval(rho.low - own * more * (1 + 1e-15), rho.high))[0]
        return Bound(min(upper, up(amplified(more, other))), lower_any, False, BY_RATE, scope, holds)

    def _by_take(self, losses: Losses, neighbours: Neighbours, scope: Any, holds: tuple[str, ...]) -> Bound:
        assert self.unit_take is not None
        size = self.sizes[self.target] + (neighbours == "add-remove")
        share, takes = self.unit_take / size, np.full(len(self.sizes) - 1, float(self.unit_take))
        rho = self._rho(-swap_costs(losses, self.unit_take, takes))
        high, low = effective_rate(losses.replace_one, share, rho)
        typed = losses.base != "add-remove" or losses.replace_one == 2.0 * losses.add_remove
        upper = up(amplified(losses.replace_one, high))
        seen = self.least_inclusion(neighbours)
        lower = below(amplified(losses.replace_one, low)) if typed else below(log_mixture((seen, losses.add_remove)))
        return Bound(upper, min(lower, upper), typed, BY_TAKE, scope, holds)

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        if not losses.sizes_protected or self.take == len(self.sizes):
            return 1.0
        if self.unit_take is not None:
            return self._take_curve(base, losses, neighbours, alpha)
        return self._rate_curve(base, alpha) if neighbours == "add-remove" else 1.0

    def _take_curve(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        assert self.unit_take is not None
        q, m = self.fraction, self.unit_take
        replaced = profile_of(base.steps(2) if losses.base == "add-remove" else base)
        exchanged = profile_of(base.steps(2 * m if losses.base == "add-remove" else m))
        rest = ((alpha - 1.0) * (1.0 - q), exchanged)
        f = m / (self.sizes[self.target] + (neighbours == "add-remove"))
        forward = one_source(q * f, ((alpha - 1.0 + f) * q, replaced), rest)
        if neighbours == "replace-one":
            return forward
        return max(forward, one_source(q * (f - (alpha - 1.0) * (1.0 - f)), (alpha * q * f, replaced), rest))

    def _rate_curve(self, base: Curve, alpha: float) -> float:
        assert self.unit_rate is not None
        q, r, one = self.fraction, self.unit_rate, profile_of(base)
        own, largest = self.sizes[self.target] - self.capped, max(self.sizes)
        near, far = self._exchanged(base, own, largest, 1), self._exchanged(base, own, largest, 0)
        forward = one_source(q * r, ((alpha - 1.0 + r) * q, one), ((alpha - 1.0) * (1.0 - q), near))
        back = one_source(q * (r - (alpha - 1.0) * (1.0 - r)), (alpha * q * r, one), ((alpha - 1.0) * (1.0 - q), far))
        return max(forward, back)

    def _exchanged(self, base: Curve, own: int, other: int, extra: int) -> Profile:
        """The mean curve over the random number of units that an exchange of clusters moves."""
        counts = [(k + extra, weight) for k, weight in binomial(own + other, self.unit_rate or 0.0) if weight > 1e-18]
        curves = [(weight, profile_of(base.steps(k))) for k, weight in counts if k]
        none = math.fsum(weight for k, weight in counts if not k)
        # Equal data sets differ by (1 - y)_+, which is nothing at thresholds above 1.
        return lambda y: min(1.0, none * max(0.0, 1.0 - y) + math.fsum(weight * h(y) for weight, h in curves) + 1e-16)
