"""`dpsurvey amplify` with wrong, odd and extreme input: exit 2 and the option's name, or a finite answer; never a traceback."""

import json
import math
import re
import subprocess
import sys

import pytest

from tests.surface import amplify_runner as run

ADD, REPLACE, BOTH = run.ADD, run.REPLACE, run.BOTH
TAIL = "--epsilon 1 --base add-remove --neighbours add-remove"
FILES = {
    "short.csv": b"sample,probability\n0,0.2\n1,0.2\n",
    "beyond.csv": b"sample,probability\n0,0.2\n9,0.8\n",
    "negative.csv": b"sample,probability\n1,-0.2\n2,1.2\n",
    "nan.csv": b"sample,probability\n1,nan\n2,1\n",
    "half.csv": b"sample,probability\n1.5,0.5\n2,0.5\n",
    "names.csv": b"sample,prob,why\n1,1,so\n",
    "semicolons.csv": b"sample;probability\n1;1\n",
    "nothing.csv": b"",
    "headed.csv": b"sample,probability\n",
    "ragged.csv": b"sample,probability\n2\n",
    "binary.csv": b"\xff\xfe\x00bad",
    "gap.csv": b"population,sample,probability\n5,2,1\n7,3,1\n",
    "more.csv": b"population,sample,probability\n5,2,1\n6,7,1\n",
    "sum.csv": b"population,sample,probability\n5,2,.5\n6,3,1\n",
    "letters.csv": b"population,sample,probability\n5,2,abc\n6,3,1\n",
    "rule.csv": b"population,sample,probability\n5,2,1\n6,3,1\n",
    "empty.csv": b"population,sample,probability\n5,0,1\n6,0,1\n",
    "wide.csv": b"population,sample,probability\n1000,0,1\n1001,900,1\n",
    "bom.csv": b"\xef\xbb\xbfsample,probability\n2,1\n",
}
# The command without what is common to all, the option that must be named, and a part of the range or way out.
WRONG = (
    ("srs --n 10 --population 5", "n", "at most 5"),
    ("srs --n 0 --population 5", "n", "at least 1"),
    ("srs --n 2 --population 0", "population", "at least 1"),
    ("srs --n 2.5 --population 5", "n", "integer"),
    ("srs --n 1,000 --population 50,000", "n", "integer"),
    ("srs --n 2", "population", "Missing"),
    ("srs --rate 0.1", "rate", "No such option"),
    ("with-replacement --n 0 --population 5", "n", "at least 1"),
    ("with-replacement --n 3 --population -5", "population", "at least 1"),
    ("poisson --rate 0", "rate", "(0, 1]"),
    ("poisson --rate 1.5", "rate", "(0, 1]"),
    ("poisson --rate -0.1", "rate", "(0, 1]"),
    ("poisson --rate nan", "rate", "(0, 1]"),
    ("poisson --rate inf", "rate", "(0, 1]"),
    ("poisson --rate 0,1", "rate", "(0, 1]"),
    ("poisson --rate 10%", "rate", "numbers"),
    ("poisson --rate 1/10", "rate", "numbers"),
    ("poisson --rate ''", "rate", ""),
    ("poisson 0.1", "rate", "Missing"),
    ("stratified --rate 0 --rounding random", "rate", "(0, 1]"),
    ("stratified --rate 0.1", "rounding", "Missing"),
    ("stratified --rate 0.1 --rounding up", "rounding", "nearest"),
    ("stratified --rate 0.1 --rounding random --population 0", "population", "at least 1"),
    ("random-size --population 20", "binomial", "--gaussian"),
    ("random-size --population 20 --binomial 0.1 --gaussian 3 1", "binomial", "--gaussian"),
    ("random-size --population 20 --binomial 0", "binomial", "(0, 1]"),
    ("random-size --population 20 --gaussian 3 0", "gaussian", "above 0"),
    ("random-size --population 20 --gaussian nan 1", "gaussian", "finite"),
    ("random-size --population 20 --gaussian 3", "gaussian", ""),
    ("random-size --population 20 --gaussian 10,2", "gaussian", ""),
    ("random-size --population 0 --binomial 0.5", "population", "at least 1"),
    ("random-size --population 4 --table nowhere.csv", "table", "sample, probability"),
    ("random-size --population 4 --table short.csv", "probabilities", "sum to 1"),
    ("random-size --population 4 --table beyond.csv", "size", "from 0 to the population"),
    ("random-size --population 4 --table negative.csv", "probability", "[0, 1]"),
    ("random-size --population 4 --table nan.csv", "probability", "[0, 1]"),
    ("random-size --population 4 --table half.csv", "table", "sample whole"),
    ("random-size --population 4 --table names.csv", "table", "sample, probability"),
    ("random-size --population 4 --table semicolons.csv", "table", "sample, probability"),
    ("random-size --population 4 --table nothing.csv", "table", "sample, probability"),
    ("random-size --population 4 --table headed.csv", "probabilities", "sum to 1"),
    ("random-size --population 4 --table ragged.csv", "table", "sample whole"),
    ("random-size --population 4 --table binary.csv", "table", ""),
    ("random-size --population 4 --table .", "table", ""),
    ("allocation", "table", "--confidential-total"),
    ("allocation --table rule.csv --confidential-total 3", "table", "--confidential-total"),
    ("allocation --confidential-total 0", "confidential-total", "at least 1"),
    ("allocation --table gap.csv", "table", "differ by one"),
    ("allocation --table more.csv", "sample", "at most 6"),
    ("allocation --table sum.csv", "probabilities", "sum to 1"),
    ("allocation --table letters.csv", "table", "not a number"),
    ("allocation --table binary.csv", "table", ""),
    ("cluster --take 1", "sizes", "--cap"),
    ("cluster --sizes 1,2,3", "take", "Missing"),
    ("cluster --sizes 1,2,3 --take 4", "take", "at most 3"),
    ("cluster --sizes 1,2,3 --take 0", "take", "at least 1"),
    ("cluster --sizes 1,0,3 --take 1", "sizes", "at least 1"),
    ("cluster --sizes 1,-2,3 --take 1", "sizes", "at least 1"),
    ("cluster --sizes 1,2.5,3 --take 1", "sizes", "whole numbers"),
    ("cluster --sizes 1,x,3 --take 1", "sizes", "whole numbers"),
    ("cluster --sizes '1;2;3' --take 1", "sizes", "whole numbers"),
    ("cluster --sizes '' --take 1", "sizes", "at least one"),
    ("cluster --sizes nowhere.txt --take 1", "sizes", "whole numbers"),
    ("cluster --sizes binary.csv --take 1", "sizes", ""),
    ("cluster --sizes 1,2,3 --take 1 --unit-in 0", "unit-in", "at most 3"),
    ("cluster --sizes 1,2,3 --take 1 --unit-in 4", "unit-in", "at most 3"),
    ("cluster --sizes 1,2,3 --take 1 --cap 5", "sizes", "--cap"),
    ("cluster --cap 5 --take 1", "clusters", "--cap"),
    ("cluster --cap 0 --clusters 5 --take 1", "cap", "at least 1"),
    ("cluster --cap 5 --clusters 0 --take 1", "clusters", "at least 1"),
    ("cluster --cap 5 --clusters 3 --take 4", "take", "at most 3"),
    ("two-stage --clusters 20 --take 2 --cluster-size 10", "unit-rate", "unit-take"),
    ("two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0.1 --unit-take 2", "unit-rate", "unit-take"),
    ("two-stage --clusters 20 --take 2 --unit-rate 0.1", "cluster-size", ""),
    ("two-stage --clusters 0 --take 2 --cluster-size 10 --unit-rate 0.1", "clusters", "at least 1"),
    ("two-stage --clusters 20 --take 21 --cluster-size 10 --unit-rate 0.1", "take", "at most 20"),
    ("two-stage --clusters 20 --take 2 --cluster-size 0 --unit-rate 0.1", "cluster-size", "at least 1"),
    ("two-stage --clusters 20 --take 2 --cap 0 --unit-rate 0.1", "cap", "at least 1"),
    ("two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 0", "unit-rate", "(0, 1]"),
    ("two-stage --clusters 20 --take 2 --cluster-size 10 --unit-take 11", "unit-take", "at most 10"),
    ("two-stage --clusters 20 --take 2 --cap 10 --unit-take 3", "cap", "smaller"),
    ("two-stage --sizes 1,2,3 --take 2 --unit-rate 0.1", "sizes", "No such option"),
    ("pps --probabilities 0.2,0.3,0.4 --measure public --method sampford", "probabilities", "sum to a whole number"),
    ("pps --probabilities 0.2,0.3,1.5 --measure public --method sampford", "probabilities", "(0, 1]"),
    ("pps --probabilities 0,0.5,0.5 --measure public --method sampford", "probabilities", "(0, 1]"),
    ("pps --probabilities nan,0.5,0.5 --measure public --method sampford", "probabilities", "(0, 1]"),
    ("pps --probabilities 20%,30%,50% --measure public --method sampford", "probabilities", "numbers"),
    ("pps --probabilities 0.5,0.5 --measure secret --method sampford", "measure", "public or confidential"),
    ("pps --probabilities 0.5,0.5 --measure public --method samford", "method", "'sampford'"),
    ("pps --probabilities 0.5,0.5 --method sampford", "measure", "Missing"),
    ("pps-cluster --sizes 5,0", "sizes", "at least 1"),
    ("pps-cluster --sizes 5,5 --unit-in 3", "unit-in", "at most 2"),
    ("pps-cluster --sizes 5,5 --take 3", "take", "at most 2"),
    ("systematic --step 0 --n 5 --order fixed", "step", "at least 1"),
    ("systematic --step 10 --n 0 --order fixed", "n", "at least 1"),
    ("systematic --step 10 --n 5 --order sorted", "order", "random or fixed"),
    ("systematic --step 10 --n 5", "order", "Missing"),
    ("poisson --rate 0.1 --delta 1", "delta", "[0, 1)"),
    ("poisson --rate 0.1 --delta -1", "delta", "[0, 1)"),
    ("poisson --rate 0.1 --delta nan", "delta", "[0, 1)"),
    ("poisson --rate 0.1 --prior 0", "prior", "(0, 1)"),
    ("poisson --rate 0.1 --prior nan", "prior", "(0, 1)"),
    ("poisson --rate 0.1 --prior 50%", "prior", "number"),
    ("poisson --rate 0.1 --group 0 --drawn separately", "group", "at least 1"),
    ("poisson --rate 0.1 --group 2", "drawn", "together"),
    ("poisson --rate 0.1 --delta 1e-6 --prior 0.1", "prior", "delta 0"),
    ("poisson --rate 0.1 --response-at-most 0", "response-at-most", "(0, 1]"),
    ("poisson --rate 0.1 --response-at-most nan", "response-at-most", "(0, 1]"),
    ("poisson --rate 0.1 --coverage-at-most 1.2", "coverage-at-most", "(0, 1]"),
)
WHOLE = (
    ("poisson --rate 0.1 --base add-remove --neighbours add-remove", "epsilon", "Missing"),
    ("poisson --rate 0.1 --epsilon 1 --neighbours add-remove", "base", "Missing"),
    ("poisson --rate 0.1 --epsilon 1 --base add-remove", "neighbours", "Missing"),
    ("poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours both", "neighbours", "'replace-one'"),
    ("poisson --rate 0.1 --epsilon 1 --base add-remove --neighbours replace", "neighbours", "'replace-one'"),
    ("poisson --rate 0.1 --epsilon 1 --base add_remove --neighbours add-remove", "base", "'both'"),
    ("poisson --rate 0.1 --epsilon 1 --base add-remove --neighbors add-remove", "neighbours", "No such option"),
    *(
        (f"poisson --rate 0.1 --epsilon {e} --base both --neighbours add-remove", "epsilon", "above 0")
        for e in ("0", "-1", "nan", "inf")
    ),
    ("poisson --rate 0.1 --epsilon 1,5 --base both --neighbours add-remove", "epsilon", "number"),
    ("poison --rate 0.1 --epsilon 1 --base both --neighbours add-remove", "poison", "poisson"),
)
COMPARED = (
    ("", "rate", "--epsilon"),
    ("--epsilon 1", "rate", "--rate"),
    ("--rate 0.1", "epsilon", "--epsilon"),
    ("--rate 0 --epsilon 1", "rate", "(0, 1]"),
    ("--rate nan --epsilon 1", "rate", "(0, 1]"),
    ("--rate 10% --epsilon 1", "rate", "number"),
    ("--rate 0.1 --epsilon 0", "epsilon", "above 0"),
    ("--rate 0.1 --epsilon nan", "epsilon", "above 0"),
    ("--rate 0.1 --epsilon 1 --plot designs.pdf", "plot", ".svg or .png"),
    ("--rate 0.1 --epsilon 1 --plot designs", "plot", ".svg or .png"),
)
EXTREME = (
    "srs --n 2 --population 5",
    "with-replacement --n 2 --population 4",
    "poisson --rate 1e-9",
    "poisson --rate 0.1,0.5",
    *(f"stratified --rate {rate} --rounding {how}" for rate in ("0.1", "1e-9") for how in ("random", "nearest", "bernoulli")),
    "stratified --rate 0.1 --rounding random --population 14",
    "random-size --population 20 --binomial 0.3",
    "random-size --population 20 --gaussian 10 2",
    "cluster --sizes 2,1,3 --take 1",
    "cluster --cap 1000000 --clusters 1000000 --take 1",
    "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-rate 1e-9",
    "two-stage --clusters 20 --take 2 --cluster-size 10 --unit-take 3",
    "pps --probabilities 0.2,0.3,0.5 --measure public --method sampford",
    "pps --probabilities 0.2,0.3,0.5 --measure public --method systematic",
    "pps-cluster --sizes 5,5,5",
    "systematic --step 3 --n 4 --order fixed",
    "systematic --step 3 --n 4 --order random",
    "allocation --table rule.csv",
    "allocation --table empty.csv",
    "allocation --table wide.csv",
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "line", "option", "part"),
    [
        *(("amplify", f"{line} {TAIL}", *rest) for line, *rest in WRONG),
        *(("amplify", *each) for each in WHOLE),
        *(("compare designs", *each) for each in COMPARED),
    ],
)
def test_wrong_input_exits_2_and_names_the_option_and_the_way_out(command, line, option, part):
    code, out, err = run.dpsurvey(line, command)
    said = run.plain(err)
    assert (code, out) == (2, "")
    assert "Traceback" not in said
    # A usage line names the command; what was wrong comes after it.
    told = said.split("for help.")[-1]
    assert re.search(rf"(?<![\w-])(--)?{option}(?![\w])", told, re.IGNORECASE), told
    assert part in told


