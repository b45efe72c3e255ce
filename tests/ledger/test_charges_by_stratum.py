"""Charges that strain strata differently: each stratum adds up what its records lose and amplifies once; the worst one counts."""

import json
import math

import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, BudgetExceeded
from dpsurvey.ledger.strata_limits import StrataLimits
from dpsurvey.privacy.measure import Measure
from dpsurvey.privacy.relation import Relation
from dpsurvey.survey.plan import Plan

pytestmark = pytest.mark.quick

SIZES = {"small": 1000, "large": 50}
RATES = {"small": 0.02, "large": 1.0}
ADD, REPLACE = ds.Setting("frame", neighbours="add-remove"), ds.Setting("frame", neighbours="replace-one")
TOTAL, MEANS = ds.total("y", bounds=(0, 100)), ds.mean("y", bounds=(0, 100), by="size")
# What a budget of 1 leaves on the sample: log(1 + (e - 1)/0.02), and 1 where everybody is taken.
MOST = math.log1p(math.expm1(1.0) / 0.02)
OUTSIDE = {label: (lambda loss, rate=rate: math.log1p(rate * math.expm1(loss))) for label, rate in RATES.items()}
POISSON = ds.stratified("size", within={label: ds.poisson(rate) for label, rate in RATES.items()})
FIXED = ds.stratified("size", within={"small": ds.srs(n=20), "large": ds.srs(n=50)})
DESIGNS = {"poisson": (POISSON, ADD), "srs": (FIXED, REPLACE)}


@pytest.fixture(autouse=True)
def register(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"{label}{place}", "size": label, "y": float(place % 100)} for label, n in SIZES.items() for place in range(n)]
    pd.DataFrame(rows).to_parquet("firms.parquet")


def a_survey(which="poisson", budget=None, name="firms", setting=None, design=None):
    known, own = DESIGNS[which]
    frame = ds.Frame("firms.parquet", unit="id", size=sum(SIZES.values()), categories={"size": SIZES})
    return ds.Survey(frame, design or known, setting or own, budget=budget or ds.Budget(1.0), ledger="books.ledger", name=name)


def lost(survey, *charges):
    """By hand: what each stratum loses on the sample, and the worst of what that makes of the frame."""
    inside = {label: sum(epsilon * parts.get(label, 1.0) for epsilon, parts in charges) for label in RATES}
    return inside, max(OUTSIDE[label](inside[label]) for label in RATES)


@pytest.mark.parametrize("which", DESIGNS)
def test_a_weighted_total_beside_a_take_all_stratum_is_charged_four_times_the_budget(which):
    survey = a_survey(which)
    plan = survey.plan(TOTAL)
    assert plan.items[0].charge.epsilon(0.0) == pytest.approx(MOST, rel=1e-9)
    before = Plan(survey.terms, (TOTAL,), as_in_0_8=True)
    assert before.items[0].charge.epsilon(0.0) == pytest.approx(1.0, rel=1e-9)
    assert not before.items[0].charge.parts
    assert before.items[0].mechanism.scale / plan.items[0].mechanism.scale == pytest.approx(MOST, rel=1e-9)
    # Those whom everybody knows to be in the sample lose a fiftieth of it, inside and outside.
    assert [(row["units"], round(row["epsilon"], 3)) for row in plan.unit_losses] == [("small", 4.465), ("large", 0.089)]
    assert [round(row["outside"], 3) for row in plan.unit_losses] == [1.0, 0.089]
    assert "small (weight 50): 4.465, outside 1; large (weight 1): 0.0893, outside 0.0893." in str(plan)
    made = survey.release(plan)
    assert made.guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    assert made.guarantee.epsilon <= 1.0
    assert made.guarantee.in_sample[0] == pytest.approx(MOST, rel=1e-9)
    assert made.guarantee.sample_leaks[0] == made.guarantee.in_sample[0]
    assert "each stratum by its own rate" in str(plan)
    assert any("lose by their own weight" in each for each in made.guarantee.holds_when)
    assert made.recompute() == made.estimates


@pytest.mark.parametrize("which", DESIGNS)
def test_a_table_by_stratum_gains_nothing(which):
    assert a_survey(which).plan(MEANS).items[0].charge == a_survey(which).terms.in_sample(Measure.EPSILON)


