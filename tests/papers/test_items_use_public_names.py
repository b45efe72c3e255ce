"""The papers are computed by the package: by its public names, without a printed value, and by its amplification rule."""

import ast
import math
import re
import sys
import tomllib
from pathlib import Path

import pytest

import dpsurvey
import dpsurvey_papers as papers
from dpsurvey.privacy import rounding
from dpsurvey_papers import Run, verdict_of

ROOM = Path(papers.__file__).parent
COMPUTES = sorted(path for path in ROOM.glob("*/*.py"))
PRINTED = sorted(ROOM.glob("*/printed.toml"))
# Tools of the room itself: what an item is made of, and how it is drawn.
OWN = {"item", "pictures", "data", "specifications"}


def imported(path):
    """(module, name) of everything that a file takes from its own package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


@pytest.mark.parametrize("path", COMPUTES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_items_use_no_other_paper(path):
    for module, name in imported(path):
        # Two dots lead to the package's own tools, one to the same paper; three would leave the package by a back door.
        assert not module.startswith("..."), f"{path.name}: {module}"
        assert not module.startswith("..") or (module[2:] or name) in OWN, f"{path.name}: {module}"
        assert not any(part.startswith("_") for part in (*module.split("."), name))


def attributes(path):
    """Chains such as ds.planning.rates that start at the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        chain = []
        while isinstance(node, ast.Attribute):
            chain, node = [node.attr, *chain], node.value
        if chain and isinstance(node, ast.Name) and node.id == "ds":
            yield chain


@pytest.mark.parametrize("path", COMPUTES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_items_ask_of_the_package_is_on_its_list(path):
    for chain in attributes(path):
        assert chain[0] in dpsurvey.__all__, f"{path.name}: ds.{chain[0]}"
        room = getattr(dpsurvey, chain[0])
        if len(chain) > 1 and hasattr(room, "__path__"):
            assert chain[1] in room.__all__, f"{path.name}: ds.{chain[0]}.{chain[1]}"


def telling(text):
    """Whether a printed number could not stand in the code by accident: three significant digits, not a plain setting."""
    figure = text.replace(",", "").replace("%", "").strip()
    try:
        value = float(figure)
    except ValueError:
        return False
    significant = re.sub(r"e.*$", "", figure.lower()).replace(".", "").replace("-", "").lstrip("0")
    return math.isfinite(value) and len(significant.rstrip("0")) >= 3


def test_no_printed_or_right_value_stands_in_the_code_that_computes():
    seen = 0
    for file in PRINTED:
        numbers = set()
        for table in tomllib.loads(file.read_text(encoding="utf-8")).values():
            for entry in table.get("values", {}).values():
                for text in (str(entry.get("printed", "")), str(entry.get("right", ""))):
                    if telling(text):
                        numbers.add(abs(float(text.replace(",", "").replace("%", ""))))
        seen += len(numbers)
        for path in file.parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
                    assert abs(float(node.value)) not in numbers, f"{path.parent.name}/{path.name}: {node.value}"
    assert seen > 35


LINEAR = {
    "amplified": lambda epsilon, rate: min(1.0, rate) * epsilon,
    "unamplified": lambda epsilon, rate: epsilon / rate,
    "log_mixture": lambda *parts: math.fsum(weight * epsilon for weight, epsilon in parts),
}


@pytest.fixture
def linear(monkeypatch):
    """The package with the rule that the papers use as an approximation: epsilon' = rate times epsilon."""
    for name, rule in LINEAR.items():
        original = getattr(rounding, name)
        for module in [each for key, each in sys.modules.items() if key.split(".")[0] == "dpsurvey"]:
            for attribute, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, attribute, rule)


# Items whose figures rest on the rule: of each paper.
RESTS_ON_THE_RULE = (
    *("000-theorem-1", "000-figure-3", "000-figure-4", "000-figure-5", "000-section-4-1", "000-equation-7"),
    *("001-theorem-1", "001-relation", "001-footnote-1", "001-accuracy", "001-limits"),
    *("002-theorem-4-1", "002-section-4-2", "002-section-5-1-3", "002-section-5-1-4", "002-section-5-2", "002-figure-5-1"),
    "003-section-6",
    *("004-theorem-2-2", "004-section-2-4", "004-theorem-5-2", "004-theorem-7-2"),
)


@pytest.mark.parametrize("name", RESTS_ON_THE_RULE)
def test_a_linear_amplification_rule_changes_the_verdict(name, quick, linear):
    item = papers.item(name)
    assert quick.records[name]["word"] != "differs"
    assert verdict_of(item, item.compute(Run(quick=True, seed=item.seed))).word == "differs"
