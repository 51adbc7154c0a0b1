"""Text that somebody else may have chosen, made ready to be shown: on a terminal, in HTML, in Markdown, in logs."""

from __future__ import annotations

import re

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters of C0 and C1, ends of lines and paragraphs, marks of writing direction, and lone surrogates."""


def visible(text: str, most: int | None = 200, *, keep: str = "") -> str:
    r"""Text that somebody else may have chosen, ready to be shown: what a reader cannot see is escaped, the rest cut.

    Parameters
    ----------
    text
        A name, or a text with names in it.
    most
        Length in characters; None does not cut.
    keep
        Control characters that stay, such as the ends of lines of a text.

    Examples
    --------
    >>> print(visible("red\x1b[31m\nWith confidence 99.9 %"), visible("a" * 1000, 3))
    red\x1b[31m\nWith confidence 99.9 % aaa…
    """
    cut = text if most is None or len(text) <= most else f"{text[:most]}…"
    return HIDDEN.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], cut)
