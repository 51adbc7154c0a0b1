"""A tree of classes: the nodes to which a label belongs, and the path from a leaf to the root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import LONGEST_KEY, key_text, plain_text, read_keys
from calibrant.arrays.labels import label_column
from calibrant.messages import InputError, Setting, plural

MOST_LEVELS = 64
"""Maximum number of levels below the root; real taxonomies have two to twenty."""

IMPLICIT_ROOT = "root"
"""Default name of the root."""


class Taxonomy:
    r"""A tree of classes: a row that belongs to a node belongs to each of its ancestors.

    With :math:`a(y)` the ancestors of the node y, itself included, "the row belongs to v" is the event
    :math:`v \in a(Y)`, where the label Y is the narrowest node of the row; it is an inner node if the row belongs to
    none of that node's children (Gupta 2022, section 4.3).

    Parameters
    ----------
    parents : mapping from node to parent
        Nodes are text, integers or booleans. If several nodes have the parent None, they are beneath a root without an
        entry; a single such node is the root itself. A parent that is not a key is the root, if there is exactly one.
    root : optional
        Name of the root, if the mapping does not define it; ``"root"`` by default. A row with this label belongs to no
        node.

    Attributes
    ----------
    nodes : tuple of str
        All nodes except the root, in the order of the mapping; codes are indices into it, and the root's code is -1.
    parents, depths : ndarray
        Code of each node's parent; levels below the root, which is at 0.
    leaves : tuple of str
        Nodes without children, in the order of ``nodes``.
    paths : ndarray of shape (nodes + 1, depth)
        Codes on the path to each node, the broadest first, then -1; the last row, of the root, is all -1.

    Notes
    -----
    Edge cases: a cycle, an unknown parent, a duplicate name and fewer than two leaves are errors.
    Guarantee: not a statistical method; a taxonomy needs no guarantee.
    Cost: O(nodes x depth).

    Examples
    --------
    >>> news = Taxonomy({"sports": None, "economy": None, "tennis": "sports", "football": "sports",
    ...                  "stocks": "economy", "energy": "economy", "solar": "energy", "coal": "energy"})
    >>> news
    Taxonomy(8 nodes beneath 'root', 5 leaves, 3 levels)
    >>> news.ancestors("solar"), news.path("solar")
    (('solar', 'energy', 'economy'), ('economy', 'energy', 'solar'))
    """

    def __init__(self, parents: Mapping[Any, Any], root: Any = None) -> None:
        given = _read(parents)
        self.root = _root(given, None if root is None else _name(root, "root"))
        given.pop(self.root, None)
        self.nodes = tuple(given)
        self._codes = {name: code for code, name in enumerate(self.nodes)}
        above = [-1 if up in (None, self.root) else self._codes[up] for up in given.values()]
        self.parents = _frozen(np.array(above, dtype=np.int64))
        self.depths, self.paths = _levels(self.nodes, self.parents)
        inner = set(above)
        self.leaves = tuple(name for code, name in enumerate(self.nodes) if code not in inner)
        if len(self.leaves) < 2:
            raise InputError("parents", "has fewer than two leaves", "add the nodes into which it divides its classes")

    @property
    def depth(self) -> int:
        """Number of levels below the root."""
        return int(self.paths.shape[1])

    def code(self, node: Any) -> int:
        """Index of a node in ``nodes``; -1 for the root."""
        name = _name(node, "node")
        if name != self.root and name not in self._codes:
            raise InputError(
                Setting("node", name), "is not a node of the taxonomy", f"its nodes are {_shown(self.nodes)}"
            )
        return self._codes.get(name, -1)

    def path(self, node: Any) -> tuple[str, ...]:
        """The nodes from just below the root down to ``node``."""
        return tuple(self.nodes[code] for code in self.paths[self.code(node)].tolist() if code >= 0)

    def ancestors(self, node: Any) -> tuple[str, ...]:
        """The nodes from ``node`` itself up to just below the root."""
        return self.path(node)[::-1]

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """Whether a leaf (row) belongs to a node (column)."""
        out = np.zeros((len(self.leaves), len(self.nodes) + 1), dtype=bool)
        codes = np.array([self._codes[leaf] for leaf in self.leaves])
        np.put_along_axis(out, self.paths[codes], True, axis=1)
        return out[:, :-1]

    def beneath(self, node: Any) -> tuple[str, ...]:
        """The leaves that belong to a node; all of them for the root."""
        code = self.code(node)
        if code < 0:
            return self.leaves
        return tuple(leaf for leaf, there in zip(self.leaves, self.membership[:, code], strict=True) if there)

    def codes(self, y: Any) -> NDArray[np.intp]:
        """Code of each row's label, which may be an inner node; -1 for the root.

        Examples
        --------
        >>> tree = Taxonomy({"animal": None, "vehicle": None, "cat": "animal", "dog": "animal"})
        >>> tree.codes(["dog", "animal", "root"]).tolist()
        [3, 0, -1]
        """
        refuse_several(y)
        keys = read_keys(label_column(y, "y"), "y")
        unknown = sorted(set(keys.names) - set(self._codes) - {self.root})
        if unknown:
            raise InputError(
                "y", f"has the label {unknown[0]!r}, which is not a node", f"the nodes are {_shown(self.nodes)}"
            )
        return keys.among(self.nodes)

    def belongs(self, labels: NDArray[Any], nodes: NDArray[Any]) -> NDArray[np.bool_]:
        r"""Whether each row with a label belongs to the node in the same place, :math:`v \in a(y)`; both as codes.

        Every row belongs to the root.
        """
        level = np.where(nodes < 0, 0, self.depths[nodes] - 1)
        return np.asarray((nodes < 0) | (self.paths[labels, level] == nodes))

    def to_dict(self) -> dict[str, str]:
        """The mapping from node to parent, from which the same tree is built."""
        return {
            name: self.root if up < 0 else self.nodes[up] for name, up in zip(self.nodes, self.parents, strict=True)
        }

    def __eq__(self, other: object) -> bool:
        """Same nodes in the same order, same parents, same root."""
        if not isinstance(other, Taxonomy):
            return NotImplemented
        return self.root == other.root and list(self.to_dict().items()) == list(other.to_dict().items())

    def __hash__(self) -> int:
        """Hash of nodes and root."""
        return hash((self.root, self.nodes, self.parents.tobytes()))

    def __repr__(self) -> str:
        """Its size."""
        levels = plural(self.depth, "level")
        return f"Taxonomy({len(self.nodes)} nodes beneath {self.root!r}, {len(self.leaves)} leaves, {levels})"


def as_taxonomy(given: Any) -> Taxonomy:
    """A taxonomy, from itself or from a mapping.

    Examples
    --------
    >>> as_taxonomy({"cat": "animal", "dog": "animal"}).root
    'animal'
    """
    if isinstance(given, Taxonomy):
        return given
    if not isinstance(given, Mapping):
        raise InputError(
            "taxonomy",
            f"must be a Taxonomy or a mapping from each node to its parent, got {type(given).__name__}",
            'pass for example {"cat": "animal", "dog": "animal"}',
        )
    try:
        return Taxonomy(given)
    except InputError as error:
        raise (error.about("taxonomy") if error.subject == "parents" else error) from None


def refuse_several(y: Any) -> None:
    """Reject labels that name several nodes in a row: a path has one end."""
    a = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
    several = np.zeros(0, dtype=bool)
    if a.ndim == 2 and a.shape[1] > 1:
        several = np.ones(len(a), dtype=bool)
    elif a.ndim == 1 and a.dtype.kind == "O":
        several = np.array([not isinstance(item, str) and _holds_items(item) for item in a.tolist()], dtype=bool)
    if several.any():
        raise InputError(
            "y",
            f"names several nodes at row {int(several.argmax())} counted from 0, but a path ends in one",
            "pass the narrowest node of each row; for rows in several branches, calibrate each node separately",
        )


def _holds_items(item: Any) -> bool:
    return isinstance(item, Sequence | set | frozenset | np.ndarray) and not isinstance(item, bytes)


def _name(value: Any, argument: str = "parents") -> str:
    text = key_text(value, argument)
    if not text or len(text) > LONGEST_KEY or not plain_text(text):
        fix = f"use text of 1 to {LONGEST_KEY:,} characters or integers"
        raise InputError(argument, f"contains {value!r}, which cannot name a node", fix)
    return text


def _read(parents: Mapping[Any, Any]) -> dict[str, str | None]:
    """The mapping with names as text."""
    if not isinstance(parents, Mapping):
        raise InputError("parents", f"must be a mapping from each node to its parent, got {type(parents).__name__}")
    given: dict[str, str | None] = {}
    for node, up in parents.items():
        name = _name(node)
        if name in given:
            raise InputError("parents", f"has the node {name!r} twice, as a number and as text", "rename one of them")
        if isinstance(up, list | tuple | set | frozenset):
            raise InputError(
                "parents", f"gives the node {name!r} several parents, but a tree allows one", "pass one of them"
            )
        given[name] = None if up is None else _name(up)
    return given


def _root(given: Mapping[str, str | None], named: str | None) -> str:
    """Name of the root: the given one, the only node or parent that can be the root, or the implicit one."""
    tops = [name for name, up in given.items() if up is None]
    absent = {up: name for name, up in given.items() if up is not None and up not in given}
    if named is None and len(absent) == 1 and not tops:
        return next(iter(absent))
    orphans = {up: name for up, name in absent.items() if up != named}
    if orphans:
        up, name = next(iter(orphans.items()))
        problem = f"gives the node {name!r} the parent {up!r}, which is not a node"
        raise InputError("parents", problem, f"add {up!r} with its own parent")
    if not given:
        raise InputError("parents", "is empty", "pass a mapping from each node to its parent")
    if named is None and len(tops) == 1:
        return tops[0]
    root = IMPLICIT_ROOT if named is None else named
    if given.get(root) is not None or (root in given and len(tops) > 1):
        raise InputError(Setting("root", root), "is the name of one of the nodes", "pass another name as root")
    return root


def _levels(nodes: tuple[str, ...], parents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Levels and paths, from the root down; a node that is never reached is in a cycle."""
    children: list[list[int]] = [[] for _ in range(len(nodes) + 1)]
    for code, up in enumerate(parents.tolist()):
        children[up].append(code)
    levels = [children[-1]]
    while levels[-1] and len(levels) <= MOST_LEVELS:
        levels.append(list(chain.from_iterable(children[code] for code in levels[-1])))
    if levels[-1]:
        raise InputError("parents", f"has more than {MOST_LEVELS} levels", "leave out nodes with one child")
    depths = np.zeros(len(nodes), dtype=np.int64)
    paths = np.full((len(nodes) + 1, len(levels) - 1), -1, dtype=np.int64)
    for depth, level in enumerate(levels[:-1]):
        depths[level] = depth + 1
        paths[level] = paths[parents[level]]
        paths[level, depth] = level
    if (depths == 0).any():
        lost = nodes[int((depths == 0).argmax())]
        problem = f"has the node {lost!r}, which never reaches the root because its ancestors form a cycle"
        raise InputError("parents", problem, "correct one of them")
    return _frozen(depths), _frozen(paths)


def _frozen(a: NDArray[np.int64]) -> NDArray[np.int64]:
    a.setflags(write=False)
    return a


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
