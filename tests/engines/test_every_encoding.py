"""The sums of every encoding, on every engine, are the integers of an oracle in plain Python and exact fractions."""

import bisect
import gc
import hashlib
import itertools
import math
import sqlite3
from dataclasses import replace
from fractions import Fraction

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.columns import DesignColumns
from dpsurvey.design.recipe import Taken
from dpsurvey.engine import Engine, Expectations
from dpsurvey.statistic import STATISTICS
from dpsurvey.statistic.encodings import ENCODINGS
from dpsurvey.statistic.exact_totals import ClusterTotals
from dpsurvey.statistic.facts import Facts
from tests.contracts.contracts import example_of, facts_of
from tests.engines import servers

# Ibis and Spark use options of pandas that are on their way out, and Spark leaves sockets open; nothing of ours does.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

REGIONS, SEXES = {"north": 200, "south": 120, "island": 80}, ("female", "male")
SIZE, BOUNDS, WEIGHTS = sum(REGIONS.values()), (-256.0, 768.0), (2.0, 8.0)
OWN = {"north": (-256, 256), "south": (0, 256), "island": (-256, 768)}
BY_SEX = {"female": (0, 256), "male": (-256, 768)}
HALF = Fraction(1, 2)
STAYS = {"weights_stay": True, "held": ("sex",)}
# Clusters of each stratum that there were to be drawn.
POPULATIONS = {"north": 36, "south": 12, "island": 9}


def a_register():
    """Values and weights on dyadic grids, some outside their bounds, some on edges of leaves, some missing."""
    rng = np.random.default_rng(17)
    order = rng.permutation(SIZE)
    region = np.repeat(list(REGIONS), list(REGIONS.values()))[order]
    income = rng.integers(-8 * 400, 8 * 900, SIZE) / 8.0
    income[:40] = rng.integers(-80, 240, 40) * 4.0
    answer = [None if absent else float(value) for absent, value in zip(rng.random(SIZE) < 0.2, income, strict=True)]
    job = [None if absent else word for absent, word in zip(rng.random(SIZE) < 0.1, rng.choice(["a", "b"], SIZE), strict=True)]
    return pa.table(
        {
            "id": pa.array(rng.permutation(SIZE), pa.int64()),
            "region": region.tolist(),
            "sex": rng.choice(SEXES, SIZE).tolist(),
            "psu": [f"{label[0]}{number}" for label, number in zip(region, rng.integers(0, 9, SIZE), strict=True)],
            # Powers of two, by which numbers are divided exactly.
            "size": 2.0 ** rng.integers(0, 2, SIZE),
            "w": rng.integers(2 * 16, 8 * 16 + 1, SIZE) / 16.0,
            "psus": [POPULATIONS[label] for label in region],
            "income": income,
            "hours": pa.array(rng.integers(0, 80, SIZE), pa.int64()),
            "rooms": rng.integers(0, 9, SIZE) / 1.0,
            "answer": pa.array(answer, pa.float64()),
            "job": pa.array(job, pa.string()),
        }
    )


REGISTER = a_register()
FRAME = ds.Frame("anywhere", "id", SIZE, {"region": REGIONS, "sex": SEXES, "job": ("a", "b")}, public=["rate"])
POISSON, SRS = ds.poisson(0.5), ds.srs(n=80)
STRATA = ds.stratified("region", within={"north": ds.srs(n=20), "south": ds.srs(n=30), "island": ds.srs(n=40)})
UNEQUAL = collected(weights="w", weights_are="design")
CLUSTERS, IN_STRATA = (
    collected(psu="psu", weights="w", weights_are="design", psus=20),
    collected(strata="region", psu="psu", weights="w", weights_are="design", psus=6),
)
WITH_POPULATIONS = collected(strata="region", psu="psu", weights="w", weights_are="design", psus=6, fpc="psus")
EVERYTHING = Taken(DesignColumns(strata="region", psu="psu", weights="w", fpc="psus"))
EXPECTED = Expectations(unit="id", categories={"region": tuple(REGIONS), "sex": SEXES}, strata="region", weight_range=WEIGHTS)


def query(statistic, design, relation="add-remove", norm="L1", epsilon=1.0, **more):
    more = {"weight_range": WEIGHTS if design.kind == "collected" else None} | more
    facts = Facts(FRAME, design.resolve(FRAME), relation, norm, epsilon=epsilon, **more)
    return statistic.query(facts)


def mean(**options):
    return ds.mean(options.pop("of", "income"), options.pop("bounds", BOUNDS), **options)


