"""Styles of a report: the order of its parts, their headings, and the words for row, event and score."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

StyleName = Literal["general", "credit", "clinical"]

PARTS = (
    "verdict",
    "reliability",
    "groups",
    "recalibration",
    "errors",
    "losses",
    "tests",
    "segments",
    "periods",
    "decisions",
    "grades",
    "limits",
    "methods",
    "definitions",
)
"""Every part of a report; each style shows all of them."""


@dataclass(frozen=True)
class Style:
    """How the same numbers are told.

    Attributes
    ----------
    title
        Title of a report that was given none.
    order
        Parts in the order shown.
    headings
        Heading of each part.
    words
        What to write for row, rows, event, events, score, scores and rate, and for the verdict's own words.
    """

    title: str
    order: tuple[str, ...]
    headings: Mapping[str, str]
    words: Mapping[str, str]

    def of_groups(self) -> Style:
        """The same style for rows of which several belong to one patient or borrower: a row is then called a row."""
        return replace(self, words={**self.words, "row": "row", "rows": "rows", "more labels": "more labels"})

    def say(self, text: str) -> str:
        """A sentence of ours with the style's words in its braces."""
        return text.format(**self.words)

    def retell(self, text: str, keep: Iterable[str] = ()) -> str:
        """A sentence of the verdict's, its general words replaced by the style's; ``keep`` and Python calls stay.

        Examples
        --------
        >>> STYLES["credit"].retell("The probabilities of event = 3: fit(scores, y)", keep=["event = 3"])
        'The PDs of event = 3: fit(scores, y)'
        """
        kept = "|".join([*map(re.escape, keep), r"[\w.]+\([^)]*\)"])
        words = r"\b(?:events?|rows?|scores?|probabilities|more labels)\b"
        return re.sub(rf"({kept})|{words}", self._word, text, flags=re.IGNORECASE)

    def _word(self, found: re.Match[str]) -> str:
        if found.group(1) is not None:
            return found.group()
        word = self.words[found.group().lower()]
        return word if found.group().islower() else word[:1].upper() + word[1:]


_HEADINGS = {
    "verdict": "Verdict",
    "reliability": "What was predicted and what happened",
    "groups": "By score",
    "recalibration": "Level and spread",
    "errors": "Calibration errors",
    "losses": "Losses and ranking",
    "tests": "Tests of calibration",
    "segments": "By segment",
    "periods": "By period",
    "decisions": "What decisions gain",
    "grades": "Too many events? Each group of scores tested by itself",
    "limits": "What this does not show",
    "methods": "Methods",
    "definitions": "Words used",
}

STYLES: dict[StyleName, Style] = {
    "general": Style(
        title="Calibration report",
        order=PARTS,
        headings=_HEADINGS,
        words={
            "row": "row",
            "rows": "rows",
            "event": "event",
            "events": "events",
            "score": "score",
            "scores": "scores",
            "rate": "event rate",
            "probabilities": "probabilities",
            "more labels": "more labels",
        },
    ),
    "credit": Style(
        title="Calibration of the probability of default (PD)",
        order=(
            "verdict",
            "grades",
            "groups",
            "reliability",
            "recalibration",
            "segments",
            "periods",
            "losses",
            "errors",
            "tests",
            "decisions",
            "limits",
            "methods",
            "definitions",
        ),
        headings=_HEADINGS
        | {
            "grades": "Traffic lights by grade",
            "groups": "Defaults by grade",
            "reliability": "PD and default rate",
            "losses": "Discrimination and losses",
            "decisions": "What cut-offs gain",
        },
        words={
            "row": "borrower",
            "rows": "borrowers",
            "event": "default",
            "events": "defaults",
            "score": "PD",
            "scores": "PDs",
            "rate": "default rate",
            "probabilities": "PDs",
            "more labels": "more borrowers",
        },
    ),
    "clinical": Style(
        title="Calibration of predicted risks",
        order=(
            "verdict",
            "recalibration",
            "reliability",
            "decisions",
            "losses",
            "groups",
            "segments",
            "periods",
            "errors",
            "tests",
            "grades",
            "limits",
            "methods",
            "definitions",
        ),
        headings=_HEADINGS
        | {
            "recalibration": "Intercept, slope, E/O and ICI",
            "reliability": "Calibration curve",
            "decisions": "Decision curve",
            "losses": "Discrimination and overall performance",
            "groups": "By group of risk",
            "segments": "By subgroup",
            "grades": "Too many outcomes? Each group of risk tested by itself",
        },
        words={
            "row": "patient",
            "rows": "patients",
            "event": "outcome",
            "events": "outcomes",
            "score": "risk",
            "scores": "risks",
            "rate": "outcome rate",
            "probabilities": "risks",
            "more labels": "more patients",
        },
    ),
}
