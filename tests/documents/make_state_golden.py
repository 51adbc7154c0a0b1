"""Write golden states: forecasters, the ledger of late labels, and a tally store. Run at a release; overwrites nothing.

    PYTHONPATH=src:. python tests/documents/make_state_golden.py

Beside each forecaster's state is what it forecasts next. A state of a version that was not released may be deleted and
written again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from tests.contracts.test_forecasters import CASES, features_of, stream

from calibrant import TallyStore
from calibrant.live import Ledger
from calibrant.numerics import Grid
from calibrant.online.base import Forecaster
from calibrant.tallies import Tally

FOLDER = Path(__file__).parent / "golden" / "states" / "v1"
FORECASTERS, LEDGER, STORE = FOLDER / "forecasters.json", FOLDER / "ledger.bin", FOLDER / "store"
PROBES = (0.0, 1e-3, 0.25, 0.5, 0.9, 1.0)
DAYS = ("2026-01-01", "2026-01-02")


def learned(forecaster: Forecaster) -> Forecaster:
    """The forecaster after 60 rows."""
    scores, labels = stream(60)
    forecaster.learn_many(scores, labels, features_of(forecaster, 60))
    return forecaster


def forecasts(forecaster: Forecaster) -> list[float]:
    """What it forecasts at each probe."""
    features = features_of(forecaster, len(PROBES), seed=1)
    return [float(p) for p in forecaster.predict_many(np.array(PROBES), features)]


def ledger() -> Ledger:
    """A ledger with open, labeled and released rows."""
    made = Ledger(horizon=10.0)
    ids = list(range(6))
    made.predict(ids, [0.1 * k for k in range(6)], at=[float(k) for k in range(6)])
    made.observe(ids[:2], [1, 0], at=[6.0, 6.5])
    made.advance(12.5)
    return made


def tallies() -> dict[str, Tally]:
    """The tally of each day of the store."""
    rng = np.random.default_rng(23)
    scores = {day: rng.random(40).round(2) for day in DAYS}
    return {
        day: Tally.from_arrays(each, (rng.random(40) < each).astype(int), grid=Grid(4)) for day, each in scores.items()
    }


def main() -> None:
    """Write what is not there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stored = json.loads(FORECASTERS.read_text()) if FORECASTERS.exists() else {}
    for name in sorted(set(CASES) - set(stored)):
        forecaster = learned(CASES[name]())
        state = json.loads(forecaster.to_json())
        stored[name] = {"state": state, "forecasts": forecasts(forecaster)}
    lines = (f" {json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored))  # a forecaster a line
    FORECASTERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if not LEDGER.exists():
        LEDGER.write_bytes(ledger().to_bytes())
    if not STORE.exists():
        store = TallyStore(STORE)
        for day, tally in tallies().items():
            store.add(day, tally)


if __name__ == "__main__":
    main()
