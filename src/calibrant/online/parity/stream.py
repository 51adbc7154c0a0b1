"""Will the next value fall or stay? Probabilities of that from forecasts of a number, for online calibration."""

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
"""Bins of equal width in which parity is judged (002 section 7.3)."""

Said = Forecaster | ArrayLike | None
"""Whose probabilities: a forecaster's, given ones, or (None) those of the base forecast."""


@dataclass(frozen=True, eq=False)
class ParityStream:
    r"""Probabilities of a decrease and what happened, in order of time; made by :func:`parity_stream`.

    Here and below a decrease is a value that falls or stays: a tie counts as one.

    Attributes
    ----------
    scores
        :math:`p_t = F_t(y_{t-1})`: what the base forecast says of a decrease.
    outcomes
        1 where :math:`y_t \le y_{t-1}`, else 0.
    batches
        Number of the batch of each row, from 0 on; None when each row is a batch of its own.
    rows
        Numbers of these rows among those given; the others had no previous value, no outcome or no forecast.
    given
        How many rows were given.
    forecast, y
        The base forecast and the values, of all rows given; the forecast is None if probabilities were given.
    previous
        :math:`y_{t-1}`: the value before each of these rows.

    Examples
    --------
    >>> from calibrant.online import GaussianForecast, OnlinePlatt, parity_stream
    >>> y = np.random.default_rng(0).normal(size=4000)  # noise: what is high will fall
    >>> stream = parity_stream(GaussianForecast(np.zeros(4000), 3.0), y)  # far too wide
    >>> print(stream.compare({"OPS": OnlinePlatt(gamma=0.001, rho=1e4)}))
    3,999 rows, 50.1 % fall or stay, 30 bins
             QCE     PCE  (if right)   Sharp     Acc   AUROC
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
        """Where the value stays as it was."""
        return np.asarray(self.y[self.rows] == self.previous)

    def forecasts(self, forecaster: Forecaster) -> Floats:
        """What a copy of the forecaster would have said live: each batch is forecast, and then learned.

        Rows of one batch are all forecast before any of their outcomes is known, so that the forecaster's certificate
        holds for batches of one row only. The forecaster itself is not moved.
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
        """One row of the table of chapter 7: calibration error, sharpness, accuracy and AUROC of parity.

        Parameters
        ----------
        said
            A forecaster, whose live forecasts are judged; or probabilities, one for each row of the stream; or None for
            the base forecast, whose quantile calibration is then judged too.
        after
            Batches (rows, where there are no batches) that are learned first and not judged.
        n_bins
            Bins of equal width.
        name
            Of the row; by default that of the forecaster.

        Notes
        -----
        Guarantee: none in finite samples; that of the forecaster is its own certificate, for batches of one row.
        Reference: 002 section 7.A.
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
        )

    def compare(self, forecasters: Mapping[str, Said], *, after: int = 0, n_bins: int = N_BINS) -> ParityTable:
        """The base forecast and others beside it, judged by :meth:`judge` on the same rows.

        Parameters
        ----------
        forecasters
            By name. Those of 002 Algorithm 7.1, with n rows in a batch: ``Refitted("platt", every=uf * n)`` is IW,
            ``Refitted("platt", every=uf * n, window=ws * n)`` is MW, and ``OnlinePlatt(gamma=g, rho=(g * D) ** -2)`` is
            OPS; ``Tracking(...)`` and ``Hedging(...)`` of these are calibeaten.
        after, n_bins
            As in :meth:`judge`.

        Notes
        -----
        OPS has gamma 0.1 and D 1 in Algorithm 7.2, as in chapter 6, and 0.001 and 10 for the cases of section 7.C.1:
        then its steps do not shrink, and it follows the latest outcomes.
        """
        if not isinstance(forecasters, Mapping):
            raise InputError("forecasters", 'must be given by name, as in {"OPS": OnlinePlatt()}')
        if "base" in forecasters:
            raise InputError(
                "forecasters", 'has the name "base", under which the base forecast stands', "choose another"
            )
        results = [self.judge(after=after, n_bins=n_bins, name="base")]
        for name, said in forecasters.items():
            results.append(self.judge(said, after=after, n_bins=n_bins, name=name))
        return ParityTable(tuple(results))

    def decide(
        self, loss_matrix: ArrayLike, said: Said = None, *, actions: Sequence[Any] | None = None, after: int = 0
    ) -> DecisionResult:
        """Take the action of least expected loss in every row, and add up what it cost.

        Parameters
        ----------
        loss_matrix
            One row per action, two columns: its loss when the value rises, and when it does not.
        said, after
            As in :meth:`judge`.
        actions
            Names; by default the numbers of the rows.

        Notes
        -----
        Edge rule: at a tie the action that is best at higher probabilities is taken.
        Reference: 002 section 7.3.1; :func:`calibrant.decisions.bayes_action`.

        Examples
        --------
        >>> stream = parity_stream([0.9, 0.2, 0.6, 0.1], [5.0, 4.0, 6.0, 7.0], previous=[6.0, 6.0, 5.0, 6.0])
        >>> print(stream.decide([[0.3, 0.5], [0.6, 0.2], [1.0, 0.0]], actions=["tight", "mild", "none"]))
        A loss of 1.4 over 4 rows (tight 50.0 %, mild 25.0 %, none 25.0 %).
        """
        from calibrant.decisions import bayes_action  # here, since few streams decide

        losses = np.asarray(loss_matrix, dtype=np.float64)
        policy = bayes_action(losses)
        names = tuple(range(len(losses)) if actions is None else actions)
        if len(names) != len(losses):
            raise InputError(
                "actions", f"has {len(names)} names but loss_matrix has {len(losses)} rows", "name every row"
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
                f"must be a forecaster, or probabilities in [0, 1] for each of the {len(self)} rows of the stream, "
                "none missing",
            )
        return found

    def _judged(self, after: int) -> NDArray[np.bool_]:
        if not is_whole(after) or after < 0:
            raise InputError("after", f"must be a whole number of batches from 0 on, got {after!r}")
        found = (np.arange(len(self)) if self.batches is None else self.batches) >= after
        if not found.any():
            raise InputError(Setting("after", after), "leaves no row to judge", "there are fewer batches")
        return np.asarray(found)

    def _parts(self, batches: NDArray[np.intp]) -> list[slice]:
        ends = np.append(np.flatnonzero(np.diff(batches)) + 1, len(batches)).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def __repr__(self) -> str:
        """How many rows there are, and how many were left out."""
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
    r"""From forecasts of a number to probabilities that it will fall or stay, and whether it did.

    .. math:: p_t = F_t(y_{t-1}), \qquad \tilde y_t = \mathbf{1}[y_t \le y_{t-1}],

    where :math:`F_t` is the forecast distribution of the value :math:`y_t`, made before it is known, and
    :math:`y_{t-1}` the value before it in the same series. **1 is a decrease**; a tie counts as one.

    Parameters
    ----------
    forecast
        A :class:`GaussianForecast`, :class:`QuantileForecast` or :class:`SampleForecast`; or a function that gives
        :math:`F_t(x_t)` for an array of one x per row, or an object with such a ``cdf``, as of scipy; or a
        column of probabilities of a decrease, from a classifier.
    y
        The series itself, in order of time; NaN where a value is missing.
    previous
        The value before each row, if it is not among the rows; for forecasts several steps ahead, the last value that
        was known when each was made.
    by
        The series that each row belongs to; by default there is one. Rows are compared with the same series.
    batch
        What becomes known at one time, such as the week; rows of a batch stand together. All rows of a batch are
        forecast before any of its outcomes is learned. By default each row is a batch. Numbers, dates and ISO dates
        as text must increase; other values count in the order in which they come.

    Notes
    -----
    Edge rules: a row without previous value (the first of its series, or after a NaN), outcome or forecast is left out;
    the result says how many. The row before in the same series counts as its previous one, however long ago it was.
    A batch with two rows of one series is refused, since the first would have to be known to forecast the second; pass
    ``previous`` if it was. Columns of pandas with the same index in another order are refused, and so is a ``y`` whose
    dates run backwards. Within a stream without batches, outcomes of other series at the same time are learned one by
    one: that is 002's single-timeseries setting, which peeks at one state's week for the next state's. Outcomes of
    forecasts several steps ahead come later than such a stream learns them: forecast and learn these in a loop of your
    own, and pass what was said to :meth:`ParityStream.judge`.
    Guarantee: none; a forecast whose quantiles are calibrated can be wrong about parity at every probability (002
    section 7.1.1), which is why it is calibrated by an online forecaster.
    Cost: one evaluation of the distributions, one sort of the series.
    Reference: 002 section 7.2 and Algorithm 7.1.

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
            "y", "has no row with a forecast, an outcome and a value before it", "there is nothing to compare"
        )
    outcomes = (values[kept] <= before[kept]).astype(np.float64)
    batches = None if numbers is None else np.unique(numbers[kept], return_inverse=True)[1].astype(np.intp)
    return ParityStream(scores[kept], outcomes, batches, kept, len(values), base, values, before[kept])


