"""The laws of draws, written out by hand from recipes with nothing of the package, and tiny frames for every design."""

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import dpsurvey as ds
from dpsurvey.design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Strata
from tests.engines.oracle import step_of
from tests.truth import enumerated as en

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
        return together(*(law_of(step_of(step, label), part) for label, part in parts.items()))
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
    # What no possible frame has fewer units than, in all or by region.
    at_least: int | dict | None = None

    @functools.cached_property
    def frame(self):
        regions = sorted({each["region"] for each in self.units})
        counted = {label: sum(each["region"] == label for each in self.units) for label in regions}
        public = ["psu", "mos", "rate", "block"]
        categories = {"region": counted}
        return ds.Frame(
            "f.parquet", unit="id", size=len(self.units), categories=categories, public=public, size_at_least=self.at_least
        )

    @functools.cached_property
    def resolved(self):
        return self.design.resolve(self.frame)  # type: ignore[attr-defined]

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
    "srs with a lower bound": Case(ds.srs(n=2), at_least=3),
    "strata of srs with lower bounds": Case(
        ds.stratified("region", within=ds.srs(n=1)), FIVE, at_least={"region": {"n": 1, "s": 2}}
    ),
    "strata of poisson by": Case(ds.stratified("region", within=ds.poisson_by("rate", at_most=0.5)), moves=True),
    "two stages by rate": Case(ds.stages(psu("psu", ds.srs(n=1), clusters=2, cap=2), ds.poisson(0.4)), PAIRS),
    "two stages by number": Case(ds.stages(psu("psu", ds.srs(n=1), clusters=2, at_least=2), ds.srs(n=1)), PAIRS),
    "strata of listed clusters": Case(ds.stratified("region", within=psu("psu", ds.srs(n=1), sizes=(1, 1))), FIVE),
}
