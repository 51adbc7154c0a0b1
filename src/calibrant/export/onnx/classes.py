"""A map of several classes as an ONNX model, with core operators only.

Everything is computed in double precision and rounded once at the end, as in ``apply``. Maps of one score of the same
kind share their nodes, so the number of nodes does not grow with the number of classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.export.kinds import row_nodes
from calibrant.export.languages.onnx_graph import OUTPUT, Graph, Precision, Versions
from calibrant.maps import MulticlassMap
from calibrant.messages import InputError

if TYPE_CHECKING:
    import onnx

ROWS, LABEL = "scores", "label"

INT64, TEXT = 7, 8
"""Type numbers in ONNX."""


def rows_model(map_: MulticlassMap, dtype: Precision, versions: Versions, bounded: bool = False) -> onnx.ModelProto:
    """The map as a model from ``scores``, n rows of K, to ``calibrated``, n rows of as many as the map gives.

    A map of top classes also gives ``label``, the columns of the classes that the probabilities are about. A map by
    group has one more input, with the name of the column of groups: text, one for each row. A tree has an input for
    each column: numbers of the type of the scores, with NaN for missing values, or text, with the empty text for them.

    Edge rules: NaN in a row makes its results NaN and its labels -1; nothing else does, but that a map of paths gives
    NaN where it abstains. Tables of the scores themselves equal :meth:`calibrant.maps.MulticlassMap.apply` on scores of
    the same type, softmax agrees to 1e-12 in double and to one step of a float32; a table after softmax may take the
    neighboring step where the probability is within rounding of a knot. If scores are probabilities (``bounded``),
    a number more than 1e-6 outside [0, 1] makes its row NaN. Whether a row sums to 1 is not looked at.

    Guarantee: that of the map itself, up to the rounding of probabilities to float32.
    Cost: nodes in proportion to the kinds of maps among the parts and to the logarithm of their knots; constants of
    (number of parts) x (most knots of a part, up to the next power of two).

    Examples
    --------
    >>> import onnxruntime
    >>> from calibrant.maps import SoftmaxMap
    >>> model = rows_model(SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9), "float32", Versions())
    >>> session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> session.run(["calibrated"], {"scores": np.array([[0.25, 0.75]], dtype=np.float32)})[0].round(3).tolist()
    [[0.10000000149011612, 0.8999999761581421]]
    """
    for name in (ROWS, LABEL):
        if name in map_.columns:
            raise InputError("map", f"needs a column named {name!r}, which the model has itself", "rename the column")
    graph = Graph(dtype, versions, map_.columns, map_.numbers)
    unknown = graph.add("Not", graph.inside(ROWS)) if bounded else graph.add("IsNaN", ROWS)
    x = graph.add("Where", unknown, 0.0, ROWS)
    x = graph.clip(x, 0.0, 1.0) if bounded else x
    missing = _any(graph, unknown)
    calibrated, labels = row_nodes(map_, graph, graph.widened(x))
    graph.add("Where", missing, float("nan"), graph.narrowed(calibrated), output=OUTPUT)
    element = 1 if dtype == "float32" else 11
    outputs: dict[str, tuple[int, Any]] = {OUTPUT: (element, ("n", len(map_.outputs)))}
    if labels:
        graph.add("Where", missing, graph.integers(-1), labels, output=LABEL)
        outputs[LABEL] = INT64, ("n", len(map_.outputs))
    about = f"Calibrated probabilities of {len(map_.classes)} classes, by a Calibrant map of kind {map_.kind}."
    inputs: dict[str, tuple[int, Any]] = {ROWS: (element, ("n", len(map_.classes)))}
    beside = {name: (element if name in map_.numbers else TEXT, ("n",)) for name in map_.columns}
    return graph.finished(about, inputs | beside, outputs)


def _any(graph: Graph, flags: str) -> str:
    """Whether any flag of a row is set, as a column."""
    counted = graph.add("ReduceSum", graph.add("Cast", flags, to=6), graph.integers([1]), keepdims=1)
    return graph.add("Greater", counted, graph.constant(np.array(0, np.int32)))
