"""The privacy answers of every design that draws, against the exact worst case on tiny frames.

The law of a draw is written out from the design's own recipe, by hand and with nothing of the package: what is drawn,
and not what the design says about itself. For each of the settings and both relations the design either refuses
with a reason, or its epsilon is at least the worst loss over all mechanisms of its base relation, on every pair of
neighbouring frames that was tried.
"""

import functools
import itertools
import uuid
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import Allocation, Amplified, Refused, design_from_dict
from dpsurvey.design.recipe import Clusters, Repeated, Sized, Strata
from dpsurvey.engine import Engine, Expectations
from dpsurvey.errors import BadValue, NoGuarantee
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy import all_settings
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.running import Running
from tests.truth import drawn_laws as laws
from tests.truth import enumerated as en

ADD, REPLACE = "add-remove", "replace-one"
SETTINGS = [*all_settings(ADD), *all_settings(REPLACE)]
EPSILONS = (0.5, 1.0, 2.0)
# Accuracy of the solver's optimum.
SLACK = 1e-6


CASES, law_of, renamed, as_sets, chances_by_size = laws.CASES, laws.law_of, laws.renamed, laws.as_sets, laws.chances_by_size


# Pairs of neighbours


def replaced_on_frame(case):
    """One record's answers replaced: the same law under another name; where rates are the units' own, other columns too."""
    for each in case.units:
        law = renamed(case.law, each["id"], "x")
        yield law, renamed(case.law, each["id"], "y")
        if case.moves:
            rest = tuple(unit for unit in case.units if unit is not each)
            for other in case.units:
                yield law, law_of(case.resolved.recipe(), (*rest, {**other, "id": "y"}))


def added_to_frame(case):
    """One record more, with the columns of any of the others."""
    recipe = case.resolved.recipe()
    for each in case.units:
        yield law_of(recipe, (*case.units, {**each, "id": "x"})), case.law
    # And one less: the declared size is that of the larger frame.
    for each in case.units:
        rest = tuple(unit for unit in case.units if unit is not each)
        if all(any(unit["region"] == label for unit in rest) for label in case.frame.categories["region"]):
            yield renamed(case.law, each["id"], "x"), law_of(recipe, rest)


def drawn(case, neighbours):
    """Two samples, or what came back from them, that differ in one unit, however often it was drawn."""
    for sample in case.law:
        for name in set(sample):
            rest = tuple(unit for unit in sample if unit != name)
            other = rest if neighbours == ADD else tuple("y" if unit == name else unit for unit in sample)
            yield {sample: 1.0}, {tuple(sorted(other)): 1.0}


@functools.cache
def worst(name, level, neighbours, base, epsilon):
    """The largest loss over pairs of neighbours, at a level (population and frame, or sample and respondents)."""
    case = CASES[name]
    pairs = list(drawn(case, neighbours)) if level == "drawn" else []
    if level != "drawn" and (neighbours == ADD or level == "population"):
        pairs += added_to_frame(case)
    if level != "drawn" and neighbours == REPLACE:
        pairs += replaced_on_frame(case)
    unlike = {(frozenset(one.items()), frozenset(two.items())): (one, two) for one, two in pairs}
    return max(en.worst_loss(as_sets(one), as_sets(two), epsilon, base) for one, two in unlike.values())


def level_of(setting):
    return {"population": "population", "frame": "frame"}.get(setting.protect, "drawn")


def guaranteed(name, setting):
    """Terms under a setting with room for any charge, or None where no guarantee is made."""
    case = CASES[name]
    refused = case.resolved.refuses(setting)
    if refused is None:
        return Terms("survey", case.frame, case.resolved, setting, ds.Budget(100.0))
    assert len(refused.reason) > 20, refused
    assert len(refused.instead) > 10, refused
    with pytest.raises(NoGuarantee, match="no guarantee") as raised:
        Terms("survey", case.frame, case.resolved, setting, ds.Budget(100.0))
    assert refused.reason in str(raised.value)
    return None


# Cases that differ from others in numbers alone.
ALIKE = (
    "srs of all but one",
    "with replacement, once",
    "poisson by, loose bound",
    "systematic, random order, fractional",
    "systematic, sorted, one of two",
    "pps pivotal, five",
    "pps sampford, five",
    "cluster, systematic",
    "stages, poisson by last",
    "stages, pps then poisson",
    "three stages",
    "strata of systematic by rate",
    "strata of stages",
)
EVERY_CASE = [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in CASES]


