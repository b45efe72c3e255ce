"""Bailie and Drechsler: Whose data is it anyway? Towards a formal treatment of differential privacy for surveys."""

from __future__ import annotations

from ..item import Item, Paper
from . import attackers, composition, constant_weights, framework, laplace, levels, sampling, stages, weights

PAPER = Paper(
    "002",
    "Bailie and Drechsler",
    "Whose data is it anyway? Towards a formal treatment of differential privacy for surveys",
    [
        Item("002-example-2-3", "Example 2.3", "Two forms of one guarantee", framework.two_forms, framework.draw_two_forms),
        Item(
            "002-lemma-2-7",
            "Lemma 2.7",
            "Coarser multiverses guarantee more",
            framework.coarser_multiverses,
            framework.draw_counts(
                "Lemma 2.7: coarser multiverses guarantee more", "no mechanism satisfies the coarser specification only"
            ),
            seed=20027,
        ),
        Item(
            "002-lemma-2-11",
            "Lemma 2.11",
            "Completing a multiverse changes nothing",
            framework.completions,
            framework.draw_counts(
                "Lemma 2.11: completing a multiverse changes nothing", "no mechanism satisfies one of the two only"
            ),
            seed=200211,
        ),
        Item("002-table-3-1", "Table 3.1", "Ten settings", levels.ten_settings, levels.draw_settings),
        Item("002-theorem-4-1", "Theorem 4.1", "Sampling without replacement", sampling.theorem_4_1, sampling.draw_theorem),
        Item("002-section-4-1", "Section 4.1", "What five kinds of design gain", sampling.bullets, sampling.draw_bullets),
        Item("002-section-4-2", "Section 4.2", "Coverage and response as stages", stages.stages_around, stages.draw_stages),
        Item("002-section-4-3", "Section 4.3", "A weighted count", weights.weighted_counts, weights.draw_counts_moved),
        Item(
            "002-table-4-1",
            "Table 4.1",
            "When weights are constants",
            constant_weights.table_4_1,
            constant_weights.draw_table_4_1,
        ),
        Item("002-table-4-2", "Table 4.2", "What amplifies at which level", stages.table_4_2, stages.draw_table_4_2),
        Item("002-section-4-4", "Section 4.4", "Strata reduce the sensitivity", weights.within_strata, weights.draw_strata),
        Item(
            "002-theorem-4-3",
            "Theorem 4.3",
            "A scale for each component",
            laplace.theorem_4_3,
            laplace.draw_theorem_4_3,
            seed=20043,
        ),
        Item(
            "002-section-4-5-2",
            "Section 4.5.2",
            "Sensitivity of a Horvitz-Thompson total",
            weights.horvitz_thompson,
            weights.draw_horvitz_thompson,
            seed=200452,
        ),
        Item(
            "002-equation-5-1",
            "Equation 5.1",
            "How far a belief can move",
            attackers.equation_5_1,
            attackers.draw_equation,
            seed=20051,
        ),
        Item(
            "002-section-5-1-2",
            "Section 5.1.2",
            "What holding a phase fixed takes away",
            levels.levels_and_invariance,
            levels.draw_levels,
        ),
        Item(
            "002-section-5-1-3",
            "Section 5.1.3",
            "The nosy neighbour",
            attackers.nosy_neighbour,
            attackers.draw_attacker("nosy neighbour", "Section 5.1.3"),
        ),
        Item(
            "002-section-5-1-4",
            "Section 5.1.4",
            "The journalist",
            attackers.journalist,
            attackers.draw_attacker("journalist", "Section 5.1.4"),
        ),
        Item(
            "002-section-5-2",
            "Section 5.2",
            "Two mechanisms on one sample",
            composition.one_sample_twice,
            composition.draw_example,
        ),
        Item("002-figure-5-1", "Figure 5.1", "Total loss of two mechanisms", composition.figure_5_1, composition.draw_figure_5_1),
    ],
)
