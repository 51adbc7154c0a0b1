"""Tallies against brute force over rows: merging, coarsening, splitting, questions, fingerprints."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrant.calibrators.binary.scaling import PlattScaling
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import CHUNK, Grid
from calibrant.solvers import pool_adjacent
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally, cluster_buckets

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

heaped = st.integers(0, 20).map(lambda k: k / 20)
any_score = st.one_of(
    heaped, st.floats(0.0, 1.0), st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 2.0**-32, 1 - 2.0**-53, 1.0])
)
row_lists = st.lists(st.tuples(any_score, st.integers(0, 1)), min_size=1, max_size=40)
weighted_lists = st.lists(st.tuples(any_score, st.integers(0, 1), st.integers(0, 5)), min_size=1, max_size=30)
grids = st.one_of(st.none(), st.integers(0, 12).map(Grid))


def tally_of(rows: list[tuple[Any, ...]], grid: Grid | None = None) -> Tally:
    """Of (score, label) rows, or of (score, label, count) rows."""
    columns = [np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)]
    weights = {"sample_weight": columns[2], "weight_type": "frequency"} if len(columns) == 3 else {}
    return Tally.from_arrays(columns[0], columns[1], score_type="probability", grid=grid, **weights)


def contents(tally: Tally) -> dict[str, Any]:
    cells = tally.cells
    names = ("keys", "n", "events", "offset", "rows", "row_events", "w2", "w2_events", "scores")
    return {name: getattr(cells, name).tolist() for name in names if getattr(cells, name) is not None}


def equal(a: Tally, b: Tally) -> None:
    assert contents(a) == contents(b)
    assert a.fingerprint == b.fingerprint
    assert (a.total, a.positives, a.counts) == (b.total, b.positives, b.counts)


# -------------------------------------------------------------------------------------------------------- what it holds


@given(row_lists)
def test_an_exact_tally_counts_distinct_scores(rows):
    tally = tally_of(rows)
    n, events = Counter(s for s, _ in rows), Counter(s for s, y in rows if y)
    assert tally.scores.tolist() == sorted(n)
    assert tally.n.tolist() == [n[s] for s in sorted(n)]
    assert tally.events.tolist() == [events[s] for s in sorted(n)]
    assert (tally.total, tally.positives, len(tally)) == (len(rows), sum(y for _, y in rows), len(n))
    assert tally.effective_size == len(rows)


@given(row_lists, st.integers(0, 12))
def test_a_gridded_tally_counts_cells(rows, bits):
    tally = tally_of(rows, Grid(bits))
    code, offset = Grid(bits).cells(np.array([s for s, _ in rows]))
    for k, key in enumerate(tally.cells.keys):
        here = code == key
        assert tally.n[k] == here.sum()
        assert tally.events[k] == sum(y for (_, y), inside in zip(rows, here, strict=True) if inside)
        assert tally.cells.offset[k] == offset[here].sum()
    assert tally.total == len(rows)
    means = [np.mean([s for (s, _), c in zip(rows, code, strict=True) if c == key]) for key in tally.cells.keys]
    np.testing.assert_allclose(tally.scores, means, rtol=0, atol=2.0**-30)


@given(weighted_lists, grids)
def test_counts_are_repetition(rows, grid):
    assume(any(w for _, _, w in rows))
    repeated = [(s, y) for s, y, w in rows for _ in range(w)]
    equal(tally_of(rows, grid), tally_of(repeated, grid))


# ------------------------------------------------------------------------------------------------------------- algebra


@given(row_lists, row_lists, row_lists, grids)
def test_merging_is_commutative_associative_and_the_whole(a, b, c, grid):
    x, y, z = (tally_of(rows, grid) for rows in (a, b, c))
    equal(x + y, y + x)
    equal((x + y) + z, x + (y + z))
    equal(x + y + z, tally_of(a + b + c, grid))
    equal(x, tally_of(a, grid))  # merging changed nothing


@given(row_lists, row_lists, st.one_of(st.none(), st.integers(4, 12).map(Grid)), st.integers(0, 4))
def test_coarsening_commutes_with_merging(a, b, grid, bits):
    x, y = tally_of(a, grid), tally_of(b, grid)
    equal((x + y).coarsen(bits), x.coarsen(bits) + y.coarsen(bits))
    equal(x.coarsen(bits), tally_of(a, Grid(bits)))


@given(row_lists)
def test_the_fingerprint_is_of_the_rows_whatever_their_form(rows):
    packed, compacted = tally_of(rows), tally_of(rows)
    assert len(compacted)  # compacts
    weighted = [(s, y, k) for (s, y), k in Counter((s + 0.0, y) for s, y in rows).items()]
    halves = (
        tally_of(rows[: len(rows) // 2] or rows[:1]) + tally_of(rows[len(rows) // 2 or 1 :])
        if len(rows) > 1
        else packed
    )
    prints = {t.fingerprint for t in (packed, compacted, tally_of(weighted), halves, tally_of(rows[::-1]))}
    assert len(prints) == 1


@given(row_lists, st.integers(0, 39))
def test_another_row_is_another_fingerprint(rows, place):
    place %= len(rows)
    s, y = rows[place]
    changed = [*rows[:place], (s, 1 - y), *rows[place + 1 :]]
    assert tally_of(rows).fingerprint != tally_of(changed).fingerprint
    assert tally_of(rows).fingerprint != tally_of([*rows, (s, y)]).fingerprint


DIFFERENT = {
    "edges": (
        Tally.from_table([10, 10], [1, 5], edges=[0.3]),
        Tally.from_table([10, 10], [1, 5], edges=[0.4]),
    ),
    "mean scores": (
        Tally.from_table([10, 10], [1, 5], edges=[0.3], scores=[0.1, 0.8]),
        Tally.from_table([10, 10], [1, 5], edges=[0.3], scores=[0.2, 0.8]),
    ),
    "place in the cell": (
        Tally.from_arrays([0.3, 0.6, 0.9], [0, 1, 1], grid=Grid(4)),
        Tally.from_arrays([0.301, 0.6, 0.9], [0, 1, 1], grid=Grid(4)),
    ),
    "kind": (
        Tally.from_arrays([0.3, 0.9], [0, 1], score_type="probability"),
        Tally.from_arrays([0.3, 0.9], [0, 1], score_type="logit"),
    ),
    "bits": (Tally.from_arrays([0.0, 1.0], [0, 1], grid=Grid(4)), Tally.from_arrays([0.0, 1.0], [0, 1], grid=Grid(5))),
}


def test_what_changes_a_map_changes_the_fingerprint(subtests):
    for name, (a, b) in DIFFERENT.items():
        with subtests.test(name):
            assert a.fingerprint != b.fingerprint


def test_importance_weights_keep_rows_and_squares():
    tally = Tally.from_arrays([0.2, 0.2, 0.7], [0, 1, 1], [0.5, 1.5, 2.0])
    assert (tally.n.tolist(), tally.events.tolist()) == ([2.0, 2.0], [1.5, 2.0])
    assert (tally.cells.rows.tolist(), tally.cells.row_events.tolist()) == ([2, 1], [1, 1])
    assert (tally.cells.w2.tolist(), tally.cells.w2_events.tolist()) == ([2.5, 4.0], [2.25, 4.0])
    rate = 3.5 / 4
    spread = (2.25 + 4) * (1 - rate) ** 2 + 0.25 * rate**2
    assert tally.effective_size == pytest.approx(16 * rate * (1 - rate) / spread)
    assert not tally.counts
    both = tally + Tally.from_arrays([0.2, 0.9], [0, 1])
    assert not both.counts
    assert (both.cells.rows.tolist(), both.cells.row_events.tolist()) == ([3, 1, 1], [1, 1, 1])
    assert both.cells.w2_events.tolist() == [2.25, 4.0, 1.0]
    rate = 4.5 / 6
    spread = (2.25 + 4 + 1) * (1 - rate) ** 2 + (0.25 + 1) * rate**2
    assert both.effective_size == pytest.approx(36 * rate * (1 - rate) / spread)
    gridded = Tally.from_arrays([0.2, 0.2, 0.7], [0, 1, 1], [0.5, 1.5, 2.0], grid=Grid())
    assert gridded.effective_size == pytest.approx(tally.effective_size)
    equal(tally.coarsen(10), gridded)


def test_the_effective_size_is_that_of_independent_rows_as_precise():
    """Weights that do not depend on the label: Kish's number. Down-sampled negatives: that of the whole population."""
    rng = np.random.default_rng(0)
    weight = rng.gamma(2.0, size=40_000)
    y = rng.random(40_000) < 0.3
    kish = weight.sum() ** 2 / (weight**2).sum()
    assert Tally.from_arrays(np.full(40_000, 0.3), y, weight).effective_size == pytest.approx(kish, rel=0.02)
    rare = rng.random(400_000) < 0.01
    kept = rare | (rng.random(400_000) < 0.1)
    sampled = Tally.from_arrays(np.full(int(kept.sum()), 0.5), rare[kept], np.where(rare[kept], 1.0, 10.0))
    variance = 1 / rare.sum() + 1 / (kept & ~rare).sum()  # of the log-odds of the rate
    assert sampled.effective_size == pytest.approx(1 / variance / 0.01 / 0.99, rel=0.03)
    one_class = Tally.from_arrays([0.2, 0.3], [1, 1], [1.0, 3.0], score_type="probability")
    assert one_class.effective_size == pytest.approx(16 / 10)


