"""Survey files as offices have them: at a huge epsilon the estimates are R survey's, and so are their standard errors.

The files, what is declared about them and R's numbers are those of benchmarks/files.py, which also measures intervals at the
epsilons of an office. Noise at epsilon 100,000 moves an estimate by 1e-3 of itself less than once in 1e6 releases.
"""

import csv
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpsurvey.classical import Sample

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import files as study  # noqa: E402
import files_known as known  # noqa: E402
import files_made as made_up  # noqa: E402

REFERENCE = known.reference()
CLUSTERED = ["nhanes", "nhanes2", "yrbs", "schools", "synth_cluster", "synth_stratcluster", "synth_twostage", "synth_brr", "cps"]
FINITE = ["schools, fpc", "synth_cluster, fpc", "synth_stratcluster, fpc"]
UNCLUSTERED = ["synth_strat", "acs", "wide-even", "wide-tail"]
FILES = [*CLUSTERED, *FINITE, "bootstrap", *UNCLUSTERED]
# Standard errors that are more than 5 % above R's: a variance of strata that are assumed to be alike, weights without clusters
# that are bounded by the largest of them. All others are within 5 %, between the linearised and the jackknife one.
ABOVE_R = {
    ("nhanes", "proportion HI_CHOL by race"),
    ("nhanes2", "proportion highbp by race"),
    *(("synth_strat", known.name_of(group)) for group in REFERENCE["synth_strat"]),
    ("acs", "proportion works"),
    ("acs", "ratio wages to hours"),
    ("acs", "proportion insured by age"),
    ("wide-even", "proportion yes"),
    ("wide-even", "total amount"),
    ("wide-tail", "proportion yes"),
    ("wide-tail", "total amount"),
}
ASKED = [(file, group) for file in FILES for group in REFERENCE[file]]


