"""Collected files of clusters, simulated: their exact sums by group, stratum and random group, and noise of a plan's scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import dpsurvey as ds
from dpsurvey.design import collected
from dpsurvey.ledger.terms import Terms
from dpsurvey.statistic import Estimates, Statistic
from dpsurvey.survey.plan import Item, Plan

Array = np.ndarray


def plan_of_file(
    statistics: tuple[Statistic, ...],
    epsilon: float,
    groups: dict[str, list[str]],
    strata: int = 0,
    psus: int | None = None,
    neighbours: str = "replace-one",
    weights: tuple[float, float] | None = (10.0, 10.0),
) -> Plan:
    """The plan of a file: `strata` strata with two clusters each, or with `psus`; or `psus` clusters without strata.

    Without `weights` the file has no column of them, and all records count alike.
    """
    labels = [f"s{index:03d}" for index in range(strata)]
    frame = ds.Frame("file", None, 100_000, groups | ({"stratum": labels} if strata else {}))
    columns = {"psu": "psu", "psus": psus} | ({"strata": "stratum"} if strata else {})
    columns |= {"weights": "w", "weights_are": "design"} if weights else {}
    setting = ds.Setting("sample", given="frame", neighbours=neighbours)
    design = collected(**columns).resolve(frame)
    asked = tuple(in_random_groups(each) for each in statistics)
    return Plan(Terms("study", frame, design, setting, ds.Budget(epsilon), weights), asked)


def in_random_groups(statistic: Statistic) -> Statistic:
    """The statistic with noise in every random group, whatever a plan would choose."""
    base = getattr(statistic, "base", None)
    inside = {"base": in_random_groups(base)} if base is not None else {}
    return replace(statistic, variance="groups", **inside)


def exact_sums(item: Item, group: Array, cell: Array, y: Array, x: Array | None = None, u: Array | None = None) -> Array:
    """(surveys, groups times cells, components) of records whose group, stratum-and-random group cell and y in [0, 1] are given.

    `x` is the denominator of a ratio, `u` the weight of a record over the largest.
    """
    query, surveys = item.query, y.shape[0]
    cells = len(query.groups) * query.random_groups.cells
    if query.random_groups.merged:
        # By the stratum that each was merged into.
        stratum, random_group = np.divmod(cell, query.random_groups.count)
        into = np.array([query.random_groups.place_of[label] for label in sorted(query.random_groups.place_of)])
        cell = into[stratum] * query.random_groups.count + random_group
    place = group * query.random_groups.cells + cell
    second = x if x is not None else np.ones_like(y) if query.encoding.name == "counted" else 1.0 - y
    weight = np.ones_like(y) if u is None else np.broadcast_to(u, y.shape)
    found = np.zeros((surveys, cells, query.components))
    for component, values in enumerate((y, second)):
        for survey in range(surveys):
            found[survey, :, component] = np.bincount(place[survey], (weight * values)[survey], cells)
    return found * query.steps


def with_noise(item: Item, sums: Array, random: np.random.Generator) -> Array:
    """Noise of the plan's own scale on every sum; by numpy, for a simulation and not for a release."""
    assert item.mechanism.kind == "laplace"
    return np.asarray(sums + random.laplace(0.0, item.mechanism.scale, sums.shape))


def estimated(plan: Plan, statistic: Statistic, sums: Array, random: np.random.Generator) -> Estimates:
    """The numbers of many surveys at once."""
    asked = in_random_groups(statistic)
    item = next(each for each in plan.items if asked in each.statistics)
    return plan.estimate(item, asked, with_noise(item, sums, random))
