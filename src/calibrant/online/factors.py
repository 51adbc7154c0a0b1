"""Factors L D L' of the matrix of a ridge regression, with its right-hand side as the last row of L."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.numerics import Floats


def absorb(pivots: list[float], columns: list[list[float]], v: list[float]) -> float:
    """Add v v' to the matrix A in place, and return 1 / (1 + f' A^-1 f), with f = v without its last entry, the target.

    The result is the unavoidable share of a squared error. D grows without subtraction (Gill et al. 1974, method C1).

    Examples
    --------
    >>> pivots, columns = [1.0], [[0.0]]
    >>> absorb(pivots, columns, [1.0, 0.5]), pivots, columns
    (0.5, [2.0], [[0.25]])
    """
    alpha = 1.0
    for j, before in enumerate(pivots):
        first, v = v[0], v[1:]
        if first == 0.0:
            continue
        pivots[j] = after = before + alpha * first * first
        beta = alpha * first / after
        alpha *= before / after
        v = [x - first * c for x, c in zip(v, columns[j], strict=True)]
        columns[j] = [c + beta * x for x, c in zip(v, columns[j], strict=True)]
    return alpha


def solve(columns: list[list[float]]) -> list[float]:
    """The coefficients, by back substitution from the last row of the factors."""
    theta: list[float] = []
    for column in reversed(columns):
        theta.insert(0, column[-1] - dot(column, theta))
    return theta


def diagonal(pivots: list[float], columns: list[list[float]]) -> Floats:
    """The diagonal of the matrix: 1 plus the sum of squares of each regressor."""
    squares = np.zeros(len(pivots))
    for j, (pivot, column) in enumerate(zip(pivots, columns, strict=True)):
        squares[j] += pivot
        squares[j + 1 :] += pivot * np.square(column[:-1])
    return squares


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Sum of products up to the shorter length, from left to right, bit-identical in every version of Python."""
    total = 0.0
    for x, y in zip(a, b, strict=False):
        total += x * y
    return total
