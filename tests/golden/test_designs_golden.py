"""The papers' figures about designs, to nine digits, through `amplify`, `invert` and the functions beside them.

The figures are in designs.json, with what made them. Each name has one function here that asks the package for the
same quantity, so a figure without a function, or a function without a figure, fails. What the package does not
compute, because a paper's form is false or superseded, is named there under "left_out".
"""

import json
import math
from pathlib import Path

import pytest

import dpsurvey as ds
from dpsurvey import PrivacyProfile
from dpsurvey.design import fixed_sizes
from dpsurvey.design.allocation.takes import neyman
from dpsurvey.design.amplify import amplify, invert
from dpsurvey.loss.bound import Losses
from dpsurvey.loss.curves import largest_below
from dpsurvey.loss.hypothesis_tests import advantage
from dpsurvey.loss.worst_case import worst_loss
from dpsurvey.privacy.posterior import posterior_bounds
from dpsurvey_papers.controlling_loss import printed
from dpsurvey_papers.controlling_loss.corrected import allocation_error_floor, allocation_steps, cluster_test

pytestmark = pytest.mark.quick

HELD = json.loads((Path(__file__).parent / "designs.json").read_text())
FIGURES, LEFT_OUT = HELD["figures"], HELD["provenance"]["left_out"]
# Both sides of the linear programme agree to a millionth; all else is a closed form or an exact chain.
TOLERANCE = {"systematic_insertion_worst": 1e-6}

ADD, REPLACE = "add-remove", "replace-one"
LAWS = {
    "binomial(4,.5)": ds.random_size(4, binomial=0.5),
    "binomial(4,.2), eps .5": ds.random_size(4, binomial=0.2),
    "uniform 0..4": ds.random_size(4, table=dict.fromkeys(range(5), 0.2)),
    "point 2 of 4": ds.random_size(4, table={2: 1.0}),
    "point 4 of 4": ds.random_size(4, table={4: 1.0}),
    "{1:.5,2:.5}": ds.random_size(4, table={1: 0.5, 2: 0.5}),
    "{0:.9,4:.1}": ds.random_size(4, table={0: 0.9, 4: 0.1}),
}


def loss(design, eps, base, neighbours):
    """The loss of a design that is known exactly: proved from above, and attained."""
    answer = amplify(design, eps, base=base, neighbours=neighbours)
    assert answer.exact
    assert answer.lower == pytest.approx(answer.epsilon, rel=1e-9)
    return answer.epsilon


def to_spend(design, target, base, neighbours):
    """The most that may be spent on the sample, which must keep the target."""
    answer = invert(design, target, base=base, neighbours=neighbours)
    assert answer.epsilon <= target
    return answer.spent_epsilon


def detail(design, eps, base, neighbours, name):
    return amplify(design, eps, base=base, neighbours=neighbours).details[name]


def srs(n, N):  # noqa: N803
    return ds.srs(n=n, size=N)


def by_rate(rate):
    return ds.srs(n=round(rate * 1000), size=1000)


