"""Estimates over simulated surveys: unbiased, with the right variance and coverage, under every mechanism and design.

Populations, samples and clients are seeded, so a run says the same every time. A z-test alarms at 5.9 deviations, 4e-9 of all
seeds; there are fewer than 250 of them, so they fail a correct package for less than 1e-6 of all seeds. Coverage is judged, as
is usual, by a 99.9 % interval around what was measured: one seed in a thousand would fail each of those tests, and the seeds
here were not chosen. Each kind of test is also shown to alarm: for a scale or shift that is off, an error left out, a dropped
correction, intervals of the wrong length.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

import dpsurvey.local as local
from dpsurvey.errors import BadValue
from dpsurvey.local.estimated_shares import simple_share
from dpsurvey_papers.sampling_privacy.toys import toy_deniability

Z = 5.9
LABELS = ("a", "b", "c", "d")
SHARES = {2: (0.7, 0.3), 4: (0.5, 0.3, 0.15, 0.05)}


class SeededChance:
    """A client's chances from a seeded generator, for simulations only."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def pick(self, weights, count):
        bounds = np.cumsum(np.array(weights, dtype=np.int64))
        return np.searchsorted(bounds, self._rng.integers(0, bounds[-1], count), side="right")

    def below(self, bound, count):
        return self._rng.integers(0, bound, count)


MECHANISMS = {
    "two coins": local.two_coins(0.8, 0.3),
    "warner": local.warner(0.75),
    "warner, lies more often than not": local.warner(0.2),
    "toy": toy_deniability(0.5, 0.8, 0.2),
    "generalised": local.generalised(4, 1.0),
    "unary": local.unary(4, 1.0),
    "hashing": local.hashing(4, 1.0),
    "subset": local.subset(4, 1.0, 2),
    "round two": local.round_two([0.1, 0.2, 0.1, 0.2], 0.4),
    "sampling privacy": local.sampling_privacy([0.275, 0.275], 0.45),
    "sampling privacy of four": local.sampling_privacy([0.1, 0.2, 0.1, 0.2], 0.4),
}


def asked(mechanism):
    return local.Question.ask("q", LABELS[: mechanism.k], mechanism)


def reports(question, answers, chance, **public):
    """A table of reports by client code, with public columns."""
    table = {"answer": [LABELS[each] for each in answers], "who": np.arange(len(answers))} | public
    return local.randomize_table(question, table, answer="answer", respondent="who", keep=list(public), chance=chance)


def noise_variance(mechanism, category, share):
    own, other = mechanism.spread(category)
    return own * share + other * (1.0 - share)


def exact_marks(mechanism, category):
    """Mean marks of the two groups of respondents: (p, q), and for two rounds the chances to move in or out."""
    if mechanism.rounds == 1:
        return tuple(float(each) for each in mechanism.hit(category))
    return (0.0, -float(mechanism.pi_s)) if category == 0 else (float(mechanism.pi_s), 0.0)


# Simple random samples of a large population. ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_shares_from_client_code_are_unbiased_and_a_scale_4_percent_or_a_shift_15_percent_off_is_seen(mechanism):
    n, question, truth = 150_000, asked(mechanism), SHARES[mechanism.k]
    answers = np.random.default_rng(1).choice(mechanism.k, n, p=truth)
    found = local.estimate(question, reports(question, answers, SeededChance(2)))
    assert found.n == n
    powers = []
    for category, row in enumerate(found.rows):
        share = truth[category]
        p, q = exact_marks(mechanism, category)
        variance = (share * (1 - share) + noise_variance(mechanism, category, share)) / n
        error = row["estimate"] - share
        assert abs(error) < Z * math.sqrt(variance)
        # The two parts of the error, as far as the estimated share lets them be known.
        slack = Z * math.sqrt(variance) / n
        own, other = mechanism.spread(category)
        expected = noise_variance(mechanism, category, share) / n
        assert row["se_noise"] ** 2 == pytest.approx(expected, rel=1e-9, abs=slack * abs(own - other) + 1e-15)
        assert row["se_sampling"] ** 2 == pytest.approx(share * (1 - share) / n, abs=slack)
        shift = float(mechanism.line(category)[1])
        wrong = [0.04 * (row["estimate"] - shift), 0.15 * shift]
        powers.append([abs(error + each) > Z * math.sqrt(variance) for each in wrong])
        if mechanism.rounds == 1:
            assert share * p + (1 - share) * q == pytest.approx((share - shift) / float(mechanism.line(category)[0]))
    scale_seen, shift_seen = np.any(powers, axis=0)
    assert scale_seen
    # Sampling Privacy needs no shift where its marks start at 0.
    assert shift_seen or mechanism.rounds == 2 or mechanism.kind == "toy-deniability"


