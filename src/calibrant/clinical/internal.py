"""Internal validation: performance of a model on its own patients, corrected for optimism by the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import check_labels
from calibrant.arrays.columns import check_whole, read_column
from calibrant.arrays.sides import side_column
from calibrant.messages import InputError, Note, note, plural
from calibrant.metrics.binary.curves.recalibration import ici, recalibration
from calibrant.metrics.binary.scores import auc, brier
from calibrant.metrics.draws import values_only
from calibrant.metrics.estimates import Result
from calibrant.notebook import table_block
from calibrant.numerics import Column, Floats
from calibrant.progress import progress
from calibrant.tallies import Tally

MEASURES = ("c-statistic", "calibration slope", "calibration intercept", "Brier score", "ICI")

WITH_INTERVAL = {"c-statistic", "Brier score"}
"""Measures whose apparent value varies as the corrected one does; that of the slope is 1 in every sample."""

FEWEST_FOR_INTERVAL = 100
"""Samples that a percentile of 2.5 % needs."""

MOST_LOST = 0.1
"""Share of bootstrap samples that may fail: with one class, or without a finite slope."""

FEW_PER_GROUP = 10
"""With fewer groups, resampling whole groups is refused."""


@dataclass(frozen=True)
class OptimismCorrected(Result):
    """One measure: apparent, optimism and corrected.

    Attributes
    ----------
    name
        The measure.
    apparent
        On the rows that the model was fitted to.
    training, test
        Mean over bootstrap models, on their own samples and on the original rows.
    optimism
        ``training - test``.
    corrected
        ``apparent - optimism``.
    low, high
        Ends of the location-shifted 95 % interval, for the c-statistic and the Brier score.
    """

    name: str
    apparent: float
    training: float
    test: float
    optimism: float
    corrected: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class InternalValidation(Result):
    """Result of :func:`internal_validation`.

    Attributes
    ----------
    c_statistic, slope, intercept, brier, ici
        One :class:`OptimismCorrected` each.
    rows, events, samples
        Rows, events, and bootstrap samples used.
    notes
        What the reader must know.
    """

    c_statistic: OptimismCorrected
    slope: OptimismCorrected
    intercept: OptimismCorrected
    brier: OptimismCorrected
    ici: OptimismCorrected
    rows: int
    events: int
    samples: int
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        layout = "{:<24}{:>10}{:>10}{:>11}{:>9}{:>9}"
        lines = [self._head(), layout.format("", "apparent", "optimism", "corrected", "low", "high")]
        lines += [layout.format(*row) for row in self._rows()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the notes."""
        names = ("", "apparent", "optimism", "corrected", "low", "high")
        return table_block(names, self._rows(), title=self._head(), notes=[f"  {note}" for note in self.notes])

    def _head(self) -> str:
        samples = plural(self.samples, "bootstrap sample")
        return f"Internal validation: {plural(self.rows, 'row')}, {plural(self.events, 'event')}, {samples}"

    def _rows(self) -> list[tuple[str, ...]]:
        found = [each for each in vars(self).values() if isinstance(each, OptimismCorrected)]
        return [
            (
                each.name,
                *(f"{value:.4f}" for value in (each.apparent, each.optimism, each.corrected)),
                *("" if end is None else f"{end:.4f}" for end in (each.low, each.high)),
            )
            for each in found
        ]


