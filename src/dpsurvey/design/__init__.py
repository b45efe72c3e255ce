"""How units are chosen: one file per design. Pure.

A design is listed here once; the contract tests run over the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadValue, did_you_mean
from .answer import Refused
from .base import Amplified, Design, Part, Recipe
from .loss import Loss, amplify, amplify_profile, invert
from .poisson import Poisson, poisson
from .srs import SimpleRandom, srs
from .stratified import Stratified, stratified

DESIGNS: dict[str, type[Design]] = {design.kind: design for design in (SimpleRandom, Poisson, Stratified)}


def design_from_dict(fields: Mapping[str, Any]) -> Design:
    """The design that `to_dict` wrote.

    >>> design_from_dict({"kind": "poisson", "rate": 0.02})
    Poisson(rate=0.02, size=None)
    """
    rest = {key: value for key, value in fields.items() if key != "kind"}
    kind = str(fields.get("kind", ""))
    if kind not in DESIGNS:
        raise BadValue(f"unknown kind of design {kind!r}", hint=did_you_mean(kind, DESIGNS))
    try:
        return DESIGNS[kind].from_dict(rest)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadValue(
            f"the design {kind!r} has a missing or unknown key", given=", ".join(rest) or "nothing", hint=str(error)
        ) from None


__all__ = [
    "DESIGNS",
    "Amplified",
    "Design",
    "Loss",
    "Part",
    "Poisson",
    "Recipe",
    "Refused",
    "SimpleRandom",
    "Stratified",
    "amplify",
    "amplify_profile",
    "design_from_dict",
    "invert",
    "poisson",
    "srs",
    "stratified",
]
