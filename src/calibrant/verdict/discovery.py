"""Find the region of the features where a model is most off, and test it on rows that were not used to find it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Rows, ScoreType, check_rows
from calibrant.arrays.columns import is_missing, read_numbers
from calibrant.fits.scaling import Scaling, fit_level, fit_platt
from calibrant.fits.trees.features import MISSING, Features, bin_sums
from calibrant.maps import LogitAffineMap
from calibrant.maps.base import by_name
from calibrant.messages import InputError, Shown, plural
from calibrant.metrics.chance import Chance
from calibrant.metrics.tolerance import LIMIT
from calibrant.metrics.variance import Rates
from calibrant.numerics import Floats, Ints, logit
from calibrant.tallies import Tally
from calibrant.verdict.figures import amount, p_text
from calibrant.verdict.input.evidence import as_probabilities
from calibrant.verdict.segments import ALPHA, ALPHA_BEYOND, ALPHA_SIDE, CONFIDENCE

GRID = 16
"""Ranges of each feature, of about equal mass, among which pairs of features are searched completely."""
MAX_FEATURES = 30
"""Features whose pairs are searched: those with the most conspicuous ranges of their own."""
MIN_SHARE, MIN_ROWS = 0.01, 50
"""A region has at least this share of the rows, and at least this many rows."""
ROUNDS = 4
"""Rounds in which the ends of a region are moved, one condition at a time."""
MAX_PAIRS = 60
"""Boxes of two features to which a third condition is added."""
LONGER = 1.6
"""A further condition is kept if it raises the test statistic by at least this."""
OPEN = 0.5
"""An end of a range is left out if the test statistic falls by at most this."""
OVERALL = 5.99
"""Likelihood ratio above which intercept and slope count as off: chi-square with two degrees of freedom, 5 %."""


class NoRegion(StrEnum):
    """Why no region is called off."""

    FEW_ROWS = "fewer than 200 rows"
    NO_FEATURE = "no feature varies"
    NOTHING = "nothing stands out"


@dataclass(frozen=True)
class Condition(Shown):
    """One condition of a region: a range of numbers, one text, or no value at all.

    Attributes
    ----------
    feature
        Name of the feature.
    above, upto
        The range: values above the one and up to the other; None where it has no end.
    level
        The text, of a feature of text.
    missing
        Whether the condition is that there is no value.
    """

    feature: str
    above: float | None = None
    upto: float | None = None
    level: str | None = None
    missing: bool = False

    def __str__(self) -> str:
        """The condition as it is written in a rule."""
        if self.missing:
            return f"{self.feature} is missing"
        if self.level is not None:
            return f"{self.feature} = {self.level}"
        if self.above is None:
            return f"{self.feature} <= {_short(self.upto)}"
        if self.upto is None:
            return f"{self.feature} > {_short(self.above)}"
        return f"{_short(self.above)} < {self.feature} <= {_short(self.upto)}"

    def holds(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Whether it holds for each value of the feature."""
        column = np.asarray(values)
        if self.level is not None:
            return np.asarray(column == self.level)
        if self.missing:
            return np.array([is_missing(value) for value in column.tolist()], dtype=np.bool_)
        numbers = read_numbers(column, self.feature).astype(np.float64)
        low = -math.inf if self.above is None else self.above
        high = math.inf if self.upto is None else self.upto
        inside = (numbers > low) & (numbers <= high)
        return np.asarray(inside | (np.isneginf(numbers) & (self.above is None)))


