"""The command line: ``calibrant check``, ``fit``, ``apply``, ``export`` and more; ``calibrant --help`` lists them."""

from __future__ import annotations

import sys

from calibrant.cli.exits import Exit

__all__ = ["main"]


def main() -> None:
    """Run the command line; entry point of the console script ``calibrant``."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write('the command line needs typer and rich: pip install "calibrant[cli]"\n')
        sys.exit(Exit.MISTAKE)
    try:
        from calibrant.cli.app import app

        app(prog_name="calibrant")
    except KeyboardInterrupt:  # before a command has taken over
        sys.exit(Exit.INTERRUPTED)
