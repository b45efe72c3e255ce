"""Bailie and Drechsler, item by item: the verdict on each, and the figures that decide it."""

import itertools
import math

import numpy as np
import pytest

import dpsurvey_papers as papers
from dpsurvey.errors import BadValue
from dpsurvey.privacy import all_settings
from dpsurvey.statistic import weighted_total_sensitivity
from dpsurvey_papers import Run, verdict_of
from dpsurvey_papers.whose_data import constant_weights

WRONG, IMPRECISE, RIGHT = "printed value is wrong", "imprecise as printed", "reproduced"
WORDS = {
    "002-example-2-3": IMPRECISE,
    "002-lemma-2-7": RIGHT,
    "002-lemma-2-11": RIGHT,
    "002-table-3-1": RIGHT,
    "002-theorem-4-1": IMPRECISE,
    "002-section-4-1": WRONG,
    "002-section-4-2": RIGHT,
    "002-section-4-3": RIGHT,
    "002-table-4-1": RIGHT,
    "002-table-4-2": RIGHT,
    "002-section-4-4": RIGHT,
    "002-theorem-4-3": WRONG,
    "002-section-4-5-2": WRONG,
    "002-equation-5-1": RIGHT,
    "002-section-5-1-2": WRONG,
    "002-section-5-1-3": IMPRECISE,
    "002-section-5-1-4": IMPRECISE,
    "002-section-5-2": RIGHT,
    "002-figure-5-1": RIGHT,
}


@pytest.fixture(scope="module")
def found():
    """What every item of the paper finds at quick effort."""
    return {item.id: item.compute(Run(quick=True, seed=item.seed)) for item in papers.select(["002"])}


