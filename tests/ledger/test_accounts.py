"""What samples cost together: one sample, independent samples, samples of one key, panels; and whose budget refuses."""

import contextlib
import json
import math
import re
import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue, BudgetExceeded, LedgerDisagrees
from dpsurvey.ledger import SealedSample
from dpsurvey.ledger.accounts import Dependence
from dpsurvey.ledger.entry import START, Entry
from dpsurvey.text.layout import ceiling_text, floor_text

pytestmark = pytest.mark.quick

FRAME = ds.Setting("frame", neighbours="add-remove")
REPLACE = ds.Setting("frame", neighbours="replace-one")
KEY, OTHER_KEY = "ab" * 32, "cd" * 32


def pure(epsilon, relation="add-remove"):
    return ds.PrivacyProfile.pure(epsilon, relation)


def gaussian(mu):
    return ds.PrivacyProfile.gaussian(mu, "add-remove")


def amp(epsilon, rate):
    return math.log1p(rate * math.expm1(epsilon))


@pytest.fixture
def books(tmp_path):
    with ds.Ledger(tmp_path / "books.ledger") as ledger:
        yield ledger


def opened(ledger, name, design=None, setting=FRAME, budget=None, unit="id"):
    """A survey on record, by its terms."""
    frame = ds.Frame("register.parquet", unit=unit, size=1000)
    survey = ds.Survey(frame, design or ds.poisson(0.1), setting, budget=budget or ds.Budget(9.0), ledger="unused", name=name)
    ledger.open_survey(survey.terms)
    return survey.terms


def sealed(ledger, survey, key=None, start=None):
    """A sealed sample on record, by its id; its file is never opened here."""
    number = len(ledger.samples())
    sample = SealedSample(f"sample-{number}", "drawn.parquet", "k" * 64, "h" * 64, key, start)
    ledger.seal(survey, sample, new=True)
    return sample.id


def charged(ledger, name, charges, key=None, start=None, **about):
    """A survey with one sealed sample and these charges."""
    terms = opened(ledger, name, **about)
    sample = sealed(ledger, name, key, start)
    for charge in charges:
        ledger.book(name, charge, "a table", sample)
    return terms, sample


def refused(ledger, survey, profile, sample=None):
    """Whose budget refuses a charge, and what was requested and left; Short by is the difference."""
    count = ledger.stamp["count"]
    with pytest.raises(BudgetExceeded) as caught:
        ledger.book(survey, profile, "too much", sample)
    assert ledger.stamp["count"] == count
    error = caught.value
    left = 0.0 if error.left < 1e-9 else error.left
    short = ceiling_text(error.requested - left, 6)
    assert f"Requested {ceiling_text(error.requested, 6)} / Left {floor_text(left, 6)} / Short by {short}" in str(error)
    assert error.requested > error.left
    return error.whose, error.requested, error.left


# One sample


def test_releases_at_one_and_two_on_a_tenth_cost_what_their_sum_costs_once_amplified(books):
    charges = [pure(1.0, "replace-one"), pure(2.0, "replace-one")]
    terms, sample = charged(books, "srs", charges, design=ds.srs(rate=0.1), setting=REPLACE)
    spending = books.spending(terms)
    assert spending.spent == pytest.approx(1.0676559447, abs=5e-11)
    assert spending.spent == pytest.approx(math.log(0.9 + 0.1 * math.exp(3.0)), rel=1e-14)
    assert spending.in_sample == {sample: pytest.approx(3.0, rel=1e-12)}
    (account,) = books.accounts()
    assert (account.epsilon, account.epsilon_in_sample, account.delta) == (spending.spent, spending.epsilon_in_sample, 0.0)
    assert amp(1.0, 0.1) + amp(2.0, 0.1) < 0.653


