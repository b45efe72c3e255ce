"""The smooth sensitivity by its definition, distance by distance: what the quick algorithms are compared with."""

import math

import numpy as np

from dpsurvey.mechanism.order_statistic import FAINTEST, global_sensitivity


def smooth_sensitivity_by_distance(ordered, place, beta, low, high):
    """S = max over k of e^(-k beta) A^(k), A^(k) the largest local sensitivity at k changed values.

    >>> from dpsurvey.mechanism.order_statistic import Place
    >>> round(smooth_sensitivity_by_distance([2, 3, 7], Place.median(3), 0.5, 0, 10), 6)
    4.245715
    """
    padded = np.concatenate([[low], np.clip(np.asarray(ordered, dtype=float), low, high), [high]])
    # What is fainter than this is not followed: the pair of the two bounds stands for it.
    best = place.parts * global_sensitivity(place, low, high) * math.exp(-min(FAINTEST, beta * place.size))
    for distance in range(place.size + 2 - place.parts):
        weight = math.exp(-beta * distance)
        if weight * (high - low) <= best:
            break
        # A pair that begins below rank 0 or ends above rank n + 1 equals one inside with fewer changes.
        first = max(0, place.lower - 1 - distance)
        last = min(place.lower, place.size + 1 - distance - place.parts)
        gaps = padded[first + distance + place.parts : last + 1 + distance + place.parts] - padded[first : last + 1]
        best = max(best, weight * float(gaps.max()))
    return best / place.parts
