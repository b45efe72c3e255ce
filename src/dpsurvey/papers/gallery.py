"""A folder of results as pages: an index to open, and one page per paper for the documentation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .verdict import shown

Record = dict[str, Any]


def records_in(folder: str | os.PathLike[str]) -> list[Record]:
    """The finished items of a folder, in the order of the papers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records_in(folder)
    []
    """
    from . import items

    found = []
    for item in items():
        file = Path(folder) / item.id / "verdict.json"
        if file.exists():
            found.append(json.loads(file.read_text(encoding="utf-8")))
    return found


def write_index(folder: str | os.PathLike[str]) -> Path:
    """index.html of a folder of results: every picture, what was printed and what was found. Opens without a network."""
    import jinja2

    from . import PAPERS

    environment = jinja2.Environment(loader=jinja2.PackageLoader("dpsurvey.papers", "."), autoescape=True)
    environment.filters["shown"] = shown
    records = records_in(folder)
    papers = [(paper, [each for each in records if each["paper"] == paper.number]) for paper in PAPERS]
    page = Path(folder) / "index.html"
    page.write_text(
        environment.get_template("index.html.j2").render(papers=[each for each in papers if each[1]]), encoding="utf-8"
    )
    return page
