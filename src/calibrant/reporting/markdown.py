"""A report as Markdown: the same sections and tables, without the figure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from calibrant.reporting.blocks import Block, Bullets, Cell, Headline, Mark, Picture, Section, Table
from calibrant.visible import visible


def write_markdown(title: str, subtitle: str, sections: Iterable[Section]) -> str:
    """The report as Markdown text; everything that could be read as markup is escaped."""
    lines = [f"# {_safe(title)}", "", _safe(subtitle)]
    for section in sections:
        blocks = [line for block in section.blocks for line in _block(block)]
        lines += ["", f"## {_safe(section.heading)}", *blocks]
    return "\n".join(lines) + "\n"


def _block(block: Block) -> list[str]:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Bullets):
        return ["", *(f"{'  ' * item.startswith(' ')}- {_safe(item)}" for item in block.items)]
    if isinstance(block, Headline):
        return ["", f"**{_safe(block.text)}**", "", _safe(block.step)]
    if isinstance(block, Picture):
        return ["", f"{_safe(block.label)} The figure is in the HTML version of this report."]
    return ["", _safe(block)]


def _table(table: Table) -> list[str]:
    lines = ["", f"**{_safe(table.caption)}**", "", _line(table.head)]
    side = ":--" if table.words else "--:"
    lines.append("|" + "|".join([":--", *[side] * (len(table.head) - 1)]) + "|")
    lines += [_line(row) for row in table.rows]
    return lines + [line for note in table.footnotes for line in ("", _safe(note))]


def _line(cells: Iterable[Cell]) -> str:
    texts = (_safe(visible(cell.word if isinstance(cell, Mark) else cell)) for cell in cells)
    return "| " + " | ".join(texts) + " |"


def _safe(text: str) -> str:
    r"""Text on one line, with all Markdown and HTML characters escaped.

    Examples
    --------
    >>> print(_safe("a|b <i> *c* __d__ [e](f) < 1.5, p > 0.05"))
    a\|b &lt;i> \*c\* \_\_d\_\_ \[e\](f) < 1.5, p > 0.05
    """
    plain = " ".join(visible(text, None, keep="\n").split()).replace("&", "&amp;")
    plain = re.sub("^>", "&gt;", plain)  # a quote begins with it; elsewhere it closes no tag, since none is open
    plain = re.sub(r"<(?! \d)", "&lt;", plain)  # before a space it opens no tag: p-values stay legible
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", plain)
