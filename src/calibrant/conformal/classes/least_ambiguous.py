"""Least ambiguous sets: every class whose probability is high enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calibrant.conformal.classes.base import ClassConformal
from calibrant.numerics import Floats


@dataclass(eq=False)
class LeastAmbiguousSets(ClassConformal):
    r"""Sets of all classes whose probability is at least a threshold.

    .. math:: C(x) = \{k : \hat p_k(x) \ge \hat t\},

    where :math:`\hat p_k(x)` is the probability of class k and :math:`\hat t` the
    :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th largest probability of the true class among n calibration rows. With
    the true probabilities no other sets of this coverage are smaller on average.

    Parameters
    ----------
    alpha
        Probability that a set may miss the true class.
    estimator
        A fitted classifier with ``predict_proba``; ``fit`` and ``predict_sets`` then take features instead of scores.
    by_class
        One threshold for each class, so that the coverage holds for the rows of each class. A class with fewer than
        1/alpha - 1 rows is in every set.
    empty
        What an empty set becomes: ``"top class"``, a set of the most probable class, or ``"keep"``. An empty set says
        that no class is likely enough; ``filled`` of the result says where.

    Notes
    -----
    Guarantee: finite-sample, without assumptions on the model. If calibration rows and the new row are exchangeable,
    the set of the new row holds its class with probability at least 1 - alpha, on average over calibration rows and
    new rows; with ``by_class`` or ``groups`` also given the class or group. Single rows have none. Rows that
    the model or its calibrator was fitted on must not be used. docs/certificates/conformal-classes.md has the proof.
    Cost: one sort. References: Sadinle, Lei and Wasserman (2019), Theorem 1; Vovk, Gammerman and Shafer (2005) for the
    guarantee and for one threshold per group; Tibshirani et al. (2019) for weights.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([0.4, 0.4, 0.4], 2_000)
    >>> y = (rng.random((2_000, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> method = LeastAmbiguousSets(alpha=0.1).fit(p[:1_000], y[:1_000])
    >>> sets = method.predict_sets(p[1_000:])
    >>> round(method.threshold_, 3), round(sets.mean_size, 2), round(sets.coverage(y[1_000:]), 3)
    (0.232, 1.51, 0.887)
    """

    _loose: ClassVar[bool] = True

    def _scores(self, p: Floats) -> Floats:
        return -p

    @property
    def threshold_(self) -> float:
        """The lowest probability that a class needs; not with ``by_class``, groups or weights."""
        return -self._fitted().single
