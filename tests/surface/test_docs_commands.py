"""Commands, survey files and tables of the pages run, in a folder with the files that they name, and print what is shown."""

import os
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer import BadParameter

from dpsurvey.design import design_from_dict
from dpsurvey.survey.survey_file import SurveyFile
from tests.surface import docs_files as files
from tests.surface import docs_runner as run

DOCS, ROOT, blocks = run.DOCS, run.ROOT, run.blocks
WITH_COMMANDS, WITH_TOML = run.pages_with("console", "sh"), run.pages_with("toml")
# Commands of these pages go on where the block before stopped; elsewhere each block starts in a folder of its own.
GO_ON = ("reference/README.md", "guides/drawing.md")


@pytest.fixture(scope="module")
def register(tmp_path_factory):
    path = tmp_path_factory.mktemp("frame") / "register.parquet"
    files.make_register(path)
    return path


def fresh(folder, page, register):
    """Go to a new folder that holds what the commands of a page name."""
    folder.mkdir()
    os.chdir(folder)
    if page.parent == run.DESIGNS[0].parent:
        return
    os.link(register, "register.parquet")
    files.write_survey_files()
    names = {}
    if page.name == "planning.md":
        run.run_python(blocks(page, "python")[0], names)
    files.write_more_files(page.name, names)


def write_table(page):
    """The table that a page shows, under the only name of a table in its commands."""
    words = [word for block in blocks(page, "console") for line, _ in run.commands(block) for word in line]
    tables = {word for word in words if word.endswith(".csv")}
    for block in blocks(page, "csv"):
        (file,) = tables
        Path(file).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=run.name)
def test_commands_of_a_page_end_well_and_print_the_lines_that_it_shows(page, register, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks(page, "console", "sh")):
        if number == 0 or not str(page).endswith(GO_ON):
            fresh(tmp_path / str(number), page, register)
            write_table(page)
        run.run_commands(block)


def test_every_design_page_shows_a_command_and_its_output():
    shown = {page for page in run.DESIGNS for block in blocks(page, "console") if all(out for _, out in run.commands(block))}
    assert shown == {page for page in run.DESIGNS if page.name != "README.md"}


@pytest.mark.parametrize("page", WITH_TOML, ids=run.name)
def test_survey_files_of_a_page_are_read_and_planned(page, register, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fresh(tmp_path / "0", page, register)
    for block in blocks(page, "toml"):
        # What is no whole file is a section for the survey of the page.
        before = "" if "[survey]" in block.text else Path("survey.toml").read_text(encoding="utf-8")
        Path("page.toml").write_text(before + "\n" + block.text, encoding="utf-8")
        file = SurveyFile.read("page.toml")
        survey = file.survey()
        assert not file.statistics() or file.plan(survey).statistics == file.statistics()
        assert ("[fieldwork]" in block.text) == (file.fieldwork is not None)


def test_the_labour_force_survey_of_the_guide_is_the_same_in_python_and_in_toml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, names = run.GUIDES / "drawing.md", {}
    for block in blocks(page, "python")[:2]:
        run.run_python(block, names)
    pq.write_table(names["addresses"], "addresses.parquet")
    (written,) = blocks(page, "toml")
    assert design_from_dict(tomllib.loads(written.text)["design"]) == names["design"]
    Path("survey.toml").write_text(written.text, encoding="utf-8")
    run.dpsurvey(["draw", "survey.toml", "-o", "sample.parquet"])
    assert pq.read_table("sample.parquet")["stratum"].to_pylist() == names["sample"]["stratum"].to_pylist()


def test_commands_on_spark_are_not_run_here_but_their_options_exist():
    every = [words for page in WITH_COMMANDS for block in blocks(page, "console", "sh") for words, _ in run.commands(block)]
    needing = [words[1:] for words in every if run.on_spark(words)]
    assert len(needing) >= 1
    for words in needing:
        assert run.parse(words).params["engine"] == "spark"
        with pytest.raises(BadParameter.__base__, match="--engines"):
            run.parse([word.replace("--engine", "--engines") for word in words])


def test_a_command_whose_output_is_another_one_than_the_page_shows_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(DOCS / "designs" / "poisson.md", "console")
    run.run_commands(block)
    with pytest.raises(AssertionError, match=r"poisson\.md"):
        run.run_commands(block._replace(text=block.text.replace("0.1585650788", "0.1585650787")))
