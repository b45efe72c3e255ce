"""What several test files share: servers, started once in a run when the first test asks, and how Hypothesis searches."""

import functools

import pytest
import typer.testing
from hypothesis import settings

from tests.engines import servers

# The same examples in every run: a failure is found by whoever wrote the change, and not by chance later.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# The command line is built once in a run: it takes longer than most commands.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Who shares something long to make shares a process; what is quick, and which cases run with all tests only."""
    unknown = {}
    for item in items:
        if "spark" in item.nodeid.lower():
            item.add_marker(pytest.mark.xdist_group("spark"))
        # One quick run of the papers, one built site of the documentation.
        for shared in {"quick", "site"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(shared))
        # Examples in docstrings are quick, each of them.
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.quick)
        slow = item.get_closest_marker("slow_cases")
        if slow is not None:
            test, case = item.nodeid.partition("[")[0], item.callspec.id
            unknown.setdefault(test, set(slow.args)).discard(case)
            if case in slow.args:
                item.add_marker(pytest.mark.slow)
    # A single case that was asked for by its name leaves no word about the others.
    if any(unknown.values()) and not any("::" in each for each in config.args):
        raise pytest.UsageError(
            f"slow_cases names cases that do not exist: { {test: each for test, each in unknown.items() if each} }"
        )
