"""Multiclass histogram binning, with a finite-sample, distribution-free guarantee for all classes simultaneously."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.claims import Rare
from calibrant.calibrators.multiclass.reduction import MIN_CLASS_ROWS as MIN_MAP_ROWS
from calibrant.calibrators.multiclass.reduction import ReducingCalibrator
from calibrant.fits.bins import check_bins
from calibrant.guarantees.certificate import first_few
from calibrant.guarantees.issuing import Bins
from calibrant.maps import MulticlassMap
from calibrant.messages import Voice, note, warn
from calibrant.notions import Classwise, Notion, TopLabel
from calibrant.tallies import Tally

MIN_CLASS_ROWS, MIN_BIN_ROWS = 200, 20
"""Rows of a class, and of a bin, below which histogram binning is not expected to beat scaling (Gupta 2023, section
5.E.6)."""


INSTEAD = (
    "where histogram binning is not expected to beat scaling (Gupta 2023, section 5.E.6): use more rows, or fewer bins"
)


@note("few-rows")
def few_rows(voice: Voice, classes: tuple[str, ...], needed: int) -> str:
    """Note on classes with few rows."""
    return f"{first_few(classes, 3)}: fewer than {needed} {voice.nouns.rows}, {INSTEAD}"


@note("few-rows-in-bins")
def few_rows_in_bins(voice: Voice, classes: tuple[str, ...], needed: int) -> str:
    """Note on classes whose bins have few rows."""
    return f"{first_few(classes, 3)}: fewer than {needed} {voice.nouns.rows} in a bin, {INSTEAD}"


@dataclass(init=False, eq=False, repr=False)
class MulticlassBinning(ReducingCalibrator):
    """Base class of multiclass histogram binning: the number of bins, and warnings about too few rows."""

    points_per_bin: int = 100
    _: KW_ONLY
    n_bins: int | None = None
    alpha: float = 0.1
    bins_from: Literal["all", "split"] = "all"
    extremes: Literal["succession", "mean"] = "succession"
    random_state: int | None = None

    def _options(self) -> dict[str, Any]:
        check_bins(self.points_per_bin, "points_per_bin")
        return {
            "n_bins": self.n_bins,
            "points_per_bin": self.points_per_bin if self.n_bins is None else None,
            "bins_from": self.bins_from,
            "extremes": self.extremes,
            "random_state": self.random_state,
        }

    def _warn_of_few(self, rows: dict[str, float]) -> None:
        """Warn where histogram binning is not expected to beat scaling."""
        few = [name for name, n in rows.items() if n < MIN_CLASS_ROWS]
        thin = [
            name for name, n in rows.items() if n < MIN_BIN_ROWS * (self.n_bins or max(n // self.points_per_bin, 1))
        ]
        if few:
            warn(few_rows(tuple(few), MIN_CLASS_ROWS))
        if thin:
            warn(few_rows_in_bins(tuple(thin), MIN_BIN_ROWS))


@dataclass(eq=False, repr=False)
class TopLabelHistogramBinning(MulticlassBinning):
    r"""Histogram binning of the probability of the predicted class, separately for each predicted class.

    .. math:: h(x) = \hat\pi_{l,b} = \frac{\#\{i : c(x_i) = l,\ g(x_i) \in b,\ y_i = l\}}
                                         {\#\{i : c(x_i) = l,\ g(x_i) \in b\}}

    for rows that the model predicts as class :math:`c(x) = l` with a probability :math:`g(x)` in bin b, one of
    :math:`\lfloor n_l / k \rfloor` bins of about equal mass of the :math:`n_l` rows that are predicted as l.

    Parameters
    ----------
    points_per_bin : int
        Rows in each bin, k; 50 to 150 are recommended (Gupta 2023, section 5.B.1): more rows give narrower intervals
        and coarser probabilities. The number of bins of a class follows from its rows, so that intervals for rare
        classes are about as wide as for others.
    n_bins : int, optional
        The same number of bins in each class instead.
    alpha : float
        Default ``alpha`` of ``certificate``.
    bins_from, extremes, random_state
        As in :class:`~calibrant.HistogramBinning`.
    rare, min_rows
        As in :class:`~calibrant.multiclass.Reduction`.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        Edges, outputs, rows and events of each class with a separate map.
    named_ : dict
        Under 1, the number of rows in which each class is predicted.

    Notes
    -----
    ``predict`` returns the class predicted by the model, ``transform`` its probability. Of tied classes the first
    counts. There is a warning if a class is predicted in fewer than 200 rows, or a bin has fewer than 20.
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included, for all
    bins of all classes with a separate map; see ``docs/certificates/classes.md``.
    Cost: one pass over the matrix, one sort of its rows by top probability.
    Reference: Gupta (2023), Algorithm 5.8, Theorem 5.1 and section 5.E.6.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> y = np.array(["a", "b", "c"])[[rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p]]
    >>> top = TopLabelHistogramBinning(points_per_bin=150).fit(p, y)
    >>> top.transform([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]]).round(2).tolist()
    [[0.59], [0.4]]
    >>> print(top.certificate(alpha=0.1))
    With confidence 90 %, for every class and each of its bins: among rows predicted as that class with that
    probability, the true share of the class differs from the probability by at most 0.112.
      Worst: class 'a'.
      The top-label calibration error is then at most 0.112 on what is covered.
      Basis: 3,000 rows, clopper-pearson intervals in 18 bins; Gupta 2023, Theorem 5.1; bins by Theorem 4.1,
    given the edges.
      Not covered: scores on a bin edge (15 edges, 15 of 3,000 rows).
      Assumes: the rows are independent draws from the population that the map will be applied to, and were not used to
    train or tune the model; no argument of the fit was chosen using their labels.
    """

    _: KW_ONLY
    rare: Rare = "pool"
    min_rows: int = MIN_MAP_ROWS

    def _aim(self) -> Notion:
        return TopLabel()

    def _binary(self) -> BinaryCalibrator:
        return HistogramBinning(**self._options())

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        fit = super()._fit_classes(rows)
        self._warn_of_few({f"class {name!r}": n for name, n in fit.found["named_"][1].items() if n >= self.min_rows})
        return fit


@dataclass(eq=False, repr=False)
class ClasswiseHistogramBinning(MulticlassBinning):
    r"""Histogram binning of the probability of each class separately; rows need not sum to 1.

    .. math:: h_l(x) = \hat\pi_{l,b} = \frac{\#\{i : g_l(x_i) \in b,\ y_i = l\}}{\#\{i : g_l(x_i) \in b\}}

    for rows in which class l has a probability :math:`g_l(x)` in bin b, one of :math:`\lfloor n / k \rfloor` bins of
    about equal mass of all n rows.

    Parameters
    ----------
    points_per_bin, n_bins, alpha, bins_from, random_state
        As in :class:`TopLabelHistogramBinning`.
    extremes : {"succession", "mean"}
        Output of a bin without rows of the class, or with no others. ``"succession"`` adds 2 rows with the class's
        overall share: :math:`2 \bar\pi_l / (m + 2)`, or 1 minus :math:`2 (1 - \bar\pi_l) / (m + 2)`, with m rows in an
        average bin. ``"mean"`` is exactly 0 or 1. With one half instead of the share, as for two classes, the
        probabilities of a thousand classes would sum to ten.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        Edges, outputs, rows and events of each class.

    Notes
    -----
    Dividing the rows by their sums would void the guarantee and increase the class-wise error (Gupta 2023, section
    5.4); ``Reduction("class-wise", HistogramBinning(...), normalized=True)`` does this for comparison.
    There is a warning below 200 rows, or 20 in a bin.
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included, for all
    bins of all classes simultaneously; see ``docs/certificates/classes.md``.
    Cost: one sort of each column. A certificate stores eight numbers for each class and bin.
    Reference: Gupta (2023), Algorithm 5.9, Theorem 5.2 and section 5.E.6.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> y = np.array(["a", "b", "c"])[[rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p]]
    >>> each = ClasswiseHistogramBinning(points_per_bin=150).fit(p, y)
    >>> each.transform([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]]).round(2).tolist()
    [[0.58, 0.15, 0.19], [0.23, 0.34, 0.36]]
    >>> print(str(each.certificate(alpha=0.1)).splitlines()[0])
    With confidence 90 %, for every class and each of its bins: among rows that give that class that
    probability, the true share of the class differs from the probability by at most 0.132.
    """

    def _aim(self) -> Notion:
        return Classwise()

    def _binary(self) -> BinaryCalibrator:
        check_option("extremes", self.extremes, ("succession", "mean"))
        return HistogramBinning(**self._options() | {"extremes": "mean"})

    def _settled(self, bins: Bins, tally: Tally) -> Bins:
        """Bins without rows of the class, or with no others, are shrunk toward the class's share, not one half."""
        if self.extremes == "mean":
            return bins
        share = (float(tally.positives) + 1.0) / (float(tally.total) + 2.0)
        room = 2.0 / (float(bins.n.sum()) / max(int((bins.n > 0).sum()), 1) + 2.0)
        leaning = np.where(bins.outputs == 0.0, room * share, bins.outputs)
        return replace(bins, outputs=np.where(bins.outputs == 1.0, 1.0 - room * (1.0 - share), leaning))

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        fit = super()._fit_classes(rows)
        self._warn_of_few({"each class": float(rows.mass.sum())})
        return fit
