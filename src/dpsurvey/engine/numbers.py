"""The uniform number of each element: a keyed hash of its label, computed by the engine where the rows are."""

from __future__ import annotations

from functools import cache
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np
import pyarrow as pa
from ibis.expr.types import IntegerValue, StringValue, Table
from randomgen import AESCounter

from ..errors import BadValue
from ..key import BITS, Key
from .source import NUMBER, keep_temporarily, send

WHOLE = 1 << BITS
PLACE = "__place"


def _own_function(name: str, takes: tuple[Any, ...], gives: Any) -> Any:
    """A function of an engine itself that Ibis has no name for; only its name is written into the query."""

    def stands_for(*arguments: Any) -> Any:
        raise NotImplementedError

    stands_for.__name__ = name
    return ibis.udf.scalar.builtin(stands_for, name=name, signature=(takes, gives))


@cache
def _functions() -> dict[str, Any]:
    return {
        "conv": _own_function("conv", (dt.string, dt.int64, dt.int64), dt.string),
        "convert_to": _own_function("convert_to", (dt.string, dt.string), dt.binary),
        "sha256": _own_function("sha256", (dt.binary,), dt.binary),
        "get_byte": _own_function("get_byte", (dt.binary, dt.int64), dt.int32),
    }


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

    def attach(self, rows: Table, label: list[str], purpose: str = "unit") -> Table:
        """The rows with the number of each in a further column."""
        engine = rows.get_backend().name
        if engine in ("duckdb", "pyspark", "postgres"):
            number = _number(self._text(rows, label, purpose), engine)
            return rows.mutate(self._shifted(number, purpose).name(NUMBER))
        if self._permanent:
            raise BadValue(
                f"{engine} has no SHA-256 for permanent random numbers",
                hint="DuckDB, Spark and PostgreSQL do; or draw without a key",
            )
        # An engine without SHA-256: numbers from the same key are sent to it, one for each element.
        numbered = keep_temporarily(rows.mutate(ibis.row_number().name(PLACE)))
        size = int(numbered.count().to_pyarrow().as_py())
        sent = self.generator(purpose, "sent").integers(0, WHOLE, size, dtype=np.int64)
        numbers = send(pa.table({PLACE: np.arange(size), NUMBER: sent}), numbered)
        met = numbered.join(numbers, PLACE)
        return met.select(*rows.columns, self._shifted(met[NUMBER], purpose).name(NUMBER))

    def generator(self, purpose: str, *label: str) -> np.random.Generator:
        """A cryptographic generator of its own for a list, for methods that need more than one number per element."""
        seed = Key(self._key.derived(f"generator {purpose}")).derived("".join(f"{len(part)}:{part}" for part in label))
        return np.random.Generator(AESCounter(key=int.from_bytes(seed[:16], "big")))

    def _text(self, rows: Table, label: list[str], purpose: str) -> StringValue:
        parts = [rows[column].cast(dt.string) for column in label]
        text: StringValue = ibis.literal(self._key.prefix(purpose))
        for part in parts[:-1]:
            text = text + part.length().cast(dt.string) + ":" + part
        return text + parts[-1]

    def _shifted(self, number: IntegerValue, purpose: str) -> IntegerValue:
        if not self._start or purpose != "unit":
            return number.cast(dt.int64)
        return (number >= self._start).ifelse(number - self._start, number - self._start + WHOLE).cast(dt.int64)


def _number(text: StringValue, engine: str) -> IntegerValue:
    if engine == "duckdb":
        return ("0x" + text.hexdigest("sha256").substr(0, BITS // 4)).cast(dt.int64)
    if engine == "pyspark":
        return _functions()["conv"](text.hexdigest("sha256").substr(0, BITS // 4), 16, 10).cast(dt.int64)
    digest = _functions()["sha256"](_functions()["convert_to"](text, "UTF8"))
    parts = [_functions()["get_byte"](digest, index).cast(dt.int64) for index in range(8)]
    number = parts[7] // 16
    for index in range(7):
        number = number + parts[index] * (1 << (BITS - 8 * (index + 1)))
    return number
