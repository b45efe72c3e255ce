"""Which mechanism: the least error for a number of categories and an epsilon; and how many respondents a margin needs.

The variance of an estimated share is linear in the share, and shares add up to one. So the sum over all categories of squared
errors is the same for every distribution of answers: mechanisms can be compared without guessing it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..classical.estimate import critical
from ..errors import BadValue
from ..text.layout import ceiling_text, text_table
from .base import LocalMechanism
from .local_hashing import LocalHashing
from .probabilities import check_categories, check_epsilon
from .randomised_response import GeneralisedResponse
from .subset_selection import SubsetSelection
from .unary_encoding import UnaryEncoding

OFFERED = (GeneralisedResponse, UnaryEncoding, LocalHashing, SubsetSelection)
# Populations, and numbers of respondents, that anybody can mean; and the margin that needs so many.
MOST = 10**15
LEAST_MOE = 1e-7


@dataclass(frozen=True)
class Option:
    """One mechanism and its error."""

    mechanism: LocalMechanism
    # Root of the mean over categories of the variance of one respondent's value, from the randomisation alone.
    noise_sd: float
    bits: float

    def se_noise(self, n: float) -> float:
        """The standard error that randomisation adds to a share, root mean square over categories."""
        return self.noise_sd / math.sqrt(n)


@dataclass(frozen=True)
class Choice:
    """The mechanisms for one question, the one with the least error first."""

    k: int
    epsilon: float
    n: int | None
    options: tuple[Option, ...]

    @property
    def best(self) -> Option:
        """The mechanism with the least error."""
        return self.options[0]

    def rows(self) -> list[dict[str, Any]]:
        """The options as a plain table."""
        least = self.best.noise_sd
        return [
            {
                "mechanism": each.mechanism.kind,
                "epsilon": each.mechanism.epsilon,
                "noise_per_respondent": each.noise_sd,
                "se_noise": each.se_noise(self.n) if self.n else None,
                "relative": each.noise_sd / least,
                "as_many_as": (each.noise_sd / least) ** 2,
                "bits": each.bits,
            }
            for each in self.options
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {"k": self.k, "epsilon": self.epsilon, "n": self.n, "best": self.best.mechanism.to_dict(), "options": self.rows()}

    def __str__(self) -> str:
        rows = [row | {"epsilon": ceiling_text(row["epsilon"])} for row in self.rows()]
        columns = ["mechanism", "epsilon", *(["se_noise"] if self.n else ["noise_per_respondent"]), "as_many_as", "bits"]
        text = f"{self.best.mechanism.kind}: the least error of a share for {self.k} categories at ε {ceiling_text(self.epsilon)}"
        text += f", {self.n:,} respondents" if self.n else ""
        explained = "as_many_as: times as many respondents for the same randomisation error; bits: length of a report"
        return f"{text}\n\n{text_table(rows, columns)}\n\n{explained}"


def noise_deviation(mechanism: LocalMechanism) -> float:
    """Root of the mean over categories of the variance of one respondent's value, where all categories are treated alike.

    >>> round(noise_deviation(UnaryEncoding(100, 1.0)), 4)
    1.9216
    """
    own, other = mechanism.spread(0)
    return math.sqrt(own / mechanism.k + other * (1.0 - 1.0 / mechanism.k))


def choose(k: int, epsilon: float, n: int | None = None) -> Choice:
    """The mechanism with the least error for k categories, and the others beside it.

    >>> [option.mechanism.kind for option in choose(k=3, epsilon=1.0).options]
    ['generalised', 'subset', 'hashing', 'unary']
    """
    check_categories(k)
    check_epsilon(epsilon)
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise BadValue("the number of respondents is a whole number of at least 1", given=f"n={n}")
    found = []
    for kind in OFFERED:
        made = kind(k, epsilon)
        bits = 8.0 * made.word_bytes if made.word_bytes else math.log2(k)
        found.append(Option(made, noise_deviation(made), bits))
    # Ties (a set of one category is generalised response) go to the shorter report.
    return Choice(k, epsilon, n, tuple(sorted(found, key=lambda each: (round(each.noise_sd, 9), each.bits))))


def errors_by_epsilon(k: int, n: int, low: float = 0.1, high: float = 8.0, points: int = 60) -> list[dict[str, Any]]:
    """The standard error that randomisation adds to a share, for each mechanism and epsilon.

    >>> rows = errors_by_epsilon(2, 1000, low=1.0, high=2.0, points=2)
    >>> [(row["epsilon"], round(row["se_noise"], 4)) for row in rows if row["mechanism"] == "generalised"]
    [(1.0, 0.0303), (2.0, 0.0135)]
    """
    steps = [low * (high / low) ** (step / (points - 1)) for step in range(points)]
    return [
        {"epsilon": epsilon, "mechanism": option.mechanism.kind, "se_noise": option.se_noise(n)}
        for epsilon in steps
        for option in choose(k=k, epsilon=epsilon).options
    ]


def error_of_equal_shares(k: int, n: int) -> float:
    """The sampling error of a share where all k categories are equally frequent; it is there without randomisation too.

    >>> error_of_equal_shares(2, 2500)
    0.01
    """
    return math.sqrt((1.0 / k) * (1.0 - 1.0 / k) / n)


@dataclass(frozen=True)
class SampleSize:
    """How many respondents a margin of error needs, and how many without randomisation."""

    n: int
    asked: int
    without_randomisation: int
    moe: float
    share: float
    mechanism: LocalMechanism
    population: int | None = None

    @property
    def out_of_reach(self) -> str:
        """Why no sample is large enough: what is needed, and what there is; empty where one is."""
        if self.population is None or self.n <= self.population:
            return ""
        return f"{self.n:,} respondents needed, {self.population:,} in the population"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "respondents": self.n,
            "asked": self.asked,
            "without_randomisation": self.without_randomisation,
            "moe": self.moe,
            "share": self.share,
            "mechanism": self.mechanism.to_dict(),
        }

    def __str__(self) -> str:
        return (
            f"{self.n:,} respondents for a margin of {self.moe:g} at a share of {self.share:g} ({self.mechanism.kind}, "
            f"ε {ceiling_text(self.mechanism.epsilon)}); {self.without_randomisation:,} if answers were not randomised"
            + (f"; ask {self.asked:,}" if self.asked != self.n else "")
        )


def sample_size(
    mechanism: LocalMechanism,
    moe: float,
    *,
    share: float | None = None,
    population: int | None = None,
    deff: float = 1.0,
    response: float = 1.0,
    level: float = 0.95,
) -> SampleSize:
    """The least number of respondents whose interval for a share is expected to reach no further than `moe` to each side.

    The share is the one with the largest error if none is given. `population` is the size of a population from which a simple
    random sample is drawn, `deff` the design effect of another design, `response` the expected response rate.

    >>> needed = sample_size(GeneralisedResponse(2, 1.0), moe=0.03)
    >>> needed.n, needed.without_randomisation
    (4997, 1068)
    """
    found = respondents_needed(mechanism, moe, share=share, population=population, deff=deff, response=response, level=level)
    if found.out_of_reach:
        raise BadValue(
            "the margin is out of reach: even if everybody answered, randomisation alone would add more",
            given=found.out_of_reach,
            hint="a larger margin or a larger epsilon",
        )
    return found


def respondents_needed(
    mechanism: LocalMechanism,
    moe: float,
    *,
    share: float | None = None,
    population: int | None = None,
    deff: float = 1.0,
    response: float = 1.0,
    level: float = 0.95,
) -> SampleSize:
    """The same, also where the population has fewer members than that.

    >>> respondents_needed(GeneralisedResponse(2, 1.0), moe=0.03, population=1000).out_of_reach
    '3,930 respondents needed, 1,000 in the population'
    """
    if not LEAST_MOE <= moe < 1.0:
        raise BadValue(
            f"a margin of error of a share lies between {LEAST_MOE:g} and 1", given=f"moe={moe}", hint="0.03 is three points"
        )
    if share is not None and not 0.0 <= share <= 1.0:
        raise BadValue("a share lies between 0 and 1", given=f"share={share}")
    if not 0.0 < deff <= MOST:
        raise BadValue("a design effect is positive, and no larger than all there are", given=f"deff={deff}")
    if not 1.0 / MOST <= response <= 1.0:
        raise BadValue("a response rate lies above 0 and at most at 1", given=f"response={response}")
    if population is not None and not 1 <= population <= MOST:
        raise BadValue(f"a population has at least one member, and at most {MOST:,}", given=f"population={str(population)[:30]}")
    z = critical(math.inf, level)
    # Where categories are not treated alike the worst one is taken.
    spreads = {mechanism.spread(category) for category in range(1 if mechanism.alike else mechanism.k)}

    def needed(at: float, randomised: bool) -> float:
        """n with moe^2 = z^2 (deff g at(1-at) + noise)/n, where g = (N - n)/(N - 1)."""
        noise = max(own * at + other * (1.0 - at) for own, other in spreads) if randomised else 0.0
        sampling = deff * at * (1.0 - at)
        if population is None:
            return z**2 * (sampling + noise) / moe**2
        if population == 1:
            return z**2 * noise / moe**2
        grown = sampling * population / (population - 1.0) + noise
        return z**2 * grown / (moe**2 + z**2 * sampling / (population - 1.0))

    def worst(randomised: bool) -> float:
        # A parabola in the share, so a fine grid with its peak is enough to name it.
        return max((step / 2000.0 for step in range(2001)), key=lambda at: needed(at, randomised))

    at = worst(True) if share is None else share
    n = max(1, math.ceil(needed(at, True) - 1e-9))
    plain = max(1, math.ceil(needed(worst(False) if share is None else share, False) - 1e-9))
    return SampleSize(n, math.ceil(n / response - 1e-9), plain, moe, at, mechanism, population)
