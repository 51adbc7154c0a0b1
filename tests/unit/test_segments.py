"""Maps by segment: shrunken, multicalibrated, separate; their edges, weights, frames and exports."""

from __future__ import annotations

import time
import warnings
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import worlds

from calibrant import (
    AutoCalibrator,
    CalibrantWarning,
    InputError,
    PlattScaling,
    SegmentCalibrator,
    Tally,
    TemperatureScaling,
    calibrate,
    load,
)
from calibrant.arrays import check_rows
from calibrant.arrays.keys import read_keys
from calibrant.engine import apply as engine_apply
from calibrant.fits.segments.counts import ALL_ROWS, SegmentCells
from calibrant.fits.segments.multicalibration import bounded_p, examine, repair, saddlepoint_p
from calibrant.fits.segments.shrinkage import Scales, Segmented, fit_scales, most_probable, shrink
from calibrant.maps import ByGroupMap, ComposeMap, LogitAffineMap
from calibrant.metrics.chance import Chance
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import expit, logit
from calibrant.selection.segments.losses import SplitTies, random_parts, ranking_between, weighted_mean
from calibrant.verdict.segments import scan_segments

NAMES = np.array(["east", "north", "south", "west"])
LEVELS = np.array([0.0, 0.9, 0.0, -0.6])
MODES = ("shrink", "multicalibrate", "separate")


def draw(n: int = 4000, seed: int = 0, levels: np.ndarray = LEVELS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return worlds.segments(dict(zip(NAMES, levels, strict=True)), n, [11, seed])


@cache
def fitted(mode: str = "shrink") -> SegmentCalibrator:
    return SegmentCalibrator(PlattScaling(), segment_method=mode).fit(*draw())


def cells_of(scores: Any, y: Any, *by: Any) -> SegmentCells:
    rows = check_rows(scores, y, score_type="probability")
    return SegmentCells.of(rows, {f"by{place}": read_keys(each) for place, each in enumerate(by)})


# ------------------------------------------------------------------------------------------------------ the mathematics


def test_one_segment_at_one_score_by_hand():
    """4 rows at 1/2 with 1 event, prior deviation 0.7: 4 expit(a) - 1 + a / 0.49 = 0 at a = -0.3301..."""
    data = Segmented.of(np.zeros(1, np.int64), np.zeros(1), np.array([4]), np.array([1]), 1)
    modes = most_probable(data, Scales(0.7, 0.0))
    a = modes.level[0]
    assert 4 * expit(np.array(a)) - 1 + a / 0.49 == pytest.approx(0.0, abs=1e-8)
    curvature = 4 * expit(np.array(a)) * expit(np.array(-a)) + 1 / 0.49
    assert modes.sd[0] == pytest.approx(curvature**-0.5, rel=1e-4)
    gain = -4 * np.log1p(np.exp(a)) + a + 4 * np.log(2.0) - a * a / 0.98
    assert modes.evidence[0] == pytest.approx(gain - 0.5 * np.log(0.49 * curvature), abs=1e-6)


def test_every_segment_gets_what_it_gets_alone():
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, 5, 600), rng.normal(0.0, 2.0, 600)
    y = rng.random(600) < expit(0.4 * x + 0.5 * group)
    scales = Scales(0.5, 0.3)
    together = most_probable(Segmented.of(group, x, np.ones(600), y, 5), scales)
    for code in range(5):
        own = group == code
        alone = most_probable(
            Segmented.of(np.zeros(own.sum(), np.int64), x[own], np.ones(own.sum()), y[own], 1), scales
        )
        assert alone.level[0] == pytest.approx(together.level[code], abs=1e-6)
        assert alone.stretch[0] == pytest.approx(together.stretch[code], abs=1e-6)


def test_the_most_probable_values_have_no_slope_uphill():
    rng = np.random.default_rng(3)
    x = rng.normal(0.0, 2.0, 300)
    y = rng.random(300) < expit(0.3 * x + 1.0)
    data = Segmented.of(np.zeros(300, np.int64), x, np.ones(300), y, 1)
    modes, scales = most_probable(data, Scales(0.4, 0.2)), (0.4, 0.2)

    def height(a: float, d: float) -> float:
        z = x + a + d * (x - data.center[0])
        return float((y * z - np.logaddexp(0, z)).sum() - a * a / (2 * scales[0] ** 2) - d * d / (2 * scales[1] ** 2))

    top = height(modes.level[0], modes.stretch[0])
    for da, dd in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert height(modes.level[0] + da, modes.stretch[0] + dd) < top


def test_a_segment_that_ranks_backwards_becomes_flat_and_not_falling():
    x = np.linspace(-3, 3, 400)
    y = np.random.default_rng(0).random(400) < expit(-2 * x + 1)
    data = Segmented.of(np.zeros(400, np.int64), x, np.ones(400), y, 1)
    modes = most_probable(data, Scales(2.0, 5.0))
    assert modes.slopes[0] == 0.0
    z = modes.intercepts(data)[0]  # the level alone, held by its prior
    assert expit(np.array(z)) == pytest.approx(y.mean(), abs=0.01)


def test_no_difference_gives_scales_of_zero_and_the_map_of_all():
    rng = np.random.default_rng(5)
    x, group = rng.normal(-1, 1.3, 8000), rng.integers(0, 40, 8000)
    y = rng.random(8000) < expit(x)
    scales, modes = fit_scales(Segmented.of(group, x, np.ones(8000), y, 40))
    assert scales == (0.0, 0.0, 0.0)
    assert not modes.level.any()
    assert not modes.stretch.any()
    cal = SegmentCalibrator(PlattScaling()).fit(expit(x), y, group)
    assert cal.map_ == cal.global_.map_
    assert cal.map_.columns == ()
    assert "there is no evidence that the " in str(cal)
    assert (cal.transform([0.2]) == cal.global_.transform([0.2])).all()


def test_more_rows_are_drawn_less():
    """Two segments of one rate, 20 and 2,000 rows: the large one's level goes nearer to its own log-odds."""
    rng = np.random.default_rng(1)
    sizes = np.r_[20, 2000, np.full(30, 300)]
    group = np.repeat(np.arange(32), sizes)
    level = np.r_[1.0, 1.0, rng.normal(0, 0.5, 30)]
    events = np.round(sizes * expit(level)).astype(np.int64)
    data = Segmented.of(np.arange(32), np.zeros(32), sizes, events, 32)
    scales, modes = fit_scales(data)
    assert 0.3 < scales.level < 0.8
    assert 0.0 < modes.level[0] < modes.level[1] - 0.1
    assert modes.level[1] == pytest.approx(1.0, abs=0.05)
    assert modes.sd[0] > 3 * modes.sd[1]
    assert len(group) == sizes.sum()


