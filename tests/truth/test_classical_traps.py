"""The mistakes that other packages made with complex samples, each shown to be absent; and unbiasedness over all samples.

Every sample of a tiny population is enumerated: the mean of the estimated totals is the population's total, and the mean of
the estimated variances is the variance of the estimates. Wrong versions fail the same checks.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsurvey.classical import Sample
from dpsurvey.classical.quantile import sorted_quantile
from dpsurvey.errors import BadData, BadValue, NotFound

pytestmark = pytest.mark.quick

SMALL = np.array([3.0, 7.0, 1.0, 9.0, 4.0, 6.0])
# Two strata, with one cluster label in both; the third column is the unit's label in its cluster.
CLUSTERED = [
    ("a", 1, 1, 5.0), ("a", 1, 2, 2.0), ("a", 1, 3, 9.0), ("a", 2, 1, 4.0), ("a", 2, 2, 1.0), ("a", 3, 1, 7.0), ("a", 3, 2, 8.0),
    ("b", 1, 1, 3.0), ("b", 1, 2, 6.0), ("b", 2, 1, 2.0), ("b", 2, 2, 2.0), ("b", 2, 3, 11.0), ("b", 4, 1, 0.0), ("b", 4, 2, 5.0),
]  # fmt: skip


def table(rows):
    stratum, cluster, unit, y = zip(*rows, strict=True)
    return {"stratum": np.array(stratum), "cluster": np.array(cluster), "unit": np.array(unit), "y": np.array(y)}


def moments(outcomes):
    """(mean estimate, variance of the estimates, mean of the estimated variances) over (chance, estimate, variance)."""
    chance, estimate, variance = (np.array(each) for each in zip(*outcomes, strict=True))
    assert chance.sum() == pytest.approx(1.0, rel=1e-12)
    centre = chance @ estimate
    return centre, chance @ (estimate - centre) ** 2, chance @ variance


def outcome(chance, sample, **choices):
    found = sample.total("y", **choices)
    return chance, found.estimate, found.se**2


def simple_samples():
    picks = list(itertools.combinations(range(6), 3))
    return [(1.0 / len(picks), list(pick)) for pick in picks]


def two_stage_samples(take_all=False, strata=("a", "b")):
    """Two of three clusters in each stratum, and two units of each (or all): the chance, the rows and both sizes."""
    rows = [row for row in CLUSTERED if row[0] in strata]
    names = [sorted({row[1] for row in rows if row[0] == stratum}) for stratum in strata]
    first = [list(itertools.combinations(labels, 2)) for labels in names]
    for chosen in itertools.product(*first):
        clusters = [
            [row for row in rows if row[:2] == (stratum, c)]
            for stratum, labels in zip(strata, chosen, strict=True)
            for c in labels
        ]
        inner = [[tuple(cluster)] if take_all else list(itertools.combinations(cluster, 2)) for cluster in clusters]
        chance = 1.0 / math.prod(map(len, first)) / math.prod(map(len, inner))
        for units in itertools.product(*inner):
            sizes = [float(len(cluster)) for cluster, kept in zip(clusters, units, strict=True) for _ in kept]
            yield chance, table([row for kept in units for row in kept]), np.array(sizes)


@pytest.mark.parametrize("where", [None, np.array([True, False, True, True, False, True])])
def test_simple_random_totals_and_their_variances_are_unbiased_in_domains_too(where):
    truth = SMALL.sum() if where is None else SMALL[where].sum()
    found = [
        outcome(chance, Sample({"y": SMALL[pick]}, fpc=6), where=None if where is None else where[pick])
        for chance, pick in simple_samples()
        if where is None or where[pick].any()
    ]
    centre, variance, estimated = moments(found)
    assert (centre, estimated) == (pytest.approx(truth, rel=1e-12), pytest.approx(variance, rel=1e-12))
    without_fpc = [outcome(chance, Sample({"y": SMALL[pick]}, weights=2.0)) for chance, pick in simple_samples()]
    assert moments(without_fpc)[2] > 1.5 * moments(without_fpc)[1]


def test_filtering_a_domain_first_is_biased():
    """Trap 3: dropping the other rows forgets that the domain's sample size was random."""
    where = np.array([True, True, False, True, False, True])
    kept = [(chance, np.array(pick)[where[pick]]) for chance, pick in simple_samples()]
    assert min(len(pick) for _, pick in kept) == 1
    filtered, whole = [], []
    for chance, pick in simple_samples():
        inside = np.array(pick)[where[pick]]
        whole.append(outcome(chance, Sample({"y": SMALL[pick]}, fpc=6), where=where[pick]))
        thinned = Sample({"y": SMALL[inside]}, weights=2.0, fpc=6, lonely="certainty")
        filtered.append(outcome(chance, thinned))
    assert moments(whole)[2] == pytest.approx(moments(whole)[1], rel=1e-12)
    assert moments(filtered)[0] == pytest.approx(SMALL[where].sum(), rel=1e-12)
    assert moments(filtered)[2] < 0.75 * moments(filtered)[1]


