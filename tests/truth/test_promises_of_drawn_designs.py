"""The privacy answers of every design that draws, against the exact worst case on tiny frames.

The law of a draw is written out from the design's own recipe, by hand and with nothing of the package: what is drawn,
and not what the design says about itself. For each of the ten settings and both relations the design either refuses
with a reason, or its epsilon is at least the worst loss over all mechanisms of its base relation, on every pair of
neighbouring frames that was tried.
"""

import functools
import itertools
import math
import runpy
import uuid
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.design import Allocation, Amplified, Refused, design_from_dict
from dpsurvey.design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Strata
from dpsurvey.engine import Engine, Expectations
from dpsurvey.errors import BadValue, NoPromise
from dpsurvey.privacy import all_settings
from dpsurvey.privacy.profile import PrivacyProfile
from dpsurvey.privacy.running import Running
from dpsurvey.terms import Terms

en = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("enumerated.py"))))
ADD, REPLACE = "add-remove", "replace-one"
SETTINGS = [*all_settings(ADD), *all_settings(REPLACE)]
EPSILONS = (0.5, 1.0, 2.0)
# Accuracy of the solver's optimum.
SLACK = 1e-6


# The law of a recipe, written out. A sample is a sorted tuple of units, each as often as it was drawn.


def mixed(parts):
    law = {}
    for weight, part in parts:
        for sample, chance in part.items():
            law[sample] = law.get(sample, 0.0) + float(weight) * chance
    return {sample: chance for sample, chance in law.items() if chance > 0.0}


def together(*laws):
    """Independent draws, put together."""
    law = {(): 1.0}
    for other in laws:
        law = mixed((p * q, {tuple(sorted(a + b)): 1.0}) for (a, p), (b, q) in itertools.product(law.items(), other.items()))
    return law


def equally(samples):
    samples = [tuple(sorted(sample)) for sample in samples]
    return mixed((1.0 / len(samples), {sample: 1.0}) for sample in samples)


def take_of(units, take):
    return equally(itertools.combinations(units, take))


def one_by_one(units, rate):
    return together(*({(): 1.0 - rate(unit), (unit["id"],): rate(unit)} for unit in units))


def every(units, step):
    """Element r lies on the stretch from r f to (r + 1) f of a line; the points u, u + 1, ... choose."""
    share = Fraction(repr(step.amount_taken)) if step.by_share else Fraction(int(step.amount_taken), len(units))
    if step.order == "random":
        orders = list(itertools.permutations(units))
    elif step.order == "as listed":
        orders = [units]
    else:
        orders = [sorted(units, key=lambda unit: (*(unit[name] for name in step.order), unit["id"]))]
    return mixed((Fraction(1, len(orders)), on_a_line([(unit, share) for unit in order])) for order in orders)


def on_a_line(stretches):
    """The elements whose stretches hold u, u + 1, ..., for a uniform u."""
    ends = list(itertools.accumulate((width for _, width in stretches), initial=Fraction(0)))
    cuts = sorted({end % 1 for end in ends} | {Fraction(0), Fraction(1)})
    parts = []
    for low, high in itertools.pairwise(cuts):
        start = (low + high) / 2
        hit = [
            unit["id"]
            for (unit, _), a, b in zip(stretches, ends, ends[1:], strict=False)
            if math.ceil(a - start) < math.ceil(b - start)
        ]
        parts.append((high - low, {tuple(sorted(hit)): 1.0}))
    return mixed(parts)


def chances_by_size(units, step):
    """n x / sum x, those that would reach 1 taken first, until none does."""
    certain, rest = [], list(units)
    while rest:
        left, total = step.take - len(certain), sum(Fraction(unit[step.size]) for unit in rest)
        sure = [unit for unit in rest if left * Fraction(unit[step.size]) >= total]
        if not sure:
            break
        certain += sure
        rest = [unit for unit in rest if unit not in sure]
    left, total = step.take - len(certain), sum(Fraction(unit[step.size]) for unit in rest)
    return {unit["id"]: Fraction(1) for unit in certain} | {u["id"]: left * Fraction(u[step.size]) / total for u in rest}


