"""Export of maps that look up a row, in regions of the simplex or along a taxonomy path, to SQL and ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.export.kinds.classes import by_code, probabilities, ranked, row_nodes, shares
from calibrant.export.kinds.stages import lower
from calibrant.export.languages.onnx_graph import Graph
from calibrant.export.languages.sql.cases import branch
from calibrant.export.languages.sql.formulas import held_between
from calibrant.export.languages.sql.text import SMALL, Text
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap, grid_cells, region_count
from calibrant.numerics import Floats

# ------------------------------------------------------------------------------------------------------------- simplex


@lower.register
def _(map_: SimplexBinsMap, text: Text, x: list[str], place: int) -> str:
    values = map_.outputs_by_region[:, place]
    schemes = {"projection": _by_rules, "sierpinski": _halved, "grid": _in_cells}
    return _probabilities(text, x, map_.on, lambda t, p: schemes[map_.scheme](map_, t, p, values))


def _probabilities(text: Text, x: list[str], on: str, body: Callable[[Text, list[str]], str]) -> str:
    """The body over names for the probabilities."""
    return shares(text, x, body) if on == "logit" else text.named(x, body)


def _by_rules(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """The value of the first rule whose threshold is not reached."""
    rules = zip(map_.rules.tolist(), map_.thresholds.tolist(), values.tolist(), strict=False)
    whens = [f"WHEN {_projected(text, p, q)} < {text.number(t)} THEN {text.number(value)}" for q, t, value in rules]
    last = text.number(values[-1])
    return f"CASE {' '.join(whens)} ELSE {last} END" if whens else last


def _projected(text: Text, p: list[str], direction: list[float]) -> str:
    """Sum of products over the classes; a factor of 1 is omitted, so that it cannot underflow."""
    terms = []
    for each, weight in zip(p, direction, strict=True):
        if abs(weight) == 1.0:
            terms.append(each if weight > 0 else f"-{each}")
        elif weight and not text.dialect.raises:
            terms.append(f"{each} * {text.number(weight)}")
        elif abs(weight) >= SMALL:
            zero, small = text.number(0.0), text.number(SMALL)
            terms.append(f"CASE WHEN {each} >= {small} THEN {each} * {text.number(weight)} ELSE {zero} END")
    return " + ".join(terms) if terms else text.number(0.0)


def _halved(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """Level by level: the part is chosen by the one class above 1/2, and rescaled."""
    size, half, two = len(p), text.number(0.5), text.number(2.0)

    def level(t: Text, given: list[str], left: int, chosen: list[str]) -> str:
        hits = " ".join(f"WHEN {each} > {half} THEN {j}" for j, each in enumerate(given, start=1))
        return t.named([f"CASE {hits} ELSE {size + 1} END"], lambda u, code: below(u, given, left, [*chosen, code[0]]))

    def below(t: Text, given: list[str], left: int, chosen: list[str]) -> str:
        if left == 1:
            return looked_up(t, values, chosen)
        one, zero, code = t.number(1.0), t.number(0.0), chosen[-1]
        taken = [f"CASE WHEN {code} = {j} THEN {one} ELSE {zero} END" for j in range(1, size + 1)]
        blown = [f"{two} * {each} - {part}" for each, part in zip(given, taken, strict=True)]
        return t.named(blown, lambda u, inner: level(u, inner, left - 1, chosen))

    def looked_up(t: Text, table: Floats, codes: list[str]) -> str:
        if len(table) == 1:
            return t.number(table[0])
        parts = (len(table) - 1) // size
        leaves = [looked_up(t, table[j * parts : (j + 1) * parts], codes[1:]) for j in range(size)]
        return by_code(t, codes[0], [*leaves, t.number(table[-1])])

    assert len(values) == region_count("sierpinski", size, map_.size)
    return level(text, p, map_.size, [])


def _in_cells(map_: SimplexBinsMap, text: Text, p: list[str], values: Floats) -> str:
    """The cell of each class, adjusted to a possible sum, as one number."""
    size, count = map_.size, len(p)
    cells, one = text.number(size), text.number(1.0)
    least, most = max(count, size + 1), size + count - 1
    digits = size ** np.arange(count - 1, -1, -1, dtype=np.int64)
    keys = ((grid_cells(count, size) - 1) * digits).sum(axis=1)

    def filled(t: Text, k: list[str]) -> str:
        short = t.largest([f"{t.number(least)} - ({' + '.join(k)})", t.number(0.0)])
        return t.named([*k[:-1], f"{k[-1]} + {short}"], lowered)

    def lowered(t: Text, k: list[str]) -> str:
        over = f"{' + '.join(k)} - {t.number(most)}"
        return t.named([over], lambda u, excess: keyed(u, k, excess[0]))

    def keyed(t: Text, k: list[str], over: str) -> str:
        terms = []
        for j, each in enumerate(k):
            room = "".join(f" - ({other} - {one})" for other in k[j + 1 :])
            off = held_between(t.dialect, f"{over}{room}", t.number(0.0), f"{each} - {one}")
            terms.append(f"({each} - {one} - {off}) * {t.number(digits[j])}")
        return t.named([" + ".join(terms)], lambda u, key: looked_up(u, key[0]))

    def looked_up(t: Text, key: str) -> str:
        return branch(key, keys[1:].astype(np.float64), [t.number(value) for value in values], t.dialect)

    real = text.dialect.real
    return text.named(
        [
            f"{text.dialect.largest}(CAST(ceil({text.dialect.least}({each}, {one}) * {cells}) AS {real}), {one})"
            for each in p
        ],
        filled,
    )


@row_nodes.register
def _(map_: SimplexBinsMap, graph: Graph, x: str) -> tuple[str, str]:
    schemes = {"projection": _rule_nodes, "sierpinski": _halving_nodes, "grid": _cell_nodes}
    region = schemes[map_.scheme](map_, graph, probabilities(map_, graph, x))
    return graph.add("Gather", graph.doubles(map_.outputs_by_region), region, axis=0), ""


def _rule_nodes(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    sums = _summed(graph, p, map_.rules.T)
    return _first_true(graph, graph.add("Less", sums, graph.doubles(np.append(map_.thresholds, np.inf))))


def _summed(graph: Graph, p: str, weights: Floats) -> str:
    """Weighted sums over the classes, in the order of ``apply``, and a column of zeros.

    ``weights`` has a row for each class. Terms of weight 0 add nothing, so their position does not matter.
    """
    total = ""
    for j, row in enumerate(weights):
        column = graph.add("Gather", p, graph.integers([j]), axis=1)
        term = graph.add("Mul", column, graph.doubles(np.append(row, 0.0)))
        total = graph.add("Add", total, term) if total else term
    return total


def _first_true(graph: Graph, flags: str) -> str:
    """Index of the first set flag of each row."""
    return graph.add("ArgMax", graph.add("Cast", flags, to=6), axis=1, keepdims=0)


def _halving_nodes(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    size = len(map_.classes)
    everyone = np.column_stack([np.eye(size), np.zeros(size)])
    turned = graph.doubles(np.eye(size + 1)[:, :size])
    inside, code = graph.integers(1), graph.integers(0)
    for level in range(map_.size, 0, -1):
        parts = region_count("sierpinski", size, level - 1) if level > 1 else 1
        wide = graph.add("MatMul", p, graph.doubles(everyone))  # one more column, which is always above 1/2
        wide = graph.add("Add", wide, graph.doubles(np.append(np.zeros(size), 1.0)))
        place = _first_true(graph, graph.add("Greater", wide, 0.5))
        code = graph.add("Add", code, graph.add("Mul", inside, graph.add("Mul", place, graph.integers(parts))))
        going = graph.add("Cast", graph.add("Less", place, graph.integers(size)), to=7)
        inside = graph.add("Mul", inside, going)
        p = graph.add("Sub", graph.add("Mul", p, 2.0), graph.add("Gather", turned, place, axis=0))
    return code


def _cell_nodes(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    size, count = map_.size, len(map_.classes)
    least, most = max(count, size + 1), size + count - 1
    k = graph.add("Clip", graph.add("Ceil", graph.add("Mul", p, float(size))), 1.0, float(size))
    axis = graph.integers([1])
    short = graph.add("Max", graph.add("Sub", float(least), graph.add("ReduceSum", k, axis, keepdims=1)), 0.0)
    k = graph.add("Add", k, graph.add("Mul", short, graph.doubles(np.eye(count)[-1:])))
    over = graph.add("Sub", graph.add("ReduceSum", k, axis, keepdims=1), float(most))
    spare = graph.add("Sub", k, 1.0)
    room = graph.add("MatMul", spare, graph.doubles(np.tril(np.ones((count, count)), -1)))  # of the later classes
    off = graph.add("Max", graph.add("Min", graph.add("Sub", over, room), spare), 0.0)
    digits = size ** np.arange(count - 1, -1, -1, dtype=np.int64)
    weights = graph.doubles(digits[None].astype(np.float64))
    key = graph.add("ReduceSum", graph.add("Mul", graph.add("Sub", spare, off), weights), axis, keepdims=0)
    keys = ((grid_cells(count, size) - 1) * digits).sum(axis=1)
    return graph.locate(key, [keys[1:].astype(np.float64)])


# --------------------------------------------------------------------------------------------------------------- paths


@lower.register
def _(map_: PathMap, text: Text, x: list[str], place: int) -> str:
    """The rate of one node: NULL if it is not on the path of the largest score."""
    beneath = [j for j in range(len(x)) if place in map_.taxonomy.paths[map_.leaf_codes[j]]]
    nodes = sorted({node for j in beneath for node in cut_nodes(map_, j)})

    def rate(t: Text, p: list[str], code: str) -> str:
        sums = [" + ".join(p[j] for j in leaves_beneath(map_, node)) for node in nodes]
        if not sums:
            return chosen(t, code, {})
        return t.named(sums, lambda u, given: chosen(u, code, dict(zip(nodes, given, strict=True))))

    def chosen(t: Text, code: str, sums: dict[int, str]) -> str:
        nothing = f"CAST(NULL AS {t.dialect.real})"
        leaves = [_rates(map_, t, j, place, sums) if j in beneath else nothing for j in range(len(x))]
        return by_code(t, code, leaves)

    def ranked_first(t: Text, scores: list[str]) -> str:
        return ranked(t, scores, 0, True, lambda u, s, _, code: of_probabilities(u, s, code))

    def of_probabilities(t: Text, scores: list[str], code: str) -> str:
        if map_.on == "probability" or not nodes:
            return rate(t, scores, code)
        return shares(t, scores, lambda u, p: rate(u, p, code))

    return text.named(x, ranked_first)


def cut_nodes(map_: PathMap, leaf: int) -> list[int]:
    """The node whose score is compared with each cut of a class."""
    start = int(map_.sizes[: map_.groups[leaf]].sum())
    levels = map_.levels[start : start + map_.sizes[map_.groups[leaf]]]
    path = map_.taxonomy.paths[map_.leaf_codes[leaf]]
    return [int(path[level]) for level in levels]


def leaves_beneath(map_: PathMap, node: int) -> list[int]:
    """Columns of the leaves below a node."""
    return [j for j, code in enumerate(map_.leaf_codes) if node in map_.taxonomy.paths[code]]


def _rates(map_: PathMap, text: Text, leaf: int, node: int, sums: dict[int, str]) -> str:
    """The rate of a node by the bin of the row, for rows with one predicted leaf."""
    group = int(map_.groups[leaf])
    start, count = int(map_.sizes[:group].sum()), int(map_.sizes[group])
    cuts, on = map_.cuts[start : start + count], cut_nodes(map_, leaf)
    first = int(map_.first_bins[group])
    level = int(map_.taxonomy.depths[node]) - 1
    rates = [text.number(rate) for rate in map_.bin_rates[first : first + count + 1, level]]
    if len(set(on)) <= 1 and (np.diff(cuts) > 0.0).all():
        return branch(sums[on[0]], cuts, rates, text.dialect) if on else rates[0]
    whens = [
        f"WHEN {sums[each]} < {text.number(cut)} THEN {rate}" for each, cut, rate in zip(on, cuts, rates, strict=False)
    ]
    return f"CASE {' '.join(whens)} ELSE {rates[-1]} END"


@row_nodes.register
def _(map_: PathMap, graph: Graph, x: str) -> tuple[str, str]:
    """The predicted leaf and its bin, then the rates of the bin, spread over the nodes of the path."""
    top = graph.add("ArgMax", x, axis=1, keepdims=0)
    most = int(map_.sizes.max())
    bins = graph.integers(map_.first_bins[map_.groups])
    found = graph.add("Gather", bins, top)
    if most:
        found = graph.add("Add", found, _first_above(map_, graph, probabilities(map_, graph, x), top, most))
    rates = graph.add("Gather", graph.doubles(np.nan_to_num(map_.bin_rates)), found, axis=0)
    spread = graph.add("Gather", rates, graph.integers(map_.taxonomy.depths - 1), axis=1)
    on_path = np.zeros((len(map_.classes), len(map_.nodes)), dtype=bool)
    for row, code in zip(on_path, map_.leaf_codes, strict=True):
        path = map_.taxonomy.paths[code]
        row[path[path >= 0]] = True
    there = graph.add("Gather", graph.constant(on_path), top, axis=0)
    return graph.add("Where", there, spread, float("nan")), ""


def _first_above(map_: PathMap, graph: Graph, p: str, top: str, most: int) -> str:
    """Index of the first cut above its score, among the cuts of the predicted leaf and one that is never reached."""
    size = len(map_.classes)
    cuts, places = np.full((size, most + 1), np.inf), np.zeros((size, most + 1), dtype=np.int64)
    nodes = sorted({node for j in range(size) for node in cut_nodes(map_, j)})
    starts = np.append(0, np.cumsum(map_.sizes))
    for j, group in enumerate(map_.groups.tolist()):
        own = map_.cuts[starts[group] : starts[group + 1]]
        cuts[j, : len(own)] = own
        places[j, : len(own)] = [nodes.index(node) for node in cut_nodes(map_, j)]
    sums = _node_scores(graph, p, [leaves_beneath(map_, node) for node in nodes], size)
    scores = graph.add("GatherElements", sums, graph.add("Gather", graph.integers(places), top, axis=0), axis=1)
    return _first_true(graph, graph.add("Less", scores, graph.add("Gather", graph.doubles(cuts), top, axis=0)))


def _node_scores(graph: Graph, p: str, beneath: Sequence[Sequence[int]], size: int) -> str:
    """Scores of nodes: columns for leaves, sums of columns for other nodes."""
    if all(len(each) == 1 for each in beneath):
        return graph.add("Gather", p, graph.integers([each[0] for each in beneath]), axis=1)
    weights: NDArray[np.float64] = np.zeros((size, len(beneath)))
    for column, each in zip(weights.T, beneath, strict=True):
        column[list(each)] = 1.0
    return _summed(graph, p, weights)