def test_rows_with_missing_values_stay_in_the_design():
    """Trap 3: a psu whose values are all missing still counts, as a zero."""
    data = {"psu": [1, 1, 2, 3], "w": [1.0, 2.0, 1.5, 1.0], "y": [math.nan, None, 4.0, 8.0]}
    found = Sample(data, psu="psu", weights="w").mean("y", missing="drop")
    # Mean (6 + 8)/2.5 = 5.6; scores 1.5(4-5.6)/2.5 = -0.96 and 0.96, and a zero for the empty psu.
    assert found.estimate == pytest.approx(5.6, rel=1e-14)
    assert found.se**2 == pytest.approx(3.0 / 2.0 * (0.96**2 + 0.96**2), rel=1e-14)
    shrunk = Sample({key: cells[2:] for key, cells in data.items()}, psu="psu", weights="w").mean("y")
    assert shrunk.se**2 == pytest.approx(2.0 * 2.0 * 0.96**2, rel=1e-14)
    with pytest.raises(BadData, match="missing values"):
        Sample(data, psu="psu", weights="w").mean("y")


def test_stratified_totals_and_their_variances_are_unbiased():
    y, size = np.array([3.0, 7.0, 1.0, 9.0, 4.0, 6.0, 20.0]), np.array([4, 4, 4, 4, 3, 3, 3])
    pairs = list(itertools.product(itertools.combinations(range(4), 2), itertools.combinations(range(4, 7), 2)))
    found = []
    for one, other in pairs:
        pick = [*one, *other]
        found.append(outcome(1.0 / len(pairs), Sample({"y": y[pick], "N": size[pick]}, strata="N", fpc="N")))
    centre, variance, estimated = moments(found)
    assert (centre, estimated) == (pytest.approx(y.sum(), rel=1e-12), pytest.approx(variance, rel=1e-12))


def test_cluster_totals_and_their_variances_are_unbiased():
    drawn = list(two_stage_samples(take_all=True))
    found = [outcome(chance, Sample(rows, strata="stratum", psu="cluster", fpc=3)) for chance, rows, _ in drawn]
    centre, variance, estimated = moments(found)
    assert centre == pytest.approx(sum(row[3] for row in CLUSTERED), rel=1e-12)
    assert estimated == pytest.approx(variance, rel=1e-12)
    # Units that are treated as drawn one by one claim far too little.
    rowwise = [outcome(chance, Sample(rows, strata="stratum", weights=1.5)) for chance, rows, _ in drawn]
    assert abs(moments(rowwise)[2] / variance - 1.0) > 0.2


