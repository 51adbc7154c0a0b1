"""What changes if the new model is deployed."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import CalibrantWarning, InputError, Rows, check_rows
from calibrant.numerics import Floats, logit
from calibrant.tallies import cluster_buckets
from calibrant.verdict.check import judge
from calibrant.verdict.decision import TOLERANCE
from calibrant.verdict.evidence import evidence_of_rows
from calibrant.verdict.verdict import Verdict, plain

Buckets = NDArray[np.int64] | None
"""Cluster bucket of each row, where groups were given."""


@dataclass(frozen=True)
class Difference:
    """A number of the old model and of the new one, and their difference with a 95 % interval from paired rows."""

    name: str
    old: float
    new: float
    low: float
    high: float
    lower_is_better: bool = True

    @property
    def change(self) -> float:
        """New minus old."""
        return self.new - self.old

    @property
    def words(self) -> str:
        """Better, worse, or no visible change."""
        if not np.isfinite(self.low):
            return "too few rows to tell"
        if self.low <= 0.0 <= self.high or not np.isfinite(self.change):
            return "no change that can be seen"
        return "better" if (self.change < 0.0) == self.lower_is_better else "worse"

    def __str__(self) -> str:
        """One line."""
        digits = _digits(self.change, self.high - self.low)
        share = f", {100 * self.change / self.old:+.2g} %" if self.old > 0.0 else ""
        if not np.isfinite(self.low):
            return f"{self.name}: {self.old:.4f} to {self.new:.4f}: {self.words}"
        return (
            f"{self.name}: {self.old:.{digits}f} to {self.new:.{digits}f} ({self.change:+.{digits}f}{share}; "
            f"95 % interval {self.low:+.{digits}f} to {self.high:+.{digits}f}): {self.words}"
        )


@dataclass(frozen=True)
class Crossing:
    """Rows that a policy threshold treats otherwise under the new scores; a score at the threshold counts as above."""

    threshold: float
    above_old: float
    above_new: float
    up: float
    up_events: float
    down: float
    down_events: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"at {self.threshold:g}: {self.up:,.0f} rows move up ({_rate(self.up_events, self.up)}), "
            f"{self.down:,.0f} move down ({_rate(self.down_events, self.down)}); "
            f"above it {self.above_old:,.0f} before, {self.above_new:,.0f} after"
        )


@dataclass(frozen=True)
class Change:
    """What :func:`calibrant.compare` found; print it, or read its fields."""

    old: Verdict
    new: Verdict
    differences: tuple[Difference, ...]
    crossings: tuple[Crossing, ...]

    def __str__(self) -> str:
        """The whole comparison as text."""
        lines = [f"Old: {self.old.headline}", f"New: {self.new.headline}"]
        lines += [f"  {difference}" for difference in self.differences]
        if self.crossings:
            lines.append("Rows that cross a policy threshold:")
            lines += [f"  {crossing}" for crossing in self.crossings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "old": self.old.to_dict(),
            "new": self.new.to_dict(),
            "differences": [
                {**plain(asdict(each)), "change": each.change, "words": each.words} for each in self.differences
            ],
            "crossings": [asdict(crossing) for crossing in self.crossings],
        }


def compare(
    scores_old: ArrayLike,
    scores_new: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    thresholds: ArrayLike = (0.5,),
    groups: ArrayLike | None = None,
    weights: Literal["importance", "counts"] = "importance",
    positive: Any = None,
    tolerance: tuple[float, float] = TOLERANCE,
    random_state: int = 0,
) -> Change:
    r"""Calibration, losses, ranking and decisions of two models on the same rows.

    Differences are of paired rows, with Student's intervals from what each row adds to the difference: its loss less
    the mean, or its placement among the other class (DeLong, DeLong and Clarke-Pearson 1988). With ``groups`` these are
    summed by cluster bucket; importance weights count by their effective size. Scores of exactly 0 and 1 enter the log
    loss at the clamp of the log-odds, 2^-32. No finite-sample guarantee; with fewer than about twenty groups or events
    intervals are too short. Needs rows: two tallies do not say which rows belong together. Cost: two sorts.

    Parameters
    ----------
    thresholds
        Policy thresholds: for each, how many rows fall on the other side under the new scores, and how many of those
        are events.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> p = rng.beta(2, 5, size=4000)
    >>> happened = rng.random(4000) < p
    >>> change = compare(p**0.5, p, happened, thresholds=[0.5])
    >>> change.new.state, change.differences[0].words
    ('calibrated', 'better')
    """
    old, new = (
        _read(name, scores, y, sample_weight, weights, groups, positive)
        for name, scores in (("scores_old", scores_old), ("scores_new", scores_new))
    )
    if len(old.scores) != len(new.scores):
        raise InputError(
            f"scores_old has {len(old.scores)} rows and scores_new {len(new.scores)}: both must score the same rows"
        )
    levels = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if levels.ndim != 1 or not ((levels >= 0.0) & (levels <= 1.0)).all():
        raise InputError("thresholds must be probabilities between 0 and 1")
    impossible = any((rows.scores == 1.0 - rows.labels).any() for rows in (old, new))
    loss = "Log loss, scores kept 2^-32 off 0 and 1" if impossible else "Log loss"
    buckets = None if old.groups is None else cluster_buckets(old.groups)
    return Change(
        old=judge(evidence_of_rows(old, random_state=random_state), tolerance),
        new=judge(evidence_of_rows(new, random_state=random_state), tolerance),
        differences=(
            _paired(loss, _log_losses(old), _log_losses(new), old, buckets),
            _paired("Brier score", (old.scores - old.labels) ** 2, (new.scores - new.labels) ** 2, old, buckets),
            *_ranking(old, new, buckets),
        ),
        crossings=tuple(_crossing(float(level), old, new) for level in levels),
    )


def _read(name: str, scores: Any, y: Any, sample_weight: Any, weights: Any, groups: Any, positive: Any) -> Rows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        try:
            return check_rows(
                scores, y, sample_weight, weights=weights, groups=groups, positive=positive, kind="probability"
            )
        except InputError as error:
            raise InputError(f"in {name}: {error}") from None


def _log_losses(rows: Rows) -> Floats:
    return np.asarray(np.logaddexp(0.0, (1.0 - 2.0 * rows.labels) * logit(rows.scores)))


def _paired(name: str, old: Floats, new: Floats, rows: Rows, buckets: Buckets) -> Difference:
    w = _weights(rows)
    means = [float((w * values).sum() / w.sum()) for values in (old, new)]
    influence = (new - old - (means[1] - means[0])) / w.sum()
    return _difference(name, means[0], means[1], influence, rows, buckets)


def _ranking(old: Rows, new: Rows, buckets: Buckets) -> tuple[Difference, ...]:
    """The difference of AUC; none with one class."""
    events, w = old.labels == 1, _weights(old)
    if events.all() or not events.any():
        return ()
    placements = [_placements(rows.scores, events, w) for rows in (old, new)]
    areas = [float((w * placed)[events].sum() / w[events].sum()) for placed in placements]
    influence = np.empty(len(w))
    for mine, sign in ((events, 1.0), (~events, -1.0)):
        difference = sign * (placements[1] - placements[0])[mine]
        influence[mine] = (difference - (w[mine] * difference).sum() / w[mine].sum()) / w[mine].sum()
    return (_difference("AUC", areas[0], areas[1], influence, old, buckets, lower_is_better=False),)


def _difference(
    name: str, old: float, new: float, influence: Floats, rows: Rows, buckets: Buckets, lower_is_better: bool = True
) -> Difference:
    """The interval from what each row, or each cluster bucket, adds to the difference; Student's law."""
    w = _weights(rows)
    if buckets is not None:
        sums = np.bincount(buckets, w * influence)
        variance, size = float((sums**2).sum()), float(len(np.unique(buckets)))
    else:
        variance = float(((w if rows.counts else w * w) * influence**2).sum())
        size = float(w.sum() if rows.counts else w.sum() ** 2 / (w * w).sum())
    if size < 2.0:
        return Difference(name, old, new, -np.inf, np.inf, lower_is_better)
    half = float(special.stdtrit(size - 1.0, 0.975) * np.sqrt(variance * size / (size - 1.0)))
    return Difference(name, old, new, new - old - half, new - old + half, lower_is_better)


