"""One against one: pairs of classes, and how their log-odds are combined."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import PlattScaling
from calibrant.calibrators.multiclass.pairs import fit_pair
from calibrant.maps import SoftmaxMap
from calibrant.multiclass import OneAgainstOne


def rows(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, true probabilities, which have slope 1/2 and intercepts, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n)
    truth = np.sqrt(p) * np.linspace(1.0, 2.0, classes)
    truth /= truth.sum(axis=1, keepdims=True)
    return p, truth, (rng.random(n)[:, None] > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)


def test_a_model_whose_pairs_agree_is_recovered() -> None:
    """Pairs have log-odds (z_j - z_k) / 2 + log of the ratio of the tilts."""
    p, truth, y = rows(20_000, 4)
    fitted = OneAgainstOne().fit(p, y)
    assert np.abs(fitted.transform(p) - truth).max() < 0.05
    off = ~np.eye(4, dtype=bool)
    tilt = np.log(np.linspace(1.0, 2.0, 4))
    assert fitted.pair_slopes_[off] == pytest.approx(0.5, abs=0.06)
    assert fitted.pair_intercepts_ == pytest.approx(tilt[:, None] - tilt, abs=0.12)


def test_the_logits_are_the_least_squares_solution_of_the_pairs() -> None:
    p, _, y = rows(600, 3, 1)
    fitted = OneAgainstOne().fit(p, y)
    assert isinstance(fitted.map_, SoftmaxMap)
    z = np.log(p[0])
    pairs = [(j, k) for j in range(3) for k in range(3) if j != k]
    log_odds = [fitted.pair_slopes_[j, k] * (z[j] - z[k]) + fitted.pair_intercepts_[j, k] for j, k in pairs]
    design = np.array([[(i == j) - (i == k) for i in range(3)] for j, k in pairs], dtype=float)
    u = np.linalg.lstsq(design, np.array(log_odds), rcond=None)[0]
    expected = np.exp(u) / np.exp(u).sum()
    assert fitted.transform(p[:1])[0] == pytest.approx(expected, abs=1e-12)


def test_with_two_classes_it_is_platt_scaling() -> None:
    p, _, y = rows(800, 2, 2)
    two = OneAgainstOne(ridge=1e-9).fit(p, y).transform(p)
    assert two[:, 1] == pytest.approx(PlattScaling().fit(p[:, 1], y).transform(p[:, 1]), abs=1e-6)


def test_classes_without_rows_keep_the_temperature_and_are_noted() -> None:
    p, _, y = rows(500, 4, 3)
    y = np.where(y == 3, 0, y)
    fitted = OneAgainstOne().fit(p, y, classes=[0, 1, 2, 3])
    said = "3 of 6 pairs of classes have no rows of one of their classes: their curves are those of temperature scaling"
    assert any(said in str(each) for each in fitted.notes_)
    assert fitted.pair_slopes_[3] == pytest.approx([1 / fitted.temperature_] * 3 + [0.0])
    assert fitted.pair_intercepts_[3].tolist() == fitted.pair_intercepts_[:, 3].tolist() == [0.0] * 4
    assert fitted.pair_intercepts_[0, 1] != 0.0
    assert np.isfinite(fitted.transform(p)).all()
    assert fitted.transform(p).sum(axis=1) == pytest.approx(1.0)


def test_a_pair_that_falls_is_flat_and_separated_classes_stay_finite() -> None:
    x = np.linspace(-3, 3, 60)
    down = (x < 0).astype(float)
    slope, intercept = fit_pair(x, down, np.ones(60), 1.0, 0.1)
    assert (slope, intercept) == (0.0, pytest.approx(0.0, abs=1e-6))
    slope, _ = fit_pair(x, 1.0 - down, np.ones(60), 1.0, 1.0)
    assert 1.0 < slope < 10.0
