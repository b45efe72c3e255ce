"""The sums of every encoding, on every engine, are the integers of an oracle in plain Python and exact fractions."""

import bisect
import gc
import hashlib
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
            "w": rng.integers(2 * 16, 8 * 16 + 1, SIZE) / 16.0,
            "income": income,
            "hours": pa.array(rng.integers(0, 80, SIZE), pa.int64()),
            "rooms": rng.integers(0, 9, SIZE) / 1.0,
            "answer": pa.array(answer, pa.float64()),
            "job": pa.array(job, pa.string()),
        }
    )


REGISTER = a_register()
FRAME = ds.Frame("anywhere", "id", SIZE, {"region": REGIONS, "sex": SEXES, "job": ("a", "b")})
POISSON, SRS = ds.poisson(0.5), ds.srs(n=80)
STRATA = ds.stratified("region", within={"north": ds.srs(n=20), "south": ds.srs(n=30), "island": ds.srs(n=40)})
UNEQUAL = collected(weights="w", weights_are="design")
CLUSTERS, IN_STRATA = (
    collected(psu="psu", weights="w", weights_are="design", psus=20),
    collected(strata="region", psu="psu", weights="w", weights_are="design", psus=6),
)
EVERYTHING = Taken(DesignColumns(strata="region", psu="psu", weights="w"))
EXPECTED = Expectations(unit="id", categories={"region": tuple(REGIONS), "sex": SEXES}, strata="region", weight_range=WEIGHTS)


def query(statistic, design, relation="add-remove", norm="L1", epsilon=1.0, **more):
    weights = WEIGHTS if design.kind == "collected" else None
    facts = Facts(FRAME, design.resolve(FRAME), relation, norm, weight_range=weights, epsilon=epsilon, **more)
    return statistic.query(facts)


def mean(**options):
    return ds.mean(options.pop("of", "income"), options.pop("bounds", BOUNDS), **options)


