"""The Open Inference Protocol, version 2: the same predictions for clients that speak it.

A request has the input ``score`` (FP64 or FP32, one row each) and perhaps ``id`` and ``key`` (BYTES). Without the input
``id``, the row of a request with one row has the id of the request, and row k of several has ``<id of the request>/k``,
counted from 0. So each row has an id under which its outcome can be sent, and a request that is sent again repeats.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from calibrant.service.api import bodies, health
from calibrant.service.api.bodies import Row, invalid
from calibrant.service.api.errors import Refusal, responses
from calibrant.service.api.predict import STREAM, Asked, ask, enter, predicted

router = APIRouter(prefix="/v2", tags=["Open Inference Protocol"])

TENSOR: dict[str, Any] = {
    "type": "object",
    "required": ["name", "shape", "datatype", "data"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"type": "string"},
        "data": {"type": "array"},
    },
}
INFER: dict[str, Any] = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string", "description": "Ids of the rows, if there is no input of this name."},
        "inputs": {"type": "array", "items": TENSOR, "description": "score; perhaps id and key."},
    },
}
INFERRED: dict[str, Any] = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {"type": "array", "items": TENSOR},
    },
}
ALLOWED = {"score": ("FP64", "FP32"), "id": ("BYTES",), "key": ("BYTES",)}
OUTPUTS = (("id", "BYTES"), ("probability", "FP64"), ("version", "INT32"), ("status", "BYTES"), ("receipt", "BYTES"))


@router.get("/health/live", response_class=Response, include_in_schema=False)
async def live() -> Response:
    """Whether the process lives. No token is needed."""
    return await health.health()


@router.get("/health/ready", response_class=Response, include_in_schema=False)
async def ready(request: Request) -> Response:
    """Whether the process should get requests. No token is needed."""
    return await health.ready(request)


@router.get(
    "/models/{stream}", response_class=Response, responses=bodies.answered({"type": "object"}, "Inputs and outputs.")
    | responses(404), openapi_extra=STREAM,
)  # fmt: skip
async def model(request: Request) -> Response:
    """What a stream takes and gives. Scope: predict."""
    _, served = await enter(request, "predict")
    inputs = [{"name": name, "datatype": kinds[0], "shape": [-1]} for name, kinds in ALLOWED.items()]
    outputs = [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in OUTPUTS]
    found = {"name": served.name, "versions": [str(served.version)], "platform": "calibrant"}
    return JSONResponse(found | {"inputs": inputs, "outputs": outputs})


@router.post(
    "/models/{stream}/infer",
    summary="Predict by the Open Inference Protocol",
    response_class=Response,
    responses=bodies.answered(INFERRED, "The outputs, one value for each row.") | responses(404, 408, 409, 413),
    openapi_extra=STREAM | bodies.described(INFER),
)
async def infer(request: Request) -> Response:
    """The probabilities of scores. Scope: predict.

    A row whose id is in use with another content refuses the request with 409; the other rows are logged.
    """
    asked = await ask(request)
    body = await bodies.read_json(request, asked.process.config)
    rows = read_rows(body, asked)
    answers = await predicted(asked, rows)
    if any(each.status == "conflict" for each in answers):
        raise Refusal(409, "conflict", "id", "is in use with another content", "use new ids, or send the same content")
    columns: dict[str, list[Any]] = {
        "id": [row.text for row in rows],
        "probability": [each.probability for each in answers],
        "version": [each.version for each in answers],
        "status": [each.status for each in answers],
        "receipt": [each.receipt or "" for each in answers],
    }
    outputs = [{"name": name, "datatype": kind, "shape": [len(rows)], "data": columns[name]} for name, kind in OUTPUTS]
    found: dict[str, Any] = {"model_name": asked.served.name, "model_version": str(asked.served.version)}
    if "id" in body:
        found["id"] = body["id"]
    return Response(json.dumps(found | {"outputs": outputs}), media_type="application/json")


def read_rows(body: dict[str, Any], asked: Asked) -> list[Row]:
    """Rows of a request, checked as those of a batch."""
    if "inputs" not in body:
        raise invalid("inputs", "is missing", "send a list with the input score")
    inputs = body["inputs"]
    if not isinstance(inputs, list) or not inputs:
        raise invalid("inputs", "must be a list with the input score")
    found: dict[str, list[Any]] = {}
    for place, tensor in enumerate(inputs):
        name, data = _tensor(tensor, f"inputs[{place}]", asked.process.config.batch_rows)
        if name in found:
            raise invalid(f"inputs[{place}]", "is there twice")
        found[name] = data
    if "score" not in found:
        raise invalid("inputs", "has no input score")
    n = len(found["score"])
    if not n or any(len(data) != n for data in found.values()):
        raise invalid("inputs", "must have the same number of rows, at least one")
    if "id" not in found:
        whole = body.get("id")
        if not isinstance(whole, str):
            raise invalid("id", "is missing", "send an id for the request, or an input id")
        found["id"] = [whole] if n == 1 else [f"{whole}/{k}" for k in range(n)]
    names = list(found)
    settings, now = asked.served.settings, asked.now
    return [
        bodies.read_row(dict(zip(names, values, strict=True)), settings, now, f"row {k}: ")
        for k, values in enumerate(zip(*found.values(), strict=True))
    ]


def _tensor(tensor: Any, where: str, most: int) -> tuple[str, list[Any]]:
    """Name and data of an input."""
    if not isinstance(tensor, dict):
        raise invalid(where, "must be an object")
    bodies.check_fields(tensor, TENSOR["required"], (*TENSOR["properties"], "parameters"), f"{where}.")
    name, kind, shape, data = (tensor.get(each) for each in ("name", "datatype", "shape", "data"))
    if not isinstance(name, str) or name not in ALLOWED:
        raise invalid(f"{where}.name", "is not known", f"the inputs are {', '.join(ALLOWED)}")
    if kind not in ALLOWED[name]:
        raise invalid(f"{where}.datatype", "does not fit", f"send {ALLOWED[name][0]}")
    if not isinstance(data, list):
        raise invalid(f"{where}.data", "must be a list")
    if data and all(isinstance(each, list) and len(each) == 1 for each in data):
        data = [each[0] for each in data]
    if shape not in ([len(data)], [len(data), 1]):
        raise invalid(f"{where}.shape", "does not fit the data", "one row for each score: [n] or [n, 1]")
    if len(data) > most:
        raise Refusal(413, "too-many-rows", where, f"has {len(data):,} rows, and {most:,} are the most", "send batches")
    return name, data
