"""How units are chosen: one file for each design, which says how it is drawn and what it does to a privacy loss. Pure.

Every module of this room is loaded, and each design puts itself on the list `DESIGNS`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..loss.bound import Losses, Refused
from ..loss.curves import READERS
from ..loss.hypothesis_tests import (
    advantage,
    loss_from_advantage,
    size_advantage,
)
from .allocation.allocate import Allocation, allocate
from .allocation.comparison import compare_allocations
from .amplify import Loss, amplify, amplify_profile, invert
from .base import Amplified, Design
from .cluster import cluster
from .collected import CollectedFile, collected
from .confidential_sizes import confidential_allocation, fixed_sizes, size_rule
from .coverage import covered
from .frame import Frame
from .groups import group
from .parts import Part
from .poisson import Poisson, crossing, poisson
from .poisson_by import poisson_by
from .pps import pps
from .proportional import proportional
from .random_size import RandomSize, random_size
from .registry import DESIGNS, design_from_dict, register
from .response import respondents, responding
from .srs import SimpleRandom, srs
from .stages import stages
from .stratified import Stratified, stratified
from .systematic import systematic
from .with_replacement import with_replacement
from .written_by_0_8 import design_of_selection

READERS |= {"design": design_from_dict, "selection": design_of_selection}

# Whatever is in this room puts itself on the list.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "DESIGNS",
    "Allocation",
    "Amplified",
    "CollectedFile",
    "Design",
    "Frame",
    "Loss",
    "Losses",
    "Part",
    "Poisson",
    "RandomSize",
    "Refused",
    "SimpleRandom",
    "Stratified",
    "advantage",
    "allocate",
    "amplify",
    "amplify_profile",
    "cluster",
    "collected",
    "compare_allocations",
    "confidential_allocation",
    "covered",
    "crossing",
    "design_from_dict",
    "fixed_sizes",
    "group",
    "invert",
    "loss_from_advantage",
    "poisson",
    "poisson_by",
    "pps",
    "proportional",
    "random_size",
    "register",
    "respondents",
    "responding",
    "size_advantage",
    "size_rule",
    "srs",
    "stages",
    "stratified",
    "systematic",
    "with_replacement",
]
