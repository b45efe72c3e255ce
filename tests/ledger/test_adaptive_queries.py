"""Somebody who chooses each question after the last answer never gets more than the budget, and gets all of it."""

import random
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsurvey as ds
from dpsurvey.errors import BudgetExceeded, LedgerDisagrees

SIZE = 200
FRAME = ds.Setting("frame", neighbours="replace-one")
SAMPLE = ds.Setting("sample", given="frame", neighbours="replace-one")
HAIR = 1e-9


@pytest.fixture
def books(tmp_path):
    return tmp_path / "books.ledger"


def a_survey(books, *, epsilon=1.0, delta=0.0, setting=FRAME, name="lfs", rate=0.1):
    frame = ds.Frame(books.parent / "register.parquet", unit="id", size=SIZE)
    return ds.Survey(frame, ds.srs(rate=rate), setting, budget=ds.Budget(epsilon, delta), ledger=books, name=name)


@pytest.fixture
def ledger(books):
    with ds.Ledger(books) as ledger:
        yield ledger


def opened(ledger, books, **terms):
    found = a_survey(books, **terms).terms
    ledger.open_survey(found)
    return found


def largest(fits, high=100.0):
    """The largest number that fits, by bisection to the last digit."""
    low = 0.0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def root(square):
    """The largest number whose exact square is no more than this."""
    near = float(square) ** 0.5
    while Fraction(near) ** 2 > square:
        near = np.nextafter(near, 0.0).item()
    return near


# How an accounting measure makes a charge of an amount, and what the amount of the largest charge is.
PURE = (0.0, ds.PrivacyProfile.pure, Fraction, float)
RHO = (1e-6, ds.PrivacyProfile.zcdp, Fraction, float)
MU = (1e-6, ds.PrivacyProfile.gaussian, lambda mu: Fraction(mu) ** 2, root)


@pytest.mark.parametrize("setting", [FRAME, SAMPLE], ids=["amplified", "as it is"])
@pytest.mark.parametrize("measure", [PURE, RHO, MU], ids=["pure", "rho", "mu"])
def test_on_one_sample_adaptive_questions_get_the_budget_and_not_a_hair_more(ledger, books, measure, setting):
    delta, profile, amount_of, of_amount = measure
    terms = opened(ledger, books, delta=delta, setting=setting)

    def charge(amount):
        return profile(of_amount(amount), "replace-one")

    limit = amount_of(largest(lambda size: terms.amplify(profile(size, "replace-one")).epsilon(delta) <= 1.0))
    if measure is not PURE:
        # Figures with a delta come from a search that is good to a part in 10^12.
        limit *= 1 - Fraction(1, 10**11)
    chance, spent, sample, refused = random.Random(7), Fraction(0), None, 0
    for _ in range(40):
        # Whoever was refused asks for less; now and then for more than is left.
        wish = limit * Fraction(chance.random()) / (6 + refused) + (limit - spent) * (chance.random() < 0.2)
        wish = amount_of(of_amount(Fraction(round(wish * 2**30), 2**30)))
        if spent + wish > limit:
            refused += 1
            with pytest.raises(BudgetExceeded):
                ledger.book("lfs", charge(wish), "too much", sample)
        else:
            ledger.book("lfs", charge(wish), "some", sample)
            spent += wish
            sample = ledger.samples()[0]["id"]
        assert ledger.spending(terms).spent <= 1.0
    assert refused > 0
    rest = limit - spent
    assert rest > Fraction(HAIR)
    with pytest.raises(BudgetExceeded):
        ledger.book("lfs", charge(rest + Fraction(HAIR)), "a hair too much", sample)
    ledger.book("lfs", charge(rest), "all that is left", sample)
    assert 1.0 - 1e-8 < ledger.spending(terms).spent <= 1.0
    with pytest.raises(BudgetExceeded):
        ledger.book("lfs", charge(Fraction(HAIR)), "a hair", sample)


def cost(terms, epsilon):
    return terms.amplify(ds.PrivacyProfile.pure(epsilon, "replace-one")).epsilon(0.0)


