"""``calibrant token``: make, list, rotate and revoke tokens of the live service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from calibrant.cli import console, options


class Step(StrEnum):
    """What to do."""

    create = "create"
    list = "list"
    rotate = "rotate"
    revoke = "revoke"


def token(
    step: Annotated[Step, typer.Argument(metavar="create|list|rotate|revoke", show_default=False, help="What to do.")],
    name: Annotated[str | None, options.text("--name", "NAME", "create: who will have the token.")] = None,
    scope: Annotated[
        list[str] | None,
        options.text("--scope", "SCOPE", "create: predict, label, read or admin; may be repeated."),
    ] = None,
    stream: Annotated[
        list[str] | None, options.text("--stream", "NAME", "create: only this stream; may be repeated.")
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", metavar="D", min=0.0, max=36_500.0, help="create: days until it expires.")
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", metavar="N", min=1, max=2**31 - 1, help="rotate, revoke: which token.")
    ] = None,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="S", help="rotate: seconds for which the old token still works.")
    ] = 3_600.0,
    as_json: options.Json = False,
) -> None:
    """Create, list, rotate or revoke tokens of the live service.

    A token is printed once, on stdout, and is not stored: the database keeps its digest. It allows its scopes and
    nothing else, for all streams or for those named. A revoked token stops working within 5 seconds in every process.
    Connect as the owner of the schema; the database is named by CALIBRANT_DATABASE or CALIBRANT_DATABASE_FILE.

    Example:
      calibrant token create --name ads --scope predict --stream clicks
      calibrant token rotate --number 3
    """
    from calibrant.cli.commands.service import database
    from calibrant.cli.voice import Mistake

    if step is Step.create and (name is None or not scope):
        raise Mistake("--name" if name is None else "--scope", "is missing", "create needs --name and --scope")
    if step in (Step.rotate, Step.revoke) and number is None:
        raise Mistake("--number", "is missing", "calibrant token list shows the numbers")
    with database() as connection:
        from calibrant.service.store import access

        if step is Step.list:
            _show(access.list_tokens(connection, None), as_json)
        elif step is Step.revoke:
            assert number is not None
            access.revoke_token(connection, None, number)
        else:
            if step is Step.rotate:
                assert number is not None
                made, secret = access.rotate_token(connection, None, number, overlap)
            else:
                assert name is not None
                until = None if days is None else datetime.now(UTC) + timedelta(days=days)
                made, secret = access.issue_token(connection, None, name, scope or [], stream, until)
            if as_json:
                console.show_json({"number": made, "token": secret})
            else:
                console.note(f"token {made} is shown this once")
                console.put(f"{secret}\n")


def _show(tokens: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        console.show_json([{name: _plain(value) for name, value in each.items()} for each in tokens])
        return
    columns = ["number", "name", "scopes", "streams", "made", "expires", "revoked"]
    rows = [row | {"streams": row["streams"] or "all"} for row in tokens]
    shown = [[_text(each[name]) for name in columns] for each in rows]
    console.table("", columns, shown, text=len(columns))


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
    return ", ".join(value) if isinstance(value, list) else str(value or "")
