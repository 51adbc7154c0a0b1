"""What every display keeps, whatever it shows: plain data, the user's settings, text that can be read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from calibrant import (
    BetaScaling,
    Certificate,
    HistogramBinning,
    IsotonicCalibrator,
    PlattScaling,
    Tally,
    credit,
    displays,
    live,
)
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.conformal import split_intervals
from calibrant.displays import (
    CanonicalValidityDisplay,
    ClasswiseDisplay,
    DecisionCurveDisplay,
    MapDisplay,
    MulticlassErrorDisplay,
    PlanDisplay,
    ReliabilityDisplay,
    SimplexDisplay,
    TopLabelDisplay,
    ValidityDisplay,
    rates,
)
from calibrant.displays.multiclass import rates as class_rates
from calibrant.displays.multiclass import regions
from calibrant.engine import Grid
from calibrant.maps import LogitAffineMap
from calibrant.metrics.binary.validity import validity_curve
from calibrant.online import GaussianForecast, OnlinePlatt, parity_stream

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

Build = Callable[..., Any]


def draw(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 2, n)
    return scores, (rng.random(n) < scores**1.3).astype(int)


def rare(n: int = 5_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    scores = 1 / (1 + np.exp(-rng.normal(-6.5, 1.6, n)))
    return scores, (rng.random(n) < scores).astype(int)


def repeated_validity(scores, y=None, sample_weight=None, **options):
    curve = validity_curve(scores, y, sample_weight, **options)
    other = validity_curve(scores, y, sample_weight, n_bins=3)
    return ValidityDisplay.from_curves({"first": [curve, other], "second": other})


OF_ROWS: dict[str, Build] = {
    "reliability": ReliabilityDisplay.from_predictions,
    "reliability, bins": lambda *a, **k: ReliabilityDisplay.from_predictions(*a, curve="bins", **k),
    "reliability, acceptance": lambda *a, **k: ReliabilityDisplay.from_predictions(*a, acceptance=True, **k),
    "reliability, spline": lambda *a, **k: ReliabilityDisplay.from_predictions(*a, curve="spline", **k),
    "decision curve": DecisionCurveDisplay.from_predictions,
    "reliability, log-odds": lambda *a, **k: ReliabilityDisplay.from_predictions(*a, axes="log-odds", **k),
    "reliability, log-odds bins": lambda *a, **k: ReliabilityDisplay.from_predictions(
        *a, axes="log-odds", curve="bins", **k
    ),
    "validity": ValidityDisplay.from_predictions,
    "validity, repeated": repeated_validity,
}
"""Displays that take rows or a tally."""


def draw_classes(n: int = 400, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of class probabilities that say too little about the first class."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n)
    truth = p * np.linspace(2.0, 1.0, classes)
    cuts = (truth / truth.sum(axis=1, keepdims=True)).cumsum(axis=1)[:, :-1]
    return p, np.array(NAMES[:classes])[(rng.random((n, 1)) > cuts).sum(axis=1)]


NAMES = [*"abcdefghijklmnopqrstuvwxyz", *(f"{letter}-2" for letter in "abcdefghijklmnopqrstuvwxyz")]


@cache
def simplex_bins() -> Any:
    return SimplexBinning("grid", cells=3).fit(*draw_classes(3_000)).map_


OF_CLASS_ROWS: dict[str, Build] = {
    "top-label": TopLabelDisplay.from_predictions,
    "top-label, bin": lambda p, *a, **k: TopLabelDisplay.from_predictions(p, *a, n_bins=1, **k).zoom(0.5),
    "class-wise": ClasswiseDisplay.from_predictions,
    "top-label, after": lambda p, *a, **k: TopLabelDisplay.from_predictions(
        p, *a, after=np.full(np.shape(p), 1 / 3), **k
    ),
    "class-wise, after": lambda p, *a, **k: ClasswiseDisplay.from_predictions(
        p, *a, after=np.full(np.shape(p), 1 / 3), **k
    ),
    "class-wise, bins": lambda *a, **k: ClasswiseDisplay.from_predictions(*a, curve="bins", **k),
    "class errors": MulticlassErrorDisplay.from_predictions,
    "class errors, after": lambda p, *a, **k: MulticlassErrorDisplay.from_predictions(
        p, *a, after=np.full(np.shape(p), 1 / 3), notion="class-wise", **k
    ),
    "simplex": lambda *a, **k: SimplexDisplay.from_predictions(*a, binning=simplex_bins(), **k),
    "canonical validity": lambda *a, **k: CanonicalValidityDisplay.from_predictions(*a, binning=simplex_bins(), **k),
}
"""Displays that take rows of class scores."""


def binned() -> tuple[HistogramBinning, Certificate]:
    fitted = HistogramBinning(n_bins=6).fit(*draw())
    promise = fitted.certificate()
    assert isinstance(promise, Certificate)
    return fitted, promise


def of_logits(calibrator: Any) -> Any:
    scores, y = draw()
    return calibrator.fit(np.log(scores / (1 - scores)), y, score_type="logit")


def followed() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Risk by time 5, follow-up and whether it ended with the event."""
    rng = np.random.default_rng(2)
    risk = rng.beta(1, 2, 400)
    death, end = rng.exponential(5 / -np.log1p(-risk)), rng.uniform(1, 12, 400)
    return risk, np.minimum(death, end), death <= end


