"""Pooling against the min-max formula, logistic regression against scipy's bounded optimizer."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from calibrant.solvers import Derivatives, LogisticFit, damped_newton, fit_logistic, pool_adjacent, softplus

cells = st.lists(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=12
)


def min_max(n: list[int], events: list[int]) -> list[Fraction]:
    """Isotonic regression by its formula: the largest, over starts, of the smallest, over ends, of the mean between."""
    size = range(len(n))
    return [
        max(min(Fraction(sum(events[a : b + 1]), sum(n[a : b + 1])) for b in size if b >= j) for a in range(j + 1))
        for j in size
    ]


@given(cells)
def test_blocks_are_those_of_the_min_max_formula(pairs):
    n, events = [a for a, _ in pairs], [b for _, b in pairs]
    fitted = min_max(n, events)
    expected = [0] + [j + 1 for j, (a, b) in enumerate(pairwise(fitted)) if a != b]
    starts = pool_adjacent(np.array(n), np.array(events))
    assert starts.tolist() == expected
    sums = np.add.reduceat(events, starts), np.add.reduceat(n, starts)
    assert [Fraction(int(k), int(m)) for k, m in zip(*sums, strict=True)] == [fitted[j] for j in expected]


@given(cells)
def test_blocks_do_not_depend_on_the_scale_of_real_weights(pairs):
    n, events = np.array(pairs, dtype=np.float64).T
    np.testing.assert_array_equal(pool_adjacent(n, events), pool_adjacent(n * 8.0, events * 8.0))


def test_blocks_by_hand(subtests):
    for n, events, expected in [
        ([], [], []),
        ([3], [1], [0]),
        ([1, 1, 1], [0, 0, 0], [0]),
        ([1, 1, 1], [0, 1, 1], [0, 1]),
        ([1, 1, 1], [1, 1, 0], [0]),
        ([3, 6, 9], [1, 2, 3], [0]),  # equal rates are one block
        ([10**15, 10**15], [333333333333333, 333333333333334], [0, 1]),
    ]:
        with subtests.test(n=n, events=events, expected=expected):
            assert pool_adjacent(np.array(n, dtype=np.int64), np.array(events, dtype=np.int64)).tolist() == expected


# ----------------------------------------------------------------------------------------------------- Newton's method


def test_a_step_that_overshoots_is_halved():
    """The minimum of log cosh: full steps from 2 diverge."""

    def log_cosh(x: np.ndarray) -> Derivatives:
        return Derivatives(float(softplus(2.0 * x)[0][0] - x[0]), np.tanh(x), np.diag(np.cosh(x) ** -2.0))

    found = damped_newton(log_cosh, lambda _, at: -at.gradient / at.curvature[0], np.array([2.0]), lambda loss: 1e-20)
    assert found.settled
    assert abs(found.point[0]) < 1e-12


# ------------------------------------------------------------------------------------------------- logistic regression


def fit(x: np.ndarray, n: np.ndarray, events: np.ndarray, **options) -> LogisticFit:
    """All cells in one piece."""
    return fit_logistic(lambda: [(x, n, events)], len(x), **options)


def mean_loss(beta: np.ndarray, x: np.ndarray, n: np.ndarray, events: np.ndarray) -> float:
    z = beta @ x
    return float((n @ np.logaddexp(0.0, z) - events @ z) / n.sum())


def problem(seed: int, columns: int, truth: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.vstack([rng.normal(size=(columns, 40)), np.ones(40)])
    n = rng.integers(1, 30, 40)
    return x, n, rng.binomial(n, 1 / (1 + np.exp(-np.array(truth) @ x)))


PROBLEMS = {
    "one column": (1, [1.2, -0.5], ()),
    "one column, bound slack": (1, [1.2, -0.5], (0,)),
    "one column, bound active": (1, [-1.2, 0.5], (0,)),
    "two columns": (2, [0.8, 0.6, -0.2], (0, 1)),
    "first bound active": (2, [-0.8, 0.6, -0.2], (0, 1)),
    "second bound active": (2, [0.8, -0.6, -0.2], (0, 1)),
    "both bounds active": (2, [-0.8, -0.6, -0.2], (0, 1)),
    "rare events": (1, [0.5, -6.0], (0,)),
}


def test_against_scipy(subtests, full_size):
    for name, (columns, truth, bounded) in PROBLEMS.items():
        for seed in range(4 if full_size else 2):
            for soft in [False, True]:
                with subtests.test(name, seed=seed, soft=soft):
                    x, n, events = problem(seed, columns, truth)
                    if soft:
                        events = events * 0.9 + 0.05 * n
                    got = fit(x, n, events, non_negative=bounded)
                    bounds = [(0, None) if j in bounded else (None, None) for j in range(len(x))]
                    start = np.zeros(len(x))
                    other = minimize(
                        mean_loss,
                        start,
                        (x, n, events),
                        method="L-BFGS-B",
                        bounds=bounds,
                        options={"ftol": 1e-15, "gtol": 1e-10},
                    )
                    assert got.converged
                    assert all(got.coefficients[j] >= 0 for j in bounded)
                    assert mean_loss(got.coefficients, x, n, events) <= other.fun + 1e-12
                    np.testing.assert_allclose(got.coefficients, other.x, atol=2e-4)


def test_the_gradient_vanishes_where_no_bound_holds(subtests):
    for name, (columns, truth, bounded) in PROBLEMS.items():
        with subtests.test(name):
            x, n, events = problem(5, columns, truth)
            beta = fit(x, n, events, non_negative=bounded).coefficients
            gradient = x @ (n / (1 + np.exp(-beta @ x)) - events) / n.sum()
            held = np.array([j in bounded and beta[j] == 0.0 for j in range(len(x))])
            assert np.abs(gradient[~held]).max() < 1e-9
            assert (gradient[held] >= -1e-9).all()


def test_pieces_add_up():
    x, n, events = problem(6, 2, [0.5, 0.7, 0.1])
    parts = [(x[:, p], n[p], events[p]) for p in (slice(0, 13), slice(13, 14), slice(14, None))]
    split = fit_logistic(lambda: parts, 3).coefficients
    np.testing.assert_allclose(split, fit(x, n, events).coefficients, rtol=1e-10)


def test_a_start_is_only_a_start():
    x, n, events = problem(7, 1, [1.0, 0.2])
    cold = fit(x, n, events).coefficients
    for start in (cold, cold + 0.01, np.array([-3.0, 5.0])):
        np.testing.assert_allclose(fit(x, n, events, start=start).coefficients, cold, rtol=1e-8)
    given = np.array([0.3, 0.3])
    fit(x, n, events, start=given)
    assert given.tolist() == [0.3, 0.3]


@pytest.mark.parametrize("rate", [0, 1], ids=["no event", "only events"])
def test_separated_data_stop_somewhere_finite(rate):
    x = np.vstack([np.linspace(-1, 1, 20), np.ones(20)])
    n = np.full(20, 3)
    for events in (np.where(x[0] > 0, 3, 0), np.full(20, 3 * rate)):
        got = fit(x, n, events, non_negative=(0,))
        assert np.isfinite(got.coefficients).all()
        assert mean_loss(got.coefficients, x, n, events) < 0.05


def test_columns_that_say_the_same_do_not_break_it():
    x = np.vstack([np.ones(4), 2 * np.ones(4), np.ones(4)])
    got = fit(x, np.full(4, 10), np.array([3, 3, 3, 3]))
    assert got.coefficients @ x[:, 0] == pytest.approx(np.log(3 / 7))