def dealt_out(statistic):
    """With noise in every random group of clusters."""
    return replace(statistic, variance="groups")


def as_norm(statistic, design, norm="L1", epsilon=1.0):
    """The query of a statistic whose standard errors are bought as norms."""
    return query(replace(statistic, variance="norm"), design, "replace-one", norm, epsilon)


RATIO = ds.ratio("hours", "rooms", bounds=(0, 64), to_bounds=(0, 8), by="sex")
GREG = ds.greg(mean(), {"hours": ((0, 64), 30), "rooms": ((0, 8), 4)})
WOMEN_WHO_WORK = {"sex": "female", "hours": (20, 60)}
TREE = ds.quantile("income", 0.5, BOUNDS, method="tree")
QUERIES = {
    "triple": query(mean(), POISSON),
    "triple, unit weights": query(ds.total("income", BOUNDS, by="sex"), UNEQUAL),
    "free spread": query(mean(by="sex"), UNEQUAL),
    "free spread, L2": query(mean(by="sex"), UNEQUAL, norm="L2"),
    "free spread, weights trimmed": query(mean(trim=4.0), UNEQUAL),
    "free spread, weights shrunk": query(mean(shrink=0.5), UNEQUAL),
    "in place": query(mean(by="sex", expect=(64, 128)), UNEQUAL, "replace-one", **STAYS),
    "in place, L2, weights trimmed": query(mean(trim=4.0), UNEQUAL, "replace-one", "L2", **STAYS),
    "in place, equal weights": query(mean(), collected(), "replace-one", **STAYS),
    "in place, of a total under a condition": query(
        ds.total("answer", BOUNDS, by="sex", missing="drop", where=WOMEN_WHO_WORK), UNEQUAL, "replace-one", **STAYS
    ),
    "in place, counted": query(ds.proportion("job", "a", missing="b"), UNEQUAL, "replace-one", **STAYS),
    "in place, counted alike, L2": query(
        ds.proportion("job", "a", missing="b", expect=0.25), collected(), "replace-one", "L2", **STAYS
    ),
    "triple, lattice by stratum": query(mean(by="sex"), STRATA, "replace-one"),
    "triple of a domain": query(mean(where=WOMEN_WHO_WORK), POISSON),
    "triple of several labels": query(mean(where={"region": ["north", "island"]}), UNEQUAL),
    "triple where a missing value does not count": query(mean(where={"job": "a", "answer": (-300, 100)}), POISSON),
    "triple, bounds by another column": query(mean(bounds=BY_SEX), POISSON),
    "triple, bounds by group": query(mean(bounds=BY_SEX, by=("sex", "region")), UNEQUAL),
    "triple, missing answers filled": query(mean(of="answer", missing=128.0), POISSON),
    "spread": query(mean(by="region"), UNEQUAL, epsilon=2.0, as_in_0_8=True),
    "moments": query(mean(), SRS, "replace-one"),
    "moments, L2": query(mean(), SRS, "replace-one", "L2"),
    "moments, bounds by stratum": query(mean(bounds=OWN), STRATA, "replace-one"),
    "moments by stratum, bounds by stratum": query(mean(bounds=OWN, by="region"), STRATA, "replace-one"),
    "moments, missing answers filled": query(mean(of="answer", missing=0.0), SRS, "replace-one"),
    "moments of expanded values": query(
        ds.total("income", BOUNDS, estimator="horvitz-thompson"),
        collected(weights="w", weights_are="design", n=SIZE),
        "replace-one",
    ),
    "moments, each by its weight": query(ds.total("income", BOUNDS, estimator="horvitz-thompson"), UNEQUAL, as_in_0_8=True),
    "weighted moments": query(ds.total("income", BOUNDS, estimator="horvitz-thompson"), UNEQUAL),
    "weighted moments, chances taken off, L2": query(
        ds.total("income", BOUNDS, estimator="horvitz-thompson"),
        ds.poisson_by("rate", at_most=0.5),
        norm="L2",
        weight_range=WEIGHTS,
    ),
    "weighted moments, per unit of size": query(ds.total("income", (0, 512), per="size", weighted_size=(2.0, 16.0)), UNEQUAL),
    "sum of expanded values": query(
        ds.total("income", BOUNDS, estimator="horvitz-thompson"),
        collected(weights="w", weights_are="design", n=SIZE),
        "replace-one",
        weights_move=True,
    ),
    "triple, missing answers counted": query(ds.imputed(mean(of="answer"), cells=["region", "sex"]), UNEQUAL),
    "triple of those who answered": query(
        mean(of="answer", by="sex", where=WOMEN_WHO_WORK, missing="drop"), STRATA, "replace-one"
    ),
    "spread of those who answered": query(mean(of="answer", missing="drop"), UNEQUAL, epsilon=2.0, as_in_0_8=True),
    "free spread of those who answered": query(mean(of="answer", missing="drop"), UNEQUAL),
    "products of those who answered": query(ds.greg(mean(missing="drop"), {"answer": ((-256, 768), 30)}), UNEQUAL, "replace-one"),
    "ratio of those who answered both": query(ds.ratio("answer", "rooms", (0, 64), (0, 8), "sex", missing="drop"), POISSON),
    "both, clusters, of those who answered both": query(
        dealt_out(ds.ratio("rooms", "answer", (0, 8), (0, 64), missing="drop")), IN_STRATA, "replace-one"
    ),
    "pair of those who answered": query(ds.proportion("job", "a", by="sex", missing="drop"), UNEQUAL),
    "pair, clusters, of those who answered": query(
        dealt_out(mean(of="answer", by="sex", missing="drop")), CLUSTERS, "replace-one"
    ),
    "moments of a total of those who answered": query(ds.total("answer", (2, 768), missing="drop"), SRS, "replace-one"),
    "yes of a count of those who answered": query(ds.count("job", "a", missing="drop"), SRS, "replace-one"),
    "yes of a count of those who answered, within bounds": query(
        ds.count(where={"answer": (0, 400)}, missing="drop"), SRS, "replace-one"
    ),
    "pair of a table of those who answered": query(ds.table("sex", "job", where={"answer": (0, 400)}, missing="drop"), UNEQUAL),
    "pair of a table of those who answered, clusters": query(dealt_out(ds.table("job", missing="drop")), CLUSTERS, "replace-one"),
    "tree of those who answered": query(ds.median("answer", BOUNDS, "sex", method="tree", leaves=16, missing="drop"), UNEQUAL),
    "tree of those who answered, clusters": query(
        dealt_out(ds.median("answer", BOUNDS, method="tree", leaves=16, missing="drop")), IN_STRATA, "replace-one"
    ),
    "tree, missing answers filled": query(ds.median("answer", BOUNDS, method="tree", leaves=16, missing=0.0), POISSON),
    "products": query(GREG, POISSON),
    "products, unit weights": query(GREG, UNEQUAL, "replace-one"),
    "ratio": query(RATIO, POISSON),
    "ratio, L2, unit weights": query(RATIO, UNEQUAL, norm="L2"),
    "ratio, a third": query(ds.ratio("hours", "rooms", (0, 64), (0, 8)), SRS, "replace-one"),
    "centred": query(ds.ratio("hours", "rooms", (0, 64), (0, 8), "sex", estimator="centred"), STRATA, "replace-one"),
    "centred, of those who answered both": query(
        ds.ratio("answer", "rooms", (0, 64), (0, 8), estimator="centred", missing="drop"), POISSON
    ),
    "yes": query(ds.proportion("sex", "male"), SRS, "replace-one"),
    "yes by stratum": query(ds.proportion("job", "b", by="region", missing="b"), STRATA, "replace-one"),
    "pair of a domain": query(ds.proportion("job", "a", by="sex", where={"hours": (10, 50)}, missing="b"), UNEQUAL),
    "free pair": query(ds.proportion("job", "a", by="sex", missing="b"), UNEQUAL),
    "free pair, lattice by stratum, L2": query(ds.proportion("job", "a", missing="drop"), STRATA, "replace-one", "L2"),
    "units of a table": query(ds.table("region", "sex"), UNEQUAL),
    "pair of a table under a condition": query(ds.table("sex", where={"income": (0, 400)}), POISSON),
    "triple of a total under a condition": query(ds.total("income", BOUNDS, by="sex", where=WOMEN_WHO_WORK), UNEQUAL),
    "moments of a total under a condition, bounds above 0": query(
        ds.total("rooms", (2, 8), where={"sex": "male"}), SRS, "replace-one"
    ),
    "yes of a count under a condition": query(ds.count("job", "a", where={"sex": "male"}, missing="b"), SRS, "replace-one"),
    "counted of a count under a condition, clusters": query(
        dealt_out(ds.count("job", "a", where={"hours": (10, 50)}, missing="b")), CLUSTERS, "replace-one"
    ),
    "counted, clusters": query(dealt_out(mean()), CLUSTERS, "replace-one"),
    "counted, clusters in strata": query(dealt_out(mean(of="answer", missing=64.0)), IN_STRATA, "replace-one"),
    "counted answers, clusters": query(dealt_out(ds.proportion("sex", "male")), IN_STRATA, "replace-one"),
    "pair, clusters of a domain": query(dealt_out(mean(where=WOMEN_WHO_WORK)), CLUSTERS, "replace-one"),
    "pair, clusters dealt by their hash alone": query(mean(by="sex"), IN_STRATA, "add-remove"),
    "pair of answers, clusters": query(ds.proportion("sex", "male", by="region"), CLUSTERS, "add-remove"),
    "both, clusters": query(dealt_out(RATIO), IN_STRATA, "replace-one"),
    "units, clusters": query(dealt_out(ds.table("region", "sex")), CLUSTERS, "replace-one"),
    "tree": query(TREE, POISSON),
    "tree by sex, clusters": query(
        dealt_out(ds.quantile("income", 0.5, BOUNDS, "sex", method="tree", leaves=64)), IN_STRATA, "replace-one"
    ),
    "tree, unit weights, of a domain": query(
        ds.quantile("income", 0.5, (0, 768), where=WOMEN_WHO_WORK, method="tree", spacing="log", first=1.0), UNEQUAL
    ),
    "tree with atoms": query(ds.quantile("hours", 0.5, (8, 64), method="tree", leaves=16, atoms=(20, 40)), POISSON),
    "tree with atoms, equal ratios": query(
        ds.quantile("answer", 0.5, (0, 768), method="tree", spacing="log", first=1.0, atoms=(100, 128), missing="drop"), UNEQUAL
    ),
    "histogram": query(ds.median("income", BOUNDS, method="exponential"), SRS, "replace-one"),
    "histogram, lattice by stratum": query(ds.median("hours", (0, 64), method="exponential"), STRATA, "replace-one"),
    "histogram for clipping": query(ds.clipping_bounds("income", within=(0, 1e6)), UNEQUAL, "replace-one"),
    "window": query(ds.median("income", BOUNDS, method="smooth"), ds.srs(n=SIZE), "replace-one", epsilon=60.0),
}
# Every cluster apart, for standard errors that are bought as norms.
BY_CLUSTER = {
    "a mean": as_norm(mean(), CLUSTERS),
    "a mean in strata, its spread in little noise": as_norm(mean(of="answer", missing=64.0), IN_STRATA, epsilon=1e6),
    "a mean by stratum": as_norm(mean(by="region", of="hours", bounds=(0, 64)), IN_STRATA, "L2"),
    "a mean by an answer": as_norm(mean(by="sex"), CLUSTERS),
    "a mean where shares of clusters are known": as_norm(mean(by="region"), WITH_POPULATIONS),
    "a proportion": as_norm(ds.proportion("sex", "male"), IN_STRATA),
    "a proportion of those who answered": as_norm(ds.proportion("job", "a", by="sex", missing="drop"), IN_STRATA),
    "a mean under conditions": as_norm(mean(where=WOMEN_WHO_WORK), CLUSTERS),
    "a mean under conditions, of those who answered": as_norm(
        mean(of="answer", by="sex", where={"hours": (10, 50)}, missing="drop"), WITH_POPULATIONS
    ),
    "a mean of nobody in most clusters": as_norm(mean(where={"hours": (79, 80), "sex": "male"}), IN_STRATA),
    "a total under a condition": as_norm(ds.total("income", BOUNDS, by="sex", where=WOMEN_WHO_WORK), CLUSTERS),
    "a count of those who answered": as_norm(ds.count("job", "a", where={"hours": (10, 50)}, missing="drop"), IN_STRATA),
    "a table": as_norm(ds.table("region", "sex"), CLUSTERS),
    "a table of those who answered": as_norm(ds.table("job", missing="drop"), IN_STRATA),
    "a ratio": as_norm(RATIO, IN_STRATA),
    "a ratio of those who answered both": as_norm(
        ds.ratio("rooms", "answer", (0, 8), (0, 64), missing="drop"), WITH_POPULATIONS, epsilon=1e6
    ),
    "a tree": as_norm(ds.quantile("income", 0.5, BOUNDS, method="tree", leaves=16), CLUSTERS),
    "a tree by stratum": as_norm(ds.quantile("income", 0.9, BOUNDS, "region", method="tree", leaves=16), IN_STRATA),
    "a tree by sex, of those who answered": as_norm(
        ds.median("answer", BOUNDS, "sex", method="tree", leaves=16, missing="drop"), IN_STRATA
    ),
    "a tree of a domain": as_norm(ds.median("income", BOUNDS, where=WOMEN_WHO_WORK, method="tree", leaves=16), CLUSTERS),
}


