"""What other packages add to the command line: commands by an entry point, designs by putting them on the list."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app

COMMAND = '''
"""Count the days until the census.

Example: `dpsurvey census --days 3`
"""

import sys

import typer

print("the census is loaded", file=sys.stderr)
app = typer.Typer(add_completion=False)


@app.command()
def census(days: int) -> None:
    """Count the days."""
    print(days)
'''
DESIGN = '''
"""A design of another package: a unit is drawn if all tosses of a coin show heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import dpsurvey as ds
from dpsurvey.design import Design, register
from dpsurvey.design.base import Undrawn


@dataclass(frozen=True)
class Coins(Undrawn):
    kind = "coins"
    heads: float

    @property
    def largest_probability(self):
        return self.heads

    def bound(self, losses, neighbours):
        return ds.poisson(self.heads).bound(losses, neighbours)


class Toss(NamedTuple):
    coin: int
    heads: float


@register("coins")
def coins(
    heads: Annotated[float, "The chance of heads."],
    *,
    tosses: int = 1,
    first: Sequence[float] = (),
    table: Annotated[Sequence[Toss], "CSV with the columns coin, heads."] = (),
    like: Design | None = None,
    fair: bool = False,
    group: Literal["one", "all"] = "all",
    names=None,
) -> Coins:
    """Draw each unit whose tosses all show heads.

    >>> coins(0.5).largest_probability
    0.5
    """
    chance = 0.5 if fair else heads**tosses
    for each in (*first, *(toss.heads for toss in table)):
        chance *= each
    if like is not None:
        chance *= like.largest_probability
    if names is not None:
        chance = chance ** len(names)
    return Coins(chance if group == "all" else heads)
'''
TAIL = ("--epsilon", "1", "--base", "add-remove", "--neighbours", "add-remove", "--json")


def installed(folder, name, code, command=None):
    """A package in a folder, as an installer leaves it."""
    (folder / f"{name}.py").write_text(code)
    if command is not None:
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dpsurvey.commands]\n{command}\n")


def dpsurvey(folder, *words, before=""):
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", f"{before}\nfrom dpsurvey.cli.app import main\nmain()", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": paths, "NO_COLOR": "1", "COLUMNS": "200"},
    )


# Commands


def test_each_line_of_the_help_is_the_first_sentence_of_the_help_of_its_command():
    commands = get_command(app).commands  # type: ignore[attr-defined]
    shown = re.sub(r"[\s│]+", " ", CliRunner().invoke(app, ["--help"], env={"NO_COLOR": "1"}).stdout)
    for name, command in commands.items():
        line = commands.line(name)
        assert len(line) > 10, name
        assert command.help.startswith(line), name
        assert f" {name} {line}" in shown, name


def test_another_package_adds_a_command_which_is_loaded_when_it_is_used(tmp_path):
    installed(tmp_path, "census_office", COMMAND, "census = census_office:app")
    help_of_all = dpsurvey(tmp_path, "--help")
    assert (help_of_all.returncode, help_of_all.stderr) == (0, "")
    assert "Count the days until the census." in help_of_all.stdout
    run = dpsurvey(tmp_path, "census", "3")
    assert (run.returncode, run.stdout) == (0, "3\n")
    assert "the census is loaded" in run.stderr
    assert "census" not in dpsurvey(tmp_path, "amplify", "poisson", "--rate", "0.1", *TAIL).stderr


def test_a_command_of_this_package_is_not_replaced_by_one_of_another(tmp_path):
    installed(tmp_path, "census_office", COMMAND, "plan = census_office:app")
    assert "census" not in dpsurvey(tmp_path, "plan", "--help").stdout


@pytest.mark.parametrize(
    ("entry", "why"), [("census_office:nothing", "nothing"), ("gone:app", "gone"), ("census_office:sys", "not a Typer app")]
)
def test_a_command_that_cannot_be_loaded_says_so_and_leaves_the_others_alone(tmp_path, entry, why):
    installed(tmp_path, "census_office", COMMAND, f"census = {entry}")
    assert dpsurvey(tmp_path, "--help").returncode == 0
    run = dpsurvey(tmp_path, "census", "3")
    assert (run.returncode, run.stdout) == (2, "")
    assert "the command 'census'" in run.stderr
    assert why in run.stderr
    assert "Traceback" not in run.stderr


# Designs


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ("--heads 0.5", 0.5),
        ("--heads 0.5 --tosses 2", 0.25),
        ("--heads 0.5 --first 0.5,0.2", 0.05),
        ("--heads 0.5 --first tosses.txt", 0.1),
        ("--heads 0.5 --table tosses.csv", 0.1),
        ("--heads 0.5 --like {kind='stratified',by='region',within={kind='poisson',rate=0.2}}", 0.1),
        ("--heads 0.9 --fair", 0.5),
        ("--heads 0.5 --tosses 2 --design-group one", 0.5),
        ("--heads 0.5 --names ['a','b']", 0.25),
        ("--heads 0.5 --names ab", 0.25),
    ],
)
def test_a_design_of_another_package_has_the_options_that_its_signature_says(tmp_path, options, rate):
    installed(tmp_path, "coin_office", DESIGN)
    (tmp_path / "tosses.txt").write_text("0.5 0.4\n")
    (tmp_path / "tosses.csv").write_text("coin,heads\n1,0.5\n2,0.4\n")
    run = dpsurvey(tmp_path, "amplify", "coins", *options.split(), *TAIL, before="import coin_office")
    assert run.returncode == 0, run.stderr
    plain = ds.amplify(ds.poisson(rate), 1.0, base="add-remove", neighbours="add-remove")
    assert json.loads(run.stdout)["epsilon"] == pytest.approx(plain.epsilon, rel=1e-9)


def test_the_help_shows_the_design_and_what_its_arguments_say_of_themselves(tmp_path):
    installed(tmp_path, "coin_office", DESIGN)
    listed = dpsurvey(tmp_path, "amplify", "--help", before="import coin_office").stdout
    assert "Draw each unit whose tosses all show heads." in listed
    shown = dpsurvey(tmp_path, "amplify", "coins", "--help", before="import coin_office").stdout
    for text in ("The chance of heads.", "--tosses", "CSV with the columns coin, heads.", "one or all", "--response-at-most"):
        assert text in shown, text
    assert ">>>" not in shown
    assert "coins" not in dpsurvey(tmp_path, "amplify", "--help").stdout


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--tosses 2", "heads"),
        ("--heads 0.5 --like {kind='poison',rate=0.1}", "poison"),
        ("--heads 0.5 --like {kind=", "like"),
        ("--heads 0.5 --like poisson", "'coins' cannot be made of these options"),
        ("--heads 0.5 --first 0.5,x", "first"),
        ("--heads 0.5 --table short.csv", "table"),
        ("--heads 0.5 --table words.csv", "table"),
    ],
)
def test_what_the_options_of_such_a_design_cannot_be_is_refused_by_name(tmp_path, options, names):
    installed(tmp_path, "coin_office", DESIGN)
    (tmp_path / "short.csv").write_text("coin\n1\n")
    (tmp_path / "words.csv").write_text("coin,heads\n1,often\n")
    run = dpsurvey(tmp_path, "amplify", "coins", *options.split(), *TAIL, before="import coin_office")
    assert (run.returncode, run.stdout) == (2, "")
    assert names in run.stderr
    assert "Traceback" not in run.stderr
