"""Guarantees over data that can be written down: specifications and settings of paper 002, checked pair by pair."""

from .possible_data import PossibleData, records_apart
from .posterior_to_posterior import law_of_samples, noisy_count, posterior_ratios, sampled
from .specification import Checked, Specification, multiplicative_distance
from .specified_noise import laplace_satisfies, laplace_scales

__all__ = [
    "Checked",
    "PossibleData",
    "Specification",
    "laplace_satisfies",
    "laplace_scales",
    "law_of_samples",
    "multiplicative_distance",
    "noisy_count",
    "posterior_ratios",
    "records_apart",
    "sampled",
]
