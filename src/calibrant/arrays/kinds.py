"""What a score is: a probability, log-odds, or any real number."""

from __future__ import annotations

import math
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import refuse_empty, refuse_not_finite, value_range
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Text, Voice, note, warn

Kind = Literal["probability", "logit", "real"]
ClassKind = Literal["probability", "logit", "independent"]
_LOGIT_LIMIT = 40.0  # expit(40) differs from 1 by 4e-18: larger numbers are hardly log-odds
_LARGEST = 1e300  # beyond it sums and differences of scores overflow
_FEW, _ENOUGH = 0.1, 20  # up to a tenth of at least twenty scores outside [0, 1] are strays, and not another kind
_ROUNDING = 1e-6  # an excess over 1 up to this is float noise, not a percentage


_LOGIT, _REAL = Setting("kind", "logit"), Setting("kind", "real")


@note("kind-guessed")
def kind_guessed(voice: Voice, kind: Kind, low: float, high: float) -> str:
    """What the scores were read as."""
    if kind == "probability":
        return f"{voice.nouns.scores} read as {voice.nouns.probabilities} (all in [0, 1])"
    logit, real = voice.say(_LOGIT), voice.say(_REAL)
    if kind == "logit":
        read, choice = "logits", f"pass {logit} to confirm, or {real} if they are not log-odds"
    else:
        read, choice = "real numbers", f"pass {real} to confirm, or {logit} if they are log-odds"
    return f"{voice.nouns.scores} read as {read} (from {low:.6g} to {high:.6g}): {choice}"


def sniff_kind(scores: NDArray[np.float64]) -> tuple[Kind, Note]:
    """Guess what finite scores are, with a note on the guess.

    All in [0, 1]: probabilities; a few outside among many inside are refused. Some negative and none beyond 40 in size:
    logits. Anything else: real numbers; except
    that numbers from 0 to at most 100 are refused, since a percentage read as a real number hides a mistake.

    Parameters
    ----------
    scores : ndarray of float64
        At least one finite number.

    Returns
    -------
    kind : {"probability", "logit", "real"}
        The guess.
    note : Note
        The guess and the range of the scores; its text names the argument that replaces the guess.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.arrays import sniff_kind
    >>> kind, note = sniff_kind(np.array([0.2, 0.9]))
    >>> kind, note.code, str(note)
    ('probability', 'kind-guessed', 'scores read as probabilities (all in [0, 1])')
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


def settle_kind(s: NDArray[np.float64], kind: Kind | None, low: float, high: float) -> tuple[Kind, tuple[Note, ...]]:
    """Take the kind that was given, when the scores agree with it, or guess it and report the guess."""
    if max(-low, high) > _LARGEST:
        raise InputError("scores", f"holds {low if -low > high else high:.6g}, which is too large", "rescale them")
    if kind is None:
        _refuse_strays(s, low, high)
        guess = _guess(low, high)
        found = kind_guessed(guess, low, high)
        if guess != "probability":
            warn(found)
        return guess, (found,)
    if kind == "probability" and (low < 0 or high > 1):
        refuse_outside(s, low, high, "scores")
    return kind, ()


def _refuse_strays(s: NDArray[np.float64], low: float, high: float) -> None:
    """A few scores outside [0, 1] among many inside are mistakes: they must not decide what all the others mean."""
    if (low >= 0 and high <= 1) or _is_rounding(low, high):
        return
    outside = np.flatnonzero((s < 0) | (s > 1))
    if len(s) >= _ENOUGH and len(outside) <= _FEW * len(s):
        raise InputError(
            "scores",
            f"has {len(outside)} of {len(s)} values outside [0, 1], the first in row {outside[0]} "
            f"({s[outside[0]]:.6g})",
            Phrase(
                "{repair}, or pass {logit} or {real} if that is what they are",
                repair=Advice.REPAIR_OR_DROP_ROWS,
                logit=_LOGIT,
                real=_REAL,
            ),
        )


def _guess(low: float, high: float) -> Kind:
    if low >= 0 and high <= 1:
        return "probability"
    if _is_rounding(low, high):
        raise InputError(
            "scores", f"leaves [0, 1] by rounding only (min {low:.9g}, max {high:.9g})", "clip them to [0, 1]"
        )
    if _is_percent(low, high):
        raise InputError(
            "scores",
            f"holds values between 0 and 100 that look like percentages (min {low:.6g}, max {high:.6g})",
            Phrase("{divide}, or pass {real} if they are not", divide=Advice.DIVIDE_BY_100, real=_REAL),
        )
    return "logit" if low < 0 and max(-low, high) <= _LOGIT_LIMIT else "real"


def _is_percent(low: float, high: float) -> bool:
    return low >= 0 and 1 < high <= 100


def _is_rounding(low: float, high: float) -> bool:
    """Whether a range that leaves [0, 1] does so by float noise only."""
    return low >= -_ROUNDING and _ROUNDING < high <= 1 + _ROUNDING


def refuse_outside(s: NDArray[Any], low: float, high: float, name: str, *, fitted: bool = False) -> NoReturn:
    """Say how many scores leave [0, 1], and what they look like; the kind of a ``fitted`` map is set already."""
    fix: Text
    if _is_rounding(low, high):
        fix = "this is rounding, so clip them to [0, 1]"
    elif _is_percent(low, high):
        fix = Phrase("if they are percentages, {divide}", divide=Advice.DIVIDE_BY_100)
    else:
        choice = Phrase("{logit} or {real}, or repair these rows", logit=_LOGIT, real=_REAL)
        fix = Phrase("fit with {choice}" if fitted else "pass {choice}", choice=choice)
    outside = np.count_nonzero((s < 0) | (s > 1))
    raise InputError(
        name,
        f"must lie in [0, 1] to be probabilities, but {outside} of {s.size} rows do not (min {low:.9g}, max "
        f"{high:.9g})",
        fix,
    )
