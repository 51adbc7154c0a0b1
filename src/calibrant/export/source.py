"""Source files, run and compared with the map before they are written."""

from __future__ import annotations

import ctypes
import json
import math
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.export.errors import ExportMismatchError
from calibrant.export.kinds import Rows, proof_rows, varies_outside
from calibrant.export.languages.printers import Ends, c, python
from calibrant.export.languages.statements import Program
from calibrant.export.proof import Proof, compare
from calibrant.maps import Map
from calibrant.messages import InputError, listed
from calibrant.numerics import LARGEST_DOUBLE, Floats

COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")

RUN = """
import json, math, runpy, sys
calibrate = runpy.run_path(sys.argv[1])["calibrate"]
rows = json.load(sys.stdin)
json.dump([calibrate(float.fromhex(score), *groups).hex() for score, *groups in rows], sys.stdout)
"""
"""Run by a Python of its own, which reads rows and writes results with every bit."""


class Language(NamedTuple):
    """A language of source files: its name, how a program is written in it, and how such a text is run."""

    name: str
    write: Callable[[Program, str, Ends | None], str]
    run: Callable[[str, Rows], tuple[Floats, str]]
    """From a text and rows to the results, and what ran it."""


def language_of(path: Path) -> str:
    """The end of the name of a file, in lower case, which must be that of a language.

    Examples
    --------
    >>> language_of(Path("map.C")), LANGUAGES[".c"].name
    ('.c', 'C')
    """
    suffix = path.suffix.lower()
    if suffix not in LANGUAGES:
        raise InputError("path", f"must end in {listed([*LANGUAGES], 'or')}, got {path.name!r}")
    return suffix


def source_of(map_: Map, language: str, proof: str = "", bounded: bool | None = None) -> str:
    """The source of a map of one score; infinities give NaN, and so does what is not a probability if it is bounded."""
    ends = {True: PROBABILITY_ENDS, False: (-LARGEST_DOUBLE, LARGEST_DOUBLE), None: None}[bounded]
    return LANGUAGES[language].write(Program.of(map_, bool(bounded) and varies_outside(map_)), proof, ends)


def proven_source(map_: Map, language: str, bounded: bool | None = None) -> tuple[str, Proof]:
    """The source with its proof in a comment, or an :class:`ExportMismatchError`."""
    text = source_of(map_, language, "", bounded)
    rows = proof_rows(map_)
    found, engine = LANGUAGES[language].run(text, rows)
    if bounded is False:
        rows = replace(rows, scores=np.where(np.isinf(rows.scores), np.nan, rows.scores))
    proof = compare(map_, rows, found, engine, bounded=bool(bounded))
    return source_of(map_, language, str(proof), bounded), proof


def _run_python(text: str, rows: Rows) -> tuple[Floats, str]:
    given = [[score.hex(), *groups] for score, *groups in _as_python(rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrate.py"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-I", "-c", RUN, str(path)]
        done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExportMismatchError(f"the Python source cannot be run: {done.stderr.strip().splitlines()[-1]}")
    return np.array([float.fromhex(value) for value in json.loads(done.stdout)]), f"Python {platform.python_version()}"


def _run_c(text: str, rows: Rows) -> tuple[Floats, str]:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise InputError(
            "export",
            "is compiled to compare it, and there is no C compiler here",
            "install gcc, or use to_c(), which does not compare",
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path, built = Path(folder) / "calibrate.c", Path(folder) / "calibrate.so"
        path.write_text(text, encoding="ascii")
        command = [compiler, *OPTIONS, "-o", str(built), str(path), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExportMismatchError(f"the C source cannot be compiled: {done.stderr.strip()[:500]}")
        calibrate = ctypes.CDLL(str(built)).calibrate
        calibrate.restype = ctypes.c_double
        calibrate.argtypes = [ctypes.c_double, *[ctypes.c_char_p] * len(rows.groups)]
        found = [
            calibrate(score, *(None if group is None else group.encode() for group in groups))
            for score, *groups in _as_python(rows)
        ]
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return np.array(found, dtype=np.float64), f"{Path(compiler).name} {version or 'of unknown version'}"


def _as_python(rows: Rows) -> list[tuple[Any, ...]]:
    """Scores with their groups, as Python values."""
    groups = [values.tolist() for values in rows.groups.values()]
    scores = [math.nan if score != score else score for score in rows.scores.tolist()]
    return list(zip(scores, *groups, strict=True))


LANGUAGES: dict[str, Language] = {
    ".py": Language("Python", python, _run_python),
    ".c": Language("C", c, _run_c),
}
"""Languages by the end of the names of their files."""
