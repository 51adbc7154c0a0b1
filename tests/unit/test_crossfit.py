"""Out-of-fold scores: no row is mapped by a calibrator that saw it, its group or its future."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests import worlds

from calibrant import BetaScaling, HistogramBinning, InputError, IsotonicCalibrator, PlattScaling, crossfit, plan
from calibrant.calibrators import SegmentCalibrator, TemperatureScaling
from calibrant.multiclass import Reduction, VectorScaling
from calibrant.selection.split import split_rows

CALIBRATORS = [PlattScaling(), BetaScaling(), IsotonicCalibrator(), HistogramBinning(n_bins=3)]
by_calibrator = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda cal: type(cal).__name__)


def rows(n: int = 120) -> worlds.Rows:
    return worlds.inflated(n, power=1.5, shape=(1.2, 1.5))


def test_every_row_gets_a_probability(subtests) -> None:
    for calibrator in CALIBRATORS:
        with subtests.test(calibrator=type(calibrator).__name__):
            scores, y = rows()
            out = crossfit(calibrator, scores, y)
            assert out.shape == scores.shape
            assert ((out > 0.0) & (out < 1.0)).all()
            assert not hasattr(calibrator, "map_")  # clones are fitted, the argument is left alone


def test_no_row_depends_on_its_own_label(subtests) -> None:
    """With folds fixed by groups, flipping a label changes other groups' values and not one in its own group."""
    for calibrator in CALIBRATORS:
        with subtests.test(calibrator=type(calibrator).__name__):
            scores, y = rows()
            groups = np.arange(len(y)) % 10
            before = crossfit(calibrator, scores, y, groups=groups)
            moved = 0
            for row in range(0, len(y), 9):
                flipped = y.copy()
                flipped[row] = 1 - flipped[row]
                after = crossfit(calibrator, scores, flipped, groups=groups)
                np.testing.assert_array_equal(after[groups == groups[row]], before[groups == groups[row]])
                moved += int((after != before).any())
            assert moved > 10


class _Recorder(PlattScaling):
    """Platt scaling that remembers which scores each fit and each transform was given."""

    log: list[tuple[str, np.ndarray]]

    def __init__(self) -> None:
        super().__init__()

    def fit(self, scores, y=None, sample_weight=None, **rest):
        _Recorder.log.append(("fit", np.asarray(scores)))
        return super().fit(scores, y, sample_weight, **rest)

    def transform(self, scores):
        _Recorder.log.append(("transform", np.asarray(scores)))
        return super().transform(scores)


def _folds(*args, **kwargs) -> list[tuple[set[float], set[float]]]:
    """Scores that each map was fitted to and applied to."""
    _Recorder.log = []
    crossfit(_Recorder(), *args, **kwargs)
    fits = [set(scores.tolist()) for what, scores in _Recorder.log if what == "fit"]
    maps = [set(scores.tolist()) for what, scores in _Recorder.log if what == "transform"]
    return list(zip(fits, maps, strict=True))


def test_folds_are_disjoint_and_cover_everything() -> None:
    scores, y = rows(103)
    folds = _folds(scores, y, cv=4)
    assert len(folds) == 4
    for train, test in folds:
        assert not train & test
        assert train | test == set(scores.tolist())
    assert set.union(*(test for _, test in folds)) == set(scores.tolist())
    assert sum(len(test) for _, test in folds) == 103


def test_folds_are_stratified_seeded_and_of_like_size() -> None:
    scores, y = rows(100)
    positive = set(scores[y == 1].tolist())
    shares = [len(test & positive) for _, test in _folds(scores, y, cv=5)]
    assert max(shares) - min(shares) <= 1
    assert _folds(scores, y, random_state=1) == _folds(scores, y, random_state=1)
    assert _folds(scores, y, random_state=1) != _folds(scores, y, random_state=2)


def test_groups_stay_together() -> None:
    scores, y = rows(150)
    groups = np.array([f"patient-{k}" for k in np.random.default_rng(3).integers(0, 20, 150)])
    home = dict(zip(scores.tolist(), groups.tolist(), strict=True))
    for train, test in _folds(scores, y, cv=5, groups=groups):
        assert not {home[s] for s in train} & {home[s] for s in test}


def test_time_never_uses_the_future_nor_its_own_moment() -> None:
    scores, y = rows(200)
    time = np.random.default_rng(4).integers(0, 40, 200)
    when = dict(zip(scores.tolist(), time.tolist(), strict=True))
    folds = _folds(scores, y, cv=4, time=time)
    assert len(folds) == 4
    for train, test in folds:
        assert max(when[s] for s in train) < min(when[s] for s in test)
        assert train == {s for s in scores.tolist() if when[s] < min(when[t] for t in test)}  # all of the past


