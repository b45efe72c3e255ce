"""Ways to draw units with unequal inclusion probabilities, and the chance that two units are drawn together."""

from __future__ import annotations

from .base import Joint, Method
from .conditional_poisson import ConditionalPoisson
from .pareto import Pareto, pareto_inclusion
from .pivotal import Pivotal
from .poisson import Poisson
from .probabilities import inclusion_probabilities
from .sampford import Sampford
from .systematic import Systematic

METHODS: dict[str, Method] = {
    method.name: method for method in (Poisson(), Systematic(), Sampford(), ConditionalPoisson(), Pivotal(), Pareto())
}

__all__ = ["METHODS", "Joint", "Method", "inclusion_probabilities", "pareto_inclusion"]
