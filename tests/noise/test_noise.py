"""The noise is the stated noise: accepted at its scale, rejected 30 % to either side, and never less than the charge allows.

OpenDP's samplers take no seed, so every statistical test here draws afresh. False alarms are bounded by exact
binomial tails (no normal or chi-square approximation), and the chance of missing a scale that is 30 % off is
computed and asserted too.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import dpsurvey
from dpsurvey.errors import BadValue
from dpsurvey.mechanism import MECHANISMS, Gaussian, Laplace, Mechanism
from dpsurvey.mechanism.base import LARGEST_SUM
from dpsurvey.privacy.profile import PrivacyProfile

DRAWS = 20_000
FALSE_ALARM = 1e-6
MISS = 1e-9
BINS = 12
# A lattice step of 1 (counts), a few steps, and a fine lattice as means use it (2^20 steps per unit).
SCALES = {"laplace": (0.5, 3.0, 2**20 / 0.56), "gaussian": (0.7, 5.0, 60_000.0)}
CASES = [(MECHANISMS[kind], scale) for kind, scales in SCALES.items() for scale in scales]

Cdf = Callable[[int], float]


def laplace_cdf(scale: float) -> Cdf:
    """P(noise <= k) when P(k) is proportional to e^(-|k|/scale)."""
    q = math.exp(-1.0 / scale)
    return lambda k: 1.0 - q ** (k + 1) / (1.0 + q) if k >= 0 else q**-k / (1.0 + q)


def gaussian_cdf(scale: float) -> Cdf:
    """P(noise <= k) when P(k) is proportional to e^(-k^2/(2 scale^2)), by summing the law itself."""
    reach = math.ceil(12.0 * scale) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    below = np.cumsum(weights) / weights.sum()
    return lambda k: 0.0 if k < -reach else 1.0 if k > reach else float(below[k + reach])


def cdf_of(mechanism: type[Mechanism], scale: float) -> Cdf:
    return laplace_cdf(scale) if mechanism is Laplace else gaussian_cdf(scale)


def quantile(cdf: Cdf, level: float, scale: float) -> int:
    """The least k with P(noise <= k) >= level."""
    low, high = -math.ceil(60.0 * scale) - 60, math.ceil(60.0 * scale) + 60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cdf(middle) >= level else (middle, high)
    return high


def bins_of(cdf: Cdf, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Upper ends of bins of about equal probability (the last is open), and their exact probabilities."""
    ends = np.unique([quantile(cdf, index / BINS, scale) for index in range(1, BINS)])
    return ends, np.diff([0.0, *(cdf(int(end)) for end in ends), 1.0])


