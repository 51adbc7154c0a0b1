r"""Density ratio by unconstrained least-squares importance fitting (uLSIF).

.. math:: \hat w(x) = \sum_{l=1}^{b} \alpha_l \exp\Bigl(-\frac{\|x - c_l\|^2}{2\sigma^2}\Bigr), \qquad
          \alpha = \max\bigl(0, (H + \lambda I)^{-1} h\bigr),

where the centers :math:`c_l` are target rows, H the mean of :math:`\phi \phi^\top` over source rows and h the mean of
:math:`\phi` over target rows (Kanamori, Hido and Sugiyama 2009). Bandwidth and ridge minimize the leave-one-out score,
which has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.numerics import Floats

CENTERS = 100
"""Number of kernels, at most."""

SCORED_ROWS = 500
"""Rows of each population that the leave-one-out score leaves out one by one, at most."""

RIDGES: tuple[float, ...] = tuple(10.0 ** np.linspace(-3.0, 0.0, 7))
BANDWIDTHS: tuple[float, ...] = tuple(10.0 ** np.linspace(-1.0, 0.5, 7))
"""Ridges, and bandwidths in units of the median distance between centers and source rows."""


@dataclass(frozen=True, eq=False)
class KernelRatio:
    """A sum of Gaussian kernels with coefficients of at least 0; ``score`` is its leave-one-out score."""

    centers: Floats
    coefficients: Floats
    bandwidth: float
    ridge: float
    score: float

    def __call__(self, matrix: Floats) -> Floats:
        """The ratio at each row."""
        return np.asarray(kernels(matrix, self.centers, self.bandwidth).T @ self.coefficients)

    @property
    def upper(self) -> float:
        """A bound of the function: the sum of its coefficients."""
        return float(self.coefficients.sum())


def squared_distances(rows: Floats, centers: Floats) -> Floats:
    """Squared distances, one row per center."""
    crossed = centers @ rows.T
    return np.asarray(np.maximum((centers**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1) - 2.0 * crossed, 0.0))


def kernels(rows: Floats, centers: Floats, bandwidth: float) -> Floats:
    """Gaussian kernels, one row per center and one column per case.

    Examples
    --------
    >>> kernels(np.array([[0.0], [2.0]]), np.array([[0.0]]), 1.0).round(4).tolist()
    [[1.0, 0.1353]]
    """
    return np.asarray(np.exp(-squared_distances(rows, centers) / (2.0 * bandwidth**2)))


def fit_ulsif(
    source: Floats,
    target: Floats,
    random: np.random.Generator,
    bandwidths: tuple[float, ...] | None = None,
    ridges: tuple[float, ...] = RIDGES,
) -> KernelRatio:
    """Fit to source and target rows, at the bandwidth and ridge with the smallest leave-one-out score.

    Without ``bandwidths``, multiples of the median distance are tried. Cost: for each bandwidth one eigenvalue problem
    of the kernels, for each ridge one product of a 100 by 100 with a 100 by 500 matrix.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = fit_ulsif(rng.random((500, 1)), rng.beta(2, 1, (500, 1)), rng)  # the true ratio is 2x
    >>> ratio(np.array([[0.1], [0.9]])).round(1).tolist()
    [0.2, 1.5]
    """
    centers = target[random.permutation(len(target))[:CENTERS]]
    order = random.permutation(len(source))
    source, target = source[order], target[random.permutation(len(target))]
    if bandwidths is None:
        middle = float(np.sqrt(np.median(squared_distances(source[:SCORED_ROWS], centers)))) or 1.0
        bandwidths = tuple(middle * each for each in BANDWIDTHS)
    far_source, far_target = squared_distances(source, centers), squared_distances(target, centers)
    best: KernelRatio | None = None
    for bandwidth in bandwidths:
        at_source, at_target = (np.exp(-far / (2.0 * bandwidth**2)) for far in (far_source, far_target))
        gram, means = at_source @ at_source.T / len(source), at_target.mean(axis=1)
        values, vectors = np.linalg.eigh(gram)
        scores = leave_one_out(at_source, at_target, np.maximum(values, 0.0), vectors, ridges)
        place = int(np.argmin(scores))
        if best is None or scores[place] < best.score:
            solved = vectors @ ((vectors.T @ means) / (np.maximum(values, 0.0) + ridges[place]))
            best = KernelRatio(centers, np.maximum(solved, 0.0), bandwidth, ridges[place], float(scores[place]))
    assert best is not None
    return best


def leave_one_out(
    at_source: Floats, at_target: Floats, values: Floats, vectors: Floats, ridges: tuple[float, ...]
) -> Floats:
    r"""Leave-one-out score of each ridge: mean of :math:`\hat w(x_i)^2 / 2 - \hat w(\tilde x_i)`.

    The fit that leaves out source row i and target row i differs by a matrix of rank 1 from the fit to all rows, so
    that its coefficients follow from one decomposition of the mean of all source rows, with ``values`` and ``vectors``
    (Kanamori et al. 2009, section 3.3).
    """
    n_source, n_target = at_source.shape[1], at_target.shape[1]
    rows = min(n_source, n_target, SCORED_ROWS)
    means = (vectors.T @ at_target.mean(axis=1))[:, None]
    kept_source, kept_target = at_source[:, :rows], at_target[:, :rows]
    turned = vectors.T @ kept_source
    others = n_target * means - vectors.T @ kept_target
    factor = (n_source - 1) / (n_source * (n_target - 1))
    scores = []
    for ridge in ridges:
        inverse = 1.0 / (values + ridge * (n_source - 1) / n_source)[:, None]
        moved = inverse * turned
        reach = (others * moved).sum(axis=0) / (n_source - (turned * moved).sum(axis=0))
        fitted = np.maximum(vectors @ (inverse * others + moved * reach), 0.0) * factor
        on_source, on_target = (kept_source * fitted).sum(axis=0), (kept_target * fitted).sum(axis=0)
        scores.append(0.5 * np.mean(on_source**2) - np.mean(on_target))
    return np.array(scores)
