"""Out-of-fold scores: no row is mapped by a calibrator that saw it, its group or its future."""

from __future__ import annotations

import numpy as np
import pytest
from tests import worlds

from calibrant import BetaScaling, HistogramBinning, InputError, IsotonicCalibrator, PlattScaling, crossfit

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
        ({"cv": 1}, "cv must be at least 2"),
        ({"groups": np.arange(30), "time": np.arange(30)}, "groups and time cannot both"),
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