def with_these_chances(chances, n):
    """Conditional Poisson with given inclusion probabilities: the weights that have them, by iteration."""
    weights = {unit: p / (1.0 - p) for unit, p in chances.items()}
    for _ in range(2000):
        found = en.chances_of(en.conditional_poisson(weights, n), chances)
        weights = {
            unit: w * chances[unit] * (1 - found[unit]) / (found[unit] * (1 - chances[unit])) for unit, w in weights.items()
        }
    law = en.conditional_poisson(weights, n)
    assert all(abs(p - chances[unit]) < 1e-9 for unit, p in en.chances_of(law, chances).items())
    return law


def pivotal_in_random_order(chances, n):
    orders = [dict(order) for order in itertools.permutations(chances.items())]
    return en.mixture(*((1.0 / len(orders), en.pivotal(order)) for order in orders))


def by_size(units, step):
    exact = chances_by_size(units, step)
    sure = tuple(sorted(unit for unit, p in exact.items() if p == 1))
    rest = {unit: p for unit, p in exact.items() if p < 1}
    n, chances = step.take - len(sure), {unit: float(p) for unit, p in sorted(rest.items())}
    if step.method == "poisson":
        law = one_by_one([{"id": unit} for unit in rest], lambda unit: float(rest[unit["id"]]))
    elif step.method == "systematic":
        named = {unit["id"]: unit for unit in units}
        if step.order == "random":
            orders = list(itertools.permutations(rest))
        elif step.order == "as listed":
            orders = [[unit["id"] for unit in units if unit["id"] in rest]]
        else:
            orders = [sorted(rest, key=lambda unit: (*(named[unit][name] for name in step.order), unit))]
        law = mixed((Fraction(1, len(orders)), on_a_line([(named[u], rest[u]) for u in order])) for order in orders)
    elif not rest or n == 0:
        law = {(): 1.0}
    else:
        # Pareto has no closed form, and no claim below epsilon: any law of its kind will do.
        known = {"sampford": en.sampford, "pivotal": pivotal_in_random_order}.get(step.method, with_these_chances)
        law = {tuple(sorted(sample)): p for sample, p in known(chances, n).items()}
    return together({sure: 1.0}, law)


def in_clusters(units, step):
    """Clusters are units of their own list; each drawn one, as often as it is drawn, is drawn from afresh."""
    members = {}
    for unit in units:
        members.setdefault(unit[step.cluster], []).append(unit)
    listed = [{**found[0], "id": label} for label, found in members.items()]

    def inside(label):
        return law_of(step.inside, members[label]) if step.inside else {tuple(sorted(u["id"] for u in members[label])): 1.0}

    return mixed((p, together(*(inside(label) for label in drawn))) for drawn, p in law_of(step.how, listed).items())


def law_of(step, units):
    ids = [unit["id"] for unit in units]
    if isinstance(step, Strata):
        labels = dict.fromkeys(unit[step.strata] for unit in units)
        parts = {label: [unit for unit in units if unit[step.strata] == label] for label in labels}
        return together(*(law_of(step.step_of(label), part) for label, part in parts.items()))
    if isinstance(step, Clusters):
        return in_clusters(units, step)
    if isinstance(step, Each):
        return one_by_one(units, lambda unit: step.probability)
    if isinstance(step, EachBy):
        return one_by_one(units, lambda unit: unit[step.rate])
    if isinstance(step, Simple):
        return take_of(ids, step.take)
    if isinstance(step, Share) and step.rounding == "nearest":
        return take_of(ids, max(1, math.floor(Fraction(repr(step.share)) * len(ids) + Fraction(1, 2))))
    if isinstance(step, Share):
        size = Fraction(repr(step.share)) * len(ids)
        whole, part = math.floor(size), size - math.floor(size)
        return mixed([(1 - part, take_of(ids, whole)), *([(part, take_of(ids, whole + 1))] if part else [])])
    if isinstance(step, Repeated):
        return equally(itertools.product(ids, repeat=step.take))
    if isinstance(step, Every):
        return every(units, step)
    assert isinstance(step, Sized)
    return by_size(units, step)


def as_sets(law):
    """Multisets as sets of (unit, copy), which is what the linear programme takes."""
    return {frozenset((u, k) for u in set(s) for k in range(s.count(u))): p for s, p in law.items()}


