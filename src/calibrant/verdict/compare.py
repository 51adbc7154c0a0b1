"""Compare an old and a new model on the same rows."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, check_rows
from calibrant.messages import PYTHON, Argument, CalibrantWarning, InputError, Note, Phrase, Setting, Text, Voice
from calibrant.metrics.variance import Spread, between
from calibrant.numerics import Ends, Floats, logit
from calibrant.tallies import repeat_notes_of_rows
from calibrant.tallies.cells import mass_below
from calibrant.verdict.check import judge
from calibrant.verdict.decision import TOLERANCE
from calibrant.verdict.evidence import evidence_of_rows, without_single_groups
from calibrant.verdict.figures import capitalized, signed_percent
from calibrant.verdict.verdict import Verdict, plain

MAX_MAPS = 20
"""New scores that split into at most this many increasing maps of the old ones are taken as cross-fitted."""

MAX_INSPECTED_ROWS = 20_000
"""Rows inspected for this, evenly spaced in the order of the old scores."""


class Outcome(StrEnum):
    """What a difference means for the new model."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not significant"
    TOO_FEW_ROWS = "too few rows"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Difference:
    """A metric of the old and of the new model, and the 95 % interval of their paired difference."""

    name: str
    old: float
    new: float
    low: float
    high: float
    lower_is_better: bool = True
    maps: int = 1
    """Number of increasing maps of the old scores that produce the new ones (cross-fitting), or 1."""

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
                    f"not comparable: the new {voice.nouns.scores} come from {self.maps} cross-fitted maps, each of "
                    "which preserves the old ranking"
                )
            case Outcome.TOO_FEW_ROWS:
                return f"too few {voice.nouns.rows} to tell"
            case Outcome.NOT_SIGNIFICANT:
                return "no significant change"
            case outcome:
                return outcome.value

    def say(self, voice: Voice) -> str:
        """One line in the words of a voice."""
        digits, words = _digits(self.change, self.high - self.low), self.in_words(voice)
        share = f", {signed_percent(self.change / self.old)}" if self.old > 0.0 else ""
        if not np.isfinite(self.low):
            return f"{self.name}: {self.old:.4f} to {self.new:.4f}: {words}"
        return (
            f"{self.name}: {self.old:.{digits}f} to {self.new:.{digits}f} ({self.change:+.{digits}f}{share}; "
            f"95 % CI {self.low:+.{digits}f} to {self.high:+.{digits}f}): {words}"
        )

    def __str__(self) -> str:
        """One line."""
        return self.say(PYTHON)


@dataclass(frozen=True)
class Crossing:
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
        events = voice.nouns.events
        return (
            f"at {self.threshold:g}: {self.up:,.0f} {voice.nouns.rows} move up "
            f"({_rate(self.up_events, self.up, events)}), {self.down:,.0f} move down "
            f"({_rate(self.down_events, self.down, events)}); at or above it {self.above_old:,.0f} before, "
            f"{self.above_new:,.0f} after"
        )

    def __str__(self) -> str:
        """One line."""
        return self.say(PYTHON)


@dataclass(frozen=True)
class Change:
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
            lines += [f"  {crossing.say(voice)}" for crossing in self.crossings]
        return "\n".join([*lines, *(f"Note: {note.say(voice)}" for note in self.notes)])

    def __str__(self) -> str:
        """The whole comparison as text."""
        return self.say(PYTHON)

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


