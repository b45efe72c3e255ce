"""The ratio of two totals, over the frame or over each public group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue, did_you_mean
from ..mechanism.base import Answering, Mechanism
from ..mechanism.centred_ratio import CentredRatio, Change
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from .arguments import check_by
from .base import Estimates, Statistic
from .cluster_variance import AUTO as AUTO_VARIANCE
from .cluster_variance import check_variance
from .condition import read_where
from .encodings import Both, CentredMoments, RatioMoments
from .estimators.centred_ratio import NOISY_FREEDOM, TwoWays, solve_centred
from .estimators.clusters import Contributions, RandomGroupSums
from .estimators.interval import Array, accepted_hull, critical, skew_allowance, student, truncated
from .estimators.names import AUTO, CENTRED, FIVE_SUMS, OF_RATIOS
from .estimators.norm_interval import norm_numbers
from .estimators.random_groups import random_group_numbers, within_own_strata
from .estimators.random_size import Answer
from .facts import Facts
from .linear_numbers import LinearNumbers, by_group
from .missing import check_drop
from .noisy_sums import Asked, NoisySums
from .notes import estimates_of
from .number_limits import check_bounds
from .predict.declared_figures import check_deff, check_published, read_moments, rests_on
from .predict.population import ExpectedPopulation
from .query import FINE, Query
from .random_group_layout import own_strata
from .registry import register

# A ratio on the scale of its bounds that is as good as without an end.
MOST = 1e6
# The deviation of values spread evenly over [0, 1].
EVEN = (1.0 / 12.0) ** 0.5
# The largest weight c of the second moments that leaves the sensitivity of (y, x) as it is. docs/proofs/estimation.md
FREE = {
    (Relation.ADD_REMOVE, "L1"): 1.0,
    (Relation.REPLACE_ONE, "L1"): 1.0 / 3.0,
    (Relation.ADD_REMOVE, "L2"): 1.0,
    (Relation.REPLACE_ONE, "L2"): 1.0,
}


CENTRE_PAYS = "centred: a fifth goes on a first ratio, and the rest on what is left around it, which is expected to be narrower"
CENTRE_DOES_NOT_PAY = "five-sums: a first ratio would be lost in its noise, or would cost more than it saves"


@dataclass(frozen=True)
class Ratio(Statistic):
    """The total of one column over the total of another, both clipped to [0, highest]. See `ratio`."""

    kind: ClassVar[str] = "ratio"
    to: str = ""
    bounds: tuple[float, float] = (0.0, 1.0)
    to_bounds: tuple[float, float] = (0.0, 1.0)
    expect: tuple[float, ...] = ()
    estimator: str = AUTO

    def query(self, facts: Facts) -> Query:
        both, between = Both(self.to, self.to_bounds), self.variance_between(facts)
        query = self._query(facts, both, FINE, weighted=True, bounds=self.bounds, between=between)
        if facts.clustering is not None:
            return query
        if self.stays_in_place(facts):
            query = replace(query, group_is_fixed=True)
        plain = replace(query, encoding=RatioMoments(self.to, self.to_bounds, self._free(query, facts)))
        return replace(query, encoding=CentredMoments(self.to, self.to_bounds)) if self._centred(plain, facts) else plain

    def _centred(self, plain: Query, facts: Facts) -> bool:
        """Whether a centre is looked for first: as asked, or where that is predicted to do better."""
        if facts.as_in_0_8 or self.estimator != AUTO:
            return self.estimator == CENTRED
        found = self.population(plain, facts)
        ways = TwoWays(
            self._both, bool(self.expect), self._free(plain, facts), facts.norm, _change(plain, facts), facts.noise_each
        )
        return ways.two_pay(found.counts, facts.thinning(plain.by, plain.groups))

    def choice(self, facts: Facts) -> str:
        if facts.clustering is not None:
            return super().choice(facts)
        if facts.as_in_0_8 or self.estimator != AUTO:
            return ""
        return CENTRE_PAYS if isinstance(self.query(facts).encoding, CentredMoments) else CENTRE_DOES_NOT_PAY

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        if not isinstance(query.encoding, CentredMoments):
            return super().calibrate(query, charge, facts, additive, delta)
        both = replace(query, encoding=Both(self.to, self.to_bounds)).sensitivity(facts.relation, additive.norm)
        return CentredRatio.calibrate(charge, additive, both, query.steps, _change(query, facts), query.reach)

    def asked_of(self, query: Query) -> Query:
        # The answers of two steps do not count who left the question out.
        return query if isinstance(query.encoding, CentredMoments) else super().asked_of(query)

    @property
    def of_plain_sums(self) -> Ratio:
        """The same ratio from five noisy sums."""
        return replace(self, estimator=FIVE_SUMS)

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        found, declared = super().expected(asked)
        if isinstance(asked.mechanism, CentredRatio):
            return asked.answered(np.array(asked.mechanism.exact(found.sums.tolist()))), declared
        return found, declared

    def sampling_variances(self, expected: NoisySums) -> Array | None:
        return super().sampling_variances(from_five_sums(self, expected))

    @staticmethod
    def _free(query: Query, facts: Facts) -> float:
        # A record that may change group is one removed and one added.
        inside = facts.relation == Relation.REPLACE_ONE and query.group_is_fixed
        return FREE[Relation.REPLACE_ONE if inside else Relation.ADD_REMOVE, facts.norm]

    @property
    def spread_between(self) -> float:
        return 0.25

    def typical(self) -> tuple[float, float]:
        mean, sd = self._both[:2]
        return mean, mean**2 + sd**2

    @property
    def _both(self) -> tuple[float, float, float, float, float]:
        """Means and deviations of y and x on [0, 1], and their correlation: declared, or spread evenly and alike."""
        if not self.expect:
            return 0.5, EVEN, 0.5, EVEN, 0.5
        own, other = self.bounds[1], self.to_bounds[1]
        mean, sd, to_mean, to_sd, correlation = self.expect
        return mean / own, sd / own, to_mean / other, to_sd / other, correlation

    def profile(self, mean: float, square: float, query: Query, facts: Facts) -> Array:
        y, sd, x, to_sd, correlation = self._both
        apart = sd**2 + to_sd**2 - 2.0 * correlation * sd * to_sd + (y - x) ** 2
        return self._record(y, x, y - y**2 - sd**2, x - x**2 - to_sd**2, apart, query)

    @staticmethod
    def _record(y: float, x: float, yy: float, xx: float, apart: float, query: Query) -> Array:
        if not isinstance(query.encoding, RatioMoments):
            return np.array([y, x])
        scale = query.encoding.scale
        return np.array([y, x, scale * yy, scale * xx, scale * apart])

    def unit_profiles(self, query: Query, facts: Facts) -> list[Array]:
        return [self._record(y, x, 0.0, 0.0, (y - x) ** 2, query) for y, x in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))]

    def unit_moments(self, population: ExpectedPopulation) -> tuple[Array, Array]:
        y, sd, x, to_sd, correlation = self._both
        shared = correlation * sd * to_sd
        shape = population.mean.shape
        covariance = np.array([[sd**2, shared], [shared, to_sd**2]])
        return np.broadcast_to([y, x], (*shape, 2)), np.broadcast_to(covariance, (*shape, 2, 2))

    @property
    def prediction_rests_on(self) -> str:
        if self.expect:
            return rests_on("the declared means, deviations and correlation", self.source)
        return "values spread evenly over their bounds, the two columns alike"

    @property
    def label(self) -> str:
        return f"{self.of} to {self.to}"

    @property
    def answers(self) -> tuple[str, ...]:
        return str(self.of), self.to

    def estimate(self, noisy: NoisySums) -> Estimates:
        scale = self.bounds[1] / self.to_bounds[1]
        random_groups = self.contributions(noisy)
        if noisy.query.clusters is not None:
            numbers = norm_numbers(noisy, self.linear_numbers(noisy.query, noisy.facts))
        elif random_groups is not None:
            numbers = random_group_numbers(random_groups)
        else:
            assert isinstance(noisy.query.encoding, RatioMoments)
            centred = isinstance(noisy.mechanism, CentredRatio)
            answer = solve_centred(noisy, MOST) if centred else _solve(noisy, noisy.query.encoding.scale, MOST)
            method = "Fieller, residuals from a noisy centre" if centred else "Fieller"
            numbers = estimates_of(answer, 0.0, MOST, method=method).scaled(scale)
        # A denominator that may be zero leaves the ratio without an upper end.
        return replace(numbers, high=np.where(numbers.high >= MOST * scale, np.inf, numbers.high))

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers:
        return by_group(query, 0.0, MOST, open=True).scaled(self.bounds[1] / self.to_bounds[1])

    def contributions(self, noisy: NoisySums) -> Contributions | None:
        """What every random group of clusters adds, by group; None where there are no random groups."""
        if noisy.query.random_groups is None:
            return None
        (sums, drawn), v = within_own_strata(noisy), noisy.variance
        random_groups = RandomGroupSums(sums[..., 0], sums[..., 1], (v, 0.0, v), drawn, noisy.kurtosis, intervals=noisy.intervals)
        span, strata = self.bounds[1] / self.to_bounds[1], own_strata(noisy.query)
        return Contributions(random_groups, 0.0, MOST, 0.0, span, strata, open=True)

    def to_dict(self) -> dict[str, Any]:
        fields = {"kind": self.kind, "of": self.of, "to": self.to, "bounds": list(self.bounds), "to_bounds": list(self.to_bounds)}
        fields |= self._where_dict() | ({"expect": list(self.expect)} if self.expect else {})
        return fields | ({"estimator": self.estimator} if self.estimator != AUTO else {})


def _change(query: Query, facts: Facts) -> Change:
    """How a record may change that such sums are made of."""
    if facts.relation == Relation.ADD_REMOVE:
        return Change.COMES_OR_GOES
    return Change.IN_PLACE if query.group_is_fixed and not query.absent else Change.MOVES


def from_five_sums(ratio: Ratio, expected: NoisySums) -> NoisySums:
    """The sums to expect of the same ratio in one step: in either way a sampled unit moves it alike."""
    mechanism, facts = expected.mechanism, expected.facts
    if not isinstance(mechanism, CentredRatio):
        return expected
    plain = ratio.of_plain_sums
    query = plain.query(facts)
    return plain.expected(Asked(plain.asked_of(query), facts, mechanism.of_sums, expected.intervals))[0]


def _solve(noisy: NoisySums, scale: float, most: float) -> Answer:
    """R with T(R) = sum of (y - R x); the squares of its terms come from the free second moments."""
    query, facts, sums, v = noisy.query, noisy.facts, noisy.records, noisy.variance
    top, bottom = sums[..., 0], sums[..., 1]
    yy, xx = top - sums[..., 2] / scale, bottom - sums[..., 3] / scale
    # 2 xy = y^2 + x^2 - (y - x)^2
    xy = 0.5 * (yy + xx - sums[..., 4] / scale)
    thinning = facts.thinning(query.by, query.groups)
    estimate = np.divide(top, bottom, out=np.full_like(top, np.nan), where=np.abs(bottom) > 1e-9)
    point = np.clip(np.nan_to_num(estimate, nan=0.0), 0.0, most)
    count_sd = np.sqrt(v)
    freedom = np.maximum(truncated(bottom, count_sd) - 1.0, 1.0)

    def squares_noise(r: Array) -> Array:
        # Coefficients of the five noisy sums in the squares: each times its own noise.
        parts = (1.0 - r, r**2 - r, -(1.0 - r) / scale, -(r**2 - r) / scale, r / scale)
        return np.sqrt(v * np.asarray(sum(part**2 for part in parts)))

    def squares(r: Array) -> Array:
        raw = yy - 2.0 * r * xy + r**2 * xx
        return truncated(raw, squares_noise(r), (1.0 + r**2) * np.maximum(np.maximum(top, bottom), count_sd))

    # The squares are known less well than from that many units: their noise counts as fewer degrees of freedom.
    doubt = squares_noise(point) / np.maximum(squares(point), 1e-300)
    freedom = np.minimum(freedom, np.maximum(1.0 / (1.0 / freedom + 0.5 * doubt**2), NOISY_FREEDOM))

    def noise(r: Array) -> Array:
        return np.asarray(v * (1.0 + r**2))

    def accepts(r: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        whole = np.maximum(thinning * squares(r) + noise(r), 1e-300)
        kurtosis = noisy.kurtosis * v**2 * (1.0 + r**4) / whole**2 if noisy.kurtosis else np.zeros_like(whole)
        return np.asarray(np.abs(top - r * bottom) <= critical(student(freedom), kurtosis) * np.sqrt(whole))

    low, high = accepted_hull(accepts, point, 0.0, most, noisy.intervals)
    size = np.maximum(np.abs(bottom), count_sd)
    # Half of the allowance that the mean of y would have: part of its skewness is shared with x.
    units = facts.expected_units / len(query.groups)
    mean = np.clip(top / units, 0.0, 1.0)
    spread = np.sqrt(np.clip(truncated(yy, np.sqrt(v * (1.0 + 1.0 / scale**2))) / units - mean**2, 0.0, 0.25))
    sampling = thinning * squares(point)
    share = sampling / np.maximum(sampling + noise(point), 1e-300)
    extra = 0.5 * skew_allowance(spread, np.minimum(mean, 1.0 - mean), np.asarray(units), share)
    high = np.where(high < most, high + extra * np.sqrt(sampling + noise(point)) / size, high)
    return Answer(
        estimate,
        np.sqrt(sampling) / size,
        np.sqrt(noise(point)) / size,
        low,
        high,
        bottom,
        np.broadcast_to(count_sd, bottom.shape),
        freedom,
    )


@register('{ kind = "ratio", of = "food", to = "income", bounds = [0, 50_000], to_bounds = [0, 250_000] }')
def ratio(
    of: str,
    to: str,
    bounds: tuple[float, float] | None = None,
    to_bounds: tuple[float, float] | None = None,
    by: str | tuple[str, ...] | None = None,
    where: Mapping[str, Any] | None = None,
    expect: Sequence[float] | None = None,
    deff: float | None = None,
    source: str = "",
    missing: str | None = None,
    estimator: str = AUTO,
    variance: str = AUTO_VARIANCE,
) -> Ratio:
    """The total of one column over the total of another, each clipped to public bounds from 0 up.

    `expect=(mean, sd, mean of the other, its sd, correlation)`, from a published source, sharpens the plan's prediction and its
    choice of an estimator; `deff` is a public design effect, `source` says where they were published. `missing="drop"` is about
    those who answered both; without it missing answers are refused. `estimator="centred"` spends a fifth on a first ratio and
    the rest on what is left around it, "five-sums" asks for everything at once; without a name the plan takes the one with the
    smaller predicted variance.

    >>> ratio("food", "income", bounds=(0, 50_000), to_bounds=(0, 250_000)).name
    'ratio of food to income'
    """
    if not (isinstance(of, str) and of and isinstance(to, str) and to) or of == to:
        raise BadValue("a ratio needs two columns", given=f"{of!r}, {to!r}")
    pairs = [check_bounds(bounds, of), check_bounds(to_bounds, to)]
    if any(low < 0.0 for low, _ in pairs):
        raise BadValue("the columns of a ratio are not negative", because="its denominator would have no sign", given=repr(pairs))
    if estimator not in OF_RATIOS:
        raise BadValue(f"unknown estimator {estimator!r}", hint=did_you_mean(str(estimator), OF_RATIOS))
    # Measured from 0: a ratio is not changed by a common scale, but by a common shift.
    first, second = ((0.0, high) for _, high in pairs)
    return Ratio(
        of=of,
        by=check_by(by),
        where=read_where(where),
        deff=check_deff(deff),
        source=check_published(source),
        missing=check_drop(missing, "a ratio"),
        to=to,
        bounds=first,
        to_bounds=second,
        expect=_read_both(expect, first, second),
        variance=check_variance(variance),
        estimator=estimator,
    )


def _read_both(expect: Any, bounds: tuple[float, float], to_bounds: tuple[float, float]) -> tuple[float, ...]:
    if expect is None:
        return ()
    form = "expect=(mean, sd, mean of the other, its sd, correlation)"
    try:
        mean, sd, to_mean, to_sd, correlation = (float(each) for each in expect)
    except (TypeError, ValueError):
        raise BadValue("expect= of a ratio has five public numbers", given=repr(expect)[:80], hint=form) from None
    for pair, limits in (((mean, sd), bounds), ((to_mean, to_sd), to_bounds)):
        read_moments(pair, *limits)
    if not -1.0 <= correlation <= 1.0 or not to_mean > 0.0:
        raise BadValue("a correlation is between -1 and 1, and the mean of the denominator positive", given=repr(expect)[:80])
    return mean, sd, to_mean, to_sd, correlation
