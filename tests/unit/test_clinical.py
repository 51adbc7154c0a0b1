"""Clinical validation: one table, clusters, pooling, updating, decision bands, TRIPOD+AI."""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant import InputError, clinical, displays, metrics
from calibrant.clinical.clusters import pooled_note
from calibrant.metrics.binary.curves.distances import spline_intervals
from calibrant.numerics import expit, logit
from calibrant.tallies import Tally


@functools.cache
def world(n: int = 1200, clusters: int = 12, slope: float = 0.7, shift: float = -0.3, spread: float = 0.3):
    """Risks, outcomes and hospitals."""
    rng = np.random.default_rng(5)
    hospital = np.arange(n) % clusters
    z = rng.normal(-1.2, 1.1, n)
    p = expit(shift + slope * z + spread * rng.normal(size=clusters)[hospital])
    return expit(z), (rng.random(n) < p).astype(int), hospital


# ------------------------------------------------------------------------------------------------------------ one table


def test_the_table_has_the_numbers_of_the_metrics() -> None:
    risk, y, hospital = world()
    found = clinical.validate(risk, y, groups=hospital, repetitions=0)
    cox = metrics.recalibration(risk, y, groups=hospital)
    assert (found.slope.value, found.slope.low, found.slope.high) == (cox.slope.value, cox.slope.low, cox.slope.high)
    assert found.intercept.low == cox.intercept.low
    assert found.observed_over_expected.high == cox.observed_over_expected.high
    assert found.c_statistic.low == metrics.auc(risk, y, groups=hospital).low
    assert found.ici.value == metrics.ici(risk, y, repetitions=0).ici
    assert found.ici.low is None
    assert (found.participants, found.events, found.missing, found.clusters) == (1200, int(y.sum()), 0, 12)
    assert found.expected == pytest.approx(risk.sum())


def test_the_scaled_brier_score_and_its_standard_error_by_the_jackknife() -> None:
    risk, y, _ = world(200)
    found = clinical.validate(risk, y, repetitions=0).scaled_brier

    def value(r: np.ndarray, o: np.ndarray) -> float:
        return 1 - np.mean((r - o) ** 2) / (o.mean() * (1 - o.mean()))

    assert found.value == pytest.approx(value(risk, y))
    left = np.array([value(np.delete(risk, i), np.delete(y, i)) for i in range(200)])
    assert found.se == pytest.approx(math.sqrt(199 / 200 * ((left - left.mean()) ** 2).sum()), rel=0.05)


def test_missing_outcomes_are_refused_or_counted() -> None:
    risk, y, hospital = world()
    some = y.astype(float)
    some[[3, 10, 11]] = np.nan
    with pytest.raises(InputError, match=r"y has 3 missing values, the first at row 3 .* missing='drop'"):
        clinical.validate(risk, some)
    found = clinical.validate(risk, some, groups=hospital, missing="drop", repetitions=0)
    kept = ~np.isnan(some)
    assert (found.participants, found.missing) == (1197, 3)
    assert found.slope.value == clinical.validate(risk[kept], y[kept], repetitions=0).slope.value
    assert "3 of 1200 participants have no outcome" in str(found)
    assert "A further 3 had no outcome" in found.summary
    with pytest.raises(InputError, match="missing for every participant"):
        clinical.validate([0.2, 0.3], [np.nan, np.nan], missing="drop")


def test_frames_subgroups_and_weights() -> None:
    pd = pytest.importorskip("pandas")
    risk, y, hospital = world()
    sex = np.where(hospital % 2, "f", "m")
    frame = pd.DataFrame({"risk": risk, "died": y.astype(object), "hospital": hospital, "sex": sex, "w": 1.0 + risk})
    frame.loc[0, "died"] = None
    options = {"score": "risk", "label": "died", "missing": "drop", "repetitions": 0}
    found = clinical.validate(frame, groups="hospital", **options)
    assert found.missing == 1
    parts = clinical.validate(frame, by="sex", **options)
    assert [each.segment for each in parts] == ["f", "m"]
    assert parts["f"].participants == 600
    assert parts["m"].missing == 1
    weighted = clinical.validate(frame, sample_weight="w", **options)
    assert weighted.participants == 1199
    assert weighted.slope.value != found.slope.value


