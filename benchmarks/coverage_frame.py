"""The frame of the coverage study: three populations as columns of one list with strata, clusters and a measure of size.

    lognormal   income, spent, high   exp(standard normal) clipped at 20, a related denominator, income above 3
    rare        rare                  yes for 2 %
    synthetic   y, x, b               the reference frame of tests/golden, 6 strata and unequal clusters, made larger

Everything is made by numpy from one seed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

import dpsurvey as ds

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

SEED = 20240601
# Units of the reference frame in each stratum, 40 clusters to each.
STRATA = {"1": 600, "2": 800, "3": 900, "4": 1000, "5": 1200, "6": 1500}
CLUSTERS = 40
SMALLEST, LARGEST = 6, 75
BOUNDS = {"income": (0.0, 20.0), "spent": (0.0, 20.0), "rare": (0.0, 1.0), "y": (0.0, 200.0), "x": (0.0, 150.0)}
CATEGORIES = ("high", "rare", "b")


@dataclass(frozen=True)
class Population:
    """The columns of the frame, one value per unit, sorted by stratum, cluster and segment."""

    columns: dict[str, Array]
    stratum: Codes
    cluster: Codes
    segment: Codes
    size_measure: Array

    @property
    def size(self) -> int:
        """N."""
        return len(self.stratum)

    @cached_property
    def clipped(self) -> dict[str, Array]:
        """Measured columns within their public bounds, and the yes/no ones as 0 and 1: what estimates are about."""
        return {name: np.clip(values, *BOUNDS[name]) if name in BOUNDS else values for name, values in self.columns.items()}

    @cached_property
    def order(self) -> dict[str, Codes]:
        """The place of each unit when a column is sorted, for medians of samples without sorting doubles."""
        found = {}
        for name in ("income", "y"):
            place = np.empty(self.size, dtype=np.int64)
            place[np.argsort(self.clipped[name], kind="stable")] = np.arange(self.size)
            found[name] = place
        return found

    @cached_property
    def frame(self) -> ds.Frame:
        """What is public about it."""
        sizes = {label: int(count) for label, count in zip(STRATA, np.bincount(self.stratum), strict=True)}
        return ds.Frame(
            "population", unit="id", size=self.size, categories={"stratum": sizes}, public=("cluster", "segment", "chance")
        )

    def truth(self, kind: str, of: str, to: str = "") -> float:
        """The value of the whole population, of clipped columns."""
        values = self.clipped[of]
        if kind == "median":
            # The least value that half of the population does not exceed.
            return float(np.sort(values)[(self.size + 1) // 2 - 1])
        if kind == "ratio":
            return float(values.sum() / self.clipped[to].sum())
        return float(values.sum() if kind == "total" else values.mean())


@lru_cache(maxsize=2)
def make_population(copies: int = 40) -> Population:
    """The frame with `copies` times the strata and clusters of the reference frame; about 6,000 units a copy."""
    random = np.random.default_rng([SEED, copies])
    per_stratum = CLUSTERS * copies
    sizes = []
    for units in STRATA.values():
        drawn = random.gamma(2.0, 1.0, per_stratum)
        sizes.append(np.clip(np.rint(drawn / 2.0 * units / CLUSTERS), SMALLEST, LARGEST).astype(np.int64))
    flat = np.concatenate(sizes)
    cluster = np.repeat(np.arange(len(flat)), flat)
    stratum = cluster // per_stratum
    count, level = len(cluster), stratum + 1.0
    # Segments: neighbours inside a cluster, 4 to 12 of them to a segment.
    place = np.arange(count) - np.repeat(np.cumsum(flat) - flat, flat)
    step = random.integers(4, 13, len(flat))[cluster]
    segment = np.unique(cluster * (LARGEST + 1) + place // step, return_inverse=True)[1].astype(np.int64)

    effect = random.normal(0.0, 8.0, len(flat))[cluster]
    size_measure = np.exp(random.normal(3.0 + 0.15 * level, 0.6))
    x = 20.0 + 0.5 * size_measure + random.gamma(2.0, 4.0, count)
    y = 40.0 + 6.0 * level + effect + 0.8 * size_measure + random.normal(0.0, 12.0, count)
    b = random.random(count) < 1.0 / (1.0 + np.exp(-(-1.2 + 0.25 * (level - 3.0) + 0.05 * effect)))

    # A tenth of the variance of the logarithm between strata, a tenth between segments of them.
    between = (level - level.mean()) / level.std()
    inside = random.normal(0.0, 1.0, int(segment.max()) + 1)[segment]
    log_income = np.sqrt(0.1) * between + np.sqrt(0.1) * inside + np.sqrt(0.8) * random.normal(0.0, 1.0, count)
    log_spent = 0.6 * log_income + 0.8 * random.normal(0.0, 1.0, count)
    rare = random.random(count) < 0.02
    columns = {
        "income": np.exp(log_income),
        "spent": np.exp(log_spent),
        "high": (log_income > np.log(3.0)).astype(np.float64),
        "rare": rare.astype(np.float64),
        "y": y,
        "x": x,
        "b": b.astype(np.float64),
    }
    return Population(columns, stratum, cluster, segment, size_measure)


@lru_cache(maxsize=4)
def hashed_order(labels: int) -> Codes:
    """Cluster numbers 0, 1, ... in the order in which the engine deals them into random groups."""
    hashes = [int.from_bytes(hashlib.sha256(f"slot\x1f{label}".encode()).digest()[:8], "big") for label in range(labels)]
    return np.array(sorted(range(labels), key=lambda label: (hashes[label], (str(label),))), dtype=np.int64)
