"""Plots of a back-test: the error of each policy over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from calibrant.arrays.columns import check_option, is_whole
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.live.replay.result import Backtest, PolicyResult
from calibrant.messages import InputError, Setting, plural
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Error = Literal["difference", "log-loss"]

MOST_POLICIES = len(style.COLORS)
"""Policies that can be distinguished in one plot."""

MOST_POINTS = 60
"""Points of a line, if the length of a block is not given."""

FEW_REFITS = 20
"""Refits are marked for policies that have at most this many."""


class BacktestDisplay(Display):
    """Error over time of each policy of a back-test, by blocks of days.

    Parameters
    ----------
    result : Backtest
        What :func:`calibrant.live.backtest` returned.
    error : "difference" or "log-loss"
        ``"difference"``: observed minus predicted, per row. ``"log-loss"``: log loss minus that of the reference, per
        row, so that lines above 0 are worse than the reference.
    policies : names, optional
        Policies to draw, at most 6; by default the first ones.
    block_days : int, optional
        Days of a block; by default those of the intervals of the back-test, or more if there would be over 60 blocks.

    Notes
    -----
    Guarantee: none in finite samples. The gray band is the range in which observed minus predicted of a block lies with
    a probability of about 95 % or more if the predictions of the reference are right, and outcomes independent: 1.96
    standard errors of a binomial with the mean prediction, which are at least those of the block. It is for one block
    at a time, and for predictions of the reference; those of others are about as wide.
    Edges: days without rows that count are left out, and so are blocks without such days. Points are refits of policies
    with at most 20 of them, at the end of the block of their day. Cost: that of a few hundred points.
    Reference: Gneiting, Balabdaoui and Raftery (2007), Probabilistic forecasts, calibration and sharpness, for
    marginal calibration.

    Attributes
    ----------
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant import live
    >>> rng = np.random.default_rng(0)
    >>> day, p = rng.uniform(0, 60, 6_000), rng.uniform(0.1, 0.5, 6_000)
    >>> found = live.backtest(p, rng.random(6_000) < p * (1 - 0.3 * (day > 30)), day, ["week", "never"])
    >>> display = BacktestDisplay.from_backtest(found)
    >>> [each["label"] for each in display.data["policies"]], display.data["block_days"]
    (['every week', 'never'], 6)
    """

    size = (7.0, 4.4)

    def __init__(
        self,
        result: Backtest,
        error: Error = "difference",
        policies: Sequence[str] | None = None,
        block_days: int | None = None,
    ) -> None:
        if not isinstance(result, Backtest):
            raise InputError("result", f"must be what live.backtest returned, not {type(result).__name__}")
        check_option("error", error, get_args(Error))
        if block_days is not None and (not is_whole(block_days) or block_days < 1):
            raise InputError(Setting("block_days", block_days), "must be a number of days, 1 or more")
        drawn = _chosen(result, policies)
        base = result[result.reference]
        own = max(base.log_loss_change.block_days, math.ceil(len(result.n) / MOST_POINTS))
        length = own if block_days is None else int(block_days)
        starts = np.arange(0, len(result.n), length)
        rows = np.add.reduceat(result.n, starts)
        kept = rows > 0.0
        n, ends = rows[kept], np.minimum(starts + length, len(result.n))[kept] - 1

        def by_block(values: Floats) -> Floats:
            """Means per row."""
            return np.asarray(np.add.reduceat(values, starts)[kept] / n)

        mean = by_block(base.predicted)
        self.error, self._names = error, result.day_names
        self._lines: list[dict[str, Any]] = [
            {
                "label": each.name,
                "error": by_block(
                    result.observed - each.predicted if error == "difference" else each.losses - base.losses
                ).tolist(),
                "refits": each.refits,
                "refit_blocks": _refit_blocks(each, result.day_names, ends),
            }
            for each in drawn
        ]
        self._numbers: dict[str, Any] = {
            "error": error,
            "reference": result.reference,
            "rows": result.rows,
            "block_days": length,
            "not_drawn": len(result) - len(drawn),
            "last_day": [result.day_names[end] for end in ends],
            "day": ends.tolist(),
            "n": n.tolist(),
            "half_width": (TWO_SIDED * np.sqrt(mean * (1.0 - mean) / n)).tolist(),
        }

    @classmethod
    def from_backtest(
        cls,
        result: Backtest,
        *,
        error: Error = "difference",
        policies: Sequence[str] | None = None,
        block_days: int | None = None,
    ) -> BacktestDisplay:
        """Compute the points; draw them with :meth:`plot`.

        Parameters
        ----------
        result, error, policies, block_days
            As in the class.

        Returns
        -------
        BacktestDisplay
            The computed plot.
        """
        return cls(result, error, policies, block_days)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists; ``half_width`` is that of the gray band."""
        return {"display": "back-test", **self._numbers, "policies": [dict(each) for each in self._lines]}

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        found = self._numbers
        blocks = f"{plural(found['rows'], 'row')} in blocks of {plural(found['block_days'], 'day')}."
        if self.error == "difference":
            text = (
                f"{blocks} Gray: where a block lies in about 95 % of cases or more if {found['reference']!r} predicts "
                "right."
            )
        else:
            text = f"{blocks} Above 0: worse than {found['reference']!r}."
        if any(each["refit_blocks"] for each in self._lines):
            text += f" Points: refits, if at most {FEW_REFITS}."
        if found["not_drawn"]:
            text += f" Not drawn: {plural(found['not_drawn'], 'policy', 'policies')}."
        return text

    def _draw_on(self, ax: Axes) -> None:
        day, half = np.array(self._numbers["day"], dtype=np.float64), np.array(self._numbers["half_width"])
        drawn: list[tuple[Floats, Floats]] = []
        ax.axhline(0.0, **style.GUIDE_LINE, zorder=1)
        if self.error == "difference":
            ax.fill_between(day, -half, half, **style.band(ax) | {"linewidth": 0.0}, label="if right", zorder=1.5)
        for place, line in enumerate(self._lines):
            values = np.array(line["error"])
            color, over = style.color(ax, place), 3.0 - 0.1 * place
            marker = "o" if len(day) == 1 else None
            ax.plot(
                day, values, color=color, linestyle=style.DASHES[place], linewidth=1.6, marker=marker, markersize=4,
                label=style.short(line["label"], 30), zorder=over,
            )  # fmt: skip
            at = line["refit_blocks"]
            if at and len(day) > 1:
                ax.plot(
                    day[at], values[at], color=color, linestyle="none", marker=style.MARKERS[place], markersize=4.5,
                    zorder=over,
                )  # fmt: skip
            drawn.append(_on_the_way(day, values))
        self._set_axes(ax, day)
        self._head(ax, "Observed minus predicted" if self.error == "difference" else "Log loss over time")
        style.place_legend(ax, drawn)

    def _set_axes(self, ax: Axes, day: Floats) -> None:
        names = self._names
        room = max(0.02 * float(day[-1] - day[0]), 0.5)
        ax.set_xlim(float(day[0]) - room, float(day[-1]) + room)
        ax.locator_params(axis="x", nbins=5 if len(names[-1]) > 6 else 7, integer=True)
        ax.xaxis.set_major_formatter(lambda value, _: _name(names, value))
        ax.set_xlabel("Day")
        if self.error == "difference":
            ax.yaxis.set_major_formatter(lambda value, _: style.percent(value, 6))
            ax.set_ylabel("Observed minus predicted")
        else:
            ax.set_ylabel("Log loss minus that of the reference")


