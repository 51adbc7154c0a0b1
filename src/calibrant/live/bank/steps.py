"""Steps of a bank: Gaussian approximations of each key's likelihood, row by row or for many keys at once.

A record holds 8 numbers, 64 bytes. J and v approximate the log-likelihood of a key as a function of its map, by
``v'd - d'Jd / 2``, where d = (slope, intercept) less those of the frame. The prior is not in the record: with its
precision P and its mean m, less the frame, the map of the key is the frame plus

    d = (P + J)^-1 (P m + v).

A row with log-odds z, outcome y and weight w is forecast by p = expit(frame(z) + d'x), x = (z, 1). Then, with
h = p (1 - p), J becomes kept J + w h x x' and v becomes kept v + w (h d'x + y - p) x: a second-order expansion of the
row's log-likelihood at the current map.

There is one source for rows, in plain Python or compiled, and one for arrays. Both do the same IEEE operations in the
same order, with an exponential of their own, so that results agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from calibrant.numerics import Floats, Ints
from calibrant.online.kernels import Jit, Step, compiler, plain

WIDTH = 8
ROWS, JAA, JAB, JBB, VA, VB, EVENTS, CHANGED = range(WIDTH)
"""Numbers of a record: rows learned, J, v, weighted events, and the version of the bank at its last row."""

LARGEST = 36.0
"""Largest log-odds; beyond it, probabilities are 0 or 1 in double precision."""

FA, FB, MA, MB = range(4)
"""Numbers that all keys share: the frame, and the mean of the prior less the frame."""

LEVEL = 5
PAA, PAB, PBB, LEAST, KEPT = range(LEVEL)
"""Numbers of a level: the precision of its prior and its determinant, and the weight of a row one row later."""

BLOCK = 64
"""Rows whose records are read ahead, so that waiting times for memory overlap."""

FEWEST = 24
"""Keys from which on arrays are faster than rows in plain Python."""


# -------------------------------------------------------------------------------------------------------- exponential

PARTS = 64
"""Steps of the table of powers of 2 between 1 and 2."""


def _powers() -> tuple[Floats, float, float, float]:
    """2^(j / 64), 64 / log 2, and log 2 / 64 in two parts, of which the first has 20 bits."""
    with localcontext() as context:
        context.prec = 50
        table = np.array([float(Decimal(2) ** (Decimal(j) / PARTS)) for j in range(PARTS)])
        step = Decimal(2).ln() / PARTS
        high = float(int(step * 2**26)) / 2**26
        return table, float(1 / step), high, float(step - Decimal(high))


TABLE, PER_STEP, STEP_HIGH, STEP_LOW = _powers()
SCALES = np.exp2(np.arange(-53.0, 54.0))
C2, C3, C4, C5 = 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0


def _expit_steps(jit: Jit, floor: Callable[..., Any], table: Any, scales: Any) -> Step:
    """The logistic function of log-odds between -36 and 36."""
    per_step, high, low, c2, c3, c4, c5 = PER_STEP, STEP_HIGH, STEP_LOW, C2, C3, C4, C5

    @jit
    def expit(u: Any) -> Any:
        at = floor(0.5 - u * per_step)
        r = (-u - at * high) - at * low
        tail = r + (r * r) * ((c2 + r * c3) + (r * r) * (c4 + r * c5))
        k = int(at)
        scale = table[k & 63] * scales[(k >> 6) + 53]
        return 1.0 / (1.0 + (scale + scale * tail))

    return expit


def expit_many(u: Floats) -> Floats:
    """The same of an array."""
    at = np.floor(0.5 - u * PER_STEP)
    r = (-u - at * STEP_HIGH) - at * STEP_LOW
    tail = r + (r * r) * ((C2 + r * C3) + (r * r) * (C4 + r * C5))
    k = at.astype(np.int64)
    scale = TABLE[k & 63] * SCALES[(k >> 6) + 53]
    found: Floats = 1.0 / (1.0 + (scale + scale * tail))
    return found


# ---------------------------------------------------------------------------------------------------------- row by row


@cache
def row_steps(*, fast: bool) -> tuple[Step, Step]:
    """Loops over rows: forecast only, and forecast and learn.

    Arrays are flat: ``records`` has 8 numbers for each key, ``levels`` 5 for each level, and ``rows`` the place of the
    record of each level for each row, -1 if there is none.
    """
    jit = compiler() if fast else plain
    assert jit is not None
    powers = (np.floor, TABLE, SCALES) if fast else (math.floor, TABLE.tolist(), SCALES.tolist())
    expit = _expit_steps(jit, *powers)

    @jit
    def predict(records: Any, rows: Any, levels: Any, common: Any, z: Any, out: Any) -> None:
        fa, fb, depth = common[FA], common[FB], len(levels) // LEVEL
        for i in range(len(z)):
            da, db = common[MA], common[MB]
            for level in range(depth):
                if rows[i * depth + level] < 0:
                    continue
                s, c = rows[i * depth + level] * WIDTH, level * LEVEL
                paa, pab, pbb = levels[c + PAA], levels[c + PAB], levels[c + PBB]
                ra, rb = paa * da + pab * db + records[s + VA], pab * da + pbb * db + records[s + VB]
                qaa, qab, qbb = paa + records[s + JAA], pab + records[s + JAB], pbb + records[s + JBB]
                over = qaa * qbb - qab * qab
                over = 1.0 / (over if over > levels[c + LEAST] else levels[c + LEAST])
                da, db = (qbb * ra - qab * rb) * over, (qaa * rb - qab * ra) * over
            eta = fa * z[i] + fb + (da * z[i] + db)
            out[i] = expit(-LARGEST if eta < -LARGEST else LARGEST if eta > LARGEST else eta)

    @jit
    def learn(
        records: Any, rows: Any, levels: Any, common: Any, z: Any, y: Any, w: Any, versions: Any, out: Any
    ) -> float:
        fa, fb, ma, mb, depth = common[FA], common[FB], common[MA], common[MB], len(levels) // LEVEL
        n, ahead = len(z), 0.0
        for first in range(0, n, BLOCK):
            for j in range((first + BLOCK) * depth, min(first + 2 * BLOCK, n) * depth):
                ahead += records[rows[j] * WIDTH]
            for i in range(first, min(first + BLOCK, n)):
                x, e, weight = z[i], y[i], w[i]
                base, da, db, p = fa * x + fb, ma, mb, 0.0
                for level in range(depth):
                    s, c = rows[i * depth + level] * WIDTH, level * LEVEL
                    paa, pab, pbb, kept = levels[c + PAA], levels[c + PAB], levels[c + PBB], levels[c + KEPT]
                    jaa, jab, jbb = records[s + JAA], records[s + JAB], records[s + JBB]
                    va, vb = records[s + VA], records[s + VB]
                    ra, rb = paa * da + pab * db + va, pab * da + pbb * db + vb
                    qaa, qab, qbb = paa + jaa, pab + jab, pbb + jbb
                    over = qaa * qbb - qab * qab
                    over = 1.0 / (over if over > levels[c + LEAST] else levels[c + LEAST])
                    da, db = (qbb * ra - qab * rb) * over, (qaa * rb - qab * ra) * over
                    u = da * x + db
                    eta = base + u
                    p = expit(-LARGEST if eta < -LARGEST else LARGEST if eta > LARGEST else eta)
                    h = weight * (p * (1.0 - p))
                    g, hx = weight * (e - p) + h * u, h * x
                    records[s + ROWS] += 1.0
                    records[s + JAA] = kept * jaa + hx * x
                    records[s + JAB] = kept * jab + hx
                    records[s + JBB] = kept * jbb + h
                    records[s + VA] = kept * va + g * x
                    records[s + VB] = kept * vb + g
                    records[s + EVENTS] += weight * e
                    records[s + CHANGED] = versions[i]
                out[i] = p
        return ahead

    return predict, learn


# ------------------------------------------------------------------------------------------------------ whole arrays


def predict_many(records: Floats, rows: Ints, levels: Floats, common: Floats, z: Floats) -> Floats:
    """Forecasts with numpy alone; ``rows`` has a column for each level."""
    eta = common[FA] * z + common[FB] + _deviation(records.reshape(-1, WIDTH), rows, levels, common, z)
    return expit_many(np.clip(eta, -LARGEST, LARGEST))


def _deviation(table: Floats, rows: Ints, levels: Floats, common: Floats, z: Floats) -> Floats:
    """Log-odds beyond the frame."""
    da, db = np.full(len(z), common[MA]), np.full(len(z), common[MB])
    for level in range(rows.shape[1]):
        known = np.flatnonzero(rows[:, level] >= 0)
        found = _solved(table[rows[known, level]], levels[level * LEVEL :], da[known], db[known])
        da[known], db[known] = found
    deviation: Floats = da * z + db
    return deviation


def _solved(s: Floats, level: Floats, da: Floats, db: Floats) -> tuple[Floats, Floats]:
    """The deviations of keys with these records, given the means of their priors."""
    paa, pab, pbb = level[PAA], level[PAB], level[PBB]
    ra, rb = paa * da + pab * db + s[:, VA], pab * da + pbb * db + s[:, VB]
    qaa, qab, qbb = paa + s[:, JAA], pab + s[:, JAB], pbb + s[:, JBB]
    over = 1.0 / np.maximum(qaa * qbb - qab * qab, level[LEAST])
    return (qbb * ra - qab * rb) * over, (qaa * rb - qab * ra) * over


def maps_of(records: Floats, level: Floats, common: Floats) -> tuple[Floats, Floats]:
    """Slopes and intercepts of keys of the first level."""
    mean = np.broadcast_to(common[MA], len(records)), np.broadcast_to(common[MB], len(records))
    da, db = _solved(records, level, *mean)
    return common[FA] + da, common[FB] + db


def learn_many(
    records: Floats, rows: Ints, levels: Floats, common: Floats, z: Floats, y: Floats, w: Floats, versions: Floats
) -> Floats:
    """Forecast and learn with numpy alone: the first row of every key, then the second, and so on.

    Keys of which many rows are left at the end, and rows with several levels, are learned one by one.
    """
    out, table = np.empty(len(z)), records.reshape(-1, WIDTH)
    left = np.arange(len(z))
    if rows.shape[1] == 1:
        order, starts = _in_turns(rows[:, 0])
        done = 0
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            if end - start < FEWEST:
                break
            turn = order[start:end]
            out[turn] = _one_turn(table, rows[turn, 0], levels, common, z[turn], y[turn], w[turn], versions[turn])
            done = end
        left = np.sort(order[done:])
    if len(left):
        out[left] = _row_by_row(table, rows[left], levels, common, z[left], y[left], w[left], versions[left])
    return out


def _in_turns(places: Ints) -> tuple[Ints, Ints]:
    """Rows ordered by how many rows of the same key come before them, and where each turn starts."""
    order = np.argsort(places, kind="stable")
    head = np.ones(len(places), dtype=bool)
    head[1:] = places[order[1:]] != places[order[:-1]]
    first = np.maximum.accumulate(np.where(head, np.arange(len(places)), 0))
    turn = np.empty(len(places), dtype=np.int64)
    turn[order] = np.arange(len(places)) - first
    return np.argsort(turn, kind="stable"), np.concatenate([[0], np.cumsum(np.bincount(turn))])


def _one_turn(
    table: Floats, places: Ints, level: Floats, common: Floats, x: Floats, y: Floats, w: Floats, versions: Floats
) -> Floats:
    """Rows of different keys."""
    s = table[places]
    da, db = _solved(s, level, common[MA], common[MB])
    u = da * x + db
    p = expit_many(np.clip(common[FA] * x + common[FB] + u, -LARGEST, LARGEST))
    h = w * (p * (1.0 - p))
    g, hx = w * (y - p) + h * u, h * x
    s[:, JAA:EVENTS] *= level[KEPT]
    s[:, ROWS] += 1.0
    s[:, JAA] += hx * x
    s[:, JAB] += hx
    s[:, JBB] += h
    s[:, VA] += g * x
    s[:, VB] += g
    s[:, EVENTS] += w * y
    s[:, CHANGED] = versions
    table[places] = s
    return p


def _row_by_row(
    table: Floats, rows: Ints, levels: Floats, common: Floats, z: Floats, y: Floats, w: Floats, versions: Floats
) -> Floats:
    """Rows in order, in plain Python, on lists of the records that they need."""
    places, codes = np.unique(rows.reshape(-1), return_inverse=True)
    held, out = table[places].reshape(-1).tolist(), [0.0] * len(z)
    lists = (a.tolist() for a in (codes.reshape(-1), levels, common, z, y, w, versions))
    row_steps(fast=False)[1](held, *lists, out)
    table[places] = np.array(held).reshape(-1, WIDTH)
    return np.array(out)
