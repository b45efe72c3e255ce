"""Plain-text tables and numbers for people."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Mapping, Sequence

# What other packages may use.
__all__ = ["text_table"]

# How a formula begins in a spreadsheet; some leave out blanks and line breaks before it.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NUMBER = re.compile(r"[+-][0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")


def cell_text(text: str) -> str:
    """A label as a cell of a table for spreadsheets, which take what begins with one of these signs for a formula.

    A quote before it makes it a text. Numbers stay what they are.

    >>> cell_text("=1+1"), cell_text("@north"), cell_text("-3"), cell_text("north")
    ("'=1+1", "'@north", '-3', 'north')
    """
    return "'" + text if text.startswith(FORMULA) and not NUMBER.fullmatch(text) else text


def number_text(value: object) -> str:
    """A number with at least four digits, thousands set apart.

    >>> number_text(34567.891), number_text(0.0123456), number_text(None), number_text("north")
    ('34,568', '0.01235', '-', 'north')
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return str(value)


def ceiling_text(value: float, digits: int = 4) -> str:
    """A loss with a few digits, rounded up: what is printed is never less than what holds.

    >>> ceiling_text(2.990161), ceiling_text(0.99999999), ceiling_text(0.0088441), ceiling_text(1.0), ceiling_text(0.1)
    ('2.991', '1', '0.008845', '1', '0.1')
    """
    return _rounded(value, digits, decimal.ROUND_CEILING)


def floor_text(value: float, digits: int = 4) -> str:
    """What is left or may be spent, with a few digits, rounded down: what is printed is never more than what is allowed.

    >>> floor_text(3.56574), floor_text(1.0)
    ('3.565', '1')
    """
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def drawn_up(value: float, digits: int = 4) -> float:
    """A loss as it is drawn and read aloud in a picture: rounded up, so that no label of the picture can say less.

    >>> drawn_up(0.104912345678901234), drawn_up(1.0)
    (0.105, 1.0)
    """
    return float(ceiling_text(value, digits))


def given_text(value: float) -> str:
    """A figure that somebody gave, with all of its digits.

    >>> given_text(1.0), given_text(0.28248), given_text(1e-6), given_text(1.00000001)
    ('1', '0.28248', '1e-06', '1.00000001')
    """
    return ceiling_text(value, 17)


def _rounded(value: float, digits: int, rounding: str) -> str:
    """Rounded from the shortest decimal that stands for the number, so that 0.1 stays 0.1; read back, it is on the same side."""
    if not math.isfinite(value):
        return "infinite" if value > 0.0 else "minus infinite" if value < 0.0 else "unknown"
    with decimal.localcontext(prec=digits, rounding=rounding):
        found = (+decimal.Decimal(repr(float(value)))).normalize()
    power = found.adjusted()
    if not found or -5 <= power < 16:
        return f"{found:f}"
    return f"{found.scaleb(-power).normalize():f}e{'-' if power < 0 else '+'}{abs(power):02d}"


# Columns of tables: losses and other upper bounds are rounded up, what is left and lower bounds down.
LOSSES = frozenset({"epsilon", "loss", "delta", "epsilon_in_sample", "epsilon_of_same_noise", "becomes at most"})
ALLOWED = frozenset({"left", "becomes at least"})


def _cell(column: str, value: object) -> str:
    if isinstance(value, float) and column in LOSSES:
        return ceiling_text(value)
    if isinstance(value, float) and column in ALLOWED:
        return floor_text(value)
    return number_text(value)


def text_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Rows as aligned columns, words to the left and numbers to the right; losses rounded up.

    >>> print(text_table([{"design": "Poisson", "epsilon": 0.158567}], ["design", "epsilon"]))
    design   epsilon
    Poisson   0.1586
    """
    cells = [[_cell(column, row.get(column)) for column in columns] for row in rows]
    left = [all(isinstance(row.get(column), str | None) for row in rows) for column in columns]
    widths = [max([len(column), *(len(line[index]) for line in cells)]) for index, column in enumerate(columns)]

    def line(words: Sequence[str]) -> str:
        return "  ".join(
            word.ljust(width) if to_left else word.rjust(width) for word, width, to_left in zip(words, widths, left, strict=True)
        ).rstrip()

    return "\n".join([line(columns), *(line(each) for each in cells)])


def group_text(by: Mapping[str, str]) -> str:
    """A group in words.

    >>> group_text({"region": "north", "sex": "female"}), group_text({})
    ('north, female', 'all')
    """
    return ", ".join(by.values()) or "all"
