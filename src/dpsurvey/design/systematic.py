"""Systematic sampling: every k-th unit of a list from a random start, with a fractional step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import BadValue
from ..loss.refused import Refused
from ..privacy.profile import Relation
from .base import Part
from .frame import Frame
from .recipe import Every, Order, Step
from .selected import SelectedDesign
from .selection.base import Selection, check_count, check_rate
from .selection.proportional import Proportional
from .selection.simple import WithoutReplacement
from .selection.systematic import Systematic
from .srs import resized_count, resized_rate


def read_order(order: str | Sequence[str]) -> Order:
    """An order as a recipe writes it: "random", "as listed", or names of columns."""
    if order in ("random", "as listed"):
        return order  # type: ignore[return-value]
    columns = (order,) if isinstance(order, str) else tuple(order)
    if not columns or not all(isinstance(each, str) and each for each in columns):
        raise BadValue("order= takes columns to sort by, 'random' or 'as listed'", given=f"order={order!r}")
    return columns


@dataclass(frozen=True)
class SystematicSample(SelectedDesign):
    """n of N units, or a share of them, one from each stretch of N/n units; N/n need not be whole.

    Every unit has inclusion probability n/N exactly. In a secret random order this is a simple random sample. In a
    public order units of one stretch are never drawn together, and the sample is one of few: it hides little.

    >>> systematic(n=10).resolve(Frame("f.parquet", unit="id", size=100)).largest_probability
    0.1
    """

    kind: ClassVar[str] = "systematic"
    n: int | None = None
    rate: float | None = None
    order: Order = "random"
    size: int | None = None

    def __post_init__(self) -> None:
        if (self.n is None) == (self.rate is None):
            raise BadValue("give either n or rate", given=f"n={self.n}, rate={self.rate}")
        if self.n is not None:
            check_count("n", self.n)
        if self.rate is not None:
            check_rate("rate", self.rate)

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        # A share of the list rounds its size by chance, and a mechanism that shows sizes would show the rounding.
        return "add-remove" if self.rate is not None else "replace-one"

    def resolve(self, frame: Frame) -> SystematicSample:
        super().resolve(frame)
        return self.sized(frame.size)

    def sized(self, size: int | None) -> SystematicSample:
        """The design on a frame, or a stratum, of a declared size."""
        if self.n is not None and size is not None and self.n > size:
            raise BadValue("cannot draw more units than there are", given=f"n={self.n}, size={size}")
        return replace(self, size=size)

    def recipe(self) -> Step:
        amount = self.n if self.n is not None else self.rate
        assert amount is not None
        return Every(float(amount), self.rate is not None, self.order)

    def parts(self) -> tuple[Part, ...]:
        if self.rate is not None:
            return (Part(None, self.rate, None, self.size),)
        return (Part(None, self.n / self.size, self.n, self.size),) if self.n is not None and self.size is not None else ()

    def amplifier(self) -> Selection | Refused:
        if self.order == "random" and self.rate is not None:
            return Proportional(float(self.rate), "random")
        if self.n is not None and self.size is not None:
            if self.order == "random":
                return WithoutReplacement(self.n, self.size)
            if self.size % self.n == 0:
                return Systematic(self.size // self.n, self.n, "fixed")
        return Refused(
            "in a fixed order with a fractional step or an undeclared size no loss is proved",
            'order="random", or a declared size that n divides',
            "docs/designs/systematic.md",
        )

    def resized(self, factor: float) -> SystematicSample:
        return replace(self, n=resized_count(self.n, factor, self.size), rate=resized_rate(self.rate, factor))

    @property
    def most(self) -> float:
        # In a fixed order nothing is guaranteed of the probabilities, but the rate is what it is.
        if self.rate is not None:
            return 1.0 / self.rate
        return self.size / self.n if self.n is not None and self.size is not None else 1.0

    def to_dict(self) -> dict[str, Any]:
        order = list(self.order) if isinstance(self.order, tuple) else self.order
        return {"kind": self.kind} | ({"n": self.n} if self.n is not None else {"rate": self.rate}) | {"order": order}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SystematicSample:
        return systematic(**fields)


def systematic(n: int | None = None, *, rate: float | None = None, order: str | Sequence[str] = "random") -> SystematicSample:
    """Every k-th unit from a random start: n of them, or a share, in random order, as listed, or sorted by columns.

    >>> systematic(n=10, order=["street", "number"]).order
    ('street', 'number')
    """
    return SystematicSample(n, rate, read_order(order))
