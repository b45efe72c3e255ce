"""Plain-text tables and numbers for people."""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence


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

    >>> ceiling_text(2.990161), ceiling_text(0.99999999), ceiling_text(0.0088441)
    ('2.991', '1', '0.008845')
    """
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_CEILING):
        return f"{(+decimal.Decimal(value)).normalize():f}"


def floor_text(value: float, digits: int = 4) -> str:
    """What may be spent, with a few digits, rounded down: what is printed is never more than what is allowed.

    >>> floor_text(3.56574), floor_text(1.0)
    ('3.565', '1')
    """
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_FLOOR):
        return f"{(+decimal.Decimal(value)).normalize():f}"


def text_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Rows as aligned columns, words to the left and numbers to the right."""
    cells = [[number_text(row.get(column)) for column in columns] for row in rows]
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


def title_text(row: Mapping[str, object]) -> str:
    """What one published number is of, in words.

    >>> title_text({"statistic": "mean", "label": "income"}), title_text({"statistic": "count", "label": ""})
    ('mean of income', 'count')
    >>> title_text({"statistic": "greg", "label": "mean of income, regressed on age"})
    'mean of income, regressed on age'
    """
    label = str(row["label"] or "")
    if row["statistic"] in ("calibrated", "greg"):
        return label
    return f"{row['statistic']} of {label}" if label else str(row["statistic"])
