"""What a sampling design does to a privacy loss: a proved bound, or a refusal.

`--base` is the relation under which the mechanism on the sample is private, `--neighbours` the relation of the
guarantee for the population; neither is ever guessed.

Examples:

`dpsurvey amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove`

`dpsurvey amplify cluster --sizes 12,8,30 --take 1 --epsilon 0.1 --base add-remove --neighbours add-remove --json`

All designs side by side: `dpsurvey compare designs --rate 0.1 --epsilon 1`
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..design import DESIGNS, Design, covered, responding
from ..design import group as grouped
from ..design.amplify import Loss, amplify, invert
from ..design.checks import check_count
from ..errors import BadValue
from ..loss.bound import Figure
from ..privacy.relation import Relation
from ..text.layout import ceiling_text, floor_text, text_table
from .figures import figures_of
from .options import Option, new_app

PLACE_IN_HELP = 70

COMMON: dict[str, tuple[Any, Any]] = {
    "epsilon": (Annotated[float, Option(help="Loss of the mechanism on the sample; with --invert, the target.")], ...),
    "base": (
        Annotated[
            str,
            Option(help=f"What the noise on the sample covers: {Relation.choices()}."),
        ],
        ...,
    ),
    "neighbours": (
        Annotated[str, Option(help=f"What the guarantee for the population covers: {Relation.choices(allow_both=False)}.")],
        ...,
    ),
    "delta": (Annotated[float, Option(help="Delta of the mechanism; with --invert, the target's.")], 0.0),
    "response_at_most": (
        Annotated[
            float | None, Option(help="The most that any unit is likely to respond; an average response rate does not count.")
        ],
        None,
    ),
    "coverage_at_most": (
        Annotated[float | None, Option(help="The most that any unit is likely to be on the frame; an average does not count.")],
        None,
    ),
    "group": (
        Annotated[int | None, Option(help="Guarantee for an entity, such as a household, of up to this many units.")],
        None,
    ),
    "drawn": (Annotated[str | None, Option(help="With --group: whether its units are drawn separately or together.")], None),
    "prior": (Annotated[float | None, Option(help="Also: how far each attacker can move this prior belief.")], None),
    "witness": (Annotated[bool, Option("--witness", help="Also: the worst mechanism, by linear programme.")], False),
    "to_spend": (Annotated[bool, Option("--invert", help="The epsilon to spend on the sample for the target.")], False),
    "as_json": (Annotated[bool, Option("--json", help="Print JSON on stdout.")], False),
}


class DesignCommands(Mapping[str, Any]):
    """A command for each way to give the figures of a design, read from the list of designs whenever it is asked for."""

    def _functions(self) -> dict[str, Callable[..., Design]]:
        found = {name: make for kind in DESIGNS.values() for name, make in kind.commands.items()}
        return {name: found[name] for name in sorted(found)}

    def __getitem__(self, name: str) -> Any:
        return design_command(name, self._functions()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions())

    def __len__(self) -> int:
        return len(self._functions())


class Designs(TyperGroup):
    """The group of these commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = DesignCommands()


app = new_app(cls=Designs, help=__doc__, no_args_is_help=True)


@app.callback()
def options() -> None:
    """What one named design does; all of them: dpsurvey compare designs."""


def design_command(name: str, make: Callable[..., Design]) -> Any:
    """The command of a function that makes a design from figures: an option for each of these, and the common ones."""
    figures = figures_of(make, taken=COMMON)

    def command(**given: Any) -> None:
        shared = {key: given.pop(key) for key in COMMON}
        figured = {each.name: each.read(given[each.key]) for each in figures if each.is_given(given)}
        try:
            drawing = make(**figured)
        except (AttributeError, KeyError, TypeError) as error:
            # As in a survey file: a design need not check that what it is given is of the right kind.
            raise BadValue(
                f"the design {name!r} cannot be made of these options", given=", ".join(figured), hint=str(error)
            ) from None
        answer(drawing, **shared)

    options = [(each.key, each.annotation, each.default) for each in figures]
    options += [(key, annotation, default) for key, (annotation, default) in COMMON.items()]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=_or_needed(default))
            for key, annotation, default in options
        ]
    )
    command.__annotations__ = {key: annotation for key, annotation, _ in options}
    alone = new_app()
    # What a docstring shows of Python is not for this help.
    alone.command(name, help=inspect.cleandoc(make.__doc__ or "").split(">>>")[0])(command)
    return typer.main.get_command(alone)


def _or_needed(default: Any) -> Any:
    return inspect.Parameter.empty if default is ... else default


