"""Whatever is wrong with a draw gets a clear error of the right class; nothing is written and no sample is on record."""

import os
import re
from fractions import Fraction

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import design_from_dict
from dpsurvey.errors import BadData, BadValue, LedgerDisagrees, NoGuarantee, NotFound, Refusal, UsageError
from dpsurvey.ledger import Ledger
from tests.command_line import run_main
from tests.places import as_csv, as_parquet, in_memory

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")

SIZE, REGIONS = 60, {"north": 36, "south": 24}
PUBLIC = ("psu", "ssu", "employees", "rate", "street")
REPLACE, ADD = ds.Setting("frame", neighbours="replace-one"), ds.Setting("frame", neighbours="add-remove")
FIELD = ds.Setting("sample", given="frame", neighbours="replace-one")


def people():
    place = np.arange(SIZE)
    return pd.DataFrame(
        {
            "person": [f"unit-{number}" for number in np.random.default_rng(3).permutation(SIZE)],
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "psu": place // 6,
            "ssu": [f"s{number}" for number in place // 2],
            "employees": 1.0 + place // 6,
            "rate": np.where(place % 2, 0.2, 0.5),
            "street": place[::-1],
            "income": np.linspace(0, 100, SIZE),
        }
    )


PLACES = {"parquet": as_parquet, "memory": in_memory, "csv": as_csv}


def a_survey(folder, table, design, setting=REPLACE, *, size=SIZE, regions=REGIONS, public=PUBLIC):
    frame = ds.Frame(table, unit="person", size=size, categories={"region": regions}, public=public)
    return ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger=folder / "books.ledger")


def nothing_happened(folder):
    assert {path.name for path in folder.iterdir()} <= {"frame.parquet", "frame.csv", "panel.key"} | {
        f"books.ledger{end}" for end in ("", "-wal", "-shm")
    }
    if (folder / "books.ledger").exists():
        assert Ledger(folder / "books.ledger").samples() == []


def clear(error, kind, pattern):
    assert isinstance(error, kind), repr(error)
    assert error.exit_code == (1 if isinstance(error, Refusal) else 2)
    assert isinstance(error, Refusal | UsageError)
    assert re.search(pattern, error.what), error.what
    # What, and a reason, a value or a way out.
    assert error.because or error.given or error.hint, error.what
    assert "the engine failed" not in error.what
    assert not re.search(r"unit-\d", str(error))


def changed(column, value, row=7):
    def change(rows):
        if isinstance(value, str):
            rows[column] = rows[column].astype(object)
        rows.loc[row, column] = value
        return rows

    return change


def as_words(column):
    def change(rows):
        rows[column] = [f"word{number}" for number in range(len(rows))]
        return rows

    return change


def twice(rows):
    rows.loc[9, "person"] = rows.loc[3, "person"]
    return rows


def without_column(column):
    return lambda rows: rows.drop(columns=column)


METHODS = ("poisson", "systematic", "sampford", "conditional-poisson", "pivotal", "pareto")
SIZES = {
    "zero": changed("employees", 0.0),
    "negative": changed("employees", -2.0),
    "missing": changed("employees", None),
    "NaN": changed("employees", np.nan),
    "infinite": changed("employees", np.inf),
    "a word": as_words("employees"),
}
RATES = {
    "zero": changed("rate", 0.0),
    "negative": changed("rate", -0.1),
    "missing": changed("rate", None),
    "above the bound": changed("rate", 0.51),
    "above one": changed("rate", 1.5),
    "infinite": changed("rate", np.inf),
    "a word": as_words("rate"),
}
WRONG_SIZE, WRONG_RATE = r"sizes? in 'employees'|'employees' has", r"rates in 'rate'|'rate' has"
PPS, RATED = ds.pps("employees", n=6), ds.poisson_by("rate", at_most=0.5)
COUNTED = ds.cluster("psu", ds.srs(n=4), clusters=10)
CLUSTERS, STRATA = ds.cluster("psu", ds.srs(n=4)), {"north": ds.systematic(n=9), "south": ds.poisson(0.2)}

