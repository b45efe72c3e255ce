"""From the columns of a table to weights and a design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..design.columns import DesignColumns
from ..errors import BadData, BadValue
from .calibrate import Margins
from .columns import Array, Codes, Table, labels_of, positive_numbers, row_count
from .stages import StagedDesign, staged_design, weights_from
from .unequal import UnequalDesign, unequal_design


@dataclass(frozen=True)
class Drawn:
    """What is fixed once a sample is drawn: its weights, the design behind them, and the calibrations, first to last."""

    weights: Array
    design: StagedDesign | UnequalDesign
    calibrations: tuple[Margins, ...] = ()

    def variance(self, expanded: Array) -> float:
        """The variance of a sum of weighted values, after what the calibrations explain."""
        # The last calibration acted on the weights that the one before it had made.
        for calibration in reversed(self.calibrations):
            expanded = calibration.residual(expanded)
        return self.design.variance(expanded)


def drawn_sample(
    data: Table, columns: DesignColumns[Any], *, lonely: str, nest: bool, sampling: str, joint: Any, square_sum: Any
) -> Drawn:
    """Weights and design from columns.

    >>> choices = {"lonely": "refuse", "nest": True, "sampling": "stages", "joint": None, "square_sum": None}
    >>> drawn_sample({"y": [1.0, 2.0]}, DesignColumns(fpc=8), **choices).weights.tolist()
    [4.0, 4.0]
    """
    rows = row_count(data, columns)
    if rows == 0:
        raise BadData("the sample has no rows")
    strata = labels_of(data, columns.strata, "strata", rows)
    psu, ssu = labels_of(data, columns.psu, "psu", rows), labels_of(data, columns.ssu, "ssu", rows)
    strata = np.zeros(rows, dtype=np.intp) if strata is None else strata
    first = np.arange(rows, dtype=np.intp) if psu is None else psu
    probs = None if columns.probs is None else _probabilities(data, columns, rows)
    weights = None if probs is None else np.asarray(1.0 / probs)
    if columns.weights is not None:
        weights = positive_numbers(data, columns.weights, "weights", rows)
    if sampling != "stages":
        if probs is None or columns.fpc is not None or ssu is not None:
            raise BadValue("unequal probabilities take probs, and neither fpc nor ssu", given=f"sampling={sampling!r}")
        assert weights is not None
        table = None if joint is None else np.asarray(joint, dtype=np.float64)
        return Drawn(weights, unequal_design(strata, _nested(strata, first, nest), probs, sampling, table, square_sum))
    if joint is not None or square_sum is not None:
        raise BadValue("joint and square_sum go with unequal probabilities", hint='sampling="yates-grundy", "hartley-rao"')
    sizes = [positive_numbers(data, one, "fpc", rows) for one in columns.populations] or None
    design = staged_design(strata, [first] if ssu is None else [first, ssu], sizes, nest=nest, lonely=lonely)
    if weights is None:
        if sizes is None:
            raise BadValue(
                "the weights are unknown", hint="give weights=, probs= or fpc=; weights=1 makes the sample its own population"
            )
        weights = weights_from(design)
    return Drawn(weights, design)


def _nested(strata: Codes, psu: Codes, nest: bool) -> Codes:
    """The unit of each row, whose label may be reused in another stratum."""
    stage = staged_design(strata, [psu], None, nest=nest, lonely="certainty").stages[0]
    return stage.unit


def _probabilities(data: Table, columns: DesignColumns[Any], rows: int) -> Array:
    """The inclusion probability of each row."""
    found = positive_numbers(data, columns.probs, "probs", rows)
    if np.any(found > 1.0):
        raise BadData("an inclusion probability is above 1")
    return found