@pytest.mark.parametrize("which", DESIGNS)
def test_several_releases_add_up_in_each_stratum_and_the_worst_one_counts(which):
    survey, charges = a_survey(which), []
    for plan in (
        survey.plan(TOTAL, share=0.5),
        survey.plan(MEANS, share=0.3),
        survey.plan(ds.count("size", "small"), share=0.05),
    ):
        quoted = survey.what_if(plan)
        made = survey.release(plan)
        charges += [(item.charge.epsilon(0.0), dict(item.charge.parts)) for item in plan.items]
        inside, outside = lost(survey, *charges)
        assert made.guarantee.epsilon == pytest.approx(outside, rel=1e-9)
        assert made.guarantee.in_sample[0] == pytest.approx(max(inside.values()), rel=1e-9)
        assert quoted.levels[0].after == pytest.approx(outside, rel=1e-9)
    with ds.Ledger("books.ledger") as ledger:
        assert ledger.spending(survey.terms).spent == pytest.approx(outside, rel=1e-9)
        written = [charge["profile"] for charge in ledger.charges("firms")]
        assert [sorted(each.get("parts", {})) for each in written] == [["large"], [], ["large"]]
        assert ds.verify_ledger("books.ledger").ok


@pytest.mark.parametrize("which", DESIGNS)
def test_one_full_stratum_refuses_what_the_others_have_room_for(which):
    survey = a_survey(which)
    survey.release(survey.plan(MEANS))
    # The small stratum has lost 1 of 4.465, the large one all it may.
    with pytest.raises(BudgetExceeded):
        survey.release(survey.plan(TOTAL, share=0.1))


@pytest.mark.parametrize("which", DESIGNS)
def test_what_the_ledger_says_is_left_can_be_spent_and_no_more(which):
    survey = a_survey(which)
    survey.release(survey.plan(MEANS, share=0.25))
    hint = survey.what_if(survey.plan(TOTAL)).levels[0].exceeded().hint
    share = float(hint.split("share=")[1].split()[0])
    assert share == pytest.approx(0.75, abs=1e-3)
    assert not survey.what_if(survey.plan(MEANS, share=0.751)).fits
    survey.release(survey.plan(MEANS, ds.count("size", "small"), share=share))


@pytest.mark.parametrize("which", DESIGNS)
def test_statistics_that_strain_different_strata_leave_room_for_each_other(which):
    survey = a_survey(which)
    both = survey.plan(ds.count("size", "small"), MEANS)
    assert min(both.shares) > 0.75
    assert survey.terms.amplify(both.charged.composed).epsilon(0.0) == pytest.approx(1.0, rel=1e-9)
    assert both.with_shares(both.shares).shares == pytest.approx(both.shares, rel=1e-9)
    assert survey.release(both).guarantee.epsilon <= 1.0
    half = a_survey(which, name="other").plan(ds.count("size", "small"), MEANS, share=0.5)
    assert half.shares == pytest.approx([share / 2.0 for share in both.shares], rel=1e-9)


@pytest.mark.parametrize("which", DESIGNS)
def test_a_charge_of_which_nothing_is_known_counts_whole_in_every_stratum(which):
    survey = a_survey(which)
    survey.release(survey.plan(TOTAL, share=0.5))
    with ds.Ledger("books.ledger") as ledger:
        sample = ledger.charges("firms")[0]["sample"]
        relation = survey.terms.relation
        ledger.book("firms", ds.PrivacyProfile.pure(0.4, relation), "a table made elsewhere", sample)
        _, outside = lost(survey, (MOST / 2.0, {"large": 0.02}), (0.4, {}))
        assert ledger.spending(survey.terms).spent == pytest.approx(outside, rel=1e-6)
        with pytest.raises(BudgetExceeded):
            ledger.book("firms", ds.PrivacyProfile.pure(0.6, relation), "another table", sample)


def test_entries_without_parts_are_read_as_whole_ones_and_those_with_parts_as_they_were():
    charge = a_survey().plan(TOTAL).items[0].charge
    written = json.loads(json.dumps(charge.to_dict()))
    assert ds.PrivacyProfile.from_dict(written) == charge
    del written["parts"]
    assert ds.PrivacyProfile.from_dict(written) == charge.whole
    assert a_survey().terms.amplify(charge.whole).epsilon(0.0) == pytest.approx(MOST, rel=1e-9)


