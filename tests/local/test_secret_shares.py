"""Shares: aggregators hold uniform noise, their sums give what the reports give, and whatever does not fit is refused."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import dpsurvey.local as local
from dpsurvey.errors import BadData, BadValue, Refusal
from dpsurvey.local.aggregated import Aggregated
from dpsurvey.local.secret_shares import held_shares
from dpsurvey.local.tables import write_table

CATEGORIES = ["a", "b", "c"]
CHANCES = ["0.2", "0.2", "0.15"]
KINDS = {
    "generalised": {"kind": "generalised", "epsilon": 1.0},
    "unary": {"kind": "unary", "epsilon": 1.0},
    "hashing": {"kind": "hashing", "epsilon": 1.0},
    "subset": {"kind": "subset", "epsilon": 0.4},
    "round-two": {"kind": "round-two", "chances": CHANCES, "pi_s": "0.45"},
    "sampling-privacy": {"kind": "sampling-privacy", "chances": CHANCES, "pi_s": "0.45"},
}
GUARDED = {"kind": "guarded", "chances": CHANCES, "pi_s": "0.45", "epsilon": 1.0, "aggregators": 2}


def asked(mechanism):
    return local.Question.ask("letters", CATEGORIES, mechanism)


def reported(question, n=400):
    rng = np.random.default_rng(11)
    answers = {"x": rng.choice(CATEGORIES, n, p=[0.5, 0.3, 0.2]), "id": np.arange(n), "g": rng.choice(["north", "south"], n)}
    return local.randomize_table(question, answers, answer="x", respondent="id", keep=["g"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aggregators", [2, 5])
def test_sums_of_all_aggregators_give_the_estimates_of_the_reports(kind, aggregators):
    question = asked(KINDS[kind])
    reports = reported(question)
    parts = [local.aggregate(question, shares) for shares in local.split(question, reports, aggregators)]
    combined = local.combine(question, parts, aggregators=aggregators, population=900)
    direct = local.estimate(question, reports, population=900)
    assert combined.rows == direct.rows
    assert combined.n == 400


def test_groups_are_strata_weighted_by_their_population():
    question = asked(KINDS["unary"])
    reports = reported(question)
    parts = [local.aggregate(question, shares, by="g") for shares in local.split(question, reports, 2, keep=["g"])]
    made = local.combine(question, parts, sizes={"north": 3000, "south": 1000})
    groups = np.array(reports.column("g").to_pylist())
    expected = 0.0
    for name, weight in (("north", 0.75), ("south", 0.25)):
        own = reports.filter(groups == name)
        expected += weight * local.estimate(question, own).rows[0]["estimate"]
    assert made.rows[0]["estimate"] == pytest.approx(expected, abs=1e-12)
    with pytest.raises(BadValue, match="population size"):
        local.combine(question, parts)
    with pytest.raises(BadValue, match="each group"):
        local.combine(question, parts, sizes={"north": 3000})


def test_shares_of_all_but_one_aggregator_are_uniform_and_do_not_depend_on_the_report():
    # One byte of a share is uniform on 256 values. Chi-square with 255 degrees of freedom exceeds 400 with chance 1e-8;
    # two aggregators, and every byte: false-alarm rate below 1e-6. Power: reports themselves, as bytes, are mostly zeros.
    question = asked(KINDS["generalised"])
    table = {"question": [question.fingerprint] * 20_000, "report": ["b"] * 20_000}
    shares = local.split(question, table, 3)
    for one in shares[1:]:
        words = held_shares(question, one).words[0]
        for place in range(8):
            byte = (words[:, 1] >> np.uint64(8 * place)) & np.uint64(255)
            counts = np.bincount(byte.astype(int), minlength=256)
            assert ((counts - 20_000 / 256) ** 2 / (20_000 / 256)).sum() < 400
    together = held_shares(question, shares[0]).words[0]
    for one in shares[1:]:
        rows = {name: place for place, name in enumerate(held_shares(question, one).respondents)}
        order = [rows[name] for name in held_shares(question, shares[0]).respondents]
        together = together + held_shares(question, one).words[0][order]
    assert together.tolist() == [[0, 1, 0]] * 20_000


def test_a_missing_share_is_refused_and_the_rosters_are_the_way_out():
    question = asked(KINDS["unary"])
    first, second = local.split(question, reported(question), 2)
    second = second.slice(3)
    parts = [local.aggregate(question, each) for each in (first, second)]
    with pytest.raises(Refusal, match="different respondents"):
        local.combine(question, parts)
    rosters = [local.roster(question, each) for each in (first, second)]
    agreed = local.common_respondents(question, rosters)
    assert len(agreed) == 397
    parts = [local.aggregate(question, each, only=agreed) for each in (first, second)]
    assert local.combine(question, parts).n == 397


def test_rosters_are_compared_whole_and_for_one_question(tmp_path):
    question = asked(KINDS["unary"])
    rosters = [local.roster(question, each) for each in local.split(question, reported(question), 3)]
    (tmp_path / "roster-3.json").write_text(json.dumps(rosters[2]))
    everybody = set(rosters[0]["respondents"])
    assert local.common_respondents(question, [*rosters[:2], tmp_path / "roster-3.json"]) == everybody
    assert local.common_respondents(question, [rosters[0], rosters[1] | {"respondents": []}]) == set()
    for wrong in ({}, rosters[0] | {"question": "another"}, rosters[0] | {"respondents": [1, 2]}):
        with pytest.raises(BadData, match="is not a roster of this question"):
            local.common_respondents(question, [rosters[0], wrong])
    with pytest.raises(BadValue, match="no rosters"):
        local.common_respondents(question, [])


def test_a_missing_or_doubled_aggregator_and_sums_that_were_changed_are_refused():
    question = asked(KINDS["unary"])
    parts = [local.aggregate(question, each) for each in local.split(question, reported(question), 3)]
    for wrong in (parts[:2], [*parts, parts[0]], [parts[0], parts[1], parts[1]], []):
        with pytest.raises(BadData, match="missing, or given twice"):
            local.combine(question, wrong, aggregators=3)
    changed = parts[2].to_dict()
    changed["sums"][""][0][0] = str((int(changed["sums"][""][0][0]) + 2**40) % 2**64)
    with pytest.raises(BadData, match="do not fit together"):
        local.combine(question, [*parts[:2], Aggregated.from_dict(changed)])
    twice = [local.split(question, reported(question), 3)[number] for number in range(3)]
    with pytest.raises(Refusal, match="different respondents"):
        local.combine(question, [local.aggregate(question, each) for each in twice])
    other = local.Question.ask("letters", CATEGORIES, KINDS["unary"], "worded otherwise")
    with pytest.raises(BadData, match="another question"):
        local.combine(other, parts)
    with pytest.raises(BadData, match="not a file of an aggregator"):
        Aggregated.from_dict({"question": "x"})
    good = parts[0].to_dict()
    odd = ({"respondents": {"": "400"}}, {"respondents": []}, {"sums": {"": [[1.9]]}}, {"sums": {"": [["1_0"]]}}, {"noisy": None})
    for change in (*odd, {"dropped": -1}, {"aggregator": "1"}, {"roster": []}, {"sums": {"": "12"}}, {"sums": {"x": [["1"]]}}):
        with pytest.raises(BadData, match="changed or cut off"):
            Aggregated.from_dict(good | change)


@pytest.mark.parametrize("kind", ["generalised", "subset", "sampling-privacy"])
def test_counts_that_no_reports_add_up_to_are_refused(kind):
    question = asked(KINDS[kind])
    parts = [local.aggregate(question, each) for each in local.split(question, reported(question), 2)]
    shifted = parts[1].to_dict()
    shifted["sums"][""][0][1] = str((int(shifted["sums"][""][0][1]) + 1) % 2**64)
    with pytest.raises(BadData, match="do not fit together"):
        local.combine(question, [parts[0], Aggregated.from_dict(shifted)])


def test_guarded_sums_of_two_splits_are_refused_and_so_is_one_aggregator_twice():
    question = asked(GUARDED)
    reports = reported(question)
    first, second = ([local.aggregate(question, each) for each in local.split(question, reports, 2)] for _ in range(2))
    with pytest.raises(Refusal, match="different respondents"):
        local.combine(question, [first[0], second[1]])
    replayed = Aggregated.from_dict(first[0].to_dict() | {"aggregator": 2})
    with pytest.raises(BadData, match="do not fit together"):
        local.combine(question, [first[0], replayed])


def test_pooled_intervals_of_small_strata_cover_a_rare_trait():
    # Twenty strata of five from a hundred, share .02, epsilon 7: many strata without a single mark. 400 runs; at a coverage of
    # .95 fewer than 359 hits have a chance below 1e-6, and intervals from each stratum's own estimate cover 62 % here.
    question = local.Question.ask("rare", ["no", "yes"], {"kind": "generalised", "epsilon": 7.0})
    rng, hits = np.random.default_rng(2), 0
    p, q = (float(each) for each in question.mechanism.hit(1))  # type: ignore[attr-defined]
    for _ in range(400):
        yes = rng.hypergeometric(2, 98, 5, size=20)
        counts = rng.binomial(yes, p) + rng.binomial(5 - yes, q)
        sums = {f"s{place}": [[int(5 - count), int(count)]] for place, count in enumerate(counts)}
        nothing = {group: [[0, 0]] for group in sums}
        sizes = dict.fromkeys(sums, 5)
        parts = [Aggregated(question.fingerprint, number, "r", sizes, 0, own, False) for number, own in ((1, sums), (2, nothing))]
        row = local.combine(question, parts, sizes=dict.fromkeys(sums, 100)).rows[1]
        hits += row["ci_low"] <= 0.02 <= row["ci_high"]
    assert hits >= 359


@pytest.mark.parametrize("mechanism", [KINDS["unary"], GUARDED], ids=["unary", "guarded"])
def test_two_splits_of_one_respondent_in_one_file_are_refused(mechanism):
    question = asked(mechanism)
    twice = pa.concat_tables([local.split(question, reported(question, 20), 2)[0] for _ in range(2)])
    with pytest.raises(BadData, match="more than one share in a round"):
        local.aggregate(question, twice)


def test_a_group_of_one_respondent_is_refused():
    question = asked(KINDS["unary"])
    parts = [
        Aggregated(question.fingerprint, number, "r", {"x": 1, "y": 9}, 0, {"x": [[0] * 3], "y": [[0] * 3]}, False)
        for number in (1, 2)
    ]
    with pytest.raises(BadData, match="one respondent"):
        local.combine(question, parts, sizes={"x": 10, "y": 10})


def test_a_respondent_of_one_round_only_is_left_out_of_both_and_counted():
    question = asked(KINDS["sampling-privacy"])
    reports = reported(question)
    # The last rows are of round two: ten respondents did not come back.
    cut = reports.slice(0, len(reports) - 10)
    assert local.estimate(question, cut).n == 390
    assert any("10 respondents of one round only" in note for note in local.estimate(question, cut).notes)
    shares = [each.slice(0, len(each) - 10) for each in local.split(question, reports, 2)]
    made = local.combine(question, [local.aggregate(question, each) for each in shares])
    assert made.rows == local.estimate(question, cut).rows
    assert any("10 respondents of one round only" in note for note in made.notes)


def test_a_guarded_question_gives_noisy_differences_once():
    question = asked(GUARDED)
    reports = reported(question, 4000)
    shares = local.split(question, reports, 2)
    parts = [local.aggregate(question, each) for each in shares]
    made = local.combine(question, parts)
    plain = asked(KINDS["sampling-privacy"]).mechanism
    codes = local.collect(question, reports).reports
    exact = plain.mark_sums(codes)[1:] / 4000 / 0.45
    # Noise of two aggregators, within 17 of its standard deviations: a false alarm has chance 1e-9.
    sd = np.sqrt(question.mechanism.sum_variance()) / 4000 / 0.45
    assert np.abs(np.array([row["estimate"] for row in made.rows[1:]]) - exact).max() < 17 * sd
    assert "epsilon 1 " in made.guarantee
    assert "all aggregators but one" in made.guarantee
    with pytest.raises(Refusal, match="come from its aggregators"):
        local.estimate(question, reports)
    again = [local.aggregate(question, each) for each in shares]
    assert [part.sums for part in again] != [part.sums for part in parts]
    with pytest.raises(BadValue, match="another number of aggregators"):
        local.split(question, reports, 3)


def test_the_noise_of_a_guarded_difference_has_the_variance_it_states():
    # 1,200 sums of the same shares, two categories. The standard deviation of the ratio is sqrt((kurtosis + 2)/2400) = .05: it
    # leaves 0.65 to 1.4 with chance 1e-9 or less, and noise of half or double the variance is rejected.
    question = asked(GUARDED)
    shares = local.split(question, reported(question, 50), 2)[0]
    first, second = (words.sum(axis=0, dtype=np.uint64) for words in held_shares(question, shares).words)
    base = [int(each) for each in (second - first)[1:]]
    drawn = [local.aggregate(question, shares).sums[""][0] for _ in range(1200)]
    noise = np.array([[_signed((value - own) % 2**64) for value, own in zip(row, base, strict=True)] for row in drawn])
    assert 0.65 < noise.var() / question.mechanism.noise.variance < 1.4


def _signed(value):
    return value - 2**64 if value >= 2**63 else value


def test_aggregators_run_as_separate_processes_and_a_second_guarded_sum_is_refused(tmp_path):
    question = asked(GUARDED)
    (tmp_path / "q.json").write_text(json.dumps(question.to_dict()))
    for number, table in enumerate(local.split(question, reported(question), 2), start=1):
        write_table(table, tmp_path / f"shares-{number}.csv")

    def start(number):
        words = ["local", "aggregate", "q.json", f"shares-{number}.csv", "-o", f"sums-{number}.json"]
        command = [sys.executable, "-c", "from dpsurvey.cli.app import main; main()", *words]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for running in [start(1), start(2)]:
        _, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors
    with pytest.raises(Refusal, match="added up before"):
        local.aggregate(question, tmp_path / "shares-1.csv")
    parts = [Aggregated.from_dict(json.loads((tmp_path / f"sums-{number}.json").read_text())) for number in (1, 2)]
    rows = local.combine(question, parts).rows
    assert [row["category"] for row in rows] == CATEGORIES
    assert sum(row["estimate"] for row in rows) == pytest.approx(1.0)
