"""Spending: what the charges on record cost the protected data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import LedgerDisagrees
from ..privacy.account import add_samples, amount, compose_charges
from ..privacy.curve import Approximate, Curve
from ..privacy.profile import PrivacyProfile
from ..terms import Terms


@dataclass(frozen=True)
class Spending:
    """Totals of one survey: per sample composed then amplified once, over samples added."""

    charged: tuple[tuple[str, PrivacyProfile], ...]
    spent: float
    left: float
    by_sample: dict[str, float]
    in_sample: dict[str, float]
    delta: float
    too_many_samples: bool

    def refusal(self, terms: Terms, sample: str, asked: int) -> str:
        """The way out of a refusal of the last charges, in words."""
        if self.too_many_samples:
            return "a budget with delta covers one sample: draw and seal it first, then release from it"
        left = share_left(terms, self.charges_of(sample)[:-asked]) if len(self.by_sample) == 1 else 0.0
        # Rounded down, so that what is named fits.
        return f"plan with share={math.floor(left * 1e4) / 1e4:g} or less" if left >= 1e-4 else "plan with a smaller share="

    def charges_of(self, sample: str) -> list[PrivacyProfile]:
        """The in-sample profiles charged to one sample."""
        return [profile for name, profile in self.charged if name == sample]

    @property
    def known(self) -> float:
        """The loss of someone known to be in one of the samples, whichever is worst: its own, and the others amplified."""
        return max((loss + self.elsewhere(name) for name, loss in self.in_sample.items()), default=0.0)

    def elsewhere(self, sample: str) -> float:
        """The amplified loss of the other samples of the survey."""
        others = [loss for name, loss in self.by_sample.items() if name != sample]
        return add_samples(others) if others else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        samples = [{"sample": name, "epsilon": loss, "in_sample": self.in_sample[name]} for name, loss in self.by_sample.items()]
        return {"spent": self.spent, "left": self.left, "delta": self.delta, "samples": samples}


def share_left(terms: Terms, charged: Sequence[PrivacyProfile]) -> float:
    """The share of what one sample may be charged that is left of it."""
    zcdp = bool(charged) and charged[0].curve.kind == "zcdp"
    whole = amount(terms.in_sample("gaussian" if zcdp else "laplace"))
    used = math.fsum(amount(PrivacyProfile(_pure_part(profile.curve), profile.relation)) for profile in charged)
    return max(0.0, 1.0 - used / whole)


def _pure_part(curve: Curve) -> Curve:
    return Approximate(curve.at_epsilon) if isinstance(curve, Approximate) else curve


def refuse_other_currency(charged: Sequence[PrivacyProfile], asked: Sequence[PrivacyProfile]) -> None:
    """One sample is charged in rho or in epsilon (and delta), not in both: only then is the sum a proved filter."""
    kinds = {profile.curve.kind for profile in (*charged, *asked)}
    if len(kinds) > 1 and charged:
        used = "gaussian" if charged[0].curve.kind == "zcdp" else "laplace"
        raise LedgerDisagrees(
            "this sample was charged for another kind of noise",
            because="charges in rho and charges in epsilon add up by different theorems",
            hint=f'plan(..., noise="{used}")',
        )


def spending(terms: Terms, charged: Sequence[tuple[str, PrivacyProfile]]) -> Spending:
    """The totals of charges. Samples are drawn independently of each other, so their losses add (basic composition)."""
    by_sample: dict[str, float] = {}
    in_sample: dict[str, float] = {}
    for sample in dict.fromkeys(name for name, _ in charged):
        composed = compose_charges(profile for name, profile in charged if name == sample)
        assert composed is not None
        amplified = terms.amplify(composed)
        by_sample[sample] = amplified.epsilon(terms.budget.delta)
        in_sample[sample] = terms.on_sample(composed).epsilon(terms.budget.delta)
    spent = add_samples(by_sample.values()) if by_sample else 0.0
    left = max(0.0, terms.budget.epsilon - spent)
    return Spending(
        tuple(charged), spent, left, by_sample, in_sample, terms.budget.delta, terms.budget.delta > 0.0 and len(by_sample) > 1
    )
