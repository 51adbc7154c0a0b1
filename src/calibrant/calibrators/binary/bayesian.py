"""Bayesian binning into quantiles (BBQ)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.bayesian_binning import fit_averaged
from calibrant.fits.needs import STEP_ROWS
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import Map, StepMap
from calibrant.messages import Advice, InputError, Phrase, Voice
from calibrant.numerics import Floats
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class BayesianBinning(BinaryCalibrator):
    r"""Bayesian average of equal-mass binnings with many numbers of bins (BBQ).

    .. math:: m(s) = \frac{\sum_M L_M\, \theta_M(s)}{\sum_M L_M}, \qquad
              \theta_M(s) = \frac{e_b + \alpha_b}{n_b + N'/B}, \qquad
              L_M = \prod_{b=1}^{B}
              \frac{\mathrm{B}(e_b + \alpha_b,\ n_b - e_b + \beta_b)}{\mathrm{B}(\alpha_b, \beta_b)},

    over the binnings M of B bins of equal mass, :math:`n^{1/3}/C \le B \le C\,n^{1/3}`, with :math:`n_b` rows and
    :math:`e_b` events in the bin b that contains s. The prior of a bin's rate is the beta distribution with parameters
    :math:`\alpha_b = (N'/B)\,c_b` and :math:`\beta_b = (N'/B)(1 - c_b)`, where :math:`c_b` is the middle of the bin on
    [0, 1] and N' the number of rows that the priors of all bins together count for; :math:`\mathrm{B}` is the beta
    function. All binnings have the same prior probability.

    Bins end between scores (grid cells). Where ties make two binnings equal, they count once. Binnings with together a
    millionth of the posterior are left out of the map. No output is 0 or 1.

    Parameters
    ----------
    spread : float
        C, largest ratio between the number of bins and the cube root of the rows, either way; at least 1.
    prior_rows : float
        N', above 0.

    Attributes
    ----------
    n_bins_, weights_ : ndarray
        Numbers of bins of the binnings, and their posterior weights.

    Notes
    -----
    Guarantee: no finite-sample guarantee; the same labels fill the bins and weight the binnings. The outputs may
    decrease as the score increases.
    Cost: one sort, then for each number of bins O(bins log cells); a million rows have 991 of them, up to 1,000 bins.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), section "BBQ"; Gupta (2023), section 1.2.2.

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

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            Phrase(
                "Bayesian binning uses the same labels to weight its binnings and to fill their bins, which no theorem "
                "here covers: {use}",
                use=Advice.USE_BINNING,
            ),
        )

    def _describe(self, voice: Voice) -> str:
        best = int(np.argmax(self.weights_))
        values = cast(StepMap, self.map_).values
        share = f"{100 * self.weights_[best]:.3g} % of the posterior"
        return (
            f"{len(self.weights_)} binnings, the most probable with {self.n_bins_[best]} bins ({share}); "
            f"values from {values.min():.4g} to {values.max():.4g}"
        )


def _check_number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InputError(name, f"must be a number from {low:g} to {high:g}, got {value!r}")