def test_events_in_their_own_unit_are_rows():
    tally = Tally.from_arrays([0.2, 0.2, 0.7], [0, 1, 1], [0.5, 1.5, 2.0])
    assert tally.in_event_rows().positives == pytest.approx(2.0)
    assert tally.in_event_rows().total == pytest.approx(4.0 * 2 / 3.5)
    assert tally.in_event_rows().effective_size == pytest.approx(tally.effective_size)
    counted = Tally.from_arrays([0.2, 0.7], [0, 1])
    assert counted.in_event_rows() is counted


PAIR = [(0.1, 0), (0.2, 1)]


def test_tallies_that_do_not_add(subtests):
    for name, (a, b, word) in {
        "resolution": (tally_of(PAIR), tally_of(PAIR, Grid()), "coarsen"),
        "grid": (tally_of(PAIR, Grid(4)), tally_of(PAIR, Grid()), "coarsen"),
        "kind": (Tally.from_arrays([0.1, 0.2], [0, 1], score_type="logit"), tally_of(PAIR), "logit"),
        "edges": (
            Tally.from_table([1, 1], [0, 1], edges=[0.5]),
            Tally.from_table([1, 1], [0, 1], edges=[0.6]),
            "edges",
        ),
    }.items():
        with subtests.test(name):
            with pytest.raises(InputError, match=word):
                a + b
            with pytest.raises(TypeError):
                a + 1


