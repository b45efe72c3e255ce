"""The private allocation keeps its guarantee, by enumeration; it tells its errors, and refuses what is no figure."""

import itertools
import json
import math

import numpy as np
import pytest

from dpsurvey.design import Allocation, allocate, compare_allocations, srs
from dpsurvey.errors import BadValue, NoGuarantee

pytestmark = pytest.mark.quick

SOURCE = {"source": "Yearbook 2024, table 3"}
RELEASES = ("strata", "total")

# The guarantee by enumeration: every sample of tiny strata, values 0 and 1, the law of what is published as a Laplace mixture.
TINY = {"a": 3, "b": 2}
WANTED = {"a": 0.7, "b": 0.3}


def largest_log_ratio(one, other, scale):
    """sup |log p/q| of two Laplace mixtures. Between two centres the ratio is monotone, so centres and both ends are enough."""
    centres = np.unique([centre for _, centre in (*one, *other)])

    def density(mixture, x):
        return sum(weight * np.exp(-np.abs(x - centre) / scale) for weight, centre in mixture)

    at_centres = np.log(density(one, centres) / density(other, centres))
    at_ends = [
        math.log(sum(w * math.exp(s * c / scale) for w, c in one) / sum(w * math.exp(s * c / scale) for w, c in other))
        for s in (-1.0, 1.0)
    ]
    return float(np.max(np.abs([*at_centres, *at_ends])))


def stratum_means(values, take):
    samples = list(itertools.combinations(values, take))
    return [(1 / len(samples), sum(sample) / take) for sample in samples]


def published(release, population, takes, of):
    """The noiseless law of what a record of stratum `of` is in: the mean of its stratum, or the mean of all."""
    if release == "strata":
        # The other stratum means are independent of this one and alike for both neighbours.
        return stratum_means(population[of], takes[of])
    parts = [[(w, TINY[h] / 5 * mean) for w, mean in stratum_means(population[h], takes[h])] for h in TINY]
    return [(math.prod(w for w, _ in pair), sum(m for _, m in pair)) for pair in itertools.product(*parts)]


def noise_scale(made, of):
    if made.release == "total":
        return made.se_noise / math.sqrt(2.0)
    (row,) = [row for row in made.rows() if row["stratum"] == of]
    return row["se_noise"] / math.sqrt(2.0)


