"""The result of a comparison of two models: differences of metrics, and rows that change sides of a threshold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from calibrant.messages import PYTHON, Note, Shown, Voice
from calibrant.notebook import AMBER, GRAY, GREEN, RED, Dot, stacked, table_block, text_block
from calibrant.numerics import Ends
from calibrant.tallies.ends import clipped
from calibrant.verdict.figures import between, capitalized, signed_percent
from calibrant.verdict.multiclass.by_class import voice_of
from calibrant.verdict.verdict import Verdict, plain


class Outcome(StrEnum):
    """What a difference means for the new model."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not significant"
    TOO_FEW_ROWS = "too few rows"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Difference(Shown):
    """A metric of the old and of the new model, and the 95 % interval of their paired difference."""

    name: str
    old: float
    new: float
    low: float
    high: float
    lower_is_better: bool = True
    maps: int = 1
    """Number of increasing maps of the old scores that produce the new ones (cross-fitting), or 1."""
    ends: Ends | None = None
    """Where the probabilities of both models are clipped, if the log loss of one is infinite otherwise."""

    @property
    def title(self) -> str:
        """The name, and where probabilities are clipped."""
        return self.name + clipped(self.ends).rstrip(",")

    @property
    def change(self) -> float:
        """New minus old."""
        return self.new - self.old

    @property
    def outcome(self) -> Outcome:
        """Better, worse, or why neither is concluded."""
        if self.maps > 1:
            return Outcome.NOT_COMPARABLE
        if not np.isfinite(self.low):
            return Outcome.TOO_FEW_ROWS
        if self.low <= 0.0 <= self.high or not np.isfinite(self.change):
            return Outcome.NOT_SIGNIFICANT
        return Outcome.BETTER if (self.change < 0.0) == self.lower_is_better else Outcome.WORSE

    @property
    def words(self) -> str:
        """The outcome as text."""
        return self.in_words(PYTHON)

    def in_words(self, voice: Voice) -> str:
        """The outcome as text with the nouns of a voice."""
        match self.outcome:
            case Outcome.NOT_COMPARABLE:
                return (
                    f"not comparable: the new {voice.nouns.scores} come from {self.maps} maps, one for each fold, and "
                    "each preserves the old ranking"
                )
            case Outcome.TOO_FEW_ROWS:
                return f"too few {voice.nouns.rows} to tell"
            case Outcome.NOT_SIGNIFICANT:
                return "no significant change"
            case outcome:
                return outcome.value

    @property
    def entries(self) -> tuple[str, str, str, str]:
        """Name, old and new value, and change with its interval, as text."""
        digits = _digits(self.change, self.high - self.low) if np.isfinite(self.low) else 4
        change = f"{self.change:+.{digits}f}"
        if np.isfinite(self.low):
            change += f" ({self.low:+.{digits}f} to {self.high:+.{digits}f})"
        return self.title, f"{self.old:.{digits}f}", f"{self.new:.{digits}f}", change

    def say(self, voice: Voice) -> str:
        """One line in the words of a voice."""
        digits, words = _digits(self.change, self.high - self.low), self.in_words(voice)
        if self.change == self.low == self.high == 0.0:
            return f"{self.title}: {self.old:.4f}, unchanged"
        share = f", {signed_percent(self.change / self.old)}" if self.old > 0.0 else ""
        if not np.isfinite(self.low):
            return f"{self.title}: {self.old:.4f} to {self.new:.4f}: {words}"
        return (
            f"{self.title}: {self.old:.{digits}f} to {self.new:.{digits}f} ({self.change:+z.{digits}f}{share}; "
            f"95 % CI {between(self.low, self.high, digits, sign=True)}): {words}"
        )

    def __str__(self) -> str:
        """One line."""
        return self.say(PYTHON)


_COLORS = {Outcome.BETTER: GREEN, Outcome.WORSE: RED, Outcome.NOT_SIGNIFICANT: GRAY}


