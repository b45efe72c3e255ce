"""A noisy mean with a bought variance: both move by no more than their noise was calibrated to, from sums of the engine.

One record is replaced inside its stratum, in every way over small data sets; sums are exact and nothing is random.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.mechanism.base import Norm
from dpsurvey.mechanism.bought_variance import FINE, MeanAndVariance
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.statistic import Statistic
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, NORMS, REGIONS = held.Record, held.NORMS, held.REGIONS
CHARGES = {"L1": PrivacyProfile.pure(1.0, "replace-one"), "L2": PrivacyProfile.zcdp(0.5, "replace-one")}
NOISE = {"L1": "laplace", "L2": "gaussian"}
TAKES = {"north": 3, "south": 2}
DESIGN = ds.stratified("region", within={region: ds.srs(take) for region, take in TAKES.items()})
OWN = {"north": (0.0, 1.0), "south": (-2.0, 3.0)}
STATISTICS: list[Statistic] = [
    ds.mean("y", (0, 1), estimator="separate-variance"),
    ds.total("y", OWN, estimator="separate-variance"),
    ds.proportion("answer", "yes", estimator="separate-variance-9:1"),
]


def answers(statistic: Statistic, region: str) -> list[dict[str, Any]]:
    if statistic.kind == "proportion":
        return [{"answer": answer} for answer in ("yes", "no")]
    low, high = OWN[region] if statistic.kind == "total" else (0.0, 1.0)
    # The ends, a value that no lattice holds, and one outside.
    return [{"y": low + (high - low) * part} for part in (0.0, 1 / 3, 1.0, 1.5)]


def moves(statistic: Statistic, mechanism: MeanAndVariance, query: Any) -> tuple[float, float]:
    """The furthest that exact mean and exact variance, as the noise is added to them, differ between neighbours."""
    places = [region for region in REGIONS for _ in range(TAKES[region])]
    choices = [list(range(len(answers(statistic, region)))) for region in places]
    data = list(itertools.product(*choices))
    worlds = [
        [Record(region=region, **answers(statistic, region)[index]) for region, index in zip(places, each, strict=True)]
        for each in data
    ]
    sums = held.Worlds(worlds).sums(query).reshape(len(data), len(REGIONS), -1)
    # In whole steps, as they are randomized.
    exact = np.array([[int(figure) for figure in mechanism.exact(rows.tolist())] for rows in sums], dtype=np.float64)
    codes = np.array(data)
    apart = (codes[:, None, :] != codes[None, :, :]).sum(axis=-1) == 1
    gaps = np.abs(exact[:, None, :] - exact[None, :, :])[apart]
    return float(gaps[:, 0].max()), float(gaps[:, 1].max())


def calibrated(statistic: Statistic, norm: Norm, design: Design = DESIGN, **more: Any) -> tuple[MeanAndVariance, Any]:
    facts = held.facts_of(design, "replace-one", norm, **more)
    query = statistic.query(facts)
    mechanism = statistic.calibrate(query, CHARGES[norm], facts, MECHANISMS[NOISE[norm]], 0.0)
    assert isinstance(mechanism, MeanAndVariance)
    return mechanism, query


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda each: each.name)
def test_mean_and_variance_move_no_further_than_their_noise_supposes(statistic: Statistic, norm: Norm) -> None:
    mechanism, query = calibrated(statistic, norm)
    of_mean, of_variance = moves(statistic, mechanism, query)
    assert of_mean == max(mechanism.steps) * mechanism.lattice <= mechanism.of_mean.sensitivity
    assert of_variance <= mechanism.of_variance.sensitivity
    # Nearly attained: the rest is for rounding, a part in 2^16.
    assert of_variance >= mechanism.of_variance.sensitivity * (1.0 - 2.0**-15)


def test_half_of_what_the_variance_was_calibrated_to_would_be_too_little() -> None:
    mechanism, query = calibrated(STATISTICS[0], "L1")
    assert moves(STATISTICS[0], mechanism, query)[1] > mechanism.of_variance.sensitivity / 2.0


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_one_of_n_values_moves_their_variance_by_one_nth_and_no_more(n: int) -> None:
    grid = np.linspace(0.0, 1.0, 5)
    rest = np.array(list(itertools.combinations_with_replacement(grid, n - 1)))
    spread = np.stack([np.column_stack([rest, np.full(len(rest), own)]).var(axis=1, ddof=1) for own in grid])
    largest = (spread.max(axis=0) - spread.min(axis=0)).max()
    assert largest == pytest.approx(1.0 / n, abs=1e-12)


def test_rounding_on_the_lattice_stays_within_what_the_variance_allows_for_it() -> None:
    """Strata of two to forty records of values that round badly: the excess over 1/n is within a part in 2^16."""
    random, worst = np.random.default_rng(5), 0.0
    for take in (2, 3, 10, 40):
        design = ds.stratified("region", within={"north": ds.srs(take), "south": ds.srs(2)})
        mechanism, query = calibrated(STATISTICS[0], "L1", design)
        others = [Record(region="south", y=0.5)] * 2
        ends = [[Record(y=float(y)) for y in random.choice([0.0, 1.0, 1e-7, 1 - 1e-7, 4e-7], take - 1)] for _ in range(20)]
        worlds = [[*rest, Record(y=own), *others] for rest in ends for own in (0.0, 1.0, 4.7e-7, 1 - 4.7e-7)]
        sums = held.Worlds(worlds).sums(query).reshape(20, 4, 2, -1)
        exact = np.array([[mechanism.exact(rows.tolist())[1] for rows in four] for four in sums])
        worst = max(worst, float((exact.max(axis=1) - exact.min(axis=1)).max()))
    assert FINE * (1.0 - 1e-3) < worst <= FINE * (1.0 + 2.0**-16)


@pytest.mark.parametrize("statistic", [STATISTICS[0], STATISTICS[2]], ids=lambda each: each.name)
def test_answers_copied_from_donors_are_paid_for_or_refused(statistic: Statistic) -> None:
    """A donor and the two records that copied its answer change together."""
    design = collected(strata="region", n={"north": 6, "south": 6}, imputed="donors", donor_uses=2)
    facts = held.facts_of(design, "replace-one", "L1", reach=design.reach)
    try:
        query = statistic.query(facts)
        mechanism = statistic.calibrate(query, CHARGES["L1"], facts, Laplace, 0.0)
    except ds.SurveyError:
        return
    assert isinstance(mechanism, MeanAndVariance)
    rest = [Record(region=region, y=0.0, answer="no") for region in REGIONS for _ in range(3 if region == "north" else 6)]
    copied = [[*rest, *[Record(y=y, answer=answer)] * 3] for y, answer in ((0.0, "no"), (1.0, "yes"))]
    before, after = (mechanism.exact(rows.reshape(2, -1).tolist()) for rows in held.Worlds(copied).sums(query))
    assert abs(after[0] - before[0]) <= mechanism.of_mean.sensitivity
    assert abs(after[1] - before[1]) <= mechanism.of_variance.sensitivity
