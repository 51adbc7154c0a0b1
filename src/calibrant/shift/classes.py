"""Changed class frequencies: match known ones, estimate them without labels, and test the label shift assumption."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from calibrant.arrays.keys import key_text
from calibrant.arrays.multiclass.rows import MulticlassRows, check_class_rows, check_class_scores, read_matrix
from calibrant.arrays.sides import check_weights
from calibrant.calibration import Calibration
from calibrant.maps import GroupedSoftmaxMap, IdentityMap, MulticlassMap, SoftmaxMap
from calibrant.maps.base import by_name, unwrapped
from calibrant.messages import InputError, Note, Shown, Voice, note
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import CLAMP, Floats
from calibrant.shift.mixture import MixtureFit, multinomial
from calibrant.shift.stages import MOVED

EM_STEPS, EM_TOLERANCE = 5_000, 1e-10
"""Maximum number of EM steps, and the change of every rate at which they stop."""

NEWTON_STEPS, NEWTON_TOLERANCE = 100, 1e-13
"""Maximum number of Newton steps for intercepts, and the error of every mean at which they stop."""

ROWS_PER_BIN, BINS_PER_CLASS = 8, 3
"""Rows that each bin of the test needs, old and new, and the number of bins of each predicted class."""

ASSUMPTION = (
    "Assumes label shift: only the class frequencies changed, and the distribution of the scores within each class did "
    "not. Not valid under covariate shift."
)

untested_classes = note("class-shift-not-tested", "The assumption is not tested: too few {nouns.rows} for the bins.")


@note("rates-at-zero")
def rates_at_zero(voice: Voice, classes: tuple[str, ...]) -> str:
    """Classes whose estimated frequency is 0."""
    return f"The likelihood is highest at a frequency of 0, which has no standard error: {', '.join(classes)}."


@dataclass(frozen=True)
class ClassShift(Shown):
    """Result of :func:`estimate_label_shift` for several classes: frequencies, shifted calibration and test.

    Attributes
    ----------
    rates, se, low, high
        New frequency of each class, its standard error and 95 % interval, each on its own, by class.
    source_rates
        Mean calibrated probability of each class on the old rows.
    n
        Number of new rows; with weights, their sum.
    calibration
        The calibration followed by a change of its intercepts.
    fit
        Test whether new scores are a mixture of the old classes; None if it cannot be tested.
    notes
        Further remarks.
    """

    rates: dict[str, float]
    se: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    source_rates: dict[str, float]
    n: float
    calibration: Calibration
    fit: MixtureFit | None
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        """The frequencies, the test and the assumption, as text."""
        lines = [f"Class frequencies of the {self.n:,.12g} new rows:"]
        for name, rate in self.rates.items():
            sure = "" if math.isnan(self.se[name]) else f" (95 % CI {self.low[name]:.4f} to {self.high[name]:.4f})"
            lines.append(f"{name}: {rate:.4f}{sure}; before: {self.source_rates[name]:.4f}")
        tested = [] if self.fit is None else [str(self.fit)]
        return "\n  ".join([*lines, *tested, *map(str, self.notes), ASSUMPTION])


def softmax_calibration(given: Any, scores: Any) -> Calibration:
    """The calibration of a matrix, if it is a softmax map; ``IdentityMap()`` stands for the scores themselves."""
    if isinstance(given, IdentityMap):
        matrix, columns = read_matrix(scores)
        names = columns or tuple(map(str, range(matrix.shape[1])))
        return Calibration(SoftmaxMap(names, np.ones(1), np.zeros(0), "probability", CLAMP))
    found = unwrapped(given)
    start = found if isinstance(found, Calibration) else Calibration(found)
    if not isinstance(start.map, SoftmaxMap | GroupedSoftmaxMap):
        raise InputError(
            "calibration",
            f"must be a softmax map for a matrix of class scores, got {type(start.map).__name__}",
            "use calibrate(scores, y), TemperatureScaling, VectorScaling or IdentityMap()",
        )
    return start


def with_intercepts(start: Calibration, shift: Floats, words: str) -> Calibration:
    """The calibration with numbers added to the logits of its classes."""
    map_ = start.map
    assert isinstance(map_, SoftmaxMap | GroupedSoftmaxMap)
    intercept = (map_.intercept if len(map_.intercept) else np.zeros(len(map_.classes))) + shift
    moved: MulticlassMap = replace(map_, intercept=intercept)
    if isinstance(map_, GroupedSoftmaxMap):
        extra = np.outer(1.0 - map_.scales, shift).reshape(-1)
        moved = replace(map_, intercept=intercept, shifts=map_.shifts + extra)
    origin = start.provenance
    return Calibration(moved, None if origin is None else replace(origin, method=f"{origin.method}, {words}"), MOVED)


def match_frequencies(given: Any, scores: Any, mean: Any, sample_weight: Any) -> Calibration:
    """:func:`match_mean` for a matrix: intercepts such that mean probabilities are the known frequencies."""
    start = softmax_calibration(given, scores)
    p, weights = _probabilities(start, scores, sample_weight)
    target = shares("mean", mean, start.classes)
    z = np.log(np.maximum(p, 1e-300))
    shift = np.log(target) - np.log(np.einsum("n,nk->k", weights, p))
    for _ in range(NEWTON_STEPS):
        q = special.softmax(z + shift, axis=1)
        gap = np.einsum("n,nk->k", weights, q) - target
        if np.abs(gap).max() <= NEWTON_TOLERANCE:
            break
        bent = np.diag(np.einsum("n,nk->k", weights, q)) - np.einsum("n,nj,nk->jk", weights, q, q, optimize=True)
        step = -np.linalg.lstsq(bent, gap, rcond=1e-13)[0]
        shift = shift + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
    return with_intercepts(start, shift - shift.mean(), "shifted to known class frequencies")


def estimate_class_shift(
    given: Any, scores: Any, source: Any, y: Any, sample_weight: Any, source_weight: Any
) -> ClassShift:
    """:func:`estimate_label_shift` for a matrix."""
    start = softmax_calibration(given, scores)
    if y is None:
        raise InputError("y", "is missing", "pass the labels of the source rows")
    for name, given in (("scores", scores), ("source", source)):
        _check_segments(name, given, start)
    p, weights = _probabilities(start, scores, sample_weight)
    matrix = check_class_scores(source, start.classes, start.score_type)[0]
    old = check_class_rows(matrix, y, source_weight, classes=start.classes_.tolist(), score_type=start.score_type)
    before, part = start.map.apply(matrix, start._groups_of_rows(source, None)).astype(np.float64), old.mass
    if len(before) > len(part):  # rows of weight 0 are left out
        before = before[check_weights(source_weight, "importance", len(before))[0] != 0]
    part = part / float(part.sum())
    base = np.einsum("n,nk->k", part, before)
    if not (base > 0.0).all():
        name = start.classes[int(np.argmin(base))]
        raise InputError("source", f"gives the class {name!r} probability 0 in every row", "leave the class out")
    size = 1.0 / float((weights**2).sum())
    rates = _expectation_maximization(p / base, weights, base)
    se = _errors(p / base, weights * size, rates, base, before, part)
    fit = _mixture(old, before, p, weights, size)
    names = start.classes
    at_zero = tuple(name for name, rate in zip(names, rates, strict=True) if rate < 1e-9)
    notes = (*((rates_at_zero(at_zero),) if at_zero else ()), *(() if fit is not None else (untested_classes(),)))
    inside = np.maximum(rates, 0.5 / (size + len(names)))
    moved = with_intercepts(start, np.log(inside / inside.sum()) - np.log(base), "moved by label shift")

    def by_class(numbers: Floats) -> dict[str, float]:
        return dict(zip(names, numbers.tolist(), strict=True))

    low, high = (np.clip(rates + sign * TWO_SIDED * se, 0.0, 1.0) for sign in (-1.0, 1.0))
    total = float(len(p) if sample_weight is None else np.sum(sample_weight))
    return ClassShift(
        by_class(rates), by_class(se), by_class(low), by_class(high), by_class(base), total, moved, fit, notes
    )


def shares(name: str, given: Any, classes: Sequence[str]) -> Floats:
    """Frequencies by class or in the order of the classes, which must be positive and sum to 1."""
    if isinstance(given, Mapping):
        named = {key_text(key): value for key, value in given.items()}
        if set(named) != set(classes):
            raise InputError(name, "must have a frequency for each class", f"the classes are {', '.join(classes)}")
        values = np.array([named[each] for each in classes], dtype=np.float64)
    else:
        values = np.asarray(given, dtype=np.float64)
    if values.shape != (len(classes),) or not (values > 0.0).all() or abs(float(values.sum()) - 1.0) > 1e-6:
        raise InputError(
            name,
            f"must be {len(classes)} frequencies above 0 that sum to 1, got {given!r:.80}",
            "pass one for each class, by name or in the order of the columns",
        )
    return np.asarray(values / values.sum())


def _check_segments(name: str, given: Any, start: Calibration) -> None:
    """Raise an error unless a map by segment finds its segments among the columns of a frame."""
    there = by_name(given)
    lacking = [each for each in start.map.columns if not isinstance(there, Mapping) or each not in there]
    if lacking:
        raise InputError(
            name,
            f"has no column {lacking[0]!r}, which this map by segment needs",
            "pass a frame with it, or a map without segments",
        )


def _probabilities(start: Calibration, scores: Any, sample_weight: Any) -> tuple[Floats, Floats]:
    """Calibrated probabilities of unlabeled rows, and their weights, which sum to 1."""
    p = np.asarray(start.predict_proba(scores), dtype=np.float64)
    if np.isnan(p).any():
        raise InputError("scores", "has missing values", "drop these rows")
    w = np.ones(len(p)) if sample_weight is None else check_weights(sample_weight, "importance", len(p))[0]
    return p, np.asarray(w / float(w.sum()))


def _expectation_maximization(ratio: Floats, weights: Floats, start: Floats) -> Floats:
    """Frequencies of highest likelihood; ``ratio`` are probabilities divided by the old frequencies."""
    rates = start.copy()
    for _ in range(EM_STEPS):
        joint = ratio * rates
        new = np.einsum("n,nk->k", weights / joint.sum(axis=1), joint)
        moved = float(np.abs(new - rates).max())
        rates = new / new.sum()
        if moved <= EM_TOLERANCE:
            break
    return rates


def _errors(ratio: Floats, weights: Floats, rates: Floats, base: Floats, before: Floats, part: Floats) -> Floats:
    """Standard errors: the curvature of the likelihood, and the sampling error of the old frequencies."""
    free = np.flatnonzero(rates >= 1e-9)
    out = np.full(len(rates), np.nan)
    if len(free) < 2:
        return out
    r = ratio / np.einsum("nk,k->n", ratio, rates)[:, None]
    basis = np.eye(len(free))[:, 1:] - 1.0 / len(free)
    bent = np.einsum("n,nj,nk->jk", weights, r, r, optimize=True)
    own = np.ix_(free, free)
    inner = np.linalg.pinv(basis.T @ bent[own] @ basis, hermitian=True)
    inverse = basis @ inner @ basis.T
    score = np.einsum("n,nk->k", weights, r)
    drift = bent * (rates / base) - np.diag(score / base)
    centered = before - base
    spread = np.einsum("n,nj,nk->jk", part, centered, centered, optimize=True) * float((part**2).sum())
    leverage = inverse @ drift[free]
    variance = np.diag(inverse) + np.einsum("ij,jk,ik->i", leverage, spread, leverage)
    out[free] = np.sqrt(np.maximum(variance, 0.0))
    return out


def _mixture(old: MulticlassRows, q: Floats, p: Floats, weights: Floats, size: float) -> MixtureFit | None:
    r"""Minimum chi-square test that new rows are a mixture of the old classes, on bins of the predicted class.

    Bins are thirds of the confidence of the old rows with a predicted class, where these and the new rows are enough.
    The statistic has (bins - classes) degrees of freedom. The probability of a bin with few old rows, or none, has no
    usable estimate: such bins are merged with the smallest of the others.
    """
    classes = q.shape[1]
    top, best = q.argmax(axis=1), q.max(axis=1)
    new_top, new_best = p.argmax(axis=1), p.max(axis=1)
    mass = old.mass.astype(np.float64)
    place, new_place, count = np.zeros(len(q), np.intp), np.zeros(len(p), np.intp), 0
    for k in range(classes):
        own, there = top == k, new_top == k
        pieces = int(min(own.sum(), there.sum()) // ROWS_PER_BIN)
        parts = min(BINS_PER_CLASS, pieces)
        cuts = np.unique(np.quantile(best[own], np.arange(1, parts) / parts)) if parts > 1 else np.empty(0)
        place[own] = count + np.searchsorted(cuts, best[own], side="right")
        new_place[there] = count + np.searchsorted(cuts, new_best[there], side="right")
        count += len(cuts) + 1
    table = np.zeros((count, classes))
    np.add.at(table, (place, old.labels), mass)
    shares_new = np.bincount(new_place, weights, count)
    rows = np.bincount(place, minlength=count)
    kept = rows >= min(ROWS_PER_BIN, rows.max())
    home = int(np.where(kept, rows, len(q) + 1).argmin())
    table[home] += table[~kept].sum(axis=0)
    shares_new[home] += shares_new[~kept].sum()
    table, shares_new = table[kept], shares_new[kept]
    unit = 1.0 if old.counts else float(mass.sum()) / float((mass**2).sum())
    sizes = table.sum(axis=0) * unit
    df = len(table) - classes
    if df < 1 or (sizes < ROWS_PER_BIN).any():
        return None
    within = table / table.sum(axis=0)
    return _minimum_chi_square(shares_new, within, size, sizes, df)


def _minimum_chi_square(q: Floats, within: Floats, size: float, sizes: Floats, df: int) -> MixtureFit:
    classes = within.shape[1]
    rates = np.full(classes, 1.0 / classes)
    for _ in range(3):
        covariance = multinomial(within @ rates, size)
        for k in range(classes):
            covariance = covariance + rates[k] ** 2 * multinomial(within[:, k], float(sizes[k]))
        inverse = np.linalg.pinv(covariance, hermitian=True)
        slope = (within[:, :-1] - within[:, -1:])[:-1]
        level = (q - within[:, -1])[:-1]
        bent = slope.T @ inverse @ slope
        first = np.linalg.lstsq(bent, slope.T @ inverse @ level, rcond=1e-12)[0]
        found = np.clip(np.append(first, 1.0 - first.sum()), 0.0, None)
        rates = found / found.sum()
    gap = level - slope @ rates[:-1]
    statistic = float(gap @ inverse @ gap)
    return MixtureFit(statistic, df, float(special.chdtrc(df, statistic)), math.nan, math.nan, "the old classes")
