"""`dpsurvey amplify`, what goes round a design: deltas, beliefs, witnesses, stages, files, scopes, comparison and help."""

import json
import math
import pickle
from dataclasses import dataclass

import pytest

from dpsurvey.cli.amplify import in_words
from dpsurvey.design import DESIGNS
from dpsurvey.design.amplify import amplify
from dpsurvey.design.base import Undrawn
from dpsurvey.loss.bound import Bound, Figure
from tests.surface import amplify_runner as run

pytestmark = pytest.mark.quick

dpsurvey, answer = run.dpsurvey, run.answer
ADD, REPLACE, BOTH = run.ADD, run.REPLACE, run.BOTH
ALL = [name for design in DESIGNS.values() for name in design.commands]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Deltas


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_delta_of_a_simple_random_sample_is_the_sampling_fraction_of_the_mechanisms(epsilon):
    pure = answer(f"srs --n 101 --population 10001 --epsilon {epsilon}", REPLACE, REPLACE)
    given = answer(f"srs --n 101 --population 10001 --epsilon {epsilon} --delta 1e-6", REPLACE, REPLACE)
    assert given["epsilon"] == pytest.approx(pure["epsilon"], rel=1e-12)
    assert given["delta"] == pytest.approx(1.00989901009899e-08, rel=1e-9)
    assert (given["exact"], given["lower"]) == (False, None)


@pytest.mark.parametrize(("rate", "delta"), [(0.5, 5e-06), (0.001, 1e-08)])
def test_the_delta_of_poisson_sampling_is_the_rate_times_the_mechanisms(rate, delta):
    assert answer(f"poisson --rate {rate} --epsilon 1 --delta 1e-5")["delta"] == pytest.approx(delta, rel=1e-9)


def test_invert_gives_the_delta_to_spend():
    given = answer(f"srs --n 101 --population 10001 --epsilon 1 --delta {1 / 20002!r} --invert", REPLACE, REPLACE)
    assert given["epsilon"] == pytest.approx(5.1425048773479025, rel=1e-9)
    assert given["delta"] == pytest.approx(0.0049504950495049506, rel=1e-9)
    assert given["guarantee"]["delta"] <= given["target"]["delta"]


# Beliefs and witnesses


@pytest.mark.parametrize(
    ("line", "who", "end", "value"),
    [
        ("poisson --rate 1 --epsilon 1 --prior 0.5", "outsider", "posterior_at_most", 0.5 * 1.4621171572600098),
        ("poisson --rate 0.1 --epsilon 1 --prior 0.1", "any sampled record", "posterior_at_least", 0.1 * 0.3927030055005057),
        (
            "srs --n 1 --population 9 --epsilon 3 --prior 0.01",
            "sample list leaks",
            "posterior_at_most",
            0.01 * 16.866478870682005,
        ),
        (
            "srs --n 1 --population 9 --epsilon 3 --prior 0.01",
            "knows someone is in the sample",
            "posterior_at_least",
            0.01 * 0.05026468995183104,
        ),
    ],
)
def test_a_prior_gives_how_far_each_attacker_moves_it(line, who, end, value):
    relation = REPLACE if line.startswith("srs") else ADD
    attackers = answer(line, relation, relation)["attackers"]
    assert attackers[who][end] == pytest.approx(value, rel=1e-9)
    prior = float(line.split()[-1])
    assert all(0.0 < each["posterior_at_least"] <= prior <= each["posterior_at_most"] < 1.0 for each in attackers.values())
    words = dpsurvey(f"{line} --base {relation} --neighbours {relation}")[1]
    assert "outsider" in words
    assert "sample list leaks" in words


