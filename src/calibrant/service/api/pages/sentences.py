"""One plain sentence about a stream, with a tone: what somebody who runs it must know first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calibrant.messages import plural
from calibrant.reporting.figures import percent
from calibrant.service.store.overview import Overview

Tone = Literal["good", "warn", "bad", "none"]

LATE_SECONDS = 120.0
"""A learner that is this far behind needs attention."""

RECENT_SECONDS = 86_400.0
"""An alarm stays at the head of the page while it holds, and for a day from its start."""

MARKS = {"good": "fine", "warn": "look", "bad": "act", "none": "waiting"}
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
        In this order: a learner that is behind, an alarm, a pause, nothing learned yet, how predictions and outcomes
        compare.
    """
    report = view.report
    if view.behind_seconds > LATE_SECONDS:
        waiting = f"{plural(view.behind, 'entry', 'entries')} of the log {'waits' if view.behind == 1 else 'wait'}"
        text = (
            f"The learner is {duration(view.behind_seconds)} behind: {waiting}. If the number falls, it is catching up."
        )
        return Sentence("bad", f"{text} If not, check that calibrant learn is running. Nothing is lost.")
    if report is None or not report["rows_learned"]:
        served = "the score itself is served" if not view.served else f"version {view.served} is served"
        return Sentence("none", f"No outcome has been learned yet; {served}.")
    monitor = report["monitor"]
    since = (view.now - view.last_alarm).total_seconds() if view.last_alarm else RECENT_SECONDS
    if monitor.get("holds") or since < RECENT_SECONDS:
        raised = f"The monitor raised an alarm {duration(since)} ago"
        if monitor.get("holds"):
            return Sentence("bad", f"{raised}, which still holds. Its advice now: {monitor['advice']}.")
        return Sentence("warn", f"{raised}, which has ended. Its advice on the rows since then: {monitor['advice']}.")
    if report["paused"]:
        text = f"A version was rolled back; version {view.served} is served, and no new one until somebody resumes."
        return Sentence("warn", text)
    predicted, observed, rows = view.means
    served = "the score itself" if not view.served else f"version {view.served}"
    compared = (
        f"of {plural(rows, 'row')}, {percent(observed)} were events, and {percent(predicted)} were predicted"
        if rows
        else f"{plural(report['rows_learned'], 'row')} learned"
    )
    low, high = monitor.get("level_low"), monitor.get("level_high")
    if low is not None and high is not None and (low > 0.0 or high < 0.0):
        side = "low" if low > 0.0 else "high"
        return Sentence(
            "warn", f"Served by {served}: {compared}. Predictions are too {side}, but not enough for an alarm."
        )
    return Sentence("good", f"Served by {served}: {compared}. The monitor sees no deviation.")


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
