"""The files that commands and listings of the pages name, and what people do between two commands."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

import dpsurvey as ds
from dpsurvey.local.starter import starter_question
from dpsurvey.survey.starter import starter_file
from dpsurvey.survey.survey_file import SurveyFile, write_survey_file

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import files_known

PEOPLE, NORTH = 100_000, 60_000
# What somebody changes in the file of `dpsurvey init`: sizes, to fit the register below, and fewer numbers, to save time.
EDITS = {
    "1_000_000": "100_000",
    "600_000": "60_000",
    "400_000": "40_000",
    "# expect": "expect",
    'by = ["region"]\n': "",
    '[[statistic]]\nkind = "proportion"\nof = "status"\nvalue = "unemployed"\nby = ["region", "sex"]\n': "",
}


def make_register(path):
    """100,000 people in two regions and 5,000 clusters of 20."""
    random, number = np.random.default_rng(1), np.arange(PEOPLE)
    table = {
        "person_id": number,
        "region": labels(number < NORTH, "north", "south"),
        "sex": labels(number % 2 == 0, "female", "male"),
        "psu": number // 20,
        "income": np.round(random.gamma(2.0, 10_000.0, PEOPLE)),
        "status": labels(random.random(PEOPLE) < 0.08, "unemployed", "employed"),
        "smokes": labels(random.random(PEOPLE) < 0.2, "yes", "no"),
    }
    pq.write_table(pa.table(table), path)


def labels(which, yes, no):
    return pa.array(np.where(which, yes, no))


def edited(text):
    for old, new in EDITS.items():
        assert old in text
        text = text.replace(old, new)
    return text


def write_survey_files():
    """Survey files of the register, and strata: what several pages name, in the current folder."""
    survey = edited(starter_file(Path("survey.toml"), Path("register.parquet")))
    Path("survey.toml").write_text(survey, encoding="utf-8")
    Path("strata.csv").write_text("stratum,size,sd\nnorth,1200,10\nsouth,600,30\nisland,200,40\n", encoding="utf-8")
    for wave in (1, 2, 3):
        made = survey.replace('name = "survey"', f'name = "wave {wave}"').replace("survey.ledger", "books.ledger")
        made = made.replace("epsilon = 1.0 ", "epsilon = 0.8\ndelta = 1e-6 ").replace("share = 1.0", 'noise = "gaussian"')
        Path(f"wave{wave}.toml").write_text(made, encoding="utf-8")


def released(to):
    """A release of the survey file, of a quarter of its budget."""
    file = SurveyFile.read("survey.toml")
    Path(to).parent.mkdir(exist_ok=True)
    file.plan(file.survey(), share=0.25).release().save(to)


def write_more_files(page, names):
    """What one page alone names; `names` are those that its first Python block leaves."""
    match page:
        case "ledger.md":
            kept = Path("survey.toml").read_text(encoding="utf-8").replace("survey.ledger", "books.ledger")
            Path("survey.toml").write_text(kept, encoding="utf-8")
            released("release.json")
        case "local.md":
            people = pq.read_table("register.parquet").slice(NORTH - 500, 1000).rename_columns({"person_id": "id"})
            csv.write_csv(people.append_column("weight", pa.array([20.0] * 1000)), "answers.csv")
            Path("question.toml").write_text(starter_question(), encoding="utf-8")
            asked = ds.local.Question.read("question.toml")
            csv.write_csv(ds.local.randomize_table(asked, people, answer="smokes"), "reports.csv")
        case "planning.md":
            released("2025/release.json")
            Path("public-values.txt").write_text("\n".join(str(value) for value in range(0, 2000, 10)), encoding="utf-8")
            # The commands are about the survey that the page plans in Python.
            Path("survey.toml").unlink()
            write_survey_file("survey.toml", names["survey"], names["plan"])


def write_listed_files(page):
    """What the Python listings of a page name, and the names that they go on with."""
    match page:
        case "guides/allocation.md":
            write_earlier_release()
        case "guides/coordination.md":
            pq.write_table(pa.table({"person_id": np.arange(10_000)}), "register.parquet")
        case "guides/statistics.md":
            make_register("register.parquet")
            write_survey_files()
            return {"ds": ds, "survey": SurveyFile.read("survey.toml").survey()}
        case "guides/survey-files.md":
            write_files_beside_r()
    return {}


def write_files_beside_r():
    """The public-use files of tests/golden and the made-up ones, under the names of the page."""
    named = {"nhanes": "nhanes", "nhanes2": "nhanes2", "yrbs": "yrbs", "schools": "schools", "cps": "cps", "acs": "acs"}
    for name, known in (named | {"areas": "bootstrap", "wide": "wide-tail"}).items():
        csv.write_csv(files_known.read(files_known.FILES[known]), f"{name}.csv")


def write_earlier_release():
    """The release of an earlier wave, with the mean income of three regions."""
    sizes = {"north": 1200, "south": 600, "island": 200}
    people = {"id": np.arange(2000), "region": np.repeat(list(sizes), list(sizes.values())), "income": np.arange(2000.0) % 100}
    frame = ds.Frame(pa.table(people), unit="id", size=2000, categories={"region": sizes})
    design = ds.stratified("region", within=ds.srs(rate=0.2))
    setting = ds.Setting("frame", neighbours="replace-one")
    survey = ds.Survey(frame, design, setting, budget=ds.Budget(20.0), ledger="earlier.ledger")
    Path("2025").mkdir()
    survey.plan(ds.mean("income", bounds=(0, 100), by="region")).release().save("2025/release.json")


def answered(sample, answers):
    """The answers of the people of a sealed sample, who were asked in person."""
    units = pq.read_table(sample)["unit"].to_numpy()
    pq.write_table(pq.read_table("register.parquet").take(units).drop_columns("smokes"), answers)


def sent_in(question, dpsurvey):
    """The reports of the people of a sealed sample, as the web form sends them; in two files."""
    if not Path("sample.parquet").exists():
        dpsurvey(["draw", "survey.toml", "-o", "sample.parquet"])
    people = pq.read_table("register.parquet").take(pq.read_table("sample.parquet")["unit"].to_numpy())
    reports = ds.local.randomize_table(ds.local.Question.read(question), people, answer="smokes", respondent="person_id")
    Path("returned").mkdir()
    for number, part in enumerate((reports.slice(0, 100), reports.slice(100))):
        csv.write_csv(part, f"returned/{number}.csv")


def before(words):
    """A file that a command begins is not there yet."""
    match words:
        case ["init", file, *_] | ["local", "question", file, *_] | ["local", "randomize", *_, "-o", file]:
            Path(file).unlink(missing_ok=True)


def after(words, dpsurvey):
    """What people do after a command and before the next one."""
    match words:
        case ["init", file, *_]:
            Path(file).write_text(edited(Path(file).read_text(encoding="utf-8")), encoding="utf-8")
        case ["draw", _, "-o", sample, *_]:
            answered(sample, sample.replace("sample", "answers").replace("wave", "answers"))
        case ["local", "form", question, *_]:
            sent_in(question, dpsurvey)
        case ["local", "aggregate", question, "shares-1.csv", *_]:
            for other in (2, 3):
                dpsurvey(["local", "aggregate", question, f"shares-{other}.csv", "-o", f"sums-{other}.json"])
