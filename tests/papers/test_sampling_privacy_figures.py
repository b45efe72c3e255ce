"""Joy and Gerla's Sampling Privacy, number by number: golden figures and the verdicts on each equation.

The figures are those of tests/golden/local.json (closed forms in 50 digits, exact enumerations). Each name has one function here
that asks the package for the same quantity. Where the paper prints a wrong formula the figure is computed as printed, and the
package must give the right one instead.
"""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import dpsurvey.local as local
from dpsurvey.errors import Refusal
from dpsurvey.local.chance import every_outcome
from dpsurvey.local.leakage import leakage
from dpsurvey_papers.sampling_privacy.toys import toy_deniability, toy_noise

ENTRIES = json.loads((Path(__file__).parents[1] / "golden" / "local.json").read_text())
YES = 1


def binary(pi0, pis):
    """The binary mechanism of section 4.1, with pi_1 = 1 - pi_0 - pi_s taken exactly."""
    rest = 1 - Fraction(str(pi0)) - Fraction(str(pis))
    return local.sampling_privacy([pi0, rest], pis)


def count_variance(mechanism, yes, no):
    """The variance of the estimated number of "yes"."""
    own, other = mechanism.spread(YES)
    return yes * own + no * other


def answer_order(direction):
    return {"yes||no": (1, 0), "no||yes": (0, 1)}[direction]


def difference_law(mechanism, answers):
    """The law of c2 - c1 for "yes", from the client's own code, as an array that starts at 0."""
    laws = {}
    for answer in set(answers):
        found = every_outcome(
            lambda chance, answer=answer: int(mechanism.marks(mechanism.randomize(np.array([answer]), chance), YES)[0])
        )
        assert min(found) >= 0
        laws[answer] = np.array([float(found.get(step, 0)) for step in (0, 1)])
    whole = np.ones(1)
    for answer in answers:
        whole = np.convolve(whole, laws[answer])
    return whole


def hockey_stick(first, second, eps):
    size = max(len(first), len(second))
    first, second = (np.pad(each, (0, size - len(each))) for each in (first, second))
    return float(np.maximum(first - math.exp(eps) * second, 0.0).sum())


# What each name of the figures is, asked of the package. --------------------------------------------------------------------


def rr_eps_yes_only(pi1, pi2):
    """Eq. 30 as printed: the report "yes" alone. The package's loss is never below it, and above it for pi2 > 1/2."""
    b = (1 - pi1) * pi2
    printed = math.log((pi1 + b) / b)
    assert local.two_coins(pi1, pi2).epsilon >= printed - 1e-12
    return printed


def rr_sd_paper(population, pi1, pi2):
    """Footnote 2 as printed. It is neither the deviation of the noise nor of the estimate, which the package gives."""
    printed = math.sqrt((1 - pi1) * pi2 * population)
    mechanism = local.two_coins(pi1, pi2)
    noise = math.sqrt(float(mechanism.law(0)[YES] * mechanism.law(0)[0]) * population)
    estimator = math.sqrt(count_variance(mechanism, 100, population - 100))
    assert noise < printed < estimator
    return printed


def sp_difference_only_delta(yes, pis, eps, direction):
    # pi_0 plays no part: any die with this pi_s gives the same figure.
    found = []
    for pi0 in (0.275, 0.1, 0.5):
        mechanism = binary(pi0, pis)
        first, second = difference_law(mechanism, [1] * yes), difference_law(mechanism, [1] * (yes - 1) + [0])
        found.append(hockey_stick(first, second, eps) if direction == "yes||no" else hockey_stick(second, first, eps))
    assert max(found) - min(found) < 1e-12
    return found[0]


def sp_two_counts_delta(yes, no, pi0, pis, eps, direction):
    return leakage(binary(pi0, pis), "counts", others=(no, yes - 1), answers=answer_order(direction)).delta(eps)


def sp_two_counts_eps_delta_worst_case(pi0, pis):
    """Over all data sets of up to eight respondents: no answer "no" is proved, a "yes" with probability pi_s."""
    mechanism, eps, delta = binary(pi0, pis), 0.0, 0.0
    for n in range(1, 9):
        for yes in range(n):
            others = (n - 1 - yes, yes)
            eps = max(eps, leakage(mechanism, "counts", others=others, answers=(0, 1)).pure_epsilon)
            delta = max(delta, leakage(mechanism, "counts", others=others, answers=(1, 0)).certain)
    return [eps, delta]


def figure6_bounds(mechanism, truth, n, z):
    return [math.floor(y + z * math.sqrt(count_variance(mechanism, y, n - y))) for y in truth]


