"""The commands, registered: a new one is a module in ``commands``, imported and listed here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from calibrant.cli.commands.apply import apply
from calibrant.cli.commands.check import check
from calibrant.cli.commands.compare import compare
from calibrant.cli.commands.export import export
from calibrant.cli.commands.fit import fit
from calibrant.cli.commands.plan import plan
from calibrant.cli.commands.report import report
from calibrant.cli.commands.tally import tally
from calibrant.cli.commands.verify import verify
from calibrant.cli.guard import DEBUG, guarded
from calibrant.cli.options import spread

COMMANDS = (check, fit, apply, export, verify, report, compare, plan, tally)
"""In the order of ``calibrant --help``; a command is named after its function and explained by its docstring."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: fast, and examples can be copied
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"calibrant {version('calibrant')}")
        raise typer.Exit


@app.callback()
def calibrant(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Probabilities that mean what they say: check them, mend them, promise how far off they can be.

    Data are CSV or Parquet files: a column of scores, a column of what happened.

    Exit codes: 0 done (check: calibrated), 10 miscalibrated, 11 cannot tell, 1 a mistake in the input, 2 in the usage.
    """
    DEBUG.set(debug)


def _help(command: Callable[..., None]) -> str:
    """The docstring, with the lines of its example kept as they are, which the sign for backspace does."""
    return (inspect.getdoc(command) or "").replace("\n\nExample:", "\n\n\b\nExample:")


for command in COMMANDS:
    app.command(help=_help(command))(guarded(spread(command)))
