"""What respondents run, outcome by outcome: laws, estimators, variances and losses are exactly those of the client's own code.

`every_outcome` runs the client once for every sequence of choices that it can meet, with exact probabilities; here they are
compared with what the mechanisms say of themselves. Leakage and shuffling are compared with brute force written apart.
"""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

import dpsurvey.local as local
from dpsurvey.classical.stages import staged_design
from dpsurvey.classical.unequal import unequal_design
from dpsurvey.errors import BadData, BadValue, Refusal
from dpsurvey.local.base import LocalMechanism, mechanism_from
from dpsurvey.local.chance import EveryChance, SecretChance, every_outcome
from dpsurvey.local.leakage import leakage, views_of
from dpsurvey.local.local_hashing import LISTED, OPEN, LocalHashing, hash_residues, label_number
from dpsurvey.privacy.shuffled import Shuffled
from dpsurvey_papers.sampling_privacy.toys import toy_deniability, toy_noise

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "local.json").read_text())

ONE_REPORT = [
    *(local.two_coins(pi1, pi2) for pi1, pi2 in ((0.85, 0.3), (0.8, 0.9), ("1/3", "2/3"), (0.01, 0.5))),
    *(local.warner(p) for p in (0.75, "9/10", 0.2, "501/1000")),
    *(toy_deniability(pi_s, 0.8, pi2) for pi_s, pi2 in ((0.5, 0.2), ("1/7", 0.9))),
    local.round_two([0.275, 0.275], 0.45),
    local.round_two([0.3, 0.45], 0.25),
    local.round_two([0.05, 0.1, 0.15, 0.25], 0.45),
    *(local.generalised(k, epsilon) for k in (2, 3, 4, 5) for epsilon in (0.1, 1.0, 3.0)),
    *(local.unary(k, epsilon) for k in (2, 3, 5) for epsilon in (0.1, 1.0, 3.0)),
    *(local.subset(k, epsilon) for k in (2, 3, 5) for epsilon in (0.1, 1.0, 3.0)),
    *(local.subset(5, 1.0, size) for size in (1, 2, 3, 4)),
    LocalHashing(2, 1.0, 2, prime=5),
    LocalHashing(4, 0.5, 3, prime=5),
    LocalHashing(5, 1.0, 3, prime=5),
    LocalHashing(5, 2.0, 4, prime=7),
    LocalHashing(3, 1.0, 7, prime=7),
    LocalHashing(3, 0.2, 2, prime=3),
]
TWO_ROUNDS = [
    local.sampling_privacy([0.275, 0.275], 0.45),
    local.sampling_privacy([0.3, 0.45], 0.25),
    local.sampling_privacy([0.0, 0.6], 0.4),
    local.sampling_privacy([0.1, 0.2, 0.2, 0.1], 0.4),
    local.guarded([0.275, 0.275], 0.45, epsilon=1.0),
    local.guarded([0.2, 0.2, 0.2], 0.4, epsilon=0.5, aggregators=3),
]
EVERY = [*ONE_REPORT, *TWO_ROUNDS]


def name(mechanism):
    return "-".join(str(each) for each in mechanism.to_dict().values())


@cache
def client_law(mechanism, answer):
    """The exact law of the report of one answer."""
    return every_outcome(lambda chance: tuple(int(each) for each in mechanism.randomize(np.array([answer]), chance)[0]))


def reports_of(law, mechanism):
    """All reports of a law as the array that the aggregator has."""
    bits = mechanism.kind in ("unary", "subset")
    return np.array(list(law), dtype=np.uint8 if bits else np.int64)


def test_every_kind_of_mechanism_is_enumerated_here():
    assert {mechanism.kind for mechanism in EVERY} | {"toy-noise"} == set(LocalMechanism.kinds)


@pytest.mark.parametrize("mechanism", EVERY, ids=name)
def test_the_client_marks_as_often_as_it_says_and_the_estimator_is_exactly_unbiased(mechanism):
    for answer in range(mechanism.k):
        law = client_law(mechanism, answer)
        assert sum(law.values()) == 1
        reports = reports_of(law, mechanism)
        for category in range(mechanism.k):
            marks = [int(mark) for mark in mechanism.marks(reports, category)]
            mean = sum(mark * chance for mark, chance in zip(marks, law.values(), strict=True))
            square = sum(mark * mark * chance for mark, chance in zip(marks, law.values(), strict=True))
            if mechanism.rounds == 1:
                assert set(marks) <= {0, 1}
                assert mean == mechanism.hit(category)[0 if answer == category else 1]
            scale, shift = mechanism.line(category)
            assert scale * mean + shift == int(answer == category)
            variance = scale**2 * (square - mean**2)
            found = mechanism.spread(category)[0 if answer == category else 1]
            assert found == pytest.approx(float(variance), rel=1e-12, abs=0.0)


