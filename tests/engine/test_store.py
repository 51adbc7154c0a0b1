"""The store of tallies: what comes out is what went in, whatever happens to the files in between."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrant import HistogramBinning
from calibrant.engine.store import parquet as day_files
from calibrant.engine.store import store as store_module
from calibrant.engine.store.sealed import sealed
from calibrant.engine.store.store import TallyStore
from calibrant.export.errors import DocumentError
from calibrant.guarantees.origins import FIXED_BINS
from calibrant.messages import CalibrantWarning, InputError
from calibrant.numerics import Grid
from calibrant.tallies import SEGMENT_GRID, Cells, GroupedTally, Tally

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DAY = date(2026, 3, 1)


def rows(seed: int, n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    scores = np.append(rng.beta(0.5, 2.0, n), [0.0, 0.5, 1.0, 1e-12])
    return scores, (rng.random(len(scores)) < scores).astype(int)


def one(seed: int = 0, n: int = 200, grid: Grid | None = SEGMENT_GRID, weight: Any = None) -> Tally:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one class only
        return Tally.from_arrays(*rows(seed, n), weight, grid=grid)


def grouped(seed: int = 0, keys: tuple[Any, ...] = ("de", "fr", "it")) -> GroupedTally:
    return GroupedTally({key: one(seed + 100 * place) for place, key in enumerate(keys)})


def assert_same(a: Mapping[Any, Tally] | Tally, b: Mapping[Any, Tally] | Tally) -> None:
    """Bit for bit, dtypes included; real weights to 1e-12, because sums may come in another order."""
    if isinstance(a, Tally):
        a, b = {None: a}, {None: b}
    assert a.keys() == b.keys()
    for key in a:
        assert (a[key].counts, a[key].whole, a[key].grid, a[key].score_type) == (
            (b[key].counts, b[key].whole, b[key].grid, b[key].score_type)
        )
        for name in ("keys", "n", "events", "offset", "rows", "row_events", "w2", "w2_events"):
            x, y = getattr(a[key].cells, name), getattr(b[key].cells, name)
            assert (x is None) == (y is None)
            if x is not None:
                assert x.dtype == y.dtype
                np.testing.assert_allclose(x, y, rtol=1e-12 if x.dtype.kind == "f" else 0.0)


def file_of(store: TallyStore, day: date = DAY) -> Path:
    return store.path / "days" / f"day={day}" / "tally.parquet"


@pytest.fixture
def store(tmp_path: Path) -> TallyStore:
    """Two days of three segments."""
    store = TallyStore(tmp_path / "store", by="land")
    store.add(DAY, grouped(1))
    store.add(DAY + timedelta(days=1), grouped(2))
    return store


# --- what goes in comes out -------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[GroupedTally]:
    """Days of random segments, each day with or without importance weights."""
    days = []
    for _ in range(draw(st.integers(1, 4))):
        keys = draw(st.lists(st.text(max_size=3), min_size=1, max_size=4, unique=True))
        weights = draw(st.sampled_from(["none", "counts", "whole", "real"]))
        tallies = {}
        for key in keys:
            seed = draw(st.integers(0, 2**31))
            rng = np.random.default_rng(seed)
            n = draw(st.integers(1, 30))
            scores = rng.choice([0.0, 0.1, 0.100001, 0.5, 0.9, 1.0, rng.random()], n)
            y = np.append(rng.integers(0, 2, n), [0, 1])
            w = {"none": None, "real": rng.random(n + 2) + 0.01}.get(weights, rng.integers(1, 9, n + 2).astype(float))
            meaning: Any = "frequency" if weights == "counts" else "importance"
            tallies[key] = Tally.from_arrays(
                np.append(scores, [0.2, 0.8]), y, w, weight_type=meaning, grid=SEGMENT_GRID
            )
        days.append(GroupedTally(tallies))
    return days


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(days=histories(), dense=st.booleans())
def test_a_window_is_the_sum_of_its_days(tmp_path_factory, monkeypatch, days, dense):
    monkeypatch.setattr(day_files, "DENSE", 1 << 24 if dense else 2_000)  # the second: room for two segments
    store = TallyStore(tmp_path_factory.mktemp("store"), by="land")
    for place, day in enumerate(days):
        assert store.add(DAY + timedelta(days=place), day)
    counted = [day for day in days if next(iter(day.values())).counts]
    weighted = [day for day in days if not next(iter(day.values())).counts]
    expected = reduce(GroupedTally.__add__, counted, GroupedTally({})) + reduce(
        GroupedTally.__add__, weighted, GroupedTally({})
    )
    assert_same(TallyStore(store.path).window(), expected)
    for place, day in enumerate(days):
        assert_same(store.window(DAY + timedelta(days=place), DAY + timedelta(days=place)), day)


def counted(rows: int, grid: Grid) -> Tally:
    return Tally(Cells(np.array([-5], dtype=np.int32), *np.array([[rows], [1], [0]])), grid=grid, resolution="grid")


def test_counts_beyond_doubles_add_up_exactly(tmp_path):
    store = TallyStore(tmp_path, by="land", grid=Grid(bits=16))
    for place in range(15):  # 15 (2^45 + 1) rows: doubles would still do; the offsets, 2^59 and an odd one, would not
        tally = counted(2**45 + 1, store.grid)
        tally.cells.offset[:] = 2**58 + 1
        store.add(DAY + timedelta(days=place), GroupedTally({"de": tally}))
    cells = store.window()["de"].cells
    assert (cells.n.tolist(), cells.offset.tolist()) == ([15 * (2**45 + 1)], [15 * (2**58 + 1)])
    assert int(float(15 * (2**58 + 1))) != 15 * (2**58 + 1)


def test_counts_that_do_not_fit_are_refused_and_do_not_wrap(tmp_path):
    store = TallyStore(tmp_path)
    for place in range(3):
        store.add(DAY + timedelta(days=place), counted(2**36, SEGMENT_GRID))
    with pytest.raises(InputError, match="sums on this grid exceed 64 bits"):
        store.window()


@pytest.mark.parametrize(
    ("by", "keys"),
    [
        (
            "a",
            (
                "",
                "de",
                "Ünïcode ✓",
                "quo'te\"s",
                "sl/ash\\es",
                "day=2026-01-01",
                "nul\0",
                "new\nline",
                " ",
                "é",
                "e\u0301",
            ),
        ),
        ("a", (-(2**63), -1, 0, 7, 2**63 - 1)),
        ("a", (False, True)),
        ("a", (date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31))),
        (("a", "b.c d"), (("x", 1), ("x", 2), ("y", 1))),
        (("a", "b", "c"), (("x", True, date(2026, 1, 1)), ("x", False, date(2026, 1, 1)))),
    ],
    ids=["text", "int", "bool", "date", "two", "three"],
)
def test_segments_of_every_type_come_back(tmp_path, by, keys):
    store = TallyStore(tmp_path, by=by)
    day = grouped(3, keys)
    assert store.add(DAY, day)
    assert not store.add(DAY, day)
    assert_same(store.window(), day)
    assert list(store.window()) == sorted(keys)
    for key in keys:
        assert_same(store.window(segments=[key]), {key: day[key]})


def test_numpy_keys_are_plain_in_the_store(tmp_path):
    store = TallyStore(tmp_path, by="a")
    store.add(DAY, grouped(0, (np.int64(3), np.int64(5))))
    assert [type(key) for key in store.window()] == [int, int]


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 204)])
def test_a_store_without_segments_keeps_one_tally_a_day(tmp_path, weight):
    store = TallyStore(tmp_path)
    store.add(DAY, one(1, weight=weight))
    store.add("2026-03-02", one(2, weight=weight))
    assert_same(store.window(), one(1, weight=weight) + one(2, weight=weight))


def test_a_day_of_one_row(tmp_path):
    store = TallyStore(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tally = Tally.from_arrays([1.0], [1], grid=SEGMENT_GRID)
    store.add(DAY, tally)
    assert_same(store.window(), tally)


def test_logits_go_on_a_grid_of_their_range(tmp_path):
    grid = Grid(6, -8.0, 8.0)
    tally = Tally.from_arrays([-2.0, 0.1, 3.0], [0, 1, 1], score_type="logit", grid=grid)
    TallyStore(tmp_path, grid=grid, score_type="logit").add(DAY, tally)
    assert_same(TallyStore(tmp_path).window(), tally)


def test_reading_one_segment_skips_most_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "ROW_GROUP", 500)
    keys = tuple(f"s{place:03}" for place in range(100))
    store, day = TallyStore(tmp_path, by="a"), grouped(0, keys)
    store.add(DAY, day)
    with pq.ParquetFile(file_of(store)) as file:
        assert file.num_row_groups > 10
        assert len(day_files.groups_with(file, ("a",), {("s042",)})) <= 2
        assert day_files.groups_with(file, ("a",), {("zz",)}) == []
    assert_same(store.window(segments=["s042", "s099"]), {key: day[key] for key in ("s042", "s099")})


def test_segments_without_rows_are_absent(store):
    assert list(store.window(segments=["de", "nowhere"])) == ["de"]
    assert list(store.window(segments=[])) == []


# --- windows ----------------------------------------------------------------------------------------------------------


def test_both_ends_of_a_window_belong_to_it_and_gaps_are_named(tmp_path):
    store = TallyStore(tmp_path)
    for day in (1, 2, 5):
        store.add(date(2026, 3, day), one(day))
    assert store.days == [date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 5)]
    with pytest.warns(CalibrantWarning, match=r"2 of the 4 days .* are missing \(2026-03-03 to 2026-03-04\)"):
        assert_same(store.window("2026-03-02", "2026-03-05"), one(2) + one(5))
    assert_same(store.window(last=date(2026, 3, 1)), one(1))
    with pytest.warns(CalibrantWarning, match="2 of the 3 days"):
        assert_same(store.window(first="2026-03-03"), one(5))
    assert store.missing() == [date(2026, 3, 3), date(2026, 3, 4)]
    assert store.missing("2026-03-05", "2026-03-06") == [date(2026, 3, 6)]
    with pytest.raises(InputError, match="first='2026-03-03' and last='2026-03-04' select no day of the store"):
        store.window("2026-03-03", "2026-03-04")
    with pytest.raises(InputError, match="is after last="):
        store.window("2026-03-03", "2026-03-01")


def test_a_window_on_fewer_bits_is_the_coarsened_window(subtests, store):
    for bits in [0, 3, 4]:
        with subtests.test(bits=bits):
            expected = {key: (grouped(1) + grouped(2))[key].coarsen(bits) for key in grouped()}
            assert_same(store.window(bits=bits), expected)


def test_a_window_on_more_bits_is_refused(store):
    with pytest.raises(InputError, match="at most as many bits"):
        store.window(bits=5)


def test_an_empty_store_has_no_days_and_no_window(tmp_path):
    store = TallyStore(tmp_path / "none", by="land")
    assert store.days == []
    assert not store.path.exists()
    assert store.missing(DAY, DAY) == [DAY]
    for ends in [(), (DAY, DAY)]:
        with pytest.raises(InputError, match=r"no day|in an empty store"):
            store.window(*ends)


def test_what_is_not_a_day_is_refused(subtests, store):
    for day in ["yesterday", 3, None, datetime(2026, 3, 1, 12), "2026-02-30", np.datetime64("NaT")]:
        with subtests.test(day=day), pytest.raises(InputError, match="is not a day"):
            store.add(day, grouped())


@pytest.mark.parametrize("day", ["2026-04-01", datetime(2026, 4, 1), np.datetime64("2026-04-01T00:00:00", "ns")])
def test_days_come_as_text_dates_and_midnights(store, day):
    assert store.add(day, grouped())
    assert store.days[-1] == date(2026, 4, 1)


# --- adding twice, replacing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replace", [False, True])
def test_adding_twice_changes_nothing(store, replace):
    path = file_of(store)
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    assert not store.add(DAY, grouped(1), replace=replace)
    reordered = GroupedTally(dict(reversed(list(grouped(1).items()))))
    assert not store.add(DAY, reordered, replace=replace)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_other_content_needs_replace(store):
    with pytest.raises(InputError, match=r"2026-03-01.*replace=True"):
        store.add(DAY, grouped(9))
    assert_same(store.window(DAY, DAY), grouped(1))
    assert store.add(DAY, grouped(9), replace=True)
    assert_same(store.window(DAY, DAY), grouped(9))


def test_the_same_numbers_under_other_segments_are_other_content(store):
    with pytest.raises(InputError, match="replace=True"):
        store.add(DAY, GroupedTally(dict(zip("abc", grouped(1).values(), strict=True))))


# --- what may be added ------------------------------------------------------------------------------------------------


def test_finer_tallies_are_coarsened_and_exact_ones_put_on_the_grid(tmp_path):
    store = TallyStore(tmp_path)
    store.add(DAY, one(1, grid=Grid(10)))
    assert not store.add(DAY, one(1, grid=None))
    assert_same(store.window(), one(1))


def test_what_the_store_cannot_keep_is_refused_in_a_sentence(subtests, store):
    for tallies, message in [
        (one(), "must be a GroupedTally by land"),
        (GroupedTally({}), "no rows"),
        (grouped(0, (1, 2)), "column 'land', whose values are string in the store"),
        (grouped(0, ("a", 1)), "mix int and str"),
        (grouped(0, (("a", "b"),)), "must be text, integers, booleans or dates"),
        (grouped(0, (None,)), "must be text"),
        (grouped(0, (0.5,)), "must be text"),
        (grouped(0, ("\ud800",)), "cannot be written"),
        (GroupedTally({"a": one(grid=Grid(2))}), "coarser grid"),
        (GroupedTally({"a": Tally.from_table([3, 4], [1, 2], edges=[0.5])}), "is a table of bins"),
        (
            GroupedTally({"a": Tally.from_arrays([-1.0, 2.0], [0, 1], score_type="logit")}),
            "got logit scores",
        ),
        (GroupedTally({"a": one(), "b": one(weight=np.full(204, 0.5))}), "mix frequency and importance weights"),
    ]:
        with subtests.test(message):
            with pytest.raises(InputError, match=message):
                store.add("2026-03-09", tallies)
            assert len(store.days) == 2
            assert not list(store.path.glob(".*.tmp"))


def test_segments_need_as_many_values_as_columns(tmp_path):
    with pytest.raises(InputError, match="must be named by 2 values"):
        TallyStore(tmp_path, by=["a", "b"]).add(DAY, grouped())
    with pytest.raises(InputError, match="must be a Tally"):
        TallyStore(tmp_path).add(DAY, grouped())


def test_asking_for_segments_of_another_type_is_refused(store):
    with pytest.raises(InputError, match="are string in the store, and 3 is not"):
        store.window(segments=[3])
    with pytest.raises(InputError, match="a list of keys"):
        store.window(segments="de")


# --- store.json -------------------------------------------------------------------------------------------------------


def test_a_store_knows_itself(tmp_path):
    made = TallyStore(tmp_path, by=["a", "b"], grid=Grid(5))
    made.add(DAY, GroupedTally({("x", 1): one(grid=Grid(5))}))
    opened = TallyStore(tmp_path)
    assert (opened.by, opened.grid, opened.score_type) == (("a", "b"), Grid(5), "probability")
    assert TallyStore(tmp_path, by=["a", "b"]).grid == Grid(5)
    assert "1 days" in repr(opened)


def test_contradictory_arguments_are_refused(subtests, store):
    for options in [{"by": "b"}, {"by": ()}, {"grid": Grid()}, {"score_type": "logit"}, {"grid": Grid(4, 0, 2)}]:
        with (
            subtests.test(options=options),
            pytest.raises(InputError, match=f"leave {next(iter(options))} out"),
        ):
            TallyStore(store.path, **options)


def test_two_makers_of_one_store_must_agree(tmp_path):
    first, second = TallyStore(tmp_path, by="a"), TallyStore(tmp_path, by="b")
    first.add(DAY, grouped())
    with pytest.raises(InputError, match="leave by out"):
        second.add("2026-03-02", grouped())


def test_names_that_clash_are_refused(subtests, tmp_path):
    for by in ["n", "CODE", "day", "", ("a", "A"), ("a", "a")]:
        with (
            subtests.test(by=by),
            pytest.raises(InputError, match=r"uses the name .* twice, or .* of the store's own columns"),
        ):
            TallyStore(tmp_path, by=by)


def test_kinds_and_grids_must_fit(tmp_path):
    with pytest.raises(InputError, match="is not one for logit scores"):
        TallyStore(tmp_path, score_type="logit")


def changed(**fields: Any) -> Callable[[str], str]:
    return lambda text: json.dumps(json.loads(text) | fields)


def test_a_damaged_description_is_one_clear_error(subtests, store):
    path = store.path / "store.json"
    whole = path.read_text()
    damages = [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: "[" * 100_000,
        lambda text: "\ud800",
        changed(format=2),
        changed(format=True),
        changed(format="1"),
        changed(score_type="pickle"),
        changed(score_type="logit"),
        changed(by="land"),
        changed(by=[1]),
        changed(by=["n"]),
        changed(by=["land", "land"]),
        changed(grid={"bits": 4}),
        changed(grid={"bits": True, "low": 0.0, "high": 1.0}),
        changed(grid={"bits": 99, "low": 0.0, "high": 1.0}),
        changed(grid={"bits": 4, "low": float("nan"), "high": 1.0}),
        changed(grid={"bits": 4, "low": 1.0, "high": 1.0}),
    ]
    for number, damage in enumerate(damages):
        with subtests.test(number=number):
            path.write_bytes(damage(whole).encode("utf-8", "surrogatepass"))
            with pytest.raises(DocumentError, match=r"store\.json"):
                TallyStore(store.path)


# --- files ------------------------------------------------------------------------------------------------------------


def rewritten(store: TallyStore, change: Callable[[Any], Any], about: Mapping[str, Any] | None = None) -> None:
    """A day's file with other content or metadata, and the hash that fits."""
    path = file_of(store)
    table = pq.read_table(path, partitioning=None)
    metadata = json.loads(table.schema.metadata[b"calibrant"])
    del metadata["sha256"]
    path.write_bytes(sealed(change(table), metadata | dict(about or {})))


