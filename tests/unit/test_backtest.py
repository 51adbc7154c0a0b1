"""Back-tests: what is served at a time depends on labels known by then alone, and the numbers are those by hand."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pytest

from calibrant import InputError, IsotonicCalibrator, PlattScaling, TallyStore, displays, live, metrics, online
from calibrant.live.replay.backtest import NAMED
from calibrant.live.replay.history import History, Usable
from calibrant.live.replay.scoring import Difference
from calibrant.maps import LogitAffineMap
from calibrant.numerics import Floats, expit
from calibrant.tallies import SEGMENT_GRID, GroupedTally, Tally

POLICIES: list[Any] = [
    *NAMED,
    live.Every(5, window=30, min_events=5),
    live.Every(10, calibrator=IsotonicCalibrator()),
]


def draw(seed: int, n: int = 1_500, days: float = 90.0, ties: bool = False) -> tuple[Floats, Any, Floats, Floats]:
    """Scores, labels, unsorted times and delays; the level falls in the middle."""
    rng = np.random.default_rng(seed)
    at = rng.uniform(0.0, days, n)
    at = np.floor(at * 4.0) / 4.0 if ties else at
    z = rng.normal(-0.5, 1.2, n)
    y = rng.random(n) < expit(0.8 * z - 1.0 * (at > days / 2))
    delay = rng.choice([0.0, 0.25, 1.0, 3.5, 20.0], n)
    return expit(z), y.astype(int), at, delay


def replay(scores: Any, *rows: Any, **options: Any) -> live.Backtest:
    """A back-test with a key for each row, which depends on its score alone."""
    return live.backtest(scores, *rows, keys=(np.asarray(scores, dtype=float) * 1e4).astype(int) % 4, **options)


# ----------------------------------------------------------------------------------------------------- no look-ahead


@pytest.mark.parametrize("ties", [False, True])
def test_labels_that_are_not_known_yet_change_nothing_that_was_served(ties, subtests):
    s, y, at, delay = draw(1, n=400, ties=ties)
    before = replay(s, y, at, POLICIES, delay=delay)
    for now in (12.5, 60.25):
        unknown = (at >= now) | (at + delay > now)
        for garbage in (1 - y, np.full(len(y), np.nan)):
            poisoned = np.where(unknown, garbage, y)
            if np.isnan(poisoned).all():
                continue
            after = replay(s, poisoned, at, POLICIES, delay=delay)
            for name, each in before.items():
                with subtests.test(name, now=now):
                    np.testing.assert_array_equal(each.served[at <= now], after[name].served[at <= now])


def test_labels_that_are_known_do_change_what_is_served():
    s, y, at, delay = draw(1, n=500)
    known = at + delay <= 60.0
    before = replay(s, y, at, POLICIES, delay=delay)
    after = replay(s, np.where(known, 1 - y, y), at, POLICIES, delay=delay)
    changed = {name for name in before if (before[name].served[at > 61.0] != after[name].served[at > 61.0]).all()}
    assert changed >= set(before) - {"never", "every 10 days (IsotonicCalibrator)", "on alarm"}


@pytest.mark.parametrize("ties", [False, True])
def test_maps_are_those_of_a_replay_by_brute_force(ties):
    s, y, at, delay = draw(2, n=800, ties=ties)
    served = live.backtest(s, y, at, live.Every("day", min_events=5), delay=delay)["every day"].served
    for day in range(90):
        usable = (at < day) & (at + delay <= day)
        today = np.floor(at) == day
        expected = s[today]
        if usable.any() and 5 <= y[usable].sum() <= usable.sum() - 5:
            fit = PlattScaling().fit_tally(Tally.from_arrays(s[usable], y[usable], grid=SEGMENT_GRID))
            expected = fit.map_.apply(s[today])
        np.testing.assert_array_equal(served[today], expected)


@pytest.mark.parametrize("ties", [False, True])
def test_forecasters_learn_as_in_a_replay_by_brute_force(ties):
    s, y, at, delay = draw(3, n=400, ties=ties)
    served = live.backtest(s, y, at, "online-platt", delay=delay)["online Platt"].served
    order = np.argsort(at, kind="stable")
    s, y, at, delay, served = s[order], y[order], at[order], delay[order], served[order]
    learner, learned = online.OnlinePlatt(), set()
    for now in np.unique(at):
        due = [i for i in range(len(s)) if i not in learned and at[i] < now and at[i] + delay[i] <= now]
        for i in sorted(due, key=lambda i: (at[i] + delay[i], at[i], i)):
            learner.learn_one(float(s[i]), int(y[i]))
            learned.add(i)
        for i in np.flatnonzero(at == now):
            assert served[i] == learner.predict_one(float(s[i]))


def test_without_delay_a_forecaster_serves_what_forecast_many_gives():
    s, y, at, _ = draw(4, n=300)
    order = np.argsort(at)
    found = live.backtest(s[order], y[order], at[order], live.Online(online.OnlinePlatt()))
    np.testing.assert_array_equal(found["OnlinePlatt"].served, online.OnlinePlatt().forecast_many(s[order], y[order]))


def test_a_window_holds_the_labels_of_its_days():
    s, y, at, _ = draw(5)
    history = History.of_rows(s, y, at, delay=2.5, keys=None, positive=None, day=None)
    all_of, some = Usable(history, None), Usable(history, 10)
    for day in range(0, 90, 7):
        known = np.ceil(at + 2.5)
        for usable, inside in ((all_of, known <= day), (some, (known <= day) & (known > day - 10))):
            counted = usable.at(day)
            expected = Tally.from_arrays(s[inside], y[inside], grid=SEGMENT_GRID) if inside.any() else None
            assert counted.total == inside.sum()
            assert expected is None or counted.fingerprint == expected.fingerprint


# ---------------------------------------------------------------------------------------------------------- numbers


def test_losses_are_those_of_the_metrics():
    s, y, at, delay = draw(6, n=700)
    for each in replay(s, y, at, POLICIES, delay=delay).values():
        assert each.log_loss == pytest.approx(float(metrics.log_loss(each.served, y).value), abs=1e-8)
        assert each.brier == pytest.approx(float(metrics.brier(each.served, y).value), abs=1e-12)
        assert each.calibration_error == pytest.approx(float(metrics.debiased_ece(each.served, y).value), abs=1e-9)
        assert each.sharpness == pytest.approx(float(metrics.sharpness(each.served, y).value), abs=1e-9)


def test_the_plot_has_the_errors_of_blocks_by_hand():
    scores, y, at, _ = draw(8)
    found = live.backtest(scores, y, at, ["week", "never", "day"])
    shown = displays.BacktestDisplay.from_backtest(found, policies=["never", "every week"], block_days=20)
    block = np.floor(at).astype(int) // 20
    by_hand = [float((y - scores)[block == each].mean()) for each in range(5)]
    never, week = shown.data["policies"]
    assert np.allclose(never["error"], by_hand)
    assert shown.data["day"] == [19, 39, 59, 79, 89]
    assert len(week["refit_blocks"]) == 5
    losses = displays.BacktestDisplay.from_backtest(found, error="log-loss", block_days=90).data["policies"]
    assert [each["error"][0] for each in losses] == pytest.approx(
        [each.log_loss_change.value for each in found.values()]
    )
    for wrong in ({"policies": ["none"]}, {"policies": []}, {"block_days": 0}, {"error": "brier"}):
        with pytest.raises(InputError):
            displays.BacktestDisplay.from_backtest(found, **wrong)


def test_the_order_of_rows_does_not_matter():
    s, y, at, delay = draw(7, n=400)
    mixed = np.random.default_rng(0).permutation(len(s))
    one = replay(s, y, at, POLICIES, delay=delay)
    other = replay(s[mixed], y[mixed], at[mixed], POLICIES, delay=delay[mixed])
    for name, each in one.items():
        np.testing.assert_array_equal(each.served[mixed], other[name].served)
        assert each.record() == pytest.approx(other[name].record(), nan_ok=True)


def test_a_difference_of_blocks_is_that_by_hand():
    sums, rows = np.array([1.0, 2.0, 0.0, -1.0, 3.0, 1.0]), np.array([10.0, 5.0, 0.0, 10.0, 20.0, 5.0])
    found = Difference.of(sums, rows)
    kept = rows > 0
    residual = sums[kept] - found.value * rows[kept]
    half = 2.7764451051977987 * math.sqrt(5 / 4 * (residual**2).sum()) / 50.0  # t with 4 degrees of freedom
    assert (found.value, found.blocks, found.block_days) == (6.0 / 50.0, 5, 1)
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert math.isnan(Difference.of(sums[:4], rows[:4]).low)


def test_steps_are_measured_at_observed_scores():
    s, y, at, _ = draw(8)
    found = live.backtest(s, y, at, ["month", "once"])
    maps = found["every month"].maps
    assert len(maps) == found["every month"].refits == len(found["every month"].refit_days) == 2
    near = np.quantile(s, np.linspace(0.01, 0.99, 21), method="inverted_cdf")
    odds = [np.log(p / (1 - p)) for p in (each.apply(near) for each in maps)]
    assert found["every month"].largest_step == pytest.approx(float(np.abs(odds[1] - odds[0]).max()))
    assert math.isnan(found["once"].largest_step)


def test_refits_fall_on_mondays_and_first_days_of_a_month():
    s, y, at, _ = draw(9)
    dates = np.datetime64("2026-01-01") + (at * 86_400e6).astype("timedelta64[us]")
    found = live.backtest(s, y, dates, [live.Every("week", min_events=1), live.Every("month", min_events=1)])
    weeks = found["every week"].refit_days
    assert weeks[0] == "2026-01-05"
    assert all(dt.date.fromisoformat(day).weekday() == 0 for day in weeks)
    assert found["every month"].refit_days == ("2026-02-01", "2026-03-01")


def test_dates_and_durations_give_what_numbers_give():
    s, y, at, _ = draw(10)
    at = np.floor(at * 86_400.0)
    dates = np.datetime64("2026-01-01") + at.astype("timedelta64[s]")
    policies = ["day", live.Every(7), "online-platt"]
    by_date = live.backtest(s, y, dates, policies, delay=dt.timedelta(hours=36))
    by_text = live.backtest(s, y, [str(each) for each in dates], policies, delay=np.timedelta64(36, "h"))
    by_second = live.backtest(s, y, at, policies, delay=1.5, day=86_400)
    for name, each in by_date.items():
        np.testing.assert_array_equal(each.served, by_text[name].served)
        np.testing.assert_array_equal(each.served, by_second[name].served)


def test_a_map_from_before_is_served_as_it_is():
    s, y, at, _ = draw(11, n=50)
    found = LogitAffineMap(1.0, -0.5)
    np.testing.assert_array_equal(live.backtest(s, y, at, live.Never(found))["never"].served, found.apply(s))


# ------------------------------------------------------------------------------------------------- alarms and keys


def test_on_alarm_refits_after_a_break_and_not_before():
    rng = np.random.default_rng(0)
    at, z = rng.uniform(0, 120, 6_000), rng.normal(-1, 1, 6_000)
    y = rng.random(6_000) < expit(z - 1.5 * (at > 60))
    found = live.backtest(expit(z), y, at, ["on-alarm", "never"], delay=2)["on alarm"]
    assert 1 <= found.refits <= 12
    assert 62 < float(found.refit_days[0]) < 75
    assert live.OnAlarm(window=90).name == "on alarm (last 90 days)"
    with pytest.raises(InputError, match="Monitor without rows"):
        live.OnAlarm(live.Monitor().update([0.5], [1]))


def test_a_bank_learns_at_the_start_of_each_day_what_became_known():
    s, y, at, delay = draw(18, n=400)
    keys = np.array(["a", "b", "c"])[np.arange(400) % 3]
    found = live.backtest(s, y, at, ["bank-by-key", "online-platt"], delay=delay, keys=keys)
    assert [each.cells()[5] for each in found.values()] == ["each day", "each row"]
    served = found["bank by key"].served
    bank = live.Bank()
    known = np.maximum(np.floor(at) + 1, np.ceil(at + delay))
    for day in range(90):
        due = np.flatnonzero(known == day)
        due = due[np.argsort(at[due], kind="stable")]
        if len(due):
            bank.learn(s[due], keys[due], y[due])
        today = np.floor(at) == day
        np.testing.assert_array_equal(served[today], bank.predict(s[today], keys[today]))
    with pytest.raises(InputError, match="keys is missing"):
        live.backtest(s, y, at, "bank-by-key")
    with pytest.raises(InputError, match="must be a Bank"):
        live.ByKey("bank")


# ------------------------------------------------------------------------------------------------------------ stores


def test_a_store_gives_what_rows_give(tmp_path):
    pytest.importorskip("pyarrow")
    s, y, at, _ = draw(12, n=2_000, days=40.0)
    store = TallyStore(tmp_path / "tallies", by="country")
    country = np.where(np.arange(len(s)) % 3 == 0, "de", "fr")
    for day in range(40):
        today = np.floor(at) == day
        date = dt.date(2026, 1, 1) + dt.timedelta(day)
        store.add(date, GroupedTally.from_arrays(s[today], y[today], groups=country[today]))
    policies = ["day", "week", "month", "once", "never", "on-alarm"]
    dates = np.datetime64("2026-01-01") + (at * 86_400e6).astype("timedelta64[us]")
    rows, counted = live.backtest(s, y, dates, policies, delay=3), live.backtest(store, policies=policies, delay=3)
    assert (counted.rows, counted.events, counted.days) == (rows.rows, rows.events, rows.days)
    for name, each in counted.items():
        assert (each.refits, each.status) == (rows[name].refits, rows[name].status)
        assert each.log_loss == pytest.approx(rows[name].log_loss, abs=3e-4)
        assert each.served is None
    with pytest.raises(InputError, match="row by row"):
        live.backtest(store, policies="online-platt")
    with pytest.raises(InputError, match="y cannot be passed"):
        live.backtest(store, y, policies="day")
    with pytest.raises(InputError, match="without days"):
        live.backtest(TallyStore(tmp_path / "none"))


# ------------------------------------------------------------------------------------------------------------- edges


@pytest.mark.filterwarnings("error")
def test_edges(subtests):
    cases = {
        "one row": ([0.3], [1], [0.0]),
        "two rows": ([0.3, 0.6], [0, 1], [0.0, 0.0]),
        "one day": ([0.3, 0.6, 0.1] * 30, [0, 1, 0] * 30, np.linspace(0.0, 0.9, 90)),
        "one time": ([0.3, 0.6, 0.1] * 30, [0, 1, 0] * 30, np.full(90, 7.0)),
        "one class": ([0.3, 0.6, 0.1] * 30, [0] * 90, np.arange(90.0)),
        "zeros and ones": ([0.0, 1.0, 0.5] * 30, [1, 0, 1] * 30, np.arange(90.0)),
        "one score": ([0.25] * 90, [0, 0, 1] * 30, np.arange(90.0)),
        "float32": (np.full(90, 0.25, dtype=np.float32), [0, 0, 1] * 30, np.arange(90.0)),
        "negative times": ([0.3, 0.6, 0.1] * 30, [0, 1, 0] * 30, np.arange(-50.0, 40.0)),
    }
    for name, (s, y, at) in cases.items():
        with subtests.test(name):
            found = replay(s, y, at, POLICIES)
            assert found.rows == len(s)
            assert all(np.isfinite(each.served).all() and math.isfinite(each.log_loss) for each in found.values())
            json.dumps(found.to_dict(), allow_nan=False)
            assert str(found)
            assert "<table" in found._repr_html_()


def test_without_a_label_in_time_scores_are_served_as_they_are():
    s, y, at, _ = draw(13)
    found = live.backtest(s, y, at, ["never", "day", "once", "online-platt"], delay=1_000)
    for each in found.values():
        np.testing.assert_allclose(each.served, s, rtol=1e-12)
        assert each.log_loss_change.value == pytest.approx(0.0, abs=1e-12)
    assert [note.values["policy"] for note in found.notes if note.code == "backtest-not-refitted"] == [
        "every day", "once"
    ]  # fmt: skip


def test_one_class_until_late_is_served_as_it_is_until_then():
    s, y, at, _ = draw(14)
    y = np.where(at < 70.0, 0, y)
    each = live.backtest(s, y, at, "day")["every day"]
    first = float(each.refit_days[0])
    assert first > 70.0
    np.testing.assert_array_equal(each.served[at < first], s[at < first])


def test_missing_labels_are_neither_learned_nor_judged():
    s, y, at, _ = draw(15)
    missing = np.random.default_rng(0).random(len(s)) < 0.3
    some = live.backtest(s, np.where(missing, np.nan, y), at, ["day", "online-platt"])
    rest = live.backtest(s[~missing], y[~missing], at[~missing], ["day", "online-platt"])
    for name, each in some.items():
        np.testing.assert_array_equal(each.served[~missing], rest[name].served)
        assert each.log_loss == pytest.approx(rest[name].log_loss)
    assert some.rows == rest.rows
    assert [note.code for note in some.notes] == ["backtest-intervals", "backtest-labels-missing"]


def test_a_warm_up_is_served_and_not_judged():
    s, y, at, _ = draw(16)
    whole, later = live.backtest(s, y, at, "day"), live.backtest(s, y, at, "day", warm_up=30)
    np.testing.assert_array_equal(whole["every day"].served, later["every day"].served)
    judged = later["every day"]
    assert later.rows == (at >= 30).sum()
    assert judged.brier == pytest.approx(float(metrics.brier(judged.served[at >= 30], y[at >= 30]).value))


# ------------------------------------------------------------------------------------------------------- the verdict


def test_the_sentence_is_a_value_and_is_worded_at_the_edge():
    pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    at, z = rng.uniform(0, 200, 20_000), rng.normal(-1, 1, 20_000)
    y = rng.random(20_000) < expit(z - 0.8 * (at > 100))
    found = live.backtest(expit(z), y, at, ["day", "week", "never"], delay=3)
    by_name = {each["name"]: each for each in found.sentence.values["others"]}
    assert (by_name["every week"]["status"], by_name["never"]["status"]) == ("as good", "worse")
    text = str(found.sentence)
    assert text.startswith(f"every week refits {found['every week'].refits} times and is as good as every day; ")
    assert "never loses 0.0" in text
    assert list(found.to_frame()["status"]) == ["as good", "as good", "worse"]
    assert list(found.to_frame("polars")["policy"]) == list(found)


def test_the_reference_can_be_named():
    s, y, at, _ = draw(17)
    found = live.backtest(s, y, at, ["never", "week"], reference="week")
    assert found.reference == "every week"
    assert found["every week"].log_loss_change.value == 0.0
    assert found["never"].log_loss_change.value == pytest.approx(found["never"].log_loss - found["every week"].log_loss)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": "weekly"}, "did you mean 'week'"),
        ({"policies": ["day", live.Every("day")]}, "twice"),
        ({"policies": []}, "is empty"),
        ({"policies": live.Every}, r"pass Every\(\)"),
        ({"policies": 3.0}, "not a policy"),
        ({"delay": -1}, "delay must be"),
        ({"delay": [1, 2]}, "delay has 2 rows"),
        ({"delay": math.nan}, "delay must be"),
        ({"warm_up": 100}, "leaves none"),
        ({"warm_up": -1}, "warm_up=-1"),
        ({"margin": 1.0}, "margin=1.0"),
        ({"reference": "tracking"}, "is not among the policies"),
        ({"day": 0.0}, "must be a positive number"),
        ({"day": 1e-9}, "spans"),
        ({"time": None}, "time is missing"),
        ({"y": np.full(60, np.nan)}, "no label at all"),
        ({"scores": np.full(60, 2.0)}, "scores"),
        ({"scores": np.full(60, np.nan)}, "missing values"),
        ({"scores": []}, "empty|rows"),
        ({"time": np.full(60, np.inf)}, "not finite"),
        ({"time": np.arange(60).astype("timedelta64[D]")}, "durations"),
    ],
)
def test_mistakes_are_named(options, message):
    given: dict[str, Any] = {"scores": np.full(60, 0.3), "y": [0, 1] * 30, "time": np.arange(60.0), **options}
    with pytest.raises(InputError, match=message):
        live.backtest(given.pop("scores"), given.pop("y"), given.pop("time"), **given)


@pytest.mark.parametrize(
    "make",
    [
        lambda: live.Every("year"),
        lambda: live.Every(0),
        lambda: live.Every("day", window=0),
        lambda: live.Every("day", min_events=-1),
        lambda: live.Every("day", calibrator="platt"),
        lambda: live.Once(after=-1),
        lambda: live.Online(online.OnlinePlatt),
    ],
)
def test_policies_refuse_settings_that_cannot_be_used(make):
    with pytest.raises(InputError):
        make()
