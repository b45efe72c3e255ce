"""Why subsampling is useful: the mean of a sample with noise beside that of the whole data, at the same guarantee."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import dpsurvey as ds

from ..item import Result, Rows, Run

# n is a public constant here: under addition and removal the number of records is not.
N, EPSILON = 1_000, 1.0
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
CLOSE = 1e-6
SIMULATED = "simulated"
INK = "#2b2d33"


def spent(guarantee: float, rate: float) -> float:
    """ε_p: what may be spent on the sample.

    >>> round(spent(1.0, 0.01), 4)
    5.1523
    """
    return ds.invert(ds.poisson(rate), guarantee, base="add-remove", neighbours="add-remove").spent_epsilon


def values_of(n: int = N) -> Any:
    """q(x_i) of n records: fixed figures in [0, 1]."""
    return (np.arange(n) % 10) / 9.0


def variance(q: Any, rate: float, guarantee: float) -> tuple[float, float]:
    """Sampling and noise variance of the sampled mean.

    >>> variance(values_of(), 1.0, 1.0)[0]
    0.0
    """
    n = len(q)
    return (1.0 - rate) / (rate * n**2) * float((q**2).sum()), 2.0 / (spent(guarantee, rate) * rate * n) ** 2


def sampled_mean(run: Run) -> Result:
    """The sampled Laplace mean: unbiased, its variance, its guarantee."""
    q = values_of()
    truth, draws = float(q.mean()), run.draws(20_000, 2_000)
    rows: Rows = []
    far, off, kept = 0.0, 0.0, True
    for place, rate in enumerate(RATES):
        rng, noise = run.rng(place), spent(EPSILON, rate)
        drawn = np.concatenate([(rng.random((1_000, N)) < rate) @ q for _ in range(draws // 1_000)])
        found = drawn / (rate * N) + rng.laplace(0.0, 1.0 / (noise * rate * N), draws)
        sampling, noisy = variance(q, rate, EPSILON)
        exact = sampling + noisy
        far = max(far, abs(float(found.mean()) - truth) / math.sqrt(exact / draws))
        simulated, error = _variance(found)
        off = max(off, abs(simulated - exact) / error)
        kept &= abs(_loss(rate, noise) - EPSILON) < CLOSE
        sd, its_error = math.sqrt(simulated), error / (2.0 * math.sqrt(simulated))
        rows.append({"rate": rate, "part": SIMULATED, "sd": sd, "error": its_error})
    for step in range(41):
        sampling, noisy = variance(q, rate := 10.0 ** (-2.0 + step / 20.0), EPSILON)
        rows += [
            {"rate": rate, "part": "noise and sampling", "sd": math.sqrt(sampling + noisy)},
            {"rate": rate, "part": "noise alone", "sd": math.sqrt(noisy)},
        ]
    scaled = [math.sqrt(variance(values_of(n), 1.0, e)[1]) * n * e for n, e in itertools.product((100, 1_000), (0.1, 1.0))]
    return Result(
        rows,
        {
            "sampled mean": "unbiased" if far < 4.9 else "biased",
            "guarantee": "ε'" if kept else "another",
            "error of the whole": "O(1/(εn))" if max(scaled) - min(scaled) < 1e-6 * max(scaled) else "another",
        },
        "Its variance is (1 - p)/(pn²) Σq² + 2/(ε_p p n)², which the simulation "
        f"{'meets' if off < 4.9 else 'misses'} at every p; it is never below that of the whole data, since p ε_p ≤ ε'. Here n is "
        "1,000 and a public constant, as it must be: dividing by |x|, which a record more or less changes, is not covered.",
    )


def _variance(found: Any) -> tuple[float, float]:
    """A simulated variance and its standard error."""
    centred = (found - found.mean()) ** 2
    return float(found.var(ddof=1)), float(centred.std(ddof=1)) / math.sqrt(len(found))


def _loss(rate: float, noise: float) -> float:
    """The loss of the sampled Laplace mean for a record with q = 1 that is added: the largest log ratio of the two densities."""
    scale = 1.0 / (noise * rate * N)
    at = np.linspace(-5.0, 5.0, 2_001) * scale + np.array([[0.0], [1.0 / (rate * N)]])
    without, with_it = (np.exp(-np.abs(at - shift) / scale) for shift in (0.0, 1.0 / (rate * N)))
    ratio = (1.0 - rate) + rate * with_it / without
    return float(np.abs(np.log(ratio)).max())


def draw_sampled_mean(rows: Rows) -> Any:
    """Error by rate: noise, sampling, and both."""
    from ..pictures import lines, logarithmic, scatter, titled

    chart = lines(
        [row for row in rows if row["part"] != SIMULATED],
        "rate",
        "sd",
        "part",
        x_title="p",
        y_title="standard deviation of the mean",
        x_scale=logarithmic(0.01, 1.0),
        y_scale=logarithmic(),
        x_format="~%",
    )
    chart += scatter([row for row in rows if row["part"] == SIMULATED], "rate", "sd", colour=INK)
    return titled(
        chart,
        "A sampled mean at the same guarantee, ε' = 1",
        "n = 1,000; noise grows as p falls, and sampling comes on top; points: simulated",
    )


def limits(run: Run) -> Result:
    """What sampling cannot do: by how much the noise of a mean grows at the same guarantee."""
    rows: Rows = []
    grown, agrees = [], True
    for epsilon, step in itertools.product((0.01, 0.1, 1.0, 3.0), range(31)):
        rate = 10.0 ** (-3.0 + step / 10.0)
        inflation = epsilon / (rate * spent(epsilon, rate))
        agrees &= math.isclose(inflation, ds.planning.noise_inflation(epsilon, rate), rel_tol=CLOSE)
        rows.append({"epsilon": f"{epsilon:g}", "rate": rate, "inflation": inflation})
        grown += [inflation - 1.0] if rate < 0.99 else []
    bounds = [ds.planning.inflation_bound(c) for c in (0.1, 1.0, 10.0)]
    under = all(
        row["inflation"] <= ds.planning.inflation_bound(float(row["epsilon"]) / row["rate"]) * (1.0 + CLOSE) for row in rows
    )
    return Result(
        rows,
        {"noise of a mean": "limited" if min(grown) > CLOSE and under and agrees else "free"},
        "Noise grows by at most c/log(1 + c) where ε' is c times the rate: "
        f"{', '.join(f'{each:.2f}' for each in bounds)} for c = 0.1, 1, 10. It is about free only where ε' is well below p; "
        "what a sample saves is time.",
    )


def draw_limits(rows: Rows) -> Any:
    """Noise of the sample over noise of the whole, by rate."""
    from ..pictures import lines, logarithmic, titled

    chart = lines(
        rows,
        "rate",
        "inflation",
        "epsilon",
        x_title="p",
        y_title="noise of the sampled mean / of the whole",
        by_title="guaranteed ε'",
        x_scale=logarithmic(0.001, 1.0),
        y_scale=logarithmic(),
        x_format="~%",
    )
    return titled(
        chart,
        "The limit: noise of a mean never shrinks by sampling",
        "at the same guarantee it grows as p falls, up to c/log(1 + c) for ε' = c p",
    )
