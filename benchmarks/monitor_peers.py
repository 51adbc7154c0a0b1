"""The monitor beside those of other packages and a test repeated every day: false alarms, and rows to the alarm.

    pip install mapie==1.6.0 probcal==0.4.0        # not dependencies of this package
    python benchmarks/monitor_peers.py [--quick]

All take the same rows, 100 a day, at level 5 %, and are asked every day; but for `RiskMonitoring`, which works through
all rows at each look, and is asked every ten. *False*: streams that are calibrated for good with an alarm at any day.
*Rows to the alarm*: median over streams that are calibrated for 5,000 rows and then change, counted from the change;
for a monitor whose alarm stays on, an alarm before the change counts as one on the first day after it.
Packages watch for different things:

- `Monitor`, and `CalibrationMonitor` of probcal: predictions that are wrong.
- a z test of observed minus predicted in all rows so far, whose level is that of a single look.
- `RiskMonitoring` of MAPIE: an accuracy of the labels `p > 0.5` below that of the first 5,000 rows, with tolerance 0.
  In version 1.6.0 it takes risks of labels only, so that it is blind to most errors of probabilities.
- `OnlineMartingaleTest` of MAPIE (jumper martingale of absolute errors): rows that are not exchangeable. Predictions
  that were wrong from the first row are none to it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from monitor import CHANGES, Floats, independent, moved

from calibrant.live import Monitor

DAY, BEFORE, MOST = 100, 5_000, 5_000
"""Rows of a day, rows before the change, and most rows after it."""

Watch = Callable[[Floats, Floats], bool]


def ours() -> Watch:
    """An alarm among the rows of this day."""
    monitor = Monitor()

    def watch(p: Floats, y: Floats) -> bool:
        before = monitor.alarm_count
        return monitor.update(p, y).alarm_count > before

    return watch


def repeated() -> Watch:
    """A z test of all rows so far, at 5 %."""
    sums = np.zeros(2)

    def watch(p: Floats, y: Floats) -> bool:
        sums[:] += (y - p).sum(), (p * (1.0 - p)).sum()
        return bool(abs(sums[0]) > 1.96 * np.sqrt(sums[1]))

    return watch


def probcal() -> Watch:
    from probcal.monitor import CalibrationMonitor

    monitor = CalibrationMonitor()
    days = iter(range(10**9))
    return lambda p, y: bool(monitor.update(y, p, label=str(next(days))).alarm)


def mapie_risk() -> Watch:
    from mapie.exchangeability_testing import RiskMonitoring

    first: list[tuple[Floats, Any]] = []
    monitor = RiskMonitoring(risk="accuracy", tolerance=0.0, warn=False)

    def watch(p: Floats, y: Floats) -> bool:
        if len(first) * len(p) < BEFORE:
            first.append((y, p > 0.5))
            if len(first) * len(p) == BEFORE:
                monitor.compute_threshold(*map(np.concatenate, zip(*first, strict=True)))
            return False
        return bool(monitor.update(y, p > 0.5).harmful_shift_detected)

    return watch


def mapie_martingale() -> Watch:
    from mapie.exchangeability_testing import OnlineMartingaleTest
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Given(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        """Predicts its only column."""

        def fit(self, X: Floats, y: Floats) -> Given:
            self.n_features_in_ = 1
            return self

        def predict(self, X: Floats) -> Floats:
            return np.asarray(X)[:, 0]

        def __sklearn_is_fitted__(self) -> bool:
            return True

    model = Given().fit(np.zeros((1, 1)), np.zeros(1))
    monitor = OnlineMartingaleTest(
        SplitConformalRegressor(model, prefit=True), task="regression", warn=False, random_state=0
    )
    return lambda p, y: monitor.update(p[:, None], y).is_exchangeable is False


PEERS: dict[str, tuple[Callable[[], Watch], int, int, int]] = {
    "Monitor": (ours, 100, 25, DAY),
    "z test, repeated every day": (repeated, 100, 25, DAY),
    "probcal CalibrationMonitor": (probcal, 20, 8, DAY),
    "MAPIE OnlineMartingaleTest": (mapie_martingale, 20, 8, DAY),
    "MAPIE RiskMonitoring": (mapie_risk, 5, 3, 10 * DAY),
}
"""How to make each, its calibrated streams, its streams of each change, and rows between looks: some take long."""


def first_alarm(make: Callable[[], Watch], p: Floats, y: Floats, every: int, from_row: int = 0) -> float:
    """Rows from a row to the end of the first look after it with an alarm."""
    watch = make()
    for start in range(0, len(p), every):
        if watch(p[start : start + every], y[start : start + every]) and start >= from_row:
            return start + every - from_row
    return np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 streams of each")
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    rows = BEFORE + MOST
    print(
        f"Calibrated streams of {rows:,} rows with an alarm; median rows from a change to the alarm, > {MOST:,} if it"
    )
    print("did not come by then; number of streams with a change; CPU seconds for 1,000 rows")
    print(f"  {'':28s}{'false':>10s}" + "".join(f"{name:>11s}" for name in CHANGES) + f"{'streams':>9s}{'CPU':>8s}")
    warnings.simplefilter("ignore")
    for name in options.only:
        make, streams, few, every = PEERS[name]
        streams, few = (2, 2) if options.quick else (streams, few)
        try:
            make()
        except ImportError as error:
            print(f"  {name:28s} not installed ({error.name})")
            continue
        begun, taken, false, cells = time.process_time(), 0.0, 0, []
        for k in range(streams):
            at = first_alarm(make, *independent(np.random.default_rng([5, k]), rows), every)
            false, taken = false + (at < np.inf), taken + min(at, rows)
        for change in CHANGES.values():
            found = []
            for k in range(few):
                found.append(
                    first_alarm(make, *moved(np.random.default_rng([6, k]), rows, BEFORE, *change), every, BEFORE)
                )
                taken += BEFORE + min(found[-1], MOST)
            median = float(np.median(found))
            cells.append(f"> {MOST:,}" if median > MOST else f"{median:,.0f}")
        spent = 1_000 * (time.process_time() - begun) / taken
        line = f"{false:>4d} of {streams:<3d}" + "".join(f"{c:>11s}" for c in cells) + f"{few:9d}{spent:8.3f}"
        print(f"  {name:28s}{line}", flush=True)


if __name__ == "__main__":
    main()
