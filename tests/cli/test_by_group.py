"""``fit`` by segment, ``apply`` and ``export`` of a map by group: its columns are found by name in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.maps import ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, Map, StepMap

duckdb = pytest.importorskip("duckdb")

HIGH, LOW = StepMap([], [0.75]), StepMap([], [0.25])


@pytest.fixture
def calibrant(run: Any) -> Callable[..., Any]:
    """A command that must end with this code."""

    def command(*words: Any, code: int = 0) -> Any:
        done = run(*words)
        assert done.exit_code == code, (done.stdout, done.stderr)
        return done

    return command


def stored(map_: Map) -> str:
    Calibration(map_).save("map.json")
    return "map.json"


def test_a_csv_stays_as_it_is_written_and_finds_its_groups(calibrant: Any, tmp_path: Path) -> None:
    """A file is read for its groups as it is read when they are counted: True is a truth value, 007 is text."""
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("score,branch,flag\n0.5,007,True\n0.50,12,False\n0.5,,\n")
    by_branch = ByGroupMap("branch", ("007", 12), (HIGH, LOW), IdentityMap())
    calibrant("apply", rows, "--map", stored(by_branch), "--out", out)
    assert out.read_text().splitlines()[1:] == ["0.5,007,True,0.75", "0.50,12,False,0.25", "0.5,,,0.5"]
    by_flag = ByGroupMap("flag", (True,), (HIGH,), None)
    said = calibrant("apply", rows, "--map", stored(by_flag), "--out", out, "--force")
    assert out.read_text().splitlines()[1:] == ["0.5,007,True,0.75", "0.50,12,False,", "0.5,,,"]
    assert "2 rows without a score or a group of the map in 'flag' have no probability" in " ".join(said.stdout.split())


def test_columns_of_groups_are_renamed(calibrant: Any, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    duckdb.sql("SELECT * FROM (VALUES (0.5, 'n', 1), (0.5, 's', 2)) AS t(score, area, shop)").write_parquet(str(rows))
    groups = ByGroupMap("region", ("n",), (HIGH,), LOW), ByGroupMap("branch", (1,), (IdentityMap(),), None)
    path = stored(ComposeMap(groups))
    told = calibrant("apply", rows, "--map", path, "--out", out, code=1).stderr
    assert "has no column 'region' (--by region=COL)" in told
    calibrant("apply", rows, "--map", path, "--out", out, "--by", "region=area", "--by", "branch=shop")
    assert duckdb.read_parquet(str(out)).project("calibrated").fetchall() == [(0.75,), (None,)]
    told = calibrant("apply", rows, "--map", path, "--out", out, "--force", "--by", "area=region", code=1).stderr
    assert "is not a group column of this map: it needs 'region', 'branch'" in told


def test_a_map_without_segments_takes_the_commands_of_one_with_segments(calibrant: Any, tmp_path: Path) -> None:
    """What a fit by segment writes on a day on which no segment differs."""
    rng = np.random.default_rng(3)
    scores, region = rng.beta(1.0, 20.0, 4_000), rng.choice(["n", "s"], 4_000)
    fit = cb.SegmentCalibrator(cb.PlattScaling()).fit(scores, rng.random(4_000) < scores, {"region": region})
    fit.save("none.json")
    calibrant(
        "export", "none.json", "--score", "p", "--by", "region=area", "--table", "segments.csv", "--out", "map.sql"
    )
    assert Path("segments.csv").read_text().splitlines() == ["map_id,step,segment_column,segment,slope,intercept"]
    Path("rows.csv").write_text("score,area\n0.01,n\n")
    calibrant("apply", "rows.csv", "--map", "none.json", "--by", "region=area", "--out", "out.csv")
    assert "calibrated" in Path("out.csv").read_text()


def test_a_map_by_group_is_exported_and_verified(calibrant: Any, tmp_path: Path) -> None:
    region = ByGroupMap("region", ("n", "it's"), (LogitAffineMap(1.2, 0.1), LogitAffineMap(0.9, 0.0)), None)
    path = stored(region)
    for name, more in (("map.sql", ["--by", "region=area code"]), ("map.onnx", [])):
        calibrant("export", path, "--out", tmp_path / name, *more)
        calibrant("verify", tmp_path / name)
    assert '"area code"' in (tmp_path / "map.sql").read_text()
    assert (
        "does not apply to ONNX"
        in calibrant("export", path, "--out", tmp_path / "b.onnx", "--by", "region=a", code=1).stderr
    )
    proof = json.loads(calibrant("export", path, "--json").stdout)
    assert "'it''s'" in proof["expression"]


def test_a_column_of_groups_may_be_named_as_in_the_map(calibrant: Any, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("score,region\n0.5,n\n")
    path = stored(ByGroupMap("region", ("n",), (HIGH,), LOW))
    calibrant("apply", rows, "--map", path, "--out", out, "--by", "region")
    assert out.read_text().splitlines()[1] == "0.5,n,0.75"


def test_rows_of_groups_that_the_map_does_not_list_are_counted(calibrant: Any, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    rows.write_text("score,region\n0.5,n\n0.5,x\n0.5,x\n0.5,it's\n0.5,\n")
    words = ["apply", rows, "--map", stored(ByGroupMap("region", ("n", "it's"), (HIGH, HIGH), LOW)), "--out", out]
    told = " ".join(calibrant(*words).stdout.split())
    assert "2 rows have a group in 'region' that the map does not list, such as 'x': the global map was used." in told
    words[3] = stored(ByGroupMap("region", ("n", "x"), (HIGH, HIGH), None))
    told = json.loads(calibrant(*words, "--force", "--json").stdout)
    assert told["unlisted"] == [{"column": "region", "rows": 1, "examples": ["it's"], "mapped": False}]
    assert told["missing"] == 2


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_no_row_with_a_group_of_the_map_is_a_mistake(calibrant: Any, tmp_path: Path, end: str) -> None:
    rows, out = tmp_path / f"rows.{end}", tmp_path / f"out.{end}"
    found = duckdb.sql("SELECT * FROM (VALUES (0.5, 'x3'), (0.5, NULL)) AS t(score, region)")
    found.write_parquet(str(rows)) if end == "parquet" else found.write_csv(str(rows))
    words = ["apply", rows, "--map", stored(ByGroupMap("region", (3, 4), (HIGH, LOW), LOW)), "--out", out]
    told = calibrant(*words, code=1).stderr
    assert (
        "the column 'region' has no group of the map, which lists '3', '4' in 'region': the column contains 'x3'"
        in told
    )
    assert "pass the right column with --by region=COL, or pass --allow-unlisted" in told
    assert not out.exists()
    assert "1 row has a group in 'region'" in " ".join(calibrant(*words, "--allow-unlisted").stdout.split())


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_whole_numbers_with_gaps_as_pandas_writes_them_are_groups(
    calibrant: Any, tmp_path: Path, end: str, to: str
) -> None:
    rows, out = tmp_path / f"rows.{end}", tmp_path / f"out.{to}"
    if end == "csv":
        rows.write_text("score,edu\n0.5,3.0\n0.5,\n0.5,4.0\n")
    else:
        values = "(0.5, 3.0::DOUBLE), (0.5, NULL), (0.5, 4.0)"
        duckdb.sql(f"SELECT * FROM (VALUES {values}) AS t(score, edu)").write_parquet(str(rows))
    path = stored(ByGroupMap("edu", (3,), (HIGH,), LOW))
    calibrant("apply", rows, "--map", path, "--out", out)
    written = duckdb.read_csv(str(out)) if to == "csv" else duckdb.read_parquet(str(out))
    assert written.project("edu, calibrated").fetchall() == [(3.0, 0.75), (None, 0.25), (4.0, 0.25)]
    assert (end, to) != ("csv", "csv") or "0.5,3.0,0.75" in out.read_text()
    rows.with_suffix(".csv").write_text("score,edu\n0.5,3.0\n0.5,3.5\n")
    told = calibrant("apply", rows.with_suffix(".csv"), "--map", path, "--out", out, "--force", code=1).stderr
    assert "the column 'edu' (--by edu=COL) contains 3.5: groups must be text, integers or booleans" in told


# --------------------------------------------------------------------------------------------------- fitted by segment


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--by", "land"], {"by": "land"}),
        (["--by", "land", "--by", "w"], {"by": ["land", "w"]}),
        (["--by", "land", "--multicalibrate"], {"by": "land", "segment_method": "multicalibrate"}),
        (["--source", "land"], {"source": "land"}),
    ],
)
def test_fit_by_segment_is_that_of_the_library(
    calibrant: Any, columns: dict[str, Any], words: list[str], options: dict[str, Any]
) -> None:
    frame = pytest.importorskip("pandas").DataFrame(columns)
    expected = cb.calibrate(frame, score="score", label="mixed", **options)
    done = calibrant("fit", "rows.parquet", "--label", "mixed", *words, "--out", "m.json", "--json")
    assert cb.load("m.json").map == expected.map_
    told = json.loads(done.stdout)["by_segment"]
    assert told["segments"] == expected.segments_.to_dict()["segments"]
    assert told["change"]["value"] == expected.change_.value
    calibrant("apply", "rows.csv", "--map", "m.json", "--out", "out.csv")


@pytest.mark.parametrize("words", [["--by", "land"], ["--by", "land", "--multicalibrate"], ["--source", "land"]])
def test_fit_by_segment_says_it_in_options(calibrant: Any, words: list[str]) -> None:
    told = " ".join(calibrant("fit", "rows.csv", "--label", "mixed", *words, "--out", "m.json").stdout.split())
    assert not any(python in told for python in ("segments_", "sources_", "comparison_", "HistogramBinning"))
    assert "All segments: --json." in told
    assert ("Candidates for the global map" in told) == ("--by" in words)


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_check_finds_the_groups_of_the_map_in_the_file(calibrant: Any, end: str) -> None:
    calibrant("fit", "rows.csv", "--label", "mixed", "--by", "land", "--out", "m.json")
    told = calibrant("check", f"rows.{end}", "--label", "mixed", "--map", "m.json", code=11).stdout
    assert told.startswith("In-sample: the map was fitted to about 100 %")


def test_a_method_may_be_named_for_the_map_of_all(calibrant: Any, columns: dict[str, Any]) -> None:
    words = ["fit", "rows.csv", "--label", "mixed", "--by", "land", "--method", "platt", "--out", "m.json"]
    told = " ".join(calibrant(*words).stdout.split())
    assert told.startswith("SegmentCalibrator(calibrator=PlattScaling()) fitted to 4,000 probability scores")
    assert "Saved as m.json" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--multicalibrate", "--multicalibrate needs segments: pass their columns with --by, or leave it out"),
        ("--by land --source w", "--by and --source cannot be combined: join the columns into one"),
        ("--by land --guarantee 0.001", "--guarantee 0.001 cannot be met in any segment of 'land'"),
        ("--by land --guarantee 0.3 --groups patient", "--guarantee cannot be met: rows of the same group"),
        ("--source lnd", "rows.csv has no column 'lnd' (--source): did you mean 'land'?"),
        ("--by score", "--by score holds 0."),
    ],
)
def test_what_cannot_be_fitted_by_segment_is_told(calibrant: Any, words: str, told: str) -> None:
    assert told in calibrant("fit", "rows.csv", *words.split(), "--out", "m.json", code=1).stderr


def test_a_store_is_fitted_by_its_own_segments_only(calibrant: Any) -> None:
    calibrant("tally", "rows.csv", "--by", "land", "--store", "kept", "--day", "2026-01-01")
    told = calibrant("fit", "kept", "--by", "day", "--out", "m.json", code=1).stderr
    assert "--by day is not a segment of the tally store: it has land" in told
