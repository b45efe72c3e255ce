"""The house: imports go one way, rooms stay small, importing the package stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dpsurvey"
# Each room may import from the rooms before it; rooms on one line do not know each other.
FLOORS = [
    {"layout"},
    {"errors"},
    {"classical", "fields", "writing"},
    {"reading"},
    {"frame", "key"},
    {"privacy"},
    {"design", "mechanism"},
    {"statistic"},
    {"terms"},
    {"unit_losses", "advice", "predictions", "fieldwork"},
    {"needs"},
    {"aims", "plan_text"},
    {"plan"},
    {"noise_choice"},
    {"estimates", "consistent", "response"},
    {"saved_release"},
    {"release"},
    {"deviations"},
    {"ledger"},
    {"sample_file"},
    {"engine"},
    {"expectations", "sealing"},
    {"frame_allocation"},
    {"survey"},
    {"survey_file"},
    {"compare"},
    {"planning"},
    {"plot", "ledger_text", "local"},
    {"report", "compare_plot", "ledger_plot", "local_plot", "plan_plot", "allocation_plot", "median_plot"},
    {"starter", "demo"},
    {"papers"},
    {"cli_talk"},
    {"cli_amplify", "cli_ledger", "cli_local", "cli_allocate_private"},
    {"cli_designs", "cli_draw", "cli_allocate", "cli_books", "cli_leakage", "cli_plan", "cli_papers"},
    {"cli_collect", "cli_compare"},
    {"cli"},
    {"__init__"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Release.save("x.html") imports the report when it is called; the others name what they are given in a type only.
LOOKS_BACK = {
    ("release", "report"),
    ("plan", "release"),
    ("predictions", "plan"),
    ("aims", "plan"),
    ("needs", "plan"),
    ("plan_text", "plan"),
}
# Simulations that nothing is released from: their seed is fixed, so that a plan always says the same.
SIMULATES = {"demo.py", "simulated_error.py", "simulated_order.py", "median_errors.py", "work.py", "item.py"}
ENGINE_READS = {"errors", "key", "design.recipe", "design.methods", "statistic.query", "statistic.condition"}
PURE_ROOMS = ("classical", "privacy", "design", "mechanism", "statistic", "frame", "terms", "plan")
IMPURE = {
    "ibis",
    "duckdb",
    "pandas",
    "polars",
    "pyarrow",
    "sqlalchemy",
    "random",
    "time",
    "datetime",
    "secrets",
    "logging",
    "socket",
}


def modules():
    return sorted(SOURCE.rglob("*.py"))


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    """Every absolute and package-internal module name that a file imports."""
    package = ("dpsurvey", *path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            yield base + (node.module or "")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    for name in imports(path):
        if not name.startswith("dpsurvey."):
            continue
        other = name.split(".")[1] or "__init__"
        if other == room or (room, other) in LOOKS_BACK:
            continue
        assert FLOOR[other] < FLOOR[room], f"{room} imports {other}"


def test_the_engine_reads_descriptions_and_knows_no_privacy():
    for path in (SOURCE / "engine").glob("*.py"):
        for name in imports(path):
            if name.startswith("dpsurvey.") and not name.startswith("dpsurvey.engine"):
                assert name.removeprefix("dpsurvey.") in ENGINE_READS


def test_only_what_reads_rows_uses_the_engine():
    users = {room_of(path) for path in modules() for name in imports(path) if name.startswith("dpsurvey.engine")}
    assert users - {"engine"} == {"survey", "expectations", "sealing", "starter", "frame_allocation", "planning"}


def test_nothing_but_the_command_line_uses_the_papers():
    users = {room_of(path) for path in modules() for name in imports(path) if name.startswith("dpsurvey_papers")}
    assert users == {"papers", "cli_papers"}


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_pure_rooms_import_no_rows_no_clock_and_no_chance(room):
    files = [path for path in modules() if room_of(path) == room]
    assert files
    for path in files:
        assert not {name.split(".")[0] for name in imports(path)} & IMPURE, path


def test_no_file_is_two_rooms():
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_importing_the_package_loads_no_plots_no_command_line_and_no_noise_library():
    code = "import sys, dpsurvey; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"altair", "vl_convert", "jinja2", "typer", "opendp", "dp_accounting", "pyspark", "pandas", "polars"}
    assert "dpsurvey" in loaded


def test_release_noise_comes_from_opendp_and_draws_from_the_cryptographic_generator():
    for path in modules():
        names = set(imports(path))
        if "opendp.prelude" in names:
            assert room_of(path) == "mechanism"
        if "randomgen" in names:
            assert path.name in ("secret.py", "numbers.py")
        uses_seeded_generator = "default_rng" in path.read_text()
        assert not uses_seeded_generator or path.name in SIMULATES, path
