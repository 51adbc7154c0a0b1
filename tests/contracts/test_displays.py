"""What every display keeps, whatever it shows: plain data, the user's settings, text that can be read."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from calibrant import (
    BetaScaling,
    Certificate,
    Grid,
    HistogramBinning,
    IsotonicCalibrator,
    PlattScaling,
    Tally,
)
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.displays import (
    CanonicalValidityDisplay,
    ClassErrorDisplay,
    ClassWiseDisplay,
    MapDisplay,
    PlanDisplay,
    ReliabilityDisplay,
    SimplexDisplay,
    TopLabelDisplay,
    ValidityDisplay,
)
from calibrant.maps import LogitAffineMap
from calibrant.metrics.binary.validity import validity_curve

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
    "class-wise": ClassWiseDisplay.from_predictions,
    "class-wise, bins": lambda *a, **k: ClassWiseDisplay.from_predictions(*a, curve="bins", **k),
    "class errors": ClassErrorDisplay.from_predictions,
    "class errors, after": lambda p, *a, **k: ClassErrorDisplay.from_predictions(
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
    return calibrator.fit(np.log(scores / (1 - scores)), y, kind="logit")


def with_after(scores: np.ndarray, y: np.ndarray) -> ReliabilityDisplay:
    return ReliabilityDisplay.from_predictions(scores, y, after=IsotonicCalibrator().fit(scores, y).transform(scores))


EVERY: dict[str, Callable[[], Any]] = {
    **{name: lambda build=build: build(*draw()) for name, build in OF_ROWS.items()},
    "reliability, rare": lambda: ReliabilityDisplay.from_predictions(*rare()),
    "reliability, rare bins": lambda: ReliabilityDisplay.from_predictions(*rare(), curve="bins"),
    "validity, rare": lambda: ValidityDisplay.from_predictions(*rare(), strategy="mass"),
    "reliability, heaped": lambda: ReliabilityDisplay.from_predictions(draw(80)[0].round(1), draw(80)[1]),
    "reliability, overlay": lambda: with_after(*draw()),
    "reliability, rare overlay": lambda: with_after(*rare()),
    "validity, certified": lambda: ValidityDisplay.from_predictions(*draw(), certificate=binned()[1]),
    "validity, marginal": lambda: ValidityDisplay.from_predictions(
        *draw(), certificate=binned()[0].certificate(mode="marginal")
    ),
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
    "class-wise, many": lambda: ClassWiseDisplay.from_predictions(*draw_classes(3_000, 40)),
    "class-wise, log-odds": lambda: ClassWiseDisplay.from_predictions(*draw_classes(), axes="log-odds"),
    "class-wise, two": lambda: ClassWiseDisplay.from_predictions(*draw_classes(300, 2)),
    "class errors, many": lambda: ClassErrorDisplay.from_predictions(*draw_classes(3_000, 40)),
    "plan": PlanDisplay.from_sizes,
    "plan, target": lambda: PlanDisplay.from_sizes(epsilon=0.1),
    "plan, one size": lambda: PlanDisplay.from_sizes([300], scheme="ums", mode="marginal", max_bins=12),
    "plan, close sizes": lambda: PlanDisplay.from_sizes([1_000, 1_050, 1_100, 1_150]),
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(params=EVERY, name="display")
def _display(request):
    return computed(request.param)


@cache
def computed(name: str) -> Any:
    """Drawing changes nothing that was computed, so that one computation serves every test."""
    return EVERY[name]()


@pytest.fixture(params=OF_CLASS_ROWS, name="build_classes")
def _build_classes(request):
    return OF_CLASS_ROWS[request.param]


@pytest.fixture(params=OF_ROWS, name="build")
def _build(request):
    return OF_ROWS[request.param]


@cache
def drawn(name: str) -> Any:
    """The display drawn on a figure of its own, once for all tests that only look."""
    display = EVERY[name]().plot()
    display.figure_.draw_without_rendering()
    return display


@pytest.fixture(params=EVERY, name="picture")
def _picture(request):
    return drawn(request.param)


def sketch(display: Any) -> None:
    """Draw without looking at the result."""
    figure = mpl.figure.Figure(figsize=(6, 6))
    display.plot(figure.add_subplot())
    figure.draw_without_rendering()


def quietly(build: Build, *args: Any, **options: Any) -> Any:
    """The display of rows of one class, about which Calibrant warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(*args, **options)


