"""Whatever prints well is shown as HTML in a notebook: escaped, without scripts or addresses, for light and dark."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from enum import Enum
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.guarantees.planning import plan
from calibrant.notebook import page, picture, table_block, text_block

PLAIN = {
    "calibrant.cli": "is shown in a terminal",
    "calibrant.messages": "is part of another text",
    "calibrant.notions": "is a name",
    "calibrant.guarantees.origins": "is part of a certificate",
    "calibrant.verdict.sentences": "is the text of a verdict",
}
"""Modules with classes that print and have no HTML, and why."""


def printed() -> list[type]:
    """Every class of the package that says how it is printed; errors are shown by Python."""
    found = set()
    for module in pkgutil.walk_packages(cb.__path__, "calibrant."):
        if module.name.rpartition(".")[2].startswith("__") or module.name.startswith(tuple(PLAIN)):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue  # needs an optional package
        for _, each in inspect.getmembers(loaded, inspect.isclass):
            if (
                each.__module__ == module.name
                and "__str__" in vars(each)
                and not issubclass(each, BaseException | Enum)
            ):
                found.add(each)
    return sorted(found, key=lambda each: (each.__module__, each.__name__))


def test_every_class_that_prints_is_shown_in_a_notebook():
    pytest.importorskip("river")
    silent = [f"{each.__module__}.{each.__name__}" for each in printed() if not hasattr(each, "_repr_html_")]
    assert silent == []
    assert len(printed()) > 25


@cache
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = rng.random(1_200)
    return scores, (rng.random(1_200) < scores**2).astype(int), np.array(["<b>&", "b"])[rng.integers(0, 2, 1_200)]


SHOWN = {
    "verdict": lambda s, y, g: cb.check(s, y, by={"<i>": g}),
    "calibrator": lambda s, y, g: cb.PlattScaling().fit(s, y),
    "not fitted": lambda s, y, g: cb.PlattScaling(),
    "automatic": lambda s, y, g: cb.calibrate(s, y),
    "candidates": lambda s, y, g: cb.calibrate(s, y).comparison_,
    "segments": lambda s, y, g: cb.SegmentCalibrator(cb.PlattScaling()).fit(s, y, by={"<i>": g}).segments_,
    "compare": lambda s, y, g: cb.compare(s, s**2, y),
    "certificate": lambda s, y, g: cb.HistogramBinning(n_bins=4).fit(s, y).certificate(),
    "no certificate": lambda s, y, g: cb.PlattScaling().fit(s, y).certificate(),
    "certificate check": lambda s, y, g: cb.HistogramBinning(n_bins=4).fit(s, y).certificate().check(s, y),
    "calibration": lambda s, y, g: cb.PlattScaling().fit(s, y).calibration_,
    "grades": lambda s, y, g: cb.credit.grade_table([80, 50], [2, 22], [0.02, 0.1], names=["<A>", "B"]),
    "estimate": lambda s, y, g: cb.metrics.ece(s, y),
    "recalibration": lambda s, y, g: cb.metrics.recalibration(s, y),
    "curve": lambda s, y, g: cb.metrics.calibration_curve(s, y),
    "decision curve": lambda s, y, g: cb.metrics.net_benefit(s, y),
    "plan": lambda s, y, g: plan(n=2_000, n_bins=5),
    "report": lambda s, y, g: cb.report(s, y, title="<Report>"),
}


class Reader(HTMLParser):
    """Collects tags, attributes and text, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.words, self.attributes = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_notebook_shows(name):
    if name == "report":
        pytest.importorskip("matplotlib")
    shown = SHOWN[name](*rows())
    html = shown._repr_html_()
    read = Reader(html)
    assert read.open == []
    assert not {"script", "style", "link", "object", "form"} & set(read.tags)
    assert not any(key.startswith("on") or key in ("href", "id", "class") for key, _ in read.attributes)
    if name == "report":
        assert "<script" not in html
        assert read.tags == ["iframe"]
        assert dict(read.attributes)["title"] == "<Report>"
        return
    # No color of text or background: those of the notebook hold, light or dark.
    assert not re.search(r"(?<!-)color:(?!#(009E73|E69F00|D55E00|8A8A8A|2E9E6B|E6B800|D32F2F))", html)
    assert not re.search(r"background(-color)?:(?!none)", html)
    first = str(shown).splitlines()[0].split()[0]
    assert first in read.words


def test_a_fitted_calibrator_is_shown_in_words_where_scikit_learn_shows_a_diagram():
    s, y, _ = rows()
    fitted = cb.PlattScaling().fit(s, y)
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/html"] == fitted._repr_html_()
    assert "fitted to 1,200" in bundle["text/html"]
    assert "text/html" in cb.PlattScaling()._repr_mimebundle_()


def test_texts_are_escaped():
    for html in (
        text_block("<b> & 'x'\n  <script>alert(1)</script>", "red"),
        table_block(["<a>"], [["<script>"]], title="<t>", notes=["<n>"]),
        page('<p title="x">', 'a "title"'),
        picture(b"png", '"><script>', 100),
    ):
        assert "<script" not in html
        assert Reader(html).open == []


def test_a_display_without_matplotlib_shows_its_caption(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    html = cb.ReliabilityDisplay.from_predictions([0.2, 0.7], [0, 1])._repr_html_()
    assert "2 rows, 1 event" in html
    assert "calibrant[plot]" in html


def test_a_verdict_draws_its_rows():
    plt = pytest.importorskip("matplotlib.pyplot")
    s, y, _ = rows()
    verdict = cb.check(s, y)
    display = verdict.plot(figsize=(4, 5), curve="spline")
    assert display.series[0].rows == 1_200
    assert display.ax_.texts[0].get_text().startswith("MISCALIBRATED")
    assert "tally" not in verdict.to_dict()
    plt.close("all")
