"""Styles of a report: order of sections, headings, and nouns for row, event and score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from calibrant.messages import Nouns, Voice

StyleName = Literal["general", "credit", "clinical", "llm"]


class StyleVoice(Voice):
    """Python's voice with other nouns."""

    def __init__(self, nouns: Nouns) -> None:
        self.nouns = nouns


@dataclass(frozen=True)
class Style:
    """How a report presents its numbers.

    Attributes
    ----------
    title
        Default title.
    voice
        Voice with the nouns for row, event and score.
    first
        Sections that come first, in this order; the others follow in the order of ``sections.PARTS``.
    headings
        Headings that differ from those of ``sections.PARTS``.
    last
        Sections that come last, in this order, with "Appendix" in their headings.
    by_light
        Whether supervisors' traffic lights are shown, and the headline follows that of the portfolio: their tests are
        one-sided, and would be green for scores that are too high. In other styles they are in the JSON form alone.
    groups_of_rows
        Whether a row is still what the style calls it if several of them make a group: several answers to one question
        are answers, several rows of one patient are not patients.
    """

    title: str
    voice: StyleVoice
    first: tuple[str, ...] = ()
    headings: Mapping[str, str] = field(default_factory=dict)
    last: tuple[str, ...] = ()
    by_light: bool = False
    groups_of_rows: bool = False

    @property
    def nouns(self) -> Nouns:
        """Nouns for rows, events and scores."""
        return self.voice.nouns

    def of_groups(self) -> Style:
        """The same style for data with several rows per patient or borrower: a row is then called a row."""
        if self.groups_of_rows:
            return self
        plain = Nouns()
        rows = {"row": plain.row, "rows": plain.rows, "more_labels": plain.more_labels}
        return replace(self, voice=StyleVoice(replace(self.nouns, **rows)))

    def say(self, text: str) -> str:
        """A text with the nouns of the style in place of its braces.

        Examples
        --------
        >>> STYLES["credit"].say("Of {rows}, {events} and {scores}")
        'Of borrowers, defaults and PDs'
        """
        return text.format_map({**asdict(self.nouns), "others": self.nouns.others})


def _with_nouns(row: str, event: str, score: str) -> StyleVoice:
    """A voice with these nouns; their plurals end in s."""
    rows, events, scores = f"{row}s", f"{event}s", f"{score}s"
    return StyleVoice(Nouns(row, rows, event, events, score, scores, f"{event} rate", scores, f"more {rows}"))


STYLES: dict[StyleName, Style] = {
    "general": Style(title="Calibration report", voice=StyleVoice(Nouns())),
    "credit": Style(
        title="Calibration of the probability of default (PD)",
        voice=_with_nouns("borrower", "default", "PD"),
        first=(
            "verdict",
            "about",
            "classes",
            "change",
            "grades",
            "bounds",
            "groups",
            "segments",
            "periods",
            "context",
            "limits",
        ),
        last=("recalibration", "losses", "errors", "tests", "decisions", "methods", "definitions"),
        by_light=True,
        headings={
            "groups": "Defaults by PD",
            "losses": "Discrimination and losses",
            "decisions": "Net benefit by cut-off",
            "context": "Discrimination and concentration",
            "bounds": "No defaults: upper bounds of the PDs",
        },
    ),
    "clinical": Style(
        title="Calibration of predicted risks",
        voice=_with_nouns("patient", "outcome", "risk"),
        first=(
            "verdict",
            "classes",
            "recalibration",
            "decisions",
            "losses",
            "groups",
            "segments",
            "periods",
        ),
        headings={
            "recalibration": "Intercept, slope, E/O and ICI",
            "decisions": "Decision curve",
            "losses": "Discrimination and overall performance",
            "groups": "By risk group",
            "segments": "By subgroup",
        },
    ),
    "llm": Style(
        title="Calibration of stated confidence",
        voice=StyleVoice(
            Nouns(
                row="answer",
                rows="answers",
                event="correct answer",
                events="correct answers",
                score="confidence",
                scores="confidences",
                rate="accuracy",
                probabilities="confidences",
                more_labels="more graded answers",
                non_events="wrong answers",
            )
        ),
        first=("verdict", "segments", "groups", "errors", "losses"),
        headings={"groups": "By stated confidence"},
        groups_of_rows=True,
    ),
}
