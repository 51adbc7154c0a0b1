"""Statements about the true class distribution in the regions of the simplex; see docs/certificates/simplex.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.guarantees.about.classes import refuse_positive
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, AboutMap, Certificate, CertificateCheck, Terms, first_few, round_up
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps.simplex import SimplexBinsMap, project
from calibrant.messages import plural
from calibrant.numerics import Floats, Ints

MOST_CLASSES = 10
"""Up to so many classes every set of them gets an exact interval; beyond, one bound holds for all sets."""

ROUNDING = 1e-9
"""By how much numbers that follow from one another may miss each other."""


@dataclass(frozen=True, eq=False)
class Regions(AboutMap):
    r"""Classes of every region of a map of simplex bins, region by region.

    Beside the interval of each class, all classes of a region are promised something together:

    .. math:: \|\mathbb{E}[\mathbf Y \mid X \in b] - \hat\Pi_b\|_1 \le \epsilon_b .

    Attributes
    ----------
    map
        The map that is spoken of.
    distances
        :math:`\epsilon_b` by region; 2, which says nothing, where nothing is promised.
    light, uncovered_rows
        Rules of a projection on whose threshold a score is promised nothing, and the rows there.
    frame_columns
        What the columns of a frame were called at fit, where not as the classes.
    """

    map: SimplexBinsMap
    distances: Floats
    light: Ints
    uncovered_rows: int
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    key: ClassVar[str] = "regions"
    notion: ClassVar[str] = "canonical"
    unit: ClassVar[str] = "region"

    @property
    def stays(self) -> bool:
        """Whether regions are fixed; rows choose those of a projection."""
        return self.map.scheme != "projection"

    def by_region(self, column: Any) -> Any:
        """A column of the table, with a line for each region and a column for each class."""
        return column.reshape(-1, len(self.classes))

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Every set of classes of every promised region has the same share of alpha; above 10 classes every region."""
        sets = len(class_sets(len(self.classes))) if len(self.classes) <= MOST_CLASSES else 1
        return np.full(len(rows), terms.alpha / terms.union(self.by_region(rows)[:, 0] > 0) / sets)

    def epsilon(self, half_widths: Floats, promised: Flags) -> float:
        """The largest l1 distance of a promised region."""
        return float(self.distances[self.by_region(promised)[:, 0]].max())

    def validate(self, promise: Certificate) -> None:
        """Refuse a table that is not about these regions."""
        size, regions = len(self.map.table), len(self.map.outputs_by_region)
        if len(promise.rows) != size or len(self.distances) != regions:
            raise ValueError(f"a certificate of {regions} regions needs {size} entries and {regions} distances")
        if (promise.outputs != self.map.table).any() or promise.kind != self.map.on:
            raise ValueError("outputs and the kind of scores must be those of the map")
        rows, promised = self.by_region(promise.rows), self.by_region(promise.promised)[:, 0]
        if (self.by_region(promise.events).sum(axis=1)[:, None] != rows).any():
            raise ValueError("the rows of the classes must sum to the rows of their region")
        if ((self.distances < 0.0) | (self.distances > 2.0)).any():
            raise ValueError("distances must lie in [0, 2]")
        if promise.n != rows[:, 0].sum():
            raise ValueError("n must be that of the promised regions")
        if len(self.light) and not 0 <= self.light.min() <= self.light.max() < len(self.map.thresholds):
            raise ValueError("light must name rules of the map")
        if self.uncovered_rows < len(self.light) or (self.uncovered_rows and not len(self.light)):
            raise ValueError("rows are uncovered on light thresholds, one or more on each, and nowhere else")
        if (self.distances < 2.0 * self.by_region(promise.half_widths).max(axis=1) - ROUNDING)[promised].any():
            raise ValueError("all classes together cannot be surer than twice the least sure one of them")

    def rests_on(self, promise: Certificate, provenance: ClassProvenance) -> bool:
        """Whether the rows are counted, as many, and their columns were called so."""
        told = (promise.n + self.uncovered_rows, promise.kind, self.frame_columns, "counts")
        return told == (provenance.n, provenance.kind, provenance.columns, provenance.weights)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def covers(self, promise: Certificate, scores: Any) -> Flags:
        """Whether each row is promised something: its region holds rows, and it lies on no light threshold."""
        codes = self.map.regions(scores)
        covered = (codes >= 0) & self.by_region(promise.promised)[codes, 0]
        p = self.map._probabilities(np.asarray(scores, dtype=np.float64))
        for b in self.light.tolist():
            covered &= (codes < b) | (project(p, self.map.rules[b]) != self.map.thresholds[b])
        return np.asarray(covered)

    def count(self, promise: Certificate, scores: Any, y: Any, positive: Any) -> tuple[Ints, Ints, int]:
        """Fresh rows of each region, and those of each class among them."""
        refuse_positive(positive)
        rows = check_fresh_rows(scores, y, self.classes, self.map.on, self.frame_columns)
        counts = np.zeros((len(self.distances), len(self.classes)), dtype=np.int64)
        kept = self.covers(promise, rows.scores)
        np.add.at(counts, (self.map.regions(rows.scores)[kept], rows.labels[kept]), 1)
        return np.repeat(counts.sum(axis=1), len(self.classes)), counts.ravel(), int(kept.sum())

    def tests(self, promise: Certificate, n: Ints, events: Ints, by_bin: bool) -> tuple[Ints, Ints, Floats, Floats]:
        """Every set of classes against half of epsilon; single classes against their own intervals with ``by_bin``."""
        n, events = self.by_region(n), self.by_region(events)
        if by_bin:
            return n, events, self.by_region(promise.lower), self.by_region(promise.upper)
        sets = class_sets(len(self.classes))
        said, half = np.einsum("rk,sk->rs", self.map.outputs_by_region, sets), promise.epsilon / 2
        lower, upper = np.maximum(said - half, 0.0), np.minimum(said + half, 1.0)
        return np.broadcast_to(n[:, :1], said.shape), events @ sets.T, lower, upper

    def seen(self, check: CertificateCheck, place: int) -> str:
        """The rows of a region by class, the most frequent first."""
        counts = self.by_region(check.events)[place]
        seen = sorted(zip(counts.tolist(), self.classes, strict=True), key=lambda each: -each[0])
        shown = first_few([f"{rows:,} of {name!r}" for rows, name in seen])
        return f"shows {plural(int(counts.sum()), 'row')}: {shown}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, promise: Certificate) -> Iterator[str]:
        """What is promised, what it rests on and what it leaves out."""
        promised, rows = (self.by_region(each)[:, 0] for each in (promise.promised, promise.rows))
        regions = int(promised.sum())
        where = f"in each of the {regions:,} regions" if regions > 1 else "in the one region"
        what = "the true class distribution"
        head = promise.head(f"{where} {what}", f", {what} of its region")
        all_classes, one = promise.epsilon, float(promise.half_widths[promise.promised].max())
        yield (
            f"{head} differs from the calibrated one by an l1 distance (0 to 2) of at most {round_up(all_classes)}, "
            f"and by at most {round_up(one)} in any class."
        )
        yield f"  Basis: {plural(promise.n, 'row')}, {promise.bound} intervals; {promise.source}."
        order = np.argsort(self.distances[promised], kind="stable")
        reached = np.cumsum(rows[promised][order])
        half = float(self.distances[promised][order][np.searchsorted(reached, promise.n / 2)])
        if promise.epsilon > UNEVEN * half:
            yield f"  By region: those with half of the rows hold within {round_up(half)}."
        if len(self.light):
            share = f"{self.uncovered_rows:,} of {promise.n + self.uncovered_rows:,} rows"
            yield f"  Not covered: scores on a threshold ({plural(len(self.light), 'threshold')}, {share})."
        if regions < len(rows):
            yield f"  Not covered: {plural(len(rows) - regions, 'region')} without a row."