# The oracle


def clip(value, low, high):
    return min(max(value, low), high)


def nearest(value):
    return math.floor(value + HALF)


def number_in(row, column, fill=None):
    value = row[column] if row[column] is not None else fill
    return None if value is None else Fraction(value)


def weight_in(row, query):
    """What a row counts: its weight, times its size where values are per unit of size."""
    return Fraction(row["w"]) * (Fraction(row[query.per.column]) if query.per else 1)


def scaled_in(row, query):
    """y on [0, 1]."""
    outside = query.masks and not meets(row, query)
    value = (
        Fraction(0)
        if outside
        else number_in(row, query.column, query.fill) / (Fraction(row[query.per.column]) if query.per else 1)
    )
    low, high = map(Fraction, query.bounds)
    if query.own_bounds and not outside:
        own = {label: (Fraction(a), Fraction(b)) for label, a, b in query.own_bounds.by_label}[row[query.own_bounds.column]]
        value = clip(value, *own)
        if query.own_bounds.scaled:
            return (value - own[0]) / (own[1] - own[0])
    value = clip(value, *map(Fraction, query.clip or query.bounds)) if not outside else Fraction(0)
    if query.expanded:
        low, high = map(Fraction, query.expanded)
        value *= weight_in(row, query)
    return (value - low) / (high - low)


