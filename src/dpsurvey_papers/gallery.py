"""A folder of results as pages: an index to open, and one page per paper for the documentation."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpsurvey.errors import BadValue
from dpsurvey.text.writing import carries, write_file

from .item import Paper
from .running import MARK, PICTURES, Record, finished
from .verdict import CHECKED, DIFFERS, ORDER, printed_of, shown

# Larger drawings go into the documentation as PNG: a page of them should open at once.
LARGEST_DRAWING = 250_000
ACROSS = 3
INTRODUCTION = """# The papers, reproduced and corrected

For readers of the five papers. Every theorem, table and figure of them is a command here: `dpsurvey papers list` shows
them, `dpsurvey papers run 004-theorem-5-2` computes one, `dpsurvey papers run --all` all of them. What is printed stands in
a file of its own and never in the code that computes. A figure is compared to the digits that are printed; a simulated one
to an interval of 4.9 Monte-Carlo standard errors (missed by chance once in a million, if errors are normal). “Printed value
is wrong”, and “imprecise as printed” for what is true under a condition that is not stated, are said only where what was
computed agrees with the corrected value; anything else that differs makes the command fail. “Checked” figures are ours and
not the paper's.
Counterexamples that run: [errata](errata.md)."""


def records_in(folder: str | os.PathLike[str]) -> list[Record]:
    """The finished items of a folder, in the order of the papers; what is broken or of other code is left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records_in(folder)
    []
    """
    from . import items

    found = [finished(Path(folder) / item.id, item) for item in items()]
    return [record for record in found if record is not None]


def write_index(folder: str | os.PathLike[str]) -> Path:
    """index.html of a folder of results: every picture, what was printed and what was computed. Opens without a network."""
    import jinja2

    from . import PAPERS

    environment = jinja2.Environment(loader=jinja2.PackageLoader("dpsurvey_papers", "."), autoescape=True)
    environment.filters["shown"], environment.filters["sentence"] = shown, sentence
    records = records_in(folder)
    papers = [(paper, [each for each in records if each["paper"] == paper.number]) for paper in PAPERS]
    page = environment.get_template("index.html.j2").render(mark=MARK, papers=[each for each in papers if each[1]])
    return write_file(Path(folder) / "index.html", page, replaces=carries(MARK))


def write_pages(folder: str | os.PathLike[str], docs: str | os.PathLike[str]) -> list[Path]:
    """The gallery of the documentation from a folder of results: README.md, a page per paper, pictures, records.json."""
    from . import PAPERS

    records, out = records_in(folder), Path(docs)
    if out.exists() and any(out.iterdir()) and not (out / "records.json").exists():
        raise BadValue(
            f"{os.fspath(out)!r} holds other files", because="pages of it would be overwritten", hint="name a new folder"
        )
    # With records of an earlier gallery there, its pages are ours to replace.
    ours = None if not (out / "records.json").exists() else lambda page: True
    for name in ("images", "thumbnails"):
        (out / name).mkdir(parents=True, exist_ok=True)
        for old in (out / name).glob("[0-9][0-9][0-9]-*.*"):
            old.unlink()
    for record in records:
        record["picture"] = _pictures(Path(folder) / record["id"], out, record["id"])
        # How long it took belongs to a machine, not to the documentation.
        record.pop("seconds"), record.pop("fingerprint")
    write_file(out / "records.json", json.dumps(records, indent=1, ensure_ascii=False) + "\n", replaces=ours)
    errata = out / "errata.md"
    texts = page_texts(records, errata.read_text(encoding="utf-8") if errata.exists() else "")
    for name, text in texts.items():
        write_file(out / name, text, replaces=ours)
    missing = [paper.number for paper in PAPERS if f"{paper.number}.md" not in texts]
    assert not missing, missing
    return [out / name for name in texts]


def page_texts(records: list[Record], errata: str = "") -> dict[str, str]:
    """The pages as text, by file name, from records and the page of errata, whose sections they point to."""
    from . import PAPERS

    headings = [line.removeprefix("### ") for line in errata.splitlines() if line.startswith("### ")]
    sections = {heading.split(".")[0]: anchor(heading) for heading in headings}

    texts = {"README.md": _overview(records, PAPERS) + _errata(records, headings)}
    for paper in PAPERS:
        own = [each for each in records if each["paper"] == paper.number]
        texts[f"{paper.number}.md"] = _page(paper, own, sections)
    return texts


def _pictures(folder: Path, out: Path, name: str) -> str:
    import vl_convert

    drawing = (folder / PICTURES[0]).read_text(encoding="utf-8")
    write_file(out / "thumbnails" / f"{name}.png", vl_convert.svg_to_png(drawing, scale=_scale(drawing)))
    small = len(drawing.encode()) <= LARGEST_DRAWING
    file = f"{name}.svg" if small else f"{name}.png"
    write_file(out / "images" / file, (folder / PICTURES[0 if small else 1]).read_bytes())
    return file


def _scale(drawing: str, width: float = 230.0) -> float:
    """What makes a drawing as wide as a thumbnail."""
    own = float(drawing.split('width="', 1)[1].split('"', 1)[0].removesuffix("px"))
    return width / own


def _overview(records: list[Record], papers: tuple[Paper, ...]) -> str:
    words = [word for word in ORDER if word not in (CHECKED, DIFFERS)]
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        "| paper | items | " + " | ".join(words) + " |",
        "|---" * (2 + len(words)) + "|",
    ]
    for paper in papers:
        own = [each for each in records if each["paper"] == paper.number]
        counts = " | ".join(str(sum(each["word"] == word for each in own) or "") for word in words)
        lines.append(f"| [{paper.authors}]({paper.number}.md) | {len(own)} | {counts} |")
    for paper in papers:
        own = [each for each in records if each["paper"] == paper.number]
        lines += ["", f"## {paper.authors}", "", f"*{paper.title}*", "", *_thumbnails(own, f"{paper.number}.md")]
    return "\n".join(lines) + "\n"


def _errata(records: list[Record], headings: list[str]) -> str:
    """Which item shows which erratum."""
    lines = ["", "## Errata and the items that show them", "", "| erratum | shown by |", "|---|---|"]
    for heading in headings:
        own = [each for each in records if heading.split(".")[0] in errata_of(each["id"])]
        links = ", ".join(f"[{each['where']}]({each['paper']}.md#{anchor(_title(each))})" for each in own)
        lines.append(f"| [{heading}](errata.md#{anchor(heading)}) | {links} |")
    return "\n".join(lines) + "\n"


def errata_of(name: str) -> list[str]:
    """The sections of the errata that belong to an item."""
    from . import item

    return list(printed_of(item(name)).get("errata", []))


def _page(paper: Paper, records: list[Record], errata: dict[str, str]) -> str:
    lines = [
        f"# {paper.authors}",
        "",
        f"*{paper.title}*. All of it: `dpsurvey papers run {paper.number}`.",
        "",
        *_thumbnails(records),
    ]
    for each in records:
        lines += ["", f"## {_title(each)}", "", f"![{each['title']}](images/{each['picture']})", "", _bold(each)]
        lines += ["", sentence(each["note"])] if each["note"] else []
        lines += ["", *_table(each["figures"])] if each["figures"] else []
        lines += ["", _foot(each, errata)]
    return "\n".join(lines) + "\n"


def _title(record: Record) -> str:
    return f"{record['where']}: {record['title']}"


def _bold(record: Record) -> str:
    """The verdict, its word in bold."""
    word = record["word"]
    return f"**{word[:1].upper()}{word[1:]}**{record['line'].removeprefix(word)}."


def _foot(record: Record, errata: dict[str, str]) -> str:
    parts = [f"`dpsurvey papers run {record['id']}`"]
    parts += [f"seed {record['seed']}"] if any(each["low"] is not None for each in record["figures"]) or record["seed"] else []
    parts += [f"[errata {mark}](errata.md{'#' + errata[mark] if mark in errata else ''})" for mark in errata_of(record["id"])]
    return " · ".join(parts)


def _thumbnails(records: list[Record], page: str = "") -> list[str]:
    """A grid of small pictures, each a link to its section."""
    cells = [
        f"[![{_title(each)}]({'thumbnails/' + each['id'] + '.png'})<br>{_title(each)}]({page}#{anchor(_title(each))})"
        for each in records
    ]
    cells += [" "] * (-len(cells) % ACROSS)
    rows = ["| " + " | ".join(cells[start : start + ACROSS]) + " |" for start in range(0, len(cells), ACROSS)]
    return ["| " + " | ".join([" "] * ACROSS) + " |", "|---" * ACROSS + "|", *rows]


def sentence(note: str) -> str:
    """A note with a capital and a full stop.

    >>> sentence("valid and loose"), sentence("ε is small.")
    ('Valid and loose.', 'ε is small.')
    """
    first = note[:1].upper() if note[:1].isascii() else note[:1]
    return first + note[1:] + ("" if note.endswith((".", ":")) else ".")


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the documentation's site make it.

    >>> anchor("Theorem 5.2: Clusters, by size")
    'theorem-52-clusters-by-size'
    """
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _table(figures: list[Record]) -> list[str]:
    """What was said, printed and found, with the verdict near; columns without a word in them are left out."""
    rows = [
        {
            "statement": each["says"],
            "printed": each["printed"],
            "computed": shown(each["computed"]),
            "verdict": each["word"],
            "right": "" if each["word"] == CHECKED else each["right"],
            "interval": "" if each["low"] is None else f"{shown(each['low'])} … {shown(each['high'])}",
        }
        for each in figures
    ]
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return lines + ["| " + " | ".join(str(row[name]).replace("|", "\\|") for name in columns) + " |" for row in rows]