def test_a_few_segments_far_off_are_not_drawn_to_the_many_that_are_not():
    """196 of 200 segments of 400 rows at 1/2 are right; four have odds of 3, a level of 1.1."""
    rng = np.random.default_rng(1)
    level = np.r_[np.full(4, np.log(3.0)), np.zeros(196)]
    data = Segmented.of(np.arange(200), np.zeros(200), np.full(200, 400), rng.binomial(400, expit(level)), 200)
    scales, modes = fit_scales(data)
    assert scales.level == 0.0
    assert 0.005 < scales.far < 0.05
    assert modes.level[:4] == pytest.approx(np.log(3.0), abs=0.25)
    assert np.abs(modes.level[4:]).max() < 0.15
    cal = SegmentCalibrator(PlattScaling()).fit(
        np.full(80_000, 0.5),
        np.repeat(rng.random(200) < 0, 400) | (rng.random(80_000) < np.repeat(expit(level), 400)),
        np.repeat(np.arange(200), 400),
    )
    assert "far more" in str(cal)


def test_joined_cells_give_the_same_levels():
    rng = np.random.default_rng(2)
    n = 20_000  # above FEW_CELLS, so joined
    x, group = rng.normal(-1, 1.5, n), rng.integers(0, 4, n)
    y = rng.random(n) < expit(0.8 * x + 0.3 * group)
    joined = most_probable(Segmented.of(group, x, np.ones(n), y, 4), Scales(0.5, 0.3))
    parts = [
        most_probable(
            Segmented.of(group[group == g] * 0, x[group == g], np.ones((group == g).sum()), y[group == g], 1),
            Scales(0.5, 0.3),
        )
        for g in range(4)
    ]
    assert joined.level == pytest.approx([part.level[0] for part in parts], abs=2e-3)
    assert joined.stretch == pytest.approx([part.stretch[0] for part in parts], abs=2e-3)


def test_the_tail_of_the_slope_is_that_of_simulation():
    rng = np.random.default_rng(0)
    x = rng.normal(-2.0, 1.5, 60)
    weight, p = x - x.mean(), expit(x)
    drawn = ((rng.random((200_000, 60)) < p) - p) @ weight
    for total in np.quantile(drawn, [0.001, 0.01, 0.97, 0.999]):
        tail = (drawn <= total).mean() if total < 0 else (drawn >= total).mean()
        assert saddlepoint_p(x, weight, np.ones(60), float(total)) == pytest.approx(2 * tail, rel=0.25)


def test_the_largest_possible_slope_has_a_p_value_too():
    """Ten rows at 1/2, all events above and none below: one labelling of 2^10."""
    weight = np.r_[-np.ones(5), np.ones(5)]
    p = saddlepoint_p(np.zeros(10), weight, np.ones(10), 5.0)
    assert 1.99 / 2**10 < p < 0.01


def test_the_bound_is_never_below_the_exact_chance_of_weighted_labels():
    """Twelve rows of unlike weights: all 2^12 labellings, each with its chance."""
    rng = np.random.default_rng(1)
    x, weight = rng.normal(-2.0, 1.0, 12), rng.lognormal(0.0, 1.0, 12)
    p, labels = expit(x), (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    chance = np.where(labels, p, 1 - p).prod(axis=1)
    drawn = ((labels - p) * weight).sum(axis=1)
    for total in np.quantile(drawn, np.linspace(0.01, 0.99, 25)):
        tail = chance[drawn <= total + 1e-12].sum() if total < 0 else chance[drawn >= total - 1e-12].sum()
        assert bounded_p(x, weight, np.ones(12), float(total)) >= min(1.0, 2 * tail) - 1e-9
        assert bounded_p(x, 1e6 * weight, np.ones(12), 1e6 * float(total)) == pytest.approx(
            bounded_p(x, weight, np.ones(12), float(total))
        )
    assert bounded_p(x, weight, np.ones(12), 0.0) == 1.0


@pytest.mark.parametrize("weights", ["unequal", "equal"])
def test_importance_weights_of_rare_events_change_nothing_where_nothing_is_off(weights):
    """200 segments of 20 rows and a tenth of an event: by the normal law one event in a segment proved it off."""
    for seed in range(4):
        rng = np.random.default_rng([71, seed])
        scores = np.clip(rng.beta(2, 400, 4000), 1e-5, 1.0)
        weight = rng.uniform(0.5, 1.5, 4000) if weights == "unequal" else np.full(4000, 1.5)
        rows = check_rows(scores, rng.random(4000) < scores, weight, score_type="probability")
        cells = SegmentCells.of(rows, {"g": read_keys(np.arange(4000) % 200)})
        assert not repair(cells, logit(cells.axis)[cells.place], 0.05).changes


def test_weights_far_apart_do_not_share_a_cell():
    rows = check_rows(np.full(4, 0.3), [0, 1, 0, 1], [1.0, 1.0, 10.0, 10.0], score_type="probability")
    cells = SegmentCells.of(rows, {"g": read_keys(["a"] * 4)})
    assert cells.w2 is not None
    unit = 22 / 202  # effective rows: the sum of the weights over that of their squares
    assert cells.w2 / cells.n == pytest.approx([unit, 10 * unit])


def test_a_segment_that_is_off_is_found_with_importance_weights_too():
    scores, y, by = draw(8000)
    weight = np.random.default_rng(0).lognormal(0.0, 0.5, 8000)
    cal = SegmentCalibrator(PlattScaling(), segment_method="multicalibrate").fit(scores, y, by, weight)
    assert {"north", "west"} <= {change.value for change in cal.changes_}


def test_equal_weights_say_nothing():
    scores, y, by = draw(1500)
    for mode in ("shrink", "multicalibrate"):
        plain, heavy = (
            SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, by, weight)
            for weight in (None, np.full(1500, 20.0))
        )
        told = [[(change.value, change.p_value) for change in each.changes_] for each in (heavy, plain)]
        assert [pair[0] for pair in told[0]] == [pair[0] for pair in told[1]]
        assert [pair[1] for pair in told[0]] == pytest.approx([pair[1] for pair in told[1]], rel=1e-6)
        assert [line.rows for line in heavy.segments_.lines] == [line.rows for line in plain.segments_.lines]


def test_the_level_test_is_that_of_the_verdict():
    scores, y, by = draw(800, levels=np.array([0.0, 0.5, 0.0, 0.0]))
    cells = cells_of(scores, y, by)
    found = examine(cells, logit(scores[np.unique(scores, return_index=True)[1]])[cells.place], "by0")
    tallies = {name: Tally.from_arrays(scores[by == name], y[by == name]) for name in NAMES}
    expected = [Chance.of(tallies[name]).p_value(float(tallies[name].positives)) for name in NAMES]
    close = np.array(expected) < 0.3  # elsewhere the normal law stands in
    assert close.any()
    assert found.level[close] == pytest.approx(np.array(expected)[close], rel=1e-2)
    assert (found.level[close] >= np.array(expected)[close] * (1 - 1e-9)).all()  # joined cells: cautious
    assert len(scan_segments({"by0": tallies})) == 4


