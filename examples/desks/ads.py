"""The desk of an ads engineer: a click log counted by day and advertiser, refitted, checked and shipped as a table.

    python examples/desks/ads.py

The log is synthetic: 300 advertisers with very unequal traffic, five days, about 1 % clicks. Two mistakes are made on
purpose: a day that is counted twice, and an advertiser that is spelled differently.
"""

from __future__ import annotations

import tempfile
from datetime import date, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import calibrant as cb

ADVERTISERS, ROWS, DAYS = 300, 12_000, 5
FIRST = date(2026, 11, 1)


def log(seed: int) -> pd.DataFrame:
    """One day of impressions: the score of the model, the advertiser, and whether there was a click."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, ADVERTISERS + 1) ** -1.1
    advertiser = rng.choice(ADVERTISERS, ROWS, p=share / share.sum())
    off = np.where(np.arange(ADVERTISERS) % 50 == 3, 0.8, 0.1)
    x = rng.normal(-4.8, 0.8, ROWS)
    click = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-x - off[advertiser]))
    return pd.DataFrame(
        {"score": 1.0 / (1.0 + np.exp(-x)), "advertiser": np.char.add("a", advertiser.astype(str)), "click": click}
    )


def main(folder: Path) -> None:
    """Count, review, fit, check and ship."""
    store = cb.TallyStore(folder / "clicks", by="advertiser")
    for place in range(DAYS):
        day = log(place)
        if place == 1:
            day = pd.concat([day, day])  # the same file twice
        if place == 2:
            day["advertiser"] = day["advertiser"].replace("a1", "A1")
        store.add_frame(day, "score", "click", day=FIRST + timedelta(days=place))
    print("What is unusual about the days:")
    for note in store.review():
        print(f"  {note.code}: {note}")
    store.add_frame(log(1), "score", "click", day=FIRST + timedelta(days=1), replace=True)
    store.add_frame(log(2), "score", "click", day=FIRST + timedelta(days=2), replace=True)
    print(f"After the repair: {len(store.review())} notes")

    week = store.window(FIRST, FIRST + timedelta(days=DAYS - 2), require_all_days=True)
    cal = cb.SegmentCalibrator(cb.PlattScaling()).fit_tally(week, "advertiser")
    last = store.window(FIRST + timedelta(days=DAYS - 1))
    verdict = cb.check(last)
    print(verdict.headline)
    shown = ["value", "predicted", "events", "least_excess", "off"]
    print(verdict.segment_frame("stake", top=3)[shown].round(1).to_string(index=False))
    print(cb.metrics.normalized_entropy(last.total()))

    stated = cal.calibration_.with_origin(first_day=FIRST, last_day=FIRST + timedelta(days=DAYS - 2), model="ctr")
    proof = stated.export_sql(folder / "map.sql", "score", table=folder / "ctr_segments.csv", rows="impressions")
    print(proof)
    rows = log(99)
    with duckdb.connect() as connection:
        connection.register("impressions", rows)
        read = f"read_csv('{folder / 'ctr_segments.csv'}', all_varchar = true)"
        connection.execute(f"CREATE TABLE ctr_segments AS SELECT * FROM {read}")
        found = connection.sql((folder / "map.sql").read_text(encoding="utf-8")).df()
    wanted = cal.transform(found["score"].to_numpy(), found["advertiser"].to_numpy())
    apart = float(np.abs(found["calibrated"].to_numpy() / wanted - 1.0).max())
    print(f"{len(found):,} impressions, largest difference between DuckDB and the map: {apart:.1e}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
