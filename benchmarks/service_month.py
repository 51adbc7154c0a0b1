"""Thirty days of a drifting model behind the live service, with labels that come 1 to 72 hours late.

    python benchmarks/service_month.py            # 3 runs of 5,000 rows a day
    python benchmarks/service_month.py --quick    # 1 run of 1,000 rows a day

The entries of the log are made here and go through the state of a stream, as a learner would apply them; no database is
needed. Every hour is one block. The score of a row is too far from 0 in log-odds, by a factor of 1.3, and has a
bias that drifts. Only events are sent, between 1 and 72 hours after the prediction. On day 12 the world breaks: events
are rarer by 1 in log-odds. On day 22 a person publishes and promotes a bad map, which is off by 1 in log-odds; on day
28 the person lets promotions go on. Printed is the error of what was served against the true probabilities (root mean
square, in percent), beside the score as it is, a nightly refit on the last seven days of rows that are a horizon old,
and the oracle, which is the true probability.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant import Calibration, PlattScaling
from calibrant.maps import LogitAffineMap
from calibrant.service.learning.decisions import Promotion
from calibrant.service.learning.publishing import ServedMap
from calibrant.service.learning.state import StreamState
from calibrant.service.settings import Settings
from calibrant.service.store.log import SECOND, Entries, Kind

Floats = NDArray[np.float64]

DAYS, STEP, START = 30, 3_600, 1_900_800_000
BREAK, BAD, RESUME = 12.0, 22.0, 28.0
HORIZON = 72 * 3_600.0

PHASES = (
    ("drift, days 4 to 11", 4.0, 12.0),
    ("break not known yet, days 12 to 14", 12.0, 15.0),
    ("after the break is known, days 16 to 21", 16.0, 22.0),
    ("bad version, days 22 to 24", 22.0, 25.0),
    ("after it, days 26 to 29", 26.0, 30.0),
)


@dataclass
class Month:
    """What a run found.

    Attributes
    ----------
    at, truth, score, served, refit
        One per row: day, true probability, and the three predictions.
    promotions
        Day, version and cause of each.
    alarms
        Days of alarms.
    """

    at: Floats
    truth: Floats
    score: Floats
    served: Floats
    refit: Floats
    promotions: list[tuple[float, int, str]] = field(default_factory=list)
    alarms: list[float] = field(default_factory=list)

    def errors(self, first: float, last: float) -> tuple[float, float, float]:
        """Root mean square error of score, refit and what was served, in percent."""
        own = (self.at >= first) & (self.at < last)
        given = (self.score, self.refit, self.served)
        return tuple(100.0 * float(np.sqrt(np.mean((p[own] - self.truth[own]) ** 2))) for p in given)  # type: ignore[return-value]

    def days(self, cause: str) -> list[float]:
        """Days of promotions with a cause."""
        return [day for day, _, found in self.promotions if found == cause]


class Writer:
    """Builds the blocks of a log."""

    def __init__(self) -> None:
        self.position = 0

    def block(
        self, time: float, rows: dict[str, Any] | None = None, outcomes: Any = (), labels: Any = (), actions: Any = (),
        at: Any = None,
    ) -> Entries:  # fmt: skip
        """One block: predictions, outcomes by id, perhaps with times of their own, and actions."""
        n, m, k = (len(rows["id"]) if rows else 0), len(outcomes), len(actions)
        total = n + m + k
        position = self.position + 1 + np.arange(total)
        self.position += total
        kinds = np.repeat([int(Kind.PREDICTION), int(Kind.OUTCOME), int(Kind.ACTION)], [n, m, k])
        zeros, moment = np.zeros(total), np.full(total, round(time * SECOND))
        number = np.zeros(total, dtype=np.int64)
        number[:n] = rows["id"] if rows else 0
        number[n : n + m] = outcomes
        ids = np.column_stack([np.zeros(total, dtype=np.uint64), number.astype(np.uint64)])
        columns = {name: zeros.copy() for name in ("score", "probability")}
        whole = {name: np.zeros(total, dtype=np.int64) for name in ("key", "version")}
        if rows:
            for name in columns:
                columns[name][:n] = rows[name]
            for name in whole:
                whole[name][:n] = rows.get(name, 0)
        label = np.full(total, -1)
        label[n : n + m] = labels
        times = moment.copy()
        times[n : n + m] = moment[n : n + m] if at is None else np.round(np.asarray(at) * SECOND)
        documents = dict(zip(position[n + m :].tolist(), map(json.dumps, actions), strict=True))
        return Entries(
            position, moment, kinds, ids, columns["score"], whole["key"], times, np.zeros(total, dtype=np.int64),
            whole["version"], columns["probability"], label, documents,
        )  # fmt: skip


def begun(settings: Settings, writer: Writer, time: float) -> StreamState:
    """A new stream, after its first entry."""
    state = StreamState(settings)
    state.apply(writer.block(time, actions=[{"action": "settings", "settings": settings.document()}]))
    return state


def expit(x: Floats) -> Floats:
    """The probability of log-odds."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def month(per_day: int = 5_000, seed: int = 0, *, bad: bool = True, breaks: bool = True) -> Month:
    """One run."""
    rng = np.random.default_rng(seed)
    n = DAYS * per_day
    day = np.sort(rng.uniform(0.0, DAYS, n))
    log_odds = rng.normal(-1.5, 1.0, n) - (day >= BREAK) * breaks
    truth = expit(log_odds)
    bias = 0.6 + 0.3 * np.sin(2.0 * np.pi * day / 30.0)
    score = expit(1.3 * (log_odds + (day >= BREAK) * breaks) + bias)
    y = rng.random(n) < truth
    arrives = day + rng.uniform(1.0, 72.0, n) / 24.0
    refit = nightly(day, score, y)
    writer = Writer()
    settings = Settings(horizon=HORIZON, silence="negative", publish_rows=10**9, publish_seconds=3_600.0)
    state = begun(settings, writer, START)
    found = Month(day, truth, score, score.copy(), refit)
    documents: dict[int, str] = {}
    state.find = documents.__getitem__
    per_step = DAYS * 86_400 // STEP
    edges = np.searchsorted(day, np.arange(per_step + 1) * STEP / 86_400.0)
    events = np.flatnonzero(y)[np.argsort(arrives[y], kind="stable")]
    due = np.searchsorted(arrives[events], np.arange(per_step + 1) * STEP / 86_400.0)
    served, alarms = (0, ServedMap.read(None)), 0
    for step in range(per_step):
        end = (step + 1) * STEP / 86_400.0
        rows = np.arange(edges[step], edges[step + 1])
        found.served[rows] = p = served[1].apply(score[rows], np.zeros(len(rows), dtype=np.int64))
        came = events[due[step] : due[step + 1]]
        given = {"id": rows + 1, "score": score[rows], "probability": p, "version": served[0]}
        actions = person(step * STEP / 86_400.0, state, bad=bad)
        if not len(rows) + len(came) + len(actions):
            continue
        decided = state.apply(writer.block(START + end * 86_400.0, given, came + 1, np.ones(len(came)), actions))
        documents |= {version.number: version.document for version in decided.versions}
        found.promotions += [(end, each.version, each.cause) for each in decided.promotions]
        if decided.promotions:
            served = _served(decided.promotions, documents)
        if state.alarms > alarms:
            alarms = state.alarms
            found.alarms.append(end)
    return found


