"""From reports to shares, under the design that the respondents were drawn by.

A report gives each category an unbiased value z with an error of its own, independent of all others. So the weighted mean of z
estimates what the weighted mean of true answers would, and the design's variance estimator applied to z holds the sampling
variance and, of the variance of the errors, what the design counts: all of it when the sample was drawn with replacement, less
where population sizes are given (`Sample.error_variance`). The missing part is added. Proof: docs/guides/local.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ..classical.estimate import critical
from ..classical.sample import Sample
from ..classical.stages import LONELY
from ..classical.unequal import WITHOUT_JOINT
from ..design.columns import ColumnKeys, named_columns
from ..errors import BadData, BadValue, Refusal, did_you_mean
from .cells import Grid
from .estimated_shares import LocalEstimates, Share, clipped, nonresponse_note, row_of, simple_share
from .local_hashing import label_number
from .question import Question
from .reports import Collected, collect
from .tables import column
from .weighting import designed_sample

Progress = Callable[[str, int, int], None]


def estimate(
    question: Question,
    reports: Any,
    *,
    population: int | None = None,
    sampling: str = "stages",
    lonely: str = "refuse",
    classes: str | None = None,
    class_totals: Mapping[str, float] | None = None,
    calibrate: Mapping[str, Mapping[str, float]] | None = None,
    candidates: Sequence[str] | None = None,
    by: str | None = None,
    public: Any = None,
    unit: str | None = None,
    expect: int | None = None,
    level: float = 0.95,
    progress: Progress | None = None,
    **columns: Unpack[ColumnKeys[str]],
) -> LocalEstimates:
    """Shares of all categories from reports: unbiased estimates, both standard errors, intervals.

    reports       a CSV or Parquet file, a table in memory, a list of them, or what `collect` returned
    public, unit  a table with the design's columns, and its column of respondents, where reports do not carry them
    by            a public column: shares in each of its groups, as domains of the same design
    population    for a simple random sample: the size of the population, n itself if everybody was asked; without it the
                  population counts as large
    strata ...    columns of the reports' table that describe any other design, by the keywords of `dpsurvey.classical.Sample`
                  (strata, psu, ssu, weights, probs, fpc); they are public
    classes       column of nonresponse classes, with the sum of design weights of everybody drawn in each (`class_totals`):
                  weights of those who reported are scaled up to it
    calibrate     known population totals by column; two columns or more are raked
    candidates    the labels to estimate in an open domain
    expect        how many respondents the file should hold

    >>> from dpsurvey.local import Question
    >>> asked = Question.ask("smokes", ["no", "yes"], {"kind": "warner", "p": 0.75})
    >>> table = {"question": [asked.fingerprint] * 4, "report": ["yes", "no", "yes", "yes"]}
    >>> estimate(asked, table).rows[1]["estimate"]
    1.0
    """
    if question.mechanism.noise is not None:
        raise Refusal(
            "estimates of a guarded question come from its aggregators",
            because="the noise must be added once, by those who hold shares; here it would be drawn anew at every call",
            hint="dpsurvey local split, aggregate, combine",
        )
    if not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise BadValue("the level of an interval lies between 0 and 1", given=f"level={level}", hint="0.95")
    named = named_columns(columns)
    _check_options(sampling, lonely, named.probs)
    collected = reports if isinstance(reports, Collected) else collect(question, reports, public=public, unit=unit)
    if collected.question != question:
        raise BadValue("the reports were collected for another question")
    if expect is not None and len(collected) + collected.dropped != expect:
        found = len(collected) + collected.dropped
        raise BadData("there are not as many respondents as expected", given=f"expected {expect:,}, found {found:,}")
    if len(collected) < 2:
        raise BadData("one report estimates nothing", hint="several files can be given at once")
    labels, numbers = _categories(question, candidates)
    notes = [nonresponse_note(question)]
    if collected.dropped:
        notes.append(f"{collected.dropped:,} respondents of one round only are left out of both")
    asked = _Asked(labels, numbers, level, progress)
    if not named.given() and classes is None and calibrate is None:
        rows = [
            {**({by: group} if by else {}), **row}
            for group, part in _groups(collected, by)
            for row in _simple(part, asked, None if by else population)
        ]
        if by and population is not None:
            raise BadValue("the population of a group is not known", hint="leave out population, or give fpc and strata")
        design = "a simple random sample" + (f" of {population:,}" if population is not None else " of a large population")
        design = "everybody asked" if population == len(collected) else design
    else:
        if population is not None:
            raise BadValue(
                "a population size describes a simple random sample",
                given=f"population={population}",
                hint="with a design, a column of population sizes: fpc",
            )
        sample, adjusted = designed_sample(collected, named, sampling, lonely, classes, class_totals, calibrate)
        notes += adjusted
        # Without weights of any kind the respondents stand for nobody but themselves, and there is no number of people.
        weighted = classes is not None or calibrate is not None or named.tell_weights
        domains: list[tuple[Any, Sample]] = [(None, sample)]
        if by:
            found_groups = np.array(column(collected.columns, by, "by").to_pylist(), dtype=object).astype(str)
            domains = [(group, sample.within(found_groups == group)) for group in sorted(set(found_groups.tolist()))]
        rows = [
            {**({by: group} if by else {}), **row}
            for group, domain in domains
            for row in _designed(collected, domain, asked, weighted)
        ]
        parts = [f"{role} {name}" for role, name in named.given().items()] + (
            [f"nonresponse classes {classes}"] if classes else []
        )
        design = "design: " + ", ".join(parts or ["equal weights"])
    if any(not 0.0 <= row["estimate"] <= 1.0 for row in rows):
        notes.append("estimates are unbiased, so some lie outside 0 to 1; consistent shares are the nearest that do not")
    rows = [row | _place_of(question, row["category"]) for row in rows]
    return LocalEstimates(
        question, len(collected), tuple(rows), design, tuple(notes), question.mechanism.reports_guarantee, level
    )


@dataclass(frozen=True)
class _Asked:
    """What is estimated, and how."""

    labels: list[str]
    numbers: list[int]
    level: float
    progress: Progress | None

    def __iter__(self) -> Iterator[tuple[int, str, int]]:
        for place, (label, number) in enumerate(zip(self.labels, self.numbers, strict=True)):
            yield place, label, number
            if self.progress:
                self.progress("estimating", place + 1, len(self.labels))


def _check_options(sampling: str, lonely: str, probs: str | None) -> None:
    """Refuse words that no design knows, also where they would not be looked at."""
    if sampling not in ("stages", *WITHOUT_JOINT):
        raise BadValue(f"unknown way of sampling {sampling!r}", hint=did_you_mean(sampling, ("stages", *WITHOUT_JOINT)))
    if sampling != "stages" and probs is None:
        raise BadValue("sampling with unequal probabilities needs a column of them", given=f"sampling={sampling!r}", hint="probs")
    if lonely not in LONELY:
        raise BadValue(f"unknown rule for lonely units {lonely!r}", hint=did_you_mean(lonely, LONELY))


def _groups(collected: Collected, by: str | None) -> list[tuple[Any, Collected]]:
    """The reports of each group of a public column, or all of them."""
    if by is None:
        return [(None, collected)]
    labels = np.array(column(collected.columns, by, "by").to_pylist(), dtype=object).astype(str)
    if int(np.unique(labels, return_counts=True)[1].min()) < 2:
        raise BadData("a group has one report, which estimates nothing", given=f"by={by!r}", hint="merge it with a similar one")
    return [
        (group, Collected(collected.question, collected.reports[labels == group], collected.columns.filter(labels == group)))
        for group in sorted(set(labels.tolist()))
    ]


def _place_of(question: Question, label: str) -> dict[str, float]:
    """The edges of a cell of a grid, in degrees."""
    grid = question.cells
    if not isinstance(grid, Grid) or (place := grid.place(label)) is None:
        return {}
    return dict(zip(("south", "west", "north", "east"), grid.bounds(*place), strict=True))


def _categories(question: Question, candidates: Sequence[str] | None) -> tuple[list[str], list[int]]:
    if question.categories:
        if candidates:
            raise BadValue("candidates go with an open domain", hint="this question lists its categories")
        return list(question.categories), list(range(len(question.categories)))
    if not candidates or len(set(candidates)) != len(candidates):
        raise BadValue("an open domain needs a list of candidates", hint='candidates=["...", "..."], each once')
    if isinstance(question.cells, Grid) and not all(question.cells.has(label) for label in candidates):
        raise BadValue("a candidate is not a cell of the grid", hint=f"for example {question.cells.label(48.8584, 2.2945)!r}")
    return list(candidates), [label_number(label) for label in candidates]


def _simple(collected: Collected, asked: _Asked, population: int | None) -> list[dict[str, Any]]:
    n, mechanism = len(collected), collected.question.mechanism
    if population is not None and (isinstance(population, bool) or not isinstance(population, int) or population < n):
        raise BadValue("the population is smaller than the number of respondents", given=f"population={population}")
    if mechanism.k:
        sums = mechanism.mark_sums(collected.reports)
    else:
        sums = np.array([float(mechanism.marks(collected.reports, number).sum(dtype=np.int64)) for number in asked.numbers])
    return [
        row_of(label, simple_share(mechanism, number, float(sums[place]), n, population, asked.level), population)
        for place, label, number in asked
    ]


def _designed(collected: Collected, sample: Sample, asked: _Asked, weighted: bool) -> list[dict[str, Any]]:
    mechanism = collected.question.mechanism
    weights = sample.domain_weights
    size = float(weights.sum()) if weighted else None
    rows = []
    for _, label, number in asked:
        scale, shift = (float(each) for each in mechanism.line(number))
        own, other = mechanism.spread(number)
        values = scale * mechanism.marks(collected.reports, number) + shift
        found = sample.mean(values, level=asked.level)
        if not found.df >= 1.0 or not math.isfinite(found.se):
            raise BadData(
                "the design leaves nothing to estimate a variance from",
                because="it has as many strata as units, or its variance estimator came out negative",
                hint="merge strata, or another sampling= (brewer is never negative)",
            )
        # The values themselves are unbiased for "is this the answer", and so is this variance of their errors.
        share = float(np.clip(weights**2 @ values / np.sum(weights**2), 0.0, 1.0))
        counted, noise = sample.error_variance(np.full(len(values), own * share + other * (1.0 - share)))
        drawn = max(0.0, found.se**2 - counted)
        half = critical(found.df, asked.level) * float(np.sqrt(drawn + noise))
        ends = clipped(found.estimate - half, found.estimate + half)
        rows.append(row_of(label, Share(found.estimate, drawn, noise, *ends), size))
    return rows
