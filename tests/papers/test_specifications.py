"""Specifications that are written down: decided for all mechanisms, against linear programmes, random mechanisms, densities."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpsurvey import Setting
from dpsurvey.errors import BadValue
from dpsurvey.privacy import all_settings
from dpsurvey_papers.specifications import (
    PossibleData,
    Specification,
    laplace_satisfies,
    laplace_scales,
    multiplicative_distance,
    records_apart,
)

pytestmark = pytest.mark.quick

TINY = PossibleData("abcd", (0, 1), population=(3,), frame=(2,), sample=(1,))


def drawn(rng, size=5, universes=3):
    """Random universes, distances (some infinite, not always a metric) and budgets."""
    domain = range(size)
    parts = [rng.choice(size, int(rng.integers(2, size + 1)), replace=False).tolist() for _ in range(universes)]
    table = {pair: float(rng.choice([0.5, 1.0, 2.0, math.inf])) for pair in itertools.combinations(domain, 2)}
    return Specification(domain, parts, table, rng.choice([0.0, 0.3, 1.0], universes).tolist())


def farthest(specification, one, other):
    """The largest log g(one)/g(other) over all events of all mechanisms, as a linear programme written apart.

    Only the limits of single pairs enter; the answer no costs nothing, since g may be scaled down.
    """
    size = len(specification.domain)
    rows = []
    for d, e in itertools.permutations(range(size), 2):
        limit = min(specification.limits[d, e], specification.limits[e, d])
        if math.isfinite(limit):
            row = np.zeros(size)
            row[d], row[e] = 1.0, -math.exp(limit)
            rows.append(row)
    start = np.zeros(size)
    start[other] = 1.0
    target = np.zeros(size)
    target[one] = -1.0
    answer = linprog(target, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=start[None, :], b_eq=[1.0], bounds=(0, 1e6))
    assert answer.status == 0
    return math.log(-answer.fun) if -answer.fun < 0.999e6 else math.inf


def test_implied_limits_are_the_largest_loss_of_any_mechanism():
    rng = np.random.default_rng(11)
    finite = 0
    for _ in range(25):
        own = drawn(rng)
        if not np.isfinite(own.limits[~np.eye(5, dtype=bool)]).any():
            continue
        for one, other in ((0, 1), (2, 4)):
            exact = farthest(own, one, other)
            assert own.implied_limits[one, other] == pytest.approx(exact, abs=1e-6)
            finite += math.isfinite(exact) and exact > 0.0
    assert finite > 10


def test_the_sharpest_mechanism_satisfies_the_specification_and_attains_every_implied_limit():
    rng = np.random.default_rng(12)
    for _ in range(40):
        own = drawn(rng)
        mechanism = own.sharpest(0)
        assert own.satisfied_by(mechanism)
        for data in own.domain:
            assert multiplicative_distance(mechanism[0], mechanism[data]) == pytest.approx(own.implied_limits[0, data], abs=1e-9)


def test_a_mechanism_just_beyond_the_limit_is_caught_with_its_worst_pair():
    pair = Specification("abc", ["ab", "c"], {("a", "b"): 2.0}, 0.5)
    near = {"a": {1: 0.5, 0: 0.5}, "b": {1: 0.5 * math.exp(-1.0), 0: 1 - 0.5 * math.exp(-1.0)}, "c": {2: 1.0}}
    assert pair.satisfied_by(near)
    beyond = near | {"b": {1: 0.5 * math.exp(-1.001), 0: 1 - 0.5 * math.exp(-1.001)}}
    found = pair.satisfied_by(beyond)
    assert not found
    assert set(found.pair) == {"a", "b"}
    assert found.loss == pytest.approx(1.001)
    assert found.allowed == 1.0


def test_an_order_of_specifications_agrees_with_random_mechanisms_of_many_outputs():
    rng = np.random.default_rng(13)
    checked = 0
    for _ in range(60):
        one, other = drawn(rng, size=3, universes=2), drawn(rng, size=3, universes=2)
        for _ in range(8):
            base = rng.dirichlet(np.ones(4))
            laws = {}
            for data in range(3):
                law = base * np.exp(rng.choice([0.0, 0.1, 0.4]) * rng.standard_normal(4))
                laws[data] = dict(enumerate((law / law.sum()).tolist()))
            if one.satisfied_by(laws) and one.allows_no_more_than(other):
                assert other.satisfied_by(laws)
                checked += 1
        if not one.allows_no_more_than(other):
            assert any(one.satisfied_by(m) and not other.satisfied_by(m) for m in map(one.sharpest, one.domain))
    assert checked > 10


def test_zero_times_infinity_is_infinity():
    apart = Specification("ab", ["ab"], {}, 0.0)
    assert apart.limit("a", "b") == math.inf
    assert apart.satisfied_by({"a": {0: 1.0}, "b": {1: 1.0}})
    assert apart.completion().allows_no_more_than(apart)


def test_printed_laplace_scales_have_densities_without_bound_and_mended_ones_stay_within_the_limit():
    two = Specification("abc", ["ab", "bc"], {("a", "b"): 1.0, ("b", "c"): 1.0}, 1.0)
    asked = {"a": 0.0, "b": 1.0, "c": 11.0}
    t = np.linspace(-500.0, 500.0, 20_001)
    for how, bounded in (("printed", False), ("connected", True), ("global", True)):
        scales = laplace_scales(two, asked, how)
        logs = {data: -np.log(2 * scales[data]) - np.abs(t - asked[data]) / scales[data] for data in "abc"}
        worst = max(float(np.abs(logs[one] - logs[other]).max()) for one, other in ("ab", "bc"))
        assert (worst <= 1.0 + 1e-12) == bounded == bool(laplace_satisfies(two, asked, scales))
        assert bounded or worst > 400.0


def test_an_incomplete_universe_gets_no_noise_as_printed():
    own = Specification("abc", ["abc"], {("a", "b"): 1.0}, 1.0)
    assert set(laplace_scales(own, {"a": 0, "b": 1, "c": 5}, "printed").values()) == {0.0}
    assert list(laplace_scales(own, {"a": 0, "b": 1, "c": 5}).values()) == [1.0, 1.0, 0.0]


def test_no_mended_scale_could_be_smaller():
    rng = np.random.default_rng(14)
    for _ in range(40):
        domain = range(4)
        table = {pair: float(rng.choice([1.0, 2.0, math.inf])) for pair in itertools.combinations(domain, 2)}
        own = Specification(domain, [[0, 1, 2], [1, 3]], table, [1.0, 0.5])
        asked = {data: (float(rng.integers(5)), float(rng.integers(5))) for data in domain}
        scales = laplace_scales(own, asked)
        assert laplace_satisfies(own, asked, scales)
        for data in domain:
            class_ = own.reached_from(data)
            less = {each: scale * (0.999 if each in class_ else 1.0) for each, scale in scales.items()}
            assert scales[data] == 0.0 or not laplace_satisfies(own, asked, less)


@pytest.mark.parametrize("reading", ["free", "tied"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_each_of_the_ten_settings_holds_fixed_what_definition_3_3_says(reading, neighbours):
    tiny = PossibleData("abcd", (0, 1), population=(3,), frame=(2,), sample=(1,), values_are=reading)
    multiverses = set()
    # The eleventh, in which answers alone are protected, is none of the paper's.
    for setting in (each for each in all_settings(neighbours) if not each.answers_alone):
        own = tiny.specification(setting, 1.0)
        multiverses.add((own.domain, frozenset(own.universes)))
        assert tiny.invariances(own, setting.protect) == setting.invariant
    assert len(multiverses) == 10


def test_holding_more_fixed_never_guarantees_more():
    for protect in ("frame", "sample", "respondents"):
        chain = [TINY.specification(each, 1.0) for each in all_settings("add-remove") if each.protect == protect]
        for coarse, fine in itertools.pairwise(chain):
            assert coarse.is_coarsening_of(fine.universes)
            assert coarse.allows_no_more_than(fine)


def test_with_values_free_a_frame_held_fixed_takes_nothing_from_a_simple_random_sample_and_with_values_tied_it_does():
    for reading, same in (("free", True), ("tied", False)):
        tiny = PossibleData("abcde", (0, 1), population=(4,), frame=(3,), sample=(2,), values_are=reading)
        free, fixed = (tiny.specification(Setting("sample", given, neighbours="replace-one"), 1.0) for given in (None, "frame"))
        assert free.allows_no_more_than(fixed)
        assert fixed.allows_no_more_than(free) == same


def test_where_a_frame_may_be_complete_the_population_held_fixed_holds_the_frame_fixed():
    complete = PossibleData("abcd", (0, 1), population=(3,), frame=(2, 3), sample=(1,), values_are="tied")
    own = complete.specification(Setting("sample", "population", neighbours="add-remove"), 1.0)
    assert complete.invariances(own, "sample") == ("population", "frame")


def test_data_sets_are_counted_by_combinatorics():
    sizes = [len(TINY.data_sets(phase)) for phase in ("population", "frame", "sample", "respondents")]
    assert sizes == [math.comb(4, 3) * 8, math.comb(4, 2) * 4, 4 * 2, 4 * 2 + 1]
    assert len(TINY.universes("respondents", "sample")) == 4
    assert TINY.universes("population", None) == [frozenset(TINY.data_sets("population"))]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Specification([], [], {}, 1.0), "a domain holds"),
        (lambda: Specification("ab", ["abc"], {}, 1.0), "data sets of the domain"),
        (lambda: Specification("ab", [""], {}, 1.0), "at least one"),
        (lambda: Specification("ab", ["ab"], {}, -1.0), "not negative"),
        (lambda: Specification("ab", ["ab"], {}, math.nan), "not negative"),
        (lambda: Specification("ab", ["ab"], {}, math.inf), "not negative"),
        (lambda: Specification("ab", ["ab"], {}, [1.0, 2.0]), "one budget"),
        (lambda: Specification("ab", ["ab"], {("a", "b"): -1.0}, 1.0), "distance"),
        (lambda: Specification("ab", ["ab"], {("a", "b"): math.nan}, 1.0), "distance"),
        (lambda: Specification("ab", ["ab"], lambda d, e: 1.0, 1.0), "to itself"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).limit("a", "c"), "not in the domain"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by({"a": {0: 1.0}}), "every data set"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by({"a": {0: 1.0}, "b": {0: 0.5}}), "add up to 1"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by({"a": {0: 1.0}, "b": {0: math.nan}}), "add up to 1"),
        (lambda: Specification("ab", ["ab"], {("a", "z"): 1}, 1.0), "pairs of data sets of the domain"),
        (lambda: Specification("ab", ["ab"], {"ab": 1}, 1.0), "pairs of data sets of the domain"),
        (lambda: Specification("ab", ["ab"], {("a", "b"): 1, ("b", "a"): 2}, 1.0), "both orders"),
        (lambda: Specification("ab", ["ab"], lambda d, e: None, 1.0), "distance"),  # type: ignore[return-value]
        (lambda: Specification([[0], [1]], [[[0]]], {}, 1.0), "by value"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by(lambda data: {0: 1.0}), "a mechanism is a table"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by({"a": [1.0], "b": [1.0]}), "of an output is a table"),
        (lambda: Specification("ab", ["ab"], {}, 1.0).satisfied_by({"a": {0: 1.5, 1: -0.5}, "b": {0: 1.0}}), "none negative"),
        (lambda: Specification("ab", ["a"], {}, 1.0).on(["ab"]), "lies in none"),
        (lambda: Specification("ab", ["a"], {}, 1.0).allows_no_more_than(Specification("a", ["a"], {}, 1.0)), "one domain"),
        (lambda: laplace_scales(Specification("ab", ["ab"], {("a", "b"): 1}, 0.0), {"a": 0, "b": 1}), "no noise is enough"),
        (lambda: laplace_scales(Specification("ab", ["ab"], {}, 1.0), {"a": 0}), "every data set"),
        (lambda: laplace_scales(Specification("ab", ["ab"], {}, 1.0), {"a": 0, "b": math.inf}), "finite answers"),
        (lambda: laplace_scales(Specification("ab", ["ab"], {}, 1.0), {"a": 0, "b": 1}, "local"), "unknown scales"),
        (lambda: laplace_satisfies(Specification("a", ["a"], {}, 1.0), {"a": 0}, {"a": math.nan}), "a scale"),
        (lambda: PossibleData("ab", (0,), population=(3,), frame=(1,), sample=(1,)), "at least one size"),
        (lambda: PossibleData("ab", (0,), (1,), (1,), (1,), values_are="loose"), "unknown kind of values"),
        (lambda: PossibleData("abcdefgh", (0, 1), (1,), (1,), (1,)), "few units"),
        (lambda: records_apart("add-remove")("a", "b"), "frozenset"),
    ],
)
def test_what_is_no_specification_is_refused_in_words(make, says):
    with pytest.raises(BadValue, match=says):
        make()
