"""One table, figure or theorem of a paper: what computes it, what draws it, and the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
Rows = list[Row]
Progress = Callable[[str, int, int], None]


def _silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Run:
    """How much work an item may do, and where its chance comes from. Nothing that is computed here is released.

    >>> Run(quick=True, seed=7).draws(1000, 50), Run(quick=False, seed=7).draws(1000, 50)
    (50, 1000)
    """

    quick: bool
    seed: int
    progress: Progress = field(default=_silent, compare=False)

    def draws(self, full: int, quick: int) -> int:
        """The number of simulations: the paper's in a full run, fewer in a quick one."""
        return quick if self.quick else full

    def rng(self, *stream: int) -> np.random.Generator:
        """A generator of its own for each stream, the same in every run.

        >>> one = Run(quick=True, seed=7)
        >>> bool(one.rng(1).random() == one.rng(1).random()), bool(one.rng(1).random() == one.rng(2).random())
        (True, False)
        """
        return np.random.default_rng([self.seed, *stream])


class Value(NamedTuple):
    """A figure with its Monte-Carlo standard error (0 for one that was computed and not simulated)."""

    value: float | str
    error: float = 0.0


@dataclass(frozen=True)
class Result:
    """The result of an item: the table that the picture is drawn from, and the figures that the paper prints too.

    A figure is a number, a `Value` with its simulation error, or a word. Its name is its name in printed.toml.
    """

    rows: Rows
    values: dict[str, float | str | Value]
    note: str = ""


@dataclass(frozen=True)
class Item:
    """One table, figure or theorem, by the name that the paper gives it.

    >>> import dpsurvey_papers as papers
    >>> item = papers.item("000-figure-3")
    >>> item.paper, item.where
    ('000', 'Figure 3')
    """

    id: str
    where: str
    title: str
    compute: Callable[[Run], Result]
    draw: Callable[[Rows], Any]
    seed: int = 0

    @property
    def paper(self) -> str:
        """The number of the paper."""
        return self.id.split("-")[0]


class Paper(NamedTuple):
    """A paper, and everything of it that is computed here."""

    number: str
    authors: str
    title: str
    items: Sequence[Item]
