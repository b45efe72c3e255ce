"""Where groups, strata and random groups of clusters stand in the noisy sums, and how random groups may be expected to differ."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .estimators.interval import Array
from .query import Query


def by_stratum_and_random_group(noisy: Array, query: Query) -> Array:
    """Noisy sums as (..., groups, strata, random groups, components), in units of records."""
    assert query.random_groups is not None
    strata = max(1, len(query.random_groups.strata))
    shape = (*noisy.shape[:-2], noisy.shape[-2] // query.random_groups.cells, strata, query.random_groups.count, noisy.shape[-1])
    return noisy.reshape(shape) / query.steps


def own_strata(query: Query) -> npt.NDArray[np.int64] | None:
    """The place of the one stratum that each group lies in, where strata are among what groups are made of."""
    if query.random_groups is None or not query.random_groups.strata or query.strata_column not in query.by:
        return None
    column = query.by.index(str(query.strata_column))
    return np.array([query.random_groups.strata.index(group[column]) for group in query.groups])


def cells_in_use(query: Query) -> Array:
    """1 for the cells of (groups, strata times random groups) that can hold units, else 0."""
    assert query.random_groups is not None
    own, strata = own_strata(query), max(1, len(query.random_groups.strata))
    held = (
        np.ones((len(query.groups), strata)) if own is None else np.asarray(np.arange(strata) == own[:, None], dtype=np.float64)
    )
    return np.repeat(held, query.random_groups.count, axis=1)


def unlike_random_groups(query: Query) -> Array:
    """Deviations by (groups, strata times random groups): of variance 1 between the random groups of a stratum, nearly
    uncorrelated by group.

    Signs of Walsh's functions: the one of a group has the parity of the binary digits that its number shares with the random
    group's.
    """
    assert query.random_groups is not None
    groups, cells = np.arange(1, len(query.groups) + 1), np.arange(query.random_groups.cells)
    shared = groups[:, None] & cells[None, :]
    digits = np.array([[int(each).bit_count() for each in row] for row in shared])
    signs = np.where(digits % 2 == 0, 1.0, -1.0).reshape(len(groups), -1, query.random_groups.count)
    # A stratum whose random groups would all go one way alternates instead.
    alternating = np.where(np.arange(query.random_groups.count) % 2 == 0, 1.0, -1.0)
    signs = np.where(np.ptp(signs, axis=-1, keepdims=True) > 0.0, signs, alternating)
    centred = signs - signs.mean(axis=-1, keepdims=True)
    scaled = centred * np.sqrt((query.random_groups.count - 1.0) / np.sum(centred**2, axis=-1, keepdims=True))
    return np.asarray(scaled.reshape(len(groups), -1))
