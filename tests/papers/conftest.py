"""One quick run of everything, through the command line, for all tests of this folder."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from dpsurvey.cli.app import app


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """`dpsurvey papers run --all --quick --json`: its exit code, its answer, its folder, and the record of each item."""
    out = tmp_path_factory.mktemp("papers")
    done = CliRunner().invoke(app, ["papers", "run", "--all", "--quick", "--json", "--out", str(out)])
    assert done.exit_code in (0, 1), done.output
    answer = json.loads(done.stdout)
    return SimpleNamespace(
        code=done.exit_code, out=Path(out), answer=answer, records={each["id"]: each for each in answer["records"]}
    )
