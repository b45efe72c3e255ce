"""Every error of the package.

    SurveyError                 what, because, given, hint
    ├── NotSaved                released and on record, but a file or the printing failed (exit code 3)
    ├── UsageError              the call is wrong; nothing was read or spent      (exit code 2)
    │   ├── BadValue            an argument outside its range
    │   │   └── AlreadyThere    a file that is there already, and is not replaced
    │   └── NotFound            a file, column or name that is not there
    └── Refusal                 the call is clear and the answer is no            (exit code 1)
        ├── BadData             rows that break a declared fact; says which fact, never which row
        ├── BudgetExceeded      Requested / Left / Short by
        ├── NotWritten          a file that could not be written: a full disk, a closed folder
        ├── AlreadyReleased     the same question of the same survey again
        ├── LedgerDisagrees     the ledger holds other terms for this survey or sample
        ├── LedgerBroken        the ledger was changed, cut or rolled back; says where
        ├── LedgerUnavailable   the store of the ledger cannot be reached, written, or used by this role
        └── NoGuarantee         no proved bound for this design under this setting

A message that is raised after rows were read holds no value, count, category or row number: `BadData`
takes only names that the user declared.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

# What other packages may use.
__all__ = [
    "AlreadyReleased",
    "AlreadyThere",
    "BadData",
    "BadValue",
    "BudgetExceeded",
    "LedgerBroken",
    "LedgerDisagrees",
    "LedgerUnavailable",
    "NoGuarantee",
    "NotFound",
    "NotSaved",
    "NotWritten",
    "Refusal",
    "SurveyError",
    "UsageError",
    "did_you_mean",
]


class SurveyError(Exception):
    """An error that says what happened, because of what, what was given, and what to do next.

    >>> print(BadValue("the rate is out of range", given="rate=1.5", hint="use a rate in (0, 1]"))
    the rate is out of range
      given: rate=1.5
      hint: use a rate in (0, 1]
    """

    exit_code = 2

    def __init__(self, what: str, *, because: str = "", given: str = "", hint: str = "") -> None:
        self.what, self.because, self.given, self.hint = what, because, given, hint
        super().__init__(what)

    def __str__(self) -> str:
        rows = (("because", self.because), ("given", self.given), ("hint", self.hint))
        return "\n".join([self.what, *(f"  {label}: {text}" for label, text in rows if text)])

    def to_dict(self) -> dict[str, str]:
        """The error as JSON-ready fields, empty ones left out."""
        fields = {"error": type(self).__name__, "what": self.what, "because": self.because}
        fields |= {"given": self.given, "hint": self.hint}
        return {key: text for key, text in fields.items() if text}


class NotSaved(SurveyError):
    """The release was made and is on record, but something could not be written or printed; it can be written again."""

    exit_code = 3


class UsageError(SurveyError):
    """The call is wrong; nothing was read or spent."""


class BadValue(UsageError):
    """An argument lies outside its range."""


class AlreadyThere(BadValue):
    """A file is there already, and is not replaced."""


class NotFound(UsageError):
    """A file, column or name does not exist."""


class Refusal(SurveyError):
    """The call is clear and the answer is no."""

    exit_code = 1


class BadData(Refusal):
    """Rows break a declared fact. Names the fact, never the row."""


class NotWritten(Refusal):
    """A file could not be written: a full disk, a closed folder."""


class BudgetExceeded(Refusal):
    """The request is larger than what is left; both are kept as numbers, with the name of whose budget it is."""

    def __init__(self, what: str, *, requested: float, left: float, whose: str = "", given: str = "", hint: str = "") -> None:
        self.requested, self.left, self.whose = requested, left, whose
        super().__init__(what, given=given, hint=hint)


class AlreadyReleased(Refusal):
    """The same question was already answered; its numbers are in the earlier release."""


class LedgerDisagrees(Refusal):
    """The ledger holds other terms for this survey or sample than the call."""


class LedgerBroken(Refusal):
    """The chain of entries, or its anchor, shows that the ledger was changed, cut or rolled back."""


class LedgerUnavailable(Refusal):
    """The store of the ledger cannot be reached or written, or the role may not."""


class NoGuarantee(Refusal):
    """No bound is proved for this design under this setting."""


OTHER_CODE_POINTS = "the letters are the same, but an accent is stored in another way (Unicode NFC or NFD): normalise both"


def close_name(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint naming the closest known name, and no others: a table without a header has its first row for names.

    >>> close_name("incme", ["income", "age"]), close_name("rent", ["income", "sex"], "look at the file")
    ("did you mean 'income'?", 'look at the file')
    >>> close_name("Income", ["income", "age"])
    "did you mean 'income'? capitals count"
    """
    names = list(known)
    for each in names:
        if unicodedata.normalize("NFC", each) == unicodedata.normalize("NFC", name):
            return f"did you mean {each!r}? {OTHER_CODE_POINTS}"
        if each.casefold() == name.casefold():
            return f"did you mean {each!r}? capitals count"
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


# So many names are listed where none is close.
LISTED = 20


def did_you_mean(name: str, known: Iterable[str], called: str = "known") -> str:
    """A hint naming the closest known name, or all of them.

    >>> did_you_mean("incme", ["income", "age"])
    "did you mean 'income'?"
    >>> did_you_mean("Income", ["income", "age"])
    "did you mean 'income'? capitals count"
    """
    names = list(known)
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return close_name(name, names, f"{called}: " + ", ".join(repr(each) for each in names[:LISTED]) + more if names else "")


def missing_extra(extra: str, because: str = "") -> UsageError:
    """The refusal where what an extra installs is not there.

    >>> missing_extra("spark").hint
    "pip install 'dpsurvey[spark]'"
    """
    return UsageError(f"this needs the {extra} extra", because=because, hint=f"pip install 'dpsurvey[{extra}]'")