def steps_in(row, query):
    if query.weights:
        kept, middle, largest = (Fraction(each) for each in (query.weights.kept, query.weights.middle, query.weights.largest))
        share = (kept * weight_in(row, query) + (1 - kept) * middle) / largest
        return nearest(min(share, 1) * query.weights.steps)
    steps = dict(query.lattice)
    return steps[None] if None in steps else steps[row["region"]]


def triple(y, steps):
    top = nearest(steps * y * y)
    bottom = min(nearest(steps * (1 - y) ** 2), steps - top)
    return [top, steps - top - bottom, bottom]


def parts_of(row, query):
    """What one row adds to the components of its cell; who left out an answer adds to the last and to no other."""
    if not (query.dropped and not query.masks):
        return answers_of(row, query)
    if any(row[column] is None for column in query.dropped):
        return [*[0] * (query.components - 1), steps_in(row, query)]
    return [*answers_of(row, query), 0]


def answers_of(row, query):
    steps, kind, encoding = steps_in(row, query), query.encoding.name, query.encoding
    if kind == "units":
        return [steps]
    if kind in ("tree", "histogram"):
        value = clip(number_in(row, query.column, query.fill), encoding.edges[0], encoding.edges[-1])
        first, behind = bisect.bisect_left(encoding.edges, value), bisect.bisect_right(encoding.edges, value)
        # Between two edges; on an edge the leaf that starts there; on one that stands twice the leaf between the two.
        leaf = first if behind - first == 2 else min(behind - 1, len(encoding.edges) - 2)
        counts, parts = len(encoding.edges) - 1, []
        while counts > 1:
            level = [0] * counts
            level[leaf] = steps
            parts = [*level, *parts]
            if kind == "histogram":
                break
            counts, leaf = counts // encoding.branching, leaf // encoding.branching
        return parts
    if query.value is not None or query.column is None:
        answer = None if query.column is None else row[query.column] if row[query.column] is not None else query.fill
        inside = not query.masks or meets(row, query)
        yes = steps if inside and answer == query.value else 0
        if kind == "in place":
            return in_place(steps, Fraction(yes, steps), query)
        both = [yes, steps - yes]
        if kind == "free pair":
            rest = Fraction(encoding.scale) * (1 - Fraction(steps, query.steps))
            return [*both, *(nearest(each * rest) for each in both)]
        return {"yes": [yes], "pair": both, "counted": [yes, steps * getattr(encoding, "record_scale", 1)]}[kind]
    if kind == "in place":
        return in_place(steps, scaled_in(row, query), query)
    y, scale = scaled_in(row, query), Fraction(getattr(encoding, "scale", 1.0))
    if kind == "spread":
        thinned = nearest(Fraction(steps, query.steps) ** 2 * scale * query.steps)
        return [*triple(y, steps), *triple(y, thinned)]
    if kind == "free spread":
        return [*triple(y, steps), *triple(y, nearest(steps * scale * (1 - Fraction(steps, query.steps))))]
    if kind == "products":
        x = [
            (clip(number_in(row, name), low, high) - Fraction(low)) / Fraction(high - low) - HALF
            for name, low, high in encoding.regressors
        ]
        z = [Fraction(1), *x, y - HALF]
        return [nearest(steps * z[i] * z[j]) for i in range(len(z)) for j in range(i, len(z))]
    own = nearest(steps * y)
    if kind in ("both", "ratio", "centred"):
        low, high = map(Fraction, encoding.bounds)
        x = (clip(number_in(row, encoding.second), low, high) - low) / (high - low)
        squares = [y * (1 - y), x * (1 - x), (y - x) ** 2] if kind != "both" else []
        return [own, nearest(steps * x), *(nearest(steps * scale * each) for each in squares)]
    if kind == "weighted moments":
        product = y * (1 - Fraction(steps, query.steps) * y) - Fraction(encoding.taken) * y * (1 - y)
        return [own, nearest(steps * scale * product)]
    others = {
        "sum": [],
        "moments": [nearest(steps * scale * y * (1 - y))],
        "pair": [steps - own],
        "counted": [steps * getattr(encoding, "record_scale", 1)],
    }
    return triple(y, steps) if kind == "triple" else [own, *others[kind]]


