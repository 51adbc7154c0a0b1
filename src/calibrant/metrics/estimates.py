"""Results of metrics: value, uncertainty, and the expected value of a calibrated model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, stdtrit

from calibrant.messages import Note, Shown, note
from calibrant.numerics import Floats

TWO_SIDED, ONE_SIDED = 1.959963984540054, 1.6448536269514722
"""Quantiles of the normal distribution: 97.5 % for the ends of 95 % intervals, 95 % for ``null_high``."""


class Result(Shown):
    """Base class of result dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a number that is not finite is None."""
        return {key: plain(value) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Estimate(Result):
    """The value of a metric with its uncertainty; ``float(estimate)`` is the value alone.

    Attributes
    ----------
    name
        What was computed, with the settings that change the value.
    value
        The value; NaN where it is not defined, with the reason in ``notes``.
    se
        Standard error, if known.
    low, high
        Ends of a confidence interval for the population value, by the method that the function states; normal
        intervals are too short with few events. Metrics that are biased in finite samples have a standard error and no
        interval.
    null, null_high
        The value for this many rows if each label were drawn with its score as the probability: on average, and
        exceeded in 5 % of samples. Of a distance it is what a perfectly calibrated model would show. Of a loss or a
        gain it is not: a calibrated model has other scores, and with them another loss.
    notes
        Notes for the reader.
    null_low
        Of a loss or a gain: the value is below this in 5 % of such samples.
    confidence
        Confidence level of the interval.
    kind
        A ``"loss"`` (smaller is better) or ``"gain"`` (larger is better), if ``null`` is that of one.

    Examples
    --------
    >>> print(Estimate("ECE, 15 bins of equal width", 0.031, se=0.004, null=0.012, null_high=0.017))
    ECE, 15 bins of equal width: 0.0310 (standard error 0.0040; a perfectly calibrated model would show 0.0120 here, and
    more than 0.0170 in one sample of twenty)
    >>> print(Estimate("log loss", 0.4, null=0.53, null_low=0.51, null_high=0.54, kind="loss"))
    log loss: 0.4000 (if the labels were drawn from these scores it would be 0.5300 on average, and 0.5100 to 0.5400 in
    nine samples of ten: the outcomes are easier to predict than the scores say (underconfident))
    """

    name: str
    value: float
    se: float | None = None
    low: float | None = None
    high: float | None = None
    null: float | None = None
    null_high: float | None = None
    notes: tuple[Note, ...] = ()
    null_low: float | None = None
    confidence: float = 0.95
    kind: Literal["loss", "gain"] | None = None

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain data; unknown entries and a confidence of 95 % are omitted, and a value that is not finite is None."""
        known = {key: value for key, value in vars(self).items() if value is not None and value != ()}
        return {key: plain(value) for key, value in known.items() if (key, value) != ("confidence", 0.95)}

    @property
    def easier(self) -> bool:
        """Whether outcomes are significantly easier to predict than the scores say, of a loss or a gain."""
        low, high = self.null_low, self.null_high
        if self.kind == "loss":
            return low is not None and self.value < low * (1.0 - 1e-9)
        return self.kind == "gain" and high is not None and self.value > high * (1.0 + 1e-9)

    def __str__(self) -> str:
        facts = []
        if self.low is not None and self.high is not None:
            facts.append(f"{100 * self.confidence:.4g} % CI {self.low:.4f} to {self.high:.4f}")
        elif self.se is not None:
            facts.append(f"standard error {self.se:.4f}")
        if self.null is not None and self.kind is None:
            beyond = "" if self.null_high is None else f", and more than {self.null_high:.4f} in one sample of twenty"
            facts.append(f"a perfectly calibrated model would show {self.null:.4f} here{beyond}")
        elif self.null is not None:
            usual = (
                ""
                if self.null_low is None
                else f", and {self.null_low:.4f} to {self.null_high:.4f} in nine samples of ten"
            )
            said = ": the outcomes are easier to predict than the scores say (underconfident)" * self.easier
            facts.append(
                f"if the labels were drawn from these scores it would be {self.null:.4f} on average{usual}{said}"
            )
        details = f" ({'; '.join(facts)})" if facts else ""
        return "\n".join([f"{self.name}: {self.value:.4f}{details}", *(f"  {note}" for note in self.notes)])


_SETTLING = RLock()
"""Held while the rest of an estimate is computed, so that threads that read one estimate see all of it."""