def with_after(scores: np.ndarray, y: np.ndarray) -> ReliabilityDisplay:
    return ReliabilityDisplay.from_predictions(scores, y, after=IsotonicCalibrator().fit(scores, y).transform(scores))


def prediction_sets() -> displays.PredictionSetsDisplay:
    rng = np.random.default_rng(0)
    forecast = rng.normal(size=120)
    y = forecast + rng.normal(size=120)
    sets = split_intervals(forecast[:60], y[:60], forecast[60:], alpha=0.2)
    return displays.PredictionSetsDisplay(sets, y[60:], x=forecast[60:], name="Forecast")


def parity(rows: int, others: int = 1) -> Any:
    """Noise, of which a forecast that is too wide does not say that high values tend to fall."""
    y = np.random.default_rng(0).normal(size=rows)
    stream = parity_stream(GaussianForecast(np.zeros(rows), 3.0), y)
    return stream.compare({f"OPS, {k}": OnlinePlatt(gamma=0.001, rho=10.0**k) for k in range(4, 4 + others)})


def grades() -> Any:
    """Three grades in two years, one of them without rows in the second."""
    return credit.grade_panel(
        [500, 300, 100, 450, 320], [2, 9, 4, 1, 20], [0.002, 0.02, 0.05, 0.002, 0.02],
        grade=["A", "B", "C", "A", "B"], year=[2024, 2024, 2024, 2025, 2025],
    )  # fmt: skip


