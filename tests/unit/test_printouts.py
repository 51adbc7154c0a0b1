"""What is printed: numbers without false digits, one term for one thing, levels stated."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from tests.worlds import calibrated, classes, shifted

import calibrant as cb
from calibrant import maps, metrics, online
from calibrant.messages import InputError, count_text

ROOT = Path(__file__).parents[2]


def test_the_expected_range_states_its_level() -> None:
    assert re.search(r"; 95 % expected range \d+ to \d+ \(", str(cb.check(*calibrated(500))))


@pytest.mark.parametrize(
    ("tolerance", "said"),
    [((0.2, 0.2), "; limit -0.2 to +0.2"), ((0.3, 0.3), "; limit -0.3 to +0.3"), (0.1, "limit 1.11")],
)
def test_a_limit_is_printed_as_it_was_passed(tolerance: float | tuple[float, float], said: str) -> None:
    assert said in str(cb.check(*calibrated(500), tolerance=tolerance))


def test_no_number_is_minus_zero() -> None:
    """As many events as predicted, to the second digit of the log-odds: the estimate is -0.0005."""
    text = str(cb.check(np.full(4000, 0.5002), [0, 1] * 2000))
    assert "log-odds +0.00" in text
    assert "-0.00" not in text


def test_an_unchanged_ranking_is_called_unchanged() -> None:
    scores, y = shifted(800, level=0.5)
    change = cb.compare(scores, scores**0.5, y)
    assert re.search(r"AUC: 0\.\d{4}, unchanged\n", str(change))


def test_thresholds_that_nobody_crosses() -> None:
    scores = np.array([0.1, 0.2, 0.6, 0.7])
    same = cb.compare(scores, scores, [0, 1, 1, 0], thresholds=[0.5])
    assert "at 0.5: no rows change sides; 2 at or above it before, 2 after" in str(same)
    up = cb.compare(scores, [0.1, 0.5, 0.6, 0.7], [0, 1, 1, 0], thresholds=[0.5])
    assert "at 0.5: 1 rows move up (100.0 % events), none move down; 2 at" in str(up)
    down = cb.compare([0.1, 0.5, 0.6, 0.7], scores, [0, 1, 1, 0], thresholds=[0.5])
    assert "at 0.5: no rows move up, 1 rows move down (100.0 % events); 3 at" in str(down)


def test_sums_of_weights_have_four_digits() -> None:
    """The sums were printed as 6,285.48739356 and 1,347.14664902."""
    scores, y = calibrated(600)
    weights = np.random.default_rng(0).gamma(2.0, size=600)
    text = str(cb.PlattScaling().fit(scores, y, sample_weight=weights))
    assert not re.search(r"\d\.\d{5,}", text.splitlines()[0])
    assert count_text(float(weights.sum())) in text


def test_prints_have_no_raw_map() -> None:
    scores, y = shifted(800, level=0.4, slope=0.7)
    for made in (cb.SplineCalibrator(), cb.PlattScaling(), cb.BetaScaling(), cb.IsotonicCalibrator()):
        fitted = made.fit(scores, y)
        for text in (str(fitted), str(fitted.calibration_)):
            assert "Map(" not in text
            assert not re.search(r"\d\.\d{9,}", text)


@pytest.mark.parametrize(
    ("map_", "words"),
    [
        (maps.IdentityMap(), "original scores, unchanged"),
        (maps.StepMap([0.5], [0.1, 0.8]), "2 steps, values from 0.1 to 0.8"),
        (maps.StepMap([], [0.25]), "1 step, value 0.25"),
        (maps.PiecewiseLinearMap([0.0, 1.0], [0.2, 0.6]), "2 knots, values from 0.2 to 0.6"),
        (maps.LogitAffineMap(1 / 3, -0.5), "slope 0.3333, intercept -0.5 on the log-odds"),
        (maps.BetaMap(1.0, 1 / 3, 0.0), "beta map: a 1, b 0.3333, c 0"),
    ],
)
def test_a_map_in_words(map_: maps.Map, words: str) -> None:
    assert map_.words == words


def test_segments_without_evidence_state_their_rows() -> None:
    scores, y = calibrated(800)
    cal = cb.SegmentCalibrator(cb.PlattScaling()).fit(scores, y, np.repeat(["a", "b"], [300, 500]))
    assert "no evidence that the 2 segments of 300 to 500 rows differ: all use the global map" in str(cal)
    assert "No certificate: whether segments differ was tested on these rows" in str(cal)


def test_a_taxonomy_is_printed_by_its_size() -> None:
    scores, y = classes(400, 4)
    parents = {0: "g", 1: "g", 2: "h", 3: "h", "g": "all", "h": "all"}
    text = str(cb.multiclass.PathCalibrator(parents).fit(scores, y, classes=range(4)))
    assert text.startswith("PathCalibrator(taxonomy=Taxonomy(6 nodes beneath 'all', 4 leaves, 2 levels)) fitted to 400")
    assert text.count("Taxonomy(") == 1


def test_an_online_certificate_is_a_list() -> None:
    lines = str(online.Foster99().certificate(10_000)).splitlines()
    assert lines[0].endswith("on average over its own random draws.")
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["A single run may exceed it.", "Basis", "Assumes"]
    assert all(line.startswith("    - ") for line in lines[4:])


def test_a_radius_that_is_refused_names_one_that_is_not() -> None:
    with pytest.raises(InputError, match=r"pass 1 to 2"):
        online.OnlinePlatt(radius=30.0, certified=True)
    assert "radius=1.5, certified=True" in str(online.OnlinePlatt().certificate(1000))
    assert "such as 1.0 or 1.5" in str(online.OnlinePlatt(radius=3.0, certified=True).certificate(1000))


def test_intervals_have_one_name() -> None:
    assert "95 % CI" in str(metrics.brier(*calibrated(200)))


def test_accuracy_is_compared_with_what_a_calibrated_model_falls_below() -> None:
    """30 rows of 0.9, 0.95 and 0.99: accuracy has a lower limit, as with several classes."""
    found = metrics.accuracy(np.array([0.9, 0.95, 0.99, 0.2] * 10), np.array([1, 1, 1, 0] * 10))
    assert found.null_low is not None
    draws = np.random.default_rng(0).random((4000, 40)) < np.array([0.9, 0.95, 0.99, 0.8] * 10)
    assert found.null_low == pytest.approx(np.quantile(draws.mean(axis=1), 0.05), abs=0.03)


def test_one_bin_is_singular() -> None:
    assert "800 labels in 1 bin guarantee" in str(cb.plan(epsilon=0.05, n=800))


def test_markdown_shows_a_greater_than_sign() -> None:
    text = cb.report(*calibrated(300)).to_markdown()
    assert "&gt;" not in text
    assert " > " in text


def test_a_document_is_not_saved_under_the_name_of_another_format(tmp_path: Path) -> None:
    fitted = cb.PlattScaling().fit(*calibrated(200))
    with pytest.raises(InputError, match=r"ends in \.pkl, but save writes JSON: pass 'map\.json'"):
        fitted.save(tmp_path / "map.pkl")
    assert not list(tmp_path.iterdir())
    fitted.save(tmp_path / "map")


def test_rounded_scores_are_told_what_to_pass() -> None:
    text = str(cb.check(np.repeat([0.0, 0.3, 0.7, 1.0], 100), np.tile([0, 0, 1, 1], 100)))
    assert "Were the scores rounded? Pass clamp= with half a rounding unit, such as clamp=0.005" in text


def test_segments_as_a_frame() -> None:
    pytest.importorskip("pandas")
    scores, y = calibrated(600)
    verdict = cb.check(scores, y, by={"country": np.repeat(["a", "b", "c"], 200)})
    frame = verdict.segment_frame()
    assert list(frame["value"]) == [each.value for each in verdict.segments]
    assert list(frame["off"]) == [each.off for each in verdict.segments]
    assert frame["rows"].sum() == 600


@pytest.mark.slow
def test_the_page_of_printouts_shows_what_is_printed() -> None:
    """Quick cases only; ``python tools/printouts.py`` writes all of them."""
    spec = importlib.util.spec_from_file_location("printouts", ROOT / "tools" / "printouts.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    shown = {found["name"]: found["text"] for found in tool.BLOCK.finditer(tool.PAGE.read_text(encoding="utf-8"))}
    assert list(shown) == list(tool.CASES)
    for name, case in tool.CASES.items():
        if not name.startswith(("calibrate", "command line")):
            assert shown[name] == tool.printed(case), name
