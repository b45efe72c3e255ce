"""Hu, Drechsler and Kim: Accuracy gains from privacy amplification through sampling for differential privacy."""

from __future__ import annotations

from ..item import Item, Paper
from . import rates

PAPER = Paper(
    "000",
    "Hu, Drechsler and Kim",
    "Accuracy gains from privacy amplification through sampling for differential privacy",
    [
        Item("000-figure-3", "Figure 3", "What a sample may spend", rates.what_a_sample_may_spend, rates.draw_spent),
    ],
)
