"""What is promised: profiles, settings, guarantees, accounts. Pure."""

from .account import Budget
from .guarantee import Guarantee
from .profile import PrivacyProfile, Relation
from .setting import Setting, all_settings

__all__ = ["Budget", "Guarantee", "PrivacyProfile", "Relation", "Setting", "all_settings"]
