"""Base class of the displays, and checks of their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from calibrant.displays import style
from calibrant.messages import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Display(ABC):
    """A computed plot: ``data`` has its numbers, and :meth:`plot` draws them."""

    size: tuple[float, float]
    """Size of a new figure, in inches."""
    ax_: Axes
    figure_: Any

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on a new figure; further panels take part of the space of ``ax``."""
        ax = style.new_axes(ax, self.size)
        self.ax_, self.figure_ = ax, style.figure_of(ax)
        self._draw_on(ax)
        return self

    @abstractmethod
    def _draw_on(self, ax: Axes) -> None:
        """Draw everything."""


def check_confidence(confidence: float) -> None:
    """Raise an error unless the confidence level is strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise InputError("confidence", f"must be strictly between 0 and 1, got {confidence}")