def costing(terms, loss):
    """The charge to a new sample that loses this much."""
    return ds.PrivacyProfile.pure(largest(lambda size: cost(terms, size) <= loss), "replace-one")


def fill(ledger, chance, turns, used):
    """Ask by turns for a random part of what is left, and at the end for all of it; `used` says what was spent."""
    for number in range(30):
        name, terms = turns[number % len(turns)]
        ledger.book(name, costing(terms, (1.0 - used()) * chance.uniform(0.05, 0.3)), "some")
        assert used() <= 1.0
    name, terms = turns[0]
    with pytest.raises(BudgetExceeded) as caught:
        ledger.book(name, costing(terms, 1.0 - used() + HAIR), "a hair too much")
    ledger.book(name, costing(terms, (1.0 - used()) - 1e-12), "all that is left")
    assert 1.0 - 1e-11 < used() <= 1.0
    for name, terms in turns:
        with pytest.raises(BudgetExceeded):
            ledger.book(name, costing(terms, HAIR), "a hair")
    return caught.value


def test_across_new_samples_adaptive_questions_get_the_budget_and_not_a_hair_more(ledger, books):
    terms = opened(ledger, books)
    error = fill(ledger, random.Random(8), [("lfs", terms)], lambda: ledger.spending(terms).spent)
    assert error.whose == ""
    assert len(ledger.samples()) == 31


@pytest.mark.parametrize("period", ["ever", "year"])
def test_across_surveys_the_agency_gets_its_budget_and_not_a_hair_more(ledger, books, period):
    ledger.set_budget(FRAME, ds.Budget(1.0), per=period)
    ledger.set_budget(FRAME, ds.Budget(50.0), per="year" if period == "ever" else "ever")
    # Each survey alone could spend more than the agency has.
    turns = [(name, opened(ledger, books, name=name, epsilon=5.0, rate=rate)) for name, rate in (("a", 0.1), ("b", 0.5))]
    year = f"{datetime.now(UTC):%Y}"

    def used():
        return sum(account.epsilon for account in ledger.accounts("ever" if period == "ever" else year))

    error = fill(ledger, random.Random(9), turns, used)
    assert error.whose == ("the agency" if period == "ever" else f"the agency for a year ({year})")
    for looser in (1.0 + HAIR, 2.0):
        with pytest.raises(LedgerDisagrees, match="never raised"):
            ledger.set_budget(FRAME, ds.Budget(looser), per=period)


def test_a_budget_with_delta_is_counted_whole_by_the_agency_before_its_first_answer(ledger, books):
    ledger.set_budget(FRAME, ds.Budget(1.0, 1e-6))
    for name in ("a", "b"):
        opened(ledger, books, name=name, epsilon=0.6, delta=5e-7)
    ledger.book("a", ds.PrivacyProfile.zcdp(1e-6, "replace-one"), "very little")
    with pytest.raises(BudgetExceeded, match="the budget of the agency does not cover"):
        ledger.book("b", ds.PrivacyProfile.zcdp(1e-6, "replace-one"), "very little")


def test_real_answers_do_not_help_to_get_more(books):
    table = pa.table({"id": pa.array(range(SIZE), pa.int64()), "income": np.linspace(0, 100, SIZE)})
    pa.parquet.write_table(table, books.parent / "register.parquet")
    survey, low, high, refused, losses = a_survey(books), 0.0, 100.0, 0, []
    for number in range(14):
        # Narrows the bounds around the last answer, and asks again: a new sample every third time.
        survey = a_survey(books) if number % 3 == 2 else survey
        plan = survey.plan(ds.mean("income", bounds=(low, high)), share=0.15 if high - low > 50 else 0.3)
        try:
            answer = plan.release().estimates[0]["estimate"]
        except BudgetExceeded:
            refused += 1
            low, high = 0.0, 100.0 + number
            continue
        width = 0.4 * (high - low)
        middle = min(max(answer, 0.0), 100.0)
        low, high = middle - width, middle + width
        with ds.Ledger(books) as ledger:
            losses.append(ledger.spending(survey.terms).spent)
    assert refused > 0
    assert losses == sorted(losses)
    assert 0.5 < losses[-1] <= 1.0
