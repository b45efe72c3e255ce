"""Answers randomised before they leave the respondent: mechanisms, questions, estimates, and what each of them leaks."""

from .audit import audit
from .base import LocalMechanism, mechanism_from
from .cells import Grid, Ranges
from .chance import Chance, SimulatedChance, every_outcome
from .choice import choose, sample_size
from .combine import combine
from .discretise import discretise
from .estimate import estimate
from .form import form_html
from .guarantee import guarantee
from .guarded_difference import guarded
from .leakage import leakage
from .local_hashing import hashing
from .probabilities import coin, fraction
from .question import Question
from .randomised_response import DirectResponse, generalised, two_coins, warner
from .reports import collect, randomize_table, rarest_combination
from .sampling_privacy import round_two, sampling_privacy
from .secret_shares import aggregate, common_respondents, roster, split
from .subset_selection import subset
from .unary_encoding import unary

__all__ = [
    "Chance",
    "DirectResponse",
    "Grid",
    "LocalMechanism",
    "Question",
    "Ranges",
    "SimulatedChance",
    "aggregate",
    "audit",
    "choose",
    "coin",
    "collect",
    "combine",
    "common_respondents",
    "discretise",
    "estimate",
    "every_outcome",
    "form_html",
    "fraction",
    "generalised",
    "guarantee",
    "guarded",
    "hashing",
    "leakage",
    "mechanism_from",
    "randomize_table",
    "rarest_combination",
    "roster",
    "round_two",
    "sample_size",
    "sampling_privacy",
    "split",
    "subset",
    "two_coins",
    "unary",
    "warner",
]
