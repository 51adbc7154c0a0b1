"""Chains of exact binomial tests down the scores: where they start, which level each has, and how far they reach."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

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
        For each distinct score or cell: the smallest score that belongs to it, and the smallest one beyond it.
    rows, wrong
        Rows, and wrong rows, at or above it.
    score_type
        What the scores are.
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
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(
        cls,
        scores: Scores,
        correct: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        random_state: int = 0,
        score_type: ScoreType | None = None,
    ) -> Ladder:
        """The ladder of rows, or of a tally whose events are right answers; of groups one row each is drawn."""
        check_whole("random_state", random_state, 0)
        tally, notes = _tally(scores, correct, groups, random_state, score_type)
        if not tally.counts:
            raise InputError(
                "scores", "have importance weights, for which binomial tests are not exact", "pass counts of rows"
            )
        n, right = (np.asarray(each, dtype=np.int64)[::-1] for each in (tally.n, tally.events))
        low = ENDS[tally.score_type][0]
        at, above = np.maximum(tally.lower_edges[::-1], low), tally.upper_edges[::-1]
        return cls(at, above, np.cumsum(n), np.cumsum(n - right), tally.score_type, notes)

    @property
    def total(self) -> int:
        """All rows."""
        return int(self.rows[-1])

    def strictly_above(self, rank: int) -> int:
        """Index of the last score strictly above the row of rank ``rank + 1`` from the top; -1 if there is none."""
        return int(np.searchsorted(self.rows, rank, side="right")) - 1

    def cut_above(self, place: int) -> float:
        """The threshold that accepts every score above the distinct score after ``place``; all scores at the end."""
        return ENDS[self.score_type][0] if place == len(self.at) - 1 else float(self.above[place + 1])


def _tally(
    scores: Scores,
    correct: ArrayLike | None,
    groups: ArrayLike | None,
    random_state: int,
    score_type: ScoreType | None,
) -> tuple[Tally, tuple[Note, ...]]:
    if isinstance(scores, Tally):
        if correct is not None or groups is not None or score_type is not None:
            raise InputError("scores", "is a tally, which holds its labels already", "pass it alone")
        if not scores.total > 0:
            raise InputError("scores", "is an empty tally", "pass one that has rows")
        return scores, repeat_notes(scores) if scores.counts else ()
    rows = graded_rows(scores, correct, "correct", groups, score_type)
    if rows.groups is None:
        tally = Tally.from_rows(rows)
        return tally, (*rows.other_notes, *repeat_notes(tally))
    taken = one_row_each(rows.groups, random_state)
    return Tally.from_rows(rows.take(taken)), (*rows.other_notes, drawn_by_group(len(taken), len(rows.scores)))


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
    wrong one, such as cheap == 'yes'
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
    held, last = " and ".join(repr(each) for each in found), found[-1]
    raise InputError(name, f"holds {held}, not 1 and 0", f"{GRADES}, such as {name} == {last!r}")


def one_row_each(groups: NDArray[Any], random_state: int) -> NDArray[np.intp]:
    """Index of one row of each group, each row of a group with the same probability.

    Examples
    --------
    >>> one_row_each(np.array(["a", "a", "b"]), 0).tolist()[1]
    2
    """
    order = np.random.default_rng(int(random_state)).permutation(len(groups))
    return np.sort(order[np.unique(groups[order], return_index=True)[1]])


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


def reach(p: Floats, start: int, level: float) -> int:
    """Last index of the unbroken run of p-values up to ``level`` that begins at ``start``; ``start - 1`` without one.

    Examples
    --------
    >>> reach(np.array([0.01, 0.02, 0.3, 0.01]), 0, 0.05)
    1
    """
    fails = np.flatnonzero(~(p[start:] <= level))
    return start - 1 + (int(fails[0]) if len(fails) else len(p) - start)


def score_rule(threshold: float) -> str:
    """The scores that a threshold accepts, as text without rounding: the smallest number above 0.9 is "above 0.9".

    Examples
    --------
    >>> score_rule(0.9), score_rule(float(np.nextafter(0.9, 1.0))), score_rule(0.0), score_rule(-1e300)
    ('at least 0.9', 'above 0.9', 'at least 0.0', 'any number')
    """
    if threshold <= ENDS["real"][0]:
        return "any number"
    below = float(np.nextafter(threshold, -np.inf))
    return f"above {below!r}" if len(repr(below)) < len(repr(threshold)) else f"at least {threshold!r}"


drawn_by_group = note(
    "one-row-per-group",
    "One of the rows of each group was drawn at random: {groups:,} of {rows:,} {nouns.rows} are used, and the "
    "guarantee is for a random {nouns.row} of a new group.",
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
    return np.asarray(given >= threshold)