def exact_loss(laws):
    """The largest log ratio over outputs and ordered pairs of answers, in 40 digits."""
    largest = Fraction(1)
    for one, other in itertools.permutations(laws, 2):
        for output, chance in one.items():
            if output not in other:
                return mpmath.inf
            largest = max(largest, chance / other[output])
    with mpmath.workdps(40):
        return mpmath.log(mpmath.mpf(largest.numerator) / largest.denominator)


@pytest.mark.parametrize("mechanism", EVERY, ids=name)
def test_epsilon_is_the_largest_log_ratio_of_what_is_sent_and_never_below_it(mechanism):
    exact = exact_loss([client_law(mechanism, answer) for answer in range(mechanism.k)])
    if mechanism.rounds == 2:
        assert exact == mechanism.epsilon == math.inf
        return
    with mpmath.workdps(40):
        assert exact <= mechanism.epsilon <= exact * (1 + mpmath.mpf("1e-12")) + mpmath.mpf("1e-15")
    assert mechanism.profile.epsilon(0.0) == mechanism.epsilon


@pytest.mark.parametrize("mechanism", [each for each in ONE_REPORT if hasattr(each, "law")], ids=name)
def test_the_law_that_is_told_is_the_law_that_is_run(mechanism):
    for answer in range(mechanism.k):
        told = {(output,): chance for output, chance in enumerate(mechanism.law(answer)) if chance}
        assert client_law(mechanism, answer) == told


def test_the_toy_without_information_reports_the_same_whatever_the_answer():
    toy = toy_noise("2/5")
    assert client_law(toy, 0) == client_law(toy, 1) == {(1,): Fraction(2, 5), (2,): Fraction(3, 5)}
    assert toy.epsilon == 0.0
    with pytest.raises(Refusal):
        toy.spread(1)


@pytest.mark.parametrize("mechanism", TWO_ROUNDS, ids=name)
def test_round_two_of_the_client_is_the_law_of_round_two_alone(mechanism):
    for answer in range(mechanism.k):
        seen = Counter()
        for (_, second), chance in client_law(mechanism, answer).items():
            seen[second] += chance
        told = mechanism.round_two().law(answer)
        assert [seen[output] for output in range(mechanism.k)] == told
    assert mechanism.printed_epsilon == mechanism.round_two().epsilon


@pytest.mark.parametrize("mechanism", ONE_REPORT, ids=name)
def test_mechanisms_whose_reports_are_all_possible_have_a_finite_loss(mechanism):
    assert 0.0 < mechanism.epsilon < math.inf


def test_deterministic_coins_have_an_infinite_loss_and_guarantee_nothing():
    for mechanism in (local.warner(1), local.two_coins(1, 0.5), local.two_coins(0.5, 0), local.round_two([0.0, 0.6], 0.4)):
        assert mechanism.epsilon == math.inf
        assert exact_loss([client_law(mechanism, answer) for answer in (0, 1)]) == math.inf
        with pytest.raises(Refusal, match="guarantees nothing"):
            _ = mechanism.profile


@pytest.mark.parametrize("mechanism", [*EVERY, toy_noise(0.4)], ids=name)
def test_a_mechanism_comes_back_from_what_it_wrote(mechanism):
    written = json.loads(json.dumps(mechanism.to_dict()))
    again = mechanism_from(written)
    assert again == mechanism
    assert again.to_dict() == written
    assert client_law(again, 1) == client_law(mechanism, 1)


OFFERED = {"generalised": local.generalised, "unary": local.unary, "hashing": local.hashing, "subset": local.subset}
# From 1e-6 to 30, evenly in the exponent.
EPSILONS = st.floats(-6.0, math.log10(30.0)).map(lambda exponent: min(30.0, max(1e-6, 10.0**exponent)))


@pytest.mark.parametrize("kind", OFFERED)
@settings(max_examples=150)
@given(k=st.integers(2, 300), epsilon=EPSILONS)
def test_epsilon_never_exceeds_what_was_asked_for_and_uses_nearly_all_of_it(kind, k, epsilon):
    mechanism = OFFERED[kind](k, epsilon)
    assert mechanism.epsilon <= epsilon
    assert epsilon - mechanism.epsilon <= 1e-9 + 1e-6 * epsilon
    # The odds themselves, in 40 digits: what `epsilon` says is not below them.
    if kind == "subset":
        outside, inside = mechanism.weights  # type: ignore[attr-defined]
        ratio = Fraction(inside * (k - mechanism.size), outside * mechanism.size)  # type: ignore[attr-defined]
    else:
        ratio = Fraction(*mechanism.weights)  # type: ignore[attr-defined]
    with mpmath.workdps(40):
        assert mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator) <= mechanism.epsilon
    # A browser's numbers are exact up to 2^53: one throw of any client stays far below.
    odds = mechanism.client()
    if "truth" in odds:
        total = odds["truth"] + odds["other"] * (odds.get("buckets", k) - 1)
    else:
        total = sum(odds.get(key, 0) for key in ("zero", "one", "inside", "outside"))
    assert 1 < total <= 2**48
    p, q = mechanism.hit(0)
    assert 0 < q < p < 1


