"""Bun, Drechsler, Gaboardi, McMillan and Sarathy: Controlling privacy loss in sampling schemes."""

from __future__ import annotations

from ..item import Item, Paper
from . import basics, by_size, clusters, joint, other_designs, overview, random_sizes, register, rounding, sizes_from_data, strata

PAPER = Paper(
    "004",
    "Bun, Drechsler, Gaboardi, McMillan and Sarathy",
    "Controlling privacy loss in sampling schemes: an analysis of stratified and cluster sampling",
    [
        Item("004-figure-1", "Figure 1", "Designs made from data", overview.from_data_or_not, overview.draw_from_data),
        Item(
            "004-section-2-2", "Section 2.2", "A replaced record is two steps", basics.replaced_in_two_steps, basics.draw_replaced
        ),
        Item("004-section-2-3", "Section 2.3", "What sampling saves", basics.three_ways_to_draw, basics.draw_three),
        Item("004-theorem-2-2", "Theorem 2.2", "Simple random sampling", basics.simple_random_sampling, basics.draw_simple),
        Item("004-section-2-4", "Section 2.4", "How a sample is used", basics.following_the_linear_rule, basics.draw_following),
        Item(
            "004-theorem-3-1", "Theorem 3.1", "A random sample size", random_sizes.bounds_for_small_laws, random_sizes.draw_bounds
        ),
        Item("004-figure-2", "Figure 2", "A truncated normal size", random_sizes.truncated_gaussian, random_sizes.draw_gaussian),
        Item("004-section-4-1", "Section 4.1", "A size that moves", sizes_from_data.noisy_size, sizes_from_data.draw_noisy_size),
        Item(
            "004-proposition-4-1",
            "Proposition 4.1",
            "Tests of the sample's size",
            sizes_from_data.advantages,
            sizes_from_data.draw_advantages,
        ),
        Item(
            "004-proposition-4-2",
            "Proposition 4.2",
            "How close a private allocation can be",
            sizes_from_data.allocations_near_a_target,
            sizes_from_data.draw_allocations,
        ),
        Item("004-section-4-3", "Section 4.3", "Rounding to the nearest", rounding.nearest, rounding.draw_nearest),
        Item("004-theorem-4-3", "Theorem 4.3", "Randomised rounding", rounding.randomised, rounding.draw_randomised),
        Item("004-theorem-5-1", "Theorem 5.1", "Clusters, lower bound", clusters.lower_bound, clusters.draw_lower),
        Item("004-theorem-5-2", "Theorem 5.2", "Clusters, upper bound", clusters.upper_bound, clusters.draw_upper),
        Item("004-theorem-5-3", "Theorem 5.3", "A test for a cluster", clusters.test_for_a_cluster, clusters.draw_test),
        Item("004-section-5-2", "Section 5.2", "Two stages", clusters.units_inside_clusters, clusters.draw_units_inside),
        Item(
            "004-proposition-6-1",
            "Proposition 6.1",
            "Any design",
            other_designs.any_design,
            other_designs.draw_any,
            seed=4061,
        ),
        Item("004-section-6-1", "Section 6.1", "In proportion to size", by_size.methods, by_size.draw_methods),
        Item(
            "004-section-6-2",
            "Section 6.2",
            "One cluster in proportion to size",
            other_designs.one_cluster_by_size,
            other_designs.draw_one_cluster,
        ),
        Item("004-section-6-3", "Section 6.3", "Systematic sampling", other_designs.every_kth, other_designs.draw_every_kth),
        Item("004-definition-7-1", "Definition 7.1", "A loss for each stratum", strata.by_stratum, strata.draw_by_stratum),
        Item("004-section-7-1", "Section 7.1", "Optimal allocation with noise", strata.optimal, strata.draw_optimal),
        Item(
            "004-section-7-2",
            "Section 7.2",
            "Neyman's allocation, one company grows",
            register.one_company_grows,
            register.draw_company,
            seed=4072,
        ),
        Item("004-theorem-7-2", "Theorem 7.2", "Proportional allocation in strata", rounding.in_strata, rounding.draw_in_strata),
        Item("004-appendix-a", "Lemmas A.2 to A.4", "Indistinguishable laws", joint.facts, joint.draw_facts, seed=4101),
        Item("004-lemma-b-1", "Lemma B.1", "Samples of two sizes", sizes_from_data.two_sizes, sizes_from_data.draw_two_sizes),
        Item(
            "004-lemma-b-3",
            "Lemma B.3",
            "Log-Lipschitz weights",
            random_sizes.log_lipschitz,
            random_sizes.draw_lipschitz,
            seed=4103,
        ),
        Item(
            "004-appendix-e-1",
            "Appendix E.1",
            "A simulated register, and ways out",
            register.ways_out,
            register.draw_ways_out,
            seed=4072,
        ),
    ],
)
