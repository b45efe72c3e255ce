"""What a plan says before anything is spent, from public figures alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..errors import SurveyError
from ..privacy.setting import Setting
from ..statistic.base import Statistic
from ..statistic.facts import SUPPOSED, Facts
from ..statistic.measured import Measured
from ..statistic.query import RandomGroups

NOISE_ONLY = "noise is expected to be more than 3 times the sampling error: tighter bounds, a larger share, or fewer groups"
FEW_CLUSTERS = (
    "fewer than 12 clusters, or groups of them, carry the variance: intervals are wide and may cover less than they say"
)
WIDE_WEIGHTS = "the largest weight is more than 4 times the typical one and the noise outweighs the sampling error: "
NO_CUT = "weights trimmed by a public rule before the survey, and a narrower weight_range="
UNKNOWN_NUMBER = (
    f"nothing declared says how many units there are, so errors are predicted as if there were {SUPPOSED:,.0f}: declare "
)
NO_ERROR = (
    "the noise is so large beside what it is divided by that no standard error can be given: a larger share, or fewer groups"
)
TAKEN_WHOLE = (
    "a stratum is taken whole, as where its values are larger than all others, and the noise is that of the widest bounds: "
    "bounds by stratum, bounds={label: (lowest, highest)}, give each stratum its own"
)
BIASED = "the bound on the bias of changed weights is larger than the standard error: plain weights may be better"


def expected_trouble(row: Mapping[str, Any], statistic: Statistic, random_groups: RandomGroups | None, facts: Facts) -> list[str]:
    """The warnings that one predicted number of a statistic deserves."""
    found = []
    # A group that lies in one stratum has that stratum's random groups alone; totals and counts compare it with all units.
    alone = facts.design.strata_column in row["by"] and not statistic.masks
    sampling, noise = row["se_sampling"], row["se_noise"]
    known = sampling is not None and noise is not None
    if row["simulated"] and not known:
        found.append(NO_ERROR)
    if known and noise > 3.0 * max(sampling, 1e-300):
        found.append(NOISE_ONLY)
    if random_groups is not None and (random_groups.count - 1) * (1 if alone else max(1, len(random_groups.strata))) < 11:
        found.append(FEW_CLUSTERS)
    if facts.units_supposed:
        found.append(
            UNKNOWN_NUMBER + ("n=, the number of records of the file, or size=" if facts.collected else "size= of the frame")
        )
    if known and row["bias"] > row["se"]:
        found.append(BIASED)
    whole = len(facts.parts) > 1 and any(part.probability >= 1.0 for part in facts.parts)
    # Noise of a third of the sampling error makes intervals 5 % wider.
    if known and whole and isinstance(statistic, Measured) and not statistic.own and not row["by"] and 3.0 * noise > sampling:
        found.append(TAKEN_WHOLE)
    if known and not facts.parts and noise > sampling:
        changed = isinstance(statistic, Measured) and (statistic.trim is not None or statistic.shrink is not None)
        if facts.largest_weight > 4.0 * facts.typical_weight and not changed:
            found.append(WIDE_WEIGHTS + (" or ".join(f"{name}=" for name in _cuts(statistic, facts)) or NO_CUT))
    return found


def _cuts(statistic: Statistic, facts: Facts) -> list[str]:
    """The options for large weights that a statistic takes in this survey: those it plans with."""
    if not isinstance(statistic, Measured):
        return []
    found = []
    for option, asked in (
        ("trim", replace(statistic, trim=facts.typical_weight)),
        ("shrink", replace(statistic, shrink=0.5)),
    ):
        with suppress(SurveyError):
            asked.query(facts)
            found.append(option)
    return found


# The four recommendations of Bailie and Drechsler, section 6, by the settings that go against them.
RECOMMENDATIONS = {
    "population": "protect the frame or the sample, not the population: the gain of a frame that misses few is small and hard "
    "to prove, and design weights are not constants",
    "frame": "protecting the frame amplifies by sampling, but weights are not constants, the gain is small for most designs, and "
    "it is lost to anyone who knows who was sampled",
    "sample": 'with the sample protected, hold the frame fixed (given="frame"): design weights are then constants',
    "respondents": 'protecting respondents alone has no advantage; if you must, hold the frame fixed (given="frame"), not the '
    "sample",
}
ANSWERS_ALONE = (
    "the answers alone are protected: not who responded, the design columns, the weighting columns and the weights; with design "
    'weights protect="sample", given="frame" protects them too, and what is released is weighted after the noise'
)


def recommendation_against(setting: Setting) -> str | None:
    """The recommendation that a setting goes against, or None.

    >>> recommendation_against(Setting("sample", "frame", neighbours="add-remove")) is None
    True
    """
    if setting.answers_alone:
        return ANSWERS_ALONE
    return None if (setting.protect, setting.given) == ("sample", "frame") else RECOMMENDATIONS[setting.protect]


def against_recommendation(setting: Setting) -> tuple[str, ...]:
    """What a plan says of its setting."""
    found = recommendation_against(setting)
    if setting.answers_alone:
        return (ANSWERS_ALONE,)
    return () if found is None else (f"against a recommendation of Bailie and Drechsler: {found}",)


def merged(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Each warning once, with the names of the statistics that it is about.

    >>> merged([("mean of a", "wide"), ("mean of b", "wide"), ("mean of a", "wide")])
    ('mean of a; mean of b: wide',)
    """
    by_text: dict[str, dict[str, None]] = {}
    for name, text in found:
        by_text.setdefault(text, {})[name] = None
    return tuple(f"{'; '.join(names)}: {text}" for text, names in by_text.items())
