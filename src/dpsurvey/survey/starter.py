"""The survey.toml that `dpsurvey init` writes: valid as it stands, every choice explained."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..design import DESIGNS
from ..statistic import STATISTICS
from ..statistic.registry import StatisticKind

TEMPLATE = """\
# A survey: what is drawn from where, what is guaranteed to whom, what is asked. Everything here is public.
# Sizes, labels, bounds and the columns region, sex, income and status are examples: put in your own.

[survey]
name = {name}
ledger = {ledger}          # what has been spent; keep it

[frame]
table = {table}                 # Parquet, CSV or DuckDB file{columns}
unit = {unit}                   # one row per unit
size = 1_000_000                  # the public number of units
#population = "persons"           # whose data this is, for the budgets of an agency
#size_at_least = 990_000          # fewer units than this no possible frame has: srs then amplifies under add-remove

# Public categories of the columns used for strata and groups; with their sizes where those are public.
[frame.categories]
region = {{ north = 600_000, south = 400_000 }}
sex = ["female", "male"]

# The kinds of design, each with the keys that it takes (docs/guides/drawing.md):
{designs}
# Columns that a design uses go into [frame] public = ["psu"]. Where units have weights of their own, [survey] needs
# weight_range = [lowest, highest]. With kind = "collected" the table is a file of records that exists already, and size and
# unit may be left out.
[design]
kind = "stratified"
by = "region"
within = {{ kind = "poisson", rate = 0.02 }}

# Whose data is protected: "frame" lets the secret draw amplify the guarantee; "sample" does not.
# Without this section the sample is protected and the frame held fixed.
[setting]
protect = "frame"
neighbours = "add-remove"         # or "replace-one", for designs of fixed size

[budget]
epsilon = 1.0                     # add delta = 1e-6 for Gaussian noise

# How much of the budget this release may spend, and how it is divided.
[release]
share = 1.0

# What collecting is expected to bring and to cost, for dpsurvey plan and dpsurvey rate (docs/guides/planning.md):
# [fieldwork]
# response = 0.6
# cost = 40
# budget = 50_000

[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 250_000]             # from public knowledge, never from the data
by = ["region"]
# expect = [21_000, 18_000]       # a published mean and sd sharpen the plan; source = "..." says where they were published

[[statistic]]
kind = "proportion"
of = "status"
value = "unemployed"
by = ["region", "sex"]

# The kinds of statistic, each with its first keys (docs/guides/statistics.md); where = {{ sex = "female" }} asks for a part
# without changing the design.
{statistics}
"""


COLLECTED = """\
# A file that was collected already: how it was drawn, what is guaranteed, what is asked. Everything here is public.
# Examples are behind a "#" without a space: take away the "#" and put in your own columns and public figures.

[survey]
name = {name}
ledger = {ledger}                 # what has been spent; keep it
#weight_range = [1, 400]          # the public extremes of the weights; weights need it

[frame]
table = {table}                   # Parquet, CSV or DuckDB file{columns}
size = 8_900_000                  # the public number of people it stands for; totals, counts and tables need it
#unit = {unit}                    # a file that has a unit twice is then refused

# Public categories of the columns used for strata, groups, cells and margins.
[frame.categories]
region = ["north", "south"]
sex = ["female", "male"]

# Further: fpc = "column of population sizes", n = 4_000 (public number of records, where there are no weights); for
# cluster samples psu = "column of clusters", psus = 24 (their public number, the smallest of any stratum), without calibrated,
# imputed and greg.
[design]
kind = "collected"
#weights = "weight"               # weights need a weight_range above, and the next line
#weights_are = "design"           # or "final", with calibrated_on = ["sex", "age"] (docs/designs/collected.md)
#strata = "region"                # one of the columns above

[budget]
epsilon = 1.0                     # add delta = 1e-6 for Gaussian noise

# How much of the budget this release may spend; weights = [2, 1, ...] divides it among the statistics.
[release]
share = 1.0

# One of every kind. Bounds come from public knowledge, never from the data. Most take by = [...] and
# where = {{ sex = "female", age = {{ from = 15, to = 74 }} }} (docs/guides/statistics.md).

{statistics}
"""
NO_HEADER = "; its first line does not look like column names, so none are listed here"


def _designs() -> str:
    """Every kind of design that a survey draws by, with its keys; sizes come from the frame."""
    kinds = [each for each in DESIGNS.values() if each.drawn]
    return _listed({each.kind: [key for key in each.known if key != "size" or key in each.needed] for each in kinds})


def _kinds_of_statistics() -> str:
    """Every kind of statistic, with the keys of its example."""
    return _listed({each.name: list(_example(each)) for each in STATISTICS.values()})


def _examples() -> str:
    """An example of every kind of statistic; all but the first are behind a sign of comment."""
    blocks: list[str] = []
    for each in STATISTICS.values():
        fields = {"kind": each.name} | _example(each)
        lines = ["[[statistic]]", *(f"{key} = {_toml(value)}" for key, value in fields.items())]
        blocks.append("\n".join([f"# {each.summary}", *(f"#{line}" if blocks else line for line in lines)]))
    return "\n\n".join(blocks)


def _example(statistic: StatisticKind) -> dict[str, Any]:
    fields = tomllib.loads(f"example = {statistic.example}")["example"]
    return {key: value for key, value in fields.items() if key != "kind"}


def _listed(kinds: Mapping[str, Sequence[str]]) -> str:
    """One line of comment for each kind, with its keys."""
    width = max(len(kind) for kind in kinds)
    return "\n".join(f"#   {kind:<{width}}  {', '.join(keys)}".rstrip() for kind, keys in kinds.items())


def _toml(value: Any) -> str:
    """A value as TOML has it in one line, long whole numbers with their thousands apart."""
    match value:
        case str() | bool():
            return json.dumps(value, ensure_ascii=False)
        case int() if abs(value) >= 10_000:
            return f"{value:_}"
        case float() if float(f"{value:g}") == value:
            return f"{value:g}"
        case list():
            return f"[{', '.join(_toml(each) for each in value)}]"
        case dict():
            return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}"
    return str(value)


def starter_file(path: Path, table: Path | None, *, collected: bool = False) -> str:
    """The text of a new survey.toml; with a table, its column names are listed (no row is read)."""
    listed, unit, template = "", "person_id", COLLECTED if collected else TEMPLATE
    if table is not None:
        from ..engine import Engine

        names = Engine(os.fspath(table)).columns
        # The first line of a CSV file without a header would be somebody's row.
        if table.suffix.lower() in (".parquet", ".pq", ".duckdb", ".db", ".ddb", ".arrow", ".ipc", ".feather") or _header(names):
            listed, unit = "; columns: " + " ".join(", ".join(names).split()), names[0]
        else:
            listed = NO_HEADER
    name, folder = path.resolve().stem, path.resolve().parent
    missing = "answers.parquet" if collected else "register.parquet"
    return template.format(
        name=_quoted(name),
        ledger=_quoted(f"{name}.ledger"),
        table=_quoted(os.path.relpath(table, folder) if table else missing),
        columns=listed,
        unit=_quoted(unit),
        designs=_designs(),
        statistics=_examples() if collected else _kinds_of_statistics(),
    )


def _header(names: list[str]) -> bool:
    """Whether the first line of a text file is names: different ones, each with a letter, and none a number or a date."""
    return len(set(names)) == len(names) and all(re.search(r"[^\W\d_]", each) and not _is_number(each) for each in names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(text: str) -> str:
    """A text of TOML."""
    return json.dumps(text, ensure_ascii=False)