def watched(rows: int = 6_000, shift: float = 0.6, **options: Any) -> Any:
    """A monitor of a stream whose level moves after a third of its rows, and whose model is changed near the end."""
    rng = np.random.default_rng(5)
    p = rng.beta(1, 2, rows)
    odds = p / (1 - p) * np.exp(shift * (np.arange(rows) > rows // 3))
    y, last = rng.random(rows) < odds / (1 + odds), rows - rows // 5
    return live.Monitor(**options).update(p[:last], y[:last]).restart().update(p[last:], y[last:])


def sizes() -> dict[int, np.ndarray]:
    """Scores rounded to few values, by their number."""
    return {size: (draw()[0] * size).astype(int) / size + 0.5 / size for size in (1, 2, 4, 8, 16, 32, 64)}


@cache
def replayed() -> live.Backtest:
    """Policies on a stream whose level falls in the middle."""
    rng = np.random.default_rng(6)
    day, scores = rng.uniform(0, 90, 3_000), draw(3_000)[0]
    policies = ["week", "once", "on-alarm", "never", "month", "day", "online-platt"]
    return live.backtest(scores, rng.random(3_000) < scores * (1 - 0.4 * (day > 45)), day, policies)


LISTED: dict[str, Callable[[], Any]] = {
    **{name: lambda build=build: build(*draw()) for name, build in OF_ROWS.items()},
    "reliability, rare": lambda: ReliabilityDisplay.from_predictions(*rare()),
    "reliability, rare bins": lambda: ReliabilityDisplay.from_predictions(*rare(), curve="bins"),
    "validity, rare": lambda: ValidityDisplay.from_predictions(*rare(), strategy="mass"),
    "reliability, heaped": lambda: ReliabilityDisplay.from_predictions(draw(80)[0].round(1), draw(80)[1]),
    "reliability, overlay": lambda: with_after(*draw()),
    "reliability, rare overlay": lambda: with_after(*rare()),
    "horizon": lambda: displays.HorizonDisplay.from_follow_up(*followed(), horizon=5.0),
    "validity, certified": lambda: ValidityDisplay.from_predictions(*draw(), certificate=binned()[1]),
    "validity, marginal": lambda: ValidityDisplay.from_predictions(
        *draw(), certificate=binned()[0].certificate(coverage="marginal")
    ),
    "distribution": lambda: displays.DistributionDisplay.from_predictions(
        GaussianForecast(np.zeros(300), 1.0), np.random.default_rng(3).normal(scale=1.5, size=300)
    ),
    "forest": lambda: displays.ForestDisplay.from_predictions(*draw(), groups=np.arange(len(draw()[0])) % 5),
    "prediction sets": prediction_sets,
    "grade lights": lambda: displays.GradeLightsDisplay.from_panel(grades()),
    "map, binning": lambda: MapDisplay.from_map(binned()[0]),
    "map, rare binning": lambda: MapDisplay.from_map(HistogramBinning().fit(*rare())),
    "map, beta": lambda: MapDisplay.from_map(BetaScaling().fit(*draw())),
    "map, rare isotonic": lambda: MapDisplay.from_map(IsotonicCalibrator().fit(*rare())),
    "map, logits": lambda: MapDisplay.from_map(of_logits(PlattScaling())),
    "map, binned logits": lambda: MapDisplay.from_map(of_logits(HistogramBinning(n_bins=4))),
    "map, bare": lambda: MapDisplay.from_map(LogitAffineMap(0.7, -0.3), axes="log-odds"),
    "map, real": lambda: MapDisplay.from_map(LogitAffineMap(0.02, -3.0, on="score")),
    **{name: lambda build=build: build(*draw_classes()) for name, build in OF_CLASS_ROWS.items()},
    "top-label, many": lambda: TopLabelDisplay.from_predictions(*draw_classes(3_000, 40)),
    "top-label, many in a bin": lambda: TopLabelDisplay.from_predictions(*draw_classes(3_000, 40)).zoom(0.15),
    "class-wise, many": lambda: ClasswiseDisplay.from_predictions(*draw_classes(3_000, 40)),
    "class-wise, log-odds": lambda: ClasswiseDisplay.from_predictions(*draw_classes(), axes="log-odds"),
    "class-wise, two": lambda: ClasswiseDisplay.from_predictions(*draw_classes(300, 2)),
    "class errors, many": lambda: MulticlassErrorDisplay.from_predictions(*draw_classes(3_000, 40)),
    "trade-off": lambda: displays.TradeOffDisplay.from_predictions(sizes(), draw()[1], label="Bins"),
    "back-test": lambda: displays.BacktestDisplay.from_backtest(replayed()),
    "back-test, log loss": lambda: displays.BacktestDisplay.from_backtest(replayed(), error="log-loss"),
    "back-test, one block": lambda: displays.BacktestDisplay.from_backtest(replayed(), block_days=90),
    "parity": lambda: displays.ParityDisplay(parity(400)),
    "parity, one": lambda: displays.ParityDisplay(parity(400)["base"]),
    "parity, five": lambda: displays.ParityDisplay(parity(60, 4)),
    "monitor": lambda: displays.MonitorDisplay.from_monitor(watched()),
    "monitor, calm": lambda: displays.MonitorDisplay.from_monitor(watched(shift=0.0, lag=3)),
    "monitor, few rows": lambda: displays.MonitorDisplay.from_monitor(watched(12)),
    "plan": PlanDisplay.from_sizes,
    "plan, target": lambda: PlanDisplay.from_sizes(epsilon=0.1),
    "plan, one size": lambda: PlanDisplay.from_sizes([300], scheme="ums", coverage="marginal", max_bins=12),
    "plan, close sizes": lambda: PlanDisplay.from_sizes([1_000, 1_050, 1_100, 1_150]),
}


FIRST = {
    "BacktestDisplay": "back-test",
    "CanonicalValidityDisplay": "canonical validity",
    "DecisionCurveDisplay": "decision curve",
    "MulticlassErrorDisplay": "class errors",
    "ClasswiseDisplay": "class-wise",
    "DistributionDisplay": "distribution",
    "ForestDisplay": "forest",
    "GradeLightsDisplay": "grade lights",
    "MapDisplay": "map, binning",
    "MonitorDisplay": "monitor",
    "ParityDisplay": "parity",
    "PlanDisplay": "plan, target",
    "PredictionSetsDisplay": "prediction sets",
    "ReliabilityDisplay": "reliability",
    "SimplexDisplay": "simplex",
    "TopLabelBinDisplay": "top-label, bin",
    "TopLabelDisplay": "top-label",
    "TradeOffDisplay": "trade-off",
    "ValidityDisplay": "validity, certified",
    "HorizonDisplay": "horizon",
}
"""One picture of each display. A display that is not named here is built from rows, or from rows of classes."""

WITHOUT_LEGEND = {"ForestDisplay", "GradeLightsDisplay", "PlanDisplay"}
"""Displays that write names and values beside what they draw; every other one calls `style.place_legend`."""


def from_rows(name: str) -> Any:
    display = getattr(displays, name)
    return display.from_predictions(*(draw_classes() if ".multiclass." in display.__module__ else draw()))


EVERY = LISTED | {name: lambda name=name: from_rows(name) for name in displays.__all__ if name not in FIRST}
ONE_OF_EACH = [FIRST.get(name, name) for name in displays.__all__]
BASE = [FIRST[name] for name in ("ReliabilityDisplay", "ClasswiseDisplay", "TopLabelBinDisplay")]
"""Three pictures, one for each way to add a panel, for what the base class does."""


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """Fewer simulated data sets behind the gray: it lies where it lay, about, and is quick to compute."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (rates, class_rates, regions):
            patch.setattr(module, "DRAWS", 60)
        yield


@pytest.fixture(autouse=True)
def _close_figures():
    plt.close("all")
    yield
    plt.close("all")


@cache
def computed(name: str) -> Any:
    """Drawing changes nothing that was computed, so that one computation serves every test."""
    return EVERY[name]()


def sketch(display: Any) -> None:
    """Compute the data and draw, without looking at the result."""
    json.dumps(display.data, allow_nan=False)
    figure = mpl.figure.Figure(figsize=(6, 6))
    display.plot(figure.add_subplot())
    figure.draw_without_rendering()


# ------------------------------------------------------------------------------------------------------ compute, draw


def test_every_display_is_drawn_here():
    assert {type(computed(name)).__name__ for name in ONE_OF_EACH} == set(displays.__all__)


def test_computing_does_not_import_matplotlib():
    code = """
import sys
from calibrant.displays import *
from calibrant.maps import IdentityMap, SimplexBinsMap
ReliabilityDisplay.from_predictions([0.2, 0.7], [0, 1]).data
ValidityDisplay.from_predictions([0.2, 0.7], [0, 1]).data
MapDisplay.from_map(IdentityMap()).data, PlanDisplay.from_sizes([1000]).data
p, y = [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]], "abc"
four = SimplexBinsMap(tuple(y), "grid", 1, [], [], [1, 0, 0], "probability")
TopLabelDisplay.from_predictions(p, list(y)).zoom(0.7).data, ClasswiseDisplay.from_predictions(p, list(y)).data
MulticlassErrorDisplay.from_predictions(p, list(y)).data, SimplexDisplay.from_predictions(p, list(y), binning=four).data
CanonicalValidityDisplay.from_predictions(p, list(y), binning=four).data
assert not any(name.partition(".")[0] == "matplotlib" for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_matplotlib_is_one_sentence_with_the_fix(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "calibrant\[plot\]"'):
        computed(BASE[0]).plot()


@pytest.mark.parametrize("name", BASE)
def test_settings_of_the_user_stay_as_they_are(name):
    before = dict(mpl.rcParams)
    sketch(computed(name))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_lines_and_points_stand_out_on_a_dark_background(name):
    with plt.style.context("dark_background"):
        computed(name).plot()
        for line in (each for ax in plt.gcf().axes for each in ax.lines):
            part = np.array(mpl.colors.to_rgb(line.get_color()))
            light = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
            assert (light + 0.05) / 0.05 > 3.0, f"{line.get_label()}: contrast as WCAG 2.1 defines it"


@pytest.mark.parametrize("name", BASE)
def test_a_figure_without_pyplot_will_do(name):
    display, ax = computed(name), mpl.figure.Figure(figsize=(6, 6)).add_axes((0.15, 0.1, 0.8, 0.7))
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_given_axes_are_the_only_ones_touched(name):
    display = computed(name)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 6))
    right.plot([0, 1], [2, 3])
    before = (right.get_position().bounds, right.get_xlim(), right.get_ylim(), len(right.get_children()))
    display.plot(left)
    figure.draw_without_rendering()
    assert (right.get_position().bounds, right.get_xlim(), right.get_ylim(), len(right.get_children())) == before
    assert plt.get_fignums() == [figure.number]
    own = [ax for ax in figure.axes if ax not in (left, right)]
    panels = [getattr(display, name) for name in ("error_ax_", "counts_ax_") if hasattr(display, name)]
    assert own == (panels or list(getattr(display, "panels_", ())))


# ----------------------------------------------------------------------------------------------------------- legible


def texts(figure: Any) -> list[tuple[str, Any]]:
    """Every text in the picture with its place; ticks outside the limits are not drawn."""
    found = []
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            found.append(axis.label)
        found += [ax.title, ax._left_title, *ax.texts]
        found += ax.get_legend().get_texts() if ax.get_legend() else []
    shown = [text for text in found if text.get_visible() and text.get_text()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


@pytest.mark.parametrize("name", EVERY)
def test_a_picture_is_legible(name, subtests):
    picture = computed(name).plot()
    figure = picture.figure_
    figure.draw_without_rendering()
    with subtests.test("data survive JSON"):
        assert json.loads(json.dumps(picture.data, allow_nan=False)) == picture.data
    with subtests.test("no text leaves the figure"):
        edge = figure.bbox.padded(1.0)
        outside = [text for text, box in texts(figure) if (box.min < edge.min).any() or (box.max > edge.max).any()]
        assert picture.ax_.figure is figure
        assert outside == []
    with subtests.test("no text covers another"):
        pairs = combinations(texts(figure), 2)
        assert [(one, other) for (one, a), (other, b) in pairs if a.padded(-0.5).overlaps(b.padded(-0.5))] == []
    with subtests.test("the legend covers little of the curve"):
        legend = picture.ax_.get_legend()
        assert (legend is None) == (type(picture).__name__ in WITHOUT_LEGEND), "see WITHOUT_LEGEND"
        for line in picture.ax_.get_lines() if legend is not None else ():
            points, box = line.get_transform().transform(line.get_xydata()), legend.get_window_extent()
            inside = (points > [box.x0, box.y0]) & (points < [box.x1, box.y1])
            assert inside.all(axis=1).mean() <= 0.02
    with subtests.test("a notebook shows it"):
        assert picture._repr_html_() is None  # on an open figure, which the notebook shows itself
        plt.close(figure)
        if name in ONE_OF_EACH:
            assert picture._repr_html_().startswith('<img src="data:image/png;base64,')
        assert repr(picture).startswith(f"<{type(picture).__name__}: ")
    with subtests.test("words above the picture stay on a canvas without a layout"):
        bare = mpl.figure.Figure()
        ax = picture.plot(bare.add_subplot()).ax_
        words = [ax._left_title, *(text for text in ax.texts if len(text.get_text()) > 40)]
        beyond = [text.get_text() for text in words if (text.get_window_extent().max > bare.bbox.max).any()]
        assert beyond == []


# -------------------------------------------------------------------------------------------------------------- rows


def numbers(value: Any) -> Any:
    """Data as nested lists of floats, for comparison within rounding."""
    return json.loads(json.dumps(value), parse_int=float)


def assert_alike(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key], tolerance)
    elif isinstance(one, list) and one and not isinstance(one[0], float):
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b, tolerance)
    elif isinstance(one, list | float):
        np.testing.assert_allclose(one, other, atol=tolerance)
    else:
        assert one == other


