"""Section 6: any design, in proportion to size, one cluster in proportion to size, and every k-th unit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dpsurvey as ds
from dpsurvey.loss.worst_case import worst_loss

from ..item import Result, Rows, Run
from . import printed
from .asking import CLOSE, Law, against, contest_of, exact, loss, mixed, one_by_one, same, simple, tally
from .corrected import inclusion_test

EPSILON = 1.0
OTHERS = "abcdefghi"


def _drawn(laws: Mapping[tuple[str, ...], float]) -> Law:
    return {frozenset(sample): chance for sample, chance in laws.items()}


def _clusters(target: str, size: int) -> Law:
    """One of two clusters of `size` units."""
    return _drawn({(target, *OTHERS[: size - 1]): 0.5, tuple(OTHERS[size - 1 : 2 * size - 1]): 0.5})


# A design as the law of its sample, given the label of the record that is replaced and whether it is the larger one.
DESIGNS: dict[str, Callable[[str, bool], Law]] = {
    "one of four units": lambda target, _: simple([target, *"abc"], 1),
    "each with probability 0.9": lambda target, _: one_by_one(dict.fromkeys([target, *"ab"], 0.9)),
    "everybody": lambda target, _: {frozenset([target, *"abc"]): 1.0},
    "one of two clusters of one": lambda target, _: _clusters(target, 1),
    "one of two clusters of four": lambda target, _: _clusters(target, 4),
    "one unit, by confidential size": lambda target, large: mixed(
        [(0.75 if large else 0.25, {frozenset(target): 1.0}), (0.25 if large else 0.75, simple("abc", 1))]
    ),
    "each unit, by confidential size": lambda target, large: one_by_one(
        {target: 1.0 if large else 0.4} | dict.fromkeys("abcd", 1e-9 if large else 0.4)
    ),
}


def _bounds(first: Law, second: Law, answers: Mapping[frozenset[str], float], units: Sequence[tuple[str, str]]) -> list[float]:
    """Proposition 6.1 for each unit; units are (label before, label after)."""
    found = []
    for before, after in units:
        a, p, _ = _given(first, answers, before)
        a_, p_, q_ = _given(second, answers, after)
        if a > 0.0 and a_ > 0.0:
            found.append(inclusion_test(p / p_, a, a_, q_ / p_))
    return found


def _given(law: Law, answers: Mapping[frozenset[str], float], unit: str) -> tuple[float, float, float]:
    """The inclusion probability of a unit, and the chance of the event given that it is drawn, and that it is not."""
    a = math.fsum(chance for sample, chance in law.items() if unit in sample)
    with_it = math.fsum(chance * answers[sample] for sample, chance in law.items() if unit in sample)
    without = math.fsum(chance * answers[sample] for sample, chance in law.items() if unit not in sample)
    return a, with_it / a if a > 0.0 else 0.0, without / (1.0 - a) if a < 1.0 - 1e-12 else 0.0


def any_design(run: Run) -> Result:
    """Proposition 6.1: its bound for the worst mechanism of several designs, and for random designs and mechanisms."""
    rows: Rows = []
    losses: dict[str, float] = {}
    for name, design in DESIGNS.items():
        first, second = design("x", True), design("y", False)
        contest = contest_of(first, second)
        best = worst_loss(contest, EPSILON, "both")
        if best.witness.contest != contest:
            first, second = second, first
        labels = sorted({unit for law in (first, second) for sample in law for unit in sample})
        answers = {
            sample: best.witness(tuple(int(unit in sample) for unit in labels)) for law in (first, second) for sample in law
        }
        target = ("x", "y") if any("x" in sample for sample in first) else ("y", "x")
        bound = max(_bounds(first, second, answers, [target]))
        losses[name] = best.lower
        rows += [
            {"design": name, "what": "worst loss", "loss": best.lower},
            {"design": name, "what": "Proposition 6.1", "loss": max(0.0, bound)},
        ]
    return Result(
        rows,
        {
            "holds": tally(_random_cases(run)),
            "included for certain": against(losses["everybody"], EPSILON),
            "large clusters": against(losses["one of two clusters of four"], EPSILON),
            "large ratio": against(losses["one unit, by confidential size"], EPSILON),
            "depends on data": against(losses["each unit, by confidential size"], EPSILON),
        },
        "The bound drops one term that is not negative. Equation 5 lacks the indices of q′ and p′ in its last line. A loss above "
        "95 % of ε is called no amplification.",
    )


def _random_cases(run: Run) -> list[bool]:
    """Random designs, populations and mechanisms with two answers: whether the bound is below the loss of the answer."""
    rng, held = run.rng(1), []
    for _ in range(run.draws(2000, 200)):
        first = _random_law(rng, "x")
        second = _random_law(rng, "y")
        answers = {sample: float(rng.uniform(0.01, 0.99)) for law in (first, second) for sample in law}
        chances = [math.fsum(chance * answers[sample] for sample, chance in law.items()) for law in (first, second)]
        lost = math.log(chances[0] / chances[1])
        held += [bound <= lost + CLOSE for bound in _bounds(first, second, answers, [("x", "y"), ("a", "a"), ("b", "b")])]
    return held


def _random_law(rng: Any, target: str) -> Law:
    units = [target, "a", "b"]
    samples = [frozenset(each) for n in range(1, 4) for each in itertools.combinations(units, n)]
    return dict(zip(samples, rng.dirichlet([0.5] * len(samples)).tolist(), strict=True))


def draw_any(rows: Rows) -> Any:
    """Bound and worst loss by design."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "design", "loss", "what", x_title="loss of the worst mechanism, ε = 1", rule=(1.0, "ε")),
        "Proposition 6.1: three ways in which sampling fails to hide",
        "inclusion that is certain, that can be detected, that depends on data",
    )