def class_sets(classes: int) -> Ints:
    """Sets of classes as rows of 0 and 1, one of each set and its complement; above 10 classes, single classes.

    Examples
    --------
    >>> class_sets(3).tolist()
    [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
    """
    if classes > MOST_CLASSES:
        return np.eye(classes, dtype=np.int64)
    codes = np.arange(1, 2 ** (classes - 1), dtype=np.int64)
    return np.asarray(codes[:, None] >> np.arange(classes) & 1)


def by_one_bound(map_: SimplexBinsMap, counts: Ints, alpha: float) -> tuple[Floats, Floats, Floats]:
    """Distances by region and ends of the intervals of its classes, from one bound for all sets at once.

    That is the bound of Weissman et al. (2003), for more classes than have sets that could be looked at one by one.
    """
    rows, classes = counts.sum(axis=1), counts.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(rows[:, None] > 0, counts / rows[:, None], 0.0)
        radius = np.sqrt((np.log(2.0) * classes + np.log1p(-(2.0 ** (1 - classes))) - np.log(alpha)) / (2.0 * rows))
    shift = np.abs(map_.outputs_by_region - shares).sum(axis=1)
    lower, upper = np.maximum(shares - radius[:, None], 0.0), np.minimum(shares + radius[:, None], 1.0)
    return np.minimum(shift + 2.0 * radius, 2.0), lower, upper
