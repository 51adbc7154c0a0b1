"""Methods between scaling and binning: a scaling map cut into bins, and scores shifted bin by bin."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, cast

import numpy as np
from sklearn.base import clone

from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.fits.bins import check_bins, counted, equal_masses, parted, pulled_back, scaled_means
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import Bins, issue
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.origins import FIXED_BINS, Assumption, BinRule
from calibrant.guarantees.seeds import seed_refusal
from calibrant.maps import Map, PiecewiseLinearMap, StepMap
from calibrant.messages import InputError, Voice
from calibrant.numerics import CLAMP, Floats
from calibrant.tallies import Tally

DEFAULT_SPLIT = 0.5
"""Share of the rows that fit the scaling map with ``outcomes=True``."""

ROUNDING_TOLERANCE = 1e-12
"""Largest decrease of a non-decreasing map that is due to the rounding of log and exp."""


@dataclass(eq=False, repr=False)
class ScalingBinning(BinaryCalibrator):
    r"""Fit a scaling map, cut its outputs into bins, and output one value for each bin.

    By default the value is the mean of the scaled scores in the bin (Kumar, Liang and Ma 2019),

    .. math:: m(s) = \frac{1}{n_b} \sum_{i \in b} g(s_i) \quad\text{for } s \text{ in bin } b,

    with g the scaling map, and bins of equal mass in g(s), which are bins of equal mass in s because g never decreases.
    With ``outcomes=True`` it is the event rate of the bin, and bins have equal width in g(s): with equal masses, a
    monotone g would not change the bins, and the method would be :class:`HistogramBinning`.

    Bins end between scores (grid cells); ties reduce their number. With outcomes, the output of a bin with no event, or
    only events, is (k + 1) / (n + 2); that of a bin without rows is the pooled rate of its nearest neighbors with rows.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    scaling : calibrator, optional
        Any calibrator whose map never decreases; :class:`PlattScaling` by default.
    outcomes : bool
        Average labels instead of scaled scores.
    split_size : int or float, optional
        Rows, or share of the rows, drawn at random to fit g; the others fill the bins. By default all rows do both
        (double dipping; Gupta 2023, section 4.4), or one half each with ``outcomes=True``. Rows with importance weights
        are not split: all of them do both, and there is no certificate.
    random_state : int, optional
        Seed of that draw; by default a new draw at every fit. The confidence level of a certificate averages over the
        draw, so the seed must not be picked by its result. With few distinct scores, a seeded fit has no certificate
        (:mod:`calibrant.guarantees.seeds`).

    Attributes
    ----------
    scaling_ : calibrator
        The fitted scaling map.
    bins_ : Bins or None
        Edges, outputs, rows and events by bin, with ``outcomes=True``.

    Notes
    -----
    Guarantee: without outcomes, no finite-sample guarantee; the values are at best as good as g, and for some
    distributions every g of a family is wrong. With outcomes, ``certificate(alpha)`` holds for every distribution of
    independent rows: the bins are fixed by other rows.
    Cost: that of the scaling map, then O(cells).
    Reference: Kumar, Liang and Ma (2019), Theorem 4.1; Gupta (2023), sections 3.4.1 and 4.1.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.random(2000)
    >>> y = rng.random(2000) < scores**2
    >>> ScalingBinning(5).fit(scores, y).transform([0.05, 0.5, 0.95]).round(3).tolist()
    [0.02, 0.222, 0.818]
    >>> cal = ScalingBinning(5, outcomes=True, random_state=0).fit(scores, y)
    >>> print(str(cal.certificate(alpha=0.1)).splitlines()[0])
    With confidence 90 %, in each of the 5 bins the true event rate differs from the calibrated probability by at most
    0.121.
    """

    _monotone: ClassVar[bool] = False
    scaling_: BinaryCalibrator = field(init=False)
    bins_: Bins | None = field(init=False)

    n_bins: int = 10
    _: KW_ONLY
    scaling: BinaryCalibrator | None = None
    outcomes: bool = False
    split_size: float | None = None
    random_state: int | None = None

    def _check(self) -> None:
        check_bins(self.n_bins)
        if self.scaling is not None:
            check_calibrator(self.scaling, "scaling")

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        size = DEFAULT_SPLIT if self.outcomes and self.split_size is None else self.split_size
        part, rest = (tally, tally) if size is None else parted(tally, size, self.random_state)
        scaling: BinaryCalibrator = clone(PlattScaling() if self.scaling is None else self.scaling).fit_tally(part)
        _refuse_falling(scaling, tally)
        bins = self._by_outcome(scaling.map_, rest, seed_refusal(tally, self.random_state)) if self.outcomes else None
        fitted = scaled_means(scaling.map_, rest, self.n_bins) if bins is None else bins.to_map()
        return Fit(fitted, scaling.notes_, {"scaling_": scaling, "bins_": bins})

    def _by_outcome(self, scaling: Map, tally: Tally, refusal: NoCertificate | None) -> Bins:
        edges = pulled_back(scaling, np.arange(1, self.n_bins) / self.n_bins, tally)
        return counted(tally, edges, BinRule.SCALED_WIDTHS, FIXED_BINS, Assumption.ONE_DRAW, refusal=refusal)

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        if self.bins_ is not None:
            return issue(self.bins_, self.provenance_, alpha, interval, coverage)
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            "means of scaled scores are no better than the scaling map, for which no distribution-free guarantee is "
            "possible (Gupta 2023, section 4.1): use outcomes=True or HistogramBinning",
        )

    def _describe(self, voice: Voice) -> str:
        values = cast(StepMap, self.map_).values
        what = "event rates" if self.outcomes else "means of scaled scores"
        return f"{len(values)} steps, {what} from {values.min():.4g} to {values.max():.4g}; scaling: {self.scaling_!r}"


@dataclass(eq=False, repr=False)
class BinwiseShift(BinaryCalibrator):
    r"""Correct every score by the calibration error of its bin.

    .. math:: m(s) = s + \hat\pi_b - \bar s_b \quad\text{for } s \text{ in bin } b,

    where :math:`\hat\pi_b` is the event rate and :math:`\bar s_b` the mean score of the rows in bin b, one of B bins of
    equal mass: within a bin the error is assumed constant, not the rate (Valk and Kull 2023). Outputs are clipped to
    :math:`[1/(n + 2),\ 1 - 1/(n + 2)]`, with n the effective sample size. The scores must be probabilities.

    Bins end between scores (grid cells); ties reduce their number. The map jumps from one bin to the next: it is
    piecewise linear with two knots at neighboring doubles there, so that no score lies on a jump.

    Parameters
    ----------
    n_bins : int
        Number of bins B.

    Attributes
    ----------
    shifts_ : ndarray
        Correction added in each bin.

    Notes
    -----
    Guarantee: no finite-sample guarantee; nearly every score has a different output (Gupta 2023, Theorem 3.3). The
    outputs may decrease where the map jumps.
    Cost: one sort, then O(cells).

    References
    ----------
    Valk and Kull (2023); Gupta (2023), section 1.2.2.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.random(2000)
    >>> cal = BinwiseShift(5).fit(scores, rng.random(2000) < scores**2)
    >>> cal.transform([0.5, 0.55, 0.95]).round(3).tolist()
    [0.228, 0.278, 0.859]
    """

    _monotone: ClassVar[bool] = False
    shifts_: Floats = field(init=False)

    n_bins: int = 10

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        check_bins(self.n_bins)
        if tally.score_type != "probability":
            raise InputError(
                "scores", f"must be probabilities, not {tally.score_type} scores", "use PlattScaling first"
            )
        starts = equal_masses(np.cumsum(tally.n), self.n_bins)
        n, events, sums = (
            np.add.reduceat(column, starts) for column in (tally.n, tally.events, tally.scores * tally.n)
        )
        shifts = np.asarray((events - sums) / n)
        least = 1.0 / (tally.effective_size + 2.0)
        fitted = _shifted(np.append(0.0, tally.lower_edges[starts[1:]]), shifts, max(least, CLAMP))
        return Fit(fitted, found={"shifts_": shifts})

    def _describe(self, voice: Voice) -> str:
        return f"{len(self.shifts_)} bins, shifts from {self.shifts_.min():.4g} to {self.shifts_.max():.4g}"


def _shifted(begins: Floats, shifts: Floats, least: float) -> PiecewiseLinearMap:
    """Each bin's line from its first to its last double, with a knot where it meets the smallest or largest output."""
    ends = np.append(np.nextafter(begins[1:], -1.0), 1.0)
    bends = (np.clip(level - shifts, begins, ends) for level in (least, 1.0 - least))
    knots = np.column_stack([begins, *bends, ends])
    values = np.clip(knots + shifts[:, np.newaxis], least, 1.0 - least).ravel()
    knots, first = np.unique(knots.ravel(), return_index=True)
    return PiecewiseLinearMap(knots, values[first])


def _refuse_falling(scaling: BinaryCalibrator, tally: Tally) -> None:
    if (np.diff(scaling.map_.apply(tally.scores)) < -ROUNDING_TOLERANCE).any():
        raise InputError(
            "scaling",
            f"must never decrease as the score increases, but {scaling!r} does on these rows",
            "use an increasing map",
        )
