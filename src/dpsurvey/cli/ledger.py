"""What is spent and left, what a release would cost, and whether the books are whole.

Example: `dpsurvey ledger survey.toml` shows the tree; `dpsurvey ledger what-if survey.toml` the cost of a release.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..design.key import Key
from ..errors import BadValue, LedgerBroken, NotFound, did_you_mean
from ..ledger import Ledger, new_signing_key, panel, verify_ledger
from ..ledger.roles import give_role, members, set_up_roles
from ..ledger.store import Store
from ..privacy import Budget, Setting
from ..privacy.relation import Relation
from ..survey.survey_file import SurveyFile
from ..text.layout import ceiling_text, given_text
from ..view.ledger_text import entry_text, quote_text, survey_lines, tree_text
from .options import Json, new_app
from .output import emit, say

PLACE_IN_HELP = 120


class _TreeFirst(TyperGroup):
    """`dpsurvey ledger FILE` shows the tree; `dpsurvey ledger VERB ...` does something else."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = next((each for each in args if not each.startswith("-")), None)
        if first is not None and first not in self.commands:
            if "." not in first and not os.path.exists(first) and difflib.get_close_matches(first, self.commands):
                raise BadValue(f"dpsurvey ledger has no verb {first!r}", hint=did_you_mean(first, self.commands))
            args = ["tree", *args]
        return super().parse_args(ctx, args)


app = new_app(cls=_TreeFirst, help=__doc__, no_args_is_help=True)

Where = Annotated[
    str, typer.Argument(help="A survey.toml, a ledger file, or postgresql://user@host/base#schema.", show_default=False)
]
Protect = Annotated[str, typer.Option(help="Who is protected: population, frame, sample, respondents or answers.")]
New = Annotated[bool, typer.Option("--new", help="Make the ledger if there is none yet.")]
Neighbours = Annotated[str, typer.Option(help=f"What a neighbour is: {Relation.choices(allow_both=False)}.")]


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


@app.command()
def budget(
    where: Where,
    epsilon: Annotated[float, typer.Option(help="The most that everything under the setting may cost.")],
    delta: Annotated[float, typer.Option(help="Its delta.")] = 0.0,
    per: Annotated[str, typer.Option(help="ever, or year: what is released in each year.")] = "ever",
    protect: Protect = "frame",
    neighbours: Neighbours = "add-remove",
    given: Annotated[str | None, typer.Option(help="The earlier phase that is held fixed, if any.")] = None,
    population: Annotated[str, typer.Option(help="Whom it is about, as frames declare it; without it, everybody.")] = "",
    without: Annotated[
        list[str] | None, typer.Option(help="A survey that may spend although the budget cannot see what it costs.")
    ] = None,
    although_spent: Annotated[bool, typer.Option("--although-spent", help="Even if more than that is spent already.")] = False,
    new: New = False,
    as_json: Json = False,
) -> None:
    """Set the budget of the agency, over all surveys of a population. It can be lowered later, and never raised.

    Surveys under other settings count where it is proved what they cost under this one; others are refused, unless named.

    Example: `dpsurvey ledger budget books.ledger --epsilon 4 --per year --protect frame --neighbours add-remove`
    """
    setting = Setting(protect, given, neighbours=neighbours)  # type: ignore[arg-type]
    with opened(where, must_exist=not new) as ledger:
        ledger.set_budget(
            setting, Budget(epsilon, delta), per, population=population, without=without or (), although_spent=although_spent
        )
        accounts = [
            each
            for each in ledger.tree()["accounts"]
            if each["setting"] == setting.to_dict() and each["population"] == population
        ]
    period = "in total" if per == "ever" else "in each year"
    spent = max((each["epsilon"] for each in accounts), default=0.0)
    whose = f"{setting.who.lower()}{f' ({population})' if population else ''}, {neighbours}"
    text = f"the agency may spend epsilon {given_text(epsilon)} {period}: {whose}; spent so far: {ceiling_text(spent, 6)}"
    emit(accounts, text, as_json)


@app.command("panel")
def panel_command(
    where: Where,
    name: Annotated[str, typer.Option(help="The name of the panel.")],
    key_file: Annotated[Path, typer.Option(help="The key of its draws.")],
    rate: Annotated[float, typer.Option(help="The rate of each wave.")],
    waves: Annotated[int, typer.Option(help="How many waves.")],
    overlap: Annotated[float, typer.Option(help="The share of units that two waves in a row have in common.")] = 0.0,
    epsilon: Annotated[float | None, typer.Option(help="One pure budget for all waves together.")] = None,
    mu: Annotated[float | None, typer.Option(help="What each wave may be charged, as Gaussian DP; with --delta.")] = None,
    rho: Annotated[float | None, typer.Option(help="What each wave may be charged, as zCDP; with --delta.")] = None,
    delta: Annotated[float, typer.Option(help="The delta of the whole panel.")] = 0.0,
    protect: Protect = "frame",
    new: New = False,
    as_json: Json = False,
) -> None:
    """Put the waves of a rotating panel on record before its first draw, so that a person's loss over all waves is bounded.

    Example: `dpsurvey ledger panel b.ledger --name p --key-file p.key --rate .02 --waves 8 --overlap 0.75 --rho 0.5 --delta 1e-6`
    """
    setting = Setting(protect, neighbours="add-remove")  # type: ignore[arg-type]
    made = panel(
        name, Key.read(key_file), setting, rate=rate, waves=waves, overlap=overlap, epsilon=epsilon, mu=mu, rho=rho, delta=delta
    )
    with opened(where, must_exist=not new) as ledger:
        ledger.open_panel(made)
    starts = [window.start for window in made.windows]
    text = f"panel {name}: {waves} waves, epsilon {ceiling_text(made.loss, 6)} for anyone on the frame over all of them"
    emit(made.to_dict() | {"loss": made.loss}, text, as_json)
    say("draw wave by wave with --start " + ", ".join(repr(start) for start in starts[:12]) + (" ..." if waves > 12 else ""))