@pytest.mark.parametrize("name", EVERY_CASE)
def test_every_guarantee_is_at_least_the_worst_loss_over_all_mechanisms_and_neighbours(name):
    made = 0
    for setting in SETTINGS:
        terms = guaranteed(name, setting)
        if terms is None:
            continue
        made += 1
        for epsilon in EPSILONS:
            profile = PrivacyProfile.pure(epsilon, terms.relation)
            told = terms.design.protected(profile, setting).epsilon(0.0)
            exact = worst(name, level_of(setting), setting.neighbours, terms.relation, epsilon)
            assert told >= exact - SLACK, f"{name}, {setting}, epsilon {epsilon} ({terms.relation}): {told} < {exact}"
            guarantee = terms.guarantee(Running().plus(profile))
            assert guarantee.epsilon == pytest.approx(told, rel=1e-12)
            assert guarantee.whole.relation == setting.neighbours
    # The frame with replaced answers, the sample and the respondents are always guaranteed something.
    assert made >= 9


@pytest.mark.parametrize("name", EVERY_CASE)
def test_someone_known_to_be_in_the_sample_loses_no_more_than_the_figure_for_them(name):
    case = CASES[name]
    for setting in SETTINGS:
        terms = guaranteed(name, setting)
        if terms is None:
            continue
        epsilon = 1.0
        profile = PrivacyProfile.pure(epsilon, terms.relation)
        guarantee = terms.guarantee(Running().plus(profile))
        told = guarantee.in_sample[0]
        # Whoever is not known to be there cannot lose more.
        assert guarantee.epsilon <= told * (1 + 1e-12), f"{name}, {setting}: {guarantee}"
        if level_of(setting) == "drawn":
            continue
        pairs = added_to_frame(case) if setting.neighbours == ADD else replaced_on_frame(case)
        for one, two in pairs:
            there = known(one, "x"), known(two, "y") if setting.neighbours == REPLACE else two
            if there[0] and there[1]:
                exact = en.worst_loss(as_sets(there[0]), as_sets(there[1]), epsilon, terms.relation)
                assert told >= exact - SLACK, f"{name}, {setting}, epsilon {epsilon}: known in sample {told} < {exact}"


def known(law, name):
    """The law of the sample, given that a unit is in it; None where it never is."""
    here = {sample: p for sample, p in law.items() if name in sample}
    return {sample: p / sum(here.values()) for sample, p in here.items()} if here else None


@pytest.mark.parametrize("name", CASES)
def test_sampling_amplifies_only_where_it_lies_inside_and_a_refusal_says_why(name):
    for setting in SETTINGS:
        terms = guaranteed(name, setting)
        if terms is None:
            continue
        answer = terms.design.amplify(PrivacyProfile.pure(1.0, terms.relation), setting)
        if setting.protect in ("sample", "respondents"):
            assert isinstance(answer, Refused)
        if isinstance(answer, Refused):
            assert min(len(answer.reason), len(answer.instead), len(answer.source)) > 5
            assert str(answer) in terms.guarantee(Running().plus(PrivacyProfile.pure(1.0, terms.relation))).steps
        else:
            assert isinstance(answer, Amplified)
            assert 0.0 < answer.rate <= 1.0
            assert any("nobody outside the office" in note for note in answer.holds_when)


# What each design guarantees under protect="frame": (replace-one, add-remove); "-" is a refusal.
AMPLIFIES = {
    "srs": "yes no",
    "with replacement": "yes -",
    "poisson": "yes yes",
    "poisson by": "yes yes",
    "proportional": "yes yes",
    "systematic, random order": "yes -",
    "systematic, as listed": "yes -",
    "systematic, as listed, fractional": "no -",
    "systematic, as listed, by rate": "no -",
    "pps poisson": "yes -",
    "pps sampford": "yes -",
    "pps conditional-poisson": "yes -",
    "pps pivotal": "yes -",
    "pps sampford, no bound": "no -",
    "pps systematic": "no -",
    "pps systematic, as listed": "no -",
    "pps pareto": "no -",
    "cluster": "no -",
    "cluster with a cap": "yes -",
    "cluster by poisson": "no -",
    "cluster by pps": "no -",
    "cluster with replacement": "no -",
    "stages, poisson last": "yes -",
    "stages, srs last": "no -",
    "stages, with replacement first": "no -",
    "stages, with replacement last": "no -",
    "three stages": "yes -",
    "strata of proportional": "yes yes",
    "srs with a lower bound": "yes yes",
    "strata of srs with lower bounds": "yes yes",
    "strata of poisson by": "yes yes",
    "two stages by rate": "yes -",
    "two stages by number": "yes -",
    "strata of listed clusters": "no -",
    "mixed strata, poisson and srs": "yes -",
    "mixed strata, proportional and poisson": "yes yes",
}


