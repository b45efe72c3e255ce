"""Weights that come from data, applied after the noise: every input is a noisy sum or a public figure, so nothing is spent.

need                                        function               released                        docs/weighting.md
nonresponse classes, random sizes           post_stratify          triples by cell
more precision from known shares            cells_for_precision    a total, and pairs by cell
several margins                             rake, rake_table       triples by cell of the table
numeric regressors with known means         greg                   products of 1, x and y
missing answers                             impute_cell_means      triples and missing by cell
weights with a long tail                    choose_trim, trim      weighted sums, weights cut
"""

from __future__ import annotations

from .answer import Adjusted
from .cells import NoisyCells, cell_sensitivity, collapse
from .classes import post_stratify
from .impute import imputation_sensitivity, impute_cell_means
from .precision import NoisyTotal, cells_for_precision, pays
from .raking import Margin, rake, rake_table
from .regression import greg, product_sensitivity
from .trimming import choose_trim, shrinkage, trim

__all__ = [
    "Adjusted",
    "Margin",
    "NoisyCells",
    "NoisyTotal",
    "cell_sensitivity",
    "cells_for_precision",
    "choose_trim",
    "collapse",
    "greg",
    "imputation_sensitivity",
    "impute_cell_means",
    "pays",
    "post_stratify",
    "product_sensitivity",
    "rake",
    "rake_table",
    "shrinkage",
    "trim",
]
