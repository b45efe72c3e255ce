"""The amplification figures of the papers, to nine digits, through the public interface.

The figures are in tests/golden/amplification.json, with what made them. Each name has one function here that asks the
package for the same quantity, so a figure without a function, or a function without a figure, fails.
"""

import json
import math
from pathlib import Path

import pytest

import dpsurvey as ds
from dpsurvey.errors import BadValue
from dpsurvey.ledger.terms import Terms
from dpsurvey.privacy.running import Running

pytestmark = pytest.mark.quick

FIGURES = json.loads((Path(__file__).parent.parent / "golden" / "amplification.json").read_text())["figures"]

ADD_REMOVE = ds.Setting("frame", neighbours="add-remove")
REPLACE_ONE = ds.Setting("frame", neighbours="replace-one")


def pure(epsilon, relation):
    return ds.PrivacyProfile.pure(float(epsilon), relation)


def simple(n, size):
    return ds.srs(n=n).resolve(ds.Frame("frame.parquet", unit="id", size=size))


def outside(design, profile, setting):
    """The profile of someone outside the sample."""
    return design.amplify(profile, setting).profile


def to_spend(design, setting, epsilon, size):
    """The pure epsilon that may be spent on one sample so that the budget is kept."""
    frame = ds.Frame("frame.parquet", unit="id", size=size)
    terms = Terms("survey", frame, design.resolve(frame), setting, ds.Budget(float(epsilon)))
    return terms.in_sample_budget.epsilon(0.0)


def fixed(eps, n, N):  # noqa: N803
    return outside(simple(n, N), pure(eps, "replace-one"), REPLACE_ONE).epsilon(0.0)


def fixed_inverse(eps, n, N):  # noqa: N803
    """The epsilon to spend on the sample for a target."""
    return to_spend(ds.srs(n=n), REPLACE_ONE, eps, N)


def by_rate(eps, rate):
    """A rate without sizes: so many of a million."""
    return fixed(eps, round(rate * 1_000_000), 1_000_000)


def by_rate_inverse(eps, rate):
    return fixed_inverse(eps, round(rate * 1_000_000), 1_000_000)


def independent(eps, p):
    return outside(ds.poisson(p), pure(eps, "add-remove"), ADD_REMOVE).epsilon(0.0)


def replaced(eps, p, base):
    return outside(ds.poisson(p), pure(eps, base), REPLACE_ONE).epsilon(0.0)


def delta_outside(design, delta, base, setting):
    """The delta of an (epsilon, delta) mechanism at its amplified epsilon, for two epsilons that must agree."""
    found = []
    for epsilon in (0.5, 2.0):
        amplified = outside(design, pure(epsilon, base), setting).epsilon(0.0)
        found.append(outside(design, ds.PrivacyProfile.approximate(epsilon, delta, base), setting).delta(amplified))
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    return found[0]


def fixed_delta_inverse(target_delta, n, N):  # noqa: N803
    """The in-sample delta whose amplified delta is the target, which the package must confirm."""
    inside = target_delta * N / n
    assert delta_outside(simple(n, N), inside, "replace-one", REPLACE_ONE) == pytest.approx(target_delta, rel=1e-9)
    return inside


def on_one_sample(eps, f):
    profiles = [pure(each, "replace-one") for each in eps]
    together = profiles[0].compose(*profiles[1:])
    return outside(simple(round(f * 1000), 1000), together, REPLACE_ONE).epsilon(0.0)


def everything_or_binomial(eps, n, base, p=None):
    """Theorem 3.1 where the random size is binomial (Poisson sampling) or always everyone."""
    if p is None:
        return outside(simple(n, n), pure(eps, base), REPLACE_ONE).epsilon(0.0)
    return replaced(eps, p, base)