def internal_validation(
    estimator: Any,
    X: Any,
    y: Column,
    *,
    n_boot: int = 200,
    groups: Column = None,
    positive: object = None,
    random_state: int = 0,
    resamples: Any = None,
) -> InternalValidation:
    r"""Correct the apparent performance of a model for optimism, by the bootstrap (Harrell 2015).

    .. math:: \hat\theta = \theta_{\text{apparent}} - \frac1B \sum_b \bigl(\theta(m_b, D_b) - \theta(m_b, D)\bigr),

    where :math:`m_b` is the model fitted to the bootstrap sample :math:`D_b` of the rows D. Every step that used the
    labels belongs into ``estimator``: put the selection of predictors, tuning and calibration into a pipeline.

    Parameters
    ----------
    estimator : classifier
        A classifier of scikit-learn with ``predict_proba``, or a pipeline. It is cloned before each fit.
    X : array-like or frame
        Predictors, one line per row.
    y : array-like
        Labels, 0 or 1.
    n_boot : int
        Number of bootstrap samples.
    groups : array-like, optional
        Groups of dependent rows, such as hospitals or patients, which are then drawn as wholes.
    positive : object, optional
        The label that counts as the event.
    random_state : int
        Seed of the samples.
    resamples : array-like of int, optional
        Row numbers of each sample, one line per sample, to repeat an analysis; ``n_boot`` and ``groups`` are then not
        used.

    Returns
    -------
    InternalValidation
        Apparent, optimism and corrected for c-statistic, slope, intercept, Brier score and ICI.

    Notes
    -----
    The intercept is the one estimated with the slope, as in ``rms::validate``. The corrected slope is the factor by
    which coefficients are to be shrunk. Intervals are location-shifted (Noma et al. 2021): percentiles of the
    apparent performance of the bootstrap models, minus the optimism. They leave out that the optimism itself is
    estimated, so they are somewhat too short with few events. ICI is biased upward, and its correction removes only a
    part of that.
    Guarantee: no finite-sample guarantee. An external validation is not replaced: the corrected numbers are for new
    patients of the same population.
    Cost: ``n_boot + 1`` fits and twice as many predictions. Progress is logged to the logger ``calibrant``, level INFO.
    References: Harrell (2015), Regression Modeling Strategies, section 5.3; Noma et al. (2021), Confidence intervals of
    prediction accuracy measures for multivariable prediction models based on the bootstrap-based optimism correction
    methods.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 8))
    >>> y = rng.random(150) < 1 / (1 + np.exp(-X[:, 0]))
    >>> found = internal_validation(LogisticRegression(C=1e6), X, y, n_boot=20)
    >>> found.slope.corrected < found.slope.apparent, found.c_statistic.corrected < found.c_statistic.apparent
    (True, True)
    """
    from sklearn.base import clone  # imported here because it is slow to load
    from sklearn.utils import _safe_indexing

    if not hasattr(estimator, "fit") or not hasattr(estimator, "predict_proba"):
        raise InputError(
            "estimator",
            f"must be a classifier with fit and predict_proba, not {type(estimator).__name__}",
            "for scores alone, without a model to refit, use metrics.recalibration",
        )
    check_whole("n_boot", n_boot)
    check_whole("random_state", random_state, 0)
    labels, _ = check_labels(y, positive)
    n = len(labels)
    size = X.shape[0] if hasattr(X, "shape") else len(X)
    if size != n:
        raise InputError("X", f"has {size} rows but y has {n}", "pass one row per label")
    if not 0 < int(labels.sum()) < n:
        raise InputError("y", "has one class only", "pass rows of both classes")
    target = read_column(y, "y")

    def performance(model: Any, *samples: NDArray[np.intp] | None) -> list[Floats]:
        risks = _risks(model, X, positive)
        return [_measures(risks, labels) if s is None else _measures(risks[s], labels[s]) for s in samples]

    apparent = performance(clone(estimator).fit(X, target), None)[0]
    drawn = _samples(n, n_boot, groups, random_state) if resamples is None else _given(resamples, n)
    training, test, lost = [], [], 0
    for rows in progress(drawn, "internal validation: bootstrap samples"):
        if not 0 < int(labels[rows].sum()) < len(rows):
            lost += 1
            continue
        model = clone(estimator).fit(_safe_indexing(X, rows), target[rows])
        inside, outside = performance(model, rows, None)
        if not (np.isfinite(inside).all() and np.isfinite(outside).all()):
            lost += 1
            continue
        training.append(inside)
        test.append(outside)
    if lost > MOST_LOST * len(drawn):
        raise InputError(
            "n_boot",
            f"gave {lost} of {len(drawn)} samples with one class, or that the model separates without error",
            "use fewer predictors or a penalty; there are too few events for this model",
        )
    notes = (_samples_lost(lost=lost, samples=len(drawn)),) if lost else ()
    if len(training) < FEWEST_FOR_INTERVAL:
        notes = (*notes, _no_interval(fewest=FEWEST_FOR_INTERVAL))
    area, slope, intercept, loss, distance = _corrected(apparent, np.array(training), np.array(test))
    return InternalValidation(area, slope, intercept, loss, distance, n, int(labels.sum()), len(training), notes)


def _risks(model: Any, X: Any, positive: object) -> Floats:
    found = np.asarray(model.predict_proba(X), dtype=np.float64)
    classes = np.asarray(model.classes_).tolist() if hasattr(model, "classes_") else [0, 1]
    if found.ndim != 2 or found.shape[1] != 2:
        raise InputError("estimator", f"returns probabilities of shape {found.shape}", "pass a model of two classes")
    return found[:, classes.index(positive) if positive in classes else 1]


def _measures(risks: Floats, labels: NDArray[Any]) -> Floats:
    """The measures, in order."""
    tally = Tally.from_arrays(risks, labels)
    with values_only():
        line = recalibration(tally)
        return np.array(
            [
                float(auc(tally)),
                float(line.slope),
                float(line.slope_intercept),
                float(brier(tally)),
                ici(tally, repetitions=0).ici,
            ]
        )


def _corrected(apparent: Floats, training: Floats, test: Floats) -> list[OptimismCorrected]:
    found = []
    for place, name in enumerate(MEASURES):
        inside, outside = float(training[:, place].mean()), float(test[:, place].mean())
        optimism = inside - outside
        ends: tuple[float | None, float | None] = (None, None)
        if name in WITH_INTERVAL and len(training) >= FEWEST_FOR_INTERVAL:
            low, high = np.quantile(training[:, place], [0.025, 0.975]) - optimism
            ends = (max(float(low), 0.0), min(float(high), 1.0))
        value = float(apparent[place])
        found.append(OptimismCorrected(name, value, inside, outside, optimism, value - optimism, *ends))
    return found


def _samples(n: int, count: int, groups: Column, seed: int) -> list[NDArray[np.intp]]:
    """Row numbers of bootstrap samples of rows, or of whole groups."""
    rng = np.random.default_rng(int(seed))
    if groups is None:
        return [rng.integers(0, n, n) for _ in range(count)]
    column = side_column(groups, "groups", n)
    _, codes = np.unique(column.astype(str), return_inverse=True)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    if len(members) < FEW_PER_GROUP:
        raise InputError(
            "groups",
            f"has {plural(len(members), 'group')}",
            f"resampling needs at least {FEW_PER_GROUP}; leave groups out if rows are independent",
        )
    return [np.concatenate([members[g] for g in rng.integers(0, len(members), len(members))]) for _ in range(count)]


def _given(resamples: Any, n: int) -> list[NDArray[np.intp]]:
    found = [np.asarray(rows) for rows in resamples]
    for rows in found:
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0 or rows.max() >= n:
            raise InputError("resamples", f"must hold row numbers from 0 to {n - 1}", "pass one list per sample")
    if not found:
        raise InputError("resamples", "is empty", "pass at least one sample")
    return [rows.astype(np.intp) for rows in found]


_samples_lost = note(
    "samples-lost",
    "{lost} of {samples} bootstrap samples were left out: they have one class, or the model separates the classes",
)
_no_interval = note("no-shifted-interval", "no interval: at least {fewest} bootstrap samples are needed (n_boot)")
