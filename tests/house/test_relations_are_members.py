"""A neighbour relation is a member of one type: nothing compares it with a string, which a typing error would turn into "no"."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
NAMES = {"add-remove", "replace-one", "both"}


def compared(text: str) -> Iterator[tuple[int, str]]:
    """Every name of a relation that stands in a comparison, by itself or in a list of several, and in a case of a match."""
    for node in ast.walk(ast.parse(text)):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += [node.value] if isinstance(node, ast.MatchValue) else []
        sides += [part for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set) for part in side.elts]
        for side in sides:
            if isinstance(side, ast.Constant) and side.value in NAMES:
                yield side.lineno, side.value


def test_no_relation_is_compared_with_a_string() -> None:
    files = sorted(SOURCE.glob("dpsurvey*/**/*.py"))
    found = [(path.relative_to(SOURCE).as_posix(), *each) for path in files for each in compared(path.read_text("utf-8"))]
    # In the papers "both" is also an answer to a question of two parts.
    assert [each for each in found if each[2] != "both" or each[0].startswith("dpsurvey/")] == []
    assert len(files) > 300


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('x = neighbours == "add-remove"', ["add-remove"]),
        ('x = "both" in (one, other)', ["both"]),
        ('x = base in ("add-remove", "both")', ["add-remove", "both"]),
        ('x = (one, other) == ("add-remove", "replace-one")', ["add-remove", "replace-one"]),
        ('match base:\n    case "both":\n        pass', ["both"]),
        ('x = Setting("frame", neighbours="add-remove")', []),
    ],
)
def test_a_comparison_with_a_name_is_found(line: str, names: list[str]) -> None:
    assert [name for _, name in compared(line)] == names