ASK = {
    "amplify_srswor_eps": fixed,
    "amplify_srswor_eps_inverse": lambda target_eps, n, N: fixed_inverse(target_eps, n, N),  # noqa: N803
    "amplify_srswor_delta": lambda delta, n, N: delta_outside(simple(n, N), delta, "replace-one", REPLACE_ONE),  # noqa: N803
    "amplify_srswor_delta_inverse": fixed_delta_inverse,
    "amplify_srswor_from_deletion_M": lambda eps, n, N: outside(  # noqa: N803
        simple(n, N), pure(eps, "add-remove"), REPLACE_ONE
    ).epsilon(0.0),
    "cluster_exact_replacement": lambda sizes, changed, l, eps: outside(  # noqa: E741
        simple(l, len(sizes)), pure(eps, "add-remove"), REPLACE_ONE
    ).epsilon(0.0),
    "eps_n_sim": fixed_inverse,
    "paper_5.15": by_rate_inverse,
    "paper_2.43": fixed_inverse,
    "paper_5.14": fixed_inverse,
    "q": lambda eps, rate: 1 - (eps / by_rate_inverse(eps, rate)) ** 2,
    "noise_ratio_r": lambda eps, rate: (rate * by_rate_inverse(eps, rate) / eps) ** 2,
    "amplify_poisson_eps": independent,
    "poisson_eps_inverse": lambda target_eps, p: to_spend(ds.poisson(p), ADD_REMOVE, target_eps, 1000),
    "amplify_poisson_delta": lambda delta, p: delta_outside(ds.poisson(p), delta, "add-remove", ADD_REMOVE),
    "amplify_poisson_replacement_from_deletion_M": lambda eps, p: replaced(eps, p, "add-remove"),
    "shared_sample_terms": lambda eps, f: on_one_sample([eps], f),
    "shared_sample_composition": on_one_sample,
    "naive_sum": lambda eps, f: math.fsum(on_one_sample([each], f) for each in eps),
    "chain_poisson_poisson": lambda p1, p2, eps: pure(eps, "add-remove").amplify(p1).amplify(p2).epsilon(0.0),
    # Responses are thinned by themselves after simple random sampling: the inner stage first, then the outer rate.
    "chain_srswor_then_poisson_nonresponse": lambda f, p, eps: (
        outside(ds.poisson(p), pure(eps, "add-remove"), REPLACE_ONE).amplify(f).epsilon(0.0)
    ),
    "sec2.4_claim": by_rate,
    "sec2.4_inverse": lambda target, rate: by_rate_inverse(target, rate),
    "sec2.4_loss_if_followed": by_rate,
    "poisson_within_strata": lambda r, eps: outside(
        ds.stratified("region", within=ds.poisson(r)), pure(eps, "add-remove"), ADD_REMOVE
    ).epsilon(0.0),
    "thm31_exact_both": lambda eps, n, p=None: everything_or_binomial(eps, n, "both", p),
    "thm31_exact_deletion_only": lambda eps, n, p=None: everything_or_binomial(eps, n, "add-remove", p),
}


def test_every_figure_is_asked_for_and_every_question_has_a_figure():
    assert {figure["name"] for figure in FIGURES} == set(ASK)
    assert len(FIGURES) == 58


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure['paper']}-{figure['name']}-{figure['inputs']}")
def test_the_package_gives_the_figure(figure):
    assert ASK[figure["name"]](**figure["inputs"]) == pytest.approx(figure["value"], rel=1e-9)


def test_two_releases_from_one_sample_cost_more_than_their_sum():
    """In-sample epsilons 1 and 2 on one 10 % simple random sample (Bailie and Drechsler, Section 5.2)."""
    frame = ds.Frame("frame.parquet", unit="id", size=1000)
    terms = Terms("survey", frame, ds.srs(rate=0.1).resolve(frame), REPLACE_ONE, ds.Budget(5.0))
    cost = terms.guarantee(Running().plus(pure(1.0, "replace-one"), pure(2.0, "replace-one"))).epsilon
    assert cost == pytest.approx(1.0676559447, abs=5e-11)
    apart = [terms.guarantee(Running().plus(pure(each, "replace-one"))).epsilon for each in (1.0, 2.0)]
    assert apart == pytest.approx([0.1585650787, 0.4940287080], abs=5e-11)
    assert sum(apart) == pytest.approx(0.6526, abs=5e-5)
    assert cost > 1.6 * sum(apart)


def test_a_two_percent_poisson_sample_at_epsilon_1_costs_4_46_for_someone_known_to_be_sampled():
    frame = ds.Frame("register.parquet", unit="person_id", size=8_900_000, categories={"region": ["north", "south"]})
    for design in (ds.poisson(rate=0.02), ds.stratified("region", within=ds.poisson(rate=0.02))):
        terms = Terms("survey", frame, design.resolve(frame), ADD_REMOVE, ds.Budget(1.0))
        guarantee = terms.guarantee(Running().plus(terms.in_sample_budget))
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-12)
        assert guarantee.epsilon <= 1.0
        assert guarantee.in_sample[0] == pytest.approx(math.log1p(math.expm1(1.0) / 0.02), rel=1e-12)
        assert str(guarantee) == (
            "Anyone on the frame: epsilon 1. Someone known to be in the sample: epsilon 4.465. If the sample list leaks: 4.465."
        )


