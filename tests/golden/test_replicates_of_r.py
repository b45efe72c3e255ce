"""At a huge epsilon, estimates and standard errors from replicate weights are R survey's: BRR, Fay's method and JKn of one file.

R varies the ratio itself with each replicate, where a norm takes its residuals at the estimate: standard errors agree within 5 %.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpsurvey as ds
from dpsurvey.statistic import Statistic

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "replicates.json").read_text())["cases"]
METHODS: dict[str, dict[str, Any]] = {
    "brr": {"replicate_method": "BRR"},
    "fay05": {"replicate_method": "Fay", "fay_rho": 0.5},
    "jkn": {"replicate_method": "JKn", "replicate_scales": [0.5] * 24},
}
STRATA = [str(place) for place in range(1, 13)]
ASKED: dict[str, Statistic] = {
    "mean": ds.mean("y", bounds=(0, 512)),
    "total": ds.total("y", bounds=(0, 512)),
    "ratio": ds.ratio("y", "x", bounds=(0, 512), to_bounds=(0, 512)),
    "median": ds.median("y", bounds=(0, 340), leaves=1024),
}


@pytest.fixture(scope="module", params=METHODS)
def released(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """The estimates of all four statistics with one set of replicate weights."""
    rows = pd.read_csv(HERE / "synth_brr.csv").astype({"pstratum": str})
    weights = pd.read_csv(HERE / f"synth_brr_repweights_{request.param}.csv")
    survey = ds.Survey.collected(
        pd.concat([rows, weights], axis=1),
        strata="pstratum",
        psu="cluster",
        weights="w",
        weights_are="design",
        weight_range=(10, 10),
        categories={"pstratum": STRATA},
        replicates="rw[0-9]+",
        budget=ds.Budget(4e5),
        ledger=tmp_path_factory.mktemp("books") / "r.ledger",
        **METHODS[request.param],
    )
    release = survey.plan(*ASKED.values()).release()
    assert release.recompute() == release.estimates
    return request.param, {row["statistic"]: row for row in release.estimates}


@pytest.mark.parametrize("kind", ASKED)
def test_estimates_and_standard_errors_are_r_surveys(released: tuple[str, Any], kind: str) -> None:
    method, found = released
    (case,) = [each for each in CASES if each["id"] == f"synth_brr_{method}_{kind}"]
    own = found["quantile" if kind == "median" else kind]
    # A quantile is of a tree, whose leaves are a third wide here.
    within = {"abs": 0.5} if kind == "median" else {"rel": 1e-3}
    assert own["estimate"] == pytest.approx(case["result"]["estimate"], **within)
    if kind != "median":
        # R's error of a median is the spread of the medians of replicates; here it is Woodruff's.
        assert own["se_sampling"] == pytest.approx(case["result"]["se"], rel=0.05)
        assert own["df"] == case["result"]["df"]
        half = 0.5 * (own["ci_high"] - own["ci_low"])
        assert half == pytest.approx(0.5 * (case["result"]["ci_t_high"] - case["result"]["ci_t_low"]), rel=0.06)
    else:
        assert own["se_sampling"] == pytest.approx(case["result"]["se"], rel=0.35)


def test_no_case_is_left_out() -> None:
    assert sorted(each["id"] for each in CASES) == sorted(f"synth_brr_{method}_{kind}" for method in METHODS for kind in ASKED)
