r"""A weighted average of several maps; the weights minimize the cross-validated loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.numerics import OUTPUT_ENDS, Floats
from calibrant.selection.losses import Loss
from calibrant.solvers import Derivatives, damped_newton
from calibrant.tallies import Tally

PRIOR_ROWS = 1.0
"""Rows that the prior for equal weights counts for."""

BRIER_SCALE = 2.0
"""Units of log-likelihood per unit of squared error, at a probability of one half."""

MAX_STEP_SHARE = 0.95
"""Largest share of the distance to a weight of zero that one Newton step may cover."""

NEWTON_TOLERANCE = 1e-20
"""Newton's method stops at a decrease below this share of the objective."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Probabilities of several maps for rows that they were not fitted to, one line per map."""

    outputs: Floats
    events: Floats
    others: Floats

    @classmethod
    def of(cls, outputs: Floats, part: Tally) -> Judged:
        """From one fold."""
        events = part.events.astype(np.float64)
        return cls(np.clip(outputs, *OUTPUT_ENDS), events, part.n.astype(np.float64) - events)

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """From several folds."""
        return cls(
            np.concatenate([part.outputs for part in parts], axis=1),
            np.concatenate([part.events for part in parts]),
            np.concatenate([part.others for part in parts]),
        )


def blend_weights(judged: Judged, loss: Loss, start: Floats | None = None) -> Floats:
    r"""Weights that minimize the loss on held-out rows, shrunk slightly toward equal weights.

    .. math:: \min_{w \ge 0,\ \sum_k w_k = 1}\ \sum_i \ell\Bigl(\sum_k w_k m_k(s_i),\ y_i\Bigr)
              - \frac{1}{K} \sum_k \log w_k,

    where :math:`m_k(s_i)` comes from a fit without row i, and the second term counts as one row that favors all K maps
    equally. The problem is convex and is solved by Newton's method on the simplex.

    Notes
    -----
    Edge cases: probabilities of exactly 0 and 1 are clipped to log-odds of -36 and 36. Equal columns share their
    weight.
    Guarantee: no finite-sample guarantee.
    Cost: one pass per Newton step, about ten steps; fewer from a good start.
    Reference: Wolpert (1992); Breiman (1996) for weights from cross-validated outputs.

    Examples
    --------
    >>> outputs = np.array([[0.9, 0.1], [0.5, 0.5]])  # the first map is right, the second is uninformative
    >>> blend_weights(Judged(outputs, np.array([90.0, 10.0]), np.array([10.0, 90.0])), "log").round(2).tolist()
    [0.96, 0.04]
    """
    count = len(judged.outputs)
    found = damped_newton(
        lambda weights: _objective(judged, loss, weights),
        _step,
        np.full(count, 1.0 / count) if start is None else start,
        lambda value: NEWTON_TOLERANCE * max(abs(value), 1.0),
    )
    return np.asarray(found.visited / found.visited.sum())


def _objective(judged: Judged, loss: Loss, weights: Floats) -> Derivatives:
    """Loss with its penalty toward equal weights, the gradient and the Hessian.

    Negatives use their own probabilities 1 - m: on the simplex the sums agree, and no digits are lost.
    """
    pull = PRIOR_ROWS / len(weights)
    value = -pull * float(np.log(weights).sum())
    gradient, curvature = -pull / weights, np.diag(pull / weights**2)
    for outputs, rows in ((judged.outputs, judged.events), (1.0 - judged.outputs, judged.others)):
        p = np.einsum("k,kc->c", weights, outputs)
        if loss == "log":
            value -= float((rows * np.log(p)).sum())
            slope, bend = -rows / p, rows / p**2
        else:
            value += BRIER_SCALE * float((rows * (1.0 - p) ** 2).sum())
            slope, bend = -2.0 * BRIER_SCALE * rows * (1.0 - p), 2.0 * BRIER_SCALE * rows
        gradient = gradient + np.einsum("kc,c->k", outputs, slope)
        curvature = curvature + np.einsum("jc,kc->jk", outputs * bend, outputs)
    return Derivatives(value, gradient, curvature)


def _step(weights: Floats, there: Derivatives) -> Floats:
    """Newton step that keeps the sum of the weights, shortened where a weight would become negative."""
    towards = np.linalg.solve(there.curvature, np.stack([there.gradient, np.ones(len(weights))], axis=1))
    step = -towards[:, 0] + towards[:, 1] * (towards[:, 0].sum() / towards[:, 1].sum())
    falling = step < 0.0
    share = MAX_STEP_SHARE * float((weights[falling] / -step[falling]).min(initial=np.inf))
    return np.asarray(min(1.0, share) * step)