def test_coarsening_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match="at most as many bits"):
        tally_of([(0.1, 0)], Grid(4)).coarsen(5)
    with pytest.raises(InputError, match="bins"):
        Tally.from_table([1, 1], [0, 1], edges=[0.5]).coarsen(4)
    for kind, scores in (("logit", [-3.0, 2.0]), ("real", [0.5, 70.0])):
        with pytest.raises(InputError, match="range"):
            Tally.from_arrays(scores, [0, 1], score_type=kind).coarsen(10)
    with pytest.raises(InputError, match="range"):
        Tally.from_arrays([-3.0, 2.0], [0, 1], score_type="logit", grid=Grid(10, -1.0, 5.0))


@given(weighted_lists, grids, st.integers(0, 100), st.integers(0, 3))
def test_a_split_loses_no_row(rows, grid, share, seed):
    assume(any(w for _, _, w in rows))
    whole = tally_of(rows, grid)
    size = whole.total * share // 100
    part, rest = whole.split(size, seed)
    assert (part.total, rest.total) == (size, whole.total - size)
    both = part + rest
    assert (both.cells.keys.tolist(), both.n.tolist(), both.events.tolist()) == (
        whole.cells.keys.tolist(),
        whole.n.tolist(),
        whole.events.tolist(),
    )
    again = whole.split(size, seed)
    equal(part, again[0])
    equal(rest, again[1])


def test_a_split_of_very_many_rows():
    whole = Tally.from_table([2 * 10**9, 3 * 10**9], [10**6, 10**9], edges=[0.5])
    part, rest = whole.split(5 * 10**7, 1)
    assert part.total == pytest.approx(5 * 10**7, rel=1e-3)
    assert (part + rest).n.tolist() == whole.n.tolist()
    assert (part + rest).events.tolist() == whole.events.tolist()


def test_a_split_without_a_seed_is_fresh():
    whole = Tally.from_arrays(np.arange(200) / 200, np.arange(200) % 2)
    parts = [whole.split(100)[0].fingerprint for _ in range(3)]
    assert len(set(parts)) == 3
    assert len({whole.split(100, 7)[0].fingerprint for _ in range(3)}) == 1
    assert whole.split(100, 7)[0].fingerprint != whole.split(100, 8)[0].fingerprint


