"""``apply`` and ``export`` of a map by group: its columns are found by name in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrant.export.document import Calibration
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
    assert "2 rows without a score or a group of the map in 'flag' have none" in " ".join(said.stdout.split())


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
    assert "names no column of groups of this map: it needs 'region', 'branch'" in told


def test_a_map_by_group_is_exported_and_verified(calibrant: Any, tmp_path: Path) -> None:
    region = ByGroupMap("region", ("n", "it's"), (LogitAffineMap(1.2, 0.1), LogitAffineMap(0.9, 0.0)), None)
    path = stored(region)
    for name, more in (("map.sql", ["--by", "region=area code"]), ("map.onnx", [])):
        calibrant("export", path, "--out", tmp_path / name, *more)
        calibrant("verify", tmp_path / name)
    assert '"area code"' in (tmp_path / "map.sql").read_text()
    assert (
        "says nothing about ONNX"
        in calibrant("export", path, "--out", tmp_path / "b.onnx", "--by", "region=a", code=1).stderr
    )
    proof = json.loads(calibrant("export", path, "--json").stdout)
    assert "'it''s'" in proof["expression"]