def test_a_shift_of_the_toy_that_forgets_the_silent_is_rejected():
    mechanism, n = MECHANISMS["toy"], 150_000
    question = asked(mechanism)
    answers = np.random.default_rng(1).choice(2, n, p=SHARES[2])
    row = local.estimate(question, reports(question, answers, SeededChance(2))).rows[1]
    # Counting as respondents only those who spoke (half of them) halves the noise that is subtracted.
    wrong = row["estimate"] - 0.5 * float(mechanism.line(1)[1])
    assert abs(wrong - 0.3) > Z * row["se"]


def test_candidates_of_an_open_domain_are_estimated_without_a_list():
    n, places = 60_000, {"Ulm": 0.4, "Rome": 0.2, "Oslo": 0.0}
    question = local.Question.ask("where", (), {"kind": "hashing", "epsilon": 2.0})
    drawn = np.random.default_rng(3).choice(3, n, p=[0.4, 0.2, 0.4])
    # Everybody else is somewhere that nobody asks about.
    answers = [("Ulm", "Rome", f"hamlet {number}")[each] for number, each in enumerate(drawn)]
    table = local.randomize_table(question, {"place": answers}, answer="place", chance=SeededChance(4))
    found = local.estimate(question, table, candidates=list(places))
    for row in found.rows:
        share = places[row["category"]]
        variance = (share * (1 - share) + noise_variance(question.mechanism, 0, share)) / n
        assert abs(row["estimate"] - share) < Z * math.sqrt(variance)
        assert row["se"] ** 2 == pytest.approx(variance, rel=0.05)
    with pytest.raises(BadValue, match="add up to one"):
        found.consistent()


# Coverage at the level of mark sums. --------------------------------------------------------------------------------------------

RUNS = 20_000


def drawn_sums(rng, mechanism, category, n, share, population, runs):
    """Sums of marks in many samples: who answers what, then what their clients mark, by binomials with the exact chances."""
    if population is None:
        holding = rng.binomial(n, share, runs)
    else:
        members = round(share * population)
        holding = rng.hypergeometric(members, population - members, n, runs)
    p, q = exact_marks(mechanism, category)
    if mechanism.rounds == 1:
        return rng.binomial(holding, p) + rng.binomial(n - holding, q)
    return -rng.binomial(n - holding, -q) if category == 0 else rng.binomial(holding, p)


def shares_of(mechanism, category, sums, n, population):
    """One estimate for each sum; equal sums are estimated once."""
    values, place = np.unique(sums, return_inverse=True)
    found = [simple_share(mechanism, category, float(value), n, population, 0.95) for value in values]
    columns = np.array([[each.estimate, each.sampling, each.noise, each.low, each.high] for each in found])
    return columns[place].T


def covers_as_stated(hits, runs, conservative=False):
    """Whether the 99.9 % interval around the measured coverage holds 0.95, or, where allowed, lies above it and below 0.975."""
    low = float(beta.ppf(0.0005, hits, runs - hits + 1))
    high = float(beta.ppf(0.9995, hits + 1, runs - hits)) if hits < runs else 1.0
    return low <= 0.95 <= high or (conservative and low > 0.95 and high <= 0.975)


