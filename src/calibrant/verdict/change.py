"""The result of a comparison of models: differences of metrics, and rows that change sides of a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calibrant.messages import PYTHON, InputError, Note, Shown, Voice, note
from calibrant.notebook import AMBER, GRAY, GREEN, RED, Cell, Dot, stacked, table_block, text_block
from calibrant.numerics import Ends
from calibrant.tallies.ends import clipped
from calibrant.verdict.figures import between, capitalized, p_text, signed, signed_percent
from calibrant.verdict.multiclass.by_class import voice_of
from calibrant.verdict.verdict import Verdict, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.displays.reliability import ReliabilityDisplay

CALIBRATION = "Squared calibration error"
"""Name of the measure that sees calibration alone."""

OLD_NEW = ("old", "new")
"""Names of two models that have none."""

SHOWN_PAIRS = 10
"""Pairs of models that a text has for each measure; the others are in the frame."""

DISTINCT_CURVES = 6
"""Curves with a color of their own; a picture with more is larger."""

labels_of_one_model = note(
    "labels-of-one-model",
    "all models are judged on the same labels. If these say whether the answers of one model are right, the others are "
    "judged on answers that are not theirs: pass y={{name: labels}}, with the labels of each model",
)
own_labels = note(
    "own-labels",
    "each model is judged on its own answers, so differences also reflect which {nouns.rows} it answered right",
)
own_answers = note(
    "own-answers",
    "the squared calibration error is that of the confidence of each model in its own prediction, right or wrong",
)


class Outcome(StrEnum):
    """What a difference means for the new model."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not significant"
    TOO_FEW_ROWS = "too few rows"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Difference(Shown):
    """A metric of two models, and the pointwise 95 % interval of their paired difference."""

    name: str
    old: float
    new: float
    low: float
    high: float
    lower_is_better: bool = True
    maps: int = 1
    """Number of increasing maps of the old scores that produce the new ones (cross-fitting), or 1."""
    ends: Ends | None = None
    """Where the probabilities of all models are clipped, if the log loss of one is infinite otherwise."""
    pair: tuple[str, str] = OLD_NEW
    """Names of the models whose values are ``old`` and ``new``."""
    p_value: float = np.nan
    adjusted: float = np.nan
    """P-value of no difference, and after Holm's adjustment for all pairs; NaN without an interval."""
    ranges: int | None = None
    """Number of ranges of the scores, for the squared calibration error."""

    @property
    def title(self) -> str:
        """The name, and where probabilities are clipped."""
        return self.name + clipped(self.ends).rstrip(",")

    @property
    def models(self) -> str:
        """Which model is compared with which."""
        return f"{self.pair[1]} against {self.pair[0]}"

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
        if self.low <= 0.0 <= self.high or not self.adjusted <= 0.05 or not np.isfinite(self.change):
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
                return f"too few {voice.nouns.rows} of one class, or too few groups, to tell"
            case Outcome.NOT_SIGNIFICANT:
                return "no significant change"
            case outcome:
                return outcome.value

    @property
    def entries(self) -> tuple[str, str, str, str]:
        """Name, both values, and change with its interval, as text."""
        digits = _digits(self.change, self.high - self.low) if np.isfinite(self.low) else 4
        change = f"{self.change:+.{digits}f}"
        if np.isfinite(self.low):
            change += f" ({self.low:+.{digits}f} to {self.high:+.{digits}f})"
        return self.title, f"{self.old:.{digits}f}", f"{self.new:.{digits}f}", change

    def say(self, voice: Voice) -> str:
        """One line in the words of a voice."""
        digits, words = _digits(self.change, self.high - self.low), self.in_words(voice)
        title = self.title if self.pair == OLD_NEW else f"{self.title}, {self.models}"
        if self.change == self.low == self.high == 0.0:
            return f"{title}: {self.old:.4f}, unchanged"
        share = f", {signed_percent(self.change / self.old)}" if self.old > 0.0 and self.ranges is None else ""
        if not np.isfinite(self.low):
            return f"{title}: {self.old:.4f} to {self.new:.4f}: {words}"
        return (
            f"{title}: {self.old:.{digits}f} to {self.new:.{digits}f} ({self.change:+z.{digits}f}{share}; "
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
    pair: tuple[str, str] = OLD_NEW

    def say(self, voice: Voice) -> str:
        """One line in the words of a voice."""
        rows = voice.nouns.rows
        up = _moved(self.up, self.up_events, f" {rows} move up", voice)
        named = "" if self.up else f" {rows}"  # the rows are named once
        down = _moved(self.down, self.down_events, f"{named} move down", voice, "no" if named else "none")
        moved = f"{up}, {down}" if self.up or self.down else f"no {rows} change sides"
        where = f"at {self.threshold:g}" + ("" if self.pair == OLD_NEW else f", from {self.pair[0]} to {self.pair[1]}")
        return f"{where}: {moved}; {self.above_old:,.0f} at or above it before, {self.above_new:,.0f} after"

    def __str__(self) -> str:
        """One line."""
        return self.say(PYTHON)


@dataclass(frozen=True)
class Change(Shown):
    """The result of :func:`calibrant.compare`: print it, plot it, or read its attributes.

    Attributes
    ----------
    verdicts
        The verdict on each model, by its name; ``old`` and ``new`` are the first and the last.
    differences
        For each measure, the differences of all pairs of models.
    crossings
        Rows that cross each threshold, for the pairs of models.
    lowest_scores
        Where the ranges of the scores begin in which the calibration of all models is seen.
    said
        Notes on the comparison.
    """

    verdicts: Mapping[str, Verdict]
    differences: tuple[Difference, ...]
    crossings: tuple[Crossing, ...]
    lowest_scores: tuple[float, ...] = ()
    said: tuple[Note, ...] = ()

    @property
    def old(self) -> Verdict:
        """The verdict on the first model."""
        return next(iter(self.verdicts.values()))

    @property
    def new(self) -> Verdict:
        """The verdict on the last model."""
        return list(self.verdicts.values())[-1]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on the comparison and on all models, each once."""
        return tuple(
            dict.fromkeys((*self.said, *(each for verdict in self.verdicts.values() for each in verdict.notes)))
        )

    @property
    def pairs(self) -> int:
        """Number of pairs of models."""
        return len(self.verdicts) * (len(self.verdicts) - 1) // 2

    def say(self, voice: Voice) -> str:
        """The whole comparison as text with the nouns of a voice."""
        lines = self.heads(voice)
        for measure in dict.fromkeys(each.name for each in self.differences):
            found = [each for each in self.differences if each.name == measure]
            shown = found if len(found) <= SHOWN_PAIRS else sorted(found, key=lambda each: each.p_value)[:SHOWN_PAIRS]
            lines += [f"  {each.say(voice)}" for each in shown]
            if len(found) > len(shown):
                lines.append(f"  {measure}: {len(found) - len(shown)} more pairs in to_frame()")
        return "\n".join([*lines, *self.below(voice)])

    def heads(self, voice: Voice) -> list[str]:
        """The headline of each model, and what is described and not tested: predicted minus observed events."""
        lines = [f"{name}: {verdict.in_words(voice).headline}" for name, verdict in self._titled()]
        found = ", ".join(f"{name} {signed(each.predicted - each.events, 1)}" for name, each in self.verdicts.items())
        events = voice_of(self.old, voice).nouns.events
        return [*lines, f"Predicted minus observed {events}, not tested here: {found}"]

    def _titled(self) -> list[tuple[str, Verdict]]:
        unnamed = tuple(self.verdicts) == OLD_NEW
        return [(name.capitalize() if unnamed else name, verdict) for name, verdict in self.verdicts.items()]

    def below(self, voice: Voice) -> list[str]:
        """What intervals and words mean for several pairs, the crossings and the notes."""
        spoken, lines = voice_of(self.old, voice), []
        if self.pairs > 1:
            lines.append(
                "Intervals are pointwise, for each pair alone; better and worse are said where the p-value, adjusted "
                f"for the {self.pairs} pairs of a measure (Holm), is at most 5 %."
            )
        if self.crossings:
            lines.append(f"{capitalized(voice.nouns.rows)} that cross a policy threshold:")
            lines += [f"  {crossing.say(spoken)}" for crossing in self.crossings]
        about: dict[Note, list[str]] = {each: [] for each in self.notes}
        for name, verdict in self.verdicts.items():
            for each in dict.fromkeys(verdict.notes):
                about[each].append(name)
        for each, names in about.items():
            where = "" if len(names) in (0, len(self.verdicts)) else f", {', '.join(names)}"
            lines.append(f"Note{where}: {each.say(spoken)}")
        return lines

    def __str__(self) -> str:
        """The whole comparison as text."""
        return self.say(PYTHON)

    def table(self, voice: Voice = PYTHON) -> tuple[list[str], list[list[str]]]:
        """Head and rows of the table of differences, as text."""
        named = tuple(self.verdicts) != OLD_NEW
        rows: list[list[str]] = []
        for each in self.differences:
            name, *numbers = each.entries
            p_value = "" if np.isnan(each.adjusted) else p_text(each.adjusted, "")
            models = [" to ".join(each.pair)] if named else []
            rows.append([name, *models, each.in_words(voice), *numbers, p_value])
        head = ["metric", *(["models"] if named else []), "the second is" if named else "the new model is"]
        first, second = ("first", "second") if named else OLD_NEW
        return [*head, first, second, "change (95 % CI)", "p" if self.pairs == 1 else "p, adjusted"], rows

    def to_markdown(self) -> str:
        """Headlines, the table of differences and the notes as Markdown."""
        head, rows = self.table()
        made = [head, [":--" if place < len(head) - 4 else "--:" for place in range(len(head))], *rows]
        table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in made]
        above, below = ([f"- {line.strip()}" for line in lines] for lines in (self.heads(PYTHON), self.below(PYTHON)))
        return "\n".join([*above, "", *table, "", *below]) + "\n"

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """The differences as a data frame, one row for each measure and pair of models.

        Parameters
        ----------
        backend
            Library of the frame: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
        """
        import narwhals.stable.v2 as nw  # imported here because it is slow to load

        names = ("old", "new", "change", "low", "high", "p_value", "adjusted")
        columns: dict[str, list[Any]] = {"measure": [each.name for each in self.differences]}
        columns |= {f"{OLD_NEW[i]}_model": [each.pair[i] for each in self.differences] for i in (0, 1)}
        columns |= {name: [float(getattr(each, name)) for each in self.differences] for name in names}
        columns["outcome"] = [each.outcome.value for each in self.differences]
        return nw.from_dict(columns, backend=backend).to_native()

    def plot(
        self,
        ax: Axes | None = None,
        *,
        figsize: tuple[float, float] | None = None,
        title: str | None = None,
        caption: str | None = None,
    ) -> ReliabilityDisplay:
        """Draw the reliability curves of all models in one picture; the gray band is that of the last model.

        Parameters
        ----------
        ax, figsize, title, caption
            As in :meth:`calibrant.displays.base.Display.plot`.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn; its attributes ``ax_`` and ``figure_`` are those of matplotlib.
        """
        from calibrant.displays.reliability import ReliabilityDisplay

        made = []
        for name, verdict in self.verdicts.items():
            if verdict.tally is None:
                raise InputError("change", "does not hold its rows", "plot what calibrant.compare returned")
            made.append(ReliabilityDisplay.from_predictions(verdict.tally, label=name))
        display = ReliabilityDisplay([each.series[0] for each in made], axes=made[0].axes)
        if len(made) > DISTINCT_CURVES:
            display.size = (8.0, 9.2)  # room for the legend
        return display.plot(ax, figsize=figsize, title=title, caption=caption)

    def _repr_html_(self) -> str:
        """For notebooks: all headlines, a table of the differences, and the crossings."""
        heads = [text_block(f"{name}: {each.headline}", each.color) for name, each in self._titled()]
        head, cells = self.table()
        dotted = len(head) - 5
        rows: list[list[Cell]] = [
            [*row[:dotted], Dot(row[dotted], _COLORS.get(each.outcome, AMBER)), *row[dotted + 1 :]]
            for row, each in zip(cells, self.differences, strict=True)
        ]
        notes = [self.heads(PYTHON)[-1], *self.below(PYTHON)]
        return stacked(*heads, table_block(head, rows, notes=notes, left=range(dotted + 1)))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as data for JSON."""
        return {
            "models": {name: verdict.to_dict() for name, verdict in self.verdicts.items()},
            "differences": [
                {**plain(asdict(each)), "change": each.change, "outcome": each.outcome.value, "words": each.words}
                for each in self.differences
            ],
            "crossings": [plain(asdict(crossing)) for crossing in self.crossings],
            "lowest_scores": list(self.lowest_scores),
            "notes": plain([each.as_dict(PYTHON) for each in self.said]),
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
