"""The public names are those on the list, each with a docstring and a worked example."""

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS, amplify_profile
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.statistic import STATISTICS

pytestmark = pytest.mark.quick

# Names that users rely on, beside the designs and statistics on their lists: none of them goes away.
KEPT = {
    *("Budget", "Frame", "Guarantee", "Key", "Ledger", "Plan", "PrivacyProfile", "Release", "Setting", "Survey", "SurveyError"),
    *("allocate", "allocate_from_frame", "compare_allocations", "release_source", "stratum_deviations"),
    *("amplify", "invert", "panel_start", "Panel", "panel", "verify_ledger", "local", "planning", "Fieldwork"),
}
# Survey.collected describes such a file.
LISTED = {each.name: each.make for kinds in (DESIGNS, STATISTICS) for each in kinds.values() if each.name != "collected"}
PUBLIC = set(ds.__all__) | set(LISTED)
# Pages about one design inside another.
OF_DESIGNS_TOGETHER = {"pps-cluster", "two-stage"}
LOCAL = {
    *("Chance", "DirectResponse", "coin", "fraction"),
    *(
        "Grid",
        "LocalMechanism",
        "Question",
        "Ranges",
        "SimulatedChance",
        "aggregate",
        "audit",
        "choose",
        "collect",
        "combine",
        "common_respondents",
        "discretise",
        "estimate",
        "every_outcome",
        "form_html",
    ),
    *(
        "generalised",
        "guarded",
        "hashing",
        "leakage",
        "mechanism_from",
        "guarantee",
        "randomize_table",
        "rarest_combination",
        "roster",
        "round_two",
        "sample_size",
    ),
    *("sampling_privacy", "split", "subset", "two_coins", "unary", "warner"),
}
PLANNING = {
    *("allocations", "best_rate", "best_rates", "by_epsilon", "caps", "compare_designs", "compare_settings", "designs_by_rate"),
    *("expecting", "full_frame", "gain_bound", "inflation_bound", "median_rates", "never_gains", "noise_inflation"),
    *("noise_ratio", "private_allocation", "published_values", "rate_for_gain", "rates", "seconds_of_work", "unit_loss_of_total"),
}
# Made by another verb, never called by hand, so their example is that verb's.
MADE_ELSEWHERE = {"Plan", "Release"}
# A room of its own, whose names each have theirs.
ROOMS = {"local", "planning"}


def test_public_names_stay_and_what_is_listed_is_public():
    # What is on a list is public before it has its lines in the package, which are for editors and type checkers.
    assert set(ds.__all__) >= KEPT
    assert all(hasattr(ds, name) for name in PUBLIC)
    assert all(getattr(ds, name) is make for name, make in LISTED.items())


def test_type_checkers_see_the_names_where_they_are_loaded_from():
    """Says the lines of the package that are missing, or too many."""
    (block,) = (each for each in ast.parse(Path(ds.__file__).read_text()).body if isinstance(each, ast.If))
    seen = [
        (each.module or "", alias.name, alias.asname)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    ]
    assert all(name == shown for _, name, shown in seen)
    lines = {f"from .{module} import {name} as {name}" for module, name, _ in seen}
    assert lines == {f"from .{module} import {name} as {name}" for module, names in ds.MODULES.items() for name in names.split()}
    assert len(lines) == len(seen) == len(ds.__all__)


def test_what_the_package_shows_of_itself_is_its_public_names():
    program = "import dpsurvey; print(*dir(dpsurvey))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {*ds.__all__, "__version__"} <= set(shown)


def test_an_amplified_profile_is_read_back_by_a_process_that_has_used_no_design():
    asked = ds.PrivacyProfile.gaussian(0.6, "add-remove")
    written = amplify_profile(ds.proportional(0.1), asked, neighbours="add-remove").to_dict()
    program = f"import dpsurvey as ds; print(ds.PrivacyProfile.from_dict({written!r}).delta(0.5))"
    read = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert float(read) == ds.PrivacyProfile.from_dict(written).delta(0.5)


def test_the_version_is_the_same_wherever_it_is_written(request):
    root = request.config.rootpath
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    cited = [line for line in (root / "CITATION.cff").read_text().splitlines() if line.startswith("version:")]
    assert ds.__version__ == version
    assert cited == [f"version: {version}"]


def test_every_public_name_has_a_docstring_with_an_example():
    for name in PUBLIC:
        text = inspect.getdoc(getattr(ds, name)) or ""
        assert len(text.splitlines()[0]) > 10, name
        assert name in MADE_ELSEWHERE | ROOMS or ">>>" in text, name


def test_the_names_of_local_collection_stay_each_with_an_example():
    assert set(ds.local.__all__) >= LOCAL
    for name in ds.local.__all__:
        text = inspect.getdoc(getattr(ds.local, name)) or ""
        assert len(text.splitlines()[0]) > 10, name
        assert name == "LocalMechanism" or ">>>" in text, name


def test_whatever_is_listed_has_its_section_in_the_docs(request):
    docs = request.config.rootpath / "docs"
    statistics = {each.section for each in STATISTICS.values()}
    for page, listed in (("guides/statistics.md", statistics), ("proofs/mechanisms.md", MECHANISMS)):
        headings = {line.removeprefix("## ").strip() for line in (docs / page).read_text().splitlines() if line.startswith("## ")}
        assert set(listed) == headings, page


def test_every_design_has_its_page_and_every_page_its_design(request):
    pages = {path.stem for path in (request.config.rootpath / "docs" / "designs").glob("*.md")} - {"README"}
    assert {each.page for each in DESIGNS.values()} | OF_DESIGNS_TOGETHER == pages


def test_the_names_of_planning_stay_each_with_an_example():
    assert set(ds.planning.__all__) >= PLANNING
    for name in ds.planning.__all__:
        text = inspect.getdoc(getattr(ds.planning, name)) or ""
        assert len(text.splitlines()[0]) > 10, name
        assert ">>>" in text, name
