"""Platt scaling by least squares, against a search on a grid."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.messages import InputError
from calibrant.numerics import expit, logit

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def brier(p: np.ndarray, y: np.ndarray) -> float:
    return float(((p - y) ** 2).mean())


def test_two_scores_get_their_rates() -> None:
    """With two scores the curve attains both rates, whatever the loss."""
    scores, y = [0.2] * 4 + [0.7] * 4, [0, 0, 0, 1, 1, 1, 1, 0]
    cal = cb.PlattScaling(loss="square").fit(scores, y)
    assert cal.transform([0.2, 0.7]) == pytest.approx([0.25, 0.75], abs=1e-6)


def test_no_curve_of_a_grid_has_a_lower_brier_score(subtests: pytest.Subtests) -> None:
    for seed in range(4):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            s = rng.random(300)
            y = (rng.random(300) < 0.1 + 0.6 * (s > 0.6)).astype(int)  # far from a logistic curve
            square, log = (cb.PlattScaling(loss=loss).fit(s, y).transform(s) for loss in ("square", "log"))
            found = brier(square, y)
            assert found <= brier(log, y) + 1e-12
            x = logit(s)
            for a in np.linspace(0.0, 20.0, 81):
                for b in np.linspace(-15.0, 10.0, 51):
                    assert found <= brier(expit(a * x + b), y) + 1e-9


def test_where_a_step_is_best_soft_targets_keep_the_curve_finite() -> None:
    s = np.append(np.linspace(0.01, 0.4, 50), np.linspace(0.6, 0.99, 50))
    y = (s > 0.5).astype(int)
    y[3] = 1
    cal = cb.PlattScaling(loss="square").fit(s, y)
    assert "soft-targets-for-a-step" in {note.code for note in cal.notes_}
    p = cal.transform(s)
    assert 0.0 < p.min() < p.max() < 1.0


def test_weights_are_repetition_and_an_inverted_score_is_a_constant() -> None:
    rng = np.random.default_rng(9)
    s = rng.random(80)
    y = (rng.random(80) < s**2).astype(int)
    times = rng.integers(1, 4, 80)
    one = cb.PlattScaling(loss="square").fit(s, y, times, weight_type="frequency").transform(s)
    other = cb.PlattScaling(loss="square").fit(np.repeat(s, times), np.repeat(y, times)).transform(s)
    assert one == pytest.approx(other, abs=1e-7)
    flat = cb.PlattScaling(loss="square").fit(s, 1 - y).transform(s)
    assert np.ptp(flat) < 1e-6


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InputError, match="loss"):
        cb.PlattScaling(loss="hinge").fit([0.2, 0.7], [0, 1])