def in_place(steps, y, query):
    """The sums of a record whose answers alone may change: of rows whose chances take nothing off."""
    encoding, u = query.encoding, Fraction(steps, query.steps)
    centre, scale = Fraction(encoding.centre), Fraction(encoding.scale)
    apart = int(y) * steps - nearest(steps * centre) if encoding.counts else steps * (y - centre)
    sums = [apart if encoding.counts else nearest(apart), steps]
    sums += [] if encoding.alike else [nearest(scale * (1 - u) * apart)]
    sums += [] if encoding.counts else [nearest(scale * u * steps * (y * (1 - y) - centre * (1 - centre)))]
    return sums if encoding.alike else [*sums, nearest(u * steps), nearest(u * u * steps)]


def meets(row, query):
    if query.masks and any(row[column] is None for column in query.dropped):
        return False
    for each in query.where:
        value = row[each.column]
        if value is None or (value not in each.labels if each.labels else not each.low <= value <= each.high):
            return False
    return True


def dealt(rows, random_groups):
    """The random group of every cluster: its hash alone, or one after the other in the order of hashes, stratum by stratum."""
    labels = sorted({(row["region"], row["psu"]) if random_groups.strata else (row["psu"],) for row in rows})
    hashed = {
        label: int.from_bytes(hashlib.sha256("\x1f".join(["slot", *label]).encode()).digest()[:8], "big") for label in labels
    }
    found, before = {}, {}
    for label in sorted(labels, key=lambda label: (hashed[label], label)):
        stratum = label[0] if random_groups.strata else None
        random_group = before.get(stratum, 0) if random_groups.balanced else hashed[label]
        before[stratum] = before.get(stratum, 0) + 1
        place = random_groups.strata.index(stratum) if random_groups.strata else 0
        found[label] = place * random_groups.count + random_group % random_groups.count
    return found


