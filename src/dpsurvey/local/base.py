"""What every mechanism of local collection answers: the client, the marks an aggregator adds up, the estimator, the loss.

A report *marks* categories. For a respondent whose true answer is v, the unbiased value of category v is

    z_v = scale_v * mark_v + shift_v,     E z_v = 1 if v is the answer, else 0,

so the mean of z_v over respondents, weighted or not, estimates the share of v. Var z_v depends only on whether v is the
answer: `spread` gives both. For mechanisms of one report the mark is 0 or 1, with probability p_v for the answer itself and
q_v for any other one: scale 1/(p - q), shift -q/(p - q), spreads p(1-p)/(p-q)^2 and q(1-q)/(p-q)^2.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..errors import BadValue, Refusal, did_you_mean
from ..mechanism import Mechanism
from ..privacy.profile import PrivacyProfile
from ..privacy.relation import Relation
from ..text.keys import check_keys
from ..text.layout import ceiling_text
from .chance import Chance, Whole

if TYPE_CHECKING:
    from .sampling_privacy import RoundTwo

Array = npt.NDArray[np.float64]
Marks = npt.NDArray[np.int8]
Reports = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


class LocalMechanism(ABC):
    """How one answer, a whole number from 0 to k - 1, becomes one report."""

    kind: ClassVar[str]
    title: ClassVar[str]
    rounds: ClassVar[int] = 1
    # Every kind, so that a question file can name one.
    kinds: ClassVar[dict[str, type[LocalMechanism]]] = {}
    # Bytes of a report that is written in hexadecimal digits; 0 for one that is the label of an output.
    word_bytes: int = 0
    # The number of categories, 0 for a domain that is not listed: a field of most, computed by some.
    k: Any
    # How many aggregators of shares it is made for; None for any number.
    aggregators: int | None = None
    # How many marks every report has; None where reports differ.
    marks_of_report: int | None = None
    # Whether all categories are treated alike.
    alike: ClassVar[bool] = False
    # Whom the guarantee holds against, when it does beside what holds for all mechanisms, and where it is proved.
    against: ClassVar[str] = "all who see a respondent's report"
    holds_when: ClassVar[tuple[str, ...]] = ()
    source: ClassVar[str] = "docs/guides/local.md"

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            LocalMechanism.kinds[cls.kind] = cls

    def randomize(self, answers: Whole, chance: Chance) -> Reports:
        """The client: one report, a row, for each answer. Nothing of the answers is kept."""
        self.check_answers(answers)
        return self._randomize(answers, chance)

    @abstractmethod
    def _randomize(self, answers: Whole, chance: Chance) -> Reports:
        """What the client does with answers that are categories."""

    @abstractmethod
    def marks(self, reports: Reports, category: int) -> Marks:
        """What each report adds to the sum of a category."""

    def mark_sums(self, reports: Reports, weights: Array | None = None) -> Array:
        """The sum of marks of every category, weighted or not."""
        marked = (self.marks(reports, category) for category in range(self.k))
        return np.array([float(each.sum(dtype=np.int64) if weights is None else weights @ each) for each in marked])

    @abstractmethod
    def line(self, category: int) -> tuple[Fraction, Fraction]:
        """Scale and shift that make marks of a category unbiased."""

    @abstractmethod
    def spread(self, category: int) -> tuple[float, float]:
        """The variance of an unbiased value: for a respondent of this category, and for any other one."""

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The local loss of all that one respondent sends: an upper bound for every pair of answers, exact up to rounding."""

    @property
    def profile(self) -> PrivacyProfile:
        """The guarantee to one respondent: whatever they answer, what they send is nearly the same."""
        if math.isinf(self.epsilon):
            raise Refusal(
                f"{self.title} guarantees nothing to a respondent whose reports are seen",
                because="some reports are possible for one answer only",
                hint="dpsurvey local leakage shows what is leaked; generalised, unary, hashing and subset keep an epsilon",
            )
        return PrivacyProfile.pure(self.epsilon, Relation.REPLACE_ONE)

    @property
    def published(self) -> PrivacyProfile:
        """The guarantee for what leaves respondents and aggregators, to a respondent whose answer is replaced."""
        return self.profile

    @property
    def claimed_epsilon(self) -> float:
        """The epsilon that is claimed for what is published, which an audit tries to refute."""
        return self.epsilon

    @property
    def refuted_epsilon(self) -> float | None:
        """An epsilon that was printed for this mechanism and does not hold; None where there is none."""
        return None

    @property
    def reports_guarantee(self) -> str:
        """What those who see reports may learn, in a sentence."""
        if math.isinf(self.epsilon):
            return "No guarantee: some reports are possible for one answer only, so a report can prove an answer."
        start = "To each respondent, against all who see the report"
        return f"{start}: epsilon {ceiling_text(self.epsilon)} for one answer replaced by another."

    @property
    def sums_guarantee(self) -> str:
        """What those who see the sums that aggregators publish may learn, in a sentence."""
        return self.reports_guarantee

    @property
    def leakage_note(self) -> str:
        """What a table of its leakage has to say of it; empty for most."""
        return ""

    @property
    def noise(self) -> Mechanism | None:
        """The noise that each aggregator adds to each sum that it publishes; None where sums are published as they are."""
        return None

    def noise_of_share(self, category: int, respondents: int, aggregators: int) -> tuple[float, float]:
        """The variance and the fourth cumulant of what the noise of all aggregators adds to an estimated share."""
        return 0.0, 0.0

    def counts(self, reports: Reports, turn: int) -> Marks:
        """What each report adds to the counts of a round, a row of numbers: marks where there is one round."""
        return np.column_stack([self.marks(reports, category) for category in range(self.k)])

    def adds(self, reports: Reports) -> Marks:
        """What each report adds to the sums that are published, before any noise: a row of numbers."""
        return np.column_stack([self.counts(reports, turn) for turn in range(self.rounds)])

    @property
    def published_shape(self) -> tuple[int, int]:
        """How many rows of sums an aggregator publishes, and how many sums a row has."""
        return self.rounds, self.k

    def publish(self, totals: Sequence[Words]) -> list[list[int]]:
        """What an aggregator publishes of its sums of counts, a row for each round: numbers modulo 2^64."""
        return [[int(each) for each in total] for total in totals]

    def possible(self, sums: Sequence[Array], respondents: int, aggregators: int) -> bool:
        """Whether reports of so many respondents, and noise that will ever be seen, can give these published sums."""
        if any(np.any(row < 0) or np.any(row > respondents) for row in sums):
            return False
        return self.marks_of_report is None or all(row.sum() == self.marks_of_report * respondents for row in sums)

    def marks_of_sums(self, sums: Sequence[Array]) -> Array:
        """The sum of marks of every category, from the published sums."""
        return sums[0]

    def small(self) -> LocalMechanism:
        """The same client with few enough sequences of choices to go through them; most have few as they are."""
        return self

    def round_two(self) -> RoundTwo | None:
        """Round two of Sampling Privacy as the only report; None for mechanisms without it."""
        return None

    @property
    def paths(self) -> float:
        """About how many sequences of choices a client can meet: what an enumeration has to go through."""
        return 4.0 * float(self.k) ** 2

    @property
    def outputs(self) -> int:
        """How many labels a report can be, where reports are labels: the categories, and perhaps a silent one."""
        return int(self.k)

    def pack(self, reports: Reports) -> Bytes:
        """Reports as rows of bytes, where they are not labels."""
        raise BadValue("reports of this mechanism are labels")

    def unpack(self, words: Bytes) -> Reports:
        """Reports from rows of bytes; refuses what no client of this mechanism sends."""
        raise BadValue("reports of this mechanism are labels")

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-ready parameters; `mechanism_from` reads them back."""

    @classmethod
    def keys(cls) -> dict[str, bool]:
        """The keys that it is written down by, and whether each of them is needed."""
        parameters = inspect.signature(cls).parameters
        return {name.removeprefix("at_"): each.default is each.empty for name, each in parameters.items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The mechanism that `to_dict` wrote, or somebody wrote down."""
        given = {"at_epsilon" if name == "epsilon" else name: value for name, value in fields.items()}
        if isinstance(given.get("at_epsilon"), int) and not isinstance(given["at_epsilon"], bool):
            # 1 and 1.0 are one question, with one fingerprint.
            given["at_epsilon"] = float(given["at_epsilon"])
        return cls(**given)

    def client(self) -> dict[str, Any]:
        """The whole-number weights that a client draws by: what a browser needs to run it."""
        raise BadValue(f"there is no form for {self.title}", hint="forms are made for mechanisms of one report")

    def check_answers(self, answers: Whole) -> None:
        """Refuse answers that are not categories."""
        if len(answers) and not (int(answers.min()) >= 0 and int(answers.max()) < self.k):
            raise BadValue("an answer is none of the categories", given=f"{self.k} categories")


