"""Loss: what a design does to a mechanism's epsilon, for whom, how tight, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadValue, did_you_mean
from ..loss.bound import Bound, Losses, Refused
from ..loss.curves import LARGEST, SampledCurve, largest_below
from ..loss.hypothesis_tests import RedFlag
from ..loss.worst_case.hockey_stick import WorstDelta, worst_delta
from ..loss.worst_case.programme import WorstLoss, worst_loss
from ..privacy.curve import Approximate
from ..privacy.posterior import posterior_bounds
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Neighbours, NeighboursName, Relation, RelationName
from ..privacy.rounding import log_expm1, up
from .base import Design

# What a mechanism may be private under; a guarantee, under one of the first two.
BASES = tuple(Relation)


@dataclass(frozen=True)
class Loss:
    """The answer of `amplify`: proved bounds on the loss, and the loss for each attacker.

    `epsilon` is None where the design refuses; `lower` is attained by some mechanism of the type, at delta 0.
    """

    design: Design
    base: Relation
    neighbours: Neighbours
    spent_epsilon: float
    spent_delta: float
    epsilon: float | None
    delta: float | None
    lower: float | None
    exact: bool
    scope: str | None
    refused: Refused | None
    epsilon_in_sample: float | None
    holds_when: tuple[str, ...]
    source: str
    certified_by: str = "proof"
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    # Strata whose records lose a part of what is spent.
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def sample_leaks(self) -> float | None:
        """What the estimates add once the list of the sample is known: the sample's own loss."""
        return self.epsilon_in_sample

    @property
    def delta_in_sample(self) -> float:
        """The delta that goes with `epsilon_in_sample`: by the lifting theorem, delta (e^known - 1)/(e^epsilon - 1)."""
        if not self.spent_delta or self.epsilon_in_sample is None:
            return self.spent_delta
        return min(1.0, up(self.spent_delta * math.exp(log_expm1(self.epsilon_in_sample) - log_expm1(self.spent_epsilon))))

    @property
    def profile(self) -> PrivacyProfile | None:
        """The whole curve of the sampled mechanism, where the design does not refuse."""
        if self.refused is not None:
            return None
        spent = PrivacyProfile(Approximate(self.spent_epsilon, self.spent_delta), self.base, self.parts)
        made = amplify_profile(self.design, spent, neighbours=self.neighbours)
        return made if isinstance(made, PrivacyProfile) else None

    def attackers(self, prior: float | None = None) -> dict[str, dict[str, Any]]:
        """The loss for four attackers; with a prior, how far each can move a belief held with that probability.

        >>> from dpsurvey.design import poisson
        >>> seen = amplify(poisson(0.1), 1.0, base="add-remove", neighbours="add-remove").attackers(prior=0.5)
        >>> [round(each["epsilon"], 4) for each in seen.values()]
        [0.1586, 1.0, 1.0, 1.0]
        """
        if prior is not None and self.spent_delta:
            raise BadValue(
                "a posterior bound needs delta 0: with a delta none holds for every answer", given=f"delta={self.spent_delta}"
            )
        rate, inside = min(1.0, self.design.listed_probability), self.delta_in_sample
        figures = {
            "outsider": (self.epsilon, self.delta),
            "knows someone is in the sample": (self.epsilon_in_sample, inside),
            "any sampled record": (self.epsilon_in_sample, inside),
            "sample list leaks": (self.sample_leaks, rate * inside),
        }
        answer: dict[str, dict[str, Any]] = {}
        for who, (epsilon, delta) in figures.items():
            answer[who] = {"epsilon": epsilon, "delta": delta}
            if prior is not None and epsilon is not None:
                low, high = posterior_bounds(prior, epsilon)
                answer[who] |= {"posterior_at_least": prior * low, "posterior_at_most": min(1.0, prior * high)}
        return answer

    def red_flags(self) -> tuple[RedFlag, ...]:
        """The three ways in which a sample fails to hide anybody, with their numbers for this design."""
        return self.design.red_flags(self.spent_epsilon)

    def worst_case(self) -> WorstLoss | None:
        """The exact worst loss by linear programme on a small pair of populations, with its mechanism; None if too large."""
        if self.refused is not None:
            return None
        try:
            found = [worst_loss(each, self.spent_epsilon, self.base) for each in self.design.contests(self.neighbours)]
        except BadValue:
            # Too many samples, or an epsilon beyond the solver's reach: there is no witness to show.
            return None
        return max(found, key=lambda each: each.lower, default=None)

    def best_test(self) -> WorstDelta | None:
        """The test with the largest advantage that any mechanism of the type allows, exactly; None if too large.

        Its `delta` is the advantage, its `answers` the chance of yes on each sample; by Proposition 4.1, sharpened, the
        loss is at least 2 artanh(advantage).

        >>> from dpsurvey.design import poisson
        >>> test = amplify(poisson(1.0), 1.0, base="add-remove", neighbours="add-remove").best_test()
        >>> round(test.delta, 6) == round(math.tanh(0.5), 6)
        True
        """
        if self.refused is not None or not 1e-6 <= self.spent_epsilon <= 15.0:
            # Beyond these the solver's tolerance would decide.
            return None
        contests = [each for each in self.design.contests(self.neighbours) if each.is_small]
        found = [worst_delta(each, 0.0, self.spent_epsilon, 0.0, self.base) for each in contests]
        return max(found, key=lambda each: each.delta, default=None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        refused = self.refused
        return {
            "design": self.design.kind,
            "base": self.base.value,
            "neighbours": self.neighbours.value,
            "on_the_sample": {"epsilon": self.spent_epsilon, "delta": self.spent_delta},
            "epsilon": self.epsilon,
            "delta": self.delta,
            "lower": self.lower,
            "exact": self.exact,
            "scope": self.scope,
            "refused": refused.reason if refused else None,
            "instead": refused.instead if refused else None,
            "epsilon_in_sample": self.epsilon_in_sample,
            "sample_leaks": self.sample_leaks,
            "holds_when": list(self.holds_when),
            "source": self.source,
            "certified_by": self.certified_by,
            **({"parts": dict(self.parts)} if self.parts else {}),
            "details": _finite(
                dict(self.details) | ({"proved_all_the_same": refused.bound} if refused and refused.bound else {})
            ),
            "red_flags": [flag.to_dict() for flag in self.red_flags()],
        }


def _finite(value: Any) -> Any:
    """JSON has no infinity: null stands for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _checked(
    epsilon: float,
    delta: float,
    base: Relation | RelationName,
    neighbours: Neighbours | NeighboursName,
    parts: Mapping[str, float] | None = None,
) -> tuple[Losses, Neighbours]:
    """What a mechanism of the type costs by steps, and the relation of the guarantee."""
    for name, value, known in (("base", base, BASES), ("neighbours", neighbours, BASES[:2])):
        if value not in known:
            words = ", ".join(map(repr, known))
            raise BadValue(
                f"{name} must be one of the relations {words}", given=f"{name}={value!r}", hint=did_you_mean(str(value), known)
            )
    if not (isinstance(delta, int | float) and 0.0 <= delta < 1.0):
        raise BadValue("delta must be in [0, 1)", given=f"delta={delta}")
    return Losses.of(epsilon, base, parts), Relation.read(neighbours, allow_both=False)


def amplify(
    design: Design,
    epsilon: float,
    *,
    delta: float = 0.0,
    base: Relation | RelationName,
    neighbours: Neighbours | NeighboursName,
    parts: Mapping[str, float] | None = None,
) -> Loss:
    """The loss of drawing a sample and then running any (epsilon, delta)-private mechanism on it.

    `base` is the mechanism's relation on the sample, `neighbours` that of the guarantee; neither is ever guessed. `parts` names
    strata whose records lose a part of epsilon alone, because they move weighted sums by so much less.

    >>> from dpsurvey.design import srs
    >>> answer = amplify(srs(n=100, size=1000), 1.0, base="replace-one", neighbours="replace-one")
    >>> round(answer.epsilon, 4), answer.exact, answer.scope
    (0.1586, True, 'every population')
    >>> from dpsurvey.design import poisson, stratified
    >>> firms = stratified("size", within={"small": poisson(0.02), "large": poisson(1.0)})
    >>> for parts in (None, {"large": 1 / 50}):
    ...     print(round(amplify(firms, 4.4649, base="add-remove", neighbours="add-remove", parts=parts).epsilon, 4))
    4.4649
    1.0
    """
    losses, relation = _checked(epsilon, delta, base, neighbours, parts)
    _check_strata(_a_design(design), parts)
    answer = design.bound(losses, relation)
    known = design.loss_in_sample(losses, relation)
    known_or_none = known if math.isfinite(known) else None
    start = (design, losses.base, relation, float(epsilon), float(delta))
    if isinstance(answer, Refused):
        return Loss(*start, None, None, None, False, None, answer, known_or_none, (), answer.source, parts=losses.parts)
    outside = answer.upper
    # Where inclusion itself follows the data, whoever knows of it learns no less than an outsider.
    known_or_none = None if known_or_none is None else max(known_or_none, outside)
    lower: float | None = answer.lower
    outside_delta = 0.0
    if delta:
        spent = PrivacyProfile(Approximate(epsilon, delta), losses.base, losses.parts)
        lifted = SampledCurve(spent.curve, losses.base, relation, design)
        curve = design.sampled(spent, relation).curve if losses.parts else lifted
        outside_delta = curve.delta(outside)
        # At a delta above 0 a smaller epsilon may do, so the pure lower bound is no longer one.
        lower = None
    exact = answer.exact and not delta
    return Loss(
        *start,
        outside,
        outside_delta,
        lower,
        exact,
        answer.scope,
        None,
        known_or_none,
        answer.conditions,
        answer.source,
        answer.certified_by,
        answer.details,
        losses.parts,
    )


def _check_strata(design: Design, parts: Mapping[str, float] | None) -> None:
    """Refuse parts of strata that are none of the design's."""
    unknown = set(parts or {}) - {str(label) for label in design.insides() if label is not None}
    if unknown:
        hint = "stratified(by, within={label: design})"
        raise BadValue("parts= names strata of the design", given=", ".join(sorted(unknown)), hint=hint)


def _largest_delta(design: Design, spent: float, losses: Losses, relation: Neighbours, epsilon: float, delta: float) -> float:
    """The most delta beside a pure loss on the sample, where each stratum lifts it by its own rate: by bisection, from below."""
    low, high = math.log(delta) - 700.0, 0.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        tried = PrivacyProfile(Approximate(spent, math.exp(middle)), losses.base, losses.parts)
        low, high = (middle, high) if design.sampled(tried, relation).delta(epsilon) <= delta else (low, middle)
    return math.exp(low)


def _a_design(given: object) -> Design:
    """What was given as a design, if it is one."""
    if isinstance(given, Design):
        return given
    raise BadValue(
        "amplify takes a design", given=f"a {type(given).__name__}", hint="for example poisson(0.1): docs/designs/README.md"
    )


def amplify_profile(
    design: Design, profile: PrivacyProfile, *, neighbours: Neighbours | NeighboursName
) -> PrivacyProfile | Refused:
    """The whole curve of a sampled mechanism, from the whole curve of everything that was asked of the sample.

    Compose first, amplify once: a profile that a sample has amplified already is refused.

    >>> from dpsurvey.design import proportional
    >>> asked = PrivacyProfile.gaussian(0.6, "add-remove").compose(PrivacyProfile.gaussian(0.8, "add-remove"))
    >>> round(amplify_profile(proportional(0.1), asked, neighbours="add-remove").delta(0.5), 7)
    0.0432041
    """
    if profile.is_amplified:
        raise BadValue("this profile was amplified already", because="one sample amplifies once, after everything was composed")
    losses, relation = _checked(1.0, 0.0, profile.relation, neighbours)
    answer = _a_design(design).bound(losses, relation)
    if isinstance(answer, Refused):
        return answer
    return design.sampled(profile, relation)


def invert(
    design: Design,
    epsilon: float,
    *,
    delta: float = 0.0,
    base: Relation | RelationName,
    neighbours: Neighbours | NeighboursName,
    parts: Mapping[str, float] | None = None,
) -> Loss:
    """The most that may be spent on the sample so that the guarantee (epsilon, delta) is kept: `spent_epsilon` of the answer.

    >>> from dpsurvey.design import srs
    >>> answer = invert(srs(n=1, size=100), 1.0, base="replace-one", neighbours="replace-one")
    >>> round(answer.spent_epsilon, 4), answer.epsilon <= 1.0
    (5.1523, True)
    """
    losses, relation = _checked(epsilon, delta, base, neighbours, parts)
    first = _a_design(design).bound(losses, relation)
    if isinstance(first, Refused):
        return amplify(design, epsilon, delta=delta, base=base, neighbours=neighbours, parts=parts)

    def outside(spent: float) -> float:
        answer = design.bound(Losses.of(spent, losses.base, parts), relation)
        return answer.upper if isinstance(answer, Bound) else math.inf

    spent = largest_below(outside, epsilon)
    if spent >= LARGEST:
        raise BadValue("nobody is ever drawn, so any epsilon meets the target", given=f"epsilon={epsilon}")
    if not spent > 0.0:
        raise BadValue("no mechanism on the sample is private enough for this target", given=f"epsilon={epsilon}")
    # The lifted delta is spent (e^outside - 1)/(e^inside - 1); here it is solved for what to spend.
    inside_delta = (
        min(1.0, (1.0 - 1e-13) * (delta * math.exp(min(700.0, log_expm1(spent) - log_expm1(epsilon))))) if delta else 0.0
    )
    if losses.parts and delta:
        inside_delta = _largest_delta(design, spent, losses, relation, epsilon, delta)
    if inside_delta >= 1.0:
        raise BadValue(
            "the target delta is too large for this design: any mechanism would do",
            given=f"delta={delta}",
            hint="delta below the sampling rate",
        )
    return amplify(design, spent, delta=inside_delta, base=base, neighbours=neighbours, parts=parts)
