"""`check(..., calibration=)` of a map that needs the groups of the rows: where they are found, and what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant import InputError, PlattScaling, SegmentCalibrator, Tally, check
from calibrant.calibration import Calibration
from calibrant.engine import GroupedTally
from calibrant.engine import tally as tally_frame
from calibrant.maps import ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap
from calibrant.numerics import expit, logit

SHIFTS = {"north": 1.0, "south": -1.0}
BY_REGION = ByGroupMap(
    "region", tuple(SHIFTS), tuple(LogitAffineMap(1.0, shift) for shift in SHIFTS.values()), IdentityMap()
)


def world(n: int = 4000, seed: int = 0) -> dict[str, Any]:
    """Labels that are right once the level of the region is added."""
    rng = np.random.default_rng([31, seed])
    region = rng.choice(list(SHIFTS), n)
    scores = rng.beta(2, 5, n)
    p = expit(logit(scores) + np.vectorize(SHIFTS.get)(region))
    return {
        "s": scores,
        "y": (rng.random(n) < p).astype(int),
        "region": region.astype(object),
        "half": np.arange(n) % 2,
    }


def frame_of(library: str, table: dict[str, Any]) -> Any:
    module = pytest.importorskip(library)
    if library == "duckdb":
        return module.from_arrow(pytest.importorskip("pyarrow").table(table))
    return getattr(module, "table" if library == "pyarrow" else "DataFrame")(table)


def test_the_columns_of_the_map_are_found_in_a_frame(subtests):
    table = world()
    right = check(BY_REGION.apply(table["s"], table["region"]), table["y"])
    for library in ["pandas", "polars", "pyarrow", "duckdb"]:
        with subtests.test(library=library):
            frame = frame_of(library, table)
            plain = check(frame, score="s", label="y", calibration=BY_REGION)
            assert plain.status == right.status == "calibrated"
            assert plain.predicted == pytest.approx(right.predicted)
            assert plain.segments == ()
            by_half = check(frame, score="s", label="y", by=["half"], calibration=BY_REGION)
            assert by_half.predicted == pytest.approx(right.predicted)
            assert len(by_half.segments) == 2


def test_rows_without_a_group_and_of_weight_zero_in_a_frame():
    pandas = pytest.importorskip("pandas")
    table = world(2000)
    table["w"] = np.where(np.arange(2000) % 5 == 0, 0.0, 1.0)
    table["region"][1:3] = None
    verdict = check(
        pandas.DataFrame(table), score="s", label="y", sample_weight="w", weight_type="frequency", calibration=BY_REGION
    )
    kept = table["w"] > 0
    assert verdict.predicted == pytest.approx(BY_REGION.apply(table["s"], table["region"])[kept].sum())


def test_a_frame_without_the_column_is_told_which():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(world(500)).drop(columns="region")
    with pytest.raises(
        InputError, match=r"calibration needs the column 'region', which the frame does not have: its columns are 's'"
    ):
        check(frame, score="s", label="y", calibration=BY_REGION)


def test_arrays_take_the_columns_from_by():
    pandas, table = pytest.importorskip("pandas"), world()
    right = BY_REGION.apply(table["s"], table["region"]).sum()
    named = pandas.DataFrame({"region": table["region"], "half": table["half"]})
    for by in (
        table["region"],
        {"region": table["region"]},
        named,
        named["region"],
        {"half": table["half"], "region": table["region"]},
    ):
        verdict = check(table["s"], table["y"], by=by, calibration=BY_REGION)
        assert verdict.predicted == pytest.approx(right)


def test_the_sentence_names_the_right_argument(subtests):
    for given, words in [
        ({}, r"needs the column 'region' besides the scores: pass by, "),
        ({"groups": "region"}, r"needs the column 'region' besides the scores: pass by, "),
        ({"by": {"half": "half"}}, "by has no column 'region', which this map needs: it has 'half'"),
    ]:
        with subtests.test(given=given, words=words):
            table = world(500)
            arrays = {
                name: {key: table[column] for key, column in value.items()} if isinstance(value, dict) else table[value]
                for name, value in given.items()
            }
            with pytest.raises(InputError, match=words):
                check(table["s"], table["y"], calibration=BY_REGION, **arrays)


def test_a_series_of_another_name_is_not_taken_for_the_column():
    pandas, table = pytest.importorskip("pandas"), world(500)
    with pytest.raises(InputError, match="by has no column 'region'"):
        check(table["s"], table["y"], by=pandas.Series(table["region"], name="land"), calibration=BY_REGION)


def test_two_columns_need_their_names():
    table = world(500)
    two = ComposeMap((BY_REGION, ByGroupMap("half", ("0",), (LogitAffineMap(1.0, 0.5),), IdentityMap())))
    with pytest.raises(InputError, match="by name"):
        check(table["s"], table["y"], by=table["region"], calibration=two)
    check(table["s"], table["y"], by={"region": table["region"], "half": table["half"]}, calibration=two)


@pytest.mark.parametrize("grouped", [False, True])
def test_a_tally_has_no_columns(grouped):
    table = world(500)
    tally = Tally.from_arrays(table["s"], table["y"])
    with pytest.raises(InputError, match="which the tally does not contain: count by this column"):
        check(GroupedTally({"north": tally}) if grouped else tally, calibration=Calibration(BY_REGION))


def test_a_tally_by_the_column_of_the_map_is_judged_segment_by_segment():
    pandas, table = pytest.importorskip("pandas"), world()
    frame = pandas.DataFrame({name: table[name] for name in ("s", "y", "region", "half")})
    expected = check(frame, score="s", label="y", by="region", calibration=BY_REGION)
    counted = tally_frame(frame, "s", "y", by=["region", "half"])
    assert counted.columns == (counted + counted).columns == ("region", "half")
    verdict = check(tally_frame(frame, "s", "y", by="region"), calibration=Calibration(BY_REGION))
    assert verdict.predicted == pytest.approx(expected.predicted, rel=1e-3)
    assert {(each.column, each.value): each.events for each in verdict.segments} == {
        (each.column, each.value): each.events for each in expected.segments
    }
    assert {each.column for each in check(counted, calibration=BY_REGION).segments} == {"region, half"}
    some = ByGroupMap("region", ("north",), (IdentityMap(),), None)
    assert "rows-without-probability" in {each.code for each in check(counted, calibration=some).notes}


def test_a_map_by_segment_on_its_own_rows_says_why_it_is_not_cross_fitted():
    table = world()
    cal = SegmentCalibrator(PlattScaling()).fit(table["s"], table["y"], {"region": table["region"]})
    for given in (cal, cal.calibration_):
        verdict = check(table["s"], table["y"], by={"region": table["region"]}, calibration=given)
        assert verdict.in_sample
        assert verdict.status == "cannot tell"
        assert "maps by segment are not cross-validated here" in str(verdict)
    fresh = world(seed=1)
    verdict = check(fresh["s"], fresh["y"], by={"region": fresh["region"]}, calibration=cal)
    assert verdict.status == "calibrated"
    assert "not cross-validated here" not in str(verdict)


def test_segments_that_came_to_nothing_are_not_fitted_anew_from_a_tally():
    table = world(600)
    cal = SegmentCalibrator(PlattScaling(), segment_method="multicalibrate").fit(
        table["s"], table["y"], np.arange(600) % 2
    )
    assert not cal.map_.columns
    verdict = check(Tally.from_arrays(table["s"], table["y"]), calibration=cal)
    assert verdict.in_sample
    assert not verdict.crossfitted


def test_segments_may_come_as_a_frame():
    pandas, table = pytest.importorskip("pandas"), world()
    frame = pandas.DataFrame({"region": table["region"], "half": table["half"]})
    verdict = check(table["s"], table["y"], by=frame)
    assert verdict.segments == check(table["s"], table["y"], by=dict(frame)).segments
    assert {each.column for each in verdict.segments} == {"region", "half"}
