"""What commands write and say is the same for neighbours, once the noise came out the same: files, words, exit codes.

An office checks, draws, releases from the sealed sample and reports, with the command line, on a frame and on its neighbours.
What may differ is the secret list of drawn units itself, random ids with the hashes that hold them, and times.
"""

import json
import re as regex
import sys
from pathlib import Path

import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.cli import app as cli
from dpsurvey.engine import Engine
from dpsurvey.errors import NoGuarantee
from dpsurvey.survey.survey_file import write_survey_file
from tests.truth import released as re

ADD, REPLACE = re.ADD, re.REPLACE
OFFICE = (
    "check survey.toml",
    "plan survey.toml",
    "draw survey.toml -o sample.parquet",
    "release survey.toml --out out",
    "release survey.toml --out out",
    "report out/release.json -o report.html",
    "ledger show books.ledger",
    "ledger verify books.ledger",
    "ledger export books.ledger -o books.txt",
    "release survey.toml --responses answers.csv --out answered",
)
ANSWERS = OFFICE[-1]
# Pictures take their time.
BRIEF = (*OFFICE[:5], *OFFICE[6:-1])
WHOLE = regex.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b")


def office(case, units, setting, folder, monkeypatch, capsys, commands=OFFICE, answered=None):
    """What an office gets to see and to keep: by command its exit code, stdout and stderr; by file its content."""
    survey = re.a_survey(case, units, setting, folder)
    with monkeypatch.context() as here:
        here.chdir(folder)
        plan = survey.plan(*re.STATISTICS[re.asked_of(case)](), share=0.5)
        write_survey_file("survey.toml", survey, plan)
        said = {}
        for command in commands:
            if command == ANSWERS:
                assert answered is not None
                drawn = list(pd.read_parquet("sample.parquet")["unit"].unique()) if Path("sample.parquet").exists() else []
                rows = pd.DataFrame({"id": drawn, "income": 5.0, "works": "no"})[: answered(len(drawn))]
                rows.to_csv("answers.csv", index=False)
                text = Path("survey.toml").read_text()
                Path("survey.toml").write_text(text.replace("share = 0.5", "share = 0.4"))
            said[f"{len(said)} {command}"] = run(command, here, capsys)
        secret = ("register.parquet", "sample.parquet", "answers.csv", "books.ledger")
        kept = {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file() and path.name not in secret}
    # Ids are shown by their beginnings, too.
    texts = {name: content.decode(errors="replace") for name, content in kept.items()}
    known = set(WHOLE.findall(" ".join([*texts.values(), *(str(each) for each in said.values())])))
    shown = {name: re.masked(text.replace(str(folder), "(folder)"), known) for name, text in texts.items()}
    spoken = {
        name: (code, *(re.masked(each.replace(str(folder), "(folder)"), known) for each in text))
        for name, (code, *text) in said.items()
    }
    return {**shown, **spoken}


def run(command, monkeypatch, capsys):
    """A command's exit code and what it says."""
    monkeypatch.setattr(sys, "argv", ["dpsurvey", *command.split()])
    capsys.readouterr()
    code = 0
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code
    found = capsys.readouterr()
    return code, found.out, found.err


def told_apart(case, setting, folder, monkeypatch, capsys, chosen, commands=OFFICE):
    """The names of what differs between an office and its neighbours."""
    own = office(case, case.units, setting, folder / "own", monkeypatch, capsys, commands, lambda drawn: drawn)
    found = []
    # Everybody answers here, and nobody among neighbours.
    for number, (what, units) in enumerate(re.neighbours_of(case, setting).items()):
        if chosen(what) and re.long_enough(case.resolved.recipe(), units):
            other = office(case, units, setting, folder / str(number), monkeypatch, capsys, commands, lambda drawn: 0)
            found += [
                (what, name, own.get(name), other.get(name))
                for name in own.keys() | other.keys()
                if own.get(name) != other.get(name)
            ]
    return own, found


@pytest.fixture(autouse=True)
def coupled(monkeypatch):
    re.couple(monkeypatch)


