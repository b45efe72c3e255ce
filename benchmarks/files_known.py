"""Survey files whose estimates R's package survey has computed: their columns, and what an office would declare about them.

Ranges of weights and bounds are those of the documentation of a file, rounded outward; none is taken from the rows. What the
newer keywords of `Survey.collected` would be given stands in `more`, and is passed where the package knows it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

import dpsurvey as ds
from dpsurvey.design.collected import FileKeys
from dpsurvey.statistic import Statistic
from files_made import made

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
# What this version of the package can be told of a file.
KEYWORDS = frozenset(inspect.signature(ds.Survey.collected).parameters) | FileKeys.__optional_keys__
Case = dict[str, Any]
Group = tuple[str, str, str, float | None, str]


@dataclass(frozen=True)
class File:
    """A file: its rows, the columns of its design, its public bounds and categories, and what is known of its weights."""

    title: str
    rows: Callable[[], pa.Table]
    design: Mapping[str, Any]
    categories: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def survey(self, epsilon: float, ledger: Path, name: str) -> ds.Survey:
        """A survey of the file with a budget, by all that the package knows of its design."""
        given = dict(self.design)
        if "calibrated_on" in KEYWORDS or "calibrated_on" not in self.more:
            given |= {key: value for key, value in self.more.items() if key in KEYWORDS}
        if self.categories:
            given["categories"] = dict(self.categories)
        if "weights" in given:
            given.setdefault("weights_are", "design")
        budget = ds.Budget(epsilon)
        return ds.Survey.collected(read(self), budget=budget, ledger=ledger, name=name, **given)

    def statistic(self, group: Group, **options: Any) -> Statistic:
        """What R was asked, in words of the package; missing answers are left out, in domains as R does."""
        kind, words, other, point, domain = group
        bounds = self.bounds
        column, _, value = words.partition(" == ")
        options |= {"by": domain} if domain else {}
        if kind in ("proportion", "count"):
            wanted: Any = value.strip("'") if "'" in value else int(value)
            made_by = ds.proportion if kind == "proportion" else ds.count
            return made_by(column, wanted, **options)
        if kind == "ratio":
            return ds.ratio(column, other, bounds[column], bounds[other], **options)
        if point is not None:
            return ds.quantile(column, point, bounds[column], **options)
        return (ds.mean if kind == "mean" else ds.total)(column, bounds[column], **options)


@cache
def _rows(source: Callable[[], pa.Table]) -> pa.Table:
    return source()


def read(file: File) -> pa.Table:
    """The rows of a file, read or made once."""
    return _rows(file.rows)


def golden(name: str, *beside: str) -> Callable[[], pa.Table]:
    """A file of tests/golden, with the columns of others beside its own."""

    def source() -> pa.Table:
        table = csv.read_csv(GOLDEN / name)
        for other in beside:
            more = csv.read_csv(GOLDEN / other)
            for column in more.column_names:
                table = table.append_column(column, more[column])
        return table

    return source


def from_seed(name: str) -> Callable[[], pa.Table]:
    """A made-up file."""
    return lambda: made(name)


NHANES_COLUMNS = ["agecat", "race", "RIAGENDR"]
SYNTHETIC = {"bounds": {"y": (0.0, 400.0), "x": (0.0, 200.0), "b": (0.0, 1.0)}}
PERSONS = {"wages": (0.0, 4_000.0), "hours": (0.0, 80.0)}
LABELS = {"sex": ["female", "male"], "age": ["15-24", "25-54", "55+"]}
OF_PERSONS = {"weights_are": "final", "calibrated_on": ["sex", "age"]}

FILES: dict[str, File] = {
    # The analysis guidelines of NHANES give the strata, with two or three units each, and the largest weights.
    "nhanes": File(
        "NHANES 2009-2010, high cholesterol",
        golden("nhanes0910_chol.csv"),
        {"strata": "SDMVSTRA", "psu": "SDMVPSU", "psus": 2, "weights": "WTMEC2YR", "weight_range": (4_000, 160_000)},
        {
            "SDMVSTRA": list(range(75, 90)),
            "agecat": ["(0,19]", "(19,39]", "(39,59]", "(59,Inf]"],
            "race": [1, 2, 3, 4],
            "RIAGENDR": [1, 2],
        },
        {"HI_CHOL": (0.0, 1.0)},
        {"weights_are": "final", "calibrated_on": NHANES_COLUMNS},
    ),
    # Stratum 19 of 32 is not used. Zinc in micrograms per 100 ml: outside of 40 to 250 a laboratory measures again.
    "nhanes2": File(
        "NHANES II 1976-1980, blood pressure and zinc",
        golden("nhanes2.csv.gz"),
        {"strata": "stratid", "psu": "psuid", "psus": 2, "weights": "finalwgt", "weight_range": (2_000, 80_000)},
        {"stratid": [each for each in range(1, 33) if each != 19], "race": [1, 2, 3]},
        {"zinc": (40.0, 250.0)},
        {"weights_are": "final", "calibrated_on": ["race"]},
    ),
    # Weights add up to the number of pupils who answered; their extremes are in the codebook.
    "yrbs": File(
        "YRBS 2015, bicycle helmets",
        golden("yrbs2015_helmet.csv"),
        {"strata": "stratum", "psu": "psu", "psus": 2, "weights": "weight", "weight_range": (0.04, 10.7)},
        {"stratum": [101, 102, 103, 111, 112, 113, 201, 202, 203, 211, 212, 213, 214]},
        {"qn8": (1.0, 2.0)},
        {"weights_are": "final", "calibrated_on": []},
    ),
    "schools": File(
        "15 of 757 districts with all their schools",
        from_seed("schools"),
        {"psu": "district", "psus": 15, "weights": "weight", "weight_range": (50, 51)},
        {"kind": ["elementary", "high", "middle"]},
        {"api": (200.0, 1_000.0), "enrol": (0.0, 4_000.0)},
        {"fixed": ["kind"]},
    ),
    "schools, fpc": File(
        "the same, with the number of districts",
        from_seed("schools"),
        {"psu": "district", "psus": 15, "weights": "weight", "weight_range": (50, 51), "fpc": "districts"},
        {"kind": ["elementary", "high", "middle"]},
        {"api": (200.0, 1_000.0), "enrol": (0.0, 4_000.0)},
        {"fixed": ["kind"]},
    ),
    "synth_cluster": File(
        "24 clusters",
        golden("synth_cluster.csv"),
        {"psu": "cluster", "psus": 24, "weights": "w", "weight_range": (10, 10)},
        {"dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_cluster, fpc": File(
        "24 of 240 clusters",
        golden("synth_cluster.csv"),
        {"psu": "cluster", "psus": 24, "weights": "w", "weight_range": (10, 10), "fpc": "fpc"},
        {"dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_stratcluster": File(
        "4 clusters in each of 6 strata",
        golden("synth_stratcluster.csv"),
        {"strata": "stratum", "psu": "cluster", "psus": 4, "weights": "w", "weight_range": (10, 10)},
        {"stratum": [1, 2, 3, 4, 5, 6], "dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_stratcluster, fpc": File(
        "4 of 40 clusters in each of 6 strata",
        golden("synth_stratcluster.csv"),
        {"strata": "stratum", "psu": "cluster", "psus": 4, "weights": "w", "weight_range": (10, 10), "fpc": "fpc"},
        {"stratum": [1, 2, 3, 4, 5, 6], "dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_twostage": File(
        "24 clusters, 6 units of each",
        golden("synth_twostage.csv"),
        {"psu": "cluster", "psus": 24, "weights": "w", "weight_range": (10, 140)},
        {"dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_strat": File(
        "300 units in six strata",
        golden("synth_strat.csv"),
        {"strata": "stratum", "weights": "w", "weight_range": (10, 38), "size": 6_000},
        {"stratum": [1, 2, 3, 4, 5, 6], "dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "synth_brr": File(
        "2 clusters in each of 12 strata",
        golden("synth_brr.csv"),
        {"strata": "pstratum", "psu": "cluster", "psus": 2, "weights": "w", "weight_range": (10, 10)},
        {"pstratum": list(range(1, 13)), "dom": ["a", "b", "c"]},
        **SYNTHETIC,
    ),
    "acs": File(
        "2,000 people with 80 replicate weights",
        from_seed("acs"),
        {"weights": "weight", "weight_range": (80, 820), "size": 560_000},
        LABELS | {"region": ["north", "east", "south", "west"]},
        PERSONS,
        OF_PERSONS | {"calibrated_on": ["sex", "age", "region"]},
    ),
    "cps": File(
        "2,104 people in 80 areas with 160 replicate weights",
        from_seed("cps"),
        {"strata": "stratum", "psu": "area", "psus": 2, "weights": "weight", "weight_range": (170, 3_000)},
        LABELS | {"stratum": list(range(1, 41))},
        PERSONS,
        OF_PERSONS,
    ),
    "bootstrap": File(
        "1,682 people in 60 areas with 200 bootstrap weights",
        from_seed("bootstrap"),
        {"strata": "stratum", "psu": "area", "psus": 3, "weights": "weight", "weight_range": (40, 345)},
        LABELS | {"stratum": list(range(1, 21))},
        PERSONS,
        {"fixed": ["sex", "age"]},
    ),
    "wide-even": File(
        "2,000 people with weights of 1 to 50",
        from_seed("wide-even"),
        {"weights": "weight", "weight_range": (1, 50)},
        bounds={"amount": (0.0, 100.0)},
    ),
    "wide-tail": File(
        "2,000 people with weights of 1 to 50, most of them small",
        from_seed("wide-tail"),
        {"weights": "weight", "weight_range": (1, 50)},
        bounds={"amount": (0.0, 100.0)},
    ),
}


@dataclass(frozen=True)
class Replicates:
    """The replicate weights of a file: their columns, how they were made, and the factor before the sum of squares."""

    file: str
    columns: str
    kind: str
    scale: float
    beside: str | None = None

    @property
    def known(self) -> File:
        """The file with these replicates in place of its strata and clusters."""
        file = FILES[self.file]
        design = {key: value for key, value in file.design.items() if key not in ("strata", "psu", "psus")}
        rows = golden(f"{self.file}.csv", self.beside) if self.beside else file.rows
        more = dict(file.more) | {"replicates": self.columns, "replicate_method": self.kind, "replicate_scale": self.scale}
        more |= {"fay_rho": 0.5} if self.kind == "Fay" else {}
        return replace(file, rows=rows, design=design, more={key: value for key, value in more.items() if key != "fixed"})


# 16 half samples; Fay's with 0.5 kept, which divides by (1 - 0.5) squared; each of 24 clusters left out, times (2 - 1) / 2.
REPLICATES: dict[str, Replicates] = {
    "synth_brr, brr": Replicates("synth_brr", "rw[0-9]+", "BRR", 1 / 16, "synth_brr_repweights_brr.csv.gz"),
    "synth_brr, fay05": Replicates("synth_brr", "rw[0-9]+", "Fay", 1 / (16 * 0.25), "synth_brr_repweights_fay05.csv.gz"),
    "synth_brr, jkn": Replicates("synth_brr", "rw[0-9]+", "JKn", 0.5, "synth_brr_repweights_jkn.csv.gz"),
    "acs, replicates": Replicates("acs", "wgtp[0-9]+", "SDR", 4 / 80),
    "cps, replicates": Replicates("cps", "repwt[0-9]+", "SDR", 4 / 160),
    "bootstrap, replicates": Replicates("bootstrap", "bsw[0-9]+", "bootstrap", 1 / 200),
}
if "replicates" in KEYWORDS:
    FILES |= {name: each.known for name, each in REPLICATES.items()}


@cache
def reference() -> dict[str, dict[Group, list[Case]]]:
    """R's answers by file and by what was asked, one for each domain in the order of R."""
    found: dict[str, dict[Group, list[Case]]] = {}
    for case in json.loads((GOLDEN / "survey_files.json").read_text(encoding="utf-8"))["cases"]:
        group = (case["kind"], case["y"], case.get("x", ""), case.get("q"), case.get("domain", ""))
        found.setdefault(case["file"], {}).setdefault(group, []).append(case)
    return found


def name_of(group: Group) -> str:
    """What was asked, in a word or two.

    >>> name_of(("proportion", "met == 'yes'", "", None, "kind"))
    'proportion met by kind'
    """
    kind, words, other, _, domain = group
    return " ".join([kind, words.partition(" == ")[0], *(["to", other] if other else []), *(["by", domain] if domain else [])])


def in_order(cases: list[Case], rows: list[dict[str, Any]]) -> list[tuple[Case, dict[str, Any]]]:
    """R's answers beside ours: by the label of the domain, which R sorts as text."""
    if "domain" not in cases[0]:
        return [(cases[0], rows[0])]
    ours = {str(row["by"][cases[0]["domain"]]): row for row in rows}
    return [(case, ours[case["level"]]) for case in cases]
