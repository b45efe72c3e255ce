"""`dpsurvey papers`: everything runs, nothing differs, every file is there, and an interrupted run goes on where it was."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import dpsurvey_papers as papers
from dpsurvey.cli.app import app
from dpsurvey.errors import BadValue
from dpsurvey_papers.gallery import write_pages
from dpsurvey_papers.verdict import ORDER

FEW = ["000-figure-3", "000-figure-4"]
SOURCE = Path(papers.__file__).parents[1]


def test_everything_runs_and_nothing_differs_from_print_or_erratum(quick):
    odd = [record["line"] for record in quick.records.values() if record["word"] == "differs"]
    assert (odd, quick.code) == ([], 0)
    assert list(quick.records) == [item.id for item in papers.items()]
    assert {record["word"] for record in quick.records.values()} == set(ORDER) - {"differs", "checked"}
    assert sum(quick.answer["verdicts"].values()) == len(quick.records)


def test_every_item_has_a_table_two_pictures_a_seed_and_a_line(quick):
    for name, record in quick.records.items():
        folder = quick.out / name
        rows = list(csv.DictReader((folder / "table.csv").read_text(encoding="utf-8").splitlines()))
        assert rows, name
        drawing = (folder / "picture.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(drawing).tag.endswith("svg")
        assert "NaN" not in drawing, name
        assert "undefined" not in drawing, name
        assert not re.search(r'(href|src)="https?:', drawing), name
        assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG"), name
        assert record["line"].startswith(record["word"]), name
        assert record["seed"] == papers.item(name).seed
        json.dumps(record, allow_nan=False)
        assert record["figures"] or record["word"] == "not reproducible", name


def test_tests_that_share_a_long_run_share_a_process(quick, request):
    """A worker that is not told of groups would run everything once more."""
    assert "PYTEST_XDIST_WORKER" not in os.environ or request.node.nodeid.endswith("@quick")
    assert quick.out.exists()


def test_seeds_are_apart_and_shown(quick):
    with_interval = [
        record["seed"] for record in quick.records.values() if any(each["low"] is not None for each in record["figures"])
    ]
    assert with_interval
    assert 0 not in with_interval
    assert len({record["seed"] for record in quick.records.values()}) > 10
    shown = json.loads(CliRunner().invoke(app, ["papers", "list", "--json"]).stdout)
    assert {each["id"]: each["seed"] for each in shown} == {name: record["seed"] for name, record in quick.records.items()}


def test_the_index_shows_every_item_without_a_network(quick):
    page = (quick.out / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="([^"#]+)"', page)
    assert len(links) > 3 * len(quick.records)
    assert all((quick.out / link).exists() for link in links)
    for name, record in quick.records.items():
        assert f'id="{name}"' in page
        assert record["title"].replace("&", "&amp;").replace("'", "&#39;") in page


def run_few(out, **options):
    return {record["id"]: record for record in papers.run(FEW, out, quick=True, **options)}


def test_an_interrupted_run_keeps_what_is_finished_and_goes_on(tmp_path):
    def stop(what, done, total):
        if (what, done) == ("papers", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_few(tmp_path, progress=stop)
    assert [(tmp_path / name / "verdict.json").exists() for name in FEW] == [True, False]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert [f'id="{name}"' in page for name in FEW] == [True, False]
    before = (tmp_path / FEW[0] / "verdict.json").stat().st_mtime_ns
    assert [record["resumed"] for record in run_few(tmp_path).values()] == [True, False]
    assert (tmp_path / FEW[0] / "verdict.json").stat().st_mtime_ns == before
    assert [record["resumed"] for record in run_few(tmp_path, again=True).values()] == [False, False]


@pytest.mark.parametrize("harm", ["half a verdict", "no picture", "another effort", "other code"])
def test_what_is_not_whole_or_not_of_this_code_is_run_again(tmp_path, harm):
    run_few(tmp_path)
    verdict = tmp_path / FEW[0] / "verdict.json"
    if harm == "half a verdict":
        verdict.write_text(verdict.read_text()[:100])
    elif harm == "no picture":
        (tmp_path / FEW[0] / "picture.png").unlink()
    elif harm == "other code":
        record = json.loads(verdict.read_text())
        verdict.write_text(json.dumps(record | {"fingerprint": "0" * 16}))
    (tmp_path / FEW[1] / "table.csv").unlink()
    # What is not asked for and not whole is left out of the page.
    records = papers.run(papers.item(FEW[0]), tmp_path, quick=harm != "another effort")
    assert [record["resumed"] for record in records] == [False]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert [f'id="{name}"' in page for name in FEW] == [True, False]


def test_a_result_of_other_source_is_run_again(tmp_path):
    source = tmp_path / "source"
    for package in ("dpsurvey", "dpsurvey_papers"):
        shutil.copytree(SOURCE / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    asked = f"papers.run({FEW[0]!r}, {str(tmp_path / 'out')!r}, quick=True)"
    program = f"import dpsurvey_papers as papers; print({asked}[0]['resumed'])"

    def resumed():
        there = {**os.environ, "PYTHONPATH": str(source)}
        done = subprocess.run([sys.executable, "-c", program], env=there, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert [resumed(), resumed()] == ["False", "True"]
    for changed in ("dpsurvey", "dpsurvey_papers"):
        with (source / changed / "__init__.py").open("a") as file:
            file.write("# other code\n")
        assert resumed() == "False", changed


def test_a_full_result_serves_a_quick_run_and_is_not_replaced_by_it(tmp_path):
    papers.run(FEW[0], tmp_path)
    (record,) = papers.run(FEW[0], tmp_path, quick=True)
    assert (record["resumed"], record["quick"]) == (True, False)


def test_folders_that_are_files_hold_other_pages_or_cannot_be_written_are_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    for out, said in ((tmp_path / "file", "is a file"), (tmp_path / "site", "is not ours"), ("", "folder for the results")):
        with pytest.raises(BadValue, match=said):
            papers.run("000", out, progress=lambda *step: pytest.fail("it began"))
    assert (tmp_path / "site" / "index.html").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"


def test_pages_are_not_written_over_other_files_nor_from_quick_results(quick, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "photo.jpg").write_text("mine")
    done = CliRunner().invoke(app, ["papers", "pages", str(quick.out), "--docs", str(tmp_path)])
    assert "no full result" in str(done.exception)
    with pytest.raises(BadValue, match="holds other files"):
        write_pages(quick.out, tmp_path)
    assert (tmp_path / "images" / "photo.jpg").read_text() == "mine"


def test_items_are_asked_for_by_id_and_by_nothing_else():
    assert papers.item("000-figure-3") in papers.select("000")
    for name, said in (("000", "000-"), ("figure-3", "000-figure-3, 003-figure-3"), ("zzz", "papers list")):
        with pytest.raises(BadValue, match=said):
            papers.item(name)


def test_names_that_nothing_has_are_refused_with_the_nearest(tmp_path):
    for words, said in (
        (["run", "000-figure-33"], "000-figure-3"),
        (["run"], "--all"),
        (["run", "000", "--all"], "--all runs every item"),
        (["list", "005"], "did you mean '004'"),
        (["pages", str(tmp_path)], "papers run --all"),
    ):
        done = CliRunner().invoke(app, ["papers", *words, *(["--out", str(tmp_path)] if words[0] == "run" else [])])
        assert done.exit_code != 0
        assert said in str(done.exception), words
    assert list(tmp_path.iterdir()) == []


def test_a_difference_makes_the_command_fail(tmp_path, monkeypatch):
    item = papers.item(FEW[0])
    monkeypatch.setitem(papers.verdict.printed_in("accuracy_gains")[item.id]["values"]["one per cent"], "printed", "5.16")
    done = CliRunner().invoke(app, ["papers", "run", FEW[0], "--quick", "--again", "--json", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["records"][0]["line"].startswith("differs: ")
