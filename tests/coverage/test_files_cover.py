"""Intervals of collected files with wide weights cover what they say, or what the classical ones do.

400 files of each kind by the code of `benchmarks/coverage_weights.py`, with fixed seeds, from populations that nothing was chosen
by. A comparison alarms when a coverage of 95 % would be that low with a probability below 5e-8 (exact binomial: 352 of 400) and
the interval covers less often than the classical one; a test makes 20 comparisons at most: 1e-6 in all. That it alarms for
intervals that forget the noise is shown at the end.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from coverage_weights import People, asked, classical, ends_of, files_of, plan_of, populations

FILES = 400
ALARM = int(binom.ppf(1e-6 / 20, FILES, 0.95)) - 1
HELD_OUT = [people for people in populations() if not people.tuned][:3]


@lru_cache
def drawn(people: People) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return files_of(people, FILES, np.random.default_rng(41))


def coverage(people: People, name: str, epsilon: float, *, quiet: bool = False) -> tuple[int, int]:
    """How many files are covered by their private and by their classical interval."""
    low, high, truth = classical(name, people, drawn(people))
    plan = plan_of(people, epsilon, name, False)
    ends = ends_of(plan, people, drawn(people), np.random.default_rng(42))
    if quiet:
        middle = 0.5 * (ends[0] + ends[1])
        ends = middle - 0.5 * (high - low), middle + 0.5 * (high - low)
    inside = [int(((one <= truth) & (truth <= two)).sum()) for one, two in (ends, (low, high))]
    return inside[0], inside[1]


@pytest.mark.parametrize("epsilon", [0.3, pytest.param(3.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("people", HELD_OUT, ids=lambda people: people.name)
def test_private_intervals_of_files_cover(people: People, epsilon: float) -> None:
    for name in asked():
        private, plain = coverage(people, name, epsilon)
        assert private > ALARM or private >= plain, name


@pytest.mark.parametrize("people", HELD_OUT[:1], ids=lambda people: people.name)
def test_the_comparison_alarms_for_intervals_that_forget_the_noise(people: People) -> None:
    private, plain = coverage(people, "mean", 0.3, quiet=True)
    assert private <= ALARM
    assert private < plain
