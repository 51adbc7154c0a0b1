"""Install the wheel with each extra alone, in an empty environment, and do with it what the extra is for.

python tools/extras.py dist/calibrant-*.whl             # every extra, and the package without one
python tools/extras.py dist/calibrant-*.whl plot sql    # these alone

Without an extra, what needs one must be refused with the name of that extra.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
NONE = "none"

ROWS = """
import numpy as np
import calibrant as cb
rng = np.random.default_rng(0)
scores = rng.random(500)
y = (rng.random(500) < scores).astype(int)
cal = cb.PlattScaling().fit(scores, y).calibration_
assert "site-packages" in cb.__file__, cb.__file__
"""
COMMAND_LINE = """
import subprocess, sys
from pathlib import Path
Path("rows.csv").write_text("score,label\\n" + "\\n".join(f"{a},{b}" for a, b in zip(scores, y)))
program = Path(sys.executable).with_name("calibrant")
done = subprocess.run([program, "check", "rows.csv"], capture_output=True, text=True)
sys.stderr.write(done.stderr)
assert done.returncode in {0, 10, 11, 12} and done.stdout, done
"""
USES = {
    NONE: "cb.check(scores, y); cb.report(scores, y).to_json(); cal.to_sql(); cal.to_python(); cal.to_c()",
    "plot": "cb.ReliabilityDisplay.from_predictions(scores, y).plot()",
    "excel": "import openpyxl; openpyxl.Workbook()",
    "fast": "cb.online.OnlinePlatt().compile()",
    "duckdb": """
import duckdb
table = {"score": scores, "label": y}
import pyarrow as pa
relation = duckdb.from_arrow(pa.table(table))
assert cb.tally(relation, score="score", label="label").n.sum() == 500
""",
    "spark": "import pyspark.sql, pyspark.sql.connect.session, pyarrow",
    "store": "counts = cb.Tally.from_arrays(scores, y); cb.TallyStore('tallies').add('2026-01-01', counts)",
    "onnx": "cal.to_onnx('float64'); cal.export_onnx('map.onnx')",
    "sql": "cal.to_sql(dialect='bigquery')",
    "cli": COMMAND_LINE,
    "service": "from calibrant.service.learning import learner; learner.build()",
}
"""What each extra is for, as a program."""
WITHOUT = {"plot", "fast", "store", "onnx", "sql", "cli"}
"""Extras whose use must be refused by name where they are not installed; the others begin with a foreign import."""


def extras() -> list[str]:
    """The extras of pyproject.toml, without the one that is all of them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(set(project["optional-dependencies"]) - {"all"})


def environment(folder: Path, requirement: str) -> Path:
    """An environment with a requirement and nothing else; returns its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", requirement], check=True)
    return python


def run(python: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an environment, in a folder of its own, and without this checkout on the path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), "-W", "error", "-c", code]
    return subprocess.run(
        command, cwd=folder, env=clean | {"MPLBACKEND": "agg"}, capture_output=True, text=True, check=False
    )


def packages(python: Path) -> int:
    """Packages that an environment has, beside pip and setuptools."""
    code = (
        "from importlib.metadata import distributions as d; print(len({x.name for x in d()} - {'pip', 'setuptools'}))"
    )
    return int(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout)


def problems(python: Path, extra: str, folder: Path) -> list[str]:
    """What does not work in an environment with one extra, or with none."""
    done = run(python, ROWS + USES[extra], folder)
    found = [f"{extra}: {done.stderr.strip()}"] if done.returncode else []
    for other in sorted(WITHOUT) if extra == NONE else ():
        refused = run(python, ROWS + USES[other], folder)
        if not refused.returncode or f"calibrant[{other}]" not in refused.stderr:
            found.append(f"without {other}: no error that names the extra, but {refused.stderr.strip()[-500:]!r}")
    return found


def main(arguments: list[str]) -> int:
    """Check each extra; print times, and what does not work."""
    wheel, *chosen = arguments
    failed = False
    for extra in chosen or [NONE, *extras()]:
        requirement = str(Path(wheel).resolve()) + ("" if extra == NONE else f"[{extra}]")
        with tempfile.TemporaryDirectory() as name:
            begin = perf_counter()
            python = environment(Path(name) / "venv", requirement)
            installed = perf_counter() - begin
            found = problems(python, extra, Path(name))
            failed |= bool(found)
            state = "failed" if found else "works"
            sys.stdout.write(f"{extra:8} {state}, {packages(python)} packages, installed in {installed:.0f} s\n")
            sys.stdout.write("".join(f"{line}\n" for line in found))
            sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