def with_values(name: str, edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(table: Any) -> Any:
        place = table.schema.get_field_index(name)
        return table.set_column(place, name, pa.array(edit(table.column(name).to_numpy().copy())))

    return change


def first_is(value: Any) -> Callable[[Any], Any]:
    def edit(values: Any) -> Any:
        values[0] = value
        return values

    return edit


HOSTILE: Mapping[str, Callable[[Any], Any]] = {
    "a column less": lambda table: table.drop_columns(["offset"]),
    "a column more": lambda table: table.append_column("x", table.column("n")),
    "columns swapped": lambda table: table.select(["land", "code", "events", "n", "offset"]),
    "a code outside the grid": with_values("code", first_is(-SEGMENT_GRID.top - 1)),
    "the least code": with_values("code", first_is(-(2**31))),
    "n of nought": with_values("n", first_is(0)),
    "negative n": with_values("n", first_is(-5)),
    "huge n": with_values("n", lambda n: np.full(len(n), 2**62)),
    "events beyond n": with_values("events", first_is(10**6)),
    "negative events": with_values("events", first_is(-1)),
    "negative offset": with_values("offset", first_is(-1)),
    "huge offset": with_values("offset", first_is(2**62)),
    "codes of another type": with_values("code", lambda code: code.astype(np.int64)),
    "counts as doubles": with_values("n", lambda n: n.astype(np.float64)),
    "missing values": with_values("n", lambda n: [None, *n[1:].tolist()]),
    "segments of floats": with_values("land", lambda land: np.arange(len(land), dtype=np.float64)),
    "missing segments": with_values("land", lambda land: [None, *land[1:].tolist()]),
    "backwards": lambda table: table.take(np.arange(table.num_rows)[::-1]),
    "a row twice": lambda table: table.take([0, *range(table.num_rows)]),
    "all rows twice": lambda table: pa.concat_tables([table, table]),
    "segments unsorted": lambda table: table.sort_by([("land", "descending"), ("code", "ascending")]),
    "no rows": lambda table: table.slice(0, 0),
    "nested": lambda table: pa.table({"land": [{"a": 1}], **{k: [1] for k in ("code", "n", "events", "offset")}}),
}


def test_a_hostile_file_is_one_clear_error(subtests, store):
    whole = file_of(store).read_bytes()
    for name, change in HOSTILE.items():
        with subtests.test(name):
            file_of(store).write_bytes(whole)
            rewritten(store, change)
            with pytest.raises(DocumentError, match=r"tally\.parquet"):
                store.window()


def test_a_file_that_says_it_is_something_else_is_refused(subtests, store):
    whole = file_of(store).read_bytes()
    for about in [
        {"grid": {"bits": 5, "low": 0.0, "high": 1.0}},
        {"day": "2026-03-02"},
        {"score_type": "logit"},
        {"format": 2},
        {"by": ["other"]},
        {"weight_type": "importance"},
        {"weight_type": "none"},
        {"more": 1},
    ]:
        with subtests.test(about=about):
            file_of(store).write_bytes(whole)
            rewritten(store, lambda table: table, about)
            with pytest.raises(DocumentError, match=r"tally\.parquet"):
                store.window()


def test_a_rewritten_file_that_is_right_is_read(store):
    """Or the two tests above would prove nothing."""
    rewritten(store, lambda table: table)
    assert_same(store.window(DAY, DAY), grouped(1))


def test_importance_weights_must_be_numbers(subtests, tmp_path):
    for name in ["n", "events", "offset", "w2", "w2_events"]:
        for value in [np.nan, np.inf, -1.0]:
            with subtests.test(name=name, value=value):
                store = TallyStore(tmp_path / f"{name} {value}", by="land")
                store.add(DAY, GroupedTally({"de": one(weight=np.linspace(0.5, 1.0, 204))}))
                rewritten(store, with_values(name, first_is(value)))
                with pytest.raises(DocumentError, match=r"tally\.parquet"):
                    store.window()


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_half_written_file_is_refused_and_mended_by_replace(store, keep):
    path = file_of(store)
    path.write_bytes(path.read_bytes()[:keep])
    for action in (lambda: store.window(), lambda: store.add(DAY, grouped(1))):
        with pytest.raises(DocumentError, match="2026-03-01"):
            action()
    assert store.add("2026-03-03", grouped(3))  # the other days go on
    assert store.add(DAY, grouped(1), replace=True)
    assert_same(store.window(), grouped(1) + grouped(2) + grouped(3))


def test_a_crash_before_the_end_leaves_the_store_as_it_was(store, monkeypatch):
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    before = file_of(store).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", crash)
        patch.setattr("os.link", crash)
        for day, replace in ((DAY, True), (date(2026, 3, 9), False)):
            with pytest.raises(KeyboardInterrupt):
                store.add(day, grouped(7), replace=replace)
    assert file_of(store).read_bytes() == before
    assert store.days == [DAY, date(2026, 3, 2)]
    (store.path / ".tally.parquet-0123456789abcdef.tmp").write_bytes(b"PAR1 half")  # of a process that was killed
    assert_same(store.window(), grouped(1) + grouped(2))
    assert store.add("2026-03-09", grouped(7))


def test_without_hard_links_the_file_is_moved_into_place(tmp_path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refuse)
    store = TallyStore(tmp_path, by="land")
    assert store.add(DAY, grouped(1))
    assert_same(TallyStore(tmp_path).window(), grouped(1))


def test_foreign_files_among_the_days_are_named(store):
    shutil.copy(file_of(store), file_of(store).with_name("part-0.parquet"))
    with pytest.raises(DocumentError, match=r"holds part-0\.parquet, which the store did not write"):
        store.window()
    file_of(store).with_name("part-0.parquet").unlink()
    (store.path / "days" / "day=tomorrow").mkdir()
    with pytest.raises(DocumentError, match="not the folder of a day"):
        store.window()


def test_a_file_of_another_store_with_other_types_is_refused(tmp_path, store):
    other = TallyStore(tmp_path / "other", by="land")
    other.add("2026-03-03", grouped(0, (1, 2)))
    shutil.copytree(file_of(other, date(2026, 3, 3)).parent, file_of(store, date(2026, 3, 3)).parent)
    with pytest.raises(DocumentError, match="different types"):
        store.window()


def test_without_pyarrow_one_sentence_says_what_to_install(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "calibrant\[store\]"'):
        store.window()


# --- several processes ------------------------------------------------------------------------------------------------


def _add_days(path: Path, days: list[int], seed: int, barrier: Any, answers: Any) -> None:
    barrier.wait()
    for day in days:
        try:
            answers.put((seed, day, TallyStore(path, by="land").add(date(2026, 3, day), grouped(seed + day))))
        except InputError:
            answers.put((seed, day, "refused"))


def _in_two_processes(path: Path, jobs: list[tuple[list[int], int]]) -> list[tuple[int, int, Any]]:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(jobs)), context.Queue()
    workers = [context.Process(target=_add_days, args=(path, days, seed, barrier, answers)) for days, seed in jobs]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=60) for days, _ in jobs for _ in days]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    return found