@pytest.mark.parametrize("which", DESIGNS)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_with_a_delta_each_stratum_keeps_its_own_limit(which, noise):
    survey = a_survey(which, ds.Budget(1.0, 1e-6))
    measure = Measure.RHO if noise == "gaussian" else Measure.EPSILON
    limits = survey.terms.strata.amounts(measure)
    assert limits["small"] > (12 if noise == "gaussian" else 4) * limits["large"]
    plan = survey.plan(TOTAL, share=0.6, noise=noise)
    assert survey.release(plan).guarantee.epsilon <= 1.0
    spent = survey.plan(MEANS, share=0.35, noise=noise)
    assert survey.release(spent).guarantee.epsilon <= 1.0
    refused = survey.what_if(survey.plan(MEANS, share=0.7, noise=noise))
    assert not refused.fits
    if noise == "laplace":
        assert refused.levels[0].unit == "epsilon on the sample"
        assert refused.levels[0].limit in {float(each) for each in limits.values()}
        assert refused.levels[0].after > refused.levels[0].limit


def test_the_account_of_another_relation_counts_a_record_that_moves():
    survey = a_survey()
    survey.release(survey.plan(TOTAL))
    with ds.Ledger("books.ledger") as ledger:
        ledger.set_budget(REPLACE, ds.Budget(5.0))
        account = next(each for each in ledger.accounts() if each.setting == REPLACE)
        # From the small stratum into the large one: 1 outside for leaving, 0.089 for coming, and never more than two steps.
        assert 1.0 < account.epsilon < 1.1
        assert account.epsilon_in_sample == pytest.approx(2.0 * MOST, rel=1e-9)


NO_GAIN = {
    "the sample is protected": {"setting": ds.Setting("sample", "frame", neighbours="add-remove")},
    "a record may change its stratum": {"setting": REPLACE},
    "all rates are the same": {"design": ds.stratified("size", within=ds.poisson(0.1))},
    "everybody is covered with some chance": {
        "design": ds.covered(POISSON, at_most=0.9),
        "setting": ds.Setting("population", neighbours="add-remove"),
    },
}


@pytest.mark.parametrize("why", NO_GAIN)
def test_nothing_is_gained_where_nothing_is_proved(why):
    survey = a_survey(**NO_GAIN[why])
    assert survey.terms.strata.amounts(Measure.EPSILON) == {}
    plan = survey.plan(TOTAL)
    assert plan.items[0].charge == survey.terms.in_sample(Measure.EPSILON)
    assert not plan.items[0].charge.parts


def test_limits_are_found_for_each_stratum_by_its_own_design():
    within = {"a": ds.poisson(0.02), "b": ds.proportional(0.1), "c": ds.poisson(1.0)}
    found = StrataLimits.of(ds.stratified("h", within=within), ADD, ds.Budget(1.0), Relation.ADD_REMOVE)
    alone = {label: float(found.amounts(Measure.EPSILON)[label]) for label in within}
    for label, design in within.items():
        own = ds.invert(design, 1.0, base="add-remove", neighbours="add-remove").spent_epsilon
        assert alone[label] == pytest.approx(own, rel=1e-9)


def test_a_part_of_a_stratum_that_is_not_there_is_refused():
    with pytest.raises(BadValue, match="names strata"):
        ds.amplify(POISSON, 1.0, base="add-remove", neighbours="add-remove", parts={"larger": 0.02})
    with pytest.raises(BadValue, match="names strata"):
        ds.amplify(ds.poisson(0.1), 1.0, base="add-remove", neighbours="add-remove", parts={"large": 0.02})
    with pytest.raises(BadValue, match="at most 1"):
        ds.amplify(POISSON, 1.0, base="add-remove", neighbours="add-remove", parts={"large": 2.0})


def test_a_delta_that_may_be_spent_is_kept_in_every_stratum():
    spent = ds.invert(POISSON, 1.0, delta=1e-6, base="add-remove", neighbours="add-remove", parts={"large": 0.02})
    assert spent.spent_epsilon == pytest.approx(MOST, rel=1e-9)
    # Of a stratum that is taken whole nothing is hidden, of its delta neither.
    assert 0.99e-6 < spent.spent_delta <= 1e-6
    assert spent.delta <= 1e-6


def test_respondents_of_fixed_samples_lose_by_their_own_stratum_too():
    design = ds.responding(FIXED, at_most=0.5)
    survey = a_survey(design=design, setting=REPLACE)
    limits = survey.terms.strata.amounts(Measure.EPSILON)
    assert limits["small"] > 2.0 * limits["large"]
    plan = survey.plan(TOTAL, responses="")
    assert dict(plan.items[0].charge.parts) == {"large": pytest.approx(0.02, rel=1e-4)}
    assert survey.terms.amplify(plan.charged.composed).epsilon(0.0) == pytest.approx(1.0, rel=1e-6)
    assert survey.terms.amplify(plan.charged.composed).epsilon(0.0) <= 1.0