@dataclass(frozen=True)
class Region(Shown):
    """The region of the features where a model is most off, and its test on rows that were not used to find it.

    Attributes
    ----------
    conditions
        What the rows of the region have in common; empty if no region was found.
    too_low
        Whether the predictions looked too low in the rows that were searched. The test is for this side alone.
    rows, events, predicted
        Rows, observed and predicted events of the region among the tested rows; predicted by the corrected scores if
        there is a ``recalibration``.
    low, high
        95 % interval of observed over predicted events there.
    outside_events, outside_predicted
        Observed and predicted events of the other tested rows.
    p_value
        One-sided p-value: the larger one of two tests, that the model is calibrated in the region (exact), and that the
        region is off no more than all rows are. With a ``recalibration`` only the second.
    searched, tested
        Rows that were searched, and rows that were held out for the test.
    all_predicted, all_side
        Predicted events of all tested rows by the scores themselves, and ``side`` of all tested rows.
    recalibration
        Intercept and slope fitted to the tested rows, if corrected scores were searched, because the model was off
        overall.
    reason
        Why no region is called off; None if one is.
    side
        1 if the predictions are shown to be too low, -1 if too high, 0 if neither, by a one-sided test at 2 % that is
        right for a wrong model too.
    p_within
        P-value that the log-odds of the observed rate and of the mean score of the region differ by no more than the
        limit of the verdict.
    """

    conditions: tuple[Condition, ...]
    too_low: bool
    rows: int
    events: int
    predicted: float
    low: float
    high: float
    outside_events: int
    outside_predicted: float
    p_value: float
    searched: int
    tested: int
    all_predicted: float = 0.0
    all_side: int = 0
    recalibration: tuple[float, float] | None = None
    reason: NoRegion | None = None
    side: int = 0
    p_within: float = 1.0

    @property
    def beyond(self) -> bool:
        """Whether the region is shown to be beyond the limit of the verdict, at 1 %."""
        return self.off and self.p_within <= ALPHA_BEYOND

    @property
    def off(self) -> bool:
        """Whether the test rejects calibration in the region at the level of 5 %."""
        return self.p_value <= ALPHA

    @property
    def name(self) -> str:
        """The conditions, joined."""
        return " and ".join(map(str, self.conditions))

    def contains(self, features: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether each row lies in the region.

        Parameters
        ----------
        features
            The columns of features by name, or a frame.

        Returns
        -------
        ndarray
            One boolean per row.
        """
        columns = by_name(features)
        held = [each.holds(columns[each.feature]) for each in self.conditions]
        return np.logical_and.reduce(held) if held else np.zeros(len(next(iter(columns.values()))), dtype=bool)

    def __str__(self) -> str:
        """One to three sentences."""
        where = f"searched {plural(self.searched, 'row')}, tested on another {self.tested:,}"
        if self.recalibration is None:
            return self._said(where)
        said = self._said(where)
        after = f"After correcting intercept and slope, {said[0].lower()}{said[1:]}"
        if not self.all_side:
            return after
        ratio = _ratio(self.events + self.outside_events, self.all_predicted)
        side = "low" if self.all_side > 0 else "high"
        return f"Too {side} overall: observed / predicted {ratio} among the tested rows. {after}"

    def _said(self, where: str) -> str:
        if not self.conditions:
            return f"No region: {self.reason} ({where})."
        ratio, outside = _ratio(self.events, self.predicted), _ratio(self.outside_events, self.outside_predicted)
        counts = (
            f"{plural(self.rows, 'row')}: predicted {amount(self.predicted)}, observed {amount(self.events)}; "
            f"observed / predicted {ratio}, 95 % CI {self.low:.2f} to {self.high:.2f}, elsewhere {outside}; "
            f"one-sided p {p_text(self.p_value)}"
        )
        if not self.off:
            return f"No region stands out significantly. Most conspicuous: {self.name} ({counts}; {where})."
        side = ("Off, direction not established,", "Too low", "Too high")[self.side]
        return f"{side} where {self.name} ({counts}; {where})."


def discover(
    scores: ArrayLike,
    y: ArrayLike,
    features: Any,
    *,
    positive: Any = None,
    score_type: ScoreType | None = None,
    random_state: int = 0,
) -> Region:
    r"""Find the region where probabilities are most off, and test it on held-out rows.

    A random half of the rows is searched: all boxes of two features on a grid of 16 ranges each, then the ends are
    moved on a finer grid, and a third condition is added where it helps. The box with the largest
    :math:`|\sum (y - p)| / \sqrt{\sum p (1 - p)}` is the region; its side, too low or too high, is fixed. The other
    half tests this one region on this one side.

    If intercept and slope, fitted to the searched rows, explain their deviation better than the region does, the model
    is off overall, and the search is repeated with the corrected scores. In the test, intercept and slope are fitted
    again, to the tested rows.

    Parameters
    ----------
    scores
        Probabilities of the event.
    y
        Labels.
    features
        Columns of numbers, booleans or text by name: a frame, or a mapping.
    positive
        The label that counts as the event.
    score_type
        ``"probability"`` or ``"logit"``; detected by default.
    random_state
        Seed of the split into halves.

    Returns
    -------
    Region
        The region, in words, with its test.

    Notes
    -----
    Guarantee: for independent rows and a calibrated model, ``off`` is true with probability at most 5 %, whatever the
    search does, since the test uses other rows and the exact distribution of their events, unless scores were corrected
    first, where it holds for large samples. For a model that is wrong in
    its intercept alone (after a correction: in intercept and slope) this holds for large samples: with the design X of
    the parameters fitted to the tested rows, the excess of events in the region R has the variance
    :math:`V_R - V_{RX} V_{XX}^{-1} V_{XR}` of an efficient score. It is scaled to :math:`V_R` for the exact tail, and
    rounded to the next less extreme count.

    Cost: one pass over half the rows for each pair of features.

    Reference: Friedman and Fisher (1999) for boxes; the split of the sample is that of Cox (1975).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> age, income, p = rng.integers(18, 90, 8000), rng.lognormal(10, 0.5, 8000), rng.beta(2, 8, 8000)
    >>> odds = p / (1 - p) * np.where((age > 60) & (income < 20_000), 3.0, 1.0)
    >>> y = rng.random(8000) < odds / (1 + odds)
    >>> region = discover(p, y, {"age": age, "income": income})
    >>> region.off, region.too_low, [each.feature for each in region.conditions]
    (True, True, ['age', 'income'])
    """
    rows = as_probabilities(check_rows(scores, y, positive=positive, score_type=score_type))
    return find_region(rows, features, LIMIT, random_state)


def find_region(rows: Rows, features: Any, limit: float, random_state: int) -> Region:
    """:func:`discover` for checked rows of probabilities, and the limit of a verdict."""
    columns = by_name(features)
    if not isinstance(columns, Mapping):
        raise InputError("features", "has no names of columns", "pass a frame, or a mapping of names to columns")
    binned = Features.of(columns)
    if len(binned.codes) != len(rows.scores):
        problem = f"has {len(binned.codes):,} rows, and scores have {len(rows.scores):,}"
        raise InputError("features", problem, "pass one row of features per score")
    p, labels = rows.scores.astype(np.float64), rows.labels.astype(np.float64)
    order = np.random.default_rng(random_state).permutation(len(p))
    half = len(p) // 2
    train, test = np.sort(order[:half]), np.sort(order[half:])

    searched, tallies = binned.take(train), [Tally.from_rows(rows.take(part)) for part in (train, test)]
    y_train, y = labels[train], labels[test]
    box, z = _worst_box(searched, y_train - p[train], p[train] * (1.0 - p[train]))
    blank = _why_none(searched)
    changed = False
    if blank is None and tallies[0].has_interior:
        q, within = _corrected(tallies[0], p[train], True)[0], train[_inside(searched.codes, box)]
        shifted = _corrected(Tally.from_rows(rows.take(within)), p[within], False)[0]
        gain, own = _ratio_of(p[train], q, y_train), _ratio_of(p[within], shifted, labels[within])
        changed = gain > OVERALL and math.sqrt(gain) >= math.sqrt(max(own, 0.0)) - LONGER * len(box)
        if changed:
            box, z = _worst_box(searched, y_train - q, q * (1.0 - q))
    q, recalibration = _corrected(tallies[1], p[test], changed)
    shown = q if changed else p[test]
    none = Region(
        (), False, 0, 0, 0.0, 0.0, math.inf, int(y.sum()), float(shown.sum()), 1.0, half, len(test),
        float(p[test].sum()), _side(_rates(p[test], y)), recalibration if changed else None, blank or NoRegion.NOTHING,
    )  # fmt: skip
    if not box:
        return none
    inside = _inside(binned.codes[test], box)
    chance, events = _chance(shown[inside]), int(y[inside].sum())
    rates = _rates(shown[inside], y[inside])
    (low,), (high,) = (end.tolist() for end in rates.ratios(CONFIDENCE))
    side = _side(rates) if (events > chance.mean) == (z > 0.0) else 0
    design = np.column_stack([np.ones(len(q)), logit(q)])[:, : 2 if changed else 1]
    p_value = _relative_p(q, y, inside, design, z > 0.0)
    if not changed:
        p_value = max(p_value, math.exp(chance.log_tails(float(events))[z > 0.0]))
    return replace(
        none,
        conditions=tuple(_condition(binned, j, *ends) for j, ends in sorted(box.items())),
        too_low=z > 0.0,
        rows=int(inside.sum()), events=events, predicted=chance.mean, low=low, high=high, side=side,
        outside_events=int(y[~inside].sum()), outside_predicted=float(shown[~inside].sum()),
        p_value=p_value, p_within=float(rates.p_within(limit)[0]),
        reason=None if p_value <= ALPHA else NoRegion.NOTHING,
    )  # fmt: skip


def _rates(p: Floats, labels: Floats) -> Rates:
    residuals = labels - p * (float(labels.sum()) / max(float(p.sum()), 1e-300))
    sums = len(p), labels.sum(), p.sum(), (residuals**2).sum(), (p * (1.0 - p)).sum()
    return Rates.of(*(np.array([float(each)]) for each in sums))


def _side(rates: Rates) -> int:
    """1 if more events than predicted are shown by a one-sided test that is right for a wrong model, -1 if fewer."""
    return int(np.sign(rates.rate[0] - rates.mean[0])) if rates.p_values[0] <= 2.0 * ALPHA_SIDE else 0


def _chance(p: Floats) -> Chance:
    values, counts = np.unique(p, return_counts=True)
    return Chance(values, counts.astype(np.float64))


def _corrected(tally: Tally, p: Floats, slope: bool) -> tuple[Floats, tuple[float, float]]:
    """The scores after a fit of the intercept, or of intercept and ``slope``, and both numbers."""
    fitted = (fit_platt(tally, Scaling(increasing=False)) if slope else fit_level(tally))[0]
    numbers = (fitted.intercept, fitted.slope) if isinstance(fitted, LogitAffineMap) else (0.0, 1.0)
    return np.asarray(fitted.apply(p), dtype=np.float64), numbers


def _ratio_of(p: Floats, q: Floats, labels: Floats) -> float:
    """Likelihood ratio of two sets of probabilities, twice its logarithm."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2.0 * float(np.log(np.where(labels == 1.0, q / p, (1.0 - q) / (1.0 - p))).sum())


def _relative_p(q: Floats, labels: Floats, inside: NDArray[np.bool_], design: Floats, too_low: bool) -> float:
    """One-sided p-value of the events inside, by scores whose parameters were fitted to all of these rows.

    Their excess is minus that of the other rows: the side with fewer events has the exact tail.
    """
    v = q * (1.0 - q)
    if v[inside].sum() > v[~inside].sum():
        inside, too_low = ~inside, not too_low
    chance = _chance(q[inside])
    cross = design[inside].T @ v[inside]
    share = float(cross @ np.linalg.pinv((design.T * v) @ design) @ cross) / max(float(v[inside].sum()), 1e-300)
    if not share < 1.0 - 1e-6:
        return 1.0
    excess = (float(labels[inside].sum()) - chance.mean) / math.sqrt(1.0 - share)
    count = math.floor(chance.mean + excess) if too_low else math.ceil(chance.mean + excess)  # never one too extreme
    return math.exp(chance.log_tails(float(min(max(count, 0), inside.sum())))[too_low])


def _why_none(features: Features) -> NoRegion | None:
    """Why there can be no box, if there can be none."""
    if len(features.codes) < 2 * MIN_ROWS:  # half of all rows
        return NoRegion.FEW_ROWS
    return None if (features.codes != features.codes[:1]).any() else NoRegion.NO_FEATURE


# --------------------------------------------------------------------------------------------------------------- Search

Box = dict[int, tuple[int, int]]
"""Conditions by feature: the first and the last bin."""
Range = tuple[int, int] | None
"""First and last bin; None for all rows, with or without a value."""


def _worst_box(features: Features, residuals: Floats, variances: Floats) -> tuple[Box, float]:
    """The box with the largest test statistic, and that statistic with its sign."""
    stats = np.column_stack([residuals, variances, np.ones(len(residuals))])
    least = max(MIN_ROWS, math.ceil(MIN_SHARE * len(residuals)))
    if len(residuals) < 2 * least:
        return {}, 0.0
    coarse = [_coarse(features, j) for j in range(len(features.names))]
    alone = [_best_range(each, stats, least) for each in coarse]
    first = max(range(len(alone)), key=lambda j: abs(alone[j][1]))
    box, z = _box({first: coarse[first].fine(alone[first][0])}), alone[first][1]
    kept = sorted(sorted(range(len(alone)), key=lambda j: -abs(alone[j][1]))[:MAX_FEATURES])
    pairs = [
        (_box({j: coarse[j].fine(part) for j, part in pair.items()}), both)
        for pair, both in _best_pairs([(j, coarse[j]) for j in kept], stats, least)
    ]
    found = [(box, z), *pairs[:1]]
    triples = [_lengthened(features, coarse, stats, each, least) for each, _ in pairs[:MAX_PAIRS]]
    found += sorted((each for each in triples if each is not None), key=lambda each: -abs(each[1]))[:1]
    found = [_opened(features, stats, *_moved(features, stats, *each, least)) for each in found]
    return max(found, key=lambda each: abs(each[1]) - LONGER * len(each[0]))


@dataclass(frozen=True, eq=False)
class Coarse:
    """One feature in few bins: the bin of each row, the fine bins of each, and how many of them are ordered."""

    codes: Ints
    starts: Ints
    stops: Ints
    ordered: int

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.starts)

    def ranges(self) -> Iterator[Range]:
        """Ranges of bins that a condition can name: all rows, ranges of ordered bins, and single other bins."""
        yield None
        for low in range(self.ordered):
            for high in range(low, self.ordered):
                if (low, high) != (0, self.ordered - 1) or self.size > self.ordered:
                    yield low, high
        for each in range(self.ordered, self.size):
            yield each, each

    def fine(self, part: Range) -> Range:
        """The same range in fine bins."""
        return None if part is None else (int(self.starts[part[0]]), int(self.stops[part[1]]))


