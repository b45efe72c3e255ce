"""Designs written out sample by sample, and the worst case over all mechanisms as linear programmes.

Nothing of the package is used. A sample is a frozenset of labelled units; a multiset is a frozenset of (unit, copy). A
law maps each sample to its probability. For one event let g(S) be its probability on the sample S: a mechanism is
epsilon-private exactly when g(S) <= e^(epsilon d(S, T)) g(T), where d counts the steps of its relation.
"""

import itertools
import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

BASES = ("add-remove", "replace-one", "both")
SHARP = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


# Designs


def mixture(*parts):
    """One of several laws, each with its weight."""
    law = {}
    for weight, part in parts:
        for sample, probability in part.items():
            law[sample] = law.get(sample, 0.0) + weight * probability
    return {sample: p for sample, p in law.items() if p > 0.0}


def joined(*laws):
    """Independent draws, put together."""
    law = {frozenset(): 1.0}
    for other in laws:
        parts = ((a | b, p * q) for (a, p), (b, q) in itertools.product(law.items(), other.items()))
        law = mixture(*((p, {sample: 1.0}) for sample, p in parts))
    return law


def poisson(rates):
    """Each unit by itself, with its own rate."""
    return joined(*({frozenset(): 1.0 - rate, frozenset([unit]): rate} for unit, rate in rates.items()))


def srs(units, n):
    """Every set of n units, equally likely."""
    sets = [frozenset(chosen) for chosen in itertools.combinations(units, n)]
    return dict.fromkeys(sets, 1.0 / len(sets))


def with_replacement(units, n):
    """n draws, each of any unit."""
    draws = list(itertools.product(units, repeat=n))
    return mixture(*((1.0 / len(draws), {frozenset((u, k) for u in d for k in range(d.count(u))): 1.0}) for d in draws))


def sized(units, sizes):
    """A random size, then a simple random sample."""
    return mixture(*((p, srs(units, m)) for m, p in sizes.items()))


def rounded(units, rate):
    """Randomised rounding of rate * number of units, the rate a fraction."""
    whole = math.floor(rate * len(units))
    part = float(rate * len(units) - whole)
    return sized(units, {whole: 1.0 - part} | ({whole + 1: part} if part else {}))


def clusters(groups, take, inside=lambda group: {frozenset(group): 1.0}):
    """`take` of the groups, then a design inside each."""
    drawn = list(itertools.combinations(groups, take))
    return mixture(*((1.0 / len(drawn), joined(*(inside(group) for group in some))) for some in drawn))


def one_cluster_by_size(groups):
    """One group, with probability proportional to its number of units; nothing if there are no units."""
    total = sum(map(len, groups))
    if not total:
        return {frozenset(): 1.0}
    return mixture(*((len(group) / total, {frozenset(group): 1.0}) for group in groups))


def systematic(order, step):
    """Every step-th unit of a list, from a random start."""
    return mixture(*((1.0 / step, {frozenset(order[start::step]): 1.0}) for start in range(step)))


def shuffled_systematic(units, step):
    """The same after a random order."""
    orders = list(itertools.permutations(units))
    return mixture(*((1.0 / len(orders), systematic(order, step)) for order in orders))


def conditional_poisson(weights, n):
    """n-subsets with probability proportional to the product of their weights."""
    sets = {frozenset(chosen): math.prod(weights[u] for u in chosen) for chosen in itertools.combinations(weights, n)}
    return {sample: weight / sum(sets.values()) for sample, weight in sets.items()}


def sampford(chances, n):
    """Sampford's method, by its closed form."""
    odds = {unit: p / (1.0 - p) for unit, p in chances.items()}
    sets = {s: math.prod(odds[u] for u in s) * sum(1.0 - chances[u] for u in s) for s in srs(chances, n)}
    return {sample: weight / sum(sets.values()) for sample, weight in sets.items()}


def pivotal(chances):
    """Sequential pivotal sampling: the first two undecided units fight, until all are decided."""
    undecided = [unit for unit, p in chances.items() if 1e-12 < p < 1.0 - 1e-12]
    if len(undecided) < 2:
        return {frozenset(unit for unit, p in chances.items() if p > 0.5): 1.0}
    one, two = undecided[:2]
    p, q = chances[one], chances[two]
    if p + q <= 1.0:
        ends = ((p / (p + q), p + q, 0.0), (q / (p + q), 0.0, p + q))
    else:
        ends = (((1.0 - q) / (2.0 - p - q), 1.0, p + q - 1.0), ((1.0 - p) / (2.0 - p - q), p + q - 1.0, 1.0))
    return mixture(*((weight, pivotal(chances | {one: a, two: b})) for weight, a, b in ends))


