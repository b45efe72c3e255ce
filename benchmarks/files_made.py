"""Made-up survey files as offices have them: schools in districts, households with replicate weights, very unequal weights.

    python benchmarks/files_made.py FOLDER

writes them as CSV for `benchmarks/files_reference.R`. They are made from a fixed seed by numpy's RandomState, whose stream does
not change between versions, and rounded, so that every machine makes the same numbers: they are not stored. Nobody is in them.

    schools      15 of 757 districts, drawn with equal probability, and all their schools
    acs          2,000 people along a list; weights raked to region and to sex by age; 80 replicates by successive differences
    cps          people in 40 strata of areas; weights raked to sex by age; 160 replicates by successive differences
    bootstrap    20 strata with 3 areas each, sizes unlike; 200 replicates of the rescaling bootstrap
    wide-even    2,000 people with weights from 1 to 50, as many in each equal ratio of weights
    wide-tail    2,000 people with weights from 1 to 50, of which most are small
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

Array = NDArray[Any]
AGES = ("15-24", "25-54", "55+")


def hadamard(prime: int) -> Array:
    """Paley's matrix of order prime + 1, for a prime that is 3 modulo 4: entries 1 and -1, rows orthogonal.

    >>> order = hadamard(79)
    >>> bool((order @ order.T == 80 * np.eye(80)).all())
    True
    """
    squares = {number * number % prime for number in range(1, prime)}
    sign = [0, *(1 if number in squares else -1 for number in range(1, prime))]
    jacobsthal = np.array([[sign[(row - column) % prime] for column in range(prime)] for row in range(prime)])
    made = np.ones((prime + 1, prime + 1), dtype=int)
    made[1:, 1:] = jacobsthal + np.eye(prime, dtype=int)
    made[1:, 0] = -1
    return made


def raked(weights: Array, margins: list[tuple[Array, Array]], rounds: int = 60) -> Array:
    """Weights of one column, or of one column for each replicate, fitted to totals by category in turn.

    A margin is the category of each record, as a whole number, and the total of each category.
    """
    fitted = np.array(weights, dtype=float)
    for _ in range(rounds):
        for category, totals in margins:
            now = np.stack([fitted[category == each].sum(axis=0) for each in range(len(totals))])
            factors = np.reshape(totals, (-1, *[1] * (fitted.ndim - 1))) / now
            fitted = fitted * factors[category]
    return fitted


def successive_differences(position: Array, replicates: int) -> Array:
    """Replicate factors of units along a sorted list: rows of a Hadamard matrix, each unit between two neighbouring rows."""
    paley = hadamard(79)
    matrix = paley if replicates == 80 else np.kron(np.array([[1, 1], [1, -1]]), paley)
    rows = len(matrix) - 1
    here, next_one = 1 + position % rows, 1 + (position + 1) % rows
    return np.asarray(1.0 + 2.0**-1.5 * (matrix[here] - matrix[next_one]))


def columns_of(weights: Array, prefix: str) -> dict[str, Array]:
    """A matrix of replicate weights as columns, of four decimals."""
    return {f"{prefix}{number + 1}": np.round(weights[:, number], 4) for number in range(weights.shape[1])}


def pick(random: np.random.RandomState, shares: Array) -> Array:
    """A category for each row of shares."""
    return np.asarray((random.random_sample(len(shares))[:, None] > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1))


def schools() -> pa.Table:
    """15 districts out of 757, and all of their schools: `api` from 200 to 1000, `enrol`, whether the target was `met`."""
    random = np.random.RandomState(757)
    sizes = np.minimum(1 + random.gamma(0.9, 13.0, 15).astype(int), 45)
    district = np.repeat(np.sort(random.choice(np.arange(1, 758), 15, replace=False)), sizes)
    level = np.repeat(random.normal(0.0, 1.0, 15), sizes)
    n = len(district)
    kind = np.array(["elementary", "middle", "high"])[pick(random, np.tile([0.72, 0.15, 0.13], (n, 1)))]
    api = np.clip(np.round(650 + 75 * level + 85 * random.normal(0.0, 1.0, n)), 300, 960).astype(int)
    enrol = np.clip(np.round(np.exp(6.1 + 0.5 * random.normal(0.0, 1.0, n) + 0.7 * (kind == "high"))), 40, 3500).astype(int)
    met = np.where(random.random_sample(n) < 1 / (1 + np.exp(-0.9 - 0.5 * level)), "yes", "no")
    return pa.table(
        {"district": district, "kind": kind, "weight": np.full(n, 50.4667), "districts": np.full(n, 757)}
        | {"api": api, "enrol": enrol, "met": met}
    )


def people(random: np.random.RandomState, level: Array) -> dict[str, Array]:
    """Sex, age group, and answers of people whose neighbourhood has a level of its own."""
    n = len(level)
    sex = (random.random_sample(n) < 0.51).astype(int)
    age = pick(random, np.tile([0.17, 0.52, 0.31], (n, 1)))
    works = random.random_sample(n) < 1 / (1 + np.exp(-(np.array([-0.2, 1.3, -1.0])[age] + 0.4 * level - 0.2 * sex)))
    hours = np.where(works, np.clip(np.round(38 + 9 * random.normal(0.0, 1.0, n) - 4 * sex), 2, 80), 0).astype(int)
    pay = np.exp(2.6 + 0.5 * random.normal(0.0, 1.0, n) + 0.2 * level)
    wages = np.where(works, np.round(np.minimum(hours * pay, 4_000.0)), 0).astype(int)
    insured = random.random_sample(n) < 1 / (1 + np.exp(-(1.6 + 0.5 * level + 0.4 * (age == 2))))
    yes_no = {"works": np.where(works, "yes", "no"), "insured": np.where(insured, "yes", "no")}
    return {"sex_": sex, "age_": age, "hours": hours, "wages": wages} | yes_no


def answers_of(made: dict[str, Array]) -> dict[str, Array]:
    """The columns that the file has, with the labels of sex and age."""
    labels = {"sex": np.where(made["sex_"] == 1, "female", "male"), "age": np.array(AGES)[made["age_"]]}
    return labels | {name: values for name, values in made.items() if not name.endswith("_")}


def acs() -> pa.Table:
    """People without clusters, along a list of places; final weights and replicates meet region and sex by age."""
    random = np.random.RandomState(80)
    n = 2_000
    place = np.arange(n)
    region = place * 4 // n
    level = np.repeat(random.normal(0.0, 0.7, n // 10), 10) + 0.3 * (region - 1.5)
    made = people(random, level)
    response = np.array([0.45, 0.65, 0.85])[made["age_"]] * np.where(made["sex_"] == 1, 1.05, 0.95)
    base = np.array([180.0, 240.0, 300.0, 420.0])[region] * (0.7 + 0.6 * random.random_sample(n))
    cell = made["age_"] * 2 + made["sex_"]
    population = 560_000
    cells = np.bincount(cell, base / response)
    regions = np.bincount(region, base / response)
    margins = [(region, np.round(population * regions / regions.sum())), (cell, np.round(population * cells / cells.sum()))]
    weights = raked(base, margins)
    replicates = raked(base[:, None] * successive_differences(place, 80), margins)
    names = np.array(["north", "east", "south", "west"])[region]
    return pa.table({"region": names} | answers_of(made) | {"weight": np.round(weights, 4)} | columns_of(replicates, "wgtp"))


def cps() -> pa.Table:
    """People of households in areas, two in each of 40 strata; final weights and replicates meet sex by age."""
    random = np.random.RandomState(160)
    sizes = 14 + random.gamma(3.0, 4.0, 80).astype(int)
    area = np.repeat(np.arange(80), sizes)
    household = np.concatenate([np.repeat(np.arange(1 + size // 2), 2)[:size] for size in sizes])
    stratum = area // 2
    n = len(area)
    level = 0.6 * random.normal(0.0, 1.0, 80)[area] + 0.5 * random.normal(0.0, 1.0, 40)[stratum]
    made = people(random, level)
    base = (600.0 * np.exp(0.5 * random.normal(0.0, 1.0, 40)))[stratum] * (0.8 + 0.4 * random.random_sample(n))
    cell = made["age_"] * 2 + made["sex_"]
    cells = np.array([0.085, 0.083, 0.26, 0.258, 0.146, 0.168])
    margins = [(cell, np.round(1_500_000 * cells / cells.sum()))]
    weights = raked(base, margins)
    replicates = raked(base[:, None] * successive_differences(area, 160), margins)
    design = {"stratum": stratum + 1, "area": area % 2 + 1, "household": household + 1}
    return pa.table(design | answers_of(made) | {"weight": np.round(weights, 4)} | columns_of(replicates, "repwt"))


def bootstrap() -> pa.Table:
    """Three areas of unlike size in each of 20 strata; replicates draw two of the three areas anew, and rescale."""
    random = np.random.RandomState(200)
    sizes = 8 + random.gamma(2.0, 9.0, 60).astype(int)
    area = np.repeat(np.arange(60), sizes)
    stratum = area // 3
    level = 0.7 * random.normal(0.0, 1.0, 60)[area] + 0.6 * random.normal(0.0, 1.0, 20)[stratum]
    made = people(random, level)
    weights = np.round((90.0 * np.exp(0.6 * random.normal(0.0, 1.0, 20)))[stratum], 4)
    drawn = random.randint(0, 3, (20, 2, 200))
    times = np.stack([(drawn == each).sum(axis=1) for each in range(3)], axis=1).reshape(60, 200)
    # Two draws out of three areas: each area that is drawn stands for 3 / 2 of itself.
    replicates = weights[:, None] * (times * 1.5)[area]
    return pa.table(
        {"stratum": stratum + 1, "area": area % 3 + 1} | answers_of(made) | {"weight": weights} | columns_of(replicates, "bsw")
    )


def wide(tail: bool) -> pa.Table:
    """People with weights from 1 to 50, who answer yes and have amounts the more often the heavier they are."""
    random = np.random.RandomState(50 + tail)
    n = 2_000
    weights = np.exp(0.8 * random.normal(0.0, 1.0, n) + 0.6) if tail else 50.0 ** random.random_sample(n)
    weights = np.round(np.clip(weights, 1.0, 50.0), 2)
    # The public extremes are there, so that both kinds have the same declared range.
    weights[:2] = 1.0, 50.0
    level = (np.log(weights) - np.log(weights).mean()) / np.log(weights).std()
    yes = np.where(random.random_sample(n) < 1 / (1 + np.exp(-(-1.0 + 0.4 * level))), "yes", "no")
    amount = np.round(100.0 * random.beta(2.0, 5.0 - level.clip(-2, 2)), 1)
    return pa.table({"weight": weights, "yes": yes, "amount": amount})


MADE: dict[str, Callable[[], pa.Table]] = {
    "schools": schools,
    "acs": acs,
    "cps": cps,
    "bootstrap": bootstrap,
    "wide-even": lambda: wide(tail=False),
    "wide-tail": lambda: wide(tail=True),
}


@cache
def made(name: str) -> pa.Table:
    """A made-up file by its name."""
    return MADE[name]()


def main() -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in MADE:
        csv.write_csv(made(name), folder / f"{name}.csv")


if __name__ == "__main__":
    main()
