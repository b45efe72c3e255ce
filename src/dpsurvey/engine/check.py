"""Checks of rows against what was declared. Messages name columns, never values, counts, categories or rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ibis.expr.datatypes import DataType
from ibis.expr.types import BooleanValue, Table

from ..design.recipe import EachBy, Sized, Step
from ..errors import BadData, BadValue, NotFound, close_name
from .dialect import dialect_of
from .source import ROW, any_row, count_of, figures_of
from .values import TRUTH, as_label, as_number, double, not_finite, not_positive


@dataclass(frozen=True)
class Expectations:
    """What rows must satisfy: used columns present, numbers finite, categories declared, declared sizes where fixed."""

    unit: str
    numeric: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strata: str | None = None
    size: int | None = None
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    takes: Mapping[str | None, int] = field(default_factory=dict)
    # Stratum, columns that tell them apart, number of clusters, most and fewest units in one.
    clusters: tuple[tuple[str | None, tuple[str, ...], int | None, int | None, int | None], ...] = ()
    # Of a collected file: the takes are all rows there are; the range of weights; the fewest clusters of a stratum.
    exactly_these: bool = False
    may_be_missing: tuple[str, ...] = ()
    # The labels that are looked for: in a column of whole numbers or of truth values only such labels can be found.
    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weight_range: tuple[float, float] | None = None
    weights_column: str | None = None
    weight_ranges: tuple[tuple[str, float, float], ...] = ()
    # Weights at which weights are cut, with the share of all weight that is cut off, at most.
    cuts: tuple[tuple[float, float], ...] = ()
    # What the weights of a file add up to, by column and category; under no column, for the whole.
    sums_of_weights: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # Whether units have weights of their own, which the range is about.
    own_weights: bool = False
    least_clusters: int = 2
    # Where one record more or less, or one that lies elsewhere, is a neighbour, no check may depend on it: a table without
    # rows, answers from nobody, and a stratum or cluster that somebody's leaving would empty pass like any other.
    may_be_empty: bool = False
    may_have_no_answers: bool = False
    compare_columns: bool = True
    # Sizes and weights of strata that columns of the file repeat.
    repeated: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is used."""
        strata = (self.strata,) if self.strata else ()
        unit = (self.unit,) if self.unit else ()
        return tuple(dict.fromkeys((*unit, *strata, *self.categories, *self.numeric, *self.present, *self.used, *self.positive)))


def check_columns(table: Table, expected: Expectations) -> None:
    """Whether the used columns exist and have usable types; reads the schema, no rows."""
    schema = table.schema()
    for column in expected.columns:
        if column not in schema or column == ROW:
            names, otherwise = [name for name in schema if name != ROW], "dpsurvey init --table FILE lists the columns of a file"
            raise NotFound(f"there is no column {column!r}", hint=close_name(column, names, otherwise))
    for column in (*expected.numeric, *expected.positive):
        if not (schema[column].is_numeric() or schema[column].is_boolean() or schema[column].is_string()):
            raise NotFound(
                f"the column {column!r} is not numeric",
                given=f"type {schema[column]}",
                hint="use proportion or count for categories",
            )
    for column in (*expected.categories, *expected.present):
        if schema[column].is_floating() or schema[column].is_nested():
            raise NotFound(
                f"the column {column!r} does not hold categories",
                given=f"type {schema[column]}",
                hint="make it whole numbers or text; whole numbers with gaps are often stored as fractions",
            )
    for column, labels in expected.wanted.items():
        _check_labels(column, schema[column], labels)


def name_of(answers: Any) -> str:
    """A file of answers in a message; answers in memory have no name."""
    return (
        f"the file of answers {os.path.basename(answers)!r}" if isinstance(answers, str | os.PathLike) else "the table of answers"
    )


def with_units(table: Table, expected: Expectations, called: str) -> Table:
    """Answers with their units under the name that the frame has for them; the file of a drawn sample calls them `unit`."""
    unit = expected.unit
    if unit in table.columns:
        return table
    if "unit" in table.columns and "unit" not in expected.columns:
        return table.rename({unit: "unit"})
    names = [name for name in table.columns if name != ROW]
    hint = close_name(unit, names, f"its units stand in {unit!r} as on the frame, or in 'unit' as in a drawn sample")
    raise NotFound(f"{called} has no column {unit!r} for its units", hint=hint)


