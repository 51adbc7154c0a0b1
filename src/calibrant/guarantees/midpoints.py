"""Outputs in the middle of their intervals: the map with the smallest guaranteed error that a certificate supports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import Certificate, half_widths
from calibrant.maps import StepMap
from calibrant.messages import InputError


def midpoint_map(certificate: Certificate) -> tuple[StepMap, Certificate]:
    r"""The map whose outputs are the middles of the certificate's intervals, and its certificate.

    .. math:: \tilde m(s) = \frac{l_b + u_b}{2} \quad\text{for } s \text{ in bin } b, \qquad
              \tilde\epsilon = \max_b \frac{u_b - l_b}{2}

    where :math:`[l_b, u_b]` is the interval of bin b. Wherever the interval holds the true rate, the middle is within
    half its width of it, so the confidence, the bins and the assumptions stay the same, and epsilon never grows:
    intervals of rates near 0 and 1 are not symmetric about the observed rate.

    Parameters
    ----------
    certificate
        A certificate about bins of one score.

    Returns
    -------
    map, certificate
        The map and the certificate that describes it. Bins that are not covered keep their outputs; an edge between
        bins that has the output of the bin above it, keeps doing so.

    Notes
    -----
    Guarantee: that of the certificate, with the smaller epsilon. Outputs are drawn toward 1/2, so that their mean is
    not the event rate.
    Reference: Gupta (2023), eq. 3.14 and Theorem 3.1. The theorem takes the largest interval of all scores; here claims
    are about bins, so that bins with equal outputs are allowed.

    Examples
    --------
    >>> from calibrant import HistogramBinning
    >>> cal = HistogramBinning(2, strategy="width").fit([0.2] * 100 + [0.8] * 100, [1] * 2 + [0] * 98 + [0, 1] * 50)
    >>> old = cal.certificate()
    >>> fitted, new = midpoint_map(old)
    >>> fitted.apply([0.2, 0.8]).round(3).tolist(), round(old.epsilon, 3), round(new.epsilon, 3)
    ([0.036, 0.5], 0.102, 0.102)
    >>> bool(new.half_widths[0] < old.half_widths[0])
    True
    """
    about = certificate.about
    if not isinstance(about, ScoreBins):
        raise InputError(
            "certificate", f"is about {about.sense()}", "pass a certificate about bins of one score, such as that of "
            "HistogramBinning"
        )  # fmt: skip
    outputs = np.where(certificate.covered, (certificate.lower + certificate.upper) / 2.0, certificate.outputs)
    for place in np.flatnonzero(about.uncovered[:-1])[::-1]:
        if certificate.outputs[place] == certificate.outputs[place + 1]:
            outputs[place] = outputs[place + 1]
    epsilon = about.epsilon(half_widths(outputs, certificate.lower, certificate.upper), certificate.covered)
    return StepMap(about.knots, outputs).merged(), replace(certificate, outputs=outputs, epsilon=epsilon)
