"""Histogram binning of several classes, with a finite-sample, distribution-free guarantee for all of them at once."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.calibrators.base import BinaryCalibrator, Fit
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.claims import Rare
from calibrant.calibrators.multiclass.reduction import LEAST, ReducingCalibrator
from calibrant.fits.bins import check_bins
from calibrant.guarantees.certificate import first_few
from calibrant.guarantees.issuing import Bins
from calibrant.maps import ClassMap
from calibrant.messages import Voice, note, warn
from calibrant.notions import ClassWise, Notion, TopLabel
from calibrant.tallies import Tally

FEW_ROWS, FEW_IN_BIN = 200, 20
"""Rows of a class, and of a bin, below which histogram binning is not expected to compete (002 section 5.E.6)."""


INSTEAD = (
    "where histogram binning is not expected to do better than scaling (Gupta 2023, section 5.E.6): use more rows, or "
    "fewer bins"
)


@note("few-rows")
def few_rows(voice: Voice, classes: tuple[str, ...], needed: int) -> str:
    """Of classes with few rows."""
    return f"{first_few(classes, 3)}: fewer than {needed} {voice.nouns.rows}, {INSTEAD}"


@note("few-rows-in-bins")
def few_rows_in_bins(voice: Voice, classes: tuple[str, ...], needed: int) -> str:
    """Of classes whose bins have few rows."""
    return f"{first_few(classes, 3)}: fewer than {needed} {voice.nouns.rows} in a bin, {INSTEAD}"


@dataclass(init=False, eq=False, repr=False)
class ClassBinning(ReducingCalibrator):
    """What both have in common: how many bins, and whether there are rows enough for them."""

    points_per_bin: int = 100
    _: KW_ONLY
    n_bins: int | None = None
    alpha: float = 0.1
    bins_from: Literal["all", "part"] = "all"
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
        """Say where histogram binning is not expected to do better than scaling."""
        few = [name for name, n in rows.items() if n < FEW_ROWS]
        thin = [name for name, n in rows.items() if n < FEW_IN_BIN * (self.n_bins or max(n // self.points_per_bin, 1))]
        if few:
            warn(few_rows(tuple(few), FEW_ROWS))
        if thin:
            warn(few_rows_in_bins(tuple(thin), FEW_IN_BIN))


@dataclass(eq=False, repr=False)
class TopLabelHistogramBinning(ClassBinning):
    r"""The probability of the predicted class, calibrated for each class by itself by histogram binning.

    .. math:: h(x) = \hat\pi_{l,b} = \frac{\#\{i : c(x_i) = l,\ g(x_i) \in b,\ y_i = l\}}
                                         {\#\{i : c(x_i) = l,\ g(x_i) \in b\}}

    for rows that the model predicts as class :math:`c(x) = l` with a probability :math:`g(x)` in bin b, one of
    :math:`\lfloor n_l / k \rfloor` bins of about equal mass of the :math:`n_l` rows that are predicted as l.

    Parameters
    ----------
    points_per_bin : int
        Rows in each bin, k; 50 to 150 are advised (002 section 5.B.1): more give narrower promises and coarser
        probabilities. It makes as many bins of a class as its rows allow, so that rare classes are as sure as others.
    n_bins : int, optional
        The same number of bins in each class instead.
    alpha : float
        The certificate's, unless ``certificate`` is given another.
    bins_from, extremes, random_state
        As in :class:`~calibrant.HistogramBinning`.
    rare, least
        As in :class:`~calibrant.Reduction`.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        Edges, outputs, rows and events of each class that has a map of its own.
    named_ : dict
        Under 1, in how many rows each class is predicted.

    Notes
    -----
    ``predict`` gives the model's own class, ``transform`` its probability. Ties between classes go to the earlier one.
    Warns where a class is predicted in fewer than 200 rows, or a bin has fewer than 20 (002 section 5.E.6).
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included, for all
    bins of all classes that have a map of their own; see ``docs/certificates/classes.md``.
    Cost: one pass over the matrix, one sort of its rows by top probability.
    Reference: 002 Algorithm 5.8 and Theorem 5.1.

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
      Assumes: the rows are independent draws from the population that the map will serve, and new to the model;
    no argument of the fit was chosen by their labels.
    """

    _: KW_ONLY
    rare: Rare = "pool"
    least: int = LEAST

    def _aim(self) -> Notion:
        return TopLabel()

    def _binary(self) -> BinaryCalibrator:
        return HistogramBinning(**self._options())

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        fit = super()._fit_classes(rows)
        self._warn_of_few({f"class {name!r}": n for name, n in fit.found["named_"][1].items() if n >= self.least})
        return fit


@dataclass(eq=False, repr=False)
class ClassWiseHistogramBinning(ClassBinning):
    r"""The probability of every class, each calibrated by itself by histogram binning; rows need not sum to 1.

    .. math:: h_l(x) = \hat\pi_{l,b} = \frac{\#\{i : g_l(x_i) \in b,\ y_i = l\}}{\#\{i : g_l(x_i) \in b\}}

    for rows that give class l a probability :math:`g_l(x)` in bin b, one of :math:`\lfloor n / k \rfloor` bins of about
    equal mass of all n rows.

    Parameters
    ----------
    points_per_bin, n_bins, alpha, bins_from, random_state
        As in :class:`TopLabelHistogramBinning`.
    extremes : {"succession", "mean"}
        What a bin without a row of the class, or with no other, puts out: what 2 rows more of the class's own share
        would make of it, :math:`2 \bar\pi_l / (m + 2)` or 1 less :math:`2 (1 - \bar\pi_l) / (m + 2)` with m rows in a
        bin on average; or the plain 0 or 1. With one half instead of the share, as for two classes, the rows of a
        thousand classes would sum to ten.

    Attributes
    ----------
    evidence_ : tuple of Evidence
        Edges, outputs, rows and events of each class.

    Notes
    -----
    Dividing the rows by their sums would void the promise and make the class-wise error larger (002 section 5.4):
    ``Reduction("class-wise", HistogramBinning(...), normalised=True)`` is there for comparison.
    Warns below 200 rows, or 20 in a bin (002 section 5.E.6).
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties and atoms included, for all
    bins of all classes at once; see ``docs/certificates/classes.md``.
    Cost: one sort of each column. A certificate holds eight numbers for each class and bin.
    Reference: 002 Algorithm 5.9 and Theorem 5.2.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.dirichlet([1, 1, 1], 3000)
    >>> y = np.array(["a", "b", "c"])[[rng.choice(3, p=0.5 * row + 0.5 / 3) for row in p]]
    >>> each = ClassWiseHistogramBinning(points_per_bin=150).fit(p, y)
    >>> each.transform([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]]).round(2).tolist()
    [[0.58, 0.15, 0.19], [0.23, 0.34, 0.36]]
    >>> print(str(each.certificate(alpha=0.1)).splitlines()[0])
    With confidence 90 %, for every class and each of its bins: among rows that give that class that
    probability, the true share of the class differs from the probability by at most 0.132.
    """

    def _aim(self) -> Notion:
        return ClassWise()

    def _binary(self) -> BinaryCalibrator:
        check_option("extremes", self.extremes, ("succession", "mean"))
        return HistogramBinning(**self._options() | {"extremes": "mean"})

    def _settled(self, bins: Bins, tally: Tally) -> Bins:
        """Bins without a row of the class, or with no other, lean on the class's share and not on one half."""
        if self.extremes == "mean":
            return bins
        share = (float(tally.positives) + 1.0) / (float(tally.total) + 2.0)
        room = 2.0 / (float(bins.n.sum()) / max(int((bins.n > 0).sum()), 1) + 2.0)
        leaning = np.where(bins.outputs == 0.0, room * share, bins.outputs)
        return replace(bins, outputs=np.where(bins.outputs == 1.0, 1.0 - room * (1.0 - share), leaning))

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        fit = super()._fit_classes(rows)
        self._warn_of_few({"each class": float(rows.mass.sum())})
        return fit
