"""Penalties of softmax regressions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ridge:
    """Penalties of a softmax regression, each half its value times a sum of squares, in units of rows.

    ``slopes`` shrinks the diagonal of W toward its own mean, ``level`` that mean toward the temperature's slope,
    ``others`` the off-diagonal entries toward 0 (None: there are none), and ``intercepts`` b toward 0. All are in units
    of logits after temperature scaling: a slope of 1 does not change them.
    """

    slopes: float
    others: float | None
    intercepts: float
    level: float = 1.0
