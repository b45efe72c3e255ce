"""The pages about designs, the guides and the errata run: every Python example, every command, with the output that is shown."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpsurvey.cli import app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "designs").glob("*.md"))
GUIDES = ("errata.md", "drawing.md", "coordination.md", "local.md", "planning.md", "rates.md")
# Pages and the least number of examples: a page that lost its examples, or whose blocks are no longer found, fails.
LEAST = {"errata.md": 60, "README.md": 8, "drawing.md": 20, "coordination.md": 10, "local.md": 18}
LEAST |= {"planning.md": 18, "rates.md": 12}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page, kind):
    return [text for word, text in BLOCK.findall(page.read_text(encoding="utf-8")) if word == kind]


def name(page):
    return page.stem


@pytest.mark.parametrize("page", [*PAGES, *(DOCS / guide for guide in GUIDES)], ids=name)
def test_python_examples_print_what_the_page_shows(page):
    # One namespace for a page, as a reader would type it from top to bottom.
    text = "\n".join(block for block in blocks(page, "python") if ">>>" in block)
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    said = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted >= LEAST.get(page.name, 2)


def commands(page):
    """(arguments, first line of output) of each command in the console blocks of a page."""
    for block in blocks(page, "console"):
        # A command may go on behind a backslash.
        lines = block.replace("\\\n", " ").splitlines()
        for place, line in enumerate(lines):
            if line.startswith("$ "):
                words = shlex.split(line[2:])
                assert words[:2] == ["dpsurvey", "amplify"]
                yield words[1:], lines[place + 1]


SHOWN = [(page, arguments, line) for page in PAGES for arguments, line in commands(page)]


def test_every_design_page_shows_a_command():
    assert {page for page, _, _ in SHOWN} == {page for page in PAGES if page.name != "README.md"}


@pytest.mark.parametrize(("page", "arguments", "line"), SHOWN, ids=[f"{page.stem}-{' '.join(a[1:3])}" for page, a, _ in SHOWN])
def test_commands_print_the_line_that_the_page_shows(page, arguments, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in blocks(page, "csv"):
        Path("rule.csv").write_text(table, encoding="utf-8")
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[0] == line


def test_every_source_in_an_answer_names_a_page_and_a_heading_that_exist():
    code = (DOCS.parent / "src" / "dpsurvey" / "design").rglob("*.py")
    text = "".join(each.read_text(encoding="utf-8") for each in code)
    named = set(re.findall(r"docs/designs/([\w-]+\.md)(?:, ((?:Theorem \([^)]*\))|[\w :()+-]+?))?(?=[\";:.)(}\n]| \()", text))
    named |= {(page, rule) for rule, page in re.findall(r"(rule of [\w -]+), docs/designs/([\w-]+\.md)", text)}
    assert len(named) > 20
    for page, heading in sorted(named):
        lines = (DOCS / "designs" / page).read_text(encoding="utf-8").lower().splitlines()
        headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
        assert not heading or any(each.startswith(heading.lower()) for each in headings), f"{page}: {heading}"


def anchors(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    words = (re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()) for line in lines if line.startswith("#"))
    return {each.replace(" ", "-") for each in words}


def test_links_lead_to_pages_and_headings():
    seen = 0
    for page in (*PAGES, DOCS / "errata.md"):
        for link, anchor in re.findall(r"\]\(([\w./-]+\.md)(?:#([\w-]+))?\)", page.read_text(encoding="utf-8")):
            there = (page.parent / link).resolve()
            assert there.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {link}#{anchor}"
            seen += 1
    assert seen > 80


def test_every_page_says_what_checked_it_and_the_tests_exist():
    for page in PAGES:
        last = page.read_text(encoding="utf-8").split("\nChecked:")
        assert len(last) == 2, page.name
        for test in re.findall(r"`(tests/[\w/]+\.py)`", last[1]):
            assert (DOCS.parent / test).exists(), f"{page.name}: {test}"
