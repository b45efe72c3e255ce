"""Answers randomised before they leave the respondent: mechanisms, questions, estimates, and what each of them leaks."""

from .base import LocalMechanism, mechanism_from
from .cells import Grid, Ranges
from .choice import choose, sample_size
from .estimating import estimate
from .guarded_difference import guarded
from .local_hashing import hashing
from .question import Question
from .reports import collect, randomize_table
from .response import generalised, two_coins, warner
from .sampling_privacy import round_two, sampling_privacy
from .subset_selection import subset
from .toys import toy_deniability, toy_noise
from .unary_encoding import unary

__all__ = [
    "Grid",
    "LocalMechanism",
    "Question",
    "Ranges",
    "choose",
    "collect",
    "estimate",
    "generalised",
    "guarded",
    "hashing",
    "mechanism_from",
    "randomize_table",
    "round_two",
    "sample_size",
    "sampling_privacy",
    "subset",
    "toy_deniability",
    "toy_noise",
    "two_coins",
    "unary",
    "warner",
]
