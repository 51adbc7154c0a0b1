"""What it costs to install and import Calibrant and its peers: seconds, megabytes and packages.

python benchmarks/install.py dist/calibrant-*.whl
python benchmarks/install.py dist/calibrant-*.whl --only calibrant probcal

Each package goes into an empty environment of its own, one after the other, by pip, from a warm cache: the first
install fills it and does not count. Import times are CPU times, medians of several fresh processes, in which the byte
code is there already. Packages are those in the environment beside pip and setuptools.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import venv
from pathlib import Path
from time import perf_counter

PEERS = {
    "scikit-learn": ("scikit-learn==1.9.1", "import sklearn.calibration"),
    "probcal": ("probcal==0.4.0", "import probcal"),
    "MAPIE": ("mapie==1.6.0", "import mapie.classification"),
    "netcal": ("netcal==1.4.0", "import netcal.scaling"),
    "MCGrad": ("mcgrad==0.1.5", "from mcgrad import methods"),
}
"""What pip is asked for, and what a user imports to calibrate."""
OWN = {"Calibrant": "import calibrant", "Calibrant, a fit": "from calibrant import PlattScaling"}
TORCH = "torch==2.13.0"
"""The version of torch for every peer that needs it; here a build without graphics cards."""
LISTED = "from importlib.metadata import distributions as d; print(*sorted({x.name for x in d()}))"
TIMED = "from time import process_time as t; a = t(); {}; print(t() - a)"


def install(folder: Path, requirements: list[str]) -> tuple[Path, float]:
    """Install into an empty environment: its Python, and the seconds that pip took."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    begin = perf_counter()
    subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True, stderr=subprocess.DEVNULL)
    return python, perf_counter() - begin


def output(python: Path, code: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [python, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True, env=clean, cwd=python.parent
    ).stdout


def import_seconds(python: Path, statement: str, repeats: int) -> float:
    output(python, statement)
    return statistics.median(float(output(python, TIMED.format(statement))) for _ in range(repeats))


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def wheel_megabytes(requirement: str) -> float:
    """The size of the wheel of the package alone."""
    if requirement.endswith(".whl"):
        return Path(requirement).stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as folder:
        command = ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return megabytes(Path(folder))


def line(name: str, requirement: str, imports: dict[str, str], repeats: int, installs: int) -> list[str]:
    """The rows of a package: one for each statement that is timed."""
    extra = [TORCH] if name in {"netcal", "MCGrad"} else []
    seconds = []
    for _ in range(installs + 1):
        with tempfile.TemporaryDirectory() as folder:
            python, took = install(Path(folder), [requirement, *extra])
            seconds.append(took)
            if len(seconds) <= installs:
                continue
            packages = set(output(python, LISTED).split()) - {"pip", "setuptools"}
            imported = {title: import_seconds(python, code, repeats) for title, code in imports.items()}
            (root,) = Path(folder).glob("lib/python*/site-packages") if os.name != "nt" else [Path(folder) / "Lib"]
            size = megabytes(root)
    took = statistics.median(seconds[1:] or seconds)
    return [
        f"{title:18} {took:10.1f} {imported[title]:10.2f} {wheel_megabytes(requirement):10.2f} {size:12.0f}"
        f" {len(packages):10d}"
        for title in imports
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--installs", type=int, default=1)
    options = parser.parse_args()
    wanted = {name.lower() for name in options.only or ["calibrant", *PEERS]}
    print(f"{'':18} {'install, s':>10} {'import, s':>10} {'wheel, MB':>10} {'on disk, MB':>12} {'packages':>10}")
    own = {"Calibrant": (str(Path(options.wheel).resolve()), OWN)}
    peers = {name: (requirement, {name: code}) for name, (requirement, code) in PEERS.items()}
    for name, (requirement, imports) in (own | peers).items():
        if name.lower() in wanted:
            for row in line(name, requirement, imports, options.repeats, options.installs):
                print(row, flush=True)


if __name__ == "__main__":
    main()
