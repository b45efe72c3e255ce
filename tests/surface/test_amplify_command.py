"""`dpsurvey amplify` for every design: its numbers, its fields, its refusals and what it says to spend."""

import itertools
import math
import re

import pytest

from dpsurvey.text.layout import floor_text
from tests.surface import amplify_runner as run

dpsurvey, answer = run.dpsurvey, run.answer
ADD, REPLACE, BOTH = run.ADD, run.REPLACE, run.BOTH
AA, AR, RR = (ADD, ADD), (ADD, REPLACE), (REPLACE, REPLACE)
TABLES = {
    "uniform.csv": "sample,probability\n0,0.2\n1,0.2\n2,0.2\n3,0.2\n4,0.2\n",
    "halves.csv": "sample,probability\n1,0.5\n2,0.5\n",
    "rare.csv": "sample,probability\n0,0.9\n4,0.1\n",
    "grows.csv": "population,sample,probability\n5,2,1\n6,3,1\n",
    "falls.csv": "population,sample,probability\n5,3,1\n6,2,1\n",
    "jumps.csv": "population,sample,probability\n5,1,1\n6,3,1\n",
    "stays.csv": "population,sample,probability\n5,2,1\n6,2,1\n",
    "sizes.txt": "2 1\n3\n",
}
DESIGNS = (
    "srs --n 2 --population 5",
    "with-replacement --n 2 --population 4",
    "poisson --rate 0.1",
    "poisson --rate 0.1,0.5",
    *(
        f"stratified --rate 0.1 --rounding {how}{size}"
        for how in ("random", "nearest", "bernoulli")
        for size in ("", " --population 14")
    ),
    "stratified --rate 0.1 --rounding nearest --population 3",
    "random-size --population 20 --binomial 0.3",
    "random-size --population 20 --gaussian 10 2",
    "random-size --population 6 --table uniform.csv",
    "cluster --sizes 2,1,3 --take 1",
    "cluster --sizes 2,1,3 --take 2 --unit-in 2",
    "cluster --cap 5 --clusters 100 --take 10",
    "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1",
    "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-take 3",
    "two-stage --clusters 20 --take 2 --cap 10 --unit-rate 0.1",
    *(
        f"pps --probabilities 0.2,0.3,0.5 --measure {measure} --method {method}"
        for measure in ("public", "confidential")
        for method in ("poisson", "conditional-poisson", "sampford", "pivotal", "pareto", "systematic")
    ),
    "allocation --table falls.csv",
    "allocation --confidential-total 10",
    "pps-cluster --sizes 5,5,5",
    "pps-cluster --sizes 2,3,4 --take 2",
    "systematic --step 3 --n 4 --order fixed",
    "systematic --step 10 --n 50 --order fixed",
    "systematic --step 10 --n 50 --order random",
    "systematic --step 1 --n 4 --order fixed",
    "collected",
)
GOLDEN = (
    ("srs --n 2 --population 5 --epsilon 0.5", RR, 0.2307056927355977),
    ("srs --n 101 --population 10001 --epsilon 0.1", RR, 0.0010615564101207845),
    ("srs --n 1 --population 1000 --epsilon 50", RR, 43.09224472101786),
    ("srs --n 1 --population 1000000 --epsilon 1e-9", RR, 1.0000000004999994e-15),
    ("srs --n 2 --population 5 --epsilon 1", AR, 1.2685301364162782),
    ("with-replacement --n 2 --population 4 --epsilon 1", RR, 0.7147480390175771),
    ("with-replacement --n 5 --population 2 --epsilon 2", RR, 7.168904152415136),
    ("with-replacement --n 100 --population 1000 --epsilon 1", RR, 0.1716807271133098),
    ("poisson --rate 0.1 --epsilon 1", AA, 0.1585650787404291),
    ("poisson --rate 0.5 --epsilon 2", AA, 1.4337808304830273),
    ("poisson --rate 0.001 --epsilon 0.01", AR, 2.0000332335641755e-05),
    ("poisson --rate 0.1,0.5 --epsilon 2", AA, 1.4337808304830273),
    ("stratified --rate 0.1 --rounding random --epsilon 1", AA, 0.5578102914354849),
    ("stratified --rate 0.1 --rounding random --epsilon 1", (BOTH, ADD), 0.2825239527513007),
    ("stratified --rate 0.01 --rounding random --epsilon 1", AA, 0.07736325066866202),
    ("stratified --rate 0.1 --rounding random --population 14 --epsilon 1", AA, 0.34370146527285955),
    ("stratified --rate 0.1 --rounding random --population 10 --epsilon 1", (BOTH, ADD), 0.2718688584483894),
    ("stratified --rate 0.1 --rounding nearest --epsilon 1", AA, 1.0),
    ("stratified --rate 0.25 --rounding nearest --population 4 --epsilon 1", AA, 0.8232149905576911),
    ("stratified --rate 0.25 --rounding bernoulli --epsilon 0.5", AA, 0.1502978251128056),
    ("random-size --population 4 --table uniform.csv --epsilon 1", AR, 1.3711812200280646),
    ("random-size --population 4 --table uniform.csv --epsilon 1", (BOTH, REPLACE), 0.7885811460621882),
    ("random-size --population 4 --table halves.csv --epsilon 1", AR, 1.107517347952348),
    ("random-size --population 4 --table rare.csv --epsilon 1", (BOTH, REPLACE), 0.7823433447171533),
    ("random-size --population 4 --binomial 0.5 --epsilon 1", (BOTH, REPLACE), 0.6201145069582775),
    ("cluster --sizes 1,1,1 --take 1 --epsilon 1", AA, 0.8553781901990763),
    ("cluster --sizes 1,1,1 --take 1 --epsilon 1", AR, 1.1409324775537748),
    ("cluster --sizes 2,1,3 --take 1 --unit-in 1 --epsilon 0.5", AA, 0.403478119749152),
    ("cluster --sizes 1,1,4,6 --take 2 --unit-in 1 --epsilon 0.5", AA, 0.4665658609736937),
    ("cluster --sizes 2,1,3,2 --take 2 --unit-in 1 --epsilon 0.3", AR, 0.42579451685214553),
    ("cluster --cap 5 --clusters 100 --take 10 --epsilon 0.1", AA, 0.022322093581898936),
    ("two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1 --epsilon 1", AA, 0.08405863617078464),
    # By take the formula is short: f = 3/10, and rho = (18/2) e^-3 for exchanging three units of another cluster.
    (
        "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-take 3 --epsilon 1",
        RR,
        math.log1p(0.3 * math.expm1(1.0) / (1.0 + 9.0 * math.exp(-2.0))),
    ),
    ("pps --probabilities 0.3,0.7 --measure public --method sampford --epsilon 1", RR, math.log1p(0.7 * math.expm1(1.0))),
    ("pps --probabilities 0.9,0.1 --measure public --method pivotal --epsilon 0.5", (BOTH, REPLACE), 0.45985805124959483),
    ("pps --probabilities 0.3,0.1 --measure public --method poisson --epsilon 1", AA, 0.4157352218436287),
    ("allocation --table grows.csv --epsilon 1", AA, 1.0),
    ("allocation --table falls.csv --epsilon 1", AA, 2.1409324775537746),
    ("allocation --table jumps.csv --epsilon 0.7", AA, 1.4),
    ("allocation --table stays.csv --epsilon 1", AA, 1.1409324775537748),
    ("pps-cluster --sizes 1,1 --unit-in 1 --epsilon 1", AA, 1.1853427995155656),
    ("pps-cluster --sizes 5,5,5 --epsilon 0.2", AA, 0.24770415387999262),
    ("systematic --step 10 --n 50 --order random --epsilon 1", RR, 0.1585650787404291),
    ("systematic --step 10 --n 50 --order random --epsilon 1", AA, 0.5578102914354849),
    ("systematic --step 3 --n 1 --order fixed --epsilon 1", AR, 1.1409324775537748),
    ("systematic --step 3 --n 4 --order fixed --epsilon 0.5", AA, 2.1957644807495336),
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "types", "value"), GOLDEN)
def test_the_json_holds_the_papers_number(line, types, value):
    given = answer(line, *types)
    # The inserted unit is settled by a linear programme, which is certified to a millionth.
    tight = 1e-6 if given["certified_by"] == "linear programme" else 1e-9
    assert given["epsilon"] == pytest.approx(value, rel=tight)
    assert given["exact"] is True
    assert given["lower"] <= given["epsilon"]
    assert given["lower"] == pytest.approx(value, rel=tight)


