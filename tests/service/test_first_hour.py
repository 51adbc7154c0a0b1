"""The page of the platform engineer: its requests and its program run on the service."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.service.live_service import Running

PAGE = Path(__file__).parents[2] / "docs" / "first-hours" / "platform.md"


def test_the_requests_of_the_page_are_answered(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8").replace("clicks", "hour").replace("\\\n", " ")
    text = text.replace("$(date -u +%FT%TZ)", "2026-05-01T12:00:00Z")
    answers = []
    for line in re.findall(r"^\$ curl (.*)$", text, re.MULTILINE):
        words = shlex.split(line)
        body = json.loads(words[words.index("--json") + 1]) if "--json" in words else None
        path = words[-1].removeprefix("http://localhost:8000")
        method = "POST" if body is not None or "POST" in words else "GET"
        answers.append((path.rpartition("/")[2], service.client.request(method, path, json=body).status_code))
    assert answers == [
        ("streams", 201), ("predict", 200), ("outcomes", 200), ("outcomes", 200), ("versions", 200), ("predict", 200),
        ("predict", 200), ("roll-back", 422), ("predict", 200), ("resume", 202),
    ]  # fmt: skip  # nothing learns here, so that there is nothing to go back to
    (program,) = re.findall(r"^```{code-block} python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.setattr(sys, "argv", ["day.py", "monday", "1"])
    monkeypatch.setenv("TOKEN", service.token)
    names: dict[str, Any] = {}
    exec(program.replace("http://localhost:8000", service.url), names)
    names["client"].close()
    assert {each.status for each in names["answers"]} == {"logged"}
