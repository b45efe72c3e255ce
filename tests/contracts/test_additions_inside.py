"""A new file in a room of the package is all that its source needs: no list, no `__init__` and no command is edited."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
DESIGN = '''"""Coin flips: each unit that shows heads in all of its flips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    """Draw each unit that shows heads in all of so many flips of a coin."""
    return CoinFlips(flips)
'''
STATISTIC = '''"""The mean of a percentage."""

from __future__ import annotations

from .mean import Mean, mean
from .registry import register


@register('{ kind = "mean percentage", of = "share" }')
def mean_percentage(of: str) -> Mean:
    """The mean of a column of percentages."""
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


ROOMS = (("design", "coin_flips", DESIGN), ("statistic", "percentage", STATISTIC), ("mechanism", "cautious", NOISE))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with one new file in each of three rooms."""
    source = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE, source, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for room, name, text in ROOMS:
        (source / "dpsurvey" / room / f"{name}.py").write_text(text)
    return source


def run(package, *command):
    environment = os.environ | {"PYTHONPATH": str(package), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, *command], env=environment, cwd=package, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_new_files_are_public_and_planned_with(package):
    found = run(
        package,
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


def test_a_new_design_is_a_command_of_amplify(package):
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
    found = json.loads(run(package, *command, "--neighbours", "add-remove", "--json"))
    assert found["epsilon"] == pytest.approx(0.1945, abs=1e-4)
