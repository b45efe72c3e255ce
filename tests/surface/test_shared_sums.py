"""What is a margin of finer groups is read from their sums: one charge less, and the same numbers as adding up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds

REGIONS, SEXES = ("a", "b", "c"), ("female", "male")
BY_BOTH = ds.mean("y", bounds=(0, 10), by=("region", "sex"))


def register(size: int = 60_000) -> pd.DataFrame:
    random = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "id": np.arange(size),
            "region": np.array(REGIONS)[np.arange(size) % 3],
            "sex": np.array(SEXES)[(np.arange(size) // 3) % 2],
            "y": random.gamma(2.0, 2.0, size),
            "job": np.where(random.random(size) < 0.6, "yes", "no"),
        }
    )


def survey_of(folder: Path, epsilon: float = 1.0, rate: float = 0.5, **more: Any) -> ds.Survey:
    frame = ds.Frame(register(), "id", 60_000, {"region": REGIONS, "sex": SEXES, "job": ("yes", "no")})
    setting = ds.Setting("sample", given="frame", neighbours="add-remove")
    return ds.Survey(frame, ds.poisson(rate), setting, budget=ds.Budget(epsilon), ledger=folder / "books.ledger", **more)


def test_margins_share_the_charge_of_the_finest_groups(tmp_path: Path) -> None:
    asked = (ds.count("job", "yes", by="region"), ds.proportion("job", "yes", by=("region", "sex")), ds.proportion("job", "yes"))
    plan = survey_of(tmp_path).plan(*asked)
    assert [[each.by for each in item.statistics] for item in plan.items] == [[("region", "sex"), ("region",), ()]]
    alone = [survey_of(tmp_path).plan(each).items[0] for each in asked]
    assert len(plan.items) == 1 < len(alone)
    # All of the budget goes to what is asked once.
    assert plan.items[0].share == 1.0


def test_a_margin_is_what_its_cells_add_up_to(tmp_path: Path) -> None:
    whole = ds.mean("y", bounds=(0, 10))
    release = survey_of(tmp_path, epsilon=3.0).plan(BY_BOTH, whole).release()
    rows = {tuple(row["by"].items()): row for row in release.estimates}
    sums = np.array(release.document["noisy_sums"][0]["sums"], dtype=np.float64)
    assert len(release.document["noisy_sums"]) == 1
    top, middle, bottom = sums.sum(axis=0)
    assert rows[()]["estimate"] == pytest.approx((10.0 * top + 5.0 * middle) / (top + middle + bottom), rel=1e-12)
    # Six noisy cells have six times the noise variance of one, over six times as many units.
    cells = [row["se_noise"] for by, row in rows.items() if by]
    assert rows[()]["se_noise"] == pytest.approx(np.mean(cells) / np.sqrt(6.0), rel=0.05)
    assert release.recompute() == release.document["estimates"]


def test_a_margin_that_would_drown_in_the_noise_of_its_cells_is_asked_apart(tmp_path: Path) -> None:
    whole = ds.mean("y", bounds=(0, 10), expect=(4.0, 0.2))
    plan = survey_of(tmp_path, epsilon=0.2, rate=0.005).plan(BY_BOTH, whole)
    assert len(plan.items) == 2
    assert len(survey_of(tmp_path, epsilon=20.0, rate=0.5).plan(BY_BOTH, ds.mean("y", bounds=(0, 10))).items) == 1


def test_the_demo_is_six_charges(tmp_path: Path) -> None:
    from dpsurvey.survey.demo import demo_statistics, demo_survey

    plan = demo_survey(tmp_path / "register.parquet", tmp_path / "books.ledger").plan(*demo_statistics())
    assert len(plan.items) == 6
    assert sum(len(item.statistics) for item in plan.items) == len(demo_statistics()) == 10


def test_numbers_of_clusters_read_margins_too(tmp_path: Path) -> None:
    rows = register(6_000).assign(psu=lambda each: each["id"] % 60, w=10.0)
    survey = ds.Survey.collected(
        rows,
        psu="psu",
        psus=60,
        weights="w",
        weights_are="design",
        weight_range=(10, 10),
        n=6_000,
        size=60_000,
        categories={"region": REGIONS, "sex": SEXES},
        fixed=["region", "sex"],
        budget=ds.Budget(1e5),
        ledger=tmp_path / "books.ledger",
    )
    release = survey.plan(BY_BOTH, ds.mean("y", bounds=(0, 10), by="sex")).release()
    assert len(release.document["noisy_sums"]) == 1
    assert len(release.document["noisy_sums"][0]["norms"]) == 8
    values = rows.assign(y=rows["y"].clip(0, 10))
    by_sex = {row["by"]["sex"]: row for row in release.estimates if set(row["by"]) == {"sex"}}
    for sex, own in values.groupby("sex"):
        # The classical standard error of a mean of a group, from clusters.
        z = (own["y"] - own["y"].mean()).groupby(own["psu"]).sum()
        expected = np.sqrt(60 / 59 * (z**2).sum()) / len(own)
        assert by_sex[str(sex)]["estimate"] == pytest.approx(own["y"].mean(), rel=1e-4)
        assert by_sex[str(sex)]["se_sampling"] == pytest.approx(expected, rel=0.03)
    assert release.recompute() == release.document["estimates"]
