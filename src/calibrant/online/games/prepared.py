"""Foster's forecaster with trials of every forecast before each of its phases (PI-F99)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.messages import InputError
from calibrant.online.games.bounds import certificates_of
from calibrant.online.games.draws import WORD, draw_steps
from calibrant.online.games.hedging import BINS, FIRST, KEY, CalibrationGame, game_steps
from calibrant.online.games.widths import bins_of, check_settings
from calibrant.online.kernels import SEEN, Factory, Jit, Step, plain
from calibrant.online.limits import changed, whole, whole_in
from calibrant.online.settings import read_only
from calibrant.online.stored import register

LARGEST_PHASE = 2**50
"""Largest number of rows of the first phase."""

MAX_BINS = 200
"""Largest number of bins; with this many, the formula asks for phases of more than 10^11 rows."""


def trial_steps(jit: Jit) -> Step:
    """``trials(m, rows)``: trials of each of m forecasts in a phase, Gupta (2023), eq. 8.13, with epsilon 1/(2m).

    Examples
    --------
    >>> trial_steps(plain)(2, 2**18)
    39804
    """
    log, ceil = math.log, math.ceil

    @jit
    def trials(m: int, rows: int) -> int:
        size = 1.7 * m * log(rows)
        return int(ceil(size * size * (log(log(rows / 2.0)) + 0.72 * log(5.2 * m * float(rows) * float(rows)))))

    return trials


def phase_steps(jit: Jit) -> Step:
    """``phase(numbers, first, given)``: rows since the phase of the next row began, and trials of each forecast."""
    needed = trial_steps(jit)

    @jit
    def phase(s: Any, first: int, given: int) -> tuple[int, int]:
        row, length, m = int(s[SEEN]), first, int(s[BINS])
        while row >= length:
            row -= length
            length *= 2
        return row, given if given > 0 else needed(m, length)

    return phase


def prepared_steps(jit: Jit) -> tuple[Step, Step]:
    """Gupta (2023), section 8.B: phases that double, each with trials first and then Foster's rule on its own rows."""
    pair, lower_share = game_steps(jit)
    uniform, phase = draw_steps(jit), phase_steps(jit)

    @jit
    def place(s: Any) -> int:
        m = int(s[BINS])
        row, trials = phase(s, int(s[FIRST + 2 * m]), int(s[FIRST + 2 * m + 1]))
        if row < m * trials:
            return row // trials  # type: ignore[no-any-return]
        i, j = pair(s, FIRST, m, 0)
        if i == j or uniform(int(s[KEY]), int(s[KEY + 1]), int(s[SEEN])) < lower_share(s, FIRST, m, i, j):
            return i  # type: ignore[no-any-return]
        return j  # type: ignore[no-any-return]

    @jit
    def predict(state: Any, x: float) -> float:
        s = state[0]
        return (place(s) + 0.5) / int(s[BINS])  # type: ignore[no-any-return]

    @jit
    def learn(state: Any, x: float, y: float) -> float:
        s = state[0]
        m, i = int(s[BINS]), place(s)
        row, _ = phase(s, int(s[FIRST + 2 * m]), int(s[FIRST + 2 * m + 1]))
        if row == 0:
            for at in range(FIRST, FIRST + 2 * m):
                s[at] = 0.0
        s[SEEN] += 1.0
        s[FIRST + i] += 1.0
        s[FIRST + m + i] += y
        return (i + 0.5) / m  # type: ignore[no-any-return]

    return predict, learn


_phase, _needed = phase_steps(plain), trial_steps(plain)


