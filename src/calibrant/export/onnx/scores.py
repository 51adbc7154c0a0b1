"""A map as an ONNX model, of core operators alone.

Floats are compared, added and divided in the order of :mod:`calibrant.maps`, so step and piecewise-linear maps give the
same numbers wherever IEEE arithmetic is kept. Smooth maps are computed in double and rounded once at the end, as
``apply`` does it; the runtime's own log and exp may differ from numpy's in the last bit. A score is looked up in a long
table by bisection without branches: four nodes for each doubling of the number of knots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.guarantees.provenance import library_version
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ByGroupMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PiecewiseLinearMap,
    StepMap,
)
from calibrant.messages import InputError, MissingPackage
from calibrant.numerics import FLOAT32_ABOVE_ZERO, FLOAT32_BELOW_ONE, LOG_ODDS_LIMIT, Floats, to_float32

if TYPE_CHECKING:
    import onnx

Precision = Literal["float32", "float64"]
Shape = Sequence[int | str]

OPSET, IR_VERSION = 17, 8
"""Old enough for onnxruntime 1.17 and for most engines of other makers."""

ML, ML_OPSET = "ai.onnx.ml", 2
"""Where text becomes whole numbers."""

INPUT, OUTPUT = "score", "calibrated"


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
    calibrated = graph.narrowed(_lower(map_, graph, INPUT))
    for unknown in graph.unknown:
        calibrated = graph.add("Where", unknown, np.nan, calibrated)
    if calibrated == INPUT:
        graph.add("Identity", INPUT, output=OUTPUT)
    else:
        graph.add("Where", graph.add("IsNaN", INPUT), INPUT, calibrated, output=OUTPUT)
    return graph.model(f"Calibrated probabilities for a model's scores, by a Calibrant map of kind {map_.kind}.", shape)


class Graph:
    """Nodes and constants in the making; results go by name, as expressions do in SQL.

    ``precision`` is the type of the floats under way: that of the input until a lowering asks for doubles. ``columns``
    are inputs of text, and ``unknown`` the names of conditions under which no probability is known.
    """

    def __init__(self, dtype: Precision, columns: Sequence[str] = ()) -> None:
        self._onnx = _package()
        self._columns = tuple(columns)
        if {INPUT, OUTPUT} & set(columns):
            raise InputError(
                "map",
                f"has groups called {INPUT!r} or {OUTPUT!r}, as a model calls its scores",
                "rename it",
            )
        self.unknown: list[str] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}
        self.dtype = self.precision = np.dtype(dtype)

    def add(self, op: str, *inputs: str | float, output: str = "", skipped: int = 0, **attributes: Any) -> str:
        """Name of the result of one more node; numbers among its inputs become constants of the precision.

        ``skipped`` says how many results of the node come before the one that is wanted.
        """
        names = [x if isinstance(x, str) else self.constant(np.array(x, self.precision)) for x in inputs]
        output = output or fresh_name(f"{op}_{len(self._nodes)}", self._columns)
        self._nodes.append(
            self._onnx.helper.make_node(op, names, [*(f"{output}_{j}" for j in range(skipped)), output], **attributes)
        )
        return output

    def constant(self, array: NDArray[Any]) -> str:
        """Name of an array, stored once however often it is asked for."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            name = fresh_name(f"constant_{len(self._constants)}", self._columns)
            self._constants[key] = self._onnx.numpy_helper.from_array(array, name)
        return str(self._constants[key].name)

    def take(self, table: NDArray[Any], index: str) -> str:
        """Entries of a table of floats."""
        return self.add("Gather", self.constant(table.astype(self.precision)), index)

    def locate(self, x: str, knots: NDArray[Any]) -> str:
        """Number of knots at or below ``x``; infinity may count the padding too, up to :func:`_size` less 1.

        Bisection without branches: after each level, ``found`` knots are known to be at or below the score.
        """
        size = _size(knots)
        table = np.full(size, np.inf)
        table[0], table[1 : len(knots) + 1] = -np.inf, knots  # entry j is the j-th knot; entry 0 is never asked for
        found = self.constant(np.array(0, np.int32))
        while size := size // 2:
            more = self.add("Add", found, self.constant(np.array(size, np.int32)))
            reached = self.add("GreaterOrEqual", x, self.take(table, more))
            found = self.add("Where", reached, more, found)
        return found

    def widened(self, x: str) -> str:
        """``x`` in double; so is all that follows."""
        if self.precision == np.float64:
            return x
        self.precision = np.dtype(np.float64)
        return self.add("Cast", x, to=self._onnx.TensorProto.DOUBLE)

    def narrowed(self, p: str) -> str:
        """``p`` in the type of the input, rounded as :func:`calibrant.numerics.to_float32` does.

        What lies beyond the last float32 inside (0, 1) is moved onto it before the cast, which is then exact.
        """
        if self.precision == self.dtype:
            return p
        lower = self.add("Where", self.add("Less", p, 1.0), self.add("Min", p, float(FLOAT32_BELOW_ONE)), p)
        inside = self.add("Where", self.add("Greater", p, 0.0), self.add("Max", lower, float(FLOAT32_ABOVE_ZERO)), p)
        self.precision = self.dtype
        return self.add("Cast", inside, to=self._onnx.TensorProto.FLOAT)

    def model(self, about: str, shape: Shape | None) -> onnx.ModelProto:
        """The finished model."""
        element = self._onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        groups = dict.fromkeys(self._columns, (self._onnx.TensorProto.STRING, shape))
        return self.finished(about, {INPUT: (element, shape), **groups}, {OUTPUT: (element, shape)})

    def finished(
        self, about: str, inputs: Mapping[str, tuple[int, Any]], outputs: Mapping[str, tuple[int, Any]]
    ) -> onnx.ModelProto:
        """The model of these inputs and outputs, each with its type and shape."""
        helper = self._onnx.helper
        given, told = (
            [helper.make_tensor_value_info(name, *each) for name, each in sort.items()] for sort in (inputs, outputs)
        )
        graph = helper.make_graph(self._nodes, "calibrant", given, told, list(self._constants.values()))
        opsets = [("", OPSET), (ML, ML_OPSET)][: 2 if self._columns else 1]
        model: onnx.ModelProto = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in opsets],
            ir_version=IR_VERSION,
            producer_name="calibrant",
            producer_version=library_version(),
            doc_string=about,
        )
        return model


