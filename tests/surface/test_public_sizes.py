"""Public sizes that a collected file repeats, in a column of population sizes or in weights, make it a stratified sample."""

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadData, BadValue, NoGuarantee

pytestmark = pytest.mark.quick

SIZES, TAKES = {"E": 4421, "H": 755, "M": 1018}, {"E": 100, "H": 50, "M": 40}
DECLARED = {"n": TAKES, "categories": {"kind": SIZES}, "size": sum(SIZES.values())}
FPC = [SIZES[label] for label, taken in TAKES.items() for _ in range(taken)]
TOTAL = ds.total("pupils", (0, 4000))


def schools(**changes):
    rng = np.random.default_rng(31)
    parts = []
    for label, middle in (("E", 430.0), ("H", 1250.0), ("M", 830.0)):
        pupils = np.clip(middle * np.exp(0.45 * rng.normal(size=TAKES[label])), 50.0, 3999.0)
        weight = round(SIZES[label] / TAKES[label], 2)
        parts.append(pd.DataFrame({"kind": label, "fpc": SIZES[label], "w": weight, "pupils": pupils}))
    return pd.concat(parts, ignore_index=True).assign(**changes)


def survey(table, folder, epsilon=1e6, **options):
    budget = ds.Budget(epsilon)
    return ds.Survey.collected(
        table, strata="kind", budget=budget, ledger=folder / f"{len(list(folder.iterdir()))}.books", **options
    )


def test_sizes_that_are_read_are_those_that_could_have_been_declared(tmp_path):
    read = survey(schools(), tmp_path, fpc="fpc", sizes_are_public=True, categories={"kind": ["E", "H", "M"]})
    told = survey(schools(), tmp_path, fpc="fpc", **DECLARED)
    assert read.terms == told.terms
    assert read.terms.to_dict() == told.terms.to_dict()
    assert read.plan(TOTAL).predictions == told.plan(TOTAL).predictions


@pytest.mark.parametrize("own", [{}, {"weights": "w", "weights_are": "by stratum"}], ids=["sizes alone", "weights too"])
def test_the_interval_is_the_classical_one_with_its_finite_population_correction(own, tmp_path):
    """At an epsilon that leaves no noise: total, standard error and interval of the stratified sample."""
    options = {"fpc": "fpc", "sizes_are_public": True, "categories": {"kind": ["E", "H", "M"]}}
    release = survey(schools(), tmp_path, **options, **own).plan(TOTAL).release()
    row = release.estimates[0]
    classical = Sample(schools(), strata="kind", fpc="fpc", weights=[SIZES[k] / TAKES[k] for k in schools()["kind"]]).total(
        "pupils"
    )
    assert row["estimate"] == pytest.approx(classical.estimate, rel=1e-4)
    assert row["se_sampling"] == pytest.approx(classical.se, rel=1e-2)
    assert row["method"] == "noise in every stratum"
    assert release.recompute() == release.document["estimates"]
    # Without the correction the error would be larger by more than that.
    assert Sample(schools(), strata="kind", weights="w").total("pupils").se > 1.015 * classical.se


def test_a_file_without_strata_has_one_size(tmp_path):
    table = schools(fpc=6194)
    read = ds.Survey.collected(table, fpc="fpc", sizes_are_public=True, budget=ds.Budget(1.0), ledger=tmp_path / "one.books")
    assert (read.terms.frame.size, dict(read.terms.design.takes())) == (6194, {None: 190})


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"fpc": 4421}, {"fpc": "fpc"}),
        ({"fpc": [4420, *FPC[1:]]}, {"fpc": "fpc"}),
        ({"w": 30.0}, {"weights": "w", "weights_are": "by stratum"}),
        ({"w": [44.6, *schools()["w"][1:]]}, {"weights": "w", "weights_are": "by stratum"}),
    ],
    ids=["other sizes", "a size that varies", "other weights", "one weight that differs"],
)
def test_columns_that_say_something_else_are_refused_before_anything_is_spent(changes, options, tmp_path):
    wrong = survey(schools(**changes), tmp_path, 1.0, **DECLARED, **options)
    with pytest.raises(BadData, match=r"declared (sizes|weights)|varies") as refused:
        wrong.plan(TOTAL).release()
    assert not any(each in str(refused.value) for each in ("4420", "4421", "44.6", "30.0", "755"))
    assert survey(schools(), tmp_path, 1.0, **DECLARED).plan(TOTAL).release(), "the true file is released"
    with ds.Ledger(wrong.ledger_path) as books:
        assert books.spending(wrong.terms).spent == 0.0


@pytest.mark.parametrize(
    "changes",
    [{"fpc": [1.0, *FPC[1:]]}, {"fpc": 20}, {"fpc": 5000.5}, {"fpc": -1}, {"kind": "X"}],
    ids=["varies", "too small", "not whole", "not positive", "other strata"],
)
def test_sizes_that_cannot_be_right_are_not_read(changes, tmp_path):
    with pytest.raises(BadData):
        survey(schools(**changes), tmp_path, fpc="fpc", sizes_are_public=True, categories={"kind": ["E", "H", "M"]})


@pytest.mark.parametrize(("protect", "neighbours"), [("sample", "add-remove"), ("respondents", "replace-one")])
def test_nothing_is_read_where_one_record_may_change_a_size(protect, neighbours, tmp_path):
    """The file is not even opened: there is none."""
    setting = ds.Setting(protect, given="frame" if protect == "sample" else None, neighbours=neighbours)
    options = {"fpc": "fpc", "sizes_are_public": True, "categories": {"kind": ["E", "H", "M"]}, "setting": setting}
    with pytest.raises(NoGuarantee):
        survey("there is no such file.parquet", tmp_path, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"sizes_are_public": True},
        {"sizes_are_public": True, "fpc": "fpc", "psu": "w"},
        {"weights": "w", "weights_are": "by stratum", "n": None},
        {"weights": "w", "weights_are": "by stratum", "psu": "fpc"},
    ],
    ids=["no column", "clusters", "no numbers", "weights of clusters"],
)
def test_what_public_sizes_cannot_say_is_refused(options, tmp_path):
    with pytest.raises(BadValue):
        survey(schools(), tmp_path, **{**DECLARED, **options})
