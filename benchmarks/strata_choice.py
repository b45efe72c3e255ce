"""What the choice among estimators of strata costs: predicted half widths of what is chosen over the narrowest there is.

    python benchmarks/strata_choice.py [--samples 4000]

Stratified samples with random numbers of strata, sizes, allocations, spreads and shares of variance between strata. The plan
knows nothing, or the mean and deviation of the whole; the widths are those of the true figures. Nothing is drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsurvey.statistic.estimators.fixed_size import FixedSizes
from dpsurvey.statistic.estimators.names import BY_STRATUM, POOLED
from dpsurvey.statistic.estimators.strata_choice import BETWEEN, SUPPOSED, Choice, Strata, for_means, half_widths
from dpsurvey.text.layout import text_table


@dataclass(frozen=True)
class Case:
    """A stratified sample, the true figures of its strata, and the noise variance of one sum."""

    strata: Strata
    mean: float
    spread: float
    between: float
    noise: float

    def chosen(self, *, declared: bool) -> Choice:
        """What a plan takes that knows nothing, or the mean and deviation of the whole."""
        mean, spread = (self.mean, self.spread) if declared else (SUPPOSED[0], SUPPOSED[1] ** 2)
        known = Strata.alike(self.strata.sizes, mean, spread, BETWEEN)
        return for_means(known, self.noise, self.noise, alone=True, supposed=not declared)

    @property
    def widths(self) -> dict[str, float]:
        """The half widths by the true figures."""
        return half_widths(self.strata, self.noise, self.noise)


def case_of(random: np.random.Generator) -> Case | None:
    """A random sample; None where values within bounds could not have such figures."""
    count = int(random.choice([2, 3, 5, 8, 12, 20, 40]))
    n = max(6.0 * count, float(np.exp(random.uniform(np.log(60), np.log(20_000)))))
    shares = random.dirichlet(np.full(count, 3.0))
    mean, between = random.uniform(0.08, 0.5), float(random.choice([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8]))
    sd = min(float(np.exp(random.uniform(np.log(0.04), np.log(0.35)))), 0.9 * np.sqrt(mean * (1.0 - mean)))
    unlike = np.exp(random.normal(0.0, 0.5, count)) if random.random() < 0.6 else np.ones(count)
    kinds = (shares, np.full(count, 1.0 / count), shares * unlike / (shares @ unlike))
    takes = np.maximum(kinds[random.integers(3)] * n, 2.0)
    rates = np.minimum(takes / (shares * n / random.choice([0.005, 0.02, 0.1, 0.3])), 0.95)
    apart = random.normal(size=count)
    apart -= shares @ apart
    means = mean + np.sqrt(between) * sd * apart / np.sqrt(shares @ apart**2)
    if means.min() < 0.0 or means.max() > 1.0:
        return None
    spreads = sd**2 * (1.0 - between) * unlike**2 / (shares @ unlike**2)
    noise = 2.0 / float(np.exp(random.uniform(np.log(0.1), np.log(10.0)))) ** 2
    return Case(Strata(FixedSizes(shares, takes, rates), means, spreads), mean, sd**2, between, noise)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4_000)
    random, cases = np.random.default_rng(3), []
    for _ in range(parser.parse_args().samples):
        found = case_of(random)
        cases += [found] if found is not None else []
    rules: dict[str, Callable[[Case], str]] = {
        "always pooled": lambda case: POOLED,
        "always by-stratum": lambda case: BY_STRATUM,
        "chosen, nothing declared": lambda case: case.chosen(declared=False).name,
        "chosen, mean and deviation declared": lambda case: case.chosen(declared=True).name,
    }
    rows = []
    for rule, name in rules.items():
        ratios = [case.widths[name(case)] / min(case.widths.values()) for case in cases]
        cuts = {"95 %": float(np.quantile(ratios, 0.95)), "99 %": float(np.quantile(ratios, 0.99)), "most": max(ratios)}
        rows.append({"rule": rule, "mean": float(np.exp(np.mean(np.log(ratios))))} | cuts)
    shown = [{key: f"{value:.3f}" if isinstance(value, float) else value for key, value in row.items()} for row in rows]
    print(f"{len(cases)} samples; width over that of the narrowest estimator\n")
    print(text_table(shown, ["rule", "mean", "95 %", "99 %", "most"]))


if __name__ == "__main__":
    main()