def limits(chances: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts outside [low, high] in any bin happen with probability at most FALSE_ALARM: exact tails, shared over the bins."""
    each = FALSE_ALARM / (2.0 * len(chances))
    low = binom.ppf(each, draws, chances)
    high = binom.isf(each, draws, chances)
    assert np.all(binom.cdf(low - 1, draws, chances) <= each)
    assert np.all(binom.sf(high, draws, chances) <= each)
    return low, high


def fits(noise: np.ndarray, mechanism: type[Mechanism], scale: float) -> bool:
    """Whether draws look like the exact law at a scale; wrong for that very law with probability at most FALSE_ALARM."""
    ends, chances = bins_of(cdf_of(mechanism, scale), scale)
    counts = np.bincount(np.searchsorted(ends, noise, side="left"), minlength=len(chances))
    low, high = limits(chances, len(noise))
    return bool(np.all((counts >= low) & (counts <= high)))


def chance_of_missing(mechanism: type[Mechanism], claimed: float, cdf: Cdf) -> float:
    """An upper bound on P(fits at `claimed`) for draws from another law: its most telling bin would have to stay inside."""
    ends, chances = bins_of(cdf_of(mechanism, claimed), claimed)
    low, high = limits(chances, DRAWS)
    actual = np.diff([0.0, *(cdf(int(end)) for end in ends), 1.0])
    inside = binom.cdf(high, DRAWS, actual) - binom.cdf(low - 1, DRAWS, actual)
    return float(inside.min())


def draw(mechanism: type[Mechanism], scale: float) -> np.ndarray:
    return np.array(mechanism(scale, 1.0).randomize([0] * DRAWS))


@pytest.mark.parametrize(("mechanism", "scale"), CASES)
def test_the_noise_is_accepted_at_its_scale(mechanism: type[Mechanism], scale: float) -> None:
    # False alarm: at most 1e-6 by exact binomial tails, whatever OpenDP draws.
    assert fits(draw(mechanism, scale), mechanism, scale)


@pytest.mark.parametrize("factor", [1.3, 0.7])
@pytest.mark.parametrize(("mechanism", "scale"), CASES)
def test_noise_whose_scale_is_30_percent_off_is_rejected(mechanism: type[Mechanism], scale: float, factor: float) -> None:
    # The same test, on real draws at another scale. It would miss them with probability below 1e-9, computed here.
    assert chance_of_missing(mechanism, scale, cdf_of(mechanism, factor * scale)) < MISS
    assert not fits(draw(mechanism, factor * scale), mechanism, scale)


@pytest.mark.parametrize(("mechanism", "other"), [(Laplace, Gaussian), (Gaussian, Laplace)])
def test_the_law_is_told_apart_from_the_other_law_of_the_same_variance(
    mechanism: type[Mechanism], other: type[Mechanism]
) -> None:
    scale = 50.0
    same_variance = scale * math.sqrt(2.0) if other is Gaussian else scale / math.sqrt(2.0)
    assert abs(other(same_variance, 1.0).variance / mechanism(scale, 1.0).variance - 1.0) < 1e-3
    assert chance_of_missing(mechanism, scale, cdf_of(other, same_variance)) < MISS
    assert not fits(draw(other, same_variance), mechanism, scale)


def agreements(first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
    """How often two noises have the same sign, among the pairs where both are non-zero."""
    signs = np.sign(first) * np.sign(second)
    return int(np.sum(signs > 0)), int(np.sum(signs != 0))


def look_independent(first: np.ndarray, second: np.ndarray) -> bool:
    """Signs of independent symmetric noise agree like fair coins; false alarm at most 1e-6, exact binomial."""
    same, pairs = agreements(first, second)
    return 2.0 * min(float(binom.cdf(same, pairs, 0.5)), float(binom.sf(same - 1, pairs, 0.5))) > FALSE_ALARM


@pytest.mark.parametrize(("mechanism", "scale"), CASES)
def test_components_and_calls_get_noise_of_their_own(mechanism: type[Mechanism], scale: float) -> None:
    # Two checks of 1e-6 each: neighbours in one vector, and the same place in two calls.
    one, two = draw(mechanism, scale), draw(mechanism, scale)
    assert look_independent(one[:-1:2], one[1::2])
    assert look_independent(one, two)
    # Power: noise that is shared, or shared with the sign turned, is seen.
    assert not look_independent(one, one)
    assert not look_independent(one, -one)


@pytest.mark.parametrize(("mechanism", "scale"), [(Laplace, 3.0), (Gaussian, 5.0)])
def test_noise_is_added_to_the_sum_it_is_given(mechanism: type[Mechanism], scale: float) -> None:
    sums = [10**12, -(10**12), 7]
    for noisy, exact in zip(mechanism(scale, 1.0).randomize(sums), sums, strict=True):
        # 60 scales out: probability below 1e-25 for either law.
        assert abs(noisy - exact) < 60.0 * scale


@pytest.mark.parametrize("scale", [0.05, 0.3, 0.5, 1.0, 2.7, 40.0, 900.0])
def test_the_variance_of_laplace_noise_is_that_of_the_exact_law(scale: float) -> None:
    reach = math.ceil(60.0 * scale) + 5
    weights = [math.exp(-abs(k) / scale) for k in range(-reach, reach + 1)]
    exact = math.fsum(k * k * weight for k, weight in zip(range(-reach, reach + 1), weights, strict=True)) / math.fsum(weights)
    assert Laplace(scale, 1.0).variance == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.7, 40.0, 900.0])
def test_the_variance_of_gaussian_noise_is_that_of_the_exact_law_to_six_digits(scale: float) -> None:
    assert Gaussian(scale, 1.0).variance == pytest.approx(exact_gaussian_variance(scale), rel=1e-6)


@pytest.mark.parametrize("scale", [0.2, 0.5, 0.7, 0.9, 1.0, 40.0])
def test_the_variance_of_gaussian_noise_is_never_understated(scale: float) -> None:
    assert Gaussian(scale, 1.0).variance >= exact_gaussian_variance(scale) * (1.0 - 1e-12)


def exact_gaussian_variance(scale: float) -> float:
    steps = range(-math.ceil(12.0 * scale) - 5, math.ceil(12.0 * scale) + 6)
    weights = [math.exp(-0.5 * (k / scale) ** 2) for k in steps]
    return math.fsum(k * k * weight for k, weight in zip(steps, weights, strict=True)) / math.fsum(weights)


EPSILONS = [float(each) for each in np.geomspace(1e-3, 20.0, 30)] + [0.1, 1.0, 3.0, 1.0 / 3.0]
SENSITIVITIES = [1.0, 2.0, 3.0, 7.0, 2.0**20, 2.0**21, 2.0**20 + 2.0, 999_983.0]


def test_the_laplace_scale_is_never_below_sensitivity_over_epsilon_and_opendp_agrees() -> None:
    for epsilon in EPSILONS:
        for sensitivity in SENSITIVITIES:
            check_laplace(epsilon, sensitivity)


def test_the_gaussian_scale_is_never_below_sensitivity_over_root_two_rho_and_opendp_agrees() -> None:
    for rho in EPSILONS:
        for sensitivity in (*SENSITIVITIES, math.sqrt(2.0) * 2**20 * (1.0 + 1e-12)):
            check_gaussian(rho, sensitivity)


@given(st.floats(1e-3, 20.0), st.integers(1, 2**22))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_charge_and_any_sensitivity_err_to_the_private_side(amount: float, sensitivity: int) -> None:
    check_laplace(amount, float(sensitivity))
    check_gaussian(amount, float(sensitivity))


def check_laplace(epsilon: float, sensitivity: float) -> None:
    mechanism = Laplace.calibrate(PrivacyProfile.pure(epsilon, "add-remove"), sensitivity)
    # In exact rational arithmetic, so that no rounding can hide a shortfall; and not wastefully above.
    assert Fraction(mechanism.scale) * Fraction(epsilon) >= Fraction(sensitivity)
    assert mechanism.scale <= sensitivity / epsilon * (1.0 + 1e-14)
    assert mechanism._measurement().map(math.ceil(sensitivity)) <= epsilon
    # What is claimed of this noise is at least what OpenDP proves of it.
    assert mechanism.profile("add-remove").epsilon(0.0) >= mechanism._measurement().map(math.ceil(sensitivity))


def check_gaussian(rho: float, sensitivity: float) -> None:
    mechanism = Gaussian.calibrate(PrivacyProfile.zcdp(rho, "add-remove"), sensitivity)
    assert 2 * Fraction(rho) * Fraction(mechanism.scale) ** 2 >= Fraction(sensitivity) ** 2
    assert mechanism.scale <= sensitivity / math.sqrt(2.0 * rho) * (1.0 + 1e-14)
    assert mechanism._measurement().map(sensitivity) <= rho
    assert mechanism.profile("add-remove").curve.rho >= mechanism._measurement().map(sensitivity)  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", [Laplace, Gaussian])
@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, float("nan")])
def test_no_noise_is_no_release(mechanism: type[Mechanism], scale: float) -> None:
    with pytest.raises(BadValue, match="positive noise scale"):
        mechanism(scale, 1.0).randomize([1, 2, 3])


@pytest.mark.parametrize("mechanism", [Laplace, Gaussian])
def test_a_sum_that_noise_could_carry_past_64_bits_is_refused(mechanism: type[Mechanism]) -> None:
    for sums in ([LARGEST_SUM + 1], [0, -LARGEST_SUM - 1], [2**63], [2**200]):
        with pytest.raises(BadValue, match="too large"):
            mechanism(3.0, 1.0).randomize(sums)
    assert abs(mechanism(3.0, 1.0).randomize([LARGEST_SUM])[0] - LARGEST_SUM) < 200


def test_a_noise_smaller_than_its_sensitivity_needs_is_refused_by_opendps_own_map() -> None:
    # Whole steps are what integer sums move by: a sensitivity of 1.5 steps is 2 to OpenDP, which the profile does not claim.
    with pytest.raises(BadValue, match="privacy map"):
        Laplace(10.0, 1.5).randomize([0])


def noise_calls(source: str) -> list[str]:
    """Calls of a random generator's noise, and imports of other random modules, in a piece of source."""
    noisy = {"laplace", "normal", "standard_normal", "geometric", "exponential", "gumbel", "logistic", "gauss", "normalvariate"}
    modules = {"random", "numpy.random", "scipy.stats.sampling"}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if (node.func.attr in noisy or node.func.attr == "rvs") and not owner.endswith(("PrivacyProfile", "cls")):
                found.append(f"{owner}.{node.func.attr}")
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in modules]
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in modules:
            found.append(str(node.module))
    return found