def test_the_first_stretch_has_no_past() -> None:
    scores, y = rows(200)
    time = np.arange(200)[::-1] // 2
    out = crossfit(PlattScaling(), scores, y, cv=3, time=time)
    missing = np.isnan(out)
    assert missing.any()
    assert time[missing].max() < time[~missing].min()
    assert missing.mean() == pytest.approx(1 / 4, abs=0.02)


def test_later_labels_do_not_change_earlier_values(subtests) -> None:
    for calibrator in CALIBRATORS:
        with subtests.test(calibrator=type(calibrator).__name__):
            scores, y = rows(160)
            time = np.arange(160) // 4
            before = crossfit(calibrator, scores, y, cv=4, time=time)
            flipped = y.copy()
            flipped[100:] = 1 - flipped[100:]
            after = crossfit(calibrator, scores, flipped, cv=4, time=time)
            np.testing.assert_array_equal(after[:100], before[:100])


def test_dates_order_rows_as_numbers_do() -> None:
    scores, y = rows(90)
    days = np.random.default_rng(5).integers(0, 30, 90)
    dates = np.datetime64("2024-02-20") + days.astype("timedelta64[D]")
    expected = crossfit(PlattScaling(), scores, y, cv=3, time=days)
    np.testing.assert_array_equal(crossfit(PlattScaling(), scores, y, cv=3, time=dates), expected)
    np.testing.assert_array_equal(crossfit(PlattScaling(), scores, y, cv=3, time=dates.astype(str)), expected)


def test_heavy_moments_still_leave_a_past() -> None:
    """Most rows share one moment: fewer stretches, but nobody is mapped by his own."""
    scores, y = rows(100)
    time = np.repeat([0, 1, 2, 3], [5, 85, 5, 5])
    when = dict(zip(scores.tolist(), time.tolist(), strict=True))
    y[:2] = 0, 1
    for train, test in _folds(scores, y, cv=3, time=time):
        assert max(when[s] for s in train) < min(when[s] for s in test)


def test_the_order_of_rows_does_not_matter_with_time() -> None:
    scores, y = rows(120)
    time = np.arange(120) // 3
    order = np.random.default_rng(6).permutation(120)
    expected = crossfit(PlattScaling(), scores, y, cv=3, time=time)
    shuffled = crossfit(PlattScaling(), scores[order], y[order], cv=3, time=time[order])
    np.testing.assert_allclose(shuffled, expected[order], rtol=1e-12)


def test_weights_reach_the_fits() -> None:
    scores, y = rows(120)
    counts = np.tile([1, 2, 3], 40)
    groups = np.arange(120) // 30  # four folds of equal size, whether rows are weighted or repeated
    again = np.repeat(np.arange(120), counts)
    by_count = crossfit(PlattScaling(), scores, y, counts, cv=4, weight_type="frequency", groups=groups)
    repeated = crossfit(PlattScaling(), scores[again], y[again], cv=4, groups=groups[again])
    np.testing.assert_allclose(by_count[again], repeated, rtol=1e-12)
    assert not np.allclose(by_count, crossfit(PlattScaling(), scores, y, cv=4, groups=groups))


def test_rows_of_weight_zero_are_no_rows() -> None:
    scores, y = rows(120)
    weight = np.ones(120)
    weight[::10] = 0.0
    out = crossfit(PlattScaling(), scores, y, weight)
    assert np.isnan(out[::10]).all()
    np.testing.assert_array_equal(
        out[weight > 0], crossfit(PlattScaling(), scores[weight > 0], y[weight > 0], weight[weight > 0])
    )


def test_labels_and_kinds_pass_through() -> None:
    scores, y = rows(100)
    names = np.where(y == 1, "bad", "good")
    expected = crossfit(PlattScaling(), scores, y)
    np.testing.assert_array_equal(crossfit(PlattScaling(), scores, names, positive="bad"), expected)
    logits = np.log(scores / (1 - scores))
    np.testing.assert_allclose(crossfit(PlattScaling(), logits, y, score_type="logit"), expected, rtol=1e-6)


