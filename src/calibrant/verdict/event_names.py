"""The name of the event in the text of a verdict: defaults, deaths, correct answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calibrant.messages import InputError, Nouns

EventName = str | tuple[str, str]
"""Singular, or singular and plural."""

RIGHT = ("correct ", "right ")
"""First words of events that are answers or predictions; the others are then wrong."""


def event_names(event: EventName | None) -> tuple[str, str] | None:
    """Singular and plural of the name of an event; None for no name.

    Examples
    --------
    >>> event_names("correct answer"), event_names("injury"), event_names("loss"), event_names(("died", "deaths"))
    (('correct answer', 'correct answers'), ('injury', 'injuries'), ('loss', 'losses'), ('died', 'deaths'))
    """
    if event is None:
        return None
    names: tuple[Any, ...] = tuple(event) if isinstance(event, tuple | list) else (event, _plural(str(event)))
    if len(names) != 2 or not all(isinstance(name, str) and name.strip() for name in names):
        fix = "pass a noun, such as 'default', or singular and plural, such as ('child', 'children')"
        raise InputError("event", f"must be the name of the event, got {event!r}", fix)
    return names[0].strip(), names[1].strip()


def with_event(nouns: Nouns, names: tuple[str, str]) -> Nouns:
    """The nouns with this name of the event.

    Examples
    --------
    >>> nouns = with_event(Nouns(), ("correct answer", "correct answers"))
    >>> nouns.events, nouns.others, nouns.rate
    ('correct answers', 'wrong answers', 'rate of correct answers')
    >>> with_event(Nouns(), ("default", "defaults")).others, with_event(Nouns(), ("lost case", "lost cases")).others
    ('non-defaults', 'rows of the other class')
    """
    one, several = names
    wrong = next((f"wrong {several.removeprefix(word)}" for word in RIGHT if several.startswith(word)), "")
    return replace(nouns, event=one, events=several, non_events=wrong, rate=f"rate of {several}")


def _plural(noun: str) -> str:
    noun = noun.strip()
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
