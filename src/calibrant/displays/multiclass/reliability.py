"""Reliability diagrams of the predicted class: overall, by class, and one bin in detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.displays.base import Display, check_confidence
from calibrant.displays.drawing import style
from calibrant.displays.drawing.panels import axis_of_counts, panel_beside, panels_below
from calibrant.displays.drawing.style import Linear
from calibrant.displays.multiclass.rates import MulticlassCells, TopBins, claims_after, top_bins, worst
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.messages import InputError, Setting, plural
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.numerics import Floats
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES = 20
"""Default number of classes shown in one bin."""
STAR, CLASS = 0, 5
"""Places of the colors of all classes together, and of the classes separately."""


class TopLabelDisplay(Display):
    r"""Reliability diagram of the predicted class, with the error of the classes separately below it.

    With :math:`c_i` the class of the largest score of row i and :math:`h_i` that score, the point of bin b is at the
    mean confidence :math:`\mathrm{conf}_b` and the accuracy :math:`\mathrm{acc}_b` of its rows. The panel below has the
    mean error of the classes,

    .. math:: \Delta_b = \sum_l \frac{n_{b,l}}{n_b}
              \Bigl|\frac{1}{n_{b,l}} \sum_{i \in b,\, c_i = l} \bigl(\mathbb 1\{Y_i = l\} - h_i\bigr)\Bigr|,

    over the classes l, where l is predicted in :math:`n_{b,l}` of the :math:`n_b` rows. Errors of classes in opposite
    directions cancel in the accuracy and add up here: :math:`\Delta_b \ge |\mathrm{acc}_b - \mathrm{conf}_b|`.

    Gray shows what to expect of a calibrated model: the accuracy of 90 % of 500 simulated models lies in the gray bar,
    and their mean error is at most as high as the gray bar in the panel (models calibrated by predicted class, with
    binomial events at the mean confidence of each class and bin). With few rows of each class, the mean error is large
    even for a calibrated model.

    Notes
    -----
    Edge cases: empty bins are left out; importance weights enter through the effective sample size of each cell.
    Guarantee: no finite-sample guarantee; intervals are for each bin alone.
    Cost: one pass over the matrix, then 500 draws for each pair of class and bin with rows.
    Reference: Gupta (2023), section 5.2.1 and Figure 5.1a, where the mean error is drawn on the axis of accuracies
    (``top_label`` in ``data``); eq. 5.3 and 5.4 for the errors in the caption.

    Attributes
    ----------
    cells
        Rows, events and sums of confidences by predicted class and bin.
    confidence
        Share of calibrated models in the gray bars, at each bin.
    random_state
        Seed of the simulated models.
    bins
        The numbers drawn for each bin with rows.
    before
        Those of the model before calibration; None without.
    ax_, error_ax_, counts_ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    One class is always right and the other never, at confidence 0.5: the accuracy is 0.5, and the mean error too.

    >>> scores = [[0.5, 0.4, 0.1], [0.1, 0.5, 0.4]] * 50
    >>> display = TopLabelDisplay.from_predictions(scores, ["a", "c"] * 50, classes="abc")
    >>> display.bins.mean_confidence.tolist(), display.bins.accuracy.tolist(), display.bins.delta.tolist()
    ([0.5], [0.5], [0.5])
    >>> print(display.caption)
    100 rows, 3 classes; accuracy 50 %, mean confidence 50 %.
    Error: all classes together 0 %, by predicted class 50 % (expected if calibrated: 3.9 % and 5.4 %).
    """

    size = (5.8, 7.4)
    error_ax_: Axes
    counts_ax_: Axes

    def __init__(
        self,
        cells: MulticlassCells,
        *,
        confidence: float = 0.9,
        random_state: int = 0,
        before: MulticlassCells | None = None,
    ) -> None:
        check_confidence(confidence)
        self.cells = cells
        self.before = None if before is None else top_bins(before, before.simulated(random_state), confidence)
        self.confidence = confidence
        simulation = cells.simulated(random_state)
        self.bins: TopBins = top_bins(cells, simulation, confidence)
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
        after: Any = None,
        named: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        score_type: MulticlassScoreType | None = None,
        n_bins: int = 10,
        edges: ArrayLike | None = None,
        confidence: float = 0.9,
        random_state: int = 0,
    ) -> TopLabelDisplay:
        """Compute the diagram of a matrix of class scores; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, classes, score_type
            As in :func:`calibrant.arrays.multiclass.rows.check_class_rows`.
        after
            A fitted calibrator, or calibrated probabilities of the same rows: a matrix, or one column with the
            probability of the predicted class. The diagram is then that of ``after``, with the accuracy before
            calibration for comparison.
        named
            The predicted class of each row; ``scores`` is then one column with the probability of that class, as a
            top-label calibrator returns it.
        n_bins, edges
            Bins of equal width, or their inner edges.
        confidence
            Share of calibrated models in the gray bars, at each bin.
        random_state
            Seed of the simulated models.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        claims = read_claims(
            scores, y, sample_weight, notion="top-label", classes=classes, score_type=score_type, named=named
        )
        cells = MulticlassCells.of(claims, n_bins, edges)
        options: dict[str, Any] = {"confidence": confidence, "random_state": random_state}
        if after is None:
            return cls(cells, **options)
        if named is not None:
            raise InputError("after", "needs a matrix of scores, but named was passed", "pass the matrix as scores")
        changed = claims_after(
            scores, y, sample_weight, after, notion="top-label", classes=classes, score_type=score_type
        )
        return cls(MulticlassCells.of(changed, n_bins, edges), before=cells, **options)

    def zoom(self, confidence: float) -> TopLabelBinDisplay:
        """The classes in the bin that contains this confidence, from 0 to 1."""
        if not 0.0 <= confidence <= 1.0:
            raise InputError(
                "confidence", f"must be in [0, 1], got {confidence}", "pass a confidence inside the bin, such as 0.55"
            )
        place = int(np.searchsorted(self.cells.edges, confidence, side="right"))
        try:
            return TopLabelBinDisplay(self.cells, place, confidence=self.confidence)
        except InputError as error:
            raise error.about(Setting("confidence", confidence)) from None

    @property
    def errors(self) -> tuple[float, float]:
        """Calibration error of all classes together and by predicted class on these bins (Gupta 2023, eq. 5.3, 5.4)."""
        return _errors(self.bins)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        together, apart = self.errors
        return {
            "display": "top-label",
            "confidence": self.confidence,
            "rows": float(self.cells.n.sum()),
            "classes": len(self.cells.classes),
            "bins": self.bins.to_dict(),
            "confidence_error": together,
            "top_label_error": apart,
            "confidence_error_by_chance": self._typical[0],
            "top_label_error_by_chance": self._typical[1],
            "before": None if self.before is None else self.before.to_dict(),
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        total = self.cells.n.sum()
        right, mean = (style.percent(part.sum() / total, 3) for part in (self.cells.events, self.cells.score_sum))
        shown = [self.errors] if self.before is None else [_errors(self.before), self.errors]
        together, apart = (" to ".join(style.percent(pair[k], 2) for pair in shown) for k in (0, 1))
        usual = " and ".join(style.percent(error, 2) for error in self._typical)
        head = f"{style.amount(total, self.cells.counted)}, {plural(len(self.cells.classes), 'class', 'classes')}"
        return (
            f"{head}; accuracy {right}, mean confidence {mean}.\n"
            f"{'Error' if self.before is None else 'Error before to after'}: all classes together {together}, "
            f"by predicted class {apart} (expected if calibrated: {usual})."
        )

    def _draw_on(self, ax: Axes) -> None:
        self.error_ax_, self.counts_ax_ = panels_below(ax, 0.2, 0.17)
        bins, share = self.bins, style.percent(self.confidence, 3)
        Linear().set(ax, "x")
        Linear().set(ax, "y")
        ends = np.array([0.0, 1.0])
        ax.plot(ends, ends, **style.GUIDE_LINE, label="perfect calibration")
        gray = f"expected if calibrated ({share})"
        ax.vlines(bins.mean_confidence, bins.low, bins.high, linewidth=9.0, **style.band(ax), label=gray, zorder=1)
        star: dict[str, Any] = {"marker": "*", "s": 120.0, "c": style.color(ax, STAR), "linewidths": 0.0, "zorder": 4}
        name = "accuracy" if self.before is None else "accuracy after calibration"
        ax.scatter(bins.mean_confidence, bins.accuracy, **star, label=name)
        points = [(bins.mean_confidence, bins.accuracy)]
        if self.before is not None:
            square: dict[str, Any] = {"marker": "s", "s": 42.0, "linewidths": 1.6, "zorder": 3.5}
            square |= {"facecolors": "none", "edgecolors": style.color(ax, 1)}
            ax.scatter(self.before.mean_confidence, self.before.accuracy, **square, label="accuracy before calibration")
            points.append((self.before.mean_confidence, self.before.accuracy))
        ax.set_ylabel("Accuracy of the\npredicted class")
        ax.tick_params(axis="x", labelbottom=False)
        self._draw_errors(self.error_ax_)
        self._draw_counts(self.counts_ax_)
        self._head(ax, "Top-label reliability", [self.error_ax_, self.counts_ax_])
        diagonal = style.along(Linear(), ends, ends, per_piece=60)
        style.place_legend(ax, [diagonal, style.upright(bins.mean_confidence, bins.low, bins.high), *points])

    def _draw_errors(self, panel: Axes) -> None:
        bins = self.bins
        none = np.zeros(len(bins.n))
        panel.vlines(bins.mean_confidence, none, bins.delta_chance, linewidth=9.0, **style.band(panel), zorder=1)
        point: dict[str, Any] = {"s": 26.0, "zorder": 4, "linewidths": 0.0}
        panel.scatter(bins.mean_confidence, bins.delta, c=style.color(panel, CLASS), **point)
        most = float(max(bins.delta.max(), bins.delta_chance.max()))
        if self.before is not None:
            square: dict[str, Any] = {"marker": "s", "s": 30.0, "linewidths": 1.4, "zorder": 3.5}
            square |= {"facecolors": "none", "edgecolors": style.color(panel, 1)}
            panel.scatter(self.before.mean_confidence, self.before.delta, **square)
            most = max(most, float(self.before.delta.max()))
        style.percent_axis(panel, "y", 0.0, min(1.08 * most, 1.0) or 0.01)
        panel.set_ylabel("Mean error\nby class")
        panel.tick_params(axis="x", labelbottom=False)

    def _draw_counts(self, panel: Axes) -> None:
        n = self.cells.n.sum(axis=0)
        panel.stairs(n, self.cells.ends, fill=True, linewidth=0.0, **style.band(panel))
        axis_of_counts(panel, n[n > 0], "y", self.cells.counted)
        panel.set_xlabel("Confidence: probability of the predicted class")


class TopLabelBinDisplay(Display):
    r"""One bin of a top-label reliability diagram, class by class.

    For each class l predicted in the bin: the accuracy, which is the share of its rows of class l, with the exact
    binomial (Clopper-Pearson) interval, and the mean confidence of the same rows as a vertical tick. The star is all
    classes together. The panel on the right shows the number of rows of each predicted class.

    Notes
    -----
    Edge cases: of more than 20 classes, those are shown whose accuracy is farthest from their confidence, in standard
    errors of a calibrated model; the caption says how many are not shown. Classes predicted for no row of the bin are
    left out. Importance weights enter through the effective sample size. Guarantee: each interval alone has at least
    the stated confidence, for independent rows; not all of them together.
    Cost: O(classes). Reference: Gupta (2023), section 5.2.1 (c) and Figure 5.1b.

    Parameters
    ----------
    cells
        Rows, events and sums of confidences by predicted class and bin.
    place
        Index of the bin, from 0.
    confidence
        Confidence level of each interval.
    max_classes
        Maximum number of classes shown.

    Attributes
    ----------
    classes, n, confidence, accuracy, low, high
        By class shown, most frequently predicted first.
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

    def __init__(
        self, cells: MulticlassCells, place: int, *, confidence: float = 0.9, max_classes: int = MAX_CLASSES
    ) -> None:
        self.confidence = confidence
        self.counted = cells.counted
        self.ends = (float(cells.ends[place]), float(cells.ends[place + 1]))
        n, events, score_sum = (part[:, place] for part in (cells.n, cells.events, cells.score_sum))
        self.total = float(n.sum())
        if not self.total > 0:
            problem = f"selects the bin from {_span(self.ends)}, which has no rows"
            raise InputError("place", problem, "choose a bin with rows")
        self.overall = (float(score_sum.sum()) / self.total, float(events.sum()) / self.total)
        named = np.flatnonzero(n > 0)
        self.unseen = len(named) - min(len(named), max_classes)
        kept = named[worst(_standard_errors(cells, place)[named], max_classes)]
        kept = kept[np.argsort(-n[kept], kind="stable")]
        self.classes = tuple(cells.classes[j] for j in kept)
        self.size = (6.6, 2.8 + 0.26 * (len(self.classes) + 1))
        self.n: Floats = n[kept]
        self.mean_confidence: Floats = score_sum[kept] / self.n
        self.accuracy: Floats = np.clip(events[kept] / self.n, 0.0, 1.0)
        size = cells.size[kept, place]
        self.low, self.high = clopper_pearson(size * self.accuracy, size, 1.0 - confidence)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        columns = {name: getattr(self, name).tolist() for name in ("n", "mean_confidence", "accuracy", "low", "high")}
        return {
            "display": "top-label bin",
            "confidence": self.confidence,
            "bin": list(self.ends),
            "rows": self.total,
            "overall": {"confidence": self.overall[0], "accuracy": self.overall[1]},
            "classes": list(self.classes),
            **columns,
            "classes_not_shown": self.unseen,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        named = plural(len(self.classes) + self.unseen, "class", "classes")
        text = f"{style.amount(self.total, self.counted)} in the bin, {named} predicted"
        if self.unseen:
            text += f"; the {len(self.classes):,} farthest from their confidence are shown"
        missed = style.percent(1.0 - self.confidence, 3)
        return f"{text}. For a calibrated model about {missed} of the intervals miss the mean confidence, or fewer."

    def _draw_on(self, ax: Axes) -> None:
        self.counts_ax_ = panel_beside(ax)
        rows = np.arange(1, len(self.classes) + 1)
        ends = np.concatenate([self.ends, self.overall, self.low, self.high])
        style.percent_axis(ax, "x", float(ends.min()), float(ends.max()))
        ax.axvspan(*self.ends, linewidth=0.0, **{**style.band(ax), "alpha": 0.25}, label="the bin", zorder=0.5)
        interval = f"{style.percent(self.confidence, 3)} confidence interval"
        ax.hlines(rows, self.low, self.high, color=style.color(ax, CLASS), linewidth=1.3, label=interval, zorder=2)
        ax.scatter(self.accuracy, rows, c=style.color(ax, CLASS), s=26.0, label="accuracy of the class", zorder=3)
        ink = ax.xaxis.label.get_color()
        tick: dict[str, Any] = {"marker": "|", "s": 110.0, "c": ink, "linewidths": 1.6, "zorder": 4}
        ax.scatter([self.overall[0], *self.mean_confidence], [0, *rows], **tick, label="mean confidence")
        star: dict[str, Any] = {"marker": "*", "s": 120.0, "c": style.color(ax, STAR), "linewidths": 0.0, "zorder": 5}
        ax.scatter([self.overall[1]], [0], **star, label="accuracy of all classes")
        ax.set_yticks([0, *rows], ["all", *map(style.short, self.classes)])
        ax.set_ylabel(style.some_of("Predicted class", len(self.classes), self.unseen))
        ax.set_xlabel("Accuracy and mean confidence")
        self._draw_counts(self.counts_ax_, rows)
        self._head(ax, f"Top-label reliability, confidence {_span(self.ends)}", [self.counts_ax_])
        style.legend_under(ax, len(rows) + 1)

    def _draw_counts(self, panel: Axes, rows: Any) -> None:
        panel.barh(rows, self.n, height=0.7, linewidth=0.0, **style.band(panel))
        axis_of_counts(panel, self.n, "x", self.counted)
        panel.tick_params(axis="y", labelleft=False)


def _errors(bins: TopBins) -> tuple[float, float]:
    """Calibration error of all classes together, and by predicted class."""
    together = np.abs(bins.accuracy - bins.mean_confidence)
    return float((bins.n * together).sum() / bins.n.sum()), float((bins.n * bins.delta).sum() / bins.n.sum())


def _standard_errors(cells: MulticlassCells, place: int) -> Floats:
    """Distance of accuracy and confidence of each class, in standard errors of a calibrated model."""
    n = np.where(cells.n[:, place] > 0, cells.n[:, place], 1.0)
    mean = np.clip(cells.score_sum[:, place] / n, 0.0, 1.0)
    # At least half a row, so that classes whose confidence is exactly 0 or 1 stay comparable.
    sd = np.sqrt(np.maximum(cells.size[:, place] * mean * (1.0 - mean), 0.25))
    return np.asarray(cells.size[:, place] * np.abs(cells.events[:, place] / n - mean) / sd)


def _span(ends: tuple[float, float]) -> str:
    return f"{style.percent(ends[0], 3)} to {style.percent(ends[1], 3)}"
