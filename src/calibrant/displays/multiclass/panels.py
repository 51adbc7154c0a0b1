"""Reliability diagrams side by side, such as those of each class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Rows
from calibrant.arrays.columns import check_option, check_whole
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.displays.base import Display
from calibrant.displays.drawing import style
from calibrant.displays.drawing.panels import axis_of_counts, panels_under
from calibrant.displays.multiclass.rates import MulticlassCells, claims_after, worst
from calibrant.displays.rates import Series
from calibrant.displays.reliability import CurveKind, ReliabilityDisplay
from calibrant.metrics.multiclass.claims import Claims, read_claims
from calibrant.reading import located
from calibrant.tallies import Tally

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PANELS = 9
"""Default number of classes shown."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One class: its curve, its error, and the expected error of a calibrated model."""

    name: str
    series: Series
    error: float
    chance: float
    before: Series | None = None
    """The curve before calibration, if both are shown."""
    error_before: float | None = None


class PanelsDisplay(Display):
    """Reliability diagrams side by side on the same axes, each with its counts below and facts above it.

    A subclass defines ``data``, ``caption`` and ``_facts``, the three facts of a panel.
    """

    headline: ClassVar[str]
    ordinate: ClassVar[str]
    in_a_row: ClassVar[int] = 3
    """Panels that stay in one row; more are in a square."""

    panels_: tuple[Axes, ...]

    def __init__(
        self,
        panels: Sequence[Panel],
        unseen: int = 0,
        *,
        curve: CurveKind = "isotonic",
        confidence: float = 0.9,
        axes: Literal["linear", "log-odds"] = "linear",
    ) -> None:
        self.panels = tuple(panels)
        self.unseen = unseen
        self.curve = curve
        self.confidence = confidence
        self.axes = axes
        count = len(self.panels)
        self._across = count if count <= self.in_a_row else int(np.ceil(np.sqrt(count)))
        self.size = (max(2.5 * self._across, 5.0) + 0.6, 3.2 * -(-count // self._across) + 1.6)
        both = [series for panel in panels for series in (panel.series, panel.before) if series is not None]
        self._whole = ReliabilityDisplay(both, curve=curve, confidence=confidence, axes=axes)

    def _draw_on(self, ax: Axes) -> None:
        across = self._across
        tops, below = panels_under(ax, len(self.panels), across)
        self.panels_ = (*tops, *below)
        style.settle(ax)
        layout, heights = self._whole.layout, []
        for panel, counts, one in zip(tops, below, self.panels, strict=True):
            single = self._single(one)
            single.draw_curves(panel, layout)
            for _, events, others in (drawn := single.draw_counts(counts, layout, low=True)):
                heights += [events, others] if len(drawn) == 1 else [events + others]
        every = np.concatenate(heights)
        for place, (panel, counts, one) in enumerate(zip(tops, below, self.panels, strict=True)):
            axis_of_counts(  # one scale for all: only the panels at the left have its label
                counts, every[every > 0], "y", one.series.counted, mirrored=one.before is None, low=True
            )
            self._label(panel, counts, one, left=place % across == 0, bottom=place + across >= len(self.panels))
        handles, labels = self.panels_[0].get_legend_handles_labels()
        named = dict(zip((label.replace("\n", " ") for label in labels), handles, strict=True))
        ax.legend(
            named.values(), named.keys(), loc="upper left", ncols=1 if across < 3 else 2, fontsize="small",
            frameon=False, borderaxespad=0.0,
        )  # fmt: skip
        self._head(ax, self.headline, self.panels_)

    @abstractmethod
    def _facts(self, one: Panel) -> list[str]:
        """Three facts of a panel."""

    def _heading(self, one: Panel) -> str:
        return one.name

    def _single(self, panel: Panel) -> ReliabilityDisplay:
        """The diagram of one class."""
        series = [one for one in (panel.before, panel.series) if one is not None]
        return ReliabilityDisplay(series, curve=self.curve, confidence=self.confidence, axes=self.axes)

    def _label(self, panel: Axes, counts: Axes, one: Panel, *, left: bool, bottom: bool) -> None:
        facts = self._facts(one)
        note = panel.annotate(
            "{}\n{}, {}".format(*facts) if one.error_before is None else "\n".join(facts),
            (0.0, 1.0),
            (0.0, 4.0),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize="x-small",
        )
        if note.get_window_extent().width > 1.05 * panel.bbox.width:
            note.set_text("\n".join(facts))
        note.set_in_layout(False)  # its width would narrow this panel alone; the title keeps room for its lines
        lines = note.get_text().count("\n") + 1
        pad = 6.0 + 10.0 * lines
        panel.set_title(style.short(self._heading(one)), fontsize="medium", fontweight="bold", loc="left", pad=pad)
        panel.tick_params(axis="x", labelbottom=False, labelsize="small")
        panel.tick_params(axis="y", labelleft=left, labelsize="small")
        counts.tick_params(axis="both", labelsize="x-small")
        counts.tick_params(axis="x", labelbottom=bottom, labelsize="small")
        counts.set_ylabel(counts.get_ylabel() if left else "", fontsize="small")
        counts.set_xlabel("Predicted probability" if bottom else "", fontsize="small")
        if left:
            panel.set_ylabel(self.ordinate, fontsize="small")


class ClasswiseDisplay(PanelsDisplay):
    r"""Reliability diagrams of each class against the rest, side by side on the same axes.

    The panel of class l is the :class:`ReliabilityDisplay` of the scores :math:`p_{il}` and the events
    :math:`Y_i = l`, over all rows: the class-wise notion of calibration. If there are many classes, those are shown
    whose error exceeds its expected value the most,

    .. math:: E_l - E_l^0, \qquad E_l = \frac{1}{n} \sum_b \Bigl|\sum_{i \in b} (\mathbb 1\{Y_i = l\} - p_{il})\Bigr|,

    over ten bins b of equal width, with :math:`E_l^0` the mean of :math:`E_l` over 500 simulated calibrated models
    (binomial events at the mean score of each bin). The caption says how many are not shown.

    Notes
    -----
    Edge cases: a class without rows is treated like any other; importance weights enter through the effective sample
    size. Guarantee: no finite-sample guarantee; the gray band is pointwise, and the worst of many classes leave it by
    chance more often than a single class does.
    Cost: one pass over the matrix, then a :class:`ReliabilityDisplay` for each class shown.
    Reference: Gupta (2023), eq. 5.5 and Appendix 5.F; Dimitriadis, Gneiting and Jordan (2021).

    Attributes
    ----------
    panels
        The classes shown, worst first.
    unseen
        Number of classes not shown.
    curve
        ``"isotonic"`` or ``"bins"``, the same for all.
    confidence
        Share of calibrated models within the gray band, at each score or bin.
    axes
        ``"linear"`` or ``"log-odds"``, the same for all.
    ax_, panels_, figure_
        Set by :meth:`plot`: the axes of the headline, those of the panels followed by those of their counts, and the
        figure.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 900)
    >>> y = [rng.choice(["a", "b", "c"], p=row) for row in p[:, [0, 2, 1]]]  # b and c swapped
    >>> display = ClasswiseDisplay.from_predictions(p, y, max_classes=2)
    >>> sorted(panel["class"] for panel in display.data["panels"])
    ['b', 'c']
    """

    headline, ordinate = "Class-wise reliability", "Share of the class"

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        after: Any = None,
        classes: Sequence[Any] | None = None,
        score_type: MulticlassScoreType | None = None,
        max_classes: int = MAX_PANELS,
        curve: CurveKind = "isotonic",
        n_bins: int = 10,
        confidence: float = 0.9,
        axes: Literal["linear", "log-odds"] = "linear",
        random_state: int = 0,
    ) -> ClasswiseDisplay:
        """Compute the diagrams of a matrix of class scores; draw them with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, classes, score_type
            As in :func:`calibrant.arrays.multiclass.rows.check_class_rows`; rows in [0, 1] need not sum to 1.
        after
            A fitted calibrator, or a matrix of calibrated probabilities of the same rows, drawn on top.
        max_classes
            Maximum number of classes shown; with ``after`` those that were the worst before.
        curve, n_bins, confidence, random_state
            As in :class:`ReliabilityDisplay`; bins have equal width, since most scores of a class are near 0.
        axes
            ``"linear"``, or ``"log-odds"`` if the scores of rare classes are small.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        check_option("axes", axes, ("linear", "log-odds"))
        check_whole("max_classes", max_classes)
        claims = read_claims(scores, y, sample_weight, notion="class-wise", classes=classes, score_type=score_type)
        cells = MulticlassCells.of(claims, 10)
        error, chance = cells.errors(random_state)
        shown = worst(error - chance, max_classes)
        shown = shown[np.argsort(chance[shown] - error[shown], kind="stable")]
        options = {
            "curve": curve, "n_bins": n_bins, "strategy": "width", "confidence": confidence,
            "random_state": random_state,
        }  # fmt: skip
        if after is None:
            panels = [
                Panel(claims.classes[j], _series(claims, j, "", options), float(error[j]), float(chance[j]))
                for j in shown.tolist()
            ]
        else:
            changed = claims_after(
                scores, y, sample_weight, after, notion="class-wise", classes=claims.classes, score_type=score_type
            )
            later, expected = MulticlassCells.of(changed, 10).errors(random_state)
            panels = [
                Panel(
                    claims.classes[j], _series(changed, j, "after", options), float(later[j]), float(expected[j]),
                    _series(claims, j, "before", options), float(error[j]),
                )
                for j in shown.tolist()
            ]  # fmt: skip
        return cls(panels, len(claims.classes) - len(panels), curve=curve, confidence=confidence, axes=axes)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        panels = []
        for panel in self.panels:
            numbers = self._single(panel).data["series"]
            shown = {"class": panel.name, "error": panel.error, "error_by_chance": panel.chance, **numbers[-1]}
            if panel.before is not None:
                shown |= {"before": {"error": panel.error_before, **numbers[0]}}
            panels.append(shown)
        return {
            "display": "class-wise",
            "curve": self.curve,
            "confidence": self.confidence,
            "axes": self.axes,
            "classes_not_shown": self.unseen,
            "panels": panels,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        first = self.panels[0].series
        text = f"{style.amount(first.rows, first.counted)}. Each class against all others."
        if self.panels[0].before is None:
            text += " Below each panel: rows of the class upward, other rows downward."
        if self.unseen:
            total = len(self.panels) + self.unseen
            text += (
                f" The {len(self.panels):,} of {total:,} classes with the largest error above the expected are shown, "
                f"{self.unseen:,} {'is' if self.unseen == 1 else 'are'} not."
            )
        return text

    def _facts(self, one: Panel) -> list[str]:
        error = style.percent(one.error, 2)
        if one.error_before is not None:
            error = f"{style.percent(one.error_before, 2)} to {error}"
        count = style.amount(one.series.events, one.series.counted)
        return [f"{count} of the class", f"error {error}", f"expected {style.percent(one.chance, 2)}"]

    def _heading(self, one: Panel) -> str:
        return f"class {one.name}" if _is_number(one.name) else one.name


def _is_number(name: str) -> bool:
    return name.lstrip("-").replace(".", "", 1).isdigit()


def _series(claims: Claims, column: int, label: str, options: dict[str, Any]) -> Series:
    """The curve of one class against the rest."""
    scores = np.asarray(claims.scores[:, column], dtype=np.float64)
    labels = (claims.labels == column).astype(np.uint8)
    # The matrix was checked already; a class without rows needs no warning here.
    rows = Rows(scores, labels, claims.weights, claims.weights is None, None, None, "probability", ())
    return ReliabilityDisplay.from_predictions(Tally.from_rows(rows), label=label, **options).series[0]
