"""Isotonic regression as a calibrator: steps, a continuous curve through their centres, or bins that others fill."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import ClassVar, cast

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, Fit
from calibrant.calibrators.binary.binning import FIXED_SOURCE
from calibrant.fits.bins import counted, parted
from calibrant.fits.isotonic import block_edges, fit_centred, fit_curve, fit_steps
from calibrant.fits.needs import STEP_ROWS
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.origins import Assumption, BinRule
from calibrant.guarantees.refusal import IMPOSSIBLE, Refusal, RefusalCode
from calibrant.guarantees.seeds import seed_refusal
from calibrant.maps import Map, PiecewiseLinearMap, StepMap
from calibrant.messages import InputError, Voice
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class IsotonicCalibrator(BinaryCalibrator):
    r"""The best non-decreasing fit to the labels, in squared error and in log loss alike.

    Pool-adjacent-violators splits the scores into blocks whose event rates rise. With ``step=True`` the map is the
    right-continuous step function of 002 eq. 1.10 (below the smallest score, the first block's value). By default it is
    continuous and strictly increasing, so that no ties are made and a ranking survives:

    - between neighbouring blocks of :math:`n_j` and :math:`n_{j+1}` rows the map rises in a straight line over the last
      h rows of one and the first h rows of the other, :math:`h = \min(n_j, n_{j+1}) / 2`, so what the one gains the
      other loses, and a block of many rows keeps its value beside a block of few;
    - the rest of a block is a plateau at its value, tilted by a thousandth of the smaller step beside it;
    - outside the data the map goes on to the ends of [0, 1], one standard error of the end block's value further out,
      at most half way to 0 or 1. Real scores stay constant there.

    Both variants count one pseudo-row of half an event into the lowest and the highest block and pool again
    (``shrink_ends``), so no output is 0 or 1: a block of n rows without an event gets 0.5 / (n + 1).

    Parameters
    ----------
    centred : bool
        One knot per block instead, at the mean score of its rows, with straight lines between them and constant values
        beyond the first and the last (centred isotonic regression, Oron and Flournoy 2017).
    step : bool
        Keep the steps. The Brier score on the fitted rows is then the least possible; the continuous curve costs about
        1 % there on 2,000 rows of a smooth truth, and gains 0.1 % on new ones (``tests/unit/test_isotonic.py``).
    shrink_ends : bool
        Keep outputs off 0 and 1.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the steps are chosen with the labels that fill them.
    Cost: one sort, then linear; ``scipy.optimize.isotonic_regression`` does the pooling.

    Examples
    --------
    >>> cal = IsotonicCalibrator(step=True, shrink_ends=False).fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> cal.transform([0.0, 0.25, 0.4]).tolist()
    [0.0, 0.5, 1.0]
    """

    _needed_minority: ClassVar[int] = STEP_ROWS
    _restores: ClassVar[bool] = True

    _: KW_ONLY
    step: bool = False
    centred: bool = False
    shrink_ends: bool = True

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        if self.step and self.centred:
            raise InputError(
                "centred", "cannot be combined with step, as steps have no knots to center", "pass one of them"
            )
        fit = fit_steps if self.step else fit_centred if self.centred else fit_curve
        return Fit(fit(tally, shrink_ends=self.shrink_ends))

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        if not self.step:
            return IMPOSSIBLE
        return Refusal(
            RefusalCode.NO_THEOREM,
            "isotonic regression chooses its steps with the labels that fill them, which no theorem here covers: "
            "use IsotonicBinning or HistogramBinning if you need a certificate",
        )

    def _describe(self, voice: Voice) -> str:
        values = cast(StepMap | PiecewiseLinearMap, self.map_).values
        shape = "steps" if self.step else "centred knots" if self.centred else "knots, strictly increasing"
        return f"{len(values)} {shape}, values from {values[0]:.4g} to {values[-1]:.4g}"


ROWS_BY_ROOT = 3.0
"""Least rows of a bin over the root of the rows that choose it: about half a default bin of histogram binning."""


@dataclass(eq=False, repr=False)
class IsotonicBinning(BinaryCalibrator):
    r"""Bins where the event rate of some rows rises, filled with the event rates of the others.

    A random part of the rows is pooled by isotonic regression; blocks of fewer than ``min_rows`` of its rows are joined
    to the next. The rest of the rows gives every bin its output,

    .. math:: m(s) = \hat\pi_b \quad\text{for } s \text{ in bin } b,\qquad
              \hat\pi_b = \frac{\text{events in } b}{\text{rows in } b},

    so bins are narrow where the rate changes and wide where it does not, and are still fixed before their rows are
    seen. A bin with no event, or nothing but events, puts out (k + 1) / (n + 2), and a bin without rows the
    rate of its neighbours with rows, pooled.

    Parameters
    ----------
    min_rows : int, optional
        Rows of the part that a bin holds at least; by default 3 times the root of the part's rows, about half of what
        a default bin of :class:`HistogramBinning` holds.
    part_size : int or float
        Rows, or share of the rows, that choose the bins. Importance weights are no rows to draw from: all of them then
        choose and fill the bins.
    random_state : int, optional
        Seed of the draw, fresh by default. The confidence of a certificate counts the draw, so it must not be picked by
        its result; with few distinct scores a seeded fit carries no certificate (:mod:`calibrant.guarantees.seeds`).

    Attributes
    ----------
    bins_ : Bins
        Edges, outputs, rows and events by bin.

    Notes
    -----
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties included: the bins owe
    nothing to the rows that fill them (002 section 3.4.1). Bins may come out in another order than the scores: pooling
    them again would void the promise.
    Cost: one sort and one draw on the counts, then linear.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.random(2000)
    >>> cal = IsotonicBinning(random_state=0).fit(scores, rng.random(2000) < scores**2)
    >>> cal.transform([0.05, 0.5, 0.95]).round(3).tolist()
    [0.007, 0.256, 0.963]
    >>> round(cal.certificate(alpha=0.1).epsilon, 3)
    0.125
    """

    _monotone: ClassVar[bool] = False
    bins_: Bins = field(init=False)

    min_rows: int | None = None
    _: KW_ONLY
    part_size: float = 0.5
    random_state: int | None = None

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        part, rest = parted(tally, self.part_size, self.random_state)
        edges = block_edges(part, self._least(part))
        refusal = seed_refusal(tally, self.random_state)
        made = counted(rest, edges, BinRule.PART_BLOCKS, FIXED_SOURCE, Assumption.ONE_DRAW, refusal=refusal)
        bins = replace(made, part_rows=int(part.total))
        return Fit(bins.to_map(), found={"bins_": bins})

    def _least(self, part: Tally) -> float:
        if self.min_rows is None:
            return ROWS_BY_ROOT * float(np.sqrt(part.total))
        if isinstance(self.min_rows, bool) or not isinstance(self.min_rows, Real) or not self.min_rows >= 1:
            raise InputError("min_rows", f"must be a number of rows, at least 1, got {self.min_rows!r}")
        return float(self.min_rows)

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        return issue(self.bins_, self.provenance_, alpha, bound, mode)

    def _describe(self, voice: Voice) -> str:
        bins, outputs = self.bins_, self.bins_.outputs
        return f"{len(bins.n)} bins from {bins.origin}, outputs from {outputs.min():.4g} to {outputs.max():.4g}"
