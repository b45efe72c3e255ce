"""`dpsurvey plan`, `rate`, `compare` and `allocate --survey`: what cannot be done ends in words, with the right exit code."""

import json
import re

import pytest

from tests.surface import planning_runner as run

dpsurvey = run.dpsurvey


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run.write_files(tmp_path)
    return tmp_path


REFUSED = (
    ("plan survey.toml --aim income=0.01", "cannot be estimated"),
    ("plan survey.toml --aim income=0.01 --least-epsilon", "at any epsilon"),
    ("plan survey.toml --aim income=0.01 --least-n", "cannot be met by any sample"),
)
WRONG = (
    ("plan survey.toml --aim income", "COLUMN=NUMBER"),
    ("plan survey.toml --aim income=", "COLUMN=NUMBER"),
    ("plan survey.toml --aim =400", "COLUMN=NUMBER"),
    ("plan survey.toml --aim income=much", "COLUMN=NUMBER"),
    *((f"plan survey.toml --aim income={moe}", "positive") for moe in ("0", "-1", "nan", "inf")),
    ("plan survey.toml --aim incme=400", "did you mean 'income'"),
    ("plan survey.toml --least-epsilon", "need an --aim"),
    ("plan survey.toml --least-n", "need an --aim"),
    ("plan survey.toml --epsilons much", "--epsilons"),
    ("plan survey.toml --epsilons 0,1", "epsilon"),
    ("plan survey.toml --epsilons nan", "epsilon"),
    ("plan survey.toml --plot errors.pdf", ".svg or .png"),
    ("plan nowhere.toml", "nowhere.toml"),
    ("plan survey.toml --expect-from nowhere.json", "nowhere.json"),
    *((f"rate survey.toml --at {rate}", "(0, 1]") for rate in ("0", "-0.1", "1.5", "nan")),
    ("rate survey.toml --at often", "--at"),
    ("rate survey.toml --at 0.1 --of wages", "wages"),
    ("rate survey.toml --at 0.1 --importance income", "COLUMN=NUMBER"),
    ("rate survey.toml --at 0.1 --importance income=-1", "not negative"),
    ("rate survey.toml --at 0.1 --importance wages=1", "no statistic"),
    ("rate survey.toml --at 0.1 --plot rates", ".svg or .png"),
    ("rate nowhere.toml", "nowhere.toml"),
    *(
        (f"compare designs survey.toml --clusters {given}", "clusters")
        for given in ("psu", "psu,200", "psu,200,12,3", "psu,many,12", "psu,0,12", "psu,200,0")
    ),
    *(
        (f"compare designs survey.toml --sizes {given}", "at_most")
        for given in ("employees", "employees,much", "employees,2", "employees,nan")
    ),
    ("compare designs survey.toml --rate 0.1", "leave out --rate"),
    ("compare designs survey.toml --size 5000", "--size"),
    ("compare designs survey.toml --icc 0.2", "--icc"),
    ("compare designs --epsilon 1 --by-rate --size 5000", "--size"),
    ("compare designs --rate 0.1 --epsilon 1 --clusters psu,200,12", "survey file"),
    ("compare designs --epsilon 1", "--rate"),
    ("compare designs --epsilon 1 --rate 0.1 --by-rate", "--by-rate"),
    ("compare designs --epsilon 1 --rate 0.1 --icc 2", "intraclass"),
    ("compare designs --epsilon 1 --rate 0.1 --size 0", "size"),
    ("compare designs --epsilon 1 --by-rate --plot designs.gif", ".svg or .png"),
    ("compare settings nowhere.toml", "nowhere.toml"),
    ("compare caps --rate 0 --epsilon 1", "(0, 1]"),
    ("compare caps --rate 0.1 --epsilon nan", "epsilon"),
    ("compare caps --rate 0.1 --epsilon 1 --clusters 0", "clusters"),
    ("compare medians nowhere.txt --bounds 0,1", "nowhere.txt"),
    ("compare medians values.txt --bounds 0", "LOW,HIGH"),
    ("compare medians values.txt --bounds 500,0", "bounds"),
    ("compare medians values.txt --bounds 0,500 --methods guess", "guess"),
    ("allocate --private --survey survey.toml", "--of"),
    ("allocate --private --survey survey.toml --of wages", "no mean or total"),
    ("allocate --private --survey nowhere.toml --of income", "nowhere.toml"),
    ("allocate --private --survey survey.toml --of income --n 10", "all figures from the plan"),
)


@pytest.mark.parametrize(("code", "line", "words"), [*((1, *each) for each in REFUSED), *((2, *each) for each in WRONG)])
def test_what_cannot_be_done_ends_in_words(code, line, words):
    found, out, err = dpsurvey(line)
    assert (found, out) == (code, "")
    assert words.lower() in run.plain(err).lower()
    assert "Traceback" not in err
    assert not re.search(r"\bNone\b", err)


def test_an_error_with_json_is_json_on_stderr():
    code, out, err = dpsurvey("plan survey.toml --aim income=0.01 --json")
    assert (code, out) == (1, "")
    assert json.loads(err)["error"] == "Refusal"
