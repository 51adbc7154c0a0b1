"""What is wanted of a calibrated model beside calibration: five properties in one report, and a trade-off of two.

The properties are calibration, classification, closeness to the true probabilities, few distinct scores and the right
order (Torabian 2023, section 2.2). They are mostly independent: a constant is calibrated and has one score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import read_column
from calibrant.arrays.columns import width as columns_in
from calibrant.arrays.multiclass.rows import read_matrix
from calibrant.messages import Drawn, InputError, count_text, listed, plural
from calibrant.metrics import dispatch
from calibrant.metrics.binary import scores as overall
from calibrant.metrics.binary.bins import Scores, Strategy, tally_of
from calibrant.metrics.binary.errors import ece
from calibrant.metrics.estimates import Estimate, Result
from calibrant.metrics.regions import region_codes
from calibrant.metrics.simulation import Closeness, closeness, kendall_tau, probabilistic_count
from calibrant.notebook import table_block
from calibrant.numerics import Column, Floats, Ints
from calibrant.tallies import Tally

UNKNOWN = "not known: needs the true probabilities, as in a simulation"


@dataclass(frozen=True)
class Desiderata(Result):
    """The five properties of a calibrated model, measured; print it for a table.

    Attributes
    ----------
    rows
        Rows, or sum of weights.
    calibration
        Expected calibration error.
    loss, brier
        Classification loss at threshold 1/2, and Brier score.
    threshold, least_loss
        The threshold with the least classification loss on these rows, and that loss, which is therefore optimistic.
        Scores of at least the threshold are class 1.
    close
        Closeness to the true probabilities; None if these are not known.
    distinct, count
        Number of distinct scores, and their probabilistic count.
    tau
        Probabilistic Kendall's tau with the true probabilities; None if these are not known.
    weighted
        Whether ``rows`` is a sum of weights.
    """

    rows: float
    calibration: Estimate
    loss: Estimate
    brier: Estimate
    threshold: float
    least_loss: float
    close: Closeness | None
    distinct: int
    count: Estimate
    tau: Estimate | None
    weighted: bool = False

    def __str__(self) -> str:
        rows = self._table()
        width = max(len(row[0]) for row in rows)
        return "\n".join([self._title(), *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def _repr_html_(self) -> str:
        """For notebooks: a table."""
        return table_block(("property", "measured"), self._table(), title=self._title(), left=(0, 1))

    def _title(self) -> str:
        rows = f"rows with a total weight of {count_text(self.rows)}" if self.weighted else plural(self.rows, "row")
        return f"What is wanted of a calibrated model, on {rows}"

    def _table(self) -> list[tuple[str, str]]:
        error = f"{self.calibration.name}: {self.calibration.value:.4f}"
        if self.calibration.null is not None:
            error += f" (a calibrated model would show {self.calibration.null:.4f})"
        distinct = plural(self.distinct, "distinct score")
        least = f"least {self.least_loss:.4f} {_place(self.threshold)}"
        return [
            ("calibration", error),
            ("classification", f"loss {self.loss.value:.4f} at 0.5, {least}; Brier score {self.brier.value:.4f}"),
            ("true probabilities", UNKNOWN if self.close is None else self.close.short()),
            ("interpretability", f"{distinct}, probabilistic count {self.count.value:.1f}"),
            ("monotonicity", UNKNOWN if self.tau is None else f"{self.tau.name}: {self.tau.value:.4f}"),
        ]


def desiderata(
    scores: Scores,
    y: Column = None,
    sample_weight: Column = None,
    *,
    truth: ArrayLike | None = None,
    epsilon: float = 0.05,
    n_bins: int = 15,
    random_state: int = 0,
) -> Desiderata:
    r"""Measure the five properties that are wanted of a calibrated model.

    =====================  ============================================================================================
    property               measure
    =====================  ============================================================================================
    calibration            :func:`ece`: by distinct score if each has 50 rows, else in bins of equal mass
    classification         :func:`classification_loss` at 1/2 and at the best threshold, :func:`brier`
    true probabilities     :func:`closeness` within ``epsilon``; needs ``truth``
    interpretability       number of distinct scores and :func:`probabilistic_count`; fewer are easier to explain
    monotonicity           :func:`kendall_tau` with ``truth``
    =====================  ============================================================================================

    Parameters
    ----------
    scores : array-like or Tally
        Probability of each row; or a tally alone, without ``y`` and ``sample_weight``.
    y : array-like
        Labels, 0 or 1.
    sample_weight : array-like, optional
        Importance weight of each row.
    truth : array-like, optional
        True probability of each row, where it is known, as in a simulation.
    epsilon : float, default=0.05
        Distance from the true probability that counts as close.
    n_bins : int, default=15
        Bins of the calibration error, if there are many distinct scores.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Desiderata
        The measures; it prints as a table.

    Notes
    -----
    Edge rules: without ``truth`` the third and fifth property are None, since no sample of labels shows them.
    Guarantee: no finite-sample guarantee. The least loss over thresholds is chosen on the same rows, so it is too low.
    For known distributions: strict monotonicity and calibration together hold for the true probabilities alone (Theorem
    5 there), and calibration with few scores does not imply a low loss, nor the reverse (Observation 1).
    Cost: one sort. Reference: Torabian (2023), sections 2.2 and 2.3.

    Examples
    --------
    >>> print(desiderata([0.1] * 60 + [0.7] * 60, [0] * 52 + [1] * 8 + [0] * 20 + [1] * 40))
    What is wanted of a calibrated model, on 120 rows
      calibration         ECE, 2 bins chosen by the number of rows: 0.0333 (a calibrated model would show 0.0389)
      classification      loss 0.2333 at 0.5, least 0.2333 at 0.7; Brier score 0.1700
      true probabilities  not known: needs the true probabilities, as in a simulation
      interpretability    2 distinct scores, probabilistic count 2.0
      monotonicity        not known: needs the true probabilities, as in a simulation
    """
    if truth is not None and isinstance(scores, Tally):
        raise InputError("truth", "cannot be combined with a tally", "pass scores and labels as arrays")
    tally = tally_of(scores, y, sample_weight)
    # Class 1 from the k-th cell on: events below it and non-events from it on are wrong.
    n, events = (np.append(0.0, np.cumsum(each)) for each in (tally.n, tally.events))
    wrong = events + (n[-1] - events[-1]) - (n - events)
    place = int(np.argmin(wrong))
    known = truth is not None and not isinstance(scores, Tally)
    return Desiderata(
        float(tally.total),
        ece(tally, strategy="auto", n_bins=n_bins, random_state=random_state),
        overall.classification_loss(tally),
        overall.brier(tally),
        _threshold(tally.scores, place),
        float(wrong[place] / n[-1]),
        closeness(scores, truth, sample_weight, epsilon=epsilon) if known else None,  # type: ignore[arg-type]
        len(tally.scores),
        probabilistic_count(tally),
        kendall_tau(scores, truth, sample_weight) if known else None,  # type: ignore[arg-type]
        not tally.counts,
    )


def _threshold(scores: Floats, place: int) -> float:
    """A number of few digits that sorted, distinct scores reach from ``place`` on."""
    if place == len(scores):  # no score reaches it
        rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(float(scores[-1])))
        return float(np.nextafter(float(rounded), np.inf))
    score, below = float(scores[place]), float(scores[place - 1]) if place else -np.inf
    for digits in range(4, 17):
        value = float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(score)))
        if below < value <= score:
            return value
    return score


def _place(threshold: float) -> str:
    """Where a threshold lies, not rounded: the smallest number above 0.3 is "above 0.3"."""
    below = float(np.nextafter(threshold, -np.inf))
    return f"above {below!r}" if len(repr(below)) < len(repr(threshold)) else f"at {threshold!r}"


@dataclass(frozen=True)
class TradeOffLine(Result):
    """One model of a trade-off.

    Attributes
    ----------
    name
        Its name, such as the number of leaves.
    cells
        Regions, or distinct scores (rows of scores), on the judged rows.
    error, null, null_high
        Calibration error, what a calibrated model would show, and more than in one sample of twenty; None if unknown.
    loss, loss_low, loss_high
        Share of wrong classes and its interval.
    """

    name: str
    cells: int
    error: float
    null: float | None
    null_high: float | None
    loss: float
    loss_low: float | None
    loss_high: float | None


@dataclass(frozen=True)
class TradeOff(Drawn, Result):
    """Calibration error and classification loss of several models on the same rows; print it for a table.

    Attributes
    ----------
    measure
        Name of the calibration error.
    lines
        One for each model, in the given order.
    own_regions
        Whether the errors are those in regions that differ from model to model, so that they do not rank the models.
    """

    measure: str
    lines: tuple[TradeOffLine, ...]
    own_regions: bool = False

    @property
    def by_chance(self) -> tuple[str, ...]:
        """Models whose error a calibrated model would exceed in at least one sample of twenty."""
        known = [each for each in self.lines if each.null_high is not None]
        return tuple(each.name for each in known if each.null_high is not None and each.error <= each.null_high)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        head, rows = self._table()
        width = max(len(row[0]) for row in (head, *rows))
        lines = [f"{row[0]:<{width}}{''.join(f'{cell:>12}' for cell in row[1:])}" for row in (head, *rows)]
        return "\n".join([self._title(), *lines, *self._notes()])

    def _repr_html_(self) -> str:
        """For notebooks: the same table."""
        return table_block(*self._table(), title=self._title(), notes=self._notes())

    def _title(self) -> str:
        return f"Calibration and classification: {self.measure}, and share of wrong classes"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                each.name,
                f"{each.cells:,}",
                f"{each.error:.4f}",
                "-" if each.null is None else f"{each.null:.4f}",
                f"{each.loss:.4f}",
            ]
            for each in self.lines
        ]
        return ["model", "cells", "error", "calibrated", "loss"], rows

    def _notes(self) -> list[str]:
        calibrated = min(self.lines, key=lambda each: each.error)
        sharp = min(self.lines, key=lambda each: each.loss)
        notes = [
            f"  Least error: {calibrated.name} ({calibrated.error:.4f}). Least loss: {sharp.name} ({sharp.loss:.4f})."
        ]
        if self.by_chance:
            names = listed(list(self.by_chance), "and")
            notes.append(f"  Errors as a calibrated model shows them by chance: {names}.")
        if self.own_regions:
            notes.append("  Each model has its own regions, so the error does not rank the models.")
        return notes


def trade_off(
    scores: Mapping[Any, Any],
    y: Column,
    sample_weight: Column = None,
    *,
    regions: Mapping[Any, Any] | None = None,
    random_state: int = 0,
) -> TradeOff:
    r"""Calibration error and classification loss of several models on the same rows, such as trees of growing size.

    The error is :func:`pde` in the regions of each model, or without regions :func:`ece` by distinct scores (bins of
    equal mass if these have fewer than 50 rows each); for a matrix it is class-wise. The loss is the share of rows
    whose class is not the most likely one, for one column at the threshold 1/2.

    Parameters
    ----------
    scores : mapping
        Probabilities of the judged rows by model: one column, or one column per class, for each name.
    y : array-like
        Label of each row.
    sample_weight : array-like, optional
        Importance weight of each row.
    regions : mapping, optional
        Region of each row by model, such as leaves by :func:`tree_regions`; the same names as in ``scores``.
    random_state : int, default=0
        Seed.

    Returns
    -------
    TradeOff
        A line for each model; it prints as a table. ``displays.TradeOffDisplay`` draws it.

    Notes
    -----
    Read the error beside ``calibrated``, what a perfect model with these scores would show: with more regions both
    rise, because each rate is estimated from fewer rows. The error of models each in its own regions does not rank
    the models: a constant wins (``docs/guide/tree-study.md``).
    Guarantee: no finite-sample guarantee. Judge on rows that no model was fitted to.
    Cost: that of the metrics. Reference: Torabian (2023), section 4.4.

    Examples
    --------
    >>> y = [0] * 52 + [1] * 8 + [0] * 20 + [1] * 40
    >>> print(trade_off({"1 leaf": [0.4] * 120, "2 leaves": [0.1] * 60 + [0.7] * 60}, y))
    Calibration and classification: ECE, and share of wrong classes
    model          cells       error  calibrated        loss
    1 leaf             1      0.0000      0.0348      0.4000
    2 leaves           2      0.0333      0.0389      0.2333
      Least error: 1 leaf (0.0000). Least loss: 2 leaves (0.2333).
      Errors as a calibrated model shows them by chance: 1 leaf and 2 leaves.
    """
    if not isinstance(scores, Mapping):
        raise InputError("scores", f"is of type {type(scores).__name__}", "pass a dict of names and probabilities")
    if not scores:
        raise InputError("scores", "is empty", "pass at least one model")
    if regions is not None and set(regions) != set(scores):
        raise InputError("regions", "has other names than scores", "pass the regions of every model")
    lines = []
    for name, given in scores.items():
        ids = None if regions is None else regions[name]
        _check_rows({"scores": given, "regions": ids}, name, y)
        lines.append(_line(str(name), given, y, sample_weight, ids, random_state))
    matrix = any(columns_in(given) > 2 for given in scores.values())
    measure = ("class-wise " if matrix else "") + ("ECE" if regions is None else "PDE in the regions of each model")
    codes = [] if regions is None else [region_codes(regions[name], y, sample_weight) for name in scores]
    return TradeOff(measure, tuple(lines), any(not _same_regions(codes[0], each) for each in codes[1:]))


def _check_rows(given: Mapping[str, Any], model: Any, y: Column) -> None:
    """Refuse columns of a model that have other lengths than the labels."""
    n = len(read_column(y, "y"))
    for name, values in given.items():
        if hasattr(values, "__len__") and not isinstance(values, str) and len(values) != n:
            problem = f"has {plural(len(values), 'row')} but y has {n:,}"
            raise InputError(f"{name}[{model!r}]", problem, "pass one value per row in both")


def _same_regions(first: Ints, second: Ints) -> bool:
    """Whether two columns of regions separate the same rows."""
    both = len(np.unique(np.stack([first, second]), axis=1).T)
    return both == len(np.unique(first)) == len(np.unique(second))


def _line(name: str, scores: Any, y: Column, sample_weight: Column, regions: Any, random_state: int) -> TradeOffLine:
    options: dict[str, Any] = {"random_state": random_state}
    if columns_in(scores) > 2:
        cells = len(np.unique(read_matrix(scores)[0], axis=0))
        options |= {"notion": "class-wise"}
    else:
        cells = len(tally_of(scores, y, sample_weight).scores)
    if regions is None:
        strategy: Strategy = "mass" if columns_in(scores) > 2 else "auto"
        found = dispatch.ece(scores, y, sample_weight, strategy=strategy, **options)
    else:
        cells = len(np.unique(region_codes(regions, y, sample_weight)))
        found = dispatch.pde(scores, y, sample_weight, regions=regions, **options)
    right = dispatch.accuracy(scores, y, sample_weight)
    low, high = (None if end is None else 1.0 - end for end in (right.high, right.low))
    return TradeOffLine(name, cells, found.value, found.null, found.null_high, 1.0 - right.value, low, high)