# n, share of the category, population; the last is a census. Samples are large, so that steps of a count do not matter.
SITUATIONS = [(20_000, 0.3, None), (20_000, 0.3, 24_000), (20_000, 0.3, 20_000)]


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_intervals_of_simple_random_samples_hold_95_percent_and_variances_are_right(mechanism, situation):
    n, share, population = situation
    sums = drawn_sums(np.random.default_rng([5, n]), mechanism, 1, n, share, population, RUNS)
    estimate, sampling, noise, low, high = shares_of(mechanism, 1, sums, n, population)
    finite = 1.0 if population is None else (population - n) / (population - 1)
    variance = (finite * share * (1 - share) + noise_variance(mechanism, 1, share)) / n
    assert abs(estimate.mean() - share) < Z * math.sqrt(variance / RUNS)
    # The variance of 20,000 nearly normal values is known to 1 %, so 6 % is six deviations.
    assert estimate.var() == pytest.approx(variance, rel=0.06)
    assert (sampling + noise).mean() == pytest.approx(variance, rel=0.01)
    # Nothing here is conservative: the interval around the measured coverage holds 95 % itself.
    assert covers_as_stated(int(np.count_nonzero((low <= share) & (share <= high))), RUNS)
    assert np.all((low >= 0.0) & (high <= 1.0) & (low <= high))


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_intervals_of_small_samples_hold_95_percent_on_average_over_shares(mechanism, n):
    # A count moves in steps, here of up to a quarter of its deviation, and half a step is added for it: on average over shares
    # from .2 to .6 that is conservative, between 95 and 97.5 %.
    rng = np.random.default_rng([10, n])
    share = rng.uniform(0.2, 0.6, RUNS)
    sums = drawn_sums(rng, mechanism, 1, n, share, None, RUNS)
    *_, low, high = shares_of(mechanism, 1, sums, n, None)
    hits = int(np.count_nonzero((low <= share) & (share <= high)))
    assert covers_as_stated(hits, RUNS, conservative=True)


def test_a_share_of_nothing_is_covered_and_never_below_zero():
    # At 0 an interval can only miss on one side: coverage lies between 95 % and 97.5 %, which is not discreteness but the edge.
    for kind in ("warner", "generalised", "unary", "subset"):
        mechanism = MECHANISMS[kind]
        sums = drawn_sums(np.random.default_rng(6), mechanism, 1, 1000, 0.0, None, RUNS)
        *_, low, high = shares_of(mechanism, 1, sums, 1000, None)
        hits = int(np.count_nonzero((low <= 0.0) & (high >= 0.0)))
        assert 0.95 < hits / RUNS < 0.98


def test_the_check_of_coverage_rejects_intervals_that_forget_an_error_or_the_finite_population():
    mechanism, n, share = MECHANISMS["generalised"], 20_000, 0.3
    rng = np.random.default_rng(7)
    estimate, sampling, noise, *_ = shares_of(mechanism, 1, drawn_sums(rng, mechanism, 1, n, share, None, RUNS), n, None)

    def coverage(se):
        return int(np.count_nonzero(np.abs(estimate - share) <= 1.96 * se))

    assert covers_as_stated(coverage(np.sqrt(sampling + noise)), RUNS)
    assert not covers_as_stated(coverage(np.sqrt(sampling)), RUNS, conservative=True)
    assert not covers_as_stated(coverage(np.sqrt(noise)), RUNS, conservative=True)
    assert not covers_as_stated(coverage(1.05 * np.sqrt(sampling + noise)), RUNS)
    assert not covers_as_stated(coverage(0.95 * np.sqrt(sampling + noise)), RUNS, conservative=True)
    # A census with the sampling error of a large population is far too wide, whatever is allowed.
    coins = MECHANISMS["two coins"]
    sums = drawn_sums(rng, coins, 1, n, share, n, RUNS)
    *_, low, high = shares_of(coins, 1, sums, n, None)
    assert not covers_as_stated(int(np.count_nonzero((low <= share) & (share <= high))), RUNS, conservative=True)


