"""Which statistics of a plan share a charge: those that read the same sums, and those whose sums are margins of finer ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..statistic import Query, Statistic
from ..statistic.facts import Facts
from ..statistic.margins import is_margin, terms_of

# The noise of a margin may be so much of its sampling variance at most; and so many times what it would be alone.
LITTLE, HARDLY_MORE = 0.1, 1.1
# The variance of a record on [0, 1] that is supposed where none is declared: little, so that noise is not thought small.
SUPPOSED = 0.04


@dataclass
class _Charge:
    """A vector of sums and the places of the statistics that read it, or a margin of it."""

    query: Query
    key: Hashable
    places: list[int]


def charges_of(statistics: Sequence[Statistic], queries: Sequence[Query], facts: Facts) -> tuple[tuple[int, ...], ...]:
    """For each charge, the places of its statistics; the first of them reads all of its sums.

    A margin is read from finer sums where its noise stays little beside its sampling error, or about what it would be in a charge
    of its own: what is not spent on it makes all others better.
    """
    same: dict[tuple[Query, Hashable], _Charge] = {}
    for place, (query, statistic) in enumerate(zip(queries, statistics, strict=True)):
        key = statistic.answer_key(facts)
        same.setdefault((query, key), _Charge(query, key, [])).places.append(place)
    charges = list(same.values())
    if facts.as_in_0_8:
        return tuple(tuple(each.places) for each in charges)
    hosted = [coarse for coarse in charges if any(_may_host(fine, coarse) for fine in charges)]
    spent = (len(charges) - len(hosted)) / len(charges)
    # Coarse ones first, so that a margin of a margin finds the finest.
    for coarse in sorted(hosted, key=lambda each: len(each.query.groups)):
        hosts = [fine for fine in charges if _may_host(fine, coarse)]
        hosts = [each for each in hosts if _pays(statistics[coarse.places[0]], coarse.query, each.query, spent, facts)]
        if hosts:
            host = min(hosts, key=lambda each: terms_of(coarse.query, each.query))
            host.places += coarse.places
            charges.remove(coarse)
    return tuple(tuple(each.places) for each in charges)


def _may_host(fine: _Charge, coarse: _Charge) -> bool:
    """Whether the sums of one charge are margins of those of another, and nothing but sums is asked of either."""
    plain = fine.key is None and coarse.key is None
    return plain and is_margin(coarse.query, fine.query)


def _pays(statistic: Statistic, coarse: Query, fine: Query, spent: float, facts: Facts) -> bool:
    """Whether a margin is hardly worse, or no worse, where there are `spent` as many charges as without margins."""
    terms = terms_of(coarse, fine)
    noise = terms * (spent**2 if facts.norm == "L1" else spent)
    # Where records may leave their groups they move finer sums further than a whole.
    moved = (fine.sensitivity(facts.relation, facts.norm) / coarse.sensitivity(facts.relation, facts.norm)) ** 2
    if noise * moved <= HARDLY_MORE:
        return True
    mean, square = statistic.typical()
    spread = square - mean**2 if getattr(statistic, "expect", None) else SUPPOSED
    share = facts.typical_weight / facts.largest_weight
    sampling = facts.expected_units / len(coarse.groups) * share**2 * max(spread, 0.0)
    own = (coarse.sensitivity(facts.relation, facts.norm) / coarse.steps) ** 2 * facts.noise_each
    return noise * moved * own <= LITTLE * sampling
