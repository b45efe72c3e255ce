"""Simulated figures with their errors, laid over exact ones."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..item import Rows
from ..pictures import distinct

INK = "#2b2d33"


def whiskers(rows: Rows, x: str, y: str, error: str, *, by: str | None = None, kind: str = "Q") -> Any:
    """Points with two standard errors to either side, over a picture with the same axes; in ink where there is no series."""
    marks = [row | {"_low": row[y] - 2.0 * row[error], "_high": row[y] + 2.0 * row[error]} for row in rows]
    base = alt.Chart(alt.Data(values=marks)).encode(x=f"{x}:{kind}")
    colour = {} if by is None else {"color": alt.Color(f"{by}:N", sort=distinct(rows, by))}
    ink = {"color": INK} if by is None else {}
    rules = base.mark_rule(strokeWidth=1.5, **ink).encode(y="_low:Q", y2="_high:Q", **colour)
    return rules + base.mark_point(filled=True, size=45, opacity=1, **ink).encode(y=f"{y}:Q", **colour)