@register("PreparedFoster")
class PreparedFoster(CalibrationGame):
    r"""Foster's forecaster with trials of every forecast first (PI-F99), which does not use the score.

    Rows are split into phases of :math:`T_0, 2 T_0, 4 T_0, \dots` rows, each of which starts anew. In a phase, each of
    the m midpoints is forecast K times, whatever the outcomes; then :class:`Foster99` continues from these counts.

    Parameters
    ----------
    epsilon
        Width of a bin, 1/m with m at most 200.
    trials
        K; by default Gupta (2023), eq. 8.13, which grows with the phase: 39,804 for m = 2 and 2^18 rows.
    first
        :math:`T_0`; by default the smallest power of two of which trials take at most half.
    random_state
        As in :class:`Foster99`.

    Notes
    -----
    A construction for a proof rather than for use. If outcomes are independent with one probability, trials find its
    bin, and the calibration error then exceeds epsilon/2 by a term of order log(T)^c / T, where that of
    :class:`Foster99` is of order :math:`1/\sqrt T` (Gupta 2023, Proposition 8.3; not a certificate, since nobody can
    check the assumption). Against an adversary the rate is still :math:`1/\sqrt T`, with a larger constant.
    Guarantee: a calibration bound, :meth:`certificate`, on average over the draws, as of :class:`Foster99`.
    Cost: 2 m numbers; at most m bins per row.
    Reference: Gupta (2023), section 8.B, Propositions 8.3 and 8.4; docs/certificates/games.md.

    Examples
    --------
    >>> game = PreparedFoster(epsilon=0.5, trials=2, first=16)
    >>> game.forecast_many([0.5] * 6, [1, 1, 1, 1, 1, 0]).tolist()
    [0.25, 0.25, 0.75, 0.75, 0.75, 0.75]
    >>> print(PreparedFoster(epsilon=0.5, trials=10).certificate(100_000))  # doctest: +ELLIPSIS
    After its first 100,000 rows, the calibration error in bins of width 0.5 is at most 0.2558, on average ...
    """

    trials: int | None = read_only()
    first: int | None = read_only()

    _factory: ClassVar[Factory] = prepared_steps

    def __init__(
        self,
        *,
        epsilon: float = 0.5,
        trials: int | None = None,
        first: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self._draw_by("totals", random_state)
        if isinstance(epsilon, str):
            raise InputError("epsilon", f"must be the width of a bin, not {epsilon!r}")
        self.horizon = None
        self.epsilon, self.n_bins = bins_of(epsilon, None, lambda m, n: 0.0, MAX_BINS)
        self.trials = None if trials is None else whole("trials", trials, 1, 2**40)
        self.first = None if first is None else whole("first", first, 16, LARGEST_PHASE)
        self._first = self._smallest_phase() if self.first is None else self.first
        super().__init__()

    def _smallest_phase(self) -> int:
        rows = 16
        while 2 * self.n_bins * self._trials(rows) > rows:
            rows *= 2
        return rows

    def _trials(self, rows: int) -> int:
        return int(_needed(self.n_bins, rows)) if self.trials is None else self.trials

    def _begin(self) -> list[float]:
        settings = [0.0, float(self.n_bins), self._kind, float(self._key[0]), float(self._key[1])]
        return [*settings, *[0.0] * (2 * self.n_bins), float(self._first), float(self.trials or 0)]

    def _check(self, numbers: list[float]) -> None:
        super(CalibrationGame, self)._check(numbers)
        m, last = self.n_bins, FIRST + 2 * self.n_bins
        check_settings([*numbers[BINS:KEY], *numbers[last:]], [m, self._kind, self._first, float(self.trials or 0)])
        if not all(whole_in(word, 0, WORD) for word in numbers[KEY:FIRST]):
            raise changed("key")
        counts, sums = numbers[FIRST : FIRST + m], numbers[FIRST + m : last]
        row, _ = _phase(numbers, self._first, self.trials or 0)
        told = row if row or not numbers[SEEN] else _length_before(int(numbers[SEEN]), self._first)
        right = all(0 <= s <= n == int(n) and s == int(s) for n, s in zip(counts, sums, strict=True))
        if not right or math.fsum(counts) != told:
            raise changed("counts")

    def _pair(self, score: float) -> tuple[int, int, int]:
        row, trials = _phase(self._held, self._first, self.trials or 0)
        if row < self.n_bins * trials:
            return FIRST, row // trials, row // trials
        return super()._pair(score)

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        m = self.n_bins
        found = (f"the calibration error in bins of width {1 / m:g}", 0.5 / m + self._beyond(n) / (alpha or 1.0))
        theorem = "after Gupta 2023, Proposition 8.4; docs/certificates/games.md"
        return certificates_of(self.n_rows, n, True, ((*found, theorem),), alpha)

    def _beyond(self, n: int) -> float:
        """Bound on the mean of the error beyond half a width: the sum over phases of the root of squared excesses."""
        m, left, length, total = self.n_bins, n, self._first, 0.0
        far = [max(i, m - 1 - i) / m for i in range(m)]
        while left > 0:
            rows, trials = min(left, length), self._trials(length)
            counts = [min(max(rows - i * trials, 0), trials) for i in range(m)]
            squares = math.fsum((x * k) ** 2 for x, k in zip(far, counts, strict=True))
            played = max(rows - m * trials, 0)
            total += math.sqrt(m * (squares + (1.0 - 1.0 / m) ** 2 * played))
            left, length = left - rows, 2 * length
        return total / n if n else math.inf


def _length_before(seen: int, first: int) -> int:
    """Length of the phase that ends after this many rows."""
    length = first
    while seen > length:
        seen -= length
        length *= 2
    return length
