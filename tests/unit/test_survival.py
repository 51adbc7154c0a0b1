"""Risks at a horizon with censored follow-up: hand-worked cases, identities and edges."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import InputError, metrics
from calibrant.clinical import validate_horizons, validate_survival
from calibrant.clinical.follow_up import FollowUp, read_follow_up


def followed(time: list[float], event: list[int], horizon: float) -> FollowUp:
    return read_follow_up(np.array(time, dtype=float), np.array(event), horizon, None, len(time))


def cohort(seed: int, n: int = 400, competing: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Risk by time 5, rounded time and how it ended."""
    rng = np.random.default_rng(seed)
    risk = rng.uniform(0.05, 0.6, n)
    ends = [rng.uniform(0, 12, n), rng.exponential(5 / -np.log1p(-risk))]
    ends += [rng.exponential(20, n)] if competing else []
    return risk, np.ceil(np.min(ends, axis=0) * 2) / 2, np.argmin(ends, axis=0)


def test_kaplan_meier_by_hand() -> None:
    # At risk 5, 4, 2: one event at 1, one event and one censoring at 2, one event at 3; then one row at 6.
    data = followed([1, 2, 2, 3, 6], [1, 1, 0, 1, 0], 4.0)
    assert data.risk == pytest.approx(1 - 4 / 5 * 3 / 4 * 1 / 2)
    # The event at 2 comes before the censoring at 2: of three rows at risk of censoring then, one is censored.
    assert data.weight.tolist() == pytest.approx([1, 1, 0, 1.5, 1.5])
    assert data.weight.sum() == pytest.approx(5)


def test_aalen_johansen_by_hand() -> None:
    data = followed([1, 2, 3, 4, 9], [1, 2, 0, 1, 0], 5.0)
    assert data.risk == pytest.approx(1 / 5 + 3 / 5 * 1 / 2)  # survival before 4 is 3/5: the competing event counts
    assert data.label.tolist() == [1, 0, 0, 1, 0]


def test_the_event_rate_by_weights_is_aalen_johansen_and_weights_sum_to_the_rows(subtests: pytest.Subtests) -> None:
    for competing in (False, True):
        with subtests.test(competing=competing):
            _, time, event = cohort(1, competing=competing)
            data = read_follow_up(time, event, 5.0, None, len(time))
            assert data.weight.sum() == pytest.approx(len(time), rel=1e-12)
            assert data.pseudo().mean() == pytest.approx(data.risk, abs=1e-3)


def test_pseudo_observations_are_those_of_leaving_each_row_out() -> None:
    _, time, event = cohort(2, 60, competing=True)
    data, n = read_follow_up(time, event, 5.0, None, 60), 60
    left = [read_follow_up(np.delete(time, i), np.delete(event, i), 5.0, None, n - 1).risk for i in range(n)]
    np.testing.assert_allclose(data.pseudo(), n * data.risk - (n - 1) * np.array(left), atol=1e-10)


def test_influences_are_the_derivatives_by_repetition() -> None:
    """A row that is there k + 1 times in place of k changes the estimate by its influence / k, to first order."""
    _, time, event = cohort(3, 30, competing=True)
    data, times = read_follow_up(time, event, 5.0, None, 30), 4000
    influence = data.influence(data.label / 30) - data.risk / 30
    for i in range(0, 30, 7):
        rows = np.concatenate([np.repeat(np.arange(30), times), [i] * 40])
        moved = read_follow_up(time[rows], event[rows], 5.0, None, len(rows)).risk
        assert (moved - data.risk) * times / 40 == pytest.approx(influence[i], abs=2e-4)


