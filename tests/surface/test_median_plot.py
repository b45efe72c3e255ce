"""The picture of medians by rate shows its table: a panel for each method, a cross for the whole frame, a ring for the least."""

import pytest

from dpsurvey.errors import BadValue
from dpsurvey.planning.medians import median_rates
from dpsurvey.view.median_plots import median_plot, median_plot_rows
from dpsurvey.view.plots import to_svg


@pytest.fixture(scope="module")
def rows():
    ask = {"bounds": (0.0, 500.0), "epsilons": [0.05, 15.0], "rates": [0.1, 0.5, 1.0], "draws": 20}
    return median_rates(range(1, 202), methods=["smooth-as-printed", "exponential"], **ask)


def test_the_table_has_one_least_error_for_each_line_and_leaves_refused_settings_out(rows):
    shown = median_plot_rows(rows)
    lines = {(row["panel"], row["epsilon"]) for row in shown}
    assert lines == {
        ("smooth sensitivity, β as printed", "0.05"),
        ("exponential mechanism", "0.05"),
        ("exponential mechanism", "15"),
    }
    assert any(row["refused"] for row in rows)
    for line in lines:
        own = [row for row in shown if (row["panel"], row["epsilon"]) == line]
        assert [row["whole"] for row in own] == [False, False, True]
        assert [row["log_mse"] for row in own if row["least"]] == [min(row["log_mse"] for row in own)]


def test_the_picture_names_its_methods_and_epsilons(rows):
    picture = to_svg(median_plot(rows, "Medians of a small town"))
    for words in ("Medians of a small town", "exponential mechanism", "β as printed", "log of the mean square error", ">0.05<"):
        assert words in picture


def test_a_picture_of_refused_settings_only_is_refused(rows):
    with pytest.raises(BadValue, match="nothing to draw"):
        median_plot([row for row in rows if row["refused"]])
