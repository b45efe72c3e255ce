"""No command replaces a file that it did not make, follows a link, or leaves half a file behind."""

import json
import os
import stat
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import AlreadyThere, NotWritten, SurveyError
from dpsurvey.text.writing import write_file
from tests.command_line import invoke as run

SIZE = 400


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder as an office has it: a register, a ledger, a sealed sample, a key and a release."""
    folder = tmp_path_factory.mktemp("office")
    table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": [float(each % 100) for each in range(SIZE)]})
    pa.parquet.write_table(table, folder / "register.parquet")
    survey = ds.Survey(
        ds.Frame(folder / "register.parquet", unit="id", size=SIZE),
        ds.poisson(0.2),
        ds.Setting("frame", neighbours="add-remove"),
        budget=ds.Budget(1.0),
        ledger=folder / "books.ledger",
    )
    survey.draw(folder / "sample.parquet")
    release = survey.plan(ds.mean("income", bounds=(0, 100)), share=0.5).release()
    for name in ("release.json", "numbers.parquet", "report.html"):
        release.save(folder / name)
    other = survey.plan(ds.mean("income", bounds=(0, 99)), share=0.3).release()
    other.save(folder / "other.json")
    other.save(folder / "other.csv")
    ds.Key.new().write(folder / "panel.key")
    (folder / "question.toml").write_text((run("local", "question", folder / "q.toml"), (folder / "q.toml").read_text())[1])
    (folder / "notes.txt").write_text("mine")
    return folder


def everything(folder):
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name[-4:] not in ("-wal", "-shm")
    }


KEPT = (
    "sample.parquet",
    "sample.manifest.json",
    "other.json",
    "other.csv",
    "books.ledger",
    "panel.key",
    "register.parquet",
    "notes.txt",
)


def commands(folder, target):
    """Every command that writes a file, told to write over something."""
    return [
        ["report", folder / "release.json", "-o", target],
        ["init", target],
        ["key", "new", target],
        ["local", "question", target],
        ["local", "form", folder / "question.toml", "-o", target],
        ["ledger", "export", folder / "books.ledger", "-o", target],
        ["ledger", "plot", folder / "books.ledger", "-o", target],
        ["ledger", "sign", folder / "books.ledger", "--key", target, "--new-key"],
        ["compare", "designs", "--rate", "0.1", "--epsilon", "1", "--plot", target],
    ]


@pytest.mark.parametrize("name", KEPT)
def test_no_command_replaces_a_sample_a_release_a_ledger_a_key_or_another_file(office, name):
    before = everything(office)
    for words in commands(office, office / name):
        assert run(*words).exit_code != 0, words
    assert everything(office) == before


@pytest.mark.parametrize("ending", [".json", ".csv", ".html", ".svg", ".png", ".toml", ".parquet"])
def test_no_command_writes_through_a_link(office, tmp_path, ending):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for target in (mine, tmp_path / "not there yet"):
        link = tmp_path / f"link to {target.name}{ending}"
        link.symlink_to(target)
        for words in commands(office, link):
            run(*words)
        assert link.is_symlink()
    assert mine.read_text() == "mine"
    assert not (tmp_path / "not there yet").exists()


def test_a_half_file_that_is_a_link_is_not_followed(office, tmp_path):
    """The names of temporary files were known before: whoever could write to the folder could aim them."""
    (tmp_path / "mine").write_text("mine")
    for name in ("page.html", "numbers.csv", "numbers.json", "numbers.parquet"):
        (tmp_path / f"{name}.part").symlink_to(tmp_path / "mine")
        ds.Release.load(office / "release.json").save(tmp_path / name)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_report_replaces_a_report_and_a_picture_a_picture(office, tmp_path):
    for _ in range(2):
        assert run("report", office / "release.json", "-o", tmp_path / "page.html").exit_code == 0
        for name in ("plot.svg", "plot.png"):
            assert run("ledger", "plot", office / "books.ledger", "-o", tmp_path / name).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "plot.png", "plot.svg"]
    assert (tmp_path / "plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_picture_that_says_who_made_it_can_be_opened(office, tmp_path):
    image = pytest.importorskip("PIL.Image")
    run("ledger", "plot", office / "books.ledger", "-o", tmp_path / "plot.png")
    with image.open(tmp_path / "plot.png") as picture:
        picture.load()
        assert picture.text["Software"] == "picture by dpsurvey"


def test_saving_the_same_numbers_again_changes_nothing_and_other_numbers_are_refused(office, tmp_path):
    one, other = ds.Release.load(office / "release.json"), ds.Release.load(office / "other.json")
    for name in ("a.json", "a.csv", "a.parquet"):
        one.save(tmp_path / name)
        before = (tmp_path / name).read_bytes()
        one.save(tmp_path / name)
        with pytest.raises(AlreadyThere, match="exists already"):
            other.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_the_demo_does_not_start_in_a_folder_of_others(office, tmp_path):
    (tmp_path / "release.json").write_text("mine")
    refused = run("demo", "--out", tmp_path)
    assert "holds other files" in str(refused.exception)
    assert (tmp_path / "release.json").read_text() == "mine"


def test_an_anchor_is_not_added_to_another_file(office):
    for name in ("sample.parquet", "release.json", "notes.txt"):
        before = (office / name).read_bytes()
        refused = run("ledger", "anchor", office / "books.ledger", office / name)
        assert "not an anchor" in str(refused.exception)
        assert (office / name).read_bytes() == before


def test_keys_are_closed_to_others_and_numbers_are_not(tmp_path):
    old = os.umask(0o022)
    try:
        ds.Key.new().write(tmp_path / "key")
        write_file(tmp_path / "page", "open")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o644


def test_what_fails_half_way_leaves_nothing(tmp_path):
    def fails(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(NotWritten, match="could not be written") as raised:
        write_file(tmp_path / "file", fails)
    assert raised.value.because == "the disk is full"
    with pytest.raises(ZeroDivisionError):
        write_file(tmp_path / "file", lambda file: 1 / 0)
    assert list(tmp_path.iterdir()) == []


def test_two_writers_to_one_name_do_not_destroy_each_other(tmp_path):
    """The second comes while the first is at work: one has the name, the other is refused."""
    with pytest.raises(AlreadyThere):
        write_file(tmp_path / "file", lambda file: write_file(tmp_path / "file", "second"))
    assert (tmp_path / "file").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


LIMITED = """
import resource, sys
from dpsurvey.cli.app import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv[1:] = sys.argv[2:]
main()
"""


@pytest.mark.parametrize("room", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_a_disk_without_room_is_named_and_leaves_no_half_file(office, tmp_path, room):
    for words in (
        ["report", office / "release.json", "-o", tmp_path / "page.html"],
        ["init", tmp_path / "survey.toml"],
        ["local", "form", office / "question.toml", "-o", tmp_path / "form.html"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(room), *map(str, words)], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 1, (words, done.stderr)
        assert "larger than allowed" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_errors_of_writing_are_errors_of_the_package():
    assert issubclass(NotWritten, SurveyError)
    assert json.dumps(AlreadyThere("x", hint="y").to_dict())