def worst_loss(made, of, less=1.0):
    """Over all populations of zeros and ones and a record of stratum `of` that is replaced."""
    worst = 0.0
    for values in itertools.product((0.0, 1.0), repeat=5):
        population = {"a": values[:3], "b": values[3:]}
        changed = population | {of: (1.0 - population[of][0], *population[of][1:])}
        laws = [published(made.release, each, made.takes, of) for each in (population, changed)]
        worst = max(worst, largest_log_ratio(*laws, less * noise_scale(made, of)))  # type: ignore[call-arg]
    return worst


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("takes", [{"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 2}])
def test_a_replaced_record_loses_its_epsilon_and_no_more(release, takes):
    made = allocate("private", sizes=TINY, n=sum(takes.values()), minimum=takes, epsilon=WANTED, ranges=1.0, release=release)
    assert made.takes == takes
    losses = {h: worst_loss(made, h) for h in TINY}
    assert all(losses[h] <= WANTED[h] * (1 + 1e-12) for h in TINY)
    told = {row["stratum"]: row["epsilon"] for row in made.rows()}
    assert losses == pytest.approx(told, rel=1e-9)
    # Noise on each stratum uses up every epsilon, one noise at least one of them; with 1 % less noise it is too much.
    tight = [h for h in TINY if losses[h] >= WANTED[h] - 1e-9]
    assert tight == list(TINY) if release == "strata" else tight
    assert all(worst_loss(made, h, less=0.99) > WANTED[h] for h in tight)


@pytest.mark.parametrize("release", RELEASES)
def test_the_standard_error_without_deviations_is_that_of_the_worst_population(release):
    made = allocate("private", sizes=TINY, n=3, epsilon=WANTED, ranges=1.0, release=release)
    found = 0.0
    for values in itertools.product((0.0, 1.0), repeat=5):
        law = published("total", {"a": values[:3], "b": values[3:]}, made.takes, "a")
        centre = sum(w * mean for w, mean in law)
        found = max(found, sum(w * (mean - centre) ** 2 for w, mean in law))
    assert made.se_sampling == pytest.approx(math.sqrt(found), rel=1e-12)
    assert made.se == pytest.approx(math.hypot(made.se_sampling, made.se_noise), rel=1e-12)


REGIONS = {"north": 1200, "south": 600, "island": 200}
SPREADS = {"north": 10.0, "south": 30.0, "island": 40.0}
GOOD = {"sizes": REGIONS, "n": 100, "deviations": SPREADS, "epsilon": 0.5, "ranges": 100.0, **SOURCE}


@pytest.mark.parametrize("release", RELEASES)
def test_an_allocation_tells_its_errors_and_is_read_back(release):
    made = allocate("private", **GOOD, release=release, minimum={"island": 19})
    assert Allocation.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert made.within() == {h: srs(n=take) for h, take in made.takes.items()}
    assert made.se_mean == pytest.approx(made.se_sampling)
    for row in made.rows():
        spent = row["epsilon_in_sample"]
        assert spent == made.epsilon_in_sample[row["stratum"]]
        assert math.log1p(row["rate"] * math.expm1(spent)) == pytest.approx(row["epsilon"], rel=1e-12)
        assert row["epsilon"] <= 0.5
        assert ("se_noise" in row) == (release == "strata")
    assert "se of the mean" in str(made)
    assert "at most, for any values" not in str(made)


def test_rules_without_noise_tell_none():
    made = allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, **SOURCE)
    assert (made.se_noise, made.se, made.epsilon_in_sample) == (None, None, None)
    assert made.se_sampling == made.se_mean


def test_confidential_deviations_keep_the_mark_and_errors_do_not_tell_them():
    made = allocate("private", **(GOOD | {"public": False, "source": ""}))
    assert str(made).endswith("computed from the confidential frame: not public; no survey can release with it")
    with pytest.raises(NoGuarantee, match="not public"):
        made.within()
    with pytest.raises(BadValue) as caught:
        allocate("private", **(GOOD | {"public": False, "deviations": SPREADS | {"south": 77.125}}))
    assert "spread outside the bounds" in str(caught.value)
    assert "south" not in str(caught.value)
    assert "77" not in str(caught.value)


def test_a_stratum_minimum_speaks_to_every_rule():
    made = allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, minimum={"island": 40}, **SOURCE)
    assert made.takes["island"] == 40
    assert made.floor == {"north": 1, "south": 1, "island": 40}
    assert Allocation.from_dict(made.to_dict()) == made


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 40.0, 800.0, 1e6])
@pytest.mark.parametrize("release", RELEASES)
def test_extreme_guarantees_and_ranges_give_finite_figures(epsilon, release):
    for width in (1e-150, 1.0, 1e150):
        made = allocate("private", sizes=REGIONS, n=100, epsilon=epsilon, ranges=width, release=release)
        assert made.total == 100
        assert all(math.isfinite(each) and each > 0.0 for each in (made.se, made.se_noise, *made.epsilon_in_sample.values()))


def test_prices_with_many_digits_are_counted_exactly():
    # In coins of 1e-17 these prices are beyond 64 bits; 335 units of the first cost a little more than 100.5.
    costs = {"north": 0.1 + 0.2, "south": 1234.5, "island": 1e9}
    made = allocate("private", **(GOOD | {"n": None, "budget": 1e9 + 1234.5 + 100.5, "costs": costs}))
    assert made.takes == {"north": 334, "south": 1, "island": 1}


def test_a_whole_frame_has_noise_alone_and_spends_its_epsilon_on_the_sample():
    made = allocate("private", **(GOOD | {"n": 2000}))
    assert made.takes == REGIONS
    assert made.se_sampling == 0.0
    assert made.epsilon_in_sample == dict.fromkeys(REGIONS, 0.5)


def test_units_that_save_nothing_are_drawn_in_proportion():
    # Nothing varies and one noise serves all: beyond the level that the small stratum allows, units are worth nothing.
    asked = {"sizes": {"a": 10, "b": 600, "c": 600}, "epsilon": {"a": 0.01, "b": 5.0, "c": 5.0}, "ranges": 1.0}
    made = allocate("private", **asked, n=700, deviations={"a": 0, "b": 0, "c": 0}, release="total", **SOURCE)
    assert made.takes == {"a": 10, "b": 345, "c": 345}


