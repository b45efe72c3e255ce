"""Missing answers: a public value that stands for them, or `DROP`: those who did not answer are left out, and counted.

A record that is left out adds 1 to a sum of its own and nothing to the others, so the same noisy sums give
the share that answered, at no further cost: docs/proofs/estimation.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import BadValue
from .encodings import Pair
from .estimators.interval import Array
from .noisy_sums import NoisySums
from .query import Query

DROP = "drop"
LEFT_OUT = "those who answered: records with a missing answer are left out, and item nonresponse is not adjusted for"
ADDS_NOTHING = (
    "those who answered: a missing answer adds nothing, so this is not about everybody; item nonresponse is not adjusted for"
)
WEIGHTED = "those who answered, weighted to public figures: item nonresponse is adjusted for as far as these columns explain it"
NO_RATE = "the item response rate is not among these sums; a mean or proportion of the same question with missing='drop' has it"
UNKNOWN_RATE = "the item response rate is lost in the noise"
# A rate is a share of at least this many times the noise on its denominator.
ENOUGH = 5.0


def check_fill(missing: Any, low: float, high: float) -> float | str | None:
    """The rule for missing answers of a measured column: a number within the bounds, or `DROP`.

    >>> check_fill("drop", 0, 10), check_fill(3, 0, 10)
    ('drop', 3.0)
    """
    if missing is None or missing == DROP:
        return None if missing is None else DROP
    if isinstance(missing, bool) or not isinstance(missing, int | float) or not low <= missing <= high:
        raise BadValue(
            "missing= is the public value that stands for a missing answer, within the bounds, or 'drop'", given=repr(missing)
        )
    return float(missing)


def check_drop(missing: Any, what: str) -> str | None:
    """The rule of statistics that no single value could complete: `DROP`, or none."""
    if missing is not None and missing != DROP:
        raise BadValue(
            f"missing= of {what} is 'drop' or left out", because="no single value stands for its answers", given=repr(missing)
        )
    return None if missing is None else DROP


def drop_is_a_category(of: str | None) -> BadValue:
    """The refusal of a rule that could also mean a category."""
    return BadValue(
        "missing='drop' leaves out records without an answer, and 'drop' is also a category here",
        given=f"the column {of!r}",
        hint="recode the category under another name",
    )


def answered_only(query: Query) -> Query:
    """The query about those who answered, without the sum of those who did not."""
    return replace(query, dropped=()) if query.absent else query


def units_in(noisy: NoisySums, *, everybody: bool = False) -> tuple[Array, int] | None:
    """The noisy lattice steps of all records, by cell, and how many noisy sums make each; None where no sum counts records.

    Those who left out an answer are among them only with `everybody`.
    """
    counting, sums = list(noisy.query.encoding.counting), noisy.sums
    if not counting:
        return None
    units = sums[..., counting].sum(axis=-1)
    return (units + sums[..., -1], len(counting) + 1) if everybody and noisy.query.absent else (units, len(counting))


def item_response(noisy: NoisySums, *, overall: bool = False) -> Array | None:
    """The share of records that answered, by group or `overall`; not a number where noise hides it, None where no sum tells."""
    found, query, sums = units_in(noisy), noisy.query, noisy.sums
    if found is None:
        return None
    units, terms = found
    by_group = (*sums.shape[:-2], 1 if overall else len(query.groups), -1)
    if query.absent:
        answered = units.reshape(by_group).sum(axis=-1)
        whole = answered + sums[..., -1].reshape(by_group).sum(axis=-1)
        merged = (terms + 1) * query.cells // by_group[-2]
    elif isinstance(query.encoding, Pair) and query.column is None and not query.where:
        # Of groups themselves: who left one of their columns empty is counted, but in none of the groups.
        answered, whole = (each.sum(axis=-1)[..., None] for each in (sums[..., 0], units))
        merged = terms * query.cells
    else:
        return None
    enough = (whole > 0.0) & (whole >= ENOUGH * np.sqrt(merged * noisy.mechanism.variance))
    return np.where(enough, np.clip(answered / np.where(enough, whole, 1.0), 0.0, 1.0), np.nan)


def drop_rates(rates: Array | None, numbers: int) -> list[float | None]:
    """A rate for each published number; None where there is none."""
    found = [] if rates is None else np.broadcast_to(rates, (numbers,)).tolist()
    return [rate if math.isfinite(rate) else None for rate in found] or [None] * numbers


def rate_notes(rates: Array | None, numbers: int) -> list[tuple[str, ...]]:
    """Why a rate is not given, for each published number."""
    why = NO_RATE if rates is None else UNKNOWN_RATE
    return [() if rate is not None else (why,) for rate in drop_rates(rates, numbers)]
