"""Binning of the simplex: joint calibration of all class probabilities, for few classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import MulticlassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.fits.bins import HEAVY_ROWS, MOST_BINS, ROUNDING, check_bins
from calibrant.guarantees.certificate import Certificate, Coverage, IntervalName
from calibrant.guarantees.issuing import RegionCounts, issue_regions
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.origins import SETS_OF_CLASSES, Assumption
from calibrant.maps import ClassAxis, SimplexBinsMap, SimplexScheme
from calibrant.maps.classes import blocks, softmax
from calibrant.maps.simplex import project, region_count
from calibrant.messages import InputError, Setting, Voice, count_text, note, warn
from calibrant.numerics import Floats

ROWS_PER_REGION, MIN_REGION_ROWS = 150, 30
"""Default rows per region, and the minimum where there are few rows for one region per class."""

MAX_CANONICAL_CLASSES = 5
"""With more classes than this, canonical calibration is not feasible."""


empty_regions = note(
    "empty-regions", "{empty:,} of {regions:,} regions have no {nouns.rows} and give every class the same probability"
)


@note("fewer-regions")
def fewer_regions(voice: Voice, rows: int, asked: int, regions: int) -> str:
    """Note on more regions than the rows can fill."""
    nouns = voice.nouns
    return f"{rows} {nouns.rows} are too few for {asked} regions: {regions} are used, two {nouns.rows} each"


@note("many-classes")
def many_classes(voice: Voice, classes: int) -> str:
    """Note on too many classes for regions of the simplex."""
    rows, needed = voice.nouns.rows, f"{regions_needed(classes):,}" if classes <= 10 else "more than 10,000,000"
    return (
        f"canonical calibration of {classes} classes is not feasible: it would take {needed} regions of l1 diameter "
        f"0.5, with at least 100 {rows} each; use a class-wise or top-label method instead"
    )


@dataclass(eq=False, repr=False)
class SimplexBinning(MulticlassCalibrator):
    r"""Cut the probability simplex into regions and output the class frequencies of each region.

    .. math:: m_l(s) = \frac{\text{rows of class } l \text{ in } b}{\text{rows in } b} \quad\text{for } s \text{ in } b

    The aim is canonical calibration: among rows with the same output, the joint distribution of classes is the output.
    The number of regions that this needs grows exponentially with the classes, see :func:`regions_needed`. It works for
    three classes and is not feasible for more than five, where fitting warns. Use a weaker notion there.

    Parameters
    ----------
    scheme : {"projection", "sierpinski", "grid"}
        - ``"projection"``: regions with about equal numbers of rows, cut off one after another along given directions
          (Gupta 2023, Algorithm 5.10). A threshold is the projection of a row. Rows on a threshold do not count in any
          region and are not covered by the certificate, unless they are many and become a separate region (as for
          :class:`HistogramBinning`). Cutting ends early if ties leave too few rows.
        - ``"sierpinski"``: corners are cut off at one half, recursively to a depth.
        - ``"grid"``: a regular grid. The last two are fixed beforehand, and may leave regions without rows.
    n_bins : int, optional
        Number of regions of a projection, at most half the number of rows. By default one per 150 rows, at most 100,
        but one more than there are classes if each then still has 30 rows.
    depth, cells : int, optional
        Depth of a Sierpinski partition, or cells per axis of a grid. By default the largest with up to 100 regions and
        150 rows per region on average, at least depth 1, or 2 cells. More regions than rows are an error. An
        always-valid certificate needs an explicit value, because the default grows with the rows.
    directions : {"classes", "random"} or array of shape (m, L)
        Directions of the cuts, in turn: ``"classes"`` cuts off the rows with the largest score for the first class,
        then for the second, and so on; ``"random"`` draws directions; an array must not be derived from the rows that
        are fitted.
    extremes : {"succession", "mean"}
        Output of a region of n rows without some class: (k + 1) / (n + L), or the frequencies with a 0. The certificate
        is around the output either way.
    alpha : float
        Default ``alpha`` of ``certificate``; the confidence level is 1 - alpha.
    random_state : int
        Seed of ``directions="random"``.

    Attributes
    ----------
    regions_ : RegionCounts
        Rows by region and class, and rows on thresholds.

    Notes
    -----
    Edge cases: the output of a region without rows is 1 / L for every class, with a note; in a projection, if all its
    rows lie on the threshold, it is their class frequencies. Scores of type ``"independent"`` are an error. Importance
    weights count as their effective sample size.
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties included; see
    docs/certificates/simplex.md.
    Cost: for each region, one pass over the rows that are left (projection); one pass in total (fixed schemes).
    Reference: Gupta (2023), section 5.G, Algorithm 5.10, eq. 5.19 to 5.21.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> scores = rng.dirichlet([1.0, 1.0, 1.0], size=3000)
    >>> truth = scores**2 / (scores**2).sum(axis=1, keepdims=True)
    >>> y = (rng.random((3000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    >>> cal = SimplexBinning(n_bins=10).fit(scores, y)
    >>> cal.transform([[0.9, 0.05, 0.05], [0.3, 0.3, 0.4]]).round(3).tolist()
    [[0.946, 0.02, 0.033], [0.32, 0.36, 0.32]]
    >>> print(cal.certificate(alpha=0.1))
    With confidence 90 %, in each of the 10 regions the true class distribution differs from the calibrated one by an l1
    distance (0 to 2) of at most 0.173, and by at most 0.087 in any class.
      Basis: 2,991 rows, clopper-pearson intervals; Gupta 2023, Appendix 5.G, with an interval for every set of classes.
      Not covered: scores on a threshold (9 thresholds, 9 of 3,000 rows).
      Assumes: the rows are independent draws from the population that the map will be applied to, and were not used to
    train or tune the model; no argument of the fit was chosen using their labels.
    """

    regions_: RegionCounts = field(init=False)

    scheme: SimplexScheme = "projection"
    _: KW_ONLY
    n_bins: int | None = None
    depth: int | None = None
    cells: int | None = None
    directions: Literal["classes", "random"] | ArrayLike = "classes"
    extremes: Literal["succession", "mean"] = "succession"
    alpha: float = 0.1
    random_state: int = 0

    def _fit_classes(self, rows: MulticlassRows) -> Fit[SimplexBinsMap]:
        self._check_parameters(rows)
        mass = _row_mass(rows)
        self._warn_of_many(len(rows.classes))
        regions, empty = self._projected(rows, mass) if self.scheme == "projection" else self._fixed(rows, mass)
        notes = (empty_regions(int(empty.sum()), len(empty)),) if empty.any() else ()
        return Fit(regions.map, notes, {"regions_": regions})

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> Certificate | NoCertificate:
        return issue_regions(self.regions_, alpha, interval, coverage, self.provenance_.columns)

    # ------------------------------------------------------------------------------------------ where regions end

    def _projected(self, rows: MulticlassRows, mass: NDArray[Any]) -> tuple[RegionCounts, NDArray[np.bool_]]:
        """Gupta (2023), Algorithm 5.10, with heavy thresholds as separate regions; and which regions have no rows."""
        total = int(mass.sum() * (1.0 + ROUNDING))
        count = self._count(total, len(rows.classes))
        cuts = cut_off(_probabilities(rows), mass, self._directions(count - 1, len(rows.classes)), total, count)
        counts = _by_class(cuts.codes, rows, mass, len(cuts.thresholds) + 1)
        table, empty = self._shares(counts), counts.sum(axis=1) == 0
        follows = [place - 1 for place in cuts.edges if empty[place - 1]]  # all rows up to the threshold lie on it
        table[follows], empty[follows] = table[np.array(follows, dtype=np.intp) + 1], False
        fitted = self._map(rows, len(cuts.thresholds), table, cuts.directions, cuts.thresholds)
        by_class = isinstance(self.directions, str) and self.directions == "classes"
        chosen = None if by_class else Assumption.DIRECTIONS_BEFORE
        left_out = int(mass[cuts.codes < 0].sum())
        return RegionCounts(fitted, _whole(counts, rows), cuts.light, left_out, False, SETS_OF_CLASSES, chosen), empty

    def _fixed(self, rows: MulticlassRows, mass: NDArray[Any]) -> tuple[RegionCounts, NDArray[np.bool_]]:
        classes, total = len(rows.classes), float(mass.sum() * (1.0 + ROUNDING))
        size = self._size(classes, total)
        regions = region_count(self.scheme, classes, size)
        blank = self._map(rows, size, np.full((regions, classes), 1.0 / classes))
        counts = _by_class(blank.regions(rows.scores), rows, mass, regions)
        fitted = self._map(rows, size, self._shares(counts))
        asked = (
            self.depth if self.scheme == "sierpinski" else self.cells
        ) is not None  # otherwise it depends on the rows
        made = RegionCounts(fitted, _whole(counts, rows), np.zeros(0, dtype=np.int64), 0, asked, SETS_OF_CLASSES)
        return made, counts.sum(axis=1) == 0

    def _map(
        self, rows: MulticlassRows, size: int, table: Floats, directions: ArrayLike = (), thresholds: ArrayLike = ()
    ) -> SimplexBinsMap:
        on: ClassAxis = "logit" if rows.score_type == "logit" else "probability"
        return SimplexBinsMap(
            rows.classes, self.scheme, size, np.asarray(directions), np.asarray(thresholds), table.reshape(-1), on
        )

    def _shares(self, counts: Floats) -> Floats:
        """Class shares by region; see ``extremes``."""
        n, classes = counts.sum(axis=1, keepdims=True), counts.shape[1]
        plain = counts / np.where(n > 0, n, 1.0)
        kept = (counts > 0).all(axis=1, keepdims=True) | ((self.extremes == "mean") & (n > 0))
        return np.asarray(np.where(kept, plain, (counts + 1.0) / (n + classes)))

    # ----------------------------------------------------------------------------------------- how many, and along what

    def _count(self, total: int, classes: int) -> int:
        most = max(total // 2, 1)
        if self.n_bins is None:
            fewest = max(min(classes + 1, total // MIN_REGION_ROWS), 1)
            return int(np.clip(total // ROWS_PER_REGION, fewest, MOST_BINS))
        if self.n_bins > most:
            warn(fewer_regions(total, int(self.n_bins), most))
        return min(int(self.n_bins), most)

    def _size(self, classes: int, total: float) -> int:
        name, least = ("depth", 1) if self.scheme == "sierpinski" else ("cells", 2)
        given = getattr(self, name)
        size = least if given is None else int(given)
        try:
            regions = region_count(self.scheme, classes, size)
            most = min(total / ROWS_PER_REGION, MOST_BINS)
            while given is None and region_count(self.scheme, classes, size + 1) <= most:
                size += 1
        except ValueError:
            raise InputError(
                Setting(name, size),
                f"is out of range for {classes} classes",
                "pass a smaller value, or scheme='projection'",
            ) from None
        if regions > total:
            raise InputError(
                Setting(name, size),
                f"makes {regions:,} regions for {classes} classes, more than the {int(total):,} rows",
                f"pass a smaller {name}, or scheme='projection', which supports any number of regions",
            )
        return size

    def _directions(self, count: int, classes: int) -> Floats:
        if isinstance(self.directions, str):
            if self.directions == "classes":
                given = -np.eye(classes)
            else:
                given = np.random.default_rng([self.random_state, classes]).standard_normal((count, classes))
                given -= given.mean(axis=1, keepdims=True)  # along the simplex: all rows have the same sum
                given /= np.sqrt((given**2).sum(axis=1, keepdims=True))
        else:
            given = np.asarray(self.directions, dtype=np.float64)
            if given.ndim != 2 or given.shape[1] != classes or not np.isfinite(given).all() or not given.any(1).all():
                raise InputError("directions", f"must be rows of {classes} finite numbers, not all zero")
        return given[np.arange(count) % max(len(given), 1)]

    def _warn_of_many(self, classes: int) -> None:
        if classes <= MAX_CANONICAL_CLASSES:
            return
        warn(many_classes(classes))

    def _check_parameters(self, rows: MulticlassRows) -> None:
        check_option("scheme", self.scheme, get_args(SimplexScheme))
        check_option("extremes", self.extremes, ("succession", "mean"))
        if isinstance(self.directions, str):
            check_option("directions", self.directions, ("classes", "random"))
        for name, scheme in {"n_bins": "projection", "depth": "sierpinski", "cells": "grid"}.items():
            if getattr(self, name) is None:
                continue
            check_bins(getattr(self, name), name)
            if scheme != self.scheme:
                raise InputError(name, f"is for scheme={scheme!r}, not {self.scheme!r}", "leave it out")
        if rows.score_type == "independent":
            raise InputError(
                Setting("score_type", "independent"),
                "is not supported: rows must sum to 1",
                "pass rows that sum to 1, or logits",
            )

    def _describe(self, voice: Voice) -> str:
        n = self.regions_.counts.sum(axis=1)
        filled = n[n > 0]
        empty = f", {len(n) - len(filled):,} without rows" if len(filled) < len(n) else ""
        spread = f"{count_text(filled.min())} to {count_text(filled.max())} rows each"
        return f"{len(n):,} regions by {self.scheme}, {spread}{empty}"


def regions_needed(classes: int) -> int:
    """Number of regions of a grid in which no two rows of a region differ by more than 0.5 in l1 distance.

    Two rows of a cell differ by up to 1 / K in each class, half of the classes in one direction and half in the other.

    Examples
    --------
    >>> [regions_needed(classes) for classes in (2, 3, 4, 5, 6, 10)]
    [4, 16, 260, 736, 11452, 19845254]
    """
    return region_count("grid", classes, 4 * (classes // 2))


class Cuts:
    """Rules that cut off regions one after another, and the region of each fitted row, -1 on a light threshold."""

    def __init__(self, rows: int) -> None:
        self.codes = np.full(rows, -1, dtype=np.intp)
        self.directions: list[Floats] = []
        self.thresholds: list[float] = []
        self.edges: list[int] = []
        self.light = np.zeros(0, dtype=np.int64)

    def add(self, rows: NDArray[np.intp], direction: Floats, threshold: float) -> int:
        """Add a rule and assign its rows."""
        self.codes[rows] = len(self.thresholds)
        self.directions.append(direction)
        self.thresholds.append(threshold)
        return len(self.thresholds) - 1


def cut_off(p: Floats, mass: NDArray[Any], directions: Floats, total: int, count: int) -> Cuts:
    r"""Regions of :math:`c - 1` rows, :math:`c = \lfloor (n + 1) / B \rfloor`, along the directions in turn.

    The threshold is the projection of the c-th of the rows that are left. Rows below it are the region; rows on it are
    left out, or become a separate region if they are many (docs/certificates/simplex.md); rows above it remain for the
    next step. Ends if fewer than 2c - 1 are left, which happens only with ties.

    Examples
    --------
    >>> p = np.linspace(0.0, 1.0, 11)
    >>> cuts = cut_off(np.column_stack([1.0 - p, p]), np.ones(11), np.tile([0.0, 1.0], (2, 1)), 11, 3)
    >>> cuts.codes.tolist(), np.round(cuts.thresholds, 1).tolist()
    ([0, 0, 0, -1, 1, 1, 1, -1, 2, 2, 2], [0.3, 0.7])
    """
    rank = (total + 1) // count
    heavy = max(min(max(HEAVY_ROWS, total / (10 * count)), total / (2 * count)), 2)
    cuts, left, light = Cuts(len(p)), np.arange(len(p)), []
    for direction in directions:
        if mass[left].sum() < 2 * rank - 1:
            break
        along = project(p, direction, left)
        threshold = _ranked(along, mass[left], rank)
        on = left[along == threshold]
        rule = cuts.add(left[along < threshold], direction, threshold)
        if mass[on].sum() >= heavy:
            cuts.edges.append(cuts.add(on, direction, float(np.nextafter(threshold, np.inf))))
        else:
            light.append(rule)
        left = left[along > threshold]
    cuts.codes[left] = len(cuts.thresholds)
    cuts.light = np.array(light, dtype=np.int64)
    return cuts


def _ranked(values: Floats, mass: NDArray[Any], rank: int) -> float:
    """The value at which the mass of the smallest ones reaches the rank."""
    if mass.dtype.kind == "i" and mass.max() == 1:
        return float(np.partition(values, rank - 1)[rank - 1])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order])
    place = int(np.searchsorted(reached, rank * (1.0 - ROUNDING)))
    return float(values[order[min(place, len(order) - 1)]])


def _row_mass(rows: MulticlassRows) -> NDArray[Any]:
    """Mass of each row: its count, or its importance weight scaled to the effective sample size."""
    if rows.counts:
        return rows.mass
    w = np.asarray(rows.mass, dtype=np.float64) / rows.mass.max()
    return np.asarray(w * (w.sum() / (w**2).sum()))


def _probabilities(rows: MulticlassRows) -> Floats:
    """All rows as float64 probabilities, in the blocks that a map works in."""
    out = np.empty(rows.scores.shape)
    for part in blocks(rows.scores):
        s = rows.scores[part].astype(np.float64, copy=False)
        out[part] = softmax(s) if rows.score_type == "logit" else s
    return out


def _by_class(codes: NDArray[np.intp], rows: MulticlassRows, mass: NDArray[Any], regions: int) -> Floats:
    """Rows of each class in each region, without rows on thresholds."""
    kept, classes = codes >= 0, len(rows.classes)
    cells = codes[kept] * classes + rows.labels[kept]
    return np.bincount(cells, mass[kept], minlength=regions * classes).astype(np.float64).reshape(regions, classes)


def _whole(counts: Floats, rows: MulticlassRows) -> Any:
    """Counts of rows as integers; sums of weights unchanged."""
    return counts.astype(np.int64) if rows.counts else counts
