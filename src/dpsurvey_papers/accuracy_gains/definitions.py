"""Definitions 2, 3 and 6, Theorem 1: what privacy is, what noise keeps it, and what a sample makes of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import dpsurvey as ds
from dpsurvey.loss.worst_case import Contest, worst_delta, worst_loss
from dpsurvey.mechanism import Laplace
from dpsurvey.privacy import Relation

from ..item import Result, Rows, Run

Law = tuple[float, ...]
# Three outcomes in order, from a data set and from its neighbour: the distribution functions are close everywhere.
LAWS: tuple[Law, Law] = ((0.5, 0.5, 0.0), (0.5, 0.25, 0.25))
YES = {True: "yes", False: "no"}


def _probability(law: Law, event: tuple[int, ...]) -> float:
    return math.fsum(law[outcome] for outcome in event)


def _worst_ratio(events: list[tuple[int, ...]]) -> float:
    """The largest ratio of an event's two probabilities, either way round."""
    pairs = [(_probability(LAWS[a], event), _probability(LAWS[b], event)) for event in events for a, b in ((0, 1), (1, 0))]
    return max(one / other if other > 0.0 else math.inf for one, other in pairs if one > 0.0)


def half_lines(run: Run) -> Result:
    """Definitions 2 and 3 look at events {output <= w} alone: whether they bound the others, by enumeration."""
    outcomes = range(len(LAWS[0]))
    events = [event for size in outcomes for event in itertools.combinations(outcomes, size + 1)]
    lines = [tuple(range(last + 1)) for last in outcomes]
    bound = _worst_ratio(lines)
    rows: Rows = []
    for event in events:
        kind = "a half-line, as in the definitions" if event in lines else "another event"
        label = "{" + ", ".join(str(outcome + 1) for outcome in event) + "}"
        ratio = _worst_ratio([event])
        for law, name in zip(LAWS, ("a data set", "its neighbour"), strict=True):
            rows.append(
                {
                    "event": f"{label} {'≤' if event in lines else ''}".strip(),
                    "kind": kind,
                    "law": name,
                    "probability": _probability(law, event),
                    "ratio": ratio if math.isfinite(ratio) else None,
                }
            )
    # The smallest delta at the epsilon that half-lines give, over all events.
    missing = max(
        _probability(LAWS[a], event) - bound * _probability(LAWS[b], event) for event in events for a, b in ((0, 1), (1, 0))
    )
    values: dict[str, Any] = {
        "all events": YES[_worst_ratio(events) <= bound],
        "all events with delta": YES[missing <= 0.0],
    }
    note = (
        f"Half-lines have ratios of at most {bound:.4g}, a loss of {math.log(bound):.4f}. The third outcome has probability 0 or "
        f"{LAWS[1][2]:g}: no ε, and δ = {missing:g} at that loss. The proof of Theorem 1 holds for every event."
    )
    return Result(rows, values, note)


def draw_half_lines(rows: Rows) -> Any:
    """Every event with its two probabilities."""
    from ..pictures import dots, titled

    chart = dots(rows, "event", "probability", "law", x_title="probability of the event")
    return titled(
        chart,
        "Close on half-lines, apart on an event",
        "≤ marks the events that Definitions 2 and 3 look at; {3} can happen under one law alone",
    )


def laplace_noise(run: Run) -> Result:
    """Section 2.3: the loss and the variance of Laplace noise, and what independent noise on several components loses."""
    epsilon, range_of_one = 0.5, 2_000_000
    noise = Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "replace-one"), range_of_one)
    doubled = Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "replace-one"), 2 * range_of_one)
    power = math.log(doubled.variance / noise.variance) / math.log(2.0)
    rows: Rows = []
    for components in (1, 2, 3, 5, 10):
        # One record may move every component by its range: the L1 sensitivity is their sum, the scale that of one.
        lost = Laplace(noise.scale, float(components * range_of_one)).profile(Relation.REPLACE_ONE).epsilon(0.0)
        kept = Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "replace-one"), components * range_of_one)
        rows.append(
            {
                "components": components,
                "noise": "scale from the L1 sensitivity",
                "loss": kept.profile(Relation.REPLACE_ONE).epsilon(0.0) / epsilon,
            }
        )
        rows.append({"components": components, "noise": "as printed: scale Δ/ε on each", "loss": lost / epsilon})
    expected = 2.0 * (range_of_one / epsilon) ** 2
    values: dict[str, Any] = {
        "one component": "ε" if abs(float(rows[0]["loss"]) - 1.0) < 1e-12 else "another loss",
        "variance": "2(Δ/ε)²" if abs(noise.variance / expected - 1.0) < 1e-9 else "another variance",
        "power": f"Δ^{power:.3g}",
        "two components": f"{float(rows[3]['loss']):.4g} ε",
    }
    note = (
        "Section 2.3 has the variance right, and Section 2.2 calls it proportional to Δ. Noise on several components needs the "
        "L1 sensitivity of the whole output; a budget that is split among the components does the same."
    )
    return Result(rows, values, note)


