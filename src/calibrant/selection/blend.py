r"""An average of several maps, weighted by how well each of them does on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.numerics import OUTPUT_ENDS, Floats
from calibrant.selection.losses import Loss
from calibrant.solvers import Derivatives, damped_newton
from calibrant.tallies import Tally

PRIOR_ROWS = 1.0
"""How many rows the equal weights count for."""

BRIER_SCALE = 2.0
"""A squared error of a probability of one half is worth so much of a log-likelihood."""

INSIDE = 0.95
"""Share of the way to a weight of zero that one step may go."""

SETTLED = 1e-20


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
    found = damped_newton(
        lambda weights: _objective(judged, loss, weights),
        _step,
        np.full(count, 1.0 / count) if start is None else start,
        lambda value: SETTLED * max(abs(value), 1.0),
    )
    return np.asarray(found.visited / found.visited.sum())


def _objective(judged: Judged, loss: Loss, weights: Floats) -> Derivatives:
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
    return Derivatives(value, gradient, curvature)


def _step(weights: Floats, there: Derivatives) -> Floats:
    """Newton's step that leaves the sum of the weights as it is, cut short where a weight would become negative."""
    towards = np.linalg.solve(there.curvature, np.stack([there.gradient, np.ones(len(weights))], axis=1))
    step = -towards[:, 0] + towards[:, 1] * (towards[:, 0].sum() / towards[:, 1].sum())
    falling = step < 0.0
    return np.asarray(min(1.0, INSIDE * float((weights[falling] / -step[falling]).min(initial=np.inf))) * step)