def test_only_what_is_off_is_changed_and_said_why():
    scores, y, by = draw(8000)
    cells = cells_of(scores, y, by)
    found = repair(cells, logit(cells.axis)[cells.place], 0.05)
    assert found.settled
    assert {change.value for change in found.changes} == {"north", "west"}
    (column, lines), (whole, level) = found.stages
    assert (column, whole) == ("by0", ALL_ROWS)
    assert level == {0: (1.0, found.common)}
    assert set(lines) == {1, 3}
    north = next(change for change in found.changes if change.value == "north")
    assert north.aspect == "intercept"
    assert north.level == pytest.approx(0.9, abs=0.15)
    assert north.rows == (by == "north").sum()
    assert north.events == y[by == "north"].sum()
    assert "by0 = north: intercept (predicted" in str(north)
    assert "adjusted p < 0.0001" in str(north)


def test_a_wrong_slope_alone_is_found():
    rng = np.random.default_rng(4)
    x, group = rng.normal(0, 1.5, 6000), rng.integers(0, 3, 6000)
    y = rng.random(6000) < expit(np.where(group == 2, 0.5 * x, x))
    cells = cells_of(expit(x), y, group)
    (change,) = repair(cells, logit(cells.axis)[cells.place], 0.05).changes
    assert (change.value, change.aspect) == ("2", "slope")
    assert change.slope == pytest.approx(0.5, abs=0.1)
    own, middle = group == 2, np.average(x[group == 2], weights=(expit(x) * expit(-x))[group == 2])
    above = own & (x > middle)
    assert (change.events, change.events_above) == (y[own].sum(), y[above].sum())
    assert change.predicted_above == pytest.approx(expit(x[above]).sum())
    below = own & ~above
    figures = f"below its center predicted {expit(x[below]).sum():,.0f}, observed {y[below].sum():,}; above it "
    assert f"slope ({figures}{expit(x[above]).sum():,.0f} and {y[above].sum():,}, of {own.sum():,}" in str(change)


