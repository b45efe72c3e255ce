"""Guarantee: a profile under a setting, for whom, and when it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..text.layout import ceiling_text
from .profile import PrivacyProfile
from .rounding import up
from .setting import Setting

KNOWN = "someone known to be in the sample"


def answers_replaced(answers: Sequence[str], weighting: Sequence[str], held: Sequence[str] = ()) -> str:
    """What differs between neighbours where the answers alone are protected, and what does not, in words.

    >>> answers_replaced(["income", "job"], ["age", "sex"])[:95]
    'the answers income, job replaced; who responded, the design columns, the weighting columns age,'
    """
    named = "the answers " + ", ".join(answers) if answers else "the answers"
    columns = ", the weighting columns " + ", ".join(weighting) if weighting else ""
    columns += ", the columns " + ", ".join(held) if held else ""
    return f"{named} replaced; who responded, the design columns{columns} and the weights held fixed and not protected"


@dataclass(frozen=True)
class Guarantee:
    """What was guaranteed: the loss of everything released from a sample, for three attackers.

    `whole` is the profile under the setting, `on_sample` the profile of someone known to be in the sample,
    both under the setting's neighbour relation; `rate` is the largest inclusion probability. Of several samples,
    `elsewhere` is the loss from the others, and `epsilon_in_worst_sample` that of someone known to be in the worst of them.

    >>> base = PrivacyProfile.pure(1.0, "add-remove")
    >>> print(Guarantee(base.amplify(0.1), base, Setting("frame", neighbours="add-remove"), 0.0, 0.1, ()))
    Anyone on the frame: epsilon 0.1586. Someone known to be in the sample: epsilon 1. If the sample list leaks: 1.
    """

    whole: PrivacyProfile
    on_sample: PrivacyProfile
    setting: Setting
    delta: float
    rate: float
    holds_when: tuple[str, ...]
    steps: tuple[str, ...] = ()
    relation_name: str = ""
    elsewhere: float = 0.0
    epsilon_in_worst_sample: float = 0.0
    # Columns that are held fixed by declaration, and not protected.
    held: tuple[str, ...] = ()

    def _with_others(self, epsilon: float) -> float:
        return up(epsilon + self.elsewhere) if self.elsewhere else epsilon

    @property
    def epsilon(self) -> float:
        """The proved loss for the protected data, from everything the survey has released."""
        return self._with_others(self.whole.epsilon(self.delta))

    @property
    def in_sample(self) -> tuple[float, float]:
        """(epsilon, delta) for someone who is known to be in the sample: sampling hides nothing of them."""
        return max(self.epsilon_in_worst_sample, self._with_others(self.on_sample.epsilon(self.delta))), self.delta

    @property
    def sample_leaks(self) -> tuple[float, float]:
        """(epsilon, delta) that the estimates add once the whole sample list is known; before the draw, rate * delta.

        The list itself shows who was drawn. That is not covered by any figure here.
        """
        return self.in_sample[0], self.rate * self.delta

    @property
    def who(self) -> str:
        """The person the figure is for, with the relation where it is weaker than its plain words."""
        return self.setting.who + (f" ({self.restricted})" if self.relation_name else "")

    @property
    def restricted(self) -> str:
        """What neighbours keep, with the names of the columns that are held fixed by declaration."""
        return self.relation_name + (f": {', '.join(self.held)}" if self.held else "")

    def curves(self, points: int = 81) -> list[dict[str, Any]]:
        """delta by epsilon as a table, up to a little above both losses: of someone known to be in the sample, and of `who`.

        >>> base = PrivacyProfile.pure(1.0, "add-remove")
        >>> made = Guarantee(base.amplify(0.1), base, Setting("frame", neighbours="add-remove"), 0.0, 0.1, ())
        >>> [(row["who"], round(row["delta"], 3)) for row in made.curves(2) if row["epsilon"] == 0.0]
        [('someone known to be in the sample', 0.462), ('anyone on the frame', 0.046)]
        """
        reach = 1.1 * max(self.in_sample[0], self.epsilon)
        at = [reach * step / (points - 1) for step in range(points)]
        profiles = {KNOWN: self.on_sample, self.who.lower(): self.whole}
        return [
            {"epsilon": epsilon, "delta": each.delta(epsilon), "who": who} for who, each in profiles.items() for epsilon in at
        ]

    def __str__(self) -> str:
        at = f" (delta {ceiling_text(self.delta)})" if self.delta else ""
        known, leaks = self.in_sample[0], self.sample_leaks[0]
        sentence = f"{self.who}: epsilon {ceiling_text(self.epsilon)}{at}."
        if self.setting.protect in ("population", "frame"):
            sentence += f" {KNOWN.capitalize()}: epsilon {ceiling_text(known)}{at}."
            sentence += f" If the sample list leaks: {ceiling_text(leaks)}"
            sentence += f" (delta {ceiling_text(self.sample_leaks[1])})." if self.delta else "."
        return sentence

    @property
    def record(self) -> str:
        """Whose record the guarantee is for."""
        if self.setting.answers_alone:
            return "the named answers of one record of the respondents; not of a household or other entity with several records"
        values = "frame variables and the answers the unit would give" if self.setting.level < 2 else "its values"
        return f"one record of the {self.setting.protect}: {values}; not a household or other entity with several records"

    @property
    def specification(self) -> str:
        """The five components of a privacy specification (Bailie and Drechsler, Definition 2.5)."""
        setting = self.setting
        universes = (
            f"all {setting.protect} data sets that can arise from one {setting.given}, one universe for each {setting.given}"
        )
        domain = f"all possible {setting.protect} data sets that keep what is declared, values free within bounds and categories"
        if setting.answers_alone:
            domain = "all possible files of respondents that keep what is declared, answers free within bounds and categories"
            universes = "all files that agree in everything but the named answers, one universe for each"
        output = "largest log ratio of the two probabilities of any event"
        rows = (
            ("domain", domain),
            (
                "multiverse",
                universes if setting.given else f"one universe: every {setting.protect} data set is comparable with every other",
            ),
            (
                "input premetric",
                f"number of steps between neighbours; {setting.neighbour}"
                + (f" ({self.restricted})" if self.relation_name else ""),
            ),
            ("output premetric", output + (f", after {ceiling_text(self.delta)} is taken off the first" if self.delta else "")),
            (
                "budget",
                f"epsilon {ceiling_text(self.epsilon, 7)}"
                + (f" at delta {ceiling_text(self.delta)}" if self.delta else "")
                + ", the same for every universe",
            ),
        )
        return "\n".join(f"{name:<17}{text}" for name, text in rows)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` wrote."""
        return cls(
            whole=PrivacyProfile.from_dict(fields["profile"]),
            on_sample=PrivacyProfile.from_dict(fields["in_sample_profile"]),
            setting=Setting(fields["protect"], fields["given"], neighbours=fields["neighbours"]),
            delta=fields["delta"],
            rate=fields["rate"],
            holds_when=tuple(fields["holds_when"]),
            steps=tuple(fields["steps"]),
            relation_name=fields["relation_name"],
            held=tuple(fields.get("held", ())),
            elsewhere=fields["elsewhere"],
            # Up to 0.8 the key was `known`.
            epsilon_in_worst_sample=fields["epsilon_in_worst_sample" if "epsilon_in_worst_sample" in fields else "known"],
        )

    def to_dict(self) -> dict[str, Any]:
        """The `guarantee` object of release.json."""
        known, leaks = self.in_sample, self.sample_leaks
        return {
            "sentence": str(self),
            "epsilon": self.epsilon,
            "delta": self.delta,
            **{key: self.setting.to_dict()[key] for key in ("neighbours", "protect", "given")},
            "relation_name": self.relation_name,
            **({"held": list(self.held)} if self.held else {}),
            "record": self.record,
            "in_sample": {"epsilon": known[0], "delta": known[1]},
            "sample_leaks": {"epsilon": leaks[0], "delta": leaks[1]},
            "rate": self.rate,
            "elsewhere": self.elsewhere,
            "epsilon_in_worst_sample": self.epsilon_in_worst_sample,
            "holds_when": list(self.holds_when),
            "steps": list(self.steps),
            "specification": self.specification,
            "profile": self.whole.to_dict(),
            "in_sample_profile": self.on_sample.to_dict(),
        }
