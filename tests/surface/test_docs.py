"""README and docs are true: their code runs, their table is the code's answer, their links lead somewhere."""

import re

import pytest

import dpsurvey as ds
from dpsurvey.cli.demo import make_register
from dpsurvey.design import Amplified
from dpsurvey.privacy import all_settings

DESIGNS = {
    "poisson": ds.poisson(0.1),
    "stratified poisson": ds.stratified("region", within=ds.poisson(0.1)),
    "srs": ds.srs(n=100),
    "stratified srs": ds.stratified("region", within=ds.srs(rate=0.1)),
}


@pytest.fixture
def root(request):
    return request.config.rootpath


def test_the_python_example_of_the_readme_runs_and_prints_its_guarantee(root, tmp_path, monkeypatch, capsys):
    text = (root / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.S)
    guaranteed = re.search(r"^Anyone on the frame: .*$", text, re.M)
    assert len(code) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo-out").mkdir()
    make_register(tmp_path / "demo-out" / "register.parquet")
    exec(compile(code[0], "README.md", "exec"), names := {})
    printed = capsys.readouterr().out.splitlines()
    assert guaranteed is not None
    assert printed[-1] == guaranteed.group()
    assert (tmp_path / "lfs-2026q1.html").stat().st_size > 50_000
    # The plan notes that its setting goes against a recommendation, and the page says why it is right here.
    plan = names["plan"]
    assert any("against a recommendation" in note for note in plan.advice)
    assert "goes against a recommendation" in text
    assert plan.facts.weights == (50.0, 50.0)
    assert not plan.facts.weights_move
    assert plan.terms.in_sample_budget.epsilon(0.0) > 4.0


def test_the_table_of_relations_is_what_the_designs_answer(root):
    frame = ds.Frame("f.parquet", unit="id", size=1000, categories={"region": {"a": 600, "b": 400}})
    page = (root / "docs" / "settings.md").read_text()
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
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert len(links) > 10
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


def test_every_test_file_is_explained_in_one_line(root):
    listed = set(re.findall(r"`([\w/]+\.py)`", (root / "tests" / "README.md").read_text()))
    assert {str(path.relative_to(root / "tests")) for path in (root / "tests").rglob("test_*.py")} == listed
