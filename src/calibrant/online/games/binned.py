"""Base class of calibeating forecasters: certificates, and a warning if nearly all rows lie in one bin."""

from __future__ import annotations

import math
import sys

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate, main_of
from calibrant.messages import CalibrantWarning, Voice, note, warn
from calibrant.online.compiled import KernelForecaster
from calibrant.online.games.widths import Epsilon
from calibrant.online.guards import reading
from calibrant.online.kernels import SEEN
from calibrant.online.settings import read_only

ENOUGH_TO_TELL, NEARLY_ALL = 1_000.0, 0.99
"""Smallest number of rows for the warning, and share of rows in one bin that triggers it."""


@note("rows-in-one-bin")
def _crowded_bin(voice: Voice, forecaster: str, low: float, high: float, said: str) -> str:
    return (
        f"{forecaster}: more than {NEARLY_ALL:.0%} of the {voice.nouns.rows} lie in one bin of the expert's forecasts, "
        f"from {low:g} to {high:g}, and all of them get {said}: if their risks differ, use the expert alone"
    )


class BinnedForecaster(KernelForecaster):
    """Base class of kernels with m bins of width 1/m.

    After a stream (``learn_many``, ``forecast_many``; not after single rows, for speed) it checks whether nearly all
    rows lie in one bin of the expert's forecasts, where all get one number, and warns once. It checks at 1,000 rows and
    at each doubling, also after a restart, since the check takes time in proportion to the stored numbers. If warnings
    are errors it writes to stderr instead: an exception would lose forecasts of rows that are already learned.
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
        """Number of rows in each bin of the expert."""
        raise NotImplementedError

    def _tell(self, b: int) -> None:
        m = self.n_bins
        found = _crowded_bin(type(self).__name__, b / m, (b + 1) / m, self._said)
        try:
            warn(found)
        except CalibrantWarning:
            sys.stderr.write(f"{found}\n")

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        """The main guarantee for the first ``n_rows`` rows since it was created, unless it is vacuous.

        It is a bound on the calibration error in bins of width epsilon, if the forecaster has one. :class:`Tracking`
        has a guarantee on sharpness only, none on its calibration error; :class:`Hedging` has one.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.
        """
        return self._main_certificate(n_rows)

    @reading
    def certificates(self, n_rows: int | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees for these rows that are not vacuous, the main one first.

        A bound of 1 or more is vacuous, since all these quantities are at most 1.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.
        """
        return self._useful_certificates(n_rows)

    def _main_certificate(self, n_rows: int | None, alpha: float | None = None) -> OnlineCertificate | NoCertificate:
        return main_of(self._certificates(self._check_rows(n_rows), alpha)[0])

    def _useful_certificates(self, n_rows: int | None, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        return tuple(each for each in self._certificates(self._check_rows(n_rows), alpha) if each.bound < 1.0)

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees after n rows, the main one first, including vacuous ones."""
        raise NotImplementedError