def test_two_stage_totals_and_their_variances_are_unbiased_though_labels_repeat():
    """Trap 5: cluster 1 is in both strata and unit 1 in every cluster; sizes belong to the cluster, not to its label."""
    drawn = list(two_stage_samples())
    found = [
        outcome(chance, Sample(rows, strata="stratum", psu="cluster", ssu="unit", fpc=(3, sizes)))
        for chance, rows, sizes in drawn
    ]
    centre, variance, estimated = moments(found)
    assert centre == pytest.approx(sum(row[3] for row in CLUSTERED), rel=1e-12)
    assert estimated == pytest.approx(variance, rel=1e-12)
    one_stage = []
    for chance, rows, sizes in drawn:
        one_stage.append(outcome(chance, Sample(rows, strata="stratum", psu="cluster", weights=1.5 * sizes / 2.0, fpc=3)))
    assert moments(one_stage)[0] == pytest.approx(centre, rel=1e-12)
    assert moments(one_stage)[2] < 0.9 * variance


def test_reused_labels_are_kept_apart_or_refused():
    """Trap 5: the same numbers whether labels are reused or not; and an error where the user says they are not."""
    _, rows, sizes = next(two_stage_samples())
    unique = {
        "stratum": rows["stratum"],
        "cluster": np.char.add(rows["stratum"], rows["cluster"].astype(str)),
        "unit": np.arange(len(rows["y"])),
        "y": rows["y"],
    }
    names = {"strata": "stratum", "psu": "cluster", "ssu": "unit", "fpc": (3, sizes)}
    assert Sample(rows, **names).total("y").se == pytest.approx(Sample(unique, **names, nest=False).total("y").se, rel=1e-14)
    with pytest.raises(BadData, match="several strata"):
        Sample(rows, **names, nest=False)
    pooled = Sample(rows, psu="cluster", weights=1.0).df
    assert (Sample(rows, **names).df, pooled) == (2.0, 1.0)


def test_draws_with_replacement_are_unbiased_without_fpc():
    draws = list(itertools.product(range(4), repeat=3))
    found = [outcome(1.0 / len(draws), Sample({"y": SMALL[list(draw)]}, weights=4.0 / 3.0)) for draw in draws]
    centre, variance, estimated = moments(found)
    assert (centre, estimated) == (pytest.approx(SMALL[:4].sum(), rel=1e-12), pytest.approx(variance, rel=1e-12))


def test_poisson_samples_are_unbiased():
    pi = np.array([0.2, 0.5, 0.9, 0.4, 1.0])
    found = []
    for taken in itertools.product((False, True), repeat=5):
        mask = np.array(taken)
        chance = float(np.prod(np.where(mask, pi, 1.0 - pi)))
        if mask.any():
            found.append(outcome(chance, Sample({"y": SMALL[:5][mask], "p": pi[mask]}, probs="p", sampling="poisson")))
    centre, variance, estimated = moments(found)  # the last unit is certain, so the empty sample has no chance
    assert (centre, estimated) == (pytest.approx(SMALL[:5].sum(), rel=1e-12), pytest.approx(variance, rel=1e-12))


@pytest.mark.parametrize("sampling", ["horvitz-thompson", "yates-grundy"])
def test_unequal_probabilities_of_fixed_size_are_unbiased(sampling):
    pairs = list(itertools.combinations(range(4), 2))
    law = np.array([0.1, 0.3, 0.05, 0.25, 0.2, 0.1])
    joint = np.zeros((4, 4))
    for chance, (i, j) in zip(law, pairs, strict=True):
        joint[i, j] = joint[j, i] = chance
    np.fill_diagonal(joint, joint.sum(axis=1))
    estimates, variances = [], []
    for i, j in pairs:
        here = joint[np.ix_([i, j], [i, j])]
        sample = Sample({"y": SMALL[[i, j]], "p": np.diagonal(here)}, probs="p", sampling=sampling, joint=here)
        estimates.append(sample.total("y").estimate)
        variances.append(sample._drawn.variance(SMALL[[i, j]] / np.diagonal(here)))
    centre, variance, estimated = moments(zip(law, estimates, variances, strict=True))
    assert (centre, estimated) == (pytest.approx(SMALL[:4].sum(), rel=1e-12), pytest.approx(variance, rel=1e-12))


