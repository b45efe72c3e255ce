"""Panels: samples of one key whose windows and levels were put on record before the first release."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from ..design.key import Key, panel_start
from ..errors import BadValue, LedgerDisagrees
from ..privacy.curve import Curve
from ..privacy.measure import Measure
from ..privacy.panel import PanelCurve, panel_curve
from ..privacy.relation import Relation
from ..privacy.running import Running
from ..privacy.setting import Setting
from ..privacy.windows import Window, joint_loss, patterns, worst_pattern


@dataclass(frozen=True)
class Panel:
    """The waves of a rotation: windows of one key, and what may be charged to each wave.

    With the measure epsilon the panel has a budget of its own, `epsilon`, and wave levels are not needed. With rho or
    mu the loss is that of the levels at `delta`, and counts as a whole from the first charge on.

    >>> waves = (Window(0.0, 0.02), Window(0.02, 0.02))
    >>> frame = Setting("frame", neighbours="add-remove")
    >>> made = Panel("lfs", waves, (1.0,) * 2, frame, key="ab", measure=Measure.MU, fixed=True, epsilon=0.0, delta=1e-6)
    >>> round(made.loss, 2), round(made.epsilon_in_sample, 2)
    (1.26, 4.89)
    """

    name: str
    windows: tuple[Window, ...]
    levels: tuple[float, ...]
    setting: Setting
    key: str
    measure: Measure
    fixed: bool
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "measure", Measure.read(self.measure))
        if self.setting.neighbours != Relation.ADD_REMOVE or self.setting.level > 1:
            raise BadValue(
                "a panel is accounted for one unit more or less of the frame or the population",
                given=f"protect={self.setting.protect!r}, neighbours={self.setting.neighbours!r}",
                because="the mixture over inclusion patterns is proved for that alone",
                hint='Setting("frame", neighbours="add-remove"), and Poisson samples',
            )
        if not self.windows or len({window.start for window in self.windows}) < len(self.windows):
            raise BadValue(
                "the waves of a panel start at different places, and there is at least one",
                hint="to ask the same people again, release again from the same sample",
            )
        if not self.measure.needs_delta:
            if self.levels or not (self.epsilon > 0.0 and math.isfinite(self.epsilon)) or self.delta:
                raise BadValue("a panel in epsilon has one budget, and neither levels nor delta", given=f"epsilon={self.epsilon}")
        elif not 0.0 < self.delta < 1.0 or len(self.levels) != len(self.windows):
            given = f"delta={self.delta}, {len(self.levels)} levels"
            raise BadValue("a panel in rho or mu has a delta, and a level for each wave", given=given)
        elif not all(0.0 < level <= 1e3 for level in self.levels):
            raise BadValue("the level of a wave is positive, and at most 1000", given=repr(self.levels[:12]))
        elif not math.isfinite(self.loss):
            raise BadValue("these levels guarantee nothing at this delta", given=f"delta={self.delta}")

    @cached_property
    def curve(self) -> PanelCurve:
        """The whole curve, with a delta."""
        return panel_curve(self.windows, self.levels, self.measure, fixed=self.fixed)

    @cached_property
    def loss(self) -> float:
        """What anyone on the frame loses to the whole panel, if all levels are used up; in epsilon, its budget."""
        return self.curve.epsilon(self.delta) if self.measure.needs_delta else self.epsilon

    @cached_property
    def epsilon_in_sample(self) -> float:
        """What somebody loses who is known to be in all their samples: the worst pattern, unamplified."""
        if not self.measure.needs_delta:
            return math.inf
        return max(self.unamplified(each.samples).epsilon(self.delta) for each in patterns(self.windows))

    @cached_property
    def in_every_wave(self) -> float:
        """What somebody would lose who is in every wave, unamplified: what holds without any condition on the draws."""
        return self.unamplified(range(len(self.windows))).epsilon(self.delta) if self.levels else math.inf

    def unamplified(self, waves: Iterable[int]) -> Curve:
        """What the levels of these waves cost somebody who is known to be in all of them."""
        return self.measure.of_levels(self.levels[wave] for wave in waves)

    def wave(self, start: float, rate: float) -> int:
        """The wave that a window belongs to; a window of no wave is refused."""
        for number, window in enumerate(self.windows):
            if window.start == start and rate <= window.rate:
                return number
        nearest = min((window.start for window in self.windows), key=lambda each: abs(each - start))
        raise LedgerDisagrees(
            f"the key of this sample belongs to the panel {self.name!r}, which has no such wave",
            given=f"start {start!r}, rate {rate:g}",
            because="what the panel loses was computed from the windows on record",
            hint=f"the nearest wave on record starts at {nearest!r}; or draw with another key",
        )

    def pure_losses(self, charged: Mapping[int, float]) -> tuple[float, float]:
        """The joint loss of charges by wave, and that of the worst pattern."""
        windows, losses = [self.windows[wave] for wave in charged], list(charged.values())
        return joint_loss(windows, losses), worst_pattern(windows, losses)

    def level_left(self, wave: int, charged: Running) -> float:
        """What the level of a wave leaves, negative where a charge exceeds it."""
        return float(self.exact_level(wave) - charged.amount)

    def exact_level(self, wave: int) -> Fraction:
        """The level of a wave as charges are counted: mu in squares."""
        return self.measure.exact(self.levels[wave])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        plain = {name: getattr(self, name) for name in ("name", "key", "fixed", "epsilon", "delta")}
        windows = [[window.start, window.rate] for window in self.windows]
        more = {"measure": self.measure.value, "windows": windows, "levels": list(self.levels)}
        return plain | more | {"setting": self.setting.to_dict()}

    def body(self) -> dict[str, Any]:
        """What the chain says of it, with the word that entries have for the accounting measure."""
        fields = self.to_dict()
        fields["currency"] = fields.pop("measure")
        return fields


def panel(
    name: str,
    key: Key | str,
    setting: Setting,
    *,
    rate: float,
    waves: int,
    overlap: float = 0.0,
    epsilon: float | None = None,
    mu: float | Sequence[float] | None = None,
    rho: float | Sequence[float] | None = None,
    delta: float = 0.0,
    fixed: bool = True,
) -> Panel:
    """The waves of a rotating panel: each asks a rate, and shares `overlap` of its units with the wave before it.

    Either `epsilon`, one pure budget for all waves together; or `mu` or `rho`, what each wave may be charged, one number or
    one for each wave, with a `delta`. `key` is the key of the draws, or its commitment. With `fixed=False` the loss is claimed
    for levels that were not settled beforehand.

    >>> frame = Setting("frame", neighbours="add-remove")
    >>> made = panel("lfs", "ab", frame, rate=0.02, waves=8, overlap=0.75, mu=1.0, delta=1e-6)
    >>> round(made.loss, 2), round(made.epsilon_in_sample, 2)
    (5.89, 11.0)
    """
    amounts = {Measure.EPSILON: epsilon, Measure.RHO: rho, Measure.MU: mu}
    given = [(measure, value) for measure, value in amounts.items() if value is not None]
    if len(given) != 1:
        raise BadValue("a panel is charged in one of epsilon, mu and rho", given=f"{len(given)} of them")
    if not isinstance(waves, int) or waves < 1:
        raise BadValue("a panel has at least one wave", given=f"waves={waves!r}")
    windows = tuple(Window(panel_start(rate, wave=wave, overlap=overlap), rate) for wave in range(waves))
    ((measure, value),) = given
    levels: tuple[float, ...] = ()
    if measure.needs_delta:
        levels = (float(value),) * waves if isinstance(value, int | float) else tuple(float(each) for each in value)
    commitment = key.commitment if isinstance(key, Key) else key
    return Panel(name, windows, levels, setting, commitment, measure, fixed, float(epsilon or 0.0), delta)
