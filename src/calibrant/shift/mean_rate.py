"""Estimate the event rate of a large unlabeled set from a small labeled sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays.columns import width
from calibrant.arrays.multiclass.rows import check_class_rows, check_class_scores
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Note, Shown, Voice, count_text, note
from calibrant.metrics.binary.bins import Scores, tally_of
from calibrant.numerics import Floats
from calibrant.shift.stages import unlabeled
from calibrant.tallies import Tally

Method = Literal["prediction-powered", "clopper-pearson"]

MIN_LABELS_PER_CLASS = 20
"""Labeled events and non-events needed to use the scores; with fewer the interval uses the labels alone."""


@dataclass(frozen=True)
class MeanRate(Shown):
    """The result of :func:`estimate_rate`: an event rate with its interval; ``float(mean)`` is the rate.

    Attributes
    ----------
    rate, low, high, se, alpha
        Estimate, interval at confidence level 1 - alpha, and standard error.
    method
        ``"prediction-powered"``, or ``"clopper-pearson"`` with few labels.
    power
        Weight of the scores: 0 means that they are not used.
    labels, events, unlabeled
        Labeled rows, events among them and unlabeled rows.
    worth
        Effective sample size: the number of labels that would give this standard error without scores.
    notes
        Further remarks.
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
    unlabeled: float
    worth: float
    notes: tuple[Note, ...] = ()

    def __float__(self) -> float:
        """The rate."""
        return self.rate

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return vars(self) | {"notes": [note.as_dict() for note in self.notes]}

    def __str__(self) -> str:
        """One sentence, and notes."""
        interval = f"{100 * (1 - self.alpha):.4g} % CI {self.low:.4f} to {self.high:.4f}"
        rows = f"and {count_text(self.unlabeled)} unlabeled rows; effective sample size {self.worth:,.0f} labels"
        basis = rows if self.method == "prediction-powered" else "alone"
        text = f"Event rate {self.rate:.4f} ({interval}) from {count_text(self.labels)} labels {basis}"
        return "\n  ".join([text, *map(str, self.notes)])


@dataclass(frozen=True)
class ClassRates(Shown):
    """Result of :func:`estimate_rate` for several classes: a :class:`MeanRate` for each class.

    Every interval holds on its own at its confidence level, not all of them simultaneously.

    Attributes
    ----------
    rates
        The result for each class, by name.
    """

    rates: dict[str, MeanRate]

    def __str__(self) -> str:
        """A line for each class."""
        return "\n".join(f"{name}: {rate}" for name, rate in self.rates.items())


def estimate_rate(
    scores: ArrayLike | Tally,
    labeled: Scores,
    y: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    sample_weight: ArrayLike | None = None,
    labeled_weight: ArrayLike | None = None,
) -> Any:
    r"""Estimate the event rate of a population from a large unlabeled set and a small labeled sample.

    .. math::
        \hat\theta = \bar y_n + \lambda\,(\bar f_N - \bar f_n), \qquad
        \widehat{\mathrm{Var}} = \frac{s^2(y - \lambda f)}{n} + \frac{z^2}{2 n^2} + \lambda^2 \frac{s^2(f)}{N},
        \qquad \lambda = \frac{\widehat{\mathrm{Cov}}(y, f)}{(1 + n / N)\, s^2(f)},

    where f are scores, y labels, n labeled and N unlabeled rows, and z the normal quantile of the level. The scores may
    be miscalibrated: the labels correct their mean, and the weight :math:`\lambda` goes to 0 if they carry no
    information.

    Parameters
    ----------
    scores
        Probabilities of unlabeled rows, or a tally, whose labels are ignored.
    labeled, y
        Probabilities and labels of the labeled sample, or a tally of them. It must be a random sample of the same
        population; rows selected by their score are not.
    alpha
        One minus the confidence level of the interval.
    sample_weight, labeled_weight
        Weights of the unlabeled and of the labeled rows; they enter through the effective sample size.

    Returns
    -------
    MeanRate or ClassRates
        Prints itself as text; has ``rate``, ``low``, ``high`` and ``method``. For matrices of class probabilities a
        ClassRates, with a MeanRate of each class in ``rates``, each interval on its own.

    Notes
    -----
    Edge cases: with fewer than 20 labeled events or 20 labeled non-events, the interval is the Clopper-Pearson interval
    of the labels alone, exact for counts (with importance weights at the effective sample size, then approximate), and
    ``method`` says so. Equal scores give weight 0.
    The prediction-powered interval is a Clopper-Pearson interval too, at the effective sample size
    :math:`\hat\theta(1 - \hat\theta) / \widehat{\mathrm{Var}}`, reduced for Student's t with n - 2 degrees of freedom.
    It stays in [0, 1], and covers rare events better than a symmetric interval. If scores agree with nearly all
    labels, their rare mistakes need not be among the labels: the middle term of the variance, z^2 / 2 labels on which
    the scores are wrong, allows for them, and below 20 such labels a note says so.
    Guarantee: finite-sample for the exact interval if it is chosen beforehand (here the number of events chooses);
    asymptotic for the prediction-powered interval. In simulations it covered in at least 93 %, also with scores that
    are wrong in 0.5 % of the rows. Cost: one sort of each set.
    References: Angelopoulos et al. (2023), prediction-powered inference; Angelopoulos, Duchi and Zrnic (2023), PPI++,
    for the weight; Korn and Graubard (1998) for the interval; Bonett and Price (2012) for the added labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.5, 1.5, 20_300)
    >>> y = rng.random(20_300) < p
    >>> print(estimate_rate(p[300:], p[:300], y[:300]))
    Event rate 0.2388 (95 % CI 0.1982 to 0.2831) from 300 labels and 20,000 unlabeled rows; effective sample size 412
    labels
    >>> print(estimate_rate(p[300:], p[:30], y[:30]).method)
    clopper-pearson
    """
    if not 0.0 < alpha < 1.0:
        raise InputError("alpha", f"must be inside (0, 1), got {alpha!r}", "0.05 gives a 95 % interval")
    if width(scores) > 2:
        return _of_classes(scores, labeled, y, alpha, sample_weight, labeled_weight)
    if y is not None and not isinstance(labeled, Tally) and np.shape(labeled)[:1] != np.shape(y)[:1]:
        raise InputError("labeled", "and y differ in length", "pass labels last: estimate_rate(scores, labeled, y)")
    few = tally_of(labeled, y, labeled_weight)
    many = unlabeled(scores, sample_weight, "probability")
    size, per_weight = few.effective_size, few.effective_size / few.total
    if min(few.positives, few.total - few.positives) * per_weight < MIN_LABELS_PER_CLASS:
        return _exact(few, many, alpha)
    (rate, mean, covariance, spread), n_ratio = _moments(few), size / many.effective_size
    far, spread_far = _mean_and_spread(many)
    pooled = (size * spread + many.effective_size * spread_far) / (size + many.effective_size)
    power = covariance / ((1.0 + n_ratio) * pooled) if pooled > 1e-300 else 0.0
    estimate = rate + power * (far - mean)
    residual = max(rate * (1.0 - rate) - 2.0 * power * covariance + power**2 * spread, 0.0)
    variance = residual / (size - 2.0) + unseen(alpha) / size**2 + power**2 * spread_far / many.effective_size
    if not (0.0 < estimate < 1.0 and variance > 0.0):
        return _exact(few, many, alpha)
    worth = estimate * (1.0 - estimate) / variance
    tails = special.ndtri(alpha / 2.0) / special.stdtrit(size - 2.0, alpha / 2.0)  # the variance is estimated too
    low, high = clopper_pearson(estimate * worth * tails**2, worth * tails**2, alpha)
    counts, se = (float(few.total), float(few.positives), float(many.total)), math.sqrt(variance)
    good = size * residual < FEW_DISAGREEMENTS and residual < 0.1 * rate * (1.0 - rate)  # few rows alone say nothing
    notes = (few_disagreements(size * residual, alpha),) if good else ()
    return MeanRate(estimate, float(low), float(high), se, alpha, "prediction-powered", power, *counts, worth, notes)