class OneReport(LocalMechanism):
    """Mechanisms whose report marks the true answer with probability p and any other category with probability q."""

    @abstractmethod
    def hit(self, category: int) -> tuple[Fraction, Fraction]:
        """(p, q): the chances that a report marks a category, for its own respondents and for those of any other one."""

    def line(self, category: int) -> tuple[Fraction, Fraction]:
        p, q = self.hit(category)
        if p == q:
            raise Refusal(
                f"{self.title} cannot be estimated from",
                because="respondents of every category mark it with the same probability: one equation, two unknowns",
                hint="a mechanism whose reports depend on the answer",
            )
        return 1 / (p - q), -q / (p - q)

    def spread(self, category: int) -> tuple[float, float]:
        p, q = self.hit(category)
        self.line(category)
        return float(p * (1 - p) / (p - q) ** 2), float(q * (1 - q) / (p - q) ** 2)


def mechanism_from(fields: dict[str, Any]) -> LocalMechanism:
    """The mechanism, of any kind, that `to_dict` wrote.

    >>> from dpsurvey.local import warner
    >>> mechanism_from(warner(0.75).to_dict()).epsilon == warner(0.75).epsilon
    True
    """
    fields = dict(fields)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in LocalMechanism.kinds:
        raise BadValue(f"unknown kind of mechanism {kind!r}", hint=did_you_mean(str(kind), LocalMechanism.kinds))
    keys = LocalMechanism.kinds[kind].keys()
    check_keys(f"the mechanism {kind!r}", list(fields), [name for name, needed in keys.items() if needed], keys)
    try:
        return LocalMechanism.kinds[kind].from_dict(fields)
    except (TypeError, OverflowError):
        raise BadValue(f"a key of the mechanism {kind!r} has a value of the wrong kind", given=", ".join(fields)) from None
