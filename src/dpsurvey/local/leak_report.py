"""Every view of a mechanism in one table, and what each way of publishing costs in accuracy."""

from __future__ import annotations

import math
from typing import Any

from ..errors import BadValue
from ..text.layout import ceiling_text, given_text, text_table
from .audit import LocalAudit
from .base import LocalMechanism
from .choice import choose
from .guarded_difference import GuardedDifference
from .leakage import MOST_WORK, Leakage, leakage, views_of

MEANING = {
    "report": "one report of one respondent",
    "report of two": "round two of one respondent, round one unseen",
    "linked": "both rounds of one respondent, linked",
    "counts": "the published counts",
    "round two": "the counts of round two only",
    "published": "the difference with one aggregator's noise",
}


def leakages(mechanism: LocalMechanism, respondents: int | None = None) -> list[Leakage]:
    """The exact leakage of every view; views of counts with this many respondents, or as many up to 8 as can be enumerated.

    >>> from dpsurvey.local.randomised_response import warner
    >>> [each.view for each in leakages(warner(0.75), 3)]
    ['report', 'counts']
    """
    return [_most(mechanism, view, respondents) for view in views_of(mechanism)]


def _most(mechanism: LocalMechanism, view: str, respondents: int | None) -> Leakage:
    """One view, with as many respondents as asked for, or as can be."""
    if view in ("report", "linked"):
        return leakage(mechanism, view)
    for count in range(8, 1, -1) if respondents is None else ():
        try:
            return leakage(mechanism, view, count, most_work=MOST_WORK / 10.0)
        except BadValue:
            # Too much to enumerate: one respondent fewer.
            continue
    return leakage(mechanism, view, respondents or 1)


def leakage_rows(found: list[Leakage], epsilon: float, claimed: float | None = None) -> list[dict[str, Any]]:
    """Views as rows: the loss with delta 0, delta at an epsilon and at the claimed one, and what is proved for certain."""
    rows = []
    two, guarded = any(each.view == "linked" for each in found), any(each.view == "published" for each in found)
    for each in found:
        seen = MEANING["report of two" if two and each.view == "report" else each.view]
        # What a guarded question does not publish is seen by nobody, unless all aggregators open their shares to each other.
        seen = f"if all aggregators join: {seen}" if guarded and each.view != "published" else seen
        row: dict[str, Any] = {"view": each.view, "seen": seen, "respondents": each.respondents}
        row |= {"epsilon": each.pure_epsilon if math.isfinite(each.pure_epsilon) else None}
        if claimed is not None:
            row["delta_at_printed"] = each.delta(claimed)
        rows.append(row | {"delta": each.delta(epsilon), "at_epsilon": epsilon, "proved_with_chance": each.certain})
    return rows


def curve_rows(found: list[Leakage], claimed: float | None = None, points: int = 151) -> list[dict[str, Any]]:
    """delta by epsilon for each view, from 0 to half as far again as the largest loss that is finite or claimed.

    >>> from dpsurvey.local.randomised_response import warner
    >>> rows = curve_rows(leakages(warner(0.75), 3), points=2)
    >>> [(row["view"], round(row["epsilon"], 3), round(row["delta"], 4)) for row in rows]
    [('report', 0.0, 0.5), ('report', 1.648, 0.0), ('counts', 0.0, 0.3125), ('counts', 1.648, 0.0)]
    """
    largest = max([each.pure_epsilon for each in found if math.isfinite(each.pure_epsilon)] + [claimed or 1.0, 1.0])
    steps = [1.5 * largest * step / (points - 1) for step in range(points)]
    return [{"epsilon": at, "delta": each.delta(at), "view": each.view} for each in found for at in steps]


def error_rows(mechanism: LocalMechanism, yes: int, respondents: int) -> list[dict[str, Any]]:
    """The standard deviation of an estimated count, everybody asked, for each way of publishing Sampling Privacy; else no rows.

    >>> from dpsurvey.local.sampling_privacy import sampling_privacy
    >>> [round(row["sd"], 2) for row in error_rows(sampling_privacy([0.275, 0.275], 0.45), 100, 10_000)]
    [11.06, 99.23, 11.36, 99.23]
    """
    alone = mechanism.round_two()
    if alone is None:
        return []
    guard = mechanism if mechanism.noise is not None else GuardedDifference(alone.chances, alone.pi_s, alone.epsilon)
    best = choose(k=mechanism.k, epsilon=alone.epsilon).best.mechanism

    def sd(own: float, other: float, extra: float = 0.0) -> float:
        return math.sqrt(yes * own + (respondents - yes) * other + extra)

    assert guard.noise is not None
    assert guard.aggregators is not None
    noise = guard.aggregators * guard.noise.variance / float(alone.pi_s) ** 2
    return [
        {"published": "both counts, as in the paper", "epsilon": None, "sd": sd(*mechanism.spread(1))},
        {"published": "round two only", "epsilon": alone.epsilon, "sd": sd(*alone.spread(1))},
        {
            "published": f"guarded difference, {guard.aggregators} aggregators",
            "epsilon": guard.claimed_epsilon,
            "sd": sd(*mechanism.spread(1), noise),
        },
        {"published": f"{best.kind}, one round", "epsilon": best.epsilon, "sd": sd(*best.spread(1))},
    ]


def leakage_text(
    mechanism: LocalMechanism,
    rows: list[dict[str, Any]],
    errors: list[dict[str, Any]] | None,
    audited: LocalAudit | None,
    yes: int,
    respondents: int,
) -> str:
    """The report for people."""
    shown = [dict(row) | {"epsilon": "infinite" if row["epsilon"] is None else ceiling_text(row["epsilon"])} for row in rows]
    at = f"delta at {given_text(rows[0]['at_epsilon'])}"
    for row, made in zip(rows, shown, strict=True):
        made |= {at: row["delta"], "proved": row["proved_with_chance"], "delta at printed": row.get("delta_at_printed")}
    columns = ["seen", "respondents", "epsilon", *(["delta at printed"] if "delta_at_printed" in rows[0] else []), at, "proved"]
    lines = [f"{mechanism.title}: what is leaked, enumerated from the client's own code", "", text_table(shown, columns)]
    lines += ["", "proved: the chance that what is seen is impossible for the other answer; no epsilon brings delta below it"]
    lines += ["", mechanism.leakage_note] if mechanism.leakage_note else []
    if errors:
        printed = [dict(row) | {"epsilon": "none" if row["epsilon"] is None else ceiling_text(row["epsilon"])} for row in errors]
        lines += ["", f"Standard deviation of a count of {yes:,} among {respondents:,} respondents:", ""]
        lines += [text_table(printed, ["published", "epsilon", "sd"])]
    if audited is not None:
        lines += ["", f"Audit: {audited}"]
    return "\n".join(lines)
