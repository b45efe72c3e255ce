"""Differential privacy for survey sampling: from a sampling frame to a published table.

A *design* draws a secret *sample* from a *frame*; *statistics* ask for sums over that sample; a *mechanism* hides
the sums; the *ledger* composes everything asked of one sample and then lets the design amplify the whole, once.

Importing the package loads almost none of it: each public name is loaded when it is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

# What type checkers and editors read; MODULES says the same for what runs, and a test compares the two.
if TYPE_CHECKING:
    from . import local as local
    from . import planning as planning
    from .design import allocate as allocate
    from .design import amplify as amplify
    from .design import cluster as cluster
    from .design import compare_allocations as compare_allocations
    from .design import confidential_allocation as confidential_allocation
    from .design import covered as covered
    from .design import group as group
    from .design import invert as invert
    from .design import poisson as poisson
    from .design import poisson_by as poisson_by
    from .design import pps as pps
    from .design import proportional as proportional
    from .design import random_size as random_size
    from .design import respondents as respondents
    from .design import responding as responding
    from .design import size_rule as size_rule
    from .design import srs as srs
    from .design import stages as stages
    from .design import stratified as stratified
    from .design import systematic as systematic
    from .design import with_replacement as with_replacement
    from .design.frame import Frame as Frame
    from .design.key import Key as Key
    from .design.key import panel_start as panel_start
    from .errors import SurveyError as SurveyError
    from .ledger import Ledger as Ledger
    from .ledger import Panel as Panel
    from .ledger import panel as panel
    from .ledger import verify_ledger as verify_ledger
    from .privacy import Budget as Budget
    from .privacy import Guarantee as Guarantee
    from .privacy import PrivacyProfile as PrivacyProfile
    from .privacy import Setting as Setting
    from .statistic import calibrated as calibrated
    from .statistic import clipping_bounds as clipping_bounds
    from .statistic import contrast as contrast
    from .statistic import count as count
    from .statistic import greg as greg
    from .statistic import imputed as imputed
    from .statistic import mean as mean
    from .statistic import median as median
    from .statistic import proportion as proportion
    from .statistic import quantile as quantile
    from .statistic import ratio as ratio
    from .statistic import table as table
    from .statistic import total as total
    from .statistic import weighted as weighted
    from .survey.deviations import release_source as release_source
    from .survey.deviations import stratum_deviations as stratum_deviations
    from .survey.fieldwork import Fieldwork as Fieldwork
    from .survey.frame_allocation import allocate_from_frame as allocate_from_frame
    from .survey.plan import Plan as Plan
    from .survey.release import Release as Release
    from .survey.survey import Survey as Survey

    __version__: str

# The public names by the module that holds them; "" are modules themselves.
MODULES = {
    "": "local planning",
    "design": "allocate amplify cluster compare_allocations confidential_allocation covered group invert poisson poisson_by pps "
    "proportional random_size respondents responding size_rule srs stages stratified systematic with_replacement",
    "design.frame": "Frame",
    "design.key": "Key panel_start",
    "errors": "SurveyError",
    "ledger": "Ledger Panel panel verify_ledger",
    "privacy": "Budget Guarantee PrivacyProfile Setting",
    "statistic": "calibrated clipping_bounds contrast count greg imputed mean median proportion quantile ratio table total "
    "weighted",
    "survey.deviations": "release_source stratum_deviations",
    "survey.fieldwork": "Fieldwork",
    "survey.frame_allocation": "allocate_from_frame",
    "survey.plan": "Plan",
    "survey.release": "Release",
    "survey.survey": "Survey",
}
_MODULE_OF = {name: module for module, names in MODULES.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """A public name, the version or a room of the package, loaded and kept."""
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version(__name__)
    elif module := _MODULE_OF.get(name):
        found = getattr(import_module(f"{__name__}.{module}"), name)
    # What tools look for in any module, by names that begin with _, is not looked for on the disk.
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        found = import_module(f"{__name__}.{name}")
    else:
        found = None if name.startswith("_") else _on_a_list(name)
        if found is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def _on_a_list(name: str) -> Any:
    """The function that makes a design or a statistic which nothing above names, as a new one, or one of another package."""
    listed = (import_module(f"{__name__}.design").DESIGNS, import_module(f"{__name__}.statistic").STATISTICS)
    return next((each.make for kinds in listed for each in kinds.values() if each.name == name), None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
