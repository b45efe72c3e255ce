"""Guarantee: a profile under a setting, for whom, and when it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .profile import PrivacyProfile
from .setting import Setting


@dataclass(frozen=True)
class Guarantee:
    """What was promised: the loss of everything released from a sample, for three attackers.

    `whole` is the profile under the setting, `on_sample` the profile of someone known to be in the sample,
    both under the setting's neighbour relation; `rate` is the largest inclusion probability.

    >>> base = PrivacyProfile.pure(1.0, "add-remove")
    >>> print(Guarantee(base.amplify(0.1), base, Setting("frame", neighbours="add-remove"), 0.0, 0.1, ()))
    Anyone on the frame: epsilon 0.16. Someone known to be in the sample: epsilon 1.00. If the sample list leaks: 1.00.
    """

    whole: PrivacyProfile
    on_sample: PrivacyProfile
    setting: Setting
    delta: float
    rate: float
    holds_when: tuple[str, ...]
    steps: tuple[str, ...] = ()
    relation_name: str = ""

    @property
    def epsilon(self) -> float:
        """The proved loss for the protected data."""
        return self.whole.epsilon(self.delta)

    @property
    def known_in_sample(self) -> tuple[float, float]:
        """(epsilon, delta) for someone who is known to be in the sample: sampling hides nothing of them."""
        return self.on_sample.epsilon(self.delta), self.delta

    @property
    def sample_leaks(self) -> tuple[float, float]:
        """(epsilon, delta) when the whole sample list leaks later: only the sampled lose, at rate * delta."""
        return self.on_sample.epsilon(self.delta), self.rate * self.delta

    def __str__(self) -> str:
        at = f" (delta {self.delta:.3g})" if self.delta else ""
        known, leaks = self.known_in_sample[0], self.sample_leaks[0]
        sentence = f"{self.setting.who}: epsilon {self.epsilon:.2f}{at}."
        if self.setting.protect in ("population", "frame"):
            sentence += f" Someone known to be in the sample: epsilon {known:.2f}{at}. If the sample list leaks: {leaks:.2f}"
            sentence += f" (delta {self.sample_leaks[1]:.3g})." if self.delta else "."
        return sentence

    @property
    def record(self) -> str:
        """Whose record the promise is for."""
        values = "frame variables and the answers the unit would give" if self.setting.level < 2 else "its values"
        return f"one record of the {self.setting.protect}: {values}; not a household or other entity with several records"

    @property
    def specification(self) -> str:
        """The five components of a privacy specification (Bailie and Drechsler, Definition 2.5)."""
        setting = self.setting
        universes = (
            f"all {setting.protect} data sets that can arise from one {setting.given}, one universe for each {setting.given}"
        )
        output = "largest log ratio of the two probabilities of any event"
        rows = (
            ("domain", f"all possible {setting.protect} data sets, values free within the declared bounds and categories"),
            (
                "multiverse",
                universes if setting.given else f"one universe: every {setting.protect} data set is comparable with every other",
            ),
            (
                "input premetric",
                f"number of steps between neighbours; {setting.neighbour}"
                + (f" ({self.relation_name})" if self.relation_name else ""),
            ),
            ("output premetric", output + (f", after {self.delta:.3g} is taken off the first" if self.delta else "")),
            (
                "budget",
                f"epsilon {self.epsilon:.6f}"
                + (f" at delta {self.delta:.3g}" if self.delta else "")
                + ", the same for every universe",
            ),
        )
        return "\n".join(f"{name:<17}{text}" for name, text in rows)

    def to_dict(self) -> dict[str, Any]:
        """The `guarantee` object of release.json."""
        known, leaks = self.known_in_sample, self.sample_leaks
        return {
            "sentence": str(self),
            "epsilon": self.epsilon,
            "delta": self.delta,
            **{key: self.setting.to_dict()[key] for key in ("neighbours", "protect", "given")},
            "relation_name": self.relation_name,
            "record": self.record,
            "known_in_sample": {"epsilon": known[0], "delta": known[1]},
            "sample_leaks": {"epsilon": leaks[0], "delta": leaks[1]},
            "holds_when": list(self.holds_when),
            "steps": list(self.steps),
            "specification": self.specification,
            "profile": self.whole.to_dict(),
            "in_sample_profile": self.on_sample.to_dict(),
        }