def renamed(law, old, new):
    return {tuple(sorted(new if unit == old else unit for unit in sample)): p for sample, p in law.items()}


# Designs and the tiny frames they draw from


def unit(name, region="n", psu="p", mos=1, rate=0.2, block="1"):
    return {"id": name, "region": region, "psu": psu, "mos": mos, "rate": rate, "block": block}


FOUR = (
    unit("a", "n", "p", 1, 0.2, "1"),
    unit("b", "n", "q", 2, 0.3, "2"),
    unit("c", "s", "q", 2, 0.5, "1"),
    unit("d", "s", "r", 3, 0.1, "2"),
)
FIVE = (*FOUR, unit("e", "s", "r", 3, 0.5, "2"))
PAIRS = (unit("a", psu="p", mos=1), unit("b", psu="p", mos=1), unit("c", psu="q", mos=2), unit("d", psu="q", mos=2))
LONE = (unit("a", psu="p"), unit("b", psu="q"), unit("c", psu="r"), unit("d", psu="s"), unit("e", psu="t"))


@dataclass
class Case:
    design: object
    units: tuple = FOUR
    # Whether a replaced record may have other design columns: only where each unit is drawn by its own rate.
    moves: bool = False
    sizes: dict = field(default_factory=dict)

    @functools.cached_property
    def frame(self):
        regions = sorted({each["region"] for each in self.units})
        counted = {label: sum(each["region"] == label for each in self.units) for label in regions}
        public = ["psu", "mos", "rate", "block"]
        return ds.Frame("f.parquet", unit="id", size=len(self.units), categories={"region": counted}, public=public)

    @functools.cached_property
    def resolved(self):
        return self.design.resolve(self.frame)

    @functools.cached_property
    def law(self):
        return law_of(self.resolved.recipe(), self.units)


