"""A map of several classes as an ONNX model, of core operators alone.

All is computed in double and rounded once at the end, as ``apply`` does it. Maps of single scores are not written one
by one: those of one kind become tables with a row for each, from which every element of the matrix takes its own
numbers, so that the number of nodes does not grow with the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.onnx.scores import OUTPUT, Graph, Precision, expit_of, log_of_the_rest
from calibrant.maps import (
    LARGEST,
    BetaMap,
    ClassMap,
    ComposeMap,
    IdentityMap,
    LogitAffineMap,
    Map,
    PerClassMap,
    PiecewiseLinearMap,
    SoftmaxMap,
    StepMap,
    TopMap,
)
from calibrant.maps.classes import LARGEST_LOGIT
from calibrant.numerics import Floats

if TYPE_CHECKING:
    import onnx

ROWS, LABEL = "scores", "label"

INT64 = 7
"""The number of the type in ONNX."""


def rows_model(map_: ClassMap, dtype: Precision) -> onnx.ModelProto:
    """The map as a model from ``scores``, n rows of K, to ``calibrated``, n rows of as many as the map gives.

    A map of top classes also gives ``label``, the columns of the classes that the probabilities are about.

    Edge rules: NaN in a row makes its results NaN and its labels -1; nothing else does, but that a map of paths gives
    NaN where it abstains. Tables of the scores themselves equal :meth:`calibrant.maps.ClassMap.apply` on scores of the
    same type, softmax agrees to 1e-12 in double and to one step of a float32; a table after softmax may take the
    neighbouring step where the probability is within rounding of a knot. Whether a row sums to 1 is not looked at.

    Guarantee: that of the map itself, up to the rounding of probabilities to float32.
    Cost: nodes in proportion to the kinds of maps among the parts and to the logarithm of their knots; constants of
    (number of parts) x (most knots of a part, up to the next power of two).

    Examples
    --------
    >>> import onnxruntime
    >>> model = rows_model(SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9), "float32")
    >>> session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> session.run(["calibrated"], {"scores": np.array([[0.25, 0.75]], dtype=np.float32)})[0].round(3).tolist()
    [[0.10000000149011612, 0.8999999761581421]]
    """
    graph = Graph(dtype)
    unknown = graph.add("IsNaN", ROWS)
    x = graph.add("Where", unknown, 0.0, ROWS)
    missing = _any(graph, unknown)
    calibrated, labels = lower(map_, graph, graph.widened(x))
    graph.add("Where", missing, float("nan"), graph.narrowed(calibrated), output=OUTPUT)
    element = 1 if dtype == "float32" else 11
    outputs: dict[str, tuple[int, Any]] = {OUTPUT: (element, ("n", len(map_.outputs)))}
    if labels:
        graph.add("Where", missing, whole(graph, -1), labels, output=LABEL)
        outputs[LABEL] = INT64, ("n", len(map_.outputs))
    about = f"Calibrated probabilities of {len(map_.classes)} classes, by a Calibrant map of kind {map_.kind}."
    return graph.finished(about, {ROWS: (element, ("n", len(map_.classes)))}, outputs)


def _any(graph: Graph, flags: str) -> str:
    """Whether any flag of a row is set, as a column."""
    counted = graph.add("ReduceMax", graph.add("Cast", flags, to=6), axes=[1], keepdims=1)
    return graph.add("Greater", counted, graph.constant(np.array(0, np.int32)))


def whole(graph: Graph, value: Any) -> str:
    """Whole numbers as a constant."""
    return graph.constant(np.array(value, np.int64))


def numbers(graph: Graph, values: Any) -> str:
    """Doubles as a constant."""
    return graph.constant(np.array(values, np.float64))


@singledispatch
def lower(map_: ClassMap, graph: Graph, x: str) -> tuple[str, str]:
    """Names of the probabilities and of the labels, empty where there are none; ``x`` are doubles without NaN."""
    raise ValueError(f"a map of kind {map_.kind!r} has no ONNX form")


def probabilities(map_: ClassMap, graph: Graph, x: str) -> str:
    """The rows as probabilities."""
    return graph.add("Softmax", held(graph, x), axis=-1) if map_.on == "logit" else x


def held(graph: Graph, x: str) -> str:
    """Logits, inside the range of :data:`~calibrant.maps.classes.LARGEST_LOGIT`."""
    return graph.add("Clip", x, -LARGEST_LOGIT, LARGEST_LOGIT)


@lower.register
def _(map_: SoftmaxMap, graph: Graph, x: str) -> tuple[str, str]:
    size = len(map_.classes)
    z = graph.add("Log", graph.add("Clip", probabilities(map_, graph, x), map_.clamp, 1.0))
    if len(map_.slope) in (1, size):
        z = graph.add("Mul", z, numbers(graph, map_.slope))
    else:
        z = graph.add("MatMul", z, numbers(graph, map_.slope.reshape(size, size).T))
    if len(map_.intercept):
        z = graph.add("Add", z, numbers(graph, map_.intercept))
    return graph.add("Softmax", z, axis=-1), ""


@lower.register
def _(map_: PerClassMap, graph: Graph, x: str) -> tuple[str, str]:
    size = len(map_.classes)
    p = chosen(map_.maps, whole(graph, np.arange(size)[None]), graph, probabilities(map_, graph, x))
    if not map_.normalised:
        return p, ""
    total = graph.add("ReduceSum", p, whole(graph, [1]), keepdims=1)
    some = graph.add("Greater", total, 0.0)
    shares = graph.add("Div", p, graph.add("Where", some, total, 1.0))
    return graph.add("Where", some, shares, 1.0 / size), ""


@lower.register
def _(map_: TopMap, graph: Graph, x: str) -> tuple[str, str]:
    codes = graph.add("TopK", x, whole(graph, [map_.ranks]), skipped=1, axis=1, largest=1, sorted=1)
    values = graph.add("GatherElements", probabilities(map_, graph, x), codes, axis=1)
    ranks = np.arange(map_.ranks)[None]
    own = graph.add("Add", codes, whole(graph, ranks * len(map_.classes))) if map_.by_label else whole(graph, ranks)
    return chosen(map_.maps, own, graph, values), codes


# ------------------------------------------------------------------------------------------ one of many maps of a score


def chosen(maps: Sequence[Map], which: str, graph: Graph, x: str) -> str:
    """Each element of ``x`` through the map that the whole number beside it names.

    Maps of one structure share their nodes; of several structures, each gives its result for all elements.
    """
    families: dict[Any, list[int]] = {}
    for place, part in enumerate(maps):
        families.setdefault(_structure(part), []).append(place)
    out = ""
    for places in families.values():
        family = [maps[place] for place in places]
        if len(families) == 1:
            return _FAMILIES[family[0].kind](family, which, graph, x)
        inside, member = np.zeros(len(maps), dtype=np.int64), np.zeros(len(maps), dtype=bool)
        inside[places], member[places] = np.arange(len(places)), True
        image = _FAMILIES[family[0].kind](family, graph.add("Gather", graph.constant(inside), which), graph, x)
        hit = graph.add("Gather", graph.constant(member), which)
        out = graph.add("Where", hit, image, out) if out else image
    return out


def _structure(map_: Map) -> Any:
    """What maps must have in common to share their nodes."""
    if isinstance(map_, ComposeMap):
        return tuple(map(_structure, map_.maps))
    return map_.kind, getattr(map_, "on", "")


def _identity(maps: Sequence[Any], which: str, graph: Graph, x: str) -> str:
    return x


def _steps(maps: Sequence[StepMap], which: str, graph: Graph, x: str) -> str:
    place = _located([part.knots for part in maps], which, graph, x)
    return graph.take(_tables([part.values for part in maps], _size(maps)), place)


def _lines(maps: Sequence[PiecewiseLinearMap], which: str, graph: Graph, x: str) -> str:
    first, last = (graph.take(np.array([part.knots[end] for part in maps]), which) for end in (0, -1))
    x = graph.add("Max", graph.add("Min", x, last), first)
    place = _located([part.knots for part in maps], which, graph, x)  # at least 1, at most all knots

    def number(of: Callable[[Floats, Floats], Floats]) -> str:
        return graph.take(_tables([of(part.knots, part.values) for part in maps], _size(maps)), place)

    start, end = number(lambda k, v: np.append(v[0], v)), number(lambda k, v: np.append(v, v[-1]))
    x = graph.add("Sub", x, number(lambda k, v: np.append(k[0], k)))
    x = graph.add("Div", x, number(lambda k, v: np.concatenate([[1.0], np.diff(k), [1.0]])))
    x = graph.add("Mul", x, number(lambda k, v: np.concatenate([[0.0], np.diff(v), [0.0]])))
    x = graph.add("Max", graph.add("Add", x, start), graph.add("Min", start, end))
    return graph.add("Min", x, graph.add("Max", start, end))


def _affine(maps: Sequence[LogitAffineMap], which: str, graph: Graph, x: str) -> str:
    if maps[0].on == "score":
        x = graph.add("Clip", x, -LARGEST, LARGEST)
    else:
        x = _inside(maps, which, graph, x)
        x = graph.add("Log", graph.add("Div", x, graph.add("Sub", 1.0, x)))
    slope, intercept = (
        graph.take(np.array(each), which) for each in zip(*((part.slope, part.intercept) for part in maps), strict=True)
    )
    return expit_of(graph, graph.add("Add", graph.add("Mul", x, slope), intercept))


def _betas(maps: Sequence[BetaMap], which: str, graph: Graph, x: str) -> str:
    x = _inside(maps, which, graph, x)
    a, b, c = (
        graph.take(np.array(each), which) for each in zip(*((part.a, part.b, part.c) for part in maps), strict=True)
    )
    other = graph.add("Mul", log_of_the_rest(graph, x), b)
    return expit_of(graph, graph.add("Add", graph.add("Sub", graph.add("Mul", graph.add("Log", x), a), other), c))


def _inside(maps: Sequence[LogitAffineMap] | Sequence[BetaMap], which: str, graph: Graph, x: str) -> str:
    low, high = (graph.take(np.array(each), which) for each in zip(*((m.low, m.high) for m in maps), strict=True))
    return graph.add("Max", graph.add("Min", x, high), low)


def _stages(maps: Sequence[ComposeMap], which: str, graph: Graph, x: str) -> str:
    for stage in zip(*(part.maps for part in maps), strict=True):
        x = chosen(stage, which, graph, x)
    return x


_FAMILIES: dict[str, Callable[[Any, str, Graph, str], str]] = {
    IdentityMap.kind: _identity,
    StepMap.kind: _steps,
    PiecewiseLinearMap.kind: _lines,
    LogitAffineMap.kind: _affine,
    BetaMap.kind: _betas,
    ComposeMap.kind: _stages,
}
"""How maps of one kind, and of one structure, are written together."""


def _size(maps: Sequence[StepMap] | Sequence[PiecewiseLinearMap]) -> int:
    """Length of a padded table: the least power of two above the largest number of knots."""
    return 1 << max(len(part.knots) for part in maps).bit_length()


def _tables(rows: Sequence[NDArray[Any]], size: int) -> NDArray[Any]:
    """One table after the other, each filled up with its last number."""
    return np.concatenate([np.pad(row, (0, size - len(row)), mode="edge") for row in rows])


def _located(knots: Sequence[Floats], which: str, graph: Graph, x: str) -> str:
    """Place in the tables: the number of knots at or below ``x``, by bisection without branches."""
    size = 1 << max(map(len, knots)).bit_length()
    table = np.full((len(knots), size), np.inf)
    table[:, 0] = -np.inf
    for row, each in zip(table, knots, strict=True):
        row[1 : len(each) + 1] = each
    found = graph.add("Mul", which, whole(graph, size))
    while size := size // 2:
        more = graph.add("Add", found, whole(graph, size))
        found = graph.add("Where", graph.add("GreaterOrEqual", x, graph.take(table.reshape(-1), more)), more, found)
    return found
