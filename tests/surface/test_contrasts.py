"""Contrasts by design: from a file and from its release, in strata of units, with trimmed weights, and what a plan predicts."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.ledger.terms import Terms
from dpsurvey.statistic import statistic_from_dict
from dpsurvey.survey.plan import Plan

pytestmark = pytest.mark.quick

FALSE_ALARM = 1e-6
WITHIN = ds.Setting("sample", given="frame", neighbours="replace-one")
LABELS = ["s00", "s01", "s02"]
FRAME = ds.Frame("file", None, 3_000, {"g": {"a": 1_500, "b": 1_500}, "stratum": dict.fromkeys(LABELS, 1_000)})
MEAN = ds.mean("y", bounds=(0, 1), by="g")


def planned(design, *asked, epsilon=1e6, weights=None):
    return Plan(Terms("study", FRAME, design.resolve(FRAME), WITHIN, ds.Budget(epsilon), weights), asked)


def schools():
    """Two levels in each of 20 schools; the level of a school moves both."""
    random = np.random.default_rng(2)
    school = np.arange(20).repeat(30)
    level = np.tile(np.repeat(["primary", "secondary"], 15), 20)
    score = 50.0 + random.normal(0.0, 12.0, 20)[school] + 4.0 * (level == "primary") + random.normal(0.0, 5.0, 600)
    return pd.DataFrame({"id": range(600), "psu": school, "level": level, "score": score.clip(0, 100), "w": 5.0})


def test_a_release_of_clusters_computes_its_differences_again_and_is_classical_with_little_noise(tmp_path):
    rows = schools()
    frame = ds.Frame(rows, unit="id", size=3_000, categories={"level": ["primary", "secondary"]})
    means = ds.mean("score", bounds=(0, 100), by="level")
    apart = ds.contrast(means, "primary", "secondary")
    survey = ds.Survey(
        frame,
        collected(psu="psu", weights="w", weights_are="design", psus=20),
        setting=WITHIN,
        budget=ds.Budget(1e6),
        name="schools",
        weight_range=(5, 5),
        ledger=str(tmp_path / "books.ledger"),
    )
    alone, both = survey.plan(means), survey.plan(means, apart)
    assert [item.share for item in both.items] == [item.share for item in alone.items], "a difference costs nothing more"
    release = both.release()
    release.save(tmp_path / "release.json")
    read = ds.Release.load(tmp_path / "release.json")
    assert read.recompute() == read.estimates == release.estimates
    *_, row = read.estimates
    # The linearised difference of the same sample, from schools.
    gap = rows.groupby(["psu", "level"])["score"].mean().unstack() @ [1.0, -1.0]
    assert row["estimate"] == pytest.approx(gap.mean(), abs=0.01)
    assert row["se_sampling"] == pytest.approx(gap.std() / 20**0.5, rel=0.07)
    assert row["df"] == pytest.approx(19.0, abs=0.01)
    first, second, _ = read.estimates
    assert row["se_sampling"] < 0.5 * np.hypot(first["se_sampling"], second["se_sampling"]), "schools would cancel"


def in_strata(alike, surveys=300):
    """Groups and figures, by survey, of 40 units from each of three strata: their levels differ for both groups, or for one."""
    random = np.random.default_rng(6)
    stratum = np.arange(3).repeat(1_000)
    group = np.tile([0, 1], 1_500)
    level = np.array([0.1, 0.5, 0.9])[stratum] if alike else np.where(group == 0, np.array([0.1, 0.5, 0.9])[stratum], 0.5)
    y = np.clip(level + random.normal(0.0, 0.05, 3_000), 0.0, 1.0)
    drawn = np.stack([np.concatenate([random.choice(1_000, 40, False) + 1_000 * h for h in range(3)]) for _ in range(surveys)])
    return group[drawn], y[drawn], y[group == 0].mean() - y[group == 1].mean()


@pytest.mark.parametrize("alike", [True, False])
def test_differences_of_groups_across_strata_cover_whatever_their_covariance(alike):
    """Strata make the errors of both groups related; the sum of their variances around the group's own mean holds all of it."""
    group, y, truth = in_strata(alike)
    asked = ds.contrast(MEAN, "a", "b")
    plan = planned(ds.stratified("stratum", within=dict.fromkeys(LABELS, ds.srs(n=40))), asked)
    item = plan.items[0]
    assert item.query.encoding.name == "triple"
    parts = np.stack([y**2, 2.0 * y * (1.0 - y), (1.0 - y) ** 2], axis=-1)
    sums = np.stack([(parts * (group == place)[..., None]).sum(axis=1) for place in (0, 1)], axis=1)
    numbers = plan.estimate(item, asked, sums * item.query.steps)
    covered = int(((numbers.low <= truth) & (numbers.high >= truth)).sum())
    assert covered >= binom.ppf(FALSE_ALARM, len(y), 0.95)
    # Power: half of the width would fail this limit where the covariance is as negative as it gets.
    real = numbers.estimate[:, 0].std()
    assert real <= 1.05 * np.sqrt(np.mean(numbers.se_sampling**2))
    if not alike:
        return
    half = 0.25 * (numbers.high - numbers.low)
    assert int((np.abs(numbers.estimate - truth) <= half).sum()) < binom.ppf(FALSE_ALARM, len(y), 0.95)


