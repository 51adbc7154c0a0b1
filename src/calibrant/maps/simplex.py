"""A partition of the probability simplex, with a class distribution for each region."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb, log2
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.maps.base import freeze, register
from calibrant.maps.classes import ClassAxis, MulticlassMap, blocks
from calibrant.numerics import Floats

SimplexScheme = Literal["projection", "sierpinski", "grid"]
"""How the simplex is cut: by thresholds along directions, by halving corners recursively, or by a regular grid."""

MAX_DEPTH = 52
"""Largest depth, and largest log2 of the number of cells: beyond it doubles cannot distinguish regions."""


@register
@dataclass(frozen=True, eq=False, repr=False)
class SimplexBinsMap(MulticlassMap):
    r"""A class distribution for each region of the probability simplex.

    .. math:: m(s) = \hat\Pi_{b(s)}

    where :math:`b(s)` is the region of the row and :math:`\hat\Pi_b` row b of ``table``, L numbers that sum to 1
    (Gupta 2023, section 5.G). Three schemes define the region of a row; each row is in exactly one:

    - ``"projection"``: a list of ``size`` rules. The region is the first b with :math:`\sum_l q_{bl} s_l < T_b`, else
      the last. ``directions`` contains q, rule by rule, and ``thresholds`` T. The sum is computed in the order of the
      classes.
    - ``"sierpinski"``: at each of ``size`` levels, the first class with :math:`t_l > 1/2` chooses one of L parts, which
      is scaled up, :math:`t \leftarrow 2t - e_l`; without one, the row stays in the middle part, which is not divided
      (eq. 5.19). The parts at depth q are numbered consecutively, the middle one last.
    - ``"grid"``: ``size`` cells per axis, K. The cell of class l is :math:`k_l = \max(1, \lceil K s_l \rceil)`. If the
      sum of cells is below K + 1 (the row is on a corner of the grid), the last class is increased: this gives the
      lexicographically smallest of the cells that contain the row (eq. 5.20 and 5.21). If it is above K + L - 1, which
      is possible only for rows that sum to more than 1, cells are decreased from the last class on. Regions are the
      possible :math:`(k_1, \dots, k_L)` in lexicographic order, see :func:`grid_cells`.

    Parameters
    ----------
    classes : tuple of str
        Names of the input columns.
    scheme : {"projection", "sierpinski", "grid"}
        How the simplex is cut.
    size : int
        Number of rules, depth, or cells per axis.
    directions, thresholds : array
        Rules of a projection; empty for the other schemes.
    table : array
        Class distributions, region by region.
    on : {"probability", "logit"}
        Type of the scores.

    Examples
    --------
    >>> corners = SimplexBinsMap(("a", "b"), "sierpinski", 1, [], [], [0.8, 0.2, 0.1, 0.9, 0.5, 0.5], "probability")
    >>> corners.regions([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]).tolist()
    [0, 1, 2]
    >>> corners.apply([[0.7, 0.3]]).tolist()
    [[0.8, 0.2]]
    """

    classes: tuple[str, ...]
    scheme: SimplexScheme
    size: int
    directions: Floats
    thresholds: Floats
    table: Floats
    on: ClassAxis

    kind: ClassVar[str] = "simplex-bins"

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check_classes()
        for name in ("directions", "thresholds", "table"):
            freeze(self, name, _numbers(getattr(self, name), name))
        if self.scheme not in get_args(SimplexScheme):
            raise ValueError(f"scheme must be one of {', '.join(get_args(SimplexScheme))}, got {self.scheme!r}")
        wanted = self.size if self.scheme == "projection" else 0
        if len(self.thresholds) != wanted or len(self.directions) != wanted * len(self.classes):
            raise ValueError(f"a {self.scheme} of size {self.size} needs {wanted} thresholds, and a direction for each")
        if len(self.table) != region_count(self.scheme, len(self.classes), self.size) * len(self.classes):
            raise ValueError("the table needs one number for each region and class")
        if (self.table < 0.0).any() or (np.abs(self.outputs_by_region.sum(axis=1) - 1.0) > 1e-9).any():
            raise ValueError("the probabilities of a region must not be negative and must sum to 1")

    @property
    def outputs_by_region(self) -> Floats:
        """The table as a matrix, region by class."""
        return self.table.reshape(-1, len(self.classes))

    @property
    def rules(self) -> Floats:
        """The directions as a matrix, rule by class."""
        return self.directions.reshape(-1, len(self.classes))

    def regions(self, scores: ArrayLike) -> NDArray[np.intp]:
        """Number of the region of each row, from 0; -1 for a row with NaN."""
        given = self._matrix(scores)
        out = np.empty(len(given), dtype=np.intp)
        for part in blocks(given):
            out[part] = self._codes(given[part].astype(np.float64, copy=False))
        return out

    def _codes(self, s: Floats) -> NDArray[np.intp]:
        p = self._probabilities(s)
        missing = np.asarray(np.isnan(p).any(axis=1))
        if missing.any():
            p = np.where(missing[:, None], 0.0, p)
        if self.scheme == "projection":
            codes = _by_rules(p, self.rules, self.thresholds)
        else:
            codes = _sierpinski(p, self.size) if self.scheme == "sierpinski" else _grid(p, self.size)
        codes[missing] = -1
        return codes

    def _evaluate(self, s: Floats) -> Floats:
        codes = self._codes(s)
        out = self.outputs_by_region[codes]
        out[codes < 0] = np.nan
        return out

    def __repr__(self) -> str:
        """Scheme and size instead of all numbers."""
        count = len(self.table) // len(self.classes)
        return f"SimplexBinsMap({self.scheme}, {count:,} regions of {len(self.classes)} classes, on {self.on})"


def region_count(scheme: SimplexScheme, classes: int, size: int) -> int:
    r"""Number of regions: B for B - 1 rules; :math:`(L^{q+1} - 1)/(L - 1)` at depth q; for a grid its possible cells.

    .. math:: |I| = \sum_{m = \max(L, K + 1)}^{K + L - 1} \binom{m - 1}{L - 1}

    which is :math:`K^2` for three classes (Gupta 2023, eq. 5.20; the 14 printed there for L = 3 and q = 2 is 13).

    Examples
    --------
    >>> [region_count("sierpinski", 3, q) for q in (1, 2, 3)], [region_count("grid", 3, k) for k in (1, 2, 5)]
    ([4, 13, 40], [1, 4, 25])
    """
    if scheme == "projection":
        if size < 0:
            raise ValueError(f"the number of thresholds must not be negative, got {size}")
        return size + 1
    name, reach = ("depth", float(size)) if scheme == "sierpinski" else ("cells", classes * log2(max(size, 1)))
    if size < 1 or reach > MAX_DEPTH or classes > 1 << 20:
        raise ValueError(f"{name}={size} is out of range for {classes} classes")
    if scheme == "sierpinski":
        return int((classes ** (size + 1) - 1) // (classes - 1))
    return sum(comb(m - 1, classes - 1) for m in range(max(classes, size + 1), size + classes))


@lru_cache(maxsize=16)
def grid_cells(classes: int, size: int) -> NDArray[np.int64]:
    """The possible cells of a grid in lexicographic order, one row of cell numbers, one number per class.

    Examples
    --------
    >>> grid_cells(3, 2).tolist()
    [[1, 1, 1], [1, 1, 2], [1, 2, 1], [2, 1, 1]]
    """
    most, least = size + classes - 1, max(classes, size + 1)
    cells = np.zeros((1, 0), dtype=np.int64)
    for place in range(classes):
        count = len(cells)
        cells = np.column_stack([np.repeat(cells, size, axis=0), np.tile(np.arange(1, size + 1), count)])
        reached, left = cells.sum(axis=1), classes - place - 1
        cells = cells[(reached + left <= most) & (reached + left * size >= least)]
    cells.setflags(write=False)
    return cells


def project(p: NDArray[Any], direction: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
    """Projection on a direction, summed in the order of classes, so that rounding is the same everywhere."""
    out: Floats | None = None
    for j in np.flatnonzero(direction).tolist():
        term = (p[:, j] if rows is None else p[rows, j]) * direction[j]
        out = term if out is None else out + term
    return np.zeros(len(p) if rows is None else len(rows)) if out is None else np.asarray(out, dtype=np.float64)


def _by_rules(p: Floats, rules: Floats, thresholds: Floats) -> NDArray[np.intp]:
    """First rule whose threshold is not reached."""
    codes = np.full(len(p), len(thresholds), dtype=np.intp)
    left = np.arange(len(p))
    for b in range(len(thresholds)):
        taken = project(p, rules[b], left) < thresholds[b]
        codes[left[taken]] = b
        left = left[~taken]
    return codes


def _sierpinski(p: Floats, depth: int) -> NDArray[np.intp]:
    """Path through the parts as one number; doubling, and subtracting 1 above one half, are exact."""
    size = p.shape[1]
    codes = np.zeros(len(p), dtype=np.intp)
    inside, t = np.arange(len(p)), p
    for level in range(1, depth + 1):
        parts = region_count("sierpinski", size, depth - level) if level < depth else 1
        large = t > 0.5
        chosen = np.where(large.any(axis=1), large.argmax(axis=1), size)
        codes[inside] += chosen * parts
        going = chosen < size
        inside, t = inside[going], 2.0 * t[going]
        t[np.arange(len(t)), chosen[going]] -= 1.0
    return codes


def _grid(p: Floats, size: int) -> NDArray[np.intp]:
    """Index of each row's cell among the possible ones."""
    classes = p.shape[1]
    k = np.clip(np.ceil(size * p), 1.0, size).astype(np.int64)
    k[:, -1] += np.maximum(max(classes, size + 1) - k.sum(axis=1), 0)
    over = np.maximum(k.sum(axis=1) - (size + classes - 1), 0)
    for j in range(classes - 1, -1, -1) if over.any() else ():
        off = np.minimum(over, k[:, j] - 1)
        k[:, j] -= off
        over -= off
    digits = size ** np.arange(classes - 1, -1, -1, dtype=np.int64)
    keys = (grid_cells(classes, size) - 1) * digits
    return np.asarray(np.searchsorted(keys.sum(axis=1), ((k - 1) * digits).sum(axis=1)), dtype=np.intp)


def _numbers(values: ArrayLike, name: str) -> Floats:
    a = np.array(values, dtype=np.float64).reshape(-1)
    if not np.isfinite(a).all():
        raise ValueError(f"{name} must be finite")
    a.setflags(write=False)
    return a