def test_only_counts_can_be_split():
    with pytest.raises(InputError, match="frequency"):
        Tally.from_arrays([0.2, 0.7], [0, 1], [0.5, 2.0]).split(1)


@pytest.mark.statistical
def test_a_split_is_a_draw_without_replacement():
    whole = tally_of([(0.2, 0, 6), (0.2, 1, 3), (0.8, 1, 3)])
    drawn = np.array([sum(whole.split(4, seed)[0].events) for seed in range(4000)])
    assert drawn.mean() == pytest.approx(4 * 6 / 12, abs=0.06)  # hypergeometric: mean 2, variance 8/11
    assert drawn.var() == pytest.approx(4 * 0.25 * 8 / 11, abs=0.08)


# ----------------------------------------------------------------------------------------------------------- questions


@given(
    row_lists, st.lists(st.one_of(any_score, st.floats(-3.0, 3.0), st.sampled_from([2.0, 1e300, -1e300])), max_size=8)
)
def test_partition_counts_rows_between_knots(rows, knots):
    inner = np.unique(np.array(knots, dtype=np.float64) + 0.0)
    scores, labels = np.array([s for s, _ in rows]), np.array([y for _, y in rows])
    bin_of = np.searchsorted(inner, scores, side="right")
    expected = np.bincount(bin_of, minlength=len(inner) + 1), np.bincount(bin_of[labels == 1], minlength=len(inner) + 1)
    compacted = tally_of(rows)
    assert len(compacted)
    for tally in (tally_of(rows), compacted, tally_of([(s, y, 1) for s, y in rows])):
        n, events = tally.partition(inner)
        assert (n.tolist(), events.tolist()) == (expected[0].tolist(), expected[1].tolist())


@given(row_lists, st.integers(0, 8), st.lists(any_score, max_size=6))
def test_partition_of_a_grid_at_its_own_edges(rows, bits, places):
    tally = tally_of(rows, Grid(bits))
    inner = np.unique(tally.grid.lower_edges(tally.grid.codes(np.array(places, dtype=np.float64))))
    n, events = tally.partition(inner)
    exact_n, exact_events = tally_of(rows).partition(inner)
    assert (n.tolist(), events.tolist()) == (exact_n.tolist(), exact_events.tolist())


def test_partition_refuses_to_cut_a_cell():
    with pytest.raises(InputError, match=r"edges holds 0\.30001, which lies inside a cell"):
        tally_of([(0.3, 0)], Grid()).partition(np.array([0.30001]))
    with pytest.raises(InputError, match="inside a cell"):
        Tally.from_table([1, 1], [0, 1], edges=[0.5]).partition(np.array([0.4]))


@given(weighted_lists, st.booleans())
def test_the_score_and_cell_of_each_rank(rows, gridded):
    repeated = sorted(s + 0.0 for s, _, w in rows for _ in range(w))
    assume(repeated)
    ranks = np.arange(1, len(repeated) + 1)
    expected = np.array(repeated)
    for tally in (tally_of(rows), tally_of([(s, y) for s, y, w in rows for _ in range(w)])):
        np.testing.assert_array_equal(tally.score_at(ranks), expected)
        np.testing.assert_array_equal(tally.score_at(ranks - 0.5), expected)
        begins, ends = tally.cell_at(ranks)
        np.testing.assert_array_equal(begins, expected)
        np.testing.assert_array_equal(ends, np.nextafter(expected, np.inf))
    if gridded:
        tally = tally_of(rows, Grid(5))
        begins, ends = tally.cell_at(ranks)
        codes = Grid(5).codes(expected)
        np.testing.assert_array_equal(begins, Grid(5).lower_edges(codes))
        assert (begins <= expected).all()
        assert (expected < ends).all()
        assert (ends[codes == Grid(5).top] == np.inf).all()
        inner = codes < Grid(5).top
        np.testing.assert_array_equal(Grid(5).codes(ends[inner]), codes[inner] + 1)
        np.testing.assert_array_equal(Grid(5).codes(np.nextafter(ends[inner], 0)), codes[inner])


