"""Section 7.2 and Appendix E.1: Neyman's allocation on a register of businesses, before and after one company grows."""

from __future__ import annotations

import itertools
import math
import tomllib
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

import dpsurvey as ds
from dpsurvey.design import advantage

from ..item import Result, Rows, Run
from .asking import against, dots_between, loss, tally
from .corrected import allocation_steps
from .weighted_mean import no_better, unbiased

# The twelve classes of employees of the appendix; sizes are cut at the last number.
CLASSES = (
    (1, 4),
    (5, 9),
    (10, 19),
    (20, 49),
    (50, 99),
    (100, 249),
    (250, 499),
    (500, 999),
    (1000, 1499),
    (1500, 2499),
    (2500, 4999),
    (5000, 10_000),
)
LABELS = [f"{low}–{high}" for low, high in CLASSES]
# Companies of each class in the simulated register: the shape of any register of businesses, not the published counts.
COMPANIES = (4_100_000, 1_450_000, 970_000, 660_000, 225_000, 125_000, 33_000, 12_000, 3_000, 1_900, 1_200, 600)
TOTAL = 10_000
# How far sizes reach into their class, as a share of its width. Nothing published tells it. The first is shown in pictures.
# It was chosen among these because its changes are near the printed ones, so their likeness confirms nothing. All are reported.
SPREADS = (0.1, 0.05, 0.2, 0.3)
Counts = npt.NDArray[np.int64]


def simulated(run: Run, spread: float = SPREADS[0]) -> Counts:
    """The number of companies with 1, 2, ..., 10,000 employees: in each class most lie near its lower end."""
    rng, found = run.rng(1), np.zeros(CLASSES[-1][1], dtype=np.int64)
    for (low, high), companies in zip(CLASSES, COMPANIES, strict=True):
        weights = np.exp(-np.arange(high - low + 1) / (spread * (high - low + 1)))
        found[low - 1 : high] = rng.multinomial(companies, weights / weights.sum())
    return found


def grown(register: Counts) -> Counts:
    """The same register after its smallest company has grown to the largest size."""
    after = register.copy()
    after[np.nonzero(register)[0][0]] -= 1
    after[-1] += 1
    return after


def figures(register: Counts) -> tuple[dict[str, int], dict[str, float]]:
    """Size and standard deviation of each class."""
    sizes, deviations = {}, {}
    for label, (low, high) in zip(LABELS, CLASSES, strict=True):
        counts, employees = register[low - 1 : high], np.arange(low, high + 1)
        companies = int(counts.sum())
        mean = float(counts @ employees) / companies
        sizes[label] = companies
        deviations[label] = math.sqrt(float(counts @ (employees - mean) ** 2) / (companies - 1))
    return sizes, deviations


def neyman(register: Counts) -> list[int]:
    """Neyman's allocation with the register's own deviations; marked as confidential by the package."""
    sizes, deviations = figures(register)
    return list(ds.allocate("neyman", sizes=sizes, n=TOTAL, deviations=deviations, public=False).takes.values())


def printed_allocations() -> tuple[list[int], list[int]]:
    """The two allocations of the appendix, which stand with the other printed values."""
    text = resources.files(__package__ or "").joinpath("printed.toml").read_text(encoding="utf-8")
    one, other = tomllib.loads(text)["004-section-7-2"]["allocations"]
    return one, other


def one_company_grows(run: Run) -> Result:
    """Section 7.2: the printed allocations, and those of the simulated register."""
    register = simulated(run)
    pairs = {"simulated register": (neyman(register), neyman(grown(register))), "as printed": printed_allocations()}
    rows: Rows = [
        {"employees": label, "register": name, "before": one, "after": other, "change": other - one}
        for name, (before, after) in pairs.items()
        for label, one, other in zip(LABELS, before, after, strict=True)
    ]
    one, other = pairs["as printed"]
    registers = {spread: simulated(run, spread) for spread in SPREADS}
    ours = {spread: allocation_steps(neyman(each), neyman(grown(each))) for spread, each in sorted(registers.items())}
    steps = allocation_steps(one, other)
    return Result(
        rows,
        {
            "first total": sum(one),
            "second total": sum(other),
            "largest change": max(abs(a - b) for a, b in zip(one, other, strict=True)),
            "noisy vector": steps,
            "sizes released": against(steps, 1.0),
            "unbiased": tally(unbiased(takes) for takes in itertools.product((1, 2, 3), (1, 2))),
            "optimal": tally(no_better(total) for total in (4, 6, 9)),
            "simulated": tally(against(each, 1.0) == "degradation" for each in ours.values()),
        },
        "The neighbour also changes its class, and the last class is 5,000 to 10,000 in the footnote and 10,000 or above in "
        "the text. How far the sizes move depends on the register: in simulated ones whose companies reach "
        + ", ".join(f"{spread:g}" for spread in ours)
        + " of the width into their class, by "
        + ", ".join(f"{each:.0f}" for each in ours.values())
        + f" units; the one in the picture ({SPREADS[0]:g}) was chosen for being near the print. 10,000 is "
        f"the target: rounding makes the printed totals {sum(one):,} and {sum(other):,}. A noisy vector of sizes loses the sum "
        f"of all changes, {steps:.0f} ε, where the text names the top class alone. Weights that follow confidential sizes, N "
        "over n in each stratum, are no part of any theorem here: the mechanism may see the sample alone.",
    )


