"""An oracle of draws with a key: every recipe in plain Python, written apart from the engine.

It goes through lists of dictionaries, in exact fractions, as recipe.py and key.py describe the steps and the numbers.
Sampford, conditional Poisson and pivotal draws are the package's own functions of a list; `truth/test_pps_draws.py`
holds them against their enumerated laws.
"""

import base64
import hashlib
import hmac
import math
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from randomgen import AESCounter

from dpsurvey.design.pps_methods import METHODS
from dpsurvey.design.recipe import Clusters, Each, EachBy, Every, Repeated, Share, Simple, Sized, Strata

CIRCLE, ONE = 2**60, Fraction(1)


def step_of(strata, label):
    """The step inside one stratum."""
    return strata.inside[label] if isinstance(strata.inside, dict) else strata.inside


class Drawn(NamedTuple):
    """One line of a sample file."""

    unit: object
    stratum: str | None
    psu: str | None
    ssu: str | None
    pi: float
    weight: float


class Element(NamedTuple):
    """An element of a list: its label as text, what it is sorted by, and its rows (several, if it is a cluster)."""

    label: tuple[str, ...]
    raw: tuple
    rows: list[dict]

    def value(self, column):
        found = {row[column] for row in self.rows}
        assert len(found) == 1, "an element has one size and one rate"
        return found.pop()

    def place(self, order):
        return (*(min(row[column] for row in self.rows) for column in order), *self.raw)


class Taken(NamedTuple):
    """A drawn element with its chance and weight, and which of several draws with replacement took it."""

    element: Element
    chance: Fraction
    weight: Fraction
    copy: int | None = None


def joined(label):
    """All parts of a label but the last carry their length, so that ("1", "23") and ("12", "3") differ."""
    return "".join(f"{len(part)}:{part}" for part in label[:-1]) + label[-1]