def test_ten_gaussian_charges_on_one_tenth_cost_5_21_and_not_the_0_96_of_amplifying_each(books):
    from dp_accounting.pld import privacy_loss_distribution as pld

    terms, _ = charged(books, "ten", [gaussian(0.5)] * 10, budget=ds.Budget(20.0, 1e-6))
    spent = books.spending(terms).spent
    assert round(spent, 2) == 5.21
    inside = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4).self_compose(10)
    assert spent == pytest.approx(amp(inside.get_epsilon_for_delta(1e-6 / 0.1), 0.1), abs=1e-6)
    each_amplified = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4, sampling_prob=0.1).self_compose(10)
    assert round(each_amplified.get_epsilon_for_delta(1e-6), 2) == 0.96
    assert round(books.spending(terms).epsilon_in_sample, 2) == 8.31


def test_a_survey_with_a_delta_counts_as_its_whole_budget_from_its_first_charge(books):
    terms, sample = charged(books, "whole", [], budget=ds.Budget(2.0, 1e-6))
    assert [(each.epsilon, each.delta, each.lines) for each in books.accounts()] == [(0.0, 0.0, ())]
    figures = []
    for _ in range(3):
        books.book("whole", gaussian(0.05), "a table", sample)
        (account,) = books.accounts()
        figures.append((account.epsilon, account.delta, account.epsilon_in_sample))
        assert account.lines[0].dependence is Dependence.WHOLE
    assert figures[0][:2] == (2.0, 1e-6)
    assert figures == [figures[0]] * 3
    assert figures[0][2] > books.spending(terms).epsilon_in_sample


def test_a_pld_figure_stands_beside_only_while_all_charges_were_fixed_before_the_first_release(books):
    about = {"budget": ds.Budget(3.0, 1e-3), "ledger": "unused", "name": "pld"}
    survey = ds.Survey(ds.Frame("register.parquet", unit="id", size=1000), ds.poisson(0.1), FRAME, **about)
    books.open_survey(survey.terms)
    sealed(books, "pld")
    three = [ds.total(f"item {number}", bounds=(0, 1)) for number in range(3)]
    release, sample = books.reserve(survey.plan(*three, noise="laplace", share=0.5).request, books.sealed_sample("pld"))

    def beside():
        return books.tree()["surveys"][0]["samples"][0].get("if_fixed_beforehand")

    figure = beside()
    assert figure <= books.spending(survey.terms).spent
    # The worst of three pure charges is randomised response three times: the exact curve, from its outcomes.
    own = books.charges("pld")[0]["profile"]["curve"]["epsilon"]
    yes = 1.0 / (1.0 + math.exp(-own))
    outcomes = [(math.comb(3, k) * yes**k * (1.0 - yes) ** (3 - k), own * (2 * k - 3)) for k in range(4)]
    level = math.log1p(math.expm1(figure) / 0.1)
    assert 0.1 * math.fsum(p * max(0.0, -math.expm1(level - loss)) for p, loss in outcomes) <= 1e-3 * (1.0 + 1e-9)
    books.commit(release, "hash")
    assert beside() == figure
    books.book("pld", pure(0.01), "chosen after the first answers", sample.id)
    assert beside() is None


# Several samples


def test_two_independent_samples_add_and_someone_known_to_be_in_one_of_them_is_an_outsider_to_the_other(books):
    terms, _ = charged(books, "s", [pure(2.0)])
    second = sealed(books, "s", KEY, 0.3)
    books.book("s", pure(3.0), "a table", second)
    charged(books, "other", [pure(1.0)], key=OTHER_KEY, start=0.0, design=ds.poisson(0.5))
    spending, (account,) = books.spending(terms), books.accounts()
    assert spending.spent == pytest.approx(amp(2.0, 0.1) + amp(3.0, 0.1), rel=1e-12)
    assert spending.epsilon_in_sample == pytest.approx(3.0 + amp(2.0, 0.1), rel=1e-12)
    assert account.epsilon == pytest.approx(amp(2.0, 0.1) + amp(3.0, 0.1) + amp(1.0, 0.5), rel=1e-12)
    assert account.epsilon_in_sample == pytest.approx(3.0 + amp(2.0, 0.1) + amp(1.0, 0.5), rel=1e-12)
    assert account.epsilon >= spending.spent


