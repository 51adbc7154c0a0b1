"""What a score is: a probability, log-odds, or any real number."""

from __future__ import annotations

import math
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import refuse_not_finite, value_range
from calibrant.arrays.errors import InputError, warn

Kind = Literal["probability", "logit", "real"]
_LOGIT_LIMIT = 40.0  # expit(40) differs from 1 by 4e-18: larger numbers are hardly log-odds
_LARGEST = 1e300  # beyond it sums and differences of scores overflow
_FEW, _ENOUGH = 0.1, 20  # up to a tenth of at least twenty scores outside [0, 1] are strays, and not another kind
_ROUNDING = 1e-6  # an excess over 1 up to this is float noise, not a percentage


def sniff_kind(scores: NDArray[np.float64]) -> tuple[Kind, str]:
    """Guess what finite scores are, and report the guess in one sentence.

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
    sentence : str
        The guess in words, with the argument that replaces it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.arrays import sniff_kind
    >>> sniff_kind(np.array([0.2, 0.9]))
    ('probability', 'scores read as probabilities (all in [0, 1])')
    >>> sniff_kind(np.array([-2.0, 3.5]))[0]
    'logit'
    """
    if scores.size == 0:
        raise InputError("scores is empty: pass at least one row")
    low, high = value_range(scores)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(scores, "scores", "drop these rows or repair the score")
    _refuse_strays(scores, low, high)
    return _guess(low, high)


def settle_kind(s: NDArray[np.float64], kind: Kind | None, low: float, high: float) -> tuple[Kind, tuple[str, ...]]:
    """Take the kind that was given, when the scores agree with it, or guess it and report the guess."""
    if max(-low, high) > _LARGEST:
        raise InputError(f"scores reach {max(-low, high):.6g} in size: rescale them")
    if kind is None:
        _refuse_strays(s, low, high)
        guess, sentence = _guess(low, high)
        if guess != "probability":
            warn(sentence)
        return guess, (sentence,)
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
            f"{len(outside)} of {len(s)} scores lie outside [0, 1], the first in row {outside[0]} "
            f"({s[outside[0]]:.6g}): repair or drop these rows, or pass kind='logit' or kind='real' if that is what "
            "scores are"
        )


def _guess(low: float, high: float) -> tuple[Kind, str]:
    if low >= 0 and high <= 1:
        return "probability", "scores read as probabilities (all in [0, 1])"
    if _is_rounding(low, high):
        raise InputError(f"scores exceed [0, 1] by rounding only (min {low:.9g}, max {high:.9g}): clip them to [0, 1]")
    if _is_percent(low, high):
        raise InputError(
            "scores lie between 0 and 100 and look like percentages: divide by 100, or pass kind='real' "
            f"if they are not (min {low:.6g}, max {high:.6g})"
        )
    if low < 0 and max(-low, high) <= _LOGIT_LIMIT:
        return "logit", (
            f"scores read as logits (from {low:.6g} to {high:.6g}): "
            'pass kind="logit" to confirm, or kind="real" if they are not log-odds'
        )
    return "real", (
        f"scores read as real numbers (from {low:.6g} to {high:.6g}): "
        'pass kind="real" to confirm, or kind="logit" if they are log-odds'
    )


def _is_percent(low: float, high: float) -> bool:
    return low >= 0 and 1 < high <= 100


def _is_rounding(low: float, high: float) -> bool:
    """Whether a range that leaves [0, 1] does so by float noise only."""
    return low >= -_ROUNDING and _ROUNDING < high <= 1 + _ROUNDING


def refuse_outside(s: NDArray[Any], low: float, high: float, name: str) -> NoReturn:
    """Say how many scores leave [0, 1], and what they look like."""
    if _is_rounding(low, high):
        fix = "this is rounding, so clip them to [0, 1]"
    elif _is_percent(low, high):
        fix = "if they are percentages, divide by 100"
    else:
        fix = "pass kind='logit' or kind='real' at fit, or repair these rows"
    outside = np.count_nonzero((s < 0) | (s > 1))
    raise InputError(
        f"{name} must lie in [0, 1] to be probabilities, but {outside} of {s.size} rows do not "
        f"(min {low:.9g}, max {high:.9g}): {fix}"
    )
