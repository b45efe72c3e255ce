"""Laplace noise for few numbers, Gaussian for many, one accounting measure for each sample, and medians that spend a delta of
their own."""

import math

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerDisagrees
from dpsurvey.privacy.budget import amount

SIZE, GROUPS, JOBS = 2000, list("abcdefghij"), ["clerk", "farmer", "pilot"]
DELTA = 1e-6
MEDIAN = ds.median("income", bounds=(0, 100), method="smooth")
SETTINGS = {
    "the sample": None,
    "the frame": ds.Setting("frame", neighbours="replace-one"),
    "the frame, a record more or less": ds.Setting("frame", neighbours="add-remove"),
}


def people():
    rng = np.random.default_rng(21)
    return pd.DataFrame(
        {
            "id": range(SIZE),
            "income": rng.uniform(0, 100, SIZE),
            "group": rng.choice(GROUPS, SIZE),
            "job": rng.choice(JOBS, SIZE),
        }
    )


def a_survey(folder, *, epsilon=1.0, delta=DELTA, design=None, setting=None, name="lfs", table=None):
    table = people() if table is None else table
    frame = ds.Frame(table, "id", SIZE, {"group": GROUPS, "job": JOBS})
    budget = ds.Budget(epsilon, delta)
    return ds.Survey(frame, design or ds.srs(n=500), setting, budget=budget, ledger=folder / "books.ledger", name=name)


def crossing_point(terms):
    """From how many charges of one number each on Gaussian noise is smaller, by the variances of the two noises."""
    return amount(terms.pure_in_sample_budget) ** 2 / (4.0 * amount(terms.in_sample_budget))


def shares(count):
    """So many numbers, each a charge of its own."""
    return [ds.proportion("code", str(number)) for number in range(count)]


def is_louder(first, second):
    """By the mean logarithm of the noise of all estimates that have one."""
    pairs = [(one["se_noise"], two["se_noise"]) for one, two in zip(first.predictions, second.predictions, strict=True)]
    known = [math.log(one / two) for one, two in pairs if one and two]
    assert known
    return math.fsum(known) > 0.0


@pytest.mark.parametrize("name", SETTINGS)
def test_laplace_up_to_the_crossing_point_and_gaussian_beyond(tmp_path, name):
    survey = a_survey(tmp_path, setting=SETTINGS[name], table="not there.parquet")
    crossing = crossing_point(survey.terms)
    assert 2.0 < crossing < 60.0
    for count in (1, 2, math.floor(crossing)):
        assert survey.plan(*shares(count)).noise_class.kind == "laplace"
    for count in (math.ceil(crossing), 2 * math.ceil(crossing), 80):
        assert survey.plan(*shares(count)).noise_class.kind == "gaussian"


def test_the_crossing_point_is_where_the_two_variances_meet(tmp_path):
    """k charges of epsilon/k have variance 2 (k/epsilon)^2, k charges of rho/k variance k/(2 rho)."""
    terms = a_survey(tmp_path, table="not there.parquet").terms
    epsilon, rho = amount(terms.pure_in_sample_budget), amount(terms.in_sample_budget)
    crossing = crossing_point(terms)
    assert 2.0 * (crossing / epsilon) ** 2 == pytest.approx(crossing / (2.0 * rho), rel=1e-12)


PLANS = {
    "one mean": [ds.mean("income", bounds=(0, 100))],
    "means by group": [ds.mean("income", bounds=(0, 100), by="group")],
    "a table": [ds.table("group", "job")],
    "many tables": [ds.table("group", "job"), *(ds.count("code", str(number)) for number in range(30))],
    "thirty shares": shares(30),
    "a regression": [ds.greg(ds.mean("income", bounds=(0, 100)), {"age": ((0, 100), 40), "rooms": ((0, 9), 3)})],
    "quantiles": [ds.quantile("income", q, bounds=(0, 100), method="tree") for q in (0.1, 0.5, 0.9)],
}


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_takes_the_smaller_noise(tmp_path, name):
    survey = a_survey(tmp_path, design=ds.poisson(0.25), table="not there.parquet")
    chosen, laplace, gaussian = (survey.plan(*PLANS[name], noise=noise) for noise in ("auto", "laplace", "gaussian"))
    assert (laplace.noise_class.kind, gaussian.noise_class.kind) == ("laplace", "gaussian")
    better = "gaussian" if is_louder(laplace, gaussian) else "laplace"
    assert chosen.noise_class.kind == better
    assert chosen.items == (laplace if better == "laplace" else gaussian).items


def test_both_kinds_of_noise_are_chosen_by_some_plan(tmp_path):
    survey = a_survey(tmp_path, design=ds.poisson(0.25), table="not there.parquet")
    assert {survey.plan(*plan).noise_class.kind for plan in PLANS.values()} == {"laplace", "gaussian"}


def test_without_a_delta_all_noise_is_laplace_and_gaussian_noise_is_refused(tmp_path):
    survey = a_survey(tmp_path, delta=0.0, table="not there.parquet")
    assert survey.plan(*shares(80)).noise_class.kind == "laplace"
    with pytest.raises(BadValue, match="needs a delta") as caught:
        survey.plan(*shares(1), noise="gaussian")
    assert "Budget(epsilon, delta)" in caught.value.hint


