"""Conformal sets of numbers: hand-worked cases, naive definitions, edges and errors."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.papers import nested
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import BaggingRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from calibrant import conformal
from calibrant.conformal.cross import cross_coverage
from calibrant.conformal.depth import held_by, held_by_weight, plus_interval
from calibrant.conformal.forests import leaves as forest_module
from calibrant.conformal.forests.leaves import TOLERANCE, LeafQuantiles, _FirstAbove
from calibrant.conformal.forests.walk import walk_for, walk_of
from calibrant.conformal.full import larger_residuals
from calibrant.conformal.nested import Band
from calibrant.conformal.quantiles import rank, votes_needed
from calibrant.messages import CalibrantWarning, InputError


def world(n: int, seed: int = 0, columns: int = 2) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=n)


def naive_set(lower: Any, upper: Any, votes: float) -> list[tuple[float, float]]:
    """The definition, on all ends and the middles between them: maximal runs of accepted points."""
    pairs = [(low, high) for low, high in zip(lower, upper, strict=True) if low <= high]
    ends = sorted({end for pair in pairs for end in pair})
    grid = []
    for one, two in itertools.pairwise(ends):
        grid += [(one, True), ((one + two) / 2.0, False)]
    grid += [(ends[-1], True)] if ends else []
    runs: list[tuple[float, float]] = []
    start = last = None
    for value, is_end in grid:
        if sum(low <= value <= high for low, high in pairs) >= votes:
            if is_end:
                start = value if start is None else start
                last = value
        elif start is not None:
            runs.append((start, last))  # type: ignore[arg-type]
            start = None
    return [*runs, (start, last)] if start is not None else runs  # type: ignore[list-item]


class TestQuantile:
    def test_rank_is_exact_for_decimals(self) -> None:
        for n in range(1, 400):
            for percent in (1, 5, 10, 20, 30):
                wanted = -((-(100 - percent) * (n + 1)) // 100)
                assert rank(n, percent / 100) == wanted
                assert votes_needed(n, percent / 100) == n + 1 - wanted

    def test_it_is_the_smallest_value_with_enough_scores_below(self) -> None:
        scores = [3.0, 1.0, 1.0, 2.0, 5.0, 5.0, 4.0, 9.0, 7.0]
        assert conformal.conformal_quantile(scores, 0.1) == 9.0
        assert conformal.conformal_quantile(scores, 0.2) == 7.0
        assert conformal.conformal_quantile(scores[:8], 0.1) == np.inf
        assert conformal.conformal_quantile([], 0.5) == np.inf

    def test_equal_weights_are_none(self) -> None:
        rng = np.random.default_rng(1)
        for n in (1, 2, 9, 10, 19, 50):
            scores = rng.integers(0, 6, n).astype(float)
            for alpha in (0.05, 0.1, 0.3):
                plain = conformal.conformal_quantile(scores, alpha)
                assert conformal.conformal_quantile(scores, alpha, np.full(n, 0.7), 0.7) == plain

    def test_weights_by_hand_and_for_several_rows(self) -> None:
        found = conformal.conformal_quantile([1.0, 2.0, 3.0], 0.5, [1.0, 1.0, 2.0], [0.0, 1.0, 100.0])
        assert found.tolist() == [2.0, 3.0, np.inf]

    def test_a_wrong_alpha_or_weight_is_named(self) -> None:
        with pytest.raises(InputError, match=r"alpha must be strictly between 0 and 1, got 10: 0.1 asks"):
            conformal.conformal_quantile([1.0], 10)
        with pytest.raises(InputError, match="sample_weight must be finite"):
            conformal.conformal_quantile([1.0], 0.1, [-1.0])
        with pytest.raises(InputError, match="missing"):
            conformal.conformal_quantile([np.nan], 0.1)


class TestSets:
    def test_unions_by_hand(self) -> None:
        sets = held_by(np.array([[0.0, 1.0, 4.0], [0.0, 0.0, 9.0]]), np.array([[2.0, 5.0, 6.0], [1.0, 2.0, 8.0]]), 2)
        assert sets.to_array().tolist()[0] == [[1.0, 2.0], [4.0, 5.0]]
        assert sets.pieces.tolist() == [2, 1]
        assert sets.width.tolist() == [2.0, 1.0]
        assert sets.covers([4.5, 1.5]).tolist() == [True, False]
        assert sets.covers([3.0, 0.0]).tolist() == [False, True]
        assert sets.ends.tolist() == [[1.0, 5.0], [0.0, 1.0]]
        assert sets.hull.width.tolist() == [4.0, 1.0]
        assert sets[1].to_array().tolist() == [[[0.0, 1.0]]]
        assert sets[[1, 0]].pieces.tolist() == [1, 2]
        assert sets.to_frame().to_dict("list") == {"row": [0, 0, 1], "lower": [1, 4, 0], "upper": [2, 5, 1]}
        assert sets.to_dict()["sets"][0] == [[1.0, 2.0], [4.0, 5.0]]

    def test_empty_and_unbounded_sets_say_so(self) -> None:
        sets = conformal.PredictionSets.from_intervals([1.0, -np.inf, 0.0], [0.0, np.inf, 1.0])
        assert sets.empty.tolist() == [True, False, False]
        assert sets.width.tolist() == [0.0, np.inf, 1.0]
        assert np.isnan(sets.ends[0]).all()
        assert "row 0: no value" in str(sets)
        assert "row 1: every value" in str(sets)
        summary = sets.summary([0.0, 5.0, 0.5])
        assert (summary.covered, summary.empty, summary.unbounded) == (2, 1, 1)
        assert summary.to_dict()["mean_width"] is None
        assert "1 of them is without an end" in str(summary)

    def test_no_rows(self) -> None:
        sets = conformal.PredictionSets.from_intervals([], [])
        assert len(sets) == 0
        assert str(sets) == "0 prediction sets."
        assert sets.to_array().shape == (0, 0, 2)

    def test_outcomes_must_fit(self) -> None:
        sets = conformal.PredictionSets.from_intervals([0.0], [1.0])
        with pytest.raises(InputError, match="y"):
            sets.covers([1.0, 2.0])
        with pytest.raises(InputError, match="missing"):
            sets.covers([np.nan])


class TestDepth:
    def test_it_equals_the_definition_with_ties_and_empty_sets(self) -> None:
        rng = np.random.default_rng(0)
        for case in range(300):
            n = int(rng.integers(1, 9))
            lower = rng.integers(0, 8, n).astype(float)
            upper = lower + rng.integers(-2, 6, n)
            votes = int(rng.integers(1, n + 2))
            wanted = naive_set(lower, upper, votes)
            found = held_by(lower[None], upper[None], votes)
            assert list(zip(found.lower.tolist(), found.upper.tolist(), strict=True)) == wanted, case
            weighted = held_by_weight(lower[None], upper[None], np.ones(n), votes - 0.5)
            assert list(zip(weighted.lower.tolist(), weighted.upper.tolist(), strict=True)) == wanted, case

    def test_weights_equal_the_definition(self) -> None:
        rng = np.random.default_rng(1)
        for _ in range(100):
            n = int(rng.integers(1, 7))
            lower = rng.integers(0, 8, n).astype(float)
            upper = lower + rng.integers(-1, 6, n)
            times = rng.integers(1, 4, n)
            votes = int(rng.integers(1, times.sum() + 1))
            wanted = naive_set(np.repeat(lower, times), np.repeat(upper, times), votes)
            found = held_by_weight(lower[None], upper[None], times.astype(float), votes - 0.5)
            assert list(zip(found.lower.tolist(), found.upper.tolist(), strict=True)) == wanted

    def test_infinite_ends_and_empty_intervals_do_not_mix(self) -> None:
        lower, upper = np.array([[0.0, 5.0, 3.0, -np.inf]]), np.array([[1.0, np.inf, 2.0, np.inf]])
        assert held_by(lower, upper, 1).to_array().tolist() == [[[-np.inf, np.inf]]]
        assert held_by(lower, upper, 2).to_array().tolist() == [[[0.0, 1.0], [5.0, np.inf]]]
        assert held_by_weight(lower, upper, np.ones(4), 1.5).to_array().tolist() == [[[0.0, 1.0], [5.0, np.inf]]]
        assert held_by(lower, upper, 4).empty.all()

    def test_the_plus_interval_holds_the_hull(self) -> None:
        rng = np.random.default_rng(2)
        lower = rng.normal(size=(200, 12))
        upper = lower + rng.normal(0.5, 1.0, size=(200, 12))
        for votes in (1, 3, 6):
            hull, plus = held_by(lower, upper, votes).hull, plus_interval(lower, upper, votes)
            held = ~hull.empty
            assert not (plus.empty & held).any()
            assert (plus.ends[held, 0] <= hull.ends[held, 0]).all()
            assert (plus.ends[held, 1] >= hull.ends[held, 1]).all()

    def test_no_votes_needed_is_every_value_and_too_many_is_none(self) -> None:
        one = np.zeros((1, 1)), np.ones((1, 1))
        for make in (held_by, plus_interval):
            assert np.isinf(make(*one, 0).width).all()
            assert make(*one, 2).empty.all()


class TestNested:
    def test_every_shape_of_table_91_by_hand(self) -> None:
        low, middle, high = np.array([1.0]), np.array([2.0]), np.array([4.0])
        y = np.array([7.0])
        assert Band.around(middle).score(y).item() == 5.0
        assert Band.around(middle, np.array([2.0])).score(y).item() == 2.5
        assert Band.of_quantiles(low, high).score(y).item() == 3.0
        assert Band.of_median(low, middle, high).score(y).item() == 1.5
        assert Band.of_ratio(low, high).score(y).item() == 1.0
        assert Band.of_quantiles(low, high).score(np.array([2.0])).item() == -1.0
        assert Band.of_ratio(low, high).score(np.array([2.5])).item() == -0.5

    def test_a_set_holds_a_value_exactly_if_its_score_is_at_most_t(self) -> None:
        """Also with rounding: 0.1 + 0.2 style ends must not lose a value."""
        rng = np.random.default_rng(0)
        center, spread = rng.normal(size=2000) * 10.0 ** rng.integers(-3, 4, 2000), rng.random(2000)
        values = np.round(rng.normal(size=2000), 1)
        width = rng.random(2000)
        for band in (
            Band.around(center),
            Band.around(center, spread),
            Band.of_quantiles(center, center + width),
            Band.of_ratio(center, center + width),
            Band.of_median(center, center + width / 3.0, center + width),
        ):
            t = band.score(values)
            lower, upper = band.level(t)
            assert ((lower <= values) & (values <= upper)).all()
            smaller = band.level(t - 1e-6 * np.maximum(np.abs(t), 1.0))
            assert not ((smaller[0] <= values) & (values <= smaller[1])).any()

    def test_no_speed_and_infinite_thresholds(self) -> None:
        band = Band.around(np.array([1.0, 1.0]), np.array([0.0, 1.0]))
        assert band.score(np.array([1.0, 1.0])).tolist() == [0.0, 0.0]
        assert band.score(np.array([2.0, 2.0])).tolist() == [np.inf, 1.0]
        lower, upper = band.level(np.array(np.inf))
        assert np.isinf(lower).all()
        assert np.isinf(upper).all()
        assert band.level(np.array(5.0))[0][0] == pytest.approx(1.0)

    def test_crossed_quantiles(self) -> None:
        one, two = np.array([3.0]), np.array([1.0])
        assert Band.of_quantiles(one, two).score(np.array([2.0])).item() == 1.0
        assert Band.of_ratio(one, two).score(np.array([2.0])).item() == -0.5


class TestSplit:
    def test_by_hand_from_forecasts_alone(self) -> None:
        sets = conformal.split_intervals(np.zeros(9), np.arange(9.0), [100.0], alpha=0.1)
        assert sets.to_array().round(9).tolist() == [[[92.0, 108.0]]]
        scaled = conformal.split_intervals([0, 0, 0], [1, 2, 3], [10], spread=[1, 2, 1], new_spread=[4], alpha=0.5)
        assert scaled.to_array().round(9).tolist() == [[[6.0, 14.0]]]
        assert scaled.certificate.level == 0.5

    def test_a_fitted_model_is_not_fitted_again(self) -> None:
        X, y = world(200)
        model = LinearRegression().fit(X[:100], y[:100])
        one = conformal.SplitConformal(model, prefit=True).fit(X[100:], y[100:])
        two = conformal.SplitConformal(FrozenEstimator(model)).fit(X[100:], y[100:])
        by_hand = conformal.split_intervals(model.predict(X[100:]), y[100:], model.predict(X[:5]))
        for each in (one, two):
            assert each.predict_sets(X[:5]).to_array().tolist() == by_hand.to_array().tolist()
            assert each.calibration_rows_.size == 100

    def test_every_family_covers_most_outcomes(self, subtests: pytest.Subtests) -> None:
        X, y = world(600)
        forest = RandomForestRegressor(20, min_samples_leaf=10, random_state=0)
        booster = GradientBoostingRegressor(n_estimators=20, random_state=0)
        ends = (QuantileRegressor(quantile=0.1, alpha=0.0), QuantileRegressor(quantile=0.9, alpha=0.0))
        cases = [("residual", LinearRegression()), ("scaled", DecisionTreeRegressor(max_depth=3)), ("cqr", ends)]
        cases += [("cqr-m", booster), ("cqr-r", booster), ("cqr", forest), ("distribution", forest)]
        cases += [("cqr", QuantileRegressor(alpha=0.0))]
        for family, model in cases:
            with subtests.test(family=family, model=str(model)):
                fitted = conformal.SplitConformal(model, family=family).fit(X[:400], y[:400])
                summary = fitted.predict_sets(X[400:]).summary(y[400:])
                assert 0.8 < summary.coverage <= 1.0
                assert fitted.predict(X[400:]).shape == (200,)

    def test_data_frames_are_rows(self) -> None:
        pd = pytest.importorskip("pandas")
        X, y = world(100)
        frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(100) + 7)
        sets = conformal.SplitConformal(LinearRegression()).fit(frame, pd.Series(y, index=frame.index))
        plain = conformal.SplitConformal(LinearRegression()).fit(X, y)
        assert sets.predict_sets(frame[:3]).to_array().tolist() == plain.predict_sets(X[:3]).to_array().tolist()

    def test_too_few_rows_give_the_whole_line_and_say_how_many_are_needed(self) -> None:
        X, y = world(10)
        fitted = conformal.SplitConformal(LinearRegression(), calibration_share=0.5).fit(X, y)
        with pytest.warns(CalibrantWarning, match=r"5 rows to calibrate are too few for alpha = 0.1.*at least 9"):
            assert np.isinf(fitted.predict_sets(X).width).all()
        assert not np.isinf(fitted.predict_sets(X, alpha=0.4).width).any()

    def test_mistakes_are_named(self, subtests: pytest.Subtests) -> None:
        X, y = world(30)
        split = conformal.SplitConformal
        cases = [
            (lambda: split(LinearRegression(), alpha=0.0).fit(X, y), "alpha"),
            (lambda: split(LinearRegression(), family="cqrr").fit(X, y), "family"),
            (lambda: split(LinearRegression(), family="cqr").fit(X, y), "model"),
            (lambda: split((LinearRegression(),) * 3, family="cqr").fit(X, y), "model"),
            (lambda: split(LinearRegression(), calibration_share=1.0).fit(X, y), "calibration_share"),
            (lambda: split(LinearRegression()).fit(X, y[:-1]), "y"),
            (lambda: split(LinearRegression()).fit(X, np.where(y == y[0], np.nan, y)), "y"),
            (lambda: split(LinearRegression()).fit(X[:1], y[:1]), "X"),
            (lambda: split(LinearRegression()).fit(X, np.where(y == y[0], np.inf, y)), "y"),
            (lambda: split(LinearRegression()).fit(X, y).predict_sets(X[:0]), "X"),
            (lambda: split(LinearRegression(), family=conformal.Quantiles(0.7)).fit(X, y), "beta"),
            (lambda: conformal.split_intervals([1.0], [1.0], [1.0], spread=[1.0]), "spread"),
            (lambda: conformal.split_intervals([1.0], [1.0], [1.0], spread=[0.0], new_spread=[1.0]), "spread"),
            (lambda: conformal.CrossConformal(LinearRegression(), folds=1).fit(X, y), "folds"),
            (lambda: conformal.CrossConformal(LinearRegression(), folds=31).fit(X, y), "folds"),
            (lambda: conformal.CrossConformal(LinearRegression(), aggregate="union").fit(X, y), "aggregate"),
            (lambda: conformal.OutOfBagConformal(LinearRegression()).fit(X, y), "model"),
            (lambda: conformal.QOOB(BaggingRegressor()).fit(X, y), "model"),
            (lambda: conformal.QOOB(beta=0.6).fit(X, y), "beta"),
            (lambda: conformal.RidgeConformal(-1.0).fit(X, y), "penalty"),
            (lambda: conformal.RidgeConformal().fit(X, y).predict_sets(X[:, :1]), "X"),
            (lambda: conformal.RepeatedSplitConformal(LinearRegression(), splits=0).fit(X, y), "splits"),
            (lambda: conformal.RepeatedSplitConformal(LinearRegression(), fit_share=0.0).fit(X, y), "fit_share"),
        ]
        for at, (make, argument) in enumerate(cases):
            with subtests.test(case=at, argument=argument), pytest.raises(InputError) as caught:
                make()
            assert caught.value.argument == argument, str(caught.value)

    def test_a_wrong_length_names_the_other_column(self) -> None:
        with pytest.raises(InputError, match="y has 2 rows but predicted has 1"):
            conformal.split_intervals([1.0], [1.0, 2.0], [1.0])
        with pytest.raises(InputError, match="new_spread has 1 row but new_predicted has 2"):
            conformal.split_intervals([1.0], [1.0], [1.0, 2.0], spread=[1.0], new_spread=[1.0])


class TestCross:
    def test_leave_one_out_is_the_definition_on_integers(self) -> None:
        """Scores of (9.6) themselves, without intervals: integers, so that no rounding hides a tie."""
        rng = np.random.default_rng(0)
        for case in range(6):
            n = 11
            X, y = rng.integers(0, 3, (n, 1)).astype(float), rng.integers(0, 5, n).astype(float) * 4.0
            model = KNeighborsRegressor(1)
            cross = conformal.CrossConformal(model, folds="leave-one-out", random_state=case).fit(X, y)
            x = np.array([[1.0]])
            center = np.array([learned.center(x).item() for learned in cross.learned_])
            scores = cross.scores_[np.argsort(cross.fold_)]
            values = np.arange(-30.0, 40.0, 0.5)
            for alpha in (0.1, 0.25, 0.5):
                found = cross.predict_sets(np.repeat(x, values.size, axis=0), alpha=alpha)
                wins = (scores < np.abs(values[:, None] - center)).sum(axis=1)
                inside = wins < float((1 - Fraction(str(alpha))) * (n + 1))
                assert (found.covers(values) == inside).all(), (case, alpha)

    def test_folds_leave_out_their_rows(self) -> None:
        X, y = world(40)
        cross = conformal.CrossConformal(LinearRegression(), folds=8).fit(X, y)
        assert np.bincount(cross.fold_).tolist() == [5] * 8
        for k in range(8):
            held = cross.fold_ == k
            model = LinearRegression().fit(X[~held], y[~held])
            np.testing.assert_allclose(cross.scores_[held], np.abs(y[held] - model.predict(X[held])), rtol=1e-9)

    def test_hull_and_plus_contain_the_set(self) -> None:
        X, y = world(60)
        new = world(50, seed=1)[0]
        widths = []
        for aggregate in ("set", "hull", "plus"):
            cross = conformal.CrossConformal(KNeighborsRegressor(1), folds=6, aggregate=aggregate, random_state=0)
            cross.fit(X, y)
            widths.append(cross.predict_sets(new).width)
        assert (widths[0] <= widths[1] + 1e-12).all()
        assert (widths[1] <= widths[2] + 1e-12).all()

    def test_certificates_by_hand(self) -> None:
        assert cross_coverage(0.1, 100, 100).level == pytest.approx(0.8)
        assert cross_coverage(0.1, 100, 10).level == pytest.approx(0.8 - 0.9 / 11)
        assert cross_coverage(0.1, 100, 10).assumption == "independent"
        assert cross_coverage(0.1, 1000, 2).level == pytest.approx(0.8 - 1.8 / 1002)
        assert cross_coverage(0.1, 1000, 2).assumption == "exchangeable"
        uneven = cross_coverage(0.1, 1001, 2)
        assert uneven.level == pytest.approx(0.8 - 1.8 / 1003)
        assert uneven.assumption == "exchangeable"
        X, y = world(20)
        none = conformal.CrossConformal(LinearRegression(), folds=2).fit(X, y).certificate(0.49)
        assert not none
        assert "guarantees nothing" in str(none)


class TestRepeated:
    def test_one_split_is_split_conformal(self) -> None:
        X, y = world(60)
        once = conformal.RepeatedSplitConformal(LinearRegression(), splits=1, random_state=3).fit(X, y)
        for alpha in (0.1, 0.2, 1 / 19):
            sets = once.predict_sets(X[:9], alpha=alpha)
            threshold = conformal.conformal_quantile(once.scores_[0], alpha)
            wanted = once.learned_[0].nested(X[:9]).level(np.asarray(threshold))
            assert sets.ends.tolist() == np.column_stack(wanted).tolist()
        assert once.certificate(0.1).level == pytest.approx(0.9)

    def test_the_set_is_where_the_mean_p_value_is_large(self) -> None:
        X, y = world(40)
        for resample in ("subsample", "bootstrap"):
            many = conformal.RepeatedSplitConformal(LinearRegression(), splits=4, resample=resample).fit(X, y)
            sets = many.predict_sets(X[:1], alpha=0.2)
            for value in np.linspace(-4.0, 4.0, 41):
                p = [
                    conformal.p_values(scores, learned.nested(X[:1]).score(np.array([value])))
                    for learned, scores in zip(many.learned_, many.scores_, strict=True)
                ]
                assert sets.covers([value]).item() == (np.mean(p) > 0.2)
            assert many.certificate(0.1).level == pytest.approx(0.8)


class TestOutOfBag:
    def test_leaf_quantiles_by_hand(self) -> None:
        X, y = world(50)
        forest = RandomForestRegressor(7, min_samples_leaf=4, random_state=0).fit(X, y)
        leaves = LeafQuantiles(forest, X, y)
        new = world(5, seed=1)[0]
        for row, found in zip(new, leaves.quantiles(new, (0.2, 0.8)).T, strict=True):
            weight = np.zeros(50)
            for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
                counts = np.bincount(drawn, minlength=50)
                inside = tree.apply(X.astype(np.float32)) == tree.apply(row[None].astype(np.float32))
                weight += np.where(inside, counts, 0) / counts[inside].sum() / 7
            order = np.argsort(y)
            total = np.cumsum(weight[order])
            wanted = [y[order][np.flatnonzero(total >= level - 1e-9)[0]] for level in (0.2, 0.8)]
            assert found.tolist() == wanted

    @pytest.mark.parametrize("family", ["quantiles", "distribution"])
    def test_qoob_is_its_definition(self, family: Any) -> None:
        """Algorithm 9.2 row by row: the trees without row i, their quantiles, and the count of (9.14)."""
        X, y = world(24)
        y = np.round(y)  # ties
        forest = RandomForestRegressor(9, min_samples_leaf=3, random_state=1)
        qoob = conformal.QOOB(forest, alpha=0.1, family=family, draw_trees=False).fit(X, y)
        new = world(3, seed=2)[0]
        ends = qoob.intervals(new)
        order = np.argsort(y, kind="stable")

        def curve(i: int, row: Any) -> Any:
            weight, trees = np.zeros(24), 0
            for tree, drawn in zip(qoob.model_.estimators_, qoob.model_.estimators_samples_, strict=True):
                counts = np.bincount(drawn, minlength=24)
                if counts[i] == 0:
                    inside = tree.apply(X.astype(np.float32)) == tree.apply(row[None].astype(np.float32))
                    weight += np.where(inside, counts, 0) / counts[inside].sum()
                    trees += 1
            return np.cumsum(weight[order]) / trees if trees else None

        def first(total: Any, level: float) -> float:
            at = np.flatnonzero(total > level)
            return float(y[order][at[0]]) if at.size else np.inf

        for i in range(24):
            own = curve(i, X[i])
            if own is None:
                assert np.isinf(ends[0][:, i]).all()
                continue
            if family == "quantiles":
                lower, upper = first(own, 0.2 - TOLERANCE), first(own, 0.8 + TOLERANCE)
                score = max(lower - y[i], y[i] - upper)
            else:
                upto, below = own[y[order] <= y[i]], own[y[order] < y[i]]
                score = max(0.5 - (upto[-1] if upto.size else 0), (below[-1] if below.size else 0) - 0.5, 0.0)
            assert qoob.scores_[i] == pytest.approx(score, abs=1e-12)
            for at, row in enumerate(new):
                total = curve(i, row)
                if family == "quantiles":
                    wanted = first(total, 0.2 - TOLERANCE) - score, first(total, 0.8 + TOLERANCE) + score
                else:
                    low = 0.5 - score
                    wanted = (
                        first(total, low - TOLERANCE) if low > TOLERANCE else -np.inf,
                        first(total, 0.5 + score + TOLERANCE),
                    )
                assert (ends[0][at, i], ends[1][at, i]) == pytest.approx(wanted, abs=1e-12)

    def test_means_of_unseen_trees(self) -> None:
        X, y = world(40)
        forest = RandomForestRegressor(12, min_samples_leaf=3, random_state=1)
        for family in ("residual", "scaled"):
            found = conformal.OutOfBagConformal(forest, family=family, draw_trees=False).fit(X, y)
            new = world(3, seed=2)[0]
            lower, upper = found.intervals(new)
            for i in range(40):
                trees = [
                    tree
                    for tree, drawn in zip(found.model_.estimators_, found.model_.estimators_samples_, strict=True)
                    if i not in drawn
                ]
                if not trees:
                    continue
                forecasts = np.array([tree.predict(new.astype(np.float32)) for tree in trees])
                own = np.array([tree.predict(X[i : i + 1].astype(np.float32)).item() for tree in trees])
                spread, own_spread = (forecasts.std(axis=0), own.std()) if family == "scaled" else (np.ones(3), 1.0)
                if own_spread < 1e-6 or (spread < 1e-6).any():
                    continue
                score = abs(y[i] - own.mean()) / own_spread
                np.testing.assert_allclose(lower[:, i], forecasts.mean(axis=0) - score * spread, rtol=1e-6, atol=1e-9)
                np.testing.assert_allclose(upper[:, i], forecasts.mean(axis=0) + score * spread, rtol=1e-6, atol=1e-9)

    def test_a_search_in_float32_finds_what_float64_finds(self) -> None:
        """Sums equal to the level, groups far from the others, no tree at all: all are decided in float64."""
        rng = np.random.default_rng(0)
        for trees in (5, 40):
            curves = np.cumsum(rng.multinomial(10, np.full(50, 0.02), trees), axis=1) / 10.0
            curves[0] = 1.0
            groups = (rng.random((64, trees)) < 0.4).astype(float)
            groups[0], groups[1] = 0.0, np.arange(trees) == 0
            levels = np.stack([np.full(64, 0.2 - TOLERANCE), rng.choice([0.5, 0.8, 1.0], 64) + TOLERANCE])
            exact = (groups @ curves)[None] <= (levels * groups.sum(axis=1))[:, :, None]
            np.testing.assert_array_equal(_FirstAbove(groups, levels)(curves), exact.sum(axis=2))

    def test_the_walk_finds_what_the_matrix_of_curves_finds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ties, one row in a leaf, groups without a tree, levels of 0 and 1: in plain Python, which numba compiles."""
        rng = np.random.default_rng(0)
        for least, kinds in ((1, 200), (5, 200), (3, 4)):
            X, y = rng.normal(size=(30, 2)), rng.integers(0, kinds, 30).astype(float)
            forest = RandomForestRegressor(12, min_samples_leaf=least, random_state=0).fit(X, y)
            leaves = LeafQuantiles(forest, X, y)
            groups = (rng.random((20, 12)) < 0.4).astype(float)
            groups[0], groups[1], groups[2] = 0.0, np.arange(12) == 0, 1.0
            levels = rng.choice([0.0, 0.2, 0.25, 0.5], 20), rng.choice([0.5, 0.75, 0.8, 1.0], 20)
            asked = leaves.leaves(rng.normal(size=(10, 2))), groups, *levels
            with monkeypatch.context() as patch:
                patch.setattr(forest_module, "walk_for", lambda pairs: None)
                plain = leaves.group_quantiles(*asked)
                patch.setattr(forest_module, "walk_for", lambda pairs: walk_of(lambda function: function))
                np.testing.assert_array_equal(leaves.group_quantiles(*asked), plain)

    def test_old_rows_are_scored_together_as_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ties, rows that no tree has left out, levels of 0, and rows in parts."""
        rng = np.random.default_rng(2)
        X, y = rng.normal(size=(40, 2)), rng.integers(0, 12, 40).astype(float)
        forest = RandomForestRegressor(6, min_samples_leaf=2, random_state=0).fit(X, y)
        leaves = LeafQuantiles(forest, X, y)
        groups = (leaves.counts.T == 0.0).astype(float)
        groups[3] = 0.0
        for cells, low, high in ((40 * 40, 0.2, 0.8), (3 * 40, 0.0, 1.0), (1, 0.25, 0.5)):
            monkeypatch.setattr(forest_module, "CELLS", cells)
            single = [
                leaves.group_quantiles(own[None], group[None], np.array([low]), np.array([high]))
                for own, group in zip(leaves.own_leaves, groups, strict=True)
            ]
            np.testing.assert_array_equal(leaves.own_quantiles(groups, low, high), np.array(single)[:, :, 0, 0].T)
            ranks = [leaves.rank_score(*row) for row in zip(leaves.own_leaves, groups, y, strict=True)]
            np.testing.assert_allclose(leaves.own_rank_scores(groups, y), ranks, atol=1e-14)

    @pytest.mark.slow
    def test_compiled_sets_are_the_same_bit_for_bit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("numba")
        rng = np.random.default_rng(1)
        X, new = rng.normal(size=(60, 2)), rng.normal(size=(200, 2))
        y = X[:, 0] + np.round(rng.normal(size=60), 1)
        forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0)
        for family in ("quantiles", "distribution"):
            fitted = conformal.QOOB(forest, family=family, random_state=0).fit(X, y)
            with monkeypatch.context() as patch:
                patch.setattr(forest_module, "walk_for", lambda pairs: None)
                plain = fitted.intervals(new)
            assert fitted.compile() is fitted
            walk = walk_for(new.shape[0] * y.size)
            assert walk is not None
            np.testing.assert_array_equal(fitted.intervals(new), plain)
            assert len(walk.signatures) == 1, "compiled again for the rows of a forest"

    def test_without_numba_compiling_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("calibrant.conformal.forests.qoob.compiled_walk", lambda: None)
        with pytest.raises(InputError, match="needs numba") as caught:
            conformal.QOOB().compile()
        assert "calibrant[fast]" in str(caught.value)

    def test_an_exact_forecast_without_spread_has_the_score_0(self) -> None:
        """All trees forecast 0 where the outcome is 0: a mean that is off in its last digit is no infinite error."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 1))
        y = np.where(X[:, 0] < 0.3, 0.0, 0.1 + 7.3 * rng.exponential(size=60))
        plain = X[:, 0] < -0.5
        forest = RandomForestRegressor(60, min_samples_leaf=2, random_state=0)
        for scale in (1.0, 0.3, 1.7):
            found = conformal.OutOfBagConformal(forest, family="scaled", draw_trees=False).fit(X, scale * y)
            np.testing.assert_array_equal(found.scores_[plain], 0.0)
            assert found.predict_sets(X[plain]).covers(y[plain]).all()

    def test_the_number_of_trees_is_drawn_for_a_certificate(self) -> None:
        X, y = world(30)
        forest = RandomForestRegressor(20, min_samples_leaf=3)
        drawn = [conformal.QOOB(forest, random_state=seed).fit(X, y).n_trees_ for seed in range(6)]
        assert len(set(drawn)) > 1
        assert abs(np.mean(drawn) - 20) < 12
        certificate = conformal.QOOB(forest).fit(X, y).certificate(0.1)
        assert certificate.level == pytest.approx(0.8)
        assert "Theorem 9.2" in certificate.theorem
        fixed = conformal.QOOB(forest, draw_trees=False).fit(X, y)
        assert fixed.n_trees_ == 20
        assert not fixed.certificate()
        assert "drawn at random" in str(fixed.certificate())

    def test_bagging_of_any_model_and_subsamples(self) -> None:
        X, y = world(60)
        for options in ({}, {"bootstrap": False, "max_samples": 0.5}, {"max_features": 0.5}):
            bags = BaggingRegressor(LinearRegression(), n_estimators=20, random_state=0, **options)
            found = conformal.OutOfBagConformal(bags).fit(X, y)
            assert found.certificate().level == pytest.approx(0.8)
            assert found.predict_sets(X).summary(y).coverage > 0.7

    def test_bags_that_have_seen_a_row_do_not_score_it(self) -> None:
        """The nearest neighbor repeats the outcome of a row exactly if it has seen it."""
        X, y = world(30)
        bags = BaggingRegressor(KNeighborsRegressor(1), n_estimators=6, random_state=0)
        found = conformal.OutOfBagConformal(bags, draw_trees=False).fit(X, y)
        forecasts = np.array([each.predict(X) for each in found.model_.estimators_])
        assert ((forecasts == y) == (found.unseen_ == 0.0)).all()
        for i in np.flatnonzero(np.isfinite(found.scores_)):
            unseen = found.unseen_[:, i] == 1.0
            assert found.scores_[i] == pytest.approx(abs(y[i] - forecasts[unseen, i].mean()))

    def test_rows_that_all_trees_have_seen_are_no_evidence(self) -> None:
        X, y = world(30)
        found = conformal.QOOB(RandomForestRegressor(1, random_state=0), draw_trees=False).fit(X, y)
        seen = np.isinf(found.scores_)
        assert 0 < seen.sum() < 30
        lower, upper = found.intervals(X[:2])
        assert np.isneginf(lower[:, seen]).all()
        assert np.isposinf(upper[:, seen]).all()

    def test_no_tree_at_all(self) -> None:
        X, y = world(30)
        one = RandomForestRegressor(1, random_state=0)
        none = [conformal.QOOB(one, random_state=seed).fit(X, y) for seed in range(12)]
        empty = next(found for found in none if found.n_trees_ == 0)
        assert np.isinf(empty.predict_sets(X).width).all()

    def test_a_constant_outcome_is_covered(self) -> None:
        """The mean over trees is not exact, but a set never loses a value to rounding."""
        X, y = world(40)[0], np.full(40, 0.1)
        for found in (
            conformal.OutOfBagConformal(),
            conformal.OutOfBagConformal(family="scaled"),
            conformal.QOOB(),
            conformal.QOOB(family="distribution"),
            conformal.CrossConformal(DummyRegressor()),
            conformal.SplitConformal(DummyRegressor()),
        ):
            assert found.fit(X, y).predict_sets(X).covers(y).all()


