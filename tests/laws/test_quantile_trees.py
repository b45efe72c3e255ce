"""The tree of counts: least squares, prefix noise and sensitivities against dense algebra and brute force; quantiles from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsurvey.errors import BadValue
from dpsurvey.statistic.encodings import TreeCounts
from dpsurvey.statistic.estimators.quantile_interval import crossing, edges, monotone, quantile_from_tree
from dpsurvey.statistic.estimators.tree import Tree, prefix_noise, total_noise
from dpsurvey.statistic.estimators.woodruff import random_size_variance

pytestmark = pytest.mark.quick

TREES = [Tree(2, 1), Tree(2, 4), Tree(3, 2), Tree(3, 3), Tree(5, 2), Tree(7, 1), Tree(4, 3)]


def dense(tree: Tree, root_known: bool) -> tuple[np.ndarray, np.ndarray]:
    """Leaves as linear functions of noisy nodes and root, from the normal equations with a multiplier for the root."""
    adding = tree.add_up(np.eye(tree.leaves)).T
    if not root_known:
        return np.linalg.solve(adding.T @ adding, adding.T), np.zeros(tree.leaves)
    ones = np.ones((tree.leaves, 1))
    inverse = np.linalg.inv(np.block([[adding.T @ adding, ones], [ones.T, np.zeros((1, 1))]]))
    return inverse[:-1, :-1] @ adding.T, inverse[:-1, -1]


def prefix_coefficients(leaves: np.ndarray, q: float) -> np.ndarray:
    """The coefficients of the noisy nodes in F(t) - q total, one row per t."""
    sums = np.vstack([np.zeros(leaves.shape[1]), np.cumsum(leaves, axis=0)])
    return sums - q * sums[-1]


@pytest.mark.parametrize("root_known", [True, False])
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_two_passes_give_the_least_squares_tree(tree, root_known):
    random = np.random.default_rng(tree.nodes)
    noisy, root = random.normal(0.0, 10.0, (2, 3, tree.nodes)), random.normal(0.0, 10.0, (2, 3))
    by_nodes, by_root = dense(tree, root_known)
    expected = tree.add_up(noisy @ by_nodes.T + root[..., None] * by_root)
    assert np.allclose(tree.consistent(noisy, root if root_known else None), expected, rtol=0, atol=1e-10)


@given(st.sampled_from(TREES), st.integers(0, 2**32 - 1), st.one_of(st.none(), st.floats(-1e6, 1e6)))
def test_children_add_up_to_their_parents_and_the_root_is_kept(tree, seed, root):
    noisy = np.random.default_rng(seed).normal(0.0, 100.0, tree.nodes)
    found = tree.consistent(noisy, root)
    leaves = found[tree.level(tree.levels)]
    assert np.allclose(tree.add_up(leaves), found, rtol=1e-9, atol=1e-7)
    assert np.allclose(tree.consistent(found, root), found, rtol=1e-9, atol=1e-7)
    if root is not None:
        assert math.isclose(leaves.sum(), root, rel_tol=1e-9, abs_tol=1e-7)


@pytest.mark.parametrize("root_known", [True, False])
@pytest.mark.parametrize("q", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_prefix_noise_is_that_of_the_dense_covariance(tree, q, root_known):
    coefficients = prefix_coefficients(dense(tree, root_known)[0], 0.0 if root_known else q)
    factors = prefix_noise(tree, q, root_known)
    assert np.allclose(factors.variance, np.sum(coefficients**2, axis=1), rtol=0, atol=1e-12)
    assert np.allclose(factors.fourth, np.sum(coefficients**4, axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("tree", [Tree(32, 2), Tree(8, 3)], ids=str)
def test_prefix_noise_of_large_trees_is_that_of_every_node_pushed_through(tree):
    unknown = tree.consistent(np.eye(tree.nodes))[:, tree.level(tree.levels)].T
    known = tree.consistent(np.eye(tree.nodes), 0.0)[:, tree.level(tree.levels)].T
    for leaves, root_known, q in ((known, True, 0.0), (unknown, False, 0.3)):
        factors = prefix_noise(tree, q, root_known)
        assert np.allclose(factors.variance, np.sum(prefix_coefficients(leaves, q) ** 2, axis=1), rtol=0, atol=1e-10)
    assert math.isclose(total_noise(tree), float(np.sum(unknown.sum(axis=0) ** 2)), rel_tol=1e-12)


@pytest.mark.parametrize("root_known", [True, False])
@pytest.mark.parametrize("q", [0.1, 0.5])
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_the_closed_form_of_the_docs(tree, q, root_known):
    b, spreads = tree.branching, [1.0]
    for _ in range(tree.levels - 1):
        spreads.append(b * spreads[-1] / (1.0 + b * spreads[-1]))
    expected = []
    for t in range(tree.leaves + 1):
        value = 0.0 if root_known else (t / tree.leaves - q) ** 2 * b * spreads[-1]
        for height, spread in enumerate(spreads):
            # Children of this height in the cut family, whole and in part.
            size = b**height
            inside = (t % (size * b)) / size
            k, c = int(inside), inside - int(inside)
            value += spread * (k + c**2 - (k + c) ** 2 / b)
        expected.append(value)
    assert np.allclose(prefix_noise(tree, q, root_known).variance, expected, rtol=0, atol=1e-12)


def test_cached_noise_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        prefix_noise(Tree(2, 2), 0.5, True).variance[0] = 1.0


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_no_two_neighbours_differ_by_more_than_the_sensitivity_and_some_reach_it(tree):
    alone = tree.add_up(np.eye(tree.leaves))
    pairs = alone[:, None, :] - alone[None, :, :]
    for relation, moved in (("add-remove", alone), ("replace-one", pairs)):
        for norm, power in (("L1", 1), ("L2", 2)):
            most = float(np.sum(np.abs(moved) ** power, axis=-1).max()) ** (1.0 / power)
            stated = TreeCounts((0.0,) * (tree.leaves + 1), tree.branching).moves.of(relation, norm)
            assert stated == pytest.approx(most, rel=1e-12)


def test_weights_below_one_move_the_tree_by_less():
    tree, weights = Tree(3, 2), (0.2, 0.7, 1.0)
    one = np.concatenate([tree.add_up(u * np.eye(tree.leaves)) for u in weights])
    moved = np.abs(one[:, None, :] - one[None, :, :])
    moves = TreeCounts((0.0,) * (tree.leaves + 1), tree.branching).moves
    assert moved.sum(axis=-1).max() == moves.of("replace-one", "L1")
    assert np.sqrt((moved**2).sum(axis=-1).max()) <= moves.of("replace-one", "L2") * (1.0 + 1e-12)


@pytest.mark.parametrize("bad", [(1, 3), (2, 0), (2, 21), (1024, 3)])
def test_trees_that_are_none_or_too_large_are_refused(bad):
    with pytest.raises(BadValue):
        Tree(*bad)


def test_a_vector_of_the_wrong_length_is_refused():
    with pytest.raises(BadValue, match="does not fit"):
        Tree(2, 2).consistent(np.zeros(7))


def ask(leaves, q=0.5, *, noise=0.0, sampling=0.0, root=None, tree=Tree(4, 2), kurtosis=3.0):  # noqa: B008
    counts = np.asarray(leaves, dtype=float)
    return quantile_from_tree(tree.add_up(counts), tree, q, edges(0, 16, 16), noise, root, sampling, kurtosis)


def test_without_noise_the_estimate_is_the_interpolated_quantile():
    leaves = np.zeros(16)
    leaves[[3, 4, 9]] = 10, 40, 50
    assert ask(leaves, 0.3).estimate == 4.5
    assert ask(leaves, 0.75, root=100.0).estimate == 9.5


def test_a_leaf_that_holds_everyone_is_its_own_interval():
    leaves = np.zeros(16)
    leaves[5] = 1000
    answer = ask(leaves, noise=8.0, sampling=250.0, root=1000.0)
    assert (answer.low, answer.high) == (5.0, 6.0)
    assert not answer.low_at_bound
    assert not answer.high_at_bound


def test_noise_that_swamps_everything_gives_the_whole_range_with_both_ends_marked():
    answer = ask(np.full(16, 10.0), 0.5, noise=1e6, root=160.0)
    assert (answer.low, answer.high) == (0.0, 16.0)
    assert answer.low_at_bound
    assert answer.high_at_bound


def test_a_sum_that_crosses_the_target_often_keeps_every_crossing():
    leaves = np.zeros(16)
    leaves[[2, 6, 13]] = 100, -100, 100
    answer = ask(leaves, root=100.0)
    assert (answer.low, answer.high) == (2.0, 14.0)


def test_a_total_that_is_not_positive_gives_no_estimate_and_the_whole_range():
    answer = ask(np.full(16, -1.0), noise=8.0)
    assert np.isnan(answer.estimate)
    assert (answer.low, answer.high) == (0.0, 16.0)


@pytest.mark.parametrize("laplace", [True, False])
def test_a_leaf_is_kept_up_to_the_limit_of_the_docs_and_no_further(laplace):
    n, sampling, noise, z = 1000.0, 60.0, 300.0, 1.959963984540054
    # Two leaves and a public root: F(1) has coefficients 1/2 and -1/2, so p = 1/2 and the fourth powers add up to 1/8.
    variance = sampling + noise / 2
    kurtosis = 3.0 * noise**2 / 8 / variance**2 if laplace else 0.0
    limit = (z + (z**3 - 3 * z) / 24 * kurtosis) * math.sqrt(variance) + 0.5
    for gap, ends in (
        (limit - 1e-6, (0.0, 2.0)),
        (limit + 1e-6, (0.0, 1.0)),
        (-limit + 1e-6, (0.0, 2.0)),
        (-limit - 1e-6, (1.0, 2.0)),
    ):
        noisy = np.array([n / 2 + gap, n / 2 - gap])
        answer = quantile_from_tree(noisy, Tree(2, 1), 0.5, edges(0, 2, 2), noise, n, sampling, 3.0 * laplace)
        assert (answer.low, answer.high) == ends


def test_many_trees_at_once_are_many_trees_one_by_one():
    tree, random = Tree(4, 2), np.random.default_rng(3)
    noisy = tree.add_up(random.poisson(30.0, (2, 5, 16)).astype(float)) + random.laplace(0.0, 5.0, (2, 5, tree.nodes))
    arguments = (tree, 0.3, edges(0, 16, 16), 50.0, None)

    def sampling(total):
        return random_size_variance(0.3, total, math.sqrt(50.0 * total_noise(tree)), 0.9)

    together = quantile_from_tree(noisy, *arguments, sampling, 3.0)
    for place in np.ndindex(2, 5):
        alone = quantile_from_tree(noisy[place], *arguments, sampling, 3.0)
        for field in ("estimate", "low", "high", "se_sampling", "se_noise"):
            assert math.isclose(getattr(together, field)[place], float(getattr(alone, field)), rel_tol=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.floats(0.1, 1e4), st.booleans())
def test_the_interval_holds_the_estimate_grows_with_the_noise_and_is_wider_for_laplace(seed, q, noise, root_known):
    leaves = np.random.default_rng(seed).poisson(20.0, 16).astype(float)
    root = float(leaves.sum()) if root_known else None
    narrow, wide = (ask(leaves, q, noise=each, sampling=60.0, root=root) for each in (noise, 4.0 * noise))
    gaussian = ask(leaves, q, noise=noise, sampling=60.0, root=root, kurtosis=0.0)
    assert 0.0 <= wide.low <= narrow.low <= gaussian.low <= gaussian.estimate <= gaussian.high <= narrow.high <= wide.high <= 16.0
    assert narrow.low_at_bound == (narrow.low == 0.0)
    assert narrow.high_at_bound == (narrow.high == 16.0)
    assert math.isclose(math.hypot(narrow.se_sampling, narrow.se_noise) * 2 * 1.959963984540054, narrow.high - narrow.low)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_the_monotone_step_rises_keeps_what_rises_and_stays_between(values):
    values = np.array(values)
    found = monotone(values)
    assert np.all(np.diff(found) >= 0.0)
    assert np.array_equal(monotone(np.sort(values)), np.sort(values))
    assert values.min() <= found[0]
    assert found[-1] <= values.max()


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20), st.floats(-10.0, 2100.0))
def test_a_crossing_is_where_interpolated_sums_meet_the_target(steps, target):
    below = np.concatenate([[0.0], np.cumsum(steps)])
    leaf, part = crossing(below, np.array(target))
    met = below[leaf] + part * (below[leaf + 1] - below[leaf])
    assert math.isclose(met, min(max(target, 0.0), below[-1]), rel_tol=1e-9, abs_tol=1e-9)


@given(st.integers(2, 300), st.floats(0.01, 100.0), st.floats(1.01, 1e6))
def test_binnings_rise_from_bound_to_bound_in_equal_steps_or_ratios(leaves, low, ratio):
    high = low * ratio
    equal, log = edges(low, high, leaves), edges(low, high, leaves, "log")
    from_zero = edges(0.0, high, leaves, "log", first=low)
    assert np.allclose(np.diff(equal), (high - low) / leaves, rtol=1e-6)
    assert np.allclose(log[1:] / log[:-1], ratio ** (1.0 / leaves), rtol=1e-9)
    for each, start in ((equal, low), (log, low), (from_zero, 0.0)):
        assert (each[0], each[-1], len(each)) == (start, high, leaves + 1)
    assert math.isclose(from_zero[1], low)


@pytest.mark.parametrize(
    "bad",
    [
        (1, 1, 4, "equal"),
        (0, 10, 4, "log"),
        (-1, 10, 4, "log"),
        (0, 10, 0, "equal"),
        (0, math.inf, 4, "equal"),
        (0, 1, 4, "cube"),
    ],
)
def test_binnings_that_cannot_be_are_refused(bad):
    with pytest.raises(BadValue):
        edges(*bad)
