"""A survey file to plan with, and `dpsurvey` in this process; read by the test files beside it."""

import json

from tests.surface import amplify_runner
from tests.surface.amplify_runner import no_constant, plain

__all__ = ["dpsurvey", "plain", "printed", "write_files"]
SURVEY = """
[survey]
name = "lfs"
ledger = "lfs.ledger"
[frame]
table = "register.parquet"
unit = "id"
size = 2000
public = ["psu", "employees"]
[frame.categories]
region = { north = 1200, south = 800 }
[design]
kind = "stratified"
by = "region"
within = { kind = "srs", rate = 0.1 }
[setting]
protect = "frame"
neighbours = "replace-one"
[budget]
epsilon = 2
[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 100]
expect = { north = [30, 15], south = [22, 9] }
source = "Yearbook 2025"
[[statistic]]
kind = "proportion"
of = "status"
value = "idle"
expect = 0.2
"""


def dpsurvey(line):
    """Exit code, stdout, stderr of `dpsurvey LINE`; a traceback would come out as an exception."""
    command, _, rest = line.partition(" ")
    return amplify_runner.dpsurvey(rest, command)


def printed(line):
    code, out, err = dpsurvey(f"{line} --json")
    assert code == 0, err
    return json.loads(out, parse_constant=no_constant)


def write_files(folder):
    """The survey file, and public values for medians; no register: planning reads none."""
    (folder / "survey.toml").write_text(SURVEY)
    (folder / "values.txt").write_text("\n".join(str(value) for value in range(1, 202)))
