"""Copies of a forecaster that start at different times, mixed by their log loss: good on every period."""

from __future__ import annotations

import math
from typing import Any

from calibrant.guarantees.online_promise import IN_ORDER, OnlineCertificate
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.messages import InputError
from calibrant.online.base import Forecaster, register
from calibrant.online.experts.mixtures import LOST_A_ROW, held_inside, lost_by_rounding, step_all, weighted_mean
from calibrant.online.experts.newton import PlattForecaster, best_platt, both_held
from calibrant.online.guards import reading
from calibrant.online.limits import MOST_ROWS, SLACK, changed, regret_certificate, whole
from calibrant.online.settings import read_only

MOST_LEVELS, LONGEST, MOST_LIVES = 32, 2**40, 10**6
"""Of levels, of rows between starts at level 0, and of lives that a bound for a period adds up."""

COPIES_HELD = "the copies' forecasts are clipped 2^-32 from 0 and 1"

THEOREM = "mixing of sleeping experts, Freund et al. 1997; geometric starts, Hazan and Seshadhri 2009"


@register("Restarting")
class Restarting(Forecaster):
    r"""An expert in copies that start anew at geometric times, so that its forecasts are good on every period.

    .. math:: p_t = \sum_j v_j p_{t,j} \Big/ \sum_j v_j, \qquad
              v_j \leftarrow v_j\, \frac{p_{t,j}^{y_t} (1 - p_{t,j})^{1 - y_t}}{p_t^{y_t} (1 - p_t)^{1 - y_t}},

    over the copies j that live at row t. One copy starts at the first row and lives for ever, with :math:`v = 1/2` at
    first. At level :math:`k < K`, with :math:`L_k = \text{shortest} \cdot 2^k`, copy i starts after
    :math:`i L_k` rows, :math:`i \ge 1`, lives for :math:`2 L_k` of them and enters with
    :math:`v = 1 / (2 K i (i + 1))`.

    Parameters
    ----------
    expert : Forecaster
        What is copied, such as ``OnlinePlatt()``; neither restarted itself nor standing on one that is.
    shortest : int
        Rows between the starts of copies at level 0, at most 2^40.
    levels : int
        How many levels K, at most 32; the longest-lived copy but the first lives for ``shortest * 2**levels`` rows.

    Notes
    -----
    Edges: the copies' forecasts are clipped 2^-32 from 0 and 1. Features go to all copies. Copies of an expert that
    draws have draws of their own.
    Guarantee: on every sequence whose outcomes are learned in order, the log loss, summed from the start of any copy to
    any row of its life, exceeds that copy's by at most :math:`\log(2 K i (i + 1))`, and that of the expert without
    restarts by at most log 2, plus about :math:`2^{-21}` a row for rounding. After a break the next copy starts at a
    multiple of ``shortest``, and for the rows before it the guarantee is about older copies. See :meth:`certificate`,
    and :meth:`interval_certificate` for the regret on a period.
    Cost: at most 2 K + 1 times that of the expert; copies are made when they start.
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

    shortest: int = read_only()
    levels: int = read_only()

    passes_features = True

    def __init__(self, expert: Forecaster, *, shortest: int = 128, levels: int = 8) -> None:
        self.shortest, self.levels = whole("shortest", shortest, 1, LONGEST), whole("levels", levels, 1, MOST_LEVELS)
        self._own(expert)  # as it was given; copies start from it
        if _restarts(self.expert):
            raise InputError(
                "expert", "must not be restarted already", "one Restarting with more levels does what two would"
            )
        self.takes_features = self.expert.takes_features
        self._seen = 0
        self._logs = [-math.log(2.0)] + [0.0] * (2 * self.levels)
        self._born = [0] * (2 * self.levels + 1)  # which copy i of its level is in a place; 0 where there is none
        self._places = [0]  # of the copies that live
        self._stand_on((*self.experts, self._copy(0, 0)))

    def _copy(self, place: int, i: int) -> Forecaster:
        """A fresh copy, with draws that no other copy has: not that of another place, nor the one before in this."""
        fresh = self.expert._copied()
        fresh._branch(2 + place + i * (2 * self.levels + 1))
        return fresh

    @classmethod
    def _build(cls, experts: Any, parameters: dict[str, Any]) -> Forecaster:
        return cls(*experts[:1], **parameters)

    @property
    def _copies(self) -> tuple[Forecaster, ...]:
        """Those that live, in the order of their places."""
        return self.experts[1:]

    def _mixed(self, forecasts: list[float]) -> float:
        """The mean of forecasts of the living."""
        logs = [self._logs[j] for j in self._places]
        most = max(logs)
        return weighted_mean(forecasts, [math.exp(x - most) for x in logs])

    def _predict_one(self, score: float, features: Any = None) -> float:
        x = self._score(score)
        return self._mixed([held_inside(each._predict_one(x, features)) for each in self._copies])

    def _learn_one(self, score: float, label: float, features: Any = None) -> None:
        self._step(self._score(score), self._label(label), features)

    def _step(self, score: float, label: float, features: Any = None) -> float:
        told = [held_inside(p) for p in step_all([(each, features) for each in self._copies], score, label)]
        mixture, logs = self._mixed(told), self._logs
        against = mixture if label else 1.0 - mixture
        for j, p in zip(self._places, told, strict=True):
            logs[j] += math.log((p if label else 1.0 - p) / against)
        self._seen += 1
        if self._seen % self.shortest == 0:
            self._start_copies()
        return mixture

    def _start_copies(self) -> None:
        """A new copy at each level whose time has come, in the place of the one before the last."""
        copies = dict(zip(self._places, self._copies, strict=True))
        for level in range(self.levels):
            i, rest = divmod(self._seen, self.shortest << level)
            if rest or not i:
                break
            j = 1 + 2 * level + i % 2
            copies[j] = self._copy(j, i)
            self._born[j], self._logs[j] = i, -self._price(i)
        self._places = sorted(copies)
        self._stand_on((self.expert, *(copies[j] for j in self._places)))

    def _price(self, i: int) -> float:
        """What is paid, in log loss, for copy i of a level."""
        return math.log(2.0 * self.levels * i * (i + 1))

    @property
    @reading
    def weights(self) -> dict[int, float]:
        """The weight of the copies by the number of rows that they have learned, youngest first; they sum to 1."""
        most = max(self._logs[j] for j in self._places)
        found: dict[int, float] = {}
        for j in self._places:
            age = self._seen - self._start_of(j, self._born[j])
            found[age] = found.get(age, 0.0) + math.exp(self._logs[j] - most)
        total = math.fsum(found.values())
        return {age: found[age] / total for age in sorted(found)}

    def _start_of(self, j: int, i: int) -> int:
        """The rows before copy i in this place starts."""
        return (self.shortest << (j - 1) // 2) * i if j else 0

    # -------------------------------------------------------------------------------------------------- guarantees

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | Refusal:
        r"""By how much the log loss can exceed that of any copy, from its start to any row of its life.

        The bound is :math:`\log(2 K m (m + 1))`, with m the number of copies started at level 0, and
        :math:`2^{-21}` a row and a little more for rounding; for the copy that lives for ever, which is the expert
        without restarts, it is log 2 in place of the logarithm. It is about copies, which start after a multiple of
        ``shortest`` rows, and not about rows between a break and the next start. Refused where log 2 a row is less, as
        after a handful of rows.
        """
        n = self._check_rows(n_rows)
        bound = self._price(max(n // self.shortest, 1)) + lost_by_rounding(n)
        if bound >= n * math.log(2.0):
            return Refusal(
                RefusalCode.VACUOUS, f"the bound says nothing after {n:,} rows: one half on every row is as good"
            )
        return OnlineCertificate(
            quantity=(
                "the log loss beyond that of any copy of the expert, each of which starts after a multiple of "
                f"{self.shortest:,} rows and lives for {2 * self.shortest:,} or more, in sum from its start to a row "
                "of its life,"
            ),
            bound=bound,
            n_rows=n,
            expected=False,
            assumptions=(COPIES_HELD, IN_ORDER),
            theorem=THEOREM,
            learned=self.n_rows,
        )

    @reading
    def interval_certificate(self, first: int, last: int) -> OnlineCertificate | Refusal:
        r"""A bound on the regret on the rows after the first ``first`` ones, up to row ``last``.

        The period is cut into at most about :math:`\log_2(\text{last} - \text{first})` lives of copies. On each, the
        price of the copy and the copy's own regret against the best map add up, and no map can be better on the whole
        period than the best one for each part. Needs a certified expert and a ``first`` that is a multiple of
        ``shortest``. Refused where it is no less than log 2 a row, which saying 1/2 has as well.
        """
        start, n = whole("first", first, 0, MOST_ROWS), whole("last", last, 0, MOST_ROWS)
        if start >= n or start % self.shortest:
            raise InputError("first", f"must be a multiple of {self.shortest} below last, not {first!r} with {last!r}")
        expert = self.expert
        if not isinstance(expert, PlattForecaster) or expert.regret(n) == math.inf or expert.n_rows:
            return Refusal(RefusalCode.NO_THEOREM, "the expert has no bound on its regret: use a fresh Aioli()")
        if start and n - start > MOST_LIVES * (self.shortest << self.levels - 1):
            return Refusal(
                RefusalCode.VACUOUS, "the period is longer than a million lives of the longest copies: use more levels"
            )
        parts = [(self._price_at(begin), end - begin) for begin, end in self._lives(start, n)]
        bound = math.fsum(price + expert.regret(rows) + lost_by_rounding(rows) for price, rows in parts)
        lost = math.fsum(lost_by_rounding(rows) for _, rows in parts)
        if lost > 0.5 * bound >= 0.5 * (n - start) * math.log(2.0):
            return Refusal(
                RefusalCode.VACUOUS,
                "the bound is vacuous on so long a period, as rounding adds up: pass a shorter one",
            )
        best, held, theorem = best_platt(expert.radius), both_held(expert.clamp), f"{THEOREM}; {expert.theorem}"
        learned = min(self.n_rows, n)
        return regret_certificate(best, bound, n, (held,), theorem, rows=(start + 1, n), learned=learned)

    def _level_at(self, row: int) -> int:
        """The highest level at which a copy starts after this many rows."""
        level = 0
        while level + 1 < self.levels and row % (self.shortest << level + 1) == 0:
            level += 1
        return level

    def _price_at(self, row: int) -> float:
        return self._price(row // (self.shortest << self._level_at(row))) if row else math.log(2.0)

    def _lives(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The period in parts, each the beginning of a copy's life: first halves of lives, and a whole one at last."""
        found = []
        while begin:
            length = self.shortest << self._level_at(begin)
            if begin + 2 * length >= end:
                break
            found.append((begin, begin + length))
            begin += length
        return [*found, (begin, end)]

    # --------------------------------------------------------------------------------------------------- its state

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
        if most + math.log(math.fsum(math.exp(x - most) for x in living)) > seen * LOST_A_ROW + SLACK:
            raise changed("weights")

    def _admit(self, state: Any, fix: str) -> float:
        """As others do, with as many copies as the state has: here live more of them, or fewer."""
        below = state.get("experts") if isinstance(state, dict) else None
        like = self._build(self.experts, self._parameters())
        like.experts = like.experts[:1] * (len(below) if isinstance(below, list) else 0)
        return Forecaster._admit(like, state, fix)

    def _check_experts(self, seen: float, below: list[float]) -> None:
        born = [self._born_after(int(seen), j) for j in range(len(self._born))]
        ages = [0.0] + [seen - self._start_of(j, born[j]) for j in range(len(born)) if born[j] or not j]
        if not below or below != [below[0] + age for age in ages]:
            raise changed("copies")

    def _take(self, state: dict[str, Any]) -> None:
        self._stand_on((self.expert, *(self.expert._copied() for _ in state["experts"][1:])))
        super()._take(state)

    def _born_after(self, seen: int, j: int) -> int:
        """Which copy of its level is in a place after this many rows: the last one, or the one before it."""
        i = seen // (self.shortest << (j - 1) // 2) if j else 0
        return max(i if i % 2 == (j - 1) % 2 else i - 1, 0) if j else 0

    def _resume(self, numbers: list[float]) -> None:
        copies = len(self._born)
        self._seen = int(numbers[0])
        self._logs = [float(x) for x in numbers[1 : 1 + copies]]
        self._born = [int(x) for x in numbers[1 + copies :]]
        self._places = [0, *(j for j in range(copies) if self._born[j])]

    def __repr__(self) -> str:
        """How it was built."""
        return f"Restarting({self.expert!r}, shortest={self.shortest}, levels={self.levels})"


def _restarts(expert: Forecaster) -> bool:
    """Whether it is restarted, or stands on one that is; copies of copies would be too many for any use."""
    return isinstance(expert, Restarting) or any(map(_restarts, expert.experts))
