"""Approximate inverse Hessians of softmax regressions with many classes, from which L-BFGS starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import sspmv
from scipy.linalg.lapack import dpotrf, dpotri

from calibrant.fits.multiclass.penalty import Ridge
from calibrant.numerics import Floats

Inverse = Callable[[Floats], Floats]
"""Product of an approximate inverse Hessian with a gradient; both have the shape of the parameters."""

Blocks = Callable[[], Iterable[tuple[slice, NDArray[Any], NDArray[Any], Floats]]]
"""A pass over the rows: which, probabilities, logits after temperature scaling, and weights, in blocks."""

RowsAt = Callable[[NDArray[Any]], NDArray[Any]]
"""The logits after temperature scaling of some rows."""

LIKELY = 0.1
"""Rows that give a class at least this probability count one by one in its part of the Hessian."""

TINY = 1e-9
"""Added to penalties, in rows, for parameters without any."""


def dense_inverse(hessian: Floats) -> Inverse:
    """The inverse of a Hessian that was computed as a matrix."""
    bent = hessian + np.diag(np.full(len(hessian), 1e-12 * (1.0 + np.trace(hessian) / len(hessian))))
    inverse = np.linalg.inv(bent)
    inverse = 0.5 * (inverse + inverse.T)
    return lambda gradient: (inverse @ gradient.reshape(-1)).reshape(gradient.shape)


def own_inverse(ridge: Ridge, absent: NDArray[np.bool_], blocks: Blocks) -> Inverse:
    """The inverse of the blocks of two parameters, slope and intercept, of each class."""
    size = len(absent)
    slopes, between, intercepts = np.full(size, ridge.slopes + TINY), np.zeros(size), np.full(size, ridge.intercepts)
    for _, p, x, weights in blocks():
        spread = p * (1.0 - p) * weights[:, None]
        slopes += np.einsum("nk,nk,nk->k", spread, x, x)
        between += np.einsum("nk,nk->k", spread, x)
        intercepts += spread.sum(axis=0)
    size_of = slopes * intercepts - between * between
    size_of[absent] = np.inf

    def product(gradient: Floats) -> Floats:
        left, right = gradient[:, 0], gradient[:, 1]
        both = [intercepts * left - between * right, slopes * right - between * left]
        found = np.column_stack(both) / size_of[:, None]
        found[absent, 1] = right[absent] / intercepts[absent]
        return np.asarray(found)

    return product


def class_inverse(ridge: Ridge, absent: NDArray[np.bool_], blocks: Blocks, rows_at: RowsAt) -> Inverse:
    r"""The inverse of the part of the Hessian of each class: all its slopes and its intercept.

    The part of class k is :math:`\sum_i w_i p_{ik} (1 - p_{ik}) x_i x_i^T` plus penalties, with x the logits and 1.
    Rows with :math:`p_{ik} \ge 0.1` are summed for each class; the many others, with little weight, are summed once for
    all classes. The data do not bend the loss if all classes change alike, so there the penalties determine the
    solution; steps are projected to where they are at their minimum, unless a class has no rows.

    Notes
    -----
    Cost: about two passes over the rows, and K^4 operations; K^3 / 2 numbers in single precision.
    """
    size = len(absent)
    likely, rest, shared = _weights_of(blocks, size)
    right, left = np.tril_indices(size + 1)
    packed = right * (size + 1) + left  # by columns, as LAPACK packs an upper triangle
    parts = np.empty((size, len(packed)), dtype=np.float32)
    for k in range(size):
        where, spread = likely(k)
        x = np.column_stack([rows_at(where), np.ones(len(where))])
        bent = rest[k] * shared
        bent += (x * spread[:, None]).T @ x
        drawn = np.full(size + 1, (ridge.others or 0.0) + TINY)
        drawn[k], drawn[-1] = ridge.slopes + TINY, ridge.intercepts + TINY
        bent.reshape(-1)[:: size + 2] += drawn
        factor, _ = dpotrf(bent.T, lower=0, clean=0, overwrite_a=1)
        inverse, _ = dpotri(factor, lower=0, overwrite_c=1)
        parts[k] = inverse.T.reshape(-1).take(packed)
    balance = None if absent.any() else _Balance(ridge, size)

    def product(gradient: Floats) -> Floats:
        g = gradient if balance is None else balance.transposed(gradient)
        single = g.astype(np.float32)
        found = np.array([sspmv(size + 1, 1.0, parts[k], single[k]) for k in range(size)], dtype=np.float64)
        found[absent, :-1] = 0.0
        return found if balance is None else balance.projected(found)

    return product


def _weights_of(
    blocks: Blocks, size: int
) -> tuple[Callable[[int], tuple[NDArray[np.intp], Floats]], Floats, NDArray[Any]]:
    """Rows and weights of a class where it is likely; the sum of its other weights; and their mean square of x."""
    rows, codes, spreads = [], [], []
    rest, shared = np.zeros(size), np.zeros((size + 1, size + 1))
    for part, p, x, weights in blocks():
        spread = p * (1.0 - p)
        spread *= weights[:, None].astype(p.dtype)
        where, code = np.nonzero(p >= LIKELY)
        rows.append(part.start + where)
        codes.append(code)
        spreads.append(spread[where, code])
        spread[where, code] = 0.0
        rest += spread.sum(axis=0, dtype=np.float64)
        each = spread.sum(axis=1)
        shared[:-1, :-1] += (x * each[:, None]).T @ x
        shared[:-1, -1] += each @ x
        shared[-1, -1] += each.sum()
    shared[-1, :-1] = shared[:-1, -1]
    found, each, spreads_of = np.concatenate(rows), np.concatenate(codes), np.concatenate(spreads)
    order = np.argsort(each, kind="stable")
    ends = np.searchsorted(each[order], np.arange(size + 1))

    def likely(k: int) -> tuple[NDArray[np.intp], Floats]:
        chosen = order[ends[k] : ends[k + 1]]
        return found[chosen], spreads_of[chosen]

    return likely, rest, shared / max(float(rest.sum()), TINY)


class _Balance:
    """Changes that all classes have in common, taken out of a step: the penalties alone determine them."""

    def __init__(self, ridge: Ridge, size: int) -> None:
        self.own, self.size = ridge.slopes + TINY, size
        self.others, self.intercepts = (ridge.others or 0.0) + TINY, ridge.intercepts + TINY
        self.mean = ridge.level / size - self.own
        """Weight of the mean of the diagonal in the gradient of the penalties of a diagonal slope."""

    def penalties(self, numbers: Floats) -> Floats:
        """Gradient of the penalties."""
        own = numbers[:, :-1].diagonal()
        drawn = self.others * numbers
        np.fill_diagonal(drawn[:, :-1], self.own * own + self.mean * own.mean())
        drawn[:, -1] = self.intercepts * numbers[:, -1]
        return drawn

    def common(self, sums: Floats) -> Floats:
        """The common change, of slopes and intercept, whose penalties have gradients with these sums over classes."""
        each = self.others * (self.size - 1) + self.own
        mean = float(sums[:-1].mean()) / (each + self.mean)
        slopes = (sums[:-1] - self.mean * mean) / each
        return np.append(slopes, sums[-1] / (self.intercepts * self.size))

    def projected(self, step: Floats) -> Floats:
        """The step without its common change."""
        return np.asarray(step - self.common(self.penalties(step).sum(axis=0)))

    def transposed(self, gradient: Floats) -> Floats:
        """The transposed projection, of a gradient."""
        common = self.common(gradient.sum(axis=0))
        return np.asarray(gradient - self.penalties(np.broadcast_to(common, gradient.shape)))
