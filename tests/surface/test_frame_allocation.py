"""An allocation computed from the confidential frame: it is the rule's own, it is marked, and the mark is not lost."""

import json
import statistics

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dpsurvey as ds
from dpsurvey.cli.app import app
from dpsurvey.design import design_from_dict
from dpsurvey.errors import BadValue, NoGuarantee
from dpsurvey.privacy import all_settings
from dpsurvey.survey.survey_file import SurveyFile

SIZES = {"north": 60, "south": 40}
INCOME = {"north": [float(10 + unit % 7) for unit in range(60)], "south": [float(unit * unit) for unit in range(40)]}
FILE = """
[survey]
name = "register"
ledger = "books.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 100
[frame.categories]
region = {{ north = 60, south = 40 }}
[design]
kind = "stratified"
by = "region"
{within}
[setting]
protect = "{protect}"
{given}
neighbours = "replace-one"
[budget]
epsilon = 1
"""


@pytest.fixture
def frame(tmp_path):
    rows = [(region, income) for region, incomes in INCOME.items() for income in incomes]
    table = pa.table({"id": list(range(100)), "region": [region for region, _ in rows], "income": [income for _, income in rows]})
    pq.write_table(table, tmp_path / "register.parquet")
    return ds.Frame(str(tmp_path / "register.parquet"), unit="id", size=100, categories={"region": SIZES})


def test_the_allocation_is_the_rules_with_the_frames_own_deviations(frame):
    made = ds.allocate_from_frame(frame, by="region", of="income", n=30, minimum=2)
    spreads = {region: statistics.stdev(incomes) for region, incomes in INCOME.items()}
    told = ds.allocate("neyman", sizes=SIZES, deviations=spreads, n=30, minimum=2, source="the same figures")
    assert made.takes == told.takes
    assert made.exact == pytest.approx(told.exact)
    assert not made.public
    assert "confidential frame" in made.source


def test_sizes_that_are_not_declared_are_refused(frame):
    undeclared = ds.Frame(frame.table, unit="id", size=100, categories={"region": ["north", "south"]})
    with pytest.raises(BadValue, match="sizes of 'region' are not declared"):
        ds.allocate_from_frame(undeclared, by="region", of="income", n=30)


def test_the_mark_stays_with_the_design_and_no_survey_is_made_with_it(frame, tmp_path):
    made = ds.allocate_from_frame(frame, by="region", of="income", n=30, minimum=2)
    design = ds.stratified("region", within=made)
    assert design_from_dict(design.to_dict()).allocation == "confidential"  # type: ignore[attr-defined]
    books = {"budget": ds.Budget(1.0), "ledger": tmp_path / "books.ledger"}
    for setting in (*all_settings("replace-one"), *all_settings("add-remove")):
        with pytest.raises(NoGuarantee, match="no guarantee") as caught:
            ds.Survey(frame, design, setting, **books)
        assert "allocation is computed from the confidential frame" in caught.value.because
    assert not (tmp_path / "books.ledger").exists()


def test_the_command_prints_a_marked_table_and_lines_that_keep_the_mark(frame, tmp_path):
    plain = 'within = { kind = "srs", n = 5 }'
    (tmp_path / "survey.toml").write_text(FILE.format(within=plain, protect="frame", given=""))
    run = CliRunner()
    words = ["allocate", "neyman", "--frame", str(tmp_path / "survey.toml"), "--of", "income", "--n", "30"]
    table = run.invoke(app, words)
    assert table.exit_code == 0, table.output
    assert "not public; no survey can release with it" in table.stdout
    assert "confidential" in table.stderr
    assert json.loads(run.invoke(app, [*words, "--json"]).stdout)["public"] is False
    lines = run.invoke(app, [*words, "--toml"]).stdout
    for protect, given in (("frame", ""), ("sample", 'given = "frame"')):
        (tmp_path / "marked.toml").write_text(FILE.format(within=lines, protect=protect, given=given))
        with pytest.raises(NoGuarantee):
            SurveyFile.read(tmp_path / "marked.toml").survey()
    twice = run.invoke(app, [*words, "--source", "a yearbook"])
    assert isinstance(twice.exception, BadValue)