@settings(max_examples=60)
@given(
    sampled=st.integers(1, 99),
    k=st.integers(2, 4),
    epsilon=st.floats(-3.0, 1.0).map(lambda exponent: 10.0**exponent),
)
def test_a_guarded_difference_publishes_no_more_than_it_was_asked_to(sampled, k, epsilon):
    share = Fraction(100 - sampled, 100 * k)
    mechanism = local.guarded([share] * k, Fraction(sampled, 100), epsilon=epsilon)
    found = mechanism.published.epsilon(0.0)
    assert found <= epsilon
    assert found == pytest.approx(epsilon, rel=1e-6)


# Words: what goes over the wire. ----------------------------------------------------------------------------------------


def random_reports(mechanism, count, seed):
    """Reports of random answers through the client, from the operating system's chance."""
    answers = np.random.default_rng(seed).integers(0, mechanism.k or OPEN, count)
    return mechanism.randomize(answers.astype(np.int64), SecretChance())


WORDS = [
    local.unary(2, 1.0),
    local.unary(8, 1.0),
    local.unary(13, 0.5),
    local.subset(9, 1.0),
    local.subset(16, 0.3),
    local.hashing(50, 1.0),
    local.hashing(0, 2.0),
    LocalHashing(7, 1.0, prime=OPEN),
    LocalHashing(5, 1.0, 3, prime=7),
]


@pytest.mark.parametrize("mechanism", WORDS, ids=name)
def test_reports_come_back_from_their_bytes(mechanism):
    reports = random_reports(mechanism, 500, 1)
    words = mechanism.pack(reports)
    assert words.dtype == np.uint8
    assert words.shape == (500, mechanism.word_bytes)
    assert np.array_equal(mechanism.unpack(words), reports)
    assert mechanism.unpack(words[:0]).shape[0] == 0


@pytest.mark.parametrize("mechanism", [local.unary(5, 1.0), local.subset(5, 1.0), local.subset(5, 1.0, 4)], ids=name)
def test_of_all_bytes_exactly_those_that_a_client_sends_are_taken(mechanism):
    possible = {report[0] for answer in range(5) for report in client_law(mechanism, answer)}
    taken = set()
    for byte in range(256):
        try:
            mechanism.unpack(np.array([[byte]], dtype=np.uint8))
        except BadData:
            continue
        taken.add(byte)
    assert taken == possible


def test_of_all_hashes_exactly_those_that_a_client_sends_are_taken():
    mechanism = LocalHashing(4, 1.0, 3, prime=5)
    possible = {report for answer in range(4) for report in client_law(mechanism, answer)}
    taken = set()
    for numbers in itertools.product(range(7), repeat=3):
        try:
            back = mechanism.unpack(mechanism.pack(np.array([numbers])))
        except BadData:
            continue
        assert tuple(back[0].tolist()) == numbers
        taken.add(numbers)
    assert taken == possible == set(itertools.product(range(5), range(5), range(3)))


@pytest.mark.parametrize("digits", ["ff" * 18, "20" + "00" * 17, "00" * 16 + "ffff"])
def test_numbers_beyond_the_prime_or_the_buckets_are_refused(digits):
    word = np.frombuffer(bytes.fromhex(digits), dtype=np.uint8)[None, :]
    with pytest.raises(BadData, match="no client of this question draws"):
        local.hashing(0, 1.0).unpack(word)


def test_labels_have_no_bytes():
    with pytest.raises(BadValue, match="labels"):
        local.warner(0.75).pack(np.array([[1]]))
    with pytest.raises(BadValue, match="labels"):
        local.warner(0.75).unpack(np.array([[1]], dtype=np.uint8))


# Sums of marks. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        *(each for each in WORDS if each.k),
        *EVERY[:1],
        *TWO_ROUNDS,
        local.generalised(40, 1.0),
        toy_deniability(0.5, 0.8, 0.2),
    ],
    ids=name,
)
def test_sums_of_marks_are_sums_of_marks_weighted_or_not(mechanism):
    # More reports than one chunk of any mechanism holds.
    reports = random_reports(mechanism, 40_000, 2)
    weights = np.random.default_rng(3).uniform(0.5, 4.0, len(reports))
    marks = [mechanism.marks(reports, category).astype(np.int64) for category in range(mechanism.k)]
    assert mechanism.mark_sums(reports).tolist() == [float(each.sum()) for each in marks]
    weighted = [math.fsum((weights * each).tolist()) for each in marks]
    assert mechanism.mark_sums(reports, weights) == pytest.approx(weighted, rel=1e-10, abs=1e-8)


def edges(prime):
    return sorted(
        {each % prime for each in (0, 1, 2, 2**29, 2**31 - 2, 2**32 - 1, 2**32, 2**33 + 1, 2**60, prime - 2, prime - 1)}
    )


