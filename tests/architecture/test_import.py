"""`import calibrant` is light: it loads no heavy library and takes hardly longer than numpy."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

HEAVY = {"duckdb", "matplotlib", "narwhals", "pandas", "polars", "pyarrow", "pyspark", "scipy", "sklearn"}
RUNS = 7
LIMIT_SECONDS = 0.15


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def seconds_to_import(package: str) -> float:
    return float(run(f"from time import perf_counter as t; a = t(); import {package}; print(t() - a)"))


def test_import_loads_no_heavy_library():
    loaded = set(json.loads(run("import calibrant, json, sys; print(json.dumps(list(sys.modules)))")))
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY}


def test_a_stored_calibration_needs_numpy_alone():
    code = """
import json, sys
import calibrant
stored = calibrant.Calibration.from_json(open(sys.argv[1], "rb").read())
stored.transform([0.1, 0.9])
print(json.dumps(list(sys.modules)))
"""
    golden = Path(__file__).parents[1] / "documents" / "golden" / "v1" / "fitted.binning-own-rows.json"
    done = subprocess.run([sys.executable, "-c", code, str(golden)], check=True, capture_output=True, text=True)
    assert not {name for name in json.loads(done.stdout) if name.partition(".")[0] in HEAVY}


def test_import_is_fast():
    runs = [(seconds_to_import("numpy"), seconds_to_import("calibrant")) for _ in range(RUNS)]  # interleaved
    numpy, calibrant = (statistics.median(times) for times in zip(*runs, strict=True))
    assert calibrant - numpy <= LIMIT_SECONDS, f"numpy {numpy:.3f} s, calibrant {calibrant:.3f} s"
