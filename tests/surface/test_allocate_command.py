"""`dpsurvey allocate`: strata from files, words and noisy releases; what it prints builds the design; the guide is true."""

import json
import math
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import design_from_dict
from dpsurvey.design.allocation.allocate import Allocation, allocate
from dpsurvey.errors import BadValue, NotFound, SurveyError
from dpsurvey.survey.deviations import release_source, stratum_deviations
from tests.command_line import printed

pytestmark = pytest.mark.quick

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "allocation.md"
TABLE = "stratum,size,sd,cost,measure\nnorth,1200,10,20,3\nsouth,600,30,20,2\nisland,200,40,90,1\n"
SIZES = {"north": 1200, "south": 600, "island": 200}
DEVIATIONS = {"north": 10, "south": 30, "island": 40}
COSTS = {"north": 20, "south": 20, "island": 90}


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("strata.csv").write_text(TABLE, encoding="utf-8")
    return "strata.csv"


def run(line):
    """stdout of `dpsurvey allocate LINE`; its error comes out."""
    return printed("allocate", *shlex.split(line))


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("proportional --n 100", {"n": 100, "deviations": DEVIATIONS}),
        ("equal --n 100 --minimum 2", {"n": 100, "deviations": DEVIATIONS, "minimum": 2}),
        ("neyman --n 100 --source Yearbook", {"n": 100, "deviations": DEVIATIONS, "source": "Yearbook"}),
        ("cost --budget 3000 --source Yearbook", {"budget": 3000, "deviations": DEVIATIONS, "source": "Yearbook"}),
        ("precision --cv 0.05 --mean 50 --source Y", {"cv": 0.05, "mean": 50, "deviations": DEVIATIONS, "source": "Y"}),
        ("precision --se 2.5 --source Y", {"se": 2.5, "deviations": DEVIATIONS, "source": "Y"}),
    ],
)
def test_the_command_allocates_as_python_does(table, line, same):
    rule = line.split()[0]
    made = allocate(rule, sizes=SIZES, costs=COSTS, **same)
    printed = json.loads(run(f"{line} --strata {table} --json"))
    assert Allocation.from_dict({key: printed[key] for key in made.to_dict()}) == made
    assert (printed["total"], printed["cost"], printed["se_mean"]) == (made.total, made.cost, made.se_mean)
    assert printed["strata"] == made.rows()
    assert run(f"{line} --strata {table}") == str(made) + "\n"


def test_the_measure_of_the_file_speaks_to_the_power_rule_alone(table):
    measure = {"north": 3, "south": 2, "island": 1}
    made = allocate("power", sizes=SIZES, n=100, power=0.5, measure=measure, source="Y")
    assert json.loads(run(f"power --n 100 --power 0.5 --source Y --strata {table} --json"))["takes"] == made.takes


def test_strata_come_from_a_file_and_from_words(table):
    words = "--stratum 'sea=side = 500, sd=7, cost=1.5'"
    printed = json.loads(run(f"neyman --n 100 --source Y --strata {table} {words} --json"))
    assert printed["sizes"] == SIZES | {"sea=side": 500}
    assert printed["deviations"]["sea=side"] == 7.0
    assert printed["costs"]["sea=side"] == 1.5


