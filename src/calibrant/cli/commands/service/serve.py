"""``calibrant serve``: answer predictions and take outcomes over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import options


def serve(
    host: Annotated[str | None, options.text("--host", "HOST", "Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="Port. [default: 8000]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, max=256, help="Number of processes. [default: 1]")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show the service with a synthetic model and a database of its own.")
    ] = False,
) -> None:
    """Serve calibrated probabilities over HTTP.

    Set the environment variable CALIBRANT_DATABASE to a connection string of PostgreSQL, or CALIBRANT_DATABASE_FILE to
    a file that contains it; likewise CALIBRANT_RECEIPT_KEYS or CALIBRANT_RECEIPT_KEYS_FILE for receipt keys. Run
    calibrant migrate first, and calibrant learn at the same time. After a signal to stop, open requests are finished.
    --demo needs only an installed PostgreSQL.

    Example:
      calibrant serve --port 8000 --workers 2
      calibrant serve --demo
    """
    from calibrant.cli.commands.service import needed

    with needed():
        if demo:
            from calibrant.service.demo import run as run_demo

            run_demo(port=port)
            return
        from calibrant.cli.commands.service.workers import run_workers
        from calibrant.service.config import Config

        run_workers(Config.from_environment(host=host, port=port, workers=workers))
