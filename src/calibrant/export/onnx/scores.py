"""A map of one score as an ONNX model.

Smooth maps are computed in double and rounded once at the end, as ``apply`` does it; the runtime's own log and exp may
differ from numpy's in the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.export.kinds import nodes_of
from calibrant.export.onnx.graph import INPUT, OUTPUT, Graph, Precision, Shape
from calibrant.maps import Map

if TYPE_CHECKING:
    import onnx


def score_model(map_: Map, dtype: Precision, shape: Shape | None) -> onnx.ModelProto:
    """The map as a model from ``score`` to ``calibrated``, elementwise; NaN gives NaN.

    A map by group has one more input for each column of groups, called as the column and of its shape: text, whole
    numbers by their digits. A tensor of text has no missing values: any text that is not listed goes to the default.
    Without a default it gives NaN; nothing else does.

    Edge rules: scores beyond the map, infinities included, are held at its ends, as ``apply`` holds them. Step and
    piecewise-linear maps equal :meth:`calibrant.maps.Map.apply` on scores of the same type (but for the sign of a
    zero). Smooth maps agree to 1e-12 in double and, in float32, nearly always to the bit, unless their slope is so
    large that the last bit of a logarithm shows; a step map after a curve may take the neighbouring step where the
    curve is within rounding of a knot. In float32 no probability inside (0, 1) becomes 0 or 1. Whether a score is a
    probability is not looked at.

    Guarantee: that of the map itself, up to the rounding of probabilities to float32.
    Cost: O(log knots) nodes for each map; the time of a score grows with the logarithm too. Groups whose maps differ
    in slope and intercept alone share their nodes.

    Parameters
    ----------
    map_
        Any kind of map.
    dtype
        Type of the scores and of the probabilities.
    shape
        Sizes, or names of sizes, of both: ``("n",)``, ``("n", 1)``. With None not even the rank is declared and any
        shape runs. ONNX allows that, yet ``onnx.checker`` and ``onnx.compose.merge_models`` ask for a shape.
    """
    graph = Graph(dtype, map_.columns)
    calibrated = graph.narrowed(nodes_of((map_,), "", graph, INPUT))
    for unknown in graph.unknown:
        calibrated = graph.add("Where", unknown, np.nan, calibrated)
    if calibrated == INPUT:
        graph.add("Identity", INPUT, output=OUTPUT)
    else:
        graph.add("Where", graph.add("IsNaN", INPUT), INPUT, calibrated, output=OUTPUT)
    return graph.model(f"Calibrated probabilities for a model's scores, by a Calibrant map of kind {map_.kind}.", shape)
