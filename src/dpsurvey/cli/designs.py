"""The designs of `dpsurvey amplify`, each with its own options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..design.selection import (
    AllocationTable,
    CappedClusters,
    Clusters,
    Collected,
    ConfidentialAllocation,
    Independent,
    PpsCluster,
    Proportional,
    RandomSize,
    Selection,
    Systematic,
    TwoStage,
    UnequalProbabilities,
    WithoutReplacement,
    WithReplacement,
)
from ..design.selection.base import check_count
from ..design.selection.cluster import MOST_CLUSTERS
from ..errors import BadValue
from .amplify import app, design, numbers, table_of

__all__ = ["app"]

Take = Annotated[int, Option(help="The number of clusters drawn.")]
UnitIn = Annotated[int | None, Option(help="The protected unit's cluster, counted from 1; else the worst.")]


@design("srs")
def srs(
    n: Annotated[int, Option(help="Units drawn.")],
    population: Annotated[int, Option(help="Units in all; under add-remove, in the larger of the two populations.")],
) -> Selection:
    """Simple random sampling without replacement.

    Example: `dpsurvey amplify srs --n 1000 --population 50000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    return WithoutReplacement(n, population)


@design("with-replacement")
def with_replacement(
    n: Annotated[int, Option(help="Draws.")], population: Annotated[int, Option(help="Units in all.")]
) -> Selection:
    """Simple random sampling with replacement; the loss can exceed epsilon.

    Example: `dpsurvey amplify with-replacement --n 100 --population 1000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    return WithReplacement(n, population)


@design("poisson")
def poisson(
    rate: Annotated[str, Option(help="The rate, or the public rates of several classes of units, by commas.")],
) -> Selection:
    """Poisson (Bernoulli) sampling: each unit by itself.

    Example: `dpsurvey amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove`
    """
    rates = numbers(rate, "rate", float)
    for each in rates:
        if not 0.0 < each <= 1.0:
            raise BadValue("--rate must be in (0, 1]", given=f"{each}", hint="write 2 % as 0.02, with a decimal point")
    return Independent(rates, moves=len(rates) > 1)


@design("stratified")
def stratified(
    rate: Annotated[float, Option(help="The share of each stratum.")],
    rounding: Annotated[
        str, Option(help="How rate * N becomes whole: random or nearest; bernoulli: no rounding, Poisson sampling inside strata.")
    ],
    population: Annotated[int | None, Option(help="Units of the stratum without the added one; else every size.")] = None,
) -> Selection:
    """Proportional allocation inside strata.

    Example: `dpsurvey amplify stratified --rate 0.1 --rounding random --epsilon 1 --base both --neighbours add-remove`
    """
    return Proportional(rate, rounding, population)  # type: ignore[arg-type]


@design("random-size")
def random_size(
    population: Annotated[int, Option(help="Units in all.")],
    binomial: Annotated[float | None, Option(help="Binomial law of the size, with this probability.")] = None,
    gaussian: Annotated[tuple[float, float] | None, Option(help="Normal law on the whole numbers: MEAN SD.")] = None,
    table: Annotated[Path | None, Option(help="CSV with the columns sample, probability.")] = None,
) -> Selection:
    """A random sample size that does not look at the data, then simple random sampling.

    Example: `dpsurvey amplify random-size --population 100 --gaussian 50 5 --epsilon 1 --base both --neighbours replace-one`
    """
    if sum(each is not None for each in (binomial, gaussian, table)) != 1:
        raise BadValue("give one of --binomial, --gaussian, --table")
    if binomial is not None:
        return RandomSize(population, "binomial", (binomial,))
    if gaussian is not None:
        return RandomSize(population, "gaussian", tuple(gaussian))
    law: dict[int, float] = {}
    for row in table_of(table or Path(), ("sample", "probability")):
        size, chance = _row(row, ("sample",), ("probability",))
        law[size] = law.get(size, 0.0) + chance
    return RandomSize.table(population, law)


@design("allocation")
def allocation(
    table: Annotated[Path | None, Option(help="CSV with the columns population, sample, probability.")] = None,
    confidential_total: Annotated[
        int | None, Option(help="An allocation of so many units from confidential data (Neyman).")
    ] = None,
) -> Selection:
    """An allocation rule f(P): the law of the sample size for N and N + 1 units.

    Example: `dpsurvey amplify allocation --table rule.csv --epsilon 1 --base add-remove --neighbours add-remove`
    """
    if (table is None) == (confidential_total is None):
        raise BadValue("give either --table or --confidential-total")
    if confidential_total is not None:
        check_count("confidential-total", confidential_total)
        return ConfidentialAllocation(confidential_total)
    rows = table_of(table or Path(), ("population", "sample", "probability"))
    return AllocationTable(tuple(_row(row, ("population", "sample"), ("probability",)) for row in rows))


