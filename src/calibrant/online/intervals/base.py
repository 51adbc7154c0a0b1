"""Base class of interval forecasters: an interval before each outcome, misses counted, a small state."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import is_whole, read_array, read_floats
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.guards import learning, reading
from calibrant.online.inputs import refuse_unpaired, shown
from calibrant.online.limits import MAX_ROWS, ULPS, changed, real
from calibrant.online.settings import settings_of
from calibrant.online.shared import Shared
from calibrant.online.states import finite, parsed

Interval = tuple[float, float]

VERSION = 1
"""Version of the state format."""

NUMBERS = "pass one number per row, or two columns: the lower and the upper end of an interval"


LARGEST, UNIT = 1e300, "pass them in a larger unit"
"""Largest forecast and outcome, so that errors are finite, and what to do about larger ones."""


class IntervalForecaster(Shared, ABC):
    """Base class of interval forecasters, which widen intervals after a miss and narrow them after a hit.

    A forecast is a number, or a pair of numbers (lower, upper), such as two quantiles. The interval is [lower - r,
    upper + r] with a radius r that depends on the outcomes so far; if r is negative it may be empty, with the lower end
    above the upper one. :meth:`predict_one` changes nothing. :meth:`predict_many` and :meth:`learn_many` are
    equivalent to loops over one row, bit for bit. :attr:`state` is small, plain JSON, from which :meth:`resume`
    continues without a difference. Memory does not grow with the stream.

    A subclass defines ``_radius``, ``_learned`` (of a score), ``_numbers`` and ``_resume``, and
    ``_most_missed``. Threads may share it, as any forecaster of :mod:`calibrant.online`.

    Notes
    -----
    Guarantee: that of each subclass; see :meth:`certificate`. It is about all intervals of a stream together, not about
    each of them. Reference: Gibbs and Candes (2021).
    """

    alpha: float
    _seen = 0
    _missed = 0

    # ----------------------------------------------------------------------------------------------------- one row

    @reading
    def predict_one(self, forecast: float | Interval) -> Interval:
        """The interval for the next outcome; does not change the forecaster.

        Parameters
        ----------
        forecast
            A number, or a pair (lower, upper).

        Returns
        -------
        tuple of float
            Lower and upper end; infinite if there is none.
        """
        return _around(*one_forecast(forecast), self._radius())

    @learning
    def learn_one(self, forecast: float | Interval, outcome: float) -> Self:
        """Learn the outcome of a forecast.

        Parameters
        ----------
        forecast
            A number, or a pair (lower, upper), as it was predicted.
        outcome
            What was observed.

        Returns
        -------
        IntervalForecaster
            The forecaster itself.
        """
        y = _number(outcome, "outcome", "leave out rows whose outcome is not known yet")
        self._step(*one_forecast(forecast), y)
        return self

    # --------------------------------------------------------------------------------------------------- many rows

    @reading
    def predict_many(self, forecasts: ArrayLike) -> Floats:
        """Intervals of many rows, all given what was learned so far.

        Parameters
        ----------
        forecasts
            One number per row, or two columns (lower, upper).

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.
        """
        radius = self._radius()
        ends = many_forecasts(forecasts)
        return np.array([_around(low, high, radius) for low, high in ends.tolist()]).reshape(-1, 2)

    @learning
    def learn_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> Self:
        """Learn outcomes in order.

        Parameters
        ----------
        forecasts, outcomes
            One of each per row.

        Returns
        -------
        IntervalForecaster
            The forecaster itself.
        """
        for low, high, y in _paired(forecasts, outcomes):
            self._step(low, high, y)
        return self

    @learning
    def forecast_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> Floats:
        """The interval of each row from the outcomes before it, as a live run would have given it.

        Parameters
        ----------
        forecasts, outcomes
            One of each per row.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.
        """
        out = []
        for low, high, y in _paired(forecasts, outcomes):
            out.append(_around(low, high, self._radius()))
            self._step(low, high, y)
        return np.array(out, dtype=np.float64).reshape(-1, 2)

    def _step(self, low: float, high: float, y: float) -> None:
        first, last = _around(low, high, self._radius())
        self._seen += 1
        self._missed += not first <= y <= last
        self._learned(max(low - y, y - high))

    # ---------------------------------------------------------------------------------------------------- guarantee

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    @property
    def missed(self) -> int:
        """Outcomes so far that were outside their intervals."""
        return self._missed

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        """The bound on the share of misses in the first ``n_rows`` rows, on every sequence, or the reason for none.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.

        Returns
        -------
        OnlineCertificate or NoCertificate
            Prints as a sentence.
        """
        n = self._seen if n_rows is None else n_rows
        if not is_whole(n) or not self._seen <= n <= MAX_ROWS:
            raise InputError(
                "n_rows", f"must be an integer of at least the {self._seen:,} rows learned, not {n_rows!r}"
            )
        most = self._most_missed(int(n))
        if isinstance(most, NoCertificate):
            return most
        if not n or most >= n:
            return NoCertificate(
                NoCertificateCode.VACUOUS,
                f"the bound on the misses among {int(n):,} rows is vacuous: pass a larger n_rows, or use a larger step",
            )
        return OnlineCertificate(
            "the share of outcomes outside their intervals",
            most * ULPS / n,
            int(n),
            False,
            (OnlineAssumption.IN_ORDER,),
            f"{self._theorem}; docs/certificates/online-intervals.md",
            learned=self._seen,
        )

    # ---------------------------------------------------------------------------------------------------- its state

    @property
    @reading
    def state(self) -> dict[str, Any]:
        """Settings and everything learned, as plain JSON; numbers are preserved bit for bit."""
        return {
            "version": VERSION,
            "forecaster": type(self).__name__,
            "parameters": self._parameters(),
            "numbers": [self._seen, self._missed, *self._numbers()],
        }

    def to_json(self) -> str:
        """The state as text, for :meth:`resume`."""
        return json.dumps(self.state, allow_nan=False)

    @classmethod
    def resume(cls, state: dict[str, Any] | str | bytes) -> Self:
        """Continue from a state.

        Parameters
        ----------
        state
            What ``state`` or ``to_json()`` of a forecaster of this class returned.

        Returns
        -------
        IntervalForecaster
            A forecaster with the same settings and numbers.
        """
        given = parsed(state)
        if not isinstance(given, dict) or given.get("forecaster") != cls.__name__:
            kind = given.get("forecaster") if isinstance(given, dict) else None
            raise InputError("state", f"belongs to {kind!r}, not to {cls.__name__}", "was it truncated?")
        if given.get("version") != VERSION:
            raise InputError(
                "state",
                f"has version {given.get('version')!r}, but this version of calibrant reads {VERSION}",
                "update calibrant",
            )
        numbers, parameters = given.get("numbers"), given.get("parameters")
        if not isinstance(numbers, list) or len(numbers) < 2 or not finite(numbers) or not isinstance(parameters, dict):
            raise InputError("state", "does not have the numbers that this forecaster needs", "was it truncated?")
        try:
            found = cls(**parameters)
        except TypeError:
            raise InputError("state", f"does not belong to {cls.__name__}", "was it edited by hand?") from None
        if not all(is_whole(x) for x in numbers[:2]) or not 0 <= numbers[1] <= numbers[0] <= MAX_ROWS:
            raise changed("number of rows")
        found._seen, found._missed = int(numbers[0]), int(numbers[1])
        found._resume([float(x) for x in numbers[2:]])
        return found

    def _parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in settings_of(type(self))}

    def __repr__(self) -> str:
        """The constructor call."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._parameters().items())})"

    # ---------------------------------------------------------------------------------------------- for subclasses

    _theorem: ClassVar[str]

    @abstractmethod
    def _radius(self) -> float:
        """The radius of the next interval; minus infinity for an empty one."""

    @abstractmethod
    def _learned(self, score: float) -> None:
        """Learn a score; rows and misses are counted already."""

    @abstractmethod
    def _most_missed(self, n: int) -> float | NoCertificate:
        """Upper bound on the number of misses among the first n rows."""

    @abstractmethod
    def _numbers(self) -> list[float]:
        """What it learned beyond rows and misses, as finite numbers."""

    @abstractmethod
    def _resume(self, numbers: list[float]) -> None:
        """Set what was learned from these numbers."""


