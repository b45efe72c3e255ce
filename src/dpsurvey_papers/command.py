"""The five papers, reproduced and corrected: every theorem, table and figure beside what was printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dpsurvey.cli.options import Json, new_app
from dpsurvey.cli.output import emit, progress_bars, say
from dpsurvey.errors import BadValue
from dpsurvey.text.layout import text_table

from . import PAPERS, items, run, select
from .gallery import records_in, write_pages

app = new_app(help=__doc__, no_args_is_help=True)


@app.command("list")
def list_items(
    names: Annotated[list[str] | None, typer.Argument(help="Papers or items; all without any.", metavar="[ID]...")] = None,
    as_json: Json = False,
) -> None:
    """What can be run: the id, where it stands in the paper, what it is, and its seed.

    Example: `dpsurvey papers list`

    Example: `dpsurvey papers list 004 --json`
    """
    chosen = select(names) if names else items()
    rows = [{"id": each.id, "where": each.where, "what": each.title, "seed": each.seed} for each in chosen]
    numbers = {each.paper for each in chosen}
    heads = [f"{paper.number}  {paper.authors}: {paper.title}" for paper in PAPERS if paper.number in numbers]
    shown = [{**row, "seed": str(row["seed"] or "")} for row in rows]
    emit(rows, "\n".join([*heads, "", text_table(shown, ["id", "where", "what", "seed"])]), as_json)


@app.command("run")
def run_items(
    names: Annotated[list[str] | None, typer.Argument(help="Items, or papers by their number.", metavar="[ID]...")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every item of every paper.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer simulations: all of it in less than a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and verdicts.")] = Path("papers-out"),
    again: Annotated[bool, typer.Option("--again", help="Run what is finished in the folder too.")] = False,
    as_json: Json = False,
) -> None:
    """Compute items: a table (CSV), a picture (SVG and PNG) and a verdict each, and index.html with all of them.

    An interrupted run goes on where it was: finished items are kept, and full results serve a quick run too.
    Exit 1 if something is neither as printed nor as its erratum says.

    Example: `dpsurvey papers run 000-figure-3 004-theorem-5-2 --out papers-out`

    Example: `dpsurvey papers run --all --quick`
    """
    if names and everything:
        raise BadValue("--all runs every item, so no other is named beside it", given=" ".join(names))
    if not names and not everything:
        raise BadValue("name items or papers, or say --all", hint="dpsurvey papers list shows what there is")
    chosen = items() if everything else select(names or [])
    done: list[str] = []

    def tell(record: dict[str, Any]) -> None:
        marks = [f"seed {record['seed']}"] * bool(record["seed"]) + ["quick"] * record["quick"] + ["kept"] * record["resumed"]
        done.append(record["id"])
        say(record["id"] + (f" ({', '.join(marks)})" if marks else "") + f": {record['line']}")

    try:
        with progress_bars("interrupted") as bars:
            records = run(chosen, out, quick=quick, again=again, progress=bars, tell=tell)
    except KeyboardInterrupt:
        say(f"{len(done)} of {len(chosen)} are done and kept; the same command goes on from there")
        raise typer.Exit(130) from None
    counts = {word: sum(record["word"] == word for record in records) for word in dict.fromkeys(each["word"] for each in records)}
    rows = [
        {"id": each["id"], "where": each["where"], "verdict": each["word"], "seconds": f"{each['seconds']:g}"} for each in records
    ]
    text = text_table(rows, ["id", "where", "verdict", "seconds"])
    text += "\n\n" + "; ".join(f"{count} {word}" for word, count in counts.items())
    emit({"out": os.fspath(out), "records": records, "verdicts": counts}, text, as_json)
    say(f"open {os.fspath(out / 'index.html')}")
    if any(record["word"] == "differs" for record in records):
        raise typer.Exit(1)


@app.command("pages")
def write_gallery(
    folder: Annotated[Path, typer.Argument(help="A folder that `papers run --all` filled.", show_default=False)],
    docs: Annotated[Path, typer.Option(help="Where the pages go.")] = Path("docs/papers"),
    as_json: Json = False,
) -> None:
    """Write the gallery of the documentation from a folder of results: one page per paper, thumbnails, records.json.

    Example: `dpsurvey papers pages papers-out --docs docs/papers`
    """
    finished = {record["id"] for record in records_in(folder) if not record["quick"]}
    if missing := [each.id for each in items() if each.id not in finished]:
        raise BadValue(
            f"{len(missing)} items of {os.fspath(folder)!r} have no full result of this version",
            given=", ".join(missing[:3]),
            hint=f"dpsurvey papers run --all --out {os.fspath(folder)}",
        )
    written = [os.fspath(page) for page in write_pages(folder, docs)]
    emit({"written": written}, "\n".join(written), as_json)