def unseen(alpha: float) -> float:
    """Wrong grades that are added to those of a judge, since rare ones need not be among the labels: half of z squared.

    The interval of k mistakes becomes k ± z sqrt(k + z² / 2); sqrt(k) alone has no width without a mistake. Bonett and
    Price (2012) add two mistakes, one in each direction, and z² / 2 is 1.9 at 95 %.

    Examples
    --------
    >>> round(unseen(0.05), 2)
    1.92
    """
    return float(special.ndtri(alpha / 2.0)) ** 2 / 2.0


def _of_classes(scores: Any, labeled: Any, y: Any, alpha: float, sample_weight: Any, labeled_weight: Any) -> Any:
    """The rate of each class, one against the rest."""
    few = check_class_rows(labeled, y, labeled_weight, score_type="probability")
    many, _ = check_class_scores(scores, few.classes, "probability", few.columns)
    if np.isnan(many).any():
        raise InputError("scores", "has missing values", "drop these rows")
    weights = None if labeled_weight is None else few.weights
    found = {
        name: estimate_rate(
            many[:, k], few.scores[:, k], few.labels == k, alpha=alpha, sample_weight=sample_weight,
            labeled_weight=weights,
        )
        for k, name in enumerate(few.classes)
    }  # fmt: skip
    return ClassRates(found)


def _exact(few: Tally, many: Tally, alpha: float) -> MeanRate:
    """The Clopper-Pearson interval of the labels alone."""
    size, rate = few.effective_size, few.positives / few.total
    low, high = clopper_pearson(rate * size, size, alpha)
    notes = (_few_labels(MIN_LABELS_PER_CLASS),) if few.counts else (_few_labels(MIN_LABELS_PER_CLASS), _approximate())
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
        f"Fewer than {fewest} labeled {words.events} or {fewest} labeled {words.others}: the {words.scores} are "
        "not used, and the interval is the Clopper-Pearson interval of the labels alone."
    )


FEW_DISAGREEMENTS = 20
"""Sum of squared residuals of labels, which a wrong grade raises by about 1, below which a note is given."""


@note("few-disagreements")
def few_disagreements(voice: Voice, found: float, alpha: float, judged: bool = False) -> str:
    """Labels differ so little from what scores or judges say that rare mistakes need not be among them."""
    source = "judge" if judged else voice.nouns.scores
    return (
        f"The labels differ from the {source} only as much as {found:.1f} wrong grades would. Rare "
        f"mistakes need not be among the labels, so the intervals allow for {unseen(alpha):.1f} more; label more rows "
        "to learn how often they occur."
    )


_approximate = note(
    "approximate-interval",
    "Weights enter through the effective sample size, so the interval is approximate.",
)