def test_no_design_at_all_shows_the_help_which_names_the_comparison_of_all():
    code, out, err = run.dpsurvey("")
    assert (code, err) == (2, "")
    assert "dpsurvey compare designs" in run.plain(out)


def test_wrong_input_with_json_is_an_error_as_json_on_stderr():
    code, out, err = run.dpsurvey(f"cluster --sizes 1,2,3 --take 4 --json {TAIL}")
    assert (code, out) == (2, "")
    assert json.loads(err)["error"] == "BadValue"
    assert "take" in json.loads(err)["what"]


@pytest.mark.parametrize("design", EXTREME)
@pytest.mark.parametrize("epsilon", ["1e-12", "50", "700", "1e6"])
def test_tiny_and_huge_epsilons_give_finite_ordered_numbers(design, epsilon):
    for base, neighbours in ((ADD, ADD), (ADD, REPLACE), (REPLACE, REPLACE), (BOTH, ADD), (BOTH, REPLACE)):
        given = run.answer(f"{design} --epsilon {epsilon} --prior 0.3", base, neighbours)
        if given["refused"] is None:
            assert 0.0 <= given["lower"] <= given["epsilon"] < math.inf
            # However large epsilon is, a unit that is drawn with probability 1e-6 or more keeps almost all of it.
            if epsilon in ("700", "1e6") and "1e-9" not in design and "empty" not in design and "--population 14" not in design:
                assert given["epsilon"] > float(epsilon) - 20.0
    words = run.dpsurvey(f"{design} --epsilon {epsilon} --base both --neighbours replace-one")[1]
    assert not re.search(r"\b(nan|inf)\b", words)


