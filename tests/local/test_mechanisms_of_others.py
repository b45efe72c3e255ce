"""Mechanisms from outside the package, made of public names, go where its own go: by Python and by the command line."""

import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import dpsurvey.local as local
from dpsurvey import PrivacyProfile
from dpsurvey.cli.app import app
from dpsurvey.errors import BadData, BadValue, Refusal
from dpsurvey.mechanism import Laplace
from dpsurvey.privacy import Relation

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch):
    """Kinds that are defined here are on the list in this file alone."""
    monkeypatch.setattr(
        local.LocalMechanism, "kinds", dict(local.LocalMechanism.kinds) | {each.kind: each for each in (Lots, Sums)}
    )


with pytest.MonkeyPatch.context() as patch:
    patch.setattr(local.LocalMechanism, "kinds", {})

    @dataclass(frozen=True)
    class Lots(local.DirectResponse):
        """The truth with probability t, else any of k categories by lot."""

        kind = "lots"
        title = "truth or lot"
        k: int
        t: Fraction

        def __post_init__(self):
            object.__setattr__(self, "t", local.fraction("t", self.t))

        def law(self, answer):
            return [(1 - self.t) / self.k + (self.t if output == answer else 0) for output in range(self.k)]

        def _randomize(self, answers, chance):
            truthful = chance.pick(local.coin(self.t), len(answers)) == 1
            return np.where(truthful, answers, chance.below(self.k, len(answers)))[:, None]

        def to_dict(self):
            return {"kind": self.kind, "k": self.k, "t": str(self.t)}

    @dataclass(frozen=True)
    class Sums(local.DirectResponse):
        """The answer as it is, in shares; each aggregator adds noise to the sum of every category."""

        kind = "sums"
        title = "answers in shares with noisy sums"
        against = "all who see the published sums, and all aggregators but one"
        holds_when = ("one aggregator at least keeps its shares and its noise to itself",)
        source = "discrete Laplace noise on two counts that a respondent moves by one each"
        aggregators = 3
        k: int
        at_epsilon: float

        def law(self, answer):
            return [Fraction(int(output == answer)) for output in range(self.k)]

        def _randomize(self, answers, chance):
            return np.asarray(answers)[:, None]

        @property
        def noise(self):
            return Laplace.calibrate(PrivacyProfile.pure(self.at_epsilon, Relation.REPLACE_ONE), sensitivity=2.0)

        @property
        def published(self):
            return PrivacyProfile.pure(self.noise.profile(Relation.REPLACE_ONE).epsilon(0.0), Relation.REPLACE_ONE)

        @property
        def claimed_epsilon(self):
            return self.published.epsilon(0.0)

        @property
        def sums_guarantee(self):
            return f"To each respondent, against {self.against}: epsilon {self.at_epsilon:g}."

        def publish(self, totals):
            noise = self.noise.randomize([0] * self.k)
            return [[(int(each) + extra) % 2**64 for each, extra in zip(totals[0], noise, strict=True)]]

        def possible(self, sums, respondents, aggregators):
            reach = 40.0 * aggregators * (self.noise.scale + 1.0)
            return bool(np.all((sums[0] >= -reach) & (sums[0] <= respondents + reach)))

        def noise_of_share(self, category, respondents, aggregators):
            variance = aggregators * self.noise.variance / respondents**2
            return variance, 3.0 * variance**2 / aggregators

        def to_dict(self):
            return {"kind": self.kind, "k": self.k, "epsilon": self.at_epsilon}


def question(mechanism, categories=("no", "yes")):
    return local.Question.ask("smokes", categories, mechanism)


