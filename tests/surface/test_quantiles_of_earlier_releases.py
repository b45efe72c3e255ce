"""Quantiles that 0.8.0 released are computed again on the grid they were released on."""

import numpy as np
import pandas as pd

import dpsurvey as ds
from dpsurvey.statistic import statistic_from_dict

SETTING = ds.Setting("frame", neighbours="add-remove")


def released(tmp_path, **how):
    chance = np.random.default_rng(3)
    rows = pd.DataFrame({"id": range(400), "hours": np.where(chance.random(400) < 0.3, 0.0, chance.uniform(0, 98, 400))})
    frame = ds.Frame(rows, unit="id", size=400)
    survey = ds.Survey(frame, ds.poisson(0.9), SETTING, budget=ds.Budget(40.0), ledger=str(tmp_path / "b.ledger"))
    return survey.plan(ds.quantile("hours", 0.2, bounds=(0, 98), **how), ds.median("hours", bounds=(0, 98), **how)).release()


def test_a_document_without_atoms_is_read_on_the_grid_of_its_time(tmp_path):
    release = released(tmp_path, atoms=None)
    document = release.to_dict()
    assert all("atoms" not in fields for fields in document["plan"]["statistics"]), "as 0.8.0 wrote it"
    assert ds.Release(document).recompute() == release.estimates
    assert release.plan().items[0].query.encoding.edges[:2] == (0.0, 98 / 256), "leaves of one width, none for 0 alone"


def test_a_document_of_today_says_its_grid_and_gives_the_bound_itself(tmp_path):
    release = released(tmp_path)
    assert all(fields["atoms"] == [] for fields in release.to_dict()["plan"]["statistics"])
    assert release.recompute() == release.estimates
    assert release.plan().items[0].query.encoding.edges[:2] == (0.0, 0.0)
    assert release.estimates[0]["estimate"] == 0.0, "three in ten have exactly 0"


def test_a_statistic_of_a_survey_file_stands_on_the_grid_of_today():
    asked = statistic_from_dict({"kind": "median", "of": "hours", "bounds": [0, 98]})
    assert statistic_from_dict(asked.to_dict()) == asked
    assert asked.atoms == ()  # type: ignore[attr-defined]