def test_without_censoring_the_table_is_that_of_labels() -> None:
    rng = np.random.default_rng(4)
    risk = rng.uniform(0.05, 0.8, 500)
    time = rng.exponential(5 / -np.log1p(-risk))
    y = (time <= 5).astype(int)
    line, area, loss = metrics.recalibration(risk, y), metrics.auc(risk, y), metrics.brier(risk, y)
    for method in ("pseudo", "ipcw"):
        found = validate_survival(risk, time, np.ones(500), horizon=5, method=method)
        assert found.observed.value == pytest.approx(y.mean(), abs=1e-12)
        for name in ("intercept", "slope", "slope_intercept", "observed_over_expected"):
            assert getattr(found, name).value == pytest.approx(getattr(line, name).value, abs=1e-8)
        ratio = found.observed_over_expected
        assert (ratio.low, ratio.high) == pytest.approx(
            (line.observed_over_expected.low, line.observed_over_expected.high), abs=0.01
        )  # normal on the log scale, and Clopper and Pearson's
        assert found.auc.value == pytest.approx(area.value, abs=1e-12)
        assert found.auc.se == pytest.approx(area.se, rel=1e-2)
        assert found.brier.value == pytest.approx(loss.value, abs=1e-12)
        assert found.errors.ici == pytest.approx(metrics.ici(risk, y, repetitions=0).ici, abs=1e-8)
        assert "nothing is assumed" in str(found)


def test_follow_up_that_ends_at_the_horizon_for_everyone_loses_nobody() -> None:
    risk, time, event = cohort(5)
    stopped = np.where(time >= 5, 0, event)
    cut = validate_survival(risk, np.minimum(time, 5.0), np.where(time == 5.0, event, stopped), horizon=5)
    whole = validate_survival(risk, time, event, horizon=5)
    assert cut.observed.value == pytest.approx(whole.observed.value, abs=1e-12)
    assert cut.auc.value == pytest.approx(whole.auc.value, abs=1e-12)
    assert cut.lost == whole.lost


def test_censoring_by_strata_removes_the_bias_of_unequal_losses() -> None:
    rng = np.random.default_rng(6)
    high = rng.random(40_000) < 0.5
    death = rng.exponential(np.where(high, 4.0, 20.0))
    end = np.where(high, rng.exponential(4.0, 40_000), rng.exponential(60.0, 40_000))
    rows = np.where(high, 0.7, 0.2), np.minimum(death, end), death <= end
    truth = float((death <= 5).mean())
    plain, by = (validate_survival(*rows, horizon=5, censoring_by=g) for g in (None, high))
    assert abs(by.observed.value - truth) < 0.01 < abs(plain.observed.value - truth)
    assert by.notes[0].values["strata"] == 2