RATIO = ds.ratio("hours", "rooms", bounds=(0, 64), to_bounds=(0, 8), by="sex")
GREG = ds.greg(mean(), {"hours": ((0, 64), 30), "rooms": ((0, 8), 4)})
WOMEN_WHO_WORK = {"sex": "female", "hours": (20, 60)}
TREE = ds.quantile("income", 0.5, BOUNDS, method="tree")
QUERIES = {
    "triple": query(mean(), POISSON),
    "triple, unit weights": query(mean(by="sex"), UNEQUAL),
    "triple, weights trimmed": query(mean(trim=4.0), UNEQUAL),
    "triple, weights shrunk": query(mean(shrink=0.5), UNEQUAL),
    "triple, lattice by stratum": query(mean(by="sex"), STRATA, "replace-one"),
    "triple of a domain": query(mean(where=WOMEN_WHO_WORK), POISSON),
    "triple of several labels": query(mean(where={"region": ["north", "island"]}), UNEQUAL),
    "triple where a missing value does not count": query(mean(where={"job": "a", "answer": (-300, 100)}), POISSON),
    "triple, bounds by another column": query(mean(bounds=BY_SEX), POISSON),
    "triple, bounds by group": query(mean(bounds=BY_SEX, by=("sex", "region")), UNEQUAL),
    "triple, missing answers filled": query(mean(of="answer", missing=128.0), POISSON),
    "spread": query(mean(by="region"), UNEQUAL, epsilon=2.0),
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
    "moments, each by its weight": query(ds.total("income", BOUNDS, estimator="horvitz-thompson"), UNEQUAL),
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
    "spread of those who answered": query(mean(of="answer", missing="drop"), UNEQUAL, epsilon=2.0),
    "products of those who answered": query(ds.greg(mean(missing="drop"), {"answer": ((-256, 768), 30)}), UNEQUAL, "replace-one"),
    "ratio of those who answered both": query(ds.ratio("answer", "rooms", (0, 64), (0, 8), "sex", missing="drop"), POISSON),
    "both, clusters, of those who answered both": query(
        ds.ratio("rooms", "answer", (0, 8), (0, 64), missing="drop"), IN_STRATA, "replace-one"
    ),
    "pair of those who answered": query(ds.proportion("job", "a", by="sex", missing="drop"), UNEQUAL),
    "pair, clusters, of those who answered": query(mean(of="answer", by="sex", missing="drop"), CLUSTERS, "replace-one"),
    "moments of a total of those who answered": query(ds.total("answer", (2, 768), missing="drop"), SRS, "replace-one"),
    "yes of a count of those who answered": query(ds.count("job", "a", missing="drop"), SRS, "replace-one"),
    "yes of a count of those who answered, within bounds": query(
        ds.count(where={"answer": (0, 400)}, missing="drop"), SRS, "replace-one"
    ),
    "pair of a table of those who answered": query(ds.table("sex", "job", where={"answer": (0, 400)}, missing="drop"), UNEQUAL),
    "pair of a table of those who answered, clusters": query(ds.table("job", missing="drop"), CLUSTERS, "replace-one"),
    "tree of those who answered": query(ds.median("answer", BOUNDS, "sex", method="tree", leaves=16, missing="drop"), UNEQUAL),
    "tree of those who answered, clusters": query(
        ds.median("answer", BOUNDS, method="tree", leaves=16, missing="drop"), IN_STRATA, "replace-one"
    ),
    "tree, missing answers filled": query(ds.median("answer", BOUNDS, method="tree", leaves=16, missing=0.0), POISSON),
    "products": query(GREG, POISSON),
    "products, unit weights": query(GREG, UNEQUAL, "replace-one"),
    "ratio": query(RATIO, POISSON),
    "ratio, L2, unit weights": query(RATIO, UNEQUAL, norm="L2"),
    "ratio, a third": query(ds.ratio("hours", "rooms", (0, 64), (0, 8)), SRS, "replace-one"),
    "yes": query(ds.proportion("sex", "male"), SRS, "replace-one"),
    "yes by stratum": query(ds.proportion("job", "b", by="region", missing="b"), STRATA, "replace-one"),
    "pair of a domain": query(ds.proportion("job", "a", by="sex", where={"hours": (10, 50)}, missing="b"), UNEQUAL),
    "units of a table": query(ds.table("region", "sex"), UNEQUAL),
    "pair of a table under a condition": query(ds.table("sex", where={"income": (0, 400)}), POISSON),
    "triple of a total under a condition": query(ds.total("income", BOUNDS, by="sex", where=WOMEN_WHO_WORK), UNEQUAL),
    "moments of a total under a condition, bounds above 0": query(
        ds.total("rooms", (2, 8), where={"sex": "male"}), SRS, "replace-one"
    ),
    "yes of a count under a condition": query(ds.count("job", "a", where={"sex": "male"}, missing="b"), SRS, "replace-one"),
    "counted of a count under a condition, clusters": query(
        ds.count("job", "a", where={"hours": (10, 50)}, missing="b"), CLUSTERS, "replace-one"
    ),
    "counted, clusters": query(mean(), CLUSTERS, "replace-one"),
    "counted, clusters in strata": query(mean(of="answer", missing=64.0), IN_STRATA, "replace-one"),
    "counted answers, clusters": query(ds.proportion("sex", "male"), IN_STRATA, "replace-one"),
    "pair, clusters of a domain": query(mean(where=WOMEN_WHO_WORK), CLUSTERS, "replace-one"),
    "pair, clusters dealt by their hash alone": query(mean(by="sex"), IN_STRATA, "add-remove"),
    "pair of answers, clusters": query(ds.proportion("sex", "male", by="region"), CLUSTERS, "add-remove"),
    "both, clusters": query(RATIO, IN_STRATA, "replace-one"),
    "units, clusters": query(ds.table("region", "sex"), CLUSTERS, "replace-one"),
    "tree": query(TREE, POISSON),
    "tree by sex, clusters": query(ds.quantile("income", 0.5, BOUNDS, "sex", method="tree", leaves=64), IN_STRATA, "replace-one"),
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


# The oracle


def clip(value, low, high):
    return min(max(value, low), high)


def nearest(value):
    return math.floor(value + HALF)


def number_in(row, column, fill=None):
    value = row[column] if row[column] is not None else fill
    return None if value is None else Fraction(value)


def scaled_in(row, query):
    """y on [0, 1]."""
    outside = query.masks and not meets(row, query)
    value = Fraction(0) if outside else number_in(row, query.column, query.fill)
    low, high = map(Fraction, query.bounds)
    if query.own_bounds and not outside:
        own = {label: (Fraction(a), Fraction(b)) for label, a, b in query.own_bounds.by_label}[row[query.own_bounds.column]]
        value = clip(value, *own)
        if query.own_bounds.scaled:
            return (value - own[0]) / (own[1] - own[0])
    value = clip(value, *map(Fraction, query.clip or query.bounds)) if not outside else Fraction(0)
    if query.expanded:
        low, high = map(Fraction, query.expanded)
        value *= Fraction(row["w"])
    return (value - low) / (high - low)


def steps_in(row, query):
    if query.weights:
        kept, middle, largest = (Fraction(each) for each in (query.weights.kept, query.weights.middle, query.weights.largest))
        share = (kept * Fraction(row["w"]) + (1 - kept) * middle) / largest
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
        return {"yes": [yes], "pair": [yes, steps - yes], "counted": [yes, steps]}[kind]
    y, scale = scaled_in(row, query), Fraction(getattr(encoding, "scale", 1.0))
    if kind == "spread":
        thinned = nearest(Fraction(steps, query.steps) ** 2 * scale * query.steps)
        return [*triple(y, steps), *triple(y, thinned)]
    if kind == "products":
        x = [
            (clip(number_in(row, name), low, high) - Fraction(low)) / Fraction(high - low) - HALF
            for name, low, high in encoding.regressors
        ]
        z = [Fraction(1), *x, y - HALF]
        return [nearest(steps * z[i] * z[j]) for i in range(len(z)) for j in range(i, len(z))]
    own = nearest(steps * y)
    if kind in ("both", "ratio"):
        low, high = map(Fraction, encoding.bounds)
        x = (clip(number_in(row, encoding.second), low, high) - low) / (high - low)
        squares = [y * (1 - y), x * (1 - x), (y - x) ** 2] if kind == "ratio" else []
        return [own, nearest(steps * x), *(nearest(steps * scale * each) for each in squares)]
    others = {"sum": [], "moments": [nearest(steps * scale * y * (1 - y))], "pair": [steps - own], "counted": [steps]}
    return triple(y, steps) if kind == "triple" else [own, *others[kind]]


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
    *("triple, weights shrunk", "triple of a domain", "triple, bounds by another column", "spread", "products", "ratio"),
    *("moments, bounds by stratum", "sum of expanded values", "yes by stratum", "counted, clusters in strata", "window"),
    *("pair, clusters dealt by their hash alone", "both, clusters", "units, clusters", "tree, unit weights, of a domain"),
    *("histogram, lattice by stratum", "triple where a missing value does not count", "triple of those who answered"),
    *("pair of a table of those who answered", "tree of those who answered", "triple, missing answers counted"),
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


@pytest.mark.slow_cases("csv", "arrow")
def test_sums_are_those_of_the_oracle_to_the_last_step(engine, on_paper):
    spark = engine.name.startswith("pyspark")
    for name, query in QUERIES.items():
        if not spark or name in ON_SPARK:
            assert engine.sums(query).values.tolist() == on_paper[name], name


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
