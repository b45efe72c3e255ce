"""Section 5: whole clusters are drawn."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import dpsurvey as ds

from ..item import Result, Rows, Run
from . import printed
from .asking import NEARLY, against, at_most, dots_between, exact, loss, mixed, same, simple, tally, worst
from .corrected import cluster_test

UNEQUAL = ((2, 1, 3), (1, 1, 4, 6), (3, 5, 2, 2, 4), (6, 1, 1, 1))
# The curves of the test for a cluster.
TRUE, PRINTED, CORRECTED = "true loss", "printed lower bound", "corrected lower bound"
EPSILONS = (0.05, 0.2, 0.5, 1.0)


@cache
def _worst(sizes: tuple[int, ...], take: int, unit_in: int, epsilon: float) -> float:
    """The largest loss by linear programme: two theorems ask for the same ones."""
    return worst(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=unit_in), epsilon, "add-remove", "add-remove")


def _cases(run: Run) -> Rows:
    """Small populations of unequal clusters: both bounds as printed, the package's exact loss and the linear programme's."""
    rows: Rows = []
    for sizes in UNEQUAL:
        for take in range(1, len(sizes)):
            for unit_in in range(1, len(sizes) + 1):
                design = ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=unit_in)
                own, others = sizes[unit_in - 1], [size for place, size in enumerate(sizes, 1) if place != unit_in]
                for epsilon in EPSILONS[1::2] if run.quick else EPSILONS:
                    row = {"epsilon": epsilon, "sizes": " ".join(map(str, sizes)), "take": take, "unit in": unit_in}
                    row["lower"] = printed.cluster_lower(epsilon, take / len(sizes), own, others)
                    row["upper"] = printed.cluster_upper(epsilon, take / len(sizes), own, others)
                    row["exact"] = loss(design, epsilon, "add-remove", "add-remove")
                    row["worst"] = _worst(sizes, take, unit_in, epsilon)
                    rows.append(row)
    return rows


def lower_bound(run: Run) -> Result:
    """Theorem 5.1: the exact loss over cluster sizes, and how soon nothing is left of amplification."""
    clusters, take = 100, 10
    rows: Rows = []
    for epsilon in (0.01, 0.1, 1.0):
        sizes = sorted({round(size) for size in dots_between(1, 1000, 25 if run.quick else 60)})
        for size in sizes:
            found = loss(ds.cluster("cluster", ds.srs(n=take), sizes=(size,) * clusters), epsilon, "add-remove", "add-remove")
            rows.append({"epsilon": f"{epsilon:g}", "size": size, "share": found / epsilon})
    cases = _cases(run)
    # For equal clusters the bound is exact, so it tells from which size on nearly all of epsilon is lost.
    fraction = take / clusters
    lost = {
        epsilon: next(n for n in itertools.count(1) if printed.cluster_lower(epsilon, fraction, n, [n]) > NEARLY * epsilon)
        for epsilon in (1.0, 0.1, 0.01)
    }
    large = loss(ds.cluster("cluster", ds.srs(n=take), sizes=(10,) * clusters), 1.0, "add-remove", "add-remove")
    small = loss(ds.cluster("cluster", ds.srs(n=take), sizes=(1,) * clusters), 0.1, "add-remove", "add-remove")
    return Result(
        rows,
        {
            "holds": tally(at_most(row["lower"], row["worst"]) for row in cases),
            "large clusters": against(large, 1.0),
            "small clusters": against(small, 0.1),
        },
        f"{len(cases)} cases, each with its ε, were solved by linear programme. The size times ε decides, not the size: with "
        "one cluster in ten, 95 % of ε, from where on we call it no amplification, is reached from "
        + ", ".join(f"{size} units at ε = {epsilon:g}" for epsilon, size in lost.items())
        + ". The proof puts −1 for +1, which moves its sum by 2 and is no added unit; with one more +1 it stands.",
    )


def draw_lower(rows: Rows) -> Any:
    """Share of epsilon that is lost, by cluster size."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "size",
        "share",
        "epsilon",
        x_title="units in each cluster",
        y_title="ε′/ε",
        by_title="ε",
        x_scale=logarithmic(1, 1000),
        rules=[(1.0, "nothing left of sampling")],
    )
    return titled(
        chart, "Ten of a hundred clusters", "the loss runs from a tenth of ε to ε; how soon is a matter of size times ε"
    )


