"""Range and row sums of a matrix of class scores, from which its score type is guessed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.score_types import ROUNDING, above_one, refuse_strays, within
from calibrant.messages import Advice, InputError, Phrase, Setting, Text

SUM_TOLERANCE = 2e-3
"""How far the sum of a row of probabilities may be from 1; half precision needs this much."""


MASKED = "a masked class has the probability 0: pass the softmax of the scores instead of logits"
"""Advice on logits of -inf."""

DECIMALS = (0.1, 0.01, 0.001)
"""Units of rounded probabilities, whose sum may miss 1 by rounding."""


@dataclass(frozen=True)
class Spread:
    """Smallest and largest score, smallest and largest row sum, and how far from 1 this may be."""

    low: float = 0.0
    high: float = 0.0
    least: float = 1.0
    most: float = 1.0
    allowed: float = SUM_TOLERANCE

    @classmethod
    def of(cls, matrix: NDArray[Any], block: int) -> Spread:
        """Range and row sums of a matrix, in steps of about ``block`` numbers; NaN and infinities are refused."""
        if not matrix.size:
            return cls()
        step = max(block // matrix.shape[1], 1)
        parts = []
        for start in range(0, len(matrix), step):
            part = matrix[start : start + step]
            sums = np.einsum("nk->n", part)  # twice as fast as a sum along the axis
            parts.append((part.min(), part.max(), sums.min(), sums.max()))
        low, high, least, most = (np.array(each, dtype=np.float64) for each in zip(*parts, strict=True))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            bad = int((~np.isfinite(matrix).all(axis=1)).argmax())
            only_masked = not (np.isnan(low).any() or np.isposinf(high).any())
            problem = f"holds {'-inf' if only_masked else 'NaN or infinities'}, first in row {bad} counted from 0"
            raise InputError("scores", problem, MASKED if only_masked else Advice.DROP_OR_REPAIR_SCORES)
        found = cls(float(low.min()), float(high.max()), float(least.min()), float(most.max()))
        return replace(found, allowed=found._rounded(matrix)) if found.inside and not found.probable else found

    def _rounded(self, matrix: NDArray[Any]) -> float:
        """How far the sum of a row may be from 1: further if all numbers have few decimals."""
        size, off = matrix.shape[1], max(1.0 - self.least, self.most - 1.0)
        for unit in DECIMALS:
            # four standard deviations of the sum of independent rounding errors, and never more than is possible
            allowed = min(0.5 * size, 4.0 * math.sqrt(size / 12.0)) * unit + 1e-6
            if SUM_TOLERANCE < off <= allowed and np.abs(matrix / unit - np.rint(matrix / unit)).max() < 1e-3:
                return float(allowed)
        return SUM_TOLERANCE

    @property
    def inside(self) -> bool:
        """Whether all scores are in [0, 1], up to rounding."""
        return within(self.low, self.high)

    @property
    def probable(self) -> bool:
        """Whether the rows are probabilities that sum to 1."""
        return self.inside and self.least >= 1.0 - self.allowed and self.most <= 1.0 + self.allowed

    @property
    def scaled(self) -> bool:
        """Whether all rows sum to one number, which is not 1."""
        return self.most - self.least <= SUM_TOLERANCE * self.most and not self.probable

    def refuse_outside(self, matrix: NDArray[Any], *, fitted: bool = False) -> None:
        """Refuse scores beyond [0, 1] that cannot be logits: none is negative, or most rows are probabilities."""
        if self.low >= -ROUNDING:
            look, fix = above_one(matrix, self.high, percent=self.least >= 98.0 and self.most <= 102.0)
            logit = Setting("score_type", "logit")
            problem = f"must lie in [0, 1], but hold values that {look} (min {self.low:.6g}, max {self.high:.6g})"
            choice = fix if fitted else Phrase("{fix}, or pass {logit} if they are logits", fix=fix, logit=logit)
            raise InputError("scores", problem, choice)
        outside = np.asarray(((matrix < -ROUNDING) | (matrix > 1.0 + ROUNDING)).any(axis=1))
        if not outside.all() and np.abs(matrix[~outside].sum(axis=1) - 1.0).max() <= SUM_TOLERANCE:
            worst = np.where(matrix.min(axis=1) < -ROUNDING, matrix.min(axis=1), matrix.max(axis=1))
            refuse_strays(outside, worst, "rows with a value")

    def refuse_sums(self, fitted: bool = False) -> NoReturn:
        """Refuse rows that do not sum to 1; a ``fitted`` map or forecaster has no choice of score types."""
        near = self.least >= 0.9 and self.most <= 1.1
        divided = "pass scores / scores.sum(axis=1, keepdims=True)"
        alone = Phrase("{score_type} if columns are independent", score_type=Setting("score_type", "independent"))
        fix: Text
        if fitted:
            fix = (
                f"{divided}, since the map takes probabilities"
                if near
                else "pass probabilities, such as the softmax of logits"
            )
        elif near:
            fix = Phrase(f"{divided} if they are meant to be probabilities, or {{alone}}", alone=alone)
        else:
            fix = Phrase(
                "pass {score_type} if they are logits, or {alone}",
                score_type=Setting("score_type", "logit"),
                alone=alone,
            )
        sums = f"has rows that sum to between {self.least:.6g} and {self.most:.6g}, not to 1"
        raise InputError("scores", f"{sums}, and scores are never renormalized silently", fix)
