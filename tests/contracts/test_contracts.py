"""Everything on the lists of designs, statistics and mechanisms keeps its contract."""

import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS, collected
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.statistic import STATISTICS
from tests.contracts import contracts

pytestmark = pytest.mark.quick

# One small design of each kind, whose worst case is found by a linear programme where the design can write it down.
EXAMPLES = {
    "srs": ds.srs(n=2, size=5),
    "poisson": ds.poisson(0.2),
    "poisson-by": ds.poisson_by("rate", at_most=0.4),
    "systematic": ds.systematic(n=2, order="random", size=6),
    "with-replacement": ds.with_replacement(n=2, size=4),
    "proportional": ds.proportional(0.3, size=5),
    "pps": ds.pps("x", n=2, method="sampford", at_most=0.6),
    "cluster": ds.cluster("psu", ds.srs(n=1, size=3), sizes=(1, 2, 2), unit_in=1),
    "stages": ds.stages(ds.cluster("psu", ds.srs(n=2, size=4)), ds.poisson(0.5)),
    "stratified": ds.stratified("region", within={"north": ds.srs(n=1, size=3), "south": ds.poisson(0.5)}),
    "collected": collected(weights="w", weights_are="design"),
    "size-rule": ds.size_rule([(3, 1, 1.0), (4, 1, 0.5), (4, 2, 0.5)]),
    "confidential-allocation": ds.confidential_allocation(10),
    "random-size": ds.random_size(5, binomial=0.4),
    "respondents": ds.respondents(at_most=0.6, moved="add-remove"),
    "responding": ds.responding(ds.srs(n=2, size=5), at_most=0.6),
    "covered": ds.covered(ds.poisson(0.2), at_most=0.9),
    "group": ds.group(ds.srs(n=2, size=5), units=2),
}
# Kinds that no mechanism on the sample is amplified by, under any relation.
NEVER = {"collected", "confidential-allocation"}


def test_every_kind_of_design_has_an_example():
    assert set(EXAMPLES) == set(DESIGNS)


@pytest.mark.parametrize("kind", DESIGNS)
def test_every_design_keeps_the_contract(kind):
    shown = contracts.check_design(EXAMPLES[kind])
    assert (shown == 0) == (kind in NEVER)


@pytest.mark.parametrize("kind", STATISTICS)
def test_every_statistic_keeps_the_contract(kind, tmp_path):
    contracts.check_statistic(contracts.example_of(kind), contracts.facts_of(ds.poisson(0.1)))
    contracts.check_release(contracts.example_of(kind), tmp_path)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_mechanism_keeps_the_contract(kind):
    contracts.check_mechanism(MECHANISMS[kind])