def test_samples_of_one_key_lose_the_mixture_over_windows_counted_on_a_grid(books):
    waves = [(0.9375, 0.125, 2.0), (0.0, 0.25, 1.5), (0.125, 0.5, 0.7), (0.125, 0.0625, 3.0)]
    for number, (start, rate, loss) in enumerate(waves):
        parts = [pure(loss / 2.0)] * 2
        charged(books, f"wave {number}", parts, key=KEY, start=start, design=ds.poisson(rate))
    here = [{loss: (Fraction(cell, 16) - Fraction(start)) % 1 < rate for start, rate, loss in waves} for cell in range(16)]
    cells = [sum(loss for loss, inside in each.items() if inside) for each in here]
    (account,) = books.accounts()
    assert account.epsilon == pytest.approx(math.log(math.fsum(map(math.exp, cells)) / 16.0), rel=1e-12)
    assert account.epsilon_in_sample == pytest.approx(max(cells), rel=1e-12)
    assert account.epsilon > sum(amp(loss, rate) for _, rate, loss in waves)
    assert account.lines[0].dependence is Dependence.SHARED
    assert "(Theorem L2)" in account.to_dict()["lines"][0]["how"]
    assert account.holds_when


@pytest.mark.parametrize("path", ["drawn.parquet", None])
def test_a_survey_takes_one_sample_of_a_key_because_it_adds_its_samples_as_independent_ones(books, path):
    terms = opened(books, "s")
    for name in ("one", "two"):
        with contextlib.suppress(LedgerDisagrees, BadValue):
            books.seal("s", SealedSample(name, path, "k" * 64, "h" * 64, KEY, 0.0), new=True)
            books.book("s", pure(2.0), "a table", name)
    assert len(books.samples("s")) <= 1
    assert books.spending(terms).spent >= sum(account.epsilon for account in books.accounts())


@pytest.mark.parametrize(
    ("design", "setting", "relation", "known"),
    [
        (ds.srs(rate=0.1), REPLACE, "replace-one", 3.0),
        (ds.poisson(0.1), REPLACE, "add-remove", 6.0),
        (ds.poisson(0.1), ds.Setting("sample", given="frame", neighbours="add-remove"), "add-remove", 3.0),
    ],
    ids=["srs", "replace-one", "the sample itself"],
)
def test_samples_of_one_key_without_a_proved_mixture_are_one_joint_sample_unamplified(books, design, setting, relation, known):
    terms, _ = charged(books, "one", [pure(1.0, relation)], key=KEY, start=0.0, design=design, setting=setting)
    assert books.accounts()[0].epsilon == books.spending(terms).spent
    charged(books, "two", [pure(2.0, relation)], key=KEY, start=0.5, design=design, setting=setting)
    (line,) = books.accounts()[0].lines
    assert line.epsilon == line.epsilon_in_sample == pytest.approx(known, rel=1e-12)
    assert line.dependence is Dependence.JOINT


def test_samples_of_one_key_with_units_of_different_names_are_one_joint_sample(books):
    charged(books, "one", [pure(1.0)], key=KEY, start=0.0)
    charged(books, "two", [pure(2.0)], key=KEY, start=0.5, unit="household")
    (line,) = books.accounts()[0].lines
    assert (line.epsilon, line.dependence) == (pytest.approx(3.0, rel=1e-12), Dependence.JOINT)


def test_a_keyed_sample_with_a_delta_outside_a_panel_counts_unamplified_and_so_do_the_others_of_its_key(books):
    terms, _ = charged(books, "noisy", [gaussian(0.1)], key=KEY, start=0.0, budget=ds.Budget(1.0, 1e-6))
    charged(books, "pure", [pure(2.0)], key=KEY, start=0.5)
    (account,) = books.accounts()
    by_survey = {line.surveys: line for line in account.lines}
    whole, joint = by_survey["noisy",], by_survey["noisy", "pure"]
    assert whole.epsilon > 2.0 * terms.budget.epsilon
    assert amp(whole.epsilon, 0.1) >= 1.0 * (1.0 - 1e-9)
    assert whole.dependence is Dependence.KEYED_WHOLE
    assert (joint.epsilon, joint.delta) == (pytest.approx(2.0, rel=1e-12), 0.0)
    assert (account.epsilon, account.delta) == (pytest.approx(whole.epsilon + 2.0, rel=1e-12), 1e-6)


