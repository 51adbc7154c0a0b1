"""Parity streams: probabilities that a series falls or stays, from predictive distributions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import check_scores
from calibrant.arrays.columns import is_whole
from calibrant.arrays.multiclass.rows import is_matrix
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster, one_score_forecaster
from calibrant.online.parity.panels import (
    check_rows,
    numbered,
    read_values,
    refuse_newest_first,
    same_order,
    values_before,
)
from calibrant.online.parity.predictive import DISTRIBUTIONS, Predictive, as_predictive
from calibrant.online.parity.quantile_error import quantile_calibration_error
from calibrant.online.parity.results import DecisionResult, ParityResult, ParityTable, falls_or_stays

N_BINS = 30
"""Default number of equal-width bins of the parity calibration error (Gupta 2023, section 7.3)."""

Said = Forecaster | ArrayLike | None
"""A forecaster, probabilities, or None for the base forecast."""


@dataclass(frozen=True, eq=False)
class ParityStream:
    r"""Probabilities of a decrease and observed outcomes, in time order; created by :func:`parity_stream`.

    A decrease is a value that falls or stays: a tie counts as a decrease.

    Attributes
    ----------
    scores
        :math:`p_t = F_t(y_{t-1})`: probability of a decrease by the base forecast.
    outcomes
        1 where :math:`y_t \le y_{t-1}`, else 0.
    batches
        Batch number of each row, starting at 0; None if each row is its own batch.
    rows
        Indices of these rows among those given; the others had no previous value, no outcome or no forecast.
    given
        Number of rows given.
    forecast, y
        Base forecast and values of all rows given; the forecast is None if probabilities were given.
    previous
        :math:`y_{t-1}`: the value before each of these rows.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast, OnlinePlatt, parity_stream
    >>> y = np.random.default_rng(0).normal(size=4000)  # noise: high values tend to fall
    >>> stream = parity_stream(GaussianForecast(np.zeros(4000), 3.0), y)  # far too wide
    >>> print(stream.compare({"OPS": OnlinePlatt(gamma=0.001, rho=1e4)}))
    3,999 rows, 50.1 % fall or stay, 30 bins
             QCE     PCE  (expected)   Sharp     Acc   AUROC
    base  0.1454  0.1476      0.0250  0.3348  0.7507  0.8348
    OPS        -  0.0250      0.0272  0.3338  0.7497  0.8301
    """

    scores: Floats
    outcomes: Floats
    batches: NDArray[np.intp] | None
    rows: NDArray[np.intp]
    given: int
    forecast: Predictive | None
    y: Floats
    previous: Floats

    def __len__(self) -> int:
        """Rows with a forecast and an outcome."""
        return len(self.scores)

    @property
    def ties(self) -> NDArray[np.bool_]:
        """Whether the value of each row equals the one before."""
        return np.asarray(self.y[self.rows] == self.previous)

    def forecasts(self, forecaster: Forecaster) -> Floats:
        """Live forecasts of a copy of the forecaster: each batch is forecast, and then learned.

        All rows of a batch are forecast before any of their outcomes is known, so the forecaster's certificate holds
        only for batches of one row. The forecaster itself does not change.

        Parameters
        ----------
        forecaster
            A forecaster of one score.
        """
        learner = copy.deepcopy(one_score_forecaster(forecaster))
        if self.batches is None:
            return learner.forecast_many(self.scores, self.outcomes)
        out = np.empty(len(self))
        for part in self._parts(self.batches):
            out[part] = learner.predict_many(self.scores[part])
            learner.learn_many(self.scores[part], self.outcomes[part])
        return out

    def judge(
        self, said: Said = None, *, after: int = 0, n_bins: int = N_BINS, name: str | None = None
    ) -> ParityResult:
        """Calibration error, sharpness, accuracy and AUROC of parity probabilities, as in Gupta (2023), chapter 7.

        Parameters
        ----------
        said
            A forecaster, whose live forecasts are evaluated; or probabilities, one for each row of the stream; or None
            for the base forecast, whose quantile calibration error is then included.
        after
            Number of batches (rows, if there are no batches) that are learned first and not evaluated.
        n_bins
            Number of equal-width bins.
        name
            Name of the result; by default that of the forecaster.

        Returns
        -------
        ParityResult
            Prints as a table of one row; :class:`~calibrant.displays.ParityDisplay` draws it.

        Notes
        -----
        Guarantee: no finite-sample guarantee here; the forecaster may have a certificate, for batches of one row.
        Reference: Gupta (2023), section 7.A.
        """
        from calibrant.metrics import accuracy, auc, ece, sharpness  # here, so that a service starts without scipy
        from calibrant.metrics.binary.bins import tally_of

        judged = self._judged(after)
        tally = tally_of(self._said(said)[judged], self.outcomes[judged])
        qce = None
        if said is None and self.forecast is not None:
            qce = quantile_calibration_error(self.forecast, self.y, rows=self.rows[judged])
        return ParityResult(
            name=_name(said) if name is None else name,
            n_rows=int(judged.sum()),
            base_rate=float(self.outcomes[judged].mean()),
            tie_rate=float(self.ties[judged].mean()),
            n_bins=n_bins,
            qce=qce,
            pce=ece(tally, n_bins=n_bins),
            sharpness=sharpness(tally, n_bins=n_bins),
            accuracy=accuracy(tally),
            auroc=auc(tally),
            tally=tally,
        )

    def compare(self, forecasters: Mapping[str, Said], *, after: int = 0, n_bins: int = N_BINS) -> ParityTable:
        """Evaluate the base forecast and others on the same rows, as by :meth:`judge`.

        Parameters
        ----------
        forecasters
            Forecasters by name. Those of Gupta (2023), Algorithm 7.1, with n rows in a batch, are
            ``Refitted("platt", every=uf * n)`` for IW, ``Refitted("platt", every=uf * n, window=ws * n)`` for MW, and
            ``OnlinePlatt(gamma=g, rho=(g * D) ** -2)`` for OPS; ``Tracking(...)`` and ``Hedging(...)`` of these are
            the calibeating versions.
        after, n_bins
            As in :meth:`judge`.

        Notes
        -----
        Guarantee: no finite-sample guarantee; see :meth:`judge`.
        OPS has gamma 0.1 and D 1 in Algorithm 7.2, as in chapter 6, and 0.001 and 10 for the cases of section 7.C.1:
        with these its steps do not shrink, and it follows the latest outcomes.
        """
        if not isinstance(forecasters, Mapping):
            raise InputError("forecasters", 'must be given by name, as in {"OPS": OnlinePlatt()}')
        if "base" in forecasters:
            raise InputError(
                "forecasters", 'has the name "base", which is reserved for the base forecast', "choose another name"
            )
        results = [self.judge(after=after, n_bins=n_bins, name="base")]
        for name, said in forecasters.items():
            results.append(self.judge(said, after=after, n_bins=n_bins, name=name))
        return ParityTable(tuple(results))

    def decide(
        self, loss_matrix: ArrayLike, said: Said = None, *, actions: Sequence[Any] | None = None, after: int = 0
    ) -> DecisionResult:
        """Total loss of choosing the action with the smallest expected loss in every row.

        Parameters
        ----------
        loss_matrix
            One row per action, two columns: its loss if the value rises, and if it does not.
        said, after
            As in :meth:`judge`.
        actions
            Names of the actions; by default the row numbers.

        Returns
        -------
        DecisionResult
            Prints as a sentence.

        Notes
        -----
        Edge case: of tied actions the one that is best at higher probabilities is chosen.
        Reference: Gupta (2023), section 7.3.1; :func:`calibrant.decisions.choose_action`.

        Examples
        --------
        >>> stream = parity_stream([0.9, 0.2, 0.6, 0.1], [5.0, 4.0, 6.0, 7.0], previous=[6.0, 6.0, 5.0, 6.0])
        >>> print(stream.decide([[0.3, 0.5], [0.6, 0.2], [1.0, 0.0]], actions=["tight", "mild", "none"]))
        Total loss 1.4 over 4 rows (actions: tight 50.0 %, mild 25.0 %, none 25.0 %).
        """
        from calibrant.decisions import choose_action  # imported here, since few streams need it

        losses = np.asarray(loss_matrix, dtype=np.float64)
        policy = choose_action(losses)
        names = tuple(range(len(losses)) if actions is None else actions)
        if len(names) != len(losses):
            raise InputError(
                "actions", f"has {len(names)} names but loss_matrix has {len(losses)} rows", "pass one name per row"
            )
        judged = self._judged(after)
        taken = policy.decide(self._said(said)[judged]).astype(np.intp)
        return DecisionResult(names, taken, losses[taken, self.outcomes[judged].astype(np.intp)])

    def _said(self, said: Said) -> Floats:
        if said is None:
            return self.scores
        if isinstance(said, Forecaster | type | str):
            return self.forecasts(one_score_forecaster(said))
        found = _chances(said)
        if found is None or len(found) != len(self) or np.isnan(found).any():
            raise InputError(
                "said",
                f"must be a forecaster, or a probability in [0, 1] for each of the {len(self)} rows of the stream, "
                "without missing values",
            )
        return found

    def _judged(self, after: int) -> NDArray[np.bool_]:
        if not is_whole(after) or after < 0:
            raise InputError("after", f"must be an integer of at least 0, got {after!r}")
        found = (np.arange(len(self)) if self.batches is None else self.batches) >= after
        if not found.any():
            raise InputError(
                Setting("after", after), "leaves no row to evaluate", "there are fewer batches: pass a smaller number"
            )
        return np.asarray(found)

    def _parts(self, batches: NDArray[np.intp]) -> list[slice]:
        ends = np.append(np.flatnonzero(np.diff(batches)) + 1, len(batches)).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def __repr__(self) -> str:
        """Number of rows, and of rows left out."""
        rate = falls_or_stays(float(self.outcomes.mean()), float(self.ties.mean()))
        batches = "" if self.batches is None else f" in {self.batches[-1] + 1:,} batches"
        return f"<parity stream of {len(self):,} rows{batches}, {rate}; {self.given - len(self):,} left out>"


def parity_stream(
    forecast: Predictive | Callable[[Floats], ArrayLike] | ArrayLike,
    y: ArrayLike,
    *,
    previous: ArrayLike | None = None,
    by: ArrayLike | None = None,
    batch: ArrayLike | None = None,
) -> ParityStream:
    r"""Convert predictive distributions of a series to probabilities that it falls or stays, with outcomes.

    .. math:: p_t = F_t(y_{t-1}), \qquad \tilde y_t = \mathbf{1}[y_t \le y_{t-1}],

    where :math:`F_t` is the predictive distribution of the value :math:`y_t`, made before it is known, and
    :math:`y_{t-1}` the previous value of the same series. **1 is a decrease**; a tie counts as a decrease.

    Parameters
    ----------
    forecast
        A :class:`GaussianForecast`, :class:`QuantileForecast` or :class:`SampleForecast`; or a function that returns
        :math:`F_t(x_t)` for an array of one x per row, or an object with such a ``cdf``, as in scipy; or a column of
        probabilities of a decrease, from a classifier.
    y
        The series in time order; NaN for missing values.
    previous
        The value before each row, if it is not among the rows; for forecasts several steps ahead, the last value that
        was known when each was made.
    by
        The series of each row; by default there is one. Rows are compared within their series.
    batch
        Rows that become known at the same time, such as the week; they must be adjacent. All rows of a batch are
        forecast before any of its outcomes is learned. By default each row is a batch. Numbers, dates and ISO dates as
        text must increase; other values are used in order of appearance.

    Returns
    -------
    ParityStream
        Scores and outcomes for online forecasters.

    Notes
    -----
    Edge cases: a row without previous value (the first of its series, or after a NaN), outcome or forecast is left out;
    the result gives their number. The previous row of the same series is used, however long ago it was. A batch with
    two rows of one series is an error, since the first would have to be known to forecast the second; pass ``previous``
    if it was. Pandas columns with the same index in another order are an error, and so is a ``y`` whose dates run
    backwards. In a stream without batches, outcomes of other series at the same time are learned one by one: this is
    the single-timeseries setting of Gupta (2023), in which one state's week informs the next state's forecast. Outcomes
    of forecasts several steps ahead arrive later than such a stream learns them: forecast and learn these in your own
    loop, and pass the forecasts to :meth:`ParityStream.judge`.
    Guarantee: no finite-sample guarantee. A forecast whose quantiles are calibrated can be wrong about parity at every
    probability (Gupta 2023, section 7.1.1), which is why an online forecaster calibrates it.
    Cost: one evaluation of the distributions, one sort of the series.
    Reference: Gupta (2023), section 7.2 and Algorithm 7.1.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast, parity_stream
    >>> stream = parity_stream(GaussianForecast([10, 20, 11, 19], 1.0), [10, 20, 9, 21], by=["a", "b", "a", "b"])
    >>> stream.scores.round(3).tolist(), stream.outcomes.tolist()
    ([0.159, 0.841], [1.0, 0.0])

    Live, one forecast at a time:

    >>> from calibrant.online import OnlinePlatt
    >>> ops, yesterday = OnlinePlatt(), 9.5
    >>> decrease = float(GaussianForecast(10.0, 1.0).cdf(yesterday)[0])
    >>> round(ops.predict_one(decrease), 3)
    0.309
    >>> ops = ops.learn_one(decrease, 9.1 <= yesterday)
    """
    values = read_values(y, "y")
    same_order(y=y, forecast=forecast, previous=previous, by=by, batch=batch)
    refuse_newest_first(y)
    numbers = None if batch is None else numbered(batch, len(values))
    before = values_before(values, previous, by, numbers)
    base, scores = _probabilities(forecast, before)
    kept = np.flatnonzero(~(np.isnan(values) | np.isnan(before) | np.isnan(scores)))
    if not len(kept):
        raise InputError(
            "y", "has no row with a forecast, an outcome and a previous value", "there is nothing to compare"
        )
    outcomes = (values[kept] <= before[kept]).astype(np.float64)
    batches = None if numbers is None else np.unique(numbers[kept], return_inverse=True)[1].astype(np.intp)
    return ParityStream(scores[kept], outcomes, batches, kept, len(values), base, values, before[kept])


def _probabilities(forecast: Any, before: Floats) -> tuple[Predictive | None, Floats]:
    """The distributions, if any, and their probabilities of at most the previous values."""
    found: Predictive | Floats | None
    if (
        forecast is None
        or isinstance(forecast, Predictive | str)
        or callable(forecast)
        or callable(getattr(forecast, "cdf", None))
        or is_matrix(forecast)
    ):
        found = as_predictive(forecast, len(before))  # rejects text and tables with a helpful error
    else:
        found = _chances(forecast)
    if found is None:
        raise InputError(
            "forecast",
            "must be a predictive distribution, or a probability in [0, 1] for each row; a point forecast is neither",
            DISTRIBUTIONS,
        )
    check_rows(found, "forecast", len(before))
    if not isinstance(found, Predictive):
        return None, found
    known = ~np.isnan(before)
    filled = np.where(known, before, before[known][0] if known.any() else 0.0)  # a user's function may fail on NaN
    return found, np.where(known, found.cdf(filled), np.nan)


def _chances(column: Any) -> Floats | None:
    """A column of probabilities, with NaN for missing ones; None if it is not one."""
    try:
        return np.asarray(check_scores(column, "probability"), dtype=np.float64)
    except InputError:
        return None


def _name(said: Said) -> str:
    return "base" if said is None else type(said).__name__ if isinstance(said, Forecaster) else "given"