def draw_company(rows: Rows) -> Any:
    """Change of each class's sample size."""
    from ..pictures import bars, between, titled

    return titled(
        bars(
            rows,
            "employees",
            "change",
            "register",
            x_title="employees of the company",
            y_title="change of the sample size",
            size=(820, 280),
            y_scale=between(-6.0, 22.0),
        ),
        "Neyman's allocation after the smallest company has grown to 10,000 employees",
        [
            "one company moves the sample sizes of most classes: a noisy vector of sizes loses the sum of all changes times ε",
            "the simulated register is one of four, chosen for being near the print",
        ],
    )


def noisy_deviations(register: Counts, epsilon: float, run: Run) -> dict[str, float]:
    """Class deviations from noisy sums and noisy sums of squares about the middle of the class, half of epsilon each."""
    rng, found = run.rng(2), {}
    for label, (low, high) in zip(LABELS, CLASSES, strict=True):
        counts, half = register[low - 1 : high], (high - low) / 2.0
        companies, away = int(counts.sum()), np.arange(low, high + 1) - (low + high) / 2.0
        first = float(counts @ away) + rng.laplace(scale=2.0 * half / (epsilon / 2.0))
        second = float(counts @ away**2) + rng.laplace(scale=half**2 / (epsilon / 2.0))
        found[label] = math.sqrt(max(second / companies - (first / companies) ** 2, 1e-6))
    return found


def ways_out(run: Run) -> Result:
    """Appendix E.1: what a noisy vector of sizes tells, what the package refuses, and what it does instead."""
    register = simulated(run)
    before, after = neyman(register), neyman(grown(register))
    steps = allocation_steps(before, after)
    one, other = printed_allocations()
    top = float(abs(one[-1] - other[-1]))
    seen = advantage(top * 0.1)
    rows: Rows = []
    for epsilon in dots_between(0.002, 1.0, 20 if run.quick else 60):
        for name, distance in (
            ("printed, top class", top),
            ("printed, all", allocation_steps(one, other)),
            ("simulated, all", steps),
        ):
            rows.append({"epsilon": epsilon, "what": name, "advantage": advantage(distance * epsilon)})
    refused = ds.amplify(ds.confidential_allocation(TOTAL), 1.0, base="add-remove", neighbours="replace-one").refused
    sizes, _ = figures(register)
    charged = 0.5
    released = noisy_deviations(register, charged, run)
    widths = {label: float(high - low) for label, (low, high) in zip(LABELS, CLASSES, strict=True)}
    table = ds.compare_allocations(
        sizes=sizes, epsilon=0.5, ranges=widths, n=TOTAL, deviations=released, release="total", source="noisy deviations, charged"
    )
    errors = {row["rule"]: row["se"] for row in table}
    public = next(row["takes"] for row in table if row["rule"] == "neyman")
    amplified = max(loss(ds.srs(n=take, size=sizes[label]), 1.0, "replace-one", "replace-one") for label, take in public.items())
    smallest = loss(ds.srs(n=public[LABELS[0]], size=sizes[LABELS[0]]), 1.0, "replace-one", "replace-one")
    return Result(
        rows,
        {
            "detectable": "yes" if seen > 0.5 else "no",
            "from the register": "refused" if refused is not None else "not refused",
            "proportional": against(max(_fixed(sizes)), 1.0),
        },
        f"Detectable means an advantage above a half: at ε = 0.1 the best test has {seen:.3f}. "
        f"Ways out, for companies that stay in their published class: deviations released with noise, for which ε {charged:g} is "
        f"charged, then fixed sizes. At ε = 1 on the sample a company of the smallest class then loses {smallest:.5f} more, one "
        f"of the most heavily drawn class {amplified:.3f} more, together {amplified + charged:.2f}: no gain for that class. "
        "Standard error of the noisy mean at a guarantee of 0.5: "
        + ", ".join(f"{rule} {error:.3g}" for rule, error in errors.items())
        + ".",
    )


def _fixed(sizes: dict[str, int]) -> list[float]:
    """Losses of a proportional allocation by class, at epsilon 1 on the sample."""
    takes = ds.allocate("proportional", sizes=sizes, n=TOTAL).takes
    return [loss(ds.srs(n=take, size=sizes[label]), 1.0, "replace-one", "replace-one") for label, take in takes.items()]


def draw_ways_out(rows: Rows) -> Any:
    """How well the best test tells the two registers apart, over epsilon."""
    from ..pictures import between, lines, logarithmic, titled

    chart = lines(
        rows,
        "epsilon",
        "advantage",
        "what",
        x_title="ε of the published sample sizes",
        y_title="largest advantage of a private test",
        x_scale=logarithmic(0.002, 1.0),
        y_scale=between(0.0, 1.0),
        by_title="sizes that are seen",
        rules=[(0.5, "right three times in four")],
    )
    return titled(
        chart,
        "One company grew: who sees the sample sizes can tell",
        "sample sizes of Neyman's allocation behind an ε that would hide one record more or less",
    )
