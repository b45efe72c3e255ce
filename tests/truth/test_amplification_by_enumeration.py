"""Every amplification rule against the exact worst case over all mechanisms, on populations small enough to enumerate.

For one event let g(S) be its probability on the sample S. A mechanism is epsilon-private under a relation exactly when
g(S) <= e^(epsilon d(S, T)) g(T) for all S, T, where d counts the steps of the relation from S to T, so the largest
loss of sampling followed by any such mechanism is the logarithm of a linear-fractional maximum, solved here as a
linear programme. Nothing of the package is used but the claims under test. Records are all different: equal records
would only tie some g(S) together.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from dpsurvey import Frame, PrivacyProfile, Setting, poisson, srs, stratified
from dpsurvey.design import Amplified, Refused
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy.budget import Budget

pytestmark = pytest.mark.quick

# Accuracy of the solver's optimum; claims below the optimum by more than this are wrong.
SLACK = 1e-7
EXACT = 1e-6
OTHERS = ("a", "b", "c")


# Designs, enumerated: a mapping from each possible sample to its probability


def poisson_samples(rates):
    """Each unit by itself, with its own rate."""
    samples = {frozenset(): 1.0}
    for unit, rate in rates.items():
        thinned = {}
        for sample, probability in samples.items():
            thinned[sample] = thinned.get(sample, 0.0) + (1.0 - rate) * probability
            thinned[sample | {unit}] = rate * probability
        samples = thinned
    return samples


def srs_samples(units, n):
    """Every set of n units, equally likely."""
    sets = [frozenset(chosen) for chosen in itertools.combinations(sorted(units), n)]
    return dict.fromkeys(sets, 1.0 / len(sets))


def both_strata(north, south):
    """Independent draws in two strata."""
    return {a | b: p * q for (a, p), (b, q) in itertools.product(north.items(), south.items())}


def mixture(*parts):
    """One of several designs, each with its probability."""
    samples = {}
    for weight, part in parts:
        for sample, probability in part.items():
            samples[sample] = samples.get(sample, 0.0) + weight * probability
    return samples


# The worst case


def steps(base, one, other):
    """The number of steps of a relation between two samples."""
    if base == "add-remove":
        return len(one ^ other)
    if base == "both":
        return max(len(one - other), len(other - one))
    return len(one - other) if len(one) == len(other) else math.inf


def worst_loss(first, second, epsilon, base):
    """The largest log ratio of any event's probabilities, both orders, over all epsilon-private mechanisms."""
    samples = sorted(set(first) | set(second), key=lambda sample: (len(sample), sorted(sample)))
    bounds = []
    for (i, one), (j, other) in itertools.permutations(enumerate(samples), 2):
        if math.isfinite(distance := steps(base, one, other)):
            row = np.zeros(len(samples))
            row[i], row[j] = 1.0, -math.exp(epsilon * distance)
            bounds.append(row)
    losses = []
    for above, below in ((first, second), (second, first)):
        gain = np.array([above.get(sample, 0.0) for sample in samples])
        unit = np.array([[below.get(sample, 0.0) for sample in samples]])
        found = linprog(
            -gain,
            A_ub=np.array(bounds) if bounds else None,
            b_ub=np.zeros(len(bounds)) if bounds else None,
            A_eq=unit,
            b_eq=[1.0],
            method="highs",
        )
        assert found.status in (0, 3), found.message
        losses.append(math.log(-found.fun) if found.status == 0 else math.inf)
    return max(losses)


