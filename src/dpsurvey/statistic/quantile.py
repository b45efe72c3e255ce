"""Quantiles and medians: all of them from one noisy tree, or one by the exponential mechanism, or as paper 000 does."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..errors import BadValue, did_you_mean
from ..mechanism.base import Answering, Mechanism
from ..mechanism.cluster_norm import Directions
from ..mechanism.ranked import NoisyOrderStatistic, RankChoices
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..text.keys import keys_of
from .arguments import check_by
from .base import Earlier, Estimates, Statistic
from .cluster_variance import AUTO, check_variance
from .condition import read_where
from .encodings import LeafCounts, TreeCounts, Window
from .estimators.interval import Array
from .estimators.order_quantiles import (
    METHODS,
    NEED_DELTA,
    calibrate_choice,
    calibrate_order,
    chosen_numbers,
    expected_answer,
    order_numbers,
    order_query,
)
from .estimators.quantile_interval import grid, shifted_ranks_are_safer
from .estimators.tree_quantiles import tree_directions, tree_numbers
from .facts import Facts
from .missing import check_fill
from .noisy_sums import Asked, NoisySums
from .number_limits import check_bounds
from .predict.declared_figures import check_deff, check_published, rests_on
from .predict.population import ExpectedPopulation
from .predict.published_quantiles import Points, leaf_shares, read_atoms, read_points
from .predict.simulated_order import chosen_errors, order_errors
from .query import Query, coarse_weights
from .registry import register

BRANCHING, LEVELS = 16, 2


@dataclass(frozen=True)
class Quantile(Statistic):
    """The least value that a share q of the population does not exceed. See `quantile`."""

    kind: ClassVar[str] = "quantile"
    # Between two edges of the grid the estimate is a straight line; a step of its own error sees across them.
    step: ClassVar[float] = 0.5
    shows_subject: ClassVar[bool] = True
    q: float = 0.5
    bounds: tuple[float, float] = (0.0, 1.0)
    method: str = "auto"
    spacing: str = "equal"
    leaves: int = BRANCHING**LEVELS
    first: float | None = None
    proposal: float | None = None
    expect: Points = ()
    # None: the grid of releases up to 0.8, on which the bounds have no leaves of their own.
    atoms: tuple[float, ...] | None = ()

    def query(self, facts: Facts) -> Query:
        method = self.chosen(facts)
        if method == "tree":
            encoding = TreeCounts(self._edges, round(self.leaves**0.5))
            between = self.variance_between(facts)
            query = self._query(facts, encoding, 1, weighted=True, between=between)
        elif method == "exponential":
            query = coarse_weights(self._query(facts, LeafCounts(self._edges), 1, weighted=not self.by))
        else:
            query = order_query(self, facts)
        return replace(query, fill=None if self.drops else self.missing)

    @property
    def _edges(self) -> tuple[float, ...]:
        found = grid(*self.bounds, self.leaves, self.spacing, first=self.first, atoms=self.atoms)  # type: ignore[arg-type]
        return tuple(found.tolist())

    def chosen(self, facts: Facts) -> str:
        """The method: as asked, or the tree where the normal approximation is good and shifted ranks elsewhere."""
        # Ranks move by one where a record of a public number of them is replaced, and nowhere else is that proved.
        public = facts.sizes_are_public(self.by) and not self.filters and facts.relation == Relation.REPLACE_ONE
        if self.method == "auto":
            few = public and facts.reach == 1.0 and shifted_ranks_are_safer(facts.expected_units, self.q)
            return "exponential" if few else "tree"
        if self.method != "tree" and facts.reach > 1.0:
            raise BadValue("ranks are not taken of answers that were copied from donors", hint='method="tree"')
        if self.method != "tree" and not public:
            raise BadValue(
                f"the method {self.method!r} needs a public number of records, one of which is replaced",
                because="ranks are counted from both ends",
                hint='method="tree" serves random sizes, groups, clusters and unequal weights',
            )
        return self.method

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        encoding = query.encoding
        if isinstance(encoding, Window):
            return calibrate_order(self, encoding, charge, facts, delta)
        if isinstance(encoding, LeafCounts) and not isinstance(encoding, TreeCounts):
            return calibrate_choice(self, query, encoding, charge, facts)
        return super().calibrate(query, charge, facts, additive, delta)

    @property
    def needs_delta(self) -> bool:
        return self.method in NEED_DELTA

    def answer_key(self, facts: Facts) -> object:
        # One tree answers every quantile; a choice by the exponential mechanism answers one.
        return None if self.chosen(facts) == "tree" else (self.q, self.method, self.proposal)

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        if isinstance(asked.query.encoding, TreeCounts):
            return super().expected(asked)
        return asked.answered(expected_answer(self, asked.query, asked.mechanism)), True

    def profile(self, mean: float, square: float, query: Query, facts: Facts) -> Array:
        assert isinstance(query.encoding, LeafCounts)
        return query.encoding.of_leaves(leaf_shares(self.expect, query.encoding.edges))

    def unit_profiles(self, query: Query, facts: Facts) -> list[Array]:
        # A unit far below the quantile, and one far above it.
        assert isinstance(query.encoding, TreeCounts)
        tree = query.encoding.tree
        return [tree.add_up(each) for each in (np.eye(tree.leaves)[0], np.eye(tree.leaves)[-1])]

    def unit_moments(self, population: ExpectedPopulation) -> tuple[Array, Array]:
        shape = (*population.mean.shape, 1)
        return np.full(shape, 1.0 - self.q), np.full((*shape, 1), self.q * (1.0 - self.q))

    def predicted_errors(self, expected: NoisySums, numbers: Estimates) -> tuple[Array, Array, bool]:
        mechanism = expected.mechanism
        if isinstance(mechanism, RankChoices):
            return *chosen_errors(self, expected.query, expected.facts, mechanism), True
        if isinstance(mechanism, NoisyOrderStatistic):
            return *order_errors(self, expected.facts, mechanism), True
        return super().predicted_errors(expected, numbers)

    @property
    def category_or_order(self) -> float:
        return self.q

    @property
    def spread_between(self) -> float:
        return 0.25

    @property
    def sums_of_a_number(self) -> int:
        return self.leaves

    def typical(self) -> tuple[float, float]:
        return 0.5, 1.0 / 3.0

    @property
    def subject(self) -> Hashable:
        return "quantile", self.of

    def expecting(self, earlier: Earlier) -> Self:
        if self.expect:
            return self
        low, high = self.bounds
        found = {each.category_or_order: row["estimate"] for each, row in earlier.estimates(self) if not each.by}
        points = {float(q): min(max(float(value), low), high) for q, value in found.items() if q is not None}
        # Noise may put published quantiles out of order; the largest so far stands for those after it.
        ordered = zip(sorted(points), itertools.accumulate((points[q] for q in sorted(points)), max), strict=True)
        return replace(self, expect=tuple(ordered), source=earlier.source) if points else self

    @property
    def prediction_rests_on(self) -> str:
        return rests_on("published quantiles", self.source) if self.expect else "values spread evenly over their bounds"

    @property
    def label(self) -> str:
        return f"{self.of} at {self.q:g}"

    def directions(self, noisy: NoisySums) -> Directions:
        assert isinstance(noisy.query.encoding, TreeCounts)
        return tree_directions(noisy, noisy.query.encoding, self.q)

    def estimate(self, noisy: NoisySums) -> Estimates:
        encoding = noisy.query.encoding
        if isinstance(encoding, TreeCounts):
            return tree_numbers(noisy, encoding, self.q)
        if isinstance(encoding, LeafCounts):
            return chosen_numbers(noisy, encoding)
        return order_numbers(noisy, self.bounds)

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind, "of": self.of, "q": self.q, "bounds": list(self.bounds)} | self._where_dict()
        fields |= {"expect": [list(pair) for pair in self.expect]} if self.expect else {}
        # Always there, but for what 0.8 released: its trees stand on another grid.
        fields |= {"atoms": list(self.atoms)} if self.atoms is not None else {}
        defaults = {"method": "auto", "spacing": "equal", "leaves": BRANCHING**LEVELS, "first": None, "proposal": None}
        return fields | {name: getattr(self, name) for name, usual in defaults.items() if getattr(self, name) != usual}


@register('{ kind = "quantile", of = "income", q = 0.9, bounds = [0, 250_000] }')
def quantile(
    of: str,
    q: float,
    bounds: tuple[float, float] | None = None,
    by: str | tuple[str, ...] | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    method: str = "auto",
    spacing: str = "equal",
    leaves: int = BRANCHING**LEVELS,
    first: float | None = None,
    proposal: float | None = None,
    expect: Mapping[float, float] | Sequence[tuple[float, float]] | None = None,
    deff: float | None = None,
    source: str = "",
    missing: float | str | None = None,
    atoms: Sequence[float] | None = (),
    variance: str = AUTO,
) -> Quantile:
    """The q-quantile of a column within public bounds, over the frame or by public groups.

    "tree" releases noisy counts on a grid of `leaves` once for all quantiles of the column. Each bound is a leaf by itself, and
    so is each of `atoms`: public values between the bounds that many units have (None: the grid of 0.8, without any).
    "exponential" picks the estimate and both ends of an interval on the same grid, with proved coverage, from samples of public
    size; "auto" takes the first, and the second where few units lie on one side. By their names in paper 000, point estimates
    only: "laplace" (global sensitivity), "smooth", "smooth-as-printed" and "propose-test-release", which needs a `proposal`
    for the local sensitivity. `spacing="log"` makes leaves of equal ratios, for money, from `first` on where the lower bound
    is 0. `expect` maps shares to published quantiles, for predictions alone; `deff` is a public design effect, `source` where
    they were published. `missing` is a public value that stands for a missing answer, or "drop" for those who answered;
    without it missing answers are refused.

    >>> quantile("hours", 0.9, bounds=(0, 98), by="sex").name
    'quantile of hours at 0.9 by sex'
    """
    if not isinstance(of, str) or not of:
        raise BadValue("name the column that is measured", given=repr(of))
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0.0 < q < 1.0:
        raise BadValue("a quantile has one order, between 0 and 1", given=f"q={q!r}", hint=_order_hint(of, q))
    if method not in METHODS:
        raise BadValue(f"unknown method {method!r}", hint=did_you_mean(str(method), METHODS))
    root = round(leaves**0.5) if isinstance(leaves, int) and leaves > 0 else 0
    if root < 2 or root * root != leaves:
        raise BadValue("the number of leaves is a square, for two levels", given=f"leaves={leaves}", hint="64, 256 or 1024")
    if (proposal is not None) != (method == "propose-test-release"):
        raise BadValue("a proposal is for propose-test-release, which needs one", given=f"method={method!r}, proposal={proposal}")
    low, high = check_bounds(bounds, of)
    own = None if atoms is None else read_atoms(atoms, of, low, high)
    grid(low, high, leaves, spacing, first=first, atoms=own)  # type: ignore[arg-type]
    return Quantile(
        of=of,
        by=check_by(by),
        where=read_where(where),
        deff=check_deff(deff),
        source=check_published(source),
        missing=check_fill(missing, low, high),
        expect=read_points(expect, low, high),
        q=float(q),
        bounds=(low, high),
        method=method,
        spacing=spacing,
        leaves=leaves,
        first=first,
        proposal=proposal,
        atoms=own,
        variance=check_variance(variance),
    )


def _order_hint(of: str, q: object) -> str:
    if isinstance(q, list | tuple | set):
        return (
            f'one quantile() for each: quantile("{of}", 0.1, ...), quantile("{of}", 0.5, ...); one tree, one charge, serves all'
        )
    if isinstance(q, int | float) and not isinstance(q, bool) and 1.0 < q < 100.0:
        return f"a share, not a percentage: {q / 100.0:g}, not {q:g}"
    return "0.5 is the median, 0.9 is what a tenth of the population exceeds"


def _read_median(fields: dict[str, Any]) -> Quantile:
    return quantile(q=0.5, **fields)


@register(
    '{ kind = "median", of = "income", bounds = [0, 250_000] }',
    section="quantile",
    known=[key for key in keys_of(quantile)[1] if key != "q"],
    read=_read_median,
)
def median(of: str, bounds: tuple[float, float] | None = None, by: str | tuple[str, ...] | None = None, **how: Any) -> Quantile:
    """The median of a column within public bounds; the options are those of `quantile`.

    >>> median("hours", bounds=(0, 98)).name
    'quantile of hours at 0.5'
    """
    return quantile(of, 0.5, bounds, by, **how)
