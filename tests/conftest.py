"""What several test files share: servers, started once in a run when the first test asks, and how Hypothesis searches."""

import functools
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.testing
from hypothesis import settings

# The same examples in every run: a failure is found by whoever wrote the change, and not by chance later.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# The command line is built once in a run: it takes longer than most commands.
typer.testing._get_command = functools.cache(typer.testing._get_command)

servers = SimpleNamespace(**runpy.run_path(str(Path(__file__).parent / "engines" / "servers.py")))


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL server."""
    if missing := servers.no_postgres():
        pytest.skip(missing)
    with servers.postgres_server() as address:
        yield address


@pytest.fixture(scope="session")
def spark():
    """The Spark session of the run."""
    if missing := servers.no_spark():
        pytest.skip(missing)
    with servers.spark_session() as session:
        yield session


def pytest_collection_modifyitems(items):
    """Tests of Spark run in one process, so that one session serves them all."""
    for item in items:
        if "spark" in item.nodeid.lower():
            item.add_marker(pytest.mark.xdist_group("spark"))
