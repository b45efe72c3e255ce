"""Starting costs little: what is not used is not loaded."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick

# Whatever takes long to load. Those who use it pay for it, when they use it.
HEAVY = {
    *("altair", "dp_accounting", "duckdb", "ibis", "jinja2", "numpy", "opendp", "pandas", "polars", "psycopg", "pyarrow"),
    *("pydantic", "pyspark", "randomgen", "scipy", "sqlalchemy", "sqlglot", "vl_convert"),
}


def loaded(code):
    """The modules that a program leaves loaded in a fresh process, whichever way it ends."""
    program = f"import atexit, sys; atexit.register(lambda: print('\\n', *sorted(sys.modules)))\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return set(done.stdout.splitlines()[-1].split())


def own(modules):
    return {each for each in modules if each.split(".")[0] in ("dpsurvey", "dpsurvey_papers")}


def test_importing_the_package_loads_nothing():
    modules = loaded("import dpsurvey")
    assert own(modules) == {"dpsurvey"}
    assert not modules & HEAVY
    assert len(modules - loaded("pass")) < 40


def test_a_public_name_is_loaded_when_it_is_used():
    modules = loaded("import dpsurvey as ds; ds.poisson(0.1)")
    assert "dpsurvey.design.poisson" in modules
    assert not modules & {"altair", "duckdb", "ibis", "opendp", "pydantic", "sqlalchemy"}
    assert not own(modules) & {"dpsurvey.engine", "dpsurvey.ledger", "dpsurvey.survey"}


@pytest.mark.parametrize("room", ["errors", "statistic", "engine", "classical"])
def test_a_room_is_loaded_when_it_is_named(room):
    assert f"dpsurvey.{room}" in loaded(f"import dpsurvey as ds; ds.{room}")


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert "hit" in loaded("import sys, dpsurvey as ds\ntry: ds.possion\nexcept AttributeError: sys.modules['hit'] = ds")


COMMANDS = ("amplify", "plan", "ledger", "local", "papers")


@pytest.mark.parametrize("words", ["--version", "--help", ""])
def test_the_command_line_alone_loads_no_command_and_no_library(words):
    modules = loaded(f"sys.argv = ['dpsurvey', *{words.split()}]; from dpsurvey.cli.app import main; main()")
    assert own(modules) == {"dpsurvey", "dpsurvey.cli", "dpsurvey.cli.app", "dpsurvey.cli.commands", "dpsurvey.errors"}
    assert not modules & HEAVY


def test_a_command_loads_no_other_one():
    modules = loaded("sys.argv = ['dpsurvey', 'key', '--help']; from dpsurvey.cli.app import main; main()")
    assert "dpsurvey.cli.key" in modules
    assert not modules & {f"dpsurvey.cli.{name}" for name in COMMANDS}
    assert not own(modules) & {"dpsurvey.engine", "dpsurvey.survey", "dpsurvey.ledger", "dpsurvey.planning"}
