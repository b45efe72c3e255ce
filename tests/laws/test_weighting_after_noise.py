"""Weights applied after the noise: without noise the classical estimators; merging, margins and plans keep their rules.

Classical estimates are computed here from single units, by another route than the package, which sees sums only.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsurvey.errors import BadValue
from dpsurvey.statistic.adjust import (
    Adjusted,
    Margin,
    NoisyCells,
    collapse,
    greg,
    pays,
    post_stratify,
    rake,
)

pytestmark = pytest.mark.quick

UNITS = 400


def triple(y):
    return np.stack([y**2, 2 * y * (1 - y), (1 - y) ** 2], axis=-1)


def summed(y, cell, size):
    sums = np.zeros((size, 3))
    np.add.at(sums, cell, triple(y))
    return sums


def sample(seed, size):
    random = np.random.default_rng(seed)
    cell = np.concatenate([np.repeat(np.arange(size), 4), random.integers(0, size, UNITS - 4 * size)])
    return random, cell, np.clip(random.beta(2, 4, UNITS) + 0.05 * cell, 0, 1)


# without noise: the classical estimators


def test_without_noise_post_stratification_is_the_classical_estimate_with_its_classical_variance():
    random, cell, y = sample(1, 6)
    shares = random.dirichlet(np.ones(6))
    answer = post_stratify(NoisyCells(summed(y, cell, 6), 0.0), shares, thinning=0.9)
    groups = [y[cell == g] for g in range(6)]
    assert answer.estimate == pytest.approx(sum(w * group.mean() for w, group in zip(shares, groups, strict=True)), abs=1e-12)
    variance = sum(w**2 * group.var(ddof=1) / len(group) for w, group in zip(shares, groups, strict=True))
    assert answer.se_sampling == pytest.approx(math.sqrt(0.9 * variance), rel=1e-9)
    assert answer.se_noise == 0.0
    assert answer.notes == ()


def test_without_noise_shares_from_the_sample_are_imputation_by_cell_means():
    random, cell, y = sample(2, 5)
    answered = random.random(UNITS) < 0.9 - 0.12 * cell
    means = np.array([y[answered & (cell == g)].mean() for g in range(5)])
    completed = np.where(answered, y, means[cell])
    cells = NoisyCells(summed(y[answered], cell[answered], 5), 0.0)
    missing = np.bincount(cell[~answered], minlength=5).astype(float)
    answer = post_stratify(cells, unanswered=missing)
    assert answer.estimate == pytest.approx(completed.mean(), abs=1e-12)
    known = post_stratify(cells, np.bincount(cell, minlength=5) / UNITS)
    between = np.var(means[cell]) / UNITS
    assert answer.se_sampling**2 - known.se_sampling**2 == pytest.approx(between, rel=1e-9)


@pytest.mark.parametrize("layout", [(4, 3), (3, 2, 4), (2, 3, 2, 2)])
def test_without_noise_raking_is_linear_calibration_of_single_units(layout):
    size = math.prod(layout)
    random, cell, y = sample(3, size)
    levels = np.unravel_index(cell, layout)
    margins = [Margin((axis,), random.dirichlet(np.full(count, 5.0))) for axis, count in enumerate(layout)]
    # Weights 1/n (1 + x'c) of single units, with c from the calibration equations.
    x = np.concatenate([np.eye(count)[level] for count, level in zip(layout, levels, strict=True)], axis=1)
    wanted = np.concatenate([margin.shares for margin in margins])
    c = np.linalg.lstsq(x.T @ x / UNITS, wanted - x.mean(axis=0), rcond=None)[0]
    weights = (1 + x @ c) / UNITS
    np.testing.assert_allclose(x.T @ weights, wanted, atol=1e-12)
    answer = rake(NoisyCells(summed(y, cell, size), 0.0), layout, margins)
    assert answer.estimate == pytest.approx(weights @ y, abs=1e-11)
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    # The classical variance sum w^2 e^2, up to the degrees of freedom that the package gives back.
    assert answer.se_sampling**2 == pytest.approx(np.sum(weights**2 * residual**2), rel=2 * sum(layout) / UNITS)


def test_a_margin_of_all_variables_is_post_stratification():
    random, cell, y = sample(4, 6)
    shares = random.dirichlet(np.full(6, 5.0))
    cells = NoisyCells(summed(y, cell, 6) + random.laplace(0, 0.5, (6, 3)), 0.5)
    whole, parts = rake(cells, (2, 3), [Margin((0, 1), shares.reshape(2, 3))]), post_stratify(cells, shares)
    assert whole.estimate == pytest.approx(parts.estimate, abs=1e-12)
    assert whole.se_noise == pytest.approx(parts.se_noise, rel=1e-9)


def test_linear_raking_gives_back_any_sum_that_the_margins_determine():
    # y = a public function of row plus a public function of column: its population mean is known, noise or not.
    random, cell, _ = sample(5, 12)
    margins = [Margin((0,), random.dirichlet(np.full(4, 5.0))), Margin((1,), random.dirichlet(np.full(3, 5.0)))]
    row, column = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 0.25, 0.5])
    levels = np.unravel_index(cell, (4, 3))
    answer = rake(NoisyCells(summed(row[levels[0]] + column[levels[1]], cell, 12), 0.0), (4, 3), margins)
    assert answer.estimate == pytest.approx(row @ margins[0].shares + column @ margins[1].shares, abs=1e-12)
    assert answer.se_sampling == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("regressors", [1, 2, 4])
def test_without_noise_greg_is_the_classical_regression_estimator(regressors):
    random = np.random.default_rng(regressors)
    x = random.beta(2, 2, (UNITS, regressors))
    y = np.clip(x @ np.linspace(0.3, -0.1, regressors) + 0.3 + random.normal(0, 0.1, UNITS), 0, 1)
    means = x.mean(axis=0) + random.uniform(-0.03, 0.03, regressors)
    design = np.column_stack([np.ones(UNITS), x])
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    residual = y - design @ beta
    z = np.column_stack([np.ones(UNITS), x - 0.5, y - 0.5])
    answer = greg(z.T @ z, 0.0, means)
    assert answer.estimate == pytest.approx(beta[0] + means @ beta[1:], abs=1e-10)
    target = np.concatenate([[1.0], means])
    prediction = target @ np.linalg.inv(design.T @ design) @ target
    variance = residual @ residual / (UNITS - regressors - 1) * prediction
    assert answer.se_sampling == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_a_regressor_without_spread_changes_nothing():
    y = np.random.default_rng(6).random(UNITS)
    z = np.column_stack([np.ones(UNITS), np.full(UNITS, 0.2), y - 0.5])
    assert greg(z.T @ z, 0.0, np.array([0.7])).estimate == pytest.approx(y.mean(), abs=1e-12)


# merging


def cells_of(counts):
    return NoisyCells(np.multiply.outer(np.array(counts), [0.3, 0.2, 0.5]), noise_variance=1.0)


@pytest.mark.parametrize(
    ("counts", "into"),
    [
        ([100.0, 50.0, 20.0], [0, 1, 2]),
        ([100.0, 8.0, 20.0], [0, 0, 2]),  # one small cell joins the largest
        ([100.0, 8.0, 8.0, 8.0], [0, 1, 1, 1]),  # 24 together is more than 5 sqrt(9) = 15: a rest cell of its own
        ([100.0, 2.0, 3.0, 1.0], [0, 0, 0, 0]),
        ([2.0, 3.0, -4.0], [0, 0, 0]),  # nothing is large: one cell
        ([5.0 * math.sqrt(3.0) + 1e-9, 100.0], [0, 1]),  # 5 sd is enough
        ([5.0 * math.sqrt(3.0) - 1e-9, 100.0], [1, 1]),
    ],
)
def test_small_cells_become_a_rest_cell_or_join_the_largest(counts, into):
    assert collapse(cells_of(counts)).into.tolist() == into


@pytest.mark.parametrize(
    ("counts", "into"),
    [
        ([100.0, 2.0, 50.0], [0, 2, 2]),
        ([2.0, 100.0, 50.0, 1.0], [1, 1, 2, 2]),
        ([8.0, 8.0, 100.0], [1, 1, 2]),
        ([1.0, 1.0, -1.0], [0, 0, 0]),
    ],
)
def test_ordered_cells_join_their_neighbour(counts, into):
    assert collapse(cells_of(counts), ordered=True).into.tolist() == into


noisy_counts = st.lists(st.floats(-20, 200), min_size=1, max_size=9)


@given(noisy_counts, st.booleans())
@example([0.0, 9.0, 9.0], False)
def test_merging_loses_nothing_and_leaves_nothing_small_unless_all_is_one(counts, ordered):
    cells = cells_of(counts)
    after = collapse(cells, ordered=ordered)
    np.testing.assert_allclose(after.cells.sums.sum(axis=0), cells.sums.sum(axis=0), atol=1e-9)
    assert after.cells.variances.sum() == pytest.approx(cells.variances.sum())
    public = np.arange(1.0, len(counts) + 1.0)
    assert after.spread(public).sum() == pytest.approx(public.sum())
    places = set(after.into.tolist())
    if len(places) > 1:
        assert all(after.cells.counts[g] >= 5 * np.sqrt(3 * after.cells.variances[g]) for g in places)


@given(noisy_counts, st.floats(0, 1))
def test_noisy_counts_alone_decide_what_is_merged(counts, tilt):
    first = cells_of(counts)
    moved = NoisyCells(np.stack([tilt * np.array(counts), 0 * np.array(counts), (1 - tilt) * np.array(counts)], axis=-1), 1.0)
    # Another spelling of the same counts may differ by rounding; away from the rule nothing may change.
    if np.all(np.abs(first.counts - 5 * math.sqrt(3)) > 1e-6) and len({round(each, 6) for each in counts}) == len(counts):
        rest = first.counts[first.counts < 5 * math.sqrt(3)]
        if abs(rest.sum() - 5 * math.sqrt(3 * len(rest))) > 1e-6:
            assert collapse(first).into.tolist() == collapse(moved).into.tolist()


def test_the_notes_name_the_merged_classes_and_only_them():
    cells = cells_of([100.0, 3.0, 60.0, 80.0])
    answer = post_stratify(cells, np.full(4, 0.25), names=["young", "nomads", "adult", "old"])
    assert "young, nomads;" in answer.notes[0]
    assert "old" not in answer.notes[0]
    assert "adult" not in answer.notes[0]
    ordered = post_stratify(cells, np.full(4, 0.25), names=["young", "nomads", "adult", "old"], ordered=True)
    assert "nomads, adult;" in ordered.notes[0]
    margins = [Margin((0,), np.array([0.5, 0.5])), Margin((1,), np.array([0.5, 0.5]))]
    told = rake(cells_of([100.0, 90.0, 3.0, 2.0]), (2, 2), margins).notes[0]
    assert "level 2 of margin 1" in told
    assert "margin 2" not in told


# order, many surveys at once, and ranges


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 10_000))
def test_the_order_of_cells_does_not_matter(order, seed):
    random, cell, y = sample(seed, 6)
    sums = summed(y, cell, 6) * np.array([1.0, 1.0, 0.1, 1.0, 0.05, 1.0])[:, None] + random.laplace(0, 1, (6, 3))
    shares = random.dirichlet(np.ones(6))
    missing = random.uniform(5, 50, 6)
    order = list(order)
    for told in (
        lambda o: post_stratify(NoisyCells(sums[o], 2.0), shares[o]),
        lambda o: post_stratify(NoisyCells(sums[o], 2.0), unanswered=missing[o]),
    ):
        one, other = told(list(range(6))), told(order)
        for field in ("estimate", "se_sampling", "se_noise", "low", "high"):
            assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-9, abs=1e-12)


def test_the_order_of_variables_does_not_matter_to_raking():
    random, cell, y = sample(9, 12)
    sums = (summed(y, cell, 12) + random.laplace(0, 1, (12, 3))).reshape(4, 3, 3)
    rows, columns = random.dirichlet(np.full(4, 5.0)), random.dirichlet(np.full(3, 5.0))
    one = rake(NoisyCells(sums.reshape(12, 3), 2.0), (4, 3), [Margin((0,), rows), Margin((1,), columns)])
    turned = np.swapaxes(sums, 0, 1).reshape(12, 3)
    other = rake(NoisyCells(turned, 2.0), (3, 4), [Margin((1,), rows), Margin((0,), columns)])
    for field in ("estimate", "se_sampling", "se_noise", "low", "high"):
        assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-8, abs=1e-10)


def test_many_surveys_at_once_are_the_surveys_one_by_one():
    random, cell, y = sample(10, 6)
    noisy = summed(y, cell, 6) + random.laplace(0, 4, (7, 6, 3))
    missing, shares = random.uniform(0, 60, (7, 6)), random.dirichlet(np.full(6, 3.0))
    margins = [Margin((0,), np.array([0.4, 0.6])), Margin((1,), np.array([0.2, 0.3, 0.5]), ordered=True)]
    z = random.random((7, 30, 4))
    gram = np.swapaxes(z, 1, 2) @ z
    ways = [
        (lambda i: post_stratify(NoisyCells(noisy[i], 32.0), shares)),
        (lambda i: post_stratify(NoisyCells(noisy[i], 32.0), unanswered=missing[i], ordered=True)),
        (lambda i: rake(NoisyCells(noisy[i], 32.0), (2, 3), margins)),
        (lambda i: greg(gram[i], 0.5, np.array([0.5, 0.6]))),
    ]
    for way in ways:
        together = way(np.arange(7))
        assert together.notes == ()
        for i in range(7):
            alone = way(i)
            for field in ("estimate", "se_sampling", "se_noise", "low", "high"):
                assert getattr(together, field)[i] == pytest.approx(getattr(alone, field), rel=1e-8, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=12, max_size=12), st.floats(1e-3, 1e6), st.booleans())
def test_whatever_the_noise_did_intervals_are_ordered_finite_and_within_the_range(figures, variance, laplace):
    cells = NoisyCells(np.array(figures).reshape(4, 3), variance, 3.0 * laplace)
    margins = [Margin((0,), np.array([0.4, 0.6])), Margin((1,), np.array([0.2, 0.8]))]
    gram = np.array(figures[:9]).reshape(3, 3)
    answers = [
        post_stratify(cells, np.full(4, 0.25)),
        post_stratify(cells, unanswered=np.array(figures[:4])),
        rake(cells, (2, 2), margins),
        greg(gram + gram.T, variance, np.array([0.3]), noise_kurtosis=3.0 * laplace),
    ]
    for answer in answers:
        figures = np.array([answer.estimate, answer.se_sampling, answer.se_noise])
        told = any(note.startswith("no estimate") for note in answer.notes)
        assert np.isnan(figures).all() if told else np.isfinite(figures).all()
        assert (answer.low, answer.high) == (0.0, 1.0) or not told
        assert 0.0 <= answer.low <= answer.high <= 1.0


# contradictions


def test_margins_that_contradict_each_other_are_refused():
    cells = cells_of(np.full(8, 50.0))
    both = np.array([[0.2, 0.2], [0.3, 0.3]])
    agrees, contradicts = Margin((1,), np.array([0.5, 0.5])), Margin((1,), np.array([0.6, 0.4]))
    assert isinstance(rake(cells, (2, 2, 2), [Margin((0, 1), both), agrees]), Adjusted)

    def call(m):
        return rake(cells, (2, 2, 2), m)

    with pytest.raises(BadValue, match="contradict"):
        call([Margin((0, 1), both), contradicts])
    with pytest.raises(BadValue, match="adding up to 1"):
        call([Margin((0,), np.array([0.5, 0.6]))])
    with pytest.raises(BadValue, match="each once"):
        call([Margin((0, 3), np.full((2, 2), 0.25))])
    with pytest.raises(BadValue, match="at least one margin"):
        call([])


# plans


def test_post_stratification_pays_with_much_explained_little_noise_and_large_samples():
    def ask(n=1000, noise=0.08, explained=0.3):
        return pays(np.full(6, 1 / 6), n, noise, spread=0.2, explained=explained)

    assert ask().pays
    assert not ask(noise=2.0).pays
    assert not ask(explained=0.0).pays
    assert ask(n=100_000, noise=2.0).pays
    gains = [ask(explained=each) for each in (0.1, 0.3, 0.6, 0.9)]
    assert all(a.gain < b.gain for a, b in itertools.pairwise(gains))
    noises = [ask(noise=each).noise_added for each in (0.01, 0.1, 0.5)]
    assert all(a < b for a, b in itertools.pairwise(noises))
    # Without noise what is saved is R2 s2/n, and nothing is added.
    free = ask(noise=0.0)
    assert (free.gain, free.noise_added) == (pytest.approx(0.3 * 0.04 / 1000), 0.0)


# refusals


@pytest.mark.parametrize(
    "call",
    [
        lambda: NoisyCells(np.zeros((4, 2)), 1.0),
        lambda: NoisyCells(np.zeros((4, 3)), -1.0),
        lambda: post_stratify(cells_of([50.0, 50.0])),
        lambda: post_stratify(cells_of([50.0, 50.0]), np.array([0.5, 0.5]), unanswered=np.zeros(2)),
        lambda: post_stratify(cells_of([50.0, 50.0]), np.array([50.0, 50.0])),
        lambda: post_stratify(cells_of([50.0, 50.0]), np.array([1.5, -0.5])),
        lambda: post_stratify(cells_of([50.0, 50.0]), np.array([1.0])),
        lambda: post_stratify(cells_of([50.0, 50.0]), np.array([0.5, 0.5]), names=["only one"]),
        lambda: collapse(cells_of([50.0, 50.0]), rule=math.nan),
        lambda: rake(cells_of([50.0, 50.0]), (3,), [Margin((0,), np.full(3, 1 / 3))]),
        lambda: greg(np.eye(3), 1.0, np.array([0.5, 0.5])),
        lambda: greg(np.eye(3), 1.0, np.array([1.5])),
        lambda: pays(np.full(4, 0.25), 100, 1.0, spread=0.2, explained=1.2),
    ],
)
def test_figures_that_cannot_be_are_refused(call):
    with pytest.raises(BadValue):
        call()