def worst_delta(first, second, at, epsilon, delta, base, universe):
    """The largest hockey-stick divergence at `at`, both orders, over all (epsilon, delta)-private mechanisms."""
    index = {sample: position for position, sample in enumerate(universe)}
    rows, limits = [], []
    for one, other in itertools.permutations(universe, 2):
        if steps(base, one, other) == 1:
            row = np.zeros(len(universe))
            row[index[one]], row[index[other]] = 1.0, -math.exp(epsilon)
            rows.append(row)
            limits.append(delta)
            # The same for the complement of the event: 1 - g in place of g.
            rows.append(-row)
            limits.append(delta + math.exp(epsilon) - 1.0)
    found = []
    for above, below in ((first, second), (second, first)):
        gain = np.array([above.get(sample, 0.0) - math.exp(at) * below.get(sample, 0.0) for sample in universe])
        best = linprog(-gain, A_ub=np.array(rows), b_ub=np.array(limits), bounds=(0.0, 1.0), method="highs")
        assert best.status == 0, best.message
        found.append(-best.fun)
    return max(found)


def subsets(units):
    return [frozenset(chosen) for size in range(len(units) + 1) for chosen in itertools.combinations(sorted(units), size)]


# The claims


def frame(size, **strata):
    return Frame("frame.parquet", unit="id", size=size, categories={"region": strata} if strata else None)


def claimed(design, profile, neighbours, protect="frame"):
    answer = design.amplify(profile, Setting(protect, neighbours=neighbours))
    assert isinstance(answer, Amplified), str(answer)
    assert answer.profile.relation == neighbours
    return answer.profile


def claimed_loss(design, epsilon, base, neighbours, protect="frame"):
    return claimed(design, PrivacyProfile.pure(epsilon, base), neighbours, protect).epsilon(0.0)


def test_the_enumerated_designs_are_the_designs():
    drawn = poisson_samples({"a": 0.1, "b": 0.5, "x": 0.9})
    assert len(drawn) == 8
    assert math.fsum(drawn.values()) == pytest.approx(1.0, abs=1e-15)
    for unit, rate in (("a", 0.1), ("b", 0.5), ("x", 0.9)):
        assert math.fsum(p for sample, p in drawn.items() if unit in sample) == pytest.approx(rate, abs=1e-15)
    fixed = srs_samples("abcde", 2)
    assert len(fixed) == 10
    assert math.fsum(p for sample, p in fixed.items() if "a" in sample) == pytest.approx(0.4, abs=1e-15)


def test_the_solver_finds_the_loss_of_no_sampling_at_all():
    whole, without, other = ({frozenset(units): 1.0} for units in ("abx", "ab", "aby"))
    assert worst_loss(whole, without, 0.7, "add-remove") == pytest.approx(0.7, abs=SLACK)
    assert worst_loss(whole, other, 0.7, "add-remove") == pytest.approx(1.4, abs=SLACK)
    assert worst_loss(whole, other, 0.7, "both") == pytest.approx(0.7, abs=SLACK)
    assert worst_loss(whole, other, 0.7, "replace-one") == pytest.approx(0.7, abs=SLACK)
    assert worst_loss(whole, without, 0.7, "replace-one") == math.inf


# Poisson

grid = pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])


@grid
@pytest.mark.parametrize("base", ["add-remove", "both"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 1.0])
def test_poisson_add_remove_is_exact(rate, base, epsilon):
    others = dict.fromkeys(OTHERS, rate)
    exact = worst_loss(poisson_samples(others | {"x": rate}), poisson_samples(others), epsilon, base)
    claim = claimed_loss(poisson(rate), epsilon, base, "add-remove")
    assert claim >= exact - SLACK
    assert claim == pytest.approx(exact, abs=EXACT)


@grid
@pytest.mark.parametrize("base", ["add-remove", "both"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 1.0])
def test_poisson_replace_one_is_exact_from_add_remove_and_from_both(rate, base, epsilon):
    others = dict.fromkeys(OTHERS[:2], rate)
    exact = worst_loss(poisson_samples(others | {"x": rate}), poisson_samples(others | {"y": rate}), epsilon, base)
    claim = claimed_loss(poisson(rate), epsilon, base, "replace-one")
    assert claim >= exact - SLACK
    assert claim == pytest.approx(exact, abs=EXACT)


