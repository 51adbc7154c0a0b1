"""Further columns of the rows: weights, groups and time; weights that are a density ratio, known or estimated."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import (
    EXACT,
    as_set,
    check_length,
    first_row,
    read_column,
    read_floats,
    read_numbers,
    refuse_empty,
    refuse_missing,
    refuse_not_finite,
    value_range,
)
from calibrant.messages import Advice, InputError, Note, Phrase, Setting, Voice, note


@note("integer-weights")
def integer_weights(voice: Voice) -> str:
    """Importance weights that may be meant as frequency weights."""
    counts = voice.setting("weight_type", "frequency")
    return f"weights are integers; if they are repetition counts, pass {counts} to keep the guarantees"


@note("time-from-text")
def time_from_text(voice: Voice) -> str:
    """Dates that were read from text."""
    return f"{voice.argument('time')} read as UTC dates from ISO 8601 text"


def check_weights(
    sample_weight: object, meaning: str, n: int
) -> tuple[NDArray[np.int64] | NDArray[np.float64], tuple[Note, ...]]:
    """Check that weights are finite, not negative and of the declared type; weights and notes."""
    name = "sample_weight"
    with np.errstate(over="ignore"):
        w = np.ascontiguousarray(read_numbers(sample_weight, name), dtype=np.float64)
    check_length(w, name, n)
    low, high = value_range(w)
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_not_finite(w, name, "give these rows a weight, or weight 0 to leave them out")
    if low < 0:
        row = first_row(w, lambda part: part < 0)
        raise InputError(
            name,
            f"is negative, first at row {row} counted from 0",
            "pass weights of at least 0, where 0 leaves the row out",
        )
    if high == 0:
        raise InputError(name, "is zero on every row", "give at least one row a weight above 0")
    with np.errstate(over="ignore"):
        total = float(w.sum())
    if meaning == "frequency":
        row = first_row(w, lambda part: (part != np.trunc(part)) | (part >= EXACT))
        if row is not None:
            problem = Phrase(
                "is {value:.17g} at row {row} counted from 0, but {counts} takes integers below 2**53",
                value=w[row],
                row=row,
                counts=Setting("weight_type", "frequency"),
            )
            raise InputError(name, problem, Phrase("repair it, or {importance}", importance=Advice.IMPORTANCE_WEIGHTS))
        if total >= 2.0**63:
            raise InputError(name, f"sums to {total:.6g}, beyond the range of int64", "pass smaller counts")
        return w.astype(np.int64), ()
    if math.isinf(total):
        raise InputError(name, "sums to infinity", "divide the weights by their largest value")
    if not 1e-100 <= high <= 1e100:  # their squares, which the effective sample size needs, would overflow or underflow
        raise InputError(
            name,
            f"has {high:.6g} as its largest value, and it must lie between 1e-100 and 1e100",
            "divide the weights by their largest value",
        )
    smallest = low if low > 0 else float(w[w > 0].min())
    if smallest < 1e-150 * high:
        raise InputError(
            name,
            f"ranges from {smallest:.6g} to {high:.6g}, more than a factor of 1e150",
            "give the lightest rows weight 0 to leave them out",
        )
    if first_row(w, lambda part: part != np.trunc(part)) is None:
        return w, (integer_weights(),)
    return w, ()


def side_column(values: object, name: str, n: int) -> NDArray[Any]:
    """Read a further column of the rows; missing values are refused."""
    a = read_column(values, name)
    check_length(a, name, n)
    if a.dtype.kind in "cV":
        raise InputError(name, f"holds values of type {a.dtype}", "pass numbers, text or dates")
    refuse_missing(a, name, Phrase("{drop} or give them a separate value", drop=Advice.DROP_ROWS))
    return a


def check_time(values: Any, n: int) -> tuple[NDArray[Any], tuple[Note, ...]]:
    """Read a column of times, which must be sortable."""
    if getattr(getattr(values, "dtype", None), "tz", None) is not None and hasattr(values, "to_numpy"):
        values = values.to_numpy(dtype="datetime64[ns]")  # pandas with a time zone: UTC, not one object per row
    a = side_column(values, "time", n)
    if a.dtype.kind in "biufmM":
        return a, ()
    distinct = as_set(a, "time")
    if all(isinstance(v, str) for v in distinct):
        return _dates_from_text(a, distinct), (time_from_text(),)
    try:
        if a.dtype.kind != "S":
            min(distinct)  # raises when two of them cannot be compared
            return a, ()
    except TypeError:
        pass
    raise InputError("time", "holds values that cannot be sorted", "pass numbers, dates or ISO 8601 text")


def _dates_from_text(a: NDArray[Any], distinct: set[str]) -> NDArray[Any]:
    example = ""
    dates = {}
    try:
        for example in distinct:
            dates[example] = _date(example)
    except ValueError as error:
        raise InputError(
            "time", f"holds text that is not an ISO 8601 date, such as {example!r}", "convert it to dates or numbers"
        ) from error
    if len({d.tzinfo is None for d in dates.values()}) > 1:
        raise InputError("time", "has a time zone in some rows only", "give all rows a time zone, or none")
    utc = {t: d if d.tzinfo is None else d.astimezone(dt.UTC).replace(tzinfo=None) for t, d in dates.items()}
    return np.array([utc[t] for t in a.tolist()], dtype="datetime64[us]")


def _date(text: str) -> dt.datetime:
    """Read a date from ISO 8601 text; also from a year or a month alone, which the standard library does not take."""
    if re.fullmatch(r"\d{4}(-\d{2})?", text):
        text += "-01-01"[: 10 - len(text)]
    return dt.datetime.fromisoformat(text)


# ------------------------------------------------------------------------------------------------------ density ratios

RATIO_ROUNDING = 1e-9
"""Relative amount by which a weight may exceed the upper bound; it is then set to the bound."""


class Ratio(NamedTuple):
    """What is known about weights that are a density ratio: their upper bound, and whether they are exact."""

    upper: float
    known: bool


@dataclass(frozen=True, eq=False)
class RatioWeights:
    r"""Density ratio :math:`w(x) = d\tilde P(x) / dP(x)` of target and source population, one value per row.

    Pass it as ``sample_weight`` wherever weights are taken; it converts to a plain array. Calibrators with a
    certificate also read whether the ratio is known. Made by :func:`calibrant.shift.known_weights` and by
    :meth:`calibrant.shift.DensityRatio.weights`.

    Attributes
    ----------
    values
        The weights.
    upper
        Upper bound of the density ratio, in the same unit as the weights.
    known
        Whether the ratio is exact; False for an estimate.

    Examples
    --------
    >>> import numpy as np
    >>> weights = RatioWeights(np.array([0.5, 2.0, 0.5]), upper=4.0, known=True)
    >>> len(weights), np.asarray(weights).sum().item(), weights[:2].values.tolist()
    (3, 3.0, [0.5, 2.0])
    >>> weights
    RatioWeights(3 rows, 2 effective, known, at most 4)
    """

    values: NDArray[np.float64]
    upper: float
    known: bool

    @property
    def meaning(self) -> Ratio:
        """Upper bound, and whether the ratio is known."""
        return Ratio(self.upper, self.known)

    @property
    def effective_size(self) -> float:
        r"""Effective sample size :math:`(\sum w)^2 / \sum w^2` (Kish 1965)."""
        return kish_size(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The weights as a plain array."""
        return np.array(self.values, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> RatioWeights:
        """The weights of some of the rows."""
        return RatioWeights(np.atleast_1d(self.values[rows]), self.upper, self.known)

    def __repr__(self) -> str:
        """One line."""
        kind = "known" if self.known else "estimated"
        return f"RatioWeights({len(self):,} rows, {self.effective_size:,.0f} effective, {kind}, at most {self.upper:g})"


def kish_size(weights: NDArray[np.float64]) -> float:
    """Effective sample size of weights (Kish 1965); 0 if all are 0.

    Examples
    --------
    >>> kish_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    largest = float(weights.max(initial=0.0))
    if not largest > 0.0:
        return 0.0
    scaled = weights / largest
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


def refuse_estimated(weights: object) -> None:
    """Refuse an estimated density ratio, its weights and its functions where the ratio must be known."""
    if getattr(getattr(weights, "__self__", weights), "known", True) is False:
        raise InputError(
            "weights",
            "is an estimated density ratio, which is not known even if it is close",
            "pass it as sample_weight, without a certificate; only a ratio that is known by design, such as that of a "
            "sampling plan, supports one",
        )


def known_weights(
    weights: ArrayLike | Callable[[Any], ArrayLike], features: Any = None, *, upper: float
) -> RatioWeights:
    r"""Declare weights that are the exact density ratio of target and source population, with its upper bound.

    Parameters
    ----------
    weights
        One weight per row, :math:`w(x) = d\tilde P(x) / dP(x)`, or a function of the features that returns them. They
        may have any unit, such as relative odds of selection: the guarantee uses only ratios of weights.
    features
        Features of the rows, if ``weights`` is a function.
    upper
        A number that the density ratio never exceeds, in the same unit, for any possible row and not only for these. It
        must not be the largest observed weight: that is too small for the rows that were not seen.

    Returns
    -------
    RatioWeights
        Pass it as ``sample_weight``. :class:`~calibrant.HistogramBinning` then issues certificates for the target
        population.

    Notes
    -----
    Nothing can check this declaration. A ratio that was estimated, even on other rows, is not known, and the result of
    :func:`estimate_density_ratio` is refused. Reference: Gupta (2023), section 3.4.4, Condition (A).

    Examples
    --------
    >>> known_weights([0.5, 1.5, 3.0], upper=4)
    RatioWeights(3 rows, 2 effective, known, at most 4)
    >>> import numpy as np
    >>> known_weights(lambda x: 2 * x, np.array([0.1, 0.6]), upper=2).values.tolist()
    [0.2, 1.2]
    """
    refuse_estimated(weights)
    if callable(weights):
        if features is None:
            raise InputError("features", "is missing", "pass the features that the function of weights takes")
        weights = weights(features)
        refuse_estimated(weights)
    elif features is not None:
        raise InputError("features", "is only used if weights is a function", "leave it out")
    values = read_floats(weights, "weights")
    if not values.size:
        refuse_empty("weights")
    low, high = value_range(values)
    if not np.isfinite([low, high]).all():
        refuse_not_finite(values, "weights", "drop these rows, or repair the weights")
    if low < 0.0 or not high > 0.0:
        raise InputError("weights", "must be at least 0, and above 0 in some row", "pass a density ratio")
    if not (np.isfinite(upper) and upper > 0.0):
        raise InputError("upper", f"must be a positive number, got {upper!r}", "pass a bound of the density ratio")
    if high > upper * (1.0 + RATIO_ROUNDING):
        raise InputError(
            "upper",
            f"is {upper:g}, but a row has the weight {high:.6g}",
            "pass a number that the density ratio never exceeds, in the same unit",
        )
    return RatioWeights(np.minimum(values, upper), float(upper), known=True)
