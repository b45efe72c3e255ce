"""The private allocation: no other has less variance of sampling and noise together, by brute force and by slow searches."""

import heapq
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsurvey.design import allocate
from dpsurvey.errors import BadValue

SOURCE = {"source": "Yearbook 2024, table 3"}
RELEASES = ("strata", "total")


def loss_on_sample(epsilon, size, take):
    return math.log1p(math.expm1(epsilon) * size / take)


def term(size, total, deviation, width, epsilon, take):
    """W^2 [S^2 (1/n - 1/N) + 2 R^2/u^2], and W R/u."""
    scale = width / (take * loss_on_sample(epsilon, size, take))
    part = size / total
    return part**2 * deviation**2 * (1 / take - 1 / size), part * scale


def variance(case, takes, release):
    """By a loop over strata; written apart from the code."""
    total = sum(case["sizes"].values())
    terms = [
        term(case["sizes"][h], total, case["deviations"][h], case["ranges"][h], case["epsilon"][h], take)
        for h, take in takes.items()
    ]
    scales = [scale for _, scale in terms]
    noise = sum(scale**2 for scale in scales) if release == "strata" else max(scales) ** 2
    return math.fsum(sampling for sampling, _ in terms) + 2.0 * noise


def largest(size, width):
    """The largest deviation, in the two forms for even and odd sizes."""
    if size == 1:
        return 0.0
    return width * math.sqrt(size / (4 * (size - 1)) if size % 2 == 0 else (size + 1) / (4 * size))


def random_case(random, most_strata, most_units, worst=False):
    count = int(random.integers(1, most_strata + 1))
    names = [f"s{number}" for number in range(count)]
    sizes = dict(zip(names, random.integers(1, most_units + 1, count).tolist(), strict=True))
    ranges = dict(zip(names, random.uniform(0.2, 5.0, count).tolist(), strict=True))
    parts = np.ones(count) if worst else random.uniform(0.0, 1.0, count) * (random.random(count) > 0.1)
    deviations = {h: largest(sizes[h], ranges[h]) * part for h, part in zip(names, parts.tolist(), strict=True)}
    epsilon = dict(zip(names, np.exp(random.uniform(math.log(0.01), math.log(6.0), count)).tolist(), strict=True))
    return {"sizes": sizes, "ranges": ranges, "deviations": deviations, "epsilon": epsilon}


def some_minimum(random, sizes):
    return {h: int(random.integers(1, min(3, size) + 1)) for h, size in sizes.items()}


def every(sizes, minimum):
    ranges = [range(minimum[h], size + 1) for h, size in sizes.items()]
    return [dict(zip(sizes, takes, strict=True)) for takes in itertools.product(*ranges)]


def private(case, **more):
    return allocate("private", **case, **SOURCE, **more)


@pytest.mark.parametrize("release", RELEASES)
def test_no_allocation_of_small_strata_has_less_variance(release):
    random = np.random.default_rng(11)
    for _ in range(150):
        case = random_case(random, 4, 7)
        minimum = some_minimum(random, case["sizes"])
        n = int(random.integers(sum(minimum.values()), sum(case["sizes"].values()) + 1))
        made = private(case, n=n, minimum=minimum, release=release)
        all_ = [takes for takes in every(case["sizes"], minimum) if sum(takes.values()) == n]
        assert made.takes in all_
        best = min(variance(case, takes, release) for takes in all_)
        assert variance(case, made.takes, release) <= best * (1 + 1e-9)
        assert made.se == pytest.approx(math.sqrt(variance(case, made.takes, release)), rel=1e-9)


@pytest.mark.parametrize("release", RELEASES)
def test_without_deviations_no_allocation_has_less_variance_for_the_worst_values(release):
    random = np.random.default_rng(12)
    for _ in range(60):
        case = random_case(random, 3, 8, worst=True)
        n = int(random.integers(len(case["sizes"]), sum(case["sizes"].values()) + 1))
        asked = {name: case[name] for name in ("sizes", "ranges", "epsilon")}
        made = allocate("private", **asked, n=n, release=release)
        least = dict.fromkeys(case["sizes"], 1)
        best = min(variance(case, takes, release) for takes in every(case["sizes"], least) if sum(takes.values()) == n)
        assert variance(case, made.takes, release) <= best * (1 + 1e-9)
        assert made.se == pytest.approx(math.sqrt(variance(case, made.takes, release)), rel=1e-9)


def heap_greedy(sizes, cost_of, lower, n):
    """One unit at a time to where it saves most."""
    takes = dict(lower)
    heap = [(cost_of(h, takes[h] + 1) - cost_of(h, takes[h]), h) for h in sizes if takes[h] < sizes[h]]
    heapq.heapify(heap)
    for _ in range(n - sum(takes.values())):
        _, h = heapq.heappop(heap)
        takes[h] += 1
        if takes[h] < sizes[h]:
            heapq.heappush(heap, (cost_of(h, takes[h] + 1) - cost_of(h, takes[h]), h))
    return takes


def test_many_strata_are_allocated_as_one_unit_at_a_time_would():
    random = np.random.default_rng(13)
    case = random_case(random, 1, 1)
    names = [f"s{number}" for number in range(300)]
    case["sizes"] = dict(zip(names, random.integers(2, 800, 300).tolist(), strict=True))
    case["ranges"] = dict.fromkeys(names, 3.0)
    case["epsilon"] = dict.fromkeys(names, 0.2)
    case["deviations"] = {h: largest(size, 3.0) * random.uniform(0.05, 1.0) for h, size in case["sizes"].items()}
    total = sum(case["sizes"].values())

    def cost_of(h, take):
        sampling, scale = term(case["sizes"][h], total, case["deviations"][h], 3.0, 0.2, take)
        return sampling + 2.0 * scale**2

    made = private(case, n=9_000, minimum=2)
    slow = heap_greedy(case["sizes"], cost_of, {h: min(2, size) for h, size in case["sizes"].items()}, 9_000)
    assert variance(case, made.takes, "strata") == pytest.approx(variance(case, slow, "strata"), rel=1e-12)
    assert sum(made.takes[h] != slow[h] for h in names) <= 2


