"""Certificate statements about the class distribution in regions of the simplex; see docs/certificates/simplex.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.guarantees.about.classes import refuse_positive
from calibrant.guarantees.bounds import Flags
from calibrant.guarantees.certificate import UNEVEN, AboutMap, Certificate, CertificateCheck, Terms, first_few, round_up
from calibrant.guarantees.origins import SETS_OF_CLASSES, Assumption
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps.simplex import SimplexBinsMap, project
from calibrant.messages import plural
from calibrant.numerics import Floats, Ints

MOST_CLASSES = 10
"""Up to this many classes every set of classes gets an exact interval; above it, one bound holds for all sets."""

ROUNDING = 1e-9
"""Tolerance for numbers that should be equal up to rounding."""


@dataclass(frozen=True, eq=False)
class Regions(AboutMap):
    r"""Classes of every region of a map of simplex bins, region by region.

    Besides the interval of each class, there is a joint guarantee for all classes of a region:

    .. math:: \|\mathbb{E}[\mathbf Y \mid X \in b] - \hat\Pi_b\|_1 \le \epsilon_b .

    Attributes
    ----------
    map
        The certified map.
    distances
        :math:`\epsilon_b` by region; 2, which is vacuous, for regions that are not covered.
    light, uncovered_rows
        Rules of a projection whose threshold is not covered, and the rows exactly on these thresholds.
    frame_columns
        Column names of the frame passed to fit, if they differ from the classes.
    """

    map: SimplexBinsMap
    distances: Floats
    light: Ints
    uncovered_rows: int
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    key: ClassVar[str] = "regions"
    references: ClassVar[tuple[str, ...]] = (SETS_OF_CLASSES,)  # type: ignore[misc]
    notion: ClassVar[str] = "canonical"
    unit: ClassVar[str] = "region"

    @property
    def assumed(self) -> frozenset[Assumption]:
        """For a projection on other directions than the classes, that these were chosen before."""
        by_class = np.isin(self.map.rules, (-1.0, 0.0)).all() and (self.map.rules.sum(axis=1) == -1.0).all()
        if self.stays or by_class:
            return super().assumed
        return super().assumed | {Assumption.DIRECTIONS_BEFORE}

    @property
    def stays(self) -> bool:
        """Whether the regions are fixed; those of a projection are chosen by the rows."""
        return self.map.scheme != "projection"

    def by_region(self, column: Any) -> Any:
        """A column of the table as a matrix, regions by classes."""
        return column.reshape(-1, len(self.classes))

    def levels(self, rows: Ints, terms: Terms) -> Floats:
        """Equal shares of alpha for every set of classes of every covered region; above 10 classes for every region."""
        sets = len(class_sets(len(self.classes))) if len(self.classes) <= MOST_CLASSES else 1
        return np.full(len(rows), terms.alpha / terms.union(self.by_region(rows)[:, 0] > 0) / sets)

    def epsilon(self, half_widths: Floats, covered: Flags) -> float:
        """The largest l1 distance of a covered region."""
        return float(self.distances[self.by_region(covered)[:, 0]].max())

    def validate(self, certificate: Certificate) -> None:
        """Reject a table that does not match these regions."""
        size, regions = len(self.map.table), len(self.map.outputs_by_region)
        if len(certificate.rows) != size or len(self.distances) != regions:
            raise ValueError(f"a certificate of {regions} regions needs {size} entries and {regions} distances")
        if (certificate.outputs != self.map.table).any() or certificate.score_type != self.map.on:
            raise ValueError("outputs and score type must be those of the map")
        rows, covered = self.by_region(certificate.rows), self.by_region(certificate.covered)[:, 0]
        if (self.by_region(certificate.events).sum(axis=1)[:, None] != rows).any():
            raise ValueError("the rows of the classes must sum to the rows of their region")
        if ((self.distances < 0.0) | (self.distances > 2.0)).any():
            raise ValueError("distances must lie in [0, 2]")
        if certificate.n != rows[:, 0].sum():
            raise ValueError("n must be the number of rows of the covered regions")
        if len(self.light) and not 0 <= self.light.min() <= self.light.max() < len(self.map.thresholds):
            raise ValueError("light must refer to rules of the map")
        if self.uncovered_rows < len(self.light) or (self.uncovered_rows and not len(self.light)):
            raise ValueError("uncovered_rows must count at least one row for each threshold in light, and no others")
        if (self.distances < 2.0 * self.by_region(certificate.half_widths).max(axis=1) - ROUNDING)[covered].any():
            raise ValueError("distances must be at least twice the largest half-width of the classes of their region")

    def rests_on(self, certificate: Certificate, provenance: MulticlassProvenance) -> bool:
        """Whether the rows are unweighted, and their number and column names match."""
        stated = (certificate.n + self.uncovered_rows, certificate.score_type, self.frame_columns, "frequency")
        return stated == (provenance.n, provenance.score_type, provenance.columns, provenance.weight_type)

    # ---------------------------------------------------------------------------------------------------- fresh rows

    def covers(self, certificate: Certificate, scores: Any) -> Flags:
        """Whether each row is covered: its region has rows, and it does not lie on a threshold in ``light``."""
        codes = self.map.regions(scores)
        covered = (codes >= 0) & self.by_region(certificate.covered)[codes, 0]
        p = self.map._probabilities(np.asarray(scores, dtype=np.float64))
        for b in self.light.tolist():
            covered &= (codes < b) | (project(p, self.map.rules[b]) != self.map.thresholds[b])
        return np.asarray(covered)

    def count(
        self, certificate: Certificate, scores: Any, y: Any, positive: Any, by: Any = None
    ) -> tuple[Ints, Ints, int]:
        """Fresh rows of each region, and those of each class among them."""
        refuse_positive(positive)
        rows = check_fresh_rows(scores, y, self.classes, self.map.on, self.frame_columns)
        counts = np.zeros((len(self.distances), len(self.classes)), dtype=np.int64)
        kept = self.covers(certificate, rows.scores)
        np.add.at(counts, (self.map.regions(rows.scores)[kept], rows.labels[kept]), 1)
        return np.repeat(counts.sum(axis=1), len(self.classes)), counts.ravel(), int(kept.sum())

    def tests(self, certificate: Certificate, n: Ints, events: Ints, by_bin: bool) -> tuple[Ints, Ints, Floats, Floats]:
        """Every set of classes against epsilon / 2; with ``by_bin``, single classes against their own intervals."""
        n, events = self.by_region(n), self.by_region(events)
        if by_bin:
            return n, events, self.by_region(certificate.lower), self.by_region(certificate.upper)
        sets = class_sets(len(self.classes))
        said, half = np.einsum("rk,sk->rs", self.map.outputs_by_region, sets), certificate.epsilon / 2
        lower, upper = np.maximum(said - half, 0.0), np.minimum(said + half, 1.0)
        return np.broadcast_to(n[:, :1], said.shape), events @ sets.T, lower, upper

    def seen(self, check: CertificateCheck, place: int) -> str:
        """The rows of a region by class, the most frequent first."""
        counts = self.by_region(check.events)[place]
        seen = sorted(zip(counts.tolist(), self.classes, strict=True), key=lambda each: -each[0])
        shown = first_few([f"{rows:,} of {name!r}" for rows, name in seen])
        return f"observed {plural(int(counts.sum()), 'row')}: {shown}"

    # --------------------------------------------------------------------------------------------------------- words

    def sentences(self, certificate: Certificate) -> Iterator[str]:
        """The guarantee, its basis, and what is not covered."""
        covered, rows = (self.by_region(each)[:, 0] for each in (certificate.covered, certificate.rows))
        regions = int(covered.sum())
        where = f"in each of the {regions:,} regions" if regions > 1 else "in the one region"
        what = "the true class distribution"
        head = certificate.head(f"{where} {what}", f", {what} of its region")
        all_classes, one = certificate.epsilon, float(certificate.half_widths[certificate.covered].max())
        yield (
            f"{head} differs from the calibrated one by an l1 distance (0 to 2) of at most {round_up(all_classes)}, "
            f"and by at most {round_up(one)} in any class."
        )
        yield f"  Basis: {plural(certificate.n, 'row')}, {certificate.interval} intervals; {certificate.reference}."
        order = np.argsort(self.distances[covered], kind="stable")
        reached = np.cumsum(rows[covered][order])
        half = float(self.distances[covered][order][np.searchsorted(reached, certificate.n / 2)])
        if certificate.epsilon > UNEVEN * half:
            yield f"  By region: regions with half of the rows are within {round_up(half)}."
        if len(self.light):
            share = f"{self.uncovered_rows:,} of {certificate.n + self.uncovered_rows:,} rows"
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
    """l1 distances by region and intervals of its classes, from one bound for all sets of classes at once.

    This is the bound of Weissman et al. (2003), for more classes than allow an interval for every set.
    """
    rows, classes = counts.sum(axis=1), counts.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(rows[:, None] > 0, counts / rows[:, None], 0.0)
        radius = np.sqrt((np.log(2.0) * classes + np.log1p(-(2.0 ** (1 - classes))) - np.log(alpha)) / (2.0 * rows))
    shift = np.abs(map_.outputs_by_region - shares).sum(axis=1)
    lower, upper = np.maximum(shares - radius[:, None], 0.0), np.minimum(shares + radius[:, None], 1.0)
    return np.minimum(shift + 2.0 * radius, 2.0), lower, upper
