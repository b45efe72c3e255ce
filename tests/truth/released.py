"""Releases of tiny frames and of their neighbours, through the engine, with everything that a reader of them gets to see.

Neighbours are compared for one and the same outcome of the noise: the noisy sums of the first release are put in place of those
of the others. What is left of a document, a ledger, a file or a message must then be the same to the letter.
"""

import json
import os
import re
from pathlib import Path

import pandas as pd

import dpsurvey as ds
from dpsurvey.design.recipe import Clusters, Every, Repeated, Simple, Sized, Strata
from dpsurvey.engine import Engine
from dpsurvey.errors import NoGuarantee, SurveyError
from dpsurvey.ledger.terms import LARGE_ENOUGH
from dpsurvey.privacy import all_settings
from tests.truth import drawn_laws as laws

ADD, REPLACE = "add-remove", "replace-one"
SETTINGS = {
    f"{each.protect} given {each.given}, {each.neighbours}": each for each in (*all_settings(ADD), *all_settings(REPLACE))
}
PUBLIC = ["psu", "mos", "rate", "block"]
ANSWERS = {"income": 0.0, "works": "no"}
OTHER = {"income": 10.0, "works": "yes"}
# A stratum, a cluster and an answer that one record alone has.
LONELY = laws.Case(
    ds.stratified("region", within={"n": ds.poisson(0.3), "s": ds.poisson(0.6)}),
    (laws.unit("a"), laws.unit("b", "s")),
    moves=True,
)
# A stratum of which everybody is taken, with the weight 1, beside one of a small rate and a large weight.
TAKE_ALL = {
    "a take-all stratum beside poisson": laws.Case(
        ds.stratified("region", within={"n": ds.poisson(0.2), "s": ds.poisson(1.0)}), laws.FOUR, moves=True
    ),
    "a take-all stratum beside srs": laws.Case(ds.stratified("region", within={"n": ds.srs(n=2), "s": ds.srs(n=1)}), laws.FIVE),
    "a large stratum beside proportional": laws.Case(
        ds.stratified("region", within={"n": ds.proportional(0.9), "s": ds.proportional(0.2)}), laws.FIVE
    ),
}
CASES = laws.CASES | {"strata of poisson, one unit in each": LONELY} | TAKE_ALL


def table_of(units):
    """A frame with the answers that its units would give."""
    columns = ["id", "region", *PUBLIC, *ANSWERS]
    rows = [{**each, **{name: each.get(name, value) for name, value in ANSWERS.items()}} for each in units]
    types = dict.fromkeys(("rate", "income"), "float64") | {"mos": "int64"}
    table = pd.DataFrame(rows, columns=columns).astype(types)
    text = [name for name in columns if name not in types]
    return table.astype(dict.fromkeys(text, "string"))


INCOME = {"of": "income", "bounds": (0, 10)}
STATISTICS = {
    "total": lambda: (ds.total(**INCOME), ds.proportion("works", "yes")),
    "total and groups": lambda: (ds.total(**INCOME), ds.count("works", "yes", by="region")),
    "mean": lambda: (ds.mean(**INCOME),),
    "count": lambda: (ds.count("works", "yes"),),
    "groups": lambda: (ds.count(by="region"), ds.mean(**INCOME, by="region")),
    "where": lambda: (ds.count("works", "yes", where={"region": "n"}), ds.total(**INCOME, where={"region": "n"})),
    "ratio": lambda: (ds.ratio("income", "mos", bounds=(0, 10), to_bounds=(1, 5)),),
    "ratio by group": lambda: (ds.ratio("income", "mos", bounds=(0, 10), to_bounds=(1, 5), by="region"),),
    "table": lambda: (ds.table("region", "works"),),
    "contrast": lambda: (ds.contrast(ds.mean(**INCOME, by="region"), "n", "s"),),
    "calibrated": lambda: (ds.calibrated(ds.mean(**INCOME), {"works": {"yes": 40, "no": 60}}),),
    "imputed": lambda: (ds.imputed(ds.mean(**INCOME), ["works"]),),
    "greg": lambda: (ds.greg(ds.mean(**INCOME), on={"mos": ((1, 5), 2.0)}),),
    "horvitz-thompson": lambda: (ds.total(**INCOME, estimator="horvitz-thompson"),),
    "quantile": lambda: (ds.quantile("income", 0.5, bounds=(0, 10), leaves=16),),
    "median by the exponential mechanism": lambda: (ds.median("income", bounds=(0, 10), method="exponential"),),
    "median by global sensitivity": lambda: (ds.median("income", bounds=(0, 10), method="laplace"),),
    "median by smooth sensitivity": lambda: (ds.median("income", bounds=(0, 10), method="smooth"),),
    "median by propose-test-release": lambda: (ds.median("income", bounds=(0, 10), method="propose-test-release", proposal=1.0),),
    "clipping bounds": lambda: (ds.clipping_bounds("income", within=(0, 1000)),),
}
NEED_DELTA = ("median by smooth sensitivity", "median by propose-test-release")


def asked_of(case):
    """Where units have weights of their own, and where clusters are few, not everything can be asked."""
    return "total" if case.resolved.parts() else "mean"


def weights_of(case):
    """The extremes of the weights of units, one over their expected number of copies; None where strata have one each."""
    if case.resolved.parts():
        return None
    weights = [1.0 / chance for chance in chances(case.law).values()]
    # The check of sizes knows of no units that are taken for certain.
    sized = [step for step in [case.resolved.recipe()] if isinstance(step, Sized)]
    rough = [sum(u["mos"] for u in case.units) / (step.take * min(u["mos"] for u in case.units)) for step in sized]
    return min(weights), max(*weights, *rough)


