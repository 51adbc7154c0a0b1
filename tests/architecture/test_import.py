"""What is loaded when: `import calibrant` hardly more than numpy, and everyday calls none of the slow libraries."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"duckdb", "matplotlib", "narwhals", "onnx", "pandas", "polars", "pyarrow", "pyspark", "scipy", "sklearn"}
SLOW = {"joblib", "matplotlib", "pandas", "scipy.optimize", "scipy.stats", "sklearn"}
"""Modules that cost a command line more to import than it needs for its answer."""
RUNS = 5
LIMIT_SECONDS = 0.15
GOLDEN = Path(__file__).parents[1] / "documents" / "golden" / "v1" / "fitted.binning-own-rows.json"

# Scores of 0.1 ... 0.9, twenty rows each: enough events for `check` to try a map on folds.
ROWS = """
import calibrant
scores = [(1 + i % 9) / 10 for i in range(180)]
y = [int((7 * i) % 20 < 2 * (1 + i % 9)) for i in range(180)]
part = [str(i // 60) for i in range(180)]
"""
EVERYDAY = {
    "check": ROWS + "verdict = calibrant.check(scores, y); print(verdict); assert verdict.gain is not None",
    "check, in segments and clusters": ROWS + "print(calibrant.check(scores, y, by=part, groups=list(range(60)) * 3))",
    "check, over time": ROWS + "print(calibrant.check(scores, y, time=list(range(180))))",
    "compare": ROWS + "print(calibrant.compare(scores, [s**1.1 for s in scores], y))",
    "plan": "import calibrant; print(calibrant.plan(n=5000, n_bins=10))",
    "load": f"import calibrant; print(calibrant.load({str(GOLDEN)!r}).transform([0.1, 0.9]))",
    "apply": "from calibrant.engine import apply",
    "metrics": ROWS + "print(calibrant.metrics.ece(scores, y), calibrant.metrics.log_loss(scores, y))",
}


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def loaded_by(code: str) -> set[str]:
    """Modules in memory after the code has run."""
    told = run(code + "\nimport json, sys\nprint(json.dumps(list(sys.modules)))")
    return set(json.loads(told.splitlines()[-1]))


def seconds_to_import(package: str) -> float:
    return float(run(f"from time import perf_counter as t; a = t(); import {package}; print(t() - a)"))


def heavy(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] in HEAVY}


def test_import_loads_no_heavy_library():
    assert not heavy(loaded_by("import calibrant"))


def test_a_stored_calibration_needs_numpy_alone():
    assert not heavy(loaded_by(EVERYDAY["load"]))


def test_everyday_calls_load_no_slow_library(subtests):
    """All in one process: the first that loads one fails, and those after it."""
    loads = "".join(f"{code}\nloaded[{name!r}] = sorted(SLOW & set(sys.modules))\n" for name, code in EVERYDAY.items())
    told = run(f"import json, sys\nSLOW, loaded = {SLOW!r}, {{}}\n{loads}\nprint(json.dumps(loaded))")
    loaded = json.loads(told.splitlines()[-1])
    for name in EVERYDAY:
        with subtests.test(name):
            assert not loaded[name]


@pytest.mark.engine
def test_a_tally_in_duckdb_loads_no_slow_library():
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    code = """
import calibrant, duckdb
rows = duckdb.sql("SELECT * FROM (VALUES (0.1, 0), (0.3, 1), (0.6, 0), (0.8, 1)) AS t(s, y)")
print(calibrant.tally(rows, "s", "y"))
"""
    assert not loaded_by(code) & (SLOW - {"pandas"})  # which pyarrow loads itself, where it is installed


def test_the_modules_called_slow_are_found_when_they_are_loaded():
    assert loaded_by("from calibrant import PlattScaling") & SLOW
    assert "scipy.stats" in loaded_by("import calibrant; calibrant.plan(n=5000, n_bins=10, scheme='ums')")


def test_import_is_fast():
    runs = [(seconds_to_import("numpy"), seconds_to_import("calibrant")) for _ in range(RUNS)]  # interleaved
    numpy, calibrant = (statistics.median(times) for times in zip(*runs, strict=True))
    assert calibrant - numpy <= LIMIT_SECONDS, f"numpy {numpy:.3f} s, calibrant {calibrant:.3f} s"
