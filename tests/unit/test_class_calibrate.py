"""The automatic choice for several classes: what it takes, when it keeps the model, honest numbers, groups and time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests import worlds

from calibrant import BetaScaling, InputError, NoCertificate, PlattScaling, TemperatureScaling, calibrate, load
from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.maps import SoftmaxMap
from calibrant.multiclass import MulticlassAutoCalibrator, Reduction, TopLabelHistogramBinning, VectorScaling
from calibrant.selection.losses import Losses
from calibrant.selection.multiclass.cross_validation import Given, Setting, Trials, class_losses
from calibrant.selection.multiclass.folds import MulticlassFolds
from calibrant.selection.multiclass.rule import MulticlassCandidate, select_classes, settled


def sample(n: int = 600, classes: int = 3, seed: int = 0, power: float = 1.0) -> worlds.Rows:
    return worlds.overconfident_classes(n, classes, seed, power=power)


@cache
def overconfident() -> MulticlassAutoCalibrator:
    return calibrate(*sample(power=3.0))


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


# ---------------------------------------------------------------------------------------------------------------------
# What is chosen
# ---------------------------------------------------------------------------------------------------------------------


def test_a_calibrated_model_is_kept_and_a_wrong_one_is_not():
    p, y = sample()
    cal = calibrate(p, y)
    assert isinstance(cal, MulticlassAutoCalibrator)
    assert (cal.choice_, cal.status_) == ("identity", "kept")
    np.testing.assert_allclose(cal.transform(p), p, atol=1e-9)
    assert "Keep the original model" in str(cal)
    cal = overconfident()
    assert cal.status_ == "calibrated"
    new, labels = sample(power=3.0, seed=1)
    assert log_loss(cal.transform(new), labels) < log_loss(new, labels) - 0.2


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_what_is_negligible_scales_with_the_class_rates(loss):
    """Rates of 0.9, 0.08 and 0.02: 0.07 % of their entropy, or of 1 less their squares."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([9.0, 1.0, 1.0], 400)
    y = np.repeat([0, 1, 2], [360, 32, 8])
    cal = MulticlassAutoCalibrator(["temperature"], loss=loss).fit(p, y, score_type="probability")
    rates = np.array([0.9, 0.08, 0.02])
    constant = -(rates * np.log(rates)).sum() if loss == "log" else 1.0 - (rates**2).sum()
    assert cal.comparison_.negligible == pytest.approx(7e-4 * constant)
    assert f"by at most {cal.comparison_.negligible:.2g} (0.07 % of the loss of a constant prediction)" in str(
        cal.comparison_
    )


def test_a_choice_of_classes_that_raises_the_nested_loss_is_not_made():
    """The cross-fitted loss alone would change all three; the nested loss rises by 0.008, falls by 0.011, rises."""
    found = [calibrate(*sample(350, seed=seed)) for seed in (2, 5, 8)]
    assert [cal.choice_ == "identity" for cal in found] == [True, False, True]
    for cal in found:
        assert (cal.change_.value < 0.0) == (cal.choice_ != "identity")
        assert bool(cal.after_.notes) == (cal.choice_ == "identity"), "the note says whose loss it is"
        assert {line.outcome.code for line in cal.comparison_.lines} <= {
            "chosen", "negligibly-better", "not-significantly-different", "unreliably-better", "worse"
        }  # fmt: skip


def test_the_rule_by_hand():
    """Three columns of four rows; the second is better than the first in every row by the same: its error is 0."""
    columns = np.array([[1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5], [0.1, 0.9, 0.1, 0.8]])
    products = np.einsum("jn,kn->jk", columns, columns)
    losses = Losses(4.0, 4.0, columns.sum(axis=1), products, np.zeros((0, 4)))
    assert settled(losses, 1, 5e-4) == 1
    # The third, as the default: 0.525 better than the first, with a standard error of 0.19, which is more than two.
    gain, error = losses.difference(0, 2)
    assert gain == pytest.approx(0.525)
    assert gain > 2 * error
    assert settled(losses, 2, 5e-4) == 2
    # As the only other thing, with an error so large that fewer than 200 rows keep the model, and more do not.
    wide = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 0.0, 1.9]])
    found = [
        Losses(n * 4.0, n * 4.0, n * wide.sum(axis=1), n * np.einsum("jn,kn->jk", wide, wide), np.zeros((0, 3)))
        for n in (1, 100)
    ]
    assert [settled(each, 1, 5e-4) for each in found] == [0, 1]


