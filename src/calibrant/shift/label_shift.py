"""A base rate that moved, estimated from scores without labels, with a test of what that rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.calibration import Calibration, as_calibration
from calibrant.maps import Map
from calibrant.messages import InputError, Note, Voice, note
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import Ends, Floats
from calibrant.shift.mixture import MixtureFit, fit_mixture
from calibrant.shift.stages import log_odds, rising_root, then_shift, unlabelled
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from calibrant.calibrators.base import BinaryCalibrator

RESTS_ON = (
    "This holds under label shift: only the rate of events moved, and the scores of events and of others are spread as "
    "before. Covariate shift breaks it."
)


@dataclass(frozen=True)
class LabelShift:
    """The estimated base rate of new rows, the calibration moved to it, and the test of the assumption.

    Attributes
    ----------
    rate, se, low, high
        New base rate, its standard error and a 95 % interval; NaN where the scores do not tell.
    source_rate
        Mean calibrated probability on the old rows.
    calibration
        The calibration followed by the shift of log-odds.
    fit
        Whether new scores look like a mix of old events and old others; None where that cannot be tested.
    notes
        What else must be known, one sentence each.
    """

    rate: float
    se: float
    low: float
    high: float
    source_rate: float
    n: float
    calibration: Calibration
    fit: MixtureFit | None
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not finite is None."""
        names = ("rate", "se", "low", "high", "source_rate", "n")
        numbers = {name: value if math.isfinite(value := getattr(self, name)) else None for name in names}
        fit = None if self.fit is None else asdict(self.fit)
        return numbers | {"fit": fit, "notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """The rate, the test and the assumption, in words."""
        sure = "" if math.isnan(self.se) else f" (95 % interval {self.low:.4f} to {self.high:.4f})"
        lines = [f"Base rate of the {self.n:,.12g} new rows: {self.rate:.4f}{sure}; it was {self.source_rate:.4f}"]
        lines += [] if self.fit is None else [str(self.fit)]
        return "\n  ".join([*lines, *map(str, self.notes), RESTS_ON])


def label_shift(
    calibration: Calibration | Map | BinaryCalibrator,
    scores: ArrayLike | Tally,
    source: ArrayLike | Tally,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    source_weight: ArrayLike | None = None,
) -> LabelShift:
    r"""Base rate of new rows from their scores alone, and the calibration moved to it.

    .. math::
        \hat\pi = \arg\max_\pi \sum_i w_i
        \log\Bigl(\frac{\pi}{\pi_0}\, p_i + \frac{1 - \pi}{1 - \pi_0}\,(1 - p_i)\Bigr),

    where :math:`p_i` is the calibrated probability of a new row, :math:`w_i` its weight and :math:`\pi_0` the old base
    rate, taken as the mean probability on the old rows. The corrected map adds
    :math:`\operatorname{logit}\hat\pi - \operatorname{logit}\pi_0` to the log-odds.

    Parameters
    ----------
    calibration
        Turns scores into probabilities that are calibrated on the old rows; ``IdentityMap()`` if scores are that.
    scores
        Scores of new rows, without labels, or a tally of them.
    source, y
        Scores of old rows and their labels, or a tally; best rows that the map was not fitted on.
    sample_weight, source_weight
        Weights of new and of old rows.

    Notes
    -----
    The likelihood is concave, so its maximum, the fixed point of the EM algorithm of Saerens et al., is found by a
    bracketed Newton search. The standard error has two parts: the curvature of the likelihood, and the sampling error
    of :math:`\pi_0`. It does not hold the error of the map itself: in simulations with exact probabilities two standard
    errors covered 95 %, with a Platt map fitted to 20,000 rows 94 %, to 1,000 rows 89 %. Where bins of the old classes,
    which need no map, give another rate, a note says so.

    Edge rules: probabilities that are all equal to :math:`\pi_0` tell nothing: NaN, and the calibration stays. A rate
    of exactly 0 or 1 has no standard error; the map is then moved to half a row's worth, 0.5 / (n + 1), from the end.
    Old rows of one class leave the assumption untested.
    Guarantee: none in finite samples; consistent under label shift when the map is calibrated. Cost: two sorts, then
    passes over distinct scores.
    Reference: Saerens, Latinne and Decaestecker 2002, on unknown new priors; Alexandari et al. 2020 on why p must be
    calibrated.

    Examples
    --------
    >>> from calibrant.maps import IdentityMap
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(4000) < 0.3
    >>> x = np.where(y, rng.normal(1.5, 1.0, 4000), rng.normal(0.0, 1.0, 4000))
    >>> p = 1 / (1 + np.exp(-(1.5 * x - 1.125 + np.log(3 / 7))))
    >>> new = np.concatenate([p[y][:100], p[~y][:1900]])  # one event in twenty
    >>> found = label_shift(IdentityMap(), new, p, y)
    >>> print(found)
    Base rate of the 2,000 new rows: 0.0665 (95 % interval 0.0405 to 0.0925); it was 0.3023
      The new scores look like a mix of old events and old others (chi-square 2.2 on 8 degrees of freedom, p = 0.97).
      This holds under label shift: only the rate of events moved, and the scores of events and of others are spread as
      before. Covariate shift breaks it.
    """
    start = as_calibration(calibration)
    kind = start.kind
    new = unlabelled(scores, sample_weight, kind)
    if not isinstance(source, Tally):
        if y is None:
            raise InputError("y", "is missing", "pass the labels of the source rows, or a Tally of them alone")
        source = Tally.from_arrays(source, y, source_weight, kind=kind)
    elif y is not None or source_weight is not None:
        raise InputError("source", "is a tally, which holds its labels and weights already", "pass it without y")
    old = unlabelled(source, None, kind, "source")
    likelihood = _Likelihood.of(start.map, new, old)
    rate, se, notes = likelihood.solve()
    fit = fit_mixture(source, new, likelihood.source_rate if math.isnan(rate) else rate)
    if fit is None:
        notes = (*notes, _untested())
    elif abs(rate - fit.rate) > TWO_SIDED * fit.se:
        notes = (*notes, _bins_differ(fit.rate))
    held = _inside(rate, new.effective_size)
    moved = start
    if not math.isnan(rate):
        offset = log_odds(held) - log_odds(_inside(likelihood.source_rate, old.effective_size))
        # The likelihood takes probabilities of exactly 0 and 1 at their word, and so does the map.
        sure = (likelihood.p == 0.0) | (likelihood.p == 1.0)
        words = f"moved by label shift to a base rate of {held:.6g}"
        moved = then_shift(start, offset, words, Ends.of(likelihood.p[~sure]))
    ends = (max(rate - TWO_SIDED * se, 0.0), min(rate + TWO_SIDED * se, 1.0)) if se == se else (math.nan, math.nan)
    return LabelShift(rate, se, *ends, likelihood.source_rate, float(new.total), moved, fit, notes)


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Mean log-likelihood of the new base rate on cells, per unit of weight."""

    p: Floats
    share: Floats
    size: float
    source_rate: float
    source_variance: float

    @classmethod
    def of(cls, mapped: Map, new: Tally, old: Tally) -> _Likelihood:
        before, part = mapped.apply(old.scores), old.n / old.total
        mean = float((part * before).sum())
        spread = float((part * (before - mean) ** 2).sum()) / old.effective_size
        return cls(mapped.apply(new.scores), np.asarray(new.n / new.total), new.effective_size, mean, spread)

    def slopes(self, rate: float) -> tuple[Floats, Floats]:
        """Density of each cell relative to the old one at this rate, and its derivative in the rate."""
        event, other = self.p / self.source_rate, (1.0 - self.p) / (1.0 - self.source_rate)
        return rate * event + (1.0 - rate) * other, event - other

    def score(self, rate: float) -> tuple[float, float]:
        """Minus the first and the second derivative of the log-likelihood."""
        density, rise = self.slopes(rate)
        with np.errstate(divide="ignore", invalid="ignore"):  # at the ends a row may be impossible
            ratio = np.where(rise == 0.0, 0.0, rise / density)
        return -float((self.share * ratio).sum()), float((self.share * ratio * ratio).sum())

    def solve(self) -> tuple[float, float, tuple[Note, ...]]:
        """Rate, standard error and notes."""
        if not 0.0 < self.source_rate < 1.0 or not (np.abs(self.p - self.source_rate) > 1e-12).any():
            return math.nan, math.nan, (_no_discrimination(),)
        if self.score(0.0)[0] >= 0.0:
            return 0.0, math.nan, (_rate_at_end(0),)
        if self.score(1.0)[0] <= 0.0:
            return 1.0, math.nan, (_rate_at_end(1),)
        rate = rising_root(self.score, 0.0, 1.0, 1e-300)
        curvature = self.score(rate)[1]
        drift = self._by_source_rate(rate) / curvature
        return rate, math.sqrt(1.0 / (self.size * curvature) + drift**2 * self.source_variance), ()

    def _by_source_rate(self, rate: float) -> float:
        """Derivative of the score in the old base rate, for the error that comes from not knowing it."""
        density, rise = self.slopes(rate)
        event, other = self.p / self.source_rate**2, (1.0 - self.p) / (1.0 - self.source_rate) ** 2
        change = (1.0 - rate) * other - rate * event
        return float((self.share * (-(event + other) / density - rise * change / density**2)).sum())


def _inside(rate: float, size: float) -> float:
    edge = 0.5 / (size + 1.0)
    return min(max(rate, edge), 1.0 - edge)


_untested = note("assumption-not-tested", "Too few old {nouns.rows} of one class to test the assumption.")
_bins_differ = note(
    "bins-differ", "Bins alone, without the map, say {rate:.4f}: the map may be off on the old {nouns.rows} too."
)


@note("no-discrimination")
def _no_discrimination(voice: Voice) -> str:
    words = voice.nouns
    return f"The {words.probabilities} do not tell {words.rows} apart: the new rate cannot be found."


@note("rate-at-end")
def _rate_at_end(voice: Voice, rate: int) -> str:
    needed = "a non-event" if rate else "an event"
    return f"The likelihood is highest at a rate of {rate}: no {voice.nouns.row} needs {needed}."
