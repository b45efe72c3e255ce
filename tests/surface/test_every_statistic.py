"""Every statistic under every kind of design: planned, released, saved, computed again; at a huge epsilon it is classical."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
from dpsurvey.classical import Sample
from dpsurvey.errors import BadValue, NoGuarantee
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

REGIONS, SEXES = {"north": 600, "south": 420, "island": 180}, ("female", "male")
SIZE, CLUSTERS = sum(REGIONS.values()), {"north": 30, "south": 21, "island": 9}
BOUNDS, LEAF = (0.0, 100.0), 100.0 / 256
WOMEN_AND_MEN = {"female": 530, "male": 670}
WEIGHTS = (1.5, 12.0)
OWN = {"north": (0, 70), "south": (10, 90), "island": (0, 100)}
KEY = ds.Key(bytes(range(1, 33)))
# About 30 charges share it. No number is further from the classical one than 17 standard deviations of its noise by chance, which
# happens to one of the 900 with probability 900 exp(-17 sqrt 2) = 3e-8; and that is less than a hundredth of its range.
HUGE, FAR = 500_000.0, 17.0


def people():
    """1,200 units in 60 clusters of 20 inside three regions; income depends on size and cluster, and may leave its bounds."""
    rng = np.random.default_rng(3)
    place = np.arange(SIZE)
    size = 1.0 + rng.integers(0, 4, SIZE)
    income = 15.0 + 12.0 * size + np.repeat(rng.normal(0, 10, 60), 20) + rng.normal(0, 12, SIZE)
    rows = pd.DataFrame(
        {
            "id": [f"u{number:04d}" for number in rng.permutation(SIZE)],
            "region": np.repeat(list(REGIONS), list(REGIONS.values())),
            "sex": rng.choice(SEXES, SIZE, p=[0.45, 0.55]),
            "psu": [f"c{number:02d}" for number in place // 20],
            "size": size,
            "rate": np.array([0.0, 0.15, 0.2, 0.3, 0.5])[size.astype(int)],
            "income": income,
            "spent": np.clip(0.6 * income + rng.normal(0, 5, SIZE), 0.0, None),
            "employed": rng.random(SIZE) < 0.6,
            "asked": np.where(rng.random(SIZE) < 0.15, np.nan, income + 3.0),
        }
    )
    rows["cluster_size"] = rows.groupby("psu")["size"].transform("sum")
    return rows


def in_strata(**within):
    return ds.stratified("region", within=within)


def clusters(label, n):
    return ds.cluster("psu", ds.srs(n=n), clusters=CLUSTERS[label])


DESIGNS = {
    "srs": ds.srs(n=300),
    "poisson": ds.poisson(0.25),
    "stratified": in_strata(north=ds.srs(n=120), south=ds.srs(n=100), island=ds.srs(n=80)),
    "stratified poisson": in_strata(north=ds.poisson(0.2), south=ds.poisson(0.25), island=ds.poisson(0.5)),
    "strata of several kinds": in_strata(north=ds.srs(n=100), south=ds.poisson(0.3), island=ds.systematic(n=60)),
    "systematic": ds.systematic(n=300),
    "proportional": ds.proportional(0.25),
    "poisson-by": ds.poisson_by("rate", at_most=0.5),
    "pps": ds.pps("size", n=300),
    "with-replacement": ds.with_replacement(n=300),
    "cluster": ds.cluster("psu", ds.srs(n=20), clusters=60),
    "pps of clusters": ds.cluster("psu", ds.pps("cluster_size", n=20)),
    "strata of clusters": in_strata(north=clusters("north", 12), south=clusters("south", 8), island=clusters("island", 6)),
    "stages": ds.stages(ds.cluster("psu", ds.srs(n=20), clusters=60), ds.srs(n=8)),
}
# Columns of a file of 300 units drawn in proportion to their size, as another office would have collected it.
FILES = {
    "file with weights": {"weights": "w", "weights_are": "design", "weight_range": WEIGHTS},
    "file with clusters": {
        "weights": "w",
        "weights_are": "design",
        "strata": "region",
        "psu": "psu",
        "psus": 4,
        "weight_range": WEIGHTS,
    },
    "file of public size": {"n": 300},
}
OWN_WEIGHTS = {"poisson-by", "pps", "pps of clusters", "stages", "file with weights", "file with clusters"}
OF_CLUSTERS = {"cluster", "pps of clusters", "strata of clusters", "stages", "file with clusters"}
RANKED = {"srs", "stratified", "systematic", "with-replacement", "file of public size"}


def clipped(found, column="income", bounds=BOUNDS):
    return found.rows[column].clip(*bounds).to_numpy()


def among(found, **labels):
    return np.logical_and.reduce([found.rows[column].to_numpy() == label for column, label in labels.items()])


def means(found, y, column=None):
    if column is None:
        return [found.sample.mean(y).estimate]
    labels = found.labels[column]
    return [found.sample.mean(y, where=among(found, **{column: label})).estimate for label in labels]


def total(found, y, column=None):
    """Declared sizes times means; where the size of a group is not declared, the frame size times the share of the whole."""
    if column is None:
        return [SIZE * found.sample.mean(y).estimate]
    if column == "region":
        return [REGIONS[label] * each for label, each in zip(found.labels[column], means(found, y, column), strict=True)]
    return [SIZE * found.sample.mean(y * among(found, **{column: label})).estimate for label in found.labels[column]]


def own_bounds(found):
    low, high = (found.rows["region"].map({label: pair[end] for label, pair in OWN.items()}).to_numpy() for end in (0, 1))
    return np.clip(found.rows["income"].to_numpy(), low, high)


def other_weights(found, weights):
    return [Sample({"y": clipped(found)}, weights=weights).mean("y").estimate]


def shrunk(found):
    """Half of each weight, and half of the middle: the mean weight where n is public, else the middle of the declared range."""
    middle = 4.0 if found.name == "pps" else np.sqrt(WEIGHTS[0] * WEIGHTS[1])
    return other_weights(found, 0.5 * found.weights + 0.5 * middle)


def shares(found, *columns):
    """Counts of a table: the cells, then margins with fewer columns; that of the regions, whose sizes are declared, is those."""
    kept = [columns, *((column,) for column in columns if len(columns) > 1)]
    cells = [
        among(found, **dict(zip(each, labels, strict=True)))
        for each in kept
        for labels in pd.MultiIndex.from_product([found.labels[column] for column in each])
    ]
    counts = [SIZE * found.sample.mean(cell * 1.0).estimate for cell in cells]
    if columns != ("region", "sex"):
        return counts
    before = len(REGIONS) * len(SEXES)
    return [*counts[:before], *(REGIONS[region] for region in found.labels["region"]), *counts[before + len(REGIONS) :]]


def employed_by_region_and_sex(found):
    return [
        found.sample.mean(found.rows["employed"] * 1.0, where=among(found, region=region, sex=sex)).estimate
        for region in found.labels["region"]
        for sex in found.labels["sex"]
    ]


def filled(found):
    """Missing answers get the weighted mean of the answers of their sex."""
    y, absent = clipped(found, "asked"), found.rows["asked"].isna().to_numpy()
    for sex in SEXES:
        here = among(found, sex=sex)
        answered = here & ~absent
        y = np.where(here & absent, np.average(y[answered], weights=found.weights[answered]), y)
    return means(found, y)


def regressed(found):
    y, x = clipped(found), found.rows["size"].to_numpy()
    slope, constant = np.polyfit(x, y, 1, w=np.sqrt(found.weights))
    return [constant + slope * 2.5]


def around(found, y, q, mask, leaf):
    """Between the quantiles of 1 % less and 1 % more, one leaf further: a quantile jumps where the share below it is just q."""
    low, high = (found.sample.quantile(y, share, where=mask).estimate for share in (q - 0.01, q + 0.01))
    return low - leaf, high + leaf


def quantiles(found, q, column=None):
    labels = [] if column is None else found.labels[column]
    masks = [among(found, **{column: label}) for label in labels] or [None]
    return [around(found, clipped(found), q, mask, LEAF) for mask in masks]


def clipping(found):
    return [around(found, found.rows["income"].to_numpy(), q, None, 2000 / 256) for q in (0.05, 0.95)]


MEAN = ds.mean("income", bounds=BOUNDS)
HALF_OF_WOMEN = {"sex": "female", "income": (0, 45)}


def answers(name, statistic, expected, *, unit=100.0, within=1e-3, only=None, but=frozenset()):
    """One line of the table: what is asked, what the classical answer is, and how close the two must be, in units."""
    return SimpleNamespace(name=name, statistic=statistic, expected=expected, within=within * unit, only=only, but=but)


WHOLE = 100.0 * SIZE
TABLE = [
    answers("mean", MEAN, lambda found: means(found, clipped(found))),
    answers("mean by sex", ds.mean("income", bounds=BOUNDS, by="sex"), lambda found: means(found, clipped(found), "sex")),
    answers(
        "mean by region", ds.mean("income", bounds=BOUNDS, by="region"), lambda found: means(found, clipped(found), "region")
    ),
    answers(
        "mean of a domain",
        ds.mean("spent", bounds=(0, 60), where=HALF_OF_WOMEN),
        lambda found: [
            found.sample.mean(
                clipped(found, "spent", (0, 60)),
                where=among(found, sex="female") & found.rows["income"].between(0, 45).to_numpy(),
            ).estimate
        ],
    ),
    answers("mean, bounds by region", ds.mean("income", bounds=OWN), lambda found: means(found, own_bounds(found))),
    answers(
        "mean by region, bounds by region",
        ds.mean("income", bounds=OWN, by="region"),
        lambda found: means(found, own_bounds(found), "region"),
    ),
    answers(
        "mean, missing answers are 50",
        ds.mean("asked", bounds=BOUNDS, missing=50),
        lambda found: means(found, np.nan_to_num(clipped(found, "asked"), nan=50.0)),
    ),
    answers(
        "mean, Horvitz-Thompson",
        ds.mean("income", bounds=BOUNDS, estimator="horvitz-thompson"),
        lambda found: [found.sample.total(clipped(found)).estimate / SIZE],
        but=OF_CLUSTERS,
    ),
    answers(
        "mean, weights trimmed",
        ds.mean("income", bounds=BOUNDS, trim=3),
        lambda found: other_weights(found, np.minimum(found.weights, 3.0)),
        only=OWN_WEIGHTS - OF_CLUSTERS,
    ),
    answers("mean, weights shrunk", ds.mean("income", bounds=BOUNDS, shrink=0.5), shrunk, only=OWN_WEIGHTS - OF_CLUSTERS),
    answers("total", ds.total("income", bounds=BOUNDS), lambda found: total(found, clipped(found)), unit=WHOLE),
    answers(
        "total by sex", ds.total("income", bounds=BOUNDS, by="sex"), lambda found: total(found, clipped(found), "sex"), unit=WHOLE
    ),
    answers(
        "total by region",
        ds.total("income", bounds=BOUNDS, by="region"),
        lambda found: total(found, clipped(found), "region"),
        unit=WHOLE,
    ),
    answers("proportion", ds.proportion("employed", True), lambda found: means(found, found.rows["employed"] * 1.0), unit=1.0),
    answers(
        "proportion by two columns", ds.proportion("employed", True, by=("region", "sex")), employed_by_region_and_sex, unit=1.0
    ),
    answers("count", ds.count("employed", True), lambda found: total(found, found.rows["employed"] * 1.0), unit=SIZE),
    answers(
        "count by region",
        ds.count("employed", True, by="region"),
        lambda found: total(found, found.rows["employed"] * 1.0, "region"),
        unit=SIZE,
    ),
    answers("count of groups", ds.count(by="sex"), lambda found: shares(found, "sex"), unit=SIZE),
    answers("table", ds.table("region", "sex"), lambda found: shares(found, "region", "sex"), unit=SIZE),
    answers(
        "ratio",
        ds.ratio("spent", "income", bounds=BOUNDS, to_bounds=BOUNDS),
        lambda found: [found.sample.ratio(clipped(found, "spent"), clipped(found)).estimate],
        unit=1.0,
    ),
    answers(
        "ratio by sex",
        ds.ratio("spent", "income", bounds=BOUNDS, to_bounds=BOUNDS, by="sex"),
        lambda found: [
            found.sample.ratio(clipped(found, "spent"), clipped(found), where=among(found, sex=sex)).estimate
            for sex in found.labels["sex"]
        ],
        unit=1.0,
    ),
    answers(
        "contrast",
        ds.contrast(ds.mean("income", bounds=BOUNDS, by="sex"), "female", "male"),
        lambda found: [-np.diff(means(found, clipped(found), "sex"))[0]],
    ),
    answers(
        "quantile",
        ds.quantile("income", 0.3, bounds=BOUNDS, method="tree"),
        lambda found: quantiles(found, 0.3),
    ),
    answers(
        "quantile by sex",
        ds.quantile("income", 0.8, bounds=BOUNDS, by="sex"),
        lambda found: quantiles(found, 0.8, "sex"),
    ),
    answers(
        "quantile by choice",
        ds.quantile("income", 0.3, bounds=BOUNDS, method="exponential"),
        lambda found: quantiles(found, 0.3),
        only=RANKED,
    ),
    answers(
        "quantile by its own noise",
        ds.quantile("income", 0.3, bounds=BOUNDS, method="laplace"),
        lambda found: quantiles(found, 0.3),
        only=RANKED - {"stratified"},
    ),
    answers(
        "post-stratified",
        ds.calibrated(MEAN, {"sex": WOMEN_AND_MEN}),
        lambda found: [found.sample.post_stratified("sex", WOMEN_AND_MEN).mean(clipped(found)).estimate],
        but=OF_CLUSTERS,
    ),
    answers(
        "post-stratified proportion",
        ds.calibrated(ds.proportion("employed", True), {("sex",): WOMEN_AND_MEN}),
        lambda found: [found.sample.post_stratified("sex", WOMEN_AND_MEN).mean(found.rows["employed"] * 1.0).estimate],
        unit=1.0,
        but=OF_CLUSTERS,
    ),
    answers(
        "raked total",
        ds.calibrated(ds.total("income", bounds=BOUNDS), {"sex": WOMEN_AND_MEN, "region": REGIONS}),
        lambda found: [found.sample.raked({"sex": WOMEN_AND_MEN, "region": REGIONS}).total(clipped(found)).estimate],
        unit=WHOLE,
        but=OF_CLUSTERS,
    ),
    answers("imputed", ds.imputed(ds.mean("asked", bounds=BOUNDS), cells="sex"), filled, but=OF_CLUSTERS),
    answers("regressed", ds.greg(MEAN, {"size": ((1, 4), 2.5)}), regressed, but=OF_CLUSTERS),
    answers(
        "clipping bounds",
        ds.clipping_bounds("income", within=(-1000, 1000), covering=0.9),
        clipping,
    ),
]


# What clusters do to the spread of groups and of quantiles is not in the prediction.
UNEVEN = {"count of groups", "table", "quantile", "quantile by sex"}


def allowed(line, name):
    return name not in line.but and (line.only is None or name in line.only)


@pytest.fixture(scope="module")
def rows():
    return people()


def open_survey(name, rows, folder, epsilon=HUGE, delta=0.0):
    """The survey of one name: its frame or its file is a Parquet file, and its rows are drawn, or collected, already."""
    about = {"budget": ds.Budget(epsilon, delta), "ledger": folder / "books.ledger", "name": name}
    categories = {"region": REGIONS, "sex": SEXES, "employed": [True, False]}
    if name in FILES:
        rng = np.random.default_rng(8)
        taken = rows.iloc[np.sort(rng.choice(SIZE, 300, replace=False, p=rows["size"] / rows["size"].sum()))]
        weights = 8.0 / taken["size"] if "weights" in FILES[name] else SIZE / 300
        taken.assign(w=weights).to_parquet(folder / "file.parquet")
        return ds.Survey.collected(folder / "file.parquet", "id", size=SIZE, categories=categories, **FILES[name], **about)
    rows.to_parquet(folder / "frame.parquet")
    frame = ds.Frame(folder / "frame.parquet", "id", SIZE, categories, public=["psu", "size", "rate", "cluster_size"])
    return ds.Survey(frame, DESIGNS[name], weight_range=WEIGHTS if name in OWN_WEIGHTS else None, **about)


def drawn_rows(name, survey, rows, folder):
    """What the survey will be released from, with its weights, and the classical sample of it."""
    if name in FILES:
        found = pd.read_parquet(folder / "file.parquet")
        weights = found["w"].to_numpy()
    else:
        # With a key the same units are drawn in every run, some of them in every group.
        survey.draw(folder / "sample.parquet", key=KEY)
        sample = pq.read_table(folder / "sample.parquet").to_pandas()
        found = sample[["unit", "weight"]].merge(rows, left_on="unit", right_on="id", validate="many_to_one")
        weights = found["weight"].to_numpy()
    labels = {"region": list(REGIONS), "sex": list(SEXES)}
    sample = Sample({column: found[column].to_numpy() for column in found.columns}, weights=weights)
    return SimpleNamespace(name=name, rows=found, weights=weights, sample=sample, labels=labels)


@pytest.mark.slow_cases("pps of clusters", "strata of clusters", "cluster", "with-replacement")
@pytest.mark.parametrize("name", [*DESIGNS, *FILES])
def test_at_a_huge_epsilon_a_release_is_the_classical_answer_and_all_of_it_can_be_checked_again(name, rows, tmp_path):
    # A unit may be drawn again and again, and is guaranteed as much for all 300 draws together.
    survey = open_survey(name, rows, tmp_path, HUGE * (300 if name == "with-replacement" else 1))
    found = drawn_rows(name, survey, rows, tmp_path)
    lines = [line for line in TABLE if allowed(line, name)]
    plan = survey.plan(*(line.statistic for line in lines))
    release = plan.release()
    # Charges that are shared are published together, so numbers are found again by what they are.
    wanted = {line.name: line.expected(found) for line in lines}
    assert len(plan.predictions) == len(release.estimates) == sum(map(len, wanted.values()))
    order = [line for item in plan.items for each in item.statistics for line in lines if line.statistic == each]
    published, predicted = iter(release.estimates), iter(plan.predictions)
    for line in order:
        for value in wanted[line.name]:
            row, expected = next(published), next(predicted)
            far = max(line.within, FAR * (row["se_noise"] or 0.0))
            low, high = value if isinstance(value, tuple) else (value - far, value + far)
            assert low <= row["estimate"] <= high, (line.name, row["by"], row["estimate"], value)
            assert FAR * (row["se_noise"] or 0.0) <= 10.0 * line.within, (line.name, row["by"])
            assert row["by"] == expected["by"]
            assert row["ci_low"] <= row["estimate"] <= row["ci_high"]
            # A release of a point alone has no standard error; what a plan simulates for it is for the plan.
            assert (row["se"] is None) == (expected["se"] is None) or expected["simulated"]
            if row["se"] and not (name in OF_CLUSTERS and line.name in UNEVEN):
                assert expected["se"] > 0.0, (line.name, row["by"])
            if row["se"] and not row["by"] and name not in OF_CLUSTERS:
                # Worst cases within the bounds, or even spreads: not far too small, and not absurd.
                assert 0.4 <= expected["se"] / row["se"] <= 15.0, line.name
    assert release.recompute() == release.estimates
    saved = ds.Release.load(release.save(tmp_path / "release.json"))
    assert saved.to_dict() == release.to_dict() == json.loads(json.dumps(release.to_dict()))
    assert saved.recompute() == release.estimates
    write_survey_file(tmp_path / "survey.toml", survey, plan)
    file = SurveyFile.read(tmp_path / "survey.toml")
    again = file.survey()
    assert again.terms == survey.terms
    assert file.plan(again) == plan
    assert file.plan(again).items == plan.items


def test_counts_of_groups_in_clusters_are_predicted_with_their_sampling_error(rows, tmp_path):
    plan = open_survey("cluster", rows, tmp_path).plan(ds.count(by="sex"))
    # 20 clusters of 20, half of them women: more than 1200 sqrt(0.25 (1 - 1/3)/400) = 24.
    assert all(row["se_sampling"] > 12.0 for row in plan.predictions)


def test_the_comparison_tells_other_weights_another_domain_and_the_whole_frame_from_the_answer(rows, tmp_path):
    """Power: the same numbers without weights, of all units, or of the other sex are further away than what is allowed."""
    survey = open_survey("file with weights", rows, tmp_path)
    found = drawn_rows("file with weights", survey, rows, tmp_path)
    alike = SimpleNamespace(**{**vars(found), "weights": np.full(len(found.rows), 4.0)})
    alike.sample = Sample({column: found.rows[column].to_numpy() for column in found.rows.columns}, weights=alike.weights)
    everyone = SimpleNamespace(name=found.name, rows=rows, weights=np.ones(SIZE), labels=found.labels)
    everyone.sample = Sample({column: rows[column].to_numpy() for column in rows.columns}, weights=everyone.weights)
    swapped = SimpleNamespace(**{**vars(found), "labels": {"region": list(REGIONS)[::-1], "sex": list(SEXES)[::-1]}})
    for line in TABLE:
        if not allowed(line, found.name) or line.name in ("quantile", "quantile by sex", "clipping bounds"):
            continue
        right = np.array(line.expected(found))
        weightless = "employed" in str(line.statistic.to_dict()) or line.name in (
            "ratio",
            "ratio by sex",
            "contrast",
            "regressed",
        )
        if not weightless and "weights" not in line.name:
            assert np.abs(np.array(line.expected(alike)) - right).max() > line.within, line.name
        assert np.abs(np.array(line.expected(everyone)) - right).max() > line.within, line.name
        if line.statistic.by and len(right) > 1:
            assert np.abs(np.array(line.expected(swapped)) - right).max() > line.within, line.name


REFUSED = {
    "trimmed weights of a design that fixes them": ("srs", ds.mean("income", bounds=BOUNDS, trim=3), BadValue, "trimming"),
    "shrunk weights of a design that fixes them": (
        "stratified",
        ds.mean("income", bounds=BOUNDS, shrink=0.5),
        BadValue,
        "shrinking",
    ),
    "Horvitz-Thompson of clusters": (
        "cluster",
        ds.total("income", bounds=BOUNDS, estimator="horvitz-thompson"),
        BadValue,
        "drawn one by one",
    ),
    "Horvitz-Thompson of groups": (
        "pps",
        ds.total("income", bounds=BOUNDS, estimator="horvitz-thompson", by="sex"),
        BadValue,
        "whole frame",
    ),
    "calibrated clusters": (
        "cluster",
        ds.calibrated(MEAN, {"sex": WOMEN_AND_MEN}),
        NoGuarantee,
        "not offered for cluster samples",
    ),
    "imputed clusters": (
        "stages",
        ds.imputed(ds.mean("asked", bounds=BOUNDS), "sex"),
        NoGuarantee,
        "not offered for cluster samples",
    ),
    "regressed clusters": (
        "file with clusters",
        ds.greg(MEAN, {"size": ((1, 4), 2.5)}),
        NoGuarantee,
        "not offered for cluster samples",
    ),
    "ranks of a random size": (
        "poisson",
        ds.median("income", bounds=BOUNDS, method="exponential"),
        BadValue,
        "public number of records",
    ),
    "ranks of unequal weights": (
        "file with weights",
        ds.median("income", bounds=BOUNDS, method="laplace"),
        BadValue,
        "public number of records",
    ),
    "own noise in strata": (
        "stratified",
        ds.median("income", bounds=BOUNDS, method="laplace"),
        BadValue,
        "simple random samples",
    ),
    "a margin that is not declared": (
        "srs",
        ds.calibrated(MEAN, {"sex": {"female": 530, "male": 600, "other": 70}}),
        BadValue,
        "every declared category",
    ),
    "a contrast of undeclared categories": (
        "srs",
        ds.contrast(ds.mean("income", bounds=BOUNDS, by="sex"), "female", "other"),
        BadValue,
        "not a declared category",
    ),
    "bounds that fit no column": (
        "srs",
        ds.mean("income", bounds={"a": (0, 1), "b": (0, 2)}),
        BadValue,
        "every declared category",
    ),
    "where on an undeclared category": (
        "srs",
        ds.mean("income", bounds=BOUNDS, where={"sex": "other"}),
        BadValue,
        "not a declared category",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_design_does_not_allow_is_refused_by_the_plan_with_a_way_out(case, rows, tmp_path):
    name, statistic, kind, words = REFUSED[case]
    survey = open_survey(name, rows, tmp_path)
    with pytest.raises(kind, match=words) as caught:
        survey.plan(MEAN, statistic)
    assert caught.value.hint or caught.value.because
    assert not (tmp_path / "books.ledger").exists(), "a plan writes nothing"