class TestFull:
    def test_ridge_is_its_definition(self) -> None:
        X, y = world(14)
        new = world(3, seed=5)[0]
        for penalty in (0.0, 2.0):
            full = conformal.RidgeConformal(penalty).fit(X, y)
            for row in new:
                for alpha in (0.1, 0.3):
                    found = full.predict_sets(row[None], alpha=alpha)
                    for value in np.linspace(-6.0, 6.0, 61):
                        design = np.column_stack([np.ones(15), np.vstack([X, row])])
                        outcomes = np.append(y, value)
                        gram = design.T @ design + penalty * np.diag([0.0, 1.0, 1.0])
                        residual = np.abs(outcomes - design @ np.linalg.solve(gram, design.T @ outcomes))
                        p = np.count_nonzero(residual >= residual[-1]) / 15
                        assert found.covers([value]).item() == (p > alpha)

    def test_every_conformal_set_is_a_nested_one(self, subtests: pytest.Subtests) -> None:
        """Gupta (2023), Proposition 9.3, by the sets of its proof; the last score is that of ridge regression."""
        for name, score in nested.SCORES.items():
            with subtests.test(score=name):
                for seed in range(4):
                    others = np.random.default_rng([9, seed]).normal(size=(7, 2))
                    for value in np.linspace(-2.0, 2.0, 5):
                        row = np.array([0.3, value])
                        assert nested.nested_p(score, others, row) == nested.conformal_p(score, others, row)
        others = np.random.default_rng(9).normal(size=(9, 2))
        full = conformal.RidgeConformal(0.0).fit(others[:, :1], others[:, 1])
        for alpha, value in itertools.product((0.15, 0.35, 0.75), np.linspace(-3.0, 3.0, 13)):
            p = nested.nested_p(nested.SCORES["residual"], others, np.array([0.3, value]))
            assert full.predict_sets([[0.3]], alpha=alpha).covers([value]).item() == (p > alpha)

    def test_lines_of_every_kind(self) -> None:
        values = np.arange(-8.0, 8.5, 0.5)
        lines = np.array(list(itertools.product([-2.0, -1.0, 0.0, 1.0, 3.0], [-2.0, -1.0, 0.0, 1.0, 2.0])))
        for a_new, b_new in lines:
            low, high = (end.reshape(2, -1) for end in larger_residuals(lines[:, 0], lines[:, 1], a_new, b_new))
            for value in values:
                wanted = np.abs(lines[:, 0] + lines[:, 1] * value) >= abs(a_new + b_new * value)
                held = ((low - 1e-9 <= value) & (value <= high + 1e-9)).sum(axis=0)
                assert (held == wanted).all(), (a_new, b_new, value)


def test_estimators_can_be_cloned_and_set() -> None:
    for each in (
        conformal.SplitConformal(LinearRegression(), family=conformal.Quantiles(0.2)),
        conformal.CrossConformal(LinearRegression(), folds=3),
        conformal.RepeatedSplitConformal(LinearRegression()),
        conformal.OutOfBagConformal(RandomForestRegressor(3)),
        conformal.QOOB(RandomForestRegressor(3), beta=0.3),
        conformal.RidgeConformal(2.0),
    ):
        again = clone(each).set_params(alpha=0.3)
        assert again.alpha == 0.3
        assert set(again.get_params(deep=False)) == set(each.get_params(deep=False))
        assert type(each).__name__ in repr(again)


def test_printed_sets_state_their_certificate() -> None:
    X, y = world(50)
    text = str(conformal.CrossConformal(LinearRegression(), folds="leave-one-out").fit(X, y).predict_sets(X))
    assert "with probability at least 80 % (Gupta (2023), Theorem 9.1)" in text
    assert "and 45 more rows" in text
    assert "80 %" in conformal.QOOB().fit(X, y).predict_sets(X[:1])._repr_html_()
