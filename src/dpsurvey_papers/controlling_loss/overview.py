"""Figure 1: the design is made from data, and so is the loss. Every design of the paper at one glance."""

from __future__ import annotations

import math
from typing import Any

import dpsurvey as ds
from dpsurvey.design import Design
from dpsurvey.privacy import NeighboursName, RelationName

from ..item import Result, Rows, Run
from .asking import against, loss

EPSILON = 1.0
PUBLIC, DATA = "public figures", "the data"
# The design, what it is made from, and under which relations it is asked.
DESIGNS: dict[str, tuple[str, Design, RelationName, NeighboursName]] = {
    "simple random sample, one in ten": (PUBLIC, ds.srs(n=10, size=100), "replace-one", "replace-one"),
    "each unit by itself, rate 0.1": (PUBLIC, ds.poisson(0.1), "add-remove", "add-remove"),
    "ten of a hundred clusters, at most 2 units": (
        PUBLIC,
        ds.cluster("cluster", ds.srs(n=10), clusters=100, cap=2),
        "add-remove",
        "add-remove",
    ),
    "ten of a hundred clusters, at most 20 units": (
        PUBLIC,
        ds.cluster("cluster", ds.srs(n=10), clusters=100, cap=20),
        "add-remove",
        "add-remove",
    ),
    "by a public size, Sampford": (
        PUBLIC,
        ds.pps("size", probabilities=(0.1, 0.2, 0.3, 0.4), measure="public", method="sampford"),
        "replace-one",
        "replace-one",
    ),
    "by a confidential size": (
        DATA,
        ds.pps("size", probabilities=(0.1, 0.2, 0.3, 0.4), measure="confidential", method="sampford"),
        "replace-one",
        "replace-one",
    ),
    "Neyman's allocation from the frame": (DATA, ds.confidential_allocation(100), "add-remove", "replace-one"),
    "one cluster, by confidential size": (
        DATA,
        ds.cluster("cluster", ds.pps("size", n=1), sizes=(20, 20, 20), unit_in=1),
        "add-remove",
        "add-remove",
    ),
    "every third of a list that may grow": (DATA, ds.systematic(step=3, size=12, order="as listed"), "add-remove", "add-remove"),
    "a tenth, rounded at random": (DATA, ds.proportional(0.1, rounding="random"), "add-remove", "add-remove"),
    "a tenth, rounded to the nearest": (DATA, ds.proportional(0.1, rounding="nearest"), "add-remove", "add-remove"),
}


def from_data_or_not(run: Run) -> Result:
    """What the package answers for designs made from public figures, and for designs made from the data."""
    rows: Rows = []
    for name, (source, design, base, neighbours) in DESIGNS.items():
        found = loss(design, EPSILON, base, neighbours)
        kind = "refused" if math.isinf(found) else against(found, EPSILON)
        words = {"made from": source, "loss at ε = 1": "—" if math.isinf(found) else f"{found:.3f}", "answer": kind}
        rows += [
            {"design": name, "what": what, "word": word, "kind": kind if what == "answer" else "description", "source": source}
            for what, word in words.items()
        ]
    answers = [row for row in rows if row["what"] == "answer"]
    said = {row["design"]: row["word"] for row in answers}
    from_data = [row["word"] for row in answers if row["source"] == DATA]
    return Result(
        rows,
        {
            "large clusters": said["ten of a hundred clusters, at most 20 units"],
            "rounded to the nearest": said["a tenth, rounded to the nearest"],
            "rounded at random": said["a tenth, rounded at random"],
            "degradation": "yes" if "degradation" in from_data else "no",
            "data": f"{from_data.count('amplification')} of {len(from_data)}",
            "refused": f"{from_data.count('refused')} of {len(from_data)}",
        },
        "The historic data H are taken as the population P itself; where H was published its figures are constants. A loss above "
        "95 % of ε is called no amplification.",
    )


def draw_from_data(rows: Rows) -> Any:
    """A table of words."""
    from ..pictures import cells, titled

    shades = {
        "description": "#eceef1",
        "amplification": "#bfd8ea",
        "no amplification": "#f3dfb6",
        "degradation": "#eeb8a8",
        "refused": "#c9c9ce",
    }
    return titled(
        cells(rows, "what", "design", "word", "kind", shades),
        "From historic data H to a design C(H), a sample and a private answer",
        "a public design may amplify, unless its clusters are large; one made from the data seldom does",
    )
