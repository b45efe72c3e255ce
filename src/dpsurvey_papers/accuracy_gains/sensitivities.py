"""Section 2.2: sensitivities of the mean and the median, each formula against every data set on a small grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from dpsurvey.mechanism import Place, global_sensitivity, local_sensitivities, padded_window, smooth_sensitivity

from ..item import Result, Rows, Run
from .laplace_mean import mean_plan

Data = tuple[float, ...]
# Uneven gaps, so that no two formulas agree by accident.
GRID = (0.0, 1.0, 3.0, 4.0, 9.0)
LOW, HIGH = GRID[0], GRID[-1]
SIZES = (1, 2, 3, 4, 5)
BETAS = (0.05, 0.4, 1.3)
RIGHT, SMALL, LARGE = "right for all data", "too small for some data", "too large for some data"
PADDED = "right with the bounds beyond the data"


def _median(data: Data) -> float:
    place = Place.median(len(data))
    return (data[place.lower - 1] + data[place.upper - 1]) / 2.0


def _mean(data: Data) -> float:
    return sum(data) / len(data)


class World:
    """Every data set of one size on the grid, and which are neighbours: nothing here uses a formula."""

    def __init__(self, size: int) -> None:
        self.data = list(itertools.combinations_with_replacement(GRID, size))
        self.near = {
            data: {tuple(sorted((*data[:i], value, *data[i + 1 :]))) for i in range(size) for value in GRID} for data in self.data
        }

    def local(self, statistic: Callable[[Data], float]) -> dict[Data, float]:
        """The most that replacing one record moves a statistic, for every data set."""
        at = {data: statistic(data) for data in self.data}
        return {data: max(abs(at[data] - at[other]) for other in self.near[data]) for data in self.data}

    def smooth(self, statistic: Callable[[Data], float], beta: float) -> dict[Data, float]:
        """The largest e^(-k beta) times a local sensitivity within k changed records."""
        within = self.local(statistic)
        best = dict(within)
        for changed in range(1, len(self.data[0]) + 1):
            within = {data: max(within[other] for other in self.near[data]) for data in self.data}
            best = {data: max(best[data], math.exp(-changed * beta) * within[data]) for data in self.data}
        return best


def as_written(data: Data, beta: float, padded: bool) -> float:
    """Equation 4, with the bounds as values of ranks beyond the data or over the ranks 1 to N alone: the print does not say.

    >>> as_written((3.0,), 1.0, padded=True), as_written((3.0,), 1.0, padded=False)
    (6.0, 0.0)
    """
    size, middle = len(data), (len(data) + 1) // 2
    beyond = size + 2
    values = (LOW,) * beyond + data + (HIGH,) * beyond
    terms = [
        math.exp(-k * beta) * (values[beyond + middle + t - 1] - values[beyond + middle + t - k - 2])
        for k in range(size + 1)
        for t in range(k + 2)
        if padded or (middle + t <= size and middle + t - k - 1 >= 1)
    ]
    return max(terms, default=0.0)


def _word(found: Mapping[Data, float], truth: Mapping[Data, float], tolerance: float = 1e-12) -> str:
    if all(math.isclose(found[data], truth[data], rel_tol=tolerance, abs_tol=tolerance) for data in truth):
        return RIGHT
    return SMALL if any(found[data] < truth[data] * (1.0 - 1e-9) for data in truth) else LARGE


def _largest(found: float, local: Mapping[Data, float], tolerance: float = 1e-12) -> str:
    """A global sensitivity against the largest local one."""
    return _word({(): found}, {(): max(local.values())}, tolerance)


def sensitivity_of_mean(size: int) -> float:
    """How far one record moves the mean of all values in [0, 1], from the noise that a plan for it has (in whole steps)."""
    return float(mean_plan(size, 1.0, size).predictions[0]["se_noise"]) / math.sqrt(2.0)


def _local_of(data: Data) -> float:
    place = Place.median(len(data))
    first, last = max(1, place.lower - 1), min(place.size, place.upper + 1)
    return float(local_sensitivities(padded_window(data[first - 1 : last], place, 1, LOW, HIGH), place)[0])


def sensitivities(run: Run) -> Result:
    """Global, local and smooth sensitivities of mean and median: every formula against every data set on a small grid."""
    rows: Rows = []
    for size in SIZES:
        world, place = World(size), Place.median(size)
        local, of_mean = world.local(_median), world.local(_mean)
        reach = {data: max(HIGH - data[0], data[-1] - LOW) / size for data in world.data}
        printed = size % 2 == 1
        found = {
            "mean, global: R/N": _largest((HIGH - LOW) / size, of_mean),
            "mean, global: the noise of a plan": _largest((HIGH - LOW) * sensitivity_of_mean(size), of_mean, 1e-5),
            "mean, local: without the outer maximum": _word(reach, of_mean),
            "mean, local: as printed, maximum over all data": _word(dict.fromkeys(reach, max(reach.values())), of_mean),
            "median, global: R": _largest(HIGH - LOW, local),
            "median, global: the package": _largest(global_sensitivity(place, LOW, HIGH), local),
            "median, local: the package": _word({data: _local_of(data) for data in world.data}, local),
        }
        if printed and size > 1:
            gaps = {
                data: max(data[size // 2 + 1] - data[size // 2], data[size // 2] - data[size // 2 - 1]) for data in world.data
            }
            found["median, local: the larger gap beside it"] = _word(gaps, local)
        smooth = {beta: world.smooth(_median, beta) for beta in BETAS}
        package = {beta: {data: smooth_sensitivity(data, place, beta, LOW, HIGH) for data in world.data} for beta in BETAS}
        found["median, smooth: the package, bounds beyond the data"] = _together(
            [_word(package[beta], smooth[beta]) for beta in BETAS]
        )
        if printed:
            for reading, padded in (("over ranks 1 to N", False), (", bounds beyond the data", True)):
                written = [_word({data: as_written(data, beta, padded) for data in world.data}, smooth[beta]) for beta in BETAS]
                found[f"median, smooth: Equation 4{' ' * (not padded)}{reading}"] = _together(written)
        rows += [
            {"formula": formula, "N": f"N = {size}", "word": word, "data_sets": len(world.data)}
            for formula, word in found.items()
        ]

    def over(formula: str, sizes: tuple[int, ...]) -> str:
        return _together([row["word"] for row in rows if row["formula"] == formula and row["N"] in {f"N = {n}" for n in sizes}])

    odd = tuple(size for size in SIZES if size % 2)
    values: dict[str, Any] = {
        "mean global": over("mean, global: R/N", SIZES),
        "median global": over("median, global: R", odd),
        "median local": over("median, local: the larger gap beside it", odd),
        "mean local": over("mean, local: as printed, maximum over all data", SIZES),
        "smooth": _read_both_ways(
            over("median, smooth: Equation 4 over ranks 1 to N", odd),
            over("median, smooth: Equation 4, bounds beyond the data", odd),
        ),
        "package": over("median, smooth: the package, bounds beyond the data", SIZES),
    }
    note = (
        "Equation 4 asks for ranks below 1 and above N. It is right with y_i = the lower bound for i < 1 and the upper bound "
        "for i > N, and too small for some data if such ranks are left out. For N = 1 the local sensitivity needs the bounds "
        "too. The local sensitivity of the mean is right without the outer maximum over all data, which is a slip. For an even "
        "number of values the average of the middle two has half the range as global sensitivity; local and smooth ones are "
        "halves of gaps between ranks one further apart. The package's are right for all data there too."
    )
    return Result(rows, values, note)


def _read_both_ways(plain: str, padded: str) -> str:
    """A formula that is right as it stands, or only with what it leaves unsaid."""
    return PADDED if padded == RIGHT != plain else plain if plain == RIGHT else padded


def _together(words: list[str]) -> str:
    return next((word for word in words if word != RIGHT), RIGHT)


def draw_sensitivities(rows: Rows) -> Any:
    """A table: formulas by the number of records."""
    from ..pictures import cells, titled

    short = {RIGHT: "right", SMALL: "too small", LARGE: "too large"}
    shown = sorted((row | {"short": short[row["word"]]} for row in rows), key=lambda row: str(row["formula"]))
    shades = {RIGHT: "#9ec6c9", LARGE: "#eed9a5", SMALL: "#e0a3a8"}
    chart = cells(shown, "N", "formula", "short", "word", shades, width=84)
    return titled(
        chart,
        "Sensitivities against every data set on a grid of five values",
        "R is that of an odd number of values; Equation 4 needs the bounds as values of ranks beyond the data",
    )
