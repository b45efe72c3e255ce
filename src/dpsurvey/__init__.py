"""Differential privacy for survey sampling: from a sampling frame to a published table.

A *design* draws a secret *sample* from a *frame*; *statistics* ask for sums over that sample; a *mechanism* hides
the sums; the *ledger* composes everything asked of one sample and then lets the design amplify the whole, once.
"""

from .design import amplify, invert, poisson, srs, stratified
from .errors import SurveyError
from .frame import Frame
from .ledger import Ledger
from .plan import Plan
from .privacy import Budget, Guarantee, PrivacyProfile, Setting
from .release import Release
from .statistic import count, mean, proportion, total
from .survey import Survey

__version__ = "0.2.0"

__all__ = [
    "Budget",
    "Frame",
    "Guarantee",
    "Ledger",
    "Plan",
    "PrivacyProfile",
    "Release",
    "Setting",
    "Survey",
    "SurveyError",
    "amplify",
    "count",
    "invert",
    "mean",
    "poisson",
    "proportion",
    "srs",
    "stratified",
    "total",
]
