"""Aggregation of several experts that nearly matches the best of them: Vovk's aggregating algorithm."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate, main_of
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.experts.mixtures import LARGEST_LOG_LOSS, held_inside, step_all, weighted_mean
from calibrant.online.games.binned import BinnedForecaster
from calibrant.online.guards import reading
from calibrant.online.limits import changed
from calibrant.online.settings import read_only
from calibrant.online.stored import register

Loss = Literal["brier", "log"]

RATES: dict[str, float] = {"brier": 2.0, "log": 1.0}
"""The largest learning rate at which each loss is mixable for outcomes 0 and 1."""

ROUNDING: dict[str, float] = {"brier": 2.0**-40, "log": 2.0**-20}
"""Most that rounding of a forecast can add to the loss of a row: near 1 doubles are 2^-53 apart, and the log loss has
slopes up to 2^32 there."""

LARGEST_LOSS: dict[str, float] = {"brier": 1.0, "log": LARGEST_LOG_LOSS}
"""The largest loss of a row."""

EMPTY: dict[str, float] = {"brier": 0.25, "log": math.log(2.0)}
"""Loss of forecasting 1/2 on every row: a bound of at least this is vacuous."""


@register("MultiExpert")
class MultiExpert(Forecaster):
    r"""Aggregation of experts that nearly matches the best of them, whoever chooses the outcomes.

    .. math:: w_k \propto \exp\Bigl(-\eta \sum_{s < t} \ell(q_{sk}, y_s)\Bigr), \qquad
              g(y) = -\frac1\eta \log \sum_k w_k e^{-\eta\, \ell(q_{tk}, y)},

    where :math:`q_{tk}` is the forecast of expert k and the loss is the squared error (``"brier"``,
    :math:`\eta = 2`) or the log loss (``"log"``, :math:`\eta = 1`). The forecast is a p whose loss is at most
    :math:`g(y)` for both outcomes: :math:`p = \tfrac12 + \tfrac12 (g(0) - g(1))` for the squared error, the weighted
    mean :math:`\sum_k w_k q_{tk}` for the log loss.

    To calibeat several experts at once, compose forecasters. ``Hedging(MultiExpert(a, b))`` is calibrated and nearly as
    good as the best of a and b. ``MultiExpert(Tracking(a), Tracking(b))`` beats the refinement of each, since tracking
    does that for each and the aggregate nearly matches the best; wrap it in ``Hedging`` for calibration.

    Parameters
    ----------
    experts
        One or more forecasters; they are copied, with separate draws if they are randomized. All of them see the same
        score: they are several maps of one model's scores, not several models. Features go to those that use them.
    loss
        ``"brier"``, as in calibeating, or ``"log"``.

    Notes
    -----
    Outcomes are 0 or 1, or any number in [0, 1] if all experts accept them; the log loss of an outcome y is then
    :math:`-y \log p - (1 - y) \log(1 - p)`.
    Guarantee: on every sequence of outcomes, the total loss is at most that of the best of K experts plus
    log(K) / eta, and a little for rounding (:meth:`certificate`). For the log loss, forecasts of experts are clipped
    2^-32 from 0 and 1, also for choosing the best expert.
    Cost: K forecasts and K exponentials per row; K + 1 numbers besides those of the experts.
    Reference: Gupta (2022), section 3.1; Vovk 1990; Foster and Hart 2023, section A.7; docs/certificates/games.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt, Tracking
    >>> both = MultiExpert(OnlinePlatt(), Tracking(OnlinePlatt()))
    >>> p = both.forecast_many([0.8] * 50, [0, 1] * 25)
    >>> [round(w, 2) for w in both.weights]
    [0.81, 0.19]
    """

    loss: Loss = read_only()

    passes_features: ClassVar[bool] = True

    def __init__(self, *experts: Forecaster, loss: Loss = "brier") -> None:
        if not experts:
            raise InputError("experts", "must have at least one forecaster")
        if loss not in tuple(RATES):
            raise InputError("loss", f"must be 'brier' or 'log', not {loss!r}")
        self.loss: Loss = loss
        self._own(*experts)
        self.takes_features = any(expert.takes_features for expert in self.experts)
        self._seen = 0
        self._behind = [0.0] * len(experts)

    @property
    def bounded_outcomes(self) -> bool:  # type: ignore[override]
        """Whether outcomes may be any number in [0, 1]: if its experts accept them."""
        return all(expert.bounded_outcomes for expert in self.experts)

    @property
    @reading
    def weights(self) -> tuple[float, ...]:
        """The current weights of the experts; they sum to 1."""
        raw = self._raw()
        total = math.fsum(raw)
        return tuple(w / total for w in raw)

    def _raw(self) -> list[float]:
        """Weights scaled so that the largest is 1."""
        return [math.exp(-RATES[self.loss] * behind) for behind in self._behind]

    def _predict_one(self, score: float, features: Any = None) -> float:
        x = self._score(score)
        return self._mixed(self._clipped([expert._predict_one(x, f) for expert, f in self._each(features)]))

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        self._step(self._score(score), self._label(label), features)

    def _learn_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> None:
        super()._learn_many(scores, labels, features)
        self._notice()

    def _forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None) -> Floats:
        told = super()._forecast_many(scores, labels, features)
        self._notice()
        return told

    def _notice(self) -> None:
        """Let experts with bins check their numbers after a stream."""
        for expert in self.experts:
            if isinstance(expert, BinnedForecaster):
                expert._notice()

    def _step(self, score: float, label: float, features: Any = None) -> float:
        forecasts = self._clipped(step_all(self._each(features), score, label))
        told = self._mixed(forecasts)
        losses = [old + self._lost(p, label) for old, p in zip(self._behind, forecasts, strict=True)]
        best = min(losses)
        self._behind = [each - best for each in losses]
        self._seen += 1
        return told

    def _each(self, features: Any) -> list[tuple[Forecaster, Any]]:
        """Every expert, with the features if it uses them."""
        if features is not None and not self.takes_features:
            raise InputError("features", "must be left out", "no expert uses them")
        return [(expert, features if expert.takes_features else None) for expert in self.experts]

    def _clipped(self, found: list[float]) -> list[float]:
        """The experts' forecasts, clipped away from 0 and 1 for the log loss."""
        return [held_inside(p) for p in found] if self.loss == "log" else found

    def _lost(self, p: float, y: float) -> float:
        if self.loss == "brier":
            return (y - p) * (y - p)
        if y == 1.0 or y == 0.0:
            return -math.log(p if y == 1.0 else 1.0 - p)
        return -y * math.log(p) - (1.0 - y) * math.log1p(-p)

    def _mixed(self, forecasts: list[float]) -> float:
        """The aggregated forecast, clipped to the range of the experts' forecasts in case of rounding."""
        raw = self._raw()
        if self.loss == "log":
            return weighted_mean(forecasts, raw)
        zero = _dot(raw, [math.exp(-2.0 * p * p) for p in forecasts])
        one = _dot(raw, [math.exp(-2.0 * (1.0 - p) * (1.0 - p)) for p in forecasts])
        return min(max(0.5 + 0.25 * math.log(one / zero), min(forecasts)), max(forecasts))

    def _numbers(self) -> list[float]:
        return [float(self._seen), *self._behind]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        seen, *behind = numbers
        if min(behind) != 0.0 or max(behind) > 2.0 * LARGEST_LOSS[self.loss] * seen:
            raise changed("losses")

    def _resume(self, numbers: list[float]) -> None:
        self._seen, self._behind = int(numbers[0]), numbers[1:]

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        """Bound on the mean loss beyond that of the best expert, unless forecasting 1/2 on every row is as good.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.
        """
        n, k = self._check_rows(n_rows), len(self.experts)
        name = "Brier score" if self.loss == "brier" else "mean log loss"
        rounding = ROUNDING[self.loss] + LARGEST_LOSS[self.loss] * n * 2.0**-52
        bound = math.log(k) / RATES[self.loss] / n + rounding if n else math.inf
        assumptions: tuple[OnlineAssumption, ...] = (OnlineAssumption.IN_ORDER,)
        if self.loss == "log":
            assumptions += (OnlineAssumption.CLIPPED_EXPERTS,)
        quantity = f"the {name} minus that of {f'the best of {k} experts' if k > 1 else 'its only expert'}"
        theorem = "Vovk 1990, Gupta 2022, section 3.1"
        found = OnlineCertificate(quantity, bound, n, False, assumptions, theorem, learned=self.n_rows)
        return main_of(found, EMPTY[self.loss])


def _dot(weights: list[float], values: list[float]) -> float:
    """Sum of products, identical in every version of Python, unlike ``sum``."""
    return math.fsum([w * v for w, v in zip(weights, values, strict=True)])
