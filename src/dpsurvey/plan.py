"""Plan: statistics, shares, and the errors to expect. Reads no rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .advice import expected_trouble, merged
from .errors import BadValue, NotFound, Refusal, did_you_mean
from .layout import group_text, text_table
from .mechanism import MECHANISMS
from .mechanism.base import Answering
from .predictions import predicted_rows
from .privacy.account import amount, take_share
from .privacy.profile import PrivacyProfile
from .privacy.running import Running
from .statistic import Query, Statistic
from .statistic.base import Numbers
from .statistic.facts import Facts
from .statistic.naming import labels_of
from .terms import Terms
from .unit_losses import unit_losses

if TYPE_CHECKING:
    from .release import Release


@dataclass(frozen=True)
class Item:
    """One charge of a plan: a vector of sums, the statistics that read it, its share and its noise."""

    query: Query
    statistics: tuple[Statistic, ...]
    share: float
    charge: PrivacyProfile
    mechanism: Answering


@dataclass(frozen=True)
class Plan:
    """What will be asked, what each part may spend, and the error to expect of every number.

    Shares are parts of what one sample of the survey may be charged; statistics that read the same sums share one
    charge. Made by `Survey.plan`.
    """

    terms: Terms
    statistics: tuple[Statistic, ...]
    share: float = 1.0
    weights: tuple[float, ...] = ()
    responses: Any = field(default=None, compare=False, repr=False)
    # "laplace" or "gaussian"; empty for what the budget pays for by default.
    noise: str = ""
    _release: Callable[[Plan], Release] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for statistic in self.statistics:
            if not isinstance(statistic, Statistic):
                raise BadValue(
                    "a plan is made of statistics, one after the other",
                    given=f"a {type(statistic).__name__}",
                    hint='plan(ds.mean("income", bounds=(0, 250_000)), ds.count(by="sex")); for a list plan(*statistics)',
                )
        if not self.statistics:
            raise BadValue("a plan needs at least one statistic", hint='for example ds.mean("income", bounds=(0, 250_000))')
        if not 0.0 < self.share <= 1.0:
            raise BadValue("a share must be in (0, 1]", given=f"share={self.share}")
        weights = self.weights or (1.0,) * len(self.statistics)
        if len(weights) != len(self.statistics) or not all(weight > 0.0 and math.isfinite(weight) for weight in weights):
            raise BadValue("weights= takes one positive number per statistic", given=repr(weights))
        if len(set(self.statistics)) < len(self.statistics):
            raise BadValue(
                "a statistic is asked twice in one plan",
                hint="remove the copy: it would spend twice and tell less than one with both shares",
            )
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights))

    def validated(self) -> Plan:
        """This plan, after every charge was calibrated once, so that what cannot be planned fails now."""
        len(self.items)
        return self

    @property
    def respondents_only(self) -> bool:
        """Whether values come from a file of responses."""
        return self.responses is not None

    @property
    def kind_of_noise(self) -> str:
        """The additive noise of this plan."""
        return self.noise or self.terms.mechanism.kind

    @cached_property
    def facts(self) -> Facts:
        """The public facts that this plan is made from."""
        strata = self.terms.design.strata_column
        by_stratum = [each.measure for each in self.statistics if strata and each.by == (strata,) and not each.filters]
        facts = self.terms.facts(respondents_only=self.respondents_only, noise=self.kind_of_noise)
        return replace(facts, by_stratum=frozenset(by_stratum))

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The charges: statistics with the same sums together, shares in proportion to the largest weight of each."""
        merged: dict[Any, list[int]] = {}
        queries = [statistic.query(self.facts) for statistic in self.statistics]
        for index, (query, statistic) in enumerate(zip(queries, self.statistics, strict=True)):
            merged.setdefault((query, statistic.answer_key(self.facts)), []).append(index)
        wishes = [max(self.weights[index] for index in members) for members in merged.values()]
        return tuple(
            self._item(queries[members[0]], members, self.share * wish / math.fsum(wishes))
            for members, wish in zip(merged.values(), wishes, strict=True)
        )

    def _item(self, query: Query, members: list[int], share: float) -> Item:
        statistics = tuple(self.statistics[index] for index in members)
        charge = take_share(self.terms.in_sample(self.kind_of_noise), share)
        # A little of delta is kept back, so that however many parts are rounded up, they fit into the whole.
        delta = self.terms.delta_in_sample * share * (1.0 - 1e-9) if statistics[0].needs_delta else 0.0
        if delta > 0.0:
            charge = PrivacyProfile.approximate(amount(charge) * (1.0 - 1e-6), delta, charge.relation)
        mechanism = statistics[0].calibrate(query, charge, self.facts, MECHANISMS[self.kind_of_noise], delta)
        return Item(query, statistics, share, charge, mechanism)

    @property
    def charged(self) -> Running:
        """What this plan alone would charge to a sample."""
        return Running().plus(*(item.charge for item in self.items))

    def estimate(self, item: Item, statistic: Statistic, sums: Any) -> Numbers:
        """Numbers of one statistic from (noisy or expected) sums."""
        return statistic.estimate(sums, item.query, item.mechanism, self.facts)

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """The error to expect of every number, from public figures alone, by the same code as the release."""
        return predicted_rows(self)

    @cached_property
    def _labels(self) -> dict[Statistic, str]:
        return dict(zip(self.statistics, labels_of(self.statistics), strict=True))

    def label(self, statistic: Statistic) -> str:
        """What a statistic measures, told apart from the others of this plan."""
        return self._labels[statistic]

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """What to know before anything is spent: recipes that will not pay, numbers that will say little."""
        found = [
            (statistic.name, text)
            for item in self.items
            for statistic in item.statistics
            for text in statistic.advice(item.query, self.facts, item.mechanism)
        ]
        named = [
            (item, statistic) for item in self.items for statistic in item.statistics for _ in statistic.published(item.query)
        ]
        for (item, statistic), row in zip(named, self.predictions, strict=True):
            found += [(statistic.name, text) for text in expected_trouble(row, item.query.slots, self.facts)]
        return merged(found)

    @cached_property
    def unit_losses(self) -> list[dict[str, Any]]:
        """What units of different public weights lose on the sample, where weights vary; the largest is the guarantee.

        Empty where a changed record may take another weight, or be in the sample several times: then all lose alike.
        """
        terms, neighbours = self.terms, self.terms.setting.neighbours
        keeps = neighbours == "add-remove" or bool(terms.design.relation_name(terms.setting))
        if not (keeps and terms.relation == neighbours and terms.design.copies == 1 and terms.design.reach == 1.0):
            return []
        return unit_losses(self.facts, [(item.query, item.charge) for item in self.items])

    def aim(self, of: str, moe: float) -> Plan:
        """A plan in which every number of a column is expected within `moe`, and the others share what is left.

        `moe` is 1.96 times the predicted standard error, and the bound on the bias of changed weights. Raises where even
        the whole share would not do.
        """
        members = [index for index, statistic in enumerate(self.statistics) if statistic.of == of]
        if not members:
            raise NotFound(
                f"no statistic of {of!r} in this plan",
                hint=did_you_mean(of, [statistic.of or "" for statistic in self.statistics]),
            )
        if not moe > 0.0:
            raise BadValue("a margin of error must be positive", given=f"moe={moe}")

        def with_weight(weight: float) -> Plan:
            return replace(self, weights=tuple(weight if index in members else own for index, own in enumerate(self.weights)))

        def worst(plan: Plan) -> float:
            found = [row["moe"] for row in plan.predictions if row["column"] == of]
            return max(math.inf if moe is None else float(moe) for moe in found)

        low, high = 1e-3, 1e4
        best = worst(with_weight(high))
        if best > moe:
            raise Refusal(
                f"{of!r} cannot be had within {moe:g}",
                because=f"with the whole share the expected margin of error is {best:.4g}, by {self._rests_on(of)}",
                hint="a larger rate, a larger budget, tighter bounds, or expect= from a published source",
            )
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if worst(with_weight(middle)) <= moe else (middle, high)
        return with_weight(high)

    def _rests_on(self, of: str) -> str:
        return next(str(row["rests_on"]) for row in self.predictions if row["column"] == of)

    def release(self) -> Release:
        """Spend, draw in secret (once per sample), add noise, publish. Once."""
        if self._release is None:
            raise BadValue("this plan belongs to no survey", hint="make it with Survey.plan")
        return self._release(self)

    @property
    def fingerprint(self) -> str:
        """A hash of what is asked at which share, by which survey."""
        asked = {
            "survey": self.terms.name,
            "statistics": [statistic.to_dict() for statistic in self.statistics],
            "share": self.share,
            "weights": self.weights,
        } | ({"noise": self.noise} if self.noise else {})
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def asked(self) -> dict[str, Any]:
        """What is asked and how it is divided, JSON-ready; `plan_from` reads it back."""
        return {
            "statistics": [statistic.to_dict() for statistic in self.statistics],
            "share": self.share,
            "weights": list(self.weights),
            "responses": self.respondents_only,
        } | ({"noise": self.noise} if self.noise else {})

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form: what is asked, what it may spend, what to expect."""
        guarantee = self.terms.guarantee(self.charged)
        return {
            "survey": self.terms.to_dict(),
            **self.asked(),
            "guarantee": guarantee.to_dict(),
            "predictions": self.predictions,
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        rows = [{**row, "group": group_text(row["by"])} for row in self.predictions]
        table = text_table(rows, ["statistic", "of", "group", "se_sampling", "se_noise", "se", "moe", "share"])
        rests = dict.fromkeys(part for row in self.predictions for part in str(row["rests_on"]).split("; "))
        guarantee = self.terms.guarantee(self.charged)
        return "\n".join(
            [
                f"Plan of {self.terms.name!r}: {len(rows)} numbers, {len(self.items)} charges, no rows read",
                "",
                table,
                "",
                "Sampling errors are predicted from " + "; ".join(rests) + ".",
                *(f"Note: {text}." for text in self.advice),
                *self._losses_in_words(),
                *guarantee.steps[1:2],
                "By this plan alone: " + str(guarantee),
            ]
        )

    def _losses_in_words(self) -> list[str]:
        if not self.unit_losses:
            return []
        unit = "rho" if "rho" in self.unit_losses[0] else "epsilon"
        rows = [f"{row['units']} (weight {row['weight']:.4g}): {row[unit]:.3g}" for row in self.unit_losses[:12]]
        more = f"; and {len(self.unit_losses) - 12} more" if len(self.unit_losses) > 12 else ""
        return [f"On the sample, {unit} by weight (the largest is the promise): " + "; ".join(rows) + more + "."]


def plan_from(terms: Terms, fields: dict[str, Any], statistics: Sequence[Statistic]) -> Plan:
    """The plan of a saved release, for recomputing its numbers."""
    return Plan(
        terms,
        tuple(statistics),
        fields["share"],
        tuple(fields["weights"]),
        responses="" if fields["responses"] else None,
        noise=fields.get("noise", ""),
    )
