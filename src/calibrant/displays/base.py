"""What displays have in common: where they are drawn, and options that several of them take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from calibrant.displays import style
from calibrant.messages import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Display(ABC):
    """A computed picture: ``data`` holds its numbers, and :meth:`plot` draws them."""

    size: tuple[float, float]
    """Inches of a figure of its own."""
    ax_: Axes
    figure_: Any

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """Every number in the picture, as plain lists."""

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on a new figure; panels beside the main one take a part of the place of ``ax``."""
        ax = style.new_axes(ax, self.size)
        self.ax_, self.figure_ = ax, style.figure_of(ax)
        self._draw_on(ax)
        return self

    @abstractmethod
    def _draw_on(self, ax: Axes) -> None:
        """Draw everything."""


def check_level(level: float) -> None:
    """Refuse a share that is not strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise InputError("level", f"must lie strictly between 0 and 1, got {level}")