END_TO_END = ("two coins", "generalised", "unary", "hashing", "subset", "sampling privacy of four")


@pytest.mark.parametrize("kind", END_TO_END)
def test_client_code_and_mark_sums_agree(kind):
    mechanism, n, runs = MECHANISMS[kind], 300, 300
    question, truth, chance = asked(mechanism), SHARES[mechanism.k], SeededChance(8)
    rng = np.random.default_rng(9)
    rows = []
    for _ in range(runs):
        answers = rng.choice(mechanism.k, n, p=truth)
        rows.append(local.estimate(question, reports(question, answers, chance)).rows[1])
    sums = drawn_sums(rng, mechanism, 1, n, truth[1], None, RUNS)
    simulated = shares_of(mechanism, 1, sums, n, None)
    estimates = np.array([row["estimate"] for row in rows])
    spread = simulated[0].std()
    assert abs(estimates.mean() - simulated[0].mean()) < Z * spread * math.sqrt(1 / runs + 1 / RUNS)
    # A variance from 300 runs has a deviation of 8.2 %.
    assert estimates.var(ddof=1) / spread**2 == pytest.approx(1.0, abs=Z * math.sqrt(2 / runs))
    assert np.mean([row["se"] ** 2 for row in rows]) == pytest.approx(np.mean(simulated[1] + simulated[2]), rel=0.05)
    hits = sum(row["ci_low"] <= truth[1] <= row["ci_high"] for row in rows)
    assert covers_as_stated(hits, runs, conservative=mechanism.rounds == 2)
    # Power: estimates a quarter too large are told apart even by 300 runs.
    assert abs(estimates.mean() * 1.25 - truth[1]) > Z * spread / math.sqrt(runs)


# Designs. -----------------------------------------------------------------------------------------------------------------------

QUESTION = local.Question.ask("q", LABELS[:3], local.generalised(3, 2.0))
NOISE = QUESTION.mechanism
CATEGORY = 1


