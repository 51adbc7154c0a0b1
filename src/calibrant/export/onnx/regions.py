"""Maps that look a row up, in the simplex or along a path of a taxonomy, as nodes of an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.export.onnx.classes import lower, numbers, probabilities, rows_model, whole
from calibrant.export.onnx.scores import Graph
from calibrant.export.sql.regions import cut_nodes, leaves_beneath
from calibrant.maps.paths import PathMap
from calibrant.maps.simplex import SimplexBinsMap, grid_cells, region_count
from calibrant.numerics import Floats

__all__ = ["rows_model"]  # with the lowerings of every kind of map


@lower.register
def _(map_: SimplexBinsMap, graph: Graph, x: str) -> tuple[str, str]:
    schemes = {"projection": _by_rules, "sierpinski": _halved, "grid": _in_cells}
    region = schemes[map_.scheme](map_, graph, probabilities(map_, graph, x))
    return graph.add("Gather", numbers(graph, map_.outputs_by_region), region, axis=0), ""


def _by_rules(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    sums = summed(graph, p, map_.rules.T)
    return first_true(graph, graph.add("Less", sums, numbers(graph, np.append(map_.thresholds, np.inf))))


def summed(graph: Graph, p: str, weights: Floats) -> str:
    """Weighted sums over the classes, one after the other as ``apply`` takes them; and a column of zeros.

    ``weights`` has a row for each class. Terms of weight 0 add nothing, so that their place does not matter.
    """
    total = ""
    for j, row in enumerate(weights):
        column = graph.add("Gather", p, whole(graph, [j]), axis=1)
        term = graph.add("Mul", column, numbers(graph, np.append(row, 0.0)))
        total = graph.add("Add", total, term) if total else term
    return total


def first_true(graph: Graph, flags: str) -> str:
    """Place of the first flag of each row that is set."""
    return graph.add("ArgMax", graph.add("Cast", flags, to=6), axis=1, keepdims=0)


def _halved(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    size = len(map_.classes)
    everyone = np.column_stack([np.eye(size), np.zeros(size)])
    turned = numbers(graph, np.eye(size + 1)[:, :size])
    inside, code = whole(graph, 1), whole(graph, 0)
    for level in range(map_.size, 0, -1):
        parts = region_count("sierpinski", size, level - 1) if level > 1 else 1
        wide = graph.add("MatMul", p, numbers(graph, everyone))  # a column more, which is always above a half
        wide = graph.add("Add", wide, numbers(graph, np.append(np.zeros(size), 1.0)))
        place = first_true(graph, graph.add("Greater", wide, 0.5))
        code = graph.add("Add", code, graph.add("Mul", inside, graph.add("Mul", place, whole(graph, parts))))
        going = graph.add("Cast", graph.add("Less", place, whole(graph, size)), to=7)
        inside = graph.add("Mul", inside, going)
        p = graph.add("Sub", graph.add("Mul", p, 2.0), graph.add("Gather", turned, place, axis=0))
    return code


def _in_cells(map_: SimplexBinsMap, graph: Graph, p: str) -> str:
    size, count = map_.size, len(map_.classes)
    least, most = max(count, size + 1), size + count - 1
    k = graph.add("Clip", graph.add("Ceil", graph.add("Mul", p, float(size))), 1.0, float(size))
    axis = whole(graph, [1])
    short = graph.add("Max", graph.add("Sub", float(least), graph.add("ReduceSum", k, axis, keepdims=1)), 0.0)
    k = graph.add("Add", k, graph.add("Mul", short, numbers(graph, np.eye(count)[-1:])))
    over = graph.add("Sub", graph.add("ReduceSum", k, axis, keepdims=1), float(most))
    spare = graph.add("Sub", k, 1.0)
    room = graph.add("MatMul", spare, numbers(graph, np.tril(np.ones((count, count)), -1)))  # of the classes behind
    off = graph.add("Max", graph.add("Min", graph.add("Sub", over, room), spare), 0.0)
    digits = size ** np.arange(count - 1, -1, -1, dtype=np.int64)
    weights = numbers(graph, digits[None].astype(np.float64))
    key = graph.add("ReduceSum", graph.add("Mul", graph.add("Sub", spare, off), weights), axis, keepdims=0)
    keys = ((grid_cells(count, size) - 1) * digits).sum(axis=1)
    return graph.locate(key, keys[1:].astype(np.float64))


@lower.register
def _(map_: PathMap, graph: Graph, x: str) -> tuple[str, str]:
    """The predicted leaf and its bin, then the rates of the bin, spread over the nodes of the path."""
    top = graph.add("ArgMax", x, axis=1, keepdims=0)
    most = int(map_.sizes.max())
    bins = whole(graph, map_.first_bins[map_.groups])
    found = graph.add("Gather", bins, top)
    if most:
        found = graph.add("Add", found, _first_above(map_, graph, probabilities(map_, graph, x), top, most))
    rates = graph.add("Gather", numbers(graph, np.nan_to_num(map_.bin_rates)), found, axis=0)
    spread = graph.add("Gather", rates, whole(graph, map_.taxonomy.depths - 1), axis=1)
    on_path = np.zeros((len(map_.classes), len(map_.nodes)), dtype=bool)
    for row, code in zip(on_path, map_.leaf_codes, strict=True):
        path = map_.taxonomy.paths[code]
        row[path[path >= 0]] = True
    there = graph.add("Gather", graph.constant(on_path), top, axis=0)
    return graph.add("Where", there, spread, float("nan")), ""


def _first_above(map_: PathMap, graph: Graph, p: str, top: str, most: int) -> str:
    """Place of the first cut above its score, among the cuts of the predicted leaf and one that is never reached."""
    size = len(map_.classes)
    cuts, places = np.full((size, most + 1), np.inf), np.zeros((size, most + 1), dtype=np.int64)
    nodes = sorted({node for j in range(size) for node in cut_nodes(map_, j)})
    starts = np.append(0, np.cumsum(map_.sizes))
    for j, group in enumerate(map_.groups.tolist()):
        own = map_.cuts[starts[group] : starts[group + 1]]
        cuts[j, : len(own)] = own
        places[j, : len(own)] = [nodes.index(node) for node in cut_nodes(map_, j)]
    sums = _node_scores(graph, p, [leaves_beneath(map_, node) for node in nodes], size)
    told = graph.add("GatherElements", sums, graph.add("Gather", whole(graph, places), top, axis=0), axis=1)
    return first_true(graph, graph.add("Less", told, graph.add("Gather", numbers(graph, cuts), top, axis=0)))


def _node_scores(graph: Graph, p: str, beneath: Sequence[Sequence[int]], size: int) -> str:
    """Scores of nodes: columns as they are where a node is a leaf, sums of columns elsewhere."""
    if all(len(each) == 1 for each in beneath):
        return graph.add("Gather", p, whole(graph, [each[0] for each in beneath]), axis=1)
    weights: NDArray[np.float64] = np.zeros((size, len(beneath)))
    for column, each in zip(weights.T, beneath, strict=True):
        column[list(each)] = 1.0
    return summed(graph, p, weights)