@pytest.mark.parametrize("name", AMPLIFIES)
def test_which_designs_amplify_on_the_frame(name):
    found = []
    for neighbours in (REPLACE, ADD):
        terms = guaranteed(name, ds.Setting("frame", neighbours=neighbours))
        answer = terms and terms.design.amplify(PrivacyProfile.pure(1.0, terms.relation), terms.setting)
        found.append("-" if terms is None else "yes" if isinstance(answer, Amplified) else "no")
    assert " ".join(found) == AMPLIFIES[name]


def test_where_drawn_clusters_amplify_mechanisms_hide_records_that_come_and_go():
    """A cluster that is not drawn gives way to another: its units are replaced, and none of them in its place."""
    amplified = 0
    for name, setting in itertools.product(CASES, SETTINGS):
        terms = guaranteed(name, setting)
        if terms is not None and terms.design.clustering() is not None and isinstance(terms.amplification, Amplified):
            assert terms.relation == ADD, f"{name}, {setting}"
            amplified += 1
    assert amplified > 10


def test_the_check_has_power():
    """Where a loss is exact a guarantee that is 2 % smaller would be caught."""
    setting, exact = ds.Setting("frame", neighbours=REPLACE), 0
    for name in ("srs", "with replacement", "poisson", "cluster with a cap", "systematic, as listed", "stages, poisson twice"):
        case = CASES[name]
        base = case.resolved.base_relation(setting)
        told = case.resolved.protected(PrivacyProfile.pure(1.0, base), setting).epsilon(0.0)
        exact += 0.98 * told < worst(name, "frame", REPLACE, base, 1.0) - SLACK
    assert exact >= 5


def test_copies_of_one_unit_are_counted():
    setting = ds.Setting("sample", given="frame", neighbours=REPLACE)
    for name, copies in (
        ("with replacement", 2),
        ("with replacement, three", 3),
        ("cluster with replacement", 2),
        ("stages, with replacement first", 2),
        ("stages, with replacement last", 2),
        ("mixed strata, srs and with replacement", 2),
        ("srs", 1),
    ):
        terms = guaranteed(name, setting)
        told = terms.guarantee(Running().plus(PrivacyProfile.pure(0.5, REPLACE)))
        assert told.epsilon == pytest.approx(0.5 * copies)
        assert told.in_sample[0] == pytest.approx(0.5 * copies)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if "pareto" not in name])
def test_a_loss_holds_for_any_sizes_and_rates_that_keep_the_declared_bounds(name):
    """The same design on random frames: other sizes, rates, clusters and strata, within what is declared."""
    case, rng, tried = CASES[name], np.random.default_rng([20261003, len(name)]), 0
    setting = ds.Setting("frame", neighbours=REPLACE)
    base = case.resolved.base_relation(setting)
    for _ in range(40):
        units = tuple(
            {**each, "mos": int(rng.integers(1, 6)), "rate": float(rng.choice([0.05, 0.1, 0.3])), "block": str(rng.integers(3))}
            for each in case.units
        )
        if any(isinstance(step, Clusters) for step in case.resolved.recipe().below()):
            # Sizes of clusters are the clusters' own, and the clusters stay as many and as small as declared.
            units = tuple({**each, "mos": 1 + ord(each["psu"]) % 4} for each in units)
        if not within_bounds(case.resolved.recipe(), units):
            continue
        tried += 1
        law = law_of(case.resolved.recipe(), units)
        target = units[int(rng.integers(len(units)))]["id"]
        epsilon = float(rng.choice(EPSILONS))
        told = case.resolved.protected(PrivacyProfile.pure(epsilon, base), setting).epsilon(0.0)
        exact = en.worst_loss(as_sets(renamed(law, target, "x")), as_sets(renamed(law, target, "y")), epsilon, base)
        assert told >= exact - SLACK, f"{name} on {units}, target {target}, epsilon {epsilon}: {told} < {exact}"
        if tried == 4:
            return
    assert tried


def within_bounds(recipe, units):
    """Whether no unit has a chance above the declared bound: the draw is refused otherwise."""
    if isinstance(recipe, Strata):
        labels = {unit["region"] for unit in units}
        return all(within_bounds(laws.step_of(recipe, label), [u for u in units if u["region"] == label]) for label in labels)
    if isinstance(recipe, Sized):
        return max(chances_by_size(units, recipe).values()) <= Fraction(repr(float(recipe.at_most)))
    return True


# Sizes that were computed from the frame


def confidential():
    sizes, takes = {"n": 2, "s": 3}, {"n": 1, "s": 2}
    return Allocation("neyman", sizes, {"n": 1.0, "s": 2.0}, takes, {"n": 1.0, "s": 2.0}, public=False)


