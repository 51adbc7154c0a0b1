"""The monitor: edges, equal bits in batches and one by one, alarms and restarts."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.monitor import predictions
from scipy import integrate

from calibrant.displays import MonitorDisplay
from calibrant.live import Monitor
from calibrant.live.monitor.boundary import epochs, mixture, of_maximum
from calibrant.live.monitor.monitor import Against
from calibrant.live.monitor.wealth import START, Wealth, begins_at, log_ratios, unspent
from calibrant.messages import InputError
from calibrant.tallies import GroupedTally, Tally


def stream(rows: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = predictions(rng, rows)
    odds = p / (1.0 - p) * np.exp(shift)
    return p, (rng.random(rows) < odds / (1.0 + odds)).astype(float)


def test_the_mixture_is_narrower_than_the_boundary_by_epochs_where_it_matters() -> None:
    v = np.geomspace(0.01, 1e8, 60)
    for alpha in (0.2, 0.02, 1e-3, 1e-6):
        assert (mixture(v, alpha) < epochs(v, alpha)).all()


def test_a_boundary_is_where_the_mixture_reaches_its_limit() -> None:
    rates, shares = 0.9 / 1.6 ** np.arange(20), 1.0 / np.arange(1.0, 21.0)
    for v in (0.0, 3.0, 1e3, 1e6):
        x = float(mixture(v, 0.01))
        value = np.average(np.exp(rates * x + (np.log1p(-rates) + rates) * v), weights=shares)
        assert value == pytest.approx(100.0, rel=1e-4)


def test_the_prior_over_onsets_sums_to_one() -> None:
    rows = np.arange(1.0, 2_000.0)
    assert START + np.exp(begins_at(rows)).sum() + unspent(rows[-1:])[0] == pytest.approx(1.0, abs=1e-12)


def test_the_e_process_is_the_mixture_over_alternatives_and_onsets() -> None:
    rng = np.random.default_rng(3)
    p, tilts = rng.random(6), np.array([-0.5, 0.4, 1.0])
    y = (rng.random(6) < p).astype(float)
    ratios = log_ratios(p, y, np.broadcast_to(tilts, (6, 3)))
    found = Wealth.new(3).advance(ratios)
    prior = np.exp(begins_at(np.arange(1.0, 7.0)))
    for t in range(1, 7):
        total = START * np.exp(ratios[:t].sum(axis=0)).mean() + unspent(np.array([float(t)]))[0]
        total += sum(prior[s] * np.exp(ratios[s:t].sum(axis=0)).mean() for s in range(t))
        assert np.exp(found[t - 1]) == pytest.approx(total, rel=1e-12)


def test_a_step_has_mean_one_under_the_hypothesis_and_at_most_one_within_the_tolerance() -> None:
    tilts = np.array([[-2.0, -0.3, 0.1, 1.5]])
    for p in (0.0, 1e-6, 0.2, 0.5, 0.999, 1.0):
        one, zero = (np.exp(log_ratios(np.array([p]), np.array([y]), tilts)) for y in (1.0, 0.0))
        assert p * one + (1.0 - p) * zero == pytest.approx(1.0)
        reach = np.array([0.3])
        one, zero = (np.exp(log_ratios(np.array([p]), np.array([y]), tilts, reach)) for y in (1.0, 0.0))
        for moved in (-0.3, 0.0, 0.3):
            q = p * np.exp(moved) / (1.0 + p * np.expm1(moved))
            assert (q * one + (1.0 - q) * zero <= 1.0 + 1e-12).all()


def test_the_e_value_of_a_maximum_grows_and_its_mean_is_one_at_the_worst_law() -> None:
    m = np.geomspace(1.0, 1e6, 4_000)
    value = np.exp(of_maximum(np.log(m)))
    assert (np.diff(value) > 0.0).all()
    logs = np.linspace(0.0, 40.0, 400_001)  # P(M > m) = 1 / m, as a density of log m
    assert integrate.trapezoid(np.exp(of_maximum(logs) - logs), logs) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("against", ["calibration", "tolerance"])
@pytest.mark.parametrize("lag", [1, 3])
def test_batches_and_single_rows_give_the_same_bits(lag: int, against: Against) -> None:
    p, y = stream(300, shift=1.5)
    p[[50, 100, 150]] = 0.0, 1.0, 1e-7
    whole, single = Monitor(lag=lag, against=against).update(p, y), Monitor(lag=lag, against=against)
    for k in range(300):
        single.update(p[k : k + 1], y[k : k + 1])
    assert whole.to_json() == single.to_json()
    assert whole.log_e == single.log_e
    assert str(whole.bins) == str(single.bins)


def test_no_rows_one_row_and_rows_at_the_ends() -> None:
    nothing = Monitor().update([], [])
    assert nothing.log_e == pytest.approx(0.0)
    assert (nothing.band.low, nothing.band.high) == (-1.0, 1.0)
    assert Monitor().update([0.3], [1]).band.rows == 1
    ends = Monitor().update([0.0, 1.0] * 50, [0, 1] * 50)
    assert ends.log_e <= 1e-12
    assert ends.band.difference == 0.0
    assert Monitor().update([0.0, 1.0] * 50, [1, 0] * 50).alarms


def test_float32_one_class_and_fractional_outcomes() -> None:
    p = np.full(200, 0.25, dtype=np.float32)
    assert Monitor().update(p, np.zeros(200)).alarms
    assert not Monitor().update(p, np.full(200, 0.25)).alarms


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"level": 0.0}, "level"),
        ({"level": float("nan")}, "level"),
        ({"tolerance": (0.2, 0.0)}, "tolerance"),
        ({"against": "chance"}, "against"),
        ({"lag": 0}, "lag"),
        ({"lag": True}, "lag"),
        ({"edges": [0.5, 0.5]}, "edges"),
        ({"edges": [0.0, 0.5]}, "edges"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as found:
        Monitor(**options)  # type: ignore[arg-type]
    assert found.value.argument == argument


@pytest.mark.parametrize(("p", "y"), [([0.2, np.nan], [0, 1]), ([0.2, 1.2], [0, 1]), ([0.2], [0, 1]), ([0.2], [2])])
def test_rows_that_cannot_be(p: list[float], y: list[float]) -> None:
    monitor = Monitor()
    with pytest.raises(InputError):
        monitor.update(p, y)
    assert monitor.rows == 0


def test_an_alarm_names_its_part_and_estimates_the_onset() -> None:
    p, y = stream(4_000)
    q, z = stream(6_000, shift=-0.8, seed=1)
    monitor = Monitor().update(p, y)
    assert not monitor.alarms
    found = monitor.update(q, z).alarms[0]
    assert found.kind == "level"
    assert 4_000 < found.start < 5_200
    assert abs(found.onset_row - 4_000) < 200
    assert abs(found.shift + 0.8) < 0.35
    assert monitor.run == 2 + found.confirmed


def drifted(rows: int = 12_000, before: int = 5_000, after: int = 12_000) -> tuple[np.ndarray, np.ndarray]:
    """The stream of an outside look, which had 19 alarms: events are rarer, by a power, in some of the rows."""
    rng = np.random.default_rng(0)
    p, place = rng.random(rows), np.arange(rows)
    return p, (rng.random(rows) < np.where((place < before) | (place >= after), p, p**1.5)).astype(int)


def test_one_drift_is_one_alarm_until_a_restart() -> None:
    monitor = Monitor().update(*drifted())
    (alarm,) = monitor.alarms
    assert monitor.alarm == alarm
    assert 5_000 < alarm.start < 6_000
    assert (alarm.kind, alarm.end, alarm.ended_by, alarm.holds) == ("level", None, None, True)
    assert monitor.run == 2 + alarm.confirmed > 10
    assert "calibrant_alarm 1.0" in monitor.prometheus()
    assert "calibrant_alarms_total 1.0" in monitor.prometheus()
    assert monitor.restart().alarm is None
    assert (monitor.alarms[0].end, monitor.alarms[0].ended_by) == (12_000, "restart")
    p, y = drifted()
    second = monitor.update(p[5_000:], y[5_000:]).alarm
    assert second is not None
    assert (second.number, second.confirmed > 0, len(monitor.alarms)) == (2, True, 2)


@pytest.mark.parametrize("lag", [1, 2])
def test_evidence_ends_an_alarm_at_the_same_row_in_any_batches_and_after_a_pause(lag: int) -> None:
    p, y = drifted(32_000 * lag, 2_000, 6_000)
    whole, parts = Monitor(lag=lag).update(p, y, at=np.arange(len(p))), Monitor(lag=lag)
    for start in range(0, len(p), 777):
        part = slice(start, start + 777)
        parts.update(p[part], y[part], at=np.arange(len(p))[part])
        if start in (777 * 6, 777 * 9):
            assert (parts.alarm is not None) == (json.loads(parts.to_json())["alarms"] != [])
            parts = Monitor.from_json(parts.to_json())
    assert whole.to_json() == parts.to_json()
    (alarm,) = whole.alarms
    assert alarm.end is not None
    assert 6_000 < alarm.end < len(p)
    assert (alarm.ended_by, alarm.end_at, whole.alarm) == ("within", alarm.end - 1.0, None)
    assert alarm.confirmed > 0
    assert whole.advice.code == "nothing-to-do"
    assert 5_500 < whole.rows - whole.band.rows < alarm.end  # the evidence is that of the last piece of the alarm
    assert whole._history.sums[2] == whole.band.rows


def test_an_alarm_of_tallies_ends_by_evidence_at_the_end_of_a_day() -> None:
    p, y = drifted(32_000, 2_000, 6_000)
    monitor = Monitor()
    for day in range(32):
        part = slice(1_000 * day, 1_000 * day + 1_000)
        monitor.update_tally(Tally.from_arrays(p[part], y[part]), at=float(day))
    (alarm,) = monitor.alarms
    assert alarm.ended_by == "within"
    assert alarm.end == 1_000 * (alarm.end_at + 1.0) > 6_000


NOTHING = ("nothing-to-do", "not-enough")


@pytest.mark.parametrize(("shift", "seed"), [(0.1, 0), (0.1, 1), (0.15, 2), (0.3, 3), (-0.8, 4)])
def test_advice_beside_an_alarm_never_says_that_nothing_was_found(shift: float, seed: int) -> None:
    p, y = stream(16_000, shift=shift, seed=seed)
    monitor = Monitor()
    for start in range(0, 16_000, 500):
        advice = monitor.update(p[start : start + 500], y[start : start + 500]).advice
        assert advice.code not in (("small-deviation", "alarm-holds") if monitor.alarm is None else NOTHING)
        if advice.code == "level-moved":
            assert (advice.values["low"] > 0.0) == (monitor.shift.value > 0.0)
            assert not monitor.shift.low <= 0.0 <= monitor.shift.high
        if advice.code == "alarm-holds":
            assert monitor.alarm is not None
            assert (advice.values["part"], advice.values["onset"]) == (monitor.alarm.kind, monitor.alarm.onset_row)
    assert monitor.alarms


def test_within_the_tolerance_there_is_no_alarm_against_it() -> None:
    p, y = stream(20_000, shift=0.15)
    assert Monitor().update(p, y).alarms
    assert not Monitor(against="tolerance").update(p, y).alarms
    q, z = stream(5_000, shift=0.8)
    assert Monitor(against="tolerance").update(q, z).alarms


def test_a_restart_forgets_the_evidence() -> None:
    p, y = stream(1_000, shift=0.05)
    monitor = Monitor().update(p, y).restart()
    assert (monitor.run, monitor.band.rows, monitor.rows) == (2, 0, 1_000)
    assert monitor.log_e == pytest.approx(0.0)


def test_tallies_have_the_counts_of_the_rows_and_no_more_evidence() -> None:
    p, y = stream(3_000)
    rows, days = Monitor().update(p, y), Monitor()
    for k in range(0, 3_000, 500):
        days.update_tally(Tally.from_arrays(p[k : k + 500], y[k : k + 500]))
    assert days.rows == rows.rows
    assert days.band.difference == pytest.approx(rows.band.difference)
    assert days.band.high == pytest.approx(rows.band.high)
    q, z = stream(3_000, shift=0.7)
    off = Monitor()
    for k in range(0, 3_000, 500):
        off.update_tally(Tally.from_arrays(q[k : k + 500], z[k : k + 500]))
    assert off.alarms
    assert off.alarms[0].start % 500 == 0


# ---------------------------------------------------------------------------------------------------------------- state


def watched(lag: int = 1) -> Monitor:
    p, y = stream(900, shift=0.6)
    monitor = Monitor(lag=lag, n_keys=3, edges=[0.2, 0.5])
    monitor.update(p, y, np.arange(900) % 4, at=np.arange(900.0))
    monitor.expect(p, delays=100.0 * p, labeled=y)
    return monitor


@pytest.mark.parametrize("lag", [1, 2])
def test_a_state_goes_on_with_the_same_bits(lag: int) -> None:
    monitor = watched(lag)
    again = Monitor.from_json(monitor.to_json())
    assert again.to_json() == monitor.to_json()
    p, y = stream(300, seed=5)
    keys = np.arange(300) % 3
    assert again.update(p, y, keys).to_json() == monitor.update(p, y, keys).to_json()
    assert Monitor.from_json(Monitor().to_json()).to_json() == Monitor().to_json()


def test_damaged_states_are_refused() -> None:
    text = watched().to_json()
    whole = json.loads(text)
    for other in ("", "[]", "null", text[:-1], text[: len(text) // 2], text.replace('"monitor"', '"ledger"')):
        with pytest.raises(InputError):
            Monitor.from_json(other)
    with pytest.raises(InputError):
        Monitor.from_json(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="version"):
        Monitor.from_json(json.dumps(whole | {"version": 2}))
    for name in whole:
        for value in (None, "x", -1, True, [[]], {"a": 1}, 1e999):
            if value == whole[name]:
                continue
            with pytest.raises(InputError):
                Monitor.from_json(json.dumps(whole | {name: value}))
        with pytest.raises(InputError):
            Monitor.from_json(json.dumps({key: each for key, each in whole.items() if key != name}))


def test_a_state_of_an_alarm_without_its_band_is_read() -> None:
    state = json.loads(watched().to_json())
    assert state["alarms"][0].pop("band")
    assert Monitor.from_json(json.dumps(state)).alarms[0].band is None


def test_an_alarm_keeps_the_band_that_was_seen() -> None:
    p, y = stream(900, shift=1.0)
    alarm = Monitor().update(p, y).alarms[0]
    assert alarm.band is not None
    assert alarm.band.rows == alarm.start
    assert alarm.band.predicted == pytest.approx(p[: alarm.start].sum())
    assert alarm.band.observed == pytest.approx(y[: alarm.start].sum())
    assert alarm.band.low < alarm.band.difference < alarm.band.high


def test_numbers_of_a_state_must_fit() -> None:
    whole = json.loads(watched().to_json())

    def broken(change: Callable[[Any], None]) -> None:
        other = copy.deepcopy(whole)
        change(other)
        with pytest.raises(InputError):
            Monitor.from_json(json.dumps(other))

    broken(lambda state: state["runs"][0]["level"][1].append(0.0))
    broken(lambda state: state["runs"].append(state["runs"][0]))
    broken(lambda state: state["evidence"]["sums"][0].__setitem__(0, -1.0))
    broken(lambda state: state["history"].__setitem__("stride", 3))
    broken(lambda state: state["alarms"][0].__setitem__("kind", "moon"))
    broken(lambda state: state["alarms"][0].__setitem__("end", 800))
    broken(lambda state: state["alarms"][0]["band"].__setitem__("low", None))
    broken(lambda state: state["alarms"][0]["band"].__setitem__("other", 0.0))
    broken(lambda state: state["alarms"].append(state["alarms"][0]))
    broken(lambda state: state["keys"]["found"].append(state["keys"]["found"][0]))
    broken(lambda state: state["early"]["scores"]["first"].__setitem__(0, -1))
    broken(lambda state: state["settings"].__setitem__("level", 2.0))
    broken(lambda state: state.__setitem__("rows", 3))


# ----------------------------------------------------------------------------------------------------------------- keys


def test_keys_in_batches_and_one_by_one_give_the_same_bits() -> None:
    p, y = stream(200, shift=0.5)
    names = np.array(["a", "b", "c"])[np.random.default_rng(0).integers(0, 3, 200)]
    whole, single = Monitor(n_keys=2).update(p, y, names), Monitor(n_keys=2)
    for k in range(200):
        single.update(p[k : k + 1], y[k : k + 1], names[k : k + 1])
    assert whole.to_json() == single.to_json()
    assert whole.rows_beyond > 0


@pytest.mark.parametrize("lag", [1, 3])
def test_many_keys_with_few_rows_give_the_bits_of_single_rows(lag: int) -> None:
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.6, 150)
    y, keys = rng.random(150) < p, rng.integers(0, 60, 150)
    whole, single = (Monitor(n_keys=50, lag=lag, against="tolerance") for _ in range(2))
    whole.update(p, y, keys)
    for row in range(150):
        single.update(p[row : row + 1], y[row : row + 1], keys[row : row + 1])
    assert json.loads(whole.to_json())["keys"] == json.loads(single.to_json())["keys"]


def test_a_key_that_is_off_is_listed_and_the_others_are_not() -> None:
    p, y = stream(6_000)
    keys = np.arange(6_000) % 6
    y = np.where(keys == 2, np.random.default_rng(1).random(6_000) < 0.5 * p, y)
    monitor = Monitor(n_keys=6).update(p, y, keys)
    assert [each.key for each in monitor.keys_off()] == ["2"]
    assert monitor.key_band(2).high < 0.0
    assert monitor.keys == ("0", "1", "2", "3", "4", "5")
    with pytest.raises(InputError, match="no rows"):
        monitor.key_band("7")


def test_keys_need_a_number_of_keys() -> None:
    with pytest.raises(InputError, match="n_keys"):
        Monitor().update([0.5], [1], ["a"])
    with pytest.raises(InputError, match="keys"):
        Monitor(n_keys=3).update([0.5], [1], ["a", "b"])


def test_tallies_by_key_are_keys() -> None:
    p, y = stream(4_000)
    y = np.where(np.arange(4_000) % 2 == 1, np.random.default_rng(1).random(4_000) < 0.5 * p, y)
    groups = np.array(["even", "odd"])[np.arange(4_000) % 2]
    monitor = Monitor(n_keys=2)
    for k in range(0, 4_000, 1_000):
        part = slice(k, k + 1_000)
        monitor.update_tally(GroupedTally.from_arrays(p[part], y[part], groups=groups[part], grid=None), at=k)
    assert [each.key for each in monitor.keys_off()] == ["odd"]
    assert monitor.key_band("even").rows == 2_000


def test_weights_and_other_scores_are_refused_in_tallies() -> None:
    p, y = stream(50)
    with pytest.raises(InputError, match="importance"):
        Monitor().update_tally(Tally.from_arrays(p, y, 0.5 + p))
    with pytest.raises(InputError, match="probabilities"):
        Monitor().update_tally(Tally.from_arrays(4.0 * p, y, score_type="logit"))


# --------------------------------------------------------------------------------------------------------------- advice


@pytest.mark.parametrize(
    ("shift", "slope", "code"),
    [(0.0, 1.0, "nothing-to-do"), (0.4, 1.0, "level-moved"), (0.0, 0.6, "refit"), (-0.4, 1.6, "refit")],
)
def test_advice_says_what_moved(shift: float, slope: float, code: str) -> None:
    rng = np.random.default_rng(4)
    p = predictions(rng, 10_000)
    x = np.log(p / (1.0 - p))
    truth = 1.0 / (1.0 + np.exp(-(x + shift + (slope - 1.0) * (x + 0.5))))
    monitor = Monitor().update(p, rng.random(10_000) < truth)
    advice = monitor.advice
    assert advice.code == code
    assert bool(monitor.alarms) == (code != "nothing-to-do")
    if code == "level-moved":
        assert advice.values["shape"] == "fine"
        assert advice.values["low"] < shift < advice.values["high"]
        assert "shift the log-odds by +0." in str(advice)
    if code == "refit":
        assert monitor.slope.low < slope < monitor.slope.high
        assert "(estimate " in str(advice)


def test_few_rows_are_not_enough_and_a_range_can_be_off() -> None:
    assert Monitor().advice.code == "not-enough"
    assert Monitor().update([0.3, 0.4], [0, 1]).advice.code == "not-enough"
    p, y = stream(12_000)
    there = (p > 0.4) & (p < 0.5)
    y = np.where(there, np.random.default_rng(0).random(12_000) < p + 0.3, y)
    monitor = Monitor(edges=[0.2, 0.4, 0.5, 0.8], tolerance=(0.5, 0.5)).update(p, y)
    advice = monitor.advice
    assert (advice.code, advice.values["low"], advice.values["high"]) == ("range-off", 0.4, 0.5)


def test_constant_scores_have_no_slope() -> None:
    y = np.random.default_rng(0).random(8_000) < 0.3
    monitor = Monitor().update(np.full(8_000, 0.3), y)
    assert monitor.advice.code == "nothing-to-do"


# ----------------------------------------------------------------------------------------------------------------- text


def test_early_warnings_name_what_moved() -> None:
    rng = np.random.default_rng(0)
    p = predictions(rng, 8_000)
    steady = Monitor()
    assert steady.expect(p, delays=rng.exponential(3.0, 8_000), labeled=rng.random(8_000) < 0.9) == ()
    assert [each.code for each in steady.expect(p[:2_000] ** 2)] == ["scores-drift"]
    codes = [each.code for each in steady.expect(delays=np.full(2_000, 50.0), labeled=rng.random(2_000) < 0.5)]
    assert codes == ["scores-drift", "delays-drift", "coverage-drift"]
    assert not steady.alarms
    with pytest.raises(InputError, match="delays"):
        steady.expect(delays=[-1.0])
    with pytest.raises(InputError, match="labeled"):
        steady.expect(labeled=[0.5])


def test_the_text_states_level_budget_and_assumption() -> None:
    text = str(watched())
    assert "level 2 %, slope 2 %, bins 1 %" in text
    assert "independent given what was known" in text
    assert "began at about row" in text
    assert f"since row {watched().alarms[0].start:,}, still" in text
    assert "2 rows" in str(Monitor(lag=2))
    assert "later alarms have no proven level" in str(Monitor(lag=2))
    assert "at most 10% false" in text


def test_metrics_are_in_the_format_of_prometheus() -> None:
    text = watched().prometheus({"model": 'a"\\\n'})
    names = set()
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line)
            continue
        found = re.fullmatch(r'([a-z_]+)\{model="a\\"\\\\\\n"(,[a-z]+="[^"]*")?\} (\S+)', line)
        assert found, line
        float(found[3])
        names.add(found[1])
    assert {"calibrant_rows_total", "calibrant_difference", "calibrant_advice", "calibrant_keys_off"} <= names
    with pytest.raises(InputError, match="labels"):
        Monitor().prometheus({"1": "x"})
    with pytest.raises(InputError, match="prefix"):
        Monitor().prometheus(prefix="a-b")


def test_a_long_history_stays_short() -> None:
    p, y = stream(30_000)
    table = Monitor().update(p, y).history
    assert 60 <= len(table["row"]) <= 128
    assert table["row"] == sorted(table["row"])


def test_the_band_of_the_history_is_that_of_every_look() -> None:
    p, y = stream(1_280)
    for lag in (1, 5):
        monitor = Monitor(lag=lag)
        for end in range(64, 1_281, 64):
            band = monitor.update(p[end - 64 : end], y[end - 64 : end]).band
            low, high = (monitor.history[name][-1] for name in ("low", "high"))
            assert low <= band.low + 1e-12
            assert high >= band.high - 1e-12
            assert high - low == pytest.approx(band.high - band.low, rel=1e-9 if lag == 1 else 0.05)


def test_a_display_of_a_monitor_has_the_present_and_the_alarms() -> None:
    p, y = stream(3_000, shift=0.8)
    monitor = Monitor().update(p, y)
    data = MonitorDisplay.from_monitor(monitor).data
    assert data["row"][-1] == 3_000
    assert data["difference"][-1] == pytest.approx(monitor.band.difference)
    assert [(each["start"], each["end"]) for each in data["alarms"]] == [(monitor.alarms[0].start, None)]
    assert data["began"][-1] == monitor.alarms[0].start
    assert data["tolerated"][0] < 0.0 < data["tolerated"][1]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_display_of_few_rows(rows: int) -> None:
    data = MonitorDisplay.from_monitor(Monitor().update(np.full(rows, 0.3), np.ones(rows))).data
    assert data["row"] == [rows]
    assert data["high"] == [1.0]


def test_a_display_needs_a_monitor_with_rows() -> None:
    with pytest.raises(InputError, match="no rows"):
        MonitorDisplay.from_monitor(Monitor())
    with pytest.raises(InputError, match="monitor"):
        MonitorDisplay.from_monitor([0.1])  # type: ignore[arg-type]
