"""Whether the process lives, and whether it should get requests."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from calibrant.service.api.serving.process import Process

router = APIRouter(tags=["health"])

STATE: dict[str, Any] = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"enum": ["alive", "ready", "draining", "no streams known"]},
        "database": {"type": "boolean"},
    },
}


def _shown(status: int, text: str) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": text, "content": {"application/json": {"schema": STATE}}}}


@router.get("/health", response_class=Response, responses=_shown(200, "The process lives."))
async def health() -> Response:
    """Whether the process lives. No token is needed."""
    return JSONResponse({"status": "alive"})


@router.get(
    "/ready",
    response_class=Response,
    responses=_shown(200, "It can answer.") | _shown(503, "It stops, or has nothing to serve."),
)
async def ready(request: Request) -> Response:
    """Whether the process should get requests. No token is needed.

    It should while the database is away, if it knows what its streams serve: ``database`` tells.
    """
    process: Process = request.app.state.service
    up = process.is_up
    status = "draining" if process.is_draining else "ready" if up or process.streams else "no streams known"
    return JSONResponse({"status": status, "database": up}, 200 if status == "ready" else 503)
