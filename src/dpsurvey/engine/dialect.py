"""Functions of an engine itself that Ibis has no name for; only their names are written into the query."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import IntegerValue, StringValue

# What each function takes and gives: Spark's change of base; PostgreSQL's text as bytes, digest, bytes as text, one byte;
# DuckDB's test of a double.
SIGNATURES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "conv": ((dt.string, dt.int64, dt.int64), dt.string),
    "convert_to": ((dt.string, dt.string), dt.binary),
    "sha256": ((dt.binary,), dt.binary),
    "encode": ((dt.binary, dt.string), dt.string),
    "get_byte": ((dt.binary, dt.int64), dt.int32),
    "isfinite": ((dt.float64,), dt.boolean),
}


@cache
def own_function(name: str) -> Any:
    """A function of the engine, by its name there."""

    def stands_for(*arguments: Any) -> Any:
        raise NotImplementedError

    takes, gives = SIGNATURES[name]
    stands_for.__name__ = name
    # Ibis counts the arguments of the function itself; `signature` gives their types only.
    places = [inspect.Parameter(f"_{place}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for place in range(len(takes))]
    stands_for.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return ibis.udf.scalar.builtin(stands_for, name=name, signature=(takes, gives))


def first_bits(text: StringValue, engine: str, bits: int) -> IntegerValue:
    """The first bits, a multiple of four, of the SHA-256 of a text, as a whole number."""
    if engine == "duckdb":
        return ("0x" + text.hexdigest("sha256").substr(0, bits // 4)).cast(dt.int64)
    if engine == "pyspark":
        return own_function("conv")(text.hexdigest("sha256").substr(0, bits // 4), 16, 10).cast(dt.int64)
    digest = own_function("sha256")(own_function("convert_to")(text, "UTF8"))
    parts = [own_function("get_byte")(digest, index).cast(dt.int64) for index in range(8)]
    number = parts[7] // (1 << (64 - bits))
    for index in range(7):
        number = number + parts[index] * (1 << (bits - 8 * (index + 1)))
    return number


def bytes_of(text: StringValue) -> StringValue:
    """PostgreSQL: text in an order by its bytes, where the server would sort it as a dictionary does."""
    return own_function("encode")(own_function("convert_to")(text, "UTF8"), "hex")
