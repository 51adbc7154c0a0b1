"""Multiclass maps, from a row of class scores to probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.keys import LONGEST_KEY, plain_text
from calibrant.maps.base import Columns, Map, freeze, register
from calibrant.numerics import CHUNK, Floats, to_float32

__all__ = ["CLASS_KINDS", "ClassAxis", "MulticlassMap", "PerClassMap", "SoftmaxMap", "TopMap"]

ClassAxis = Literal["probability", "logit"]
"""Type of the scores of a row: probabilities, or logits, which go through softmax first."""

LARGEST_LOGIT = 1e100
"""Logits are clipped to this size, and slopes and intercepts must not exceed it, so that no sum can overflow."""


SORTING_RATIO = 8
"""With more classes per rank than this, picking the largest scores one by one is faster than sorting."""


NEAR_ZERO = 1e-20
"""Probability below which a class counts as masked; no sum of doubles near 1 shows it."""


class MulticlassMap(Map):
    """A map from rows of K class scores to rows of probabilities, evaluated block by block.

    ``classes`` names the input columns. NaN in a row makes its results NaN.
    """

    kinds: ClassVar[dict[str, type[Map]]] = {}
    classes: tuple[str, ...]
    on: ClassAxis

    @property
    def inputs(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    @property
    def outputs(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for the rows of ``scores``; float32 in gives float32 out."""
        given = self._matrix(scores)
        single = given.dtype == np.float32
        out = np.empty((len(given), len(self.outputs)), dtype=np.float32 if single else np.float64)
        for part in blocks(given):
            piece = self._evaluate(given[part].astype(np.float64, copy=False))
            out[part] = to_float32(piece) if single else piece
        return out

    def _matrix(self, scores: ArrayLike) -> NDArray[Any]:
        given = np.asarray(scores)
        if given.ndim != 2 or given.shape[1] != len(self.classes):
            raise ValueError(f"scores has shape {given.shape}: pass one column for each of {len(self.classes)} classes")
        return given

    @property
    def keeps_zeros(self) -> bool:
        """Whether a class of probability 0 is known to stay there: of softmax maps alone, and not of all."""
        return False

    def _evaluate(self, s: Floats) -> Floats:
        """Image of one block of float64 rows; must not write into ``s`` and must keep NaN."""
        raise NotImplementedError

    def _probabilities(self, s: Floats) -> Floats:
        """The rows as probabilities."""
        return softmax(s) if self.on == "logit" else s

    def _check_classes(self) -> None:
        freeze(self, "classes", check_classes(self.classes))
        if self.on not in ("probability", "logit"):
            raise ValueError(f"on must be 'probability' or 'logit', got {self.on!r}")


CLASS_KINDS = MulticlassMap.kinds
"""Every kind of multiclass map."""


