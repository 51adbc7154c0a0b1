"""``calibrant learn``: learn from outcomes, and publish versions."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli import options


def learn(
    stream: Annotated[
        list[str] | None, options.text("--stream", "NAME", "Stream to learn; may be repeated. [default: all]")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.01, max=60.0, help="Wait this long when nothing is new.")
    ] = 0.5,
) -> None:
    """Learn the streams of the live service, until a signal to stop.

    Several processes may run: one learns each stream, and another takes over if it stops. If the database restarts
    or is read-only, the process continues when it is back. The database is named by CALIBRANT_DATABASE or
    CALIBRANT_DATABASE_FILE, as for calibrant serve.

    Example:
      calibrant learn --stream clicks
    """
    import logging
    import signal
    import threading

    from calibrant.cli.commands.service import needed

    with needed():
        from calibrant.service.api.serving.process import JsonLines
        from calibrant.service.config import Config
        from calibrant.service.learning.loop import LearnerLoop

        handler = logging.StreamHandler()
        handler.setFormatter(JsonLines())
        logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        LearnerLoop(Config.from_environment().database, stream, seconds).run(stop)
