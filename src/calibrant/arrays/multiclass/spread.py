"""Range and row sums of a matrix of class scores, from which its score type is guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import Advice, InputError, Phrase, Setting, Text

SUM_TOLERANCE = 2e-3
"""How far the sum of a row of probabilities may be from 1; half precision needs this much."""


MASKED = "a masked class has the probability 0: pass the softmax of the scores instead of logits"
"""Advice on logits of -inf."""


@dataclass(frozen=True)
class Spread:
    """Smallest and largest score, smallest and largest row sum."""

    low: float = 0.0
    high: float = 0.0
    least: float = 1.0
    most: float = 1.0

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
        return cls(float(low.min()), float(high.max()), float(least.min()), float(most.max()))

    @property
    def inside(self) -> bool:
        """Whether all scores are in [0, 1], up to rounding."""
        return self.low >= 0.0 and self.high <= 1.0 + 1e-6

    @property
    def probable(self) -> bool:
        """Whether the rows are probabilities that sum to 1."""
        return self.inside and self.least >= 1.0 - SUM_TOLERANCE and self.most <= 1.0 + SUM_TOLERANCE

    def refuse_percent(self) -> None:
        """Refuse rows that sum to about 100."""
        if self.low >= 0.0 and self.least >= 98.0 and self.most <= 102.0:
            raise InputError("scores", "has rows that sum to about 100 and look like percentages", Advice.DIVIDE_BY_100)

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
