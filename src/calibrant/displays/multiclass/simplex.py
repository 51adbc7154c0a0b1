"""Plots of canonical calibration: shifts of regions of the simplex, and validity curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.displays.base import Display, check_confidence
from calibrant.displays.drawing import style
from calibrant.displays.drawing.style import Linear
from calibrant.displays.multiclass.regions import Regions, regions_of
from calibrant.messages import InputError, plural
from calibrant.numerics import Floats
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 4_000
"""Maximum number of rows drawn as points."""
MIN_ROWS, MIN_SHARE_OF_MEAN = 10, 0.1
"""By default a region needs this many rows for an arrow, and this share of the mean over regions."""
SHOWN_SHARE = 0.99
"""The axis of a validity curve ends where the curves reach this share of the rows."""
HEIGHT = float(np.sqrt(0.75))
"""Height of the triangle whose sides are 1."""


class SimplexDisplay(Display):
    r"""Recalibration diagram of three classes: rows on the probability simplex, with an arrow for each region.

    A row with probabilities :math:`(p_1, p_2, p_3)` is a point of the triangle whose corners are the classes, colored
    by its region b. An arrow leads from the mean prediction of the rows of a region to their calibrated prediction,

    .. math:: \bar p_b = \frac{1}{n_b} \sum_{i \in b} p_i \quad\longrightarrow\quad q_b,

    and a ring shows the observed class shares, where the arrow should end. Regions with few rows have neither.

    Notes
    -----
    Edge cases: of more than 4,000 rows an even selection is drawn as points; means are over all rows; colors repeat
    after six regions. Guarantee: no finite-sample guarantee. Cost: one sort of the rows.
    Reference: Gupta (2023), section 5.G.4 and Figure 5.12, right.

    Attributes
    ----------
    regions
        Numbers by region.
    points, places
        Rows drawn, and the position of the region of each.
    min_rows
        Effective rows that a region needs for an arrow.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 600)
    >>> y = [rng.choice(["a", "b", "c"], p=row) for row in p]
    >>> top = SimpleNamespace(regions=lambda p: p.argmax(axis=1))
    >>> display = SimplexDisplay.from_predictions(p, y, binning=top, after=np.full_like(p, 1 / 3))
    >>> display.data["regions"]["n"]
    [186.0, 211.0, 203.0]
    """

    size = (6.4, 6.5)

    def __init__(
        self, regions: Regions, points: Floats, places: NDArray[np.intp], *, min_rows: float | None = None
    ) -> None:
        if len(regions.classes) != 3:
            problem = f"must have three classes to be drawn on a triangle, got {len(regions.classes)}"
            raise InputError("regions", problem, "use CanonicalValidityDisplay, or ClasswiseDisplay")
        self.regions = regions
        self.points = points
        self.places = places
        usual = max(MIN_ROWS, np.ceil(MIN_SHARE_OF_MEAN * float(regions.size.mean())))
        self.min_rows = float(usual if min_rows is None else min_rows)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        binning: Any = None,
        after: Any = None,
        classes: Sequence[Any] | None = None,
        score_type: MulticlassScoreType | None = None,
        min_rows: float | None = None,
    ) -> SimplexDisplay:
        """Compute the diagram of a matrix of three class scores; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, classes, score_type
            As in :func:`calibrant.arrays.multiclass.rows.check_class_rows`: the scores that were calibrated.
        binning
            A fitted SimplexBinning, its map, or any object with a method ``regions(scores)`` that returns the index of
            the region of each row. Required.
        after
            Calibrated probabilities of the same rows; by default those of ``binning``.
        min_rows
            Regions with fewer effective rows have neither arrow nor ring; by default ten, or a tenth of the mean.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        regions, p, place = regions_of(
            scores, y, sample_weight, binning=binning, after=after, classes=classes, score_type=score_type
        )
        order = np.lexsort((*p.T, place))  # so that the rows drawn do not depend on the order of rows
        some = order[np.linspace(0, len(p) - 1, min(len(p), MAX_POINTS)).round().astype(np.intp)]
        try:
            return cls(regions, p[some], place[some], min_rows=min_rows)
        except InputError as error:
            raise error.about("scores") from None

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Whether each region has enough rows for an arrow."""
        return np.asarray(self.regions.size >= self.min_rows)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        return {
            "display": "simplex",
            "classes": list(self.regions.classes),
            "regions": {**self.regions.to_dict(), "shown": self.shown.tolist()},
            "points": self.points.tolist(),
            "point_regions": self.regions.codes[self.places].tolist(),
            "error_before": self.regions.error(self.regions.before),
            "error_after": self.regions.error(self.regions.after),
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        regions, total = self.regions, self.regions.n.sum()
        head = style.amount(total, regions.counted)
        if regions.counted and len(self.points) < total:
            head += f" ({len(self.points):,} drawn)"
        few = int((~self.shown).sum())
        colors = "by color" if len(regions.n) <= len(style.COLORS) else "colors repeat"
        text = f"{head} in {plural(len(regions.n), 'region')}, {colors}"
        text += f"; {few:,} with fewer than {self.min_rows:g} rows have no arrow." if few else "."
        text += " A corner is 100 % of its class, the opposite side 0 %."
        before, after = (regions.error(p) for p in (regions.before, regions.after))
        return f"{text}\nMean l1 distance of predictions to observed shares: before {before:.3f}, after {after:.3f}."

    def _draw_on(self, ax: Axes) -> None:
        self._draw_frame(ax)
        colors = np.array(style.palette(ax))[self.places % len(style.COLORS)]
        at = on_triangle(self.points)
        area = float(np.clip(8_000.0 / len(at), 7.0, 24.0))
        ax.scatter(at[:, 0], at[:, 1], s=area, c=colors, alpha=0.35, linewidths=0.0, zorder=2)
        self._draw_arrows(ax)
        self._head(ax, "Recalibration of three classes")
        self._widen(ax)
        corner = np.linspace(0.35, 0.65, 9), np.full(9, HEIGHT + 0.04)  # the name of the class at the top
        style.place_legend(ax, [(at[:, 0], at[:, 1]), corner])

    def _draw_frame(self, ax: Axes) -> None:
        corners = on_triangle(np.eye(3))
        for step in np.arange(0.2, 0.99, 0.2):
            for k in range(3):  # where class k has this probability
                ends = np.roll([[step, 1.0 - step, 0.0], [step, 0.0, 1.0 - step]], k, axis=1)
                ax.plot(*on_triangle(ends).T, color=style.GUIDE, linewidth=0.4, alpha=0.6, zorder=1)
        ax.plot(*corners[[0, 1, 2, 0]].T, color=ax.xaxis.label.get_color(), linewidth=1.0, zorder=1.5)
        sides: tuple[Any, ...] = (("left", "top", -6), ("right", "top", -6), ("center", "bottom", 5))
        for corner, name, (across, up, off) in zip(corners, self.regions.classes, sides, strict=True):
            ax.annotate(
                style.short(name), corner, (0.0, off), textcoords="offset points", ha=across, va=up, fontweight="bold"
            )
        ax.set_aspect("equal")
        ax.set_xlim(-0.04, 1.04)
        ax.set_ylim(-0.09, HEIGHT + 0.12)
        ax.set_xticks([])
        ax.set_yticks([])
        for spine in ax.spines.values():
            spine.set_visible(False)

    def _widen(self, ax: Axes) -> None:
        """Use the whole width, so that the legend fits next to the triangle."""
        style.settle(ax)
        place = ax.get_position(original=True).transformed(style.figure_of(ax).transSubfigure)
        spare = (np.ptp(ax.get_ylim()) * place.width / place.height - 1.08) / 2.0
        if spare > 0.0:
            ax.set_xlim(-0.04 - spare, 1.04 + spare)
        ax.apply_aspect()

    def _draw_arrows(self, ax: Axes) -> None:
        regions, shown = self.regions, self.shown
        tails, heads, seen = (on_triangle(p[shown]) for p in (regions.before, regions.after, regions.seen))
        ink = ax.xaxis.label.get_color()
        for tail, head in zip(tails, heads, strict=True):
            arrow = {"arrowstyle": "-|>,head_length=0.35,head_width=0.16", "shrinkA": 0.0, "shrinkB": 0.0}
            ax.annotate("", head, tail, arrowprops={**arrow, "color": ink, "linewidth": 1.2}, zorder=4)
        dot: dict[str, Any] = {"s": 9.0, "c": ink, "zorder": 4, "linewidths": 0.0}
        ax.scatter(tails[:, 0], tails[:, 1], **dot, label="mean prediction (tail)")
        ax.scatter([], [], s=30.0, c=ink, marker=">", label="calibrated (head)")
        colors = np.array(style.palette(ax))[np.flatnonzero(shown) % len(style.COLORS)]
        ring: dict[str, Any] = {"s": 30.0, "c": colors, "edgecolors": ink, "linewidths": 0.8, "zorder": 3}
        ax.scatter(seen[:, 0], seen[:, 1], **ring, label="observed class shares")
        # A thin line shows which ring belongs to which arrow.
        left = np.stack([heads, seen])
        thin: dict[str, Any] = {"color": ink, "linewidth": 0.6, "linestyle": (0, (1, 1.5)), "zorder": 2.5}
        for line in ax.plot(left[:, :, 0], left[:, :, 1], **thin)[:1]:
            line.set_label("from calibrated to observed")


class CanonicalValidityDisplay(Display):
    r"""Canonical validity curve: share of rows in regions whose class shares are within epsilon of the prediction.

    .. math:: V(\epsilon) = \frac{1}{n} \sum_b n_b\, \mathbb 1\bigl\{\lVert \bar y_b - \bar p_b \rVert_1
              \le \epsilon\bigr\}

    where region b has :math:`n_b` of the n rows, :math:`\bar y_b` are its class shares and :math:`\bar p_b` its mean
    prediction; the l1 distance is between 0 and 2. The regions are those of ``binning`` for both curves. The gray band
    contains, at each epsilon, 90 % of the curves if the calibrated predictions are right: from 500 simulated data sets
    with classes drawn from them.

    Notes
    -----
    Guarantee: no finite-sample guarantee; because of noise curves and gray band lie on average below the truth.
    Cost: O(rows), then 500 multinomial draws for each region. Reference: Gupta (2023), section 5.G.4 and Figure 5.12,
    left.

    Attributes
    ----------
    regions
        Numbers by region.
    confidence
        Share of the simulated curves within the gray band.
    random_state
        Seed of the simulated classes.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> p = np.tile([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], (50, 1))
    >>> y = ["a", "b"] * 25 + ["a", "c"] * 25
    >>> two = SimpleNamespace(regions=lambda p: (p[:, 2] > 0.5).astype(int))
    >>> display = CanonicalValidityDisplay.from_predictions(p, y, binning=two, after=p)
    >>> [round(epsilon, 6) for epsilon in display.data["curves"][0]["epsilon"]]
    [0.6, 1.0]
    """

    size = (6.0, 4.6)

    def __init__(self, regions: Regions, *, confidence: float = 0.9, random_state: int = 0) -> None:
        check_confidence(confidence)
        self.regions = regions
        self.confidence = confidence
        self.curves = {"before": regions.validity(regions.before), "after": regions.validity(regions.after)}
        reached = [float(one.epsilon[np.searchsorted(one.share, SHOWN_SHARE)]) for one in self.curves.values()]
        self._end = min(max(1.12 * max(reached), 1e-6), 2.0)
        self._epsilon = np.linspace(0.0, self._end, 200)
        self._gray = regions.chance(regions.after, self._epsilon, confidence, random_state)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        binning: Any = None,
        after: Any = None,
        classes: Sequence[Any] | None = None,
        score_type: MulticlassScoreType | None = None,
        confidence: float = 0.9,
        random_state: int = 0,
    ) -> CanonicalValidityDisplay:
        """Compute the curves of a matrix of class scores; draw them with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, binning, after, classes, score_type
            As in :meth:`SimplexDisplay.from_predictions`, for any number of classes.
        confidence
            Share of the simulated curves within the gray band.
        random_state
            Seed of the simulated classes.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        regions, _, _ = regions_of(
            scores, y, sample_weight, binning=binning, after=after, classes=classes, score_type=score_type
        )
        return cls(regions, confidence=confidence, random_state=random_state)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        curves = [
            {"label": name, "epsilon": one.epsilon.tolist(), "share": one.share.tolist(), "error": 1.0 - one.auc}
            for name, one in self.curves.items()
        ]
        gray = {"epsilon": self._epsilon.tolist(), "low": self._gray[0].tolist(), "high": self._gray[1].tolist()}
        return {
            "display": "canonical validity",
            "confidence": self.confidence,
            "regions": self.regions.to_dict(),
            "curves": curves,
            "gray": gray,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        regions = self.regions
        head = style.amount(regions.n.sum(), regions.counted)
        farther = 1.0 - min(float(one.at(self._end)) for one in self.curves.values())
        beyond = f" At most {style.percent(farther, 1)} of the rows are beyond the right end." if farther > 0 else ""
        return (
            f"{head}, {len(regions.classes)} classes, {plural(len(regions.n), 'region')}. Share of rows in "
            "regions whose observed class shares are within epsilon of the mean prediction, summed over classes; "
            f"higher is better.{beyond}"
        )

    def _draw_on(self, ax: Axes) -> None:
        gray = f"{style.percent(self.confidence, 3)} of curves if “after” is right\n(pointwise)"
        ax.fill_between(self._epsilon, *self._gray, linewidth=0.0, **style.band(ax), label=gray, zorder=1)
        drawn = [(self._epsilon, end) for end in self._gray]
        for turn, (name, one) in zip((1, 0), self.curves.items(), strict=True):
            x, share = style.steps(one.epsilon, one.share, 0.0, 2.0)
            label = f"{name} (mean distance {1.0 - one.auc:.3f})"
            ax.plot(x, share, color=style.color(ax, turn), linestyle=style.DASHES[turn], linewidth=1.8, label=label)
            drawn.append(style.along(Linear(), x, share))
        ax.set_xlim(0.0, self._end)
        style.share_axis(ax)
        ax.set_xlabel("Epsilon (l1 distance, from 0 to 2)")
        self._head(ax, "Canonical validity: all classes at once")
        style.place_legend(ax, drawn)


def on_triangle(p: Floats) -> Floats:
    """Coordinates of rows of three probabilities: first class lower left, second lower right, third at the top.

    Examples
    --------
    >>> on_triangle(np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])).round(3).tolist()
    [[0.0, 0.0], [0.75, 0.433]]
    """
    return np.column_stack([p[:, 1] + 0.5 * p[:, 2], HEIGHT * p[:, 2]])
