"""How units are chosen: one file per design. Pure.

A design is listed here once; the contract tests run over the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BadValue, did_you_mean
from ..loss.convexity import advanced_joint_convexity
from ..loss.hypothesis_tests import (
    advantage,
    allocation_error_floor,
    cluster_test,
    inclusion_test,
    loss_from_advantage,
    size_advantage,
)
from ..loss.refused import Refused
from ..text.fields import check_keys, keys_of
from . import printed
from .allocation.allocate import Allocation, allocate
from .allocation.comparison import compare_allocations
from .amplify import Loss, amplify, amplify_profile, invert
from .base import Amplified, Design, Part
from .cluster import ClusterSample, cluster, declared_clusters
from .collected import CollectedFile, collected
from .mixed_strata import MixedStrata
from .poisson import Poisson, poisson
from .pps import ProportionalToSize, pps
from .proportional import ProportionalShare, proportional
from .srs import SimpleRandom, srs
from .stages import Stages, stages
from .strata import stratified, stratified_from
from .stratified import Stratified
from .systematic import SystematicSample, systematic
from .unequal import UnequalPoisson, poisson_by
from .with_replacement import SimpleWithReplacement, with_replacement

# Strata are read by a function: which class holds them depends on what is inside.
DESIGNS: dict[str, Callable[[Mapping[str, Any]], Design]] = {
    SimpleRandom.kind: SimpleRandom.from_dict,
    SimpleWithReplacement.kind: SimpleWithReplacement.from_dict,
    Poisson.kind: Poisson.from_dict,
    UnequalPoisson.kind: UnequalPoisson.from_dict,
    ProportionalShare.kind: ProportionalShare.from_dict,
    SystematicSample.kind: SystematicSample.from_dict,
    ProportionalToSize.kind: ProportionalToSize.from_dict,
    ClusterSample.kind: ClusterSample.from_dict,
    Stages.kind: Stages.from_dict,
    Stratified.kind: stratified_from,
    CollectedFile.kind: CollectedFile.from_dict,
}
# The keys that each design needs and all that it takes: the arguments of what makes it, but for two that name them otherwise.
KEYS: dict[str, tuple[list[str], list[str]]] = {
    SimpleRandom.kind: keys_of(srs),
    SimpleWithReplacement.kind: keys_of(with_replacement),
    Poisson.kind: keys_of(poisson),
    UnequalPoisson.kind: keys_of(poisson_by),
    ProportionalShare.kind: keys_of(proportional),
    SystematicSample.kind: keys_of(systematic),
    ProportionalToSize.kind: keys_of(pps),
    ClusterSample.kind: (["cluster", "how"], ["cluster", *keys_of(cluster)[1][1:]]),
    Stages.kind: (["stages"], ["stages"]),
    Stratified.kind: keys_of(stratified),
    CollectedFile.kind: keys_of(collected),
}


def design_from_dict(fields: Mapping[str, Any]) -> Design:
    """The design that `to_dict` wrote.

    >>> design_from_dict({"kind": "poisson", "rate": 0.02})
    Poisson(rate=0.02, size=None)
    """
    rest = {key: value for key, value in fields.items() if key != "kind"}
    kind = str(fields.get("kind", ""))
    if kind not in DESIGNS:
        raise BadValue(f"unknown kind of design {kind!r}", hint=did_you_mean(kind, DESIGNS))
    check_keys(f"the design {kind!r}", rest, *KEYS[kind])
    try:
        return DESIGNS[kind](rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadValue(
            f"the design {kind!r} is not written as it should be", given=", ".join(rest) or "nothing", hint=str(error)
        ) from None


__all__ = [
    "DESIGNS",
    "Allocation",
    "Amplified",
    "ClusterSample",
    "CollectedFile",
    "Design",
    "Loss",
    "MixedStrata",
    "Part",
    "Poisson",
    "ProportionalShare",
    "ProportionalToSize",
    "Refused",
    "SimpleRandom",
    "SimpleWithReplacement",
    "Stages",
    "Stratified",
    "SystematicSample",
    "UnequalPoisson",
    "advanced_joint_convexity",
    "advantage",
    "allocate",
    "allocation_error_floor",
    "amplify",
    "amplify_profile",
    "cluster",
    "cluster_test",
    "collected",
    "compare_allocations",
    "declared_clusters",
    "design_from_dict",
    "inclusion_test",
    "invert",
    "loss_from_advantage",
    "poisson",
    "poisson_by",
    "pps",
    "printed",
    "proportional",
    "size_advantage",
    "srs",
    "stages",
    "stratified",
    "systematic",
    "with_replacement",
]
