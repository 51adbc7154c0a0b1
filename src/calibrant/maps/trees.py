"""Maps that differ by the leaf of a decision tree on named columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import read_floats
from calibrant.arrays.keys import LONGEST_KEY, SPELLINGS, Keys, plain_text, read_keys
from calibrant.maps.base import Columns, Map, freeze, needed_columns, register
from calibrant.maps.classes import ClassAxis, MulticlassMap, PerClassMap, SoftmaxMap
from calibrant.maps.scores import StepMap
from calibrant.messages import Argument, InputError, Phrase, Shown, listed, plural
from calibrant.numerics import Floats, Ints, to_float32

Flags = NDArray[np.bool_]

MAX_NODES = 1_999
"""Nodes that a tree may have: 1,000 leaves."""

LEAF = -1
"""Column number, and child, of a node without children."""


@dataclass(frozen=True)
class Limit(Shown):
    """What the way to a leaf asks of one column.

    Attributes
    ----------
    column
        Name of the column; None for a score.
    above, upto
        Numbers above the one and up to the other; infinite where there is no end.
    levels
        The only texts, of a column of text; None if any text but ``other_than`` is meant.
    other_than
        Texts that are excluded.
    missing
        Whether rows without a value are meant too.
    of_class
        The class whose score is meant, if there is a score for each class.
    """

    column: str | None
    above: float = -np.inf
    upto: float = np.inf
    levels: tuple[str, ...] | None = None
    other_than: tuple[str, ...] = ()
    missing: bool = True
    of_class: str = ""

    @property
    def is_text(self) -> bool:
        """Whether it is about texts."""
        return self.levels is not None or bool(self.other_than)

    @property
    def is_empty(self) -> bool:
        """Whether no value fits, so that only rows without a value are meant, if any."""
        return self.levels == () if self.is_text else self.above >= self.upto

    def said(self, missing: bool = False, boolean: bool = False) -> str:
        """The limit as it is written in a rule.

        ``missing``: also whether rows without a value are meant. ``boolean``: the column has no other texts than true
        and false, so that one of them is the opposite of the other.

        Examples
        --------
        >>> Limit("age", above=41.0).said(), Limit("age", 41.0, 1200.0).said(missing=True)
        ('age > 41', '(41 < age <= 1,200 or age is missing)')
        >>> Limit("job", other_than=("admin", "student"), missing=False).said()
        'job not admin or student'
        >>> Limit("flag", other_than=("false",)).said(boolean=True)
        'flag = true'
        """
        score = f"score of {self.of_class}" if self.of_class else "score"
        name = score if self.column is None else self.column
        if boolean and self.other_than:
            levels = tuple(each for each in SPELLINGS if each not in self.other_than)
            return replace(self, levels=levels, other_than=()).said(missing)
        if self.is_empty:
            return f"{name} is missing" if self.missing else f"{name} has no value that fits"
        text = self._text(name) if self.is_text else self._range(name)
        return f"({text} or {name} is missing)" if missing and self.missing else text

    def __str__(self) -> str:
        """The limit, without a word on missing values."""
        return self.said()

    def _text(self, name: str) -> str:
        if self.levels is not None:
            return f"{name} = {listed([*self.levels], 'or')}"
        return f"{name} not {listed([*self.other_than], 'or')}"

    def _range(self, name: str) -> str:
        if self.above == -np.inf:
            return f"{name} <= {self.upto:,.12g}"
        return (
            f"{name} > {self.above:,.12g}"
            if self.upto == np.inf
            else f"{self.above:,.12g} < {name} <= {self.upto:,.12g}"
        )

    def after(self, tree: TreeNodes, node: int, left: bool) -> Limit:
        """The limit on one side of a node that splits this column."""
        missing = self.missing and bool(tree.missing_left[node]) == left
        if tree.is_text(node):
            level = tree.levels[node]
            if left:
                fits = level not in self.other_than and (self.levels is None or level in self.levels)
                return replace(self, levels=(level,) if fits else (), other_than=(), missing=missing)
            if self.levels is not None:
                return replace(self, levels=tuple(each for each in self.levels if each != level), missing=missing)
            return replace(self, other_than=tuple(dict.fromkeys((*self.other_than, level))), missing=missing)
        cut = float(tree.thresholds[node])
        if left:
            return replace(self, upto=min(self.upto, cut), missing=missing)
        return replace(self, above=max(self.above, cut), missing=missing)


@dataclass(frozen=True, eq=False, repr=False)
class TreeNodes(Map):
    """What maps by the leaves of a decision tree share: the nodes, the way of a row to its leaf, and its limits."""

    names: tuple[str, ...]
    text: Flags
    columns_split: Ints
    thresholds: Floats
    levels: tuple[str, ...]
    left: Ints
    right: Ints
    missing_left: Flags
    maps: tuple[Map, ...]

    of_groups: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the parts: a document may hold anything."""
        for name in ("columns_split", "left", "right"):
            freeze(self, name, _fixed(getattr(self, name), np.int64))
        freeze(self, "thresholds", _fixed(self.thresholds, np.float64))
        for name in ("text", "missing_left"):
            freeze(self, name, _fixed(getattr(self, name), np.bool_))
        for name in ("names", "levels", "maps"):
            freeze(self, name, tuple(getattr(self, name)))
        self._check_shape()
        self._check_splits()
        if len(self.maps) != len(self.leaves):
            raise ValueError(f"a tree of {len(self.leaves)} leaves needs one map for each, got {len(self.maps)}")
        self._check_maps()

    def _check_maps(self) -> None:
        """Reject maps that a leaf cannot have."""
        raise NotImplementedError

    @cached_property
    def count_scores(self) -> int:
        """How many scores a row has: the columns below this number are scores, those from it on have names."""
        return len(self.inputs)

    def named(self, column: int) -> str | None:
        """Name of a column by its number; None for a score."""
        return None if column < self.count_scores else self.names[column - self.count_scores]

    def splits(self, name: str) -> Ints:
        """The nodes that split a named column."""
        return np.flatnonzero(self.columns_split == self.names.index(name) + self.count_scores)

    def _check_shape(self) -> None:
        size = len(self.columns_split)
        columns = (self.thresholds, self.levels, self.left, self.right, self.missing_left)
        if not 1 <= size <= MAX_NODES or any(len(each) != size for each in columns):
            raise ValueError(f"a tree needs 1 to {MAX_NODES:,} nodes, and one entry for each in every column")
        ends = self.columns_split == LEAF
        if ((self.left == LEAF) != ends).any() or ((self.right == LEAF) != ends).any():
            raise ValueError("a node has two children, and a leaf has none")
        inner = np.flatnonzero(~ends)
        children = np.concatenate([self.left[inner], self.right[inner]])
        if not np.array_equal(np.sort(children), np.arange(1, size)):
            raise ValueError("every node but the root must be the child of one node")
        if (self.left[inner] <= inner).any() or (self.right[inner] <= inner).any():
            raise ValueError("children must come after their parents")

    def _check_splits(self) -> None:
        ends = self.columns_split == LEAF
        first = self.count_scores
        if (self.columns_split < LEAF).any() or (self.columns_split >= len(self.names) + first).any():
            raise ValueError("a node splits a score (the first numbers) or one of the named columns (those after)")
        if len(self.text) != len(self.names) or len(set(self.names)) != len(self.names):
            raise ValueError("names must be distinct, and text must say for each whether it holds text")
        if any(not _writable(name) for name in self.names):
            raise ValueError(f"a name must be text of 1 to {LONGEST_KEY} characters, without zero characters")
        if set(range(first, len(self.names) + first)) - set(self.columns_split.tolist()):
            raise ValueError("every named column must split some node")
        if not np.isfinite(self.thresholds).all():
            raise ValueError("thresholds must be finite")
        by_text = np.array([self.is_text(node) for node in range(len(ends))])
        if (self.thresholds[ends | by_text] != 0.0).any() or self.missing_left[self.columns_split < first].any():
            raise ValueError("only a split of numbers has a threshold, and only one of a column sends missing values")
        if any(type(level) is not str or not plain_text(level) or len(level) > LONGEST_KEY for level in self.levels):
            raise ValueError(f"a level must be text of at most {LONGEST_KEY} characters, without zero characters")
        if any(level and not split for level, split in zip(self.levels, by_text.tolist(), strict=True)):
            raise ValueError("only a split of text has a level")

    def is_text(self, node: int) -> bool:
        """Whether a node splits a column of text."""
        column = int(self.columns_split[node]) - self.count_scores
        return column >= 0 and bool(self.text[column])

    @property
    def columns(self) -> tuple[str, ...]:
        """The named columns."""
        return self.names

    @property
    def numbers(self) -> tuple[str, ...]:
        """The named columns that hold numbers."""
        return tuple(name for name, text in zip(self.names, self.text.tolist(), strict=True) if not text)

    @cached_property
    def booleans(self) -> frozenset[str]:
        """The named columns that are split by the levels true and false alone, however these are written."""
        found: dict[str, set[str]] = {name: set() for name in self.names if name not in self.numbers}
        for name, levels in found.items():
            levels.update(self.levels[node] for node in self.splits(name).tolist())
        return frozenset(name for name, levels in found.items() if levels <= SPELLINGS.keys())

    @cached_property
    def leaves(self) -> Ints:
        """The nodes without children, in their order: that of ``maps``."""
        return np.flatnonzero(self.columns_split == LEAF)

    @cached_property
    def limits(self) -> tuple[tuple[Limit, ...], ...]:
        """What the way to each leaf asks of the columns, in the order of ``maps``: one limit for each column on it."""
        found: dict[int, dict[int, Limit]] = {0: {}}
        for node, column in enumerate(self.columns_split.tolist()):
            if column == LEAF:
                continue
            name = self.named(column)
            start = found[node].get(column, Limit(name, missing=name is not None, of_class=self._class_of(column)))
            for left, child in ((True, int(self.left[node])), (False, int(self.right[node]))):
                found[child] = found[node] | {column: start.after(self, node, left)}
        return tuple(tuple(found[int(leaf)].values()) for leaf in self.leaves)

    @cached_property
    def in_order(self) -> Ints:
        """Indices of the leaves from left to right, as a reader of the tree meets them."""
        place = {int(leaf): j for j, leaf in enumerate(self.leaves)}
        found, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            if node in place:
                found.append(place[node])
            else:
                waiting += [int(self.right[node]), int(self.left[node])]
        return np.array(found)

    def route(self, scores: ArrayLike, by: Columns | None = None) -> Ints:
        """Index of the leaf of each row in ``maps``; -1 for a row without a score.

        Examples
        --------
        >>> from calibrant.maps import StepMap
        >>> one = TreeMap((), [], [-1], [0.0], ("",), [-1], [-1], [False], (StepMap([], [0.2]),))
        >>> one.route([0.5, float("nan")]).tolist()
        [0, -1]
        """
        rows = self._score_rows(np.asarray(scores))
        shape = np.shape(scores) if self.count_scores == 1 else (len(rows),)
        columns = self._read(by, shape)
        found = np.full(len(rows), -1, dtype=np.int64)
        place = {int(leaf): j for j, leaf in enumerate(self.leaves)}
        at: dict[int, NDArray[np.intp]] = {0: np.flatnonzero(~np.isnan(rows).any(axis=1))}
        for node, column in enumerate(self.columns_split.tolist()):
            there = at.pop(node)
            if node in place:
                found[there] = place[node]
                continue
            name = self.named(column)
            left = self._goes_left(node, rows[:, column] if name is None else columns[name], there)
            at[int(self.left[node])], at[int(self.right[node])] = there[left], there[~left]
        return found.reshape(shape)

    def _score_rows(self, given: NDArray[Any]) -> Floats:
        """The scores that nodes compare, a column for each."""
        return given.reshape(-1, 1).astype(np.float64, copy=False)

    def _class_of(self, column: int) -> str:
        """The class whose score a column is; empty without classes, and for named columns."""
        return ""

    def _goes_left(self, node: int, column: Keys | Floats, rows: NDArray[np.intp]) -> Flags:
        if isinstance(column, Keys):
            codes = column.codes[rows]
            level, names = self.levels[node], column.names
            left, missing = codes == (names.index(level) if level in names else len(names)), codes < 0
        else:
            values = column[rows]
            left, missing = values <= self.thresholds[node], np.isnan(values)
        return np.asarray(np.where(missing, self.missing_left[node], left), dtype=bool)

    def _read(self, by: Columns | None, shape: tuple[int, ...]) -> Mapping[str, Keys | Floats]:
        """The named columns, as text or as numbers, checked against the shape of the scores."""
        found: dict[str, Keys | Floats] = {}
        for name, values in needed_columns(self, by, "by").items():
            where = f"the column {name!r}"
            flat = values.reshape(-1) if isinstance(values, np.ndarray) else [values] if _is_one(values) else values
            text = self.text[self.names.index(name)]
            read: Keys | Floats = read_keys(flat, where) if text else read_floats(flat, where)
            read = read.as_booleans() if isinstance(read, Keys) and name in self.booleans else read
            size = (read.codes if isinstance(read, Keys) else read).size
            if size != int(np.prod(shape)):
                counts = {"found": size, "scores": Argument("scores"), "count": int(np.prod(shape))}
                problem = Phrase("has {found} values but {scores} has {count}", **counts)
                raise InputError(where, problem, "pass one value per score")
            found[name] = read
        return found

    @property
    def _split_names(self) -> list[str]:
        """What nodes split, by name."""
        scores = sorted({column for column in self.columns_split.tolist() if 0 <= column < self.count_scores})
        named = [f"{name!r:.60}" for name in self.names]
        return named + [f"the score of {self._class_of(j)!r:.60}" if self._class_of(j) else "the score" for j in scores]

    @property
    def words(self) -> str:
        """The number of leaves, and the columns."""
        split = ", ".join(self._split_names)
        return f"a tree of {plural(len(self.maps), 'leaf', 'leaves')}" + (f" by {split}" if split else "")

    def __repr__(self) -> str:
        """Number of leaves and the columns instead of all nodes."""
        split = self._split_names[:5] + (["..."] if len(self._split_names) > 5 else [])
        what = f"{plural(len(self.maps), 'leaf', 'leaves')}{' by ' * bool(split)}{', '.join(split)}"
        return f"{type(self).__name__}({what})"


