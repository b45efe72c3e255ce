"""Named answers: what queries read of a record where its answers alone are protected, and what is no answer at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import NoGuarantee
from .query import Query


def answers_in(queries: Iterable[Query], held_fixed: Collection[str]) -> tuple[str, ...]:
    """The columns that queries read and that may differ between neighbours, in their order."""
    return tuple(dict.fromkeys(name for query in queries for name in query.columns if name not in held_fixed))


def refuse_no_answer(query: Query, held_fixed: Collection[str], weighting: Collection[str]) -> Query:
    """The query, unless it is about columns that are held fixed: no neighbour changes them, so that noise would protect nothing.

    Such columns may make groups and conditions of a query about an answer.
    """
    subject = query.column if query.column in held_fixed else None
    if subject is None and query.columns and not answers_in([query], held_fixed):
        subject = query.columns[0]
    if subject is None:
        return query
    if subject in weighting:
        raise NoGuarantee(
            f"{subject!r} was used to make the weights",
            because="its weighted counts are the published margins, no epsilon applies to them, and it is not protected",
            hint=f'publish the margins as they are; ask about answers with by="{subject}"',
        )
    raise NoGuarantee(
        f"{subject!r} is held fixed under this setting",
        because="the answers alone are protected, so that no epsilon applies to a column of the design",
        hint=f'ask about answers with by="{subject}"; with design weights, protect="sample" protects whole records',
    )
