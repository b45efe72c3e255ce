"""Every step of a recipe, drawn by the engine, follows its law: all samples of a small frame written out, and many drawn.

One query draws many replicates: each replicate is a stratum with its own copy of the frame, so its draw is independent.
The laws are enumerated from the definitions, apart from the package. A law gives each possible sample, as the number of
times that each unit is in it, its probability; means and variances of all statistics below are exact sums over it.

The test looks at how often each unit was drawn and how often each pair was drawn together, and rejects when one is more
than Z = 5.7 standard errors from its probability; and at the whole table of samples, by a chi-square at level 3e-7.
False alarms: with at most 45 statistics 45 * 2 * P(normal > 5.7) = 5.4e-7, and 3e-7: below 1e-6 for each test.
Power, computed below: an error of 3 % in the probability of any unit is found with probability 0.99, one of 5 % in that of
any pair with 0.9, where a case does not state other figures; and each test is run again on a draw in which one unit is
3 % off, which it rejects. The key is fixed.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2, norm

from dpsurvey.design.key import Key
from dpsurvey.design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Step, Strata
from dpsurvey.engine.draw.by_keyed_number import draw_by_keyed_number
from dpsurvey.engine.draw.keyed_list import KeyedNumbers
from dpsurvey.engine.source import open_table
from tests.truth import test_pps_draws as lists

Z, CHI_LEVEL, MANY = 5.7, 3e-7, 100_000
KEY = Key(bytes(range(32)))


# Laws: the probability of each sample, written as a tuple of how often each unit is in it.


def add(law, counts, chance):
    law[counts] = law.get(counts, 0.0) + chance


def of_sets(law, units):
    return {tuple(int(i in chosen) for i in range(units)): chance for chosen, chance in law.items() if chance > 0.0}


def subsets(units, n):
    every = list(itertools.combinations(range(units), n))
    return of_sets(dict.fromkeys(every, 1 / len(every)), units)


def each_alone(pi):
    law = {
        bits: math.prod(p if bit else 1 - p for p, bit in zip(pi, bits, strict=True))
        for bits in itertools.product((0, 1), repeat=len(pi))
    }
    return {bits: chance for bits, chance in law.items() if chance > 0.0}


def mixed(*parts):
    law = {}
    for share, part in parts:
        for counts, chance in part.items():
            add(law, counts, share * chance)
    return law


def rounded_share(units, rate):
    whole = math.floor(units * rate)
    up = units * rate - whole
    return mixed((1 - up, subsets(units, whole)), (up, subsets(units, whole + 1)))


def multinomial(units, n):
    law = {}
    for bars in itertools.combinations(range(n + units - 1), units - 1):
        edges = (-1, *bars, n + units - 1)
        counts = tuple(b - a - 1 for a, b in itertools.pairwise(edges))
        law[counts] = math.factorial(n) / math.prod(map(math.factorial, counts)) / units**n
    return law


def on_a_line(lengths, order):
    """One start in [0, 1) on stretches laid end to end in an order; the points start + 0, 1, 2, ... choose."""
    ends = np.cumsum([lengths[i] for i in order])
    cuts = sorted({0.0, 1.0, *(round(float(end) % 1.0, 12) for end in ends)})
    law = {}
    for low, high in itertools.pairwise(cuts):
        points = (low + high) / 2 + np.arange(math.ceil(ends[-1] + 1))
        hit = np.searchsorted(ends, points[points < ends[-1]], side="right")
        if high - low > 1e-9:
            add(law, tuple(int(place in hit) for place in np.argsort(order)), high - low)
    return law


def in_any_order(lengths):
    orders = list(itertools.permutations(range(len(lengths))))
    return mixed(*((1 / len(orders), on_a_line(lengths, order)) for order in orders))


def by_size(method, pi):
    """Certain units, and the law of a named method for the others."""
    sure, open_ = [i for i, p in enumerate(pi) if p == 1.0], [i for i, p in enumerate(pi) if p < 1.0]
    rest = np.array([pi[i] for i in open_])
    law = lists.LAWS[method](rest, round(rest.sum()))
    return of_sets({tuple(sorted([*sure, *(open_[i] for i in chosen)])): chance for chosen, chance in law.items()}, len(pi))


def staged(members, how, inside):
    """Clusters by one law; inside each, each time it was drawn, its units by another."""
    units = sum(map(len, members))
    law = {}
    for counts, chance in how.items():
        states = {(0,) * units: chance}
        for cluster, times in enumerate(counts):
            for _ in range(times):
                following = {}
                for state, p in states.items():
                    for chosen, q in inside[cluster].items():
                        new = list(state)
                        for unit, count in zip(members[cluster], chosen, strict=True):
                            new[unit] += count
                        add(following, tuple(new), p * q)
                states = following
        for state, p in states.items():
            add(law, state, p)
    return law


def all_of(units):
    return {(1,) * units: 1.0}


# The draw, and the test.


@dataclass(frozen=True)
class Drawn:
    """Replicates: the different samples that came up, as counts of units, how often each did, and every drawn row."""

    samples: np.ndarray
    times: np.ndarray
    rows: pa.Table
    units: int

    @property
    def replicates(self):
        return int(self.times.sum())


def replicated(columns, replicates):
    units = len(next(iter(columns.values())))
    numbers = {"unit": np.arange(replicates * units), "replicate": np.repeat(np.arange(replicates), units)}
    return pa.table(numbers | {name: np.tile(np.asarray(values), replicates) for name, values in columns.items()})


def draw(scratch, step, columns, replicates, recipe=None):
    """Many draws of one step, by the engine, in one query."""
    table = open_table(replicated(columns, replicates), str(scratch))
    units = len(next(iter(columns.values())))
    rows = draw_by_keyed_number(table, recipe or Strata("replicate", step), "unit", ("unit",), KeyedNumbers(KEY)).to_pyarrow()
    counts = np.bincount(rows["unit"].to_numpy(), minlength=replicates * units).reshape(replicates, units)
    _, places, times = np.unique(counts @ (1 + counts.max()) ** np.arange(units), return_index=True, return_counts=True)
    return Drawn(counts[places], times, rows, units)


def statistics(samples):
    """For each sample: how often each unit is in it, and each pair; a vector."""
    first, second = np.triu_indices(samples.shape[1], 1)
    return np.concatenate([samples, samples[:, first] * samples[:, second]], axis=1).astype(float)


def moments(law):
    samples, chances = np.array(list(law)), np.array(list(law.values()))
    assert math.fsum(chances) == pytest.approx(1.0, abs=1e-9)
    values = statistics(samples)
    mean = chances @ values
    return mean, np.maximum(chances @ (values - mean) ** 2, 0.0)


def worst_z(drawn, law):
    """The largest distance of a frequency from its probability, in standard errors."""
    mean, variance = moments(law)
    seen = drawn.times @ statistics(drawn.samples) / drawn.replicates
    settled = variance < 1e-12
    if not np.allclose(seen[settled], mean[settled], rtol=0, atol=1e-9):
        return math.inf
    return float((np.abs(seen - mean)[~settled] / np.sqrt(variance[~settled] / drawn.replicates)).max())


def chi_square(drawn, law):
    """The p-value of the table of samples; samples that are expected fewer than ten times are taken together."""
    seen = {}
    for counts, times in zip(map(tuple, drawn.samples.tolist()), drawn.times.tolist(), strict=True):
        add(seen, counts, times)
    if not set(seen) <= set(law):
        return 0.0
    pairs = sorted((drawn.replicates * chance, seen.get(counts, 0)) for counts, chance in law.items())
    few = [pair for pair in pairs if pair[0] < 10.0]
    cells = [pair for pair in pairs if pair[0] >= 10.0] + ([tuple(map(sum, zip(*few, strict=True)))] if few else [])
    return float(chi2.sf(sum((found - expected) ** 2 / expected for expected, found in cells), max(1, len(cells) - 1)))


def accepted(drawn, law):
    return worst_z(drawn, law) < Z and chi_square(drawn, law) > CHI_LEVEL


def smallest_found(law, replicates):
    """The relative error of a unit that is found with probability 0.99, and of a pair with 0.9: the largest over all."""
    mean, variance = moments(law)
    units, open_ = len(next(iter(law))), variance > 1e-12
    relative = np.zeros(len(mean))
    relative[open_] = np.sqrt(variance[open_] / replicates) / mean[open_]
    return float(relative[:units].max() * (Z + norm.isf(0.01))), float(relative[units:].max() * (Z + norm.isf(0.1)))


# The cases.


@dataclass(frozen=True)
class Case:
    """A step on a small frame, its law, and a draw that is 3 % off.

    `unit` and `pair`: the error in the probability of any unit that is found with probability 0.99, of any pair with 0.9.
    """

    step: Step
    columns: dict
    law: dict = field(repr=False)
    wrong: Step
    off: dict = field(default_factory=dict)
    unit: float = 0.03
    pair: float = 0.05
    replicates: int = MANY
    weight: tuple = ()
    pi: tuple = ()

    @property
    def wrong_columns(self):
        return self.columns | self.off


def tilted(pi):
    """The first unit 3 % more likely, the others less, the same sum."""
    rest = sum(pi[1:])
    return [pi[0] * 1.03, *(p * (rest - 0.03 * pi[0]) / rest for p in pi[1:])]


PLACE = [3, 1, 4, 0, 2]
ORDER = [PLACE.index(place) for place in range(5)]
FIVE = {"place": PLACE}
SIZES = [4.0, 4.5, 5.0, 5.5, 6.0]
PI = [0.48, 0.54, 0.6, 0.66, 0.72]
RATES = [0.5, 0.55, 0.6, 0.65, 0.7]
CERTAIN_SIZES = [100, 3, 4, 5, 30, 4, 4]
CERTAIN_PI = [1.0, 0.3, 0.4, 0.5, 1.0, 0.4, 0.4]
THREE_PSUS = {"psu": ["a", "a", "b", "b", "c", "c", "c"]}
MEMBERS = [(0, 1), (2, 3), (4, 5, 6)]
NESTED = {"psu": [1, 1, 1, 1, 2, 2, 2, 2], "ssu": [1, 1, 2, 3, 1, 1, 2, 3]}


def nested_law():
    inside_psu = staged([(0, 1), (2,), (3,)], subsets(3, 2), [each_alone([0.9, 0.9]), each_alone([0.9]), each_alone([0.9])])
    return staged([(0, 1, 2, 3), (4, 5, 6, 7)], each_alone([0.8, 0.8]), [inside_psu, inside_psu])


@cache
def cases():
    off_five = {"off": tilted([0.6] * 5)}
    sized = {"x": SIZES, "place": PLACE}
    off_sized = {"x": tilted(PI)}
    certain = {"x": CERTAIN_SIZES, "place": list(range(7))}
    # The first of the units that are not certain 3 % larger.
    off_certain = {"x": [1000.0, *(100 * p for p in tilted([0.3, 0.4, 0.5])), 300.0, 40.0, 40.0]}
    whole = [all_of(2), all_of(2), all_of(3)]
    half = [subsets(2, 1), subsets(2, 1), subsets(3, 1)]
    two = [all_of(2), all_of(2), subsets(3, 2)]
    mos = {"mos": [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 6.0]}
    off_mos = {"mos": [4.2, 4.2, 5.0, 5.0, 5.8, 5.8, 5.8]}
    by_mos = by_size("pareto", [8 / 15, 10 / 15, 12 / 15])
    stated_mos = np.repeat([8 / 15, 10 / 15, 12 / 15], [2, 2, 3])
    return {
        "simple": Case(Simple(3), FIVE, subsets(5, 3), Sized("off", 3, "systematic"), off_five),
        "each": Case(Each(0.55), FIVE, each_alone([0.55] * 5), Each(0.55 * 1.03)),
        "each by": Case(EachBy("rate", 0.7), {"rate": RATES}, each_alone(RATES), EachBy("rate", 0.7), {"rate": tilted(RATES)}),
        "share, half a unit": Case(Share(0.5, "random"), FIVE, rounded_share(5, 0.5), Share(0.515, "random")),
        "share, of six": Case(Share(0.62, "random"), {"x": range(6)}, rounded_share(6, 0.62), Share(0.62 * 1.03, "random")),
        "share, to the nearest": Case(Share(0.62, "nearest"), FIVE, subsets(5, 3), Sized("off", 3, "systematic"), off_five),
        "repeated": Case(
            Repeated(20), FIVE, multinomial(5, 20), Repeated(20), replicates=20_000, weight=(5 / 20,) * 5, pi=(1 - 0.8**20,) * 5
        ),
        "every, in an order": Case(
            Every(3, False, ("place",)), FIVE, on_a_line([0.6] * 5, ORDER), Sized("off", 3, "systematic", ("place",)), off_five
        ),
        "every, of seven": Case(
            Every(3, False, ("x",)),
            {"x": [2, 0, 1, 3, 5, 4, 6]},
            on_a_line([3 / 7] * 7, [1, 2, 0, 3, 5, 4, 6]),
            Sized("off", 3, "systematic", ("x",)),
            {"off": tilted([3 / 7] * 7)},
            pair=0.06,
        ),
        "every, in random order": Case(Every(3, False, "random"), FIVE, subsets(5, 3), Sized("off", 3, "systematic"), off_five),
        "every by share, in an order": Case(
            Every(0.55, True, ("place",)),
            FIVE,
            on_a_line([0.55] * 5, ORDER),
            Every(0.55 * 1.03, True, ("place",)),
            pair=0.07,
        ),
        "every by share, in random order": Case(
            Every(0.55, True, "random"), FIVE, in_any_order([0.55] * 5), Every(0.55 * 1.03, True, "random")
        ),
        "by size, poisson": Case(Sized("x", 3, "poisson"), sized, each_alone(PI), Sized("x", 3, "poisson"), off_sized),
        "by size, systematic in an order": Case(
            Sized("x", 3, "systematic", ("place",)),
            sized,
            on_a_line(PI, ORDER),
            Sized("x", 3, "systematic", ("place",)),
            off_sized,
            pair=0.08,
        ),
        "by size, systematic in random order": Case(
            Sized("x", 3, "systematic"), sized, in_any_order(PI), Sized("x", 3, "systematic"), off_sized
        ),
        "by size, pareto": Case(
            Sized("x", 3, "pareto"), sized, by_size("pareto", PI), Sized("x", 3, "pareto"), off_sized, pi=tuple(PI)
        ),
        "certain units, poisson": Case(
            Sized("x", 4, "poisson"),
            certain,
            each_alone(CERTAIN_PI),
            Sized("x", 4, "poisson"),
            off_certain,
            unit=0.04,
            pair=0.09,
        ),
        "certain units, systematic": Case(
            Sized("x", 4, "systematic", ("place",)),
            certain,
            on_a_line(CERTAIN_PI, range(7)),
            Sized("x", 4, "systematic", ("place",)),
            off_certain,
            unit=0.04,
            pair=0.09,
        ),
        "certain units, pareto": Case(
            Sized("x", 4, "pareto"),
            certain,
            by_size("pareto", CERTAIN_PI),
            Sized("x", 4, "pareto"),
            off_certain,
            pi=tuple(CERTAIN_PI),
            unit=0.04,
            pair=0.09,
        ),
        "clusters": Case(
            Clusters("psu", Simple(2)),
            THREE_PSUS,
            staged(MEMBERS, subsets(3, 2), whole),
            Clusters("psu", Sized("mos", 2, "systematic")),
            {"mos": [1.0, 1.0, 1.0, 1.0, 1.05, 1.05, 1.05]},
        ),
        "clusters by size": Case(
            Clusters("psu", Sized("mos", 2, "pareto")),
            THREE_PSUS | mos,
            staged(MEMBERS, by_mos, whole),
            Clusters("psu", Sized("mos", 2, "pareto")),
            off_mos,
            pi=tuple(stated_mos),
        ),
        "clusters with replacement": Case(
            Clusters("psu", Repeated(12)),
            THREE_PSUS,
            staged(MEMBERS, multinomial(3, 12), whole),
            Clusters("psu", Repeated(12)),
            replicates=20_000,
            weight=(3 / 12,) * 7,
            pi=(1 - (2 / 3) ** 12,) * 7,
        ),
        "two stages": Case(
            Clusters("psu", Simple(2), Simple(2)),
            THREE_PSUS,
            staged(MEMBERS, subsets(3, 2), two),
            Clusters("psu", Sized("mos", 2, "systematic"), Simple(2)),
            {"mos": [1.0, 1.0, 1.0, 1.0, 1.05, 1.05, 1.05]},
        ),
        "two stages, by size and every k-th": Case(
            Clusters("psu", Sized("mos", 2, "systematic"), Every(0.7, True, ("place",))),
            THREE_PSUS | mos | {"place": [1, 0, 0, 1, 2, 1, 0]},
            staged(
                MEMBERS,
                in_any_order([8 / 15, 10 / 15, 12 / 15]),
                [on_a_line([0.7] * 2, (1, 0)), on_a_line([0.7] * 2, (0, 1)), on_a_line([0.7] * 3, (2, 1, 0))],
            ),
            Clusters("psu", Sized("mos", 2, "systematic"), Every(0.7 * 1.03, True, ("place",))),
            unit=0.034,
            pair=0.07,
        ),
        "two stages, the first with replacement": Case(
            Clusters("psu", Repeated(6), Simple(1)),
            THREE_PSUS,
            staged(MEMBERS, multinomial(3, 6), half),
            Clusters("psu", Repeated(6), Simple(1)),
            replicates=15_000,
            weight=(1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5),
            unit=0.08,
            pair=0.13,
        ),
        "three stages": Case(
            Clusters("psu", Each(0.8), Clusters("ssu", Simple(2), Each(0.9))),
            NESTED,
            nested_law(),
            Clusters("psu", Each(0.8), Clusters("ssu", Simple(2), Each(0.9 * 1.03))),
        ),
    }


NAMES = list(cases())
# The cases of these names have the law, and the wrong draw, of another one; or none, as they draw with replacement.
TOLD_ALREADY = ("share, to the nearest", "every, in random order")
REPEATED = ("repeated", "clusters with replacement", "two stages, the first with replacement")
QUICK_TO_REJECT = ("simple", "each", "each by", "by size, systematic in an order")


# What these show is shown by others too, on other lists.
SLOW = (
    "share, of six",
    "share, to the nearest",
    "every, of seven",
    "certain units, poisson",
    "clusters by size",
    "clusters with replacement",
)


@pytest.mark.slow_cases("two stages, the first with replacement", "repeated")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in NAMES])
def test_units_and_pairs_are_drawn_as_often_as_the_law_says_with_weights_that_are_right(tmp_path, name):
    case = cases()[name]
    drawn = draw(tmp_path, case.step, case.columns, case.replicates)
    # False alarms 8.4e-7 in all (see above), and 4e-7 for the two totals of each case.
    assert worst_z(drawn, case.law) < Z
    assert chi_square(drawn, case.law) > CHI_LEVEL
    check_weights(drawn, case)


def check_weights(drawn, case):
    """Probabilities and weights are those of the law; the weights add to N, and weighted sums to the total, on average."""
    samples, chances = np.array(list(case.law)), np.array(list(case.law.values()))
    units = drawn.rows["unit"].to_numpy() % drawn.units
    weights, pi = drawn.rows["__weight"].to_numpy(), drawn.rows["__pi"].to_numpy()
    inclusion = np.array(case.pi or chances @ (samples > 0))
    own = np.array(case.weight or 1 / inclusion)
    if not subsampled_repeatedly(case.step):
        assert np.allclose(pi, inclusion[units], rtol=1e-9, atol=0.0)
    assert np.allclose(weights, own[units], rtol=1e-9, atol=0.0)
    # Pareto's probabilities are only nearly those that its weights are made of.
    nearly = any(isinstance(step, Sized) and step.method == "pareto" for step in case.step.below())
    for y in (np.ones(drawn.units), np.arange(1.0, drawn.units + 1) ** 2):
        law_of_total = samples @ (own * y)
        mean = chances @ law_of_total
        assert mean == pytest.approx(y.sum(), rel=0.02 if nearly else 1e-9)
        deviation = math.sqrt(max(0.0, chances @ (law_of_total - mean) ** 2))
        # Two totals: 2 * 2 * P(normal > 5.2) = 4e-7. Sums of weights that cannot vary are N to rounding.
        found = (weights * y[units]).sum() / drawn.replicates
        assert abs(found - mean) <= 5.2 * deviation / math.sqrt(drawn.replicates) + 1e-9 * y.sum()


def subsampled_repeatedly(step):
    return isinstance(step, Clusters) and isinstance(step.how, Repeated) and step.inside is not None


@pytest.mark.parametrize("name", NAMES)
def test_power_an_error_of_three_percent_would_be_found(name):
    case = cases()[name]
    unit, pair = smallest_found(case.law, case.replicates)
    assert unit < case.unit
    assert pair < case.pair
    assert len(moments(case.law)[0]) * 2 * norm.sf(Z) + CHI_LEVEL < 1e-6


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK_TO_REJECT else [pytest.mark.slow])
        for name in NAMES
        if name not in TOLD_ALREADY + REPEATED
    ],
)
def test_a_draw_that_is_three_percent_off_is_rejected(tmp_path, name):
    case = cases()[name]
    replicates = case.replicates * (2 if name.startswith("certain") else 1)
    assert not accepted(draw(tmp_path, case.wrong, case.columns | case.off, replicates), case.law)


@pytest.mark.slow
def test_draws_with_replacement_that_are_three_percent_off_are_rejected(tmp_path):
    case = cases()["repeated"]
    drawn = draw(tmp_path, case.step, case.columns, case.replicates)
    assert accepted(drawn, case.law)
    # In some replicates one draw of unit 1 becomes a draw of unit 0, which is then drawn 3 % more often: 4 times 0.03.
    units = drawn.rows["unit"].to_numpy().copy()
    second = np.flatnonzero(units % 5 == 1)
    units[second[:: round(1 / 0.03)]] -= 1
    counts = np.bincount(units, minlength=5 * case.replicates).reshape(-1, 5)
    samples, times = np.unique(counts, axis=0, return_counts=True)
    assert worst_z(Drawn(samples, times, drawn.rows, 5), case.law) > Z


def test_pairs_that_are_off_are_rejected_though_every_unit_is_right(tmp_path):
    random = draw(tmp_path, Every(3, False, "random"), FIVE, MANY)
    ordered = draw(tmp_path, Every(3, False, ("place",)), FIVE, MANY // 10)
    assert accepted(random, subsets(5, 3))
    assert not accepted(ordered, subsets(5, 3))
    # One replicate in eleven in the given order: all units stay right, pairs are a few per cent off.
    both = Drawn(np.concatenate([random.samples, ordered.samples]), np.concatenate([random.times, ordered.times]), random.rows, 5)
    law = mixed((10 / 11, subsets(5, 3)), (1 / 11, on_a_line([0.6] * 5, ORDER)))
    off = np.abs(moments(law)[0] / moments(subsets(5, 3))[0] - 1)
    assert off[:5].max() < 1e-12
    assert 0.03 < off.max() < 0.1
    assert not accepted(both, subsets(5, 3))
    assert accepted(both, law)


# Methods that go through a list in Python, one replicate at a time: fewer replicates, larger errors found; all of it when slow.

LISTED = [
    ("sampford", 8_000, 0.095, 0.17),
    ("pivotal", 8_000, 0.095, 0.17),
    ("conditional-poisson", 600, 0.35, 0.6),
]


@pytest.mark.parametrize(
    ("method", "replicates", "unit", "pair"),
    [
        *LISTED,
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("sampford", 80_000, 0.03, 0.055), ("pivotal", 80_000, 0.03, 0.055))
        ),
        pytest.param("conditional-poisson", 40_000, 0.045, 0.08, marks=pytest.mark.slow),
    ],
)
def test_methods_that_go_through_a_list_follow_their_laws(tmp_path, method, replicates, unit, pair):
    law = by_size(method, PI)
    case = Case(Sized("x", 3, method), {"x": SIZES}, law, Sized("x", 3, method))
    drawn = draw(tmp_path, case.step, case.columns, replicates)
    assert worst_z(drawn, law) < Z
    assert chi_square(drawn, law) > CHI_LEVEL
    check_weights(drawn, case)
    found = smallest_found(law, replicates)
    assert found[0] < unit
    assert found[1] < pair
    if replicates < MANY // 10:
        return
    # The first unit off by as much as is found nearly always.
    off = {"x": [PI[0] * (1 + 1.2 * unit), *(p * (3 - PI[0] * (1 + 1.2 * unit)) / (3 - PI[0]) for p in PI[1:])]}
    assert not accepted(draw(tmp_path, case.wrong, off, replicates), law)


@pytest.mark.parametrize("method", ["sampford", "pivotal", "conditional-poisson"])
def test_certain_units_of_list_methods_are_always_drawn(tmp_path, method):
    # Units that are certain at once, and after others left. Errors of 0.12 in a unit are found (computed), false alarms as above.
    replicates = 4_000 if method != "conditional-poisson" else 500
    law = by_size(method, CERTAIN_PI)
    drawn = draw(tmp_path, Sized("x", 4, method), {"x": CERTAIN_SIZES}, replicates)
    assert worst_z(drawn, law) < Z
    assert set(drawn.samples.sum(axis=1)) == {4}
    assert drawn.samples[:, [0, 4]].all()
    check_weights(drawn, Case(Sized("x", 4, method), {}, law, Each(1.0)))


# Strata with different designs inside. A stratum holds all replicates as clusters, each drawn for certain.


def mixed_strata(rate):
    def each_replicate(step):
        return Clusters("replicate", Each(1.0), step)

    return Strata(
        "region",
        {
            "north": each_replicate(Simple(2)),
            "south": each_replicate(Simple(1)),
            "east": each_replicate(Each(rate)),
            "west": each_replicate(Sized("x", 1, "systematic", ("unit",))),
        },
    )


def test_strata_with_different_designs_inside_are_drawn_each_by_its_own_and_independently(tmp_path):
    columns = {
        "region": ["north"] * 3 + ["south"] * 2 + ["east"] + ["west"] * 2,
        "x": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0],
    }
    parts = [(0, 1, 2), (3, 4), (5,), (6, 7)]
    law = staged(parts, all_of(4), [subsets(3, 2), subsets(2, 1), each_alone([0.6]), on_a_line([0.4, 0.6], (0, 1))])
    drawn = draw(tmp_path, Each(1.0), columns, 60_000, recipe=mixed_strata(0.6))
    # 36 statistics: false alarms 36 * 2 * P(normal > 5.7) + 3e-7 = 7.3e-7; found (computed): 4 % in a unit, 7 % in a pair.
    assert worst_z(drawn, law) < Z
    assert chi_square(drawn, law) > CHI_LEVEL
    found = smallest_found(law, 60_000)
    assert found[0] < 0.041
    assert found[1] < 0.071
    check_weights(drawn, Case(Each(1.0), {}, law, Each(1.0)))
    assert set(drawn.rows["__stratum"].to_pylist()) == {"north", "south", "east", "west"}
    assert not accepted(draw(tmp_path, Each(1.0), columns, 30_000, recipe=mixed_strata(0.6 * 1.06)), law)


def test_strata_of_one_shape_are_drawn_together_each_by_its_own_amount(tmp_path):
    # 240 strata, drawn by four shapes at once: the number taken from each, and each probability, is that of its own step.
    strata = {}
    for number in range(60):
        strata |= {f"s{number}": Simple(1 + number % 3), f"r{number}": Repeated(1 + number % 4)}
        strata |= {f"e{number}": Every(1 + number % 4, False, "random"), f"z{number}": Sized("x", 1 + number % 2, "pivotal")}
    labels = np.repeat(list(strata), 5)
    table = pa.table({"unit": np.arange(len(labels)), "region": labels, "x": np.tile([1.0, 2.0, 2.0, 2.0, 3.0], len(strata))})
    rows = draw_by_keyed_number(
        open_table(table, str(tmp_path)), Strata("region", strata), "unit", ("unit",), KeyedNumbers(KEY)
    ).to_pyarrow()
    found = dict(zip(*np.unique(rows["__stratum"].to_pylist(), return_counts=True), strict=True))
    assert {label: int(step.amounts()[0]) for label, step in strata.items()} == {label: int(n) for label, n in found.items()}
    for row in rows.to_pylist():
        take = strata[row["__stratum"]].amounts()[0]
        size = [1, 2, 2, 2, 3][row["unit"] % 5] / 10 if row["__stratum"][0] == "z" else 1 / 5
        assert row["__weight"] == pytest.approx(1 / (take * size), rel=1e-12)


def test_the_probability_of_a_unit_in_a_repeatedly_drawn_cluster_is_that_of_being_in_the_sample_at_all(tmp_path):
    case = cases()["two stages, the first with replacement"]
    drawn = draw(tmp_path, case.step, case.columns, 2_000)
    # Six draws of three clusters, one of two units each time: 1 - (1 - 1/6)^6 = 0.665, not (1 - (2/3)^6)/2 = 0.456.
    inclusion = np.array(list(case.law.values())) @ (np.array(list(case.law)) > 0)
    assert np.allclose(drawn.rows["__pi"].to_numpy(), inclusion[drawn.rows["unit"].to_numpy() % 7], rtol=1e-9)