@pytest.mark.parametrize("design", DESIGNS)
def test_every_answer_has_every_field_of_its_type_for_all_relations(design):
    for base, neighbours in itertools.product((ADD, REPLACE, BOTH), (ADD, REPLACE)):
        given = answer(f"{design} --epsilon 1", base, neighbours)
        assert (given["base"], given["neighbours"]) == (base, neighbours)
        assert type(given["exact"]) is bool
        assert type(given["source"]) is str
        assert given["source"]
        assert all(type(each) is str for each in given["holds_when"])
        assert given["sample_leaks"] == given["epsilon_in_sample"]
        if given["refused"] is None:
            assert (type(given["epsilon"]), type(given["delta"]), type(given["epsilon_in_sample"])) == (float, float, float)
            assert 0.0 <= (given["lower"] or 0.0) <= given["epsilon"]
            assert given["scope"] in ("every population", "this population")
            assert given["holds_when"]
        else:
            assert given["refused"]
            assert given["instead"]
            assert [given[name] for name in ("epsilon", "delta", "lower", "exact", "scope")] == [None, None, None, False, None]


@pytest.mark.parametrize(
    ("design", "types", "reason"),
    [
        ("pps --probabilities 0.5,0.5 --measure confidential --method sampford", RR, "confidential"),
        ("pps --probabilities 0.5,0.5 --measure confidential --method poisson", AA, "confidential"),
        ("pps --probabilities 0.5,0.5 --measure public --method pareto", RR, "Pareto"),
        ("pps --probabilities 0.5,0.5 --measure public --method sampford", AA, "fixed-size"),
        ("pps --probabilities 0.5,0.5 --measure public --method systematic", AA, "fixed-size"),
        ("collected", AA, "decided"),
        ("collected", (REPLACE, ADD), "decided"),
        ("allocation --confidential-total 1000", (REPLACE, ADD), "confidential"),
        ("allocation --confidential-total 1000", AA, "confidential"),
        ("allocation --table grows.csv", RR, "changed value"),
        ("poisson --rate 0.1", (REPLACE, ADD), "size"),
        ("stratified --rate 0.1 --rounding random", (REPLACE, ADD), "size"),
        ("cluster --sizes 2,1,3 --take 1", (REPLACE, ADD), "size"),
        ("systematic --step 3 --n 4 --order fixed", (REPLACE, ADD), "size"),
        ("srs --n 5 --population 5", AA, "one unit less"),
        ("random-size --population 20 --binomial 0.3", AA, "one unit less"),
        ("srs --n 2 --population 5 --response-at-most 0.5", RR, "responds"),
        ("cluster --sizes 2,1,3 --take 1 --group 2 --drawn separately", AA, "this population"),
        ("pps-cluster --sizes 5,5,5,5,5,5,5,5,5 --take 2", AA, "several clusters"),
    ],
)
def test_a_refusal_is_an_answer_with_a_reason_and_a_way_out(design, types, reason):
    for more in ("", " --invert", " --delta 1e-6", " --prior 0.5", " --witness"):
        given = answer(f"{design} --epsilon 1{more}", *types)
        assert given["epsilon"] is None
        assert reason in given["refused"]
        assert len(given["instead"]) > 10
    code, out, _ = dpsurvey(f"{design} --epsilon 1 --base {types[0]} --neighbours {types[1]} --prior 0.5")
    assert code == 0
    assert out.startswith("refused: ")
    assert "instead: " in out
    assert not re.search(r"\b(nan|inf)\b", out)


