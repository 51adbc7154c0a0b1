r"""An average of several maps, weighted by how well each of them does on rows that it has not seen.

Nothing here is an estimator, so that a choice can be made without loading scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.numerics import OUTPUT_ENDS, Floats
from calibrant.selection.losses import Loss
from calibrant.tallies import Tally

PRIOR_ROWS = 1.0
"""How many rows the equal weights count for."""

BRIER_SCALE = 2.0
"""A squared error of a probability of one half is worth so much of a log-likelihood."""

STEPS, HALVINGS, INSIDE = 50, 30, 0.95
NEAR, SETTLED = 1e-10, 1e-20


@dataclass(frozen=True, eq=False)
class Judged:
    """Probabilities that several maps give to rows that they have not seen, one line by map."""

    outputs: Floats
    events: Floats
    others: Floats

    @classmethod
    def of(cls, outputs: Floats, part: Tally) -> Judged:
        """Of one part of the rows."""
        events = part.events.astype(np.float64)
        return cls(np.clip(outputs, *OUTPUT_ENDS), events, part.n.astype(np.float64) - events)

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Of several parts."""
        return cls(
            np.concatenate([part.outputs for part in parts], axis=1),
            np.concatenate([part.events for part in parts]),
            np.concatenate([part.others for part in parts]),
        )


def blend_weights(judged: Judged, loss: Loss, start: Floats | None = None) -> Floats:
    r"""Weights of least loss on rows that the maps had not seen, drawn a little towards equal ones.

    .. math:: \min_{w \ge 0,\ \sum_k w_k = 1}\ \sum_i \ell\Bigl(\sum_k w_k m_k(s_i),\ y_i\Bigr)
              - \frac{1}{K} \sum_k \log w_k,

    where :math:`m_k(s_i)` comes from a fit without row i, and the second term is worth one row that likes all K maps
    alike. Convex, solved by Newton's method on the simplex.

    Notes
    -----
    Edges: probabilities of exactly 0 and 1 count as log-odds of 36 do. Equal columns share their weight.
    Guarantee: no finite-sample guarantee.
    Cost: one pass per Newton step, about ten; fewer from a good start.
    Reference: Wolpert (1992); Breiman (1996) for weights from cross-fitted outputs.

    Examples
    --------
    >>> outputs = np.array([[0.9, 0.1], [0.5, 0.5]])  # the first map is right, the second knows nothing
    >>> blend_weights(Judged(outputs, np.array([90.0, 10.0]), np.array([10.0, 90.0])), "log").round(2).tolist()
    [0.96, 0.04]
    """
    count = len(judged.outputs)
    weights = np.full(count, 1.0 / count) if start is None else start
    value, gradient, curvature = _objective(judged, loss, weights)
    for _ in range(STEPS):
        step = _step(gradient, curvature)
        shrinking = step < 0.0
        reach = min(1.0, INSIDE * float((weights[shrinking] / -step[shrinking]).min(initial=np.inf)))
        decrement = -float((gradient * step).sum()) / max(abs(value), 1.0)
        if decrement <= SETTLED:
            break
        for halving in range(HALVINGS):
            trial = weights + reach * 0.5**halving * step
            reached = _objective(judged, loss, trial)
            if reached[0] < value or decrement <= NEAR:  # so near, rounding hides the descent
                break
        else:  # rounding hides any further descent
            break
        weights, (value, gradient, curvature) = trial, reached
    return np.asarray(weights / weights.sum())


def _objective(judged: Judged, loss: Loss, weights: Floats) -> tuple[float, Floats, Floats]:
    """Loss with the pull towards equal weights, its gradient and its curvature.

    Non-events are taken by their own probabilities 1 - m, which add up alike on the simplex and lose no digits.
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
    return value, gradient, curvature


def _step(gradient: Floats, curvature: Floats) -> Floats:
    """Newton's step that leaves the sum of the weights as it is."""
    towards = np.linalg.solve(curvature, np.stack([gradient, np.ones(len(gradient))], axis=1))
    return np.asarray(-towards[:, 0] + towards[:, 1] * (towards[:, 0].sum() / towards[:, 1].sum()))