def _coarse(features: Features, j: int, size: int = GRID) -> Coarse:
    codes = features.codes[:, j].astype(np.int64)
    counts = np.bincount(codes, minlength=MISSING + 1)
    there = np.flatnonzero(counts[:MISSING])
    if features.is_text(j):
        levels = there[there < len(features.cuts[j])]
        bins = [(each, each) for each in levels[np.argsort(-counts[levels], kind="stable")][: size - 1].tolist()]
        ordered = 0
    else:
        place = np.minimum(np.cumsum(counts[there]) * size // max(counts[there].sum() + 1, 1), size - 1)
        bins = [(int(there[place == k].min()), int(there[place == k].max())) for k in np.unique(place)]
        bins = [(0 if k == 0 else bins[k - 1][1] + 1, end) for k, (_, end) in enumerate(bins)]
        bins = [(start, len(features.cuts[j]) if k == len(bins) - 1 else end) for k, (start, end) in enumerate(bins)]
        ordered = len(bins)
    if counts[MISSING]:
        bins.append((MISSING, MISSING))
    table = np.full(MISSING + 1, len(bins))
    for k, (start, end) in enumerate(bins):
        table[start : end + 1] = k
    return Coarse(table[codes], np.array([b[0] for b in bins]), np.array([b[1] for b in bins]), ordered)


def _statistics(sums: Floats, least: int) -> Floats:
    """Test statistics of sums of residuals, variances and rows; 0 where there are too few rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = sums[..., 0] / np.sqrt(sums[..., 1])
    return np.where((sums[..., 2] >= least) & (sums[..., 1] > 1e-9), z, 0.0)


def _range_sums(sums: Floats, ranges: list[Range]) -> Floats:
    """Sums over ranges of the first axis, from sums by bin; the last bin holds the rows of no named bin."""
    before = np.concatenate([np.zeros_like(sums[:1]), np.cumsum(sums, axis=0)])
    low = np.array([0 if part is None else part[0] for part in ranges])
    high = np.array([len(sums) if part is None else part[1] + 1 for part in ranges])
    return np.asarray(before[high] - before[low])


def _best_range(feature: Coarse, stats: Floats, least: int) -> tuple[Range, float]:
    sums = bin_sums(feature.codes, stats, feature.size + 1)
    ranges = list(feature.ranges())
    z = _statistics(_range_sums(sums, ranges), least)
    best = int(np.abs(z).argmax())
    return ranges[best], float(z[best])


def _best_pairs(features: list[tuple[int, Coarse]], stats: Floats, least: int) -> list[tuple[dict[int, Range], float]]:
    """The best box of each pair of features, the most conspicuous first."""
    found = []
    for (a, first), (b, second) in combinations(features, 2):
        width = second.size + 1
        joint = first.codes * width + second.codes
        cells = (first.size + 1) * width
        sums = bin_sums(joint, stats, cells).reshape(-1, width, stats.shape[1])
        rows, columns = list(first.ranges()), list(second.ranges())
        boxes = _range_sums(_range_sums(sums, rows).swapaxes(0, 1), columns)
        z = _statistics(boxes, least)
        best = int(np.abs(z).argmax())
        column, row = divmod(best, len(rows))
        found.append(({a: rows[row], b: columns[column]}, float(z.flat[best])))
    return sorted(found, key=lambda each: -abs(each[1]))


def _moved(features: Features, stats: Floats, box: Box, z: float, least: int) -> tuple[Box, float]:
    """The box with its ends moved on the fine grid, one condition at a time."""
    for _ in range(ROUNDS):
        before = z
        for j in tuple(box):
            others = _inside(features.codes, {k: ends for k, ends in box.items() if k != j})
            part = _coarse(features.take(np.flatnonzero(others)), j, size=len(features.cuts[j]) + 1)
            best, value = _best_range(part, stats[others], least)
            if value * z > 0.0 and abs(value) > abs(z) + 1e-9:
                box, z = _box({**box, j: part.fine(best)}), value
        if abs(z) <= abs(before) + 1e-9:
            break
    return box, z


def _opened(features: Features, stats: Floats, box: Box, z: float) -> tuple[Box, float]:
    """The box without the ends of ranges that matter little."""
    for j in tuple(box):
        last = len(features.cuts[j])
        for end in (0, 1):
            low, high = box.get(j, (0, last))
            opened = (0, high) if end == 0 else (low, last)
            if features.is_text(j) or low == MISSING or opened == (low, high) or opened == (0, last):
                continue
            wider = {**box, j: opened}
            value = float(_statistics(stats[_inside(features.codes, wider)].sum(axis=0), 1))
            if value * z > 0.0 and abs(value) >= abs(z) - OPEN:
                box, z = wider, value
    return box, z


def _lengthened(
    features: Features, coarse: list[Coarse], stats: Floats, box: Box, least: int
) -> tuple[Box, float] | None:
    """The box with one further condition."""
    inside = _inside(features.codes, box)
    best: tuple[Box, float] | None = None
    for j, each in enumerate(coarse):
        if j not in box:
            part, z = _best_range(
                Coarse(each.codes[inside], each.starts, each.stops, each.ordered), stats[inside], least
            )
            if part is not None and (best is None or abs(z) > abs(best[1])):
                best = _box({**box, j: each.fine(part)}), z
    return best


def _box(parts: Mapping[int, Range]) -> Box:
    return {j: part for j, part in parts.items() if part is not None}


def _inside(codes: NDArray[np.uint8], box: Box) -> NDArray[np.bool_]:
    inside = np.ones(len(codes), dtype=bool)
    for j, (low, high) in box.items():
        inside &= (codes[:, j] >= low) & (codes[:, j] <= high)
    return inside


def _condition(features: Features, j: int, low: int, high: int) -> Condition:
    name, cuts = features.names[j], features.cuts[j]
    if low == MISSING:
        return Condition(name, missing=True)
    if isinstance(cuts, tuple):
        return Condition(name, level=cuts[low])
    return Condition(name, None if low == 0 else float(cuts[low - 1]), None if high >= len(cuts) else float(cuts[high]))


def _ratio(events: float, predicted: float) -> str:
    return f"{events / predicted:.2f}" if predicted > 0.0 else "not defined"


def _short(number: float | None) -> str:
    return f"{number:,.4g}" if number is not None and abs(number) < 1e5 else f"{number:,.0f}"
