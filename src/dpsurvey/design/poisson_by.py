"""Poisson sampling with unequal probabilities: each unit by itself, with its own public rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from ..errors import BadValue
from ..privacy.relation import Restriction
from ..privacy.setting import Setting
from .base import Design, thinned
from .checks import check_name, check_rate, check_rates
from .poisson import IndependentDraws, Poisson
from .recipe import EachBy, Step
from .registry import register


@dataclass(frozen=True)
class UnequalPoisson(IndependentDraws):
    """Each unit independently, with the probability in a public column, which nowhere exceeds `at_most`.

    The loss is that of Poisson sampling at the rate `at_most`; a unit with a smaller rate loses less. `probabilities` are
    all that occur, where they are few classes: then a record that moves from one to another is covered too.

    >>> poisson_by("rate", at_most=0.1).largest_probability
    0.1
    """

    kind: ClassVar[str] = "poisson-by"
    unwritten: ClassVar[Mapping[str, Any]] = {"moves": True}
    rate: str
    at_most: float
    probabilities: tuple[float, ...] | None = None
    # Whether a record may be replaced by one of another class.
    moves: bool = True

    def __post_init__(self) -> None:
        check_name("rate", self.rate)
        check_rate("at_most", self.at_most)
        if self.probabilities is not None and (not self.probabilities or max(self.probabilities) > self.at_most):
            raise BadValue("probabilities= names all that occur, at least one, none above at_most")

    @property
    def rates(self) -> tuple[float, ...]:
        return self.probabilities or (self.at_most,)

    def relation_name(self, setting: Setting) -> Restriction:
        return Restriction.NONE if self.moves else Design.relation_name(self, setting)

    def in_words(self, unit: str = "unit") -> str:
        return f"Poisson sampling, each {unit} with its own probability in {self.rate}"

    def recipe(self) -> Step:
        # A rate that is none of the declared ones may not be above them.
        return EachBy(self.rate, self.largest_probability)

    def resized(self, factor: float) -> UnequalPoisson:
        grown = None if self.probabilities is None else tuple(min(1.0, each * factor) for each in self.probabilities)
        return replace(self, at_most=min(1.0, self.at_most * factor), probabilities=grown)


@thinned.register
def _(design: IndependentDraws, p: float) -> UnequalPoisson:
    # Thinned draws are draws with smaller probabilities.
    return UnequalPoisson("rate", max(design.rates) * p, tuple(rate * p for rate in design.rates), design.moves)


def _of_figures(
    rate: Annotated[Sequence[float], "The rate, or the public rates of several classes of units, by commas."],
) -> Poisson | UnequalPoisson:
    """Poisson (Bernoulli) sampling: each unit by itself.

    Example: `dpsurvey amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove`
    """
    for each in rate:
        check_rate("rate", each)
    return Poisson(rate[0]) if len(rate) == 1 else poisson_by("rate", probabilities=rate)


@register("poisson-by", page="poisson", commands={"poisson": _of_figures})
def poisson_by(
    rate: str, *, at_most: float | None = None, probabilities: Sequence[float] | None = None, moves: bool = True
) -> UnequalPoisson:
    """Draw each unit independently, with the probability in a public column that is nowhere above `at_most`.

    `probabilities` are the values that occur in it, where these are public too; with `moves=False` a record keeps its own.

    >>> poisson_by("rate", at_most=0.1).recipe()
    EachBy(rate='rate', at_most=0.1)
    """
    given = None if probabilities is None else check_rates("probabilities", probabilities)
    if at_most is None and not given:
        raise BadValue("give at_most=, a public bound on every unit's probability", hint="or probabilities=, all that occur")
    return UnequalPoisson(rate, at_most if at_most is not None else max(given or (1.0,)), given, moves)