def test_bounds_of_biases_add_up_in_a_difference():
    """Trimming may lower one mean and raise the other: the interval has both bounds, and then what the errors add in squares."""
    asked = ds.contrast(ds.mean("y", bounds=(0, 1), by="g", trim=12.0), "a", "b")
    plan = planned(collected(weights="w", weights_are="design"), asked.base, asked, weights=(5.0, 20.0))
    item = plan.items[0]
    weights, y = np.full(150, 0.8), np.tile([0.2, 0.4, 0.6], 50)
    triple = np.array([(weights * part).sum() for part in (y**2, 2.0 * y * (1.0 - y), (1.0 - y) ** 2)])
    spread = 0.25 * np.array([(weights**2 * part).sum() for part in (y**2, 2.0 * y * (1.0 - y), (1.0 - y) ** 2)])
    own = np.concatenate([triple, spread])[: item.query.components]
    sums = np.stack([own, own]) * item.query.steps
    one = plan.estimate(item, asked.base, sums)
    apart = plan.estimate(item, asked, sums)
    assert one.bias is not None
    assert apart.bias == pytest.approx([one.bias.sum()])
    statistical = one.estimate - one.low - one.bias, one.high - one.estimate - one.bias
    assert np.all(statistical[0] > 0.0), "no bound is near"
    below = one.bias.sum() + np.hypot(statistical[0][0], statistical[1][1])
    assert apart.estimate - apart.low == pytest.approx([below])
    assert below > np.hypot(one.estimate[0] - one.low[0], one.high[1] - one.estimate[1]) + 0.3 * one.bias.min()


CLUSTERS = collected(psu="psu", weights="w", weights_are="design", psus=40)


def predicted(design, asked, weights=(5.0, 5.0)):
    plan = planned(design, *asked, epsilon=3.0, weights=weights)
    return next(row for row in plan.predictions if row["statistic"] == "contrast"), plan.predictions


def test_a_plan_adds_errors_up_where_only_the_design_effects_of_both_groups_are_declared():
    declared = ds.mean("y", bounds=(0, 1), by="g", deff=3.0)
    row, rows = predicted(CLUSTERS, (declared, ds.contrast(declared, "a", "b")))
    both = [each["se_sampling"] for each in rows if each["statistic"] == "mean"]
    assert row["se_sampling"] == pytest.approx(sum(both))
    assert "added up" in row["rests_on"]
    assert row["se_noise"] == pytest.approx(np.hypot(*(each["se_noise"] for each in rows if each["statistic"] == "mean")))


def test_a_plan_takes_the_design_effect_of_the_difference_where_it_is_declared():
    plain = ds.contrast(MEAN, "a", "b", deff=1.0)
    half = ds.contrast(MEAN, "a", "b", deff=0.25)
    rows = [predicted(CLUSTERS, (each,))[0] for each in (plain, half)]
    assert rows[1]["se_sampling"] == pytest.approx(0.5 * rows[0]["se_sampling"])
    assert "added up" not in rows[1]["rests_on"]
    assert "0.25" in rows[1]["rests_on"]


def test_groups_that_share_no_clusters_or_have_none_are_not_added_up():
    of_strata = ds.mean("y", bounds=(0, 1), by="stratum", deff=3.0)
    design = collected(psu="psu", weights="w", weights_are="design", strata="stratum", psus=20)
    row, rows = predicted(design, (of_strata, ds.contrast(of_strata, "s00", "s01")))
    both = [each["se_sampling"] for each in rows if each["statistic"] == "mean"][:2]
    assert row["se_sampling"] == pytest.approx(np.hypot(*both))
    declared = ds.mean("y", bounds=(0, 1), by="g", deff=3.0)
    row, rows = predicted(collected(weights="w", weights_are="design"), (declared, ds.contrast(declared, "a", "b")), (5.0, 6.0))
    both = [each["se_sampling"] for each in rows if each["statistic"] == "mean"]
    assert row["se_sampling"] == pytest.approx(np.hypot(*both), rel=1e-3)


def test_a_design_effect_of_a_difference_is_written_and_read():
    asked = ds.contrast(MEAN, "a", "b", deff=0.4)
    assert statistic_from_dict(asked.to_dict()) == asked
    assert "deff" not in ds.contrast(MEAN, "a", "b").to_dict()
