"""The house: imports go one way through ten layers, rooms that are pure stay pure, and nothing but rooms stands at the root."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.public import public_names

pytestmark = pytest.mark.quick

PACKAGES = Path(__file__).parents[2] / "src"
SOURCE = PACKAGES / "dpsurvey"
PAPERS = PACKAGES / "dpsurvey_papers"

# A room may import the rooms of the layers above it in this list; rooms of one layer do not know each other.
LAYERS = (
    {"errors", "text"},
    {"privacy"},
    {"loss"},
    {"design", "mechanism"},
    {"statistic"},
    {"engine", "ledger"},
    {"survey"},
    {"planning", "local", "classical"},
    {"view"},
    {"cli"},
)
# Inside a layer: text is refused with errors, and respondents' reports are estimated as answers are without privacy.
NEXT_DOOR = {("text", "errors"), ("local", "classical")}
AT_THE_ROOT = {"__init__.py", "__main__.py", "errors.py", "py.typed"}
# What reads rows, and so decides what is drawn and summed; nothing else uses the engine.
READS_ROWS = {"survey", "planning"}
# The engine gets descriptions of what to draw and to sum, and knows no privacy.
ENGINE_IS_TOLD = {
    "dpsurvey.design.columns",
    "dpsurvey.errors",
    "dpsurvey.design.key",
    "dpsurvey.design.pps_methods",
    "dpsurvey.design.recipe",
    "dpsurvey.statistic.condition",
    "dpsurvey.statistic.encodings",
    "dpsurvey.statistic.exact_totals",
    "dpsurvey.statistic.query",
}
PURE_ROOMS = ("privacy", "loss", "design", "mechanism", "statistic", "classical")
IMPURE = {
    "datetime",
    "duckdb",
    "ibis",
    "logging",
    "pandas",
    "polars",
    "pyarrow",
    "random",
    "secrets",
    "socket",
    "sqlalchemy",
    "time",
}
# A key is made by chance, once; everything drawn by it follows from it.
MAKES_SECRETS = {"dpsurvey.design.key"}
# Simulations that nothing is released from: their seed is fixed, so that a plan always says the same.
SIMULATES = {"demo.py", "simulated_error.py", "simulated_order.py", "median_errors.py", "running_time.py"}
# What a text or a picture is made from: plans, releases and ledgers, and tables that callers give; and libraries to compute with.
VIEW_SEES = {"errors", "text", "privacy", "statistic", "ledger", "survey"}
COMPUTES = {"math", "numpy", "scipy", "statistics", "decimal", "fractions"}


def modules(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        *folders, last = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(folders if last == "__init__" else [*folders, last])] = path
    return found


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import below a node, and whether it stands inside a function; those for type checkers alone are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, inside
        elif is_for_types(child):
            for other in child.orelse:  # type: ignore[attr-defined]
                yield from statements(other, inside)
        else:
            yield from statements(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """Every name that a module imports, as a module where it is one, and whether only inside a function."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node, inside in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
            continue
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base, inside


def room_of(name: str) -> str:
    """The room of a module: the first name below the package; empty for the package itself."""
    return name.split(".")[1] if "." in name else ""


def wrong_imports(package: Path) -> list[str]:
    """Imports that go against the layers, in words."""
    layer = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
    known, found = modules(package), []
    for name, path in known.items():
        room = room_of(name)
        for other, _ in imports(name, path, known):
            if other.split(".")[0] == f"{package.name}_papers":
                found.append(f"{name} imports the papers")
            if other.split(".")[0] != package.name or room_of(other) == room or not room:
                continue
            if (room, room_of(other)) in NEXT_DOOR:
                continue
            if layer.get(room_of(other), len(LAYERS)) >= layer[room]:
                found.append(f"{name} imports {other}")
    return found


