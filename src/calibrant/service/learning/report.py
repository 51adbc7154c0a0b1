"""What the learner tells about a stream: a document of figures after each commit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from calibrant.service.learning.figures import moment, released
from calibrant.service.learning.state import NEVER, StreamState
from calibrant.service.store.log import SECOND

LATEST = 20
"""Alarms of a report."""


def report(state: StreamState, names: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Figures of a stream as JSON values.

    Parameters
    ----------
    state
        The state.
    names
        Keys by their numbers; a key without a name is shown by its number.

    Returns
    -------
    dict
        Rows learned, open predictions, lag of labels, share of rows with an outcome, counts of the ledger, versions,
        the monitor, reliability, worst keys, the feed of outcomes and the trial of the version that is served.
    """
    counts, monitor, decisions = state.ledger.counts, state.monitor, state.decisions
    rows = released(counts)
    band = monitor.band
    named = names or {}
    return {
        "rows_learned": state.forecaster.n_rows,
        "open": counts.open,
        "label_lag_seconds": {f"p{round(100 * share)}": _lag(state, share) for share in (0.5, 0.9)},
        "coverage": counts.with_outcome / rows if rows else None,
        "coverage_last_horizon": state.coverage.share(counts),
        "counts": asdict(counts),
        "served": decisions.served,
        "newest": decisions.newest,
        "held": decisions.held,
        "monitor": {
            "alarms": state.alarms,
            "last_alarm": None if state.alarmed == NEVER else moment(state.alarmed / SECOND),
            "holds": monitor.alarm is not None,
            "latest": state.findings.kept[: -LATEST - 1 : -1],
            "advice": str(monitor.advice),
            "advice_code": monitor.advice.code,
            "level_low": band.low,
            "level_high": band.high,
            "rows": band.rows,
        },
        "reliability": state.figures.reliability(),
        "worst_keys": [each | {"key": named.get(int(each["key"]), each["key"])} for each in state.figures.worst_keys()],
        "trial": None if decisions.watch is None else decisions.watch.document(),
        "canary": None if decisions.canary is None else decisions.canary.document(),
        "feed": _feed(state),
        "paused": decisions.paused,
        "pinned": decisions.pinned,
        "fast": state.fast_until != NEVER,
    }


def _feed(state: StreamState) -> dict[str, Any]:
    """The feed of outcomes; the time of the oldest row that is past due is in microseconds, for retention."""
    feed, late = state.feed, state.ledger.predicted(-math.inf, state.time / SECOND)
    times = {"held_since": feed.held, "life": max(feed.life, feed.complete), "last_outcome": feed.last}
    found: dict[str, Any] = {name: None if at < 0.0 else moment(at) for name, at in times.items()}
    oldest = int(late.min() * SECOND) if len(late) else None
    return found | {"held": feed.is_held, "past_due": len(late), "oldest": oldest}


def text_of(document: Mapping[str, Any]) -> str:
    """A document as it is stored."""
    return json.dumps(document, allow_nan=False, sort_keys=True)


def _lag(state: StreamState, share: float) -> float | None:
    found = state.ledger.delay_quantile(share)
    return None if math.isnan(found) else found