def test_the_table_prints_and_converts() -> None:
    pytest.importorskip("polars")
    risk, y, hospital = world()
    found = clinical.validate(risk, y, groups=hospital)
    assert str(found).splitlines()[0].startswith("Validation: 1,200 participants, ")
    assert "<table" in found._repr_html_()
    assert len(found.rows) == 10
    assert found.to_dict()["slope"]["name"] == "calibration slope"
    assert found.to_frame("pandas")["measure"].tolist()[0] == "O:E ratio"
    assert found.to_frame("polars").shape == (10, 6)


def test_edges_have_values_or_notes(subtests: pytest.Subtests) -> None:
    cases = {
        "one row": ([0.3], [1]),
        "two rows": ([0.3, 0.6], [0, 1]),
        "one class": ([0.2, 0.3, 0.4], [0, 0, 0]),
        "constant": ([0.5] * 20, [0, 1] * 10),
        "ends": ([0.0, 1.0, 0.5, 0.5, 0.2, 0.8], [0, 1, 0, 1, 1, 0]),
    }
    for name, (risk, y) in cases.items():
        with subtests.test(name=name), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = clinical.validate(risk, y)
            assert found.participants == len(y)
            assert str(found)
            assert found.to_dict()
    with pytest.raises(InputError, match="empty"):
        clinical.validate([], [])
    few = clinical.validate(*world()[:2], groups=np.arange(1200) % 5)
    assert few.slope.low is None
    assert few.ici.low is None
    assert "few-groups" in [each.code for each in few.notes]


# -------------------------------------------------------------------------------------------------- distances of curves


def test_the_interval_of_a_distance_begins_at_zero_for_a_calibrated_model_and_excludes_it_for_a_wrong_one() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(-1.0, 1.2, 3000)
    good = spline_intervals(Tally.from_arrays(expit(z), rng.random(3000) < expit(z)))
    bad = spline_intervals(Tally.from_arrays(expit(z), rng.random(3000) < expit(z - 0.8)))
    assert good is not None
    assert bad is not None
    assert good.low.tolist() == [0.0] * 4
    assert (good.high > 0.0).all()
    assert (bad.low[:3] > 0.0).all()
    gap = np.abs(expit(z - 0.8) - expit(z))
    assert bad.low[0] < gap.mean() < bad.high[0]


def test_groups_widen_the_intervals_of_distances_and_never_narrow_them() -> None:
    risk, y, hospital = world(spread=0.8)
    tally = Tally.from_arrays(risk, y)
    plain = spline_intervals(tally)
    from calibrant.metrics.binary.bins import grouped_or_tally

    grouped = spline_intervals(grouped_or_tally(risk, y, None, hospital))
    assert plain is not None
    assert grouped is not None
    assert grouped.high[0] > plain.high[0]
    single = spline_intervals(grouped_or_tally(risk, y, None, np.arange(len(y))))
    assert single is not None
    assert single.high[0] == pytest.approx(plain.high[0], rel=0.15)


# ------------------------------------------------------------------------------------------------------------- clusters


def test_clusters_are_validated_one_by_one_and_pooled() -> None:
    risk, y, hospital = world()
    found = clinical.validate_clusters(risk, y, groups=hospital)
    assert [each.cluster for each in found.clusters] == list(range(12))
    third = hospital == 3
    alone = metrics.recalibration(risk[third], y[third])
    assert found.clusters[3].slope.value == alone.slope.value
    slopes = [each.slope for each in found.clusters]
    pooled = clinical.random_effects([each.value for each in slopes], [each.se for each in slopes])
    assert found.pooled["slope"].value == pooled.value
    logs = [each.observed_over_expected for each in found.clusters]
    pooled = clinical.random_effects(np.log([each.value for each in logs]), [each.se / each.value for each in logs])
    assert found.pooled["observed_over_expected"].high == pytest.approx(math.exp(pooled.high))
    areas = [each.c_statistic for each in found.clusters]
    values = np.array([each.value for each in areas])
    pooled = clinical.random_effects(logit(values), np.array([each.se for each in areas]) / (values * (1 - values)))
    assert found.pooled["c_statistic"].low == pytest.approx(float(expit(np.array(pooled.low))))
    assert found.to_frame()["events"].sum() == y.sum()
    assert "<table" in found._repr_html_()
    assert "95 % PI" in str(found)


def test_clusters_without_events_are_named() -> None:
    risk, y, hospital = world()
    none = np.where(hospital == 4, 0, y)
    found = clinical.validate_clusters(risk, none, groups=hospital)
    assert found.pooled["slope"].clusters == 11
    assert found.clusters[4].events == 0
    assert "O:E ratio: 1 of 12 clusters are not in the pooled value" in str(found)
    with pytest.raises(InputError, match="groups"):
        clinical.validate_clusters(risk, y, groups=None)


