"""Theorem 1, its inverse, and the relation it is stated for, against linear programmes over all mechanisms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import dpsurvey as ds
from dpsurvey.loss.worst_case import Contest, worst_delta, worst_loss

from ..item import Result, Rows, Run

RATES, EPSILONS = (0.05, 0.2, 0.5, 0.8), (0.1, 0.5, 1.0, 2.0)
DELTA = 0.01
CLOSE, FAR = 1e-6, 30.0
WORST = "worst of all mechanisms"
INK = "#2b2d33"


def poisson(rates: dict[str, float]) -> dict[frozenset[str], float]:
    """The law of the sample: each unit by itself.

    >>> poisson({"a": 0.5})[frozenset("a")]
    0.5
    """
    law: dict[frozenset[str], float] = {frozenset(): 1.0}
    for unit, p in rates.items():
        law = {sample | extra: q * w for sample, q in law.items() for extra, w in ((frozenset(), 1.0 - p), ({unit}, p))}
    return law


def contest(rate: float, others: str = "ab", *, replaced: bool = False) -> Contest:
    """Two populations that differ in one record, and the laws of their Poisson samples."""
    both = ["x", "y"] if replaced else ["x", ""]
    first, second = (poisson(dict.fromkeys([*others, *unit], rate)) for unit in both)
    return units(first, second)


def units(first: Mapping[frozenset[str], float], second: Mapping[frozenset[str], float]) -> Contest:
    """The contest of two laws of samples of labelled units."""
    return Contest.of_units({tuple(each): p for each, p in first.items()}, {tuple(each): p for each, p in second.items()})


def guaranteed(rate: float, epsilon: float, delta: float = 0.0) -> Any:
    """What the package guarantees for Theorem 1's setting.

    >>> round(guaranteed(0.5, 1.0).epsilon, 4)
    0.6201
    """
    return ds.amplify(ds.poisson(rate), epsilon, delta=delta, base="add-remove", neighbours="add-remove")


def theorem(run: Run) -> Result:
    """Theorem 1: the guarantee is kept by every mechanism, and attained by one; ε and δ."""
    rows: Rows = []
    kept, attained, deltas = True, True, []
    for place, (rate, epsilon) in enumerate(itertools.product(RATES, EPSILONS)):
        run.progress("001-theorem-1", place, len(RATES) * len(EPSILONS))
        claim, found = guaranteed(rate, epsilon), worst_loss(contest(rate, "a" if run.quick else "abc"), epsilon, "add-remove")
        kept &= found.upper <= claim.epsilon + CLOSE
        attained &= found.lower >= claim.epsilon - CLOSE
        own = guaranteed(rate, epsilon, DELTA)
        worst = worst_delta(contest(rate, "a"), own.epsilon, epsilon, DELTA, "add-remove").delta
        deltas.append(abs(worst - rate * DELTA) < CLOSE and abs(own.delta - rate * DELTA) < CLOSE)
        rows.append({"epsilon": f"{epsilon:g}", "rate": rate, "what": WORST, "loss": found.lower})
    for epsilon, step in itertools.product(EPSILONS, range(1, 21)):
        claim = guaranteed(step / 20, epsilon)
        rows += [
            {"epsilon": f"{epsilon:g}", "rate": step / 20, "what": "Theorem 1", "loss": claim.epsilon},
            {"epsilon": f"{epsilon:g}", "rate": step / 20, "what": "the other order", "loss": claim.details["removal_direction"]},
        ]
    return Result(
        rows,
        {
            "epsilon": "holds" if kept else "fails",
            "delta": "pδ" if all(deltas) else "another",
            "first exercise": "holds" if all(_exercise(rate, epsilon)[0] for rate in RATES for epsilon in EPSILONS) else "fails",
            "second exercise": "holds" if all(_exercise(rate, epsilon)[1] for rate in RATES for epsilon in EPSILONS) else "fails",
        },
        f"Both figures are {'attained: no smaller ones hold' if attained else 'not attained'}. The order of the proof's second "
        "half, the population without the record first, loses only -log(1 - p(1 - e^-ε)).",
    )


def _exercise(rate: float, epsilon: float) -> tuple[bool, bool]:
    """The two inequalities at the end of the proof, through the two directional losses."""
    claim = guaranteed(rate, epsilon)
    other = math.exp(claim.details["removal_direction"])
    return other <= math.exp(claim.epsilon) * (1.0 + 1e-12), math.exp(-epsilon) * other <= 1.0


def draw_theorem(rows: Rows) -> Any:
    """A panel for each ε: the theorem, the worst mechanism on it, and the smaller order."""
    from ..pictures import beside, lines, panels_of, scatter

    def panel(own: Rows, name: str) -> Any:
        drawn = [row for row in own if row["what"] != WORST]
        chart = lines(drawn, "rate", "loss", "what", x_title="p", y_title="loss of the sampled mechanism", size=(230, 190))
        chart += scatter([row for row in own if row["what"] == WORST], "rate", "loss", colour=INK)
        return chart.properties(title=f"ε = {name}")

    return beside(
        panels_of(rows, "epsilon", panel),
        "Theorem 1 is attained",
        "points: the worst of all mechanisms, by linear programme; the other order of the two populations loses less",
        columns=2,
    )


def inverse(run: Run) -> Result:
    """The inverse: what may be spent on a sample for a guarantee."""
    rows: Rows = []
    back = True
    for guarantee, rate in itertools.product((0.1, 0.5, 1.0), (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)):
        design = ds.poisson(rate)
        spent = ds.invert(design, guarantee, base="add-remove", neighbours="add-remove").spent_epsilon
        # A figure beyond what the programme can solve is no inverse of these guarantees.
        loss = worst_loss(contest(rate, ""), spent, "add-remove").lower if spent < FAR else math.inf
        back &= abs(loss - guarantee) < CLOSE
        rows.append({"guarantee": f"{guarantee:g}", "rate": rate, "spent": spent, "loss": loss})
    return Result(
        rows, {"inverse": "holds" if back else "fails"}, "The worst mechanism at what is spent loses the guarantee again."
    )


def draw_inverse(rows: Rows) -> Any:
    """What may be spent, by rate."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "rate",
        "spent",
        "guarantee",
        x_title="p",
        y_title="ε_p on the sample",
        by_title="guaranteed ε'",
        x_scale=logarithmic(0.001, 1.0),
        x_format="~%",
        points=True,
    )
    return titled(chart, "What a Poisson sample may spend", "log(1 + (e^ε' - 1)/p), one record added or removed")