def systematic_by_size(chances):
    """One uniform start u: the units whose cumulated interval holds u, u + 1, ...; chances are fractions."""
    ends = list(itertools.accumulate(chances.values(), initial=0))
    cuts = sorted({end % 1 for end in ends} | {0, 1})
    law = []
    for low, high in itertools.pairwise(cuts):
        start = (low + high) / 2
        hit = [u for u, a, b in zip(chances, ends, ends[1:], strict=False) if any(a < start + k <= b for k in range(len(ends)))]
        law.append((float(high - low), {frozenset(hit): 1.0}))
    return mixture(*law)


def thinned(law, rates):
    """Each sampled unit responds by itself."""
    return mixture(*((p, poisson({unit: rates[unit] for unit in sample})) for sample, p in law.items()))


def covered(rates, design):
    """Each unit is on the frame by itself; the design draws from those that are."""
    return mixture(*((p, design(on_frame)) for on_frame, p in poisson(rates).items()))


def chances_of(law, units):
    """The inclusion probabilities of a law."""
    return {unit: sum(p for sample, p in law.items() if unit in sample) for unit in units}


# The worst case


def distances(samples, base):
    """Steps of a relation between all pairs of samples; infinite where no path leads from one to the other."""
    bits = {unit: position for position, unit in enumerate(sorted({unit for s in samples for unit in s}, key=str))}
    codes = np.array([sum(1 << bits[unit] for unit in sample) for sample in samples], dtype=np.int64)
    more = np.bitwise_count(codes[:, None] & ~codes[None, :]).astype(float)
    if base == "add-remove":
        return more + more.T
    largest = np.maximum(more, more.T)
    return np.where(more == more.T, largest, np.inf) if base == "replace-one" else largest


def _edges(distance):
    """The pairs of samples that are not already bound by way of a third one."""
    loop = distance + np.where(np.eye(len(distance), dtype=bool), np.inf, 0.0)
    between = (loop[:, :, None] + loop[None, :, :]).min(axis=1)
    return np.nonzero(np.isfinite(loop) & (between > distance))


def worst_loss(first, second, epsilon, base):
    """The largest log ratio of any event's probabilities, both orders, over all epsilon-private mechanisms."""
    samples = sorted(set(first) | set(second), key=lambda s: sorted(map(str, s)))
    distance = distances(samples, base)
    rows, cols = _edges(distance)
    count = np.arange(len(rows))
    values = np.concatenate((np.ones(len(rows)), -np.exp(epsilon * distance[rows, cols])))
    shape = (len(rows), len(samples))
    matrix = coo_array((values, (np.concatenate((count, count)), np.concatenate((rows, cols)))), shape=shape).tocsr()
    found = []
    laws = [np.array([law.get(sample, 0.0) for sample in samples]) for law in (first, second)]
    for above, below in (laws, laws[::-1]):
        limits = {"A_ub": matrix, "b_ub": np.zeros(len(rows)), "A_eq": below[None, :], "b_eq": [1.0]}
        best = linprog(-above, **limits, method="highs", options=SHARP)
        assert best.status in (0, 3), best.message
        found.append(math.log(-best.fun) if best.status == 0 else math.inf)
    return max(found)


def _stable(units, base):
    """All data sets of the units and the pairs at one step."""
    data = [frozenset(c) for n in range(len(units) + 1) for c in itertools.combinations(sorted(units, key=str), n)]
    return data, np.nonzero(distances(data, base) == 1.0)


def worst_delta(first, second, at, epsilon, delta, base):
    """The largest hockey-stick divergence at `at` in either order, over all (epsilon, delta)-private mechanisms."""
    data, (rows, cols) = _stable({unit for law in (first, second) for sample in law for unit in sample}, base)
    count, factor = np.arange(2 * len(rows)), math.exp(epsilon)
    # The same for the complement of the event: 1 - g in place of g.
    values = np.concatenate((np.ones(len(rows)), -np.ones(len(rows)), np.full(len(rows), -factor), np.full(len(rows), factor)))
    places = (np.concatenate((count, count)), np.concatenate((rows, rows, cols, cols)))
    matrix = coo_array((values, places), shape=(2 * len(rows), len(data))).tocsr()
    limits = np.concatenate((np.full(len(rows), delta), np.full(len(rows), delta + factor - 1.0)))
    found = []
    for above, below in ((first, second), (second, first)):
        gain = np.array([above.get(each, 0.0) - math.exp(at) * below.get(each, 0.0) for each in data])
        best = linprog(-gain, A_ub=matrix, b_ub=limits, bounds=(0.0, 1.0), method="highs", options=SHARP)
        assert best.status == 0, best.message
        found.append(float(-best.fun))
    return max(found)
