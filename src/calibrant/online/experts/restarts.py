"""Copies of a forecaster that start at different times, mixed by their log loss: good on every stretch of rows."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import InputError
from calibrant.arrays.columns import is_whole
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.online_promise import IN_ORDER, OnlineCertificate
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.experts.improper import Aioli
from calibrant.online.experts.newton import OnlinePlatt, best_platt, both_held
from calibrant.online.limits import SLACK, changed, regret_promise

HELD = 2.0**-32
"""Forecasts of copies are held this far from 0 and 1, so that no outcome is impossible to any of them."""

ROUNDING = 2.0**-21
"""What a row can lose by rounding: a forecast near 1 is off by 2^-54, and then 1 - p by 2^-22 of itself."""

MOST_LEVELS, LONGEST = 32, 2**40
"""Of levels, and of rows between starts at level 0."""

COPIES_HELD = "the copies' forecasts are held 2^-32 from 0 and 1"

THEOREM = "mixing of sleeping experts, Freund et al. 1997; geometric starts, Hazan and Seshadhri 2009"


class Restarting(Forecaster):
    r"""An expert in copies that start anew at geometric times, so that its forecasts are good on every stretch of rows.

    .. math:: p_t = \sum_j v_j p_{t,j} \Big/ \sum_j v_j, \qquad
              v_j \leftarrow v_j\, \frac{p_{t,j}^{y_t} (1 - p_{t,j})^{1 - y_t}}{p_t^{y_t} (1 - p_t)^{1 - y_t}},

    over the copies j that live at row t. One copy starts at the first row and lives for ever, with :math:`v = 1/2` at
    first. At level :math:`k < K`, with :math:`L_k = \text{shortest} \cdot 2^k`, copy i starts after
    :math:`i L_k` rows, :math:`i \ge 1`, lives for :math:`2 L_k` of them and enters with
    :math:`v = 1 / (2 K i (i + 1))`.

    Parameters
    ----------
    expert : Forecaster
        What is copied, such as ``OnlinePlatt()``.
    shortest : int
        Rows between the starts of copies at level 0, at most 2^40.
    levels : int
        How many levels K, at most 32; the longest-lived copy but the first lives for ``shortest * 2**levels`` rows.

    Notes
    -----
    Edges: the copies' forecasts are held 2^-32 from 0 and 1. Features go to all copies. Copies of an expert that draws
    have draws of their own.
    Guarantee: on every sequence whose outcomes are learned in order, the log loss, summed from the start of any copy to
    any row of its life, exceeds that copy's by at most :math:`\log(2 K i (i + 1))`, and that of the expert without
    restarts by at most log 2, plus :math:`2^{-21}` a row for rounding. See :meth:`certificate`, and
    :meth:`interval_certificate` for the regret on a stretch of rows.
    Cost: 2 K + 1 times that of the expert.
    Reference: 002 section 6.6; Hazan and Seshadhri 2009; Daniely, Gonen and Shalev-Shwartz 2015; the derivation is in
    docs/certificates/restarts.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> scores, labels = [0.2] * 5 + [0.8] * 5, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]
    >>> restarting, plain = Restarting(OnlinePlatt(), shortest=64, levels=4), OnlinePlatt()
    >>> for forecaster in (restarting, plain):  # the model is right for 4,000 rows, then the outcomes turn round
    ...     _ = forecaster.learn_many(scores * 400, labels * 400)
    ...     _ = forecaster.learn_many(scores * 40, labels[::-1] * 40)
    >>> round(restarting.predict_one(0.8), 2), round(plain.predict_one(0.8), 2)
    (0.2, 0.38)
    """

    passes_features = True

    def __init__(self, expert: Forecaster, *, shortest: int = 128, levels: int = 8) -> None:
        for name, value, most in (("shortest", shortest, LONGEST), ("levels", levels, MOST_LEVELS)):
            if not (is_whole(value) and 1 <= value <= most):
                raise InputError(f"{name} must be a whole number of at least 1 and at most {most}, not {value!r}")
        self.shortest, self.levels = int(shortest), int(levels)
        self._own(expert)  # as it was given; copies start from it
        self.takes_features = self.expert.takes_features
        self.experts += tuple(self._copy(j, 0) for j in range(2 * self.levels + 1))
        self._seen = 0
        self._logs = [-math.log(2.0)] + [0.0] * (2 * self.levels)
        self._born = [0] * (2 * self.levels + 1)  # which copy i of its level is in a place; 0 where there is none

    def _copy(self, place: int, i: int) -> Forecaster:
        """A fresh copy, with draws that no other copy has: not that of another place, nor the one before in this."""
        fresh = copy.deepcopy(self.expert)
        fresh._branch(2 + place + i * (2 * self.levels + 1))
        return fresh

    @classmethod
    def _build(cls, experts: Any, parameters: dict[str, Any]) -> Forecaster:
        return cls(experts[0], **parameters)

    @property
    def n_rows(self) -> int:
        """Rows learned so far."""
        return self._seen

    @property
    def _copies(self) -> tuple[Forecaster, ...]:
        return self.experts[1:]

    def _living(self) -> list[int]:
        return [0] + [j for j in range(1, len(self._born)) if self._born[j]]

    def _forecasts(self, score: float, features: Any) -> tuple[list[int], list[float], float]:
        """The places of living copies, their forecasts, and the mixture."""
        places = self._living()
        told = [min(max(self._copies[j].predict_one(score, features), HELD), 1.0 - HELD) for j in places]
        most = max(self._logs[j] for j in places)
        weights = [math.exp(self._logs[j] - most) for j in places]
        return places, told, _mean(told, weights)

    def predict_one(self, score: float, features: Any = None) -> float:
        """The probability of an event, from what was learned so far; asking changes nothing."""
        return self._forecasts(score, features)[2]

    def learn_one(self, score: float, label: float, features: Any = None) -> Self:
        """Learn one outcome."""
        self._step(score, self._label(label), features)
        return self

    def forecast_many(self, scores: ArrayLike, labels: ArrayLike, features: ArrayLike | None = None) -> Floats:
        """Forecast each row from the outcomes before it, then learn its own: what a live run would have said."""
        rows = self._rows(scores, labels, features)
        return np.array([self._step(x, y, f) for x, y, f in rows], dtype=np.float64)

    def _step(self, score: float, y: float, features: Any) -> float:
        """Learn one outcome, and say what the forecast had been."""
        places, told, mixture = self._forecasts(score, features)
        for j, p in zip(places, told, strict=True):
            self._logs[j] += math.log(p / mixture) if y else math.log((1.0 - p) / (1.0 - mixture))
            self._copies[j].learn_one(score, y, features)
        self._seen += 1
        if self._seen % self.shortest == 0:
            self._start_copies()
        return mixture

    def _start_copies(self) -> None:
        """A new copy at each level whose time has come, in the place of the one before the last."""
        for level in range(self.levels):
            i, rest = divmod(self._seen, self.shortest << level)
            if rest or not i:
                return
            j = 1 + 2 * level + i % 2
            self.experts = (*self.experts[: j + 1], self._copy(j, i), *self.experts[j + 2 :])
            self._born[j], self._logs[j] = i, -self._price(i)

    def _price(self, i: int) -> float:
        """What is paid, in log loss, for copy i of a level."""
        return math.log(2.0 * self.levels * i * (i + 1))

    @property
    def weights(self) -> dict[int, float]:
        """The weight of the copies by the number of rows that they have learned, youngest first; they sum to 1."""
        most = max(self._logs[j] for j in self._living())
        found: dict[int, float] = {}
        for j in self._living():
            age = self._seen - (self.shortest << (j - 1) // 2) * self._born[j] if j else self._seen
            found[age] = found.get(age, 0.0) + math.exp(self._logs[j] - most)
        total = math.fsum(found.values())
        return {age: found[age] / total for age in sorted(found)}

    # ---------------------------------------------------------------------------------------------------- promises

    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        r"""By how much the log loss can exceed that of any copy, from its start to any row of its life.

        The bound is :math:`\log(2 K m (m + 1))`, with m the number of copies started at level 0, and
        :math:`2^{-21}` a row for rounding; for the copy that lives for ever, which is the expert without restarts, it
        is log 2 in place of the logarithm. Refused after a handful of rows, where log 2 a row is less.
        """
        n = self._check_rows(n_rows)
        bound = self._price(max(n // self.shortest, 1)) + n * ROUNDING
        if bound >= n * math.log(2.0):
            return Refusal("the bound says nothing after so few rows: one half on every row is as good")
        return OnlineCertificate(
            quantity="the log loss beyond that of any copy of the expert, in sum from its start to a row of its life,",
            bound=bound,
            n_rows=n,
            expected=False,
            assumptions=(COPIES_HELD, IN_ORDER),
            theorem=THEOREM,
        )

    def interval_certificate(self, first: int, last: int) -> OnlineCertificate | Refusal:
        r"""A bound on the regret on the rows after the first ``first`` ones, up to row ``last``.

        The stretch is cut into at most about :math:`\log_2(\text{last} - \text{first})` lives of copies. On each, the
        price of the copy and the copy's own regret against the best map add up, and no map can be better on the whole
        stretch than the best one for each part. Needs a certified expert and a ``first`` that is a multiple of
        ``shortest``. Refused where it is no less than log 2 a row, which saying 1/2 has as well.
        """
        n, start = self._check_rows(last), self._check_rows(first)
        if start >= n or start % self.shortest:
            raise InputError(f"first must be a multiple of {self.shortest} below last, not {first!r} with {last!r}")
        expert = self.expert
        if not isinstance(expert, (Aioli, OnlinePlatt)) or expert.n_rows or not getattr(expert, "certified", True):
            return Refusal("the expert promises no regret: use a fresh Aioli()")
        lives = self._lives(start, n)
        regret = math.fsum(expert._regret(end - begin) for begin, end in lives)
        bound = regret + math.fsum(self._price_at(begin) for begin, _ in lives) + (n - start) * ROUNDING
        theorem = f"{THEOREM}; {expert._theorem}"
        return regret_promise(
            best_platt(expert.radius), bound, n, (both_held(expert.clamp),), theorem, rows=(start + 1, n)
        )

    def _level_at(self, row: int) -> int:
        """The highest level at which a copy starts after so many rows."""
        level = 0
        while level + 1 < self.levels and row % (self.shortest << level + 1) == 0:
            level += 1
        return level

    def _price_at(self, row: int) -> float:
        return self._price(row // (self.shortest << self._level_at(row))) if row else math.log(2.0)

    def _lives(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The stretch in parts, each the beginning of a copy's life: first halves of lives, and a whole one at last."""
        found = []
        while begin:
            length = self.shortest << self._level_at(begin)
            if begin + 2 * length >= end:
                break
            found.append((begin, begin + length))
            begin += length
        return [*found, (begin, end)]

    # --------------------------------------------------------------------------------------------------- its state

    def _parameters(self) -> dict[str, Any]:
        return {"shortest": self.shortest, "levels": self.levels}

    def _numbers(self) -> list[float]:
        return [float(self._seen), *self._logs, *map(float, self._born)]

    def _check(self, numbers: list[float]) -> None:
        super()._check(numbers)
        copies, seen = len(self._born), int(numbers[0])
        logs, born = numbers[1 : 1 + copies], numbers[1 + copies :]
        if born != [self._born_after(seen, j) for j in range(copies)]:
            raise changed("copies")
        # The weights of the living add up to at most 1, and the rounding of each row may add to them.
        living = [logs[j] for j in range(copies) if not j or born[j]]
        most = max(living)
        if most + math.log(math.fsum(math.exp(x - most) for x in living)) > seen * ROUNDING + SLACK:
            raise changed("weights")

    def _born_after(self, seen: int, j: int) -> int:
        """Which copy of its level is in a place after so many rows: the last one, or the one before it."""
        i = seen // (self.shortest << (j - 1) // 2) if j else 0
        return max(i if i % 2 == (j - 1) % 2 else i - 1, 0) if j else 0

    def _resume(self, numbers: list[float]) -> None:
        copies = len(self._born)
        self._seen = int(numbers[0])
        self._logs = [float(x) for x in numbers[1 : 1 + copies]]
        self._born = [int(x) for x in numbers[1 + copies :]]

    def __repr__(self) -> str:
        """How it was built."""
        return f"Restarting({self.expert!r}, shortest={self.shortest}, levels={self.levels})"


def _mean(told: list[float], weights: list[float]) -> float:
    """Of the forecasts, by weights; above 1/2 that of 1 - p, whose digits matter there, and never beyond them all."""
    total = math.fsum(weights)
    found = math.fsum(w * p for w, p in zip(weights, told, strict=True)) / total
    if found > 0.5:
        found = 1.0 - math.fsum(w * (1.0 - p) for w, p in zip(weights, told, strict=True)) / total
    return min(max(found, min(told)), max(told))
