"""`dpsurvey allocate --private`: the allocation of Python, the table beside it, a picture, and errors in words."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import Allocation, allocate, compare_allocations, design_from_dict
from dpsurvey.errors import BadValue, SurveyError
from dpsurvey.view.allocation_plots import allocation_plot
from dpsurvey.view.plots import to_svg
from tests.command_line import invoke

TABLE = "stratum,size,sd,cost\nnorth,1200,10,20\nsouth,600,30,20\nisland,200,40,90\n"
OWN = "stratum,size,sd,min,epsilon,range\nnorth,1200,10,,,\nsouth,600,30,5,0.2,\nisland,200,40,25,,90\n"
SIZES = {"north": 1200, "south": 600, "island": 200}
SPREADS = {"north": 10.0, "south": 30.0, "island": 40.0}
COSTS = {"north": 20.0, "south": 20.0, "island": 90.0}
PROMISE = "--epsilon 0.5 --bounds 0,100 --source Y"
SAME = {"sizes": SIZES, "deviations": SPREADS, "epsilon": 0.5, "ranges": 100.0, "source": "Y"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("strata.csv").write_text(TABLE, encoding="utf-8")
    Path("own.csv").write_text(OWN, encoding="utf-8")
    return tmp_path


def run(line):
    found = invoke("allocate", *shlex.split(line))
    if found.exception is not None:
        raise found.exception
    return found


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("--private --n 100", {"n": 100}),
        ("private --n 100 --one-total", {"n": 100, "release": "total"}),
        ("--private --budget 3000 --minimum 3", {"budget": 3000.0, "minimum": 3}),
    ],
)
def test_the_command_allocates_and_compares_as_python_does(line, same):
    made = allocate("private", **SAME, costs=COSTS, **same)
    rows = compare_allocations(**SAME, costs=COSTS, **same)
    printed = json.loads(run(f"{line} {PROMISE} --strata strata.csv --json").stdout)
    assert Allocation.from_dict({key: printed[key] for key in made.to_dict()}) == made
    assert (printed["se"], printed["se_sampling"], printed["se_noise"]) == (made.se, made.se_sampling, made.se_noise)
    assert printed["strata"] == made.rows()
    assert printed["comparison"] == rows
    text = run(f"{line} {PROMISE} --strata strata.csv").stdout
    assert text.startswith(str(made) + "\n\n")
    for row in rows:
        assert re.search(rf"^{row['rule']} .*{row['se']:.4g}$", text, re.M)
        assert f"  {row['rule']}: {row['if_confidential']}" in text


def test_columns_of_a_stratum_come_before_the_options_for_all():
    printed = json.loads(run(f"--private --n 100 {PROMISE} --minimum 2 --strata own.csv --json").stdout)
    assert printed["epsilon"] == {"north": 0.5, "south": 0.2, "island": 0.5}
    assert printed["ranges"] == {"north": 100.0, "south": 100.0, "island": 90.0}
    assert printed["minimum"] == {"north": 2, "south": 5, "island": 25}
    assert printed["takes"]["island"] >= 25
    words = "--stratum a=50,epsilon=1,range=2 --stratum b=70,epsilon=2,range=3,min=9"
    printed = json.loads(run(f"--private --n 20 {words} --json").stdout)
    same = allocate(
        "private", sizes={"a": 50, "b": 70}, n=20, epsilon={"a": 1, "b": 2}, ranges={"a": 2, "b": 3}, minimum={"b": 9}
    )
    assert printed["takes"] == same.takes


def test_other_rules_leave_the_guarantee_of_the_file_aside_and_keep_its_minimum():
    printed = json.loads(run("neyman --n 100 --strata own.csv --source Y --json").stdout)
    same = allocate("neyman", sizes=SIZES, n=100, deviations=SPREADS, source="Y", minimum={"south": 5, "island": 25})
    assert (printed["takes"], printed["epsilon"]) == (same.takes, None)
    assert "comparison" not in printed


def test_lines_to_paste_are_alone_on_stdout_and_build_the_design():
    found = run(f"--private --n 100 {PROMISE} --strata strata.csv --toml")
    fields = tomllib.loads('[design]\nkind = "stratified"\nby = "region"\n' + found.stdout)["design"]
    assert design_from_dict(fields) == ds.stratified("region", within=allocate("private", **SAME, n=100).within())
    assert "If computed from confidential figures" in found.stderr


def test_a_picture_shows_every_rule_and_every_stratum():
    run(f"--private --n 100 {PROMISE} --strata strata.csv --plot takes.svg --json")
    picture = Path("takes.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    for word in ("private", "minimax", "proportional", "neyman", "north", "south", "island"):
        assert f">{word}<" in picture
    # A figure stands at each of the twelve bars.
    takes = [take for row in compare_allocations(**SAME, n=100) for take in row["takes"].values()]
    assert all(f">{take}<" in picture for take in takes)


def test_many_strata_are_drawn_thin_and_the_largest_alone():
    sizes = {f"s{number:03d}": 40 + number * number for number in range(80)}
    picture = to_svg(allocation_plot(compare_allocations(sizes=sizes, n=4000, epsilon=1.0, ranges=1.0)))
    assert ">s079<" in picture
    assert ">s019<" not in picture
    assert "the 60 largest of 80 strata" in picture
    with pytest.raises(BadValue, match="no allocation to draw"):
        allocation_plot([])


FILE = """
[survey]
name = "register"
ledger = "books.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 8
[frame.categories]
region = { north = 4, south = 4 }
[design]
kind = "stratified"
by = "region"
within = { kind = "srs", n = 2 }
[setting]
protect = "sample"
given = "frame"
neighbours = "replace-one"
[budget]
epsilon = 1
"""


def test_deviations_of_the_frame_make_a_confidential_allocation():
    rows = {"id": list(range(8)), "region": ["north"] * 4 + ["south"] * 4, "income": [1.0, 2.0, 3.0, 4.0, 1.0, 9.0, 1.0, 9.0]}
    pq.write_table(pa.table(rows), "register.parquet")
    Path("survey.toml").write_text(FILE, encoding="utf-8")
    found = run("--private --frame survey.toml --of income --n 4 --epsilon 1 --bounds 0,10 --json")
    printed = json.loads(found.stdout)
    assert (printed["rule"], printed["public"], sum(printed["takes"].values())) == ("private", False, 4)
    assert "comparison" not in printed
    assert found.stderr.startswith("confidential: these sizes reveal something about records")
    with pytest.raises(BadValue, match="published figures"):
        run("--private --frame survey.toml --of income --n 4 --epsilon 1 --bounds 0,10 --plot x.svg")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--n 9 --stratum a=50", "name a rule"),
        ("neyman --private --n 9 --stratum a=50", "--private is a rule of its own"),
        ("neyman --epsilon 1 --n 9 --stratum a=50", "--epsilon is for --private"),
        ("equal --one-total --n 9 --stratum a=50", "--one-total is for --private"),
        ("equal --plot x.svg --n 9 --stratum a=50", "--plot is for --private"),
        ("--private --n 9 --stratum a=50 --bounds 0,1", "needs epsilon"),
        ("--private --n 9 --stratum a=50 --epsilon 1", "needs ranges"),
        ("--private --n 9 --stratum a=50,epsilon=1 --stratum b=9 --bounds 0,1", "epsilon lack the stratum 'b'"),
        ("--private --n 9 --stratum a=50 --epsilon 0 --bounds 0,1", "epsilon must be a finite number above 0"),
        ("--private --n 9 --stratum a=50 --epsilon 1 --bounds 1,0", "a lower number before a higher one"),
        ("--private --n 9 --stratum a=50 --epsilon 1 --bounds 0,inf", "a lower number before a higher one"),
        ("--private --n 9 --stratum a=50 --epsilon 1 --bounds 5", "--bounds takes two numbers"),
        ("--private --n 9 --stratum a=50 --epsilon 1 --bounds x,5", "--bounds takes two numbers"),
        ("--private --n 9 --stratum a=50,sd=2 --epsilon 1 --bounds 0,10", "were published"),
        ("--private --n 9 --stratum a=50,sd=9 --epsilon 1 --bounds 0,10 --source Y", "spread outside the bounds"),
        ("--private --n 9 --stratum a=50,min=2.5 --epsilon 1 --bounds 0,1", "min of stratum 'a' must be a whole number"),
        ("--private --n 9 --stratum a=50,min=51 --epsilon 1 --bounds 0,1", "the minimum of stratum 'a'"),
        ("--private --n 51 --stratum a=50 --epsilon 1 --bounds 0,1", "n is above the number of units"),
        ("--private --n 9 --stratum a=50 --epsilon 1 --bounds 0,1 --plot x.gif", "ends in .svg or .png"),
    ],
)
def test_what_is_wrong_is_named(line, says):
    with pytest.raises(SurveyError) as caught:
        run(line)
    assert caught.value.exit_code == 2
    assert says in str(caught.value)
