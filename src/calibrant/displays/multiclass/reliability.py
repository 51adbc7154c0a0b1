"""Reliability of the class that a model names: of all classes together, by class, and one bin looked into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.kinds import ClassKind
from calibrant.displays import style
from calibrant.displays.base import Display, check_level
from calibrant.displays.multiclass.rates import ClassCells, TopBins, top_bins, worst
from calibrant.displays.panels import axis_of_counts, panel_below, panel_beside
from calibrant.displays.style import Linear
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Setting, plural
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.numerics import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CLASSES = 20
"""Classes shown in one bin."""
STAR, PLUS = style.COLOURS[0], style.COLOURS[5]


class TopLabelDisplay(Display):
    r"""Reliability diagram of the named class: a star for all classes together, a plus for the classes apart.

    With :math:`c_i` the class of the largest score of row i and :math:`h_i` that score, the star of bin b is at the
    mean confidence :math:`\mathrm{conf}_b` and the accuracy :math:`\mathrm{acc}_b` of its rows. The plus is at
    :math:`\mathrm{conf}_b \pm \Delta_b`,

    .. math:: \Delta_b = \sum_l \frac{n_{b,l}}{n_b}
              \Bigl|\frac{1}{n_{b,l}} \sum_{i \in b,\, c_i = l} \bigl(\mathbb 1\{Y_i = l\} - h_i\bigr)\Bigr|,

    over the classes l, with :math:`n_{b,l}` of the :math:`n_b` rows naming l: above the diagonal where
    :math:`\mathrm{acc}_b > \mathrm{conf}_b`, else below. Classes that err in opposite directions cancel in the star and
    add up in the plus, so a plus is never nearer to the diagonal than its star.

    The grey and the thin bar show what chance does: of 500 simulated models that are calibrated by named class, with
    binomial events at the mean confidence of each class and bin, 90 % keep their star in the grey and their plus on the
    thin bar. From few rows of each class a plus lies far out even when nothing is wrong.

    Notes
    -----
    Edge rules: empty bins are left out; a plus that lies below 0 or above 1 is drawn there, and the caption says so;
    importance weights count with the effective number of rows of each cell.
    Guarantee: no finite-sample guarantee; each bin by itself.
    Cost: one pass over the matrix, then 500 draws for each filled pair of class and bin.
    Reference: 002 section 5.2.1 and Figure 5.1a; 002 eq. 5.3 and 5.4 for the errors in the caption.

    Attributes
    ----------
    cells
        Rows, events and sums of confidences by named class and bin.
    bins
        What is drawn of each filled bin.
    ax_, counts_ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    One class is always right and the other never, at confidence 0.5: the star is on the diagonal, the plus is not.

    >>> scores = [[0.5, 0.4, 0.1], [0.1, 0.5, 0.4]] * 50
    >>> display = TopLabelDisplay.from_predictions(scores, ["a", "c"] * 50, classes="abc")
    >>> display.bins.confidence.tolist(), display.bins.accuracy.tolist(), display.bins.delta.tolist()
    ([0.5], [0.5], [0.5])
    >>> print(display.caption)
    100 rows, 3 classes; accuracy 50 %, mean confidence 50 %.
    Error: all classes together 0 %, by named class 50 % (calibrated models of this size: about 3.9 % and 5.4 %).
    """

    size = (5.8, 6.8)
    counts_ax_: Axes

    def __init__(self, cells: ClassCells, *, level: float = 0.9, random_state: int = 0) -> None:
        check_level(level)
        self.cells = cells
        self.level = level
        simulation = cells.simulated(random_state)
        self.bins: TopBins = top_bins(cells, simulation, level)
        total = cells.n.sum()
        self._typical = tuple(
            float(np.abs(simulation.by_bin(absolute=apart)).sum(axis=1).mean() / total) for apart in (False, True)
        )

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        named: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        kind: ClassKind | None = None,
        n_bins: int = 10,
        edges: ArrayLike | None = None,
        level: float = 0.9,
        random_state: int = 0,
    ) -> TopLabelDisplay:
        """Compute the diagram of a matrix of class scores; nothing is drawn before :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, classes, kind
            As in :func:`calibrant.arrays.multiclass.rows.check_class_rows`.
        named
            The class that each row names; ``scores`` is then the probability of that class alone, one per row, as a
            top-label calibrator gives it.
        n_bins, edges
            Bins of equal width, or their inner edges.
        level
            Share of calibrated models in the grey and on the thin bar, at each bin.
        random_state
            Seed of the simulated models.
        """
        claims = read_claims(scores, y, sample_weight, notion="top-label", classes=classes, kind=kind, named=named)
        return cls(ClassCells.of(claims, n_bins, edges), level=level, random_state=random_state)

    def zoom(self, confidence: float) -> TopLabelBinDisplay:
        """The classes in one bin: that which holds this confidence, from 0 to 1."""
        if not 0.0 <= confidence <= 1.0:
            raise InputError(
                "confidence", f"must lie in [0, 1], got {confidence}", "pass one that is in the bin, as in 0.55"
            )
        place = int(np.searchsorted(self.cells.edges, confidence, side="right"))
        try:
            return TopLabelBinDisplay(self.cells, place, level=self.level)
        except InputError as error:
            raise error.about(Setting("confidence", confidence)) from None

    @property
    def errors(self) -> tuple[float, float]:
        """Calibration error of all classes together (002 eq. 5.3) and by named class (002 eq. 5.4), on these bins."""
        bins, total = self.bins, self.cells.n.sum()
        together = np.abs(bins.accuracy - bins.confidence)
        return float((bins.n * together).sum() / total), float((bins.n * bins.delta).sum() / total)

    @property
    def data(self) -> dict[str, Any]:
        """Every number in the picture, as plain lists."""
        together, apart = self.errors
        return {
            "display": "top-label",
            "level": self.level,
            "rows": float(self.cells.n.sum()),
            "classes": len(self.cells.classes),
            "bins": self.bins.to_dict(),
            "confidence_error": together,
            "top_label_error": apart,
            "confidence_error_by_chance": self._typical[0],
            "top_label_error_by_chance": self._typical[1],
        }

    @property
    def caption(self) -> str:
        """What the picture shows, in words."""
        total = self.cells.n.sum()
        right, mean = (style.percent(part.sum() / total, 3) for part in (self.cells.events, self.cells.score_sum))
        together, apart = (style.percent(error, 2) for error in self.errors)
        usual = " and ".join(style.percent(error, 2) for error in self._typical)
        head = f"{style.amount(total, self.cells.counted)}, {plural(len(self.cells.classes), 'class', 'classes')}"
        text = (
            f"{head}; accuracy {right}, mean confidence {mean}.\nError: all classes together {together}, "
            f"by named class {apart} (calibrated models of this size: about {usual})."
        )
        beyond = int(((self.bins.top_label < -1e-12) | (self.bins.top_label > 1.0 + 1e-12)).sum())
        if beyond:
            text += f" {plural(beyond, 'plus', 'plusses')} beyond 0 % or 100 %, drawn at that end."
        return text

    def _draw_on(self, ax: Axes) -> None:
        self.counts_ax_ = panel_below(ax)
        bins, share = self.bins, style.percent(self.level, 3)
        Linear().set(ax, "x")
        Linear().set(ax, "y")
        ends = np.array([0.0, 1.0])
        ax.plot(ends, ends, **style.GUIDE_LINE, label="perfect calibration")
        grey = f"{share} of calibrated models have their star here"
        ax.vlines(bins.confidence, bins.low, bins.high, linewidth=9.0, **style.BAND, label=grey, zorder=1)
        plus: dict[str, Any] = {"marker": "+", "s": 90.0, "c": PLUS, "linewidths": 2.2, "zorder": 3}
        apart, chance = (np.clip(height, 0.0, 1.0) for height in (bins.top_label, bins.chance))
        ax.scatter(bins.confidence, apart, **plus, clip_on=False, label="by named class (top-label)")
        told = f"{share} have their plus on this bar"
        ax.vlines(bins.confidence, bins.confidence, chance, color=PLUS, alpha=0.5, linewidth=2.0, label=told, zorder=2)
        star: dict[str, Any] = {"marker": "*", "s": 120.0, "c": STAR, "linewidths": 0.0, "zorder": 4}
        ax.scatter(bins.confidence, bins.accuracy, **star, label="all classes together (confidence)")
        ax.set_ylabel("Accuracy: share that is of the class named")
        ax.tick_params(axis="x", labelbottom=False)
        self._draw_counts(self.counts_ax_)
        style.caption(ax, "Top-label reliability", self.caption, [self.counts_ax_])
        bars = [style.upright(bins.confidence, *reach) for reach in ((bins.low, bins.high), (bins.confidence, chance))]
        points = [(bins.confidence, height) for height in (bins.accuracy, apart)]
        style.place_legend(ax, [*bars, *points], above=True)

    def _draw_counts(self, panel: Axes) -> None:
        n = self.cells.n.sum(axis=0)
        panel.stairs(n, self.cells.ends, fill=True, linewidth=0.0, **style.BAND)
        axis_of_counts(panel, n[n > 0], "y", self.cells.counted)
        panel.set_xlabel("Confidence: predicted probability of the class named")


class TopLabelBinDisplay(Display):
    r"""One bin of a top-label reliability diagram, class by class.

    For each class l named in the bin: the share of its rows that are of class l, with its exact binomial
    (Clopper-Pearson) interval, and the mean confidence of the same rows as an upright tick. The star is all classes
    together. How many rows name each class stands beside it.

    Notes
    -----
    Edge rules: of more than 20 classes those are shown whose rows are farthest from their confidence, in standard
    errors of a calibrated model; the caption says how many are not. Classes that no row of the bin names are left out.
    Importance weights count with their effective number of rows. Guarantee: each interval has at least the stated
    confidence by itself, for rows drawn independently; not all of them together.
    Cost: O(classes). Reference: 002 section 5.2.1 (c) and Figure 5.1b.

    Attributes
    ----------
    classes, n, confidence, accuracy, low, high
        By class shown, most frequently named first.
    ax_, counts_ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> scores = [[0.55, 0.4, 0.05], [0.1, 0.55, 0.35]] * 50
    >>> display = TopLabelDisplay.from_predictions(scores, ["a", "c"] * 50, classes="abc").zoom(0.55)
    >>> display.data["classes"], display.data["accuracy"], display.data["n"]
    (['a', 'b'], [1.0, 0.0], [50.0, 50.0])
    """

    counts_ax_: Axes

    def __init__(self, cells: ClassCells, place: int, *, level: float = 0.9, most: int = MOST_CLASSES) -> None:
        self.level = level
        self.counted = cells.counted
        self.ends = (float(cells.ends[place]), float(cells.ends[place + 1]))
        n, events, score_sum = (part[:, place] for part in (cells.n, cells.events, cells.score_sum))
        self.total = float(n.sum())
        if not self.total > 0:
            problem = f"names the bin from {_span(self.ends)}, which holds no rows"
            raise InputError("place", problem, "choose a bin that holds rows")
        self.overall = (float(score_sum.sum()) / self.total, float(events.sum()) / self.total)
        named = np.flatnonzero(n > 0)
        self.unseen = len(named) - min(len(named), most)
        kept = named[worst(_standard_errors(cells, place)[named], most)]
        kept = kept[np.argsort(-n[kept], kind="stable")]
        self.classes = tuple(cells.classes[j] for j in kept)
        self.size = (6.6, 2.8 + 0.26 * (len(self.classes) + 1))
        self.n: Floats = n[kept]
        self.confidence: Floats = score_sum[kept] / self.n
        self.accuracy: Floats = np.clip(events[kept] / self.n, 0.0, 1.0)
        size = cells.size[kept, place]
        self.low, self.high = clopper_pearson(size * self.accuracy, size, 1.0 - level)

    @property
    def data(self) -> dict[str, Any]:
        """Every number in the picture, as plain lists."""
        columns = {name: getattr(self, name).tolist() for name in ("n", "confidence", "accuracy", "low", "high")}
        return {
            "display": "top-label bin",
            "level": self.level,
            "bin": list(self.ends),
            "rows": self.total,
            "overall": {"confidence": self.overall[0], "accuracy": self.overall[1]},
            "classes": list(self.classes),
            **columns,
            "classes_not_shown": self.unseen,
        }

    @property
    def caption(self) -> str:
        """What the picture shows, in words."""
        named = plural(len(self.classes) + self.unseen, "class", "classes")
        text = f"{style.amount(self.total, self.counted)} in the bin, naming {named}"
        if self.unseen:
            text += f"; shown are the {len(self.classes):,} that are farthest from their confidence"
        missed = style.percent(1.0 - self.level, 3)
        return f"{text}. Of a calibrated model about {missed} of all intervals miss the mean confidence, or fewer."

    def _draw_on(self, ax: Axes) -> None:
        self.counts_ax_ = panel_beside(ax)
        rows = np.arange(1, len(self.classes) + 1)
        ends = np.concatenate([self.ends, self.overall, self.low, self.high])
        style.percent_axis(ax, "x", float(ends.min()), float(ends.max()))
        ax.axvspan(*self.ends, linewidth=0.0, **{**style.BAND, "alpha": 0.2}, label="the bin", zorder=0.5)
        told = f"{style.percent(self.level, 3)} confidence interval"
        ax.hlines(rows, self.low, self.high, color=PLUS, linewidth=1.3, label=told, zorder=2)
        ax.scatter(self.accuracy, rows, c=PLUS, s=26.0, label="accuracy of the class", zorder=3)
        ink = ax.xaxis.label.get_color()
        tick: dict[str, Any] = {"marker": "|", "s": 110.0, "c": ink, "linewidths": 1.6, "zorder": 4}
        ax.scatter([self.overall[0], *self.confidence], [0, *rows], **tick, label="mean confidence")
        star: dict[str, Any] = {"marker": "*", "s": 120.0, "c": STAR, "linewidths": 0.0, "zorder": 5}
        ax.scatter([self.overall[1]], [0], **star, label="accuracy of all classes")
        ax.set_yticks([0, *rows], ["all", *map(style.short, self.classes)])
        ax.set_ylabel(style.some_of("Class named", len(self.classes), self.unseen))
        ax.set_xlabel("Accuracy and mean confidence")
        self._draw_counts(self.counts_ax_, rows)
        style.caption(ax, f"Top-label reliability, confidence {_span(self.ends)}", self.caption, [self.counts_ax_])
        style.legend_under(ax, len(rows) + 1)

    def _draw_counts(self, panel: Axes, rows: Any) -> None:
        panel.barh(rows, self.n, height=0.7, linewidth=0.0, **style.BAND)
        axis_of_counts(panel, self.n, "x", self.counted)
        panel.tick_params(axis="y", labelleft=False)


def _standard_errors(cells: ClassCells, place: int) -> Floats:
    """How far accuracy and confidence of each class are apart, in standard errors of a calibrated model."""
    n = np.where(cells.n[:, place] > 0, cells.n[:, place], 1.0)
    mean = np.clip(cells.score_sum[:, place] / n, 0.0, 1.0)
    # The half row keeps classes whose confidence is exactly 0 or 1 comparable.
    sd = np.sqrt(np.maximum(cells.size[:, place] * mean * (1.0 - mean), 0.25))
    return np.asarray(cells.size[:, place] * np.abs(cells.events[:, place] / n - mean) / sd)


def _span(ends: tuple[float, float]) -> str:
    return f"{style.percent(ends[0], 3)} to {style.percent(ends[1], 3)}"