def upper_bound(run: Run) -> Result:
    """Theorem 5.2: both bounds and the exact loss for clusters of unequal sizes; equal sizes; a cap."""
    cases = _cases(run)
    rows: Rows = []
    shown = {
        "lower": "Theorem 5.1, smallest other cluster",
        "exact": "exact",
        "upper": "Theorem 5.2, largest other cluster",
    }
    sizes, take = (4, 1, 2, 3, 8, 12, 2, 5), 2
    for epsilon in dots_between(0.02, 1.5, 15 if run.quick else 50):
        own, others = sizes[0], sizes[1:]
        values = {
            "lower": printed.cluster_lower(epsilon, take / len(sizes), own, others),
            "exact": loss(ds.cluster("cluster", ds.srs(n=take), sizes=sizes, unit_in=1), epsilon, "add-remove", "add-remove"),
            "upper": printed.cluster_upper(epsilon, take / len(sizes), own, others),
            "cap": loss(
                ds.cluster("cluster", ds.srs(n=take), clusters=len(sizes), cap=max(sizes)), epsilon, "add-remove", "add-remove"
            ),
            "simple": loss(ds.srs(n=take, size=len(sizes)), epsilon, "replace-one", "replace-one"),
        }
        names = shown | {"cap": "guarantee with a public cap of 12", "simple": "simple random sample of units"}
        rows += [{"epsilon": epsilon, "what": names[key], "share": value / epsilon} for key, value in values.items()]
    equal = [
        same(
            loss(ds.cluster("cluster", ds.srs(n=2), sizes=(n,) * 5, unit_in=1), e, "add-remove", "add-remove"),
            bound(e, 2 / 5, n, [n] * 4),
        )
        for n in (1, 2, 5)
        for e in EPSILONS
        for bound in (printed.cluster_lower, printed.cluster_upper)
    ]
    single = [
        same(
            loss(ds.cluster("cluster", ds.srs(n=2), sizes=(1,) * 5, unit_in=1), e, "add-remove", "replace-one"),
            printed.sampling_theorem(2.0 * e, 2 / 5),
        )
        for e in EPSILONS
    ]
    return Result(
        rows,
        {
            "holds": tally(at_most(row["worst"], row["upper"]) for row in cases),
            "exact": tally(same(row["exact"], row["worst"]) for row in cases),
            "conserved": tally(at_most(row["worst"], row["epsilon"]) for row in cases),
            "equal clusters": tally(equal),
            "clusters of one": tally(single),
        },
        f"{len(cases)} cases, each with its ε, were solved by linear programme. The bound is a figure for one population; a "
        "guarantee for every population needs a public cap on cluster sizes. The discrepancy for clusters of one unit is the "
        "relation, as the paper says: replaced records lose what simple random sampling gives at 2ε.",
    )


def draw_upper(rows: Rows) -> Any:
    """Five curves over epsilon."""
    from ..pictures import lines, titled

    order = sorted(rows, key=lambda row: row["epsilon"])
    chart = lines(order, "epsilon", "share", "what", x_title="ε", y_title="ε′/ε", rules=[(1.0, "")])
    return titled(
        chart,
        "Unequal clusters: the exact loss lies between the theorems",
        "clusters of 4, 1, 2, 3, 8, 12, 2 and 5 units, two drawn, a unit added to the first",
    )


def test_for_a_cluster(run: Run) -> Result:
    """Theorem 5.3: a mechanism with two answers, one of two clusters drawn; the true loss and the claimed lower bound."""
    fraction, inside = 0.5, 1.0
    rows: Rows = []
    for detects in [inside + 0.1 * step for step in range(31)]:
        true = _true_loss(fraction, detects, inside)
        figures = {
            TRUE: true,
            PRINTED: printed.cluster_test(fraction, detects, inside),
            CORRECTED: cluster_test(fraction, detects, inside),
        }
        rows += [{"detects": detects, "what": what, "loss": value} for what, value in figures.items()]
    claimed, true_losses, corrected = (
        [row["loss"] for row in rows if row["what"] == what] for what in (PRINTED, TRUE, CORRECTED)
    )
    example = true_losses[0]
    # The true loss at the first point is that of the worst mechanism on a simple random sample of one in two.
    one_of_two = loss(ds.srs(n=1, size=2), inside, "replace-one", "replace-one")
    return Result(
        rows,
        {
            "example": example if same(example, one_of_two) else math.nan,
            "holds": "yes" if all(at_most(*pair) for pair in zip(claimed, true_losses, strict=True)) else "no",
            "corrected": tally(at_most(*pair) for pair in zip(corrected, true_losses, strict=True)),
        },
        f"In the example the claimed lower bound is {claimed[0]:.4f}. It is right with ε′ − ε″ in place of ε′, or with ε″ the "
        "other way round as in the proof.",
    )


