"""Styles of a report: the order of its parts, their headings, and the words for row, event and score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

from calibrant.messages import Nouns, Voice

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


class StyleVoice(Voice):
    """Python's voice with other nouns."""

    def __init__(self, nouns: Nouns) -> None:
        self.nouns = nouns


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
    voice
        How it puts sentences: with its own nouns for row, event and score.
    """

    title: str
    order: tuple[str, ...]
    headings: Mapping[str, str]
    voice: StyleVoice

    @property
    def nouns(self) -> Nouns:
        """What the style calls rows, events and scores."""
        return self.voice.nouns

    def of_groups(self) -> Style:
        """The same style for rows of which several belong to one patient or borrower: a row is then called a row."""
        plain = Nouns()
        rows = {"row": plain.row, "rows": plain.rows, "more_labels": plain.more_labels}
        return replace(self, voice=StyleVoice(replace(self.nouns, **rows)))

    def say(self, text: str) -> str:
        """A sentence of ours with the style's words in its braces.

        Examples
        --------
        >>> STYLES["credit"].say("Of {rows}, {events} and {scores}")
        'Of borrowers, defaults and PDs'
        """
        return text.format_map(asdict(self.nouns))


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
        voice=StyleVoice(Nouns()),
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
        voice=StyleVoice(
            Nouns(
                row="borrower",
                rows="borrowers",
                event="default",
                events="defaults",
                score="PD",
                scores="PDs",
                rate="default rate",
                probabilities="PDs",
                more_labels="more borrowers",
            )
        ),
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
        voice=StyleVoice(
            Nouns(
                row="patient",
                rows="patients",
                event="outcome",
                events="outcomes",
                score="risk",
                scores="risks",
                rate="outcome rate",
                probabilities="risks",
                more_labels="more patients",
            )
        ),
    ),
}
