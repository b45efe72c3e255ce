"""Probability proportional to size: n units, each with a chance in proportion to a public measure of size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import BadValue, did_you_mean
from ..loss.refused import Refused
from ..privacy.profile import Relation
from .pps_methods import METHODS, Joint, inclusion_probabilities
from .pps_methods.base import Array
from .recipe import Order, Sized, Step
from .selected import SelectedDesign, check_name
from .selection.base import Losses, Selection, check_count, check_rate
from .selection.covering import Covering
from .selection.independent import Independent
from .selection.pps import UnequalProbabilities
from .systematic import read_order

_ANY = Losses.of(1.0, "replace-one")
_SYSTEMATIC = Refused(
    "one random start decides about all units: a sample with a unit may share nothing with any sample without it",
    "Sampford, conditional Poisson or pivotal sampling with the same probabilities",
    "docs/designs/pps.md",
)


@dataclass(frozen=True)
class ProportionalToSize(SelectedDesign):
    """pi_i = n x_i / sum x, units for which that exceeds 1 taken for certain first, the rest by a named method.

    "poisson": each by itself, the size is random. "systematic": one start on the cumulated sizes, in an order.
    "sampford", "conditional-poisson" (largest entropy), "pivotal": n units, exactly these probabilities.
    "pareto": the n smallest of u(1-pi)/((1-u)pi), probabilities nearly these. `at_most` bounds every pi; the guarantee
    of a secret draw rests on it, and the draw is refused if a unit exceeds it.

    >>> design = pps("employees", n=2, method="sampford")
    >>> [round(float(each), 3) for each in design.probabilities([1, 2, 3, 30])]
    [0.167, 0.333, 0.5, 1.0]
    """

    kind: ClassVar[str] = "pps"
    size: str
    n: int
    method: str = "systematic"
    order: Order = "random"
    at_most: float | None = None

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_name("size", self.size)
        if self.method not in METHODS:
            raise BadValue(f"unknown method {self.method!r}", hint=did_you_mean(str(self.method), METHODS))
        if self.order != "random" and self.method != "systematic":
            raise BadValue("only the systematic method has an order", given=f"method={self.method!r}, order={self.order!r}")
        if self.at_most is not None:
            check_rate("at_most", self.at_most)

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.method != "poisson"

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        return "add-remove" if self.method == "poisson" else "replace-one"

    def probabilities(self, sizes: Sequence[float]) -> Array:
        """The inclusion probabilities of units with these sizes, certainty units included."""
        return inclusion_probabilities(sizes, self.n)

    def joint(self, sizes: Sequence[float]) -> Joint:
        """The joint inclusion probabilities of units with these sizes: exact, or an approximation that is named.

        In a fixed order the sizes are given in that order.
        """
        if self.method == "systematic" and self.order == "random":
            near = METHODS["conditional-poisson"].joint(self.probabilities(sizes))
            return Joint(near.matrix, False, "a random order: those of conditional Poisson sampling (Brewer and Donadio 2003)")
        return METHODS[self.method].joint(self.probabilities(sizes))

    def recipe(self) -> Step:
        return Sized(self.size, self.n, self.method, self.order, self.at_most or 1.0)

    def amplifier(self) -> Selection | Refused:
        if self.method in ("pareto", "systematic"):
            known = UnequalProbabilities((0.5, 0.5), "public", "pareto")
            reason = known.bound(_ANY, "replace-one") if self.method == "pareto" else _SYSTEMATIC
            assert isinstance(reason, Refused)
            return reason
        if self.at_most is None:
            return Refused(
                "no bound on the probabilities is declared, and a unit that is drawn for certain is not hidden at all",
                "at_most=, a public bound on every unit's probability",
                "docs/designs/pps.md",
            )
        return Independent((self.at_most,)) if self.method == "poisson" else Covering(self.at_most, self.method)

    def resized(self, factor: float) -> ProportionalToSize:
        most = None if self.at_most is None else min(1.0, self.at_most * factor)
        return replace(self, n=max(1, round(self.n * factor)), at_most=most)

    @property
    def most(self) -> float:
        # Where no bound is declared nobody knows; a unit may be certain already.
        return 1.0 / self.at_most if self.at_most is not None else 1.0

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ProportionalToSize:
        return pps(**fields)


def pps(
    size: str, *, n: int, method: str = "systematic", order: str | Sequence[str] = "random", at_most: float | None = None
) -> ProportionalToSize:
    """Draw n units with chances in proportion to a public column, by a named method.

    >>> pps("employees", n=40, method="pivotal")
    ProportionalToSize(size='employees', n=40, method='pivotal', order='random', at_most=None)
    """
    return ProportionalToSize(size, n, method, read_order(order), at_most)
