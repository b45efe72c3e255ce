"""Inclusion probabilities and joint probabilities are those of R's package sampling.

Joint probabilities agree to 1e-9, at the last digits printed, except for maximum entropy: R stops its search for the
working odds at 1e-6, and its table does not add up to (n - 1) pi any better than 5e-8. There the reference is held to
5e-8, and the exact sum over all 495 samples, from the odds found here, to 1e-12.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from dpsurvey.design.pps_methods import METHODS, inclusion_probabilities
from dpsurvey.design.pps_methods.conditional_poisson import working_probabilities

pytestmark = pytest.mark.quick

HELD = json.loads((Path(__file__).parent / "pps.json").read_text())
PI = inclusion_probabilities(HELD["sizes"], HELD["n"])


def test_inclusion_probabilities_are_those_of_r():
    assert pytest.approx(HELD["pik"], rel=1e-13) == PI


def test_units_taken_for_certain_are_those_of_r():
    case = HELD["certainty"]
    pi = inclusion_probabilities(case["sizes"], case["n"])
    assert pi == pytest.approx(case["pik"], rel=1e-13)
    assert (pi == 1.0).tolist() == [False] * 7 + [True] * 2


@pytest.mark.parametrize(
    ("method", "reference", "digits"),
    [
        ("sampford", "sampford", 1e-9),
        ("systematic", "systematic_frame_order", 1e-9),
        ("conditional-poisson", "max_entropy", 5e-8),
    ],
)
def test_joint_probabilities_are_those_of_r(method, reference, digits):
    joint, expected = METHODS[method].joint(PI), np.array(HELD["joint"][reference])
    assert joint.exact
    assert np.abs(joint.matrix - expected).max() < digits
    # The check has teeth: the three tables are told apart by it.
    for other in set(HELD["joint"]) - {reference}:
        assert np.abs(joint.matrix - np.array(HELD["joint"][other])).max() > 1e4 * digits


def test_the_maximum_entropy_table_of_r_is_good_to_five_parts_in_a_hundred_million_and_ours_to_rounding():
    ours, theirs = METHODS["conditional-poisson"].joint(PI).matrix, np.array(HELD["joint"]["max_entropy"])
    slack = [np.abs(table.sum(axis=1) - HELD["n"] * PI).max() for table in (ours, theirs)]
    assert slack[0] < 2e-12
    assert 1e-9 < slack[1] < 2e-7


def test_maximum_entropy_is_the_sum_over_all_samples():
    odds = working_probabilities(PI, HELD["n"])
    odds = odds / (1.0 - odds)
    samples = np.array([np.isin(np.arange(12), chosen) for chosen in itertools.combinations(range(12), 4)], dtype=float)
    law = np.prod(np.where(samples > 0, odds, 1.0), axis=1)
    law /= law.sum()
    matrix = (samples * law[:, None]).T @ samples
    assert np.diag(matrix) == pytest.approx(PI, rel=1e-11)
    assert METHODS["conditional-poisson"].joint(PI).matrix == pytest.approx(matrix, rel=1e-11)
