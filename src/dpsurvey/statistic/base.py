"""What every statistic answers, and the estimates it gives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..design.frame import Frame
from ..errors import BadValue, NoGuarantee
from ..mechanism.base import Answering, Mechanism
from ..mechanism.cluster_norm import NORM_STEPS, Directions, Reach, SumsAndNorms, figures_to_expect
from ..privacy.profile import PrivacyProfile
from .cluster_variance import AUTO, ClusterVariance, Wish, choose_variance, freedom, totals_to_expect
from .condition import Condition
from .encodings import AnswerAndRecord, Encoding, Pair
from .estimators.interval import Array
from .facts import Facts
from .linear_numbers import LinearNumbers
from .margins import in_finer_groups, margin_of
from .missing import ADDS_NOTHING, DROP, LEFT_OUT, answered_only, item_response
from .noisy_sums import Asked, NoisyLengths, NoisySums
from .predict.population import ExpectedPopulation, expected_population, expected_sums
from .predict.sampling_error import sampling_variances
from .predict.simulated_error import simulated_errors
from .query import ByCluster, Query

Group = dict[str, str]
# In how many steps more records are counted than answers, where they do not move.
RECORD_SCALE = 8


@dataclass(frozen=True)
class Estimates:
    """Estimates of one statistic for all its groups (last axis), with errors, notes, and how the interval was made."""

    estimate: Array
    se_sampling: Array
    se_noise: Array
    low: Array
    high: Array
    notes: tuple[tuple[str, ...], ...] = ()
    method: str = ""
    df: Array | None = None
    # The share of records that answered, by number, where noisy sums tell it.
    response: Array | None = None
    # At most this far a public rule, such as cut weights, can have moved the estimate; the interval has it already.
    bias: Array | None = None
    # Where the interval is the whole range, so that the number says nothing; None for nowhere.
    whole_range: NDArray[np.bool_] | None = None

    def scaled(self, factor: Array | float) -> Estimates:
        """The numbers times public constants, one for all or one per group."""
        return replace(
            self,
            estimate=self.estimate * factor,
            se_sampling=self.se_sampling * factor,
            se_noise=self.se_noise * factor,
            low=self.low * factor,
            high=self.high * factor,
            bias=None if self.bias is None else self.bias * factor,
        )


class Earlier(Protocol):
    """An earlier release, as a statistic of a later plan asks it for published figures."""

    @property
    def source(self) -> str:
        """The release, in words."""

    @property
    def frame(self) -> Frame:
        """The frame of the later plan."""

    @property
    def strata(self) -> str | None:
        """The column of its strata."""

    def estimates(self, statistic: Statistic) -> list[tuple[Statistic, dict[str, Any]]]:
        """The published estimates of the subject of a statistic, that no condition narrows."""

    def moments(self, statistic: Statistic) -> tuple[float, float] | None:
        """The published mean of a column, and its deviation by the sampling error; None where they were not published."""

    def moments_by_stratum(self, statistic: Statistic) -> dict[str, tuple[float, float]]:
        """The same for every stratum; empty where they were not published for each."""


@dataclass(frozen=True)
class Statistic(ABC):
    """What is asked. An immutable value; it executes nothing."""

    kind: ClassVar[str]
    # Whether a condition makes values 0 or no, instead of leaving records out: so it is for totals and counts.
    masks: ClassVar[bool] = False
    # Whether it says which part of the records answered; a number made of others leaves that to them.
    tells_response: ClassVar[bool] = True
    # Whether it is weighted to public figures of everybody, so that it adjusts for those who did not respond at all.
    adjusts: ClassVar[bool] = False
    # Whether a report shows how its errors follow the sampling rate: sums of units, whose errors are quickly predicted.
    shown_by_rate: ClassVar[bool] = False
    # By how many standard deviations of their number units are moved to see what they do: little, where estimates are smooth.
    step: ClassVar[float] = 0.005
    # Whether its label names the columns that it is published by.
    labelled_by_groups: ClassVar[bool] = False
    # Whether its estimates are figures of its subject, so that later predictions may rest on them.
    shows_subject: ClassVar[bool] = False
    of: str | None
    by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    # Public figures for predictions alone: the design effect against a simple random sample, and where figures are published.
    deff: float | None = None
    source: str = ""
    # What stands for a missing answer, by a public rule; or `DROP`: who did not answer is left out.
    missing: float | str | None = None
    # How the variance between clusters is paid for: by the half width to expect, or as named.
    variance: str = AUTO

    @property
    def drops(self) -> tuple[str, ...]:
        """The columns whose missing answers leave a record out."""
        return tuple(dict.fromkeys((*self.answers, *(each.column for each in self.where)))) if self.missing == DROP else ()

    def item_response(self, noisy: NoisySums) -> Array | None:
        """The share of records that answered, by number or one for all, where the noisy sums tell it."""
        return item_response(noisy) if self.drops else None

    @property
    def of_those_who_answered(self) -> str:
        """What a number of those who answered says of itself."""
        return ADDS_NOTHING if self.masks else LEFT_OUT

    @property
    def answers(self) -> tuple[str, ...]:
        """The columns that are asked about."""
        return (self.of,) if self.of else ()

    @property
    def category_or_order(self) -> str | float | None:
        """What is asked of the column where that is one figure: the category that is counted, or the order of a quantile."""
        return None

    @property
    def conditional(self) -> bool:
        """Whether it is about some records only: those that meet conditions, or that answered."""
        return bool(self.where or self.drops)

    @property
    def filters(self) -> bool:
        """Whether a condition leaves records out, so that no number of them is public."""
        return self.conditional and not self.masks

    def stays_in_place(self, facts: Facts) -> bool:
        """Whether every record keeps its place in the sums of units weighted one by one, whatever it answers."""
        conditions = () if self.masks else tuple(each.column for each in self.where)
        return (self.masks or not self.drops) and facts.charged_in_place((*self.by, *conditions))

    def asked_of(self, query: Query) -> Query:
        """The query that `estimate` reads: of those who answered, unless the statistic uses how many did not."""
        return answered_only(query)

    @abstractmethod
    def query(self, facts: Facts) -> Query:
        """The sums this statistic needs under the facts."""

    @abstractmethod
    def estimate(self, noisy: NoisySums) -> Estimates:
        """Estimates from noisy sums; post-processing only."""

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        """The mechanism that answers the query for a charge: additive noise, unless the statistic has its own."""
        return additive.calibrate(charge, query.sensitivity(facts.relation, additive.norm))

    def linear_numbers(self, query: Query, facts: Facts) -> LinearNumbers | None:
        """The published numbers as noisy sums over each other, where they are; None where they are not."""
        return None

    def directions(self, noisy: NoisySums) -> Directions:
        """What a record of a cluster adds to the error of every published number, at noisy sums."""
        numbers = self.linear_numbers(noisy.query, noisy.facts)
        assert numbers is not None
        return numbers.directions(noisy)

    @property
    def measure(self) -> Hashable:
        """What is summed of each record, whatever the groups; None where strata do not serve the whole."""
        return None

    def advice(self, asked: Asked) -> tuple[str, ...]:
        """What a plan should say before anything is spent, from public figures."""
        return ()

    def choice(self, facts: Facts) -> str:
        """Which of several estimators the plan took, and why; empty where nothing was left to choose."""
        between = None if facts.as_in_0_8 else self.variance_between(facts)
        return "" if between is None else between.words

    @property
    def needs_delta(self) -> bool:
        """Whether its mechanism spends a delta of its own."""
        return False

    def answer_key(self, facts: Facts) -> object:
        """What tells its answer from other answers to the same query: nothing, where the noise is the plan's own."""
        return None

    @abstractmethod
    def typical(self) -> tuple[float, float]:
        """Mean and mean square of y on [0, 1] that errors are predicted with: declared, or the worst case."""

    def typical_in(self, facts: Facts, labels: Mapping[str, str]) -> tuple[float, float]:
        """The same for units with these categories, by column; categories that are not named are mixed."""
        return self.typical()

    @property
    def subject(self) -> Hashable:
        """What a public figure has to be about, so that predictions may rest on it; None where they rest on no such figure."""
        return None

    def expecting(self, earlier: Earlier) -> Self:
        """The statistic with published figures of its subject in place of the worst case; what is declared already stays."""
        return self

    @property
    @abstractmethod
    def prediction_rests_on(self) -> str:
        """Where `typical` comes from, in words."""

    def population(self, query: Query, facts: Facts) -> ExpectedPopulation:
        """The units that declared figures describe, by stratum and group."""
        return expected_population(lambda labels: self.typical_in(facts, labels), query, facts)

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        """The sums to expect, from declared figures alone; and whether all group sizes were declared."""
        found = self.population(asked.query, asked.facts)

        def profile_at(mean: float, square: float) -> Array:
            return self.profile(mean, square, asked.query, asked.facts)

        return asked.answered(expected_sums(found, asked, profile_at)), found.declared

    def profile(self, mean: float, square: float, query: Query, facts: Facts) -> Array:
        """What a record adds to its sums on average, if y has this mean and mean square."""
        profile = query.encoding.profile(mean, square, facts)
        return np.append(profile, 0.0) if query.absent else profile

    def unit_profiles(self, query: Query, facts: Facts) -> list[Array]:
        """What one record adds whose variables are all 0, and then with each of them 1 in turn; one profile where units are
        counted, which have no variable."""
        if self.typical() == (1.0, 1.0):
            return [self.profile(1.0, 1.0, query, facts)]
        return [self.profile(0.0, 0.0, query, facts), self.profile(1.0, 1.0, query, facts)]

    def unit_moments(self, population: ExpectedPopulation) -> tuple[Array, Array]:
        """Means and covariances of the variables by (stratum, group): the one variable y, or none where units are counted."""
        mean, square = population.mean[..., None], population.square[..., None]
        if self.typical() == (1.0, 1.0):
            return mean[..., :0], np.zeros((*population.mean.shape, 0, 0))
        return mean, np.maximum(square - mean**2, 0.0)[..., None]

    @property
    def effect(self) -> float | None:
        """The declared design effect."""
        return self.deff

    def covariance_unknown(self, facts: Facts) -> bool:
        """Whether it is made of two estimates, of whose covariance nothing declared says anything."""
        return False

    def predicted_errors(self, expected: NoisySums, numbers: Estimates) -> tuple[Array, Array, bool]:
        """(se_sampling, se_noise) of every number at the sums to expect, and whether they were simulated.

        Noise as the estimator reports it at the expected sums, which is exact where noise is added to a sum; sampling by the
        design; both by simulation where the estimate bends. What cannot be told otherwise is as a release would report it.
        """
        variances = self.sampling_variances(expected)
        if variances is None:
            return numbers.se_sampling, numbers.se_noise, False
        errors = np.sqrt(np.maximum(variances, 0.0)), numbers.se_noise
        if expected.query.encoding.bends != "never":
            found = simulated_errors(self, expected, self.population(expected.query, expected.facts))
            if found is not None:
                return *found, True
        return *errors, False

    def predicted_reach(self, expected: NoisySums, sampling: Array) -> Array | None:
        """How far every interval is expected to reach on either side, where that is more than z standard errors; else None.

        Bought standard errors have noise of their own, and few clusters Student's t.
        """
        mechanism, clustering = expected.mechanism, expected.facts.clustering
        if not isinstance(mechanism, SumsAndNorms) or clustering is None:
            return None
        directions = self.directions(expected)
        found = figures_to_expect(directions, mechanism, totals_to_expect(expected.query, clustering, directions))
        factors, freedom = (np.array(each) for each in zip(*found, strict=True))
        safe = np.where(factors > 0.0, factors, 1.0)
        lengths = np.nan_to_num(np.asarray(sampling)) / safe * NORM_STEPS
        bought = replace(expected, asked=replace(expected.asked, intervals=True), lengths=NoisyLengths(lengths, factors, freedom))
        numbers = self.estimate(bought)
        return np.asarray(0.5 * (numbers.high - numbers.low))

    def sampling_variances(self, expected: NoisySums) -> Array | None:
        """The sampling variance to expect of every number; None where only a release can tell."""
        return sampling_variances(self, expected, self.population(expected.query, expected.facts))

    def published(self, query: Query) -> list[Group]:
        """The groups that numbers are published for, in their order."""
        return [dict(zip(query.by, group, strict=True)) for group in query.groups]

    def title(self, label: str) -> str:
        """What an estimate is of, in words, by the label that the statistic has in its plan."""
        return f"{self.kind} of {label}" if label else self.kind

    @property
    def name(self) -> str:
        """The statistic in words."""
        what = self.title(self.label)
        asked = f" where {' and '.join(each.words for each in self.where)}" if self.where else ""
        return what + asked + (f" by {', '.join(self.by)}" if self.by else "") + (", of those who answered" if self.drops else "")

    @property
    def label(self) -> str:
        """What is measured, in words."""
        return self.of or ""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `statistic_from_dict` reads it back."""

    def _query(
        self,
        facts: Facts,
        encoding: Encoding,
        steps: int,
        *,
        weighted: bool,
        bounds: tuple[float, float] | None = None,
        value: str | None = None,
        between: ClusterVariance | None = None,
    ) -> Query:
        for condition in self.where:
            condition.check(facts.frame)
        if self.of in facts.design.held and self.of in facts.held:
            raise BadValue(
                f"{self.of!r} is held fixed and not protected, so noise on it would protect nobody",
                hint="leave it out of fixed=, and it is an answer like others",
            )
        if facts.weights_move and (between is not None or not encoding.bears_moving_weights):
            raise weights_are_not_constants()
        fixed = facts.sizes_are_public(self.by) or (facts.clustering is not None and facts.stays_in_place(self.by))
        return Query(
            encoding=encoding,
            column=self.of,
            bounds=bounds,
            value=value,
            by=self.by,
            categories=tuple(facts.frame.labels(column) for column in self.by),
            lattice=facts.lattice(steps, weighted=weighted),
            strata_column=facts.design.strata_column,
            group_is_fixed=fixed and not self.filters,
            where=self.where,
            masks=self.masks and self.conditional,
            dropped=self.drops,
            weights=facts.unit_weights(steps),
            random_groups=between.random_groups if between is not None else None,
            clusters=between.clusters if between is not None else None,
            reach=facts.reach,
        )

    @property
    def spread_between(self) -> float:
        """The variance of what a record adds, on [0, 1], to choose a variance between clusters by."""
        mean, square = self.typical()
        return square - mean**2

    @property
    def sums_of_a_number(self) -> int:
        """How many sums of a group a number is made of, about."""
        return 2

    @property
    def compares_with_all(self) -> bool:
        """Whether groups are compared with all units, as in a count of each."""
        return False

    def variance_between(self, facts: Facts) -> ClusterVariance | None:
        """How the variance between clusters is paid for; None where there are none."""
        if facts.clustering is None:
            return None
        groups = math.prod(len(facts.frame.labels(column)) for column in self.by)
        stays = facts.stays_in_place(self.by) and not self.filters and not self.drops
        sums = self.sums_of_a_number * groups
        wish = Wish(self.variance, self.by, self.spread_between, stays, groups, groups, sums, self.effect, self.compares_with_all)
        return choose_variance(facts, wish)

    def _of_clusters(
        self,
        facts: Facts,
        between: ClusterVariance,
        steps: int,
        bounds: tuple[float, float] | None = None,
        value: str | None = None,
    ) -> Query:
        """Answers and records by cluster."""
        in_place = facts.stays_in_place(self.by) and not self.filters
        counted = AnswerAndRecord(RECORD_SCALE if between.clusters is not None else 1)
        encoding = counted if in_place else Pair()
        return self._query(facts, encoding, steps, weighted=True, bounds=bounds, value=value, between=between)

    def _in_its_group(self, query: Query, facts: Facts) -> Query:
        """The query of records that keep their groups; by the largest weight of each, where it is compared with no other."""
        own = query.weights is not None and not self._share_of_whole(facts)
        weights = facts.weights_by(query.weights, self.by) if own and query.weights is not None else query.weights
        return replace(query, group_is_fixed=True, weights=weights)

    def _share_of_whole(self, facts: Facts) -> bool:
        """Whether numbers are shares of all units, because sizes of groups are not public."""
        return False

    def _where_dict(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"by": list(self.by)} if self.by else {}
        asked |= {"deff": self.deff} if self.deff is not None else {}
        asked |= {"source": self.source} if self.source else {}
        asked |= {"missing": self.missing} if self.missing is not None else {}
        asked |= {"variance": self.variance} if self.variance != AUTO else {}
        return asked | ({"where": {each.column: each.to_dict() for each in self.where}} if self.where else {})


def weights_are_not_constants() -> NoGuarantee:
    """The refusal of sums with weights that one record may change for all others."""
    return NoGuarantee(
        "the design weights are not constants under this setting",
        because="where the frame is not held fixed, one changed record may change the weight of every other",
        hint='given="frame"; a design with equal weights; or total(..., estimator="horvitz-thompson") with a public n=, '
        "which pays for it (the frame-agnostic bound)",
    )


def calibrate_norms(
    statistics: Sequence[Statistic], queries: Sequence[Query], charge: PrivacyProfile, facts: Facts, additive: type[Mechanism]
) -> SumsAndNorms:
    """The mechanism that answers the sums of clusters and a standard error for every number of some statistics.

    The first query has all of the sums; the others are that one, or margins of it.
    """
    query = queries[0]
    assert query.clusters is not None
    counts = [len(each.published(own)) for each, own in zip(statistics, queries, strict=True)]

    def directions(rows: Array) -> Directions:
        noisy = Asked(query, facts, mechanism).answered(rows)
        found = [
            in_finer_groups(each.directions(margin_of(noisy, own).read_as(each.asked_of(own))), own, query)
            for each, own in zip(statistics, queries, strict=True)
        ]
        # Who is left out for a missing answer adds nothing to any of these numbers.
        missing = [(0, 0), (0, 0), (0, int(query.absent))]
        return Directions(
            np.concatenate([np.pad(each.per_record, missing) for each in found]),
            np.concatenate([each.members for each in found]),
            np.concatenate([each.levers for each in found]),
        )

    may_be_nothing = query.absent or (bool(query.where) and not query.masks)
    extremes = query.encoding.extremes
    if query.absent:
        extremes = np.concatenate([extremes, np.zeros((len(extremes), 1))], axis=1)
    mechanism = SumsAndNorms.calibrate(
        charge,
        additive,
        query.sensitivity(facts.relation, additive.norm),
        directions,
        Reach(extremes, query.stays, may_be_nothing, query.rounds),
        sum(counts),
        groups=query.clusters.parts,
        freedom=freedom(facts) if isinstance(query.clusters, ByCluster) else query.clusters.freedom,
        steps=query.steps,
        times=query.reach,
    )
    return mechanism


def sizes_of_groups(frame: Frame, query: Query) -> list[int | None]:
    """The declared size of every group; conditions and missing answers leave none."""
    some = bool(query.where or query.dropped) and not query.masks
    return [None if some else frame.known_size(query.by, group) for group in query.groups]