# What is wrong with the rows: the design, what is done to them, the message.
ROWS = {
    **{
        f"a size is {name}, {method}": (ds.pps("employees", n=6, method=method), change, WRONG_SIZE)
        for name, change in SIZES.items()
        for method in METHODS[:3]
    },
    **{
        f"a size of a cluster is {name}": (ds.cluster("psu", PPS), change, WRONG_SIZE + "|different sizes")
        for name, change in SIZES.items()
    },
    **{f"a rate is {name}": (RATED, change, WRONG_RATE) for name, change in RATES.items()},
    **{
        f"a rate in a stratum is {name}": (ds.stratified("region", within=RATED), RATES[name], WRONG_RATE)
        for name in ("zero", "missing", "above the bound")
    },
    **{
        f"a probability is above the bound, {method}": (
            ds.pps("employees", n=6, method=method, at_most=0.1),
            lambda rows: rows,
            "above the declared at_most",
        )
        for method in METHODS
    },
    "a certain unit under a bound": (
        ds.pps("employees", n=6, method="sampford", at_most=0.9),
        changed("employees", 5000.0),
        "above the declared at_most",
    ),
    "a size differs within a cluster": (ds.cluster("psu", PPS), changed("employees", 99.0), "different sizes"),
    "a rate differs within a cluster": (ds.cluster("psu", RATED), lambda rows: rows, "different sizes or rates"),
    "a cluster label is missing": (CLUSTERS, changed("psu", None), "'psu' has missing values"),
    "a second cluster label is missing": (
        ds.stages(CLUSTERS, ds.cluster("ssu", ds.srs(n=1)), ds.srs(n=1)),
        changed("ssu", None),
        "'ssu' has missing values",
    ),
    "a place in the order is missing": (
        ds.systematic(n=6, order="street"),
        changed("street", None),
        "'street' has missing values",
    ),
    "a unit is missing": (ds.srs(n=6), changed("person", None), "'person' has missing values"),
    "a unit appears twice": (ds.srs(n=6), twice, "more than once"),
    "a unit appears twice, clusters": (CLUSTERS, twice, "more than once"),
    "a stratum is missing": (ds.stratified("region", within=STRATA), changed("region", None), "'region' has missing values"),
    "a stratum was not declared": (
        ds.stratified("region", within=STRATA),
        changed("region", "east"),
        "category that was not declared",
    ),
    "a declared stratum is empty": (
        ds.stratified("region", within=STRATA),
        lambda rows: rows.assign(region="north"),
        "stratum of 'region' is empty",
    ),
    "the frame is empty": (ds.srs(n=6), lambda rows: rows[:0], "the table is empty"),
    "the frame is smaller than declared": (ds.systematic(n=6), lambda rows: rows[5:], "declared size is not that of the frame"),
    "a cluster has fewer units than are drawn": (
        ds.stages(CLUSTERS, ds.srs(n=7)),
        lambda rows: rows,
        "fewer units than the design draws",
    ),
    "a cluster has fewer units than are drawn, systematic": (
        ds.stages(CLUSTERS, ds.systematic(n=7)),
        lambda rows: rows,
        "fewer units",
    ),
    "a cluster has fewer clusters than are drawn": (
        ds.stages(CLUSTERS, ds.cluster("ssu", ds.srs(n=4))),
        lambda rows: rows,
        "fewer units",
    ),
    "fewer clusters than are drawn": (ds.cluster("psu", ds.srs(n=11)), lambda rows: rows, "fewer units"),
    "fewer clusters in a stratum than are drawn": (
        ds.stratified("region", within=ds.cluster("psu", ds.srs(n=5))),
        lambda rows: rows,
        "fewer units",
    ),
    "fewer units than are drawn by size": (ds.pps("employees", n=61, method="sampford"), lambda rows: rows, "fewer units"),
    "clusters are not as many as declared": (
        ds.cluster("psu", ds.srs(n=4), clusters=11, cap=6),
        lambda rows: rows,
        "not as many, or not as small",
    ),
    "clusters are larger than declared": (
        ds.cluster("psu", ds.srs(n=4), clusters=10, cap=5),
        lambda rows: rows,
        "not as many, or not as small",
    ),
    "clusters in strata are larger than declared": (
        ds.stratified("region", within=ds.cluster("psu", ds.srs(n=2), cap=5)),
        lambda rows: rows,
        "not as many, or not as small",
    ),
}
SEVERAL_PLACES = (
    "a rate is above the bound",
    "a rate is missing",
    "a rate is a word",
    "a rate is zero",
    "a size is zero, poisson",
    "a size is NaN, poisson",
)
SEVERAL_PLACES += ("a size is a word, systematic", "a probability is above the bound, poisson", "a cluster label is missing")
SEVERAL_PLACES += (
    "fewer clusters than are drawn",
    "a unit appears twice",
    "a size is negative, sampford",
    "a stratum was not declared",
)
EVERY_ROW_AND_PLACE = [
    *((name, "parquet") for name in ROWS),
    *((name, place) for name in SEVERAL_PLACES for place in ("memory", "csv")),
]


