"""What calibeating forecasters share: certificates, and a warning where all rows lie in one bin."""

from __future__ import annotations

import math
import sys

from calibrant.guarantees.online_promise import OnlineCertificate
from calibrant.guarantees.refusal import Refusal
from calibrant.messages import CalibrantWarning, Voice, note, warn
from calibrant.online.compiled import KernelForecaster
from calibrant.online.games.bounds import main_of
from calibrant.online.games.widths import Epsilon
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN
from calibrant.online.settings import read_only

ENOUGH_TO_TELL, NEARLY_ALL = 1_000.0, 0.99
"""Rows after which a stream that fills one bin is worth a warning, and the part of them in that bin."""


@note("rows-in-one-bin")
def _crowded_bin(voice: Voice, forecaster: str, low: float, high: float, said: str) -> str:
    return (
        f"{forecaster}: more than {NEARLY_ALL:.0%} of the {voice.nouns.rows} lie in one bin of the expert's forecasts, "
        f"from {low:g} to {high:g}, and all get {said} there: if they differ, use the expert alone"
    )


class BinnedForecaster(KernelForecaster):
    """A kernel with m bins of width 1/m.

    After a whole stream (``learn_many``, ``forecast_many``; single rows have no time for it) it looks whether nearly
    all rows lie in one bin of the expert's forecasts, where all get one number, and says so once. It looks at 1,000
    rows and at each doubling of these, also after a restart, since looking costs time in proportion to the numbers
    held. Where warnings are errors it writes to the standard error stream instead: an exception would lose forecasts of
    rows that are learned already.
    """

    epsilon: Epsilon = read_only()
    horizon: int | None = read_only()
    n_bins: int = read_only()

    _look = ENOUGH_TO_TELL
    _said = "one number"

    def _resume(self, numbers: list[float]) -> None:
        super()._resume(numbers)
        self._look = self._next_look()

    def _notice(self) -> None:
        if self._held[SEEN] < self._look:
            return
        self._look, crowds = self._next_look(), self._crowds()
        if max(crowds) > NEARLY_ALL * self._held[SEEN]:
            self._look = math.inf
            self._tell(crowds.index(max(crowds)))

    def _next_look(self) -> float:
        look = ENOUGH_TO_TELL
        while look <= self._held[SEEN]:
            look *= 2.0
        return look

    def _crowds(self) -> list[float]:
        """Rows in each bin of the expert."""
        raise NotImplementedError

    def _tell(self, b: int) -> None:
        m = self.n_bins
        found = _crowded_bin(type(self).__name__, b / m, (b + 1) / m, self._said)
        try:
            warn(found)
        except CalibrantWarning:
            sys.stderr.write(f"{found}\n")

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        """The main guarantee on the first ``n_rows`` rows since it was new (default: those learned), unless vacuous.

        It is on the calibration error in bins of width epsilon where the forecaster has such a guarantee. Sharpness is
        all that :class:`Tracking` guarantees: there is none on its calibration error, which :class:`Hedging` has.
        """
        return main_of(self._certificates(self._check_rows(n_rows))[0])

    @reading
    def certificates(self, n_rows: int | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees on these rows that say something, the main one first: all these quantities are at most 1."""
        return tuple(each for each in self._certificates(self._check_rows(n_rows)) if each.bound < 1.0)

    def _certificates(self, n: int) -> tuple[OnlineCertificate, ...]:
        """All guarantees after n rows, the main one first, whether they say something or not."""
        raise NotImplementedError
