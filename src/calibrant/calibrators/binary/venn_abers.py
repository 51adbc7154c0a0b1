"""Inductive Venn-Abers prediction: two probabilities for every score, and a point prediction between them."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.calibration import Calibration
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.fits.needs import STEP_ROWS
from calibrant.fits.venn_abers import fit_venn
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.maps import Map, StepMap
from calibrant.messages import Advice, Phrase, Voice
from calibrant.tallies import Tally


class VennAbers(BinaryCalibrator):
    r"""Venn-Abers: isotonic regression refitted with the new row, once as a negative and once as an event.

    .. math:: m(s) = \frac{p_1(s)}{1 - p_0(s) + p_1(s)},

    where :math:`p_y(s)` is the value at s of the isotonic regression of the calibration rows and one more row
    :math:`(s, y)`. Both are non-decreasing step functions of s, and :math:`p_0 \le p_1`. The point prediction m is the
    one that Vovk, Petej and Fedorova (2015, section 4) derive for the log loss.

    Scores below all calibration scores have :math:`p_0 = 0`, scores above them :math:`p_1 = 1`. The point prediction is
    never 0 or 1: with n rows it lies in :math:`[1/(n + 2), (n + 1)/(n + 2)]`. On a grid, all scores of a cell count as
    tied. With importance weights, the new row has the weight of one effective row.

    Attributes
    ----------
    p0_, p1_ : StepMap
        The two probabilities as functions of the score; ``interval`` applies them. ``save`` stores only the point
        prediction ``map_``, because a document contains one map; ``Calibration(cal.p0_, cal.provenance_).save(path)``
        stores either of the two.

    Notes
    -----
    Guarantee: for independent rows (exchangeable rows suffice), the probability :math:`p_Y` that belongs to the new
    row's own label is perfectly calibrated, and the mean label of new rows lies, in expectation, between the means of
    :math:`p_0` and :math:`p_1` (oracle calibration and calibration in the large; Gupta 2023, section 3.E). The label is
    not known beforehand, so this says nothing about either probability alone, nor about the point prediction. No
    certificate is issued. The pair is not a confidence interval for the event rate: its width is about 1/n, and n rows
    cannot locate the rate that precisely.
    For a model that is refitted per fold see :class:`CrossVennAbers`.
    Cost: one sort, then O(cells log blocks); scores are looked up.

    References
    ----------
    Vovk and Petej (2014), theorems 1 and 2; Vovk, Petej and Fedorova (2015), section 2; Gupta (2023), section 3.E.

    Examples
    --------
    >>> cal = VennAbers().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> p0, p1 = cal.interval([0.25, 0.4])
    >>> p0.round(3).tolist(), p1.round(3).tolist()
    ([0.333, 0.5], [0.667, 1.0])
    >>> cal.transform([0.25, 0.4]).round(3).tolist()
    [0.5, 0.667]
    """

    _needed_minority: ClassVar[int] = STEP_ROWS
    p0_: StepMap
    p1_: StepMap

    def _fit_map(self, tally: Tally) -> Fit[Map]:
        fitted = fit_venn(tally)
        return Fit(fitted.point, found={"p0_": fitted.p0, "p1_": fitted.p1})

    def interval(self, scores: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two probabilities of each score, ``p0`` and ``p1``; the notes of the class state their guarantee."""
        check_is_fitted(self, "map_")
        p0, p1 = (Calibration(step, self.provenance_, None).transform(scores) for step in (self.p0_, self.p1_))
        return p0, p1

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            Phrase(
                "one of the two Venn-Abers probabilities is calibrated, but which one depends on the unknown label, "
                "and nothing is known about the point prediction between them (Gupta 2023, section 3.E): {use}",
                use=Advice.USE_BINNING,
            ),
        )

    def _describe(self, voice: Voice) -> str:
        values = cast(StepMap, self.map_).values
        return f"{len(values)} steps, values from {values[0]:.4g} to {values[-1]:.4g}"
