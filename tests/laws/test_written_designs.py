"""Laws of recipes and of written designs: amounts and shapes, the way through dictionaries, JSON and survey.toml, counts."""

import json
import tomllib
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey.design import DESIGNS, design_from_dict
from dpsurvey.design.key import Key
from dpsurvey.design.pps_methods import METHODS
from dpsurvey.design.recipe import (
    Clusters,
    Each,
    EachBy,
    Every,
    Repeated,
    Share,
    Simple,
    Sized,
    Step,
    Strata,
)
from dpsurvey.engine.draw.by_keyed_number import draw_by_keyed_number
from dpsurvey.engine.draw.keyed_list import KeyedNumbers
from dpsurvey.engine.source import open_table
from dpsurvey.survey.survey_file import SurveyFile
from tests.contracts.test_contracts import EXAMPLES

pytestmark = pytest.mark.quick

# Designs of every kind. Names of columns are few, so that one frame has them all.

takes = st.integers(1, 40)
rates = st.floats(1e-6, 1.0)
orders = st.one_of(st.sampled_from(["random", "as listed"]), st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True))
labels = st.sampled_from(["north", "south", "kind", "1", "true", "a b", "é", "within"])
setting = ds.Setting("sample", given="frame", neighbours="replace-one")

by_size = st.one_of(
    st.builds(
        lambda n, method, most: ds.pps("x", n=n, method=method, at_most=most),
        takes,
        st.sampled_from(list(METHODS)),
        st.none() | st.floats(0.01, 1.0),
    ),
    st.builds(lambda n, order: ds.pps("x", n=n, order=order), takes, orders),
)
plain = st.one_of(
    st.builds(lambda n: ds.srs(n=n), takes),
    st.builds(lambda rate: ds.srs(rate=rate), rates),
    st.builds(ds.with_replacement, takes),
    st.builds(ds.poisson, rates),
    st.builds(lambda most: ds.poisson_by("rate", at_most=most), rates),
    st.builds(ds.proportional, rates),
    st.builds(lambda n, order: ds.systematic(n=n, order=order), takes, orders),
    st.builds(lambda rate, order: ds.systematic(rate=rate, order=order), rates, orders),
    by_size,
)
# srs(rate=) of clusters has no size to be a share of before it is drawn: any plain design may draw clusters.
clusters = st.builds(
    lambda by, how, number, cap: ds.cluster(by, how, clusters=number, cap=cap),
    st.sampled_from(["psu", "ssu"]),
    plain,
    st.none() | st.integers(40, 99),
    st.none() | st.integers(1, 9),
)


def repeats(design):
    return any(isinstance(step, Repeated) for step in design.recipe().below())


def own_columns(stages):
    named = [stage.cluster for stage in stages if hasattr(stage, "cluster")]
    return len(set(named)) == len(named)


# Only one stage can be drawn with replacement, and each has clusters of its own column.
staged = (
    st.tuples(clusters, st.lists(clusters, max_size=1), st.one_of(plain, clusters))
    .map(lambda parts: (parts[0], *parts[1], parts[2]))
    .filter(lambda parts: sum(map(repeats, parts)) <= 1 and own_columns(parts))
    .map(lambda parts: ds.stages(*parts))
)
inside = st.one_of(plain, clusters, staged)
strata = st.one_of(
    st.builds(lambda design: ds.stratified("region", within=design), inside),
    st.builds(lambda within: ds.stratified("region", within=within), st.dictionaries(labels, inside, min_size=1, max_size=4)),
)
# A design without a strategy here is the example of its contract, without what it has from a frame.
HERE = {"srs", "with-replacement", "poisson", "poisson-by", "proportional", "systematic", "pps", "cluster", "stages"}
HERE |= {"stratified"}
# A collected file is described by its columns. What wraps a design or is a rule of sizes has no draw of its own, and is
# written and read in test_amplification_laws.py.
DRAWN = {each.kind for each in DESIGNS.values() if each.drawn} - {"collected", "covered", "responding"}
others = [st.just(design_from_dict(EXAMPLES[kind].to_dict())) for kind in sorted(DRAWN - HERE)]
designs = st.one_of(plain, clusters, staged, strata, *others)


PUBLIC = ["psu", "ssu", "x", "y", "z", "rate"]
fixed_seed = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def resolved(design):
    """The design on a frame that declares all that it may ask for; srs inside strata has no recipe without their sizes."""
    within = getattr(design, "within", None)
    known = list(within) if isinstance(within, dict) else ["north", "south"]
    sizes = dict.fromkeys(known, 1000)
    return design.resolve(ds.Frame("f.parquet", unit="id", size=1000 * len(sizes), categories={"region": sizes}, public=PUBLIC))


def same(one, other):
    """Equality through everything that a design says of itself; srs and poisson hold declared sizes too."""
    return type(one) is type(other) and one == other and one.to_dict() == other.to_dict()


