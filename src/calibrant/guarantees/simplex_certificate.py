"""What is promised about the class distribution in every region of the simplex; see docs/certificates/simplex.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import InputError
from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.rows import check_fresh_rows
from calibrant.guarantees.certificates import (
    UNEVEN,
    Bound,
    Flags,
    Mode,
    Refusal,
    _count,
    _outside_p_values,
    _round_up,
    union_of,
)
from calibrant.guarantees.class_certificates import IF_FRESH, empty_promise, listed, short, unbroken
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import ClassProvenance
from calibrant.maps.simplex import SimplexBinsMap, project
from calibrant.numerics import Floats, Ints

MOST_CLASSES = 10
"""Up to so many classes every set of them gets an exact interval; beyond, one bound holds for all sets."""

ROUNDING = 1e-9
"""By how much numbers that follow from one another may miss each other."""


@dataclass(frozen=True, eq=False)
class RegionCounts:
    """The evidence behind a map of simplex bins: the rows of each class that speak for each region.

    ``light`` are the rules of a projection whose threshold holds rows, ``uncovered_rows`` of them, that speak for no
    region. ``fixed`` says whether the regions owe nothing to any row, nor to how many there are.
    """

    map: SimplexBinsMap
    counts: Ints
    light: Ints
    uncovered_rows: int
    fixed: bool
    source: str
    assumption: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class SimplexCertificate(ClassPromise):
    r"""A promise about the true class distribution in the regions of a map of simplex bins.

    With probability at least :math:`1 - \alpha` over the calibration data, for every promised region b

    .. math:: \|\mathbb{E}[\mathbf Y \mid X \in b] - \hat\Pi_b\|_1 \le \epsilon_b

    and every class probability lies between ``lower`` and ``upper``; marginal: for one new row, the same of the region
    it falls in, over the calibration data and that row. Proof: docs/certificates/simplex.md.

    Attributes
    ----------
    epsilon
        Largest :math:`\epsilon_b` over the promised regions.
    half_widths
        :math:`\epsilon_b` by region; 2, which says nothing, where nothing is promised.
    lower, upper
        Interval for the true share of each class, region by region.
    rows, counts
        Rows by region, and by region and class.
    light, uncovered_rows
        Rules of a projection on whose threshold a score is promised nothing, and the rows there.
    frame_columns
        What the columns of a frame were called at fit, where not as the classes.
    """

    epsilon: float
    alpha: float
    mode: Mode
    bound: Bound
    n: int
    map: SimplexBinsMap
    half_widths: Floats
    lower: Floats
    upper: Floats
    rows: Ints
    counts: Ints
    light: Ints
    uncovered_rows: int
    assumptions: tuple[str, ...]
    source: str
    frame_columns: tuple[str, ...] = field(default=(), metadata={"optional": True})

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other; a document may hold anything."""
        size, regions = len(self.map.table), len(self.map.outputs_by_region)
        if {len(self.lower), len(self.upper), len(self.counts)} != {size}:
            raise ValueError(f"a certificate of {regions} regions needs {size} counts and intervals")
        if {len(self.rows), len(self.half_widths)} != {regions}:
            raise ValueError(f"a certificate of {regions} regions needs {regions} numbers of rows and half widths")
        if self.mode not in get_args(Mode) or self.bound not in get_args(Bound):
            raise ValueError(f"mode {self.mode!r} or bound {self.bound!r} is not known")
        if not ((self.lower >= 0.0) & (self.lower <= self.upper) & (self.upper <= 1.0)).all():
            raise ValueError("intervals must lie in [0, 1] and not be turned around")
        if (self.counts < 0).any() or (self.counts.reshape(regions, -1).sum(axis=1) != self.rows).any():
            raise ValueError("the rows of the classes must not be below 0 and must sum to the rows of their region")
        if ((self.half_widths < 0.0) | (self.half_widths > 2.0)).any() or not self.promised.any():
            raise ValueError("half widths must lie in [0, 2], and one region or more must hold rows")
        if self.n != self.rows.sum() or self.epsilon != self.half_widths[self.promised].max():
            raise ValueError("n and epsilon must be those of the promised regions")
        if len(self.light) and not 0 <= self.light.min() <= self.light.max() < len(self.map.thresholds):
            raise ValueError("light must name rules of the map")
        if self.uncovered_rows < len(self.light) or (self.uncovered_rows and not len(self.light)):
            raise ValueError("rows are uncovered on light thresholds, one or more on each, and nowhere else")
        if (self.half_widths < 2.0 * self.class_half_widths.max(axis=1) - ROUNDING)[self.promised].any():
            raise ValueError("all classes together cannot be surer than twice the least sure one of them")
        if not 0.0 < self.alpha < 1.0:
            raise ValueError("alpha must lie between 0 and 1")

    @property
    def promised(self) -> Flags:
        """Regions that the certificate speaks about."""
        return self.rows > 0

    @property
    def class_half_widths(self) -> Floats:
        """How far the output of each class can be off, region by class."""
        outputs = self.map.table
        return np.maximum(outputs - self.lower, self.upper - outputs).reshape(len(self.rows), -1)

    def about(self, map_: Any) -> bool:
        """Whether the promise speaks of this very map."""
        return bool(self.map == map_)

    def rests_on(self, provenance: ClassProvenance) -> bool:
        """Whether number and kind of the rows agree, and what their columns were called."""
        told = (self.n + self.uncovered_rows, self.map.on, self.frame_columns)
        return told == (provenance.n, provenance.kind, provenance.columns)

    def covers(self, scores: Any) -> NDArray[np.bool_]:
        """Whether each row is promised something: its region holds rows, and it lies on no light threshold."""
        codes = self.map.regions(scores)
        covered = (codes >= 0) & self.promised[codes]
        p = self.map._probabilities(np.asarray(scores, dtype=np.float64))
        for b in self.light.tolist():
            covered &= (codes < b) | (project(p, self.map.rules[b]) != self.map.thresholds[b])
        return covered

    def check(self, scores: Any, y: Any, *, level: float = 0.01) -> SimplexCheck:
        """Hold the promise against fresh rows that played no part in the fit.

        A promised region whose true distribution is within epsilon gives every set of classes a probability within
        epsilon / 2 of the output. Each set of each region is tested for that by exact binomial tails, at ``level``
        divided by their number: a promise that holds is called broken with probability at most ``level``. Above 10
        classes, single classes are tested instead of sets.
        """
        if self.mode == "marginal":
            raise InputError("a marginal certificate speaks of one new row: ask for mode='simultaneous' to check it")
        rows = check_fresh_rows(scores, y, self.map.classes, self.map.on, self.frame_columns)
        counts = np.zeros((len(self.rows), len(self.map.classes)), dtype=np.int64)
        kept = self.covers(rows.scores)
        np.add.at(counts, (self.map.regions(rows.scores)[kept], rows.labels[kept]), 1)
        sets = class_sets(len(self.map.classes))
        n, events = counts.sum(axis=1)[:, None], counts @ sets.T
        said = np.einsum("rk,sk->rs", self.map.outputs_by_region, sets)
        lower, upper = np.maximum(said - self.epsilon / 2, 0.0), np.minimum(said + self.epsilon / 2, 1.0)
        n = np.broadcast_to(n, events.shape)
        p_values = _outside_p_values(events, n, lower, upper).min(axis=1)
        best = np.minimum(_outside_p_values(0 * n, n, lower, upper), _outside_p_values(n, n, lower, upper))
        needed = level / (int(self.promised.sum()) * len(sets))
        broken = np.flatnonzero(p_values < needed)
        told, size = bool((best < needed).any()), int(kept.sum())
        return SimplexCheck(not len(broken), told, size, p_values, counts, broken, self.map.classes)

    def __repr__(self) -> str:
        """One short line; ``print`` tells the whole promise."""
        return short(self, "canonical", self.n, len(self.map.classes))

    def __str__(self) -> str:
        """The promise in one sentence; then what it rests on, what it leaves out and what it assumes."""
        regions = int(self.promised.sum())
        percent = f"{100 * (1 - self.alpha):.6g} %"
        if self.mode == "marginal":
            head = f"For a new row, with probability at least {percent}, the true class distribution of its region"
        else:
            where = f"in each of the {regions:,} regions" if regions > 1 else "in the one region"
            head = f"With confidence {percent}, {where} the true class distribution"
        one = float(self.class_half_widths[self.promised].max())
        lines = [
            f"{head} differs from the calibrated one by an l1 distance (0 to 2) of at most {_round_up(self.epsilon)}, "
            f"and by at most {_round_up(one)} in any class.",
            f"  Basis: {_count(self.n, 'row')}, {self.bound} intervals; {self.source}.",
        ]
        order = np.argsort(self.half_widths[self.promised], kind="stable")
        reached = np.cumsum(self.rows[self.promised][order])
        half = float(self.half_widths[self.promised][order][np.searchsorted(reached, self.n / 2)])
        if self.epsilon > UNEVEN * half:
            lines.append(f"  By region: those with half of the rows hold within {_round_up(half)}.")
        if len(self.light):
            share = f"{self.uncovered_rows:,} of {self.n + self.uncovered_rows:,} rows"
            lines.append(f"  Not covered: scores on a threshold ({_count(len(self.light), 'threshold')}, {share}).")
        if regions < len(self.rows):
            lines.append(f"  Not covered: {_count(len(self.rows) - regions, 'region')} without a row.")
        return "\n".join([*lines, "  Assumes: " + "; ".join(self.assumptions) + "."])