@pytest.mark.parametrize(
    "source",
    [
        "rng.laplace(0, 1)",
        "np.random.default_rng().normal(size=3)",
        "generator.geometric(p, 10)",
        "import random",
        "from numpy.random import default_rng",
        "scipy.stats.dlaplace.rvs(1.0)",
    ],
)
def test_the_search_for_noise_sees_noise(source: str) -> None:
    assert noise_calls(source)


def test_the_search_for_noise_lets_profiles_be() -> None:
    assert not noise_calls("PrivacyProfile.laplace(1.0, 'both'); cls.gaussian(1.0)")


def test_no_release_noise_comes_from_anywhere_but_opendp() -> None:
    root = Path(dpsurvey.__file__).parent
    files = list(root.rglob("*.py"))
    assert len(files) > 30
    # The demo makes a synthetic register from a fixed seed; it is public test data, and no noise of a release. The gaps
    # between drawn rows are geometric, from the cryptographic generator of draws. Predictions are simulated from declared
    # figures alone, with a fixed seed: they read no rows, and nothing of them is released. The papers' own simulations are
    # of public or made-up populations, in a package of their own.
    others = {root / name for name in ("survey/demo.py", "engine/draw/generator.py", "statistic/predict/simulated_error.py")}
    assert all(noise_calls(path.read_text()) for path in others)
    found = {
        str(path.relative_to(root)): noise_calls(without_simulations(path.read_text())) for path in files if path not in others
    }
    assert {name: calls for name, calls in found.items() if calls} == {}


