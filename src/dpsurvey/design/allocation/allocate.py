"""Sample allocation over strata: one verb for all rules. Pure; the figures must be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import BadValue
from .allocation import Allocation
from .inputs import check_figures, check_minimum, check_sizes, check_source, check_total
from .rules import Strata, rule_named

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
    by = rule_named(rule)
    by.check(given)
    source = check_source(by.uses, source, public, given)
    labels = check_sizes(sizes)
    least = check_minimum(minimum, labels)
    spreads = check_figures("deviations", deviations, labels)
    prices = check_figures("costs", costs, labels, above=True)
    if spreads is not None and "deviations" in by.needs and not any(spreads.values()):
        raise BadValue(
            "all deviations are zero, so one unit would do in every stratum", hint='the "proportional" rule needs none'
        )
    if by.every_stratum and not all(least.values()):
        raise BadValue(
            f"the {rule} rule draws from every stratum", given="minimum=0", hint="minimum=1, or 2 to estimate variances"
        )
    if n is not None:
        check_total(n, least, labels)
    divided = by.divide(Strata(labels, least, spreads, prices, public), given)
    shares, units = (dict(zip(labels, each.tolist(), strict=True)) for each in (divided.exact, divided.takes))
    kept = {} if divided.guarantee is None else divided.guarantee.fields()
    held = least if isinstance(minimum, Mapping) else minimum
    return Allocation(rule, labels, shares, units, spreads, prices, held, source, public, **kept)
