"""`dpsurvey ledger budget, panel, close, anchor, sign, carry, merge, clock, roles`: what changes the books as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..design.key import Key
from ..errors import BadValue
from ..ledger import new_signing_key, panel
from ..ledger.roles import give_role, members, set_up_roles
from ..ledger.store import Store
from ..privacy import Budget, Setting
from ..text.layout import ceiling_text, given_text
from .ledger import Where, app, opened, place_of
from .talk import Json, emit, say

Protect = Annotated[str, typer.Option(help="Who is protected: population, frame, sample or respondents.")]
New = Annotated[bool, typer.Option("--new", help="Make the ledger if there is none yet.")]
Neighbours = Annotated[str, typer.Option(help="add-remove or replace-one.")]


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
    told = "for ever" if per == "ever" else "in each year"
    spent = max((each["epsilon"] for each in accounts), default=0.0)
    whose = f"{setting.who.lower()}{f' ({population})' if population else ''}, {neighbours}"
    text = f"the agency may spend epsilon {given_text(epsilon)} {told}: {whose}; spent so far, ever: {ceiling_text(spent, 6)}"
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


__all__ = ["app"]
