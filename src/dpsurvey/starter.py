"""The survey.toml that `dpsurvey init` writes: valid as it stands, every choice explained."""

from __future__ import annotations

import os
from pathlib import Path

from .engine import Engine

TEMPLATE = """\
# A survey: what is drawn from where, what is promised to whom, what is asked. Everything here is public.

[survey]
name = "{name}"
ledger = "{name}.ledger"          # what has been spent, for ever; keep it

[frame]
table = "{table}"                 # Parquet, CSV or DuckDB file{columns}
unit = "{unit}"                   # one row per unit
size = 1_000_000                  # the public number of units

# Public categories of the columns used for strata and groups; with their sizes where those are public.
[frame.categories]
region = {{ north = 600_000, south = 400_000 }}
sex = ["female", "male"]

# kind = "srs" (n or rate), "poisson" (rate), "stratified" (by, within), "with-replacement", "poisson-by", "proportional",
# "systematic", "pps", "cluster", "stages" (docs/drawing.md); columns they use go into [frame] public = ["psu"]. Where units have
# weights of their own, [survey] needs weight_range = [lowest, highest]. kind = "collected" (strata, psu, weights, fpc, n) is a
# file of records that exists already; then size and unit may be left out.
[design]
kind = "stratified"
by = "region"
within = {{ kind = "poisson", rate = 0.02 }}

# Whose data is protected: "frame" lets the secret draw amplify the promise; "sample" does not.
# Without this section the sample is protected and the frame held fixed.
[setting]
protect = "frame"
neighbours = "add-remove"         # or "replace-one", for designs of fixed size

[budget]
epsilon = 1.0                     # add delta = 1e-6 for Gaussian noise

# How much of the budget this release may spend, and how it is divided.
[release]
share = 1.0

[[statistic]]
kind = "mean"
of = "income"
bounds = [0, 250_000]             # from public knowledge, never from the data
by = ["region"]

[[statistic]]
kind = "proportion"
of = "status"
value = "unemployed"
by = ["region", "sex"]

# Also: total, count, table (by), quantile (q, bounds), ratio (of, to, bounds, to_bounds), contrast, calibrated, imputed, greg,
# clipping bounds; where = {{ sex = "female" }} asks for a part without changing the design (docs/statistics.md).
"""


def starter_file(path: Path, table: Path | None) -> str:
    """The text of a new survey.toml; with a table, its column names are listed (no row is read)."""
    columns, unit = "", "person_id"
    if table is not None:
        names = Engine(os.fspath(table)).columns
        # The first line of a CSV file without a header would be somebody's row.
        if table.suffix.lower() in (".parquet", ".pq", ".duckdb", ".db", ".ddb"):
            columns, unit = "; columns: " + ", ".join(names), names[0]
    return TEMPLATE.format(
        name=path.resolve().stem.replace('"', ""),
        table=os.path.relpath(table, path.resolve().parent) if table else "register.parquet",
        columns=columns,
        unit=unit,
    )