@pytest.mark.parametrize("prime", [5, 7, LISTED, OPEN])
def test_hash_residues_are_those_of_whole_numbers_of_any_length(prime):
    # The corners, where two-word products carry, and two thousand numbers of all sizes.
    rng = np.random.default_rng(4)
    numbers = list(itertools.product(edges(prime), repeat=3))
    numbers += [tuple(int(each) for each in row) for row in rng.integers(0, prime, (2000, 3))]
    a, b, x = (np.array(column, dtype=np.int64) for column in zip(*numbers, strict=True))
    assert hash_residues(a, b, x, prime).tolist() == [(one * three + two) % prime for one, two, three in numbers]


@pytest.mark.parametrize(
    "mechanism", [local.hashing(0, 1.0), local.hashing(300, 2.0), LocalHashing(50, 1.0, 5, prime=OPEN)], ids=name
)
def test_a_hash_marks_the_bucket_of_long_division(mechanism):
    reports = random_reports(mechanism, 300, 5)
    categories = [label_number(label) for label in ("Ulm", "48.8584N 2.2945E")] if not mechanism.k else [0, 1, mechanism.k - 1]
    for category in categories:
        expected = [
            int(mechanism.buckets * ((a * category + b) % mechanism.prime) // mechanism.prime == bucket)
            for a, b, bucket in reports.tolist()
        ]
        assert mechanism.marks(reports, category).tolist() == expected


def test_two_answers_of_a_hash_are_independent_and_uniform_for_every_pair():
    # (a x + b, a x' + b) takes every pair of residues equally often: what the exact q rests on.
    prime = 7
    for x, other in itertools.combinations(range(prime), 2):
        every = [(a, b) for a in range(prime) for b in range(prime)]
        a, b = (np.array(column) for column in zip(*every, strict=True))
        pairs = Counter(zip(hash_residues(a, b, x, prime).tolist(), hash_residues(a, b, other, prime).tolist(), strict=True))
        assert set(pairs.values()) == {1}
        assert len(pairs) == prime**2


# Chances. ---------------------------------------------------------------------------------------------------------------

# Each of the seven tests below raises a false alarm with probability 1e-7: less than 1e-6 for the file.
ALARM = 1e-7
DRAWS = 400_000


def p_value(drawn, chances):
    counts = np.bincount(drawn, minlength=len(chances))
    assert counts[np.array(chances) == 0].sum() == 0
    seen = np.array(chances) > 0
    return chisquare(counts[seen], np.array(chances)[seen] * len(drawn)).pvalue


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [0, 5, 0, 1], [2**47, 2**47], [3, 2**20, 7, 2**20]])
def test_picks_follow_their_weights(weights):
    chances = [weight / sum(weights) for weight in weights]
    assert p_value(SecretChance().pick(weights, DRAWS), chances) > ALARM


