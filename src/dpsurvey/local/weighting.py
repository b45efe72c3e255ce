"""The design of reports from their public columns, with weights for nonresponse or to known totals."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..classical.sample import Sample
from ..design.columns import DesignColumns, missing_values, not_positive
from ..errors import BadData, BadValue
from .base import Array
from .reports import Collected
from .tables import column, read_table


def designed_sample(
    collected: Collected,
    columns: DesignColumns[Any],
    sampling: str,
    lonely: str,
    classes: str | None,
    class_totals: Mapping[str, float] | None,
    calibrate: Mapping[str, Mapping[str, float]] | None,
) -> tuple[Sample, list[str]]:
    """The design of the reports, with weights adjusted for nonresponse or to known totals."""
    table = _columns(collected, columns, [classes, *(calibrate or {})])
    notes = []
    if not columns.tell_weights:
        columns = replace(columns, weights=1.0)
        notes.append("all respondents count alike: no weights were given")
    sample = Sample(table, sampling=sampling, lonely=lonely, **columns.given())
    if classes is not None:
        if class_totals is None or not isinstance(class_totals, Mapping):
            raise BadValue("nonresponse classes need the weights of everybody drawn", hint="class_totals={'north': 5200.0, ...}")
        if sampling != "stages":
            raise BadValue("nonresponse classes go with weights", hint='sampling="stages"')
        table["__adjusted"], note = _scaled_up(table[classes], sample.weights, classes, class_totals)
        notes.append(note)
        columns = replace(columns, weights="__adjusted", probs=None)
        sample = Sample(table, sampling=sampling, lonely=lonely, **columns.given())
    if calibrate:
        first = next(iter(calibrate))
        sample = sample.post_stratified(first, calibrate[first]) if len(calibrate) == 1 else sample.raked(calibrate)
        notes.append("weights are fitted to known totals of " + ", ".join(calibrate))
    return sample, notes


def _columns(collected: Collected, columns: DesignColumns[str], others: list[str | None]) -> dict[str, Any]:
    """The public columns that the design needs; a CSV file holds texts, so numbers are read from them."""
    table: dict[str, Any] = {}
    for role, given in columns.given().items():
        for name in given if isinstance(given, tuple) else (given,):
            found = column(collected.columns, name, role)
            labels = role in ("strata", "psu", "ssu")
            table[name] = np.array(found.to_pylist(), dtype=object) if labels else _numbers(found, role, name)
    for name in others:
        if name and name not in table:
            table[name] = np.array(column(collected.columns, name, "classes").to_pylist(), dtype=object)
    return table


def _numbers(found: Any, role: str, name: str) -> Array:
    if found.null_count:
        raise missing_values(role, name)
    with contextlib.suppress(TypeError, ValueError):
        numbers = np.array([float(value) for value in found.to_pylist()])
        if np.isfinite(numbers).all() and np.all(numbers > 0.0):
            return numbers
    raise not_positive(role, name)


def _scaled_up(labels: Any, weights: Array, classes: str, class_totals: Mapping[str, float]) -> tuple[Array, str]:
    """Weights of those who reported, scaled in each class to the weights of everybody drawn."""
    if not all(isinstance(total, int | float) and math.isfinite(total) for total in class_totals.values()):
        raise BadValue("the weights of classes are numbers")
    known = {str(name): float(total) for name, total in class_totals.items()}
    if set(map(str, labels)) != set(known):
        raise BadData(
            "the classes of the reports are not those with known weights",
            hint="every class needs at least one respondent: merge classes, and name each one",
        )
    factor = {}
    for name, total in known.items():
        answered = float(weights[np.array([str(label) == name for label in labels])].sum())
        if not total >= answered * (1.0 - 1e-9):
            raise BadData("more weight answered than was drawn in a class", hint="class_totals are design weights of all drawn")
        factor[name] = total / answered
    rates = ", ".join(f"{name} {1.0 / value:.3g}" for name, value in factor.items())
    return weights * np.array([factor[str(label)] for label in labels]), f"weighted response rates by {classes}: {rates}"


def class_weights(sampled: Any, classes: str, weight: str | None) -> dict[str, float]:
    """The design weights of everybody drawn, added up by nonresponse class; without a weight column, their number.

    >>> class_weights({"region": ["n", "n", "s"], "weight": [10.0, 10.0, 25.0]}, "region", "weight")
    {'n': 20.0, 's': 25.0}
    """
    table = read_table(sampled)
    weights = np.ones(len(table)) if weight is None else _numbers(column(table, weight, "weights"), "weights", weight)
    found: dict[str, float] = {}
    for label, own in zip(column(table, classes, "classes").to_pylist(), weights.tolist(), strict=True):
        found[str(label)] = found.get(str(label), 0.0) + own
    return found
