"""Plan: statistics, shares, and the errors to expect. Reads no rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import BadValue
from ..ledger.request import Charge, Request
from ..ledger.terms import Terms
from ..mechanism import MECHANISMS, Mechanism
from ..mechanism.base import Answering
from ..privacy.budget import Budget, amount, take_share
from ..privacy.guarantee import Guarantee
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.running import Running
from ..statistic import Query, Statistic
from ..statistic.base import Estimates, calibrate_norms
from ..statistic.derived import Derived
from ..statistic.estimators.names import as_in_0_8
from ..statistic.facts import Facts
from ..statistic.margins import as_margin, margin_of
from ..statistic.named_answers import refuse_no_answer
from ..statistic.naming import labels_of, names_of
from ..statistic.noisy_sums import Asked, NoisySums
from ..statistic.number_limits import check_sums, check_weights
from .advice import against_recommendation, expected_trouble, merged
from .aims import aimed, least_epsilon, least_size, read_targets
from .fieldwork import Fieldwork
from .plan_text import plan_text
from .predictions import predicted_rows
from .shared_sums import charges_of
from .shares import share_used
from .unit_losses import parts_by_stratum, unit_losses

if TYPE_CHECKING:
    from .release import Release

# The version whose sums and estimators a plan follows, written with it so that a release can be computed again by the same rules.
RULES = "0.9"
# From so many times less noise variance on, weighted sums of the whole are chosen by what they are expected to give, though the
# same plan asks for the strata.
MUCH_LESS_NOISE = 4.0


@dataclass(frozen=True)
class Item:
    """One charge of a plan: a vector of sums, the statistics that read it, its share and its noise."""

    query: Query
    statistics: tuple[Statistic, ...]
    share: float
    charge: PrivacyProfile
    mechanism: Answering
    # What each statistic reads: the sums, or a margin of them.
    queries: tuple[Query, ...]

    def query_of(self, statistic: Statistic) -> Query:
        """What a statistic reads of this charge."""
        return self.queries[self.statistics.index(statistic)]

    def kept(self, answer: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The answer to the charge as a release keeps it: noisy sums, and of each standard error its length, factor and df."""
        if self.query.clusters is None:
            return {"sums": answer}
        cells = self.query.cells
        return {"sums": answer[:cells], "norms": answer[cells:]}

    def numbers_of(self, statistic: Statistic) -> slice:
        """Where the numbers of a statistic stand among all of this charge."""
        counts = [len(each.published(query)) for each, query in zip(self.statistics, self.queries, strict=True)]
        place = self.statistics.index(statistic)
        return slice(sum(counts[:place]), sum(counts[: place + 1]))


