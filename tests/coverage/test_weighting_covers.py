"""Intervals of adjusted estimates hold the true value 95 times in 100, where those who answer differ from those who do not.

Surveys of a population of 40,000 are drawn by numpy with fixed seeds, noise included: this is a simulation, not a release.
Every coverage is compared with 95 % of its surveys; a comparison alarms only when a true coverage of 95 % would be that low
with probability below 1e-6 (binomial): 2,000 surveys alarm below 92.4 %. That it does alarm for estimates that are not
adjusted, and for wrong intervals, is shown beside it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

from dpsurvey.statistic.adjust import (
    Margin,
    NoisyCells,
    greg,
    post_stratify,
    product_sensitivity,
    rake,
)

PEOPLE, SURVEYS = 40_000, 2_000
ALARM = int(binom.ppf(1e-6, SURVEYS, 0.95)) - 1
CLASSES = 6
RESPONSE = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])


@lru_cache
def population():
    """Six classes in which y rises as the chance of an answer falls; skewed, even and yes-or-no answers."""
    random = np.random.default_rng(20260707)
    group = random.choice(CLASSES, PEOPLE, p=[0.3, 0.22, 0.18, 0.14, 0.1, 0.06])
    return group, {
        "even": np.clip(0.6 * random.beta(2, 5, PEOPLE) + 0.08 * group, 0, 1),
        "skewed": np.minimum(random.lognormal(-3 + 0.25 * group, 0.8), 1.0),
        "yes": (random.random(PEOPLE) < 0.15 + 0.1 * group).astype(float),
    }


def triple(y):
    return np.stack([y**2, 2 * y * (1 - y), (1 - y) ** 2], axis=-1)


@lru_cache
def surveys(n, seed=1):
    """Who is drawn, and who of them answers: (surveys, n) each."""
    group, _ = population()
    random = np.random.default_rng([n, seed])
    drawn = random.integers(0, PEOPLE, (SURVEYS, n))
    return drawn, random.random((SURVEYS, n)) < RESPONSE[group[drawn]]


def by_cell(cell, values, cells):
    """Sums of (surveys, n) values by cell, for each survey: (surveys, cells)."""
    place = cell + cells * np.arange(len(cell))[:, None]
    return np.bincount(place.ravel(), values.ravel(), minlength=cells * len(cell)).reshape(len(cell), cells)


@lru_cache
def exact_sums(variable, n):
    """Triples of those who answered and the number of those who did not, by class."""
    group, answers = population()
    drawn, answered = surveys(n)
    parts = triple(answers[variable][drawn]) * answered[..., None]
    sums = np.stack([by_cell(group[drawn], parts[..., k], CLASSES) for k in range(3)], axis=-1)
    return sums, by_cell(group[drawn], (~answered).astype(float), CLASSES)


def noise(shape, epsilon, kind="laplace", seed=2):
    random = np.random.default_rng(seed)
    return random.laplace(0, 1 / epsilon, shape) if kind == "laplace" else random.normal(0, 1 / epsilon, shape)


def variance(epsilon, kind="laplace"):
    return (2.0 if kind == "laplace" else 1.0) / epsilon**2


def held(answer, truth):
    return int(np.sum((answer.low <= truth) & (truth <= answer.high)))


@lru_cache
def known_shares():
    group, _ = population()
    return np.bincount(group, minlength=CLASSES) / PEOPLE


@pytest.mark.parametrize("variable", ["even", "skewed", "yes"])
@pytest.mark.parametrize(("epsilon", "kind"), [(0.3, "laplace"), (1.0, "laplace"), (5.0, "laplace"), (1.0, "gaussian")])
def test_nonresponse_classes_with_public_shares_cover_and_the_plain_mean_does_not(variable, epsilon, kind):
    sums, _ = exact_sums(variable, 1000)
    truth = population()[1][variable].mean()
    cells = NoisyCells(sums + noise(sums.shape, epsilon, kind), variance(epsilon, kind), 3.0 * (kind == "laplace"))
    answer = post_stratify(cells, known_shares(), ordered=True)
    assert held(answer, truth) > ALARM
    # All classes in one: the mean of those who answered, with the same recipe.
    plain = post_stratify(NoisyCells(cells.sums.sum(axis=-2, keepdims=True), CLASSES * cells.noise_variance), np.ones(1))
    if epsilon >= 1.0:
        assert held(plain, truth) < ALARM
    # Not by width: what is added to cover is the noise, not more than a third above the spread of the estimate itself.
    spread = 1.96 * 2 * np.std(answer.estimate)
    assert np.median(answer.high - answer.low) < 1.35 * spread


@pytest.mark.parametrize("variable", ["even", "skewed", "yes"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_shares_from_the_sample_and_filled_answers_cover(variable, epsilon):
    sums, missing = exact_sums(variable, 1000)
    truth = population()[1][variable].mean()
    cells = NoisyCells(sums + noise(sums.shape, epsilon), variance(epsilon))
    noisy_missing = missing + noise(missing.shape, epsilon, seed=3)
    answer = post_stratify(cells, unanswered=noisy_missing, ordered=True)
    assert held(answer, truth) > ALARM
    if variable == "even":
        # To take the sample's shares for public ones forgets their own error.
        counts = np.maximum(cells.counts + noisy_missing, 0.0)
        shares = counts / counts.sum(axis=-1, keepdims=True)
        forgetful = [
            post_stratify(NoisyCells(s, variance(epsilon)), w, ordered=True) for s, w in zip(cells.sums, shares, strict=True)
        ]
        assert sum(bool(each.low <= truth <= each.high) for each in forgetful) < ALARM


def test_small_classes_that_join_their_neighbour_cover_where_those_that_join_the_largest_do_not():
    sums, _ = exact_sums("even", 300)
    truth = population()[1]["even"].mean()
    cells = NoisyCells(sums + noise(sums.shape, 1.0), variance(1.0))
    assert held(post_stratify(cells, known_shares(), ordered=True), truth) > ALARM
    assert held(post_stratify(cells, known_shares()), truth) < ALARM


def test_intervals_without_the_noise_of_the_counts_do_not_cover():
    sums, _ = exact_sums("even", 1000)
    truth = population()[1]["even"].mean()
    cells = NoisyCells(sums + noise(sums.shape, 1.0), variance(1.0) / 3.0)
    assert held(post_stratify(cells, known_shares(), ordered=True), truth) < ALARM


# raking


@lru_cache
def raked_survey():
    """A table of 4 by 3 by 2 whose rows and columns decide both the answer and the chance to answer."""
    random = np.random.default_rng(77)
    age, region, sex = random.choice(4, PEOPLE), random.choice(3, PEOPLE, p=[0.5, 0.3, 0.2]), random.choice(2, PEOPLE)
    region = np.where(random.random(PEOPLE) < 0.3, age % 3, region)
    y = np.clip(0.5 * random.beta(2, 5, PEOPLE) + 0.1 * age + 0.06 * region + 0.03 * sex, 0, 1)
    cell = np.ravel_multi_index((age, region, sex), (4, 3, 2))
    drawn = random.integers(0, PEOPLE, (SURVEYS, 1500))
    answered = random.random(drawn.shape) < (0.85 - 0.12 * age - 0.1 * region)[drawn]
    parts = triple(y[drawn]) * answered[..., None]
    sums = np.stack([by_cell(cell[drawn], parts[..., k], 24) for k in range(3)], axis=-1)
    margins = [Margin((k,), np.bincount(each) / PEOPLE) for k, each in enumerate((age, region, sex))]
    return y.mean(), sums, margins


@pytest.mark.parametrize(("epsilon", "kind"), [(1.0, "laplace"), (5.0, "laplace"), (1.0, "gaussian")])
def test_raking_to_three_margins_covers_and_one_margin_is_not_enough(epsilon, kind):
    truth, sums, margins = raked_survey()
    cells = NoisyCells(sums + noise(sums.shape, epsilon, kind), variance(epsilon, kind), 3.0 * (kind == "laplace"))
    assert held(rake(cells, (4, 3, 2), margins), truth) > ALARM
    assert held(rake(cells, (4, 3, 2), margins[1:2]), truth) < ALARM


# regression


@lru_cache
def regression(relation, selective):
    """Sums of products of 1, two regressors and y; with `selective`, those with a large first regressor answer less."""
    random = np.random.default_rng(31)
    x = random.beta(2, 2, (PEOPLE, 2))
    x[:, 1] = 0.5 * x[:, 0] + 0.5 * x[:, 1]
    y = np.clip(0.2 + 0.5 * x[:, 0] + 0.2 * x[:, 1] + random.normal(0, 0.12, PEOPLE), 0, 1)
    z = np.column_stack([np.ones(PEOPLE), x - 0.5, y - 0.5])
    gram = np.empty((SURVEYS, 4, 4))
    for survey in range(SURVEYS):
        drawn = random.integers(0, PEOPLE, 3000 if relation == "replace-one" else random.poisson(3000))
        if selective:
            drawn = drawn[random.random(len(drawn)) < 0.9 - 0.6 * x[drawn, 0]]
        gram[survey] = z[drawn].T @ z[drawn]
    return y.mean(), x.mean(axis=0), gram


@pytest.mark.parametrize(("relation", "selective"), [("replace-one", False), ("add-remove", False), ("add-remove", True)])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_regression_covers_and_the_mean_of_those_who_answered_does_not(relation, selective, epsilon, kind):
    truth, means, gram = regression(relation, selective)
    size = 3000.0 if relation == "replace-one" else None
    scale = product_sensitivity(2, relation, "L1" if kind == "laplace" else "L2") / epsilon
    upper = np.triu(scale * noise(gram.shape, 1.0, kind))
    noisy = gram + upper + np.swapaxes(np.triu(upper, 1), -1, -2)
    spread = scale**2 * variance(1.0, kind)
    assert held(greg(noisy, spread, means, size=size, noise_kurtosis=3.0 * (kind == "laplace")), truth) > ALARM
    if selective and epsilon == 5.0:
        # Means that are the sample's own adjust nothing.
        own = np.clip(0.5 + noisy[:, 0, 1:3] / noisy[:, :1, 0], 0, 1)
        plain = [
            greg(one, spread, mean, noise_kurtosis=3.0 * (kind == "laplace"))
            for one, mean in zip(noisy[:400], own[:400], strict=True)
        ]
        covered = sum(bool(each.low <= truth <= each.high) for each in plain)
        assert covered < binom.ppf(1e-6, 400, 0.95)


def test_the_alarm_is_quiet_at_95_percent_and_sounds_at_90():
    assert binom.cdf(ALARM, SURVEYS, 0.95) < 1e-6
    assert binom.sf(ALARM, SURVEYS, 0.90) < 1e-3
    assert abs(ALARM / SURVEYS - 0.924) < 0.002
