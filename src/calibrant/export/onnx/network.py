"""A map behind a network: one ONNX model from the network's inputs to calibrated probabilities.

The map is written with the operator set, the precision and the shape of the network's own output, so nothing has to be
looked up. Outputs of the network stay, and ``calibrated`` is added.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.arrays.paths import local_path
from calibrant.export.errors import own_errors
from calibrant.export.languages.onnx_graph import (
    INPUT,
    LEAST_OPSET,
    ML,
    ML_OPSET,
    OPSET,
    OUTPUT,
    Precision,
    Shape,
    onnx_package,
)
from calibrant.export.onnx.classes import LABEL, ROWS
from calibrant.export.onnx.model import METADATA, OPEN, proven_model, session_of
from calibrant.maps import Map, MulticlassMap
from calibrant.messages import InputError, listed

if TYPE_CHECKING:
    import onnx

Network = str | PathLike[str] | Any
"""An ``onnx.ModelProto``, or the path of its file."""

OWN = "calibrant/"
"""Prefix of the names of the map's nodes and constants."""

FLOAT, DOUBLE = 1, 11
"""Type numbers in ONNX."""
PRECISIONS: dict[int, Precision] = {FLOAT: "float32", DOUBLE: "float64"}
BOTH_CLASSES = 2


class Scores(NamedTuple):
    """An output of the network that can be calibrated: its tensor, its type, and its shape if it is declared."""

    name: str
    tensor: str
    element: int
    shape: Shape | None


def behind(map_: Map, document: str, network: Network, output: str | None, *, bounded: bool) -> onnx.ModelProto:
    """The network followed by the map; see :meth:`calibrant.Calibration.to_onnx`."""
    whole = _read(network)
    scores = _chosen(map_, _candidates(whole), output)
    operators = _operators(whole)
    shape = scores.shape
    if shape is not None and _is_matrix(scores):
        shape = shape[:1]
    if isinstance(map_, MulticlassMap):
        shape = OPEN
    try:
        version = operators.get("", OPSET)
        model = proven_model(map_, document, PRECISIONS[scores.element], shape, version, None, bounded=bounded)
    except InputError as error:
        raise (error.about("network") if error.argument == "opset" else error) from None
    _join(whole, model, scores, operators, isinstance(map_, MulticlassMap))
    with own_errors("network", InputError):
        session_of(whole.SerializeToString())
    return whole


def _read(network: Network) -> onnx.ModelProto:
    """A copy of the network, with an operator set that the map can share."""
    package = onnx_package()
    if isinstance(network, str | PathLike):
        path = local_path(network, "network")
        try:
            network = package.load(path)
        except OSError:
            raise
        except Exception:
            raise InputError("network", f"{path.name} is not an ONNX model", "pass a file that ends in .onnx") from None
    elif not isinstance(network, package.ModelProto):
        kind = type(network).__name__
        raise InputError(
            "network", f"has the type {kind}, not onnx.ModelProto", "pass a model, or the path of its file"
        )
    whole: onnx.ModelProto = package.ModelProto()
    whole.CopyFrom(network)
    version = _operators(whole).get("", OPSET)
    if version >= LEAST_OPSET:
        return whole
    try:
        whole = package.version_converter.convert_version(whole, OPSET)
    except Exception:
        problem = f"has operator set {version}, a map needs {LEAST_OPSET}, and the package onnx cannot convert it"
        fix = f"export the network again with opset {LEAST_OPSET} or later, such as {OPSET}"
        raise InputError("network", problem, fix) from None
    return whole


def _operators(model: onnx.ModelProto) -> dict[str, int]:
    """Versions of the operator sets, by domain; the usual one has the empty name."""
    return {"" if each.domain == "ai.onnx" else each.domain: each.version for each in model.opset_import}


def _candidates(model: onnx.ModelProto) -> dict[str, Scores]:
    """Outputs with numbers, by name; a ZipMap, which lists a dictionary for each row, is read before it does."""
    zipped = {node.output[0]: node for node in model.graph.node if node.op_type == "ZipMap"}
    found = {}
    for each in model.graph.output:
        if each.name in zipped:
            node = zipped[each.name]
            count = sum(
                len(one.ints) + len(one.strings) for one in node.attribute if one.name.startswith("classlabels")
            )
            found[each.name] = Scores(each.name, node.input[0], FLOAT, ("n", count))
        elif each.type.tensor_type.elem_type in PRECISIONS:
            tensor = each.type.tensor_type
            sizes = tuple(
                size.dim_value or size.dim_param or f"d{place}" for place, size in enumerate(tensor.shape.dim)
            )
            shape = sizes if tensor.HasField("shape") else None
            found[each.name] = Scores(each.name, each.name, tensor.elem_type, shape)
    return found