def _true_loss(fraction: float, detects: float, inside: float) -> float:
    """Two answers: p with the cluster in the first population, p/e^inside in the second, p/e^detects without it."""
    p = 0.1
    other, without = p * math.exp(-inside), p * math.exp(-detects)
    first = [fraction * p + (1.0 - fraction) * without, fraction * (1.0 - p) + (1.0 - fraction) * (1.0 - without)]
    second = [fraction * other + (1.0 - fraction) * without, fraction * (1.0 - other) + (1.0 - fraction) * (1.0 - without)]
    return max(abs(math.log(one / two)) for one, two in zip(first, second, strict=True))


def draw_test(rows: Rows) -> Any:
    """Claimed, true and corrected."""
    from ..pictures import lines, titled

    chart = lines(
        [row for row in rows if row["what"] != CORRECTED],
        "detects",
        "loss",
        "what",
        x_title="ε′: how well the answer tells whether the cluster was drawn",
        y_title="loss",
    )
    return titled(
        chart,
        "Theorem 5.3: a lower bound above the truth",
        "one of two clusters, ε″ = 1; the corrected bound is the true loss itself",
    )


def units_inside_clusters(run: Run) -> Result:
    """Section 5.2: units drawn one by one inside drawn clusters."""
    rate, clusters, take = 0.1, 20, 2
    rows: Rows = []
    valid: list[bool] = []
    for size in sorted({round(size) for size in dots_between(1, 400, 15 if run.quick else 40)}):
        plugged, both = _two_stages(size, rate, 1.0, clusters, take)
        rows += [
            {"size": size, "what": "exact", "loss": both},
            {"size": size, "what": "Theorem 5.2 with the inner loss", "loss": plugged},
            {"size": size, "what": "rε", "loss": printed.two_stage_rule(1.0, rate)},
        ]
        valid.append(at_most(both, plugged))
    plugged, both = _two_stages(10, rate, 1.0, clusters, take)
    tiny = 1e-3
    known = _two_stages(100_000, rate, tiny, clusters, take)[0]
    return Result(
        rows,
        {
            "valid": tally(valid),
            "small epsilon": known / printed.two_stage_rule(tiny, rate),
            "at 1": _two_stages(100_000, rate, 1.0, clusters, take)[0] / printed.two_stage_rule(1.0, rate),
            "bound, ten units": plugged,
            "exact, ten units": both,
            "fixed takes": tally(
                _fixed_take(sizes, unit_take) for sizes, unit_take in (((3, 2, 4), 1), ((2, 2), 2), ((4, 3), 2))
            ),
        },
        f"The bound is valid and loose: with clusters of ten units, two of twenty drawn and r = 0.1 it gives {plugged:.4f} at ε "
        f"= 1, the exact loss is {both:.4f}; rε is for small ε. With a fixed number of units in each drawn cluster the package "
        "has the exact loss too, checked by linear programme.",
    )


def _two_stages(size: int, rate: float, epsilon: float, clusters: int, take: int) -> tuple[float, float]:
    """The bound that plugs the inner loss into Theorem 5.2, and the exact loss of both stages."""
    inner = loss(ds.poisson(rate), epsilon, "add-remove", "add-remove")
    sizes = (size,) * clusters
    return (
        printed.cluster_upper(inner, take / clusters, size, [size]),
        loss(
            ds.stages(ds.cluster("cluster", ds.srs(n=take), sizes=sizes), ds.poisson(rate)), epsilon, "add-remove", "add-remove"
        ),
    )


def _fixed_take(sizes: tuple[int, ...], unit_take: int, epsilon: float = 0.5) -> bool:
    """Whether the package has the worst loss of one drawn cluster and a fixed number of its units, a unit added to the first."""
    labels = iter("abcdefghij")
    clusters = [[next(labels) for _ in range(size)] for size in sizes]
    first, second = (
        mixed((1.0 / len(sizes), simple(each, unit_take)) for each in grown)
        for grown in ([[*clusters[0], "x"], *clusters[1:]], clusters)
    )
    design = ds.stages(ds.cluster("cluster", ds.srs(n=1), sizes=sizes, unit_in=1), ds.srs(n=unit_take))
    return same(loss(design, epsilon, "add-remove", "add-remove"), exact(first, second, epsilon, "add-remove"))


def draw_units_inside(rows: Rows) -> Any:
    """Bound, exact loss and rule over the cluster size."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(rows, "size", "loss", "what", x_title="units in each cluster", y_title="ε′, ε = 1", x_scale=logarithmic(1, 400))
    return titled(
        chart,
        "Two stages: clusters, then one unit in ten",
        "two of twenty clusters; the first stage still helps while clusters are small",
    )
