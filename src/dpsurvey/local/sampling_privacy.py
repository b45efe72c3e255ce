"""The Sampling Privacy mechanism of Joy and Gerla: two rounds, and a sampled part that changes its answer in the second.

Everybody throws a die with faces 0, ..., V (probabilities pi_0, ..., pi_V) and one face more, "sampled" (pi_s). Round one: the
face; the sampled answer 0. Round two: everybody stays, and the sampled answer the truth. With c1 and c2 the two counts of a
category v >= 1, (c2 - c1)/pi_s is exactly Bin(Y_v, pi_s)/pi_s: unbiased, with variance Y_v (1 - pi_s)/pi_s whatever the others
answer (Eqs. 6-16). The binary mechanism is V = 1, with answers 0 ("no") and 1 ("yes").

As released it is not differentially private. Who is seen to move from 0 to v has told the truth: with linked rounds the loss
is infinite, with delta = pi_s at every epsilon. Published counts subtract to Bin(Y_v, pi_s) without noise, so that at Y_v = 1
against 0 delta is pi_s again. The epsilon that the paper prints (Eqs. 21, 25, 29) is that of round two alone, whose estimator,
(c2 - pi_v N)/pi_s, is `round_two()`: randomised response, with a variance that grows with N. Proofs: docs/guides/local.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import BadValue
from ..text.layout import ceiling_text
from .base import Array, LocalMechanism, Marks, Reports
from .chance import Chance, Whole
from .probabilities import Probability, die, fraction, loss
from .randomised_response import DirectResponse


@dataclass(frozen=True)
class SampledDie:
    """A die with one face for each output and one face more, "sampled"."""

    chances: tuple[Fraction, ...]
    pi_s: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "chances", tuple(fraction(f"pi_{v}", each) for v, each in enumerate(self.chances)))
        object.__setattr__(self, "pi_s", fraction("pi_s", self.pi_s))
        if len(self.chances) < 2:
            raise BadValue("the die needs a face for each of at least two outputs", given=f"{len(self.chances)} chances")
        if self.pi_s == 0:
            raise BadValue("nobody is sampled, so nothing can be estimated", given="pi_s=0")
        die([*self.chances, self.pi_s])

    @property
    def k(self) -> int:
        """Outputs, 0 among them."""
        return len(self.chances)

    def throw(self, count: int, chance: Chance) -> Whole:
        """Faces; the last one, k, is "sampled"."""
        return chance.pick(die([*self.chances, self.pi_s]), count)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready parameters."""
        return {"kind": getattr(self, "kind", ""), "chances": [str(each) for each in self.chances], "pi_s": str(self.pi_s)}


@dataclass(frozen=True)
class RoundTwo(SampledDie, DirectResponse):
    """Round two of Sampling Privacy seen alone: the truth with probability pi_s, else output v with probability pi_v.

    >>> alone = round_two([0.275, 0.275], 0.45)
    >>> round(alone.epsilon, 6), round(100 * alone.spread(1)[0] + 9900 * alone.spread(1)[1], 3)
    (0.969401, 9845.679)
    """

    kind: ClassVar[str] = "round-two"
    title: ClassVar[str] = "round two of Sampling Privacy alone"

    def law(self, answer: int) -> list[Fraction]:
        return [each + (self.pi_s if output == answer else 0) for output, each in enumerate(self.chances)]

    @property
    def epsilon(self) -> float:
        return loss((each + self.pi_s, each) for each in self.chances)

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        faces = self.throw(len(answers), chance)
        return np.where(faces == self.k, answers, faces)[:, None]


