"""Sample allocation over strata: one verb, seven rules. Pure; the figures must be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import BadValue
from .allocation import Allocation
from .guaranteed import StrataGuarantee, private_takes
from .inputs import (
    RULES,
    check_budget,
    check_figures,
    check_minimum,
    check_number,
    check_rule,
    check_sizes,
    check_source,
    check_total,
    wanted_se,
)
from .rules import (
    Array,
    shares_for_precision,
    shares_of_total,
    strata_array,
    strata_takes,
    stratified_se,
    whole_budget,
    whole_precision,
    whole_total,
)

__all__ = ["Allocation", "allocate"]


def allocate(
    rule: str,
    *,
    sizes: Mapping[Any, int],
    n: int | None = None,
    deviations: Mapping[Any, float] | None = None,
    costs: Mapping[Any, float] | None = None,
    budget: float | None = None,
    cv: float | None = None,
    mean: float | None = None,
    se: float | None = None,
    power: float | None = None,
    measure: Mapping[Any, float] | None = None,
    epsilon: float | Mapping[Any, float] | None = None,
    ranges: float | Mapping[Any, float] | None = None,
    release: str | None = None,
    minimum: int | Mapping[Any, int] = 1,
    source: str = "",
    public: bool = True,
) -> Allocation:
    """How many units to draw from each stratum.

    "proportional" n_h ~ N_h, "equal", "power" n_h ~ measure_h^power (measure: the sizes), "neyman" n_h ~ N_h S_h: n units
    in all. "cost" n_h ~ N_h S_h/sqrt(c_h): the least variance of the mean for `budget`. "precision": the fewest units, or
    with costs the least cost, for a standard error `se` or a `cv` of the published `mean`. "private": the least variance of
    sampling and noise when a record loses `epsilon` on the frame and values lie in ranges of the widths `ranges`; noise on
    each stratum mean (`release="strata"`) or on the mean alone ("total"); without deviations for the worst values in the
    ranges. No stratum gets more than its size, nor less than `minimum` or its size.

    Holds when: sizes and figures are published; `source` names where. From unpublished rows, `public=False`.

    >>> allocate("neyman", sizes={"a": 100, "b": 200, "c": 300}, n=60, deviations={"a": 1, "b": 2, "c": 4}, source="2024").takes
    {'a': 4, 'b': 14, 'c': 42}
    >>> allocate("private", sizes={"a": 100, "b": 200, "c": 300}, n=60, epsilon=0.5, ranges={"a": 5, "b": 5, "c": 20}).takes
    {'a': 4, 'b': 8, 'c': 48}
    """
    given: dict[str, Any] = {"n": n, "deviations": deviations, "costs": costs, "budget": budget, "cv": cv, "mean": mean}
    given |= {"se": se, "power": power, "measure": measure, "epsilon": epsilon, "ranges": ranges, "release": release}
    check_rule(rule, given)
    source = check_source(rule, source, public, given)
    strata = check_sizes(sizes)
    least = check_minimum(minimum, strata)
    spreads = check_figures("deviations", deviations, strata)
    prices = check_figures("costs", costs, strata, above=True)
    size, ones = strata_array(strata), np.ones(len(strata))
    sd = ones if spreads is None else strata_array(spreads)
    if spreads is not None and "deviations" in RULES[rule].needs and not sd.any():
        raise BadValue(
            "all deviations are zero, so one unit would do in every stratum", hint='the "proportional" rule needs none'
        )
    if not all(least.values()) and rule in ("cost", "precision", "private"):
        raise BadValue(
            f"the {rule} rule draws from every stratum", given="minimum=0", hint="minimum=1, or 2 to estimate variances"
        )
    lower = strata_array(least)
    guarantee = None
    if n is not None:
        check_total(n, least, strata)
    if epsilon is not None and ranges is not None:
        guarantee = StrataGuarantee.of(epsilon, ranges, release, strata, spreads, public)
        takes = private_takes(guarantee, strata, strata_takes(least), n, prices, budget)
        exact = takes.astype(np.float64)
    elif n is not None:
        exact = shares_of_total(size, _factors(rule, size, sd, power, measure, strata), ones, lower, size, n)
        takes = whole_total(exact, size, n)
    else:
        price = ones if prices is None else strata_array(prices)
        relative = sd / sd.max()
        bounds = (relative * size, price, lower.astype(np.int64), size.astype(np.int64))
        if rule == "cost":
            limit = check_budget(budget, price, lower)
            # More than all units of the strata that vary would buy nothing.
            useful = min(limit, float(price @ np.where(sd > 0.0, size, lower)))
            exact = shares_of_total(size, relative * np.sqrt(price), price, lower, size, useful)
            takes = whole_budget(*bounds, limit)
        else:
            wanted = wanted_se(cv, mean, se)
            exact = shares_for_precision(size, sd, price, lower, size, wanted)
            takes = whole_precision(*bounds, lambda each: stratified_se(size, sd, each) <= wanted)
    shares, units = dict(zip(strata, exact.tolist(), strict=True)), dict(zip(strata, takes.tolist(), strict=True))
    held = least if isinstance(minimum, Mapping) else minimum
    return Allocation(
        rule, strata, shares, units, spreads, prices, held, source, public, **(guarantee.fields() if guarantee else {})
    )


def _factors(
    rule: str, size: Array, sd: Array, power: float | None, measure: Mapping[Any, float] | None, strata: Mapping[str, int]
) -> Array:
    """What N_h is multiplied by, for the share of a stratum."""
    if rule == "equal":
        return 1.0 / size
    if rule == "power":
        figures = check_figures("measure", measure, strata)
        base = size if figures is None else strata_array(figures)
        if not base.any():
            raise BadValue("the measure is zero in every stratum")
        return np.asarray((base / base.max()) ** check_number("power", power, above=False) / size)
    return sd / sd.max() if rule == "neyman" else np.ones(len(size))
