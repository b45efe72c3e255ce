"""A collected file as a sample: its columns as what a draw would know of each row; and checks of it."""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, Table

from ..design.columns import not_positive as not_positive_column
from ..design.columns import population_too_small, population_varies
from ..design.recipe import Taken
from ..errors import BadData
from .check import Expectations
from .source import PI, POPULATION, PSU, SSU, STRATUM, WEIGHT, any_row, figures_of
from .values import as_label, as_number, double, not_finite, not_positive

# A replicate weight may be so many times the weight: half-samples have two, bootstrap samples a few, large strata more.
MOST_TIMES = 1000.0


def take_all(table: Table, taken: Taken, expected: Expectations) -> Table:
    """All rows, with stratum, clusters and weight under the names that a draw gives them. Nothing is copied."""
    named, nothing = taken.named, ibis.null(dt.string)
    labels = expected.categories.get(named.strata or "", ())
    known = {
        STRATUM: as_label(table, named.strata, labels) if named.strata else nothing,
        PSU: table[named.psu] if named.psu else nothing,
        SSU: table[named.ssu] if named.ssu else nothing,
        # How likely a row was drawn is not used again: nothing is taken off a variance for it.
        PI: double(0.0),
        WEIGHT: as_number(table, named.weights) if named.weights else double(1.0),
    }
    if named.populations:
        known[POPULATION] = as_number(table, named.populations[0])
    return table.mutate(**known)


def check_collected(table: Table, taken: Taken, expected: Expectations) -> None:
    """Whether weights lie in their declared range, and strata have enough clusters and no more units than exist."""
    named = taken.named
    if named.weights is not None:
        weight = as_number(table, named.weights)
        _refuse(table, not_positive(weight), not_positive_column("weights", named.weights))
        low, high = expected.weight_range or (0.0, float("inf"))
        if expected.weight_range is not None:
            outside = BadData(
                f"the column {named.weights!r} has weights outside the declared range",
                hint="declare weight_range= from the design, or trim the weights by a public rule",
            )
            _refuse(table, (weight < double(low)) | (weight > double(high)), outside)
    if taken.replicates is not None:
        _check_replicates(table, taken.replicates.names, str(named.weights))
    if named.fpc is not None or named.psu is not None:
        _check_strata(table, taken, expected)


def _check_replicates(table: Table, names: Sequence[str], weights: str) -> None:
    """Whether replicate weights are numbers that may be weights, and differ from the weights."""
    for name in names:
        kind = table.schema()[name]
        if not (kind.is_numeric() or kind.is_string()):
            raise BadData(f"the replicate weights {name!r} are not numeric", given=f"type {kind}", hint="weights are numbers")
    weight = as_number(table, weights)
    tests = []
    for place, name in enumerate(names):
        own = as_number(table, name)
        tests += [
            (not_finite(own) | (own < double(0.0))).any().fill_null(False).name(f"bad{place}"),
            (own > weight * double(MOST_TIMES)).any().fill_null(False).name(f"large{place}"),
            (own != weight).any().fill_null(False).name(f"apart{place}"),
        ]
    # All at once, so that the columns are read once; one after the other, so that no expression is deep.
    found = figures_of(table, tests)
    for place, name in enumerate(names):
        if found[f"bad{place}"]:
            raise BadData(
                f"the replicate weights {name!r} have values that are not numbers from 0",
                hint="rows that a replicate leaves out have 0; a replicate weight that is negative after calibration is refused",
            )
        if found[f"large{place}"]:
            raise BadData(
                f"the replicate weights {name!r} are more than {MOST_TIMES:g} times the weights of their rows",
                hint=f"are they replicates of {weights!r}, or factors that it is to be multiplied with?",
            )
    if not any(found[f"apart{place}"] for place in range(len(names))):
        raise BadData(
            "the replicate weights are all equal to the weights",
            because="such replicates say that there is no sampling error",
            hint="name the columns that the producer of the file calls replicate weights",
        )


def _check_strata(table: Table, taken: Taken, expected: Expectations) -> None:
    rows, named = take_all(table, taken, expected), taken.named
    units = rows[PSU].nunique() if named.psu else rows.count()
    facts = [units.name("units")]
    for size in named.populations:
        population = as_number(rows, size)
        facts += [population.min().name("population"), population.max().name("largest")]
        _refuse(rows, not_positive(population), not_positive_column("fpc", size))
    found = (rows.group_by(STRATUM).aggregate(facts) if named.strata else rows.aggregate(facts)).to_pyarrow().to_pylist()
    if not expected.compare_columns:
        # One record can move these numbers: they are left to the conditions of the release.
        return
    if named.fpc is not None and any(row["population"] < row["units"] for row in found):
        raise population_too_small()
    if named.fpc is not None and any(row["population"] < row["largest"] for row in found):
        raise population_varies()
    if named.psu is not None and any(row["units"] < expected.least_clusters for row in found):
        raise BadData(
            "a stratum has fewer clusters than the variance needs",
            because="a single cluster says nothing about how clusters differ, and zero would be a lie",
            hint="merge strata by a public rule; with at least 2 clusters everywhere, declare psus= as in the smallest stratum",
        )


def _refuse(table: Table, bad: BooleanValue, refusal: BadData) -> None:
    if any_row(table, bad):
        raise refusal
