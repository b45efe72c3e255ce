"""An error while noise is added leaves no exact sum in a message or in a frame of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpsurvey as ds
from tests.leaks import test_canaries as canaries

# Ibis uses an option of pandas that is on its way out; nothing of ours does.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")]
HERE = Path(__file__).parent


def a_file(table: Any, folder: Path, name: str = "file", **more: Any) -> ds.Survey:
    return ds.Survey.collected(table, budget=ds.Budget(1.0), ledger=folder / "books.ledger", name=name, **more)


@pytest.fixture
def survey_of_counts(tmp_path: Path) -> ds.Survey:
    """1999 and 1000 records: numbers that occur nowhere else."""
    rows = pd.DataFrame({"sex": ["female"] * 1999 + ["male"] * 1000, "y": 1.0})
    return a_file(rows, tmp_path, n=2999, size=29990, categories={"sex": ["female", "male"]})


EXACT = {"1999", "1000"}


@pytest.mark.parametrize("error", [ValueError, ds.SurveyError, MemoryError, KeyboardInterrupt])
def test_an_error_of_the_noise_leaves_no_exact_figure_in_any_frame(
    error: type[BaseException], survey_of_counts: ds.Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of the mechanism held the rows they were given, for every debugger and crash report to show."""
    import opendp.measurements

    honest, calls = opendp.measurements.make_laplace, []

    def fails(*given: Any, **named: Any) -> Any:
        # The first noise is tried on sums of zero, before anything is spent.
        calls.append(1)
        if len(calls) == 1:
            return honest(*given, **named)
        raise error("out of order")

    plan = survey_of_counts.plan(ds.table("sex"))
    monkeypatch.setattr("opendp.measurements.make_laplace", fails)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else ds.SurveyError) as caught:
        plan.release()
    assert len(calls) == 2
    shown = canaries.locals_of_the_package(caught.value)
    assert canaries.whole_numbers(shown + canaries.said_by(caught.value)) & EXACT == set()


def test_frames_of_a_mechanism_that_fails_alone_do_hold_them(
    survey_of_counts: ds.Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("out of order")

    plan = survey_of_counts.plan(ds.table("sex"))
    monkeypatch.setattr("opendp.measurements.make_laplace", fails)
    with pytest.raises(ValueError) as caught:
        plan.items[0].mechanism.answer([[1999], [1000]])
    assert canaries.whole_numbers(canaries.locals_of_the_package(caught.value)) >= EXACT
