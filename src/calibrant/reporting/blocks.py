"""What a report is made of, before it is written as HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "warn", "bad", "none"]


@dataclass(frozen=True)
class Mark:
    """A word with a colour; the word alone says everything."""

    word: str
    tone: Tone


Cell = str | Mark


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows; ``footnotes`` go below it."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnotes: tuple[str, ...] = ()
    words: bool = False
    """Whether the cells hold sentences and not figures."""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Headline:
    """The verdict in one line, in the colour of its state."""

    text: str
    tone: Tone


@dataclass(frozen=True)
class Picture:
    """Where the picture goes, and what to read to those who do not see it."""

    name: str
    label: str
    caption: str


Block = str | Bullets | Headline | Picture | Table


@dataclass(frozen=True)
class Section:
    """A part of the report under its heading."""

    key: str
    heading: str
    blocks: tuple[Block, ...]
