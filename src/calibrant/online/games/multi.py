"""One forecaster from several experts, as good as the best of them: Vovk's aggregating algorithm."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from calibrant.arrays import InputError
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import IN_ORDER, OnlineCertificate
from calibrant.online.base import Forecaster
from calibrant.online.limits import LEAST_CLAMP, changed

Loss = Literal["brier", "log"]

RATES: dict[str, float] = {"brier": 2.0, "log": 1.0}
"""The largest learning rate at which each loss is mixable for outcomes 0 and 1."""

ROUNDING: dict[str, float] = {"brier": 2.0**-40, "log": 2.0**-20}
"""What the rounding of a forecast may add to the loss of a row: near 1 doubles are 2^-53 apart, and log loss has slopes
up to 2^32 there."""

LARGEST_LOSS: dict[str, float] = {"brier": 1.0, "log": -math.log(LEAST_CLAMP)}
"""The largest loss of a row."""

HELD = "forecasts of experts are held 2^-32 from 0 and 1, also where they are judged"


class MultiExpert(Forecaster):
    r"""A meta-expert that nearly matches the best of its experts, whoever chooses the outcomes.

    .. math:: w_k \propto \exp\Bigl(-\eta \sum_{s < t} \ell(q_{sk}, y_s)\Bigr), \qquad
              g(y) = -\frac1\eta \log \sum_k w_k e^{-\eta\, \ell(q_{tk}, y)},

    where :math:`q_{tk}` is the forecast of expert k and the loss is the squared error (``"brier"``,
    :math:`\eta = 2`) or the log loss (``"log"``, :math:`\eta = 1`). The forecast is a p whose loss is at most
    :math:`g(y)` for both outcomes: :math:`p = \tfrac12 + \tfrac12 (g(0) - g(1))` for the squared error, the weighted
    mean :math:`\sum_k w_k q_{tk}` for the log loss.

    Calibeating several experts at once is a composition. ``Hedging(MultiExpert(a, b))`` is calibrated and nearly as
    good as the best of a and b. ``MultiExpert(Tracking(a), Tracking(b))`` beats the refinement of each, since tracking
    does that for each and the aggregate nearly matches the best; put a ``Hedging`` round it for calibration.

    Parameters
    ----------
    experts
        Forecasters, at least one; copies are taken, with draws of their own if they draw. All of them see the same
        score: they are several maps of one model's scores, not several models. Features go to those that take them.
    loss
        ``"brier"`` (the one that calibeating works with) or ``"log"``.

    Notes
    -----
    Guarantee, on every sequence of outcomes 0 and 1: total loss at most that of the best of K experts plus log(K) /
    eta, and a little for rounding (:meth:`certificate`). For the log loss, forecasts of experts are held 2^-32 from 0
    and 1, and the best of them is judged by what it says then.
    Cost: K forecasts and K exponentials per row; K + 1 numbers besides those of the experts.
    Reference: 000 section 3.1; Vovk 1990; Foster and Hart 2023, section A.7; docs/certificates/games.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt, Tracking
    >>> both = MultiExpert(OnlinePlatt(), Tracking(OnlinePlatt()))
    >>> p = both.forecast_many([0.8] * 50, [0, 1] * 25)
    >>> [round(w, 2) for w in both.weights]
    [0.81, 0.19]
    """

    passes_features: ClassVar[bool] = True

    def __init__(self, *experts: Forecaster, loss: Loss = "brier") -> None:
        if not experts:
            raise InputError("experts must hold one forecaster at least")
        if loss not in tuple(RATES):
            raise InputError(f"loss must be 'brier' or 'log', not {loss!r}")
        self.loss: Loss = loss
        self._own(*experts)
        self.takes_features = any(expert.takes_features for expert in self.experts)
        self._seen = 0
        self._behind = [0.0] * len(experts)

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the experts now; they add up to 1."""
        raw = self._raw()
        total = sum(raw)
        return tuple(w / total for w in raw)

    def _raw(self) -> list[float]:
        """Weights of which the largest is 1."""
        return [math.exp(-RATES[self.loss] * behind) for behind in self._behind]

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        return self._mixed(self._asked(self._score(score), features))

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome, and let every expert learn it."""
        x, y = self._score(score), self._label(label)
        forecasts = self._asked(x, features)
        for expert in self.experts:
            expert.learn_one(x, y, features if expert.takes_features else None)
        losses = [old + self._lost(p, y) for old, p in zip(self._behind, forecasts, strict=True)]
        best = min(losses)
        self._behind = [each - best for each in losses]
        self._seen += 1
        return self

    def _asked(self, x: float, features: Any) -> list[float]:
        """What every expert says, held from 0 and 1 for the log loss."""
        if features is not None and not self.takes_features:
            raise InputError("features must be left out: every expert looks at the score alone")
        found = [expert.predict_one(x, features if expert.takes_features else None) for expert in self.experts]
        return [min(max(p, LEAST_CLAMP), 1.0 - LEAST_CLAMP) for p in found] if self.loss == "log" else found

    def _lost(self, p: float, y: float) -> float:
        if self.loss == "brier":
            return (y - p) * (y - p)
        return -math.log(p if y == 1.0 else 1.0 - p)

    def _mixed(self, forecasts: list[float]) -> float:
        """Both forecasts lie between those of the experts, which rounding must not undo."""
        told = self._mean(forecasts) if self.loss == "log" else self._matched(forecasts)
        return min(max(told, min(forecasts)), max(forecasts))

    def _mean(self, forecasts: list[float]) -> float:
        """The weighted mean, from the side that is nearer, where small probabilities keep their digits."""
        raw = self._raw()
        told = sum(w * p for w, p in zip(raw, forecasts, strict=True)) / sum(raw)
        if told <= 0.5:
            return told
        return 1.0 - sum(w * (1.0 - p) for w, p in zip(raw, forecasts, strict=True)) / sum(raw)

    def _matched(self, forecasts: list[float]) -> float:
        raw = self._raw()
        zero = sum(w * math.exp(-2.0 * p * p) for w, p in zip(raw, forecasts, strict=True))
        one = sum(w * math.exp(-2.0 * (1.0 - p) * (1.0 - p)) for w, p in zip(raw, forecasts, strict=True))
        return 0.5 + 0.25 * math.log(one / zero)

    def _parameters(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def _numbers(self) -> list[float]:
        return [float(self._seen), *self._behind]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        seen, *behind = numbers
        if min(behind) != 0.0 or max(behind) > 2.0 * LARGEST_LOSS[self.loss] * seen:
            raise changed("losses")

    def _resume(self, numbers: list[float]) -> None:
        self._seen, self._behind = int(numbers[0]), numbers[1:]

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        """The promise on the mean loss against the best expert."""
        n = self._check_rows(n_rows)
        if n == 0:
            return Refusal("no row has been learned: pass n_rows to see what some would give")
        name = "Brier score" if self.loss == "brier" else "mean log loss"
        rounding = ROUNDING[self.loss] + LARGEST_LOSS[self.loss] * n * 2.0**-52
        bound = math.log(len(self.experts)) / RATES[self.loss] / n + rounding
        assumptions = (IN_ORDER,) if self.loss == "brier" else (IN_ORDER, HELD)
        best = f"the best of {len(self.experts)} experts" if len(self.experts) > 1 else "its only expert"
        quantity = f"the {name}, less that of {best},"
        return OnlineCertificate(quantity, bound, n, False, assumptions, "Vovk 1990, Gupta 2022, section 3.1")