def test_a_table_saved_by_a_spreadsheet_is_read():
    given = run.answer("random-size --population 4 --table bom.csv --epsilon 1", REPLACE, REPLACE)
    assert given["epsilon"] == pytest.approx(0.6201145069582775, rel=1e-9)


def test_a_needle_of_a_normal_law_is_answered_or_refused_without_a_warning():
    code, _, err = run.dpsurvey(
        "random-size --population 20 --gaussian 3.5 1e-200 --epsilon 1 --base both --neighbours replace-one"
    )
    assert code == 0 or (code == 2 and "gaussian" in err.lower())
    assert "Warning" not in err


@pytest.mark.slow_cases("compare designs --rate 1e-9 --epsilon 1", "compare designs --rate 0.1 --epsilon 1e-12")
@pytest.mark.parametrize(
    "line",
    [
        "compare designs --rate 1e-9 --epsilon 1",
        "compare designs --rate 0.00001 --epsilon 1",
        "compare designs --rate 0.1 --epsilon 700 --json",
        "compare designs --rate 0.1 --epsilon 1e-12",
        f"amplify systematic --step 1000000 --n 1000000 --order fixed {TAIL}",
        "amplify systematic --step 1000000 --n 1000000 --order fixed --epsilon 1 --base replace-one --neighbours replace-one",
    ],
)
def test_extreme_rates_are_answered_in_seconds(line):
    command = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)); import sys; sys.argv[0] = 'dpsurvey'; "
    )
    done = subprocess.run(
        [sys.executable, "-c", command + "from dpsurvey.cli.app import main; main()", *line.split()],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert done.returncode == 0, done.stderr[-300:]
    assert not re.search(r"\b(nan|inf|Infinity|-0\.0+)\b", done.stdout, re.IGNORECASE)
