"""What a public cap buys, on the units of a cluster or on the probability of a unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..design import Design, cluster, invert, poisson, srs
from ..design.amplify import amplify
from ..design.checks import check_count, check_rate
from ..errors import BadValue
from ..privacy.relation import Relation

Row = dict[str, Any]
CAPS = (100, 50, 20, 10, 5, 2, 1)
PROBABILITIES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def caps(epsilon: float, rate: float, *, clusters: int = 1000, largest: Mapping[str, Iterable[float]] | None = None) -> list[Row]:
    """What a public cap buys: on the units of a cluster, and on the probability of a unit. Losses are add-remove.

    `epsilon` is the guarantee for the frame; `epsilon_in_sample` what may then be spent on the sample, `noise` the noise over
    that without any amplification. A cap is a bound that the frame keeps, or is made to keep: larger clusters are divided, or
    sizes cut, before anything is drawn. Clusters are drawn whole, so their number is rounded up and `rate` is what results.

    >>> [(row["cap"], round(row["noise"], 3)) for row in caps(1.0, 0.05) if row["kind"] == "units of a cluster"][-2:]
    [(2.0, 0.8), (1.0, 0.505)]
    """
    check_rate("rate", rate)
    check_count("clusters", clusters)
    if not 0.0 < epsilon < float("inf"):
        raise BadValue("epsilon must be positive", given=f"epsilon={epsilon}")
    # No cap on probabilities is below the average of them.
    possible = [each for each in PROBABILITIES if each > rate] + [rate]
    given = largest or {"units of a cluster": CAPS, "probability of a unit": possible}
    rows: list[Row] = []
    for kind, figures in given.items():
        for cap in figures:
            here = rate
            if kind == "units of a cluster":
                if cap != int(cap):
                    raise BadValue("a cap on clusters is a whole number of units", given=f"{cap}")
                check_count("a cap on clusters", int(cap))
                # Rounded up, and the rate that results is the one that is shown.
                drawn = min(clusters, math.ceil(rate * clusters - 1e-9))
                design: Design = cluster("cluster", srs(n=drawn), clusters=clusters, cap=int(cap))
                here = drawn / clusters
            elif kind == "probability of a unit":
                check_rate("the largest probability", cap)
                design = poisson(float(cap))
            else:
                raise BadValue(f"nothing is known of a cap on {kind!r}", hint="units of a cluster, or probability of a unit")
            found = invert(design, epsilon, base=Relation.ADD_REMOVE, neighbours=Relation.ADD_REMOVE)
            spent = found.spent_epsilon if found.refused is None else epsilon
            own = amplify(design, epsilon, base=Relation.ADD_REMOVE, neighbours=Relation.ADD_REMOVE)
            rows.append(
                {
                    "kind": kind,
                    "cap": float(cap),
                    "rate": here,
                    "epsilon": epsilon,
                    "epsilon_in_sample": spent,
                    "noise": epsilon / spent,
                    "epsilon_of_same_noise": own.epsilon,
                }
            )
    return rows