@given(row_lists, grids)
def test_cells_lie_between_their_edges(rows, grid):
    tally = tally_of(rows, grid)
    low, high = tally.lower_edges, tally.upper_edges
    assert ((low <= tally.scores) & (tally.scores < high)).all()
    assert (high[:-1] <= low[1:]).all()
    inner = np.unique(np.concatenate([low, high[np.isfinite(high)]]))
    n, _ = tally.partition(inner)
    assert n[np.searchsorted(inner, low, side="right")].tolist() == tally.n.tolist()


def test_edges_of_cells_by_hand():
    exact = tally_of([(0.0, 0), (0.5, 1), (1.0, 1)])
    assert exact.upper_edges.tolist() == [5e-324, np.nextafter(0.5, 1), np.nextafter(1.0, 2)]
    grid = tally_of([(0.0, 0), (0.3, 1), (0.5, 1), (1.0, 1)], Grid(4))
    assert grid.lower_edges.tolist() == [0.0, 0.296875, 0.5, 1.0]
    assert grid.upper_edges.tolist() == [5e-324, 0.3125, np.nextafter(0.5, 1), np.inf]
    table = Tally.from_table([1, 0, 2], [0, 0, 1], edges=[0.3, 0.6])
    assert table.lower_edges.tolist() == [-np.inf, 0.6]
    assert table.upper_edges.tolist() == [0.3, np.inf]
    logits = Tally.from_arrays([-3.0, 2.0], [0, 1], score_type="logit", grid=Grid(4, -3.0, 2.0))
    assert logits.lower_edges[0] == -3.0
    assert logits.upper_edges[1] == np.inf
    assert logits.grid.codes(logits.lower_edges).tolist() == [-logits.grid.top, logits.grid.top]


# ------------------------------------------------------------------------------------------------------------- weights

SCORES, LABELS = [0.2, 0.2, 0.7, 0.9], [0, 1, 1, 0]


def test_whole_is_said_of_weights_and_not_of_sums(subtests):
    for grid in [None, Grid()]:
        for weight, whole in [
            ([1.0, 2.0, 3.0, 1.0], True),
            ([0.5, 0.5, 1.0, 1.0], False),
            ([0.5, 1.5, 2.0, 2.0], False),
            ([0.7, 0.1, 0.4, 9.0], False),
            ([1e16, 1.0, 1.0, 1.0], True),
            (None, True),
        ]:
            with subtests.test(grid=grid, weight=weight, whole=whole):
                tally = Tally.from_arrays(SCORES, LABELS, weight, grid=grid)
                assert tally.whole == whole
                assert tally.counts == (weight is None)
                counted = Tally.from_arrays(SCORES, LABELS, [1, 2, 3, 4], weight_type="frequency", grid=grid)
                assert counted.whole
                assert (tally + counted).whole == whole
                assert (counted + tally).whole == whole
                assert tally.coarsen(4).whole == whole
                assert tally.coarsen(4).counts == tally.counts
                assert (tally + Tally.from_arrays([0.3, 0.4], [0, 1], [0.5, 0.5], grid=grid)).whole is False


@pytest.mark.parametrize("grid", [None, Grid()], ids=["exact", "grid"])
def test_what_a_fit_sees(grid):
    counted = Tally.from_arrays(SCORES, LABELS, [1, 2, 3, 4], weight_type="frequency", grid=grid)
    assert counted.for_fitting() is counted
    seen = Tally.from_arrays(SCORES, LABELS, [1.0, 2.0, 3.0, 4.0], grid=grid).for_fitting()
    assert seen.counts
    assert (seen.n.dtype, seen.events.dtype) == (np.int64, np.int64)
    equal(seen, counted)
    halves = Tally.from_arrays(SCORES, LABELS, [0.5] * 4, grid=grid).for_fitting()
    assert not halves.counts
    plain = Tally.from_arrays(SCORES, LABELS, grid=grid)
    np.testing.assert_allclose(halves.n, plain.n, rtol=1e-12)
    np.testing.assert_allclose(halves.events, plain.events, rtol=1e-12)
    np.testing.assert_allclose(halves.scores, plain.scores, rtol=1e-12)
    assert halves.total == pytest.approx(halves.effective_size) == pytest.approx(4.0)


