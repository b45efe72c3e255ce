"""Setting: whose data is protected, what is held fixed, what a neighbour is. Eleven valid pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import BadValue, did_you_mean
from .relation import Neighbours, NeighboursName, Relation

Phase = Literal["population", "frame", "sample", "respondents", "answers"]
# The answers are those of the respondents, in one file with them.
PHASES: tuple[Phase, ...] = ("population", "frame", "sample", "respondents", "answers")
# The random stage that leads from each phase to the next.
STAGES = ("coverage", "sampling", "response")

_WHO = {
    "population": "Anyone in the population",
    "frame": "Anyone on the frame",
    "sample": "Anyone in the sample",
    "respondents": "Anyone who responded",
    "answers": "Anyone who responded",
}


@dataclass(frozen=True)
class Setting:
    """(protect, given, neighbours): the data that is protected, the earlier phase held fixed, the relation.

    `given` is strictly earlier than `protect` along population -> frame -> sample -> respondents, or None.
    Stages downstream of `protect` lie inside the mechanism and may amplify; nothing else may.
    Source: Bailie and Drechsler, Tables 3.1, 4.1 and 4.2. Beside their ten stands an eleventh, "answers" given "respondents"
    under replace-one: the answers of one record are replaced, and whatever else the file says of everybody is held fixed.

    >>> setting = Setting(protect="frame", neighbours="add-remove")
    >>> setting.stages_inside, setting.weights_fixed
    (('sampling', 'response'), False)
    """

    protect: Phase
    given: Phase | None = None
    neighbours: Neighbours = Relation.ADD_REMOVE

    def __init__(self, protect: Phase, given: Phase | None = None, *, neighbours: Neighbours | NeighboursName) -> None:
        for name, phase in (("protect", protect), ("given", given)):
            if phase not in PHASES and not (name == "given" and phase is None):
                raise BadValue(f"unknown phase in {name}=", given=repr(phase), hint=did_you_mean(str(phase), PHASES))
        if given is not None and PHASES.index(given) >= PHASES.index(protect):
            raise BadValue(
                "what is held fixed must come before what is protected",
                given=f"protect={protect!r}, given={given!r}",
                hint="the phases are " + " -> ".join(PHASES) + "; given=None holds nothing fixed",
            )
        relation = Relation.read(neighbours, allow_both=False)
        if protect == "answers" and (given, relation) != ("respondents", Relation.REPLACE_ONE):
            raise BadValue(
                "answers are protected with the respondents held fixed, and by replacing one record's",
                given=f"given={given!r}, neighbours={relation.value!r}",
                hint='Setting("answers", given="respondents", neighbours="replace-one"); the others protect who responded too',
            )
        object.__setattr__(self, "protect", protect)
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "neighbours", relation)

    @property
    def level(self) -> int:
        """Position of the protected phase, 0 for the population."""
        return PHASES.index(self.protect)

    @property
    def invariant(self) -> tuple[Phase, ...]:
        """The phases held fixed: everything up to and including `given`."""
        return PHASES[: PHASES.index(self.given) + 1] if self.given else ()

    @property
    def answers_alone(self) -> bool:
        """Whether whatever is no answer is held fixed: who responded, their other columns, and their weights."""
        return self.protect == "answers"

    @property
    def stages_inside(self) -> tuple[str, ...]:
        """The random stages downstream of the protected data: only these may amplify."""
        return STAGES[self.level :]

    @property
    def weights_fixed(self) -> bool:
        """Whether design weights are constants: only where the frame is held fixed."""
        return "frame" in self.invariant

    def rate(self, *, coverage: float = 1.0, sampling: float = 1.0, response: float = 1.0) -> float:
        """The product of the rates of the stages inside, for independent inclusion at each of them.

        Each rate is an upper bound on every unit's own probability, never an average.

        >>> Setting("sample", neighbours="add-remove").rate(sampling=0.1, response=0.6)
        0.6
        """
        rates = {"coverage": coverage, "sampling": sampling, "response": response}
        return math.prod(rates[stage] for stage in self.stages_inside)

    @property
    def neighbour(self) -> str:
        """What a neighbour is, in words."""
        if self.answers_alone:
            return "two files of the same respondents, one with the answers of one record replaced"
        fixed = f", both from one and the same {self.given}" if self.given else ""
        return self.neighbours.pair(self.protect) + fixed

    @property
    def who(self) -> str:
        """The person the figure is for, as a subject of a sentence."""
        return _WHO[self.protect]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {"protect": self.protect, "given": self.given, "neighbours": self.neighbours.value}


def all_settings(neighbours: Neighbours | NeighboursName) -> Iterator[Setting]:
    """The valid settings under one relation: the ten of Bailie and Drechsler, and under replace-one the answers alone.

    >>> len(list(all_settings("add-remove"))), len(list(all_settings("replace-one")))
    (10, 11)
    """
    relation = Relation.read(neighbours, allow_both=False)
    for level, protect in enumerate(PHASES[:-1]):
        for given in (None, *PHASES[:level]):
            yield Setting(protect, given, neighbours=relation)
    if relation == Relation.REPLACE_ONE:
        yield Setting("answers", "respondents", neighbours=relation)
