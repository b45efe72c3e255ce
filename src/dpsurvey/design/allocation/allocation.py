"""Allocation: how many units are drawn from each stratum, by which rule, and where its figures were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from ...errors import BadValue, NoGuarantee
from ...text.layout import number_text, text_table
from ..checks import check_count
from ..srs import SimpleRandom, srs
from .guaranteed import StrataGuarantee
from .inputs import check_figures, check_minimum, check_sizes
from .rules import RULES
from .takes import spent, strata_array, strata_takes, stratified_se, written

NOT_PUBLIC = "computed from the confidential frame: not public; no survey can release with it"


@dataclass(frozen=True)
class Allocation:
    """Units to draw from each stratum: `takes`, whole numbers, and `exact`, the shares before rounding. See `allocate`."""

    rule: str
    sizes: Mapping[str, int] = field(hash=False)
    exact: Mapping[str, float] = field(hash=False)
    takes: Mapping[str, int] = field(hash=False)
    deviations: Mapping[str, float] | None = field(default=None, hash=False)
    costs: Mapping[str, float] | None = field(default=None, hash=False)
    minimum: int | Mapping[str, int] = field(default=1, hash=False)
    source: str = ""
    public: bool = True
    epsilon: Mapping[str, float] | None = field(default=None, hash=False)
    ranges: Mapping[str, float] | None = field(default=None, hash=False)
    release: str | None = None

    def __post_init__(self) -> None:
        sizes = check_sizes(self.sizes)
        figures = {"exact": self.exact, "takes": self.takes, "deviations": self.deviations, "costs": self.costs}
        checked = {name: check_figures(name, each, sizes, above=name == "costs") for name, each in figures.items()}
        if self.rule not in RULES or checked["exact"] is None or checked["takes"] is None:
            raise BadValue("this is not an allocation", hint="make it with allocate(...)")
        check_minimum(self.minimum, sizes)
        guarantee = self.guarantee
        if (guarantee is not None) != RULES[self.rule].guaranteed or (guarantee is None and (self.ranges or self.release)):
            raise BadValue("the private rule, and no other, keeps epsilon, ranges and a release")
        for label, take in self.takes.items():
            check_count(f"the take of stratum {label!r}", take, at_least=1 if guarantee else 0, at_most=sizes[label])
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "takes", {label: self.takes[label] for label in sizes})
        for name in ("exact", "deviations", "costs"):
            object.__setattr__(self, name, checked[name])
        for name, kept in (guarantee.fields() if guarantee else {}).items():
            object.__setattr__(self, name, kept)

    @property
    def total(self) -> int:
        """All units drawn."""
        return sum(self.takes.values())

    @property
    def floor(self) -> dict[str, int]:
        """The least units of each stratum: the minimum, or the size where that is smaller."""
        return check_minimum(self.minimum, self.sizes)

    @property
    def rates(self) -> dict[str, float]:
        """n_h/N_h."""
        return {label: take / self.sizes[label] for label, take in self.takes.items()}

    @property
    def cost(self) -> float | None:
        """The cost of all units drawn; None without costs."""
        return None if self.costs is None else float(spent(written(self.costs.values()), strata_takes(self.takes)))

    @property
    def se_mean(self) -> float | None:
        """The standard error of the stratified mean; None without deviations, or where a stratum is not drawn from."""
        if self.deviations is None or not all(self.takes.values()):
            return None
        return stratified_se(strata_array(self.sizes), strata_array(self.deviations), strata_takes(self.takes))

    @cached_property
    def guarantee(self) -> StrataGuarantee | None:
        """What records lose and what is published; None for rules that know no noise."""
        if self.epsilon is None or self.ranges is None:
            return None
        return StrataGuarantee.of(self.epsilon, self.ranges, self.release, check_sizes(self.sizes), self.deviations, self.public)

    @property
    def se_sampling(self) -> float | None:
        """`se_mean`; without deviations that of the worst values in the ranges, if the rule has ranges."""
        return self.se_mean if self.guarantee is None else self.guarantee.errors(self.takes)["se_sampling"]

    @property
    def se_noise(self) -> float | None:
        """What noise adds to the standard error of the mean; None for rules that know no noise."""
        return None if self.guarantee is None else self.guarantee.errors(self.takes)["se_noise"]

    @property
    def se(self) -> float | None:
        """The standard error of the noisy mean; None for rules that know no noise."""
        return None if self.guarantee is None else self.guarantee.errors(self.takes)["se"]

    @property
    def epsilon_in_sample(self) -> dict[str, float] | None:
        """What is spent on a sampled record, by stratum, so that on the frame it loses at most its epsilon."""
        return None if self.guarantee is None else self.guarantee.in_sample(self.takes)

    def within(self) -> dict[str, SimpleRandom]:
        """The design inside each stratum, for `stratified(by, within=...)`.

        Refused where the takes are confidential: the mark would be lost. `stratified(by, within=allocation)` keeps it.
        """
        if not self.public:
            raise NoGuarantee(
                "these sample sizes are not public figures",
                because="the allocation was computed from the confidential frame, so the sizes themselves reveal something "
                "about records",
                hint="allocate from noisy, charged standard deviations; or give stratified() the allocation itself",
            )
        for label, take in self.takes.items():
            if take == 0:
                raise BadValue(f"nothing is drawn from stratum {label!r}", hint="minimum=1, or 2 to estimate variances")
        return {label: srs(n=take) for label, take in self.takes.items()}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each stratum."""
        noisy = {} if self.guarantee is None else self.guarantee.columns(self.takes)
        return [
            {"stratum": label, "size": size, "take": self.takes[label], "rate": self.takes[label] / size}
            | {"weight": size / self.takes[label] if self.takes[label] else None}
            | ({"deviation": self.deviations[label]} if self.deviations is not None else {})
            | ({"cost": self.costs[label]} if self.costs is not None else {})
            | {name: column[label] for name, column in noisy.items()}
            for label, size in self.sizes.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Allocation:
        """The allocation that `to_dict` wrote."""
        try:
            return cls(**given)
        except TypeError:
            known = ", ".join(each.name for each in fields(cls))
            raise BadValue("an allocation has a missing or unknown key", given=", ".join(given), hint=f"keys: {known}") from None

    def __str__(self) -> str:
        rows = self.rows()
        parts = [f"{self.rule} allocation: {self.total:,} of {sum(self.sizes.values()):,} units"]
        if self.guarantee is not None:
            parts += [f"se of the mean {self.guarantee.text(self.takes)}"]
        elif self.se_mean is not None:
            parts += [f"se of the mean {number_text(self.se_mean)}"]
        parts += [f"cost {number_text(self.cost)}"] if self.cost is not None else []
        lines = [text_table(rows, list(rows[0])), "", "; ".join(parts)]
        if self.guarantee is not None:
            lines.append(
                "epsilon is for a record of the frame replaced within its public stratum; somebody known to be sampled has"
            )
            lines[-1] += " epsilon_in_sample"
        if not self.public:
            return "\n".join([*lines, NOT_PUBLIC])
        return "\n".join([*lines, f"figures from: {self.source}"] if self.source else lines)