@register
@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxMap(MulticlassMap):
    r"""An affine map of log probabilities or raw logits, then softmax: temperature, vector, matrix, Dirichlet scaling.

    .. math:: m(z) = \operatorname{softmax}(W z + b)

    with :math:`z` the logarithms of the probabilities, clipped to [``clamp``, 1]; logits go through softmax first, so
    that a constant added to a row has no effect. With ``raw``, :math:`z` are the logits as given, and the same numbers
    define a different map, unless all rows of W have the same sum (docs/errata.md). ``slope`` is one number
    (:math:`W = tI`, Gupta 2023, eq. 1.13 with :math:`t = 1/T`), K numbers (the diagonal of W), or K times K numbers row
    by row; ``intercept`` is b, K numbers, or empty for zero.

    Parameters
    ----------
    classes : tuple of str
        Names of the input columns.
    slope, intercept : array
        W and b, see above.
    on : {"probability", "logit"}
        Type of the scores.
    clamp : float
        Lower bound to which probabilities are clipped; not used if ``raw``.
    raw : bool
        Whether W acts on the logits as given, instead of on log probabilities.

    Examples
    --------
    >>> cooler = SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9)
    >>> cooler.apply([[0.25, 0.75]]).round(3).tolist()
    [[0.1, 0.9]]
    """

    classes: tuple[str, ...]
    slope: Floats
    intercept: Floats
    on: ClassAxis
    clamp: float
    raw: bool = field(default=False, metadata={"optional": True})

    kind: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check_classes()
        size = len(self.classes)
        slope, intercept = check_numbers(self.slope), check_numbers(self.intercept)
        if len(slope) not in (1, size, size * size) or len(intercept) not in (0, size):
            raise ValueError(f"{size} classes need 1, {size} or {size * size} slopes and 0 or {size} intercepts")
        if not 1e-300 <= self.clamp < 1.0:  # away from denormal doubles
            raise ValueError(f"clamp must lie between 1e-300 and 1, got {self.clamp}")
        if not isinstance(self.raw, bool):
            raise ValueError(f"raw must be true or false, got {self.raw!r}")
        if self.raw and self.on != "logit":
            raise ValueError("raw needs logits: probabilities determine them only up to a constant of each row")
        freeze(self, "slope", slope)
        freeze(self, "intercept", intercept)

    @property
    def keeps_zeros(self) -> bool:
        """Whether a class of probability 0 affects no other class, and its own probability is below 1e-20."""
        size = len(self.classes)
        if self.raw or len(self.slope) > size or not (self.slope > 0.0).all():
            return False
        shift = self.intercept if len(self.intercept) else np.zeros(size)
        lowest = np.max(self.slope * np.log(self.clamp) + shift)
        top = np.min(shift - self.slope * np.log(size))  # the largest probability of a row is at least 1 / K
        return bool(lowest - top < np.log(NEAR_ZERO))

    def logits(self, s: Floats) -> Floats:
        """The log probabilities or raw logits to which the affine map is applied."""
        if self.raw:
            return held(s)
        return np.asarray(np.log(np.clip(self._probabilities(s), self.clamp, 1.0)))

    def affine(self, s: Floats) -> Floats:
        """The logits to which softmax is applied."""
        z, size = self.logits(s), len(self.classes)
        if len(self.slope) in (1, size):
            z = z * self.slope
        else:
            z = np.einsum("nk,jk->nj", z, self.slope.reshape(size, size))
        return z + self.intercept if len(self.intercept) else z

    def _evaluate(self, s: Floats) -> Floats:
        return softmax(self.affine(s))

    @property
    def words(self) -> str:
        """Its form and its size."""
        size = len(self.classes)
        form = {1: f"slope {self.slope[0]:.4g}", size: f"{size} slopes"}.get(len(self.slope), f"{size} x {size} slopes")
        of = {"probability": "probabilities", "logit": "logits"}.get(self.on, f"{self.on} scores")
        of = "raw logits" if self.raw else of
        return f"{form}{', intercepts' if len(self.intercept) else ''}, {size} classes, of {of}"

    def __repr__(self) -> str:
        """Its form and its size."""
        return f"SoftmaxMap({self.words})"


@register
@dataclass(frozen=True, eq=False, repr=False)
class PerClassMap(MulticlassMap):
    r"""A separate map for each class.

    .. math:: m_l(s) = m_l(s_l), \qquad\text{normalized:}\quad m_l(s_l) / \textstyle\sum_k m_k(s_k)

    (Gupta 2023, Algorithms 5.3 and 5.4). Without ``normalized`` the rows need not sum to 1: each column is a separate
    probability. A normalized row whose maps all give 0 becomes 1/K throughout.

    Parameters
    ----------
    classes : tuple of str
        Names of the input columns.
    maps : tuple of Map
        The map of each class.
    on : {"probability", "logit"}
        Type of the scores.
    normalized : bool
        Whether rows are divided by their sums.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> halves = PerClassMap(("a", "b"), (StepMap([0.5], [0.2, 0.6]), StepMap([0.5], [0.3, 0.7])), "probability", False)
    >>> halves.apply([[0.4, 0.6]]).tolist()
    [[0.2, 0.7]]
    """

    classes: tuple[str, ...]
    maps: tuple[Map, ...]
    on: ClassAxis
    normalized: bool

    kind: ClassVar[str] = "per-class"

    def __post_init__(self) -> None:
        """Check the parts."""
        self._check_classes()
        freeze(self, "maps", check_parts(self.maps, len(self.classes)))
        if not isinstance(self.normalized, bool):
            raise ValueError("normalized must be true or false")

    def _evaluate(self, s: Floats) -> Floats:
        p = np.array(self._probabilities(s).T, order="C")  # a copy, also of a single row
        for j, part in enumerate(self.maps):
            p[j] = part.apply(p[j])
        if self.normalized:
            total = p.sum(axis=0)
            p = np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), 1.0 / len(p))
        p[:, np.isnan(s).any(axis=1)] = np.nan
        return p.T

    @property
    def words(self) -> str:
        """Number of classes instead of all maps."""
        return f"one map for each of {len(self.classes)} classes{', normalized' if self.normalized else ''}"

    def __repr__(self) -> str:
        """Number of classes instead of all maps."""
        return f"PerClassMap({len(self.classes)} classes{', normalized' if self.normalized else ''})"


