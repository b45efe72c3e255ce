"""A release.json that somebody saved: read whole and understood, or refused as damaged, before anything is made of it."""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from ..errors import BadValue, NotFound, SurveyError
from ..ledger.terms import Terms
from ..mechanism import MECHANISMS
from ..mechanism.bought_variance import MeanAndVariance
from ..mechanism.centred_ratio import CentredRatio
from ..mechanism.weighted_strata import WeightedStrata
from ..privacy.guarantee import Guarantee
from ..statistic import statistic_from_dict
from ..statistic.estimators.names import as_now
from ..text.reading import json_of, text_of
from .plan import Plan, plan_from

SCHEMA_VERSION = 1
Number = Annotated[float, Field(allow_inf_nan=False)]
Figure = Number | None


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Frame(_Part):
    size: int | None


class _Budget(_Part):
    epsilon: Number
    delta: Number


class _Survey(_Part):
    name: str
    frame: _Frame
    design: dict[str, Any]
    budget: _Budget


class _Sample(_Part):
    id: str
    engine: str


class _Loss(_Part):
    epsilon: Number
    delta: Number


class _Guarantee(_Part):
    sentence: str
    epsilon: Number
    delta: Number
    neighbours: str
    relation_name: str
    record: str
    # Up to 0.8 the key was `known_in_sample`.
    in_sample: _Loss = Field(validation_alias=AliasChoices("in_sample", "known_in_sample"))
    sample_leaks: _Loss
    holds_when: list[str]
    steps: list[str]
    specification: str


class _Estimate(_Part):
    statistic: str
    of: str | None
    label: str
    by: dict[str, str]
    estimate: Figure
    se: Figure
    se_sampling: Figure
    se_noise: Figure
    cv: Figure
    ci_low: Figure
    ci_high: Figure
    df: Figure = None
    method: str | None = None
    quality: str | None = None
    mark: str | None = None
    share: Number
    notes: list[str]


class _Charged(_Part):
    sample: str
    # Up to 0.8 the key was `in_sample`.
    epsilon_in_sample: Number = Field(validation_alias=AliasChoices("epsilon_in_sample", "in_sample"))
    epsilon: Number


class _Ledger(_Part):
    samples: list[_Charged]
    spent: Number
    left: Number
    id: str = ""
    count: int = 0
    head: str = ""


class _Software(_Part):
    dpsurvey: str
    opendp: str


class _Sums(_Part):
    mechanism: str
    sums: list[list[int]]
    # Of every number the noisy length of its standard error, the factor and the degrees of freedom.
    norms: list[list[Number]] = []


class _Release(_Part):
    survey: _Survey
    sample: _Sample
    guarantee: _Guarantee
    estimates: list[_Estimate]
    ledger: _Ledger
    software: _Software
    plan: dict[str, Any]
    noisy_sums: list[_Sums]
    not_in_the_error: list[str]
    not_protected: list[str]


def read_release(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a release.json: every part of it is there, of the right kind, and fits the others."""
    place = os.fspath(path)
    try:
        document = json_of(text_of(place))
    except FileNotFoundError:
        raise NotFound(f"there is no file {place!r}") from None
    except ValueError:
        raise BadValue("this file is not a release.json", given=place) from None
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise BadValue("this file is not a release of this version", given=place, hint=f"schema_version {SCHEMA_VERSION}")
    if missing := {name for name, each in _Release.model_fields.items() if each.is_required()} - set(document):
        raise BadValue("this file is not a whole release.json", given=f"{place}, without {', '.join(sorted(missing))}")
    where = _wrong(document)
    if where:
        raise BadValue(
            "this release.json is damaged",
            because=f"{where} is not as a release writes it",
            given=place,
            hint="dpsurvey ledger verify --against it compares it with the ledger; take another copy",
        )
    return document


def plan_of(document: dict[str, Any]) -> Plan:
    """The plan that a release was made from."""
    statistics = [statistic_from_dict(_as_released(fields)) for fields in document["plan"]["statistics"]]
    return plan_from(Terms.from_dict(document["survey"]), document["plan"], statistics)


def _as_released(fields: dict[str, Any]) -> dict[str, Any]:
    """A statistic as it was asked; up to 0.8 quantiles stood on a grid without leaves for single values."""
    return {"atoms": None, **fields} if fields.get("kind") in ("quantile", "median") else as_now(fields)


def _wrong(document: dict[str, Any]) -> str:
    """The part of a document that cannot be understood; empty where there is none."""
    try:
        found = _Release.model_validate(document)
    except ValidationError as error:
        return ".".join(str(part) for part in error.errors()[0]["loc"])
    try:
        plan = plan_of(document)
        published = [
            each for item in plan.items for statistic in item.statistics for each in statistic.published(item.query_of(statistic))
        ]
    except (SurveyError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return "its survey or plan"
    try:
        if not str(Guarantee.from_dict(document["guarantee"])):
            return "guarantee"
    except (SurveyError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return "guarantee"
    if [row.by for row in found.estimates] != published:
        return "estimates"
    if len(found.noisy_sums) != len(plan.items) or not all(map(_fit, found.noisy_sums, plan.items)):
        return "noisy_sums"
    return ""


def _fit(found: _Sums, item: Any) -> bool:
    """Whether noisy sums are as many as their query has."""
    if found.mechanism not in MECHANISMS:
        return len({len(row) for row in found.sums}) == 1
    if isinstance(item.mechanism, CentredRatio):
        return [len(row) for row in found.sums] == [CentredRatio.width] * item.query.cells
    if isinstance(item.mechanism, MeanAndVariance):
        return [len(row) for row in found.sums] == [2]
    if isinstance(item.mechanism, WeightedStrata):
        return [len(row) for row in found.sums] == [3]
    numbers = sum(len(each.published(item.query_of(each))) for each in item.statistics) if item.query.clusters is not None else 0
    bought = [len(row) for row in found.norms] == [3] * numbers
    return bought and [len(row) for row in found.sums] == [item.query.components] * item.query.cells
