"""The choice of a mechanism is by its exact error, its parameters are the best ones, and a sample size is the least that does."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsurvey.local as local
from dpsurvey.errors import BadValue, SurveyError
from dpsurvey.local.choice import noise_deviation
from dpsurvey.local.local_hashing import MOST_BUCKETS, LocalHashing, best_buckets
from dpsurvey.local.subset_selection import best_size

pytestmark = pytest.mark.quick

MANY = [*range(2, 13), 20, 50, 100, 500]
EPSILONS = [0.05, 0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]


def total_error(mechanism):
    """The exact sum over categories of the variance of one respondent's value, all answers equally likely."""
    p, q = mechanism.hit(0)
    k = mechanism.k
    return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2


def ideal_error(k, p, q):
    """The same from floating-point chances: fast enough to go through all parameters."""
    return (p * (1 - p) + (k - 1) * q * (1 - q)) / (p - q) ** 2


@pytest.mark.parametrize("k", MANY)
def test_subsets_have_the_size_with_the_least_error(k):
    sizes = np.arange(1.0, k)
    for epsilon in EPSILONS:
        p = sizes * math.exp(epsilon) / (sizes * math.exp(epsilon) + k - sizes)
        error = ideal_error(k, p, (p * (sizes - 1) + (1 - p) * sizes) / (k - 1))
        assert error[best_size(k, epsilon) - 1] <= error.min() * (1 + 1e-12)


@pytest.mark.parametrize("k", MANY)
def test_hashes_have_the_number_of_buckets_with_the_least_error(k):
    buckets = np.arange(2.0, 2000.0)
    for epsilon in EPSILONS:
        p = math.exp(epsilon) / (math.exp(epsilon) + buckets - 1)
        error = ideal_error(k, p, 1 / buckets)
        assert error[best_buckets(k, epsilon) - 2] <= error.min() * (1 + 1e-12)


def test_an_endless_domain_has_the_number_of_buckets_that_is_best_for_a_rare_label():
    buckets = np.arange(2.0, 2000.0)
    for epsilon in EPSILONS:
        p = math.exp(epsilon) / (math.exp(epsilon) + buckets - 1)
        error = (1 / buckets) * (1 - 1 / buckets) / (p - 1 / buckets) ** 2
        assert error[best_buckets(0, epsilon) - 2] <= error.min() * (1 + 1e-12)
    assert best_buckets(0, 30.0) <= MOST_BUCKETS


@pytest.mark.parametrize(("k", "epsilon"), [*itertools.product((2, 3, 5, 9), (0.3, 1.0, 2.5))])
def test_the_choice_is_the_best_of_all_mechanisms_and_parameters(k, epsilon):
    every = [
        local.generalised(k, epsilon),
        local.unary(k, epsilon),
        *(local.subset(k, epsilon, size) for size in range(1, k)),
        *(LocalHashing(k, epsilon, buckets) for buckets in range(2, 40)),
    ]
    least = min(float(total_error(mechanism)) for mechanism in every)
    found = local.choose(k=k, epsilon=epsilon)
    assert float(total_error(found.best.mechanism)) == pytest.approx(least, rel=1e-9)
    # The others are in the order of their exact errors, and each has its own best parameter.
    errors = [float(total_error(option.mechanism)) for option in found.options]
    assert all(one <= other * (1 + 1e-8) for one, other in itertools.pairwise(errors))
    for option in found.options:
        same = [float(total_error(mechanism)) for mechanism in every if mechanism.kind == option.mechanism.kind]
        assert float(total_error(option.mechanism)) == pytest.approx(min(same), rel=1e-9)
        assert option.noise_sd == pytest.approx(math.sqrt(float(total_error(option.mechanism)) / k), rel=1e-12)


def test_few_categories_are_answered_directly_and_many_by_subsets():
    assert local.choose(k=2, epsilon=1.0).best.mechanism.kind == "generalised"
    assert local.choose(k=3, epsilon=5.0).best.mechanism.kind == "generalised"
    assert local.choose(k=100, epsilon=1.0).best.mechanism.kind == "subset"
    # A set of one category is generalised response; of the two, the shorter report comes first.
    tie = local.choose(k=4, epsilon=4.0)
    assert [option.mechanism.kind for option in tie.options[:2]] == ["generalised", "subset"]
    assert tie.options[1].mechanism.size == 1  # type: ignore[attr-defined]
    assert tie.options[0].bits < tie.options[1].bits