@grid
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_poisson_amplifies_nothing_where_a_mechanism_hides_values_but_not_sizes(rate, epsilon):
    others = dict.fromkeys(OTHERS[:2], rate)
    with_x, with_y, without = (poisson_samples(others | extra) for extra in ({"x": rate}, {"y": rate}, {}))
    assert worst_loss(with_x, with_y, epsilon, "replace-one") == pytest.approx(epsilon, abs=EXACT)
    assert worst_loss(with_x, without, epsilon, "replace-one") == math.inf
    assert claimed_loss(poisson(rate), epsilon, "replace-one", "replace-one") == pytest.approx(epsilon, abs=EXACT)
    answer = poisson(rate).amplify(PrivacyProfile.pure(epsilon, "replace-one"), Setting("frame", neighbours="add-remove"))
    assert isinstance(answer, Refused)
    assert "size" in answer.reason


RATES = {"north": 0.1, "south": 0.5}
STRATA_OF_OTHERS = {"a": "north", "b": "south", "c": "south"}


def stratified_poisson():
    return stratified("region", within={label: poisson(rate) for label, rate in RATES.items()}).resolve(
        frame(None, north=9, south=9)
    )


@grid
@pytest.mark.parametrize("stratum", RATES)
def test_a_unit_of_a_poisson_stratum_loses_its_own_amplification_and_never_more_than_the_claim(stratum, epsilon):
    others = {unit: RATES[label] for unit, label in STRATA_OF_OTHERS.items()}
    exact = worst_loss(poisson_samples(others | {"x": RATES[stratum]}), poisson_samples(others), epsilon, "add-remove")
    assert exact == pytest.approx(math.log1p(RATES[stratum] * math.expm1(epsilon)), abs=EXACT)
    claim = claimed_loss(stratified_poisson(), epsilon, "add-remove", "add-remove")
    assert claim >= exact - SLACK
    if stratum == "south":
        assert claim == pytest.approx(exact, abs=EXACT)


@grid
@pytest.mark.parametrize("base", ["add-remove", "both"])
def test_a_record_that_crosses_poisson_strata_is_covered(base, epsilon):
    others = {unit: RATES[label] for unit, label in STRATA_OF_OTHERS.items() if unit != "c"}
    claim = claimed_loss(stratified_poisson(), epsilon, base, "replace-one")
    within = []
    for before, after in itertools.product(RATES.values(), repeat=2):
        exact = worst_loss(poisson_samples(others | {"x": before}), poisson_samples(others | {"y": after}), epsilon, base)
        assert claim >= exact - SLACK
        within.append(exact)
    assert claim == pytest.approx(max(within), abs=EXACT)


def test_crossing_strata_with_rates_a_tenth_and_a_half_loses_more_than_the_larger_amplification():
    others = {"a": 0.1, "b": 0.5}
    exact = worst_loss(poisson_samples(others | {"x": 0.1}), poisson_samples(others | {"y": 0.5}), 1.0, "add-remove")
    assert exact == pytest.approx(0.6854, abs=5e-5)
    assert exact > math.log1p(0.5 * math.expm1(1.0)) + 0.06
    assert exact <= claimed_loss(stratified_poisson(), 1.0, "add-remove", "replace-one")


@grid
@pytest.mark.parametrize("cover_x", [0.3, 1.0])
@pytest.mark.parametrize("cover_y", [0.7, 1.0])
def test_poisson_keeps_its_claim_for_the_population_whatever_the_coverage(cover_x, cover_y, epsilon):
    others = dict.fromkeys(OTHERS[:2], 0.4)
    out, x, y = (poisson_samples(others | extra) for extra in ({}, {"x": 0.4}, {"y": 0.4}))
    with_x, with_y = (mixture((cover, inside), (1.0 - cover, out)) for cover, inside in ((cover_x, x), (cover_y, y)))
    added = claimed_loss(poisson(0.4), epsilon, "add-remove", "add-remove", protect="population")
    replaced = claimed_loss(poisson(0.4), epsilon, "add-remove", "replace-one", protect="population")
    assert added >= worst_loss(with_x, out, epsilon, "add-remove") - SLACK
    assert replaced >= worst_loss(with_x, with_y, epsilon, "add-remove") - SLACK