def answer(
    drawing: Design,
    epsilon: float,
    base: Any,
    neighbours: Any,
    delta: float,
    response_at_most: float | None,
    coverage_at_most: float | None,
    group: int | None,
    drawn: Any,
    prior: float | None,
    witness: bool,
    to_spend: bool,
    as_json: bool,
) -> None:
    """Compute, and print in words or as JSON. A refusal is an answer, not an error."""
    if response_at_most is not None:
        drawing = responding(drawing, at_most=response_at_most)
    if coverage_at_most is not None:
        drawing = covered(drawing, at_most=coverage_at_most)
    if (group is None) != (drawn is None):
        hint = "a person's jobs are drawn separately, the members of a drawn household together"
        raise BadValue("--group needs --drawn separately or --drawn together, and the other way round", hint=hint)
    if group is not None:
        check_count("group", group)
        drawing = grouped(drawing, group, drawn=drawn)
    if prior is not None and delta:
        raise BadValue("--prior needs delta 0: with a delta no bound on a belief holds for every answer", given=f"delta={delta}")
    loss = (invert if to_spend else amplify)(drawing, epsilon, delta=delta, base=base, neighbours=neighbours)
    data = loss.to_dict()
    if to_spend and loss.refused is None:
        # The question was what to spend, so that is what `epsilon` answers; the guarantee that results stands beside it.
        data |= {"epsilon": loss.spent_epsilon, "delta": loss.spent_delta, "target": {"epsilon": epsilon, "delta": delta}}
        data["guarantee"] = {"epsilon": loss.epsilon, "delta": loss.delta, "lower": loss.lower}
        data["lower"] = loss.spent_epsilon if loss.exact else None
    if prior is not None:
        data["attackers"] = loss.attackers(prior)
    worst = loss.worst_case() if witness else None
    if witness:
        data["worst_case"] = None if worst is None else {"lower": worst.lower, "upper": worst.upper, "exact": worst.exact}
        if worst is not None:
            worst.witness.check(worst.lower)
    sys.stdout.write((json.dumps(data, indent=1, allow_nan=False) if as_json else in_words(loss, to_spend)) + "\n")
    if not as_json and prior is not None:
        sys.stdout.write(_beliefs(loss, prior) + "\n")
    if not as_json and witness:
        text = (
            "too many samples to write down"
            if worst is None
            else f"worst case by linear programme {floor_text(worst.lower, DIGITS)}\n{worst.witness.describe()}"
        )
        sys.stdout.write(text + "\n")


DIGITS = 10


def in_words(loss: Loss, to_spend: bool = False) -> str:
    """The answer for people."""
    if loss.refused is not None:
        lines = [f"refused: {loss.refused.reason}", f"  instead: {loss.refused.instead}", f"  source: {loss.refused.source}"]
        if loss.refused.bound:
            lines.append(f"  proved all the same: {loss.refused.bound}")
        return "\n".join(lines)
    assert loss.epsilon is not None
    tight = "exact" if loss.exact else "a proved bound"
    if not loss.exact and loss.lower is not None:
        tight += f"; at least {floor_text(loss.lower, DIGITS)}"
    lines = [f"{_figures(loss, loss.epsilon, loss.delta)} for {loss.neighbours} neighbours ({tight}; {loss.scope})"]
    if to_spend:
        spent = f", delta {floor_text(loss.spent_delta, DIGITS)}" if loss.spent_delta else ""
        lines.insert(0, f"spend epsilon {floor_text(loss.spent_epsilon, DIGITS)}{spent} on the sample, {loss.base}")
    if loss.epsilon_in_sample is not None:
        known = _figures(loss, loss.epsilon_in_sample, loss.delta_in_sample)
        lines.append(f"someone known to be in the sample, or if the sample list leaks: {known}")
        if loss.epsilon > 0.999 * loss.epsilon_in_sample:
            lines.append("  sampling gains nothing here" + ("" if loss.epsilon <= loss.spent_epsilon else ", or makes it worse"))
    lines += [f"  {flag.name}: {flag.says}" for flag in loss.red_flags() if flag.raised]
    further = [each for each in loss.details.values() if isinstance(each, Figure) and each.says]
    lines += [f"  {each.says}: {(floor_text if each.from_below else ceiling_text)(each, DIGITS)}" for each in further]
    return "\n".join([*lines, "holds when:", *(f"  {each}" for each in loss.holds_when), f"source: {loss.source}"])


def _figures(loss: Loss, epsilon: float, delta: float | None) -> str:
    told = f", delta {ceiling_text(delta, DIGITS)}" if loss.spent_delta and delta is not None else ""
    return f"epsilon {ceiling_text(epsilon, DIGITS)}{told}"


def _beliefs(loss: Loss, prior: float) -> str:
    columns = {"posterior_at_least": "becomes at least", "posterior_at_most": "becomes at most"}
    rows = [
        {"attacker": who, "a belief of": prior} | {columns.get(key, key): value for key, value in figures.items()}
        for who, figures in loss.attackers(prior).items()
    ]
    return text_table(rows, ("attacker", "epsilon", "a belief of", *columns.values()))
