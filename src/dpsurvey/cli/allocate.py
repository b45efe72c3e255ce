"""Allocate a sample over strata, from published figures. Reads no frame unless told to, spends nothing."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..design.allocation.allocate import Allocation
from ..design.allocation.allocate import allocate as allocation
from ..design.allocation.comparison import compare_allocations
from ..design.allocation.rules import RULES, rule_named
from ..errors import BadValue, NotFound, did_you_mean
from ..planning.allocations import allocations, plan_figures, private_allocation
from ..survey.deviations import release_source, stratum_deviations
from ..survey.frame_allocation import allocate_from_frame
from ..survey.release import Release
from ..survey.survey_file import SurveyFile
from ..text.layout import group_text, text_table
from ..text.reading import text_of
from .options import Option, new_app
from .output import say

PLACE_IN_HELP = 60

app = new_app()

COLUMNS = {"size": "sizes", "sd": "deviations", "cost": "costs", "measure": "measure", "min": "minimum"}
COLUMNS |= {"epsilon": "epsilon", "range": "ranges"}
SHAPE = "NAME=SIZE[,sd=NUMBER][,cost=NUMBER][,measure=NUMBER][,min=NUMBER][,epsilon=NUMBER][,range=NUMBER]"
# Columns that speak to every rule; the others to rules that use them.
COMMON = ("sizes", "deviations", "costs")
NAMES = f"{', '.join(list(RULES)[:-1])} or {list(RULES)[-1]}"
# With more strata than this the takes are left to --json and the picture.
MOST_TAKES = 8
Strata = dict[str, dict[str, float]]


@app.command()
def allocate(
    rule: Annotated[str | None, typer.Argument(help=f"{NAMES}.", show_default=False)] = None,
    strata: Annotated[
        Path | None, Option(help="CSV file with the columns stratum,size[,sd][,cost][,measure][,min][,epsilon][,range].")
    ] = None,
    stratum: Annotated[list[str] | None, Option(help=f"{SHAPE}; repeat it.")] = None,
    n: Annotated[int | None, Option("--n", help="Units to draw in all.")] = None,
    budget: Annotated[float | None, Option(help="cost: what the units may cost in all.")] = None,
    cv: Annotated[float | None, Option(help="precision: the wanted cv of the mean, with --mean.")] = None,
    mean: Annotated[float | None, Option(help="precision: the published mean that --cv is relative to.")] = None,
    se: Annotated[float | None, Option(help="precision: the wanted standard error of the mean.")] = None,
    power: Annotated[float | None, Option(help="power: shares in proportion to measure^POWER, 0 to 1.")] = None,
    minimum: Annotated[int, Option(help="Fewest units in each stratum; 2 are needed to estimate a variance.")] = 1,
    source: Annotated[str, Option(help="Where the figures were published.")] = "",
    release: Annotated[Path | None, Option(help="release.json: deviations from its noisy means, with --of.")] = None,
    frame: Annotated[
        Path | None, Option(help="survey.toml: deviations from its confidential frame, with --of. The answer is confidential.")
    ] = None,
    survey: Annotated[
        Path | None, Option(help="survey.toml: private, with what its plan declares of --of, and the error of all its estimates.")
    ] = None,
    of: Annotated[str | None, Option(help="With --release, --frame or --survey: the column that it is about.")] = None,
    by: Annotated[str | None, Option(help="With --release or --frame: the stratum column, if its design has none.")] = None,
    private: Annotated[bool, Option("--private", help="The rule private: least sampling error and noise together.")] = False,
    epsilon: Annotated[float | None, Option(help="private: what a record may lose on the frame; or the column epsilon.")] = None,
    bounds: Annotated[str | None, Option(help="private: LOW,HIGH of the values; or the column range, their width.")] = None,
    one_total: Annotated[bool, Option("--one-total", help="private: noise on the mean alone, not on each stratum.")] = False,
    plot: Annotated[Path | None, Option(help="private: also draw the allocations side by side, as .svg or .png.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON on stdout.")] = False,
    as_toml: Annotated[bool, Option("--toml", help="Print the lines to paste under [design] of a survey.toml.")] = False,
) -> None:
    """Allocate a sample over strata, from published figures. Reads no frame unless told to, spends nothing.

    Figures of unpublished microdata are confidential: a deviation needs --source, or a noisy --release.

    Examples:

    `dpsurvey allocate proportional --stratum north=1200 --stratum south=600 --n 100`

    `dpsurvey allocate neyman --strata strata.csv --n 1000 --source "Yearbook 2024, table 3"`

    `dpsurvey allocate cost --strata strata.csv --budget 50000 --release 2025/release.json --of income`

    `dpsurvey allocate neyman --frame survey.toml --of income --n 1000`

    `dpsurvey allocate precision --strata strata.csv --cv 0.05 --mean 21000 --source "Yearbook 2024" --toml`

    `dpsurvey allocate --private --strata strata.csv --n 1000 --epsilon 0.5 --bounds 0,100 --source "Yearbook 2024"`

    `dpsurvey allocate --private --survey survey.toml --of income`
    """
    rule = asked_for(rule, private, {"--epsilon": epsilon, "--bounds": bounds, "--one-total": one_total, "--plot": plot})
    guaranteed = rule_named(rule).guaranteed
    if as_json and as_toml:
        raise BadValue("--json and --toml are two forms of one answer", hint="give one of them")
    if survey is not None:
        if not guaranteed or strata or stratum or release or frame or of is None or n or budget or epsilon or bounds:
            raise BadValue("--survey takes all figures from the plan", hint="--private --survey survey.toml --of income")
        made, rows, errors = from_plan(survey, of, minimum, one_total)
        _show(made, as_json, as_toml, rows, errors)
        if plot is not None:
            drawn(rows, plot)
        return
    options = {"n": n, "budget": budget, "cv": cv, "mean": mean, "se": se, "power": power}
    if frame is not None:
        if strata or stratum or release or source or of is None:
            raise BadValue("--frame takes sizes and deviations from the frame", hint="--frame survey.toml --of income --n 1000")
        if plot is not None:
            raise BadValue("--plot shows allocations from published figures", hint="leave --plot out with --frame")
        options |= {"minimum": minimum} | (private_options({}, epsilon, bounds, one_total) if guaranteed else {})
        _show(_from_frame(frame, by, of, rule, options), as_json, as_toml)
        say(
            "confidential: these sizes reveal something about records. They are for planning in the office; no survey releases "
            "with them"
        )
        return
    read = read_strata(strata, stratum or [])
    figures = _figures(read, rule) | {"minimum": least_units(read, minimum)}
    if (release is None) != (of is None) or (by and release is None):
        raise BadValue("--release and --of go together", hint="--release release.json --of income")
    if release is not None and of is not None:
        if figures.get("deviations"):
            raise BadValue("deviations are given twice, as sd and by --release", hint="leave one of them out")
        published = Release.load(release)
        figures["deviations"] = stratum_deviations(published, of, by)
        source = "; ".join(each for each in (source.strip(), f"{release_source(published)}, mean of {of}") if each)
    if guaranteed:
        options |= private_options(figures, epsilon, bounds, one_total)
    asked: dict[str, Any] = figures | {name: value for name, value in options.items() if value is not None} | {"source": source}
    made = allocation(rule, **asked)
    rows = compare_allocations(**asked) if guaranteed else []
    _show(made, as_json, as_toml, rows)
    if plot is not None:
        drawn(rows, plot)


def _from_frame(file: Path, by: str | None, of: str, rule: str, options: dict[str, Any]) -> Allocation:
    """The allocation from the frame of a survey file, marked as confidential."""
    terms = SurveyFile.read(file).survey().terms
    column = by or terms.design.strata_column
    if column is None:
        raise BadValue("the design of this survey has no strata", hint="name the column with --by")
    return allocate_from_frame(terms.frame, by=column, of=of, rule=rule, **options)


def _show(
    made: Allocation,
    as_json: bool,
    as_toml: bool,
    rows: list[dict[str, Any]] | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> None:
    if as_json:
        document: dict[str, Any] = {"total": made.total, "cost": made.cost, "se_mean": made.se_mean, "strata": made.rows()}
        if made.guarantee is not None:
            document |= made.guarantee.errors(made.takes)
        document |= ({"comparison": rows} if rows else {}) | ({"errors": errors} if errors else {})
        sys.stdout.write(json.dumps(made.to_dict() | document, indent=1, allow_nan=False) + "\n")
    elif as_toml:
        # Lines to paste stay alone on stdout.
        sys.stdout.write(design_lines(made) + "\n")
        if rows:
            say(compared(rows))
    else:
        parts = [str(made), *([compared(rows)] if rows else []), *([errors_text(errors)] if errors else [])]
        sys.stdout.write("\n\n".join(parts) + "\n")


def design_lines(made: Allocation) -> str:
    """The `within` of a stratified design, one line for each stratum, as TOML.

    >>> from dpsurvey.design.allocation.allocate import allocate
    >>> print(design_lines(allocate("equal", sizes={"north": 60, "south east": 40}, n=20)))
    within."north" = { kind = "srs", n = 10 }
    within."south east" = { kind = "srs", n = 10 }
    """
    takes = made.takes if not made.public else {label: design.n for label, design in made.within().items()}
    lines = [f'within.{json.dumps(label, ensure_ascii=False)} = {{ kind = "srs", n = {take} }}' for label, take in takes.items()]
    # The mark goes along: a survey file with it makes no guarantee in which the frame varies.
    return "\n".join(lines if made.public else ['allocation = "confidential"', *lines])


def read_strata(file: Path | None, words: list[str]) -> Strata:
    """Figures by stratum, from a file and from the command line."""
    found: Strata = {}
    for name, cells in [*(_from_file(file) if file is not None else []), *(_from_word(each) for each in words)]:
        if name in found:
            raise BadValue(f"the stratum {name!r} is given twice")
        found[name] = {column: _number(name, column, text) for column, text in cells.items() if text}
        if "size" not in found[name]:
            raise BadValue(f"the stratum {name!r} has no size", hint=SHAPE)
    if not found:
        raise BadValue("name the strata", hint=f"--strata FILE.csv, or --stratum {SHAPE}")
    return found


def _from_file(file: Path) -> list[tuple[str, dict[str, str]]]:
    """The lines of a CSV file with a header."""
    try:
        lines = list(csv.reader(io.StringIO(text_of(file))))
    except OSError:
        raise NotFound(f"there is no file {os.fspath(file)!r} that can be read", hint="--strata takes a CSV file") from None
    except (ValueError, csv.Error):
        raise BadValue("the file of --strata is not a CSV file in UTF-8", given=os.fspath(file)) from None
    rows = [[cell.strip() for cell in line] for line in lines if any(cell.strip() for cell in line)]
    names = rows[0] if rows else []
    # What else stands there is only shown of a line of names: another file may have been meant, whose first line is a record.
    for name in names if "stratum" in names else ():
        if name not in ("stratum", *COLUMNS):
            raise BadValue(f"unknown column {name!r} in --strata", hint=did_you_mean(name, ("stratum", *COLUMNS)))
    if not {"stratum", "size"} <= set(names) or len(set(names)) < len(names):
        hint = "the first line is stratum,size[,sd][,cost][,measure][,min][,epsilon][,range]"
        raise BadValue("--strata needs the columns stratum and size, each once", given=os.fspath(file), hint=hint)
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise BadValue("a line of --strata has another number of cells than the header", given=f"line {number}")
    tables = [dict(zip(names, row, strict=True)) for row in rows[1:]]
    return [(each.pop("stratum"), each) for each in tables]


def _from_word(text: str) -> tuple[str, dict[str, str]]:
    """One --stratum."""
    head, *pairs = text.split(",")
    name, _, size = (part.strip() for part in head.rpartition("="))
    cells = {"size": size}
    for pair in pairs:
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in COLUMNS or key in cells or not value:
            raise BadValue(
                f"--stratum takes {SHAPE}", given=text, hint=did_you_mean(key, [each for each in COLUMNS if each != "size"])
            )
        cells[key] = value
    if not name or not size:
        raise BadValue(f"--stratum takes {SHAPE}", given=text)
    return name, cells


def _number(name: str, column: str, text: str) -> float:
    kind = int if column in ("size", "min") else float
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise BadValue(f"the {column} of stratum {name!r} must be {what}", given=text[:60]) from None


def _figures(strata: Strata, rule: str) -> dict[str, Any]:
    """The figures by kind, for those that any stratum has; `allocate` names the strata that lack one."""
    figures = {}
    for column, kind in COLUMNS.items():
        given = {name: cells[column] for name, cells in strata.items() if column in cells}
        # One file may serve several rules.
        if given and column != "min" and kind in (*COMMON, *rule_named(rule).uses):
            figures[kind] = given
    return figures


def asked_for(rule: str | None, private: bool, options: Mapping[str, Any]) -> str:
    """The rule that was asked for, by its name or by --private.

    >>> asked_for(None, True, {}), asked_for("neyman", False, {"--epsilon": None})
    ('private', 'neyman')
    """
    if rule is None and not private:
        raise BadValue("name a rule", hint=f"{NAMES}; see --help")
    if private and rule not in (None, "private"):
        raise BadValue("--private is a rule of its own", given=str(rule), hint="leave the other rule out; the table shows it")
    for name, value in options.items():
        if rule not in (None, "private") and value not in (None, False):
            raise BadValue(f"{name} is for --private", given=str(rule), hint="dpsurvey allocate --private ...")
    return rule or "private"


def private_options(figures: dict[str, Any], epsilon: float | None, bounds: str | None, one_total: bool) -> dict[str, Any]:
    """The guarantee: what the columns say of a stratum, and for the others what --epsilon and --bounds say."""
    width = None if bounds is None else bounds_width(bounds)
    losses = over_all("epsilon", figures, epsilon, "--epsilon NUMBER, or the column epsilon in every stratum")
    ranges = over_all("ranges", figures, width, "--bounds LOW,HIGH, or the column range in every stratum")
    return {"epsilon": losses, "ranges": ranges, "release": "total" if one_total else "strata"}


def over_all(name: str, figures: dict[str, Any], common: float | None, hint: str) -> Any:
    """Figures by stratum, filled up with one for all; taken out of `figures`."""
    own = figures.pop(name, {})
    if not own and common is None:
        raise BadValue(f"the private rule needs {name}", hint=hint)
    if not own:
        return common
    return own if common is None else dict.fromkeys(figures["sizes"], common) | own


def bounds_width(text: str) -> float:
    """The width of LOW,HIGH.

    >>> bounds_width("-10, 40")
    50.0
    """
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise BadValue("--bounds takes two numbers, LOW,HIGH", given=text, hint="--bounds 0,100") from None
    if not (math.isfinite(high - low) and low < high):
        raise BadValue("--bounds needs a lower number before a higher one", given=text, hint="--bounds 0,100")
    return high - low


def least_units(strata: Mapping[str, Mapping[str, float]], minimum: int) -> int | dict[str, int]:
    """The column min where a stratum has one, --minimum where not.

    >>> least_units({"a": {"size": 9, "min": 4}, "b": {"size": 2}}, 3), least_units({"a": {"size": 9}}, 3)
    ({'a': 4, 'b': 2}, 3)
    """
    if not any("min" in cells for cells in strata.values()):
        return minimum
    return {name: int(cells.get("min", min(minimum, cells["size"]))) for name, cells in strata.items()}


def compared(rows: list[dict[str, Any]]) -> str:
    """The table of rules as text, and what each would cost from confidential figures."""
    columns = ["rule", "total", *(["cost"] if rows[0]["cost"] is not None else []), "se_sampling", "se_noise", "se"]
    shown = rows
    if len(rows[0]["takes"]) <= MOST_TAKES:
        columns.insert(1, "takes")
        shown = [row | {"takes": " ".join(str(take) for take in row["takes"].values())} for row in rows]
    lines = [text_table(shown, columns), "", "If computed from confidential figures:"]
    return "\n".join([*lines, *(f"  {row['rule']}: {row['if_confidential']}" for row in rows)])


def drawn(rows: list[dict[str, Any]], file: Path) -> None:
    """Draw the takes of all rules side by side."""
    from ..view.allocation_plots import allocation_plot
    from ..view.design_plots import save_plot

    save_plot(allocation_plot(rows), file)


def from_plan(
    file: Path, of: str, minimum: int, one_total: bool
) -> tuple[Allocation, list[dict[str, Any]], list[dict[str, Any]]]:
    """The private allocation of a survey file, the table of rules, and the errors of the plan under each of them."""
    survey_file = SurveyFile.read(file)
    plan = survey_file.plan(survey_file.survey())
    how: dict[str, Any] = {"minimum": minimum, "release": "total" if one_total else "strata"}
    made = private_allocation(plan, of, **how)
    return made, compare_allocations(**plan_figures(plan, of, **how)), allocations(plan, of, **how)


def errors_text(errors: list[dict[str, Any]]) -> str:
    """The error of every estimate under each allocation, as text."""
    shown = [row | {"of": row["label"], "group": group_text(row["by"]) if row["by"] else ""} for row in errors]
    columns = ["allocation", "n", "statistic", "of", "group", "se_sampling", "se_noise", "se", "moe"]
    return "Errors of the plan under each allocation:\n\n" + text_table(shown, columns)