@pytest.mark.full
def test_two_processes_may_add_at_once(tmp_path):
    apart = _in_two_processes(tmp_path / "apart", [(list(range(1, 9)), 0), (list(range(9, 17)), 0)])
    assert all(written is True for *_, written in apart)
    assert_same(
        TallyStore(tmp_path / "apart").window(), reduce(GroupedTally.__add__, [grouped(day) for day in range(1, 17)])
    )
    days = list(range(1, 20))
    answers = {
        (seed, day): written for seed, day, written in _in_two_processes(tmp_path / "same", [(days, 0), (days, 500)])
    }
    store = TallyStore(tmp_path / "same")
    for day in days:
        assert {answers[0, day], answers[500, day]} == {True, "refused"}
        winner = 0 if answers[0, day] is True else 500
        assert_same(store.window(date(2026, 3, day), date(2026, 3, day)), grouped(winner + day))
    assert not list(store.path.glob(".*.tmp"))


# --- others read it ---------------------------------------------------------------------------------------------------


def totals(store: TallyStore) -> list[tuple[date, int, int]]:
    return [
        (
            day,
            sum(t.total for t in store.window(day, day).values()),
            sum(t.positives for t in store.window(day, day).values()),
        )
        for day in store.days
    ]


@pytest.mark.engine
def test_duckdb_reads_the_store(store, duck):
    rows = duck.read_parquet(str(store.path / "days/*/*.parquet"), hive_partitioning=True)
    sums = rows.aggregate("day, sum(n)::BIGINT, sum(events)::BIGINT", "day").order("day")
    assert sums.fetchall() == totals(store)
    one = rows.filter("land = 'fr' AND day = DATE '2026-03-02'").aggregate("sum(n)::BIGINT")
    assert one.fetchall() == [(grouped(2)["fr"].total,)]


