"""Rows that still wait, with the outcomes known so far, and the weights with which they may be learned early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.live.delays import DelayDrift
from calibrant.live.ids import Ids
from calibrant.messages import InputError, Shown, plural
from calibrant.numerics import Floats, Ints
from calibrant.shift.maturity import maturity_weights


@dataclass(frozen=True, eq=False)
class Young(Shown):
    """Predictions that wait for their release, as :meth:`Ledger.young` returns them, with what is known of them now.

    Attributes
    ----------
    ids, scores, keys, at, versions
        As in :class:`Released`, in the order of their release.
    labels
        The outcomes known so far. With ``silence="negative"``, 0 means that no event is known yet.
    arrived
        Estimated share of such outcomes that are known at the age of the row.
    own
        Whether ``arrived`` is from outcomes of the row's own key, rather than from all.
    left_out
        Rows that are too young: at their age less than 10 % of the outcomes are known.
    drift
        Whether delays change, which the weights assume they do not.
    silent_negatives
        Whether rows without a known outcome are here.

    Examples
    --------
    >>> from calibrant.live import Ledger
    >>> ledger = Ledger(horizon=10.0)
    >>> ledger.predict(range(100), [0.5] * 100, at=0.0)
    >>> ledger.observe(range(50), [1] * 50, at=4.0)
    >>> _ = ledger.advance(12.0)
    >>> ledger.predict(range(100, 200), [0.5] * 100, at=12.0)
    >>> _ = ledger.advance(18.0)
    >>> young = ledger.young()
    >>> young.labels.sum(), young.arrived[0], young.weights([0.5] * 100)[0]
    (np.int64(0), np.float64(1.0), np.float64(1.0))
    """

    ids: Ids
    scores: Floats
    labels: NDArray[np.int8]
    keys: NDArray[Any]
    at: Floats
    versions: Ints
    arrived: Floats
    own: NDArray[np.bool_]
    left_out: int
    drift: DelayDrift
    silent_negatives: bool

    def weights(self, rates: ArrayLike | None = None) -> Floats:
        """Weights with which these rows, on average, count as they will when all their outcomes are known.

        Parameters
        ----------
        rates
            Estimated probability of an event for each row, such as the current forecasts. Needed with
            ``silence="negative"``, where a row without an event may still have one.

        Returns
        -------
        array
            1 / arrived for known outcomes; (1 - rate) / (1 - rate * arrived) for rows without one.
        """
        if not self.silent_negatives:
            return np.asarray(1.0 / self.arrived)
        if rates is None:
            raise InputError("rates", "is missing: a row without an event may still have one", "pass current forecasts")
        given = np.asarray(rates, dtype=np.float64)
        if given.shape not in ((), self.scores.shape) or not ((given >= 0.0) & (given <= 1.0)).all():
            raise InputError("rates", "must hold a probability for each of the rows")
        return maturity_weights(self.labels, np.broadcast_to(given, self.scores.shape), self.arrived)

    def __len__(self) -> int:
        return len(self.scores)

    def __str__(self) -> str:
        """The counts, and whether delays drift."""
        events, of_key = plural(int((self.labels == 1).sum()), "event"), int(self.own.sum())
        return (
            f"{plural(len(self), 'row')} waiting with {events} so far; {of_key:,} with delays of their own key; "
            f"{self.left_out:,} too young.\n{self.drift}"
        )
