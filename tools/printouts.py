"""Write what the package prints today into docs/printouts.md, beside what it printed before.

    python tools/printouts.py

Each block "now" of the page is written again; the blocks "before" stay as they are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calibrant as cb

PAGE = Path(__file__).parents[1] / "docs" / "printouts.md"
BLOCK = re.compile(r"(<!-- now: (?P<name>[^\n]+) -->\n```text\n)(?P<text>.*?)(```\n)", re.DOTALL)


def rows(n: int, level: float = 0.0, slope: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Scores, and labels whose log-odds are ``level + slope`` times those of the scores."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(-1.0, 1.3, n)
    labels = rng.random(n) < 1.0 / (1.0 + np.exp(-(level + slope * log_odds)))
    return 1.0 / (1.0 + np.exp(-log_odds)), labels.astype(int)


def fitted(name: str, **options: Any) -> Any:
    """A calibrator fitted to scores that are too low and too extreme."""
    made = getattr(cb, name, None) or getattr(cb.calibrators, name)
    return made(**options).fit(*rows(3000, 0.5, 0.6))


def compared() -> Any:
    """The comparison of a model with itself after Platt scaling."""
    scores, y = rows(2000, 0.5, 0.6, seed=9)
    return cb.compare(scores, fitted("PlattScaling").transform(scores), y)


def shifted() -> Any:
    """The base rate of new rows, by label shift."""
    scores, y = rows(3000)
    return cb.shift.estimate_label_shift(cb.PlattScaling().fit(scores, y), rows(2000, seed=3)[0] ** 0.8, scores, y)


def by_segment(off: bool) -> Any:
    """A calibration by segment, with or without a segment that differs."""
    scores, y = rows(3000)
    country = np.repeat(["DE", "FR", "IT"], 1000)
    labels = np.where((country == "IT") & (np.random.default_rng(1).random(3000) < 0.15), 1, y) if off else y
    return cb.SegmentCalibrator(cb.PlattScaling()).fit(scores, labels, country)


def command(*words: str) -> str:
    """What the command line writes on stderr; the usage lines are left out."""
    with tempfile.TemporaryDirectory() as folder:
        lines = "\n".join(f"{score},{label}" for score, label in zip(*rows(300), strict=True))
        Path(folder, "rows.csv").write_text(f"score,label\n{lines}\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "calibrant.cli", *words],
            capture_output=True, text=True, cwd=folder, env=os.environ | {"COLUMNS": "200"}, check=False,
        )  # fmt: skip
    return "\n".join(line for line in done.stderr.splitlines() if line and not line.startswith(("Usage", "Try")))


def answers() -> tuple[Any, Any]:
    """Stated confidences of 200 answers, and whether each is correct; one of confidence 1 is wrong."""
    rng = np.random.default_rng(5)
    stated = rng.choice([0.6, 0.8, 0.9, 1.0], 200, p=[0.2, 0.4, 0.35, 0.05])
    correct = rng.random(200) < stated
    correct[np.flatnonzero(stated == 1.0)[0]] = False
    return stated, correct


CASES: dict[str, Callable[[], Any]] = {
    "check: calibrated": lambda: cb.check(*rows(5000)),
    "check: miscalibrated": lambda: cb.check(*rows(5000, 0.5, 0.6)),
    "check: cannot tell yet": lambda: cb.check(*rows(200, 0.2)),
    "check: rounded scores": lambda: cb.check(rows(800)[0].round(1), rows(800)[1]),
    "check: answers of a language model": lambda: cb.check(*answers(), event="correct answer"),
    "a test with p = 0": lambda: cb.metrics.always_valid_test(*answers()),
    "calibrate": lambda: cb.calibrate(*rows(1000, 0.5, 0.6)),
    "calibrate: the candidates": lambda: cb.calibrate(*rows(1000, 0.5, 0.6)).comparison_,
    "certificate: bins": lambda: fitted("HistogramBinning", n_bins=5).certificate(),
    "no certificate: a strictly increasing map": lambda: fitted("PlattScaling").certificate(),
    "a spline without curvature": lambda: fitted("SplineCalibrator"),
    "sums of weights": lambda: cb.PlattScaling().fit(
        *rows(800), sample_weight=np.random.default_rng(0).gamma(2.0, size=800)
    ),
    "plan": lambda: cb.plan(epsilon=0.05, n=800),
    "compare": compared,
    "segments that do not differ": lambda: by_segment(False),
    "segments that differ": lambda: by_segment(True),
    "label shift": shifted,
    "an accuracy": lambda: cb.metrics.accuracy(np.array([0.9, 0.95, 0.99] * 10), np.array([1, 1, 0] + [1, 1, 1] * 9)),
    "online certificate": lambda: cb.online.Foster99().certificate(10_000),
    "no online certificate": lambda: cb.online.OnlinePlatt(radius=3.0, certified=True).certificate(1000),
    "command line: a misspelled method": lambda: command("fit", "rows.csv", "--out", "map.json", "--method", "plat"),
    "command line: a misspelled column": lambda: command("check", "rows.csv", "--score", "scor"),
}


def printed(case: Callable[[], Any]) -> str:
    """What a case prints, with the ends of lines stripped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = str(case())
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> None:
    """Write the page."""
    page = PAGE.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda found: found[1] + printed(CASES[found["name"]]) + found[4], page)
    PAGE.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
