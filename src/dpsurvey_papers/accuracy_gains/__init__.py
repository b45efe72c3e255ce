"""Hu, Drechsler and Kim: Accuracy gains from privacy amplification through sampling for differential privacy."""

from __future__ import annotations

from ..item import Item, Paper
from . import (
    by_rate,
    definitions,
    figures_of_medians,
    growing_sensitivity,
    illustrations,
    laplace_mean,
    rates,
    sensitivities,
    smooth_recipe,
)

# Figures of one population share their seed, and so their samples.
SEED = 123

PAPER = Paper(
    "000",
    "Hu, Drechsler and Kim",
    "Accuracy gains from privacy amplification through sampling for differential privacy",
    [
        Item(
            "000-definition-2",
            "Definitions 2 and 3",
            "Privacy by distribution functions",
            definitions.half_lines,
            definitions.draw_half_lines,
        ),
        Item(
            "000-section-2-2",
            "Section 2.2",
            "Sensitivities of the mean and the median",
            sensitivities.sensitivities,
            sensitivities.draw_sensitivities,
        ),
        Item(
            "000-equation-4",
            "Equation 4",
            "What the recipe for smooth sensitivity keeps",
            smooth_recipe.smooth_recipe,
            smooth_recipe.draw_smooth_recipe,
        ),
        Item(
            "000-definition-6",
            "Section 2.3, Definition 6",
            "Laplace noise, for one component and for several",
            definitions.laplace_noise,
            definitions.draw_laplace_noise,
        ),
        Item(
            "000-section-2-4",
            "Section 2.4",
            "How much noise each sensitivity needs",
            smooth_recipe.illustrated,
            smooth_recipe.draw_illustrated,
        ),
        Item("000-figure-1", "Figure 1", "Noisy means", illustrations.noisy_means, illustrations.draw_noisy_means, SEED),
        Item("000-figure-2", "Figure 2", "Noisy medians", illustrations.noisy_medians, illustrations.draw_noisy_medians, SEED),
        Item(
            "000-theorem-1",
            "Theorem 1, Appendix A",
            "Amplification by simple random sampling",
            definitions.theorem_one,
            definitions.draw_theorem_one,
        ),
        Item("000-figure-3", "Figure 3", "What a sample may spend", rates.what_a_sample_may_spend, rates.draw_spent),
        Item("000-figure-4", "Figure 4", "How much sampling variance a sample can afford", rates.share_by_rate, rates.draw_share),
        Item("000-section-4-1", "Section 4.1", "The no-gain rule", rates.no_gain_rule, rates.draw_no_gain_rule),
        Item(
            "000-equation-7",
            "Equations 6 to 8",
            "The variance of a noisy mean",
            laplace_mean.total_variance,
            laplace_mean.draw_total_variance,
        ),
        Item("000-figure-5", "Figure 5", "Where r = 1", laplace_mean.equal_noise, laplace_mean.draw_equal_noise),
        Item(
            "000-figure-6",
            "Figure 6",
            "Smooth sensitivities of lognormal samples",
            figures_of_medians.ratios_of_sensitivities,
            figures_of_medians.draw_ratios,
            SEED,
        ),
        Item(
            "000-section-4-3",
            "Section 4.3",
            "How sensitivities grow in a sample",
            growing_sensitivity.growth,
            growing_sensitivity.draw_growth,
            SEED,
        ),
        Item(
            "000-figure-7",
            "Figure 7",
            "Noise on lognormal medians",
            figures_of_medians.lognormal_noise,
            figures_of_medians.draw_noise,
            SEED,
        ),
        Item("000-figure-8", "Figure 8", "Lognormal medians by rate", by_rate.lognormal_by_rate, by_rate.draw_lognormal, SEED),
        Item(
            "000-section-4-3-bounds",
            "Section 4.3",
            "What the unstated upper bound does",
            by_rate.unprinted_bound,
            by_rate.draw_unprinted_bound,
            SEED,
        ),
        Item(
            "000-figure-9",
            "Figure 9, Appendix B",
            "Two groups with a gap beside the median",
            illustrations.two_groups,
            illustrations.draw_two_groups,
        ),
        Item(
            "000-figure-10",
            "Figure 10",
            "Smooth sensitivities of samples from two groups",
            figures_of_medians.ratios_with_a_gap,
            figures_of_medians.draw_ratios_with_a_gap,
            SEED,
        ),
        Item(
            "000-figure-11",
            "Figure 11",
            "Medians of samples from two groups",
            figures_of_medians.sample_medians,
            figures_of_medians.draw_sample_medians,
            SEED,
        ),
        Item(
            "000-figure-12",
            "Figure 12",
            "Noise on medians of two groups",
            figures_of_medians.bimodal_noise,
            figures_of_medians.draw_noise_with_a_gap,
            SEED,
        ),
        Item("000-figure-13", "Figure 13", "Medians of two groups by rate", by_rate.bimodal_by_rate, by_rate.draw_bimodal, SEED),
        Item("000-table-1", "Table 1", "Where a sample gains", by_rate.table_one, by_rate.draw_table_one, SEED),
    ],
)