def population(groups, size, seed):
    """Answers of groups of equal size that differ in their shares."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(3, size, p=(0.7 - tilt, 0.1 + tilt, 0.2)) for tilt in groups])


def noise_of(answers):
    """The variance that the client adds to the value of each respondent."""
    own, other = NOISE.spread(CATEGORY)
    return np.where(np.asarray(answers) == CATEGORY, own, other)


class Design:
    """A way to draw answers with their public columns, what is estimated, and its exact variance: sampling and noise."""

    def __init__(self, draw, truth, drawn, noise, tolerance=0.0, **options):
        self.draw, self.truth, self.drawn, self.noise = draw, truth, drawn, noise
        self.tolerance, self.options = tolerance, options

    def runs(self, count, seed):
        rng, chance = np.random.default_rng([seed, 1]), SeededChance([seed, 2])
        for _ in range(count):
            answers, public, extra = self.draw(rng)
            yield local.estimate(QUESTION, reports(QUESTION, answers, chance, **public), **(self.options | extra)).rows[CATEGORY]


def stratified_with_replacement():
    held = population((0.0, 0.2, 0.5), 2000, 10)
    weight, size = np.array([0.5, 0.3, 0.2]), np.array([60, 60, 80])
    hit = held == CATEGORY
    strata = np.repeat([0, 1, 2], size)

    def draw(rng):
        chosen = np.concatenate([held[h][rng.integers(0, 2000, size[h])] for h in range(3)])
        return chosen, {"h": strata, "w": (weight * 3000 / size)[strata]}, {}

    sampling = sum(weight**2 * hit.var(axis=1) / size)
    noise = sum(weight**2 * noise_of(held).mean(axis=1) / size)
    return Design(draw, float(weight @ hit.mean(axis=1)), sampling, noise, strata="h", weights="w")


def near_census():
    held = population((0.0, 0.2, 0.5), 100, 11)
    size, strata = 90, np.repeat([0, 1, 2], 90)
    hit = held == CATEGORY

    def draw(rng):
        chosen = np.concatenate([held[h][rng.permutation(100)[:size]] for h in range(3)])
        return chosen, {"h": strata, "N": np.full(3 * size, 100)}, {}

    sampling = float(np.sum(hit.var(axis=1, ddof=1) * (1 - 0.9) / size) / 9)
    noise = float(np.sum(noise_of(held).mean(axis=1)) / size / 9)
    return Design(draw, float(hit.mean()), sampling, noise, strata="h", fpc="N")


def clusters():
    held = population(np.linspace(0.0, 0.6, 40), 10, 12)
    hit = held == CATEGORY
    count = 25

    def draw(rng):
        chosen = rng.integers(0, 40, count)
        return held[chosen].ravel(), {"c": np.repeat(np.arange(count), 10), "w": np.full(10 * count, 16.0)}, {}

    return Design(
        draw, float(hit.mean()), hit.mean(axis=1).var() / count, noise_of(held).mean() / (10 * count), psu="c", weights="w"
    )


def two_stages():
    held = population(np.linspace(0.0, 0.6, 30), 20, 13)
    hit = held == CATEGORY
    first, second = 20, 8

    def draw(rng):
        chosen = rng.permutation(30)[:first]
        answers = np.array([held[c][rng.permutation(20)[:second]] for c in chosen])
        public = {
            "c": np.repeat(chosen, second),
            "i": np.arange(first * second),
            "M": np.full(first * second, 30),
            "N": np.full(first * second, 20),
        }
        return answers.ravel(), public, {}

    between = (1 - first / 30) * hit.mean(axis=1).var(ddof=1) / first
    within = float(np.mean((1 - second / 20) * hit.var(axis=1, ddof=1) / second)) / first
    noise = noise_of(held).mean() / (first * second)
    return Design(draw, float(hit.mean()), between + within, noise, psu="c", ssu="i", fpc=("M", "N"))


def hajek(hit, noise, samples, pi):
    """Sampling variance of the weighted mean and mean variance of its noise over many samples, rows of 0 and 1."""
    weights = samples / pi
    total = weights.sum(axis=1)
    return float(((weights @ hit) / total).var()), float(((weights**2 @ noise) / total**2).mean())


def poisson():
    held = population((0.0, 0.3), 250, 14).ravel()
    hit = held == CATEGORY
    # Those who answer the category are drawn more often: without weights the estimate would be far off.
    pi = np.clip(np.random.default_rng(15).uniform(0.2, 0.7, 500) + 0.2 * hit, 0.0, 0.95)

    def draw(rng):
        drawn = rng.random(500) < pi
        return held[drawn], {"pi": pi[drawn]}, {}

    samples = np.random.default_rng(16).random((8_000, 500)) < pi
    sampling, noise = hajek(hit, noise_of(held), samples.astype(float), pi)
    # A ratio's linearised variance is right to the order of 1/n.
    return Design(draw, float(hit.mean()), sampling, noise, 0.02, probs="pi", sampling="poisson")


def fixed_size():
    held = population((0.0, 0.3), 150, 17).ravel()
    hit = held == CATEGORY
    size = np.random.default_rng(18).uniform(0.5, 2.0, 300) + 0.5 * hit
    pi = 150 * size / size.sum()
    assert pi.max() < 1.0

    def systematic(rng):
        # Randomised systematic sampling: exactly 150 units with exactly these probabilities.
        order = rng.permutation(300)
        ends = np.cumsum(pi[order])
        # The last end is 150 up to rounding.
        return order[np.searchsorted(ends, np.arange(150) + rng.random() * (1 - 1e-9), side="right").clip(0, 299)]

    def draw(rng):
        drawn = systematic(rng)
        return held[drawn], {"pi": pi[drawn]}, {}

    rng = np.random.default_rng(19)
    samples = np.zeros((8_000, 300))
    for row in samples:
        row[systematic(rng)] = 1.0
    sampling, noise = hajek(hit, noise_of(held), samples, pi)
    # Brewer's formula is an approximation that needs no joint probabilities.
    return Design(draw, float(hit.mean()), sampling, noise, 0.03, probs="pi", sampling="brewer")


def nonresponse():
    held = population((0.0, 0.5), 5000, 20)
    rates, drawn_each = np.array([0.9, 0.5]), 150
    hit = held == CATEGORY

    def draw(rng):
        # 300 are drawn, as many from each class; those of the second answer less often, and differ.
        answered = [held[c][rng.integers(0, 5000, drawn_each)][rng.random(drawn_each) < rates[c]] for c in (0, 1)]
        labels = np.repeat(["north", "south"], [len(each) for each in answered])
        return np.concatenate(answered), {"class": labels}, {}

    expected = drawn_each * rates
    # Each class has half of the weight, so the estimate is the mean of two class means. The number who answer varies, which
    # makes the mean of 1/number larger than one over the mean, by the part (1 - rate)/expected.
    inverse = (1 + (1 - rates) / expected) / expected
    within = hit.var(axis=1)
    apart = (hit.mean(axis=1) - hit.mean()) ** 2
    noise = float(0.25 * noise_of(held).mean(axis=1) @ inverse)
    # The variance counts classes as if their sizes had been drawn: it holds the distance between classes as well.
    sampling = float(0.25 * (within + apart) @ inverse)
    totals = {"north": float(drawn_each), "south": float(drawn_each)}
    return Design(draw, float(hit.mean()), sampling, noise, 0.02, classes="class", class_totals=totals)


def post_stratified():
    held = population((0.0, 0.5), 5000, 21)
    hit = held == CATEGORY
    everybody, group = held.ravel(), np.repeat(["north", "south"], 5000)
    n = 250

    def draw(rng):
        chosen = rng.integers(0, 10_000, n)
        return everybody[chosen], {"g": group[chosen], "w": np.full(n, 40.0)}, {}

    # Half of n in each group on average; the mean of 1/number is larger than one over the mean.
    inverse = (1 + 0.5 / (n / 2)) / (n / 2)
    sampling = float(0.25 * hit.var(axis=1).sum() * inverse)
    noise = float(0.25 * noise_of(held).mean(axis=1).sum() * inverse)
    known = {"g": {"north": 5000.0, "south": 5000.0}}
    return Design(draw, float(hit.mean()), sampling, noise, 0.02, weights="w", calibrate=known)


def raked():
    held = population((0.0, 0.2, 0.2, 0.4), 2500, 22)
    hit = held == CATEGORY
    everybody = held.ravel()
    side, floor = np.repeat(["l", "l", "r", "r"], 2500), np.repeat(["up", "down", "up", "down"], 2500)
    n = 250

    def draw(rng):
        chosen = rng.integers(0, 10_000, n)
        return everybody[chosen], {"side": side[chosen], "floor": floor[chosen], "w": np.full(n, 40.0)}, {}

    # The classical residual variance of raking to both margins, to the order of 1/n; additive effects leave the cells' own.
    x = np.column_stack([np.ones(10_000), side == "r", floor == "down"]).astype(float)
    y = (everybody == CATEGORY).astype(float)
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    known = {"side": {"l": 5000.0, "r": 5000.0}, "floor": {"up": 5000.0, "down": 5000.0}}
    sampling, noise = float(residual.var() / n), float(noise_of(everybody).mean() / n)
    return Design(draw, float(hit.mean()), sampling, noise, 0.04, weights="w", calibrate=known)


def census():
    held = population((0.1,), 400, 23)[0]

    def draw(rng):
        return held, {}, {"population": 400}

    return Design(draw, float(np.mean(held == CATEGORY)), 0.0, noise_of(held).mean() / 400)


def simple_fpc():
    held = population((0.1,), 300, 24)[0]
    hit = held == CATEGORY

    def draw(rng):
        return held[rng.permutation(300)[:240]], {}, {"population": 300}

    return Design(draw, float(hit.mean()), hit.var(ddof=1) * (1 - 0.8) / 240, noise_of(held).mean() / 240, 0.02)


DESIGNS = {
    "stratified, weights": stratified_with_replacement,
    "stratified, near census": near_census,
    "clusters": clusters,
    "two stages": two_stages,
    "poisson": poisson,
    "fixed size": fixed_size,
    "nonresponse classes": nonresponse,
    "post-stratified": post_stratified,
    "raked": raked,
    "simple, fpc": simple_fpc,
    "census": census,
}


@cache
def simulated(make):
    """A design, and 300 surveys by it."""
    design = make()
    return design, list(design.runs(300, 30))


def agrees(values, expected, tolerance=0.0):
    """Whether the mean of simulated values is the expected one: 5.9 deviations, and a stated part for approximations."""
    return abs(values.mean() - expected) <= Z * values.std(ddof=1) / math.sqrt(len(values)) + tolerance * abs(expected) + 1e-12


@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS.keys())
def test_designs_give_unbiased_shares_and_both_errors(make):
    design, rows = simulated(make)
    estimates, drawn, noise = (np.array([row[key] for row in rows]) for key in ("estimate", "se_sampling", "se_noise"))
    variance = design.drawn + design.noise
    assert agrees(estimates, design.truth)
    assert agrees(noise**2, design.noise, max(design.tolerance, 0.01))
    assert agrees(drawn**2 + noise**2, variance, max(design.tolerance, 0.01))
    # What was estimated is what happened. A variance from 300 runs has a deviation of 8.2 %. With classes it may be less.
    ratio = estimates.var(ddof=1) / variance
    assert ratio < 1 + Z * math.sqrt(2 / 300)
    assert ratio > 1 - Z * math.sqrt(2 / 300) - (0.2 if "classes" in design.options else 0.0)
    # Intervals reach t deviations of both errors to each side (of 19 degrees of freedom or more), where nothing was clipped.
    if design.options:
        inside = [row for row in rows if row["ci_low"] > 0.0 and row["ci_high"] < 1.0]
        reaches = [(row["ci_high"] - row["ci_low"]) / (2.0 * row["se"]) for row in inside]
        assert len(inside) > 250
        assert 1.9599 < min(reaches) <= max(reaches) < 2.1
        assert [row["se"] for row in rows] == pytest.approx(np.sqrt(drawn**2 + noise**2).tolist(), rel=1e-12)
    # Power: a scale 5 % off, a noise 15 % off, an error left out.
    shift = float(NOISE.line(CATEGORY)[1])
    assert not agrees(1.05 * (estimates - shift) + shift, design.truth)
    assert not agrees(1.15 * noise**2, design.noise, max(design.tolerance, 0.01))
    assert not agrees(drawn**2, variance, max(design.tolerance, 0.01))


def test_what_was_drawn_unequally_is_biased_without_its_weights():
    for make, column in ((poisson, "pi"), (fixed_size, "pi"), (nonresponse, "class")):
        design, _ = simulated(make)
        rng, chance, found = np.random.default_rng(31), SeededChance(32), []
        for _ in range(100):
            answers, public, _ = design.draw(rng)
            assert column in public
            found.append(local.estimate(QUESTION, reports(QUESTION, answers, chance)).rows[CATEGORY]["estimate"])
        assert not agrees(np.array(found), design.truth)


@pytest.mark.parametrize("make", [near_census, two_stages, poisson, simple_fpc], ids=lambda make: make.__name__)
def test_the_correction_for_finite_populations_is_needed(make):
    # Without it the design's own estimator would stand alone, which counts an error like a part of the sampling.
    design, rows = simulated(make)
    # The part of the noise that the design leaves out. For Poisson it is N over the sum of 1/pi, about .46; .35 is less.
    fraction = {"near_census": 0.9, "simple_fpc": 0.8, "two_stages": (20 / 30) * (8 / 20), "poisson": None}[make.__name__]
    totals, naive = [], []
    for row in rows:
        totals.append(row["se_sampling"] ** 2 + row["se_noise"] ** 2)
        naive.append(row["se_sampling"] ** 2 + row["se_noise"] ** 2 * (1 - (fraction or 0.35)))
    variance = design.drawn + design.noise
    assert agrees(np.array(totals), variance, max(design.tolerance, 0.01))
    assert not agrees(np.array(naive), variance, max(design.tolerance, 0.01))


def test_a_census_has_no_sampling_error_and_says_so():
    answers = population((0.1,), 400, 34)[0]
    table = reports(QUESTION, answers, SeededChance(35))
    found = local.estimate(QUESTION, table, population=400)
    assert found.design == "everybody asked"
    assert all(row["se_sampling"] == 0.0 and row["se_noise"] > 0.0 for row in found.rows)
    large = local.estimate(QUESTION, table)
    assert all(one["se"] < other["se"] for one, other in zip(found.rows, large.rows, strict=True))
    assert [row["total"] for row in found.rows] == pytest.approx([400 * row["estimate"] for row in found.rows])


def test_the_same_rows_give_the_same_shares_from_a_file_a_frame_and_a_collection(tmp_path):
    answers = population((0.1,), 300, 36)[0]
    rng = np.random.default_rng(37)
    public = {"h": rng.choice(["x", "y"], 300), "w": rng.uniform(1.0, 3.0, 300)}
    table = reports(QUESTION, answers, SeededChance(38), **public)
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.csv.write_csv(table, tmp_path / "r.csv")
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    sources = [table, table.to_pandas(), tmp_path / "r.csv", tmp_path / "r.parquet", local.collect(QUESTION, table)]
    found = [local.estimate(QUESTION, source, strata="h", weights="w").rows for source in sources]
    for rows in found[1:]:
        for one, other in zip(found[0], rows, strict=True):
            assert {key: value for key, value in one.items() if key != "category"} == pytest.approx(
                {key: value for key, value in other.items() if key != "category"}, rel=1e-12
            )


def test_consistent_shares_are_not_negative_and_add_up_to_one():
    mechanism = MECHANISMS["unary"]
    question = asked(mechanism)
    answers = np.random.default_rng(39).choice(4, 60, p=SHARES[4])
    found = local.estimate(question, reports(question, answers, SeededChance(40)))
    consistent = [row["consistent"] for row in found.consistent()]
    assert min(row["estimate"] for row in found.rows) < 0.0
    assert min(consistent) >= 0.0
    assert math.fsum(consistent) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("make", DESIGNS.values(), ids=DESIGNS.keys())
def test_intervals_of_designs_hold_95_percent(make):
    design, runs = make(), 2000
    rows = list(design.runs(runs, 50))
    hits = sum(row["ci_low"] <= design.truth <= row["ci_high"] for row in rows)
    # With classes the variance counts more than there is, by the distance of the classes.
    assert covers_as_stated(hits, runs, conservative="classes" in design.options)
    # Power: intervals from the sampling error alone, or a fifth too short.
    for factor in ("se_sampling", 0.8):
        halves = [1.96 * (row[factor] if isinstance(factor, str) else factor * row["se"]) for row in rows]
        missed = sum(abs(row["estimate"] - design.truth) <= half for row, half in zip(rows, halves, strict=True))
        assert not covers_as_stated(missed, runs, conservative=True)
