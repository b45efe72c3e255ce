"""What a plan advises: nothing is gained from a bias, hints say what they would do for, rates are those that were asked for."""

import pytest

import dpsurvey as ds
from dpsurvey import planning
from dpsurvey.errors import BadValue, Refusal
from tests.surface.planned import TO_FRAME, a_survey

pytestmark = pytest.mark.quick


def test_the_bias_of_a_choice_counts_and_no_gain_is_made_of_it():
    gap = {0.25: 0.05, 0.499: 0.1, 0.5: 0.1001, 0.502: 0.9, 0.75: 0.95}
    frame = ds.Frame("not there.parquet", unit="id", size=10_001)
    survey = ds.Survey(frame, ds.srs(n=1001), TO_FRAME, budget=ds.Budget(0.1), ledger="not there.ledger")
    rows = planning.rates(survey.plan(ds.median("y", bounds=(0, 1), method="exponential", expect=gap)), at=[0.5, 0.95, 1.0])
    assert planning.best_rate(rows)["gain"] is False
    # Its root mean square error, a little above 0.40, not its spread of 0.23.
    assert 0.35 < next(row["se"] for row in rows if row["rate"] == 1.0 and row["of"]) < 0.45
    assert all(row["no_gain"] is None for row in rows)


def test_the_hint_says_whom_an_epsilon_would_do_for():
    plan = a_survey(ds.poisson(0.05), ds.Setting("frame", neighbours="add-remove"), epsilon=0.01)
    both = plan.plan(ds.proportion("z", "yes", by="h", expect=0.3), ds.count(by="h"))
    with pytest.raises(Refusal) as caught:
        both.aim({"z": 0.06})
    assert "for these alone" in str(caught.value)
    alone = plan.plan(ds.proportion("z", "yes", by="h", expect=0.3))
    with pytest.raises(Refusal) as caught:
        alone.aim({"z": 0.06})
    assert "for these alone" not in str(caught.value)


def test_margins_that_noise_alone_would_meet_and_things_of_the_wrong_kind_are_refused():
    plan = a_survey().plan(ds.proportion("z", "yes", expect=0.3))
    with pytest.raises(BadValue, match="by noise alone"):
        plan.aim({"z": 1e9})
    for wrong in (lambda: planning.expecting(plan, "r.json"), lambda: planning.by_epsilon(plan, at=["a"])):
        with pytest.raises(BadValue):
            wrong()
    with pytest.raises(BadValue, match=r"ds\.Fieldwork"):
        a_survey().plan(ds.proportion("z", "yes"), fieldwork="x")
    for shares in ([0.5, 0.5], [1.5], [0.0]):
        with pytest.raises(BadValue):
            plan.with_shares(shares)


def test_advice_speaks_of_the_rates_that_were_asked_for():
    rows = planning.rates(a_survey(ds.srs(n=500)).plan(ds.mean("y", bounds=(0, 100), expect=(50, 20))), at=[0.01, 0.1])
    assert planning.best_rate(rows)["advice"].startswith("draw as many as you can: at rate 0.1")
