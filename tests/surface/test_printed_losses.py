"""No printed loss is below the exact one, and nothing that is left is printed as more than it is: in every rendering."""

import ast
import html
import json
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.text.layout import ceiling_text, floor_text, given_text
from dpsurvey.view.ledger_plots import budget_plot, budget_rows
from dpsurvey.view.ledger_text import quote_text, tree_text
from dpsurvey.view.plots import to_svg
from dpsurvey.view.report import report_html
from tests.surface.amplify_runner import dpsurvey

SOURCE = Path(__file__).parents[2] / "src" / "dpsurvey"
AWKWARD = (0.1049, 0.28248, 1.00000001, 1e-9, 1 / 3, 4.999951, 0.99996)
FIGURE = r"(\d[\d,]*\.?\d*(?:e[-+]\d+)?)"


def figures(text, before, after=""):
    """Every number that stands behind these words."""
    return [float(each.replace(",", "")) for each in re.findall(rf"{before}{FIGURE}{after}", text)]


def at_least(text, before, exact, after=""):
    """The loss is printed behind these words: never below what holds, and by no more than a digit above."""
    found = figures(text, before, after)
    assert found, (before, text)
    assert all(exact <= each <= 1.002 * exact for each in found), (before, exact, found)


def at_most(text, before, exact):
    """What is left is printed behind these words, and never more than it is."""
    found = figures(text, before)
    assert found, (before, text)
    assert all(0.998 * exact - 1e-9 <= each <= exact for each in found), (before, exact, found)


def random_losses(number, seed=1):
    chance = random.Random(seed)
    return [10.0 ** chance.uniform(-9.0, 2.0) for _ in range(number)]


@pytest.mark.parametrize("digits", [1, 3, 4, 6, 10])
def test_rounding_never_goes_the_wrong_way_and_stays_within_a_digit(digits):
    for value in [*AWKWARD, *random_losses(3000)]:
        above, below = float(ceiling_text(value, digits)), float(floor_text(value, digits))
        assert below <= value <= above
        assert above - value <= 10.0 ** (1 - digits) * value * 1.0000001
        assert value - below <= 10.0 ** (1 - digits) * value * 1.0000001


def test_what_somebody_gave_is_printed_as_it_was_given():
    for written in ("1", "0.1", "2.5", "0.28248", "1.00000001", "1e-06", "1e-09", "0.3", "12"):
        assert given_text(float(written)) == written
    assert [ceiling_text(each) for each in (1.0, 0.1, 0.3, 2.5)] == ["1", "0.1", "0.3", "2.5"]
    assert [floor_text(each) for each in (1.0, 0.1, 0.3, 2.5)] == ["1", "0.1", "0.3", "2.5"]


def survey_at(folder, epsilon, delta=0.0):
    values = np.random.default_rng(5).gamma(2.0, 10.0, 400)
    frame = ds.Frame(pa.table({"id": np.arange(400), "income": values}), unit="id", size=400)
    setting = ds.Setting("frame", neighbours="add-remove")
    return ds.Survey(frame, ds.poisson(0.1), setting, budget=ds.Budget(epsilon, delta), ledger=folder / "x.ledger")


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [*((each, 0.0) for each in AWKWARD[:5]), (0.28248, 1.23456789e-7), *((each, 0.0) for each in random_losses(2, seed=2))],
)
def test_a_release_says_no_less_than_it_lost_in_any_rendering(tmp_path, epsilon, delta):
    survey = survey_at(tmp_path, epsilon, delta)
    plan = survey.plan(ds.mean("income", (0, 100)), share=0.7)
    release = plan.release()
    document = release.to_dict()
    guarantee, books = document["guarantee"], document["ledger"]
    known, leaks = guarantee["in_sample"]["epsilon"], guarantee["sample_leaks"]["epsilon"]
    page = html.unescape(re.sub(r"<[^>]+>", " ", report_html(release)))
    for text in (guarantee["sentence"], str(release), page):
        at_least(text, "Anyone on the frame: epsilon ", guarantee["epsilon"])
        at_least(text, "Someone known to be in the sample: epsilon ", known)
        at_least(text, "If the sample list leaks: ", leaks)
        if delta:
            at_least(text, r"epsilon \S+ \(delta ", delta)
            at_least(text, r"leaks: \S+ \(delta ", guarantee["sample_leaks"]["delta"])
    at_least(guarantee["specification"], "budget +epsilon ", guarantee["epsilon"])
    at_least(page, "ε ", guarantee["epsilon"], " +anyone on the frame")
    at_least(page, "ε ", known, " +someone known")
    at_least(page, "ε ", leaks, " +what the estimates add")
    at_least(page, rf"{document['sample']['id'][:12]} +", books["samples"][0]["epsilon_in_sample"])
    at_least(page, "spent ", books["spent"])
    at_most(page, "left ", books["left"])
    with ds.Ledger(tmp_path / "x.ledger") as ledger:
        view = ledger.tree()
    (told,) = view["surveys"]
    at_least(tree_text(view), "spent ", told["spent"])
    at_least(tree_text(view), "someone known to be in it ", told["samples"][0]["epsilon_in_sample"])
    at_least(tree_text(view), "frame, add-remove: epsilon ", view["accounts"][0]["epsilon"])
    at_most(tree_text(view), "left ", told["left"])
    assert f"budget epsilon {given_text(epsilon)}" in tree_text(view)
    drawn = "\n".join(re.findall(r'aria-label="([^"]*)"', to_svg(budget_plot(budget_rows(view)))))
    at_least(drawn, "ε: ", told["spent"], "; name: [^;]*; part: spent")
    at_least(drawn, "epsilon_in_sample: ", told["epsilon_in_sample"])
    at_least(drawn, "text: ", told["spent"])
    at_least(str(plan), "By this plan alone: Anyone on the frame: epsilon ", plan.terms.guarantee(plan.charged).epsilon)
    again = survey.plan(ds.total("income", (0, 100)), share=0.7)
    quote = survey.what_if(again).to_dict()
    level = next(each for each in quote["levels"] if not each["fits"])
    at_least(quote_text(quote | {"levels": [level]}), "requested ", level["requested"])
    at_least(quote_text(quote | {"levels": [level]}), "short by ", level["short_by"])
    at_most(quote_text(quote | {"levels": [level]}), "left now ", level["left"])
    with pytest.raises(ds.errors.BudgetExceeded) as caught:
        again.release()
    at_least(str(caught.value), "Requested ", caught.value.requested)
    at_most(str(caught.value), "Left ", caught.value.left)


