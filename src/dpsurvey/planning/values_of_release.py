"""Values that stand for a column, from the published tree of an earlier release: where it is dense, and where sparse."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import BadValue, did_you_mean
from ..statistic.encodings import TreeCounts
from ..statistic.estimators.quantile_interval import monotone
from ..survey.release import Release

Array = npt.NDArray[np.float64]
# A simulation with more values would take hours.
MOST = 1_000_001


def published_values(release: Release, of: str, size: int) -> Array:
    """`size` values with the distribution of a column in an earlier release, for `median_rates`.

    The release must have a quantile of the column by the tree; all of its noisy counts are published, so this is
    post-processing and costs nothing. Between the edges of a leaf values are spread evenly. As noisy as the release.

    >>> import os, tempfile, pyarrow as pa, dpsurvey as ds
    >>> rows = pa.table({"id": range(400), "y": [float(unit % 50) for unit in range(400)]})
    >>> survey = ds.Survey(ds.Frame(rows, unit="id", size=400), ds.srs(n=200), budget=ds.Budget(100.0), name="wave1",
    ...                    ledger=os.path.join(tempfile.mkdtemp(), "books.ledger"))
    >>> release = survey.plan(ds.median("y", bounds=(0, 50), method="tree", leaves=64)).release()
    >>> values = published_values(release, "y", 101)
    >>> len(values), bool(20.0 < values[50] < 30.0)
    (101, True)
    """
    if isinstance(size, bool) or not isinstance(size, int) or not 2 <= size <= MOST:
        raise BadValue(f"the number of values is a whole number from 2 to {MOST:,}", given=f"size={size!r}")
    plan = release.plan()
    trees = [
        (place, item.query, item.query.encoding)
        for place, item in enumerate(plan.items)
        if isinstance(item.query.encoding, TreeCounts) and not item.query.by
    ]
    found = [each for each in trees if each[1].column == of]
    if not found:
        names = [query.column or "" for _, query, _ in trees]
        hint = did_you_mean(of, names) if names else 'a release with ds.median(..., method="tree") gives the distribution'
        raise BadValue(f"this release has no tree of counts of {of!r} for the whole", hint=hint)
    place, query, encoding = found[0]
    tree = encoding.tree
    sums = np.asarray(release.document["noisy_sums"][place]["sums"], dtype=np.float64).sum(axis=0)
    below = monotone(tree.prefix_sums(tree.consistent(sums / query.steps)))
    if not below[-1] > 0.0:
        raise BadValue(f"the noisy counts of {of!r} are nothing but noise", hint="a release with a larger epsilon or sample")
    # Flat stretches hold nobody: a hair keeps the shares rising, so that each has one value.
    shares = below / below[-1] + np.linspace(0.0, 1e-9, len(below))
    return np.asarray(np.interp((np.arange(size) + 0.5) / size, shares, np.asarray(encoding.edges)))
