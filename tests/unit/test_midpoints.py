"""Outputs in the middle of their intervals (Gupta 2023, eq. 3.14)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calibrant as cb
from calibrant.guarantees.midpoints import midpoint_map
from calibrant.messages import InputError

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def test_by_hand() -> None:
    """No event in 100 rows of one bin: the interval is 0 to 1 - 0.05^(1/100) = 0.0295, its middle 0.0148."""
    cal = cb.HistogramBinning(1, strategy="width").fit([0.2] * 100, [0] * 100)
    fitted, certificate = midpoint_map(cal.certificate(0.1))
    top = 1.0 - 0.05 ** (1 / 100)
    assert fitted.apply([0.2]) == pytest.approx([top / 2])
    assert certificate.epsilon == pytest.approx(top / 2)
    assert certificate.describes(fitted)


@pytest.mark.parametrize("coverage", ["simultaneous", "marginal"])
@pytest.mark.parametrize("strategy", ["mass", "width"])
def test_epsilon_never_grows_and_documents_hold(coverage: str, strategy: str, tmp_path) -> None:
    rng = np.random.default_rng(1)
    s = np.append(rng.beta(1, 9, 900), np.repeat(0.03, 100))  # an atom
    cal = cb.HistogramBinning(5, strategy=strategy).fit(s, rng.random(1000) < s)
    old = cal.certificate(coverage=coverage)
    fitted, new = midpoint_map(old)
    covered = old.covered
    assert new.epsilon <= old.epsilon
    assert new.half_widths[covered] == pytest.approx((old.upper - old.lower)[covered] / 2)
    calibration = cb.Calibration(fitted, cal.provenance_, new)
    calibration.save(tmp_path / "map.json")
    assert cb.load(tmp_path / "map.json").certificate.epsilon == new.epsilon


def test_the_moved_outputs_are_within_epsilon_as_often_as_stated() -> None:
    rng, held = np.random.default_rng(2), 0
    rates = np.array([0.01, 0.04, 0.3])
    for _ in range(300):
        bins = rng.integers(0, 3, 240)
        cal = cb.HistogramBinning(3, strategy="width").fit((bins + 0.5) / 3, rng.random(240) < rates[bins])
        fitted, certificate = midpoint_map(cal.certificate(0.2))
        held += bool((np.abs(fitted.apply((np.arange(3) + 0.5) / 3) - rates) <= certificate.epsilon).all())
    assert stats.binomtest(held, 300, 0.8, alternative="less").pvalue > 1e-3


def test_what_has_no_intervals_is_refused() -> None:
    with pytest.raises(InputError, match="certificate is missing"):
        cb.PlattScaling().fit([0.1, 0.4, 0.6, 0.8], [0, 1, 0, 1]).calibration_.midpoints()
    p = np.repeat([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]], 60, axis=0)
    certificate = cb.multiclass.TopLabelHistogramBinning().fit(p, np.repeat([0, 1, 2], 60)).certificate()
    with pytest.raises(InputError, match="bins of one score"):
        midpoint_map(certificate)