def test_an_allocation_computed_from_the_frame_is_refused_under_every_setting():
    frame = CASES["mixed strata, poisson and srs"].frame
    design = ds.stratified("region", within=confidential())
    for made in (design, design_from_dict(design.to_dict())):
        resolved = made.resolve(frame)
        for setting in SETTINGS:
            with pytest.raises(NoGuarantee, match="no guarantee") as caught:
                Terms("survey", frame, resolved, setting, ds.Budget(1.0))
            assert "allocation is computed from the confidential frame" in caught.value.because


def test_the_mark_of_a_confidential_allocation_cannot_be_lost():
    with pytest.raises(NoGuarantee):
        confidential().within()
    marked = ds.stratified("region", within=confidential(), allocation="public")
    assert marked.to_dict()["allocation"] == "confidential"
    with pytest.raises(BadValue):
        ds.stratified("region", within={"n": ds.poisson(0.1), "s": ds.srs(n=1)}, allocation="confidential")


# The law that was written out is the law that is drawn


LESS_OFTEN = [name for name in CASES if name.startswith(("systematic", "strata", "pps", "poisson", "srs", "with"))]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LESS_OFTEN else ()) for name in CASES if "pareto" not in name]
)
def test_what_is_drawn_is_in_the_written_law_with_its_probabilities(name, tmp_path):
    case = CASES[name]
    table = pa.table({column: [each[column] for each in case.units] for column in case.units[0]})
    chances = {unit: sum(p for sample, p in case.law.items() if unit in sample) for unit in "abcde"}
    rows = drawn_from(table, case.resolved.recipe(), ("region", "psu", "mos", "rate", "block"), tmp_path).to_pylist()
    assert tuple(sorted(row["unit"] for row in rows)) in case.law
    if not any(isinstance(step, Repeated) for step in case.resolved.recipe().below()):
        assert all(row["pi"] == pytest.approx(chances[row["unit"]], abs=1e-9) for row in rows)


def drawn_from(table, recipe, used, folder, key=None):
    engine = Engine(table)
    engine.draw(recipe, Expectations(unit="id", used=used), key)
    file = folder / f"{uuid.uuid4().hex}.parquet"
    engine.write_sample(str(file), "id", recipe)
    return pq.read_table(file)


def test_units_that_are_named_like_their_cluster_are_drawn_by_numbers_of_their_own(tmp_path):
    """Cluster k holds the unit k: one number for both would draw that unit whenever its cluster is drawn.

    120 drawn clusters at rate .2: more than 60 such units have probability below 1e-12.
    """
    table = pa.table({"id": list(range(500)), "psu": [each % 50 for each in range(500)]})
    recipe = ds.stages(ds.cluster("psu", ds.srs(n=10)), ds.poisson(0.2)).recipe()
    drawn_units = [each for _ in range(12) for each in drawn_from(table, recipe, ("psu",), tmp_path)["unit"].to_pylist()]
    assert sum(each < 50 for each in drawn_units) <= 60


def test_a_key_gives_a_cluster_another_number_than_a_unit_of_the_same_name(tmp_path):
    table = pa.table({"id": list(range(400)), "psu": [each % 40 for each in range(400)]})
    recipe = ds.stages(ds.cluster("psu", ds.poisson(0.5)), ds.poisson(0.5)).recipe()
    found = set(drawn_from(table, recipe, ("psu",), tmp_path, ds.Key(bytes(range(32))))["unit"].to_pylist())
    clusters = {each % 40 for each in found}
    # About half of the units named like their cluster; all of them, if they share a number (2^-15 or less by chance).
    assert sum(each in found for each in clusters) < len(clusters)


@pytest.mark.slow
def test_the_start_in_a_cluster_is_another_one_than_the_start_among_clusters(tmp_path):
    """One of two clusters by a systematic draw, and one of the eight units of cluster "0" by another one.

    One start for both would never draw the second half of them; below 2^-10 by chance, with these keys once and for all.
    """
    units = [f"u{number:02d}" for number in range(16)]
    table = pa.table({"id": units, "psu": [number // 8 for number in range(16)], "place": list(range(16))})
    recipe = ds.stages(ds.cluster("psu", ds.systematic(n=1, order="psu")), ds.systematic(n=1, order="place")).recipe()
    found = []
    for seed in range(30):
        drawn_units = drawn_from(table, recipe, ("psu", "place"), tmp_path, ds.Key(bytes([seed]) * 32))["unit"].to_pylist()
        found += drawn_units
    assert set(found) & set(units[4:8])
    assert set(found) & set(units[8:12])


def test_draws_with_replacement_at_two_stages_are_refused():
    with pytest.raises(BadValue, match="with replacement"):
        ds.stages(ds.cluster("psu", ds.with_replacement(n=2)), ds.with_replacement(n=3))
