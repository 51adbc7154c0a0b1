"""Export of a map by leaves of a tree: one rule for each leaf in SQL, comparisons in ONNX."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.keys import SPELLINGS
from calibrant.export.kinds.classes import by_code, probabilities, row_nodes, shares
from calibrant.export.kinds.samples import EDGE_SCORES, Rows, proof_matrix, proof_rows, proof_scores
from calibrant.export.kinds.scores import nodes, nodes_of
from calibrant.export.kinds.stages import lower, score_text
from calibrant.export.kinds.tolerance import SHAKES, TOLERANCE, allowed, allowed_on_path, only_copies
from calibrant.export.languages.onnx_graph import ML, Family, Graph
from calibrant.export.languages.sql.text import Text, text_literal
from calibrant.maps import ClassTreeMap, IdentityMap, PerClassMap, TreeMap
from calibrant.maps.classes import softmax
from calibrant.maps.trees import Limit, TreeNodes
from calibrant.messages import InputError, Setting
from calibrant.numerics import Floats

# ------------------------------------------------------------------------------------------------------------------ SQL


@lower.register
def _(map_: TreeMap, text: Text, x: list[str], place: int) -> str:
    return _rules(map_, text, x, [score_text(part, x[place], text) for part in map_.maps])


@lower.register
def _(map_: ClassTreeMap, text: Text, x: list[str], place: int) -> str:
    """As for one score. Splits compare probabilities: of logits, the number of the leaf is found first."""
    constants = map_.constants

    def images(t: Text) -> list[str]:
        return (
            [lower(part, t, x, place) for part in map_.maps] if constants is None else numbers(t, constants[:, place])
        )

    def numbers(t: Text, values: Floats) -> list[str]:
        return [t.number(value) for value in values]

    if not map_.splits_scores or map_.on == "probability":
        return _rules(map_, text, x, images(text))
    codes = [str(j) for j in range(1, len(map_.maps) + 1)]
    leaf = shares(text, x, lambda t, p: _rules(map_, t, p, codes))
    return text.named([leaf], lambda t, code: by_code(t, code[0], images(t)))


def _rules(map_: TreeNodes, text: Text, x: list[str], images: list[str]) -> str:
    """One WHEN for each leaf, with what the way to it asks of each column; the last leaf is the ELSE."""
    _refuse_booleans(map_, text)
    scores = dict(zip(map_.inputs, x, strict=True))
    *rules, last = map_.in_order.tolist()
    written = [
        f"\n  WHEN {' AND '.join(_asked(_written(limit, map_), scores, text) for limit in map_.limits[leaf])} "
        f"THEN {images[leaf]}"
        for leaf in rules
    ]
    return f"CASE{''.join(written)}\n  ELSE {images[last]}\nEND" if written else images[last]


def _refuse_booleans(map_: TreeNodes, text: Text) -> None:
    for name in sorted(map_.booleans):
        if not text.dialect.booleans:
            raise InputError(
                Setting("dialect", text.name), "has no text for booleans", f"fit with text or integers in {name!r}"
            )


def _written(limit: Limit, map_: TreeNodes) -> Limit:
    """The limit with every spelling of true and false, if its column holds booleans."""
    if limit.column not in map_.booleans:
        return limit
    levels, other = (
        None if texts is None else tuple(each for text in texts for each in SPELLINGS[text])
        for texts in (limit.levels, limit.other_than)
    )
    return replace(limit, levels=levels, other_than=other or ())


def _asked(limit: Limit, scores: dict[str, str], text: Text) -> str:
    """What a limit asks of its column; ``scores`` are the texts of the scores by input of the map."""
    if limit.column is None:
        return " AND ".join(_ends(limit, scores[limit.of_class or "score"], text))
    column = text.keys[limit.column]
    return _of_text(limit, column, text) if limit.is_text else _of_number(limit, column, text)


def _ends(limit: Limit, x: str, text: Text) -> list[str]:
    found = [f"{x} > {text.number(limit.above)}"] if limit.above > -math.inf else []
    return found + ([f"{x} <= {text.number(limit.upto)}"] if limit.upto < math.inf else [])


def _of_number(limit: Limit, column: str, text: Text) -> str:
    """Numbers: NaN is a missing value, but the largest number to most engines."""
    nan = text.dialect.nan.format(name=column, x=f"CAST({column} AS {text.dialect.real})")
    ends = _ends(limit, column, text)
    if limit.missing:
        inside = " AND ".join(ends)
        inside = f"({inside})" if len(ends) > 1 else inside
        return f"({' OR '.join(each for each in (inside, f'{column} IS NULL', nan) if each)})"
    return " AND ".join(ends if limit.upto < math.inf or not nan else [*ends, f"NOT {nan}"])


def _of_text(limit: Limit, key: str, text: Text) -> str:
    """Text: a comparison with NULL is not true."""
    if limit.levels == ():
        return f"{key} IS NULL" if limit.missing else "1 = 0"
    listed = ", ".join(text_literal(level, text.name) for level in limit.levels or limit.other_than)
    if limit.levels is not None:
        return f"({key} IN ({listed}) OR {key} IS NULL)" if limit.missing else f"{key} IN ({listed})"
    if limit.missing:
        return f"({key} IS NULL OR {key} NOT IN ({listed}))"
    return f"{key} IS NOT NULL AND {key} NOT IN ({listed})"


# ----------------------------------------------------------------------------------------------------------------- ONNX


@nodes.register
def _(map_: TreeMap, family: Family, graph: Graph, x: str) -> str:
    x = graph.widened(x)
    return nodes_of(map_.maps, _leaf_number(map_, graph, [x]) if len(map_.maps) > 1 else "", graph, x)


@row_nodes.register
def _(map_: ClassTreeMap, graph: Graph, x: str) -> tuple[str, str]:
    """The number of the leaf, then its line of probabilities, or the images of its map."""
    columns: list[str] = []
    if map_.splits_scores:
        p = probabilities(map_, graph, x)
        columns = [graph.add("Gather", p, graph.integers(j), axis=1) for j in range(len(map_.classes))]
    leaf = _leaf_number(map_, graph, columns)
    constants = map_.constants
    if constants is not None:
        rows = graph.add("Gather", graph.add("Shape", x), graph.integers([0]))
        return graph.take(constants, graph.add("Expand", leaf, rows)), ""
    out = ""
    for place, part in enumerate(map_.maps):
        image = row_nodes(part, graph, x)[0]
        own = graph.add("Unsqueeze", graph.add("Equal", leaf, graph.integers(place)), graph.integers([-1]))
        out = graph.add("Where", own, image, out) if out else image
    return out, ""


def _leaf_number(map_: TreeNodes, graph: Graph, scores: list[str]) -> str:
    """The number of the leaf, from the leaves up; ``scores`` are the columns of scores, if some node splits them.

    A text tensor has no missing values: the empty text stands for one, so it cannot be a level of the tree.
    """
    columns = {name: graph.doubled(name) for name in map_.numbers}
    codes = {name: _coded(map_, graph, name) for name in map_.columns if name not in columns}
    found = {int(leaf): graph.integers(place) for place, leaf in enumerate(map_.leaves)}
    for node in range(len(map_.left) - 1, -1, -1):
        column = int(map_.columns_split[node])
        if column >= 0:
            name = map_.named(column)
            left = (
                _same(graph, codes[name], map_, node)
                if name in codes
                else _up_to(graph, scores[column] if name is None else columns[name], map_, node)
            )
            found[node] = graph.add("Where", left, found[int(map_.left[node])], found[int(map_.right[node])])
    return found[0]


def _up_to(graph: Graph, x: str, map_: TreeNodes, node: int) -> str:
    left = graph.add("LessOrEqual", x, graph.doubles(float(map_.thresholds[node])))
    return graph.add("Or", left, graph.add("IsNaN", x)) if map_.missing_left[node] else left


def _same(graph: Graph, code: tuple[str, tuple[str, ...]], map_: TreeNodes, node: int) -> str:
    name, levels = code
    left = graph.add("Equal", name, graph.integers(levels.index(map_.levels[node])))
    if not map_.missing_left[node]:
        return left
    return graph.add("Or", left, graph.add("Equal", name, graph.integers(len(levels))))


def _coded(map_: TreeNodes, graph: Graph, name: str) -> tuple[str, tuple[str, ...]]:
    """The number of each row's level among those of a column: one more than the levels for a missing one."""
    split = map_.splits(name).tolist()
    levels = tuple(dict.fromkeys(map_.levels[node] for node in split))
    if "" in levels:
        raise InputError(
            "map",
            f"has the empty text as a level of {name!r}, which ONNX cannot tell from a missing value",
            "replace the empty text before the fit, or use to_sql",
        )
    texts, numbers = [*levels], [*range(len(levels))]
    if name in map_.booleans:
        numbers = [j for j, level in enumerate(levels) for _ in SPELLINGS[level]]
        texts = [same for level in levels for same in SPELLINGS[level]]
    texts, numbers = [*texts, ""], [*numbers, len(levels)]
    keys: dict[str, Any] = {"keys_strings": texts, "values_int64s": numbers, "default_int64": -1}
    return graph.add("LabelEncoder", name, domain=ML, **keys), levels


