"""stratified(): strata of a public column with any design, or an allocation, inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..errors import BadValue
from .allocation.allocate import Allocation
from .base import Design
from .frame import label_text
from .mixed_strata import MixedStrata
from .poisson import Poisson
from .srs import SimpleRandom, srs
from .stratified import Stratified


def stratified(
    by: str,
    *,
    within: Design | Mapping[object, Design] | Allocation,
    allocation: Literal["public", "confidential"] = "public",
) -> Stratified | MixedStrata:
    """Draw inside each category of a public column: by one design, a mapping from category to design, or an allocation.

    `allocation="confidential"` marks sizes that were computed from the confidential frame; it is set by an `Allocation`
    that was. Such sizes tell about records, so no guarantee that lets the frame vary is made with them.

    >>> stratified("region", within={"north": Poisson(0.1), "south": Poisson(0.5)}).largest_probability
    0.5
    """
    inside: Design | dict[str, Design]
    if isinstance(within, Allocation):
        allocation = "public" if within.public and allocation == "public" else "confidential"
        inside = {label: srs(n=take) for label, take in within.takes.items()}
    elif isinstance(within, Mapping):
        inside = {label_text(label): each for label, each in within.items()}
    else:
        inside = within
    designs = list(inside.values()) if isinstance(inside, Mapping) else [inside]
    plain = all(isinstance(each, SimpleRandom) for each in designs) or all(isinstance(each, Poisson) for each in designs)
    if plain and designs:
        return Stratified(by, inside, allocation=allocation)  # type: ignore[arg-type]
    if allocation != "public":
        raise BadValue("an allocation computed from the frame is drawn by srs inside strata")
    return MixedStrata(by, inside)


def stratified_from(fields: Mapping[str, Any]) -> Stratified | MixedStrata:
    """The strata that `to_dict` wrote, `kind` left out."""
    from . import design_from_dict

    rest = dict(fields)
    within = rest.pop("within")
    # One design has a kind; a mapping from stratum to design may have a stratum called "kind".
    one = isinstance(within.get("kind"), str)
    inside = design_from_dict(within) if one else {label: design_from_dict(each) for label, each in within.items()}
    return stratified(within=inside, **rest)
