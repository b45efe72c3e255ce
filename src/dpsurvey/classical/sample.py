"""A sample with its design, and the estimates it gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, Unpack

import numpy as np

from ..design.columns import ColumnKeys, any_columns
from ..errors import BadData, BadValue
from . import linear
from .calibrate import Margins, grouping, post_stratify, rake
from .columns import Array, Mask, Table, empty_cells, equal_to, numbers, rows_where, values
from .drawn import Drawn, drawn_sample
from .estimate import Estimate, critical, standard_error
from .proportion import Proportion, proportion_interval
from .quantile import sorted_quantile


class Sample:
    """Rows drawn by a survey design.

    data      a dict of arrays, a pandas or Polars frame, an Arrow table: anything that gives a column by its name
    strata    column of the stratum
    psu, ssu  columns of the first and second stage units; without psu each row is a unit
    weights   column of the weights, or one number for all rows; or
    probs     column of the inclusion probabilities; or neither, when fpc tells them
    fpc       column (or number) of the POPULATION size of each stratum, in units of the first stage; for two stages a pair,
              the second being the number of second-stage units in the first-stage unit; never a sampling fraction
    lonely    what a stratum with one sampled unit does: "refuse", "certainty", "adjust" or "average" (see StagedDesign)
    nest      psu labels are reused across strata (ssu labels always may be, across psus)
    sampling  "stages": without replacement where fpc is given, else with replacement, which is also the usual
              approximation for PPS samples; or, with probs, "poisson", "brewer", "deville", "overton", "hartley-rao", and
              with joint= (the table of joint inclusion probabilities) "horvitz-thompson", "yates-grundy"
    square_sum  for "hartley-rao": sum of pi^2/n over the frame, estimated when left out

    A domain keeps the whole design: rows outside it count as zeros and are never dropped.

    >>> sample = Sample({"y": [1.0, 3.0, 5.0, 7.0]}, fpc=16)
    >>> found = sample.mean("y")
    >>> found.estimate, round(found.se, 6), found.df, round(found.deff, 9)
    (4.0, 1.118034, 3.0, 1.0)
    """

    def __init__(
        self,
        data: Table,
        *,
        lonely: str = "refuse",
        nest: bool = True,
        sampling: str = "stages",
        joint: Any = None,
        square_sum: Any = None,
        **columns: Unpack[ColumnKeys[Any]],
    ) -> None:
        choices = {"lonely": lonely, "nest": nest, "sampling": sampling, "joint": joint, "square_sum": square_sum}
        self._data = data
        self._drawn = drawn_sample(data, any_columns(columns), **choices)
        self._inside: Mask | None = None

    @property
    def weights(self) -> Array:
        """The weight of each row, after calibration."""
        return self._drawn.weights.copy()

    @property
    def domain_weights(self) -> Array:
        """The weight of each row, 0 outside the domain."""
        return self._drawn.weights.copy() if self._inside is None else np.where(self._inside, self._drawn.weights, 0.0)

    @property
    def df(self) -> float:
        """The degrees of freedom: first-stage units minus strata, among the rows of the domain."""
        return self._drawn.design.df(self._inside)

    def within(self, where: Any) -> Self:
        """The same sample, seen in a domain: (column, value) or a boolean for each row.

        >>> Sample({"y": [1.0, 3.0, 8.0], "sex": ["f", "m", "f"]}, fpc=9).within(("sex", "f")).total("y").estimate
        27.0
        """
        mask = rows_where(self._data, where, len(self._drawn.weights))
        inside = mask if self._inside is None else mask & self._inside
        if not inside.any():
            raise BadData("the domain has no rows in the sample", because="nothing can be estimated for it")
        return self._copy(self._drawn, inside)

    def by(self, column: str) -> dict[Any, Self]:
        """One domain for each value of a column.

        >>> parts = Sample({"y": [1.0, 3.0, 8.0], "sex": ["f", "m", "f"]}, fpc=9).by("sex")
        >>> {value: part.mean("y").estimate for value, part in parts.items()}
        {'f': 4.5, 'm': 3.0}
        """
        found = values(self._data, column, "column")
        full = ~empty_cells(found)
        seen = full if self._inside is None else full & self._inside
        return {value: self.within((column, value)) for value in sorted(set(found[seen].tolist()))}

    def total(
        self, y: Any, where: Any = None, *, level: float = 0.95, df: float | None = None, missing: str = "refuse"
    ) -> Estimate:
        """The weighted total, sum w y. `df` replaces the design's degrees of freedom; inf gives the normal interval.

        >>> Sample({"y": [1.0, 3.0]}, weights=[10.0, 20.0]).total("y").estimate
        70.0
        """
        here = self if where is None else self.within(where)
        (values_of_y,), rows = here._numbers(missing, y=y)
        return here._symmetric(linear.total(self._drawn.weights, values_of_y, rows), level, df, (values_of_y, rows, True))

    def mean(
        self, y: Any, where: Any = None, *, level: float = 0.95, df: float | None = None, missing: str = "refuse"
    ) -> Estimate:
        """The weighted mean, sum w y/sum w.

        >>> Sample({"y": [1.0, 4.0]}, weights=[10.0, 20.0]).mean("y").estimate
        3.0
        """
        here = self if where is None else self.within(where)
        (values_of_y,), rows = here._numbers(missing, y=y)
        return here._symmetric(linear.mean(self._drawn.weights, values_of_y, rows), level, df, (values_of_y, rows, False))

    def error_variance(self, variances: Array) -> tuple[float, float]:
        """What independent errors of these variances in the values do to a mean: (what its variance estimate holds, what it is).

        They differ where population sizes are given: an error does not shrink when nearly everybody was drawn.

        >>> Sample({"y": [1.0, 3.0, 5.0, 7.0]}, fpc=8).error_variance(np.full(4, 2.0))
        (0.25, 0.5)
        """
        squares = (self.domain_weights / self.domain_weights.sum()) ** 2 * variances
        return float(squares @ self._drawn.design.own_squares()), float(squares.sum())

    def ratio(
        self, y: Any, x: Any, where: Any = None, *, level: float = 0.95, df: float | None = None, missing: str = "refuse"
    ) -> Estimate:
        """The ratio of two weighted totals, sum w y/sum w x.

        >>> Sample({"y": [1.0, 4.0], "x": [2.0, 2.0]}, weights=[10.0, 20.0]).ratio("y", "x").estimate
        1.5
        """
        here = self if where is None else self.within(where)
        (values_of_y, values_of_x), rows = here._numbers(missing, y=y, x=x)
        return here._symmetric(linear.ratio(self._drawn.weights, values_of_y, values_of_x, rows), level, df)

    def proportion(
        self,
        y: Any,
        value: Any = None,
        method: str = "logit",
        where: Any = None,
        *,
        level: float = 0.95,
        df: float | None = None,
        missing: str = "refuse",
    ) -> Estimate:
        """The share of rows where y equals `value`, or where y is 1 or true; methods: see the module proportion.

        >>> Sample({"sex": ["f", "m", "f", "f"]}, fpc=40).proportion("sex", "f").estimate
        0.75
        """
        here = self if where is None else self.within(where)
        hits, rows = here._hits(y, value, missing)
        estimate, expanded = linear.mean(self._drawn.weights, hits, rows)
        se, used = standard_error(self._drawn.variance(expanded)), here.df if df is None else df
        inside = np.ones(len(rows), dtype=np.bool_) if here._inside is None else here._inside
        at = Proportion(estimate, se, int(inside.sum()), used, level)
        if method == "exact-likelihood":
            at = replace(at, n=int(rows.sum()))
        scale = float(self._drawn.weights[inside].mean())
        low, high = proportion_interval(at, method, self._drawn.weights[rows], hits[rows], scale)
        effects = linear.design_effects(se**2, self._drawn.weights, hits, rows, of_total=False)
        return Estimate(estimate, se, used, low, high, level, *effects)

    def quantile(
        self,
        y: Any,
        q: float,
        rule: str = "math",
        interval: str = "mean",
        where: Any = None,
        *,
        level: float = 0.95,
        df: float | None = None,
        missing: str = "refuse",
    ) -> Estimate:
        """A quantile with Woodruff's interval: the quantiles at the ends of the interval of the share below the estimate.

        `interval` names the method for that share. An end outside [0, 1] gives NaN; the standard error is the length of
        the interval over twice the critical value. Woodruff 1952, JASA 47.

        >>> Sample({"y": np.arange(1.0, 101.0)}, fpc=1000).quantile("y", 0.5).estimate
        50.0
        """
        if not 0.0 < q < 1.0:
            raise BadValue("a quantile lies between 0 and 1", given=f"q={q}", hint="q=0.5 is the median")
        here = self if where is None else self.within(where)
        (values_of_y,), rows = here._numbers(missing, y=y)
        order = np.argsort(values_of_y[rows], kind="stable")
        ordered, weights = values_of_y[rows][order], self._drawn.weights[rows][order]
        estimate = sorted_quantile(ordered, weights, q, rule)
        below = here.proportion(
            (values_of_y <= estimate) * 1.0, method=interval, where=rows, level=level, df=here.df if df is None else df
        )
        ends = [
            sorted_quantile(ordered, weights, end, rule) if 0.0 <= end <= 1.0 else math.nan
            for end in (below.ci_low, below.ci_high)
        ]
        se = (ends[1] - ends[0]) / (2.0 * critical(below.df, level))
        return Estimate(estimate, se, below.df, ends[0], ends[1], level)

    def post_stratified(self, columns: str | tuple[str, ...], totals: Mapping[Any, float]) -> Self:
        """The sample with weights scaled to known totals of groups; later variances know that the weights were fitted.

        With several columns the keys of `totals` are tuples.

        >>> sample = Sample({"y": [1.0, 2.0, 4.0, 6.0], "sex": ["f", "f", "m", "m"]}, fpc=100)
        >>> sample.post_stratified("sex", {"f": 60, "m": 40}).mean("y").estimate
        2.9
        """
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        groups, known = grouping(self._data, names, totals)
        return self._calibrated(post_stratify(self._drawn.weights, groups, known))

    def raked(self, margins: Mapping[str, Mapping[Any, float]]) -> Self:
        """The sample with weights scaled to the totals of several columns at once.

        The residuals are those of the regression on all margins with the weights before raking (Deville and Särndal 1992).

        >>> sample = Sample({"sex": ["f", "f", "m", "m"], "old": [0, 1, 0, 1]}, fpc=100)
        >>> sample.raked({"sex": {"f": 60, "m": 40}, "old": {0: 50, 1: 50}}).weights.tolist()
        [30.0, 30.0, 20.0, 20.0]
        """
        if not margins:
            raise BadValue("raking needs at least one margin", hint='raked({"sex": {"f": 60, "m": 40}})')
        found = [grouping(self._data, (column,), totals) for column, totals in margins.items()]
        return self._calibrated(rake(self._drawn.weights, found))

    def _calibrated(self, margins: Margins) -> Self:
        if self._inside is not None:
            raise BadValue("a domain cannot be calibrated", hint="calibrate the whole sample, then choose the domain")
        drawn = replace(self._drawn, weights=margins.after, calibrations=(*self._drawn.calibrations, margins))
        return self._copy(drawn, None)

    def _copy(self, drawn: Drawn, inside: Mask | None) -> Self:
        other = object.__new__(type(self))
        other._data, other._drawn, other._inside = self._data, drawn, inside
        return other

    def _rows(self, empty: Mask, missing: str) -> Mask:
        """The rows that an estimate uses: those of the domain, without the empty ones if they are to be dropped."""
        if missing not in ("refuse", "drop"):
            raise BadValue("the rule for missing values is unknown", given=f"missing={missing!r}", hint='use "refuse" or "drop"')
        size = len(self._drawn.weights)
        if empty.shape != (size,):
            raise BadValue("a variable does not have one value for each row")
        rows = np.ones(size, dtype=np.bool_) if self._inside is None else self._inside
        if missing == "refuse" and np.any(empty & rows):
            raise BadData("the variable holds missing values", hint='missing="drop" leaves them out and keeps the design whole')
        rows = rows & ~empty
        if not rows.any():
            raise BadData("no row is left to estimate from")
        return rows

    def _numbers(self, missing: str, **columns: Any) -> tuple[list[Array], Mask]:
        found = [numbers(self._data, column, role) for role, column in columns.items()]
        if len({each.shape for each in found}) > 1:
            raise BadValue("the variables differ in length")
        # A sum is NaN where any of its terms is.
        return found, self._rows(np.asarray(np.isnan(sum(found))), missing)

    def _hits(self, y: Any, value: Any, missing: str) -> tuple[Array, Mask]:
        """1 where y has the value, 0 where it has another."""
        if value is not None:
            found = values(self._data, y, "y")
            return equal_to(found, value).astype(np.float64), self._rows(empty_cells(found), missing)
        (hits,), rows = self._numbers(missing, y=y)
        if not np.isin(hits[rows], (0.0, 1.0)).all():
            raise BadData("y holds more than 0 and 1", hint="say which value to count: value=...")
        return hits, rows

    def _symmetric(
        self, linearised: tuple[float, Array], level: float, df: float | None, effects: tuple[Array, Mask, bool] | None = None
    ) -> Estimate:
        """estimate -+ t se, with the design effects where a simple random sample has a say."""
        estimate, expanded = linearised
        variance, used = self._drawn.variance(expanded), self.df if df is None else df
        se, t = standard_error(variance), critical(used, level)
        deffs: tuple[float | None, float | None] = (None, None)
        if effects is not None:
            deffs = linear.design_effects(variance, self._drawn.weights, effects[0], effects[1], of_total=effects[2])
        return Estimate(estimate, se, used, estimate - t * se, estimate + t * se, level, *deffs)
