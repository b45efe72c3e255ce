"""Discrete Gaussian noise keeps the curve of continuous noise that it is charged by: exact laws on whole lattices, in one
dimension and off the axes of two; a lattice as coarse as its noise does not, and is found; and what it saves in a plan."""

import math

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerDisagrees
from dpsurvey.ledger.terms import Terms
from dpsurvey.mechanism import MECHANISMS, Gaussian
from dpsurvey.mechanism.gaussian_mu import GaussianByMu
from dpsurvey.privacy.measure import Measure

pytestmark = pytest.mark.quick

AT = (0.0, 0.05, 0.3, 1.0, 2.0, 4.0)


def discrete(scale, reach):
    """The chances of -reach ... reach."""
    logs = -(np.arange(-reach, reach + 1) ** 2) / (2.0 * scale**2)
    chances = np.exp(logs)
    return chances / chances.sum()


def law(mechanism, reach):
    """The chances of the published noise -reach ... reach: on the finer lattice, then rounded."""
    fine = mechanism.fine
    finer = discrete(mechanism.scale * fine, reach * fine + fine // 2)
    return finer.reshape(2 * reach + 1, fine).sum(axis=1)


def worst(first, second, epsilon):
    """The exact hockey-stick divergence, the worse order of both."""
    return max(float(np.maximum(0.0, a - math.exp(epsilon) * b).sum()) for a, b in ((first, second), (second, first)))


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 2.5])
def test_one_sum_keeps_the_curve_of_its_charge(mu, shift):
    made = GaussianByMu.calibrate(ds.PrivacyProfile.gaussian(mu, "both"), float(shift))
    reach = math.ceil(14.0 * made.scale) + 2
    noise = law(made, reach)
    padded = np.concatenate([np.zeros(shift), noise]), np.concatenate([noise, np.zeros(shift)])
    for epsilon in AT:
        # What is cut off beyond 14 deviations is below 1e-40.
        assert worst(*padded, epsilon) <= made.profile("both").delta(epsilon) * (1.0 + 1e-9) + 1e-30
        assert made.profile("both").delta(epsilon) <= ds.PrivacyProfile.gaussian(mu, "both").delta(epsilon)
    # Little is given away: nothing but the rounding to whole steps.
    if shift / mu > 5.0:
        assert worst(*padded, 0.0) > 0.98 * ds.PrivacyProfile.gaussian(mu, "both").delta(0.0)


@pytest.mark.parametrize("move", [(1, 0), (1, 1), (2, 1), (3, 4)])
@pytest.mark.parametrize("scale", [2.5, 4.0, 9.0])
def test_a_vector_keeps_the_curve_of_its_length_whatever_its_direction(move, scale):
    made = GaussianByMu(scale, math.hypot(*move), 1)
    reach = math.ceil(9.0 * scale) + 5
    noise = discrete(scale, reach)
    apart = []
    for side in move:
        apart.append((np.concatenate([np.zeros(side), noise]), np.concatenate([noise, np.zeros(side)])))
    first, second = (np.outer(apart[0][place], apart[1][place]) for place in (0, 1))
    for epsilon in AT:
        assert worst(first, second, epsilon) <= made.profile("both").delta(epsilon) * (1.0 + 1e-9) + 1e-15


def test_noise_as_fine_as_its_lattice_would_not_keep_the_curve_of_continuous_noise():
    """Why the lattice is refined, and a little is added: noise as narrow as a step exceeds the curve of the same scale."""
    scale, found = 0.6, 0.0
    noise = discrete(scale, 30)
    padded = np.concatenate([np.zeros(1), noise]), np.concatenate([noise, np.zeros(1)])
    for epsilon in np.linspace(0.0, 6.0, 61):
        found = max(found, worst(*padded, epsilon) / ds.PrivacyProfile.gaussian(1.0 / scale, "both").delta(epsilon))
    assert found > 1.2


def test_a_finer_lattice_is_rounded_to_the_nearest_step_without_a_lean():
    made = GaussianByMu.calibrate(ds.PrivacyProfile.gaussian(0.8, "both"), 1.0)
    assert made.fine % 2 == 1
    assert made.fine * made.scale >= 100.0
    noise = law(made, math.ceil(14.0 * made.scale))
    at = np.arange(len(noise)) - len(noise) // 2
    assert abs(float(noise @ at)) < 1e-12
    assert float(noise @ at**2) == pytest.approx(made.variance, rel=1e-4)
    # Rounding to whole steps adds a twelfth, and no more.
    assert made.variance == pytest.approx(made.scale**2 + 1.0 / 12.0, rel=1e-4)


# In a survey

