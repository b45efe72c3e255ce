"""Public weights: factors on design weights by weighting cell, made from one noisy table of counts and published margins.

They are made after the noise, so they are constants for whatever is asked later: with them one record moves a weighted sum by the
largest weight, whether its answer, its cell or both are replaced. docs/proofs/estimation.md, "Public weights".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadValue
from ..text.keys import check_keys
from .estimators.interval import Array

# Factors further than this from the mean one are cut to it: a public rule, which keeps the largest weight in bounds.
LEAST_FACTOR, MOST_FACTOR = 0.25, 3.0
# A level of a margin whose noisy count is below this many times its noise has no weight that could be trusted.
ENOUGH = 5.0
# How far published margins may be from each other.
AGREE = 0.01

# For the columns of each margin the published count of every combination of their categories.
Margins = Sequence[tuple[tuple[str, ...], Sequence[tuple[tuple[str, ...], float]]]]


@dataclass(frozen=True)
class PublicWeights:
    """What multiplies the design weights of every cell, the noisy counts that it was made from, and their noise variance.

    Counts are sums of design weights. `size` is what the margins add up to.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    factors: tuple[float, ...]
    counts: tuple[float, ...]
    noise: float
    size: float

    @property
    def largest(self) -> float:
        """The largest factor."""
        return max(self.factors)

    @property
    def cut(self) -> bool:
        """Whether a factor was cut, so that the margins are not quite met."""
        met = sum(count * factor for count, factor in zip(self.counts, self.factors, strict=True))
        return not math.isclose(met, self.size, rel_tol=1e-6)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form: the columns of the cells; the labels of each, its factor and its count; the noise and the size."""
        cells = zip(self.labels, self.factors, self.counts, strict=True)
        rows = [[*labels, factor, count] for labels, factor, count in cells]
        return {"cells": list(self.columns), "rows": rows, "noise": self.noise, "size": self.size}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> PublicWeights:
        """What `to_dict` wrote, checked."""
        keys = ("cells", "rows", "noise", "size")
        check_keys("public weights", fields, keys, keys)
        columns, rows = tuple(map(str, fields["cells"])), fields["rows"]
        if not columns or not rows or not all(isinstance(row, list) and len(row) == len(columns) + 2 for row in rows):
            raise BadValue("a row of public weights is the labels of a cell, its factor and its count")
        labels = tuple(tuple(map(str, row[:-2])) for row in rows)
        factors, counts = (tuple(float(row[place]) for row in rows) for place in (-2, -1))
        noise, size = float(fields["noise"]), float(fields["size"])
        if not all(map(math.isfinite, (*factors, *counts, noise, size))) or min(*factors, size) <= 0.0 or noise < 0.0:
            raise BadValue("factors of weights and their size are positive, their noise is not negative, and all are finite")
        if sum(counts) <= 0.0 or len(set(labels)) < len(labels):
            raise BadValue("every cell of public weights is written once, and some of them hold records")
        return cls(columns, labels, factors, counts, noise, size)


def weights_to_margins(
    columns: Sequence[str], categories: Sequence[Sequence[str]], counts: Array, noise: float, margins: Margins
) -> PublicWeights:
    """The factors with which noisy counts of the cells of a table meet published margins, by linear weights.

    Nothing is divided by the count of a cell, so that small cells do no harm; a level of a margin needs a noisy count of 5 times
    its noise.

    >>> margins = [(("sex",), [(("f",), 500.0), (("m",), 500.0)])]
    >>> made = weights_to_margins(["sex"], [["f", "m"]], np.array([40.0, 60.0]), 0.0, margins)
    >>> [round(factor, 3) for factor in made.factors]
    [12.5, 8.333]
    """
    cells = list(itertools.product(*categories))
    found, targets = [], []
    for names, wanted in margins:
        places = [columns.index(name) for name in names]
        for labels, total in wanted:
            inside = np.array([tuple(cell[place] for place in places) == labels for cell in cells])
            if counts[inside].sum() < ENOUGH * math.sqrt(noise * max(1, inside.sum())):
                raise BadValue(
                    f"a level of {', '.join(names)} has a noisy count below {ENOUGH:g} times its noise",
                    because="weights made of it would be made of noise",
                    hint="merge it with another category in the file and in the margins, or give the table a larger share",
                )
            found.append(inside.astype(np.float64))
            targets.append(float(total))
    size = math.fsum(total for _, total in margins[0][1])
    design, wanted_totals = np.stack(found, axis=1), np.array(targets)
    # Levels of several margins add up to the same, so that there is more than one solution, all with the same factors.
    products = design.T @ (counts[:, None] * design)
    coefficients = np.linalg.lstsq(products, wanted_totals, rcond=1e-10)[0]
    factors = design @ coefficients
    if np.abs(products @ coefficients - wanted_totals).max() > AGREE * size:
        raise BadValue("the margins contradict each other", hint="use margins from one source, of the same population and date")
    mean = size / float(counts.sum())
    factors = np.clip(factors, LEAST_FACTOR * mean, MOST_FACTOR * mean)
    as_numbers = tuple(float(f"{each:.9g}") for each in factors)
    return PublicWeights(tuple(columns), tuple(cells), as_numbers, tuple(map(float, counts)), float(noise), size)
