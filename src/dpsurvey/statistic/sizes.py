"""The public sizes of the strata that a number of a fixed-size design is about."""

from __future__ import annotations

import numpy as np

from .estimators.fixed_size import FixedSizes
from .facts import Facts


def sizes_of(facts: Facts, group: tuple[str, ...]) -> FixedSizes:
    """All strata for the whole frame (empty group), or the one stratum that a group is."""
    parts = [part for part in facts.parts if not group or part.label == group[0]]
    sizes = np.array([float(part.size or 0) for part in parts])
    takes = np.array([float(part.take or 0) for part in parts])
    # With replacement the draw is not a part of a finite list, and nothing is corrected for it.
    rates = np.array([0.0 if part.replaced else take / size for part, take, size in zip(parts, takes, sizes, strict=True)])
    return FixedSizes(sizes / sizes.sum(), takes, rates)