def test_toml_lines_build_the_design_of_the_allocation():
    lines = run("equal --n 9 --toml --stratum north=50 --stratum 'São \"x\".y=40' --stratum 3=30")
    fields = tomllib.loads('[design]\nkind = "stratified"\nby = "region"\n' + lines)["design"]
    takes = allocate("equal", sizes={"north": 50, 'São "x".y': 40, "3": 30}, n=9).within()
    assert design_from_dict(fields) == ds.stratified("region", within=takes)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("neyman --n 9", "name the strata"),
        ("neymn --n 9 --stratum a=5", "did you mean 'neyman'"),
        ("neyman --n 9 --stratum a=50,sd=2", "were published"),
        ("neyman --n 9 --stratum a=50,sd=2 --stratum b=20 --source Y", "lack the stratum 'b'"),
        ("equal --n 9 --stratum a", "--stratum takes NAME=SIZE"),
        ("equal --n 9 --stratum =5", "--stratum takes NAME=SIZE"),
        ("equal --n 9 --stratum a=5,sdd=3", "did you mean 'sd'"),
        ("equal --n 9 --stratum a=5,sd=", "--stratum takes NAME=SIZE"),
        ("equal --n 9 --stratum a=5.5", "size of stratum 'a' must be a whole number"),
        ("equal --n 9 --stratum a=5,sd=x", "sd of stratum 'a' must be a number"),
        ("equal --n 9 --stratum a=5 --stratum a=6", "given twice"),
        ("equal --n 9 --strata none.csv", "no file 'none.csv'"),
        ("equal --n 9 --strata bad.csv", "unknown column 'sise'"),
        ("equal --n 9 --strata short.csv", "another number of cells"),
        ("equal --n 9 --strata twice.csv", "columns stratum and size, each once"),
        ("equal --n 9 --strata empty.csv", "columns stratum and size, each once"),
        ("equal --n 9 --strata bytes.csv", "not a CSV file in UTF-8"),
        ("equal --n 9 --strata blank.csv", "'a' has no size"),
        ("equal --n 9 --stratum a=50 --json --toml", "two forms of one answer"),
        ("equal --n 9 --stratum a=50 --of income", "--release and --of go together"),
        ("equal --n 9 --stratum a=50 --by region", "--release and --of go together"),
        ("neyman --n 9 --stratum a=50 --release none.json --of income", "none.json"),
        ("equal --n 1 --stratum a=50 --stratum b=9 --minimum 0 --toml", "nothing is drawn from stratum 'b'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, monkeypatch, line, says):
    monkeypatch.chdir(tmp_path)
    files = {"bad": "stratum,sise\na,5\n", "short": "stratum,size,sd\na,5\n", "twice": "stratum,size,size\na,5,5\n", "empty": ""}
    for name, text in (files | {"blank": "stratum,size\na,\n"}).items():
        Path(f"{name}.csv").write_text(text, encoding="utf-8")
    Path("bytes.csv").write_bytes(b"stratum,size\n\xff,5\n")
    with pytest.raises(SurveyError) as caught:
        run(line)
    assert caught.value.exit_code == 2
    assert says in str(caught.value)


def test_help_names_every_option_and_shows_examples():
    text = re.sub(r"[\s│╭╮╰╯─]+", " ", re.sub(r"\x1b\[[0-9;]*m", "", run("--help")))
    for option in ("--strata", "--stratum", "--n", "--budget", "--cv", "--se", "--release", "--of", "--json", "--toml"):
        assert option in text
    assert "dpsurvey allocate neyman --strata strata.csv --n 1000" in text


# Deviations from a real release. Values are 50 ± the deviation of the region, half of the units each, so that a sample
# of n units has the deviation sqrt(4 p(1-p)) times the true one, where p is the sampled part of the upper half.
TRUE = {"north": 5.0, "south": 10.0, "island": 20.0}
FRAME_SIZES = {"north": 2400, "south": 1600, "island": 1200}


@pytest.fixture(scope="module")
def people():
    region = np.repeat(list(FRAME_SIZES), list(FRAME_SIZES.values()))
    sign = np.tile([1.0, -1.0], len(region) // 2)
    income = 50.0 + sign * np.array([TRUE[each] for each in region])
    return pd.DataFrame({"id": np.arange(len(region)), "region": region, "income": income, "sex": "x"})


MEAN = ds.mean("income", bounds=(0, 100), by="region")
STRATIFIED = ds.stratified("region", within=ds.srs(n=800))
DESIGNS = {
    "strata of fixed size": STRATIFIED,
    "strata by poisson": ds.stratified("region", within={name: ds.poisson(960 / size) for name, size in FRAME_SIZES.items()}),
    "srs, regions are domains": ds.srs(n=3400),
    "poisson, regions are domains": ds.poisson(0.65),
}


def survey_of(people, folder, design, epsilon=1000.0):
    frame = ds.Frame(people, unit="id", size=len(people), categories={"region": FRAME_SIZES, "sex": ["x"]})
    return ds.Survey(frame, design, budget=ds.Budget(epsilon), ledger=folder / "books.ledger", name="lfs")


@pytest.mark.parametrize("name", DESIGNS)
def test_a_release_tells_the_stratum_deviations_and_neyman_follows(people, tmp_path, name):
    # Each region has at least 650 sampled units (7.9 standard deviations below what is expected at worst, 2e-15). By
    # Hoeffding, also without replacement, |p - 1/2| > 0.12 has a chance below 2 exp(-2 * 650 * 0.12^2) < 2e-8 in a region;
    # within it the deviation is right to 1 - sqrt(1 - 4 * 0.12^2) < 3 %. The variance is 0.0025 at least on the scale of
    # the bounds; noise at epsilon 1000 has a scale of 1.3e-6 there, so 2 % of it, 1 % of the deviation, are 38 scales:
    # below 1e-12. Three regions, four designs: less than 3e-7.
    release = survey_of(people, tmp_path, DESIGNS[name]).plan(MEAN).release()
    found = stratum_deviations(release, "income", by="region")
    assert list(found) == list(FRAME_SIZES)
    for region, deviation in TRUE.items():
        assert found[region] == pytest.approx(deviation, rel=0.045)
    made = allocate("neyman", sizes=FRAME_SIZES, n=600, deviations=found, source=release_source(release))
    ideal = allocate("neyman", sizes=FRAME_SIZES, n=600, deviations=TRUE, source="the truth")
    assert made.takes == pytest.approx(ideal.takes, rel=0.11)
    assert made.source == f"release {release.hash[:12]} of survey lfs"


def test_the_deviation_is_the_one_of_the_sealed_sample(people, tmp_path):
    # Nothing is left but noise and the lattice. At epsilon 1e5 the noise on a variance of 0.0025 has a scale of 1.3e-8: 2e-7,
    # 4e-5 of the deviation, are 16 scales, a chance of 2e-7; rounding to the lattice adds at most 1e-4. Dividing by n in
    # place of n - 1 would be off by 6e-4.
    survey = survey_of(people, tmp_path, STRATIFIED, epsilon=1e5)
    survey.draw(tmp_path / "sample.parquet")
    drawn = people[people["id"].isin(pd.read_parquet(tmp_path / "sample.parquet")["unit"])]
    sampled = drawn.groupby("region")["income"].std(ddof=1)
    release = survey.plan(MEAN).release()
    for region, deviation in stratum_deviations(release, "income").items():
        assert deviation == pytest.approx(sampled[region], rel=3e-4)


def test_deviations_come_from_the_document_alone(people, tmp_path):
    release = survey_of(people, tmp_path, STRATIFIED, epsilon=1.0).plan(MEAN).release()
    expected = stratum_deviations(release, "income")
    path = release.save(tmp_path / "release.json")
    for file in tmp_path.glob("books.ledger*"):
        file.unlink()
    assert stratum_deviations(ds.Release.load(path), "income") == expected
    rows = {row["by"]["region"]: row for row in release.estimates}
    for region, size in FRAME_SIZES.items():
        assert expected[region] * math.sqrt((1 - 800 / size) / 800) == pytest.approx(rows[region]["se_sampling"])


def test_the_command_takes_deviations_from_a_release_and_names_it(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release = survey_of(people, tmp_path, STRATIFIED).plan(MEAN).release()
    release.save("release.json")
    strata = " ".join(f"--stratum {region}={size}" for region, size in FRAME_SIZES.items())
    printed = json.loads(run(f"neyman --n 600 {strata} --release release.json --of income --json"))
    assert printed["deviations"] == stratum_deviations(release, "income")
    assert printed["source"] == f"release {release.hash[:12]} of survey lfs, mean of income"
    with pytest.raises(BadValue, match="deviations are given twice"):
        run(f"neyman --n 600 {strata},sd=3 --release release.json --of income")
    with pytest.raises(BadValue, match="no mean of 'incme'"):
        run(f"neyman --n 600 {strata} --release release.json --of incme")


CENSUS = ds.stratified("region", within={"north": ds.srs(n=100), "south": ds.srs(n=100), "island": ds.srs(n=1200)})
SINGLE = ds.stratified("region", within={"north": ds.srs(n=100), "south": ds.srs(n=1), "island": ds.srs(n=100)})
TOLD = [
    (STRATIFIED, (ds.mean("income", bounds=(0, 100)),), 10.0, "no mean of 'income' by 'region'"),
    (STRATIFIED, (ds.total("income", bounds=(0, 100), by="region"),), 10.0, "no mean of 'income' by 'region'"),
    (STRATIFIED, (ds.mean("income", bounds=(0, 100), by=("region", "sex")),), 10.0, "no mean of 'income' by 'region'"),
    (STRATIFIED, (ds.mean("id", bounds=(0, 9), by="region"),), 10.0, "did you mean 'id'|no mean of 'income'"),
    (STRATIFIED, (MEAN, ds.mean("income", bounds=(0, 90), by="region")), 10.0, "several means of 'income' by 'region'"),
    (ds.srs(n=99), (MEAN, ds.mean("income", bounds=(0, 100), by="sex")), 10.0, "several means of 'income' by one column"),
    (CENSUS, (MEAN,), 10.0, "'island' of this release was taken in full"),
    (ds.poisson(1.0), (MEAN,), 10.0, "taken in full"),
    (SINGLE, (MEAN,), 10.0, "'south' of this release has too few units"),
    # About 5 units in each region behind noise of some thousands: no count is above 5 of its deviations, but for 1e-9.
    (ds.poisson(0.003), (MEAN,), 0.001, "too few units"),
]


@pytest.mark.parametrize(("design", "asked", "epsilon", "says"), TOLD, ids=[says for *_, says in TOLD])
def test_a_release_that_tells_no_deviations_is_refused(people, tmp_path, design, asked, epsilon, says):
    release = survey_of(people, tmp_path, design, epsilon=epsilon).plan(*asked).release()
    with pytest.raises(BadValue, match=says) as caught:
        stratum_deviations(release, "income")
    assert caught.value.hint


def test_strata_with_other_weights_inside_a_domain_are_refused(people, tmp_path):
    release = survey_of(people, tmp_path, STRATIFIED, epsilon=10.0).plan(ds.mean("income", bounds=(0, 100), by="sex")).release()
    with pytest.raises(BadValue, match="does not give a stratum deviation"):
        stratum_deviations(release, "income", by="sex")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)


def test_the_noisy_way_of_the_guide_runs(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("2025").mkdir()
    survey_of(people, tmp_path, STRATIFIED).plan(MEAN).release().save("2025/release.json")
    (code,) = [block for block in blocks("python") if ">>>" not in block]
    names = {"ds": ds, "allocate": allocate, "sizes": FRAME_SIZES}
    exec(compile(code, GUIDE.name, "exec"), names)
    assert sum(each.n for each in names["design"].within.values()) == 1000  # type: ignore[attr-defined]


def test_commands_of_the_guide_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("strata.csv").write_text(blocks("csv")[0], encoding="utf-8")
    shown = [part.partition("\n") for block in blocks("console") for part in block.split("$ dpsurvey allocate ")[1:]]
    assert len(shown) == 3
    for line, _, output in shown:
        assert run(line) == output


def test_a_missing_file_is_not_found():
    with pytest.raises(NotFound):
        run("equal --n 9 --strata nowhere.csv")
