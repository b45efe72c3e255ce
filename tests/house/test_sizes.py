"""A look at what is long: functions of more than 60 lines, files of more than 500, each with its reason.

How many ways lead through a function is looked at by ruff (C901, at most 15): `make lint`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

SOURCE = Path(__file__).parents[2] / "src"
FILES = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.glob("dpsurvey*/**/*.py")}
LONGEST_FUNCTION, LONGEST_FILE = 60, 500
KEYWORDS = "a line for each of its many keywords, each said and refused by its name"
# What is longer on purpose. A new line here is a decision: is it one subject, and would a reader thank us for two pieces?
LONG_FUNCTIONS = {
    ("dpsurvey/cli/allocate.py", "allocate"): KEYWORDS,
    ("dpsurvey/cli/local.py", "estimate"): KEYWORDS,
    ("dpsurvey/local/estimate.py", "estimate"): KEYWORDS,
}
LONG_FILES = {
    "dpsurvey/design/stages.py": "samples by stages, and two of them exactly: one proof for every pair of stages",
    "dpsurvey/statistic/encodings.py": "every encoding of a record, which share their parts",
}


def lengths(text: str) -> Iterator[tuple[str, int]]:
    """Every function of a file and its lines, its docstring left out."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            words = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
            said = 1 + (words.end_lineno or 0) - words.lineno if words is not None else 0
            yield node.name, 1 + (node.end_lineno or 0) - node.lineno - said


def test_no_function_is_long_without_a_reason() -> None:
    long = {(file, name) for file, text in FILES.items() for name, lines in lengths(text) if lines > LONGEST_FUNCTION}
    assert len(FILES) > 300
    assert long - set(LONG_FUNCTIONS) == set()


def test_no_file_is_long_without_a_reason() -> None:
    long = {file for file, text in FILES.items() if len(text.splitlines()) > LONGEST_FILE}
    assert long - set(LONG_FILES) == set()


def test_what_has_a_reason_is_there() -> None:
    assert set(LONG_FILES) <= set(FILES)
    assert set(LONG_FUNCTIONS) <= {(file, name) for file, text in FILES.items() for name, _ in lengths(text)}


@pytest.mark.parametrize(("lines", "docstring", "long"), [(59, 0, False), (60, 0, True), (59, 30, False), (60, 30, True)])
def test_lines_are_counted_without_the_docstring(lines: int, docstring: int, long: bool) -> None:
    words = ['    """' + "\n" * (docstring - 1) + '    """'] if docstring else []
    text = "\n".join(["def f():", *words, *["    a = 1"] * lines])
    ((_, counted),) = lengths(text)
    assert (counted > LONGEST_FUNCTION) == long
