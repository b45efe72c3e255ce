"""All designs at one sampling rate: the loss of each, the error to expect, and a word on why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ..design import Design, cluster, poisson, proportional, srs, stages, stratified, systematic, with_replacement
from ..design.amplify import amplify
from ..design.frame import Frame
from ..design.printed import rounding_theorem
from ..design.selection import (
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
from ..design.selection.base import Neighbours, check_rate
from ..errors import BadValue, SurveyError
from ..ledger.terms import Terms
from ..privacy.account import Budget
from ..privacy.profile import Relation
from ..privacy.setting import Setting
from ..statistic import proportion
from ..survey.plan import Plan
from ..survey.predictions import item_rows

Row = dict[str, Any]
CLUSTER = 10
LARGE = 1_000_000
MOST_UNITS = 10**15
# Designs that list their clusters or units are shown up to so many of them.
MOST = 2_000
# The frame and the clusters that errors are predicted for, unless others are asked for.
SIZE, ICC = 100_000, 0.05
ERRORS = ("se_sampling", "se_noise", "se")


def _share(rate: float) -> tuple[int, int]:
    """The rate as a fraction with a denominator of at most a million, rounded up so that it is never too small."""
    if rate < 1.0 / MOST_UNITS:
        raise BadValue("no frame is so large that this rate draws anybody", given=f"rate={rate}")
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


def compare(rate: float, epsilon: float, *, size: int = SIZE, icc: float = ICC) -> list[Row]:
    """One row for each design at the same sampling rate, the mechanism on the sample losing `epsilon`.

    `epsilon` of a row is the loss for the frame, `known` that of somebody known to be sampled. `se` is the standard error to
    expect of a proportion of one half, from a frame of `size` units, by the code that plans and releases: clusters have ten
    units with an intraclass correlation of `icc`; None where the package draws no such design, or says nothing of its error.

    >>> row = next(row for row in compare(0.1, 1.0) if row["design"] == "Poisson")
    >>> round(row["epsilon"], 4), row["known"], round(row["se_sampling"], 5)
    (0.1586, 1.0, 0.00474)
    """
    check_rate("rate", rate)
    if not 0.0 <= icc <= 1.0:
        raise BadValue("an intraclass correlation is between 0 and 1", given=f"icc={icc}")
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
                "known": answer.known_in_sample,
                "note": why,
            }
            | _expected(name, rate, epsilon, neighbours, size, icc)
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
            "known": None,
            **dict.fromkeys(ERRORS),
            "note": "valid but two to three times too large: the tight form replaces it",
        }
    )
    return sorted(rows, key=lambda row: (row["epsilon"] is None, row["epsilon"] or 0.0))


def _expected(name: str, rate: float, epsilon: float, neighbours: Neighbours, size: int, icc: float) -> Row:
    """The error of a proportion of one half, predicted as a plan does; nothing where no such plan can be made."""
    strata = {str(label): size // 10 for label in range(10)}
    frame = Frame("", "unit", sum(strata.values()), {"stratum": strata}, public=["cluster", "size"])
    n, number = max(2, round(rate * size)), max(2, size // CLUSTER)
    root = rate**0.5
    by_name: dict[str, Design] = {
        "Poisson": poisson(rate),
        "Bernoulli inside strata": stratified("stratum", within=poisson(rate)),
        "simple random": srs(n=n),
        "with replacement": with_replacement(n),
        "randomised rounding": proportional(rate),
        f"clusters of up to {CLUSTER}": cluster("cluster", srs(n=max(2, n // CLUSTER)), clusters=number, cap=CLUSTER),
        "two stages, Poisson inside": stages(
            cluster("cluster", srs(n=max(2, round(root * number))), clusters=number, cap=CLUSTER), poisson(root)
        ),
        "systematic, secret order": systematic(n=n),
    }
    if name not in by_name:
        return dict.fromkeys(ERRORS)
    taken = 1.0 if name.startswith("clusters") else root
    deff = 1.0 + (taken * CLUSTER - 1.0) * icc if "cluster" in name or "stages" in name else None
    asked = proportion("answer", "yes", expect=0.5, deff=deff)
    # Where the relation is refused, what the mechanism itself does is the same under the other one.
    for relation in dict.fromkeys((neighbours, "replace-one")):
        try:
            terms = Terms("compared", frame, by_name[name].resolve(frame), Setting("frame", neighbours=relation), Budget(1.0))
            plan = Plan(terms, (asked,))
            # The mechanism loses this much on the sample, whatever that makes of the guarantee.
            row = item_rows(plan, plan.item_at(0, epsilon))[0]
            break
        except SurveyError:
            continue
    else:
        return dict.fromkeys(ERRORS)
    return {key: row[key] for key in ERRORS}
