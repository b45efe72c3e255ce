"""What was spent. Reserve before rows are read, commit after; a reservation is never returned."""

from .ledger import Ledger
from .panels import Panel, panel
from .quotes import Quote
from .request import Charge, Request
from .samples import SealedSample
from .signature import new_signing_key
from .verify import Verified, verify_ledger

__all__ = [
    "Charge",
    "Ledger",
    "Panel",
    "Quote",
    "Request",
    "SealedSample",
    "Verified",
    "new_signing_key",
    "panel",
    "verify_ledger",
]
