"""The demo's survey: a register of synthetic people, what is published of them, and the truth behind it.

The register is made from a fixed seed and describes nobody. Because it is synthetic, the truth may be
looked at, which no agency can do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..design import poisson, stratified
from ..design.frame import Frame
from ..privacy import Budget, Setting
from ..statistic import Statistic, count, mean, proportion, total
from ..text.writing import write_file
from .release import Release
from .survey import Progress, Survey

PEOPLE = 1_000_000
SEED = 20260101
REGIONS = {"Alder": 0.26, "Birch": 0.19, "Cedar": 0.15, "Elm": 0.12, "Fir": 0.10, "Hazel": 0.08, "Linden": 0.06, "Maple": 0.04}
AGE_GROUPS = {"0-14": (0, 14), "15-24": (15, 24), "25-44": (25, 44), "45-64": (45, 64), "65+": (65, 104)}
SEXES = ("female", "male")
AREAS_PER_REGION = 125


def region_sizes(people: int = PEOPLE) -> dict[str, int]:
    """The public number of people in each region.

    >>> sum(region_sizes(1_000).values())
    1000
    """
    sizes = {region: round(share * people) for region, share in REGIONS.items()}
    sizes["Alder"] += people - sum(sizes.values())
    return sizes


def make_register(path: str | os.PathLike[str], people: int = PEOPLE) -> Path:
    """Write the register: region, enumeration area, age, sex, employed, hours, income; the same file every time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A fixed seed is right here: this makes public test data, not a secret draw.
    random = np.random.default_rng(SEED)
    sizes = np.array(list(region_sizes(people).values()))
    region = random.permutation(np.repeat(np.arange(len(REGIONS)), sizes))
    area = region * AREAS_PER_REGION + (random.beta(1.2, 2.5, people) * AREAS_PER_REGION).astype(np.int64)
    age = np.minimum(random.gamma(3.1, 13.2, people), 104.0).astype(np.int64)
    woman = random.random(people) < 0.507
    adult = (age >= 15) & (age < 75)
    chance = np.where(adult, 0.74 - 0.00055 * (age - 42.0) ** 2 - 0.06 * woman - 0.02 * region, 0.0)
    employed = random.random(people) < np.clip(chance, 0.0, 0.95)
    full_time = random.random(people) < np.where(woman, 0.58, 0.81)
    hours = np.where(full_time, random.normal(40.0, 5.5, people), random.normal(22.0, 8.0, people))
    hours = np.where(employed, np.clip(np.round(hours), 3, 80), 0.0)
    level = (
        10.15
        + 0.010 * np.minimum(age - 15, 35)
        - 0.05 * region
        - 0.11 * woman
        + random.normal(0.0, 0.12, len(REGIONS) * AREAS_PER_REGION)[area]
    )
    pay = np.exp(level + random.normal(0.0, 0.62, people)) * (0.35 + 0.65 * hours / 40.0)
    benefits = np.where(age >= 18, np.exp(9.3 + random.normal(0.0, 0.75, people)), 0.0)
    income = np.round(np.where(employed, pay, np.where(random.random(people) < 0.12, 0.0, benefits)), 2)
    columns: dict[str, Any] = {
        "person_id": np.arange(people) + 1_000_001,
        "region": pa.array(np.array(list(REGIONS))[region]),
        "area": area,
        "age": age,
        "age_group": pa.array(np.array(list(AGE_GROUPS))[np.searchsorted([15, 25, 45, 65], age, side="right")]),
        "sex": pa.array(np.array(SEXES)[np.where(woman, 0, 1)]),
        "employed": employed,
        "hours": hours,
        "income": income,
    }
    return write_file(path, lambda file: pq.write_table(pa.table(columns), file))


def demo_frame(path: str | os.PathLike[str], people: int = PEOPLE) -> Frame:
    """The frame, with what is public about it."""
    categories: dict[str, Any] = {"region": region_sizes(people), "sex": SEXES, "age_group": tuple(AGE_GROUPS)}
    return Frame(os.fspath(path), unit="person_id", size=people, categories=categories)


def demo_statistics() -> tuple[Statistic, ...]:
    """About sixty numbers: what a labour force survey would publish."""
    money, week = (0.0, 250_000.0), (0.0, 80.0)
    return (
        mean("income", money, by="region"),
        mean("income", money, by="age_group"),
        mean("income", money, by="sex"),
        total("income", money),
        proportion("employed", True, by=("region", "sex")),
        proportion("employed", True),
        count("employed", True, by="region"),
        count(by=("age_group", "sex")),
        total("hours", week, by="region"),
        mean("hours", week),
    )


def demo_survey(
    path: str | os.PathLike[str],
    ledger: str | os.PathLike[str],
    people: int = PEOPLE,
    name: str = "labour force demo",
    progress: Progress | None = None,
) -> Survey:
    """The survey: 2 % of each region by Poisson sampling, epsilon 1 for everyone on the frame."""
    return Survey(
        demo_frame(path, people),
        stratified("region", within=poisson(rate=0.02)),
        Setting(protect="frame", neighbours="add-remove"),
        budget=Budget(epsilon=1.0),
        ledger=ledger,
        name=name,
        progress=progress,
    )


def truth(path: str | os.PathLike[str], release: Release) -> list[float]:
    """The true value behind every number of a release, clipped as the release clips. Only a demo may know it."""
    import duckdb

    source = "'" + os.fspath(path).replace("'", "''") + "'"
    values = []
    bounds = {(each["kind"], each.get("of")): each.get("bounds") for each in release.document["plan"]["statistics"]}
    for row in release.estimates:
        where = " and ".join(f"{column} = '{label}'" for column, label in row["by"].items()) or "true"
        low_high = bounds[(row["statistic"], row["of"])]
        y = (
            f"greatest(least({row['of']}, {low_high[1]}), {low_high[0]})"
            if low_high
            else f"({row['of']} = {row['value']})::int"
            if row["of"]
            else "1"
        )
        verb = "avg" if row["statistic"] in ("mean", "proportion") else "sum"
        found = duckdb.sql(f"select {verb}({y}) from {source} where {where}").fetchall()
        values.append(float(found[0][0]))
    return values