def one_cluster_by_size(run: Run) -> Result:
    """Section 6.2: one cluster with probability in proportion to its size."""
    rows: Rows = []
    for epsilon in (0.1, 0.5, 1.0):
        for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100):
            by_size = loss(
                ds.cluster("cluster", ds.pps("size", n=1), sizes=(size,) * 4, unit_in=1), epsilon, "add-remove", "add-remove"
            )
            alike = loss(ds.cluster("cluster", ds.srs(n=1), sizes=(size,) * 4), epsilon, "add-remove", "add-remove")
            for how, found in (("in proportion to size", by_size), ("each alike", alike)):
                rows.append({"epsilon": f"ε = {epsilon:g}", "size": size, "how": how, "share": found / epsilon})
    two = ds.cluster("cluster", ds.pps("size", n=1), sizes=(1, 1), unit_in=1)
    first, second = _by_size([("a", "x"), ("b",)]), _by_size([("a",), ("b",)])
    smallest = exact(first, second, EPSILON, "add-remove")
    large = loss(ds.cluster("cluster", ds.pps("size", n=1), sizes=(20, 20, 20), unit_in=1), EPSILON, "add-remove", "add-remove")
    return Result(
        rows,
        {
            "large clusters": against(large, EPSILON),
            "smallest": smallest,
            "formula": tally([same(smallest, loss(two, EPSILON, "add-remove", "add-remove"))]),
        },
        "For large clusters the loss tends to ε + log((1 + 1/n)/(1 + 1/N)), above ε: the draw itself follows the data. With "
        f"three clusters of 20 units it is {large:.4f} at ε = 1, with two of one unit {smallest:.4f}.",
    )


def _by_size(clusters: Sequence[tuple[str, ...]]) -> Law:
    total = sum(map(len, clusters))
    return {frozenset(each): len(each) / total for each in clusters}


def draw_one_cluster(rows: Rows) -> Any:
    """Share of epsilon by cluster size, for both ways to draw."""
    from ..pictures import beside, between, lines, logarithmic, panels_of

    def panel(own: Rows, name: str) -> Any:
        chart = lines(
            own,
            "size",
            "share",
            "how",
            x_title="units in each of four clusters",
            y_title="ε′/ε",
            x_scale=logarithmic(1, 100),
            y_scale=between(0.0, 1.5),
            rules=[(1.0, "ε")],
            size=(230, 240),
        )
        return chart.properties(title=name)

    return beside(
        panels_of(rows, "epsilon", panel),
        "One of four clusters: drawn in proportion to size, the loss can exceed ε",
        "the paper says no amplification for large clusters; it is more: a cluster that grows by a unit is also drawn more often",
    )


def every_kth(run: Run) -> Result:
    """Section 6.3: every k-th unit, in a secret random order or in a fixed one."""
    step, epsilon = 3, 0.5
    rows: Rows = []
    for n in range(1, 7):
        design = ds.systematic(step=step, size=step * n, order="as listed")
        figures = {
            "fixed order, a unit inserted": loss(design, epsilon, "add-remove", "add-remove"),
            "fixed order, a value replaced": loss(design, epsilon, "add-remove", "replace-one"),
            "random order, a value replaced": loss(
                ds.systematic(step=step, size=step * n, order="random"), epsilon, "add-remove", "replace-one"
            ),
        }
        rows += [{"units": n, "what": what, "share": found / epsilon} for what, found in figures.items()]
    law, other = (mixed((1 / 24, _every_second(order)) for order in itertools.permutations("abc" + new)) for new in "xy")
    simple_law = simple("abcx", 2)
    order_is_simple = law.keys() == simple_law.keys() and all(same(law[each], simple_law[each]) for each in law)
    # A value replaced at its place of a fixed list is one of two clusters.
    replaced = [
        same(
            exact(_every_second("xabc"), _every_second("yabc"), e, "add-remove"),
            loss(ds.cluster("cluster", ds.srs(n=1), sizes=(2, 2), unit_in=1), e, "add-remove", "replace-one"),
        )
        for e in (0.2, 1.0)
    ]
    twelve = loss(ds.systematic(step=step, size=step * 4, order="as listed"), epsilon, "add-remove", "add-remove")
    random = loss(ds.systematic(step=5, size=100, order="random"), EPSILON, "replace-one", "replace-one")
    return Result(
        rows,
        {
            "random order": "yes" if order_is_simple else "no",
            "random order, loss": tally(
                [
                    same(random, loss(ds.srs(n=20, size=100), EPSILON, "replace-one", "replace-one")),
                    same(exact(law, other, EPSILON, "replace-one"), printed.sampling_theorem(EPSILON, 1 / 2)),
                ]
            ),
            "value replaced": tally(replaced),
            "unit inserted": against(twelve, epsilon),
            "twelve units": twelve,
        },
        "It is cluster sampling only for a value replaced at its place. A unit inserted or removed shifts everybody behind it, "
        f"and the loss is up to (m + 1)ε for m units in the sample: {twelve:.4f} for every third of twelve units at ε = 0.5.",
    )


def _every_second(units: Sequence[str]) -> Law:
    return _drawn({tuple(units[0::2]): 0.5, tuple(units[1::2]): 0.5})


def draw_every_kth(rows: Rows) -> Any:
    """Loss over epsilon by the number of units in the sample, as bars."""
    from ..pictures import bars, titled

    chart = bars(rows, "units", "share", "what", x_title="units in the sample, every third", y_title="ε′/ε")
    return titled(
        chart,
        "Systematic sampling: who stands where",
        [
            "ε = 0.5 for a record more or less; a replaced value costs up to 2ε, an inserted unit about as many ε",
            "as there are units in the sample",
        ],
    )
