"""Console output: wrapped text, tables, JSON, notes, and a progress bar while an engine works."""

from __future__ import annotations

import contextvars
import json
import os
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, TypeVar

from calibrant.visible import HIDDEN, visible

PATIENCE = 1.0
"""Seconds of work before the progress bar is shown."""

GRACE = 5.0
"""Seconds to wait for interrupted work to stop."""

WIDEST = 100
"""Largest width of text, in characters."""

WORDS = 12
"""Smallest width of a text column of a table, in characters."""

Result = TypeVar("Result")


def say(text: str, style: str = "") -> None:
    """Print text on stdout, each line wrapped with a hanging indent."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    with console.capture() as said:
        for line in wrapped(text, min(console.width, WIDEST)):
            console.print(Text(line, style=style), soft_wrap=True)
    put(said.get())


def wrapped(text: str, width: int) -> Iterator[str]:
    r"""The lines of a text, each wrapped to ``width``, with continuation lines indented by two more characters.

    Examples
    --------
    >>> list(wrapped("head\n  one two three", 10))
    ['head', '  one two', '    three']
    """
    for line in visible(text, None, keep="\n").split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        hanging = indent + ("  " if indent else "")
        yield from textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False) or [""]


def table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1, styles: Sequence[str] = ()
) -> None:
    """Print a table on stdout; the first ``text`` columns are text, the others numbers, which are never truncated.

    If the terminal is too narrow, each row becomes a paragraph.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    gap = 1 if console.width < WIDEST else 2
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    width = 2 + gap * (len(columns) - 1)
    columns, rows = [*map(visible, columns)], [[*map(visible, row)] for row in rows]
    for place, (name, *cells) in enumerate(zip(columns, *rows, strict=True)):
        longest = max(map(cell_len, (name, *cells)))
        least = min(longest, WORDS) if place < text else longest
        if place < text:
            made.add_column(name, overflow="fold", min_width=least)
        else:  # without no_wrap, rich narrows the widest column first, whatever it holds
            made.add_column(name, justify="right", no_wrap=True, min_width=least)
        width += least
    if title:
        say(f"\n{title}")
    if width > console.width:
        for row, style in zip_longest(rows, styles, fillvalue=""):
            say(_paragraph(columns, row, text), str(style))
        return
    for row, style in zip_longest(rows, styles, fillvalue=""):
        made.add_row(*(Text(cell) for cell in row), style=str(style))
    with console.capture() as drawn:
        console.print(Padding(made, (0, 0, 0, 2), expand=False))
    put(drawn.get())


def _paragraph(columns: Sequence[str], row: Sequence[str], text: int) -> str:
    """A row of a table as text, with the named numbers below."""
    words = "  " + ", ".join(filter(None, row[:text]))
    numbers = "; ".join(f"{name} {cell}" for name, cell in zip(columns[text:], row[text:], strict=True) if cell)
    return f"{words}\n    {numbers}" if text else f"  {numbers}"


def put(text: str) -> None:
    """Write to stdout; a closed pipe is ignored, so that the exit code is still right."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_json(data: Any) -> None:
    """Print data as strict JSON on stdout."""
    from calibrant.verdict.verdict import plain

    text = json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    put(HIDDEN.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text) + "\n")


def complain(sentence: str) -> None:
    """Print an error on stderr."""
    _tell("error", sentence, "bold red")


def note(sentence: str) -> None:
    """Print a note on stderr."""
    _tell("note", sentence, "bold yellow")


def _tell(what: str, sentence: str, style: str) -> None:
    """Print a sentence on stderr: wrapped in a terminal, one line in a log."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    text = visible(f"{what}: {sentence}", 5_000)
    lines = list(wrapped(text, min(console.width, WIDEST) - 2)) if console.is_terminal else [text]
    styled = Text("\n  ".join(lines))
    styled.stylize(style, 0, len(what) + 1)
    console.print(styled, soft_wrap=True)


def work(job: Callable[[], Result], connection: Any = None, *, words: str, quiet: bool) -> Result:
    """Run a job in a thread, with a progress bar on stderr after a second if it is a terminal; Ctrl-C stops it."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(job())
        except BaseException as problem:  # raised again in the main thread
            outcome.set_exception(problem)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    thread.start()
    try:
        if not wait([outcome], PATIENCE).done:
            with _bar(words, quiet) as show:
                while not wait([outcome], 0.1).done:
                    show(-1.0 if connection is None else connection.query_progress())
    except KeyboardInterrupt:
        _stop(thread, connection)
        raise
    return outcome.result()


def _stop(thread: threading.Thread, connection: Any) -> None:
    """Interrupt the running query and later ones until the thread ends."""
    patience = GRACE
    while thread.is_alive() and patience > 0.0:
        if connection is not None:
            connection.interrupt()
        thread.join(0.1)
        patience -= 0.1


@contextmanager
def _bar(words: str, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A temporary progress bar; yields a function that sets its percentage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=quiet or not errors.is_terminal) as progress:
        task = progress.add_task(words, total=None)

        def show(percent: float) -> None:
            known = 0.0 <= percent <= 100.0
            progress.update(task, total=100.0 if known else None, completed=max(percent, 0.0))

        yield show
