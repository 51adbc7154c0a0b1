"""Streams for chapter 6 of Gupta 2023: drifts with a known truth, four real data sets under forests, rain.

The data are those that `CALIBRANT_DATA` names (by default `../shared/data`; its README says where they come from).
Where text and figures of the chapter can differ, the draws follow the text; the order of the random numbers of the
three drifts of section 6.1.2 is that of the published notebooks, so that their seed 0 is the printed stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parents[1]))

from data_folder import data_folder, need_data

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats]
"""Features and labels, in their order."""

HELD = 1e-5
"""Scores of models are held this far from 0 and 1, as in the experiments of the chapter."""

N_ALL, N_TRAIN = 6000, 1000


# ------------------------------------------------------------------------------- the drifts of section 6.1.2


@dataclass(frozen=True)
class Drift:
    """A stream whose truth is known: rows t = 1 .. 6000, scores of a model that was trained on the first 1000."""

    scores: Floats
    labels: Floats
    truth: Floats


def covariate_drift(seed: int) -> Drift:
    """Equation 6.3: the mean of X moves, the periodic regression function stays."""
    draw = np.random.RandomState(seed)
    x, y, truth = np.empty(N_ALL), np.empty(N_ALL), np.empty(N_ALL)
    for t in range(N_ALL):
        x[t] = 2.0 * draw.randn() + t / 250
        truth[t] = _teeth(x[t])
        y[t] = draw.random_sample() <= truth[t]
    return _learned(_waves(x), y, truth)


def label_drift(seed: int) -> Drift:
    """Equation 6.4: the rate falls from 0.95 to 0.05, X given Y stays."""
    draw = np.random.RandomState(seed)
    x, y, truth = np.empty(N_ALL), np.empty(N_ALL), np.empty(N_ALL)
    for t in range(N_ALL):
        rate = 0.95 * (1 - t / N_ALL) + 0.05 * t / N_ALL
        y[t] = draw.random_sample() <= rate
        x[t] = 2.0 * y[t] + draw.randn()
        truth[t] = expit(2.0 * x[t] - 2.0 + np.log(rate / (1 - rate)))
    return _learned(x[:, None], y, truth)


def regression_drift(seed: int) -> Drift:
    """Equation 6.5: X stays, the regression function goes to 0.5 at t = 5001 and on past it."""
    draw = np.random.RandomState(seed)
    x, y, truth = np.empty(N_ALL), np.empty(N_ALL), np.empty(N_ALL)
    for t in range(N_ALL):
        x[t] = np.sqrt(10.0) * draw.randn()
        truth[t] = (1 - t / 5000) * _teeth(x[t]) + 0.5 * t / 5000
        y[t] = draw.random_sample() <= truth[t]
    return _learned(_waves(x), y, truth)


DRIFTS: dict[str, Callable[[int], Drift]] = {
    "covariate drift, Figure 6.3": covariate_drift,
    "label drift, Figure 6.10": label_drift,
    "regression-function drift, Figure 6.11": regression_drift,
}


def _teeth(x: float) -> float:
    return 0.1 + 0.8 * (np.floor(x / 5) % 2)


def _waves(x: Floats) -> Floats:
    """Sines of six lengths and eight phases."""
    columns = [np.sin(x / length + phase * np.pi / 4) for length in range(1, 7) for phase in range(8)]
    return np.stack(columns, axis=1)


def _learned(features: Floats, y: Floats, truth: Floats) -> Drift:
    # Sines of one length span two dimensions, so that the default tolerance stops short of the optimum.
    model = LogisticRegression(tol=1e-7, max_iter=10_000).fit(features[:N_TRAIN], y[:N_TRAIN])
    return Drift(held(model.predict_proba(features)[:, 1]), y, truth)


def held(scores: Floats) -> Floats:
    return np.clip(scores, HELD, 1.0 - HELD)


# -------------------------------------------------------------------- the streams of section 6.4, under a forest


@dataclass(frozen=True)
class Design:
    """A stream of section 6.4: how it is drawn, its training rows, calibration rows and window (Table 6.2)."""

    name: str
    draw: Callable[[np.random.Generator], Rows]
    train: int = 1000
    cal: int = 1000
    window: int = 500


@dataclass(frozen=True)
class Stream:
    """Scores and labels behind the training rows; errors count from row ``cal`` on."""

    scores: Floats
    labels: Floats
    cal: int
    window: int


def designs() -> dict[str, list[Design]]:
    """The panels, by figure: four data sets in drifting and in random order, four synthetic streams."""
    shapes = {"fetal": {"train": 626, "cal": 300, "window": 100}}

    def panel(name: str, drifting: bool) -> Design:
        def draw(rng: np.random.Generator) -> Rows:
            return _ordered(name, rng, drifting)

        return Design(f"{name}, {'drifting' if drifting else 'i.i.d.'}", draw, **shapes.get(name, {}))

    return {
        "drifting": [panel(name, True) for name in TABLES],
        "i.i.d.": [panel(name, False) for name in TABLES],
        "synthetic": [
            Design("covariates, i.i.d.", lambda rng: rotating(rng, 0.0)),
            Design("covariates, 180 degrees", lambda rng: rotating(rng, np.pi)),
            Design("labels, i.i.d.", lambda rng: tilting(rng, 0.5)),
            Design("labels, 0.5 to 0.9", lambda rng: tilting(rng, 0.9)),
        ],
    }


def streams(design: Design, trees: int, runs: int, cache: Path) -> Iterator[Stream]:
    """Run after run, with the scores of a forest that is kept in the folder."""
    cache.mkdir(parents=True, exist_ok=True)
    for run in range(runs):
        file = cache / f"ch6 {design.name} {trees} {run}.npz".replace(" ", "-")
        if not file.exists():
            np.savez_compressed(file, **_scored(design, trees, run))
        stored = np.load(file)
        yield Stream(held(stored["scores"]), stored["labels"].astype(np.float64), design.cal, design.window)


def _scored(design: Design, trees: int, run: int) -> dict[str, NDArray[np.generic]]:
    x, y = design.draw(np.random.default_rng([6, run]))
    forest = RandomForestClassifier(trees, random_state=run).fit(x[: design.train], y[: design.train])
    scores = forest.predict_proba(x[design.train :])[:, 1]
    return {"scores": scores, "labels": y[design.train :].astype(np.uint8)}


def bank() -> pd.DataFrame:
    frame = _read("bank_marketing_response").drop(columns="ID")
    return pd.get_dummies(frame.assign(y=frame["y"] == "yes"), drop_first=True)


def credit() -> pd.DataFrame:
    return _read("credit_default").drop(columns="ID").rename(columns={"default payment next month": "y"})


def churn() -> pd.DataFrame:
    frame = _read("customer_churn").drop(columns=["RowNumber", "CustomerId", "Surname"])
    return pd.get_dummies(frame.rename(columns={"Exited": "y"}), drop_first=True)


def fetal() -> pd.DataFrame:
    frame = _read("fetal_health").rename(columns={"fetal_health": "y"})
    return frame.assign(y=frame["y"] > 1)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {"bank": bank, "credit": credit, "churn": churn, "fetal": fetal}
FOLDERS = ("bank_marketing_response", "credit_default", "customer_churn", "fetal_health")
BANK_ROWS = 12_000
COUNTRIES = ["Geography_Spain", "Geography_Germany"]


def need_streams() -> None:
    """End before any work, and say what to do, if data of the streams are not there."""
    need_data(*FOLDERS, "rain")


def _read(name: str) -> pd.DataFrame:
    return pd.read_parquet(data_folder() / name / f"{name}.parquet")


def _ordered(name: str, rng: np.random.Generator, drifting: bool) -> Rows:
    """The rows shuffled, and then sorted by a noisy covariate if they are to drift."""
    frame = TABLES[name]()
    frame = frame.iloc[rng.permutation(len(frame))[: BANK_ROWS if name == "bank" else None]]
    if drifting:
        frame = frame.iloc[np.argsort(_noisy(name, frame, rng), kind="stable")]
        frame = frame.drop(columns=COUNTRIES if name == "churn" else [])
    return frame.drop(columns="y").to_numpy(np.float64), frame["y"].to_numpy(np.float64)


def _noisy(name: str, frame: pd.DataFrame, rng: np.random.Generator) -> Floats:
    n = len(frame)
    if name == "bank":
        return frame["age"].to_numpy(np.float64) + rng.integers(-1, 2, n)
    if name == "credit":
        return frame["SEX"].to_numpy(np.float64) + rng.normal(0, 0.05, n)
    if name == "churn":
        return frame[COUNTRIES].to_numpy(np.float64) @ [1.0, 2.0]
    return frame["accelerations"].to_numpy(np.float64) + rng.normal(0, 0.001, n)


def rotating(rng: np.random.Generator, angle: float) -> Rows:
    """Section 6.4.2: the long axis of the covariates turns by the angle, labels follow all products of two."""
    d = 10
    v1, v2 = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    pairs = np.triu_indices(d, 1)
    w = rng.choice([-1.0, 1.0], d + len(pairs[0]))
    turn = np.linspace(0.0, angle, N_ALL)[:, None]
    u = np.cos(turn) * v1 + np.sin(turn) * v2
    x = rng.normal(size=(N_ALL, d)) + np.sqrt(10.0) * rng.normal(size=(N_ALL, 1)) * u
    wide = np.concatenate([x, x[:, pairs[0]] * x[:, pairs[1]]], axis=1)
    return x, (rng.random(N_ALL) < expit(wide @ w)).astype(np.float64)


def tilting(rng: np.random.Generator, last: float) -> Rows:
    """Section 6.4.2: the rate goes from 0.5 to the last one, covariates given the label stay."""
    y = (rng.random(N_ALL) < 0.5 + (last - 0.5) * np.arange(1, N_ALL + 1) / N_ALL).astype(np.float64)
    x = rng.normal(size=(N_ALL, 10))
    x[:, 0] += y
    return x, y


# ------------------------------------------------------------------------------------------------------ rain


def rains() -> dict[str, Floats]:
    """Series of rain or none: hours of wet days in Philadelphia, all hours there, days at Offutt."""
    folder = data_folder() / "rain"
    hours = pd.read_parquet(folder / "philadelphia_hourly_precip_1988_1997.parquet")
    wet = (hours["precip_hundredths_inch"] >= 1).to_numpy()
    wet_day = pd.Series(wet).groupby(hours["datetime"].dt.floor("D")).transform("any").to_numpy()
    days = pd.read_parquet(folder / "noaa_offutt_daily_rain.parquet")["target"]
    return {
        "Philadelphia, hours of wet days": wet[wet_day].astype(np.float64),
        "Philadelphia, all hours": wet.astype(np.float64),
        "Offutt, days": days.to_numpy(np.float64),
    }
