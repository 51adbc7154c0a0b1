"""Decompositions of the Brier score and the log loss against work by hand, brute force and their identities."""

from __future__ import annotations

import math
import warnings
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics.binary.decompositions import Decomposition, decompose
from calibrant.metrics.binary.scores import brier, log_loss
from calibrant.numerics import Grid
from calibrant.tallies import Tally

both_losses = pytest.mark.parametrize("loss", ["brier", "log"])
both_methods = pytest.mark.parametrize("method", ["isotonic", "bins"])

rows = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.floats(0.1, 5.0)), min_size=1, max_size=40)


def tally_from(data: list[Any], *, weighted: bool, inside: bool) -> Tally:
    """Rows of the strategy above, scores on 21 values, without the warning about one class."""
    step = (lambda k: (k + 1) / 22) if inside else (lambda k: k / 20)
    weights = [row[2] for row in data] if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return Tally.from_arrays([step(row[0]) for row in data], [row[1] for row in data], weights)


def total(parts: Decomposition) -> float:
    return parts.miscalibration - parts.discrimination + parts.uncertainty + parts.within


# ----------------------------------------------------------------------------------------------------------------------
# By hand
# ----------------------------------------------------------------------------------------------------------------------


def test_brier_by_isotonic_regression_by_hand() -> None:
    parts = decompose([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    # isotonic: 0, 1/2, 1/2, 1. Losses: scores (0.01 + 0.49 + 0.25 + 0.09)/4, isotonic 0.5/4, base rate 1/4
    assert parts.loss == pytest.approx(0.21)
    assert (parts.miscalibration, parts.discrimination) == pytest.approx((0.085, 0.125))
    assert (parts.uncertainty, parts.within) == (0.25, 0.0)
    assert parts.fixable == pytest.approx(0.085 / 0.21)
    # distances of scores and isotonic rates: 0.1, 0.2, 0, 0.3
    form = parts.variance_form
    assert form.squared_gap == pytest.approx(0.14 / 4)
    assert form.remainder == pytest.approx(0.21 - (0.25 - 0.125 + 0.035))


def test_log_loss_by_isotonic_regression_by_hand() -> None:
    parts = decompose([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1], loss="log")
    loss = -(math.log(0.9) + math.log(0.3) + math.log(0.5) + math.log(0.7)) / 4
    assert parts.loss == pytest.approx(loss)
    assert parts.uncertainty == pytest.approx(math.log(2))
    assert parts.discrimination == pytest.approx(math.log(2) / 2)  # isotonic: two rows at 1/2, two without loss
    assert parts.miscalibration == pytest.approx(loss - math.log(2) / 2)
    assert parts.variance_form is None


def test_brier_by_bins_by_hand() -> None:
    parts = decompose([0.1, 0.3, 0.5, 0.9], [0, 1, 1, 1], method="bins", edges=[0.5])
    # bins: mean scores 0.2 and 0.7, rates 1/2 and 1, base rate 3/4
    assert parts.miscalibration == pytest.approx((0.09 + 0.09) / 2)
    assert parts.discrimination == pytest.approx(1 / 16)
    assert parts.uncertainty == pytest.approx(3 / 16)
    assert parts.loss == pytest.approx((0.01 + 0.49 + 0.25 + 0.01) / 4)
    # at the bins' means the loss is (0.04 + 0.64 + 2 * 0.09)/4 = 0.215
    assert parts.within == pytest.approx(0.19 - 0.215)
    assert parts.variance_form.remainder == pytest.approx(parts.within)
    assert "+ within bins -0.0250" in str(parts)


def test_by_distinct_scores_the_variance_form_is_exact() -> None:
    """004: Var(Y) - Var(t(f(X))) + E(t(f(X)) - f(X))^2, with t the event rate at each score."""
    scores, y = np.repeat([0.2, 0.6, 0.9], [4, 5, 3]), np.array([0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0])
    parts = decompose(scores, y, method="bins", strategy="distinct")
    t = np.repeat([1 / 4, 3 / 5, 2 / 3], [4, 5, 3])
    outcome, recalibrated, gap, remainder = parts.variance_form
    assert (outcome, recalibrated) == pytest.approx((y.var(), t.var()))
    assert gap == pytest.approx(((t - scores) ** 2).mean())
    assert remainder == pytest.approx(0.0, abs=1e-15)
    assert "within" not in str(parts)


def test_the_text_says_what_could_be_mended() -> None:
    text = str(decompose([0.2, 0.2, 0.9, 0.9], [0, 0, 1, 0]))
    assert text.endswith(
        "recalibration could remove at most 44.4 % of the loss (in-sample, so optimistic)"
    )  # 0.1 of 0.225


def test_it_is_frozen_and_plain() -> None:
    parts = decompose([0.2, 0.2, 0.9, 0.9], [0, 0, 1, 0])
    with pytest.raises(FrozenInstanceError):
        parts.loss = 0.0
    assert parts.to_dict()["fixable"] == parts.fixable
    assert "notes" not in parts.to_dict()


# ----------------------------------------------------------------------------------------------------------------------
# Identities
# ----------------------------------------------------------------------------------------------------------------------


@given(
    loss=st.sampled_from(["brier", "log"]),
    method=st.sampled_from(["isotonic", "bins"]),
    data=rows,
    weighted=st.booleans(),
    n_bins=st.integers(1, 8),
    strategy=st.sampled_from(["width", "mass"]),
)
def test_the_parts_account_for_the_whole_loss(
    loss: Any, method: Any, data: list[Any], weighted: bool, n_bins: int, strategy: Any
) -> None:
    tally = tally_from(data, weighted=weighted, inside=loss == "log")
    parts = decompose(tally, loss=loss, method=method, n_bins=n_bins, strategy=strategy)
    assert parts.loss == (brier if loss == "brier" else log_loss)(tally).value
    assert total(parts) == pytest.approx(parts.loss, abs=1e-12)
    assert parts.miscalibration >= 0.0
    assert 0.0 <= parts.discrimination <= parts.uncertainty + 1e-12
    assert parts.within == 0.0 or method == "bins"


@given(data=rows, weighted=st.booleans())
def test_isotonic_parts_are_those_of_the_regression_itself(data: list[Any], weighted: bool) -> None:
    tally = tally_from(data, weighted=weighted, inside=False)
    fitted = isotonic_regression(tally.events / tally.n, weights=tally.n.astype(float)).x
    base = tally.positives / tally.total

    def loss(p: Any) -> float:
        return float((tally.events * (1 - p) ** 2 + (tally.n - tally.events) * p**2).sum() / tally.total)

    parts = decompose(tally)
    assert parts.miscalibration == pytest.approx(loss(tally.scores) - loss(fitted), abs=1e-12)
    assert parts.discrimination == pytest.approx(loss(base) - loss(fitted), abs=1e-12)
    form = parts.variance_form
    assert form.squared_gap == pytest.approx((tally.n * (fitted - tally.scores) ** 2).sum() / tally.total, abs=1e-12)
    assert form.remainder >= -1e-12, "an isotonic fit lies between scores and labels"


def test_recalibrated_scores_have_no_miscalibration(subtests) -> None:
    for loss in ["brier", "log"]:
        for method in ["isotonic", "bins"]:
            with subtests.test(loss=loss, method=method):
                scores, y = np.repeat([0.25, 0.5, 0.75], 4), np.array([1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0])
                parts = decompose(scores, y, loss=loss, method=method, strategy="distinct")
                assert parts.miscalibration == pytest.approx(0.0, abs=1e-15)
                assert parts.fixable == pytest.approx(0.0, abs=1e-15)


def test_whole_weights_are_repetition_and_weight_zero_is_no_row(subtests) -> None:
    for loss in ["brier", "log"]:
        for method in ["isotonic", "bins"]:
            with subtests.test(loss=loss, method=method):
                rng = np.random.default_rng(5)
                scores, y, counts = rng.random(60), rng.integers(0, 2, 60), rng.integers(0, 4, 60)
                options = {"loss": loss, "method": method, "strategy": "width"}
                repeated = decompose(np.repeat(scores, counts), np.repeat(y, counts), **options)
                weighted = decompose(scores, y, counts, **options)
                for name in ("loss", "miscalibration", "discrimination", "uncertainty", "within"):
                    assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-14)


def test_order_and_merging_do_not_matter_and_a_grid_is_close(subtests) -> None:
    for loss in ["brier", "log"]:
        for method in ["isotonic", "bins"]:
            with subtests.test(loss=loss, method=method):
                rng = np.random.default_rng(6)
                scores = rng.integers(1, 50, 500) / 50
                y = (rng.random(500) < scores**2).astype(int)
                order = rng.permutation(500)
                whole = decompose(scores, y, loss=loss, method=method)
                merged = Tally.from_arrays(scores[:200], y[:200]) + Tally.from_arrays(scores[200:], y[200:])
                assert decompose(scores[order], y[order], loss=loss, method=method) == whole
                near = decompose(Tally.from_arrays(scores, y, grid=Grid()), loss=loss, method=method)
                for other, tolerance in ((decompose(merged, loss=loss, method=method), 1e-14), (near, 1e-4)):
                    assert other.miscalibration == pytest.approx(whole.miscalibration, abs=tolerance)
                    assert other.discrimination == pytest.approx(whole.discrimination, abs=tolerance)


# ----------------------------------------------------------------------------------------------------------------------
# Edges
# ----------------------------------------------------------------------------------------------------------------------


def test_an_impossible_row_makes_log_loss_and_miscalibration_infinite() -> None:
    parts = decompose([0.0, 0.0, 0.4, 0.8], [1, 0, 0, 1], loss="log")
    assert parts.loss == parts.miscalibration == math.inf
    assert math.isfinite(parts.discrimination)
    assert parts.fixable == 1.0
    (note,) = parts.notes
    assert (note.code, note.values) == ("infinite-loss", {"rows": 1, "counts": True})
    assert str(note) == "infinite because of 1 row (events at score 0, or non-events at score 1)"
    assert parts.to_dict()["loss"] is None
    assert decompose([0.0, 0.0, 0.4, 0.8], [1, 0, 0, 1]).notes == ()


def test_in_a_bin_with_other_scores_it_is_infinite_within() -> None:
    parts = decompose([0.0, 0.2, 0.6, 0.8], [1, 0, 0, 1], loss="log", method="bins", edges=[0.5])
    assert parts.loss == parts.within == math.inf
    assert math.isfinite(parts.miscalibration)
    assert math.isnan(parts.fixable)
    assert "mended" not in str(parts)


def test_in_a_bin_of_its_own_it_is_infinite_miscalibration_and_the_rest_is_still_told() -> None:
    parts = decompose([0.0, 0.0, 0.5, 0.8], [1, 0, 0, 1], loss="log", method="bins", edges=[0.5])
    assert parts.loss == parts.miscalibration == math.inf
    # rows at 0.5 and 0.8 have the mean 0.65
    change = -(math.log(0.5) + math.log(0.8)) + math.log(0.35) + math.log(0.65)
    assert parts.within == pytest.approx(change / 4)


def test_scores_on_zero_and_one_that_come_true_lose_nothing() -> None:
    with pytest.warns(CalibrantWarning):
        parts = decompose([0.0, 1.0, 1.0], [0, 1, 1], loss="log")
    assert (parts.loss, parts.miscalibration, parts.fixable) == (0.0, 0.0, 0.0)
    assert parts.discrimination == pytest.approx(parts.uncertainty)


def test_one_class_has_neither_uncertainty_nor_discrimination(subtests) -> None:
    for loss in ["brier", "log"]:
        for method in ["isotonic", "bins"]:
            for scores in [[0.3], [0.3, 0.3], [0.2, 0.9]]:
                for label in [0, 1]:
                    with subtests.test(loss=loss, method=method, scores=scores, label=label):
                        with pytest.warns(CalibrantWarning):
                            parts = decompose(scores, [label] * len(scores), loss=loss, method=method)
                        assert parts.uncertainty == parts.discrimination == 0.0
                        assert total(parts) == pytest.approx(parts.loss)


@both_methods
def test_a_constant_score_discriminates_nothing(method: Any) -> None:
    parts = decompose([0.9] * 4, [0, 1, 0, 1], method=method)
    assert parts.discrimination == 0.0
    assert parts.miscalibration == pytest.approx(0.16)


def test_a_table_of_bins_is_decomposed_at_its_means() -> None:
    table = Tally.from_table([4, 6], [1, 5], edges=[0.5], scores=[0.2, 0.7])
    expected = decompose(np.repeat([0.2, 0.7], [4, 6]), [1, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    assert decompose(table).miscalibration == pytest.approx(expected.miscalibration)
    assert decompose(table).squared_gap == pytest.approx(expected.squared_gap)
    assert [note.code for note in decompose(table).notes] == ["bin-means"]


@pytest.mark.parametrize("option", ["loss", "method"])
def test_an_unknown_word_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=f"{option} is 'spline'"):
        decompose([0.2, 0.8], [0, 1], **{option: "spline"})
