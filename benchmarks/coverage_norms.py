"""Standard errors bought as norms, for many simulated surveys: the package's own lengths and directions, with noise by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpsurvey.mechanism.cluster_norm import SumsAndNorms, exact_norms
from dpsurvey.statistic.exact_totals import ClusterTotals
from dpsurvey.statistic.noisy_sums import NoisyLengths, NoisySums
from dpsurvey.survey.plan import Item, Plan


def noisy_of_clusters(plan: Plan, item: Item, samples: Sequence[ClusterTotals], random: np.random.Generator) -> NoisySums:
    """Noisy sums of all clusters of each sample, then noisy lengths at the directions that follow from them."""
    mechanism = item.mechanism
    assert isinstance(mechanism, SumsAndNorms)
    exact = np.stack([each.whole for each in samples]).astype(np.float64)
    rows = exact + random.laplace(0.0, mechanism.of_sums.scale, exact.shape)
    bought = []
    for each, row in zip(samples, rows, strict=True):
        directions = mechanism.directions(row)
        lengths, figures = exact_norms(each, directions, mechanism.reach, mechanism.groups, mechanism.norm, mechanism.steps)
        bought.append([(length, *figure) for length, figure in zip(lengths, figures, strict=True)])
    lengths, factors, freedom = np.moveaxis(np.array(bought, dtype=np.float64), -1, 0)
    noise = random.laplace(0.0, mechanism.of_norms.scale, lengths.shape)
    return replace(plan.asked(item).answered(rows), lengths=NoisyLengths(lengths + noise, factors, freedom))


def answer_of(noisy: NoisySums, survey: int) -> list[list[Any]]:
    """The answer of the mechanism in one of many surveys, as a release keeps it."""
    assert noisy.lengths is not None
    bought = (noisy.lengths.lengths, noisy.lengths.factors, noisy.lengths.freedom)
    return [*noisy.sums[survey].tolist(), *(list(each) for each in zip(*(part[survey] for part in bought), strict=True))]