def without_simulations(source: str) -> str:
    """A file without its methods `simulated`, by which a mechanism says what its noise is like for predictions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [each for each in node.body if getattr(each, "name", "") != "simulated"] or [ast.Pass()]
    return ast.unparse(tree)


def test_simulated_noise_is_asked_for_by_predictions_alone() -> None:
    root = Path(dpsurvey.__file__).parent
    calls = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if ".simulated(" in path.read_text()}
    # The noise of added sums is simulated as that of one of them.
    assert calls == {"statistic/predict/simulated_error.py", "mechanism/added_noise.py"}
    assert noise_calls(
        without_simulations("class A:\n def simulated(self): random.normal(0)\n def answer(self): random.normal(0)")
    )
    assert not noise_calls(without_simulations("class A:\n def simulated(self): random.normal(0)"))


def test_opendps_measurements_are_made_in_the_mechanisms_alone_and_releases_are_randomized_by_them() -> None:
    root = Path(dpsurvey.__file__).parent
    makers = {str(path.relative_to(root)) for path in root.rglob("*.py") if "dp.m.make_" in path.read_text()}
    noise = ("laplace", "gaussian", "gaussian_mu", "exponential")
    assert makers == {f"mechanism/{name}.py" for name in noise}
    assert "engine.answered(item.query, item.mechanism.answer)" in (root / "survey" / "survey.py").read_text()
