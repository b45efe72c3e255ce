"""Populations and designs of survey files, to see whether intervals cover: who is drawn, with which weights, and what is true.

Nothing here knows how an interval is made. A scenario draws one survey after the other: columns of a file, what an office would
declare about it, the statistic, and the classical interval of the same sample; its truth is fixed. The populations named
`held` have shapes, sizes and seeds on which no rule of the package was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaincinv, ndtri, stdtrit

import dpsurvey as ds
from dpsurvey.statistic import Statistic
from files_made import raked

Array = NDArray[Any]
Random = np.random.Generator


@dataclass(frozen=True)
class Sample:
    """One drawn file: its columns, and the ends of the classical interval."""

    columns: Mapping[str, Array]
    classical: tuple[float, float]


@dataclass(frozen=True)
class Scenario:
    """A population with a design: `draw` makes one sample, `declared` is given to Survey.collected, `more` where it is known."""

    name: str
    truth: float
    draw: Callable[[Random], Sample]
    statistic: Statistic
    declared: Mapping[str, Any]
    more: Mapping[str, Any] = field(default_factory=dict)


def interval(estimate: float, variance: float, df: float) -> tuple[float, float]:
    """Student's interval."""
    half = float(stdtrit(df, 0.975)) * float(np.sqrt(variance))
    return estimate - half, estimate + half


# --- answers: means of clusters, and answers given a mean ---

# Public bounds of the answers of each kind, and how they come about from the mean of their cluster, which lies in (0, 1).
BOUNDS = {"yes": (0.0, 1.0), "score": (0.0, 1.0), "amount": (0.0, 20.0), "visits": (0.0, 12.0), "hours": (0.0, 60.0)}


def answers(kind: str, mean: Array, random: Random) -> Array:
    """Answers within their bounds."""
    if kind == "yes":
        return (random.random(mean.shape) < mean).astype(float)
    if kind == "score":
        return np.asarray((random.random(mean.shape) < mean).astype(float) + (random.random(mean.shape) < mean)) / 2.0
    if kind == "amount":
        return np.asarray(np.minimum(mean * np.exp(1.1 * random.standard_normal(mean.shape) + 0.5), 20.0))
    if kind == "visits":
        return np.asarray(np.minimum(random.poisson(mean * 4.0 * random.gamma(0.8, 1.25, mean.shape)), 12.0)).astype(float)
    return np.asarray(
        np.where(random.random(mean.shape) < mean, np.clip(36.0 + 11.0 * random.standard_normal(mean.shape), 0, 60), 0)
    )


def expected(kind: str, mean: Array) -> Array:
    """The mean of the answers given the mean of the cluster; by averages over a fine grid where there is no formula."""
    grid = (np.arange(4_000) + 0.5) / 4_000.0
    if kind in ("yes", "score"):
        return mean
    if kind == "amount":
        return np.asarray(np.minimum(mean[..., None] * np.exp(1.1 * ndtri(grid) + 0.5), 20.0).mean(axis=-1))
    if kind == "hours":
        return np.asarray(mean * np.clip(36.0 + 11.0 * ndtri(grid), 0.0, 60.0).mean())
    # Poisson of a gamma mean, capped at 12: E min(X, 12) is the sum of P(X > k) for k from 0 to 11.
    rate = mean[..., None] * 4.0 * 1.25 * gammaincinv(0.8, grid)
    term, below, total = np.exp(-rate), np.zeros_like(rate), np.zeros_like(rate)
    for number in range(12):
        below = below + term
        total += 1.0 - below
        term = term * rate / (number + 1)
    return np.asarray(total.mean(axis=-1))