@dataclass(frozen=True)
class Plan:
    """What will be asked, what each part may spend, and the error to expect of every estimate.

    Shares are parts of what one sample of the survey may be charged; statistics that read the same sums share one
    charge. Where each stratum is amplified by its own rate, that is what the stratum may lose that a charge strains most, and
    charges that strain different strata are all larger than their shares say. Made by `Survey.plan`.
    """

    terms: Terms
    statistics: tuple[Statistic, ...]
    share: float = 1.0
    weights: tuple[float, ...] = ()
    responses: Any = field(default=None, compare=False, repr=False)
    # "laplace" or "gaussian"; empty for what the budget pays for by default.
    noise: str = ""
    # What the field is expected to bring and to cost; for predictions alone.
    fieldwork: Fieldwork | None = field(default=None, compare=False)
    # The share by which estimators are chosen, where the parts of this plan were divided anew after that; else its share.
    chosen_at: float | None = None
    # Whether sums and estimators are those of 0.8: for releases that were made with it.
    as_in_0_8: bool = field(default=False, repr=False)
    _release: Callable[[Plan], Release] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for statistic in self.statistics:
            if not isinstance(statistic, Statistic):
                raise BadValue(
                    "a plan is made of statistics, one after the other",
                    given=f"a {type(statistic).__name__}",
                    hint='plan(ds.mean("income", bounds=(0, 250_000)), ds.count(by="sex")); for a list plan(*statistics)',
                )
        if self.fieldwork is not None and not isinstance(self.fieldwork, Fieldwork):
            raise BadValue("fieldwork= is made by ds.Fieldwork", given=f"a {type(self.fieldwork).__name__}")
        if not self.statistics:
            raise BadValue("a plan needs at least one statistic", hint='for example ds.mean("income", bounds=(0, 250_000))')
        if not 0.0 < self.share <= 1.0:
            raise BadValue("a share must be in (0, 1]", given=f"share={self.share}")
        weights = self.weights or (1.0,) * len(self.statistics)
        if len(weights) != len(self.statistics) or not all(weight > 0.0 and math.isfinite(weight) for weight in weights):
            raise BadValue("weights= takes one positive number per statistic", given=repr(weights))
        if len(set(self.statistics)) < len(self.statistics):
            raise BadValue(
                "a statistic is asked for twice in one plan",
                hint="remove the copy: it would spend twice and tell less than one with both shares",
            )
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights))

    def validated(self) -> Plan:
        """This plan, after every charge was calibrated once, so that what cannot be planned fails now."""
        len(self.items)
        return self

    @property
    def respondents_only(self) -> bool:
        """Whether values come from a file of responses: it is given, or not everybody is expected to answer."""
        expected = self.terms.design.responses_only or bool(self.fieldwork and self.fieldwork.response_rates)
        return self.responses is not None or expected

    @property
    def noise_class(self) -> type[Mechanism]:
        """The mechanism that adds noise to the sums of this plan."""
        return MECHANISMS[self.noise] if self.noise else self.terms.mechanism

    @cached_property
    def facts(self) -> Facts:
        """The public facts that this plan is made from."""
        strata = self.terms.design.strata_column
        by_stratum = [each.measure for each in self.statistics if strata and each.by == (strata,) and not each.filters]
        facts = self.terms.facts(respondents_only=self.respondents_only, noise=self.noise_class)
        if facts.weighted_gain > MUCH_LESS_NOISE and not self.as_in_0_8:
            # A charge of its own may cost the whole far less noise than sums of strata have.
            by_stratum = []
        if self.fieldwork is not None:
            self.fieldwork.check(facts)
        response = self.fieldwork.response_rates if self.fieldwork is not None else ()
        # Numbers made of others read sums that are charged already.
        asked = max(1, sum(not isinstance(each, Derived) for each in self.statistics))
        return replace(
            facts,
            by_stratum=frozenset(by_stratum),
            response=response,
            shared_by=asked / (self.chosen_at or self.share),
            as_in_0_8=self.as_in_0_8,
        )

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """For each charge, the places of its statistics: those with the same sums together, or with margins of them."""
        return charges_of(self.statistics, self._queries, self.facts)

    @cached_property
    def _queries(self) -> tuple[Query, ...]:
        check_weights(self.facts)
        queries = tuple(check_sums(statistic.query(self.facts), self.facts) for statistic in self.statistics)
        held = self.terms.held_fixed
        return tuple(refuse_no_answer(query, held, self.terms.design.weighting_columns) for query in queries)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The charges: statistics with the same sums together, shares in proportion to the largest weight of each."""
        return tuple(self._item(place, take_share(self.most(place), share), share) for place, share in enumerate(self.shares))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """For each charge, its part of the most that it alone may take of a sample; all together leave no stratum more than it
        may lose."""
        wishes = [max(self.weights[index] for index in own) for own in self.members]
        shares = [self.share * wish / math.fsum(wishes) for wish in wishes]
        # Statistics that strain different strata leave room for each other.
        used = share_used(self, shares)
        room = self.share / used * (1.0 - 1e-12) if used < self.share * (1.0 - 1e-9) else 1.0
        return tuple(min(1.0, share * room) for share in shares)

    def most(self, place: int) -> PrivacyProfile:
        """The most that one charge alone may take of a sample."""
        return self.terms.most(self.noise_class.measure, self._parts[place])

    @cached_property
    def _parts(self) -> tuple[Mapping[str, float], ...]:
        """For each charge, by which part of it the records of each stratum move what it asks."""
        measure = self.noise_class.measure
        if self.as_in_0_8 or not self.terms.strata.amounts(measure):
            return ({},) * len(self.members)
        return tuple(self._parts_of(place, self.terms.in_sample(measure)) for place in range(len(self.members)))

    def _parts_of(self, place: int, charge: PrivacyProfile) -> Mapping[str, float]:
        statistic, query = self.statistics[self.members[place][0]], self._queries[self.members[place][0]]
        if statistic.needs_delta or query.clusters is not None:
            return {}
        return parts_by_stratum(self.facts, query, statistic.calibrate(query, charge, self.facts, self.noise_class, 0.0))

    def item_at(self, place: int, spent: float) -> Item:
        """One charge as it would be with this in-sample amount, whatever the budget; for planning alone."""
        most, measure = self.most(place), self.noise_class.measure
        return self._item(place, PrivacyProfile(measure.curve(spent), most.relation, most.parts), spent / amount(most))

    def _item(self, place: int, charge: PrivacyProfile, share: float) -> Item:
        statistics = tuple(self.statistics[index] for index in self.members[place])
        queries = tuple(self._queries[index] for index in self.members[place])
        query = queries[0]
        # A little of delta is kept back, so that however many parts are rounded up, they fit into the whole.
        delta = self.terms.delta_in_sample * min(share, 1.0) * (1.0 - 1e-9) if statistics[0].needs_delta else 0.0
        if delta > 0.0:
            charge = PrivacyProfile.approximate(amount(charge) * (1.0 - 1e-6), delta, charge.relation)
        if query.clusters is not None:
            mechanism: Answering = calibrate_norms(statistics, queries, charge, self.facts, self.noise_class)
        else:
            mechanism = statistics[0].calibrate(query, charge, self.facts, self.noise_class, delta)
        return Item(query, statistics, share, charge, mechanism, queries)

    @property
    def charged(self) -> Running:
        """What this plan alone would charge to a sample."""
        return Running().plus(*(item.charge for item in self.items))

    @property
    def guarantee(self) -> Guarantee:
        """What this plan alone would guarantee."""
        return self.terms.guarantee(self.charged, answers=self.terms.answers_asked(self.statistics))

    def estimate(self, item: Item, statistic: Statistic, sums: Any) -> Estimates:
        """Estimates of one statistic from the answer to its charge, as a release keeps it, or from noisy sums of many surveys."""
        noisy = sums if isinstance(sums, NoisySums) else self.asked(item).read(sums)
        if noisy.lengths is not None:
            noisy = noisy.of_numbers(item.numbers_of(statistic))
        noisy = margin_of(noisy, item.query_of(statistic))
        numbers = statistic.estimate(noisy.read_as(statistic.asked_of(noisy.query)))
        return replace(numbers, response=statistic.item_response(noisy))

    def asked(self, item: Item, *, intervals: bool = True) -> Asked:
        """What one charge asks, with the mechanism that answers and the public facts."""
        return Asked(item.query, self.facts, item.mechanism, intervals)

    def asked_by(self, item: Item, statistic: Statistic, *, intervals: bool = True) -> Asked:
        """What a statistic asks of a charge: of those who answered, unless it uses how many did not."""
        asked = as_margin(self.asked(item, intervals=intervals), item.query_of(statistic))
        return asked.with_query(statistic.asked_of(asked.query))

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """The error to expect of every estimate, from public figures alone, by the same code as the release."""
        return predicted_rows(self)

    @cached_property
    def _words(self) -> dict[Statistic, list[str]]:
        asked = self.statistics
        return {each: words for each, *words in zip(asked, labels_of(asked), names_of(asked), strict=True)}

    def label(self, statistic: Statistic) -> str:
        """What a statistic measures, different from all others of its kind in this plan."""
        return self._words[statistic][0]

    def name(self, statistic: Statistic) -> str:
        """The statistic in words, different from all others of this plan."""
        return self._words[statistic][1]

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to know before anything is spent: estimators that will not pay, estimates that will say little."""
        asked = [(item, statistic) for item in self.items for statistic in item.statistics]
        found = [(self.name(statistic), text) for item, statistic in asked for text in statistic.advice(self.asked(item))]
        named = [(item, statistic) for item, statistic in asked for _ in statistic.published(item.query_of(statistic))]
        for (item, statistic), row in zip(named, self.predictions, strict=True):
            found += [
                (self.name(statistic), text) for text in expected_trouble(row, statistic, item.query.random_groups, self.facts)
            ]
        return (*merged(found), *against_recommendation(self.terms.setting))

    @cached_property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The estimators that the plan chose by itself, by the name of the statistic, and why."""
        found = ((self.name(statistic), statistic.choice(self.facts)) for statistic in self.statistics)
        return tuple((name, why) for name, why in found if why)

    @cached_property
    def unit_losses(self) -> list[dict[str, Any]]:
        """What units of different public weights lose on the sample, where weights vary, and `outside` where their stratum is
        amplified by its own rate. The largest are the figures of the guarantee.

        Empty where a changed record may take another weight, or be in the sample several times: then all lose alike.
        """
        terms, neighbours = self.terms, self.terms.setting.neighbours
        in_place = terms.setting.answers_alone or bool(terms.design.relation_name(terms.setting))
        keeps = neighbours == Relation.ADD_REMOVE or in_place
        if not (keeps and terms.relation == neighbours and terms.design.copies == 1 and terms.design.reach == 1.0):
            return []
        rows = unit_losses(self.facts, [(item.query, item.mechanism, item.charge) for item in self.items])
        composed, strata = self.charged.composed, terms.design.by_stratum(terms.setting)
        if not composed.parts:
            return rows
        parts, delta = dict(composed.parts), terms.budget.delta
        of_strata = {
            label: each.protected(composed.of_part(parts.get(label, 1.0)), terms.setting) for label, each in strata.items()
        }
        return [row | {"outside": of_strata[row["units"]].epsilon(delta)} for row in rows]

    def aim(self, of: str | Mapping[str, float], moe: float | None = None) -> Plan:
        """A plan in which every estimate of a column is expected within `moe`, or of several columns, each within its own.

        `aim("income", moe=400)`, or `aim({"income": 400, "status": 0.01})`. Each target gets the least share that does, and the
        other statistics divide what is left; where all have a target, no more is spent than they need. `moe` is 1.96 times the
        predicted standard error, and the bound on the bias of changed weights. What cannot be met is named and refused.
        """
        return aimed(self, read_targets(of, moe))

    def least_epsilon(self, of: str | Mapping[str, float], moe: float | None = None) -> float:
        """The least epsilon of the protected data at which these margins are expected, by the plan's kind of noise.

        Other statistics get nothing.
        """
        return least_epsilon(self, read_targets(of, moe))

    def least_size(self, of: str | Mapping[str, float], moe: float | None = None) -> int:
        """The fewest units to draw, by the same design, for these margins at the plan's epsilon."""
        return least_size(self, read_targets(of, moe))

    def with_shares(self, shares: Sequence[float]) -> Plan:
        """The plan with these shares, one for each charge: parts of the most that it alone may take of a sample."""
        if len(shares) != len(self.members) or not all(0.0 < share <= 1.0 for share in shares):
            raise BadValue("with_shares takes one share in (0, 1] for each charge", given=repr(tuple(shares)))
        used = share_used(self, shares)
        if used > 1.0 + 1e-9:
            raise BadValue("shares add up to at most 1", given=f"{used:g}")
        weights = {index: share for own, share in zip(self.members, shares, strict=True) for index in own}
        return replace(
            self,
            share=min(1.0, used),
            weights=tuple(weights[index] for index in range(len(weights))),
            chosen_at=self.chosen_at or self.share,
        )

    def at_epsilon(self, epsilon: float) -> Plan:
        """The plan under another epsilon. It releases nothing: a survey has one budget."""
        return replace(self, terms=replace(self.terms, budget=Budget(epsilon, self.terms.budget.delta)), _release=None)

    @cached_property
    def with_whole_budget(self) -> Plan:
        """The plan under a budget of what it guarantees, all of it spent: at that guarantee other plans are compared with it."""
        if self.share == 1.0:
            return self
        return replace(self.at_epsilon(self.guarantee.epsilon), share=1.0)

    def resized(self, factor: float) -> Plan:
        """The plan with a sample `factor` times as large, by the same design. It releases nothing: a survey has one design."""
        return replace(self, terms=self.terms.resized(factor), _release=None)

    def release(self) -> Release:
        """Spend, draw in secret (once per sample), add noise, publish. Once."""
        if self._release is None:
            raise BadValue("this plan belongs to no survey", hint="make it with Survey.plan")
        return self._release(self)

    @property
    def request(self) -> Request:
        """What the ledger is asked to charge for this plan."""
        charges = (Charge(item.charge, tuple(statistic.to_dict() for statistic in item.statistics)) for item in self.items)
        return Request(self.terms, tuple(charges), self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """A hash of what is asked at which share, by which survey."""
        asked = {
            "survey": self.terms.name,
            "statistics": [as_in_0_8(statistic.to_dict()) for statistic in self.statistics],
            "share": self.share,
            "weights": self.weights,
        } | ({"noise": self.noise} if self.noise else {})
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def written(self) -> dict[str, Any]:
        """What is asked and how it is divided, JSON-ready; `plan_from` reads it back."""
        return {
            "statistics": [statistic.to_dict() for statistic in self.statistics],
            "share": self.share,
            "weights": list(self.weights),
            "responses": self.respondents_only,
            "rules": RULES,
            **({"noise": self.noise} if self.noise else {}),
            **({"chosen_at": self.chosen_at} if self.chosen_at not in (None, self.share) else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form: what is asked, what it may spend, what to expect."""
        return {
            "survey": self.terms.to_dict(),
            **self.written(),
            "guarantee": self.guarantee.to_dict(),
            "predictions": self.predictions,
            **(
                {"fieldwork": self.fieldwork.to_dict() | {"expected": self.fieldwork.expected(self.facts)}}
                if self.fieldwork
                else {}
            ),
            "choices": dict(self.choices),
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        return plan_text(self)


def plan_from(terms: Terms, fields: dict[str, Any], statistics: Sequence[Statistic]) -> Plan:
    """The plan of a saved release, for computing its estimates again."""
    return Plan(
        terms,
        tuple(statistics),
        fields["share"],
        tuple(fields["weights"]),
        responses="" if fields["responses"] else None,
        noise=fields.get("noise", ""),
        chosen_at=fields.get("chosen_at"),
        # Plans of 0.8 did not say by whose rules they were made.
        as_in_0_8="rules" not in fields,
    )
