"""Kernels of online Newton steps: Platt scaling with two parameters, beta scaling with three."""

from __future__ import annotations

import math
from typing import Any

from calibrant.online.kernels import SEEN, Jit, Step

LARGEST = 36.0
"""Largest log-odds; beyond it, probabilities are 0 or 1 in double precision."""

SEARCH_STEPS = 100
"""Largest number of steps of the search for the multiplier of a projection; a few are usual."""

A, B, D1, L, D2, GAMMA, RADIUS, LOW, KEPT, RHO = range(1, 11)
"""Indices of the numbers of :class:`OnlinePlatt` after the count; the matrix is stored as factors L D L'."""


def link(jit: Jit) -> Step:
    """The logistic function, clipped to stay inside (0, 1)."""
    exp = math.exp

    @jit
    def expit(u: float) -> float:
        if u > LARGEST:
            u = LARGEST
        elif u < -LARGEST:
            u = -LARGEST
        return 1.0 / (1.0 + exp(-u))

    return expit


def held_log_odds(jit: Jit) -> Step:
    """The log-odds of a score that is clipped to this distance from 0 and 1."""
    log = math.log

    @jit
    def feature(x: float, low: float) -> float:
        if x < low:
            x = low
        elif x > 1.0 - low:
            x = 1.0 - low
        return log(x / (1.0 - x))

    return feature


def platt_forecast(jit: Jit, expit: Step, feature: Step, low: int) -> Step:
    """The forecast by slope and intercept on the log-odds of a score; ``low`` is the index of the clamp."""

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        p: float = expit(s[A] * feature(x, s[low]) + s[B])
        return p

    return predict


def platt_steps(jit: Jit) -> tuple[Step, Step]:
    """Gupta (2023), Algorithm 6.1 with two parameters.

    The matrix is stored as L D L' and updated by rank one without subtraction. D only grows, or fades no lower than its
    initial value, so the matrix stays positive definite however long the stream is.
    """
    sqrt = math.sqrt
    expit, feature = link(jit), held_log_odds(jit)
    predict = platt_forecast(jit, expit, feature, LOW)

    @jit
    def project(s: Any, a: float, b: float) -> None:
        """Projection onto the ball in the norm of the matrix: (M + k I) p = M q for the right k >= 0.

        Newton's steps on 1 / |p(k)|, which is concave, so that k increases to the solution and never beyond.
        """
        p, q = s[D1], s[D1] * s[L]
        r = s[D2] + q * s[L]
        v, w = p * a + q * b, q * a + r * b
        k, size = 0.0, sqrt(a * a + b * b)
        for _ in range(SEARCH_STEPS):
            det = p * s[D2] + k * (p + r) + k * k
            slope = ((r + k) * a * a - 2.0 * q * a * b + (p + k) * b * b) / det
            if not slope > 0.0:  # lost to rounding if the matrix is nearly singular
                break
            ahead = k + size * size / slope * (size / s[RADIUS] - 1.0)
            if not ahead > k:
                break
            k = ahead
            det = p * s[D2] + k * (p + r) + k * k
            a, b = ((r + k) * v - q * w) / det, ((p + k) * w - q * v) / det
            size = sqrt(a * a + b * b)
            if size <= s[RADIUS]:
                break
        shrink = s[RADIUS] / size if size > s[RADIUS] else 1.0
        s[A], s[B] = a * shrink, b * shrink

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        z = feature(x, s[LOW])
        d1, low, d2 = s[D1], s[L], s[D2]
        if s[KEPT] < 1.0:
            d1, d2 = max(d1 * s[KEPT], s[RHO]), max(d2 * s[KEPT], s[RHO])
        # Solve for (z, 1) with the matrix before this row, which does not need the forecast; the update of the matrix
        # by this row then divides the step by 1 + g^2 q.
        v, u = 1.0 - low * z, z / d1
        w = v / d2
        q = z * u + v * w
        p: float = expit(s[A] * z + s[B])
        g = p - y
        square = g * g
        step = g / (s[GAMMA] * (1.0 + square * q))
        a, b = s[A] - step * (u - low * w), s[B] - step * w
        grown = d1 + square * z * z
        share = square * v / grown
        s[SEEN] += 1.0
        s[D1], s[L], s[D2] = grown, low + z * share, d2 + d1 * share * v
        if a * a + b * b <= s[RADIUS] * s[RADIUS]:
            s[A], s[B] = a, b
        else:
            project(s, a, b)
        return p

    return predict, learn


