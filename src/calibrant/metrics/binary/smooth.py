"""Smooth calibration error: kernel smoothing at the bandwidth that equals the error itself."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from calibrant.messages import InputError
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.metrics.chance import expected_squares
from calibrant.metrics.draws import generator, only_values
from calibrant.metrics.estimates import Estimate, Ideal, metric
from calibrant.numerics import Column, Floats
from calibrant.tallies import Tally

FIRST_NODES, LAST_NODES = 1 << 13, 1 << 19
"""Intervals of the first grid on [0, 1], and of the finest."""

STEPS_PER_BANDWIDTH = 16
"""Grid steps per bandwidth; linear binning then widens the kernel by less than 0.1 %."""

DRAWS = 200
"""Simulated samples for the null value."""


@metric(Ideal.ZERO)
def smooth_ece(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    bandwidth: float | None = None,
    null: bool = True,
    random_state: int = 0,
) -> Estimate:
    r"""Smooth calibration error (smECE), by kernel smoothing without a choice of bandwidth.

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Bigl|\frac1n \sum_i (y_i - s_i) K_\sigma(t, s_i)\Bigr| dt, \qquad
              \mathrm{smECE} = \sigma^* \ \text{with}\ \mathrm{smECE}_{\sigma^*} = \sigma^*,

    where :math:`K_\sigma` is the Gaussian kernel of standard deviation :math:`\sigma`, reflected at 0 and 1 so that it
    keeps its mass. :math:`\mathrm{smECE}_\sigma` decreases in :math:`\sigma`, so there is exactly one such
    :math:`\sigma^*`. It is at least a constant times the distance to the nearest perfectly calibrated model and at most
    a constant times the root of that distance (Blasiok and Nakkiran 2023), and is continuous in the scores, unlike
    binned errors.

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    bandwidth
        A fixed :math:`\sigma` in (0, 1]; the value is then :math:`\mathrm{smECE}_\sigma`.
    null
        Whether to compute the null value of a calibrated model, from 200 samples in which the residuals are normal with
        variance :math:`s(1-s)`.
    random_state
        Seed of these samples.

    Returns
    -------
    Estimate
        Value and null values.

    Notes
    -----
    Edges: weights count as repetition; a score of 0 or 1 that is always right adds nothing. Values below 3e-5 have an
    absolute error of about 1e-6, from the finest grid.
    Guarantee: no finite-sample guarantee; sampling noise increases it, see ``null``.
    Cost: O(cells) to put residuals on a grid, then about ten cosine transforms of the grid. Reflection makes smoothing
    a product: the k-th cosine coefficient is multiplied by :math:`e^{-(\pi k \sigma)^2 / 2}`.
    References: Blasiok and Nakkiran (2023), Smooth ECE: principled reliability diagrams via kernel smoothing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> y = (rng.random(2000) < scores**1.5).astype(int)
    >>> print(smooth_ece(scores, y))
    smECE: 0.0999 (a perfectly calibrated model would show 0.0238 here, and more than 0.0286 in one sample of twenty)
    """
    if bandwidth is not None and not (isinstance(bandwidth, Real) and 0.0 < bandwidth <= 1.0):
        raise InputError("bandwidth", f"must be in (0, 1], or None, got {bandwidth!r}")
    tally = tally_of(scores, y, sample_weight)
    if bandwidth is None:
        name, value = "smECE", _fixed_point(tally)
    else:
        name, value = f"smECE at bandwidth {bandwidth:g}", _at_bandwidth(tally, bandwidth)
    if not null or only_values():
        return Estimate(name, value)
    draws = _null_draws(tally, bandwidth, random_state)
    return Estimate(name, value, null=float(draws.mean()), null_high=float(np.quantile(draws, 0.95)))


def _at_bandwidth(tally: Tally, bandwidth: float) -> float:
    nodes = _nodes_for(bandwidth, FIRST_NODES)
    return float(_smoothed_error(_spectrum(_residuals(tally, nodes)), bandwidth))


def _fixed_point(tally: Tally) -> float:
    """Where the error at a bandwidth equals the bandwidth; the grid is refined until it resolves the answer."""
    from scipy.optimize import brentq  # imported here because it is slow to load

    nodes = FIRST_NODES
    while True:
        spectrum = _spectrum(_residuals(tally, nodes))

        def excess(sigma: float, spectrum: Floats = spectrum) -> float:
            return float(_smoothed_error(spectrum, sigma)) - sigma

        if excess(0.0) <= 0.0:  # labels equal scores
            return 0.0
        if excess(1.0) >= 0.0:  # every label is the opposite of its score, up to rounding
            return 1.0
        sigma = float(brentq(excess, 0.0, 1.0, xtol=1e-10, rtol=1e-9))
        if nodes == LAST_NODES or nodes * sigma >= STEPS_PER_BANDWIDTH:
            return sigma
        nodes = _nodes_for(sigma, 2 * nodes)


def _nodes_for(sigma: float, least: int) -> int:
    """Intervals of the smallest grid, a power of two, that resolves the bandwidth."""
    wanted = 1 << math.ceil(math.log2(min(STEPS_PER_BANDWIDTH / max(sigma, 1e-9), LAST_NODES)))
    return min(max(wanted, least), LAST_NODES)


def _residuals(tally: Tally, nodes: int) -> Floats:
    """Labels minus scores as masses on the grid points, divided by the number of rows."""
    mass = np.zeros(nodes + 1)
    for scores, n, events in tally.pieces():
        mass += _binned(scores, events - n * scores, nodes)
    return mass / float(tally.total)


def _binned(scores: Floats, values: Floats, nodes: int) -> Floats:
    """Each value split between the two grid points next to its score, which keeps its center of mass."""
    place = scores * nodes
    below = np.minimum(place.astype(np.intp), nodes - 1)
    upper = values * (place - below)
    return np.asarray(
        np.bincount(below, values - upper, minlength=nodes + 1) + np.bincount(below + 1, upper, minlength=nodes + 1)
    )


def _spectrum(mass: Floats) -> Floats:
    """Cosine coefficients of masses on the grid, along the last axis."""
    mass = mass.copy()
    mass[..., [0, -1]] *= 2.0  # a mass at an end is its own mirror image
    return _cosines(mass) / 2.0


def _cosines(values: Floats) -> Floats:
    """Cosine transform of type I along the last axis; it may overwrite what it is given."""
    from scipy.fft import dct  # imported here because it is slow to load

    return np.asarray(dct(values, type=1, axis=-1, overwrite_x=True))


def _smoothed_error(spectrum: Floats, sigma: float) -> Floats:
    """Integral of the absolute smoothed residual, for each row of ``spectrum``."""
    nodes = spectrum.shape[-1] - 1
    damped = spectrum * np.exp(-0.5 * (np.pi * sigma * np.arange(nodes + 1)) ** 2)
    damped[..., -1] /= 2.0
    curve = _cosines(damped)
    left, right = curve[..., :-1], curve[..., 1:]
    # Where the curve changes sign between two points, its two triangles are smaller than the trapezoid of |curve|.
    across = np.minimum(left * right, 0.0)
    excess = 2.0 * across / np.maximum(np.abs(right - left), np.finfo(float).tiny)
    size = np.abs(curve)
    whole = 2.0 * size.sum(axis=-1) - size[..., 0] - size[..., -1]
    return np.asarray((whole + excess.sum(axis=-1)) / (2.0 * nodes))


def _null_draws(tally: Tally, bandwidth: float | None, random_state: int) -> Floats:
    """The error of calibrated samples with these scores."""
    variance = _variances(tally)
    spread = float(variance.sum())
    if spread <= 0.0:
        return np.zeros(DRAWS)
    # Smoothed noise of total variance v at bandwidth s is of size (v / s)^(1/2), which meets s at v^(1/3).
    guess = bandwidth or min(0.8 * spread ** (1.0 / 3.0), 0.5)
    nodes = 1 << math.ceil(math.log2(min(max(4.0 / guess, 32.0), FIRST_NODES)))
    coarse = _binned(np.linspace(0.0, 1.0, FIRST_NODES + 1), variance, nodes)
    rng = generator(random_state, nodes)
    spectrum = _spectrum(rng.standard_normal((DRAWS, nodes + 1)) * np.sqrt(coarse))
    if bandwidth is not None:
        return _smoothed_error(spectrum, bandwidth)
    center = float(np.median(_crossing(spectrum, guess, 0.2)))
    return _crossing(spectrum, center, 0.3)


def _variances(tally: Tally) -> Floats:
    """Variance of each residual mass on the first grid, if the model is calibrated."""
    out = np.zeros(FIRST_NODES + 1)
    if tally.counts:
        for scores, n, _ in tally.pieces():
            out += _binned(scores, n * (scores * (1.0 - scores)), FIRST_NODES)
    else:
        out += _binned(tally.scores, expected_squares(tally) * (tally.scores * (1.0 - tally.scores)), FIRST_NODES)
    return out / float(tally.total) / float(tally.total)


def _crossing(spectrum: Floats, center: float, reach: float) -> Floats:
    """Fixed point of each draw, with the error approximated by a power of the bandwidth near ``center``."""
    ends = [_smoothed_error(spectrum, center * math.exp(side * reach)) for side in (-1.0, 1.0)]
    low, high = (np.log(np.maximum(error, np.finfo(float).tiny)) for error in ends)
    slope = np.clip((high - low) / (2.0 * reach), -2.0, 0.0)
    return np.asarray(np.minimum(center * np.exp(((low + high) / 2.0 - math.log(center)) / (1.0 - slope)), 1.0))
