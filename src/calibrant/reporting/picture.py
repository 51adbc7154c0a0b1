"""Displays as SVG text for an HTML page."""

from __future__ import annotations

import io
import re
from typing import Any

from calibrant.displays.base import Display
from calibrant.messages import MissingPackage, Nouns
from calibrant.verdict.figures import capitalized

DEFAULT_NOUNS = Nouns()

SIZE = (4.8, 4.9)
"""Inches; small, so that text stays legible on a phone."""


WIDE = 6.0
"""Displays that are at least this wide are drawn at their own size, in inches."""


def draw_svg(display: Display, name: str, label: str, nouns: Nouns = DEFAULT_NOUNS) -> str:
    """The display as an ``<svg>`` element with ids that begin with ``name``; the same numbers give the same bytes.

    It is drawn with matplotlib's default settings; the user's settings are neither used nor changed. File header,
    metadata and namespace addresses are removed: HTML does not need them. Axes and legend have the words of ``nouns``.
    """
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(
            "an HTML report", "matplotlib", "calibrant[plot]", "Markdown and JSON do not need it"
        ) from None
    text = io.StringIO()
    settings: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9.0}
    with style.context(["default", settings]):
        small = SIZE[0], min(SIZE[1], display.size[1])
        figure = Figure(figsize=small if display.size[0] < WIDE else display.size, layout="constrained")
        display.plot(figure.subplots(), title="", caption="")  # they are in the page, where they wrap
        _rename(figure, nouns)
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    return _embedded(text.getvalue(), name, label)


def _rename(figure: Any, nouns: Nouns) -> None:
    """Put the nouns of a style in place of the general ones."""
    from matplotlib.text import Text

    if nouns == DEFAULT_NOUNS:
        return
    words = {
        "Event rate": capitalized(nouns.rate),
        "Observed / predicted events": f"Observed / predicted {nouns.events}",
        "Score (predicted probability)": capitalized(nouns.score),
        "Rows": capitalized(nouns.rows),
        "Rows\n(log scale)": f"{capitalized(nouns.rows)}\n(log scale)",
        "events": nouns.events,
        "no events": nouns.others,
        "each score": f"each {nouns.score}",
    }
    for text in figure.findobj(Text):
        if text.get_text() in words:
            text.set_text(words[text.get_text()])


def _embedded(svg: str, name: str, label: str) -> str:
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", body)
    body = body.replace("xlink:href", "href")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    start = body.index(">", body.index("<svg")) + 1
    return f'<svg {box.group()} role="img" aria-label="{label}">{body[start:]}'.strip()