def level_of(alpha: object) -> float:
    """A validated share of misses, inside (0, 1)."""
    return real("alpha", alpha, 1e-6, 1.0 - 1e-6)


def one_forecast(forecast: Any) -> Interval:
    """A forecast as a pair of finite numbers in order.

    Examples
    --------
    >>> one_forecast(2), one_forecast((1, 3.5))
    ((2.0, 2.0), (1.0, 3.5))
    """
    if isinstance(forecast, tuple | list | np.ndarray) and _shape(forecast) == (2,):
        low, high = (_number(end, "forecast", "pass a number, or a pair (lower, upper)") for end in forecast)
    else:
        low = high = _number(forecast, "forecast", "pass a number, or a pair (lower, upper)")
    if low > high:
        raise InputError("forecast", f"has its lower end {low:g} above the upper one {high:g}", "swap them")
    return low, high


def many_forecasts(forecasts: Any) -> Floats:
    """Forecasts as a matrix of lower and upper ends.

    Examples
    --------
    >>> many_forecasts([1, 2]).tolist(), many_forecasts([[1, 2]]).tolist()
    ([[1.0, 1.0], [2.0, 2.0]], [[1.0, 2.0]])
    """
    shape = _shape(forecasts)
    if len(shape) == 2 and shape[1] == 2:
        found = read_array(forecasts, "forecasts", NUMBERS)
    else:
        column = read_floats(forecasts, "forecasts")
        found = np.column_stack([column, column]).astype(np.float64)
    if not np.isfinite(found).all():
        place = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise InputError(
            "forecasts", f"is not finite at row {place} counted from 0", "leave out rows without a forecast"
        )
    _refuse_huge(found, "forecasts")
    crossed = found[:, 0] > found[:, 1]
    if crossed.any():
        raise InputError(
            "forecasts",
            f"has its lower end above the upper one at row {int(crossed.argmax())} counted from 0",
            "swap them",
        )
    return found