def lifted_delta(design, delta, relation):
    """The delta of an (epsilon, delta) mechanism at its amplified epsilon, for two epsilons that must agree."""
    found = [amplify(design, eps, delta=delta, base=relation, neighbours=relation).delta for eps in (0.5, 2.0)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    return found[0]


def delta_to_spend(target_delta, n, N):  # noqa: N803
    above, below = target_delta.split("/")
    delta = int(above) / int(below)
    return invert(srs(n, N), 1.0, delta=delta, base=REPLACE, neighbours=REPLACE).spent_delta


def on_one_sample(eps, f):
    """Everything asked of one sample is composed, then amplified once."""
    each = [PrivacyProfile.pure(float(one), REPLACE) for one in eps]
    together = each[0].compose(*each[1:])
    return together.amplify(by_rate(f).largest_probability).epsilon(0.0)


def gaussian(n, sigma, **_):
    return ds.random_size(n, gaussian=(n / 2, sigma))


def clusters(sizes, changed, l):  # noqa: E741
    return ds.cluster("cluster", ds.srs(n=l), sizes=tuple(sizes), unit_in=changed + 1)


def around(sizes, changed, l):  # noqa: E741
    """The share of clusters that are drawn, the size of the changed one, and those of the others."""
    return l / len(sizes), sizes[changed], [size for place, size in enumerate(sizes) if place != changed]


def two_stage(k, l, r, **_):  # noqa: E741
    """The figures' clusters have 10 units each."""
    return ds.stages(ds.cluster("cluster", ds.srs(n=l), sizes=(10,) * k), ds.poisson(r))


def two_stage_plugged_in(k, l, r, eps, **_):  # noqa: E741
    inside = loss(ds.poisson(r), eps, ADD, ADD)
    return printed.cluster_upper(inside, l / k, 10, [10] * (k - 1))


def worst_insertion(N, k, eps):  # noqa: N803
    """The linear programme at every position of the list, certified from both sides."""
    design = ds.systematic(step=k, size=k * (N // k), order="as listed")
    found = [worst_loss(design.inserted_at(place), eps, ADD) for place in range(N + 1)]
    worst = max(found, key=lambda each: each.lower)
    assert worst.exact
    assert max(each.upper for each in found) == worst.upper
    stated = amplify(design, eps, base=ADD, neighbours=ADD)
    assert stated.lower <= worst.lower * (1 + 1e-9)
    assert worst.lower <= stated.epsilon
    return worst.lower


def rounded(N, r, eps, rounding, base):  # noqa: N803
    return loss(ds.proportional(r, rounding=rounding, size=N), eps, base, ADD)


ASK = {
    "amplify_srswor_eps": lambda eps, n, N: loss(srs(n, N), eps, REPLACE, REPLACE),  # noqa: N803
    "amplify_srswor_eps_inverse": lambda target_eps, n, N: to_spend(srs(n, N), target_eps, REPLACE, REPLACE),  # noqa: N803
    "amplify_srswor_delta": lambda delta, n, N: lifted_delta(srs(n, N), delta, REPLACE),  # noqa: N803
    "amplify_srswor_delta_inverse": delta_to_spend,
    "amplify_srswor_from_deletion_M": lambda eps, n, N: loss(srs(n, N), eps, ADD, REPLACE),  # noqa: N803
    "paper_5.15": lambda eps, rate: to_spend(by_rate(rate), eps, REPLACE, REPLACE),
    "paper_2.43": lambda eps, n, N: to_spend(srs(n, N), eps, REPLACE, REPLACE),  # noqa: N803
    "paper_5.14": lambda eps, n, N: to_spend(srs(n, N), eps, REPLACE, REPLACE),  # noqa: N803
    "eps_n_sim": lambda eps, n, N: to_spend(srs(n, N), eps, REPLACE, REPLACE),  # noqa: N803
    "sec2.4_claim": lambda eps, rate: loss(by_rate(rate), eps, REPLACE, REPLACE),
    "sec2.4_inverse": lambda target, rate: to_spend(by_rate(rate), target, REPLACE, REPLACE),
    "sec2.4_loss_if_followed": lambda eps, rate: loss(by_rate(rate), eps, REPLACE, REPLACE),
    "amplify_poisson_eps": lambda eps, p: loss(ds.poisson(p), eps, ADD, ADD),
    "amplify_poisson_eps_removal_direction": lambda eps, p: detail(ds.poisson(p), eps, ADD, ADD, "removal_direction"),
    "amplify_poisson_replacement_from_deletion_M": lambda eps, p: loss(ds.poisson(p), eps, ADD, REPLACE),
    "amplify_poisson_delta": lambda delta, p: lifted_delta(ds.poisson(p), delta, ADD),
    "poisson_eps_inverse": lambda target_eps, p: to_spend(ds.poisson(p), target_eps, ADD, ADD),
    "poisson_within_strata": lambda r, eps: loss(ds.proportional(r, rounding="none"), eps, ADD, ADD),
    "amplify_with_replacement_pure": lambda eps, draws, N: loss(ds.with_replacement(draws, size=N), eps, REPLACE, REPLACE),  # noqa: N803
    "shared_sample_terms": lambda eps, f: on_one_sample([eps], f),
    "shared_sample_composition": on_one_sample,
    "naive_sum": lambda eps, f: math.fsum(loss(by_rate(f), each, REPLACE, REPLACE) for each in eps),
    "posterior_ratio_upper": lambda prior, eps: posterior_bounds(prior, eps)[1],
    "posterior_ratio_lower": lambda prior, eps: posterior_bounds(prior, eps)[0],
    "chain_srswor_then_poisson_nonresponse": lambda f, p, eps: loss(ds.responding(by_rate(f), at_most=p), eps, ADD, REPLACE),
    "chain_poisson_poisson": lambda p1, p2, eps: loss(ds.responding(ds.poisson(p1), at_most=p2), eps, ADD, ADD),
    "thm31_tilted_mean": lambda t, n, eps: detail(LAWS[t], eps, ADD, REPLACE, "tilted_mean"),
    "thm31_lower": lambda t, n, eps: detail(LAWS[t], eps, ADD, REPLACE, "lower_closed_form"),
    "thm31_upper_corrected": lambda t, n, eps: detail(LAWS[t], eps, ADD, REPLACE, "upper_closed_form"),
    # What is printed holds for mechanisms of type both, and the package gives it for those alone.
    "thm31_upper_printed": lambda t, n, eps: detail(LAWS[t], eps, "both", REPLACE, "upper_closed_form"),
    "thm31_exact_deletion_only": lambda t, n, eps: loss(LAWS[t], eps, ADD, REPLACE),
    "thm31_exact_both": lambda t, n, eps: loss(LAWS[t], eps, "both", REPLACE),
    "fig2_tilted_mean": lambda eps, **law: detail(gaussian(**law), eps, "both", REPLACE, "tilted_mean"),
    "fig2_upper": lambda eps, **law: detail(gaussian(**law), eps, "both", REPLACE, "upper_closed_form"),
    "fig2_lower": lambda eps, **law: detail(gaussian(**law), eps, "both", REPLACE, "lower_closed_form"),
    "thm43_tight_deletion_only": lambda r, eps: loss(ds.proportional(r, rounding="random"), eps, ADD, ADD),
    "thm43_tight_both": lambda r, eps: loss(ds.proportional(r, rounding="random"), eps, "both", ADD),
    "thm43_tight_inverse": lambda target, r: to_spend(ds.proportional(r, rounding="random"), target, ADD, ADD),
    "thm43_printed": lambda r, eps: printed.rounding_theorem(eps, r),
    "thm43_inverse": lambda target, r: largest_below(lambda eps: printed.rounding_theorem(eps, r), target),
    "det_rounding_exact_deletion_only": lambda **given: rounded(**given, rounding="nearest", base=ADD),
    "rand_rounding_exact_deletion_only": lambda **given: rounded(**given, rounding="random", base=ADD),
    "rand_rounding_exact_both": lambda **given: rounded(**given, rounding="random", base="both"),
    "lemmaB1_printed": lambda N, m, m_prime, eps: printed.sample_size_lemma(N, m, m_prime, eps),  # noqa: N803
    "lemmaB1_tight": lambda N, m, m_prime, eps: fixed_sizes(N, m, m_prime, Losses.of(eps, ADD)),  # noqa: N803
    "cluster_upper": lambda eps, **drawn: printed.cluster_upper(eps, *around(**drawn)),
    "cluster_lower": lambda eps, **drawn: printed.cluster_lower(eps, *around(**drawn)),
    "cluster_exact": lambda eps, **drawn: loss(clusters(**drawn), eps, ADD, ADD),
    "cluster_exact_replacement": lambda eps, **drawn: loss(clusters(**drawn), eps, ADD, REPLACE),
    "cluster_uniform_cap": lambda k, l, cap, eps: loss(ds.cluster("cluster", ds.srs(n=l), clusters=k, cap=cap), eps, ADD, ADD),  # noqa: E741
    "two_stage_cluster_poisson_exact": lambda eps, **drawn: loss(two_stage(**drawn), eps, ADD, ADD),
    "two_stage_cluster_poisson_loose": two_stage_plugged_in,
    "thm53_corrected": lambda f, eps1, eps2: cluster_test(f, eps1, eps2),
    "pps_lower": lambda a, eps: amplify(
        ds.pps("size", probabilities=(a, 1 - a), measure="public", method="sampford"), eps, base="both", neighbours=REPLACE
    ).details["per_unit"][0],
    "pps_cluster_exact": lambda sizes, changed, eps: loss(
        ds.cluster("cluster", ds.pps("size", n=1), sizes=tuple(sizes), unit_in=changed + 1), eps, ADD, ADD
    ),
    "systematic_insertion_worst": worst_insertion,
    "adv_tight": lambda eps: advantage(eps),
    "prop42_slack_geometric": lambda eps: 10.0 - allocation_error_floor(10.0, eps),
    "neyman_E1_L1": lambda a, b: allocation_steps(a, b),
    "neyman_E1_sums": lambda a, b: [sum(a), sum(b)],
    "amplify_with_replacement_gamma": lambda eps, draws, N: detail(  # noqa: N803
        ds.with_replacement(draws, size=N), eps, REPLACE, REPLACE, "gamma_form_needs_delta"
    ),
    "thm53_printed": lambda f, eps1, eps2: printed.cluster_test(f, eps1, eps2),
    "adv_printed": lambda eps: printed.advantage(eps),
    "prop42_slack_printed": lambda eps: printed.allocation_slack(eps),
    "prop42_slack_correct": lambda eps: 10.0 - allocation_error_floor(10.0, eps, "laplace"),
    "neyman_allocation": lambda sizes, sd, m: neyman(sizes, sd, m),
}


def test_every_figure_is_asked_for_and_every_question_has_a_figure():
    names = {figure["name"] for figure in FIGURES}
    assert names == set(ASK)
    assert len(FIGURES) == 174
    assert set(TOLERANCE) <= names
    assert names.isdisjoint(LEFT_OUT)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure['paper']}-{figure['name']}-{figure['inputs']}"[:110])
def test_the_package_gives_the_figure(figure):
    found = ASK[figure["name"]](**figure["inputs"])
    assert found == pytest.approx(figure["value"], rel=TOLERANCE.get(figure["name"], 1e-9))


@pytest.mark.parametrize("p", [0.2, 0.5])
@pytest.mark.parametrize("base", [ADD, "both"])
def test_the_chain_gives_for_a_table_of_binomial_sizes_what_poisson_sampling_loses(p, base):
    table = ds.random_size(4, table={m: math.comb(4, m) * p**m * (1 - p) ** (4 - m) for m in range(5)})
    expected = loss(ds.poisson(p), 0.7, base, REPLACE)
    assert loss(table, 0.7, base, REPLACE) == pytest.approx(expected, rel=1e-9)