@dataclass(frozen=True)
class Crossing(Shown):
    """Rows that change sides of a policy threshold under the new scores; a score at the threshold counts as above."""

    threshold: float
    above_old: float
    above_new: float
    up: float
    up_events: float
    down: float
    down_events: float

    def say(self, voice: Voice) -> str:
        """One line in the words of a voice."""
        rows = voice.nouns.rows
        up = _moved(self.up, self.up_events, f" {rows} move up", voice)
        named = "" if self.up else f" {rows}"  # the rows are named once
        down = _moved(self.down, self.down_events, f"{named} move down", voice, "no" if named else "none")
        moved = f"{up}, {down}" if self.up or self.down else f"no {rows} change sides"
        return (
            f"at {self.threshold:g}: {moved}; {self.above_old:,.0f} at or above it before, {self.above_new:,.0f} after"
        )

    def __str__(self) -> str:
        """One line."""
        return self.say(PYTHON)


@dataclass(frozen=True)
class Change(Shown):
    """The result of :func:`calibrant.compare`: print it, or read its attributes."""

    old: Verdict
    new: Verdict
    differences: tuple[Difference, ...]
    crossings: tuple[Crossing, ...]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on both models, each once."""
        return tuple(dict.fromkeys((*self.old.notes, *self.new.notes)))

    def say(self, voice: Voice) -> str:
        """The whole comparison as text with the nouns of a voice."""
        rows = voice.nouns.rows
        lines = [f"Old: {self.old.in_words(voice).headline}", f"New: {self.new.in_words(voice).headline}"]
        lines += [f"  {difference.say(voice)}" for difference in self.differences]
        if self.crossings:
            lines.append(f"{capitalized(rows)} that cross a policy threshold:")
            lines += [f"  {crossing.say(voice_of(self.old, voice))}" for crossing in self.crossings]
        return "\n".join([*lines, *self._note_lines(voice)])

    def _note_lines(self, voice: Voice) -> list[str]:
        """The notes; where those on the two models differ, with the name of the model."""
        spoken, old, new = voice_of(self.old, voice), set(self.old.notes), set(self.new.notes)
        names = dict.fromkeys(old - new, ", old") | dict.fromkeys(new - old, ", new")
        return [f"Note{names.get(each, '')}: {each.say(spoken)}" for each in self.notes]

    def __str__(self) -> str:
        """The whole comparison as text."""
        return self.say(PYTHON)

    def _repr_html_(self) -> str:
        """For notebooks: both headlines, a table of the differences, and the crossings."""
        heads = [
            text_block(f"{name}: {each.headline}", each.color) for name, each in (("Old", self.old), ("New", self.new))
        ]
        lines = [f"{capitalized(PYTHON.nouns.rows)} that cross a policy threshold:"] if self.crossings else []
        lines += [f"  {crossing.say(voice_of(self.old, PYTHON))}" for crossing in self.crossings]
        lines += self._note_lines(PYTHON)
        head = ("metric", "old", "new", "change (95 % CI)", "the new model is")
        rows = [(*each.entries, Dot(each.words, _COLORS.get(each.outcome, AMBER))) for each in self.differences]
        return stacked(*heads, table_block(head, rows, notes=lines, left=(0, 4)))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as data for JSON."""
        return {
            "old": self.old.to_dict(),
            "new": self.new.to_dict(),
            "differences": [
                {**plain(asdict(each)), "change": each.change, "outcome": each.outcome.value, "words": each.words}
                for each in self.differences
            ],
            "crossings": [asdict(crossing) for crossing in self.crossings],
        }


def _digits(change: float, width: float) -> int:
    """Decimals that show two significant digits of a difference and of its interval."""
    sizes = [abs(size) for size in (change, width) if size != 0.0 and np.isfinite(size)]
    return int(np.clip(1 - np.floor(np.log10(min(sizes))), 4, 9)) if sizes else 4


def _moved(rows: float, events: float, what: str, voice: Voice, zero: str = "no") -> str:
    """How many rows moved, and the share of events among them."""
    if not rows:
        return f"{zero}{what}"
    return f"{rows:,.0f}{what} ({100.0 * events / rows:.1f} % {voice.nouns.events})"
