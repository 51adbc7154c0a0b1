"""Regions of the simplex, binning by them, and what its certificate says."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from tests import worlds

import calibrant
from calibrant.calibration import Calibration
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.export.errors import DocumentError
from calibrant.guarantees.about.regions import class_sets
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.issuing import RegionCounts, issue_regions
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.maps import SimplexBinsMap, SimplexScheme
from calibrant.maps.simplex import grid_cells, region_count
from calibrant.messages import CalibrantWarning, InputError

NAMES = ("a", "b", "c", "d", "e")


def blank(scheme: SimplexScheme, classes: int, size: int) -> SimplexBinsMap:
    """A fixed partition; what the table says does not matter."""
    table = np.full(region_count(scheme, classes, size) * classes, 1.0 / classes)
    return SimplexBinsMap(NAMES[:classes], scheme, size, np.zeros(0), np.zeros(0), table, "probability")


def draw(n: int, classes: int = 3, seed: int = 0) -> worlds.Rows:
    return worlds.classes(n, classes, seed)


def rows_of(classes: int, dtype: type = np.float64) -> st.SearchStrategy[Any]:
    """Rows that sum to 1 up to rounding: whole parts of up to 12, so that corners, edges and ties come often."""
    parts = st.lists(st.integers(0, 12), min_size=classes, max_size=classes).filter(any)
    reals = st.lists(st.floats(0, 1), min_size=classes, max_size=classes).filter(lambda x: sum(x) > 0.01)
    return st.one_of(parts, reals).map(lambda x: (np.array(x) / np.sum(x)).astype(dtype))


# ------------------------------------------------------------------------------------------------------- partitions


def test_the_numbers_of_regions_are_those_of_the_source() -> None:
    assert [region_count("sierpinski", 3, q) for q in (1, 2, 3)] == [
        4,
        13,
        40,
    ]  # (3^(q+1) - 1) / 2; the text's 14 is 13
    assert [region_count("sierpinski", 5, q) for q in (1, 2)] == [6, 31]
    assert [region_count("grid", 3, k) for k in (1, 2, 3, 4, 7)] == [1, 4, 9, 16, 49]
    assert region_count("projection", 4, 9) == 10
    for classes, size in itertools.product((2, 3, 4, 5), (1, 2, 3, 5)):
        total = range(max(classes, size + 1), size + classes)
        tuples = [k for k in itertools.product(range(1, size + 1), repeat=classes) if sum(k) in total]
        assert grid_cells(classes, size).tolist() == [list(k) for k in tuples]
        assert region_count("grid", classes, size) == len(tuples)


def test_all_regions_of_the_fixed_schemes_are_reached_and_no_other() -> None:
    scores = np.random.default_rng(1).dirichlet(np.ones(3), size=60_000)
    for scheme, size in (("sierpinski", 1), ("sierpinski", 2), ("sierpinski", 3), ("grid", 2), ("grid", 5)):
        codes = blank(scheme, 3, size).regions(scores)
        assert np.unique(codes).tolist() == list(range(region_count(scheme, 3, size)))


def test_regions_of_a_grid_of_three_classes_have_equal_volume() -> None:
    scores = np.random.default_rng(2).dirichlet(np.ones(3), size=90_000)
    seen = np.bincount(blank("grid", 3, 3).regions(scores))
    assert np.abs(seen - 10_000).max() < 500  # five standard errors of about 94


def test_sierpinski_by_hand() -> None:
    # depth 2, three classes: part l takes numbers 4l to 4l + 3, the middle is 12.
    # (0.7, 0.2, 0.1) -> part 0, blown up (0.4, 0.4, 0.2): its middle, 3. (0.9, 0.1, 0) -> part 0, (0.8, ..): part 0, 0.
    # (0.1, 0.6, 0.3) -> part 1, (0.2, 0.2, 0.6): part 2 of it, 6. (0.5, 0.5, 0): no class above one half, 12.
    rows = [[0.7, 0.2, 0.1], [0.9, 0.1, 0.0], [0.1, 0.6, 0.3], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4], [0.0, 0.0, 1.0]]
    assert blank("sierpinski", 3, 2).regions(rows).tolist() == [3, 0, 6, 12, 12, 10]


def brute_force_grid(s: Any, classes: int, size: int) -> int:
    """First cell of eq. 5.20, in the order of words, whose closed box of eq. 5.21 holds the row."""
    for place, k in enumerate(grid_cells(classes, size).tolist()):
        if all(k_l - 1 <= size * s_l <= k_l for k_l, s_l in zip(k, s, strict=True)):
            return place
    raise AssertionError("no cell holds the row")


@given(data=st.data(), classes=st.integers(2, 4), power=st.integers(0, 3))
def test_the_grid_equals_a_search_over_all_cells(data: Any, classes: int, power: int) -> None:
    """Numbers of sixteenths and of 2^-20: they sum to exactly 1, and lie on edges and corners of the grid often."""
    unit = data.draw(st.sampled_from([16, 1 << 20]))
    cuts = sorted(data.draw(st.lists(st.integers(0, unit), min_size=classes - 1, max_size=classes - 1)))
    s = np.diff([0, *cuts, unit]) / unit
    assert blank("grid", classes, 2**power).regions([s])[0] == brute_force_grid(s, classes, 2**power)


@given(data=st.data(), classes=st.integers(2, 5), dtype=st.sampled_from([np.float32, np.float64]))
def test_every_row_has_exactly_one_region(data: Any, classes: int, dtype: type) -> None:
    s = data.draw(rows_of(classes, dtype))
    off = np.array([s, s * dtype(1 + 1e-6), s * dtype(1 - 1e-6), s * dtype(0.998), np.minimum(s * dtype(1.002), 1)])
    for scheme, size in (("sierpinski", 1), ("sierpinski", 4), ("grid", 1), ("grid", 3), ("grid", 8)):
        fitted = blank(scheme, classes, size)
        codes = fitted.regions(off)
        assert ((codes >= 0) & (codes < region_count(scheme, classes, size))).all()
        assert np.isfinite(fitted.apply(off)).all()
        assert codes.tolist() == fitted.regions(off.astype(np.float64)).tolist()


@given(data=st.data(), classes=st.integers(2, 4), depth=st.integers(1, 5))
def test_sierpinski_regions_are_simplices_that_hold_their_rows(data: Any, classes: int, depth: int) -> None:
    """Walk down with the definition: s in part l of a cell if it is above its middle in class l."""
    cuts = sorted(data.draw(st.lists(st.integers(0, 1 << 12), min_size=classes - 1, max_size=classes - 1)))
    s = np.diff([0, *cuts, 1 << 12]) / (1 << 12)
    corner, width, code = np.zeros(classes), 1.0, 0
    for level in range(depth):
        parts = region_count("sierpinski", classes, depth - level - 1) if level + 1 < depth else 1
        above = np.flatnonzero(s > corner + width / 2)
        code += parts * (int(above[0]) if len(above) else classes)
        if not len(above):
            break
        corner[above[0]] += width / 2
        width /= 2
    assert blank("sierpinski", classes, depth).regions([s])[0] == code


def test_a_list_of_rules_takes_the_first_that_holds() -> None:
    table = [0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.2, 0.3, 0.5]
    rules = SimplexBinsMap(NAMES[:3], "projection", 2, [-1, 0, 0, 0, -1, 0], [-0.6, -0.5], table, "probability")
    # more than 0.6 of the first class; else more than 0.5 of the second; else. On a threshold, go on.
    rows = [[0.7, 0.2, 0.1], [0.6, 0.4, 0.0], [0.2, 0.6, 0.2], [0.0, 0.5, 0.5], [np.nan, 0.5, 0.5]]
    assert rules.regions(rows).tolist() == [0, 2, 1, 2, -1]
    out = rules.apply(rows)
    assert out[:4].tolist() == [table[:3], table[6:], table[3:6], table[6:]]
    assert np.isnan(out[4]).all()
    assert rules.apply(np.array(rows, dtype=np.float32)).dtype == np.float32


def test_logits_go_through_softmax() -> None:
    plain = blank("grid", 3, 4)
    logits = SimplexBinsMap(plain.classes, "grid", 4, np.zeros(0), np.zeros(0), plain.table, "logit")
    p = np.random.default_rng(3).dirichlet(np.ones(3), size=500)
    assert logits.regions(np.log(p) + 7.0).tolist() == plain.regions(p).tolist()


def test_a_map_refuses_numbers_that_do_not_fit(subtests) -> None:
    for changed in [
        {"scheme": "cubes"},
        {"size": 2},
        {"table": [0.5, 0.5]},
        {"table": [0.5, 0.6, 0.5, 0.5]},
        {"table": [-0.5, 1.5, 0.5, 0.5]},
        {"thresholds": [np.nan]},
        {"directions": [1.0]},
        {"scheme": "sierpinski", "size": 10**9, "directions": [], "thresholds": []},
        {"scheme": "grid", "size": 10**9, "directions": [], "thresholds": []},
        {"size": -1, "directions": [], "thresholds": []},
    ]:
        with subtests.test(changed=changed):
            right: dict[str, Any] = {
                "classes": ("a", "b"), "scheme": "projection", "size": 1, "directions": [1.0, 0.0], "thresholds": [0.5],
                "table": [0.5, 0.5, 0.4, 0.6], "on": "probability",
            }  # fmt: skip
            SimplexBinsMap(**right)
            with pytest.raises(ValueError, match=r"\w"):
                SimplexBinsMap(**(right | changed))


# --------------------------------------------------------------------------------------------------------- the fit


@pytest.mark.parametrize("direction", [[0.0, 1.0], [-1.0, 0.0]])
def test_two_classes_are_histogram_binning(direction: list[float]) -> None:
    """n + 1 = 5 * 40, so that ranks b * 40 are those of Algorithm 4.1; (k + 1)/(n + 2) at the lowest bin."""
    rng = np.random.default_rng(4)
    unit = rng.permutation(1 << 16)[:199] / (1 << 16)  # 1 - s is exact, so that both directions see the same order
    y = (rng.random(199) < unit**3).astype(int)
    binary = HistogramBinning(5).fit(unit, y)
    fitted = SimplexBinning(n_bins=5, directions=[direction]).fit(np.column_stack([1.0 - unit, unit]), y)
    fresh = rng.integers(0, 1 << 16, 1_000) / (1 << 16)
    assert fitted.transform(np.column_stack([1.0 - fresh, fresh]))[:, 1] == pytest.approx(binary.transform(fresh))
    assert fitted.regions_.counts.sum(axis=1).tolist() == [39] * 5
    ours, theirs = fitted.certificate(), binary.certificate()
    assert isinstance(ours, Certificate)
    assert ours.epsilon == pytest.approx(2 * theirs.epsilon)
    assert ours.half_widths.max() == pytest.approx(theirs.epsilon)


@pytest.mark.parametrize("directions", ["classes", "random"])
def test_without_ties_every_region_holds_what_the_algorithm_says(directions: Any) -> None:
    """c = floor(1001 / 7) = 143: six regions of 142 rows, six rows on thresholds, the rest 1000 - 6 * 143 = 142."""
    fitted = SimplexBinning(n_bins=7, directions=directions).fit(*draw(1_000))
    assert fitted.regions_.counts.sum(axis=1).tolist() == [142] * 7
    assert fitted.regions_.uncovered_rows == 6
    assert fitted.regions_.light.tolist() == list(range(6))


def test_the_shares_are_those_of_the_rows_inside() -> None:
    scores, y = draw(500)
    fitted = SimplexBinning(n_bins=4, extremes="mean").fit(scores, y)
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    inside, codes = certificate.about.covers(certificate, scores), fitted.map_.regions(scores)
    assert inside.sum() == 497
    for b in range(4):
        held = y[inside & (codes == b)]
        assert fitted.map_.outputs_by_region[b] == pytest.approx(np.bincount(held, minlength=3) / len(held))


def test_the_order_of_rows_does_not_matter_and_counts_mean_repetition() -> None:
    scores, y = draw(400)
    counts = np.random.default_rng(5).integers(0, 4, 400)
    order = np.random.default_rng(6).permutation(400)
    for given_ in ({"n_bins": 6}, {"scheme": "sierpinski"}, {"scheme": "grid", "cells": 3}, {"directions": "random"}):
        once = SimplexBinning(**given_).fit(scores, y, counts, weight_type="frequency")
        again = SimplexBinning(**given_).fit(np.repeat(scores, counts, axis=0), np.repeat(y, counts))
        shuffled = SimplexBinning(**given_).fit(scores[order], y[order], counts[order], weight_type="frequency")
        assert once.map_ == again.map_ == shuffled.map_
        assert once.certificate().epsilon == again.certificate().epsilon


def test_importance_weights_that_are_equal_change_nothing_and_carry_no_certificate() -> None:
    scores, y = draw(400)
    plain = SimplexBinning(n_bins=6).fit(scores, y)
    weighted = SimplexBinning(n_bins=6).fit(scores, y, np.full(400, 1e-7))
    assert weighted.transform(scores) == pytest.approx(plain.transform(scores))
    assert isinstance(weighted.certificate(), NoCertificate)
    assert "importance weights" in str(weighted)


def test_one_heavy_row_among_light_weights_is_no_difficulty() -> None:
    scores, y = draw(300)
    w = np.full(300, 1e-9)
    w[7] = 1e9
    out = SimplexBinning().fit(scores, y, w).transform(scores)
    assert np.isfinite(out).all()
    assert out.sum(axis=1) == pytest.approx(1.0)


def test_many_rows_on_a_corner_are_a_region_of_their_own() -> None:
    """A saturated model: 300 of 600 rows say (1, 0, 0), and two thirds of them are right."""
    scores, y = draw(300)
    scores = np.vstack([np.tile([1.0, 0.0, 0.0], (300, 1)), scores])
    y = np.append(np.repeat([0, 1], [200, 100]), y)
    fitted = SimplexBinning(n_bins=6).fit(scores, y)
    # succession, as class 2 is missing: 201 / 303, 101 / 303, 1 / 303
    assert fitted.transform([[1.0, 0.0, 0.0]])[0] == pytest.approx([201 / 303, 101 / 303, 1 / 303])
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    assert certificate.rows[::3][:2].tolist() == [
        0,
        300,
    ]  # beyond the corner there is nothing, and it follows the corner
    assert fitted.map_.outputs_by_region[0] == pytest.approx(fitted.map_.outputs_by_region[1])
    assert certificate.about.covers(certificate, [[1.0, 0.0, 0.0]]).tolist() == [True]
    assert certificate.n + certificate.uncovered_rows == 600
    assert "1 region without a row" in str(certificate)


def test_rows_on_a_light_threshold_are_said_not_to_be_covered() -> None:
    scores, y = draw(200)
    fitted = SimplexBinning(n_bins=4).fit(scores, y)
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    assert (~certificate.about.covers(certificate, scores)).sum() == certificate.uncovered_rows == 3
    assert "Not covered: scores on a threshold (3 thresholds, 3 of 200 rows)." in str(certificate)


def test_constant_scores_have_one_region_with_all_rows(subtests) -> None:
    for scheme in ["projection", "sierpinski", "grid"]:
        with subtests.test(scheme=scheme):
            y = np.repeat([0, 1, 2], [60, 30, 10])
            fitted = SimplexBinning(scheme).fit(np.tile([0.5, 0.25, 0.25], (100, 1)), y)
            assert fitted.transform([[0.5, 0.25, 0.25]])[0] == pytest.approx([0.6, 0.3, 0.1])
            certificate = fitted.certificate()
            assert isinstance(certificate, Certificate)
            assert certificate.n == 100
            assert "in the one region" in str(certificate)


def test_few_rows_give_a_map_and_a_wide_promise(subtests) -> None:
    for n in [1, 2, 3]:
        with subtests.test(n=n):
            scores, _ = draw(n)
            fitted = SimplexBinning().fit(scores, np.arange(n) % 3, classes=[0, 1, 2])
            out = fitted.transform(scores)
            assert ((out > 0) & (out < 1)).all()
            assert fitted.certificate().epsilon > 0.5


def test_no_output_is_0_or_1_unless_asked_for() -> None:
    scores, _ = draw(300)
    y = scores.argmax(axis=1)
    for scheme in ("projection", "sierpinski", "grid"):
        out = SimplexBinning(scheme).fit(scores, y).transform(scores)
        assert out.min() > 0.0
        assert out.max() < 1.0
    assert SimplexBinning(extremes="mean").fit(scores, y).transform(scores).max() == 1.0


def test_empty_regions_give_every_class_the_same_and_a_note() -> None:
    rng = np.random.default_rng(8)
    scores = rng.dirichlet([30.0, 1.0, 1.0], size=200)
    fitted = SimplexBinning("sierpinski", depth=2).fit(scores, rng.integers(0, 3, 200))
    assert fitted.transform([[0.0, 0.0, 1.0]])[0] == pytest.approx(1 / 3)
    told = {note.code: str(note) for note in fitted.notes_}
    assert "regions have no rows" in told["empty-regions"]
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    assert not certificate.about.covers(certificate, [[0.0, 0.0, 1.0]]).any()
    silent = certificate.rows[::3] == 0
    assert certificate.about.distances[silent].tolist() == [2.0] * int(silent.sum())


def test_many_classes_are_warned_of_with_the_number_of_regions() -> None:
    scores, y = draw(400, 6)
    with pytest.warns(CalibrantWarning, match="11,452"):
        fitted = SimplexBinning().fit(scores, y)
    assert fitted.certificate().epsilon > 0.3
    scores, y = draw(400, 12)
    with pytest.warns(CalibrantWarning, match="more than 10,000,000"):
        fitted = SimplexBinning(n_bins=2).fit(scores, y)
    assert fitted.certificate().interval == "hoeffding"
    assert isinstance(fitted.certificate(interval="always-valid"), NoCertificate)


def test_what_cannot_be_is_refused_in_one_sentence(subtests) -> None:
    for options, match in [
        ({"scheme": "sierpinski", "depth": 5}, "364 regions for 3 classes, more than the 300 rows"),
        ({"scheme": "grid", "cells": 18}, "324 regions"),
        ({"scheme": "grid", "cells": 10**9}, "out of range"),
        ({"scheme": "sierpinski", "depth": 99}, "out of range"),
        ({"scheme": "cubes"}, "scheme"),
        ({"depth": 2}, "depth is for scheme='sierpinski'"),
        ({"scheme": "grid", "n_bins": 3}, "n_bins is for"),
        ({"n_bins": 0}, "n_bins"),
        ({"extremes": "none"}, "extremes"),
        ({"directions": "up"}, "directions"),
        ({"directions": [[1.0, 0.0]]}, "rows of 3 finite numbers"),
        ({"directions": [[0.0, 0.0, 0.0]]}, "not all zero"),
    ]:
        with subtests.test(options=options, match=match), pytest.raises(InputError, match=match):
            SimplexBinning(**options).fit(*draw(300))


def test_columns_that_speak_for_themselves_are_refused() -> None:
    scores, y = draw(300)
    with pytest.raises(InputError, match="independent"):
        SimplexBinning().fit(scores * 0.5, y, score_type="independent")


def test_too_many_bins_are_cut_back_with_a_warning() -> None:
    with pytest.warns(CalibrantWarning, match="20 rows are too few for 15 regions: 10 are used"):
        SimplexBinning(n_bins=15).fit(*draw(20))


def test_logits_and_probabilities_give_the_same_regions() -> None:
    scores, y = draw(500)
    plain = SimplexBinning(n_bins=5).fit(scores, y)
    logits = SimplexBinning(n_bins=5).fit(np.log(scores) + 3.0, y, score_type="logit")
    assert logits.transform(np.log(scores) + 3.0) == pytest.approx(plain.transform(scores))


# ------------------------------------------------------------------------------------------------- the certificate


def evidence(counts: Any, classes: int) -> RegionCounts:
    """Regions of a projection with shares as outputs."""
    counts = np.array(counts)
    table = counts / counts.sum(axis=1, keepdims=True)
    rules = len(counts) - 1
    fitted = SimplexBinsMap(
        NAMES[:classes], "projection", rules, np.tile(np.eye(classes)[0], rules), np.arange(rules) / 10.0,
        table.reshape(-1), "probability",
    )  # fmt: skip
    return RegionCounts(fitted, counts, np.zeros(0, dtype=np.int64), 0, False, "a book, a place")


def test_hoeffding_is_the_bound_of_weissman() -> None:
    """Shares of a half and less, far from 0 and 1, so that nothing is cut: sqrt(2 ln((2^L - 2) M / alpha) / n)."""
    for classes in (2, 3, 4, 5):
        counts = np.full((2, classes), 1_000)
        promise = issue_regions(evidence(counts, classes), 0.1, "hoeffding", "simultaneous")
        n = 1_000 * classes
        assert promise.epsilon == pytest.approx(np.sqrt(2 * np.log((2**classes - 2) * 2 / 0.1) / n))


def test_a_promise_that_every_map_keeps_is_refused() -> None:
    """One row of class a, output 1: the interval reaches down to 0.005 / 6, and 2 (1 - 0.00083) > 1.998."""
    promise = issue_regions(evidence([[1, 0, 0]], 3), 0.005, "clopper-pearson", "simultaneous")
    assert isinstance(promise, NoCertificate)
    assert str(promise) == (
        "No certificate: the bound is vacuous: in the worst region these rows guarantee only a deviation of at "
        "most 2.000, which always holds; use more rows or fewer regions."
    )
    assert issue_regions(evidence([[1, 0, 0]], 3), 0.1, "clopper-pearson", "simultaneous")


def test_it_is_one_short_line_as_a_value_and_says_what_the_distance_is() -> None:
    scores, y = draw(900)
    certificate = SimplexBinning(n_bins=4).fit(scores, y).certificate(0.05)
    assert isinstance(certificate, Certificate)
    assert re.fullmatch(
        r"Certificate\(canonical, 3 classes, epsilon 0\.\d{3}, confidence 95 %, simultaneous, 897 rows\)",
        repr(certificate),
    )
    assert "by an l1 distance (0 to 2) of at most 0." in str(certificate)


def test_three_classes_by_hand() -> None:
    """Sets of three classes are the classes: 1 region, level 0.1 / 3, twice the widest side."""
    promise = issue_regions(evidence([[50, 30, 20]], 3), 0.1, "clopper-pearson", "simultaneous")
    assert isinstance(promise, Certificate)
    low, high = clopper_pearson([50, 30, 20], 100, 0.1 / 3)
    shares = np.array([0.5, 0.3, 0.2])
    assert promise.lower == pytest.approx(low)
    assert promise.upper == pytest.approx(high)
    assert promise.epsilon == pytest.approx(2 * np.maximum(shares - low, high - shares).max())


def test_the_largest_distance_inside_the_intervals_of_sets_is_epsilon_at_most() -> None:
    """A linear programme for each pattern of signs: the worst distribution that obeys all intervals."""
    counts = np.array([[60, 25, 10, 5]])
    promise = issue_regions(evidence(counts, 4), 0.1, "clopper-pearson", "simultaneous")
    assert isinstance(promise, Certificate)
    sets = class_sets(4)
    low, high = clopper_pearson(counts @ sets.T, 100, 0.1 / 7)
    worst = 0.0
    for signs in itertools.product([-1, 1], repeat=4):
        found = optimize.linprog(
            -np.array(signs, dtype=float), np.vstack([sets, -sets]), np.append(high[0], -low[0]), np.ones((1, 4)), [1.0]
        )
        worst = max(worst, -found.fun - float(np.dot(signs, counts[0] / 100)))
    assert worst <= promise.epsilon + 1e-9
    assert worst > 0.8 * promise.epsilon


def test_marginal_is_narrower_and_exact_is_narrower_than_hoeffding() -> None:
    fitted = SimplexBinning(n_bins=5).fit(*draw(1_000))
    wide = fitted.certificate(0.1)
    assert fitted.certificate(0.1, coverage="marginal").epsilon < wide.epsilon
    assert fitted.certificate(0.1, interval="hoeffding").epsilon > wide.epsilon
    assert fitted.certificate(0.01).epsilon > wide.epsilon
    assert "For a new row" in str(fitted.certificate(coverage="marginal"))


def test_always_valid_needs_regions_that_no_row_chose() -> None:
    scores, y = draw(1_000)
    assert isinstance(SimplexBinning().fit(scores, y).certificate(interval="always-valid"), NoCertificate)
    fixed = SimplexBinning("grid", cells=2).fit(scores, y)
    assert fixed.certificate(interval="always-valid").epsilon > fixed.certificate().epsilon
    assert SimplexBinning("sierpinski", depth=1).fit(scores, y).certificate(interval="always-valid")
    for scheme in ("sierpinski", "grid"):  # the default follows the number of rows: the next look has other regions
        some = SimplexBinning(scheme).fit(scores, y)  # type: ignore[arg-type]
        assert some.map_ != SimplexBinning(scheme).fit(*draw(9_000)).map_  # type: ignore[arg-type]
        refusal = some.certificate(interval="always-valid")
        assert isinstance(refusal, NoCertificate)
        assert "depth=" in str(refusal)
        assert some.certificate()


def test_fresh_rows_confirm_or_contradict() -> None:
    fitted = SimplexBinning(n_bins=6).fit(*draw(2_000))
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    scores, y = draw(20_000, seed=9)
    right = certificate.check(scores, y)
    assert right
    assert "no contradiction" in str(right)
    wrong = certificate.check(scores, np.roll(y, 1))
    assert not wrong
    text = str(wrong)
    assert "contradicted in" in text
    assert all(f"of {name!r}" in text for name in ("0", "1", "2"))
    assert all(
        str(each).endswith("\n  This is valid only if these rows were not used in the fit.") for each in (right, wrong)
    )
    few = certificate.check(scores[:1], y[:1])
    assert few
    assert not few.telling
    assert str(few) == "1 row: too few to contradict the certificate, whatever the outcomes."
    marginal = fitted.certificate(coverage="marginal")
    assert isinstance(marginal, Certificate)
    with pytest.raises(InputError, match="marginal"):
        marginal.check(scores, y)


def test_it_is_saved_and_loaded_bit_for_bit(tmp_path: Path, subtests) -> None:
    for scheme in ["projection", "sierpinski", "grid"]:
        with subtests.test(scheme=scheme):
            scores, y = draw(700)
            fitted = SimplexBinning(scheme).fit(scores, np.array(["cat", "dog", "owl"])[y])
            fitted.save(tmp_path / "map.json")
            loaded = calibrant.load(tmp_path / "map.json")
            assert loaded.map == fitted.map_
            assert loaded.transform(scores).tobytes() == fitted.transform(scores).tobytes()
            assert str(loaded.certificate) == str(fitted.certificate())
            assert loaded.certificate.check(scores, np.array(["cat", "dog", "owl"])[y])
            assert loaded.predict(scores[:3]).tolist() == fitted.predict(scores[:3]).tolist()


def test_a_document_that_contradicts_itself_is_refused() -> None:
    fitted = SimplexBinning(n_bins=3).fit(*draw(200))
    text = fitted.calibration_.to_json()
    Calibration.from_json(text)
    certificate = fitted.certificate()
    assert isinstance(certificate, Certificate)
    for right, wrong in (
        (f'"epsilon": {certificate.epsilon!r}', '"epsilon": 0.001'),
        ('"uncovered_rows": 2', '"uncovered_rows": -2'),
        ('"light": [0, 1]', '"light": [0, 7]'),
        ('"n": 198', '"n": 199'),
        ('"light": [0, 1]', '"light": []'),
        ('"uncovered_rows": 2', '"uncovered_rows": 1'),
        ('"uncovered_rows": 2', '"uncovered_rows": 3'),
        ('"sampling": "independent"', '"sampling": "grouped"'),
        ('"weight_type": "frequency"', '"weight_type": "importance"'),
        (f'"size": 2,\n    "directions": {fitted.map_.directions.tolist()}', '"size": 2,\n    "directions": []'),
    ):
        assert right in text
        with pytest.raises(DocumentError):
            Calibration.from_json(text.replace(right, wrong))


@pytest.mark.parametrize("classes", [3, 5])
def test_all_classes_together_are_no_surer_than_their_least_sure_class(classes: int) -> None:
    certificate = SimplexBinning(n_bins=3).fit(*draw(400, classes)).certificate()
    assert isinstance(certificate, Certificate)
    narrow = 1.9 * certificate.half_widths.reshape(-1, classes).max(axis=1)
    with pytest.raises(ValueError, match="at least twice the largest half-width"):
        replace(certificate, about=replace(certificate.about, distances=narrow), epsilon=float(narrow.max()))


def test_a_certificate_is_about_its_own_map_alone() -> None:
    one, other = SimplexBinning(n_bins=3).fit(*draw(200)), SimplexBinning(n_bins=3).fit(*draw(200, seed=3))
    certificate = one.certificate()
    assert isinstance(certificate, Certificate)
    assert certificate.describes(one.map_)
    assert not certificate.describes(other.map_)
    with pytest.raises(ValueError, match="not about this map"):
        calibrant.Calibration(other.map_, other.provenance_, certificate)
