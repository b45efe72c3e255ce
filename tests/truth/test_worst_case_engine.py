"""The package's own linear programme against one written here, and its witnesses against tampering."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpsurvey.loss.worst_case import Contest, worst_delta, worst_loss
from tests.truth import enumerated_stages as stages

pytestmark = pytest.mark.quick

plain, en, ADD, REPLACE = stages.plain, stages.en, stages.ADD, stages.REPLACE

SEED, CASES = 20260731, 12
# Kinds whose `contest` is a pair of populations that the case lists: the target is given, or all units are alike.
KINDS = [plain.simple, plain.random_size, plain.proportional, plain.allocation, plain.whole_clusters, plain.cluster_by_size]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_engine_agrees_with_full_enumeration_and_its_witness_attains_the_loss(kind):
    rng, tried = np.random.default_rng([SEED, len(kind.__name__)]), 0
    while tried < CASES:
        case = kind(rng)
        if getattr(case.design, "unit_in", 1) is None:
            continue
        tried += 1
        epsilon = min(float(rng.choice([0.05, 0.4, 1.0, 2.0])), 5.0 / max(1, stages.largest(case)))
        for base in en.BASES:
            for neighbours, pairs in case.pairs.items():
                contest = case.design.contest(neighbours)
                if contest is None:
                    continue
                found = worst_loss(contest, epsilon, base)
                exact = max(en.worst_loss(*pair, epsilon, base) for pair in pairs)  # type: ignore[call-arg]
                if math.isinf(exact):
                    assert math.isinf(found.lower)
                    continue
                assert found.exact, f"{case.design} {base} {neighbours}"
                assert found.lower == pytest.approx(exact, abs=1e-6), f"{case.design} {base} {neighbours}"
                found.witness.check(found.lower)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_mechanism_is_said_to_lose_more_than_it_does(kind):
    """The witness in fifty digits, on laws that add up to 1: its loss is a true lower bound, and `lower` is below it."""
    rng, compared = np.random.default_rng([SEED, 7, len(kind.__name__)]), 0
    while compared < 2 * CASES:
        case = kind(rng)
        epsilon = float(rng.choice([1e-6, 0.03, 0.4, 1.0])) / max(1, stages.largest(case))
        for base, neighbours in itertools.product(en.BASES, case.pairs):
            contest = case.design.contest(neighbours) if getattr(case.design, "unit_in", 1) is not None else None
            found = None if contest is None else worst_loss(contest, epsilon, base)
            if found is not None and math.isfinite(found.lower):
                compared += 1
                assert mpmath.mpf(found.lower) <= attained(found.witness), f"{case.design} {base} {neighbours} {epsilon}"


def attained(witness):
    with mpmath.workdps(50):
        levels = {
            sample: witness.epsilon * mpmath.mpf(level)
            for sample, level in zip(witness.contest.samples, witness.levels, strict=True)
        }
        chances = [
            mpmath.fsum(p * mpmath.exp(levels[sample]) for sample, p in law.items() if p) / mpmath.fsum(law.values())
            for law in (witness.contest.first, witness.contest.second)
        ]
        return mpmath.log(chances[0] / chances[1])


def units(law):
    return {tuple(sorted(map(str, sample))): p for sample, p in law.items()}


@pytest.mark.parametrize("base", ["add-remove", "both", "replace-one"])
def test_a_contest_of_labelled_units_is_the_enumerated_one(base):
    first, second = en.srs(["a", "b", "c", "x"], 2), en.srs(["a", "b", "c", "y"], 2)
    found = worst_loss(Contest.of_units(units(first), units(second)), 0.8, base)
    assert found.lower == pytest.approx(en.worst_loss(first, second, 0.8, base), abs=1e-7)
    found.witness.check(found.lower)


def drawn():
    return Contest((3, 1), {(2, 0): 0.5, (1, 1): 0.5}, (3, 0), {(2, 0): 1.0})


def test_a_witness_fails_when_more_is_claimed_than_it_attains():
    found = worst_loss(drawn(), 1.0, ADD)
    found.witness.check(found.lower)
    for claimed in (found.lower * 1.001, found.lower + 1e-6, found.lower * 0.999, math.inf, math.nan):
        with pytest.raises(AssertionError):
            found.witness.check(claimed)


def test_a_witness_fails_when_its_levels_are_changed():
    found = worst_loss(drawn(), 1.0, ADD)
    levels = found.witness.levels
    for position in range(len(levels)):
        for change in (0.5, 1.0, 3.0, -0.5):
            changed = tuple(level + change * (k == position) for k, level in enumerate(levels))
            tampered = replace(found.witness, levels=changed)
            if tampered.loss != pytest.approx(found.lower, rel=1e-9):
                with pytest.raises(AssertionError):
                    tampered.check(found.lower)
            elif max(changed) > 0.0:
                with pytest.raises(AssertionError, match="not"):
                    tampered.check(found.lower)


def test_a_witness_of_another_epsilon_or_type_does_not_pass():
    found = worst_loss(drawn(), 1.0, ADD)
    for changed in ({"epsilon": 0.9}, {"epsilon": 1.1}, {"base": "both"}):
        with pytest.raises(AssertionError):
            replace(found.witness, **changed).check(found.lower)


def test_the_largest_delta_agrees_with_full_enumeration_and_its_witness_fails_when_tampered_with():
    first, second = en.poisson({"a": 0.3, "b": 0.6, "x": 0.4}), en.poisson({"a": 0.3, "b": 0.6, "y": 0.4})
    contest = Contest.of_units(units(first), units(second))
    for base, at in (("add-remove", 0.2), ("both", 0.1), ("replace-one", 0.3)):
        found = worst_delta(contest, at, 0.8, 0.01, base)
        assert found.delta == pytest.approx(en.worst_delta(first, second, at, 0.8, 0.01, base), abs=1e-8)
        found.check()
        with pytest.raises(AssertionError):
            replace(found, delta=found.delta + 1e-5).check()
        sample = max(found.answers, key=found.answers.get)
        with pytest.raises(AssertionError):
            replace(found, answers=found.answers | {sample: found.answers[sample] + 0.5}).check()
        with pytest.raises(AssertionError):
            replace(found, epsilon=0.1, base_delta=0.0).check()


def test_a_loss_without_bound_is_not_given_a_witness_that_does_not_show_it():
    # Replace-only mechanisms may tell sizes apart: one unit against none.
    found = worst_loss(Contest((1,), {(1,): 1.0}, (0,), {(0,): 1.0}), 1.0, REPLACE)
    assert math.isinf(found.lower)
    assert math.isinf(found.upper)
