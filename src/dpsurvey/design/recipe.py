"""Recipes: how a draw is made, for any engine. Plain descriptions of steps; the engine alone executes them.

A step acts on a list: the units of the frame, of a stratum, of a drawn cluster, or the clusters themselves. Each
element of the list has one uniform number of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from ..errors import BadValue
from .columns import NO_COLUMNS, DesignColumns
from .pps_methods import METHODS, Method
from .replicates import Replicates

Order = tuple[str, ...] | Literal["random", "as listed"]


@dataclass(frozen=True)
class Step:
    """One way to choose from a list. `amount` names the field that may differ between strata."""

    amount: ClassVar[str] = ""

    def below(self) -> Iterator[Step]:
        """This step and the steps inside it, outermost first."""
        yield self
        for each in fields(self):
            value = getattr(self, each.name)
            inside = value.values() if isinstance(value, Mapping) else [value]
            for step in inside:
                if isinstance(step, Step):
                    yield from step.below()

    def amounts(self) -> tuple[float, ...]:
        """The amounts of this step and those inside it, outermost first."""
        return tuple(float(getattr(step, step.amount)) for step in self.below() if step.amount)

    def shape(self) -> Step:
        """The step with all amounts put to 0: strata of one shape are drawn together."""
        changes: dict[str, Any] = {self.amount: 0} if self.amount else {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Step):
                changes[each.name] = value.shape()
        return replace(self, **changes)

    def columns(self, role: str) -> tuple[str, ...]:
        """The columns that have a role in this step or inside it: strata, cluster, size, rate, order."""
        found: dict[str, None] = {}
        for step in self.below():
            value = getattr(step, role, None)
            if isinstance(value, tuple):
                found |= dict.fromkeys(value)
            elif isinstance(value, str) and value not in ("random", "as listed"):
                found[value] = None
        return tuple(found)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of labels that must not be missing, beside those of strata."""
        return (*self.columns("cluster"), *self.columns("order"))

    @property
    def as_listed(self) -> bool:
        """Whether this step, or one inside it, goes through a list in the order of its rows."""
        return any(step.as_listed for step in self.below() if step is not self)

    @property
    def can_be_shifted(self) -> bool:
        """Whether the numbers of the elements alone decide who is drawn, so that shifting them coordinates two samples."""
        return all(step.can_be_shifted for step in self.below() if step is not self)

    @property
    def poisson_rate(self) -> float | None:
        """The largest probability where each unit is taken by its own number alone, whatever else is on the frame.

        >>> Strata("region", {"north": Each(0.1), "south": Each(0.02)}).poisson_rate, Simple(10).poisson_rate
        (0.1, None)
        """
        return None

    @property
    def fixed_takes(self) -> dict[str | None, int]:
        """How many units a simple random sample takes, by stratum (None without strata); empty for other draws."""
        return {}

    @property
    def fixed_counts(self) -> dict[str, Any]:
        """What the design alone says about the sample: numbers of units, draws or clusters that no draw can change.

        >>> Clusters("psu", Simple(5)).fixed_counts
        {'clusters': 5}
        """
        return {}


@dataclass(frozen=True)
class Each(Step):
    """Keep each element whose number is below the probability."""

    amount: ClassVar[str] = "probability"
    probability: float

    @property
    def poisson_rate(self) -> float:
        return self.probability


@dataclass(frozen=True)
class EachBy(Step):
    """Keep each element whose number is below its own value of a column, which is at most `at_most`."""

    amount: ClassVar[str] = "at_most"
    rate: str
    at_most: float

    @property
    def poisson_rate(self) -> float:
        return self.at_most


@dataclass(frozen=True)
class Simple(Step):
    """Keep the `take` elements with the smallest numbers. `size` is the declared size of the list, where there is one."""

    amount: ClassVar[str] = "take"
    take: int
    size: int | None = field(default=None, compare=False)

    @property
    def fixed_takes(self) -> dict[str | None, int]:
        return {None: self.take}

    @property
    def fixed_counts(self) -> dict[str, Any]:
        return {"units": self.take}


@dataclass(frozen=True)
class Share(Step):
    """A simple random sample of a share of the list, rounded to a whole number by chance or to the nearest one."""

    amount: ClassVar[str] = "share"
    share: float
    rounding: Literal["random", "nearest"]