def test_formulas_without_joint_probabilities_agree_with_simple_random_sampling():
    y = np.array([3.0, 8.0, 1.0, 9.0])
    simple = Sample({"y": y}, fpc=10).total("y").se
    for sampling in ("brewer", "deville", "overton"):
        assert Sample({"y": y}, probs=0.4, sampling=sampling).total("y").se == pytest.approx(simple, rel=1e-14)
    assert Sample({"y": y}, probs=0.4, sampling="hartley-rao", square_sum=0.4).total("y").se == pytest.approx(simple, rel=1e-14)


LONELY = {"stratum": [1, 1, 2, 3, 3, 3], "y": [1.0, 3.0, 10.0, 2.0, 4.0, 9.0], "w": [2.0, 2.0, 3.0, 1.0, 1.0, 1.0]}


def test_a_stratum_with_one_unit_is_refused_unless_a_rule_is_named():
    """Trap 4: by default nothing contributes a silent zero."""
    with pytest.raises(BadData, match="one sampled unit"):
        Sample(LONELY, strata="stratum", weights="w")
    # Weighted values 2, 6 | 30 | 2, 4, 9: parts 2(4 + 4) = 16 and 3/2 ((2-5)^2 + 1 + 16) = 39.
    expected = {"certainty": 55.0, "adjust": 55.0 + (30.0 - 53.0 / 6.0) ** 2, "average": 55.0 * 3.0 / 2.0}
    for rule, variance in expected.items():
        assert Sample(LONELY, strata="stratum", weights="w", lonely=rule).total("y").se ** 2 == pytest.approx(variance, rel=1e-13)
    # For a mean the scores add up to 0, so the grand mean is 0: mean 53/10, scores (4 + 4 - ...)/10.
    scores = np.array(LONELY["w"]) * (np.array(LONELY["y"]) - 5.3) / 10.0
    by_hand = 2.0 * scores[:2].var() * 2.0 + scores[2] ** 2 + 1.5 * scores[3:].var() * 3.0
    assert Sample(LONELY, strata="stratum", weights="w", lonely="adjust").mean("y").se ** 2 == pytest.approx(by_hand, rel=1e-13)


def test_a_unit_that_is_its_whole_stratum_is_certain_and_not_lonely():
    found = Sample(LONELY, strata="stratum", weights="w", fpc=[4, 4, 1, 3, 3, 3])
    assert found.total("y").se ** 2 == pytest.approx(0.5 * 16.0, rel=1e-14)


def test_a_lonely_second_stage_unit_is_refused_too():
    data = {"psu": [1, 1, 2], "ssu": [1, 2, 1], "n2": [4, 4, 5], "y": [1.0, 2.0, 3.0]}
    with pytest.raises(BadData, match="one sampled unit"):
        Sample(data, psu="psu", ssu="ssu", fpc=(6, "n2"))
    assert Sample(data | {"n2": [4, 4, 1]}, psu="psu", ssu="ssu", fpc=(6, "n2")).total("y").se > 0.0


def test_design_effects_name_their_reference_and_reject_rescaled_weights():
    """Trap 6: one for a simple random sample, 1 - f against draws with replacement, and none where N is not known."""
    found = Sample({"y": SMALL}, fpc=24)
    for result in (found.mean("y"), found.total("y")):
        assert (result.deff, result.deff_replace) == (pytest.approx(1.0, rel=1e-14), pytest.approx(0.75, rel=1e-14))
    rescaled = Sample({"y": SMALL}, weights=1.0).mean("y")
    assert math.isnan(rescaled.deff)
    assert rescaled.deff_replace == pytest.approx(1.0, rel=1e-14)


