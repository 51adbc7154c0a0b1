"""Bayesian binning into quantiles (BBQ)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.base import BinaryCalibrator, Fit
from calibrant.fits.bayesian_binning import fit_averaged
from calibrant.fits.needs import STEP_ROWS
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.refusal import Refusal, RefusalCode
from calibrant.maps import Map, StepMap
from calibrant.messages import Advice, InputError, Phrase, Voice
from calibrant.numerics import Floats
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class BayesianBinning(BinaryCalibrator):
    r"""Average equal-mass binnings of many sizes, each weighted by how well it explains the labels.

    .. math:: m(s) = \frac{\sum_M L_M\, \theta_M(s)}{\sum_M L_M}, \qquad
              \theta_M(s) = \frac{e_b + \alpha_b}{n_b + N'/B}, \qquad
              L_M = \prod_{b=1}^{B}
              \frac{\mathrm{B}(e_b + \alpha_b,\ n_b - e_b + \beta_b)}{\mathrm{B}(\alpha_b, \beta_b)},

    over the binnings M of B bins of equal mass, :math:`n^{1/3}/C \le B \le C\,n^{1/3}`, with :math:`n_b` rows and
    :math:`e_b` events in the bin b that holds s. The prior of a bin's rate is the Beta law of
    :math:`\alpha_b = (N'/B)\,c_b` and :math:`\beta_b = (N'/B)(1 - c_b)`, where :math:`c_b` is the middle of the bin on
    [0, 1] and N' the number of rows that the prior of all bins together is worth; :math:`\mathrm{B}` is the beta
    function. All binnings are equally likely beforehand.

    Bins end between scores (grid cells). Where heaps make binnings of two sizes the same, they count once. Binnings
    that together hold a millionth of the posterior are left out of the map. No output is 0 or 1.

    Parameters
    ----------
    spread : float
        C, how far from the cube root of the rows the number of bins may go, at least 1.
    prior_rows : float
        N', above 0.

    Attributes
    ----------
    n_bins_, weights_ : ndarray
        Sizes of the binnings and their posterior weights.

    Notes
    -----
    Guarantee: no finite-sample guarantee; labels weigh the binnings that they fill. The outputs may fall as the score
    rises.
    Cost: one sort, then for each size O(bins log cells); a million rows have 991 sizes of up to 1,000 bins.

    References
    ----------
    Naeini, Cooper and Hauskrecht 2015, section "BBQ"; 002 section 1.2.2.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.random(2000)
    >>> cal = BayesianBinning().fit(scores, rng.random(2000) < scores**2)
    >>> cal.transform([0.15, 0.5, 0.95]).round(3).tolist()
    [0.048, 0.215, 0.864]
    """

    _monotone: ClassVar[bool] = False
    _needed_minority: ClassVar[int] = STEP_ROWS
    n_bins_: NDArray[np.intp] = field(init=False)
    weights_: Floats = field(init=False)

    spread: float = 10.0
    _: KW_ONLY
    prior_rows: float = 2.0

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        _check_number("spread", self.spread, 1.0, 1e6)
        _check_number("prior_rows", self.prior_rows, 1e-9, 1e9)
        fitted = fit_averaged(tally, float(self.spread), float(self.prior_rows))
        return Fit(fitted.map, found={"n_bins_": fitted.counts, "weights_": fitted.weights})

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        return Refusal(
            RefusalCode.NO_THEOREM,
            Phrase(
                "Bayesian binning weighs its bins with the labels that fill them, which no theorem here covers: {use}",
                use=Advice.USE_BINNING,
            ),
        )

    def _describe(self, voice: Voice) -> str:
        best = int(np.argmax(self.weights_))
        values = cast(StepMap, self.map_).values
        return (
            f"{len(self.weights_)} binnings, the likeliest of {self.n_bins_[best]} bins with "
            f"{100 * self.weights_[best]:.3g} % of the posterior; values from {values.min():.4g} to {values.max():.4g}"
        )


def _check_number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InputError(name, f"must be a number from {low:g} to {high:g}, got {value!r}")