def test_groups_of_dependent_rows_widen_intervals_and_few_groups_have_none() -> None:
    rng = np.random.default_rng(7)
    hospital = np.repeat(np.arange(20), 40)
    risk = rng.uniform(0.1, 0.5, 800)
    hazard = -np.log1p(-risk) / 5 * np.exp(rng.normal(0, 0.8, 20))[hospital]
    death, end = rng.exponential(1 / hazard), rng.uniform(2, 15, 800)
    rows = risk, np.minimum(death, end), death <= end
    alone, grouped = (validate_survival(*rows, horizon=5, groups=g) for g in (None, hospital))
    assert grouped.observed_over_expected.se > 1.5 * alone.observed_over_expected.se
    few = validate_survival(*rows, horizon=5, groups=hospital // 4)
    assert few.slope.low is None
    assert [each.code for each in few.notes].count("few-groups") == 1


def test_edges(subtests: pytest.Subtests) -> None:
    cases = {
        "one row": ([0.3], [6.0], [0]),
        "two rows": ([0.3, 0.4], [6.0, 2.0], [0, 1]),
        "no event": ([0.1, 0.2, 0.3], [6.0, 7.0, 8.0], [0, 0, 0]),
        "all events": ([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], [1, 1, 1]),
        "constant score": ([0.3] * 6, [1.0, 2.0, 6.0, 7.0, 3.0, 9.0], [1, 0, 0, 0, 1, 1]),
        "zero and one": ([0.0, 1.0, 0.5, 0.2, 0.9], [6.0, 1.0, 2.0, 7.0, 6.0], [0, 1, 1, 0, 0]),
        "separated": ([0.1, 0.2, 0.8, 0.9], [6.0, 6.0, 1.0, 2.0], [0, 0, 1, 1]),
        "zero time": ([0.1, 0.4, 0.8], [0.0, 6.0, 0.0], [0, 0, 1]),
        "only competing": ([0.1, 0.4, 0.8], [1.0, 6.0, 2.0], [2, 0, 2]),
    }
    for name, rows in cases.items():
        with subtests.test(name=name):
            found = validate_survival(*rows, horizon=5.0)
            assert 0.0 <= found.observed.value <= 1.0
            assert "Risk by time 5" in str(found)
            assert found.to_dict()["rows"] == len(rows[0])
            assert "<table" in found._repr_html_()


@pytest.mark.parametrize(
    ("change", "argument", "words"),
    [
        ({"horizon": 0}, "horizon", "above 0"),
        ({"horizon": 50.0}, "horizon", "longest follow-up"),
        ({"time": [-1.0, 2.0, 3.0]}, "time", "negative"),
        ({"time": [np.nan, 2.0, 3.0]}, "time", "missing"),
        ({"time": [1.0, 2.0]}, "time", "2 rows"),
        ({"event": [0, 1, 3]}, "event", "competing"),
        ({"event": [0, 1, None]}, "event", "missing"),
        ({"event": ["dead", "alive", "dead"]}, "event", "0 for censored"),
        ({"event": np.array(["dead", "alive", "dead"])}, "event", "holds text such as 'dead': pass 0 for censored"),
        ({"scores": [0.1, 0.2, 30.0]}, "scores", ""),
        ({"scores": [0.1, 0.2, np.nan]}, "scores", "missing"),
        ({"link": "probit"}, "link", "logit"),
        ({"method": "cox"}, "method", "pseudo"),
        ({"n_bins": 0}, "n_bins", "integer"),
    ],
)
def test_errors_name_argument_problem_and_fix(change: dict, argument: str, words: str) -> None:
    given = {"scores": [0.1, 0.2, 0.3], "time": [1.0, 2.0, 6.0], "event": [0, 1, 0], "horizon": 5.0} | change
    with pytest.raises(InputError) as caught:
        validate_survival(**given)
    assert caught.value.argument == argument
    assert words in str(caught.value)


def test_several_horizons_are_the_same_as_one_after_the_other() -> None:
    risk, time, event = cohort(8)
    risks = 1 - (1 - risk[:, None]) ** (np.array([1.0, 3.0, 5.0]) / 5)
    found = validate_horizons(risks, time, event, horizons=[1, 3, 5])
    assert found.horizons[2].slope == validate_survival(risks[:, 2], time, event, horizon=5.0).slope
    assert [each.lost for each in found.horizons] == sorted(each.lost for each in found.horizons)
    assert len(str(found).splitlines()) == 4 + len(found.notes)
    assert "<table" in found._repr_html_()
    for wrong in ([3, 1, 5], [], [1, 3]):
        with pytest.raises(InputError):
            validate_horizons(risks, time, event, horizons=wrong)


def test_a_horizon_before_every_event_asks_about_units() -> None:
    days = validate_survival([0.1, 0.2, 0.3], [300.0, 400.0, 900.0], [1, 0, 1], horizon=5.0)
    assert "not defined; do time and horizon have the same unit?" in str(days)
    everyone = validate_survival([0.1, 0.2, 0.3], [1.0, 2.0, 3.0], [1, 1, 1], horizon=2.5)
    assert "the same unit" not in str(everyone)


def test_columns_of_risks_are_named_one_for_each_horizon() -> None:
    for score in (["r1", "r2"], "r1"):
        with pytest.raises(InputError) as refused:
            validate_horizons(None, "t", "d", horizons=[1], score=score)
        assert refused.value.argument == "score"