@pytest.mark.engine
def test_polars_reads_the_store(store):
    pl = pytest.importorskip("polars")
    frame = pl.scan_parquet(store.path / "days", hive_partitioning=True)
    found = frame.group_by("day").agg(pl.col("n").sum(), pl.col("events").sum()).sort("day").collect().rows()
    assert found == totals(store)


@pytest.mark.engine
def test_pyarrow_datasets_read_the_store(store):
    dataset = pytest.importorskip("pyarrow.dataset")
    table = dataset.dataset(store.path / "days", partitioning="hive").to_table()
    assert table.group_by("day").aggregate([("n", "sum")]).sort_by("day").column("n_sum").to_pylist() == [
        n for _, n, _ in totals(store)
    ]


# --- from frames, and to certificates ---------------------------------------------------------------------------------


def frame(days: int = 2) -> Any:
    rng = np.random.default_rng(5)
    n = 300
    s = rng.random(n)
    start = datetime(2026, 3, 1)
    moments = [start + timedelta(hours=int(h)) for h in rng.integers(0, 24 * days, n)]
    return pa.table(
        {"s": s, "y": (rng.random(n) < s).astype(np.int64), "land": rng.choice(["de", "fr"], n), "at": moments}
    )


def test_a_frame_of_one_day_is_tallied_and_kept(tmp_path):
    table = frame()
    store = TallyStore(tmp_path, by="land")
    assert store.add_frame(table, "s", "y", day="2026-03-01") == [DAY]
    assert store.add_frame(table, "s", "y", day="2026-03-01") == []
    expected = GroupedTally.from_arrays(
        table["s"].to_numpy(), table["y"].to_numpy(), groups=np.asarray(table["land"].to_pylist())
    )
    assert_same(store.window(), expected)