@design("cluster")
def cluster(
    take: Take,
    sizes: Annotated[str | None, Option(help="Cluster sizes without the added unit, by commas, or a file of them.")] = None,
    unit_in: UnitIn = None,
    cap: Annotated[int | None, Option(help="Instead of sizes: a public cap on every cluster's size.")] = None,
    clusters: Annotated[int | None, Option(help="With --cap: the number of clusters.")] = None,
) -> Selection:
    """Cluster sampling: all units of the drawn clusters.

    Example: `dpsurvey amplify cluster --cap 5 --clusters 100 --take 10 --epsilon 0.1 --base add-remove --neighbours add-remove`
    """
    if sizes is not None and cap is None and clusters is None:
        return Clusters(numbers(sizes, "sizes", int), take, unit_in)
    if sizes is None and cap is not None and clusters is not None and unit_in is None:
        return CappedClusters(cap, clusters, take)
    raise BadValue("give either --sizes, or --cap with --clusters")


@design("two-stage")
def two_stage(
    clusters: Annotated[int, Option(help="Clusters in all.")],
    take: Take,
    cluster_size: Annotated[
        int | None,
        Option(help="Units in each cluster, without the added one; with --unit-take the least that any cluster may have."),
    ] = None,
    unit_rate: Annotated[float | None, Option(help="Each unit of a drawn cluster with this probability.")] = None,
    unit_take: Annotated[int | None, Option(help="Or so many units of each drawn cluster.")] = None,
    cap: Annotated[int | None, Option(help="Instead of --cluster-size: a public cap on every cluster's size.")] = None,
) -> Selection:
    """Two-stage sampling: clusters, then units inside them.

    Example: `dpsurvey amplify two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1 --epsilon 1
    --base add-remove --neighbours add-remove`
    """
    if (cluster_size is None) == (cap is None):
        raise BadValue("give either --cluster-size or --cap")
    check_count("clusters", clusters, at_most=MOST_CLUSTERS)
    if cap is not None:
        check_count("cap", cap)
    sizes = (cluster_size if cluster_size is not None else cap or 0,) * clusters
    return TwoStage(sizes, take, unit_rate, unit_take, capped=cap is not None)


@design("pps")
def pps(
    probabilities: Annotated[str, Option(help="Inclusion probabilities by commas, or a file of them.")],
    measure: Annotated[str, Option(help="Whether the measure of size is public or confidential.")],
    method: Annotated[str, Option(help="poisson, conditional-poisson, sampford, pivotal, pareto or systematic.")],
) -> Selection:
    """Unequal probabilities, in proportion to a measure of size.

    Example: `dpsurvey amplify pps --probabilities 0.2,0.3,0.5 --measure public --method sampford --epsilon 1
    --base replace-one --neighbours replace-one`
    """
    return UnequalProbabilities(numbers(probabilities, "probabilities", float), measure, method)  # type: ignore[arg-type]


@design("pps-cluster")
def pps_cluster(
    sizes: Annotated[str, Option(help="Cluster sizes without the added unit, by commas, or a file of them.")],
    unit_in: UnitIn = None,
    take: Annotated[int, Option(help="Clusters drawn; more than one is solved for a few small clusters and refused else.")] = 1,
) -> Selection:
    """One cluster with probability proportional to its size: sampling makes the loss larger.

    Example: `dpsurvey amplify pps-cluster --sizes 5,5,5 --epsilon 0.2 --base add-remove --neighbours add-remove`
    """
    return PpsCluster(numbers(sizes, "sizes", int), unit_in, take)


@design("systematic")
def systematic(
    step: Annotated[int, Option(help="Every step-th unit.")],
    n: Annotated[int, Option(help="Units drawn; the population has step * n.")],
    order: Annotated[str, Option(help="random: a secret random order; fixed: a public one, such as a list sorted by postcode.")],
) -> Selection:
    """Systematic sampling from a random start.

    Example: `dpsurvey amplify systematic --step 10 --n 50 --order fixed --epsilon 1 --base add-remove --neighbours replace-one`
    """
    return Systematic(step, n, order)  # type: ignore[arg-type]


@design("collected")
def collected() -> Selection:
    """A file that was collected already: it never amplifies.

    Example: `dpsurvey amplify collected --epsilon 1 --base add-remove --neighbours add-remove`
    """
    return Collected()


def _row(row: dict[str, str], whole: tuple[str, ...], real: tuple[str, ...]) -> Any:
    try:
        return (*(int(row[name]) for name in whole), *(float(row[name]) for name in real))
    except (KeyError, TypeError, ValueError):
        raise BadValue(
            "--table has a field that is not a number", hint=f"{', '.join(whole)} whole, {', '.join(real)} in [0, 1]"
        ) from None
