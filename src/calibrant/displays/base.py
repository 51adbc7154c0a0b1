"""Base class of the displays, and checks of their options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from functools import singledispatch
from io import BytesIO
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.displays.drawing import style
from calibrant.messages import InputError, Setting
from calibrant.notebook import picture, text_block

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PIXELS = 90
"""Pixels per inch in a notebook; drawn with twice as many, for sharp screens."""


@singledispatch
def display_of(result: Any) -> Display:
    """The display of a result, which its method ``plot`` draws; each display registers the results that it takes."""
    raise InputError("result", f"is a {type(result).__name__}, which has no display")


class Display(ABC):
    """A computed plot: ``data`` has its numbers, and :meth:`plot` draws them."""

    size: tuple[float, float]
    """Size of a new figure, in inches."""
    ax_: Axes
    figure_: Any
    _title: str | None = None
    _text: str | None = None

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """What the plot shows, as text."""

    def plot(
        self,
        ax: Axes | None = None,
        *,
        figsize: tuple[float, float] | None = None,
        title: str | None = None,
        caption: str | None = None,
    ) -> Self:
        """Draw on ``ax``, or on a new figure; further panels take part of the space of ``ax``.

        Parameters
        ----------
        ax
            Axes to draw on; by default those of a new figure.
        figsize
            Width and height of a new figure, in inches.
        title, caption
            Texts above the plot in place of the display's own; an empty text leaves one out.
        """
        if ax is not None and figsize is not None:
            raise InputError("figsize", "is the size of a new figure, but ax was passed", "pass only one of them")
        ax = style.new_axes(ax, figsize or self.size)
        self.ax_, self.figure_ = ax, style.figure_of(ax)
        self._title, self._text = title, caption
        self._draw_on(ax)
        return self

    def save(self, path: Any, *, figsize: tuple[float, float] | None = None, caption: str | None = "") -> Self:
        """Draw on a new figure and write it for print: fonts are embedded, and pdf and svg are vector formats.

        Parameters
        ----------
        path
            File to write; its ending is the format, such as ``.pdf``, ``.svg``, ``.eps`` or ``.png`` (300 dpi).
        figsize
            Width and height in inches; 3.5 inches is one column of most journals.
        caption
            Text above the plot; by default none, since a journal sets it below. None for the display's own.

        Notes
        -----
        Curves differ by dashes as well as by color, so that they can be distinguished in gray.
        """
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError:
            raise style.no_matplotlib() from None
        figure = Figure(figsize=figsize or self.size, layout="constrained")
        with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path"}):
            drawn = copy(self).plot(figure.subplots(), caption=caption)
            figure.savefig(path, dpi=300)
        return drawn

    def _head(self, ax: Axes, title: str, others: Sequence[Axes] = ()) -> None:
        """Write title and caption above the axes; ``others`` are moved down with them where that is needed."""
        title = title if self._title is None else self._title
        style.caption(ax, title, self.caption if self._text is None else self._text, others)

    def __repr__(self) -> str:
        """Name and first line of the caption."""
        return f"<{type(self).__name__}: {self.caption.partition(chr(10))[0]}>"

    def _repr_html_(self) -> str | None:
        """For notebooks: the picture; None if it is drawn on an open figure, which the notebook shows anyway."""
        try:
            from matplotlib._pylab_helpers import Gcf
            from matplotlib.figure import Figure
        except ImportError:
            return text_block(f"{self.caption}\n  {style.no_matplotlib()}")
        drawn = getattr(self, "figure_", None)
        if drawn is not None and any(drawn.canvas is each.canvas for each in Gcf.get_all_fig_managers()):
            return None
        figure, file = Figure(figsize=self.size, layout="constrained"), BytesIO()
        copy(self).plot(figure.subplots())
        figure.savefig(file, format="png", dpi=2 * PIXELS)
        return picture(file.getvalue(), self.caption, round(PIXELS * self.size[0]))

    @abstractmethod
    def _draw_on(self, ax: Axes) -> None:
        """Draw everything."""


def event_scores(estimator: Any, X: Any, positive: Any = None) -> tuple[NDArray[Any], Any]:
    """Probabilities of one class by a fitted classifier, and that class; by default the second of two."""
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        raise InputError(
            "estimator",
            f"must be a fitted classifier with predict_proba, not {type(estimator).__name__}",
            "fit it first, or pass its scores to from_predictions",
        )
    classes = np.asarray(estimator.classes_).tolist()
    if positive is None and len(classes) != 2:
        raise InputError(
            "estimator",
            f"has {len(classes)} classes",
            "pass positive=, the class to draw against the rest; TopLabelDisplay draws all of them",
        )
    if positive is not None and positive not in classes:
        raise InputError(
            Setting("positive", positive), f"is not a class of the estimator ({classes})", "pass one of them"
        )
    place = 1 if positive is None else classes.index(positive)
    return np.asarray(estimator.predict_proba(X))[:, place], classes[place]


def calibrated_scores(after: Any, scores: Any) -> Any:
    """Scores after calibration: those given, or those of a fitted calibrator."""
    # Series and frames have a `transform` too, but are arrays.
    return after.transform(scores) if hasattr(after, "transform") and not hasattr(after, "__array__") else after


def check_confidence(confidence: float) -> None:
    """Raise an error unless the confidence level is strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise InputError("confidence", f"must be strictly between 0 and 1, got {confidence}")
