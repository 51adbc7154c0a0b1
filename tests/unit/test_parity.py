"""Parity: forecasts of a number as probabilities of a decrease, panels in batches, and the numbers of chapter 7."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import halfnorm, norm
from tests.cases import every

from calibrant.displays import ParityDisplay
from calibrant.messages import CalibrantWarning, InputError
from calibrant.online import (
    CdfForecast,
    GaussianForecast,
    OnlinePlatt,
    OnlineTemperature,
    QuantileForecast,
    SampleForecast,
    parity_stream,
    quantile_calibration_error,
    threshold_calibration_error,
)

LEVELS = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975]
LOSSES = [[0.3, 0.5], [0.6, 0.2], [1.0, 0.0]]  # tight, mild, none; without and with a decrease (002 section 7.3.1)

# ------------------------------------------------------------------------------------------------- the example of 7.1.1


def test_a_value_that_is_a_quantile_has_its_very_level() -> None:
    """ndtr(ndtri(0.9)) is 0.8999999999999999, which would fall into the bin below."""
    levels = [0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975]
    forecast = QuantileForecast(levels, [[1, 2, 3, 4, 5, 6, 7]] * 7)
    assert forecast.cdf([1, 2, 3, 4, 5, 6, 7]).tolist() == levels
    heap = QuantileForecast([0.1, 0.5, 0.9], [[3, 3, 4], [2, 3, 3]])
    assert heap.cdf([3, 3]).tolist() == [0.5, 1.0]  # above the last two, which are equal, is nothing


def test_the_mixture_forecast_is_the_standard_normal_and_its_quantiles_are_calibrated_exactly() -> None:
    # F^ = (F- + F+) / 2 has the density of N(0, 1); the true laws alternate between F- and F+.
    for p in (0.001, 0.2, 0.5, 0.731, 0.999):
        x = float(GaussianForecast([0.0], 1.0).quantile(p)[0])
        negative, positive = 1.0 - halfnorm.cdf(-x) if x < 0 else 1.0, halfnorm.cdf(x)
        assert 0.5 * negative + 0.5 * positive == pytest.approx(p, abs=1e-12)


def test_the_parity_of_the_example_is_wrong_by_a_quarter_by_integration() -> None:
    # t odd: the value before is positive, so p^ = Phi(y) >= 1/2, and the value always falls; t even: mirrored.
    def error(y: float) -> float:
        return float(norm.pdf(y) * abs((y >= 0.0) - norm.cdf(y)))

    def loss(y: float) -> float:
        return float(-norm.pdf(y) * norm.logcdf(abs(y)))

    assert quad(error, -9, 0)[0] + quad(error, 0, 9)[0] == pytest.approx(0.25, abs=1e-9)
    assert quad(loss, -9, 0)[0] + quad(loss, 0, 9)[0] == pytest.approx(1.0 - np.log(2.0), abs=1e-9)
    bins = np.arange(31) / 30.0  # no bin straddles 1/2, so binning in 30 hides nothing
    gaps = [quad(lambda y: norm.pdf(y) * ((y >= 0.0) - norm.cdf(y)), *norm.ppf([a, b]))[0] for a, b in pairwise(bins)]
    assert np.abs(gaps).sum() == pytest.approx(0.25, abs=1e-9)


def test_the_stream_of_the_example_shows_these_numbers() -> None:
    # The values before are the normal quantiles at 3,000 mid-points, negative and positive in turn: 100 in every bin.
    low = (np.arange(1500) + 0.5) / 3000.0
    y = np.append(np.column_stack([norm.ppf(low), norm.ppf(low + 0.5)]).ravel(), -1.0)
    stream = parity_stream(GaussianForecast(np.zeros(3001), 1.0), y)
    result = stream.judge()
    assert result.pce.value == pytest.approx(0.25, abs=1e-12)
    assert result.sharpness.value == result.base_rate == 0.5  # bins tell all
    assert result.accuracy.value == result.auroc.value == 1.0
    assert result.qce is not None
    assert result.qce.value < 1e-3
    repaired = stream.judge(OnlinePlatt(gamma=0.001, rho=1e4))
    assert repaired.pce.value < 0.05
    assert repaired.accuracy.value > 0.99


# ------------------------------------------------------------------------------------------------------------- the laws


def test_quantiles_are_joined_by_gaussians() -> None:
    # 002 section 7.B.1 at 115 between 100 (level 0.5) and 130 (0.75): sigma = 30 / 0.67449 = 44.478, mu = 100,
    # Phi(15 / 44.478) = Phi(0.33724) = 0.63204. Below 90 the first piece goes on: sigma = 10 / 0.67449 = 14.826.
    forecast = QuantileForecast([0.25, 0.5, 0.75], [[90.0, 100.0, 130.0]] * 3)
    expected = [norm.cdf(15 / (30 / norm.ppf(0.75))), 0.75, norm.cdf((80 - 100) / (10 / norm.ppf(0.75)))]
    assert forecast.cdf([115.0, 130.0, 80.0]) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(-50, 50), min_size=7, max_size=7), st.lists(st.floats(-60, 60), min_size=2, max_size=9))
def test_a_cdf_from_quantiles_never_falls_and_meets_its_quantiles(values: list[int], points: list[float]) -> None:
    forecast = QuantileForecast(LEVELS, [sorted(values)])
    probabilities = [float(forecast.cdf(x)[0]) for x in sorted(points)]
    assert (np.diff(probabilities) >= -1e-15).all()
    for level, value in zip(LEVELS, sorted(values), strict=True):
        assert float(forecast.cdf(value)[0]) >= level - 1e-12
        assert float(forecast.quantile(level)[0]) == pytest.approx(value, abs=1e-9)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.integers(-10, 10), st.sampled_from([0.0, 0.5, 2.0]))
def test_quantiles_of_samples_are_the_inverse_of_their_distribution(draws: list[int], x: int, ends: float) -> None:
    forecast = SampleForecast([draws], ends=ends)
    assert float(forecast.cdf(x)[0]) == (sum(d <= x for d in draws) + ends) / (len(draws) + 2 * ends)
    for level in (0.013, 0.31, 0.777):
        assert (forecast.quantile(level)[0] <= x) == (level <= forecast.cdf(x)[0])


def test_crossing_quantiles_are_sorted_with_a_warning() -> None:
    with pytest.warns(CalibrantWarning, match="values has crossing quantiles in 1 of 2 rows") as caught:
        forecast = QuantileForecast([0.1, 0.5, 0.9], [[1.0, 2.0, 3.0], [5.0, 4.0, 6.0]])
    assert forecast.crossed == 1
    assert [each.message.note.code for each in caught] == ["quantiles-cross"]
    assert forecast.values[1].tolist() == [4.0, 5.0, 6.0]


def test_edges_of_distributions() -> None:
    forecast = QuantileForecast([0.1, 0.5, 0.9], [[3.0, 3.0, 3.0]] * 2 + [[1.0, 3.0, 3.0]] * 3)
    assert forecast.cdf([2.9, 3.0, 2.0, 3.0, np.nan])[:4] == pytest.approx([0.0, 1.0, norm.cdf(norm.ppf(0.1) / 2), 1.0])
    assert forecast.quantile(0.0).tolist() == [3.0, 3.0, -np.inf, -np.inf, -np.inf]
    assert forecast.quantile(1.0).tolist() == [3.0] * 5

    forecast = GaussianForecast([1.0, 1.0, 1.0, np.nan], [0.0, 0.0, 1.0, 1.0])
    assert forecast.cdf([0.999, 1.0, 1.0, 1.0]).tolist()[:3] == [0.0, 1.0, 0.5]
    assert np.isnan(forecast.cdf(0.0)[3])
    assert forecast.quantile(0.0).tolist()[:3] == [1.0, 1.0, -np.inf]
    assert forecast.quantile(1.0).tolist()[:3] == [1.0, 1.0, np.inf]

    forecast = SampleForecast([[2.0, np.nan], [np.nan, np.nan]])
    assert forecast.cdf([1.9, 1.9]).tolist()[0] == 0.25
    assert forecast.cdf(2.0).tolist()[0] == 0.75
    assert np.isnan([forecast.cdf(2.0)[1], forecast.quantile(0.5)[1]]).all()
    assert [forecast.quantile(p)[0] for p in (0.2, 0.5, 0.8)] == [-np.inf, 2.0, np.inf]


def test_functions_and_distributions_of_scipy_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(1)
    mean, sd, y = rng.normal(size=200), rng.uniform(0.5, 2.0, 200), rng.normal(size=200)
    same = CdfForecast(norm(mean, sd).cdf, 200)
    with_inverse = CdfForecast(norm(mean, sd).cdf, 200, norm(mean, sd).ppf)
    gauss = GaussianForecast(mean, sd)
    assert same.cdf(y) == pytest.approx(gauss.cdf(y), abs=1e-15)
    expected = quantile_calibration_error(gauss, y).value
    assert quantile_calibration_error(same, y).value == pytest.approx(expected, abs=1e-12)
    assert quantile_calibration_error(with_inverse, y).value == pytest.approx(expected, abs=1e-12)

    rng = np.random.default_rng(8)
    mean, y = rng.normal(size=50), rng.normal(size=50)
    mine, theirs = parity_stream(GaussianForecast(mean, 2.0), y), parity_stream(norm(mean, 2.0), y)
    assert theirs.scores == pytest.approx(mine.scores, abs=1e-14)
    expected = quantile_calibration_error(GaussianForecast(mean, 2.0), y).value
    assert quantile_calibration_error(norm(mean, 2.0), y).value == pytest.approx(expected, abs=1e-12)
    assert theirs.judge().qce.value == pytest.approx(mine.judge().qce.value, abs=1e-12)  # type: ignore[union-attr]


def test_quantile_calibration_by_hand() -> None:
    # Levels 0, 1/2, 1 of N(0, 1): quantiles -inf, 0, inf. Outcomes -1, 1, 2, 3: covered 0, 1/4, 1; gaps 0, 1/4, 0.
    error = quantile_calibration_error(GaussianForecast(np.zeros(4), 1.0), [-1.0, 1.0, 2.0, 3.0], n_levels=3)
    assert error.value == pytest.approx(0.25 / 3)
    assert error.null == pytest.approx(np.sqrt(2 * 0.25 / (np.pi * 4)) / 3)

    error = quantile_calibration_error(GaussianForecast([0.0], 1.0), [np.nan])
    assert np.isnan(error.value)
    assert [note.code for note in error.notes] == ["no-forecast-with-outcome"]
    assert str(error.notes[0]) == "not defined: no row has both a forecast and an outcome"

    forecast, y = GaussianForecast(np.zeros(4), 1.0), [-1.0, 1.0, 2.0, 3.0]
    mask = quantile_calibration_error(forecast, y, rows=[True, False, False, True])
    assert mask.value == quantile_calibration_error(forecast, y, rows=[0, 3]).value
    assert np.isnan(quantile_calibration_error(forecast, y, rows=[]).value)


def test_correct_forecasts_show_the_expected_error() -> None:
    rng = np.random.default_rng(2)
    errors = [quantile_calibration_error(GaussianForecast(np.zeros(300), 1.0), rng.normal(size=300)) for _ in range(60)]
    assert np.mean([e.value for e in errors]) == pytest.approx(errors[0].null, rel=0.15)


# ----------------------------------------------------------------------------------------------------------- the stream


def test_a_tie_counts_as_a_decrease_and_prints_say_so() -> None:
    stream = parity_stream(GaussianForecast([1.0, 1.0, 1.0, 1.0], 1.0), [1.0, 1.0, 2.0, 1.5])
    assert stream.outcomes.tolist() == [1.0, 0.0, 1.0]
    assert stream.scores == pytest.approx([0.5, 0.5, norm.cdf(1.0)])
    assert stream.rows.tolist() == [1, 2, 3]

    # Rain: 9 rows, of which 2 rise, 2 fall and 5 stay: 7 / 9 and 5 / 9.
    dry = parity_stream(np.full(10, 0.5), [0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0])
    assert dry.ties.tolist() == [True, True, False, False, True, True, False, False, True]
    assert "9 rows, 77.8 % fall or stay (55.6 % stay); 1 left out" in repr(dry)
    result = dry.judge()
    assert str(result).startswith("9 rows, 77.8 % fall or stay (55.6 % stay), 30 bins")
    assert result.to_dict()["tie_rate"] == result.tie_rate == pytest.approx(5 / 9)
    assert dry.judge(after=5).tie_rate == 0.5
    assert "3 rows, 66.7 % fall or stay; 0 left out" in repr(parity_stream([0.5] * 3, [1, 2, 1], previous=[2, 1, 2]))


def test_rows_are_compared_with_the_same_series_and_missing_values_are_left_out() -> None:
    y, by = [5.0, -1.0, 4.0, -3.0, -2.0, 9.0], ["a", "b", "a", "b", "b", "a"]
    stream = parity_stream(GaussianForecast(np.zeros(6), 1.0), y, by=by)
    assert stream.rows.tolist() == [2, 3, 4, 5]
    assert stream.outcomes.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert stream.scores == pytest.approx(norm.cdf([5.0, -1.0, -3.0, 4.0]))

    y, by = [1.0, 1.0, np.nan, 2.0, 3.0, 3.0, 4.0, 4.0], [0, 1] * 4
    mean = np.zeros(8)
    mean[7] = np.nan
    stream = parity_stream(GaussianForecast(mean, 1.0), y, by=by)
    assert stream.rows.tolist() == [3, 5, 6]  # series 0: only 3 -> 4; series 1: 1 -> 2 -> 3, the last has no forecast
    assert "5 left out" in repr(stream)

    stream = parity_stream([0.1, 0.9, 0.4], [1.0, 0.0, 2.0])
    assert stream.scores.tolist() == [0.9, 0.4]
    assert stream.judge().qce is None


def test_rows_of_a_batch_are_forecast_before_any_of_them_is_learned() -> None:
    rng = np.random.default_rng(3)
    weeks = np.repeat(np.arange(30), rng.integers(1, 9, 30))  # batches of unequal size
    scores, y = np.full(len(weeks), 0.6), rng.normal(size=len(weeks))
    stream = parity_stream(scores, y, previous=np.zeros(len(y)), batch=weeks)
    said = stream.forecasts(OnlinePlatt())
    expected, learner = [], OnlinePlatt()
    for week in range(30):
        rows = np.flatnonzero(weeks == week)
        expected += [learner.predict_one(0.6)] * len(rows)
        for row in rows:
            learner.learn_one(0.6, float(y[row] <= 0.0))
    assert said.tolist() == expected

    rng = np.random.default_rng(4)
    forecast, y, ops = GaussianForecast(rng.normal(size=300), 1.0), rng.normal(size=300), OnlinePlatt()
    one, other = parity_stream(forecast, y), parity_stream(forecast, y, batch=np.arange(300))
    assert one.forecasts(ops).tolist() == other.forecasts(ops).tolist()
    assert ops.n_rows == 0


@every(
    "batch",
    [
        [3, 3, 2, 2, 1, 1],
        [1, 1, 3, 3, 2, 2],
        np.repeat(np.array(["2021-03-06", "2021-02-27", "2020-12-05"], "datetime64[D]"), 2),
        np.repeat(np.array(["2021-03-06", "2021-02-27", "2020-12-05"], "datetime64[ns]"), 2),
        [dt.date(2021, 3, 6)] * 2 + [dt.date(2021, 2, 27)] * 2 + [dt.date(2020, 12, 5)] * 2,
        ["2021-03-06"] * 2 + ["2021-02-27"] * 2 + ["2020-12-05"] * 2,
        ["2021-W03"] * 2 + ["2021-W02"] * 2 + ["2020-W50"] * 2,
    ],
)
def test_batches_that_go_back_in_time_are_refused(batch) -> None:  # type: ignore[no-untyped-def]
    y, by = [30.0, 30.0, 20.0, 20.0, 10.0, 10.0], ["a", "b"] * 3
    with pytest.raises(InputError, match=r"batch goes back in time at row [24] .*: sort the rows by time first"):
        parity_stream([0.5] * 6, y, by=by, batch=batch)
    forth = np.array(batch)[np.argsort(np.array(batch), kind="stable")]
    assert parity_stream([0.5] * 6, y[::-1], by=by, batch=forth).outcomes.tolist() == [0.0] * 4


@every("batch", [["week 9", "week 10", "week 11"], ["b", "c", "a"], ["9/2020", "10/2020", "1/2021"]])
def test_batches_without_an_order_count_as_they_come(batch) -> None:  # type: ignore[no-untyped-def]
    assert parity_stream([0.5] * 3, [1.0, 2.0, 3.0], batch=batch).outcomes.tolist() == [0.0, 0.0]


def test_frames_are_read_or_refused_with_advice() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.sort(np.random.default_rng(0).normal(size=(5, 3)), axis=1), columns=["lo", "mid", "hi"])
    for call in (
        lambda: parity_stream(frame, np.arange(5.0)),
        lambda: quantile_calibration_error(frame, np.arange(5.0)),
    ):
        with pytest.raises(InputError, match=r"QuantileForecast\(levels, values\) for quantiles"):
            call()

    pd = pytest.importorskip("pandas")
    names = ["a", "b", "a", "b"]
    frame, y = pd.DataFrame({"state": names, "county": [1, 2, 1, 3]}), [5.0, 1.0, 4.0, 2.0]
    assert parity_stream([0.5] * 4, y, by=frame[["state"]]).rows.tolist() == [2, 3]
    with pytest.raises(InputError, match="by has 2 columns: pass one column, such as their values joined as text"):
        parity_stream([0.5] * 4, y, by=frame)

    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"low": pd.array([1.0, None], dtype="Float64"), "high": pd.array([2, 3], dtype="Int64")})
    assert np.isnan(QuantileForecast([0.2, 0.8], table).cdf(2.0)).tolist() == [False, True]
    assert SampleForecast(table).draws.tolist() == [2, 1]


def test_columns_of_one_index_in_two_orders_or_backwards_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=6)
    y, flat = pd.Series(np.arange(6.0), days), pd.Series(np.full(6, 0.5), days)
    back, table = flat[::-1], pd.DataFrame({"low": flat, "high": flat + 1.0})
    for (first, second), call in [
        (("y", "forecast"), lambda: parity_stream(GaussianForecast(back, 1.0), y)),
        (("y", "forecast"), lambda: parity_stream(GaussianForecast([0.0] * 6, back), y)),
        (("y", "forecast"), lambda: parity_stream(QuantileForecast([0.2, 0.8], table[::-1]), y)),
        (("y", "forecast"), lambda: parity_stream(SampleForecast(table[::-1]), y)),
        (("y", "forecast"), lambda: parity_stream(back, y)),
        (("y", "previous"), lambda: parity_stream(flat, y, previous=back)),
        (("y", "by"), lambda: parity_stream(flat, y, by=back.astype(str))),
        (("forecast", "by"), lambda: parity_stream(flat, y.to_numpy(), by=back.astype(str))),
        (("y", "batch"), lambda: parity_stream(flat, y, batch=pd.Series(range(6), days[::-1]))),
        (("mean", "sd"), lambda: GaussianForecast(flat, back)),
        (("forecast", "x"), lambda: GaussianForecast(flat, 1.0).cdf(back)),
        (("y", "forecast"), lambda: quantile_calibration_error(GaussianForecast(back, 1.0), y)),
    ]:
        with pytest.raises(InputError, match=f"^{second} has the same index as {first} in another order"):
            call()
    kept = parity_stream(GaussianForecast(flat, flat), y, previous=y.shift(1), batch=pd.Series(range(6), days))
    assert len(kept) == len(parity_stream(GaussianForecast(flat, 1.0), y, by=pd.Series(["a"] * 6))) == 5

    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=4, tz="UTC")
    with pytest.raises(InputError, match="y goes back in time by the dates of its index"):
        parity_stream([0.5] * 4, pd.Series(np.arange(4.0), days)[::-1])
    one_day = pd.Series(np.arange(4.0), [days[0]] * 4)
    assert len(parity_stream([0.5] * 4, one_day, previous=np.zeros(4))) == 4


def test_forecasts_several_steps_ahead_are_judged_as_they_were_said() -> None:
    # Two steps ahead: the value of row t is compared with that of t - 2, and its outcome is learned two rows later.
    y = np.random.default_rng(9).normal(size=60)
    stream = parity_stream(GaussianForecast(np.zeros(58), 2.0), y[2:], previous=y[:-2])
    live, said = OnlinePlatt(), []
    for t, score in enumerate(stream.scores):
        if t >= 2:
            live.learn_one(stream.scores[t - 2], stream.outcomes[t - 2])
        said.append(live.predict_one(score))
    assert said[:2] == [OnlinePlatt().predict_one(score) for score in stream.scores[:2]]
    assert stream.judge(said).pce.value != stream.judge(OnlinePlatt()).pce.value
    assert stream.scores == pytest.approx(norm.cdf(y[:-2] / 2.0))


def test_the_first_batches_are_learned_from_and_not_judged() -> None:
    y = [0.0, 0.0, 1.0, -1.0, 2.0, 0.0, 1.0, 1.0]
    stream = parity_stream(GaussianForecast(np.zeros(8), 1.0), y, by=[0, 1] * 4, batch=[1, 1, 2, 2, 3, 3, 4, 4])
    assert stream.batches is not None
    assert stream.batches.tolist() == [0, 0, 1, 1, 2, 2]  # the first week has no week before it
    assert stream.judge(after=1).n_rows == 4
    with pytest.raises(InputError, match="leaves no row"):
        stream.judge(after=3)


def test_the_metrics_by_hand() -> None:
    # 30 bins: 0.11 and 0.12 share bin 3 (rate 1/2, mean 0.115), 0.8 stands alone (rate 1), 0.5 alone (rate 0).
    # PCE = (2 * 0.385 + 0.2 + 0.5) / 4; sharpness = (2 / 4 + 1) / 4; right at 1/2: 0.12 -> 0, 0.8 -> 1: 2 of 4;
    # pairs (event, other): (0.11, 0.12) wrong, (0.11, 0.5) wrong, (0.8, ...) both right: 1/2.
    stream = parity_stream([0.11, 0.12, 0.8, 0.5], [-1.0, 1.0, -1.0, 1.0], previous=np.zeros(4))
    result = stream.judge()
    assert result.pce.value == pytest.approx(1.47 / 4)
    assert result.sharpness.value == pytest.approx(1.5 / 4)
    assert result.accuracy.value == 0.5
    assert result.auroc.value == 0.5


def test_given_probabilities_are_judged_like_those_of_a_forecaster() -> None:
    rng = np.random.default_rng(5)
    stream = parity_stream(GaussianForecast(rng.normal(size=400), 1.0), rng.normal(size=400))
    table = stream.compare({"live": OnlinePlatt(), "given": stream.forecasts(OnlinePlatt())}, after=50)
    assert table["live"].numbers == table["given"].numbers
    assert table["base"].n_rows == 349
    assert len(str(table).splitlines()) == 5
    assert [r["name"] for r in table.to_dict()["results"]] == ["base", "live", "given"]
    assert str(table["live"]).splitlines()[2].startswith("live")


def test_forecasts_that_are_correct_given_the_past_are_parity_calibrated() -> None:
    rng = np.random.default_rng(6)
    y, noise = np.zeros(20_001), rng.normal(size=20_001)
    for t in range(1, 20_001):
        y[t] = 0.8 * y[t - 1] + noise[t]
    right = parity_stream(GaussianForecast(0.8 * np.append(0.0, y[:-1]), 1.0), y).judge()
    climate = parity_stream(GaussianForecast(np.zeros(20_001), 1.0 / 0.6), y).judge()  # right too, but on average only
    assert right.pce.null_high is not None
    assert right.pce.value < right.pce.null_high
    assert right.qce is not None
    assert climate.qce is not None
    assert max(right.qce.value, climate.qce.value) < 0.02
    assert climate.pce.value > 5.0 * right.pce.value


def test_states_in_turn_peek_at_their_week_and_weekly_batches_do_not() -> None:
    # 20 states move together at random from week to week, and nobody knows where: within a week the first outcomes tell
    # the others, across weeks they tell nothing.
    rng = np.random.default_rng(7)
    y = np.cumsum(np.repeat(rng.choice([-1.0, 1.0], 300), 20).reshape(300, 20), axis=0).ravel()
    weeks, states = np.repeat(np.arange(300), 20), np.tile(np.arange(20), 300)
    quick = OnlinePlatt(gamma=0.001, rho=1e3)
    scores = np.full(6000, 0.5)
    peeking = parity_stream(scores, y, by=states).judge(quick)
    honest = parity_stream(scores, y, by=states, batch=weeks).judge(quick)
    assert peeking.auroc.value > 0.85
    assert abs(honest.auroc.value - 0.5) < 0.15


def test_one_class_gives_no_auroc_and_no_error() -> None:
    stream = parity_stream(GaussianForecast([0.0, 0.0, 0.0], 1.0), [3.0, 2.0, 1.0])
    with pytest.warns(CalibrantWarning):
        result = stream.judge()
    assert np.isnan(result.auroc.value)
    assert result.accuracy.value == 1.0


# ------------------------------------------------------------------------------------------------------------ decisions


def test_bayes_actions_and_their_losses_by_hand() -> None:
    # Expected losses: tight 0.3 + 0.2 p, mild 0.6 - 0.4 p, none 1 - p: mild from 1/2 on, none from 2/3 on.
    stream = parity_stream([0.4, 0.5, 0.6, 0.7, 0.7], [1.0, -1.0, 1.0, -1.0, 1.0], previous=np.zeros(5))
    done = stream.decide(LOSSES, actions=["tight", "mild", "none"])
    assert done.taken.tolist() == [0, 1, 1, 2, 2]
    assert done.losses.tolist() == [0.3, 0.2, 0.6, 0.0, 1.0]
    assert done.total == pytest.approx(2.1)
    assert done.cumulative[-1] == pytest.approx(2.1)
    assert done.shares == {"tight": 0.2, "mild": 0.4, "none": 0.4}
    assert str(done) == "Total loss 2.1 over 5 rows (actions: tight 20.0 %, mild 40.0 %, none 40.0 %)."
    assert done.to_dict()["n_rows"] == 5

    stream = parity_stream([0.1, 0.9], [1.0, -1.0], previous=[0.0, 0.0])
    assert stream.decide([[5.0, 5.0], [0.0, 1.0], [1.0, 0.0]]).taken.tolist() == [1, 2]


# ------------------------------------------------------------------------------------------------------ what is refused


def two():  # type: ignore[no-untyped-def]
    return parity_stream([0.5, 0.4, 0.6], [1.0, 2.0, 1.0])


@every(
    ("call", "words"),
    [
        (lambda: GaussianForecast([0.0], [-1.0]), "sd must be"),
        (lambda: GaussianForecast([0.0, 1.0], [1.0]), "sd has 1 rows"),
        (lambda: GaussianForecast([np.inf], 1.0), "infinite"),
        (lambda: GaussianForecast([0.0], "wide"), "sd holds text"),
        (lambda: GaussianForecast([0.0], 1.0).cdf("low"), "x holds text"),
        (lambda: GaussianForecast([0.0], 1.0).quantile("low"), "level must be"),
        (lambda: QuantileForecast(["low", "high"], [[1.0, 2.0]]), "levels holds text"),
        (lambda: QuantileForecast([0.5], [[1.0]]), "at least two"),
        (lambda: QuantileForecast([0.5, 0.4], [[1.0, 2.0]]), "increasing"),
        (lambda: QuantileForecast([0.0, 0.5], [[1.0, 2.0]]), "inside"),
        (lambda: QuantileForecast([0.1, 0.5], [[1.0, 2.0, 3.0]]), "3 columns"),
        (lambda: QuantileForecast([0.1, 0.5], [[1.0, 2.0], [1.0]]), "matrix"),
        (lambda: SampleForecast([1.0, 2.0]), "matrix"),
        (lambda: SampleForecast([[1.0]], ends=-1.0), "ends"),
        (lambda: SampleForecast([[1.0]]).cdf([1.0, 2.0]), "2 values"),
        (lambda: GaussianForecast([0.0], 1.0).quantile(1.5), "level must be"),
        (lambda: CdfForecast(lambda x: x, 1).quantile(0.5), "quantile was not given"),
        (lambda: CdfForecast(lambda x: x[:1], 2).cdf([0.1, 0.2]), "shape"),
        (lambda: parity_stream(lambda x: x, [5.0, 6.0]), "outside"),
        (lambda: parity_stream([0.5, 0.5], [1.0, np.inf]), "infinite"),
        (lambda: parity_stream([0.5], [1.0, 2.0]), "1 rows but y has 2"),
        (lambda: parity_stream([0.5], [1.0]), "nothing to compare"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], previous=[1.0]), "previous has 1"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], previous=[1.0, np.inf]), "previous contains an infinite"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], batch=np.array(["2020", "NaT"], "datetime64[D]")), "missing"),
        (
            lambda: parity_stream([0.5, 0.5], [1.0, 2.0], previous=[1.0, 1.0], by=[0, 0]),
            "by must be left out if previous is given",
        ),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], by=["a", None]), "missing"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], by=["a"]), "by has 1"),
        (lambda: parity_stream([0.5] * 3, [1.0, 2.0, 3.0], batch=[1, 2, 1]), "not adjacent"),
        (lambda: parity_stream([0.5] * 3, [1.0, 2.0, 3.0], batch=[1, 2]), "batch has 2"),
        (lambda: parity_stream([0.5] * 3, [1.0, 2.0, 3.0], batch=[1, 2, 2]), "two rows of one series"),
        (lambda: parity_stream([0.5] * 2, [1.0, 2.0]).judge([0.5, 0.5]), "each of the 1 rows"),
        (lambda: parity_stream([0.5] * 2, [1.0, 2.0]).judge(after=-1), "after must be"),
        (lambda: parity_stream([0.5] * 2, [1.0, 2.0]).decide(LOSSES, actions=["a"]), "pass one name per row"),
        (lambda: quantile_calibration_error(GaussianForecast([0.0], 1.0), [0.0], n_levels=1), "n_levels"),
        (lambda: GaussianForecast([1.0, 2.0], None), "sd must be given: pass"),
        (lambda: QuantileForecast([25, 50], [[1.0, 2.0]]), "divide them by 100"),
        (lambda: parity_stream(np.full((3, 3), 0.5), [1.0, 2.0, 3.0]), "QuantileForecast"),
        (
            lambda: parity_stream(GaussianForecast, [1.0, 2.0]),
            "distribution, not the class GaussianForecast",
        ),
        (lambda: parity_stream([101.5, 99.0], [1.0, 2.0]), r"a point forecast is neither: pass GaussianForecast\(mean"),
        (
            lambda: parity_stream(None, [1.0, 2.0]),
            "a predictive distribution, not an object of type NoneType: ",
        ),
        (lambda: parity_stream("norm", [1.0, 2.0]), r"not an object of type str: .* CdfForecast\(cdf, n_rows\)"),
        (
            lambda: quantile_calibration_error([1.0, 2.0], [1.0, 2.0]),
            "distribution, not an object of type list",
        ),
        (lambda: parity_stream([0.5, 0.5], [False, True]), "y contains booleans: pass the values of the series"),
        (lambda: parity_stream([0.5, 0.5], [None, True]), "y contains booleans"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], previous=np.array([True, False])), "previous contains booleans"),
        (lambda: quantile_calibration_error(GaussianForecast([0.0], 1.0), [True]), "y contains booleans"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], by="state"), r"not 'state': pass by=frame\['state'\]"),
        (lambda: parity_stream([0.5, 0.5], [1.0, 2.0], by=[["a", "b"], ["a", "c"]]), "by has 2 columns: pass one"),
        (lambda: two().judge([101.5, 99.0]), r"said must be a forecaster, or a probability in \[0, 1\]"),
        (lambda: SampleForecast(np.ma.masked_array([[1.0, 2.0]], mask=[[0, 1]])), r"pass samples.filled\(np.nan\)"),
        (lambda: CdfForecast(norm.cdf, 3, lambda p: [p, p]).quantile(0.5), r"returned the shape \(2,\) for 3 rows"),
        (lambda: quantile_calibration_error(GaussianForecast([0.0], 1.0), [0.0], rows=[1]), "from 0 to 0"),
        (lambda: two().compare([OnlinePlatt()]), "by name"),
        (lambda: two().compare({"base": OnlinePlatt()}), "choose another"),
        (lambda: two().compare({"OPS": OnlinePlatt()})["nope"], "name must be one of 'base', 'OPS', not 'nope'"),
        (lambda: two().judge(OnlinePlatt), "not the class OnlinePlatt"),
        (lambda: two().judge("OPS"), "must be a forecaster of calibrant.online, not 'OPS'"),
        (lambda: two().judge(OnlineTemperature(2)), "class probabilities"),
        (lambda: quantile_calibration_error(GaussianForecast([0.0], 1.0), [0.0, 1.0]), "y has 2"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(call, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------- COVID


def test_the_national_forecasts_of_covid_have_the_known_numbers(data_folder: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(data_folder / "covid" / "us_national_covidhub_ensemble_cases.parquet")
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    chosen = (columns["ahead"] == 1) & (columns["forecast_date"] <= "2022-10-24")
    quantiles = np.column_stack([columns[f"q{level}"][chosen] for level in LEVELS])
    stream = parity_stream(
        QuantileForecast(LEVELS, quantiles), columns["actual"][chosen], previous=columns["actual_prev_week"][chosen]
    )
    result = stream.judge()
    assert result.n_rows == 119
    found = (result.base_rate, result.auroc.value, result.accuracy.value)
    assert [round(x, 3) for x in found] == [0.529, 0.784, 0.681]
    before = columns["actual_prev_week"][chosen]  # never outside the quantiles, as 002 section 7.B.1 says of the states
    assert ((quantiles[:, 0] <= before) & (before < quantiles[:, -1])).all()


# ------------------------------------------------------------------------------------------------------- thresholds


def test_threshold_calibration_by_its_definition() -> None:
    rng = np.random.default_rng(1)
    mean, y = rng.normal(size=60), rng.normal(size=60)
    y[3] = np.nan
    forecast = GaussianForecast(mean, 1.3)
    cuts, n_cutoffs, n_levels = [-0.5, 0.2, 1.0], 4, 5
    found = threshold_calibration_error(forecast, y, cuts, n_cutoffs=n_cutoffs, n_levels=n_levels)
    known = np.flatnonzero(~np.isnan(y))
    total = null = 0.0
    for cut in cuts:
        below = norm.cdf((cut - mean) / 1.3)
        for j in range(1, n_cutoffs + 1):
            rows = [t for t in known if below[t] <= j / n_cutoffs]
            for p in np.linspace(0.0, 1.0, n_levels):
                if rows:
                    covered = np.mean([y[t] <= mean[t] + 1.3 * norm.ppf(p) for t in rows])
                    total += len(rows) / len(known) * abs(covered - p)
                    null += len(rows) / len(known) * math.sqrt(2.0 * p * (1.0 - p) / (math.pi * len(rows)))
    cells = len(cuts) * n_cutoffs * n_levels
    assert found.value == pytest.approx(total / cells, rel=1e-12)
    assert found.null == pytest.approx(null / cells, rel=1e-12)
    whole = threshold_calibration_error(forecast, y, [0.0], n_cutoffs=1, n_levels=100)
    assert whole.value == pytest.approx(quantile_calibration_error(forecast, y).value, rel=1e-12)
    by_cdf = CdfForecast(lambda x: norm.cdf((x - mean) / 1.3), len(y))
    assert threshold_calibration_error(by_cdf, y, cuts, n_cutoffs=4, n_levels=5).value == pytest.approx(found.value)


def test_a_forecast_can_be_threshold_calibrated_and_wrong_about_parity() -> None:
    # Gupta (2023), section 7.1.1: y alternates between the halves of a normal, and the forecast is the whole normal.
    size = np.abs(np.random.default_rng(0).normal(size=4000))
    y = np.where(np.arange(4000) % 2, size, -size)
    forecast = GaussianForecast(np.zeros(4000), 1.0)
    found = threshold_calibration_error(forecast, y)
    assert found.value < 2.0 * found.null
    assert parity_stream(forecast, y).judge().pce.value > 0.2


def test_what_threshold_calibration_cannot_use_is_refused_or_nan() -> None:
    forecast = GaussianForecast(np.zeros(3), 1.0)
    assert math.isnan(threshold_calibration_error(forecast, [np.nan] * 3).value)
    assert threshold_calibration_error(forecast, [0.0, 1.0, 2.0], rows=[0]).value >= 0.0
    for wrong in ([], [np.nan], "high", [[1.0, 2.0]]):
        with pytest.raises(InputError, match="thresholds must be one or more finite numbers"):
            threshold_calibration_error(forecast, [0.0, 1.0, 2.0], wrong)
    for other in ({"n_cutoffs": 0}, {"n_levels": 1}):
        with pytest.raises(InputError, match="must be an integer of at least"):
            threshold_calibration_error(forecast, [0.0, 1.0, 2.0], **other)


def test_the_picture_has_the_rates_and_rows_of_thirty_equal_bins_for_each_forecast() -> None:
    """Gupta (2023), section 7.A: obs(B), pred(B) and |B| in 30 bins of equal width, for Figure 7.10."""
    y = np.random.default_rng(3).normal(size=700)
    stream = parity_stream(GaussianForecast(np.zeros(700), 2.0), y)
    ops = stream.forecasts(OnlinePlatt())[100:]
    display = ParityDisplay(stream.compare({"OPS": OnlinePlatt()}, after=100))
    outcomes = stream.outcomes[100:]
    for panel, p in zip(display.data["panels"], (stream.scores[100:], ops), strict=True):
        cell = np.minimum((p * 30).astype(int), 29)
        kept = [k for k in range(30) if (cell == k).any()]
        n = np.array([(cell == k).sum() for k in kept])
        rate, mean = (np.array([v[cell == k].mean() for k in kept]) for v in (outcomes, p))
        assert panel["bins"]["n"] == n.tolist()
        assert panel["bins"]["rate"] == pytest.approx(rate)
        assert panel["bins"]["score"] == pytest.approx(mean)
        assert panel["error"] == pytest.approx(n @ np.abs(rate - mean) / 599)
    assert [panel["name"] for panel in display.data["panels"]] == ["base", "OPS"]
    assert ParityDisplay(stream.judge(after=100)).data["panels"] == display.data["panels"][:1]
    with pytest.raises(InputError, match="results must be"):
        ParityDisplay(stream)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="confidence must be"):
        ParityDisplay(stream.judge(), confidence=1.0)


def test_panels_of_counts_have_one_scale() -> None:
    """Only the left one has a label, so a linear axis beside a logarithmic one could not be told apart."""
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    p, y = np.concatenate([np.full(500, 0.99), rng.random(20)]), rng.normal(size=520)
    stream = parity_stream(p, y, previous=np.zeros(520))
    display = ParityDisplay(stream.compare({"even": (np.arange(520) % 30 + 0.5) / 30})).plot()
    assert len({(ax.get_yscale(), ax.get_ylim(), tuple(ax.get_yticks())) for ax in display.panels_[2:]}) == 1
    plt.close("all")
