"""How sums are hidden: noise with a profile. Pure, given OpenDP's randomness."""

from __future__ import annotations

from .base import Mechanism
from .gaussian import Gaussian
from .laplace import Laplace
from .many_sensitivities import smooth_sensitivities
from .order_statistic import Place, global_sensitivity, local_sensitivities, padded_window, smooth_sensitivity
from .registry import MECHANISMS, mechanism_for, register
from .smooth import SmoothLaplace, smooth_delta
from .smooth import calibrated as smooth_calibrated
from .smooth import printed as smooth_printed

__all__ = [
    "MECHANISMS",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "Place",
    "SmoothLaplace",
    "global_sensitivity",
    "local_sensitivities",
    "mechanism_for",
    "padded_window",
    "register",
    "smooth_calibrated",
    "smooth_delta",
    "smooth_printed",
    "smooth_sensitivities",
    "smooth_sensitivity",
]
