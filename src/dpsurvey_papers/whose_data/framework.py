"""Section 2.2: the Lipschitz and the neighbour form, coarser multiverses, completions. Each decided for all mechanisms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Result, Row, Rows, Run
from ..specifications import Specification, records_apart

UNITS = "abcd"
# The samples of two that each design can draw from a frame of four.
DESIGNS = {
    "simple random, 2 of 4": [set(pair) for pair in itertools.combinations(UNITS, 2)],
    "stratified, 1 of ab and 1 of cd": [{one, two} for one in "ab" for two in "cd"],
    "systematic, every second": [{"a", "c"}, {"b", "d"}],
    "cluster, ab or cd": [{"a", "b"}, {"c", "d"}],
}

APART = records_apart("replace-one")


def yes(holds: bool) -> str:
    """A word for a claim that was checked."""
    return "yes" if holds else "no"


def two_forms(run: Run) -> Result:
    """Example 2.3: every pair by its distance, or neighbours alone and what follows from them."""
    rows: Rows = []
    for name, samples in DESIGNS.items():
        domain = [
            frozenset(zip(sorted(units), values, strict=True))
            for units in samples
            for values in itertools.product((0, 1), repeat=2)
        ]
        whole = Specification(domain, [domain], APART, 1.0)
        neighbours = Specification(domain, [domain], lambda d, e: APART(d, e) if APART(d, e) <= 1.0 else math.inf, 1.0)
        rows.append(_forms_row(name, whole, neighbours))
    group = ds.PrivacyProfile.approximate(1.0, 1e-3, "add-remove").to_replace_one()
    return Result(
        rows,
        {
            "every data set between": rows[0]["same"],
            "cluster sample": rows[-1]["same"],
            "delta": yes(group.epsilon(1e-3) <= 2.0),
        },
        "Where the words stand, before multiverses, all data sets are meant and the two forms are equivalent. In general they "
        "allow the same mechanisms where a path of neighbours inside the universe is as short as the distance. "
        "With clusters or a fixed systematic order two samples of one frame have no neighbours between them: the neighbour "
        "form guarantees nothing for such a pair, the Lipschitz form 2ε.",
    )


def _forms_row(name: str, whole: Specification, neighbours: Specification) -> Row:
    far, implied = float(whole.implied_limits.max()), float(neighbours.implied_limits.max())
    same = whole.allows_no_more_than(neighbours) and neighbours.allows_no_more_than(whole)
    return {"design": name, "data sets": len(whole.domain), "lipschitz": far, "neighbours": implied, "same": yes(same)}


def draw_two_forms(rows: Rows) -> Any:
    """A cell for each design and form: what the guarantee says about the pair furthest apart."""
    from ..pictures import cells, titled

    shown = [
        {
            "design": row["design"],
            "form": title,
            "word": f"{float(row[form]):g} ε" if math.isfinite(float(row[form])) else "no guarantee",
            "kind": "the same guarantee"
            if row["same"] == "yes"
            else ("pairs by distance" if form == "lipschitz" else "guarantee lost"),
        }
        for row in rows
        for form, title in (("lipschitz", "all pairs (Lipschitz)"), ("neighbours", "neighbours only"))
    ]
    shades = {"the same guarantee": "#cfe3d4", "pairs by distance": "#cddcf0", "guarantee lost": "#f3c9bf"}
    chart = cells(shown, "form", "design", "word", "kind", shades, width=190)
    return titled(
        chart,
        "Example 2.3: two forms of one guarantee",
        "loss allowed between the two samples of one frame that are furthest apart",
    )


def coarser_multiverses(run: Run) -> Result:
    """Lemma 2.7: what satisfies the coarser specification satisfies the finer one with the least containing budgets."""
    trials, rng, held = run.draws(2000, 40), run.rng(1), True
    counts = dict.fromkeys(("both", "finer only", "neither", "coarser only"), 0)
    for trial in range(trials):
        coarse = random_specification(rng)
        parts = [_part(universe, rng) for universe in coarse.universes for _ in range(2)]
        fine = coarse.on(parts)
        held = held and coarse.is_coarsening_of(fine.universes) and coarse.allows_no_more_than(fine)
        for mechanism in _mechanisms(coarse, fine, rng):
            found = bool(coarse.satisfied_by(mechanism)), bool(fine.satisfied_by(mechanism))
            counts[{(True, True): "both", (False, True): "finer only", (False, False): "neither"}.get(found, "coarser only")] += 1
        run.progress("002-lemma-2-7", trial + 1, trials)
    rows: Rows = [{"satisfies": name, "mechanisms": count} for name, count in counts.items()]
    return Result(
        rows,
        {"all mechanisms": yes(held), "counterexamples": float(counts["coarser only"])},
        f"{trials} random multiverses with random budgets, decided for all mechanisms at once: the limits that follow from the "
        "coarser specification, which one mechanism with two answers attains, are nowhere above those of the finer one.",
    )


def completions(run: Run) -> Result:
    """Lemma 2.11: the completion is complete and allows exactly the same mechanisms."""
    trials, rng = run.draws(2000, 40), run.rng(2)
    complete, same, incomplete, lost = True, True, 0, 0
    counts = dict.fromkeys(("both", "completion only", "neither", "original only"), 0)
    for trial in range(trials):
        own = random_specification(rng)
        whole = own.completion()
        assert own.distance_is_a_metric
        incomplete += not own.is_complete
        complete = complete and whole.is_complete
        same = same and own.allows_no_more_than(whole) and whole.allows_no_more_than(own)
        for mechanism in _mechanisms(own, whole, rng):
            found = bool(own.satisfied_by(mechanism)), bool(whole.satisfied_by(mechanism))
            names = {(True, True): "both", (False, True): "completion only", (False, False): "neither"}
            counts[names.get(found, "original only")] += 1
        lost += not _without_triangles(own, rng).completion().is_complete
        run.progress("002-lemma-2-11", trial + 1, trials)
    # With 0 * inf = 0 a budget of 0 would bind data sets without a path, as if they were one step apart.
    free, bound = Specification("ab", ["ab"], {}, 0.0), Specification("ab", ["ab"], {("a", "b"): 1.0}, 0.0)
    rows: Rows = [{"satisfies": name, "mechanisms": count} for name, count in counts.items()]
    rows += [{"satisfies": "multiverses that were incomplete", "mechanisms": incomplete}]
    rows += [{"satisfies": "not completed, without the triangle inequality", "mechanisms": lost}]
    rows += [
        {
            "satisfies": "completions that allow more, if 0 · ∞ = 0",
            "mechanisms": int(not free.completion().allows_no_more_than(bound)),
        }
    ]
    return Result(
        rows,
        {
            "complete": yes(complete),
            "same mechanisms": yes(same),
            "in one only": float(counts["completion only"] + counts["original only"]),
        },
        f"{trials} random multiverses. Two conditions matter. The distance must be a metric, as the lemma says: of as many "
        f"premetrics without the triangle inequality {lost} have completions that are not complete. And 0 · ∞ must be ∞, which "
        "is not said: with 0 · ∞ = 0 a universe of budget 0 would bind data sets without a path, and its completion would not.",
    )


def draw_counts(title: str, subtitle: str) -> Any:
    """A picture of how many random mechanisms satisfy which specification."""
    refutes, one_only = "would refute it", ("coarser only", "completion only", "original only")

    def draw(rows: Rows) -> Any:
        from ..pictures import dots, titled

        shown = [
            {
                "satisfied": f"{row['satisfies']}: {row['mechanisms']}",
                "mechanisms": row["mechanisms"],
                "kind": refutes if row["satisfies"] in one_only else "as the lemma says",
            }
            for row in rows
            if row["satisfies"] in ("both", "neither", "finer only", *one_only)
        ]
        chart = dots(shown, "satisfied", "mechanisms", "kind", x_title="random mechanisms")
        return titled(chart, title, subtitle)

    return draw


def random_specification(rng: np.random.Generator, size: int = 5, universes: int = 3) -> Specification:
    """A random multiverse over a few data sets on two lines without a path between them, with random budgets."""
    domain = range(size)
    line = rng.integers(0, 2, size)
    place = rng.permutation(size)
    parts = [rng.choice(size, int(rng.integers(2, size + 1)), replace=False).tolist() for _ in range(universes)]
    budgets = rng.choice([0.0, 0.3, 0.5, 1.0, 2.0], universes).tolist()
    return Specification(domain, parts, lambda d, e: _on_lines(line, place, d, e), budgets)


def _on_lines(line: Any, place: Any, one: Any, other: Any) -> float:
    return float(abs(int(place[one]) - int(place[other]))) if line[one] == line[other] else math.inf


def _without_triangles(own: Specification, rng: np.random.Generator) -> Specification:
    """The same universes with each pair connected or not by chance."""
    table = {pair: float(rng.choice([1.0, math.inf])) for pair in itertools.combinations(own.domain, 2)}
    return Specification(own.domain, own.universes, table, list(own.budgets.values()))


def _part(universe: frozenset[Any], rng: np.random.Generator) -> list[Any]:
    members = sorted(universe)
    return [members[place] for place in rng.choice(len(members), int(rng.integers(1, len(members) + 1)), replace=False)]


def _mechanisms(one: Specification, other: Specification, rng: np.random.Generator) -> list[Any]:
    """Mechanisms near the limits of either specification: the sharpest of each, weakened or strengthened."""
    found = []
    for own, factor in itertools.product((one, other), (0.7, 1.0, 1.3)):
        budgets = [factor * budget for budget in own.budgets.values()]
        scaled = Specification(own.domain, own.universes, own.distance, budgets)
        found.append(scaled.sharpest(own.domain[int(rng.integers(len(own.domain)))]))
    return found
