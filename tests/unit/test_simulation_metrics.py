"""Measures with a known truth against work by hand, all pairs and scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from calibrant.messages import InputError
from calibrant.metrics.binary.scores import brier
from calibrant.metrics.simulation import kendall_tau, metric_bias, probabilistic_count, theoretical_error
from calibrant.numerics import Grid
from calibrant.tallies import Tally

points = st.lists(
    st.tuples(st.integers(-6, 6), st.integers(0, 6), st.floats(0.0, 4.0) | st.just(1.0)), min_size=2, max_size=40
)


def by_pairs(scores: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> float:
    """The definition, over all ordered pairs of different points."""
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0.0)
    discordant = (scores[:, None] - scores) * (truth[:, None] - truth) < 0
    return float(1 - 2 * pairs[discordant].sum() / pairs.sum())


def test_probabilistic_count_by_hand() -> None:
    # shares 1/2, 1/4, 1/4: 1 / (4/16 + 1/16 + 1/16) = 8/3
    assert probabilistic_count([0.3, 0.3, 0.1, 0.9]).value == pytest.approx(8 / 3)
    assert probabilistic_count([-0.0, 0.0]).value == 1.0
    assert probabilistic_count([0.3]).value == 1.0


def test_probabilistic_count_of_a_tally_is_that_of_its_rows() -> None:
    rng = np.random.default_rng(1)
    scores, y, weights = rng.integers(0, 9, 200) / 9, rng.integers(0, 2, 200), rng.random(200)
    tally = Tally.from_arrays(scores, y, weights)
    assert probabilistic_count(tally).value == pytest.approx(probabilistic_count(scores, weights).value)
    assert probabilistic_count(Tally.from_arrays(scores, y)) == probabilistic_count(scores)
    assert probabilistic_count(Tally.from_arrays(scores, y, grid=Grid())) == probabilistic_count(scores)


def test_whole_weights_are_repetition_for_the_count() -> None:
    counts = [3, 0, 1, 2]
    assert probabilistic_count([0.1, 0.2, 0.3, 0.3], counts) == probabilistic_count(
        np.repeat([0.1, 0.2, 0.3, 0.3], counts)
    )


@given(points, st.booleans())
def test_kendalls_tau_is_that_of_all_pairs(data: list[Any], weighted: bool) -> None:
    scores, truth = np.array([row[0] / 2 for row in data]), np.array([row[1] / 6 for row in data])
    weights = np.array([row[2] for row in data]) if weighted else np.ones(len(data))
    assume(np.count_nonzero(weights > 1e-6) >= 2)
    found = kendall_tau(scores, truth, weights if weighted else None).value
    assert found == pytest.approx(by_pairs(scores, truth, weights), abs=1e-9)


def test_kendalls_tau_without_ties_is_scipys() -> None:
    rng = np.random.default_rng(2)
    scores, truth = rng.permutation(5_000) / 5_000, rng.permutation(5_000) / 5_000
    assert kendall_tau(scores, truth).value == pytest.approx(stats.kendalltau(scores, truth).statistic, abs=1e-14)


def test_ties_agree_so_a_constant_score_has_tau_one() -> None:
    assert kendall_tau([0.5] * 4, [0.1, 0.2, 0.3, 0.4]).value == 1.0
    assert kendall_tau([0.1, 0.2], [0.7, 0.7]).value == 1.0
    assert kendall_tau([0.1, 0.2], [0.7, 0.6]).value == -1.0


def test_the_unit_of_weights_does_not_matter(subtests) -> None:
    for factor in [5e-324 * 2**60, 1e-200, 1e300]:
        with subtests.test(factor=factor):
            scores, truth, weights = [0.1, 0.2, 0.3], [0.2, 0.1, 0.9], np.array([1.0, 2.0, 4.0])
            for measure in (kendall_tau, theoretical_error):
                expected = measure(scores, truth, weights).value
                assert measure(scores, truth, weights * factor).value == pytest.approx(expected)
            # shares 1/7, 2/7, 4/7
            assert probabilistic_count(scores, weights * factor).value == pytest.approx(49 / 21)


def test_without_a_pair_tau_is_not_defined() -> None:
    assert math.isnan(kendall_tau([0.5], [0.5]).value)
    (note,) = kendall_tau([0.5, 0.6], [0.5, 0.4], [1.0, 0.0]).notes
    assert (note.code, str(note)) == ("no-pair-of-points", "not defined: at least two points are needed")
    assert math.isnan(kendall_tau([0.5, 0.6], [0.5, 0.4], [1.0, 1e-323]).value)
    assert kendall_tau([0.5, 0.6], [0.5, 0.4], [1.0, 1e-300]).value == -1.0


def test_theoretical_error_by_hand() -> None:
    scores, truth = [0.2, 0.5, 1.0], [0.1, 0.9, 1.0]
    assert theoretical_error(scores, truth).value == pytest.approx(0.5 / 3)
    assert theoretical_error(scores, truth, p=2).value == pytest.approx(math.sqrt(0.17 / 3))
    assert theoretical_error(scores, truth, [4.0, 1.0, 0.0]).value == pytest.approx(0.8 / 5)
    assert theoretical_error(scores, truth, p=math.inf).value == pytest.approx(0.4)
    assert theoretical_error(scores, truth, p=400).value == pytest.approx(0.4 * 3 ** (-1 / 400))
    assert theoretical_error([0.3], [0.3], p=3).value == 0.0


def test_a_calibrated_constant_has_a_theoretical_error() -> None:
    """What sets it apart from a calibration error: 1/2 for all is calibrated, but 0.3 off everywhere."""
    assert theoretical_error([0.5, 0.5], [0.2, 0.8]).value == pytest.approx(0.3)


def test_metric_bias_is_a_mean_absolute_deviation() -> None:
    # deviations -0.02 and +0.02 do not cancel
    found = metric_bias([0.10, 0.14], [0.12, 0.12])
    assert found.value == pytest.approx(0.02)
    assert found.se == pytest.approx(0.0, abs=1e-15)
    assert metric_bias([0.3], [0.1]).se is None
    assert metric_bias([0.1, 0.4], [0.0, 0.0]).se == pytest.approx(0.15)


def test_metric_bias_takes_estimates() -> None:
    found = metric_bias([brier([0.5, 0.5], [0, 1])], [theoretical_error([0.5, 0.5], [0.5, 0.5])])
    assert found.value == 0.25


def test_input_that_cannot_be_used_is_refused_in_words(subtests) -> None:
    for call, words in [
        (lambda: kendall_tau([0.1, 0.2], [0.5]), "truth has 1 row"),
        (lambda: kendall_tau([0.1], [1.5]), "truth must hold probabilities"),
        (lambda: kendall_tau([math.nan], [0.5]), "scores holds values that are missing"),
        (lambda: theoretical_error([-0.1], [0.5]), "scores must hold probabilities"),
        (lambda: theoretical_error([0.1], [0.5], p=0.5), "p must be 1 or more"),
        (lambda: probabilistic_count([]), "scores is empty"),
        (lambda: probabilistic_count([0.1, 0.2], [0.0, 0.0]), "sample_weight must not be negative"),
        (lambda: probabilistic_count([0.1, 0.2], [1.0, -1.0]), "sample_weight must not be negative"),
        (lambda: probabilistic_count([0.1, 0.2], [1.0]), "sample_weight has 1 row"),
        (lambda: probabilistic_count(Tally.from_arrays([0.1, 0.2], [0, 1]), [1, 1]), "holds its weights already"),
        (lambda: metric_bias([0.1], [0.1, 0.2]), "pass one value of each"),
        (lambda: metric_bias([], []), "pass one value of each"),
    ]:
        with subtests.test(call=call, words=words), pytest.raises(InputError, match=words):
            call()
