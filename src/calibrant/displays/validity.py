"""Plots of validity curves: the share of rows whose score is within epsilon of the true event rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays.columns import check_option
from calibrant.displays.base import Display, display_of
from calibrant.displays.drawing import style
from calibrant.displays.drawing.style import Linear
from calibrant.guarantees.about.scores import ScoreBins
from calibrant.guarantees.certificate import Certificate, Coverage
from calibrant.guarantees.planning import Plan
from calibrant.messages import InputError, plural
from calibrant.metrics.binary.bins import Scores
from calibrant.metrics.binary.validity import ValidityCurve
from calibrant.metrics.dispatch import validity_curve
from calibrant.numerics import Floats
from calibrant.reading import located

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CROWDED_SHARE = 0.03
"""The axis is logarithmic if half of the rows lie within this share of a linear one."""
MAX_STEPS = 2_000
"""Maximum number of steps drawn per curve."""
CURVE_POINTS = 201
"""Points of the curve that a plan guarantees."""

Band = Literal["sd", "mean"]
"""Half-width of the band of repetitions: one standard deviation, or that of the mean."""


class ValidityDisplay(Display):
    r"""Validity curves: the share of rows whose score is within epsilon of the true event rate.

    .. math:: V(\epsilon) = P\bigl[\,|S - E(Y \mid S)| \le \epsilon\,\bigr],\qquad \int_0^1 V = 1 - E|S - E(Y \mid S)|

    for score S and label Y, as estimated by :func:`calibrant.metrics.validity_curve`. Several curves of the same name
    are repetitions, drawn as their mean with a band of one standard deviation. With ``coverage="simultaneous"`` a
    repetition counts only where all of its bins are within epsilon: conditional validity. A certificate adds
    :func:`certified_steps`: the rates of its bins are guaranteed, the share of rows in these bins is an estimate. A
    plan adds the curve that it guarantees before labels are seen, :meth:`calibrant.guarantees.planning.Plan.validity`.

    Guarantee: that of the certificate, on the event rate of each bin. Shares of rows have no finite-sample guarantee.
    Cost: that of the curves; then O(steps).

    Reference: Gupta (2023), sections 4.2.1 and 4.4, Figure 4.3, eq. 5.8; Torabian (2023), section 3.2.4 and Figure 4.2.

    Attributes
    ----------
    curves
        Curves (repetitions) by name.
    certificate
        Adds its steps to the plot; None for none.
    certified
        Epsilons and shares of the certificate, or None.
    plan
        Adds its guaranteed curve to the plot; None for none.
    coverage
        ``"marginal"``: share of rows. ``"simultaneous"``: share of the repetitions whose bins are all within epsilon.
    band
        Half-width of the band: ``"sd"``, one standard deviation over repetitions, or ``"mean"``, that of their mean.
    ax_, figure_
        Set by :meth:`plot`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> display = ValidityDisplay.from_predictions(scores, rng.random(2000) < scores**2)
    >>> sorted(display.data["curves"][0])
    ['auc', 'epsilon', 'label', 'repetitions', 'sd', 'share']
    """

    size = (6.0, 4.4)

    def __init__(
        self,
        curves: Mapping[str, Sequence[ValidityCurve]],
        *,
        certificate: Certificate | None = None,
        plan: Plan | None = None,
        coverage: Coverage = "marginal",
        band: Band = "sd",
    ) -> None:
        check_option("coverage", coverage, get_args(Coverage))
        check_option("band", band, get_args(Band))
        if plan is not None and plan.coverage != coverage:
            raise InputError(
                "plan", f"has {plan.coverage} coverage, and the curves have {coverage} coverage", "pass equal ones"
            )
        if not curves or not all(len(given) for given in curves.values()):
            raise InputError("curves", "must have at least one curve under each name")
        if len(curves) > len(style.COLORS):
            raise InputError("curves", f"has {len(curves)} names", f"at most {len(style.COLORS)} can be distinguished")
        self.curves = {name: tuple(given) for name, given in curves.items()}
        self.certificate = certificate
        self.certified = None if certificate is None else certified_steps(certificate)
        self.plan, self.coverage, self.band = plan, coverage, band
        if plan is not None:
            plan.validity(0.5)  # refused here if it has no curve

    @classmethod
    def from_predictions(
        cls,
        scores: Scores | Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        certificate: Certificate | None = None,
        plan: Plan | None = None,
        coverage: Coverage = "marginal",
        label: str = "estimated",
        **options: Any,
    ) -> ValidityDisplay:
        """Compute the curve of rows, or of a tally; draw it with :meth:`plot`.

        Parameters
        ----------
        scores, y, sample_weight
            Probabilities, labels and weights, or a tally alone. A matrix of class scores is read in the top-label
            sense, unless the option ``notion`` names another.
        certificate
            Certificate of the map that returned the scores; its steps are added to the plot.
        plan
            Plan of the binning that returned the scores; its guaranteed curve is added to the plot.
        coverage
            ``"simultaneous"`` for conditional validity.
        label
            Name of the curve in the legend.
        **options
            As in :func:`calibrant.metrics.validity_curve`.
        """
        scores, y, sample_weight = located(scores, y, sample_weight, call="from_predictions").columns
        curve = validity_curve(scores, y, sample_weight, **options)
        return cls.from_curves({label: curve}, certificate=certificate, plan=plan, coverage=coverage)

    @classmethod
    def from_curves(
        cls,
        curves: Mapping[str, ValidityCurve | Sequence[ValidityCurve]] | Sequence[ValidityCurve] | ValidityCurve,
        *,
        certificate: Certificate | None = None,
        plan: Plan | None = None,
        coverage: Coverage = "marginal",
        band: Band = "sd",
    ) -> ValidityDisplay:
        """Display of computed curves: one, repetitions of one, or a dict of either by name.

        Parameters
        ----------
        curves
            Curves, as :func:`calibrant.metrics.validity_curve` returns them.
        certificate, plan, coverage, band
            As the attributes of the same name.
        """
        named = curves if isinstance(curves, Mapping) else {"estimated": curves}
        lists = {name: [one] if isinstance(one, ValidityCurve) else list(one) for name, one in named.items()}
        return cls(lists, certificate=certificate, plan=plan, coverage=coverage, band=band)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        shown = []
        for name, given in self.curves.items():
            epsilon, mean, sd = self._mean_and_sd(given)
            shown.append(
                {
                    "label": name,
                    "repetitions": len(given),
                    "epsilon": epsilon.tolist(),
                    "share": mean.tolist(),
                    "sd": sd.tolist() if len(given) > 1 else None,
                    "auc": _area(given),
                }
            )
        steps = self.certified
        certified = None if steps is None else {"epsilon": steps[0].tolist(), "share": steps[1].tolist()}
        data = {"display": "validity", "coverage": self.coverage, "curves": shown, "certified": certified}
        if self.plan is not None:
            epsilon = np.linspace(*self._range(), CURVE_POINTS)
            data["planned"] = {"epsilon": epsilon.tolist(), "share": self.plan.validity(epsilon).tolist()}
        return data

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        text = "Share of rows whose score is within epsilon of the event rate at that score; higher is better."
        if self.coverage == "simultaneous":
            text = "Share of repetitions in which every bin is within epsilon of its event rate; higher is better."
        if any(len(given) > 1 for given in self.curves.values()):
            text += f" Bands: one standard deviation {'of the mean ' if self.band == 'mean' else ''}over repetitions."
        if self.plan is not None:
            text += (
                f" Thin line: guaranteed before labels are seen for {self.plan.n:,} labels in "
                f"{plural(self.plan.n_bins, 'bin')}, on average over calibration sets; estimated curves may be lower, "
                "because rates are noisy."
            )
        return text if self.certificate is None else f"{text} {_certificate_caption(self.certificate)}"

    def _draw_on(self, ax: Axes) -> None:
        start, end = self._range()
        if start > 0.0:
            ax.set_xscale("log")
        ax.set_xlim(start, end)
        drawn = [self._draw_curve(ax, place, start, end) for place in range(len(self.curves))]
        if self.certified is not None:
            x, share = style.steps(*self.certified, start, end)
            ink = ax.xaxis.label.get_color()
            ax.plot(x, share, color=ink, linewidth=1.2, linestyle=(0, (1, 1)), label="bins of the certificate")
            drawn.append(style.along(Linear(), x, share))
        if self.plan is not None:
            x = np.linspace(start, end, CURVE_POINTS)
            share = self.plan.validity(x)
            ax.plot(x, share, color=ax.xaxis.label.get_color(), linewidth=0.8, label="guaranteed by the plan")
            drawn.append(style.along(Linear(), x, share))
        style.share_axis(ax)
        ax.set_xlabel("Epsilon")
        self._head(ax, "Validity curve")
        style.place_legend(ax, drawn)

    def _draw_curve(self, ax: Axes, place: int, start: float, end: float) -> tuple[Floats, Floats]:
        name, given = list(self.curves.items())[place]
        epsilon, mean, sd = self._mean_and_sd(given)
        x, share = style.steps(epsilon, mean, start, end)
        look = len(self.curves) - 1 - place  # the last curve is the solid one, as in a reliability diagram
        color, dash = style.color(ax, look), style.DASHES[look]
        if len(given) > 1:
            half = sd / np.sqrt(len(given)) if self.band == "mean" else sd
            spread = style.steps(epsilon, half, start, end)[1]
            low, high = np.clip(share - spread, 0.0, 1.0), np.clip(share + spread, 0.0, 1.0)
            ax.fill_between(x, low, high, **style.shade(ax, color))
        ax.plot(
            x,
            share,
            color=color,
            linestyle=dash,
            linewidth=1.8,
            label=f"{name} (area {_area(given):.3f})" if self.coverage == "marginal" else name,
            zorder=3,
        )
        return style.along(Linear(), x, share)

    def _range(self) -> tuple[float, float]:
        """Range of epsilons, up to where all rows are included; from 0, or from the smallest if most are near 0."""
        steps = [self._mean_and_sd(given)[:2] for given in self.curves.values()]
        steps += [] if self.certified is None else [self.certified]
        end = min(max(1.12 * max(float(epsilon[-1]) for epsilon, _ in steps), 1e-6), 1.0)
        halfway = min(float(epsilon[np.searchsorted(share, 0.5 * share[-1])]) for epsilon, share in steps)
        least = min(float(epsilon[epsilon > 0.0].min(initial=end)) for epsilon, _ in steps)
        crowded = halfway < CROWDED_SHARE * end
        return (max(0.8 * least, 1e-3 * end) if crowded else 0.0), end

    def _mean_and_sd(self, curves: Sequence[ValidityCurve]) -> tuple[Floats, Floats, Floats]:
        """All steps of any repetition, and the mean and standard deviation of the repetitions there."""
        whole = self.coverage == "simultaneous"
        epsilon = np.unique(np.concatenate([one.epsilon[-1:] if whole else one.epsilon for one in curves]))
        if len(epsilon) > MAX_STEPS:
            epsilon = epsilon[np.linspace(0, len(epsilon) - 1, MAX_STEPS).round().astype(np.intp)]
        shares = np.array([one.conditional(epsilon) if whole else one.at(epsilon) for one in curves])
        sd = shares.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(epsilon)
        return epsilon, shares.mean(axis=0), sd


def certified_steps(certificate: Certificate) -> tuple[Floats, Floats]:
    r"""Epsilons of a certificate and the share of rows that they cover, estimated from the calibration rows.

    Simultaneous: each bin's own epsilon, and the share of the calibration rows in bins of at most this epsilon.
    Marginal: its one epsilon, and :math:`1 - \alpha` times the share of the calibration rows that are covered. The
    certificate bounds rates, not the share of new rows in a bin.

    Examples
    --------
    >>> from calibrant import HistogramBinning
    >>> cal = HistogramBinning(n_bins=2, strategy="width").fit([0.2] * 50 + [0.8] * 50, [0, 1] * 50)
    >>> epsilon, share = certified_steps(cal.certificate(0.1))
    >>> epsilon.round(3).tolist(), share.tolist()
    ([0.145], [1.0])
    """
    if not isinstance(certificate.about, ScoreBins):
        raise InputError(
            "certificate", f"is about {certificate.about.sense()}", "pass a certificate about bins of a score"
        )
    total = certificate.n + certificate.uncovered_rows
    if certificate.coverage == "marginal":
        return np.array([certificate.epsilon]), np.array([(1.0 - certificate.alpha) * (certificate.n / total)])
    covered = certificate.covered
    widths, rows = certificate.half_widths[covered], certificate.rows[covered]
    epsilon, index = np.unique(widths, return_inverse=True)
    return epsilon, np.cumsum(np.bincount(index, rows)) / total


def _certificate_caption(certificate: Certificate) -> str:
    """What is guaranteed and what is estimated in the dotted line."""
    sure = style.percent(1.0 - certificate.alpha, 6)
    if certificate.coverage == "marginal":
        return (
            f"Dotted: the event rate of a new row's bin is within epsilon of its output with probability {sure}, "
            "guaranteed on average over calibration sets; the share in covered bins is estimated from the calibration "
            "rows."
        )
    return (
        f"Dotted: the event rate of every bin is within its epsilon of the output, guaranteed with confidence {sure}; "
        "the share of rows in these bins is estimated from the calibration rows."
    )


def _area(curves: Sequence[ValidityCurve]) -> float:
    return float(np.mean([one.auc for one in curves]))


display_of.register(ValidityCurve, ValidityDisplay.from_curves)