# ------------------------------------------------------------------------------------------------------ compute, draw


def test_data_is_plain_and_survives_json(display):
    assert json.loads(json.dumps(display.data, allow_nan=False)) == display.data


def test_plot_leaves_its_axes_and_figure_on_the_display(picture):
    assert picture.ax_.figure is picture.figure_


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
TopLabelDisplay.from_predictions(p, list(y)).zoom(0.7).data, ClassWiseDisplay.from_predictions(p, list(y)).data
ClassErrorDisplay.from_predictions(p, list(y)).data, SimplexDisplay.from_predictions(p, list(y), binning=four).data
CanonicalValidityDisplay.from_predictions(p, list(y), binning=four).data
assert not any(name.partition(".")[0] == "matplotlib" for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_matplotlib_is_one_sentence_with_the_fix(display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "calibrant\[plot\]"'):
        display.plot()


def test_words_above_the_picture_stay_on_a_canvas_without_a_layout(display):
    figure = mpl.figure.Figure()
    display.plot(figure.add_subplot())
    figure.draw_without_rendering()
    words = [display.ax_._left_title, *(text for text in display.ax_.texts if len(text.get_text()) > 40)]
    for box in (text.get_window_extent() for text in words):
        assert box.y1 <= figure.bbox.y1
        assert box.x1 <= figure.bbox.x1


# --------------------------------------------------------------------------------------------------------- the user's


def test_settings_of_the_user_stay_as_they_are(display):
    before = dict(mpl.rcParams)
    sketch(display)
    assert dict(mpl.rcParams) == before


def test_given_axes_are_the_only_ones_touched(display):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 6))
    right.plot([0, 1], [2, 3])
    before = (right.get_position().bounds, right.get_xlim(), right.get_ylim(), len(right.get_children()))
    display.plot(left)
    figure.draw_without_rendering()
    assert (right.get_position().bounds, right.get_xlim(), right.get_ylim(), len(right.get_children())) == before
    assert plt.get_fignums() == [figure.number]
    own = [ax for ax in figure.axes if ax not in (left, right)]
    assert own == ([display.counts_ax_] if hasattr(display, "counts_ax_") else list(getattr(display, "panels_", ())))


def test_a_figure_without_pyplot_will_do(display):
    ax = mpl.figure.Figure(figsize=(6, 6)).add_axes((0.15, 0.1, 0.8, 0.7))
    display.plot(ax)
    assert display.ax_ is ax
    assert plt.get_fignums() == []


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


def test_no_text_covers_another_or_leaves_the_figure(picture):
    figure = picture.figure_
    found, edge = texts(figure), figure.bbox.padded(1.0)
    for text, box in found:
        assert (edge.min <= box.min).all(), text
        assert (box.max <= edge.max).all(), text
    for (one, a), (other, b) in combinations(found, 2):
        assert not a.padded(-0.5).overlaps(b.padded(-0.5)), f"{one!r} and {other!r}"


def test_the_legend_covers_little_of_the_curve(picture):
    legend = picture.ax_.get_legend()
    if legend is None:
        return
    box = legend.get_window_extent()
    for line in picture.ax_.get_lines():
        points = line.get_transform().transform(line.get_xydata())
        inside = (points > [box.x0, box.y0]) & (points < [box.x1, box.y1])
        assert inside.all(axis=1).mean() <= 0.1


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


def test_the_order_of_rows_does_not_matter(build):
    scores, y = draw()
    order = np.random.default_rng(3).permutation(len(y))
    assert_alike(numbers(build(scores, y).data), numbers(build(scores[order], y[order]).data))


def test_counts_are_repetition(build):
    scores, y = draw(60)
    times = np.random.default_rng(4).integers(0, 4, 60)
    counted = Tally.from_arrays(scores, y, times, weights="counts")
    assert_alike(numbers(build(counted).data), numbers(build(np.repeat(scores, times), np.repeat(y, times)).data))