def test_one_noisy_mean_is_allocated_as_a_look_at_every_noise_level_would():
    # The best noise is set by some stratum and some take: all of them are tried, each with the best allocation above it.
    random = np.random.default_rng(14)
    for _ in range(6):
        case = random_case(random, 9, 45)
        sizes, total = case["sizes"], sum(case["sizes"].values())
        n = int(random.integers(2 * len(sizes), total + 1)) if total > 2 * len(sizes) else total

        def figures(h, take, case=case, total=total):
            return term(case["sizes"][h], total, case["deviations"][h], case["ranges"][h], case["epsilon"][h], take)

        scales = {h: [figures(h, take)[1] for take in range(1, size + 1)] for h, size in sizes.items()}
        best = math.inf
        for level in sorted({scale for each in scales.values() for scale in each}):
            lower = {h: 1 + sum(scale > level for scale in each) for h, each in scales.items()}
            if sum(lower.values()) <= n and all(lower[h] <= size for h, size in sizes.items()):
                takes = heap_greedy(sizes, lambda h, take: figures(h, take)[0], lower, n)
                best = min(best, variance(case, takes, "total"))
        made = private(case, n=n, release="total")
        assert variance(case, made.takes, "total") == pytest.approx(best, rel=2e-9)


@settings(max_examples=200, deadline=None)
@given(st.integers(4, 5000), st.floats(0.01, 8.0), st.floats(0.0, 1.0), st.integers(1, 4998))
def test_noise_and_sampling_error_fall_ever_more_slowly(size, epsilon, part, take):
    take = min(take, size - 2)
    one, two, three = (n * loss_on_sample(epsilon, size, n) for n in (take, take + 1, take + 2))
    assert one < two < three
    assert two - one >= (three - two) * (1 - 1e-9) - 1e-12 * three
    terms = [term(size, size, part * largest(size, 1.0), 1.0, epsilon, n) for n in (take, take + 1, take + 2)]
    costs = [sampling + 2.0 * scale**2 for sampling, scale in terms]
    assert costs[0] - costs[1] >= costs[1] - costs[2] - 1e-12 * costs[0]


def test_a_thousand_cases_are_never_worse_than_neyman_or_proportional():
    random = np.random.default_rng(15)
    gains = []
    for _ in range(1000):
        case = random_case(random, 6, 200)
        n = int(random.integers(len(case["sizes"]), sum(case["sizes"].values()) + 1))
        others = [allocate("proportional", sizes=case["sizes"], n=n).takes]
        if any(case["deviations"].values()):
            others.append(allocate("neyman", sizes=case["sizes"], n=n, deviations=case["deviations"], **SOURCE).takes)
        for release in RELEASES:
            best = variance(case, private(case, n=n, release=release).takes, release)
            others_are = [variance(case, takes, release) for takes in others]
            assert best <= min(others_are) * (1 + 1e-9)
            gains += [each / best for each in others_are]
    # The comparison is not between equals.
    assert np.mean(np.array(gains) > 1.01) > 0.5


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_the_largest_deviation_is_that_of_values_at_both_ends(size):
    grid = np.array(list(itertools.product(np.linspace(0.0, 1.0, 5), repeat=size)))
    found = float(grid.std(axis=1, ddof=1).max()) if size > 1 else 0.0
    assert largest(size, 1.0) == pytest.approx(found, abs=1e-12)
    asked = {"sizes": {"a": size, "b": 50}, "ranges": 1.0, "epsilon": 1.0, "n": 9, **SOURCE}
    assert allocate("private", **asked, deviations={"a": found, "b": 0.1}).total == 9
    with pytest.raises(BadValue, match="'a' is a spread outside the bounds"):
        allocate("private", **asked, deviations={"a": found + 1e-6, "b": 0.1})


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("equal", [True, False])
def test_a_budget_is_kept_and_what_it_buys_is_within_one_unit_of_the_best(release, equal):
    random = np.random.default_rng(16)
    for _ in range(60):
        case = random_case(random, 3, 7)
        sizes = case["sizes"]
        costs = {h: 2.5 if equal else round(float(random.uniform(0.5, 9.0)), 1) for h in sizes}
        minimum = some_minimum(random, sizes)
        price = {name: sum(costs[h] * take for h, take in takes.items()) for name, takes in (("least", minimum), ("all", sizes))}
        budget = round(price["least"] + random.random() * 1.1 * (price["all"] - price["least"]) + 0.1, 1)
        made = private(case, costs=costs, budget=budget, minimum=minimum, release=release)
        assert made.cost <= budget
        found = variance(case, made.takes, release)
        bought = [(sum(costs[h] * take for h, take in takes.items()), takes) for takes in every(sizes, minimum)]
        # Exact for equal costs; else as good as the best for a budget that is smaller by the price of one unit.
        less = 0.0 if equal else max(costs.values())
        within = [variance(case, takes, release) for cost, takes in bought if cost <= budget - less + 1e-9]
        assert not within or found <= min(within) * (1 + 1e-9)
        if release == "strata":
            # Every unit saves noise, so none that would fit is left out.
            assert all(made.cost + costs[h] > budget for h in sizes if made.takes[h] < sizes[h])