def test_losses_by_hand():
    p = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(class_losses(p, np.array([0, 0]), "log"), [np.log(2), 52 * np.log(2)])
    # (1 - 1/2)^2 + 2 / 16 = 3/8, and 1 + 1 = 2
    np.testing.assert_allclose(class_losses(p, np.array([0, 0]), "brier"), [0.375, 2.0])


def test_the_honest_numbers_are_those_of_rows_that_were_not_seen():
    """A map that knows the labels it was fitted to gains nothing on others."""
    p, y = sample(300)
    places = {row.tobytes(): label for row, label in zip(p, y, strict=True)}

    class Knowing(SoftmaxMap):
        """Certain about rows that it was fitted to."""

    def fit(rows):
        known = {row.tobytes() for row in rows.scores}

        class Map(Knowing):
            def apply(self, scores, groups=None):
                out = np.array(scores)
                for j, row in enumerate(scores):
                    if row.tobytes() in known:
                        out[j] = np.eye(3)[places[row.tobytes()]]
                return out

        return Map(rows.classes, np.ones(1), np.zeros(0), "probability", 1e-9)

    rows = check_class_rows(p, y)
    trials = Trials(rows, MulticlassFolds.of(rows), "log")
    found = select_classes(
        trials, [MulticlassCandidate.named("identity"), MulticlassCandidate("knowing", given=Given("k", fit))], 300
    )
    assert found.comparison.lines[1].change == pytest.approx(0.0, abs=1e-12)
    assert found.change.value == pytest.approx(0.0, abs=1e-12)


def test_numbers_after_agree_with_new_rows():
    sharp, y = sample(1500, power=2.0)
    cal = calibrate(sharp, y)
    new, labels = sample(20_000, power=2.0, seed=9)
    assert cal.after_.value == pytest.approx(log_loss(cal.transform(new), labels), abs=4 * cal.after_.se)
    assert cal.change_.high < 0.0
    assert cal.change_.value == pytest.approx(cal.after_.value - cal.before_.value)
    assert cal.before_.value == pytest.approx(log_loss(sharp, y))


# ---------------------------------------------------------------------------------------------------------------------
# Rows: weights, order, groups, time, frames
# ---------------------------------------------------------------------------------------------------------------------


def test_counts_are_repetition_and_order_does_not_matter():
    p, y = sample(150, power=2.0)
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    rows = np.random.default_rng(2).permutation(np.repeat(np.arange(len(y)), counts))
    once = calibrate(p, y, counts, weight_type="frequency")
    often = calibrate(p[rows], y[rows])
    assert once.choice_ == often.choice_
    assert once.after_.value == pytest.approx(often.after_.value, abs=1e-5)
    np.testing.assert_allclose(once.transform(p), often.transform(p), atol=1e-5)


def test_groups_stay_together_and_time_walks_forward():
    p, y = sample(400, power=2.0)
    rows = np.repeat(np.arange(100), 4)
    grouped = calibrate(p, y, groups=rows, candidates=["temperature"])
    assert grouped.provenance_.sampling == "grouped"
    assert isinstance(grouped.certificate(), NoCertificate)
    forward = calibrate(p, y, time=np.arange(400), candidates=["temperature"])
    assert forward.provenance_.sampling == "time-ordered"
    assert np.isfinite(forward.after_.value)
    both = calibrate(p, y, groups=rows, time=np.arange(400), candidates=["temperature"])
    assert isinstance(both.certificate(), NoCertificate)
    assert np.isfinite(both.after_.value)


