"""Section 6.1: units with probabilities in proportion to a measure of size, by five methods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import dpsurvey as ds
from dpsurvey.loss.worst_case import Contest, worst_loss

from ..item import Result, Rows, Run
from . import printed
from .asking import Law, at_most, exact, loss, same, simple, tally

EPSILON = 1.0
PROBABILITIES = (0.3, 0.5, 0.7, 0.5)
UNITS = "abcd"
Method = Literal["poisson", "conditional-poisson", "sampford", "pivotal", "systematic"]
NAMES: dict[Method, str] = {
    "poisson": "Poisson",
    "conditional-poisson": "conditional Poisson",
    "sampford": "Sampford",
    "pivotal": "pivotal",
    "systematic": "systematic",
}


def poisson(probabilities: Sequence[float]) -> dict[tuple[int, ...], float]:
    """Each unit by itself."""
    units = range(len(probabilities))
    return {
        sample: math.prod(p if i in sample else 1.0 - p for i, p in enumerate(probabilities))
        for n in range(len(probabilities) + 1)
        for sample in itertools.combinations(units, n)
    }


def conditional_poisson(odds: Sequence[float], n: int) -> dict[tuple[int, ...], float]:
    """n units with probability in proportion to the product of their odds."""
    weights = {each: math.prod(odds[i] for i in each) for each in itertools.combinations(range(len(odds)), n)}
    return _scaled(weights)


def sampford(probabilities: Sequence[float], n: int) -> dict[tuple[int, ...], float]:
    """Sampford's law: the product of the odds times the sum of 1 - pi over the drawn units."""
    odds = [p / (1.0 - p) for p in probabilities]
    weights = {
        each: math.prod(odds[i] for i in each) * math.fsum(1.0 - probabilities[i] for i in each)
        for each in itertools.combinations(range(len(odds)), n)
    }
    return _scaled(weights)


def pivotal(probabilities: Sequence[float]) -> dict[tuple[int, ...], float]:
    """Duels in the order of the list, until every probability is 0 or 1."""
    open_units = [i for i, p in enumerate(probabilities) if 1e-12 < p < 1.0 - 1e-12]
    if len(open_units) < 2:
        return {tuple(i for i, p in enumerate(probabilities) if p > 0.5): 1.0}
    i, j = open_units[:2]
    one, two = probabilities[i], probabilities[j]
    total = one + two
    # The loser gets 0 and the winner the sum, or the winner gets 1 and the loser the rest.
    keeps = (two / total, one / total) if total < 1.0 else ((1.0 - one) / (2.0 - total), (1.0 - two) / (2.0 - total))
    ends = ((0.0, total), (total, 0.0)) if total < 1.0 else ((total - 1.0, 1.0), (1.0, total - 1.0))
    law: dict[tuple[int, ...], float] = {}
    for chance, (new_one, new_two) in zip(keeps, ends, strict=True):
        after = list(probabilities)
        after[i], after[j] = new_one, new_two
        for sample, p in pivotal(after).items():
            law[sample] = law.get(sample, 0.0) + chance * p
    return law


def systematic(probabilities: Sequence[float]) -> dict[tuple[int, ...], float]:
    """One uniform start, then every whole step along the probabilities laid end to end."""
    ends = list(itertools.accumulate(probabilities, initial=0.0))
    cuts = sorted({round(end % 1.0, 12) for end in ends} | {0.0, 1.0})
    law: dict[tuple[int, ...], float] = {}
    for low, high in itertools.pairwise(cuts):
        start = (low + high) / 2.0
        hit = tuple(i for i in range(len(probabilities)) if math.floor(ends[i + 1] - start) > math.floor(ends[i] - start))
        law[hit] = law.get(hit, 0.0) + high - low
    return law