def without_noise(data: Any) -> Any:
    """Data without what depends on how much the rows are worth."""
    if isinstance(data, dict):
        noisy = ("low", "high", "outside", "tied")
        return {key: without_noise(value) for key, value in data.items() if key not in noisy}
    return [without_noise(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize("name", OF_ROWS)
def test_only_what_the_rows_say_matters(name, subtests):
    build, rng = OF_ROWS[name], np.random.default_rng(3)
    scores, y = draw()
    whole = numbers(build(scores, y).data)
    with subtests.test("the order of rows does not matter"):
        order = rng.permutation(len(y))
        assert_alike(whole, numbers(build(scores[order], y[order]).data))
    with subtests.test("a merged tally shows what the whole shows"):
        halves = Tally.from_arrays(scores[:150], y[:150]) + Tally.from_arrays(scores[150:], y[150:])
        assert_alike(whole, numbers(build(halves).data))
    scores, y = draw(60)
    times = np.random.default_rng(4).integers(0, 4, 60)
    repeated = numbers(build(np.repeat(scores, times), np.repeat(y, times)).data)
    with subtests.test("counts are repetition"):
        counted = Tally.from_arrays(scores, y, times, weight_type="frequency")
        assert_alike(numbers(build(counted).data), repeated)
    if name not in ("reliability, log-odds bins", "reliability, spline"):
        # Bins even in log-odds and knots of a spline depend on the rows that the weights are worth: they may differ.
        with subtests.test("whole weights give the curve of repeated rows"):
            weighted = numbers(build(scores, y, times.astype(float)).data)
            assert_alike(without_noise(weighted), without_noise(repeated))


EDGES = {
    "one row": ([0.3], [1]),
    "two rows": ([0.3, 0.6], [0, 1]),
    "no events": ([0.1, 0.2, 0.3] * 20, [0] * 60),
    "only events": ([0.1, 0.2, 0.3] * 20, [1] * 60),
    "one score": ([0.25] * 40, [0, 0, 0, 1] * 10),
    "zeros and ones": ([0.0, 1.0] * 30, [0, 1] * 30),
    "wrong zeros and ones": ([0.0, 0.5, 1.0] * 30, [1, 1, 0] * 30),
    "only zeros": ([0.0] * 30, [0] * 30),
    "tiny scores": ([1e-300, 1e-12, 1e-9, 1e-6] * 50, [0] * 199 + [1]),
}


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.filterwarnings("ignore")
def test_edges_are_drawn(name, subtests):
    build = OF_ROWS[name]
    for edge, rows in EDGES.items():
        with subtests.test(edge):
            sketch(build(*rows))
    scores, y = draw(50)
    with subtests.test("huge and tiny weights"):
        sketch(build(scores, y, 10.0 ** np.linspace(-12, 12, 50)))
    with subtests.test("a tally on a grid"):
        sketch(build(Tally.from_arrays(scores, y, grid=Grid())))
    with subtests.test("a table with mean scores"):
        means = [0.1, np.nan, 0.5, 0.9]
        sketch(build(Tally.from_table([50, 0, 30, 20], [5, 0, 15, 18], edges=[0.2, 0.4, 0.7], scores=means)))


# ----------------------------------------------------------------------------------------------------- rows of classes


CHANCE = ("low", "high", "delta_chance", "null", "null_high", "gray", "shown", "tied", "outside", "error_by_chance")


def without_chance(data: Any) -> Any:
    """Data without what depends on how much the rows are worth, and without the rows drawn one by one."""
    if isinstance(data, dict):
        kept = {key: value for key, value in data.items() if key not in CHANCE and not key.startswith("point")}
        return {key: without_chance(value) for key, value in kept.items() if not key.endswith("by_chance")}
    return [without_chance(value) for value in data] if isinstance(data, list) else data


def by_class(data: dict[str, Any]) -> dict[str, Any]:
    """Panels by name: which comes first depends on chance."""
    return {**data, "panels": {one["class"]: one for one in data["panels"]}} if "panels" in data else data


@pytest.mark.parametrize("name", OF_CLASS_ROWS)
def test_only_what_the_class_rows_say_matters(name, subtests):
    build = OF_CLASS_ROWS[name]
    p, y = draw_classes(60)
    with subtests.test("the order of rows does not matter"):
        order = np.random.default_rng(3).permutation(len(y))
        assert_alike(numbers(build(p, y).data), numbers(build(p[order], y[order]).data))
    with subtests.test("whole weights are repetition"):
        times = np.random.default_rng(4).integers(0, 4, 60)
        repeated = build(np.repeat(p, times, axis=0), np.repeat(y, times)).data
        weighted = build(p, y, times.astype(float)).data
        assert_alike(numbers(without_chance(by_class(weighted))), numbers(without_chance(by_class(repeated))))


CLASS_EDGES = {
    "one row": ([[0.7, 0.2, 0.1]], ["a"]),
    "two rows": ([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], ["a", "b"]),
    "one class alone": ([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]] * 20, ["a"] * 40),
    "always right": ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 20, list("abc") * 20),
    "always wrong": ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 20, list("bca") * 20),
    "ties": ([[1 / 3, 1 / 3, 1 / 3]] * 30, list("abc") * 10),
    "logits": ([[900.0, -900.0, 0.0], [0.0, 0.0, 1e-3]] * 10, list("ab") * 10),
}


@pytest.mark.parametrize("name", OF_CLASS_ROWS)
def test_edges_of_class_rows_are_drawn(name, subtests):
    build = OF_CLASS_ROWS[name]
    for edge, rows in CLASS_EDGES.items():
        with subtests.test(edge):
            sketch(build(*rows, classes="abc"))
    p, y = draw_classes(50)
    with subtests.test("float32"):
        sketch(build(p.astype(np.float32), y))
    with subtests.test("logits of a matrix"):
        sketch(build(np.log(p), y, score_type="logit"))
    with subtests.test("huge and tiny weights"):
        sketch(build(p, y, 10.0 ** np.linspace(-12, 12, 50)))