@fixed_seed
@given(designs)
def test_a_design_is_read_back_from_what_it_writes(design):
    written = design.to_dict()
    assert written["kind"] in DESIGNS
    again = design_from_dict(written)
    assert same(again, design)
    assert same(design_from_dict(json.loads(json.dumps(written))), design)
    assert resolved(again).recipe() == resolved(design).recipe()
    # What is filled in from the frame is not written: the design stays the user's.
    assert resolved(design).to_dict() == written


@fixed_seed
@given(designs)
def test_a_design_is_read_back_from_toml(design):
    written = tomllib.loads(tomli_w.dumps({"design": design.to_dict()}))["design"]
    assert same(design_from_dict(written), design)


def test_every_kind_of_design_that_draws_is_written_and_read_here():
    found = set()

    @settings(max_examples=400, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(designs)
    def look(design):
        found.add(design.kind)

    look()
    assert found == DRAWN


WRITTEN = {
    "srs": ds.srs(n=10),
    "pps": ds.pps("x", n=5, method="pivotal", at_most=0.5),
    "systematic": ds.systematic(n=5, order=["x", "y"]),
    "with replacement": ds.with_replacement(n=3),
    "own rates": ds.poisson_by("rate", at_most=0.25),
    "a share": ds.proportional(0.1),
    "clusters": ds.cluster("psu", ds.pps("x", n=3), clusters=20, cap=6),
    "stages": ds.stages(ds.cluster("psu", ds.pps("x", n=3)), ds.cluster("ssu", ds.srs(n=1)), ds.systematic(n=2, order="y")),
    "stages in strata": ds.stratified(
        "region",
        within={
            "north": ds.stages(ds.cluster("psu", ds.pps("x", n=1)), ds.systematic(n=4, order="y")),
            "south": ds.poisson(0.1),
        },
    ),
    "takes in strata": ds.stratified("region", within={"north": ds.srs(n=3), "south": ds.srs(n=4)}),
    "one design in all strata": ds.stratified("region", within=ds.pps("x", n=2, method="sampford")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_survey_toml_builds_the_survey_that_python_builds(tmp_path, name):
    regions = {"north": 60, "south": 40}
    content = {
        "survey": {"name": "s", "ledger": "s.ledger"},
        "frame": {"table": "f.parquet", "unit": "id", "size": 100, "categories": {"region": regions}, "public": PUBLIC},
        "design": WRITTEN[name].to_dict(),
        "setting": {"protect": "sample", "given": "frame", "neighbours": "replace-one"},
        "budget": {"epsilon": 1.0},
    }
    (tmp_path / "survey.toml").write_text(tomli_w.dumps(content), encoding="utf-8")
    frame = ds.Frame(str(tmp_path / "f.parquet"), unit="id", size=100, categories={"region": regions}, public=PUBLIC)
    survey = ds.Survey(frame, WRITTEN[name], setting, budget=ds.Budget(1.0), ledger=tmp_path / "s.ledger", name="s")
    again = SurveyFile.read(tmp_path / "survey.toml").survey()
    assert again.terms == survey.terms
    assert again.terms.design.recipe() == survey.terms.design.recipe()


# Steps: amounts, shapes, columns.

step_orders = st.one_of(st.sampled_from(["random", "as listed"]), st.lists(st.sampled_from("xy"), min_size=1).map(tuple))
leaves = st.one_of(
    st.builds(Each, rates),
    st.builds(EachBy, st.sampled_from(["rate", "x"]), rates),
    st.builds(Simple, takes, st.none() | st.integers(40, 99)),
    st.builds(Share, rates, st.sampled_from(["random", "nearest"])),
    st.builds(Repeated, takes),
    st.builds(lambda n, order: Every(float(n), False, order), takes, step_orders),
    st.builds(lambda rate, order: Every(rate, True, order), rates, step_orders),
    st.builds(Sized, st.sampled_from(["x", "y"]), takes, st.sampled_from(list(METHODS)), step_orders, st.floats(0.1, 1.0)),
)
steps = st.recursive(
    leaves,
    lambda inner: st.builds(Clusters, st.sampled_from(["psu", "ssu"]), leaves, st.none() | inner),
    max_leaves=4,
)


def with_amounts(step: Step, amounts: list) -> Step:
    """The step with other amounts, outermost first; takes them off the front of the list."""
    from dataclasses import fields, replace

    changes = {step.amount: amounts.pop(0)} if step.amount else {}
    for each in fields(step):
        value = getattr(step, each.name)
        if isinstance(value, Step):
            changes[each.name] = with_amounts(value, amounts)
    return replace(step, **changes)


@fixed_seed
@given(steps)
def test_a_shape_forgets_the_amounts_and_nothing_else(step):
    shape = step.shape()
    assert shape.shape() == shape
    assert hash(shape) == hash(step.shape())
    assert shape.amounts() == (0.0,) * len(step.amounts())
    assert [type(each) for each in shape.below()] == [type(each) for each in step.below()]
    for role in ("strata", "cluster", "size", "rate", "order"):
        if role != "size":
            assert shape.columns(role) == step.columns(role)
    # Put back, the amounts give the step again: nothing else was lost.
    assert with_amounts(shape, list(step.amounts())) == step


@fixed_seed
@given(steps, st.data())
def test_steps_that_differ_in_amounts_alone_have_one_shape_and_their_own_amounts(step, data):
    other = data.draw(st.lists(st.integers(1, 9), min_size=len(step.amounts()), max_size=len(step.amounts())))
    changed = with_amounts(step, list(other))
    assert changed.shape() == step.shape()
    assert changed.amounts() == tuple(map(float, other))
    assert (changed == step) == (changed.amounts() == step.amounts())


@fixed_seed
@given(steps, steps)
def test_steps_are_the_same_exactly_when_shape_and_amounts_are(one, other):
    assert (one == other) == (one.shape() == other.shape() and one.amounts() == other.amounts())


@fixed_seed
@given(steps)
def test_there_is_one_amount_for_each_step_that_has_one_outermost_first(step):
    below = list(step.below())
    assert below[0] is step
    assert len(step.amounts()) == sum(not isinstance(each, Clusters) for each in below)
    if isinstance(step, Clusters):
        rest = step.inside.amounts() if step.inside is not None else ()
        assert step.amounts() == step.how.amounts() + rest
    assert all(isinstance(amount, float) for amount in step.amounts())


@fixed_seed
@given(st.dictionaries(labels, steps, min_size=1, max_size=4))
def test_strata_have_the_columns_and_the_takes_of_all_their_steps(inside):
    recipe = Strata("region", inside)
    assert recipe.columns("strata") == ("region",)
    for step in inside.values():
        assert set(step.columns("cluster")) <= set(recipe.columns("cluster"))
    assert recipe.fixed_takes == {label: step.take for label, step in inside.items() if isinstance(step, Simple)}


def counted(counts):
    """Every number in a nested table of counts."""
    for value in counts.values():
        if isinstance(value, dict):
            yield from counted(value)
        else:
            yield value


@fixed_seed
@given(designs)
def test_fixed_counts_come_from_the_design_alone(design):
    recipe = resolved(design).recipe()
    counts = recipe.fixed_counts
    assert json.loads(json.dumps(counts)) == counts
    assert resolved(design_from_dict(design.to_dict())).recipe().fixed_counts == counts
    amounts = {amount for step in recipe.below() for amount in (step.amounts() if not isinstance(step, Strata) else ())}
    assert all(isinstance(number, int) and float(number) in amounts for number in counted(counts))


# Counts on real rows: whatever the data, the sample has what the design alone says.

FIXED = {
    "simple": Simple(4),
    "by size": Sized("x", 4, "pareto"),
    "by size, listed": Sized("x", 4, "pivotal"),
    "every": Every(4.0, False, ("x",)),
    "repeated": Repeated(4),
    "clusters": Clusters("psu", Simple(2)),
    "stages": Clusters("psu", Simple(2), Simple(1)),
    "strata": Strata("region", {"n": Simple(2), "s": Simple(1)}),
}


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.integers(12, 40), st.sampled_from(list(FIXED)))
def test_the_sample_has_the_counts_of_the_design_whatever_the_rows(tmp_path_factory, seed, size, name):
    source, recipe = np.random.default_rng(seed), FIXED[name]
    table = pa.table(
        {
            "unit": source.permutation(size),
            "x": source.lognormal(size=size),
            "psu": np.concatenate([np.arange(4), source.integers(0, 4, size - 4)]),
            "region": ["n", "n", "s", *source.choice(["n", "s"], size - 3).tolist()],
        }
    )
    opened = open_table(table, str(tmp_path_factory.mktemp("rows")))
    drawn = draw_by_keyed_number(opened, recipe, "unit", ("unit",), KeyedNumbers(Key(source.bytes(32)))).to_pyarrow()
    counts = recipe.fixed_counts
    if "units" in counts or "draws" in counts:
        assert drawn.num_rows == counts.get("units", counts.get("draws"))
    if "clusters" in counts:
        assert len(set(drawn["__psu"].to_pylist())) == counts["clusters"]
        if "in each cluster" in counts:
            assert drawn.num_rows == counts["clusters"] * counts["in each cluster"]["units"]
    for label, inside in counts.get("by stratum", {}).items():
        assert drawn["__stratum"].to_pylist().count(label) == inside["units"]
    assert counts == recipe.fixed_counts


@pytest.mark.parametrize(
    ("rate", "overlap", "stays"), [(0.02, 0.75, 4), (0.1, 0.8, 5), (0.03, 0.0, 1), (0.013, 0.9, 10), (0.07, 2 / 3, 3)]
)
def test_a_window_never_begins_before_the_one_that_it_follows_has_ended(rate, overlap, stays):
    starts = [Fraction(ds.panel_start(rate, wave=wave, overlap=overlap)) for wave in range(80)]
    gaps = [(later - earlier - Fraction(rate)) % 1 for earlier, later in zip(starts, starts[stays:], strict=False)]
    assert max(gaps) < Fraction(1, 10**9), "a gap below nothing would be nearly 1, around the clock"
