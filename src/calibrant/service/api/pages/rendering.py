"""From what was read of a stream to the text of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from calibrant.messages import plural
from calibrant.reporting.figures import percent
from calibrant.service.api.pages import charts
from calibrant.service.api.pages.reference import operations
from calibrant.service.api.pages.sentences import about, decision, duration
from calibrant.service.store.overview import History, Overview

PACKAGE = "calibrant.service.api.pages"

STYLE = (files(PACKAGE) / "style.css").read_text(encoding="utf-8")
"""The style sheet of all pages."""


def lag(view: Overview) -> str:
    """The time within which half of the outcomes came, and that of 90 %.

    Examples
    --------
    >>> from datetime import datetime, UTC
    >>> report = {"label_lag_seconds": {"p50": 70.0, "p90": 7_300.0}}
    >>> lag(Overview(1, "clicks", datetime.now(UTC), report=report))
    'median 1 minute, 90 % within 2 hours'
    """
    found = (view.report or {}).get("label_lag_seconds") or {}
    if found.get("p50") is None or found.get("p90") is None:
        return ""
    return f"median {duration(found['p50'])}, 90 % within {duration(found['p90'])}"


def environment() -> Environment:
    """The templates; what is not marked as safe is escaped, and a name that is not given is an error."""
    made = Environment(
        loader=PackageLoader(PACKAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "count": lambda value: f"{value:,}",
        "rows": lambda value: plural(value, "row"),
        "entries": lambda value: plural(value, "entry", "entries"),
        "share": percent,
        "duration": duration,
        "points": lambda value: f"{100.0 * value:+.2f}",
        "minute": lambda time: (time or "")[:16].replace("T", " "),
    }
    made.globals |= {"lag": lag, "decision": decision}
    return made


TEMPLATES = environment()


def streams_page(views: Sequence[Overview], **common: Any) -> str:
    """All streams, each with its sentence.

    Parameters
    ----------
    views
        What was read.
    common
        What every page needs: ``csrf``, ``caller``, ``refresh`` and ``now``.

    Returns
    -------
    str
        HTML.
    """
    return TEMPLATES.get_template("streams.html").render(streams=[(view, about(view)) for view in views], **common)


def stream_page(view: Overview, history: History, may_act: bool, **common: Any) -> str:
    """One stream.

    Parameters
    ----------
    view, history
        What was read.
    may_act
        Whether the buttons are shown.
    common
        As in :func:`streams_page`.

    Returns
    -------
    str
        HTML.
    """
    monitor = view.report["monitor"] if view.report else {}
    low, high = monitor.get("level_low"), monitor.get("level_high")
    with_rows = [each for each in history.days if each[1]["n"]]
    with_band = [each for each in history.days if each[1].get("monitor_low") is not None]
    return TEMPLATES.get_template("stream.html").render(
        view=view,
        history=history,
        report=view.report,
        sentence=about(view),
        may_act=may_act,
        reliability=charts.reliability(view.groups) if view.means[2] else "",
        means=charts.means(with_rows) if with_rows else "",
        band=charts.band(with_band, view.alarms, ZoneInfo(history.settings["time_zone"])) if with_band else "",
        level="" if low is None or high is None else f"{100.0 * low:+.2f} and {100.0 * high:+.2f}",
        **common,
    )


def docs_page(document: Mapping[str, Any]) -> str:
    """The HTTP interface, from its description in OpenAPI."""
    groups = [(tag, list(each)) for tag, each in groupby(operations(document), itemgetter("tag"))]
    return TEMPLATES.get_template("docs.html").render(groups=groups, csrf="", refresh=0)


def login_page(failed: bool) -> str:
    """The form for a token."""
    return TEMPLATES.get_template("login.html").render(failed=failed, csrf="", refresh=0)
