"""The answers alone have an account of their own: every survey counts in it, and what is spent in it counts nowhere else."""

import json

import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.errors import BudgetExceeded, LedgerDisagrees
from dpsurvey.ledger.other_settings import Rule
from dpsurvey.privacy import PrivacyProfile

pytestmark = pytest.mark.quick

ANSWERS = ds.Setting("answers", given="respondents", neighbours="replace-one")
SAMPLE = ds.Setting("sample", given="frame", neighbours="replace-one")
FRAME = ds.Setting("frame", neighbours="add-remove")
FREE = ds.Setting("sample", neighbours="add-remove")
CATEGORIES = {"sex": ["female", "male"]}


@pytest.fixture
def books(tmp_path):
    with ds.Ledger(tmp_path / "books.ledger") as ledger:
        yield ledger


def a_file(books, name, setting=None, delta=0.0, **made):
    made = made or {"weights_are": "final", "calibrated_on": ["sex"]}
    about = {"budget": ds.Budget(9.0, delta), "ledger": "unused", "name": name, "setting": setting}
    survey = ds.Survey.collected("file.parquet", weights="w", weight_range=(1, 9), categories=CATEGORIES, **about, **made)
    books.open_survey(survey.terms)
    return survey.terms


def a_register(books, name, setting, design):
    frame = ds.Frame("register.parquet", unit="id", size=1000)
    survey = ds.Survey(frame, design, setting, budget=ds.Budget(9.0), ledger="unused", name=name)
    books.open_survey(survey.terms)
    return survey.terms


def spend(books, terms, epsilon):
    return books.book(terms.name, PrivacyProfile.pure(epsilon, terms.relation), "a table")


def account_of(books, setting):
    (found,) = [each for each in books.accounts() if each.setting == setting]
    return found


def test_what_finer_settings_guarantee_counts_at_the_same_epsilon_and_nothing_comes_back(books):
    final, plain = a_file(books, "final"), a_file(books, "plain", SAMPLE, weights_are="design")
    spend(books, final, 0.5)
    spend(books, plain, 0.25)
    answers, sample = account_of(books, ANSWERS), account_of(books, SAMPLE)
    assert answers.epsilon == pytest.approx(0.75)
    assert {line.surveys: line.rule for line in answers.lines} == {("final",): Rule.OWN, ("plain",): Rule.ANSWERS}
    assert not answers.unseen
    assert sample.epsilon == 0.25
    ((name, reason),) = sample.unseen
    assert name == "final"
    assert "protects the answers alone" in reason


def test_neither_a_secret_draw_nor_a_record_more_or_less_makes_answers_cheaper(books):
    """Somebody's answers, in a sample that is held fixed: nothing amplifies, and under add-remove they are two steps."""
    spend(books, a_file(books, "final"), 0.5)
    spend(books, a_register(books, "drawn", FRAME, ds.poisson(0.01)), 1.0)
    spend(books, a_register(books, "twice", SAMPLE, ds.with_replacement(n=2)), 1.0)
    spend(books, a_file(books, "free", FREE, weights_are="design"), 0.25)
    found = {line.surveys[0]: line.epsilon for line in account_of(books, ANSWERS).lines}
    assert found == pytest.approx({"final": 0.5, "drawn": 2.0, "twice": 2.0, "free": 0.5})
    assert account_of(books, FRAME).epsilon < 0.02


def test_a_limit_on_answers_counts_every_survey_and_one_on_samples_does_not_see_final_weights(books):
    final, plain = a_file(books, "final"), a_file(books, "plain", SAMPLE, weights_are="design")
    books.set_budget(ANSWERS, ds.Budget(1.0))
    spend(books, plain, 0.75)
    with pytest.raises(BudgetExceeded, match="of the agency"):
        spend(books, final, 0.5)
    spend(books, final, 0.2)
    with pytest.raises(LedgerDisagrees, match="does not see what 'final' would cost") as raised:
        books.set_budget(SAMPLE, ds.Budget(2.0))
    assert "held fixed" in str(raised.value)
    books.set_budget(SAMPLE, ds.Budget(2.0), without=["final"])


def test_a_budget_with_a_delta_counts_as_a_whole(books):
    terms = a_file(books, "plain", SAMPLE, delta=1e-6, weights_are="design")
    spend(books, a_file(books, "final"), 0.5)
    books.book(terms.name, PrivacyProfile.zcdp(0.01, terms.relation), "a table")
    answers = account_of(books, ANSWERS)
    assert (answers.epsilon, answers.delta) == (pytest.approx(9.5, rel=1e-6), 1e-6)


def test_the_ledger_says_on_the_command_line_whose_account_it_is(books, tmp_path):
    run, place = CliRunner().invoke, str(tmp_path / "books.ledger")
    spend(books, a_file(books, "final"), 0.5)
    books.close()
    answers = ["--protect", "answers", "--given", "respondents", "--neighbours", "replace-one"]
    assert run(app, ["ledger", "budget", place, "--epsilon", "2", *answers]).exit_code == 0
    text = run(app, ["ledger", "tree", place]).stdout
    assert "Anyone who responded, replace-one, the respondents held fixed, their answers alone: epsilon 0.5 in all" in text
    (account,) = json.loads(run(app, ["ledger", "tree", place, "--json"]).stdout)["accounts"]
    assert account["setting"] == {"protect": "answers", "given": "respondents", "neighbours": "replace-one"}
    assert account["budgets"][0]["epsilon"] == 2.0