def sums_by_hand(rows, query):
    if query.encoding.name == "window":
        first, last = query.encoding.ranks
        ordered = sorted(nearest(query.steps * scaled_in(row, query)) for row in rows if meets(row, query))
        return [[ordered[rank - 1] for rank in range(first, last + 1)]]
    random_groups = dealt(rows, query.random_groups) if query.random_groups else {}
    width = query.random_groups.cells if query.random_groups else 1
    sums = [[0] * query.components for _ in range(query.cells)]
    for row in rows:
        if query.masks or meets(row, query):
            labels = zip(query.by, query.categories, strict=True)
            group = query.groups.index(tuple(row[column] if row[column] is not None else own[0] for column, own in labels))
            label = (
                () if not query.random_groups else (row["region"], row["psu"]) if query.random_groups.strata else (row["psu"],)
            )
            own = sums[group * width + random_groups.get(label, 0)]
            for index, part in enumerate(parts_of(row, query)):
                own[index] += part
    return sums


def cluster_totals_by_hand(rows, query):
    """Of every cluster, in the order of labels: sums by group, whole records that stay there, and its stratum; then shares."""
    in_strata = query.clusters.strata
    label_of = {True: lambda row: (row["region"], row["psu"]), False: lambda row: (row["psu"],)}[bool(in_strata)]
    members = {}
    for row in rows:
        members.setdefault(label_of(row), []).append(row)
    sums, units, stratum = [], [], []
    for label in sorted(members):
        sums.append(sums_by_hand(members[label], query))
        whole = [0] * (len(query.groups) if query.stays else 1)
        for row in members[label]:
            group = query.groups.index(tuple(row[column] for column in query.by)) if query.stays else 0
            whole[group] += steps_in(row, query)
        units.append(whole)
        stratum.append(in_strata.index(label[0]) if in_strata else 0)
    drawn = [stratum.count(place) for place in range(max(1, len(in_strata)))]
    there = [POPULATIONS[label] if query.clusters.of_column else math.inf for label in in_strata or ("all",)]
    return sums, units, stratum, [count / most for count, most in zip(drawn, there, strict=True)]


