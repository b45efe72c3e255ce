"""A table of counts: all cells of several public columns, and every margin of it, from one charge."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..design.frame import Frame
from ..errors import BadValue
from .arguments import check_by
from .base import Estimates, Group, Statistic
from .cluster_variance import AUTO, check_variance
from .condition import read_where
from .counted import share_of_whole
from .encodings import Pair, Units
from .estimators.interval import Array
from .estimators.norm_interval import norm_numbers
from .facts import Facts
from .linear_numbers import LinearNumbers, shares_of_whole
from .missing import check_drop
from .noisy_sums import NoisySums
from .notes import Note
from .query import Query
from .registry import register

ALL = "all"


@dataclass(frozen=True)
class Table(Statistic):
    """Counts of all combinations of categories, with margins. See `table`."""

    kind: ClassVar[str] = "table"
    masks: ClassVar[bool] = True
    labelled_by_groups: ClassVar[bool] = True

    def query(self, facts: Facts) -> Query:
        facts.ask_for_size()
        for column in self.by:
            if ALL in facts.frame.labels(column):
                raise BadValue(
                    f"{ALL!r} is a category of {column!r}, and how margins of a table are written",
                    hint="recode the category under another name",
                )
        # Under a condition those outside it are counted too, as no: shares are of all units.
        encoding = Pair() if self.conditional else Units()
        between = self.variance_between(facts)
        return self._query(facts, encoding, 1, weighted=True, between=between)

    @property
    def spread_between(self) -> float:
        return 0.25

    @property
    def compares_with_all(self) -> bool:
        return True

    def typical(self) -> tuple[float, float]:
        return 1.0, 1.0

    @property
    def prediction_rests_on(self) -> str:
        return "the declared sizes of the groups"

    @property
    def label(self) -> str:
        return " by ".join(self.by)

    @property
    def name(self) -> str:
        asked = f" where {' and '.join(each.words for each in self.where)}" if self.where else ""
        return f"table of {self.label}{asked}" + (", of those who answered" if self.drops else "")

    @property
    def answers(self) -> tuple[str, ...]:
        return self.by

    def published(self, query: Query) -> list[Group]:
        return [
            {column: label if kept else ALL for column, label, kept in zip(query.by, group, margin, strict=True)}
            for margin in self.margins()
            for group in self._groups(query, margin)
        ]

    def margins(self) -> list[tuple[bool, ...]]:
        """Which columns are kept: the cells first, then every margin but the whole, which is the frame size."""
        kept = itertools.product((True, False), repeat=len(self.by))
        return [margin for margin in sorted(kept, key=lambda margin: -sum(margin)) if any(margin)]

    def _groups(self, query: Query, margin: tuple[bool, ...]) -> list[tuple[str, ...]]:
        labels = [own if kept else own[:1] for own, kept in zip(query.categories, margin, strict=True)]
        return list(itertools.product(*labels))

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        size, weight = facts.frame.size, facts.largest_weight
        return shares_of_whole(query, 0.0, 1.0, size, weight, merged=self._merged(query))

    def _merged(self, query: Query) -> Array:
        """Which groups each number adds up: (numbers, groups)."""
        rows = []
        for margin in self.margins():
            kept = [place for place, each in enumerate(margin) if each]
            wanted = itertools.product(*(query.categories[place] for place in kept))
            rows += [[tuple(group[place] for place in kept) == each for group in query.groups] for each in wanted]
        return np.array(rows, dtype=np.float64)

    def estimate(self, noisy: NoisySums) -> Estimates:
        query, sums = noisy.query, noisy.sums
        if query.clusters is not None:
            numbers = norm_numbers(noisy, self.linear_numbers(query, noisy.facts))
            return self._with_declared(numbers, query, noisy.facts)
        shape = tuple(len(own) for own in query.categories)
        random_groups = query.random_groups.cells if query.random_groups else 1
        parts = sums.shape[-1]
        cells = sums.reshape(*sums.shape[:-2], *shape, random_groups, parts)
        found = []
        for margin in self.margins():
            summed = tuple(axis - len(shape) - 2 for axis, kept in enumerate(margin) if not kept)
            own = cells.sum(axis=summed, keepdims=True) if summed else cells
            merged = int(np.prod([size for size, kept in zip(shape, margin, strict=True) if not kept]))
            groups = int(np.prod([size for size, kept in zip(shape, margin, strict=True) if kept]))
            rows = own.reshape(*sums.shape[:-2], groups * random_groups, parts)
            found.append(share_of_whole(noisy.with_sums(rows), merged=merged))
        estimate, sampling, noise, low, high = (
            np.concatenate([getattr(each, name) for each in found], axis=-1)
            for name in ("estimate", "se_sampling", "se_noise", "low", "high")
        )
        notes = tuple(itertools.chain.from_iterable(each.notes for each in found))
        whole = np.concatenate([each.whole_range for each in found if each.whole_range is not None], axis=-1)
        numbers = Estimates(estimate, sampling, noise, low, high, notes, found[0].method, whole_range=whole)
        return self._with_declared(numbers, query, noisy.facts)

    def _with_declared(self, numbers: Estimates, query: Query, facts: Facts) -> Estimates:
        """The numbers with declared sizes in place of what sums say of them: nobody needs an estimate of what is public."""
        margins = declared_margins(self, facts.frame)
        known = np.full(numbers.estimate.shape[-1], np.nan)
        start = 0
        for kept in self.margins():
            count = len(self._groups(query, kept))
            if sum(kept) == 1 and kept.index(True) in margins:
                known[start : start + count] = margins[kept.index(True)]
            start += count
        declared = np.isfinite(known)
        if not declared.any():
            return numbers
        estimate, low, high = (np.where(declared, known, each) for each in (numbers.estimate, numbers.low, numbers.high))
        sampling, noise = (np.where(declared, 0.0, each) for each in (numbers.se_sampling, numbers.se_noise))
        notes = (
            tuple((Note.DECLARED,) if fixed else own for fixed, own in zip(declared, numbers.notes, strict=True))
            if numbers.notes
            else ()
        )
        whole = None if numbers.whole_range is None else numbers.whole_range & ~declared
        return Estimates(estimate, sampling, noise, low, high, notes, numbers.method, whole_range=whole)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind} | self._where_dict()


def declared_margins(statistic: Table, frame: Frame) -> dict[int, Array]:
    """The declared sizes of the categories of each column of a table, by its place; of a table of some records none."""
    if statistic.conditional:
        return {}
    sizes = {place: frame.category_sizes.get(column) for place, column in enumerate(statistic.by)}
    return {
        place: np.array([float(own[label]) for label in frame.labels(statistic.by[place])])
        for place, own in sizes.items()
        if own is not None
    }


def _read(fields: dict[str, Any]) -> Table:
    by = fields["by"]
    rest = {name: fields[name] for name in ("where", "missing", "variance") if name in fields}
    return table(*([by] if isinstance(by, str) else by), **rest)


@register('{ kind = "table", by = ["region", "sex"] }', read=_read)
def table(*by: str, where: Mapping[str, Any] | None = None, missing: str | None = None, variance: str = AUTO) -> Table:
    """The number of units in every combination of categories of public columns, and in every margin.

    Cells and margins come from the same noisy sums, so they add up; all of it is one charge. A margin whose sizes are declared is
    not estimated. With `missing="drop"` they hold those who answered all of its columns, and nobody stands for the others;
    without it missing answers are refused.

    >>> table("region", "sex", "status").name
    'table of region by sex by status'
    """
    columns = check_by(by)
    if not columns:
        raise BadValue("a table needs at least one column", hint='table("region", "sex")')
    return Table(
        of=None, by=columns, where=read_where(where), missing=check_drop(missing, "a table"), variance=check_variance(variance)
    )
