"""Small random designs with stages around them: nonresponse, undercoverage, groups. See `enumerated_designs.py`."""

import itertools
from fractions import Fraction

import dpsurvey as ds
from tests.truth import enumerated_designs as plain

en, ADD, REPLACE, Case = plain.en, plain.ADD, plain.REPLACE, plain.Case


class Rates(dict):
    """The same rate for every unit that is not named."""

    def __init__(self, other, named):
        super().__init__(named)
        self.other = other

    def __missing__(self, key):
        return self.other


def largest(case):
    """The number of units in the largest sample."""
    return max(len(sample) for pairs in case.pairs.values() for pair in pairs for law in pair for sample in law)


def responding(rng):
    """Nonresponse after any design: the same rate for all, or lower ones for some."""
    kinds = [plain.simple, plain.whole_clusters, plain.two_stage, plain.proportional, plain.independent, plain.random_size]
    kinds += [plain.capped_clusters, plain.capped_two_stage, plain.every_kth, plain.by_size, plain.cluster_by_size]
    inner = kinds[plain.integers(rng, 0, len(kinds) - 1)](rng)
    while largest(inner) > 5:
        inner = kinds[plain.integers(rng, 0, len(kinds) - 1)](rng)
    most = plain.rate(rng)
    lower = rng.random() < 0.3
    rates = Rates(most, {name: most * float(rng.random()) for name in "xy"} if lower else {})
    pairs = {
        relation: [tuple(en.thinned(law, rates) for law in pair) for pair in pairs] for relation, pairs in inner.pairs.items()
    }
    supremum = (ADD, REPLACE) if lower else inner.supremum
    return Case(ds.responding(inner.design, at_most=most), pairs, supremum)


def on_frame(rates, design):
    return en.covered(rates, lambda units: design([unit for unit in rates if unit in units]))


def coverage(rng):
    """Undercoverage of everybody before a design that can take any number of units."""
    most = plain.rate(rng)
    kind = int(rng.choice([0, 1, 3, 4]))
    sizes = plain.some_sizes(rng, 4)
    units = list(range(plain.integers(rng, 1, 3)))
    if kind == 0:
        p = plain.rate(rng)
        inner, design = ds.poisson(p), lambda units: en.poisson(dict.fromkeys(units, p))
    elif kind == 1:
        r = plain.rate(rng)
        inner, design = ds.proportional(r, rounding="random"), lambda units: en.rounded(units, Fraction(repr(r)))
    else:
        take, label = plain.integers(rng, 1, len(sizes)), {}
        r = plain.rate(rng) if kind == 4 else None
        for j, group in enumerate(plain.grouped(sizes)):
            label |= dict.fromkeys(group, j)
        target = plain.integers(rng, 0, len(sizes) - 1)
        label |= {"x": target, "y": target}
        units = [unit for unit in label if unit not in "xy"]
        inner = (
            ds.stages(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=target + 1), ds.poisson(r))
            if r
            else ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=target + 1)
        )

        def design(units):
            groups = [[u for u in units if label[u] == j] for j in range(len(sizes))]
            return en.clusters(groups, take, plain.by_rate(r)) if r else en.clusters(groups, take)

        own = next(unit for unit in units if label[unit] == target)
        rest = {unit: most for unit in units if unit != own}
        pairs = {REPLACE: [tuple(on_frame(rest | {name: most}, design) for name in "xy")]}
        rest |= {own: most}
        pairs[ADD] = [(on_frame(rest | {"x": most}, design), on_frame(rest, design))]
        return Case(ds.covered(inner, at_most=most), pairs, (ADD, REPLACE))
    everyone = dict.fromkeys(units, most)
    others = dict(list(everyone.items())[:-1])
    pairs = {ADD: [(on_frame(everyone | {"x": most}, design), on_frame(everyone, design))]}
    pairs[REPLACE] = [tuple(on_frame(others | {name: most}, design) for name in "xy")]
    return Case(ds.covered(inner, at_most=most), pairs, (ADD, REPLACE) if kind == 1 else ())


def group(rng):
    """Several units of one entity, drawn by themselves or together."""
    count, kind = plain.integers(rng, 1, 3), plain.integers(rng, 0, 4)
    first, second = [f"x{k}" for k in range(count)], [f"y{k}" for k in range(count)]
    units, p = list(range(plain.integers(rng, 1, 2))), plain.rate(rng)
    supremum = ()
    if kind == 0:
        inner, design = ds.poisson(p), lambda units: en.poisson(dict.fromkeys(units, p))
    elif kind == 1:
        units = [*units, "b"]
        n = plain.integers(rng, 1, len(units))
        inner, design = ds.srs(n=n, size=len(units) + 1), lambda units: en.srs(units, n)
        supremum = (ADD, REPLACE)
    elif kind == 2:
        inner, design = ds.proportional(p, rounding="random"), lambda units: en.rounded(units, Fraction(repr(p)))
        supremum = (ADD, REPLACE)
    elif kind == 3:
        n, count = plain.integers(rng, 1, 2), min(count, 2)
        first, second = first[:count], second[:count]
        inner, design = ds.with_replacement(n, size=len(units) + 1), lambda units: en.with_replacement(units, n)
        supremum = (ADD, REPLACE)
    else:
        rest = en.poisson(dict.fromkeys(units, p))
        drawn = [en.mixture((1.0 - p, {frozenset(): 1.0}), (p, {frozenset(some): 1.0})) for some in (first, second)]
        pairs = {ADD: [(en.joined(rest, drawn[0]), rest)], REPLACE: [tuple(en.joined(rest, each) for each in drawn)]}
        return Case(ds.group(ds.poisson(p), count, drawn="together"), pairs)
    pairs = {ADD: [(design([*units, *first]), design(units))]}
    pairs[REPLACE] = [(design([*units, *first]), design([*units, *second]))]
    return Case(ds.group(inner, count), pairs, supremum)


def pps_on_a_thinned_frame(rng):
    """One cluster in proportion to its number of units on a frame that misses some."""
    sizes, most = plain.some_sizes(rng, 4), plain.rate(rng)
    groups = plain.grouped(sizes)
    units = list(itertools.chain(*groups))
    label = {unit: int(unit[0]) for unit in units} | {"x": 0}

    def design(units):
        return en.one_cluster_by_size([[u for u in units if label[u] == j] for j in range(len(sizes))])

    rest = dict.fromkeys(units, most)
    pairs = {ADD: [(on_frame(rest | {"x": most}, design), on_frame(rest, design))]}
    return Case(ds.covered(ds.cluster("cluster", ds.pps("size", n=1), sizes=sizes, unit_in=1), at_most=most), pairs, (ADD,))