def test_a_survey_counts_under_another_setting_only_by_a_rule(books):
    charged(books, "frame", [pure(2.0)])
    charged(books, "sample", [pure(0.5)], setting=ds.Setting("sample", given="frame", neighbours="add-remove"))
    charged(books, "replace", [pure(1.0, "replace-one")], design=ds.srs(rate=0.1), setting=REPLACE)
    found = {(each.setting.protect, each.setting.neighbours): each for each in books.accounts()}
    # Under Poisson sampling a replaced record costs this at add-remove 2.0, and two steps of 0.5 in a sample that is known.
    replaced = math.log((0.9 + 0.1 * math.exp(2.0)) / (0.9 + 0.1 * math.exp(-2.0)))
    assert {key: each.epsilon for key, each in found.items()} == {
        ("frame", "add-remove"): pytest.approx(amp(2.0, 0.1), rel=1e-12),
        ("sample", "add-remove"): pytest.approx(2.0 + 0.5, rel=1e-12),
        ("frame", "replace-one"): pytest.approx(amp(1.0, 0.1) + replaced + 1.0, rel=1e-12),
    }
    unseen = {key: [name for name, _ in each.unseen] for key, each in found.items()}
    assert unseen == {
        ("frame", "add-remove"): ["sample", "replace"],
        ("sample", "add-remove"): ["replace"],
        ("frame", "replace-one"): [],
    }


def test_the_ledger_prints_one_name_for_each_figure(books):
    a_panel(books, mu=1.0, delta=1e-6)
    charged(books, "s", [pure(2.0)])
    view = books.tree()
    figures = [view["surveys"][0], view["surveys"][0]["samples"][0], view["panels"][0], *view["accounts"]]
    assert all("epsilon_in_sample" in each for each in [*figures, *view["accounts"][0]["lines"]])
    assert view["panels"][0]["measure"] == "mu"
    assert not {"known", "in_sample", "currency"} & set(re.findall(r'"(\w+)":', json.dumps(view)))


# Panels


def test_the_panel_table_of_eight_waves():
    def loss(overlap, **fixed):
        return ds.panel("lfs", KEY, FRAME, rate=0.02, waves=8, overlap=overlap, mu=1.0, delta=1e-6, **fixed)

    rotation = loss(0.75)
    assert round(rotation.loss, 2) == 5.89
    assert round(loss(0.75, fixed=False).loss, 2) == 6.44
    assert round(loss(0.0).loss, 2) == 2.71
    assert round(rotation.in_every_wave, 1) == 16.9


def test_somebody_is_in_at_most_four_waves_of_a_rotation_in_which_a_quarter_leaves_each_time():
    rotation = ds.panel("lfs", KEY, FRAME, rate=0.02, waves=8, overlap=0.75, mu=1.0, delta=1e-6)
    assert rotation.epsilon_in_sample == pytest.approx(gaussian(2.0).epsilon(1e-6), rel=1e-9)


def test_eight_waves_asked_of_the_same_sample_cost_10_47(books):
    terms, _ = charged(books, "same", [gaussian(1.0)] * 8, design=ds.poisson(0.02), budget=ds.Budget(20.0, 1e-6))
    spending = books.spending(terms)
    assert (round(spending.spent, 2), round(spending.epsilon_in_sample, 1)) == (10.47, 16.9)


def a_panel(books, **levels):
    panel = ds.panel("lfs", KEY, FRAME, rate=0.125, waves=3, overlap=0.5, **levels)
    books.open_panel(panel)
    return panel


