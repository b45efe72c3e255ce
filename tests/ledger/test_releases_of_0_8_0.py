"""Releases that 0.8.0 saved are read, and their estimates computed again from their noisy sums."""

import json
from pathlib import Path

import pytest

import dpsurvey as ds
from dpsurvey.privacy import Guarantee
from dpsurvey.text.layout import ceiling_text

pytestmark = pytest.mark.quick

# Of a made-up register of 600 persons, one document for each kind of statistic under several designs.
SAVED = json.loads((Path(__file__).parent / "written_by_0_8_0" / "releases.json").read_text())


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_release_is_read_and_its_estimates_are_the_same(name, tmp_path):
    path = tmp_path / "release.json"
    path.write_text(json.dumps(SAVED[name]))
    release = ds.Release.load(path)
    again = release.recompute()
    # The name of a difference says "minus" by now.
    assert [(row["statistic"], row["label"], row["by"]) for row in again] == [
        (row["statistic"], row["label"].replace(" less ", " minus "), row["by"]) for row in release.estimates
    ]
    for now, then in zip(again, release.estimates, strict=True):
        if now["statistic"] == "table" and now["by"].get("works") == "all" and now["by"].get("region") != "all":
            # Its size is declared, and since then it is what is declared.
            assert now["se_noise"] == 0.0 or "colpsu" in name or "colstrata" in name
            continue
        assert now["estimate"] == pytest.approx(then["estimate"], rel=1e-9)
        assert now["se_noise"] == pytest.approx(then["se_noise"], rel=1e-6, abs=1e-12)
        assert now["quality"] == then["quality"]


def test_marks_of_saved_releases_are_read_as_quality_flags(tmp_path):
    names = {"good": "publish", "fair": "with caution", "poor": "unreliable"}
    found = set()
    for document in SAVED.values():
        release = ds.Release(document)
        for row, saved in zip(release.estimates, document["estimates"], strict=True):
            assert row["quality"] == names[saved["mark"]]
            assert "mark" not in row
            found.add(saved["mark"])
        assert list(release.to_arrow()["quality"].to_pylist()) == [row["quality"] for row in release.estimates]
    assert found == set(names)


def test_a_saved_release_becomes_a_report(tmp_path):
    name = "srs/mean"
    page = ds.Release(SAVED[name]).save(tmp_path / "report.html").read_text()
    assert "income" in page
    inside = (SAVED[name]["ledger"]["samples"][0]["in_sample"], SAVED[name]["guarantee"]["known_in_sample"]["epsilon"])
    assert all(ceiling_text(each) in page for each in inside)


@pytest.mark.parametrize("name", SAVED)
def test_the_in_sample_epsilon_of_a_saved_guarantee_is_read(name):
    fields = SAVED[name]["guarantee"]
    again = Guarantee.from_dict(fields).to_dict()
    assert again["in_sample"] == pytest.approx(fields["known_in_sample"], rel=1e-12)
    assert again["epsilon_in_worst_sample"] == fields["known"]
    assert Guarantee.from_dict(again) == Guarantee.from_dict(fields)
    two = Guarantee.from_dict(fields | {"elsewhere": 0.5, "known": 70.0})
    assert two.in_sample[0] == Guarantee.from_dict(two.to_dict()).in_sample[0] == 70.0
