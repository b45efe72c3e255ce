"""Chains of sample sizes: the stated loss against every event whose logarithm changes by 0 or one epsilon per record.

Each event is a mechanism, so none may exceed the loss; the worst one is among them, so one attains it.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpsurvey as ds
from dpsurvey.design.amplify import amplify

pytestmark = pytest.mark.quick

law = settings(deadline=None, derandomize=True, max_examples=150)
ADD, REPLACE, BOTH = "add-remove", "replace-one", "both"


def power(low, high):
    """Numbers spread evenly over orders of magnitude."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: min(high, 10.0**exponent))


def total(weights, levels, epsilon):
    """log of the sum of weight e^(epsilon level), for each event."""
    logs = np.concatenate([np.log(w) + epsilon * x for w, x in zip(weights, levels, strict=True)], axis=1)
    most = logs.max(axis=1, keepdims=True)
    return most[:, 0] + np.log(np.exp(logs - most).sum(axis=1))


def largest_ratio(first, second, epsilon, base, neighbours=ADD):
    """The worst log ratio of two neighbours. Of n units, the target among them, `first` draws so many; `second` draws
    from the n - 1 others. A walk is the event's level on samples of 0, 1, ... other units; a sample with the target is
    one step from the same sample without it, and under both relations also from one with another unit in its place."""
    n, sizes = len(first) - 1, np.arange(len(first))
    walks = np.array([np.cumsum((0, *slopes)) for slopes in itertools.product((-1, 0, 1), repeat=n - 1)])
    after = np.concatenate((walks[:, 1:], walks[:, -1:]), axis=1)
    least, most = (walks, walks) if base == ADD else (np.minimum(walks, after), np.maximum(walks, after))
    first = np.asarray(first)
    without, inside = (first * (n - sizes) / n)[:n], (first * sizes / n)[1:]
    with np.errstate(divide="ignore"):
        raised = total([without, inside], [walks, least + 1], epsilon)
        if neighbours == REPLACE:
            lowered = total([without, inside], [walks, walks - 1 if base == ADD else least], epsilon)
            return float((raised - lowered).max())
        others = total([np.asarray(second)], [walks], epsilon)
        lowered = total([without, inside], [walks, most - 1], epsilon)
    return float(max((raised - others).max(), (others - lowered).max()))


@st.composite
def size_law(draw, length, most, least=0):
    """Probabilities of 0, 1, ..., length - 1 units, on up to three sizes."""
    some = draw(st.lists(st.integers(least, most), min_size=1, max_size=3, unique=True))
    weights = [draw(power(1e-3, 1.0)) for _ in some]
    whole = dict(zip(some, weights, strict=True))
    return [whole.get(size, 0.0) / math.fsum(weights) for size in range(length)]


two_laws = st.integers(2, 6).flatmap(lambda n: st.tuples(size_law(n + 1, n), size_law(n, n - 1)))


def check_against(design, worst, epsilon, base, neighbours):
    """The stated loss against the worst event, whose own logarithms are known to 3e-15."""
    answer = amplify(design, epsilon, base=base, neighbours=neighbours)
    assert answer.epsilon >= worst * (1 - 1e-10) - 3e-15
    assert answer.lower <= worst * (1 + 1e-10) + 3e-15
    if answer.exact:
        assert answer.epsilon == pytest.approx(worst, rel=1e-9, abs=3e-15)


@law
@given(two_laws, power(1e-6, 50.0), st.sampled_from([ADD, BOTH]))
@example(([0, 0, 0, 0, 0, 1.0, 0], [0.58, 0, 0, 0, 0, 0.42]), 7.1, ADD)
@example(([0.1, 0, 0, 0, 0, 0.22, 0.68], [0, 0, 1.0, 0, 0, 0]), 6.0, BOTH)
@example(([0, 0, 0, 0, 0, 0, 1.0], [0, 0.3, 0, 0, 0, 0.7]), 14.0, BOTH)
def test_no_event_on_an_allocation_table_exceeds_the_stated_loss_and_one_attains_it(laws, epsilon, base):
    rows = [(len(each) - 1, m, p) for each in laws for m, p in enumerate(each) if p]
    check_against(ds.size_rule(tuple(rows)), largest_ratio(*laws, epsilon, base), epsilon, base, ADD)  # type: ignore[call-arg]


@law
@given(st.integers(2, 6).flatmap(lambda n: size_law(n + 1, n - 1, 1)), power(1e-6, 50.0), st.sampled_from([ADD, BOTH]))
@example([0, 0.53, 0, 0, 0.47, 0, 0], 10.1, ADD)
@example([0, 0.1, 0, 0.2, 0.7, 0], 1e-6, BOTH)
@example([0, 0.0002, 0.6636, 0.3347, 0.0015, 0], 39.5, BOTH)
def test_no_event_on_a_random_size_exceeds_the_stated_loss_and_one_attains_it(sizes, epsilon, base):
    design = ds.random_size(len(sizes) - 1, table={m: p / math.fsum(sizes) for m, p in enumerate(sizes) if p})
    for neighbours in (ADD, REPLACE):
        check_against(design, largest_ratio(sizes, sizes[:-1], epsilon, base, neighbours), epsilon, base, neighbours)


@law
@given(
    st.floats(0.01, 0.99),
    st.integers(1, 6),
    st.sampled_from(["random", "nearest"]),
    power(1e-6, 50.0),
    st.sampled_from([ADD, BOTH]),
)
@example(0.25, 5, "random", 45.0, ADD)
@example(0.7, 6, "random", 42.0, ADD)
@example(0.9, 2, "random", 39.7, BOTH)
def test_no_event_on_a_rounded_share_exceeds_the_stated_loss_and_one_attains_it(rate, size, rounding, epsilon, base):
    design = ds.proportional(rate, rounding=rounding, size=size)
    laws = [np.array([design.sizes(each).get(m, 0.0) for m in range(each + 1)]) for each in (size + 1, size)]
    check_against(design, largest_ratio(*laws, epsilon, base), epsilon, base, ADD)  # type: ignore[call-arg]
