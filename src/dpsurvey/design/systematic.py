"""Systematic sampling: every k-th unit of a list from a random start, with a fractional step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from ..errors import BadValue
from ..loss.bound import SAMPLE_ONLY, Bound, Figure, Losses, Refused, sizes_unprotected
from ..loss.worst_case.contest import Contest
from ..loss.worst_case.programme import MOST_SPREAD, worst_loss
from ..privacy.curve import Curve
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import below, log_mixture, times
from ..privacy.setting import Setting
from .base import Design, amount_in_words
from .checks import check_count, check_rate
from .cluster import ListedClusters
from .compared import CLUSTER, MOST, AtRate, Candidate, Compared, SameSize
from .parts import Part
from .proportional import ProportionalShare
from .recipe import Every, Order, Step, read_order
from .registry import register
from .srs import SimpleRandom, resized_count, resized_rate

FIXED = "docs/designs/systematic.md, inserted unit: at most (m + 1) epsilon"
RANDOM_ORDER = "the order is drawn at random, uniformly and in secret, and the draw does not look at the data"
# Units up to which every place of the new unit is solved by linear programme.
SMALL = 20


@dataclass(frozen=True)
class SystematicSample(Design):
    """n of N units, or a share of them, one from each stretch of N/n units; N/n need not be whole.

    Every unit has inclusion probability n/N exactly. In a secret random order this is a simple random sample (a share:
    randomised rounding). In a public order units of one stretch are never drawn together, and the sample is one of few: a
    value replaced in its place loses what one of N/n clusters of n units does; a unit inserted or a sort key changed shifts
    everyone behind it, and the loss is up to (n + 1) epsilon.

    >>> systematic(n=10, size=100).largest_probability
    0.1
    >>> round(systematic(step=3, size=12, order="as listed").bound(Losses.of(0.5, "add-remove"), "add-remove").upper, 8)
    2.19576448
    """

    kind: ClassVar[str] = "systematic"
    of_frame: ClassVar[tuple[str, ...]] = ("size",)
    n: int | None = None
    rate: float | None = None
    order: Order = "random"
    size: int | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.n, self.rate, self.step)) != 1:
            raise BadValue("give either n or rate, or step", given=f"n={self.n}, rate={self.rate}, step={self.step}")
        if self.step is not None:
            check_count("step", self.step)
        if self.size is not None:
            check_count("size", self.size)
        if self.n is not None:
            check_count("n", self.n)
        if self.rate is not None:
            check_rate("rate", self.rate)

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        # A share of the list rounds its size by chance, and a mechanism that shows sizes would show the rounding.
        return Relation.REPLACE_ONE if self.n is not None else Relation.ADD_REMOVE

    def sized(self, size: int | None) -> SystematicSample:
        size = self.size if size is None else size
        if self.n is not None and size is not None and self.n > size:
            raise BadValue("cannot draw more units than there are", given=f"n={self.n}, size={size}")
        return replace(self, size=size)

    @property
    def public_units(self) -> int | None:
        return self.n

    def in_words(self, unit: str = "unit") -> str:
        drawn = f"one {unit} in {self.step}" if self.step else amount_in_words(self.n, self.rate, unit)
        return f"systematic sampling of {drawn}"

    def recipe(self) -> Step:
        amount = self.n if self.n is not None else self._rate
        assert amount is not None
        return Every(float(amount), self.n is None, self.order)

    def parts(self) -> tuple[Part, ...]:
        if self._rate is not None:
            return (Part(None, self._rate, None, self.size),)
        return (Part(None, self.n / self.size, self.n, self.size),) if self.n is not None and self.size is not None else ()

    def resized(self, factor: float) -> SystematicSample:
        rate = resized_rate(self._rate, factor)
        return replace(self, n=resized_count(self.n, factor, self.size), rate=rate, step=None)

    @property
    def most(self) -> float:
        # In a fixed order nothing is guaranteed of the probabilities, but the rate is what it is.
        if self._rate is not None:
            return 1.0 / self._rate
        return self.size / self.n if self.n is not None and self.size is not None else 1.0

    @property
    def _rate(self) -> float | None:
        return 1.0 / self.step if self.step is not None else self.rate

    @property
    def _step(self) -> int:
        """Of how many units one is drawn, where that is a whole number."""
        assert self.step is not None or (self.size is not None and self.n is not None)
        return self.step if self.step is not None else (self.size or 0) // (self.n or 1)

    @property
    def _n(self) -> int:
        return self.n if self.n is not None else (self.size or 0) // self._step

    @property
    def _even(self) -> bool:
        """Whether the list is declared to be stretches of one whole length."""
        parts = self.n if self.n is not None else self.step
        return parts is not None and self.size is not None and self.size % parts == 0

    @property
    def largest_probability(self) -> float:
        if self.order == "random" and self.rate is not None:
            return self.rate
        if self.order == "random" and self.n is not None and self.size is not None:
            return self.n / self.size
        # In a fixed order with an undeclared size or a fractional step nothing is claimed.
        return 1.0 / self._step if self.step is not None or self._even else 1.0

    @property
    def rests_on_size(self) -> bool:
        return self.order == "random" and self.n is not None

    @property
    def detection_steps(self) -> float:
        return 1.0 if self.order == "random" else 2.0 * self._n

    def _same_as(self, neighbours: Neighbours) -> Design | Refused | None:
        """The design that this one is, where it is one of the others; None where a unit is put into a fixed order."""
        if self.order == "random" and self.rate is not None:
            return ProportionalShare(float(self.rate), "random")
        if self.order == "random" and self.n is not None and self.size is not None:
            return SimpleRandom(self.n, size=self.size)
        if self.order == "random" and self.step is not None and neighbours == Relation.ADD_REMOVE:
            return ProportionalShare(1.0 / self.step, "random") if self.step > 1 else None
        if not self._even or (neighbours == Relation.ADD_REMOVE and self.step is None):
            return Refused(
                "in a fixed order with a fractional step or an undeclared size no loss is proved",
                'order="random", or a declared size that n divides',
                "docs/designs/systematic.md",
            )
        if self.order == "random":
            return SimpleRandom(self._n, size=self.size)
        if neighbours == Relation.REPLACE_ONE:
            return ListedClusters(
                "stretch", SimpleRandom(1, size=self._step), self._step, sizes=(self._n,) * self._step, unit_in=1
            )
        return None

    def inside(self, setting: Setting) -> Design | Refused:
        found = super().inside(setting)
        if isinstance(found, Design) and self.step is not None and self.order != "random":
            # One over a whole number is not always a number that a draw computes with exactly.
            return replace(self, step=None, rate=1.0 / self.step)
        return found

    def sampled(self, profile: PrivacyProfile, neighbours: Neighbours) -> PrivacyProfile:
        other = self._same_as(neighbours)
        return other.sampled(profile, neighbours) if isinstance(other, Design) else super().sampled(profile, neighbours)

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        other = self._same_as(neighbours)
        if isinstance(other, Refused):
            return other
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
                common=answer.common,
            )
        if not losses.sizes_protected:
            return sizes_unprotected("a record more or less")
        if self._step == 1:
            return Bound.unchanged(losses.add_remove, FIXED, holds_when=(SAMPLE_ONLY,), common=())
        swapped = losses.replace_one < 2.0 * losses.add_remove
        # Samples are matched before or behind the new unit; the shorter side has at most n/2 + 1 units of each.
        steps = self._n // 2 + 1 if swapped and losses.base == Relation.BOTH else self._n + 1
        holds = (
            SAMPLE_ONLY,
            "the order is public; a new or changed sort key is a removal and an insertion",
            f"the list has {self._n * self._step} units without the inserted one",
        )
        typed = losses.replace_one in (losses.add_remove, 2.0 * losses.add_remove)
        if self._n * self._step <= SMALL and typed and losses.add_remove * (2 * self._n + 1) <= MOST_SPREAD:
            places = [self.inserted_at(place) for place in range(self._n * self._step + 1)]
            worst = [worst_loss(each, losses.add_remove, losses.base) for each in places]
            upper = min(max(each.upper for each in worst), times(steps, losses.add_remove))
            lower = min(upper, max(each.lower for each in worst))
            exact = upper - lower <= 1e-6 * lower
            details = {"every_size": Figure(steps * losses.add_remove, "for every size of the list")}
            return Bound(upper, lower, exact, FIXED, "this population", holds, "linear programme", details)
        lower = self._inserted(losses)
        return Bound(
            times(steps, losses.add_remove), min(lower, steps * losses.add_remove), False, FIXED, "this population", holds
        )

    def _inserted(self, losses: Losses) -> float:
        """What the distance to the nearest old sample attains: log of the mean of e^(e distance) over the new samples."""
        both, units = losses.base == Relation.BOTH, self._n * self._step
        best = 0.0
        if units > 60:
            # A unit inserted between two blocks, half way: every new sample keeps the units on one side of it.
            steps = (self._n // 2) * (1 if both else 2)
            return below(steps * losses.add_remove + log_mixture((1.0 / self._step, losses.add_remove)))
        for start in range(units + 1):
            logs = [losses.add_remove * self._nearest(start, j, both) for j in range(self._step)]
            top = max(logs)
            best = max(best, top + math.log(math.fsum(math.exp(each - top) for each in logs) / self._step))
        return below(best)

    def _nearest(self, place: int, j: int, both: bool) -> int:
        """Steps from the new sample j to the nearest old sample, counted before and behind the inserted unit."""
        own_before, own_behind = self._before(place, j), self._behind(place, j - 1)
        hit = int(j == place % self._step)
        found = []
        for i in {j, (j - 1) % self._step, (j + 1) % self._step}:
            # Samples that do not share a residue before or behind the place share nothing there.
            kept_before = own_before if i == j else 0
            kept_behind = own_behind if i == (j - 1) % self._step else 0
            old = self._before(place, i) + self._behind(place, i)
            new = own_before + own_behind + hit
            more, less = new - kept_before - kept_behind, old - kept_before - kept_behind
            found.append(max(more, less) if both else more + less)
        return min(found)

    def _before(self, place: int, residue: int) -> int:
        return max(0, -(-(place - residue % self._step) // self._step))

    def _behind(self, place: int, residue: int) -> int:
        return self._n - self._before(place, residue)

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        other = self._same_as(neighbours)
        if isinstance(other, Design):
            return other.loss_in_sample(losses, neighbours)
        if isinstance(other, Refused):
            return losses.replace_one if neighbours == Relation.REPLACE_ONE else math.inf
        return (self._n + 1) * losses.add_remove if self._step > 1 else losses.add_remove

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        other = self._same_as(neighbours)
        return other.sharper(base, losses, neighbours, alpha) if isinstance(other, Design) else 1.0

    def contest(self, neighbours: Neighbours) -> Contest | None:
        other = self._same_as(neighbours)
        if other is not None:
            return other.contest(neighbours) if isinstance(other, Design) else None
        return None if self._n * self._step > SMALL else self.inserted_at(self._n * self._step // 2)

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        if self._same_as(neighbours) is not None or self._n * self._step > SMALL:
            return super().contests(neighbours)
        return [self.inserted_at(place) for place in range(self._n * self._step + 1)]

    def inserted_at(self, place: int) -> Contest:
        """One unit inserted at a position of the list, counted from 0; blocks of units that move together are kinds."""
        k = self._step
        kinds = [(side, residue) for side in (0, 1) for residue in range(k)]
        counts = [self._before(place, r) if side == 0 else self._behind(place, r) for side, r in kinds]
        laws: list[dict[tuple[int, ...], float]] = [{}, {}]
        for j in range(k):
            old = tuple(n if r == j else 0 for n, (_, r) in zip(counts, kinds, strict=True))
            new = tuple(n if r == (j if side == 0 else (j - 1) % k) else 0 for n, (side, r) in zip(counts, kinds, strict=True))
            for law, sample in zip(laws, ((*new, int(j == place % k)), (*old, 0)), strict=True):
                law[sample] = law.get(sample, 0.0) + 1.0 / k
        return Contest((*counts, 1), laws[0], (*counts, 0), laws[1])


def _compared(share: AtRate) -> Iterator[Compared]:
    taken, of = share.fraction
    if taken != 1 or of > MOST:
        return
    size, drawn = of * CLUSTER, SystematicSample(share.n)
    random, fixed = SystematicSample(step=of, size=size), SystematicSample(step=of, size=size, order="as listed")
    yield Compared(
        "systematic, secret order", random, Relation.REPLACE_ONE, Relation.REPLACE_ONE, "a simple random sample", drawn
    )
    note = f"one of {of} clusters of {CLUSTER}"
    yield Compared("systematic, fixed order", fixed, Relation.REPLACE_ONE, Relation.REPLACE_ONE, note)
    yield Compared("systematic, fixed order", fixed, Relation.ADD_REMOVE, Relation.ADD_REMOVE, "a new unit shifts all behind it")


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    yield Candidate("systematic, secret random order", SystematicSample(asked.n))
    yield Candidate("systematic, as listed", SystematicSample(asked.n, order="as listed"))


def _of_figures(
    step: Annotated[int, "Every step-th unit."],
    n: Annotated[int, "Units drawn; the population has step * n."],
    order: Annotated[str, "random: a secret random order; fixed: a public one, such as a list sorted by postcode."],
) -> SystematicSample:
    """Systematic sampling from a random start.

    Example: `dpsurvey amplify systematic --step 10 --n 50 --order fixed --epsilon 1 --base add-remove --neighbours replace-one`
    """
    if order not in ("random", "fixed"):
        raise BadValue(f"unknown order {order!r}", hint="random or fixed")
    check_count("step", step)
    check_count("n", n)
    return systematic(step=step, size=step * n, order="random" if order == "random" else "as listed")


@register("systematic", compared=_compared, candidates=_candidates, commands={"systematic": _of_figures})
def systematic(
    n: int | None = None,
    *,
    rate: float | None = None,
    order: str | Sequence[str] = "random",
    size: int | None = None,
    step: int | None = None,
) -> SystematicSample:
    """Every k-th unit from a random start: n of them, a share, or one of every `step`; in random order, as listed, or sorted
    by columns.

    >>> systematic(n=10, order=["street", "number"]).order
    ('street', 'number')
    """
    return SystematicSample(n, rate, read_order(order), size, step)