@pytest.mark.parametrize("epsilon", AWKWARD)
@pytest.mark.parametrize(
    "design",
    [
        "poisson --rate 0.1",
        "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.3",
        "cluster --sizes 3,4,5 --take 2",
        "collected",
    ],
)
def test_amplify_prints_losses_up_and_what_to_spend_and_lower_bounds_down(design, epsilon):
    line = f"{design} --base add-remove --neighbours add-remove --epsilon {epsilon!r}"
    given, words = (dpsurvey(f"{line}{more}") for more in (" --json", ""))
    exact, text = json.loads(given[1]), words[1]
    if exact["refused"] is None:
        at_least(text, "^epsilon ", exact["epsilon"])
        at_least(text, "sample list leaks: epsilon ", exact["epsilon_in_sample"])
        assert all(each <= exact["lower"] for each in figures(text, "at least "))
    given, words = (dpsurvey(f"{line} --invert{more}") for more in (" --json", ""))
    if given[0] == 0 and json.loads(given[1])["refused"] is None:
        at_most(words[1], "spend epsilon ", json.loads(given[1])["epsilon"])


@pytest.mark.parametrize("epsilon", AWKWARD)
def test_comparisons_print_and_draw_losses_up(tmp_path, monkeypatch, epsilon):
    monkeypatch.chdir(tmp_path)
    line = f"--rate 0.1 --epsilon {epsilon!r}"
    rows = json.loads(dpsurvey(f"{line} --json", "compare designs")[1])
    table = dpsurvey(f"{line} --plot x.svg", "compare designs")[1].splitlines()[1:]
    drawn = "\n".join(re.findall(r'aria-label="([^"]*)"', Path("x.svg").read_text(encoding="utf-8")))
    for shown, row in zip(table, rows, strict=True):
        types = f" {row['base']} +{row['neighbours']} +"
        if row["epsilon"] is not None:
            at_least(shown, types, row["epsilon"])
            at_least(
                drawn,
                "log scale: ",
                row["epsilon"],
                rf"; design: {re.escape(row['design'])}  \({row['base']} → {row['neighbours']}\)",
            )
        if row["epsilon_in_sample"] is not None:
            at_least(shown, types + r"\S+ +", row["epsilon_in_sample"])
    rows = json.loads(dpsurvey(f"{line} --json", "compare caps")[1])
    for shown, row in zip(dpsurvey(line, "compare caps")[1].splitlines()[1:], rows, strict=True):
        *_, known, _, same = shown.split()
        assert float(known) >= row["epsilon_in_sample"]
        assert float(same) >= row["epsilon_of_same_noise"]


@pytest.mark.parametrize("epsilon", AWKWARD[:3])
def test_local_collection_prints_losses_up(epsilon):
    made = ds.local.choose(k=5, epsilon=epsilon)
    at_least(str(made), "categories at ε ", epsilon)
    for option in made.options:
        at_least(str(made), rf"\n{option.mechanism.kind} +", option.mechanism.epsilon)
    statement = ds.local.guarantee(made.best.mechanism).statements[0]
    at_least(str(statement), "epsilon ", statement.epsilon)


# What losses and their parts are called in the source. A figure with such a name reaches people through `layout` alone.
NAMES = re.compile(
    r"epsilon|delta|\bloss|losses|\bspent\b|\bleft\b|leaks|\brho\b|\bmu\b|short_by|charged|claimed|in_(worst_)?sample|\blower\b|elsewhere"
)


def test_no_other_formatting_is_applied_to_losses_in_the_source():
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if "papers" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                value, how = ast.unparse(node.value), ast.unparse(node.format_spec)[2:-1]
                if NAMES.search(value) and re.search(r"[gfeGFE%]$", how):
                    found.append(f"{file.name}:{node.lineno} {{{value}:{how}}}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("round", "number_text", "format") and node.args:
                value = ast.unparse(node.args[0])
                if NAMES.search(value):
                    found.append(f"{file.name}:{node.lineno} {ast.unparse(node)}")
    for file in sorted(SOURCE.rglob("*.j2")):
        lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        found += [
            f"{file.name}:{n}" for n, line in lines for each in re.findall(r"format\(([^)]*)\)", line) if NAMES.search(each)
        ]
    assert found == []
