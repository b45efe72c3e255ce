"""A collected file as a sample: its columns as what a draw would know of each row; and checks of weights, there and elsewhere."""

from __future__ import annotations

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, Table

from ..design.recipe import EachBy, Sized, Step, Taken
from ..errors import BadData
from .check import Expectations
from .source import PI, PSU, SSU, STRATUM, WEIGHT
from .values import as_label, as_number, double, not_positive


def take_all(table: Table, taken: Taken, expected: Expectations) -> Table:
    """All rows, with stratum, clusters and weight under the names that a draw gives them. Nothing is copied."""
    labels = expected.categories.get(taken.stratum or "", ())
    nothing = ibis.null(dt.string)
    known = {
        STRATUM: as_label(table, taken.stratum, labels) if taken.stratum else nothing,
        PSU: table[taken.psu] if taken.psu else nothing,
        SSU: table[taken.ssu] if taken.ssu else nothing,
        # How likely a row was drawn is not used again: nothing is taken off a variance for it.
        PI: double(0.0),
        WEIGHT: as_number(table, taken.weight) if taken.weight else double(1.0),
    }
    return table.mutate(**known)


def check_collected(table: Table, taken: Taken, expected: Expectations) -> None:
    """Whether weights lie in their declared range, and strata have enough clusters and no more units than exist."""
    if taken.weight is not None:
        weight = as_number(table, taken.weight)
        _refuse(
            table,
            not_positive(weight),
            f"the column {taken.weight!r} has weights that are not positive numbers",
            "a record that stands for nobody is left out of the file",
        )
        low, high = expected.weight_range or (0.0, float("inf"))
        if expected.weight_range is not None:
            _refuse(
                table,
                (weight < double(low)) | (weight > double(high)),
                f"the column {taken.weight!r} has weights outside the declared range",
                "declare weight_range= from the design, or trim the weights by a public rule",
            )
    if taken.population is not None or taken.psu is not None:
        _check_strata(table, taken, expected)


def _check_strata(table: Table, taken: Taken, expected: Expectations) -> None:
    rows = take_all(table, taken, expected)
    units = rows[PSU].nunique() if taken.psu else rows.count()
    facts = [units.name("units")]
    if taken.population is not None:
        population = as_number(rows, taken.population)
        facts.append(population.min().name("population"))
        _refuse(
            rows,
            not_positive(population),
            f"the column {taken.population!r} has population sizes that are not positive numbers",
            "fpc is the number of clusters, or of units, that the stratum has",
        )
    found = (rows.group_by(STRATUM).aggregate(facts) if taken.stratum else rows.aggregate(facts)).to_pyarrow().to_pylist()
    if not expected.compare_columns:
        # One record can move these numbers: they are left to the conditions of the release.
        return
    if taken.population is not None and any(row["population"] < row["units"] for row in found):
        raise BadData(
            f"a stratum has more clusters or units in the file than its population in {taken.population!r}",
            hint="fpc holds population sizes, not sampling fractions",
        )
    if taken.psu is not None and any(row["units"] < expected.least_clusters for row in found):
        raise BadData(
            "a stratum has fewer clusters than the variance needs",
            because="a single cluster says nothing about how clusters differ, and zero would be a lie",
            hint="merge strata by a public rule; with at least 2 clusters everywhere, declare psus= as in the smallest stratum",
        )


def _refuse(table: Table, bad: BooleanValue, what: str, hint: str) -> None:
    if table.aggregate(bad.any().fill_null(False).name("bad")).to_pyarrow()["bad"][0].as_py():
        raise BadData(what, hint=hint)


OUTSIDE = "a unit has a design weight outside the declared range"
DECLARE = "declare weight_range= as the design makes it: what one record can move rests on the largest weight"


def check_chances(table: Table, recipe: Step, weights: tuple[float, float], *, compare_columns: bool) -> None:
    """Whether chances that are columns of the frame keep the declared range of weights, before anything is spent.

    Chances in proportion to a size depend on the sizes of all others, and are compared where those are fixed. Elsewhere, and in
    the sample itself, a weight above the range counts as its end: who was drawn must not decide whether there is a release.
    """
    if isinstance(recipe, EachBy):
        rate = as_number(table, recipe.rate)
        _refuse(table, (rate < double(1.0 / weights[1])) | (rate > double(1.0 / weights[0])), OUTSIDE, DECLARE)
    if isinstance(recipe, Sized) and compare_columns:
        size = as_number(table, recipe.size)
        facts = table.aggregate([size.min().name("least"), size.sum().name("all")]).to_pyarrow().to_pylist()[0]
        # The smallest unit has at least this chance, whichever of the others are taken for certain.
        if facts["all"] > weights[1] * recipe.take * facts["least"] * (1.0 + 1e-9):
            raise BadData(OUTSIDE, hint=DECLARE)