ASKED = {
    "rr_eps_yes_only": rr_eps_yes_only,
    "rr_eps": lambda pi1, pi2: local.two_coins(pi1, pi2).epsilon,
    "rr_sd_paper": rr_sd_paper,
    "rr_estimator_sd": lambda population, yes, pi1, pi2: math.sqrt(
        count_variance(local.two_coins(pi1, pi2), yes, population - yes)
    ),
    "rr_variance": lambda population, yes, pi1, pi2: count_variance(local.two_coins(pi1, pi2), yes, population - yes),
    "sp_eps_linked_pair": lambda pi0, pis: leakage(binary(pi0, pis), "linked").pure_epsilon,
    "sp_delta_linked_pair": lambda pi0, pis: leakage(binary(pi0, pis), "linked").certain,
    "sp_eps_round2": lambda pi0, pis: binary(pi0, pis).round_two().epsilon,
    "sp_eps_multi": lambda pi_v, pis: (
        local.sampling_privacy([1 - Fraction(str(pis)) - sum(Fraction(str(each)) for each in pi_v), *pi_v], pis).printed_epsilon
    ),
    "sp_variance": lambda yes, pis: count_variance(binary(0.275, pis), yes, 10**6),
    "sp_round2_only_variance": lambda yes, no, pi0, pis: count_variance(binary(pi0, pis).round_two(), yes, no),
    "sp_difference_only_delta": sp_difference_only_delta,
    "sp_two_counts_delta": sp_two_counts_delta,
    "sp_two_counts_eps_delta_worst_case": sp_two_counts_eps_delta_worst_case,
    "toy_variance": lambda yes, no, pis, pi1, pi2: count_variance(toy_deniability(pis, pi1, pi2), yes, no),
    "figure6_H": lambda ground_truth, pis, z: figure6_bounds(binary(0.275, pis), ground_truth, 10_000, z),
    "figure6_RR": lambda ground_truth, population, pi1, pi2, z: figure6_bounds(
        local.two_coins(pi1, pi2), ground_truth, population, z
    ),
}


def test_every_figure_of_the_paper_is_asked_for():
    assert len(ENTRIES) == 33
    assert {entry["paper"] for entry in ENTRIES} == {"003"}
    assert {entry["name"] for entry in ENTRIES} == set(ASKED)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry['name']}-{entry['section']}")
def test_the_package_gives_the_figure(entry):
    given = {"population" if name == "N" else name: value for name, value in entry["inputs"].items()}
    found = ASKED[entry["name"]](**given)
    expected = float("inf") if entry["value"] == "inf" else entry["value"]
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-15)


# The verdicts on the paper's claims, in its order. -----------------------------------------------------------------


def test_the_intro_divides_by_the_wrong_coin():
    mechanism = local.two_coins(0.85, 0.3)
    scale, shift = mechanism.line(YES)
    # 60 of 100 answer yes: the expected count, as the footnote adds it up, is 51 and 4.5.
    expected = 60 * mechanism.law(1)[YES] + 40 * mechanism.law(0)[YES]
    assert expected == Fraction(111, 2)
    assert scale * expected + 100 * shift == 60
    assert (expected - Fraction(9, 2)) / Fraction(4, 5) == Fraction(255, 4)
    assert scale == 1 / Fraction(17, 20)


@pytest.mark.parametrize(("population", "noise", "estimator"), [(10**4, 20.73, 24.533), (10**6, 207.3, 243.902)])
def test_deviations_of_the_intro_are_larger_than_printed(population, noise, estimator):
    mechanism = local.two_coins(0.85, 0.3)
    b = float(mechanism.law(0)[YES])
    assert math.sqrt(population * b * (1 - b)) == pytest.approx(noise, rel=2e-4)
    assert math.sqrt(count_variance(mechanism, 100, population - 100)) == pytest.approx(estimator, abs=5e-4)


def test_the_first_toy_says_nothing_and_cannot_be_estimated():
    toy = toy_noise(0.4)
    assert toy.law(0) == toy.law(1) == [0, Fraction(2, 5), Fraction(3, 5)]
    assert toy.epsilon == 0.0
    with pytest.raises(Refusal, match="one equation, two unknowns"):
        toy.line(YES)


def test_equations_2_to_5_hold_once_their_parentheses_are_restored():
    pis, pi1, pi2 = (Fraction(each) for each in ("0.5", "0.8", "0.2"))
    toy = toy_deniability(0.5, 0.8, 0.2)
    assert toy.law(1) == [pis - pis * (pi1 + (1 - pi1) * pi2), pis * (pi1 + (1 - pi1) * pi2), 1 - pis]
    assert toy.law(0) == [pis - pis * (1 - pi1) * pi2, pis * (1 - pi1) * pi2, 1 - pis]
    # Eq. 5: subtract the expected noise of all N, silent ones too, and divide by pi_s pi_1.
    scale, shift = toy.line(YES)
    assert (scale, shift) == (1 / (pis * pi1), -(1 - pi1) * pi2 / pi1)
    # As printed, without parentheses, pi_s multiplies the first term alone; that is not a probability of this protocol.
    assert pis * pi1 + 1 - pi1 * pi2 != toy.law(1)[YES]


