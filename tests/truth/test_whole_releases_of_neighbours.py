"""Everything that a release shows, for neighbours: under every setting, relation and design that can be released.

Tiny frames go through the real engine and a real ledger. For one and the same outcome of the noise two neighbours have the
same document, to the letter, the same entries in the ledger and the same refusals. What may differ is listed: ids and hashes
that are random or that hold such ids, times (which stay in the ledger), and, under a fixed-size design, frames too short to
draw from, which are refused and left out by a condition of the guarantee. The losses of the noisy vectors are in
`test_losses_of_whole_releases.py`.
"""

import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.engine import Engine
from dpsurvey.errors import BadData, BadValue, NoGuarantee, SurveyError
from dpsurvey.ledger.terms import LARGE_ENOUGH, NOT_COMPARED
from tests.truth import released as re

SETTINGS, CASES, ADD, REPLACE = re.SETTINGS, re.CASES, re.ADD, re.REPLACE
# Some of it each time, all of it with the slow tests.
QUICK = ("srs with a lower bound", "strata of poisson, one unit in each")
SOME = [label for label in SETTINGS if label.startswith(("frame given None", "sample given frame", "respondents given None"))]
TELLING = ("without b", "one more in a cluster of its own", "nobody", "a like b")
# Every unit leaves in turn; what comes or changes is one of each kind.
ALIKE = (*(f"{what} {unit}" for what in ("answers of", "one more like") for unit in "bcde"), "b like", "c like", "e like")


def thoroughly(what):
    return not what.startswith(ALIKE)


def briefly(what):
    return what.startswith(TELLING)


def both(quick, every):
    """Each of the quick ones briefly, and each of all of them thoroughly."""
    brief = [pytest.param(name, False, id=f"{name}, briefly") for name in quick]
    return brief + [pytest.param(name, True, id=name, marks=pytest.mark.slow) for name in every]


@pytest.fixture(autouse=True)
def coupled(monkeypatch):
    re.couple(monkeypatch)


# How many of the twenty settings are released with a design; the others are refused before anything is planned: designs whose
# lists change altogether with a record more, and weights that one record may change for all others.
PLANNED = {
    "srs": 17,
    "srs with a lower bound": 17,
    "poisson": 20,
    "poisson by": 20,
    "strata of poisson, one unit in each": 20,
    "strata of srs": 17,
    "proportional": 15,
    "mixed strata, proportional and poisson": 15,
    "with replacement": 13,
    "systematic, as listed": 13,
    "cluster with a cap": 13,
    "cluster": 7,
    "pps sampford": 7,
    "stages, srs last": 7,
}


@pytest.mark.parametrize(("name", "thorough"), both(QUICK, CASES))
def test_neighbours_have_the_same_document_ledger_and_refusals_but_for_the_noise(name, thorough, tmp_path):
    case, made = CASES[name], 0
    for number, label in enumerate(SETTINGS if thorough else SOME):
        chosen = thoroughly if thorough else briefly
        try:
            found = re.differences(case, SETTINGS[label], tmp_path / str(number), re.asked_of(case), chosen)
        except NoGuarantee:
            continue
        assert found == [], f"{name}, {label}"
        made += 1
    assert made == PLANNED.get(name, made) if thorough else made >= 5
    assert not thorough or made in PLANNED.values()


# Every statistic, by every recipe and mechanism, for each kind of design that can be asked for it.
ASKED = ("srs", "poisson by", "with replacement", "cluster with a cap", "strata of srs", "strata of poisson, one unit in each")


@pytest.mark.parametrize(("kind", "thorough"), both(["groups", "quantile"], re.STATISTICS))
def test_no_statistic_tells_neighbours_apart(kind, thorough, tmp_path):
    made = 0
    for number, name in enumerate(ASKED if thorough else ASKED[-1:]):
        for neighbours in (ADD, REPLACE):
            setting = ds.Setting("frame", neighbours=neighbours)
            try:
                chosen = thoroughly if thorough else briefly
                found = re.differences(CASES[name], setting, tmp_path / f"{number} {neighbours}", kind, chosen)
            except (NoGuarantee, BadValue):
                # This design cannot be asked for it: said before any row is read.
                continue
            assert found == [], f"{name}, {kind}, {neighbours}"
            made += 1
    assert made >= (1 if thorough else 2)


