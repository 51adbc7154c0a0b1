"""Chapter 1 of Gupta 2023: Figure 1.2 and Tables 1.1 and 1.2, three calibrators of one logistic regression.

    python benchmarks/papers/ch1.py

Data: credit defaults, of `CALIBRANT_DATA` (by default `../shared/data`). The chapter keeps all defaults and drops rows
without one, "about 66 %" of which are left; it trains on 10,000 rows and calibrates on 5,000. The edges and rates of
Table 1.1 come out if these 15,000 rows hold all 6,636 defaults (55.8 % without a default) and features are scaled to
mean 0 and variance 1, which is what is done here. Which rows were drawn is not known: 20 draws, mean and standard
deviation.

Platt scaling is eq. 1.6, on the score itself. Histogram binning is Algorithm 1.1 with 10 bins. Isotonic regression is
compared by its mean over the scores of each block of Table 1.2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

sys.path.insert(0, str(Path(__file__).parents[1]))

from data_folder import need_data

from calibrant import HistogramBinning, IsotonicCalibrator, PlattScaling

DRAWS, TRAIN, CALIBRATE = 20, 10_000, 5_000
BLOCKS = (0.0, 0.41, 0.47, 0.69, 0.72, 0.74, 0.79, 0.996, 1.0)


def clients() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scaled features and outcomes of all 30,000 clients."""
    import pandas as pd

    frame = pd.read_parquet(need_data("credit_default") / "credit_default" / "credit_default.parquet")
    y = frame.pop("default payment next month").to_numpy(dtype=np.int64)
    return scale(frame.drop(columns="ID").to_numpy(dtype=float)), y


def one_draw(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> dict[str, float]:
    """Everything that the chapter prints, from one draw of rows."""
    rng = np.random.default_rng(seed)
    events, others = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    rows = rng.permutation(np.concatenate([events, rng.choice(others, TRAIN + CALIBRATE - len(events), replace=False)]))
    fit, held = rows[:TRAIN], rows[TRAIN:]
    model = LogisticRegression(max_iter=1_000).fit(X[fit], y[fit])
    score, event = model.predict_proba(X[held])[:, 1], y[held]
    platt = PlattScaling(on="score", limits=False).fit(score, event).map_
    bins = HistogramBinning(n_bins=10).fit(score, event).bins_
    filled = np.flatnonzero(bins.n)
    isotonic = IsotonicCalibrator(step=True, shrink_ends=False).fit(score, event).transform(score)
    out = {
        "share of zeros, drawn rows": float((y[rows] == 0).mean()),
        "accuracy": float(((score >= 0.5) == event).mean()),
        "a": platt.slope,
        "b": platt.intercept,
        "inflection": -platt.intercept / platt.slope,
        "blocks": float(len(np.unique(isotonic))),
        "lowest": float(isotonic.min()),
    }
    out |= {f"edge/{at}": float(edge) for at, edge in enumerate(bins.knots[filled[:-1]], 1)}
    out |= {f"rate/{at}": float(rate) for at, rate in enumerate(bins.outputs[filled], 1)}
    block = np.searchsorted(BLOCKS, score, side="right")
    return out | {f"isotonic/{at}": float(isotonic[block == at].mean()) for at in np.unique(block).tolist()}


def values() -> dict[str, tuple[float, float | None]]:
    """Mean and standard deviation over draws, by key."""
    X, y = clients()
    draws = [one_draw(X, y, seed) for seed in range(DRAWS)]
    out: dict[str, tuple[float, float | None]] = {
        "share of zeros, all rows": (float((y == 0).mean()), None),
        "features": (float(X.shape[1]), None),
    }
    for key in sorted({key for draw in draws for key in draw}):
        found: Any = [draw[key] for draw in draws if key in draw]
        out[key] = float(np.mean(found)), float(np.std(found, ddof=1)) if np.ptp(found) > 0 else None
    return out


def main() -> None:
    print(f"Chapter 1, {DRAWS} draws: mean, standard deviation")
    for key, (mean, sd) in values().items():
        print(f"   {key:<30}{mean:9.4f}" + ("" if sd is None else f"{sd:9.4f}"))


if __name__ == "__main__":
    main()