def _check_labels(column: str, kind: DataType, labels: Iterable[str]) -> None:
    """Refuse to look for a label that no value of such a type is written as; the type is no secret."""
    if kind.is_integer():
        possible, words = all(label in TRUTH or re.fullmatch(r"-?\d+", label) for label in labels), "whole numbers"
    elif kind.is_boolean():
        possible, words = set(labels) <= TRUTH, "truth values: True or False, in survey.toml true or false"
    else:
        return
    if not possible:
        raise BadValue(
            f"no value of {column!r} can be what is asked for",
            given=", ".join(map(repr, labels)),
            hint=f"the column holds {words}",
        )


def check_rows(table: Table, expected: Expectations, *, whole_frame: bool = True) -> None:
    """Whether every row keeps what was declared, in one pass and one more for duplicate units."""
    bad: dict[str, tuple[BooleanValue, str, str]] = {}
    for column in (name for name in expected.columns if name not in expected.may_be_missing):
        # Whatever units are drawn or grouped by is complete; only answers can be missing.
        rule = "missing='drop' is about those who answered, missing= gives the others a public value, imputed(...) fills them"
        answer = column in (*expected.numeric, *expected.present)
        hint = rule if answer else "give every row a value, or a category of its own; of tables and counts missing='drop' too"
        bad[f"missing {column}"] = (table[column].isnull(), f"the column {column!r} has missing values", hint)
    for column in expected.numeric:
        number = as_number(table, column)
        # Every row is read as the sums will read it, so that no failure can depend on who is drawn.
        # Where a rule stands for missing answers, only what is empty is missing: text that is not a number stays an error.
        broken = not_finite(number) & table[column].notnull() if column in expected.may_be_missing else not_finite(number)
        what = f"the column {column!r} has values that are not finite numbers"
        hint = "numbers have a decimal point and no separators; only an empty cell is missing; replace NaN, infinity and text"
        bad[f"broken {column}"] = (broken, what, hint)
    for column in expected.positive:
        size = as_number(table, column)
        what = f"the column {column!r} has values that are not positive numbers"
        hint = "a unit without a size or a rate has no chance to be drawn: give it one, or leave it off the frame"
        bad[f"not positive {column}"] = (not_positive(size), what, hint)
    for column, labels in expected.categories.items():
        other = ~as_label(table, column, labels).isin(labels)
        other = other & table[column].notnull() if column in expected.may_be_missing else other
        what = f"the column {column!r} has a category that was not declared"
        # Said by what is declared alone: which label is another one is for nobody to know.
        accents = "" if all(map(str.isascii, labels)) else "; accents must be stored in one way (Unicode NFC) on both sides"
        hint = f"declare every category in Frame(categories=...), letter by letter, or recode the column{accents}"
        bad[f"undeclared {column}"] = (other, what, hint)
    tests = [test.any().fill_null(False).name(name) for name, (test, _, _) in bad.items()]
    answers = figures_of(table, [*tests, table.count().name("rows")])
    if answers["rows"] == 0 and not (expected.may_be_empty if whole_frame else expected.may_have_no_answers):
        raise BadData("the table is empty", hint="a frame needs at least one row")
    for name, (_, what, hint) in bad.items():
        if answers[name]:
            raise BadData(what, hint=hint)
    if whole_frame:
        check_distinct(table, expected.unit, answers["rows"])
        _check_sizes(table, expected, answers["rows"])
        _check_clusters(table, expected)


def check_distinct(table: Table, unit: str, rows: int | None = None) -> None:
    """Refuse a table that has two rows of one unit."""
    if unit and not _distinct(table, unit, count_of(table) if rows is None else rows):
        raise BadData(
            f"units appear more than once in {unit!r}",
            because="the guarantee is for one record of a unit",
            hint="make one row per unit",
        )


def _distinct(table: Table, unit: str, rows: int) -> bool:
    """Whether no unit appears twice. A file sorted by unit shows it in one cheap pass; any other needs a hash table."""
    if not dialect_of(table).in_process:
        return bool(table[unit].nunique().to_pyarrow().as_py() == rows)
    pairs = table.select(table[unit].name("unit"), table[unit].lag().name("before"))
    if pairs.aggregate((pairs["unit"] > pairs["before"]).all().name("increasing")).to_pyarrow()["increasing"][0].as_py():
        return True
    return bool(table[unit].nunique().to_pyarrow().as_py() == rows)