# Faults that are planted: what is compared above would show them


def publishes_the_number_of_rows(monkeypatch):
    name = Engine.name.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Engine, "name", property(lambda self: f"{name(self)}, {self._table.count().to_pyarrow()} rows"))


def compares_sizes_whatever_the_relation(monkeypatch):
    monkeypatch.setattr(Design, "keeps_rows", lambda self, setting: True)


def compares_strata_whatever_the_relation(monkeypatch):
    monkeypatch.setattr(Design, "keeps_columns", lambda self, setting: True)


def forgets_a_condition(monkeypatch):
    monkeypatch.setattr("dpsurvey.ledger.terms.LARGE_ENOUGH", "it is warm")


def refuses_few_answers(monkeypatch):
    honest = Engine.draw

    def draw(engine, *more, **named):
        honest(engine, *more, **named)
        if not engine._sample.count().to_pyarrow().as_py():
            raise BadData("nobody was drawn")

    monkeypatch.setattr(Engine, "draw", draw)


def books_an_entry_for_every_row(monkeypatch):
    honest = Engine.check_rows

    def check_rows(engine, *more, **named):
        with ds.Ledger("books.ledger") as ledger:
            for row in range(engine._table.count().to_pyarrow().as_py()):
                ledger.note_check(str(row))
        honest(engine, *more, **named)

    monkeypatch.setattr(Engine, "check_rows", check_rows)


FAULTS = {
    "poisson": (
        publishes_the_number_of_rows,
        compares_sizes_whatever_the_relation,
        refuses_few_answers,
        books_an_entry_for_every_row,
    ),
    "strata of poisson, one unit in each": (compares_strata_whatever_the_relation,),
    "strata of srs": (forgets_a_condition,),
}


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults])
def test_what_was_planted_is_found(name, fault, tmp_path, monkeypatch):
    chosen = ("without b", "nobody").__contains__
    setting = ds.Setting("frame", neighbours=ADD)
    assert re.differences(CASES[name], setting, tmp_path / "honest", "mean", chosen) == []
    fault(monkeypatch)
    assert re.differences(CASES[name], setting, tmp_path / "planted", "mean", chosen) != []


# Declared sizes


@pytest.mark.parametrize("name", ["poisson", "poisson by", "srs", "proportional", "strata of poisson, one unit in each"])
def test_declared_sizes_are_compared_where_all_neighbours_share_them_and_nowhere_else(name, tmp_path):
    case = CASES[name]
    more = (*case.units, {**case.units[-1], "id": "x"})
    for setting in (ds.Setting("frame", neighbours=REPLACE), ds.Setting("sample", given="frame", neighbours=REPLACE)):
        refused, _ = re.released(case, setting, more, tmp_path / f"{setting.protect} more", "mean")
        assert refused.startswith("BadData"), "one record too many"
        assert "declared size" in refused
        document, _ = re.released(case, setting, case.units, tmp_path / setting.protect, "mean")
        # A record may move to another region, but for strata whose sizes every neighbour has.
        stays = case.resolved.strata_column is not None and setting.weights_fixed
        assert not_compared(document) == ([] if stays else [f"declared sizes of 'region': {NOT_COMPARED}"])
    if name != "srs":
        document, _ = re.released(case, ds.Setting("frame", neighbours=ADD), more, tmp_path / "free", "mean")
        assert not_compared(document) == [f"declared size of the frame and sizes of 'region': {NOT_COMPARED}"]


def not_compared(document):
    return [note for note in document["not_in_the_error"] if NOT_COMPARED in note]