@register
@dataclass(frozen=True, eq=False, repr=False)
class TopMap(MulticlassMap):
    r"""Probabilities of the k most likely classes of each row, in the model's order.

    .. math:: m_k(s) = m_{k, c_k(s)}(s_{c_k(s)}), \qquad c_k(s) \text{ the class of the } k\text{-th largest score}

    (Gupta 2023, Algorithms 5.1, 5.2, 5.6, 5.7). ``maps`` has one map for each rank k = 1 .. ``ranks``, or one for each
    rank and class, rank by rank. Of tied scores the earlier class comes first. With one rank, as in
    ``TopLabelHistogramBinning``, ``transform(scores)`` gives one column: the probability that ``predict(scores)`` is
    right.

    Parameters
    ----------
    classes : tuple of str
        Names of the input columns.
    ranks : int
        Number of classes per row, k.
    maps : tuple of Map
        One map for each rank, or one for each rank and class.
    on : {"probability", "logit"}
        Type of the scores.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> top = TopMap(("a", "b"), 1, (StepMap([], [0.7]), StepMap([], [0.9])), "probability")
    >>> top.labels([[0.2, 0.8], [0.5, 0.5]]).tolist(), top.apply([[0.2, 0.8], [0.5, 0.5]]).tolist()
    ([[1], [0]], [[0.9], [0.7]])
    """

    classes: tuple[str, ...]
    ranks: int
    maps: tuple[Map, ...]
    on: ClassAxis

    kind: ClassVar[str] = "top"

    def __post_init__(self) -> None:
        """Check the parts."""
        self._check_classes()
        if not 1 <= self.ranks <= len(self.classes):
            raise ValueError(f"ranks must lie between 1 and {len(self.classes)}, got {self.ranks}")
        freeze(self, "maps", check_parts(self.maps, self.ranks, self.ranks * len(self.classes)))

    @property
    def by_label(self) -> bool:
        """Whether each class has separate maps."""
        return len(self.maps) > self.ranks

    @property
    def outputs(self) -> tuple[str, ...]:
        """``top 1``, ``top 2``, ..."""
        return tuple(f"top {k}" for k in range(1, self.ranks + 1))

    def labels(self, scores: ArrayLike) -> NDArray[np.intp]:
        """Codes of the classes to which the probabilities refer, one row of ``ranks`` each."""
        given = self._matrix(scores)
        out = np.empty((len(given), self.ranks), dtype=np.intp)
        for part in blocks(given):
            out[part] = top_labels(given[part], self.ranks)
        return out

    def of_every_class(self, scores: ArrayLike) -> Floats:
        """Probabilities of all classes, of a map with one rank: the other classes share what the top class leaves.

        They share it as the model does, in proportion, and are not calibrated. If the model gives them nothing, the
        shares are equal. Maps of several ranks are refused: their probabilities can sum to more than 1.

        Examples
        --------
        >>> from calibrant.maps import StepMap
        >>> top = TopMap(("a", "b", "c"), 1, (StepMap([], [0.6]),), "probability")
        >>> top.of_every_class([[0.8, 0.15, 0.05]]).round(2).tolist()
        [[0.6, 0.3, 0.1]]
        """
        if self.ranks > 1:
            raise ValueError(f"the probabilities of {self.ranks} ranks can sum to more than 1: use a map of one rank")
        given = self._matrix(scores)
        named, p = self.labels(given), np.asarray(self.apply(given), dtype=np.float64)
        out: Floats = np.array(self._probabilities(np.asarray(given, dtype=np.float64)))
        np.put_along_axis(out, named, 0.0, axis=1)
        rest, even = out.sum(axis=1, keepdims=True), np.full_like(out, 1.0 / (len(self.classes) - 1))
        out = np.asarray((1.0 - p) * np.divide(out, rest, out=even, where=rest > 0.0))
        np.put_along_axis(out, named, p, axis=1)
        return out

    def _evaluate(self, s: Floats) -> Floats:
        p = self._probabilities(s)
        codes = top_labels(s, self.ranks)
        values = np.take_along_axis(p, codes, axis=1)
        out = np.empty_like(values)
        size = len(self.classes)
        for k in range(self.ranks):
            if not self.by_label:
                out[:, k] = self.maps[k].apply(values[:, k])
                continue
            for j in np.unique(codes[:, k]).tolist():
                rows = np.flatnonzero(codes[:, k] == j)
                out[rows, k] = self.maps[k * size + j].apply(values[rows, k])
        out[np.isnan(s).any(axis=1)] = np.nan
        return out

    @property
    def words(self) -> str:
        """Number of classes instead of all maps."""
        how = "by class" if self.by_label else "all classes together"
        return f"top {self.ranks} of {len(self.classes)} classes, {how}"

    def __repr__(self) -> str:
        """Number of classes instead of all maps."""
        return f"TopMap({self.words})"


