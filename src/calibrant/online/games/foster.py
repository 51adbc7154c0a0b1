"""Calibrated forecasting against any adversary, without an expert: randomized, or with two choices."""

from __future__ import annotations

from calibrant.guarantees.online_certificate import OnlineCertificate
from calibrant.online.games.bounds import SUMS, certificates_of, hedged_error, judged_error
from calibrant.online.games.hedging import BETTER, BOTH, MEANS, CalibrationGame, Shares
from calibrant.online.games.widths import Epsilon, bins_of, rows_of
from calibrant.online.stored import register


@register("Foster99")
class Foster99(CalibrationGame):
    r"""Foster's (1999) randomized calibrated forecaster, which does not use the score.

    With :math:`N_i` rows so far at the forecast :math:`M_i`, the midpoint of the bin :math:`[l_i, r_i)`, and outcomes
    that add up to :math:`S_i`, let

    .. math:: e_i = S_i - r_i N_i \quad\text{(excess)}, \qquad d_i = l_i N_i - S_i \quad\text{(deficit)}.

    Starting from the lowest bin, take the first i without excess. If it has no deficit either, the forecast is
    :math:`M_i`. Otherwise :math:`e_{i-1} > 0` and :math:`d_i > 0`, and the forecast is :math:`M_{i-1}` with probability
    :math:`d_i / (d_i + e_{i-1})`, else :math:`M_i`.

    Parameters
    ----------
    epsilon
        Width of a bin, 1/m with m at most 2,000, or ``"auto"``: the m with the smallest bound after ``horizon`` rows,
        of the order of T^(-1/3); ``n_bins`` stores it.
    shares
        ``"totals"`` uses totals as above, which is Blackwell's strategy and what the proof of the calibration bound
        needs. ``"means"`` divides excess and deficit by the number of rows first, as printed in Gupta (2023), section
        6.C; its calibration bound has an additional logarithm.
    horizon
        Number of future rows, for ``epsilon="auto"`` only.
    random_state
        None uses a secret key for the draws, which the state stores; an integer gives the same draws in every run. An
        adversary must know neither. Two forecasters with the same integer, or resumed from the same state, make the
        same draws, so one reveals the other. After a crash, continue with ``resume(text).redrawn()``, which takes a new
        key from the system, whatever ``random_state`` was.

    Notes
    -----
    Guarantee: a calibration bound, :meth:`certificate`, on average over the draws, for outcomes chosen by anyone who
    does not see the draw, and for a number of rows that does not depend on the draws; a single run may exceed it, and
    ``certificate(n_rows, alpha=0.05)`` is a bound that it exceeds with a probability of at most 5 %. Each
    forecast must be followed by its own outcome, learned before the next forecast is requested: a forecast
    without a timely outcome reveals the draw of the next row. :class:`TwoChoices` needs none of this.
    It is calibrated but of little use by itself: without an adversary it converges to the average outcome.
    Cost: 2 m numbers; at most m bins per row.
    Reference: Foster 1999; Gupta (2023), section 6.C and eq. 6.27; docs/certificates/games.md.

    Examples
    --------
    >>> f99 = Foster99(epsilon=0.1).learn_many([0.5] * 300, [0, 0, 1] * 100)
    >>> f99.predict_one(0.5)
    0.35
    >>> print(f99.certificate(10_000))  # doctest: +ELLIPSIS
    After its first 10,000 rows (300 already learned), the calibration error in bins of width 0.1 is ...
    """

    def __init__(
        self,
        *,
        epsilon: Epsilon = 0.1,
        shares: Shares = "totals",
        horizon: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self._draw_by(shares, random_state)
        self.horizon = rows_of(horizon)
        self.epsilon, self.n_bins = bins_of(epsilon, self.horizon, self._error)
        super().__init__()

    def _error(self, m: int, n: int, alpha: float | None = None) -> float:
        return hedged_error(m, m, n, means=self._kind == MEANS, alpha=alpha)

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        m = self.n_bins
        found = (f"the calibration error in bins of width {1 / m:g}", self._error(m, n, alpha))
        return certificates_of(self.n_rows, n, True, ((*found, self._theorem("6.27", alpha)),), alpha)


@register("TwoChoices")
class TwoChoices(CalibrationGame):
    r"""Deterministic calibration with two neighboring forecasts (POTC-Cal), which does not use the score.

    The judged forecasts are calibrated on every sequence, at the rate 1/T.
    The pair :math:`(M_i, M_{i+1})`, or :math:`(M_i, M_i)`, is chosen as in :class:`Foster99`. After the outcome
    :math:`y \in [0, 1]`, the lower forecast is judged if :math:`y \le r_i`, the edge between the two bins, else the
    upper one.

    .. math:: \sum_i \Bigl|\frac1T \sum_{t:\, p_t = M_i} (M_i - y_t)\Bigr| \le \frac{\epsilon}{2} + \frac{m}{T}
              \quad\text{for the judged forecasts } p_t.

    Parameters
    ----------
    epsilon
        Width of a bin, 1/m with m at most 2,000, as everywhere in this package (Gupta 2023, chapter 8, calls half of it
        epsilon); ``"auto"`` is the m with the smallest bound after ``horizon`` rows; ``n_bins`` stores it.
    horizon
        Number of future rows, for ``epsilon="auto"`` only.

    Notes
    -----
    The guarantee is about the better of its two neighboring forecasts, chosen when the outcome is known: the end of
    :meth:`predict_interval` that is nearer to the outcome (:meth:`judged_one`, :meth:`judged_many`). ``predict_one``
    returns the midpoint of the interval as a summary: a deterministic point forecast without any guarantee.
    Guarantee: :meth:`certificate`, on every sequence of outcomes in [0, 1], whatever the adversary sees.
    Cost: 2 m numbers; at most m bins per row.
    Reference: Gupta (2023), section 8.3, Theorem 8.1 and section 8.C; docs/certificates/games.md.

    Examples
    --------
    >>> game = TwoChoices(epsilon=0.5).learn_many([0.5, 0.5], [1, 0])
    >>> game.predict_interval(0.5), game.judged_one(0.5, 0), game.judged_one(0.5, 1)
    ((0.25, 0.75), 0.25, 0.75)
    """

    bounded_outcomes = True
    _kind = BOTH

    def __init__(self, *, epsilon: Epsilon = 0.1, horizon: int | None = None) -> None:
        self.horizon = rows_of(horizon)
        self.epsilon, self.n_bins = bins_of(epsilon, self.horizon, self._error)
        super().__init__()

    def _error(self, m: int, n: int) -> float:
        return judged_error(m, 1, n) + SUMS * n

    def _certificates(self, n: int, alpha: float | None = None) -> tuple[OnlineCertificate, ...]:
        m = self.n_bins
        quantity = f"the calibration error in bins of width {1 / m:g} {BETTER}"
        theorem = "Gupta 2023, 8.5, with a smaller constant"
        return certificates_of(self.n_rows, n, False, ((quantity, self._error(m, n), theorem),))
