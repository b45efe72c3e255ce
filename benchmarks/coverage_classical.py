"""Classical intervals of one sample, without privacy: linearised variances, Student's t, Korn-Graubard, Woodruff.

The formulas are those of dpsurvey.classical for the designs of the study, for many numbers at once; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, stdtrit

from coverage_designs import TAKE, Drawn, Sampling
from coverage_frame import Array

MEANS = ("income", "rare", "y")
SHARES = ("high", "rare", "b")
RATIOS = (("income", "spent"), ("rare", "x"), ("y", "x"))
MEDIANS = ("income", "y")
Ends = tuple[float, float]


@dataclass
class Classical:
    """Classical intervals under one design."""

    sampling: Sampling

    def __post_init__(self) -> None:
        clipped = self.sampling.population.clipped
        self.names = ("income", "spent", "high", "rare", "y", "x", "b")
        self.values = np.ascontiguousarray(np.stack([clipped[name] for name in self.names], axis=1))

    def intervals(self, drawn: Drawn) -> dict[tuple[str, ...], Ends]:
        """The 95 % intervals of one sample, by (kind, column) and (ratio, column, column)."""
        sampling, units = self.sampling, drawn.units
        values, weight = self.values[units], sampling.weight[units]
        column = {name: values[:, index] for index, name in enumerate(self.names)}
        whole, t = float(weight.sum()), self.critical(drawn)
        found: dict[tuple[str, ...], Ends] = {}

        # Every number is a ratio of weighted totals, or a weighted total.
        tops = [*MEANS, *SHARES, *(top for top, _ in RATIOS)]
        bottoms = [whole] * 6 + [float(weight @ column[name]) for _, name in RATIOS]
        over = np.stack([column[name] for name in tops], axis=1)
        below = np.stack([np.ones(len(units))] * 6 + [column[name] for _, name in RATIOS], axis=1)
        estimates = weight @ over / np.array(bottoms)
        linear = weight[:, None] * (over - estimates * below) / np.array(bottoms)
        expanded = np.concatenate([linear, weight[:, None] * over[:, :3]], axis=1)
        errors = np.sqrt(np.maximum(self.variance(expanded, drawn), 0.0))
        ends = [(float(m - t * se), float(m + t * se)) for m, se in zip(estimates, errors, strict=False)]
        for index, name in enumerate(MEANS):
            found["mean", name] = ends[index]
            size = sampling.population.size
            found["total", name] = ends[index][0] * size, ends[index][1] * size
            total = float(estimates[index]) * whole
            found["expanded", name] = total - t * float(errors[9 + index]), total + t * float(errors[9 + index])
        for index, name in enumerate(SHARES):
            found["proportion", name] = korn_graubard(float(estimates[3 + index]), float(errors[3 + index]), len(units), t)
        for index, pair in enumerate(RATIOS):
            found[("ratio", *pair)] = ends[6 + index]
        for name in MEDIANS:
            found["median", name] = self.woodruff(name, drawn, weight, t)
        return found

    def critical(self, drawn: Drawn) -> float:
        """Student's t at 97.5 %: first-stage units less strata."""
        clustered = self.sampling.kind in ("clusters", "two stages")
        freedom = len(drawn.starts) - 1 if clustered else len(drawn.units) - len(drawn.starts)
        return float(stdtrit(float(freedom), 0.975))

    def variance(self, expanded: Array, drawn: Drawn) -> Array:
        """The variance of the totals of expanded values (units, numbers)."""
        sampling, starts = self.sampling, drawn.starts
        if sampling.kind == "independent":
            return np.asarray((1.0 - sampling.chance[drawn.units]) @ expanded**2)
        sums = np.add.reduceat(expanded, starts, axis=0)
        left = 1.0 - sampling.fractions
        if sampling.kind == "strata":
            n = np.diff(np.append(starts, len(drawn.units))).astype(np.float64)
            squares = np.add.reduceat(expanded**2, starts, axis=0)
            return np.asarray((left * n / (n - 1.0)) @ (squares - sums**2 / n[:, None]))
        k = float(len(starts))
        first = left[0] * k / (k - 1.0) * ((sums - sums.mean(axis=0)) ** 2).sum(axis=0)
        if sampling.kind == "clusters":
            return np.asarray(first)
        inside = 1.0 - TAKE / sampling.cluster_sizes[drawn.units[starts]]
        residual = expanded.reshape(int(k), TAKE, -1) - sums[:, None, :] / TAKE
        second = inside @ (residual**2).sum(axis=1) * TAKE / (TAKE - 1.0)
        return np.asarray(first + sampling.fractions[0] * second)

    def woodruff(self, name: str, drawn: Drawn, weight: Array, t: float) -> Ends:
        """The quantiles at the ends of the interval of the share below the median."""
        population = self.sampling.population
        places = population.order[name][drawn.units]
        order = np.argsort(places)
        share = np.cumsum(weight[order])
        whole = float(share[-1])
        share /= whole
        at = min(int(np.searchsorted(share, 0.5 - 1e-12)), len(share) - 1)
        values = population.clipped[name][drawn.units[order]]
        # Ties count as below, as they do in the definition of the share.
        at = int(np.searchsorted(values, values[at], side="right")) - 1
        below = (places <= places[order[at]]).astype(np.float64)
        p = float(share[at])
        se = float(np.sqrt(self.variance((weight * (below - p) / whole)[:, None], drawn)[0]))
        ends = [int(np.searchsorted(share, np.clip(p + sign * t * se, 0.0, 1.0) - 1e-12)) for sign in (-1.0, 1.0)]
        low, high = (float(values[min(end, len(values) - 1)]) for end in ends)
        return low, high


def korn_graubard(p: float, se: float, n: int, t: float) -> Ends:
    """Clopper and Pearson's interval for the effective number of trials."""
    trials = (p * (1.0 - p) / se**2 if se > 0.0 and 0.0 < p < 1.0 else float(n)) * (float(stdtrit(n - 1.0, 0.975)) / t) ** 2
    low = float(betaincinv(trials * p, trials * (1.0 - p) + 1.0, 0.025)) if p > 0.0 else 0.0
    high = float(betaincinv(trials * p + 1.0, trials * (1.0 - p), 0.975)) if p < 1.0 else 1.0
    return low, high
