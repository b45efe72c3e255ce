"""Damaged files and impossible numbers end in words: no traceback, nothing confidential in a message, nothing lost from a ledger.

The fuzzer beside this file damages one file of a small world, and runs the command line over it. Everything follows from a seed.
"""

import csv
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, LedgerBroken
from tests.surface import fuzzer
from tests.surface.fuzzer import dpsurvey

# Cases by study: a few in every run, and all of them with the slow tests.
FEW = dict.fromkeys(fuzzer.STUDIES, 8) | {"sealed samples": 3, "answers": 5}
ALL = dict.fromkeys(fuzzer.STUDIES, 500) | {
    "releases": 900,
    "survey files": 900,
    "question files": 600,
    "pages of ledgers": 700,
    "entries of ledgers": 600,
    "sealed samples": 80,
    "answers": 250,
}
DEEP = "[" * 5000 + "]" * 5000
LARGE = "1" + "0" * 400


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A world of whole files, and the hashes that its ledger has on record."""
    world = tmp_path_factory.mktemp("fuzzed") / "world"
    return world, fuzzer.make_world(world)


@pytest.fixture
def here(made, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(made[0], tmp_path / "here"))


def told(*words):
    """What is said of something that is refused."""
    code, _, err, crash = dpsurvey(*words)
    assert not crash, crash
    assert code in (1, 2), err
    return err


@pytest.mark.parametrize("study", fuzzer.STUDIES)
def test_a_few_damaged_inputs_end_in_words(study, made, tmp_path):
    wrong, codes = fuzzer.fuzzed(study, FEW[study], *made, tmp_path, seed=20)  # type: ignore[call-arg]
    assert not wrong, "\n\n".join(wrong)
    assert sum(codes.values()) == FEW[study]


@pytest.mark.slow
@pytest.mark.parametrize("study", fuzzer.STUDIES)
def test_thousands_of_damaged_inputs_end_in_words(study, made, tmp_path):
    assert sum(ALL.values()) >= 5000
    wrong, codes = fuzzer.fuzzed(study, ALL[study], *made, tmp_path, seed=1)  # type: ignore[call-arg]
    assert not wrong, f"{len(wrong)} of {ALL[study]}\n" + "\n\n".join(wrong[:5])
    # Neither is everything refused, nor is nothing: the damage is not all alike.
    assert set(codes) <= {0, 1, 2}
    assert codes.get(0, 0) >= 1
    assert codes.get(1, 0) + codes.get(2, 0) >= ALL[study] // 10


def test_the_fuzzer_sees_tracebacks_leaks_and_losses(made, tmp_path, monkeypatch):
    def leaks(rng, here):
        print((here / "answers.csv").read_text())
        raise ZeroDivisionError

    crashing = {"crash": (lambda rng, here: ("report", here), True), "lost": (lambda rng, here: _cut(here), True)}
    monkeypatch.setattr(fuzzer, "STUDIES", crashing)
    monkeypatch.setattr(fuzzer, "main", lambda: leaks(None, made[0]))
    wrong, _ = fuzzer.fuzzed("crash", 1, *made, tmp_path, seed=1)  # type: ignore[call-arg]
    assert "ZeroDivisionError" in wrong[0]
    assert "leaks" in wrong[1]
    wrong, _ = fuzzer.fuzzed("lost", 1, *made, tmp_path, seed=1)  # type: ignore[call-arg]
    assert "the ledger lost something" in wrong[-1]


def _cut(here):
    with closing(sqlite3.connect(here / "books.ledger")) as connection:
        connection.execute("DROP TRIGGER no_delete")
        connection.execute("DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)")
        connection.commit()
    return ("ledger", here / "books.ledger")


# What was found, one by one


@pytest.mark.parametrize("part", ["estimates", "noisy_sums", "guarantee", "survey", "plan", "ledger", "sample", "software"])
@pytest.mark.parametrize("damage", [None, 5, [], {}, "x", [5], {"x": 5}])
def test_a_release_with_a_damaged_part_is_refused_by_whoever_reads_it(here, part, damage):
    path = here / "first" / "release.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: damage}))
    with pytest.raises(BadValue, match=r"damaged|not a release"):
        ds.Release.load(path)


@pytest.mark.parametrize("command", ["report", "expect-from"])
def test_a_damaged_release_is_no_traceback_in_report_and_plan(here, command):
    path = here / "first" / "release.json"
    document = json.loads(path.read_text())
    document["estimates"][0]["se"] = "wide"
    path.write_text(json.dumps(document))
    words = (
        ("report", path, "-o", here / "again.html")
        if command == "report"
        else ("plan", here / "survey.toml", "--expect-from", path)
    )
    said = told(*words)
    assert "damaged" in said
    assert "estimates.0.se" in said
    assert not (here / "again.html").exists()


def test_a_whole_release_is_read_by_both(here):
    path = here / "first" / "release.json"
    assert dpsurvey("report", path, "-o", here / "again.html")[0] == 0
    assert dpsurvey("plan", here / "survey.toml", "--expect-from", path)[0] == 0


@pytest.mark.parametrize("bytes_left", [1, 2048, 4095])
def test_a_ledger_that_was_cut_in_its_last_page_is_refused_in_words(here, bytes_left):
    place = here / "books.ledger"
    content = place.read_bytes()
    place.write_bytes(content[: len(content) - 4096 + bytes_left])
    for verb in ("tree", "show", "verify", "export"):
        more = ("-o", here / "again.export") if verb == "export" else ()
        told("ledger", verb, place, *more)


NESTED = {
    "survey.toml": (f"a = {DEEP}", ("plan", "survey.toml")),
    "question.toml": (f"a = {DEEP}", ("local", "guarantee", "question.toml")),
    "question.json": (DEEP, ("local", "guarantee", "question.json")),
    "first/release.json": (DEEP, ("report", "first/release.json")),
    "books.export": (f'{{"format": "dpsurvey ledger export 1", "x": {DEEP}}}\n', ("ledger", "verify", "books.export")),
    "sums.json": (DEEP, ("local", "combine", "question.toml", "sums.json", "sums.json")),
    "books.anchor": (DEEP, ("ledger", "verify", "books.ledger", "--against", "books.anchor")),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("content", [DEEP, LARGE])
def test_deep_nesting_and_huge_numbers_are_refused_wherever_a_file_is_read(here, monkeypatch, name, content):
    monkeypatch.chdir(here)
    text, words = NESTED[name]
    (here / name).write_text(text.replace(DEEP, content))
    told(*words)


def forge(place, change):
    """Change the body of the first reservation, and compute every hash anew."""
    entry, previous = fuzzer.canonical, fuzzer.START
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DROP TRIGGER no_update")
        for seq, text in connection.execute("SELECT seq, text FROM entries ORDER BY seq").fetchall():
            fields = json.loads(text) | {"previous": previous}
            if fields["kind"] == "reserved":
                change(fields["body"])
            text = entry(fields)
            previous = fuzzer.digest(text)
            connection.execute("UPDATE entries SET text = ?, hash = ? WHERE seq = ?", (text, previous, seq))
        connection.commit()


@pytest.mark.parametrize("epsilon", [10**400, -(10**400), 10**308, "much", None, [1.0]])
def test_a_forged_charge_that_no_float_can_hold_is_damage(here, epsilon):
    def change(body):
        body["charges"][0]["profile"]["curve"]["epsilon"] = epsilon

    place = here / "books.ledger"
    forge(place, change)
    if epsilon == 10**308:
        # A number like any other: it is on record, and nothing fits any more.
        assert ds.verify_ledger(place).ok
        return
    assert not ds.verify_ledger(place).ok
    with pytest.raises(LedgerBroken):
        ds.Ledger(place)


@pytest.mark.parametrize("number", ["5e-324", "1e-170", "1e-300"])
@pytest.mark.parametrize(
    "words",
    [
        ("local", "choose", "--k", "2", "--epsilon", "1", "--moe"),
        ("local", "choose", "--k", "2", "--epsilon", "1", "--moe", "0.05", "--response"),
        ("compare", "designs", "--epsilon", "1", "--rate"),
    ],
)
def test_numbers_next_to_nothing_are_refused_in_words(number, words):
    assert "given: " in told(*words, number)


@pytest.mark.parametrize("name", ["--deff", "--population"])
def test_numbers_beyond_everything_are_refused_in_words(name):
    told("local", "choose", "--k", "2", "--epsilon", "1", "--moe", "0.05", name, "1" + "0" * (300 if name == "--deff" else 400))


def test_strata_of_more_units_than_there_can_be_are_refused_in_words():
    for given in ("a=" + "9" * 400, "a=20,min=" + "9" * 400, "a=20,cost=1e999", "a=20,sd=" + "9" * 400):
        told("allocate", "neyman", "--n", "30", "--stratum", given, "--stratum", "b=20,sd=3", "--source", "Yearbook")


@pytest.mark.parametrize("number", ["1e-300", "5", "true", "[1]", "{ x = 1 }"])
def test_strata_and_groups_by_something_that_is_no_column_are_refused_in_words(here, number):
    text = (here / "survey.toml").read_text()
    (here / "survey.toml").write_text(text.replace('by = "region"\nwithin', f"by = {number}\nwithin"))
    told("plan", here / "survey.toml")
    (here / "survey.toml").write_text(text.replace('by = "region"\n[[', f"by = {number}\n[["))
    told("plan", here / "survey.toml")


def test_no_command_quotes_a_file_that_it_cannot_use(here, monkeypatch):
    monkeypatch.chdir(here)
    rows = "\n".join((here / "answers.csv").read_text().splitlines()[1:]) + "\n"
    (here / "rows.csv").write_text(rows)
    (here / "names.csv").write_text("\n".join(line.split(",")[4] for line in rows.splitlines()) + "\n")
    for name in ("rows.csv", "names.csv", "secret.txt"):
        for words in (
            ("compare", "medians", name, "--bounds", "0,1"),
            ("amplify", "cluster", "--table", name, "--epsilon", "1", "--base", "add-remove", "--neighbours", "add-remove"),
            ("amplify", "poisson", "--rate", name, "--epsilon", "1", "--base", "add-remove", "--neighbours", "add-remove"),
            ("allocate", "neyman", "--n", "9", "--strata", name),
            ("rate", "survey.toml", "--at", name),
            ("report", name),
            ("plan", name),
            ("plan", "survey.toml", "--expect-from", name),
            ("ledger", "verify", name),
            ("ledger", "verify", "books.ledger", "--against", name),
            ("key", "show", name),
            ("local", "guarantee", name),
            ("local", "randomize", "question.toml", name, "--respondent", "id", "-o", "out.csv"),
            ("local", "estimate", "question.toml", name),
            ("release", "panel.toml", "--responses", name, "--out", "second"),
        ):
            said = told(*words)
            assert not [each for each in fuzzer.CANARIES if each in said], (words, said)


def test_no_label_of_a_release_is_a_formula_in_a_spreadsheet(tmp_path):
    labels = ["=cmd|'/c calc'!A1", "+1+1", "@sum", "-x", "-3", "+4.5", "\tx", "north"]
    rows = ["id;part;=who", *(f"{unit};{labels[unit % 8]};{'ab'[unit % 2]}" for unit in range(80))]
    (tmp_path / "register.csv").write_text("\n".join(rows) + "\n")
    frame = ds.Frame(tmp_path / "register.csv", unit="id", size=80, categories={"part": labels, "=who": ["a", "b"]})
    survey = ds.Survey(frame, ds.srs(n=40), budget=ds.Budget(50.0), ledger=tmp_path / "books.ledger")
    release = survey.plan(ds.count(by="part"), ds.count(by="=who")).release()
    header, *lines = csv.reader(release.to_csv().splitlines())
    shown = {line[header.index("part")] for line in lines} - {""}
    assert shown == {"'=cmd|'/c calc'!A1", "'+1+1", "'@sum", "'-x", "-3", "+4.5", "'\tx", "north"}
    assert "'=who" in header
    assert [row["by"].get("part") for row in release.estimates][:8] == labels