GRID = [("strata of poisson, one unit in each", label) for label in re.SETTINGS]
GRID += [
    (name, label)
    for name in ("poisson by", "srs", "proportional", "with replacement", "cluster with a cap")
    for label in (f"frame given None, {ADD}", f"frame given None, {REPLACE}", f"respondents given None, {ADD}")
]
QUICK = ("strata of poisson, one unit in each", f"frame given None, {ADD}")


@pytest.mark.parametrize(
    ("name", "label", "thorough"), [(*QUICK, False), *(pytest.param(*each, True, marks=pytest.mark.slow) for each in GRID)]
)
def test_an_office_says_and_keeps_the_same_for_neighbours(name, label, thorough, tmp_path, monkeypatch, capsys):
    case, near = re.CASES[name], ("nobody", "one more in a cluster of its own") if thorough else ("nobody",)
    try:
        # Where all neighbours have as many respondents, draws of different sizes have none in common to compare.
        fixed = re.SETTINGS[label].protect == "respondents" and re.SETTINGS[label].neighbours == REPLACE
        commands = (OFFICE[:-1] if fixed else OFFICE) if thorough else BRIEF
        own, found = told_apart(case, re.SETTINGS[label], tmp_path, monkeypatch, capsys, near.__contains__, commands)
    except NoGuarantee:
        return
    if not found and thorough:
        more = ("without b", "answers of b").__contains__
        found = told_apart(case, re.SETTINGS[label], tmp_path / "more", monkeypatch, capsys, more, commands)[1]
    assert found == []
    codes = {name: shown[0] for name, shown in own.items() if isinstance(shown, tuple)}
    again = next(name for name in codes if name.startswith("4 release"))
    assert [name for name, code in codes.items() if code] == [again], own
    assert {"out/release.json", "out/report.html", "sample.manifest.json", "books.txt"} <= own.keys()
    assert ("answered/release.csv" in own) == (thorough and not fixed)


def test_a_report_and_a_table_are_made_from_the_document_alone(tmp_path, monkeypatch):
    case = re.CASES["poisson"]
    survey = re.a_survey(case, case.units, ds.Setting("frame", neighbours=ADD), tmp_path)
    monkeypatch.chdir(tmp_path)
    made = survey.release(survey.plan(*re.STATISTICS["groups"]()))
    read = ds.Release(json.loads(json.dumps(made.to_dict())))
    for place in (tmp_path / "register.parquet", tmp_path / "books.ledger"):
        place.unlink()
    assert str(read) == str(made)
    assert read.explain() == made.explain()
    for ending in (".html", ".csv", ".json", ".parquet"):
        one, two = made.save(tmp_path / f"made{ending}"), read.save(tmp_path / f"read{ending}")
        assert one.read_bytes() == two.read_bytes()


def says_how_many_rows_there_are(monkeypatch):
    honest = Engine.check_rows

    def check_rows(engine, *more, **named):
        sys.stderr.write(f"{engine._table.count().to_pyarrow()} rows\n")
        honest(engine, *more, **named)

    monkeypatch.setattr(Engine, "check_rows", check_rows)


def counts_in_the_manifest(monkeypatch):
    honest = Engine.name.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Engine, "name", property(lambda self: f"{honest(self)}, {self._table.count().to_pyarrow()} rows"))


def exits_by_the_size_of_the_frame(monkeypatch):
    honest = Engine.draw

    def draw(engine, *more, **named):
        honest(engine, *more, **named)
        if engine._table.count().to_pyarrow().as_py() < 4:
            raise SystemExit(3)

    monkeypatch.setattr(Engine, "draw", draw)


@pytest.mark.parametrize("fault", [says_how_many_rows_there_are, counts_in_the_manifest, exits_by_the_size_of_the_frame])
def test_what_was_planted_is_found(fault, tmp_path, monkeypatch, capsys):
    fault(monkeypatch)
    setting = ds.Setting("frame", neighbours=ADD)
    assert told_apart(re.CASES["poisson"], setting, tmp_path, monkeypatch, capsys, "without b".__eq__, OFFICE[:3])[1] != []
