"""`dpsurvey local`: every command does its work, in CSV and Parquet, in words and JSON, and refuses what it must."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsurvey as ds
import dpsurvey.local as local
from dpsurvey.errors import BadValue, NotFound
from tests.command_line import invoke


def run(*words):
    """The result of a command; errors as the command line shows them."""
    return invoke("local", *words)


def said(*words):
    done = run(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def told(*words):
    return json.loads(said(*words, "--json"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def answers(here):
    rng = np.random.default_rng(5)
    smokes = rng.random(3000) < 0.3
    region = rng.choice(["north", "south"], 3000)
    table = pa.table(
        {
            "id": np.arange(3000),
            "smokes": np.where(smokes, "yes", "no"),
            "region": region,
            "weight": np.where(region == "north", 20.0, 35.0),
        }
    )
    pq.write_table(table, here / "answers.parquet")
    return table


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_from_a_question_file_to_estimates(here, answers, ending):
    said("question", "question.toml")
    said(
        "randomize",
        "question.toml",
        "answers.parquet",
        "--respondent",
        "id",
        "--keep",
        "region",
        "--keep",
        "weight",
        "-o",
        f"r.{ending}",
    )
    reports = local.collect(local.Question.read("question.toml"), f"r.{ending}")
    assert len(reports) == 3000
    assert "smokes" not in reports.columns.column_names
    made = told(
        "estimate", "question.toml", f"r.{ending}", "--population", 60_000, "--expect", 3000, "-o", "e.csv", "--plot", "e.svg"
    )
    yes = made["estimates"][1]
    # Six standard errors: a false alarm once in 5e8 runs.
    assert abs(yes["estimate"] - 0.3) < 6 * yes["se"]
    assert yes["total"] == pytest.approx(60_000 * yes["estimate"])
    assert (here / "e.csv").read_text().startswith('"category","estimate"')
    assert "<svg" in (here / "e.svg").read_text()
    weighted = told("estimate", "question.toml", f"r.{ending}", "--strata", "region", "--weights", "weight")
    assert weighted["design"] == "design: strata region, weights weight"
    assert abs(weighted["estimates"][1]["estimate"] - 0.3) < 6 * weighted["estimates"][1]["se"]
    text = said("estimate", "question.toml", f"r.{ending}")
    assert "se_noise" in text
    assert "epsilon 1 for one answer replaced by another" in text


def test_nonresponse_classes_take_their_weights_from_everybody_drawn(here, answers):
    said("question", "question.toml")
    drawn = answers.select(["id", "region", "weight"])
    pq.write_table(drawn, here / "sample.parquet")
    responded = answers.filter(np.random.default_rng(1).random(3000) < np.where(np.array(answers["region"]) == "north", 0.9, 0.4))
    pq.write_table(responded, here / "came.parquet")
    said("randomize", "question.toml", "came.parquet", "--keep", "region", "--keep", "weight", "-o", "r.csv")
    made = told("estimate", "question.toml", "r.csv", "--weights", "weight", "--classes", "region", "--sampled", "sample.parquet")
    assert made["estimates"][0]["total"] / made["estimates"][0]["estimate"] == pytest.approx(float(np.sum(answers["weight"])))
    (note,) = [note for note in made["notes"] if note.startswith("weighted response rates by region")]
    rates = dict(re.findall(r"(north|south) ([0-9.]+)", note))
    assert abs(float(rates["north"]) - 0.9) < 0.05
    assert abs(float(rates["south"]) - 0.4) < 0.08


def test_shuffled_reports_have_no_names_and_another_order(here, answers):
    (here / "q.toml").write_text('name = "smokes"\ncategories = ["no", "yes"]\nmechanism = { kind = "warner", p = 1 }\n')
    said("randomize", "q.toml", "answers.parquet", "--respondent", "id", "--shuffle", "-o", "r.csv")
    reports = local.collect(local.Question.read("q.toml"), "r.csv")
    assert reports.columns.column_names == []
    truth = (np.array(answers["smokes"]) == "yes").astype(int)
    assert reports.reports.sum() == truth.sum()
    # The same order again has chance 1/C(3000, 900).
    assert reports.reports[:, 0].tolist() != truth.tolist()


def test_columns_kept_along_with_shuffled_reports_are_warned_about(here, answers):
    said("question", "question.toml")
    done = run("randomize", "question.toml", "answers.parquet", "--shuffle", "--keep", "region", "-o", "r.csv")
    rarest = min(np.unique(np.array(answers["region"]), return_counts=True)[1])
    assert f"stands in {rarest:,} reports" in done.stderr
    assert local.rarest_combination("r.csv", ["region"]) == rarest
    assert local.rarest_combination(answers, ["region", "weight", "id"]) == 1
    with pytest.raises(NotFound, match="income"):
        local.rarest_combination(answers, ["income"])


def test_leakage_shows_every_view_and_the_audit_refutes_the_printed_epsilon(here):
    said("question", "paper.toml", "--example", "sampling-privacy")
    made = told("leakage", "paper.toml", "--respondents", 5, "--audit", 10_000, "--plot", "l.svg")
    views = {row["view"]: row for row in made["views"]}
    assert views["linked"]["epsilon"] is None
    assert views["counts"]["proved_with_chance"] == pytest.approx(0.45)
    assert views["round two"]["epsilon"] == pytest.approx(made["printed_epsilon"])
    # 10,000 releases: the bound is 6 or more unless the frequency .45 is missed by 13 standard deviations.
    assert made["audit"]["epsilon_at_least"] > made["printed_epsilon"] + 5
    assert made["audit"]["broken"] is True
    assert [round(row["sd"], 1) for row in made["errors"]] == [11.1, 99.2, 11.4, 99.2]
    assert "<svg" in (here / "l.svg").read_text()
    text = said("leakage", "paper.toml")
    assert "infinite" in text
    assert "which is that of round two alone" in text
    said("question", "safe.toml", "--example", "guarded")
    safe = {row["view"]: row for row in told("leakage", "safe.toml")["views"]}
    assert safe["published"]["epsilon"] == pytest.approx(1.0, abs=1e-9)


def test_choose_ranks_plans_and_draws(here):
    made = told("choose", "--k", 100, "--epsilon", 1, "--n", 5000, "--moe", 0.05, "--response", 0.5, "--plot", "c.svg")
    assert made["best"]["kind"] == "subset"
    assert made["sample_sizes"][0]["asked"] == 2 * made["sample_sizes"][0]["respondents"]
    assert "<svg" in (here / "c.svg").read_text()
    assert "generalised: the least error" in said("choose", "--k", 2, "--epsilon", 1)


def test_guarantee_names_who_it_is_against(here):
    said("question", "question.toml")
    made = told("guarantee", "question.toml", "--reports", 5000, "--delta", 1e-8, "--population", 52_000)["statements"]
    assert [each["epsilon"] for each in made] == sorted((each["epsilon"] for each in made), reverse=True)
    assert all(each["holds_when"] for each in made)
    text = said("guarantee", "question.toml")
    assert text.startswith("Against all who see a respondent's report: epsilon 1.")
    refused = run("guarantee", "question.toml", "--population", 52_000)
    assert refused.exception is not None
    said("question", "paper.toml", "--example", "sampling-privacy")
    refused = run("guarantee", "paper.toml")
    assert "guarantees nothing" in str(refused.exception)


def test_discretise_writes_cells_in_place_of_values(here):
    (here / "places.csv").write_text("who,lat,lon\na,48.8584,2.2945\nb,51.5,-0.12\n")
    columns = ("--latitude", "lat", "--longitude", "lon")
    made = told("discretise", "places.csv", "--size", "20 km", *columns, "-o", "cells.csv")
    assert made["cells"] == 2
    assert (here / "cells.csv").read_text().splitlines()[1] == '"a","20 km:772:667"'
    assert "48.8584" not in (here / "cells.csv").read_text()
    said(
        "discretise",
        "places.csv",
        "--size",
        "20 km",
        "--latitude",
        "lat",
        "--longitude",
        "lon",
        "--box",
        "48.7,2.1,49,2.6",
        "-o",
        "b.csv",
    )
    assert (here / "b.csv").read_text().splitlines()[2] == '"b","elsewhere"'
    boxed = local.Grid("20 km", (48.7, 2.1, 49.0, 2.6))
    assert local.discretise("places.csv", boxed, ("lat", "lon")).to_pydict() == {
        "who": ["a", "b"],
        "cell": [boxed.label(48.8584, 2.2945), "elsewhere"],
    }
    for wrong in ((boxed, "lat"), (local.Ranges(0, 100, 10), ("lat", "lon"))):
        with pytest.raises(BadValue, match="need"):
            local.discretise("places.csv", *wrong)
    (here / "ages.csv").write_text("age\n7\n103\n")
    said("discretise", "ages.csv", "--value", "age", "--low", 0, "--high", 100, "--width", 10, "--ends", "open", "-o", "a.csv")
    assert (here / "a.csv").read_text().splitlines()[1:] == ['"below 10"', '"90 and more"']
    outside = run("discretise", "ages.csv", "--value", "age", "--low", 0, "--high", 100, "--width", 10, "-o", "x.csv")
    assert "outside the ranges" in str(outside.exception)
    assert "103" not in str(outside.exception)
    assert not (here / "x.csv").exists()


def test_an_open_domain_is_estimated_for_the_candidates_that_are_named(here):
    (here / "where.toml").write_text('name = "where"\ngrid = { size = "5 km" }\nmechanism = { kind = "hashing", epsilon = 3 }\n')
    rows = ["lat,lon"] + ["48.85,2.29"] * 600 + ["40.7,-74.0"] * 400
    (here / "p.csv").write_text("\n".join(rows) + "\n")
    said("randomize", "where.toml", "p.csv", "--latitude", "lat", "--longitude", "lon", "-o", "r.csv")
    paris, tokyo = (local.Grid("5 km").label(*place) for place in ((48.85, 2.29), (35.7, 139.7)))
    made = told("estimate", "where.toml", "r.csv", "--candidate", paris, "--candidate", tokyo)
    for row, share in zip(made["estimates"], (0.6, 0.0), strict=True):
        # 6.1 standard errors: false alarms below 1e-8.
        assert abs(row["estimate"] - share) < 6.1 * max(row["se"], 0.02)


def test_split_aggregate_with_rosters_and_combine(here, answers):
    said("question", "question.toml")
    said("randomize", "question.toml", "answers.parquet", "--respondent", "id", "--keep", "region", "-o", "r.parquet")
    files = told("split", "question.toml", "r.parquet", "--aggregators", 2, "--keep", "region", "-o", "s.parquet")["written"]
    assert files == ["s-1.parquet", "s-2.parquet"]
    # One share is lost on the way to the second aggregator.
    pq.write_table(pq.read_table("s-2.parquet").slice(1), "s-2.parquet")
    for number in (1, 2):
        said("aggregate", "question.toml", f"s-{number}.parquet", "-o", f"sums-{number}.json")
        said("aggregate", "question.toml", f"s-{number}.parquet", "--roster", "-o", f"roster-{number}.json")
    refused = run("combine", "question.toml", "sums-1.json", "sums-2.json")
    assert "different respondents" in str(refused.exception)
    rosters = ("--with", "roster-1.json", "--with", "roster-2.json")
    for number in (1, 2):
        again = ("aggregate", "question.toml", f"s-{number}.parquet", *rosters, "--by", "region", "-o", f"agreed-{number}.json")
        assert "added up before" in str(run(*again).exception)
        assert "fewer respondents" in str(run(*again, "--again", "--least", 5000).exception)
        said(*again, "--again", "--least", 100)
    sizes = ("--size", "north=30000", "--size", "south=22000")
    made = told("combine", "question.toml", "agreed-1.json", "agreed-2.json", *sizes, "-o", "e.json")
    assert made["respondents"] == 2999
    assert json.loads((here / "e.json").read_text()) == made


def test_nothing_is_overwritten_and_wrong_usage_is_named(here, answers):
    said("question", "question.toml")
    for words in (
        ("question", "question.toml"),
        ("randomize", "question.toml", "answers.parquet", "-o", "answers.parquet"),
        ("form", "question.toml", "-o", "question.toml"),
    ):
        assert "exists already" in str(run(*words).exception)
    wrong = {
        ("question", "x.toml", "--example", "coins"): "unknown example",
        ("randomize", "question.toml", "answers.parquet", "--answer", "income", "-o", "r.csv"): "answer='income'",
        ("randomize", "question.toml", "answers.parquet", "-o", "r.xlsx"): "cannot read or write",
        ("randomize", "question.toml", "answers.parquet", "--latitude", "a", "-o", "r.csv"): "--latitude and --longitude",
        ("estimate", "question.toml", "none.csv"): "there is no file",
        ("estimate", "none.toml", "none.csv"): "there is no file",
        ("choose", "--k", "1", "--epsilon", "1"): "at least 2 categories",
        ("choose", "--k", "3", "--epsilon", "-1"): "positive",
        ("choose", "--k", "3", "--epsilon", "1", "--share", "0.5"): "go with --moe",
        ("discretise", "answers.parquet", "-o", "d.csv"): "say what to discretise",
        ("discretise", "answers.parquet", "--size", "2 miles", "-o", "d.csv"): "km, m or deg",
        ("combine", "question.toml", "question.toml"): "cannot be read",
        ("split", "question.toml", "none.csv", "--aggregators", "1", "-o", "s.csv"): "2 to 64",
    }
    for words, message in wrong.items():
        assert message in str(run(*words).exception), words
    assert {path.name for path in here.iterdir()} == {"answers.parquet", "question.toml"}


def test_the_form_is_one_page_for_the_question(here):
    said("question", "question.toml")
    made = told("form", "question.toml", "-o", "form.html")
    page = (here / "form.html").read_text()
    assert made["question"] in page
    assert "Have you smoked" in page


def test_files_of_a_folder_are_one_and_public_columns_come_from_the_sample(here, answers):
    said("question", "question.toml")
    (here / "returned").mkdir()
    for part in range(3):
        pq.write_table(answers.slice(1000 * part, 1000), here / "part.parquet")
        ending = ("csv", "parquet")[part % 2]
        said("randomize", "question.toml", "part.parquet", "--respondent", "id", "-o", f"returned/{part}.{ending}")
        (here / "part.parquet").unlink()
    pq.write_table(answers.select(["id", "region", "weight"]), here / "sample.parquet")
    joined = ("--public", "sample.parquet", "--unit", "id")
    made = told("estimate", "question.toml", "returned", *joined, "--strata", "region", "--weights", "weight", "--by", "region")
    assert made["respondents"] == 3000
    assert [row["region"] for row in made["estimates"]] == ["north", "north", "south", "south"]
    for row in made["estimates"][1::2]:
        # Six standard errors: a false alarm once in 5e8 runs.
        assert abs(row["estimate"] - 0.3) < 6 * row["se"]
    people = sum(row["total"] for row in made["estimates"])
    assert people == pytest.approx(float(np.sum(answers["weight"])))
    pq.write_table(answers.select(["id", "region", "weight"]).slice(1), here / "short.parquet")
    assert "not in the public table" in str(
        run("estimate", "question.toml", "returned", "--public", "short.parquet", "--unit", "id").exception
    )
    (here / "nothing").mkdir()
    assert "holds no CSV" in str(run("estimate", "question.toml", "nothing").exception)
    assert "no file or folder 'sent'" in str(run("estimate", "question.toml", "sent/").exception)
    doubled = run("estimate", "question.toml", "returned/0.csv", "returned/0.csv")
    assert "more than one report" in str(doubled.exception)


def test_groups_of_a_simple_sample_are_estimated_apart_and_shares_can_be_made_consistent(here, answers):
    said("question", "question.toml")
    said("randomize", "question.toml", "answers.parquet", "--keep", "region", "-o", "r.csv")
    made = told("estimate", "question.toml", "r.csv", "--by", "region", "--consistent")
    for start in (0, 2):
        shares = [row["consistent"] for row in made["estimates"][start : start + 2]]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) >= 0.0
    asked = local.Question.read("question.toml")
    table = local.collect(asked, "r.csv")
    north = np.array(table.columns.column("region").to_pylist()) == "north"
    alone = {"question": [asked.fingerprint] * int(north.sum()), "report": np.array(asked.categories)[table.reports[north, 0]]}
    assert made["estimates"][1]["estimate"] == local.estimate(asked, alone).rows[1]["estimate"]


def test_a_mechanism_out_of_reach_does_not_hide_the_recommended_one(here):
    text = said("choose", "--k", 6, "--epsilon", 1, "--moe", 0.03, "--population", 15_000)
    assert "generalised: out of reach" in text
    assert "respondents for a margin of 0.03" in text
    assert "out of reach" in str(run("choose", "--k", 6, "--epsilon", 1, "--moe", 0.001, "--population", 15_000).exception)


def test_leakage_finds_a_number_of_respondents_that_can_be_enumerated(here):
    for kind in ("unary", "hashing", "generalised"):
        labels = ", ".join(f'"{letter}"' for letter in "abcdefg")
        (here / "q.toml").write_text(f'name = "q"\ncategories = [{labels}]\nmechanism = {{ kind = "{kind}", epsilon = 1 }}\n')
        views = told("leakage", "q.toml")["views"]
        assert all(row["epsilon"] == pytest.approx(1.0, abs=1e-9) for row in views)
        assert views[1]["respondents"] >= (1 if kind == "unary" else 2)
    (here / "q.toml").write_text(
        (here / "q.toml").read_text().replace('"g"]', '"g", "h", "i", "j", "k", "l"]').replace(kind, "unary")
    )
    assert "too many sequences of choices" in str(run("leakage", "q.toml").exception)


def test_the_audit_of_a_guarded_question_is_of_what_it_publishes(here):
    said("question", "safe.toml", "--example", "guarded")
    # The mechanism is at its limit on this event: the bound exceeds the claim with the chance that is asked for, 1e-7.
    made = told("leakage", "safe.toml", "--audit", 4000, "--confidence", 1 - 1e-7)
    assert made["audit"]["claimed"] == pytest.approx(1.0)
    assert made["audit"]["broken"] is False
    assert made["printed_epsilon"] is None
    assert "if all aggregators join" in said("leakage", "safe.toml")


def test_collecting_sampling_privacy_is_warned_about(here, answers):
    said("question", "paper.toml", "--example", "sampling-privacy")
    done = run("randomize", "paper.toml", "answers.parquet", "--respondent", "id", "-o", "r.csv")
    assert "No guarantee" in done.stderr


def test_split_takes_the_number_of_aggregators_from_the_question(here, answers):
    said("question", "safe.toml", "--example", "guarded")
    (here / "three.toml").write_text((here / "safe.toml").read_text().replace("aggregators = 2", "aggregators = 3"))
    said("randomize", "three.toml", "answers.parquet", "--respondent", "id", "-o", "r.parquet")
    assert len(told("split", "three.toml", "r.parquet", "-o", "s.parquet")["written"]) == 3


def test_a_drawn_sample_lends_its_weights_to_the_reports_of_its_units(here, answers):
    frame = ds.Frame("answers.parquet", unit="id", size=3000, categories={"region": region_sizes(answers)})
    design = ds.stratified("region", within=ds.srs(n=200))
    setting = ds.Setting("frame", neighbours="replace-one")
    survey = ds.Survey(frame, design, setting, budget=ds.Budget(epsilon=1.0), ledger=here / "l.ledger", name="smoking")
    survey.draw(here / "sample.parquet")
    drawn = set(pq.read_table("sample.parquet").column("unit").to_pylist())
    pq.write_table(answers.filter([each in drawn for each in answers["id"].to_pylist()]), here / "asked.parquet")
    said("question", "question.toml")
    said("randomize", "question.toml", "asked.parquet", "--respondent", "id", "-o", "r.csv")
    made = told("estimate", "question.toml", "r.csv", "--public", "sample.parquet", "--weights", "weight", "--strata", "stratum")
    assert made["respondents"] == 400
    yes = made["estimates"][1]
    assert yes["total"] == pytest.approx(3000 * yes["estimate"])
    # Six standard errors: a false alarm once in 5e8 runs.
    assert abs(yes["estimate"] - 0.3) < 6 * yes["se"]


def region_sizes(answers):
    names, counts = np.unique(np.array(answers["region"]), return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}
