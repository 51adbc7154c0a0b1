"""Building blocks of a report, before it is written as HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["good", "warn", "bad", "none"]


@dataclass(frozen=True)
class Mark:
    """A word with a color; the color adds no information."""

    word: str
    tone: Tone
    arrow: Literal["", "up", "down"] = ""
    """Where the number is: above or below what it is compared with."""


Cell = str | Mark


@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows; ``footnotes`` go below it."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    footnotes: tuple[str, ...] = ()
    words: bool = False
    """Whether the cells contain text, not numbers."""


@dataclass(frozen=True)
class Bullets:
    """A list of sentences; those that begin with a space belong to the one before."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Headline:
    """The verdict in one line, in the color of its status, and what to do next."""

    text: str
    tone: Tone
    step: str


@dataclass(frozen=True)
class Picture:
    """Place of the figure, its alternative text and its caption."""

    name: str
    label: str
    caption: str
    aside: bool = False
    """Whether it stands at the right of what follows, if the page is wide enough."""


Block = str | Bullets | Headline | Picture | Table


@dataclass(frozen=True)
class Section:
    """A section of the report with its heading."""

    key: str
    heading: str
    blocks: tuple[Block, ...]
