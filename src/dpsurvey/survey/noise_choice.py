"""Laplace or Gaussian noise: whichever is less noisy for a plan and its budget."""

from __future__ import annotations

import math
from dataclasses import replace

from ..errors import BadValue, did_you_mean
from ..ledger.terms import Terms
from ..mechanism import MECHANISMS
from ..privacy.account import amount
from .plan import Plan
from .predictions import noise_errors


def choose_noise(plan: Plan, noise: str = "auto") -> Plan:
    """The plan under one kind of noise: as asked, or the one with the smaller noise, averaged over its estimates.

    Gaussian noise needs a delta. Statistics with a delta of their own are charged in epsilon and delta, beside Laplace noise.
    """
    if noise not in ("auto", *MECHANISMS):
        raise BadValue(f"unknown noise {noise!r}", hint=did_you_mean(str(noise), ("auto", *MECHANISMS)))
    if noise == "gaussian" and plan.terms.budget.delta == 0.0:
        raise BadValue("Gaussian noise needs a delta", hint="Budget(epsilon, delta)")
    own_delta = any(statistic.needs_delta for statistic in plan.statistics)
    if own_delta and noise == "gaussian":
        raise BadValue(
            "a median of this plan is charged in epsilon and delta, which Gaussian noise is not", hint='noise="laplace"'
        )
    if plan.terms.budget.delta == 0.0:
        return plan
    if own_delta or noise == "laplace":
        return replace(plan, noise="laplace")
    if noise == "gaussian":
        return plan
    laplace = replace(plan, noise="laplace")
    return laplace if _louder(plan, laplace) else plan


def _louder(first: Plan, second: Plan) -> bool:
    """Whether the first plan has the larger noise, by the mean logarithm of the ratio over all estimates."""
    pairs = zip(noise_errors(first), noise_errors(second), strict=True)
    ratios = [math.log(one / two) for one, two in pairs if one > 0.0 and two > 0.0]
    return math.fsum(ratios) > 0.0


def crossing_point(terms: Terms) -> float:
    """From how many charges of one number each on Gaussian noise is smaller: epsilon^2/(4 rho) of the in-sample budgets.

    k Laplace means have variance 2 (k/epsilon)^2 each, k Gaussian ones k/(2 rho).
    """
    if terms.budget.delta == 0.0:
        return math.inf
    return amount(terms.pure_in_sample_budget) ** 2 / (4.0 * amount(terms.in_sample_budget))