def relation(run: Run) -> Result:
    """Why addition and removal: replaced records, and mechanisms that protect values alone."""
    rows: Rows = []
    larger, exact, needed, both = True, True, True, True
    for rate, epsilon in itertools.product(RATES, (0.5, 1.0)):
        label = f"p = {rate:g}, ε = {epsilon:g}"
        added = guaranteed(rate, epsilon).epsilon
        replaced = ds.amplify(ds.poisson(rate), epsilon, base="add-remove", neighbours="replace-one").epsilon
        assert replaced is not None
        worst = {
            base: worst_loss(contest(rate, "a", replaced=True), epsilon, base).lower
            for base in ("add-remove", "replace-one", "both")
        }
        larger &= worst["add-remove"] > added + CLOSE
        exact &= abs(worst["add-remove"] - replaced) < CLOSE
        needed &= abs(worst["replace-one"] - epsilon) < CLOSE and epsilon > added + CLOSE
        both &= abs(worst["both"] - added) < CLOSE
        rows += [
            {"setting": label, "what": "added or removed (Theorem 1)", "loss": added},
            {"setting": label, "what": "replaced", "loss": worst["add-remove"]},
            {"setting": label, "what": "replaced, sizes not hidden", "loss": worst["replace-one"]},
            {"setting": label, "what": "replaced, private under both", "loss": worst["both"]},
        ]
    return Result(
        rows,
        {
            "what M needs": "addition or removal" if needed else "replacement is enough",
            "loss for replaced records": "larger" if larger and exact else "no larger",
            "mechanism of both types": "as in Theorem 1" if both else "another",
        },
        "Replaced records lose exactly log((1 - p + p e^ε)/(1 - p + p e^-ε)) with mechanisms that are private under addition and "
        "removal, and log(1 + p(e^ε - 1)) with mechanisms that are private under both relations. Mechanisms that are private "
        "under replacement alone may show the size of the sample, and nothing is gained. That addition and removal are easier to "
        "analyse, as the text says, is no figure; that they lose less is.",
    )


def draw_relation(rows: Rows) -> Any:
    """Three losses for each setting."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "setting", "loss", "what", x_title="largest loss over all mechanisms"),
        "Which records differ, and what the mechanism hides",
        ["Poisson samples; a mechanism that hides values but not sizes", "gains nothing: its triangles lie at ε itself"],
    )
