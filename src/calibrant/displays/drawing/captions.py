"""Text above axes that wraps to their width whenever the figure is laid out or drawn; imported only to draw."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

GAP = 5.0
"""Points between the axes and the caption, and between the caption and the title."""


class Caption(Annotation):
    """A caption above axes, left-aligned, with the title of the axes above it; both follow the width of the axes.

    Axes of fewer points than ``narrow`` get smaller text.
    """

    def __init__(self, ax: Axes, title: str, text: str, narrow: float) -> None:
        super().__init__(
            "", (0.0, 1.0), (0.0, GAP), xycoords="axes fraction", textcoords="offset points", va="bottom",
            linespacing=1.25, annotation_clip=False,
        )  # fmt: skip
        self._given, self._width = text.replace(" %", "\u00a0%"), -1.0  # a number and its percent sign stay together
        self._over, self._title, self._written, self._narrow = ax, title, title, narrow
        ax.set_title(title, loc="left", fontweight="bold")
        ax.add_artist(self)
        self.set_clip_on(False)
        self.fit()

    def fit(self) -> None:
        """Wrap the text to the width of the axes, and put the title above it."""
        ax = self._over
        if ax.bbox.width == self._width:
            return
        self._width = float(ax.bbox.width)
        width = self._width / ax.get_figure(root=True).dpi * 72.0  # type: ignore[union-attr]
        size = "small" if width >= self._narrow else "x-small"
        points = float(FontProperties(size=size).get_size_in_points())
        self.set_fontsize(size)
        lines: list[str] = []
        for letters in range(max(int(width / (0.45 * points)), 24), 23, -2):
            lines = [line for part in self._given.splitlines() for line in textwrap.wrap(part, letters)]
            self.set_text("\n".join(lines))
            if super().get_window_extent().width <= self._width:
                break
        pad = 2.0 * GAP + 1.3 * points * len(lines) if lines else 1.5 * GAP
        scale = "medium" if width < self._narrow else "large"
        if ax.get_title(loc="left") != self._written:  # the user has changed it
            self._title = ax.get_title(loc="left")
        heading = ax.set_title(self._title, loc="left", pad=pad, fontweight="bold", fontsize=scale)
        room = float(ax.get_figure(root=True).bbox.x1) - float(ax.bbox.x0)  # type: ignore[union-attr]
        for letters in range(len(self._title), 11, -2):
            if heading.get_window_extent().width <= room:
                break
            whole = textwrap.fill(self._title.replace(" %", "\u00a0%"), letters)
            heading.set_text(whole.replace("\u00a0", " "))
        self._written = heading.get_text()

    def get_window_extent(self, renderer: Any = None, dpi: float | None = None) -> Any:
        """Extent of the wrapped text."""
        self.fit()
        return super().get_window_extent(renderer)

    def get_tightbbox(self, renderer: Any = None) -> Any:
        """Extent of the wrapped text and of the title above it, for layouts."""
        self.fit()
        heading: Any = self._over._left_title  # type: ignore[attr-defined]  # no public attribute has it
        boxes = [super().get_tightbbox(renderer), heading.get_window_extent(renderer)]
        whole = Bbox.union([box for box in boxes if box.height > 0] or boxes[:1])
        # A text wider than the axes must not make them narrower still.
        return Bbox.from_extents(whole.x0, whole.y0, min(whole.x1, self._over.bbox.x1), whole.y1)

    def draw(self, renderer: Any) -> None:
        """Draw the wrapped text."""
        self.fit()
        super().draw(renderer)