def test_a_proportion_and_its_error_are_on_one_scale():
    """Trap 7: the standard error of a share, in the units of the share."""
    data = {"colour": np.repeat(["red", "blue", "green"], [30, 50, 20])}
    found = Sample(data, fpc=400).proportion("colour", "red", method="mean")
    assert found.estimate == pytest.approx(0.3, rel=1e-14)
    assert found.se**2 == pytest.approx(0.75 * 0.3 * 0.7 / 99.0, rel=1e-13)
    parts = [Sample(data, fpc=400).proportion("colour", colour) for colour in ("red", "blue", "green")]
    assert sum(part.estimate for part in parts) == pytest.approx(1.0, rel=1e-14)
    assert all(0.0 <= part.ci_low < part.estimate < part.ci_high <= 1.0 for part in parts)


GROUPED = {
    "y": np.array([10.0, 12.0, 11.0, 30.0, 33.0, 31.0, 50.0, 52.0]),
    "g": np.array(["a", "a", "a", "b", "b", "b", "c", "c"]),
    "h": np.array([0, 1, 0, 1, 1, 0, 0, 1]),
    "w": np.array([5.0, 7.0, 6.0, 4.0, 9.0, 5.0, 6.0, 8.0]),
}
KNOWN = {"a": 12.0, "b": 24.0, "c": 24.0}


def test_post_stratified_variances_are_those_of_the_residuals():
    """Trap 8: groups explain nearly all of y; weights taken as fixed would claim many times the error."""
    found = Sample(GROUPED, fpc=60).post_stratified("g", KNOWN)
    weight = np.array([4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 12.0, 12.0])
    assert found.weights == pytest.approx(weight, rel=1e-14)
    residual = weight * (GROUPED["y"] - np.repeat([11.0, 94.0 / 3.0, 51.0], [3, 3, 2]))
    by_hand = (1.0 - 8.0 / 60.0) * 8.0 / 7.0 * float(residual @ residual)
    assert found.total("y").se ** 2 == pytest.approx(by_hand, rel=1e-13)
    assert found.mean("y").se ** 2 == pytest.approx(by_hand / 60.0**2, rel=1e-13)
    fixed = Sample(GROUPED | {"v": weight}, weights="v", fpc=60).total("y").se
    assert fixed > 10.0 * found.total("y").se
    # What is known has no error.
    assert found.total(np.ones(8), where=("g", "b")).estimate == pytest.approx(24.0, rel=1e-14)
    assert found.total(np.ones(8), where=("g", "b")).se == pytest.approx(0.0, abs=1e-12)


def test_the_linearised_values_are_the_derivatives_by_the_weights():
    """Trap 8: w_k (y_k - fit) is d_k times the derivative by d_k, also when one post-stratification follows another."""

    def final(weights):
        return Sample(GROUPED, weights=weights).post_stratified("g", KNOWN).post_stratified("h", {0: 25.0, 1: 35.0})

    base = GROUPED["w"]
    slopes = []
    for k in range(8):
        ends = [final(base * np.where(np.arange(8) == k, 1.0 + step, 1.0)).total("y").estimate for step in (1e-5, -1e-5)]
        slopes.append((ends[0] - ends[1]) / 2e-5)
    drawn = final(base)._drawn
    expanded = drawn.weights * GROUPED["y"]
    forwards = expanded
    for calibration in reversed(drawn.calibrations):
        expanded = calibration.residual(expanded)
    for calibration in drawn.calibrations:
        forwards = calibration.residual(forwards)
    assert expanded == pytest.approx(slopes, abs=1e-6)
    assert np.abs(forwards - slopes).max() > 1.0


