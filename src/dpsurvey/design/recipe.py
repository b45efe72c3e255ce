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


@dataclass(frozen=True)
class Each(Step):
    """Keep each element whose number is below the probability."""

    amount: ClassVar[str] = "probability"
    probability: float


@dataclass(frozen=True)
class EachBy(Step):
    """Keep each element whose number is below its own value of a column, which is at most `at_most`."""

    amount: ClassVar[str] = "at_most"
    rate: str
    at_most: float


@dataclass(frozen=True)
class Simple(Step):
    """Keep the `take` elements with the smallest numbers. `size` is the declared size of the list, where there is one."""

    amount: ClassVar[str] = "take"
    take: int
    size: int | None = field(default=None, compare=False)


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


@dataclass(frozen=True)
class Every(Step):
    """Every k-th element from a random start, with a fractional step: `take` of the list, or a share of it."""

    amount: ClassVar[str] = "amount_taken"
    amount_taken: float
    by_share: bool
    order: Order


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


@dataclass(frozen=True)
class Clusters(Step):
    """Draw clusters by one step; inside each drawn one take all units, or draw them by another step."""

    cluster: str
    how: Step
    inside: Step | None = None


@dataclass(frozen=True)
class Strata(Step):
    """Draw inside each category of a column, independently: by one step, or by a step for each label."""

    strata: str
    inside: Step | Mapping[str, Step] = field(hash=False)

    def step_of(self, label: str) -> Step:
        """The step inside one stratum."""
        return self.inside[label] if isinstance(self.inside, Mapping) else self.inside


@dataclass(frozen=True, repr=False)
class Taken(Step):
    """Nothing is drawn: all rows of a collected file, with what its columns say of each."""

    named: DesignColumns[str] = NO_COLUMNS

    def __repr__(self) -> str:
        # A hash of this text says in ledgers which files were checked; it stays as version 0.8.0 wrote it.
        of = self.named
        return f"Taken(stratum={of.strata!r}, psu={of.psu!r}, ssu={of.ssu!r}, weight={of.weights!r}, population={of.fpc!r})"

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(self.named.given().values())


def can_be_shifted(recipe: Step) -> bool:
    """Whether the numbers of the elements alone decide who is drawn, so that shifting them coordinates two samples."""
    by_numbers = (Each, EachBy, Simple, Share, Clusters, Strata)
    sized = (step for step in recipe.below() if not isinstance(step, by_numbers))
    return all(isinstance(step, Sized) and step.drawn_by.can_be_shifted for step in sized)


def poisson_rate(recipe: Step) -> float | None:
    """The largest probability of a sample that takes each unit by its own number alone; None for other recipes.

    >>> poisson_rate(Strata("region", {"north": Each(0.1), "south": Each(0.02)})), poisson_rate(Simple(10))
    (0.1, None)
    """
    if isinstance(recipe, Each):
        return recipe.probability
    if isinstance(recipe, EachBy):
        return recipe.at_most
    # Sized is left out: its probabilities depend on the sizes of everyone on the frame.
    if isinstance(recipe, Strata):
        inside = recipe.inside.values() if isinstance(recipe.inside, Mapping) else [recipe.inside]
        rates = [poisson_rate(step) for step in inside]
        return None if None in rates else max(rate for rate in rates if rate is not None)
    return None


def fixed_takes(recipe: Step) -> dict[str | None, int]:
    """How many units a simple random sample takes, by stratum (None without strata); empty for other recipes."""
    if isinstance(recipe, Simple):
        return {None: recipe.take}
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping):
        return {label: step.take for label, step in recipe.inside.items() if isinstance(step, Simple)}
    return {}


def fixed_counts(recipe: Step) -> dict[str, Any]:
    """What the design alone says about the sample: numbers of units, draws or clusters that no draw can change.

    >>> fixed_counts(Clusters("psu", Simple(5)))
    {'clusters': 5}
    """
    if isinstance(recipe, Simple) or (isinstance(recipe, Sized) and recipe.drawn_by.fixed_size):
        return {"units": recipe.take}
    if isinstance(recipe, Repeated):
        return {"draws": recipe.take}
    if isinstance(recipe, Every) and not recipe.by_share:
        return {"units": int(recipe.amount_taken)}
    if isinstance(recipe, Clusters):
        found = fixed_counts(recipe.how)
        inside = fixed_counts(recipe.inside) if recipe.inside is not None else {}
        clusters = {"clusters": found["units"]} if "units" in found else found
        return clusters | ({"in each cluster": inside} if inside else {})
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping):
        return {"by stratum": {label: fixed_counts(step) for label, step in recipe.inside.items()}}
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Step):
        return {"in each stratum": fixed_counts(recipe.inside)}
    return {}


def read_order(order: str | Sequence[str]) -> Order:
    """An order as a recipe writes it: "random", "as listed", or names of columns."""
    if order in ("random", "as listed"):
        return order  # type: ignore[return-value]
    columns = (order,) if isinstance(order, str) else tuple(order) if isinstance(order, Sequence) else ()
    if not columns or not all(isinstance(each, str) and each for each in columns):
        raise BadValue("order= takes columns to sort by, 'random' or 'as listed'", given=f"order={order!r}")
    return columns
