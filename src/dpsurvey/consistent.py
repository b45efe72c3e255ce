"""Tables without negative cells whose margins add up: post-processing for display, beside the linear estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .statistic.table import ALL

Array = npt.NDArray[np.float64]


def on_simplex(cells: Array, total: float) -> Array:
    """The nearest cells that are not negative and add up to a total (least squares).

    >>> on_simplex(np.array([5.0, -1.0, 2.0]), 6.0).tolist()
    [4.5, 0.0, 1.5]
    """
    ordered = np.sort(cells)[::-1]
    excess = np.cumsum(ordered) - total
    place = np.arange(1, len(cells) + 1)
    kept = int(np.max(np.nonzero(ordered - excess / place > 0.0)[0])) + 1
    return np.asarray(np.maximum(cells - excess[kept - 1] / kept, 0.0))


def consistent_tables(rows: Sequence[Mapping[str, Any]], size: float | None) -> list[dict[str, Any]]:
    """The rows of tables with one more figure, `consistent`: cells on the simplex of the frame size, margins added up from them.

    The linear `estimate` stays as it is: it is the unbiased one, and sums of it are.
    """
    found: list[dict[str, Any]] = []
    for label in dict.fromkeys(row["label"] for row in rows if row["statistic"] == "table"):
        own = [dict(row) for row in rows if row["statistic"] == "table" and row["label"] == label]
        cells = [row for row in own if ALL not in row["by"].values()]
        values = np.array([float(row["estimate"] or 0.0) for row in cells])
        whole = float(size) if size is not None and " where " not in label else max(0.0, math.fsum(values))
        adjusted = dict(zip((tuple(row["by"].items()) for row in cells), on_simplex(values, whole).tolist(), strict=True))
        for row in own:
            fits = [
                value
                for group, value in adjusted.items()
                if all(row["by"][name] in (ALL, own_label) for name, own_label in group)
            ]
            found.append(row | {"consistent": math.fsum(fits)})
    return found
