"""What version 0.8 wrote of designs in words of its own, or left unsaid; it is read as designs here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BadValue
from .base import Design
from .cluster import cluster
from .collected import collected
from .confidential_sizes import confidential_allocation, size_rule
from .coverage import covered
from .groups import group
from .poisson import poisson
from .poisson_by import poisson_by
from .pps import pps
from .proportional import proportional
from .random_size import RandomSize
from .response import responding
from .srs import srs
from .stages import stages
from .stratified import Stratified
from .systematic import systematic
from .with_replacement import with_replacement

Given = Mapping[str, Any]


def with_kind_of_weights(given: Given) -> Given:
    """A collected file on record as it is written now: up to version 0.8 weights of which nothing was said were design weights.

    >>> with_kind_of_weights({"kind": "collected", "weights": "w"})
    {'kind': 'collected', 'weights': 'w', 'weights_are': 'design'}
    """
    unsaid = given.get("kind") == "collected" and "weights" in given and "weights_are" not in given
    return {**given, "weights_are": "design"} if unsaid else given


def design_of_selection(given: Given) -> Design:
    """The design whose public figures version 0.8 wrote as a selection.

    >>> design_of_selection({"kind": "srs", "n": 10, "population": 100})
    SimpleRandom(n=10, rate=None, size=100, at_least=None)
    """
    kind = str(given.get("kind"))
    if kind not in _READ:
        raise BadValue(f"unknown kind of selection {kind!r}")
    try:
        return _READ[kind](given)
    except (KeyError, TypeError) as error:
        raise BadValue(f"the selection {kind!r} has a missing or unknown key", hint=str(error)) from None


def _independent(given: Given) -> Design:
    rates = [float(rate) for rate in given["probabilities"]]
    return poisson(rates[0]) if len(rates) == 1 else poisson_by("rate", probabilities=rates, moves=bool(given.get("moves")))


def _clusters(given: Given) -> Design:
    return cluster("cluster", srs(n=given["take"]), sizes=given["sizes"], unit_in=given.get("unit_in"))


def _two_stage(given: Given) -> Design:
    sizes, how = given["sizes"], srs(n=given["take"])
    capped = cluster("cluster", how, clusters=len(sizes), cap=max(sizes)) if given.get("capped") else None
    first = capped or cluster("cluster", how, sizes=sizes, unit_in=given.get("unit_in"))
    return stages(first, poisson(given["unit_rate"]) if given.get("unit_rate") is not None else srs(n=given["unit_take"]))


def _further_stages(given: Given) -> Design:
    first = pps("size", n=1, measure="confidential") if given["first"] == "pps" else srs(n=1)
    rate = float(given["unit_rate"])
    last = {"poisson": poisson(rate), "srs": srs(n=1), "systematic": systematic(rate=rate, order="as listed")}[given["last"]]
    between = [cluster(f"stage {number}", srs(n=1)) for number in range(2, int(given["stages"]))]
    return stages(cluster("stage 1", first), *between, last, at_most=rate)


def _systematic(given: Given) -> Design:
    step, order = int(given["step"]), "random" if given["order"] == "random" else "as listed"
    return systematic(step=step, size=step * int(given["n"]), order=order)


def _proportional(given: Given) -> Design:
    if given["rounding"] == "bernoulli":
        return poisson(given["rate"])
    return proportional(given["rate"], rounding=given["rounding"], size=given.get("population"))


def _random_size(given: Given) -> Design:
    return RandomSize(given["population"], given["law"], tuple(given["numbers"]))


_READ: dict[str, Callable[[Given], Design]] = {
    "srs": lambda given: srs(n=given["n"], size=given["population"]),
    "with-replacement": lambda given: with_replacement(given["n"], size=given["population"]),
    "poisson": _independent,
    "stratified": _proportional,
    "random-size": _random_size,
    "allocation": lambda given: size_rule(given["rows"]),
    "confidential-allocation": lambda given: confidential_allocation(given["total"]),
    "cluster": _clusters,
    "capped-cluster": lambda given: cluster("cluster", srs(n=given["take"]), clusters=given["clusters"], cap=given["cap"]),
    "two-stage": _two_stage,
    "pps": lambda given: pps("size", probabilities=given["probabilities"], measure=given["measure"], method=given["method"]),
    "pps-cluster": lambda given: cluster(
        "cluster", pps("size", n=given.get("take", 1)), sizes=given["sizes"], unit_in=given.get("unit_in")
    ),
    "systematic": _systematic,
    "covering": lambda given: pps("size", n=1, method=given["method"], at_most=given["rate"]),
    "each-stratum": lambda given: Stratified(
        "stratum", {str(place): design_of_selection(each) for place, each in enumerate(given["strata"])}
    ),
    "further-stages": _further_stages,
    "responding": lambda given: responding(design_of_selection(given["sample"]), at_most=given["response"]),
    "covered": lambda given: covered(design_of_selection(given["sample"]), at_most=given["coverage"]),
    "group": lambda given: group(design_of_selection(given["sample"]), given["units"], drawn=given["drawn"]),
    "collected": lambda given: collected(),
}
