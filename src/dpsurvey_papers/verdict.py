"""Printed against computed: a verdict on each figure and on the whole item.

Printed values stand in the printed.toml of each paper, never in the code that computes. A figure is compared to the digits
that are printed; a simulated one to its Monte-Carlo interval as well. A printed value is called wrong (`because`), or
imprecise (`imprecise`: true under a condition that is not stated), only if what was computed agrees with the right value, to
the digits given there: an unexplained difference is never passed over. A figure that the paper does not print (`ours`) is
checked against its right value and never counted as reproduced.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from dpsurvey.errors import BadValue

from .item import Item, Result, Value

CHECKED = "checked"
REPRODUCED = "reproduced"
SIMULATED = "reproduced within Monte-Carlo error"
WRONG = "printed value is wrong"
NOT_REPRODUCIBLE = "not reproducible"
IMPRECISE = "imprecise as printed"
DIFFERS = "differs"
# The word for an item is that of its most telling figure.
ORDER = (CHECKED, REPRODUCED, SIMULATED, NOT_REPRODUCIBLE, IMPRECISE, WRONG, DIFFERS)
# How a figure must differ from print, by the key that explains it.
PARTS_FROM_PRINT = {"because": WRONG, "imprecise": IMPRECISE}
# Half the width of a Monte-Carlo interval in standard errors: missed by chance once in a million.
FAR = 4.9


@dataclass(frozen=True)
class Judged:
    """One figure: as printed, as computed, and what follows."""

    name: str
    says: str
    printed: str
    computed: float | str
    low: float | None
    high: float | None
    right: str
    word: str
    because: str

    def to_dict(self) -> dict[str, Any]:
        """As plain data; an infinite figure is a word, because JSON has no number for it."""
        fields = {key: getattr(self, key) for key in self.__dataclass_fields__}
        infinite = isinstance(self.computed, float) and not math.isfinite(self.computed)
        return fields | ({"computed": str(self.computed)} if infinite else {})


@dataclass(frozen=True)
class Verdict:
    """The verdict on an item, with its figures."""

    id: str
    word: str
    line: str
    figures: tuple[Judged, ...]

    @property
    def expected(self) -> bool:
        """Whether everything is as the paper says, or as its erratum says."""
        return self.word != DIFFERS

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"id": self.id, "word": self.word, "line": self.line, "figures": [each.to_dict() for each in self.figures]}


@cache
def printed_in(package: str) -> dict[str, Any]:
    """What a paper prints: the printed.toml of its package."""
    text = resources.files(f"dpsurvey_papers.{package}").joinpath("printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def printed_of(item: Item) -> dict[str, Any]:
    """What the paper of an item prints about it: the item's table of the printed.toml beside its module.

    >>> import dpsurvey_papers as papers
    >>> printed_of(papers.item("000-figure-3"))["values"]["one per cent"]["printed"]
    '5.15'
    """
    package = item.compute.__module__.split(".")[-2]
    table: dict[str, Any] = printed_in(package).get(item.id, {})
    return table


def judge(item: Item, found: Result, printed: dict[str, Any]) -> Verdict:
    """The verdict on the result of an item, given its table of printed.toml.

    >>> item = Item("x-1", "Table 1", "", compute=lambda run: Result([], {}), draw=lambda rows: None)
    >>> judge(item, Result([], {"a": 5.1523}), {"values": {"a": {"says": "spent", "printed": "5.15"}}}).line
    'reproduced: 1 statement as printed'
    >>> judge(item, Result([], {"a": 100.0}), {"values": {"a": {"says": "spent", "printed": "5.15"}}}).line
    'differs: spent is 100, printed 5.15'
    """
    entries = printed.get("values", {})
    if unknown := set(found.values) ^ set(entries):
        raise BadValue(f"{item.id}: figures and printed.toml do not name the same things", given=", ".join(sorted(unknown)))
    figures = tuple(_judged(name, entries[name], found.values[name]) for name in entries)
    words = [each.word for each in figures] + ([NOT_REPRODUCIBLE] if "not_reproducible" in printed else [])
    word = max(words, key=ORDER.index, default=REPRODUCED)
    return Verdict(item.id, word, _line(word, figures, printed), figures)


def agrees(computed: float | str, printed: str, slack: float = 0.0) -> bool:
    """Whether a figure is what is printed, to the printed digits; words must be the same. `slack` widens the interval.

    >>> agrees(0.16768, "16.77 %"), agrees(5.1523, "5.15"), agrees(5.156, "5.15"), agrees(4.99950005e-5, "4.9995e-5")
    (True, True, False, True)
    """
    if isinstance(computed, str):
        return computed == printed
    target, half = digits(printed)
    if math.isinf(target) or math.isinf(computed):
        return computed == target
    return abs(computed - target) <= half * (1.0 + 1e-9) + slack


def digits(printed: str) -> tuple[float, float]:
    """A printed number and half a unit of its last digit.

    >>> digits("5.15"), digits("16.77 %")[0], digits("-12")
    ((5.15, 0.005), 0.1677, (-12.0, 0.5))
    """
    text, percent = printed.replace(",", "").strip(), 1.0
    if text.endswith("%"):
        text, percent = text[:-1].strip(), 0.01
    mantissa, _, exponent = text.lower().partition("e")
    try:
        value = float(text)
    except ValueError:
        raise BadValue("a printed number is needed where a number was computed", given=printed) from None
    if not math.isfinite(value):
        return value, 0.0
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return value * percent, 0.5 * unit * percent


def _judged(name: str, entry: dict[str, Any], found: float | str | Value) -> Judged:
    value, error = found if isinstance(found, Value) else (found, 0.0)
    value = value if isinstance(value, str) else float(value)
    # The paper's own simulation has an error too; where it used other draws than we do it is stated.
    slack = FAR * math.hypot(error, float(entry.get("error", 0.0)))
    right, printed = str(entry.get("right", "")), str(entry.get("printed", ""))
    reason = next((key for key in PARTS_FROM_PRINT if key in entry), "")
    if entry.get("ours"):
        word = CHECKED if agrees(value, right, slack) else DIFFERS
    elif reason:
        word = PARTS_FROM_PRINT[reason] if not agrees(value, printed, slack) and agrees(value, right, slack) else DIFFERS
    else:
        word = (SIMULATED if slack else REPRODUCED) if agrees(value, printed, slack) else DIFFERS
    low, high = (None, None) if isinstance(value, str) or not slack else (value - slack, value + slack)
    return Judged(name, str(entry["says"]), printed, value, low, high, right, word, str(entry.get(reason, "")))


def _line(word: str, figures: tuple[Judged, ...], printed: dict[str, Any]) -> str:
    if word == DIFFERS:
        odd = [
            (each, f"printed {each.printed}" if each.printed else f"not {each.right}") for each in figures if each.word == DIFFERS
        ]
        return "differs: " + "; ".join(f"{each.says} is {shown(each.computed)}, {other}" for each, other in odd)
    good = sum(each.word in (REPRODUCED, SIMULATED) for each in figures)
    within = "within intervals or " * any(each.word == SIMULATED for each in figures)
    rest = f"{good} statement{'s' * (good != 1)} {within}as printed"
    reasons = {key: "; ".join(dict.fromkeys(each.because for each in figures if each.word == key)) for key in (IMPRECISE, WRONG)}
    reasons[NOT_REPRODUCIBLE] = str(printed.get("not_reproducible", ""))
    if word not in reasons:
        return f"{word}: {rest}"
    # The gravest first, then the rest of what has to be said.
    others = {"Imprecise": IMPRECISE, "Not reproducible": NOT_REPRODUCIBLE}
    parts = [f"{word}, because {reasons[word]}"]
    parts += [f"{name}: {reasons[key]}" for name, key in others.items() if key != word and reasons[key]]
    parts += [f"Reproduced: {rest}"] if good else []
    return ". ".join(parts)


def shown(value: float | str) -> str:
    """A figure for people.

    >>> shown(0.15856507), shown("no gain"), shown(4.9995e-5), shown(100.0)
    ('0.158565', 'no gain', '4.9995e-05', '100')
    """
    return value if isinstance(value, str) else f"{value:.6g}"
