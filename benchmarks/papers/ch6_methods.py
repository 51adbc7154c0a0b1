"""The methods of chapter 6 of Gupta 2023 (Collection 1, 6.B, 6.A.3) on one stream, and the two numbers that judge them.

Forecasts of row t use rows before t only. Methods are the package's online forecasters with their defaults, which are
the chapter's; but windowed beta scaling and histogram binning are batch calibrators fitted again and again, without the
soft targets and rates of succession that the package's own `Refitted` has and the chapter has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ch6_streams import Floats, Stream

from calibrant import BetaScaling, HistogramBinning
from calibrant.online import Forecaster, Hedging, Identity, OnlineBeta, OnlinePlatt, Refitted, Tracking

WHB_BINS = 20
"""Bins of equal mass in windowed histogram binning, as in the published experiment."""

METHODS = ("BM", "FPS", "WPS", "WBS", "WHB", "OPS", "OBS", "TOPS", "HOPS", "TOBS", "HOBS", "TWHB")


def plain_forecasts(stream: Stream) -> dict[str, Floats]:
    """Methods without calibeating, on the rows behind the calibration rows."""
    s, y, cal = stream.scores, stream.labels, stream.cal
    return {
        "BM": s[cal:],
        "FPS": Refitted("platt", first=cal, every=None).forecast_many(s, y)[cal:],
        "WPS": Refitted("platt", first=cal, every=stream.window).forecast_many(s, y)[cal:],
        "WBS": _refitted(BetaScaling, stream),
        "WHB": _refitted(lambda: HistogramBinning(WHB_BINS, extremes="mean"), stream),
        "OPS": OnlinePlatt().forecast_many(s, y)[cal:],
        "OBS": OnlineBeta().forecast_many(s, y)[cal:],
    }


def calibeaten_forecasts(stream: Stream, whb: Floats, epsilon: float, seed: int) -> dict[str, Floats]:
    """Tracking and hedging of the online methods, and tracking of windowed histogram binning, which starts later."""
    s, y, cal = stream.scores, stream.labels, stream.cal
    made: dict[str, Forecaster] = {
        "TOPS": Tracking(OnlinePlatt(), epsilon=epsilon, prior=0),
        "HOPS": Hedging(OnlinePlatt(), epsilon=epsilon, random_state=seed),
        "TOBS": Tracking(OnlineBeta(), epsilon=epsilon, prior=0),
        "HOBS": Hedging(OnlineBeta(), epsilon=epsilon, random_state=seed),
    }
    found = {name: forecaster.forecast_many(s, y)[cal:] for name, forecaster in made.items()}
    return {**found, "TWHB": Tracking(Identity(), epsilon=epsilon, prior=0).forecast_many(whb, y[cal:])}


def _refitted(make: Callable[[], Any], stream: Stream) -> Floats:
    """A batch calibrator fitted to all rows so far, at the end of the calibration rows and of each window."""
    s, y = stream.scores, stream.labels
    parts = []
    for start in range(stream.cal, len(s), stream.window):
        calibrator = make().fit(s[:start], y[:start], score_type="probability")
        parts.append(calibrator.transform(s[start : start + stream.window]))
    return np.concatenate(parts)


# -------------------------------------------------------------------------------------------------- their numbers


def times(stream: Stream) -> list[int]:
    """Rows behind the calibration rows after which the figures have a point: 2 W, 3 W, ..., and the last."""
    last = len(stream.scores) - stream.cal
    return sorted({*range(2 * stream.window, last + 1, stream.window), last})


def errors(p: Floats, y: Floats, epsilon: float, at: Sequence[int]) -> tuple[Floats, Floats]:
    """Calibration error 6.15 and sharpness 6.12 of the first t forecasts, for each t, in bins of width epsilon."""
    m = round(1 / epsilon)
    bins = np.minimum((p * m).astype(np.int64), m - 1)
    n, events, gap = np.zeros(m), np.zeros(m), np.zeros(m)
    ce, shp, done = [], [], 0
    for t in at:
        part = slice(done, t)
        n += np.bincount(bins[part], minlength=m)
        events += np.bincount(bins[part], y[part], minlength=m)
        gap += np.bincount(bins[part], p[part] - y[part], minlength=m)
        ce.append(np.abs(gap).sum() / t)
        shp.append((events**2 / np.maximum(n, 1.0)).sum() / t)
        done = t
    return np.array(ce), np.array(shp)