@pytest.mark.parametrize("pis", [0.1, 0.5, 0.9])
def test_visible_silence_adds_nothing_to_privacy(pis):
    assert toy_deniability(pis, 0.8, 0.2).epsilon == local.two_coins(0.8, 0.2).epsilon


@pytest.mark.parametrize("no", [0, 1, 30])
@pytest.mark.parametrize("yes", [1, 4])
def test_the_difference_of_rounds_is_exactly_binomial_whatever_the_others_answer(yes, no):
    found = difference_law(binary(0.275, 0.45), [1] * yes + [0] * no)
    assert found[: yes + 1] == pytest.approx(binom.pmf(np.arange(yes + 1), yes, 0.45), rel=1e-12)
    assert not found[yes + 1 :].any()


def test_the_variance_of_sampling_privacy_does_not_grow_with_no_and_that_of_round_two_does():
    both = binary(0.275, 0.45)
    alone = both.round_two()
    assert count_variance(both, 100, 100) == count_variance(both, 100, 10**9) == pytest.approx(100 * 0.55 / 0.45)
    assert count_variance(alone, 100, 9_900) > 80 * count_variance(both, 100, 9_900)
    assert math.sqrt(count_variance(alone, 100, 9_900)) == pytest.approx(99.2, abs=0.1)
    assert math.sqrt(count_variance(both, 100, 9_900)) == pytest.approx(11.06, abs=0.01)


def test_round_two_alone_has_the_variance_of_theory():
    alone = local.round_two([0.275, 0.275], 0.45)
    expected = [(0.275 * 0.725) / 0.45**2, (0.725 * 0.275) / 0.45**2]
    assert list(alone.spread(YES)) == pytest.approx(expected)
    lopsided = local.round_two([0.3, 0.45], 0.25)
    assert list(lopsided.spread(YES)) == pytest.approx([0.3 * 0.7 / 0.25**2, 0.55 * 0.45 / 0.25**2])


def test_v_values_need_v_plus_one_outputs_and_v_plus_two_faces():
    nine = local.sampling_privacy([0.055] * 10, 0.45)
    faces = every_outcome(lambda chance: int(nine.throw(1, chance)[0]))
    assert (nine.k, len(faces)) == (10, 11)
    # The last output takes what is left: 1 - pi_0 - ... - pi_(V-1) - pi_s. The text subtracts pi_V too.
    assert faces[9] == 1 - sum(faces[face] for face in (*range(9), 10)) == Fraction(11, 200)
    assert faces[10] == Fraction(9, 20)


@pytest.mark.parametrize(("pi0", "pis"), [(0.275, 0.45), (0.5, 0.45), (0.3, 0.25), (0.05, 0.45)])
def test_equations_21_and_25_need_the_larger_of_both_outputs(pi0, pis):
    zero, one = math.log((pi0 + pis) / pi0), math.log((1 - pi0) / (1 - pi0 - pis))
    found = binary(pi0, pis)
    assert found.printed_epsilon == pytest.approx(max(zero, one), rel=1e-12)
    assert leakage(found, "report").pure_epsilon == pytest.approx(max(zero, one), rel=1e-12)


def test_swapping_numerator_and_denominator_in_equations_19_and_20_changes_no_maximum():
    alone = binary(0.3, 0.25).round_two()
    one, other = alone.law(0), alone.law(1)
    ratios = [math.log(a / b) for a, b in zip(one, other, strict=True)]
    assert max(map(abs, ratios)) == pytest.approx(alone.epsilon, rel=1e-12)
    assert max(ratios) == pytest.approx(math.log(0.55 / 0.3))
    assert -min(ratios) == pytest.approx(math.log(0.7 / 0.45))


def test_equation_29_is_largest_at_the_rarest_output_and_falls_with_its_chance():
    chances, tenth = [0.05, 0.1, 0.15, 0.25], Fraction(1, 10)
    assert local.round_two(chances, 0.45).epsilon == pytest.approx(math.log(1 + 0.45 / 0.05), rel=1e-12)
    found = [
        local.round_two([low, low, 11 * tenth / 2 - 2 * low], 0.45).epsilon
        for low in (tenth / 2, tenth, 3 * tenth / 2, 9 * tenth / 5)
    ]
    # Section 5.2 says that leakage increases with pi_v.
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 4