def test_pooling_refuses_what_it_cannot_use() -> None:
    for values, se in (([], []), ([1.0, math.nan], [1.0, 1.0]), ([1.0, 2.0], [1.0, 0.0])):
        with pytest.raises(InputError):
            clinical.random_effects(values, se)
    one = clinical.random_effects([0.5], [0.1])
    assert (one.value, one.clusters) == (0.5, 1)
    assert math.isnan(one.prediction_low)
    assert "one cluster" in str(one)


# ------------------------------------------------------------------------------------------------------------- updating


@pytest.mark.parametrize(
    ("truth", "chosen"),
    [
        (lambda z: z, "none"),
        (lambda z: z - 0.7, "intercept"),
        (lambda z: 0.6 * z - 0.5, "slope"),
        (lambda z: z + 1.5 * np.cos(1.5 * z), "flexible"),
    ],
)
def test_the_closed_test_takes_the_update_that_is_needed(truth, chosen: str, subtests: pytest.Subtests) -> None:
    rng = np.random.default_rng(11)
    z = rng.normal(-0.5, 1.2, 4000)
    y = (rng.random(4000) < expit(truth(z))).astype(int)
    for groups in (None, np.arange(4000) % 40):
        with subtests.test(groups=groups is not None):
            found = clinical.update_model(expit(z), y, groups=groups)
            assert found.chosen == chosen
            assert found.tests[-1].p_value > 0.05 or chosen == "flexible"
            assert all(each.p_value <= 0.05 for each in found.tests[:-1])


def test_likelihood_ratios_by_hand() -> None:
    risk, y, _ = world(1200, 12)
    found = clinical.update_model(np.round(risk, 2), y)
    cells = np.round(risk, 2)
    z = np.clip(cells, 0.005, 0.995)
    start = -2 * np.sum(y * np.log(z) + (1 - y) * np.log1p(-z))
    fitted = metrics.calibration_curve(cells, y, at=np.unique(cells))
    p = fitted.rates[np.searchsorted(fitted.scores, cells)]
    full = -2 * np.sum(y * np.log(p) + (1 - y) * np.log1p(-p))
    if (cells > 0.0).all() and (cells < 1.0).all():
        assert found.tests[0].statistic == pytest.approx(start - full, rel=1e-6)
    assert [each.df for each in found.tests] == [5, 4, 3][: len(found.tests)]


def test_an_update_ships_like_every_other_map(tmp_path: Path) -> None:
    risk, y, _ = world()
    for method in ("none", "intercept", "slope", "flexible"):
        found = clinical.update_model(risk, y, method=method)
        assert found.chosen == method
        path = tmp_path / f"{method}.json"
        found.calibration.save(path)
        assert np.array_equal(cb.load(path).transform(risk[:50]), found.calibration.transform(risk[:50]))
        assert found.to_dict()["chosen"] == method
        assert "<table" in found._repr_html_()
    assert clinical.update_model(risk, y, method="none").calibration.transform(risk) == pytest.approx(risk)
    assert "new log-odds = " in str(clinical.update_model(risk, y, method="slope"))


def test_an_update_is_refused_where_it_means_nothing() -> None:
    risk, y, _ = world()
    for options in ({"alpha": 0.0}, {"method": "refit"}, {"groups": np.arange(1200) % 5}):
        with pytest.raises(InputError):
            clinical.update_model(risk, y, **options)
    with pytest.warns(cb.CalibrantWarning), pytest.raises(InputError, match="only one class"):
        clinical.update_model([0.2, 0.4], [0, 0])
    few = clinical.update_model(np.tile([0.2, 0.4, 0.6, 0.3], 10), ([0] * 9 + [1]) * 4)
    assert [each.code for each in few.notes] == ["no-curve-to-test"]


# ------------------------------------------------------------------------------------------------------ decision curves


