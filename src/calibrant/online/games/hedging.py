"""Calibeating by hedging: a calibration game in each bin of the expert's forecasts."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.online.base import Forecaster
from calibrant.online.games.binned import BinnedForecaster
from calibrant.online.games.bounds import certificates_of, hedged_brier, hedged_error, judged_error, lost_by_binning
from calibrant.online.games.draws import WORD, Key, branch_of, draw_steps, key_of
from calibrant.online.games.widths import (
    MAX_GAMES,
    Epsilon,
    bin_steps,
    bins_of,
    check_cells,
    check_settings,
    rows_of,
)
from calibrant.online.guards import learning, reading
from calibrant.online.kernels import SEEN, Factory, Jit, Step, plain
from calibrant.online.limits import changed, real, whole_in
from calibrant.online.settings import read_only
from calibrant.online.stored import register

Rule = Literal["foster99", "two-choices"]
Shares = Literal["totals", "means"]

BINS, KIND, KEY, FIRST = 1, 2, 3, 5
"""Indices of m, the kind of game, the two words of the key, and the first block: m counts, then m sums, and so on."""

BOTH, TOTALS, MEANS = 0.0, 1.0, 2.0
"""Kinds of games: two choices; or a draw weighted by total excess and deficit, or by their means."""

BETTER = (
    "of the better of its two neighboring forecasts, chosen when the outcome is known (judged_many; there is no "
    "guarantee for predict_one),"
)


def game_steps(jit: Jit) -> tuple[Step, Step]:
    """The two steps of a game in one block: the pair of forecasts, and the probability of the lower one.

    A forecast on the grid is its index i, for the bin [i/m, (i+1)/m). Times m, its excess is m S - (i + 1) N and its
    deficit i N - m S, for N rows with outcomes that add up to S. These are integers for binary outcomes, so the
    comparisons are exact while m N < 2^53, 4 10^12 rows with the most bins; beyond that the bounds allow for the
    rounding. From its start the game moves up while there is an excess, or down while there is a deficit, to the first
    bin that has neither (condition A of Gupta 2023) or that has the opposite (condition B). It ends inside the grid,
    since the lowest bin has no deficit and the highest no excess. Gupta (2023) uses B only if no bin at all satisfies
    A; the proofs do not need that (docs/certificates/games.md), and a walk from the expert's bin stays near the expert.
    """

    @jit
    def excess(s: Any, block: int, m: int, i: int) -> float:
        return m * s[block + m + i] - (i + 1) * s[block + i]  # type: ignore[no-any-return]

    @jit
    def deficit(s: Any, block: int, m: int, i: int) -> float:
        return i * s[block + i] - m * s[block + m + i]  # type: ignore[no-any-return]

    @jit
    def pair(s: Any, block: int, m: int, start: int) -> tuple[int, int]:
        i = start
        while i < m - 1 and excess(s, block, m, i) > 0.0:
            i += 1
            if deficit(s, block, m, i) > 0.0:
                return i - 1, i
        while i > 0 and deficit(s, block, m, i) > 0.0:
            i -= 1
            if excess(s, block, m, i) > 0.0:
                return i, i + 1
        return i, i

    @jit
    def lower_share(s: Any, block: int, m: int, i: int, j: int) -> float:
        if i == j:
            return 1.0
        e, d = excess(s, block, m, i), deficit(s, block, m, j)
        if s[KIND] == MEANS:
            e, d = e / s[block + i], d / s[block + j]
        return d / (d + e)  # type: ignore[no-any-return]

    return pair, lower_share


def hedging_steps(jit: Jit, *below: Step) -> tuple[Step, Step]:
    """One game for each bin of the expert, or one game without an expert (Gupta 2023, sections 6.3.3, 6.C and 8.3)."""
    pair, lower_share = game_steps(jit)
    bin_of, uniform = bin_steps(jit), draw_steps(jit)

    @jit
    def drawn(s: Any, block: int, m: int, i: int, j: int) -> int:
        if i == j or uniform(int(s[KEY]), int(s[KEY + 1]), int(s[SEEN])) < lower_share(s, block, m, i, j):
            return i
        return j

    @jit
    def forecast(s: Any, block: int, m: int, start: int) -> float:
        i, j = pair(s, block, m, start)
        if s[KIND] == BOTH:
            return (0.5 * (i + j) + 0.5) / m  # type: ignore[no-any-return]
        return (drawn(s, block, m, i, j) + 0.5) / m  # type: ignore[no-any-return]

    @jit
    def take(s: Any, block: int, m: int, start: int, y: float) -> float:
        i, j = pair(s, block, m, start)
        if s[KIND] == BOTH:
            p = (0.5 * (i + j) + 0.5) / m
            judged = j if y * m > i + 1 else i
        else:
            judged = drawn(s, block, m, i, j)
            p = (judged + 0.5) / m
        s[SEEN] += 1.0
        s[block + judged] += 1.0
        s[block + m + judged] += y
        return p  # type: ignore[no-any-return]

    if not below:

        @jit
        def predict_alone(state: Any, x: float) -> float:
            s = state[0]
            return forecast(s, FIRST, int(s[BINS]), 0)  # type: ignore[no-any-return]

        @jit
        def learn_alone(state: Any, x: float, y: float) -> float:
            s = state[0]
            return take(s, FIRST, int(s[BINS]), 0, y)  # type: ignore[no-any-return]

        return predict_alone, learn_alone

    expert_predict, expert_learn = below

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        m = int(s[BINS])
        b = bin_of(expert_predict(state[1], x), s[BINS])
        return forecast(s, FIRST + 2 * m * b, m, b)  # type: ignore[no-any-return]

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        m = int(s[BINS])
        b = bin_of(expert_learn(state[1], x, y), s[BINS])
        return take(s, FIRST + 2 * m * b, m, b, y)  # type: ignore[no-any-return]

    return predict, learn


_pair, _lower_share = game_steps(plain)
_bin_of = bin_steps(plain)


class CalibrationGame(BinnedForecaster):
    """Base class of calibration games on a grid of m forecasts.

    The grid contains the midpoints of m bins of width epsilon. In each round a forecaster chooses one of them or two
    neighbors. A randomized forecaster draws one of the two; a deterministic one returns both, and the one on the side
    of the outcome is judged.
    """

    shares: Shares = read_only()
    random_state: int | None = read_only()

    _factory: ClassVar[Factory] = hedging_steps
    _kind: float
    _key: Key = (0, 0)
    _said = "the midpoint of a bin as their forecast"

    def _draw_by(self, shares: Shares, random_state: int | None) -> None:
        """Use a randomized game with these shares, under the key of this seed."""
        if shares not in ("totals", "means"):
            raise InputError("shares", f"must be 'totals' or 'means', not {shares!r}")
        self._kind, self._key = MEANS if shares == "means" else TOTALS, key_of(random_state)
        self.shares, self.random_state = shares, None if random_state is None else int(random_state)

    def _begin(self) -> list[float]:
        blocks = self.n_bins if self.experts else 1
        settings = [0.0, float(self.n_bins), self._kind, float(self._key[0]), float(self._key[1])]
        return settings + [0.0] * (2 * self.n_bins * blocks)

    def _check(self, numbers: list[float]) -> None:
        """Check the numbers; the key may differ, since the state of a copy has a branch of the first key."""
        super()._check(numbers)
        check_settings(numbers[BINS:KEY], [self.n_bins, self._kind])
        key = numbers[KEY:FIRST]
        if not all(whole_in(word, 0, WORD) for word in key) or (self._kind == BOTH and any(key)):
            raise changed("key")
        check_cells(numbers, FIRST, self.n_bins, whole=not self.bounded_outcomes)

    def _branch(self, place: int) -> None:
        super()._branch(place)
        self._take_key(branch_of((int(self._held[KEY]), int(self._held[KEY + 1])), place))

    def _new_key(self) -> None:
        self._take_key(key_of(None))

    def _take_key(self, key: Key) -> None:
        if self._kind != BOTH:
            self._held[KEY:FIRST] = [float(word) for word in key]

    def _crowds(self) -> list[float]:
        m = self.n_bins
        blocks = range(FIRST, len(self._held), 2 * m) if self.experts else ()
        return [float(sum(self._held[at : at + m])) for at in blocks] or [0.0]

    def _pair(self, score: float) -> tuple[int, int, int]:
        """The block of the row, and the indices of its two forecasts."""
        m, b = self.n_bins, 0
        if self.experts:
            b = _bin_of(self.expert._predict_one(score), m)
        block = FIRST + 2 * m * b
        return block, *_pair(self._held, block, m, b)

    @reading
    def predict_interval(self, score: float) -> tuple[float, float]:
        """The two forecasts of this row, at most epsilon apart; equal if one is enough."""
        _, i, j = self._pair(self._score(score))
        return (i + 0.5) / self.n_bins, (j + 0.5) / self.n_bins

    @reading
    def predict_distribution(self, score: float) -> tuple[tuple[float, float], ...]:
        """The forecasts that may be drawn for this row, with their probabilities: an adversary may know these."""
        if self._kind == BOTH:
            raise InputError(type(self).__name__, "is not randomized", "use predict_interval to get both forecasts")
        block, i, j = self._pair(self._score(score))
        share = float(_lower_share(self._held, block, self.n_bins, i, j))
        low, high = (i + 0.5) / self.n_bins, (j + 0.5) / self.n_bins
        return ((low, 1.0),) if i == j else ((low, share), (high, 1.0 - share))

    @reading
    def judged_one(self, score: float, label: float) -> float:
        """The forecast that counts for calibration once the outcome is known.

        With two choices it is the lower one if the outcome is at most the edge between the two bins, else the upper
        one; the midpoint that ``predict_one`` returns has no guarantee. With a draw it is what ``predict_one``
        returned.
        """
        return self._judged_one(score, label)

    def _judged_one(self, score: float, label: float) -> float:
        y = self._label(label)
        if self._kind != BOTH:
            return self._predict_one(score)
        _, i, j = self._pair(self._score(score))
        return ((j if y * self.n_bins > i + 1 else i) + 0.5) / self.n_bins

    @learning
    def judged_many(self, scores: ArrayLike, labels: ArrayLike) -> Floats:
        """Like ``forecast_many``, but returns the judged forecasts: each from the outcomes before it, then learned."""
        out = []
        for x, y in zip(self._scores(scores).tolist(), self._labels(labels, scores).tolist(), strict=True):
            out.append(self._judged_one(x, y))
            self._learn_one(x, y)
        self._notice()
        return np.array(out, dtype=np.float64)

    @reading
    def certificate(
        self, n_rows: int | None = None, *, alpha: float | None = None
    ) -> OnlineCertificate | NoCertificate:
        """The guarantee on the calibration error for the first ``n_rows`` rows, unless it is vacuous.

        Parameters
        ----------
        n_rows
            Number of rows since it was created; by default the rows learned so far.
        alpha
            None bounds the mean over the forecaster's own random draws. A number bounds a single run, which exceeds the
            bound with at most this probability; for several quantities, all of them together. A forecaster without
            draws has a bound on every run anyway.

        Returns
        -------
        OnlineCertificate or NoCertificate
            No certificate if the bound is 1 or more.
        """
        return self._main_certificate(n_rows, _rare(alpha))

    @reading
    def certificates(self, n_rows: int | None = None, *, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        """All guarantees for these rows that are not vacuous, the main one first.

        Parameters
        ----------
        n_rows, alpha
            As in :meth:`certificate`.
        """
        return self._useful_certificates(n_rows, _rare(alpha))

    def _theorem(self, number: str, alpha: float | None) -> str:
        """Reference of a theorem that is printed with the constant 2."""
        if alpha is not None:
            return f"after Gupta 2023, {number}; docs/certificates/games.md, A single run"
        return (
            f"Gupta 2023, {number}, with {'a logarithm in place of 2' if self._kind == MEANS else 'a smaller constant'}"
        )


@register("Hedging")
class Hedging(CalibrationGame):
    r"""Calibeating by hedging: a calibration game in each bin of the expert's forecasts (HOPS, HOBS).

    .. math:: p_t = \mathrm{G}_b\bigl(y_s : s < t,\, q_s \in B_b\bigr) \quad\text{for}\quad q_t \in B_b,

    where :math:`q_t` is the expert's forecast, :math:`B_b` the m bins of width ``epsilon`` = 1/m and :math:`G_b` a
    separate game on the midpoints of the same bins: :class:`Foster99`, which is randomized, or :class:`TwoChoices`,
    which returns two neighboring forecasts and is judged by the one on the side of the outcome. A game starts at the
    expert's bin and moves away only as far as the outcomes require.

    Parameters
    ----------
    expert
        Any forecaster; it is copied, with separate draws if it is randomized.
    epsilon
        Width of a bin, 1/m with m at most 1,000, in units of probability: all scores whose expert forecast lies in one
        bin get one number, and forecasts are midpoints of bins. For events rarer than a few percent use the expert
        alone: with a finer epsilon a game learns too slowly, and the state has 2 m^2 numbers. ``"auto"`` is the m with
        the smallest bound on the calibration error after ``horizon`` rows, of the order of T^(-1/4) for a draw and
        T^(-1/3) for two choices; ``n_bins`` stores it.
    rule
        ``"foster99"`` is randomized; ``"two-choices"`` is deterministic: see :meth:`judged_one` for what is judged.
    shares
        How a draw weights its two forecasts; see :class:`Foster99`.
    horizon
        Number of future rows, for ``epsilon="auto"`` only.
    random_state
        None uses a secret key for the draws; the state stores it, so keep the state secret too. An integer gives the
        same draws in every run, for tests and studies; one that can be guessed is not secret. The draw of a row is a
        function of the key and of the number of rows learned, so asking twice gives the same draw, and so does resuming
        from a state again. After a crash, continue with ``resume(text).redrawn()``, which takes a new key from the
        system, whatever ``random_state`` was.

    Notes
    -----
    Outcomes are 0 or 1, also with two choices (:class:`TwoChoices` itself accepts [0, 1]).
    Whole streams (``learn_many``, ``forecast_many``) warn if nearly all rows lie in one bin; single rows do not.
    Guarantee: :meth:`certificates`, on every sequence (two choices) or on average over the draws (Foster), for a number
    of rows that does not depend on them; a single run may exceed it. With draws, each forecast must be followed by its
    own outcome, learned before the next forecast is requested: forecasts from one state share one draw, so a forecast
    without a timely outcome reveals the draw of the next row. If this is not possible, use two choices.
    Cost: 2 m^2 numbers; a row costs the expert's step and a walk from the expert's bin to that of the forecast.
    Reference: Gupta (2023), section 6.3.3, Theorems 6.3, 6.4 and 8.1; Foster and Hart 2023; Kuleshov and Ermon 2017;
    docs/certificates/games.md.

    Examples
    --------
    >>> from calibrant.online import OnlinePlatt
    >>> hops = Hedging(OnlinePlatt(), epsilon=0.1).learn_many([0.72] * 3, [1, 1, 0])
    >>> [(p, round(share, 3)) for p, share in hops.predict_distribution(0.72)]
    [(0.85, 0.9), (0.95, 0.1)]
    >>> round(hops.certificate(10_000).bound, 3)
    0.14
    """

    rule: Rule = read_only()

    def __init__(
        self,
        expert: Forecaster,
        *,
        epsilon: Epsilon = 0.1,
        rule: Rule = "foster99",
        shares: Shares = "totals",
        horizon: int | None = None,
        random_state: int | None = None,
    ) -> None:
        if rule not in ("foster99", "two-choices"):
            raise InputError("rule", f"must be 'foster99' or 'two-choices', not {rule!r}")
        self._draw_by(shares, random_state)
        if rule == "two-choices":
            self._kind, self._key = BOTH, (0, 0)
        self.rule, self.horizon = rule, rows_of(horizon)
        self.epsilon, self.n_bins = bins_of(epsilon, self.horizon, self._error, MAX_GAMES)
        super().__init__(expert)

    def _error(self, m: int, n: int, alpha: float | None = None) -> float:
        if self._kind == BOTH:
            return judged_error(m, m, n)
        return hedged_error(m, m * m, n, means=self._kind == MEANS, alpha=alpha)

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        m = self.n_bins
        width = f"bins of width {1 / m:g}"
        error = self._error(m, n, alpha)
        if self._kind == BOTH:
            theorem = "Gupta 2023, 8.5 in each bin of the expert, with a smaller constant"
            return certificates_of(
                self.n_rows, n, False, ((f"the calibration error in {width} {BETTER}", error, theorem),)
            )
        gap = hedged_brier(m, m * m, n, means=self._kind == MEANS, alpha=alpha)
        return certificates_of(self.n_rows, n, True, (
            (f"the calibration error in {width}", error, self._theorem("6.17", alpha)),
            (f"the loss of sharpness (in {width}) relative to the expert", gap, "after Gupta 2023, 6.16"),
            ("the Brier score minus that of the expert", gap + lost_by_binning(m), "after Gupta 2023, 6.28"),
        ), alpha)  # fmt: skip


def _rare(alpha: float | None) -> float | None:
    return None if alpha is None else real("alpha", alpha, 1e-12, 0.5)
