"""Range and sums of a matrix of class scores, which tell its kind, and the errors where they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import Advice, InputError, Phrase, Setting, Text

SUM_TOLERANCE = 2e-3
"""By how much a row of probabilities may miss 1: half precision does, up to this."""


@dataclass(frozen=True)
class Spread:
    """Smallest and largest score, smallest and largest sum of a row; none of a matrix without rows."""

    low: float = 0.0
    high: float = 0.0
    least: float = 1.0
    most: float = 1.0

    @classmethod
    def of(cls, matrix: NDArray[Any], block: int) -> Spread:
        """Those of a matrix, in steps of about ``block`` numbers; NaN and infinities are refused."""
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
            raise InputError("scores", f"holds NaN or infinities, first in row {bad}", Advice.DROP_OR_REPAIR_SCORES)
        return cls(float(low.min()), float(high.max()), float(least.min()), float(most.max()))

    @property
    def inside(self) -> bool:
        """Whether all scores are in [0, 1], but for rounding."""
        return self.low >= 0.0 and self.high <= 1.0 + 1e-6

    @property
    def probable(self) -> bool:
        """Whether the rows are probabilities."""
        return self.inside and self.least >= 1.0 - SUM_TOLERANCE and self.most <= 1.0 + SUM_TOLERANCE

    def refuse_percent(self) -> None:
        """Refuse rows that sum to about 100."""
        if self.low >= 0.0 and self.least >= 98.0 and self.most <= 102.0:
            raise InputError("scores", "has rows that sum to about 100 and look like percentages", Advice.DIVIDE_BY_100)

    def refuse_sums(self, fitted: bool = False) -> NoReturn:
        """Refuse rows that do not sum to 1; a map that is fitted, or a forecaster, takes no other kind."""
        near = self.least >= 0.9 and self.most <= 1.1
        divided = "pass scores / scores.sum(axis=1, keepdims=True)"
        alone = Phrase("{kind} if each column speaks for itself", kind=Setting("kind", "independent"))
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
            fix = Phrase("pass {kind} if they are logits, or {alone}", kind=Setting("kind", "logit"), alone=alone)
        sums = f"has rows that sum to between {self.least:.6g} and {self.most:.6g}, not to 1"
        raise InputError("scores", f"{sums}, and nothing is renormalized here", fix)
