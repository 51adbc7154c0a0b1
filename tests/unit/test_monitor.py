"""The monitor: edges, equal bits in batches and one by one, alarms and restarts."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.monitor import predictions

from calibrant.live import Monitor
from calibrant.live.monitor.boundary import epochs, mixture, of_maximum
from calibrant.live.monitor.wealth import START, Wealth, begins_at, log_ratios, unspent
from calibrant.messages import InputError
from calibrant.tallies import Tally


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
    assert np.trapezoid(np.exp(of_maximum(logs) - logs), logs) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("lag", [1, 3])
def test_batches_and_single_rows_give_the_same_bits(lag: int) -> None:
    p, y = stream(300, shift=1.0)
    whole, single = Monitor(lag=lag).update(p, y), Monitor(lag=lag)
    for k in range(300):
        single.update(p[k : k + 1], y[k : k + 1])
    assert whole.log_e == single.log_e
    assert whole.alarms == single.alarms or repr(whole.alarms) == repr(single.alarms)
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
    assert found.part == "level"
    assert 4_000 < found.row < 5_200
    assert abs(found.onset_row - 4_000) < 200
    assert abs(found.shift + 0.8) < 0.35
    assert monitor.run == len(monitor.alarms) + 1


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
    assert off.alarms[0].row % 500 == 0