# 3 * 2^60 does not divide 2^64: without drawing again, the first third would come up in 6 of 16.
@pytest.mark.parametrize(("bound", "parts"), [(10, 10), (3 * 2**60, 3), (2**61, 8)])
def test_numbers_below_a_bound_are_uniform(bound, parts):
    drawn = SecretChance().below(bound, DRAWS)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    assert p_value(drawn // (bound // parts), [1 / parts] * parts) > ALARM


def test_the_same_check_rejects_biased_sources():
    rng = np.random.default_rng(6)
    words = rng.integers(0, 2**64, DRAWS, dtype=np.uint64)
    # Remainders of all words, none drawn again; one face 5 % off; a die that forgets its last face one time in twenty.
    assert p_value((words % np.uint64(3 * 2**60) // np.uint64(2**60)).astype(int), [1 / 3] * 3) < ALARM
    assert p_value(rng.choice(4, DRAWS, p=[0.105, 0.2, 0.295, 0.4]), [0.1, 0.2, 0.3, 0.4]) < ALARM
    assert (
        p_value(np.where((face := rng.integers(0, 10, DRAWS)) == 9, rng.choice([9, 0], DRAWS, p=[0.95, 0.05]), face), [0.1] * 10)
        < ALARM
    )


@pytest.mark.parametrize("weights", [[], [0, 0], [-1, 2], [2**48, 1]])
def test_weights_that_are_no_odds_are_refused_by_both_chances(weights):
    for chance in (SecretChance(), EveryChance()):
        with pytest.raises(BadValue, match="weights"):
            chance.pick(weights, 1)


@pytest.mark.parametrize("bound", [0, -1, 2**62])
def test_bounds_that_whole_numbers_do_not_hold_are_refused(bound):
    with pytest.raises(BadValue, match="bound"):
        SecretChance().below(bound, 1)


# Leakage against brute force. -------------------------------------------------------------------------------------------


def single(mechanism, view, answer):
    """What one respondent adds to what is seen, by formulas and not by running the client."""
    if mechanism.rounds == 1:
        law = {}
        for output, chance in enumerate(mechanism.law(answer)):
            seen = (output,) if view == "report" else tuple(int(output == category) for category in range(mechanism.k))
            law[seen] = law.get(seen, 0) + chance
        return {seen: chance for seen, chance in law.items() if chance}
    pairs = {(face, face): chance for face, chance in enumerate(mechanism.chances)}
    pairs[0, answer] = pairs.get((0, answer), 0) + mechanism.pi_s

    def shown(first, second):
        counts = [tuple(int(turn == category) for category in range(mechanism.k)) for turn in (first, second)]
        told = {"report": (second,), "linked": (first, second), "counts": counts[0] + counts[1], "round two": counts[1]}
        return told[view] if view in told else tuple(b - a for a, b in zip(*counts, strict=True))[1:]

    law = {}
    for pair, chance in pairs.items():
        law[shown(*pair)] = law.get(shown(*pair), 0) + chance
    return {seen: chance for seen, chance in law.items() if chance}


def brute_law(mechanism, view, answers, exact):
    """The law of the sum over respondents: every combination of what each of them does."""
    kind = Fraction if exact else float
    law = {}
    for combination in itertools.product(*(single(mechanism, view, answer).items() for answer in answers)):
        seen = tuple(map(sum, zip(*(outcome for outcome, _ in combination), strict=True)))
        law[seen] = law.get(seen, kind(0)) + math.prod((kind(chance) for _, chance in combination), start=kind(1))
    return law


def brute_curve(first, second, epsilon):
    growth = math.exp(epsilon)
    return math.fsum(max(0.0, float(chance) - growth * float(second.get(seen, 0))) for seen, chance in first.items())


def brute_contests(mechanism, view, n, exact):
    for others in itertools.combinations_with_replacement(range(mechanism.k), n - 1):
        laws = [brute_law(mechanism, view, (answer, *others), exact) for answer in range(mechanism.k)]
        yield from itertools.permutations(laws, 2)


LEAKING = [
    (local.warner(0.75), 8),
    (local.two_coins(0.8, 0.9), 6),
    (toy_deniability(0.5, 0.8, 0.2), 4),
    (local.generalised(3, 1.0), 4),
    (local.round_two([0.3, 0.45], 0.25), 5),
    (local.sampling_privacy([0.275, 0.275], 0.45), 8),
    (local.sampling_privacy([0.2, 0.1, 0.3], 0.4), 3),
]


@pytest.mark.parametrize(("mechanism", "most"), LEAKING, ids=lambda each: each if isinstance(each, int) else name(each))
def test_every_view_leaks_what_brute_force_says(mechanism, most):
    for view in views_of(mechanism):
        sizes = [1] if view in ("report", "linked") else sorted({1, 2, 3, most})
        for n in sizes:
            found = leakage(mechanism, view, n)
            exact = n <= 3
            contests = list(brute_contests(mechanism, view, n, exact))
            assert len(found.contests) == len(contests)
            for epsilon in (0.0, 0.3, 1.0, 3.0):
                assert found.delta(epsilon) == pytest.approx(
                    max(brute_curve(one, other, epsilon) for one, other in contests), rel=1e-9, abs=1e-13
                )
            proved = max(math.fsum(float(chance) for seen, chance in one.items() if seen not in other) for one, other in contests)
            assert found.certain == pytest.approx(proved, rel=1e-9, abs=0.0)
            ratios = [
                chance / other[seen] if seen in other else math.inf for one, other in contests for seen, chance in one.items()
            ]
            assert found.pure_epsilon == pytest.approx(math.log(max(ratios)), rel=1e-9)
            # An epsilon at a delta is the least one: it keeps the delta, and a little less does not.
            for delta in (0.01, 0.1):
                if math.isfinite(least := found.epsilon(delta)):
                    assert found.delta(least) <= delta
                    assert least == 0.0 or least < 1e-9 or found.delta(least * (1 - 1e-6)) > delta
                else:
                    assert found.certain > delta


@pytest.mark.parametrize(("pi0", "pi1", "pi_s"), [(0.275, 0.275, 0.45), (0.3, 0.45, 0.25), (0.1, 0.1, 0.8)])
def test_both_rounds_prove_a_yes_with_chance_pi_s_and_counts_keep_log_ratio_and_delta_pi_s(pi0, pi1, pi_s):
    mechanism = local.sampling_privacy([pi0, pi1], pi_s)
    linked = leakage(mechanism, "linked")
    assert linked.pure_epsilon == math.inf
    assert linked.certain == pytest.approx(pi_s, rel=1e-12)
    for n in range(1, 9):
        counts = leakage(mechanism, "counts", n)
        assert counts.pure_epsilon == math.inf
        assert counts.certain == pytest.approx(pi_s, rel=1e-12)
        assert counts.delta(math.log((pi0 + pi_s) / pi0)) == pytest.approx(pi_s, rel=1e-12)
        assert counts.epsilon(pi_s * 0.999) == math.inf
        # The other way round nothing is proved, and a single respondent is the worst case.
        back = max(leakage(mechanism, "counts", others=(n - 1 - yes, yes), answers=(0, 1)).pure_epsilon for yes in range(n))
        assert back == pytest.approx(math.log((pi0 + pi_s) / pi0), rel=1e-9)


@pytest.mark.parametrize("mechanism", TWO_ROUNDS[:4], ids=name)
def test_counts_of_round_two_leak_as_much_as_round_two_alone(mechanism):
    alone = mechanism.round_two()
    for n in (1, 2, 3):
        two, one = leakage(mechanism, "round two", n), leakage(alone, "counts", n)
        assert two.pure_epsilon == pytest.approx(one.pure_epsilon, rel=1e-12)
        assert [two.delta(epsilon) for epsilon in (0.0, 0.5, 1.0)] == pytest.approx(
            [one.delta(epsilon) for epsilon in (0.0, 0.5, 1.0)], rel=1e-12, abs=1e-15
        )
    assert leakage(mechanism, "report").pure_epsilon == pytest.approx(alone.epsilon, rel=1e-12)


def noisy(law, q, reach):
    """A law on whole numbers or pairs of them, with discrete Laplace noise on each, on a grid."""
    dimensions = len(next(iter(law)))
    steps = np.arange(-reach, reach + 1)
    whole = np.zeros((len(steps),) * dimensions)
    for centre, chance in law.items():
        part = np.array(float(chance))
        for each in centre:
            part = np.multiply.outer(part, (1 - q) / (1 + q) * q ** np.abs(steps - each).astype(float))
        whole += part
    return whole


@pytest.mark.parametrize(
    ("mechanism", "sizes"),
    [
        (local.guarded([0.275, 0.275], 0.45, epsilon=1.0), (1, 2, 4)),
        (local.guarded([0.4, 0.5], 0.1, epsilon=0.5), (1, 3)),
        (local.guarded([0.2, 0.2, 0.2], 0.4, epsilon=1.5), (1, 2)),
    ],
    ids=lambda each: "" if isinstance(each, tuple) else name(each),
)
def test_a_guarded_difference_leaks_what_brute_force_says_and_its_guarantee_is_exact(mechanism, sizes):
    q = math.exp(-1.0 / mechanism.noise.scale)
    for n in sizes:
        found = leakage(mechanism, "published", n)
        assert found.pure_epsilon == pytest.approx(mechanism.published.epsilon(0.0), rel=1e-9)
        assert found.delta(mechanism.published.epsilon(0.0) * (1 + 1e-9)) == 0.0
        grids = [
            tuple(noisy(law, q, 90) for law in contest) for contest in brute_contests(mechanism, "published", n, exact=False)
        ]
        for epsilon in (0.0, 0.2, 0.45):
            deltas = [float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()) for one, other in grids]
            assert found.delta(epsilon) == pytest.approx(max(deltas), rel=1e-9, abs=1e-12)
        assert found.certain == 0.0


@pytest.mark.parametrize(
    "entry", [each for each in GOLDEN if each["name"] == "sp_difference_only_delta"], ids=lambda each: str(each["value"])
)
def test_without_noise_the_difference_leaks_the_golden_hockey_stick(entry):
    yes, eps = entry["inputs"]["yes"], entry["inputs"]["eps"]
    # An epsilon of 40 leaves noise of 1e-17: what is published is the difference itself.
    bare = local.guarded([0.275, 0.275], entry["inputs"]["pis"], epsilon=40.0)
    for no in (0, 3):
        found = leakage(bare, "published", others=(no, yes - 1), answers=(1, 0))
        assert found.delta(eps) == pytest.approx(entry["value"], rel=1e-9)


def test_work_that_is_too_much_and_views_that_are_not_there_are_refused():
    with pytest.raises(BadValue, match="no view"):
        leakage(local.warner(0.75), "linked")
    with pytest.raises(BadValue, match="too much"):
        leakage(local.generalised(5, 1.0), "counts", 200)
    with pytest.raises(BadValue, match="one respondent"):
        leakage(local.warner(0.75), "report", 2)
    with pytest.raises(BadValue, match="open domain"):
        leakage(local.hashing(0, 1.0))
    with pytest.raises(BadValue, match="epsilon"):
        leakage(local.warner(0.75)).delta(-1.0)
    with pytest.raises(BadValue, match="delta"):
        leakage(local.warner(0.75)).epsilon(1.0)


@pytest.mark.parametrize(
    "wrong", [{"others": (1, 1, 1)}, {"others": (1,)}, {"others": (-1, 3)}, {"answers": (0, 5)}, {"answers": (1, 1)}]
)
def test_answers_that_are_no_categories_are_refused(wrong):
    with pytest.raises(BadValue, match=r"others gives|two different"):
        leakage(local.warner(0.75), "counts", 2, **wrong)


@pytest.mark.parametrize("mechanism", EVERY, ids=name)
def test_a_client_refuses_what_is_no_category(mechanism):
    for answer in (-1, mechanism.k):
        with pytest.raises(BadValue, match="none of the categories"):
            mechanism.randomize(np.array([0, answer]), SecretChance())


# Shuffled reports. ------------------------------------------------------------------------------------------------------


def shuffled_law(mechanism, answers):
    """The exact law of the multiset of reports."""
    law = {(): Fraction(1)}
    for answer in answers:
        grown = {}
        for before, chance in law.items():
            for report, own in client_law(mechanism, answer).items():
                seen = tuple(sorted((*before, report)))
                grown[seen] = grown.get(seen, 0) + chance * own
        law = grown
    return law


@pytest.mark.parametrize(
    ("mechanism", "sizes"),
    [
        (local.warner(0.75), (1, 2, 4, 7)),
        (local.warner("99/100"), (2, 5)),
        (local.generalised(3, 1.0), (2, 4)),
        (local.generalised(3, 3.0), (3,)),
        (local.subset(4, 0.5), (2, 3)),
        (local.subset(4, 2.0, 2), (3,)),
    ],
    ids=lambda each: "" if isinstance(each, tuple) else name(each),
)
def test_no_shuffled_reports_leak_more_than_the_curve(mechanism, sizes):
    for n in sizes:
        curve, nearest = Shuffled(n, mechanism.epsilon), math.inf
        for others in itertools.combinations_with_replacement(range(mechanism.k), n - 1):
            # By symmetry of the categories it is enough to replace the answer 0 by 1, both ways.
            laws = [shuffled_law(mechanism, (answer, *others)) for answer in (0, 1)]
            for one, other in (laws, laws[::-1]):
                for share in (0.0, 0.2, 0.5, 0.8, 0.95):
                    epsilon = share * mechanism.epsilon
                    leaked, bound = brute_curve(one, other, epsilon), curve.delta(epsilon)
                    assert leaked <= bound * (1 + 1e-9) + 1e-14
                    nearest = min(nearest, bound / leaked if leaked > 1e-12 else math.inf)
        # The bound is about these mechanisms: it is within a factor of ten of one of them.
        assert nearest < 10.0


def direct_delta(n, local_epsilon, epsilon):
    """Theorem 3.2 of Hiding among the clones, summed as it stands over all C and A in 40 digits."""
    with mpmath.workdps(40):
        rate, a = mpmath.exp(-mpmath.mpf(local_epsilon)), 1 / (1 + mpmath.exp(-mpmath.mpf(local_epsilon)))
        growth, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
        for clones in range(n):
            coins = [mpmath.binomial(clones, heads) / mpmath.mpf(2) ** clones for heads in range(clones + 1)] + [mpmath.mpf(0)]
            chance = mpmath.binomial(n - 1, clones) * rate**clones * (1 - rate) ** (n - 1 - clones)
            for heads in range(clones + 2):
                before = coins[heads - 1] if heads else mpmath.mpf(0)
                first, second = a * before + (1 - a) * coins[heads], (1 - a) * before + a * coins[heads]
                total += chance * max(mpmath.mpf(0), first - growth * second)
        return float(total)


@pytest.mark.parametrize(("n", "local_epsilon"), [(1, 1.0), (2, 0.3), (10, 1.0), (40, 2.0), (25, 4.0)])
def test_the_curve_is_the_sum_of_the_theorem(n, local_epsilon):
    curve = Shuffled(n, local_epsilon)
    for share in (0.0, 0.1, 0.4, 0.7, 0.9):
        epsilon = share * local_epsilon
        direct = direct_delta(n, local_epsilon, epsilon)
        plain = (math.exp(local_epsilon) - math.exp(epsilon)) / (1 + math.exp(local_epsilon))
        found = curve.delta(epsilon)
        assert found == pytest.approx(min(direct, plain), rel=1e-8, abs=1e-15)
        assert found >= min(direct, plain) * (1 - 1e-13)
    assert curve.delta(local_epsilon) == 0.0


def test_shuffling_five_thousand_reports_gives_the_published_figure_and_beats_the_closed_form():
    n, local_epsilon, delta = 5000, 2.0, 1e-6
    found = Shuffled(n, local_epsilon).epsilon(delta)
    assert found == pytest.approx(0.225, abs=5e-4)
    x, y = 8 * math.sqrt(math.exp(local_epsilon) * math.log(4 / delta) / n), 8 * math.exp(local_epsilon) / n
    # Theorem 3.1 of the same paper.
    closed = math.log(1 + (1 - math.exp(-local_epsilon)) / (1 + math.exp(-local_epsilon - math.log(1 + x + y))) * (x + y))
    assert closed == pytest.approx(0.686, abs=5e-4)
    assert found < closed / 3


def test_shuffled_curves_fall_with_epsilon_and_reports_and_rise_with_the_local_loss():
    deltas = [Shuffled(1000, 1.0).delta(epsilon) for epsilon in np.linspace(0.0, 1.0, 30)]
    assert deltas == sorted(deltas, reverse=True)
    for losses in (
        [Shuffled(n, 1.0).epsilon(1e-6) for n in (10, 100, 1000, 10_000)][::-1],
        [Shuffled(1000, local_epsilon).epsilon(1e-6) for local_epsilon in (0.1, 0.5, 1.0, 2.0, 4.0)],
        [Shuffled(1000, 1.0).epsilon(delta) for delta in (1e-3, 1e-6, 1e-9)],
    ):
        assert losses == sorted(losses)
        assert len(set(losses)) == len(losses)
    # An epsilon at a delta keeps the delta.
    curve = Shuffled(300, 1.5)
    assert curve.delta(curve.epsilon(1e-5)) <= 1e-5 < curve.delta(curve.epsilon(1e-5) * 0.999)
    assert Shuffled.from_dict(curve.to_dict()) == curve


# How much of independent errors a design's variance counts. ----------------------------------------------------------------

ROWS = 12
STRATA = np.repeat([0, 1, 2], [4, 5, 3])
CLUSTERS = np.array([0, 0, 1, 1, 0, 0, 1, 2, 2, 0, 0, 0])
LONELY_STRATA = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 3])
SIZES = np.array([8.0] * 4 + [9.0] * 5 + [30.0] * 3)
LONELY_SIZES = np.array([8.0] * 4 + [9.0] * 6 + [7.0, 5.0])
PI = np.random.default_rng(7).uniform(0.1, 0.9, ROWS)
UNITS = np.arange(ROWS)


