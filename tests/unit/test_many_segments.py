"""Many segments at once: sums, tests, fits, windows of a store, and what is said about them."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.engine.store import parquet
from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics import normalized_entropy
from calibrant.metrics.chance import Chance
from calibrant.tallies import GroupedTally, Tally
from calibrant.verdict.segments import Segment, sort_segments


def day(seed: int, n: int = 2_000, names: tuple[str, ...] = ("DE", "FR", "US"), shift: float = 0.0) -> GroupedTally:
    rng = np.random.default_rng(seed)
    x, country = rng.normal(-3.0, 1.0, n), rng.choice(names, n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-x - shift * (country == names[0])))
    return GroupedTally.from_arrays(1.0 / (1.0 + np.exp(-x)), y, groups=country)


def same(a: Tally, b: Tally) -> bool:
    names = ("keys", "n", "events", "offset", "rows", "row_events", "w2", "w2_events")
    return all(np.array_equal(getattr(a.cells, name), getattr(b.cells, name)) for name in names)


def test_a_total_is_the_sum_of_its_parts_to_the_bit() -> None:
    parts = day(0)
    assert same(parts.total(), reduce(Tally.__add__, parts.values()))


def test_distributions_of_many_parts_are_those_of_each() -> None:
    """Windows of several sizes, cells of one row and of many, a part with too many cells."""
    rng = np.random.default_rng(1)
    sizes = np.array([1, 3, 40, 160, 2, 9_000])
    s = rng.beta(0.5, 3.0, sizes.sum())
    n = np.where(rng.random(len(s)) < 0.5, 1.0, rng.integers(1, 400, len(s))).astype(float)
    starts = np.cumsum(sizes) - sizes
    for chance, low, size in zip(Chance.by_part(s, n, starts), starts, sizes, strict=True):
        alone = Chance(s[low : low + size], n[low : low + size])
        assert chance.mean == pytest.approx(alone.mean, rel=1e-13)
        assert chance.interval(0.95) == alone.interval(0.95)
        for events in (0.0, math.floor(alone.mean), math.floor(alone.mean + 2.0 * math.sqrt(alone.variance)) + 1.0):
            assert chance.log_p_value(events) == pytest.approx(alone.log_p_value(events), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("dense", [parquet.DENSE, 2_500, 1])
def test_maps_from_a_store_are_those_of_the_rows_to_the_bit(
    dense: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether days are added in a dense table, in part, or sorted."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(parquet, "DENSE", dense)
    monkeypatch.setattr(parquet, "PENDING", 10)
    days = [day(seed, shift=0.8) for seed in range(4)]
    store = cb.TallyStore(tmp_path / "store", by="country")
    for place, each in enumerate(days, start=1):
        store.add(f"2026-03-0{place}", each)
    whole, window = reduce(GroupedTally.__add__, days), store.window()
    assert list(window) == sorted(whole)
    assert all(same(window[key], whole[key]) for key in whole)
    fit = cb.SegmentCalibrator(cb.PlattScaling()).fit_tally
    one, other = fit(window, "country").calibration_, fit(whole, "country").calibration_
    assert one.to_json() == other.to_json()
    assert one.map.columns == ("country",)


def test_slow_work_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    counts = day(0, shift=0.8)
    with caplog.at_level(logging.INFO, "calibrant"):
        cb.check(counts)
        cb.SegmentCalibrator(cb.PlattScaling()).fit_tally(counts, "country")
    ended = {record.args for record in caplog.records}  # type: ignore[attr-defined]
    assert {("check: segments of group", 3, 3), ("segments: folds", 5, 5)} <= ended


# ------------------------------------------------------------------------------------------------------------- verdicts


def segment(value: str, rows: float, events: float, predicted: float, low: float, high: float) -> Segment:
    return Segment("country", value, rows, events, predicted, 0.0, 0.0, low, high, 0.001)


SEGMENTS = [
    segment("a", 900, 30, 10, 2.0, 4.5),
    segment("b", 9e4, 1300, 1000, 1.2, 1.4),
    segment("c", 5e5, 900, 920, 0.9, 1.1),
]


def test_segments_are_sorted_by_what_is_asked() -> None:
    order = {
        name: "".join(each.value for each in sort_segments(SEGMENTS, name))  # type: ignore[arg-type]
        for name in ("effect", "events", "rows", "stake")
    }
    assert order == {"effect": "abc", "events": "bca", "rows": "cba", "stake": "bac"}
    worth = {"a": 100.0, "b": 1.0, "c": 1.0}
    assert [each.value for each in sort_segments(SEGMENTS, "stake", worth)] == ["a", "b", "c"]
    assert [each.least_excess for each in SEGMENTS] == pytest.approx([10.0, 200.0, 0.0])
    with pytest.raises(InputError, match="lacks the segment 'c'"):
        sort_segments(SEGMENTS, "stake", {"a": 1.0, "b": 1.0})
    with pytest.raises(InputError, match="sort"):
        sort_segments(SEGMENTS, "money")  # type: ignore[arg-type]


def test_a_frame_of_the_first_segments() -> None:
    pytest.importorskip("pandas")
    frame = cb.check(day(0, shift=0.8)).segment_frame("events", top=2)
    assert len(frame) == 2
    assert frame["events"].is_monotonic_decreasing
    assert (frame["stake"] == frame["least_excess"]).all()


# ---------------------------------------------------------------------------------------------------------------- store


@pytest.fixture
def store(tmp_path: Path) -> cb.TallyStore:
    pytest.importorskip("pyarrow")
    made = cb.TallyStore(tmp_path / "store", by="country")
    for place in range(1, 6):
        made.add(f"2026-03-0{place}", day(place))
    return made


def codes(store: cb.TallyStore) -> list[str]:
    return [note.code for note in store.review()]


def test_a_plain_store_has_nothing_unusual(store: cb.TallyStore) -> None:
    assert store.review() == ()


def test_what_is_unusual_is_named(subtests: pytest.Subtests, store: cb.TallyStore) -> None:
    twice = day(9)
    cases = {
        "unusual-rows": day(6, n=700),
        "counted-repeatedly": twice + twice,
        "same-content": day(3),
        "renamed-segments": day(7, names=("de", "FR", "US")),
    }
    for code, tallies in cases.items():
        with subtests.test(code):
            store.add("2026-03-06", tallies)
            assert codes(store) == [code]
            store.remove("2026-03-06")
    store.add("2026-03-08", day(8))
    assert codes(store) == ["days-missing"]
    assert "2026-03-06" in str(store.review()[0])


def test_a_replacement_says_which_segments_it_drops(store: cb.TallyStore) -> None:
    with pytest.warns(CalibrantWarning, match=r"dropped: 'US' \(\d+ rows\)"):
        assert store.add("2026-03-05", day(5, names=("DE", "FR")), replace=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.add("2026-03-05", day(5), replace=True)


def test_old_days_are_dropped(store: cb.TallyStore) -> None:
    assert [str(each) for each in store.drop_before("2026-03-04")] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert len(store.days) == 2
    assert store.drop_before("2026-03-04") == []


def test_late_labels_replace_open_days_only(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    store = cb.TallyStore(tmp_path / "late")
    days = pd.to_datetime(["2026-03-01", "2026-03-02", "2026-03-03"]).repeat(2)
    frame = pd.DataFrame({"day": days, "score": [0.1, 0.2] * 3, "label": [0, 0, 0, 1, 0, 0]})
    assert len(store.add_frame(frame, "score", "label", time="day")) == 3
    late = frame.assign(label=[0, 0, 1, 1, 0, 1])
    with pytest.raises(InputError, match="2026-03-02 differ"):
        store.add_frame(late, "score", "label", time="day", open_days=1)
    written = store.add_frame(late, "score", "label", time="day", open_days=2)
    assert [str(each) for each in written] in (["2026-03-02", "2026-03-03"], ["2026-03-02"])
    assert store.window().positives == 3
    assert store.add_frame(late.iloc[:0], "score", "label", time="day") == []
    for wrong in (-1, 1.5, "2"):
        with pytest.raises(InputError, match="open_days must be an integer of at least 0"):
            store.add_frame(late, "score", "label", time="day", open_days=wrong)


# --------------------------------------------------------------------------------------------------------------- origin


def test_the_origin_is_kept_by_the_document() -> None:
    cal = cb.PlattScaling().fit([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]).calibration_
    assert "fitted_at" not in cal.to_json()
    given = {
        "fitted_at": "2026-03-08T06:00:00+00:00",
        "first_day": "2026-03-01",
        "last_day": "2026-03-07",
        "source": "tallies",
        "model": "ctr",
        "model_version": "14",
        "parent": cal,
        "meta": {"ticket": 17},
    }
    stated = cal.with_origin(**given)  # type: ignore[arg-type]
    assert stated.to_json() == cal.with_origin(**given).to_json()  # type: ignore[arg-type]
    read = cb.Calibration.from_json(stated.to_json())
    assert read.to_json() == stated.to_json()
    assert read.provenance.entries == {"ticket": "17"}
    assert read.provenance.parent == cal.fingerprint
    assert "days 2026-03-01 to 2026-03-07; from tallies; model ctr 14" in str(read)
    assert cal.with_origin().provenance.fitted_at.endswith("+00:00")
    assert read.with_origin().to_json() == read.to_json()
    more = read.with_origin(model_version="15", meta={"commit": "f00"}).provenance
    assert (more.fitted_at, more.model, more.model_version) == ("2026-03-08T06:00:00+00:00", "ctr", "15")
    assert more.entries == {"ticket": "17", "commit": "f00"}
    assert read.with_origin(meta={"ticket": 18}).provenance.entries == {"ticket": "18"}


def test_the_origin_is_one_line_of_what_is_known() -> None:
    cal = cb.PlattScaling().fit([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]).calibration_
    when = "2026-03-08T06:00:00+00:00"
    cases: list[tuple[dict[str, object], str]] = [
        ({"first_day": "2026-03-01"}, "; days from 2026-03-01 on."),
        ({"last_day": date(2026, 3, 7)}, "; days up to 2026-03-07."),
        ({"first_day": "2026-03-01", "last_day": "2026-03-01"}, "; day 2026-03-01."),
        ({"model": None, "source": Path("rows.csv")}, "; from rows.csv."),
        ({"meta": {"remark": "two\nlines\x1b"}}, "; remark=two\\nlines\\x1b."),
    ]
    for given, words in cases:
        stated = cal.with_origin(fitted_at=when, **given)  # type: ignore[arg-type]
        assert stated.provenance.origin == f"Origin: fitted at {when}{words}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fitted_at": "yesterday"}, r"fitted_at='yesterday' is not a time in ISO 8601"),
        ({"fitted_at": "2026-03-08"}, r"fitted_at='2026-03-08' has no time zone: .*\+00:00"),
        ({"fitted_at": 5}, r"fitted_at=5 is not a time in ISO 8601"),
        ({"last_day": "March"}, r"last_day='March' is not a day"),
        ({"first_day": "2026-03-02", "last_day": "2026-03-01"}, r"first_day='2026-03-02' is after last_day"),
        ({"source": 5}, "source must be text"),
        ({"parent": 5}, "parent must be a Calibration"),
        ({"meta": {"": 1}}, "meta has the key ''"),
        ({"meta": {"a=b": 1}}, "meta has the key 'a=b'"),
        ({"meta": "ticket"}, "meta must be a dict"),
    ],
)
def test_an_origin_that_cannot_be_read_again_is_refused(given: dict[str, object], message: str) -> None:
    cal = cb.PlattScaling().fit([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]).calibration_
    with pytest.raises(InputError, match=message):
        cal.with_origin(**given)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------------- entropy


def test_normalized_entropy_by_hand() -> None:
    """Base rate 1/4: entropy 0.5623; loss of 0.25 everywhere is the same; of the labels nearly known, less."""
    assert normalized_entropy([0.25] * 4, [0, 0, 0, 1]).value == pytest.approx(1.0)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    found = normalized_entropy([0.1, 0.2, 0.1, 0.9], [0, 0, 0, 1])
    assert found.value == pytest.approx(-(3 * math.log(0.9) + math.log(0.8)) / 4 / entropy)
    assert math.isnan(normalized_entropy(Tally.from_arrays([0.1, 0.2, 0.3], [0, 0, 1]).unlabeled()).value)
    assert normalized_entropy([0.0, 0.2], [1, 0]).value == math.inf


def test_the_error_of_normalized_entropy_is_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(3)
    s = rng.beta(1.0, 9.0, 4_000)
    y = rng.random(4_000) < s
    values = []
    for _ in range(200):
        drawn = rng.integers(0, 4_000, 4_000)
        values.append(normalized_entropy(s[drawn], y[drawn]).value)
    assert normalized_entropy(s, y).se == pytest.approx(np.std(values), rel=0.2)


def test_counts_in_the_place_of_rows_are_named(subtests: pytest.Subtests, tmp_path: Path) -> None:
    """The obvious calls with a store, a window of it, or a tally, each with the call that works."""
    store = cb.TallyStore(tmp_path / "store", by="country")
    store.add("2026-03-01", day(1))
    window = store.window()
    calls: dict[str, tuple[Callable[[], Any], str]] = {
        "check a store": (lambda: cb.check(store), "scores is a tally store: pass the tallies of its days"),
        "calibrate a store": (lambda: cb.calibrate(store, by="country"), "scores is a tally store"),
        "fit a store": (lambda: cb.PlattScaling().fit(store), "scores is a tally store"),
        "fit_tally of a store": (lambda: cb.PlattScaling().fit_tally(store), "tally is a tally store"),
        "segments of a store": (lambda: cb.SegmentCalibrator().fit_tally(store), "tally is a tally store"),
        "fit a window": (lambda: cb.PlattScaling().fit(window), "is a tally, which .*: pass it to fit_tally"),
        "fit a tally": (lambda: cb.PlattScaling().fit(window.total()), "pass it to fit_tally"),
        "segments of a window": (lambda: cb.SegmentCalibrator().fit(window), "pass it to fit_tally"),
        "fit_tally of a window": (lambda: cb.PlattScaling().fit_tally(window), r"pass tally.total\(\), or use Segment"),
        "fit_tally of text": (lambda: cb.PlattScaling().fit_tally("tallies"), "tally is of type str: pass a Tally"),
        "another column": (
            lambda: cb.calibrate(window, by="land"),
            "by='land' contradicts the tallies, .* by 'country'",
        ),
    }
    for name, (call, words) in calls.items():
        with subtests.test(name), pytest.raises(InputError, match=words):
            call()