BETA_A, BETA_B, BETA_C, E1, E2, E3, L21, L31, L32, BETA_GAMMA, BETA_RADIUS, BETA_LOW, BETA_KEPT, BETA_RHO = range(1, 15)
"""Indices of the numbers of :class:`OnlineBeta` after the count."""


def beta_steps(jit: Jit) -> tuple[Step, Step]:
    """The same with three parameters, on the features log s, -log(1 - s) and 1."""
    log, sqrt = math.log, math.sqrt
    expit = link(jit)

    @jit
    def inside(x: float, low: float) -> float:
        if x < low:
            return low
        return x if x <= 1.0 - low else 1.0 - low

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        x = inside(x, s[BETA_LOW])
        p: float = expit(s[BETA_A] * log(x) - s[BETA_B] * log(1.0 - x) + s[BETA_C])
        return p

    @jit
    def project(s: Any, a: float, b: float, c: float) -> None:
        """As with two parameters; M + k I is factored for each k, and its pivots are at least those of M, plus k."""
        m21, m31 = s[L21] * s[E1], s[L31] * s[E1]
        m22, m32 = s[E2] + s[L21] * m21, s[L32] * s[E2] + s[L31] * m21
        m33 = s[E3] + s[L31] * m31 + s[L32] * s[L32] * s[E2]
        u = s[E1] * a + m21 * b + m31 * c
        v = m21 * a + m22 * b + m32 * c
        w = m31 * a + m32 * b + m33 * c
        k, size = 0.0, sqrt(a * a + b * b + c * c)
        d1, d2, d3, l21, l31, l32 = s[E1], s[E2], s[E3], s[L21], s[L31], s[L32]
        for _ in range(SEARCH_STEPS):
            f2 = b - l21 * a
            f3 = c - l31 * a - l32 * f2
            slope = a * a / d1 + f2 * f2 / d2 + f3 * f3 / d3
            ahead = k + size * size / slope * (size / s[BETA_RADIUS] - 1.0)
            if not ahead > k:
                break
            k = ahead
            d1 = s[E1] + k
            l21, l31 = m21 / d1, m31 / d1
            d2 = max(m22 + k - l21 * m21, s[E2] + k)
            l32 = (m32 - l31 * m21) / d2
            d3 = max(m33 + k - l31 * m31 - l32 * l32 * d2, s[E3] + k)
            f2 = v - l21 * u
            c = (w - l31 * u - l32 * f2) / d3
            b = f2 / d2 - l32 * c
            a = u / d1 - l21 * b - l31 * c
            size = sqrt(a * a + b * b + c * c)
            if size <= s[BETA_RADIUS]:
                break
        shrink = s[BETA_RADIUS] / size if size > s[BETA_RADIUS] else 1.0
        s[BETA_A], s[BETA_B], s[BETA_C] = a * shrink, b * shrink, c * shrink

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        s[SEEN] += 1.0
        x = inside(x, s[BETA_LOW])
        rise, fall = log(x), -log(1.0 - x)
        p: float = expit(s[BETA_A] * rise + s[BETA_B] * fall + s[BETA_C])
        g = p - y
        e1, e2, e3 = s[E1], s[E2], s[E3]
        if s[BETA_KEPT] < 1.0:
            kept, rho = s[BETA_KEPT], s[BETA_RHO]
            e1, e2, e3 = max(e1 * kept, rho), max(e2 * kept, rho), max(e3 * kept, rho)
        w1, w2, w3 = g * rise, g * fall, g
        d1 = e1 + w1 * w1
        share1 = w1 / d1
        left = e1 / d1
        w2 -= s[L21] * w1
        w3 -= s[L31] * w1
        l21, l31 = s[L21] + share1 * w2, s[L31] + share1 * w3
        d2 = e2 + left * w2 * w2
        share2 = left * w2 / d2
        left *= e2 / d2
        w3 -= s[L32] * w2
        l32 = s[L32] + share2 * w3
        d3 = e3 + left * w3 * w3
        s[E1], s[E2], s[E3], s[L21], s[L31], s[L32] = d1, d2, d3, l21, l31, l32
        dc = left * w3 / d3
        db = share2 - l32 * dc
        da = share1 - l21 * db - l31 * dc
        a, b, c = s[BETA_A] - da / s[BETA_GAMMA], s[BETA_B] - db / s[BETA_GAMMA], s[BETA_C] - dc / s[BETA_GAMMA]
        if a * a + b * b + c * c <= s[BETA_RADIUS] * s[BETA_RADIUS]:
            s[BETA_A], s[BETA_B], s[BETA_C] = a, b, c
        else:
            project(s, a, b, c)
        return p

    return predict, learn
