"""Plan before you ask: errors by rate and by epsilon, designs and settings side by side. Reads no rows, spends nothing.

Tables are lists of plain dictionaries; the pictures are drawn from them.
"""

from __future__ import annotations

from .allocations import allocations, private_allocation
from .by_rate import best_rate, full_frame, rates
from .caps import caps
from .designs import compare_designs
from .designs_by_rate import designs_by_rate
from .earlier_release import expecting
from .error_by_epsilon import by_epsilon
from .medians import best_rates, median_rates
from .rate_facts import gain_bound, inflation_bound, never_gains, noise_inflation, noise_ratio, rate_for_gain, unit_loss_of_total
from .running_time import seconds_of_work
from .settings import compare_settings
from .values_of_release import published_values
from .weight_cuts import best_cut

__all__ = [
    "allocations",
    "best_cut",
    "best_rate",
    "best_rates",
    "by_epsilon",
    "caps",
    "compare_designs",
    "compare_settings",
    "designs_by_rate",
    "expecting",
    "full_frame",
    "gain_bound",
    "inflation_bound",
    "median_rates",
    "never_gains",
    "noise_inflation",
    "noise_ratio",
    "private_allocation",
    "published_values",
    "rate_for_gain",
    "rates",
    "seconds_of_work",
    "unit_loss_of_total",
]