class Oracle:
    """Draws by recipe from rows in memory, with the permanent random numbers of a key."""

    def __init__(self, key, start=0.0):
        self.secret, self.start = key.secret, math.floor(Fraction(start) * CIRCLE)
        # What the list at hand is of: a cluster and a unit of one name have numbers of their own.
        self.what = "unit"

    def derived(self, purpose):
        return hmac.new(self.secret, purpose.encode(), hashlib.sha256).digest()

    def number(self, label, purpose=None):
        """60 bits of SHA-256 over a prefix of the purpose and the label; those of elements are counted from the start."""
        prefix = base64.urlsafe_b64encode(self.derived(f"{purpose} of {self.what}" if purpose else self.what))[:22]
        digest = hashlib.sha256(prefix + joined(label).encode()).digest()
        found = int.from_bytes(digest[:8], "big") >> 4
        return (found - self.start) % CIRCLE if purpose is None else found

    def generator(self, purpose, label):
        """The generator of one list: AES in counter mode under a key for the purpose and the list."""
        text = "".join(f"{len(part)}:{part}" for part in label)
        seed = hmac.new(self.derived(f"generator {purpose} of {self.what}"), text.encode(), hashlib.sha256).digest()
        return np.random.Generator(AESCounter(key=int.from_bytes(seed[:16], "big")))

    def draw(self, rows, recipe, unit):
        """The sample: one line for each drawn unit, and one for each time that it was drawn."""
        rows = [row | {"as listed": place} for place, row in enumerate(rows)]
        if not isinstance(recipe, Strata):
            return self.within(rows, recipe, unit, None, ())
        strata = defaultdict(list)
        for row in rows:
            strata[str(row[recipe.strata])].append(row)
        return [line for label, own in strata.items() for line in self.within(own, step_of(recipe, label), unit, label, (label,))]

    def within(self, rows, step, unit, stratum, group, path=(), copies=(), pi=ONE, weight=ONE, repeated=None):
        """Draw inside one stratum or one drawn cluster; `path` holds the labels of the clusters around.

        `repeated` is the probability before a stage with replacement, the chance of one of its draws, and their number.
        """

        def carried(taken, size):
            """The probability, and the chance of one draw, with one more stage."""
            if taken.copy is not None:
                return pi * taken.chance, (pi, Fraction(1, size), round(size / taken.weight))
            if repeated is None:
                return pi * taken.chance, None
            before, once, draws = repeated[0], repeated[1] * taken.chance, repeated[2]
            return before * (1 - (1 - once) ** draws), (before, once, draws)

        if not isinstance(step, Clusters):
            # A cluster that was drawn several times is subsampled afresh each time.
            self.what = "unit"
            units = [Element((*copies, str(row[unit])), (row[unit],), [row]) for row in rows]
            names = (path[0] if path else None, path[1] if len(path) > 1 else None)
            return [
                Drawn(row[unit], stratum, *names, float(carried(taken, len(units))[0]), float(weight * taken.weight))
                for taken in self.choose(units, step, group)
                for row in taken.element.rows
            ]
        clusters = defaultdict(list)
        for row in rows:
            clusters[row[step.cluster]].append(row)
        listed = [Element((*group, str(name)), (name,), own) for name, own in clusters.items()]
        inside = step.inside or Each(1.0)
        lines = []
        self.what = f"cluster {step.cluster}"
        for taken in self.choose(listed, step.how, group):
            element, again = taken.element, () if taken.copy is None else (str(taken.copy),)
            chance, again_drawn = carried(taken, len(listed))
            rest = (*path, element.label[-1]), (*copies, *again), chance, weight * taken.weight, again_drawn
            lines += self.within(element.rows, inside, unit, stratum, (*element.label, *again), *rest)
        return lines

    def choose(self, elements, step, group):
        """The drawn elements of one list."""
        own = group or ("0",)
        size = len(elements)
        if isinstance(step, Each):
            return self.each(elements, lambda element: Fraction(step.probability))
        if isinstance(step, EachBy):
            return self.each(elements, lambda element: Fraction(element.value(step.rate)))
        if isinstance(step, Simple):
            return self.smallest(elements, step.take, Fraction(step.take, size))
        if isinstance(step, Share):
            wanted = Fraction(step.share) * size
            if step.rounding == "nearest":
                take = max(1, math.floor(wanted + Fraction(1, 2)))
                return self.smallest(elements, take, Fraction(take, size))
            take = math.floor(wanted)
            take += self.number(own, "rounding") < math.floor((wanted - take) * CIRCLE)
            return self.smallest(elements, take, Fraction(step.share))
        if isinstance(step, Repeated):
            listed = sorted(elements, key=lambda element: element.raw)
            places = self.generator("repeated", own).integers(0, size, step.take)
            chance = 1 - (1 - Fraction(1, size)) ** step.take
            return [Taken(listed[place], chance, Fraction(size, step.take), copy) for copy, place in enumerate(places)]
        if isinstance(step, Every):
            rate = Fraction(step.amount_taken) if step.by_share else Fraction(int(step.amount_taken), size)
            start = Fraction(self.number(own, "start"), CIRCLE)
            # Of n of N units the start is a whole place of N, so that each of the N samples is equally likely.
            start = start if step.by_share else Fraction(math.floor(start * size), size)
            listed = self.ordered(elements, step.order)
            return self.stretches([(element, rate) for element in listed], start)
        assert isinstance(step, Sized)
        return self.sized(elements, step, group)

    def each(self, elements, chance):
        return [
            Taken(element, chance(element), 1 / chance(element))
            for element in elements
            if self.number(element.label) < math.floor(chance(element) * CIRCLE)
        ]

    def smallest(self, elements, take, chance):
        ranked = sorted(elements, key=lambda element: self.number(element.label))
        return [Taken(element, chance, 1 / chance) for element in ranked[:take]]

    def ordered(self, elements, order):
        if order == "random":
            return sorted(elements, key=lambda element: self.number(element.label))
        return sorted(elements, key=lambda element: element.place(("as listed",) if order == "as listed" else order))

    @staticmethod
    def stretches(chances, start):
        """Each element lies on a stretch of its chance along a line; points one apart choose."""
        taken, reached = [], Fraction(0)
        for element, chance in chances:
            behind = reached + chance
            if any(reached <= start + point < behind for point in range(math.floor(reached - start), math.ceil(behind) + 1)):
                taken.append(Taken(element, chance, 1 / chance))
            reached = behind
        return taken

    def sized(self, elements, step, group):
        """Largest first: an element is certain while its share of what is left would reach one place of those left."""
        sizes = [(element, Fraction(element.value(step.size))) for element in elements]
        sizes.sort(key=lambda pair: pair[1], reverse=True)
        left, total, certain = step.take, sum(size for _, size in sizes), []
        while sizes and sizes[0][1] * left >= total:
            element, size = sizes.pop(0)
            certain.append(Taken(element, Fraction(1), Fraction(1)))
            left, total = left - 1, total - size
        if not sizes:
            return certain
        chance = {element.label: size * left / total for element, size in sizes}
        rest = [element for element, _ in sizes]
        if step.method == "poisson":
            return certain + self.each(rest, lambda element: chance[element.label])
        if step.method == "systematic":
            start = Fraction(self.number(group or ("0",), "start"), CIRCLE)
            ordered = self.ordered(rest, step.order)
            return certain + self.stretches([(element, chance[element.label]) for element in ordered], start)
        if step.method == "pareto":

            def rank(element):
                uniform, own = Fraction(2 * self.number(element.label) + 1, 2 * CIRCLE), chance[element.label]
                return uniform * (1 - own) / ((1 - uniform) * own)

            chosen = sorted(rest, key=rank)[:left]
        else:
            listed = sorted(rest, key=lambda element: element.label)
            chances = np.array([float(chance[element.label]) for element in listed])
            chosen = [listed[place] for place in METHODS[step.method].draw(chances, self.generator(step.method, group))]
        return certain + [Taken(element, chance[element.label], 1 / chance[element.label]) for element in chosen]


def draw(rows, recipe, unit, key, start=0.0):
    """The sample that every engine should draw from these rows with this key."""
    return Oracle(key, start).draw(rows, recipe, unit)
