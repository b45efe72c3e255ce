"""The auditor's view: simulated releases, one event, and the epsilon that its frequencies prove at least.

A mechanism that is epsilon-private shows every event at most e^epsilon times as often under one answer as under the other. The
event is chosen on releases of its own; on fresh ones its two probabilities are bounded by Clopper-Pearson, and log(low/high) is
a lower bound on epsilon at the stated confidence. It proves a leak, and never its absence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from ..errors import BadValue
from ..text.layout import ceiling_text, floor_text
from .base import Array, LocalMechanism
from .chance import Chance, SecretChance


@dataclass(frozen=True)
class LocalAudit:
    """A measured lower bound on epsilon, with its confidence."""

    epsilon: float
    confidence: float
    runs: int
    event: str
    seen: tuple[int, int]
    claimed: float

    @property
    def broken(self) -> bool:
        """Whether the claim is refuted at this confidence."""
        return self.epsilon > self.claimed

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "epsilon_at_least": self.epsilon,
            "confidence": self.confidence,
            "releases": self.runs,
            "event": self.event,
            "seen": list(self.seen),
            "claimed": self.claimed if math.isfinite(self.claimed) else None,
            "broken": self.broken,
        }

    def __str__(self) -> str:
        verdict = "the claim is refuted" if self.broken else "the claim stands"
        return (
            f"{self.runs:,} releases of each kind: {self.event} in {self.seen[0]:,} and {self.seen[1]:,} of them. Epsilon is at "
            f"least {floor_text(self.epsilon)} at confidence {self.confidence:g}; "
            f"claimed {ceiling_text(self.claimed)}: {verdict}."
        )


def audit(
    mechanism: LocalMechanism,
    *,
    others: tuple[int, ...],
    answers: tuple[int, int] = (1, 0),
    runs: int = 10_000,
    confidence: float = 0.95,
    chance: Chance | None = None,
) -> LocalAudit:
    """Simulate releases of sums of marks with one respondent answering one thing or the other, and bound epsilon from below.

    `others` says how many of the others give each answer. The claim is the mechanism's own epsilon; for Sampling Privacy the
    one that the paper prints, and for a guarded question that of what it publishes.

    >>> from dpsurvey.local.sampling_privacy import sampling_privacy
    >>> audit(sampling_privacy([0.275, 0.275], 0.45), others=(99, 0)).broken
    True
    """
    if len(others) != mechanism.k or min(others) < 0:
        raise BadValue(
            "others gives the number of respondents for each category", given=f"{len(others)} numbers, {mechanism.k} categories"
        )
    if runs < 100 or not 0.0 < confidence < 1.0:
        raise BadValue("an audit needs at least 100 releases and a confidence between 0 and 1")
    chance = chance or SecretChance()
    pilot = [_sums(mechanism, others, answer, answers[0], max(100, runs // 4), chance) for answer in answers]
    sign, threshold, swapped = _best_event(pilot[0], pilot[1], confidence)
    fresh = [_sums(mechanism, others, answer, answers[0], runs, chance) for answer in answers]
    seen = [int(np.count_nonzero(sign * each >= sign * threshold)) for each in fresh]
    first, second = (seen[1], seen[0]) if swapped else (seen[0], seen[1])
    words = f"a sum of marks of {'at least' if sign > 0 else 'at most'} {threshold:g}"
    bound = _bound(first, second, runs, confidence)
    return LocalAudit(bound, confidence, runs, words, (seen[0], seen[1]), mechanism.claimed_epsilon)


def _sums(mechanism: LocalMechanism, others: tuple[int, ...], answer: int, category: int, runs: int, chance: Chance) -> Array:
    """The published sum of marks of one category in many releases."""
    one = np.concatenate([[answer], np.repeat(np.arange(len(others)), others)]).astype(np.int64)
    parts = []
    for start in range(0, runs, step := max(1, 500_000 // len(one))):
        count = min(step, runs - start)
        reports = mechanism.randomize(np.tile(one, count), chance)
        parts.append(mechanism.marks(reports, category).astype(np.int64).reshape(count, len(one)).sum(axis=1))
    found = np.concatenate(parts)
    if (noise := mechanism.noise) is not None:
        # What is published holds noise; that of one aggregator, since the others may tell theirs.
        rounds, width = mechanism.published_shape
        drawn = np.array(noise.randomize([0] * (rounds * width * runs)), dtype=np.float64).reshape(rounds, width, runs)
        found = found + mechanism.marks_of_sums(list(drawn))[category]
    return found.astype(np.float64)


def _best_event(first: Array, second: Array, confidence: float) -> tuple[float, float, bool]:
    """The threshold, and its side, that guarantee the largest bound."""
    best, chosen = -math.inf, (1.0, 0.0, False)
    for threshold in np.unique(np.concatenate([first, second])).tolist():
        for sign in (1.0, -1.0):
            hits = [int(np.count_nonzero(sign * each >= sign * threshold)) for each in (first, second)]
            for swapped in (False, True):
                one, other = (hits[1], hits[0]) if swapped else (hits[0], hits[1])
                if (bound := _bound(one, other, len(first), confidence)) > best:
                    best, chosen = bound, (sign, threshold, swapped)
    return chosen


def _bound(first: int, second: int, runs: int, confidence: float) -> float:
    """log(low/high) from Clopper-Pearson bounds, each at half of the error; at least 0."""
    tail = (1.0 - confidence) / 2.0
    low = float(betaincinv(first, runs - first + 1.0, tail)) if first else 0.0
    high = float(betaincinv(second + 1.0, runs - second, 1.0 - tail)) if second < runs else 1.0
    return max(0.0, math.log(low / high)) if low > 0.0 else 0.0