def draw_laplace_noise(rows: Rows) -> Any:
    """Loss by the number of components, for both scales."""
    from ..pictures import lines, titled

    chart = lines(
        rows,
        "components",
        "loss",
        "noise",
        x_title="components of the output, each moved by one record",
        y_title="loss in units of ε",
        points=True,
    )
    return titled(chart, "Independent Laplace noise on several components", "with the scale of one component the losses add up")


def _srs(units: str, n: int) -> dict[Iterable[str], float]:
    return dict.fromkeys(itertools.combinations(units, n), 1.0 / math.comb(len(units), n))


def theorem_one(run: Run) -> Result:
    """Theorem 1 against the exact worst case over all mechanisms, and its hypothesis against noise made for N records."""
    rows: Rows = []
    delta, holds, tight, weights = 0.01, True, True, True
    for size in (2, 3, 4, 5):
        for n in range(1, size):
            contest = Contest.of_units(_srs("abcd"[: size - 1] + "x", n), _srs("abcd"[: size - 1] + "y", n))
            for epsilon in (0.5, 2.0):
                claim = ds.amplify(ds.srs(n=n, size=size), epsilon, delta=delta, base="replace-one", neighbours="replace-one")
                assert claim.epsilon is not None
                exact = worst_loss(contest, epsilon, "replace-one").lower
                exact_delta = worst_delta(contest, claim.epsilon, epsilon, delta, "replace-one").delta
                share = delta * n / size
                holds &= exact <= claim.epsilon + 1e-7 and exact_delta <= share + 1e-7
                tight &= abs(exact - claim.epsilon) < 1e-6 and abs(exact_delta - share) < 1e-6
                # The weight k of min(a, b) <= k a + (1 - k) b in appendix A.
                weights &= 0.0 < math.exp(-epsilon) - n / size * math.expm1(-epsilon) < 1.0
                row = {"n": n, "N": size, "epsilon": epsilon, "delta": exact_delta, "delta_claimed": share}
                label = f"n = {n} of {size}, ε = {epsilon:g}"
                rows.append({"case": label, "what": "exact worst case", "loss": exact} | row)
                rows.append({"case": label, "what": "Theorem 1", "loss": claim.epsilon} | row)
    mended, stale = _noise_for_everybody(10, 1, 0.5)
    label = "n = 1 of 10, ε = 0.5, noise made for N = 10"
    rows.append({"case": label, "what": "exact worst case", "loss": stale})
    rows.append({"case": label, "what": "Theorem 1", "loss": mended})
    values: dict[str, Any] = {
        "holds": YES[holds],
        # Noise that keeps epsilon for N records and is put on n of them: enough, if the theorem's loss is kept.
        "hypothesis": "the population" if stale <= mended + 1e-9 else "samples",
        "tight": "tight" if tight else "not tight",
        "weight": YES[weights],
        "lost": stale,
        "claimed": mended,
    }
    note = (
        "The theorem asks for privacy of g(Y_N); it needs privacy on data of the sample's size. Noise that keeps ε = 0.5 for "
        f"the mean of N = 10 records loses {stale:.3f} on a sample of one; the theorem says {mended:.3f}. Inside the theorem ε_n "
        "is the amplified loss, everywhere after it what the sample may spend."
    )
    return Result(rows, values, note)


def _noise_for_everybody(size: int, n: int, epsilon: float) -> tuple[float, float]:
    """What the theorem says of the mean of n values with noise made for N of them, and what is lost (attained by that noise)."""
    steps = 2_000_000
    noise = Laplace.calibrate(ds.PrivacyProfile.pure(epsilon, "replace-one"), steps / size)
    inside = Laplace(noise.scale, steps / n).profile(Relation.REPLACE_ONE).epsilon(0.0)
    found = [
        ds.amplify(ds.srs(n=n, size=size), spent, base="replace-one", neighbours="replace-one").epsilon
        for spent in (epsilon, inside)
    ]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def draw_theorem_one(rows: Rows) -> Any:
    """Claimed and exact losses, case by case."""
    from ..pictures import dots, titled

    chart = dots(rows, "case", "loss", "what", x_title="loss")
    return titled(
        chart,
        "Theorem 1: the formula is tight, the hypothesis is not enough",
        "exact: linear programme over all mechanisms; last line: Laplace noise made for the population's mean",
    )
