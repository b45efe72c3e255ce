"""What several test files share: servers, started once in a run when the first test asks, and how Hypothesis searches."""

import functools
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.testing
from hypothesis import settings

# The same examples in every run: a failure is found by whoever wrote the change, and not by chance later.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# The command line is built once in a run: it takes longer than most commands.
typer.testing._get_command = functools.cache(typer.testing._get_command)

servers = SimpleNamespace(**runpy.run_path(str(Path(__file__).parent / "engines" / "servers.py")))


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL server."""
    if missing := servers.no_postgres():
        pytest.skip(missing)
    with servers.postgres_server() as address:
        yield address


@pytest.fixture(scope="session")
def spark():
    """The Spark session of the run."""
    if missing := servers.no_spark():
        pytest.skip(missing)
    with servers.spark_session() as session:
        yield session


# Longer siblings of tests that run anyway: the same property on one more engine, design, mechanism or moment.
ONE_MORE = (
    "test_every_engine_draws_what_the_oracle_draws[spark: pps systematic with certain units]",
    "test_every_engine_draws_what_the_oracle_draws[spark: clusters by pps]",
    "test_sums_are_those_of_the_oracle_to_the_last_step[csv]",
    "test_sums_are_those_of_the_oracle_to_the_last_step[arrow]",
    "test_private_intervals_cover_what_they_say_or_what_the_classical_ones_do[two-stage-5.0]",
    "test_private_intervals_cover_what_they_say_or_what_the_classical_ones_do[cluster-5.0]",
    "test_choices_follow_the_exponential_law_and_no_law_that_is_30_percent_off[zcdp",
    "test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it[coverage-1]",
    "test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it[independent-1]",
    "test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it[by_size-1]",
    "test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it[responding-1]",
    "test_no_bound_is_below_the_worst_case_and_exact_ones_equal_it[two_stage-1]",
    "test_any_two_neighbours_stay_within_the_sensitivity[L2]",
    "test_units_and_pairs_are_drawn_as_often_as_stated_and_three_percent_off_is_rejected[sampford]",
    "test_a_killed_process_leaves_no_sample_and_the_next_draw_works[after the write]",
    "test_a_draw_from_fifty_million_rows_fits_in_300_megabytes_and_hands_python_no_row[stratified",
    "test_srs_is_uniform_over_all_subsets_even_to_a_sharper_test",
    "test_the_start_in_a_cluster_is_another_one_than_the_start_among_clusters",
    "test_extreme_rates_are_answered_in_seconds[compare designs --rate 1e-9 --epsilon 1]",
    "test_extreme_rates_are_answered_in_seconds[compare designs --rate 0.1 --epsilon 1e-12]",
    "test_stratified_srs_is_uniform_over_all_allowed_samples[after tries with too few candidates]",
    "test_at_a_huge_epsilon_a_release_is_the_classical_answer_and_all_of_it_can_be_checked_again[pps of clusters]",
    "test_at_a_huge_epsilon_a_release_is_the_classical_answer_and_all_of_it_can_be_checked_again[strata of clusters]",
    "test_choices_follow_the_exponential_law_and_no_law_that_is_30_percent_off[pure-a sensitivity of 3]",
    "test_slots_that_agree_do_not_make_an_interval_narrower_than_the_noise[asked2]",
    "test_every_engine_draws_what_the_oracle_draws[spark: one cluster of each stratum, then households of a sorted list]",
    "test_choices_follow_the_exponential_law_and_no_law_that_is_30_percent_off[pure-ranks]",
    "test_pairs_that_are_off_are_rejected_though_every_unit_is_right[sampford]",
    "test_units_and_pairs_are_drawn_as_often_as_stated_and_three_percent_off_is_rejected[conditional-poisson]",
    "test_a_release_killed_at_any_moment_is_counted_once_it_was_reserved[6-sealed and anchored]",
    "test_sixteen_processes_that_make_one_ledger_make_one[postgresql]",
    "test_every_design_plans_under_every_setting_that_it_allows_and_refuses_the_others[stratified srs-1e-06]",
    "test_at_a_huge_epsilon_a_release_is_the_classical_answer_and_all_of_it_can_be_checked_again[cluster]",
    "test_at_a_huge_epsilon_a_release_is_the_classical_answer_and_all_of_it_can_be_checked_again[with-replacement]",
    "test_a_release_of_a_collected_file_is_silent_about_its_rows[weights in memory]",
    "test_private_intervals_cover_what_they_say_or_what_the_classical_ones_do[stratified, proportional-5.0]",
    "test_units_and_pairs_are_drawn_as_often_as_the_law_says_with_weights_that_are_right[two stages, the first with replacement]",
    "test_units_and_pairs_are_drawn_as_often_as_the_law_says_with_weights_that_are_right[repeated]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests that share something long to make share a process too; longer siblings run with all tests only."""
    for item in items:
        if "spark" in item.nodeid.lower():
            item.add_marker(pytest.mark.xdist_group("spark"))
        # One quick run of the papers, one built site of the documentation.
        for shared in {"quick", "site"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(shared))
        if any(name in item.nodeid for name in ONE_MORE):
            item.add_marker(pytest.mark.slow)