@app.command()
def close(
    where: Where,
    survey: Annotated[str, typer.Option(help="The survey.")],
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "",
    as_json: Json = False,
) -> None:
    """Close a survey: nothing more is drawn or released for it, ever. What it spent stays.

    Example: `dpsurvey ledger close books.ledger --survey "lfs 2026q1" --why "final release is out"`
    """
    with opened(where) as ledger:
        ledger.close_survey(survey, why)
    emit({"closed": survey, "why": why}, f"{survey} is closed", as_json)


@app.command()
def anchor(
    where: Where,
    place: Annotated[
        str, typer.Argument(help="A file on another disk, or postgresql://user@host/base#schema.", show_default=False)
    ],
    instead_of: Annotated[str | None, typer.Option(help="An anchor that is lost for good.")] = None,
    as_json: Json = False,
) -> None:
    """Keep the head of the chain in a second place, so that a ledger that was rolled back refuses to spend.

    Example: `dpsurvey ledger anchor books.ledger /mnt/vault/books.anchor`
    """
    with opened(where) as ledger:
        shown = ledger.anchor(place, instead_of=instead_of)
    emit({"anchor": shown}, f"anchored in {shown}", as_json)
    say("keep it where whoever can write the ledger cannot go back in time, and name it in survey.toml too: anchor = ...")


@app.command()
def sign(
    where: Where,
    key_file: Annotated[Path, typer.Option(help="The private key (Ed25519).")],
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make the key first; the public key goes beside it, as .pub.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign the head of the chain with a key file.

    Example: `dpsurvey ledger sign books.ledger --key-file office.key --new-key`
    """
    with opened(where) as ledger:
        public = new_signing_key(key_file) if new_key else None
        body = ledger.sign(key_file)
    emit(body, f"signed up to entry {body['count']} by {body['key'][:16]}", as_json)
    if public is not None:
        say(f"give {os.fspath(public)} to whoever verifies, and keep {os.fspath(key_file)} away from the ledger")


@app.command()
def carry(
    where: Where, to: Annotated[str, typer.Argument(help="The new place.", show_default=False)], as_json: Json = False
) -> None:
    """Move a ledger to a new file or server. The old one is closed first; a carry that was interrupted can be run again.

    Example: `dpsurvey ledger carry books.ledger postgresql://office@db/privacy#lfs`
    """
    with opened(where) as ledger:
        stamp = ledger.carry(to)
    emit(stamp, f"carried: {stamp['count']} entries", as_json)
    say("name the new place in every survey.toml; the old ledger no longer spends")


@app.command()
def merge(
    where: Where,
    other: Annotated[str, typer.Argument(help="The ledger that is taken in.", show_default=False)],
    prefix: Annotated[str, typer.Option(help="Put before the names of its surveys.")] = "",
    as_json: Json = False,
) -> None:
    """Take another ledger in, once. What it spent counts here from now on, and it is closed.

    Example: `dpsurvey ledger merge agency.ledger south.ledger --prefix "south "`
    """
    with opened(where) as ledger:
        stamp = ledger.merge(other, prefix)
    emit(stamp, f"merged: {stamp['count']} entries", as_json)


@app.command()
def clock(
    where: Where, why: Annotated[str, typer.Option(help="Why the last entry has the wrong time.")], as_json: Json = False
) -> None:
    """Go on after an entry was written with a clock that was ahead. The correction is on record.

    Example: `dpsurvey ledger clock books.ledger --why "the server was set to 2036 on Monday"`
    """
    with opened(where) as ledger:
        ledger.accept_clock(why)
    emit({"accepted": True}, "the clock is accepted, and that is on record", as_json)


@app.command()
def roles(
    where: Where,
    give: Annotated[list[str] | None, typer.Option(help="LOGIN=reader, spender or opener; may be repeated.")] = None,
    take: Annotated[list[str] | None, typer.Option(help="LOGIN=ROLE to take away; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Who may open a survey, who may spend, who may only read: roles of the PostgreSQL server, enforced by it.

    Example: `dpsurvey ledger roles postgresql://office@db/privacy#lfs --give ann=spender --give bob=reader`
    """
    place, _ = place_of(where)
    opened(where).close()
    store = Store(place)
    try:
        if give or take:
            set_up_roles(store)
        for pairs, away in ((give, False), (take, True)):
            for pair in pairs or []:
                login, _, role = pair.partition("=")
                if not login or not role:
                    raise BadValue("a role is given as LOGIN=ROLE", given=pair, hint="--give ann=spender")
                give_role(store, login, role, take=away)
        found: dict[str, Any] = members(store)
    finally:
        store.close()
    emit(found, "\n".join(f"{role}: {', '.join(logins) or 'nobody'}" for role, logins in found.items()), as_json)
