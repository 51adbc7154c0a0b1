"""Labels that are not there yet, by simulation: the bias of the naive rate, that weights remove it, and drift."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import late_labels
from scipy import stats

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVEL = 1e-3


def test_weights_remove_the_bias_that_theory_states(full_size: bool) -> None:
    found = late_labels.bias(200 if full_size else 12, seed=11)
    assert stats.ttest_1samp(found.naive - found.theory, 0.0).pvalue > LEVEL
    assert found.theory.mean() == pytest.approx(0.5, abs=0.01)
    assert stats.ttest_1samp(found.weighted, 1.0).pvalue > LEVEL
    assert stats.ttest_1samp(found.naive, 1.0).pvalue < LEVEL, "the naive rate is biased, so the test could have failed"


def test_the_bias_under_drift_is_within_its_bound(full_size: bool) -> None:
    found = late_labels.bias(200 if full_size else 12, drift=0.05, seed=12)
    assert stats.ttest_1samp(found.weighted, 1.0, alternative="less").pvalue < LEVEL, "drift does harm"
    for gap, side in ((found.weighted - found.low, "less"), (found.weighted - found.high, "greater")):
        assert stats.ttest_1samp(gap, 0.0, alternative=side).pvalue > LEVEL


def test_the_two_accidents_do_not_happen_with_the_ledger() -> None:
    found = late_labels.accidents()
    assert found["clicks at once"] > 20.0
    assert found["each click twice"] > 1.5
    assert found["ledger, clicks at once"] == pytest.approx(1.0, abs=0.05)
    assert found["ledger, each click twice"] == found["ledger, clicks at once"]
    assert not np.isnan(list(found.values())).any()
