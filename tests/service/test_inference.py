"""The Open Inference Protocol: the predictions of the other routes, ids by rule."""

from __future__ import annotations

from typing import Any

import pytest
from tests.service.live_service import Running


def tensor(name: str, data: list[Any], kind: str | None = None, shape: Any = None) -> dict[str, Any]:
    kind = kind or ("FP64" if name == "score" else "BYTES")
    return {"name": name, "datatype": kind, "shape": [len(data)] if shape is None else shape, "data": data}


def infer(service: Running, document: Any, status: int = 200) -> Any:
    answer = service.client.post("/v2/models/clicks/infer", json=document)
    assert answer.status_code == status, answer.text
    return answer.json()


def outputs(answer: Any) -> dict[str, list[Any]]:
    return {each["name"]: each["data"] for each in answer["outputs"]}


def test_ids_come_from_an_input_or_from_the_request(service: Running) -> None:
    found = infer(service, {"id": "q", "inputs": [tensor("score", [0.25, 0.5])]})
    assert (found["model_name"], found["model_version"], found["id"]) == ("clicks", "0", "q")
    assert outputs(found) == {
        "id": ["q/0", "q/1"], "probability": [0.25, 0.5], "version": [0, 0], "status": ["logged"] * 2,
        "receipt": ["", ""],
    }  # fmt: skip
    assert service.post("predict", {"id": "q/1", "score": 0.5})["status"] == "repeated"
    assert outputs(infer(service, {"id": "one", "inputs": [tensor("score", [[0.5]], "FP32", [1, 1])]}))["id"] == ["one"]
    both = [tensor("score", [0.25, 1]), tensor("id", ["a", "b"]), tensor("key", ["k", "k"])]
    assert outputs(infer(service, {"inputs": both}))["id"] == ["a", "b"]
    assert (
        infer(service, {"inputs": [tensor("score", [0.75]), tensor("id", ["a"])]}, 409)["error"]["code"] == "conflict"
    )


WRONG: list[Any] = [
    {}, {"inputs": []}, {"inputs": [3]}, {"inputs": [tensor("score", [0.5])]},
    {"id": "a", "inputs": [tensor("x", [0.5])]},
    {"id": "a", "inputs": [tensor("score", [0.5], "INT8")]},
    {"id": "a", "inputs": [tensor("score", [0.5], None, [2])]},
    {"id": "a", "inputs": [tensor("score", [0.5]), tensor("score", [0.5])]},
    {"id": "a", "inputs": [tensor("score", [])]},
    {"id": "a", "inputs": [tensor("score", [0.5]), tensor("key", ["a", "b"])]},
    {"id": "a", "inputs": [tensor("id", ["a"])]},
    {"id": "a", "inputs": [tensor("score", [1.5])]},
    {"id": "a", "inputs": [tensor("score", [[0.5, 0.5]])]},
    {"id": 3, "inputs": [tensor("score", [0.5])]},
    {"id": "a" * 201, "inputs": [tensor("score", [0.5])]},
]  # fmt: skip


def test_what_is_wrong_is_refused(service: Running, subtests: pytest.Subtests) -> None:
    for place, document in enumerate(WRONG):
        with subtests.test(place=place):
            assert infer(service, document, 422)["error"]["problem"]


def test_health_and_what_a_stream_takes(service: Running) -> None:
    assert service.client.get("/v2/health/live").status_code == 200
    assert service.client.get("/v2/health/ready").status_code == 200
    found = service.client.get("/v2/models/clicks").json()
    assert (found["name"], [each["name"] for each in found["inputs"]]) == ("clicks", ["score", "id", "key"])