@pytest.fixture(scope="module")
def clusters_on_paper():
    rows = REGISTER.to_pylist()
    return {name: cluster_totals_by_hand(rows, query) for name, query in BY_CLUSTER.items()}


@pytest.fixture(scope="module")
def on_paper():
    rows = REGISTER.to_pylist()
    return {name: sums_by_hand(rows, query) for name, query in QUERIES.items()}


# The engines


def a_sqlite_table(path):
    kinds = {pa.int64(): "integer", pa.float64(): "real", pa.string(): "text"}
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"create table register ({', '.join(f'{field.name} {kinds[field.type]}' for field in REGISTER.schema)})"
        )
        marks = ", ".join("?" * REGISTER.num_columns)
        connection.executemany(f"insert into register values ({marks})", [tuple(row.values()) for row in REGISTER.to_pylist()])
    connection.close()
    return ibis.sqlite.connect(path).table("register")


@pytest.fixture(scope="module", params=["parquet", "csv", "arrow", "sqlite", "postgres", "spark"])
def engine(request, tmp_path_factory):
    """All rows as a sample, where they are, with stratum, cluster and weight."""
    folder, kind = tmp_path_factory.mktemp("rows"), request.param
    if kind in ("parquet", "spark"):
        pq.write_table(REGISTER, folder / "register.parquet")
        source = str(folder / "register.parquet")
    elif kind == "csv":
        pacsv.write_csv(REGISTER, folder / "register.csv")
        source = str(folder / "register.csv")
    elif kind == "sqlite":
        source = a_sqlite_table(folder / "register.sqlite")
    elif kind == "postgres":
        source = servers.put(request.getfixturevalue("postgres"), "encodings", REGISTER)
    else:
        source = REGISTER
    if kind == "spark":
        request.getfixturevalue("spark")
    opened = Engine(source, "spark" if kind == "spark" else "duckdb")
    opened.draw(EVERYTHING, EXPECTED)
    yield opened
    if kind == "spark":
        # Sockets of Spark's own are collected here, where their warning is expected.
        gc.collect()


# Spark takes a second for a query; it gets one of each encoding and of each thing that is asked around it.
ON_SPARK = {
    *("free spread, weights shrunk", "triple of a domain", "triple, bounds by another column", "spread", "products"),
    *("ratio", "centred"),
    *("in place", "in place, counted", "weighted moments, per unit of size", "free spread", "free pair"),
    *("moments, bounds by stratum", "sum of expanded values", "yes by stratum", "counted, clusters in strata", "window"),
    *("pair, clusters dealt by their hash alone", "both, clusters", "units, clusters", "tree, unit weights, of a domain"),
    *("histogram, lattice by stratum", "triple where a missing value does not count", "triple of those who answered"),
    *("pair of a table of those who answered", "tree of those who answered", "triple, missing answers counted"),
}

CLUSTERS_ON_SPARK = {
    *("a mean by stratum", "a mean under conditions, of those who answered", "a count of those who answered", "a ratio"),
    *("a tree by sex, of those who answered", "a mean where shares of clusters are known"),
}


