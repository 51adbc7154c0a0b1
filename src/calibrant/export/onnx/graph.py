"""Nodes and constants of an ONNX model in the making, of core operators alone.

Floats are compared, added and divided in the order of :mod:`calibrant.maps`, so step and piecewise-linear maps give the
same numbers wherever IEEE arithmetic is kept. A score is looked up in a long table by bisection without branches: four
nodes for each doubling of the number of knots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.guarantees.provenance import library_version
from calibrant.messages import InputError, MissingPackage
from calibrant.numerics import FLOAT32_ABOVE_ZERO, FLOAT32_BELOW_ONE, LOG_ODDS_LIMIT

if TYPE_CHECKING:
    import onnx

Precision = Literal["float32", "float64"]
Shape = Sequence[int | str]

OPSET, IR_VERSION = 17, 8
"""Old enough for onnxruntime 1.17 and for most engines of other makers."""

ML, ML_OPSET = "ai.onnx.ml", 2
"""Where text becomes integers."""

INPUT, OUTPUT = "score", "calibrated"


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

    def integers(self, value: Any) -> str:
        """Integers as a constant."""
        return self.constant(np.array(value, np.int64))

    def doubles(self, values: Any) -> str:
        """Doubles as a constant."""
        return self.constant(np.array(values, np.float64))

    def take(self, table: NDArray[Any], index: str) -> str:
        """Entries of a table of floats."""
        return self.add("Gather", self.constant(table.astype(self.precision)), index)

    def locate(self, x: str, knots: Sequence[NDArray[Any]], which: str = "") -> str:
        """Number of knots at or below ``x`` in the list that ``which`` names, from where the list's table begins.

        A table is as long as the least power of two above the most knots; infinity may count its padding too.
        Bisection without branches: after each level, ``found`` knots are known to be at or below the score.
        """
        size = table_size(knots)
        table = np.full((len(knots), size), np.inf)
        table[:, 0] = -np.inf  # never read: entry j is the j-th knot
        for row, own in zip(table, knots, strict=True):
            row[1 : len(own) + 1] = own
        index = np.int64 if len(knots) > 1 else np.int32
        found = self.add("Mul", which, self.constant(np.array(size, index))) if len(knots) > 1 else ""
        found = found or self.constant(np.array(0, index))
        while size := size // 2:
            more = self.add("Add", found, self.constant(np.array(size, index)))
            reached = self.add("GreaterOrEqual", x, self.take(table.reshape(-1), more))
            found = self.add("Where", reached, more, found)
        return found

    def clip(self, x: str, low: str | float, high: str | float) -> str:
        """``x`` moved between two ends."""
        if isinstance(low, float) and isinstance(high, float):
            return self.add("Clip", x, low, high)
        return self.add("Max", self.add("Min", x, high), low)

    def expit(self, z: str) -> str:
        """The probability of log-odds."""
        held = self.add("Neg", self.clip(z, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))
        return self.add("Div", 1.0, self.add("Add", self.add("Exp", held), 1.0))

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
        given, found = (
            [helper.make_tensor_value_info(name, *each) for name, each in sort.items()] for sort in (inputs, outputs)
        )
        graph = helper.make_graph(self._nodes, "calibrant", given, found, list(self._constants.values()))
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


@dataclass(frozen=True)
class Family:
    """Maps of one structure that share their nodes; ``which`` names the integers that choose one for each element."""

    maps: Sequence[Any]
    which: str
    graph: Graph

    def number(self, of: Callable[[Any], float]) -> str | float:
        """A number of the element's own map."""
        values = [of(part) for part in self.maps]
        return values[0] if len(set(values)) == 1 else self.graph.take(np.array(values), self.which)

    def locate(self, x: str, knots: Callable[[Any], NDArray[Any]] = lambda part: part.knots) -> str:
        """Place of ``x`` among the knots of its own map, for :meth:`entry`."""
        return self.graph.locate(x, [knots(part) for part in self.maps], self.which)

    def entry(self, of: Callable[[Any], NDArray[Any]], place: str, *, padded: bool = False) -> str:
        """The entry at a place in the table of the element's own map; ``padded``: the place may be beyond the table."""
        rows = [of(part) for part in self.maps]
        size = table_size([part.knots for part in self.maps]) if padded or len(rows) > 1 else len(rows[0])
        return self.graph.take(np.concatenate([np.pad(row, (0, size - len(row)), mode="edge") for row in rows]), place)


def table_size(knots: Sequence[NDArray[Any]]) -> int:
    """Length of a padded table: the least power of two above the largest number of knots."""
    return 1 << max(map(len, knots)).bit_length()


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