north, south = ds.poisson(0.3), ds.srs(n=1)
psu = ds.cluster
CASES = {
    "srs": Case(ds.srs(n=2)),
    "srs by rate": Case(ds.srs(rate=0.5), FIVE),
    "srs of all but one": Case(ds.srs(n=3)),
    "with replacement, once": Case(ds.with_replacement(n=1)),
    "with replacement": Case(ds.with_replacement(n=2), FOUR[:3]),
    "with replacement, three": Case(ds.with_replacement(n=3), FOUR[:2]),
    "poisson": Case(ds.poisson(0.3), moves=True),
    "poisson by": Case(ds.poisson_by("rate", at_most=0.5), moves=True),
    "poisson by, loose bound": Case(ds.poisson_by("rate", at_most=0.9), moves=True),
    "proportional": Case(ds.proportional(0.5), FOUR[:3]),
    "proportional, small": Case(ds.proportional(0.2)),
    "proportional, large": Case(ds.proportional(0.75)),
    "proportional, nearest": Case(ds.proportional(0.5, rounding="nearest"), FIVE),
    "systematic, random order": Case(ds.systematic(n=2)),
    "systematic, random order, fractional": Case(ds.systematic(n=2), FIVE),
    "systematic, random order, by rate": Case(ds.systematic(rate=0.3)),
    "systematic, as listed": Case(ds.systematic(n=2, order="as listed")),
    "systematic, as listed, fractional": Case(ds.systematic(n=2, order="as listed"), FIVE),
    "systematic, as listed, by rate": Case(ds.systematic(rate=0.3, order="as listed"), FIVE),
    "systematic, sorted": Case(ds.systematic(n=1, order=["block", "mos"])),
    "systematic, sorted, one of two": Case(ds.systematic(n=2, order="mos")),
    **{
        f"pps {method}": Case(ds.pps("mos", n=2, method=method, at_most=0.75))
        for method in ("poisson", "sampford", "conditional-poisson", "pivotal")
    },
    "pps pivotal, five": Case(ds.pps("mos", n=2, method="pivotal", at_most=0.6), FIVE),
    "pps sampford, five": Case(ds.pps("mos", n=3, method="sampford", at_most=0.9), FIVE),
    "pps sampford, certainty": Case(ds.pps("mos", n=3, method="sampford", at_most=1.0)),
    "pps sampford, no bound": Case(ds.pps("mos", n=2, method="sampford")),
    "pps systematic": Case(ds.pps("mos", n=2)),
    "pps systematic, as listed": Case(ds.pps("mos", n=2, order="as listed", at_most=0.75)),
    "pps pareto": Case(ds.pps("mos", n=2, method="pareto", at_most=0.75)),
    "cluster": Case(psu("psu", ds.srs(n=1))),
    "cluster with a cap": Case(psu("psu", ds.srs(n=1), clusters=2, cap=2), PAIRS),
    "cluster with a cap, half full": Case(psu("psu", ds.srs(n=2), clusters=3, cap=2)),
    "cluster with a cap of one": Case(psu("psu", ds.srs(n=2), clusters=5, cap=1), LONE),
    "cluster with a cap, by rate": Case(psu("psu", ds.srs(rate=0.3), clusters=5, cap=1), LONE),
    "cluster with a cap, by a rate that halves": Case(psu("psu", ds.srs(rate=0.5), clusters=5, cap=1), LONE),
    "cluster with a cap, all": Case(psu("psu", ds.srs(n=3), clusters=3, cap=2)),
    "cluster by poisson": Case(psu("psu", ds.poisson(0.4), clusters=3, cap=2)),
    "cluster by pps": Case(psu("psu", ds.pps("mos", n=1, method="sampford", at_most=0.9), clusters=2, cap=2), PAIRS),
    "cluster with replacement": Case(psu("psu", ds.with_replacement(n=2), clusters=2, cap=2), PAIRS),
    "cluster, systematic": Case(psu("psu", ds.systematic(n=1, order="as listed"), clusters=3, cap=2)),
    "stages, poisson last": Case(ds.stages(psu("psu", ds.srs(n=2)), ds.poisson(0.4))),
    "stages, poisson by last": Case(ds.stages(psu("psu", ds.srs(n=2)), ds.poisson_by("rate", at_most=0.5))),
    "stages, proportional last": Case(ds.stages(psu("psu", ds.srs(n=1)), ds.proportional(0.4))),
    "stages, poisson twice": Case(ds.stages(psu("psu", ds.poisson(0.5)), ds.poisson(0.5))),
    "stages, pps then poisson": Case(ds.stages(psu("psu", ds.pps("mos", n=1)), ds.poisson(0.4)), PAIRS),
    "stages, srs last": Case(ds.stages(psu("psu", ds.srs(n=1)), ds.srs(n=1))),
    "stages, with replacement first": Case(ds.stages(psu("psu", ds.with_replacement(n=2)), ds.poisson(0.4)), PAIRS[:3]),
    "stages, with replacement last": Case(ds.stages(psu("psu", ds.srs(n=1)), ds.with_replacement(n=2)), PAIRS),
    "three stages": Case(ds.stages(psu("region", ds.srs(n=1)), psu("psu", ds.srs(n=1)), ds.poisson(0.4))),
    "strata of srs": Case(ds.stratified("region", within=ds.srs(n=1))),
    "strata of poisson": Case(ds.stratified("region", within={"n": ds.poisson(0.2), "s": ds.poisson(0.6)}), moves=True),
    "strata of proportional": Case(ds.stratified("region", within=ds.proportional(0.5)), FIVE),
    "mixed strata, poisson and srs": Case(ds.stratified("region", within={"n": north, "s": south}), FIVE),
    "mixed strata, proportional and poisson": Case(ds.stratified("region", within={"n": north, "s": ds.proportional(0.4)})),
    "mixed strata, srs and with replacement": Case(
        ds.stratified("region", within={"n": ds.srs(n=1), "s": ds.with_replacement(n=2)})
    ),
    "mixed strata, pps and srs": Case(
        ds.stratified("region", within={"n": ds.pps("mos", n=1, method="pivotal", at_most=0.7), "s": ds.srs(n=2)}), FIVE
    ),
    "mixed strata, poisson by and systematic": Case(
        ds.stratified("region", within={"n": ds.poisson_by("rate", at_most=0.3), "s": ds.systematic(n=1, order="mos")})
    ),
    "strata of systematic by rate": Case(ds.stratified("region", within=ds.systematic(rate=0.5)), FIVE),
    "strata of clusters": Case(ds.stratified("region", within=psu("psu", ds.srs(n=1), clusters=2, cap=2)), FIVE),
    "strata of stages": Case(ds.stratified("region", within=ds.stages(psu("psu", ds.srs(n=1)), ds.poisson(0.3))), FIVE),
}


