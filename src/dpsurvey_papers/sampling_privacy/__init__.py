"""Joy and Gerla: the paper that presents the Sampling Privacy mechanism for releasing personal data."""

from __future__ import annotations

from ..item import Item, Paper
from . import constructions, estimators, evaluation, introduction, marginal, released

PAPER = Paper(
    "003",
    "Joy and Gerla",
    "The Sampling Privacy mechanism for releasing personal data",
    [
        Item(
            "003-introduction",
            "Section 1",
            "Randomised response in the introduction",
            introduction.two_coins,
            introduction.draw_two_coins,
            seed=30101,
        ),
        Item(
            "003-section-1",
            "Section 1, goal",
            "Privacy that strengthens with the population",
            introduction.growing_population,
            introduction.draw_growing,
        ),
        Item(
            "003-section-3-2",
            "Section 3.2, Equation 1",
            "Sampling and noise alone",
            constructions.noise_alone,
            constructions.draw_noise_alone,
        ),
        Item(
            "003-section-3-3",
            "Section 3.3, Equations 2-5",
            "Sampling and plausible deniability",
            constructions.deniability,
            constructions.draw_deniability,
            seed=30303,
        ),
        Item("003-figure-1", "Figure 1", "Places as identifiers", constructions.cells, constructions.draw_cells),
        Item(
            "003-equations-6-11",
            "Equations 6-11",
            "Two rounds, binary",
            estimators.binary,
            estimators.draw_binary,
            seed=30611,
        ),
        Item(
            "003-equations-12-16",
            "Equations 12-16",
            "Two rounds, multiple values",
            estimators.multiple,
            estimators.draw_multiple,
            seed=31216,
        ),
        Item(
            "003-section-4-3",
            "Section 4.3",
            "Whether it satisfies differential privacy",
            released.satisfies,
            released.draw_satisfies,
            seed=30403,
        ),
        Item("003-equations-18-29", "Equations 18-29", "The loss of round two", marginal.round_two, marginal.draw_round_two),
        Item(
            "003-figure-2",
            "Figure 2",
            "Check-ins: ratio of the error bounds",
            evaluation.check_ins,
            evaluation.draw_check_ins,
        ),
        Item("003-figure-3", "Figure 3", "Leakage by coin", marginal.leakage_curves, marginal.draw_curves),
        Item(
            "003-figure-4",
            "Figure 4",
            "Breast cancer, 286 patients by tumour size",
            evaluation.tumours_in_patients,
            evaluation.draw_tumours_in_patients,
        ),
        Item(
            "003-figure-5",
            "Figure 5",
            "Breast cancer, 286 patients by age",
            evaluation.ages_in_patients,
            evaluation.draw_ages_in_patients,
        ),
        Item(
            "003-figure-6",
            "Figure 6",
            "Breast cancer, 10,000 respondents by tumour size",
            evaluation.tumours_in_ten_thousand,
            evaluation.draw_tumours_in_ten_thousand,
        ),
        Item(
            "003-figure-7",
            "Figure 7",
            "Breast cancer, 10,000 respondents by age",
            evaluation.ages_in_ten_thousand,
            evaluation.draw_ages_in_ten_thousand,
        ),
        Item("003-section-6", "Section 6", "Constant error and a loss at once", released.conclusion, released.draw_conclusion),
        Item("003-appendix-a", "Appendix A", "The loss of randomised response", marginal.appendix, marginal.draw_appendix),
    ],
)
