"""The kind of noise of a plan: as asked, or the least noisy of those that its budget pays for."""

from __future__ import annotations

import math
from dataclasses import replace

from ..errors import BadValue, did_you_mean
from ..mechanism import MECHANISMS, Mechanism
from .plan import Plan
from .predictions import noise_errors


def choose_noise(plan: Plan, noise: str = "auto") -> Plan:
    """The plan under one kind of noise: as asked, or of those that the budget pays for the one with the smallest noise, averaged
    over its estimates.

    Noise that is charged in zCDP needs a delta. Statistics with a delta of their own are charged in epsilon and delta, beside
    noise of pure epsilon.
    """
    if noise not in ("auto", *MECHANISMS):
        raise BadValue(f"unknown noise {noise!r}", hint=did_you_mean(str(noise), ("auto", *MECHANISMS)))
    own_delta = any(statistic.needs_delta for statistic in plan.statistics)
    if noise != "auto":
        asked = MECHANISMS[noise]
        if asked.measure.needs_delta and plan.terms.budget.delta == 0.0:
            raise BadValue(f"{asked.kind.capitalize()} noise needs a delta", hint="Budget(epsilon, delta)")
        if asked.measure.needs_delta and own_delta:
            raise BadValue(
                f"a median of this plan is charged in epsilon and delta, which {asked.kind.capitalize()} noise is not",
                hint='noise="laplace"',
            )
        return _under(plan, asked)
    own = None if own_delta else plan.terms.budget.measure
    paid = [each for each in MECHANISMS.values() if each.measure == own or not each.measure.needs_delta]
    # Of equal noise the one that the budget pays for by default.
    best, *others = (_under(plan, each) for each in sorted(paid, key=lambda each: each is not plan.terms.mechanism))
    for other in others:
        best = other if _louder(best, other) else best
    return best


def _under(plan: Plan, noise: type[Mechanism]) -> Plan:
    """The plan with this kind of noise, which is named where it is not the default."""
    return plan if noise is plan.terms.mechanism else replace(plan, noise=noise.kind)


def _louder(first: Plan, second: Plan) -> bool:
    """Whether the first plan has the larger noise, by the mean logarithm of the ratio over all estimates."""
    pairs = zip(noise_errors(first), noise_errors(second), strict=True)
    ratios = [math.log(one / two) for one, two in pairs if one > 0.0 and two > 0.0]
    return math.fsum(ratios) > 0.0