def test_every_item_of_the_paper_is_listed_here():
    assert [item.id for item in papers.select(["002"])] == list(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_each_item_ends_with_the_verdict_that_was_vetted(name, found):
    assert verdict_of(papers.item(name), found[name]).word == WORDS[name]


@pytest.mark.parametrize("name", ["002-lemma-2-7", "002-lemma-2-11", "002-theorem-4-3", "002-section-4-5-2", "002-equation-5-1"])
def test_items_that_draw_at_random_end_alike_with_another_seed(name):
    item = papers.item(name)
    assert verdict_of(item, item.compute(Run(quick=True, seed=item.seed + 1))).word == WORDS[name]


def test_the_neighbour_form_guarantees_nothing_between_clusters_and_the_same_between_simple_samples(found):
    rows = {row["design"].split(",")[0]: row for row in found["002-example-2-3"].rows}
    assert (rows["cluster"]["lipschitz"], rows["cluster"]["neighbours"]) == (2.0, math.inf)
    assert (rows["systematic"]["lipschitz"], rows["systematic"]["neighbours"]) == (2.0, math.inf)
    assert (rows["simple random"]["neighbours"], rows["stratified"]["neighbours"]) == (2.0, 2.0)


def test_random_mechanisms_fall_on_both_sides_of_the_lemmas_so_that_a_failure_would_show(found):
    counts = {row["satisfies"]: row["mechanisms"] for row in found["002-lemma-2-7"].rows}
    assert counts["coarser only"] == 0
    assert min(counts["both"], counts["finer only"], counts["neither"]) > 10
    counts = {row["satisfies"]: row["mechanisms"] for row in found["002-lemma-2-11"].rows}
    assert counts["completion only"] == counts["original only"] == 0
    assert min(counts["both"], counts["neither"], counts["multiverses that were incomplete"]) > 10
    assert counts["not completed, without the triangle inequality"] > 10
    assert counts["completions that allow more, if 0 · ∞ = 0"] == 1


def test_with_replacement_the_worst_mechanism_loses_more_than_the_theorem_says(found):
    for row in found["002-theorem-4-1"].rows:
        assert row["without replacement"] == pytest.approx(row["theorem"], abs=1e-9)
        assert row["with replacement"] > row["theorem"] + 1e-3
    assert "1.3585" in found["002-theorem-4-1"].note
    assert "0.7926, is only the ε-part" in found["002-theorem-4-1"].note


def test_the_share_of_the_loss_that_is_left_by_design(found):
    share = {row["design"]: row["share"] for row in found["002-section-4-1"].rows}
    assert share["clusters of 50 units, ε = 0.01"] == pytest.approx(0.2311, abs=1e-4)
    assert share["clusters of 14 units, ε = 0.49"] > 0.9999
    assert share["PPS, confidential sizes, ε = 0.1"] == pytest.approx(1.7777, abs=1e-4)
    assert share["systematic, fixed order, unit inserted, base both"] == pytest.approx(5.20533, abs=1e-4)
    assert share["systematic, fixed order, unit inserted, base add-remove"] == pytest.approx(10.20533, abs=1e-4)
    words = {each.name: each.word for each in verdict_of(papers.item("002-section-4-1"), found["002-section-4-1"]).figures}
    assert words["small clusters"] == "checked"
    assert [words[name] for name in ("large clusters", "pps", "fixed order")] == [IMPRECISE, IMPRECISE, WRONG]


def test_weights_of_a_record_differ_between_comparable_data_sets_unless_one_frame_is_behind_them(found):
    for row in found["002-table-4-1"].rows:
        held = row["invariance"] in ("Frame invariance", "Target sample invariance")
        assert (row["N/n"], row["by size"]) == ((1.0, 1.0) if held else (1.5, 3.5))
        assert row["final, by response"] == 2.0


@pytest.mark.parametrize("setting", list(all_settings("add-remove")), ids=lambda each: f"{each.protect}-{each.given}")
def test_two_comparable_data_sets_without_a_common_frame_exist_just_where_weights_move(setting):
    """By pairs and their own frames, where the item goes by universes."""
    tiny, weigh = constant_weights.TINY, constant_weights.by_size
    sources = {}
    for frame in tiny.data_sets("frame"):
        later = setting.protect != "population"
        reached = tiny.drawn_from(frame, "frame", setting.protect) if later else ()
        for data in reached or [each for each in tiny.data_sets("population") if frame <= each]:
            sources.setdefault(data, set()).add(frame)
    moved = False
    for universe in tiny.universes(setting.protect, setting.given):
        common = set.intersection(*(sources[data] for data in universe))
        frames = set().union(*(sources[data] for data in universe))
        if not common:
            records = set().union(*frames)
            moved |= any(len({weigh(frame)[record] for frame in frames if record in frame}) > 1 for record in records)
    assert moved == (not setting.weights_fixed)


def test_holding_a_frame_fixed_at_the_frame_level_leaves_nothing_to_compare(found):
    assert found["002-section-5-1-2"].values["frame level, frame fixed"] == "no"
    assert "hold the population fixed at most" in found["002-section-5-1-2"].note
    assert "would leave 0 pairs" in found["002-section-5-1-2"].note


def test_rates_of_sampling_and_response_do_not_multiply_after_a_sample_of_fixed_size(found):
    losses = {row["stage"]: row["loss"] for row in found["002-section-4-2"].rows}
    assert losses["2 of 4, then response"] == pytest.approx(0.6201, abs=5e-5)
    assert losses["rates multiplied"] == pytest.approx(0.3574, abs=5e-5)


def test_the_printed_scales_break_most_random_multiverses_and_the_mended_ones_none(found):
    rows = {row["scales"]: row for row in found["002-theorem-4-3"].rows if row["panel"] == "kept"}
    assert rows["printed"]["broken"] > rows["printed"]["kept"]
    for name in ("connected", "global", "printed, complete and disjoint"):
        assert rows[name]["broken"] == 0
    ratios = [row["ratio"] for row in found["002-theorem-4-3"].rows if row["panel"] == "ratio" and row["scales"] == "printed"]
    assert max(ratios) > 30.0


def test_the_sensitivities_of_section_4_5_2(found):
    first = found["002-section-4-5-2"].rows[0]
    assert (first["all pairs"], first["bound"], first["one unit exchanged"]) == (27.0, 25.0, 25.0)
    for words in ("28, not 20", "69 is attained", "54 is enough", "44 is exact (reached)"):
        assert words in found["002-section-4-5-2"].note


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize(("weights", "bounds"), [((1.0, 6.0), (-1.0, 3.0)), ((2.0, 3.0), (1.0, 2.0)), ((1.0, 4.0), (-2.0, -1.0))])
def test_where_weights_add_up_to_the_same_no_pair_of_samples_moves_further_and_some_move_as_far(weights, bounds, n):
    chosen = np.array(list(itertools.product((weights[0], sum(weights) / 2.0, weights[1]), repeat=n)))
    same = np.isclose(chosen.sum(axis=1)[:, None], chosen.sum(axis=1)[None, :])
    moved = 0.0
    for x in itertools.product((bounds[0], sum(bounds) / 2.0, bounds[1]), repeat=n):
        for end in bounds:
            gaps = np.abs((chosen @ x)[:, None] - (chosen @ (end, *x[1:]))[None, :])
            moved = max(moved, float(gaps[same].max()))
    stated = weighted_total_sensitivity(weights, bounds, frame="free", n=n, weight_total="fixed")
    assert moved == pytest.approx(stated, rel=1e-12)
    assert stated <= weighted_total_sensitivity(weights, bounds, frame="free", n=n)


def test_a_total_of_weights_is_held_fixed_only_where_the_frame_is_free():
    with pytest.raises(BadValue, match="weight_total"):
        weighted_total_sensitivity((1.0, 6.0), (0.0, 1.0), weight_total="fixed")


@pytest.mark.parametrize(("name", "who"), [("002-section-5-1-3", "nosy neighbour"), ("002-section-5-1-4", "journalist")])
def test_whoever_knows_of_the_sample_moves_a_belief_by_epsilon_and_an_outsider_by_less(name, who, found):
    rows = found[name].rows
    for row in rows:
        assert row["ratio"] == pytest.approx(row["sharp"], rel=1e-12)
        assert row["ratio"] < math.exp(1.0 if row["who"] == who else 0.6202)
    limits = {each: math.log(max(row["ratio"] for row in rows if row["who"] == each)) for each in ("outsider", who)}
    assert limits == pytest.approx({"outsider": 0.6201145, who: 1.0}, abs=1e-6)


def test_composed_losses_of_one_sample_to_nine_digits(found):
    values = found["002-section-5-2"].values
    assert values["first"] == pytest.approx(0.1585650787, abs=1e-9)
    assert values["second"] == pytest.approx(0.4940287080, abs=1e-9)
    assert values["naive"] == pytest.approx(0.6525937868, abs=1e-9)
    assert values["true"] == pytest.approx(1.0676559447, abs=1e-9)


def test_samples_that_never_share_a_unit_lose_less_than_the_sum_and_the_same_sample_more(found):
    losses = {(row["loss of"].rsplit(", ")[-1], row["how"]): row["loss"] for row in found["002-section-5-2"].rows}
    naive = losses["drawn apart", "sum of the two (naive)"]
    assert losses["drawn apart", "right"] == pytest.approx(naive, abs=1e-9)
    assert losses["the same", "right"] == pytest.approx(0.9544585928, abs=1e-9)
    assert losses["never both", "right"] == pytest.approx(0.6201145070, abs=1e-9)
