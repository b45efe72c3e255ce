"""The likelihood interval of a proportion: exactly, and as R's survey package reads it from a table.

R fits a logistic model with an intercept b alone, evaluates z(b) = sign sqrt(deviance(b) - deviance(fit)) on a few points a
fixed number of standard errors apart, draws a cubic spline through them, and reads off by straight lines between three
times as many points where z is -+ t sqrt(lambda), lambda being the design effect. The fit stops when the deviance moves
by less than 1e-8, and lambda still holds the information of the step before. Clustered samples make the points so
few that the ends are off by up to a third of a percent; they are kept here for the sake of equal numbers.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, logit, ndtr, stdtrit

from .columns import Array

MOST_STEPS, STEPS_TO_END, STOP = 10, 5.0, 1e-8


def deviance_interval(p: float, rise: float) -> tuple[float, float]:
    """The q on each side of p with p log(p/q) + (1-p) log((1-p)/(1-q)) = rise, by bisection on the logit scale.

    >>> low, high = deviance_interval(0.5, 0.02)
    >>> round(low, 6), round(high, 6)
    (0.400992, 0.599008)
    """

    def distance(b: float) -> float:
        # log(1 + e^b) - p b, less its least value, is the Kullback-Leibler distance to q = expit(b).
        return float(np.logaddexp(0.0, b) - p * b) - entropy

    middle = float(logit(p))
    entropy = float(np.logaddexp(0.0, middle) - p * middle)
    ends = []
    for side in (-1.0, 1.0):
        width = 1.0
        while distance(middle + side * width) < rise:
            width *= 2.0
        near, far = 0.0, width
        for _ in range(100):
            half = 0.5 * (near + far)
            near, far = (half, far) if distance(middle + side * half) < rise else (near, half)
        ends.append(float(expit(middle + side * far)))
    return ends[0], ends[1]


def table_interval(weights: Array, y: Array, se: float, t: float) -> tuple[float, float]:
    """The likelihood interval as R's survey computes it, from 0/1 values and weights that average 1 over the sample.

    >>> y = np.repeat([0.0, 1.0], [70, 30])
    >>> [round(end, 4) for end in table_interval(np.ones(100), y, 0.05, 1.959964)]
    [0.2086, 0.4035]
    """
    n, size = len(y), float(weights.sum())
    fit, information = _intercept(weights, y)
    p = float(expit(fit))
    spread = se / (p * (1.0 - p))
    cut = t * spread * math.sqrt(information)
    # The points end at Student's value for a quarter of the chance that a normal variable exceeds the cut. Where that
    # chance is too small to hold (a design effect of some 350) R has no table, and so no interval.
    reach = -float(stdtrit(n - 1.0, 0.25 * float(ndtr(-cut))))
    if not math.isfinite(reach):
        return math.nan, math.nan
    step = reach / STEPS_TO_END * spread
    mean = float(weights @ y) / size

    def z(b: float) -> float:
        rise = 2.0 * size * (float(np.logaddexp(0.0, b) - np.logaddexp(0.0, fit)) - mean * (b - fit))
        return math.copysign(math.sqrt(max(rise, 0.0) * (n - 1.0) / size), b - fit)

    points = {fit: 0.0}
    for side in (-1.0, 1.0):
        for k in range(1, MOST_STEPS):
            b = fit + side * k * step
            points[b] = z(b)
            if abs(points[b]) >= reach:
                break
    knots = np.array(sorted(points))
    heights = np.array([points[b] for b in knots])
    grid = np.linspace(knots[0], knots[-1], 3 * len(knots))
    low, high = np.interp([-cut, cut], spline(knots, heights, grid), grid, left=math.nan, right=math.nan)
    return float(expit(low)), float(expit(high))


def _intercept(weights: Array, y: Array) -> tuple[float, float]:
    """The fitted intercept of a weighted logistic model, and the information of the step before the last one.

    Iteratively reweighted least squares from (w y + 1/2)/(w + 1), until the deviance moves by less than 1e-8.
    """
    chance = (weights * y + 0.5) / (weights + 1.0)
    score = logit(chance)
    size, successes = float(weights.sum()), float(weights @ y)
    before = -2.0 * float(weights @ (y * np.log(chance) + (1.0 - y) * np.log1p(-chance)))
    spread = chance * (1.0 - chance)
    information = float(weights @ spread)
    fit = float((weights * spread) @ (score + (y - chance) / spread)) / information
    for _ in range(25):
        deviance = 2.0 * (size * float(np.logaddexp(0.0, fit)) - successes * fit)
        if abs(deviance - before) < STOP * (abs(deviance) + 0.1):
            break
        before, p = deviance, float(expit(fit))
        information = size * p * (1.0 - p)
        fit += (successes - size * p) / information
    return fit, information


def spline(x: Array, y: Array, at: Array) -> Array:
    """The cubic spline through (x, y) whose third derivative at each end is that of the cubic through the last four points.

    With three points the third derivative at the ends is 0. Forsythe, Malcolm and Moler 1977, Computer Methods for
    Mathematical Computations, ch. 4.

    >>> x = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
    >>> bool(np.allclose(spline(x, x**3 - x, np.array([0.5, 3.0])), [-0.375, 24.0]))
    True
    """
    gaps = np.diff(x)
    slopes = np.diff(y) / gaps
    n = len(x)
    # One row for each point, for a sixth of the second derivative there.
    system, right = np.zeros((n, n)), np.zeros(n)
    inner = np.arange(1, n - 1)
    system[inner, inner - 1], system[inner, inner + 1] = gaps[:-1], gaps[1:]
    system[inner, inner] = 2.0 * (gaps[:-1] + gaps[1:])
    right[1:-1] = np.diff(slopes)
    system[0, :2], system[-1, -2:] = (-gaps[0], gaps[0]), (gaps[-1], -gaps[-1])
    if n > 3:
        second = np.diff(slopes) / (x[2:] - x[:-2])
        third = np.diff(second) / (x[3:] - x[:-3])
        right[0], right[-1] = third[0] * gaps[0] ** 2, -third[-1] * gaps[-1] ** 2
    bends = np.linalg.solve(system, right)
    left = np.clip(np.searchsorted(x, at) - 1, 0, n - 2)
    share = (at - x[left]) / gaps[left]
    rest = 1.0 - share
    curve = (share**3 - share) * bends[left + 1] + (rest**3 - rest) * bends[left]
    return np.asarray(share * y[left + 1] + rest * y[left] + gaps[left] ** 2 * curve)
