"""Online Newton steps on streams that break naive ones: 200,000 rows each, and 10^8 with ``--full``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.cases import every

from calibrant.online import OnlineBeta, OnlinePlatt, compiled, resume
from calibrant.online.experts.logistic_steps import BETA_A, BETA_C, D1, D2, E1, E3, A, B

Chunk = Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
ROWS_AT_ONCE = 100_000


def separable(rng: np.random.Generator, begin: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    scores = rng.random(n)
    return scores, (scores > 0.5).astype(float)


def ends(rng: np.random.Generator, begin: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of exactly 0 and 1, right and wrong in turn."""
    scores = rng.integers(0, 2, n).astype(float)
    return scores, np.where(rng.random(n) < 0.5, scores, 1.0 - scores)


def alternating(rng: np.random.Generator, begin: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The most extreme score, and each time the outcome that was not expected."""
    t = np.arange(begin, begin + n)
    return np.where(t % 2, 1.0 - 1e-12, 1e-12), 1.0 - (t % 2).astype(float)


def blocks(rng: np.random.Generator, begin: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """One constant score whose outcomes turn over in blocks that get longer."""
    t = np.arange(begin, begin + n)
    return np.full(n, 0.3), (np.floor(np.log2(t + 1.0)) % 2).astype(float)


def tiny(rng: np.random.Generator, begin: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores down to the smallest number there is, almost no events."""
    return 10.0 ** -rng.uniform(0.0, 324.0, n), (rng.random(n) < 1e-5).astype(float)


def parameters_and_pivots(forecaster: OnlinePlatt | OnlineBeta) -> tuple[np.ndarray, np.ndarray]:
    """The parameters, and the pivots of the matrix's factors, all above 0 just when it is positive definite."""
    held = np.array(forecaster.state["numbers"])
    if isinstance(forecaster, OnlinePlatt):
        return held[[A, B]], held[[D1, D2]]
    return held[BETA_A : BETA_C + 1], held[E1 : E3 + 1]


@every("stream", [separable, ends, alternating, blocks, tiny])
@every("clamp", [2.0**-32, 1e-5])
@every("make", [OnlinePlatt, OnlineBeta])
def test_parameters_stay_in_the_ball_and_the_matrix_positive_definite(
    make: Callable[..., OnlinePlatt | OnlineBeta],
    stream: Chunk,
    clamp: float,
    full_size: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "ENOUGH_ROWS", 1)  # so many rows are for compiled steps only
    rng = np.random.default_rng(0)
    forecaster = make(clamp=clamp)
    n = 10**8 if full_size else 2 * 10**5
    for begin in range(0, n, ROWS_AT_ONCE):
        scores, labels = stream(rng, begin, ROWS_AT_ONCE)
        told = forecaster.forecast_many(scores, labels)
        assert (forecaster._recipe, 0) in compiled.COMPILED
        assert np.isfinite(told).all()
        assert (told >= 0.0).all()
        assert (told <= 1.0).all()
        theta, pivots = parameters_and_pivots(forecaster)
        assert np.isfinite(theta).all()
        assert np.linalg.norm(theta) <= 100.0 * (1.0 + 1e-12)
        assert np.isfinite(pivots).all()
        assert (pivots >= forecaster.rho).all()
    assert forecaster.n_rows == n
    assert resume(forecaster.to_json()).state == forecaster.state  # rounding has left it a state of a stream
