"""What every design, statistic and mechanism must keep, whoever wrote it: one function for each kind of thing.

`test_contracts.py` calls them for everything on the lists, `test_additions_from_outside.py` for three toys that are no part of
the package.
"""

import json
import math
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey as ds
from dpsurvey.design import DESIGNS, design_from_dict
from dpsurvey.engine.source import PI
from dpsurvey.engine.sums import sum_rows
from dpsurvey.errors import BadValue
from dpsurvey.loss.bound import Losses, Refused
from dpsurvey.loss.worst_case import worst_loss
from dpsurvey.mechanism import MECHANISMS
from dpsurvey.privacy.budget import amount
from dpsurvey.statistic import STATISTICS, columns_asked, statistic_from_dict
from dpsurvey.statistic.encodings import ENCODINGS
from dpsurvey.statistic.facts import Facts
from tests.truth.neighbouring import distances, in_duckdb

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DRAWS, LOWEST = 4000, 4.9  # A right mean is off by more than 4.9 standard errors with probability below 1e-6.
NEIGHBOURS = ("add-remove", "replace-one")
FRAME = ds.Frame("frame", unit="id", size=2000, categories={"region": {"north": 1200, "south": 800}, "sex": ["female", "male"]})


def check_design(design):
    """A design is written and read back, its loss grows with epsilon and is never below a true worst case."""
    kind = DESIGNS[design.kind]
    assert len(kind.summary) > 20
    written = json.loads(json.dumps(design.to_dict()))
    assert design_from_dict(written).to_dict() == design.to_dict()
    assert set(written) - {"kind"} <= set(kind.known)
    for name in (name for name, figure in written.items() if type(figure) in (int, float)):
        with pytest.raises(BadValue):
            design_from_dict(written | {name: math.nan})
    assert 0.0 < design.largest_probability <= 1.0
    shown = 0
    for neighbours in NEIGHBOURS:
        for base in ("add-remove", "replace-one", "both"):
            found = [design.bound(Losses.of(epsilon, base), neighbours) for epsilon in EPSILONS]
            assert len({type(each) for each in found}) == 1, "a refusal does not hang on epsilon"
            if isinstance(found[0], Refused):
                assert all(each.reason and each.instead for each in found)
                continue
            shown += 1
            uppers = [each.upper for each in found]
            assert uppers == sorted(uppers)
            assert all(each.lower is None or each.lower <= each.upper for each in found)
            assert all(each.holds_when and each.source for each in found)
            for contest in design.contests(neighbours):
                if contest.is_small:
                    assert worst_loss(contest, EPSILONS[1], base).lower <= found[1].upper * (1.0 + 1e-9)
            answer = ds.amplify(design, 1.0, base=base, neighbours=neighbours)
            assert answer.epsilon == found[2].upper
            assert answer.refused is None
    return shown


def example_of(kind):
    """The statistic that its kind gives as an example."""
    return statistic_from_dict(tomllib.loads("statistic = " + STATISTICS[kind].example)["statistic"])


def check_statistic(statistic, facts):
    """A statistic is written and read back, asks for sums on the list of encodings, and finds what it expects."""
    kind = STATISTICS[next(name for name, each in STATISTICS.items() if each.section == statistic.kind)]
    assert len(kind.summary) > 20
    assert statistic_from_dict(json.loads(json.dumps(statistic.to_dict()))) == statistic
    assert statistic.name
    assert statistic.prediction_rests_on
    query = statistic.query(facts)
    assert isinstance(query.encoding, ENCODINGS[query.encoding.name])
    assert len(statistic.published(query)) >= 1
    for norm in ("L1", "L2"):
        if query.encoding.name in ("histogram", "window"):
            continue
        one, other = (query.sensitivity(relation, norm) for relation in NEIGHBOURS)
        assert one > 0.0
        assert 0.0 < other <= 2.0 * max(one, query.steps) + 2.0 * query.components
        sums = sums_of_single_records(query)
        assert distances(0 * sums[:1], sums, norm).max() <= one
        assert distances(sums, sums, norm).max() <= other
    return query


def sums_of_single_records(query, records=40):
    """What each of some records adds to the sums of a query, as the engine sums them."""
    rows = rows_for([query], records) | {"world": [f"w{number}" for number in range(records)], PI: np.zeros(records)}
    apart = replace(query, by=("world", *query.by), categories=(tuple(rows["world"]), *query.categories))
    return sum_rows(in_duckdb(pa.table(rows)), apart).values.reshape(records, -1)


def rows_for(queries, count):
    """Rows with every column that some queries ask for: numbers around their bounds, and the labels of the small frame."""
    random, asked = np.random.default_rng(3), columns_asked(queries)
    highest = max((max(map(abs, query.bounds)) for query in queries if query.bounds), default=100.0)
    rows = {column: random.uniform(-0.5, 1.5, count) * highest for column in asked.measured}
    for column in (*asked.labelled, *asked.grouping):
        labels = FRAME.categories.get(column) or (*asked.wanted.get(column, ()), "another")
        rows[column] = random.choice(labels, count)
    return rows


def check_release(statistic, folder):
    """A statistic is planned and released, written and read back, and computed again from its noisy sums."""
    size, about = 300, {"budget": ds.Budget(50.0), "ledger": folder / "books.ledger", "categories": FRAME.categories}
    rows = rows_for([statistic.query(facts_of(ds.poisson(0.1)))], size)
    survey = ds.Survey.collected(pa.table(rows), size=8_900_000, **about)
    plan = survey.plan(statistic)
    release = plan.release()
    assert len(release.estimates) == len(plan.predictions) >= 1
    assert [row["by"] for row in release.estimates] == [row["by"] for row in plan.predictions]
    saved = ds.Release.load(release.save(folder / "release.json"))
    assert saved.document == release.document
    assert saved.recompute() == release.estimates


def check_mechanism(kind):
    """A mechanism keeps the charge that it is calibrated to, and its noise has the law that it states."""
    assert MECHANISMS[kind.kind] is kind
    of = kind.measure.profile
    for charge in (0.05, 0.5, 3.0):
        mechanism = kind.calibrate(of(charge, "add-remove"), 7.0)
        assert amount(mechanism.profile("add-remove")) <= charge * (1.0 + 1e-9)
        assert amount(mechanism.profile("add-remove")) > 0.1 * charge, "no use is made of the charge"
    mechanism = kind.calibrate(of(0.5, "add-remove"), 7.0)
    noise = np.array(mechanism.randomize([1000] * DRAWS), dtype=float) - 1000.0
    assert abs(noise.mean()) < LOWEST * math.sqrt(mechanism.variance / DRAWS)
    # The square of the noise has variance (kurtosis + 2) times that of the noise squared.
    doubt = math.sqrt((mechanism.kurtosis + 2.0) / DRAWS)
    assert abs((noise**2).mean() / mechanism.variance - 1.0) < LOWEST * doubt * 1.5
    simulated = mechanism.simulated(np.random.default_rng(1), (DRAWS,), 3.0)
    assert abs((simulated**2).mean() / (3.0 * mechanism.variance) - 1.0) < LOWEST * doubt * 1.5
    if kind.exact_tails:
        gaps = np.arange(-20.0, 21.0)
        seen = (noise[:, None] >= gaps).mean(axis=0)
        stated = mechanism.reaches(gaps)
        assert np.all(np.abs(seen - stated) <= LOWEST * np.sqrt(np.maximum(stated * (1.0 - stated), 1e-4) / DRAWS))


def facts_of(design, relation="add-remove"):
    """Public facts of a small frame."""
    return Facts(FRAME, design.resolve(FRAME), relation, "L1")
