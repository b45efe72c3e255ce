"""`dpsurvey ledger`: what is spent and left, what a release would cost, and whether the books are whole."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import BadValue, LedgerBroken, NotFound, did_you_mean
from ..ledger import Ledger, verify_ledger
from ..survey.survey_file import SurveyFile
from ..view.ledger_text import entry_text, quote_text, survey_lines, tree_text
from .talk import Json, emit, say


class _TreeFirst(TyperGroup):
    """`dpsurvey ledger FILE` shows the tree; `dpsurvey ledger VERB ...` does something else."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = next((each for each in args if not each.startswith("-")), None)
        if first is not None and first not in self.commands:
            if "." not in first and not os.path.exists(first) and difflib.get_close_matches(first, self.commands):
                raise BadValue(f"dpsurvey ledger has no verb {first!r}", hint=did_you_mean(first, self.commands))
            args = ["tree", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="ledger",
    cls=_TreeFirst,
    help="What is spent and left, what a release would cost, and whether the books are whole.\n\n"
    "Example: `dpsurvey ledger survey.toml` shows the tree; `dpsurvey ledger what-if survey.toml` the cost of a release.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Where = Annotated[
    str, typer.Argument(help="A survey.toml, a ledger file, or postgresql://user@host/base#schema.", show_default=False)
]


def place_of(where: str) -> tuple[str, str | None]:
    """The address of the ledger, and of its anchor where a survey file names one."""
    if where.endswith(".toml"):
        file = SurveyFile.read(where)
        return file.ledger, file.anchor
    return where, None


def opened(where: str, *, must_exist: bool = True) -> Ledger:
    """The ledger of a survey file, or at an address."""
    place, anchor = place_of(where)
    return Ledger(place, must_exist=must_exist, anchor=anchor)


@app.command()
def tree(
    where: Where,
    charges: Annotated[bool, typer.Option("--charges/--no-charges", help="List every charge.")] = True,
    as_json: Json = False,
) -> None:
    """What is spent and left: agency, surveys, samples, charges.

    Example: `dpsurvey ledger survey.toml`
    """
    with opened(where) as ledger:
        view = ledger.tree()
    emit(view, tree_text(view, charges=charges), as_json)


@app.command()
def show(
    where: Where,
    survey: Annotated[str | None, typer.Option(help="One survey alone.")] = None,
    last: Annotated[int, typer.Option(help="How many entries, from the end; 0 for all.", min=0)] = 20,
    as_json: Json = False,
) -> None:
    """The entries of the chain, or one survey with everything charged to it.

    Example: `dpsurvey ledger show survey.toml --last 50`

    Example: `dpsurvey ledger show books.ledger --survey "lfs 2026q1"`
    """
    with opened(where) as ledger:
        if survey is not None:
            found = [each for each in ledger.tree()["surveys"] if each["survey"] == survey]
            if not found:
                raise NotFound(f"the ledger has no survey {survey!r}", hint=did_you_mean(survey, ledger.surveys()))
            emit(found[0], "\n".join(survey_lines(found[0])), as_json)
            return
        entries = ledger.entries()[-last:] if last else ledger.entries()
    emit(entries, "\n".join(entry_text(entry) for entry in entries), as_json)


@app.command()
def verify(
    where: Where,
    against: Annotated[
        list[str] | None, typer.Option(help="A release.json, an anchor, an export or a copy; may be repeated.")
    ] = None,
    public_key: Annotated[Path | None, typer.Option(help="The public key of whoever signs.")] = None,
    as_json: Json = False,
) -> None:
    """Check the chain entry by entry, and against what others have seen of it. Exit code 1 if anything is wrong.

    Example: `dpsurvey ledger verify books.ledger --against release/release.json --against /mnt/vault/books.anchor`

    Example: `dpsurvey ledger verify books.export --public-key office.key.pub`
    """
    place, anchor = place_of(where)
    found = verify_ledger(place, [*(against or []), *([anchor] if anchor else [])], public_key)
    emit(found.to_dict(), str(found), as_json)
    if not found.ok:
        wrong = [str(each) for each in found.damages] + [
            each["what"] for each in (*found.against, *found.signatures) if not each["ok"]
        ]
        raise LedgerBroken("the ledger does not verify", given=wrong[0], hint="keep it as it is; go on from a copy that verifies")


@app.command()
def export(
    where: Where, output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")], as_json: Json = False
) -> None:
    """Write the whole chain to a text file that can be verified anywhere. It holds no keys and no paths of samples.

    Example: `dpsurvey ledger export survey.toml -o books.export`
    """
    with opened(where) as ledger:
        stamp = ledger.export(output)
    emit({"written": os.fspath(output), **stamp}, f"{stamp['count']} entries in {os.fspath(output)}", as_json)
    say(f"verify it anywhere: dpsurvey ledger verify {os.fspath(output)}")


@app.command("what-if")
def what_if(
    file: Annotated[Path, typer.Argument(help="The survey.toml.", show_default=False)],
    share: Annotated[float | None, typer.Option(help="Another share than that of the file.")] = None,
    as_json: Json = False,
) -> None:
    """What this release would cost now, at every level above it, and what would be left. Spends nothing, reads no rows.

    Exit code 0 whether it fits or not; `fits` in the JSON says which.

    Example: `dpsurvey ledger what-if survey.toml --share 0.25`
    """
    if file.suffix != ".toml":
        raise BadValue("what-if takes a survey.toml", given=os.fspath(file), hint="dpsurvey ledger what-if survey.toml")
    survey_file = SurveyFile.read(file)
    survey = survey_file.survey()
    plan = survey_file.plan(survey, share=share)
    place = Path(survey_file.ledger)
    if "://" not in survey_file.ledger and not place.exists():
        say("there is no ledger yet: this would be the first release")
        import tempfile

        with tempfile.TemporaryDirectory() as folder, Ledger(os.path.join(folder, "none")) as empty:
            quote = empty.quote(plan.request).to_dict()
    else:
        quote = survey.what_if(plan).to_dict()
    emit(quote, quote_text(quote), as_json)


@app.command()
def plot(
    where: Where,
    output: Annotated[Path, typer.Option("--output", "-o", help="An .svg or .png file.")] = Path("budget.svg"),
    as_json: Json = False,
) -> None:
    """Every budget as a bar: spent, left, and the loss of someone known to be in the sample.

    Example: `dpsurvey ledger plot survey.toml -o budget.png`
    """
    # Altair takes long to import, so only those who plot pay for it.
    from ..view.design_plots import save_plot
    from ..view.ledger_plots import budget_plot, budget_rows

    with opened(where) as ledger:
        rows = budget_rows(ledger.tree())
    if not rows:
        raise NotFound("there is no budget on record yet")
    save_plot(budget_plot(rows), output)
    emit({"written": os.fspath(output), "budgets": rows}, os.fspath(output), as_json)
