"""``calibrant verify``: an exported file, proved again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from calibrant.cli import console, options


def verify(
    file: Annotated[
        str,
        typer.Argument(
            callback=options.local, metavar="FILE", help="A .sql or .onnx file that calibrant export wrote."
        ),
    ],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Prove an exported file again, on this machine.

    The map inside the file says what every result must be. Exit code 1 if a result is off, as after an edit. To run SQL
    on your own server, call calibrant.verify(file, connection) in Python.

    Example:
      calibrant verify map.sql
    """
    from calibrant.cli.voice import Mistake
    from calibrant.export.verify import verify as prove

    def run() -> object:
        try:
            return prove(file)
        except FileNotFoundError:
            raise Mistake(file, "does not exist", f"make it with calibrant export MAP.json --out {file}") from None

    proof = console.work(run, words="Proving", quiet=quiet or as_json)
    if as_json:
        console.show_json(asdict(proof))  # type: ignore[call-overload]
    else:
        console.say(str(proof))
