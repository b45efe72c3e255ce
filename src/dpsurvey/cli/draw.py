"""`dpsurvey draw` and `dpsurvey key`: the secret sample, and the keys of permanent random numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..design.key import Key, panel_start
from ..survey.survey_file import SurveyFile
from .talk import Engine, File, Json, emit, progress_bars, say

keys = typer.Typer(help="Keys of permanent random numbers.", no_args_is_help=True, rich_markup_mode="markdown")


def draw(
    file: File,
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file of drawn units.")],
    key_file: Annotated[
        Path | None, typer.Option(help="Draw by permanent random numbers: same key, same units, on every engine.")
    ] = None,
    start: Annotated[float, typer.Option(help="Where the numbers of this sample start, in [0, 1); needs a key.")] = 0.0,
    engine: Engine = "duckdb",
    new_sample: Annotated[bool, typer.Option("--new-sample", help="Draw a further, independent sample.")] = False,
    as_json: Json = False,
) -> None:
    """Draw the units to interview, with probabilities and weights, and seal the sample in the ledger.

    Writes unit, stratum, psu, pi and weight as Parquet that only you can read, and a manifest beside it.

    Example: `dpsurvey draw survey.toml -o sample.parquet`

    Example: `dpsurvey draw survey.toml -o wave2.parquet --key-file panel.key --start 0.005 --engine spark`
    """
    survey_file = SurveyFile.read(file)
    key = Key.read(key_file) if key_file else None
    with progress_bars() as bars:
        survey = survey_file.survey(bars, engine=engine)
        sealed = survey.draw(output, new=new_sample, key=key, start=start)
    receipt: dict[str, Any] = {"sample": sealed.id, "file": os.fspath(output), "ledger": survey_file.ledger}
    receipt |= {"manifest": os.fspath(output).removesuffix(".parquet") + ".manifest.json"}
    receipt |= {"key_commitment": sealed.key_commitment, "start": sealed.start}
    by_key = f" by key {sealed.key_commitment[:8]}" if sealed.key_commitment else ""
    emit(receipt, f"sample {sealed.id[:12]} sealed in {os.fspath(output)}{by_key}", as_json)
    say("keep this file secret: the guarantee rests on nobody knowing who was drawn")
    if key_file:
        say("keep the key secret too, and away from the data: whoever has it can draw this sample again")


@keys.command("new")
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


@keys.command("start")
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


@keys.command("show")
def show_key(file: Annotated[Path, typer.Argument(help="A key file.")], as_json: Json = False) -> None:
    """Print the commitment of a key, which tells keys apart and says nothing else. The key itself is never printed.

    Example: `dpsurvey key show panel.key`
    """
    key = Key.read(file)
    emit({"commitment": key.commitment}, key.commitment, as_json)
