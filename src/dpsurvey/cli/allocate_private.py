"""What `dpsurvey allocate --private` is given and what it prints beside the allocation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..design import Allocation, compare_allocations
from ..errors import BadValue
from ..planning.allocations import allocations, plan_figures, private_allocation
from ..survey.survey_file import SurveyFile
from ..text.layout import group_text, text_table

# With more strata than this the takes are left to --json and the picture.
MOST_TAKES = 8


def asked_for(rule: str | None, private: bool, options: Mapping[str, Any]) -> str:
    """The rule that was asked for, by its name or by --private.

    >>> asked_for(None, True, {}), asked_for("neyman", False, {"--epsilon": None})
    ('private', 'neyman')
    """
    if rule is None and not private:
        raise BadValue("name a rule", hint="proportional, equal, power, neyman, cost, precision or private; see --help")
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
    """The error of every number under each allocation, as text."""
    shown = [row | {"of": row["label"], "group": group_text(row["by"]) if row["by"] else ""} for row in errors]
    columns = ["allocation", "n", "statistic", "of", "group", "se_sampling", "se_noise", "se", "moe"]
    return "Errors of the plan under each allocation:\n\n" + text_table(shown, columns)
