"""Laplace or Gaussian noise: whichever is less noisy for a plan and its budget."""

from __future__ import annotations

import math
from dataclasses import replace

from ..errors import BadValue, did_you_mean
from ..mechanism import MECHANISMS, Laplace
from .plan import Plan
from .predictions import noise_errors


def choose_noise(plan: Plan, noise: str = "auto") -> Plan:
    """The plan under one kind of noise: as asked, or the one with the smaller noise, averaged over its estimates.

    Gaussian noise needs a delta. Statistics with a delta of their own are charged in epsilon and delta, beside Laplace noise.
    """
    if noise not in ("auto", *MECHANISMS):
        raise BadValue(f"unknown noise {noise!r}", hint=did_you_mean(str(noise), ("auto", *MECHANISMS)))
    usual, own_delta = plan.terms.mechanism, any(statistic.needs_delta for statistic in plan.statistics)
    if noise != "auto":
        asked = MECHANISMS[noise]
        if asked.measure.needs_delta and plan.terms.budget.delta == 0.0:
            raise BadValue(f"{asked.kind.capitalize()} noise needs a delta", hint="Budget(epsilon, delta)")
        if asked.measure.needs_delta and own_delta:
            raise BadValue(
                f"a median of this plan is charged in epsilon and delta, which {asked.kind.capitalize()} noise is not",
                hint='noise="laplace"',
            )
        return plan if asked is usual else replace(plan, noise=asked.kind)
    if usual is Laplace:
        return plan
    laplace = replace(plan, noise=Laplace.kind)
    return laplace if own_delta or _louder(plan, laplace) else plan


def _louder(first: Plan, second: Plan) -> bool:
    """Whether the first plan has the larger noise, by the mean logarithm of the ratio over all estimates."""
    pairs = zip(noise_errors(first), noise_errors(second), strict=True)
    ratios = [math.log(one / two) for one, two in pairs if one > 0.0 and two > 0.0]
    return math.fsum(ratios) > 0.0
