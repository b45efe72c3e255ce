"""The chain of sample sizes against the same optimum in as many digits as it takes: any epsilon, any number of units.

A is the probability of an event on a sample of j others and may change by a factor e^epsilon per unit; given the loss, the
best value of the later sizes per unit of A is a recursion, and the loss is raised until that value is zero (Dinkelbach).
"""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import dpsurvey as ds
from dpsurvey.loss.bound import Losses

pytestmark = pytest.mark.quick

ADD, REPLACE = "add-remove", "replace-one"


def exact_loss(first, second, units, epsilon, base, neighbours):
    """The largest loss between m of `units` units with the target and m of units - 1, laws of m given; both orders."""
    # Events run over e^(epsilon units), and terms of that size cancel.
    with mp.workdps(70 + int(epsilon * units)):
        laws = [[mp.mpf(law.get(m, 0)) for m in range(units + 1)] for law in (first, second)]
        with_target, without = ([p / sum(law) for p in law] for law in laws)
        outside = [p * (units - m) / units for m, p in enumerate(with_target)]
        inside = [p * m / units for m, p in enumerate(with_target)]
        a, none = mp.exp(mp.mpf(epsilon)), [mp.mpf(0)] * (units + 1)
        bound = (lambda f: mp.mpf(1)) if base == ADD else (lambda f: min(mp.mpf(1), f))
        above = (lambda f: mp.mpf(1)) if base == ADD else (lambda f: max(mp.mpf(1), f))
        if neighbours == REPLACE:
            low = 1 / a if base == ADD else mp.mpf(1)
            orders = [(outside, outside, [p * a for p in inside], [p * low for p in inside], bound)]
        else:
            orders = [(outside, without, [p * a for p in inside], none, bound)]
            orders += [(without, outside, none, [p / a for p in inside], above)]
        return max(mp.log(_largest_ratio(*order, a)) for order in orders)


def _largest_ratio(numerator, denominator, pulled, pushed, joint, a):
    ratio, slopes = mp.mpf(1), (a, mp.mpf(1), 1 / a)
    while True:
        # Is there an event with a ratio above the goal? Then its own ratio is the next one to beat.
        goal = ratio * (1 + mp.mpf(10) ** -30)
        value, choice = numerator[-1] - goal * denominator[-1], []
        for j in range(len(numerator) - 2, -1, -1):
            pull = pulled[j + 1] - goal * pushed[j + 1]
            best = max(slopes, key=lambda f, pull=pull, value=value: pull * joint(f) + f * value)
            value = numerator[j] - goal * denominator[j] + pull * joint(best) + best * value
            choice.append(best)
        if value <= 0:
            return ratio
        event, top, bottom = mp.mpf(1), numerator[0], denominator[0]
        for j, slope in enumerate(reversed(choice), start=1):
            top, bottom = top + pulled[j] * event * joint(slope), bottom + pushed[j] * event * joint(slope)
            event *= slope
            top, bottom = top + numerator[j] * event, bottom + denominator[j] * event
        ratio = top / bottom


def check_claim(design, epsilon, base, neighbours, exact):
    """The claim holds, and is no larger than the loss where it is said to be exact."""
    bound = design.bound(Losses.of(epsilon, base), neighbours)
    told = f"{design} epsilon {epsilon} base {base} neighbours {neighbours}: {bound.lower} to {bound.upper}, is {exact}"
    # Not one digit is given away: what is attained is not above, what is proved not below.
    assert mp.mpf(bound.lower) <= exact <= mp.mpf(bound.upper), told
    assert not bound.exact or bound.upper <= exact * (1 + 1e-6), told


def allocation(units, first, second):
    return ds.size_rule(tuple(((units - 1, m, p) for m, p in second.items())) + tuple(((units, m, p) for m, p in first.items())))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-10, 1e-8, 1e-5, 0.01, 0.3, 1.0, 3.0, 10.0, 20.0, 50.0])
def test_chains_hold_for_random_laws_of_sizes(epsilon):
    rng = np.random.default_rng(20260731)
    for units in (2, 3, 5, 12, 40):
        weights, others = rng.dirichlet([0.5] * units).tolist(), rng.dirichlet([0.5] * units).tolist()
        first, second = dict(enumerate(weights)), dict(enumerate(others))
        for base in (ADD, "both"):
            for neighbours in (ADD, REPLACE):
                exact = exact_loss(first, first, units, epsilon, base, neighbours)
                check_claim(ds.random_size(units, table=first), epsilon, base, neighbours, exact)
            exact = exact_loss(first, second, units, epsilon, base, ADD)
            check_claim(allocation(units, first, second), epsilon, base, ADD, exact)


@pytest.mark.parametrize(
    ("units", "epsilon", "first", "second"),
    [
        (40, 1.0, {0: 0.5, 39: 0.5}, {20: 1.0}),
        (40, 1.0, {0: 0.9, 39: 0.1}, {20: 1.0}),
        (40, 1.0, {20: 1.0}, {0: 0.9, 39: 0.1}),
        (60, 0.5, {0: 0.1, 59: 0.9}, {30: 1.0}),
        (4, 15.0, {1: 0.5, 3: 0.5}, {1: 0.5, 3: 0.5}),
        (3, 35.0, {1: 0.8, 2: 0.01, 0: 0.19}, {1: 0.8, 2: 0.01, 0: 0.19}),
    ],
)
@pytest.mark.parametrize("base", [ADD, "both"])
def test_chains_hold_where_events_spread_over_many_powers_of_e(units, epsilon, first, second, base):
    check_claim(allocation(units, first, second), epsilon, base, ADD, exact_loss(first, second, units, epsilon, base, ADD))


@pytest.mark.parametrize("epsilon", [1e-9, 0.2, 2.0, 15.0])
@pytest.mark.parametrize(("rate", "size"), [(0.3, 7), (0.55, 20), (0.9, 41)])
def test_chains_of_randomised_rounding_hold(rate, size, epsilon):
    def law(units):
        whole, part = divmod(Fraction(repr(rate)) * units, 1)
        return {whole: float(1 - part)} | ({whole + 1: float(part)} if part else {})

    for base in (ADD, "both"):
        exact = exact_loss(law(size + 1), law(size), size + 1, epsilon, base, ADD)
        check_claim(ds.proportional(rate, rounding="random", size=size), epsilon, base, ADD, exact)