def test_raked_weights_meet_their_margins_and_leave_the_residuals_of_a_weighted_regression():
    margins = {"g": KNOWN, "h": {0: 25.0, 1: 35.0}}
    found = Sample(GROUPED, weights="w").raked(margins)
    for column, totals in margins.items():
        for value, total in totals.items():  # type: ignore[attr-defined]
            known = found.total(np.ones(8), where=(column, value))
            assert (known.estimate, known.se) == (pytest.approx(total, rel=1e-11), pytest.approx(0.0, abs=1e-9))
    # The regression, solved with every indicator written out.
    design = np.column_stack([GROUPED["g"] == "a", GROUPED["g"] == "b", GROUPED["g"] == "c", GROUPED["h"] == 1]).astype(float)
    root = np.sqrt(GROUPED["w"])
    slope = np.linalg.lstsq(design * root[:, None], GROUPED["y"] * root, rcond=None)[0]
    residual = found.weights * (GROUPED["y"] - design @ slope)
    by_hand = 8.0 / 7.0 * float(((residual - residual.mean()) ** 2).sum())
    assert found.total("y").se ** 2 == pytest.approx(by_hand, rel=1e-10)
    # Raking multiplies weights by one factor for each margin, so log(after/before) has no interaction.
    moved = np.log(found.weights / GROUPED["w"])
    assert np.abs(moved - design @ np.linalg.lstsq(design, moved, rcond=None)[0]).max() < 1e-10
    alone = Sample(GROUPED, weights="w").raked({"g": KNOWN}).total("y").se
    assert alone == pytest.approx(Sample(GROUPED, weights="w").post_stratified("g", KNOWN).total("y").se, rel=1e-12)


def test_post_stratification_by_two_columns_crosses_them():
    cells = {(g, h): 10.0 for g in "abc" for h in (0, 1)}
    found = Sample(GROUPED, weights="w").post_stratified(("g", "h"), cells)
    assert found.total(np.ones(8), where=(GROUPED["g"] == "b") & (GROUPED["h"] == 1)).estimate == pytest.approx(10.0, rel=1e-14)


def test_residual_variances_are_near_the_truth_over_all_samples_and_those_of_fixed_weights_are_not():
    """Over all samples of a small population the residual variance is near the truth, the one of fixed weights is not."""
    y = np.array([1.0, 2.0, 1.5, 2.5, 11.0, 12.0, 10.0, 13.0])
    group = np.repeat([0, 1], 4)
    estimates, residual, fixed = [], [], []
    for pick in itertools.combinations(range(8), 5):
        rows = {"y": y[list(pick)], "g": group[list(pick)]}
        if len(set(rows["g"].tolist())) == 2:
            found = Sample(rows, fpc=8).post_stratified("g", {0: 4.0, 1: 4.0})
            estimates.append(found.total("y").estimate)
            residual.append(found.total("y").se ** 2)
            fixed.append(Sample(rows | {"w": found.weights}, weights="w", fpc=8).total("y").se ** 2)
    assert 0.5 < np.mean(residual) / np.var(estimates) < 1.5
    assert np.mean(fixed) / np.var(estimates) > 10.0


TABLES = {
    "dict": lambda data: data,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_numbers(kind):
    plain = {"s": ["u", "u", "v", "v"], "w": [1.0, 2.0, 3.0, 4.0], "y": [1.0, None, 3.0, 5.0], "c": ["x", "y", "x", None]}
    sample = Sample(TABLES[kind](plain), strata="s", weights="w")
    found = sample.mean("y", missing="drop")
    assert found.estimate == pytest.approx(30.0 / 8.0, rel=1e-15)
    assert found.se == pytest.approx(Sample(plain, strata="s", weights="w").mean("y", missing="drop").se, rel=1e-15)
    share = sample.proportion("c", "x", missing="drop", method="mean")
    assert share.estimate == pytest.approx(4.0 / 6.0, rel=1e-15)
    assert set(sample.by("c")) == {"x", "y"}
    assert sample.within(("c", "x")).total("y").estimate == pytest.approx(10.0, rel=1e-15)


def weighted_quantile(y, weights, q, rule="math"):
    order = np.argsort(y)
    return sorted_quantile(y[order], weights[order], q, rule)


@pytest.mark.parametrize(
    ("rule", "method"),
    [
        ("math", "inverted_cdf"),
        ("school", "averaged_inverted_cdf"),
        ("hf4", "interpolated_inverted_cdf"),
        ("hf5", "hazen"),
        ("hf6", "weibull"),
        ("hf7", "linear"),
        ("hf8", "median_unbiased"),
        ("hf9", "normal_unbiased"),
    ],
)
def test_quantile_rules_with_equal_weights_are_the_named_ones(rule, method):
    y = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.0, 3.5, 8.0, 7.0])
    for q in (0.05, 0.1, 0.25, 0.3, 0.5, 0.55, 0.75, 0.9, 0.97):
        assert weighted_quantile(y, np.full(10, 7.0), q, rule) == pytest.approx(
            float(np.quantile(y, q, method=method)), rel=1e-12
        )