# Pairs of neighbours


def replaced_on_frame(case):
    """One record's answers replaced: the same law under another name; where rates are the units' own, other columns too."""
    for each in case.units:
        law = renamed(case.law, each["id"], "x")
        yield law, renamed(case.law, each["id"], "y")
        if case.moves:
            rest = tuple(unit for unit in case.units if unit is not each)
            for other in case.units:
                yield law, law_of(case.resolved.recipe(), (*rest, {**other, "id": "y"}))


def added_to_frame(case):
    """One record more, with the columns of any of the others."""
    recipe = case.resolved.recipe()
    for each in case.units:
        yield law_of(recipe, (*case.units, {**each, "id": "x"})), case.law
    # And one less: the declared size is that of the larger frame.
    for each in case.units:
        rest = tuple(unit for unit in case.units if unit is not each)
        if all(any(unit["region"] == label for unit in rest) for label in case.frame.categories["region"]):
            yield renamed(case.law, each["id"], "x"), law_of(recipe, rest)


def drawn(case, neighbours):
    """Two samples, or what came back from them, that differ in one unit, however often it was drawn."""
    for sample in case.law:
        for name in set(sample):
            rest = tuple(unit for unit in sample if unit != name)
            other = rest if neighbours == ADD else tuple("y" if unit == name else unit for unit in sample)
            yield {sample: 1.0}, {tuple(sorted(other)): 1.0}


@functools.cache
def worst(name, level, neighbours, base, epsilon):
    """The largest loss over pairs of neighbours, at a level (population and frame, or sample and respondents)."""
    case = CASES[name]
    pairs = list(drawn(case, neighbours)) if level == "drawn" else []
    if level != "drawn" and (neighbours == ADD or level == "population"):
        pairs += added_to_frame(case)
    if level != "drawn" and neighbours == REPLACE:
        pairs += replaced_on_frame(case)
    unlike = {(frozenset(one.items()), frozenset(two.items())): (one, two) for one, two in pairs}
    return max(en.worst_loss(as_sets(one), as_sets(two), epsilon, base) for one, two in unlike.values())


def level_of(setting):
    return {"population": "population", "frame": "frame"}.get(setting.protect, "drawn")


def promised(name, setting):
    """Terms under a setting with room for any charge, or None where no promise is made."""
    case = CASES[name]
    refused = case.resolved.refuses(setting)
    if refused is None:
        return Terms("survey", case.frame, case.resolved, setting, ds.Budget(100.0))
    assert len(refused.reason) > 20, refused
    assert len(refused.instead) > 10, refused
    with pytest.raises(NoPromise, match="no promise") as raised:
        Terms("survey", case.frame, case.resolved, setting, ds.Budget(100.0))
    assert refused.reason in str(raised.value)
    return None


# Cases that differ from others in numbers alone.
ALIKE = (
    "srs of all but one",
    "with replacement, once",
    "poisson by, loose bound",
    "systematic, random order, fractional",
    "systematic, sorted, one of two",
    "pps pivotal, five",
    "pps sampford, five",
    "cluster, systematic",
    "stages, poisson by last",
    "stages, pps then poisson",
    "three stages",
    "strata of systematic by rate",
    "strata of stages",
)
EVERY_CASE = [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in CASES]


@pytest.mark.parametrize("name", EVERY_CASE)
def test_every_promise_is_at_least_the_worst_loss_over_all_mechanisms_and_neighbours(name):
    made = 0
    for setting in SETTINGS:
        terms = promised(name, setting)
        if terms is None:
            continue
        made += 1
        for epsilon in EPSILONS:
            profile = PrivacyProfile.pure(epsilon, terms.relation)
            told = terms.design.protected(profile, setting).epsilon(0.0)
            exact = worst(name, level_of(setting), setting.neighbours, terms.relation, epsilon)
            assert told >= exact - SLACK, f"{name}, {setting}, epsilon {epsilon} ({terms.relation}): {told} < {exact}"
            guarantee = terms.guarantee(Running().plus(profile))
            assert guarantee.epsilon == pytest.approx(told, rel=1e-12)
            assert guarantee.whole.relation == setting.neighbours
    # The frame with replaced answers, the sample and the respondents are always promised something.
    assert made >= 9


