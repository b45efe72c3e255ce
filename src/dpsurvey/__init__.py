"""Differential privacy for survey sampling: from a sampling frame to a published table.

A *design* draws a secret *sample* from a *frame*; *statistics* ask for sums over that sample; a *mechanism* hides
the sums; the *ledger* composes everything asked of one sample and then lets the design amplify the whole, once.
"""

from . import local, planning
from .design import (
    allocate,
    amplify,
    cluster,
    compare_allocations,
    confidential_allocation,
    covered,
    group,
    invert,
    poisson,
    poisson_by,
    pps,
    proportional,
    random_size,
    respondents,
    responding,
    size_rule,
    srs,
    stages,
    stratified,
    systematic,
    with_replacement,
)
from .design.frame import Frame
from .design.key import Key, panel_start
from .errors import SurveyError
from .ledger import Ledger, Panel, panel, verify_ledger
from .privacy import Budget, Guarantee, PrivacyProfile, Setting
from .statistic import (
    calibrated,
    clipping_bounds,
    contrast,
    count,
    greg,
    imputed,
    mean,
    median,
    proportion,
    quantile,
    ratio,
    table,
    total,
)
from .survey.deviations import release_source, stratum_deviations
from .survey.fieldwork import Fieldwork
from .survey.frame_allocation import allocate_from_frame
from .survey.plan import Plan
from .survey.release import Release
from .survey.survey import Survey

__version__ = "0.8.0"

__all__ = [
    "Budget",
    "Fieldwork",
    "Frame",
    "Guarantee",
    "Key",
    "Ledger",
    "Panel",
    "Plan",
    "PrivacyProfile",
    "Release",
    "Setting",
    "Survey",
    "SurveyError",
    "allocate",
    "allocate_from_frame",
    "amplify",
    "calibrated",
    "clipping_bounds",
    "cluster",
    "compare_allocations",
    "confidential_allocation",
    "contrast",
    "count",
    "covered",
    "greg",
    "group",
    "imputed",
    "invert",
    "local",
    "mean",
    "median",
    "panel",
    "panel_start",
    "planning",
    "poisson",
    "poisson_by",
    "pps",
    "proportion",
    "proportional",
    "quantile",
    "random_size",
    "ratio",
    "release_source",
    "respondents",
    "responding",
    "size_rule",
    "srs",
    "stages",
    "stratified",
    "stratum_deviations",
    "systematic",
    "table",
    "total",
    "verify_ledger",
    "with_replacement",
]
