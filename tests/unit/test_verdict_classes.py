"""`check` of several classes and labels: what is judged, which classes are off, which map would help."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import special

import calibrant as cb
from calibrant.maps import SoftmaxMap
from calibrant.messages import InputError
from calibrant.multiclass import Reduction
from calibrant.reporting.styles import STYLES
from calibrant.verdict import Verdict, check
from calibrant.verdict.decision import Decision, PValues, adjusted, decide, joint_status
from calibrant.verdict.input.evidence import Evidence
from calibrant.verdict.shape import Misfit, Range

NAMES = ["ant", "bee", "cat", "dog"]


@cache
def world(n: int = 3_000, slope: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four classes; the labels are drawn from the softmax of the logits, which are then multiplied by ``slope``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.5, (n, 4)) + np.array([0.5, 0.0, 0.0, -0.5])
    y = (rng.random((n, 1)) > special.softmax(z, axis=1).cumsum(axis=1)).sum(axis=1)
    return special.softmax(slope * z, axis=1), np.minimum(y, 3)


@cache
def judged(slope: float = 1.0, notion: str | None = None) -> Verdict:
    p, y = world(slope=slope)
    return check(p, np.array(NAMES)[y], classes=NAMES, notion=notion)


# ----------------------------------------------------------------------------------------------------------------------
# Confidence
# ----------------------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_confidence_as_one_score() -> None:
    p, y = world(slope=1.6)
    verdict, one = judged(1.6), check(p.max(axis=1), p.argmax(axis=1) == y)
    for name in ("status", "predicted", "events", "expected", "intercept", "slope", "against", "beyond"):
        assert getattr(verdict, name) == getattr(one, name), name


def test_the_headline_names_the_notion_the_side_and_the_map() -> None:
    text = str(judged(1.6))
    assert judged(1.6).findings[0] == "beyond"
    assert "too extreme" in text.splitlines()[0]
    assert "Judged: confidence, the probability of the predicted class, against how often that class is right" in text
    assert "Recalibration with TemperatureScaling() would cut the log loss of the confidences" in text
    assert "Classes, against the rest: 4 of 4 significantly off:" in text
    assert "To calibrate the probabilities of all classes: cal = calibrant.calibrate(scores, y)." in text


def test_a_calibrated_model_is_calibrated_in_every_notion() -> None:
    for notion, status in ((None, "calibrated"), ("class-wise", "cannot tell"), ("top-label", "cannot tell")):
        verdict = judged(1.0, notion)
        assert (verdict.status, verdict.off_classes) == (status, ()), notion
        assert set(verdict.classes) == set(NAMES)


def test_a_map_of_the_confidence_is_preferred_where_a_temperature_is_not_enough() -> None:
    """The confidence is off, and no temperature repairs it: overconfident near 1 only."""
    p, y = world(6_000)
    top = p.max(axis=1, keepdims=True)
    raised = np.where(top > 0.75, 0.985, top)
    bent = np.where(p == top, raised, p * (1.0 - raised) / (1.0 - top))
    verdict = check(bent, y)
    assert verdict.gain is not None
    assert verdict.gain is verdict.gains[0]
    assert verdict.gain.method.startswith('Reduction("confidence", ')
    by_name = {gain.method: gain for gain in verdict.gains}
    assert by_name[verdict.gain.method].after < by_name["TemperatureScaling()"].after
    assert "It gives the probability of the predicted class only." in str(verdict)


def test_gains_are_those_of_the_calibrators_fitted_to_other_rows() -> None:
    """ECE by hand, and the temperature close to that of the calibrator on all rows."""
    p, y = world(slope=1.6)
    verdict = judged(1.6)
    gain = next(gain for gain in verdict.gains if gain.method == "TemperatureScaling()")
    assert gain.ece_before == pytest.approx(cb.metrics.ece(p, y, notion="confidence", classes=range(4)).value)
    after = cb.TemperatureScaling().fit(p, y, classes=range(4)).transform(p)
    fitted = cb.metrics.log_loss(after.max(axis=1), after.argmax(axis=1) == y).value
    assert gain.after == pytest.approx(fitted, abs=2e-3)


def test_classes_that_are_off_are_named() -> None:
    """Only the odds of 'dog' against the others are raised."""
    p, y = world(6_000)
    p = p * np.array([1.0, 1.0, 1.0, 2.0])
    p /= p.sum(axis=1, keepdims=True)
    verdict = check(pd.DataFrame(p, columns=NAMES), np.array(NAMES)[y])
    assert verdict.off_classes[0] == "dog"
    assert verdict.classes["dog"].direction[0] == "too high"
    assert verdict.classes["dog"].p_value == pytest.approx(0.0, abs=1e-6)


def test_weights_groups_segments_and_time_reach_the_confidence() -> None:
    p, y = world(1_500)
    times = np.random.default_rng(1).integers(0, 3, len(y))
    repeated = check(np.repeat(p, times, axis=0), np.repeat(y, times))
    counted = check(p, y, times, weight_type="frequency")
    assert counted.predicted == pytest.approx(repeated.predicted)
    assert counted.classes["2"].intercept.value == pytest.approx(repeated.classes["2"].intercept.value)
    group, part = np.arange(len(y)) // 5, np.array(["x", "y"])[np.arange(len(y)) % 2]
    verdict = check(p, y, groups=group, by={"part": part}, time=np.arange(len(y)) // 100)
    assert verdict.n_groups == 300
    assert verdict.classes["1"].n_groups == 300
    assert {each.value for each in verdict.segments} == {"x", "y"}
    assert len(verdict.periods) == 8
    assert verdict.forward
    weighted = check(p, y, 0.5 + np.random.default_rng(2).random(len(y)))
    assert not weighted.counts
    assert weighted.status != "miscalibrated"


def test_ranges_of_one_class_are_of_its_probabilities() -> None:
    misfit = Misfit(Range("highest", 0.8, 1.0, 0.05), 50.0, 40.0, 10.0, 1e-6)
    verdict = judged(1.0, "class-wise")
    off = verdict.classes["ant"]
    off = replace(off, status="off", p_value=1e-6, against=replace(off.against, shape=misfit))
    for notion, name in (
        ("class-wise", "probabilities"),
        ("confidence", "probabilities"),
        ("top-label", "confidences"),
    ):
        text = str(replace(verdict, status="off", notion=notion, classes={**verdict.classes, "ant": off}))
        assert f"ant: too low in the highest 5 % of the {name}" in text, notion


def test_one_class_that_no_row_has_is_tested_too() -> None:
    p, y = world()
    kept = y != 2
    verdict = check(p[kept], y[kept], classes=range(4), notion="class-wise")
    assert verdict.status == "off" or verdict.classes["2"].status == "off"
    assert "too high" in verdict.classes["2"].direction


def test_json_and_html() -> None:
    verdict = judged(1.6)
    data = json.loads(json.dumps(verdict.to_dict()))
    assert data["notion"] == "confidence"
    assert set(data["classes"]) == set(NAMES)
    assert data["classes"]["ant"]["status"] == verdict.classes["ant"].status
    assert data["gains"][0]["method"] == verdict.gains[0].method
    assert "Judged: confidence" in verdict._repr_html_()


def test_styles_keep_their_rows() -> None:
    words = judged(1.6).in_words(STYLES["clinical"].voice)
    assert "3,000 patients" in words.sentences[1]
    assert "correct predictions" in words.sentences[1]


def test_every_prediction_right_cannot_tell() -> None:
    verdict = check([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]] * 10, [0, 1, 2] * 10)
    assert verdict.headline == "CANNOT TELL YET: every predicted class is right."


def test_columns_in_another_order_than_the_classes_are_noted() -> None:
    p, y = world()
    assert "below-chance" in [note.code for note in check(p[:, [1, 2, 3, 0]], y).notes]


# ----------------------------------------------------------------------------------------------------------------------
# Joint status
# ----------------------------------------------------------------------------------------------------------------------


def test_joint_notions_take_the_status_of_the_classes() -> None:
    for notion in ("class-wise", "top-label"):
        verdict = judged(1.6, notion)
        assert verdict.status == "miscalibrated"
        assert verdict.joint
        assert verdict.deviations == ()
    assert joint_status(["calibrated", "miscalibrated", "off"]) == "miscalibrated"
    assert joint_status([]) == "cannot tell"


def test_classes_that_are_never_predicted_are_not_called_calibrated() -> None:
    p = np.tile([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]], (1_000, 1))
    y = np.zeros(2_000, dtype=int)
    y[0::2] = np.tile([0, 0, 0, 0, 0, 0, 0, 1, 1, 2], 100)
    y[1::2] = np.tile([1, 1, 1, 1, 1, 1, 1, 0, 0, 2], 100)
    verdict = check(p, y, notion="top-label")
    assert verdict.headline == "CALIBRATED within the limit in the 2 predicted of 3 classes."
    assert verdict.never_predicted == ("2",)
    assert "Classes, one by one: none of 2 significantly off; never predicted, so not judged: 2." in str(verdict)
    assert check(p, y, notion="class-wise").never_predicted == ()


def test_holm_by_hand() -> None:
    """Three p-values: 0.003, 0.009, 0.02 for three tests; Holm gives 0.009, 0.018 and 0.02."""
    base = decide(Evidence(cb.Tally.from_arrays([0.2, 0.7] * 30, [0, 1] * 30)))
    raw = [0.003, 0.009, 0.02]
    found = adjusted([_with(base, PValues(intercept=p / 3.0)) for p in raw])
    assert [each.p_value for each in found] == pytest.approx([0.009, 0.018, 0.02])
    assert all(each.against.by_intercept for each in found)
    # alone, a p-value of 0.02 is significant; among three of them the first is 0.06
    assert not any(each.against.found for each in adjusted([_with(base, PValues(intercept=0.02 / 3.0))] * 3))


def test_the_p_value_of_three_tests_by_hand() -> None:
    where = Range("lowest", 0.0, 0.1, 0.2)
    tests = PValues(0.5, 0.03, Misfit(where, 10.0, 5.0, 1.0, 0.004))
    assert tests.p_value == pytest.approx(0.012)
    assert tests.times(3.0).p_value == pytest.approx(0.036)


def _with(decision: Decision, tests: PValues) -> Decision:
    return replace(decision, of_calibration=tests, against=tests.against(), rung=None)


# ----------------------------------------------------------------------------------------------------------------------
# Two classes
# ----------------------------------------------------------------------------------------------------------------------


def test_two_columns_are_the_verdict_on_the_second() -> None:
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, 800)
    y = rng.random(800) < p**1.5
    one, both = check(p, y), np.column_stack([1.0 - p, p])
    z = special.logit(p)
    forms = {
        "booleans": (both, y, {}),
        "0 and 1": (both, y.astype(int), {}),
        "text": (both, np.where(y, "yes", "no"), {}),
        "lists": (both.tolist(), y.tolist(), {}),
        "frame": (pd.DataFrame(both, columns=["no", "yes"]), np.where(y, "yes", "no"), {}),
        "names with a prefix": (pd.DataFrame(both, columns=["p_0", "p_1"]), y.astype(int), {}),
        "polars": (pl.DataFrame({"no": both[:, 0], "yes": both[:, 1]}), np.where(y, "yes", "no"), {}),
        "pyarrow": (pa.table({"no": both[:, 0], "yes": both[:, 1]}), np.where(y, "yes", "no"), {}),
        "float32": (both.astype(np.float32), y, {}),
        "logits": (np.column_stack([-z / 2, z / 2]), y, {"score_type": "logit"}),
    }
    for name, (scores, labels, given) in forms.items():
        verdict = check(scores, labels, **given)
        assert (verdict.notion, verdict.status) == (None, one.status), name
        assert verdict.predicted == pytest.approx(one.predicted, rel=1e-5), name
        assert verdict.slope.value == pytest.approx(one.slope.value, rel=1e-4), name
        assert not [note for note in verdict.notes if note.code == "classes-from-labels"], name
    first = check(both, y.astype(int), positive=0)
    assert first.events == 800 - one.events
    assert check(both, np.ones(800, dtype=int)).headline == "CANNOT TELL YET: the labels contain only one class."
    with pytest.raises(InputError, match="notion is for three classes or more"):
        check(both, y, notion="class-wise")


def test_a_verdict_on_two_columns_names_the_event() -> None:
    p, y = np.linspace(0.1, 0.9, 60), np.arange(60) % 2
    both, names = pd.DataFrame({"churn": 1.0 - p, "stay": p}), np.array(["churn", "stay"])[y]
    verdict = check(both, names)
    assert "Note: the event is 'stay' (the second column)" in str(verdict)
    assert {"name": "stay", "place": "second"}.items() <= verdict.to_dict()["notes"][0].items()
    assert "Note: the event is 'churn' (the first column)" in str(check(both, names, positive="churn"))
    assert "event-class" not in [note.code for note in check(both.to_numpy(), y).notes]
    hot = check(both, pd.get_dummies(names))
    assert [note.code for note in hot.notes][:2] == ["one-hot-labels", "event-class"]


# ----------------------------------------------------------------------------------------------------------------------
# Frames
# ----------------------------------------------------------------------------------------------------------------------


def test_frames_with_one_column_per_class() -> None:
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    p, y = world(800)
    labels, expected = np.array(NAMES)[y], check(p, np.array(NAMES)[y], classes=NAMES)
    columns = {f"p_{name}": p[:, j] for j, name in enumerate(NAMES)} | {"y": labels, "w": np.ones(800), "part": y % 2}
    names = [f"p_{name}" for name in NAMES]
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        verdict = check(frame, score=names, label="y", sample_weight="w", weight_type="frequency", by="part")
        assert verdict.predicted == pytest.approx(expected.predicted)
        assert set(verdict.classes) == set(NAMES)
        assert {each.column for each in verdict.segments} == {"part"}
    with pytest.raises(InputError, match="label is missing"):
        check(pd.DataFrame(columns), score=names)


# ----------------------------------------------------------------------------------------------------------------------
# Calibrations
# ----------------------------------------------------------------------------------------------------------------------


def test_calibrated_class_scores() -> None:
    p, y = world(slope=1.6)
    fresh, truth = world(slope=1.6, seed=1)
    fitted = cb.TemperatureScaling().fit(p, y, classes=range(4))
    assert check(fresh, truth, calibration=fitted).status == "calibrated"
    assert check(fresh, truth, calibration=fitted.calibration_).status == "calibrated"
    top = Reduction("confidence", cb.BetaScaling()).fit(p, y, classes=range(4))
    verdict = check(fresh, truth, calibration=top)
    assert verdict.status == "calibrated"
    assert verdict.notion == "confidence"
    inside = check(p, y, calibration=fitted)
    assert inside.in_sample
    assert inside.status == "cannot tell"
    assert inside.headline == "CANNOT TELL YET: the map was fitted to these rows; evaluate it on held-out rows."
    assert "Hint: without held-out rows, check the probabilities of crossfit(calibrator, scores, y)" in str(inside)
    same = SoftmaxMap(tuple("0123"), [1.0], [], "probability", 1e-9)
    assert check(fresh, truth, calibration=same).predicted == pytest.approx(check(fresh, truth).predicted)
    with pytest.raises(InputError, match="calibration is for one score, and scores has 4 classes"):
        check(fresh, truth, calibration=cb.PlattScaling().fit(p[:, 1], y == 1))
    with pytest.raises(InputError, match="does not apply: this map gives only the predicted class"):
        check(fresh, truth, calibration=top, notion="class-wise")


def test_a_calibration_of_one_score_on_two_columns() -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, 800)
    y = rng.random(800) < p**1.5
    fitted = cb.PlattScaling().fit(p[:400], y[:400])
    both = np.column_stack([1.0 - p, p])[400:]
    assert check(both, y[400:], calibration=fitted).predicted == pytest.approx(
        check(p[400:], y[400:], calibration=fitted).predicted
    )


# ----------------------------------------------------------------------------------------------------------------------
# Labels
# ----------------------------------------------------------------------------------------------------------------------


def multilabel(n: int = 3_000) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(5)
    p = rng.beta(2, 3, (n, 3))
    y = rng.random((n, 3)) < p * np.array([1.0, 0.6, 1.0])
    return pd.DataFrame(p, columns=["a", "b", "c"]), pd.DataFrame(y.astype(int), columns=["a", "b", "c"])


def test_labels_are_judged_one_by_one() -> None:
    scores, y = multilabel()
    verdict = check(scores, y)
    assert verdict.notion == "multi-label"
    assert verdict.status == "miscalibrated"
    assert verdict.off_classes == ("b",)
    for name in "abc":
        one, mine = check(scores[name], y[name]), verdict.classes[name]
        assert (mine.predicted, mine.intercept, mine.slope) == (one.predicted, one.intercept, one.slope)
        assert mine.gain is not None
    assert verdict.events == float(y.to_numpy().sum())
    assert verdict.n_groups == len(y)
    assert "(9,000 labels of 3,000 rows)." in str(verdict)
    assert json.loads(json.dumps(verdict.to_dict()))["classes"]["b"]["status"] == "miscalibrated"
    turned = check(scores[["c", "b", "a"]], y)
    assert turned.classes["a"].predicted == verdict.classes["a"].predicted
    arrays = check(special.logit(scores.to_numpy()), y.to_numpy(), classes=["a", "b", "c"], score_type="logit")
    assert arrays.classes["b"].predicted == pytest.approx(verdict.classes["b"].predicted)
    frame = pd.concat([scores.add_prefix("p_"), y], axis=1)
    named = check(frame, score=["p_a", "p_b", "p_c"], label=["a", "b", "c"])
    assert named.classes["b"].status == "miscalibrated"


def test_one_hot_labels_are_classes() -> None:
    p, y = world(800)
    verdict = check(p, np.eye(4, dtype=int)[y])
    assert verdict.notion == "confidence"
    assert verdict.predicted == check(p, y).predicted
    assert "one-hot-labels" in [note.code for note in verdict.notes]


def test_errors_name_the_argument_and_the_fix() -> None:
    p, y = world(400)
    scores, labels = multilabel(50)
    for call, message in (
        (lambda: check(p), "y is missing"),
        (lambda: check(p, y, notion="canonical"), "notion is 'canonical', which is not an option"),
        (lambda: check(p[:, 0], y == 0, notion="class-wise"), "notion is for a matrix of class scores"),
        (lambda: check(p[:, 0], y == 0, classes=[0, 1]), "classes is for a matrix of class scores"),
        (lambda: check(p, y, positive=1), "positive=1 is for two classes, and scores has 4"),
        (lambda: check(p, y, by="region"), "by='region' looks like the name of a column"),
        (lambda: check(scores, labels.iloc[:, :2]), r"y has shape \(50, 2\) and scores \(50, 3\)"),
        (lambda: check(scores, labels + 1), "y has several columns, and they hold other values than 0 and 1"),
        (lambda: check(scores, labels, notion="class-wise"), "notion is not for a multi-label target"),
        (lambda: check(scores * 3, labels, score_type="probability"), r"scores must lie in \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_few_rows() -> None:
    for n in (1, 2, 5):
        p, y = world()
        assert check(p[:n], y[:n], classes=range(4)).status == "cannot tell", n
        scores, labels = multilabel(100)
        assert check(scores[:n], labels[:n]).status == "cannot tell", n


def test_logits_are_called_scores_where_the_confidence_is_judged() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0.0, 2.0, (300, 3))
    text = str(check(logits, logits.argmax(axis=1)))
    assert "Note: scores read as logits (from " in text
    assert "confidences read as" not in text


def test_a_number_is_not_the_name_of_a_column(subtests: pytest.Subtests) -> None:
    frame = pd.DataFrame({0: [0.2, 0.8] * 20, 1: [0, 1] * 20, "s": [0.3, 0.7] * 20, "y": [0, 1] * 20})
    words = r"names a column by the number \d, and names must be text: pass '\d' and frame.rename\(columns=str\)"
    columns: dict[str, dict[str, object]] = {
        "score": {"score": 0, "label": "y"},
        "label": {"score": "s", "label": 1},
        "by": {"score": "s", "label": "y", "by": 1},
    }
    for argument, given in columns.items():
        for call in (check, cb.metrics.ece, cb.report, cb.clinical.validate):
            with subtests.test(argument=argument, call=call.__name__), pytest.raises(InputError, match=words) as told:
                call(frame, **given)  # type: ignore[operator]
            assert told.value.argument == argument
    for call, given in (
        (check, {"score": [0, 1], "label": "y"}),
        (cb.compare, {"score": [0, "s"], "label": "y"}),
        (cb.calibrate, {"score": 0, "label": 1}),
    ):
        with subtests.test(call=call.__name__), pytest.raises(InputError, match=words):
            call(frame, **given)  # type: ignore[operator]