def test_a_weight_is_as_good_as_copies_for_the_inverse_distribution_function():
    y, copies = np.array([3.0, 1.0, 4.0, 9.0]), np.array([2, 5, 1, 4])
    for q in np.linspace(0.01, 0.99, 99):
        assert weighted_quantile(y, copies * 0.3, float(q)) == weighted_quantile(np.repeat(y, copies), np.ones(12), float(q))


def test_the_exact_likelihood_interval_solves_its_equation_and_r_reads_it_from_a_coarse_table():
    data = {"b": np.repeat([0.0, 1.0], [70, 30])}
    sample = Sample(data, fpc=10_000)
    exact, table_value = (sample.proportion("b", method=method) for method in ("exact-likelihood", "likelihood"))
    t_squared = ((sample.mean("b").ci_high - 0.3) / sample.mean("b").se) ** 2
    effective = 0.21 / exact.se**2
    for q in (exact.ci_low, exact.ci_high):
        distance = 0.3 * math.log(0.3 / q) + 0.7 * math.log(0.7 / (1.0 - q))
        assert 2.0 * effective * distance == pytest.approx(t_squared * 100.0 / 99.0, rel=1e-10)
    ends = [(exact.ci_low, table_value.ci_low), (exact.ci_high, table_value.ci_high)]
    assert all(1e-9 < abs(one / other - 1.0) < 1e-3 for one, other in ends)


def test_a_share_of_nothing_has_the_intervals_that_are_defined_for_it():
    sample = Sample({"b": np.zeros(50)}, fpc=500)
    for method in ("beta", "wilson"):
        found = sample.proportion("b", method=method)
        assert found.ci_low == pytest.approx(0.0, abs=1e-12)
        assert 0.05 < found.ci_high < 0.1
    for method in ("logit", "asin", "likelihood", "exact-likelihood"):
        assert math.isnan(sample.proportion("b", method=method).ci_high)


