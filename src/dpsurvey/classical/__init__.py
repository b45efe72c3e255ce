"""Survey estimates without privacy: totals, means, ratios, proportions and quantiles of a complex sample."""

from __future__ import annotations

from .estimate import Estimate
from .sample import Sample

__all__ = ["Estimate", "Sample"]
