"""Lists whose elements have a uniform number each: a keyed hash of the element's label, computed where the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import BooleanValue, IntegerValue, NumericValue, StringValue, Table
from randomgen import AESCounter

from ...design.key import BITS, Key
from ...design.recipe import Order
from ...errors import BadValue
from ..dialect import dialect_of
from ..source import (
    BEFORE,
    DRAWS,
    NUMBER,
    ONE_DRAW,
    PI,
    ROW,
    SIZE,
    STRATUM,
    TAKE,
    WEIGHT,
    any_row,
    count_of,
    keep_temporarily,
    send,
)
from ..values import double, in_order
from .drawn import too_short
from .generator import secret_generator

WHOLE = 1 << BITS
# The place of a row on an engine without SHA-256, and the one group of a list without groups.
PLACE, ALL = "__place", "__all"
Amount = float | Mapping[str, float]


class KeyedNumbers:
    """One number in 0 .. 2^60 - 1 for each element of a list; with a key, the same on every engine.

    Without a key of the user's a fresh one is made and forgotten, and the numbers are as good as a secret generator's.
    `start` shifts the numbers around the clock, for samples that are coordinated.
    """

    def __init__(self, key: Key | None, start: float = 0.0) -> None:
        self._key, self._permanent = key or Key.new(), key is not None
        self._start = int(start * WHOLE) % WHOLE

    def __repr__(self) -> str:
        return "KeyedNumbers(not shown)"

    def attach(self, rows: Table, label: list[str], purpose: str, *, shifted: bool = False) -> Table:
        """The rows with the number of each in a further column. Numbers of different purposes are unrelated."""
        number = dialect_of(rows).first_bits(self._text(rows, label, purpose), BITS)
        if number is not None:
            return rows.mutate(self._shifted(number, shifted).name(NUMBER))
        if self._permanent:
            raise BadValue(
                f"{rows.get_backend().name} has no SHA-256 for permanent random numbers",
                hint="DuckDB, Spark and PostgreSQL do; or draw without a key",
            )
        # An engine without SHA-256: fresh secret numbers are sent to it, one for each element.
        numbered = keep_temporarily(rows.mutate(ibis.row_number().name(PLACE)))
        size = count_of(numbered)
        sent = secret_generator().integers(0, WHOLE, size, dtype=np.int64)
        numbers = send(pa.table({PLACE: np.arange(size), NUMBER: sent}), numbered)
        met = numbered.join(numbers, PLACE)
        return met.select(*rows.columns, self._shifted(met[NUMBER], shifted).name(NUMBER))

    def generator(self, purpose: str, *label: str) -> np.random.Generator:
        """A cryptographic generator of its own for a list, for methods that need more than one number per element."""
        seed = Key(self._key.derived(f"generator {purpose}")).derived("".join(f"{len(part)}:{part}" for part in label))
        return np.random.Generator(AESCounter(key=int.from_bytes(seed[:16], "big")))

    def _text(self, rows: Table, label: list[str], purpose: str) -> StringValue:
        if self._permanent and any(rows[column].type().is_floating() for column in label):
            hint = "make the column whole numbers or text; engines write fractions in different ways"
            raise BadValue("a unit or cluster with a permanent random number is named by whole numbers or text", hint=hint)
        parts = [rows[column].cast(dt.string) for column in label]
        text: StringValue = ibis.literal(self._key.prefix(purpose))
        for part in parts[:-1]:
            text = text + part.length().cast(dt.string) + ":" + part
        return text + parts[-1]

    def _shifted(self, number: IntegerValue, shifted: bool) -> IntegerValue:
        if not self._start or not shifted:
            return number.cast(dt.int64)
        return (number >= self._start).ifelse(number - self._start, number - self._start + WHOLE).cast(dt.int64)


@dataclass(frozen=True, repr=False, eq=False)
class List:
    """A list to draw from: its rows, the groups in which draws are independent, and what names an element."""

    rows: Table
    groups: list[str]
    label: list[str]
    numbers: KeyedNumbers
    # The amount of the step, and the declared size of the list, of which weights are made: public figures, perhaps by stratum.
    amounts: Amount
    declared: Amount | None = None
    # A cluster and a unit of one name have numbers of their own.
    what: str = "unit"

    def amount(self, table: Table) -> NumericValue:
        """The amount of the step, which may differ by stratum."""
        return _by_stratum(table, self.amounts)

    def share(self, table: Table) -> NumericValue:
        """What is taken over what is there: the declared number of units, or where none is declared the counted one."""
        return table[TAKE] / (_by_stratum(table, self.declared) if self.declared else table[SIZE])

    def numbered(self) -> Table:
        """The rows with the number of each element."""
        return self.numbers.attach(self.rows, self.label, self.what, shifted=True)

    def numbered_groups(self, groups: Table, purpose: str) -> Table:
        """The groups with a number of each, for one purpose."""
        return self.numbers.attach(groups, self.groups or [ALL], f"{purpose} of {self.what}")

    def generator(self, purpose: str, *group: str) -> np.random.Generator:
        """A generator of its own for one group, for one purpose."""
        return self.numbers.generator(f"{purpose} of {self.what}", *group)

    def grouped(self) -> Table:
        """The rows; without groups all are in one."""
        return self.rows if self.groups else self.rows.mutate(ibis.literal(0, dt.int64).name(ALL))

    def counted(self) -> Table:
        """The groups with their sizes, and with the amount."""
        rows = self.grouped()
        sizes = rows.group_by(self.groups or [ALL]).aggregate(rows.count().cast(dt.int64).name(SIZE))
        return keep_temporarily(sizes.mutate(self.amount(sizes).name(TAKE)))

    def counted_for_takes(self) -> Table:
        """The groups with their sizes and what is taken from each; refuses those that are too short for it."""
        sizes = self.counted()
        if any_row(sizes, sizes[TAKE] > sizes[SIZE]):
            raise too_short()
        return sizes

    def joined(self, rows: Table, figures: Table, *wanted: str) -> Table:
        """Rows of the list with figures of their groups."""
        if self.groups:
            return rows.join(figures.select(*self.groups, *wanted), self.groups)
        return rows.cross_join(figures.select(*wanted))

    def sorting(self, rows: Table, order: Order) -> list[Any]:
        """The columns that rows of the list are sorted by: given ones, its own order, or the secret numbers."""
        if order == "random":
            return [rows[NUMBER], *(rows[name] for name in self.label)]
        if order == "as listed":
            return [rows[ROW]]
        return [in_order(rows, name) for name in (*order, *self.label)]


def _by_stratum(table: Table, amount: Amount) -> NumericValue:
    if isinstance(amount, Mapping):
        cases = ((label, double(each)) for label, each in amount.items())
        return table[STRATUM].cases(*cases, else_=ibis.null(dt.float64))
    return double(amount)


def below(table: Table, probability: NumericValue) -> BooleanValue:
    """Whether the number of an element lies below a probability; rounded down, so that none exceeds its own."""
    return table[NUMBER] < (probability * double(WHOLE)).floor().cast(dt.int64)


def scaled(table: Table, probability: NumericValue) -> Table:
    """The rows with their probabilities and weights carried on by one more stage."""
    weight = (table[WEIGHT] / probability).name(WEIGHT)
    if DRAWS not in table.columns:
        return table.mutate((table[PI] * probability).name(PI), weight)
    # Each draw of a cluster with replacement gives the unit another chance.
    once = table[ONE_DRAW] * probability
    never = (double(1.0) - once).pow(table[DRAWS])
    return table.mutate((table[BEFORE] * (double(1.0) - never)).name(PI), once.name(ONE_DRAW), weight)
