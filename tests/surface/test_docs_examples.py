"""Every code block of the pages is run by some test. Here the Python: examples print what is shown, links lead there."""

import re
from pathlib import Path

import pytest

from tests.surface import docs_files as files
from tests.surface import docs_runner as run
from tests.surface import test_docs_commands as commands

DOCS, PAGES, blocks = run.DOCS, run.DESIGNS, run.blocks
# Pages and the least number of examples: a page that lost its examples, or whose blocks are no longer found, fails.
LEAST = {"papers/errata.md": 60, "designs/README.md": 8, "guides/drawing.md": 20, "guides/coordination.md": 10}
LEAST |= {"guides/local.md": 17, "guides/planning.md": 18, "guides/rates.md": 12, "guides/allocation.md": 20}
LEAST |= {"guides/ledger.md": 18, "guides/statistics.md": 1, "guides/survey-files.md": 25}
# The page about engines has its Python on Spark, and the session of the README is run by test_docs.py.
ELSEWHERE = {run.GUIDES / "engines.md", run.ROOT / "README.md"}
EXAMPLES = sorted({*(DOCS / page for page in LEAST), *run.pages_with("python")} - ELSEWHERE)
OF_THE_README = "test_the_session_of_the_readme_runs_and_prints_the_table_and_the_guarantee_that_it_shows"
# Labels of code, and the pages on which tests run all blocks of that label.
WAYS = {"python": {*EXAMPLES, *ELSEWHERE}, "toml": commands.WITH_TOML}
WAYS |= dict.fromkeys(("console", "sh", "csv"), commands.WITH_COMMANDS)
# What else a fence may hold: output and drawings; instructions to the builder of the site.
NO_CODE = ("text", "{include}", "{toctree}")
LOOKS_LIKE_CODE = re.compile(r"^ *(>>> |\$ |dpsurvey |import |from \w+ import |pip install |make \w+$)", re.M)


@pytest.mark.parametrize("page", EXAMPLES, ids=run.name)
def test_python_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = str(page.relative_to(DOCS))
    # One namespace for a page, as a reader would type it from top to bottom.
    names = files.write_listed_files(where)
    attempted = sum(run.run_python(block, names) for block in blocks(page, "python"))
    assert attempted >= LEAST.get(where, 2)


def test_the_listing_about_engines_makes_a_frame_on_spark(spark):
    spark.range(2).createOrReplaceTempView("register")
    names = {"session": spark}
    assert [run.run_python(block, names) for block in blocks(run.GUIDES / "engines.md", "python")] == [1]
    assert names["frame"].size == 8_900_000


def not_run(page):
    """What is wrong with the blocks of a page: fences that do not match, unknown labels, code that no test runs."""
    text = page.read_text(encoding="utf-8")
    if text.count("```") != 2 * len(blocks(page)) or "~~~" in text:
        yield f"{page.name}: a fence is not found"
    for block in blocks(page):
        if block.kind.split(" ")[0] not in NO_CODE and page not in WAYS.get(block.kind, ()):
            yield f"{block.place}: no test runs {block.kind!r}"
    # Code is not to hide as text, nor outside of fences.
    for part in (run.FENCE.sub("", text), *(block.text for block in blocks(page, "text"))):
        if found := LOOKS_LIKE_CODE.search(part):
            yield f"{page.name}: {found[0]!r} without a label"


def test_no_block_is_without_a_label_and_every_block_of_code_is_run_by_a_test():
    assert [each for page in run.PAGES for each in not_run(page)] == []
    assert sum(block.kind in WAYS for page in run.PAGES for block in blocks(page)) > 130
    # What is run elsewhere is there.
    assert len(blocks(run.ROOT / "README.md", "python")) == 1
    assert f"def {OF_THE_README}(" in Path(__file__).with_name("test_docs.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "```\ndpsurvey check survey.toml\n```\n",
        "```python\n1 + 1\n```\n",
        "```sql\nselect 1\n```\n",
        "* a list\n  ```sh\n  dpsurvey check survey.toml\n  ```\n",
        "```text\n$ dpsurvey check survey.toml\n```\n",
        "    >>> 1 + 1\n",
        "~~~python\n1 + 1\n~~~\n",
        "```sh\nmake test\n",
    ],
)
def test_a_block_that_nobody_runs_is_found(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}", encoding="utf-8")
    assert list(not_run(page))


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


def test_every_page_that_the_source_names_exists():
    folder = run.ROOT / "src"
    named = {
        (str(each.relative_to(folder)), page)
        for each in folder.rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", each.read_text(encoding="utf-8"))
    }
    assert len(named) > 60
    assert {each for each in named if not (run.ROOT / each[1]).exists()} == set()


def anchors(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    words = (re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()) for line in lines if line.startswith("#"))
    return {each.replace(" ", "-") for each in words}


def test_links_lead_to_pages_and_headings():
    seen = 0
    for page in (*PAGES, run.ERRATA):
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