def run(*words):
    done = CliRunner().invoke(app, ["local", *map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout)


def test_a_mechanism_of_reports_is_collected_estimated_guaranteed_audited_and_enumerated():
    mine = question({"kind": "lots", "t": "1/2"}, ("a", "b", "c"))
    assert local.Question.from_dict(mine.to_dict()) == mine
    rng = np.random.default_rng(3)
    truth = rng.choice(["a", "b", "c"], 4000, p=[0.2, 0.3, 0.5])
    table = local.randomize_table(mine, {"smokes": truth.tolist()}, answer="smokes")
    made = local.estimate(mine, local.collect(mine, table))
    for row, share in zip(made.rows, (0.2, 0.3, 0.5), strict=True):
        # Six standard errors: a false alarm once in 5e8 runs.
        assert abs(row["estimate"] - share) < 6 * row["se"]
    assert mine.mechanism.epsilon == pytest.approx(math.log(4.0))
    assert "epsilon 1.387" in made.guarantee
    assert local.guarantee(mine.mechanism, reports=4000, delta=1e-6).statements[1].epsilon < 0.2
    assert local.leakage(mine.mechanism).pure_epsilon == pytest.approx(mine.mechanism.epsilon)
    # At a confidence of 1 - 1e-7 an honest mechanism is accused once in ten million audits.
    assert not local.audit(mine.mechanism, others=(20, 0, 0), runs=2000, confidence=1 - 1e-7).broken
    assert local.sample_size(mine.mechanism, 0.03).n > 4000
    assert "With probability 50" in local.form_html(mine)
    parts = [local.aggregate(mine, each) for each in local.split(mine, table, 3)]
    assert [row["estimate"] for row in local.combine(mine, parts).rows] == pytest.approx([row["estimate"] for row in made.rows])
    parts[0].sums[""][0][0] += 1
    with pytest.raises(BadData, match="do not fit together"):
        local.combine(mine, parts)


def test_a_mechanism_with_noise_is_added_up_by_its_aggregators_and_guaranteed_as_it_says():
    mine = question({"kind": "sums", "epsilon": 1.0})
    table = local.randomize_table(mine, {"smokes": ["yes"] * 300 + ["no"] * 700}, answer="smokes")
    with pytest.raises(Refusal, match="come from its aggregators"):
        local.estimate(mine, table)
    with pytest.raises(BadValue, match="another number of aggregators"):
        local.split(mine, table, 2)
    parts = [local.aggregate(mine, each) for each in local.split(mine, table, 3)]
    assert all(each.noisy for each in parts)
    made = local.combine(mine, parts)
    row = made.rows[1]
    # Noise of three aggregators leaves 0.3 by 0.2 once in 1e20 runs.
    assert abs(row["estimate"] - 0.3) < 0.2
    assert row["se_noise"] == pytest.approx(math.sqrt(3 * mine.mechanism.noise.variance) / 1000)
    assert made.guarantee.endswith("epsilon 1.")
    (statement,) = local.guarantee(mine.mechanism).statements
    assert (statement.against, statement.epsilon) == (Sums.against, mine.mechanism.claimed_epsilon)
    assert statement.holds_when[-1] == Sums.holds_when[0]
    with pytest.raises(BadValue, match="whole as it is"):
        local.guarantee(mine.mechanism, reports=1000, delta=1e-6)


def test_what_it_publishes_is_enumerated_with_its_noise_and_attains_its_guarantee():
    mine = question({"kind": "sums", "epsilon": 1.0}).mechanism
    assert local.leakage(mine).pure_epsilon == math.inf
    shown = local.leakage(mine, "published", 2)
    assert shown.pure_epsilon == pytest.approx(mine.claimed_epsilon, rel=1e-12)
    # At a confidence of 1 - 1e-7 an honest mechanism is accused once in ten million audits.
    assert not local.audit(mine, others=(20, 0), runs=2000, confidence=1 - 1e-7).broken


@pytest.mark.parametrize("mechanism", ['{ kind = "lots", t = "1/2" }', '{ kind = "sums", epsilon = 1 }'])
def test_the_command_line_takes_it_from_a_question_file(tmp_path, monkeypatch, mechanism):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.toml").write_text(f'name = "smokes"\ncategories = ["no", "yes"]\nmechanism = {mechanism}\n')
    (tmp_path / "answers.csv").write_text("smokes\n" + "yes\n" * 60 + "no\n" * 140)
    assert run("randomize", "q.toml", "answers.csv", "-o", "r.csv")["reports"] == 200
    (statement,) = run("guarantee", "q.toml")["statements"]
    assert statement["epsilon"] == pytest.approx(math.log(3.0) if "lots" in mechanism else 1.0)
    shown = run("leakage", "q.toml", "--respondents", 2, "--audit", 200)
    assert [each["view"] for each in shown["views"]][:2] == ["report", "counts"]
    assert (shown["printed_epsilon"], shown["errors"], shown["audit"]["broken"]) == (None, None, False)
    files = run("split", "q.toml", "r.csv", "-o", "s.csv")["written"]
    assert len(files) == (2 if "lots" in mechanism else 3)
    for number, each in enumerate(files):
        run("aggregate", "q.toml", each, "-o", f"sums-{number}.json")
    made = run("combine", "q.toml", *[f"sums-{number}.json" for number in range(len(files))])
    assert made["respondents"] == 200
    if "lots" in mechanism:
        assert run("estimate", "q.toml", "r.csv")["estimates"][1]["estimate"] == made["estimates"][1]["estimate"]
