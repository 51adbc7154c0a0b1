"""Kernel calibration errors of whole rows, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.messages import InputError
from calibrant.metrics import dirichlet_error, skce
from calibrant.metrics.multiclass import kernel

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes whose probabilities are right."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 2.0, 1.0], n)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def by_definition(p: np.ndarray, y: np.ndarray, h: float) -> float:
    residuals, total = np.eye(p.shape[1])[y] - p, 0.0
    for i in range(len(p)):
        for j in range(len(p)):
            if i != j:
                total += residuals[i] @ residuals[j] * np.exp(-0.5 * np.abs(p[i] - p[j]).sum() / h)
    return total / (len(p) * (len(p) - 1))


def test_the_squared_kernel_error_is_its_definition() -> None:
    p, y = rows(40)
    for h in (0.05, 0.3):
        assert skce(p, y, bandwidth=h).value == pytest.approx(by_definition(p, y, h), abs=1e-15)


def test_by_hand() -> None:
    """Two rows (0.5, 0.5, 0) and (0.5, 0, 0.5) of classes 0 and 2: residuals (0.5, -0.5, 0), (-0.5, 0, 0.5)."""
    found = skce([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], [0, 2], classes=range(3), bandwidth=0.5)
    assert found.value == pytest.approx(-0.25 * np.exp(-1.0))


def test_integer_weights_are_repetition_and_others_are_not() -> None:
    p, y = rows(12)
    times = np.arange(12) % 3 + 1
    repeated = skce(np.repeat(p, times, axis=0), np.repeat(y, times)).value
    assert skce(p, y, sample_weight=times).value == pytest.approx(repeated, abs=1e-15)
    assert skce(p, y, sample_weight=np.full(12, 0.5)).value == pytest.approx(skce(p, y).value, abs=1e-15)


def test_blocks_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = rows(300)
    whole = skce(p, y)
    monkeypatch.setattr(kernel, "MAX_PRODUCTS", 3 * kernel.DRAWS * 50**2)
    parts = skce(p, y)
    assert {note.code for note in parts.notes} == {"rows-in-blocks"}
    assert abs(parts.value - whole.value) < 4.0 * parts.se
    assert parts.null_high > whole.null_high, "fewer pairs say less"


def test_the_null_values_hold() -> None:
    """Of calibrated models 5 % exceed ``null_high``; the variance is exact given the scores."""
    found = [skce(*rows(60, seed)) for seed in range(200)]
    above = sum(each.value > each.null_high for each in found)
    assert stats.binomtest(above, 200, 0.05).pvalue > 1e-3
    p, y = rows(60)
    block = kernel._Block(p, np.eye(3)[y] - p, np.ones(60), True, 0.1)
    drawn = np.concatenate([block.null_draws(np.random.default_rng(seed)) for seed in range(20)])
    assert drawn.mean() == pytest.approx(0.0, abs=4.0 * drawn.std() / np.sqrt(len(drawn)))
    assert drawn.std() == pytest.approx(np.sqrt(block.null_variance()), rel=0.08)


def test_the_dirichlet_error_is_its_definition() -> None:
    p, y = rows(25)
    for power in (1, 2):
        total = 0.0
        for j in range(25):
            others = [i for i in range(25) if i != j]
            weights = np.array([stats.dirichlet.pdf(p[j], p[i] / 0.2 + 1.0) for i in others])
            rates = weights @ np.eye(3)[y[others]] / weights.sum()
            total += (np.abs(rates - p[j]) ** power).sum()
        assert dirichlet_error(p, y, p=power, bandwidth=0.2).value == pytest.approx((total / 25) ** (1 / power))


def test_the_dirichlet_error_of_a_calibrated_model_is_near_its_null_value() -> None:
    p, y = rows(300)
    right = dirichlet_error(p, y)
    assert right.value < right.null_high * 1.2
    wrong = dirichlet_error(p[:, [1, 2, 0]], y)
    assert wrong.value > 1.5 * wrong.null_high


def test_edges() -> None:
    found = dirichlet_error([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1], classes=[0, 1], bandwidth=0.1)
    assert np.isfinite(found.value)
    p, y = rows(10)
    assert dirichlet_error(p, y, sample_weight=np.ones(10) / 2, bandwidth=0.2).null is None
    for wrong in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="bandwidth"):
            dirichlet_error(p, y, bandwidth=wrong)
        with pytest.raises(InputError, match="bandwidth"):
            skce(p, y, bandwidth=wrong)
    with pytest.raises(InputError, match="sum to 1"):
        dirichlet_error([[0.9, 0.9], [0.2, 0.3]], [0, 1], score_type="independent")