def chances(law):
    """The expected number of copies of each unit in a sample."""
    found = {}
    for sample, p in law.items():
        for name in sample:
            found[name] = found.get(name, 0.0) + p
    return found


def a_survey(case, units, setting, folder, *, epsilon=1.0, delta=0.0, weights=(1.0, 40.0)):
    """The survey of a case on a table of units; what is declared is declared from the case, not from the table."""
    folder.mkdir(exist_ok=True, parents=True)
    table_of(units).to_parquet(folder / "register.parquet")
    frame = ds.Frame(
        "register.parquet",
        unit="id",
        size=case.frame.size,
        categories={"region": dict(case.frame.category_sizes["region"]), "works": ["yes", "no"]},
        public=PUBLIC,
        size_at_least=case.at_least,
    )
    weights = None if case.resolved.parts() else weights
    return ds.Survey(frame, case.design, setting, budget=ds.Budget(epsilon, delta), ledger="books.ledger", weight_range=weights)


def neighbours_of(case, setting):
    """Tables that are neighbours of the case's own under a setting, each with its name."""
    moved = [{**each, **OTHER} for each in case.units]
    free = setting.given not in ("frame", "sample")
    # Where a later phase is protected and the frame is free, or the population is, frames differ by more than a replaced record.
    counts_vary = free and (setting.neighbours == ADD or setting.protect != "frame")
    found = {}
    for place, each in enumerate(case.units):
        rest = case.units[:place] + case.units[place + 1 :]
        found[f"answers of {each['id']}"] = (*case.units[:place], moved[place], *case.units[place + 1 :])
        if counts_vary:
            found[f"without {each['id']}"] = rest
            found[f"one more like {each['id']}"] = (*case.units, {**moved[place], "id": "x"})
        if free and setting.neighbours == REPLACE and not case.resolved.relation_name(setting):
            for other in case.units:
                if other is not each:
                    found[f"{each['id']} like {other['id']}"] = (*rest, {**other, **OTHER, "id": each["id"]})
    if counts_vary:
        found["one more in a cluster of its own"] = (*case.units, {**moved[0], "psu": "alone", "id": "x"})
    if free and setting.neighbours == ADD:
        found["nobody but one"] = case.units[:1]
        found["nobody"] = ()
    return found


def long_enough(step, units):
    """Whether every list that a fixed number is drawn from holds as many."""
    if isinstance(step, Strata):
        labels = step.inside if isinstance(step.inside, dict) else {each[step.strata] for each in units}
        return all(long_enough(laws.step_of(step, label), [u for u in units if u[step.strata] == label]) for label in labels)
    if isinstance(step, Clusters):
        members = {}
        for each in units:
            members.setdefault(each[step.cluster], []).append(each)
        inside = step.inside is None or all(long_enough(step.inside, found) for found in members.values())
        return long_enough(step.how, list(members)) and inside
    if isinstance(step, Simple | Sized):
        return step.take <= len(units)
    if isinstance(step, Repeated):
        return bool(units)
    return not (isinstance(step, Every) and not step.by_share and step.amount_taken > len(units))


def couple(monkeypatch):
    """From now on the noise comes out such that every release of one query publishes the same figures as the first."""
    first, honest = {}, Engine.answered

    def answered(engine, query, answer):
        return first.setdefault(repr((query, getattr(answer, "__self__", None))), honest(engine, query, answer))

    monkeypatch.setattr(Engine, "answered", answered)


def released(case, setting, units, folder, kind, weights=(1.0, 40.0)):
    """What comes of a release: the document and the ledger, or the refusal and the ledger. Plans are refused by exceptions."""
    delta = 1e-6 if kind in NEED_DELTA else 0.0
    survey = a_survey(case, units, setting, folder, delta=delta, weights=weights)
    plan = survey.plan(*STATISTICS[kind]())
    return outcome(lambda: survey.release(plan), folder)


def differences(case, setting, folder, kind, chosen=None):
    """What tells a case from its neighbours under a setting: their names, with what came of them.

    A neighbour from which a fixed number cannot be drawn is refused, where the guarantee says so.
    """
    own = released(case, setting, case.units, folder / "own", kind)
    if not isinstance(own[0], dict):
        return [("own", own[0])]
    found = []
    for number, (what, units) in enumerate(neighbours_of(case, setting).items()):
        if chosen is not None and not chosen(what):
            continue
        other = released(case, setting, units, folder / str(number), kind)
        excepted = LARGE_ENOUGH in own[0]["guarantee"]["holds_when"] and not long_enough(case.resolved.recipe(), units)
        if other != own and not (excepted and isinstance(other[0], str)):
            found.append((what, other[0]))
    return found


def outcome(make, folder):
    """What comes of a release: the document, the ledger and the messages, without what is random by itself."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        release = make()
        document = release.to_dict()
        assert release.recompute() == release.estimates, "every figure and note is computed from noisy sums and public constants"
        return json.loads(masked(json.dumps(document))), books()
    except NoGuarantee:
        raise
    except SurveyError as error:
        return f"{type(error).__name__}: {error}", books()
    finally:
        os.chdir(before)


def books():
    """The entries of the ledger, without hashes, times and random names."""
    if not Path("books.ledger").exists():
        return []
    with ds.Ledger("books.ledger") as ledger:
        return [masked(json.dumps(entry, sort_keys=True)) for entry in ledger.entries()]


LONG = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|(?<![.\d])\b[0-9a-f]{16}\b")
TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00)?")


def masked(text, known=()):
    """A text without ids, hashes and times; `known` are ids and hashes of which it may show the beginning."""
    short = {each[:length] for each in known for length in (8, 12)}
    found = TIMES.sub("(time)", LONG.sub("(random)", text))
    return re.sub(r"\b(" + "|".join(sorted(short, key=len, reverse=True)) + r")\b", "(random)", found) if short else found