def overlapping(seed: int = 0) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Levels by one column and a slope by the other."""
    rng = np.random.default_rng([73, seed])
    scores, a, b = rng.beta(2, 5, 6000), rng.integers(0, 3, 6000), rng.integers(0, 3, 6000)
    x = logit(scores)
    return scores, rng.random(6000) < expit(0.8 * (a - 1) + np.where(b == 1, 1.5, 1.0) * x), {"a": a, "b": b}


@cache
def repaired(seed: int = 0) -> SegmentCalibrator:
    return SegmentCalibrator(PlattScaling(), segment_method="multicalibrate").fit(*overlapping(seed))


def test_changes_of_segments_do_not_leave_the_whole_off(full_size):
    for seed in range(3 if full_size else 2):
        (scores, y, by), cal = overlapping(seed), repaired(seed)
        p = cal.transform(scores, by)
        assert len(cal.changes_) >= 3
        assert abs((y - p).sum()) < 0.02 * np.sqrt((p * (1 - p)).sum())
        assert "All rows: intercept" in str(cal)
        after = cal.map_.apply(scores, {name: read_keys(codes) for name, codes in by.items()})
        assert after == pytest.approx(p)


def test_the_level_of_all_rows_is_found_at_once_on_many_cells():
    rng = np.random.default_rng(0)
    x, group = rng.normal(-1, 1.3, 30_000), rng.integers(0, 30, 30_000)  # more cells than are looked at one by one
    cells = cells_of(expit(x), rng.random(30_000) < expit(x + rng.normal(0, 0.4, 30)[group]), group)
    found = repair(cells, logit(cells.axis)[cells.place], 0.05)
    assert [name for name, _ in found.stages] in (["by0", ALL_ROWS], ["by0", ALL_ROWS, "by0", ALL_ROWS])
    p = expit(cells.after(logit(cells.axis)[cells.place], found.stages))
    assert abs((cells.events - cells.n * p).sum()) <= 0.011 * np.sqrt((cells.n * p * (1 - p)).sum())


def test_the_level_of_all_rows_reaches_every_export():
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    (scores, _, by), cal = overlapping(), repaired()
    assert isinstance(cal.map_.maps[-1], LogitAffineMap)
    rows = duckdb.from_arrow(pa.table({"s": scores[:200], **{name: codes[:200] for name, codes in by.items()}}))
    sql = rows.project(f"{cal.to_sql('s')} AS p").fetchnumpy()["p"]
    found = cal.transform(scores[:200], {name: codes[:200] for name, codes in by.items()})
    assert np.asarray(sql, dtype=float) == pytest.approx(found, abs=1e-12)


def test_the_table_and_the_changes_tell_one_level():
    cal = repaired()
    lines = {(line.column, line.value): line for line in cal.segments_.lines}
    assert {change.column for change in cal.changes_} == {"a", "b"}
    for change in cal.changes_:
        line = lines[change.column, change.value]
        assert (line.level, line.slope) == pytest.approx((change.level, change.slope), abs=1e-3)


def test_a_segment_explained_by_another_columns_change_is_left_alone():
    """All of 'north' is off; 'old' is half of it and half of the rest, and only looks off before north is mended."""
    rng = np.random.default_rng(6)
    n = 20_000
    x, north = rng.normal(-1, 1.3, n), rng.random(n) < 0.3
    old = rng.random(n) < np.where(north, 0.7, 0.3)
    y = rng.random(n) < expit(x + 0.8 * north)
    cells = cells_of(expit(x), y, north, old)
    before = examine(cells, logit(cells.axis)[cells.place], "by1")
    assert (before.p_values < 1e-6).any()
    found = repair(cells, logit(cells.axis)[cells.place], 0.05)
    assert {(change.column, change.value) for change in found.changes} == {("by0", "true")}


def test_both_columns_are_mended_where_both_are_off():
    rng = np.random.default_rng(7)
    n = 20_000
    x, one, two = rng.normal(-1, 1.3, n), rng.integers(0, 5, n), rng.integers(0, 5, n)
    y = rng.random(n) < expit(x + 0.8 * (one == 0) - 0.8 * (two == 4))
    cells = cells_of(expit(x), y, one, two)
    found = repair(cells, logit(cells.axis)[cells.place], 0.05)
    assert found.settled
    assert {("by0", "0"), ("by1", "4")} <= {(change.column, change.value) for change in found.changes}
    names = [name for name, _ in found.stages]
    assert all(a != b for a, b in pairwise(names))


# ---------------------------------------------------------------------------------------------------------- the cells


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.booleans(), st.sampled_from("abc")), min_size=1))
def test_cells_hold_every_row_once(rows):
    scores, y, by = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        cells = cells_of(scores, y, by)
    assert cells.n.sum() == len(rows)
    assert cells.events.sum() == y.sum()
    for place, code, n, events in zip(cells.place, cells.codes["by0"], cells.n, cells.events, strict=True):
        own = (scores == cells.axis[place]) & (by == cells.columns["by0"][code])
        assert (n, events) == (own.sum(), y[own].sum())


def test_parts_add_up_and_leave_the_rest():
    scores, y, by = draw(3000)
    cells = cells_of(scores.round(2), y, by)
    parts = random_parts(cells, 5, 0)
    assert len(parts) == 5
    assert sum(part.total for _, part in parts) == 3000
    for numbers, part in parts:
        seen = cells.without(numbers, part)
        assert seen.n.sum() == 3000 - part.total
        assert seen.events.sum() == y.sum() - part.positives
        assert (seen.n > 0).all()


def test_cells_on_the_grid_are_close_to_exact():
    scores, y, by = draw(100_000)
    assert len(cells_of(scores, y, by).n) < 10_000
    grid = SegmentCalibrator(PlattScaling()).fit(scores, y, by)
    rows = check_rows(scores, y, score_type="probability")
    exact = {}
    x = logit(grid.global_.transform(scores))
    codes = np.searchsorted(NAMES, by)
    modes = most_probable(Segmented.of(codes, x, np.ones(len(x)), rows.labels, 4), grid.scales_["segment"])
    exact = dict(zip(NAMES, modes.level, strict=True))
    for line in grid.segments_.lines:
        assert line.level == pytest.approx(exact[line.value], abs=3e-3)


def test_two_columns_are_counted_together():
    scores, y, by = draw(500)
    other = np.arange(500) % 3
    cells = cells_of(scores.round(1), y, by, other)
    whole = cells.scores()
    assert whole.total == 500
    assert whole.positives == y.sum()
    assert (
        cells.n[(cells.codes["by0"] == 1) & (cells.codes["by1"] == 2)].sum() == ((by == "north") & (other == 2)).sum()
    )


# ------------------------------------------------------------------------------------------------------ the calibrator


def test_segments_that_differ_get_their_own_level(subtests):
    for mode in MODES:
        with subtests.test(mode=mode):
            cal = fitted(mode)
            p = cal.transform(np.full(4, 0.3), NAMES)
            assert np.abs(logit(p) - logit(np.array(0.3)) - LEVELS).max() < 0.35
            assert isinstance(cal.map_, ByGroupMap if mode == "separate" else ComposeMap)
            assert cal.provenance_.method == "SegmentCalibrator"


def test_an_unseen_and_a_missing_segment_get_the_map_of_all(subtests):
    cal, repaired = fitted(), fitted("multicalibrate")  # the second has a level of all rows
    assert "Unseen and missing segments get the global map and the intercept of all rows." in str(repaired)
    expected = repaired.map_.maps[-1].apply(repaired.global_.transform([0.3]))
    for unknown in ["nowhere", None, float("nan")]:
        with subtests.test(unknown=unknown):
            by = np.array([unknown], dtype=object)
            assert cal.transform([0.3], by).tolist() == cal.global_.transform([0.3]).tolist()
            assert repaired.transform([0.3], by) == pytest.approx(expected, abs=1e-15)


def test_an_unseen_source_gets_no_probability():
    cal = fitted("separate")
    assert np.isnan(cal.transform([0.3, 0.3], ["nowhere", None])).all()


def test_a_source_with_too_few_rows_is_uncalibrated_and_said_so():
    scores, y, by = draw()
    by = by.astype(object)
    by[np.flatnonzero(by == "west")[12:]] = "east"  # 12 rows at most stay
    cal = SegmentCalibrator(segment_method="separate").fit(scores, y, by)
    assert cal.uncalibrated_ == ("west",)
    assert np.isnan(cal.transform([0.3], ["west"])).all()
    assert "Uncalibrated" in str(cal)
    assert "west" in str(cal)
    assert np.isnan(next(line for line in cal.segments_.lines if line.value == "west").predicted_after)
    few = slice(0, 30)
    with pytest.raises(InputError, match="no source"):
        SegmentCalibrator(segment_method="separate").fit(scores[few], y[few], np.arange(30) % 6)


def test_each_source_is_fitted_to_its_own_rows_alone():
    (scores, y, by), cal = draw(), fitted("separate")
    for name in NAMES:
        own = by == name
        assert cal.sources_[name].map_ == PlattScaling().fit(scores[own], y[own]).map_
    assert cal.map_.default is None
    assert cal.global_ is None


def test_the_default_calibrator_is_the_automatic_choice():
    scores, y, by = draw(40)
    cal = SegmentCalibrator().fit(scores, y, by)
    assert isinstance(cal.global_, AutoCalibrator)
    assert cal.global_.map_ == AutoCalibrator().fit(scores, y).map_


def test_the_map_is_what_transform_applies():
    cal = fitted("shrink")
    scores, _, by = draw(50, seed=9)
    assert (cal.map_.apply(scores, by) == cal.transform(scores, by)).all()
    line = next(line for line in cal.segments_.lines if line.value == "north")
    x = logit(cal.global_.transform(np.array([0.2, 0.6])))
    z = logit(cal.transform([0.2, 0.6], ["north", "north"]))
    assert np.diff(z) == pytest.approx(line.slope * np.diff(x))


def test_the_table_says_what_happened():
    cal, (_, y, by) = fitted("shrink"), draw()
    lines = {line.value: line for line in cal.segments_.lines}
    assert set(lines) == set(NAMES)
    for name, line in lines.items():
        assert (line.column, line.rows, line.events) == ("segment", (by == name).sum(), y[by == name].sum())
        assert abs(line.predicted_after - line.events) < abs(line.predicted_before - line.events) + 1.0
        assert 0 < line.sd < 0.3
    north = lines["north"]
    assert north.predicted_after == pytest.approx(float(cal.transform(draw()[0], by)[by == "north"].sum()), rel=1e-6)
    assert len(str(cal.segments_).splitlines()) == 5
    assert cal.segments_.to_dict()["segments"][0]["column"] == "segment"


def test_it_prints_itself(subtests):
    for mode in MODES:
        with subtests.test(mode=mode):
            text = str(fitted(mode))
            assert "4,000 probability scores" in text
            assert "Cross-validation: log loss " in text
            assert ("Global map: slope " in text) == (mode != "separate")
            assert "AUC" in text
            assert "not fitted" in str(SegmentCalibrator())


def test_it_says_what_was_done_to_whom_and_where_the_rest_is():
    cal = SegmentCalibrator(AutoCalibrator(["platt"])).fit(*draw())
    text = str(cal)
    assert "odds are typically 1." in text
    assert all(line in text for line in (f"  {each}" for each in str(cal.segments_).splitlines()))
    assert "Unseen and missing segments get the global map." in text
    assert "See segments_ and global_.comparison_." in text
    assert "on the fitted rows)." in text
    assert "Contribution of segments: -0." in text


def test_only_the_segments_moved_farthest_are_printed():
    scores, y, _ = draw(6000)
    many = np.arange(6000) % 30
    odds = scores / (1 - scores) * np.where(many == 7, 4.0, 1.0)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y | (np.random.default_rng(0).random(6000) < odds / 9), many)
    text = str(cal)
    assert text.count("segment = ") == 5
    assert "and 25 more" in text


def test_segments_of_no_worth_are_said_to_be_that():
    scores, y, _ = draw(3000)
    text = str(SegmentCalibrator(PlattScaling()).fit(scores, y, np.arange(3000) % 5))
    assert "differ: all use the global map." in text
    assert "Unseen and missing" not in text


def test_each_source_has_its_line():
    (scores, y, by), cal = draw(), fitted("separate")
    own = by == "north"
    line = next(line for line in str(cal).splitlines() if line.strip().startswith("north:"))
    assert f"{own.sum():,} rows, {y[own].sum():,} events; log loss 0." in line
    assert "Unseen and missing sources get no probability." in str(cal)
    assert "intercepts and slopes" not in str(cal)
    assert "sources_[name].certificate()" in str(cal.certificate())
    assert "See segments_ and sources_." in str(cal)
    many = SegmentCalibrator(PlattScaling(), segment_method="separate").fit(scores, y, np.arange(4000) % 12)
    assert "and 2 more sources." in str(many)


def test_one_change_is_one_change():
    scores, _, _ = draw(8000)
    segment = np.arange(8000) % 20
    y = np.random.default_rng(3).random(8000) < expit(logit(scores) + 1.2 * (segment == 5))
    cal = SegmentCalibrator(PlattScaling(), segment_method="multicalibrate").fit(scores, y, segment)
    assert [change.value for change in cal.changes_] == ["5"]
    assert "1 change, 20 segments tested" in str(cal)
    assert "1 group: '5'" in repr(cal.map_)


def test_the_ranking_statement_is_about_all_rows_together():
    cal, (scores, y, by) = fitted("shrink"), draw()
    p = cal.transform(scores, by)
    area = stats.mannwhitneyu(p[y], p[~y]).statistic / (y.sum() * (~y).sum())
    assert cal.ranking_.after == pytest.approx(area)
    assert cal.ranking_.after > cal.ranking_.before


def test_the_order_between_segments_is_read_off_the_values(subtests):
    for scores, x, order in [
        ([1, 2, 3], [-1, 0, 1], "unchanged"),
        ([1, 2, 3], [-1, 0, 0], "ties"),
        ([1, 2, 3], [1, 0, 0], "reversed"),
        ([1, 2, 3], [1, -1, 0], "mixed"),
        ([1, 2, 3], [0, 0, 0], "lost"),
        ([1, 2, 3, 3], [2, 2, 1, 3], "mixed"),
        ([1, 2, 3, 3], [0, 1, np.nan, 3], "unchanged"),
    ]:
        with subtests.test(scores=scores, x=x, order=order):
            cells = cells_of(np.array(scores) / 10, np.arange(len(x)) % 2, np.arange(len(x)))
            found = ranking_between(cells, np.array(x, dtype=float)[cells.codes["by0"]])
            assert found.order == order
            assert type(found).__name__ == "Ranking"


def test_equal_scores_that_segments_tell_apart_are_not_called_a_worse_ranking():
    cells = cells_of(np.full(4, 0.5), [0, 0, 1, 1], ["a", "a", "b", "b"])
    found = ranking_between(cells, np.where(cells.codes["by0"] == 1, 1.0, -1.0))
    assert isinstance(found, SplitTies)
    assert (
        str(found)
        == "Ranking unchanged, except that tied scores differ by segment (AUC 0.5000 -> 1.0000 on the fitted rows)."
    )


def test_sources_that_kept_their_model_are_said_to_be_kept_with_their_ranking():
    rng = np.random.default_rng(0)
    scores = rng.beta(2, 5, 3000)
    y, by = rng.random(3000) < scores, np.where(np.arange(3000) < 2990, "a", "few")
    cal = SegmentCalibrator(segment_method="separate").fit(scores, y, by)
    assert cal.sources_["a"].status_ == "kept"
    assert cal.status_ == "kept"
    assert str(cal.ranking_) == "Ranking unchanged."
    assert cal.ranking_.before == cal.ranking_.after  # of the same rows
    assert "Cross-validation (without few): log loss " in str(cal)


def test_a_source_whose_loss_is_not_known_is_named():
    found = {
        "a": (3.0, Estimate("x", 1.0, 0.1)),
        "b": (1.0, Estimate("x", 2.0, 0.1)),
        "c": (9.0, Estimate("x", np.nan)),
    }
    mean = weighted_mean("x", found)
    assert mean.value == pytest.approx((3 * 1.0 + 2.0) / 4)
    assert [note.code for note in mean.notes] == ["sources-unjudged"]
    assert [str(note) for note in mean.notes] == ["without c: too few rows to evaluate them"]


# ------------------------------------------------------------------------------------------------------ honest numbers


@pytest.mark.parametrize("mode", MODES)
def test_honest_numbers_are_close_to_losses_on_new_rows(mode):
    cal = fitted(mode)
    scores, y, by = draw(200_000, seed=1)

    def loss(p: np.ndarray) -> float:
        return float(-np.log(np.where(y, p, 1 - p)).mean())

    assert abs(cal.before_.value - loss(scores)) < 4 * cal.before_.se
    assert abs(cal.after_.value - loss(cal.transform(scores, by))) < 4 * cal.after_.se
    assert abs(cal.change_.value - (loss(cal.transform(scores, by)) - loss(scores))) < 4 * cal.change_.se
    assert cal.change_.value == pytest.approx(cal.after_.value - cal.before_.value)
    assert cal.change_.high < 0.0
    if mode == "separate":
        assert np.isnan(cal.gain_.value)
    else:
        assert cal.gain_.high < 0.0


def test_segments_of_noise_look_no_better_than_they_are():
    """100 segments of 10 rows, nothing off: in sample levels would win, cross-fitted they must not."""
    rng = np.random.default_rng(0)
    x = rng.normal(-1, 1.3, 1000)
    y = rng.random(1000) < expit(x)
    cal = SegmentCalibrator(PlattScaling()).fit(expit(x), y, np.arange(1000) % 100)
    assert cal.gain_.value > -0.002


def test_too_few_rows_give_no_numbers_and_no_error():
    with pytest.warns(CalibrantWarning):
        cal = SegmentCalibrator().fit([0.3], [1], ["a"], score_type="probability")
    assert np.isnan(cal.change_.value)
    assert "not known" in str(cal)
    assert cal.transform([0.3], ["a"]).tolist() == cal.global_.transform([0.3]).tolist()


# --------------------------------------------------------------------------------------------------------------- edges


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_one_segment_keeps_the_map_of_all(mode):
    scores, y, _ = draw(500)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, np.full(500, "all"))
    assert np.abs(cal.transform([0.1, 0.5], ["all", "all"]) - cal.global_.transform([0.1, 0.5])).max() < 0.02


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_no_segment_at_all_is_no_segment(mode):
    scores, y, _ = draw(300)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, np.full(300, None, dtype=object))
    assert cal.map_ == cal.global_.map_
    assert "No row has a segment: all get the global map." in str(cal)


def test_one_class_makes_no_segments_differ():
    with pytest.warns(CalibrantWarning):
        cal = SegmentCalibrator().fit(draw(1500)[0], np.zeros(1500), np.arange(1500) % 2)
    assert cal.scales_["segment"] == (0.0, 0.0, 0.0)
    assert cal.map_ == cal.global_.map_


def test_a_map_of_all_that_is_off_makes_no_segments_differ():
    """A temperature mends no level: all segments are off alike, by 1.5 and a slope of 0.7."""
    rng = np.random.default_rng(0)
    x = rng.normal(-1.0, 1.3, 4000)
    y = rng.random(4000) < expit(0.7 * x + 1.5)
    cal = SegmentCalibrator(TemperatureScaling()).fit(expit(x), y, np.arange(4000) % 8)
    assert cal.scales_["segment"] == (0.0, 0.0, 0.0)
    cells = cells_of(expit(x), y, np.arange(4000) % 8)
    assert not shrink(cells, logit(cells.axis)[cells.place]).stages
    level = np.where(np.arange(4000) % 8 == 0, 1.2, 0.0)
    cells = cells_of(expit(x), rng.random(4000) < expit(0.7 * x + 1.5 + level), np.arange(4000) % 8)
    x = logit(cells.axis)[cells.place]
    p = expit(cells.after(x, shrink(cells, x).stages))  # where they differ they get the line of all and their own
    for code in range(8):
        own = cells.codes["by0"] == code
        assert abs((cells.events - cells.n * p)[own].sum()) < np.sqrt((p * (1 - p))[own].sum())


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_one_row_per_segment_changes_nothing(mode):
    scores, y, _ = draw(300)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, np.arange(300))
    assert cal.map_ == cal.global_.map_
    assert len(cal.segments_) == 300


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_a_segment_of_one_class_stays_inside_the_open_interval(mode):
    scores, y, by = draw()
    y = y | (by == "north")
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, by)
    p = cal.transform([0.01, 0.5], ["north", "north"])
    assert (p > 0.5).all()
    assert (p < 1.0).all()


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_constant_scores_and_scores_of_zero_and_one(mode):
    rng = np.random.default_rng(0)
    by = rng.integers(0, 2, 400)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(
        np.full(400, 0.5), rng.random(400) < 0.2 + 0.5 * by, by
    )
    p = cal.transform([0.5, 0.5], [0, 1])
    assert p[1] - p[0] == pytest.approx(0.5, abs=0.12)
    scores = rng.choice([0.0, 0.4, 1.0], 400)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, rng.random(400) < 0.2 + 0.5 * by, by)
    p = cal.transform([0.0, 1.0, 0.4], [0, 1, 1])
    assert ((p > 0) & (p < 1)).all()


@pytest.mark.parametrize("mode", ["shrink", "multicalibrate"])
def test_rows_without_a_segment_count_for_the_map_of_all(mode):
    scores, y, by = draw()
    by = by.astype(object)
    by[::10] = None
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, by)
    assert cal.global_.map_ == PlattScaling().fit(scores, y).map_
    assert sum(line.rows for line in cal.segments_.lines) == 3600


def test_whole_numbers_floats_and_text_are_the_same_segments():
    scores, y, by = draw(1200)
    code = np.searchsorted(NAMES, by)
    maps = {
        SegmentCalibrator(PlattScaling()).fit(scores, y, each).map_
        for each in (code, code.astype(float), code.astype(str), code.astype(np.int16))
    }
    assert len(maps) == 1
    assert SegmentCalibrator(PlattScaling()).fit(scores, y, by == "north").map_.maps[1].groups == ("false", "true")


def test_several_columns_come_one_after_the_other():
    scores, y, by = draw(6000)
    rng = np.random.default_rng(3)
    age = np.where(rng.random(6000) < 0.5, "old", "young")
    x = logit(scores) + LEVELS[np.searchsorted(NAMES, by)] + np.where(age == "old", 0.7, -0.7)
    y = rng.random(6000) < expit(x)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y, {"region": by, "age": age})
    assert cal.map_.columns == ("region", "age")
    p = cal.transform([0.3, 0.3], {"age": ["old", "young"], "region": ["north", "north"]})
    assert logit(p[:1]) - logit(p[1:]) == pytest.approx(1.4, abs=0.25)
    with pytest.raises(InputError, match="must name its columns"):
        cal.transform([0.3], ["north"])
    with pytest.raises(InputError, match="age"):
        cal.transform([0.3], {"region": ["north"]})


def test_counts_are_repetition_and_order_does_not_matter(subtests):
    for mode in MODES:
        with subtests.test(mode=mode):
            scores, y, by = draw(600)
            scores = scores.round(2)
            count = np.random.default_rng(1).integers(0, 4, 600)
            repeated = [np.repeat(column, count) for column in (scores, y, by)]
            base = SegmentCalibrator(PlattScaling(), segment_method=mode)
            one = base.fit(scores, y, by, count, weight_type="frequency")
            map_, after, table = one.map_, one.after_, one.segments_.to_dict()
            assert base.fit(*repeated).map_ == map_
            assert base.after_ == after
            assert base.segments_.to_dict() == table
            order = np.random.default_rng(2).permutation(len(repeated[0]))
            assert base.fit(*(column[order] for column in repeated)).map_ == map_
            assert base.after_ == after
            # Importance weights, integers too, are not repetition.
            weighted = base.fit(scores, y, by, count.astype(float))
            if mode != "separate":
                total = sum(line.rows for line in weighted.segments_.lines)
                assert total == pytest.approx(Tally.from_arrays(scores, y, count).effective_size)


def test_the_unit_of_importance_weights_does_not_matter(subtests):
    scores, y, by = draw(600)
    weight = np.random.default_rng(1).random(600) + 0.2
    effective, probe = Tally.from_arrays(scores, y, weight).effective_size, np.full(4, 0.3)
    for mode in MODES:
        one = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, by, weight)
        assert sum(line.rows for line in one.segments_.lines) == pytest.approx(effective), mode
        for factor in [1e-40, 1e40]:
            with subtests.test(mode=mode, factor=factor):
                other = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, by, weight * factor)
                assert other.transform(probe, NAMES) == pytest.approx(one.transform(probe, NAMES), abs=1e-9)
                assert other.change_.value == pytest.approx(one.change_.value, abs=1e-9)


def test_a_segment_of_weight_zero_is_no_segment():
    scores, y, by = draw(1000)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y, by, np.where(by == "west", 0.0, 1.0))
    assert {line.value for line in cal.segments_.lines} == {"east", "north", "south"}


def test_logits_and_real_scores(subtests):
    scores, y, by = draw()
    for kind, mode in [("logit", "shrink"), *(("real", mode) for mode in MODES)]:
        with subtests.test(kind=kind, mode=mode):
            x = logit(scores) * (1.0 if kind == "logit" else 30.0)
            cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(x, y, by, score_type=kind)
            p = cal.transform(np.full(4, x[0]), NAMES)
            assert p == pytest.approx(fitted(mode).transform(np.full(4, scores[0]), NAMES), abs=0.02)
            if (mode, kind) != ("separate", "real"):  # there Platt's map stands for the model
                assert cal.change_.value < 0.0


def test_float32_in_gives_float32_out():
    scores, _, by = draw(10)
    cal = fitted()
    assert cal.transform(scores.astype(np.float32), by).dtype == np.float32
    both = cal.predict_proba(scores, by)
    assert both.sum(axis=1) == pytest.approx(1.0)
    assert (both[:, 1] == cal.transform(scores, by)).all()


def test_fit_transform_is_both():
    scores, y, by = draw(400)
    cal = SegmentCalibrator(PlattScaling())
    assert (cal.fit_transform(scores, y, by) == cal.transform(scores, by)).all()


# ----------------------------------------------------------------------------------------------------- frames, exports


def test_frames_name_their_columns(subtests):
    for library in ["pandas", "polars", "pyarrow", "duckdb"]:
        with subtests.test(library=library):
            module = pytest.importorskip(library)
            scores, y, by = draw(800)
            columns = {"s": scores, "won": y.astype(int), "region": by.astype(object), "w": np.arange(800) % 3}
            if library == "duckdb":
                pa = pytest.importorskip("pyarrow")
                table = pa.table(columns)
                frame = module.from_arrow(table)
            else:
                frame = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[library]
                frame = getattr(module, frame)(columns)
            cal = SegmentCalibrator(PlattScaling()).fit(
                frame, score="s", label="won", by="region", sample_weight="w", weight_type="frequency"
            )
            like = SegmentCalibrator(PlattScaling()).fit(
                scores, y, {"region": by}, columns["w"], weight_type="frequency"
            )
            assert cal.map_ == like.map_
            out = cal.transform(frame, score="s")
            values = out.fetchnumpy()["calibrated"] if library == "duckdb" else np.asarray(out["calibrated"])
            assert np.asarray(values, dtype=float) == pytest.approx(like.transform(scores, by), abs=1e-12)


def test_a_series_gives_its_name():
    pandas = pytest.importorskip("pandas")
    scores, y, by = draw(800)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y, pandas.Series(by, name="region"))
    assert cal.map_.columns == ("region",)
    frame = pandas.DataFrame({"region": by, "half": np.arange(800) % 2})
    assert SegmentCalibrator(PlattScaling()).fit(scores, y, frame).columns_ == ("region", "half")


def test_it_is_stored_and_exported(tmp_path, subtests):
    for mode in MODES:
        with subtests.test(mode=mode):
            cal = fitted(mode)
            cal.save(tmp_path / "map.json")
            back = load(tmp_path / "map.json")
            assert back.map == cal.map_
            assert back.provenance == cal.provenance_
            duckdb = pytest.importorskip("duckdb")
            pa = pytest.importorskip("pyarrow")
            scores, _, by = draw(100)
            rows = duckdb.from_arrow(pa.table({"s": scores, "segment": by.astype(object)}))
            sql = rows.project(f"{cal.to_sql('s')} AS p").fetchnumpy()["p"]
            assert np.asarray(sql, dtype=float) == pytest.approx(cal.transform(scores, by), abs=1e-12)


def test_segments_may_be_called_otherwise_where_the_map_runs(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    cal, renamed = fitted(), {"segment": "area"}
    scores, _, by = draw(100)
    rows = duckdb.from_arrow(pa.table({"s": scores, "area": by.astype(object)}))
    expected = pytest.approx(cal.transform(scores, by), abs=1e-12)
    sql = rows.project(f"{cal.to_sql('s', by=renamed)} AS p").fetchnumpy()["p"]
    assert np.asarray(sql, dtype=float) == expected
    framed = cal.transform(rows, "s", by=renamed).fetchnumpy()["calibrated"]
    assert np.asarray(framed, dtype=float) == expected
    assert cal.export_sql(tmp_path / "map.sql", "s", by=renamed).worst <= 1e-12
    assert '"area"' in (tmp_path / "map.sql").read_text()
    with pytest.raises(InputError, match="by does not name columns of the frame"):
        cal.transform(rows, "s", by=by)
    with pytest.raises(InputError, match="no column 'segment'"):
        cal.transform(rows, score="s")


@pytest.mark.parametrize("mode", MODES)
def test_code_that_maps_works_before_saving_and_after_loading(mode, tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    scores, y, by = draw(1500)
    cal = SegmentCalibrator(PlattScaling(), segment_method=mode).fit(scores, y, {"region": by})
    cal.save(tmp_path / "map.json")
    expected = cal.map_.apply(scores, by)
    table = {"s": scores, "region": by.astype(object), "other": by[::-1].astype(object)}
    frame = pandas.DataFrame(table)
    for each in (cal, load(tmp_path / "map.json")):
        arrays = (
            each.transform(scores, by),
            each.transform(scores, by=by),
            each.transform(scores, source=by),
            each.transform(scores, by={"region": by, "other": by}),
            each.transform(scores, frame[["region"]]),
            each.transform(scores, polars.DataFrame(table)[["region", "other"]]),
            each.transform(frame, "s")["calibrated"],
            each.transform(frame, score="s", name="p")["p"],
            each.transform(frame, "s", by="region")["calibrated"],
            each.transform(frame.rename(columns={"region": "area"}), "s", by={"region": "area"})["calibrated"],
            each.transform(frame.rename(columns={"region": "area"}), "s", "area")["calibrated"],
            engine_apply(each, frame, "s")["calibrated"],
        )
        for found in arrays:
            assert np.asarray(found, dtype=float) == pytest.approx(expected, abs=1e-12)
        for wrong, words in [
            (lambda each=each: each.transform(scores), r"needs the column 'region' besides the scores: pass by, "),
            (lambda each=each: each.transform(scores, by, by=by), "passed twice"),
            (lambda each=each: each.transform(scores, by="region"), "looks like the name of a column"),
            (lambda each=each: each.transform(scores, by={"area": by}), "by has no column 'region'"),
        ]:
            with pytest.raises(InputError, match=words):
                wrong()


def test_segments_that_came_to_nothing_may_be_given_before_and_after_loading(tmp_path):
    pandas = pytest.importorskip("pandas")
    scores, y, by = draw(600, levels=np.zeros(4))
    cal = SegmentCalibrator(PlattScaling(), segment_method="multicalibrate", alpha=1e-9).fit(scores, y, by)
    assert not cal.map_.columns
    cal.save(tmp_path / "map.json")
    frame = pandas.DataFrame({"s": scores})
    for each in (cal, load(tmp_path / "map.json")):
        assert (each.transform(scores, by) == each.transform(scores)).all()
        assert (each.transform(frame, "s", by={"segment": "area"})["calibrated"] == each.transform(scores)).all()
    with pytest.raises(InputError, match="by is one column, but this map needs none: leave it out"):
        PlattScaling().fit(scores, y).calibration_.transform(scores, by=by)


def test_columns_of_several_segments_are_named_at_transform():
    scores, y, by = draw(1500)
    cal = SegmentCalibrator(PlattScaling()).fit(scores, y, {"region": by, "half": np.arange(1500) % 2})
    assert cal.map_.columns == ("region",)
    with pytest.raises(InputError, match="by must name its columns, 'region', 'half'"):
        cal.transform(scores, by)


def test_consecutive_changes_of_one_column_are_one_map():
    cal = fitted("multicalibrate")
    assert len(cal.map_.maps) == 3  # the last is the level of all rows
    by_group = cal.map_.maps[1]
    assert set(by_group.groups) == {change.value for change in cal.changes_}
    assert all(isinstance(each, LogitAffineMap) for each in by_group.maps)


def test_no_certificate_is_issued():
    assert "No certificate" in str(fitted().certificate())


# ----------------------------------------------------------------------------------------------------------- calibrate


def test_calibrate_takes_segments_and_sources():
    scores, y, by = draw(400)
    cal = calibrate(scores, y, by=by, cv=3)
    assert isinstance(cal, SegmentCalibrator)
    assert cal.segment_method == "shrink"
    assert isinstance(cal.global_, AutoCalibrator)
    assert cal.global_.cv == 3
    assert (
        calibrate(scores, y, by=by, segment_method="multicalibrate", candidates=["platt"]).segment_method
        == "multicalibrate"
    )
    cal = calibrate(scores, y, source=by, loss="brier")
    assert cal.segment_method == "separate"
    assert "Brier" in cal.change_.name
    assert isinstance(calibrate(scores, y), AutoCalibrator)


def test_what_cannot_be_combined_is_refused(subtests):
    for options, words in [
        ({"by": 1, "source": 1}, "source cannot be combined with by"),
        ({"by": 1, "guarantee": (0.01, 0.1)}, "cannot be met in any segment"),
    ]:
        with subtests.test(options=options, words=words):
            scores, y, by = draw(100)
            with pytest.raises(InputError, match=words):
                calibrate(scores, y, **{name: by if value == 1 else value for name, value in options.items()})


def test_nothing_that_calibrate_is_told_is_ignored(subtests):
    for options, words in [
        ({"segment_method": "multicalibrate"}, "segment_method='multicalibrate' needs segments: pass them as by"),
        ({"segment_method": "separate"}, "segment_method='separate' needs segments"),
        (
            {"segment_method": "multicalibrate", "source": ["a", "b"] * 50},
            "segment_method='multicalibrate' needs segments",
        ),
        ({"source": "prompt"}, "source='prompt' looks like the name of a column"),
    ]:
        with subtests.test(options=options, words=words):
            scores, y, _ = draw(100)
            with pytest.raises(InputError, match=words):
                calibrate(scores, y, **options)


def test_names_of_columns_may_follow_the_frame():
    pandas = pytest.importorskip("pandas")
    scores, y, by = draw(100)
    frame = pandas.DataFrame({"p": scores, "churned": y, "region": by})
    named = {"score": "p", "label": "churned"}
    assert calibrate(frame, "p", "churned").map_ == calibrate(frame, **named).map_
    assert PlattScaling().fit(frame, "p", "churned").map_ == PlattScaling().fit(frame, **named).map_
    first = SegmentCalibrator().fit(frame, "p", "churned", "region")
    assert first.map_ == SegmentCalibrator().fit(frame, by="region", **named).map_
    with pytest.raises(InputError, match="label is missing"):
        PlattScaling().fit(frame, "p")
    with pytest.raises(InputError, match="source must name"):
        calibrate(frame, score="p", label="churned", source=by)


def test_sources_without_a_name_are_called_source():
    pandas = pytest.importorskip("pandas")
    scores, y, by = draw(1000)
    cal = calibrate(scores, y, source=by, candidates=["platt"])
    assert cal.map_.columns == ("source",)
    assert '"source"' in cal.to_sql("s")
    assert '"prompt"' in cal.to_sql("s", by={"source": "prompt"})
    assert calibrate(scores, y, source=pandas.Series(by, name="prompt"), candidates=["platt"]).columns_ == ("prompt",)
    assert calibrate(scores, y, by=by, segment_method="separate", candidates=["platt"]).columns_ == ("segment",)


def test_a_tally_has_no_segments():
    scores, y, by = draw(100)
    tally = Tally.from_arrays(scores, y)
    with pytest.raises(InputError, match=r"^by cannot be combined with a tally"):
        calibrate(tally, by=by)
    with pytest.raises(InputError, match="does not contain the segments"):
        SegmentCalibrator().fit_tally(tally)


def test_mistakes_are_named(subtests):
    for options, arguments, words in [
        ({"segment_method": "other"}, {}, "segment_method is 'other'"),
        ({"alpha": 0.0}, {}, "alpha must lie"),
        ({"calibrator": SegmentCalibrator()}, {}, "needs segments as well"),
        (
            {"calibrator": AutoCalibrator(guarantee=(0.1, 0.1))},
            {},
            "calibrator has a guarantee, which does not",
        ),
        ({}, {"by": None}, "missing"),
        ({}, {"by": "region"}, "looks like the name of a column"),
        ({}, {"by": ["a"] * 7}, "has 7 rows but scores has 100"),
        ({}, {"by": {}}, "at least one column"),
        ({}, {"by": np.linspace(0, 1, 100)}, "convert the column to text"),
        ({"segment_method": "separate"}, {"by": {"a": ["x"] * 100, "b": ["x"] * 100}}, "one column of sources"),
        ({}, {"by": ["a"] * 7, "sample_weight": np.ones(100)}, "has 7 rows"),
    ]:
        with subtests.test(options=options, arguments=arguments, words=words):
            scores, y, by = draw(100)
            with pytest.raises(InputError, match=words):
                SegmentCalibrator(**options).fit(scores, y, **({"by": by} | arguments))


def test_a_segment_column_is_asked_for_at_transform():
    with pytest.raises(InputError, match="segment"):
        fitted().transform([0.3])


def test_other_calibrators_stand_in_for_the_choice():
    scores, y, by = draw(1000)
    cal = SegmentCalibrator(TemperatureScaling(), segment_method="separate").fit(scores, y, by)
    assert cal.change_.se is not None
    assert "separate" in repr(cal)


@pytest.mark.bench
@pytest.mark.slow
def test_a_million_rows_in_200_segments_are_a_matter_of_sorts():
    """Fits of the map of all and five cross-fits included; about 25 sorts of AVX-512 numpy, fewer of plain numpy's."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    x, group = rng.normal(-1, 1.3, n), rng.integers(0, 200, n)
    y = rng.random(n) < expit(x + rng.normal(0, 0.3, 200)[group])
    scores = expit(x)

    def cpu(run: Any) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    sort = min(cpu(lambda: np.argsort(scores)) for _ in range(3))
    fit = min(cpu(lambda: SegmentCalibrator(PlattScaling()).fit(scores, y, group)) for _ in range(2))
    cells = SegmentCells.of(check_rows(scores, y), {"g": read_keys(group)})
    part = min(cpu(lambda: shrink(cells, logit(cells.axis)[cells.place])) for _ in range(2))
    assert part < 8 * sort
    assert fit < 60 * sort
