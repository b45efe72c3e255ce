"""Make a register of one million synthetic people, survey it, and print the estimates beside the truth.

The register is made from a fixed seed and describes nobody. Because it is synthetic, the demo may do what no
agency can: print the truth beside the estimates.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import BadValue, NotSaved
from ..survey.demo import demo_statistics, demo_survey, make_register, truth
from ..survey.release import Release
from ..survey.survey import Progress
from ..survey.survey_file import write_survey_file
from ..text.layout import group_text, text_table
from ..text.writing import make_folder
from .options import Json, new_app
from .output import RELEASED, emit, progress_bars, save_release, say

PLACE_IN_HELP = 140

app = new_app()

LEDGER = "demo.ledger"
OWN_FILES = (LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm", "survey.toml", "register.parquet", *RELEASED)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demo writes.")] = Path("demo-out"), as_json: Json = False
) -> None:
    """Make a register of one million synthetic people, survey it, and print the estimates beside the truth.

    Example: `dpsurvey demo --out demo-out`
    """
    with progress_bars() as bars:
        done, rows, text = run_demo(out, bars)
    emit({"release": done.to_dict(), "beside_truth": rows}, text, as_json)
    say(f"everything is in {os.fspath(out)}; open {os.fspath(out / 'report.html')}")


def run_demo(out: Path, progress: Progress) -> tuple[Release, list[dict[str, Any]], str]:
    """The whole demo: register, survey, release, files; and a table of estimates beside the truth."""
    _start_over(make_folder(out))
    register = out / "register.parquet"
    progress("making the register", 0, 1)
    make_register(register)
    progress("making the register", 1, 1)
    survey = demo_survey(register, out / LEDGER, progress=progress)
    plan = survey.plan(*demo_statistics())
    write_survey_file(out / "survey.toml", survey, plan)
    release = plan.release()
    if failed := save_release(release, out, progress):
        raise NotSaved(
            "the demo's release was made, but not everything could be written", because=failed[0], given=os.fspath(out)
        )
    rows = [{**row, "truth": value} for row, value in zip(release.estimates, truth(register, release), strict=True)]
    return release, rows, _beside_truth(release, rows)


def _start_over(out: Path) -> None:
    """A demo starts over each time, in a folder that an earlier one made: with its ledger there, its files are its own."""
    found = [out / name for name in OWN_FILES if os.path.lexists(out / name)]
    if found and out / LEDGER not in found:
        raise BadValue(
            f"{os.fspath(out)!r} holds other files",
            because=f"the demo would overwrite {found[0].name}",
            hint="name a new folder with --out",
        )
    # The ledger goes last: what an interrupted start leaves is the demo's still.
    for file in found[::-1]:
        file.unlink()


def _beside_truth(release: Release, rows: list[dict[str, Any]]) -> str:
    shown = []
    for row in rows:
        what = row["label"]
        covered = "yes" if row["ci_low"] <= row["truth"] <= row["ci_high"] else "no"
        shown.append({**row, "of": what, "group": group_text(row["by"]), "covered": covered})
    columns = ["statistic", "of", "group", "estimate", "truth", "se_sampling", "se_noise", "ci_low", "ci_high", "covered"]
    hits = sum(row["covered"] == "yes" for row in shown)
    summary = f"{hits} of {len(shown)} intervals of 95 % cover the truth, which only a demo may know."
    return "\n".join([text_table(shown, columns), "", summary, str(release.guarantee)])