@pytest.mark.parametrize(("name", "place"), EVERY_ROW_AND_PLACE)
def test_rows_that_cannot_be_drawn_from_are_refused(tmp_path, name, place):
    design, change, pattern = ROWS[name]
    survey = a_survey(tmp_path, PLACES[place](change(people()), tmp_path), design)
    with pytest.raises(ds.SurveyError) as raised:
        survey.draw(tmp_path / "sample.parquet")
    clear(raised.value, BadData, pattern)
    nothing_happened(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "a rate is above the bound",
        "a size is zero, sampford",
        "a probability is above the bound, pivotal",
        "fewer clusters than are drawn",
    ],
)
def test_rows_that_cannot_be_drawn_from_are_refused_with_a_key_too(tmp_path, name):
    design, change, pattern = ROWS[name]
    survey = a_survey(tmp_path, as_parquet(change(people()), tmp_path), design)
    with pytest.raises(ds.SurveyError) as raised:
        survey.draw(tmp_path / "sample.parquet", key=ds.Key.new())
    clear(raised.value, BadData, pattern)
    nothing_happened(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_a_rate_that_is_not_a_number_is_refused_wherever_the_rows_are(tmp_path, place):
    """NaN as a value of its own, which Arrow keeps apart from a missing one."""
    rows = {"person": [f"unit-{number}" for number in range(SIZE)], "rate": [0.2] * (SIZE - 1) + [float("nan")]}
    table = pa.table(rows)
    if place == "parquet":
        pq.write_table(table, tmp_path / "frame.parquet")
        table = tmp_path / "frame.parquet"
    elif place == "csv":
        pacsv.write_csv(table, tmp_path / "frame.csv")
        table = tmp_path / "frame.csv"
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, table, RATED).draw(tmp_path / "sample.parquet")
    clear(raised.value, BadData, WRONG_RATE)
    nothing_happened(tmp_path)


@pytest.mark.parametrize("column", ["person", "region", "psu", "employees", "rate", "street"])
def test_a_column_that_is_not_there_is_named(tmp_path, column):
    designs = {"psu": CLUSTERS, "employees": PPS, "rate": RATED, "street": ds.systematic(n=6, order="street")}
    design = designs.get(column, ds.stratified("region", within=STRATA))
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, as_parquet(people().drop(columns=column), tmp_path), design).draw(tmp_path / "sample.parquet")
    assert isinstance(raised.value, NotFound)
    assert raised.value.what == f"there is no column {column!r}"
    nothing_happened(tmp_path)


