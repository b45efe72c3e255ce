"""The whole curve of a sampled mechanism against the worst case over all mechanisms, and against explicit Gaussian ones.

The hockey-stick divergence over all (epsilon, delta)-private mechanisms is a linear programme over every data set that can
be made of the units; a Gaussian mechanism with a stated statistic gives a lower bound by quadrature.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

import dpsurvey as ds
from dpsurvey.design import Refused
from dpsurvey.loss.bound import Losses
from dpsurvey.loss.curves import SampledCurve
from dpsurvey.privacy.curve import Approximate, Gaussian
from tests.truth import enumerated_stages as stages

plain, en, ADD, REPLACE = stages.plain, stages.en, stages.ADD, stages.REPLACE

SEED, CASES, SLACK = 20260731, 6, 1e-8
KINDS = [plain.simple, plain.draws, plain.independent, plain.random_size, plain.proportional, plain.allocation]
KINDS += [plain.whole_clusters, plain.capped_clusters, plain.two_stage, plain.capped_two_stage, plain.by_size]
KINDS += [plain.cluster_by_size, plain.every_kth, stages.responding, stages.coverage, stages.group]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_delta_is_below_the_worst_case_over_all_private_mechanisms(kind):
    rng, tried = np.random.default_rng([SEED, len(kind.__name__)]), 0
    while tried < CASES:
        case = kind(rng)
        units = {u for pairs in case.pairs.values() for pair in pairs for law in pair for sample in law for u in sample}
        if len(units) > 7:
            continue
        tried += 1
        epsilon, delta = float(rng.choice([0.2, 0.5, 1.0, 1.6])), float(rng.choice([1e-4, 0.003, 0.02, 0.1]))
        for base, (neighbours, pairs) in itertools.product(en.BASES, case.pairs.items()):
            bound = case.design.bound(Losses.of(epsilon, base), neighbours)
            if isinstance(bound, Refused) or bound.upper == 0.0:
                continue
            curve = SampledCurve(Approximate(epsilon, delta), base, neighbours, case.design)
            for at in (0.1 * bound.upper, 0.6 * bound.upper, bound.upper):
                worst = max(en.worst_delta(*pair, at, epsilon, delta, base) for pair in pairs[:3])  # type: ignore[call-arg]
                told = f"{case.design} ({epsilon}, {delta}) base {base} neighbours {neighbours} at {at}: is {worst}"
                assert curve.delta(at) >= worst - SLACK, told


def rounding_worst(rate, epsilon, delta, at, m=2, most=6):
    """Randomised rounding of a whole number m = rate N as N grows: a linear programme on samples with and without x.

    ("A", j) is a sample of j others, ("B", j) of j units with the target; units are alike, so only their number counts.
    """
    nodes = [("A", j) for j in range(most)] + [("B", j) for j in range(1, most + 1)]
    edges = [(("A", j), ("A", j + 1)) for j in range(most - 1)] + [(("B", j), ("B", j + 1)) for j in range(1, most)]
    edges += [(("A", j), ("B", j + 1)) for j in range(most)]
    s = 1.0 - rate
    with_target = {("A", m): s * s, ("B", m): rate * s, ("A", m + 1): rate * s, ("B", m + 1): rate * rate}
    rows, limits = [], []
    for one, other in itertools.chain(edges, (edge[::-1] for edge in edges)):
        row = np.zeros(len(nodes))
        row[nodes.index(one)], row[nodes.index(other)] = 1.0, -math.exp(epsilon)
        rows += [row, -row]
        limits += [delta, delta + math.exp(epsilon) - 1.0]
    found = []
    for above, below in ((with_target, {("A", m): 1.0}), ({("A", m): 1.0}, with_target)):
        gain = np.array([above.get(node, 0.0) - math.exp(at) * below.get(node, 0.0) for node in nodes])
        best = linprog(-gain, A_ub=np.array(rows), b_ub=limits, bounds=(0.0, 1.0), method="highs", options=en.SHARP)
        found.append(-best.fun)
    return found


def test_randomised_rounding_is_held_in_the_order_that_is_worse():
    forward, backward = rounding_worst(0.7233, 0.49, 4.566e-4, 0.237)
    # The published figures, .15011 and .15307, belong to a rate with more digits than were printed.
    assert (forward, backward) == pytest.approx((0.15011, 0.15307), abs=5e-5)
    curve = SampledCurve(Approximate(0.49, 4.566e-4), ADD, ADD, ds.proportional(0.7233, rounding="random"))
    assert curve.delta(0.237) >= backward


def test_randomised_rounding_holds_on_random_bases():
    rng = np.random.default_rng(SEED)
    for _ in range(40):
        rate, epsilon, delta = rng.uniform(0.02, 0.98), rng.uniform(0.1, 2.0), 10.0 ** rng.uniform(-5, -1)
        at = (
            rng.uniform(0.05, 1.0)
            * ds.proportional(float(rate), rounding="random").bound(Losses.of(float(epsilon), ADD), ADD).upper
        )
        curve = SampledCurve(Approximate(float(epsilon), float(delta)), ADD, ADD, ds.proportional(float(rate), rounding="random"))
        worst = max(rounding_worst(rate, epsilon, delta, at))
        assert curve.delta(float(at)) >= worst - SLACK, (rate, epsilon, delta, at, worst)


def test_randomised_rounding_of_a_gaussian_mechanism_has_the_published_delta():
    curve = SampledCurve(Gaussian(1.0), ADD, ADD, ds.proportional(0.1, rounding="random"))
    assert curve.delta(0.5) == pytest.approx(0.0432041, abs=5e-8)


GRID = np.linspace(-70.0, 90.0, 160_001)


def divergence(first, second, at):
    """The hockey-stick divergence of two mixtures of unit normals, given as (weight, centre); the worse order."""
    p, q = (sum(weight * norm.pdf(GRID, centre) for weight, centre in law) for law in (first, second))
    step, alpha = GRID[1] - GRID[0], math.exp(at)
    return max(float(np.maximum(0.0, a - alpha * b).sum()) * step for a, b in ((p, q), (q, p)))


def gaussian_designs():
    """Designs with a mechanism whose statistic moves by at most one per step, as mixtures of centres in units of mu."""
    yield "rounding", ds.proportional(0.3, rounding="random"), ADD, ADD, [(0.49, 0), (0.3, 1), (0.21, 2)], [(1.0, 0)]
    yield "simple", ds.srs(n=3, size=10), REPLACE, REPLACE, [(0.7, 0), (0.3, 1)], [(1.0, 0)]
    yield "simple, unit added", ds.srs(n=3, size=10), "both", ADD, [(0.7, 0), (0.3, 1)], [(1.0, 0)]
    yield "Poisson, both signs", ds.poisson(0.3), ADD, REPLACE, [(0.7, 0), (0.3, 1)], [(0.7, 0), (0.3, -1)]
    yield "Poisson", ds.poisson(0.3), ADD, ADD, [(0.7, 0), (0.3, 1)], [(1.0, 0)]
    yield "group", ds.group(ds.poisson(0.3), 3), ADD, ADD, [(binom.pmf(k, 3, 0.3), k) for k in range(4)], [(1.0, 0)]
    yield "together", ds.group(ds.poisson(0.3), 3, drawn="together"), ADD, ADD, [(0.7, 0), (0.3, 3)], [(1.0, 0)]
    for n, size, share in ((3, 4, 1.0), (3, 4, 0.5), (12, 4, 0.6), (14, 5, 0.407)):
        law = [(binom.pmf(k, n, 1 / size), k) for k in range(n + 1)]
        first, second = [(w, share * k) for w, k in law], [(w, (share - 1.0) * k) for w, k in law]
        yield f"with replacement {n} {size} {share}", ds.with_replacement(n, size=size), REPLACE, REPLACE, first, second
        yield f"with replacement {n} {size}, unit added", ds.with_replacement(n, size=size), "both", ADD, law, [(1.0, 0)]


@pytest.mark.parametrize("mu", [0.2, 1.0])
@pytest.mark.parametrize("design", list(gaussian_designs()), ids=lambda design: design[0])
def test_no_gaussian_mechanism_exceeds_the_curve(design, mu):
    _, drawn, base, neighbours, first, second = design
    curve = SampledCurve(Gaussian(mu), base, neighbours, drawn)
    laws = [[(weight, mu * centre) for weight, centre in law] for law in (first, second)]
    for at in (0.01, 0.05, 0.3, 1.0, 3.0):
        assert curve.delta(at) >= divergence(*laws, at) * (1.0 - 1e-6) - 1e-12, f"at {at}: {divergence(*laws, at)}"  # type: ignore[call-arg]
