"""Small random designs: a design of the package and, written out by hand, the pairs of populations it speaks of.

Units are numbered; "x" is the target and "y" what replaces it, or further ones "x0", "x1", ... of a group. A case holds
for each relation of the populations the laws with and without the target. `supremum` names the relations under which the
package speaks of every population, so that one pair may lose less than the bound.
"""

from dataclasses import dataclass
from fractions import Fraction

import dpsurvey as ds
from tests.truth import enumerated as en

ADD, REPLACE = "add-remove", "replace-one"


@dataclass
class Case:
    design: object
    pairs: dict
    supremum: tuple = ()


def both(design, units):
    """Pairs for a design that draws from a list of units: the target added to them, or one of them replaced."""
    rest = list(units[:-1])
    return {ADD: [(design([*units, "x"]), design(units))], REPLACE: [(design([*rest, "x"]), design([*rest, "y"]))]}


def integers(rng, low, high):
    return int(rng.integers(low, high + 1))


def rate(rng):
    """A decimal rate, now and then a special one."""
    return float(rng.choice([0.5, 0.25, 1.0])) if rng.random() < 0.15 else round(float(rng.uniform(0.03, 0.97)), 3)


def simple(rng):
    population = integers(rng, 2, 6)
    n = integers(rng, 1, population - 1)
    smaller = list(range(population - 1))
    larger = [*smaller, "x"]
    pairs = {
        ADD: [(en.srs(larger, n), en.srs(smaller, n))],
        REPLACE: [(en.srs(larger, n), en.srs([*smaller, "y"], n))],
    }
    return Case(ds.srs(n=n, size=population), pairs)


def draws(rng):
    population, n = integers(rng, 2, 4), integers(rng, 1, 3)
    smaller = list(range(population - 1))
    larger = en.with_replacement([*smaller, "x"], n)
    pairs = {
        ADD: [(larger, en.with_replacement(smaller, n))],
        REPLACE: [(larger, en.with_replacement([*smaller, "y"], n))],
    }
    return Case(ds.with_replacement(n, size=population), pairs)


def independent(rng):
    rates = [rate(rng) for _ in range(integers(rng, 1, 3))]
    moves = bool(rng.random() < 0.5)
    pairs = {ADD: [], REPLACE: []}
    for i, p in enumerate(rates):
        rest = {j: r for j, r in enumerate(rates) if j != i}
        pairs[ADD].append((en.poisson(rest | {"x": p}), en.poisson(rest)))
        for q in rates if moves else [p]:
            pairs[REPLACE].append((en.poisson(rest | {"x": p}), en.poisson(rest | {"y": q})))
    return Case(ds.poisson_by("rate", probabilities=tuple(rates), moves=moves), pairs)


def law_of_sizes(rng, most):
    sizes = rng.choice(most + 1, size=integers(rng, 1, most + 1), replace=False).tolist()
    weights = rng.dirichlet([0.6] * len(sizes))
    law = {int(m): float(w) for m, w in zip(sizes, weights, strict=True) if w > 1e-6}
    return {m: w / sum(law.values()) for m, w in law.items()}


def random_size(rng):
    population = integers(rng, 2, 5)
    law = law_of_sizes(rng, population - 1 if rng.random() < 0.7 else population)
    if not any(law):
        law = {1: 1.0}
    smaller = list(range(population - 1))
    larger = en.sized([*smaller, "x"], law)
    pairs = {REPLACE: [(larger, en.sized([*smaller, "y"], law))]}
    if max(law) < population:
        pairs[ADD] = [(larger, en.sized(smaller, law))]
    return Case(ds.random_size(population, table=law), pairs)


