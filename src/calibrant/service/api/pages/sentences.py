"""One plain sentence about a stream, with a tone: what somebody who runs it must know first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from calibrant.messages import plural
from calibrant.reporting.figures import percent
from calibrant.service.store.overview import Overview

Tone = Literal["good", "warn", "bad", "none", "recovering"]

LATE_SECONDS = 120.0
"""A learner that is this far behind needs attention."""

RECENT_SECONDS = 86_400.0
"""An alarm stays at the head of the page while it holds, and for a day from its start."""

MARKS = {"good": "fine", "warn": "look", "bad": "act", "none": "waiting", "recovering": "recovering"}
"""The word beside the color."""

HELD = {
    "manual": "a person decides what is served",
    "pinned": "a person pinned what is served",
    "paused": "a version was rolled back, and nobody has resumed yet",
    "waiting": "a person promoted another version a short time ago",
    "step": "it reverses the order of scores, or moves them too far at once",
    "worse": "it is worse than what is served, on the last rows that were learned",
}
"""Why the newest version is not served."""

OFF = ("level-moved", "refit", "range-off")
"""Advice after which something is left to do."""

TO_DO = (
    "The stream learns from it by itself, and sooner. Look for a change of the model, of its inputs or of the "
    "outcomes; if the outcomes are wrong, pin a version until they are right."
)

STEPS = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second"))


@dataclass(frozen=True)
class Sentence:
    """A sentence and its tone."""

    tone: Tone
    text: str

    @property
    def mark(self) -> str:
        """The tone in a word, for those who do not see colors."""
        return MARKS[self.tone]


def duration(seconds: float) -> str:
    """A length of time in its largest whole unit.

    Examples
    --------
    >>> duration(0.2), duration(61), duration(7_300), duration(200_000)
    ('0 seconds', '1 minute', '2 hours', '2 days')
    """
    for size, name in STEPS:
        if seconds >= size:
            return plural(int(seconds // size), name)
    return "0 seconds"


def about(view: Overview) -> Sentence:
    """What to know first about a stream.

    Parameters
    ----------
    view
        What was read of it.

    Returns
    -------
    Sentence
        In this order: a learner that is behind, a feed that is held, nothing learned yet, an alarm that holds, rows
        that are off after it, a pause, an alarm from which the stream recovers, how predictions and outcomes compare.
    """
    report = view.report
    if view.behind_seconds > LATE_SECONDS:
        waiting = f"{plural(view.behind, 'entry', 'entries')} of the log {'waits' if view.behind == 1 else 'wait'}"
        text = (
            f"The learner is {duration(view.behind_seconds)} behind: {waiting}. If the number falls, it is catching up."
        )
        return Sentence("bad", f"{text} If not, check that calibrant learn is running. Nothing is lost.")
    feed = (report or {}).get("feed") or {}
    if feed.get("held"):
        return Sentence("bad", f"{quiet(feed)}: nothing is learned or published. Say below what the gap was.")
    if report is None or not report["rows_learned"]:
        served = "the score itself is served" if not view.served else f"version {view.served} is served"
        return Sentence("none", f"No outcome has been learned yet; {served}.")
    monitor = report["monitor"]
    low, high = monitor.get("level_low"), monitor.get("level_high")
    off = "low" if low is not None and low > 0.0 else "high" if high is not None and high < 0.0 else ""
    since = (view.now - view.last_alarm).total_seconds() if view.last_alarm else RECENT_SECONDS
    raised = f"The monitor raised an alarm {duration(since)} ago"
    if monitor.get("holds"):
        text = f"{raised}, which still holds{seen(view.alarms[0]) if view.alarms else ''}. {TO_DO}"
        return Sentence("bad", text)
    if since < RECENT_SECONDS and (off or monitor.get("advice_code") in OFF):
        text = f"{raised}, which has ended, but the rows since then are off, too: {monitor['advice']}. {TO_DO}"
        return Sentence("warn", text)
    if report["paused"]:
        text = f"A version was rolled back; version {view.served} is served, and no new one until somebody resumes."
        return Sentence("warn", text)
    if since < RECENT_SECONDS and monitor.get("advice_code") == "not-enough":
        text = f"{raised}, which has ended: the stream has learned from it. There is nothing to do;"
        return Sentence("recovering", f"{text} {plural(monitor['rows'], 'row')} since then are too few to tell more.")
    predicted, observed, rows = view.means
    served = "the score itself" if not view.served else f"version {view.served}"
    compared = (
        f"of {plural(rows, 'row')}, {percent(observed)} were events, and {percent(predicted)} were predicted"
        if rows
        else f"{plural(report['rows_learned'], 'row')} learned"
    )
    if off:
        return Sentence(
            "warn", f"Served by {served}: {compared}. Predictions are too {off}, but not enough for an alarm."
        )
    return Sentence("good", f"Served by {served}: {compared}. The monitor sees no deviation.")


def seen(alarm: Mapping[str, Any]) -> str:
    """What an alarm saw since the estimated onset of the change, as the end of a sentence; empty if that was not kept.

    Examples
    --------
    >>> seen({"rows": 640, "observed": 0.25, "predicted": 0.1875})
    ': of the last 640 rows, 25.0 % were events, and 18.8 % were predicted'
    """
    if not alarm.get("rows"):
        return ""
    observed, predicted = (percent(alarm[name]) for name in ("observed", "predicted"))
    return f": of the last {plural(alarm['rows'], 'row')}, {observed} were events, and {predicted} were predicted"


def quiet(feed: Mapping[str, Any]) -> str:
    """Since when outcomes do not come as predicted.

    Examples
    --------
    >>> quiet({"held_since": "2026-05-02T09:00:00Z", "last_outcome": "2026-05-02T08:15:30Z"})
    'No outcomes since 2026-05-02 08:15 UTC'
    >>> quiet({"held_since": "2026-05-02T09:00:00Z", "last_outcome": "2026-05-02T10:00:00Z"})
    'Hardly any outcomes came before 2026-05-02 09:00 UTC'
    """
    held, last = feed["held_since"], feed.get("last_outcome")
    if last is None or last >= held:
        return f"Hardly any outcomes came before {minute(held)}"
    return f"No outcomes since {minute(last)}"


def minute(text: str) -> str:
    """A time of the report, to the minute."""
    return f"{text[:16].replace('T', ' ')} UTC"


def decision(view: Overview) -> str:
    """What keeps newer versions from being served, in a sentence; empty if nothing does.

    Parameters
    ----------
    view
        What was read of the stream.

    Returns
    -------
    str
        In this order: a pin, a pause, why the newest version is not served.

    Examples
    --------
    >>> from datetime import datetime, UTC
    >>> decision(Overview(1, "clicks", datetime.now(UTC), served=3, newest=4, report={"held": "manual"}))
    'Version 4 is published but not served: a person decides what is served.'
    """
    report = view.report or {}
    if report.get("pinned"):
        served = f"version {view.served}" if view.served else "the score itself"
        return f"A person pinned {served}: nothing else is served until the pin ends."
    if report.get("paused"):
        return "Automatic promotion is paused after a roll-back, until somebody resumes."
    if report.get("held") and view.newest != view.served:
        return f"Version {view.newest} is published but not served: {HELD[report['held']]}."
    return ""
