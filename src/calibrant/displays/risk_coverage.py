"""Risk-coverage curves: the share of wrong answers by the share of answers that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.abstention import Acceptance, RiskCoverage, risk_coverage
from calibrant.abstention.chain import score_rule
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.messages import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RiskCoverageDisplay(Display):
    r"""Share of wrong answers by the share of answers given, with a band for all points at once.

    The curve begins with the highest scores at the left and ends with all rows at the right. The bars are those of
    :func:`calibrant.abstention.risk_coverage`. With an acceptance, its error is a line and its threshold a point.

    Notes
    -----
    Edge cases: tied scores are answered together, so that the curve has few points.
    Guarantee: finite-sample for the bars, all of them at once. Cost: one sort.
    Reference: El-Yaniv and Wiener (2010), On the foundations of noise-free selective classification.

    Attributes
    ----------
    curve
        The numbers.
    acceptance
        The threshold that is marked, or None.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> display = RiskCoverageDisplay.from_predictions([0.9] * 50 + [0.6] * 50, [1] * 80 + [0] * 20, points=2)
    >>> display.data["coverage"], display.data["risk"]
    ([0.5, 1.0], [0.0, 0.2])
    """

    size = (5.8, 4.6)

    def __init__(self, curve: RiskCoverage, acceptance: Acceptance | None = None) -> None:
        if acceptance is not None and acceptance.total != curve.total:
            raise InputError("acceptance", "is of other rows than the curve", "compute both from the same rows")
        self.curve, self.acceptance = curve, acceptance

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        y: ArrayLike | None = None,
        *,
        acceptance: Acceptance | None = None,
        alpha: float = 0.05,
        points: int = 20,
        groups: ArrayLike | str | None = None,
        score: str | None = None,
        label: str | None = None,
        random_state: int = 0,
    ) -> RiskCoverageDisplay:
        """Compute the curve; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, alpha, points, groups, score, label, random_state
            As in :func:`calibrant.abstention.risk_coverage`; y says whether each answer was right.
        acceptance
            Result of :func:`calibrant.abstention.accept` on the same rows, to be marked.
        """
        curve = risk_coverage(
            scores, y, alpha=alpha, points=points, groups=groups, score=score, label=label, random_state=random_state
        )
        return cls(curve, acceptance)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        marked = None if self.acceptance is None else self.acceptance.to_dict()
        whole = {"coverage": self._whole[0].tolist(), "risk": self._whole[1].tolist()}
        return {"display": "risk-coverage", **self.curve.to_dict(), "curve": whole, "acceptance": marked}

    @property
    def _whole(self) -> tuple[Any, Any]:
        return self.curve.all_rows / self.curve.total, self.curve.all_wrong / self.curve.all_rows

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        sure = style.percent(1.0 - self.curve.alpha, 4)
        text = f"{self.curve.total:,} rows, highest scores first. Bars: {sure} intervals, for all of them at once."
        if self.acceptance is None:
            return text
        most = style.percent(self.acceptance.error, 4)
        if self.acceptance.threshold is None:
            return f"{text} At no score are at most {most} shown to be wrong."
        share = style.percent(self.acceptance.coverage, 3)
        rule = score_rule(self.acceptance.threshold)
        given = "If everything is answered" if self.acceptance.everything else f"If the score is {rule}"
        stated = style.percent(1.0 - self.acceptance.alpha, 4)
        return f"{text} {given} ({share} of the rows): with confidence {stated}, at most {most} are wrong."

    def _draw_on(self, ax: Axes) -> None:
        curve, (coverage, risk) = self.curve, self._whole
        few = len(coverage) <= 30
        line: dict[str, Any] = {"linewidth": 1.6, "marker": "o" if few else "", "markersize": 4, "zorder": 3}
        ax.plot(coverage, risk, color=style.color(ax, 0), label="wrong answers", **line)
        bars = curve.risk - curve.low, curve.high - curve.risk
        ax.errorbar(
            curve.coverage,
            curve.risk,
            np.maximum(bars, 0.0),
            fmt="none",
            ecolor=style.color(ax, 0),
            alpha=0.6,
            zorder=2,
        )
        top = float(np.max(curve.high[curve.coverage >= min(0.1, float(curve.coverage[-1]))]))
        if self.acceptance is not None:
            found = self.acceptance
            ax.axhline(found.error, color=style.GUIDE, linewidth=1.2, linestyle=(0, (5, 2)), zorder=1, label="allowed")
            top = max(top, found.error)
            if found.threshold is not None:
                at = found.coverage, found.wrong / found.rows
                ax.plot(
                    *at, marker="D", markersize=8, color=style.color(ax, 5), linestyle="", zorder=4, label="threshold"
                )
        style.percent_axis(ax, "x", 0.0, 1.0, room=0.02)
        style.percent_axis(ax, "y", 0.0, min(1.0, 1.08 * top), room=0.02)
        ax.set_xlabel("Share of the rows that are answered")
        ax.set_ylabel("Wrong among these")
        self._head(ax, "Risk-coverage curve")
        style.place_legend(ax, [(coverage, risk), style.upright(curve.coverage, curve.low, curve.high)])


display_of.register(RiskCoverage, RiskCoverageDisplay)
