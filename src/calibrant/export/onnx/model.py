"""ONNX models that contain their map and proof, verified before they are written."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.export.errors import DocumentError, own_errors
from calibrant.export.files import write_whole
from calibrant.export.kinds import Rows, proof_rows
from calibrant.export.kinds.samples import unlisted
from calibrant.export.languages.onnx_graph import INPUT, OUTPUT, Precision, Shape, Versions
from calibrant.export.onnx.classes import LABEL, ROWS, rows_model
from calibrant.export.onnx.scores import score_model
from calibrant.export.proof import Proof, compare
from calibrant.maps import Map, MulticlassMap, TopMap
from calibrant.maps.trees import TreeNodes
from calibrant.messages import InputError, Setting

if TYPE_CHECKING:
    import onnx

METADATA = "calibrant."

MAX_RUNS = 5_000
"""Largest number of runs of a model with a fixed number of scores; edges and neighbors of knots come first."""

OPEN: Shape = ("n",)
"""The shape of one column of any length."""


def to_onnx(
    map_: Map,
    dtype: Precision = "float32",
    *,
    shape: Shape | None = OPEN,
    opset: int | None = None,
    ir_version: int | None = None,
    bounded: bool = False,
) -> onnx.ModelProto:
    """The map as an ONNX model; if scores are probabilities (``bounded``), other numbers give NaN.

    For one score, from ``score`` to ``calibrated``, elementwise: see :func:`calibrant.export.onnx.scores.score_model`.
    For several classes, from ``scores`` to ``calibrated``, row by row: see
    :func:`calibrant.export.onnx.classes.rows_model`. The same map gives the same bytes.

    Examples
    --------
    >>> import onnxruntime
    >>> from calibrant.maps import StepMap
    >>> model = to_onnx(StepMap([0.5], [0.1, 0.8]))
    >>> session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    >>> (calibrated,) = session.run(["calibrated"], {"score": np.array([0.2, 0.5], dtype=np.float32)})
    >>> calibrated
    array([0.1, 0.8], dtype=float32)
    """
    if dtype not in get_args(Precision):
        raise InputError("dtype", f"must be one of {', '.join(get_args(Precision))}, got {dtype!r}")
    versions = Versions.of(opset, ir_version)
    if not isinstance(map_, MulticlassMap):
        return score_model(map_, dtype, shape, versions, bounded)
    if shape != OPEN:
        raise InputError("shape", "cannot be set for a map of several classes", "leave it out")
    return rows_model(map_, dtype, versions, bounded)


def proven_model(
    map_: Map,
    document: str,
    dtype: Precision,
    shape: Shape | None,
    opset: int | None,
    ir_version: int | None,
    *,
    bounded: bool,
) -> onnx.ModelProto:
    """The model with its proof and document inside; see :meth:`calibrant.Calibration.to_onnx`."""
    model = to_onnx(map_, dtype, shape=shape, opset=opset, ir_version=ir_version, bounded=bounded)
    with own_errors(Setting("opset", model.opset_import[0].version), InputError):
        session = session_of(model.SerializeToString())
    proof = prove_model(map_, session, bounded=bounded)
    held = {"proof": json.dumps(asdict(proof), allow_nan=False), "document": document}
    for name, value in held.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"{METADATA}{name}", value
    return model


def write_model(model: onnx.ModelProto, path: Path) -> Proof:
    """Write a model that contains its proof, and return the proof."""
    write_whole(path, model.SerializeToString(deterministic=True))
    (proof,) = (entry.value for entry in model.metadata_props if entry.key == f"{METADATA}proof")
    return Proof.from_dict(json.loads(proof))


def document_in(session: Any) -> str:
    """The document inside a model."""
    held = session.get_modelmeta().custom_metadata_map
    if f"{METADATA}document" not in held:
        raise DocumentError("the model", "was not exported by Calibrant: it contains no calibration")
    return str(held[f"{METADATA}document"])


def prove_model(map_: Map, session: Any, *, bounded: bool = False) -> Proof:
    """The proof that an onnxruntime session gives the results of the map, or an :class:`ExportMismatchError`."""
    import onnxruntime

    inputs = {each.name: each for each in session.get_inputs()}
    if not inputs.keys() & {ROWS, INPUT}:
        raise DocumentError("the model", "has a network before the map: verify a model of the map alone, by to_onnx()")
    wanted_input = ROWS if isinstance(map_, MulticlassMap) else INPUT
    if wanted_input not in inputs:
        raise DocumentError("the model", f"lacks the input {wanted_input!r} of its document: export it again")
    score = inputs[wanted_input]
    dtype = np.dtype(np.float32 if score.type == "tensor(float)" else np.float64)
    rows = proof_rows(map_)
    with np.errstate(over="ignore", under="ignore"):
        tree = isinstance(map_, TreeNodes)
        groups = {
            name: v.astype(dtype) if name in map_.numbers else v if tree else _without_gaps(map_, name, v)
            for name, v in rows.groups.items()
        }
        rows = Rows(rows.scores.astype(dtype), groups)
    wanted = [OUTPUT, LABEL][: 2 if isinstance(map_, TopMap) else 1]
    if isinstance(map_, MulticlassMap):
        rows = rows if bounded else rows.take(~np.isinf(rows.scores).any(axis=1))
        found, *labels = session.run(wanted, {score.name: rows.scores, **_filled(rows)})
    else:
        given = {score.name: rows.scores, **_filled(rows)}
        blocks = {name: _in_shape(values, score.shape) for name, values in given.items()}
        runs = (dict(zip(blocks, block, strict=True)) for block in zip(*blocks.values(), strict=True))
        found, labels = np.concatenate([session.run(wanted, run)[0].reshape(-1) for run in runs]), []
        seen = min(len(found), len(rows.scores))
        rows, found = rows.take(slice(seen)), found[:seen]
    name = f"onnxruntime {onnxruntime.__version__}, {session.get_providers()[0]}, {dtype}"
    if tree and set(map_.columns) - set(map_.numbers):
        name += ", with the empty text for missing text"
    return compare(map_, rows, found, name, labels[0] if labels else None, bounded=bounded)


def _filled(rows: Rows) -> dict[str, NDArray[Any]]:
    """The columns, with the empty text for missing text."""
    return {name: v if v.dtype != object else np.where(v == None, "", v) for name, v in rows.groups.items()}  # noqa: E711


def _without_gaps(map_: Map, name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Replace missing groups by a text that the map does not list, since a tensor has no NULL."""
    return np.array([unlisted(map_, name) if value is None else value for value in values], dtype=object)


def _in_shape(values: NDArray[Any], shape: Sequence[int | str | None]) -> list[NDArray[Any]]:
    """The values in this shape, some repeated to fill it; with a fixed shape, as many as the allowed runs take."""
    if not shape:
        return [values]
    fixed = [size if isinstance(size, int) else 1 for size in shape]
    filled = np.resize(values, -(-len(values) // math.prod(fixed)) * math.prod(fixed))
    free = [place for place, size in enumerate(shape) if not isinstance(size, int)]
    if not free:
        return list(filled.reshape(-1, *fixed))[:MAX_RUNS]
    fixed[free[0]] = -1
    return [filled.reshape(fixed)]


def session_of(data: bytes) -> Any:
    """The model in onnxruntime, on the CPU."""
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            "export", "is checked in onnxruntime, which is not installed", "pip install 'calibrant[onnx]'"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
