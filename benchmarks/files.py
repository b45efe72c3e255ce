"""Half widths of intervals of survey files, over those of R's package survey, at epsilon 1, 3 and 10; and at a huge epsilon.

    python benchmarks/files.py [--releases 20] [--quick] [--json] [--only nhanes yrbs] [--docs]

`files/NAME/...`: one statistic with all of epsilon, through `Survey.collected`, averaged over releases; the reference is half of
R's interval (jackknife, Student's t). Statistics with groups: the mean over the groups of that ratio, and each group in a row of
its own. `today`: over the half width that version 0.8.0 had, with the aim to halve it where small weights prevail (`wide-tail`);
where all weights are as frequent (`wide-even`) a half would be less than R's.
`files/exact/...`: at epsilon 100,000, the worst of the groups. `estimate`: the relative difference from R's. `se`: over R's; its
two standard errors, linearised and jackknife, are the ends of what is as good as R's. `width`: over R's jackknife interval.
`--docs` writes the tables of docs/guides/survey-files.md anew: the first of the releases, and the averages.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from dpsurvey.errors import SurveyError
from files_known import FILES, Case, Group, in_order, name_of, read, reference

EPSILONS, HUGE = (1.0, 3.0, 10.0), 1e5
# What the page would print: intervals at most so many times as wide as R's.
PRINTED = 1.5
COLUMNS = ("name", "value", "reference", "ratio", "aim", "ok")
PAGE = Path(__file__).parents[1] / "docs" / "guides" / "survey-files.md"
FRESH = count()
Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One statistic of one file, with its aims by epsilon; `today`: half widths of 0.8.0, to be halved at epsilon `halved`."""

    file: str
    group: Group
    aims: Mapping[float, float] = field(default_factory=dict, hash=False)
    today: Mapping[float, float] = field(default_factory=dict, hash=False)
    halved: float | None = None

    @property
    def name(self) -> str:
        """Its name in the result."""
        return f"{self.file}/{name_of(self.group)}"

    @property
    def cases(self) -> list[Case]:
        """R's answers."""
        return reference()[self.file][self.group]


def ask(file: str, kind: str, column: str, other: str = "", domain: str = "", **more: Any) -> Asked:
    """A statistic by its words."""
    return Asked(file, (kind, column, other, None, domain), **more)


ASKED = (
    ask("nhanes", "proportion", "HI_CHOL == 1", aims={1.0: 1.5, 10.0: 1.1}),
    ask("nhanes", "mean", "HI_CHOL", aims={1.0: 1.5, 10.0: 1.1}),
    ask("nhanes", "proportion", "HI_CHOL == 1", domain="agecat", aims={1.0: 4.0, 10.0: 1.3}),
    ask("nhanes2", "proportion", "highbp == 1"),
    ask("nhanes2", "proportion", "highbp == 1", domain="race", aims={1.0: 2.5, 10.0: 1.2}),
    ask("nhanes2", "mean", "zinc", aims={1.0: 2.5, 10.0: 1.1}),
    ask("yrbs", "proportion", "qn8 == 1", aims={1.0: 1.25, 10.0: 1.1}),
    ask("schools, fpc", "mean", "api", aims={1.0: 2.0, 10.0: 1.2}),
    ask("schools, fpc", "proportion", "met == 'yes'", aims={1.0: 2.0, 10.0: 1.2}),
    ask("schools, fpc", "total", "enrol"),
    ask("acs", "mean", "wages"),
    ask("acs", "proportion", "works == 'yes'"),
    ask("cps", "mean", "wages"),
    ask("cps", "proportion", "works == 'yes'"),
    ask("cps", "ratio", "wages", "hours"),
    ask("acs, replicates", "mean", "wages"),
    ask("acs, replicates", "proportion", "works == 'yes'"),
    ask("cps, replicates", "mean", "wages"),
    ask("bootstrap", "mean", "wages"),
    ask("bootstrap", "proportion", "works == 'yes'"),
    ask("wide-even", "mean", "amount", today={1.0: 1.788, 3.0: 1.221, 10.0: 1.185}),
    ask("wide-even", "proportion", "yes == 'yes'", today={1.0: 0.0417, 3.0: 0.04094, 10.0: 0.04085}),
    ask("wide-tail", "mean", "amount", today={1.0: 6.038, 3.0: 3.588, 10.0: 1.944}, halved=1.0),
    ask("wide-tail", "proportion", "yes == 'yes'", today={1.0: 0.1001, 3.0: 0.09211, 10.0: 0.09133}, halved=1.0),
)


