"""`dpsurvey plan`, `rate`, `compare` and `allocate --survey`: what they print is what Python says, bad input ends in words."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsurvey import planning
from dpsurvey.errors import BadValue
from dpsurvey.planning.by_rate import smooth_rates
from dpsurvey.planning.designs_by_rate import compare
from dpsurvey.planning.error_curves import error_curves
from dpsurvey.survey.survey_file import SurveyFile
from dpsurvey.view.planning_plots import designs_rate_picture, epsilon_picture, rate_picture
from dpsurvey.view.plots import to_svg
from tests.surface import planning_runner as run

dpsurvey, printed, SURVEY = run.dpsurvey, run.printed, run.SURVEY
FIELDWORK = """
[fieldwork]
response = { north = 0.6, south = 0.7 }
cost = 40
budget = 9000
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run.write_files(tmp_path)
    return tmp_path


def a_plan():
    file = SurveyFile.read(Path("survey.toml"))
    return file.plan(file.survey())


def plainly(data):
    """As JSON has it."""
    return json.loads(json.dumps(data))


def test_plan_meets_several_aims_and_says_how_to_release_them():
    found = printed("plan survey.toml --aim income=3.5 --aim status=0.09")
    aimed = a_plan().aim({"income": 3.5, "status": 0.09})
    assert found == plainly(aimed.to_dict())
    assert all(row["moe"] <= {"income": 3.5, "status": 0.09}[row["of"]] for row in found["predictions"])
    code, out, err = dpsurvey("plan survey.toml --aim income=3.5 --aim status=0.09")
    assert (code, out) == (0, str(aimed) + "\n")
    weights = json.loads(re.search(r"weights = (\[.*\])", err.replace("\n", " ")).group(1))
    share = float(re.search(r"share = ([0-9.e-]+)", err).group(1))
    again = a_plan().aim({"income": 3.5, "status": 0.09})
    assert (share, weights) == (pytest.approx(again.share, rel=1e-5), pytest.approx(again.weights, rel=1e-5))
    Path("survey.toml").write_text(SURVEY + f"[release]\nshare = {share}\nweights = {weights}\n")
    # Written down, the shares may be served better by other estimators than those that the aims were met with.
    assert all(row["moe"] <= {"income": 3.5, "status": 0.09}[row["of"]] * (1.0 + 1e-4) for row in a_plan().predictions)


def test_plan_tells_the_least_epsilon_and_the_fewest_units():
    line = "plan survey.toml --aim income=3.5 --least-epsilon --least-n"
    found, targets = printed(line), {"income": 3.5}
    assert found["least_epsilon"] == a_plan().least_epsilon(targets)
    assert found["least_n"] == a_plan().least_size(targets)
    assert found["weights"] == [1.0, 1.0], "the plan itself stays as it is"
    out = dpsurvey(line)[1]
    told = float(re.search(r"least epsilon for these aims: (\S+)", out)[1])
    # Rounded up: what is printed does.
    assert found["least_epsilon"] <= told <= found["least_epsilon"] * (1.0 + 1e-5)
    assert f"least n for these aims: {found['least_n']}" in out


def test_what_one_question_refuses_the_other_still_answers():
    line, targets = "plan survey.toml --aim income=1.2", {"income": 1.2}
    code, out, _ = dpsurvey(f"{line} --least-epsilon --least-n")
    fewest = a_plan().least_size(targets)
    assert (code, printed(f"{line} --least-n")["least_n"]) == (0, fewest)
    assert f"least n for these aims: {fewest}" in out
    assert "least epsilon for these aims: none, as 'income' cannot be estimated within 1.2 at any epsilon" in out
    found = printed(f"{line} --least-epsilon --least-n")
    assert (found["least_epsilon"], found["least_n"]) == (None, fewest)
    assert list(found["refused"]) == ["least_epsilon"]
    # Alone it is refused, and so are both where neither has an answer.
    assert dpsurvey(f"{line} --least-epsilon")[0] == 1
    assert dpsurvey("plan survey.toml --aim income=0.0001 --least-epsilon --least-n")[0] == 1


def test_rate_shows_the_planned_rate_among_the_others():
    planned = [row for row in printed("rate survey.toml")["rows"] if row["planned"]]
    for row, own in zip(planned, plainly(a_plan().predictions), strict=False):
        assert [row[key] for key in ("of", "label", "by")] == [own[key] for key in ("of", "label", "by")]
        assert row["se"] == pytest.approx(own["se"], rel=1e-9)
    assert planned[-1]["statistic"] == "plan"
    assert " planned " in dpsurvey("rate survey.toml")[1]


