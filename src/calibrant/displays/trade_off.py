"""Plots of the trade-off of calibration and classification, such as by the size of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.displays.drawing.style import Linear
from calibrant.messages import InputError
from calibrant.metrics.properties import TradeOff, trade_off
from calibrant.numerics import Column, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MODELS = 30
"""Models that can be distinguished."""


class TradeOffDisplay(Display):
    """Calibration error and share of wrong classes of several models, in the order in which they are given.

    The dotted line is the error that a calibrated model with the same scores would show by chance: where the error lies
    on it, the rise of the error with the size of a model is noise of the judged rows. Bars are 95 % intervals of the
    share of wrong classes.

    Parameters
    ----------
    found : TradeOff
        The result of :func:`calibrant.metrics.trade_off`.
    label : str
        What the names of the models are, such as "Leaves".

    Notes
    -----
    Edge cases: where chance cannot be computed, as for more than 200 regions, the dotted line has a gap.
    Guarantee: no finite-sample guarantee. Cost: that of :func:`calibrant.metrics.trade_off`.
    Reference: Torabian (2023), section 4.4 and Figure 4.6.

    Attributes
    ----------
    found
        The numbers.
    label
        What the names of the models are.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> y = [0] * 52 + [1] * 8 + [0] * 20 + [1] * 40
    >>> display = TradeOffDisplay.from_predictions({1: [0.4] * 120, 2: [0.1] * 60 + [0.7] * 60}, y)
    >>> display.data["models"], [round(loss, 3) for loss in display.data["loss"]]
    (['1', '2'], [0.4, 0.233])
    """

    size = (6.0, 4.4)

    def __init__(self, found: TradeOff, *, label: str = "Model") -> None:
        if not 1 <= len(found) <= MOST_MODELS:
            raise InputError("found", f"has {len(found)} models", f"draw from 1 to {MOST_MODELS}")
        self.found, self.label = found, label

    @classmethod
    def from_predictions(
        cls,
        scores: Mapping[Any, Any],
        y: Column,
        sample_weight: Column = None,
        *,
        regions: Mapping[Any, Any] | None = None,
        label: str = "Model",
        random_state: int = 0,
    ) -> TradeOffDisplay:
        """Compute the trade-off; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, regions, random_state
            As in :func:`calibrant.metrics.trade_off`.
        label
            What the names of the models are, such as "Leaves".

        Returns
        -------
        TradeOffDisplay
            The computed plot.
        """
        return cls(trade_off(scores, y, sample_weight, regions=regions, random_state=random_state), label=label)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        lines = self.found.lines
        columns = ("cells", "error", "null", "loss", "loss_low", "loss_high")
        made = {name: [getattr(each, name) for each in lines] for name in columns}
        return {
            "display": "trade-off",
            "measure": self.found.measure,
            "models": [each.name for each in lines],
            **made,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        return (
            f"Error: {self.found.measure}. By chance: the error of a calibrated model with these scores. "
            "Bars: 95 % intervals."
        )

    def _draw_on(self, ax: Axes) -> None:
        data = self.data
        x = np.arange(len(data["models"]), dtype=np.float64)
        error, loss, chance = (_floats(data[name]) for name in ("error", "loss", "null"))
        low, high = (_floats(data[name]) for name in ("loss_low", "loss_high"))
        low, high = np.where(np.isnan(low), loss, low), np.where(np.isnan(high), loss, high)
        looks = (("wrong classes", loss, 1, "s"), ("calibration error", error, 0, "o"))
        for name, values, place, marker in looks:
            look: dict[str, Any] = {"color": style.color(ax, place), "linestyle": style.DASHES[place]}
            ax.plot(x, values, **look, marker=marker, markersize=5, linewidth=1.6, label=name, zorder=3)
        bars = np.maximum([loss - low, high - loss], 0.0)
        ax.errorbar(x, loss, bars, fmt="none", ecolor=style.color(ax, 1), alpha=0.45, zorder=2)
        ink = ax.xaxis.label.get_color()
        if np.isfinite(chance).any():
            ax.plot(x, chance, color=ink, linewidth=1.2, linestyle=(0, (1, 1.2)), label="error by chance", zorder=2)
        top = float(np.nanmax(np.concatenate([error, high, chance, [1e-3]])))
        style.percent_axis(ax, "y", 0.0, min(1.08 * top, 1.0), room=0.02)
        self._name_models(ax, x)
        ax.set_xlabel(self.label)
        ax.set_ylabel("Error and share of wrong classes")
        self._head(ax, "Calibration and classification")
        drawn = [style.along(Linear(), x, values) for values in (error, loss) if len(x)]
        style.place_legend(ax, [*drawn, style.upright(x, low, high)])

    def _name_models(self, ax: Axes, x: Floats) -> None:
        """A name at every tick, or at as many as have room."""
        names = [style.short(each.name, 12) for each in self.found.lines]
        room = style.width_in_points(ax) / max(len(names), 1)
        step = max(1, int(np.ceil((5.5 * max(map(len, names)) + 8.0) / room)))
        ax.set_xticks(x[::step], names[::step])
        ax.set_xlim(-0.5, len(names) - 0.5)


def _floats(values: list[float | None]) -> Floats:
    return np.array([np.nan if each is None else each for each in values], dtype=np.float64)


display_of.register(TradeOff, TradeOffDisplay)
