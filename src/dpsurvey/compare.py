"""All designs at one sampling rate: the loss of each, and a word on why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from .design.loss import amplify
from .design.printed import rounding_theorem
from .design.selection import (
    CappedClusters,
    Clusters,
    Collected,
    Independent,
    PpsCluster,
    Proportional,
    Selection,
    Systematic,
    TwoStage,
    UnequalProbabilities,
    WithoutReplacement,
    WithReplacement,
)
from .design.selection.base import Neighbours, check_rate
from .privacy.profile import Relation

Row = dict[str, Any]
CLUSTER = 10
LARGE = 1_000_000
# Designs that list their clusters or units are shown up to so many of them.
MOST = 2_000


def _share(rate: float) -> tuple[int, int]:
    """The rate as a fraction with a denominator of at most a million, rounded up so that it is never too small."""
    exact = Fraction(repr(rate))
    if exact.denominator <= LARGE:
        return exact.numerator, exact.denominator
    if rate < 1.0 / LARGE:
        return 1, math.floor(1.0 / rate)
    near = Fraction(math.ceil(exact * LARGE), LARGE)
    return near.numerator, near.denominator


def _designs(rate: float) -> Iterator[tuple[str, Selection, Relation, Neighbours, str]]:
    taken, of = _share(rate)
    many = max(1, LARGE // of)
    root = rate**0.5
    yield "Poisson", Independent((rate,)), "add-remove", "add-remove", "each unit by itself"
    yield "Bernoulli inside strata", Proportional(rate, "bernoulli"), "add-remove", "add-remove", "as Poisson, stratum by stratum"
    yield (
        "simple random",
        WithoutReplacement(taken * many, of * many),
        "replace-one",
        "replace-one",
        "mechanism of replace-one type",
    )
    yield (
        "simple random",
        WithoutReplacement(taken * many, of * many),
        "add-remove",
        "replace-one",
        "a replaced value costs two steps",
    )
    yield "with replacement", WithReplacement(taken * many, of * many), "replace-one", "replace-one", "a unit may be drawn twice"
    yield "randomised rounding", Proportional(rate, "random"), "both", "add-remove", "mechanism of type both"
    yield "randomised rounding", Proportional(rate, "random"), "add-remove", "add-remove", "tight: the exact worst case"
    yield (
        "nearest rounding",
        Proportional(rate, "nearest"),
        "add-remove",
        "add-remove",
        "the allocation itself moves with a record",
    )
    yield (
        f"clusters of up to {CLUSTER}",
        CappedClusters(CLUSTER, of, taken),
        "add-remove",
        "add-remove",
        "all units of a cluster",
    )
    clusters = max(1, min(100, round(100 * root)))
    inner = TwoStage((CLUSTER,) * 100, clusters, unit_rate=min(1.0, 100 * rate / clusters), capped=True)
    yield (
        "two stages, Poisson inside",
        inner,
        "add-remove",
        "add-remove",
        f"rate {root:.3g} at each stage, clusters of up to {CLUSTER}",
    )
    if of <= MOST:
        public = UnequalProbabilities((taken / of,) * of, "public", "sampford")
        yield "PPS, Sampford, public sizes", public, "replace-one", "replace-one", "covering: one exchange"
    if of <= MOST:
        known = Clusters((CLUSTER,) * of, taken)
        yield "clusters, known sizes", known, "add-remove", "add-remove", "this population only"
    if taken == 1 and of <= MOST:
        random, fixed = Systematic(of, CLUSTER, "random"), Systematic(of, CLUSTER, "fixed")
        yield "systematic, secret order", random, "replace-one", "replace-one", "a simple random sample"
        yield "systematic, fixed order", fixed, "replace-one", "replace-one", f"one of {of} clusters of {CLUSTER}"
        yield "systematic, fixed order", fixed, "add-remove", "add-remove", "a new unit shifts all behind it"
        size = PpsCluster((CLUSTER,) * of)
        yield "one PPS cluster", size, "add-remove", "add-remove", "sizes decide the draw: worse than no sampling"
    yield "collected file", Collected(), "add-remove", "add-remove", "never amplifies"


def compare(rate: float, epsilon: float) -> list[Row]:
    """One row for each design at the same sampling rate.

    >>> [round(row["epsilon"], 4) for row in compare(0.1, 1.0) if row["design"] == "Poisson"]
    [0.1586]
    """
    check_rate("rate", rate)
    rows: list[Row] = []
    for name, selection, base, neighbours, why in _designs(rate):
        answer = amplify(selection, epsilon, base=base, neighbours=neighbours)
        rows.append(
            {
                "design": name,
                "base": base,
                "neighbours": neighbours,
                "epsilon": answer.epsilon,
                "lower": answer.lower,
                "exact": answer.exact,
                "refused": answer.refused.reason if answer.refused else None,
                "note": why,
            }
        )
    rows.append(
        {
            "design": "rounding, printed theorem",
            "base": "add-remove",
            "neighbours": "add-remove",
            "epsilon": rounding_theorem(epsilon, rate),
            "lower": None,
            "exact": False,
            "refused": None,
            "note": "valid but two to three times too large: the tight form replaces it",
        }
    )
    return sorted(rows, key=lambda row: (row["epsilon"] is None, row["epsilon"] or 0.0))
