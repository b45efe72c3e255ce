"""A limit counts every survey whose cost under its setting is known, and lets no other one spend unless it is named."""

import json
import math

import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.errors import BudgetExceeded, LedgerDisagrees
from dpsurvey.ledger.other_settings import Rule
from dpsurvey.privacy import PrivacyProfile

pytestmark = pytest.mark.quick

FRAME = ds.Setting("frame", neighbours="add-remove")
POPULATION_FIXED = ds.Setting("frame", given="population", neighbours="add-remove")
REPLACED = ds.Setting("frame", neighbours="replace-one")
SAMPLE = ds.Setting("sample", given="frame", neighbours="replace-one")


def amp(epsilon, rate):
    return math.log1p(rate * math.expm1(epsilon))


@pytest.fixture
def books(tmp_path):
    with ds.Ledger(tmp_path / "books.ledger") as ledger:
        yield ledger


def opened(books, name, setting=FRAME, design=None, budget=None, **about):
    frame = ds.Frame("register.parquet", unit="id", size=1000, **about)
    survey = ds.Survey(frame, design or ds.poisson(0.1), setting, budget=budget or ds.Budget(9.0), ledger="unused", name=name)
    books.open_survey(survey.terms)
    return survey.terms


def spend(books, terms, epsilon):
    return books.book(terms.name, PrivacyProfile.pure(epsilon, terms.relation), "a table")


@pytest.mark.parametrize("other", [POPULATION_FIXED, ds.Setting("population", neighbours="add-remove")])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_held_fixed_hides_no_survey_from_a_limit(books, other, swapped):
    limit, own = (other, FRAME) if swapped else (FRAME, other)
    terms = opened(books, "lfs", own)
    books.set_budget(limit, ds.Budget(1.1 * amp(1.0, 0.1)))
    spend(books, terms, 1.0)
    (account,) = [each for each in books.accounts() if each.setting == limit]
    assert account.epsilon == pytest.approx(amp(1.0, 0.1), rel=1e-12)
    assert "counted here" in account.lines[0].how
    with pytest.raises(BudgetExceeded, match="of the agency"):
        spend(books, terms, 1.0)


def test_a_survey_under_add_remove_counts_as_replaced_records(books):
    terms = opened(books, "lfs")
    books.set_budget(REPLACED, ds.Budget(3.0))
    spend(books, terms, 2.0)
    (account,) = [each for each in books.accounts() if each.setting == REPLACED]
    assert account.epsilon == pytest.approx(math.log((0.9 + 0.1 * math.exp(2)) / (0.9 + 0.1 * math.exp(-2))), rel=1e-12)


def test_a_survey_of_the_sample_counts_unamplified(books):
    terms = opened(books, "panel", SAMPLE, ds.srs(n=100))
    books.set_budget(REPLACED, ds.Budget(1.5))
    spend(books, terms, 1.0)
    (account,) = [each for each in books.accounts() if each.setting == REPLACED]
    assert account.epsilon == 1.0
    assert account.lines[0].rule is Rule.UNAMPLIFIED
    assert str(Rule.UNAMPLIFIED) in account.to_dict()["lines"][0]["how"]
    with pytest.raises(BudgetExceeded, match="of the agency"):
        spend(books, terms, 1.0)


@pytest.mark.parametrize("turned", [False, True], ids=["strata first", "clusters first"])
def test_answers_that_are_replaced_in_their_place_are_lost_to_relations_of_either_name(books, turned):
    """Two guarantees that are weaker than plain words say, each by a name of its own: whoever answers otherwise loses both."""
    about = {"categories": {"region": {"n": 600, "s": 400}}, "public": ["psu"]}
    designs = {
        "strata": ds.stratified("region", within=ds.srs(n=20)),
        "clusters": ds.cluster("psu", ds.srs(n=10), clusters=100, cap=10),
    }
    terms = [opened(books, name, REPLACED, designs[name], **about) for name in sorted(designs, reverse=not turned)]
    assert len({each.design.relation_name(REPLACED) for each in terms} - {""}) == 2
    losses = [each.amplify(PrivacyProfile.pure(1.0, each.relation)).epsilon(0.0) for each in terms]
    books.set_budget(REPLACED, ds.Budget(sum(losses) - 0.01))
    spend(books, terms[0], 1.0)
    with pytest.raises(BudgetExceeded, match="of the agency"):
        spend(books, terms[1], 1.0)
    books.book(terms[1].name, PrivacyProfile.pure(0.5, terms[1].relation), "a smaller table")
    both = max(each.epsilon for each in books.accounts() if len(each.lines) == 2)
    assert both > losses[0]


