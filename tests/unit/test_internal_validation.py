"""Optimism correction: hand-worked case, groups, edges and errors."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant import InputError, metrics
from calibrant.clinical import internal_validation


class Rate:
    """Predicts from the event rate on either side of 0 in its training rows, so that its numbers are known by hand."""

    classes_ = (0, 1)

    def get_params(self, deep: bool = True) -> dict:
        return {}

    def set_params(self) -> Rate:
        return self

    def fit(self, X: np.ndarray, y: np.ndarray) -> Rate:
        self.rates_ = [float(np.mean(y[X[:, 0] < 0])), float(np.mean(y[X[:, 0] >= 0]))]
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = np.where(X[:, 0] < 0, *self.rates_)
        return np.stack([1 - p, p], axis=1)


def rows(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


def test_brier_by_hand() -> None:
    X = np.array([[-1.0], [-1.0], [-1.0], [-1.0], [1.0], [1.0], [1.0], [1.0]])
    y = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    sample = np.array([0, 1, 3, 3, 4, 4, 5, 6])  # rates 1/2 and 1/2 in place of 1/4 and 3/4
    other = np.array([0, 1, 2, 3, 4, 5, 5, 6])
    found = internal_validation(Rate(), X, y, resamples=[other])
    assert found.brier.apparent == pytest.approx(3 / 16)
    assert found.brier.training == pytest.approx(3 / 16)
    assert found.brier.test == pytest.approx(3 / 16)
    assert found.brier.corrected == pytest.approx(3 / 16)
    with pytest.raises(InputError, match="separates"):  # a constant prediction has no slope
        internal_validation(Rate(), X, y, resamples=[sample])


def test_the_apparent_numbers_are_those_of_the_metrics() -> None:
    X, y = rows()
    model = LogisticRegression(C=1e8).fit(X, y)
    risks = model.predict_proba(X)[:, 1]
    found = internal_validation(LogisticRegression(C=1e8), X, y, n_boot=5)
    assert found.c_statistic.apparent == pytest.approx(float(metrics.auc(risks, y)))
    assert found.brier.apparent == pytest.approx(float(metrics.brier(risks, y)))
    assert found.slope.apparent == pytest.approx(1.0, abs=1e-3)
    assert found.ici.apparent == pytest.approx(metrics.ici(risks, y, repetitions=0).ici)
    assert found.c_statistic.low is None
    assert "no interval" in str(found)


def test_samples_depend_on_the_seed_alone_and_progress_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    X, y = rows()
    with caplog.at_level(logging.INFO, logger="calibrant"):
        one, two = (internal_validation(LogisticRegression(), X, y, n_boot=10, random_state=3) for _ in range(2))
    assert one == two
    assert any("bootstrap samples" in each.message for each in caplog.records)
    assert one.to_dict()["samples"] == 10
    assert "<table" in one._repr_html_()


def test_groups_are_drawn_as_wholes() -> None:
    from calibrant.clinical.internal import _samples

    groups = np.repeat(np.arange(12), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    for sample in _samples(len(groups), 20, groups, 0):
        drawn = np.bincount(groups[sample], minlength=12)
        assert (drawn % np.bincount(groups) == 0).all()
    with pytest.raises(InputError, match="at least 10"):
        _samples(6, 3, [0, 0, 1, 1, 2, 2], 0)


def test_the_interval_is_the_apparent_one_moved_by_the_optimism() -> None:
    X, y = rows(80)
    found = internal_validation(LogisticRegression(), X, y, n_boot=100).c_statistic
    assert found.low < found.corrected < found.high
    assert found.corrected == pytest.approx(found.apparent - found.training + found.test)


def test_labels_may_be_text_and_frames_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = np.where(y == 1, "dead", "alive")
    one = internal_validation(LogisticRegression(), X, y, n_boot=4)
    two = internal_validation(LogisticRegression(), frame, named, n_boot=4, positive="dead")
    assert one.brier == two.brier


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"estimator": object()}, "estimator"),
        ({"X": np.zeros((3, 2))}, "X"),
        ({"y": np.zeros(120, dtype=int)}, "y"),
        ({"n_boot": 0}, "n_boot"),
        ({"resamples": [[500]]}, "resamples"),
        ({"resamples": []}, "resamples"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_name_the_argument(change: dict, argument: str) -> None:
    X, y = rows()
    with pytest.raises(InputError) as caught:
        internal_validation(**({"estimator": LogisticRegression(), "X": X, "y": y} | change))
    assert caught.value.argument == argument


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_bad_seed_is_named(seed):
    with pytest.raises(InputError, match="random_state must be an integer"):
        internal_validation(LogisticRegression(), np.arange(6.0).reshape(-1, 1), [0, 1, 0, 1, 0, 1], random_state=seed)
