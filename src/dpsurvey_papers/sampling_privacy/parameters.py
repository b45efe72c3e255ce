"""What the paper evaluates with: coins, dice, counts; and what every item asks of a mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Run

YES = 1
# Sections 5.1 and 5.2: the sampled part of the first and of the second variant, and the two coins of randomised response.
SAMPLED, SAMPLED_LESS = Fraction(45, 100), Fraction(25, 100)
COINS = (0.8, 0.2)
# Recurrences in the public breast cancer data (286 patients, UCI repository, Zwitter and Soklic 1988): by tumour size, which
# are the true counts of Figure 6, and by age in the groups 10-19, ..., 90-99.
PATIENTS = 286
BY_TUMOUR_SIZE = (1, 0, 1, 7, 16, 18, 25, 7, 6, 1, 3)
BY_AGE = (0, 0, 15, 27, 25, 17, 1, 0, 0)


def published(outputs: int = 2, sampled: Fraction = SAMPLED) -> Any:
    """Sampling Privacy with equal chances for every output.

    >>> [str(each) for each in published().chances], round(published(10).printed_epsilon, 3)
    (['11/40', '11/40'], 2.217)
    """
    return ds.local.sampling_privacy([(1 - sampled) / outputs] * outputs, sampled)


def randomised() -> Any:
    """Randomised response with the coins of the evaluation.

    >>> round(randomised().epsilon, 4)
    3.0445
    """
    return ds.local.two_coins(*COINS)


def deviation(mechanism: Any, yes: float, no: float) -> float:
    """The standard deviation of an estimated count of "yes", everybody asked.

    >>> round(deviation(published(), 100, 10**9), 2)
    11.06
    """
    own, other = mechanism.spread(YES)
    return math.sqrt(yes * own + no * other)


def estimates(mechanism: Any, yes: int, no: int, draws: int, run: Run, stream: int) -> Any:
    """Estimated counts of "yes" in simulated surveys: the clients' own code, and the mechanism's own estimator.

    >>> bool((estimates(published(), 0, 5, 3, Run(True, 1), 1) == 0.0).all())
    True
    """
    chance = ds.local.SimulatedChance(run.rng(stream))
    answers = np.repeat(np.array([YES, 0]), [yes, no])
    scale, shift = (float(each) for each in mechanism.line(YES))
    sums = [float(mechanism.marks(mechanism.randomize(answers, chance), YES).sum(dtype=np.int64)) for _ in range(draws)]
    return scale * np.array(sums) + shift * (yes + no)


def spread_of(found: Any) -> tuple[float, float]:
    """A simulated standard deviation and its own standard error, whatever the law."""
    variance = float(found.var(ddof=1))
    fourth = float(((found - found.mean()) ** 4).mean())
    error = math.sqrt(max(0.0, fourth - variance**2) / len(found))
    return math.sqrt(variance), error / (2.0 * math.sqrt(variance))


def steps(mechanism: Any, answer: int) -> dict[int, Fraction]:
    """What a respondent adds to the difference of both counts of "yes": every run of the client, with its probability.

    >>> {step: str(chance) for step, chance in sorted(steps(published(), YES).items())}
    {0: '11/20', 1: '9/20'}
    """
    return ds.local.every_outcome(lambda chance: int(mechanism.marks(mechanism.randomize(np.array([answer]), chance), YES)[0]))


def exposed(mechanism: Any, yes: int, epsilon: float) -> float:
    """δ of the difference of both counts alone, one of so many "yes" against a "no", in the worse order.

    >>> round(exposed(published(), 1, 5.0), 9), round(exposed(published(), 5, 0.5), 4)
    (0.45, 0.0636)
    """
    one, none = (np.array([float(steps(mechanism, answer).get(step, 0)) for step in (0, 1)]) for answer in (YES, 0))
    others = np.ones(1)
    for _ in range(yes - 1):
        others = np.convolve(others, one)
    laws = np.convolve(others, one), np.convolve(others, none)
    return max(float(np.maximum(0.0, a - math.exp(epsilon) * b).sum()) for a, b in (laws, laws[::-1]))
