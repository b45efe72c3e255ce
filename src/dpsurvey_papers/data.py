"""The populations that Hu, Drechsler and Kim simulate, value by value as R makes them from seed 123."""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np
import numpy.typing as npt

from dpsurvey.errors import BadValue, did_you_mean

# The public range of each; that of the lognormal one is not printed in the paper, and chosen here.
BOUNDS = {"beta": (0.0, 1.0), "lognormal": (0.0, 2000.0), "bimodal": (0.0, 1.0)}


def population(name: str) -> npt.NDArray[np.float64]:
    """10,001 sorted values: "beta" (section 2.4), "lognormal" (section 4.3) or "bimodal" (section 4.4 and appendix B).

    >>> values = population("bimodal")
    >>> len(values), round(float(np.median(values)), 10)
    (10001, 0.2109246408)
    """
    if name not in BOUNDS:
        raise BadValue(f"no population is called {name!r}", hint=did_you_mean(name, BOUNDS))
    packed = resources.files("dpsurvey_papers").joinpath("data", f"{name}123.txt.gz").read_bytes()
    return np.sort(np.array(gzip.decompress(packed).split(), dtype=np.float64))


def bounds_of(name: str) -> tuple[float, float]:
    """The public range of a population. The lognormal one's is [0, 2000] here, because the paper does not state it.

    >>> bounds_of("lognormal")
    (0.0, 2000.0)
    """
    if name not in BOUNDS:
        raise BadValue(f"no population is called {name!r}", hint=did_you_mean(name, BOUNDS))
    return BOUNDS[name]
