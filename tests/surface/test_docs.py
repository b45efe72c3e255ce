"""README and docs are true: their code runs, their table is the code's answer, their links lead somewhere."""

import re

import pytest

import dpsurvey as ds
from dpsurvey.design import Amplified
from dpsurvey.privacy import all_settings
from dpsurvey.survey.demo import make_register
from tests.surface import docs_runner as run

pytestmark = pytest.mark.quick

DESIGNS = {
    "poisson": ds.poisson(0.1),
    "stratified poisson": ds.stratified("region", within=ds.poisson(0.1)),
    "srs": ds.srs(n=100),
    "stratified srs": ds.stratified("region", within=ds.srs(rate=0.1)),
}


@pytest.fixture
def root(request):
    return request.config.rootpath


def test_the_session_of_the_readme_runs_and_prints_the_table_and_the_guarantee_that_it_shows(root, tmp_path, monkeypatch, capsys):
    (code,) = run.blocks(root / "README.md", "python")
    (shown,) = run.blocks(root / "README.md", "text")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo-out").mkdir()
    make_register(tmp_path / "demo-out" / "register.parquet")
    run.run_python(code, names := {})
    printed = capsys.readouterr().out
    # Estimates and errors are others each time; words, their order and the line of the guarantee are not.
    assert run.without_numbers(printed) == run.without_numbers(shown.text)
    assert printed.splitlines()[-1] == shown.text.splitlines()[-1]
    assert (tmp_path / "lfs-2026q1.html").stat().st_size > 50_000
    drawn = [row for row in names["release"].estimates if row["of"] == "income"]
    assert len(drawn) == 2
    # The estimates shown came from this register: six standard errors of both, a false alarm in a hundred million.
    for row, line in zip(drawn, shown.text.splitlines()[1:], strict=False):
        assert abs(row["estimate"] - float(line.split()[3].replace(",", ""))) < 6 * 2**0.5 * row["se"]


def test_the_other_setting_that_the_readme_names_guarantees_what_it_says(root):
    assert 'ds.Setting("sample", "frame", neighbours="replace-one")' in (root / "README.md").read_text()
    setting = ds.Setting("sample", "frame", neighbours="replace-one")
    frame = ds.Frame("register.parquet", unit="id", size=1_000_000)
    survey = ds.Survey(frame, ds.poisson(rate=0.02), setting, budget=ds.Budget(epsilon=1.0), ledger="x.ledger")
    assert survey.terms.in_sample_budget.epsilon(0.0) == 1.0


def test_the_readme_is_one_page(root):
    assert len((root / "README.md").read_text().splitlines()) <= 100


def test_the_table_of_relations_is_what_the_designs_answer(root):
    frame = ds.Frame("f.parquet", unit="id", size=1000, categories={"region": {"a": 600, "b": 400}})
    page = (run.CONCEPTS / "settings.md").read_text()
    for relation in ("add-remove", "replace-one"):
        for setting in all_settings(relation):
            cells = " | ".join(answer(design.resolve(frame), setting) for design in DESIGNS.values())
            row = f"| {setting.protect} | {setting.given or 'nothing'} | {setting.neighbours} | {cells} |"
            assert row in page


def answer(design, setting):
    if design.refuses(setting):
        return "no guarantee"
    amplified = design.amplify(ds.PrivacyProfile.pure(1.0, design.base_relation(setting)), setting)
    word = "amplifies" if isinstance(amplified, Amplified) else "holds"
    return word + (" (within a public stratum)" if design.relation_name(setting) else "")


def test_every_relative_link_and_picture_exists(root):
    links = [(page, link) for page in run.ALL for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert len(links) > 200
    for page, link in links:
        assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_two_commands_and_the_numbers_of_the_readme(root):
    text = (root / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    both = ds.PrivacyProfile.pure(1.0, "replace-one").compose(ds.PrivacyProfile.pure(2.0, "replace-one"))
    assert f"{both.amplify(0.1).epsilon(0.0):.4f}" in text
    apart = sum(ds.PrivacyProfile.pure(each, "replace-one").amplify(0.1).epsilon(0.0) for each in (1.0, 2.0))
    assert f"{apart:.4f}" in text


def test_every_page_says_first_who_it_is_for():
    # The front page is for everybody, the plan of the code for who changes it, and two pages only include another file.
    apart = ("index.md", "architecture.md", "contributing.md", "changelog.md")
    first = {page: page.read_text().split("\n\n")[1] for page in run.WRITTEN if page.name not in apart}
    assert len(first) > 35
    assert [page.name for page, words in first.items() if not words.startswith("For ")] == []


def test_every_test_file_is_explained_in_one_line(root):
    listed = set(re.findall(r"`([\w/]+\.py)`", (root / "tests" / "README.md").read_text()))
    assert {str(path.relative_to(root / "tests")) for path in (root / "tests").rglob("test_*.py")} == listed
