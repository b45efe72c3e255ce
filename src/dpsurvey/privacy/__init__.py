"""What is guaranteed: profiles, settings, guarantees, accounts. Pure.

Every module that has a kind of curve is loaded, so that a saved one is read back.
"""

from . import panel as panel
from . import shuffled as shuffled
from .budget import Budget
from .guarantee import Guarantee
from .posterior import posterior_bounds
from .profile import PrivacyProfile
from .relation import Neighbours, NeighboursName, Relation, RelationName
from .setting import PHASES, Phase, Setting, all_settings

__all__ = [
    "PHASES",
    "Budget",
    "Guarantee",
    "Neighbours",
    "NeighboursName",
    "Phase",
    "PrivacyProfile",
    "Relation",
    "RelationName",
    "Setting",
    "all_settings",
    "posterior_bounds",
]