@dataclass(frozen=True)
class Repeated(Step):
    """`take` draws with replacement, each element equally likely at each draw."""

    amount: ClassVar[str] = "take"
    take: int

    @property
    def can_be_shifted(self) -> bool:
        return False

    @property
    def fixed_counts(self) -> dict[str, Any]:
        return {"draws": self.take}


@dataclass(frozen=True)
class Every(Step):
    """Every k-th element from a random start, with a fractional step: `take` of the list, or a share of it."""

    amount: ClassVar[str] = "amount_taken"
    amount_taken: float
    by_share: bool
    order: Order

    @property
    def as_listed(self) -> bool:
        return self.order == "as listed"

    @property
    def can_be_shifted(self) -> bool:
        return False

    @property
    def fixed_counts(self) -> dict[str, Any]:
        return {} if self.by_share else {"units": int(self.amount_taken)}


@dataclass(frozen=True)
class Sized(Step):
    """`take` elements with probabilities in proportion to a column; elements that would exceed 1 are taken for certain."""

    amount: ClassVar[str] = "take"
    size: str
    take: int
    method: str
    order: Order = "random"
    at_most: float = 1.0

    @property
    def drawn_by(self) -> Method:
        """The method of the draw."""
        return METHODS[self.method]

    @property
    def as_listed(self) -> bool:
        return self.order == "as listed"

    @property
    def can_be_shifted(self) -> bool:
        return self.drawn_by.can_be_shifted

    @property
    def fixed_counts(self) -> dict[str, Any]:
        return {"units": self.take} if self.drawn_by.fixed_size else {}


@dataclass(frozen=True)
class Clusters(Step):
    """Draw clusters by one step; inside each drawn one take all units, or draw them by another step."""

    cluster: str
    how: Step
    inside: Step | None = None

    @property
    def fixed_counts(self) -> dict[str, Any]:
        drawn = self.how.fixed_counts
        inside = self.inside.fixed_counts if self.inside is not None else {}
        clusters = {"clusters": drawn["units"]} if "units" in drawn else drawn
        return clusters | ({"in each cluster": inside} if inside else {})


@dataclass(frozen=True)
class Strata(Step):
    """Draw inside each category of a column, independently: by one step, or by a step for each label."""

    strata: str
    inside: Step | Mapping[str, Step] = field(hash=False)

    @property
    def poisson_rate(self) -> float | None:
        inside = self.inside.values() if isinstance(self.inside, Mapping) else [self.inside]
        rates = [rate for step in inside if (rate := step.poisson_rate) is not None]
        return max(rates) if len(rates) == len(inside) else None

    @property
    def fixed_takes(self) -> dict[str | None, int]:
        inside = self.inside.items() if isinstance(self.inside, Mapping) else ()
        return {label: step.take for label, step in inside if isinstance(step, Simple)}

    @property
    def fixed_counts(self) -> dict[str, Any]:
        if isinstance(self.inside, Mapping):
            return {"by stratum": {label: step.fixed_counts for label, step in self.inside.items()}}
        return {"in each stratum": self.inside.fixed_counts}


@dataclass(frozen=True, repr=False)
class Taken(Step):
    """Nothing is drawn: all rows of a collected file, with what its columns say of each."""

    named: DesignColumns[str] = NO_COLUMNS
    replicates: Replicates | None = None

    @property
    def can_be_shifted(self) -> bool:
        return False

    def __repr__(self) -> str:
        # A hash of this text says in ledgers which files were checked; it stays as version 0.8.0 wrote it.
        of = self.named
        more = f", replicates={self.replicates!r}" if self.replicates else ""
        return f"Taken(stratum={of.strata!r}, psu={of.psu!r}, ssu={of.ssu!r}, weight={of.weights!r}, population={of.fpc!r}{more})"

    @property
    def used(self) -> tuple[str, ...]:
        columns = tuple(self.named.given().values())
        return columns if self.replicates is None else (*columns, *self.replicates.names)


def read_order(order: str | Sequence[str]) -> Order:
    """An order as a recipe writes it: "random", "as listed", or names of columns."""
    if order in ("random", "as listed"):
        return order  # type: ignore[return-value]
    columns = (order,) if isinstance(order, str) else tuple(order) if isinstance(order, Sequence) else ()
    if not columns or not all(isinstance(each, str) and each for each in columns):
        raise BadValue("order= takes columns to sort by, 'random' or 'as listed'", given=f"order={order!r}")
    return columns
