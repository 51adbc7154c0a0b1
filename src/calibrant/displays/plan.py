"""Plot of the guaranteed epsilon by number of bins and labels, for planning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from calibrant.arrays.columns import check_option, is_whole
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.guarantees.certificate import Coverage
from calibrant.guarantees.planning import Plan, Scheme, TooFewLabels, plan
from calibrant.messages import Argument, InputError, Phrase, plural
from calibrant.numerics import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (1_000, 5_000, 20_000, 100_000)
"""Default numbers of labels."""
TICK_SPACE = (30.0, 16.0)
"""Points that a tick label needs, along the horizontal and the vertical axis."""
MIN_LABEL_GAP = 0.055
"""Minimum distance of two labels at the ends of curves, as a share of the axis."""


class PlanDisplay(Display):
    r"""Worst-case epsilon of histogram binning against the number of bins, for several numbers of labels.

    .. math:: \epsilon(B) = \sqrt{\frac{\ln(2B/\alpha)}{2(\lfloor n/B \rfloor - 1)}}

    for n labels in B bins at confidence :math:`1 - \alpha` (Gupta 2023, eq. 4.8), or what :func:`calibrant.plan` gives
    for another scheme or coverage. A bound of 1 or more is vacuous and is not drawn.

    Guarantee: that of :func:`calibrant.plan`, for any score without ties.
    Cost: one evaluation of the bound per size and number of bins.

    Reference: Gupta (2023), Figure 4.2.

    Attributes
    ----------
    plans
        For each size, the plans drawn, by increasing number of bins.
    epsilon
        The largest acceptable deviation, drawn as a line; None for no line.
    chosen
        For each size, the plan with the most bins within ``epsilon``; without ``epsilon``, plans to be marked.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> display = PlanDisplay.from_sizes([1_000, 5_000, 20_000], epsilon=0.1)
    >>> {best.n: best.n_bins for best in display.chosen}
    {1000: 4, 5000: 17, 20000: 56}
    """

    size = (6.0, 4.4)

    def __init__(
        self, plans: Sequence[Sequence[Plan]], *, epsilon: float | None = None, chosen: Sequence[Plan] = ()
    ) -> None:
        self.plans = tuple(tuple(curve) for curve in plans)
        self.epsilon = epsilon
        self.chosen = tuple(chosen)

    @classmethod
    def from_sizes(
        cls,
        n: Sequence[int] = SIZES,
        *,
        alpha: float = 0.1,
        coverage: Coverage = "simultaneous",
        scheme: Scheme = "umd",
        max_bins: int | None = None,
        epsilon: float | None = None,
    ) -> PlanDisplay:
        """Compute curves for several numbers of labels; draw them with :meth:`plot`.

        Parameters
        ----------
        n
            Numbers of labels, one curve each.
        alpha, coverage, scheme
            As in :func:`calibrant.plan`.
        max_bins
            Largest number of bins; by default 100, or as many as the marks need.
        epsilon
            Target; each curve is marked at the largest number of bins within it.
        """
        check_option("coverage", coverage, get_args(Coverage))
        check_option("scheme", scheme, get_args(Scheme))
        if not 1 <= len(n) <= len(style.COLORS):
            raise InputError(
                "n", f"must have 1 to {len(style.COLORS)} sizes, so that curves can be distinguished, got {len(n)}"
            )
        if not all(is_whole(size) and size >= 1 for size in n):
            raise InputError("n", "must be integers, at least 1 each")
        if max_bins is not None and not (is_whole(max_bins) and max_bins >= 2):
            raise InputError("max_bins", f"must be an integer of at least 2, got {max_bins!r}")
        sizes = sorted(set(n))
        chosen = []
        for size in sizes if epsilon is not None else ():
            best = _reached(n=size, epsilon=epsilon, alpha=alpha, coverage=coverage, scheme=scheme)
            chosen += [] if best is None or best.n_bins > (max_bins or np.inf) else [best]
        most = max_bins or max([100, *(round(1.6 * best.n_bins) for best in chosen)])
        curves = [_curve(size, _bin_counts(most), alpha, coverage, scheme) for size in sizes]
        return cls(curves, epsilon=epsilon, chosen=chosen)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        first = self.plans[0][0]
        return {
            "display": "plan",
            "alpha": first.alpha,
            "coverage": first.coverage,
            "scheme": first.scheme,
            "target": self.epsilon,
            "curves": [
                {"n": curve[0].n, "n_bins": [p.n_bins for p in curve], "epsilon": [p.epsilon for p in curve]}
                for curve in self.plans
            ],
            "chosen": [{"n": best.n, "n_bins": best.n_bins, "epsilon": best.epsilon} for best in self.chosen],
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        first = self.plans[0][0]
        whom = "every bin" if first.coverage == "simultaneous" else "the bin of a new row"
        text = (
            f"With confidence {style.percent(1 - first.alpha, 6)}, {whom} is within epsilon of its true rate. "
            "More bins reduce precision, more labels increase it."
        )
        if self.chosen and self.epsilon is None:
            text += " Marked: the plan."
        elif self.chosen:
            text += f" Marked: the largest number of bins within {self.epsilon:g}."
        return text

    def _draw_on(self, ax: Axes) -> None:
        ax.set_xscale("log")
        ax.set_yscale("log")
        for place, curve in enumerate(self.plans):
            ax.plot(
                [p.n_bins for p in curve],
                [p.epsilon for p in curve],
                color=style.color(ax, place),
                linestyle=style.DASHES[place],
                linewidth=1.8,
            )
        if self.epsilon is not None:
            ax.axhline(self.epsilon, **style.GUIDE_LINE)
        sizes = [curve[0].n for curve in self.plans]
        for best in self.chosen:
            self._mark(ax, best, sizes.index(best.n))
        self._set_axes(ax)
        self._label_ends(ax)
        self._head(ax, "Precision by number of bins")

    def _mark(self, ax: Axes, best: Plan, place: int) -> None:
        ax.plot(best.n_bins, best.epsilon, style.MARKERS[place], color=style.color(ax, place), markersize=7, zorder=3)
        ax.annotate(
            f"{best.n_bins:,}",
            (best.n_bins, best.epsilon),
            (-4, 6),
            textcoords="offset points",
            ha="right",
            fontsize="small",
        )

    def _set_axes(self, ax: Axes) -> None:
        width = style.width_in_points(ax)
        height = width * ax.bbox.height / ax.bbox.width
        bins = max(p.n_bins for curve in self.plans for p in curve)
        values = [p.epsilon for curve in self.plans for p in curve] + ([self.epsilon] if self.epsilon else [])
        low, high = 0.85 * min(values), 1.25 * max(values)
        ax.set_xlim(0.9, bins * (bins / 0.9) ** self._label_room(ax))
        ax.set_ylim(low, high)
        for which, ticks in (
            ("x", _marks_between(1.0, bins, int(width / TICK_SPACE[0]))),
            ("y", _marks_between(low, min(high, 1.0), int(height / TICK_SPACE[1]))),
        ):
            getattr(ax, f"set_{which}ticks")(ticks, [f"{tick:,.12g}" for tick in ticks])
            getattr(ax, f"set_{which}ticks")([], minor=True)
        ax.set_xlabel("Number of bins")
        ax.set_ylabel("Epsilon (worst case)")
        ax.grid(True, color="0.5", alpha=0.2, linewidth=0.6)
        ax.set_axisbelow(True)

    def _label_room(self, ax: Axes) -> float:
        """Space for the labels at the ends of the curves, as a share of the rest of the axis."""
        letters = max(len(_end_label(curve)) for curve in self.plans) + 2
        share = min(letters * 0.6 * style.small_points() / style.width_in_points(ax), 0.6)
        return share / (1.0 - share)

    def _label_ends(self, ax: Axes) -> None:
        """Label each curve at its right end; labels that are too close are moved apart."""
        low, high = np.log(ax.get_ylim())
        ends = [(np.log(curve[-1].epsilon) - low) / (high - low) for curve in self.plans]
        heights = _spread(np.array(ends), MIN_LABEL_GAP)
        for place, curve in enumerate(self.plans):
            ax.annotate(
                _end_label(curve),
                (curve[-1].n_bins, float(np.exp(low + heights[place] * (high - low)))),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )


def _end_label(curve: Sequence[Plan]) -> str:
    return f"n = {curve[0].n:,}"


def _marks_between(low: float, high: float, most: int) -> Floats:
    """Ticks at 1, 2 and 5 times powers of ten, or at powers of ten if these are too many."""
    marks = np.array([digit * 10.0**power for power in range(-4, 7) for digit in (1, 2, 5)])
    marks = marks[(marks >= low) & (marks <= high)]
    return marks if len(marks) <= most else marks[np.isclose(np.log10(marks) % 1.0, 0.0)]


def _bin_counts(most: int) -> Ints:
    """Every number of bins up to 40, then evenly on the log scale."""
    return np.unique(np.concatenate([np.arange(1, min(most, 40) + 1), np.geomspace(1, most, 60).round()])).astype(
        np.int64
    )


def _curve(n: int, bins: Ints, alpha: float, coverage: Coverage, scheme: Scheme) -> list[Plan]:
    found = [
        _reached(n=n, n_bins=int(count), alpha=alpha, coverage=coverage, scheme=scheme)
        for count in bins
        if 2 * count <= n
    ]
    curve = [one for one in found if one is not None]
    if not curve:
        fix = Phrase("use more labels or a larger {alpha}", alpha=Argument("alpha"))
        raise InputError("n", f"has only {plural(n, 'label')}: the bound is vacuous even for one bin", fix)
    return curve


def _reached(**question: Any) -> Plan | None:
    """The plan, or None if the bound is vacuous for this few labels; other errors are raised."""
    try:
        return plan(**question)
    except TooFewLabels:
        return None


def _spread(heights: Floats, gap: float) -> Floats:
    """Heights in the same order, at least ``gap`` apart: raised as little as needed, then lowered from the top."""
    out, order = heights.copy(), np.argsort(heights)
    for below, above in pairwise(order):
        out[above] = max(out[above], out[below] + gap)
    out[order[-1]] = min(out[order[-1]], 1.0 - gap / 2.0)
    for above, below in pairwise(order[::-1]):
        out[below] = min(out[below], out[above] - gap)
    return out


@display_of.register
def _(found: Plan) -> PlanDisplay:
    if found.notion is not None:
        raise InputError("plan", "is for several classes", "draw the bins of one class: PlanDisplay.from_sizes")
    given: dict[str, Any] = {"alpha": found.alpha, "coverage": found.coverage, "scheme": found.scheme}
    drawn = PlanDisplay.from_sizes([found.n], max_bins=max(100, round(1.6 * found.n_bins)), **given)
    return PlanDisplay(drawn.plans, chosen=[found])
