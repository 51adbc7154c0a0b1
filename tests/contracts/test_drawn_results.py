"""Every result that a display draws has a method `plot`, found over the classes of the package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import abstention, clinical, conformal, credit, displays, live, metrics
from calibrant.displays.base import Display, display_of
from calibrant.messages import Drawn, InputError
from calibrant.online import GaussianForecast, OnlinePlatt, parity_stream

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(0)
P = RNG.beta(1.2, 3.0, 1_500)
Y = (RNG.random(1_500) < P**1.2).astype(int)
HOSPITAL = np.repeat(np.arange(15), 100)
CLASSES = RNG.dirichlet([1.0, 1.0, 1.0], 300)
NAMED = np.array([RNG.choice(3, p=row) for row in CLASSES])
DEATH, END = RNG.exponential(5 / -np.log1p(-np.clip(P, 0.01, 0.95))), RNG.uniform(1, 12, 1_500)
PARITY = parity_stream(GaussianForecast(np.zeros(300), 3.0), RNG.normal(size=300))
GRADES: dict[str, Any] = {"grade": ["A", "B"] * 2, "year": [2024, 2024, 2025, 2025]}

SAMPLES: dict[str, Callable[[], Any]] = {
    "Backtest": lambda: live.backtest(P, Y, np.arange(1_500) / 50.0, ["week", "never"]),
    "Calibration": lambda: calibrant.PlattScaling().fit(P, Y).calibration_,
    "ClusterValidation": lambda: clinical.validate_clusters(P, Y, groups=HOSPITAL),
    "DecisionBand": lambda: clinical.decision_curve(P, Y, thresholds=np.linspace(0.05, 0.5, 10)),
    "DecisionCurve": lambda: metrics.net_benefit(P, Y),
    "DistributionCalibration": lambda: conformal.recalibrate_distributions(
        GaussianForecast(np.zeros(99), 1.0), RNG.normal(size=99)
    ),
    "GradePanel": lambda: credit.grade_panel([800, 500, 800, 500], [2, 15, 4, 4], [0.002, 0.01] * 2, **GRADES),
    "Monitor": lambda: live.Monitor().update(P, Y),
    "MulticlassErrors": lambda: metrics.errors_by_class(CLASSES, NAMED, notion="class-wise"),
    "ParityResult": lambda: PARITY.compare({"OPS": OnlinePlatt()})["OPS"],
    "ParityTable": lambda: PARITY.compare({"OPS": OnlinePlatt()}),
    "Plan": lambda: calibrant.plan(n=5_000, epsilon=0.1),
    "PredictionSets": lambda: conformal.split_intervals(*RNG.normal(size=(3, 60))),
    "RiskCoverage": lambda: abstention.risk_coverage(np.maximum(P, 1 - P), (P > 0.5) == Y),
    "SamplingCorrection": lambda: calibrant.SamplingCorrection(train_rate=0.5, true_rate=0.1),
    "SurvivalValidation": lambda: clinical.validate_survival(P, np.minimum(DEATH, END), DEATH <= END, horizon=5),
    "TradeOff": lambda: metrics.trade_off({"a": P, "b": P**1.5}, Y),
    "Validation": lambda: clinical.validate(P, Y),
    "ValidityCurve": lambda: metrics.validity_curve(P, Y),
}


@cache
def results() -> dict[str, type]:
    """Classes with a picture, by name."""
    for module in pkgutil.walk_packages(calibrant.__path__, "calibrant."):
        if not re.search(r"\.(service|cli|river)\b|__main__", module.name):
            importlib.import_module(module.name)

    def below(cls: type) -> Iterator[type]:
        for each in cls.__subclasses__():
            yield each
            yield from below(each)

    return {cls.__name__: cls for cls in below(Drawn) if cls.__module__.startswith("calibrant.")}


def test_every_result_that_a_display_takes_is_drawn_by_it() -> None:
    taken: set[str] = set()
    for name in displays.__all__:
        _, *given = inspect.signature(getattr(displays, name).__init__).parameters.values()
        taken |= {word for each in given[:1] for word in re.findall(r"\w+", str(each.annotation))}
    parts = {"Series", "Panel", "Regions", "MulticlassCells", "Floats", "Mapping", "Sequence", "str"}
    assert taken - parts <= set(results())
    assert {cls.__name__ for cls in display_of.registry} - {"object"} <= set(results())
    assert set(SAMPLES) == set(results())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_result_draws_itself(name: str) -> None:
    result = SAMPLES[name]()
    drawn = result.plot(title="A title", figsize=(4.0, 3.0))
    assert isinstance(drawn, Display)
    assert drawn.ax_.figure is drawn.figure_
    assert type(drawn) is type(display_of(result))
    assert drawn.data["display"]
    own = plt.figure().add_subplot()
    assert result.plot(own, caption="").ax_ is own
    plt.close("all")


def test_a_validation_draws_the_curve_of_its_table() -> None:
    by_row, by_cluster = clinical.validate(P, Y), clinical.validate(P, Y, groups=HOSPITAL)
    narrow, wide = (each.plot().data["series"][0]["smooth"] for each in (by_row, by_cluster))
    widths = [np.mean(np.subtract(each["high"], each["low"])) for each in (narrow, wide)]
    assert len(narrow["rate"]) == len(wide["rate"])
    assert widths[0] != widths[1]
    assert clinical.validate(P, Y, curve="lowess").plot().curve == "isotonic"
    assert "tally" not in by_row.to_dict()
    stored = calibrant.clinical.Validation(**{**vars(by_row), "tally": None})
    assert stored == by_row
    with pytest.raises(InputError) as refused:
        stored.plot()
    assert refused.value.argument == "validation"
    plt.close("all")


def test_calibrators_draw_their_map() -> None:
    cal = calibrant.HistogramBinning(n_bins=5).fit(P, Y)
    assert cal.plot().data == cal.calibration_.plot().data
    plt.close("all")
    for several in (calibrant.TemperatureScaling().fit(CLASSES, NAMED), replace(SAMPLES["Plan"](), notion="top-label")):
        with pytest.raises(InputError):
            several.plot()


def test_results_load_no_display() -> None:
    code = """
import sys
from calibrant import abstention, clinical, conformal, credit, live, metrics, PlattScaling
loaded = [name for name in sys.modules if name.startswith(("matplotlib", "calibrant.displays"))]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