def hidden_cycles(package: Path) -> set[tuple[str, str]]:
    """Imports inside a function of a module that, in the end, imports the one it is called from."""
    known = modules(package)
    used = {name: {other for other, _ in imports(name, path, known) if other in known} for name, path in known.items()}

    def reached(start: str) -> set[str]:
        seen, left = set(), [start]
        while left:
            fresh = used[left.pop()] - seen
            seen |= fresh
            left += fresh
        return seen

    late = [(name, other) for name, path in known.items() for other, inside in imports(name, path, known) if inside]
    return {(name, other) for name, other in late if other in known and name in reached(other)}


def strangers_at_the_root(package: Path) -> set[str]:
    """Files at the root that are none of the few, and folders that are no room."""
    rooms = {room for rooms in LAYERS for room in rooms}
    return {
        each.name
        for each in package.iterdir()
        if each.name != "__pycache__" and each.name not in (rooms if each.is_dir() else AT_THE_ROOT)
    }


def beyond_public(package: Path, public: dict[str, set[str]]) -> dict[str, set[str]]:
    """What a package uses of dpsurvey beside its public names, by module."""
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        tree, called = ast.parse(path.read_text(encoding="utf-8")), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                called |= {alias.asname or alias.name for alias in node.names if alias.name == "dpsurvey"}
                for alias in node.names:
                    if alias.name.startswith("dpsurvey."):
                        found.setdefault(alias.name, set()).add("")
            elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "dpsurvey":
                names = {alias.name for alias in node.names} - public.get(str(node.module), set())
                if names:
                    found.setdefault(str(node.module), set()).update(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called:
                found.setdefault("dpsurvey", set()).update({node.attr} - public["dpsurvey"])
    return {module: names for module, names in found.items() if names}


def test_imports_go_one_way():
    assert wrong_imports(SOURCE) == []


def test_there_are_at_most_ten_layers():
    assert len(LAYERS) <= 10
    assert {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"} == set().union(*LAYERS) - {"errors"}


def test_nothing_but_rooms_stands_at_the_root():
    assert strangers_at_the_root(SOURCE) == set()


def test_no_import_inside_a_function_hides_a_cycle():
    assert hidden_cycles(SOURCE) == set()


@pytest.fixture
def house(tmp_path):
    """A small house that keeps the rules: a design, a survey that uses it, and a view of the survey."""
    package = tmp_path / "dpsurvey"
    for name, text in {
        "__init__.py": "from .survey.plan import Plan\n",
        "errors.py": "class SurveyError(Exception): ...\n",
        "text/__init__.py": "from ..errors import SurveyError\n",
        "design/__init__.py": "from ..errors import SurveyError\n",
        "survey/__init__.py": "",
        "survey/plan.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..view.plots import plot\n",
        "view/__init__.py": "",
        "view/plots.py": "from ..survey.plan import Plan\n",
    }.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


def test_a_house_that_keeps_the_rules_passes(house):
    assert (wrong_imports(house), hidden_cycles(house), strangers_at_the_root(house)) == ([], set(), set())


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("design/__init__.py", "from ..survey.plan import Plan", "dpsurvey.design imports dpsurvey.survey.plan"),
        ("design/__init__.py", "from .. import survey", "dpsurvey.design imports dpsurvey.survey"),
        ("design/__init__.py", "import dpsurvey.view.plots", "dpsurvey.design imports dpsurvey.view.plots"),
        ("survey/plan.py", "def show():\n    from ..view.plots import plot", "dpsurvey.survey.plan imports dpsurvey.view.plots"),
        ("errors.py", "from .text import layout", "dpsurvey.errors imports dpsurvey.text"),
        ("design/__init__.py", "from ..mechanism import Laplace", "dpsurvey.design imports dpsurvey.mechanism"),
        ("view/plots.py", "from .. import Plan", "dpsurvey.view.plots imports dpsurvey"),
        ("view/plots.py", "import dpsurvey_papers", "dpsurvey.view.plots imports the papers"),
        (
            "survey/plan.py",
            "if not TYPE_CHECKING:\n    from ..view import plots",
            "dpsurvey.survey.plan imports dpsurvey.view.plots",
        ),
    ],
    ids=[
        "up",
        "the room itself",
        "by its whole name",
        "in a function",
        "text",
        "next door",
        "the root",
        "papers",
        "not for types",
    ],
)
def test_an_import_against_the_layers_is_found(house, file, line, found):
    with (house / file).open("a") as text:
        text.write(f"{line}\n")
    assert wrong_imports(house) == [found]


