"""Base class of automatic choices: the comparison, the state of the scores, and the printout."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import Calibrator
from calibrant.guarantees.provenance import Status
from calibrant.messages import Advice, Voice
from calibrant.metrics.estimates import Estimate
from calibrant.selection.comparison import Compared, Comparison


class Chooser(Calibrator):
    """Base class of calibrators that choose among candidates by their cross-validated losses."""

    choice_: str
    comparison_: Comparison
    before_: Estimate
    after_: Estimate
    change_: Estimate

    def _compared(self) -> list[Compared]:
        return [line for line in self.comparison_.lines if np.isfinite(line.loss)]

    def _status(self) -> Status:
        if getattr(self, "bins_", None) is None and len(self._compared()) < 2:
            return "uncalibrated"
        return "kept" if self.choice_ == "identity" else "calibrated"

    def say(self, voice: Voice) -> str:
        """The choice and its nested loss; if nothing could be compared, the reason comes first."""
        text = super().say(voice)
        if not hasattr(self, "map_") or self.status_ != "uncalibrated":
            return text
        return f"Uncalibrated: {self._why_nothing()}\n{text}"

    def _why_nothing(self) -> str:
        """The reason why nothing was compared, and what the map does instead."""
        raise NotImplementedError

    def _number_compared(self, voice: Voice) -> str:
        return f"Compared: {len(self._compared())} candidates, {voice.advice(Advice.SEE_COMPARISON)}."
