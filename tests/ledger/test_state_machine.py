"""Whatever is opened, drawn, charged, limited and closed, in any order: the ledger's figures are those of a model of its own.

The model keeps a plain list of charges and measures arcs of the circle of random numbers by itself; it shares no code with the
package. The loss is exact for Poisson samples and one unit more or less, so figures must agree from both sides.
"""

import itertools
import math
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

import dpsurvey as ds
from dpsurvey.errors import BudgetExceeded, LedgerDisagrees
from dpsurvey.ledger import SealedSample

SETTINGS = {protect: ds.Setting(protect, neighbours="add-remove") for protect in ("frame", "population")}
KEYS = ("aa" * 32, "bb" * 32)
STARTS = (0.0, 0.05, 0.3, 0.9375)
RATES = (0.02, 0.1, 0.25, 0.75, 1.0)
# Some are what 1.5 costs at rates 0.1 and 0.25, so that a charge can end on a limit.
BUDGETS = (9.0, 4.0, 4.0, 1.0, math.log1p(0.1 * math.expm1(1.5)), math.log1p(0.25 * math.expm1(1.5)), 0.05)
KINDS = ("pure", "laplace", "both")
EPSILONS = (0.3, 0.001, 0.05, 0.1, 0.7, 1.5)
CHARGE = st.tuples(st.sampled_from(EPSILONS), st.sampled_from(KINDS))
SURVEY = st.tuples(st.sampled_from(RATES), st.sampled_from(BUDGETS), st.sampled_from(("frame", "frame", "frame", "population")))
WINDOW = st.tuples(st.sampled_from((KEYS[0], KEYS[0], KEYS[1], None)), st.sampled_from(STARTS))


@dataclass
class Survey:
    protect: str
    rate: float
    budget: float
    closed: bool = False


@dataclass
class Sample:
    survey: str
    key: str | None
    start: float


def arcs(windows):
    """(length, which windows hold it) for every arc of the circle between two ends of windows."""
    ends = {Fraction(0), Fraction(1)}
    for start, rate in windows:
        ends |= {Fraction(start), (Fraction(start) + Fraction(rate)) % 1}
    cuts = sorted(ends)
    for low, high in itertools.pairwise(cuts):
        middle = (low + high) / 2
        yield high - low, [any(0 <= middle + turn - Fraction(a) < Fraction(r) for turn in (0, 1)) for a, r in windows]


class Model:
    """What was charged, as a plain list, and what it costs."""

    def __init__(self):
        self.surveys, self.samples, self.charges, self.limits = {}, {}, [], {}

    def groups(self, charges):
        """Samples that depend on each other: (window, epsilon) of each."""
        spent = {}
        for sample, epsilon in charges:
            spent[sample] = spent.get(sample, 0.0) + epsilon
        found = {}
        for sample, epsilon in spent.items():
            about = self.samples[sample]
            window = (about.start, self.surveys[about.survey].rate)
            found.setdefault(about.key or sample, []).append((window, epsilon))
        return list(found.values())

    def figures(self, charges):
        """The loss of anyone, and of somebody known to be where it is worst."""
        losses, known = [], []
        for group in self.groups(charges):
            sums = [
                (float(length), math.fsum(epsilon for (_, epsilon), inside in zip(group, held, strict=True) if inside))
                for length, held in arcs([window for window, _ in group])
            ]
            losses.append(math.log1p(math.fsum(length * math.expm1(total) for length, total in sums)))
            known.append(max(total for _, total in sums))
        rest = [math.fsum(losses) - own for own in losses]
        return math.fsum(losses), max((a + b for a, b in zip(known, rest, strict=True)), default=0.0)

    def of_survey(self, name, more=()):
        return [each for each in [*self.charges, *more] if self.samples[each[0]].survey == name]

    def of_setting(self, more=()):
        """Everything: a Poisson sample loses the same to one record more or less of the frame and of the population."""
        return [*self.charges, *more]

    def broken(self, name, more):
        """By how much, relatively, each budget above a charge would be exceeded."""
        survey = self.surveys[name]
        levels = {"": (self.figures(self.of_survey(name, more))[0], survey.budget)}
        for (_, per), limit in self.limits.items():
            whose = "the agency" + " for a year" * (per == "year")
            lowest = min(limit, levels[whose][1]) if whose in levels else limit
            levels[whose] = (self.figures(self.of_setting(more))[0], lowest)
        return {whose: after / limit - 1.0 for whose, (after, limit) in levels.items()}