def level_of(shape: str, size: Array, random: Random) -> Array:
    """Means of clusters on (0, 1), for clusters of these sizes (strata, clusters)."""
    strata = random.standard_normal((len(size), 1))
    own = random.standard_normal(size.shape)
    if shape == "two kinds":
        return np.asarray(np.where(random.random(size.shape) < 0.2, expit(1.3 + 0.3 * own), expit(-1.9 + 0.3 * own)))
    if shape == "rare":
        return np.asarray(np.clip(0.025 * random.gamma(0.9, 1 / 0.9, size.shape), 0.0, 0.9))
    if shape == "nearly all":
        return np.asarray(expit(2.7 + 0.5 * strata + 0.5 * own))
    if shape == "larger is more":
        return np.asarray(expit(-0.9 + 0.6 * np.log(size / size.mean()) + 0.3 * own))
    if shape == "one stratum":
        return np.asarray(expit(-0.6 + np.where(np.arange(len(size))[:, None] < 2, 2.0, 0.25) * own))
    return np.asarray(expit(-0.8 + 0.5 * strata + 0.35 * own))


@dataclass(frozen=True)
class Places:
    """Strata of lognormal size, with areas of gamma size; the mean of each area, and the mean of all."""

    shares: Array
    sizes: Array
    level: Array

    @staticmethod
    def make(strata: int, areas: int, shape: str, seed: int, spread: float = 0.8, even: float = 1.3) -> Places:
        """A population of its own seed."""
        random = np.random.default_rng(seed)
        shares = np.exp(spread * random.standard_normal(strata))
        sizes = random.gamma(even, 1.0, (strata, areas)) + 0.05
        sizes /= sizes.sum(axis=1, keepdims=True)
        return Places(shares / shares.sum(), sizes, level_of(shape, sizes, random))

    def mean(self, kind: str) -> float:
        """The mean of all answers."""
        return float((self.shares[:, None] * self.sizes * expected(kind, self.level)).sum())

    def picked(self, take: int, random: Random) -> Array:
        """Areas of each stratum, in proportion to size, with replacement."""
        where = np.cumsum(self.sizes, axis=1)
        drawn = random.random((len(self.shares), take))
        return np.asarray((drawn[:, :, None] > where[:, None, :]).sum(axis=2).clip(max=self.sizes.shape[1] - 1))


def between(weights: Array, residual: Array, stratum: Array, cluster: Array, fraction: float = 0.0) -> tuple[float, float]:
    """The variance of a total between clusters within strata, and its degrees of freedom; `cluster` counts through the file."""
    clusters = int(cluster.max()) + 1
    totals = np.bincount(cluster, weights * residual, clusters)
    of = np.zeros(clusters, dtype=int)
    of[cluster] = stratum
    many = np.bincount(of)
    centred = totals - (np.bincount(of, totals) / many)[of]
    return (1.0 - fraction) * float((centred**2 * (many / (many - 1.0))[of]).sum()), float(clusters - len(many))


def range_of(lowest: float, highest: float) -> tuple[float, float]:
    """A public range of weights: rounded outward to two digits."""
    low, high = 10.0 ** np.floor(np.log10(lowest)), 10.0 ** np.floor(np.log10(highest))
    return float(np.floor(lowest / low * 10) / 10 * low), float(np.ceil(highest / high * 10) / 10 * high)


def clusters(
    name: str, strata: int, take: int, each: int, shape: str, kind: str, seed: int, *, within: float = 0.25, ratio: bool = False
) -> Scenario:
    """`take` areas in each stratum in proportion to size, about `each` records in an area, weights that also vary inside.

    A ratio has hours of those who work in its denominator, and the answers in its numerator.
    """
    places = Places.make(strata, 40, shape, seed)
    population = 1e6
    base = population * places.shares / (take * each)
    factor = (0.4, 2.4)
    weight_range = range_of(float(base.min()) * factor[0], float(base.max()) * factor[1])
    other = Places(places.shares, places.sizes, np.asarray(expit(0.3 + 0.5 * (places.level - places.level.mean()))))
    truth = places.mean(kind) / (other.mean("hours") if ratio else 1.0)

    def draw(random: Random) -> Sample:
        picked = places.picked(take, random)
        sizes = np.maximum(random.poisson(each, picked.shape), 2)
        stratum = np.repeat(np.repeat(np.arange(strata), take), sizes.ravel())
        cluster = np.repeat(np.arange(strata * take), sizes.ravel())
        area = picked.ravel()[cluster]
        weights = base[stratum] * np.clip(np.exp(within * random.standard_normal(len(stratum))), *factor)
        y = answers(kind, places.level[stratum, area], random)
        x = answers("hours", other.level[stratum, area], random) if ratio else np.ones(len(y))
        below = float(weights @ x)
        estimate = float(weights @ y) / below
        variance, df = between(weights, y - estimate * x, stratum, cluster)
        columns = {"stratum": stratum + 1, "area": cluster % take + 1, "weight": weights, "y": y} | ({"x": x} if ratio else {})
        return Sample(columns, interval(estimate, variance / below**2, df))

    declared = {"psu": "area", "psus": take, "weights": "weight", "weight_range": weight_range}
    if strata > 1:
        declared |= {"strata": "stratum", "categories": {"stratum": list(range(1, strata + 1))}}
    asked = ds.ratio("y", "x", BOUNDS[kind], BOUNDS["hours"]) if ratio else ds.mean("y", BOUNDS[kind])
    return Scenario(name, truth, draw, asked, declared)


