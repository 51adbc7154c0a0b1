"""`compare`: paired differences and rows that cross a threshold."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy import special
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from calibrant.messages import InputError
from calibrant.verdict import compare
from calibrant.verdict.change import Outcome


def models(n: int = 2_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 5, n)
    noisy = np.clip(p + 0.1 * rng.standard_normal(n), 0.01, 0.99)
    return noisy, p, (rng.random(n) < p).astype(int)


def test_the_numbers_are_those_of_scikit_learn() -> None:
    old, new, y = models()
    weight = np.random.default_rng(1).random(len(y))
    for w in (None, weight):
        _, loss, brier, auc = compare(old, new, y, w).differences
        for scores, mine in ((old, "old"), (new, "new")):
            assert getattr(loss, mine) == pytest.approx(log_loss(y, scores, sample_weight=w))
            assert getattr(brier, mine) == pytest.approx(brier_score_loss(y, scores, sample_weight=w))
            assert getattr(auc, mine) == pytest.approx(roc_auc_score(y, scores, sample_weight=w))


def test_intervals_are_as_wide_as_the_spread_between_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = compare(*models(400)).old
    for name, value in {"evidence_of_rows": None, "judge": verdict}.items():  # most of the time, and not looked at here
        monkeypatch.setattr(import_module("calibrant.verdict.compare"), name, lambda *_, value=value, **__: value)
    samples = [compare(*models(400, seed)).differences for seed in range(60)]
    for place in range(1, 4):
        changes = np.array([differences[place].change for differences in samples])
        halves = np.array([differences[place].high - differences[place].low for differences in samples]) / 2
        assert halves.mean() / 1.96 == pytest.approx(changes.std(), rel=0.35)


def test_crossings_by_hand() -> None:
    """Up: 0.4 -> 0.6 (event) and 0.2 -> 0.5 (none); down: 0.9 -> 0.1 (event); 0.5 -> 0.7 stays above."""
    change = compare([0.4, 0.2, 0.9, 0.5, 0.1], [0.6, 0.5, 0.1, 0.7, 0.2], [1, 0, 1, 1, 0], thresholds=0.5)
    crossing = change.crossings[0]
    assert (crossing.above_old, crossing.above_new) == (2, 3)
    assert (crossing.up, crossing.up_events, crossing.down, crossing.down_events) == (2, 1, 1, 1)
    assert "at 0.5: 2 rows move up (50.0 % events), 1 move down (100.0 % events)" in str(change)


def test_counts_mean_repetition() -> None:
    old, new, y = models(300)
    times = np.random.default_rng(1).integers(0, 4, 300)
    one = compare(old, new, y, times, weight_type="frequency")
    other = compare(*(np.repeat(column, times) for column in (old, new, y)))
    for mine, yours in zip(one.differences, other.differences, strict=True):
        assert (mine.new, mine.low, mine.high) == pytest.approx((yours.new, yours.low, yours.high))
    assert one.crossings == other.crossings


def test_equal_models_show_no_change_and_groups_widen() -> None:
    old, new, y = models(500)
    same = compare(old, old, y)
    assert all(each.words == "no significant change" for each in same.differences)
    plain, clustered = (
        compare(old, new, y),
        compare(*(np.tile(c, 5) for c in (old, new, y)), groups=np.tile(range(500), 5)),
    )
    assert (clustered.differences[0].high - clustered.differences[0].low) == pytest.approx(
        plain.differences[0].high - plain.differences[0].low, rel=0.3
    )


def test_one_class_has_no_ranking_and_no_error() -> None:
    change = compare([0.1, 0.2], [0.2, 0.3], [0, 0])
    assert [each.name for each in change.differences] == ["Squared calibration error", "Log loss", "Brier score"]
    assert json.dumps(change.to_dict())


def test_mistakes_are_answered_in_a_sentence(subtests: pytest.Subtests) -> None:
    for new, keywords, problem in (
        ([0.1, 0.2, 0.3], {}, "y has 2 rows but scores_new has 3"),
        ([0.1, 1.2], {}, r"^scores_new .* above 1"),
        ([0.1, 0.2], {"thresholds": [0.5, 3]}, "thresholds"),
    ):
        with subtests.test(problem), pytest.raises(InputError, match=problem):
            compare([0.1, 0.2], new, [0, 1], **keywords)


def test_one_row_says_nothing_about_a_difference() -> None:
    change = compare([0.3], [0.4], [1])
    assert [each.words for each in change.differences] == ["too few rows of one class, or too few groups, to tell"] * 3
    assert {each.outcome for each in change.differences} == {Outcome.TOO_FEW_ROWS}
    assert change.to_dict()["differences"][0]["low"] is None


def test_small_differences_keep_their_digits() -> None:
    old, _, y = models()
    text = str(compare(old, 0.99999 * old, y).differences[0])
    assert "0.0000," not in text
    assert "%" in text


# ----------------------------------------------------------------------------------------------------------------------
# Frames, several classes, labels
# ----------------------------------------------------------------------------------------------------------------------


def classes(n: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    p = rng.dirichlet([2.0, 1.0, 1.0], n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    return 0.6 * p[:, [0, 2, 1]] + 0.4 * p, p, y


def test_columns_of_a_frame_give_what_arrays_give() -> None:
    """A frame was refused as a matrix of classes."""
    pl = pytest.importorskip("polars")
    old, new, y = models(300)
    group = np.arange(300) // 3
    expected = compare(old, new, y, groups=group)
    columns = {"a": old, "b": new, "y": y, "g": group}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        change = compare(frame, score={"old": "a", "new": "b"}, label="y", groups="g")
        assert change.differences == expected.differences
        named = compare(frame, ["a", "b"], "y").differences
        assert [each.pair for each in named] == [("a", "b")] * 4
        assert [each.change for each in named] == [each.change for each in compare(old, new, y).differences]
    for call, message in (
        (lambda: compare(frame, score="a", label="y"), "score has 1 models"),
        (lambda: compare(frame, label="y"), "score is missing"),
        (lambda: compare(old, new), "y is missing"),
        (lambda: compare(frame, new, score=["a", "b"], label="y"), "scores_new is given beside the names"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_two_columns_are_compared_by_the_second() -> None:
    old, new, y = models(300)
    expected = compare(old, new, y)
    change = compare(*(np.column_stack([1.0 - p, p]) for p in (old, new)), y)
    assert change.differences == expected.differences
    assert change.crossings == expected.crossings
    named = compare(*(pd.DataFrame({"no": 1.0 - p, "yes": p}) for p in (old, new)), np.where(y == 1, "yes", "no"))
    assert named.differences == expected.differences


def test_classes_are_compared_by_log_loss_brier_score_and_accuracy() -> None:
    old, new, y = classes()
    weight = np.random.default_rng(1).random(len(y))
    for w in (None, weight):
        change = compare(old, new, y, w)
        _, loss, brier, accuracy = change.differences
        for scores, mine in ((old, "old"), (new, "new")):
            assert getattr(loss, mine) == pytest.approx(log_loss(y, scores, sample_weight=w))
            squares = ((scores - np.eye(3)[y]) ** 2).sum(axis=1)
            assert getattr(brier, mine) == pytest.approx(np.average(squares, weights=w))
            assert getattr(accuracy, mine) == pytest.approx(np.average(scores.argmax(axis=1) == y, weights=w))
        assert (loss.words, brier.words, accuracy.words) == ("better", "better", "better")
    half = 1.96 * np.std(np.log(old[np.arange(900), y] / new[np.arange(900), y]), ddof=1) / 30.0
    loss = compare(old, new, y).differences[1]
    assert (loss.high - loss.low) / 2 == pytest.approx(half, rel=0.01)
    assert change.old.notion == change.new.notion == "confidence"
    assert not change.crossings
    crossed = compare(old, new, y, thresholds=[0.5, 0.8])
    assert len(crossed.crossings) == 2
    for text in (str(crossed), crossed._repr_html_()):
        assert "% correct predictions)" in text
        assert "% events)" not in text
    assert json.loads(json.dumps(change.to_dict()))["differences"][3]["name"] == "Accuracy"
    frame = pd.DataFrame(np.column_stack([old, new]), columns=["a0", "a1", "a2", "b0", "b1", "b2"]).assign(y=y)
    named = compare(frame, score={"old": ["a0", "a1", "a2"], "new": ["b0", "b1", "b2"]}, label="y")
    assert named.differences[1] == loss


def test_labels_are_compared_together() -> None:
    rng = np.random.default_rng(4)
    p = rng.beta(2, 3, (600, 3))
    y = (rng.random((600, 3)) < p).astype(int)
    change = compare(p**2, p, y)
    assert change.old.notion == "multi-label"
    assert change.differences[1].old == pytest.approx(log_loss(y.ravel(), (p**2).ravel()))
    assert [each.words for each in change.differences[:2]] == ["better", "better"]


def test_a_label_of_probability_zero_does_not_make_the_difference_infinite() -> None:
    old, new, y = classes(200)
    old = old.copy()
    old[0] = np.eye(3)[(y[0] + 1) % 3]
    _, brier, log_loss, _ = compare(old, new, y).differences
    assert (brier.ends, log_loss.ends) == (None, (min(old[old > 0].min(), new.min()) / 2, 1.0))
    assert np.isfinite(log_loss.old)


def test_a_matrix_is_not_compared_with_one_column() -> None:
    old, new, y = classes(50)
    with pytest.raises(InputError, match="scores_new is one column, and another model has a matrix"):
        compare(old, new[:, 0], y)
    with pytest.raises(InputError, match="scores_new holds NaN or infinities"):
        compare(old, np.where(new > 0.9, np.nan, new), y)


def test_costs_are_compared_at_their_own_threshold() -> None:
    old, new, y = [0.1, 0.3, 0.3, 0.8], [0.3, 0.1, 0.3, 0.8], [0, 0, 1, 1]
    change = compare(old, new, y, cost_fp=1, cost_fn=3)
    cost = change.differences[-1]
    assert cost.name == "Cost of a row, threshold 0.25"
    assert (cost.old, cost.new) == (0.25, 0.25)
    assert change.crossings[0].threshold == 0.25
    better = compare([0.1] * 50 + [0.2] * 50, [0.1] * 50 + [0.9] * 50, [0] * 50 + [1] * 50, cost_fp=1, cost_fn=1)
    assert better.differences[-1].outcome is Outcome.BETTER
    assert better.differences[-1].change == -0.5
    with pytest.raises(InputError, match="cost_fn is missing: pass both costs"):
        compare(old, new, y, cost_fp=1)


# ----------------------------------------------------------------------------------------------------------------------
# Calibration, and more than two models
# ----------------------------------------------------------------------------------------------------------------------


def test_the_squared_calibration_error_by_hand() -> None:
    """One score: 30 of 100 events at 0.2, so (0.1 squared) less the variance of the mean; and the same at 0.3."""
    y = np.repeat([1, 0], [30, 70])
    found = compare(np.full(100, 0.2), np.full(100, 0.3), y).differences[0]
    noise = 0.3 * 0.7 / 99
    assert (found.name, found.ranges) == ("Squared calibration error", 2)
    assert (found.old, found.new) == pytest.approx((0.01 - noise, -noise))
    half = special.stdtrit(99, 0.975) * 2 * 0.1 * np.sqrt(noise)  # both are off by one number: nothing is quadratic
    assert (found.low, found.high) == pytest.approx((-0.01 - half, -0.01 + half))
    assert found.p_value == pytest.approx(2 * special.stdtr(99, -0.01 / (0.2 * np.sqrt(noise))))


def test_the_squared_calibration_error_is_that_of_a_loop_over_ranges() -> None:
    old, new, y = models(600)
    change = compare({"a": old, "b": new, "c": new**2}, y)
    lowest = np.array(change.lowest_scores)
    for scores, name in ((old, "a"), (new, "b"), (new**2, "c")):
        place = np.maximum(np.searchsorted(lowest, scores, side="right") - 1, 0)
        value = 0.0
        for b in np.unique(place):
            off = (y - scores)[place == b]
            value += len(off) / 600 * (off.mean() ** 2 - off.var(ddof=1) / len(off) if len(off) > 1 else 0.0)
        values = [
            each.old if each.pair[0] == name else each.new for each in change.differences[:3] if name in each.pair
        ]
        assert values == pytest.approx([value] * 2)
    assert len(lowest) == 15
    groups = compare(*(np.repeat(each, 2) for each in (old, new, y)), groups=np.repeat(range(600), 2)).differences[0]
    assert (groups.change, groups.low) == pytest.approx(
        (compare(old, new, y).differences[0].change, compare(old, new, y).differences[0].low), rel=0.03
    )


def test_an_interval_excludes_zero_where_its_p_value_is_small() -> None:
    for seed in range(20):
        _, p, y = models(400, seed)
        for each in compare({"a": p, "b": p**1.2, "c": p**0.8}, y).differences:
            assert (each.p_value <= 0.05) == (not each.low <= 0.0 <= each.high)
            assert each.adjusted >= each.p_value


def test_many_models_in_one_table(subtests: pytest.Subtests) -> None:
    _, p, y = models()
    change = compare({"raw": p**0.5, "cal": p, "third": p**2}, y)
    assert list(change.verdicts) == ["raw", "cal", "third"]
    assert (change.old, change.new) == (change.verdicts["raw"], change.verdicts["third"])
    assert [(each.pair, each.words) for each in change.differences[:3]] == [
        (("raw", "cal"), "better"),
        (("raw", "third"), change.differences[1].words),
        (("cal", "third"), "worse"),
    ]
    assert not change.crossings
    assert [each.pair for each in compare({"a": p, "b": p**2, "c": p**3}, y, thresholds=0.3).crossings] == [
        ("a", "b"), ("a", "c"), ("b", "c")
    ]  # fmt: skip
    frame = change.to_frame()
    assert len(frame) == len(change.differences) == 12
    assert frame["change"].tolist() == [each.change for each in change.differences]
    told = json.loads(json.dumps(change.to_dict()))
    assert list(told["models"]) == ["raw", "cal", "third"]
    assert told["differences"][0]["adjusted"] == change.differences[0].adjusted
    rows = [line for line in change.to_markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 14
    assert {line.count("|") for line in rows} == {8}
    assert "cal against raw" in str(change)
    assert "raw to cal" in change._repr_html_()
    own = {"a": compare({"a": p, "b": p**2}, {"a": y, "b": 1 - y})}["a"]
    assert (own.old.events, own.new.events) == (y.sum(), (1 - y).sum())
    for call, argument in (
        (lambda: compare({"a": p}, y), "scores_old"),
        (lambda: compare({str(k): p for k in range(21)}, y), "scores_old"),
        (lambda: compare({"a": p, "b": p}), "y"),
        (lambda: compare({"a": p, "b": p}, {"a": y, "c": y}), "y"),
        (lambda: compare({"a": p, "b": p[1:]}, {"a": y, "b": y[1:]}), "scores_old['a']"),
        (lambda: compare({"a": p, "b": p + 1.0}, y), "scores_old['b']"),
    ):
        with subtests.test(argument), pytest.raises(InputError) as refused:
            call()
        assert refused.value.argument == argument


def test_labels_of_one_model_are_noted() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.beta(4, 2, (2, 800))
    right_a, right_b = (rng.random(800) < each for each in (a, b))
    codes = lambda change: [each.code for each in change.said]  # noqa: E731
    assert codes(compare(a, b, right_a)) == ["labels-of-one-model"]
    assert codes(compare({"a": a, "b": b}, {"a": right_a, "b": right_b})) == ["own-labels"]
    assert codes(compare(a, a**2, right_a)) == []
    assert codes(compare(a, a**2, right_a, event="correct answer")) == ["labels-of-one-model"]
    assert codes(compare(*classes())) == ["own-answers"]


def test_all_curves_are_drawn() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    _, p, y = models(300)
    for count in (3, 20):
        display = compare({f"model {k}": p ** (0.5 + k / 10) for k in range(count)}, y).plot(title="Models")
        assert len(display.data["series"]) == count
        looks = {(*map(str, (line.get_color(), line._unscaled_dash_pattern)),) for line in display.ax_.get_lines()}
        assert len(looks) == count + 1
        plt.close("all")
