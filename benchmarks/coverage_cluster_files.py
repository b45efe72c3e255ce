"""Collected files of clusters for the coverage study: populations, how their samples are drawn, and jackknife intervals of them.

Strata have lognormal sizes and two clusters each, or there are no strata; clusters have gamma sizes. Records are drawn in
clusters that were chosen in proportion to size, each by a measure of its own ("unequal weights"), or in clusters chosen alike,
as a share of each ("uneven clusters"). All draws are with replacement, so that the textbook's variance is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import stdtrit

import dpsurvey as ds
from coverage_designs import FIXED, Drawn, Sampling
from coverage_frame import Array, Codes, Population

SEED = 20260411
# (strata, clusters drawn in each, records in all)
LAYOUTS = {
    "12 x 2": (12, 2, 1_000),
    "30 x 2": (30, 2, 2_000),
    "60 x 2": (60, 2, 2_400),
    "24 clusters": (1, 24, 1_200),
    "80 clusters": (1, 80, 2_000),
    "4 x 10": (4, 10, 1_600),
}
WEIGHTING = ("unequal weights", "uneven clusters")
BOUNDS = {"cont": (0.0, 1.0), "skew": (0.0, 30.0), "u": (0.0, 1.0), "zero": (0.0, 20.0), "base": (0.0, 2.0)}


@dataclass(frozen=True)
class FilePopulation(Population):
    """A population of units in clusters in strata, with strata of its own names."""

    labels: tuple[str, ...] = ()

    @cached_property
    def clipped(self) -> dict[str, Array]:
        return {name: np.clip(values, *BOUNDS[name]) if name in BOUNDS else values for name, values in self.columns.items()}

    @cached_property
    def frame(self) -> ds.Frame:
        categories: dict[str, list[str]] = {"sex": ["0", "1"]}
        if len(self.labels) > 1:
            categories["stratum"] = list(self.labels)
        return ds.Frame("file", None, self.size, categories)


@lru_cache(maxsize=2)
def population_of(layout: str) -> FilePopulation:
    """The units of a layout; 40 clusters or more to a stratum, and stratum levels that differ."""
    strata, _, _ = LAYOUTS[layout]
    random = np.random.default_rng([SEED, *map(ord, layout)])
    clusters = 40 if strata > 1 else 400
    of_stratum = np.exp(random.normal(0.0, 0.6, strata))
    sizes = np.maximum(8, np.rint(random.gamma(2.5, 30.0, (strata, clusters)) * (of_stratum / of_stratum.mean())[:, None]))
    flat = sizes.astype(np.int64).ravel()
    cluster = np.repeat(np.arange(len(flat)), flat)
    stratum = cluster // clusters
    count = len(cluster)
    level = random.normal(0.0, 0.3, strata)[stratum]
    between, sex = random.normal(0.0, 1.0, len(flat))[cluster], (random.random(count) < 0.45).astype(np.float64)
    measure = np.exp(random.normal(0.0, 0.45, count) + 0.15 * between)
    z = level + 0.35 * between + 0.25 * sex
    noise = random.normal(0.0, 1.0, count)
    columns = {
        "sex": sex,
        "cont": 0.4 + 0.1 * z + 0.15 * noise,
        "skew": np.exp(0.8 * z + 0.9 * noise + 0.2 * np.log(measure)),
        "u": random.beta(0.35 * np.exp(0.5 * z), 0.35),
        "zero": np.where(random.random(count) < 1.0 / (1.0 + np.exp(1.8 - z)), np.exp(1.0 + 0.8 * noise + 0.3 * z), 0.0),
        "base": 0.3 + 0.5 * random.gamma(2.0, 0.4, count) + 0.1 * z**2,
        "p40": (random.random(count) < 1.0 / (1.0 + np.exp(0.4 - 0.8 * z))).astype(np.float64),
        "p10": (random.random(count) < 1.0 / (1.0 + np.exp(2.4 - 0.8 * z))).astype(np.float64),
        "p2": (random.random(count) < 1.0 / (1.0 + np.exp(4.2 - 0.8 * z))).astype(np.float64),
    }
    labels = tuple(f"s{place:02d}" for place in range(strata))
    return FilePopulation(columns, stratum, cluster, cluster, measure, labels)


@lru_cache(maxsize=2)
def file_sampling(layout: str, weighting: str) -> Sampling:
    """How files of a layout come about."""
    strata, drawn, records = LAYOUTS[layout]
    people = population_of(layout)
    sizes = np.bincount(people.cluster)
    clusters = len(sizes) // strata
    even = weighting == "uneven clusters"
    measure = np.ones(people.size) if even else np.clip(people.size_measure, 0.35, 2.8)
    ends = np.cumsum(measure)
    reach = np.concatenate([[0.0], ends[np.cumsum(sizes) - 1]])
    of_cluster = np.diff(reach).reshape(strata, clusters)
    # Large strata have more records, but not in proportion.
    share = np.sqrt(of_cluster.sum(axis=1))
    take = np.maximum(6, np.rint(records * share / share.sum() / drawn)).astype(np.int64)
    if even:
        rate = take / sizes.reshape(strata, clusters).mean(axis=1)
        takes = np.maximum(2, np.rint(rate[:, None] * sizes.reshape(strata, clusters))).astype(np.int64).ravel()
        weight = (clusters / drawn * (sizes / takes))[people.cluster]
        chances = np.full((strata, clusters), 1.0 / clusters)
    else:
        takes = np.repeat(take, clusters)
        weight = (of_cluster.sum(axis=1) / (drawn * take))[people.stratum] / measure
        chances = of_cluster / of_cluster.sum(axis=1, keepdims=True)
    upto = np.cumsum(chances, axis=1)
    upto[:, -1] = 1.0

    def draw(random: np.random.Generator) -> Drawn:
        points = random.random((strata, drawn))
        chosen = np.concatenate([np.searchsorted(upto[place], points[place]) + place * clusters for place in range(strata)])
        own = takes[chosen]
        low, width = np.repeat(reach[chosen], own), np.repeat(np.diff(reach)[chosen], own)
        units = np.searchsorted(ends, low + random.random(own.sum()) * width, side="right")
        return Drawn(np.minimum(units, people.size - 1), np.cumsum(own) - own)

    stratum = "stratum" if strata > 1 else None
    design = ds.design.collected(strata=stratum, psu="psu", weights="w", weights_are="design", psus=drawn)
    extremes = float(weight.min()), float(weight.max())
    chance = 1.0 / weight
    return Sampling(f"{layout}, {weighting}", people, design, FIXED, draw, "file", weight, chance, np.zeros(strata), extremes)


def jackknife(tops: Array, bottoms: Array, stratum: Codes, signs: Array) -> tuple[Array, Array]:
    """(estimate, standard error) of ratios of sums by cluster (surveys, clusters, numbers), added up with their signs.

    Each cluster is left out in turn, and the others of its stratum are raised.
    """
    counts = np.bincount(stratum)
    own = np.eye(len(counts))[stratum]

    def left_out(sums: Array) -> Array:
        means = np.einsum("scn,ch->shn", sums, own / counts)
        factor = (counts / (counts - 1.0))[stratum][:, None]
        return np.asarray(sums.sum(axis=1)[:, None] - factor * (sums - means[:, stratum]))

    whole = (tops.sum(axis=1) / bottoms.sum(axis=1)) @ signs
    apart = (left_out(tops) / left_out(bottoms)) @ signs - whole[:, None]
    shrink = ((counts - 1.0) / counts)[stratum]
    return whole, np.sqrt((shrink * apart**2).sum(axis=1))


def critical(stratum: Codes) -> float:
    """Student's t with clusters less strata."""
    return float(stdtrit(len(stratum) - stratum.max() - 1.0, 0.975))