AGES, SEXES = 4, 2
CELLS = AGES * SEXES
SHARE = np.array([0.14, 0.13, 0.18, 0.17, 0.12, 0.11, 0.07, 0.08])
# A product of age and sex, so that raking to both makes up for it.
RESPONSE = np.outer([0.37, 0.5, 0.66, 0.8], [0.91, 1.09]).ravel()


def final(
    name: str, strata: int, kind: str, effect: float, seed: int, *, each: int = 40, replicates: bool = False, sampled: int = 2_400
) -> Scenario:
    """Respondents with weights raked to age and to sex, of clusters (two in each stratum) or, without strata, of persons.

    The answers depend on age and sex by `effect`, and so does the response. Replicates leave out one cluster at a time, or one
    of 40 groups of persons, and are raked again.
    """
    clustered = strata > 0
    places = Places.make(max(strata, 1), 40 if clustered else 1, "plain", seed)
    shift = effect * (np.arange(CELLS) - 3.5) / 3.5
    population = 1e6
    take = 2 if clustered else 1
    each = each if clustered else sampled
    margins = [np.bincount(np.arange(CELLS) // SEXES, SHARE), np.bincount(np.arange(CELLS) % SEXES, SHARE)]
    logits = np.log(places.level / (1.0 - places.level))
    truth = float(
        sum(
            share * Places(places.shares, places.sizes, expit(logits + up)).mean(kind)
            for share, up in zip(SHARE, shift, strict=True)
        )
    )
    base = population * places.shares / (take * each)

    def draw(random: Random) -> Sample:
        picked = places.picked(take, random)
        cluster = np.repeat(np.arange(picked.size), each)
        cell = random.choice(CELLS, len(cluster), p=SHARE)
        responds = random.random(len(cluster)) < RESPONSE[cell]
        cluster, cell = cluster[responds], cell[responds]
        stratum = cluster // take
        age, sex = cell // SEXES, cell % SEXES
        y = answers(kind, expit(logits[stratum, picked.ravel()[cluster]] + shift[cell]), random)
        to = [(age, population * margins[0]), (sex, population * margins[1])]
        weights = raked(base[stratum], to)
        columns: dict[str, Array] = {"age": age + 1, "sex": sex + 1, "weight": weights, "y": y}
        columns |= {"stratum": stratum + 1, "area": cluster % take + 1} if clustered else {}
        estimate = float(weights @ y) / population
        x = np.stack([age == each_age for each_age in range(AGES)] + [sex == 0], axis=1).astype(float)
        root = np.sqrt(weights)[:, None]
        residual = y - x @ np.linalg.lstsq(root * x, root[:, 0] * y, rcond=None)[0]
        group = cluster if clustered else np.arange(len(y)) % 40
        if replicates:
            out = np.arange(group.max() + 1)[None, :] == group[:, None]
            # The other cluster of the stratum stands for both; the other 39 groups for all 40.
            stays = np.where(stratum[:, None] == np.arange(out.shape[1])[None, :] // take, 2.0, 1.0) if clustered else 40.0 / 39.0
            parts = raked(base[stratum][:, None] * np.where(out, 0.0, stays), to)
            columns |= {f"rep{number + 1}": parts[:, number] for number in range(out.shape[1])}
            variance = (0.5 if clustered else 39.0 / 40.0) * float(((parts.T @ y - weights @ y) ** 2).sum())
            df = float(strata if clustered else 39)
        elif clustered:
            variance, df = between(weights, residual, stratum, cluster)
        else:
            variance, df = float(((weights * residual) ** 2).sum()), float(len(y) - AGES - 1)
        return Sample(columns, interval(estimate, variance / population**2, df))

    declared: dict[str, Any] = {"weights": "weight", "weight_range": range_of(float(base.min()) * 0.7, float(base.max()) * 4.0)}
    if clustered:
        declared |= {"strata": "stratum", "psu": "area", "psus": 2, "categories": {"stratum": list(range(1, strata + 1))}}
    more = {"weights_are": "final", "calibrated_on": ["age", "sex"]} | ({"replicates": "rep[0-9]+"} if replicates else {})
    return Scenario(name, truth, draw, ds.mean("y", BOUNDS[kind]), declared, more)


def finite(name: str, strata: int, areas: int, take: int, kind: str, shape: str, seed: int, *, part: float = 1.0) -> Scenario:
    """`take` of the `areas` of each stratum without replacement, whole or a part of their people; their number is known."""
    random = np.random.default_rng(seed)
    sizes = 10 + random.gamma(1.5, 10.0, (strata, areas)).astype(int)
    level = level_of(shape, sizes / sizes.sum(axis=1, keepdims=True), random)
    people = [[answers(kind, np.full(sizes[h, c], level[h, c]), random) for c in range(areas)] for h in range(strata)]
    truth = float(np.mean(np.concatenate([np.concatenate(each) for each in people])))
    fraction = take / areas

    def draw(random: Random) -> Sample:
        rows: dict[str, list[Array]] = {key: [] for key in ("stratum", "cluster", "weight", "y")}
        for h in range(strata):
            for place, c in enumerate(random.choice(areas, take, replace=False)):
                own = people[h][c]
                size = max(2, round(part * len(own)))
                rows["y"].append(own if part == 1.0 else random.choice(own, size, replace=False))
                many = len(rows["y"][-1])
                rows["stratum"].append(np.full(many, h))
                rows["cluster"].append(np.full(many, h * take + place))
                rows["weight"].append(np.full(many, len(own) / many / fraction))
        stratum, cluster, weights, y = (np.concatenate(rows[key]) for key in ("stratum", "cluster", "weight", "y"))
        estimate = float(weights @ y / weights.sum())
        variance, df = between(weights, y - estimate, stratum, cluster, fraction)
        if part < 1.0:
            taken = np.bincount(cluster)
            within = np.bincount(cluster, (weights * (y - (np.bincount(cluster, y) / taken)[cluster])) ** 2)
            variance += fraction * (1.0 - part) * float((within * taken / (taken - 1.0)).sum())
        columns = {"stratum": stratum + 1, "area": cluster % take + 1, "areas": np.full(len(y), areas)}
        return Sample(columns | {"weight": weights, "y": y}, interval(estimate, variance / weights.sum() ** 2, df))

    declared = {"strata": "stratum", "psu": "area", "psus": take, "fpc": "areas", "weights": "weight"}
    declared |= {
        "weight_range": range_of(1.0 / fraction, (1.0 if part == 1.0 else 1.3 / part) / fraction),
        "categories": {"stratum": list(range(1, strata + 1))},
    }
    return Scenario(name, truth, draw, ds.mean("y", BOUNDS[kind]), declared)


# Weights by their quantile function, up to a public largest.
WIDE: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exponential of a t": (lambda p: np.exp(0.55 * stdtrit(4.0, p) + 1.0), 60.0),
    "steep gamma": (lambda p: np.asarray(1.0 + 6.0 * gammaincinv(0.45, p)), 45.0),
    "one in a hundred": (lambda p: np.where(p < 0.99, 1.0 + 2.0 * p, 80.0), 80.0),
    "even from 1 to 50": (lambda p: 50.0**p, 50.0),
}


def wide(name: str, weights_of: str, kind: str, n: int, slope: float, seed: int) -> Scenario:
    """Persons without clusters, whose answers rise with their weight."""
    quantiles, largest = WIDE[weights_of]

    def level(weights: Array) -> Array:
        return np.asarray(expit(-0.9 + slope * (np.log(weights) - 1.0)))

    fine = np.clip(quantiles((np.arange(20_000) + 0.5) / 20_000.0), 1.0, largest)
    truth = float(fine @ expected(kind, level(fine)) / fine.sum())

    def draw(random: Random) -> Sample:
        weights = np.clip(quantiles(random.random(n)), 1.0, largest)
        y = answers(kind, level(weights), random)
        estimate = float(weights @ y / weights.sum())
        variance = n / (n - 1.0) * float(((weights * (y - estimate)) ** 2).sum()) / weights.sum() ** 2
        return Sample({"weight": weights, "y": y}, interval(estimate, variance, n - 1.0))

    declared = {"weights": "weight", "weight_range": (1.0, largest)}
    return Scenario(name, truth, draw, ds.mean("y", BOUNDS[kind]), declared)


POPULATIONS: dict[str, Callable[[], Scenario]] = {}


def _add(make: Callable[..., Scenario], name: str, *given: Any, **named: Any) -> None:
    POPULATIONS[name] = lambda: make(name, *given, **named)


# Clusters: two of each stratum; more where there are few strata.
for _place, (_shape, _kind) in enumerate(
    [
        ("two kinds", "yes"),
        ("rare", "yes"),
        ("nearly all", "score"),
        ("larger is more", "visits"),
        ("one stratum", "amount"),
        ("plain", "hours"),
    ]
):
    for _strata, _take, _each in ((13, 2, 70), (32, 2, 35), (55, 2, 22), (8, 5, 30)):
        _add(
            clusters,
            f"held/clusters/{_strata}x{_take}/{_shape} {_kind}",
            _strata,
            _take,
            _each,
            _shape,
            _kind,
            7_100 + 10 * _place + _strata,
        )
_add(clusters, "held/clusters/1x26/two kinds score", 1, 26, 40, "two kinds", "score", 7_291)
_add(clusters, "held/clusters/1x15/plain hours", 1, 15, 12, "plain", "hours", 7_292)
# Final weights of persons, then of clusters.
for _kind, _effect in (("yes", 0.9), ("visits", 0.5), ("hours", 1.4), ("score", 0.0)):
    _add(final, f"held/final/persons/{_kind}", 0, _kind, _effect, 7_300 + len(POPULATIONS))
    _add(final, f"held/final/22x2/{_kind}", 22, _kind, _effect, 7_400 + len(POPULATIONS))
    _add(final, f"held/final/46x2/{_kind}", 46, _kind, _effect, 7_500 + len(POPULATIONS), each=24)
    _add(final, f"held/replicates/persons/{_kind}", 0, _kind, _effect, 7_600 + len(POPULATIONS), replicates=True)
    _add(final, f"held/replicates/26x2/{_kind}", 26, _kind, _effect, 7_700 + len(POPULATIONS), replicates=True)
for _shape, _kind in (("two kinds", "score"), ("plain", "visits"), ("larger is more", "yes")):
    _add(finite, f"held/fpc/9x4 of 11/{_shape} {_kind}", 9, 11, 4, _kind, _shape, 7_800 + len(POPULATIONS))
    _add(finite, f"held/fpc/18x3 of 5/{_shape} {_kind}", 18, 5, 3, _kind, _shape, 7_820 + len(POPULATIONS))
    _add(finite, f"held/fpc/14x2 of 7, a half/{_shape} {_kind}", 14, 7, 2, _kind, _shape, 7_840 + len(POPULATIONS), part=0.5)
for _weights in WIDE:
    for _kind, _slope in (("yes", 0.5), ("amount", -0.4), ("hours", 0.2)):
        _add(wide, f"held/wide/{_weights}/{_kind}", _weights, _kind, 1_600, _slope, 7_900 + len(POPULATIONS))
for _kind in ("amount", "visits", "yes"):
    for _strata, _take, _each in ((16, 2, 60), (36, 2, 30)):
        _seed = 7_950 + len(POPULATIONS)
        _add(clusters, f"held/ratio/{_strata}x{_take}/{_kind}", _strata, _take, _each, "plain", _kind, _seed, ratio=True)
