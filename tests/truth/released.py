"""Releases of tiny frames and of their neighbours, through the engine, with everything that a reader of them gets to see."""

import itertools
import json
import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

import dpsurvey as ds
from dpsurvey.errors import NoPromise, SurveyError
from dpsurvey.privacy import all_settings

laws = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("drawn_laws.py"))))
ADD, REPLACE = "add-remove", "replace-one"
SETTINGS = {
    f"{each.protect} given {each.given}, {each.neighbours}": each for each in (*all_settings(ADD), *all_settings(REPLACE))
}
WEIGHTS = (1.0, 40.0)
PUBLIC = ["psu", "mos", "rate", "block"]
ANSWERS = {"income": 0.0, "works": "no"}
OTHER = {"income": 10.0, "works": "yes"}


def table_of(units):
    """A frame with the answers that its units would give."""
    columns = ["id", "region", *PUBLIC, *ANSWERS]
    rows = [{**each, **{name: each.get(name, value) for name, value in ANSWERS.items()}} for each in units]
    types = dict.fromkeys(("rate", "income"), "float64") | {"mos": "int64"}
    table = pd.DataFrame(rows, columns=columns).astype(types)
    text = [name for name in columns if name not in types]
    return table.astype(dict.fromkeys(text, "string"))


def statistics(kind):
    """What is asked: by default a total, a share by stratum and a number of records."""
    asked = {
        "total": (ds.total("income", bounds=(0, 10)), ds.proportion("works", "yes")),
        "mean": (ds.mean("income", bounds=(0, 10)),),
        "groups": (ds.count(by="region"), ds.mean("income", bounds=(0, 10), by="region")),
        "where": (ds.count("works", "yes", where={"region": "n"}), ds.total("income", bounds=(0, 10), where={"region": "n"})),
        "ratio": (ds.ratio("income", "mos", bounds=(0, 10), to_bounds=(1, 5)),),
        "quantile": (ds.quantile("income", 0.5, bounds=(0, 10)),),
    }
    return asked[kind]


def a_survey(case, units, setting, folder, *, epsilon=1.0, delta=0.0):
    """The survey of a case on a table of units; what is declared is declared from the case, not from the table."""
    folder.mkdir(exist_ok=True)
    table_of(units).to_parquet(folder / "register.parquet")
    frame = ds.Frame(
        "register.parquet",
        unit="id",
        size=case.frame.size,
        categories={"region": dict(case.frame.category_sizes["region"]), "works": ["yes", "no"]},
        public=PUBLIC,
    )
    weights = None if case.resolved.parts() else WEIGHTS
    budget = ds.Budget(epsilon, delta)
    return ds.Survey(frame, case.design, setting, budget=budget, ledger="books.ledger", weight_range=weights)


def neighbours_of(case, setting):
    """Tables that are neighbours of the case's own under a setting, each with its name."""
    moved = [{**each, **OTHER} for each in case.units]
    found = {}
    for place, each in enumerate(case.units):
        rest = case.units[:place] + case.units[place + 1 :]
        found[f"answers of {each['id']}"] = (*case.units[:place], moved[place], *case.units[place + 1 :])
        varies = setting.given != "frame" and setting.given != "sample"
        if varies and setting.neighbours == ADD:
            found[f"without {each['id']}"] = rest
            found[f"one more like {each['id']}"] = (*case.units, {**moved[place], "id": "x"})
        if varies and setting.neighbours == REPLACE and case.moves:
            for other in case.units:
                found[f"{each['id']} like {other['id']}"] = (*rest, {**other, **OTHER, "id": each["id"]})
    if setting.given is None and setting.neighbours == ADD:
        found["nobody but one"] = case.units[:1]
        found["nobody"] = ()
    return found


def outcome(make, folder):
    """What comes of a release: the document, the ledger and the messages, without what is random by itself."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        release = make()
        document = release.to_dict()
        assert release.recompute() == release.estimates, "every figure and note is computed from noisy sums and public constants"
        return seen(document), books()
    except NoPromise:
        raise
    except SurveyError as error:
        return f"{type(error).__name__}: {error}", books()
    finally:
        os.chdir(before)


def seen(document):
    """A document without its noise and its random names."""
    kept = json.loads(json.dumps(document))
    kept["sample"].pop("id")
    for each in kept["ledger"]["samples"]:
        each.pop("sample")
    for name in ("id", "head"):
        kept["ledger"].pop(name, None)
    for row in kept["estimates"]:
        for name in [name for name in row if name not in ("statistic", "of", "by", "label")]:
            row.pop(name)
    if "response" in kept:
        # From noisy sums: whether it stands above its noise is random too.
        kept["response"] = {name: kept["response"][name] for name in ("se_noise", "from")}
    for sums in kept["noisy_sums"]:
        sums["sums"] = [[len(row) for row in sums["sums"]]]
    return scrubbed(kept)


RANDOM = ("ledger", "release", "sample", "fingerprint", "release_hash", "commitment", "key_hash", "key_commitment")


def books():
    """The entries of the ledger, without hashes, times and random names."""
    if not Path("books.ledger").exists():
        return []
    with ds.Ledger("books.ledger") as ledger:
        entries = ledger.entries()
    kept = []
    for entry in entries:
        body = {name: value for name, value in entry["body"].items() if name not in RANDOM or entry["kind"] == "reserved"}
        body = {name: value for name, value in body.items() if name not in ("release", "sample")}
        kept.append((entry["kind"], json.dumps(scrubbed(body), sort_keys=True)))
    return kept


def scrubbed(value):
    """Without what a release keeps of itself as text or hash, and which holds its noise."""
    if isinstance(value, dict):
        return {name: scrubbed(each) for name, each in value.items() if name not in ("document", "figures", "numbers")}
    return [scrubbed(each) for each in value] if isinstance(value, list) else value


def corners(vectors, limit=4000):
    """Points at which a ratio of mixtures of Laplace noise is large: the vectors, what lies between, and far outside."""
    columns = [sorted({*column, min(column) - 10**6, max(column) + 10**6}) for column in zip(*vectors, strict=True)]
    return [*vectors, *itertools.islice(itertools.product(*columns), limit)]