@pytest.mark.parametrize("name", EVERY_CASE)
def test_someone_known_to_be_in_the_sample_loses_no_more_than_the_figure_for_them(name):
    case = CASES[name]
    for setting in SETTINGS:
        terms = promised(name, setting)
        if terms is None:
            continue
        epsilon = 1.0
        profile = PrivacyProfile.pure(epsilon, terms.relation)
        guarantee = terms.guarantee(Running().plus(profile))
        told = guarantee.known_in_sample[0]
        # Whoever is not known to be there cannot lose more.
        assert guarantee.epsilon <= told * (1 + 1e-12), f"{name}, {setting}: {guarantee}"
        if level_of(setting) == "drawn":
            continue
        pairs = added_to_frame(case) if setting.neighbours == ADD else replaced_on_frame(case)
        for one, two in pairs:
            there = known(one, "x"), known(two, "y") if setting.neighbours == REPLACE else two
            if there[0] and there[1]:
                exact = en.worst_loss(as_sets(there[0]), as_sets(there[1]), epsilon, terms.relation)
                assert told >= exact - SLACK, f"{name}, {setting}, epsilon {epsilon}: known in sample {told} < {exact}"


def known(law, name):
    """The law of the sample, given that a unit is in it; None where it never is."""
    here = {sample: p for sample, p in law.items() if name in sample}
    return {sample: p / sum(here.values()) for sample, p in here.items()} if here else None


@pytest.mark.parametrize("name", CASES)
def test_sampling_amplifies_only_where_it_lies_inside_and_a_refusal_says_why(name):
    for setting in SETTINGS:
        terms = promised(name, setting)
        if terms is None:
            continue
        answer = terms.design.amplify(PrivacyProfile.pure(1.0, terms.relation), setting)
        if setting.protect in ("sample", "respondents"):
            assert isinstance(answer, Refused)
        if isinstance(answer, Refused):
            assert min(len(answer.reason), len(answer.instead), len(answer.source)) > 5
            assert str(answer) in terms.guarantee(Running().plus(PrivacyProfile.pure(1.0, terms.relation))).steps
        else:
            assert isinstance(answer, Amplified)
            assert 0.0 < answer.rate <= 1.0
            assert any("nobody outside the office" in note for note in answer.holds_when)


# What each design promises under protect="frame": (replace-one, add-remove); "-" is a refusal.
AMPLIFIES = {
    "srs": "yes no",
    "with replacement": "yes -",
    "poisson": "yes yes",
    "poisson by": "yes yes",
    "proportional": "yes yes",
    "systematic, random order": "yes -",
    "systematic, as listed": "yes -",
    "systematic, as listed, fractional": "no -",
    "systematic, as listed, by rate": "no -",
    "pps poisson": "yes -",
    "pps sampford": "yes -",
    "pps conditional-poisson": "yes -",
    "pps pivotal": "yes -",
    "pps sampford, no bound": "no -",
    "pps systematic": "no -",
    "pps systematic, as listed": "no -",
    "pps pareto": "no -",
    "cluster": "no -",
    "cluster with a cap": "yes -",
    "cluster by poisson": "no -",
    "cluster by pps": "no -",
    "cluster with replacement": "no -",
    "stages, poisson last": "yes -",
    "stages, srs last": "no -",
    "stages, with replacement first": "no -",
    "stages, with replacement last": "no -",
    "three stages": "yes -",
    "strata of proportional": "yes yes",
    "mixed strata, poisson and srs": "yes -",
    "mixed strata, proportional and poisson": "yes yes",
}


@pytest.mark.parametrize("name", AMPLIFIES)
def test_which_designs_amplify_on_the_frame(name):
    found = []
    for neighbours in (REPLACE, ADD):
        terms = promised(name, ds.Setting("frame", neighbours=neighbours))
        answer = terms and terms.design.amplify(PrivacyProfile.pure(1.0, terms.relation), terms.setting)
        found.append("-" if terms is None else "yes" if isinstance(answer, Amplified) else "no")
    assert " ".join(found) == AMPLIFIES[name]


