"""Every file is written by one module: nothing else in the source opens, makes, moves or replaces one."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted(SOURCE.glob("dpsurvey*/**/*.py"))
WRITING = "dpsurvey/text/writing.py"
# What makes, fills, moves or replaces a file, by the name that is called.
VERBS = re.compile(
    "write_text|write_bytes|touch|symlink_to|hardlink_to|to_csv|to_parquet|to_excel|write_parquet|write_csv|write_table|savefig|tofile"
    "|savez|savetxt|copyfile|copy2|copytree|move|replace|rename|link|symlink|mkstemp|NamedTemporaryFile|TemporaryDirectory|mkdtemp"
    "|ParquetWriter|open|fdopen|truncate"
)
OF_OS = {"replace", "rename", "link", "symlink", "truncate", "fdopen"}
OF_SHUTIL = {"copyfile", "copy2", "copytree", "move", "copy"}
# The rest, each with its reason.
ELSEWHERE = {
    ("dpsurvey/ledger/anchor.py", "fdopen"): "the same file, to read",
    ("dpsurvey/ledger/anchor.py", "open"): "adds a line at the end of an anchor, under a lock",
    ("dpsurvey/ledger/locks.py", "open"): "an empty file that writing made, to try locks on it; gone at once",
    ("dpsurvey/cli/output.py", "open"): "the null device, in place of a stdout that nobody reads",
    ("dpsurvey/engine/__init__.py", "mkdtemp"): "a scratch folder of the backend, closed to others",
    ("dpsurvey/cli/ledger.py", "TemporaryDirectory"): "an empty ledger, to compute with, in a folder that goes away",
    ("dpsurvey_papers/limits/sublinear.py", "TemporaryDirectory"): "a register, to compute with, in a folder that goes away",
    ("dpsurvey/engine/__init__.py", "to_parquet"): "the sample, in the private folder that writing made for it",
    ("dpsurvey/engine/__init__.py", "write_table"): "the sample, in the private folder that writing made for it",
}


def called(node):
    function = node.func
    if isinstance(function, ast.Name):
        return "", function.id
    if isinstance(function, ast.Attribute):
        return ast.unparse(function.value), function.attr
    return "", ""


def writes(node):
    """Whether a call makes or changes a file: by its verb, and for `open` by its mode or flags."""
    owner, verb = called(node)
    if not VERBS.fullmatch(verb):
        return False
    # The function `open` has the name of the file first, the method of a path has none.
    arguments = node.args[1:] if verb == "open" and not owner else node.args
    words = [ast.unparse(each) for each in [*arguments, *(keyword.value for keyword in node.keywords)]]
    if verb == "open":
        if owner == "os":
            return any(flag in word for word in words for flag in ("O_CREAT", "O_WRONLY", "O_RDWR", "O_APPEND"))
        modes = [word.strip("'\"") for word in words if word[:1] in "'\"" and len(word) <= 6]
        return any(set(mode) & set("wax+") for mode in modes if set(mode) <= set("rwaxbt+"))
    if verb in OF_OS:
        return owner in ("os", "Path", "half", "temporary")
    if verb in OF_SHUTIL:
        return owner == "shutil"
    if verb in ("write_table", "write_csv"):
        return owner in ("pq", "pa_csv", "pa.csv", "pyarrow.parquet")
    if verb in ("to_csv", "write_parquet"):
        return bool(words) and owner not in ("self", "")
    return True


def writers(text):
    return [(node.lineno, called(node)[1]) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and writes(node)]


def through_writing(text, line):
    """Whether a call stands inside the content that `write_file` is given, or writes to a file in memory."""
    words = text.splitlines()[line - 1]
    return "write_file(" in words or "io.BytesIO()" in words


def by_themselves(path):
    """(name, line, verb) of every call in a file of the source that writes past the module of writing."""
    name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
    return [(name, line, verb) for line, verb in writers(text) if name != WRITING and not through_writing(text, line)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_but_the_module_of_writing_writes_a_file(path):
    assert [each for each in by_themselves(path) if (each[0], each[2]) not in ELSEWHERE] == []


def test_every_exception_is_still_needed():
    assert writers((SOURCE / WRITING).read_text(encoding="utf-8"))
    assert {(name, verb) for path in FILES for name, _, verb in by_themselves(path)} == set(ELSEWHERE)


def test_no_other_module_lets_a_database_copy_to_a_file():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.lstrip().lower().startswith(("copy (", "export database", "vacuum into")), path


@pytest.mark.parametrize(
    "line",
    [
        'open("x", "w")',
        'open(name, mode="ab")',
        'Path("x").open("r+b")',
        'Path("x").write_text(text)',
        "os.open(path, os.O_CREAT | os.O_WRONLY)",
        "os.replace(a, b)",
        "frame.to_csv(path)",
        "pq.write_table(table, path)",
        "shutil.move(a, b)",
        "tempfile.mkstemp()",
    ],
)
def test_the_search_sees_every_way_of_writing(line):
    assert writers(line)


@pytest.mark.parametrize(
    "line", ['open("x")', 'open(name, "rb")', "os.open(path, os.O_RDONLY)", 'text.replace("a", "b")', "write_file(a, b)"]
)
def test_the_search_lets_readers_be(line):
    assert not writers(line)