@dataclass(frozen=True)
class SamplingPrivacy(SampledDie, LocalMechanism):
    """The mechanism as published, both rounds. It has no epsilon: `printed_epsilon` is the paper's.

    >>> paper = sampling_privacy([0.275, 0.275], 0.45)
    >>> paper.epsilon, round(paper.printed_epsilon, 6), round(100 * paper.spread(1)[0], 6)
    (inf, 0.969401, 122.222222)
    """

    kind: ClassVar[str] = "sampling-privacy"
    title: ClassVar[str] = "Sampling Privacy"
    rounds: ClassVar[int] = 2
    marks_of_report = 1

    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        faces = self.throw(len(answers), chance)
        sampled = faces == self.k
        return np.column_stack([np.where(sampled, 0, faces), np.where(sampled, answers, faces)])

    def marks(self, reports: Reports, category: int) -> Marks:
        moved_in, moved_out = reports[:, 1] == category, reports[:, 0] == category
        return np.asarray(moved_in.astype(np.int8) - moved_out.astype(np.int8))

    def counts(self, reports: Reports, turn: int) -> Marks:
        return np.asarray(reports[:, turn, None] == np.arange(self.k)[None, :], dtype=np.int8)

    def marks_of_sums(self, sums: Sequence[Array]) -> Array:
        return sums[1] - sums[0]

    def mark_sums(self, reports: Reports, weights: Array | None = None) -> Array:
        first, second = (np.bincount(reports[:, turn], weights=weights, minlength=self.k) for turn in (0, 1))
        return np.asarray(second - first, dtype=np.float64)

    def line(self, category: int) -> tuple[Fraction, Fraction]:
        # The sampled all come from output 0, where those whose answer is 0 stay.
        return 1 / self.pi_s, Fraction(int(category == 0))

    def spread(self, category: int) -> tuple[float, float]:
        moved = float((1 - self.pi_s) / self.pi_s)
        return (0.0, moved) if category == 0 else (moved, 0.0)

    @property
    def epsilon(self) -> float:
        # Both rounds together: (0, v) has probability pi_s if the answer is v and 0 if it is not.
        return float("inf")

    @property
    def printed_epsilon(self) -> float:
        """The loss that the paper claims: the largest over outputs of Eqs. 21, 25 and 29, which hold for round two alone."""
        return self.round_two().epsilon

    @property
    def claimed_epsilon(self) -> float:
        return self.printed_epsilon

    @property
    def refuted_epsilon(self) -> float | None:
        return self.printed_epsilon

    @property
    def reports_guarantee(self) -> str:
        return (
            "No guarantee: Sampling Privacy is not differentially private. "
            f"Its printed epsilon {ceiling_text(self.printed_epsilon)} is that of round two alone; "
            "with both rounds, or both counts, "
            f"delta is {ceiling_text(float(self.pi_s))} at every epsilon."
        )

    @property
    def leakage_note(self) -> str:
        return (
            f"The paper prints epsilon {ceiling_text(self.printed_epsilon)}, which is that of round two alone. "
            "Both rounds of a "
            f"respondent, and the two published counts, have no epsilon: "
            f"delta is {ceiling_text(float(self.pi_s))} at every one."
        )

    def round_two(self) -> RoundTwo:
        """The same die with round two as the only report."""
        return RoundTwo(self.chances, self.pi_s)


def sampling_privacy(chances: list[Probability], pi_s: Probability) -> SamplingPrivacy:
    """Sampling Privacy with outputs 0, ..., V of the given chances; [pi_0, 1 - pi_0 - pi_s] is the binary mechanism.

    >>> sampling_privacy([0.3, 0.5], 0.45)
    Traceback (most recent call last):
    dpsurvey.errors.BadValue: the probabilities do not add up to one
      given: sum 1.25
    """
    return SamplingPrivacy(tuple(fraction(f"pi_{v}", each) for v, each in enumerate(chances)), fraction("pi_s", pi_s))


def round_two(chances: list[Probability], pi_s: Probability) -> RoundTwo:
    """Round two of Sampling Privacy as the only report.

    >>> round(round_two([0.3, 0.45], 0.25).epsilon, 6)
    0.606136
    """
    return RoundTwo(tuple(fraction(f"pi_{v}", each) for v, each in enumerate(chances)), fraction("pi_s", pi_s))
