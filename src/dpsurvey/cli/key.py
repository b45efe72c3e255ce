"""Keys of permanent random numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..design.key import Key, panel_start
from .options import Json, new_app
from .output import emit, say

PLACE_IN_HELP = 90

app = new_app(help=__doc__, no_args_is_help=True)


@app.command("new")
def new_key(
    file: Annotated[Path, typer.Argument(help="Where to write it; only you will be able to read it.")], as_json: Json = False
) -> None:
    """Make a key of permanent random numbers.

    Example: `dpsurvey key new panel.key`
    """
    key = Key.new()
    key.write(file)
    emit({"written": os.fspath(file), "commitment": key.commitment}, f"key {key.commitment[:8]} in {os.fspath(file)}", as_json)
    say("keep it away from the data and back it up: without it a keyed sample cannot be drawn again")


@app.command("start")
def wave_start(
    rate: Annotated[float, typer.Option(help="The rate of each wave.")],
    wave: Annotated[int, typer.Option(help="The number of the wave, from 0.")],
    overlap: Annotated[float, typer.Option(help="The share of units that two waves in a row have in common.")],
    as_json: Json = False,
) -> None:
    """Where the numbers of a wave of a rotating panel start; give it to `dpsurvey draw --start`.

    Example: `dpsurvey key start --rate 0.02 --wave 3 --overlap 0.75`
    """
    found = panel_start(rate, wave=wave, overlap=overlap)
    emit({"start": found, "rate": rate, "wave": wave, "overlap": overlap}, repr(found), as_json)


@app.command("show")
def show_key(file: Annotated[Path, typer.Argument(help="A key file.")], as_json: Json = False) -> None:
    """Print the commitment of a key, which tells keys apart and says nothing else. The key itself is never printed.

    Example: `dpsurvey key show panel.key`
    """
    key = Key.read(file)
    emit({"commitment": key.commitment}, key.commitment, as_json)