def without_noise(data: Any) -> Any:
    """Data without what depends on how much the rows are worth."""
    if isinstance(data, dict):
        noisy = ("low", "high", "outside", "heaped")
        return {key: without_noise(value) for key, value in data.items() if key not in noisy}
    return [without_noise(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize("name", sorted(OF_ROWS.keys() - {"reliability, log-odds bins"}))
def test_whole_weights_give_the_curve_of_repeated_rows(name):
    # Bins even in log-odds begin where an event is due among the rows that the weights are worth, so they may differ.
    build = OF_ROWS[name]
    scores, y = draw(60)
    times = np.random.default_rng(4).integers(0, 4, 60).astype(float)
    repeated = build(np.repeat(scores, times.astype(int)), np.repeat(y, times.astype(int)))
    assert_alike(without_noise(numbers(build(scores, y, times).data)), without_noise(numbers(repeated.data)))


def test_a_merged_tally_shows_what_the_whole_shows(build):
    scores, y = draw()
    halves = Tally.from_arrays(scores[:150], y[:150]) + Tally.from_arrays(scores[150:], y[150:])
    assert_alike(numbers(build(scores, y).data), numbers(build(halves).data))


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


@pytest.mark.parametrize("rows", EDGES.values(), ids=EDGES)
def test_edges_are_drawn(build, rows):
    display = quietly(build, *rows)
    json.dumps(display.data, allow_nan=False)
    sketch(display)


def test_huge_and_tiny_weights_are_drawn(build):
    scores, y = draw(50)
    display = build(scores, y, 10.0 ** np.linspace(-12, 12, 50))
    json.dumps(display.data, allow_nan=False)
    sketch(display)


def test_gridded_tallies_are_drawn(build):
    scores, y = draw()
    sketch(build(Tally.from_arrays(scores, y, grid=Grid())))


def test_a_table_with_mean_scores_is_drawn(build):
    table = Tally.from_table([50, 0, 30, 20], [5, 0, 15, 18], edges=[0.2, 0.4, 0.7], scores=[0.1, np.nan, 0.5, 0.9])
    sketch(build(table))


# ----------------------------------------------------------------------------------------------------- rows of classes


def test_the_order_of_class_rows_does_not_matter(build_classes):
    p, y = draw_classes()
    order = np.random.default_rng(3).permutation(len(y))
    assert_alike(numbers(build_classes(p, y).data), numbers(build_classes(p[order], y[order]).data))


CHANCE = ("low", "high", "delta_chance", "null", "null_high", "grey", "shown", "heaped", "outside", "error_by_chance")


def without_chance(data: Any) -> Any:
    """Data without what depends on how much the rows are worth, and without the rows drawn one by one."""
    if isinstance(data, dict):
        kept = {key: value for key, value in data.items() if key not in CHANCE and not key.startswith("point")}
        return {key: without_chance(value) for key, value in kept.items() if not key.endswith("by_chance")}
    return [without_chance(value) for value in data] if isinstance(data, list) else data


def by_class(data: dict[str, Any]) -> dict[str, Any]:
    """Panels by name: which comes first depends on chance."""
    return {**data, "panels": {one["class"]: one for one in data["panels"]}} if "panels" in data else data


def test_whole_weights_of_class_rows_are_repetition(build_classes):
    p, y = draw_classes(60)
    times = np.random.default_rng(4).integers(0, 4, 60)
    repeated = build_classes(np.repeat(p, times, axis=0), np.repeat(y, times)).data
    weighted = build_classes(p, y, times.astype(float)).data
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


@pytest.mark.parametrize("rows", CLASS_EDGES.values(), ids=CLASS_EDGES)
def test_edges_of_class_rows_are_drawn(build_classes, rows):
    display = build_classes(*rows, classes="abc")
    json.dumps(display.data, allow_nan=False)
    sketch(display)


def test_float32_and_logits_are_drawn(build_classes):
    p, y = draw_classes(60)
    sketch(build_classes(p.astype(np.float32), y))
    sketch(build_classes(np.log(p), y, kind="logit"))


def test_huge_and_tiny_weights_of_class_rows_are_drawn(build_classes):
    p, y = draw_classes(50)
    display = build_classes(p, y, 10.0 ** np.linspace(-12, 12, 50))
    json.dumps(display.data, allow_nan=False)
    sketch(display)
