"""HTML of results in notebooks: text, tables, pictures and pages, escaped, without scripts, for light and dark themes.

Colors and fonts are those of the notebook. Styles are written into the elements, since notebooks remove style sheets.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape as escape_markup
from itertools import zip_longest

from calibrant.visible import visible

GREEN, AMBER, RED, GRAY = "#009E73", "#E69F00", "#D55E00", "#8A8A8A"
"""Colors that color-blind readers can distinguish, legible on white and on black (Okabe and Ito)."""

TRAFFIC_LIGHTS = {"green": "#2E9E6B", "yellow": "#E6B800", "red": "#D32F2F"}
"""True yellow and red; in print without color, yellow is light, green medium and red dark."""

SHAPES = {"green": "\u25cf", "yellow": "\u25b2", "red": "\u25a0"}
"""A shape for each light: circle, triangle, square."""

PAGE_HEIGHT = 640
"""Height of a page that is shown inside a notebook, in pixels."""

WIDE_TABLE = 80
"""Width in characters above which a table is wider than many notebooks, and a line below it says so."""

_LINE = "1px solid rgba(128,128,128,0.5)"


@dataclass(frozen=True)
class Dot:
    """A cell of a table with a colored dot, or another shape, before its text."""

    text: str
    color: str
    shape: str = "\u25cf"


Cell = str | Dot


def escape(text: str) -> str:
    """Text in HTML: markup and control characters are escaped."""
    return escape_markup(visible(text, None, keep="\n"))


def text_block(text: str, color: str = GRAY) -> str:
    r"""A text with a colored bar to its left: the first line in bold, indented lines as a list.

    Examples
    --------
    >>> text_block("Ready\n  a < b").count("<li")
    1
    """
    first, *others = text.split("\n")
    return _bar(f"<strong>{escape(first)}</strong>{_lines(others)}", color)


def table_block(
    head: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    left: Collection[int] = (0,),
    bold: Collection[int] = (),
    color: str = GRAY,
    hint: bool = True,
) -> str:
    """A table with a colored bar to its left.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells of each row, as text.
    title
        A line above the table.
    notes
        Lines below the table.
    left
        Indices of the columns that are aligned to the left; numbers are aligned to the right.
    bold
        Indices of the rows that are in bold.
    color
        Color of the bar.
    hint
        Whether a line below a wide table says that it can be scrolled.

    Examples
    --------
    >>> table_block(["grade", "rows"], [["A", "800"]], notes=["p < 0.05"]).count("<td")
    2
    """
    top = "".join(_cell("th", name, place in left) for place, name in enumerate(head))
    rows = [*rows]
    texts = [[each.text if isinstance(each, Dot) else each for each in cells] for cells in (head, *rows)]
    width = sum(max(map(len, column)) + 3 for column in zip_longest(*texts, fillvalue=""))
    body = "".join(
        f"<tr>{''.join(_cell('td', cell, place in left, row in bold) for place, cell in enumerate(cells))}</tr>"
        for row, cells in enumerate(rows)
    )
    above = f"<strong>{escape(title)}</strong>" if title else ""
    style = "border-collapse:collapse;margin:0.3em 0;font-size:0.95em"
    written = f'<table style="{style}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    if hint and width > WIDE_TABLE:
        notes = (*notes, f"Narrow window? Scroll the table sideways: it has {len(head)} columns.")
    return _bar(f'{above}<div style="overflow-x:auto">{written}</div>{_lines(notes)}', color)


def stacked(*blocks: str) -> str:
    """Blocks one below the other."""
    return f"<div>{''.join(blocks)}</div>"


def picture(png: bytes, text: str, width: int) -> str:
    """A picture that is part of the HTML, with its text for readers who do not see it; width in pixels."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img src="data:image/png;base64,{data}" alt="{escape(text)}" width="{width}" style="max-width:100%">'


def page(document: str, title: str, height: int = PAGE_HEIGHT) -> str:
    """A whole HTML page in a frame of its own, in which scripts do not run."""
    return (
        f'<iframe srcdoc="{escape(document)}" title="{escape(title)}" sandbox="allow-same-origin" width="100%" '
        f'height="{height}" style="border:{_LINE}"></iframe>'
    )


def _bar(content: str, color: str) -> str:
    style = f"border-left:5px solid {escape(color)};padding:0.2em 0.8em;margin:0.2em 0;max-width:62em;line-height:1.45"
    return f'<div style="{style}">{content}</div>'


def _lines(lines: Sequence[str]) -> str:
    """Lines as paragraphs, and indented ones as items of a list, by their depth."""
    written, listed = "", False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if bool(depth) != listed:
            written += "</ul>" if listed else '<ul style="margin:0.2em 0;padding-left:1.4em">'
            listed = not listed
        if listed:
            inset = f' style="margin-left:{0.6 * (depth - 2):.1f}em"' if depth > 2 else ""
            written += f"<li{inset}>{escape(line.strip())}</li>"
        elif line:
            written += f'<div style="margin-top:0.2em">{escape(line)}</div>'
    return f"{written}</ul>" if listed else written


def _cell(tag: str, cell: Cell, left: bool, bold: bool = False) -> str:
    dot = f'<span style="color:{escape(cell.color)}">{cell.shape}</span> ' if isinstance(cell, Dot) else ""
    text = cell.text if isinstance(cell, Dot) else cell
    style = f"text-align:{'left' if left else 'right'};padding:0.15em 0.7em;border-bottom:{_LINE};background:none"
    style += ";font-weight:bold" if bold or tag == "th" else ""
    return f'<{tag} style="{style}">{dot}{escape(visible(text))}</{tag}>'