def _weights(rows: Rows) -> Floats:
    return np.ones(len(rows.scores)) if rows.weights is None else rows.weights.astype(np.float64)


def _placements(scores: Floats, events: NDArray[np.bool_], w: Floats) -> Floats:
    """For an event, the share of the other class below it; for a non-event, the share of events below; ties half."""
    values, index = np.unique(scores, return_inverse=True)
    placed = np.empty(len(scores))
    for mine, other in ((events, ~events), (~events, events)):
        by_value = np.bincount(index[other], w[other], minlength=len(values))
        below = (np.cumsum(by_value) - by_value / 2.0) / by_value.sum()
        placed[mine] = below[index[mine]]
    return placed


def _crossing(level: float, old: Rows, new: Rows) -> Crossing:
    w = _weights(old)
    before, after = old.scores >= level, new.scores >= level
    up, down = ~before & after, before & ~after
    hit = w * old.labels
    return Crossing(
        level,
        float(w[before].sum()),
        float(w[after].sum()),
        float(w[up].sum()),
        float(hit[up].sum()),
        float(w[down].sum()),
        float(hit[down].sum()),
    )


def _digits(change: float, width: float) -> int:
    """Digits after the point that show two figures of a difference and of its interval."""
    sizes = [abs(size) for size in (change, width) if size != 0.0 and np.isfinite(size)]
    return int(np.clip(1 - np.floor(np.log10(min(sizes))), 4, 9)) if sizes else 4


def _rate(events: float, rows: float) -> str:
    return "none" if not rows else f"{events / rows:.1%} events".replace("%", " %")
