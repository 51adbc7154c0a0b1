"""Isotonic regression: steps, a continuous curve through their centers, or bins filled by other rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import ClassVar, cast

import numpy as np

from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.bins import counted, parted
from calibrant.fits.isotonic import block_edges, fit_centered, fit_curve, fit_steps
from calibrant.fits.needs import STEP_ROWS
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.no_certificate import IMPOSSIBLE, NoCertificate, NoCertificateCode
from calibrant.guarantees.origins import FIXED_BINS, Assumption, BinRule
from calibrant.guarantees.seeds import seed_refusal
from calibrant.maps import Map, PiecewiseLinearMap, StepMap
from calibrant.messages import InputError, Voice
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class IsotonicCalibrator(BinaryCalibrator):
    r"""Isotonic regression: the non-decreasing map of lowest squared error and log loss on the fitted rows.

    The pool-adjacent-violators algorithm splits the scores into blocks with increasing event rates. With ``step=True``
    the map is the right-continuous step function of Gupta (2023), eq. 1.10 (below the smallest score, the value of the
    first block). By default it is continuous and strictly increasing, so that it creates no ties and keeps the ranking:

    - between neighboring blocks of :math:`n_j` and :math:`n_{j+1}` rows the map is a straight line over the last h rows
      of one and the first h rows of the other, :math:`h = \min(n_j, n_{j+1}) / 2`. So the gain of one block is the loss
      of the other, and a block of many rows keeps its value next to a block of few;
    - the rest of a block is a plateau at its value, tilted by a thousandth of the smaller adjacent step;
    - outside the data the map continues to the ends of [0, 1], up to one standard error of the end block's value
      further out, at most half way to 0 or 1. For real scores it is constant there.

    Both variants add one pseudo-row of half an event to the lowest and the highest block and pool again
    (``shrink_ends``), so no output is 0 or 1: a block of n rows without an event gets 0.5 / (n + 1).

    Parameters
    ----------
    centered : bool
        One knot per block instead, at the mean score of its rows, with straight lines between them and constant values
        beyond the first and the last (centered isotonic regression, Oron and Flournoy 2017).
    step : bool
        Keep the steps. The Brier score on the fitted rows is then the lowest possible for a non-decreasing map. In a
        simulation with 2,000 rows and a smooth true map, the continuous curve was about 1 % worse there and 0.1 %
        better on new rows (``tests/unit/test_isotonic.py``).
    shrink_ends : bool
        Keep outputs away from 0 and 1.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the same labels choose the steps and fill them.
    Cost: one sort, then linear; ``scipy.optimize.isotonic_regression`` does the pooling.
    Reference: Zadrozny and Elkan (2002); Gupta (2023), eq. 1.10.

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
    centered: bool = False
    shrink_ends: bool = True

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        if self.step and self.centered:
            raise InputError(
                "centered", "cannot be combined with step, because steps have no knots to center", "pass one of them"
            )
        fit = fit_steps if self.step else fit_centered if self.centered else fit_curve
        return Fit(fit(tally, shrink_ends=self.shrink_ends))

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if not self.step:
            return IMPOSSIBLE
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            "isotonic regression uses the same labels to choose its steps and to fill them, which no theorem here "
            "covers: use IsotonicBinning or HistogramBinning if you need a certificate",
        )

    def _describe(self, voice: Voice) -> str:
        values = cast(StepMap | PiecewiseLinearMap, self.map_).values
        shape = "steps" if self.step else "centered knots" if self.centered else "knots, strictly increasing"
        return f"{len(values)} {shape}, values from {values[0]:.4g} to {values[-1]:.4g}"


ROWS_BY_ROOT = 3.0
"""Minimum rows of a bin, in square roots of the rows that define it: about half a default histogram bin."""


@dataclass(eq=False, repr=False)
class IsotonicBinning(BinaryCalibrator):
    r"""Binning whose edges come from isotonic regression on one split and whose outputs from the other rows.

    A random split of the rows is pooled by isotonic regression; blocks of fewer than ``min_rows`` of its rows are
    merged with the next. The other rows give every bin its output,

    .. math:: m(s) = \hat\pi_b \quad\text{for } s \text{ in bin } b,\qquad
              \hat\pi_b = \frac{\text{events in } b}{\text{rows in } b},

    so bins are narrow where the rate changes and wide where it does not, and do not depend on the rows that fill them.
    The output of a bin with no event, or only events, is (k + 1) / (n + 2); that of a bin without rows is the pooled
    rate of its nearest neighbors with rows.

    Parameters
    ----------
    min_rows : int, optional
        Minimum rows of the split in each bin; by default 3 times the square root of the rows of the split, about half
        of a default bin of :class:`HistogramBinning`.
    split_size : int or float
        Rows, or share of the rows, that define the bins. Rows with importance weights are not split: all of them define
        and fill the bins, and there is no certificate.
    random_state : int, optional
        Seed of the draw; by default a new draw at every fit. The confidence level of a certificate averages over the
        draw, so the seed must not be picked by its result. With few distinct scores, a seeded fit has no certificate
        (:mod:`calibrant.guarantees.seeds`).

    Attributes
    ----------
    bins_ : Bins
        Edges, outputs, rows and events by bin.

    Notes
    -----
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties included: the bins do not
    depend on the rows that fill them. Outputs may decrease from one bin to the next: pooling such bins again would void
    the guarantee.
    Cost: one sort and one draw on the counts, then linear.
    Reference: Gupta (2023), section 3.4.1.

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
    split_size: float = 0.5
    random_state: int | None = None

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        part, rest = parted(tally, self.split_size, self.random_state)
        edges = block_edges(part, self._least(part))
        refusal = seed_refusal(tally, self.random_state)
        made = counted(rest, edges, BinRule.PART_BLOCKS, FIXED_BINS, Assumption.ONE_DRAW, refusal=refusal)
        bins = replace(made, part_rows=int(part.total))
        return Fit(bins.to_map(), found={"bins_": bins})

    def _least(self, part: Tally) -> float:
        if self.min_rows is None:
            return ROWS_BY_ROOT * float(np.sqrt(part.total))
        if isinstance(self.min_rows, bool) or not isinstance(self.min_rows, Real) or not self.min_rows >= 1:
            raise InputError("min_rows", f"must be a number of rows, at least 1, got {self.min_rows!r}")
        return float(self.min_rows)

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return issue(self.bins_, self.provenance_, alpha, interval, coverage)

    def _describe(self, voice: Voice) -> str:
        bins, outputs = self.bins_, self.bins_.outputs
        return f"{len(bins.n)} bins from {bins.origin}, outputs from {outputs.min():.4g} to {outputs.max():.4g}"
