"""What the rows of a survey must satisfy, from its terms and from what a plan asks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..design.recipe import Step
from ..errors import BadValue
from ..ledger.terms import Terms
from ..statistic import columns_asked
from .plan import Plan

if TYPE_CHECKING:
    from ..engine import Expectations


def expectations(terms: Terms, plan: Plan | None) -> Expectations:
    """The columns that are read, their categories, and the declared sizes where the guarantee rests on them."""
    from ..engine import Expectations

    if plan is not None and plan.terms != terms:
        raise BadValue("this plan was made by a survey with other terms", hint="plan with the survey that releases")
    frame, design, setting = terms.frame, terms.design, terms.setting
    queries = [item.query for item in plan.items] if plan else []
    asked = columns_asked(queries)
    grouping = {column: frame.labels(column) for column in asked.grouping}
    grouping |= {column: frame.labels(column) for column in asked.labelled if column in frame.categories}
    strata = {column: frame.labels(column) for column in (design.strata_column, terms.weights_column) if column}
    recipe = design.recipe()
    positive = tuple(dict.fromkeys((*recipe.columns("size"), *recipe.columns("rate"), *asked.positive)))
    # Declared sizes are compared with the table only where every neighbour has the same ones: elsewhere one record would
    # decide between a release and a refusal.
    same_rows, same_columns = design.keeps_rows(setting), design.keeps_columns(setting)
    fixed = same_rows and not design.already_drawn
    columns = {name for query in queries for name in query.columns}
    # A column that weights were made from is there; its values are looked at only where something is asked by it.
    weighting = tuple(name for name in design.weighting_columns if name not in columns)
    return Expectations(
        unit=frame.unit,
        numeric=asked.measured,
        present=asked.labelled,
        categories=strata | grouping,
        strata=design.strata_column,
        takes=design.takes(),
        used=(*recipe.used, *design.weighting_columns),
        positive=positive,
        clusters=design.declared_clusters if same_columns else (),
        size=frame.size if fixed else None,
        sizes=terms.sizes_compared,
        exactly_these=design.already_drawn,
        # Columns that units are drawn by are complete, whatever is asked of them.
        may_be_missing=tuple(
            name for name in (*asked.may_be_missing, *weighting) if name not in (frame.unit, *strata, *recipe.used, *positive)
        ),
        wanted=asked.wanted,
        weight_range=terms.weight_range,
        weights_column=terms.weights_column,
        weight_ranges=terms.weight_ranges,
        cuts=tuple(
            (query.weights.largest, query.weights.cut) for query in queries if query.weights and query.weights.cut is not None
        ),
        sums_of_weights=_sums_of_weights(terms),
        own_weights=not design.parts(),
        may_be_empty=not same_rows,
        may_have_no_answers=setting.protect != "respondents" or setting.neighbours.sizes_differ,
        compare_columns=same_columns,
        repeated=design.repeated if same_columns else {},
        least_clusters=max([design.fewest_clusters, *(query.random_groups.count for query in queries if query.random_groups)]),
    )


def _sums_of_weights(terms: Terms) -> dict[str, Mapping[str, int]]:
    """What final weights add up to, by column of calibration and category; under no column, for the whole."""
    if not terms.design.weights_are_final:
        return {}
    facts = terms.facts(respondents_only=False)
    margins = [column for column in terms.design.weighting_columns if facts.weights_add_up((column,))]
    whole = {"": {"": facts.size}} if facts.weights_add_up() else {}
    return whole | {column: terms.frame.category_sizes[column] for column in margins}


def fingerprint(stamp: tuple[Any, ...] | None, expected: Expectations, recipe: Step) -> str | None:
    """A hash of a file as it was opened and of what is expected of it; None for tables in memory."""
    if stamp is None:
        return None
    facts = [stamp, repr(recipe), version("dpsurvey"), *(getattr(expected, each.name) for each in fields(expected))]
    return hashlib.sha256(json.dumps(_in_order(facts)).encode()).hexdigest()


def _in_order(value: Any) -> Any:
    """JSON-ready, with mappings as pairs in their order: their keys may be None."""
    if isinstance(value, Mapping):
        return [[key, _in_order(own)] for key, own in value.items()]
    return [_in_order(each) for each in value] if isinstance(value, list | tuple) else value
