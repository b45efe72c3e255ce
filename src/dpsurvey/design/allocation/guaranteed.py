"""What an allocation guarantees: losses on the frame, ranges of values and what is published; and the errors that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import BadValue
from ...privacy.rounding import amplified, down, unamplified
from ...text.layout import number_text
from .greedy import Purse, purse
from .inputs import by_stratum, check_budget, check_epsilon, check_release
from .one_total import best_takes
from .private import GuaranteedStrata, largest_deviations, noise_scales, noise_variance, sampling_variance
from .takes import Array, Takes, strata_array, strata_takes

# A declared spread that is above the largest one by rounding alone is that one.
SLACK = 1e-9


@dataclass(frozen=True)
class StrataGuarantee:
    """Records of public strata lose at most `epsilon` on the frame; values lie in ranges of the widths `ranges`.

    Release "strata": every stratum mean with noise of its own. Release "total": one noisy mean.
    """

    epsilon: Mapping[str, float] = field(hash=False)
    ranges: Mapping[str, float] = field(hash=False)
    release: str
    strata: GuaranteedStrata = field(hash=False, compare=False)
    known: bool

    @classmethod
    def of(
        cls,
        epsilon: float | Mapping[Any, float],
        ranges: float | Mapping[Any, float],
        release: str | None,
        sizes: Mapping[str, int],
        deviations: Mapping[str, float] | None,
        public: bool = True,
    ) -> StrataGuarantee:
        """Checked, with the largest deviations that the ranges allow where none are given."""
        losses, widths = check_epsilon(epsilon, sizes), by_stratum("ranges", ranges, sizes)
        size, width = strata_array(sizes), strata_array(widths)
        largest = largest_deviations(size, width)
        spread = largest if deviations is None else strata_array(deviations)
        for label, one, most in zip(sizes, spread.tolist(), largest.tolist(), strict=True):
            if one > most * (1.0 + SLACK):
                # Where the deviations are confidential, so are their stratum and their value.
                where, given = (f"the deviation of stratum {label!r}", f"deviation {one:g}") if public else ("a deviation", "")
                because = f"{sizes[label]} values in a range of width {widths[label]:g} have a deviation of {most:g} at most"
                raise BadValue(
                    f"{where} is a spread outside the bounds",
                    because=because if public else "values in a range cannot be further apart than it is wide",
                    given=given,
                    hint="ranges= are widths, high - low, of the bounds that values are clipped to",
                )
        guaranteed = GuaranteedStrata(size, np.minimum(spread, largest), width, strata_array(losses))
        return cls(losses, widths, check_release(release), guaranteed, deviations is not None)

    def fields(self) -> dict[str, Any]:
        """What an allocation keeps of it."""
        return {"epsilon": dict(self.epsilon), "ranges": dict(self.ranges), "release": self.release}

    def errors(self, takes: Mapping[str, int]) -> dict[str, float]:
        """Standard errors of the mean: of sampling, of noise, and of both."""
        units = strata_takes(takes)
        # Wide ranges would overflow as squares.
        widest = float(self.strata.widths.max())
        unit = self.strata._replace(deviations=self.strata.deviations / widest, widths=self.strata.widths / widest)
        sampling, noise = sampling_variance(unit, units), noise_variance(unit, units, self.release)
        named = {"se_sampling": sampling, "se_noise": noise, "se": sampling + noise}
        return {name: widest * math.sqrt(each) for name, each in named.items()}

    def in_sample(self, takes: Mapping[str, int]) -> dict[str, float]:
        """What is spent on a sampled record by stratum, rounded down."""
        shares = {label: takes[label] / int(size) for label, size in zip(self.epsilon, self.strata.sizes, strict=True)}
        most = {label: unamplified(epsilon, shares[label]) for label, epsilon in self.epsilon.items()}
        if self.release == "strata":
            return most
        # One scale for all: the stratum that needs the most noise sets it, the others spend less than they may.
        scales = self.strata.weights * noise_scales(self.strata, strata_takes(takes))
        return {label: down(most[label] * part) for label, part in zip(most, (scales / scales.max()).tolist(), strict=True)}

    def columns(self, takes: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Columns of a table by stratum: the loss on the frame, the loss on the sample, the noise of the stratum mean."""
        spent = self.in_sample(takes)
        if self.release == "strata":
            scales = math.sqrt(2.0) * noise_scales(self.strata, strata_takes(takes))
            noise = dict(zip(self.epsilon, scales.tolist(), strict=True))
            return {"epsilon": dict(self.epsilon), "epsilon_in_sample": spent, "se_noise": noise}
        sizes = dict(zip(self.epsilon, self.strata.sizes.tolist(), strict=True))
        lost = {label: min(self.epsilon[label], amplified(spent[label], takes[label] / sizes[label])) for label in spent}
        return {"epsilon": lost, "epsilon_in_sample": spent}

    def text(self, takes: Mapping[str, int]) -> str:
        """The errors in words."""
        errors = self.errors(takes)
        what = "each stratum mean" if self.release == "strata" else "one mean"
        worst = "" if self.known else " at most, for any values in the ranges"
        parts = f"sampling {number_text(errors['se_sampling'])}, noise on {what} {number_text(errors['se_noise'])}"
        return f"{number_text(errors['se'])}{worst} ({parts})"


def private_takes(
    guarantee: StrataGuarantee,
    sizes: Mapping[str, int],
    lower: Takes,
    n: int | None,
    costs: Mapping[str, float] | None,
    budget: float | None,
) -> Takes:
    """The allocation of least variance for n units, or for a budget."""
    units = strata_takes(sizes)
    if n is not None:
        return best_takes(guarantee.strata, guarantee.release, Purse(np.ones(len(units), dtype=np.int64), n), lower, True)
    prices: Array = strata_array(costs or {})
    held = purse(prices.tolist(), check_budget(budget, prices, lower.astype(np.float64)), units)
    return best_takes(guarantee.strata, guarantee.release, held, lower, False)