@pytest.mark.parametrize("kind", ["generalised", "unary", "hashing", "subset"])
@given(weights=st.lists(st.integers(0, 1000), min_size=5, max_size=5).filter(any))
def test_the_sum_of_squared_errors_is_the_same_for_every_distribution_of_answers(kind, weights):
    mechanism = getattr(local, kind)(5, 1.0)
    total = sum(weights)
    found = Fraction(0)
    for category, weight in enumerate(weights):
        p, q = mechanism.hit(category)
        share = Fraction(weight, total)
        found += (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
    assert found == total_error(mechanism)


def test_the_table_says_what_each_choice_costs():
    found = local.choose(k=20, epsilon=1.0, n=10_000)
    rows = found.rows()
    assert rows[0]["as_many_as"] == rows[0]["relative"] == 1.0
    for row, option in zip(rows, found.options, strict=True):
        assert row["se_noise"] == pytest.approx(noise_deviation(option.mechanism) / 100.0)
        assert row["as_many_as"] == pytest.approx(row["relative"] ** 2)
        assert row["epsilon"] <= 1.0
        # As many times as many respondents bring the error down to that of the best.
        assert option.se_noise(10_000 * row["as_many_as"]) == pytest.approx(rows[0]["se_noise"])
    told = json.loads(json.dumps(found.to_dict()))
    assert local.mechanism_from(told["best"]) == found.best.mechanism
    assert str(found).startswith(found.best.mechanism.kind)
    assert local.choose(k=20, epsilon=1.0).rows()[0]["se_noise"] is None


def test_a_question_that_asks_for_the_best_gets_it():
    for k in (2, 3, 30):
        asked = local.Question.ask("q", [f"c{each}" for each in range(k)], {"kind": "best", "epsilon": 1.0})
        assert asked.mechanism == local.choose(k=k, epsilon=1.0).best.mechanism
    assert local.Question.ask("q", (), {"kind": "best", "epsilon": 1.0}).mechanism == local.hashing(0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 1, "epsilon": 1.0},
        {"k": 2.5, "epsilon": 1.0},
        {"k": 3, "epsilon": 0.0},
        {"k": 3, "epsilon": math.nan},
        {"k": 3, "epsilon": 1.0, "n": 0},
        {"k": 3, "epsilon": 1.0, "n": True},
        {"k": 3, "epsilon": 1.0, "n": 10.5},
    ],
    ids=str,
)
def test_choices_among_nothing_are_refused(wrong):
    with pytest.raises(BadValue, match=r"categories|epsilon|respondents"):
        local.choose(**wrong)


# How many respondents. --------------------------------------------------------------------------------------------------

Z95 = 1.959963984540054


def reach(mechanism, n, share, category=0, population=None, deff=1.0, z=Z95):
    """The half-length of the interval of n respondents."""
    own, other = mechanism.spread(category)
    left = 1.0 if population is None else (population - n) / (population - 1)
    return z * math.sqrt((deff * left * share * (1 - share) + own * share + other * (1 - share)) / n)


SIZED = [
    local.generalised(2, 1.0),
    local.generalised(10, 2.0),
    local.unary(30, 1.0),
    local.hashing(30, 0.5),
    local.subset(8, 1.0),
]


