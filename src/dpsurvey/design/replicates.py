"""Replicate weights: which columns hold them, by which method they were made, and what a variance takes of each.

The variance is sum_r c_r (estimate with replicate r - estimate)^2. As in R's survey package, c_r is a scale for all times one
for each replicate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from ..errors import BadValue, NotFound, close_name, did_you_mean


class ReplicateKeys(TypedDict, total=False):
    """The keyword arguments of a file with replicate weights; `Replicates` says what they mean."""

    replicates: str | Sequence[str] | None
    replicate_method: str | None
    fay_rho: float | None
    replicate_scale: float | None
    replicate_scales: Sequence[float] | None
    replicate_df: float | None
    replicate_reach: float | None


KEYS = tuple(ReplicateKeys.__annotations__)


@dataclass(frozen=True)
class _Method:
    """What a method says of R replicates: the scale for all is `times` over R, or (R - 1)/R, or nothing is known of it."""

    times: float | None
    # Whether one replicate leaves a part out, so that the scale is (R - 1)/R.
    leaves_out: bool = False
    # Whether each stratum has replicates of its own, so that a scale for each has to be said.
    by_stratum: bool = False
    # Degrees of freedom that the replicates themselves take off their number.
    less: float = 0.0

    def scale(self, count: int) -> float:
        """The scale of all replicates."""
        return (count - 1.0) / count if self.leaves_out else 1.0 if self.times is None else self.times / count


METHODS = {
    "JK1": _Method(None, leaves_out=True, less=1.0),
    "JKn": _Method(None, by_stratum=True),
    "BRR": _Method(1.0),
    "Fay": _Method(1.0),
    "bootstrap": _Method(1.0, less=1.0),
    "SDR": _Method(4.0),
}


@dataclass(frozen=True)
class Replicates:
    """Replicate weights of a file.

    columns  their names in order, or a regular expression that the whole name of each matches
    method   how they were made: JK1, JKn, BRR, Fay, bootstrap or SDR (successive differences)
    rho      of Fay's method, the part of the weight that a half that is left out keeps
    scale    c of all replicates, where it is not the method's own
    scales   c of each replicate, times the scale of all; of JKn (m - 1)/m, m the clusters of the stratum
    df       the published degrees of freedom
    reach    the most that sqrt(sum_r c_r (w_r - w)^2) is to be for any row; rows above it are scaled down to it

    >>> Replicates(("r1", "r2", "r3", "r4"), "Fay", rho=0.5).factors
    (1.0, 1.0, 1.0, 1.0)
    >>> Replicates("wgt[0-9]+", "BRR").resolved(["id", "wgt10", "wgt9", "weight"], "weight").columns
    ('wgt9', 'wgt10')
    """

    columns: str | tuple[str, ...]
    method: str
    rho: float | None = None
    scale: float | None = None
    scales: tuple[float, ...] = ()
    df: float | None = None
    reach: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise BadValue(
                f"unknown method of replicate weights {self.method!r}" if self.method else "replicates= needs replicate_method=",
                because="the method says by what their squared differences are multiplied",
                hint=did_you_mean(str(self.method), METHODS),
            )
        if (self.rho is not None) != (self.method == "Fay"):
            said = "Fay's replicates need fay_rho=" if self.method == "Fay" else "fay_rho= is of replicate_method='Fay' alone"
            raise BadValue(said, hint="the part of its weight that a half-sample that is left out keeps, often 0.3 or 0.5")
        if self.rho is not None and not 0.0 <= self.rho < 1.0:
            raise BadValue("fay_rho is in [0, 1)", given=f"fay_rho={self.rho!r}")
        for name, value in (("replicate_scale", self.scale), ("replicate_df", self.df), ("replicate_reach", self.reach)):
            if value is not None and not 0.0 < value < math.inf:
                raise BadValue(f"{name} is not a positive number", given=f"{name}={value:g}")
        if any(not 0.0 <= each < math.inf for each in self.scales) or (self.scales and not any(self.scales)):
            raise BadValue("replicate_scales are not negative, and not all 0")
        if METHODS[self.method].by_stratum and not self.scales and self.scale is None:
            raise BadValue(
                "JKn needs replicate_scales=",
                because="the factor of a replicate is (m - 1)/m, m the clusters of the stratum that it leaves one out of",
                hint="one for each replicate, in their order; replicate_scale=0.5 where each stratum has two clusters, each left "
                "out once, and replicate_scale=1 where one of the two is (JK2)",
            )
        if isinstance(self.columns, tuple):
            self._check_count(self.columns)
        else:
            _pattern(self.columns)

    def _check_count(self, columns: tuple[str, ...]) -> None:
        if len(columns) < 2:
            raise BadValue("a variance needs at least 2 replicate weights", given=f"replicates={list(columns)}")
        if len(set(columns)) < len(columns):
            raise BadValue("a column of replicate weights is named twice", hint="name each once, in the order of their scales")
        if self.scales and len(self.scales) != len(columns):
            raise BadValue(
                "replicate_scales= takes one number for each replicate",
                given=f"{len(self.scales)} numbers for {len(columns)} columns",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, where they are known by name."""
        if isinstance(self.columns, str):
            raise BadValue(
                "the columns of replicate weights are known by a pattern alone",
                given=f"replicates={self.columns!r}",
                hint="ds.Survey(...) and Survey.collected(...) look them up in the file; or list their names",
            )
        return self.columns

    def resolved(self, known: Iterable[str], weights: str | None) -> Replicates:
        """The same with the names of a file's columns that match the pattern, in their natural order."""
        if isinstance(self.columns, tuple):
            return self
        names = list(known)
        found = sorted((name for name in names if _pattern(self.columns).fullmatch(name)), key=_natural)
        if not found:
            raise NotFound(
                "no column is named like the replicate weights",
                given=f"replicates={self.columns!r}",
                hint=close_name(self.columns, names, "the pattern is a regular expression for the whole name: wgt[0-9]+"),
            )
        if weights in found:
            raise BadValue(
                "the pattern of the replicate weights matches the column of the weights too",
                given=f"replicates={self.columns!r}, weights={weights!r}",
                hint="a pattern that the weights do not match, such as wgt[1-9][0-9]* beside wgt0; or a list of names",
            )
        return replace(self, columns=tuple(found))

    def check_strata(self, strata: int) -> None:
        """Refuse fewer replicates than the strata need that they were made in."""
        if self.method in ("BRR", "Fay", "JKn") and isinstance(self.columns, tuple) and len(self.columns) < strata:
            raise BadValue(
                f"{self.method} has at least as many replicates as strata",
                given=f"{len(self.columns)} replicates, {strata} strata",
                because="with fewer of them some strata are never compared with others",
                hint="name all columns of replicate weights; declare in strata= those that they were made in, or leave it out",
            )

    @property
    def factors(self) -> tuple[float, ...]:
        """c_r, by which the squared difference of each replicate is multiplied."""
        count = len(self.names)
        own = METHODS[self.method].scale(count) / (1.0 - (self.rho or 0.0)) ** 2
        common = own if self.scale is None else self.scale
        return tuple(common * each for each in self.scales or (1.0,) * count)

    def freedom(self, most: float | None) -> float:
        """Degrees of freedom: published, else those of the method, and no more than `most`: clusters less strata, where known."""
        if self.df is not None:
            return self.df
        count = float(len(self.names))
        method = METHODS[self.method]
        # Of m replicates for the m clusters of a stratum one is not free; with two clusters that is half of them.
        own = max(1.0, 0.5 * count if method.by_stratum else count - method.less)
        return own if most is None else max(1.0, min(own if not method.by_stratum else count, most))

    def given(self) -> dict[str, Any]:
        """The keyword arguments that make it, JSON-ready."""
        columns = self.columns if isinstance(self.columns, str) else list(self.columns)
        values = (columns, self.method, self.rho, self.scale, list(self.scales) or None, self.df, self.reach)
        return {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}


