"""Every test can fail: each asserts something, itself or through a helper that does, and none replaces the package by a mock."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]
TREES = {path.relative_to(TESTS).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))}
# What fails by itself, from outside: pytest's own, numpy's assert_..., and the machine of Hypothesis, whose rules assert.
EXPECTS = {"raises", "warns", "fail", "run_state_machine_as_test"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def called(node: ast.Call) -> str:
    """The last name of what is called: `raises` of pytest.raises."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def asserts(function: ast.AST, helpers: Iterable[str]) -> bool:
    names = {called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
    by_itself = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    return by_itself or bool(names & {*EXPECTS, *helpers}) or any(name.startswith("assert_") for name in names)


def shared(tree: ast.Module, files: Iterable[str]) -> set[str]:
    """The files of tests that a file imports, from tests.truth import enumerated, or any name from one of them."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.")]
    places = [(str(node.module).removeprefix("tests.").replace(".", "/"), node.names) for node in named]
    return {f"{place}{name}.py" for place, names in places for name in ("", *(f"/{each.name}" for each in names))} & set(files)


def without_assertion(trees: Mapping[str, ast.Module]) -> list[str]:
    """Tests that nothing can make fail but an exception, by file and name."""
    functions = {file: [node for node in ast.walk(tree) if isinstance(node, Function)] for file, tree in trees.items()}
    seen = {file: {file, *shared(tree, trees)} for file, tree in trees.items()}
    helpers: dict[str, set[str]] = {file: set() for file in trees}
    growing = True
    while growing:
        growing = False
        for file, inside in functions.items():
            known = set().union(*(helpers[each] for each in seen[file]))
            more = {each.name for each in inside if not each.name.startswith("test_") and asserts(each, known)} - helpers[file]
            helpers[file] |= more
            growing = growing or bool(more)
    return [
        f"{file}: {each.name}"
        for file, inside in functions.items()
        for each in inside
        if each.name.startswith("test_") and not asserts(each, set().union(*(helpers[other] for other in seen[file])))
    ]


def test_every_test_asserts_something() -> None:
    assert without_assertion(TREES) == []


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(): f()",
        "def test_a(): pass\ndef helper(): assert True",
        "def test_a(): helper()\ndef helper(): f()",
        "class TestA:\n    def test_a(self): f()",
    ],
)
def test_the_search_sees_a_test_without_assertion(text: str) -> None:
    assert without_assertion({"x.py": ast.parse(text)}) == ["x.py: test_a"]


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(): assert f()",
        "def test_a():\n    with pytest.raises(ValueError): f()",
        "def test_a(): np.testing.assert_allclose(a, b)",
        "def test_a(): one()\ndef one(): two()\ndef two(): assert True",
    ],
)
def test_the_search_lets_tests_with_assertions_be(text: str) -> None:
    assert without_assertion({"x.py": ast.parse(text)}) == []


# Where a test replaces a part of the package: to plant a fault that must be found, to fail or to count at one moment, or to
# meet in a small case what only large ones have. No answer of the package is made up for a test to pass.
FAULT, MOMENT, COUNTS, SMALL = "plants a fault", "fails at a moment", "counts, and lets through", "makes a large case small"
REPLACES = {
    "leaks/test_draws_tell_nothing.py": FAULT,
    "ledger/test_keys_on_record.py": MOMENT,
    "local/test_mechanisms_of_others.py": "puts mechanisms of its own on the list, for this file",
    "papers/test_controlling_loss.py": FAULT,
    "papers/test_items_use_public_names.py": FAULT,
    "papers/test_limits.py": COUNTS,
    "surface/test_allocation_rules_of_others.py": "puts a rule of its own on the list, for this file",
    "surface/test_published_is_never_lost.py": "puts a design of its own on the list, for one test",
    "surface/test_sealed_sample.py": MOMENT,
    "truth/released.py": "repeats the noise, so that neighbours can be compared",
    "truth/test_files_and_words_of_neighbours.py": FAULT,
    "truth/test_losses_of_strata.py": FAULT,
    "truth/test_losses_of_whole_releases.py": FAULT,
    "truth/test_pps_draws.py": "puts a method of its own on the list, for one test",
    "truth/test_secret_draws.py": SMALL,
    "truth/test_whole_releases_of_neighbours.py": FAULT,
}
PATCHES = {"setattr", "setitem", "delattr", "delitem"}


def replaced(tree: ast.Module) -> list[str]:
    """What a file of tests puts something else in the place of, but for other people's modules."""
    others = {
        (each.asname or each.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not str(node.module).startswith("dpsurvey"))
        for each in node.names
        if isinstance(node, ast.ImportFrom) or each.name.split(".")[0] != "dpsurvey"
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PATCHES and node.args:
            owner = node.args[0]
            words = str(owner.value) if isinstance(owner, ast.Constant) else ast.unparse(owner)
            first = words.split(".")[0].split("[")[0]
            if first not in others and first != "opendp":
                found.append(words)
    return found


def mocks(tree: ast.Module) -> bool:
    modules = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    return any(each.startswith(("unittest.mock", "mock", "pytest_mock")) for each in modules)


def test_no_test_uses_mocks() -> None:
    assert [file for file, tree in TREES.items() if mocks(tree)] == []
    assert mocks(ast.parse("from unittest.mock import patch"))


def test_what_is_replaced_in_the_package_is_replaced_for_a_reason() -> None:
    assert {file for file, tree in TREES.items() if replaced(tree)} == set(REPLACES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from dpsurvey.engine import Engine\nmonkeypatch.setattr(Engine, 'draw', f)", ["Engine"]),
        ("import dpsurvey as ds\nmonkeypatch.setattr(ds.Plan, 'release', f)", ["ds.Plan"]),
        ("monkeypatch.setattr('dpsurvey.engine.secret.CHUNK', 7)", ["dpsurvey.engine.secret.CHUNK"]),
        ("import os\nmonkeypatch.setattr(os, 'replace', f)", []),
    ],
)
def test_the_search_sees_what_is_replaced(text: str, found: list[str]) -> None:
    assert replaced(ast.parse(text)) == found
