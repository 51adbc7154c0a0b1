"""Decision curves: net benefit of acting on the scores, by threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option
from calibrant.clinical.decisions import DecisionBand, decision_curve
from calibrant.displays.base import Display, calibrated_scores, display_of
from calibrant.displays.drawing import style
from calibrant.messages import InputError
from calibrant.metrics.binary.net_benefit import DecisionCurve, net_benefit
from calibrant.metrics.estimates import TWO_SIDED
from calibrant.numerics import Floats
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DecisionCurveDisplay(Display):
    r"""Net benefit by threshold: of one or more models, of treating all and of treating none.

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t)}{n} - \frac{\mathrm{FP}(t)}{n} \cdot \frac{t}{1 - t},

    as :func:`calibrant.metrics.net_benefit` computes it. At a threshold t, a model is useful where its curve is above
    both the curve of treating all and the line of treating none. The shaded band is the pointwise 95 % interval of each
    model, normal with the standard error of the net benefit; or, with ``band="simultaneous"``, the band of
    :func:`calibrant.clinical.decision_curve`, which holds the whole curve in 95 % of samples.

    Notes
    -----
    Edge cases: thresholds at which there is no standard error have no band. The vertical axis ends somewhat below 0, so
    that large losses are cut off; ``data`` has them.
    Guarantee: no finite-sample guarantee; pointwise intervals are for each threshold alone. Cost: one pass over the
    rows, and for the simultaneous band 1,000 bootstrap samples.
    Reference: Vickers and Elkin (2006), Decision curve analysis.

    Attributes
    ----------
    curves
        Net benefit of each model, by name.
    bands
        Ends of the simultaneous band of each model, by name; empty for pointwise intervals.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> display = DecisionCurveDisplay.from_predictions([0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1], thresholds=[0.2, 0.5])
    >>> display.data["models"][0]["net_benefit"]
    [0.4375, 0.5]
    """

    size = (5.8, 4.6)

    def __init__(
        self, curves: Mapping[str, DecisionCurve], bands: Mapping[str, tuple[Floats, Floats]] | None = None
    ) -> None:
        if not 1 <= len(curves) <= len(style.COLORS):
            raise InputError("curves", f"must have 1 to {len(style.COLORS)} models, got {len(curves)}")
        first = next(iter(curves.values()))
        for curve in curves.values():
            if not np.array_equal(curve.thresholds, first.thresholds):
                raise InputError("curves", "have different thresholds", "compute them at the same thresholds")
        self.curves, self.bands = dict(curves), dict(bands or {})

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        after: Any = None,
        thresholds: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        band: Literal["pointwise", "simultaneous"] = "pointwise",
        random_state: int = 0,
    ) -> DecisionCurveDisplay:
        """Compute the net benefit of scores, before and after calibration; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight, thresholds, groups
            As in :func:`calibrant.metrics.net_benefit`. Several models of the same rows are a mapping from name to
            scores.
        after
            A fitted calibrator, or the scores of the same rows after calibration, or a tally of them.
        band
            ``"pointwise"``: an interval for each threshold; ``"simultaneous"``: a band for the whole curve, by the
            bootstrap on rows or on groups.
        random_state
            Seed of the bootstrap.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        check_option("band", band, ("pointwise", "simultaneous"))
        models = dict(scores) if isinstance(scores, Mapping) else {"model": scores}
        if after is not None:
            if len(models) > 1:
                raise InputError("after", "was passed with several models", "pass it as one more model")
            before = next(iter(models.values()))
            models = {"before": before, "after": calibrated_scores(after, before)}
        given = (y, sample_weight)
        rows = given if y is not None else ()
        curves = {
            str(name): net_benefit(each, *rows, thresholds=thresholds, groups=groups) for name, each in models.items()
        }
        bands: dict[str, tuple[Floats, Floats]] = {}
        if band == "simultaneous":
            options: dict[str, Any] = {"thresholds": thresholds, "groups": groups, "random_state": random_state}
            found = {str(name): decision_curve(each, *rows, **options) for name, each in models.items()}
            bands = {name: (each.band_low, each.band_high) for name, each in found.items()}
        return cls(curves, bands)

    def _ends(self, name: str) -> tuple[Floats, Floats]:
        """Ends of the shaded area of a model."""
        curve = self.curves[name]
        return self.bands.get(name, (curve.model - TWO_SIDED * curve.se, curve.model + TWO_SIDED * curve.se))

    @property
    def _first(self) -> DecisionCurve:
        return next(iter(self.curves.values()))

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        models = [
            {
                "label": name,
                "net_benefit": curve.model.tolist(),
                "low": _plain(self._ends(name)[0]),
                "high": _plain(self._ends(name)[1]),
            }
            for name, curve in self.curves.items()
        ]
        return {
            "display": "decision curve",
            "band": "simultaneous" if self.bands else "pointwise",
            "thresholds": self._first.thresholds.tolist(),
            "treat_all": self._first.treat_all.tolist(),
            "treat_none": self._first.treat_none,
            "models": models,
        }

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        text = 'A model is useful where its curve is above "treat all" and "treat none".'
        shaded = "95 % band for the whole curve" if self.bands else "95 % interval, pointwise"
        found = []
        for name, curve in self.curves.items():
            share = style.percent(float(curve.useful.mean()), 2)
            found.append(f"{name} at {share} of the thresholds")
        return f"{text} Estimated above both: {', '.join(found)}. Shaded: {shaded}."

    def _draw_on(self, ax: Axes) -> None:
        at = self._first.thresholds
        drawn: list[tuple[Floats, Floats]] = []
        for place, (name, curve) in enumerate(self.curves.items()):
            turn = len(self.curves) - 1 - place
            color, dash = style.color(ax, turn), style.DASHES[turn]
            low, high = self._ends(name)
            ax.fill_between(at, low, high, **style.shade(ax, color), zorder=1)
            ax.plot(at, curve.model, color=color, linestyle=dash, linewidth=1.8, label=name, zorder=3 - 0.1 * turn)
            drawn += [(at, curve.model), style.upright(at, low, high)]
        treated = self._first.treat_all
        top = max(float(np.max([curve.model.max() for curve in self.curves.values()])), float(treated.max()), 1e-6)
        lines: dict[str, Any] = {"color": style.GUIDE, "linewidth": 1.2}
        ax.plot(at, treated, **lines, linestyle=(0, (5, 2)), label="treat all", zorder=2)
        ax.plot(
            at, np.full(len(at), self._first.treat_none), **lines, linestyle=(0, (2, 2)), label="treat none", zorder=2
        )
        worst = min(float(np.min([curve.model.min() for curve in self.curves.values()])), 0.0)
        ax.set_ylim(max(1.15 * worst, -0.35 * top) - 0.06 * top, 1.12 * top)
        style.percent_axis(ax, "x", float(at[0]) if len(at) < 3 else 0.0, float(at[-1]), room=0.02)
        ax.set_xlabel("Threshold probability")
        ax.set_ylabel("Net benefit (true positives per row)")
        self._head(ax, "Decision curve")
        style.place_legend(ax, [*drawn, (at, treated)])


def _plain(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


@display_of.register
def _(found: DecisionBand) -> DecisionCurveDisplay:
    unknown = np.full(len(found.thresholds), np.nan)
    curve = DecisionCurve(found.thresholds, found.model, unknown, found.treat_all)
    return DecisionCurveDisplay({"model": curve}, {"model": (found.band_low, found.band_high)})


display_of.register(DecisionCurve, lambda curve: DecisionCurveDisplay({"model": curve}))
