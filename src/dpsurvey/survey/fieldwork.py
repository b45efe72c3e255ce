"""Fieldwork: what collecting a sample is expected to bring and cost: response, cost of units and clusters, a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..design.frame import label_text
from ..errors import BadValue
from ..statistic.facts import Facts
from ..statistic.predict.population import drawn_by_stratum


@dataclass(frozen=True)
class Fieldwork:
    """Expected response rates, and costs in any one currency. Figures for planning: no guarantee rests on them.

    `response` is the share of drawn units that answer, one for all or by stratum. `cost` is paid for each drawn unit, one for
    all or by stratum, `cluster_cost` for each drawn cluster, `fixed_cost` once. `budget` is what may be spent in the field.

    >>> Fieldwork(response={"north": 0.6, "south": 0.7}, cost=40, budget=50_000).response_rates
    (('north', 0.6), ('south', 0.7))
    """

    response: float | Mapping[Any, float] = field(default=1.0, hash=False)
    cost: float | Mapping[Any, float] = field(default=0.0, hash=False)
    cluster_cost: float = 0.0
    fixed_cost: float = 0.0
    budget: float | None = None

    def __post_init__(self) -> None:
        for name, given in (("response", self.response), ("cost", self.cost)):
            if isinstance(given, Mapping) and not given:
                raise BadValue(f"{name} by stratum names no stratum", hint="one number for all, or one for each stratum")
        for rate in _figures(self.response):
            if not _is_number(rate) or not 0.0 < rate <= 1.0:
                raise BadValue("a response rate is in (0, 1]", given=f"response={rate!r}")
        for name, figures in (
            ("cost", _figures(self.cost)),
            ("cluster_cost", [self.cluster_cost]),
            ("fixed_cost", [self.fixed_cost]),
        ):
            if not all(_is_number(each) and 0.0 <= each < math.inf for each in figures):
                raise BadValue("costs are not negative", given=f"{name}={getattr(self, name)!r}")
        if self.budget is not None and not (_is_number(self.budget) and 0.0 < self.budget < math.inf):
            raise BadValue("a field budget is a positive amount", given=f"budget={self.budget!r}")

    @property
    def response_rates(self) -> tuple[tuple[str | None, float], ...]:
        """Response rates by stratum, or one for all without a label; nothing where everybody answers."""
        if isinstance(self.response, Mapping):
            return tuple((label_text(label), float(rate)) for label, rate in self.response.items())
        return ((None, float(self.response)),) if self.response < 1.0 else ()

    def check(self, facts: Facts) -> None:
        """Refuse figures by stratum that do not name the strata of the design."""
        strata = {part.label for part in facts.parts if part.label is not None}
        for name, figures in (("response", self.response), ("cost", self.cost)):
            if isinstance(figures, Mapping) and {label_text(label) for label in figures} != strata:
                raise BadValue(
                    f"{name} by stratum must name every stratum of the design, and no other",
                    given=", ".join(map(str, figures)),
                    hint=f"strata: {', '.join(sorted(map(str, strata)))}"
                    if strata
                    else "the design has no strata: give one number",
                )

    def expected(self, facts: Facts) -> dict[str, Any]:
        """Units drawn, clusters drawn, answers, cost, and whether it is within the budget."""
        parts = drawn_by_stratum(facts)
        drawn = math.fsum(units for _, units in parts)
        answers = math.fsum(units * facts.response_of(label) for label, units in parts)
        clustering = facts.clustering
        clusters = None
        if clustering is not None and clustering.drawn is not None:
            clusters = clustering.drawn * max(1, len(clustering.strata))
        cost = self.fixed_cost + self.cluster_cost * (clusters or 0)
        cost += math.fsum(units * self._cost_of(label) for label, units in parts)
        within = self.budget is None or cost <= self.budget * (1.0 + 1e-12)
        return {
            "drawn": drawn,
            "clusters": clusters,
            "answers": answers,
            "cost": cost,
            "budget": self.budget,
            "affordable": within,
        }

    def averaged(self, facts: Facts) -> Fieldwork:
        """The same figures on average, for a design without these strata."""
        sizes = facts.frame.category_sizes.get(facts.design.strata_column or "", {})
        cost = self.cost
        if isinstance(cost, Mapping):
            weights = {label: float(sizes.get(str(label_text(label)), 1)) for label in cost}
            cost = math.fsum(weights[label] * float(each) for label, each in cost.items()) / math.fsum(weights.values())
        return replace(self, response=facts.response_of(None), cost=cost)

    def _cost_of(self, label: str | None) -> float:
        if not isinstance(self.cost, Mapping):
            return float(self.cost)
        by_label = {label_text(each): float(cost) for each, cost in self.cost.items()}
        return by_label[label] if label in by_label else math.fsum(by_label.values()) / len(by_label)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        figures = {"response": self.response, "cost": self.cost}
        written: dict[str, Any] = {name: dict(each) if isinstance(each, Mapping) else each for name, each in figures.items()}
        return written | {"cluster_cost": self.cluster_cost, "fixed_cost": self.fixed_cost, "budget": self.budget}


def _figures(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, Mapping) else [given]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