def release(file: str, group: Group, epsilon: float, folder: Path) -> list[dict[str, Any]]:
    """The rows of one release with all of epsilon, from a survey of its own."""
    known = FILES[file]
    survey = known.survey(epsilon, folder / f"{next(FRESH) // 200}.ledger", f"run {next(FRESH)}")
    unanswered = read(known)[group[1].partition(" == ")[0]].null_count > 0
    statistic = known.statistic(group, **({"missing": "drop"} if unanswered else {}))
    return survey.plan(statistic).release().estimates


def half(row: dict[str, Any]) -> float:
    """Half of an interval; without end where it is open."""
    low, high = row["ci_low"], row["ci_high"]
    return math.inf if low is None or high is None else (float(high) - float(low)) / 2.0


def line(name: str, value: float, against: float, aim: float | None, ok: bool | None = None) -> Row:
    """One line of the result."""
    ratio = value / against
    rounded = [float(f"{each:.4g}") if math.isfinite(each) else None for each in (value, against, ratio)]
    return dict(zip(COLUMNS, (f"files/{name}", *rounded, aim, (aim is None or ratio <= aim) if ok is None else ok), strict=True))


@dataclass
class Measured:
    """What the releases of a statistic said at one epsilon: R's case, the first row, and the mean half width, by group."""

    asked: Asked
    epsilon: float
    groups: list[tuple[Case, dict[str, Any], float]]

    @property
    def ratios(self) -> list[float]:
        """Half widths over R's."""
        return [width / half_of(case) for case, _, width in self.groups]

    def rows(self) -> Iterator[Row]:
        """Lines of the result."""
        asked, epsilon = self.asked, self.epsilon
        name, aim = f"{asked.name}/epsilon {epsilon:g}", asked.aims.get(epsilon)
        if len(self.groups) == 1:
            ((case, _, width),) = self.groups
            yield line(name, width, half_of(case), aim)
        else:
            yield line(name, fmean(self.ratios), 1.0, aim)
            for case, _, width in self.groups:
                yield line(f"{name}/{case['level']}", width, half_of(case), None)
        if epsilon in asked.today:
            yield line(f"{name}/today", self.groups[0][2], asked.today[epsilon], 0.5 if epsilon == asked.halved else None)


def half_of(case: Case) -> float:
    """Half of R's interval."""
    return float(case["high"] - case["low"]) / 2.0


def measure(asked: Asked, epsilon: float, releases: int, folder: Path) -> Measured:
    """Average over several releases."""
    made = [in_order(asked.cases, release(asked.file, asked.group, epsilon, folder)) for _ in range(releases)]
    groups = [(case, row, fmean(half(each[place][1]) for each in made)) for place, (case, row) in enumerate(made[0])]
    return Measured(asked, epsilon, groups)


def exact(file: str, group: Group, folder: Path) -> list[Row]:
    """How near R's numbers are at a huge epsilon: the worst of the groups."""
    name = f"exact/{file}/{name_of(group)}"
    try:
        pairs = in_order(reference()[file][group], release(file, group, HUGE, folder))
    except SurveyError as refused:
        Console(stderr=True).print(f"{name}: {refused.what}")
        return []
    quantile = group[0] == "quantile"
    # Where weights were raked, or a size is declared, totals are the size times a mean; R's designs do not know of that.
    own_total = group[0] in ("total", "count") and "size" in FILES[file].design
    off = max(abs(row["estimate"] / case["estimate"] - 1.0) for case, row in pairs)
    found = [line(f"{name}/estimate", off, 1.0, None if quantile else 1e-3)]
    if own_total:
        return found
    bands = [(row["se_sampling"], sorted((case["se"], case.get("se_jackknife", case["se"])))) for case, row in pairs]
    ratios = [ours / min(max(ours, low), high) for ours, (low, high) in bands]
    for what, compared, aim in (
        ("se", ratios, 1.05),
        ("width", [half(row) / half_of(case) for case, row in pairs], 1.15),
    ):
        worst = max(compared, key=lambda ratio: abs(math.log(ratio)))
        aimed = None if quantile else aim
        found.append(line(f"{name}/{what}", worst, 1.0, aimed, aimed is None or 1.0 / aim <= worst <= aim))
    return found


