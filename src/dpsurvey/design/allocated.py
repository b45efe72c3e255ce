"""Allocation: how many units are drawn from each stratum, by which rule, and where its figures were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import BadValue, NoPromise
from ..layout import number_text, text_table
from .allocation_inputs import RULES, check_figures, check_sizes
from .allocation_rules import spent, strata_array, strata_takes, stratified_se, written
from .selection.base import check_count
from .srs import SimpleRandom, srs

NOT_PUBLIC = "computed from the confidential frame: not public; amplification is refused"


@dataclass(frozen=True)
class Allocation:
    """Units to draw from each stratum: `takes`, whole numbers, and `exact`, the shares before rounding. See `allocate`."""

    rule: str
    sizes: Mapping[str, int] = field(hash=False)
    exact: Mapping[str, float] = field(hash=False)
    takes: Mapping[str, int] = field(hash=False)
    deviations: Mapping[str, float] | None = field(default=None, hash=False)
    costs: Mapping[str, float] | None = field(default=None, hash=False)
    minimum: int = 1
    source: str = ""
    public: bool = True

    def __post_init__(self) -> None:
        sizes = check_sizes(self.sizes)
        figures = {"exact": self.exact, "takes": self.takes, "deviations": self.deviations, "costs": self.costs}
        checked = {name: check_figures(name, each, sizes, above=name == "costs") for name, each in figures.items()}
        if self.rule not in RULES or checked["exact"] is None or checked["takes"] is None:
            raise BadValue("this is no allocation", hint="make it with allocate(...)")
        for label, take in self.takes.items():
            check_count(f"the take of stratum {label!r}", take, at_least=0, at_most=sizes[label])
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "takes", {label: self.takes[label] for label in sizes})
        for name in ("exact", "deviations", "costs"):
            object.__setattr__(self, name, checked[name])

    @property
    def total(self) -> int:
        """All units drawn."""
        return sum(self.takes.values())

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

    def within(self) -> dict[str, SimpleRandom]:
        """The design inside each stratum, for `stratified(by, within=...)`.

        Refused where the takes are confidential: the mark would be lost. `stratified(by, within=allocation)` keeps it.
        """
        if not self.public:
            raise NoPromise(
                "these sample sizes are not public figures",
                because="the allocation was computed from the confidential frame, so the sizes themselves tell about records",
                hint="allocate from noisy, charged standard deviations; or give stratified() the allocation itself",
            )
        for label, take in self.takes.items():
            if take == 0:
                raise BadValue(f"nothing is drawn from stratum {label!r}", hint="minimum=1, or 2 to estimate variances")
        return {label: srs(n=take) for label, take in self.takes.items()}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each stratum."""
        return [
            {"stratum": label, "size": size, "take": self.takes[label], "rate": self.takes[label] / size}
            | {"weight": size / self.takes[label] if self.takes[label] else None}
            | ({"deviation": self.deviations[label]} if self.deviations is not None else {})
            | ({"cost": self.costs[label]} if self.costs is not None else {})
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
        told = [f"{self.rule} allocation: {self.total:,} of {sum(self.sizes.values()):,} units"]
        told += [f"se of the mean {number_text(self.se_mean)}"] if self.se_mean is not None else []
        told += [f"cost {number_text(self.cost)}"] if self.cost is not None else []
        lines = [text_table(rows, list(rows[0])), "", "; ".join(told)]
        if not self.public:
            return "\n".join([*lines, NOT_PUBLIC])
        return "\n".join([*lines, f"figures from: {self.source}"] if self.source else lines)