class Deferred(Estimate):
    """An estimate of which only the name and the value are known; the rest is computed when it is first read.

    Then it is a plain :class:`Estimate`, and so it is when it is compared, copied or stored.

    Examples
    --------
    >>> found = Deferred("ECE", 0.25, lambda: {"se": 0.01})
    >>> float(found), type(found).__name__, found.se, type(found).__name__
    (0.25, 'Deferred', 0.01, 'Estimate')
    """

    def __init__(self, name: str, value: float, rest: Callable[[], dict[str, Any]]) -> None:
        vars(self).update(name=name, value=value, _rest=rest)

    def settled(self) -> Estimate:
        """The same object, as a plain estimate."""
        with _SETTLING:
            if type(self) is Deferred:
                known = vars(Estimate(self.name, self.value, **vars(self)["_rest"]()))
                vars(self).update(known)
                object.__setattr__(self, "__class__", Estimate)
                vars(self).pop("_rest")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain data of the settled estimate."""
        return self.settled().to_dict()

    def __eq__(self, other: object) -> bool:
        return self.settled() == other

    def __hash__(self) -> int:
        return hash(self.settled())

    def __repr__(self) -> str:
        return repr(self.settled())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.settled().__reduce_ex__(protocol)


def _deferred(name: str) -> property:
    return property(lambda self: getattr(Deferred.settled(self), name))


for _each in fields(Estimate)[2:]:
    setattr(Deferred, _each.name, _deferred(_each.name))


FEW = 50
"""Number of rows below which intervals of means use Student's t distribution."""


def two_sided(effective: float) -> float:
    """Standard errors on either side of a 95 % interval, whose variance comes from about this many rows.

    Examples
    --------
    >>> round(two_sided(20.0), 3), round(two_sided(1000.0), 3)
    (2.093, 1.96)
    """
    return float(stdtrit(max(effective - 1.0, 1.0), 0.975)) if effective < FEW else TWO_SIDED


no_spread = note(
    "no-spread",
    "no interval: all {nouns.rows} show the same value, and the standard error of 0 is silent about {nouns.rows} not "
    "seen",
)


def mean_estimate(
    name: str, values: NDArray[Any], mass: Floats, ceiling: float, null: dict[str, Any], notes: tuple[Note, ...]
) -> Estimate:
    """A weighted mean of rows (weights above 0) with standard error and, unless all rows are equal, an interval."""
    w = mass / mass.sum()
    value, size = float((w * values).sum()), 1.0 / float((w * w).sum())
    if not size > 1.0 + 1e-9 or not math.isfinite(value):
        return Estimate(name, value, **null, notes=notes)
    squares = (w * (values - value)) ** 2
    se = math.sqrt(float(squares.sum()) * size / (size - 1.0))
    if not se > 1e-14 * abs(value):
        return Estimate(name, value, 0.0, **null, notes=(*notes, no_spread()))
    shares = squares / squares.sum()
    half = two_sided(1.0 / float((shares**2).sum())) * se
    return Estimate(name, value, se, max(value - half, 0.0), min(value + half, ceiling), **null, notes=notes)


def plain(value: Any) -> Any:
    """A result as plain data for JSON: a number that is not finite is None.

    Examples
    --------
    >>> plain({"rate": math.nan, "estimate": Estimate("ECE", 0.25)})
    {'rate': None, 'estimate': {'name': 'ECE', 'value': 0.25}}
    """
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Note():
            return value.as_dict()
        case Result():
            return value.to_dict()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return plain(value.tolist()) if isinstance(value, np.ndarray) else value


def upper_point(skewness: float) -> float:
    """95 % quantile, in standard deviations above the mean, of the gamma distribution with this skewness; at least 0.

    The distribution is shifted, and mirrored for a negative skewness. For very skewed distributions the quantile would
    lie below the mean; 0 is returned then.

    Examples
    --------
    >>> round(upper_point(0.0), 3), round(upper_point(2.0), 3), round(upper_point(-2.0), 3)  # 2: exponential
    (1.645, 1.996, 0.949)
    """
    if abs(skewness) < 1e-3:
        return ONE_SIDED
    shape = 4.0 / min(abs(skewness), 1e6) ** 2
    point = float(gammaincinv(shape, 0.95 if skewness > 0.0 else 0.05)) - shape
    return max(math.copysign(1.0, skewness) * point / math.sqrt(shape), 0.0)


F = TypeVar("F", bound=Callable[..., Estimate])


class Ideal(Enum):
    """The value of a metric for a calibrated model, which decides how its interval is made."""

    NONE = "none"
    """A loss, a ratio, a slope: it depends on the model. Its interval is a bootstrap."""
    ZERO = "zero"
    """A distance from calibration: 0 in the population, biased upward in a sample. Its interval inverts a test."""
    UNKNOWN = "unknown"
    """A distance that is not 0 for a calibrated model. It has no interval."""


class Metric(NamedTuple):
    """A function of a tally, and the value that it has for a calibrated model."""

    function: Callable[..., Estimate]
    ideal: Ideal


BINARY: dict[str, Metric] = {}
"""Metrics by the name that :func:`~calibrant.metrics.interval` takes."""


def metric(ideal: Ideal = Ideal.NONE, name: str | None = None) -> Callable[[F], F]:
    """Enter a function of ``(scores, y, sample_weight)`` or of a tally in the table, by its own name.

    Parameters
    ----------
    ideal : Ideal
        The value for a calibrated model.
    name : str, optional
        Another name than that of the function.

    Returns
    -------
    callable
        A decorator that returns the function itself.

    Examples
    --------
    >>> from calibrant.metrics.intervals import BINARY
    >>> BINARY["ece"].ideal.value
    'zero'
    """

    def enter(function: F) -> F:
        BINARY[name or _name(function)] = Metric(function, ideal)
        return function

    return enter


def _name(function: Any) -> str:
    return str(function.__name__)