def test_the_queries_hold_every_encoding_and_everything_that_is_asked_around_it():
    queries = QUERIES.values()
    here = {query.encoding.name for query in queries}
    assert {QUERIES[name].encoding.name for name in ON_SPARK} == here
    # What is not computed by hand here is used by a statistic, whose contract is about the sums of its example.
    by_contract = {example_of(kind).query(facts_of(ds.poisson(0.1))).encoding.name for kind in STATISTICS}
    assert here | by_contract == set(ENCODINGS)
    for name in ("where", "own_bounds", "weights", "random_groups", "expanded", "by", "dropped"):
        assert sum(bool(getattr(query, name)) for query in queries) >= 1, name
    assert {query.own_bounds.scaled for query in queries if query.own_bounds} == {True, False}
    assert {(query.random_groups.balanced, bool(query.random_groups.strata)) for query in queries if query.random_groups} == {
        *((True, True), (True, False), (False, True), (False, False)),
    }
    assert sum(query.fill is not None for query in queries) >= 4
    assert any(query.weights.kept < 1.0 for query in queries if query.weights)
    by_cluster = BY_CLUSTER.values()
    assert all(query.clusters and not query.random_groups for query in by_cluster)
    assert {query.encoding.name for query in by_cluster} == {"counted", "pair", "both", "units", "tree"}
    assert {(query.stays, bool(query.by), bool(query.clusters.strata)) for query in by_cluster} >= {
        *itertools.product((True, False), (True, False), (True, False))
    } - {(True, True, False)}
    assert {(query.masks, bool(query.where), query.absent) for query in by_cluster} >= {
        *((True, True, False), (False, True, True), (False, True, False), (False, False, True)),
    }
    assert any(query.clusters.of_column for query in by_cluster)


@pytest.mark.slow_cases("csv", "arrow")
def test_sums_are_those_of_the_oracle_to_the_last_step(engine, on_paper):
    spark = engine.name.startswith("pyspark")
    for name, query in QUERIES.items():
        if not spark or name in ON_SPARK:
            assert engine.sums(query).values.tolist() == on_paper[name], name


@pytest.mark.slow_cases("csv", "arrow")
def test_totals_by_cluster_are_those_of_the_oracle_to_the_last_step(engine, clusters_on_paper):
    spark = engine.name.startswith("pyspark")
    for name, query in BY_CLUSTER.items():
        if spark and name not in CLUSTERS_ON_SPARK:
            continue
        found, (sums, units, stratum, fractions) = engine.totals(query), clusters_on_paper[name]
        assert found.sums.tolist() == sums, name
        assert found.units.tolist() == units, name
        assert found.stratum.tolist() == stratum, name
        assert found.fractions.tolist() == fractions, name


def test_clusters_without_strata_have_the_share_that_their_file_says():
    one = REGISTER.set_column(REGISTER.column_names.index("psus"), "psus", pa.array([54] * SIZE))
    opened = Engine(one)
    opened.draw(Taken(DesignColumns(psu="psu", weights="w", fpc="psus")), replace(EXPECTED, strata=None))
    found = opened.totals(as_norm(mean(), collected(psu="psu", weights="w", weights_are="design", psus=27, fpc="psus")))
    assert isinstance(found, ClusterTotals)
    assert found.fractions.tolist() == [0.5]
    assert len(found.stratum) == 27


def encoded(query, **changes):
    return replace(query, encoding=replace(query.encoding, **changes))


CHANGES = {
    "a weight": lambda query: replace(query, weights=replace(query.weights, largest=query.weights.largest * 1.01)),
    "a bound": lambda query: replace(query, bounds=(query.bounds[0] - 1.0, query.bounds[1])),
    "a condition": lambda query: replace(query, where=query.where[:-1]),
    "a random group": lambda query: replace(
        query, random_groups=replace(query.random_groups, balanced=not query.random_groups.balanced)
    ),
    "a filled answer": lambda query: replace(query, fill=float(query.fill) + 1.0),
    "an edge": lambda query: encoded(
        query, edges=(query.encoding.edges[0], *(edge + 1.0 for edge in query.encoding.edges[1:-1]), query.encoding.edges[-1])
    ),
    "a regressor": lambda query: encoded(
        query, regressors=((*query.encoding.regressors[0][:2], 65.0), *query.encoding.regressors[1:])
    ),
    "who is left out": lambda query: replace(query, dropped=("income",)),
}
OF = {
    "a weight": "spread",
    "a bound": "triple",
    "a condition": "triple of a domain",
    "a random group": "pair, clusters dealt by their hash alone",
    "a filled answer": "triple, missing answers filled",
    "an edge": "tree",
    "a regressor": "products",
    "who is left out": "pair of those who answered",
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_oracle_tells_a_query_from_one_that_differs_a_little(change, on_paper):
    assert sums_by_hand(REGISTER.to_pylist(), CHANGES[change](QUERIES[OF[change]])) != on_paper[OF[change]]


def test_no_record_adds_more_than_its_lattice_steps_and_weights_above_the_range_count_as_the_largest():
    heavy = REGISTER.set_column(REGISTER.column_names.index("w"), "w", pa.array([800.0] * SIZE))
    opened = Engine(heavy)
    opened.draw(EVERYTHING, EXPECTED)
    query = QUERIES["units of a table"]
    assert opened.sums(query).values.sum() == SIZE * query.weights.steps