def compare(
    scores_old: ArrayLike,
    scores_new: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    y_new: ArrayLike | None = None,
    thresholds: ArrayLike = (0.5,),
    groups: ArrayLike | None = None,
    weight_type: Literal["importance", "frequency"] = "importance",
    positive: Any = None,
    tolerance: tuple[float, float] = TOLERANCE,
    random_state: int = 0,
) -> Change:
    r"""Compare two models on the same rows: calibration, losses, ranking and decisions at thresholds.

    Differences are paired, with Student intervals from the influence of each row: its loss minus the mean loss, or its
    placement among the other class (DeLong, DeLong and Clarke-Pearson 1988).

    Parameters
    ----------
    scores_old, scores_new
        Probabilities of the old and of the new model for the same rows.
    y
        Outcomes of the rows. Both models must predict the same event.
    sample_weight, weight_type, groups, positive, tolerance, random_state
        As in :func:`calibrant.check`. With ``groups`` the influences are summed by group, as in
        :func:`~calibrant.metrics.variance.spread_of`; importance weights enter squared.
    y_new
        Outcomes of the new model, if each model has its own, such as whether its answer to a question was right; rows
        are still paired.
    thresholds
        Policy thresholds. For each: how many rows change sides under the new scores, and how many of those are events.

    Returns
    -------
    Change
        Prints itself as text; has both verdicts, the differences and the rows that cross each threshold.

    Notes
    -----
    Scores of exactly 0 and 1 enter the log loss clipped to 2^-32 from the ends. Rows are needed: two tallies do not say
    which rows belong together. Guarantee: no finite-sample guarantee; with fewer than about twenty events intervals are
    too short. Cost: two sorts.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> p = rng.beta(2, 5, size=4000)
    >>> observed = rng.random(4000) < p
    >>> change = compare(p**0.5, p, observed, thresholds=[0.5])
    >>> change.new.status, change.differences[0].words
    ('calibrated', 'better')
    """
    given = {"weight_type": weight_type, "groups": groups, "positive": positive}
    old = _read({"scores": "scores_old"}, scores_old, y, sample_weight, **given)
    names = {"scores": "scores_new"} | ({} if y_new is None else {"y": "y_new"})
    new = _read(names, scores_new, y if y_new is None else y_new, sample_weight, **given)
    if len(old.scores) != len(new.scores):
        lengths = {"old": len(old.scores), "new": len(new.scores)}
        problem = Phrase("has {old} rows and {other} has {new}", other=Argument("scores_new"), **lengths)
        raise InputError("scores_old", problem, "both must score the same rows")
    levels = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if levels.ndim != 1 or not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InputError("thresholds", "must be probabilities between 0 and 1")
    impossible = any((rows.scores == 1.0 - rows.labels).any() for rows in (old, new))
    loss = "Log loss, scores clipped to 2^-32 from 0 and 1" if impossible else "Log loss"
    return Change(
        old=judge(evidence_of_rows(old, said=repeat_notes_of_rows(old), random_state=random_state), tolerance),
        new=judge(evidence_of_rows(new, said=repeat_notes_of_rows(new), random_state=random_state), tolerance),
        differences=(
            _paired(loss, _log_losses(old), _log_losses(new), old),
            _paired("Brier score", (old.scores - old.labels) ** 2, (new.scores - new.labels) ** 2, old),
            *_ranking(old, new),
        ),
        crossings=tuple(_crossing(float(level), old, new) for level in levels),
    )