def _check_sizes(table: Table, expected: Expectations, rows: int) -> None:
    strata: Sequence[str] = (expected.strata,) if expected.strata else ()
    for column in dict.fromkeys((*strata, *expected.sizes)):
        counted = (
            table.group_by(as_label(table, column, expected.categories.get(column, ())).name("label"))
            .aggregate(table.count().name("units"))
            .to_pyarrow()
        )
        found = dict(zip(counted["label"].to_pylist(), counted["units"].to_pylist(), strict=True))
        empty = any(label not in found for label in expected.categories.get(column, ()))
        if column == expected.strata and expected.compare_columns and empty:
            raise BadData(f"a declared stratum of {column!r} is empty", hint="remove it from the declared categories")
        takes = {label: take for label, take in expected.takes.items() if label is not None and column == expected.strata}
        if expected.exactly_these and any(found.get(label, 0) != take for label, take in takes.items()):
            raise BadData(f"a stratum of {column!r} does not hold as many records as declared", hint="declare the true n=")
        if any(found.get(label, 0) < take for label, take in takes.items()):
            raise BadData(f"a stratum of {column!r} has fewer units than the design draws", hint="check the declared sizes")
        if column in expected.sizes and any(found.get(label, 0) != units for label, units in expected.sizes[column].items()):
            raise BadData(
                f"the declared sizes of {column!r} are not those of the frame",
                because="this guarantee rests on them",
                hint="declare the true sizes",
            )
    if expected.exactly_these and expected.takes and rows != sum(expected.takes.values()):
        raise BadData(
            "the file does not hold as many records as declared", because="the estimates rest on n", hint="declare the true n="
        )
    if rows < sum(expected.takes.values()):
        raise BadData("the frame has fewer units than the design draws", hint="check the declared size of the frame")
    if expected.size is not None and rows != expected.size:
        raise BadData(
            "the declared size is not that of the frame", because="this guarantee rests on it", hint="declare the true size"
        )


def _check_clusters(table: Table, expected: Expectations) -> None:
    """Whether the clusters are as many, and as small, as the guarantee supposes."""
    for stratum, columns, number, cap, fewest in expected.clusters:
        rows = table
        if stratum is not None and expected.strata is not None:
            labels = expected.categories.get(expected.strata, ())
            rows = table.filter(as_label(table, expected.strata, labels) == stratum)
        found = rows.group_by(columns).aggregate(rows.count().name("units"))
        figures = [found.count().name("number"), found["units"].max().name("largest"), found["units"].min().name("smallest")]
        facts = figures_of(found, figures)
        wrong_number = number is not None and facts["number"] != number
        too_large = cap is not None and (facts["largest"] or 0) > cap
        if wrong_number or too_large or (fewest is not None and (facts["smallest"] or fewest) < fewest):
            raise BadData(
                f"the clusters of {columns[-1]!r} are not as many, or not as small or large, as declared",
                because="this guarantee rests on it",
                hint="declare the true clusters=, cap=, at_least= and at_most=",
            )


def _weight_outside() -> BadData:
    return BadData(
        "a unit has a design weight outside the declared range",
        hint="declare weight_range= as the design makes it: what one record can move rests on the largest weight",
    )


def check_chances(table: Table, recipe: Step, weights: tuple[float, float], *, compare_columns: bool) -> None:
    """Whether chances that are columns of the frame keep the declared range of weights, before anything is spent.

    Chances in proportion to a size depend on the sizes of all others, and are compared where those are fixed. Elsewhere, and in
    the sample itself, a weight above the range counts as its end: who was drawn must not decide whether there is a release.
    """
    if isinstance(recipe, EachBy):
        rate = as_number(table, recipe.rate)
        if any_row(table, (rate < double(1.0 / weights[1])) | (rate > double(1.0 / weights[0]))):
            raise _weight_outside()
    if isinstance(recipe, Sized) and compare_columns:
        size = as_number(table, recipe.size)
        facts = figures_of(table, [size.min().name("least"), size.sum().name("all")])
        # The smallest unit has at least this chance, whichever of the others are taken for certain.
        if facts["all"] > weights[1] * recipe.take * facts["least"] * (1.0 + 1e-9):
            raise _weight_outside()