def test_the_check_has_power():
    """Where a loss is exact a promise that is 2 % smaller would be caught."""
    setting, exact = ds.Setting("frame", neighbours=REPLACE), 0
    for name in ("srs", "with replacement", "poisson", "cluster with a cap", "systematic, as listed", "stages, poisson twice"):
        case = CASES[name]
        base = case.resolved.base_relation(setting)
        told = case.resolved.protected(PrivacyProfile.pure(1.0, base), setting).epsilon(0.0)
        exact += 0.98 * told < worst(name, "frame", REPLACE, base, 1.0) - SLACK
    assert exact >= 5


def test_copies_of_one_unit_are_counted():
    setting = ds.Setting("sample", given="frame", neighbours=REPLACE)
    for name, copies in (
        ("with replacement", 2),
        ("with replacement, three", 3),
        ("cluster with replacement", 2),
        ("stages, with replacement first", 2),
        ("stages, with replacement last", 2),
        ("mixed strata, srs and with replacement", 2),
        ("srs", 1),
    ):
        terms = promised(name, setting)
        told = terms.guarantee(Running().plus(PrivacyProfile.pure(0.5, REPLACE)))
        assert told.epsilon == pytest.approx(0.5 * copies)
        assert told.known_in_sample[0] == pytest.approx(0.5 * copies)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if "pareto" not in name])
def test_a_loss_holds_for_any_sizes_and_rates_that_keep_the_declared_bounds(name):
    """The same design on random frames: other sizes, rates, clusters and strata, within what is declared."""
    case, rng, tried = CASES[name], np.random.default_rng([20261003, len(name)]), 0
    setting = ds.Setting("frame", neighbours=REPLACE)
    base = case.resolved.base_relation(setting)
    for _ in range(40):
        units = tuple(
            {**each, "mos": int(rng.integers(1, 6)), "rate": float(rng.choice([0.05, 0.1, 0.3])), "block": str(rng.integers(3))}
            for each in case.units
        )
        if any(isinstance(step, Clusters) for step in case.resolved.recipe().below()):
            # Sizes of clusters are the clusters' own, and the clusters stay as many and as small as declared.
            units = tuple({**each, "mos": 1 + ord(each["psu"]) % 4} for each in units)
        if not within_bounds(case.resolved.recipe(), units):
            continue
        tried += 1
        law = law_of(case.resolved.recipe(), units)
        target = units[int(rng.integers(len(units)))]["id"]
        epsilon = float(rng.choice(EPSILONS))
        told = case.resolved.protected(PrivacyProfile.pure(epsilon, base), setting).epsilon(0.0)
        exact = en.worst_loss(as_sets(renamed(law, target, "x")), as_sets(renamed(law, target, "y")), epsilon, base)
        assert told >= exact - SLACK, f"{name} on {units}, target {target}, epsilon {epsilon}: {told} < {exact}"
        if tried == 4:
            return
    assert tried


def within_bounds(recipe, units):
    """Whether no unit has a chance above the declared bound: the draw is refused otherwise."""
    if isinstance(recipe, Strata):
        labels = {unit["region"] for unit in units}
        return all(within_bounds(recipe.step_of(label), [u for u in units if u["region"] == label]) for label in labels)
    if isinstance(recipe, Sized):
        return max(chances_by_size(units, recipe).values()) <= Fraction(repr(float(recipe.at_most)))
    return True


# Sizes that were computed from the frame


def confidential():
    sizes, takes = {"n": 2, "s": 3}, {"n": 1, "s": 2}
    return Allocation("neyman", sizes, {"n": 1.0, "s": 2.0}, takes, {"n": 1.0, "s": 2.0}, public=False)


def test_an_allocation_computed_from_the_frame_is_refused_under_every_setting():
    frame = CASES["mixed strata, poisson and srs"].frame
    design = ds.stratified("region", within=confidential())
    for made in (design, design_from_dict(design.to_dict())):
        resolved = made.resolve(frame)
        for setting in SETTINGS:
            with pytest.raises(NoPromise, match="no promise") as caught:
                Terms("survey", frame, resolved, setting, ds.Budget(1.0))
            assert "allocation is computed from the confidential frame" in caught.value.because


