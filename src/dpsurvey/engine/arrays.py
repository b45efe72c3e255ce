"""Secret draws from rows that can be read by number: only those that may win are ever looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..design.recipe import Clusters, Each, EachBy, Simple, Sized, Step, Strata
from ..errors import BadData
from .access import Access
from .secret import Rows, small_numbers
from .source import PI, PSU, SSU, STRATUM, WEIGHT
from .values import TRUTH, WRITTEN

PIECE = 1 << 16
Chances = npt.NDArray[np.float64]


def draw_by_number(access: Access, recipe: Step, columns: tuple[str, ...], generator: np.random.Generator) -> pa.Table | None:
    """The drawn rows with stratum, psu, probability and weight; None where the recipe needs an engine."""
    found = _choose(access, recipe, generator) if access.reads(_candidates(access, recipe)) else None
    if found is None:
        return None
    rows, chances, more = found
    drawn = access.take(rows, list(columns))
    nothing = pa.nulls(len(rows), pa.string())
    meta = {STRATUM: nothing, PSU: nothing, SSU: nothing} | more | {PI: pa.array(chances), WEIGHT: pa.array(1.0 / chances)}
    for name, values in meta.items():
        drawn = drawn.append_column(name, values)
    return drawn


def _candidates(access: Access, recipe: Step) -> float:
    """About how many rows have to be looked at."""
    if isinstance(recipe, Simple):
        return recipe.take
    if isinstance(recipe, Each):
        return recipe.probability * access.num_rows
    inside = recipe.inside if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping) else {}
    fixed = {label: step for label, step in inside.items() if isinstance(step, Simple) and step.size}
    if fixed and len(fixed) == len(inside):
        return candidate_limit(fixed) * access.num_rows
    rates = [step.probability for step in inside.values() if isinstance(step, Each)]
    return max(rates) * access.num_rows if rates and len(rates) == len(inside) else access.num_rows


def too_short() -> BadData:
    """The refusal for a list that is shorter than what is taken from it."""
    return BadData("a list has fewer units than the design draws from it", hint="check the declared sizes, or draw fewer")


Chosen = tuple[Rows, Chances, dict[str, pa.Array]]


def _choose(table: Access, recipe: Step, generator: np.random.Generator) -> Chosen | None:
    size = table.num_rows
    if isinstance(recipe, Each):
        rows, _ = small_numbers(generator, size, recipe.probability)
        return rows, np.full(len(rows), recipe.probability), {}
    if isinstance(recipe, Simple):
        # The one draw whose rows are not sorted; its chances are all alike.
        return _places(generator, size, recipe.take), np.full(recipe.take, recipe.take / (recipe.size or size)), {}
    if isinstance(recipe, EachBy):
        return _each_by(table, recipe.rate, recipe.at_most, generator)
    if isinstance(recipe, Sized):
        return _sized(table, recipe, generator)
    if isinstance(recipe, Clusters) and isinstance(recipe.how, Simple) and recipe.inside is None:
        return _clusters(table, recipe.cluster, recipe.how.take, generator)
    if isinstance(recipe, Strata) and isinstance(recipe.inside, Mapping):
        return _strata(table, recipe.strata, recipe.inside, generator)
    return None


def _places(generator: np.random.Generator, size: int, take: int) -> Rows:
    if take > size:
        raise too_short()
    return np.asarray(generator.choice(size, take, replace=False, shuffle=False), dtype=np.int64)


def _each_by(table: Access, column: str, at_most: float, generator: np.random.Generator) -> Chosen | None:
    values = table.column(column)
    if values is None or not pa.types.is_floating(values.type):
        return None
    rows, numbers = small_numbers(generator, table.num_rows, at_most)
    extremes = pc.min_max(values).as_py()
    within = not len(values) or (extremes["min"] is not None and extremes["min"] > 0.0 and extremes["max"] <= at_most)
    # The extremes leave NaN out; a sum does not.
    if not within or values.null_count or not math.isfinite(pc.sum(values, min_count=0).as_py()):
        raise BadData(
            f"the rates in {column!r} are not all above 0 and at most the declared bound", hint="declare at_most= as it is"
        )
    rates = np.asarray(table.take(rows, [column])[column], dtype=np.float64)
    kept = numbers <= rates
    return rows[kept], rates[kept], {}


def _sized(table: Access, step: Sized, generator: np.random.Generator) -> Chosen | None:
    sizes = table.column(step.size)
    if sizes is None or not (pa.types.is_integer(sizes.type) or pa.types.is_floating(sizes.type)):
        return None
    listed = step.method == "systematic" and step.order == "as listed"
    if step.method != "poisson" and not listed:
        return None
    extremes = pc.min_max(sizes).as_py()
    # As doubles: whole numbers would wrap around in their sum.
    values = sizes.to_numpy().astype(np.float64, copy=False) if not sizes.null_count else _NOTHING
    total = float(values.sum())
    if sizes.null_count or not math.isfinite(total) or not len(values) or not extremes["min"] > 0:
        raise BadData(
            f"the sizes in {step.size!r} are not all positive numbers",
            because="a unit without a size has no chance to be drawn",
            hint="give every unit a positive size, or leave it off the frame",
        )
    take, certain, largest = step.take, _NONE, float(extremes["max"])
    if take > len(values):
        raise too_short()
    if take * largest >= total:
        certain, take, total = _certain(values, take, total)
        largest = np.delete(values, certain).max(initial=0)
    if (1.0 if len(certain) else take * largest / total) > step.at_most:
        # A broken bound is named by the engine.
        return None
    if take == 0:
        return certain, np.ones(len(certain)), {}
    if step.method == "poisson":
        rows = np.union1d(_one_by_one(values, take / total, generator), certain)
    else:
        rows = _cumulated(values, certain, take, generator)
    return rows, np.minimum(1.0, values[rows] * (take / total)), {}


_NONE, _NOTHING = np.empty(0, np.int64), np.empty(0)
# Units with more than so many times the mean size have a number each; the rest are found by jumping.
LARGE = 4.0


def _one_by_one(values: Chances, scale: float, generator: np.random.Generator) -> Rows:
    """Each unit by itself with chance scale * size: jumps over the small ones, a number for each large one."""
    bar = min(LARGE * float(values.mean()), float(values.max()))
    small, numbers = small_numbers(generator, len(values), min(1.0, bar * scale))
    sizes = values[small]
    small = small[(numbers <= sizes * scale) & (sizes <= bar)]
    large = np.flatnonzero(values > bar)
    chosen = large[1.0 - generator.random(len(large)) <= values[large] * scale]
    return np.concatenate([small, chosen])


def _certain(values: Chances, take: int, total: float) -> tuple[Rows, int, float]:
    """The units that are taken for certain, and what is left to take of how much, once they are out: repeated."""
    whole, wanted, found = total, take, _NONE
    # The bar falls as large units leave, seldom below half of where it began; those above half are looked at again.
    floor = total / take / 2.0
    some = np.flatnonzero(values >= floor)
    while True:
        if total / max(take, 1) < floor:
            some, floor = np.arange(len(values)), 0.0
        certain = some[values[some] * float(take) >= total]
        if len(certain) == len(found):
            return found, take, total
        found, take, total = certain, wanted - len(certain), whole - float(values[certain].sum())


def _cumulated(values: Chances, certain: Rows, take: int, generator: np.random.Generator) -> Rows:
    """PPS systematic in the order of the list: points one apart on the cumulated chances."""
    if len(certain):
        values = values.astype(np.float64, copy=True)
        values[certain] = 0.0
    reached = np.cumsum(values, dtype=np.float64)
    points = (generator.random() + np.arange(take)) * (float(reached[-1]) / take)
    rows = np.minimum(np.searchsorted(reached, points, side="right"), np.searchsorted(reached, reached[-1])).astype(np.int64)
    return np.union1d(rows, certain) if len(certain) else rows


def _clusters(table: Access, column: str, take: int, generator: np.random.Generator) -> Chosen | None:
    codes = table.column(column)
    if codes is None or not pa.types.is_integer(codes.type) or codes.null_count:
        return None
    extremes = pc.min_max(codes).as_py()
    low, high = extremes["min"], extremes["max"]
    if low is None or high - low > 4 * len(codes):
        return None
    values = codes.to_numpy()
    there, chosen = np.zeros(high - low + 1, dtype=bool), np.zeros(high - low + 1, dtype=bool)
    # In pieces that stay in the processor's cache.
    pieces = [values[start : start + PIECE] for start in range(0, len(values), PIECE)]
    # Codes of a narrow type would wrap around when the least of them is taken off.
    pieces = [piece.astype(np.int64) - low for piece in pieces] if low else pieces
    for place, piece in enumerate(pieces):
        there[piece] = True
        # Codes without gaps have often all been seen long before the end.
        if place % 16 == 15 and there.all():
            break
    listed = np.flatnonzero(there)
    chosen[listed[_places(generator, len(listed), take)]] = True
    found = [np.flatnonzero(chosen[piece]) + PIECE * place for place, piece in enumerate(pieces)]
    rows = np.concatenate(found)
    return rows, np.full(len(rows), take / len(listed)), {PSU: pa.array(values[rows])}


def _strata(table: Access, column: str, inside: Mapping[str, Step], generator: np.random.Generator) -> Chosen | None:
    """Numbers below a limit find their strata; those below the rate, or the smallest of each stratum, win."""
    if all(isinstance(step, Simple) and step.size for step in inside.values()):
        return _fixed_strata(
            table, column, {label: step for label, step in inside.items() if isinstance(step, Simple)}, generator
        )
    rates = {label: step.probability for label, step in inside.items() if isinstance(step, Each)}
    if len(rates) < len(inside):
        return None
    rows, numbers = small_numbers(generator, table.num_rows, max(rates.values()))
    labels, codes = _labels_of(table, column, rows, tuple(inside))
    chances = np.array([rates[label] for label in labels])[codes]
    kept = numbers <= chances
    return rows[kept], chances[kept], {STRATUM: pa.array(labels, pa.string()).take(pa.array(codes[kept]))}


def candidate_limit(inside: Mapping[str, Simple]) -> float:
    """A limit below which every stratum almost surely has enough numbers."""
    return min(1.0, max((1.3 * step.take + 20.0) / (step.size or 1) for step in inside.values()))


def _fixed_strata(table: Access, column: str, inside: dict[str, Simple], generator: np.random.Generator) -> Chosen:
    # Only small numbers can win. Trying again when a stratum has too few of them treats its units alike, so every
    # set of n_h units stays equally likely.
    limit = candidate_limit(inside)
    while True:
        rows, numbers = small_numbers(generator, table.num_rows, limit)
        labels, codes = _labels_of(table, column, rows, tuple(inside))
        order = np.lexsort((numbers, codes))
        starts = np.searchsorted(codes[order], np.arange(len(labels)))
        rank = np.arange(len(rows)) - starts[codes[order]] if len(rows) else order
        takes = np.array([inside[label].take for label in labels], dtype=np.int64)
        kept = np.sort(order[rank < takes[codes[order]]]) if len(rows) else order
        if len(kept) == sum(step.take for step in inside.values()):
            chances = np.array([inside[label].take / (inside[label].size or 1) for label in labels])[codes[kept]]
            return rows[kept], chances, {STRATUM: pa.array(labels, pa.string()).take(pa.array(codes[kept]))}
        if limit >= 1.0:
            raise too_short()
        limit = min(1.0, 4.0 * limit)


def _labels_of(table: Access, column: str, rows: Rows, declared: tuple[str, ...]) -> tuple[list[str], Rows]:
    """The labels of some rows, as codes into a list of distinct ones."""
    values = table.take(rows, [column])[column].combine_chunks()
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    truth = set(declared) <= TRUTH
    texts = [str(each).lower() if truth or isinstance(each, bool) else str(each) for each in encoded.dictionary.to_pylist()]
    texts = [WRITTEN.get(text, text) for text in texts] if truth else texts
    # A dictionary may hold labels that no row has, and "True" and "true" are one stratum.
    place = {label: number for number, label in enumerate(declared)}
    codes = np.array([place.get(text, -1) for text in texts], dtype=np.int64)[np.asarray(encoded.indices.fill_null(0))]
    if encoded.null_count or (codes < 0).any():
        raise BadData(f"a stratum of {column!r} is missing from the allocation", hint="give every stratum a design")
    return list(declared), codes
