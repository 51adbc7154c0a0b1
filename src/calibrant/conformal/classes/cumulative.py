"""Cumulative sets: the most probable classes until their sum is high enough."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from calibrant.arrays.columns import check_option, check_whole
from calibrant.conformal.classes.base import ClassConformal
from calibrant.messages import InputError
from calibrant.numerics import Floats, row_hashes

Last = Literal["random", "whole"]


@dataclass(eq=False)
class CumulativeSets(ClassConformal):
    r"""Sets of the most probable classes up to a sum of probabilities, also called adaptive prediction sets.

    .. math:: s(x, k) = \sum_{j : r_j(x) < r_k(x)} \hat p_j(x) + u\, \hat p_k(x)
              + \lambda \max(r_k(x) - r_0, 0), \qquad C(x) = \{k : s(x, k) \le \hat q\},

    where :math:`\hat p_k(x)` is the probability of class k, :math:`r_k(x)` its rank from 1 (ties in the order of the
    columns), and :math:`\hat q` the :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest score of the true classes of
    n calibration rows. Hard rows get larger sets than by one threshold on the probability, and the coverage depends
    less on the row, at the price of larger sets on average.

    Parameters
    ----------
    alpha
        Probability that a set may miss the true class.
    estimator
        A fitted classifier with ``predict_proba``; ``fit`` and ``predict_sets`` then take features instead of scores.
    last
        ``"random"``: u is a number in (0, 1] that a hash of the row's probabilities and ``random_state`` gives, so that
        the coverage is close to 1 - alpha. ``"whole"``: u = 1, larger sets without it.
    penalty
        :math:`\lambda` at least 0: each rank below the first ``free`` costs this much, which cuts long tails of
        improbable classes (regularized sets). Choose it without these rows.
    free
        :math:`r_0`, the number of ranks without penalty.
    random_state
        Changes the numbers u.
    by_class
        One threshold for each class, so that the coverage holds for the rows of each class.
    empty
        What an empty set becomes: ``"top class"``, a set of the most probable class, or ``"keep"``.

    Notes
    -----
    Edge cases: u is a function of the row, so a row has the same set wherever it is predicted. Equal rows have equal u.
    Guarantee: finite-sample, without assumptions on the model. If calibration rows and the new row are exchangeable,
    the set of the new row holds its class with probability at least 1 - alpha, on average over calibration rows and
    new rows; with ``by_class`` or ``groups`` also given the class or group. Single rows have none. Rows that
    the model or its calibrator was fitted on must not be used. docs/certificates/conformal-classes.md has the proof.
    Cost: one sort of each row. References: Romano, Sesia and Candes (2020); Angelopoulos et al. (2021) for the penalty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([0.4, 0.4, 0.4], 2_000)
    >>> y = (rng.random((2_000, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> method = CumulativeSets(alpha=0.1).fit(p[:1_000], y[:1_000])
    >>> sets = method.predict_sets(p[1_000:])
    >>> round(sets.mean_size, 2), round(sets.coverage(y[1_000:]), 3)
    (1.59, 0.898)
    """

    _: KW_ONLY
    last: Last = "random"
    penalty: float = 0.0
    free: int = 1
    random_state: int = 0

    def _check(self) -> None:
        super()._check()
        check_option("last", self.last, ("random", "whole"))
        check_whole("free", self.free, 0)
        check_whole("random_state", self.random_state, 0)
        if not (isinstance(self.penalty, int | float | np.integer | np.floating) and 0.0 <= self.penalty < np.inf):
            raise InputError("penalty", f"must be a number of at least 0, not {self.penalty!r}", "pass 0 for none")

    def _scores(self, p: Floats) -> Floats:
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        through = ranked.cumsum(axis=1)
        before = np.concatenate([np.zeros((len(p), 1)), through[:, :-1]], axis=1)
        found = through if self.last == "whole" else before + uniform(p, self.random_state)[:, None] * ranked
        if self.penalty:
            found = found + self.penalty * np.maximum(np.arange(1, p.shape[1] + 1) - self.free, 0)
        out = np.empty_like(p)
        np.put_along_axis(out, order, found, axis=1)
        return out


def uniform(p: Floats, key: int) -> Floats:
    """A number in (0, 1] for each row of a matrix, by a hash of its bits and a key: equal rows have equal numbers.

    Examples
    --------
    >>> p = np.array([[0.2, 0.8], [0.2, 0.8], [0.8, 0.2]])
    >>> u = uniform(p, 0)
    >>> bool(u[0] == u[1]), bool(u[0] == u[2]), bool(u[0] == uniform(p, 1)[0])
    (True, False, False)
    """
    x = row_hashes(np.ascontiguousarray(p) + 0.0, np.full(len(p), key))
    with np.errstate(over="ignore"):  # the last steps of splitmix64, which spread every bit
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return np.asarray(((x >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53)
