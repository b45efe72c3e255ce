"""Run items: for each a table, a picture and a verdict in a folder of its own; finished ones are not run again.

The verdict is written last, so an interrupted item leaves none and is run again. It carries a fingerprint of the
source, the seed and the effort: results of other code are never passed off as those of this one.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from dpsurvey.errors import BadValue
from dpsurvey.text.writing import carries, make_folder, write_file

from .item import Item, Progress, Result, Rows, Run, _silent
from .verdict import Verdict, judge, printed_of

Record = dict[str, Any]
PICTURES = ("picture.svg", "picture.png")
# What an index.html of ours says of itself; another one is not overwritten.
MARK = '<meta name="generator" content="dpsurvey papers">'


def run_items(
    items: Iterable[Item],
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    again: bool = False,
    progress: Progress = _silent,
    tell: Callable[[Record], None] = lambda record: None,
) -> list[Record]:
    """Run items one after the other, write index.html, and give the record of each; `tell` hears of each as it is done.

    An item that is finished is kept unless `again` says otherwise; a full result serves a quick run too.
    """
    asked, records = list(items), []
    folder = _folder(out, asked)
    try:
        for number, item in enumerate(asked):
            progress("papers", number, len(asked))
            earlier = None if again else finished(folder / item.id, item, (False, quick))
            records.append(
                {**earlier, "resumed": True} if earlier else {**_run_one(item, folder, quick, progress), "resumed": False}
            )
            tell(records[-1])
        progress("papers", len(asked), len(asked))
    finally:
        from .gallery import write_index

        write_index(folder)
    return records


def _folder(out: str | os.PathLike[str], asked: Sequence[Item]) -> Path:
    """The folder for results, made and found writable before anything is computed."""
    folder = Path(out)
    if not os.fspath(out):
        raise BadValue("a folder for the results is needed", given="an empty name")
    if folder.exists() and not folder.is_dir():
        raise BadValue(f"{os.fspath(folder)!r} is a file", hint="name a folder for the results")
    index = folder / "index.html"
    others = [index] if os.path.lexists(index) else [folder / each.id for each in asked if os.path.lexists(folder / each.id)]
    if others and not carries(MARK)(index):
        raise BadValue(f"{os.fspath(others[0])!r} is not ours", because="it would be overwritten", hint="name another folder")
    make_folder(folder)
    if not others:
        # From here on the folder is ours, however this run ends.
        from .gallery import write_index

        write_index(folder)
    return folder


def verdict_of(item: Item, found: Result) -> Verdict:
    """The verdict on a result, by the printed.toml of the item's paper.

    >>> import dpsurvey_papers as papers
    >>> item = papers.item("000-figure-3")
    >>> verdict_of(item, item.compute(Run(quick=True, seed=item.seed))).word
    'reproduced'
    """
    return judge(item, found, printed_of(item))


def _run_one(item: Item, out: Path, quick: bool, progress: Progress) -> Record:
    began, folder = time.perf_counter(), out / item.id
    found = item.compute(Run(quick, item.seed, progress))
    verdict = verdict_of(item, found)
    folder.mkdir(parents=True, exist_ok=True)
    # The folder is ours, by the index above it; the verdict goes first, so that what is half replaced has none.
    for name in ("verdict.json", "table.csv", *PICTURES):
        (folder / name).unlink(missing_ok=True)
    write_table(found.rows, folder / "table.csv")
    _write_pictures(item.draw(found.rows), folder)
    record = {
        **verdict.to_dict(),
        "paper": item.paper,
        "where": item.where,
        "title": item.title,
        "note": found.note,
        "seed": item.seed,
        "quick": quick,
        "seconds": round(time.perf_counter() - began, 2),
        "fingerprint": fingerprint(item, quick),
    }
    write_file(folder / "verdict.json", json.dumps(record, indent=1, ensure_ascii=False))
    return record


def _write_pictures(picture: Any, folder: Path) -> None:
    """The drawing, and the same as dots: drawn once, because drawing is most of a quick run."""
    import vl_convert

    from dpsurvey.view.plots import to_svg

    drawing = to_svg(picture)
    write_file(folder / PICTURES[0], drawing)
    write_file(folder / PICTURES[1], vl_convert.svg_to_png(drawing, scale=2))


def write_table(rows: Rows, file: Path) -> None:
    """Rows as CSV; a row may lack columns that others have.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table([{"a": 1}, {"a": 2, "b": 0.5}], Path(folder) / "t.csv")
    ...     (Path(folder) / "t.csv").read_text().splitlines()
    ['a,b', '1,', '2,0.5']
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(file, stream.getvalue())


def finished(folder: Path, item: Item, efforts: Iterable[bool] = (False, True)) -> Record | None:
    """The record of an item that is whole and of this code, at one of these efforts (quick or not); None if there is none."""
    try:
        record = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(record, dict) and all((folder / name).exists() for name in ("table.csv", *PICTURES))
    known = {fingerprint(item, quick) for quick in efforts}
    return record if whole and record.get("fingerprint") in known else None


def fingerprint(item: Item, quick: bool) -> str:
    """What a result depends on: the source of both packages, the item, its seed and the effort."""
    return hashlib.sha256(f"{_source()} {item.id} {item.seed} {quick}".encode()).hexdigest()[:16]


@cache
def _source() -> str:
    whole = hashlib.sha256()
    for package in ("dpsurvey", "dpsurvey_papers"):
        for file in sorted(Path(str(resources.files(package))).rglob("*")):
            if file.suffix in (".py", ".toml", ".gz"):
                whole.update(file.read_bytes())
    return whole.hexdigest()
