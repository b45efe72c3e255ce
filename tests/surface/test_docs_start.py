"""The first pages of the site are true: start.md from an empty folder, word for word, and the examples of the pages after it."""

import doctest
import sys
from pathlib import Path

import pytest

from dpsurvey.cli.app import main
from tests.surface import docs_runner as run

# Pages and the least number of examples: a page that lost its examples fails.
LEAST = {"concepts.md": 20, "limits.md": 6}


def alike(shown, printed):
    """Whether the output is what the page shows; dots of their own on a line stand for any lines."""
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


@pytest.fixture
def dpsurvey(monkeypatch, capsys):
    def command(words):
        """What a command prints: to stdout if it ends well, to stderr if it is refused."""
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert ended.value.code in (0, 1), err
        return out if ended.value.code == 0 else err[err.index("refused: ") :]

    return command


def test_the_page_for_beginners_is_true_from_an_empty_folder_in_its_own_order(tmp_path, monkeypatch, dpsurvey):
    monkeypatch.chdir(tmp_path)
    names, seen = {}, []
    for block in run.blocks(run.DOCS / "start.md"):
        seen.append(block.kind)
        if block.kind == "python":
            run.run_python(block, names)
        elif block.kind == "toml":
            Path("survey.toml").write_text(block.text, encoding="utf-8")
        elif block.kind == "console":
            for words, lines in run.commands(block):
                shown, printed = "\n".join([*lines, ""]), dpsurvey(words)
                if words[1] == "release":
                    shown, printed = run.without_numbers(shown), run.without_numbers(printed)
                assert alike(shown, printed), f"{words}\n{printed}"
        else:
            # Installing is what the Makefile does; a text is an answer that is explained.
            assert block.kind in ("sh", "text"), block.place
    assert seen.count("python") >= 9
    assert seen.count("console") == 3
    assert {"survey.toml", "draft.toml", "people.html", "again.html", "first"} <= {path.name for path in tmp_path.iterdir()}
    assert sorted(path.name for path in Path("first").iterdir()) == ["release.csv", "release.json", "report.html"]
    assert not Path("second").exists()
    near_the_truth(names["release"])


def near_the_truth(release):
    """The numbers of the release are those of the people that the page makes up."""
    rows = [line.split(",") for line in Path("people.csv").read_text(encoding="utf-8").splitlines()[1:]]
    for row in release.estimates:
        values = [float(line[3]) for line in rows if line[1] == row["by"].get("region")] or [line[4] == "yes" for line in rows]
        # Six standard errors: a false alarm in a hundred million; a region or a column taken for another is 12 errors off.
        assert abs(row["estimate"] - sum(values) / len(values)) < 6 * row["se"]


@pytest.mark.parametrize("page", LEAST)
def test_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    assert sum(run.run_python(block, names) for block in run.blocks(run.CONCEPTS / page, "python")) >= LEAST[page]


def test_the_first_pages_have_no_code_that_nobody_runs():
    kinds = {page.name: {block.kind for block in run.blocks(page)} for page in run.APART}
    assert kinds["start.md"] == {"sh", "python", "text", "toml", "console"}
    assert kinds["concepts.md"] == kinds["limits.md"] == {"python"}
    assert kinds["glossary.md"] == set()
    assert kinds["index.md"] == {"{toctree}"}


def test_installing_as_the_page_says_names_what_there_is():
    (block,) = run.blocks(run.DOCS / "start.md", "sh")
    assert [words for words, _ in run.commands(block)] == [["make", "demo"], ["source", ".venv/bin/activate"]]
    assert "\ndemo: $(READY)\n" in (run.ROOT / "Makefile").read_text(encoding="utf-8")


def test_output_that_is_another_one_is_noticed():
    assert alike("a 1\n...\nb 2\n", "a 1\nmore\nb 2\n")
    assert not alike("a 1\n...\nb 2\n", "a 1\nmore\nb 3\n")
    assert run.without_numbers("mean  29,303 good") == run.without_numbers("mean 31.5   good")
    assert run.without_numbers("mean  29,303 good") != run.without_numbers("mean  29,303 poor")
