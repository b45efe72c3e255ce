"""Sums of coarser groups out of those of finer ones: what is a margin of a table is not asked for a second time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..mechanism.added_noise import AddedNoise
from ..mechanism.base import Answering, Mechanism
from ..mechanism.cluster_norm import Directions, SumsAndNorms
from .noisy_sums import Asked, NoisySums
from .query import ByReplicate, Query


def is_margin(coarse: Query, fine: Query) -> bool:
    """Whether the sums of a query are those of another, added up over some of its groups.

    Not where groups have a scale of their own: a range, a largest weight, or an answer in steps of its own.

    Random groups are left alone: what they are dealt into is chosen for each query.
    """
    if not fine.encoding.adds_up or not set(coarse.by) < set(fine.by):
        return False
    if coarse.random_groups is not None or fine.random_groups is not None:
        return False
    if (coarse.clusters is None) != (fine.clusters is None):
        return False
    # Replicate weights say less of one stratum than of all: their degrees of freedom are those of a query.
    if isinstance(fine.clusters, ByReplicate) and coarse.clusters != fine.clusters:
        return False
    # Values on a range of their own by group cannot be added up.
    own = fine.own_bounds
    if (own is not None and own.scaled) or set(fine.finer) != {1.0}:
        return False
    kept = {name: getattr(fine, name) for name in ("by", "categories", "group_is_fixed", "clusters")}
    return replace(coarse, **kept) == fine


def places_of(coarse: Query, fine: Query) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The coarser group of each finer one.

    >>> from .encodings import Units
    >>> fine = Query(Units(), None, None, None, ("a", "b"), (("x", "y"), ("1", "2")), ((None, 1),), None, False)
    >>> places_of(replace(fine, by=("b",), categories=(("1", "2"),)), fine).tolist()
    [0, 1, 0, 1]
    """
    columns = [fine.by.index(column) for column in coarse.by]
    place = {group: index for index, group in enumerate(coarse.groups)}
    return np.array([place[tuple(group[column] for column in columns)] for group in fine.groups], dtype=np.int64)


def terms_of(coarse: Query, fine: Query) -> int:
    """How many finer groups make a coarser one."""
    return len(fine.groups) // len(coarse.groups)


def added(mechanism: Answering, terms: int) -> Answering:
    """The noise of a coarser group's sum, from that of the finer ones."""
    if terms == 1:
        return mechanism
    if isinstance(mechanism, SumsAndNorms):
        return replace(mechanism, of_sums=AddedNoise(mechanism.of_sums, terms))  # type: ignore[arg-type]
    return AddedNoise(mechanism, terms) if isinstance(mechanism, Mechanism) else mechanism


def as_margin(asked: Asked, coarse: Query) -> Asked:
    """What was asked of finer groups, as a question about coarser ones."""
    return replace(asked, query=coarse, mechanism=added(asked.mechanism, terms_of(coarse, asked.query)))


def margin_of(noisy: NoisySums, coarse: Query) -> NoisySums:
    """Noisy sums of finer groups, added up to coarser ones."""
    fine = noisy.query
    if fine == coarse:
        return noisy
    onto = np.zeros((len(coarse.groups), len(fine.groups)))
    onto[places_of(coarse, fine), np.arange(len(fine.groups))] = 1.0
    return NoisySums(as_margin(noisy.asked, coarse), np.asarray(onto @ noisy.sums), noisy.lengths)


def in_finer_groups(directions: Directions, coarse: Query, fine: Query) -> Directions:
    """What a record adds to numbers of coarser groups, by the finer group that it is in."""
    if fine == coarse:
        return directions
    places = places_of(coarse, fine)
    return Directions(directions.per_record[:, places], directions.members[:, places], directions.levers)
