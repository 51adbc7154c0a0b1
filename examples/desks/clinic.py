"""The desk of a clinical epidemiologist: validate a risk model in several hospitals, update it, fill in the checklist.

    python examples/desks/clinic.py [folder for the figures]

Patients are simulated. The model was developed elsewhere: here its risks are too high and too extreme, by an amount
that differs between hospitals, and some outcomes are missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from calibrant import clinical


def patients(n: int = 2000, hospitals: int = 16) -> pd.DataFrame:
    """Risks, outcomes, hospitals and sex."""
    rng = np.random.default_rng(7)
    hospital = rng.integers(0, hospitals, n)
    z = rng.normal(-1.7, 1.1, n)
    truth = -0.5 + 0.8 * z + rng.normal(0.0, 0.35, hospitals)[hospital]
    died = (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(float)
    died[rng.random(n) < 0.04] = np.nan
    sex = rng.choice(["f", "m"], n)
    return pd.DataFrame({"risk": 1 / (1 + np.exp(-z)), "died": died, "hospital": hospital, "sex": sex})


def main(folder: Path | None) -> None:
    frame = patients()
    columns = {"score": "risk", "label": "died"}
    try:
        clinical.validate(frame, **columns)
    except ValueError as error:
        print(f"Missing outcomes are refused: {error}\n")
    table = clinical.validate(frame, groups="hospital", missing="drop", **columns)
    print(table, table.summary, sep="\n\n", end="\n\n")
    subgroups = clinical.validate(frame, by="sex", missing="drop", repetitions=0, **columns)
    centers = clinical.validate_clusters(frame, groups="hospital", missing="drop", **columns)
    print(centers, end="\n\n")
    known = frame.dropna(subset="died")
    rows = (known["risk"], known["died"])
    update = clinical.update_model(*rows, groups=known["hospital"])
    print(update, end="\n\n")
    thresholds = np.arange(5, 41) / 100
    decision = clinical.decision_curve(*rows, groups=known["hospital"], thresholds=thresholds)
    print(decision, end="\n\n")
    print(clinical.tripod(table, subgroups=subgroups, clusters=centers, decision=decision, update=update))
    if folder is not None:
        figures(folder, known, centers)


def figures(folder: Path, known: pd.DataFrame, centers: clinical.ClusterValidation) -> None:
    """Vector figures of one column's width."""
    from calibrant.displays import DecisionCurveDisplay, ForestDisplay, ReliabilityDisplay

    rows = (known["risk"], known["died"])
    curve = ReliabilityDisplay.from_predictions(*rows, curve="spline", groups=known["hospital"])
    curve.save(folder / "calibration.pdf", figsize=(3.5, 4.0))
    ForestDisplay(centers, "observed_over_expected").save(folder / "hospitals.pdf")
    DecisionCurveDisplay.from_predictions(*rows, groups=known["hospital"], band="simultaneous").save(folder / "use.pdf")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
