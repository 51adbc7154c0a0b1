"""What a score is: a probability, log-odds, or any real number."""

from __future__ import annotations

import math
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import refuse_empty, refuse_not_finite, value_range
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Text, Voice, note, warn

ScoreType = Literal["probability", "logit", "real"]
MulticlassScoreType = Literal["probability", "logit", "independent"]
ROUNDING = 1e-6
"""How far outside [0, 1] a number is a probability with a rounding error, and is clipped."""

_MAX_LOGIT = 40.0  # expit(40) differs from 1 by 4e-18: larger numbers are unlikely to be log-odds
_MAX_SCORE = 1e300  # beyond it sums and differences of scores overflow
_MAX_STRAY_SHARE, _MIN_ROWS_FOR_STRAYS = 0.1, 20  # up to this share outside [0, 1] are taken for errors in the data
_MAX_PERCENT = 100.0 * (1.0 + ROUNDING)

PROBABILITY_ENDS = (-ROUNDING, 1.0 + ROUNDING)
"""Scores are read as probabilities up to here: what is beyond 0 or 1 by no more is rounding, and is clipped."""

_LOGIT, _REAL = Setting("score_type", "logit"), Setting("score_type", "real")


@note("score-type-guessed")
def kind_guessed(voice: Voice, score_type: ScoreType, low: float, high: float) -> str:
    """What the scores were read as."""
    if score_type == "probability":
        return f"{voice.nouns.scores} read as {voice.nouns.probabilities} (all in [0, 1])"
    logit, real = voice.say(_LOGIT), voice.say(_REAL)
    if score_type == "logit":
        read, choice = "logits", f"pass {logit} to confirm, or {real} if they are not log-odds"
    else:
        read, choice = "real numbers", f"pass {real} to confirm, or {logit} if they are log-odds"
    return f"{voice.nouns.scores} read as {read} (from {low:.6g} to {high:.6g}): {choice}"


