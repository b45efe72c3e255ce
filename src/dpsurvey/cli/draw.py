"""Draw the units to interview, with probabilities and weights, and seal the sample in the ledger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..design.key import Key
from ..survey.survey_file import SurveyFile
from .options import Engine, File, Json, new_app
from .output import emit, progress_bars, say

PLACE_IN_HELP = 80

app = new_app()


@app.command()
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
