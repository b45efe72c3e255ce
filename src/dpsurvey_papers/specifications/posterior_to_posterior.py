"""What an attacker learns of one record, by enumeration: posterior beliefs with the record and with a draw in its place.

Data sets are tuples of records, one for each unit; a prior is a law over them, a mechanism the law of its output for each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from typing import Any

from dpsurvey.errors import BadValue

Records = tuple[Any, ...]
Law = Mapping[Any, float]
Design = Mapping[tuple[int, ...], float]


def noisy_count(n: int, epsilon: float) -> dict[Records, dict[int, float]]:
    """The number of ones among n records with geometric noise, cut to 0..n: for each binary sample the law of the answer.

    Its loss is exactly epsilon, for a record replaced.

    >>> {sample: round(law[1], 4) for sample, law in noisy_count(1, 1.0).items()}
    {(0,): 0.2689, (1,): 0.7311}
    """
    if not (isinstance(n, int) and 1 <= n <= 12):
        raise BadValue("a sample to be enumerated has 1 to 12 records", given=f"n={n!r}")
    if not 0.0 < epsilon < 50.0:
        raise BadValue("epsilon must be in (0, 50)", given=f"epsilon={epsilon!r}")
    shrink = math.exp(-epsilon)

    def law(count: int) -> dict[int, float]:
        # All noise beyond an end falls on the end, so the ends have no factor 1 - e^-epsilon.
        return {
            answer: shrink ** abs(answer - count) * (1.0 if answer in (0, n) else 1.0 - shrink) / (1.0 + shrink)
            for answer in range(n + 1)
        }

    return {sample: law(sum(sample)) for sample in itertools.product((0, 1), repeat=n)}


def sampled(
    mechanism: Mapping[Records, Law], design: Design, frames: Mapping[Records, float], knows: int | None = None
) -> dict[Records, dict[Hashable, float]]:
    """The mechanism that draws a sample and then answers from it, as seen from each frame.

    `design` is the probability of each set of places; with `knows` it is that of somebody who knows that this place is drawn.

    >>> half = {(0,): 0.5, (1,): 0.5}
    >>> drawn = sampled(noisy_count(1, 1.0), half, {(0, 0): 0.5, (1, 0): 0.5})
    >>> {frame: round(law[1], 4) for frame, law in drawn.items()}
    {(0, 0): 0.2689, (1, 0): 0.5}
    """
    _check_law("design", design)
    kept = {places: p for places, p in design.items() if p > 0.0 and (knows is None or knows in places)}
    whole = math.fsum(kept.values())
    if not whole > 0.0:
        raise BadValue("this unit is never drawn", given=f"knows={knows}")
    found: dict[Records, dict[Hashable, float]] = {}
    for frame in frames:
        law: dict[Hashable, float] = {}
        for places, p in kept.items():
            for output, q in mechanism[tuple(frame[place] for place in places)].items():
                law[output] = law.get(output, 0.0) + p / whole * q
        found[frame] = law
    return found


def law_of_samples(prior: Mapping[Records, float], design: Design) -> dict[Records, float]:
    """What somebody with a prior on frames believes about the sample, record by record in the order of the frame.

    >>> law_of_samples({(0, 1): 1.0}, {(0,): 0.5, (1,): 0.5})
    {(0,): 0.5, (1,): 0.5}
    """
    _check_law("prior", prior)
    _check_law("design", design)
    found: dict[Records, float] = {}
    for frame, p in prior.items():
        for places, q in design.items():
            sample = tuple(frame[place] for place in places)
            found[sample] = found.get(sample, 0.0) + p * q
    return found


def posterior_ratios(
    prior: Mapping[Records, float], mechanism: Mapping[Records, Law], unit: int
) -> dict[tuple[Any, Hashable], float]:
    """Posterior over posterior, for each value of a unit's record and each output (Bailie and Drechsler, Equation 5.1).

    The second posterior is that of a world where the record was replaced by a draw from what the attacker would believe
    if everybody else were known. A mechanism with loss epsilon keeps the ratio within e^-epsilon and e^epsilon.

    >>> prior = {(0, 0): 0.5, (1, 0): 0.5}
    >>> ratios = posterior_ratios(prior, sampled(noisy_count(1, 1.0), {(0,): 0.5, (1,): 0.5}, prior), 0)
    >>> round(ratios[1, 1], 4), round(ratios[0, 1], 4)
    (1.3005, 0.6995)
    """
    _check_law("prior", prior)
    believed = {data: p for data, p in prior.items() if p > 0.0}
    if not all(0 <= unit < len(data) for data in believed):
        raise BadValue("the unit is a place in the data sets, counted from 0", given=f"unit={unit!r}")
    rest: dict[Records, dict[Any, float]] = {}
    for data, p in believed.items():
        rest.setdefault(_without(data, unit), {})[data[unit]] = p
    records = dict.fromkeys(data[unit] for data in believed)
    outputs = dict.fromkeys(output for data in believed for output in mechanism[data])
    found: dict[tuple[Any, Hashable], float] = {}
    for record, output in itertools.product(records, outputs):
        with_record, with_draw = [], []
        for others, chances in rest.items():
            if record not in chances:
                continue
            whole = math.fsum(chances.values())
            laws = {each: mechanism[(*others[:unit], each, *others[unit:])].get(output, 0.0) for each in chances}
            with_record.append(chances[record] * laws[record])
            with_draw.append(chances[record] * math.fsum(chances[each] / whole * laws[each] for each in chances))
        if math.fsum(with_draw) > 0.0:
            found[record, output] = math.fsum(with_record) / math.fsum(with_draw)
    return found


def _without(data: Records, unit: int) -> Records:
    return (*data[:unit], *data[unit + 1 :])


def _check_law(what: str, law: Mapping[Any, float]) -> None:
    if not (law and min(law.values()) >= 0.0 and abs(math.fsum(law.values()) - 1.0) <= 1e-9):
        raise BadValue(f"the probabilities of a {what} add up to 1", given=f"sum {math.fsum(law.values())}")
