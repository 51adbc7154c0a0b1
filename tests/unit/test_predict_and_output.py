"""What scikit-learn users expect of calibrators: predict, set_output, scorers, and a Series for a Series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from tests import worlds

from calibrant import (
    BetaScaling,
    Calibration,
    HistogramBinning,
    InputError,
    PlattScaling,
    SegmentCalibrator,
    Tally,
    TemperatureScaling,
    VennAbers,
    load,
)
from calibrant.maps import IdentityMap
from calibrant.multiclass import TopLabelHistogramBinning, VectorScaling

S, Y = worlds.inflated(400)


# --- predict ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [PlattScaling(), VennAbers(), TemperatureScaling()], ids=repr)
def test_predict_is_the_more_likely_class(calibrator: Any) -> None:
    cal = clone(calibrator).fit(S, Y)
    np.testing.assert_array_equal(cal.predict(S), (cal.transform(S) > 0.5).astype(int))
    np.testing.assert_array_equal(cal.predict(S), cal.classes_[cal.predict_proba(S).argmax(axis=1)])


def test_classes_are_those_of_the_labels(subtests) -> None:
    pd = pytest.importorskip("pandas")
    for labels, positive, classes in (
        (Y, None, [0, 1]),
        (2 * Y - 1, None, [-1, 1]),
        (Y == 1, None, [False, True]),
        (pd.Series(Y == 1).astype("boolean"), None, [False, True]),
        (np.where(Y == 1, "bad", "good"), "bad", ["good", "bad"]),
        (np.where(Y == 1, 3, 7), 3, [7, 3]),
    ):
        with subtests.test(classes=classes):
            cal = PlattScaling().fit(S, labels, positive=positive)
            assert cal.classes_.tolist() == classes
            assert np.mean(cal.predict(S) == np.asarray(labels)) > 0.7
    assert PlattScaling().fit_tally(Tally.from_arrays(S, Y)).classes_.tolist() == [0, 1]


def test_a_row_without_a_probability_has_no_class() -> None:
    with pytest.raises(
        InputError, match="scores has no probability at row 1 counted from 0, so there is no more likely class"
    ):
        PlattScaling().fit(S, Y).predict([0.2, np.nan])


def test_segments_are_passed_on() -> None:
    by = np.where(np.arange(400) % 2, "a", "b")
    cal = SegmentCalibrator(PlattScaling()).fit(S, Y, by)
    np.testing.assert_array_equal(cal.predict(S, by=by), (cal.transform(S, by) > 0.5).astype(int))


def test_cross_val_predict_and_scores() -> None:
    assert is_classifier(PlattScaling())
    p = cross_val_predict(PlattScaling(), S, Y, cv=3, method="predict_proba")
    assert p.shape == (400, 2)
    assert set(cross_val_predict(PlattScaling(), S, Y, cv=3)) == {0, 1}
    assert (cross_val_score(BetaScaling(), S, Y, scoring="neg_log_loss", error_score="raise") > -0.6).all()
    search = GridSearchCV(HistogramBinning(), {"n_bins": [1, 5]}, scoring="neg_log_loss", cv=3, error_score="raise")
    assert search.fit(S, Y).best_params_ == {"n_bins": 5}
    rows, y = worlds.overconfident_classes(400, power=2.0)
    assert cross_val_predict(VectorScaling(), rows, y, cv=3, method="predict_proba").shape == (400, 3)
    scores = cross_val_score(TemperatureScaling(), rows, y, scoring="neg_log_loss", error_score="raise")
    assert np.isfinite(scores).all()


# --- Series -----------------------------------------------------------------------------------------------------------


def test_a_series_of_pandas_keeps_its_index_and_name(tmp_path: Any) -> None:
    pd = pytest.importorskip("pandas")
    given = pd.Series(S[:5], index=[7, 3, 9, 1, 0], name="risk")
    cal = PlattScaling().fit(S, Y)
    cal.save(tmp_path / "map.json")
    for each in (cal, cal.calibration_, load(tmp_path / "map.json"), SegmentCalibrator(PlattScaling()).fit(S, Y, Y)):
        p = each.transform(given) if not isinstance(each, SegmentCalibrator) else each.transform(given, Y[:5])
        assert isinstance(p, pd.Series)
        assert p.index.equals(given.index)
        assert p.name == "risk"
    np.testing.assert_array_equal(cal.transform(given).to_numpy(), cal.transform(S[:5]))
    assert cal.transform(given.astype("float32")).dtype == np.float32
    assert cal.transform(pd.Series([0.1, None], dtype="Float64")).isna().tolist() == [False, True]
    assert isinstance(cal.predict_proba(given), np.ndarray)
    assert all(isinstance(each, pd.Series) for each in VennAbers().fit(S, Y).interval(given))


def test_a_series_of_polars_keeps_its_name() -> None:
    pl = pytest.importorskip("polars")
    p = PlattScaling().fit(S, Y).transform(pl.Series("risk", S[:5]))
    assert isinstance(p, pl.Series)
    assert p.name == "risk"
    assert PlattScaling().fit(S, Y).predict_proba(pl.Series(S[:5])).shape == (5, 2)


def test_other_columns_give_arrays() -> None:
    cal = PlattScaling().fit(S, Y)
    assert all(type(cal.transform(each)) is np.ndarray for each in (S.tolist(), S, S.reshape(-1, 1)))


# --- set_output -------------------------------------------------------------------------------------------------------


def test_set_output_gives_frames() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    cal = PlattScaling().fit(S, Y).set_output(transform="pandas")
    series = pd.Series(S[:3], index=list("xyz"))
    frame = cal.transform(series)
    assert frame.columns.tolist() == cal.get_feature_names_out().tolist() == ["calibrated"]
    assert frame.index.tolist() == ["x", "y", "z"]
    assert isinstance(cal.set_output(transform="polars").transform(S[:3]), pl.DataFrame)
    assert isinstance(cal.set_output().transform(S[:3]), pl.DataFrame)  # None changes nothing
    assert type(cal.set_output(transform="default").transform(S[:3])) is np.ndarray
    assert cal.set_output(transform="pandas").predict_proba(S[:3]).shape == (3, 2)
    with pytest.raises(InputError, match="transform is 'arrow', which is not an option"):
        cal.set_output(transform="arrow")


def test_set_output_of_several_classes_survives_a_clone() -> None:
    pd = pytest.importorskip("pandas")
    rows, y = worlds.overconfident_classes(400)
    cal = clone(VectorScaling().set_output(transform="pandas")).fit(rows, np.array(["a", "b", "c"])[y])
    assert cal.transform(rows[:2]).columns.tolist() == ["a", "b", "c"]
    top = TopLabelHistogramBinning(n_bins=1).fit(*worlds.overconfident_classes(1_500)).set_output(transform="pandas")
    assert isinstance(top.transform(rows[:2]), pd.DataFrame)
    assert top.get_feature_names_out().tolist() == ["top 1"]


# --- files ------------------------------------------------------------------------------------------------------------


def test_names_of_other_formats_are_refused(tmp_path: Any, subtests) -> None:
    for name, instead in (("map.pkl", "pickle.dump"), ("map.onnx", "export_onnx"), ("map.SQL", "export_sql")):
        with subtests.test(name):
            with pytest.raises(InputError, match=rf"path ends in .*, but save writes JSON: pass 'map.json'; {instead}"):
                Calibration(IdentityMap()).save(tmp_path / name)
            assert not (tmp_path / name).exists()
    for name in ("map.json", "map", "map.v2"):
        Calibration(IdentityMap()).save(tmp_path / name)