def test_the_decision_curve_is_that_of_net_benefit_with_a_wider_band() -> None:
    risk, y, hospital = world()
    at = np.arange(5, 50, 5) / 100
    plain = metrics.net_benefit(risk, y, thresholds=at)
    for groups in (None, hospital):
        found = clinical.decision_curve(risk, y, thresholds=at, groups=groups, repetitions=400)
        np.testing.assert_allclose(found.model, plain.model)
        np.testing.assert_allclose(found.treat_all, plain.treat_all)
        assert (found.band_low <= found.low).all()
        assert (found.high <= found.band_high).all()
        assert found.critical > 2.0
        np.testing.assert_allclose(found.gain, plain.model - np.maximum(plain.treat_all, 0.0))
    rows = clinical.decision_curve(risk, y, thresholds=at, repetitions=2000)
    np.testing.assert_allclose((rows.high - rows.low) / 3.92, plain.se, rtol=0.12)
    assert rows.to_frame().shape == (9, 10)
    assert "bootstrap samples of participants" in str(rows)
    assert "<table" in rows._repr_html_()


def test_net_benefit_by_hand_as_dcurves_defines_it() -> None:
    risk, y = [0.05, 0.2, 0.2, 0.4, 0.9], [0, 0, 1, 0, 1]
    found = clinical.decision_curve(risk, y, thresholds=[0.1, 0.3, 0.95], repetitions=100)
    assert found.model == pytest.approx([2 / 5 - 2 / 5 / 9, 1 / 5 - 1 / 5 * 3 / 7, 0.0])
    assert found.treat_all[0] == pytest.approx(2 / 5 - 3 / 5 / 9)
    assert np.isnan(found.band_high).all()  # fewer than ten events


def test_decision_curves_refuse_few_clusters_and_samples() -> None:
    risk, y, _ = world()
    for options in ({"repetitions": 50}, {"groups": np.arange(1200) % 5}, {"thresholds": [0.5, 0.2]}):
        with pytest.raises(InputError):
            clinical.decision_curve(risk, y, **options)


# --------------------------------------------------------------------------------------------------------------- TRIPOD


def test_the_checklist_is_filled_in_where_results_answer_it() -> None:
    risk, y, hospital = world()
    validation = clinical.validate(risk, y, groups=hospital, repetitions=0)
    bare = clinical.tripod(validation)
    assert [each.item for each in bare.items if each.complete] == ["12e", "23a"]
    assert str(bare).count("[to be filled in by the authors]") == 8
    assert "estimated by a restricted cubic spline" in str(bare)
    assert "Participants were taken as independent" in str(clinical.tripod(clinical.validate(risk, y, repetitions=0)))
    full = clinical.tripod(
        validation,
        subgroups=clinical.validate(risk, y, by={"sex": hospital % 2}, repetitions=0),
        clusters=clinical.validate_clusters(risk, y, groups=hospital),
        decision=clinical.decision_curve(risk, y, thresholds=[0.1, 0.2], repetitions=100),
        update=clinical.update_model(risk, y),
    )
    assert sum(each.complete for each in full.items) == 6
    assert "sex = 1" in str(full)
    assert full.to_frame().shape == (10, 4)
    assert "<table" in full._repr_html_()


# ----------------------------------------------------------------------------------------------------------- one class


def test_weighted_participants_without_events_are_not_all_events() -> None:
    risk, weight, none = [0.1, 0.2, 0.3, 0.4], [1.5, 2.0, 0.5, 1.0], [0, 0, 0, 0]
    assert clinical.validate(risk, none, weight, repetitions=0).events == 0
    by = clinical.validate(risk, [-1, -1, 1, -1], weight, by=["a", "a", "b", "b"], repetitions=0)
    assert (by["a"].events, by["b"].events) == (0, 1)
    clusters = clinical.validate_clusters(risk, [-1, -1, 1, 1], weight, groups=["a", "a", "b", "b"]).clusters
    assert [each.events for each in clusters] == [0, 2]


def test_missing_outcomes_are_counted_in_participants_also_with_weights() -> None:
    found = clinical.validate([0.2, 0.4, 0.6, 0.8], [0, 1, 1, None], [10.0] * 4, missing="drop", repetitions=0)
    assert "1 of 4 participants have no outcome" in str(found)
    assert (found.participants, found.events, found.missing) == (3, 2, 1)


def test_only_events_give_a_ratio_without_an_interval() -> None:
    found = clinical.validate([0.2] * 20, [1] * 20, repetitions=0)
    assert found.observed_over_expected.value == pytest.approx(5.0)
    assert found.observed_over_expected.se is found.observed_over_expected.low is None
    assert "only events are present" in str(found)
    risk, died, hospital = (np.array(each) for each in world(400, 4))
    died = np.where(hospital == 0, 1, died)
    clusters = clinical.validate_clusters(risk, died, groups=hospital)
    assert clusters.pooled["observed_over_expected"].clusters == 3
    assert "O:E ratio: 1 of 4 clusters are not in the pooled value: 1 with only events" in str(clusters)


