"""The gallery of the documentation is what the code finds: its pages are those of its records, its records those of a run."""

import json
import re

import pytest

import dpsurvey_papers as papers
from dpsurvey_papers.gallery import errata_of, page_texts


@pytest.fixture(scope="module")
def docs(request):
    return request.config.rootpath / "docs"


@pytest.fixture(scope="module")
def records(docs):
    return json.loads((docs / "papers" / "records.json").read_text(encoding="utf-8"))


def test_the_pages_are_written_from_the_records(docs, records):
    texts = page_texts(records, (docs / "papers" / "errata.md").read_text(encoding="utf-8"))
    assert set(texts) == {"README.md", "000.md", "001.md", "002.md", "003.md", "004.md"}
    for name, text in texts.items():
        assert (docs / "papers" / name).read_text(encoding="utf-8") == text, name


def test_the_records_are_those_of_a_full_run_and_a_new_run_finds_the_same(quick, records):
    assert [each["id"] for each in records] == list(quick.records)
    for record in records:
        assert not record["quick"]
        fresh = quick.records[record["id"]]
        # A quick run simulates less; what it cannot tell apart may be worded with fewer words, but never differs.
        assert (record["word"], record["where"], record["title"]) == (fresh["word"], fresh["where"], fresh["title"])
        for old, new in zip(record["figures"], fresh["figures"], strict=True):
            assert (old["name"], old["printed"], old["right"]) == (new["name"], new["printed"], new["right"])
            if old["low"] is None:
                # Another machine's linear programmes may differ behind the sixth digit.
                same = old["computed"] == new["computed"] or new["computed"] == pytest.approx(old["computed"], rel=1e-5)
                assert same, (record["id"], old["name"])
            else:
                assert old["low"] <= new["high"]
                assert new["low"] <= old["high"]


def test_every_picture_of_the_gallery_exists_and_none_is_left_over(docs, records):
    shown_here = {each["picture"] for each in records}
    assert {path.name for path in (docs / "papers" / "images").iterdir()} == shown_here
    assert {path.stem for path in (docs / "papers" / "thumbnails").iterdir()} == {each["id"] for each in records}


def test_every_erratum_of_a_paper_is_shown_by_an_item_and_every_item_names_errata_that_exist(docs):
    text = (docs / "papers" / "errata.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^### ([A-Z]\d+)\.", text, re.M))
    named = {mark for item in papers.items() for mark in errata_of(item.id)}
    # N1 and N2 are forms that nobody printed.
    assert named == sections - {"N1", "N2"}