def read_probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Scores as a map of probabilities reads them in every export: NaN beyond :data:`PROBABILITY_ENDS`, else clipped.

    Examples
    --------
    >>> import numpy as np
    >>> read_probabilities(np.array([-0.1, -5e-7, 0.3, 1.0 + 5e-7, 1.2])).tolist()
    [nan, 0.0, 0.3, 1.0, nan]
    """
    low, high = PROBABILITY_ENDS
    return np.where((scores >= low) & (scores <= high), scores.clip(0.0, 1.0), scores.dtype.type(np.nan))


def sniff_kind(scores: NDArray[np.float64]) -> tuple[ScoreType, Note]:
    """Guess what finite scores are, with a note on the guess.

    All in [0, 1], up to 1e-6: probabilities; a few outside among many inside are refused. Some below -1e-6 and none
    above 40 in absolute value: logits. Numbers above 1, at most 100 and none negative, are refused: they look like a
    scale of 1 to 10, like percentages, or like probabilities with an error. Anything else: real numbers.

    Parameters
    ----------
    scores : ndarray of float64
        At least one finite number.

    Returns
    -------
    kind : {"probability", "logit", "real"}
        The guess.
    note : Note
        The guess and the range of the scores; its text names the argument that overrides the guess.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.arrays import sniff_kind
    >>> kind, note = sniff_kind(np.array([0.2, 0.9]))
    >>> kind, note.code, str(note)
    ('probability', 'score-type-guessed', 'scores read as probabilities (all in [0, 1])')
    >>> sniff_kind(np.array([-2.0, 3.5]))[0]
    'logit'
    """
    if scores.size == 0:
        refuse_empty("scores")
    low, high = value_range(scores)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(scores, "scores", Advice.DROP_OR_REPAIR_SCORES)
    guess = _guess(scores, low, high)
    return guess, kind_guessed(guess, low, high)


def settled(
    s: NDArray[Any],
    score_type: ScoreType | None,
    low: float,
    high: float,
    name: str = "scores",
    *,
    fitted: bool = False,
) -> tuple[NDArray[Any], ScoreType, tuple[Note, ...]]:
    """The scores, their given type if they agree with it or else a guess, and a note on the guess.

    Probabilities that leave [0, 1] by rounding are clipped. The score type of a ``fitted`` map is fixed.
    """
    if not fitted and max(-low, high) > _MAX_SCORE:
        raise InputError(name, f"holds {low if -low > high else high:.6g}, which is too large", "rescale them")
    notes: tuple[Note, ...] = ()
    if score_type is None:
        score_type = _guess(s, low, high)
        guessed = kind_guessed(score_type, low, high)
        notes = (guessed,)
        if score_type != "probability":
            warn(guessed)
    if score_type != "probability" or not (low < 0.0 or high > 1.0):
        return s, score_type, notes
    if not within(low, high):
        _refuse_outside(s, low, high, name, fitted)
    return np.clip(s, 0.0, 1.0), score_type, notes


def within(low: float, high: float) -> bool:
    """Whether a range lies in [0, 1], up to rounding; so does that of nothing but missing values, NaN."""
    return not (low < -ROUNDING or high > 1.0 + ROUNDING)


def refuse_strays(outside: NDArray[np.bool_], example: NDArray[Any], what: str = "values") -> None:
    """Refuse a few scores or rows outside [0, 1] among many inside: they must not decide the type of all."""
    count, row = int(np.count_nonzero(outside)), int(outside.argmax())
    if len(outside) >= _MIN_ROWS_FOR_STRAYS and 0 < count <= _MAX_STRAY_SHARE * len(outside):
        raise InputError(
            "scores",
            f"has {count} of {len(outside)} {what} outside [0, 1], the first at row {row} counted from 0 "
            f"({example[row]:.6g})",
            Phrase(
                "{repair}, or pass {logit} or {real} if they are not probabilities",
                repair=Advice.REPAIR_OR_DROP_ROWS,
                logit=_LOGIT,
                real=_REAL,
            ),
        )


def above_one(a: NDArray[Any], high: float, percent: bool | None = None) -> tuple[str, Advice | str]:
    """What numbers of at least 0, some of them above 1, look like, and what to do with them.

    Above 2 they are taken for percentages, unless the caller knows better.

    Examples
    --------
    >>> above_one(np.array([3.0, 8.0]), 8.0)[0], above_one(np.array([3.5, 80.0]), 80.0)[0]
    ('look like a scale of 1 to 10', 'look like percentages')
    """
    if high <= 10.0 and bool((a == np.floor(a)).all()):
        top = 5 if high <= 5.0 else 10
        return f"look like a scale of 1 to {top}", f"divide by {top}{', or by 10 if it ends at 10' * (top == 5)}"
    if high > 2.0 if percent is None else percent:
        return "look like percentages", Advice.DIVIDE_BY_100
    return "look like probabilities above 1", Advice.REPAIR_OR_DROP_ROWS


def _guess(s: NDArray[Any], low: float, high: float) -> ScoreType:
    if within(low, high):
        return "probability"
    refuse_strays((s < -ROUNDING) | (s > 1.0 + ROUNDING), s)
    if low >= -ROUNDING and high <= _MAX_PERCENT:
        look, fix = above_one(s, high)
        raise InputError(
            "scores",
            f"holds values that {look} (min {low:.6g}, max {high:.6g})",
            Phrase("{instead}, or pass {real} if they are not", instead=fix, real=_REAL),
        )
    return "logit" if low < -ROUNDING and max(-low, high) <= _MAX_LOGIT else "real"


def _refuse_outside(s: NDArray[Any], low: float, high: float, name: str, fitted: bool) -> NoReturn:
    """Raise an error that says how many scores lie outside [0, 1]; the score type of a ``fitted`` map is fixed."""
    fix: Text
    if low >= -ROUNDING and high <= _MAX_PERCENT:
        look, instead = above_one(s, high)
        fix = Phrase(f"if they {look}, {{instead}}", instead=instead)
    else:
        choice = Phrase("{logit} or {real}, or repair these rows", logit=_LOGIT, real=_REAL)
        fix = Phrase("fit with {choice}" if fitted else "pass {choice}", choice=choice)
    outside = np.count_nonzero((s < -ROUNDING) | (s > 1.0 + ROUNDING))
    raise InputError(
        name,
        f"must lie in [0, 1] to be probabilities, but {outside} of {s.size} rows do not (min {low:.6g}, max "
        f"{high:.6g})",
        fix,
    )