@dataclass(frozen=True, eq=False)
class SimplexCheck:
    """Result of holding a certificate against fresh rows; true in a condition when nothing contradicts it.

    ``telling`` is False when no outcome of so few rows could have contradicted the promise.
    """

    holds: bool
    telling: bool
    n: int
    p_values: Floats
    counts: Ints
    broken: NDArray[np.intp]
    classes: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether the promise stands."""
        return self.holds

    def __str__(self) -> str:
        """The verdict, with the worst region when the promise is contradicted."""
        if self.holds or not self.telling:
            return unbroken(self.n, self.telling)
        worst = int(np.argmin(self.p_values))
        seen = zip(self.counts[worst].tolist(), self.classes, strict=True)
        shown = listed([f"{rows:,} of {name!r}" for rows, name in sorted(seen, key=lambda each: -each[0])])
        return (
            f"{_count(self.n, 'row')}: contradicted in {_count(len(self.broken), 'region')}; the worst, region "
            f"{worst}, shows {_count(int(self.counts[worst].sum()), 'row')}: {shown} (p = {self.p_values[worst]:.2g})."
            f"{IF_FRESH}"
        )


def promise_regions(
    evidence: RegionCounts, alpha: float, bound: Bound, mode: Mode, frame_columns: tuple[str, ...] = ()
) -> SimplexCertificate | Refusal:
    r"""The certificate of counted regions, or the reason why there is none.

    The distance of two distributions is twice the largest difference that a set A of classes shows,
    :math:`\|p - o\|_1 = 2 \max_A |p(A) - o(A)|`, and the rows of a region with a class in A are binomial. So each of
    the :math:`2^{L-1} - 1` pairs of a set and its complement gets an interval at level
    :math:`\alpha / (M (2^{L-1} - 1))`, with M the promised regions. With ``bound="hoeffding"`` that is the bound of
    Weissman et al. (2003), :math:`P(\|\hat p - p\|_1 \ge e) \le (2^L - 2) e^{-n e^2 / 2}`, plus the shift of the
    output; exact intervals are never wider. Above 10 classes it is used in that form.
    """
    from calibrant.guarantees.issuing import ASSUMED  # here, since reading a certificate needs no scipy

    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    check_option("bound", bound, get_args(Bound))
    check_option("mode", mode, get_args(Mode))
    rows, classes = evidence.counts.sum(axis=1), len(evidence.map.classes)
    promised = rows > 0
    if not promised.any():
        return Refusal("no region holds a row besides those on the thresholds: use fewer bins or more rows")
    if bound == "always-valid" and not evidence.fixed:
        return Refusal(
            "an always-valid promise needs regions that no row has chosen, nor their number, or they would move at "
            'every look: use scheme="sierpinski" with depth=, or scheme="grid" with cells='
        )
    if bound == "always-valid" and classes > MOST_CLASSES:
        return Refusal(f"an always-valid promise is made for at most {MOST_CLASSES} classes here")
    level = alpha / union_of(mode, bound, promised)
    if classes > MOST_CLASSES:
        bound = "hoeffding"
        widths, lower, upper = by_one_bound(evidence.map, evidence.counts, level)
    else:
        widths, lower, upper = _by_sets(evidence, level, bound)
    epsilon = float(widths[promised].max())
    refusal = empty_promise(epsilon, 2.0, "region")
    if refusal is not None:
        return refusal
    return SimplexCertificate(
        epsilon=epsilon,
        alpha=alpha,
        mode=mode,
        bound=bound,
        n=int(rows.sum()),
        map=evidence.map,
        half_widths=np.where(promised, widths, 2.0),
        lower=np.where(promised[:, None], lower, 0.0).reshape(-1),
        upper=np.where(promised[:, None], upper, 1.0).reshape(-1),
        rows=rows,
        counts=evidence.counts.reshape(-1),
        light=evidence.light,
        uncovered_rows=evidence.uncovered_rows,
        assumptions=(*ASSUMED, evidence.assumption) if evidence.assumption else ASSUMED,
        source=evidence.source,
        frame_columns=frame_columns,
    )


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


def _by_sets(evidence: RegionCounts, alpha: float, bound: Bound) -> tuple[Floats, Floats, Floats]:
    """Half widths, and the ends of the intervals of single classes, from an interval for every set of classes."""
    from calibrant.guarantees.bounds import BOUNDS  # here, as above

    sets = class_sets(len(evidence.map.classes))
    rows = evidence.counts.sum(axis=1)[:, None]
    low, high = BOUNDS[bound](evidence.counts @ sets.T, rows, alpha / len(sets))
    said = np.einsum("rk,sk->rs", evidence.map.outputs_by_region, sets)
    widths = 2.0 * np.maximum(said - low, high - said).max(axis=1)
    single = 2 ** np.arange(sets.shape[1] - 1) - 1  # places of the sets of one class; the last set lacks the last class
    lower = np.column_stack([low[:, single], 1.0 - high[:, -1]])
    upper = np.column_stack([high[:, single], 1.0 - low[:, -1]])
    return np.minimum(widths, 2.0), lower, upper


def by_one_bound(map_: SimplexBinsMap, counts: Ints, alpha: float) -> tuple[Floats, Floats, Floats]:
    """The same from the bound of Weissman et al. for all sets at once, without looking at them."""
    rows, classes = counts.sum(axis=1), counts.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(rows[:, None] > 0, counts / rows[:, None], 0.0)
        radius = np.sqrt((np.log(2.0) * classes + np.log1p(-(2.0 ** (1 - classes))) - np.log(alpha)) / (2.0 * rows))
    shift = np.abs(map_.outputs_by_region - shares).sum(axis=1)
    lower, upper = np.maximum(shares - radius[:, None], 0.0), np.minimum(shares + radius[:, None], 1.0)
    return np.minimum(shift + 2.0 * radius, 2.0), lower, upper