def test_an_unknown_noise_is_named(tmp_path):
    with pytest.raises(BadValue, match="unknown noise 'gausian'") as caught:
        a_survey(tmp_path, table="not there.parquet").plan(*shares(1), noise="gausian")
    assert "did you mean 'gaussian'" in caught.value.hint


def charged(folder, name="lfs"):
    return [entry["profile"]["curve"] for entry in ds.Ledger(folder / "books.ledger").charges(name)]


@pytest.mark.parametrize(("first", "second"), [("laplace", "gaussian"), ("gaussian", "laplace")])
def test_one_sample_keeps_one_measure(tmp_path, first, second):
    survey = a_survey(tmp_path)
    survey.plan(ds.proportion("group", "a"), share=0.1, noise=first).release()
    before = charged(tmp_path)
    assert [curve["kind"] for curve in before] == ["zcdp" if first == "gaussian" else "approximate"]
    with pytest.raises(LedgerDisagrees, match="another kind of noise") as caught:
        survey.plan(ds.proportion("group", "b"), share=0.1, noise=second).release()
    assert f'noise="{first}"' in caught.value.hint
    assert charged(tmp_path) == before, "a refusal is not charged"
    survey.plan(ds.proportion("group", "b"), share=0.1, noise=first).release()
    assert len(charged(tmp_path)) == 2


def test_a_median_with_its_own_delta_is_not_charged_beside_gaussian_noise(tmp_path):
    survey = a_survey(tmp_path)
    with pytest.raises(BadValue, match="epsilon and delta") as caught:
        survey.plan(MEDIAN, ds.proportion("group", "a"), noise="gaussian")
    assert "laplace" in caught.value.hint
    assert survey.plan(MEDIAN, *shares(50)).noise_class.kind == "laplace", "the median decides"
    survey.plan(ds.proportion("group", "a"), share=0.1, noise="gaussian").release()
    with pytest.raises(LedgerDisagrees, match="another kind of noise"):
        survey.plan(MEDIAN, share=0.1).release()


@pytest.mark.parametrize("method", ["smooth", "smooth-as-printed", "propose-test-release"])
def test_such_a_median_needs_a_delta(tmp_path, method):
    proposal = 5.0 if method == "propose-test-release" else None
    asked = ds.median("income", bounds=(0, 100), method=method, proposal=proposal)
    with pytest.raises(BadValue, match="needs a delta"):
        a_survey(tmp_path, delta=0.0, table="not there.parquet").plan(asked)


def test_a_median_and_a_share_are_charged_in_epsilon_and_the_median_in_delta_too(tmp_path):
    survey = a_survey(tmp_path)
    release = survey.plan(MEDIAN, ds.proportion("group", "a"), share=0.5, weights=(3, 1)).release()
    median, share = charged(tmp_path)
    assert median["epsilon"] == pytest.approx(0.375, rel=1e-5)
    assert median["delta"] == pytest.approx(0.375 * DELTA, rel=1e-9)
    assert (share["epsilon"], share["delta"]) == (pytest.approx(0.125, rel=1e-9), 0.0)
    assert release.document["ledger"]["spent"] <= 0.5
    assert release.guarantee.delta == DELTA
    assert release.recompute() == release.estimates


# A bound below the lattice is never safe, and one as wide as the range always is. The test of the first passes with probability
# delta/2 at most, 2e-7; that of the second fails with less than exp(-20).
PROPOSALS = {"fails": 1e-9, "passes": 100.0}


@pytest.mark.parametrize("name", PROPOSALS)
def test_propose_test_release_is_charged_the_same_whether_or_not_its_test_passes(tmp_path, name):
    survey = a_survey(tmp_path, epsilon=100.0)
    asked = ds.median("income", bounds=(0, 100), method="propose-test-release", proposal=PROPOSALS[name])
    release = survey.plan(asked, share=0.4).release()
    (row,) = release.estimates
    assert (row["estimate"] is None) == (name == "fails")
    assert any("test of the proposed bound did not pass" in note for note in row["notes"]) == (name == "fails")
    (curve,) = charged(tmp_path)
    assert curve == {"kind": "approximate", "epsilon": pytest.approx(40.0, rel=1e-5), "delta": pytest.approx(0.4 * DELTA)}
    assert [entry["state"] for entry in ds.Ledger(tmp_path / "books.ledger").charges("lfs")] == ["committed"]
    assert (row["ci_low"], row["ci_high"]) == (0.0, 100.0)
    assert row["quality"] == "unreliable"
    assert release.recompute() == release.estimates


@pytest.mark.parametrize("parts", [(0.25, 0.25, 0.49), (0.5, 0.5)])
def test_the_deltas_of_all_medians_stay_within_the_budget(tmp_path, parts):
    survey = a_survey(tmp_path)
    for number, share in enumerate(parts):
        survey.plan(ds.quantile("income", 0.25 + 0.25 * number, bounds=(0, 100), method="smooth"), share=share).release()
    assert sum(curve["delta"] for curve in charged(tmp_path)) <= DELTA * (1.0 + 1e-9)
    spending = ds.Ledger(tmp_path / "books.ledger").spending(survey.terms)
    assert sum(parts) - 1e-3 < spending.spent <= 1.0
