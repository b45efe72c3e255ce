"""One random start, then equal steps along the cumulated probabilities: systematic sampling in the order of the frame."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .base import Array, Joint, Method, Sampler, Units

Circle = npt.NDArray[np.uint64]
# One turn of the circle, in the steps of a 64-bit integer.
TURN = 2.0**64


class Systematic(Method):
    """Unit i is drawn when one of U, U + 1, U + 2, ... falls into [C_(i-1), C_i), with C the cumulated pi and U uniform.

    Wrapped around a circle of length 1, unit i owns an arc of length pi_i and is drawn when U falls into it. So the
    joint probability is the length that two arcs share, which is 0 for many pairs: no variance can be estimated
    without bias from such a sample. The order is that of the frame.

    The arcs are 64-bit integers, whose sums wrap around without rounding: they close exactly, so that every start
    gives n units and no unit twice. A sum in floating point can lose the last unit.

    Madow 1949, Annals of Mathematical Statistics 20, 333-354.

    >>> Systematic().joint(np.array([0.5, 0.5, 0.5, 0.5])).matrix[0].tolist()
    [0.5, 0.0, 0.5, 0.0]
    """

    name: ClassVar[str] = "systematic"
    one_start: ClassVar[bool] = True

    def _sampler(self, pi: Array, n: int) -> Sampler:
        begin, length = arcs(pi)

        def sample(generator: np.random.Generator) -> Units:
            start = generator.integers(0, 2**64, dtype=np.uint64)
            # The distance from the beginning of each arc to the start, around the circle: the subtraction wraps.
            return np.flatnonzero(start - begin < length).astype(np.int64)

        return sample

    def _joint(self, pi: Array, n: int) -> Joint:
        begin, length = arcs(pi)
        share = length.astype(np.float64) / TURN
        matrix = np.empty((pi.size, pi.size))
        for i, row in enumerate(matrix):
            # From the beginning of arc i, arc j reaches from `ahead` to `ahead + share_j`, and may pass the turn.
            ahead = (begin - begin[i]).astype(np.float64) / TURN
            row[:] = np.maximum(0.0, np.minimum(share[i] - ahead, share))
            row += np.maximum(0.0, np.minimum(share[i], ahead + share - 1.0))
        # Each row sees the pair from its own arc and rounds on its own; a joint probability is symmetric.
        matrix = np.minimum(matrix, matrix.T)
        np.fill_diagonal(matrix, pi)
        return Joint(matrix, True, "length shared by two arcs of the random start, Madow 1949")


def arcs(pi: Array) -> tuple[Circle, Circle]:
    """Where the arc of each unit begins and how long it is, in 64-bit turns; the lengths add to whole turns exactly.

    >>> begin, length = arcs(np.array([0.5, 0.25, 0.25]))
    >>> (begin / TURN).tolist(), (length / TURN).tolist()
    ([0.0, 0.5, 0.75], [0.5, 0.25, 0.25])
    """
    length = np.maximum(pi * TURN, 1.0).astype(np.uint64)
    # What rounding left over (below 1e-9 of a turn) goes to the arc that is nearest to a half and has room both ways.
    middle = int(np.argmin(np.abs(pi - 0.5)))
    length[middle : middle + 1] -= np.add.reduce(length)
    end = np.cumsum(length)
    return end - length, length