@pytest.mark.parametrize(
    ("line", "types", "value"),
    [
        ("srs --n 1 --population 100 --epsilon 1", RR, 5.152297938244442),
        ("srs --n 101 --population 10001 --epsilon 0.1", RR, 2.4348409771719655),
        ("poisson --rate 0.1 --epsilon 1", AA, 2.9004770978893855),
        ("stratified --rate 0.1 --rounding random --epsilon 0.1", AA, 0.29172161567305527),
        ("stratified --rate 0.01 --rounding random --epsilon 1", AA, 2.5459235250758514),
    ],
)
def test_invert_gives_the_papers_epsilon_to_spend(line, types, value):
    given = answer(f"{line} --invert", *types)
    assert given["epsilon"] == pytest.approx(value, rel=1e-9)
    assert given["guarantee"]["epsilon"] <= given["target"]["epsilon"]
    words = dpsurvey(f"{line} --invert --base {types[0]} --neighbours {types[1]}")[1]
    assert words.startswith(f"spend epsilon {floor_text(given['epsilon'], 10)} on the sample")


@pytest.mark.parametrize("design", [each for each in DESIGNS if "--population 3" not in each])
def test_what_invert_says_to_spend_keeps_the_target_and_wastes_nothing(design):
    kept = 0
    for types in (AA, RR, (BOTH, ADD)):
        spend = answer(f"{design} --epsilon 0.7 --delta 1e-7 --invert", *types)
        if spend["refused"] is None:
            back = answer(f"{design} --epsilon {spend['epsilon']!r} --delta {spend['delta']!r}", *types)
            assert 0.7 * (1 - 1e-6) <= back["epsilon"] <= 0.7
            assert back["delta"] <= 1e-7
            kept += 1
    assert kept or "confidential" in design or "pareto" in design or design == "collected"


@pytest.mark.parametrize(
    "text", ["sample,probability\n1,0.5\n2,0.5\n", "size,p\n1,0.5\n2,0.5\n", "1,0.5\n2,0.5\n", "probability,sample\n.5,1\n.5,2\n"]
)
def test_a_table_is_read_by_its_names_or_else_by_place(folder, text):
    (folder / "own.csv").write_text(text)
    data = answer("random-size --population 4 --table own.csv --epsilon 1", *AR)
    assert data["epsilon"] == pytest.approx(1.107517347952348, rel=1e-9)
