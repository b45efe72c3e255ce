"""From the sums of all aggregators to shares of categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import BadData, BadValue, Refusal
from .aggregated import EVERYBODY, MODULUS, Aggregated
from .base import Array
from .estimated_shares import (
    LocalEstimates,
    Share,
    critical_value,
    nonresponse_note,
    row_of,
    score_interval,
    simple_share,
)
from .question import Question


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

    >>> from dpsurvey.local.secret_shares import aggregate, split
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
        raise BadValue("sums by group need the population size of each group", hint="--size north=52000 --size south=48000")
    if sizes is not None and (set(sizes) != set(sums) or population is not None):
        raise BadValue(
            "population sizes are needed for each group, and for no other",
            given=", ".join(sorted(sizes)),
            hint="groups: " + ", ".join(sorted(sums)),
        )
    known: dict[str, int | None] = dict(sizes) if sizes is not None else {EVERYBODY: population}
    if not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise BadValue("the level of an interval lies between 0 and 1", given=f"level={level}", hint="0.95")
    for group, size in known.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
            raise BadValue("a population size is a whole number", given=f"{group or 'population'}={size}")
        if counts[group] < 2 and size != 1:
            raise BadData("one respondent says nothing about a variance", given=group, hint="merge the group with a similar one")
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
    return LocalEstimates(question, n, tuple(rows), design, tuple(notes), question.mechanism.sums_guarantee, level)


def _checked(
    question: Question, parts: Sequence[Aggregated], aggregators: int | None
) -> tuple[dict[str, list[Array]], dict[str, int]]:
    """The sums of marks by group; refuses parts that do not belong together."""
    mechanism = question.mechanism
    aggregators = mechanism.aggregators or aggregators
    if any(part.fingerprint != question.fingerprint for part in parts):
        raise BadData("the sums of an aggregator belong to another question")
    if aggregators is not None and (isinstance(aggregators, bool) or not isinstance(aggregators, int)):
        raise BadValue("the number of aggregators is a whole number", given=f"aggregators={aggregators}")
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
    rounds, width = mechanism.published_shape
    if any(part.noisy != (mechanism.noise is not None) for part in parts):
        raise BadData("an aggregator did not add its noise, or added one that was not asked for")
    sums: dict[str, list[Array]] = {}
    for group, count in parts[0].respondents.items():
        blocks = [part.sums.get(group, []) for part in parts]
        if any(len(block) != rounds or any(len(row) != width for row in block) for block in blocks):
            raise BadData("the sums of an aggregator have the wrong shape")
        sums[group] = [
            np.array([_signed(sum(block[turn][v] for block in blocks)) for v in range(width)]) for turn in range(rounds)
        ]
        if not mechanism.possible(sums[group], count, len(parts)):
            raise BadData(
                "the sums do not fit together",
                because="no reports of so many respondents add up to them",
                hint="are these the sums of all aggregators, over shares of one split?",
            )
    return sums, dict(parts[0].respondents)


def _signed(value: int) -> int:
    """A number modulo 2^64, between -2^63 and 2^63."""
    value %= MODULUS
    return value - MODULUS if value >= MODULUS // 2 else value


def _shares(question: Question, sums: list[Array], n: int, population: int | None, level: float, aggregators: int) -> list[Share]:
    mechanism = question.mechanism
    return [
        simple_share(mechanism, v, float(marks), n, population, level, extra=mechanism.noise_of_share(v, n, aggregators))
        for v, marks in enumerate(mechanism.marks_of_sums(sums))
    ]


def _pooled(parts: list[Share], sizes: list[int], level: float) -> Share:
    """Strata weighted by their population sizes; one stratum keeps its own interval.

    The interval takes one share for all strata when it asks what variance a share would have: a stratum without a single mark
    says nothing about its own.
    """
    if len(parts) == 1:
        return parts[0]
    weights = np.array(sizes) / sum(sizes)
    estimate = float(weights @ [part.estimate for part in parts])
    sampling, noise = (float(weights**2 @ [getattr(part, name) for part in parts]) for name in ("sampling", "noise"))
    g, own, other, extra = (float(weights**2 @ [part.parts[place] for part in parts]) for place in range(4))
    fourth = float(weights**4 @ [part.fourth for part in parts])
    step = float(min(weight * part.step for weight, part in zip(weights, parts, strict=True)))
    z = critical_value(level, sampling + noise, fourth)
    return Share(estimate, sampling, noise, *score_interval(estimate, (g, own, other, extra), z, step / 2.0))