@pytest.mark.parametrize("design", [ds.srs(n=2), ds.stratified("region", within=ds.srs(n=1))], ids=["srs", "strata"])
@pytest.mark.parametrize("setting", [ds.Setting("frame", neighbours=REPLACE), ds.Setting("sample", "frame", neighbours=REPLACE)])
def test_sizes_of_groups_that_a_record_may_leave_are_not_compared_and_the_release_says_so(design, setting, tmp_path):
    """Wrong sizes of sexes are taken as declared; wrong sizes of strata are refused."""
    rows = pd.DataFrame({"id": range(6), "region": list("aaabbb"), "sex": list("fffmmm"), "y": [0.5] * 6})

    def survey(sizes, name):
        frame = ds.Frame(rows, unit="id", size=6, categories={"region": sizes, "sex": {"f": 1, "m": 5}})
        return ds.Survey(frame, design, setting, budget=ds.Budget(1.0), ledger=tmp_path / f"{name}.ledger", name=name)

    release = survey({"a": 3, "b": 3}, "right").plan(ds.total("y", bounds=(0, 1), by="sex")).release()
    regions = "" if design.strata_column else "sizes of 'region' and "
    assert not_compared(release.document) == [f"declared {regions}sizes of 'sex': {NOT_COMPARED}"]
    if design.strata_column:
        with pytest.raises(BadData, match="declared sizes of 'region'"):
            survey({"a": 2, "b": 4}, "wrong").check()


def test_an_empty_list_is_refused_in_words_where_a_number_of_draws_is_fixed(tmp_path):
    case, setting = CASES["with replacement"], ds.Setting("respondents", neighbours=ADD)
    document, _ = re.released(case, setting, case.units[:1], tmp_path / "one", "mean")
    assert LARGE_ENOUGH in document["guarantee"]["holds_when"]
    assert re.released(case, setting, (), tmp_path / "nobody", "mean")[0].startswith("BadData: there is nobody to draw from")


# Collected files

ROWS = pd.DataFrame(
    {
        "stratum": ["a"] * 4 + ["b"] * 4,
        "psu": ["1", "1", "2", "2", "3", "3", "4", "4"],
        "w": [2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0],
        "fpc": [9] * 8,
        "income": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0],
    }
)
BY_STRATUM = {"a": 4, "b": 4}
FILES = {
    "plain": {},
    "n": {"n": 8, "size": 80},
    "n by stratum": {"n": BY_STRATUM, "strata": "stratum", "size": 80, "categories": {"stratum": {"a": 40, "b": 40}}},
    "weights": {"weights": "w", "weights_are": "design", "weight_range": (1, 9)},
    "weights and n": {"weights": "w", "weights_are": "design", "weight_range": (1, 9), "n": 8},
    "clusters": {"weights": "w", "weights_are": "design", "weight_range": (1, 9), "psu": "psu", "psus": 4},
    "clusters and n": {"weights": "w", "weights_are": "design", "weight_range": (1, 9), "psu": "psu", "psus": 4, "n": 8},
    "clusters in strata": {
        "weights": "w",
        "weights_are": "design",
        "weight_range": (1, 9),
        "psu": "psu",
        "strata": "stratum",
        "psus": 2,
        "categories": {"stratum": ["a", "b"]},
    },
    "strata and fpc": {
        "weights": "w",
        "weights_are": "design",
        "weight_range": (1, 9),
        "strata": "stratum",
        "fpc": "fpc",
        "categories": {"stratum": ["a", "b"]},
    },
}
# A stratum and a cluster of one record: with it they are there, without it they are not.
LONE = pd.DataFrame({"stratum": ["b"], "psu": ["9"], "w": [2.0], "fpc": [9], "income": [1.0]})


def of_a_file(rows, terms, setting, folder):
    folder.mkdir()
    rows.to_parquet(folder / "file.parquet")
    survey = ds.Survey.collected("file.parquet", setting=setting, budget=ds.Budget(1.0), ledger="books.ledger", **terms)
    plan = survey.plan(ds.mean("income", bounds=(0, 10)))
    return re.outcome(lambda: survey.release(plan), folder)


def neighbouring_files(setting, in_place):
    if setting.neighbours == ADD:
        yield from (ROWS.drop(index=[place]) for place in (0, 7))
        yield pd.concat([ROWS, LONE], ignore_index=True)
        yield pd.concat([ROWS.iloc[:4], LONE], ignore_index=True)
        yield ROWS.iloc[:4]
        yield ROWS.iloc[:0]
    else:
        yield ROWS.assign(income=[10.0, *ROWS["income"][1:]])
        if not in_place:
            yield pd.concat([ROWS.iloc[1:], LONE], ignore_index=True)


