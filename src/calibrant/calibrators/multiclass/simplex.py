"""Binning of the simplex: whole rows of class probabilities, calibrated at once, for few classes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import ClassRows
from calibrant.calibrators.base import Fit
from calibrant.calibrators.multiclass.base import ClassCalibrator
from calibrant.fits.bins import HEAVY_ROWS, MOST_BINS, ROUNDING, check_bins
from calibrant.guarantees.certificate import Bound, Certificate, Mode
from calibrant.guarantees.issuing import RegionCounts, issue_regions
from calibrant.guarantees.origins import Assumption, Source
from calibrant.guarantees.refusal import Refusal
from calibrant.maps import ClassAxis, SimplexBinsMap, SimplexScheme
from calibrant.maps.classes import blocks, softmax
from calibrant.maps.simplex import project, region_count
from calibrant.messages import InputError, Setting, Voice, note, warn
from calibrant.numerics import Floats

ROWS_BY_REGION, FEWEST_ROWS = 150, 30
"""Rows that a region has by default, and at least where there are hardly enough for one region by class."""

MANY_CLASSES = 5
"""Above so many classes, canonical calibration is not to be had."""

SOURCE = Source("Gupta 2023", "Appendix 5.G, with an interval for every set of classes")


empty_regions = note(
    "empty-regions", "{empty:,} of {regions:,} regions hold no {nouns.row} and give every class the same probability"
)


@note("fewer-regions")
def fewer_regions(voice: Voice, rows: int, asked: int, regions: int) -> str:
    """Of more regions than the rows can fill."""
    nouns = voice.nouns
    return f"{rows} {nouns.rows} are too few for {asked} regions: {regions} are used, two {nouns.rows} each"


@note("many-classes")
def many_classes(voice: Voice, classes: int) -> str:
    """Of classes too many for regions of the simplex."""
    rows, needed = voice.nouns.rows, f"{regions_needed(classes):,}" if classes <= 10 else "more than 10,000,000"
    return (
        f"canonical calibration of {classes} classes is out of reach: regions within which {rows} differ by at most "
        f"0.5 in all classes together are {needed}, with 100 {rows} and more each; use a class-wise or top-label "
        "method instead"
    )


@dataclass(eq=False, repr=False)
class SimplexBinning(ClassCalibrator):
    r"""Cut the simplex into regions and give every region the class shares seen in it.

    .. math:: m_l(s) = \frac{\text{rows of class } l \text{ in } b}{\text{rows in } b} \quad\text{for } s \text{ in } b

    The aim is canonical calibration: among rows with the same output, classes are distributed as the output says, all
    at once (002 section 5.G). The regions that this takes grow exponentially with the classes, see
    :func:`regions_needed`: fine for three, hopeless for more than five, where fitting warns. Use a weaker notion there.

    Parameters
    ----------
    scheme : {"projection", "sierpinski", "grid"}
        - ``"projection"``: regions of about equal numbers of rows, cut off one after another along given directions
          (002 Algorithm 5.10). A threshold is the projection of a row; rows on one at the step they reach take no part
          in any share and are not covered by the certificate, unless there are so many that they become a region of
          their own (as for :class:`HistogramBinning`). Cutting ends early where ties leave too few rows.
        - ``"sierpinski"``: corners cut off at one half, again and again, to a depth.
        - ``"grid"``: a regular grid. Both are fixed beforehand, and may leave regions without rows.
    n_bins : int, optional
        Number of regions of a projection, at most half as many as rows; by default one for 150 rows, at most 100, but
        one more than there are classes if each then still has 30 rows.
    depth, cells : int, optional
        Depth of a Sierpinski partition, or cells an axis of a grid; by default the most that make up to 100 regions of
        150 rows on average, at least depth 1, or 2 cells. More regions than rows are refused. An always-valid
        certificate needs the number given, since the default grows with the rows.
    directions : {"classes", "random"} or array of shape (m, L)
        Along what a projection cuts, in turn: ``"classes"`` takes the rows with the largest score for the first class,
        then for the second, and so on; ``"random"`` draws directions; or rows of your own, which must not come from the
        rows that are fitted.
    extremes : {"succession", "mean"}
        What a region of n rows that lacks a class puts out: (k + 1) / (n + L), or the plain shares with a 0. The
        certificate is around the output either way.
    alpha : float
        The confidence of the certificate is 1 - alpha where none is asked for.
    random_state : int
        Seed of ``directions="random"``.

    Attributes
    ----------
    regions_ : RegionCounts
        Rows by region and class, and what lies on thresholds.

    Notes
    -----
    Edge rules: a region without rows puts out 1 / L for every class, in a projection what the rows on its threshold
    say where all lie there; a note says so. Rows of kind ``"independent"`` are refused. Importance weights count as the
    effective number of rows.
    Guarantee: ``certificate(alpha)`` holds for every distribution of independent rows, ties included; see
    docs/certificates/simplex.md.
    Cost: one pass over the rows that are left for each region (projection); one pass in all (fixed schemes).
    Reference: 002 section 5.G, Algorithm 5.10, eq. 5.19 to 5.21.

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
      Assumes: the rows are independent draws from the population that the map will serve, and new to the model;
    no argument of the fit was chosen by their labels.
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

    def _fit_classes(self, rows: ClassRows) -> Fit[SimplexBinsMap]:
        self._check_parameters(rows)
        mass = _row_mass(rows)
        self._warn_of_many(len(rows.classes))
        regions, empty = self._projected(rows, mass) if self.scheme == "projection" else self._fixed(rows, mass)
        notes = (empty_regions(int(empty.sum()), len(empty)),) if empty.any() else ()
        return Fit(regions.map, notes, {"regions_": regions})

    def _certify(self, alpha: float, bound: Bound, mode: Mode) -> Certificate | Refusal:
        return issue_regions(self.regions_, alpha, bound, mode, self.provenance_.columns)

    # ------------------------------------------------------------------------------------------ where regions end

    def _projected(self, rows: ClassRows, mass: NDArray[Any]) -> tuple[RegionCounts, NDArray[np.bool_]]:
        """002 Algorithm 5.10, heavy thresholds as regions of their own; and which regions hold no row."""
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
        return RegionCounts(fitted, _whole(counts, rows), cuts.light, left_out, False, SOURCE, chosen), empty

    def _fixed(self, rows: ClassRows, mass: NDArray[Any]) -> tuple[RegionCounts, NDArray[np.bool_]]:
        classes, total = len(rows.classes), float(mass.sum() * (1.0 + ROUNDING))
        size = self._size(classes, total)
        regions = region_count(self.scheme, classes, size)
        blank = self._map(rows, size, np.full((regions, classes), 1.0 / classes))
        counts = _by_class(blank.regions(rows.scores), rows, mass, regions)
        fitted = self._map(rows, size, self._shares(counts))
        asked = (self.depth if self.scheme == "sierpinski" else self.cells) is not None  # else rows have a say in it
        made = RegionCounts(fitted, _whole(counts, rows), np.zeros(0, dtype=np.int64), 0, asked, SOURCE)
        return made, counts.sum(axis=1) == 0

    def _map(
        self, rows: ClassRows, size: int, table: Floats, directions: ArrayLike = (), thresholds: ArrayLike = ()
    ) -> SimplexBinsMap:
        on: ClassAxis = "logit" if rows.kind == "logit" else "probability"
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
            return int(np.clip(total // ROWS_BY_REGION, max(min(classes + 1, total // FEWEST_ROWS), 1), MOST_BINS))
        if self.n_bins > most:
            warn(fewer_regions(total, int(self.n_bins), most))
        return min(int(self.n_bins), most)

    def _size(self, classes: int, total: float) -> int:
        name, least = ("depth", 1) if self.scheme == "sierpinski" else ("cells", 2)
        given = getattr(self, name)
        size = least if given is None else int(given)
        try:
            regions = region_count(self.scheme, classes, size)
            most = min(total / ROWS_BY_REGION, MOST_BINS)
            while given is None and region_count(self.scheme, classes, size + 1) <= most:
                size += 1
        except ValueError:
            raise InputError(
                Setting(name, size),
                f"is out of range for {classes} classes",
                "pass a smaller one, or scheme='projection'",
            ) from None
        if regions > total:
            raise InputError(
                Setting(name, size),
                f"makes {regions:,} regions for {classes} classes, more than the {int(total):,} rows",
                f"pass a smaller {name}, or scheme='projection', which takes any number of regions",
            )
        return size

    def _directions(self, count: int, classes: int) -> Floats:
        if isinstance(self.directions, str):
            if self.directions == "classes":
                given = -np.eye(classes)
            else:
                given = np.random.default_rng([self.random_state, classes]).standard_normal((count, classes))
                given -= given.mean(axis=1, keepdims=True)  # along the simplex: the sum of a row says nothing
                given /= np.sqrt((given**2).sum(axis=1, keepdims=True))
        else:
            given = np.asarray(self.directions, dtype=np.float64)
            if given.ndim != 2 or given.shape[1] != classes or not np.isfinite(given).all() or not given.any(1).all():
                raise InputError("directions", f"must be rows of {classes} finite numbers, not all of them zero")
        return given[np.arange(count) % max(len(given), 1)]

    def _warn_of_many(self, classes: int) -> None:
        if classes <= MANY_CLASSES:
            return
        warn(many_classes(classes))

    def _check_parameters(self, rows: ClassRows) -> None:
        check_option("scheme", self.scheme, get_args(SimplexScheme))
        check_option("extremes", self.extremes, ("succession", "mean"))
        if isinstance(self.directions, str):
            check_option("directions", self.directions, ("classes", "random"))
        for name, scheme in {"n_bins": "projection", "depth": "sierpinski", "cells": "grid"}.items():
            if getattr(self, name) is None:
                continue
            check_bins(getattr(self, name), name)
            if scheme != self.scheme:
                raise InputError(name, f"goes with scheme={scheme!r}, not with {self.scheme!r}", "leave it out")
        if rows.kind == "independent":
            raise InputError(
                Setting("kind", "independent"), "has rows that lie on no simplex", "pass rows that sum to 1, or logits"
            )

    def _describe(self, voice: Voice) -> str:
        n = self.regions_.counts.sum(axis=1)
        held = n[n > 0]
        empty = f", {len(n) - len(held):,} without" if len(held) < len(n) else ""
        return f"{len(n):,} regions by {self.scheme}, {held.min():,.6g} to {held.max():,.6g} rows each{empty}"


def regions_needed(classes: int) -> int:
    """Regions of a grid within which no two rows are further apart than 0.5 in the l1 distance.

    Two rows of a cell differ by up to 1 / K in each class, half of the classes one way and half the other.

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
        """One more rule, and the rows that it takes."""
        self.codes[rows] = len(self.thresholds)
        self.directions.append(direction)
        self.thresholds.append(threshold)
        return len(self.thresholds) - 1


def cut_off(p: Floats, mass: NDArray[Any], directions: Floats, total: int, count: int) -> Cuts:
    r"""Regions of :math:`c - 1` rows, :math:`c = \lfloor (n + 1) / B \rfloor`, along the directions in turn.

    The threshold is the projection of the c-th of the rows that are left. Rows below it are the region; rows on it go
    aside, or become a region of their own when they are many (docs/certificates/simplex.md); rows above it are left for
    the next step. Ends when fewer than 2c - 1 are left, which only ties bring about.

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


def _row_mass(rows: ClassRows) -> NDArray[Any]:
    """What each row counts: its count, or its importance weight as a part of the effective number of rows."""
    if rows.counts:
        return rows.mass
    w = np.asarray(rows.mass, dtype=np.float64) / rows.mass.max()
    return np.asarray(w * (w.sum() / (w**2).sum()))


def _probabilities(rows: ClassRows) -> Floats:
    """All rows as float64 probabilities, in the blocks that a map works in."""
    out = np.empty(rows.scores.shape)
    for part in blocks(rows.scores):
        s = rows.scores[part].astype(np.float64, copy=False)
        out[part] = softmax(s) if rows.kind == "logit" else s
    return out


def _by_class(codes: NDArray[np.intp], rows: ClassRows, mass: NDArray[Any], regions: int) -> Floats:
    """Rows of each class in each region, those aside left out."""
    kept, classes = codes >= 0, len(rows.classes)
    cells = codes[kept] * classes + rows.labels[kept]
    return np.bincount(cells, mass[kept], minlength=regions * classes).astype(np.float64).reshape(regions, classes)


def _whole(counts: Floats, rows: ClassRows) -> Any:
    """Counts of rows as whole numbers; sums of weights as they are."""
    return counts.astype(np.int64) if rows.counts else counts