def test_following_section_2_4_of_paper_004_to_the_letter_loses_95_instead_of_1():
    """The text asks for in-sample epsilon 100 on a 1 % sample; the exact inverse is 5.15."""
    assert by_rate(100, 0.01) > 95
    assert by_rate(by_rate_inverse(1.0, 0.01), 0.01) == pytest.approx(1.0, rel=1e-9)


def test_an_in_sample_delta_of_one_or_more_is_refused():
    """Paper 000 inverts delta by N/n, which is not a probability once delta exceeds n/N."""
    inside = 0.02 * 10001 / 101
    assert inside > 1.0
    with pytest.raises(BadValue, match="delta"):
        ds.PrivacyProfile.approximate(1.0, inside, "replace-one")


def test_sampling_never_reduces_the_laplace_noise_of_a_mean():
    """The noise ratio of paper 000 is below 1 for every epsilon and rate; its Figure 5 is a rounding artefact."""
    for epsilon in (1e-9, 1e-6, 1e-3, 0.1, 1.0, 5.0):
        for rate in (0.001, 0.01, 0.1, 0.5, 0.9):
            assert rate * by_rate_inverse(epsilon, rate) < epsilon


# Gaussian and Laplace curves


@pytest.mark.parametrize(("rate", "printed"), [(0.1, 1.4326), (0.01, 0.7764), (1.0, 4.2247)])
def test_the_gaussian_noise_for_epsilon_1_and_delta_1e_6_is_the_printed_one(rate, printed):
    def delta(sigma):
        return ds.PrivacyProfile.gaussian(1.0 / sigma, "add-remove").amplify(rate).delta(1.0)

    low, high = 0.1, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta(middle) <= 1e-6 else (middle, high)
    assert round(high, 4) == printed
    assert ds.PrivacyProfile.gaussian(1.0 / high, "add-remove").amplify(rate).epsilon(1e-6) == pytest.approx(1.0, rel=1e-8)


def test_the_amplified_laplace_curve_has_the_printed_value():
    curve = ds.PrivacyProfile.laplace(3.0, "replace-one").amplify(0.1)
    assert curve.delta(0.1) == pytest.approx(0.06803931, abs=5e-9)
    inside = math.log1p(math.expm1(0.1) / 0.1)
    assert curve.delta(0.1) == pytest.approx(0.1 * -math.expm1((inside - 3.0) / 2.0), rel=1e-12)


@pytest.mark.parametrize(
    ("rate", "queries", "mu", "amplified", "in_sample"), [(0.1, 10, 0.5, 5.21, 8.31), (0.01, 100, 0.3, 10.4, None)]
)
def test_many_gaussian_queries_on_one_poisson_sample_compose_first_and_amplify_once(rate, queries, mu, amplified, in_sample):
    one = ds.PrivacyProfile.gaussian(mu, "add-remove")
    together = one.compose(*[one] * (queries - 1))
    digits = 2 if in_sample else 1
    assert round(outside(ds.poisson(rate), together, ADD_REMOVE).epsilon(1e-6), digits) == amplified
    if in_sample:
        assert round(together.epsilon(1e-6), 2) == in_sample


def test_ten_laplace_queries_on_one_percent_cost_0_906_and_not_the_sum_of_ten_amplified_ones():
    one = pure(0.5, "add-remove")
    together = one.compose(*[one] * 9)
    assert outside(ds.poisson(0.01), together, ADD_REMOVE).epsilon(0.0) == pytest.approx(0.906, abs=5e-4)
    assert 10 * outside(ds.poisson(0.01), one, ADD_REMOVE).epsilon(0.0) == pytest.approx(0.065, abs=5e-4)


def test_bernoulli_inside_strata_at_rate_a_tenth_and_epsilon_1_is_0_159():
    design = ds.stratified("region", within=ds.poisson(0.1))
    assert outside(design, pure(1.0, "add-remove"), ADD_REMOVE).epsilon(0.0) == pytest.approx(0.159, abs=5e-4)
