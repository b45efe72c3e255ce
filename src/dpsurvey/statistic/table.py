"""A table of counts: all cells of several public columns, and every margin of it, from one charge."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import BadValue
from ..mechanism.base import Answering
from .arguments import check_by
from .base import Group, Numbers, Statistic
from .condition import read_where
from .counted import share_of_whole
from .facts import Facts
from .interval import Array
from .missing import check_drop
from .query import Query

ALL = "all"


@dataclass(frozen=True)
class Table(Statistic):
    """Counts of all combinations of categories, with margins. See `table`."""

    kind: ClassVar[str] = "table"
    masks: ClassVar[bool] = True

    def query(self, facts: Facts) -> Query:
        facts.ask_for_size()
        # Under a condition those outside it are counted too, as no: shares are of all units.
        return self._query(facts, "pair" if self.conditional else "units", 1, weighted=True, slots=facts.slots(0.25))

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
            for margin in self._margins()
            for group in self._groups(query, margin)
        ]

    def _margins(self) -> list[tuple[bool, ...]]:
        """Which columns are kept: the cells first, then every margin but the whole, which is the frame size."""
        kept = itertools.product((True, False), repeat=len(self.by))
        return [margin for margin in sorted(kept, key=lambda margin: -sum(margin)) if any(margin)]

    def _groups(self, query: Query, margin: tuple[bool, ...]) -> list[tuple[str, ...]]:
        labels = [own if kept else own[:1] for own, kept in zip(query.categories, margin, strict=True)]
        return list(itertools.product(*labels))

    def estimate(self, noisy: Array, query: Query, mechanism: Answering, facts: Facts) -> Numbers:
        shape = tuple(len(own) for own in query.categories)
        slots = query.slots.cells if query.slots else 1
        parts = noisy.shape[-1]
        cells = noisy.reshape(*noisy.shape[:-2], *shape, slots, parts)
        found = []
        for margin in self._margins():
            summed = tuple(axis - len(shape) - 2 for axis, kept in enumerate(margin) if not kept)
            own = cells.sum(axis=summed, keepdims=True) if summed else cells
            merged = int(np.prod([size for size, kept in zip(shape, margin, strict=True) if not kept]))
            groups = int(np.prod([size for size, kept in zip(shape, margin, strict=True) if kept]))
            rows = own.reshape(*noisy.shape[:-2], groups * slots, parts)
            found.append(share_of_whole(rows, query, mechanism, facts, merged=merged))
        estimate, sampling, noise, low, high = (
            np.concatenate([getattr(each, name) for each in found], axis=-1)
            for name in ("estimate", "se_sampling", "se_noise", "low", "high")
        )
        notes = tuple(itertools.chain.from_iterable(each.notes for each in found))
        return Numbers(estimate, sampling, noise, low, high, notes, found[0].method)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind} | self._where_dict()

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        made = table(*fields["by"], where=fields.get("where"), missing=fields.get("missing"))
        assert isinstance(made, cls)
        return made


def table(*by: str, where: Mapping[str, Any] | None = None, missing: str | None = None) -> Table:
    """The number of units in every combination of categories of public columns, and in every margin.

    Cells and margins come from the same noisy sums, so they add up; all of it is one charge. With `missing="drop"` they hold
    those who answered all of its columns, and nobody stands for the others; without it missing answers are refused.

    >>> table("region", "sex", "status").name
    'table of region by sex by status'
    """
    columns = check_by(by)
    if not columns:
        raise BadValue("a table needs at least one column", hint='table("region", "sex")')
    return Table(of=None, by=columns, where=read_where(where), missing=check_drop(missing, "a table"))