def test_plan_prints_and_draws_the_error_by_epsilon(folder):
    found = printed("plan survey.toml --epsilons 0.5,2 --plot by-epsilon.svg")
    assert found["by_epsilon"] == plainly(planning.by_epsilon(a_plan(), at=[0.5, 2.0]))
    picture = (folder / "by-epsilon.svg").read_text()
    assert picture.startswith("<svg")
    for words in ("as planned", "standard error", "sampling error", "mean of income"):
        assert words in picture
    out = dpsurvey("plan survey.toml --epsilons 0.5,2")[1]
    assert re.search(r"^0\.5 +mean +income", out, re.M)


def test_a_picture_is_drawn_in_the_format_of_its_name(folder):
    assert dpsurvey("plan survey.toml --plot by-epsilon.png")[0] == 0
    assert (folder / "by-epsilon.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_rate_prints_the_rows_and_the_advice_of_python(folder):
    found = printed("rate survey.toml --at 0.1,0.5,1 --importance income=3 --importance status=1")
    rows = planning.rates(a_plan(), at=[0.1, 0.5, 1.0], importance={"income": 3.0, "status": 1.0})
    assert found == plainly({"rows": rows, "advice": planning.best_rate(rows)})
    code, out, _ = dpsurvey("rate survey.toml --at 0.1,1 --of income")
    assert code == 0
    assert "Advice: do not draw for the sake of accuracy" in out
    (folder / "rates.txt").write_text("0.1\n0.5\n")
    assert {row["rate"] for row in printed("rate survey.toml --at rates.txt")["rows"]} == {0.1, 0.5}


def test_rate_draws_the_whole_frame_and_the_least_error(folder):
    assert dpsurvey("rate survey.toml --at 0.1,1 --plot rates.svg")[0] == 0
    picture = (folder / "rates.svg").read_text()
    for words in ("whole frame", "least error", "as planned", "sampling error", "privacy noise", "mean of income"):
        assert words in picture


def test_rate_measures_seconds_and_counts_costs():
    Path("survey.toml").write_text(SURVEY + FIELDWORK)
    found = printed("rate survey.toml --at 0.05,0.1,0.2 --seconds")
    assert all(row["seconds"] > 0.0 for row in found["rows"])
    costs = {row["rate"]: (row["cost"], row["affordable"]) for row in found["rows"]}
    assert costs == {0.05: (4000.0, True), 0.1: (8000.0, True), 0.2: (16_000.0, False)}
    assert found["advice"]["rate"] == 0.1
    assert "Fieldwork: about 200 units drawn, 128 answers; cost 8,000 of 9,000." in dpsurvey("plan survey.toml")[1]


def test_figures_of_an_earlier_release_replace_the_worst_case(folder):
    random = np.random.default_rng(3)
    columns = {"id": np.arange(2000), "region": np.repeat(["north", "south"], [1200, 800])}
    columns |= {"income": random.gamma(2.0, 10.0, 2000), "status": random.choice(["idle", "busy"], 2000, p=[0.2, 0.8])}
    columns |= {"psu": np.arange(2000) // 10, "employees": np.ones(2000)}
    pq.write_table(pa.table(columns), folder / "register.parquet")
    bare = re.sub(r"(?m)^(expect|source) = .*\n", "", SURVEY)
    (folder / "survey.toml").write_text(bare.replace("epsilon = 2", "epsilon = 500"))
    assert dpsurvey("release survey.toml --out q1 --json")[0] == 0
    plain = printed("plan survey.toml")["predictions"]
    found = printed("plan survey.toml --expect-from q1/release.json")["predictions"]
    assert all("of survey lfs" in row["rests_on"] for row in found)
    # A gamma law on 0 to 100 has a deviation of about 14; the worst case within the bounds is 50.
    assert found[0]["se_sampling"] < 0.5 * plain[0]["se_sampling"]
    for line in ("rate survey.toml --at 0.1", "compare designs survey.toml", "compare settings survey.toml"):
        assert dpsurvey(f"{line} --expect-from q1/release.json --json")[0] == 0
    assert dpsurvey("plan survey.toml --expect-from q2/release.json")[0] == 2
    assert dpsurvey("plan survey.toml --expect-from survey.toml")[0] == 2


def test_compare_designs_of_a_survey_is_the_table_of_python():
    found = printed("compare designs survey.toml --clusters psu,200,12 --sizes employees,0.5")
    assert found == plainly(planning.compare_designs(a_plan(), clusters=("psu", 200, 12), sizes=("employees", 0.5)))
    code, out, _ = dpsurvey("compare designs survey.toml --clusters psu,200,12")
    assert code == 0
    assert all(words in out for words in ("as planned", "whole plan", "stratified by region, Poisson inside"))
    nothing = {f"{row['design']}: {row['note']}" for row in found if "no gain" in row.get("note", "")}
    assert nothing
    assert all(note in dpsurvey("compare designs survey.toml --sizes employees,0.5")[1] for note in nothing)


def test_compare_designs_by_rate_is_a_table_and_a_picture(folder):
    rows = printed("compare designs --epsilon 1 --by-rate --plot designs.svg")
    assert [row for row in rows if row["rate"] == 0.1] == plainly(planning.designs_by_rate(1.0, rates=[0.1]))
    assert {row["rate"] for row in rows} == {0.001, 0.01, 0.05, 0.1, 0.2, 0.5}
    picture = (folder / "designs.svg").read_text()
    assert "Poisson (add-remove → add-remove)" in picture
    assert "printed" not in picture
    assert printed("compare designs --rate 0.2 --epsilon 1 --size 5000 --icc 0.2") == plainly(
        compare(0.2, 1.0, size=5000, icc=0.2)
    )


def test_compare_settings_marks_the_plan_and_prints_the_recommendations():
    found = printed("compare settings survey.toml")
    assert found["settings"] == plainly(planning.compare_settings(a_plan()))
    assert len(found["recommendations"]) == 4
    code, out, _ = dpsurvey("compare settings survey.toml")
    assert code == 0
    assert len([line for line in out.splitlines() if re.match(r"\* +frame ", line)]) == 1
    assert all(f"  {number}. " in out for number in range(1, 5))
    assert "This plan goes against one" in out


def test_compare_caps_and_medians_are_the_tables_of_python(folder):
    assert printed("compare caps --rate 0.05 --epsilon 1 --clusters 500") == plainly(planning.caps(1.0, 0.05, clusters=500))
    assert "units of a cluster" in dpsurvey("compare caps --rate 0.05 --epsilon 1")[1]
    line = "compare medians values.txt --bounds 0,500 --epsilons 0.5 --at 0.5,1 --methods exponential --draws 20"
    rows = planning.median_rates(
        range(1, 202), bounds=(0.0, 500.0), epsilons=[0.5], rates=[0.5, 1.0], methods=["exponential"], draws=20, seed=123
    )
    assert printed(f"{line} --plot medians.svg") == plainly({"rows": rows, "best": planning.best_rates(rows)})
    assert (folder / "medians.svg").read_text().startswith("<svg")


def test_allocate_takes_the_figures_of_a_plan(folder):
    found = printed("allocate --private --survey survey.toml --of income --plot takes.svg")
    assert found["takes"] == planning.private_allocation(a_plan(), "income").takes
    assert found["errors"] == plainly(planning.allocations(a_plan(), "income"))
    assert "Yearbook 2025" in json.dumps(found)
    assert (folder / "takes.svg").read_text().startswith("<svg")
    assert "Errors of the plan under each allocation:" in dpsurvey("allocate --private --survey survey.toml --of income")[1]


@pytest.mark.parametrize(
    "word", ["plan", "rate", "allocate", "compare", *(f"compare {each}" for each in ("designs", "settings", "caps", "medians"))]
)
def test_every_help_has_examples(word):
    code, out, _ = dpsurvey(f"{word} --help")
    assert code == 0
    text = run.plain(out)
    assert "Example" in text
    examples = re.findall(rf"dpsurvey {word} [^ ].*?(?= dpsurvey | Options | Arguments )", text)
    assert examples


def test_pictures_are_drawn_from_tables_whose_parts_add_up_to_the_error():
    rows = [row for row in planning.rates(a_plan(), at=[0.1, 0.5, 1.0]) if row["of"] == "income"]
    curves = error_curves(rows)
    assert [curve.label for curve in curves] == list(dict.fromkeys(row["label"] for row in rows))
    for curve in curves:
        own = [row for row in rows if row["by"] == curve.by]
        shares = [sum(each["share"] for each in curve.split if each["rate"] == row["rate"]) for row in own]
        assert shares == pytest.approx([row["se"] for row in own], rel=1e-12)
        assert (curve.least["se"], curve.whole_frame) == (min(row["se"] for row in own), own[-1]["se"])
    assert smooth_rates(0.01)[-1] == 1.0
    assert smooth_rates(0.01) == sorted(smooth_rates(0.01))


def test_a_picture_without_known_errors_is_refused():
    for picture in (rate_picture, epsilon_picture):
        with pytest.raises(BadValue, match="no known error"):
            picture([])


def test_the_picture_of_designs_by_rate_shows_every_design_that_has_a_loss():
    rows = planning.designs_by_rate(1.0, rates=[0.1])
    picture = to_svg(designs_rate_picture(rows, 1.0))
    assert all(row["design"] in picture for row in rows if row["epsilon"] is not None)