# Simple random sampling

SIZES = [(4, 1), (4, 2), (4, 3), (5, 2), (4, 4)]


@grid
@pytest.mark.parametrize(("size", "n"), SIZES)
@pytest.mark.parametrize("base", ["replace-one", "both", "add-remove"])
def test_simple_random_sampling_replace_one_is_exact(base, size, n, epsilon):
    others = "abcd"[: size - 1]
    exact = worst_loss(srs_samples(others + "x", n), srs_samples(others + "y", n), epsilon, base)
    design = srs(n=n).resolve(frame(size))
    claim = claimed_loss(design, epsilon, base, "replace-one")
    in_sample = 2 * epsilon if base == "add-remove" else epsilon
    assert exact == pytest.approx(math.log1p(n / size * math.expm1(in_sample)), abs=EXACT)
    assert claim >= exact - SLACK
    assert claim == pytest.approx(exact, abs=EXACT)


def stratified_srs():
    within = {"north": srs(n=1), "south": srs(n=2)}
    return stratified("region", within=within).resolve(frame(5, north=2, south=3))


@grid
@pytest.mark.parametrize("stratum", ["north", "south"])
def test_a_record_replaced_inside_its_stratum_loses_the_amplification_of_that_stratum(stratum, epsilon):
    def draw(target):
        north = ("a", target) if stratum == "north" else ("a", "b")
        south = ("c", "d", target) if stratum == "south" else ("c", "d", "e")
        return both_strata(srs_samples(north, 1), srs_samples(south, 2))

    exact = worst_loss(draw("x"), draw("y"), epsilon, "replace-one")
    rate = {"north": 1 / 2, "south": 2 / 3}[stratum]
    assert exact == pytest.approx(math.log1p(rate * math.expm1(epsilon)), abs=EXACT)
    claim = claimed_loss(stratified_srs(), epsilon, "replace-one", "replace-one")
    assert claim >= exact - SLACK
    if stratum == "south":
        assert claim == pytest.approx(exact, abs=EXACT)


def test_a_record_that_crosses_fixed_size_strata_loses_more_than_the_claim_so_the_relation_has_its_own_name():
    def draw(north, south):
        return both_strata(srs_samples(north, 1), srs_samples(south, 2))

    before, after = draw(("a", "b", "x"), ("c", "d")), draw(("a", "b"), ("c", "d", "y"))
    exact = worst_loss(before, after, 1.0, "replace-one")
    assert exact > claimed_loss(stratified_srs(), 1.0, "replace-one", "replace-one") + 0.1
    assert stratified_srs().relation_name(Setting("frame", neighbours="replace-one")) == "replacement within a public stratum"


# Unamplified: the epsilon of the sample is kept where sampling is inside but its amplification is refused


def unamplified_loss(design, on, setting, epsilon):
    terms = Terms("survey", on, design.resolve(on), setting, Budget(epsilon))
    assert isinstance(terms.design.amplify(PrivacyProfile.pure(epsilon, terms.relation), setting), Refused)
    kept = terms.amplify(PrivacyProfile.pure(epsilon, terms.relation))
    assert (terms.relation, kept.relation) == ("replace-one", setting.neighbours)
    return kept.epsilon(0.0)


@grid
@pytest.mark.parametrize(("size", "n"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)])
def test_a_fixed_size_sample_keeps_its_epsilon_when_a_unit_joins_the_frame(size, n, epsilon):
    others = "abcd"[:size]
    exact = worst_loss(srs_samples(others + "x", n), srs_samples(others, n), epsilon, "replace-one")
    kept = unamplified_loss(srs(n=n), frame(size), Setting("frame", neighbours="add-remove"), epsilon)
    assert kept == epsilon
    assert exact == pytest.approx(math.log1p(n / (size + 1) * math.expm1(epsilon)), abs=EXACT)
    assert exact <= kept + SLACK


