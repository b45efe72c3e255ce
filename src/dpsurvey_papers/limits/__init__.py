"""Steinke: Limits of privacy amplification by subsampling."""

from __future__ import annotations

from ..item import Item, Paper
from . import accuracy, footnotes, sublinear, theorem

PAPER = Paper(
    "001",
    "Steinke",
    "Limits of privacy amplification by subsampling",
    [
        Item("001-theorem-1", "Theorem 1", "Amplification by Poisson subsampling", theorem.theorem, theorem.draw_theorem),
        Item("001-inverse", "After Theorem 1", "What may be spent on a sample", theorem.inverse, theorem.draw_inverse),
        Item("001-relation", "Before Theorem 1", "Added, removed, replaced", theorem.relation, theorem.draw_relation),
        Item("001-footnote-1", "Footnote 1", "Unequal probabilities", footnotes.unequal, footnotes.draw_unequal),
        Item("001-footnote-2", "Footnote 2", "Inclusion that is known", footnotes.known, footnotes.draw_known),
        Item("001-footnote-3", "Footnote 3", "Independent or of fixed size", footnotes.fixed_size, footnotes.draw_fixed_size),
        Item(
            "001-accuracy",
            "Why it is useful",
            "The sampled Laplace mean",
            accuracy.sampled_mean,
            accuracy.draw_sampled_mean,
            seed=10107,
        ),
        Item("001-limits", "Title", "What sampling cannot do for a mean", accuracy.limits, accuracy.draw_limits),
        Item(
            "001-sublinear",
            "Why it is useful, supposition",
            "Drawing in sublinear time",
            sublinear.drawing_time,
            sublinear.draw_drawing_time,
        ),
    ],
)