def test_the_mark_of_a_confidential_allocation_cannot_be_lost():
    with pytest.raises(NoPromise):
        confidential().within()
    marked = ds.stratified("region", within=confidential(), allocation="public")
    assert marked.to_dict()["allocation"] == "confidential"
    with pytest.raises(BadValue):
        ds.stratified("region", within={"n": ds.poisson(0.1), "s": ds.srs(n=1)}, allocation="confidential")


# The law that was written out is the law that is drawn


LESS_OFTEN = [name for name in CASES if name.startswith(("systematic", "strata", "pps", "poisson", "srs", "with"))]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LESS_OFTEN else ()) for name in CASES if "pareto" not in name]
)
def test_what_is_drawn_is_in_the_written_law_with_its_probabilities(name, tmp_path):
    case = CASES[name]
    table = pa.table({column: [each[column] for each in case.units] for column in case.units[0]})
    chances = {unit: sum(p for sample, p in case.law.items() if unit in sample) for unit in "abcde"}
    rows = drawn_from(table, case.resolved.recipe(), ("region", "psu", "mos", "rate", "block"), tmp_path).to_pylist()
    assert tuple(sorted(row["unit"] for row in rows)) in case.law
    if not any(isinstance(step, Repeated) for step in case.resolved.recipe().below()):
        assert all(row["pi"] == pytest.approx(chances[row["unit"]], abs=1e-9) for row in rows)


def drawn_from(table, recipe, used, folder, key=None):
    engine = Engine(table)
    engine.draw(recipe, Expectations(unit="id", used=used), key)
    file = folder / f"{uuid.uuid4().hex}.parquet"
    engine.write_sample(str(file), "id", recipe)
    return pq.read_table(file)


def test_units_that_are_named_like_their_cluster_are_drawn_by_numbers_of_their_own(tmp_path):
    """Cluster k holds the unit k: one number for both would draw that unit whenever its cluster is drawn.

    120 drawn clusters at rate .2: more than 60 such units have probability below 1e-12.
    """
    table = pa.table({"id": list(range(500)), "psu": [each % 50 for each in range(500)]})
    recipe = ds.stages(ds.cluster("psu", ds.srs(n=10)), ds.poisson(0.2)).recipe()
    drawn_units = [each for _ in range(12) for each in drawn_from(table, recipe, ("psu",), tmp_path)["unit"].to_pylist()]
    assert sum(each < 50 for each in drawn_units) <= 60


def test_a_key_gives_a_cluster_another_number_than_a_unit_of_the_same_name(tmp_path):
    table = pa.table({"id": list(range(400)), "psu": [each % 40 for each in range(400)]})
    recipe = ds.stages(ds.cluster("psu", ds.poisson(0.5)), ds.poisson(0.5)).recipe()
    found = set(drawn_from(table, recipe, ("psu",), tmp_path, ds.Key(bytes(range(32))))["unit"].to_pylist())
    clusters = {each % 40 for each in found}
    # About half of the units named like their cluster; all of them, if they share a number (2^-15 or less by chance).
    assert sum(each in found for each in clusters) < len(clusters)


def test_the_start_in_a_cluster_is_another_one_than_the_start_among_clusters(tmp_path):
    """One of two clusters by a systematic draw, and one of the eight units of cluster "0" by another one.

    One start for both would never draw the second half of them; below 2^-10 by chance, with these keys once and for all.
    """
    units = [f"u{number:02d}" for number in range(16)]
    table = pa.table({"id": units, "psu": [number // 8 for number in range(16)], "place": list(range(16))})
    recipe = ds.stages(ds.cluster("psu", ds.systematic(n=1, order="psu")), ds.systematic(n=1, order="place")).recipe()
    found = []
    for seed in range(30):
        drawn_units = drawn_from(table, recipe, ("psu", "place"), tmp_path, ds.Key(bytes([seed]) * 32))["unit"].to_pylist()
        found += drawn_units
    assert set(found) & set(units[4:8])
    assert set(found) & set(units[8:12])


def test_draws_with_replacement_at_two_stages_are_refused():
    with pytest.raises(BadValue, match="with replacement"):
        ds.stages(ds.cluster("psu", ds.with_replacement(n=2)), ds.with_replacement(n=3))
