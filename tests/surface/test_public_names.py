"""The public names are those on the list, each with a docstring and a worked example."""

import inspect

import dpsurvey as ds
from dpsurvey.design import DESIGNS
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.statistic import STATISTICS

PUBLIC = {
    *("Budget", "Frame", "Guarantee", "Ledger", "Plan", "PrivacyProfile", "Release", "Setting", "Survey", "SurveyError"),
    *("amplify", "count", "invert", "mean", "poisson", "proportion", "srs", "stratified", "total"),
}
# Made by another verb, never called by hand, so their example is that verb's.
MADE_ELSEWHERE = {"Plan", "Release"}


def test_the_public_names_are_exactly_these():
    assert set(ds.__all__) == PUBLIC
    assert all(hasattr(ds, name) for name in PUBLIC)


def test_every_public_name_has_a_docstring_with_an_example():
    for name in PUBLIC:
        text = inspect.getdoc(getattr(ds, name)) or ""
        assert len(text.splitlines()[0]) > 10, name
        assert name in MADE_ELSEWHERE or ">>>" in text, name


def test_whatever_is_listed_has_its_section_in_the_docs(request):
    docs = request.config.rootpath / "docs"
    for page, listed in (("designs.md", DESIGNS), ("statistics.md", STATISTICS), ("mechanisms.md", MECHANISMS)):
        headings = {line.removeprefix("## ").strip() for line in (docs / page).read_text().splitlines() if line.startswith("## ")}
        assert set(listed) == headings, page
