"""Estimators go by names that say what they do; what 0.8.0 called them is read, asked for once more, and known to ledgers."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.statistic import statistic_from_dict

pytestmark = pytest.mark.quick

# Of a made-up register of 400 persons in two strata: for each name the question, its fingerprint, and the release.
SAVED = json.loads((Path(__file__).parent / "written_by_0_8_0" / "estimators.json").read_text())
MEANS = {"popfree": "pooled", "strnz": "by-stratum", "popnz": "separate-variance"}
NAMES = MEANS | {"popnz-9:1": "separate-variance-9:1"}


def of_strata(folder):
    rows = pd.DataFrame(
        {"id": range(400), "region": ["n"] * 240 + ["s"] * 160, "income": np.linspace(0, 10, 400), "works": ["yes", "no"] * 200}
    )
    return ds.Survey(
        ds.Frame(rows, "id", 400, {"region": {"n": 240, "s": 160}, "works": ["yes", "no"]}),
        ds.stratified("region", within={"n": ds.srs(n=60), "s": ds.srs(n=80)}),
        budget=ds.Budget(50.0),
        ledger=folder / "books.ledger",
        name="strata",
    )


def asked(name):
    """The question under the name that it has now."""
    return {
        "popfree": lambda: ds.mean("income", (0, 10), estimator="pooled"),
        "strnz": lambda: ds.mean("income", (0, 10), estimator="by-stratum"),
        "popnz": lambda: ds.total("income", (0, 10), estimator="separate-variance"),
        "popnz-9:1": lambda: ds.proportion("works", "yes", estimator="separate-variance-9:1"),
    }[name]()


@pytest.mark.parametrize("name", SAVED)
def test_a_release_with_an_old_name_opens_and_its_estimates_are_the_same(name, tmp_path):
    path = tmp_path / "release.json"
    path.write_text(json.dumps(SAVED[name]["release"]))
    with warnings.catch_warnings():
        # Nobody can change what is saved, so nobody is told to.
        warnings.simplefilter("error")
        release = ds.Release.load(path)
        again = release.recompute()
    for now, then in zip(again, release.estimates, strict=True):
        for figure in ("estimate", "se_sampling", "se_noise", "ci_low", "ci_high"):
            assert now[figure] == pytest.approx(then[figure], rel=1e-9)
        assert (now["method"], now["quality"]) == (then["method"], then["quality"])
    assert release.plan().fingerprint == SAVED[name]["fingerprint"]


@pytest.mark.parametrize("name", NAMES)
def test_a_ledger_knows_the_same_question_under_its_new_name(name, tmp_path):
    plan = of_strata(tmp_path).plan(asked(name), share=0.1)
    assert plan.fingerprint == SAVED[name]["fingerprint"]
    assert f'"{NAMES[name]}"' in json.dumps(plan.to_dict())
    assert "recipe" not in json.dumps(plan.to_dict())


@pytest.mark.parametrize("name", NAMES)
def test_a_release_with_each_estimator_is_saved_and_read_again(name, tmp_path):
    release = of_strata(tmp_path).plan(asked(name), share=0.1).release()
    again = ds.Release.load(release.save(tmp_path / "release.json"))
    assert again.recompute() == release.estimates
    cut = release.to_dict()
    cut["noisy_sums"][0]["sums"][0].pop()
    (tmp_path / "cut.json").write_text(json.dumps(cut))
    with pytest.raises(BadValue, match="damaged"):
        ds.Release.load(tmp_path / "cut.json")


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("kind", [ds.mean, ds.total])
def test_an_old_name_is_taken_and_the_new_one_said(kind, name):
    with pytest.warns(DeprecationWarning, match=f"'{name}' is now estimator='{MEANS[name]}'") as caught:
        old = kind("income", (0, 10), recipe=name)
    assert old == kind("income", (0, 10), estimator=MEANS[name])
    assert caught[0].filename == __file__, "the warning points to the call"


def test_the_published_rule_is_taken_by_its_old_name():
    with pytest.warns(DeprecationWarning, match="separate-variance-9:1"):
        old = ds.proportion("works", "yes", recipe="popnz-9:1")
    assert old == asked("popnz-9:1")


def test_leaving_the_choice_to_predicted_errors_needs_no_name():
    with pytest.warns(DeprecationWarning, match="need not be given"):
        assert ds.mean("income", (0, 10), recipe="auto") == ds.mean("income", (0, 10))


def test_a_survey_file_with_an_old_name_means_the_same():
    written = {"kind": "mean", "of": "income", "bounds": [0, 10], "recipe": "strnz"}
    with pytest.warns(DeprecationWarning, match="by-stratum"):
        assert statistic_from_dict(written) == asked("strnz")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back_without_a_warning(name):
    statistic = asked(name)
    assert statistic.to_dict()["estimator"] == NAMES[name]
    assert statistic_from_dict(statistic.to_dict()) == statistic


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: ds.mean("income", (0, 10), estimator="popnz"), "is now 'separate-variance'"),
        (lambda: ds.mean("income", (0, 10), estimator="by-strata"), "did you mean 'by-stratum'"),
        (lambda: ds.mean("income", (0, 10), recipe="popns"), "unknown estimator 'popns'"),
        (lambda: ds.proportion("works", "yes", estimator="pooled"), "unknown estimator 'pooled'"),
        (lambda: ds.mean("income", (0, 10), estimator="pooled", recipe="strnz"), "say two things"),
    ],
)
def test_a_name_that_nothing_has_is_refused(make, hint):
    with pytest.raises(BadValue, match=hint):
        make()
