"""Empirical Bayes: the prior that the keys of a bank suggest, by generalized least squares and EM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.live.bank.prior import LARGEST_SD, Prior
from calibrant.live.bank.steps import JAA, JAB, JBB, ROWS, VA, VB
from calibrant.messages import InputError
from calibrant.numerics import Floats

MOST_STEPS, CLOSE = 200, 1e-4
"""Steps of EM at most, and the relative change of the variances at which it ends."""

SMALLEST_ESTIMATE = 0.02
"""Smallest standard deviation between keys that is estimated; a prior without spread would never be left."""

FEWEST_KEYS = 5
"""Keys from which on a spread between keys can be estimated."""

INFORMED = 1.0
"""Expected information about the level from which on a key says how far keys differ.

It is the rows of the key times the mean of p (1 - p) over all rows: it must not depend on the key's own outcomes, since
keys with many events would be chosen. The records approximate the likelihood of a key by a parabola. With a row or two
it is far from one: a surprising row with p near 0 or 1 seems to say that the key is off by any amount.
"""


def estimated_prior(records: Floats, frame: tuple[float, float], prior: Prior) -> Prior:
    """The prior under which the records are most likely, given that keys are normal around it.

    The mean is that of all keys. Standard deviations are those of keys with enough rows; if these are too few, they
    stay as they are.

    Parameters
    ----------
    records
        Records of the keys of one crossing, in an order that depends on the keys alone, so that sums have the same
        bits in every bank with these keys.
    frame
        Slope and intercept that the records are about less.
    prior
        Where EM starts, and where the standard deviations of other crossings come from.
    """
    if len(records) < FEWEST_KEYS:
        raise InputError("bank", f"has {len(records)} keys", f"learn at least {FEWEST_KEYS}, or pass a Prior")
    jbb = float(records[:, JBB].sum())
    if not jbb > 0.0:
        raise InputError("bank", "has learned no rows that say anything about the level", "learn more rows")
    c = float(records[:, JAB].sum()) / jbb
    enough = records[:, ROWS] * (jbb / float(records[:, ROWS].sum())) >= INFORMED
    # Columns in the coordinates (slope, level at the center), in which the prior is independent.
    j12 = records[:, JAB] - c * records[:, JBB]
    j11, j22 = records[:, JAA] - c * (records[:, JAB] + j12), records[:, JBB]
    v1, v2 = records[:, VA] - c * records[:, VB], records[:, VB]
    level, along = (float(x) ** 2 for x in prior.sds(np.size(prior.level_sd))[0])
    if int(enough.sum()) >= FEWEST_KEYS:
        some = (j11[enough], j12[enough], j22[enough], v1[enough], v2[enough])
        for _ in range(MOST_STEPS):
            new = _variances(*some, along, level, _mean(*some, along, level))
            done = abs(new[0] / along - 1.0) < CLOSE and abs(new[1] / level - 1.0) < CLOSE
            along, level = new
            if done:
                break
    mean = _mean(j11, j12, j22, v1, v2, along, level)
    slope = frame[0] + mean[0]
    intercept = frame[1] + mean[1] - c * mean[0]
    center = min(max(1.0 / (1.0 + np.exp(-c)), 1e-6), 1.0 - 1e-6)
    sds = {"level_sd": level**0.5, "slope_sd": along**0.5}
    for name, sd in sds.items():
        before = getattr(prior, name)
        sds[name] = (sd, *before[1:]) if isinstance(before, tuple) else sd
    return replace(prior, slope=slope, intercept=intercept, center=float(center), **sds)


def _mean(
    j11: Floats, j12: Floats, j22: Floats, v1: Floats, v2: Floats, along: float, level: float
) -> tuple[float, float]:
    """Generalized least squares: the mean of the keys, given their variances."""
    # (I + J T)^-1 of each key, applied to J and to v.
    a, b, c, d = 1.0 + j11 * along, j12 * level, j12 * along, 1.0 + j22 * level
    det = a * d - b * c
    w11, w12, w22 = (
        ((d * j11 - b * j12) / det).sum(),
        ((d * j12 - b * j22) / det).sum(),
        ((a * j22 - c * j12) / det).sum(),
    )
    u1, u2 = ((d * v1 - b * v2) / det).sum(), ((a * v2 - c * v1) / det).sum()
    # Keys that say nothing about the slope leave it at that of the frame.
    w11 = w11 + 1e-9
    whole = w11 * w22 - w12 * w12
    return float((w22 * u1 - w12 * u2) / whole), float((w11 * u2 - w12 * u1) / whole)


def _variances(
    j11: Floats, j12: Floats, j22: Floats, v1: Floats, v2: Floats, along: float, level: float, mean: tuple[float, float]
) -> tuple[float, float]:
    """One step of EM: mean squares of the deviations of keys, given their records."""
    q11, q22 = j11 + 1.0 / along, j22 + 1.0 / level
    det = q11 * q22 - j12 * j12
    r1, r2 = v1 + mean[0] / along, v2 + mean[1] / level
    d1, d2 = (q22 * r1 - j12 * r2) / det - mean[0], (q11 * r2 - j12 * r1) / det - mean[1]
    least, most = SMALLEST_ESTIMATE**2, LARGEST_SD**2
    found = (float((q22 / det + d1 * d1).mean()), float((q11 / det + d2 * d2).mean()))
    return min(max(found[0], least), most), min(max(found[1], least), most)
