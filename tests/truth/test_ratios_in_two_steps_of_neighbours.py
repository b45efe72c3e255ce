"""A ratio in two steps: the sums, and the residuals at every centre, move by no more than their noise was calibrated to.

Sums are the engine's, of small data sets that differ by one record in every way; they are exact and nothing is random. Each
group has a centre, and noise, of its own, so what a record moves is added up over groups, each in units of its noise.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.design.collected import CollectedFile
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.mechanism.base import Norm
from dpsurvey.mechanism.centred_ratio import FIRST_STEP, MOST_CENTRE, PARTS, ROUNDING, CentredRatio, Change, residuals_at
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.relation import Relation
from dpsurvey.statistic.query import Query
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, NORMS = held.Record, held.NORMS
NOISE = {"L1": "laplace", "L2": "gaussian"}
VALUES = (0.0, 0.3, 1.0, 1.7)
UNLIKE = ds.stratified("region", within={"north": ds.srs(7), "south": ds.srs(13)})
# How a record may change: the design, the relation, and the groups.
WAYS: dict[str, tuple[Design, Relation, str | None, Change]] = {
    "in place": (ds.srs(3), Relation.REPLACE_ONE, None, Change.IN_PLACE),
    "in place, unlike weights": (UNLIKE, Relation.REPLACE_ONE, None, Change.IN_PLACE),
    "in place, by stratum": (UNLIKE, Relation.REPLACE_ONE, "region", Change.IN_PLACE),
    "in place, weights of their own": (collected(weights="w", weights_are="design"), Relation.REPLACE_ONE, None, Change.IN_PLACE),
    "in place, groups held fixed": (collected(weights="w", weights_are="design"), Relation.REPLACE_ONE, "sex", Change.IN_PLACE),
    "to another group and weight": (collected(weights="w", weights_are="design"), Relation.REPLACE_ONE, "sex", Change.MOVES),
    "to another group": (ds.srs(3), Relation.REPLACE_ONE, "sex", Change.MOVES),
    "to another group, unlike weights": (UNLIKE, Relation.REPLACE_ONE, "sex", Change.MOVES),
    "comes or goes": (ds.poisson(0.3), Relation.ADD_REMOVE, None, Change.COMES_OR_GOES),
    "comes or goes, by group": (ds.poisson(0.3), Relation.ADD_REMOVE, "sex", Change.COMES_OR_GOES),
}
CENTRES = (0.0, 0.21, 0.5, 0.83, 1.0, 1.6, 7.0, 1024.0)


def calibrated(way: str, norm: Norm, missing: str | None = None) -> tuple[CentredRatio, Query]:
    design, relation, by, _ = WAYS[way]
    in_place = WAYS[way][3] is Change.IN_PLACE
    stays = {"weights_stay": in_place, "held": ("sex",) if in_place else (), "weight_range": (2.0, 10.0)}
    facts = held.facts_of(design, relation, norm, **(stays if isinstance(design, CollectedFile) else {}))
    statistic = ds.ratio("y", "x", (0, 1), (0, 1), by=by, estimator="centred", missing=missing)
    query = statistic.query(facts)
    make = PrivacyProfile.pure if norm == "L1" else PrivacyProfile.zcdp
    mechanism = statistic.calibrate(query, make(1.0, relation), facts, MECHANISMS[NOISE[norm]], 0.0)
    assert isinstance(mechanism, CentredRatio)
    return mechanism, query


@cache
def records(way: str) -> list[held.Record]:
    by = WAYS[way][2]
    places: list[dict[str, Any]] = [{"region": region} for region in held.REGIONS]
    places = places if by != "sex" else [{**each, "sex": sex} for each in places for sex in held.SEXES]
    if isinstance(WAYS[way][0], CollectedFile):
        places = [{**each, "weight": weight} for each in places if each["region"] == "north" for weight in (2.0, 10.0)]
    return [Record(y=y, x=x, **place) for place in places for y, x in itertools.product(VALUES, VALUES)]


def neighbours(way: str, query: Query) -> tuple[np.ndarray, np.ndarray]:
    """The sums of pairs of neighbouring data sets, (pairs, groups, components) each."""
    own, base = records(way), [Record(y=0.7, x=0.4), Record(y=0.1, x=0.9, region="south", sex="male")]
    change = WAYS[way][3]
    worlds = held.Worlds([base, *([*base, each] for each in own)])
    sums = worlds.sums(query).reshape(len(own) + 1, len(query.groups), query.components)
    if change is Change.COMES_OR_GOES:
        return np.broadcast_to(sums[:1], sums[1:].shape), sums[1:]
    # In place the record keeps its stratum; else it may be any other, but for its stratum where that is fixed.
    fixed = WAYS[way][0] is UNLIKE or change is Change.IN_PLACE

    def kept(each: held.Record) -> tuple[str | float, ...]:
        """What a neighbour has in common."""
        return (each.region, *((each.sex, each.weight) if isinstance(WAYS[way][0], CollectedFile) else ())) if fixed else ()

    kin = [(i, j) for i, j in itertools.combinations(range(len(own)), 2) if kept(own[i]) == kept(own[j])]
    one, two = np.array(kin).T
    return sums[1:][one], sums[1:][two]


def of_noise(gaps: np.ndarray, sensitivities: np.ndarray, norm: Norm) -> np.ndarray:
    """How much of the charge each pair of data sets spends, (pairs, groups, figures): 1 is all of it."""
    parts = gaps / sensitivities[:, None]
    return np.asarray(np.abs(parts).sum(axis=(1, 2)) if norm == "L1" else (parts**2).sum(axis=(1, 2)))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("way", WAYS)
def test_no_neighbour_spends_more_than_either_step_is_charged(way: str, norm: Norm) -> None:
    mechanism, query = calibrated(way, norm)
    assert mechanism.change is WAYS[way][3]
    one, two = neighbours(way, query)
    both = of_noise((one - two)[..., :2], np.full(len(query.groups), mechanism.sensitivity), norm)
    assert 0.999 < both.max() <= 1.0
    for centres in itertools.product(CENTRES, repeat=len(query.groups)):
        parts = [round(each * PARTS) for each in centres]
        sensitivities = np.array([mechanism.of_residuals(each).sensitivity for each in parts])
        made = [
            np.array([[mechanism.residuals(at).sums(row.tolist()) for at, row in zip(parts, rows, strict=True)] for rows in each])
            for each in (one, two)
        ]
        spent = of_noise(made[0].astype(float) - made[1].astype(float), sensitivities, norm)
        assert spent.max() <= 1.0, centres
        if norm == "L1":
            # Attained but for rounding: less noise would be too little.
            assert spent.max() > 0.99, centres


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("way", [way for way in WAYS if not isinstance(WAYS[way][0], CollectedFile)])
def test_a_record_of_small_weight_spends_no_more_than_its_part(way: str, norm: Norm) -> None:
    design, relation, by, change = WAYS[way]
    unlike = ds.stratified("region", within={"north": ds.poisson(0.8), "south": ds.poisson(0.02)})
    if relation == "replace-one" and design is not UNLIKE and change is not Change.IN_PLACE:
        unlike = ds.stratified("region", within={"north": ds.srs(48), "south": ds.srs(1)})
    facts = held.facts_of(unlike if change is not Change.IN_PLACE else design, relation, norm)
    statistic = ds.ratio("y", "x", (0, 1), (0, 1), by=by, estimator="centred")
    query = statistic.query(facts)
    make = PrivacyProfile.pure if norm == "L1" else PrivacyProfile.zcdp
    mechanism = statistic.calibrate(query, make(1.0, relation), facts, MECHANISMS[NOISE[norm]], 0.0)
    assert isinstance(mechanism, CentredRatio)
    steps = dict(query.lattice).get("north", query.steps)
    part = mechanism.part(steps)
    own = [each for each in records(way) if each.region == "north"]
    sums = held.Worlds([[], *([each] for each in own)]).sums(query).reshape(len(own) + 1, len(query.groups), -1)
    pairs = [(0, i + 1) for i in range(len(own))] if change is Change.COMES_OR_GOES else []
    pairs = pairs or [(i + 1, j + 1) for i, j in itertools.combinations(range(len(own)), 2)]
    one, two = (sums[list(each)] for each in zip(*pairs, strict=True))
    whole = part if norm == "L1" else part**2
    both = of_noise((one - two)[..., :2], np.full(len(query.groups), mechanism.sensitivity), norm)
    assert both.max() <= whole
    for centre in CENTRES:
        at = round(centre * PARTS)
        made = [np.array([[mechanism.residuals(at).sums(row.tolist()) for row in rows] for rows in each]) for each in (one, two)]
        sensitivities = np.full(len(query.groups), mechanism.of_residuals(at).sensitivity)
        assert of_noise(made[0].astype(float) - made[1].astype(float), sensitivities, norm).max() <= whole


@pytest.mark.parametrize("change", Change)
@pytest.mark.parametrize("norm", NORMS)
def test_rounding_adds_less_than_is_said_at_any_centre(norm: Norm, change: Change) -> None:
    random = np.random.default_rng(4)
    for r in [0.0, 1.0, float(MOST_CENTRE), *random.random(300), *np.exp(random.uniform(0.0, np.log(MOST_CENTRE), 300))]:
        found = residuals_at(min(round(r * PARTS), MOST_CENTRE * PARTS), norm, change)
        assert found.slack < ROUNDING
        assert found.one >= 0.5


@pytest.mark.parametrize("norm", NORMS)
def test_a_record_that_leaves_an_answer_out_spends_no_more(norm: Norm) -> None:
    mechanism, query = calibrated("in place", norm, missing="drop")
    assert mechanism.change is Change.MOVES
    rows = [Record(y=y, x=x) for y, x in itertools.product(VALUES, VALUES)] + [Record(y=None, x=0.5)]
    sums = held.Worlds([[Record(y=0.7, x=0.4), each] for each in rows]).sums(query).reshape(len(rows), 1, -1)
    for centre in CENTRES:
        parts = round(centre * PARTS)
        made = np.array([[mechanism.residuals(parts).sums(each[0].tolist())] for each in sums]).astype(float)
        gaps = (made[:, None] - made[None, :]).reshape(-1, 1, 2)
        assert of_noise(gaps, np.array([mechanism.of_residuals(parts).sensitivity]), norm).max() <= 1.0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("change", Change)
def test_what_a_record_moves_is_the_largest_over_a_fine_grid(change: Change, norm: Norm) -> None:
    """The formulas of the proof, at centres from 0 to the largest, with nothing rounded; and rounding stays below its share."""
    random = np.random.default_rng(3)
    for r in [0.0, 0.41, 0.42, 1.0, *random.random(20), *(1.0 / random.random(20)), float(MOST_CENTRE)]:
        found = residuals_at(min(round(r * PARTS), MOST_CENTRE * PARTS), norm, change)
        e = np.unique(np.concatenate([np.linspace(-found.centre, 1.0, 801), np.linspace(-1.0, 1.0, 801)]))
        e = e[e >= -found.centre]
        figures = np.stack([e, found.c * e * (found.a - e)], axis=-1) / (1.0 + found.centre)

        def size(moved: np.ndarray) -> float:
            return float((np.abs(moved).sum(axis=-1) if norm == "L1" else np.sqrt((moved**2).sum(axis=-1))).max())

        apart, alone = size(figures[:, None] - figures[None, :]), size(figures)
        twice = alone * (2.0 if norm == "L1" else np.sqrt(2.0))
        most = {Change.IN_PLACE: apart, Change.COMES_OR_GOES: alone, Change.MOVES: max(apart, twice)}[change]
        assert most <= found.one * (1.0 + 1e-9)
        assert most >= found.one * (1.0 - 1e-4)
        # What is said of a unit with a smaller weight adds 40 steps to both figures of two records: more than rounding ever does.
        assert found.slack / found.one <= 40.0 / (2.0 if norm == "L1" else np.sqrt(2.0))


def test_rounding_on_a_coarse_lattice_stays_within_what_is_charged_for_it() -> None:
    """Sums rounded to thirds and finer: the excess over what whole records move is within the slack, and not nothing."""
    excess = []
    for steps, r in itertools.product((3, 7, 16, 64), (0.0, 0.3, 1.0, 2.5)):
        found = residuals_at(round(r * PARTS), "L1", Change.IN_PLACE)
        y, x = (each.ravel() for each in np.meshgrid(np.linspace(0.0, 1.0, 21), np.linspace(0.0, 1.0, 21)))
        rows = np.floor(steps * np.stack([y, x, y * (1 - y), x * (1 - x), (y - x) ** 2], axis=-1) + 0.5)
        base = np.array([40 * steps, 50 * steps, 7 * steps, 8 * steps, 9 * steps])
        made = np.array([found.sums([int(each) for each in base + row]) for row in rows]).astype(float)
        most = np.abs(made[:, None] - made[None, :]).sum(axis=-1).max()
        assert most <= steps * found.one + found.slack
        excess.append(most - steps * found.one)
    assert max(excess) > 0.3


def test_both_steps_together_are_what_was_charged() -> None:
    for norm in NORMS:
        mechanism, _ = calibrated("in place", norm)
        own = [each.profile(Relation.REPLACE_ONE) for each in (mechanism.of_sums, mechanism.of_residuals(PARTS // 3))]
        spent = [each.epsilon(0.0) if norm == "L1" else each.curve.rho for each in own]  # type: ignore[attr-defined]
        assert sum(spent) <= 1.0
        assert spent == pytest.approx([FIRST_STEP, 1.0 - FIRST_STEP], rel=1e-6)