@pytest.mark.parametrize("mechanism", SIZED, ids=lambda mechanism: mechanism.kind)
@pytest.mark.parametrize("options", [{}, {"population": 200_000}, {"deff": 2.5}, {"population": 90_000, "deff": 0.7}], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_one_respondent_less_would_miss_the_margin(mechanism, options, share):
    for moe in (0.03, 0.1):
        found = local.sample_size(mechanism, moe, share=share, **options)
        assert reach(mechanism, found.n, share, **options) <= moe * (1 + 1e-9)
        assert reach(mechanism, found.n - 1, share, **options) > moe * (1 + 1e-12)
        assert found.share == share
        assert found.asked == found.n


@pytest.mark.parametrize("mechanism", SIZED, ids=lambda mechanism: mechanism.kind)
def test_without_a_share_the_worst_one_is_planned_for(mechanism):
    found = local.sample_size(mechanism, 0.05)
    worst = max(np.linspace(0.0, 1.0, 10_001), key=lambda share: reach(mechanism, found.n, share))
    assert reach(mechanism, found.n, worst) <= 0.05 * (1 + 1e-6)
    assert reach(mechanism, found.n - 1, worst) > 0.05 * (1 - 1e-9)
    assert found.n >= max(local.sample_size(mechanism, 0.05, share=share).n for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def test_without_a_share_the_worst_category_is_planned_for():
    # The last category of this die has a much larger variance than the first two.
    mechanism = local.round_two([0.05, 0.05, 0.6], 0.3)
    found = local.sample_size(mechanism, 0.05, share=0.1)
    assert max(reach(mechanism, found.n, 0.1, category) for category in range(3)) <= 0.05 * (1 + 1e-9)
    assert max(reach(mechanism, found.n - 1, 0.1, category) for category in range(3)) > 0.05
    both = local.sampling_privacy([0.275, 0.275], 0.45)
    sized = local.sample_size(both, 0.05, share=0.2)
    assert max(reach(both, sized.n, 0.2, category) for category in (0, 1)) <= 0.05 * (1 + 1e-9)
    assert max(reach(both, sized.n - 1, 0.2, category) for category in (0, 1)) > 0.05


def test_levels_response_and_the_figure_without_randomisation():
    mechanism = local.generalised(2, 1.0)
    found = local.sample_size(mechanism, 0.03)
    # The textbook figure: z^2/4/moe^2.
    assert found.without_randomisation == math.ceil(Z95**2 * 0.25 / 0.03**2) == 1068
    assert found.n > found.without_randomisation
    more = local.sample_size(mechanism, 0.03, level=0.99)
    assert more.n == pytest.approx(found.n * (2.5758293 / Z95) ** 2, abs=1.0)
    asked = local.sample_size(mechanism, 0.03, response=0.4)
    assert asked.n == found.n
    assert asked.asked == math.ceil(found.n / 0.4)
    assert f"ask {asked.asked:,}" in str(asked)
    assert json.loads(json.dumps(found.to_dict()))["respondents"] == found.n


def test_sizes_grow_with_precision_and_privacy_and_shrink_in_small_populations():
    mechanism = local.generalised(3, 1.0)
    margins = [local.sample_size(mechanism, moe).n for moe in (0.2, 0.1, 0.05, 0.02)]
    assert margins == sorted(set(margins))
    losses = [local.sample_size(local.generalised(3, epsilon), 0.05).n for epsilon in (4.0, 2.0, 1.0, 0.5)]
    assert losses == sorted(set(losses))
    sizes = [local.sample_size(mechanism, 0.05, population=population).n for population in (6_000, 20_000, 10**9)]
    assert sizes == sorted(set(sizes))
    assert local.sample_size(mechanism, 0.05).n - sizes[-1] in (0, 1)


def test_edges_of_sample_sizes():
    # A client that always tells the truth, asked of everybody: one question of a population of one.
    truthful = local.warner(1)
    assert local.sample_size(truthful, 0.03).n == local.sample_size(truthful, 0.03).without_randomisation
    assert local.sample_size(truthful, 0.03, population=1).n == 1
    assert local.sample_size(truthful, 0.03, share=0.0).n == 1
    # An open domain has no list; its labels are all alike.
    assert local.sample_size(local.hashing(0, 1.0), 0.05).n > 1000


def test_a_margin_that_randomisation_alone_exceeds_is_refused():
    mechanism = local.generalised(2, 0.5)
    # Even a census has the noise: z sqrt(noise/N) is what is left.
    population = 1000
    left = Z95 * math.sqrt(mechanism.spread(0)[0] / population)
    assert local.sample_size(mechanism, left * 1.001, population=population).n <= population
    with pytest.raises(BadValue, match="out of reach"):
        local.sample_size(mechanism, left * 0.999, population=population)


@pytest.mark.parametrize(
    "wrong",
    [
        {"moe": 0.0},
        {"moe": 1.0},
        {"moe": math.nan},
        {"moe": 0.05, "share": 1.5},
        {"moe": 0.05, "share": math.nan},
        {"moe": 0.05, "deff": 0.0},
        {"moe": 0.05, "deff": math.inf},
        {"moe": 0.05, "response": 0.0},
        {"moe": 0.05, "response": 1.1},
        {"moe": 0.05, "population": 0},
        {"moe": 0.05, "level": 1.0},
    ],
    ids=str,
)
def test_margins_that_are_none_are_refused(wrong):
    with pytest.raises(SurveyError):
        local.sample_size(local.generalised(2, 1.0), **wrong)
