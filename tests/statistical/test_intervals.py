"""Every interval, and every side that is named, where predictions are far off.

The settings and statements are those of ``benchmarks/intervals.py``, which also compares widths.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks import intervals
from scipy import stats
from scipy.special import expit, logit

from calibrant import check, compare
from calibrant.live.monitor import Monitor
from calibrant.reporting.marks import significance
from calibrant.selection.original_model import OriginalTest
from calibrant.tallies import Tally
from calibrant.verdict.decision import Direction

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def test_every_interval_covers_and_no_false_side_is_named(
    subtests: pytest.Subtests, full_size: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 93 %; at most 2 %, or 7.5 % for tests of equal clusters. Old widths are compared at full size.

    If each of the 177 intervals covers in 95 % of samples, 24 samples of each fail by chance with one seed in 45. A
    setting that fails at this size is run again with other samples, ten times as many, and these decide.
    """
    if not full_size:
        monkeypatch.setattr(intervals, "BEFORE", 0)
    for place, (_, settings) in enumerate(intervals.STATEMENTS):
        for at, setting in enumerate(settings):
            with subtests.test(statement=place, setting=setting.name):
                found = intervals.run(place, at, 7, 2_000 if full_size else 24)
                if not full_size and any(each.failure for each in found):
                    found = intervals.run(place, at, 8, 240)
                assert found
                assert [str(each) for each in found if each.failure] == []


SIDE = re.compile(r"too (low|high)\b(?! in the)", re.IGNORECASE)


def confident(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As many events as predicted, and all predictions far too extreme."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random(n) < 0.5, 0.02, 0.98)
    return p, (rng.random(n) < np.where(p < 0.5, 0.3, 0.7)).astype(int)


def test_no_door_names_a_side_that_is_not_established() -> None:
    """The number of events differs significantly from a calibrated model's, and only since labels vary more."""
    p, y = next((p, y) for p, y in (confident(2_000, seed) for seed in range(50)) if abs(y.sum() - p.sum()) > 35)
    part, day, rng = np.arange(len(p)) % 2, np.arange(len(p)) // 500, np.random.default_rng(0)
    features = {"age": rng.random(len(p)), "income": rng.random(len(p))}
    verdict = check(p, y, by={"part": part}, time=day, discover=features, tolerance=(3.0, 3.0))
    assert verdict.against.by_intercept
    assert not verdict.against.intercept_side
    assert not {Direction.TOO_LOW, Direction.TOO_HIGH} & set(verdict.deviations)
    off = [each for each in (*verdict.segments, *verdict.periods) if each.off]
    assert off
    assert not any(each.side for each in off)
    data = verdict.to_dict()
    assert not any(SIDE.search(str(significance(each))) for each in (*data["segments"], *data["periods"]))
    test = OriginalTest.of(Tally.from_arrays(p, y))
    assert test.level < 1e-3
    assert min(test.sides[0], 1.0) > 0.02
    monitor = Monitor()
    monitor.update(p, y)
    assert monitor.advice.code != "level-moved"
    assert {hint.code for hint in verdict.hints}.isdisjoint({"mean-above-base-rate", "mean-below-base-rate"})
    changed = compare(p, expit(0.5 * logit(p)), y)
    assert [SIDE.search(str(each)) for each in (verdict, changed, test)] == [None] * 3


def test_no_class_is_named_too_low_or_too_high() -> None:
    """Each class is as frequent as predicted; the test of one alone rejects in most samples."""
    rng = np.random.default_rng(3)
    named = rejected = 0
    for _ in range(12):
        top = rng.integers(0, 3, 1_500)
        p = np.full((1_500, 3), 0.01)
        p[np.arange(1_500), top] = 0.98
        y = np.where(rng.random(1_500) < 0.4, top, rng.integers(0, 3, 1_500))
        verdict = check(p, y, notion="class-wise", tolerance=(3.0, 3.0))
        rejected += any(each.against.by_intercept for each in verdict.classes.values())
        named += any(each.against.by_intercept and each.against.intercept_side for each in verdict.classes.values())
    assert rejected >= 6
    assert named <= 2


def test_a_segment_of_no_rows_like_another_has_an_interval() -> None:
    """Edges: all or no events, one row, predictions of 0 and 1; a hand-worked case for three events in ten rows."""
    scores = np.array([0.5] * 10 + [0.2] * 3 + [0.9] * 3 + [0.0, 1.0])
    labels = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 0] + [0] * 3 + [1] * 3 + [0, 1])
    names = np.repeat(["ten", "none", "all", "zero", "one"], [10, 3, 3, 1, 1])
    found = {each.value: (each.ratio_low, each.ratio_high) for each in check(scores, labels, by={"s": names}).segments}
    # Clopper and Pearson's interval of 3 of 10 is 0.0667 to 0.6525, and the prediction is a half.
    assert found["ten"] == pytest.approx((0.1335, 1.3049), abs=1e-4)
    assert found["none"] == pytest.approx((0.0, (1.0 - 0.025 ** (1 / 3)) / 0.2))
    assert found["all"] == pytest.approx((0.025 ** (1 / 3) / 0.9, 1.0 / 0.9))
    assert found["zero"] == (0.0, np.inf)
    assert found["one"] == pytest.approx((0.025, 1.0))


@pytest.mark.parametrize("few", [0.05, 0.2, 1.0])
def test_the_ratio_of_a_weighted_segment_is_covered(few: float) -> None:
    """Weights of 100 and 10 for a few rows, and log-normal weights; a sum of weights is no number of rows."""
    hits, runs = 0, 200
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        scores = rng.uniform(0.02, 0.3, 400)
        heavy = np.exp(1.2 * rng.normal(size=400)) if few == 1.0 else np.where(rng.random(400) < few, 5.0 / few, 1.0)
        verdict = check(scores, rng.random(400) < scores, heavy, by=np.repeat("all", 400))
        hits += verdict.segments[0].ratio_low <= 1.0 <= verdict.segments[0].ratio_high
    assert stats.binomtest(hits, runs, 0.93, alternative="less").pvalue > 1e-3


def test_a_segment_without_events_in_groups_is_not_judged() -> None:
    """Outcomes are shared within groups of 50 rows: without an event their variance is unknown."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(60), 50)
    scores = np.repeat(rng.uniform(0.02, 0.08, 60), 50)
    labels = np.isin(groups, [20, 30, 40]).astype(int)
    segments = {
        each.value: each for each in check(scores, labels, groups=groups, by=np.where(groups < 12, "a", "b")).segments
    }
    assert (segments["a"].judged, segments["a"].off, segments["a"].side) == (False, False, 0)
    assert segments["a"].ratio_high > 4.0
    assert segments["b"].judged
