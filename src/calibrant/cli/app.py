"""The command-line application: a new command is a module in ``commands``, imported and listed here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from calibrant.cli.commands.accept import accept
from calibrant.cli.commands.anchor import anchor
from calibrant.cli.commands.apply import apply
from calibrant.cli.commands.backtest import backtest
from calibrant.cli.commands.check import check
from calibrant.cli.commands.compare import compare
from calibrant.cli.commands.export import export
from calibrant.cli.commands.fit import fit
from calibrant.cli.commands.grades import grades
from calibrant.cli.commands.plan import plan
from calibrant.cli.commands.report import report
from calibrant.cli.commands.service.learn import learn
from calibrant.cli.commands.service.migrate import migrate
from calibrant.cli.commands.service.replay import replay
from calibrant.cli.commands.service.serve import serve
from calibrant.cli.commands.service.token import token
from calibrant.cli.commands.tally import tally
from calibrant.cli.commands.verify import verify
from calibrant.cli.commands.watch import watch
from calibrant.cli.guard import DEBUG, guarded
from calibrant.cli.options import FORMATS, spread

COMMANDS = (
    check, fit, apply, export, verify, report, compare, grades, anchor, accept, plan, tally, watch, backtest,
    serve, learn, migrate, token, replay,
)  # fmt: skip
"""Commands in the order of ``calibrant --help``; name and help come from the function and its docstring."""

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


ABOUT = f"""Check whether predicted probabilities are calibrated, fit calibration maps, and certify the remaining error.

Data are {FORMATS} with a column of scores and a column of observed labels.

Exit codes: 0 success (check: calibrated), 1 input error, 2 usage error. check also: 10 miscalibrated, 11 cannot
tell, 12 off, 13 a segment or period is off (--fail-on). grades: 0 green, 12 yellow, 10 red. accept: 0 threshold
found, 11 none. watch: 12 alarm. replay: 12 something differs.
"""
"""What ``calibrant --help`` says first."""


@app.callback(help=ABOUT)
def calibrant(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Options of all commands."""
    DEBUG.set(debug)


def _help(command: Callable[..., None]) -> str:
    """The docstring; a backspace character keeps the lines of its example unwrapped."""
    return (inspect.getdoc(command) or "").replace("\n\nExample:", "\n\n\b\nExample:")


for command in COMMANDS:
    app.command(help=_help(command))(guarded(spread(command)))