@given(weighted_lists, st.floats(0.01, 100), grids)
def test_what_a_fit_sees_has_no_unit(rows, factor, grid):
    kept = [(s, y, w / 3) for s, y, w in rows if w]
    assume(kept)
    scores, labels, weight = (np.array(column, dtype=np.float64) for column in zip(*kept, strict=True))
    tallies = [
        Tally.from_arrays(scores, labels, w, score_type="probability", grid=grid)
        for w in (weight, weight * factor * 1.0001)
    ]
    assume(not any(tally.whole for tally in tallies))
    seen, scaled = (tally.for_fitting() for tally in tallies)
    np.testing.assert_allclose(scaled.n, seen.n, rtol=1e-9)
    np.testing.assert_allclose(scaled.events, seen.events, rtol=1e-9, atol=1e-300)
    assert seen.total == pytest.approx(seen.effective_size)


# ---------------------------------------------------------------------------------------------- runs and chunk borders


def blocks(edges: np.ndarray, n: np.ndarray, events: np.ndarray) -> tuple[list[float], list[int], list[int]]:
    starts = pool_adjacent(n, events)
    return edges[starts].tolist(), np.add.reduceat(n, starts).tolist(), np.add.reduceat(events, starts).tolist()


def assert_runs_pool_alike(scores: np.ndarray, labels: np.ndarray) -> None:
    tally = Tally.from_arrays(scores, labels, score_type="probability")
    edges, n, events = tally.runs()
    assert (n.sum(), events.sum()) == (len(scores), labels.sum())
    distinct, place = np.unique(scores, return_inverse=True)
    by_score = np.bincount(place), np.bincount(place, labels).astype(np.int64)
    assert blocks(edges, n, events) == blocks(distinct, *by_score)
    assert tally.positives == labels.sum()
    assert (tally.n.tolist(), tally.events.tolist()) == (by_score[0].tolist(), by_score[1].tolist())
    np.testing.assert_array_equal(tally.scores, distinct)
    order = np.random.default_rng(0).permutation(len(scores))
    ones = np.ones(len(scores), dtype=np.int64)
    counted = Tally.from_arrays(scores[order], labels[order], ones, weight_type="frequency", score_type="probability")
    assert Tally.from_arrays(scores, labels, score_type="probability").fingerprint == counted.fingerprint


@given(row_lists)
def test_runs_lose_nothing_that_isotonic_regression_needs(rows):
    assert_runs_pool_alike(np.array([s + 0.0 for s, _ in rows]), np.array([y for _, y in rows]))