# Sizes that do not fit

TOO_MANY = {
    "srs": (ds.srs(n=61), {}, BadValue, "more units than there are"),
    "systematic": (ds.systematic(n=61), {}, BadValue, "more units than there are"),
    "a stratum": (ds.stratified("region", within=ds.srs(n=25)), {}, BadValue, "more units than there are"),
    "a stratum by name": (
        ds.stratified("region", within={"north": ds.srs(n=37), "south": ds.srs(n=1)}),
        {},
        BadValue,
        "more units",
    ),
    "a stratum, systematic": (ds.stratified("region", within=ds.systematic(n=25)), {}, BadValue, "more units than there are"),
    "a mixed stratum": (
        ds.stratified("region", within={"north": ds.srs(n=37), "south": ds.poisson(0.1)}),
        {},
        BadValue,
        "more units",
    ),
    "a stratum of unknown size": (
        ds.stratified("region", within={"north": ds.systematic(n=37), "south": ds.poisson(0.1)}),
        {"regions": list(REGIONS)},
        BadData,
        "fewer units",
    ),
    "a frame that is declared too large": (
        ds.srs(n=70),
        {"size": 100, "regions": list(REGIONS), "setting": ADD},
        BadData,
        "fewer units",
    ),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_units_than_there_are_cannot_be_drawn(tmp_path, name):
    design, declared, kind, pattern = TOO_MANY[name]
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, as_parquet(people(), tmp_path), design, **declared).draw(tmp_path / "sample.parquet")
    clear(raised.value, kind, pattern)
    nothing_happened(tmp_path)


def test_more_clusters_than_declared_are_refused_when_the_design_is_made():
    with pytest.raises(BadValue, match="take must be a whole number of at least 1 and at most 10"):
        ds.cluster("psu", ds.srs(n=12), clusters=10, cap=6)


# Designs that are none

NOT_PUBLIC = {
    "cluster": (CLUSTERS, "psu"),
    "size": (PPS, "employees"),
    "rate": (RATED, "rate"),
    "order": (ds.systematic(n=6, order=["region", "street"]), "street"),
    "order by size": (ds.pps("employees", n=6, order="income"), "income"),
    "second cluster": (ds.stages(CLUSTERS, ds.cluster("ssu", ds.srs(n=1))), "ssu"),
    "size of a cluster": (ds.cluster("psu", PPS), "employees"),
    "in a stratum": (ds.stratified("region", within={"north": PPS, "south": ds.srs(n=1)}), "employees"),
    "in all strata": (ds.stratified("region", within=ds.systematic(n=2, order="income")), "income"),
}


@pytest.mark.parametrize("role", NOT_PUBLIC)
def test_a_design_column_that_is_not_declared_as_public_is_refused(tmp_path, role):
    design, column = NOT_PUBLIC[role]
    public = [name for name in PUBLIC if name != column]
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, as_parquet(people(), tmp_path), design, public=public)
    clear(raised.value, BadValue, f"the design uses '{column}', which the frame does not declare as public")
    assert column in raised.value.hint
    nothing_happened(tmp_path)


def test_strata_need_declared_categories(tmp_path):
    with pytest.raises(NotFound, match="categories of 'psu' are not declared"):
        a_survey(tmp_path, people(), ds.stratified("psu", within=ds.poisson(0.1)))


@pytest.mark.parametrize(
    "within",
    [
        {"north": ds.srs(n=1)},
        {"north": ds.srs(n=1), "south": ds.srs(n=1), "east": ds.srs(n=1)},
        {"north": ds.poisson(0.1), "South": ds.srs(n=1)},
        {"north": ds.systematic(n=1)},
    ],
    ids=["missing", "one more", "misspelt", "missing, mixed"],
)
def test_an_allocation_names_every_stratum_and_no_other(tmp_path, within):
    with pytest.raises(BadValue, match="must name every declared category of 'region', and no other") as raised:
        a_survey(tmp_path, people(), ds.stratified("region", within=within))
    assert raised.value.given
    nothing_happened(tmp_path)