class Agency(RuleBasedStateMachine):
    surveys = Bundle("surveys")
    releases = Bundle("releases")

    @initialize(target=surveys, first=st.lists(st.tuples(SURVEY, WINDOW, CHARGE), min_size=2, max_size=4))
    def founds_an_agency(self, first):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "books.ledger"
        # Two of the same ledger, as in two processes: each reads what the other wrote.
        self.handles = [ds.Ledger(self.path), ds.Ledger(self.path)]
        self.turn, self.model, self.overdrawn = 0, Model(), {}
        names = [self.opens_a_survey(about) for about, _, _ in first]
        for name, (_, window, charge) in zip(names, first, strict=True):
            self.draw(name, window, [charge])
        return multiple(*names)

    @property
    def ledger(self):
        self.turn += 1
        return self.handles[self.turn % 2]

    @rule(target=surveys, about=SURVEY)
    def opens_another_survey(self, about):
        return self.opens_a_survey(about)

    def opens_a_survey(self, about):
        name, (rate, budget, protect) = f"survey {len(self.model.surveys)}", about
        self.ledger.open_survey(self.terms(name, rate, budget, protect))
        self.model.surveys[name] = Survey(protect, rate, budget)
        with pytest.raises(LedgerDisagrees, match="other terms"):
            self.ledger.open_survey(self.terms(name, rate, 2.0 * budget, protect))
        return name

    def terms(self, name, rate, budget, protect):
        frame = ds.Frame("register.parquet", unit="id", size=1000)
        about = {"budget": ds.Budget(budget), "ledger": "unused", "name": name}
        return ds.Survey(frame, ds.poisson(rate), SETTINGS[protect], **about).terms

    @rule(target=releases, survey=surveys, window=WINDOW, charges=st.lists(CHARGE, max_size=3))
    def draws(self, survey, window, charges):
        return multiple(*self.draw(survey, window, charges))

    def draw(self, survey, window, charges):
        key, start = window[0], window[1] if window[0] else 0.0
        own = [each for each in self.model.samples.values() if each.survey == survey]
        name = f"sample {len(self.model.samples)}"
        sealed = SealedSample(name, "drawn.parquet", "k" * 64, "h" * 64, key, start if key else None)
        if self.model.surveys[survey].closed or (key and any(each.key == key for each in own)):
            with pytest.raises(LedgerDisagrees):
                self.ledger.seal(survey, sealed, new=True)
            return []
        self.ledger.seal(survey, sealed, new=True)
        self.model.samples[name] = Sample(survey, key, start)
        return [release for each in charges if (release := self.book(survey, name, *each))]

    @precondition(lambda self: self.model.samples)
    @rule(target=releases, charges=st.lists(st.tuples(st.integers(0, 20), CHARGE), min_size=1, max_size=5))
    def charges_samples_on_record(self, charges):
        booked = []
        for which, charge in charges:
            sample = list(self.model.samples)[which % len(self.model.samples)]
            booked.append(self.book(self.model.samples[sample].survey, sample, *charge))
        return multiple(*filter(None, booked))

    @rule(target=releases, survey=surveys, charge=CHARGE)
    def charges_a_new_sample(self, survey, charge):
        release = self.book(survey, None, *charge)
        return release if release else multiple()

    def book(self, survey, sample, epsilon, kind):
        relation = "both" if kind == "both" else "add-remove"
        make = ds.PrivacyProfile.laplace if kind == "laplace" else ds.PrivacyProfile.pure
        name = sample or f"sample {len(self.model.samples)}"
        self.model.samples.setdefault(name, Sample(survey, None, 0.0))
        excess = self.model.broken(survey, [(name, epsilon)])
        release = whose = None
        try:
            release = self.ledger.book(survey, make(epsilon, relation), "a table", sample)
        except LedgerDisagrees:
            whose = "closed"
        except BudgetExceeded as error:
            whose = error.whose.partition(" (")[0]
        assert (whose == "closed") == self.model.surveys[survey].closed
        if release is None:
            # Refused only where the exact total would really be too much, and by the budget that it would exceed.
            assert whose == "closed" or excess[whose] > -1e-9
            if sample is None:
                del self.model.samples[name]
            return None
        assert max(excess.values()) <= 1e-12
        if sample is None:
            temporary, name = name, self.ledger.charges(survey)[-1]["sample"]
            self.model.samples[name] = self.model.samples.pop(temporary)
        self.model.charges.append((name, epsilon))
        return release

    @rule(release=consumes(releases))
    def publishes(self, release):
        self.ledger.commit(release, "0" * 64)

    @rule(protect=st.sampled_from(sorted(SETTINGS)), limit=st.sampled_from(BUDGETS), per=st.sampled_from(("ever", "year")))
    def limits_the_agency(self, protect, limit, per):
        if limit > self.model.limits.get((protect, per), math.inf):
            with pytest.raises(LedgerDisagrees, match="never raised"):
                self.ledger.set_budget(SETTINGS[protect], ds.Budget(limit), per, although_spent=True)
            return
        self.ledger.set_budget(SETTINGS[protect], ds.Budget(limit), per, although_spent=True)
        self.model.limits[protect, per] = limit
        # What was spent before a limit was lowered stays spent.
        self.overdrawn[protect, per] = self.model.figures(self.model.of_setting())[0]

    @rule(survey=surveys)
    def closes_a_survey(self, survey):
        # Rarely: a closed survey has nothing more to say.
        if len(self.model.surveys) < 3 or self.model.surveys[survey].closed:
            return
        self.ledger.close_survey(survey, "done")
        self.model.surveys[survey].closed = True

    @rule(which=st.sampled_from((0, 1)))
    def opens_the_ledger_again(self, which):
        self.handles[which].close()
        self.handles[which] = ds.Ledger(self.path, must_exist=True)

    @invariant()
    def totals_are_exact_and_keep_every_limit(self):
        accounts = {each.setting.protect: each for each in self.ledger.accounts()}
        assert set(accounts) >= {survey.protect for survey in self.model.surveys.values()}
        for protect, account in accounts.items():
            exact, known = self.model.figures(self.model.of_setting())
            assert_never_below(account.epsilon, exact)
            assert_never_below(account.epsilon_in_sample, known)
            assert account.delta == 0.0
            for per in ("ever", "year"):
                limit = self.model.limits.get((protect, per), math.inf)
                assert account.epsilon <= max(limit, self.overdrawn.get((protect, per), 0.0) * (1.0 + 1e-12))

    @invariant()
    def surveys_are_exact_and_keep_their_budgets(self):
        ledger = self.ledger
        for name, survey in self.model.surveys.items():
            spending = ledger.spending(ledger.terms(name))
            exact, known = self.model.figures(self.model.of_survey(name))
            assert_never_below(spending.spent, exact)
            assert_never_below(spending.epsilon_in_sample, known)
            assert spending.spent <= survey.budget
            assert spending.left == pytest.approx(survey.budget - spending.spent, abs=1e-12)

    def teardown(self):
        for handle in self.handles:
            handle.close()
        assert ds.verify_ledger(self.path).ok
        self.folder.cleanup()


def assert_never_below(figure, exact):
    """A figure on the safe side of the exact loss, and no further from it than rounding."""
    assert exact * (1.0 - 1e-12) <= figure <= exact * (1.0 + 1e-9)


def test_after_every_step_the_figures_are_the_exact_losses_and_every_limit_holds():
    run_state_machine_as_test(Agency, settings=settings(max_examples=24, stateful_step_count=25))


@pytest.mark.slow
def test_after_every_step_of_ten_times_as_many_the_figures_are_the_exact_losses():
    run_state_machine_as_test(Agency, settings=settings(max_examples=160, stateful_step_count=50))