def test_a_cycle_that_a_late_import_hides_is_found(house):
    (house / "survey" / "release.py").write_text("def plan():\n    from .plan import Plan\n")
    assert hidden_cycles(house) == set()
    (house / "survey" / "plan.py").write_text("from .release import plan\n")
    assert hidden_cycles(house) == {("dpsurvey.survey.release", "dpsurvey.survey.plan")}


@pytest.mark.parametrize("name", ["helpers.py", "misc"])
def test_a_module_or_a_folder_that_is_no_room_is_found(house, name):
    (house / name).mkdir() if name == "misc" else (house / name).touch()
    assert strangers_at_the_root(house) == {name}


def test_the_papers_use_public_names_only():
    assert beyond_public(PAPERS, public_names()) == {}


def test_a_private_name_in_a_paper_is_found(tmp_path):
    (tmp_path / "paper.py").write_text(
        "import dpsurvey as ds\nfrom dpsurvey import srs, design\nfrom dpsurvey.text.layout import given_text, text_table\n"
        "ds.poisson, ds.engine\n"
    )
    found = beyond_public(tmp_path, public_names())
    assert found == {"dpsurvey": {"design", "engine"}, "dpsurvey.text.layout": {"given_text"}}


def test_the_engine_reads_descriptions_and_knows_no_privacy():
    known = modules(SOURCE)
    told = {other for name, path in known.items() if room_of(name) == "engine" for other, _ in imports(name, path, known)}
    assert {name for name in told if name.split(".")[0] == "dpsurvey" and room_of(name) != "engine"} <= ENGINE_IS_TOLD


def test_only_what_reads_rows_uses_the_engine():
    known = modules(SOURCE)
    used = {(room_of(name), room_of(other)) for name, path in known.items() for other, _ in imports(name, path, known)}
    assert {room for room, other in used if other == "engine"} - {"engine"} <= READS_ROWS


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_pure_rooms_import_no_rows_no_clock_and_no_chance(room):
    known = modules(SOURCE)
    own = {name: path for name, path in known.items() if room_of(name) == room and name not in MAKES_SECRETS}
    assert own
    for name, path in own.items():
        assert not {other.split(".")[0] for other, _ in imports(name, path, known)} & IMPURE, path


def test_what_is_looked_at_is_given_its_figures_and_computes_none():
    known = modules(SOURCE)
    for name, path in known.items():
        if room_of(name) == "view":
            used = {other for other, _ in imports(name, path, known)}
            assert not {other.split(".")[0] for other in used} & COMPUTES, path
            assert {room_of(other) for other in used if other.split(".")[0] == "dpsurvey"} <= VIEW_SEES | {"view"}, path


def test_importing_the_package_loads_no_plots_no_command_line_and_no_noise_library():
    code = "import sys, dpsurvey; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"altair", "vl_convert", "jinja2", "typer", "opendp", "dp_accounting", "pyspark", "pandas", "polars"}
    assert "dpsurvey" in loaded


def test_release_noise_comes_from_opendp_and_draws_from_the_cryptographic_generator():
    known = modules(SOURCE)
    for name, path in known.items():
        used = {other for other, _ in imports(name, path, known)}
        if "opendp.prelude" in used:
            assert room_of(name) == "mechanism"
        if "randomgen" in used:
            assert path.name in ("generator.py", "keyed_list.py")
        uses_seeded_generator = "default_rng" in path.read_text(encoding="utf-8")
        assert not uses_seeded_generator or path.name in SIMULATES, path
