"""What local collection guarantees, and against whom: who sees one report, all of them without names, or not even who took
part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..design import Design, SimpleRandom
from ..design.amplify import amplify_profile
from ..errors import BadValue
from ..loss.bound import Bound, Losses, Refused
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..privacy.shuffled import Shuffled
from ..text.layout import ceiling_text
from .base import LocalMechanism

CLIENT = "the respondent's own device randomises, with a cryptographic generator, and sends one report to the question"
FIXED = "categories, cells and mechanism were fixed and public before anybody answered"
VISIBLE = "public columns sent along (stratum, weight) are not hidden, and taking part only where it is said"
HONEST = (
    "in every sample that can be drawn at least as many respondents as stated followed the client; made-up reports hide nobody"
)
UNNAMED = "reports are seen in random order without names, or as one sum of shares of which one aggregator kept its own to itself"
ALIKE = (
    "nothing sent along tells respondents apart; with public columns or sums by group, count the reports of the smallest group"
)
SECRET = "nobody who sees the reports learns who was drawn"
ALL_REPORT = "everybody who was drawn sends a report: with nonresponse nothing is gained, unless not answering is a category too"


@dataclass(frozen=True)
class Statement:
    """A loss, for those who see something; or why there is none."""

    against: str
    epsilon: float | None
    delta: float
    holds_when: tuple[str, ...]
    source: str
    profile: PrivacyProfile | None = None
    refused: Refused | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        fields: dict[str, Any] = {"against": self.against, "epsilon": self.epsilon, "delta": self.delta}
        if self.refused is not None:
            fields |= {"refused": self.refused.reason, "instead": self.refused.instead}
        return fields | {"holds_when": list(self.holds_when), "source": self.source}

    def __str__(self) -> str:
        if self.refused is not None:
            return f"Against {self.against}: no guarantee, {self.refused.reason}; instead: {self.refused.instead}"
        return f"Against {self.against}: epsilon {ceiling_text(self.epsilon or 0.0)}" + (
            f", delta {ceiling_text(self.delta)}" if self.delta else ""
        )


@dataclass(frozen=True)
class LocalGuarantee:
    """All statements about one question; the relation is one answer replaced by another."""

    statements: tuple[Statement, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {"neighbours": "replace-one", "statements": [each.to_dict() for each in self.statements]}

    def __str__(self) -> str:
        conditions = dict.fromkeys(condition for each in self.statements for condition in each.holds_when)
        return "\n".join([*(f"{each}." for each in self.statements), "Holds when:", *(f"- {each}" for each in conditions)])


def guarantee(
    mechanism: LocalMechanism, *, reports: int | None = None, delta: float = 0.0, design: Design | None = None
) -> LocalGuarantee:
    """The losses of one respondent whose answer is replaced by another one.

    reports  how many honest respondents report, for those who see the reports shuffled; needs a `delta`
    design   how respondents were drawn, for those who do not know who took part

    >>> from dpsurvey.design import srs
    >>> from dpsurvey.local.randomised_response import generalised
    >>> made = guarantee(generalised(4, 2.0), reports=5000, delta=1e-6, design=srs(n=5000, size=500_000))
    >>> [round(each.epsilon, 4) for each in made.statements]
    [2.0, 0.2252, 0.0016]
    """
    if not 0.0 <= delta < 1.0:
        raise BadValue("delta must be in [0, 1)", given=f"delta={delta}")
    if mechanism.noise is not None and (reports is not None or design is not None):
        raise BadValue("the guarantee of a guarded difference is whole as it is", hint="leave out reports and design")
    conditions = (CLIENT, FIXED, VISIBLE, *mechanism.holds_when)
    base = mechanism.published
    found = [Statement(mechanism.against, base.epsilon(0.0), 0.0, conditions, mechanism.source, base)]
    conditions += (UNNAMED, ALIKE)
    if reports is not None:
        if not delta > 0.0:
            raise BadValue("shuffled reports need a delta", hint="a delta far below one over the number of respondents: 1e-8")
        if isinstance(design, SimpleRandom) and reports > design.take:
            raise BadValue("there are more reports than respondents drawn", given=f"reports={reports}, n={design.take}")
        base = PrivacyProfile(Shuffled(reports, base.epsilon(0.0)), Relation.REPLACE_ONE)
        conditions += (HONEST,)
        against = f"those who see {reports:,} reports without names"
        source = "Feldman, McMillan and Talwar 2021, evaluated numerically"
        found.append(Statement(against, base.epsilon(delta), delta, conditions, source, base))
    if design is not None:
        found.append(_drawn(design, base, delta, conditions))
    return LocalGuarantee(tuple(found))


def _drawn(design: Design, base: PrivacyProfile, delta: float, conditions: tuple[str, ...]) -> Statement:
    """The statement for those who do not know who took part, by the design's own theorem; or its refusal."""
    against = "those who also do not know who took part"
    bound = design.bound(Losses.of(1.0, Relation.REPLACE_ONE), Relation.REPLACE_ONE)
    made = bound if isinstance(bound, Refused) else amplify_profile(design, base, neighbours=Relation.REPLACE_ONE)
    if isinstance(bound, Bound) and bound.scope != "every population":
        made = Refused(
            "the loss is known for this population alone, and a guarantee must hold for every one",
            "a design whose loss is proved for every population: simple random sampling, strata of it",
            bound.source,
        )
    if isinstance(made, Refused) or isinstance(bound, Refused):
        refused = made if isinstance(made, Refused) else bound
        assert isinstance(refused, Refused)
        return Statement(against, None, delta, (), refused.source, None, refused)
    held = tuple(dict.fromkeys((*conditions, SECRET, ALL_REPORT, *bound.conditions)))
    return Statement(against, made.epsilon(delta), delta, held, bound.source, made)