def test_a_subgroup_without_outcomes_is_named() -> None:
    with pytest.raises(InputError, match="every participant with segment = 'b'"):
        clinical.validate([0.1, 0.2, 0.3], [0, 1, None], by=["a", "a", "b"], missing="drop", repetitions=0)


def test_an_unknown_smoother_is_named_curve() -> None:
    with pytest.raises(InputError, match=r"^curve"):
        clinical.validate([0.1, 0.2], [0, 1], curve="x")


@pytest.mark.filterwarnings("ignore:y has only one class")
def test_a_decision_curve_of_one_participant_has_no_intervals() -> None:
    pytest.importorskip("matplotlib")
    found = clinical.decision_curve([0.2], [1], repetitions=100)
    assert np.isnan([found.low, found.band_high, found.gain_low]).all()
    assert "no intervals: all rows have the same outcome" in str(found)
    assert "with the band above both at 0" in str(found)
    assert displays.DecisionCurveDisplay.from_predictions([0.2], [1], band="simultaneous").plot().figure_


def test_the_plain_data_of_an_update_hold_its_map() -> None:
    risk, y, _ = world()
    update = clinical.update_model(risk, y, method="slope")
    read = cb.Calibration.from_json(json.dumps(update.to_dict()["calibration"]))
    assert np.array_equal(read.map.apply(risk), update.calibration.map.apply(risk))


def test_the_checklist_refuses_what_is_no_result() -> None:
    with pytest.raises(InputError, match="validation must be a Validation, not int"):
        clinical.tripod(5)
    with pytest.raises(InputError, match="update must be a ModelUpdate"):
        clinical.tripod(clinical.validate([0.2, 0.4], [0, 1], repetitions=0), update="slope")


def test_clusters_that_agree_too_well_ask_for_the_wider_interval() -> None:
    text = str(pooled_note("calibration slope", "narrow-interval"))
    assert text.startswith("calibration slope: the clusters differ less than expected by chance, and the interval is ")
    assert text.endswith("report the wider one too")


def test_update_and_decision_curve_read_the_columns_of_a_frame() -> None:
    risk, y, hospital = world()
    frame = pytest.importorskip("pandas").DataFrame({"risk": risk, "died": y, "hospital": hospital})
    named: dict[str, str] = {"score": "risk", "label": "died", "groups": "hospital"}
    whole = clinical.update_model(frame, **named)  # type: ignore[arg-type]
    assert str(whole) == str(clinical.update_model(risk, y, groups=hospital))
    curve = clinical.decision_curve(frame, thresholds=[0.1, 0.2], repetitions=100, **named)  # type: ignore[arg-type]
    arrays = clinical.decision_curve(risk, y, thresholds=[0.1, 0.2], repetitions=100, groups=hospital)
    assert curve.rows == arrays.rows
    assert str(clinical.update_model(Tally.from_arrays(risk, y))) == str(clinical.update_model(risk, y))
    with pytest.raises(InputError, match="label is missing"):
        clinical.decision_curve(frame, score="risk")
    with pytest.raises(InputError, match="y is missing"):
        clinical.update_model(risk)


def test_no_function_advises_an_argument_that_it_does_not_take(subtests: pytest.Subtests) -> None:
    risk, y, hospital = world()
    words = r"y holds the labels 'alive' and 'dead': pass 1 for each event and 0 for the others$"
    calls: dict[str, Callable[..., object]] = {
        "validate": clinical.validate,
        "validate_clusters": clinical.validate_clusters,
        "update_model": clinical.update_model,
        "decision_curve": clinical.decision_curve,
        "recalibration": metrics.recalibration,
        "ici": metrics.ici,
        "ReliabilityDisplay": displays.ReliabilityDisplay.from_predictions,
    }
    for name, call in calls.items():
        assert "positive" not in signature(call).parameters
        given: dict[str, object] = {"groups": hospital} if name == "validate_clusters" else {}
        with subtests.test(name=name), pytest.raises(InputError, match=words):
            call(risk, np.where(y == 1, "dead", "alive"), **given)
        with subtests.test(name=name), pytest.raises(InputError, match=r"look like percentages .*: divide by 100$"):
            call(100.0 * risk, y, **given)
    with pytest.raises(InputError, match=r"y holds only the label 'dead': pass 1 for each event and 0 for the others$"):
        metrics.ici(risk, np.full(len(risk), "dead"))
