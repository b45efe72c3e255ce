"""Section 5.1: Figure 2 (Gowalla) and Figures 4 to 7 (breast cancer): error bounds of both mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..item import Result, Rows, Run
from .parameters import BY_AGE, BY_TUMOUR_SIZE, PATIENTS, SAMPLED_LESS, deviation, published, randomised

# Two standard deviations for 95 %, as the bars of Sampling Privacy have it, for both mechanisms; and those of 99 %.
TWO, NORMAL_99 = 2.0, 2.576
QUERIED = 10_000
# (1 - π1)π2 with the coins of the introduction.
INTRODUCED = 0.15 * 0.3
CHECK_INS = 1_000_000
# The ratios of Figure 2 that the text prints: to be explained, since nothing can be compared with them.
RANGE = (1.6, 3.5)
TUMOUR_SIZES = [f"{low}-{low + 4}" for low in range(0, 55, 5)]
AGES = [f"{low}-{low + 9}" for low in range(10, 100, 10)]


def bars_of(mechanism: Any, counts: Sequence[int], population: int, far: float) -> list[int]:
    """What the figures draw: the true count and so many standard deviations, rounded down.

    >>> bars_of(published(), BY_TUMOUR_SIZE, QUERIED, TWO)[6]
    36
    """
    return [math.floor(count + far * deviation(mechanism, count, population - count)) for count in counts]


def listed(found: Sequence[int]) -> str:
    """Bars as one line of text."""
    return ", ".join(str(each) for each in found)


def _rows(labels: Sequence[str], counts: Sequence[int], population: int) -> Rows:
    series = {
        "true count": list(counts),
        "Sampling Privacy, 2 deviations (95 %)": bars_of(published(), counts, population, TWO),
        "randomised response, 2 deviations (95 %)": bars_of(randomised(), counts, population, TWO),
        "randomised response, 2.576 deviations": bars_of(randomised(), counts, population, NORMAL_99),
    }
    return [
        {"group": label, "what": what, "people": people}
        for what, found in series.items()
        for label, people in zip(labels, found, strict=True)
    ]


def tumours_in_ten_thousand(run: Run) -> Result:
    """Figure 6, all of whose bars are printed."""
    return Result(
        _rows(TUMOUR_SIZES, BY_TUMOUR_SIZE, QUERIED),
        {
            "bars of Sampling Privacy": listed(bars_of(published(), BY_TUMOUR_SIZE, QUERIED, TWO)),
            "bars of randomised response": listed(bars_of(randomised(), BY_TUMOUR_SIZE, QUERIED, TWO)),
            "bars at 2.576 deviations": listed(bars_of(randomised(), BY_TUMOUR_SIZE, QUERIED, NORMAL_99)),
        },
        f"The true counts are the {sum(BY_TUMOUR_SIZE)} recurrences of the public data by tumour size. Bars are count and bound, "
        "rounded down. For 95 % both mechanisms have two standard deviations here, as the printed bars of Sampling Privacy have; "
        "what those bound has no ε (Section 4.3). The printed bars of randomised response are the counts plus 63: 2.576 standard "
        f"deviations, or three times the introduction's root of N(1 - π1)π2, {3.0 * math.sqrt(INTRODUCED * QUERIED):.1f}; "
        "the paper does not say which.",
    )


def _without_bars(labels: Sequence[str], counts: Sequence[int], population: int) -> Callable[[Run], Result]:
    def compute(run: Run) -> Result:
        """The computation of Figure 6 on other counts, or on other numbers of respondents."""
        own, other = (
            [[deviation(each, count, size - count) for count in counts] for size in (PATIENTS, QUERIED)]
            for each in (published(), randomised())
        )
        here = population == QUERIED
        better = [label for label, one, two in zip(labels, own[here], other[here], strict=True) if two < one]
        values: dict[str, Any] = {
            "Sampling Privacy from 286 to 10,000": "constant" if own[0] == own[1] else "grows",
            "randomised response from 286 to 10,000": "grows" if min(other[1]) > max(other[0]) else "constant",
        }
        if here:
            values["smaller bound"] = "mixed" if better else "Sampling Privacy"
        words = f"Randomised response has the smaller bound in the groups {', '.join(better)}." if better else ""
        return Result(
            _rows(labels, counts, population),
            values,
            f"Counts: the {sum(counts)} recurrences in the public data of {PATIENTS} patients. From there to {QUERIED:,} "
            f"respondents the bound of randomised response grows {other[1][0] / other[0][0]:.1f} times. {words}".strip(),
        )

    return compute


tumours_in_patients = _without_bars(TUMOUR_SIZES, BY_TUMOUR_SIZE, PATIENTS)
ages_in_patients = _without_bars(AGES, BY_AGE, PATIENTS)
ages_in_ten_thousand = _without_bars(AGES, BY_AGE, QUERIED)


def _drawing(title: str, x_title: str, subtitle: str) -> Callable[[Rows], Any]:
    def draw(rows: Rows) -> Any:
        """Bars as in the paper, with two and with 2.576 standard deviations of randomised response."""
        from ..pictures import bars, titled

        chart = bars(rows, "group", "people", "what", x_title=x_title, y_title="recurrences: count and bound", size=(700, 300))
        return titled(chart, title, subtitle)

    return draw


SIZE_TITLE, AGE_TITLE = "tumour size in mm", "age"
draw_tumours_in_ten_thousand = _drawing(
    "Recurrences among 10,000 respondents by tumour size",
    SIZE_TITLE,
    "drawn in the paper: Sampling Privacy at 2 deviations beside randomised response at 2.576",
)
draw_tumours_in_patients = _drawing(
    "Recurrences among 286 patients by tumour size",
    SIZE_TITLE,
    "where few say No, randomised response has the smaller bound in the large groups",
)
draw_ages_in_patients = _drawing(
    "Recurrences among 286 patients by age",
    AGE_TITLE,
    "where few say No, randomised response has the smaller bound in the large groups",
)
draw_ages_in_ten_thousand = _drawing(
    "Recurrences among 10,000 respondents by age", AGE_TITLE, "randomised response pays for every No; Sampling Privacy does not"
)


def ratio_of(mechanism: Any, count: float, total: int = CHECK_INS) -> float:
    """The error of randomised response over that of a mechanism, for one true count.

    >>> round(ratio_of(published(), 10_000), 2)
    2.24
    """
    return deviation(randomised(), count, total - count) / deviation(mechanism, count, total - count)


def _count_at(mechanism: Any, ratio: float) -> int:
    """The true count at which the ratio is this; it falls as the count grows."""
    low, high = 1, CHECK_INS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ratio_of(mechanism, middle) > ratio else (low, middle)
    return high


def check_ins(run: Run) -> Result:
    """Figure 2: the ratio of the error bounds for one million check-ins, by the true count of a place."""
    variants = {"π_s = 45 %": published(), "π_s = 25 %": published(sampled=SAMPLED_LESS)}
    counts = sorted({round(10 ** (step / 20)) for step in range(40, 101)})
    rows: Rows = [
        {"count": count, "what": name, "ratio": ratio_of(each, count)} for name, each in variants.items() for count in counts
    ]
    rows += [{"count": count, "what": f"printed: {end:g}", "ratio": end} for end in RANGE for count in (counts[0], counts[-1])]
    larger = all(ratio_of(each, count) > 1.0 for each in variants.values() for count in counts if count <= QUERIED)
    words = "; ".join(
        f"at {name} places with {_count_at(each, RANGE[1]):,} to {_count_at(each, RANGE[0]):,} check-ins, and from "
        f"{_count_at(each, 1.0):,} on Sampling Privacy has the larger error"
        for name, each in variants.items()
    )
    return Result(
        rows,
        {"larger error": "randomised response" if larger else "mixed"},
        f"The printed ratios would be, {words}.",
    )


def draw_check_ins(rows: Rows) -> Any:
    """The ratio by the true count, with the printed range."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "count",
        "ratio",
        "what",
        x_title="true count of a place, among one million check-ins",
        y_title="error of randomised response / Sampling Privacy",
        x_scale=logarithmic(100, 100_000),
        y_scale=logarithmic(),
        x_format="~s",
    )
    return titled(chart, "Where the printed ratios could come from", "coins 0.8 and 0.2; the counts of Figure 2 are not printed")
