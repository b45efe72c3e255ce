"""Laplace noise for a specification that is written down: as Definition 4.2 prints it, and mended.

The printed scale of a data set d is the sensitivity over the universes inside the component [d]. Two comparable data sets
can have different components, hence different scales, and then no loss is bounded; and where no universe lies inside [d]
the printed scale is 0. The mended scale is one for all data sets that a chain of comparable ones connects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dpsurvey.errors import BadValue, did_you_mean

from .specification import Checked, Data, Specification

Answer = float | Sequence[float]
Asked = Callable[[Any], Answer] | Mapping[Any, Answer]
SCALES = ("printed", "connected", "global")


def answers(specification: Specification, query: Asked) -> dict[Data, tuple[float, ...]]:
    """What a query, a function or a table, says about each data set of the domain.

    >>> answers(Specification("ab", ["ab"], {("a", "b"): 1}, 1.0), {"a": 0, "b": (1, 2)}.get)
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: a query has the same number of finite answers for every data set
    """
    if isinstance(query, Mapping) and (missing := [data for data in specification.domain if data not in query]):
        raise BadValue("a query answers for every data set of the domain", given=f"{len(missing)} without an answer")
    values = [query[data] if isinstance(query, Mapping) else query(data) for data in specification.domain]
    found = [tuple(map(float, each)) if isinstance(each, Sequence) else (float(each),) for each in values]
    if len(set(map(len, found))) != 1 or not all(map(math.isfinite, (value for each in found for value in each))):
        raise BadValue("a query has the same number of finite answers for every data set")
    return dict(zip(specification.domain, found, strict=True))


def laplace_scales(
    specification: Specification, query: Asked, scales: Literal["printed", "connected", "global"] = "connected"
) -> dict[Data, float]:
    """The scale of Laplace noise for each data set.

    "printed": Definition 4.2, which does not keep the guarantee in general; "connected": one scale for all data sets that a
    chain of comparable ones connects; "global": one for all.

    >>> two = Specification("abc", ["ab", "bc"], {("a", "b"): 1, ("b", "c"): 1}, 1.0)
    >>> asked = {"a": 0, "b": 1, "c": 11}
    >>> list(laplace_scales(two, asked, "printed").values()), list(laplace_scales(two, asked).values())
    ([1.0, 10.0, 10.0], [10.0, 10.0, 10.0])
    """
    if scales not in SCALES:
        raise BadValue(f"unknown scales {scales!r}", hint=did_you_mean(str(scales), SCALES))
    values = answers(specification, query)
    if scales == "printed":
        return {
            data: max((_within(specification, values, own) for own in specification.budgets if own <= near), default=0.0)
            for data in specification.domain
            for near in (specification.component(data),)
        }
    needed = {data: _needed(specification, values, data) for data in specification.domain}
    if scales == "global":
        return dict.fromkeys(specification.domain, max(needed.values()))
    return {data: max(needed[each] for each in specification.reached_from(data)) for data in specification.domain}


def laplace_satisfies(specification: Specification, query: Asked, scales: Mapping[Any, float]) -> Checked:
    """Whether the answers with Laplace noise of these scales satisfy the specification, exactly.

    Two Laplace laws of one scale differ by the distance of their centres over the scale; of different scales, without bound.

    >>> two = Specification("abc", ["ab", "bc"], {("a", "b"): 1, ("b", "c"): 1}, 1.0)
    >>> asked = {"a": 0, "b": 1, "c": 11}
    >>> bool(laplace_satisfies(two, asked, laplace_scales(two, asked)))
    True
    >>> laplace_satisfies(two, asked, laplace_scales(two, asked, "printed"))
    Checked(satisfied=False, pair=('a', 'b'), loss=inf, allowed=1.0)
    """
    values = answers(specification, query)
    if any(data not in scales or not 0.0 <= scales[data] < math.inf for data in specification.domain):
        raise BadValue("noise has a scale that is not negative for every data set of the domain")

    def loss(one: Data, other: Data) -> float:
        apart = _apart(values[one], values[other])
        if scales[one] != scales[other]:
            return math.inf
        return 0.0 if apart == 0.0 else (apart / scales[one] if scales[one] > 0.0 else math.inf)

    return specification.compared(loss)


def _apart(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return math.fsum(abs(a - b) for a, b in zip(one, other, strict=True))


def _ratio(apart: float, allowed: float) -> float:
    if apart == 0.0 or math.isinf(allowed):
        return 0.0
    if allowed == 0.0:
        raise BadValue(
            "no noise is enough",
            because="two data sets with different answers must not be told apart at all",
            hint="a budget and a distance above 0",
        )
    return apart / allowed


def _within(specification: Specification, values: dict[Data, tuple[float, ...]], universe: frozenset[Data]) -> float:
    """The sensitivity over one universe, by its own budget."""
    at, budget = specification.places(universe), specification.budgets[universe]
    own = specification.steps[np.ix_(at, at)]
    pairs = [(i, j) for i in range(len(at)) for j in range(len(at)) if i != j and math.isfinite(own[i, j])]
    names = [specification.domain[place] for place in at]
    return max((_ratio(_apart(values[names[i]], values[names[j]]), budget * float(own[i, j])) for i, j in pairs), default=0.0)


def _needed(specification: Specification, values: dict[Data, tuple[float, ...]], data: Data) -> float:
    """The scale that all comparisons of one data set need."""
    return max(_ratio(_apart(values[data], values[each]), specification.limit(data, each)) for each in specification.domain)