def _chosen(map_: Map, found: dict[str, Scores], output: str | None) -> Scores:
    """The output that the map reads."""
    names = listed([repr(name) for name in found], "or")
    if not found:
        raise InputError("network", "has no output of type float32 or float64", "export its probabilities or logits")
    if output is None and len(found) > 1:
        raise InputError("output", "is needed, since the network has several outputs of numbers", f"pass {names}")
    name = next(iter(found)) if output is None else output
    if name not in found:
        raise InputError("output", f"is {name!r}, which is not an output of numbers of the network", f"pass {names}")
    scores = found[name]
    wanted = len(map_.classes) if isinstance(map_, MulticlassMap) else BOTH_CLASSES
    columns = scores.shape[-1] if scores.shape and len(scores.shape) == BOTH_CLASSES else None
    if isinstance(columns, int) and columns not in ((wanted,) if isinstance(map_, MulticlassMap) else (1, wanted)):
        needed = f"{wanted} columns" if isinstance(map_, MulticlassMap) else "one score, or two classes"
        fix = "pass another output, or fit the map to what this network gives"
        raise InputError("output", f"{name!r} has {columns} columns, and the map is of {needed}", fix)
    return scores


def _is_matrix(scores: Scores) -> bool:
    """Whether the output has a column for each of two classes, of which a map of one score takes the second."""
    return scores.shape is not None and tuple(scores.shape[1:]) == (BOTH_CLASSES,)


def _join(
    whole: onnx.ModelProto, model: onnx.ModelProto, scores: Scores, operators: dict[str, int], several: bool
) -> None:
    """Add the nodes, constants, inputs and outputs of the map to the network."""
    package = onnx_package()
    wanted, given = (ROWS if several else INPUT), scores.tensor
    taken = {each.name for each in (*whole.graph.input, *whole.graph.output)}
    taken |= {name for node in whole.graph.node for name in node.output}
    outputs = {each.name for each in model.graph.output}
    for name in sorted(outputs | {each.name for each in model.graph.input if each.name != wanted}):
        if name in taken:
            fix = "rename it there" if name in (OUTPUT, LABEL) else "rename it there, or the column of the map"
            raise InputError("network", f"has a tensor named {name!r}, which the map adds", fix)
    if not several and _is_matrix(scores):
        given = f"{OWN}{INPUT}"
        second = package.numpy_helper.from_array(np.array(1, np.int64), f"{OWN}second")
        whole.graph.initializer.append(second)
        whole.graph.node.append(package.helper.make_node("Gather", [scores.tensor, second.name], [given], axis=1))
    own = {each.name: f"{OWN}{each.name}" for each in model.graph.initializer}
    own |= {name: f"{OWN}{name}" for node in model.graph.node for name in node.output if name not in outputs}
    own[wanted] = given
    for node in model.graph.node:
        added = whole.graph.node.add()
        added.CopyFrom(node)
        added.input[:] = [own.get(name, name) for name in node.input]
        added.output[:] = [own.get(name, name) for name in node.output]
    for constant in model.graph.initializer:
        whole.graph.initializer.add().CopyFrom(constant)
        whole.graph.initializer[-1].name = own[constant.name]
    whole.graph.input.extend(each for each in model.graph.input if each.name != wanted)
    whole.graph.output.extend(model.graph.output)
    whole.metadata_props.extend(each for each in model.metadata_props if each.key.startswith(METADATA))
    for each in model.opset_import:
        if each.domain not in operators:
            whole.opset_import.add().CopyFrom(each)
        elif each.domain == ML and operators[ML] < ML_OPSET:
            fix = f"export the network again with {ML} {ML_OPSET} or later"
            raise InputError("network", f"has version {operators[ML]} of {ML}, and groups need {ML_OPSET}", fix)
    whole.ir_version = max(whole.ir_version, model.ir_version)
