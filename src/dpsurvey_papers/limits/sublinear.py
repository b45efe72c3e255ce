"""The supposition that a sample can be drawn in time proportional to its size, put to the package's own secret draw."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Result, Rows, Run

UNITS = 200
# Rows grow a hundredfold. Seconds that grow tenfold would mean the root of the rows; the best of several draws is compared,
# so that a busy machine does not decide.
GROWTH, MARGIN = 100.0, 10.0


def drawing_time(run: Run) -> Result:
    """Seconds of a Poisson draw of about 200 units from growing files: the secret draw, and one that numbers every row."""
    sizes = (10_000, 1_000_000) if run.quick else (100_000, 1_000_000, 10_000_000)
    times = run.draws(12, 5)
    rows: Rows = []
    drawn: list[tuple[int, int]] = []
    took: list[float] = []
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, size in enumerate(sizes):
            run.progress("001-sublinear", place, len(sizes))
            survey = _survey(Path(folder), size)
            # The first draw checks every row of the file, once; what is measured comes after it.
            survey.draw(Path(folder) / f"{size}.parquet")
            secret, counts = _measured(survey, Path(folder), times, keyed=False)
            keyed, _ = _measured(survey, Path(folder), 1, keyed=True)
            drawn += [(size, count) for count in counts]
            rows += [
                {"rows": size, "draw": "secret: jumps to its rows", "seconds": secret},
                {"rows": size, "draw": "keyed: a number for every row", "seconds": keyed},
            ]
            took.append(secret)
            whole.append(keyed)
    grown = took[-1] / took[0]
    fast = grown < MARGIN and took[-1] < whole[-1]
    return Result(
        rows,
        {"time": "sublinear" if fast else "linear", "size": "binomial" if _binomial(drawn) else "not binomial"},
        f"p|x| is {UNITS} throughout, and rows grow a hundredfold. Seconds are those of the machine that ran this, the least of "
        f"{times} secret draws: they grow as the power {math.log(grown) / math.log(GROWTH):.2f} of the rows, and a power below "
        f"{math.log(MARGIN) / math.log(GROWTH):g} is called sublinear. Opening the file, writing the sample and sealing it are "
        "included, which take the same time for every file. The first draw of each file is not: it checks every row, once, "
        "in linear time. Arrow files: a secret draw jumps by geometric gaps.",
    )


def _survey(folder: Path, size: int) -> ds.Survey:
    """A survey of a file of so many rows, by Poisson sampling of about 200 units."""
    import pyarrow as pa

    path = folder / f"frame{size}.arrow"
    table = pa.table({"id": np.arange(size), "answer": np.arange(size) % 7})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    frame = ds.Frame(str(path), unit="id", size=size)
    setting = ds.Setting("frame", neighbours="add-remove")
    return ds.Survey(frame, ds.poisson(UNITS / size), setting, budget=ds.Budget(1.0), ledger=folder / f"{size}.ledger")


def _measured(survey: ds.Survey, folder: Path, times: int, *, keyed: bool) -> tuple[float, list[int]]:
    """The least seconds of a draw, and the number of units in each."""
    import pyarrow.parquet as pq

    best, counts = math.inf, []
    for number in range(times):
        target = folder / f"{survey.terms.frame.size}-{keyed}-{number}.parquet"
        start = time.perf_counter()
        survey.draw(target, new=True, key=ds.Key.new() if keyed else None)
        best = min(best, time.perf_counter() - start)
        counts.append(int(pq.read_metadata(target).num_rows))
    return best, counts


def _binomial(drawn: list[tuple[int, int]]) -> bool:
    """Whether sizes are as Binomial(|x|, p) has them, in mean and spread; a right draw fails for one run in a million."""
    from scipy.stats import chi2

    deviations = np.array([(count - UNITS) / math.sqrt(UNITS * (1.0 - UNITS / size)) for size, count in drawn])
    low, high = chi2.ppf([2e-7, 1.0 - 2e-7], len(drawn))
    return bool(abs(deviations.sum()) < 5.1 * math.sqrt(len(drawn)) and low < (deviations**2).sum() < high)


def draw_drawing_time(rows: Rows) -> Any:
    """Seconds by rows, both logarithmic."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "rows",
        "seconds",
        "draw",
        x_title="rows of the file",
        y_title="seconds for about 200 units",
        x_scale=logarithmic(),
        y_scale=logarithmic(),
        x_format="~s",
        points=True,
        size=(640, 320),
    )
    return titled(
        chart,
        "A Poisson sample in time proportional to the sample",
        "the secret draw hardly notices the size of the file; a number for every row grows with it",
    )
