"""Error handling: an exception becomes one sentence on stderr and an exit code, a warning becomes a note."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import typer

from calibrant.cli import console
from calibrant.cli.exits import Exit

DEBUG: ContextVar[bool] = ContextVar("debug", default=False)
"""Whether errors show their traceback."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors reported in a sentence instead of a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                _warnings_as_notes()
                command(*args, **options)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise  # handled by typer
        except Exception as problem:
            if DEBUG.get():
                raise
            console.complain(sentence(problem))
            raise typer.Exit(Exit.MISTAKE) from None

    return run


def sentence(problem: Exception) -> str:
    """The problem and the fix of an exception, in one sentence."""
    from calibrant.cli.input.duckdb_errors import of_duckdb
    from calibrant.cli.voice import CommandLine, Mistake
    from calibrant.export.errors import DocumentError, ExportMismatchError
    from calibrant.messages import InputError, MissingPackage

    duckdb = sys.modules.get("duckdb")  # may be the missing package
    if isinstance(problem, InputError) and not isinstance(problem, Mistake):
        return problem.say(CommandLine())
    if isinstance(problem, (Mistake, DocumentError, ExportMismatchError, MissingPackage)):
        return str(problem)
    if isinstance(problem, ImportError):
        return f'{problem}: pip install "calibrant[cli]"'
    if duckdb is not None and isinstance(problem, duckdb.Error):
        return of_duckdb(str(problem))
    if isinstance(problem, OSError):
        where = f"{problem.filename}: " if problem.filename else ""
        return f"{where}{problem.strerror or problem}"
    return (
        f"internal error in calibrant, please report it ({type(problem).__name__}: {problem}); "
        "calibrant --debug COMMAND ... shows the traceback"
    )


def _warnings_as_notes() -> None:
    from calibrant.cli.voice import CommandLine
    from calibrant.messages import CalibrantWarning

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        console.note(message.note.say(CommandLine()) if isinstance(message, CalibrantWarning) else str(message))

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", CalibrantWarning)
    warnings.showwarning = show
