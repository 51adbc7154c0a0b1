"""One column of scores from ``fit`` to a proven SQL file: what is loaded, which modules are passed, no way up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_MODULES = 48

LOADED = """
import json, sys
from calibrant import PlattScaling
PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).transform([0.5])
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "calibrant")))
"""

WALK = """
import json, os, sys, tempfile
from calibrant import PlattScaling

def walk(folder):
    fitted = PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    fitted.calibration_.export_sql(os.path.join(folder, "map.sql"), dialect="duckdb")

entered, calls = [], set()

def module(frame):
    name = frame.f_globals.get("__name__", "")
    return name if name.startswith("calibrant.") else None

def note_call(frame, event, _):
    name = module(frame) if event == "call" else None
    if name is None:
        return
    if name not in entered:
        entered.append(name)
    caller = frame.f_back
    while caller is not None and module(caller) is None:
        caller = caller.f_back
    if caller is not None and "<locals>" not in frame.f_code.co_qualname and frame.f_code.co_name != "<lambda>":
        calls.add((module(caller), name))

with tempfile.TemporaryDirectory() as folder:
    walk(folder)  # once, so that imports are done
    sys.setprofile(note_call)
    walk(folder)
    sys.setprofile(None)
print(json.dumps([entered, sorted(calls)]))
"""


def _run(code: str) -> object:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@cache
def _walked() -> tuple[list[str], list[tuple[str, str]]]:
    entered, calls = _run(WALK)  # type: ignore[misc]
    return entered, [tuple(call) for call in calls]


def _told() -> list[str]:
    """Modules in the order in which ARCHITECTURE.md passes them."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = text.partition("## A walk")[2].partition("\n## ")[0]
    return [f"calibrant.{name}" for name in re.findall(r"^\d+\. `([\w.]+)`", walk, flags=re.MULTILINE)]


def test_a_small_task_loads_a_small_part() -> None:
    loaded = _run(LOADED)
    assert isinstance(loaded, list)
    assert len(loaded) <= MOST_MODULES, loaded


def test_the_walk_passes_what_is_told_in_that_order() -> None:
    told, entered = _told(), _walked()[0]
    assert len(told) > 8
    assert [name for name in entered if name in told] == told


def test_no_call_goes_up() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    rank = {name.strip(): place for place, line in enumerate(layers) for name in re.split(r"[|:]", line)}
    calls = _walked()[1]
    assert len(calls) > 20
    up = [(caller, callee) for caller, callee in calls if rank[caller.split(".")[1]] > rank[callee.split(".")[1]]]
    assert not up


def test_what_is_told_is_there(subtests: pytest.Subtests) -> None:
    for name in _told():
        with subtests.test(name=name):
            path = ROOT / "src" / Path(*name.split("."))
            assert path.with_suffix(".py").exists()