@pytest.mark.parametrize(("pi0", "pis"), [(0.275, 0.45), (0.3, 0.25), (0.1, 0.8)])
def test_linked_rounds_prove_a_yes_with_probability_pi_s_at_every_epsilon(pi0, pis):
    mechanism = binary(pi0, pis)
    law = every_outcome(lambda chance: tuple(mechanism.randomize(np.array([YES]), chance)[0].tolist()))
    other = every_outcome(lambda chance: tuple(mechanism.randomize(np.array([0]), chance)[0].tolist()))
    assert law[0, 1] == Fraction(str(pis))
    assert (0, 1) not in other
    seen = leakage(mechanism, "linked")
    assert seen.pure_epsilon == mechanism.epsilon == math.inf
    assert [seen.delta(eps) for eps in (0.0, 1.0, 5.0, 50.0)] == pytest.approx([pis] * 4, rel=1e-12)
    with pytest.raises(Refusal, match="guarantees nothing"):
        _ = mechanism.profile


def test_two_counts_prove_a_single_yes_with_probability_pi_s_however_many_say_no():
    for no in (0, 1, 5, 20):
        seen = leakage(binary(0.275, 0.45), "counts", others=(no, 0), answers=(1, 0))
        assert [seen.delta(eps) for eps in (0.0, 2.0, 20.0)] == pytest.approx([0.45] * 3, rel=1e-12)


def test_a_larger_population_does_not_strengthen_privacy_more_yes_does():
    mechanism = binary(0.275, 0.45)

    def delta(yes, no):
        first, second = ([1] * yes + [0] * no), [1] * (yes - 1) + [0] * (no + 1)
        laws = difference_law(mechanism, first), difference_law(mechanism, second)
        return max(hockey_stick(*laws, 0.5), hockey_stick(*laws[::-1], 0.5))

    assert delta(5, 0) == pytest.approx(delta(5, 500), rel=1e-9)
    assert delta(5, 0) == pytest.approx(0.0636, abs=5e-5)
    found = [delta(yes, 0) for yes in (5, 20, 50, 100)]
    assert found == pytest.approx([0.063612, 0.0033975, 6.2577e-5, 2.1867e-7], rel=1e-4)
    # With both counts more is seen: the others' noise hides the rest as they grow in number, and never the difference.
    seen = [leakage(mechanism, "counts", others=(no, 4), answers=(1, 0)).delta(0.5) for no in (0, 5, 20, 60)]
    assert seen == sorted(seen, reverse=True)
    assert delta(5, 0) < seen[-1] < 1.05 * delta(5, 0)
    # All sampled at once cannot happen with one yes less: a floor that no epsilon passes.
    for yes in (1, 3, 6):
        first, second = difference_law(mechanism, [1] * yes), difference_law(mechanism, [1] * (yes - 1) + [0])
        assert hockey_stick(first, second, 60.0) == pytest.approx(0.45**yes, rel=1e-9)


def test_equation_30_is_too_small_where_the_second_coin_favours_yes():
    mechanism = local.two_coins(0.8, 0.9)
    assert rr_eps_yes_only(0.8, 0.9) == pytest.approx(1.695, abs=5e-4)
    assert mechanism.epsilon == pytest.approx(3.714, abs=5e-4)
    b = 0.2 * 0.9
    assert mechanism.epsilon == pytest.approx(math.log((1 - b) / (0.2 * 0.1)), rel=1e-12)
    for pi2 in (0.1, 0.3, 0.5):
        assert local.two_coins(0.8, pi2).epsilon == pytest.approx(rr_eps_yes_only(0.8, pi2), rel=1e-12)


def test_four_times_lower_leakage_is_one_output_of_round_two():
    randomised = local.two_coins(0.8, 0.2).epsilon
    assert randomised == pytest.approx(3.0445, abs=5e-5)
    assert math.log(1 + 0.45 / 0.395) == pytest.approx(randomised / 4, rel=2e-3)
    # No die has two such outputs beside pi_s = .45; the other one leaks more, and both rounds leak everything.
    assert binary(0.155, 0.45).printed_epsilon > 1.7 * randomised / 4
    assert binary(0.155, 0.45).epsilon == math.inf


def test_figure_6_compares_a_95_percent_bound_with_a_99_percent_one():
    held = {entry["name"]: entry for entry in ENTRIES}
    truth = held["figure6_RR"]["inputs"]["ground_truth"]
    assert len(truth) == 11
    assert sum(truth) == 85
    assert held["figure6_RR"]["value"] == [y + 63 for y in truth]
    mechanism = local.two_coins(0.8, 0.2)
    assert figure6_bounds(mechanism, truth, 10_000, 1.96) == [y + 48 for y in truth]
    assert figure6_bounds(mechanism, truth, 10_000, 2.576) == [y + 63 for y in truth]
    # The bars of Sampling Privacy are at two deviations; at 2.576 they would be others.
    assert figure6_bounds(binary(0.275, 0.45), truth, 10_000, 2.576) != held["figure6_H"]["value"]
