"""Code inside sentences is true too: commands parse, options are some command's, names resolve and take the arguments shown."""

import ast
import importlib
import inspect
import re
import shlex
from typing import NamedTuple

import pytest
import typer

import dpsurvey as ds
from dpsurvey import planning
from tests.surface import docs_runner as run

pytestmark = pytest.mark.quick

PAGES = run.ALL
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NAME = re.compile(r"(?<![\w.\"'/])(ds|dpsurvey|planning|plan|survey|release|frame)((?:\.[A-Za-z_]\w*)+)")
# What is called so on the pages, and the ends of files that are called so too.
ROOTS = {"ds": ds, "dpsurvey": ds, "planning": planning}
ROOTS |= {"plan": ds.Plan, "survey": ds.Survey, "release": ds.Release, "frame": ds.Frame}
FILES = ("toml", "json", "csv", "parquet", "html", "ledger", "svg", "png", "key", "anchor", "py", "md")
# What the command line raises for wrong words.
USAGE = typer.BadParameter.__mro__[1]
# Options of the scripts beside the package.
SCRIPTS = "".join(each.read_text(encoding="utf-8") for each in (run.ROOT / "benchmarks").rglob("*.py"))


class Inline(NamedTuple):
    """Code between two backticks: its text on one line, and where it is."""

    text: str
    place: str


def inline(page):
    """The code inside the sentences of a page; fenced blocks are run elsewhere."""
    text = run.FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    return [
        Inline(" ".join(hit[1].split()), f"{page.name}:{text.count(chr(10), 0, hit.start()) + 1}") for hit in CODE.finditer(text)
    ]


def command_of(words):
    """The command that words begin with, and the words behind it."""
    command = run.WHOLE
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command):
    """The options of a command and of all below it."""
    below = [option for each in getattr(command, "commands", {}).values() for option in options_of(each)]
    return {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | set(below) | {"--help"}


def wrong_command(words):
    """What is wrong with a command, if anything; what is left out of it, in a sentence, is not wrong."""
    try:
        command, rest = command_of(words)
    except AssertionError as missing:
        return str(missing)
    if hasattr(command, "commands"):
        return f"no option {rest[0]!r}" if rest and rest[0] not in options_of(command) else ""
    if unknown := [word for word in rest if word.startswith("--") and word.split("=")[0] not in options_of(command)]:
        return f"no option {unknown[0]!r}"
    try:
        command.make_context("dpsurvey", list(rest))
    except typer.Exit:
        return ""
    except USAGE as error:
        # An argument that is left out; `--key-file` as the last word, where the sentence is about the option.
        left_out = type(error).__name__ == "MissingParameter" or (type(error).__name__ == "BadOptionUsage" and rest[-1][0] == "-")
        return "" if left_out else str(error.format_message())
    return ""


def wrong_option(text):
    """An option that stands alone must be one of some command, or of a script of the benchmarks."""
    known = options_of(run.WHOLE)
    return next(
        (
            f"no command has {word!r}"
            for word in text.split()
            if re.match(r"--[a-z]", word) and word not in known and f'"{word}"' not in SCRIPTS
        ),
        "",
    )


def resolved(root, path):
    """What a dotted name stands for; AttributeError where there is nothing."""
    found = ROOTS[root]
    for place, name in enumerate(path):
        if not hasattr(found, name) and inspect.ismodule(found):
            found = importlib.import_module(f"{found.__name__}.{name}")
        elif not hasattr(found, name) and inspect.isclass(found) and f"self.{name} = " in inspect.getsource(found):
            return None
        else:
            found = getattr(found, name)
        if root not in ("ds", "dpsurvey", "planning") and place == 0 and isinstance(found, property):
            return None
    return found


def wrong_names(text):
    """Names that lead nowhere, and calls that would not be taken."""
    for root, path in NAME.findall(text):
        parts = path.strip(".").split(".")
        if parts[-1] in FILES:
            continue
        try:
            resolved(root, parts)
        except (AttributeError, ModuleNotFoundError):
            yield f"there is no {root}{path}"
            return
    # `base=,` in a sentence stands for some value.
    try:
        tree = ast.parse(re.sub(r"=(?=[,)])", "=None", text), mode="eval")
    except SyntaxError:
        return
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if re.fullmatch(NAME, name) and (made := resolved(name.split(".")[0], name.split(".")[1:])) is not None:
            own = [None] if name.split(".")[0] in ("plan", "survey", "release", "frame") else []
            try:
                inspect.signature(made).bind_partial(*own, *call.args, **{each.arg: None for each in call.keywords if each.arg})
            except TypeError as error:
                yield f"{name}: {error}"


def wrong(page):
    """Everything that is wrong with the code inside the sentences of a page, and how much was looked at."""
    found, seen = [], 0
    for text, place in inline(page):
        first = text.split()[0]
        if first == "dpsurvey" or (first in run.WHOLE.commands and re.search(r" -{1,2}[a-z]", text)):  # type: ignore[attr-defined]
            said = [wrong_command(shlex.split(text.removeprefix("dpsurvey")))]
        elif first.startswith("--"):
            said = [wrong_option(text)]
        elif NAME.search(text):
            said = list(wrong_names(text))
        else:
            continue
        seen += 1
        found += [f"{place}: {text}: {each}" for each in said if each]
    return found, seen


def test_the_code_inside_sentences_is_that_of_the_package():
    found = [wrong(page) for page in PAGES]
    assert [each for said, _ in found for each in said] == []
    assert sum(seen for _, seen in found) > 150


@pytest.mark.parametrize(
    "code",
    [
        "dpsurvey amplify --compare --rate 0.1 --epsilon 1",
        "dpsurvey amplfy poisson",
        "dpsurvey plan survey.toml --aims income=400",
        "dpsurvey ledger anchors",
        "dpsurvey compare designs extra words --rate 0.1",
        "plan --least-epsilons",
        "--no-such-option",
        "ds.poison(0.1)",
        "ds.poisson(fraction=0.1)",
        "ds.stratified(..., inside=ds.poisson(...))",
        "ds.srs(1, 2, 3, 4)",
        "dpsurvey.design.no_such_room",
        "planning.rate(plan)",
        "plan.least_epsilons(0.1)",
        "survey.plans",
        "release.save(paths=)",
    ],
)
def test_wrong_code_inside_a_sentence_is_found(code, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nSay `{code}`, and see.\n", encoding="utf-8")
    assert len(wrong(page)[0]) == 1


@pytest.mark.parametrize(
    "code",
    [
        "dpsurvey ledger sign --key-file",
        "dpsurvey plan",
        "plan --aim",
        "--toml",
        "ds.amplify(design, 1.0, base=, neighbours=)",
    ],
)
def test_what_a_sentence_leaves_out_is_not_wrong(code, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nSay `{code}`, and see.\n", encoding="utf-8")
    assert wrong(page) == ([], 1)