ONE = {"kind": "srs", "n": 1}
GROUPS = {"kind": "cluster", "cluster": "psu", "how": ONE}
NESTED = {"kind": "stratified", "by": "region", "within": ONE}
WRONG_DESIGNS = {
    "unknown kind": {"kind": "sysematic", "n": 3},
    "no kind": {"n": 3},
    "unknown key": {"kind": "srs", "n": 3, "m": 4},
    "missing key": {"kind": "pps", "n": 3},
    "unknown method": {"kind": "pps", "size": "employees", "n": 3, "method": "sampfrod"},
    "order with a method that has none": {"kind": "pps", "size": "employees", "n": 3, "method": "sampford", "order": "street"},
    "n and rate": {"kind": "srs", "n": 3, "rate": 0.1},
    "neither n nor rate": {"kind": "systematic"},
    "n of 0": {"kind": "with-replacement", "n": 0},
    "n below 0": {"kind": "srs", "n": -1},
    "half a unit": {"kind": "srs", "n": 2.5},
    "n is true": {"kind": "pps", "size": "employees", "n": True},
    "n is a word": {"kind": "systematic", "n": "12"},
    "rate of 0": {"kind": "poisson", "rate": 0.0},
    "rate above 1": {"kind": "proportional", "rate": 1.5},
    "rate is a word": {"kind": "proportional", "rate": "0.1"},
    "rate of NaN": {"kind": "systematic", "rate": float("nan")},
    "rate of NaN, srs": {"kind": "srs", "rate": float("nan")},
    "rate of NaN, poisson": {"kind": "poisson", "rate": float("nan")},
    "at_most of 0": {"kind": "pps", "size": "employees", "n": 3, "at_most": 0.0},
    "at_most above 1": {"kind": "poisson-by", "rate": "rate", "at_most": 1.1},
    "a rate where a column is meant": {"kind": "poisson-by", "rate": 0.1, "at_most": 0.5},
    "no order at all": {"kind": "systematic", "n": 3, "order": []},
    "an order of numbers": {"kind": "systematic", "n": 3, "order": [1, 2]},
    "clusters by clusters": {"kind": "cluster", "cluster": "psu", "how": {"kind": "cluster", "cluster": "ssu", "how": ONE}},
    "clusters by strata": {"kind": "cluster", "cluster": "psu", "how": NESTED},
    "clusters by nothing": {"kind": "cluster", "cluster": "psu"},
    "a cap of 0": {"kind": "cluster", "cluster": "psu", "how": ONE, "cap": 0},
    "clusters of -1": {"kind": "cluster", "cluster": "psu", "how": ONE, "clusters": -1},
    "one stage": {"kind": "stages", "stages": [ONE]},
    "no stage": {"kind": "stages", "stages": []},
    "units before clusters": {"kind": "stages", "stages": [ONE, GROUPS]},
    "stages of numbers": {"kind": "stages", "stages": [1, 2]},
    "strata in strata": {"kind": "stratified", "by": "region", "within": NESTED},
    "strata of nothing": {"kind": "stratified", "by": "region", "within": {}},
    "a size that is no name": {"kind": "pps", "size": 3, "n": 3},
    "a cluster that is no name": {"kind": "cluster", "cluster": 3, "how": ONE},
    "an order that is a number": {"kind": "systematic", "n": 3, "order": 3},
}


@pytest.mark.parametrize("name", WRONG_DESIGNS)
def test_what_is_no_design_is_refused_before_anything_is_read(tmp_path, name):
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, tmp_path / "there-is-no-table.parquet", design_from_dict(WRONG_DESIGNS[name]))
    assert isinstance(raised.value, BadValue), repr(raised.value)
    assert raised.value.exit_code == 2
    nothing_happened(tmp_path)