@grid
def test_a_stratified_sample_of_fixed_sizes_keeps_its_epsilon_when_a_unit_joins_a_stratum(epsilon):
    on = frame(5, north=2, south=3)
    south = srs_samples("cde", 2)
    exact = worst_loss(
        both_strata(srs_samples("abx", 1), south), both_strata(srs_samples("ab", 1), south), epsilon, "replace-one"
    )
    design = stratified("region", within={"north": srs(n=1), "south": srs(n=2)})
    assert exact <= unamplified_loss(design, on, Setting("frame", neighbours="add-remove"), epsilon) + SLACK


@grid
@pytest.mark.parametrize(("cover_x", "cover_y"), [(1.0, 1.0), (0.3, 1.0), (0.2, 0.7)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_fixed_size_sample_keeps_its_epsilon_for_the_population_whatever_the_coverage(neighbours, cover_x, cover_y, epsilon):
    out, x, y = (srs_samples(units, 2) for units in ("abc", "abcx", "abcy"))
    first = mixture((cover_x, x), (1.0 - cover_x, out))
    second = mixture((cover_y, y), (1.0 - cover_y, out)) if neighbours == "replace-one" else out
    kept = unamplified_loss(srs(n=2), frame(4), Setting("population", neighbours=neighbours), epsilon)
    assert worst_loss(first, second, epsilon, "replace-one") <= kept + SLACK


# Whole curves of (epsilon, delta) mechanisms


@pytest.mark.parametrize("at", [0.0, 0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("rate", [0.2, 0.5])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("base", ["add-remove", "both"])
def test_poisson_covers_every_epsilon_delta_mechanism(base, neighbours, rate, at):
    others = {"a": rate, "b": rate}
    first = poisson_samples(others | {"x": rate})
    second = poisson_samples(others | {"y": rate}) if neighbours == "replace-one" else poisson_samples(others)
    exact = worst_delta(first, second, at, 1.0, 0.01, base, subsets("abxy"))
    claim = claimed(poisson(rate), PrivacyProfile.approximate(1.0, 0.01, base), neighbours).delta(at)
    assert claim >= exact - SLACK
    if neighbours == "add-remove":
        assert claim == pytest.approx(exact, abs=EXACT)


@pytest.mark.parametrize("at", [0.0, 0.05, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("n", [1, 2])
def test_simple_random_sampling_is_exact_for_epsilon_delta_mechanisms(n, at):
    universe = [sample for sample in subsets("abcxy") if len(sample) == n]
    exact = worst_delta(srs_samples("abcx", n), srs_samples("abcy", n), at, 1.0, 0.01, "replace-one", universe)
    profile = PrivacyProfile.approximate(1.0, 0.01, "replace-one")
    claim = claimed(srs(n=n).resolve(frame(4)), profile, "replace-one").delta(at)
    assert claim >= exact - SLACK
    assert claim == pytest.approx(exact, abs=EXACT)


# Whole curves of the Gaussian mechanism, by quadrature

GRID = np.linspace(-25.0, 30.0, 400_001)


def density(samples, value, sigma):
    """The density of the sum of a sample's values plus Gaussian noise."""
    weight = {}
    for sample, probability in samples.items():
        centre = sum(value[unit] for unit in sample)
        weight[centre] = weight.get(centre, 0.0) + probability
    return sum(probability * norm.pdf(GRID, centre, sigma) for centre, probability in weight.items())


def divergence(first, second, epsilon):
    """The hockey-stick divergence of two densities on the grid, by the trapezium rule."""
    return float(np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0.0), GRID))


EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("sigma", [0.6, 1.5])
@pytest.mark.parametrize(("size", "n"), [(4, 1), (5, 2)])
def test_the_amplified_gaussian_curve_is_exact_for_simple_random_sampling(size, n, sigma):
    """Values in [0, 1], so replacing one record moves the sum by at most 1; all populations of zeros and ones."""
    names = "abcd"[: size - 1]
    design = srs(n=n).resolve(frame(size))
    curve = claimed(design, PrivacyProfile.gaussian(1.0 / sigma, "replace-one"), "replace-one")
    found = dict.fromkeys(EPSILONS, 0.0)
    for ones in range(size):
        value = {name: float(position < ones) for position, name in enumerate(names)}
        high = density(srs_samples(names + "x", n), value | {"x": 1.0}, sigma)
        low = density(srs_samples(names + "x", n), value | {"x": 0.0}, sigma)
        for epsilon in EPSILONS:
            for first, second in ((high, low), (low, high)):
                exact = divergence(first, second, epsilon)
                assert exact <= curve.delta(epsilon) * (1 + 1e-6)
                found[epsilon] = max(found[epsilon], exact)
        if ones == 0:
            # With all other records equal the curve is attained, and the worse order is the one with the changed record first.
            attained = {epsilon: divergence(high, low, epsilon) for epsilon in EPSILONS}
    for epsilon in EPSILONS:
        assert curve.delta(epsilon) == pytest.approx(found[epsilon], rel=1e-6)
        assert curve.delta(epsilon) == pytest.approx(attained[epsilon], rel=1e-6)


@pytest.mark.parametrize("sigma", [0.6, 1.5])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_amplified_gaussian_curve_is_exact_for_poisson_sampling_and_the_order_matters(rate, sigma):
    others = dict.fromkeys("abc", rate)
    curve = claimed(poisson(rate), PrivacyProfile.gaussian(1.0 / sigma, "add-remove"), "add-remove")
    value = dict.fromkeys("abc", 0.0) | {"x": 1.0}
    with_x = density(poisson_samples(others | {"x": rate}), value, sigma)
    without = density(poisson_samples(others), value, sigma)
    for epsilon in EPSILONS:
        assert curve.delta(epsilon) == pytest.approx(divergence(with_x, without, epsilon), rel=1e-6)
        assert divergence(without, with_x, epsilon) <= curve.delta(epsilon) * (1 + 1e-6)
    # Nobody's absence can be noticed by more than the chance of having been left out.
    assert divergence(without, with_x, -math.log1p(-rate) + 1e-9) == pytest.approx(0.0, abs=1e-12)
    for ones in itertools.product((0.0, 1.0), repeat=3):
        value = dict(zip("abc", ones, strict=True)) | {"x": 1.0}
        first, second = (density(poisson_samples(units), value, sigma) for units in (others | {"x": rate}, others))
        assert divergence(first, second, 0.5) <= curve.delta(0.5) * (1 + 1e-6)
        assert divergence(second, first, 0.5) <= curve.delta(0.5) * (1 + 1e-6)


@pytest.mark.parametrize(("rate", "sigma"), [(0.1, 0.5), (0.1, 2.0), (0.5, 1.0)])
def test_poisson_replace_one_covers_the_exact_gaussian_curve(rate, sigma):
    curve = claimed(poisson(rate), PrivacyProfile.gaussian(1.0 / sigma, "add-remove"), "replace-one")
    others = dict.fromkeys("ab", rate)
    value = {"a": 0.0, "b": 0.0, "x": 1.0, "y": -1.0}
    first, second = (density(poisson_samples(others | {unit: rate}), value, sigma) for unit in "xy")
    for epsilon in EPSILONS:
        assert curve.delta(epsilon) >= divergence(first, second, epsilon) * (1 - 1e-6)
        assert curve.delta(epsilon) >= divergence(second, first, epsilon) * (1 - 1e-6)
    if (rate, sigma) == (0.1, 0.5):
        # The published value for one Gaussian, which checks the quadrature.
        assert divergence(first, second, 1.0) == pytest.approx(0.02181322556, rel=1e-7)
