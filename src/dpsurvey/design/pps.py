"""Probability proportional to size: n units, each with a chance in proportion to a public measure of size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from ..errors import BadValue, did_you_mean
from ..loss.bound import SAMPLE_ONLY, Bound, Losses, Refused
from ..loss.transport import replacing
from ..loss.worst_case.contest import Contest
from ..loss.worst_case.programme import MOST_SPREAD, worst_loss
from ..privacy.curve import Curve
from ..privacy.relation import Neighbours, Relation
from ..privacy.rounding import amplified, below, log_mixture, up
from ..privacy.setting import Setting
from .base import Design
from .checks import check_count, check_name, check_rate, check_rates
from .compared import MOST, AtRate, Candidate, Compared, SameSize
from .poisson import Poisson, independent_bound
from .pps_methods import METHODS, Joint, inclusion_probabilities
from .pps_methods.base import PROVED, Array, Method
from .recipe import Order, Sized, Step, read_order
from .registry import register

# Units up to which the linear programme is solved for every one of them.
SMALL = 10
SIZES_PUBLIC = "the measure of size is a public column that does not change with the record's values, and so is its normaliser"
EXACT_PROBABILITIES = "the draw has exactly the stated inclusion probabilities"
ONE_START = Refused(
    "one random start decides about all units: a sample with a unit may share nothing with any sample without it",
    "Sampford, conditional Poisson or pivotal sampling with the same probabilities",
    "docs/designs/pps.md",
)
NORMALISED = Refused(
    "with one unit more or less the sizes add up to another total, and everybody has another probability",
    'neighbours="replace-one", or poisson_by with pi = c size and a declared c',
    "rule of declared normalisers, docs/designs/pps.md",
)


@dataclass(frozen=True)
class ProportionalToSize(Design):
    """pi_i = n x_i / sum x, units for which that exceeds 1 taken for certain first, the rest by a named method.

    "poisson": each by itself, the size is random. "systematic": one start on the cumulated sizes, in an order.
    "sampford", "conditional-poisson" (largest entropy), "pivotal": n units, exactly these probabilities.
    "pareto": the n smallest of u(1-pi)/((1-u)pi), probabilities nearly these. `at_most` bounds every pi; the guarantee
    of a secret draw rests on it, and the draw is refused if a unit exceeds it.

    >>> design = pps("employees", n=2, method="sampford")
    >>> [round(float(each), 3) for each in design.probabilities([1, 2, 3, 30])]
    [0.167, 0.333, 0.5, 1.0]
    """

    kind: ClassVar[str] = "pps"
    unwritten: ClassVar[Mapping[str, Any]] = {"measure": "public"}
    size: str
    n: int
    method: str = "systematic"
    order: Order = "random"
    at_most: float | None = None
    measure: Literal["public", "confidential"] = "public"

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_name("size", self.size)
        if self.method not in METHODS:
            raise BadValue(f"unknown method {self.method!r}", hint=did_you_mean(str(self.method), METHODS))
        if self.order != "random" and not self.drawn_by.one_start:
            raise BadValue("only the systematic method has an order", given=f"method={self.method!r}, order={self.order!r}")
        if self.at_most is not None:
            check_rate("at_most", self.at_most)
        if self.measure not in ("public", "confidential"):
            raise BadValue(f"unknown measure {self.measure!r}", hint="public or confidential")

    @property
    def drawn_by(self) -> Method:
        """The method of the draw."""
        return METHODS[self.method]

    @property
    def fixed_size(self) -> bool:  # type: ignore[override]
        return self.drawn_by.fixed_size

    @property
    def same_size(self) -> bool:  # type: ignore[override]
        return self.fixed_size

    @property
    def sample_relation(self) -> Relation:  # type: ignore[override]
        return Relation.REPLACE_ONE if self.fixed_size else Relation.ADD_REMOVE

    def probabilities(self, sizes: Sequence[float]) -> Array:
        """The inclusion probabilities of units with these sizes, certainty units included."""
        return inclusion_probabilities(sizes, self.n)

    def joint(self, sizes: Sequence[float]) -> Joint:
        """The joint inclusion probabilities of units with these sizes: exact, or an approximation that is named.

        In a fixed order the sizes are given in that order.
        """
        if self.drawn_by.one_start and self.order == "random":
            near = METHODS["conditional-poisson"].joint(self.probabilities(sizes))
            return Joint(near.matrix, False, "a random order: those of conditional Poisson sampling (Brewer and Donadio 2003)")
        return self.drawn_by.joint(self.probabilities(sizes))

    @property
    def public_units(self) -> int:
        return self.n

    def in_words(self, unit: str = "unit") -> str:
        return f"{self.n} {unit}s with chances in proportion to {self.size}, {self.method}"

    def recipe(self) -> Step:
        return Sized(self.size, self.n, self.method, self.order, self.at_most or 1.0)

    @property
    def largest_probability(self) -> float:
        by = self.drawn_by
        return 1.0 if self.at_most is None or by.one_start or not by.exact_probabilities else self.at_most

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # With a record more or less others are drawn in everybody's place.
        return super().loss_in_sample(losses, neighbours) if neighbours == Relation.REPLACE_ONE else math.inf

    @property
    def depends_on_data(self) -> float:
        return 1.0 if self.measure == "public" else math.inf

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        refused = self._refused(neighbours)
        if refused is not None:
            return refused
        if self.drawn_by.one_start:
            return ONE_START
        if self.at_most is None:
            return Refused(
                "no bound on the probabilities is declared, and a unit that is drawn for certain is not hidden at all",
                "at_most=, a public bound on every unit's probability",
                "docs/designs/pps.md",
            )
        if not self.fixed_size:
            return independent_bound((self.at_most,), losses, neighbours) if neighbours == Relation.REPLACE_ONE else NORMALISED
        # The list of probabilities need not be written down; a unit with a smaller one loses less.
        upper = up(log_mixture((self.at_most, losses.replace_one)))
        holds = (SAMPLE_ONLY, SIZES_PUBLIC, EXACT_PROBABILITIES)
        return Bound(upper, 0.0, False, self.drawn_by.covering, holds_when=holds)

    def _refused(self, neighbours: Neighbours) -> Refused | None:
        if self.measure == "confidential":
            return Refused(
                "the inclusion probabilities are computed from confidential sizes: one record moves everybody's probability",
                "a measure of size that is public, or Poisson sampling with classes of public rates",
                "docs/designs/pps.md: at epsilon 1 the loss is 3.6, 4.7, 5.8 for 2 of 5, 3 of 6, 4 of 7 units",
            )
        if self.fixed_size and neighbours == Relation.ADD_REMOVE:
            return Refused(
                "with one unit more or less a fixed-size method has other probabilities for everybody",
                'neighbours="replace-one", or Poisson sampling with pi = c size and a declared c',
                "rule of declared normalisers, docs/designs/pps.md",
            )
        if self.fixed_size and not self.drawn_by.one_start and not self.drawn_by.covering:
            sampling = f"{self.method.capitalize()} sampling"
            return Refused(
                f"the covering of {sampling} is not proved here"
                if self.drawn_by.exact_probabilities
                else f"{sampling} does not have the stated inclusion probabilities exactly, and its covering is not proved here",
                "conditional Poisson, Sampford or pivotal sampling with the same probabilities",
                PROVED,
            )
        return None

    def sharper(self, base: Curve, losses: Losses, neighbours: Neighbours, alpha: float) -> float:
        p = self.largest_probability
        if not self.fixed_size:
            return Poisson(p).sharper(base, losses, neighbours, alpha)
        replaced = replacing(base, losses)
        return p * (replaced(alpha) if self.drawn_by.one_start else replaced(1.0 + (alpha - 1.0) / p))

    def resized(self, factor: float) -> ProportionalToSize:
        most = None if self.at_most is None else min(1.0, self.at_most * factor)
        return replace(self, n=max(1, round(self.n * factor)), at_most=most)

    @property
    def most(self) -> float:
        # Where no bound is declared nobody knows; a unit may be certain already.
        return 1.0 / self.at_most if self.at_most is not None else 1.0


@dataclass(frozen=True)
class ListedProbabilities(ProportionalToSize):
    """Units with inclusion probabilities pi_i that are written down, drawn by a method. With a public measure of size and a
    method whose samples can be matched by one exchange ("covering"), replace-one loses log(1 + pi_i(e^R - 1)), exactly.

    >>> design = pps("employees", probabilities=(0.3, 0.7, 1.0), method="sampford")
    >>> round(design.bound(Losses.of(1.0, "replace-one"), "replace-one").details["per_unit"][0], 10)
    0.4157352218
    """

    listed: tuple[float, ...] = ()

    def inside(self, setting: Setting) -> Design | Refused:
        # In a survey the column of the frame decides; the list is not compared with it.
        plain = ProportionalToSize(self.size, self.n, self.method, self.order, self.at_most, self.measure)
        return plain.inside(setting)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.listed:
            raise BadValue("probabilities must name at least one unit")
        if self.fixed_size and abs(self.total - round(self.total)) > 1e-6:
            raise BadValue(
                "probabilities of a fixed-size method must sum to a whole number",
                given=f"sum {self.total:.9g}",
                hint="the sum is the sample size",
            )

    def loss_in_sample(self, losses: Losses, neighbours: Neighbours) -> float:
        # Probabilities that are written down do not change with a record more or less; a fixed number of units does.
        return (
            losses.add_remove
            if not self.fixed_size and neighbours == Relation.ADD_REMOVE
            else super().loss_in_sample(losses, neighbours)
        )

    @property
    def total(self) -> float:
        """The expected sample size."""
        return math.fsum(self.listed)

    @property
    def largest_probability(self) -> float:
        return max(self.listed)

    @property
    def detection_steps(self) -> float:
        return float(round(self.total)) if self.drawn_by.one_start else 1.0

    def bound(self, losses: Losses, neighbours: Neighbours) -> Bound | Refused:
        refused = self._refused(neighbours)
        if refused is not None:
            return refused
        if not self.fixed_size:
            return independent_bound(self.listed, losses, neighbours)
        if self.drawn_by.one_start:
            return self._in_random_order(losses) if self.order == "random" else self._systematic(losses)
        values = [up(log_mixture((p, losses.replace_one))) for p in self.listed]
        top = max(values)
        holds = (SAMPLE_ONLY, SIZES_PUBLIC, EXACT_PROBABILITIES)
        return Bound(top, below(top), True, self.drawn_by.covering, holds_when=holds, details={"per_unit": values})

    def _in_random_order(self, losses: Losses) -> Bound:
        """A mixture over orders: what holds in each of them holds, and what some mechanism attains in one may be less here."""
        steps = losses.swap(round(self.total), round(self.total))
        uppers = [_one_start(p, losses.replace_one, steps) for p in self.listed]
        lower = max(below(log_mixture((p, losses.replace_one))) for p in self.listed)
        holds = (SAMPLE_ONLY, SIZES_PUBLIC)
        top, source = max(uppers), "docs/designs/pps.md, one random start"
        return Bound(top, min(lower, top), False, source, holds_when=holds, details={"per_unit": uppers})

    def _systematic(self, losses: Losses) -> Bound:
        """One random start: a sample without the unit may share nothing with any sample that has it."""
        steps = losses.swap(round(self.total), round(self.total))
        uppers = [_one_start(p, losses.replace_one, steps) for p in self.listed]
        top = max(uppers)
        lower = max(below(log_mixture((p, losses.replace_one))) for p in self.listed)
        holds = (SAMPLE_ONLY, SIZES_PUBLIC, "the order of the units is public and does not change")
        details = {"per_unit": uppers, "never": "log(1 + pi(e^epsilon - 1)) is not a bound for systematic sampling"}
        source = "docs/designs/pps.md, one random start"
        epsilon = losses.replace_one if losses.base == Relation.REPLACE_ONE else losses.add_remove
        typed = losses.base != Relation.ADD_REMOVE or losses.replace_one == 2.0 * losses.add_remove
        if len(self.listed) <= SMALL and typed and 2.0 * self.total * epsilon <= MOST_SPREAD:
            worst = [worst_loss(self._contest(i), epsilon, losses.base) for i in range(len(self.listed))]
            top, lower = min(top, max(each.upper for each in worst)), max(each.lower for each in worst)
            lower = min(lower, top)
            exact = top - lower <= 1e-6 * lower
            return Bound(top, lower, exact, source, holds_when=holds, certified_by="linear programme", details=details)
        return Bound(top, min(lower, top), top == lower, source, holds_when=holds, details=details)

    def contest(self, neighbours: Neighbours) -> Contest | None:
        fixed = self.drawn_by.one_start and self.order != "random"
        if not fixed or neighbours != Relation.REPLACE_ONE or len(self.listed) > 2 * SMALL:
            return None
        return self._contest(max(range(len(self.listed)), key=lambda i: self.listed[i] % 1.0))

    def contests(self, neighbours: Neighbours) -> list[Contest]:
        if self.contest(neighbours) is None:
            return []
        return [self._contest(i) for i in range(len(self.listed))]

    def _contest(self, target: int) -> Contest:
        laws: list[dict[tuple[int, ...], float]] = [{}, {}]
        for chosen, probability in systematic_samples(self.listed).items():
            others = tuple(int(i in chosen and i != target) for i in range(len(self.listed)))
            here = int(target in chosen)
            for law, tail in zip(laws, ((here, 0), (0, here)), strict=True):
                law[others + tail] = law.get(others + tail, 0.0) + probability
        units = tuple(int(i != target) for i in range(len(self.listed)))
        return Contest((*units, 1, 0), laws[0], (*units, 0, 1), laws[1])

    def figures(self) -> dict[str, Any]:
        given = super().figures()
        return {name: value for name, value in given.items() if name not in ("listed", "n")} | {
            "probabilities": list(self.listed)
        }

    def to_dict(self) -> dict[str, Any]:
        return self.figures()


def _compared(share: AtRate) -> Iterator[Compared]:
    taken, of = share.fraction
    if of <= MOST:
        public = pps("size", probabilities=(taken / of,) * of, method="sampford")
        yield Compared(
            "PPS, Sampford, public sizes", public, Relation.REPLACE_ONE, Relation.REPLACE_ONE, "covering: one exchange"
        )


def _spread_weights(rate: float, most: float) -> tuple[float, float]:
    """Extremes of weights, spread evenly on a logarithmic scale between them, that draw this share of the units."""
    low, top = 1.0 / most, 1e9 / most
    high = top
    bottom = low * (1.0 + 1e-9)
    for _ in range(200):
        high = math.sqrt(bottom * top)
        drawn = (1.0 / low - 1.0 / high) / math.log(high / low)
        bottom, top = (high, top) if drawn > rate else (bottom, high)
    return low, high


def _candidates(asked: SameSize) -> Iterator[Candidate]:
    if asked.sizes is not None:
        column, most = asked.sizes
        weights = _spread_weights(asked.rate, most)
        for method in ("sampford", "systematic", "poisson"):
            yield Candidate(f"PPS by {column}, {method}", pps(column, n=asked.n, method=method, at_most=most), weights)


def _of_figures(
    probabilities: Annotated[Sequence[float], "Inclusion probabilities by commas, or a file of them."],
    measure: Annotated[str, "Whether the measure of size is public or confidential."],
    method: Annotated[str, "poisson, conditional-poisson, sampford, pivotal, pareto or systematic."],
) -> ProportionalToSize:
    """Unequal probabilities, in proportion to a measure of size.

    Example: `dpsurvey amplify pps --probabilities 0.2,0.3,0.5 --measure public --method sampford --epsilon 1
    --base replace-one --neighbours replace-one`
    """
    order = "as listed" if method == "systematic" else "random"
    return pps("size", probabilities=probabilities, measure=measure, method=method, order=order)  # type: ignore[arg-type]


@register("pps", compared=_compared, candidates=_candidates, commands={"pps": _of_figures})
def pps(
    size: str,
    *,
    n: int | None = None,
    method: str = "systematic",
    order: str | Sequence[str] = "random",
    at_most: float | None = None,
    probabilities: Sequence[float] | None = None,
    measure: Literal["public", "confidential"] = "public",
) -> ProportionalToSize:
    """Draw n units with chances in proportion to a public column, by a named method.

    `probabilities` are those of all units, where they are written down; `measure` says whether the sizes are public.

    >>> pps("employees", n=40, method="pivotal").recipe()
    Sized(size='employees', take=40, method='pivotal', order='random', at_most=1.0)
    """
    if probabilities is not None:
        listed = check_rates("probabilities", probabilities)
        n = n or max(1, round(math.fsum(listed)))
        return ListedProbabilities(size, n, method, read_order(order), at_most, measure, listed)
    if n is None:
        raise BadValue("pps needs n, the number of units", hint='pps("employees", n=40)')
    return ProportionalToSize(size, n, method, read_order(order), at_most, measure)


def _one_start(p: float, replaced: float, steps: float) -> float:
    """log(1 + p(e^R - 1)/(p + (1-p) e^(R - steps))): every sample without the unit is within `steps` of one with it."""
    far = (1.0 - p) * math.exp(max(-700.0, min(0.0, replaced - steps)))
    return min(replaced, up(amplified(replaced, min(1.0, p / (p + far)))))


def systematic_samples(probabilities: tuple[float, ...]) -> dict[frozenset[int], float]:
    """Every sample of systematic sampling with one uniform start and its probability.

    >>> sorted(map(sorted, systematic_samples((0.5, 0.5, 0.5, 0.5))))
    [[0, 2], [1, 3]]
    """
    ends = list(itertools.accumulate(probabilities, initial=0.0))
    cuts = sorted({round(end % 1.0, 12) for end in ends} | {0.0, 1.0})
    samples: dict[frozenset[int], float] = {}
    for low, high in itertools.pairwise(cuts):
        start = (low + high) / 2.0
        chosen = frozenset(i for i in range(len(probabilities)) if math.floor(ends[i + 1] - start) > math.floor(ends[i] - start))
        samples[chosen] = samples.get(chosen, 0.0) + high - low
    return samples
