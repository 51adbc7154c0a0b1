"""Reliability of parity forecasts: how often a series fell or stayed, by the probability of it."""

from __future__ import annotations

from typing import Any

from calibrant.displays.base import check_confidence, display_of
from calibrant.displays.drawing import style
from calibrant.displays.multiclass.panels import Panel, PanelsDisplay
from calibrant.displays.reliability import ReliabilityDisplay
from calibrant.messages import InputError, plural
from calibrant.online import ParityResult, ParityTable
from calibrant.online.parity.results import falls_or_stays


class ParityDisplay(PanelsDisplay):
    """Reliability diagrams of probabilities of a decrease, one for each forecast, with the rows below each.

    A point is a bin of equal width: the share of its rows whose value fell or stayed, against their mean probability.
    The gray bar shows where it would lie for a calibrated forecast, as in :class:`ReliabilityDisplay`.

    Notes
    -----
    Edge cases: empty bins have no point.
    Guarantee: no finite-sample guarantee; the gray bar is for each bin alone, and assumes independent rows, which those
    of a series need not be.
    Cost: one sort of the rows of each forecast, and 500 simulated calibrated models.
    Reference: Gupta (2023), section 7.A and Figure 7.10.

    Attributes
    ----------
    results
        The evaluated forecasts, whose calibration error, expected error and AUROC are above the panels.
    confidence
        Share of calibrated models within the gray bar, at each bin.
    ax_, panels_, figure_
        Set by :meth:`plot`, as in :class:`ClasswiseDisplay`.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.online import GaussianForecast, OnlinePlatt, parity_stream
    >>> y = np.random.default_rng(0).normal(size=900)  # noise: high values tend to fall
    >>> stream = parity_stream(GaussianForecast(np.zeros(900), 3.0), y)  # far too wide
    >>> display = ParityDisplay(stream.compare({"OPS": OnlinePlatt(gamma=0.001, rho=1e4)}))
    >>> [(panel["name"], round(panel["error"], 2)) for panel in display.data["panels"]]
    [('base', 0.15), ('OPS', 0.06)]
    """

    headline, ordinate, in_a_row = "Parity reliability", "Share that fell or stayed", 4

    def __init__(self, results: ParityTable | ParityResult, *, confidence: float = 0.9) -> None:
        if not isinstance(results, ParityTable | ParityResult):
            fix = "pass what compare() or judge() of a parity stream returned"
            raise InputError("results", f"must be evaluated parity forecasts, not {type(results).__name__}", fix)
        check_confidence(confidence)
        self.results = results if isinstance(results, ParityTable) else ParityTable((results,))
        panels = []
        for each in self.results.results:
            one = ReliabilityDisplay.from_predictions(
                each.tally, curve="bins", n_bins=each.n_bins, strategy="width", confidence=confidence, axes="linear"
            ).series[0]
            panels.append(Panel(str(each.name), one, each.pce.value, each.pce.null or 0.0))
        super().__init__(panels, curve="bins", confidence=confidence)

    @property
    def data(self) -> dict[str, Any]:
        """All numbers in the plot, as plain lists."""
        panels = [
            {**each.to_dict(), "error": one.error, "error_by_chance": one.chance, **self._single(one).data["series"][0]}
            for each, one in zip(self.results.results, self.panels, strict=True)
        ]
        return {"display": "parity", "confidence": self.confidence, "panels": panels}

    @property
    def caption(self) -> str:
        """What the plot shows, as text."""
        first = self.results.results[0]
        return (
            f"{plural(first.n_rows, 'row')}, {falls_or_stays(first.base_rate, first.tie_rate)}; {first.n_bins} bins of "
            "equal width. Below each panel: rows that fell or stayed upward, rows that rose downward."
        )

    def _facts(self, one: Panel) -> list[str]:
        auroc = self.results.results[self.panels.index(one)].auroc.value
        return [
            f"AUROC {auroc:.3f}",
            f"error {style.percent(one.error, 2)}",
            f"expected {style.percent(one.chance, 2)}",
        ]


display_of.register(ParityTable, ParityDisplay)
display_of.register(ParityResult, ParityDisplay)
