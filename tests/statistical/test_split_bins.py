"""Bins chosen by a part of the rows and filled by the rest: their certificates hold as often as they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binomtest

from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.binary.isotonic import IsotonicBinning
from calibrant.calibrators.binary.two_stage import ScalingBinning
from calibrant.guarantees.certificate import Certificate
from calibrant.numerics import Floats

pytestmark = pytest.mark.statistical

SCORES = np.arange(101) / 100
RATES = SCORES**2
ALPHA = 0.2


def rows(seed: int, n: int = 300) -> tuple[Floats, Floats]:
    """Rows of a world of 101 equally likely scores."""
    rng = np.random.default_rng([71, seed])
    scores = SCORES[rng.integers(0, 101, n)]
    return scores, (rng.random(n) < scores**2).astype(np.float64)


def true_rates(knots: Floats) -> Floats:
    index = np.searchsorted(knots, SCORES, side="right")
    mass = np.bincount(index, minlength=len(knots) + 1)
    return np.asarray(np.bincount(index, RATES, len(knots) + 1) / np.maximum(mass, 1))


def times_broken(make: Callable[[], BinaryCalibrator], runs: int, share: float = 1.0) -> int:
    """How often a bin's true rate is further from its output than ``share`` of what was promised."""
    broken = 0
    for seed in range(runs):
        promise = make().fit(*rows(seed)).certificate(alpha=ALPHA)
        assert isinstance(promise, Certificate)
        off = np.abs(true_rates(promise.about.knots) - promise.outputs) > share * promise.half_widths + 1e-12
        broken += bool(off[promise.covered].any())
    return broken


FORMS: dict[str, Callable[[], BinaryCalibrator]] = {
    "scaled, then binned": lambda: ScalingBinning(4, outcomes=True),
    "isotonic blocks": IsotonicBinning,
    "small isotonic blocks": lambda: IsotonicBinning(10, split_size=0.3),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_certificate_is_broken_at_most_as_often_as_alpha(form: str, full_size: bool) -> None:
    runs = 3000 if full_size else 150
    assert binomtest(times_broken(FORMS[form], runs), runs, ALPHA, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_less_than_half_of_what_is_promised_would_be_broken_more_often(form: str) -> None:
    """The check above can fail."""
    assert binomtest(times_broken(FORMS[form], 150, 0.4), 150, ALPHA, alternative="greater").pvalue < 1e-3
