"""The noise of sums that were added up after each had noise of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Array, Mechanism, Norm, Rows


@dataclass(frozen=True)
class AddedNoise:
    """Additive noise of several sums that were added up."""

    one: Mechanism
    terms: int

    @property
    def kind(self) -> str:
        """The kind of noise."""
        return self.one.kind

    @property
    def norm(self) -> Norm:
        """In which norm neighbours are measured."""
        return self.one.norm

    @property
    def scale(self) -> float:
        """The scale of the noise of one sum."""
        return self.one.scale

    @property
    def sensitivity(self) -> float:
        """The sensitivity it was calibrated to."""
        return self.one.sensitivity

    @property
    def variance(self) -> float:
        """The variance of all of them together."""
        return self.terms * self.one.variance

    @property
    def kurtosis(self) -> float:
        """The excess kurtosis of their sum."""
        return self.one.kurtosis / self.terms

    def simulated(self, random: np.random.Generator, shape: tuple[int, ...], terms: float = 1.0) -> Array:
        """Noise for predictions."""
        return self.one.simulated(random, shape, terms * self.terms)

    def answer(self, rows: Rows) -> Rows:
        """The answer to finer sums, as their mechanism gives it."""
        return self.one.answer(rows)
