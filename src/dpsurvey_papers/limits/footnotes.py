"""The footnotes: unequal probabilities, inclusion that is known, and samples of fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import dpsurvey as ds
from dpsurvey.loss.worst_case import Contest, worst_loss

from ..item import Result, Rows, Run
from .theorem import CLOSE, guaranteed, poisson, units

SPENT = 1.0


def unequal(run: Run) -> Result:
    """Footnote 1: work with the largest probability."""
    rates = {"a": 0.1, "b": 0.3, "x": 0.5}
    top = max(rates.values())
    claim = guaranteed(top, SPENT).epsilon
    rows: Rows = []
    for unit, rate in rates.items():
        without = {name: p for name, p in rates.items() if name != unit}
        loss = worst_loss(units(poisson(rates), poisson(without)), SPENT, "add-remove").lower
        rows.append({"design": f"independent, unit with p = {rate:g}", "what": "worst mechanism", "loss": loss})
    own = [guaranteed(rate, SPENT).epsilon for rate in rates.values()]
    alone = all(abs(row["loss"] - each) < CLOSE for row, each in zip(rows, own, strict=True)) and max(own) <= claim + CLOSE
    # One of two clusters: every unit has probability 1/2, as the unit with the largest one above.
    drawn = ({frozenset("ab"): top, frozenset(second): top} for second in ("cx", "c"))
    cluster = worst_loss(units(*drawn), SPENT, "add-remove").lower
    rows.append({"design": "one of two clusters, everybody with p = 0.5", "what": "worst mechanism", "loss": cluster})
    rows += [{"design": row["design"], "what": "Theorem 1 with the largest p", "loss": claim} for row in rows]
    return Result(
        rows,
        {
            "independent": "holds" if alone else "fails",
            "procedures": "in general" if cluster <= claim + CLOSE else "independent inclusion" if alone else "none",
            "clusters": cluster,
        },
        "For independent draws, which are what the theorem is about, each unit even has the loss of its own probability. With "
        f"the same probabilities, one of two clusters loses {cluster:.4f} where the largest p gives {claim:.4f}.",
    )


def draw_unequal(rows: Rows) -> Any:
    """Worst mechanisms beside the theorem with the largest p."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "design", "loss", "what", x_title="loss of the unit, ε = 1 on the sample"),
        "The largest probability is enough for independent draws",
        "and not for clusters, where the others of a cluster give the unit away",
    )


def _grid(sigma: float) -> tuple[Any, Any, Any]:
    """Densities of a noisy count with and without the record, on a fine grid, and its step."""
    at = np.linspace(-12.0 * sigma, 12.0 * sigma + 1.0, 40_001)
    gone, there = (np.exp(-0.5 * ((at - mean) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi)) for mean in (0.0, 1.0))
    return there, gone, at[1] - at[0]


def known(run: Run) -> Result:
    """Footnote 2: what is left of amplification when inclusion is known."""
    rate, sigma, epsilons = 0.1, 1.0, [step / 10 for step in range(31)]
    profile = ds.PrivacyProfile.gaussian(sigma, "add-remove")
    secret = profile.amplify(rate)
    there, gone, step = _grid(sigma)
    # Known inclusion: with probability p the two laws are seen as they are, else there is nothing to see.
    rows: Rows = []
    less, in_order = True, True
    for epsilon in epsilons:
        sums = (np.maximum(0.0, one - math.exp(epsilon) * other).sum() * step for one, other in ((there, gone), (gone, there)))
        found = {
            "no sampling": profile.delta(epsilon),
            "sampled, inclusion known": rate * float(max(sums)),
            "sampled, inclusion secret": secret.delta(epsilon),
        }
        alone, listed, unseen = found.values()
        less &= listed < alone
        in_order &= unseen <= listed * (1.0 + 1e-6) + 1e-15
        rows += [{"epsilon": epsilon, "seen": name, "delta": delta} for name, delta in found.items() if delta > 1e-9]
    # Rényi of order 2, by its definition: the mean square of the likelihood ratio.
    whole, hidden = (float((gone * (1.0 - share + share * there / gone) ** 2).sum() * step) for share in (1.0, rate))
    public = 1.0 - rate + rate * whole
    answer = guaranteed(rate, SPENT)
    leaks = answer.attackers()["sample list leaks"]["epsilon"]
    return Result(
        rows,
        {
            "pure": "no amplification" if leaks == SPENT and answer.epsilon < SPENT - CLOSE else "amplification",
            "approximate": "some, but less" if less and in_order else "none or as much",
            "Rényi": "some, but less" if hidden < public < whole else "none or as much",
        },
        f"Gaussian noise of deviation 1 on a count, p = 0.1. Rényi divergence of order 2: {math.log(whole):.4f} without "
        f"sampling, {math.log(public):.4f} if inclusion is known, {math.log(hidden):.4f} if it is secret.",
    )


def draw_known(rows: Rows) -> Any:
    """δ by ε: no sampling, known, secret."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(rows, "epsilon", "delta", "seen", x_title="ε", y_title="δ", y_scale=logarithmic(1e-9, 1.0))
    return titled(
        chart,
        "A sample that is known amplifies δ, and not ε",
        "Gaussian noise on a count; known inclusion multiplies δ by p = 0.1, secrecy moves the curve to the left as well",
    )


def fixed_size(run: Run) -> Result:
    """Footnote 3: independent inclusion against samples of a fixed size."""
    size, better = 10, True
    rows: Rows = []
    for n in (1, 2, 5):
        rate = n / size
        independent = guaranteed(rate, SPENT).epsilon
        drawn = Contest((size - 1, 1), _drawn(size, n), (size - 1, 0), {(n, 0): 1.0})
        fixed = worst_loss(drawn, SPENT, "add-remove").lower
        rows += [
            {"setting": f"p = {rate:g}, one record added or removed", "what": "Poisson", "loss": independent},
            {"setting": f"p = {rate:g}, one record added or removed", "what": "fixed size", "loss": fixed},
        ]
        better &= independent < fixed
    replaced: dict[str, float | None] = {
        "Poisson": ds.amplify(ds.poisson(0.5), SPENT, base="add-remove", neighbours="replace-one").epsilon,
        "fixed size": ds.amplify(ds.srs(n=5, size=size), SPENT, base="replace-one", neighbours="replace-one").epsilon,
    }
    rows += [{"setting": "p = 0.5, one record replaced", "what": what, "loss": loss} for what, loss in replaced.items()]
    return Result(
        rows,
        {"independent inclusion": "better" if better else "no better"},
        "For one record added or removed, and mechanisms that are private under that relation. With replaced records, and "
        "mechanisms that are private under replacement on samples of one size, a fixed size is the better one.",
    )


def _drawn(size: int, n: int) -> dict[tuple[int, int], float]:
    """Simple random samples of n of the population with the record: the others drawn, and whether the record is."""
    return {(n, 0): 1.0 - n / size, (n - 1, 1): n / size}


def draw_fixed_size(rows: Rows) -> Any:
    """Both designs beside each other."""
    from ..pictures import dots, titled

    return titled(
        dots(rows, "setting", "loss", "what", x_title="largest loss over all mechanisms, ε = 1 on the sample"),
        "Independent inclusion or a fixed size",
        "independent inclusion is better for records that come and go; with replaced ones it depends on the mechanism",
    )
