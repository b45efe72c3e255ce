"""Whether a bought variance can be had is decided by the size of the sample, never by a sum."""

from __future__ import annotations

import pytest

from dpsurvey.errors import BadValue
from dpsurvey.mechanism.bought_variance import FINE, MeanAndVariance
from dpsurvey.mechanism.laplace import Laplace
from dpsurvey.privacy.profile import PrivacyProfile

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")


def bought(takes: tuple[int, int]) -> MeanAndVariance:
    charge, one = PrivacyProfile.pure(1.0, "replace-one"), (0.1, 0.1)
    return MeanAndVariance.calibrate(charge, Laplace, 0.2, takes, one, (0.02, 0.02), lattice=FINE, second_moment_scale=1.0)


@pytest.mark.parametrize("part", [0, 2**20, 2**21 - 1, 2**21, 2**21 + 1, 3_200_000])
def test_no_sum_of_a_large_sample_is_refused(part: int) -> None:
    """Two million and some answers of yes were refused, and one less was not: whether a release fails told the sum."""
    take = 1_600_000
    rows = [[min(part, take) * FINE, 0], [max(0, part - take) * FINE, 0]]
    assert len(bought((take, take)).answer(rows)[0]) == 2


@pytest.mark.parametrize("take", [10**3, 10**6, 10**8, 10**9])
def test_every_sum_of_a_sample_that_is_not_refused_can_be_answered(take: int) -> None:
    """Steps may be coarser in larger samples; what one record moves is as many of them as the noise was calibrated to."""
    mechanism = bought((take, take))
    assert len(mechanism.answer([[take * FINE, 0]] * 2)[0]) == 2
    assert max(mechanism.steps) * FINE <= mechanism.of_mean.sensitivity <= max(mechanism.steps) * (FINE + 1)


@pytest.mark.parametrize("take", [10**10, 10**12, 10**15])
def test_a_sample_that_is_too_large_is_refused_before_its_sums_are_known(take: int) -> None:
    with pytest.raises(BadValue, match="too large for this estimator"):
        bought((take, take))
