"""Section 4.2 and Table 4.2: coverage, sampling and response as random stages, by level."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.loss.worst_case import Contest, worst_loss
from dpsurvey.privacy import all_settings

from ..item import Result, Rows, Run, Value
from .framework import yes
from .sampling import NEGLIGIBLE, loss, of_poisson

STAGES = {"coverage": ("FR", 0.9), "sampling": ("S", 0.1), "response": ("NR", 0.2)}


def with_stages(stages: tuple[str, ...]) -> float:
    """The loss at epsilon 1 when these stages lie inside the mechanism and each unit passes them independently."""
    design: Design = ds.poisson(STAGES["sampling"][1] if "sampling" in stages else 1.0)
    design = ds.responding(design, at_most=STAGES["response"][1]) if "response" in stages else design
    design = ds.covered(design, at_most=STAGES["coverage"][1]) if "coverage" in stages else design
    return loss(design, 1.0, "add-remove")


def table_4_2(run: Run) -> Result:
    """Table 4.2: which stages lower the loss, by level."""
    rows: Rows = []
    values: dict[str, float | str | Value] = {}
    for setting in all_settings("add-remove"):
        if setting.given is not None:
            continue
        whole, inside = with_stages(setting.stages_inside), []
        for stage, (name, rate) in STAGES.items():
            without = with_stages(tuple(each for each in setting.stages_inside if each != stage))
            inside += [name] if whole < without * (1.0 - 1e-9) else []
            rows.append({"level": setting.protect, "stage": stage, "rate": rate, "with": whole, "without": without})
        values[setting.protect] = ", ".join(sorted(inside)) or "none"
    return Result(
        rows,
        values,
        "Units are on the frame, drawn and respond independently, with probabilities of at most 0.9, 0.1 and 0.2; ε = 1.",
    )


def draw_table_4_2(rows: Rows) -> Any:
    """A cell for each level and stage."""
    from ..pictures import cells, titled

    names = {"coverage": "frame (FR)", "sampling": "sampling (S)", "response": "response (NR)"}
    shown = [
        {
            "level": row["level"],
            "stage": names[row["stage"]],
            "word": f"{row['without']:.3f} → {row['with']:.3f}" if row["with"] < row["without"] else "outside",
            "kind": "amplifies" if row["with"] < row["without"] else "outside the mechanism",
        }
        for row in rows
    ]
    shades = {"amplifies": "#cfe3d4", "outside the mechanism": "#ebebed"}
    return titled(
        cells(shown, "stage", "level", "word", "kind", shades, width=150),
        "Table 4.2: what amplifies at which level",
        "loss at ε = 1 without and with the stage inside the mechanism",
    )


def stages_around(run: Run) -> Result:
    """Section 4.2: coverage and response as random stages, alone and after a sample of fixed size."""
    rows: Rows = [
        {"stage": "coverage", "rate": rate, "loss": loss(ds.covered(ds.poisson(1.0), at_most=rate), 1.0, "add-remove")}
        for rate in (0.9, 0.95, 0.99, 1.0)
    ]
    rows += [
        {"stage": "response", "rate": rate, "loss": loss(ds.responding(ds.poisson(1.0), at_most=rate), 1.0, "add-remove")}
        for rate in (0.05, 0.1, 0.2, 0.5, 0.8, 1.0)
    ]
    chain, product = ds.responding(ds.srs(n=2, size=4), at_most=0.5), ds.poisson(0.25)
    stated = loss(chain, 1.0, base="add-remove")
    exact, hoped = worst_loss(_responding("abcx", "abcy"), 1.0, "add-remove").lower, loss(product, 1.0, "add-remove")
    rows += [
        {"stage": "2 of 4, then response", "rate": 0.5, "loss": exact},
        {"stage": "rates multiplied", "rate": 0.25, "loss": hoped},
    ]
    known = ds.amplify(ds.srs(n=10, size=100), 1.0, base="replace-one", neighbours="replace-one").epsilon_in_sample
    covered, responded = rows[0]["loss"], rows[6]["loss"]
    return Result(
        rows,
        {
            "respondents": "none" if with_stages(()) >= 1.0 - 1e-12 else "some",
            "same as known": yes(known is not None and abs(known - with_stages(())) < 1e-9),
            "coverage": "negligible" if covered > 1.0 - NEGLIGIBLE else "some",
            "response": "negligible" if responded > 1.0 - NEGLIGIBLE else "some",
            "difficult": yes(exact > hoped * 1.01 and abs(stated - exact) < 1e-6),
        },
        f"Ours: a gain of less than {NEGLIGIBLE:.0%} is called negligible. "
        "How sampling and response go together is left open. After a sample of fixed size the rates do not multiply: 2 of 4 "
        f"drawn, response at most one half, ε = 1, one record replaced: {exact:.4f} is attained, the product of the rates would "
        f"say {hoped:.4f}. Independent draws and independent response do multiply. A rate counts only as an upper bound on "
        "every unit's own probability.",
    )


def _responding(first: str, second: str, n: int = 2, response: float = 0.5) -> Contest:
    """Two frames that differ by one unit: n units drawn, each responds by chance."""

    def law(units: str) -> dict[Iterable[str], float]:
        found: dict[Iterable[str], float] = {}
        for sample in itertools.combinations(units, n):
            for who, p in of_poisson(dict.fromkeys(sample, response)).items():
                found[who] = found.get(who, 0.0) + p / math.comb(len(units), n)
        return found

    return Contest.of_units(law(first), law(second))


def draw_stages(rows: Rows) -> Any:
    """Loss by rate for the two stages, and the chain beside the product."""
    from ..pictures import dots, titled

    shown = [{"label": f"{row['stage']}, {row['rate']:g}", "loss": row["loss"], "kind": _kind(row["stage"])} for row in rows]
    chart = dots(shown, "label", "loss", "kind", x_title="loss at ε = 1", rule=(1.0, "ε"))
    return titled(
        chart,
        "Section 4.2: coverage and response as stages",
        "each rate is an upper bound for every unit; the last two: what holds, what does not",
    )


def _kind(stage: str) -> str:
    return {"rates multiplied": "not a bound"}.get(stage, "exact loss")
