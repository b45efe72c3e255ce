"""Posterior over posterior by enumeration: Bayes' rule written out apart, limits of amplification, and who approaches them."""

import itertools
import math

import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.privacy import posterior_bounds
from dpsurvey_papers.specifications import law_of_samples, noisy_count, posterior_ratios, sampled

pytestmark = pytest.mark.quick


def simple(n, size):
    return dict.fromkeys(itertools.combinations(range(size), n), 1.0 / math.comb(size, n))


def bernoulli(rate, size):
    """Independent draws; the places of a sample in order."""
    return {
        tuple(place for place in range(size) if chosen[place]): math.prod(rate if each else 1.0 - rate for each in chosen)
        for chosen in itertools.product((0, 1), repeat=size)
    }


def believing(belief, others, size):
    """A prior that is sure of all others and believes so much that the first record is 1."""
    rest = (others,) * (size - 1)
    return {(1, *rest): belief, (0, *rest): 1.0 - belief}


def by_bayes(prior, mechanism, unit):
    """Both posteriors from joint laws: of the data and the output, and of the data, the draw in its place and the output."""
    seen, replaced = {}, {}
    for data, p in prior.items():
        for output, q in mechanism[data].items():
            seen[data[unit], output] = seen.get((data[unit], output), 0.0) + p * q
        same = {other: r for other, r in prior.items() if other[:unit] + other[unit + 1 :] == data[:unit] + data[unit + 1 :]}
        for drawn, r in same.items():
            for output, q in mechanism[drawn].items():
                key = data[unit], output
                replaced[key] = replaced.get(key, 0.0) + p * r / math.fsum(same.values()) * q
    found = {}
    for record, output in seen:
        one = seen[record, output] / math.fsum(seen.get((each, output), 0.0) for each in (0, 1))
        two = replaced[record, output] / math.fsum(replaced.get((each, output), 0.0) for each in (0, 1))
        found[record, output] = one / two
    return found


@pytest.mark.parametrize(("n", "size"), [(1, 2), (1, 3), (2, 3), (2, 4)])
def test_equation_5_1_is_the_ratio_of_the_two_posteriors_and_stays_within_the_frame_level_loss(n, size):
    rng = np.random.default_rng([21, n, size])
    loss = ds.amplify(ds.srs(n=n, size=size), 1.0, base="replace-one", neighbours="replace-one").epsilon
    for _ in range(20):
        chances = rng.dirichlet(np.full(2**size, 0.4))
        prior = dict(zip(itertools.product((0, 1), repeat=size), (chances / chances.sum()).tolist(), strict=True))
        mechanism = sampled(noisy_count(n, 1.0), simple(n, size), prior)
        ratios = posterior_ratios(prior, mechanism, 0)
        assert ratios == pytest.approx(by_bayes(prior, mechanism, 0), rel=1e-9)
        assert max(abs(math.log(each)) for each in ratios.values()) <= loss + 1e-12


@pytest.mark.parametrize(("n", "size"), [(1, 2), (1, 4), (2, 3), (2, 4), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_an_outsider_approaches_the_amplified_loss_and_who_knows_of_the_draw_the_whole(n, size, epsilon):
    loss = ds.amplify(ds.srs(n=n, size=size), epsilon, base="replace-one", neighbours="replace-one").epsilon
    # With all others 0 the answer n moves a belief in 1 up the most, with all others 1 the answer 0 moves it down the most.
    for others, extreme, sign in ((0, max, 1.0), (1, min, -1.0)):
        prior = believing(1e-9, others, size)
        ratios = posterior_ratios(prior, sampled(noisy_count(n, epsilon), simple(n, size), prior), 0)
        assert math.log(extreme(ratios.values())) == pytest.approx(sign * loss, abs=1e-6)
    prior = believing(1e-9, 0, size)
    known = posterior_ratios(prior, sampled(noisy_count(n, epsilon), simple(n, size), prior, knows=0), 0)
    inside = posterior_ratios(law_of_samples(prior, simple(n, size)), noisy_count(n, epsilon), 0)
    for ratios in (known, inside):
        extremes = math.log(min(ratios.values())), math.log(max(ratios.values()))
        assert extremes == pytest.approx((-epsilon, epsilon), abs=1e-6)


@pytest.mark.parametrize("prior", [1e-6, 0.01, 0.3, 0.5, 0.9])
def test_the_sharp_limits_are_met_for_every_prior_and_lie_inside_the_printed_ones(prior):
    believed = {(1,): prior, (0,): 1.0 - prior}
    ratios = posterior_ratios(believed, noisy_count(1, 1.0), 0)
    low, high = posterior_bounds(prior, 1.0)
    assert (ratios[1, 0], ratios[1, 1]) == pytest.approx((low, high), rel=1e-12)
    assert math.exp(-1.0) < low < 1.0 < high < math.e


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.8])
def test_independent_draws_approach_their_own_loss(rate):
    # A count cut to 0..2 whatever the size of the sample hides a record more or less as well as a record replaced.
    padded = noisy_count(2, 1.0)
    whole = {sample: padded[(*sample, 0, 0)[:2]] for n in range(3) for sample in itertools.product((0, 1), repeat=n)}
    prior = believing(1e-9, 0, 2)
    ratios = posterior_ratios(prior, sampled(whole, bernoulli(rate, 2), prior), 0)
    loss = ds.amplify(ds.poisson(rate), 1.0, base="both", neighbours="replace-one").epsilon
    assert math.log(max(ratios.values())) == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_noisy_count_is_a_law_with_exactly_the_stated_loss(n, epsilon):
    laws = noisy_count(n, epsilon)
    worst = 0.0
    for one, other in itertools.permutations(laws, 2):
        assert math.fsum(laws[one].values()) == pytest.approx(1.0, abs=1e-12)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            worst = max(worst, *(math.log(laws[one][answer] / laws[other][answer]) for answer in laws[one]))
    assert worst == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: noisy_count(0, 1.0), "1 to 12"),
        (lambda: noisy_count(1, 0.0), "epsilon"),
        (lambda: noisy_count(1, math.nan), "epsilon"),
        (lambda: sampled(noisy_count(1, 1.0), {(0,): 0.7}, {(0, 0): 1.0}), "add up to 1"),
        (lambda: sampled(noisy_count(1, 1.0), {(0,): 1.0}, {(0, 0): 1.0}, knows=1), "never drawn"),
        (lambda: law_of_samples({(0,): 0.5}, {(0,): 1.0}), "add up to 1"),
        (lambda: posterior_ratios({(0,): 0.5, (1,): 0.6}, noisy_count(1, 1.0), 0), "add up to 1"),
        (lambda: posterior_ratios({(0,): 0.5, (1,): math.nan}, noisy_count(1, 1.0), 0), "add up to 1"),
        (lambda: posterior_ratios({(0,): 0.5, (1,): 0.5}, noisy_count(1, 1.0), 3), "a place"),
    ],
)
def test_what_is_no_law_is_refused_in_words(make, says):
    with pytest.raises(BadValue, match=says):
        make()
