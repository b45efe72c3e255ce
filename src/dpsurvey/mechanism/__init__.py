"""How sums are hidden: noise with a profile. Pure, given OpenDP's randomness."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .base import Mechanism
from .gaussian import Gaussian
from .laplace import Laplace
from .many_sensitivities import smooth_sensitivities
from .order_statistic import Place, global_sensitivity, local_sensitivities, padded_window, smooth_sensitivity
from .registry import MECHANISMS, mechanism_for, register
from .smooth import SmoothLaplace, smooth_delta
from .smooth import calibrated as smooth_calibrated
from .smooth import printed as smooth_printed

# Whatever is in this room puts itself on the list.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

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