def replicates_of(given: Mapping[str, Any]) -> Replicates | None:
    """Replicate weights from keyword arguments, as a design, TOML and JSON write them; None where none are named."""
    named = {key: value for key in KEYS if (value := given.get(key)) is not None}
    if "replicates" not in named:
        if named:
            raise BadValue(f"{next(iter(named))} needs replicates=, the columns of replicate weights")
        return None
    columns = named["replicates"]
    if not isinstance(columns, str):
        if not isinstance(columns, Sequence) or not all(isinstance(each, str) and each for each in columns):
            raise BadValue("replicates= takes names of columns, or a regular expression for them")
        columns = tuple(columns)
    fay, scale, df, reach = (_number(key, named.get(key)) for key in (KEYS[2], KEYS[3], KEYS[5], KEYS[6]))
    scales = named.get("replicate_scales", ())
    if isinstance(scales, str) or not isinstance(scales, Sequence):
        raise BadValue("replicate_scales= takes one number for each replicate")
    each = tuple(number for value in scales if (number := _number("replicate_scales", value)) is not None)
    return Replicates(columns, str(named.get("replicate_method", "")), fay, scale, each, df, reach)


def without_replicates(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that are not about replicate weights.

    >>> without_replicates({"weights": "w", "replicates": "rep[0-9]+", "replicate_method": "BRR"})
    {'weights': 'w'}
    """
    return {key: value for key, value in given.items() if key not in KEYS}


def _number(key: str, value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise BadValue(f"{key}= takes a number", given=f"a {type(value).__name__}")
    return None if value is None else float(value)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        hint = "names of columns, or a regular expression for the whole name: wgt[0-9]+"
        raise BadValue("replicates= is not a regular expression", given=repr(text), because=str(error), hint=hint) from None


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which wgt9 comes before wgt10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