def softmax(z: Floats) -> Floats:
    """Softmax of each row; NaN in a row makes it NaN."""
    z = held(z)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def held(z: Floats) -> Floats:
    """Logits clipped so that neither they nor their sums are infinite."""
    return np.clip(z, -LARGEST_LOGIT, LARGEST_LOGIT)


def top_labels(s: NDArray[Any], ranks: int) -> NDArray[np.intp]:
    """Columns of the largest scores of each row, the largest first; of tied scores the earlier column."""
    if ranks == 1:
        return np.asarray(s.argmax(axis=1)).reshape(-1, 1)
    if SORTING_RATIO * ranks >= s.shape[1]:
        return np.argsort(-s, axis=1, kind="stable")[:, :ranks]
    left, out = s.copy(), np.empty((len(s), ranks), dtype=np.intp)
    for k in range(ranks):
        out[:, k] = left.argmax(axis=1)
        np.put_along_axis(left, out[:, k : k + 1], -np.inf, axis=1)
    return out


def blocks(matrix: NDArray[Any]) -> Iterator[slice]:
    """Slices of rows with about as many numbers as a chunk of a column."""
    step = max(8 * CHUNK // max(matrix.shape[1], 1), 1)
    return (slice(start, min(start + step, len(matrix))) for start in range(0, len(matrix), step))


def check_classes(classes: tuple[str, ...]) -> tuple[str, ...]:
    """Check the names of two or more distinct classes."""
    names = tuple(classes)
    if len(names) < 2 or len(set(names)) != len(names):
        raise ValueError("a multiclass map needs at least two classes with distinct names")
    if not all(isinstance(name, str) and 0 < len(name) <= LONGEST_KEY and plain_text(name) for name in names):
        raise ValueError(f"a class must be text of 1 to {LONGEST_KEY} characters, without zero characters")
    return names


def check_parts(maps: tuple[Map, ...], *sizes: int) -> tuple[Map, ...]:
    """Check maps of one score; their number must be one of the sizes."""
    parts = tuple(maps)
    if len(parts) not in sizes or not all(
        isinstance(part, Map) and not isinstance(part, MulticlassMap) for part in parts
    ):
        raise ValueError(f"{' or '.join(map(str, sizes))} maps of one score are needed")
    if any(part.columns for part in parts):
        raise ValueError("the maps of classes must not need columns of groups")
    return parts


def check_numbers(values: ArrayLike) -> Floats:
    """Finite slopes or intercepts as a read-only array."""
    a = np.array(values, dtype=np.float64).reshape(-1)
    if not (np.abs(a) <= LARGEST_LOGIT).all():
        raise ValueError(f"slopes and intercepts must be finite, and at most {LARGEST_LOGIT:g} in absolute value")
    a.setflags(write=False)
    return a