def proportional(rng):
    r, size = rate(rng), integers(rng, 1, 5)
    exact = Fraction(repr(r))
    kind = ("random", "nearest", "none")[integers(rng, 0, 2)]
    design = {
        "random": lambda units: en.rounded(units, exact),
        "nearest": lambda units: en.srs(units, int(exact * len(units) + Fraction(1, 2))),
        "none": lambda units: en.poisson(dict.fromkeys(units, r)),
    }[kind]
    whole = rng.random() < 0.3
    supremum = (ADD, REPLACE) if whole and kind != "none" else ()
    return Case(ds.proportional(r, rounding=kind, size=None if whole else size), both(design, list(range(size))), supremum)  # type: ignore[call-overload]


def allocation(rng):
    size = integers(rng, 0, 5)
    laws = [law_of_sizes(rng, size), law_of_sizes(rng, size + 1)]
    rows = tuple((size + k, m, w) for k, law in enumerate(laws) for m, w in law.items())
    units = list(range(size))
    return Case(ds.size_rule(rows), {ADD: [(en.sized([*units, "x"], laws[1]), en.sized(units, laws[0]))]})


def grouped(sizes):
    """Labelled units in groups."""
    return [[f"{j}{k}" for k in range(size)] for j, size in enumerate(sizes)]


def with_groups(design, sizes, target):
    """Pairs for a design on groups, the target in one of them."""
    groups = grouped(sizes)

    def changed(units):
        return [units if j == target else group for j, group in enumerate(groups)]

    own = groups[target]
    return {
        ADD: (design(changed([*own, "x"])), design(groups)),
        REPLACE: (design(changed([*own[:-1], "x"])), design(changed([*own[:-1], "y"]))),
    }


def per_target(rng, sizes, design):
    """The target's group, given or left open, and the pairs that go with it."""
    target = integers(rng, 0, len(sizes) - 1) if rng.random() < 0.6 else None
    every = [with_groups(design, sizes, j) for j in (range(len(sizes)) if target is None else [target])]
    unit_in = None if target is None else target + 1
    return unit_in, {relation: [pair[relation] for pair in every] for relation in (ADD, REPLACE)}


def some_sizes(rng, units, least=1):
    """Sizes of one to four groups with few units in all; equal ones now and then."""
    count = integers(rng, 1, 4)
    if rng.random() < 0.3:
        return (integers(rng, least, max(least, units // count)),) * count
    sizes = [least] * count
    while sum(sizes) < units and rng.random() < 0.8:
        sizes[integers(rng, 0, count - 1)] += 1
    return tuple(sizes)


def whole_clusters(rng):
    sizes = some_sizes(rng, 8)
    take = integers(rng, 1, len(sizes))
    unit_in, pairs = per_target(rng, sizes, lambda groups: en.clusters(groups, take))
    return Case(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=unit_in), pairs)


def capped_clusters(rng):
    cap, count = integers(rng, 1, 3), integers(rng, 1, 4)
    take, full = integers(rng, 1, count), rng.random() < 0.5
    others = [cap if full else integers(rng, 1, cap) for _ in range(count - 1)]
    own = cap if full else integers(rng, 1, cap)
    pairs = with_groups(lambda groups: en.clusters(groups, take), (own - 1, *others), 0)
    replaced = with_groups(lambda groups: en.clusters(groups, take), (own, *others), 0)
    known = {ADD: [pairs[ADD]], REPLACE: [replaced[REPLACE]]}
    return Case(ds.cluster("cluster", ds.srs(n=take), clusters=count, cap=cap), known, () if full else (ADD, REPLACE))


def by_rate(r):
    return lambda group: en.poisson(dict.fromkeys(group, r))


def two_stage(rng):
    if rng.random() < 0.5:
        sizes, r = some_sizes(rng, 5), rate(rng)
        take = integers(rng, 1, len(sizes))
        unit_in, pairs = per_target(rng, sizes, lambda groups: en.clusters(groups, take, by_rate(r)))
        return Case(ds.stages(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=unit_in), ds.poisson(r)), pairs)
    least = integers(rng, 1, 2)
    sizes, m = some_sizes(rng, 6, least), integers(rng, 1, least)
    take = integers(rng, 1, len(sizes))
    unit_in, pairs = per_target(rng, sizes, lambda groups: en.clusters(groups, take, lambda group: en.srs(group, m)))
    return Case(ds.stages(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=unit_in), ds.srs(n=m)), pairs)