# ---------------------------------------------------------------------------------------------------------------- proof

RANDOM_ROWS = 100_000
RANDOM_CLASS_ROWS = 20_000
AT_EDGES = 400
"""Scores at the edges of each leaf's map that a proof tries, spread over the leaves."""
MOST_PARTS = 12
"""Leaves whose maps give rows of class scores to try: their edges differ little."""


@proof_rows.register
def _(map_: TreeMap, random_state: int = 0) -> Rows:
    """Rows in every leaf, at edge scores, and random ones at and beside every threshold and level."""
    rng = np.random.default_rng([random_state, 20_266])
    cuts = map_.thresholds[map_.columns_split == 0]
    beside = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf)])
    near = []
    for part in map_.maps:
        marks = proof_scores(part, random_state)
        near.append(np.concatenate([EDGE_SCORES, beside, rng.choice(marks, max(AT_EDGES // len(map_.maps), 20))]))
    marks = np.concatenate([proof_scores(part, random_state) for part in set(map_.maps)] + [beside])
    return _in_leaves(map_, near, rng.choice(marks, RANDOM_ROWS), rng)


@proof_rows.register
def _(map_: ClassTreeMap, random_state: int = 0) -> Rows:
    """As for one score, with rows of class scores."""
    rng = np.random.default_rng([random_state, 20_267])
    crowd = np.concatenate([proof_matrix(part, random_state) for part in list(dict.fromkeys(map_.maps))[:MOST_PARTS]])
    near = []
    for _ in map_.maps:
        rows = crowd[rng.integers(0, len(crowd), max(AT_EDGES // len(map_.maps), 20))]
        near.append(_at_cuts(map_, rows, rng))
    some = rng.permutation(len(crowd))[:RANDOM_CLASS_ROWS]
    return _in_leaves(map_, near, _at_cuts(map_, crowd[some], rng), rng)


def _at_cuts(map_: ClassTreeMap, rows: Floats, rng: np.random.Generator) -> Floats:
    """Rows of probabilities, half of them with a score at or beside a threshold that splits it."""
    rows = rows.copy()
    split = np.flatnonzero((map_.columns_split >= 0) & (map_.columns_split < len(map_.classes)))
    if len(split) and map_.on == "probability":
        moved = np.flatnonzero(rng.random(len(rows)) < 0.5)
        at = rng.choice(split, len(moved))
        cuts = map_.thresholds[at]
        ends = np.stack([np.nextafter(cuts, -np.inf), cuts, np.nextafter(cuts, np.inf)])
        rows[moved, map_.columns_split[at]] = ends[rng.integers(0, 3, len(moved)), np.arange(len(moved))]
    return rows


def _in_leaves(map_: TreeNodes, near: list[Floats], others: Floats, rng: np.random.Generator) -> Rows:
    """Rows whose columns lead to each leaf, as far as columns can, and others with random columns."""
    pools = {name: _pool(map_, name, rng) for name in map_.columns}
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in map_.columns}
    for rows, limits in zip(near, map_.limits, strict=True):
        asked = {limit.column: limit for limit in limits}
        for name, pool in pools.items():
            fits = pool if name not in asked else np.array([v for v in pool if _fits(asked[name], v)], dtype=pool.dtype)
            found[name].append(rng.choice(fits if len(fits) else pool, len(rows)))
    for name, pool in pools.items():
        found[name].append(rng.choice(pool, len(others)))
    return Rows(np.concatenate([*near, others]), {name: np.concatenate(parts) for name, parts in found.items()})


def _pool(map_: TreeNodes, name: str, rng: np.random.Generator) -> NDArray[Any]:
    """Values to try: at and beside every threshold, or every level, and missing."""
    split = map_.splits(name)
    if name in map_.numbers:
        cuts = map_.thresholds[split]
        wide = rng.normal(size=20) * (1.0 + np.abs(cuts).max()) + rng.choice(cuts, 20)
        around = np.concatenate([cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), wide])
        return np.concatenate([around, [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300]])
    levels = list(dict.fromkeys(map_.levels[node] for node in split.tolist()))
    alike = [other for level in levels[:3] for other in (level.swapcase(), f"{level} ", f"{level}.0", f"0{level}")]
    texts = [*levels, None, *dict.fromkeys(text for text in ("1", "true", *alike) if text and text not in levels)]
    pool = np.empty(len(texts), dtype=object)
    pool[:] = texts
    return pool


def _fits(limit: Limit, value: Any) -> bool:
    if value is None or value != value:
        return limit.missing
    if limit.is_text:
        return value in limit.levels if limit.levels is not None else value not in limit.other_than
    return bool(limit.above < value <= limit.upto)


@allowed.register
def _(map_: TreeMap, rows: Rows) -> tuple[Floats, Floats]:
    """As the map of each row's leaf."""
    low, high = np.full(len(rows.scores), np.nan), np.full(len(rows.scores), np.nan)
    s = rows.scores.astype(np.float64)
    leaf = map_.route(s, rows.groups or None)
    for place, part in enumerate(map_.maps):
        own = np.flatnonzero(leaf == place)
        low[own], high[own] = allowed_on_path(part, s[own], s[own], s[own])
    return low, high


@allowed.register
def _(map_: ClassTreeMap, rows: Rows) -> tuple[Floats, Floats]:
    """As the map of each row's leaf, or of a leaf that rounding errors of the probabilities may lead to."""
    s = rows.scores.astype(np.float64)
    low, high = np.full(s.shape, np.nan), np.full(s.shape, np.nan)
    for leaf in _possible_leaves(map_, s, rows):
        for place, part in enumerate(map_.maps):
            own = np.flatnonzero(leaf == place)
            if len(own):
                least, most = allowed(part, Rows(s[own]))
                low[own], high[own] = np.fmin(low[own], least), np.fmax(high[own], most)
    return low, high


def _possible_leaves(map_: ClassTreeMap, s: Floats, rows: Rows) -> list[NDArray[Any]]:
    """The leaf of each row; for splits of probabilities that an engine computes, also with rounding errors."""
    found = [map_.route(s, rows.groups or None)]
    if not (map_.on == "logit" and map_.splits_scores):
        return found
    rng, p = np.random.default_rng(20_268), softmax(s)
    for _ in range(SHAKES):
        shaken = p * (1.0 + TOLERANCE * rng.choice([-1.0, 1.0], p.shape))
        found.append(replace(map_, on="probability", maps=_of_probabilities(map_)).route(shaken, rows.groups or None))
    return found


def _of_probabilities(map_: ClassTreeMap) -> tuple[Any, ...]:
    """Maps to stand in the leaves of the same tree over probabilities, where only the leaf is wanted."""
    return (PerClassMap(map_.classes, (IdentityMap(),) * len(map_.classes), "probability", False),) * len(map_.maps)


@only_copies.register
def _(map_: TreeNodes) -> bool:
    return all(map(only_copies, map_.maps))
