"""A collected file as a sample: its columns as what a draw would know of each row; and checks of it."""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import BooleanValue, NumericValue, Table

from ..design.columns import not_positive as not_positive_column
from ..design.columns import population_too_small, population_varies
from ..design.recipe import Taken
from ..errors import BadData
from .check import Expectations
from .source import PI, POPULATION, PSU, SSU, STRATUM, WEIGHT, any_row, figures_of
from .values import as_label, as_number, double, not_finite, not_positive

# A replicate weight may be so many times the weight: half-samples have two, bootstrap samples a few, large strata more.
MOST_TIMES = 1000.0

# Weights that were rounded before they were written are still those of their stratum.
NEARLY = 0.005
# How far final weights may be from adding up to a declared size, for each unit of it: what rounded weights leave.
ADDED_UP = 1e-4


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
        if expected.weight_range is not None:
            low, high = _extremes(table, expected, expected.weight_range)
            outside = BadData(
                f"the column {named.weights!r} has weights outside the declared range",
                hint="declare weight_range= from the design, or trim the weights by a public rule",
            )
            _refuse(table, (weight < low) | (weight > high), outside)
        for largest, cut in expected.cuts:
            _check_cut(table, weight, largest, cut)
        _check_sums_of_weights(table, weight, expected)
    if taken.replicates is not None:
        _check_replicates(table, taken.replicates.names, str(named.weights))
    if named.fpc is not None or named.psu is not None:
        _check_strata(table, taken, expected)
    _check_repeated(table, taken, expected)


def public_sizes(table: Table, taken: Taken, expected: Expectations) -> dict[str, tuple[int, int]]:
    """The records of each stratum and the units its column of sizes says it has: figures of design columns that are public."""
    rows, named = take_all(table, taken, expected), taken.named
    population = as_number(rows, str(named.fpc))
    _refuse(rows, not_positive(population), not_positive_column("fpc", named.fpc))
    facts = [rows.count().name("units"), population.min().name("population"), population.max().name("largest")]
    grouped = rows.group_by(STRATUM).aggregate(facts) if named.strata else rows.aggregate(facts)
    found = {row.get(STRATUM) or "": row for row in grouped.to_pyarrow().to_pylist()}
    if set(found) != set(expected.categories.get(named.strata or "", ("",))):
        raise BadData(
            f"the strata of {named.strata!r} are not the declared ones", hint="declare every stratum in categories=, and no other"
        )
    for row in found.values():
        if row["population"] < row["largest"]:
            raise population_varies()
        if row["population"] < row["units"]:
            raise population_too_small()
        if row["population"] != int(row["population"]):
            raise BadData(f"the column {named.fpc!r} has sizes that are not whole numbers", hint="fpc is a number of units")
    return {label: (int(row["units"]), int(row["population"])) for label, row in found.items()}


def _check_repeated(table: Table, taken: Taken, expected: Expectations) -> None:
    """Whether columns of sizes and weights repeat what is declared of the strata: the estimates rest on that."""
    named = taken.named
    columns = {"sizes": (named.fpc, 0.0), "weights": (named.weights, NEARLY)}
    for what, figures in expected.repeated.items():
        column, apart = columns[what]
        if not figures or not isinstance(column, str):
            continue
        number = as_number(table, column)
        declared = double(figures.get("", 0.0))
        if named.strata:
            labels = as_label(table, named.strata, tuple(figures))
            declared = labels.cases(*((label, double(each)) for label, each in figures.items()), else_=double(0.0))
        refusal = BadData(
            f"the column {column!r} does not hold the declared {what} of the strata",
            because="the estimates rest on them",
            hint="declare the true n= and sizes; weights that differ within a stratum are design weights, with a weight_range=",
        )
        _refuse(table, (number - declared).abs() > declared * double(apart), refusal)


def _extremes(table: Table, expected: Expectations, both: tuple[float, float]) -> tuple[NumericValue, NumericValue]:
    """The declared extremes of the weight of each row: of all, or of its category."""
    low, high = (double(end) for end in both)
    if expected.weights_column is None:
        return low, high
    labels = as_label(table, expected.weights_column, (label for label, _, _ in expected.weight_ranges))
    return (
        labels.cases(*((label, double(own)) for label, own, _ in expected.weight_ranges), else_=low).cast(dt.float64),
        labels.cases(*((label, double(own)) for label, _, own in expected.weight_ranges), else_=high).cast(dt.float64),
    )


def _check_cut(table: Table, weight: NumericValue, largest: float, cut: float) -> None:
    """Refuse weights of which more lies above the largest than was declared; where this is asked every neighbour has the same."""
    above = ibis.greatest(weight - double(largest), double(0.0))
    facts = figures_of(table, [above.sum().name("above"), weight.sum().name("all")])
    if facts["above"] > cut * facts["all"] * (1.0 + 1e-9):
        raise BadData(
            "more of the weights lies above trim= than trimmed= says",
            because="the bound on the bias rests on it",
            hint="planning.best_cut(weights, epsilon) finds a pair that is right; both become public",
        )


def _check_sums_of_weights(table: Table, weight: NumericValue, expected: Expectations) -> None:
    """Whether final weights add up to the declared sizes, of the whole and of the margins that they were calibrated to."""
    for column, sizes in expected.sums_of_weights.items():
        label = as_label(table, column, sizes) if column else ibis.literal("")
        rows = table.select(label.name("label"), weight.name("weight"))
        totals = rows.group_by("label").aggregate(rows["weight"].sum().name("total")).to_pyarrow().to_pylist()
        found = {row["label"]: row["total"] for row in totals}
        if all(abs(found.get(label, 0.0) - size) <= ADDED_UP * size for label, size in sizes.items()):
            continue
        of = f"sizes of {column!r}" if column else "size of the population"
        other = f"none for {column!r} if they were not" if column else "weights relative to a mean of 1 have none"
        raise BadData(
            f"the final weights do not add up to the declared {of}",
            because="these sizes are divided by, as published figures that the weights were calibrated to",
            hint=f"declare the sizes that the weights were calibrated to; {other}",
        )


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