@pytest.mark.parametrize(
    ("design", "types"),
    [
        ("srs --n 2 --population 5", (REPLACE, REPLACE)),
        ("srs --n 2 --population 5", (ADD, REPLACE)),
        ("with-replacement --n 2 --population 4", (REPLACE, REPLACE)),
        ("poisson --rate 0.1", (ADD, ADD)),
        ("poisson --rate 0.3", (ADD, REPLACE)),
        ("stratified --rate 0.1 --rounding random --population 14", (ADD, ADD)),
        ("stratified --rate 0.25 --rounding nearest --population 4", (BOTH, ADD)),
        ("random-size --population 6 --gaussian 3 1", (ADD, REPLACE)),
        ("cluster --sizes 2,1,3 --take 1", (ADD, ADD)),
        ("cluster --sizes 1,1,4,6 --take 2 --unit-in 1", (BOTH, REPLACE)),
        ("cluster --cap 2 --clusters 4 --take 2", (ADD, ADD)),
        ("pps --probabilities 0.5,0.5,0.5,0.5 --measure public --method systematic", (REPLACE, REPLACE)),
        ("pps-cluster --sizes 1,1", (ADD, ADD)),
        ("pps-cluster --sizes 2,3,4 --take 2", (ADD, REPLACE)),
        ("systematic --step 3 --n 2 --order fixed", (ADD, REPLACE)),
        ("systematic --step 3 --n 4 --order fixed", (ADD, ADD)),
    ],
)
def test_the_witness_attains_what_an_exact_answer_says(design, types):
    given = answer(f"{design} --epsilon 0.5 --witness", *types)
    assert given["exact"] is True
    assert given["worst_case"]["exact"] is True
    assert given["worst_case"]["lower"] == pytest.approx(given["lower"], rel=1e-6)
    code, words, _ = dpsurvey(f"{design} --epsilon 0.5 --witness --base {types[0]} --neighbours {types[1]}")
    assert code == 0
    assert "worst case by linear programme" in words


def test_a_witness_that_is_too_large_to_write_down_is_null_and_not_an_error():
    for design in (
        "srs --n 1000 --population 50000",
        "systematic --step 10 --n 50 --order fixed",
        "cluster --cap 9 --clusters 99 --take 9",
    ):
        given = answer(f"{design} --epsilon 1 --witness", ADD, REPLACE)
        assert given["epsilon"] > 0.0
        assert given["worst_case"] is None or given["worst_case"]["lower"] <= given["epsilon"] * (1 + 1e-9)


# Stages and groups


@pytest.mark.parametrize(
    ("line", "types", "value"),
    [
        ("srs --n 2 --population 4 --response-at-most 0.5", (ADD, REPLACE), 0.6201145069582775),
        ("poisson --rate 0.4 --coverage-at-most 0.5", (ADD, ADD), 0.29539452912034764),
        ("poisson --rate 0.5 --response-at-most 0.4", (ADD, ADD), 0.29539452912034764),
        ("poisson --rate 0.4 --coverage-at-most 0.5 --response-at-most 0.5", (ADD, ADD), 0.1585650787404291),
        ("poisson --rate 0.1 --group 3 --drawn separately", (ADD, ADD), 3 * 0.1585650787404291),
        ("poisson --rate 0.1 --group 3 --drawn together", (ADD, ADD), math.log1p(0.1 * math.expm1(3.0))),
        (
            "poisson --rate 0.1 --response-at-most 1 --coverage-at-most 1 --group 1 --drawn separately",
            (ADD, ADD),
            0.1585650787404291,
        ),
    ],
)
def test_stages_and_groups_give_the_papers_chains(line, types, value):
    assert answer(f"{line} --epsilon 1", *types)["epsilon"] == pytest.approx(value, rel=1e-9)


def test_respondents_of_a_cluster_sample_are_a_two_stage_sample():
    responding = answer("cluster --sizes 10,10,10,10 --take 1 --response-at-most 0.3 --epsilon 1")
    two_stage = answer("two-stage --clusters 4 --take 1 --cluster-size 10 --unit-rate 0.3 --epsilon 1")
    assert responding["epsilon"] == two_stage["epsilon"]
    assert responding["exact"] is True