@given(st.lists(st.floats(-100.0, 100.0), min_size=4, max_size=12), st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_means_ignore_the_scale_of_weights_and_follow_shifts(y, scale, shift):
    weights = 1.0 + np.arange(len(y))
    data = {"y": np.array(y), "s": np.arange(len(y)) % 2, "w": weights, "v": weights * scale}
    one = Sample(data, strata="s", weights="w").mean("y")
    other = Sample(data, strata="s", weights="v").mean(data["y"] + shift)
    assert other.estimate == pytest.approx(one.estimate + shift, abs=1e-9)
    assert other.se == pytest.approx(one.se, rel=1e-9, abs=1e-9)
    assert one.cv == pytest.approx(one.se / one.estimate) if one.estimate else math.isnan(one.cv)


FOUR = {
    "y": [1.0, 2.0, 3.0, 4.0],
    "s": ["a", "a", "b", "b"],
    "w": [1.0, 2.0, 2.0, 1.0],
    "p": [0.5, 0.2, 0.1, 0.4],
    "t": [1, 1, 2, 2],
}
WRONG = [
    (NotFound, lambda: Sample(FOUR, strata="stratum", weights="w"), "name a column of the data"),
    (NotFound, lambda: Sample(FOUR, weights="w").mean("z"), "no column"),
    (BadValue, lambda: Sample(FOUR), "weights are unknown"),
    (BadValue, lambda: Sample(FOUR, weights="w", probs="p"), "both weights and probs"),
    (BadValue, lambda: Sample(FOUR, weights="w", ssu="s"), "psu"),
    (BadValue, lambda: Sample(FOUR, psu="s", ssu="y", fpc=5), "do not match"),
    (BadValue, lambda: Sample(FOUR, weights=[1.0, 2.0]), "each row"),
    (BadValue, lambda: Sample(FOUR, weights="w", lonely="hide"), "lonely"),
    (BadValue, lambda: Sample(FOUR, probs="p", sampling="guess"), "unknown"),
    (BadValue, lambda: Sample(FOUR, probs="p", sampling="yates-grundy"), "joint"),
    (BadValue, lambda: Sample(FOUR, weights="w", sampling="poisson"), "probs"),
    (BadData, lambda: Sample(FOUR, fpc=3), "smaller than the sample"),
    (BadData, lambda: Sample(FOUR, fpc="w"), "varies within a stratum"),
    (BadData, lambda: Sample(FOUR, weights=[1.0, 0.0, 1.0, 1.0]), "positive"),
    (BadData, lambda: Sample(FOUR, probs=[1.5, 0.1, 0.1, 0.1]), "above 1"),
    (BadData, lambda: Sample(FOUR | {"s": ["a", None, "b", "b"]}, strata="s", weights="w"), "missing values"),
    (BadData, lambda: Sample(FOUR, weights="w").mean("y", where=("s", "z")), "no rows"),
    (BadData, lambda: Sample(FOUR, weights="w").mean("s"), "not numbers"),
    (BadData, lambda: Sample(FOUR, weights="w").proportion("y"), "more than 0 and 1"),
    (BadData, lambda: Sample(FOUR, weights="w").ratio("y", np.zeros(4)), "zero"),
    (BadValue, lambda: Sample(FOUR, weights="w").mean("y", where=[1, 0, 1, 1]), "boolean"),
    (BadValue, lambda: Sample(FOUR, weights="w").mean("y", missing="zero"), "missing"),
    (BadValue, lambda: Sample(FOUR, weights="w").mean("y", level=95), "level"),
    (BadValue, lambda: Sample(FOUR, weights="w").quantile("y", 1.0), "between 0 and 1"),
    (BadValue, lambda: Sample(FOUR, weights="w").quantile("y", 0.5, rule="best"), "rule"),
    (BadValue, lambda: Sample(FOUR, weights="w").proportion("s", "a", method="best"), "method"),
    (BadData, lambda: Sample(FOUR, weights="w").post_stratified("s", {"a": 5.0}), "no total"),
    (BadData, lambda: Sample(FOUR, weights="w").post_stratified("s", {"a": 5.0, "b": 5.0, "c": 1.0}), "no rows"),
    (BadValue, lambda: Sample(FOUR, weights="w").raked({"s": {"a": 5.0, "b": 5.0}, "w": {1.0: 5.0, 2.0: 6.0}}), "contradict"),
    (BadData, lambda: Sample(FOUR, weights="w").raked({"s": {"a": 5.0, "b": 5.0}, "t": {1: 6.0, 2: 4.0}}), "converge"),
    (BadValue, lambda: Sample(FOUR, weights="w").within(("s", "a")).raked({"s": {"a": 5.0, "b": 5.0}}), "domain"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "says"), WRONG)
def test_what_is_wrong_is_said(error, call, says):
    with pytest.raises(error, match=says) as raised:
        call()
    # Once rows were read, a message tells no value, count or category of them.
    if error is BadData:
        said = str(raised.value).replace("0 and 1", "").replace("above 1", "")
        assert not raised.value.given
        assert not any(sign.isdigit() for sign in said)
