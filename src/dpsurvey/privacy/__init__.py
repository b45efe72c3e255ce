"""What is guaranteed: profiles, settings, guarantees, accounts; specifications that are checked by enumeration. Pure.

Every module that has a kind of curve is loaded, so that a saved one is read back.
"""

from . import panel as panel
from . import shuffled as shuffled
from .account import Budget
from .guarantee import Guarantee
from .possible_data import PossibleData, records_apart
from .posterior import posterior_bounds
from .posterior_to_posterior import law_of_samples, noisy_count, posterior_ratios, sampled
from .profile import PrivacyProfile, Relation
from .setting import Setting, all_settings
from .specification import Checked, Specification, multiplicative_distance
from .specified_noise import laplace_satisfies, laplace_scales

__all__ = [
    "Budget",
    "Checked",
    "Guarantee",
    "PossibleData",
    "PrivacyProfile",
    "Relation",
    "Setting",
    "Specification",
    "all_settings",
    "laplace_satisfies",
    "laplace_scales",
    "law_of_samples",
    "multiplicative_distance",
    "noisy_count",
    "posterior_bounds",
    "posterior_ratios",
    "records_apart",
    "sampled",
]