@pytest.mark.parametrize("design", ["srs --n 2 --population 5", "two-stage --clusters 9 --take 2 --cluster-size 5 --unit-take 3"])
@pytest.mark.parametrize("types", [(REPLACE, REPLACE), (REPLACE, ADD), (ADD, REPLACE), (BOTH, ADD)])
def test_coverage_never_makes_a_number_that_is_not_one(design, types):
    bare, covered = (answer(f"{design} --epsilon 1{more}", *types) for more in ("", " --coverage-at-most 0.5"))
    assert covered["refused"] or covered["lower"] <= covered["epsilon"] <= bare["epsilon"] * (1 + 1e-9)


# Files and scopes


def test_numbers_may_stand_in_a_file(folder):
    (folder / "sizes.txt").write_text("2 1\n3\n")
    (folder / "pi.txt").write_text("0.3\n0.7\n")
    given = answer("cluster --sizes sizes.txt --take 1 --unit-in 1 --epsilon 0.5")
    assert given["epsilon"] == pytest.approx(0.403478119749152, rel=1e-9)
    both = [
        answer(f"pps --probabilities {each} --measure public --method sampford --epsilon 1", BOTH, REPLACE)
        for each in ("pi.txt", "0.3,0.7")
    ]
    assert both[0] == both[1]
    assert both[0]["details"]["per_unit"][0] == pytest.approx(0.4157352218436287, rel=1e-9)


def test_lists_may_be_long():
    sizes = ",".join(["10"] * 400)
    long = answer(f"cluster --sizes {sizes} --take 4 --epsilon 0.1")
    assert long["epsilon"] == pytest.approx(
        answer("two-stage --clusters 400 --take 4 --cluster-size 10 --unit-rate 1 --epsilon 0.1")["epsilon"]
    )


def test_a_normal_law_of_sizes_gives_the_papers_figure():
    details = answer("random-size --population 10000 --gaussian 5000 100 --epsilon 0.01", BOTH, REPLACE)["details"]
    assert details["tilted_mean"] == pytest.approx(5100.0, rel=1e-9)
    assert details["upper_closed_form"] == pytest.approx(0.005112494115008646, rel=1e-9)


@pytest.mark.parametrize(
    ("design", "neighbours", "scope"),
    [
        ("cluster --sizes 12,8,30 --take 1", ADD, "this population"),
        ("cluster --sizes 12,8,30 --take 1", REPLACE, "every population"),
        ("cluster --cap 5 --clusters 100 --take 10", ADD, "every population"),
        ("two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1", ADD, "this population"),
        ("two-stage --clusters 20 --take 2 --cap 10 --unit-rate 0.1", ADD, "every population"),
        ("stratified --rate 0.1 --rounding random", ADD, "every population"),
        ("stratified --rate 0.1 --rounding random --population 14", ADD, "this population"),
        ("pps-cluster --sizes 5,5,5", ADD, "this population"),
    ],
)
def test_the_scope_says_for_which_populations_the_number_holds(design, neighbours, scope):
    assert answer(f"{design} --epsilon 0.1", ADD, neighbours)["scope"] == scope


@pytest.mark.parametrize("types", [(ADD, ADD), (ADD, REPLACE), (BOTH, ADD), (BOTH, REPLACE)])
def test_a_cap_covers_every_population_of_smaller_clusters(types):
    for design in ("cluster", "two-stage"):
        rate = "--unit-rate 0.3" if design == "two-stage" else ""
        capped = answer(f"{design} --clusters 20 --take 2 --cap 10 {rate} --epsilon 1", *types)
        smaller = answer(f"two-stage --clusters 20 --take 2 --cluster-size 3 {rate or '--unit-rate 1'} --epsilon 1", *types)
        assert capped["scope"] == "every population"
        assert smaller["epsilon"] <= capped["epsilon"] * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0, 200.0, 700.0])
