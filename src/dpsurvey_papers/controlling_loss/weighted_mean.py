"""Section 7.2: the weighted mean of a stratified sample, and Neyman's allocation for it, by enumeration of small strata."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

import dpsurvey as ds

VALUES = ((1.0, 2.0, 4.0, 9.0), (10.0, 12.0, 20.0), (5.0, 5.5, 6.0, 6.5, 7.0))


def unbiased(takes: tuple[int, int]) -> bool:
    """Whether the weighted mean is right on average, over every sample of two small strata."""
    strata = VALUES[:2]
    every = [list(itertools.combinations(values, n)) for values, n in zip(strata, takes, strict=True)]
    units = sum(map(len, strata))
    means = [
        sum(len(values) * sum(part) / len(part) for values, part in zip(strata, drawn, strict=True)) / units
        for drawn in itertools.product(*every)
    ]
    return abs(math.fsum(means) / len(means) - sum(map(sum, strata)) / units) < 1e-12


def no_better(total: int) -> bool:
    """Whether no allocation of three small strata has a smaller variance of the weighted mean than Neyman's, rounded."""
    sizes = {str(h): len(values) for h, values in enumerate(VALUES)}
    spreads = {str(h): float(np.std(values, ddof=1)) for h, values in enumerate(VALUES)}
    made = ds.allocate("neyman", sizes=sizes, n=total, deviations=spreads, public=False)

    def variance(takes: Sequence[float]) -> float:
        parts = zip(sizes.values(), spreads.values(), takes, strict=True)
        return math.fsum(size**2 * spread**2 * (1.0 / take - 1.0 / size) for size, spread, take in parts)

    others = [takes for takes in itertools.product(*(range(1, size + 1) for size in sizes.values())) if sum(takes) == total]
    return variance(list(made.exact.values())) <= min(map(variance, others)) + 1e-9
