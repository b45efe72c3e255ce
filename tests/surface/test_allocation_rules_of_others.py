"""An allocation rule that another package puts on the list is allocated by, compared, saved, typed and drawn."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.design import Allocation
from dpsurvey.design.allocation.rules import RULES, Shares, register
from dpsurvey.errors import BadValue
from dpsurvey.view.allocation_plots import COLOURS, allocation_plot

pytestmark = pytest.mark.quick

SIZES = {"north": 1600, "south": 400, "island": 100}
WORDS = [word for label, size in SIZES.items() for word in ("--stratum", f"{label}={size},measure=1")]


class SquareRoot(Shares):
    """n_h in proportion to the root of N_h."""

    name = "square-root"
    needs = ("n",)
    compared_at = ("n", "budget")

    def factors(self, strata, given):
        return 1.0 / np.sqrt(strata.size)


@pytest.fixture(autouse=True)
def rule(monkeypatch):
    monkeypatch.setitem(RULES, SquareRoot.name, None)
    register(SquareRoot)


def test_it_is_allocated_by_and_read_back():
    made = ds.allocate("square-root", sizes=SIZES, n=70)
    assert made.takes == {"north": 40, "south": 20, "island": 10}
    assert Allocation.from_dict(made.to_dict()) == made
    with pytest.raises(BadValue, match="the square-root rule needs n"):
        ds.allocate("square-root", sizes=SIZES)
    with pytest.raises(BadValue, match="does not use budget"):
        ds.allocate("square-root", sizes=SIZES, n=70, budget=5)
    with pytest.raises(BadValue, match="unknown allocation rule") as failed:
        ds.allocate("square-rot", sizes=SIZES, n=70)
    assert "square-root" in str(failed.value)


@pytest.mark.parametrize("budget", [None, 700])
def test_it_stands_beside_the_others_and_claims_no_more_than_is_proved(budget):
    figures = {"n": 70} if budget is None else {"budget": budget, "costs": dict.fromkeys(SIZES, 10)}
    rows = ds.compare_allocations(sizes=SIZES, epsilon=0.5, ranges=10, **figures)
    assert [row["rule"] for row in rows] == ["private", "proportional", "square-root"]
    assert rows[2]["takes"] == {"north": 40, "south": 20, "island": 10}
    assert "amplification is refused" in rows[2]["if_confidential"]
    colours = allocation_plot(rows).to_dict()["layer"][0]["encoding"]["color"]["scale"]["range"]
    assert len(set(colours)) == 3
    assert colours[2] not in COLOURS.values()


def test_the_command_line_takes_it_and_leaves_columns_of_other_rules_aside():
    done = CliRunner().invoke(app, ["allocate", "square-root", *WORDS, "--n", "70", "--json"])
    assert done.exit_code == 0, done.exception
    assert [each["take"] for each in json.loads(done.stdout)["strata"]] == [40, 20, 10]
    private = ("--private", *WORDS, "--n", "70", "--epsilon", "0.5", "--bounds", "0,10")
    shown = CliRunner().invoke(app, ["allocate", *private])
    assert "square-root" in shown.stdout