def joint_probabilities():
    table = np.outer(PI, PI) * 0.9
    np.fill_diagonal(table, PI)
    return table


DESIGNS = {
    "rows with replacement": staged_design(STRATA, [UNITS], None, nest=True, lonely="refuse"),
    "rows without replacement": staged_design(STRATA, [UNITS], [SIZES], nest=True, lonely="refuse"),
    "everybody": staged_design(np.zeros(ROWS, int), [UNITS], [np.full(ROWS, 12.0)], nest=True, lonely="refuse"),
    **{
        f"clusters, {rule}": staged_design(STRATA, [CLUSTERS], None, nest=True, lonely=rule)
        for rule in ("adjust", "average", "certainty")
    },
    **{
        f"clusters of a population, {rule}": staged_design(STRATA, [CLUSTERS], [SIZES], nest=True, lonely=rule)
        for rule in ("adjust", "average", "certainty")
    },
    **{
        f"two lonely strata, {rule}": staged_design(LONELY_STRATA, [UNITS], [LONELY_SIZES], nest=True, lonely=rule)
        for rule in ("adjust", "average", "certainty")
    },
    **{
        f"two stages, {rule}": staged_design(STRATA, [CLUSTERS, UNITS], [SIZES, np.full(ROWS, 12.0)], nest=True, lonely=rule)
        for rule in ("adjust", "average", "certainty")
    },
    **{
        sampling: unequal_design(STRATA, UNITS, PI, sampling, None, None)
        for sampling in ("poisson", "brewer", "deville", "overton", "hartley-rao")
    },
    **{
        f"clusters, {sampling}": unequal_design(np.zeros(ROWS, int), UNITS // 2, np.repeat(PI[:6], 2), sampling, None, None)
        for sampling in ("poisson", "brewer", "deville", "overton", "hartley-rao")
    },
    **{
        sampling: unequal_design(np.zeros(ROWS, int), UNITS, PI, sampling, joint_probabilities(), None)
        for sampling in ("horvitz-thompson", "yates-grundy")
    },
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_own_squares_are_the_variance_at_unit_vectors(design):
    # A variance is a quadratic form; with independent errors only its diagonal counts, which unit vectors show.
    diagonal = [design.variance(row) for row in np.eye(ROWS)]
    assert design.own_squares() == pytest.approx(diagonal, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
def test_a_variance_estimate_counts_independent_errors_by_its_own_squares(design):
    # E V(y + e) - V(y) = sum of own squares times variances: every sign pattern of errors +-s, exactly.
    rng = np.random.default_rng(8)
    y, deviations = rng.normal(size=ROWS), rng.uniform(0.5, 2.0, ROWS)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=6)))
    # Six rows err, which keeps the list of patterns short; the others do not.
    moved = np.zeros((len(signs), ROWS))
    moved[:, ::2] = signs * deviations[::2]
    mean = np.mean([design.variance(y + error) for error in moved])
    assert mean - design.variance(y) == pytest.approx(float(design.own_squares()[::2] @ deviations[::2] ** 2), rel=1e-9)


def test_binomial_counts_of_a_census_are_the_whole_enumeration_of_a_small_one():
    # Three respondents by client code, all outcomes: the law of the count is binomial with the client's own p and q.
    mechanism = local.two_coins(0.85, 0.3)
    answers = np.array([1, 1, 0])
    law = every_outcome(lambda chance: int(mechanism.marks(mechanism.randomize(answers, chance), 1).sum()))
    p, q = (float(each) for each in mechanism.hit(1))
    expected = np.convolve(binom.pmf(np.arange(3), 2, p), [1 - q, q])
    assert [float(law[count]) for count in range(4)] == pytest.approx(expected.tolist(), rel=1e-12)