def _scaled(weights: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    total = math.fsum(weights.values())
    return {each: weight / total for each, weight in weights.items()}


def _labelled(law: Mapping[tuple[int, ...], float], target: int, label: str) -> Law:
    """The law with the target's record written as `label`."""
    return {frozenset(label if i == target else UNITS[i] for i in sample): chance for sample, chance in law.items()}


def methods(run: Run) -> Result:
    """Each unit's worst loss by method, against log(1 + pi(e^epsilon - 1)); equal sizes; confidential sizes."""
    n = round(sum(PROBABILITIES))
    odds = [p / (1.0 - p) for p in PROBABILITIES]
    laws: dict[Method, dict[tuple[int, ...], float]] = {
        "poisson": poisson(PROBABILITIES),
        "conditional-poisson": conditional_poisson(odds, n),
        "sampford": sampford(PROBABILITIES, n),
        "pivotal": pivotal(PROBABILITIES),
        "systematic": systematic(PROBABILITIES),
    }
    rows: Rows = []
    for method, law in laws.items():
        inclusions = tuple(math.fsum(chance for sample, chance in law.items() if unit in sample) for unit in range(len(UNITS)))
        answer = ds.amplify(
            ds.pps("size", probabilities=inclusions, measure="public", method=method),
            EPSILON,
            base="both",
            neighbours="replace-one",
        )
        for unit, inclusion in enumerate(inclusions):
            first, second = _labelled(law, unit, "x"), _labelled(law, unit, "y")
            row = {"method": NAMES[method], "unit": unit + 1, "inclusion": inclusion}
            row["loss"] = exact(first, second, EPSILON, "both")
            row["bound"] = printed.pps_lower(EPSILON, inclusion)
            row["package"] = answer.details["per_unit"][unit]
            row["response"] = _response(first, second)
            rows.append(row)
    covering = [row for row in rows if row["method"] != NAMES["systematic"]]
    halves = systematic((0.5,) * 4)
    sixths = ds.pps("size", probabilities=(1 / 3,) * 6, measure="public", method="systematic", order="as listed")
    refused = loss(
        ds.pps("size", probabilities=PROBABILITIES, measure="confidential", method="sampford"),
        EPSILON,
        "replace-one",
        "replace-one",
    )
    return Result(
        rows,
        {
            "lower bound": tally(at_most(row["bound"], row["loss"]) for row in rows),
            "randomised response": tally(same(row["response"], row["bound"]) for row in rows),
            "attained": tally(same(row["loss"], row["bound"]) for row in covering),
            "package": tally(same(row["package"], row["loss"]) for row in covering),
            "equal sizes, pivotal": _is_simple(pivotal((0.5,) * 4)),
            "equal sizes, Sampford": _is_simple(sampford((0.5,) * 4, 2)),
            "equal sizes, systematic": exact(_labelled(halves, 0, "x"), _labelled(halves, 0, "y"), EPSILON, "both"),
            "equal sizes, two of six": loss(sixths, EPSILON, "replace-one", "replace-one"),
            "confidential sizes": "refused" if math.isinf(refused) else "not refused",
            **{f"confidential, {units - 3} of {units}": _one_becomes_large(units, units - 3) for units in (5, 6, 7)},
        },
        "With public sizes the lower bound is the exact loss of every unit for Poisson, conditional Poisson, Sampford and "
        "pivotal sampling, for mechanisms that are private under both relations. With equal sizes systematic sampling of 2 of 4 "
        "units, and of 2 of 6, loses more than simple random sampling. Where probabilities follow confidential sizes, one "
        "record that becomes large moves everybody's, and the package refuses.",
    )


def _response(first: Law, second: Law) -> float:
    """The loss of the paper's mechanism between two laws: it says with randomised response whether x is in the sample."""
    truth = 1.0 / (1.0 + math.exp(-EPSILON))
    yes = [
        math.fsum(chance * (truth if "x" in sample else 1.0 - truth) for sample, chance in law.items()) for law in (first, second)
    ]
    return max(abs(math.log(yes[0] / yes[1])), abs(math.log((1.0 - yes[0]) / (1.0 - yes[1]))))


def _is_simple(law: Mapping[tuple[int, ...], float]) -> str:
    """Whether a law of two of four units is simple random sampling."""
    found = {frozenset(UNITS[i] for i in sample): chance for sample, chance in law.items() if chance > 0.0}
    wanted = simple(UNITS, 2)
    return "yes" if found.keys() == wanted.keys() and all(same(found[each], wanted[each]) for each in wanted) else "no"


def _one_becomes_large(units: int, n: int) -> float:
    """Poisson sampling of n units with probabilities n size/total; all sizes are 1, and one becomes very large."""
    others, large = units - 1, 1e9
    before, after = n / units, n / (others + large)
    laws: list[dict[tuple[int, ...], float]] = [{}, {}]
    for law, rate, own, at in ((laws[0], before, before, 1), (laws[1], after, 1.0, 2)):
        for count in range(others + 1):
            chance = math.comb(others, count) * rate**count * (1.0 - rate) ** (others - count)
            for drawn, weight in ((1, own), (0, 1.0 - own)):
                sample = (count, drawn * (at == 1), drawn * (at == 2))
                if chance * weight > 0.0:
                    law[sample] = law.get(sample, 0.0) + chance * weight
    return worst_loss(Contest((others, 1, 0), laws[0], (others, 0, 1), laws[1]), EPSILON, "add-remove").lower


def draw_methods(rows: Rows) -> Any:
    """Loss of each unit by method, beside the bound."""
    from ..pictures import dots, titled

    drawn = []
    for row in sorted(rows, key=lambda row: row["unit"]):
        label = f"unit {row['unit']}, π = {PROBABILITIES[row['unit'] - 1]:g}"
        if row["method"] == "Sampford":
            drawn.append({"unit": label, "what": "lower bound", "loss": row["bound"]})
        if row["method"] not in ("Poisson", "conditional Poisson"):
            drawn.append({"unit": label, "what": row["method"], "loss": row["loss"]})
    return titled(
        dots(drawn, "unit", "loss", "what", x_title="ε′ for a replaced record, ε = 1"),
        "In proportion to size, public sizes: it depends on the method",
        [
            "Sampford and pivotal sampling attain the lower bound of the paper exactly; systematic sampling loses more",
            "worst mechanism by linear programme, two of four units",
        ],
    )