@pytest.mark.parametrize("by", [None, "land", ("land", "y2")])
def test_a_frame_of_several_days_is_kept_day_by_day(tmp_path, by):
    table = frame(3)
    table = table.append_column("y2", pa.array(table["land"].to_pylist()))
    store = TallyStore(tmp_path, by=by)
    assert store.add_frame(table, "s", "y", time="at") == [DAY + timedelta(days=d) for d in range(3)]
    assert sum(n for _, n, _ in totals(store)) == 300 if by else store.window().total == 300
    mask = np.array([at.date() == DAY for at in table["at"].to_pylist()])
    expected = Tally.from_arrays(table["s"].to_numpy()[mask], table["y"].to_numpy()[mask], grid=SEGMENT_GRID)
    first = store.window(DAY, DAY)
    assert_same(first.total() if by else first, expected)


def test_a_frame_needs_a_day_or_a_time(tmp_path):
    for options in ({}, {"day": DAY, "time": "at"}):
        with pytest.raises(InputError, match="day or time must be given, and not both"):
            TallyStore(tmp_path).add_frame(frame(), "s", "y", **options)


def test_yesterday_supplies_the_bins_of_todays_certificate(tmp_path):
    store = TallyStore(tmp_path, by="land")
    for place in range(2):
        day = GroupedTally({key: one(10 * place + j, 5_000) for j, key in enumerate(("de", "fr"))})
        store.add(DAY + timedelta(days=place), day)
    yesterday, today = (store.window(day, day) for day in store.days)
    promise = HistogramBinning(n_bins=10, bins_from=yesterday["de"]).fit_tally(today["de"]).certificate()
    assert promise.reference == str(FIXED_BINS)
    assert promise.n == today["de"].total
    assert len(promise.rows) == 10
    assert HistogramBinning(n_bins=10).fit_tally(today["de"]).certificate().reference != str(FIXED_BINS)