def capped_two_stage(rng):
    cap, count, r = integers(rng, 1, 2), integers(rng, 1, 3), rate(rng)
    take, full = integers(rng, 1, count), rng.random() < 0.5
    others = [cap if full else integers(rng, 1, cap) for _ in range(count - 1)]
    pairs = with_groups(lambda groups: en.clusters(groups, take, by_rate(r)), (cap - 1, *others), 0)
    return Case(
        ds.stages(ds.cluster("cluster", ds.srs(n=take), clusters=len((cap,) * count), cap=max((cap,) * count)), ds.poisson(r)),
        {ADD: [pairs[ADD]]},
        () if full else (ADD,),
    )


def fixed_size_chances(rng):
    """Rational inclusion probabilities below 1 that sum to a whole number."""
    while True:
        parts = rng.integers(2, 19, size=integers(rng, 2, 5)).tolist()
        parts[-1] = -sum(parts[:-1]) % 20
        if 0 < parts[-1] < 20:
            return {i: Fraction(part, 20) for i, part in enumerate(parts)}


def by_size(rng):
    method = ("conditional-poisson", "sampford", "pivotal", "systematic", "poisson")[integers(rng, 0, 4)]
    exact = fixed_size_chances(rng)
    n, chances = int(sum(exact.values())), {unit: float(p) for unit, p in exact.items()}
    if method == "conditional-poisson":
        law = en.conditional_poisson({unit: float(rng.uniform(0.1, 3.0)) for unit in exact}, n)
        chances = en.chances_of(law, exact)
    else:
        draw = {"sampford": lambda: en.sampford(chances, n), "pivotal": lambda: en.pivotal(chances)}
        draw |= {"systematic": lambda: en.systematic_by_size(exact), "poisson": lambda: en.poisson(chances)}
        law = draw[method]()

    def named(target, name):
        return {frozenset(name if u == target else u for u in sample): p for sample, p in law.items()}

    pairs = {REPLACE: [(named(target, "x"), named(target, "y")) for target in exact]}
    if method == "poisson":
        pairs[ADD] = [(law, en.poisson({u: p for u, p in chances.items() if u != target})) for target in exact]
    order = "as listed" if method == "systematic" else "random"
    return Case(ds.pps("size", probabilities=tuple(chances.values()), measure="public", method=method, order=order), pairs)


def cluster_by_size(rng):
    sizes = some_sizes(rng, 8)
    unit_in, pairs = per_target(rng, sizes, en.one_cluster_by_size)
    return Case(ds.cluster("cluster", ds.pps("size", n=1), sizes=sizes, unit_in=unit_in), pairs)


def every_kth(rng):
    step, n = integers(rng, 1, 4), integers(rng, 1, 3)
    if rng.random() < 0.4:
        step, n = (integers(rng, 1, 3), 1) if rng.random() < 0.6 else (2, 2)
        units = list(range(step * n))
        return Case(
            ds.systematic(step=step, size=step * n, order="random"),
            both(lambda u: en.shuffled_systematic(u, step), units),
            (ADD,),
        )
    units = list(range(step * n))
    added = [[*units[:t], "x", *units[t:]] for t in range(len(units) + 1)]
    replaced = [[[*units[:t], name, *units[t + 1 :]] for name in "xy"] for t in range(len(units))]
    pairs = {
        ADD: [(en.systematic(order, step), en.systematic(units, step)) for order in added],
        REPLACE: [tuple(en.systematic(order, step) for order in pair) for pair in replaced],
    }
    return Case(ds.systematic(step=step, size=step * n, order="as listed"), pairs)
