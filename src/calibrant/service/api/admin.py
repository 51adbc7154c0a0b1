"""Routes for people and their scripts: streams, settings, versions, decisions, tokens and the audit."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from psycopg_pool import ConnectionPool
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from calibrant.service.api.access import TokenFirst, need
from calibrant.service.api.errors import responses
from calibrant.service.settings import Settings
from calibrant.service.store import access as tokens
from calibrant.service.store import streams
from calibrant.service.store.access import LONGEST_OVERLAP, Caller
from calibrant.service.store.log import read_id

LARGEST = 2**31 - 1
"""Largest number of a version or token."""

StreamName = Annotated[str, Path(pattern=streams.NAME, description="Name of the stream.")]
Number = Annotated[int, Path(ge=0, le=LARGEST)]
Before = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="Entries before this number.")]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most entries.")]
Reader = Annotated[Caller, Depends(need("read"))]
Admin = Annotated[Caller, Depends(need("admin"))]
AdminOfAll = Annotated[Caller, Depends(need("admin", everywhere=True))]


def _pool(request: Request) -> ConnectionPool:
    pool: ConnectionPool = request.app.state.access.pool
    return pool


Pool = Annotated[ConnectionPool, Depends(_pool)]

# -------------------------------------------------------------------------------------------------------------- bodies


def _settings_schema(schema: dict[str, Any]) -> None:
    """The fields of the settings, for OpenAPI; their values are checked by the settings themselves."""
    found = TypeAdapter(Settings).json_schema()
    schema |= {name: found[name] for name in ("type", "properties", "required")}
    schema["additionalProperties"] = False


SettingsDocument = Annotated[
    dict[str, Any], Field(description="Settings of a stream.", json_schema_extra=_settings_schema)
]


KnownName = Annotated[str, Field(pattern=streams.NAME)]


class Body(BaseModel):
    """A body of a request: types as they are, and no other names."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewStream(Body):
    """A stream to make."""

    name: str = Field(pattern=streams.NAME)
    settings: SettingsDocument


class Pin(Body):
    """The version to serve whatever is published, or null."""

    version: int | None = Field(ge=0, le=LARGEST)


class Canary(Body):
    """A version to try beside the one that is served, or null to end it."""

    version: int | None = Field(ge=0, le=LARGEST)
    share: float = Field(
        0.0, ge=0.0, le=streams.MOST_SHARE, allow_inf_nan=False,
        description="Share of ids that it answers; 0: it is compared, and answers nobody.",
    )  # fmt: skip


class Gap(Body):
    """What a gap of the outcomes was; by default from the last outcome, or word of the feed, until now."""

    was: Literal["silent", "lost"] = Field(
        description="silent: what came is all there is, and is learned; lost: predictions of the gap are dropped."
    )
    since: AwareDatetime | None = Field(None, alias="from", strict=False, description="RFC 3339 with offset.")
    until: AwareDatetime | None = Field(None, strict=False, description="RFC 3339 with offset.")


class Erase(Body):
    """The id to remove."""

    id: str = Field(min_length=1, max_length=200)


class Publish(Body):
    """A calibration, as ``Calibration.to_json`` writes it."""

    document: dict[str, Any]


