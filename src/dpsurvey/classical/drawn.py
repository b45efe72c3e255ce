"""From the columns of a table to weights and a design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BadData, BadValue
from .calibrate import Margins
from .columns import Array, Codes, Table, codes, per_row, row_count, values
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
    data: Table, given: Mapping[str, Any], *, lonely: str, nest: bool, sampling: str, joint: Any, square_sum: Any
) -> Drawn:
    """Weights and design from columns; `given` holds strata, psu, ssu, weights, probs and fpc as in Sample.

    >>> names = dict.fromkeys(("strata", "psu", "ssu", "weights", "probs", "fpc")) | {"fpc": 8}
    >>> choices = {"lonely": "refuse", "nest": True, "sampling": "stages", "joint": None, "square_sum": None}
    >>> drawn_sample({"y": [1.0, 2.0]}, names, **choices).weights.tolist()
    [4.0, 4.0]
    """
    rows = row_count(data, dict(given))
    if rows == 0:
        raise BadData("the sample has no rows")

    def labels(role: str) -> Codes | None:
        if given[role] is None:
            return None
        found = values(data, given[role], role)
        if found.shape != (rows,):
            raise BadValue(f"{role} does not have one value for each row")
        return codes(found, role)

    strata, psu, ssu = labels("strata"), labels("psu"), labels("ssu")
    strata = np.zeros(rows, dtype=np.intp) if strata is None else strata
    if ssu is not None and psu is None:
        raise BadValue("ssu needs a psu to lie in", hint="name the first-stage units with psu=")
    first = np.arange(rows, dtype=np.intp) if psu is None else psu
    weights = _weights(data, given, rows)
    if sampling != "stages":
        if given["probs"] is None or given["fpc"] is not None or ssu is not None:
            raise BadValue("unequal probabilities take probs, and neither fpc nor ssu", given=f"sampling={sampling!r}")
        assert weights is not None
        probs = per_row(data, given["probs"], "probs", rows)
        table = None if joint is None else np.asarray(joint, dtype=np.float64)
        return Drawn(weights, unequal_design(strata, _nested(strata, first, nest), probs, sampling, table, square_sum))
    if joint is not None or square_sum is not None:
        raise BadValue("joint and square_sum go with unequal probabilities", hint='sampling="yates-grundy", "hartley-rao"')
    fpc = given["fpc"]
    sizes = None if fpc is None else [per_row(data, one, "fpc", rows) for one in (fpc if isinstance(fpc, tuple) else (fpc,))]
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


def _weights(data: Table, given: Mapping[str, Any], rows: int) -> Array | None:
    """The weights that were given, as such or as probabilities."""
    if given["weights"] is not None and given["probs"] is not None:
        raise BadValue("both weights and probs were given", hint="a weight is one over a probability; give one of them")
    role = "weights" if given["weights"] is not None else "probs"
    if given[role] is None:
        return None
    found = per_row(data, given[role], role, rows)
    if np.any(found <= 0.0):
        raise BadData(f"{role} are not all positive", hint="leave rows that were not sampled out of the data")
    if role == "probs":
        if np.any(found > 1.0):
            raise BadData("an inclusion probability is above 1")
        return np.asarray(1.0 / found)
    return found
