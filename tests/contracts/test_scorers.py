"""What the function of one float of every kind of map keeps: `scorer` against `transform`."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from tests.cases import every
from tests.contracts.test_maps import FIFTY, every_map

import calibrant as cb
from calibrant.calibration import Calibration
from calibrant.export.kinds.tolerance import only_copies
from calibrant.export.kinds.trees import proof_rows
from calibrant.export.proof import compare
from calibrant.export.scorer import Guard, _function
from calibrant.maps import BetaMap, ByGroupMap, ComposeMap, IdentityMap, LogitAffineMap, Map, SoftmaxMap, StepMap
from calibrant.messages import InputError

FEW = 2_000
"""Rows of a proof that are compared one by one: the edges and knots, which come first, and random ones."""


def unguarded(map_: Map) -> Any:
    """The function of any score, also where `transform` would refuse it."""
    return _function(map_, Guard(-math.inf, math.inf, float))


@every_map
def test_every_map_gives_what_apply_gives(map_):
    rows = proof_rows(map_)
    rows = rows.take(np.unique(np.linspace(0, len(rows.scores) - 1, FEW).astype(int)))
    groups = [rows.groups[name].tolist() for name in map_.columns]
    score = unguarded(map_)
    given = list(zip(rows.scores.tolist(), *groups, strict=True))
    assert all(type(score(*row)) is float for row in given[:50])
    found = np.array([score(*row) for row in given])
    compare(map_, rows, found, "a function of one float")
    if only_copies(map_) or map_.kind == "piecewise-linear":
        np.testing.assert_array_equal(found, map_.apply(rows.scores, rows.groups or None))


def test_a_kind_without_a_function_of_its_own_is_applied():
    class Sharper(LogitAffineMap):
        def _evaluate(self, s):
            return s**2

    _function.register(Sharper, _function.dispatch(object))
    score = Calibration(Sharper(1.0, 0.0)).scorer()
    assert score(0.5) == score(np.float32(0.5)) == 0.25
    assert math.isnan(score(math.nan))
    assert math.isnan(score(1.5))


def test_a_table_after_a_curve_is_equal_on_both_sides_of_every_knot():
    map_ = ComposeMap((LogitAffineMap(1.37, 0.21), StepMap(np.linspace(0.05, 0.95, 40), np.linspace(0.0, 1.0, 41))))
    rows = proof_rows(map_).scores[:4_000]
    score = unguarded(map_)
    np.testing.assert_array_equal([score(s) for s in rows.tolist()], map_.apply(rows))


@pytest.mark.since("numpy", "2.0")  # whose logarithms are closer to those of Python
@every("map_", [LogitAffineMap(0.83, -0.4), LogitAffineMap(2.4, 1.0), LogitAffineMap(0.6, 0.0)])
def test_a_curve_is_within_two_units_in_the_last_place(map_):
    """Where the logarithms of numpy and of Python differ in their last bit, that bit of the log-odds is added."""
    rng = np.random.default_rng(3)
    s = np.concatenate([rng.random(20_000), 2.0 ** -rng.uniform(0.0, 30.0, 10_000)])
    score, expected = Calibration(map_).scorer(), map_.apply(s)
    apart = np.abs([score(x) for x in s.tolist()] - expected)
    z = np.log(s / (1.0 - s))
    u = map_.slope * z + map_.intercept
    last_bit = abs(map_.slope) * np.spacing(np.abs(z)) + np.spacing(np.abs(u))
    assert (apart <= 2.0 * np.spacing(expected) + expected * (1.0 - expected) * last_bit).all()
    assert (apart <= 2.0 * np.spacing(expected)).mean() > 0.999


def test_scores_are_read_as_in_transform(subtests):
    risk = Calibration(LogitAffineMap(0.8, -0.1))
    score = risk.scorer()
    for given in (
        0.3,
        np.float64(0.3),
        np.float32(0.25),
        0,
        1,
        True,
        np.int64(1),
        Decimal("0.25"),
        np.array(0.25),
        -0.0,
    ):
        with subtests.test(repr(given)):
            np.testing.assert_allclose(score(given), risk.transform([float(given)])[0], rtol=1e-15)
    for missing in (None, math.nan, np.nan, np.float32("nan")):
        with subtests.test(repr(missing)):
            assert math.isnan(score(missing))
    for beyond in (1.5, -0.1, math.inf, 2, np.float32(55.0)):
        with subtests.test(repr(beyond)):
            assert math.isnan(score(beyond))
    for wrong in ("0.3", [0.3, 0.4], 1j, 10**30):
        with subtests.test(repr(wrong)), pytest.raises(InputError):
            score(wrong)


def test_logits_have_no_range_and_no_infinities():
    rng = np.random.default_rng(1)
    x = rng.normal(size=500) * 3.0
    cal = cb.PlattScaling().fit(x, rng.random(500) < 1 / (1 + np.exp(-x)), score_type="logit")
    score = cal.scorer()
    np.testing.assert_allclose([score(s) for s in x.tolist()], cal.transform(x), rtol=1e-14)
    assert score(-1e300) <= score(0.0) <= score(1e300)
    with pytest.raises(InputError, match="inf"):
        score(math.inf)


def test_a_segment_is_read_as_in_transform():
    by_branch = ByGroupMap(
        "branch", (3, 12, "true"), tuple(LogitAffineMap(1.0, j / 2) for j in range(3)), IdentityMap()
    )
    risk = Calibration(by_branch)
    score = risk.scorer()
    for group in ("3", 3, 3.0, np.int64(12), "12", True, "east", None, math.nan, np.float64(12.0)):
        np.testing.assert_allclose(score(0.3, group), risk.transform([0.3], [group])[0], rtol=1e-15)
    with pytest.raises(InputError, match="branch"):
        score(0.3)
    with pytest.raises(InputError, match="by"):
        score(0.3, 3.5)
    with pytest.raises(InputError, match="by"):
        score(0.3, [3])
    assert math.isnan(score(1.5, "3"))
    assert math.isnan(Calibration(ByGroupMap("b", ("x",), (IdentityMap(),), None)).scorer()(0.4, "y"))


def test_several_columns_follow_the_order_of_the_map():
    steps = ByGroupMap("product", ("car",), (BetaMap(0.9, 1.1, 0.3),), IdentityMap())
    risk = Calibration(ComposeMap((FIFTY, steps)))
    assert risk.map.columns == ("region", "product")
    found = risk.scorer()(0.3, "region 7", "car")
    np.testing.assert_allclose(
        found, risk.transform([0.3], {"region": ["region 7"], "product": ["car"]})[0], rtol=1e-14
    )
    with pytest.raises(InputError, match="'region' and 'product'"):
        risk.scorer()(0.3, "region 7")


def test_a_map_without_segments_ignores_them_as_transform_does():
    rng = np.random.default_rng(0)
    s = rng.random(400)
    cal = cb.SegmentCalibrator().fit(s, rng.random(400) < s, by=np.resize(["a", "b"], 400))
    score = cal.scorer()
    np.testing.assert_allclose([score(x, "a") for x in s[:9].tolist()], cal.transform(s[:9], ["a"] * 9), rtol=1e-14)


def test_several_classes_are_refused_with_advice():
    with pytest.raises(InputError, match="transform"):
        Calibration(SoftmaxMap(("a", "b"), [2.0], [], "probability", 1e-9)).scorer()


def test_threads_share_one_scorer():
    score = Calibration(FIFTY).scorer()
    rng = np.random.default_rng(2)
    rows = [(s, f"region {j}") for s, j in zip(rng.random(4_000).tolist(), rng.integers(0, 52, 4_000), strict=True)]
    alone = [score(*row) for row in rows]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda row: score(*row), rows, chunksize=100)) == alone
