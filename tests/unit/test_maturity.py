"""Late labels."""

from __future__ import annotations

import datetime as dt
import json
import math

import numpy as np
import pytest

from calibrant import CalibrantWarning, InputError, check
from calibrant.shift import select_mature

SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def many(rng: np.random.Generator, n: int = 4_000) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, labels seen by day 60, score times and label times; delays up to 14 days."""
    p, start = rng.beta(1, 4, n), rng.uniform(0, 60, n)
    seen = (rng.random(n) < p) & (start + (delay := rng.uniform(0, 14, n)) <= 60)
    return p, seen.astype(int), start, np.where(seen, start + delay, np.nan)


def test_young_rows_are_dropped_with_their_events() -> None:
    # As of day 10 with a horizon of 5 rows of days 0 to 5 are mature, the one of day 5 just so.
    rows = select_mature(SCORES, [0, 1, 1, 0, 1, 0], score_time=[0, 3, 5, 6, 8, 10], as_of=10, horizon=5)
    assert rows.keep.tolist() == [True, True, True, False, False, False]
    assert rows.labels.tolist() == [0, 1, 1]
    assert rows.scores.tolist() == [0.1, 0.2, 0.3]
    assert rows.sample_weight is None
    assert (rows.rows, rows.events, rows.young, rows.young_events) == (3, 2, 3, 1)
    assert rows.rate == pytest.approx(2 / 3)
    assert rows.naive_rate == 0.5
    assert str(rows) == (
        "Kept 3 rows with 2 events; 3 rows younger than the horizon dropped (1 event so far).\n"
        "  Counting young rows without an event as negatives would give an event rate of 0.5000 instead of 0.6667, "
        "25 % too low."
    )
    json.dumps(rows.to_dict(), allow_nan=False)


def test_the_past_is_replayed_without_looking_ahead() -> None:
    rows = select_mature(
        SCORES,
        [1, 1, 1, 1, 0, 0],
        score_time=[0, 0, 0, 8, 8, 20],
        label_time=[2, 7, 5, 12, np.nan, np.nan],
        as_of=10,
        horizon=5,
    )
    # row 1 came after its window, row 3 after as_of, row 5 was scored after as_of
    assert rows.labels.tolist() == [1, 0, 1]
    assert rows.young == 2
    assert rows.young_events == 0
    assert rows.naive_rate == pytest.approx(2 / 5)
    assert [note.code for note in rows.notes] == ["events-after-as-of", "events-after-horizon", "rows-after-as-of"]
    assert "1 event recorded after as_of" in str(rows)
    assert "1 event recorded later than the horizon" in str(rows)
    assert "1 row scored after as_of" in str(rows)


def test_dates_of_every_sort(subtests) -> None:
    for times, as_of, horizon in [
        (["2026-01-01", "2026-01-20", "2026-01-30"], "2026-01-31", 14),
        (np.array(["2026-01-01", "2026-01-20", "2026-01-30"], "M8[D]"), np.datetime64("2026-01-31"), 14.0),
        ([dt.date(2026, 1, 1), dt.date(2026, 1, 20), dt.date(2026, 1, 30)], dt.date(2026, 1, 31), dt.timedelta(14)),
        (
            [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 20, 30)],
            dt.datetime(2026, 1, 31, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            np.timedelta64(14, "D"),
        ),
    ]:
        with subtests.test(times=times, as_of=as_of, horizon=horizon):
            rows = select_mature([0.2, 0.5, 0.7], [0, 1, 1], score_time=times, as_of=as_of, horizon=horizon)
            assert rows.keep.tolist() == [True, False, False]


def test_columns_of_a_frame_with_missing_label_times() -> None:
    pandas = pytest.importorskip("pandas")
    for zone in (None, "Europe/Vienna"):
        frame = pandas.DataFrame(
            {
                "s": [0.2, 0.5, 0.7],
                "y": [0, 1, 1],
                "scored": pandas.to_datetime(["2026-01-01", "2026-01-02", "2026-01-30"]).tz_localize(zone),
                "seen": pandas.to_datetime([None, "2026-01-05", "2026-01-30"]).tz_localize(zone),
            }
        )
        rows = select_mature(
            frame.s,
            frame.y,
            score_time=frame.scored,
            label_time=frame.seen,
            as_of=pandas.Timestamp("2026-01-31", tz=zone),
            horizon=pandas.Timedelta(days=14),
        )
        assert rows.labels.tolist() == [0, 1]


def test_weights_by_hand() -> None:
    # 40 mature rows at one score: 20 events, of which 10 arrive at age 1 and 10 at age 3, horizon 4; so r = 1/2.
    # Young rows of age 2 have F = 1/2: an event weighs 2, another row (1 - 1/2) / (1 - 1/4) = 2/3.
    start = np.array([0.0] * 40 + [8.0] * 8)
    y = np.array([1] * 20 + [0] * 20 + [1] * 2 + [0] * 6)
    seen = np.array([1.0] * 10 + [3.0] * 10 + [np.nan] * 20 + [9.0] * 2 + [np.nan] * 6)
    rows = select_mature([0.4] * 48, y, score_time=start, label_time=seen, as_of=10.0, horizon=4.0, how="weight")
    assert rows.keep.all()
    assert rows.sample_weight is not None
    assert rows.sample_weight[:40].tolist() == [1.0] * 40
    assert rows.sample_weight[40:] == pytest.approx([2.0] * 2 + [2 / 3] * 6)
    # 2 events of 8 young rows: 4 weighted events and 4 others, one half again
    assert rows.rate == pytest.approx(0.5)
    assert rows.arrived == pytest.approx(0.5)
    assert rows.naive_rate == pytest.approx(22 / 48)
    assert "about 50 % of all their events" in str(rows)
    assert [note.code for note in rows.notes] == ["same-delays"]
    assert "Weights assume that events of young and of mature rows have the same delays, at every" in str(rows)


def test_rows_too_young_to_weigh_are_dropped_and_counted() -> None:
    p, y, start, seen = many(np.random.default_rng(1))
    rows = select_mature(p, y, score_time=start, label_time=seen, as_of=60.0, horizon=14.0, how="weight")
    assert rows.sample_weight is not None
    assert 0 < len(p) - rows.rows < rows.young
    assert [note.code for note in rows.notes] == ["same-delays", "young-rows-dropped"]
    assert "young rows dropped: less than 10 % of events arrive by their age." in str(rows)
    assert rows.sample_weight.max() <= 10.0
    assert (rows.sample_weight > 0.0).all()


def test_what_comes_out_goes_in_everywhere() -> None:
    p, y, start, seen = many(np.random.default_rng(2), 40_000)
    rows = select_mature(p, y, score_time=start, label_time=seen, as_of=60.0, horizon=14.0, how="weight")
    assert rows.sample_weight is not None
    late = start[rows.keep] > 46
    assert check(rows.scores[late], rows.labels[late], rows.sample_weight[late]).status != "miscalibrated"
    # the naive reading of the same rows is found out, so the above could have failed
    assert check(p[start > 46], y[start > 46]).status == "miscalibrated"


def test_weights_mean_repetition_and_weight_0_is_no_row() -> None:
    p, y, start, seen = many(np.random.default_rng(5), 1_000)
    times = np.random.default_rng(6).integers(0, 4, 1_000)
    long = [np.repeat(column, times) for column in (p, y, start, seen)]
    for how in ("drop", "weight"):
        few = select_mature(p, y, times, score_time=start, label_time=seen, as_of=60.0, horizon=14.0, how=how)
        many_rows = select_mature(*long[:2], score_time=long[2], label_time=long[3], as_of=60.0, horizon=14.0, how=how)
        assert few.sample_weight is not None
        assert (few.sample_weight > 0.0).all()
        assert few.sample_weight.sum() == pytest.approx(
            many_rows.rows if many_rows.sample_weight is None else many_rows.sample_weight.sum(), rel=1e-9
        )
        assert (few.rate, few.naive_rate, few.arrived) == pytest.approx(
            (many_rows.rate, many_rows.naive_rate, many_rows.arrived), rel=1e-9
        )
    huge = select_mature(p, y, times * 1e90, score_time=start, label_time=seen, as_of=60.0, horizon=14.0, how="drop")
    assert huge.rate == pytest.approx(select_mature(p, y, times, score_time=start, as_of=60.0, horizon=14.0).rate)


def test_order_does_not_matter() -> None:
    p, y, start, seen = many(np.random.default_rng(3))
    how = np.random.default_rng(4).permutation(len(p))
    plain = select_mature(p, y, score_time=start, label_time=seen, as_of=60.0, horizon=14.0, how="weight")
    mixed = select_mature(
        p[how], y[how], score_time=start[how], label_time=seen[how], as_of=60.0, horizon=14.0, how="weight"
    )
    weights = np.zeros(len(p))
    weights[mixed.keep] = mixed.sample_weight
    back = np.zeros(len(p))
    back[how] = weights
    assert (back[plain.keep] == plain.sample_weight).all()
    assert mixed.rate == pytest.approx(plain.rate, rel=1e-12)


def test_nothing_mature_is_said_and_not_made_up() -> None:
    rows = select_mature([0.2, 0.7], [0, 1], score_time=[9, 9], as_of=10, horizon=5)
    assert rows.rows == 0
    assert math.isnan(rows.rate)
    assert [note.code for note in rows.notes] == ["nothing-mature"]
    assert "No row is mature at as_of: nothing can be counted yet." in str(rows)
    assert rows.to_dict()["rate"] is None


def test_all_mature_is_all_kept() -> None:
    rows = select_mature([0.2, 0.7], [0, 1], score_time=[0, 0], as_of=10, horizon=5)
    assert rows.keep.all()
    assert rows.young == 0
    assert "Counting young rows" not in str(rows)
    with pytest.warns(CalibrantWarning, match="one class"):
        one = select_mature([0.2], [1], score_time=[0], as_of=10, horizon=5)
    assert one.rate == 1.0


def test_wrong_input_is_refused_in_one_sentence(subtests) -> None:
    for changed, words in [
        ({"how": "guess"}, "how is 'guess'"),
        ({"how": "weight"}, "needs label_time"),
        ({"horizon": 0}, "horizon must be above 0"),
        ({"horizon": dt.timedelta(1)}, "is a timedelta"),
        ({"horizon": "14 days"}, "not a number of months"),
        ({"as_of": "2026-01-01"}, "both be dates or both be numbers"),
        ({"score_time": [0, 1]}, "2 rows"),
        ({"score_time": [0, np.nan, 1]}, "score_time has 1 missing"),
        ({"score_time": [0, np.inf, 1]}, "score_time has 1 infinity"),
        ({"score_time": ["a", "b", "c"]}, "score_time holds text"),
        ({"label_time": [np.nan, np.nan, 3.0]}, "label_time has 1 missing"),
        ({"label_time": [np.nan, -1.0, 3.0]}, "before score_time"),
        ({"label_time": [0.0]}, "label_time has 1 row"),
        ({"label_time": ["", "2026-01-01", "2026-01-01"]}, "label_time and score_time"),
    ]:
        with subtests.test(changed=changed, words=words):
            usual = {"score_time": [0, 1, 2], "as_of": 10, "horizon": 5}
            with pytest.raises(InputError, match=words):
                select_mature([0.2, 0.5, 0.7], [0, 1, 1], **{**usual, **changed})


def test_a_horizon_for_each_row(subtests) -> None:
    y, start = [0, 1, 1, 0, 1, 0], [0, 3, 5, 6, 8, 10]
    for horizon in ([5, 5, 5, 5, 5, 5], np.full(6, 5.0)):
        with subtests.test(horizon=horizon):
            rows = select_mature(SCORES, y, score_time=start, as_of=10, horizon=horizon)
            assert rows.keep.tolist() == [True, True, True, False, False, False]
    rows = select_mature(SCORES, y, score_time=start, as_of=10, horizon=[20, 5, 5, 4, 1, 1])
    assert rows.keep.tolist() == [False, True, True, True, True, False]
    days = ["2026-01-01", "2026-01-01", "2026-01-30"]
    for horizon in (["1 month", "2 months", "1 month"], [dt.timedelta(30), dt.timedelta(60), dt.timedelta(30)]):
        with subtests.test(horizon=horizon):
            rows = select_mature(SCORES[:3], [0, 1, 1], score_time=days, as_of="2026-02-05", horizon=horizon)
            assert rows.keep.tolist() == [True, False, False]
    for horizon in ([5, 5], [5, 5, 5, 5, 5, 0], [5, 5, 5, 5, 5, np.nan], [5, 5, 5, 5, 5, None]):
        with subtests.test(horizon=horizon), pytest.raises(InputError, match="horizon"):
            select_mature(SCORES, y, score_time=start, as_of=10, horizon=horizon)


def test_weights_with_a_horizon_for_each_row_are_those_of_shares_of_it() -> None:
    p, seen, start, when = many(np.random.default_rng(3))
    one = select_mature(p, seen, score_time=start, label_time=when, as_of=60, horizon=14, how="weight")
    scaled = np.where(np.arange(len(p)) % 2, 1.0, 3.0)  # every second row lives on a clock that is three times slower
    born = 60 - (60 - start) * scaled
    other = select_mature(
        p, seen, score_time=born, label_time=born + (when - start) * scaled, as_of=60, horizon=14 * scaled, how="weight"
    )
    assert other.keep.tolist() == one.keep.tolist()
    np.testing.assert_allclose(other.sample_weight, one.sample_weight, rtol=0.02)


def test_columns_of_frames_of_every_engine(subtests) -> None:
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    frame = pandas.DataFrame({"p": SCORES, "y": [0, 1, 1, 0, 1, 0], "day": [0.0, 3, 5, 6, 8, 10], "wait": [5.0] * 6})
    frame["when"] = frame["day"] + 1
    plain = select_mature(SCORES, frame["y"], score_time=frame["day"], label_time=frame["when"], as_of=10, horizon=5)
    lazy = polars.from_pandas(frame).lazy()
    for name, each in {"pandas": frame, "polars": lazy, "duckdb": duckdb.from_df(frame)}.items():
        for horizon in (5, "wait"):
            with subtests.test(frame=name, horizon=horizon):
                columns = {"score": "p", "label": "y", "score_time": "day", "label_time": "when"}
                rows = select_mature(each, **columns, as_of=10, horizon=horizon)
                assert str(rows) == str(plain)
                assert rows.labels.tolist() == plain.labels.tolist()
                assert rows.tally().n.tolist() == [1, 1, 1]
                assert rows.tally().events.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match="frame has no column 'nowhere'"):
        select_mature(frame, score="p", label="y", score_time="nowhere", as_of=10, horizon=5)
    with pytest.raises(InputError, match="y is missing"):
        select_mature(SCORES, score_time=[0] * 6, as_of=10, horizon=5)


def test_several_classes() -> None:
    rng = np.random.default_rng(2)
    n, horizon = 30_000, 14.0
    scores = rng.dirichlet([2.0, 2.0, 2.0], n)
    classes = np.array(["a", "b", "c"])[(rng.random(n)[:, None] > np.cumsum(scores, axis=1)).sum(axis=1)]
    start = rng.uniform(0.0, 60.0, n)
    delay = horizon * rng.random(n) ** np.array([0.5, 1.0, 2.0])[np.searchsorted(["a", "b", "c"], classes)]
    known = start + delay <= 60.0
    seen = np.where(known, classes, None)
    given = {"score_time": start, "label_time": np.where(known, start + delay, np.nan), "as_of": 60.0}
    dropped = select_mature(scores, seen, **given, horizon=horizon)
    assert dropped.keep.tolist() == (start <= 46.0).tolist()
    assert dropped.sample_weight is None
    assert dropped.scores.shape == (dropped.rows, 3)
    assert "instead of" not in str(dropped)
    rows = select_mature(scores, seen, **given, horizon=np.full(n, horizon), how="weight")
    assert rows.rows > dropped.rows
    assert rows.young_events == (known & (start > 46.0)).sum()
    young = start[rows.keep] > 46.0
    for place, name in enumerate("abc"):
        naive = (rows.labels[young] == name).mean() - rows.scores[young, place].mean()
        gap = np.average((rows.labels[young] == name) - rows.scores[young, place], weights=rows.sample_weight[young])
        assert abs(gap) < 0.035
        if name != "b":
            assert abs(naive) > abs(gap)
    json.dumps(rows.to_dict(), allow_nan=False)
    with pytest.raises(InputError, match="several classes"):
        rows.tally()
    with pytest.raises(InputError, match="needs label_time"):
        select_mature(scores, seen, score_time=start, as_of=60.0, horizon=horizon, how="weight")
