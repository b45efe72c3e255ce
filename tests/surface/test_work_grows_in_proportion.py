"""Memory of a plan grows with its groups, work and memory of a ledger's tree with its samples, and neither with their square.

Nothing here is timed: bytes and bytecodes are counted.
"""

import math
import sys
import tracemalloc

import pytest

import dpsurvey as ds
from dpsurvey.view.ledger_text import tree_text

# Four times as much may cost so many times as much; what grows with the square costs sixteen times as much.
AT_MOST = 6.0
BOUNDS = (0, 100)
DESIGNS = {
    "srs": lambda groups: ds.srs(n=50 * groups),
    "poisson": lambda groups: ds.poisson(0.05),
    "clusters": lambda groups: ds.cluster("psu", ds.srs(n=50), clusters=500),
    "strata": lambda groups: ds.stratified("group", within=ds.srs(n=50)),
    "poisson in strata": lambda groups: ds.stratified("group", within=ds.poisson(0.05)),
}


def a_plan(design, groups, *statistics):
    frame = ds.Frame("register.parquet", "id", 1000 * groups, {"group": {f"g{place}": 1000 for place in range(groups)}}, ["psu"])
    return ds.Survey(frame, DESIGNS[design](groups), budget=ds.Budget(1.0), ledger="unused.ledger").plan(*statistics)


def peak(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("design", DESIGNS)
def test_the_memory_of_a_plan_grows_with_its_groups_and_not_with_their_square(design):
    asked = [ds.ratio("food", "income", bounds=BOUNDS, to_bounds=BOUNDS, by="group")]
    if design in ("srs", "strata"):
        # Elsewhere a share of all units depends on all groups; beyond some hundred its error is the release's own.
        asked.append(ds.count(by="group"))
    # Loaded modules and filled caches are not counted; errors of up to sixty groups are simulated.
    str(a_plan(design, 65, *asked))
    # Numbers of clusters whose standard errors are bought look at all groups at once, and are no more than some hundred.
    sizes, most = ((70, 280), 5e6) if design != "clusters" else ((500, 2000), 2e7)
    few, many = (peak(lambda groups=groups: str(a_plan(design, groups, *asked))) for groups in sizes)
    assert many < AT_MOST * few
    assert many < most


def a_ledger(folder, samples):
    setting = ds.Setting("frame", neighbours="add-remove")
    frame = ds.Frame("register.parquet", unit="id", size=10_000)
    path = folder / f"{samples}.ledger"
    terms = ds.Survey(frame, ds.poisson(0.02), setting, budget=ds.Budget(1e6), ledger=path).terms
    with ds.Ledger(path) as ledger:
        ledger.open_survey(terms)
        for number in range(samples):
            ledger.book("survey", ds.PrivacyProfile.pure(0.1 + number * 1e-3, "add-remove"), f"number {number}")
    return path


def bytecodes(work):
    """How many bytecodes of the package some work takes."""
    count = 0

    def step(frame, event, argument):
        nonlocal count
        count += event == "opcode"
        return step

    def call(frame, event, argument):
        if "dpsurvey" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        return step

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_work_of_a_ledgers_tree_grows_with_its_samples_and_not_with_their_square(tmp_path):
    counted = []
    for samples in (30, 120):
        with ds.Ledger(a_ledger(tmp_path, samples)) as ledger:
            tree_text(ledger.tree())
            counted.append(bytecodes(lambda ledger=ledger: tree_text(ledger.tree())))
            view = ledger.tree()["accounts"][0]
        # The figure itself is the largest of all sums, each added up by itself.
        lines = view["lines"]
        sums = [line["epsilon_in_sample"] + math.fsum(other["epsilon"] for other in lines if other is not line) for line in lines]
        assert view["epsilon_in_sample"] == pytest.approx(max(sums), rel=1e-12)
        assert view["epsilon_in_sample"] >= max(sums)
    assert counted[0] > 30 * 100, "bytecodes are counted"
    assert counted[1] < AT_MOST * counted[0]
