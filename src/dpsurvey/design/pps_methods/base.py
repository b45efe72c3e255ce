"""What every way of drawing with unequal probabilities has: a draw, and the chance that two units are drawn together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ...errors import BadValue

Array = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]
Sampler = Callable[[np.random.Generator], Units]

# The joint probabilities of 5,000 units are 200 MB; nobody looks at a larger table.
JOINT_UNITS = 5_000
WHOLE = 1e-6
PROVED = "docs/designs/pps.md, covering"


@dataclass(frozen=True)
class Joint:
    """The probabilities that two units are drawn together; the diagonal holds the first-order ones.

    `source` names the formula, or the approximation and where it comes from.

    >>> Joint(np.eye(2), True, "both or none").exact
    True
    """

    matrix: Array
    exact: bool
    source: str


def log_odds(p: Array) -> Array:
    """log(p / (1 - p)), for p in (0, 1).

    >>> log_odds(np.array([0.5, 0.8])).round(3).tolist()
    [0.0, 1.386]
    """
    return np.log(p) - np.log1p(-p)


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x), the inverse of `log_odds`, with full relative precision where it is near 0.

    >>> logistic(np.array([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def of_whole_sum(p: Array, n: int) -> Array:
    """The probabilities with all odds multiplied by one factor, so that they add to n; 0 < n < len(p).

    One factor on the odds keeps every probability inside (0, 1), and changes a tiny one only in proportion.

    >>> of_whole_sum(np.array([0.2, 0.2, 0.2]), 1).round(12).tolist()
    [0.333333333333, 0.333333333333, 0.333333333333]
    """
    excess = float(p.sum()) - n
    start, shift = log_odds(p), 0.0
    for _ in range(200):
        # Below this the sum itself is rounding noise.
        if abs(excess) <= 4e-16 * (n + 1):
            break
        # Newton's step on a monotone function, kept short so that it cannot leap over a flat stretch.
        shift -= max(-1.0, min(1.0, excess / max(float((p * (1.0 - p)).sum()), 1e-300)))
        p = logistic(start + shift)
        excess = float(p.sum()) - n
    return p


class Method(ABC):
    """One way of drawing units so that unit i is in the sample with probability pi[i].

    A unit with probability 1 is always drawn; the method acts on the others, which are all that `_sampler` and
    `_joint` are given: probabilities in (0, 1) and, for a method of fixed size, 0 < n < their number.
    """

    name: ClassVar[str]
    # Without a fixed size each unit is drawn by itself.
    fixed_size: ClassVar[bool] = True
    # Whether one random start, in an order of the units, decides about all of them.
    one_start: ClassVar[bool] = False
    # Whether the unit's own number decides, so that shifting the numbers coordinates two samples.
    can_be_shifted: ClassVar[bool] = False
    # Whether the inclusion probabilities are exactly the stated ones.
    exact_probabilities: ClassVar[bool] = True
    # Where it is proved that its samples can be matched by one exchange; empty where it is not.
    covering: ClassVar[str] = ""

    def draw(self, pi: Array, generator: np.random.Generator) -> Units:
        """The units of one sample, as sorted positions in the frame.

        >>> from dpsurvey.design.pps_methods import METHODS
        >>> METHODS["sampford"].draw(np.array([1.0, 0.5, 0.5, 1.0]), np.random.Generator(np.random.PCG64(1))).size
        3
        """
        return self._prepared(pi)(generator)

    def draws(self, pi: Array, times: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Several samples, one in a row: what `draw` gives, prepared once.

        >>> from dpsurvey.design.pps_methods import METHODS
        >>> METHODS["systematic"].draws(np.full(4, 0.5), 3, np.random.Generator(np.random.PCG64(1))).sum(axis=1).tolist()
        [2, 2, 2]
        """
        sampler, rows = self._prepared(pi), np.zeros((times, np.size(pi)), dtype=np.bool_)
        for row in rows:
            row[sampler(generator)] = True
        return rows

    def joint(self, pi: Array) -> Joint:
        """The probabilities that two units are drawn together.

        >>> from dpsurvey.design.pps_methods import METHODS
        >>> METHODS["poisson"].joint(np.array([0.5, 0.25])).matrix.tolist()
        [[0.5, 0.125], [0.125, 0.25]]
        """
        pi = self._checked(pi)
        if pi.size > JOINT_UNITS:
            raise BadValue(
                "the table of joint probabilities is too large",
                because=f"it holds a number for every pair of units, and the limit is {JOINT_UNITS:,} units",
                hint="ask for the joint probabilities of the units that were drawn, or of one stratum",
            )
        open_, rest, n = self._split(pi)
        if not rest.size:
            return Joint(np.outer(pi, pi), True, "every unit is drawn")
        inner = self._joint(rest, n)
        first = pi.copy()
        first[open_] = np.diag(inner.matrix)
        matrix = np.outer(first, first)
        matrix[np.ix_(open_, open_)] = inner.matrix
        np.fill_diagonal(matrix, first)
        return Joint(matrix, inner.exact, inner.source)

    @abstractmethod
    def _sampler(self, pi: Array, n: int) -> Sampler:
        """A function that draws one sample among units that are neither certain nor impossible."""

    @abstractmethod
    def _joint(self, pi: Array, n: int) -> Joint:
        """The joint probabilities of units that are neither certain nor impossible."""

    def _prepared(self, pi: Array) -> Sampler:
        pi = self._checked(pi)
        open_, rest, n = self._split(pi)
        certain = np.flatnonzero(pi == 1.0).astype(np.int64)
        if not rest.size:
            return lambda generator: certain.copy()
        inner = self._sampler(rest, n)
        if not certain.size:
            return inner
        return lambda generator: np.sort(np.concatenate([certain, open_[inner(generator)]]))

    def _split(self, pi: Array) -> tuple[Units, Array, int]:
        """The units that chance decides on, their probabilities (of whole sum, if the size is fixed), and how many to draw."""
        open_ = np.flatnonzero(pi < 1.0).astype(np.int64)
        rest = pi[open_]
        n = round(float(rest.sum()))
        if self.fixed_size and rest.size:
            if not n:
                raise BadValue(
                    "the inclusion probabilities leave no unit to draw",
                    because="without the certain units they add to 0",
                    hint="leave out units that cannot be drawn",
                )
            rest = of_whole_sum(rest, n)
        return open_, rest, n

    def _checked(self, pi: Array) -> Array:
        pi = np.asarray(pi, dtype=np.float64)
        if pi.ndim != 1 or not pi.size:
            raise BadValue("inclusion probabilities are a list of one number per unit", hint="give at least one unit")
        # A comparison with NaN is false, so this also refuses what is not a number.
        if not (pi.min() > 0.0 and pi.max() <= 1.0):
            raise BadValue(
                "an inclusion probability is outside (0, 1]",
                because="a unit that can never be drawn is not represented by any sample",
                hint="leave such units off the frame, or use inclusion_probabilities(sizes, n)",
            )
        if self.fixed_size:
            total = float(pi.sum())
            if abs(total - round(total)) > WHOLE:
                raise BadValue(
                    "the inclusion probabilities do not add to a whole number",
                    because=f"{self.name} draws the same number of units every time",
                    hint='use inclusion_probabilities(sizes, n), or the method "poisson"',
                )
            # Ones that rounding brought just below 1.
            if round(total) == pi.size:
                return np.ones(pi.size)
        return pi
