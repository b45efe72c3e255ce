"""The five papers, reproduced and corrected: every theorem, table and figure beside what was printed.

An item computes a table by the package's public names alone and draws it; the verdict compares what it found with what the
paper prints, which stands in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BadValue, did_you_mean
from . import accuracy_gains, controlling_loss, limits, sampling_privacy, whose_data
from .data import bounds_of, population
from .item import Found, Item, Paper, Run, Value
from .running import run, verdict_of
from .verdict import Judged, Verdict

PAPERS: tuple[Paper, ...] = (accuracy_gains.PAPER, limits.PAPER, whose_data.PAPER, sampling_privacy.PAPER, controlling_loss.PAPER)


def items() -> list[Item]:
    """Everything that can be run, paper by paper.

    >>> sorted({each.paper for each in items()})[0]
    '000'
    """
    return [each for paper in PAPERS for each in paper.items]


def item(name: str) -> Item:
    """One item by its id.

    >>> item("000-figure-3").title
    'What a sample may spend'
    """
    return select([name])[0]


def select(names: Iterable[str]) -> list[Item]:
    """Items by id, or by the number of a paper for all of its items, in the order of the papers.

    >>> [each.id for each in select(["000-figure-3"])], {each.paper for each in select(["000"])}
    (['000-figure-3'], {'000'})
    """
    known, wanted = {each.id: each for each in items()}, set()
    numbers = {paper.number for paper in PAPERS}
    for name in names:
        if name not in known and name not in numbers:
            raise BadValue(f"no item is called {name!r}", hint=did_you_mean(name, [*known, *sorted(numbers)]))
        wanted |= {each for each in known if name in (each, known[each].paper)}
    return [each for key, each in known.items() if key in wanted]


__all__ = [
    "PAPERS",
    "Found",
    "Item",
    "Judged",
    "Paper",
    "Run",
    "Value",
    "Verdict",
    "bounds_of",
    "item",
    "items",
    "population",
    "run",
    "select",
    "verdict_of",
]
