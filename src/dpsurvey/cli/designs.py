"""The designs of `dpsurvey amplify`, each with its own options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from .. import design as designs
from ..design import Design
from ..design.checks import check_count
from ..design.stages import MOST_CLUSTERS
from ..errors import BadValue
from .amplify import app, design, numbers, table_of

__all__ = ["app"]

Take = Annotated[int, Option(help="The number of clusters drawn.")]
UnitIn = Annotated[int | None, Option(help="The protected unit's cluster, counted from 1; else the worst.")]


@design("srs")
def srs(
    n: Annotated[int, Option(help="Units drawn.")],
    population: Annotated[int, Option(help="Units in all; under add-remove, in the larger of the two populations.")],
) -> Design:
    """Simple random sampling without replacement.

    Example: `dpsurvey amplify srs --n 1000 --population 50000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    check_count("population", population)
    check_count("n", n, at_most=population)
    return designs.srs(n=n, size=population)


@design("with-replacement")
def with_replacement(
    n: Annotated[int, Option(help="Draws.")], population: Annotated[int, Option(help="Units in all.")]
) -> Design:
    """Simple random sampling with replacement; the loss can exceed epsilon.

    Example: `dpsurvey amplify with-replacement --n 100 --population 1000 --epsilon 1 --base replace-one --neighbours replace-one`
    """
    check_count("population", population)
    return designs.with_replacement(n, size=population)


@design("poisson")
def poisson(
    rate: Annotated[str, Option(help="The rate, or the public rates of several classes of units, by commas.")],
) -> Design:
    """Poisson (Bernoulli) sampling: each unit by itself.

    Example: `dpsurvey amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove`
    """
    rates = numbers(rate, "rate", float)
    for each in rates:
        if not 0.0 < each <= 1.0:
            raise BadValue("--rate must be in (0, 1]", given=f"{each}", hint="write 2 % as 0.02, with a decimal point")
    return designs.poisson(rates[0]) if len(rates) == 1 else designs.poisson_by("rate", probabilities=rates)


@design("stratified")
def stratified(
    rate: Annotated[float, Option(help="The share of each stratum.")],
    rounding: Annotated[
        str, Option(help="How rate * N becomes whole: random or nearest; bernoulli: no rounding, Poisson sampling inside strata.")
    ],
    population: Annotated[int | None, Option(help="Units of the stratum without the added one; else every size.")] = None,
) -> Design:
    """Proportional allocation inside strata.

    Example: `dpsurvey amplify stratified --rate 0.1 --rounding random --epsilon 1 --base both --neighbours add-remove`
    """
    if rounding not in ("random", "nearest", "bernoulli"):
        raise BadValue(f"unknown rounding {rounding!r}", hint="random, nearest or bernoulli")
    if population is not None:
        check_count("population", population)
    if rounding == "bernoulli":
        return designs.poisson(rate)
    return designs.proportional(rate, rounding="nearest" if rounding == "nearest" else "random", size=population)


@design("random-size")
def random_size(
    population: Annotated[int, Option(help="Units in all.")],
    binomial: Annotated[float | None, Option(help="Binomial law of the size, with this probability.")] = None,
    gaussian: Annotated[tuple[float, float] | None, Option(help="Normal law on the whole numbers: MEAN SD.")] = None,
    table: Annotated[Path | None, Option(help="CSV with the columns sample, probability.")] = None,
) -> Design:
    """A random sample size that does not look at the data, then simple random sampling.

    Example: `dpsurvey amplify random-size --population 100 --gaussian 50 5 --epsilon 1 --base both --neighbours replace-one`
    """
    if sum(each is not None for each in (binomial, gaussian, table)) != 1:
        raise BadValue("give one of --binomial, --gaussian, --table")
    if binomial is not None:
        return designs.random_size(population, binomial=binomial)
    if gaussian is not None:
        return designs.random_size(population, gaussian=gaussian)
    law: dict[int, float] = {}
    for row in table_of(table or Path(), ("sample", "probability")):
        size, chance = _row(row, ("sample",), ("probability",))
        law[size] = law.get(size, 0.0) + chance
    return designs.random_size(population, table=law)


@design("allocation")
def allocation(
    table: Annotated[Path | None, Option(help="CSV with the columns population, sample, probability.")] = None,
    confidential_total: Annotated[
        int | None, Option(help="An allocation of so many units from confidential data (Neyman).")
    ] = None,
) -> Design:
    """An allocation rule f(P): the law of the sample size for N and N + 1 units.

    Example: `dpsurvey amplify allocation --table rule.csv --epsilon 1 --base add-remove --neighbours add-remove`
    """
    if (table is None) == (confidential_total is None):
        raise BadValue("give either --table or --confidential-total")
    if confidential_total is not None:
        check_count("confidential-total", confidential_total)
        return designs.confidential_allocation(confidential_total)
    rows = table_of(table or Path(), ("population", "sample", "probability"))
    return designs.size_rule([_row(row, ("population", "sample"), ("probability",)) for row in rows])


@design("cluster")
def cluster(
    take: Take,
    sizes: Annotated[str | None, Option(help="Cluster sizes without the added unit, by commas, or a file of them.")] = None,
    unit_in: UnitIn = None,
    cap: Annotated[int | None, Option(help="Instead of sizes: a public cap on every cluster's size.")] = None,
    clusters: Annotated[int | None, Option(help="With --cap: the number of clusters.")] = None,
) -> Design:
    """Cluster sampling: all units of the drawn clusters.

    Example: `dpsurvey amplify cluster --cap 5 --clusters 100 --take 10 --epsilon 0.1 --base add-remove --neighbours add-remove`
    """
    if sizes is not None and cap is None and clusters is None:
        return designs.cluster("cluster", designs.srs(n=take), sizes=numbers(sizes, "sizes", int), unit_in=unit_in)
    if sizes is None and cap is not None and clusters is not None and unit_in is None:
        return designs.cluster("cluster", designs.srs(n=take), clusters=clusters, cap=cap)
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
) -> Design:
    """Two-stage sampling: clusters, then units inside them.

    Example: `dpsurvey amplify two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1 --epsilon 1
    --base add-remove --neighbours add-remove`
    """
    if (cluster_size is None) == (cap is None):
        raise BadValue("give either --cluster-size or --cap")
    check_count("clusters", clusters, at_most=MOST_CLUSTERS)
    if cap is not None:
        check_count("cap", cap)
    if (unit_rate is None) == (unit_take is None):
        raise BadValue("give either unit-rate or unit-take", given=f"unit-rate={unit_rate}, unit-take={unit_take}")
    if cap is not None and unit_take is not None:
        raise BadValue(
            "a cap does not help where a fixed number of units is taken: in a smaller cluster each has a larger share",
            hint="give the smallest public cluster size as cluster-size, or use unit-rate",
        )
    check_count("take", take, at_most=clusters)
    how = designs.srs(n=take)
    if cap is not None:
        first = designs.cluster("cluster", how, clusters=clusters, cap=cap)
    else:
        check_count("cluster-size", cluster_size or 0)
        first = designs.cluster("cluster", how, sizes=(cluster_size or 0,) * clusters)
    return designs.stages(first, designs.poisson(unit_rate) if unit_rate is not None else designs.srs(n=unit_take))


@design("pps")
def pps(
    probabilities: Annotated[str, Option(help="Inclusion probabilities by commas, or a file of them.")],
    measure: Annotated[str, Option(help="Whether the measure of size is public or confidential.")],
    method: Annotated[str, Option(help="poisson, conditional-poisson, sampford, pivotal, pareto or systematic.")],
) -> Design:
    """Unequal probabilities, in proportion to a measure of size.

    Example: `dpsurvey amplify pps --probabilities 0.2,0.3,0.5 --measure public --method sampford --epsilon 1
    --base replace-one --neighbours replace-one`
    """
    listed: tuple[float, ...] = numbers(probabilities, "probabilities", float)
    return designs.pps("size", probabilities=listed, measure=measure, method=method)  # type: ignore[arg-type]


@design("pps-cluster")
def pps_cluster(
    sizes: Annotated[str, Option(help="Cluster sizes without the added unit, by commas, or a file of them.")],
    unit_in: UnitIn = None,
    take: Annotated[int, Option(help="Clusters drawn; more than one is solved for a few small clusters and refused else.")] = 1,
) -> Design:
    """One cluster with probability proportional to its size: sampling makes the loss larger.

    Example: `dpsurvey amplify pps-cluster --sizes 5,5,5 --epsilon 0.2 --base add-remove --neighbours add-remove`
    """
    by_size = designs.pps("size", n=take)
    return designs.cluster("cluster", by_size, sizes=numbers(sizes, "sizes", int), unit_in=unit_in)


@design("systematic")
def systematic(
    step: Annotated[int, Option(help="Every step-th unit.")],
    n: Annotated[int, Option(help="Units drawn; the population has step * n.")],
    order: Annotated[str, Option(help="random: a secret random order; fixed: a public one, such as a list sorted by postcode.")],
) -> Design:
    """Systematic sampling from a random start.

    Example: `dpsurvey amplify systematic --step 10 --n 50 --order fixed --epsilon 1 --base add-remove --neighbours replace-one`
    """
    if order not in ("random", "fixed"):
        raise BadValue(f"unknown order {order!r}", hint="random or fixed")
    check_count("step", step)
    check_count("n", n)
    return designs.systematic(step=step, size=step * n, order="random" if order == "random" else "as listed")


@design("collected")
def collected() -> Design:
    """A file that was collected already: it never amplifies.

    Example: `dpsurvey amplify collected --epsilon 1 --base add-remove --neighbours add-remove`
    """
    return designs.collected()


def _row(row: dict[str, str], whole: tuple[str, ...], real: tuple[str, ...]) -> Any:
    try:
        return (*(int(row[name]) for name in whole), *(float(row[name]) for name in real))
    except (KeyError, TypeError, ValueError):
        raise BadValue(
            "--table has a field that is not a number", hint=f"{', '.join(whole)} whole, {', '.join(real)} in [0, 1]"
        ) from None