class NewToken(Body):
    """A token to make."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$")
    scopes: list[Literal["predict", "label", "read", "admin"]] = Field(min_length=1, max_length=4)
    streams: list[KnownName] | None = Field(
        None, min_length=1, max_length=1_000, description="Null: all streams, also later ones."
    )
    expires: AwareDatetime | None = Field(None, strict=False, description="RFC 3339 with offset; null: never.")


class Rotate(Body):
    """How long the old token goes on to work."""

    overlap_seconds: float = Field(3_600.0, ge=0.0, le=LONGEST_OVERLAP, allow_inf_nan=False)


# ------------------------------------------------------------------------------------------------------------- answers


class StreamSummary(BaseModel):
    """A stream in a list."""

    name: str
    position: int = Field(description="Entries of its log.")
    time: datetime
    learned: int = Field(description="Entries that are learned.")
    served: int = Field(description="The version that is served; 0 is the raw score.")


class StreamList(BaseModel):
    """Streams that the token may read."""

    streams: list[StreamSummary]


class StreamDetail(StreamSummary):
    """A stream with its settings and figures."""

    settings: dict[str, Any]
    report: dict[str, Any] | None = Field(description="Null before the first rows are learned.")


class Entry(BaseModel):
    """The place of a decision in the log; it takes effect when the learner has applied it."""

    position: int


class VersionSummary(BaseModel):
    """A version in a list."""

    number: int
    position: int
    time: datetime


class PromotionSummary(BaseModel):
    """What was served from a position on, and why."""

    position: int
    version: int
    cause: str


class VersionList(BaseModel):
    """Versions and promotions, the newest first."""

    versions: list[VersionSummary]
    promotions: list[PromotionSummary]


class VersionDetail(VersionSummary):
    """A version with its calibration."""

    document: dict[str, Any]


class TokenSecret(BaseModel):
    """A new token: its secret is shown this once."""

    number: int
    token: str


class TokenSummary(BaseModel):
    """A token in a list, without its secret."""

    number: int
    name: str
    scopes: list[str]
    streams: list[str] | None
    made: datetime
    expires: datetime | None
    revoked: datetime | None


class TokenList(BaseModel):
    """All tokens."""

    tokens: list[TokenSummary]


class AuditEntry(BaseModel):
    """Who decided what."""

    number: int
    at: datetime
    who: str
    action: str
    stream: str | None
    detail: str | None


class Audit(BaseModel):
    """Entries of the audit, the newest first."""

    entries: list[AuditEntry]


# ------------------------------------------------------------------------------------------------------------- streams

router = APIRouter(prefix="/v1", responses=responses(), route_class=TokenFirst)


@router.get("/streams", tags=["streams"])
def list_streams(pool: Pool, caller: Reader) -> StreamList:
    """Streams that the token may read."""
    with pool.connection() as connection:
        found = streams.list_streams(connection, None if caller.streams is None else sorted(caller.streams))
    return StreamList(streams=[StreamSummary(**_summary(each)) for each in found])


@router.post("/streams", status_code=201, tags=["streams"], responses=responses(409))
def create_stream(body: NewStream, pool: Pool, caller: AdminOfAll) -> StreamDetail:
    """Make a stream. Needs admin for all streams."""
    settings = Settings.of(body.settings)
    with pool.connection() as connection:
        streams.create_stream(connection, caller.digest, body.name, settings)
        made = streams.find_stream(connection, body.name)
    return StreamDetail(**_summary(made), settings=settings.document(), report=None)


@router.get("/streams/{stream}", tags=["streams"], responses=responses(404))
def show_stream(stream: StreamName, pool: Pool, caller: Reader) -> StreamDetail:
    """A stream with its settings and its newest figures."""
    with pool.connection() as connection:
        found = streams.find_stream(connection, stream)
        settings = streams.settings_of(connection, found.number)
        report = streams.report_of(connection, found.number)
    return StreamDetail(
        **_summary(found), settings=settings.document(), report=None if report is None else report.document
    )


@router.put("/streams/{stream}/settings", status_code=202, tags=["streams"], responses=responses(404))
def change_settings(stream: StreamName, body: SettingsDocument, pool: Pool, caller: Admin) -> Entry:
    """Replace the settings of a stream, from the next block of its log on. What is left out gets its default.

    What silence means cannot change, and need not be sent.
    """
    with pool.connection() as connection:
        present = streams.settings_of(connection, streams.find_stream(connection, stream).number)
        settings = Settings.of({"silence": present.silence} | body)
        return Entry(position=streams.change_settings(connection, caller.digest, stream, settings))


@router.post("/streams/{stream}/erase", status_code=202, tags=["streams"], responses=responses(404))
def erase(stream: StreamName, body: Erase, pool: Pool, caller: Admin) -> Entry:
    """Remove an id and its key from the log of a stream."""
    with pool.connection() as connection:
        return Entry(position=streams.erase(connection, caller.digest, stream, read_id(body.id)))


@router.post("/streams/{stream}/gap", status_code=202, tags=["streams"], responses=responses(404))
def gap(stream: StreamName, body: Gap, pool: Pool, caller: Admin) -> Entry:
    """Say what a gap of the outcomes was, so that learning goes on."""
    with pool.connection() as connection:
        return Entry(position=streams.gap(connection, caller.digest, stream, body.was, body.since, body.until))


# ------------------------------------------------------------------------------------------------------------ versions


@router.get("/streams/{stream}/versions", tags=["versions"], responses=responses(404))
def list_versions(
    stream: StreamName, pool: Pool, caller: Reader, before: Before = None, limit: Limit = 100
) -> VersionList:
    """Versions and promotions of a stream, the newest first."""
    with pool.connection() as connection:
        number = streams.find_stream(connection, stream).number
        versions = streams.versions_of(connection, number, before, limit)
        decisions = streams.decisions_of(connection, number, limit)
    return VersionList(
        versions=[VersionSummary(**asdict(each)) for each in versions],
        promotions=[PromotionSummary(**asdict(each)) for each in decisions],
    )


@router.get("/streams/{stream}/versions/{number}", tags=["versions"], responses=responses(404))
def show_version(stream: StreamName, number: Number, pool: Pool, caller: Reader) -> VersionDetail:
    """A version with its calibration, which ``Calibration.from_json`` reads."""
    with pool.connection() as connection:
        found, document = streams.version_of(connection, streams.find_stream(connection, stream).number, number)
    return VersionDetail(**asdict(found), document=json.loads(document))


@router.post("/streams/{stream}/versions", status_code=202, tags=["versions"], responses=responses(404))
def publish(stream: StreamName, body: Publish, pool: Pool, caller: Admin) -> Entry:
    """Publish a map of your own as the next version. It is not served before it is promoted."""
    with pool.connection() as connection:
        return Entry(position=streams.publish(connection, caller.digest, stream, json.dumps(body.document)))


@router.post(
    "/streams/{stream}/versions/{number}/promote", status_code=202, tags=["versions"], responses=responses(404)
)
def promote(stream: StreamName, number: Number, pool: Pool, caller: Admin) -> Entry:
    """Serve a version; 0 is the raw score."""
    with pool.connection() as connection:
        return Entry(position=streams.promote(connection, caller.digest, stream, number))


@router.post("/streams/{stream}/roll-back", status_code=202, tags=["versions"], responses=responses(404))
def roll_back(stream: StreamName, pool: Pool, caller: Admin) -> Entry:
    """Serve the version that was served before this one."""
    with pool.connection() as connection:
        return Entry(position=streams.roll_back(connection, caller.digest, stream))


@router.post("/streams/{stream}/pin", status_code=202, tags=["versions"], responses=responses(404))
def pin(stream: StreamName, body: Pin, pool: Pool, caller: Admin) -> Entry:
    """Serve a version whatever is published, or end this with null."""
    with pool.connection() as connection:
        return Entry(position=streams.pin(connection, caller.digest, stream, body.version))


@router.post("/streams/{stream}/canary", status_code=202, tags=["versions"], responses=responses(404))
def canary(stream: StreamName, body: Canary, pool: Pool, caller: Admin) -> Entry:
    """Try a version beside the one that is served, on a share of the ids or on none, or end this with null."""
    with pool.connection() as connection:
        return Entry(position=streams.canary(connection, caller.digest, stream, body.version, body.share))


@router.post("/streams/{stream}/resume", status_code=202, tags=["versions"], responses=responses(404))
def resume(stream: StreamName, pool: Pool, caller: Admin) -> Entry:
    """Let versions be promoted automatically again, after an automatic rollback."""
    with pool.connection() as connection:
        return Entry(position=streams.resume(connection, caller.digest, stream))


# -------------------------------------------------------------------------------------------------------------- tokens


@router.get("/tokens", tags=["tokens"])
def list_tokens(pool: Pool, caller: AdminOfAll) -> TokenList:
    """All tokens, without their secrets. Needs admin for all streams, as do all routes about tokens."""
    with pool.connection() as connection:
        return TokenList(tokens=[TokenSummary(**each) for each in tokens.list_tokens(connection, caller.digest)])


@router.post("/tokens", status_code=201, tags=["tokens"])
def create_token(body: NewToken, pool: Pool, caller: AdminOfAll) -> TokenSecret:
    """Make a token. Its secret is in the answer, and is not stored."""
    with pool.connection() as connection:
        number, secret = tokens.issue_token(
            connection, caller.digest, body.name, body.scopes, body.streams, body.expires
        )
    return TokenSecret(number=number, token=secret)


@router.post("/tokens/{number}/rotate", status_code=201, tags=["tokens"], responses=responses(404))
def rotate_token(number: Number, body: Rotate, pool: Pool, caller: AdminOfAll) -> TokenSecret:
    """A new token with the same rights; the old one ends after the overlap."""
    with pool.connection() as connection:
        made, secret = tokens.rotate_token(connection, caller.digest, number, body.overlap_seconds)
    return TokenSecret(number=made, token=secret)


@router.delete("/tokens/{number}", status_code=204, tags=["tokens"], responses=responses(404))
def revoke_token(number: Number, pool: Pool, caller: AdminOfAll) -> None:
    """End a token and its logins. Processes that know it serve it for 5 seconds more at most."""
    with pool.connection() as connection:
        tokens.revoke_token(connection, caller.digest, number)


@router.get("/audit", tags=["tokens"])
def list_audit(pool: Pool, caller: AdminOfAll, before: Before = None, limit: Limit = 100) -> Audit:
    """Who decided what, the newest first."""
    with pool.connection() as connection:
        rows = tokens.list_audit(connection, caller.digest, before, limit)
    return Audit(entries=[AuditEntry(**each) for each in rows])


def _summary(stream: streams.Stream) -> dict[str, Any]:
    return {name: value for name, value in asdict(stream).items() if name != "number"}