@singledispatch
def _lower(map_: Map, graph: Graph, x: str) -> str:
    """Name of the map's value at ``x``; any number will do where ``x`` is NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no ONNX form")


@_lower.register
def _(map_: IdentityMap, graph: Graph, x: str) -> str:
    return x


@_lower.register
def _(map_: StepMap, graph: Graph, x: str) -> str:
    knots, values = map_.knots, map_.values
    if graph.precision == np.float32:
        return graph.take(_padded(to_float32(values), knots), graph.locate(x, _rounded_up(knots)))
    return graph.take(_padded(values, knots), graph.locate(x, knots))


@_lower.register
def _(map_: PiecewiseLinearMap, graph: Graph, x: str) -> str:
    knots, values = map_.knots, map_.values
    x = graph.add("Clip", graph.widened(x), float(knots[0]), float(knots[-1]))
    piece = graph.locate(x, knots)  # at least 1, at most all knots
    start, end = graph.take(np.append(values[0], values), piece), graph.take(np.append(values, values[-1]), piece)
    x = graph.add("Sub", x, graph.take(np.append(knots[0], knots), piece))
    x = graph.add("Div", x, graph.take(np.concatenate([[1.0], np.diff(knots), [1.0]]), piece))
    x = graph.add("Mul", x, graph.take(np.concatenate([[0.0], np.diff(values), [0.0]]), piece))
    x = graph.add("Max", graph.add("Add", x, start), graph.add("Min", start, end))
    return graph.add("Min", x, graph.add("Max", start, end))


@_lower.register
def _(map_: LogitAffineMap, graph: Graph, x: str) -> str:
    x = _axis(map_, graph, graph.widened(x))
    return expit_of(graph, graph.add("Add", graph.add("Mul", x, map_.slope), map_.intercept))


def _axis(map_: LogitAffineMap, graph: Graph, x: str) -> str:
    """What the map is affine in."""
    if map_.on == "score":
        return graph.add("Clip", x, -LARGEST, LARGEST)
    x = graph.add("Clip", x, map_.low, map_.high)
    return graph.add("Log", graph.add("Div", x, graph.add("Sub", 1.0, x)))


@_lower.register
def _(map_: BetaMap, graph: Graph, x: str) -> str:
    x = graph.add("Clip", graph.widened(x), map_.low, map_.high)
    other = graph.add("Mul", log_of_the_rest(graph, x), map_.b)
    x = graph.add("Sub", graph.add("Mul", graph.add("Log", x), map_.a), other)
    return expit_of(graph, graph.add("Add", x, map_.c))


@_lower.register
def _(map_: ByGroupMap, graph: Graph, x: str) -> str:
    x, others = graph.widened(x), len(map_.groups)
    keys: dict[str, Any] = {"keys_strings": map_.groups, "values_int64s": range(others), "default_int64": others}
    code = graph.add("LabelEncoder", map_.by, domain=ML, **keys)

    def reached(place: int) -> str:
        return graph.add("Equal", code, graph.constant(np.array(place, np.int64)))

    if map_.default is None:
        graph.unknown.append(reached(others))
        out = ""
    else:
        out = _lower(map_.default, graph, x)
    if map_.lines is None:
        for place, part in enumerate(map_.maps):
            image = _lower(part, graph, x)
            out = graph.add("Where", reached(place), image, out) if out else image
        return out
    like, slopes, intercepts = map_.lines
    slope, intercept = (graph.take(np.append(numbers, 0.0), code) for numbers in (slopes, intercepts))
    lines = expit_of(graph, graph.add("Add", graph.add("Mul", _axis(like, graph, x), slope), intercept))
    return graph.add("Where", reached(others), out, lines) if out else lines


@_lower.register
def _(map_: ComposeMap, graph: Graph, x: str) -> str:
    x = graph.widened(x)
    for part in map_.maps:
        x = _lower(part, graph, x)
    return x


def log_of_the_rest(graph: Graph, x: str) -> str:
    """log(1 - x) to the last bits also for small x, where 1 - x is rounded; ONNX has no log1p.

    With u = 1 - x as rounded, it is log(u) - (x - (1 - u)) / u: what u is off by is exact, and its square negligible.
    """
    rest = graph.add("Sub", 1.0, x)
    off = graph.add("Sub", x, graph.add("Sub", 1.0, rest))
    return graph.add("Sub", graph.add("Log", rest), graph.add("Div", off, rest))


def expit_of(graph: Graph, z: str) -> str:
    """The probability of log-odds."""
    held = graph.add("Neg", graph.add("Clip", z, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))
    return graph.add("Div", 1.0, graph.add("Add", graph.add("Exp", held), 1.0))


def _size(knots: NDArray[Any]) -> int:
    """Length of the padded table: the least power of two above the number of knots."""
    return 1 << len(knots).bit_length()


def _padded(values: NDArray[Any], knots: NDArray[Any]) -> NDArray[Any]:
    """One value for every count that :meth:`Graph.locate` can give; past the last knot it stays the last."""
    return np.pad(values, (0, _size(knots) - len(values)), mode="edge")


def _rounded_up(knots: Floats) -> NDArray[np.float32]:
    """The least float32 at or above each knot: a float32 reaches the one exactly where it reaches the other."""
    with np.errstate(over="ignore", under="ignore"):  # beyond the range lies infinity, which reaches such a knot too
        near = knots.astype(np.float32)
        up = np.nextafter(near, np.float32(np.inf))
    return np.where(near < knots, up, near) + np.float32(0.0)  # no -0.0


def fresh_name(name: str, taken: Sequence[str]) -> str:
    """The name, longer where it is taken."""
    while name in taken:
        name += "_"
    return name


def _package() -> ModuleType:
    try:
        import onnx
    except ImportError:
        raise MissingPackage("an ONNX model", "the package onnx", "calibrant[onnx]") from None
    return onnx