def _probabilities(forecast: Any, before: Floats) -> tuple[Predictive | None, Floats]:
    """The distributions, if there are any, and their probabilities of at most the values before."""
    found: Predictive | Floats | None
    if (
        forecast is None
        or isinstance(forecast, Predictive | str)
        or callable(forecast)
        or callable(getattr(forecast, "cdf", None))
        or is_matrix(forecast)
    ):
        found = as_predictive(forecast, len(before))  # which refuses text and tables, and says what to make of them
    else:
        found = _chances(forecast)
    if found is None:
        raise InputError(
            "forecast",
            "must be a predictive distribution, or a probability in [0, 1] for each row, and a point forecast is "
            "neither",
            DISTRIBUTIONS,
        )
    check_rows(found, "forecast", len(before))
    if not isinstance(found, Predictive):
        return None, found
    known = ~np.isnan(before)
    filled = np.where(known, before, before[known][0] if known.any() else 0.0)  # a user's function may choke on NaN
    return found, np.where(known, found.cdf(filled), np.nan)


def _chances(column: Any) -> Floats | None:
    """A column of probabilities, NaN where one is missing; None if it is none."""
    try:
        return np.asarray(check_scores(column, "probability"), dtype=np.float64)
    except InputError:
        return None


def _name(said: Said) -> str:
    return "base" if said is None else type(said).__name__ if isinstance(said, Forecaster) else "given"
