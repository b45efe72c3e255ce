"""The grid of the coverage study: what is asked of which design, at which sizes and epsilons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import dpsurvey as ds
from coverage_designs import sampling
from coverage_frame import BOUNDS
from dpsurvey.statistic import Statistic
from dpsurvey.survey.plan import Plan

SIZES = (100, 1_000, 10_000)
EPSILONS = (0.1, 1.0, 5.0)


@dataclass(frozen=True)
class Asked:
    """A number of the study: its population, its name in the table, the statistic, and its classical counterpart."""

    population: str
    name: str
    statistic: Statistic
    classical: tuple[str, ...]

    @property
    def truth(self) -> tuple[str, ...]:
        """What it estimates, in words that `Population.truth` knows."""
        return ("total", *self.classical[1:]) if self.classical[0] == "expanded" else self.classical


def asked(design: str) -> tuple[Asked, ...]:
    """The numbers asked of a design."""
    found = []
    for population, of, share, to in (
        ("lognormal", "income", "high", "spent"),
        ("rare", "rare", "rare", "x"),
        ("synthetic", "y", "b", "x"),
    ):
        bounds, to_bounds = BOUNDS[of], BOUNDS[to]
        found += [
            Asked(population, "mean", ds.mean(of, bounds), ("mean", of)),
            Asked(population, "total", ds.total(of, bounds), ("total", of)),
            Asked(population, "proportion", ds.proportion(share, 1), ("proportion", share)),
            Asked(population, "ratio", ds.ratio(of, to, bounds, to_bounds), ("ratio", of, to)),
        ]
        if design not in ("cluster", "two-stage"):
            centred = ds.ratio(of, to, bounds, to_bounds, estimator="centred")
            found.append(Asked(population, "ratio, centred", centred, ("ratio", of, to)))
        if design in ("bernoulli", "poisson"):
            expanded = ds.total(of, bounds, estimator="horvitz-thompson")
            found.append(Asked(population, "total, Horvitz-Thompson", expanded, ("expanded", of)))
        if design.startswith("stratified"):
            for estimator in ("pooled", "weighted-pooled", "by-stratum", "separate-variance"):
                found.append(Asked(population, f"mean, {estimator}", ds.mean(of, bounds, estimator=estimator), ("mean", of)))
        if population != "rare":
            found.append(Asked(population, "median", ds.median(of, bounds), ("median", of)))
    return tuple(found)


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    design: str
    n: int
    epsilon: float
    asked: Asked

    @property
    def name(self) -> str:
        """A name for a machine."""
        return f"{self.design}/{self.asked.population}/{self.asked.name}/n={self.n}/epsilon={self.epsilon:g}"


@cache
def plan_of(design: str, n: int, epsilon: float, statistic: Statistic, copies: int = 40) -> Plan:
    """The plan of one statistic, which has the whole budget."""
    return Plan(sampling(design, n, copies).terms(epsilon), (statistic,))
