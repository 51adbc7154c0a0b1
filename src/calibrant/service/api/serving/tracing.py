"""Spans for OpenTelemetry: off unless the configuration asks for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

from calibrant.messages import InputError

NAME = "calibrant.service"
"""Name of the tracer."""

Spans = Callable[[str], AbstractContextManager[Any]]
"""Begins a span with a name; the span, or None where there is none."""

NOTHING: AbstractContextManager[None] = nullcontext()


def no_span(name: str) -> AbstractContextManager[None]:
    """In place of a span."""
    return NOTHING


def spans(tracing: bool) -> Spans:
    """What begins spans.

    Parameters
    ----------
    tracing
        Whether to ask the package ``opentelemetry-api`` for them. Where they go is decided by the provider that the
        process has, for example the one that ``opentelemetry-instrument`` sets up.

    Returns
    -------
    callable
        Takes a name. Exceptions are not recorded in spans, since their text may hold what a client sent.

    Examples
    --------
    >>> with spans(False)("request") as span:
    ...     print(span)
    None
    """
    if not tracing:
        return no_span
    try:
        trace = import_module("opentelemetry.trace")
    except ImportError:
        raise InputError("tracing", "needs OpenTelemetry", "pip install opentelemetry-api") from None
    begin = trace.get_tracer(NAME).start_as_current_span
    return partial(begin, record_exception=False, set_status_on_exception=False)
