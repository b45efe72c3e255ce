"""From the sums of all aggregators to shares of categories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..classical.estimate import critical
from ..errors import BadData, BadValue, Refusal
from ..layout import ceiling_text
from .base import Array
from .estimates import LocalEstimates, Share, clipped, nonresponse_note, promise_text, row_of, simple_share
from .guarded_difference import GuardedDifference
from .question import Question
from .shares import EVERYBODY, MODULUS, Aggregated


def combine(
    question: Question,
    parts: Sequence[Aggregated],
    *,
    aggregators: int | None = None,
    population: int | None = None,
    sizes: Mapping[str, int] | None = None,
    level: float = 0.95,
) -> LocalEstimates:
    """Estimates from the sums of all aggregators.

    `aggregators` is how many there are (for a guarded question it is known). `population` is the size of the population of a
    simple random sample. Sums by group need the population `sizes` of the groups: strata with a simple random sample each.

    >>> from dpsurvey.local.shares import aggregate, split
    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> table = {"question": [asked.fingerprint] * 4, "report": ["yes", "no", "yes", "yes"]}
    >>> combine(asked, [aggregate(asked, each) for each in split(asked, table, aggregators=3)]).rows[1]["estimate"]
    1.0
    """
    sums, counts = _checked(question, parts, aggregators)
    notes = [nonresponse_note(question), f"added up from the sums of {len(parts)} aggregators"]
    if dropped := max(part.dropped for part in parts):
        notes.append(f"{dropped:,} respondents of one round only are left out of both")
    if (set(sums) != {EVERYBODY}) != (sizes is not None):
        raise BadValue("sums by group need the population size of each group", hint='sizes={"north": 52000, "south": 48000}')
    if sizes is not None and (set(sizes) != set(sums) or population is not None):
        raise BadValue("population sizes are needed for each group, and for no other", given=", ".join(sorted(sums)))
    known: dict[str, int | None] = dict(sizes) if sizes is not None else {EVERYBODY: population}
    for group, size in known.items():
        if size is not None and size < counts[group]:
            raise BadValue("a population is smaller than its number of respondents", given=f"{group or 'population'}={size}")
    columns = {group: _shares(question, sums[group], counts[group], known[group], level, len(parts)) for group in sums}
    whole = None if None in known.values() else sum(size for size in known.values() if size is not None)
    rows = [
        row_of(label, _pooled([columns[group][place] for group in sums], [known[group] or 1 for group in sums], level), whole)
        for place, label in enumerate(question.categories)
    ]
    n = sum(counts.values())
    design = "a stratified sample" if sizes is not None else "a simple random sample"
    return LocalEstimates(question, n, tuple(rows), design, tuple(notes), _promise(question), level)


def _checked(
    question: Question, parts: Sequence[Aggregated], aggregators: int | None
) -> tuple[dict[str, list[Array]], dict[str, int]]:
    """The sums of marks by group; refuses parts that do not belong together."""
    mechanism = question.mechanism
    if isinstance(mechanism, GuardedDifference):
        aggregators = mechanism.aggregators
    if any(part.fingerprint != question.fingerprint for part in parts):
        raise BadData("the sums of an aggregator belong to another question")
    expected = aggregators or max((part.aggregator for part in parts), default=0)
    if sorted(part.aggregator for part in parts) != list(range(1, expected + 1)) or expected < 2:
        raise BadData(
            "the sums of an aggregator are missing, or given twice",
            because="without all of them the rest is uniform noise",
            given="aggregators " + ", ".join(str(part.aggregator) for part in parts),
        )
    if len({part.roster for part in parts}) > 1 or len({tuple(sorted(part.respondents.items())) for part in parts}) > 1:
        raise Refusal(
            "the aggregators added up different respondents",
            because="a share is missing somewhere, and the sums of the others would be uniform noise",
            hint="dpsurvey local aggregate --roster at each of them, then --with all rosters",
        )
    guarded = isinstance(mechanism, GuardedDifference)
    rounds, width = (1, mechanism.k - 1) if guarded else (mechanism.rounds, mechanism.k)
    if any(part.noisy != guarded for part in parts):
        raise BadData("an aggregator did not add its noise, or added one that was not asked for")
    sums: dict[str, list[Array]] = {}
    for group, count in parts[0].respondents.items():
        blocks = [part.sums.get(group, []) for part in parts]
        if any(len(block) != rounds or any(len(row) != width for row in block) for block in blocks):
            raise BadData("the sums of an aggregator have the wrong shape")
        sums[group] = [
            np.array([_signed(sum(block[turn][v] for block in blocks)) for v in range(width)]) for turn in range(rounds)
        ]
        if not guarded and any(np.any(row < 0) or np.any(row > count) for row in sums[group]):
            raise BadData("the sums do not fit together", because="a count is negative or larger than the number of respondents")
    return sums, dict(parts[0].respondents)


def _signed(value: int) -> int:
    """A number modulo 2^64, between -2^63 and 2^63."""
    value %= MODULUS
    return value - MODULUS if value >= MODULUS // 2 else value


def _shares(question: Question, sums: list[Array], n: int, population: int | None, level: float, aggregators: int) -> list[Share]:
    mechanism = question.mechanism
    if not isinstance(mechanism, GuardedDifference):
        marks = sums[0] if mechanism.rounds == 1 else sums[1] - sums[0]
        return [simple_share(mechanism, v, float(each), n, population, level) for v, each in enumerate(marks)]
    # Category 0 is what is left, so the noise of all others is in it; its mark is theirs with the sign turned.
    marks = np.concatenate([[-sums[0].sum()], sums[0]])
    each_noise = mechanism.noise.variance
    found = []
    for category, value in enumerate(marks):
        draws = aggregators * (mechanism.k - 1 if category == 0 else 1)
        scaled = each_noise / (float(mechanism.pi_s) * n) ** 2
        kurtosis = draws * scaled**2 * (3.0 + 1.0 / each_noise)
        found.append(simple_share(mechanism, category, float(value), n, population, level, extra=(draws * scaled, kurtosis)))
    return found


def _pooled(parts: list[Share], sizes: list[int], level: float) -> Share:
    """Strata weighted by their population sizes; one stratum keeps its own interval."""
    if len(parts) == 1:
        return parts[0]
    weights = np.array(sizes) / sum(sizes)
    estimate = float(weights @ [part.estimate for part in parts])
    sampling, noise = (float(weights**2 @ [getattr(part, name) for part in parts]) for name in ("sampling", "noise"))
    half = critical(math.inf, level) * math.sqrt(sampling + noise)
    return Share(estimate, sampling, noise, *clipped(estimate - half, estimate + half))


def _promise(question: Question) -> str:
    mechanism = question.mechanism
    if isinstance(mechanism, GuardedDifference):
        return (
            f"To each respondent, against all who see the published difference and all aggregators but one: epsilon "
            f"{ceiling_text(mechanism.published.epsilon(0.0))} for one answer replaced by another; nothing if all of them join."
        )
    return promise_text(mechanism)
