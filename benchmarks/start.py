"""CPU seconds (user and system) to start, against Python that does nothing, in one run.

    python benchmarks/start.py [--quick] [--json]

`value` is the least CPU time of several processes, `reference` that of `python -c pass`, and `over` their difference, which the
aim is for: `start/import` is `import dpsurvey`, `start/version` and `start/help` are `dpsurvey --version` and `dpsurvey --help`.
The other rows are whole commands, with what they load and do: one loss, the errors of a survey of 20,000 made-up people, its
release, and the ledger that this leaves. They have no aim.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dpsurvey.survey.demo import demo_statistics, demo_survey, make_register
from dpsurvey.survey.survey_file import write_survey_file

AIM = 0.25
PEOPLE = 20_000
COMMAND = ("-c", "from dpsurvey.cli.app import main; main()")
AMPLIFY = "amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove"


def prepared(folder: Path) -> Path:
    """A folder with a register and a survey file."""
    register = make_register(folder / "register.parquet", PEOPLE)
    survey = demo_survey(register, folder / "books.ledger", PEOPLE)
    write_survey_file(folder / "survey.toml", survey, survey.plan(*demo_statistics()))
    return folder


def cpu(folder: Path, words: tuple[str, ...]) -> float:
    """CPU seconds of one process of this Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(times: int) -> list[dict[str, object]]:
    """Measure and compare; what is compared runs in turn."""
    with tempfile.TemporaryDirectory() as name:
        home, count = prepared(Path(name)), itertools.count()

        def released() -> tuple[str, ...]:
            (home / "books.ledger").unlink(missing_ok=True)
            return (*COMMAND, "release", "survey.toml", "--out", f"release{next(count)}")

        programs: dict[str, tuple[float | None, Callable[[], tuple[str, ...]]]] = {
            "import": (AIM, lambda: ("-c", "import dpsurvey")),
            "version": (AIM, lambda: (*COMMAND, "--version")),
            "help": (AIM, lambda: (*COMMAND, "--help")),
            "amplify": (None, lambda: (*COMMAND, *AMPLIFY.split())),
            "plan": (None, lambda: (*COMMAND, "plan", "survey.toml")),
            "release": (None, released),
            "ledger": (None, lambda: (*COMMAND, "ledger", "survey.toml")),
        }
        bare: list[float] = []
        spent: dict[str, list[float]] = {each: [] for each in programs}
        for _ in range(times):
            bare.append(cpu(home, ("-c", "pass")))
            for each, (_, words) in programs.items():
                spent[each].append(cpu(home, words()))
    reference = min(bare)
    return [
        {
            "name": f"start/{each}",
            "value": min(spent[each]),
            "reference": reference,
            "ratio": min(spent[each]) / reference,
            "over": min(spent[each]) - reference,
            "aim": aim,
            "ok": aim is None or min(spent[each]) - reference <= aim,
        }
        for each, (aim, _) in programs.items()
    ]


def main() -> None:
    """Print the table, or one JSON object for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three processes of each, not ten")
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object per line")
    options = parser.parse_args()
    rows = run(3 if options.quick else 10)
    if options.as_json:
        for each in rows:
            print(json.dumps(each))
        return
    table = Table("name", "CPU seconds", "reference", "ratio", "over", "aim", "ok")
    for each in rows:
        figures = (f"{each[key]:.3f}" for key in ("value", "reference"))
        last = (f"{each['ratio']:.1f}", f"{each['over']:.3f}", str(each["aim"] or "-"), "yes" if each["ok"] else "NO")
        table.add_row(str(each["name"]), *figures, *last)
    Console().print(table)


if __name__ == "__main__":
    main()