FRAME = {"unit": "id", "size": 2000}
SETTING = ds.Setting("frame", neighbours="add-remove")
BUDGET = ds.Budget(1.0, 1e-6)
MEAN, OTHER = ds.mean("y", bounds=(0, 100)), ds.total("y", bounds=(0, 50))


@pytest.fixture
def survey(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"id": range(2000), "y": [float(place % 100) for place in range(2000)]}).to_parquet("people.parquet")
    return ds.Survey(ds.Frame("people.parquet", **FRAME), ds.poisson(0.1), SETTING, budget=BUDGET, ledger="books.ledger")


def test_it_is_less_noisy_than_the_same_noise_charged_in_rho(survey):
    by_rho, by_mu = (survey.plan(MEAN, OTHER, noise=noise) for noise in ("gaussian", "gaussian-mu"))
    ratios = [one.mechanism.variance / two.mechanism.variance for one, two in zip(by_rho.items, by_mu.items, strict=True)]
    assert all(1.06 < math.sqrt(ratio) < 1.09 for ratio in ratios[:1]), "6 to 8 % of the noise"
    made = survey.release(by_mu)
    assert 0.9999 < made.guarantee.epsilon <= 1.0
    assert made.recompute() == made.estimates
    with ds.Ledger("books.ledger") as ledger:
        assert {charge["profile"]["curve"]["kind"] for charge in ledger.charges("survey")} == {"gaussian"}
        assert ledger.spending(survey.terms).spent == made.guarantee.epsilon


def test_releases_in_turn_keep_the_budget_and_one_measure(survey):
    for share in (0.3, 0.4):
        made = survey.release(survey.plan(MEAN, share=share, noise="gaussian-mu"))
    assert made.guarantee.epsilon < 1.0
    with pytest.raises(LedgerDisagrees, match="another kind of noise"):
        survey.release(survey.plan(OTHER, share=0.1, noise="gaussian"))
    assert not survey.what_if(survey.plan(OTHER, share=0.31, noise="gaussian-mu")).fits
    made = survey.release(survey.plan(OTHER, share=0.2999, noise="gaussian-mu"))
    assert 0.999 < made.guarantee.epsilon <= 1.0
    with ds.Ledger("books.ledger") as ledger:
        ledger.set_budget(SETTING, ds.Budget(3.0, 1e-5))
        # A budget with a delta counts as a whole.
        (account,) = ledger.accounts()
        assert account.epsilon == 1.0
        assert account.epsilon_in_sample >= made.guarantee.in_sample[0]


def test_strata_of_unequal_rates_lose_their_own_in_mu_too(tmp_path):
    frame = ds.Frame("firms.parquet", unit="id", size=1050, categories={"size": {"small": 1000, "large": 50}})
    design = ds.stratified("size", within={"small": ds.poisson(0.02), "large": ds.poisson(1.0)})
    survey = ds.Survey(frame, design, SETTING, budget=BUDGET, ledger=tmp_path / "books.ledger")
    limits = survey.terms.strata.amounts(Measure.MU)
    # As squares.
    assert float(limits["small"] / limits["large"]) > 9.0
    plan = survey.plan(ds.total("y", bounds=(0, 100)), noise="gaussian-mu")
    assert plan.items[0].mechanism.scale < survey.plan(ds.total("y", bounds=(0, 100)), noise="gaussian").items[0].mechanism.scale
    assert 0.9999 < survey.terms.amplify(plan.charged.composed).epsilon(1e-6) <= 1.0
    rows = plan.unit_losses
    assert rows[0]["mu"] == pytest.approx(50.0 * rows[1]["mu"], rel=1e-3)


def test_charges_in_another_measure_are_refused_by_every_mechanism():
    mu, rho, pure = (
        ds.PrivacyProfile.gaussian(0.5, "both"),
        ds.PrivacyProfile.zcdp(0.5, "both"),
        ds.PrivacyProfile.pure(0.5, "both"),
    )
    for kind, charges in (("laplace", (mu, rho)), ("gaussian", (mu, pure)), ("gaussian-mu", (rho, pure))):
        for charge in charges:
            with pytest.raises(BadValue, match="charged in"):
                MECHANISMS[kind].calibrate(charge, 1.0)


def test_choices_are_not_charged_in_mu(tmp_path):
    terms = Terms(
        "s",
        ds.Frame("x.parquet", unit="id", size=1000),
        ds.srs(n=100, size=1000),
        ds.Setting("frame", neighbours="replace-one"),
        BUDGET,
    )
    from dpsurvey.survey.plan import Plan

    with pytest.raises(BadValue, match="a choice is charged in epsilon or in rho"):
        len(Plan(terms, (ds.quantile("y", 0.5, (0, 1), method="exponential"),), noise="gaussian-mu").items)
    assert Gaussian.measure is Measure.RHO
