"""The grid in rational arithmetic, guide tables against numpy's search, fingerprints that add."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics import (
    CHUNK,
    Grid,
    Guide,
    chunks,
    expit,
    fingerprint,
    float_keys,
    log_loss,
    logit,
    to_float32,
)

SPECIAL = [0.0, -0.0, 5e-324, 1e-310, 2.0**-1022, 2.0**-33, 2.0**-32, 0.25, 0.5, 0.75, 1 - 2.0**-32, 1 - 2.0**-33, 1.0]
BOUNDARIES = [b for s in SPECIAL for b in (s, np.nextafter(s, 0), np.nextafter(s, 1))]

unit_scores = st.one_of(
    st.floats(0.0, 1.0),
    st.sampled_from(BOUNDARIES),
    st.builds(lambda m, e: m * 2.0**-e, st.integers(0, 2**20).map(lambda k: k / 2**20), st.integers(0, 40)),
    st.builds(lambda m, e: 1.0 - m * 2.0**-e, st.integers(0, 2**20).map(lambda k: k / 2**20), st.integers(0, 40)),
)
all_bits = st.integers(0, 10)


def rational_cell(s: float, bits: int) -> tuple[int, int]:
    """Code and offset by the definition, in fractions."""
    x = Fraction(s)
    upper = x >= Fraction(1, 2)
    q = 1 - x if upper else x
    top = (31 << bits) + 2
    if q == 0:
        magnitude, offset = top, 0
    elif q < Fraction(1, 2**32):
        magnitude, offset = top - 1, int(q * 2**62)
    elif q == Fraction(1, 2):
        magnitude, offset = 0, 0
    else:
        octave = next(o for o in range(2, 33) if q >= Fraction(1, 2**o))
        position = int((q * 2**octave - 1) * 2**30)
        cell = ((32 - octave) << bits) + (position >> (30 - bits))
        magnitude, offset = (31 << bits) - cell, position % 2 ** (30 - bits)
    return magnitude if upper else -magnitude, offset


def cell_of(s: float, grid: Grid) -> tuple[int, int]:
    code, offset = grid.cells(np.array([s]))
    return int(code[0]), int(offset[0])


# ---------------------------------------------------------------------------------------------------------------- grid


@given(unit_scores, st.integers(0, 16))
def test_cells_are_those_of_rational_arithmetic(s, bits):
    assert cell_of(s, Grid(bits)) == rational_cell(s, bits)


def test_boundary_scores_are_where_rational_arithmetic_puts_them(subtests):
    for bits in range(17):
        with subtests.test(bits=bits):
            grid = Grid(bits)
            code, offset = grid.cells(np.array(BOUNDARIES))
            assert list(zip(code.tolist(), offset.tolist(), strict=True)) == [
                rational_cell(s, bits) for s in BOUNDARIES
            ]
            assert grid.codes(np.array(BOUNDARIES)).dtype == np.int32


@given(st.lists(unit_scores, min_size=2, max_size=30), all_bits)
def test_codes_ascend_with_the_score(scores, bits):
    codes = Grid(bits).codes(np.sort(np.array(scores)))
    assert (np.diff(codes) >= 0).all()
    assert np.abs(codes).max() <= Grid(bits).top


@given(st.integers(0, 2**53), all_bits)
def test_the_grid_mirrors_about_one_half(numerator, bits):
    s = numerator * 2.0**-53  # 1 - s is exact for these
    (code, offset), (mirrored, other) = cell_of(s, Grid(bits)), cell_of(1.0 - s, Grid(bits))
    assert (mirrored, other) == (-code, offset)


def test_lower_edges_are_the_smallest_doubles_of_every_cell(subtests):
    for bits in range(11):
        with subtests.test(bits=bits):
            grid = Grid(bits)
            codes = np.arange(-grid.top, grid.top + 1)
            edges = grid.lower_edges(codes)
            assert (np.diff(edges) > 0).all()
            np.testing.assert_array_equal(grid.codes(edges), codes)
            np.testing.assert_array_equal(grid.codes(np.nextafter(edges[1:], -1.0)), codes[:-1])
            assert (edges[0], edges[-1]) == (0.0, 1.0)


ranges = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(ranges, st.sampled_from([0, 3, 6]))
def test_lower_edges_on_another_range(span, bits):
    grid = Grid(bits, *span)
    codes = np.unique(grid.codes(np.linspace(*span, 200)))
    edges = grid.lower_edges(codes)
    np.testing.assert_array_equal(grid.codes(edges), codes)
    below = edges[1:]
    assert (grid.codes(np.nextafter(below, -np.inf)) < codes[1:]).all()


@given(st.lists(unit_scores, min_size=1, max_size=30), st.integers(0, 10), st.integers(0, 10))
def test_coarser_grids_nest(scores, fine, drop):
    coarse = max(fine - drop, 0)
    s = np.array(scores)
    code, offset = Grid(fine).cells(s)
    again, moved = Grid(fine).coarsen(code, offset, np.ones(len(s), dtype=np.int64), coarse)
    expected_code, expected_offset = Grid(coarse).cells(s)
    np.testing.assert_array_equal(again, expected_code)
    np.testing.assert_array_equal(moved, expected_offset)


@given(unit_scores, all_bits)
def test_a_cells_mean_score_is_good_to_its_thirtieth_bit(s, bits):
    grid = Grid(bits)
    code, offset = grid.cells(np.array([s]))
    got = float(grid.scores(code, offset.astype(float))[0])
    q = min(Fraction(s), 1 - Fraction(s))
    octave = max((Fraction(1, 2**o) for o in range(1, 32) if q >= Fraction(1, 2**o)), default=Fraction(1, 2**32))
    assert abs(Fraction(got) - Fraction(s)) <= octave / 2**30 + Fraction(1, 2**53)
    assert grid.codes(np.array([got]))[0] == code[0] or q < Fraction(1, 2**61)


def test_the_grid_has_the_size_it_says():
    grid = Grid()
    assert 2 * grid.top + 1 == 63_488 + 5
    assert 2 * Grid(4).top + 1 == 992 + 5


def test_grids_that_cannot_be_are_refused(subtests):
    for arguments in [
        (-1,),
        (17,),
        (10, 1.0, 1.0),
        (10, 2.0, 1.0),
        (10, 0.0, np.inf),
        (10, np.nan, 1.0),
        (10, -1.7e308, 1.7e308),
    ]:
        with subtests.test(arguments=arguments), pytest.raises(ValueError, match=r"bits|low must be below high"):
            Grid(*arguments)


# --------------------------------------------------------------------------------------------------------------- guide

finite = st.floats(allow_nan=False, allow_infinity=False)


def neighbors(center: float, count: int) -> list[float]:
    out = [center]
    while len(out) < count and out[-1] < np.finfo(np.float64).max:
        out.append(float(np.nextafter(out[-1], np.inf)))
    return out


cluster = st.builds(neighbors, finite, st.integers(1, 40))
knot_lists = st.one_of(
    st.lists(finite, max_size=40),
    st.lists(unit_scores, max_size=40),
    st.lists(cluster, min_size=1, max_size=3).map(lambda parts: [x for part in parts for x in part]),
    st.lists(st.integers(-20, 20).map(lambda k: k * 5e-324), max_size=20),
)


def around(knots: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # beyond the largest float comes infinity
        return np.concatenate([np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)])


def assert_located(knots: np.ndarray, x: np.ndarray) -> None:
    knots = np.unique(knots + 0.0)
    near = np.concatenate([x, around(knots), [0.0, -0.0, np.inf, -np.inf]])
    got = Guide(knots).locate(near)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, np.searchsorted(knots, near, side="right"))


@given(knot_lists, st.lists(finite, max_size=20))
def test_locate_is_searchsorted(knots, x):
    assert_located(np.array(knots, dtype=np.float64), np.array(x, dtype=np.float64))


def test_locate_among_many(subtests):
    for name, knots in {
        "many": np.random.default_rng(0).random(100_000),
        "signed": np.random.default_rng(1).normal(size=5_000) * 1e200,
        "rare": 10.0 ** -np.random.default_rng(2).uniform(0, 300, 5_000),
        "cluster": np.concatenate([0.3 + np.arange(3_000) * 2.0**-52, [1e-300, 1e300]]),
        "all floats": np.array([-1.7e308, 1.7e308]),
        "whole": np.arange(70_000, dtype=np.float64),
        "none": np.zeros(0),
    }.items():
        with subtests.test(name):
            rng = np.random.default_rng(3)
            assert_located(
                knots,
                np.concatenate([rng.random(5_000), rng.normal(size=500) * 1e200, 10.0 ** -rng.uniform(0, 300, 500)]),
            )


def test_locate_survives_nan():
    for knots in ([], [0.5], [-0.5, 0.5], [0.3, np.nextafter(0.3, 1), 1e300]):
        index = Guide(np.array(knots, dtype=np.float64)).locate(np.array([np.nan, -np.nan, 0.1]))
        assert ((index >= 0) & (index <= len(knots))).all()


# ------------------------------------------------------------------------------------------------------------- the rest


@given(st.lists(finite, max_size=50))
def test_float_keys_sort_as_floats_do(values):
    x = np.array(values, dtype=np.float64)
    keys = float_keys(x)
    np.testing.assert_array_equal(np.argsort(keys, kind="stable"), np.argsort(x + 0.0, kind="stable"))
    assert len(np.unique(keys)) == len(np.unique(x))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50))
def test_to_float32_keeps_order_and_stays_inside(values):
    p = np.sort(np.array(values))
    out = to_float32(p)
    assert out.dtype == np.float32
    assert (np.diff(out) >= 0).all()
    np.testing.assert_array_equal(out == 0, p == 0)
    np.testing.assert_array_equal(out == 1, p == 1)


def test_to_float32_keeps_order_at_the_ends(subtests):
    for pair in [(1e-46, 1e-40), (1e-46, 1e-45), (5e-324, 1e-39), (1 - 2.0**-53, 1.0), (1 - 2.0**-24, 1 - 2.0**-25)]:
        with subtests.test(pair=pair):
            low, high = to_float32(np.array(pair))
            assert 0 < low <= high


@given(st.floats(2.0**-32, 1 - 2.0**-32))
def test_expit_undoes_logit(p):
    assert float(expit(logit(np.array(p)))) == pytest.approx(p, rel=1e-12)


def test_expit_stays_inside(subtests):
    for z in [-np.inf, -1e308, -745.0, -36.0, 0.0, 36.0, 709.0, 1e308, np.inf]:
        with subtests.test(z=z):
            assert 0.0 < expit(np.array(z)) < 1.0
            assert expit(np.array(z)) + expit(np.array(-z)) == pytest.approx(1.0, rel=1e-15)


def test_log_loss_by_hand():
    p, n, events = np.array([0.25, 0.0, 1.0]), np.array([4, 3, 2]), np.array([1, 0, 2])
    assert log_loss(p, n, events) == pytest.approx(-np.log(0.25) - 3 * np.log(0.75), rel=1e-15)
    assert log_loss(np.array([0.0]), np.array([2]), np.array([1])) == np.inf
    assert log_loss(np.array([1.0]), np.array([2]), np.array([1])) == np.inf


def test_chunks_cover_everything_once(subtests):
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK]:
        with subtests.test(length=length):
            parts = [np.arange(length)[part] for part in chunks(length)]
            np.testing.assert_array_equal(np.concatenate([np.zeros(0, dtype=int), *parts]), np.arange(length))


keys = st.integers(-(2**62), 2**62)
rows = st.lists(st.tuples(keys, st.integers(1, 1000), st.integers(0, 1000)), min_size=1, max_size=20)


def print_of(cells: list[tuple[int, int, int]]) -> int:
    columns = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    return fingerprint(*(np.ascontiguousarray(column) for column in columns))


@given(rows, rows)
def test_fingerprints_add(a, b):
    assert print_of(a + b) == (print_of(a) + print_of(b)) % 2**64 == print_of(b + a)


@given(keys, st.integers(1, 10**6), st.integers(0, 10**6))
def test_one_changed_count_changes_the_fingerprint(key, n, events):
    assert print_of([(key, n, events)]) != print_of([(key, n + 1, events)])
    assert print_of([(key, n, events)]) != print_of([(key, n, events + 1)])
    assert print_of([(key, n, events)]) != print_of([(key + 1, n, events)])


def test_knots_side_by_side_and_scores_far_away(subtests):
    """Where differences of bit patterns would overflow."""
    for center in [0.7, -0.7, 1e300, -1e300, 5e-324, 0.0, 1.0]:
        with subtests.test(center=center):
            knots = np.array([center, np.nextafter(center, np.inf), np.nextafter(np.nextafter(center, np.inf), np.inf)])
            far = [-0.5, 0.5, 1e308, -1e308, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324]
            scores = np.concatenate([far, knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf)])
            for some in (knots, knots[:1], knots[:0]):
                np.testing.assert_array_equal(Guide(some).locate(scores), np.searchsorted(some, scores, side="right"))