def test_a_hint_names_the_closest_method_and_rounding():
    with pytest.raises(BadValue) as raised:
        ds.pps("employees", n=3, method="sampfrod")
    assert "sampford" in raised.value.hint
    with pytest.raises(BadValue, match="unknown rounding"):
        ds.proportional(0.1, rounding="up")  # type: ignore[call-overload]
    with pytest.raises(BadValue, match="only the systematic method has an order"):
        ds.pps("employees", n=3, method="pivotal", order="as listed")


# Tables without an order


@pytest.mark.parametrize(
    "design", [ds.systematic(n=6, order="as listed"), ds.pps("employees", n=6, order="as listed")], ids=["systematic", "pps"]
)
def test_an_ibis_table_has_no_order_of_its_own(tmp_path, design):
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, ibis.memtable(people()), design).draw(tmp_path / "sample.parquet")
    clear(raised.value, BadValue, "no order of their own")
    assert "sort by" in raised.value.hint
    nothing_happened(tmp_path)


def test_clusters_as_listed_come_in_the_order_of_their_first_rows(tmp_path):
    rows = people()
    design = ds.cluster("psu", ds.systematic(n=3, order="as listed"))
    a_survey(tmp_path, as_parquet(rows, tmp_path), design).draw(tmp_path / "sample.parquet")
    drawn = set(pq.read_table(tmp_path / "sample.parquet")["psu"].to_pylist())
    listed = list(dict.fromkeys(rows["psu"]))
    # Every third part of the list from a start on: 10 clusters, so the start in thirds decides, and 10 starts are all.
    step = Fraction(len(listed), 3)
    possible = {tuple(int(Fraction(start, 3) + place * step) for place in range(3)) for start in range(len(listed))}
    assert tuple(sorted(listed.index(cluster) for cluster in drawn)) in possible


# Settings under which no guarantee can be made


@pytest.mark.parametrize(
    "design",
    [PPS, CLUSTERS, ds.with_replacement(n=3), ds.systematic(n=3), ds.stages(CLUSTERS, ds.poisson(0.1))],
    ids=lambda design: design.kind,
)
@pytest.mark.parametrize("protect", ["population", "frame", "sample"])
def test_a_record_more_or_less_is_refused_where_others_are_drawn_in_its_place(tmp_path, design, protect):
    with pytest.raises(ds.SurveyError) as raised:
        a_survey(tmp_path, as_parquet(people(), tmp_path), design, ds.Setting(protect, neighbours="add-remove"))
    clear(raised.value, NoGuarantee, "no guarantee can be made")
    assert raised.value.because
    assert raised.value.hint
    nothing_happened(tmp_path)


@pytest.mark.parametrize("design", [PPS, RATED, CLUSTERS, ds.cluster("psu", PPS)], ids=repr)
def test_weights_that_the_design_does_not_fix_need_a_declared_range(tmp_path, design):
    survey = a_survey(tmp_path, as_parquet(people(), tmp_path), design, FIELD)
    with pytest.raises(ds.SurveyError) as raised:
        survey.plan(ds.mean("income", bounds=(0, 100)))
    clear(raised.value, BadValue, "the range of the design weights is not declared")
    assert "weight_range=" in raised.value.hint
    nothing_happened(tmp_path)


@pytest.mark.parametrize("design", [COUNTED, ds.with_replacement(n=3), ds.systematic(n=3)], ids=lambda design: design.kind)
def test_weights_that_the_design_fixes_need_no_declaration(tmp_path, design):
    plan = a_survey(tmp_path, as_parquet(people(), tmp_path), design).plan(ds.mean("income", bounds=(0, 100)))
    assert [row["statistic"] for row in plan.predictions] == ["mean"]