def person(day: float, state: StreamState, *, bad: bool) -> list[dict[str, Any]]:
    """What a person does at this time."""
    if bad and abs(day - BAD) < 0.5 * STEP / 86_400.0:
        now = state.decisions.documents[state.served]
        map_ = Calibration.from_json(now).map
        assert isinstance(map_, LogitAffineMap)
        worse = LogitAffineMap(map_.slope, map_.intercept + 1.0, low=map_.low, high=map_.high)
        text = Calibration(worse).to_json()
        return [{"action": "publish", "document": text}, {"action": "promote", "version": state.version + 1}]
    return [{"action": "resume"}] if bad and abs(day - RESUME) < 0.5 * STEP / 86_400.0 else []


def nightly(day: Floats, score: Floats, y: Any) -> Floats:
    """Platt scaling each midnight on seven days of rows that are a horizon old."""
    found = score.copy()
    for night in range(4, DAYS):
        old = (day < night - 3.0) & (day >= night - 10.0)
        own = (day >= night) & (day < night + 1)
        found[own] = PlattScaling().fit(score[old], y[old]).transform(score[own])
    return found


def _served(promotions: list[Promotion], documents: dict[int, str]) -> tuple[int, ServedMap]:
    number = promotions[-1].version
    return number, ServedMap.read(documents[number] if number else None)


def table(runs: list[Month]) -> str:
    """The figures as text."""
    lines = ["                                            score   nightly refit   served   oracle"]
    for name, first, last in PHASES:
        score, refit, served = np.mean([run.errors(first, last) for run in runs], axis=0)
        lines.append(f"  {name:40s} {score:6.2f}   {refit:13.2f}   {served:6.2f}     0.00")
    for number, run in enumerate(runs):
        alarms = ", ".join(f"{day:.1f}" for day in run.alarms)
        back = ", ".join(f"{day:.2f}" for day in run.days("rolled back"))
        lines.append(
            f"  run {number}: {len(run.promotions)} promotions; alarms on days {alarms or 'none'}; "
            f"rolled back on day {back or 'none'}"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    runs, per_day = (1, 1_000) if quick else (3, 5_000)
    found = [month(per_day, seed) for seed in range(runs)]
    print(f"Root mean square error of probabilities in percent; mean of {runs} runs with {per_day:,} rows a day")
    print(table(found))
    quiet = [month(per_day, 100 + seed, bad=False, breaks=False) for seed in range(runs)]
    errors = np.mean([run.errors(4.0, 30.0) for run in quiet], axis=0)
    alarms, backs = sum(len(run.alarms) for run in quiet), sum(len(run.days("rolled back")) for run in quiet)
    print("Drift alone, days 4 to 29:")
    of = f"score {errors[0]:.2f}, nightly refit {errors[1]:.2f}, served {errors[2]:.2f}"
    print(f"  {of}; alarms {alarms}, roll-backs {backs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
