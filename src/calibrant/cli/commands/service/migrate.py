"""``calibrant migrate``: make or update the tables of the live service."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import console


def migrate(
    restored: Annotated[
        bool, typer.Option("--restored", help="The database was restored from a backup: begin a new epoch.")
    ] = False,
) -> None:
    """Create or update the tables of the live service.

    Run it before a newer version of the service starts, as the owner of the schema calibrant; several runs at once do
    no harm. It also creates the roles calibrant_serve and calibrant_learn, if it is allowed to, and sets their rights.
    The database is named by CALIBRANT_DATABASE or CALIBRANT_DATABASE_FILE.

    After a restore from a backup, run it with --restored before anything else starts: new versions then get numbers
    that were not used before the restore.

    Example:
      calibrant migrate && calibrant token create --name admin --scope admin
    """
    from calibrant.cli.commands.service import database
    from calibrant.messages import listed

    with database() as connection:
        from calibrant.service.store.migrate import migrate as bring_up_to_date

        ran = bring_up_to_date(connection)
        if restored:
            from calibrant.service.store.retention import raise_epoch

            console.note(f"epoch {raise_epoch(connection)} has begun")
        roles = connection.execute("select count(*) from pg_roles where rolname like 'calibrant\\_%'").fetchone()
    console.say(f"ran {listed([str(each) for each in ran])}" if ran else "the tables are up to date")
    if roles is not None and roles[0] == 0:
        console.note(
            "the roles calibrant_serve and calibrant_learn were not made, since this user may not create roles; "
            "without them, run all processes as this user"
        )
