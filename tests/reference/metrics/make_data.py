"""Draw the five data sets and the grade table of this folder; numpy's generators keep their streams between versions.

python tests/reference/metrics/make_data.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
HEAPS = np.array([0.1, 0.25, 0.5, 0.8, 0.9, 0.95])
# Grade, obligors, defaults, probability of default: from the best grade to the worst; two grades have no default.
GRADES = [
    (1, 410, 0, 0.0003),
    (2, 655, 1, 0.0011),
    (3, 870, 0, 0.0028),
    (4, 940, 9, 0.0075),
    (5, 520, 6, 0.0190),
    (6, 210, 17, 0.0520),
    (7, 64, 8, 0.1650),
]


def _expit(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def _draw(name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores of at most six digits, and the true probabilities behind the labels."""
    if name == "heaped":
        scores = rng.choice(HEAPS, 400, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
        return scores, scores - 0.15 * scores * (1.0 - scores)
    if name == "rare":
        scores = np.round(_expit(rng.normal(-4.4, 1.1, 400)), 6)
        return scores, scores
    scores = np.round(_expit(rng.normal(-0.3, 1.3, 300 if name == "weighted" else 400)), 6)
    if name == "calibrated":
        return scores, scores
    slope, intercept = (0.6, -0.3) if name == "smooth" else (0.8, 0.4)
    return scores, _expit(slope * np.log(scores / (1.0 - scores)) + intercept)


def _write(name: str, header: list[str], rows: Iterable[Iterable[object]]) -> None:
    with (FOLDER / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    for seed, name in enumerate(["smooth", "calibrated", "rare", "heaped", "weighted"]):
        rng = np.random.default_rng([2024, seed])
        scores, truth = _draw(name, rng)
        y = (rng.random(len(scores)) < truth).astype(int)
        weights = rng.integers(0, 5, len(scores)) if name == "weighted" else np.ones(len(scores), dtype=int)
        rows = zip([f"{s:.6g}" for s in scores], y.tolist(), weights.tolist(), strict=True)
        _write(name, ["score", "y", "weight"], rows)
    _write("grades", ["grade", "n", "events", "pd"], GRADES)


if __name__ == "__main__":
    main()
