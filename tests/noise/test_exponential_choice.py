"""The choice is the exponential mechanism's: accepted at its epsilon, rejected 30 % to either side; and its privacy is proved.

OpenDP's samplers take no seed, so every statistical test draws afresh. The statistic is chi-square with expected counts above
200 in every cell; its limit has a false-alarm rate of 1e-6 and the chance to miss an epsilon that is 30 % off is below 1e-9.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, ncx2

from dpsurvey.errors import BadValue
from dpsurvey.mechanism.base import LARGEST_SUM, opendp
from dpsurvey.mechanism.exponential import Exponential, rank_scores, weighted_rank_scores, weighted_rank_sensitivity
from dpsurvey.privacy.profile import PrivacyProfile

pytestmark = pytest.mark.quick

FALSE_ALARM, MISS = 1e-6, 1e-9
DRAWS = 8_000
CASES = [
    pytest.param(0.8, 1, [0, -1, -2, -3, -4], id="ranks"),
    pytest.param(0.5, 3, [7, 0, 4, 16, -9], id="a sensitivity of 3"),
    pytest.param(1.0, 2**30, [2**40 + 2**30 * k for k in (0, 1, -1, 3, -2)], id="weights on a fine lattice"),
]


def law(scores: list[int], epsilon: float, sensitivity: int) -> np.ndarray:
    """P(candidate) proportional to e^(epsilon score / (2 sensitivity))."""
    best = max(scores)
    weights = np.array([math.exp(epsilon * (score - best) / (2 * sensitivity)) for score in scores])
    return np.asarray(weights / weights.sum())


def statistic(counts: np.ndarray, chances: np.ndarray) -> float:
    expected = counts.sum() * chances
    assert expected.min() > 200.0
    return float(((counts - expected) ** 2 / expected).sum())


def limit(cells: int) -> float:
    return float(chi2.isf(FALSE_ALARM, cells - 1))


@pytest.mark.slow_cases(
    "zcdp-ranks", "zcdp-a sensitivity of 3", "zcdp-weights on a fine lattice", "pure-a sensitivity of 3", "pure-ranks"
)
@pytest.mark.parametrize(("epsilon", "sensitivity", "scores"), CASES)
@pytest.mark.parametrize("measure", ["pure", "zcdp"])
def test_choices_follow_the_exponential_law_and_no_law_that_is_30_percent_off(
    epsilon: float, sensitivity: int, scores: list[int], measure: str
) -> None:
    charge = PrivacyProfile.pure(epsilon, "both") if measure == "pure" else PrivacyProfile.zcdp(epsilon**2 / 8.0, "both")
    mechanism = Exponential.calibrate(charge, sensitivity)
    counts = np.bincount([mechanism.choose(scores) for _ in range(DRAWS)], minlength=len(scores))
    assert statistic(counts, law(scores, epsilon, sensitivity)) < limit(len(scores))
    for wrong in (0.7 * epsilon, 1.3 * epsilon):
        chances = law(scores, wrong, sensitivity)
        assert chance_to_miss(law(scores, epsilon, sensitivity), chances) < MISS
        assert statistic(counts, chances) > limit(len(scores))


def chance_to_miss(true: np.ndarray, claimed: np.ndarray) -> float:
    return float(ncx2.cdf(limit(len(true)), len(true) - 1, DRAWS * ((true - claimed) ** 2 / claimed).sum()))


def test_opendps_noisy_max_for_max_divergence_is_another_law_and_is_not_used() -> None:
    dp = opendp()
    scores, space = [0, -1, -2, -3], (dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64"))
    other = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    counts = np.bincount([other(scores) for _ in range(DRAWS)], minlength=4)
    assert statistic(counts, law(scores, 1.0, 1)) > limit(4)


AMOUNTS = [float(each) for each in np.geomspace(1e-3, 20.0, 25)] + [0.1, 1.0, 1.0 / 3.0]


@pytest.mark.parametrize("sensitivity", [1, 2, 3, 7, 2**20 + 1, 999_983])
def test_calibrations_never_exceed_their_charge_and_opendp_agrees(sensitivity: int) -> None:
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    for paid in AMOUNTS:
        pure = Exponential.calibrate(PrivacyProfile.pure(paid, "replace-one"), sensitivity)
        # In exact rational arithmetic: 2 sensitivity <= epsilon scale, and not wastefully less.
        assert 2 * sensitivity <= Fraction(paid) * Fraction(pure.scale) <= 2 * sensitivity * (1 + Fraction(1, 10**13))
        assert dp.m.make_noisy_max(*space, dp.max_divergence(), scale=pure.scale).map(sensitivity) <= paid
        assert paid >= pure.epsilon >= paid * (1 - 1e-13)
        concentrated = Exponential.calibrate(PrivacyProfile.zcdp(paid, "replace-one"), sensitivity)
        assert Fraction(sensitivity) ** 2 <= 2 * Fraction(paid) * Fraction(concentrated.scale) ** 2
        assert concentrated._measurement().map(sensitivity) <= paid
        assert concentrated.epsilon == pytest.approx(math.sqrt(8.0 * paid), rel=1e-13)
        # What is claimed is at least what OpenDP proves.
        assert concentrated.profile("replace-one").curve.rho >= concentrated._measurement().map(sensitivity)  # type: ignore[attr-defined]
        assert pure.profile("replace-one").epsilon(0.0) >= pure.epsilon


def renyi(first: np.ndarray, second: np.ndarray, order: float) -> float:
    return float(np.log((first**order * second ** (1.0 - order)).sum()) / (order - 1.0))


def test_pairs_of_score_vectors_keep_epsilon_and_rho_and_come_near_both() -> None:
    epsilon, worst_ratio, worst_rho = 1.5, 0.0, 0.0
    for scores in itertools.chain(itertools.product(range(3), repeat=2), itertools.product(range(3), repeat=3)):
        one = law(list(scores), epsilon, 1)
        for moves in itertools.product((-1, 0, 1), repeat=len(scores)):
            other = law([a + b for a, b in zip(scores, moves, strict=True)], epsilon, 1)
            worst_ratio = max(worst_ratio, float(np.log(one / other).max()))
            worst_rho = max(worst_rho, *(renyi(one, other, order) / order for order in (1.01, 3.0)))
    # One good candidate among very many nearly reaches epsilon; an even split nearly reaches rho.
    many = [0] * 100_000
    rare = np.log(law([1, *(each - 1 for each in many)], epsilon, 1) / law([0, *many], epsilon, 1))
    assert worst_ratio <= epsilon
    assert 0.99 * epsilon < float(rare.max()) <= epsilon
    assert 0.9 * epsilon**2 / 8.0 < worst_rho <= epsilon**2 / 8.0


def counts(values: tuple[int, ...], grid: range) -> tuple[list[int], list[int]]:
    return [sum(x < t for x in values) for t in grid], [sum(x <= t for x in values) for t in grid]


def test_rank_scores_are_0_at_the_order_statistic_alone_and_move_by_one() -> None:
    grid = range(5)
    for size in (1, 2, 3, 4):
        table = {}
        for values in itertools.combinations_with_replacement(grid, size):
            for rank in range(1, size + 1):
                scores = rank_scores(*counts(values, grid), rank)
                assert [t for t in grid if scores[t] == 0] == [values[rank - 1]]
                assert scores.tolist() == [-records_to_change(values, rank, t) for t in grid]
                table[values, rank] = scores
        moved = [
            int(np.abs(table[values, rank] - table[other, rank]).max())
            for values, rank in table
            for i, new in itertools.product(range(size), grid)
            for other in [tuple(sorted((*values[:i], new, *values[i + 1 :])))]
        ]
        assert max(moved) == 1


def records_to_change(values: tuple[int, ...], rank: int, target: int) -> int:
    """The fewest records to replace so that the rank-th smallest is `target`, by trying all choices that replace with it."""
    for changed in range(len(values) + 1):
        for kept in itertools.combinations(values, len(values) - changed):
            for new in itertools.combinations_with_replacement((-1, target, 99), changed):
                if sorted((*kept, *new))[rank - 1] == target:
                    return changed
    raise AssertionError


def weighted(records: tuple[tuple[int, int], ...], grid: range, share: Fraction) -> np.ndarray:
    below = [sum(w for x, w in records if x < t) for t in grid]
    at_or_below = [sum(w for x, w in records if x <= t) for t in grid]
    return weighted_rank_scores(np.array(below, dtype=np.int64), np.array(at_or_below), sum(w for _, w in records), share)


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_weighted_scores_move_by_their_sensitivity_and_no_more(share: Fraction) -> None:
    grid, possible = range(3), [(x, w) for x in range(3) for w in (1, 2, 5)]
    added, replaced = 0, 0
    for size in (0, 1, 2):
        for records in itertools.combinations_with_replacement(possible, size):
            mine = weighted(records, grid, share)
            after = [weighted((*records, record), grid, share) for record in possible]
            added = max([added, *(int(np.abs(mine - other).max()) for other in after)])
            replaced = max([replaced, *(int(np.abs(one - other).max()) for one, other in itertools.combinations(after, 2))])
    assert added == weighted_rank_sensitivity(5, share, "add-remove")
    assert replaced == weighted_rank_sensitivity(5, share, "replace-one")


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=30),
    st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=20),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_weighted_score_of_0_is_a_weighted_quantile(records: list[tuple[int, int]], share: Fraction) -> None:
    scores = weighted(tuple(records), range(10), share)
    total = sum(w for _, w in records)
    for t in range(10):
        under, up_to = (sum(w for x, w in records if x < t), sum(w for x, w in records if x <= t))
        assert (scores[t] == 0) == (under <= share * total <= up_to)
    assert scores.max() == 0


def test_a_shift_moves_the_target_by_that_weight() -> None:
    below, at_or_below = np.array([0, 10, 30]), np.array([10, 30, 50])
    assert weighted_rank_scores(below, at_or_below, 50, Fraction(1, 2), shift=10).tolist() == [-50, -10, 0]


@pytest.mark.parametrize("scores", [[], [1.5, 2.0], [LARGEST_SUM + 1, 0]])
def test_scores_that_cannot_be_chosen_from_are_refused_without_naming_them(scores: list[int]) -> None:
    with pytest.raises(BadValue) as refusal:
        Exponential.calibrate(PrivacyProfile.pure(1.0, "both"), 1).choose(scores)
    assert not any(character.isdigit() for character in str(refusal.value).replace("64 bits", ""))


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5])
def test_a_sensitivity_that_is_no_whole_number_is_refused(sensitivity: int) -> None:
    with pytest.raises(BadValue, match="whole number"):
        Exponential.calibrate(PrivacyProfile.pure(1.0, "both"), sensitivity)


def test_a_thousand_candidates_are_chosen_from_and_one_candidate_is_always_it() -> None:
    mechanism = Exponential.calibrate(PrivacyProfile.pure(1.0, "both"), 1)
    # The good candidate is missed with probability 1023 e^-50 at most.
    assert mechanism.choose([-100] * 700 + [0] + [-100] * 323) == 700
    assert mechanism.choose([-5]) == 0


def test_weights_beyond_64_bits_and_broken_counts_are_refused() -> None:
    with pytest.raises(BadValue, match="too large"):
        weighted_rank_scores([0], [1], 2**61, Fraction(1, 2))
    with pytest.raises(BadValue, match="whole numbers"):
        rank_scores([0.5], [1.0], 1)
    with pytest.raises(BadValue, match="share"):
        weighted_rank_scores([0], [1], 2, Fraction(1))