def test_ties_across_chunk_borders(subtests, full_size):
    length = 2 * CHUNK + 5
    patterns = {
        "alternating": np.arange(length) % 2,
        "random": np.random.default_rng(0).integers(0, 2, length),
        "falling": (np.arange(length) % CHUNK < CHUNK // 2).astype(int),
    }
    if full_size:
        patterns |= {"ones": np.ones(length, dtype=int), "zeros": np.zeros(length, dtype=int)}
    for offset in [-3, -2, -1, 0, 1]:
        for width in [2, 3, 5]:
            scores = np.arange(length) / length
            for border in (CHUNK, 2 * CHUNK, length):
                tied = slice(max(border + offset, 0), max(border + offset, 0) + width)
                scores[tied] = scores[min(tied.start, length - 1)]
            for pattern, labels in patterns.items():
                with subtests.test(pattern, offset=offset, width=width):
                    assert_runs_pool_alike(scores, labels)


def test_lengths_around_a_chunk(subtests):
    for length in [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK + 2, 2 * CHUNK, 2 * CHUNK + 1]:
        for values in [1, 3, 10**6]:
            with subtests.test(length=length, values=values):
                rng = np.random.default_rng(length)
                assert_runs_pool_alike(np.sort(rng.integers(0, values, length) / values), rng.integers(0, 2, length))


def test_partition_at_chunk_borders(subtests):
    for shift in [-2, -1, 0, 1, 2]:
        with subtests.test(shift=shift):
            length = 2 * CHUNK + 100
            scores, labels = np.arange(length) / length, np.random.default_rng(1).integers(0, 2, length)
            places = np.array([0, CHUNK + shift, CHUNK + 1 + shift, 2 * CHUNK + shift, length - 1])
            n, events = Tally.from_arrays(scores, labels, score_type="probability").partition(scores[places])
            assert n.tolist() == np.diff([0, *places, length]).tolist()
            assert events.tolist() == [int(part.sum()) for part in np.split(labels, places)]


def test_gridding_many_rows_in_chunks():
    rng = np.random.default_rng(2)
    scores, labels = rng.random((1 << 17) + 7), rng.integers(0, 2, (1 << 17) + 7)
    equal(Tally.from_arrays(scores, labels, grid=Grid(6)), Tally.from_arrays(scores, labels).coarsen(6))


def test_huge_counts_do_not_overflow(subtests):
    rows = {"scores": [0.374, 0.9], "y": [0, 1], "weight_type": "frequency"}

    def doubled(grid: Grid) -> Tally:
        tally = Tally.from_arrays(**rows, sample_weight=[2**32, 1], grid=grid)
        np.testing.assert_allclose(tally.scores, [0.374, 0.9], atol=2.0**-30)
        for _ in range(12):
            tally = tally + tally
        return tally

    ways = {
        "gridded": lambda grid: Tally.from_arrays(**rows, sample_weight=[2**44, 1], grid=grid),
        "coarsened": lambda grid: Tally.from_arrays(**rows, sample_weight=[2**44, 1]).coarsen(grid),
        "merged": doubled,
    }
    for grid in [Grid(), Grid(4), Grid(0)]:
        for name, way in ways.items():
            with subtests.test(name, grid=f"{grid.bits} bits"), pytest.raises(InputError, match="64 bits"):
                way(grid)


def test_huge_counts_below_the_smallest_octave_do_not_overflow(subtests):
    """There offsets use all 30 bits, whatever the grid."""
    for score in [1e-10, 1 - 1e-10]:
        for grid in [Grid(), Grid(16), Grid(0)]:
            with subtests.test(score=score, grid=f"{grid.bits} bits"):
                rows = {"scores": [score, 0.4], "y": [0, 1], "weight_type": "frequency", "grid": grid}
                with pytest.raises(InputError, match="64 bits"):
                    Tally.from_arrays(**rows, sample_weight=[2**34, 1])
                with pytest.raises(InputError, match="64 bits"):
                    Tally.from_arrays(**(rows | {"grid": None}), sample_weight=[2**34, 1]).coarsen(grid)
                fits = Tally.from_arrays(**rows, sample_weight=[2**32, 1])
                np.testing.assert_allclose(
                    fits.scores, [score, 0.4] if score < 0.5 else [0.4, score], rtol=0, atol=2.0**-30
                )
                assert fits.cells.offset.min() >= 0
                with pytest.raises(InputError, match="64 bits"):
                    fits + fits


# -------------------------------------------------------------------------------------------------------------- tables

GOOD = {"n": [10, 20, 30], "events": [1, 5, 20], "edges": [0.3, 0.6], "scores": [0.1, 0.4, 0.8]}


def test_tables_with_mistakes(subtests):
    for change, word in [
        ({"n": [10, 20]}, "bins"),
        ({"events": [1, 5]}, "bins"),
        ({"edges": [0.3]}, "edges"),
        ({"edges": [0.3, 0.3]}, "edges"),
        ({"edges": [0.6, 0.3]}, "edges"),
        ({"edges": [0.3, np.nan]}, "edges"),
        ({"edges": [0.3, np.inf]}, "edges"),
        ({"edges": [-1.7e308, np.inf]}, "edges"),
        ({"events": [1, 25, 20]}, "bin 1"),
        ({"n": [10, 20.5, 30]}, "n must hold integers from 0"),
        ({"n": [10, -20, 30]}, "n must hold integers from 0"),
        ({"n": [10, np.nan, 30]}, "n must hold integers from 0"),
        ({"n": [10, np.inf, 30]}, "n "),
        ({"n": []}, "n "),
        ({"n": [[10, 20, 30]]}, "n "),
        ({"scores": [0.1, 0.4]}, "scores"),
        ({"scores": [0.1, np.nan, 0.8]}, "scores"),
        ({"scores": [0.8, 0.4, 0.1]}, "scores"),
        ({"scores": [0.1, 0.4, 80.0]}, "scores"),
        ({"scores": [0.1, 0.2, 0.8]}, "scores"),
    ]:
        with subtests.test(change=change, word=word), pytest.raises(InputError, match=word):
            Tally.from_table(**(GOOD | change))


def test_a_users_own_table():
    tally = Tally.from_table(**GOOD)
    assert (tally.resolution, tally.total, tally.positives, len(tally)) == ("bins", 60, 26, 3)
    assert tally.lower_edges.tolist() == [-np.inf, 0.3, 0.6]
    assert tally.scores.tolist() == GOOD["scores"]
    assert [part.tolist() for part in tally.partition(np.array([0.6]))] == [[30, 30], [6, 20]]
    twice = tally + tally
    assert twice.n.tolist() == [20, 40, 60]
    np.testing.assert_allclose(twice.scores, GOOD["scores"], rtol=1e-15)
    with pytest.raises(InputError, match="scores="):
        _ = Tally.from_table(**(GOOD | {"scores": None})).scores
    assert Tally.from_table([5], [2], edges=[]).partition(np.zeros(0))[0].tolist() == [5]


def test_empty_bins_keep_their_place():
    tally = Tally.from_table([10, 0, 10], [1, 0, 5], edges=[0.3, 0.6], scores=[0.1, 0.4, 0.8])
    assert tally.partition(np.array([0.3, 0.6]))[0].tolist() == [10, 0, 10]
    edges, n, _ = tally.runs()
    assert (n > 0).all()
    assert len(edges) == len(n)
    assert np.isfinite(PlattScaling().fit_tally(tally).transform([0.2, 0.9])).all()
    means = (tally + tally).scores
    assert (np.diff(means) > 0).all()


def test_repr_says_what_it_is():
    assert "3 rows, 2 events" in repr(tally_of([(0.1, 0), (0.2, 1), (0.3, 1)]))
    assert "grid of 10 bits" in repr(tally_of([(0.1, 0)], Grid()))
    assert "weight" in repr(Tally.from_arrays([0.2, 0.7], [0, 1], [0.5, 2.0]))


# -------------------------------------------------------------------------------------------------------------- groups


@given(st.lists(st.tuples(any_score, st.integers(0, 1), st.sampled_from("abc")), min_size=1, max_size=40), grids)
def test_groups_side_by_side(rows, grid):
    scores, labels, groups = (np.array(column) for column in zip(*rows, strict=True))
    both = GroupedTally.from_arrays(scores, labels, groups=groups, score_type="probability", grid=grid)
    assert list(both) == sorted(set(groups))
    for name, tally in both.items():
        equal(tally, tally_of([(s, y) for s, y, g in rows if g == name], grid))
    equal(both.total(), tally_of([(s, y) for s, y, _ in rows], grid))
    half = len(rows) // 2
    if half:
        parts = [
            GroupedTally.from_arrays(scores[p], labels[p], groups=groups[p], score_type="probability", grid=grid)
            for p in (slice(half), slice(half, None))
        ]
        merged = parts[0] + parts[1]
        assert set(merged) == set(both)
        for name in both:
            equal(merged[name], both[name])


def test_grouped_defaults_and_limits():
    both = GroupedTally.from_arrays([0.2, 0.7], [0, 1], groups=["x", "y"])
    assert both["x"].grid == SEGMENT_GRID
    assert repr(both) == "GroupedTally(2 groups, 2 rows)"
    with pytest.raises(InputError, match="no group"):
        GroupedTally({}).total()
    with pytest.raises(KeyError):
        both["z"]
    with pytest.raises(TypeError):
        both + 1
    weighted = GroupedTally.from_arrays(
        [0.2, 0.7, 0.9], [0, 1, 1], [3, 0, 2], groups=["x", "y", "x"], weight_type="frequency"
    )
    assert {name: tally.total for name, tally in weighted.items()} == {"x": 5}


@given(st.lists(st.one_of(st.text("aé漢😀 "), st.text("ab0")), min_size=1, max_size=20))
def test_cluster_buckets_by_hand(ids):
    expected = [int(hashlib.md5(name.encode()).hexdigest()[:8], 16) % 200 for name in ids]
    assert cluster_buckets(np.array(ids, dtype=object)).tolist() == expected


def test_cluster_buckets_of_numbers_bytes_and_floats():
    expected = [int(hashlib.md5(str(k).encode()).hexdigest()[:8], 16) % 200 for k in (7, -3, 7, 12345678901234)]
    assert cluster_buckets([7, -3, 7, 12345678901234]).tolist() == expected
    assert cluster_buckets(["7", "-3", "7", "12345678901234"]).tolist() == expected
    with pytest.raises(InputError, match="integers or strings"):
        cluster_buckets([1.5, 2.0])
    with pytest.raises(InputError, match="integers or strings"):
        cluster_buckets(np.array([b"7"]))


def test_one_class_is_warned_about_once():
    with pytest.warns(CalibrantWarning, match="one class"):
        Tally.from_arrays([0.1, 0.2], [1, 1])
