"""A map of one score as an ONNX model.

Smooth maps are computed in double precision and rounded once at the end, as in ``apply``; the runtime's log and exp may
differ from numpy's in the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.export.kinds import nodes_of
from calibrant.export.languages.onnx_graph import INPUT, OUTPUT, Graph, Precision, Shape, Versions
from calibrant.maps import Map

if TYPE_CHECKING:
    import onnx


def score_model(
    map_: Map, dtype: Precision, shape: Shape | None, versions: Versions, bounded: bool = False
) -> onnx.ModelProto:
    """The map as a model from ``score`` to ``calibrated``, elementwise; NaN gives NaN.

    A map by group has one more input for each group column, with the name of the column and its shape: text, with
    integers as digits. A text tensor has no missing values: any text that is not listed uses the default. Without a
    default it gives NaN; nothing else does. A map by the leaves of a tree has inputs of numbers too, of the type of the
    scores, with NaN for missing values; a missing text is the empty text.

    Edge cases: if scores are not bounded, those beyond the map, including infinities, are clipped to its ends, as in
    ``apply``. Step and piecewise-linear maps equal :meth:`calibrant.maps.Map.apply` on scores of the same type (except
    for the sign of a zero). Smooth maps agree to 1e-12 in double precision and nearly always bit for bit in float32,
    unless their slope is so large that the last bit of a logarithm matters. A step map after a curve may take the
    neighboring step if the curve is within rounding of a knot. In float32 no probability inside (0, 1) becomes 0 or 1.

    Guarantee: that of the map itself, up to the rounding of probabilities to float32.
    Cost: O(log knots) nodes for each map; the time per score grows with the logarithm too. Groups whose maps differ
    only in slope and intercept share their nodes.

    Parameters
    ----------
    map_
        Any kind of map.
    dtype
        Type of the scores and of the probabilities.
    shape
        Sizes, or names of sizes, of both: ``("n",)``, ``("n", 1)``. With None not even the rank is declared and any
        shape runs. ONNX allows that, but ``onnx.checker`` and ``onnx.compose.merge_models`` require a shape.
    versions
        Versions of the operator set and of the format.
    bounded
        Whether scores are probabilities: a number more than 1e-6 outside [0, 1] then gives NaN.
    """
    graph = Graph(dtype, versions, map_.columns, map_.numbers)
    known = graph.inside(INPUT) if bounded else ""
    calibrated = graph.narrowed(nodes_of((map_,), "", graph, graph.clip(INPUT, 0.0, 1.0) if bounded else INPUT))
    for unknown in graph.unknown:
        calibrated = graph.add("Where", unknown, np.nan, calibrated)
    if bounded:
        graph.add("Where", known, calibrated, np.nan, output=OUTPUT)
    elif calibrated == INPUT:
        graph.add("Identity", INPUT, output=OUTPUT)
    else:
        graph.add("Where", graph.add("IsNaN", INPUT), INPUT, calibrated, output=OUTPUT)
    return graph.model(f"Calibrated probabilities for a model's scores, by a Calibrant map of kind {map_.kind}.", shape)
