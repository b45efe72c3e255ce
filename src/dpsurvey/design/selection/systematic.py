"""Systematic sampling: every k-th unit from a random start, in a secret random order or in a fixed public one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...errors import BadValue
from ...loss.refused import Refused
from ...loss.worst_case.contest import Contest
from ...loss.worst_case.programme import MOST_SPREAD, worst_loss
from ...privacy.curve import Curve
from ...privacy.rounding import below, log_mixture, times
from .base import PUBLIC, SAMPLE_ONLY, SECRET, Bound, Losses, Neighbours, Selection, check_count, sizes_unprotected
from .cluster import Clusters
from .proportional import Proportional
from .simple import WithoutReplacement

FIXED = "docs/designs/systematic.md, inserted unit: at most (m + 1) epsilon"
RANDOM_ORDER = "the order is drawn at random, uniformly and in secret, and the draw does not look at the data"
# Units up to which every place of the new unit is solved by linear programme.
SMALL = 20


@dataclass(frozen=True)
class Systematic(Selection):
    """Every `step`-th of step * n units. Random secret order: a simple random sample (add-remove: randomised rounding
    at rate 1/step). Fixed order, a value replaced in its place: one of `step` clusters of n units. Fixed order, a unit
    inserted or a sort key changed: everyone behind it shifts, and the loss is up to (n + 1) epsilon.

    >>> from dpsurvey.design.selection.base import Losses
    >>> round(Systematic(3, 4, "fixed").bound(Losses.of(0.5, "add-remove"), "add-remove").upper, 8)
    2.19576448
    """

    kind: ClassVar[str] = "systematic"
    step: int
    n: int
    order: Literal["random", "fixed"]

    def __post_init__(self) -> None:
        check_count("step", self.step)
        check_count("n", self.n)
        if self.order not in ("random", "fixed"):
            raise BadValue(f"unknown order {self.order!r}", hint="random or fixed")

    @property
    def inclusion(self) -> float:
        return 1.0 / self.step

    @property
    def detection_steps(self) -> float:
        return 1.0 if self.order == "random" else 2.0 * self.n

    def _same_as(self, neighbours: Neighbours) -> Selection | None:
        """The design that this one is, where it is one of the others."""
        if self.order == "random":
            if neighbours == "replace-one":
                return WithoutReplacement(self.n, self.n * self.step)
            return Proportional(1.0 / self.step, "random") if self.step > 1 else None
        if neighbours == "replace-one":
            return Clusters((self.n,) * self.step, 1, 1)
        return None

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        other = self._same_as(neighbours)
        if other is not None:
            answer = other.bound(losses, neighbours)
            if isinstance(answer, Refused):
                return answer
            order = RANDOM_ORDER if self.order == "random" else "the order and the place of every unit in it are public and fixed"
            source = f"docs/designs/systematic.md; {answer.source}"
            return Bound(
                answer.upper,
                answer.lower,
                answer.exact,
                source,
                "every population",
                (*answer.holds_when, order),
                details=answer.details,
            )
        if not losses.sizes_protected:
            return sizes_unprotected("a record more or less")
        if self.step == 1:
            return Bound.unchanged(losses.add_remove, FIXED, holds_when=(SAMPLE_ONLY,))
        swapped = losses.replace_one < 2.0 * losses.add_remove
        # Samples are matched before or behind the new unit; the shorter side has at most n/2 + 1 units of each.
        steps = self.n // 2 + 1 if swapped and losses.base == "both" else self.n + 1
        holds = (
            SECRET,
            PUBLIC,
            SAMPLE_ONLY,
            "the order is public; a new or changed sort key is a removal and an insertion",
            f"the list has {self.n * self.step} units without the inserted one",
        )
        typed = losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove)
        if self.n * self.step <= SMALL and typed and losses.add_remove * (2 * self.n + 1) <= MOST_SPREAD:
            places = [self.inserted_at(place) for place in range(self.n * self.step + 1)]
            worst = [worst_loss(each, losses.add_remove, losses.base) for each in places]
            upper = min(max(each.upper for each in worst), times(steps, losses.add_remove))
            lower = min(upper, max(each.lower for each in worst))
            exact = upper - lower <= 1e-6 * lower
            details = {"every_size": steps * losses.add_remove}
            return Bound(upper, lower, exact, FIXED, "this population", holds, "linear programme", details)
        lower = self._inserted(losses)
        return Bound(
            times(steps, losses.add_remove), min(lower, steps * losses.add_remove), False, FIXED, "this population", holds
        )

    def _inserted(self, losses: Losses) -> float:
        """What the distance to the nearest old sample attains: log of the mean of e^(e distance) over the new samples."""
        both, units = losses.base == "both", self.n * self.step
        best = 0.0
        if units > 60:
            # A unit inserted between two blocks, half way: every new sample keeps the units on one side of it.
            steps = (self.n // 2) * (1 if both else 2)
            return below(steps * losses.add_remove + log_mixture((1.0 / self.step, losses.add_remove)))
        for start in range(units + 1):
            logs = [losses.add_remove * self._nearest(start, j, both) for j in range(self.step)]
            top = max(logs)
            best = max(best, top + math.log(math.fsum(math.exp(each - top) for each in logs) / self.step))
        return below(best)

    def _nearest(self, place: int, j: int, both: bool) -> int:
        """Steps from the new sample j to the nearest old sample, counted before and behind the inserted unit."""
        own_before, own_behind = self._before(place, j), self._behind(place, j - 1)
        hit = int(j == place % self.step)
        found = []
        for i in {j, (j - 1) % self.step, (j + 1) % self.step}:
            # Samples that do not share a residue before or behind the place share nothing there.
            kept_before = own_before if i == j else 0
            kept_behind = own_behind if i == (j - 1) % self.step else 0
            old = self._before(place, i) + self._behind(place, i)
            new = own_before + own_behind + hit
            more, less = new - kept_before - kept_behind, old - kept_before - kept_behind
            found.append(max(more, less) if both else more + less)
        return min(found)

    def _before(self, place: int, residue: int) -> int:
        return max(0, -(-(place - residue % self.step) // self.step))

    def _behind(self, place: int, residue: int) -> int:
        return self.n - self._before(place, residue)

    def known(self, losses: Losses, neighbours: Neighbours) -> float:
        other = self._same_as(neighbours)
        if other is not None:
            return other.known(losses, neighbours)
        return (self.n + 1) * losses.add_remove if self.step > 1 else losses.add_remove

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        other = self._same_as(neighbours)
        return other.sharper(base, losses, neighbours, alpha) if other is not None else 1.0

    def contest(self, neighbours: Neighbours) -> Contest | None:
        other = self._same_as(neighbours)
        if other is not None:
            return other.contest(neighbours)
        return None if self.n * self.step > SMALL else self.inserted_at(self.n * self.step // 2)

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        if self._same_as(neighbours) is not None or self.n * self.step > SMALL:
            return super().contests(neighbours)
        return [self.inserted_at(place) for place in range(self.n * self.step + 1)]

    def inserted_at(self, place: int) -> Contest:
        """One unit inserted at a position of the list, counted from 0; blocks of units that move together are kinds."""
        k = self.step
        kinds = [(side, residue) for side in (0, 1) for residue in range(k)]
        counts = [self._before(place, r) if side == 0 else self._behind(place, r) for side, r in kinds]
        laws: list[dict[tuple[int, ...], float]] = [{}, {}]
        for j in range(k):
            old = tuple(n if r == j else 0 for n, (_, r) in zip(counts, kinds, strict=True))
            new = tuple(n if r == (j if side == 0 else (j - 1) % k) else 0 for n, (side, r) in zip(counts, kinds, strict=True))
            for law, sample in zip(laws, ((*new, int(j == place % k)), (*old, 0)), strict=True):
                law[sample] = law.get(sample, 0.0) + 1.0 / k
        return Contest((*counts, 1), laws[0], (*counts, 0), laws[1])