# Keys and starts


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command line in this process: exit code, stdout, stderr."""
    as_parquet(people(), tmp_path)
    text = '[survey]\nname = "s"\nledger = "books.ledger"\n[frame]\ntable = "frame.parquet"\nunit = "person"\nsize = 60\n'
    text += '[design]\nkind = "srs"\nn = 6\n[budget]\nepsilon = 1\n'
    outside = tmp_path.parent / f"{tmp_path.name}-toml"
    outside.mkdir()
    (outside / "survey.toml").write_text(
        text.replace("books.ledger", str(tmp_path / "books.ledger")).replace("frame.parquet", str(tmp_path / "frame.parquet"))
    )
    monkeypatch.chdir(tmp_path)

    return lambda *more: run_main("draw", outside / "survey.toml", "-o", "sample.parquet", *more)


KEY = "dpsurvey-key-1 " + "ab" * 32
KEY_FILES = {
    "empty": ("", 2),
    "another file": ("[survey]\nname = 'x'\n", 2),
    "too short": (KEY[:-2], 2),
    "too long": (KEY + "ab", 2),
    "not hexadecimal": (KEY[:-1] + "g", 2),
    "capital letters": (KEY.replace("ab", "AB"), 2),
    "no header": ("ab" * 32, 2),
    "another version": (KEY.replace("key-1", "key-2"), 2),
    "two keys": (KEY + "\n" + KEY, 2),
    "bytes": (b"\xff\xfe\x00" * 40, 2),
}


@pytest.mark.parametrize("name", KEY_FILES)
def test_what_is_no_key_file_is_refused_without_being_shown(run, tmp_path, name):
    content, code = KEY_FILES[name]
    (tmp_path / "panel.key").write_bytes(content if isinstance(content, bytes) else content.encode())  # type: ignore[attr-defined]
    os.chmod(tmp_path / "panel.key", 0o600)
    found, out, err = run("--key-file", "panel.key")
    assert (found, out) == (code, "")
    assert "this is not a key file" in err
    assert "ababab" not in err.lower()
    nothing_happened(tmp_path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o601])
def test_a_key_file_that_others_can_read_is_refused(run, tmp_path, mode):
    (tmp_path / "panel.key").write_text(KEY + "\n")
    os.chmod(tmp_path / "panel.key", mode)
    code, out, err = run("--key-file", "panel.key")
    assert (code, out) == (1, "")
    assert "others can read the key file" in err
    assert "because: whoever has the key knows who is drawn" in err
    nothing_happened(tmp_path)


def test_a_key_file_that_is_not_there_or_a_folder(run, tmp_path):
    code, _, err = run("--key-file", "panel.key")
    assert code == 2
    assert "there is no key file 'panel.key'" in err
    code, _, err = run("--key-file", tmp_path)
    assert code == 2
    assert "key" in err
    nothing_happened(tmp_path)


@pytest.mark.parametrize("start", ["1", "-0.1", "1.5", "nan", "inf", "-inf"])
def test_a_start_is_a_number_from_0_to_below_1(run, tmp_path, start):
    (tmp_path / "panel.key").write_text(KEY + "\n")
    os.chmod(tmp_path / "panel.key", 0o600)
    code, out, err = run("--key-file", "panel.key", f"--start={start}")
    assert (code, out) == (2, "")
    assert "start is a number in [0, 1)" in err
    nothing_happened(tmp_path)


def test_a_start_needs_a_key(run, tmp_path):
    code, _, err = run("--start", "0.5")
    assert code == 2
    assert "needs a key" in err
    nothing_happened(tmp_path)


@pytest.mark.parametrize("wrong", ["secret", b"short", bytes(31), 7, None])
def test_a_key_in_python_has_32_bytes(wrong):
    with pytest.raises(BadValue, match="32 bytes"):
        ds.Key(wrong)


@pytest.mark.parametrize("key", ["panel.key", bytes(32), 7], ids=["a path", "bytes", "a number"])
def test_a_key_that_is_none_is_refused_by_draw(tmp_path, key):
    survey = a_survey(tmp_path, as_parquet(people(), tmp_path), ds.srs(n=6))
    with pytest.raises(ds.SurveyError) as raised:
        survey.draw(tmp_path / "sample.parquet", key=key)
    assert isinstance(raised.value, BadValue)
    nothing_happened(tmp_path)


@pytest.mark.parametrize("start", ["0.5", None, True, 1])
def test_a_start_that_is_no_fraction_is_refused_by_draw(tmp_path, start):
    survey = a_survey(tmp_path, as_parquet(people(), tmp_path), ds.srs(n=6))
    with pytest.raises(BadValue, match="start"):
        survey.draw(tmp_path / "sample.parquet", key=ds.Key.new(), start=start)
    nothing_happened(tmp_path)


# Places that cannot be written to


@pytest.mark.parametrize("output", ["sample.csv", "sample", "no/sample.parquet", ".", ""])
def test_a_place_that_cannot_be_is_refused_before_anything_is_drawn(tmp_path, output):
    survey = a_survey(tmp_path, as_parquet(people(), tmp_path), ds.srs(n=6))
    with pytest.raises(ds.SurveyError) as raised:
        survey.draw(os.path.join(tmp_path, output))
    assert isinstance(raised.value, UsageError)
    nothing_happened(tmp_path)


def test_another_design_under_the_same_name_is_refused(tmp_path):
    table = as_parquet(people(), tmp_path)
    a_survey(tmp_path, table, PPS, FIELD).draw(tmp_path / "one.parquet")
    with pytest.raises(LedgerDisagrees, match="other terms") as raised:
        a_survey(tmp_path, table, ds.pps("employees", n=7), FIELD).draw(tmp_path / "two.parquet")
    assert raised.value.given == "changed: design"
    assert not (tmp_path / "two.parquet").exists()


ABOVE = {
    "a rate": ds.poisson_by("rate", at_most=0.4),
    "a rate in a stratum": ds.stratified(
        "region", within={"north": ds.poisson_by("rate", at_most=0.5), "south": ds.poisson_by("rate", at_most=0.4)}
    ),
    "a size": ds.pps("employees", n=6, method="sampford", at_most=0.15),
    "a size in a stratum": ds.stratified("region", within=ds.pps("employees", n=3, method="pivotal", at_most=0.1)),
}


@pytest.mark.parametrize("place", [in_memory, as_parquet])
@pytest.mark.parametrize("name", ABOVE)
def test_a_chance_above_its_bound_is_found_by_the_check_and_nothing_is_spent(tmp_path, name, place):
    frame = ds.Frame(place(people(), tmp_path), unit="person", size=SIZE, categories={"region": REGIONS}, public=PUBLIC)
    books = tmp_path / "books.ledger"
    survey = ds.Survey(frame, ABOVE[name], REPLACE, budget=ds.Budget(1.0), ledger=books, weight_range=(1, 100))
    for make in (survey.check, survey.plan(ds.mean("income", bounds=(0, 100))).release):
        with pytest.raises(BadData, match=r"at most the declared bound|above the declared at_most"):
            make()
    with Ledger(books) as ledger:
        assert [entry["kind"] for entry in ledger.entries()] == ["made"]


def test_a_frame_that_changed_after_its_check_is_checked_again(tmp_path):
    """What was checked once is not checked again, unless the file is another one by then."""
    survey = a_survey(tmp_path, as_parquet(people(), tmp_path), CLUSTERS, FIELD)
    survey.draw(tmp_path / "one.parquet")
    as_parquet(twice(people()), tmp_path)
    with pytest.raises(BadData, match="more than once"):
        a_survey(tmp_path, tmp_path / "frame.parquet", CLUSTERS, FIELD).draw(tmp_path / "two.parquet", new=True)
    assert not (tmp_path / "two.parquet").exists()
