"""Restarting: a mixture of copies of a forecaster that start at different times, good on every period."""

from __future__ import annotations

import math
from typing import Any

from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.online_certificate import OnlineAssumption, OnlineCertificate
from calibrant.messages import InputError
from calibrant.online.base import Forecaster
from calibrant.online.experts.mixtures import LOST_A_ROW, held_inside, lost_by_rounding, step_all, weighted_mean
from calibrant.online.experts.newton import PlattForecaster, best_platt
from calibrant.online.guards import reading
from calibrant.online.limits import MAX_ROWS, SLACK, changed, regret_certificate, whole
from calibrant.online.settings import read_only
from calibrant.online.stored import register

MAX_LEVELS, MAX_SHORTEST, MAX_LIVES = 32, 2**40, 10**6
"""Largest number of levels, of rows between starts at level 0, and of lifetimes in the bound of a period."""

THEOREM = "mixing of sleeping experts, Freund et al. 1997; geometric starts, Hazan and Seshadhri 2009"


@register("Restarting")
class Restarting(Forecaster):
    r"""Mixture of copies of an expert that start at geometric times, so that forecasts are good on every period.

    .. math:: p_t = \sum_j v_j p_{t,j} \Big/ \sum_j v_j, \qquad
              v_j \leftarrow v_j\, \frac{p_{t,j}^{y_t} (1 - p_{t,j})^{1 - y_t}}{p_t^{y_t} (1 - p_t)^{1 - y_t}},

    over the copies j that are active at row t. One copy starts at the first row and stays active, with initial weight
    :math:`v = 1/2`. At level :math:`k < K`, with :math:`L_k = \text{shortest} \cdot 2^k`, copy i starts after
    :math:`i L_k` rows, :math:`i \ge 1`, is active for :math:`2 L_k` rows and has the initial weight
    :math:`v = 1 / (2 K i (i + 1))`.

    Parameters
    ----------
    expert : Forecaster
        The forecaster to copy, such as ``OnlinePlatt()``; it must not contain a ``Restarting``.
    shortest : int
        Rows between the starts of copies at level 0, at most 2^40.
    levels : int
        Number of levels K, at most 32; apart from the first copy, the longest lifetime is ``shortest * 2**levels``
        rows.

    Notes
    -----
    Edge cases: the copies' forecasts are clipped 2^-32 from 0 and 1. Features go to all copies. Copies of a randomized
    expert have separate draws.
    Guarantee: on every sequence whose outcomes are learned in order, the log loss, summed from the start of any copy to
    any row of its lifetime, exceeds that copy's by at most :math:`\log(2 K i (i + 1))`, and that of the expert without
    restarts by at most log 2, plus about :math:`2^{-21}` per row for rounding. After a break the next copy starts at a
    multiple of ``shortest``; for the rows before it the guarantee is relative to older copies. See
    :meth:`certificate`, and :meth:`interval_certificate` for the regret on a period.
    Cost: at most 2 K + 1 times that of the expert; copies are created when they start.
    Reference: Gupta (2023), section 6.6; Hazan and Seshadhri 2009; Daniely, Gonen and Shalev-Shwartz 2015; the
    derivation is in docs/certificates/restarts.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> scores, labels = [0.2] * 5 + [0.8] * 5, [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]
    >>> restarting, plain = Restarting(OnlinePlatt(), shortest=64, levels=4), OnlinePlatt()
    >>> for forecaster in (restarting, plain):  # the model is right for 4,000 rows, then the outcomes reverse
    ...     _ = forecaster.learn_many(scores * 400, labels * 400)
    ...     _ = forecaster.learn_many(scores * 40, labels[::-1] * 40)
    >>> round(restarting.predict_one(0.8), 2), round(plain.predict_one(0.8), 2)
    (0.2, 0.38)
    """

    shortest: int = read_only()
    levels: int = read_only()

    passes_features = True

    def __init__(self, expert: Forecaster, *, shortest: int = 128, levels: int = 8) -> None:
        self.shortest, self.levels = (
            whole("shortest", shortest, 1, MAX_SHORTEST),
            whole("levels", levels, 1, MAX_LEVELS),
        )
        self._own(expert)  # unchanged; copies start from it
        if _restarts(self.expert):
            raise InputError("expert", "must not contain a Restarting", "use one Restarting with more levels")
        self.takes_features = self.expert.takes_features
        self._seen = 0
        self._logs = [-math.log(2.0)] + [0.0] * (2 * self.levels)
        self._born = [0] * (2 * self.levels + 1)  # number i of the copy at each index; 0 if there is none
        self._places = [0]  # indices of the active copies
        self._stand_on((*self.experts, self._copy(0, 0)))

    @property
    def bounded_outcomes(self) -> bool:  # type: ignore[override]
        """Whether outcomes may be any number in [0, 1]: if its expert accepts them."""
        return self.expert.bounded_outcomes

    def _copy(self, place: int, i: int) -> Forecaster:
        """A new copy with separate draws from those of all other copies, also of the previous one at this index."""
        fresh = self.expert._copied()
        fresh._branch(2 + place + i * (2 * self.levels + 1))
        return fresh

    @classmethod
    def _build(cls, experts: Any, parameters: dict[str, Any]) -> Forecaster:
        return cls(*experts[:1], **parameters)

    @property
    def _copies(self) -> tuple[Forecaster, ...]:
        """The active copies, in the order of their indices."""
        return self.experts[1:]

    def _mixed(self, forecasts: list[float]) -> float:
        """The weighted mean of the forecasts of active copies."""
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
        if label == 0.0 or label == 1.0:
            against = mixture if label else 1.0 - mixture
            for j, p in zip(self._places, told, strict=True):
                logs[j] += math.log((p if label else 1.0 - p) / against)
        else:
            for j, p in zip(self._places, told, strict=True):
                logs[j] += label * math.log(p / mixture) + (1.0 - label) * math.log((1.0 - p) / (1.0 - mixture))
        self._seen += 1
        if self._seen % self.shortest == 0:
            self._start_copies()
        return mixture

    def _start_copies(self) -> None:
        """Start a new copy at each level that is due, in place of the one before the last."""
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
        """Cost in log loss of copy i of a level."""
        return math.log(2.0 * self.levels * i * (i + 1))

    @property
    @reading
    def weights(self) -> dict[int, float]:
        """Weights of the copies, by the number of rows that they have learned, newest first; they sum to 1."""
        most = max(self._logs[j] for j in self._places)
        found: dict[int, float] = {}
        for j in self._places:
            age = self._seen - self._start_of(j, self._born[j])
            found[age] = found.get(age, 0.0) + math.exp(self._logs[j] - most)
        total = math.fsum(found.values())
        return {age: found[age] / total for age in sorted(found)}

    def _start_of(self, j: int, i: int) -> int:
        """Number of rows before copy i at this index starts."""
        return (self.shortest << (j - 1) // 2) * i if j else 0

    # -------------------------------------------------------------------------------------------------- guarantees

    @reading
    def certificate(self, n_rows: int | None = None) -> OnlineCertificate | NoCertificate:
        r"""Bound on the log loss beyond that of any copy, from its start to any row of its lifetime.

        The bound is :math:`\log(2 K m (m + 1))`, with m the number of copies started at level 0, plus
        :math:`2^{-21}` per row and a little more for rounding. For the first copy, which is the expert without
        restarts, it is log 2 in place of the logarithm. It is about copies, which start after a multiple of
        ``shortest`` rows, and not about rows between a break and the next start.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.

        Returns
        -------
        OnlineCertificate or NoCertificate
            No certificate if the bound is at least log 2 per row, as after a few rows.
        """
        n = self._check_rows(n_rows)
        bound = self._price(max(n // self.shortest, 1)) + lost_by_rounding(n)
        if bound >= n * math.log(2.0):
            return NoCertificate(
                NoCertificateCode.VACUOUS,
                f"the bound is vacuous for {n:,} rows, since forecasting 1/2 is as good: pass a larger n_rows",
            )
        return OnlineCertificate(
            quantity=(
                "the log loss beyond that of any copy of the expert (each starts after a multiple of "
                f"{self.shortest:,} rows and is active for {2 * self.shortest:,} or more), summed from its start to "
                "any row of its lifetime,"
            ),
            bound=bound,
            n_rows=n,
            expected=False,
            assumptions=(OnlineAssumption.CLIPPED_COPIES, OnlineAssumption.IN_ORDER),
            theorem=THEOREM,
            learned=self.n_rows,
        )

    @reading
    def interval_certificate(self, first: int, last: int) -> OnlineCertificate | NoCertificate:
        r"""Bound on the regret over a period, against the best map for that period.

        The period is split into at most about :math:`\log_2(\text{last} - \text{first})` lifetimes of copies. On each,
        the cost of the copy and the copy's own regret against the best map add up, and no map can be better on the
        whole period than the best one for each part.

        Parameters
        ----------
        first
            Number of rows before the period; a multiple of ``shortest``.
        last
            Number of the last row of the period.

        Returns
        -------
        OnlineCertificate or NoCertificate
            A certificate only for a new certified expert, and only if the bound is below log 2 per row, the bound of
            forecasting 1/2.
        """
        start, n = whole("first", first, 0, MAX_ROWS), whole("last", last, 0, MAX_ROWS)
        if start >= n or start % self.shortest:
            raise InputError("first", f"must be a multiple of {self.shortest} below last, not {first!r} with {last!r}")
        expert = self.expert
        if not isinstance(expert, PlattForecaster) or expert.regret(n) == math.inf or expert.n_rows:
            return NoCertificate(NoCertificateCode.NO_THEOREM, "the expert has no regret bound: use a new Aioli()")
        if start and n - start > MAX_LIVES * (self.shortest << self.levels - 1):
            return NoCertificate(
                NoCertificateCode.VACUOUS,
                "the period is longer than a million lifetimes of the longest copies: use more levels",
            )
        parts = [(self._price_at(begin), end - begin) for begin, end in self._lives(start, n)]
        bound = math.fsum(price + expert.regret(rows) + lost_by_rounding(rows) for price, rows in parts)
        lost = math.fsum(lost_by_rounding(rows) for _, rows in parts)
        if lost > 0.5 * bound >= 0.5 * (n - start) * math.log(2.0):
            return NoCertificate(
                NoCertificateCode.VACUOUS,
                "the bound is vacuous for this long a period, since rounding errors add up: pass a shorter one",
            )
        best, theorem = best_platt(expert.radius), f"{THEOREM}; {expert.theorem}"
        learned = min(self.n_rows, n)
        return regret_certificate(best, bound, n, theorem, rows=(start + 1, n), clamp=expert.clamp, learned=learned)

    def _level_at(self, row: int) -> int:
        """The highest level at which a copy starts after this many rows."""
        level = 0
        while level + 1 < self.levels and row % (self.shortest << level + 1) == 0:
            level += 1
        return level

    def _price_at(self, row: int) -> float:
        return self._price(row // (self.shortest << self._level_at(row))) if row else math.log(2.0)

    def _lives(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The period split at starts of copies: first halves of lifetimes, and a whole one at the end."""
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
        # The weights of active copies add up to at most 1, plus rounding for each row.
        living = [logs[j] for j in range(copies) if not j or born[j]]
        most = max(living)
        if most + math.log(math.fsum(math.exp(x - most) for x in living)) > seen * LOST_A_ROW + SLACK:
            raise changed("weights")

    def _admit(self, state: Any, fix: str) -> float:
        """As in the base class, with the number of copies of the state, which may differ."""
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
        """Number of the copy at an index after this many rows: the last of its level, or the one before."""
        i = seen // (self.shortest << (j - 1) // 2) if j else 0
        return max(i if i % 2 == (j - 1) % 2 else i - 1, 0) if j else 0

    def _resume(self, numbers: list[float]) -> None:
        copies = len(self._born)
        self._seen = int(numbers[0])
        self._logs = [float(x) for x in numbers[1 : 1 + copies]]
        self._born = [int(x) for x in numbers[1 + copies :]]
        self._places = [0, *(j for j in range(copies) if self._born[j])]

    def __repr__(self) -> str:
        """The constructor call."""
        return f"Restarting({self.expert!r}, shortest={self.shortest}, levels={self.levels})"


def _restarts(expert: Forecaster) -> bool:
    """Whether it is or contains a ``Restarting``; copies of copies would be too many."""
    return isinstance(expert, Restarting) or any(map(_restarts, expert.experts))
