"""The uniform number of each element: a keyed hash of its label, computed by the engine where the rows are."""

from __future__ import annotations

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import IntegerValue, StringValue, Table
from randomgen import AESCounter

from ..design.key import BITS, Key
from ..errors import BadValue
from .dialect import first_bits
from .secret import secret_generator
from .source import NUMBER, keep_temporarily, send

WHOLE = 1 << BITS
PLACE = "__place"


class Numbers:
    """One number in 0 .. 2^60 - 1 for each element of a list; with a key, the same on every engine.

    Without a key of the user's a fresh one is made and forgotten, and the numbers are as good as a secret generator's.
    `start` shifts the numbers around the clock, for samples that are coordinated.
    """

    def __init__(self, key: Key | None, start: float = 0.0) -> None:
        self._key, self._permanent = key or Key.new(), key is not None
        self._start = int(start * WHOLE) % WHOLE

    def __repr__(self) -> str:
        return "Numbers(not shown)"

    def attach(self, rows: Table, label: list[str], purpose: str, *, shifted: bool = False) -> Table:
        """The rows with the number of each in a further column. Numbers of different purposes are unrelated."""
        engine = rows.get_backend().name
        if engine in ("duckdb", "pyspark", "postgres"):
            number = first_bits(self._text(rows, label, purpose), engine, BITS)
            return rows.mutate(self._shifted(number, shifted).name(NUMBER))
        if self._permanent:
            raise BadValue(
                f"{engine} has no SHA-256 for permanent random numbers",
                hint="DuckDB, Spark and PostgreSQL do; or draw without a key",
            )
        # An engine without SHA-256: fresh secret numbers are sent to it, one for each element.
        numbered = keep_temporarily(rows.mutate(ibis.row_number().name(PLACE)))
        size = int(numbered.count().to_pyarrow().as_py())
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
