"""Figures of a clinical validation: loess curves, bands for clusters, forest plots, decision bands, files for print."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, clinical, metrics
from calibrant.displays import DecisionCurveDisplay, ForestDisplay, ReliabilityDisplay
from calibrant.metrics.smoothers import LoessCurve, fit_loess
from calibrant.numerics import expit

pytest.importorskip("matplotlib")


def world(n: int = 900, clusters: int = 15):
    rng = np.random.default_rng(1)
    hospital = np.arange(n) % clusters
    z = rng.normal(-1.0, 1.1, n)
    y = rng.random(n) < expit(0.7 * z - 0.3 + 0.7 * rng.normal(size=clusters)[hospital])
    return expit(z), y.astype(int), hospital


def test_loess_reproduces_a_parabola_and_sums_its_weights_to_one() -> None:
    s = np.sort(np.random.default_rng(0).random(60))
    curve = LoessCurve(s, np.ones(60), 0.2 + 0.1 * s + 0.5 * s**2)
    at = np.array([0.05, 0.4, 0.77])
    np.testing.assert_allclose(curve.at(at), 0.2 + 0.1 * at + 0.5 * at**2, rtol=1e-9)
    np.testing.assert_allclose(curve.weights(at).sum(axis=1), 1.0)


def test_loess_takes_ties_as_repeated_rows_and_has_edges() -> None:
    s, n, events = np.array([0.1, 0.3, 0.4, 0.8, 0.9]), np.array([4, 2, 3, 2, 4]), np.array([0, 1, 1, 1, 3])
    curve = fit_loess(s, n, events)
    assert isinstance(curve, LoessCurve)
    for rows in (1, 2, 3):
        few = fit_loess(s[:rows], n[:rows], events[:rows])
        assert np.isfinite(few.at(np.array([0.0, 0.2, 1.0]))).all()
    low, high = curve.band(s, 1.96)
    assert ((low >= 0.0) & (high <= 1.0) & (low < high)).all()
    many = np.linspace(0.01, 0.99, 2500)
    smooth = fit_loess(many, np.ones(2500), many**2)
    np.testing.assert_allclose(smooth.at(many), many**2, atol=1e-5)


def test_a_loess_diagram_has_the_curve_and_a_band() -> None:
    risk, y, _ = world()
    display = ReliabilityDisplay.from_predictions(risk, y, curve="loess")
    smooth = display.data["series"][0]["smooth"]
    at = np.array(smooth["score"])
    expected = metrics.calibration_curve(risk, y, method="loess", at=at).rates
    np.testing.assert_allclose(smooth["rate"], expected, atol=1e-9)
    assert display.confidence == 0.95
    assert "confidence band" in display.caption


def test_groups_widen_the_band_of_a_spline() -> None:
    risk, y, hospital = world()
    widths = []
    for groups in (None, hospital):
        smooth = ReliabilityDisplay.from_predictions(risk, y, curve="spline", groups=groups).series[0].smooth
        assert smooth is not None
        widths.append(float(np.mean(smooth.high - smooth.low)))
    assert widths[1] > 1.1 * widths[0]
    with pytest.raises(InputError, match="curve='spline'"):
        ReliabilityDisplay.from_predictions(risk, y, groups=hospital)
    with pytest.raises(InputError, match="at least 10"):
        ReliabilityDisplay.from_predictions(risk, y, curve="spline", groups=hospital % 3)


def test_a_forest_plot_has_the_clusters_and_the_pooled_value() -> None:
    risk, y, hospital = world()
    found = clinical.validate_clusters(risk, np.where(hospital == 2, 0, y), groups=hospital)
    for measure in ("observed_over_expected", "intercept", "slope", "c_statistic"):
        display = ForestDisplay(found, measure).plot()
        assert len(display.data["clusters"]) == 15
        assert display.data["clusters"][2]["value"] in (None, 0.0)
        assert display.data["pooled"]["value"] == found.pooled[measure].value
        assert "prediction interval" in display.caption
    with pytest.raises(InputError, match="measure"):
        ForestDisplay(found, "brier")
    with pytest.raises(InputError, match="at most 60"):
        ForestDisplay.from_predictions(risk, y, groups=np.arange(900) % 90)


def test_a_decision_curve_can_have_a_band_for_the_whole_curve() -> None:
    risk, y, hospital = world()
    options = {"thresholds": [0.1, 0.2, 0.3], "groups": hospital}
    pointwise = DecisionCurveDisplay.from_predictions(risk, y, **options)
    whole = DecisionCurveDisplay.from_predictions(risk, y, band="simultaneous", **options)
    assert (pointwise.data["band"], whole.data["band"]) == ("pointwise", "simultaneous")
    assert whole.data["models"][0]["net_benefit"] == pointwise.data["models"][0]["net_benefit"]
    assert "whole curve" in whole.caption
    with pytest.raises(InputError, match="band"):
        DecisionCurveDisplay.from_predictions(risk, y, band="both")


def test_figures_are_saved_for_print(tmp_path: Path) -> None:
    risk, y, _ = world()
    display = ReliabilityDisplay.from_predictions(risk, y, curve="spline")
    for ending in ("pdf", "svg", "png"):
        display.save(tmp_path / f"figure.{ending}", figsize=(3.5, 4.0))
    page = (tmp_path / "figure.pdf").read_bytes()
    assert b"/Type3" not in page
    assert b"<svg" in (tmp_path / "figure.svg").read_bytes()
    assert (tmp_path / "figure.png").stat().st_size > 10_000