def test_repeated_groups_are_no_evidence():
    """Forty rows, each twenty times: by rows the gain looks certain, by groups it does not."""
    p, y = sample(40, power=1.5, seed=3)
    rows = np.repeat(np.arange(40), 20)
    by_rows, by_groups = calibrate(p[rows], y[rows]), calibrate(p[rows], y[rows], groups=rows)
    assert by_rows.change_.high < 0.0
    assert by_groups.choice_ == "identity"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_name_the_classes(library, tmp_path):
    frame = pytest.importorskip(library).DataFrame
    p, y = sample(300, power=2.0)
    names = np.array(["cat", "dog", "fox"])
    cal = calibrate(frame(dict(zip(names, p.T, strict=True))), names[y], candidates=["temperature"])
    swapped = frame({name: p[:, j] for j, name in reversed(list(enumerate(names)))})
    out = cal.transform(swapped)
    assert list(out.columns) == ["cat", "dog", "fox"]
    np.testing.assert_allclose(np.asarray(out), cal.transform(p))
    cal.save(tmp_path / "map.json")
    np.testing.assert_array_equal(load(tmp_path / "map.json").transform(p), cal.transform(p))


def test_two_columns_are_about_as_good_as_the_binary_choice():
    p, y = sample(1500, 2, power=2.5)
    new, labels = sample(10_000, 2, power=2.5, seed=5)
    both = calibrate(p, y).transform(new)
    one = calibrate(p[:, 1], y).transform(new[:, 1])
    assert log_loss(both, labels) <= log_loss(np.column_stack([1 - one, one]), labels) + 0.005


# ---------------------------------------------------------------------------------------------------------------------
# Edges and errors
# ---------------------------------------------------------------------------------------------------------------------


def test_where_nothing_can_be_compared_the_scores_pass_through(subtests):
    for scores, y, why in [
        ([[0.2, 0.3, 0.5]] * 8, [0, 1, 2, 0, 1, 2, 0, 1], "8 rows are too few"),
        ([[0.2, 0.3, 0.5]] * 50, [0] * 50, "only one class"),
    ]:
        with subtests.test(scores=scores, y=y, why=why):
            cal = calibrate(scores, y, classes=range(len(scores[0])))
            assert cal.status_ == "uncalibrated"
            assert str(cal).startswith("Uncalibrated: ")
            assert why in str(cal)
            np.testing.assert_allclose(cal.transform(scores), scores)


def test_constant_absent_and_certain_scores_are_taken():
    for scores, y in (
        ([[1 / 3] * 3] * 60, [0, 1, 2] * 20),
        ([[0.6, 0.4, 0.0]] * 60, [0, 1] * 30),
        ([[1.0, 0.0, 0.0]] * 30 + [[0.0, 1.0, 0.0]] * 30, [0] * 25 + [2] * 5 + [1] * 30),
    ):
        p = calibrate(scores, y, classes=range(3)).transform(scores)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_own_candidates_are_compared_too():
    p, y = sample(300, power=2.0)
    reduced = Reduction("class-wise", BetaScaling(), normalized=True)
    cal = calibrate(p, y, candidates=["temperature", VectorScaling(), reduced], loss="brier")
    names = [line.name for line in cal.comparison_.lines]
    assert names == ["identity", "temperature", "VectorScaling()", repr(reduced)]
    assert all(np.isfinite(line.loss) for line in cal.comparison_.lines)
    assert "Brier score" in str(cal.comparison_)
    assert cal.choice_ in names


def test_a_brief_account_is_printed():
    cal = overconfident()
    text = str(cal)
    for told in ("600 rows of 3 classes", "Chosen: ", "Nested cross-validation: log loss ", "No certificate"):
        assert told in text
    assert cal.comparison_.to_dict()["candidates"][0]["name"] == "identity"
    assert isinstance(cal.setting_, Setting)


