"""The description of the HTTP interface: up to date, kept by the service on generated requests, safe by default."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import schemathesis
from httpx import Client
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.service.live_service import Running, config

from calibrant.service.settings import Settings
from calibrant.service.store.access import issue_token
from calibrant.service.store.streams import create_stream

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads((ROOT / "docs" / "service" / "openapi.json").read_text())
PUBLIC = {("get", "/health"), ("get", "/ready")}
CHECKS = [
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]


def test_the_file_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "openapi.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_service_serves_its_description(service: Running) -> None:
    with Client(base_url=service.url, timeout=60.0, trust_env=False) as client:
        assert client.get("/openapi.json").json() == DOCUMENT
        page = client.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert not re.findall(r'(?:src|href)="(?!/)', page.text)
    for path, methods in DOCUMENT["paths"].items():
        for method, each in methods.items():
            assert f'<details id="{method.upper()}{path}">' in page.text, path
            assert all(f"<code>{given['name']}</code>" in page.text for given in each.get("parameters", ()))
    for field in ("outcomes[].receipt", "settings.horizon", "rows[].probability", "tokens[].scopes"):
        assert f"<code>{field}</code>" in page.text


def test_every_route_but_health_needs_a_token(service: Running, subtests: pytest.Subtests) -> None:
    with Client(base_url=service.url, timeout=60.0, trust_env=False) as client:
        for path, methods in DOCUMENT["paths"].items():
            for method in methods:
                with subtests.test(f"{method} {path}"):
                    place = path.replace("{stream}", "clicks").replace("{number}", "1")
                    status = client.request(method.upper(), place).status_code
                    assert status == (200 if (method, path) in PUBLIC else 401)
                    assert ("security" in methods[method]) == ((method, path) not in PUBLIC)


def test_the_scopes_predict_and_label_are_apart(service: Running, database: psycopg.Connection) -> None:
    row = {"id": "a", "score": 0.5}
    requests = {
        "predict": [("predict", row), ("predictions", {"rows": [row]})],
        "label": [("outcomes", {"outcomes": [{"id": "a", "outcome": 1}]})],
    }
    for scope in ("label", "read", "admin", "predict"):
        _, secret = issue_token(database, None, scope, [scope])
        for needed, sent in requests.items():
            for path, body in sent:
                headers = {"Authorization": f"Bearer {secret}"}
                answer = service.client.post(f"/v1/streams/clicks/{path}", json=body, headers=headers)
                assert answer.status_code == (200 if scope == needed else 403), (scope, path)


@pytest.fixture
def whole(address: str, database: psycopg.Connection) -> Iterator[Running]:
    """A service with two streams, and a token whose number generated requests do not hit."""
    create_stream(database, None, "a", Settings(horizon=2.0, silence="negative"))
    create_stream(database, None, "0", Settings(horizon=2.0, mode="returned", silence="unknown"))
    database.execute("alter sequence token_number_seq restart with 1234567")
    _, token = issue_token(database, None, "all", ["predict", "label", "read", "admin"])
    with Running(config(address), token) as running:
        yield running


@pytest.mark.slow
def test_generated_requests_find_no_error_of_the_server_or_the_description(
    whole: Running, subtests: pytest.Subtests, request: pytest.FixtureRequest
) -> None:
    """Requests that follow the description, and requests that do not."""
    examples = 300 if request.config.getoption("--full") else 8
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    headers = {"Authorization": f"Bearer {whole.token}"}
    seen = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=examples, deadline=None, derandomize=True, database=None,
                phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case: Case) -> None:
                nonlocal seen
                seen += 1
                if "stream" in (case.path_parameters or {}) and seen % 2:
                    case.path_parameters["stream"] = "a"
                case.call_and_validate(base_url=whole.url, headers=headers, checks=CHECKS, timeout=60.0)

            with subtests.test(f"{operation.label} {mode.value}"):
                try:
                    send()
                except Exception as problem:
                    if "Unsatisfiable" in type(problem).__name__:  # nothing is wrong for a route without parameters
                        continue
                    raise
    assert seen > 10 * examples
    assert whole.client.get("/v1/streams/a").status_code == 200
