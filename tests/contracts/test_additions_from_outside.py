"""A design, a statistic and a mechanism that are no part of the package do whatever its own do."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS
from dpsurvey.mechanism import MECHANISMS, Laplace
from dpsurvey.statistic import STATISTICS
from dpsurvey.statistic.encodings import ENCODINGS
from dpsurvey.survey.starter import starter_file
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file
from dpsurvey.view.design_plots import compare_plot
from dpsurvey.view.planning_plots import designs_rate_picture
from dpsurvey.view.plots import to_svg
from tests.contracts import contracts

pytestmark = pytest.mark.quick

HERE = Path(__file__).parent
LISTS: tuple[dict[str, Any], ...] = (DESIGNS, STATISTICS, MECHANISMS, ENCODINGS)
SIZE, FLIPS = 4000, 2


@pytest.fixture
def toys():
    """The toys, on the lists for one test."""
    before = [dict(each) for each in LISTS]
    yield SimpleNamespace(**runpy.run_path(str(HERE / "toys.py")))
    for each, kept in zip(LISTS, before, strict=True):
        each.clear()
        each.update(kept)


@pytest.fixture
def survey(toys, tmp_path):
    random = np.random.default_rng(5)
    rows = {"id": range(SIZE), "income": random.uniform(0.0, 100.0, SIZE), "sex": random.choice(["f", "m"], SIZE)}
    pq.write_table(pa.table(rows), tmp_path / "register.parquet")
    frame = ds.Frame(tmp_path / "register.parquet", unit="id", size=SIZE, categories={"sex": ["f", "m"]})
    design, setting = toys.coin_flips(FLIPS), ds.Setting("frame", neighbours="add-remove")
    return ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger=tmp_path / "books.ledger", name="toys")


def test_the_lists_are_as_before_when_the_toys_are_gone():
    assert not {"coin-flips", "mean square", "cautious", "squares"} & set().union(*LISTS)


def test_the_toys_keep_the_contracts_of_everything_on_the_lists(toys):
    assert contracts.check_design(toys.coin_flips(3)) > 0
    query = contracts.check_statistic(toys.mean_square("income", 100.0, by="sex"), contracts.facts_of(toys.coin_flips(1)))
    assert query.encoding.name == "squares"
    contracts.check_mechanism(toys.Cautious)


def test_a_loss_that_is_too_small_breaks_the_contract(toys):
    class Boastful(toys.CoinFlips):  # type: ignore[name-defined]
        def bound(self, losses, neighbours):
            found = super().bound(losses, neighbours)
            return found if isinstance(found, ds.design.Refused) else SimpleNamespace(**vars(found) | {"upper": found.upper / 2})

    with pytest.raises(AssertionError):
        contracts.check_design(Boastful(2))


def test_a_sensitivity_that_is_too_small_breaks_the_contract(toys):
    record = toys.Squares.record
    toys.Squares.record = lambda self, row: [part + part for part in record(self, row)]
    with pytest.raises(AssertionError):
        contracts.check_statistic(toys.mean_square("income", 100.0), contracts.facts_of(toys.coin_flips(1)))


def test_noise_that_is_too_small_breaks_the_contract(toys):
    class Careless(toys.Cautious):  # type: ignore[name-defined]
        kind = "cautious"

        @classmethod
        def calibrate(cls, charge, sensitivity):
            return cls(0.5 * sensitivity / contracts.amount(charge), sensitivity)

    MECHANISMS["cautious"] = Careless
    with pytest.raises(AssertionError):
        contracts.check_mechanism(Careless)


def test_noise_of_another_package_is_chosen_where_it_is_smaller_and_only_there(survey, toys):
    asked = ds.mean("income", (0, 100))
    assert survey.plan(asked).noise_class is Laplace

    class Quiet(Laplace):
        """Half of the noise that the charge asks for: no mechanism to release with."""

        kind = "quiet"

        @classmethod
        def calibrate(cls, charge, sensitivity):
            return cls(0.5 * sensitivity / contracts.amount(charge), sensitivity)

    MECHANISMS["quiet"] = Quiet
    assert survey.plan(asked).noise_class is Quiet


def test_a_survey_plans_draws_releases_reports_saves_and_reloads_with_the_toys(survey, toys, tmp_path):
    asked = (toys.mean_square("income", 100.0), toys.mean_square("income", 100.0, by="sex"), ds.mean("income", (0, 100)))
    plan = survey.plan(*asked, noise="cautious")
    assert {item.mechanism.kind for item in plan.items} == {"cautious"}
    assert all(row["se"] > 0.0 for row in plan.predictions)
    assert plan.terms.amplification.profile.epsilon(0.0) == pytest.approx(1.0)
    release = plan.release()
    true = 100.0**2 / 3.0
    rows = [row for row in release.estimates if row["statistic"] == "mean square"]
    assert len(rows) == 3
    # The interval misses with probability 0.05; ten times as wide with much less than a millionth.
    assert all(abs(row["estimate"] - true) < 10.0 * row["se"] < true for row in rows)
    assert "mean square" in str(plan)
    assert "mean square" in release.to_csv()
    page = release.save(tmp_path / "release.html").read_text()
    assert "each unit that shows heads in 2 flips" in page
    assert "mean square" in page
    saved = ds.Release.load(release.save(tmp_path / "release.json"))
    assert saved.document == release.document
    assert saved.plan().statistics == asked
    assert saved.recompute() == release.estimates
    assert ds.verify_ledger(tmp_path / "books.ledger", against=[tmp_path / "release.json"]).ok
    assert {sums["encoding"] for sums in saved.document["noisy_sums"]} >= {"squares"}


def test_the_same_noise_is_smaller_without_the_toy(survey, toys):
    loud, usual = (survey.plan(toys.mean_square("income", 100.0), noise=noise) for noise in ("cautious", "laplace"))
    assert loud.predictions[0]["se_noise"] == pytest.approx(2.0 * usual.predictions[0]["se_noise"], rel=1e-3)


def test_a_survey_file_writes_and_reads_the_toys(survey, toys, tmp_path):
    plan = survey.plan(toys.mean_square("income", 100.0, by="sex"), noise="cautious")
    path = tmp_path / "survey.toml"
    write_survey_file(path, survey, plan)
    file = SurveyFile.read(path)
    again = file.plan(file.survey())
    assert again.terms.design == survey.terms.design
    assert (again.statistics, again.noise) == (plan.statistics, "cautious")


@pytest.mark.parametrize("collected", [False, True], ids=["frame", "collected"])
def test_a_new_survey_file_names_the_toys(toys, tmp_path, collected):
    text = starter_file(tmp_path / "survey.toml", None, collected=collected)
    if collected:
        assert '#kind = "mean_square"\n#of = "income"\n#most = 100\n' in text
    else:
        assert re.search(r"^#   coin-flips +flips$", text, re.M)
        assert re.search(r"^#   mean_square +of, most$", text, re.M)


def test_comparisons_of_designs_show_the_toy(survey, toys):
    at_rate = {row["kind"]: row for row in ds.planning.designs_by_rate(1.0, rates=[0.25]) if row["base"] == "add-remove"}
    assert at_rate["coin-flips"]["epsilon"] == at_rate["poisson"]["epsilon"]
    assert at_rate["coin-flips"]["se"] == at_rate["poisson"]["se"] > 0.0
    assert "coin flips" in to_svg(designs_rate_picture(list(at_rate.values()), 1.0))
    assert "coin flips" in to_svg(compare_plot(list(at_rate.values()), 0.25, 1.0))
    rows = ds.planning.compare_designs(survey.plan(ds.mean("income", (0, 100))))
    in_plan = {row["design"]: row for row in rows if row["statistic"] == "mean"}
    assert in_plan["coin flips"]["epsilon_in_sample"] == in_plan["Poisson"]["epsilon_in_sample"] > 1.0
    assert in_plan["coin flips"]["ratio"] == pytest.approx(in_plan["Poisson"]["ratio"])


def test_amplify_knows_the_design_and_what_wraps_it(toys):
    def loss(design):
        return ds.amplify(design, 1.0, base="add-remove", neighbours="add-remove").epsilon

    assert loss(toys.coin_flips(2)) == pytest.approx(loss(ds.poisson(0.25)))
    assert loss(ds.group(toys.coin_flips(2), units=2)) == pytest.approx(loss(ds.group(ds.poisson(0.25), units=2)))
    assert loss(ds.covered(toys.coin_flips(2), at_most=0.5)) == pytest.approx(loss(ds.covered(ds.poisson(0.25), at_most=0.5)))


def test_the_command_line_of_a_process_that_knows_the_design_amplifies_it():
    run = f"import runpy; runpy.run_path({str(HERE / 'toys.py')!r}); from dpsurvey.cli.app import main; main()"
    command = [sys.executable, "-c", run, "amplify", "coin-flips", "--flips", "2", "--epsilon", "1", "--base", "add-remove"]
    found = subprocess.run(
        [*command, "--neighbours", "add-remove", "--json"], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert json.loads(found.stdout)["epsilon"] == pytest.approx(0.3572, abs=1e-3)
