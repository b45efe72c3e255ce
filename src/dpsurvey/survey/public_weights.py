"""Public weights from a released table: what its noisy sums and published margins make of the design weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import NotFound
from ..statistic.calibration import columns_of, read_margins
from ..statistic.count import Count
from ..statistic.encodings import Units
from ..statistic.public_weights import PublicWeights, weights_to_margins

if TYPE_CHECKING:
    from .release import Release


def weights_of(release: Release, to: Mapping[Any, Mapping[Any, float]]) -> PublicWeights:
    """The weights that meet margins, from the table of a release that counts units by their columns."""
    margins, plan = read_margins(to), release.plan()
    columns = columns_of(margins)
    for item, noisy in zip(plan.items, release.document["noisy_sums"], strict=True):
        found = [each for each in item.statistics if isinstance(each, Count) and set(each.by) == set(columns)]
        if found and isinstance(item.query.encoding, Units) and not (found[0].of or found[0].conditional):
            query, unit = item.query, plan.facts.largest_weight / item.query.steps
            counts = np.asarray(noisy["sums"], dtype=np.float64)[:, 0] * unit
            return weights_to_margins(query.by, query.categories, counts, item.mechanism.variance * unit**2, margins)
    raise NotFound(
        f"this release has no table of units by {', '.join(columns)}", hint="survey.weights(to=...) releases the table of margins"
    )