def test_what_cannot_be_split_is_refused(subtests) -> None:
    for options, sentence in [
        ({"cv": 1}, "cv must be an integer of at least 2"),
        ({"groups": np.zeros(30), "time": np.arange(30)}, "groups leave no earlier row to fit for period 2"),
        ({"groups": np.arange(30) % 3, "cv": 5}, "cv=5 asks for more folds than there are groups, 3: lower it"),
        ({"time": np.arange(30) // 10, "cv": 5}, "cv=5 asks for 6 periods, but there are 3 distinct times"),
        ({"cv": 29}, "cv=29 asks for more folds than there are minority-class rows, 10"),
        ({"groups": np.arange(29)}, "groups has 29 rows"),
    ]:
        with subtests.test(options=options, sentence=sentence):
            scores, y = np.linspace(0.1, 0.9, 30), (np.arange(30) % 3 == 0).astype(int)
            with pytest.raises(InputError, match=sentence):
                crossfit(PlattScaling(), scores, y, **options)


ODD_WEIGHTS = {
    "a None": lambda w: [None, *w[1:].tolist()],
    "only None": lambda w: [None] * len(w),
    "a NaN": lambda w: [np.nan, *w[1:].tolist()],
    "a column": lambda w: w.reshape(-1, 1),
    "a row": lambda w: w.reshape(1, -1),
    "two columns": lambda w: np.column_stack([w, w]),
    "strings": lambda w: w.astype(str),
    "a list": lambda w: w.tolist(),
    "objects": lambda w: w.astype(object),
    "booleans": lambda w: np.arange(len(w)) % 5 > 0,
    "too short": lambda w: w[:-1],
    "a number": lambda w: 1.5,
    "negative": lambda w: -w,
    "all zero": lambda w: 0 * w,
    "small integers": lambda w: np.full(len(w), 2, dtype=np.uint8),
}


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_odd_weights_work_or_are_refused_in_words(subtests) -> None:
    for weights in ["importance", "frequency"]:
        for name in ODD_WEIGHTS:
            with subtests.test(weights=weights, name=name):
                scores, y = rows(100)
                weight = ODD_WEIGHTS[name](np.tile([1.0, 2.0], 50))
                try:
                    out = crossfit(PlattScaling(), scores, y, weight, weight_type=weights)
                except InputError:
                    assert name not in ("a list", "objects", "a column", "small integers")
                    continue
                assert out.shape == scores.shape
                kept = np.asarray(weight, dtype=np.float64).ravel() > 0
                assert np.isnan(out).tolist() == (~kept).tolist()
                plain = crossfit(
                    PlattScaling(), scores, y, np.asarray(weight, dtype=np.float64).ravel(), weight_type=weights
                )
                np.testing.assert_array_equal(out, plain)


def test_with_time_and_groups_no_row_is_mapped_by_its_future_or_its_group() -> None:
    scores, y = rows(240)
    time, groups = np.arange(240), np.random.default_rng(0).integers(0, 60, 240)
    place = {score: row for row, score in enumerate(scores.tolist())}
    for train, test in _folds(scores, y, time=time, groups=groups, cv=3):
        fitted, mapped = (np.array([place[each] for each in part]) for part in (train, test))
        assert fitted.max() < mapped.min()
        assert not set(groups[fitted]) & set(groups[mapped])


def test_a_matrix_is_mapped_by_fits_to_other_rows(subtests) -> None:
    p, y = worlds.classes(90, 3, seed=1, tilt=0.4)
    names = np.array(["a", "b", "c"])[y]
    maps = [TemperatureScaling(), VectorScaling(clamp=1e-6), Reduction("class-wise", PlattScaling())]
    maps.append(Reduction("top-label", PlattScaling(), min_rows=5))
    for calibrator in maps:
        with subtests.test(calibrator=type(calibrator).__name__):
            groups = np.arange(90) % 9
            out = crossfit(calibrator, p, names, groups=groups, cv=3)
            assert out.shape == (90, 1 if calibrator is maps[-1] else 3)
            moved = names.copy()
            moved[0] = "c" if names[0] != "c" else "a"
            again = crossfit(calibrator, p, moved, groups=groups, cv=3)
            np.testing.assert_array_equal(again[groups == 0], out[groups == 0])
            assert (again != out).any()
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    np.testing.assert_array_equal(
        crossfit(TemperatureScaling(), frame, names), crossfit(TemperatureScaling(), p, names)
    )
    assert crossfit(None, p[:, :2] / p[:, :2].sum(axis=1, keepdims=True), y == 1).shape == (90,)


def test_a_matrix_walks_forward_and_rows_of_weight_zero_are_nan() -> None:
    p, y = worlds.classes(60, 3, seed=2)
    weights = np.ones(60)
    weights[5] = 0
    out = crossfit(TemperatureScaling(), p, y, weights, time=np.arange(60), cv=3)
    assert np.isnan(out).all(axis=1).sum() == 16  # the first period, with the row of weight 0 in it
    assert np.isnan(out[5]).all()
    assert np.isnan(out[:15]).all()


def test_a_matrix_of_labels_is_one_problem_per_column() -> None:
    rng = np.random.default_rng(3)
    s = rng.random((200, 3))
    y = (rng.random((200, 3)) < s**2).astype(int)
    out = crossfit(PlattScaling(), s, y)
    for place in range(3):
        np.testing.assert_array_equal(out[:, place], crossfit(PlattScaling(), s[:, place], y[:, place]))
    with pytest.raises(InputError, match="y has shape \\(200, 2\\) and scores \\(200, 3\\)"):
        crossfit(PlattScaling(), s, y[:, :2])
    with pytest.raises(InputError, match="hold other values than 0 and 1"):
        crossfit(PlattScaling(), s, y * 2)
    with pytest.raises(InputError, match="calibrator of several classes"):
        crossfit(PlattScaling(), s / s.sum(axis=1, keepdims=True), np.eye(3, dtype=int)[y.argmax(axis=1)])


def test_segments_are_fitted_and_mapped_by_fold() -> None:
    scores, y, segment = worlds.segments({"east": -1.0, "west": 1.0}, n=600, seed=4)
    out = crossfit(SegmentCalibrator(PlattScaling()), scores, y, by=segment)
    assert out[segment == "west"].mean() > out[segment == "east"].mean() + 0.2
    assert np.isfinite(out).all()


def test_a_calibrator_that_does_not_fit_the_scores_is_refused(subtests) -> None:
    p, y = worlds.classes(60, 3, seed=2)
    for call, sentence in [
        (lambda: crossfit(PlattScaling(), p, y), "calibrator must be a calibrator of several classes"),
        (lambda: crossfit(VectorScaling(), p[:, 0], y == 0), "calibrator must be a calibrator of one score"),
        (lambda: crossfit(TemperatureScaling(), p, y, positive=1), "positive cannot be combined with a matrix"),
        (lambda: crossfit(PlattScaling(), p[:, 0], y == 0, classes=[0, 1]), "classes are for a matrix"),
        (lambda: crossfit(PlattScaling(), p[:, 0], y == 0, by=y), "by needs a calibrator by segment"),
    ]:
        with subtests.test(sentence=sentence), pytest.raises(InputError, match=sentence):
            call()


def test_a_split_by_time_and_groups_keeps_both_apart() -> None:
    rng = np.random.default_rng(5)
    time, groups = rng.permutation(300), rng.integers(0, 80, 300)
    train, calibrate, test = split_rows(300, time=time, groups=groups)
    assert time[train].max() < time[calibrate].min() < time[calibrate].max() < time[test].min()
    sets = [set(groups[part]) for part in (train, calibrate, test)]
    assert not sets[0] & sets[1]
    assert not (sets[0] | sets[1]) & sets[2]
    np.testing.assert_array_equal(test, split_rows(300, time=time).test)
    with pytest.raises(InputError, match="groups leave the training set empty"):
        split_rows(30, time=np.arange(30), groups=np.zeros(30))


def test_two_columns_of_two_classes_are_read_as_the_second(subtests) -> None:
    scores, y = rows()
    two = np.column_stack([1 - scores, scores])
    for form, given in {"array": two, "list": two.tolist(), "frame": pd.DataFrame(two, columns=["no", "yes"])}.items():
        with subtests.test(form=form):
            np.testing.assert_array_equal(crossfit(PlattScaling(), given, y), crossfit(PlattScaling(), scores, y))
            one, other = (PlattScaling().fit(each, y) for each in (scores, given))
            assert one.map_ == other.map_
            np.testing.assert_array_equal(np.asarray(other.transform(given))[:, 1], one.transform(scores))
            assert type(other.transform(given)) is (pd.DataFrame if form == "frame" else np.ndarray)
    assert "the second is read" in str(PlattScaling().fit(two, y))
    names = np.where(y == 1, "bad", "good")
    first, rest = PlattScaling().fit(two, names, positive="bad"), PlattScaling().fit(1 - scores, y)
    assert first.map_ == rest.map_
    np.testing.assert_array_equal(first.transform(two)[:, 0], rest.transform(1 - scores))
    with pytest.raises(InputError) as told:
        PlattScaling().fit(two * 1.5, y)
    assert told.value.argument == "scores"


def test_a_plan_for_several_classes_shares_alpha() -> None:
    wise = plan(n_bins=10, epsilon=0.1, n_classes=5, notion="class-wise")
    assert wise.n == plan(n_bins=10, epsilon=0.1, alpha=0.02).n
    assert wise.alpha == 0.1
    p = worlds.classes(200, 4, seed=1)[0]
    made = plan(n=2000, n_bins=3, scores=p)
    assert (made.classes, made.notion, len(made.outlook)) == (4, "confidence", 3)
    assert made.epsilon == plan(n=2000, n_bins=3).epsilon
    assert "labels for each predicted class" in str(plan(n=900, n_bins=3, n_classes=4, notion="top-label"))
    with pytest.raises(InputError, match="n_classes must be an integer of at least 2"):
        plan(n=900, n_bins=3, n_classes=1)
