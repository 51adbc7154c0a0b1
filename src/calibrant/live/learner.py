"""A forecaster that learns from late labels: it predicts at once, and learns each row when the ledger releases it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.live.bank.bank import Bank
from calibrant.live.ledger import Ledger
from calibrant.live.records import Released
from calibrant.live.snapshots import damaged, pack, unpack_any
from calibrant.messages import InputError, Shown
from calibrant.numerics import Floats
from calibrant.online import Forecaster, resume
from calibrant.online.settings import settings_of

KIND, KEYED = "late-learner", "late-bank"
"""Names in its states: with a forecaster, and with a bank."""


def draws(forecaster: Forecaster) -> bool:
    """Whether a forecaster, or an expert of it, draws its forecasts at random.

    Examples
    --------
    >>> from calibrant.online import Hedging, OnlinePlatt, Tracking
    >>> draws(Hedging(OnlinePlatt())), draws(Tracking(OnlinePlatt()))
    (True, False)
    """
    kind: type = type(forecaster)
    own = "random_state" in settings_of(kind) and getattr(forecaster, "rule", None) != "two-choices"
    return own or any(map(draws, forecaster.experts))


class LateLearner(Shown):
    """A forecaster around a ledger: forecasts are made at once, outcomes are learned one horizon after them.

    Each row is learned once, in the order of its release, with the label that was known at its release. Positives and
    negatives are learned with the same delay, and repeated events change nothing.

    Parameters
    ----------
    forecaster
        A forecaster of :mod:`calibrant.online` for one score, or a :class:`Bank` whose keys are one column.
    ledger
        The ledger that joins predictions and outcomes.

    Notes
    -----
    Guarantee: each forecast is the one that the same forecaster gives after the rows released so far, without delay:
    the forecasts of one horizon ago, applied to today's scores. The forecaster's own bound is about the forecasts that
    it gives when each row is learned, and not about those that were given a horizon earlier; see :meth:`certificate`.
    Forecasters that draw at random are refused: their guarantee needs each outcome before the next forecast, and
    nothing of it survives, since all forecasts of a horizon would share one draw.

    Edges: before the first release, forecasts are those of the forecaster as it was passed. Use a lock around a learner
    that threads share. Cost: that of the ledger
    and of the forecaster.

    Reference: Joulani, Gyorgy and Szepesvari (2013), Online learning under delayed feedback.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> late = LateLearner(OnlinePlatt(), Ledger(horizon=60.0))
    >>> late.predict(["a", "b"], [0.2, 0.3], at=0.0).round(6).tolist()
    [0.2, 0.3]
    >>> late.observe(["b"], [1], at=30.0)
    >>> late.advance(60.0).labels.tolist(), late.forecaster.n_rows
    ([0, 1], 2)
    """

    def __init__(self, forecaster: Forecaster | Bank, ledger: Ledger) -> None:
        if isinstance(forecaster, Bank):
            if len(forecaster.columns) > 1:
                raise InputError("forecaster", "has several columns of keys", "pass a bank with one column")
        elif not isinstance(forecaster, Forecaster) or forecaster.takes_rows or forecaster.takes_features:
            raise InputError("forecaster", "must be a bank, or a forecaster for one score without features")
        elif draws(forecaster):
            problem = "draws its forecasts at random, which guarantees nothing when outcomes come late"
            raise InputError("forecaster", problem, "pass one that does not draw, such as OnlinePlatt or Tracking")
        if not isinstance(ledger, Ledger):
            raise InputError("ledger", "must be a Ledger", "pass Ledger(horizon=...)")
        self.forecaster, self.ledger = forecaster, ledger
        self._waiting: list[Released] = []  # released, and not learned because of an error

    def predict(
        self, ids: Any, scores: ArrayLike, *, at: ArrayLike, keys: ArrayLike = 0, versions: ArrayLike = 0
    ) -> Floats:
        """Forecast and register predictions.

        Parameters
        ----------
        ids, scores, at, keys, versions
            As in :meth:`Ledger.predict`; scores are probabilities.

        Returns
        -------
        array
            The forecasts, given what was released so far.
        """
        if isinstance(self.forecaster, Bank):
            of = np.broadcast_to(np.asarray(keys), np.shape(scores)) if np.ndim(keys) == 0 else keys
            forecasts = self.forecaster.predict(scores, of)
        else:
            forecasts = self.forecaster.predict_many(scores)
        self.ledger.predict(ids, scores, at=at, keys=keys, versions=versions)
        return forecasts

    def observe(self, ids: Any, labels: ArrayLike, *, at: ArrayLike | None = None) -> None:
        """Register outcomes; they are learned at the release of their prediction.

        Parameters
        ----------
        ids, labels, at
            As in :meth:`Ledger.observe`.
        """
        self.ledger.observe(ids, labels, at=at)

    def advance(self, now: float) -> Released:
        """Move time forward, and learn what is released.

        Parameters
        ----------
        now
            The new time.

        Returns
        -------
        Released
            The rows that were released now, in order. If the forecaster refuses a row, its error is raised, and the
            rows are learned at the next call, before others.
        """
        released = self.ledger.advance(now)
        if len(released):
            self._waiting.append(released)
        while self._waiting:
            rows = self._waiting[0]
            if isinstance(self.forecaster, Bank):
                self.forecaster.learn(rows.scores, rows.keys, rows.labels)
            else:
                self.forecaster.learn_many(rows.scores, rows.labels)
            del self._waiting[0]
        return released

    def certificate(self) -> NoCertificate:
        """Why the forecasts that were given have no certificate.

        Returns
        -------
        NoCertificate
            With the reason. ``forecaster.certificate()`` is about the forecasts when rows are learned.
        """
        own = self.forecaster.certificate()
        if isinstance(own, NoCertificate):
            return own
        name = type(self.forecaster).__name__
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            f"outcomes are learned one horizon late, and the bound of {name} is about the forecasts that it gives when "
            "each row is learned, not about those that were given (see forecaster.certificate())",
        )

    def to_bytes(self) -> bytes:
        """Ledger and forecaster as they are now."""
        if self._waiting:
            raise InputError(
                "forecaster", "has refused rows that are not learned yet", "call advance until it succeeds"
            )
        arrays = {"ledger": np.frombuffer(self.ledger.to_bytes(), dtype=np.uint8)}
        if isinstance(self.forecaster, Bank):
            return pack(KEYED, {}, arrays | {"bank": np.frombuffer(self.forecaster.to_bytes(), dtype=np.uint8)})
        return pack(KIND, {"forecaster": json.loads(self.forecaster.to_json())}, arrays)

    @classmethod
    def from_bytes(cls, state: bytes) -> LateLearner:
        """Go on where another was when :meth:`to_bytes` wrote its state.

        Parameters
        ----------
        state
            What :meth:`to_bytes` returned.

        Returns
        -------
        LateLearner
            It gives the same forecasts for the same events, bit for bit.
        """
        either = {KIND: {"ledger": np.uint8}, KEYED: {"ledger": np.uint8, "bank": np.uint8}}
        kind, head, arrays = unpack_any(state, either)
        ledger = Ledger.from_bytes(arrays["ledger"].tobytes())
        if kind == KEYED:
            return cls(Bank.from_bytes(arrays["bank"].tobytes()), ledger)
        if "forecaster" not in head:
            raise damaged()
        return cls(resume(head["forecaster"]), ledger)

    def __str__(self) -> str:
        """What waits and what was learned."""
        lag = f"Learning lags one horizon ({self.ledger.horizon:g}); {self.forecaster.n_rows:,} rows learned."
        return f"{type(self.forecaster).__name__} with late labels. {lag}\n{self.ledger.counts}"
