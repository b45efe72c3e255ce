"""The code blocks of a page, and how their commands are run; read by the test files beside it."""

import doctest
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

from typer.main import get_command

from dpsurvey.cli.app import app
from tests.command_line import invoke
from tests.surface import docs_files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DESIGNS = sorted((DOCS / "designs").glob("*.md"))
GUIDES, CONCEPTS, PROOFS = DOCS / "guides", DOCS / "concepts", DOCS / "proofs"
ERRATA = DOCS / "papers" / "errata.md"
# Pages that people write; the gallery of the papers and the reference are written by the package.
WRITTEN = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name not in ("_generated", "papers")] + [ERRATA]
# Pages with tests of their own.
APART = [page for page in WRITTEN if page.name in ("index.md", "start.md", "concepts.md", "limits.md", "glossary.md")]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(page for page in WRITTEN if page not in APART)]
ALL = [*PAGES, *APART]
FENCE = re.compile(r"^ *```(.*)\n((?:.*\n)*?) *```$", re.M)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
WHOLE = get_command(app)


class Block(NamedTuple):
    """A fenced block: its label, its text, and where it is."""

    kind: str
    text: str
    place: str


def blocks(page, *kinds):
    """The fenced blocks of a page, of these kinds or all."""
    text = page.read_text(encoding="utf-8")
    found = [(hit, text.count("\n", 0, hit.start()) + 1) for hit in FENCE.finditer(text)]
    made = [Block(hit[1].strip(), hit[2], f"{page.parent.name}/{page.name}:{line}") for hit, line in found]
    return [each for each in made if not kinds or each.kind in kinds]


def without_numbers(text):
    """A table whose numbers are other ones each time: its words, in their order."""
    return re.sub(r" +", " ", re.sub(r"\d[\d,.]*", "#", text))


def pages_with(*kinds):
    """Pages that have a block of one of these kinds."""
    return [page for page in PAGES if blocks(page, *kinds)]


def name(page):
    """A page in the name of a test."""
    return str(page.relative_to(ROOT).with_suffix("")).removeprefix("docs/")


def run_python(block, names):
    """Run a block with names that blocks before it left, and compare what it prints; how many examples it has."""
    if ">>>" not in block.text:
        exec(compile(block.text, block.place, "exec"), names)
        return 1
    test = doctest.DocTestParser().get_doctest(block.text, {}, block.place, block.place, 0)
    test.globs = names
    said = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    assert result.failed == 0, "".join(said)
    return result.attempted


def commands(block):
    """(words, lines of output) of each command: every line of a sh block, lines behind a dollar of a console block."""
    made = []
    # A command may go on behind a backslash.
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.kind == "sh" or line.startswith("$ "):
            made.append((shlex.split(line.removeprefix("$ "), comments=True), []))
        else:
            made[-1][1].append(line)
    assert all(words for words, _ in made), block.place
    return made


def parse(words):
    """Read the words of a command as `dpsurvey` would, and do nothing: unknown commands, options and values are errors."""
    command = WHOLE
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command.make_context("dpsurvey", list(words))


def on_spark(words):
    """Whether a command needs Spark."""
    return "spark" in words


def dpsurvey(words):
    """stdout of a command, which has to end well."""
    found = invoke(*words)
    assert found.exit_code == 0, f"dpsurvey {shlex.join(words)}\n{found.output}\n{found.exception!r}"
    return found.stdout


def run_commands(block):
    """Run the commands of a block in the current folder and compare the first lines of output with those shown.

    Commands on Spark are left to `parse`; of `make` and `pip` it is checked that they name what there is.
    """
    for words, shown in commands(block):
        match words:
            case ["dpsurvey", *rest] if on_spark(rest):
                pass
            case ["dpsurvey", *rest]:
                docs_files.before(rest)
                printed = dpsurvey(rest).splitlines()
                assert printed[: len(shown)] == shown, block.place
                docs_files.after(rest, dpsurvey)
            case ["pip", "install", "."]:
                assert (ROOT / "pyproject.toml").exists(), block.place
            case ["pip", "install", what]:
                assert what.removeprefix("dpsurvey[").removesuffix("]") in EXTRAS, block.place
            case ["make", target]:
                assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), block.place
            case _:
                raise AssertionError(f"{block.place}: nobody runs {shlex.join(words)}")
