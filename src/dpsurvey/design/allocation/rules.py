"""The rules that a sample is allocated by: what each needs, how it divides the units, and what it would cost from secrets.

A rule puts itself on the list by `register`; `allocate`, comparisons, the command line and pictures read the list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ...errors import BadValue, did_you_mean
from ...loss.bound import Bound, Losses, Refused
from ...privacy.relation import Relation
from ...text.layout import ceiling_text
from ..confidential_sizes import ConfidentialAllocation
from ..proportional import ProportionalShare
from .guaranteed import StrataGuarantee, private_takes
from .inputs import check_budget, check_figures, check_number, wanted_se
from .takes import (
    Array,
    Takes,
    shares_for_precision,
    shares_of_total,
    strata_array,
    strata_takes,
    stratified_se,
    whole_budget,
    whole_precision,
    whole_total,
)

if TYPE_CHECKING:
    from .allocation import Allocation

NEEDED = {
    "n": "the number of units to draw in all",
    "power": "a number from 0, equal shares, to 1, shares in proportion to the measure",
    "deviations": "published standard deviations by stratum, from an earlier release for example",
    "budget": "what the interviews may cost in all",
    "costs": "the cost of one unit by stratum",
    "epsilon": "what a record may lose on the frame: one number, or one by stratum",
    "ranges": "the width of the public range of the values: one number, or one by stratum",
}
NOTHING = "it uses public sizes and ranges alone, so its sizes tell nothing about records"


@dataclass(frozen=True)
class Strata:
    """Checked figures by stratum: sizes, the least units, and deviations and costs where they are given."""

    sizes: dict[str, int]
    least: dict[str, int]
    deviations: dict[str, float] | None
    costs: dict[str, float] | None
    public: bool

    @cached_property
    def size(self) -> Array:
        """The sizes as an array."""
        return strata_array(self.sizes)

    @cached_property
    def lower(self) -> Array:
        """The least units as an array."""
        return strata_array(self.least)

    @cached_property
    def sd(self) -> Array:
        """The deviations as an array; ones where none are given."""
        return np.ones(len(self.sizes)) if self.deviations is None else strata_array(self.deviations)

    @cached_property
    def price(self) -> Array:
        """The costs as an array; ones where none are given."""
        return np.ones(len(self.sizes)) if self.costs is None else strata_array(self.costs)

    @property
    def whole(self) -> tuple[Array, Array, Takes, Takes]:
        """Spreads, prices and bounds, as units are added one by one."""
        return self.sd / self.sd.max() * self.size, self.price, self.lower.astype(np.int64), self.size.astype(np.int64)


class Divided(NamedTuple):
    """Units by stratum, before and after rounding, and the guarantee that they were divided for."""

    exact: Array
    takes: Takes
    guarantee: StrataGuarantee | None = None


class Rule(ABC):
    """How a sample is divided over strata; deviations and costs are welcome with every rule."""

    name: ClassVar[str]
    # Keywords of `allocate` that it needs, and those that it may have besides.
    needs: ClassVar[tuple[str, ...]]
    may: ClassVar[tuple[str, ...]] = ()
    # Whether it draws from every stratum, and whether it is made for a guarantee and keeps it.
    every_stratum: ClassVar[bool] = False
    guaranteed: ClassVar[bool] = False
    # Whether it stands beside others for a number of units ("n") and for a "budget".
    compared_at: ClassVar[tuple[str, ...]] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        """All keywords that are its own."""
        return (*self.needs, *self.may)

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse a figure that it lacks, and one that it would silently leave aside."""
        for name in self.needs:
            if given[name] is None:
                raise BadValue(f"the {self.name} rule needs {name}", hint=NEEDED[name])
        for name, value in given.items():
            if value is not None and name not in (*self.uses, "deviations", "costs"):
                hint = f"it uses {', '.join(self.uses)}"
                raise BadValue(f"the {self.name} rule does not use {name}", given=f"{name}={value!r}", hint=hint)

    @abstractmethod
    def divide(self, strata: Strata, given: Mapping[str, Any]) -> Divided:
        """The units of each stratum, from the figures by stratum and the other keywords."""

    def if_confidential(self, made: Allocation, guarantee: StrataGuarantee) -> str:
        """What records would lose if the allocation were computed from confidential figures, in words with what is proved."""
        worst = Losses.of(max(guarantee.in_sample(made.takes).values()), Relation.BOTH)
        refused = ConfidentialAllocation(made.total).bound(worst, Relation.REPLACE_ONE)
        assert isinstance(refused, Refused)
        return f"amplification is refused: {refused.reason}; all that is proved is {refused.bound}"


RULES: dict[str, Rule] = {}


def register(rule: type[Rule]) -> type[Rule]:
    """Put a rule on the list."""
    RULES[rule.name] = rule()
    return rule


def rule_named(name: str) -> Rule:
    """The rule of a name.

    >>> rule_named("neyman").needs
    ('n', 'deviations')
    """
    if name not in RULES:
        raise BadValue(f"unknown allocation rule {name!r}", hint=did_you_mean(str(name), RULES))
    return RULES[name]


