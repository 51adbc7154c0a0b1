"""``calibrant verify``: verify an exported file again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from calibrant.cli import console, options


def verify(
    file: Annotated[
        str,
        typer.Argument(callback=options.local, metavar="FILE", help=".sql or .onnx file written by calibrant export."),
    ],
    seconds: Annotated[float, typer.Option(min=1.0, help="Most processor time.")] = 10.0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Verify that an exported file gives the same results as its map.

    The file contains the map, with which every result is compared. Exit code 1 if a result differs, for example after
    an edit. To run SQL on your own server, call calibrant.verify(file, connection) in Python.

    Example:
      calibrant verify map.sql
    """
    from calibrant.cli.voice import Mistake
    from calibrant.export.verify import verify as prove

    def run() -> object:
        try:
            return prove(file, seconds=seconds)
        except FileNotFoundError:
            raise Mistake(file, "does not exist", f"create it with calibrant export MAP.json --out {file}") from None

    proof = console.work(run, words="Verifying", quiet=quiet or as_json)
    if as_json:
        console.show_json(asdict(proof))  # type: ignore[call-overload]
    else:
        console.say(str(proof))
