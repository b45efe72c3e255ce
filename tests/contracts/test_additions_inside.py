"""An addition is three files: its source in a room, its page and its test example. No list, `__init__` or command is edited."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = '''"""Coin flips: each unit that shows heads in all of its flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .checks import check_count
from .parts import Part
from .poisson import IndependentDraws
from .recipe import Each, Step
from .registry import register


@dataclass(frozen=True)
class CoinFlips(IndependentDraws):
    """Each unit that shows heads in all of its flips."""

    kind: ClassVar[str] = "coin-flips"
    flips: int

    @property
    def rates(self) -> tuple[float, ...]:
        return (0.5**self.flips,)

    def parts(self) -> tuple[Part, ...]:
        return (Part(None, self.rates[0], None, None),)

    def recipe(self) -> Step:
        return Each(self.rates[0])


@register("coin-flips")
def coin_flips(flips: int) -> CoinFlips:
    """Draw each unit that shows heads in all of so many flips of a coin.

    Example: `dpsurvey amplify coin-flips --flips 3 --epsilon 1 --base add-remove --neighbours add-remove`

    >>> coin_flips(3).largest_probability
    0.125
    """
    check_count("flips", flips)
    return CoinFlips(flips)
'''
STATISTIC = '''"""The mean of a percentage."""

from __future__ import annotations

from .mean import Mean, mean
from .registry import register


@register('{ kind = "mean percentage", of = "share" }')
def mean_percentage(of: str) -> Mean:
    """The mean of a column of percentages.

    >>> mean_percentage("share").name
    'mean of share'
    """
    return mean(of, bounds=(0, 100))
'''
NOISE = '''"""Laplace noise at twice the scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..privacy.budget import amount
from ..privacy.profile import PrivacyProfile
from .laplace import Laplace
from .registry import register


@register
@dataclass(frozen=True)
class Cautious(Laplace):
    """Laplace noise at twice the scale."""

    kind: ClassVar[str] = "cautious"

    @classmethod
    def calibrate(cls, charge: PrivacyProfile, sensitivity: float) -> Cautious:
        return cls(2.0 * sensitivity / amount(charge), sensitivity)
'''
COMMAND = '''"""Count the days until the census."""

from .options import new_app

PLACE_IN_HELP = 45

app = new_app()


@app.command()
def census(days: int) -> None:
    """Count the days until the census."""
    print(days)
'''


ROOMS = (
    ("design", "coin_flips", DESIGN),
    ("statistic", "percentage", STATISTIC),
    ("mechanism", "cautious", NOISE),
    ("cli", "census", COMMAND),
)
# Where the page of each stands, and the example of the design: the text before which it is put, and it.
PAGES = (
    ("docs/guides/statistics.md", "## total\n", "## mean percentage\n\nThe mean of a column of percentages.\n\n"),
    (
        "docs/guides/statistics.md",
        '[[statistic]]\nkind = "clipping_bounds"',
        '[[statistic]]\nkind = "mean_percentage"\nof = "share"\n\n',
    ),
    ("docs/guides/statistics.md", "]   # one for each statistic", ", 1"),
    ("docs/proofs/mechanisms.md", "## laplace\n", "## cautious\n\nLaplace noise at twice the scale.\n\n"),
    ("tests/contracts/test_contracts.py", '    "poisson": ', '    "coin-flips": ds.coin_flips(3),\n'),
)
# Tests that go through the lists: their cases about what is new, and those about all that is listed.
TESTS = (
    *("contracts/test_contracts.py", "surface/test_public_names.py", "surface/test_survey_file_statistics.py"),
    *("surface/test_amplify_options.py", "laws/test_written_designs.py", "laws/test_figures_that_no_design_has.py"),
)
LONGER = (
    *("leaks/test_files_and_statistics_tell_nothing.py", "laws/test_amplification_laws.py"),
    *("truth/test_sensitivities_by_search.py", "engines/test_every_encoding.py"),
)
CASES = (
    *("coin", "percentage", "cautious", "public", "listed", "every_kind", "every_constructor", "the_page", "every_encoding"),
    "(silent and parquet)",
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the repository with a new design, statistic and mechanism, three files each, and a command."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, root)
    for room, name, text in ROOMS:
        (root / "src" / "dpsurvey" / room / f"{name}.py").write_text(text)
    (root / "docs" / "designs" / "coin-flips.md").write_text("# Coin flips\n\nPoisson sampling by flips of a coin.\n")
    for page, before, added in PAGES:
        text = (root / page).read_text()
        assert text.count(before) == 1
        (root / page).write_text(text.replace(before, added + before))
    return root


def run(copied, *command):
    environment = os.environ | {"PYTHONPATH": str(copied / "src"), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, *command], env=environment, cwd=copied, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("tests", [TESTS, pytest.param(LONGER, marks=pytest.mark.slow)], ids=["short", "longer"])
def test_the_tests_of_all_that_is_listed_pass_with_the_new_files(copied, tests):
    run(copied, "-m", "pytest", *(f"tests/{file}" for file in tests), "-k", " or ".join(CASES), "-m", "not slow")


def test_new_files_are_public_and_planned_with(copied):
    found = run(
        copied,
        "-c",
        "import dpsurvey as ds\n"
        "frame = ds.Frame('register.parquet', unit='id', size=10_000)\n"
        "survey = ds.Survey(frame, ds.coin_flips(3), budget=ds.Budget(1.0), ledger='a.ledger')\n"
        "plan = survey.plan(ds.mean_percentage('share'), noise='cautious')\n"
        "print(plan.items[0].mechanism.kind, plan.predictions[0]['name'], ds.amplify(ds.coin_flips(3), 1.0, "
        "base='add-remove', neighbours='add-remove').epsilon)",
    )
    noise, *name, epsilon = found.split()
    assert (noise, " ".join(name)) == ("cautious", "mean of share")
    assert float(epsilon) == pytest.approx(0.1945, abs=1e-4)


def test_a_new_design_is_a_command_of_amplify(copied):
    command = [
        "-c",
        "from dpsurvey.cli.app import main; main()",
        "amplify",
        "coin-flips",
        "--flips",
        "3",
        "--epsilon",
        "1",
        "--base",
        "add-remove",
    ]
    found = json.loads(run(copied, *command, "--neighbours", "add-remove", "--json"))
    assert found["epsilon"] == pytest.approx(0.1945, abs=1e-4)


def test_a_new_file_is_a_command_in_its_place(copied):
    line = ("-c", "from dpsurvey.cli.app import main; main()")
    assert run(copied, *line, "census", "3") == "3\n"
    shown = run(copied, *line, "--help")
    assert shown.index(" rate ") < shown.index(" census ") < shown.index(" compare ")
    assert "Count the days until the census." in shown
