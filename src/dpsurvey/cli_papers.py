"""The commands of `dpsurvey papers`: every theorem, table and figure of the five papers, beside what was printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from .cli_talk import Json, emit, progress_bars, say
from .errors import BadValue
from .layout import text_table

app = typer.Typer(
    name="papers",
    help="The five papers, reproduced and corrected: every theorem, table and figure beside what was printed.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("list")
def list_items(
    names: Annotated[list[str] | None, typer.Argument(help="Papers or items; all without any.", metavar="[ID]...")] = None,
    as_json: Json = False,
) -> None:
    """What can be run: the id, where it stands in the paper, what it is, and its seed.

    Example: `dpsurvey papers list`

    Example: `dpsurvey papers list 004 --json`
    """
    from .papers import PAPERS, items, select

    chosen = select(names) if names else items()
    rows = [{"id": each.id, "where": each.where, "what": each.title, "seed": each.seed} for each in chosen]
    heads = [f"{paper.number}  {paper.authors}: {paper.title}" for paper in PAPERS]
    emit(rows, "\n".join([*heads, "", text_table(rows, ["id", "where", "what", "seed"])]), as_json)


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

    An interrupted run goes on where it was: finished items are kept. Exit 1 if something is neither as printed nor as
    its erratum says.

    Example: `dpsurvey papers run 000-figure-3 004-theorem-5-2 --out papers-out`

    Example: `dpsurvey papers run --all --quick`
    """
    from .papers import items, run, select
    from .papers.gallery import write_index

    if bool(names) == everything:
        raise BadValue("name items or papers, or say --all", hint="dpsurvey papers list shows what there is")
    chosen = items() if everything else select(names or [])
    records: list[dict[str, Any]] = []
    try:
        with progress_bars() as bars:
            for record in run(chosen, out, quick=quick, again=again, progress=bars):
                records.append(record)
                say(f"{record['id']} (seed {record['seed']}{', kept' if record['resumed'] else ''}): {record['line']}")
    except KeyboardInterrupt:
        say(f"{len(records)} of {len(chosen)} are done and kept; the same command goes on from there")
        raise typer.Exit(130) from None
    page = write_index(out)
    counts = {word: sum(record["word"] == word for record in records) for word in dict.fromkeys(each["word"] for each in records)}
    rows = [
        {"id": each["id"], "where": each["where"], "verdict": each["word"], "seconds": f"{each['seconds']:g}"} for each in records
    ]
    text = text_table(rows, ["id", "where", "verdict", "seconds"])
    text += "\n\n" + "; ".join(f"{count} {word}" for word, count in counts.items())
    emit({"out": os.fspath(out), "records": records, "verdicts": counts}, text, as_json)
    say(f"open {os.fspath(page)}")
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
    from .papers import items
    from .papers.gallery import records_in, write_pages

    finished = {record["id"] for record in records_in(folder)}
    if missing := [each.id for each in items() if each.id not in finished]:
        raise BadValue(
            f"{len(missing)} items are not in {os.fspath(folder)!r}",
            given=", ".join(missing[:3]),
            hint="dpsurvey papers run --all first",
        )
    written = [os.fspath(page) for page in write_pages(folder, docs)]
    emit({"written": written}, "\n".join(written), as_json)
