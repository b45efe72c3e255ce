"""The figures of ledger and guarantee agree, for one sample and for several, for outsiders and for the sampled."""

import math
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerDisagrees

pytestmark = pytest.mark.quick

N = 4000


@pytest.fixture
def table():
    random = np.random.default_rng(8)
    return pa.table({"id": np.arange(N), "income": random.gamma(2.0, 10.0, N), "idle": random.random(N) < 0.2})


def survey(tmp_path, table, setting, design=None, budget=None, name="s"):
    frame = ds.Frame(table, unit="id", size=N)
    return ds.Survey(
        frame, design or ds.poisson(0.1), setting, budget=budget or ds.Budget(1.0), ledger=tmp_path / "b.ledger", name=name
    )


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", [ds.Budget(1.0), ds.Budget(1.0, 1e-6)], ids=["pure", "with delta"])
def test_ledger_and_guarantee_say_the_same_of_someone_known_to_be_sampled(tmp_path, table, relation, budget):
    release = (
        survey(tmp_path, table, ds.Setting("frame", neighbours=relation), budget=budget)
        .plan(ds.mean("income", (0, 100)))
        .release()
    )
    known = release.document["guarantee"]["in_sample"]["epsilon"]
    assert release.document["ledger"]["samples"][0]["epsilon_in_sample"] == known
    if relation == "replace-one" and not budget.delta:
        # The in-sample charge is under add-remove; replacing a known record costs two steps of it.
        charge = ds.Ledger(tmp_path / "b.ledger").charges("s")[0]["profile"]["curve"]["epsilon"]
        assert known == pytest.approx(2.0 * charge, rel=1e-12)


def test_a_second_sample_adds_to_every_figure_of_the_guarantee(tmp_path, table):
    setting = ds.Setting("frame", neighbours="add-remove")
    first = survey(tmp_path, table, setting).plan(ds.mean("income", (0, 100)), share=0.3).release()
    second = survey(tmp_path, table, setting).plan(ds.mean("income", (0, 100)), share=0.4).release()
    one, both = first.document["guarantee"], second.document["guarantee"]
    assert first.document["sample"]["id"] != second.document["sample"]["id"]
    whole = ds.poisson(0.1).invert(ds.Budget(1.0), setting).epsilon(0.0)
    own = math.log1p(0.1 * math.expm1(0.4 * whole))
    assert both["epsilon"] == pytest.approx(one["epsilon"] + own, rel=1e-9)
    assert both["epsilon"] == pytest.approx(second.document["ledger"]["spent"], rel=1e-12)
    assert both["in_sample"]["epsilon"] == pytest.approx(0.4 * whole + one["epsilon"], rel=1e-9)


def test_a_plan_of_another_survey_is_refused_before_anything_is_spent(tmp_path, table):
    setting = ds.Setting("frame", neighbours="add-remove")
    mine = survey(tmp_path, table, setting)
    for other in (
        survey(tmp_path, table, setting, budget=ds.Budget(50.0)),
        survey(tmp_path, table, setting, design=ds.poisson(0.5)),
    ):
        with pytest.raises(BadValue, match="other terms"):
            mine.release(other.plan(ds.mean("income", (0, 100))))
    assert not os.path.exists(tmp_path / "b.ledger") or ds.Ledger(tmp_path / "b.ledger").spending(mine.terms).spent == 0.0


def test_what_a_sample_amplified_is_neither_composed_nor_amplified_again():
    setting = ds.Setting("frame", neighbours="replace-one")
    pure, curved = ds.PrivacyProfile.pure(1.0, "add-remove"), ds.PrivacyProfile.zcdp(0.1, "add-remove")
    for design, profile in (
        (ds.poisson(0.1), pure),
        (ds.poisson(0.1), curved),
        (ds.poisson(0.1), ds.PrivacyProfile.pure(1.0, "both")),
    ):
        amplified = design.amplify(profile, setting).profile
        with pytest.raises(BadValue, match="cannot be composed"):
            amplified.compose(amplified)
        with pytest.raises(BadValue, match="amplified already"):
            design.amplify(amplified, setting)


@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 30.0, 36.33, 60.0, 600.0])
def test_replacing_when_everyone_is_drawn_costs_two_steps_at_any_epsilon(epsilon):
    answer = ds.poisson(1.0).amplify(ds.PrivacyProfile.pure(epsilon, "add-remove"), ds.Setting("frame", neighbours="replace-one"))
    assert answer.profile.epsilon(0.0) == 2.0 * epsilon
    almost = ds.poisson(1.0 - 1e-15).amplify(
        ds.PrivacyProfile.pure(epsilon, "add-remove"), ds.Setting("frame", neighbours="replace-one")
    )
    mp = pytest.importorskip("mpmath").mp
    with mp.workdps(60):
        p, e = mp.mpf(1.0 - 1e-15), mp.mpf(epsilon)
        truth = mp.log((1 - p + p * mp.exp(e)) / (1 - p + p * mp.exp(-e)))
        assert truth <= almost.profile.epsilon(0.0) <= truth * (1 + mp.mpf(10) ** -9) + mp.mpf(10) ** -12


def test_a_sealed_sample_is_tied_to_its_file_by_a_keyed_hash_that_only_the_owner_can_read(tmp_path, table):
    mine = survey(tmp_path, table, ds.Setting("frame", neighbours="add-remove"))
    sealed = mine.draw(tmp_path / "sample.parquet")
    assert stat.S_IMODE(os.stat(tmp_path / "b.ledger").st_mode) == 0o600
    assert sealed.key not in repr(sealed)
    assert sealed.commitment not in repr(sealed)
    import hashlib

    assert hashlib.sha256((tmp_path / "sample.parquet").read_bytes()).hexdigest() != sealed.commitment
    units = pq.read_table(tmp_path / "sample.parquet")
    pq.write_table(units.slice(1), tmp_path / "sample.parquet")
    with pytest.raises(LedgerDisagrees, match="not the one that was sealed"):
        mine.plan(ds.mean("income", (0, 100))).release()


def test_every_new_draw_is_a_new_sample_of_other_units(tmp_path, table):
    mine = survey(tmp_path, table, ds.Setting("frame", neighbours="add-remove"))
    mine.plan(ds.mean("income", (0, 100)), share=0.1).release()
    mine.draw(tmp_path / "one.parquet")
    mine.draw(tmp_path / "two.parquet", new=True)
    one, two = (set(pq.read_table(tmp_path / name)["unit"].to_pylist()) for name in ("one.parquet", "two.parquet"))
    # Two independent 10 % samples of 4,000 share about 40 units; 150 or more has probability far below 1e-6.
    assert len(one & two) < 150


def test_someone_known_to_be_in_either_of_two_samples_is_guaranteed_the_worse_of_both(tmp_path, table):
    setting = ds.Setting("frame", neighbours="add-remove")
    survey(tmp_path, table, setting).plan(ds.mean("income", (0, 100)), share=0.5).release()
    second = survey(tmp_path, table, setting).plan(ds.mean("income", (0, 100)), share=0.4).release()
    samples = second.document["ledger"]["samples"]
    worst = max(one["epsilon_in_sample"] + other["epsilon"] for one, other in (samples, samples[::-1]))
    assert second.guarantee.in_sample[0] == pytest.approx(worst, rel=1e-12)
    assert second.guarantee.in_sample[0] > 0.4 / 0.5 * samples[0]["epsilon_in_sample"] + samples[0]["epsilon"]
