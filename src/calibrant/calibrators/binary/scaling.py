"""Scaling maps with one to three parameters: an intercept, Platt scaling and beta scaling."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.scaling import Loss, Scaling, fit_beta, fit_level, fit_platt, rates_text, unlimited
from calibrant.maps import BetaMap, LogitAffineMap, Map
from calibrant.messages import InputError, Voice
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class PlattScaling(BinaryCalibrator):
    r"""Platt scaling: logistic regression on the log-odds of the score.

    .. math:: m(s) = \operatorname{expit}(a \operatorname{logit}(s) + b),\qquad a \ge 0,

    fitted by maximum likelihood; the identity is :math:`a = 1, b = 0`. Scores of type ``"logit"`` or ``"real"`` are
    used without the logit.

    Parameters
    ----------
    on : {"log-odds", "score"}
        ``"score"`` regresses on the score itself, as Platt (1999) did for margins.
    soft_targets : bool
        Replace labels by Platt's :math:`(N_+ + 1)/(N_+ + 2)` and :math:`1/(N_- + 2)`. This is also done automatically,
        with a note, if the classes are separated or only one is present, where the likelihood has no maximum.
    increasing : bool
        Constrain the slope to be non-negative, so that a ranking is never inverted.
    limits : bool
        Clip outputs to :math:`[1/(n + 2), 1 - 1/(n + 2)]`: n rows cannot support more extreme probabilities.
    clamp : float, optional
        Clip scores to [clamp, 1 - clamp] before their log-odds are taken. By default, a score of exactly 0 or 1 is
        moved to half the distance between that end and the nearest other score, with a note; other scores are not
        changed.
    loss : {"log", "square"}
        ``"square"`` minimizes the Brier score instead of the log loss. It weighs errors of middling probabilities more
        and of rare events less, and is not convex: the best of three searches is taken, and if a step has a lower Brier
        score than any curve, soft targets are used, with a note.

    Notes
    -----
    Edge cases: if every score is exactly 0 or 1 there are no log-odds, and the map is a table of two rates, with a
    note.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.
    Reference: Platt (1999); Gupta (2023), eq. 1.7; Rosenberg (2021) for the square loss.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> PlattScaling().fit(scores, y).transform([0.5]).round(3).tolist()
    [0.537]
    """

    _restores: ClassVar[bool] = True

    on: Literal["log-odds", "score"] = "log-odds"
    _: KW_ONLY
    soft_targets: bool = False
    increasing: bool = True
    limits: bool = False
    clamp: float | None = None
    loss: Loss = "log"

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        check_option("loss", self.loss, get_args(Loss))
        if self.on == "score" and self.clamp is not None:
            raise InputError("clamp", "applies to log-odds only", "leave it out with on='score'")
        how = Scaling(self.soft_targets, self.increasing, self.limits, self.loss)
        return Fit(*fit_platt(tally, how, self.on))

    def _describe(self, voice: Voice) -> str:
        inner = unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        return f"slope {inner.slope:.4g}, intercept {inner.intercept:.4g} on the {inner.on}"


@dataclass(eq=False, repr=False)
class BetaScaling(BinaryCalibrator):
    r"""Beta scaling: a map with three parameters, for scores in (0, 1).

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr), \qquad a, b \ge 0,

    fitted by maximum likelihood, where :math:`s \in (0, 1)` is the score. The identity is :math:`a = b = 1, c = 0`.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        ``"abm"``: all three. ``"am"``: a = b, which is Platt scaling on the log-odds. ``"ab"``: the map passes through
        (1/2, 1/2), that is :math:`c = (a - b) \log 2`.
    soft_targets, limits : bool
        As in :class:`PlattScaling`.
    clamp : float, optional
        As in :class:`PlattScaling`.

    Notes
    -----
    Edge cases: as in :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.
    Reference: Kull, Silva Filho and Flach (2017); Gupta (2023), eq. 6.18, which writes -b for this b.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> BetaScaling("ab").fit(scores, y).transform([0.5]).round(3).tolist()
    [0.5]
    """

    variant: Literal["abm", "am", "ab"] = "abm"
    _: KW_ONLY
    soft_targets: bool = False
    limits: bool = False
    clamp: float | None = None

    @property
    def increasing(self) -> bool:
        """True: a beta map with a, b >= 0 never decreases."""
        return True

    @property
    def _restores(self) -> bool:  # type: ignore[override]  # through (1/2, 1/2) there is no free intercept
        return self.variant != "ab"

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        how = Scaling(self.soft_targets, self.increasing, self.limits)
        return Fit(*fit_beta(tally, how, self.variant))

    def _describe(self, voice: Voice) -> str:
        inner = unlimited(self.map_)
        if not isinstance(inner, BetaMap):
            return rates_text(inner)
        return f"a {inner.a:.4g}, b {inner.b:.4g}, c {inner.c:.4g}"


@dataclass(eq=False, repr=False)
class LogitShift(BinaryCalibrator):
    r"""Add one intercept to the log-odds, so that the mean prediction equals the event rate.

    .. math:: m(s) = \operatorname{expit}\bigl(\operatorname{logit}(s) + b\bigr), \qquad
              \text{with } b \text{ such that } \sum_i m(s_i) = \sum_i y_i,

    which is the likelihood equation and has one solution. This is calibration in the large: the correction after the
    base rate changed, or after one class was undersampled (Saerens et al. 2002). The identity is :math:`b = 0`. Scores
    of type ``"logit"`` or ``"real"`` are read as log-odds.

    Parameters
    ----------
    soft_targets, limits : bool
        As in :class:`PlattScaling`. Soft targets are also used automatically, with a note, if only one class is
        present, where b has no finite value.
    clamp : float, optional
        As in :class:`PlattScaling`.

    Notes
    -----
    Edge cases: real scores above a million in absolute value are rejected, because they cannot be log-odds. Scores of
    exactly 0 and 1 are treated as in :class:`PlattScaling`.
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (Gupta 2023,
    Theorem 3.3).
    Cost: one pass to tally, then O(cells) per step of a search in one dimension.
    Reference: Cox (1958), with the slope fixed at 1; Saerens, Latinne and Decaestecker (2002).

    Examples
    --------
    >>> scores, y = [0.2, 0.4, 0.6, 0.8], [0, 0, 0, 1]
    >>> cal = LogitShift().fit(scores, y)
    >>> cal.transform(scores).round(3).tolist(), cal.transform(scores).mean().round(12).item()
    ([0.061, 0.148, 0.281, 0.51], 0.25)
    """

    _restores: ClassVar[bool] = True

    _: KW_ONLY
    soft_targets: bool = False
    limits: bool = False
    clamp: float | None = None

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        return Fit(*fit_level(tally, Scaling(soft_targets=self.soft_targets, limits=self.limits)))

    def _describe(self, voice: Voice) -> str:
        inner = unlimited(self.map_)
        if not isinstance(inner, LogitAffineMap):
            return rates_text(inner)
        odds = float(np.exp(np.clip(inner.intercept, -700.0, 700.0)))
        return f"intercept {inner.intercept:+.4g} on the {inner.on}: odds times {odds:.4g}"
