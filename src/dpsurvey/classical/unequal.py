"""Variance of an expanded total when units were drawn with unequal probabilities.

With e_i = y_i/pi_i (or the linearised value times the weight) and pi_ij the chance that i and j are drawn together:

    Horvitz-Thompson   sum_ij (1 - pi_i pi_j / pi_ij) e_i e_j            unbiased when every pi_ij > 0; may be negative
    Yates-Grundy       sum_{i<j} (pi_i pi_j / pi_ij - 1) (e_i - e_j)^2   unbiased too, for samples of fixed size
    Poisson            sum_i (1 - pi_i) e_i^2                            units drawn independently
    Brewer             n/(n-1) sum_i (1 - pi_i) (e_i - mean e)^2         needs no pi_ij; fixed size
    Deville            sum_i (1 - pi_i) (e_i - A)^2 / (1 - sum a_i^2)    a_i = (1 - pi_i)/sum(1 - pi), A = sum a_i e_i
    Overton            pi_i pi_j / pi_ij taken as (n - (pi_i + pi_j)/2) / (n - 1)
    Hartley-Rao        pi_i pi_j / pi_ij taken as (n - pi_i - pi_j + c) / (n - 1), c = sum over the frame of pi^2 / n

The last four work stratum by stratum. Horvitz and Thompson 1952, JASA 47; Sen 1953; Yates and Grundy 1953, JRSS B 15;
Hartley and Rao 1962, Ann. Math. Stat. 33; Brewer 2002, Combined Survey Sampling Inference, ch. 9; Deville 1999,
Survey Methodology 25.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import BadData, BadValue
from .columns import Array, Codes, Mask
from .stages import degrees_of_freedom

WITHOUT_JOINT = ("poisson", "brewer", "deville", "overton", "hartley-rao")
WITH_JOINT = ("horvitz-thompson", "yates-grundy")


def horvitz_thompson_variance(expanded: Array, joint: Array) -> float:
    """sum_ij (1 - pi_i pi_j / pi_ij) e_i e_j, with pi_i on the diagonal of `joint`. It may come out negative.

    >>> round(horvitz_thompson_variance(np.array([2.0, 6.0]), np.array([[0.5, 1/6], [1/6, 0.5]])), 9)
    8.0
    """
    return float(expanded @ (1.0 - _ratio(joint)) @ expanded)


def yates_grundy_variance(expanded: Array, joint: Array) -> float:
    """sum_{i<j} (pi_i pi_j / pi_ij - 1) (e_i - e_j)^2, for samples of fixed size.

    >>> round(yates_grundy_variance(np.array([2.0, 6.0]), np.array([[0.5, 1/6], [1/6, 0.5]])), 9)
    8.0
    """
    gaps = expanded[:, None] - expanded[None, :]
    return float(0.5 * np.sum((_ratio(joint) - 1.0) * gaps**2))


def _ratio(joint: Array) -> Array:
    """pi_i pi_j / pi_ij, and pi_i on the diagonal."""
    pi = np.diagonal(joint)
    if np.any(joint <= 0.0) or np.any(joint > 1.0) or joint.shape != (len(pi), len(pi)) or not np.allclose(joint, joint.T):
        raise BadValue(
            "the joint inclusion probabilities are not a symmetric table of values in (0, 1]",
            because="a pair that cannot be drawn together leaves no unbiased estimator of the variance",
            hint='use sampling="brewer", or an approximation that needs no joint probabilities',
        )
    return np.asarray(np.outer(pi, pi) / joint)


def poisson_variance(expanded: Array, pi: Array, stratum: Codes) -> float:
    """sum_i (1 - pi_i) e_i^2.

    >>> poisson_variance(np.array([2.0, 6.0]), np.array([0.5, 0.75]), np.zeros(2, int))
    11.0
    """
    return float(np.sum((1.0 - pi) * expanded**2))


def brewer_variance(expanded: Array, pi: Array, stratum: Codes) -> float:
    """n/(n-1) sum_i (1 - pi_i) (e_i - mean e)^2 in each stratum.

    >>> brewer_variance(np.array([2.0, 6.0]), np.array([0.5, 0.5]), np.zeros(2, int))
    8.0
    """
    n = np.bincount(stratum)
    centre = np.bincount(stratum, weights=expanded) / n
    return float(np.sum((n / np.maximum(n - 1.0, 1.0))[stratum] * (1.0 - pi) * (expanded - centre[stratum]) ** 2))


def deville_variance(expanded: Array, pi: Array, stratum: Codes) -> float:
    """sum_i (1 - pi_i) (e_i - A)^2 / (1 - sum a_i^2) in each stratum; units drawn for certain play no part.

    >>> deville_variance(np.array([2.0, 6.0]), np.array([0.5, 0.5]), np.zeros(2, int))
    8.0
    """
    loose = 1.0 - pi
    share = loose / np.maximum(np.bincount(stratum, weights=loose), 1e-300)[stratum]
    centre = np.bincount(stratum, weights=share * expanded)
    left = 1.0 - np.bincount(stratum, weights=share**2)
    squares = np.bincount(stratum, weights=loose * (expanded - centre[stratum]) ** 2)
    # One loose unit leaves nothing to compare it with; its stratum then says nothing about its variance.
    return float(np.sum(np.divide(squares, left, out=np.zeros_like(squares), where=left > 1e-12)))


def overton_variance(expanded: Array, pi: Array, stratum: Codes) -> float:
    """Horvitz-Thompson with pi_i pi_j / pi_ij = (n - (pi_i + pi_j)/2) / (n - 1), in time proportional to n.

    >>> overton_variance(np.array([2.0, 6.0]), np.array([0.5, 0.5]), np.zeros(2, int))
    8.0
    """
    return _pairwise(expanded, pi, stratum, slope=0.5, level=-1.0)


def hartley_rao_variance(expanded: Array, pi: Array, stratum: Codes, square_sum: Array) -> float:
    """Horvitz-Thompson with pi_i pi_j / pi_ij = (n - pi_i - pi_j + c) / (n - 1), c = `square_sum` of the stratum.

    >>> hartley_rao_variance(np.array([2.0, 6.0]), np.array([0.5, 0.5]), np.zeros(2, int), np.array([0.5]))
    8.0
    """
    return _pairwise(expanded, pi, stratum, slope=1.0, level=-1.0 - square_sum)


def _pairwise(expanded: Array, pi: Array, stratum: Codes, slope: float, level: Array | float) -> float:
    """sum_i (1 - pi_i) e_i^2 + sum_{i != j} (slope (pi_i + pi_j) + level)/(n-1) e_i e_j, without the n by n table."""

    def total(weights: Array) -> Array:
        return np.asarray(np.bincount(stratum, weights=weights), dtype=np.float64)

    n, whole = np.bincount(stratum), total(expanded)
    mixed = 2.0 * slope * (total(pi * expanded) * whole - total(pi * expanded**2))
    plain = level * (whole**2 - total(expanded**2))
    return float(np.sum((1.0 - pi) * expanded**2) + np.sum((mixed + plain) / np.maximum(n - 1.0, 1.0)))


@dataclass(frozen=True)
class UnequalDesign:
    """Units drawn with unequal probabilities, and the formula for the variance; rows of one unit are added first."""

    unit: Codes
    stratum: Codes
    pi: Array
    sampling: str
    joint: Array | None = None
    square_sum: Array | None = None

    def variance(self, expanded: Array) -> float:
        """The estimated variance of the sum of weighted values."""
        totals = np.asarray(np.bincount(self.unit, weights=expanded, minlength=len(self.stratum)), dtype=np.float64)
        if self.joint is not None:
            pairs = horvitz_thompson_variance if self.sampling == "horvitz-thompson" else yates_grundy_variance
            return pairs(totals, self.joint)
        if self.sampling == "hartley-rao":
            # The mean of pi over the sample estimates sum of pi^2 / n over the frame.
            found = np.bincount(self.stratum, weights=self.pi) / np.bincount(self.stratum)
            return hartley_rao_variance(totals, self.pi, self.stratum, found if self.square_sum is None else self.square_sum)
        formula: dict[str, Callable[[Array, Array, Codes], float]] = {
            "poisson": poisson_variance,
            "brewer": brewer_variance,
            "deville": deville_variance,
            "overton": overton_variance,
        }
        return formula[self.sampling](totals, self.pi, self.stratum)

    def own_squares(self) -> Array:
        """What the square of each row's own weighted value counts in `variance`, if rows vary independently.

        >>> unequal_design(np.zeros(2, int), np.arange(2), np.array([0.5, 0.75]), "poisson", None, None).own_squares().tolist()
        [0.5, 0.25]
        """
        loose = 1.0 - self.pi
        if self.sampling == "brewer":
            n = np.bincount(self.stratum)[self.stratum].astype(np.float64)
            factor = n / np.maximum(n - 1.0, 1.0) * loose
            counted = factor * (1.0 - 2.0 / n) + np.bincount(self.stratum, weights=factor)[self.stratum] / n**2
        elif self.sampling == "deville":
            whole = np.maximum(np.bincount(self.stratum, weights=loose), 1e-300)[self.stratum]
            share = loose / whole
            left = (1.0 - np.bincount(self.stratum, weights=share**2))[self.stratum]
            counted = np.divide(
                loose * (1.0 - 2.0 * share) + share**2 * whole, left, out=np.zeros_like(loose), where=left > 1e-12
            )
        elif self.sampling == "yates-grundy":
            assert self.joint is not None
            ratio = _ratio(self.joint)
            counted = (ratio - 1.0).sum(axis=1) - (np.diagonal(ratio) - 1.0)
        else:
            counted = loose
        return np.asarray(counted[self.unit])

    def df(self, rows: Mask | None = None) -> float:
        """Units minus strata, counted among the rows of a domain."""
        return degrees_of_freedom(self.unit, self.stratum, rows)


def unequal_design(
    strata: Codes, unit: Codes, probs: Array, sampling: str, joint: Array | None, square_sum: float | Array | None
) -> UnequalDesign:
    """The design of rows with a stratum, a unit and its inclusion probability.

    >>> found = unequal_design(np.zeros(2, int), np.arange(2), np.array([0.5, 0.75]), "poisson", None, None)
    >>> found.variance(np.array([2.0, 6.0]))
    11.0
    """
    if sampling not in WITHOUT_JOINT + WITH_JOINT:
        raise BadValue("the way of sampling is unknown", given=f"sampling={sampling!r}", hint="see the docstring of Sample")
    if (joint is not None) != (sampling in WITH_JOINT):
        raise BadValue("joint= goes with horvitz-thompson and yates-grundy, and with no other", given=f"sampling={sampling!r}")
    count = int(unit.max()) + 1
    pi, stratum = np.zeros(count), np.zeros(count, dtype=np.intp)
    pi[unit], stratum[unit] = probs, strata
    if np.any(pi[unit] != probs):
        raise BadData("inclusion probabilities vary within a psu", hint="probs holds the inclusion probability of the psu")
    if np.any(probs > 1.0):
        raise BadData("an inclusion probability is above 1")
    if joint is not None and (joint.shape != (count, count) or not np.allclose(np.diagonal(joint), pi)):
        raise BadValue(
            "joint does not fit the sample", hint="one row and column for each unit, in their order, pi on the diagonal"
        )
    if sampling not in ("poisson", *WITH_JOINT) and np.any(
        (np.bincount(stratum) == 1) & (np.bincount(stratum, weights=pi) < 1.0)
    ):
        raise BadData(
            "a stratum has one sampled unit, so its variance cannot be estimated", hint="merge it with a similar stratum"
        )
    given = None if square_sum is None else np.broadcast_to(np.asarray(square_sum, dtype=np.float64), (int(stratum.max()) + 1,))
    return UnequalDesign(unit, stratum, pi, sampling, joint, given)