def test_a_survey_that_a_limit_cannot_see_spends_nothing_unless_it_is_named(books):
    terms = opened(books, "register", REPLACED, ds.srs(n=100))
    with pytest.raises(LedgerDisagrees, match="does not see what 'register' would cost") as raised:
        books.set_budget(FRAME, ds.Budget(1.0))
    assert "without" in raised.value.hint
    books.set_budget(FRAME, ds.Budget(1.0), without=["register"])
    spend(books, terms, 3.0)
    later = opened(books, "later", REPLACED, ds.srs(n=100))
    with pytest.raises(LedgerDisagrees, match="does not see what 'later' would cost") as raised:
        spend(books, later, 0.1)
    assert "compares sizes with its rows" in str(raised.value)
    books.set_budget(FRAME, ds.Budget(1.0), without=["later"])
    spend(books, later, 0.1)
    spend(books, terms, 0.1)
    (account,) = [each for each in books.tree()["accounts"] if each["budgets"]]
    assert [each["survey"] for each in account["unseen"]] == ["register", "later"]
    assert account["budgets"][0]["without"] == ["register", "later"]
    assert account["epsilon"] == 0.0


def test_a_collected_file_is_not_seen_by_a_limit_for_the_frame(books, tmp_path):
    terms = ds.Survey.collected(
        "f.csv", weights="w", weights_are="design", weight_range=(1, 2), budget=ds.Budget(1.0), ledger="unused", name="file"
    ).terms
    books.set_budget(FRAME, ds.Budget(1.0))
    books.open_survey(terms)
    with pytest.raises(LedgerDisagrees, match="does not see what 'file' would cost"):
        spend(books, terms, 0.5)


def test_a_limit_belongs_to_a_population(books):
    people, firms = opened(books, "people", population="persons"), opened(books, "firms", population="firms")
    unnamed = opened(books, "unnamed")
    books.set_budget(FRAME, ds.Budget(1.0), population="persons")
    spend(books, firms, 8.0)
    spend(books, people, 1.0)
    # Whoever does not say whom a survey is about counts, to be safe.
    spend(books, unnamed, 1.0)
    (account,) = [each for each in books.accounts() if each.population == "persons"]
    assert account.epsilon == pytest.approx(2.0 * amp(1.0, 0.1), rel=1e-12)
    with pytest.raises(BudgetExceeded, match="of the agency for persons"):
        spend(books, people, 4.0)
    books.set_budget(FRAME, ds.Budget(20.0))
    everybody = next(each for each in books.accounts() if each.population == "" and each.setting == FRAME)
    assert everybody.epsilon == pytest.approx(amp(8.0, 0.1) + 2.0 * amp(1.0, 0.1), rel=1e-12)


def test_a_survey_with_a_delta_counts_with_its_whole_budget_under_another_setting(books):
    terms = opened(books, "lfs", POPULATION_FIXED, budget=ds.Budget(2.0, 1e-6))
    books.set_budget(FRAME, ds.Budget(5.0, 1e-5))
    books.book("lfs", PrivacyProfile.zcdp(0.01, terms.relation), "a table")
    (account,) = [each for each in books.accounts() if each.setting == FRAME]
    assert (account.epsilon, account.delta) == (pytest.approx(2.0, rel=1e-6), 1e-6)
    # As replaced records it is no less than for one record more or less.
    books.set_budget(REPLACED, ds.Budget(50.0, 1e-5))
    replaced = next(each for each in books.accounts() if each.setting == REPLACED)
    assert 2.0 < replaced.epsilon < 50.0


def test_a_limit_of_an_earlier_version_counts_everybody(books):
    """Entries of before have neither population nor names."""
    terms = opened(books, "lfs", POPULATION_FIXED)
    with books._journal.writing() as pen:
        pen.write("budget", {"setting": FRAME.to_dict(), "epsilon": 0.05, "delta": 0.0, "per": "ever"})
    with pytest.raises(BudgetExceeded, match="of the agency"):
        spend(books, terms, 1.0)


def test_the_command_names_the_population_and_the_surveys_that_are_not_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ds.Ledger("books.ledger") as ledger:
        opened(ledger, "register", REPLACED, ds.srs(n=100))
    words = ["ledger", "budget", "books.ledger", "--epsilon", "1", "--population", "persons"]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, LedgerDisagrees)
    done = CliRunner().invoke(app, [*words, "--without", "register"])
    assert done.exit_code == 0, done.output
    assert "(persons)" in done.stdout
    tree = json.loads(CliRunner().invoke(app, ["ledger", "show", "books.ledger", "--last", "1", "--json"]).stdout)
    assert (tree[0]["body"]["population"], tree[0]["body"]["without"]) == ("persons", ["register"])