def test_a_panel_with_a_delta_counts_once_and_whole_and_each_wave_keeps_its_level(books):
    panel = a_panel(books, mu=1.0, delta=1e-6)
    for number, window in enumerate(panel.windows[:2]):
        about = {"design": ds.poisson(0.125), "budget": ds.Budget(9.0, 1e-6)}
        _, sample = charged(books, f"w{number}", [gaussian(0.75)], key=KEY, start=window.start, **about)
        (account,) = books.accounts()
        assert (account.epsilon, account.delta, account.epsilon_in_sample) == (panel.loss, 1e-6, panel.epsilon_in_sample)
    whose, requested, left = refused(books, "w1", gaussian(0.7), sample)
    assert (whose, requested, left) == ("wave 2 of the panel 'lfs'", pytest.approx(0.49), pytest.approx(1.0 - 0.75**2))
    books.book("w1", gaussian(0.66), "what is left", sample)
    assert panel.loss < panel.epsilon_in_sample < panel.in_every_wave


def test_a_panel_is_on_record_in_the_words_of_0_8(books):
    panel = a_panel(books, rho=0.5, delta=1e-6)
    (body,) = [entry["body"] for entry in books.entries() if entry["kind"] == "panel"]
    assert (body["currency"], body["levels"], "measure" in body) == ("rho", [0.5] * 3, False)
    assert books.panels() == [panel]


def test_a_pure_panel_refuses_what_its_waves_together_would_exceed(books):
    panel = a_panel(books, epsilon=1.0)
    charged(books, "w0", [pure(1.5)], key=KEY, start=0.0, design=ds.poisson(0.125))
    _, sample = charged(books, "w1", [pure(1.5)], key=KEY, start=0.0625, design=ds.poisson(0.125))
    before = math.log1p((2 * math.expm1(1.5) + math.expm1(3.0)) / 16)
    after = math.log1p((math.expm1(1.5) + math.expm1(2.5) + math.expm1(4.0)) / 16)
    (account,) = books.accounts()
    assert (account.epsilon, account.epsilon_in_sample) == (pytest.approx(before, rel=1e-12), pytest.approx(3.0))
    whose, requested, left = refused(books, "w1", pure(1.0), sample)
    assert whose == "the panel 'lfs'"
    assert (requested, left) == (pytest.approx(after - before, rel=1e-9), pytest.approx(panel.epsilon - before, rel=1e-9))


def test_a_wave_is_refused_that_is_not_as_the_panel_says(books):
    a_panel(books, mu=1.0, delta=1e-6)
    with_delta = ds.Budget(9.0, 1e-6)
    good = {"design": ds.poisson(0.125), "budget": with_delta}
    for number, (start, wrong, message) in enumerate(
        [
            (0.03, {}, "no such wave"),
            (0.0, {"design": ds.poisson(0.126)}, "no such wave"),
            (0.0, {"setting": REPLACE}, "belongs to the panel"),
            (0.0, {"design": ds.srs(rate=0.125), "setting": REPLACE}, "belongs to the panel"),
            (0.0, {"setting": ds.Setting("population", neighbours="add-remove")}, "belongs to the panel"),
            (0.0, {"budget": ds.Budget(9.0)}, "charged in mu"),
        ]
    ):
        opened(books, f"wrong {number}", **good | wrong)
        with pytest.raises(LedgerDisagrees, match=message):
            sealed(books, f"wrong {number}", KEY, start)
    _, sample = charged(books, "first", [], key=KEY, start=0.0, **good)
    with pytest.raises(LedgerDisagrees, match="charged in mu"):
        books.book("first", ds.PrivacyProfile.zcdp(0.01, "add-remove"), "in rho", sample)
    opened(books, "second", **good)
    with pytest.raises(LedgerDisagrees, match="drawn already"):
        sealed(books, "second", KEY, 0.0)
    with pytest.raises(LedgerDisagrees, match="on record"):
        a_panel(books, mu=0.5, delta=1e-6)
    with pytest.raises(BadValue, match="one unit more or less"):
        ds.panel("r", OTHER_KEY, REPLACE, rate=0.1, waves=2, epsilon=1.0)


