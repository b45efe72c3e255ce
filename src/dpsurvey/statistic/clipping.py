"""Bounds that nobody knows: a private choice of where to clip a column, charged like any other release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..mechanism.base import Answering, Mechanism
from ..mechanism.ranked import ShareChoices
from ..privacy.profile import PrivacyProfile
from .base import Estimates, Group, Statistic
from .encodings import LeafCounts
from .estimators.interval import Array
from .estimators.quantile_interval import edges
from .facts import Facts
from .noisy_sums import Asked, NoisySums
from .notes import Note
from .number_limits import check_bounds
from .quantile import BRANCHING, LEVELS
from .query import Query, coarse_weights
from .registry import register

# The finest leaf of a range that starts at 0, as a part of the range.
FINEST = 1e-6
TOO_FEW = "too few units lie beyond these bounds for this epsilon to find them: a smaller covering=, or a larger share"


@dataclass(frozen=True)
class ClippingBounds(Statistic):
    """Two values that hold a share of the population between them, on a public grid. See `clipping_bounds`."""

    kind: ClassVar[str] = "clipping bounds"
    within: tuple[float, float] = (0.0, 1.0)
    covering: float = 0.99

    def query(self, facts: Facts) -> Query:
        low, high = self.within
        leaves = BRANCHING**LEVELS
        grid = edges(low, high, leaves, "log", first=FINEST * high) if low == 0.0 else edges(low, high, leaves)
        query = self._query(facts, LeafCounts(tuple(grid.tolist())), 1, weighted=True)
        return replace(coarse_weights(query), group_is_fixed=False)

    def calibrate(self, query: Query, charge: PrivacyProfile, facts: Facts, additive: type[Mechanism], delta: float) -> Answering:
        if query.reach > 1.0:
            raise BadValue(
                "bounds are not chosen from answers that were copied from donors", hint="declare bounds= from public knowledge"
            )
        shares = [Fraction(share).limit_denominator(10**6) for share in self.shares if share > 0.0]
        return ShareChoices.calibrate(charge, shares, query.steps, facts.relation)

    def advice(self, asked: Asked) -> tuple[str, ...]:
        mechanism, facts = asked.mechanism, asked.facts
        assert isinstance(mechanism, ShareChoices)
        left = (1.0 - self.covering) / len(mechanism.runs)
        # The choice is good to about log(leaves)/epsilon ranks, and needs some times as many units beyond the bound.
        return (TOO_FEW,) if mechanism.runs[0].epsilon * facts.expected_units * left < 10.0 else ()

    def expected(self, asked: Asked) -> tuple[NoisySums, bool]:
        assert isinstance(asked.query.encoding, LeafCounts)
        leaves = asked.query.encoding.leaves
        chosen = np.array([[min(leaves - 1.0, share * leaves) for share in self.shares if share > 0.0]])
        return asked.answered(chosen), True

    def answer_key(self, facts: Facts) -> object:
        return self.shares

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of the population below the two bounds; a range that starts at 0 is cut from above only."""
        left = 1.0 - self.covering
        return (0.0, self.covering) if self.within[0] == 0.0 else (left / 2.0, 1.0 - left / 2.0)

    def published(self, query: Query) -> list[Group]:
        return [{"bound": "lower"}, {"bound": "upper"}]

    def typical(self) -> tuple[float, float]:
        return 0.5, 1.0 / 3.0

    @property
    def prediction_rests_on(self) -> str:
        return "values spread evenly over the leaves of the grid"

    def estimate(self, noisy: NoisySums) -> Estimates:
        assert isinstance(noisy.query.encoding, LeafCounts)
        grid = np.asarray(noisy.query.encoding.edges)
        chosen = noisy.sums[..., 0, :].astype(int)
        upper = grid[chosen[..., -1] + 1]
        lower = grid[chosen[..., 0]] if chosen.shape[-1] == 2 else np.full_like(upper, self.within[0])
        estimate = np.stack([np.minimum(lower, upper), np.maximum(lower, upper)], axis=-1)
        unknown, ends = np.full_like(estimate, np.nan), np.ones_like(estimate)
        notes = ((Note.A_CHOICE,), (Note.A_CHOICE,)) if noisy.one_survey else ()
        low, high = self.within
        return Estimates(estimate, unknown, unknown, low * ends, high * ends, notes, "exponential mechanism on a public grid")

    def predicted_errors(self, expected: NoisySums, numbers: Estimates) -> tuple[Array, Array, bool]:
        return numbers.se_sampling, numbers.se_noise, False

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "of": self.of, "within": list(self.within), "covering": self.covering}


@register('{ kind = "clipping bounds", of = "income", within = [0, 1e8], covering = 0.99 }')
def clipping_bounds(of: str, within: tuple[float, float], covering: float = 0.99) -> ClippingBounds:
    """Bounds for a column without public ones: a private choice within a public range that is certainly wide enough.

    About the share `covering` of the population lies between them; what lies outside is clipped later, and that bias is in no
    interval. A range from 0 gets an upper bound only, on a grid of equal ratios. Use them in the next plan:
    `bounds=release.bounds("income")`.

    >>> clipping_bounds("income", within=(0, 1e8)).name
    'clipping bounds of income'
    """
    low, high = check_bounds(within, of)
    if isinstance(covering, bool) or not isinstance(covering, int | float) or not 0.5 <= covering < 1.0:
        raise BadValue("covering= is a share of the population, from one half up", given=repr(covering))
    return ClippingBounds(of=of, within=(low, high), covering=float(covering))