def _chosen(result: Backtest, policies: Sequence[str] | None) -> list[PolicyResult]:
    """The policies to draw, in the order in which they are named."""
    if policies is None:
        return list(result.results[:MOST_POLICIES])
    names = [policies] if isinstance(policies, str) else list(policies)
    for name in names:
        if name not in result:
            raise InputError(Setting("policies", name), "is not in the back-test", f"pass some of {', '.join(result)}")
    if not 1 <= len(names) <= MOST_POLICIES or len(set(names)) < len(names):
        raise InputError("policies", f"must be 1 to {MOST_POLICIES} different names", "draw others in another plot")
    return [result[name] for name in names]


def _refit_blocks(result: PolicyResult, names: Sequence[str], ends: Floats) -> list[int]:
    """Blocks with a refit, if there are few refits."""
    if not result.refit_days or len(result.refit_days) > FEW_REFITS:
        return []
    place = {name: number for number, name in enumerate(names)}
    blocks = np.searchsorted(ends, [place[day] for day in result.refit_days])
    return sorted({int(block) for block in blocks if block < len(ends)})


def _on_the_way(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Points along a line, which a legend must not cover."""
    at, steps = np.linspace(0, len(x) - 1, 6 * len(x)), np.arange(len(x))
    return np.interp(at, steps, x), np.interp(at, steps, y)


def _name(names: Sequence[str], value: float) -> str:
    number = round(value)
    return names[number] if 0 <= number < len(names) else ""


display_of.register(Backtest, BacktestDisplay)
