"""Calibrators on frames: the fit is that of the tally, and the map runs where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrant import BetaScaling, HistogramBinning, IsotonicCalibrator, PlattScaling, SamplingCorrection, load
from calibrant.engine.frames import tally
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError
from calibrant.shift import match_mean
from calibrant.tallies import Tally

duckdb = pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.engine

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": lambda data: pl.DataFrame(data).lazy(),
    "pyarrow": pa.table,
    "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
}
CALIBRATORS = [PlattScaling(), BetaScaling(), IsotonicCalibrator(), HistogramBinning(n_bins=5)]
READ: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda frame: frame["calibrated"].to_numpy(),
    "polars": lambda frame: frame["calibrated"].to_numpy(),
    "polars lazy": lambda frame: frame.collect()["calibrated"].to_numpy(),
    "pyarrow": lambda frame: frame["calibrated"].to_numpy(),
    "duckdb": lambda frame: frame.to_arrow_table()["calibrated"].to_numpy(),
}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    scores = rng.beta(2, 3, 2_000)
    return {
        "s": scores,
        "y": (rng.random(2_000) < scores**2).astype(int),
        "w": rng.integers(0, 4, 2_000),
        "patient": np.arange(2_000) // 4,
        "day": np.arange(2_000) // 100,
        "word": np.where(rng.random(2_000) < 0.4, "bad", "good"),
    }


def test_a_frame_gives_the_fit_of_its_tally(data: dict[str, Any], subtests) -> None:
    for engine in FRAMES:
        for calibrator in CALIBRATORS:
            with subtests.test(engine=engine, calibrator=type(calibrator).__name__):
                frame = FRAMES[engine](data)
                fitted = calibrator.fit(frame, score="s", label="y")
                map_, provenance, notes = fitted.map_, fitted.provenance_, fitted.notes_
                assert map_ == calibrator.fit_tally(tally(frame, "s", "y")).map_
                assert map_ == calibrator.fit_tally(Tally.from_arrays(data["s"], data["y"])).map_
                assert provenance == calibrator.provenance_
                told = {note.code: str(note) for note in notes}
                assert told.pop("counted-exactly") == "counted in the frame: exact, 2,000 distinct scores"
                assert set(told) <= {"few-for-rich-map"}


def test_weights_and_labels_of_a_frame_mean_what_they_mean_in_arrays(data: dict[str, Any], subtests) -> None:
    for engine in FRAMES:
        with subtests.test(engine=engine):
            frame = FRAMES[engine](data)
            for weights in ("frequency", "importance"):
                there = PlattScaling().fit(frame, score="s", label="y", sample_weight="w", weight_type=weights)
                here = PlattScaling().fit(data["s"], data["y"], data["w"], weight_type=weights)
                assert there.map_.slope == pytest.approx(here.map_.slope, rel=1e-9)
                assert there.provenance_.weight_type == here.provenance_.weight_type
            there = PlattScaling().fit(frame, score="s", label="word", positive="bad")
            assert there.map_ == PlattScaling().fit(data["s"], data["word"], positive="bad").map_


def test_named_groups_or_time_leave_no_certificate(data: dict[str, Any], subtests) -> None:
    for engine in FRAMES:
        with subtests.test(engine=engine):
            frame = FRAMES[engine](data)
            assert not isinstance(HistogramBinning(5).fit(frame, score="s", label="y").certificate(), NoCertificate)
            for names, sampling in (({"groups": "patient"}, "grouped"), ({"time": "day"}, "time-ordered")):
                fitted = HistogramBinning(5).fit(frame, score="s", label="y", **names)
                assert fitted.provenance_.sampling == sampling
                assert isinstance(fitted.certificate(), NoCertificate)
                assert fitted.map_ == HistogramBinning(5).fit(frame, score="s", label="y").map_


def test_more_distinct_scores_than_cells_go_to_the_grid() -> None:
    rng = np.random.default_rng(4)
    scores = rng.random(200_000)
    frame = pa.table({"s": scores, "y": rng.random(200_000) < scores})
    fitted = PlattScaling().fit(frame, score="s", label="y")
    assert [note.code for note in fitted.notes_] == ["counted-on-grid"]
    assert [str(note) for note in fitted.notes_] == ["counted in the frame: on a grid of 65,536 cells"]
    assert "on a grid" in str(fitted)
    exact = PlattScaling().fit(scores, frame["y"].to_numpy())
    assert fitted.map_.slope == pytest.approx(exact.map_.slope, abs=1e-6)


def test_a_frame_in_is_a_frame_out(data: dict[str, Any], subtests) -> None:
    for engine in FRAMES:
        for calibrator in CALIBRATORS:
            with subtests.test(engine=engine, calibrator=type(calibrator).__name__):
                frame = FRAMES[engine](data)
                calibrator.fit(data["s"], data["y"])
                out = calibrator.transform(frame, "s")
                assert type(out) is type(frame)
                np.testing.assert_allclose(READ[engine](out), calibrator.transform(data["s"]), rtol=1e-12, atol=0)


def test_fit_transform_takes_a_frame_too(data: dict[str, Any]) -> None:
    out = PlattScaling().fit_transform(pd.DataFrame(data), score="s", label="y")
    assert out["calibrated"].tolist() == PlattScaling().fit_transform(data["s"], data["y"]).tolist()


def test_the_new_column_may_have_another_name(data: dict[str, Any]) -> None:
    fitted = PlattScaling().fit(data["s"], data["y"])
    assert fitted.transform(pl.DataFrame(data), "s", name="p").columns == [*data, "p"]
    with pytest.raises(InputError, match="is 'y', and the frame already has this column"):
        fitted.transform(pl.DataFrame(data), "s", name="y")


def test_transform_reads_nothing_of_a_lazy_frame(data: dict[str, Any]) -> None:
    def burn(batch: Any) -> Any:
        raise RuntimeError("the source was read")

    fitted = PlattScaling().fit(data["s"], data["y"])
    rows = pl.LazyFrame({"s": [0.5]}).map_batches(burn, schema={"s": pl.Float64})
    assert isinstance(fitted.transform(rows, "s"), pl.LazyFrame)


def test_log_odds_of_a_frame_stay_log_odds(data: dict[str, Any]) -> None:
    frame = pa.table({"z": np.log(data["s"] / (1 - data["s"])).round(2), "y": data["y"]})
    fitted = PlattScaling().fit(frame["z"].to_numpy(), data["y"], score_type="logit")
    out = fitted.transform(frame, "z")
    assert out["calibrated"].to_pylist() == fitted.transform(frame["z"].to_numpy()).tolist()


def wrong_calls(data: dict[str, Any]) -> dict[str, tuple[tuple[Any, ...], dict[str, Any], str]]:
    frame = pd.DataFrame(data)
    named = {"score": "s", "label": "y"}
    return {
        "no label": ((frame,), {"score": "s"}, r"label is missing: pass the name of its column too"),
        "no score": ((frame,), {"label": "y"}, r"score is missing: pass the name of its column too"),
        "labels twice": ((frame, data["y"]), named, r"y and label both name the labels"),
        "no frame": ((data["s"],), named, r"frame is of type ndarray: pass a pandas"),
        "no such score": ((frame,), {"score": "p", "label": "y"}, r"no column 'p': it has 's', 'y'"),
        "no such group": ((frame,), {**named, "groups": "clinic"}, r"no column 'clinic'"),
        "no such time": ((frame,), {**named, "time": "month"}, r"no column 'month'"),
        "no such weight": ((frame,), {**named, "sample_weight": "v"}, r"no column 'v'"),
        "weights as an array": ((frame,), {**named, "sample_weight": data["w"]}, r"sample_weight must name a column"),
        "groups as an array": ((frame,), {**named, "groups": data["patient"]}, r"groups must name a column"),
        "a name without a frame": ((data["s"], data["y"]), {"groups": "patient"}, r"names need a frame"),
        "labels by name": ((data["s"], "y"), {}, r"names need a frame"),
        "no labels": ((data["s"],), {}, r"y is missing: .*fit\(frame, score=\.\.\., label=\.\.\.\)"),
    }


def test_wrong_calls_are_told_what_to_do(data: dict[str, Any]) -> None:
    for case, (arguments, options, sentence) in wrong_calls(data).items():
        with pytest.raises(InputError, match=sentence) as caught:
            PlattScaling().fit(*arguments, **options)
        assert "\n" not in str(caught.value), case


def test_what_was_loaded_or_moved_takes_frames_as_calibrators_do(data, tmp_path, subtests):
    for engine in FRAMES:
        with subtests.test(engine=engine):
            frame = FRAMES[engine](data)
            cal = PlattScaling().fit(data["s"], data["y"])
            cal.save(tmp_path / "map.json")
            undone = SamplingCorrection(kept_negatives=0.1)
            moved = match_mean(cal, data["s"], mean=0.2)
            for each in (load(tmp_path / "map.json"), undone, moved):
                expected = pytest.approx(each.transform(data["s"]), abs=1e-12)
                assert READ[engine](each.transform(frame, "s")) == expected
                assert READ[engine](each.transform(frame, score="s")) == expected
            with pytest.raises(InputError, match="frame is of type ndarray: pass a pandas"):
                cal.calibration_.transform(data["s"], "s")
