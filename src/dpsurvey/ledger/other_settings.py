"""What a survey under one setting costs under another, by a proved rule, or why no rule says it.

The rules: docs/guides/ledger.md, Theorem L5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation, Restriction
from ..privacy.setting import Setting
from .terms import Terms


class Rule(Enum):
    """By which rule a survey counts under a setting; printed in the words of `str`, of which its own setting needs none."""

    OWN = ""
    COARSER = "counted here because a survey that holds less fixed guarantees this too (Bailie and Drechsler, Lemma 2.7)"
    SAME_PROGRAM = (
        "counted here because its releases would be the same under this setting, where its design is known to lose this"
    )
    UNAMPLIFIED = "counted here unamplified: its own setting does not rest on a secret draw"
    UNCOMPARED = (
        "counted here unamplified: under its own setting the sizes that a gain would rest on were not compared with its rows"
    )
    ANSWERS = "counted here unamplified: other answers in a record's place are among what its noise hides (Theorem L5)"
    TWO_STEPS = "counted here as two steps: a replaced record is one record less and another one more"

    @property
    def own(self) -> bool:
        """Whether the figures are those that the survey itself prints."""
        return self in (Rule.OWN, Rule.COARSER)

    @property
    def amplified(self) -> bool:
        """Whether the loss is that of a secret sample, not that of somebody in it."""
        return self in (Rule.OWN, Rule.COARSER, Rule.SAME_PROGRAM)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Implied:
    """The loss of one survey under a setting, and that of somebody known to be in its sample, from what was charged."""

    loss: Callable[[PrivacyProfile], PrivacyProfile]
    in_sample: Callable[[PrivacyProfile], PrivacyProfile]
    rule: Rule = Rule.OWN
    # What the survey is counted under.
    setting: Setting | None = None
    relation_name: Restriction = Restriction.NONE


@dataclass(frozen=True)
class Unseen:
    """Why nothing is implied about what a survey costs under a setting."""

    reason: str


def implied(terms: Terms, setting: Setting, relation_name: Restriction = Restriction.NONE) -> Implied | Unseen:
    """What the charges of a survey cost under a setting and a relation, or why that is not known."""
    found = _rule(terms, setting, relation_name)
    return found if isinstance(found, Unseen) else replace(found, setting=setting, relation_name=relation_name)


def _rule(terms: Terms, setting: Setting, relation_name: Restriction) -> Implied | Unseen:
    own, own_name = terms.setting, terms.design.relation_name(terms.setting)
    plain = own_name.covers(relation_name)
    finer = own.protect == setting.protect and _held(own) <= _held(setting)
    if own == setting and plain:
        return Implied(terms.amplify, terms.on_sample)
    if finer and plain and own.neighbours == setting.neighbours:
        return Implied(terms.amplify, terms.on_sample, Rule.COARSER)
    if setting.answers_alone:
        return _of_answers(terms, setting)
    reason = _not_the_same_program(terms, setting, relation_name)
    if not reason:
        return _by_design(terms, setting)
    if finer and plain and (own.neighbours, setting.neighbours) == (Relation.ADD_REMOVE, Relation.REPLACE_ONE):
        return Implied(
            lambda profile: terms.amplify(profile).to_replace_one(),
            lambda profile: terms.on_sample(profile).to_replace_one(),
            Rule.TWO_STEPS,
        )
    return Unseen(reason)


def _held(setting: Setting) -> int:
    """How many phases are held fixed."""
    return len(setting.invariant)


def _not_the_same_program(terms: Terms, setting: Setting, relation_name: Restriction) -> str:
    """Why what the survey does with its rows would not keep a guarantee under another setting; empty if it would."""
    own, design = terms.setting, terms.design
    if own.answers_alone:
        return "it protects the answers alone: who responded, their other columns and their weights are held fixed"
    if refused := design.refuses(setting):
        return refused.reason
    if not design.relation_name(setting).covers(relation_name):
        return f"under this setting its design makes a weaker guarantee: {design.relation_name(setting)}"
    if design.weights_move(setting) and not design.weights_move(own):
        return "its weights are constants under its own setting alone"
    if design.answers_alone(own) and not design.answers_alone(setting):
        return "its noise hides answers that are replaced in their place, and not one record in the place of another"
    if design.compares(own) - design.compares(setting):
        return "it compares sizes with its rows, which a neighbour under this setting could change"
    if setting.protect == "respondents" and own.protect != "respondents":
        return "numbers of respondents are not protected under its own setting"
    if own.protect == "respondents" and setting.protect != "respondents" and terms.relation == Relation.REPLACE_ONE:
        return "under its own setting the number of respondents is not protected, and one record more or less may change it"
    if terms.relation == Relation.REPLACE_ONE and design.base_relation(setting) == Relation.ADD_REMOVE:
        return "its noise hides the answers of a record, and not whether there is one more or less"
    return ""


def _of_answers(terms: Terms, setting: Setting) -> Implied:
    """The loss of the answers alone, whatever else a survey protects: its noise hides a record that is replaced in its place.

    Who was drawn and who responded is held fixed, so nothing amplifies.
    """

    def in_sample(profile: PrivacyProfile) -> PrivacyProfile:
        return terms.design.on_sample(profile.to_replace_one(), setting)

    return Implied(in_sample, in_sample, Rule.ANSWERS)


def _by_design(terms: Terms, setting: Setting) -> Implied:
    """The loss that the design is known to have under another setting, from the same charges."""
    design, own = terms.design, terms.setting
    base = design.base_relation(setting)

    def on_sample(profile: PrivacyProfile) -> PrivacyProfile:
        """The profile under the relation that the design needs of the sample."""
        if own.protect == "respondents" and setting.protect != "respondents" and setting.neighbours == Relation.REPLACE_ONE:
            return profile.to_replace_one()
        return profile.to_replace_one() if base == Relation.REPLACE_ONE and profile.relation == Relation.ADD_REMOVE else profile

    def in_sample(profile: PrivacyProfile) -> PrivacyProfile:
        return design.on_sample(on_sample(profile), setting)

    if own.level >= 2:
        # Protected from the sample on, nothing rests on who was drawn staying secret; so nothing does here.
        return Implied(in_sample, in_sample, Rule.UNAMPLIFIED)
    if design.compares(setting) - design.compares(own) and (not design.for_any_frame or design.declared_clusters):
        return Implied(in_sample, in_sample, Rule.UNCOMPARED)
    return Implied(lambda profile: design.protected(on_sample(profile), setting), in_sample, Rule.SAME_PROGRAM)