# Whose budget refuses


def test_the_survey_refuses_before_the_agency_and_the_agency_before_it_is_too_late(books):
    budget = amp(2.0, 0.1)
    _, sample = charged(books, "one", [pure(1.0)], budget=ds.Budget(budget))
    whose, requested, left = refused(books, "one", pure(1.1), sample)
    assert whose == ""
    assert (requested, left) == (pytest.approx(amp(2.1, 0.1) - amp(1.0, 0.1)), pytest.approx(budget - amp(1.0, 0.1)))
    books.set_budget(FRAME, ds.Budget(0.3))
    charged(books, "two", [pure(0.5)])
    whose, requested, left = refused(books, "two", pure(1.0))
    assert whose == "the agency"
    assert (requested, left) == (pytest.approx(amp(1.0, 0.1)), pytest.approx(0.3 - amp(1.0, 0.1) - amp(0.5, 0.1)))
    opened(books, "noisy", budget=ds.Budget(0.05, 1e-6))
    with pytest.raises(BudgetExceeded, match=r"of the agency does(.|\n)*\(delta\)"):
        books.book("noisy", gaussian(0.001), "a delta that the agency does not have")


def test_a_budget_of_the_agency_is_lowered_and_never_raised(books):
    for per in ("ever", "year"):
        books.set_budget(FRAME, ds.Budget(2.0, 1e-6), per)
        books.set_budget(FRAME, ds.Budget(1.0, 1e-6), per)
        for raised in (ds.Budget(1.0 + 1e-9, 1e-6), ds.Budget(0.5, 2e-6)):
            with pytest.raises(LedgerDisagrees, match="never raised"):
                books.set_budget(FRAME, raised, per)
    charged(books, "s", [pure(2.0)])
    with pytest.raises(LedgerDisagrees, match="spent already"):
        books.set_budget(FRAME, ds.Budget(0.4))
    books.set_budget(FRAME, ds.Budget(0.4), although_spent=True)
    assert refused(books, "s", pure(1e-6))[0] == "the agency"


def backdated(path, year):
    """The same ledger, as it would be had it been written in another year."""
    with sqlite3.connect(path) as file:
        file.execute("drop trigger no_UPDATE")
        previous = START
        for seq, text in file.execute("select seq, text from entries order by seq").fetchall():
            entry = Entry.read(text)
            row = replace(entry, previous=previous, at=f"{year}{entry.at[4:]}").row()
            file.execute("update entries set text = ?, hash = ? where seq = ?", (row.text, row.hash, seq))
            previous = row.hash
    file.close()


def test_a_budget_for_each_year_starts_anew_and_names_the_year_that_refuses(tmp_path):
    path = tmp_path / "books.ledger"
    with ds.Ledger(path) as books:
        books.set_budget(FRAME, ds.Budget(0.5), "year")
        books.set_budget(FRAME, ds.Budget(0.8))
        _, sample = charged(books, "s", [pure(1.9)])
        year = books.entries()[-1]["at"][:4]
        assert refused(books, "s", pure(0.5), sample)[0] == f"the agency for a year ({year})"
    backdated(path, 2024)
    with ds.Ledger(path) as books:
        books.book("s", pure(0.5), "in another year", sample)
        (ever,), (before,), (now,) = (books.accounts(period) for period in ("ever", "2024", year))
        assert ever.epsilon == pytest.approx(amp(2.4, 0.1), rel=1e-12)
        assert before.epsilon == pytest.approx(amp(1.9, 0.1), rel=1e-12)
        assert now.epsilon == pytest.approx(amp(0.5, 0.1), rel=1e-12)
        whose, requested, left = refused(books, "s", pure(0.9))
        assert (whose, requested) == ("the agency", pytest.approx(amp(0.9, 0.1)))
        assert left == pytest.approx(0.8 - amp(2.4, 0.1), rel=1e-9)