def test_what_does_not_fit_a_matrix_is_refused(subtests):
    for options, problem in [
        ({"guarantee": (0.1, 0.1)}, "use TopLabelHistogramBinning"),
        ({"positive": 1}, "pass classes, the labels in the order of the columns"),
        ({"candidates": ["isotonic"]}, "names among 'identity', 'temperature'"),
        ({"loss": "auc"}, "loss is 'auc', which is not an option"),
        ({"cv": 1}, "cv must be an integer"),
    ]:
        with subtests.test(options=options, problem=problem):
            p, y = sample(60)
            with pytest.raises(InputError, match=problem):
                calibrate(p, y, **options)


def test_a_guarantee_for_two_columns_is_that_of_the_second():
    p = np.linspace(0.05, 0.95, 2_000)
    y = np.random.default_rng(0).random(2_000) < p
    both = np.column_stack([1.0 - p, p])
    asked = {"guarantee": (0.2, 0.1)}
    cal = calibrate(both, y, **asked)
    assert cal.map_ == calibrate(both[:, 1], y, **asked).map_
    assert cal.certificate()
    assert "second-column-read" in [note.code for note in cal.notes_]
    assert calibrate(pd.DataFrame(both, columns=["no", "yes"]), y, **asked).map_ == cal.map_
    with pytest.raises(InputError) as told:
        calibrate(3.0 * both, y, **asked)
    assert told.value.argument == "scores"


def test_classes_are_for_a_matrix():
    with pytest.raises(InputError, match="classes are for a matrix"):
        calibrate([0.1, 0.9], [0, 1], classes=[0, 1])


@pytest.mark.slow
def test_of_many_classes_a_temperature_or_a_vector_is_taken():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 150)).astype(np.float32) * 3
    y = (0.5 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    cal = calibrate(z[:300], y[:300], classes=range(150), score_type="logit")
    assert cal.choice_ in ("temperature", "vector")
    simple = TemperatureScaling().fit(z[:300], y[:300], classes=range(150))
    assert log_loss(cal.transform(z[300:]), y[300:]) < log_loss(simple.transform(z[300:]), y[300:]) + 0.05
    assert "structured (for at most 128 classes)" in str(cal)


def test_labels_that_the_model_calls_impossible_are_told() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 300)
    y = p.argmax(axis=1)
    p[0] = [0.0, 0.5, 0.5]
    y[0] = 0
    told = {note.code: str(note) for note in MulticlassAutoCalibrator().fit(p, y).notes_}
    assert "gives 1 of 300 labels probability 0" in told["labels-of-probability-zero"]


def test_what_gives_no_whole_rows_is_no_candidate() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 100)
    with pytest.raises(InputError, match="do not sum to 1"):
        MulticlassAutoCalibrator([TopLabelHistogramBinning()]).fit(p, p.argmax(axis=1))


def test_the_order_of_a_reductions_arguments_is_told() -> None:
    p = np.random.default_rng(0).dirichlet([1, 1, 1], 100)
    with pytest.raises(InputError, match="the calibrator is the second argument"):
        Reduction(PlattScaling()).fit(p, p.argmax(axis=1))


def test_one_hot_labels_of_classes_are_read_as_classes(subtests) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(150, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((150, 1))).sum(axis=1).clip(0, 2)
    for scores in (logits, p):
        with subtests.test(first=scores[0, 0]):
            hot = calibrate(scores, np.eye(3, dtype=int)[y], candidates=["temperature"])
            plain = calibrate(scores, y, candidates=["temperature"])
            assert hot.classes_.tolist() == [0, 1, 2]
            np.testing.assert_array_equal(hot.transform(scores[:5]), plain.transform(scores[:5]))
    with subtests.test("labels that are independent stay so"):
        several = calibrate(rng.random((150, 3)), np.eye(3, dtype=int)[y])
        assert type(several).__name__ == "MultilabelCalibrator"
