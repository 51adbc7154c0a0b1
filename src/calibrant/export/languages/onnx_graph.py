"""Builder of ONNX models, with core operators only.

Floats are compared, added and divided in the order of :mod:`calibrant.maps`, so step and piecewise-linear maps give the
same numbers under IEEE arithmetic. A score is looked up in a long table by branch-free bisection: four nodes for each
doubling of the number of knots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.columns import is_whole
from calibrant.arrays.score_types import PROBABILITY_ENDS
from calibrant.guarantees.provenance import library_version
from calibrant.messages import InputError, MissingPackage
from calibrant.numerics import FLOAT32_ABOVE_ZERO, FLOAT32_BELOW_ONE, LOG_ODDS_LIMIT

if TYPE_CHECKING:
    import onnx

Precision = Literal["float32", "float64"]
Shape = Sequence[int | str]

OPSET, IR_VERSION = 17, 8
"""Versions of the operator set and of the format, supported by onnxruntime 1.17 and most other engines."""

LEAST_OPSET = 13
"""The first operator set that has every operator as it is used here."""

ML, ML_OPSET = "ai.onnx.ml", 2
"""Operator set version of ``ai.onnx.ml``, which converts text to integers."""

INPUT, OUTPUT = "score", "calibrated"


class Versions(NamedTuple):
    """Versions of the operator set and of the format (IR) that a model declares."""

    opset: int = OPSET
    ir: int = IR_VERSION

    @classmethod
    def of(cls, opset: int | None, ir_version: int | None) -> Versions:
        """The versions asked for: by default operator set 17, and the first IR version that goes with the set."""
        package = onnx_package()
        newest = package.defs.onnx_opset_version()
        if opset is not None and not (is_whole(opset) and LEAST_OPSET <= opset <= newest):
            known = f"those of the installed onnx {package.__version__} are {LEAST_OPSET} to {newest}"
            raise InputError("opset", f"must be the version of an operator set, got {opset!r}", known)
        operators = OPSET if opset is None else int(opset)
        least = package.helper.find_min_ir_version_for([package.helper.make_opsetid("", operators)])
        if ir_version is None:
            return cls(operators, max(least, IR_VERSION))
        if not (is_whole(ir_version) and least <= ir_version <= package.IR_VERSION):
            known = f"opset {operators} goes with {least} to {package.IR_VERSION} in the installed onnx"
            raise InputError("ir_version", f"must be a version of the format, got {ir_version!r}", known)
        return cls(operators, int(ir_version))


class Graph:
    """Nodes and constants of a model; results are referred to by name.

    ``precision`` is the current floating-point type: that of the input until doubles are requested. ``columns`` are
    further inputs, text unless they are among ``numbers``, and ``unknown`` the names of conditions under which there is
    no probability.
    """

    def __init__(
        self, dtype: Precision, versions: Versions, columns: Sequence[str] = (), numbers: Sequence[str] = ()
    ) -> None:
        self._onnx = onnx_package()
        self._versions = versions
        self._columns, self._numbers = tuple(columns), tuple(numbers)
        if {INPUT, OUTPUT} & set(columns):
            raise InputError(
                "map",
                f"has a group column named {INPUT!r} or {OUTPUT!r}, which the model uses for scores",
                "rename the column",
            )
        self.unknown: list[str] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}
        self.dtype = self.precision = np.dtype(dtype)

    def add(self, op: str, *inputs: str | float, output: str = "", skipped: int = 0, **attributes: Any) -> str:
        """Add a node and return the name of its result; numbers among its inputs become constants.

        ``skipped`` is the number of results of the node before the wanted one.
        """
        names = [x if isinstance(x, str) else self.constant(np.array(x, self.precision)) for x in inputs]
        output = output or fresh_name(f"{op}_{len(self._nodes)}", self._columns)
        self._nodes.append(
            self._onnx.helper.make_node(op, names, [*(f"{output}_{j}" for j in range(skipped)), output], **attributes)
        )
        return output

    def constant(self, array: NDArray[Any]) -> str:
        """Name of a constant array, stored once."""
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
        """Number of knots at or below ``x`` in the list with index ``which``, as an index into the joint table.

        The length of a table is the smallest power of two above the largest number of knots; infinity may count its
        padding too. Branch-free bisection: after each level, ``found`` knots are known to be at or below the score.
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
        """``x`` clipped to an interval."""
        if isinstance(low, float) and isinstance(high, float):
            return self.add("Clip", x, low, high)
        return self.add("Max", self.add("Min", x, high), low)

    def inside(self, x: str) -> str:
        """Whether ``x`` is a probability, up to rounding; NaN is none."""
        low, high = PROBABILITY_ENDS
        return self.add("And", self.add("GreaterOrEqual", x, low), self.add("LessOrEqual", x, high))

    def expit(self, z: str) -> str:
        """The probability of log-odds."""
        held = self.add("Neg", self.clip(z, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT))
        return self.add("Div", 1.0, self.add("Add", self.add("Exp", held), 1.0))

    def widened(self, x: str) -> str:
        """``x`` in double precision, also for everything that follows."""
        if self.precision == np.float64:
            return x
        self.precision = np.dtype(np.float64)
        return self.add("Cast", x, to=self._onnx.TensorProto.DOUBLE)

    def doubled(self, name: str) -> str:
        """An input of numbers in double precision."""
        if self.dtype == np.float64:
            return name
        return self.add("Cast", name, to=self._onnx.TensorProto.DOUBLE)

    def narrowed(self, p: str) -> str:
        """``p`` in the type of the input, rounded like :func:`calibrant.numerics.to_float32`.

        Values beyond the last float32 inside (0, 1) are clipped to it before the cast, which is then exact.
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
        text = self._onnx.TensorProto.STRING
        groups = {name: (element if name in self._numbers else text, shape) for name in self._columns}
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
        opsets = [("", self._versions.opset), (ML, ML_OPSET)][: 2 if self._columns else 1]
        model: onnx.ModelProto = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*opset) for opset in opsets],
            ir_version=self._versions.ir,
            producer_name="calibrant",
            producer_version=library_version(),
            doc_string=about,
        )
        return model


@dataclass(frozen=True)
class Family:
    """Maps of one structure that share their nodes; ``which`` is the name of the index of each element's map."""

    maps: Sequence[Any]
    which: str
    graph: Graph

    def number(self, of: Callable[[Any], float]) -> str | float:
        """A number of the element's own map."""
        values = [of(part) for part in self.maps]
        return values[0] if len(set(values)) == 1 else self.graph.take(np.array(values), self.which)

    def locate(self, x: str, knots: Callable[[Any], NDArray[Any]] = lambda part: part.knots) -> str:
        """Position of ``x`` among the knots of its own map, for :meth:`entry`."""
        return self.graph.locate(x, [knots(part) for part in self.maps], self.which)

    def entry(self, of: Callable[[Any], NDArray[Any]], place: str, *, padded: bool = False) -> str:
        """Entry of the table of the element's own map; ``padded``: the position may be beyond the table."""
        rows = [of(part) for part in self.maps]
        size = table_size([part.knots for part in self.maps]) if padded or len(rows) > 1 else len(rows[0])
        return self.graph.take(np.concatenate([np.pad(row, (0, size - len(row)), mode="edge") for row in rows]), place)


def table_size(knots: Sequence[NDArray[Any]]) -> int:
    """Length of a padded table: the smallest power of two above the largest number of knots."""
    return 1 << max(map(len, knots)).bit_length()


def fresh_name(name: str, taken: Sequence[str]) -> str:
    """The name, extended if it is taken."""
    while name in taken:
        name += "_"
    return name


def onnx_package() -> ModuleType:
    """The package onnx, or an error that says how to install it."""
    try:
        import onnx
    except ImportError:
        raise MissingPackage("an ONNX model", "the package onnx", "calibrant[onnx]") from None
    return onnx
