"""Weights that come from data, applied after the noise: every input is a noisy sum or a public figure, so nothing is spent.

need                                        function               released                        docs/guides/weighting.md
nonresponse classes, random sizes           post_stratify          triples by cell
several margins                             rake                   triples by cell of the table
numeric regressors with known means         greg                   products of 1, x and y
missing answers                             post_stratify          triples and missing by cell
"""

from __future__ import annotations

from .answer import Adjusted
from .cells import NoisyCells, collapse
from .classes import post_stratify
from .precision import pays
from .raking import Margin, rake
from .regression import greg, product_sensitivity

__all__ = [
    "Adjusted",
    "Margin",
    "NoisyCells",
    "collapse",
    "greg",
    "pays",
    "post_stratify",
    "product_sensitivity",
    "rake",
]