def _read(names: Mapping[str, str], scores: Any, y: Any, sample_weight: Any, **given: Any) -> Rows:
    """Checked rows of one model; ``names`` maps argument names of the check to those of :func:`compare`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        try:
            return without_single_groups(check_rows(scores, y, sample_weight, score_type="probability", **given))
        except InputError as error:
            fix = None if error.fix is None else _renamed(error.fix, names)
            raise InputError(_named(error.subject, names), _renamed(error.problem, names), fix) from None


def _named(subject: str | Setting, names: Mapping[str, str]) -> str | Setting:
    return subject if isinstance(subject, Setting) else names.get(subject, subject)


def _renamed(text: Text, names: Mapping[str, str]) -> Text:
    """A problem or a fix with the argument names of :func:`compare`."""
    if not isinstance(text, Phrase):
        return text
    values = {
        name: Argument(names.get(value.name, value.name)) if isinstance(value, Argument) else value
        for name, value in text.values.items()
    }
    return Phrase(text.template, **values)


def _log_losses(rows: Rows) -> Floats:
    return np.asarray(np.logaddexp(0.0, (1.0 - 2.0 * rows.labels) * logit(rows.scores, Ends.of(rows.scores))))


def _paired(name: str, old: Floats, new: Floats, rows: Rows) -> Difference:
    """The difference of two mean losses on the same rows."""
    w = _weights(rows)
    means = [float((w * values).sum() / w.sum()) for values in (old, new)]
    return _difference(name, means[0], means[1], (new - old - (means[1] - means[0])) / w.sum(), rows)


def _ranking(old: Rows, new: Rows) -> tuple[Difference, ...]:
    """The difference of AUC; empty with one class."""
    if any(rows.labels.min() == rows.labels.max() for rows in (old, new)):
        return ()
    (before, of_old), (after, of_new) = _area(old), _area(new)
    maps = _maps(old.scores, new.scores) if np.array_equal(old.labels, new.labels) else 1
    return (_difference("AUC", before, after, of_new - of_old, old, lower_is_better=False, maps=maps),)


def _area(rows: Rows) -> tuple[float, Floats]:
    """AUC, and the influence of each row on it."""
    events, w = rows.labels == 1, _weights(rows)
    placed = _placements(rows.scores, events, w)
    area = float((w * placed)[events].sum() / w[events].sum())
    influence = np.empty(len(w))
    for mine, sign in ((events, 1.0), (~events, -1.0)):
        own = sign * placed[mine]
        influence[mine] = (own - (w[mine] * own).sum() / w[mine].sum()) / w[mine].sum()
    return area, influence


def _difference(
    name: str, old: float, new: float, influence: Floats, rows: Rows, lower_is_better: bool = True, maps: int = 1
) -> Difference:
    """A difference with its Student interval, from the influence of each row or group.

    :class:`~calibrant.selection.losses.Losses` is not used: its sums by cell are valid for mean losses, not for AUC.
    """
    w = _weights(rows)
    squares = (w if rows.counts else w * w) * influence**2
    if rows.groups is not None:
        code = np.unique(rows.groups, return_inverse=True)[1]
        sizes = np.bincount(code, w) if rows.counts else np.zeros(code.max() + 1)
        sums, parts = (np.bincount(code, each).astype(np.float64) for each in (w * influence, squares))
        spread = between(sums, parts, sizes == 1.0, np.bincount(code, w).astype(np.float64))
    else:
        size = float(w.sum() if rows.counts else w.sum() ** 2 / (w * w).sum())
        if size < 2.0:
            return Difference(name, old, new, -np.inf, np.inf, lower_is_better, maps)
        spread = Spread(float(squares.sum()) * size / (size - 1.0), size - 1.0)
    half = spread.quantile(0.95) * spread.sd
    return Difference(name, old, new, new - old - half, new - old + half, lower_is_better, maps)


def _maps(old: Floats, new: Floats) -> int:
    """Number of increasing maps of the old scores that produce the new ones; 1 where there are too many for that.

    In the order of the old scores, the new scores split into as many increasing sequences as their longest decreasing
    sequence is long (Dilworth 1950). Cross-fitting makes one for each fold; another model makes about the square root
    of the number of rows.
    """
    order = np.lexsort((new, old))
    taken = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_INSPECTED_ROWS, len(order))).astype(np.intp))]
    if len(taken) < 4 * MAX_MAPS**2:
        return 1
    ends: list[float] = []  # patience sorting: increasing sequences end at these values, negated
    for value in (-new[taken]).tolist():
        place = bisect_left(ends, value)
        if place == len(ends):
            if place == MAX_MAPS:
                return 1
            ends.append(value)
        else:
            ends[place] = value
    return len(ends)


def _weights(rows: Rows) -> Floats:
    return np.ones(len(rows.scores)) if rows.weights is None else rows.weights.astype(np.float64)


def _placements(scores: Floats, events: NDArray[np.bool_], w: Floats) -> Floats:
    """For an event, the share of non-events below it; for a non-event, of events below it; ties count half."""
    values, index = np.unique(scores, return_inverse=True)
    placed = np.empty(len(scores))
    for mine, other in ((events, ~events), (~events, events)):
        by_value = np.bincount(index[other], w[other], minlength=len(values))
        below = mass_below(by_value) / by_value.sum()
        placed[mine] = below[index[mine]]
    return placed


def _crossing(level: float, old: Rows, new: Rows) -> Crossing:
    w = _weights(old)
    before, after = old.scores >= level, new.scores >= level
    up, down = ~before & after, before & ~after
    hit = w * old.labels
    return Crossing(
        level,
        float(w[before].sum()),
        float(w[after].sum()),
        float(w[up].sum()),
        float(hit[up].sum()),
        float(w[down].sum()),
        float(hit[down].sum()),
    )


def _digits(change: float, width: float) -> int:
    """Decimals that show two significant digits of a difference and of its interval."""
    sizes = [abs(size) for size in (change, width) if size != 0.0 and np.isfinite(size)]
    return int(np.clip(1 - np.floor(np.log10(min(sizes))), 4, 9)) if sizes else 4


def _rate(events: float, rows: float, noun: str) -> str:
    return f"{100.0 * events / rows:.1f} % {noun}" if rows else "none"