@pytest.mark.parametrize("types", [(ADD, REPLACE), (REPLACE, REPLACE), (BOTH, REPLACE)])
def test_one_pps_cluster_of_equal_sizes_is_one_cluster_drawn_at_random(epsilon, types):
    pps, plain = (
        answer(f"{each} --epsilon {epsilon}", *types) for each in ("pps-cluster --sizes 5,5,5", "cluster --sizes 5,5,5 --take 1")
    )
    assert pps["epsilon"] == pytest.approx(plain["epsilon"], rel=1e-9)


# Comparison and help


def test_the_comparison_shows_the_papers_figures():
    code, table, err = dpsurvey("--rate 0.1 --epsilon 1", "compare designs")
    assert (code, err) == (0, "")
    for design, base, value in [
        ("Poisson", ADD, "0.1586"),
        ("randomised rounding", ADD, "0.5579"),
        ("randomised rounding", BOTH, "0.2826"),
        ("nearest rounding", ADD, "1"),
    ]:
        assert any(line.startswith(design) and f" {base} " in line and value in line.split() for line in table.splitlines())


def test_the_comparison_as_json_is_the_designs_one_by_one():
    rows = json.loads(dpsurvey("--rate 0.1 --epsilon 1 --json", "compare designs")[1], parse_constant=run.no_constant)
    assert all(
        {"design", "base", "neighbours", "epsilon", "lower", "exact", "refused", "epsilon_in_sample", "se", "note"} <= set(row)
        for row in rows
    )
    found = {(row["design"], row["base"]): row["epsilon"] for row in rows}
    assert found["Poisson", ADD] == answer("poisson --rate 0.1 --epsilon 1")["epsilon"]
    assert found["randomised rounding", ADD] == pytest.approx(0.5578102914354849, rel=1e-9)
    assert found["collected file", ADD] is None
    numbers = [row["epsilon"] for row in rows if row["epsilon"] is not None]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(("name", "magic"), [("designs.svg", b"<svg"), ("designs.png", b"\x89PNG\r\n\x1a\n")])
def test_the_comparison_is_drawn_in_the_format_of_its_name(folder, name, magic):
    assert dpsurvey(f"--rate 0.1 --epsilon 1 --plot {name}", "compare designs")[0] == 0
    drawn = (folder / name).read_bytes()
    assert drawn.lstrip().startswith(magic)
    assert len(drawn) > 5000


@pytest.mark.parametrize("design", ["", *ALL])
def test_every_help_has_an_example_that_runs(folder, design):
    (folder / "rule.csv").write_text("population,sample,probability\n5,2,1\n6,3,1\n")
    code, out, _ = dpsurvey(f"{design} --help")
    assert code == 0
    text = run.plain(out)
    assert "Example" in text
    example = text.split("dpsurvey amplify ", 2)[2].split(" Options ")[0].split(" dpsurvey ")[0]
    assert example.startswith(design or "poisson")
    assert dpsurvey(example)[0] == 0


@dataclass(frozen=True)
class Telling(Undrawn):
    """A rule from outside the package with further figures of its own."""

    kind = "telling"
    largest_probability = 0.5

    def bound(self, losses, neighbours):
        figures = {"above": Figure(2 / 3, "in a leap year"), "below": Figure(2 / 3, "at least", from_below=True)}
        return Bound.equal(losses.add_remove, "a test", details={**figures, "silent": 0.25})


def test_further_figures_of_any_design_are_printed_with_their_words_and_rounded_to_their_side():
    loss = amplify(Telling(), 1.0, base="add-remove", neighbours="add-remove")
    text = in_words(loss)
    assert "  in a leap year: 0.6666666667\n" in text
    assert "  at least: 0.6666666666\n" in text
    assert "silent" not in text
    # Without a word of its own it rests on what all bounds rest on.
    assert loss.holds_when == Bound(1.0, 1.0, True, "").common
    assert json.loads(json.dumps(loss.to_dict()))["details"] == {"above": 2 / 3, "below": 2 / 3, "silent": 0.25}
    assert pickle.loads(pickle.dumps(loss.details["below"])).from_below
