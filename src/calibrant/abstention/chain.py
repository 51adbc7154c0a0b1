"""Chains of exact binomial tests down the scores: where they start, which level each has, and how far they reach."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from calibrant.arrays import Rows, ScoreType, check_rows, check_scores
from calibrant.arrays.columns import as_set, check_whole
from calibrant.arrays.labels import label_column
from calibrant.decisions import ENDS
from calibrant.messages import Argument, CalibrantWarning, InputError, Note, Phrase, note
from calibrant.metrics.binary.bins import Scores
from calibrant.numerics import Floats, Ints
from calibrant.tallies import Tally, repeat_notes


@dataclass(frozen=True, eq=False)
class Ladder:
    """Rows and wrong rows at or above each distinct score, from the highest score down.

    Attributes
    ----------
    at, above
        For each distinct score or cell: the smallest score that belongs to it, and the smallest one beyond it, in the
        dtype of the scores.
    rows, wrong
        Rows, and wrong rows, at or above it.
    score_type
        What the scores are.
    groups
        The rows by group, if some group has several.
    notes
        What was converted, or looks wrong.

    Examples
    --------
    >>> ladder = Ladder.of([0.9, 0.9, 0.5], [1, 1, 0])
    >>> ladder.at.tolist(), ladder.rows.tolist(), ladder.wrong.tolist()
    ([0.9, 0.5], [2, 3], [0, 1])
    """

    at: Floats
    above: Floats
    rows: Ints
    wrong: Ints
    score_type: ScoreType
    groups: Groups | None = None
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(
        cls,
        scores: Scores,
        correct: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        score_type: ScoreType | None = None,
    ) -> Ladder:
        """The ladder of rows, or of a tally whose events are right answers."""
        rows: Rows | None = None
        if isinstance(scores, Tally):
            tally, notes = _given(scores, correct, groups, score_type)
        else:
            rows = graded_rows(scores, correct, "correct", groups, score_type)
            tally = Tally.from_rows(rows)
            notes = (*rows.other_notes, *(repeat_notes(tally) if rows.groups is None else ()))
        if not tally.counts:
            raise InputError(
                "scores", "have importance weights, for which binomial tests are not exact", "pass counts of rows"
            )
        n, right = (np.asarray(each, dtype=np.int64)[::-1] for each in (tally.n, tally.events))
        at, above = np.maximum(tally.lower_edges[::-1], ENDS[tally.score_type][0]), tally.upper_edges[::-1]
        if is_float32(scores):
            above = np.nextafter(at.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        grouped = None
        if rows is not None and rows.groups is not None:
            place = len(at) - 1 - np.searchsorted(at[::-1], rows.scores)
            grouped = Groups.of(rows.groups, place, (rows.labels == 0).astype(np.float64), len(at))
        return cls(at, above, np.cumsum(n), np.cumsum(n - right), tally.score_type, grouped, notes)

    @property
    def total(self) -> int:
        """All rows."""
        return int(self.rows[-1])

    def cut_above(self, place: int) -> float:
        """The threshold that accepts every score above the distinct score after ``place``; all scores at the end."""
        return ENDS[self.score_type][0] if place == len(self.at) - 1 else float(self.above[place + 1])


def is_float32(scores: Any) -> bool:
    """Whether the scores are a column of float32, of any library."""
    return str(getattr(scores, "dtype", "")).lower().endswith("float32")


def strictly_above(rows: Ints, rank: int) -> Any:
    """Index of the last score strictly above the row of rank ``rank + 1`` from the top; -1 if there is none.

    Examples
    --------
    >>> [int(strictly_above(np.array([2, 3, 4]), rank)) for rank in (1, 2, 4)]
    [-1, 0, 2]
    """
    return np.count_nonzero(rows <= rank, axis=-1) - 1


def _given(
    scores: Tally, correct: ArrayLike | None, groups: ArrayLike | None, score_type: ScoreType | None
) -> tuple[Tally, tuple[Note, ...]]:
    if correct is not None or groups is not None or score_type is not None:
        raise InputError("scores", "is a tally, which holds its labels already", "pass it alone")
    if not scores.total > 0:
        raise InputError("scores", "is an empty tally", "pass one that has rows")
    return scores, repeat_notes(scores) if scores.counts else ()


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in the order of their groups, for tests in which each group counts once.

    Attributes
    ----------
    place, wrong
        For each row: the place of its score on the ladder, and 1 if it is wrong, else 0.
    first, size
        For each group: its first row, and its number of rows.
    steps
        Number of places on the ladder.

    Examples
    --------
    >>> groups = Groups.of(np.array(["a", "b", "a"]), np.array([0, 1, 0]), np.array([1.0, 0.0, 0.0]), 2)
    >>> groups.one_score, [each.tolist() for each in groups.means()]
    (True, [[[1, 2]], [[0.5, 0.5]]])
    """

    place: Ints
    wrong: Floats
    first: Ints
    size: Ints
    steps: int

    @classmethod
    def of(cls, groups: NDArray[Any], place: Ints, wrong: Floats, steps: int) -> Groups | None:
        """The groups; None if no group has more than one row, so that rows are as good as groups."""
        _, index, size = np.unique(groups, return_inverse=True, return_counts=True)
        if int(size.max(initial=0)) < 2:
            return None
        order = np.argsort(index, kind="stable")
        return cls(place[order], wrong[order], np.cumsum(size) - size, size, steps)

    @property
    def one_score(self) -> bool:
        """Whether the rows of every group share one score."""
        return bool((np.maximum.reduceat(self.place, self.first) == np.minimum.reduceat(self.place, self.first)).all())

    def means(self) -> tuple[Ints, Floats]:
        """Groups at or above each place, and the sum of their shares of wrong rows, if each has one score."""
        share = np.add.reduceat(self.wrong, self.first) / self.size
        return self._counted(self.place[self.first][None], share[None])

    def draws(self, random_state: int, count: int) -> Iterator[tuple[Ints, Floats]]:
        """Rows and wrong rows at or above each place, of one row of each group: a line for each of ``count`` draws."""
        rng, at_once = np.random.default_rng(random_state), max(1_000_000 // (self.steps + len(self.size)), 1)
        for done in range(0, count, at_once):
            taken = self.first + rng.integers(self.size, size=(min(at_once, count - done), len(self.size)))
            yield self._counted(self.place[taken], self.wrong[taken])

    def _counted(self, place: Ints, wrong: Floats) -> tuple[Ints, Floats]:
        lines = len(place)
        flat = (place + self.steps * np.arange(lines)[:, None]).ravel()
        shape = lines, self.steps
        rows = np.bincount(flat, minlength=lines * self.steps).reshape(shape).cumsum(axis=1)
        return rows, np.bincount(flat, wrong.ravel(), lines * self.steps).reshape(shape).cumsum(axis=1)

    def risk(self, last: int) -> float:
        """Share of wrong rows among those down to the place ``last``, where each group has the same weight."""
        weight = np.repeat(1.0 / self.size, self.size) * (self.place <= last)
        return float((weight * self.wrong).sum() / weight.sum())


GRADES = "pass 1 for each right answer and 0 for each wrong one"
"""What columns of right and wrong answers hold."""


def graded_rows(
    scores: Any,
    graded: ArrayLike | None,
    name: str,
    groups: ArrayLike | None = None,
    score_type: ScoreType | None = None,
) -> Rows:
    """Checked rows of scores and of right answers, whose errors have the ``name`` of the argument with the grades.

    Examples
    --------
    >>> graded_rows([0.9, 0.4], ["yes", "no"], "cheap")
    Traceback (most recent call last):
    ...
    calibrant.messages.InputError: cheap holds 'no' and 'yes', not 1 and 0: pass 1 for each right answer and 0 for each
    wrong one
    """
    if graded is None:
        raise InputError(name, "is missing", GRADES)
    labels = label_column(graded, name)
    found = sorted(as_set(labels, name) if labels.dtype.kind == "O" else set(np.unique(labels).tolist()), key=repr)
    if not set(found) <= {0, 1} and not set(found) <= {-1, 1}:
        _refuse_grades(scores, found, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # all right, or all wrong, is an ordinary case here
        try:
            return check_rows(scores, graded, groups=groups, score_type=score_type)
        except InputError as error:
            raise error.about(name) if error.argument == "y" else error from None


def _refuse_grades(scores: Any, found: list[Any], name: str) -> NoReturn:
    """Refuse a column that holds neither 1 and 0 nor 1 and -1; scores that hold 1 and 0 are the grades."""
    given = np.asarray(scores)
    if given.size > 1 and len(found) > 2 and given.dtype.kind in "biuf" and np.isin(given, (0, 1)).all():
        swapped = Phrase("and {graded} look swapped", graded=Argument(name))
        raise InputError("scores", swapped, Phrase("pass scores first, then {graded}", graded=Argument(name)))
    if len(found) > 2:
        first = ", ".join(repr(each) for each in found[:3])
        raise InputError(name, f"has more than two distinct values ({first}, ...)", GRADES)
    held = " and ".join(repr(each) for each in found)
    raise InputError(name, f"holds {held}, not 1 and 0", GRADES)


def seed_of(random_state: int | None) -> int:
    """The seed that was passed, or a fresh one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**32))
    check_whole("random_state", random_state, 0)
    return int(random_state)


def check_levels(error: float, alpha: float) -> None:
    """Raise an error unless both are strictly between 0 and 1."""
    for name, value, fix in (
        ("error", error, "0.1 asks for at most one wrong answer in ten"),
        ("alpha", alpha, "0.05 gives confidence 95 %"),
    ):
        if not (isinstance(value, int | float | np.number) and 0.0 < value < 1.0):
            raise InputError(name, f"must be strictly between 0 and 1, got {value!r}", fix)


def start_ranks(n: int, error: float, alpha: float) -> tuple[int, ...]:
    r"""Numbers of top rows at which chains start: all rows, half of them, a quarter and so on.

    The last is the smallest one that could pass without a wrong row: :math:`(1 - e)^k \le \alpha / m` for m starts.

    Examples
    --------
    >>> start_ranks(300, 0.1, 0.05), start_ranks(20, 0.1, 0.05)
    ((300, 150, 75), ())
    """
    found: list[int] = []
    while n > 0 and n * np.log1p(-error) <= np.log(alpha / (len(found) + 1)):
        found.append(n)
        n //= 2
    return tuple(found)


def fewest_rows(error: float, alpha: float) -> int:
    """Fewest rows with which a threshold can be found, all of them right.

    Examples
    --------
    >>> fewest_rows(0.1, 0.05)
    29
    """
    return int(np.ceil(np.log(alpha) / np.log1p(-error)))


def p_values(wrong: Ints, rows: Ints, error: float) -> Floats:
    """Probability of this few wrong rows if the error were ``error``: the exact binomial test of "too many are wrong".

    Examples
    --------
    >>> p_values(np.array([0, 1]), np.array([29, 29]), 0.1).round(4).tolist()
    [0.0471, 0.1989]
    """
    return np.asarray(special.bdtr(wrong.astype(np.float64), rows, error))


def most_wrong(rows: Ints, error: float, level: float) -> Ints:
    """The largest number of wrong rows with which the exact binomial test passes; -1 if none does.

    Examples
    --------
    >>> most_wrong(np.array([28, 29, 150]), 0.1, 0.05).tolist()
    [-1, 0, 8]
    """
    near = np.maximum(stats.binom.ppf(level, np.maximum(rows, 1), error), 0.0).astype(np.int64)  # off by one at most
    fail = [
        p_values(np.minimum(near + k, rows), rows, error) > level for k in (-1, 0, 1)
    ]  # below 0 it is NaN, which never fails
    return np.asarray(near + 1 - np.sum(fail, axis=0))


def mean_passes(total: Floats, n: Ints, error: float, level: float) -> NDArray[np.bool_]:
    r"""Whether the sum of n independent numbers in [0, 1] shows that their mean is below ``error``.

    .. math:: \frac{\mathbb{E}\,(j - \mathrm{Bin}(n, e))_+}{j - x} \le \beta,

    where x is the sum and j the integer for which most sums pass: 1 + :func:`most_wrong`. By Hoeffding (1963) the
    numerator is at least the mean of :math:`(j - X)_+`, so that Markov's inequality gives the level.

    Examples
    --------
    >>> mean_passes(np.array([0.0, 0.2, 0.0]), np.array([29, 29, 28]), 0.1, 0.05).tolist()
    [True, False, False]
    """
    j = np.maximum(most_wrong(n, error, level), 0) + 1
    left = j * special.bdtr(j - 1.0, n, error)
    left -= n * error * np.where(j >= 2, special.bdtr(np.maximum(j - 2.0, 0.0), np.maximum(n - 1, 1), error), 0.0)
    return np.asarray((n > 0) & (left <= level * (1.0 - 1e-9) * (j - total)))  # sums are rounded


def reach(passed: NDArray[np.bool_], start: int) -> int:
    """Last index of the unbroken run of passed tests that begins at ``start``; ``start - 1`` without one.

    Examples
    --------
    >>> reach(np.array([True, True, False, True]), 0)
    1
    """
    fails = np.flatnonzero(~passed[start:])
    return start - 1 + (int(fails[0]) if len(fails) else len(passed) - start)


def certified(passed: NDArray[np.bool_], places: list[Ints]) -> Ints:
    """In how many draws chains of tests show each rule; each line of ``passed`` is a draw, and so has its starts.

    Rule 2k is the k-th distinct score and all above it. Rule 2k + 1 has the same rows, but is the rule of a start:
    every score strictly above the next distinct one.

    Examples
    --------
    >>> certified(np.array([[False, True, True, False]]), [np.array([1]), np.array([3])]).tolist()
    [0, 0, 0, 1, 1, 0, 0, 0]
    """
    steps = np.arange(passed.shape[1])
    failure = np.minimum.accumulate(np.where(passed, len(steps), steps)[:, ::-1], axis=1)[:, ::-1]
    begun, gone = np.zeros_like(passed), np.zeros_like(passed)
    for place in places:
        there = place[:, None]
        end = np.where(there >= 0, np.take_along_axis(failure, np.maximum(there, 0), axis=1), -1)
        begun |= (steps == there) & (end > there)
        gone |= (steps > there) & (steps < end)
    return np.stack([gone.sum(axis=0), begun.sum(axis=0)], axis=1).ravel()


def score_rule(threshold: float) -> str:
    """The scores that a threshold accepts, as text without rounding: the smallest number above 0.9 is "above 0.9".

    Examples
    --------
    >>> score_rule(0.9), score_rule(float(np.nextafter(0.9, 1.0))), score_rule(0.0), score_rule(-1e300)
    ('at least 0.9', 'above 0.9', 'at least 0.0', 'any number')
    >>> score_rule(float(np.float32(0.9))), score_rule(float(np.nextafter(np.float32(0.9), np.float32(1))))
    ('at least 0.9 (float32)', 'above 0.9 (float32)')
    """
    if threshold <= ENDS["real"][0]:
        return "any number"
    below = [float(np.nextafter(threshold, -np.inf))]
    if abs(threshold) < 1e38 and float(np.float32(threshold)) == threshold:
        below.append(float(np.nextafter(np.float32(threshold), np.float32(-np.inf))))
    texts = []
    with np.errstate(over="ignore"):
        for word, number in (("at least", threshold), *(("above", each) for each in below)):
            texts.append((repr(number), word, ""))
            for kind in (np.float32, np.float16):
                if float(kind(number)) == number:
                    texts.append((str(kind(number)), word, f" ({kind.__name__})"))
    digits, word, kind_name = min(texts, key=lambda text: len(text[0]))
    return f"{word} {digits}{kind_name}"


one_row_per_group = note(
    "one-row-per-group",
    "One {nouns.row} of each group was drawn at random (random_state={seed}): {groups:,} of {rows:,} {nouns.rows} are "
    "used. The first draw counts: another one, made because of what this one shows, would have no guarantee.",
)

groups_count_once = note(
    "groups-count-once",
    "The guarantee is for a random {nouns.row} of a random group: each of the {groups:,} groups has the same weight.",
)


def at_or_above(scores: ArrayLike, threshold: float | None, score_type: ScoreType) -> NDArray[np.bool_]:
    """Whether each score is at least the threshold; none is without a threshold, and a missing score is not.

    Examples
    --------
    >>> at_or_above([0.2, 0.9, np.nan], 0.5, "probability").tolist(), at_or_above([0.9], None, "probability").tolist()
    ([False, True, False], [False])
    """
    given = check_scores(scores, score_type)
    if threshold is None:
        return np.zeros(len(given), dtype=np.bool_)
    return np.asarray(given.astype(np.float64) >= threshold)  # numpy would round the threshold to float32
