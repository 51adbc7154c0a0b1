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
_MAX_LOGIT = 40.0  # expit(40) differs from 1 by 4e-18: larger numbers are unlikely to be log-odds
_MAX_SCORE = 1e300  # beyond it sums and differences of scores overflow
_MAX_STRAY_SHARE, _MIN_ROWS_FOR_STRAYS = 0.1, 20  # up to this share outside [0, 1] are taken for errors in the data
_ROUNDING = 1e-6  # an excess over 1 up to this is a rounding error, not a percentage


PROBABILITY_ENDS = (-_ROUNDING, 1.0 + _ROUNDING)
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

    All in [0, 1]: probabilities; a few outside among many inside are refused. Some negative and none above 40 in
    absolute value: logits. Anything else: real numbers. Numbers from 0 to at most 100 are refused, since they are
    probably percentages.

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
    _refuse_strays(scores, low, high)
    guess = _guess(low, high)
    return guess, kind_guessed(guess, low, high)


def settle_kind(
    s: NDArray[np.float64], score_type: ScoreType | None, low: float, high: float
) -> tuple[ScoreType, tuple[Note, ...]]:
    """The given score type, if the scores agree with it; otherwise a guess, with a note on it."""
    if max(-low, high) > _MAX_SCORE:
        raise InputError("scores", f"holds {low if -low > high else high:.6g}, which is too large", "rescale them")
    if score_type is None:
        _refuse_strays(s, low, high)
        guess = _guess(low, high)
        found = kind_guessed(guess, low, high)
        if guess != "probability":
            warn(found)
        return guess, (found,)
    if score_type == "probability" and (low < 0 or high > 1):
        refuse_outside(s, low, high, "scores")
    return score_type, ()


def _refuse_strays(s: NDArray[np.float64], low: float, high: float) -> None:
    """Refuse a few scores outside [0, 1] among many inside: they must not decide the type of all scores."""
    if (low >= 0 and high <= 1) or _is_rounding(low, high):
        return
    outside = np.flatnonzero((s < 0) | (s > 1))
    if len(s) >= _MIN_ROWS_FOR_STRAYS and len(outside) <= _MAX_STRAY_SHARE * len(s):
        raise InputError(
            "scores",
            f"has {len(outside)} of {len(s)} values outside [0, 1], the first at row {outside[0]} counted from 0 "
            f"({s[outside[0]]:.6g})",
            Phrase(
                "{repair}, or pass {logit} or {real} if they are not probabilities",
                repair=Advice.REPAIR_OR_DROP_ROWS,
                logit=_LOGIT,
                real=_REAL,
            ),
        )


def _guess(low: float, high: float) -> ScoreType:
    if low >= 0 and high <= 1:
        return "probability"
    if _is_rounding(low, high):
        raise InputError(
            "scores", f"exceeds [0, 1] by rounding only (min {low:.9g}, max {high:.9g})", "clip them to [0, 1]"
        )
    if _is_percent(low, high):
        raise InputError(
            "scores",
            f"holds values between 0 and 100 that look like percentages (min {low:.6g}, max {high:.6g})",
            Phrase("{divide}, or pass {real} if they are not", divide=Advice.DIVIDE_BY_100, real=_REAL),
        )
    return "logit" if low < 0 and max(-low, high) <= _MAX_LOGIT else "real"


def _is_percent(low: float, high: float) -> bool:
    return low >= 0 and 1 < high <= 100


def _is_rounding(low: float, high: float) -> bool:
    """Whether a range exceeds [0, 1] by rounding errors only."""
    return low >= -_ROUNDING and _ROUNDING < high <= 1 + _ROUNDING


def refuse_outside(s: NDArray[Any], low: float, high: float, name: str, *, fitted: bool = False) -> NoReturn:
    """Raise an error that says how many scores lie outside [0, 1]; the score type of a ``fitted`` map is fixed."""
    fix: Text
    if _is_rounding(low, high):
        fix = "this is rounding, so clip them to [0, 1]"
    elif _is_percent(low, high):
        fix = Phrase("if they are percentages, {divide}", divide=Advice.DIVIDE_BY_100)
    else:
        choice = Phrase("{logit} or {real}, or repair these rows", logit=_LOGIT, real=_REAL)
        fix = Phrase("fit with {choice}" if fitted else "pass {choice}", choice=choice)
    outside = np.count_nonzero((s < 0) | (s > 1))
    digits = 9 if _is_rounding(low, high) else 4
    raise InputError(
        name,
        f"must lie in [0, 1] to be probabilities, but {outside} of {s.size} rows do not (min {low:.{digits}g}, max "
        f"{high:.{digits}g})",
        fix,
    )
