"""How good a noisy median is by sampling rate, simulated from values that are public or assumed.

For every rate simple random samples are drawn without replacement, the same ones for all epsilons and methods. No noise is
drawn: given a sample, the mean square error of its noisy median is known in closed form. The whole frame needs no draws.
Rules and measured tables: docs/guides/rates.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import BadValue, did_you_mean
from ..mechanism.order_statistic import Array
from .median_errors import METHODS, Errors, NoisyMedian, median_of, simulated_errors

EPSILONS = (0.01, 0.1, 0.5, 1.0, 3.0, 5.0)
RATES = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# A gain is called one when it is this many Monte-Carlo standard errors long: once in 200 by chance where there is none.
CERTAIN = 2.58
FIGURES = ("mse", "log_mse", "mse_error", "mse_sampling", "mse_noise", "mse_full", "ratio", "ratio_error")
Progress = Callable[[str, int, int], None]
Row = dict[str, Any]


def median_rates(
    population: npt.ArrayLike,
    *,
    bounds: tuple[float, float],
    delta: float | None = None,
    epsilons: Iterable[float] = EPSILONS,
    rates: Iterable[float] = RATES,
    methods: Iterable[str] = ("smooth", "exponential"),
    draws: int = 1000,
    seed: int = 123,
    progress: Progress | None = None,
) -> list[Row]:
    """The mean square error of a noisy median for every method, epsilon and rate, and whether a sample beats the whole frame.

    population    public or assumed values: an earlier release, a published table, a distribution. Never the frame itself:
                  what comes out depends on every value, has no noise, and is not protected by anything
    bounds        the public range; values outside are clipped
    delta         of the guarantee, for the smooth methods; 1/(2N) by default. The exponential mechanism has none
    rates         parts of the population. A sample has an odd size, 2 floor(rate N/2) + 1; rate 1 is everyone
    methods       "smooth": Laplace noise for a smooth sensitivity, beta as large as delta allows; "smooth-as-printed": the
                  usual recipe for beta; "exponential": the exponential mechanism on the whole range

    A sample spends epsilon_n = log(1 + (N/n)(e^epsilon - 1)) and (N/n) delta. Where no noise keeps that, a row says so in
    `refused` and has no figures. `mse` is `mse_sampling` + `mse_noise`, `mse_error` its Monte-Carlo standard error. For the
    exponential mechanism `mse_noise` is what its choice adds to the sample median's error, which can be less than 0.

    >>> rows = median_rates(range(1, 202), bounds=(0, 1000), epsilons=[0.1], rates=[0.1, 1.0], draws=50)
    >>> [(row["method"], row["n"], round(row["epsilon_in_sample"], 2), row["gain"]) for row in rows]
    [('smooth', 21, 0.7, True), ('smooth', 201, 0.1, False), ('exponential', 21, 0.7, False), ('exponential', 201, 0.1, False)]
    """
    low, high = _checked_bounds(bounds)
    values = np.clip(_checked_values(population), low, high)
    delta = 1.0 / (2.0 * len(values)) if delta is None else float(delta)
    epsilons, rates, methods = list(epsilons), list(rates), list(methods)
    _check(delta, epsilons, rates, methods)
    _check_counts(draws, seed)
    asked = [NoisyMedian(method, float(epsilon), delta, low, high) for method in methods for epsilon in epsilons]
    truth = float(median_of(values[None, :])[0])
    full = [each.errors(values[None, :], len(values), truth) for each in asked]
    found: dict[tuple[int, int], Row] = {}
    for place, rate in enumerate(rates):
        n = sample_size(rate, len(values))
        answers = full if n == len(values) else simulated_errors(values, n, asked, int(draws), int(seed))
        for index, (each, answer) in enumerate(zip(asked, answers, strict=True)):
            found[index, place] = _row(each, float(rate), n, len(values), answer, full[index])
        if progress:
            progress("simulating medians", place + 1, len(rates))
    lines = ([found[index, place] for place in range(len(rates))] for index in range(len(asked)))
    return [row for line in lines for row in _marked(line)]


def sample_size(rate: float, size: int) -> int:
    """The odd number of units next to rate times size; everyone at rate 1.

    >>> [sample_size(rate, 10_001) for rate in (0.01, 0.1, 0.9, 1.0)], sample_size(1.0, 10)
    ([101, 1001, 9001, 10001], 10)
    """
    # The little that is added undoes the rounding of rates such as 0.3, which are not quite what they say.
    return size if rate >= 1.0 else min(size, 2 * math.floor(rate * size / 2.0 + 1e-9) + 1)


def best_rates(rows: Sequence[Row]) -> list[Row]:
    """For every method and epsilon the rate with the least mean square error, whether it is a gain, and advice in a sentence.

    >>> rows = median_rates(range(1, 202), bounds=(0, 1000), epsilons=[0.1], rates=[0.1, 1.0], draws=50)
    >>> for best in best_rates(rows):
    ...     print(best["method"], best["rate"], best["gain"])
    smooth 0.1 True
    exponential 1.0 False
    >>> best["advice"]
    'do not draw: root mean square error 190 on the whole frame, and no rate has less'
    """
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["epsilon"]), []).append(row)
    whole = {key: math.sqrt(group[0]["mse_full"]) for key, group in groups.items() if group[0]["mse_full"] is not None}
    found = []
    for (method, epsilon), group in groups.items():
        usable = [row for row in group if row["mse"] is not None]
        best: Row = {"method": method, "epsilon": epsilon, "mse_full": group[0]["mse_full"]}
        best |= {"rate": None, "n": None, "mse": None, "ratio": None, "gain": False, "advice": group[0]["refused"]}
        if usable:
            least = min(usable, key=lambda row: float(row["mse"]))
            others = {name: error for (name, at), error in whole.items() if at == epsilon and name != method}
            best |= {key: least[key] for key in ("rate", "n", "mse", "ratio", "gain")}
            best["advice"] = _advice(least, whole.get((method, epsilon)), others)
        found.append(best)
    return found


def _advice(least: Row, whole: float | None, others: dict[str, float]) -> str:
    error, draw = math.sqrt(least["mse"]), f"draw about {100.0 * least['rate']:.3g} %"
    if whole is None:
        text = f"{draw}: root mean square error {error:.3g}; on the whole frame this noise keeps no such guarantee"
    elif least["gain"]:
        text = f"{draw}: root mean square error {error:.3g}, and {whole:.3g} on the whole frame"
    else:
        less = "clearly less" if error < whole else "less"
        text = f"do not draw: root mean square error {whole:.3g} on the whole frame, and no rate has {less}"
    other = min(others, key=lambda name: others[name], default=None)
    return text + (f"; {other} has {others[other]:.3g} there" if other and others[other] < error else "")


def _marked(line: list[Row]) -> list[Row]:
    """The rows of one method and epsilon with `whole`, for the whole frame, and `least`, for the least error."""
    least = min((row["log_mse"] for row in line if row["log_mse"] is not None), default=None)
    return [row | {"whole": row["rate"] >= 1.0, "least": least is not None and row["log_mse"] == least} for row in line]


def _row(each: NoisyMedian, rate: float, n: int, size: int, answer: Errors | str, full: Errors | str) -> Row:
    epsilon, delta = each.spends(n, size)
    row: Row = {"method": each.method, "epsilon": each.epsilon, "delta": None if delta is None else each.delta}
    row |= {"rate": rate, "n": n, "epsilon_in_sample": epsilon, "delta_in_sample": delta}
    row |= dict.fromkeys(FIGURES) | {"gain": False, "sensitivity_ratio": None, "refused": None}
    whole = None if isinstance(full, str) else float(np.mean(full.sampling + full.noise))
    row["mse_full"] = whole
    if isinstance(answer, str):
        return row | {"refused": answer}
    each_draw = answer.sampling + answer.noise
    mse, draws = float(each_draw.mean()), len(each_draw)
    error = float(each_draw.std(ddof=1)) / math.sqrt(draws) if draws > 1 else 0.0
    # Noise far below the range of floats leaves an error of 0, which has no logarithm and no ratio.
    row |= {"mse": mse, "log_mse": math.log(mse) if mse > 0.0 else None, "mse_error": error}
    row |= {"mse_sampling": float(answer.sampling.mean()), "mse_noise": float(answer.noise.mean())}
    if whole:
        row |= {"ratio": mse / whole, "ratio_error": error / whole, "gain": mse + CERTAIN * error < whole}
    if answer.sensitivities is not None and not isinstance(full, str) and full.sensitivities is not None:
        row["sensitivity_ratio"] = float(np.median(answer.sensitivities) / full.sensitivities[0])
    return row


def _checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise BadValue("bounds are two numbers", given=f"bounds={bounds!r}", hint="bounds=(0, 2000)") from None
    if not -math.inf < low < high < math.inf:
        raise BadValue("bounds must be finite, the lower one first", given=f"bounds=({low:g}, {high:g})")
    return low, high


def _checked_values(population: npt.ArrayLike) -> Array:
    try:
        values = np.sort(np.asarray(population, dtype=np.float64).ravel())
    except (TypeError, ValueError):
        raise BadValue("a simulated population is a list of numbers") from None
    if not len(values) or not np.all(np.isfinite(values)):
        raise BadValue("a simulated population needs at least one value, and every value must be a finite number")
    return values


def _check(delta: float, epsilons: list[float], rates: list[float], methods: list[str]) -> None:
    if not 0.0 < delta < 1.0:
        raise BadValue("delta must be in (0, 1)", given=f"delta={delta}")
    if not epsilons or not all(0.0 < epsilon < math.inf for epsilon in epsilons):
        raise BadValue("epsilons must be positive and finite, at least one of them", given=f"epsilons={epsilons}")
    if not rates or not all(0.0 < rate <= 1.0 for rate in rates):
        raise BadValue("rates must be in (0, 1], at least one of them", given=f"rates={rates}")
    if not methods:
        raise BadValue("at least one method is needed", hint="known: " + ", ".join(METHODS))
    for method in methods:
        if method not in METHODS:
            raise BadValue(f"unknown method {method!r}", hint=did_you_mean(str(method), METHODS))


def _check_counts(draws: int, seed: int) -> None:
    if draws != int(draws) or draws < 2:
        raise BadValue("at least two draws are needed, for an error of the simulation", given=f"draws={draws}")
    if seed != int(seed) or seed < 0:
        raise BadValue("a seed is a whole number, at least 0", given=f"seed={seed}")