@register
@dataclass(frozen=True, eq=False, repr=False)
class TreeMap(TreeNodes):
    r"""A separate map for each leaf of a decision tree on named columns and on the score.

    .. math:: m(s, x) = m_\ell(s) \quad\text{where } \ell \text{ is the leaf of } (s, x).

    A node splits a column of numbers at a threshold: values up to it go left. It splits a column of text by one level:
    rows of this level go left. A row without a value (None, NaN, NULL) goes left where ``missing_left`` is set, else
    right. A level that no node names goes right everywhere. A column that is split by the levels true and false alone
    may hold booleans, 0 and 1, or these words in small letters, in capitals or with one capital.

    Parameters
    ----------
    names : tuple of str
        Names of the columns besides the score, each of which splits some node.
    text : array of bool
        Which of them hold text (also integers or booleans read as text, as in :class:`ByGroupMap`); others are numbers.
    columns_split : array of int
        Column that each node splits: 0 for the score, j for ``names[j - 1]``, -1 in a leaf. Node 0 is the root, and
        children come after their parents.
    thresholds : array
        Threshold of each node that splits numbers, else 0.
    levels : tuple of str
        Level of each node that splits text, else empty.
    left, right : array of int
        Children of each node, -1 in a leaf.
    missing_left : array of bool
        Where rows without a value go.
    maps : tuple of Map
        The map of each leaf, in the order of the nodes.

    Notes
    -----
    Guarantee: that of the calibrator that fitted it; a map alone has none.
    Cost: one comparison per row and node on its way, then that of the maps.

    Examples
    --------
    >>> from calibrant.maps import StepMap
    >>> leaves = StepMap([], [0.1]), StepMap([], [0.4])
    >>> by_age = TreeMap(("age",), [False], [1, -1, -1], [41.0, 0, 0], ("", "", ""), [1, -1, -1], [2, -1, -1],
    ...                  [True, False, False], leaves)
    >>> by_age.apply([0.5, 0.5, 0.5], [30, 70, None]).tolist()
    [0.1, 0.4, 0.1]
    >>> by_age
    TreeMap(2 leaves by 'age')
    """

    kind: ClassVar[str] = "tree"

    def _check_maps(self) -> None:
        for part in self.maps:
            if not isinstance(part, Map) or isinstance(part, MulticlassMap) or part.columns:
                raise ValueError("the maps of the leaves must be maps of the score alone")

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for ``scores`` of rows in ``by``; float32 in gives float32 out, NaN gives NaN."""
        given = np.asarray(scores)
        flat = given.reshape(-1).astype(np.float64, copy=False)
        leaf = self.route(given, by).reshape(-1)
        out = np.full(flat.shape, np.nan)
        for j, rows in _by_code(leaf, len(self.maps)):
            out[rows] = self.maps[j].apply(flat[rows])
        return (to_float32(out) if given.dtype == np.float32 else out).reshape(given.shape)

    @property
    def constants(self) -> Floats | None:
        """The probability of each leaf, if every leaf has one whatever the score; else None."""
        return constant_values(self.maps)


@register
@dataclass(frozen=True, eq=False, repr=False)
class ClassTreeMap(TreeNodes, MulticlassMap):
    r"""A separate map of class scores for each leaf of a decision tree on named columns and on the scores.

    .. math:: m(s, x) = m_\ell(s) \quad\text{where } \ell \text{ is the leaf of } (s, x).

    The nodes are those of a :class:`TreeMap`, except that there is one score for each class: with K classes, the column
    numbers 0 to K - 1 are the probabilities of the classes (of logits, after softmax), and ``names[j]`` has the number
    K + j.

    Parameters
    ----------
    names, text, columns_split, thresholds, levels, left, right, missing_left
        As in :class:`TreeMap`, with the column numbers above.
    maps : tuple of MulticlassMap
        The map of each leaf, in the order of the nodes: a :class:`PerClassMap` or a :class:`SoftmaxMap` of the same
        classes and scores.
    classes : tuple of str
        Names of the input columns.
    on : {"probability", "logit"}
        Type of the scores.

    Notes
    -----
    Guarantee: that of the calibrator that fitted it; a map alone has none.
    Cost: one comparison per row and node on its way, then that of the maps.

    Examples
    --------
    >>> from calibrant.maps import PerClassMap, StepMap
    >>> def shares(*p):
    ...     return PerClassMap(("no", "yes"), tuple(StepMap([], [each]) for each in p), "probability", False)
    >>> by_age = ClassTreeMap(("age",), [False], [2, -1, -1], [41.0, 0, 0], ("", "", ""), [1, -1, -1], [2, -1, -1],
    ...                       [True, False, False], (shares(0.9, 0.1), shares(0.6, 0.4)), ("no", "yes"), "probability")
    >>> by_age.apply([[0.5, 0.5], [0.5, 0.5]], [30, 70]).tolist()
    [[0.9, 0.1], [0.6, 0.4]]
    """

    maps: tuple[MulticlassMap, ...]
    classes: tuple[str, ...]
    on: ClassAxis

    kind: ClassVar[str] = "class-tree"

    def __post_init__(self) -> None:
        """Check the parts: a document may hold anything."""
        self._check_classes()
        super().__post_init__()

    def _check_maps(self) -> None:
        for part in self.maps:
            if not isinstance(part, PerClassMap | SoftmaxMap) or (part.classes, part.on) != (self.classes, self.on):
                raise ValueError("the maps of the leaves must be softmax or per-class maps of the same classes")

    def _score_rows(self, given: NDArray[Any]) -> Floats:
        rows = given.astype(np.float64, copy=False)
        return self._probabilities(rows) if self.splits_scores else rows

    @cached_property
    def splits_scores(self) -> bool:
        """Whether some node splits the score of a class."""
        return bool(((self.columns_split >= 0) & (self.columns_split < len(self.classes))).any())

    def _class_of(self, column: int) -> str:
        return self.classes[column] if 0 <= column < len(self.classes) else ""

    def apply(self, scores: ArrayLike, by: Columns | None = None) -> NDArray[Any]:
        """Probabilities for the rows of ``scores`` in ``by``; float32 in gives float32 out, NaN gives NaN."""
        given = self._matrix(scores)
        leaf = self.route(given, by)
        out = np.full(given.shape, np.nan)
        for j, rows in _by_code(leaf, len(self.maps)):
            out[rows] = self.maps[j].apply(given[rows].astype(np.float64, copy=False))
        return to_float32(out) if given.dtype == np.float32 else out

    @property
    def keeps_zeros(self) -> bool:
        """Whether the map of every leaf keeps them."""
        return all(part.keeps_zeros for part in self.maps)

    @property
    def constants(self) -> Floats | None:
        """The probabilities of each leaf, a line for each, if they do not depend on the scores; else None."""
        found = [
            None if not isinstance(part, PerClassMap) or part.normalized else constant_values(part.maps)
            for part in self.maps
        ]
        lines = [each for each in found if each is not None]
        return np.array(lines) if len(lines) == len(found) else None


def constant_values(maps: tuple[Map, ...]) -> Floats | None:
    """The values of maps that are constants, whatever the score; None if some are not."""
    found = [part.values[0] for part in maps if isinstance(part, StepMap) and not len(part.knots)]
    return np.array(found) if len(found) == len(maps) else None


def _by_code(codes: Ints, size: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """The rows of each code from 0 on that has some."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes + 1, minlength=size + 1))
    for j in range(size):
        rows = order[ends[j] : ends[j + 1]]
        if len(rows):
            yield j, rows


def _fixed(values: Any, dtype: Any) -> NDArray[Any]:
    """A read-only array of one type; other values are an error."""
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in {np.int64: "iu", np.bool_: "b"}.get(dtype, "iuf")):
        raise ValueError(f"the columns of a tree must be lists of {np.dtype(dtype).name}, got {given.dtype}")
    made = np.array(given, dtype=dtype)
    made.setflags(write=False)
    return made


def _is_one(values: Any) -> bool:
    return values is None or isinstance(values, str | float | int | np.generic)


def _writable(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= LONGEST_KEY and plain_text(text)