def cell(row: dict[str, Any], digits: int) -> str:
    """An estimate and its interval."""
    low, high = (f"{row[each]:.{digits}f}" if row[each] is not None else "open" for each in ("ci_low", "ci_high"))
    return f"{row['estimate']:.{digits}f} [{low}, {high}]"


def table_of(measured: list[Measured]) -> str:
    """A table of the page: a line for each number, R's interval, ours at each epsilon, how many times as wide, what to print."""
    heads = [f"ε = {each.epsilon:g}" for each in measured]
    lines = [f"| | R | {' | '.join(heads)} | times as wide | to print |", "|---" * (len(heads) + 4) + "|"]
    for place, (case, _, _) in enumerate(measured[0].groups):
        digits = max(0, 2 - math.floor(math.log10(half_of(case))))
        theirs = f"{case['estimate']:.{digits}f} [{case['low']:.{digits}f}, {case['high']:.{digits}f}]"
        ours = [cell(each.groups[place][1], digits) for each in measured]
        times = ", ".join(f"{each.ratios[place]:.2f}" for each in measured)
        label = f"{case['domain']} {case['level']}" if "level" in case else name_of(measured[0].asked.group)
        enough = next((f"from ε = {each.epsilon:g}" for each in measured if each.ratios[place] <= PRINTED), "at more than 10")
        lines.append(f"| {label} | {theirs} | {' | '.join(ours)} | {times} | {enough} |")
    return "\n".join(lines)


def write_docs(measured: list[Measured]) -> None:
    """Put the tables between the marks of the page."""
    tables: dict[str, list[str]] = {}
    by_asked: dict[Asked, list[Measured]] = {}
    for each in measured:
        by_asked.setdefault(each.asked, []).append(each)
    page = PAGE.read_text(encoding="utf-8")
    for asked, found in by_asked.items():
        tables.setdefault(asked.file, []).append(table_of(found))
    for file, parts in tables.items():
        head, *others = parts
        # One table for a file: the lines of its other statistics below, without a second head.
        whole = "\n".join([head, *("\n".join(other.splitlines()[2:]) for other in others)])
        mark = re.compile(rf"(<!-- table {re.escape(file)} -->\n).*?(<!-- end -->)", re.S)
        page = mark.sub(lambda hit, table=whole: f"{hit[1]}{table}\n{hit[2]}", page)  # type: ignore[misc]
    PAGE.write_text(page, encoding="utf-8")


def show(rows: list[Row], as_json: bool) -> None:
    """Print them."""
    if as_json:
        print("\n".join(map(json.dumps, rows)))
        return
    table = Table(*COLUMNS)
    for each in rows:
        table.add_row(*("-" if each[key] is None else str(each[key]) for key in COLUMNS))
    Console().print(table)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument(
        "--quick", action="store_true", help="three releases at epsilon 1 and 10, fewer at the huge one: under a minute"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--only", nargs="+", choices=list(FILES), default=list(FILES), help="some of the files")
    parser.add_argument("--docs", action="store_true", help="write the tables of the page anew")
    given = parser.parse_args()
    progress, measured = Console(stderr=True), list[Measured]()
    rows: list[Row] = []
    jobs = [(asked, epsilon) for asked in ASKED if asked.file in given.only for epsilon in EPSILONS]
    jobs = [job for job in jobs if not given.quick or job[1] != 3.0]
    with tempfile.TemporaryDirectory() as folder:
        for asked, epsilon in track(jobs, description="releases", console=progress):
            measured.append(measure(asked, epsilon, 3 if given.quick else given.releases, Path(folder)))
            rows += measured[-1].rows()
        near = [(file, group) for file in given.only for group in reference()[file]]
        if given.quick:
            near = [each for each in near if any(each == (asked.file, asked.group) for asked in ASKED)]
        for file, group in track([] if given.docs else near, description="huge epsilon", console=progress):
            rows += exact(file, group, Path(folder))
    if given.docs:
        write_docs(measured)
    show(rows, given.json)


if __name__ == "__main__":
    main()