BAD = [
    ({"n": 2001}, "n is above the number of units"),
    ({"n": 5, "minimum": 2}, "n is below the minimum"),
    ({"n": 50, "minimum": {"north": 60}}, "n is below the minimum"),
    ({"minimum": 0}, "draws from every stratum"),
    ({"minimum": {"west": 3}}, "names a stratum without a size"),
    ({"minimum": {"island": 201}}, "the minimum of stratum 'island'"),
    ({"minimum": {"island": 2.5}}, "the minimum of stratum 'island'"),
    ({"n": None}, "needs either n or a budget"),
    ({"budget": 50.0}, "needs either n or a budget"),
    ({"n": None, "budget": 50.0}, "needs costs"),
    ({"n": None, "budget": 50.0, "costs": {"north": 1, "south": 0, "island": 1}}, "'south' must be a finite number above 0"),
    ({"n": None, "budget": 50.0, "costs": {"north": 1, "south": -2, "island": 1}}, "'south' must be a finite number above 0"),
    ({"n": None, "budget": 2.9, "costs": dict.fromkeys(REGIONS, 1)}, "does not cover the minimum"),
    ({"n": None, "budget": 1e300, "costs": dict.fromkeys(REGIONS, 1e-300)}, "too far apart"),
    ({"epsilon": None}, "needs epsilon"),
    ({"epsilon": 0}, "epsilon must be a finite number above 0"),
    ({"epsilon": {"north": 1, "south": 1, "island": 0}}, "epsilon of stratum 'island'"),
    ({"epsilon": math.inf}, "epsilon must be a finite number"),
    ({"epsilon": 1e-12}, "epsilon must be between"),
    ({"epsilon": {"north": 1, "south": 1}}, "lack the stratum 'island'"),
    ({"ranges": None}, "needs ranges"),
    ({"ranges": 0}, "ranges must be a finite number above 0"),
    ({"ranges": {"north": 100, "south": 100, "island": math.nan}}, "ranges of stratum 'island'"),
    ({"ranges": 70.0}, "'island' is a spread outside the bounds"),
    ({"release": "totals"}, "did you mean 'total'"),
    ({"release": "each"}, "unknown release 'each'"),
    ({"source": ""}, "published: deviations"),
    ({"cv": 0.1}, "does not use cv"),
]


@pytest.mark.parametrize(("wrong", "says"), BAD, ids=[f"{number}: {says}" for number, (_, says) in enumerate(BAD)])
def test_what_is_no_figure_is_refused_by_name(wrong, says):
    with pytest.raises(BadValue) as caught:
        allocate("private", **(GOOD | wrong))
    assert says in str(caught.value)


@pytest.mark.parametrize("wrong", [{"epsilon": None}, {"rule": "neyman"}, {"release": "each"}, {"takes": REGIONS | {"north": 0}}])
def test_a_document_that_is_no_private_allocation_is_refused(wrong):
    with pytest.raises(BadValue):
        Allocation.from_dict(allocate("private", **GOOD).to_dict() | wrong)


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_has_a_row_for_each_rule_with_its_errors_and_its_price_from_secrets(release):
    asked = {name: GOOD[name] for name in ("sizes", "n", "epsilon", "ranges")}
    rows = {row["rule"]: row for row in compare_allocations(**GOOD, release=release)}
    assert list(rows) == ["private", "minimax", "proportional", "neyman"]
    for row in rows.values():
        scales = [
            size / 2000 * 100.0 / (take * math.log1p(math.expm1(0.5) * size / take))
            for size, take in zip(REGIONS.values(), row["takes"].values(), strict=True)
        ]
        noise = 2.0 * (sum(scale**2 for scale in scales) if release == "strata" else max(scales) ** 2)
        assert row["se_noise"] == pytest.approx(math.sqrt(noise))
        assert row["se"] == pytest.approx(math.hypot(row["se_sampling"], row["se_noise"]))
        assert row["se"] >= rows["private"]["se"]
    assert rows["neyman"]["takes"] == allocate("neyman", sizes=REGIONS, n=100, deviations=SPREADS, **SOURCE).takes
    assert rows["minimax"]["takes"] == allocate("private", **asked, release=release).takes
    spent = max(allocate("private", **GOOD, release=release).epsilon_in_sample.values())
    assert f"200 steps of add-remove and one replacement, {201 * spent:.6g}" in rows["private"]["if_confidential"]
    assert "tell nothing" in rows["minimax"]["if_confidential"]
    # Proportional here: 5 % of each stratum, log(1 + (e^0.5 - 1)/0.05) on the sample; randomised rounding r(2 - r).
    at_rate = math.log1p(math.expm1(0.5) / 0.05)
    random = math.log1p(0.05 * 1.95 * math.expm1(at_rate))
    assert f"epsilon {math.ceil(at_rate * 1e3) / 1e3:g}" in rows["proportional"]["if_confidential"]
    assert f"epsilon {math.ceil(random * 1e4) / 1e4:g}" in rows["proportional"]["if_confidential"]
    assert [row["rule"] for row in compare_allocations(**asked, release=release)] == ["private", "proportional"]


def test_the_table_for_a_budget_keeps_it_in_every_row():
    costs = {"island": 90.0, "north": 20.0, "south": 20.0}
    rows = compare_allocations(**(GOOD | {"n": None, "budget": 3000.0, "costs": costs}))
    assert [row["rule"] for row in rows] == ["private", "minimax", "proportional", "cost"]
    for row in rows:
        assert row["cost"] == sum(costs[h] * take for h, take in row["takes"].items())
        assert 3000.0 - 90.0 < row["cost"] <= 3000.0
