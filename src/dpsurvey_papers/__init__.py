"""The five papers, reproduced and corrected: every theorem, table and figure beside what was printed.

An item computes a table by the package's public names alone and draws it; the verdict compares its result with what the
paper prints, which stands in a file of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from dpsurvey.errors import BadValue, did_you_mean

from . import accuracy_gains, controlling_loss, limits, sampling_privacy, whose_data
from .data import bounds_of, population
from .item import Item, Paper, Progress, Result, Run, Value
from .running import run_items, verdict_of
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
    known = {each.id: each for each in items()}
    if name not in known:
        raise BadValue(f"no item is called {name!r}", hint=_nearest(name, known))
    return known[name]


def select(names: str | Iterable[str]) -> list[Item]:
    """Items by id, or by the number of a paper for all of its items, in the order of the papers.

    >>> [each.id for each in select("000-figure-3")], {each.paper for each in select(["000"])}
    (['000-figure-3'], {'000'})
    """
    known, wanted = {each.id: each for each in items()}, set()
    numbers = {paper.number for paper in PAPERS}
    for name in [names] if isinstance(names, str) else names:
        if name not in known and name not in numbers:
            raise BadValue(f"no item is called {name!r}", hint=_nearest(name, [*known, *sorted(numbers)]))
        wanted |= {each for each in known if name in (each, known[each].paper)}
    return [each for key, each in known.items() if key in wanted]


def run(
    what: str | Item | Iterable[str | Item],
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    again: bool = False,
    progress: Progress = lambda step, done, total: None,
    tell: Callable[[dict[str, Any]], None] = lambda record: None,
) -> list[dict[str, Any]]:
    """Run items, ids or whole papers into a folder, and give a record of each. Finished ones are kept, unless `again`.

    Each item has a folder with table.csv, picture.svg, picture.png and verdict.json; index.html shows all of them. A record
    has `id`, `paper`, `where` and `title`; the verdict as a `word` and a `line`, with a `note`; `figures`, each with what it
    `says`, what is `printed`, what was `computed` (between `low` and `high`, if simulated), what is `right` where print is not,
    and its own `word`; `seed`, `quick`, `seconds`, and whether it was `resumed`. `tell` hears of each as it is done.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run("000-figure-3", folder, quick=True)
    ...     second = run("000-figure-3", folder, quick=True)
    >>> first[0]["word"], first[0]["resumed"], second[0]["resumed"]
    ('reproduced', False, True)
    """
    asked = [what] if isinstance(what, str | Item) else list(what)
    chosen = [found for each in asked for found in ([each] if isinstance(each, Item) else select(each))]
    return run_items(dict.fromkeys(chosen), out, quick=quick, again=again, progress=progress, tell=tell)


def _nearest(name: str, known: Iterable[str]) -> str:
    """Names that end or begin alike, or the nearest one."""
    alike = [each for each in known if name and (each.endswith(f"-{name}") or each.startswith(name))]
    shown = ", ".join(alike[:6]) if alike else did_you_mean(name, [*known]) if len(name) > 2 else ""
    return shown if shown and len(shown) < 200 else "dpsurvey papers list shows all"


__all__ = [
    "PAPERS",
    "Item",
    "Judged",
    "Paper",
    "Result",
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
