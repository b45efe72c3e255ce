"""Section 4.1: what sampling adds to a guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.loss.worst_case import Contest, worst_loss
from dpsurvey.privacy import NeighboursName, RelationName

from ..item import Result, Rows, Run
from .framework import yes

# Below this share of the loss that sampling takes away, the gain is called negligible.
NEGLIGIBLE = 0.1


def loss(design: Design, epsilon: float, neighbours: NeighboursName = "replace-one", base: RelationName | None = None) -> float:
    """The proved loss of everybody outside the sample."""
    found = ds.amplify(design, epsilon, base=base or neighbours, neighbours=neighbours).epsilon
    return float("inf") if found is None else found


def largest(
    design: Design, epsilon: float, neighbours: NeighboursName = "replace-one", base: RelationName | None = None
) -> float:
    """The largest loss that some mechanism attains, by linear programme over all of them."""
    found = ds.amplify(design, epsilon, base=base or neighbours, neighbours=neighbours).worst_case()
    return float("nan") if found is None else found.lower


def theorem_4_1(run: Run) -> Result:
    """Theorem 4.1 against the worst mechanism, without and with replacement."""
    rows: Rows = []
    for n, size in ((2, 4), (3, 5)):
        for epsilon in (0.25, 0.5, 1.0, 1.5, 2.0):
            without, back = ds.srs(n=n, size=size), ds.with_replacement(n, size=size)
            rows.append(
                {
                    "n": n,
                    "N": size,
                    "epsilon": epsilon,
                    "theorem": loss(without, epsilon),
                    "without replacement": largest(without, epsilon),
                    "with replacement": largest(back, epsilon),
                    "theorem with replacement": loss(back, epsilon),
                }
            )
    thrice = ds.with_replacement(3, size=3)
    all_drawn = largest(thrice, 1.0)
    # The chance that a unit is drawn at all, put into the theorem: a figure that is often quoted.
    ever = 1.0 - (1.0 - 1.0 / 3) ** 3
    quoted = ds.amplify(ds.poisson(ever), 1.0, base="add-remove", neighbours="add-remove").epsilon or 0.0
    fits = {
        name: all(abs(row[name] - row["theorem"]) < 1e-7 for row in rows) for name in ("without replacement", "with replacement")
    }
    tenth = ds.srs(n=10, size=100)
    delta = ds.amplify(tenth, 1.0, delta=1e-3, base="replace-one", neighbours="replace-one").delta or 0.0
    small = max(abs(loss(ds.srs(n=n, size=10), 1e-3) / (n / 10 * 1e-3) - 1.0) for n in range(1, 11))
    return Result(
        rows,
        {
            "holds": yes(fits["without replacement"]),
            "sampling": " and ".join(name for name, fit in fits.items() if fit) or "neither",
            "delta": yes(abs(delta / 1e-3 - tenth.largest_probability) < 1e-9),
        },
        f"Exact: some mechanism attains the theorem. With replacement three draws of three lose {all_drawn:.4f} at ε = 1, more "
        f"than ε. The often-quoted log(1 + (1 - (1 - 1/N)^n)(e^ε - 1)), here {quoted:.4f}, is only the ε-part of a statement "
        f"with δ > 0, also for mechanisms without a δ. ε' ≈ fε needs a small ε only: at ε = 0.001 it is off by at "
        f"most {small:.2%}, at every rate.",
    )


def draw_theorem(rows: Rows) -> Any:
    """Loss by epsilon: lines are theorems, dots the worst mechanism."""
    from ..pictures import beside, panels_of

    names = (
        ("theorem", "without replacement", "without replacement (Theorem 4.1)"),
        ("theorem with replacement", "with replacement", "with replacement"),
    )
    shown = [
        {"panel": f"{row['n']} of {row['N']}", "epsilon": row["epsilon"], "loss": row[line], "worst": row[dot], "what": name}
        for line, dot, name in names
        for row in rows
    ]
    return beside(
        panels_of(shown, "panel", _theorem_panel),
        "Theorem 4.1 is for sampling without replacement",
        "lines: theorems; dots: the worst mechanism, by linear programme",
    )


def _theorem_panel(rows: Rows, title: str) -> Any:
    import altair as alt

    from ..pictures import colours, distinct, lines

    chart = lines(rows, "epsilon", "loss", "what", x_title="ε on the sample", y_title="loss ε'", size=(270, 240))
    dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=45, opacity=1)
    seen = dots.encode(x="epsilon:Q", y="worst:Q", color=colours("what", distinct(rows, "what")))
    return (chart + seen).properties(title=alt.TitleParams(title, anchor="start", fontSize=12))


def of_poisson(rates: dict[str, float]) -> dict[frozenset[str], float]:
    """The law of the sample when each unit is drawn by itself."""
    law: dict[frozenset[str], float] = {frozenset(): 1.0}
    for unit, p in rates.items():
        with_unit = {sample | {unit}: q * p for sample, q in law.items() if p > 0.0}
        law = {sample: q * (1.0 - p) for sample, q in law.items() if p < 1.0} | with_unit
    return law


def confidential_sizes(epsilon: float, drawn: float = 2.0) -> float:
    """The largest loss of Poisson PPS when a record of size 1 among five is replaced by one of size 20."""
    laws: list[Mapping[Iterable[str], float]] = []
    for sizes in ({**dict.fromkeys("abcd", 1.0), "x": 1.0}, {**dict.fromkeys("abcd", 1.0), "y": 20.0}):
        total = sum(sizes.values())
        rates = {unit: min(1.0, drawn * size / total) for unit, size in sizes.items()}
        laws.append(dict(of_poisson(rates).items()))
    return worst_loss(Contest.of_units(*laws), epsilon, "both").lower


def bullets(run: Run) -> Result:
    """The five findings that Section 4.1 quotes from Bun and others."""
    clusters = {
        (size, epsilon): loss(ds.cluster("cluster", ds.srs(n=10), clusters=100, cap=size), epsilon, "add-remove")
        for size, epsilon in ((14, 0.49), (50, 0.01))
    }
    rounding = loss(ds.proportional(0.1, rounding="random"), 1.0, "add-remove")
    moved = loss(ds.size_rule(((9, 2, 1.0), (10, 6, 1.0))), 1.0, "add-remove")
    probabilities = (0.3, 0.5, 0.2, 0.6, 0.4)
    low = 0.1
    public = partial(ds.pps, "size", probabilities=probabilities, measure="public")
    sampford, listed = public(method="sampford"), public(method="systematic", order="as listed")
    pps = {"public sizes, Sampford": loss(sampford, low) / low, "public sizes, systematic": loss(listed, low) / low}
    secret = confidential_sizes(low) / low
    linear = all(abs(share / max(probabilities) - 1.0) < NEGLIGIBLE for share in pps.values()) and secret < 1.0
    order = {
        "random": loss(ds.systematic(step=6, size=60, order="random"), 0.5),
        "replaced": loss(ds.systematic(step=6, size=60, order="as listed"), 0.5, base="both"),
        "inserted": ds.amplify(ds.systematic(step=6, size=60, order="as listed"), 0.5, base="both", neighbours="add-remove").lower
        or 0.0,
        "added": ds.amplify(
            ds.systematic(step=6, size=60, order="as listed"), 0.5, base="add-remove", neighbours="add-remove"
        ).lower
        or 0.0,
    }
    shown: list[tuple[str, float, float]] = [
        *((f"clusters of {size} units, ε = {epsilon:g}", epsilon, found) for (size, epsilon), found in clusters.items()),
        ("stratified, proportional, random rounding", 1.0, rounding),
        ("allocation 2 of 9, 6 of 10", 1.0, moved),
        *((f"PPS, {name}, ε = 0.1", 1.0, share) for name, share in pps.items()),
        ("PPS, confidential sizes, ε = 0.1", 1.0, secret),
        ("systematic, random order", 0.5, order["random"]),
        ("systematic, fixed order, value replaced", 0.5, order["replaced"]),
        ("systematic, fixed order, unit inserted, base both", 0.5, order["inserted"]),
        ("systematic, fixed order, unit inserted, base add-remove", 0.5, order["added"]),
    ]
    rows: Rows = [{"design": name, "on the sample": spent, "loss": found, "share": found / spent} for name, spent, found in shown]
    gain = ["negligible" if row["share"] > 1.0 - NEGLIGIBLE else "some" for row in rows[:2]]
    return Result(
        rows,
        {
            "small clusters": gain[0],
            "large clusters": gain[1],
            "proportional": yes(rounding < 1.0),
            "from the data": _effect(moved, 1.0),
            "pps": yes(linear),
            "random order": yes(abs(order["random"] - loss(ds.srs(n=10, size=60), 0.5)) < 1e-9),
            "fixed order": _effect(max(order["replaced"], order["inserted"]), 0.5),
        },
        f"Ours: a gain of less than {NEGLIGIBLE:.0%} is called negligible, a loss within 0.1 % of ε no amplification, and PPS "
        f"linear where the share is within {NEGLIGIBLE:.0%} of the largest probability. "
        "Clusters: 10 of 100 drawn. What decides is the product of size and ε: half of the gain is lost near "
        "2nε = log((1 - f)/f). PPS: at ε = 0.1 the loss is about ε times the largest inclusion probability (0.6) if sizes are "
        f"public; with confidential sizes, where that probability is 1, it is {secret:.2f} ε. Systematic: every 6th of 60 at "
        f"ε = 0.5; a value replaced costs what a cluster sample costs; a unit inserted costs at least {order['inserted']:.4f} "
        f"with mechanisms that are private under both relations, and at least {order['added']:.4f} with those that are private "
        "under addition and removal.",
    )


def _effect(found: float, spent: float) -> str:
    return "degradation" if found > spent * (1.0 + 1e-6) else ("no amplification" if found > spent * 0.999 else "amplification")


def draw_bullets(rows: Rows) -> Any:
    """The share of the loss on the sample that is left outside, by design."""
    import altair as alt

    from ..pictures import dots, titled

    shown = [
        {**row, "kind": "less than on the sample" if row["share"] < 0.999 else ("the same" if row["share"] <= 1.001 else "more")}
        for row in rows
    ]
    shown.sort(key=lambda row: ["less than on the sample", "the same", "more"].index(str(row["kind"])))
    chart = dots(
        shown,
        "design",
        "share",
        "kind",
        x_title="loss outside the sample over loss on the sample (log scale)",
        x_scale=alt.Scale(type="log", domain=[0.1, 20], nice=False),
        rule=(1.0, "no gain"),
    )
    return titled(
        chart,
        "Section 4.1: what five kinds of design gain",
        "left of the line sampling adds to the guarantee, right of it it takes away",
    )
