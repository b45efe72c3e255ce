"""Answers replaced in their place: no neighbour moves the sums of weighted records further than one record counts, by the engine.

Records of every weight and chance stand beside every answer; a neighbour has other answers for one of them, and the same
weight, chance, stratum and held group. Where any of these may change too, that figure is exceeded, and another one is stated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.design.base import Design
from dpsurvey.errors import BadValue, NoGuarantee
from dpsurvey.ledger.other_settings import Implied, Unseen, implied
from dpsurvey.mechanism.base import Norm
from dpsurvey.privacy.relation import Relation, Restriction
from dpsurvey.statistic import Query, Statistic
from dpsurvey.statistic.encodings import GOLDEN, Encoding, FreeSpread
from dpsurvey.statistic.in_place import InPlace
from tests.truth import neighbouring as held

pytestmark = pytest.mark.quick

Record, NORMS = held.Record, held.NORMS
FILE, PLAIN, UNEQUAL = (
    collected(weights="weight", weights_are="design", fixed=("sex",)),
    collected(),
    ds.poisson_by("rate", at_most=0.5),
)
VALUES = (0.0, 1 / 3, 0.5, 1 / GOLDEN, 1 - 1 / GOLDEN, 1.0, -4.0, 9.0)
# Weights of whole and of part, the golden parts where L2 is attained, and one beyond the largest.
WEIGHTS = ((2.0, 0.5), (3.3, 0.3), (10.0 / GOLDEN, 0.1), (9.0, 0.0), (10.0, 0.0), (12.0, 0.7))


@dataclass(frozen=True)
class Case:
    """A statistic of records that stay in their place, and where its values are measured from."""

    statistic: Statistic
    design: Design = FILE
    options: dict[str, Any] = field(default_factory=dict)

    def query(self, norm: Norm) -> Query:
        facts: dict[str, Any] = {"weights_stay": True, "held": ("sex",), "weight_range": (2.0, 10.0)}
        return self.statistic.query(held.facts_of(self.design, Relation.REPLACE_ONE, norm, **facts | self.options))


CASES = [
    Case(ds.mean("y", (0, 1))),
    Case(ds.mean("y", (0, 1), expect=(0.1, 0.2))),
    Case(ds.mean("y", (0, 1), by="sex")),
    Case(ds.mean("y", (0, 1), where={"sex": "male"})),
    Case(ds.mean("y", (0, 1), trim=5.0)),
    Case(ds.mean("y", (0, 1), shrink=0.5)),
    Case(ds.mean("y", (0, 1)), UNEQUAL),
    Case(ds.mean("y", (0, 1)), PLAIN),
    Case(ds.mean("y", {"female": (0, 1), "male": (-4, 9)}, by="sex")),
    Case(ds.total("y", (-1, 9), by="sex", where={"answer": "yes"})),
    Case(ds.total("y", (2, 9), missing="drop")),
    Case(ds.proportion("answer", "yes")),
    Case(ds.proportion("answer", "yes", expect=0.05, by="sex"), UNEQUAL),
    Case(ds.proportion("answer", "yes", missing="no"), PLAIN),
    Case(ds.count("answer", "yes", by="sex", where={"y": (0.2, 0.8)})),
]


def same_place(one: held.Record, two: held.Record) -> bool:
    """Answers are replaced; stratum, weight, chance and the held group are those of the unit."""
    return held.same_place(one, two) and one.sex == two.sex


@cache
def around(missing: bool) -> held.Around:
    records = [
        Record(sex=sex, y=y, answer=answer, weight=weight, pi=pi)
        for sex in held.SEXES
        for weight, pi in WEIGHTS
        for y in VALUES
        for answer in ("yes", "no")
    ]
    # A missing answer is one answer among others where a rule stands for it.
    records += [Record(sex=sex, y=None, answer=None, weight=10.0) for sex in held.SEXES] if missing else []
    return held.Around(records, [[], [Record(weight=3.0, pi=0.2), Record(sex="male", y=1.0, weight=10.0, answer="no")]])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.statistic.name}, {case.design.kind}")
def test_no_answer_moves_sums_in_place_further_than_its_record_counts_and_some_answers_move_as_far(
    case: Case, norm: Norm
) -> None:
    query = case.query(norm)
    assert isinstance(query.encoding, InPlace)
    stated = query.sensitivity(Relation.REPLACE_ONE, norm)
    _, moved = around(query.fill is not None or bool(query.dropped)).moves(query, norm, same_place)
    # The heaviest record, from one end to the other: but for the three steps of rounding, that is what is charged.
    assert query.steps - 3 <= moved <= stated <= query.steps * (1.0 + 1e-9) + 3


@pytest.mark.parametrize("norm", NORMS)
def test_a_record_in_another_place_would_move_them_further(norm: Norm) -> None:
    """Power: what is charged is not enough where weights or groups may change with the answers."""
    for case in (CASES[0], CASES[2], CASES[11]):
        query = case.query(norm)
        _, moved = around(False).moves(query, norm)
        assert moved > 1.2 * query.sensitivity(Relation.REPLACE_ONE, norm)
        # Where nothing is held fixed, nothing of this kind is asked.
        free = Case(case.statistic, case.design, {"weights_stay": False}).query(norm)
        assert not isinstance(free.encoding, InPlace)
        assert around(False).moves(free, norm)[1] <= free.sensitivity(Relation.REPLACE_ONE, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", list(held.RELATIONS))
@pytest.mark.parametrize("case", CASES[:1] + CASES[11:12], ids=["measured", "counted"])
def test_what_the_encoding_states_of_records_that_come_and_go_holds_too(case: Case, relation: Relation, norm: Norm) -> None:
    query = replace(case.query(norm), group_is_fixed=False)
    added, replaced = around(False).moves(query, norm)
    assert (added if relation == Relation.ADD_REMOVE else replaced) <= query.sensitivity(relation, norm)


def _largest(scale: float, norm: Norm) -> float:
    """The largest distance of (u y, s u(1-u) y, s u^2 y(1-y)) between two values of a grid, over all u."""
    grid = np.concatenate([np.linspace(0.0, 1.0, 101), [1 / GOLDEN, 1 - 1 / GOLDEN]])
    u, y, other = np.meshgrid(grid, grid, grid, indexing="ij", sparse=True)
    parts = u * (y - other), scale * u * (1 - u) * (y - other), scale * u**2 * (y * (1 - y) - other * (1 - other))
    return float(sum(abs(part) for part in parts).max() if norm == "L1" else np.sqrt(sum(part**2 for part in parts).max()))


def test_squared_weights_are_free_in_both_norms_and_not_at_any_larger_scale() -> None:
    assert _largest(1.0, "L1") == pytest.approx(1.0, abs=1e-12)
    assert _largest(1.1, "L1") > 1.0 + 1e-3
    assert _largest(GOLDEN**2.5, "L2") == pytest.approx(1.0, abs=1e-12)
    assert _largest(GOLDEN**2.5 * 1.001, "L2") > 1.0 + 1e-4


@pytest.mark.parametrize("norm", NORMS)
def test_rounding_to_a_coarse_lattice_is_paid_for(norm: Norm) -> None:
    random = np.random.default_rng(7)
    records = [
        Record(y=float(y), weight=float(weight), pi=float(pi))
        for weight, pi in zip(random.uniform(0.1, 10.0, 12), random.random(12), strict=True)
        for y in np.concatenate([random.random(12), [0.0, 1.0]])
    ]
    near, base = held.Around(records, [[]]), CASES[6].query(norm)
    assert base.weights is not None
    excess = []
    for steps in (1, 2, 3, 7, 64, 1000):
        for encoding in (InPlace.under(_facts(norm), 0.37), FreeSpread.under(norm)):
            query = replace(base, encoding=encoding, weights=replace(base.weights, steps=steps))
            relation = Relation.REPLACE_ONE if isinstance(encoding, InPlace) else Relation.ADD_REMOVE
            added, replaced = near.moves(query, norm, held.same_place)
            moved = replaced if relation == Relation.REPLACE_ONE else added
            assert moved <= query.sensitivity(relation, norm)
            excess.append(moved - steps)
    # The steps that are paid for rounding are not idle: without them some lattice would break the bound.
    assert max(excess) > 0.2


def _facts(norm: Norm) -> Any:
    return held.facts_of(UNEQUAL, Relation.REPLACE_ONE, norm, weight_range=(2.0, 10.0))


@pytest.mark.parametrize("norm", NORMS)
def test_a_triple_of_squared_weights_is_free_of_records_that_come_and_go(norm: Norm) -> None:
    encoding: Encoding = FreeSpread.under(norm)
    query = Case(ds.mean("y", (0, 1), by="answer"), UNEQUAL, {"weights_stay": False}).query(norm)
    assert query.encoding == encoding
    added, replaced = around(False).moves(query, norm)
    assert query.steps <= added <= query.sensitivity(Relation.ADD_REMOVE, norm) <= query.steps * (1.0 + 1e-9) + 1
    assert replaced <= query.sensitivity(Relation.REPLACE_ONE, norm)
    more = replace(query, encoding=FreeSpread(1.5 * FreeSpread.under(norm).scale))
    assert around(False).moves(more, norm)[0] > query.sensitivity(Relation.ADD_REMOVE, norm)


def _survey(tmp: Any, **options: Any) -> ds.Survey:
    import pyarrow as pa

    rows = pa.table({"w": [1.0, 2.0, 5.0, 9.0], "y": [0.1, 0.9, 0.4, 0.2], "sex": ["f", "m", "f", "m"]})
    given: dict[str, Any] = {
        "weights": "w",
        "weights_are": "design",
        "weight_range": (1, 10),
        "size": 17,
        "categories": {"sex": ["f", "m"]},
    }
    return ds.Survey.collected(rows, budget=ds.Budget(1.0), ledger=tmp / "books.ledger", **given | options)


def test_only_where_the_guarantee_says_that_answers_are_replaced_are_they_charged_alone(tmp_path: Any) -> None:
    def charged_twice(statistic: Statistic, **options: Any) -> bool:
        query = _survey(tmp_path, **options).plan(statistic).items[0].query
        return query.sensitivity(Relation.REPLACE_ONE, "L1") > 1.5 * query.steps

    mean, by_sex = ds.mean("y", (0, 1)), ds.mean("y", (0, 1), by="sex")
    assert not charged_twice(mean)
    assert charged_twice(by_sex)
    assert not charged_twice(by_sex, fixed=["sex"])
    # Who meets a condition, or answers, is an answer; who is in a held group is none.
    assert charged_twice(ds.mean("y", (0, 1), where={"y": (0, 1)}), fixed=["sex"])
    assert charged_twice(ds.mean("y", (0, 1), missing="drop"), fixed=["sex"])
    assert not charged_twice(ds.mean("y", (0, 1), where={"sex": "f"}), fixed=["sex"])
    # In other settings a record comes or goes, or responds: nothing stays in its place.
    frees = ds.Setting("sample", "frame", neighbours="add-remove"), ds.Setting("respondents", "frame", neighbours="replace-one")
    for setting in frees:
        assert not isinstance(_survey(tmp_path, setting=setting).plan(mean).items[0].query.encoding, InPlace)
        with pytest.raises(NoGuarantee, match="held fixed"):
            _survey(tmp_path, setting=setting, fixed=["sex"])


def test_the_guarantee_names_the_columns_that_are_held_fixed_and_they_are_no_answers(tmp_path: Any) -> None:
    survey = _survey(tmp_path, fixed=["sex"])
    release = survey.plan(ds.mean("y", (0, 1), by="sex")).release()
    sentence = release.document["guarantee"]["sentence"]
    assert "its design columns, and columns declared to be held fixed, stay and are not protected: sex)" in sentence
    assert "not protected: sex)" in release.document["guarantee"]["specification"]
    assert release.recompute() == release.estimates
    with pytest.raises(BadValue, match="held fixed and not protected"):
        survey.plan(ds.proportion("sex", "f"))
    with pytest.raises(BadValue, match="a list"):
        _survey(tmp_path, fixed="sex")


def test_draws_whose_samples_are_matched_by_exchanging_units_are_not_charged_for_answers_alone() -> None:
    design = ds.pps("size", n=4, method="sampford", at_most=0.5)
    frame = ds.Frame("frame", "id", 40, public=["size"])

    def encoding(setting: ds.Setting) -> Encoding:
        survey = ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger="none", weight_range=(2.0, 10.0))
        return survey.plan(ds.mean("y", (0, 1))).items[0].query.encoding

    assert isinstance(encoding(ds.Setting("sample", "frame", neighbours="replace-one")), InPlace)
    # Sampling inside the mechanism puts one unit in the place of another, with another weight.
    assert isinstance(encoding(ds.Setting("frame", neighbours="replace-one")), FreeSpread)


def test_a_ledger_says_nothing_of_settings_in_which_one_record_takes_the_place_of_another() -> None:
    frame = ds.Frame("frame", "id", 40, {"sex": ("f", "m")}, public=["size"])
    setting, budget = ds.Setting("sample", "frame", neighbours="replace-one"), ds.Budget(1.0)
    drawn = ds.Survey(frame, ds.pps("size", n=4, method="sampford", at_most=0.5), setting, budget=budget, ledger="none")
    exchanged = implied(drawn.terms, ds.Setting("frame", neighbours="replace-one"), Restriction.IN_PLACE)
    assert isinstance(exchanged, Unseen)
    assert "in the place of another" in exchanged.reason
    assert isinstance(implied(drawn.terms, setting, Restriction.IN_PLACE), Implied)
    # Where groups are held fixed too, the guarantee is for fewer neighbours than answers in their place are.
    file = ds.Survey.collected("file", categories={"sex": ("f", "m")}, fixed=["sex"], budget=budget, ledger="none").terms
    assert file.design.relation_name(setting) is Restriction.HELD
    assert isinstance(implied(file, setting, Restriction.HELD), Implied)
    assert isinstance(implied(file, setting, Restriction.IN_PLACE), Unseen)
    plain = ds.Survey.collected("file", budget=budget, ledger="none").terms
    assert isinstance(implied(plain, setting, Restriction.HELD), Implied)