@pytest.mark.parametrize(("name", "thorough"), both(["plain", "clusters in strata"], FILES))
def test_neighbouring_files_have_the_same_document_ledger_and_refusals(name, thorough, tmp_path):
    made = []
    for label in SETTINGS if thorough else [label for label in SOME if label.startswith("sample")]:
        setting = SETTINGS[label]
        try:
            own = of_a_file(ROWS, FILES[name], setting, tmp_path / f"{label} own")
        except NoGuarantee:
            continue
        assert isinstance(own[0], dict), f"{name}, {label}: {own[0]}"
        in_place = bool(own[0]["guarantee"]["relation_name"])
        for number, rows in enumerate(neighbouring_files(setting, in_place)):
            assert of_a_file(rows, FILES[name], setting, tmp_path / f"{label} {number}") == own, f"{name}, {label}, {number}"
        made.append(setting.neighbours)
    # At the sample and among respondents, seven settings under each relation; n= takes away what could change it, and weights all
    # settings that do not hold the frame fixed.
    settings = 3 if "weights" in FILES[name] or name == "n by stratum" else 7
    expected = (0 if "n" in FILES[name] else settings, settings)
    assert (made.count(ADD), made.count(REPLACE)) == (expected if thorough else (1, 1))


def test_numbers_of_records_are_refused_where_a_neighbour_has_others():
    for given in (
        {"n": 8, "size": 80},
        {"n": 8, "weights": "w", "weights_are": "design", "weight_range": (1, 9)},
        {"n": 8, "psu": "psu"},
    ):
        for protect in ("sample", "respondents"):
            with pytest.raises(NoGuarantee, match="one record more or less changes it"):
                ds.Survey.collected(
                    ROWS, setting=ds.Setting(protect, neighbours=ADD), budget=ds.Budget(1.0), ledger="books.ledger", **given
                )


# Responses

RESPONDED = ("poisson", "srs", "strata of poisson, one unit in each", "with replacement")


@pytest.mark.parametrize(("name", "thorough"), both(["with replacement"], RESPONDED))
def test_who_answered_decides_neither_about_a_release_nor_about_its_words(name, thorough, tmp_path):
    case, key = CASES[name], ds.Key(bytes(range(32)))
    for label in SETTINGS if thorough else SOME:
        setting = SETTINGS[label]
        counts_fixed = setting.protect == "respondents" and setting.neighbours == REPLACE
        found = []
        for number in range(3):
            folder = tmp_path / f"{label} {number}"
            try:
                survey = re.a_survey(case, case.units, setting, folder)
            except NoGuarantee:
                break
            found.append(responded(survey, folder, number, key))
        # Everybody, all but one, nobody.
        if found:
            # Where all neighbours have as many respondents, one less is none of them.
            assert found[0] == found[1] or counts_fixed, label
            empty = "BadData: the table is empty"
            assert str(found[2][0]).startswith(empty) if counts_fixed else found[2] == found[0], label


def responded(survey, folder, number, key):
    def make():
        sealed = survey.draw("sample.parquet", key=key)
        units = sorted(set(pd.read_parquet(sealed.path)["unit"]))
        answered = (units, units[1:], [])[number]
        pd.DataFrame(
            {"id": pd.Series(answered, dtype="string"), "income": pd.Series([5.0] * len(answered), dtype="float64")}
        ).to_parquet("answers.parquet")
        return survey.release(survey.plan(ds.mean("income", bounds=(0, 10)), responses="answers.parquet"))

    return re.outcome(make, folder)


def test_an_empty_table_of_answers_is_refused_where_every_neighbour_has_as_many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey = re.a_survey(CASES["srs"], CASES["srs"].units, ds.Setting("respondents", neighbours=REPLACE), tmp_path)
    survey.draw("sample.parquet")
    with pytest.raises(BadData, match="the table is empty"):
        survey.release(survey.plan(ds.mean("income", bounds=(0, 10)), responses=pd.DataFrame({"id": ["a"], "income": [1.0]})[:0]))


def test_a_table_that_cannot_be_opened_is_refused_alike(tmp_path):
    with pytest.raises(SurveyError):
        ds.Survey.collected(tmp_path / "none.parquet", budget=ds.Budget(1.0), ledger=tmp_path / "b.ledger").check()