class Shares(Rule):
    """n units in proportion to the size of a stratum times a factor of its own."""

    @abstractmethod
    def factors(self, strata: Strata, given: Mapping[str, Any]) -> Array:
        """What N_h is multiplied by, for the share of a stratum."""

    def divide(self, strata: Strata, given: Mapping[str, Any]) -> Divided:
        ones, n = np.ones(len(strata.sizes)), given["n"]
        exact = shares_of_total(strata.size, self.factors(strata, given), ones, strata.lower, strata.size, n)
        return Divided(exact, whole_total(exact, strata.size, n))


@register
class Proportional(Shares):
    """n_h in proportion to N_h."""

    name = "proportional"
    needs = ("n",)
    compared_at = ("n", "budget")

    def factors(self, strata: Strata, given: Mapping[str, Any]) -> Array:
        return np.ones(len(strata.sizes))

    def if_confidential(self, made: Allocation, guarantee: StrataGuarantee) -> str:
        # Noise that hides a record more or less as well as a replaced one: where nearest rounding moves, one step is lost,
        # and where it stays no more than that.
        spent = guarantee.in_sample(made.takes)
        worst = Losses.of(max(spent.values()), Relation.BOTH)
        bounds = [
            ProportionalShare(made.rates[label]).bound(Losses.of(loss, Relation.BOTH), Relation.ADD_REMOVE)
            for label, loss in spent.items()
        ]
        random = max(each.upper for each in bounds if isinstance(each, Bound))
        return (
            "from confidential stratum sizes, a record more or less: rounded to the nearest, takes move with a record and "
            f"sampling hides nothing, epsilon {ceiling_text(worst.add_remove)}; with randomised rounding epsilon "
            f"{ceiling_text(random)}; if the noise hides a record more or less as well"
        )


@register
class Equal(Shares):
    """The same n_h in every stratum."""

    name = "equal"
    needs = ("n",)

    def factors(self, strata: Strata, given: Mapping[str, Any]) -> Array:
        return 1.0 / strata.size


@register
class Power(Shares):
    """n_h in proportion to a power of a measure: by default of the size."""

    name = "power"
    needs = ("n", "power")
    may = ("measure",)

    def factors(self, strata: Strata, given: Mapping[str, Any]) -> Array:
        figures = check_figures("measure", given["measure"], strata.sizes)
        base = strata.size if figures is None else strata_array(figures)
        if not base.any():
            raise BadValue("the measure is zero in every stratum")
        return np.asarray((base / base.max()) ** check_number("power", given["power"], above=False) / strata.size)


@register
class Neyman(Shares):
    """n_h in proportion to N_h S_h: the least variance of the mean for n units."""

    name = "neyman"
    needs = ("n", "deviations")
    compared_at = ("n",)

    def factors(self, strata: Strata, given: Mapping[str, Any]) -> Array:
        return np.asarray(strata.sd / strata.sd.max())


@register
class Cost(Rule):
    """n_h in proportion to N_h S_h/sqrt(c_h): the least variance of the mean for a budget."""

    name = "cost"
    needs = ("budget", "deviations", "costs")
    every_stratum = True
    compared_at = ("budget",)

    def divide(self, strata: Strata, given: Mapping[str, Any]) -> Divided:
        limit = check_budget(given["budget"], strata.price, strata.lower)
        # More than all units of the strata that vary would buy nothing.
        useful = min(limit, float(strata.price @ np.where(strata.sd > 0.0, strata.size, strata.lower)))
        factors = strata.sd / strata.sd.max() * np.sqrt(strata.price)
        exact = shares_of_total(strata.size, factors, strata.price, strata.lower, strata.size, useful)
        return Divided(exact, whole_budget(*strata.whole, limit))


@register
class Precision(Rule):
    """The fewest units, or with costs the least cost, for a precision of the mean."""

    name = "precision"
    needs = ("deviations",)
    may = ("cv", "mean", "se")
    every_stratum = True

    def divide(self, strata: Strata, given: Mapping[str, Any]) -> Divided:
        wanted = wanted_se(given["cv"], given["mean"], given["se"])
        exact = shares_for_precision(strata.size, strata.sd, strata.price, strata.lower, strata.size, wanted)
        return Divided(exact, whole_precision(*strata.whole, lambda each: stratified_se(strata.size, strata.sd, each) <= wanted))


@register
class Private(Rule):
    """The least variance of sampling and noise together, for the losses of records on the frame."""

    name = "private"
    needs = ("epsilon", "ranges")
    may = ("n", "budget", "deviations", "release")
    every_stratum = True
    guaranteed = True

    def check(self, given: Mapping[str, Any]) -> None:
        super().check(given)
        if (given["n"] is None) == (given["budget"] is None):
            raise BadValue("the private rule needs either n or a budget", given=f"n={given['n']}, budget={given['budget']}")
        if given["budget"] is not None and given["costs"] is None:
            raise BadValue("the private rule needs costs for a budget", hint=NEEDED["costs"])

    def divide(self, strata: Strata, given: Mapping[str, Any]) -> Divided:
        figures = (given["epsilon"], given["ranges"], given["release"])
        guarantee = StrataGuarantee.of(*figures, strata.sizes, strata.deviations, strata.public)
        least = strata_takes(strata.least)
        takes = private_takes(guarantee, strata.sizes, least, given["n"], strata.costs, given["budget"])
        return Divided(takes.astype(np.float64), takes, guarantee)

    def if_confidential(self, made: Allocation, guarantee: StrataGuarantee) -> str:
        # Without deviations it is the best for the worst values in the ranges.
        return NOTHING if made.deviations is None else super().if_confidential(made, guarantee)
