"""``calibrant replay``: compute what a stream has learned again, and compare."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import console, options
from calibrant.cli.exits import Exit


def replay(
    stream: Annotated[str, typer.Argument(callback=options.not_empty, metavar="STREAM", help="Name of the stream.")],
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the first entry, not with the oldest stored state.")
    ] = False,
    up_to: Annotated[
        int | None, typer.Option("--up-to", metavar="N", min=1, help="Last position. [default: all that is learned]")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compute a stream again from its log, and compare the results.

    Versions, promotions and stored states are compared with those in the database; nothing is written. The same build
    on the same kind of machine gives the same bits: the exit code is 0 if it did, and 12 if something differs. The
    database is named by CALIBRANT_DATABASE or CALIBRANT_DATABASE_FILE.

    Example:
      calibrant replay clicks --from-start
    """
    from calibrant.cli.commands.service import database

    with database() as connection:
        from calibrant.service.learning.replay import replay as learn_again
        from calibrant.service.store.streams import find_stream

        number = find_stream(connection, stream).number
        found = learn_again(connection, number, up_to, checkpoints=not from_start)
    if as_json:
        console.show_json(
            {
                "position": found.state.position,
                "compared": found.compared,
                "different_versions": found.different,
                "different_promotions": found.different_promotions,
                "different_states": found.different_states,
            }
        )
    else:
        console.say(str(found))
    if not found.is_equal:
        raise typer.Exit(Exit.OFF)