def columns(file):
    """The columns of a file as arrays; numbers that are missing are nan."""
    table = known.read(file)
    return {
        name: np.array(table[name].to_pylist(), dtype=float if table[name].null_count else None) for name in table.column_names
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ledgers")


def named(asked):
    return f"{asked[0]}-{known.name_of(asked[1])}"


@pytest.mark.parametrize(("file", "group"), ASKED, ids=[named(each) for each in ASKED])
def test_at_a_huge_epsilon_a_file_gives_rs_numbers(file, group, folder):
    found = known.in_order(REFERENCE[file][group], study.release(file, group, study.HUGE, folder))
    above = (file, known.name_of(group)) in ABOVE_R
    for case, row in found:
        if group[0] == "quantile":
            # Its grid has 256 steps and more; it stands within R's own interval.
            assert case["low"] <= row["estimate"] <= case["high"]
            continue
        assert row["estimate"] == pytest.approx(case["estimate"], rel=1e-3)
        low, high = sorted((case["se"], case["se_jackknife"]))
        # A size that is declared is no estimate: the total of a file with one is the size times its mean.
        if not (group[0] in ("total", "count") and "size" in known.FILES[file].design):
            assert low / 1.05 <= row["se_sampling"]
            assert above or row["se_sampling"] <= 1.05 * high


def test_what_is_said_to_be_above_r_is_asked():
    assert {(file, known.name_of(group)) for file, group in ASKED} >= ABOVE_R
    assert len(ABOVE_R) < len(ASKED) / 5


def parts_of(words):
    """A column, and the value that is asked of it, if any."""
    column, _, value = words.partition(" == ")
    return column, value.strip("'") if "'" in value else float(value or "nan")


CLASSICAL = {name: known.FILES[name] for name in FILES}


@pytest.mark.parametrize("name", CLASSICAL)
def test_the_files_are_those_that_r_read(name):
    """Also of the made-up ones, which every machine makes anew: their classical estimates are R's to nine digits."""
    file = CLASSICAL[name]
    table = columns(file)
    sample = Sample(table, **{key: value for key, value in file.design.items() if key in ("strata", "psu", "weights", "fpc")})
    compared = 0
    for (kind, words, _, _, domain), cases in REFERENCE[name].items():
        column, value = parts_of(words)
        for case in cases:
            where = (domain, case["level"] if table[domain].dtype.kind == "U" else float(case["level"])) if domain else None
            options = {"where": where, "missing": "drop"}
            if kind in ("mean", "total"):
                answer = getattr(sample, kind)(column, **options)
            elif kind == "proportion" and where is None:
                answer = sample.proportion(column, value=value, missing="drop")
            else:
                continue
            assert answer.estimate == pytest.approx(case["estimate"], rel=1e-9)
            assert answer.se == pytest.approx(case["se"], rel=1e-9)
            # R was told the degrees of freedom of the whole design for domains too.
            assert domain or answer.df == case["df"]
            compared += 1
    assert compared >= 1


@pytest.mark.parametrize("name", known.REPLICATES)
def test_replicate_weights_have_rs_standard_errors_by_their_scale(name):
    """scale times the sum of squares about the estimate: the columns, the way they were made and the factor belong together."""
    replicates = known.REPLICATES[name]
    table = columns(replicates.known)
    pattern = re.compile(replicates.columns)
    parts = np.stack([table[column] for column in table if pattern.fullmatch(column)], axis=1)
    whole = table[replicates.known.design["weights"]]
    for group, cases in REFERENCE[name].items():
        kind, words, other, _, domain = group
        column, value = parts_of(words)
        y = (table[column] == value).astype(float) if kind in ("proportion", "count") else table[column]
        x = table[other] if other else np.ones(len(y))
        for case in cases:
            kept = table[domain] == case["level"] if domain else np.ones(len(y), dtype=bool)

            def estimate(weights, y=y, x=x, kept=kept, kind=kind):
                top = (kept * y) @ weights
                return top if kind in ("total", "count") else top / ((kept * x) @ weights)

            theta = estimate(whole)
            assert theta == pytest.approx(case["estimate"], rel=1e-9)
            variance = replicates.scale * ((estimate(parts) - theta) ** 2).sum()
            assert math.sqrt(variance) == pytest.approx(case["se"], rel=1e-9)


def test_replicate_weights_of_raked_files_know_the_margins():
    """Every replicate meets the same totals, so the number of women has no variance; but for a rounding of four decimals."""
    table = columns(known.FILES["acs"])
    women = table["sex"] == "female"
    totals = [table[column][women].sum() for column in table if column.startswith("wgtp")]
    assert len(totals) == 80
    assert np.ptp([*totals, table["weight"][women].sum()]) < 0.1
    # The number at work has one.
    works = table["works"] == "yes"
    assert np.std([table[column][works].sum() for column in table if column.startswith("wgtp")]) > 1_000


def test_a_matrix_of_hadamard_is_orthogonal():
    matrix = made_up.hadamard(79)
    assert set(np.unique(matrix)) == {-1, 1}
    assert (matrix @ matrix.T == 80 * np.eye(80)).all()


def test_declared_ranges_hold_every_row():
    """An office declares them from the documentation of a file; a test may look."""
    for name, file in known.FILES.items():
        table = columns(file)
        low, high = file.design["weight_range"]
        assert low <= table[file.design["weights"]].min(), name
        assert table[file.design["weights"]].max() <= high, name
        for column, (least, most) in file.bounds.items():
            assert least <= np.nanmin(table[column]), name
            assert np.nanmax(table[column]) <= most, name


def survey_in_r():
    """Why R cannot be asked here, or nothing."""
    if shutil.which("Rscript") is None:
        return "there is no R on this machine"
    found = subprocess.run(["Rscript", "-e", "library(survey)"], capture_output=True, check=False)
    return "" if found.returncode == 0 else "R has no package survey on this machine"


@pytest.mark.slow
def test_r_gives_the_stored_numbers_again(tmp_path):
    if missing := survey_in_r():
        pytest.skip(missing)
    made = tmp_path / "made"
    subprocess.run([sys.executable, ROOT / "benchmarks" / "files_made.py", made], check=True)
    target = tmp_path / "again.json"
    script = ["Rscript", ROOT / "benchmarks" / "files_reference.R", made, Path(__file__).parent, target]
    subprocess.run(script, check=True, capture_output=True)
    stored = json.loads((Path(__file__).parent / "survey_files.json").read_text())["cases"]
    again = json.loads(target.read_text())["cases"]
    assert len(again) == len(stored) > 200
    for one, other in zip(again, stored, strict=True):
        assert set(one) == set(other)
        for key, value in other.items():
            assert one[key] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value)


def test_made_up_files_are_written_as_r_reads_them(tmp_path):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "files_made.py", tmp_path], check=True)
    with (tmp_path / "schools.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["district"] for row in rows] == [str(each) for each in columns(known.FILES["schools"])["district"]]
    assert {path.stem for path in tmp_path.iterdir()} == set(made_up.MADE)