def _paired(forecasts: Any, outcomes: Any) -> list[tuple[float, float, float]]:
    refuse_unpaired(forecasts, outcomes, "outcomes")
    ends, ys = many_forecasts(forecasts), read_floats(outcomes, "outcomes")
    if len(ys) != len(ends):
        raise InputError("outcomes", f"has {len(ys)} rows but forecasts has {len(ends)}", "pass one for each forecast")
    if not np.isfinite(ys).all():
        place = int(np.argmin(np.isfinite(ys)))
        fix = "leave out rows whose outcome is not known yet"
        raise InputError("outcomes", f"is not finite at row {place} counted from 0", fix)
    _refuse_huge(ys, "outcomes")
    return [(low, high, y) for (low, high), y in zip(ends.tolist(), ys.tolist(), strict=True)]


def _around(low: float, high: float, radius: float) -> Interval:
    if radius == -math.inf:
        return math.inf, -math.inf
    if 0.0 <= radius < math.inf:  # a rounded error may be below the error by half a unit: see the certificate, Rounding
        radius = math.nextafter(radius, math.inf)
    return low - radius, high + radius


def _number(value: Any, name: str, fix: str) -> float:
    try:
        found = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError(name, f"must be a finite number, not {shown(value)}", fix)
    if abs(found) > LARGEST:
        raise InputError(name, f"must be at most {LARGEST:g} in absolute value, not {shown(value)}", UNIT)
    return found


def _refuse_huge(values: Floats, name: str) -> None:
    huge = np.abs(values) > LARGEST
    if huge.any():
        place = int(np.argwhere(huge)[0][0])
        raise InputError(
            name, f"must be at most {LARGEST:g} in absolute value, but is larger at row {place} counted from 0", UNIT
        )


def _shape(values: Any) -> tuple[int, ...]:
    """Shape of numbers; lists of different lengths have none."""
    try:
        return np.shape(values)
    except ValueError:
        return ()
