"""Plot of the calibration error of each class, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_whole
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.displays.base import Display, calibrated_scores, display_of
from calibrant.displays.drawing import style
from calibrant.displays.drawing.panels import panel_beside
from calibrant.displays.multiclass.rates import worst
from calibrant.messages import InputError, plural
from calibrant.metrics.multiclass.bins import MulticlassStrategy
from calibrant.metrics.multiclass.claims import read_claims
from calibrant.metrics.multiclass.errors import MulticlassErrors, errors_by_class
from calibrant.notions import Notion, notion_by_class
from calibrant.numerics import Floats
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES = 25
"""Default number of classes shown."""


class MulticlassErrorDisplay(Display):
    r"""Calibration error of each class, most frequent first, for one model or before and after calibration.

    A dot is the error of class l,

    .. math:: E_l = \sum_b \frac{n_{lb}}{n_l}\, |\bar y_{lb} - \bar s_{lb}|

    over its bins b, as :func:`calibrant.metrics.multiclass.errors.errors_by_class` computes it for the top-label or the
    class-wise notion. The vertical tick of the same color is the mean error of a calibrated model on these rows, which
    is large for classes with few rows. The panel on the right shows the number of rows of each class.

    Notes
    -----
    Edge cases: a class that is predicted for no row has no dot. Of more than 25 classes, those are shown whose error
    exceeds its tick the most, in any of the models; the caption says how many are not shown. Above 20,000,000 rows
    times classes the class-wise plot has no ticks, and the caption says so. Guarantee: no finite-sample guarantee.
    Cost: that of ``errors_by_class``, with its expected value. Reference: Gupta (2023), section 5.B.2 and Figure 5.4,
    right.

    Attributes
    ----------
    errors
        Errors of each model, by name.
    notion
        ``"top-label"`` or ``"class-wise"``.
    max_classes
        Maximum number of classes shown.
    counted
        Whether the numbers of rows are counts, not sums of weights.
    classes
        Names of the classes shown.
    unseen
        Number of classes not shown.
    ax_, counts_ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> p = np.repeat([[0.6, 0.4], [0.4, 0.6]], [10, 5], axis=0)
    >>> display = MulticlassErrorDisplay.from_predictions(p, [0] * 6 + [1] * 9, after=[0.6] * 10 + [0.9] * 5)
    >>> [round(row["error"], 6) for row in display.data["models"][0]["classes"]]
    [0.0, 0.4]
    >>> [round(row["error"], 6) for row in display.data["models"][1]["classes"]]
    [0.0, 0.1]
    """

    counts_ax_: Axes

    def __init__(
        self,
        errors: Mapping[str, MulticlassErrors],
        *,
        notion: Notion | str = "top-label",
        max_classes: int = MAX_CLASSES,
        counted: bool = True,
    ) -> None:
        self.notion = notion_by_class(notion)
        if not 1 <= len(errors) <= 3 or len({frozenset(one.classes) for one in errors.values()}) != 1:
            raise InputError("errors", "must have one to three models with the same classes")
        check_whole("max_classes", max_classes)
        self.errors = dict(errors)
        self.counted = counted
        first = next(iter(self.errors.values()))
        excess = np.max([_excess(one, first.classes) for one in self.errors.values()], axis=0)
        kept = worst(excess, max_classes)
        self.classes = tuple(first.classes[j] for j in kept)
        self.size = (6.6, 2.5 + 0.28 * len(self.classes))
        self.unseen = len(first.classes) - len(self.classes)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        after: Any = None,
        notion: Notion | str = "top-label",
        classes: Sequence[Any] | None = None,
        score_type: MulticlassScoreType | None = None,
        n_bins: int = 15,
        strategy: MulticlassStrategy = "width",
        max_classes: int = MAX_CLASSES,
        random_state: int = 0,
    ) -> MulticlassErrorDisplay:
        """Compute the errors of a matrix of class scores, before and after calibration.

        Parameters
        ----------
        scores, y, sample_weight, classes, score_type
            As in :func:`calibrant.metrics.multiclass.errors.errors_by_class`.
        after
            A fitted calibrator, or calibrated probabilities of the same rows: a matrix, or, for the top-label notion,
            one column with the probability of the predicted class of ``scores``.
        notion
            ``"top-label"`` or ``"class-wise"``.
        n_bins, strategy
            As in ``errors_by_class``, the same for both.
        max_classes
            Maximum number of classes shown.
        random_state
            Seed of the expected errors, where they are simulated.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        options: dict[str, Any] = {
            "notion": notion, "n_bins": n_bins, "strategy": strategy, "random_state": random_state,
        }  # fmt: skip
        shown: dict[str, Any] = {"notion": notion, "max_classes": max_classes, "counted": sample_weight is None}
        before = errors_by_class(scores, y, sample_weight, classes=classes, score_type=score_type, **options)
        if after is None:
            return cls({"": before}, **shown)
        given = calibrated_scores(after, scores)
        calibrated = np.asarray(given)
        if calibrated.ndim == 1 or calibrated.shape[1] == 1:
            kept = slice(None) if sample_weight is None else np.asarray(sample_weight) != 0
            claims = read_claims(scores, y, sample_weight, notion=notion, classes=classes, score_type=score_type)
            assert claims.named is not None
            named = np.array(claims.classes)[claims.named[:, 0]]
            weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
            changed = errors_by_class(
                calibrated.reshape(-1)[kept],
                np.asarray(y)[kept],
                weight,
                classes=claims.classes,
                named=named,
                **options,
            )
        else:
            changed = errors_by_class(given, y, sample_weight, classes=classes, **options)
        return cls({"before": before, "after": changed}, **shown)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        models = []
        for name, one in self.errors.items():
            records = {record["class"]: record for record in one.to_dict()["classes"]}
            models.append({"label": name, "classes": [records[shown] for shown in self.classes]})
        return {
            "display": "class errors",
            "notion": self.notion.name,
            "classes_not_shown": self.unseen,
            "models": models,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        first = next(iter(self.errors.values()))
        total = style.amount(float(first.rows.sum()), self.counted)
        text = f"{total}, {plural(len(first.classes), 'class', 'classes')}, most frequent first."
        if self.unseen:
            text += (
                f" The {len(self.classes):,} with the largest error above the expected are shown, {self.unseen:,} "
                f"{'is' if self.unseen == 1 else 'are'} not."
            )
        silent = int(np.isnan(first.error).sum())
        if silent:
            text += f" {plural(silent, 'class', 'classes')} without a dot: predicted for no row."
        if first.null is None:
            return f"{text} The expected error is not computed for this many rows; it is larger for rare classes."
        return f"{text} Vertical ticks: mean error of a calibrated model."

    def _draw_on(self, ax: Axes) -> None:
        self.counts_ax_ = panel_beside(ax)
        rows = np.arange(len(self.classes))
        shown = self.data["models"]
        most = 0.0
        for place, model in enumerate(shown):
            error, null = (_column(model["classes"], name) for name in ("error", "null"))
            self._draw_model(ax, place, np.asarray(rows + 0.3 * (place - (len(shown) - 1) / 2.0)), error, null)
            most = max(most, *np.nan_to_num(error), *np.nan_to_num(null))
        style.percent_axis(ax, "x", 0.0, min(1.04 * most, 1.0) or 0.01)
        for row in rows[1:]:
            ax.axhline(row - 0.5, color=style.GUIDE, linewidth=0.4, alpha=0.5, zorder=0.5)
        ax.set_yticks(rows, [style.short(name) for name in self.classes])
        ax.set_ylabel(style.some_of(self.notion.class_axis or "", len(self.classes), self.unseen))
        ax.set_xlabel("Calibration error of the class")
        self._draw_counts(self.counts_ax_, rows)
        self._head(ax, f"{self.notion.name.capitalize()} error by class", [self.counts_ax_])
        style.legend_under(ax, len(rows))

    def _draw_model(self, ax: Axes, place: int, rows: Floats, error: Floats, null: Floats) -> None:
        turn = len(self.errors) - 1 - place  # the last model has the first color, as in a reliability diagram
        name = list(self.errors)[place]
        color, marker = style.color(ax, turn), style.MARKERS[turn]
        ax.scatter(error, rows, c=color, marker=marker, s=28.0, label=name or "error", zorder=4 - 0.1 * turn)
        if np.isnan(null).all():
            return
        # Thin and dotted, to connect tick and dot: a solid line would look like an interval.
        ends = np.minimum(error, null), np.maximum(error, null)
        ax.hlines(rows, *ends, color=color, linewidth=0.8, linestyle=(0, (1, 3)), alpha=0.8, zorder=2)
        label = f"expected if calibrated, {name}" if name else "expected if calibrated"
        ax.scatter(null, rows, c=color, marker="|", s=60.0, linewidths=1.5, label=label, zorder=3 - 0.1 * turn)

    def _draw_counts(self, panel: Axes, rows: Any) -> None:
        records = self.data["models"][0]["classes"]
        share, n = (_column(records, name) for name in ("share", "rows"))
        panel.barh(rows, share, height=0.7, linewidth=0.0, **style.band(panel))
        for row, at, count in zip(rows, share, n, strict=True):
            panel.annotate(
                f"{count:,.6g}", (at, row), (3.0, 0.0), textcoords="offset points", va="center", fontsize="x-small"
            )
        style.percent_axis(panel, "x", 0.0, float(share.max()) or 1.0, extend=1.9, room=0.0)
        panel.tick_params(axis="y", labelleft=False)
        panel.set_xlabel("Share of rows")


def _excess(errors: MulticlassErrors, classes: Sequence[str]) -> Floats:
    """Error minus its expected value, in the order of ``classes``; minus infinity for classes without an error."""
    null = np.zeros(len(errors)) if errors.null is None else errors.null
    by_name = dict(zip(errors.classes, np.nan_to_num(errors.error - null, nan=-np.inf).tolist(), strict=True))
    return np.array([by_name[name] for name in classes])


def _column(records: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([np.nan if record.get(name) is None else record[name] for record in records], dtype=np.float64)


@display_of.register
def _(found: MulticlassErrors) -> MulticlassErrorDisplay:
    counted = bool((found.rows == np.floor(found.rows)).all())
    return MulticlassErrorDisplay({"": found}, notion=found.notion, counted=counted)
