"""Names of the estimators of means, totals and proportions, and what version 0.8.0 called them.

ratio                  weighted sums over the estimated number of units (Hajek). Strata of fixed size have no number to estimate:
                       one of the next four then serves the whole, the one with the smallest predicted variance
pooled                 one sum over all strata and its free second moment; the gain of stratification is not in the variance
weighted-pooled        the same with squares that count as they do in the variance, for strata of unlike weights: a third sum,
                       and a little more noise
by-stratum             noise in every stratum: strata that are published serve the whole at no further cost
separate-variance      one sum, and the variance within strata bought with a fifth of the charge
separate-variance-9:1  the published rule for proportions: a tenth of the charge for the variance, no score; it covers too little
                       where answers are rare, and is there for comparison, by name
horvitz-thompson       weighted values are added up and divided by nothing

Ratios have names of their own: centred (a first ratio, then what is left around it) and five-sums (everything at once).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import BadValue, did_you_mean

RATIO, EXPANDED = "ratio", "horvitz-thompson"
POOLED, BY_STRATUM, SEPARATE_VARIANCE, WEIGHTED = "pooled", "by-stratum", "separate-variance", "weighted-pooled"
PUBLISHED = "separate-variance-9:1"
ESTIMATORS = (RATIO, EXPANDED, POOLED, WEIGHTED, BY_STRATUM, SEPARATE_VARIANCE)
OF_PROPORTIONS = (RATIO, PUBLISHED)
# How strata of fixed size serve the whole, where it is left to the predicted variances.
AUTO = "auto"
CENTRED, FIVE_SUMS = "centred", "five-sums"
OF_RATIOS = (AUTO, CENTRED, FIVE_SUMS)
# Up to 0.8.0 these stood under "recipe", which is accepted for one more version.
BEFORE = {"popfree": POOLED, "strnz": BY_STRATUM, "popnz": SEPARATE_VARIANCE, "popnz-9:1": PUBLISHED}


def read_estimator(estimator: str, recipe: str | None, known: Sequence[str] = ESTIMATORS) -> tuple[str, str]:
    """How units are counted, and how strata of fixed size serve the whole: two questions that one name answers.

    Called by the functions behind the public ones, so that a warning points to who called those.

    >>> read_estimator("by-stratum", None), read_estimator("horvitz-thompson", None)
    (('ratio', 'by-stratum'), ('horvitz-thompson', 'auto'))
    """
    if estimator not in known:
        hint = f"{estimator!r} is now {BEFORE[estimator]!r}" if estimator in BEFORE else did_you_mean(str(estimator), known)
        raise BadValue(f"unknown estimator {estimator!r}", hint=hint)
    counted, of_strata = (estimator, AUTO) if estimator in (RATIO, EXPANDED) else (RATIO, estimator)
    if recipe is None:
        return counted, of_strata
    named = BEFORE.get(recipe, recipe)
    if named not in (AUTO, *(each for each in known if each not in (RATIO, EXPANDED))):
        raise BadValue(f"unknown estimator {recipe!r}", given=f"recipe={recipe!r}", hint=did_you_mean(str(recipe), known))
    if of_strata not in (AUTO, named):
        raise BadValue("estimator= and recipe= say two things", given=f"{estimator!r}, {recipe!r}", hint="leave out recipe=")
    if recipe in BEFORE or named == AUTO:
        now = f"estimator={named!r}" if named != AUTO else "estimator=, and need not be given"
        warnings.warn(f"recipe={recipe!r} is now {now}", DeprecationWarning, stacklevel=4)
    return counted, named


def estimator_fields(counted: str, of_strata: str) -> dict[str, str]:
    """The estimator as a statistic is written down; nothing where it is the usual one.

    >>> estimator_fields("ratio", "auto"), estimator_fields("ratio", "pooled")
    ({}, {'estimator': 'pooled'})
    """
    if of_strata == AUTO:
        return {"estimator": counted} if counted != RATIO else {}
    # Version 0.8.0 took both at once; at most one of them matters, which one the design decides.
    return {"estimator": of_strata} if counted == RATIO else {"estimator": counted, "recipe": of_strata}


def as_now(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A statistic that was written down, with the estimator under the name that it has now.

    >>> as_now({"kind": "mean", "of": "income", "recipe": "popnz"})
    {'kind': 'mean', 'of': 'income', 'estimator': 'separate-variance'}
    """
    found = _inside(fields, as_now)
    if found.get("recipe") not in BEFORE:
        return found
    name = BEFORE[found.pop("recipe")]
    return found | ({"recipe": name} if "estimator" in found else {"estimator": name})


def as_in_0_8(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A statistic as version 0.8.0 wrote it down: ledgers know a question by a hash of that.

    >>> as_in_0_8({"kind": "mean", "of": "income", "estimator": "separate-variance"})
    {'kind': 'mean', 'of': 'income', 'recipe': 'popnz'}
    """
    found, back = _inside(fields, as_in_0_8), {now: before for before, now in BEFORE.items()}
    if found.get("estimator") in back:
        found["recipe"] = found.pop("estimator")
    return found | ({"recipe": back[found["recipe"]]} if found.get("recipe") in back else {})


def _inside(fields: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """The fields, changed in the statistic that this one is of."""
    of = fields.get("of")
    return dict(fields) | ({"of": change(of)} if isinstance(of, Mapping) else {})
