"""Scaling maps with two or three parameters: Platt and beta."""

from __future__ import annotations

from typing import Literal, cast

from calibrant.calibrators.base import BinaryCalibrator
from calibrant.calibrators.scaling import Scaling, fit_beta, fit_platt
from calibrant.maps import BetaMap, ComposeMap, LogitAffineMap, Map
from calibrant.tallies import Tally


class PlattScaling(BinaryCalibrator):
    r"""Logistic regression on the log-odds of the score.

    .. math:: m(s) = \operatorname{expit}(a \operatorname{logit}(s) + b),\qquad a \ge 0,

    (002 eq. 1.7), fitted by maximum likelihood; the identity :math:`a = 1, b = 0` is in the family. Scores of kind
    ``"logit"`` or ``"real"`` enter as they are.

    Parameters
    ----------
    on : {"log-odds", "score"}
        ``"score"`` regresses on the score itself, as Platt (1999) did for margins.
    soft_targets : bool
        Replace labels by Platt's :math:`(N_+ + 1)/(N_+ + 2)` and :math:`1/(N_- + 2)`. Also done by itself, with a note,
        when the classes are separated or only one is present, where the maximum likelihood runs away.
    increasing : bool
        Keep the slope non-negative, so that a ranking is never inverted.
    limits : bool
        Hold outputs inside :math:`[1/(n + 2), 1 - 1/(n + 2)]`: n rows cannot support more extreme statements.

    Notes
    -----
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> PlattScaling().fit(scores, y).transform([0.5]).round(3).tolist()
    [0.537]
    """

    def __init__(
        self,
        on: Literal["log-odds", "score"] = "log-odds",
        *,
        soft_targets: bool = False,
        increasing: bool = True,
        limits: bool = False,
    ) -> None:
        self.on = on
        self.soft_targets = soft_targets
        self.increasing = increasing
        self.limits = limits

    def _fit_map(self, tally: Tally) -> Map:
        how = Scaling(self.soft_targets, self.increasing, self.limits)
        fitted, notes = fit_platt(tally, how, self.on)
        self.notes_ = (*self.notes_, *notes)
        return fitted

    def _describe(self) -> str:
        inner = cast(LogitAffineMap, _unlimited(self.map_))
        return f"slope {inner.slope:.4g}, intercept {inner.intercept:.4g} on the {inner.on}"


class BetaScaling(BinaryCalibrator):
    r"""Three-parameter beta map.

    .. math:: m(s) = \operatorname{expit}\bigl(a \log s - b \log(1 - s) + c\bigr), \qquad a, b \ge 0,

    where :math:`s \in (0, 1)` is the score (Kull et al. 2017; 002 eq. 6.18 with our b for its -b). The identity is
    :math:`a = b = 1, c = 0`.

    Parameters
    ----------
    variant : {"abm", "am", "ab"}
        ``"abm"``: all three. ``"am"``: a = b, which is Platt scaling on the log-odds. ``"ab"``: the map passes through
        (1/2, 1/2), that is :math:`c = (a - b) \log 2`.
    soft_targets, limits : bool
        As in :class:`PlattScaling`.

    Notes
    -----
    Guarantee: no finite-sample guarantee; none is possible without assumptions on the distribution (002 Theorem 3.3).
    Cost: one pass to tally, then O(cells) per Newton step.

    Examples
    --------
    >>> scores, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.9], [0, 1, 0, 0, 1, 1]
    >>> BetaScaling("ab").fit(scores, y).transform([0.5]).round(3).tolist()
    [0.5]
    """

    def __init__(
        self, variant: Literal["abm", "am", "ab"] = "abm", *, soft_targets: bool = False, limits: bool = False
    ) -> None:
        self.variant = variant
        self.soft_targets = soft_targets
        self.limits = limits

    @property
    def increasing(self) -> bool:
        """A beta map with a, b >= 0 never falls."""
        return True

    def _fit_map(self, tally: Tally) -> Map:
        how = Scaling(self.soft_targets, self.increasing, self.limits)
        fitted, notes = fit_beta(tally, how, self.variant)
        self.notes_ = (*self.notes_, *notes)
        return fitted

    def _describe(self) -> str:
        inner = cast(BetaMap, _unlimited(self.map_))
        return f"a {inner.a:.4g}, b {inner.b:.4g}, c {inner.c:.4g}"


def _unlimited(fitted: Map) -> Map:
    return fitted.maps[0] if isinstance(fitted, ComposeMap) else fitted
