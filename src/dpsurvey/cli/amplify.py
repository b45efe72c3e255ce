"""The command `dpsurvey amplify`: what each design does to an epsilon, as JSON or in words."""

from __future__ import annotations

import csv
import inspect
import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..design import Design, covered, responding
from ..design import group as grouped
from ..design.amplify import Loss, amplify, invert
from ..design.checks import check_count
from ..errors import BadValue, NotFound
from ..text.layout import ceiling_text, floor_text, text_table
from ..text.reading import text_of

app = typer.Typer(
    name="amplify",
    help="""What a sampling design does to a privacy loss: a proved bound, or a refusal.

    `--base` is the relation under which the mechanism on the sample is private, `--neighbours` the relation of the
    guarantee for the population; neither is ever guessed.

    Examples:

    `dpsurvey amplify poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours add-remove`

    `dpsurvey amplify cluster --sizes 12,8,30 --take 1 --epsilon 0.1 --base add-remove --neighbours add-remove --json`

    All designs side by side: `dpsurvey compare designs --rate 0.1 --epsilon 1`""",
    rich_markup_mode="markdown",
    no_args_is_help=True,
)

Option = typer.Option
COMMON: dict[str, tuple[Any, Any]] = {
    "epsilon": (Annotated[float, Option(help="Loss of the mechanism on the sample; with --invert, the target.")], ...),
    "base": (
        Annotated[
            str,
            Option(
                help="What the noise on the sample covers: add-remove (a record more or less), replace-one (a changed one), both."
            ),
        ],
        ...,
    ),
    "neighbours": (Annotated[str, Option(help="What the guarantee for the population covers: add-remove or replace-one.")], ...),
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
    "prior": (Annotated[float | None, Option(help="Also: how far each attacker can move a belief held so strongly.")], None),
    "witness": (Annotated[bool, Option("--witness", help="Also: the worst mechanism, by linear programme.")], False),
    "to_spend": (Annotated[bool, Option("--invert", help="The epsilon to spend on the sample for the target.")], False),
    "as_json": (Annotated[bool, Option("--json", help="Print JSON on stdout.")], False),
}


@app.callback()
def options() -> None:
    """What one named design does; all of them: dpsurvey compare designs."""


def design(name: str) -> Callable[[Callable[..., Design]], Callable[..., Design]]:
    """Make a command of a function that builds a design from its own options; the common ones are added."""

    def add(build: Callable[..., Design]) -> Callable[..., Design]:
        own = inspect.signature(build, eval_str=True).parameters

        def command(**given: Any) -> None:
            shared = {key: given.pop(key) for key in COMMON}
            answer(build(**given), **shared)

        extra = [
            inspect.Parameter(
                key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=inspect.Parameter.empty if value is ... else value
            )
            for key, (kind, value) in COMMON.items()
        ]
        mine = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.values()]
        command.__signature__ = inspect.Signature([*mine, *extra])  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in (*mine, *extra)}
        command.__doc__ = build.__doc__
        app.command(name)(command)
        return build

    return add


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


# Further figures of an answer, in words; what has no words here is for JSON.
LABELS = {
    "removal_direction": "in the other order, the population without the record first",
    "crossing_classes": "a record that moves to a class with another rate",
    "printed_theorem": "as printed in Bun et al., Theorem 4.3, which is looser",
    "unit_that_changes_stratum": "a record that changes stratum",
    "allocation_moves": "where the allocation moves with the record",
    "allocation_stays": "where the allocation stays",
    "upper_closed_form": "closed form, which is looser",
    "theorem_5_1_lower": "as printed in Bun et al., Theorem 5.1, a lower bound",
    "theorem_5_2_upper": "as printed in Bun et al., Theorem 5.2, an upper bound",
    "lemma_b1_upper": "by Lemma B.1, corrected",
    "advantage": "the best advantage of a test that sees the sample's size alone",
    "every_population": "for every size of the stratum",
    "every_size": "for every size of the list",
    "known_to_have_responded": "someone known to have responded",
}
# Figures that bound a loss from below are rounded down.
BELOW = frozenset({"theorem_5_1_lower"})
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
    if loss.known_in_sample is not None:
        known = _figures(loss, loss.known_in_sample, loss.known_delta)
        lines.append(f"someone known to be in the sample, or if the sample list leaks: {known}")
        if loss.epsilon > 0.999 * loss.known_in_sample:
            lines.append("  sampling gains nothing here" + ("" if loss.epsilon <= loss.spent_epsilon else ", or makes it worse"))
    lines += [f"  {flag.name}: {flag.says}" for flag in loss.red_flags() if flag.raised]
    for key, value in loss.details.items():
        if key in LABELS and value is not None:
            lines.append(f"  {LABELS[key]}: {(floor_text if key in BELOW else ceiling_text)(value, DIGITS)}")
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


def numbers(text: str, option: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Numbers separated by commas, or a text file of them."""
    what = "whole numbers" if kind is int else "numbers"
    if len(text) < 250 and "," not in text and Path(text).is_file():
        return numbers_in(Path(text), option, kind)
    try:
        found = _numbers(text, kind)
    except ValueError:
        hint = "or the name of a file of them, which must exist"
        raise BadValue(f"--{option} must be {what} separated by commas", given=text[:60], hint=hint) from None
    if not found:
        raise BadValue(f"--{option} must be {what} separated by commas, at least one", given=repr(text[:60]))
    return found


def numbers_in(file: Path, option: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """The numbers of a text file. What else it holds is said in no message: it may be another file than was meant."""
    with suppress(ValueError):
        if found := _numbers(read_text(file, option), kind):
            return found
    what = "whole numbers" if kind is int else "numbers"
    raise BadValue(f"the file of --{option} holds something else than {what}, or nothing", given=str(file)[:80])


def _numbers(text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    return tuple(kind(word) for word in re.split(r"[,\s]+", text.strip()) if word)


def read_text(file: Path, option: str) -> str:
    """The text of a file that an option names; a byte-order mark is dropped."""
    try:
        return text_of(file)
    except OSError:
        raise NotFound(f"--{option} is neither a list of numbers nor a file that can be read", given=str(file)[:80]) from None
    except ValueError:
        raise BadValue(f"the file of --{option} is not text in UTF-8", given=str(file)[:80]) from None


def table_of(file: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a CSV file with these columns, by name; or by place, where there are just as many under other names or none."""
    if not file.is_file():
        raise NotFound(f"no file {str(file)!r}", hint="--table takes a CSV file with the columns " + ", ".join(columns))
    lines = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(read_text(file, "table"))) if any(row)]
    names = lines[0] if lines else []
    if set(columns) <= set(names):
        return [dict(zip(names, row, strict=False)) for row in lines[1:]]
    if len(names) != len(columns):
        raise BadValue("--table lacks a column", given=str(file)[:80], hint="needed: " + ", ".join(columns))
    named = any(not _is_number(cell) for cell in names)
    return [dict(zip(columns, row, strict=False)) for row in lines[named:]]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
