"""The event rate of a large set without labels, from a small slice that has them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Note, Voice, note
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.numerics import Floats
from calibrant.shift.stages import unlabelled
from calibrant.tallies import Tally

Method = Literal["prediction-powered", "clopper-pearson"]

FEWEST = 20
"""Events, and others, that the labelled slice must hold before scores may help: below, the interval is exact."""


@dataclass(frozen=True)
class MeanRate:
    """The rate with its interval; ``float(mean)`` is the bare number.

    Attributes
    ----------
    rate, low, high, se, alpha
        Estimate, interval at level 1 - alpha and standard error.
    method
        ``"prediction-powered"``, or ``"clopper-pearson"`` when labels are few.
    power
        How far the scores are trusted: 0 means not at all.
    labels, events, unlabelled
        Labelled rows, events among them and rows without labels.
    worth
        As many labels, without scores, would give this standard error.
    notes
        What must be known, one sentence each.
    """

    rate: float
    low: float
    high: float
    se: float
    alpha: float
    method: Method
    power: float
    labels: float
    events: float
    unlabelled: float
    worth: float
    notes: tuple[Note, ...] = ()

    def __float__(self) -> float:
        """The bare rate."""
        return self.rate

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """One sentence, and notes."""
        level = f"{100 * (1 - self.alpha):.4g} % interval {self.low:.4f} to {self.high:.4f}"
        rows = f"and {self.unlabelled:,.12g} rows without labels; the scores make the labels worth {self.worth:,.0f}"
        helped = rows if self.method == "prediction-powered" else "alone, exact"
        text = f"Event rate {self.rate:.4f} ({level}) from {self.labels:,.12g} labels {helped}"
        return "\n  ".join([text, *map(str, self.notes)])


def mean_rate(
    scores: ArrayLike | Tally,
    labelled: Scores,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    sample_weight: ArrayLike | None = None,
    labelled_weight: ArrayLike | None = None,
) -> MeanRate:
    r"""Event rate of the population that a large unlabelled set and a small labelled slice are drawn from.

    .. math::
        \hat\theta = \bar y_n + \lambda\,(\bar f_N - \bar f_n), \qquad
        \widehat{\mathrm{Var}} = \frac{s^2(y - \lambda f)}{n} + \lambda^2 \frac{s^2(f)}{N}, \qquad
        \lambda = \frac{\widehat{\mathrm{Cov}}(y, f)}{(1 + n / N)\, s^2(f)},

    where f are scores, y labels, n labelled and N unlabelled rows. The scores may be off: labels correct their mean,
    and the power :math:`\lambda` falls to 0 when they carry nothing.

    Parameters
    ----------
    scores
        Probabilities of rows without labels, or a tally, whose labels are not looked at.
    labelled, y
        Probabilities and labels of the slice, or a tally of them. The slice must be a random sample of the same
        population; rows chosen by their score are not.
    alpha
        One minus the level of the interval.
    sample_weight, labelled_weight
        Weights of the unlabelled and of the labelled rows; they count by their effective size.

    Notes
    -----
    Edge rules: with fewer than 20 events or 20 others among the labels the interval is Clopper and Pearson's on the
    labels alone, exact for counts (with importance weights at the effective size, then approximate), and the value says
    so. Equal scores give power 0.
    The prediction-powered interval is Clopper and Pearson's too, at as many labels as the variance is worth,
    :math:`\hat\theta(1 - \hat\theta) / \widehat{\mathrm{Var}}`, less what Student's t with n - 2 degrees of freedom
    asks: it stays in [0, 1], and covers rare events better than a symmetric one.
    Guarantee: exact interval, finite-sample; prediction-powered interval, asymptotic. Cost: one sort of each set.
    References: Angelopoulos et al. 2023, Prediction-powered inference; Angelopoulos, Duchi and Zrnic 2023 (PPI++) for
    the power; Korn and Graubard 1998 for the interval.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.5, 1.5, 20_300)
    >>> y = rng.random(20_300) < p
    >>> print(mean_rate(p[300:], p[:300], y[:300]))
    Event rate 0.2388 (95 % interval 0.1992 to 0.2820) from 300 labels and 20,000 rows without labels; the scores make
    the labels worth 433
    >>> print(mean_rate(p[300:], p[:30], y[:30]).method)
    clopper-pearson
    """
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must lie inside (0, 1), got {alpha!r}", "0.05 gives a 95 % interval")
    if y is not None and not isinstance(labelled, Tally) and np.shape(labelled)[:1] != np.shape(y)[:1]:
        raise InputError(
            "labelled", "and y differ in length", "labels come last here, as in mean_rate(scores, labelled, y)"
        )
    few = tally_of(labelled, y, labelled_weight)
    many = unlabelled(scores, sample_weight, "probability")
    size, per_weight = few.effective_size, few.effective_size / few.total
    if min(few.positives, few.total - few.positives) * per_weight < FEWEST:
        return _exact(few, many, alpha)
    (rate, mean, covariance, spread), n_ratio = _moments(few), size / many.effective_size
    far, spread_far = _mean_and_spread(many)
    pooled = (size * spread + many.effective_size * spread_far) / (size + many.effective_size)
    power = covariance / ((1.0 + n_ratio) * pooled) if pooled > 1e-300 else 0.0
    estimate = rate + power * (far - mean)
    residual = rate * (1.0 - rate) - 2.0 * power * covariance + power**2 * spread
    variance = max(residual, 0.0) / (size - 2.0) + power**2 * spread_far / many.effective_size
    if not (0.0 < estimate < 1.0 and variance > 0.0):
        return _exact(few, many, alpha)
    worth = estimate * (1.0 - estimate) / variance
    tails = special.ndtri(alpha / 2.0) / special.stdtrit(size - 2.0, alpha / 2.0)  # the variance is estimated too
    low, high = clopper_pearson(estimate * worth * tails**2, worth * tails**2, alpha)
    counts, se = (float(few.total), float(few.positives), float(many.total)), math.sqrt(variance)
    return MeanRate(estimate, float(low), float(high), se, alpha, "prediction-powered", power, *counts, worth)


def _exact(few: Tally, many: Tally, alpha: float) -> MeanRate:
    """The labels alone."""
    size, rate = few.effective_size, few.positives / few.total
    low, high = clopper_pearson(rate * size, size, alpha)
    notes = (_few_labels(FEWEST),) if few.counts else (_few_labels(FEWEST), _approximate())
    se = math.sqrt(rate * (1.0 - rate) / size)
    counts = float(few.total), float(few.positives), float(many.total)
    return MeanRate(rate, float(low), float(high), se, alpha, "clopper-pearson", 0.0, *counts, size, notes)


def _mean_and_spread(tally: Tally) -> tuple[float, float]:
    share: Floats = np.asarray(tally.n / tally.total)
    mean = float((share * tally.scores).sum())
    return mean, float((share * (tally.scores - mean) ** 2).sum())


def _moments(tally: Tally) -> tuple[float, float, float, float]:
    """Rate, mean score, their covariance and the variance of the score."""
    rate, (mean, spread) = tally.positives / tally.total, _mean_and_spread(tally)
    covariance = float(((tally.events - rate * tally.n) * (tally.scores - mean)).sum()) / tally.total
    return rate, mean, covariance, spread


@note("few-labels")
def _few_labels(voice: Voice, fewest: int) -> str:
    words = voice.nouns
    return (
        f"Fewer than {fewest} {words.events} or {fewest} others are labelled, so {words.scores} are left out and the "
        "interval is Clopper and Pearson's on the labels alone."
    )


_approximate = note(
    "approximate-interval",
    "Weights enter by their effective size, so the interval is approximate.",
)
