"""Every rule of `calibrant.arrays`: what is accepted, what is refused, and the sentence that says so."""

import datetime as dt
import json
import re
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression

from calibrant.arrays import Rows, ScoreType, check_labels, check_rows, check_scores, sniff_kind
from calibrant.arrays.multiclass.rows import check_class_rows, check_class_scores
from calibrant.messages import CalibrantWarning, InputError

SCORES = [0.1, 0.7, 0.4, 0.9]
LABELS = [0, 1, 0, 1]
KINDS: tuple[ScoreType, ...] = ("probability", "logit", "real")


class ArrayOnly:
    """Like scikit-learn's own test object: an array protocol, and numpy functions refuse it."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"{func.__name__} must not be called on the caller's object")


class ToNumpyOnly:
    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def to_numpy(self) -> Any:
        return self.values


class Broken:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise RuntimeError("it lives on another device")


class Sparse:
    nnz = 1

    def toarray(self) -> Any:
        return np.zeros((1, 1))


def refused(match: str) -> Any:
    return pytest.raises(InputError, match=re.escape(match))


def warned(match: str) -> Any:
    return pytest.warns(CalibrantWarning, match=re.escape(match))


def assert_clean(rows: Rows, scores: Any = SCORES, labels: Any = LABELS) -> None:
    assert rows.scores.dtype == np.float64
    assert rows.scores.flags.c_contiguous
    assert rows.labels.dtype == np.uint8
    np.testing.assert_array_equal(rows.scores, scores)
    np.testing.assert_array_equal(rows.labels, labels)


# --- what a column may be ---


def test_columns_of_any_form(subtests) -> None:
    for name, wrap in {
        "list": list,
        "tuple": tuple,
        "array": np.array,
        "__array__": ArrayOnly,
        "to_numpy": ToNumpyOnly,
        "one column": lambda v: np.array(v)[:, None],
        "objects": lambda v: np.array(v, dtype=object),
    }.items():
        with subtests.test(name):
            rows = check_rows(
                wrap(SCORES), wrap(LABELS), wrap([0.5, 1.5, 1.0, 1.0]), groups=wrap(LABELS), time=wrap(LABELS)
            )
            assert_clean(rows)
            assert rows.weights is not None
            assert rows.groups is not None
            assert rows.time is not None
            np.testing.assert_array_equal(rows.weights, [0.5, 1.5, 1.0, 1.0])
            np.testing.assert_array_equal(rows.groups, LABELS)
            np.testing.assert_array_equal(rows.time, LABELS)
            assert rows.score_type == "probability"
            assert [note.code for note in rows.notes] == ["score-type-guessed"]


def test_numeric_dtypes_are_cast_exactly(subtests) -> None:
    for dtype in ["f2", "f4", "f8", ">f8", "g", "i1", "i2", "i4", "i8", "u1", "u8", "?"]:
        with subtests.test(dtype=dtype):
            scores = np.array([0, 1, 1, 0] if dtype[-2:] not in {"f2", "f4", "f8"} else SCORES).astype(dtype)
            rows = check_rows(scores, [1, 1, 0, 0])
            assert_clean(rows, scores, [1, 1, 0, 0])


def test_zero_one_labels_in_any_dtype(subtests) -> None:
    for dtype in ["f2", "f4", "f8", ">i4", "g", "i1", "i8", "u1", "u8", "?", "O"]:
        with subtests.test(dtype=dtype):
            labels, notes = check_labels(np.array(LABELS).astype(dtype))
            assert labels.dtype == np.uint8
            assert labels.tolist() == LABELS
            assert notes == ()


def test_strided_scores_become_contiguous(subtests) -> None:
    for scores in [np.arange(8.0)[::2] / 8, np.asfortranarray(np.eye(4))[0], range(2)]:
        with subtests.test(scores=scores):
            n = len(scores)
            rows = check_rows(scores, [1, 0, 1, 0][:n])
            assert_clean(rows, np.asarray(scores), [1, 0, 1, 0][:n])


def test_numbers_held_as_objects() -> None:
    mixed = [Decimal("0.5"), Fraction(1, 4), True, np.float32(0.125), np.bool_(False), 0]
    rows = check_rows(np.array(mixed, dtype=object), [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(rows.scores, [0.5, 0.25, 1.0, 0.125, 0.0, 0.0])


def test_what_no_argument_takes(subtests) -> None:
    for name in ["scores", "y", "sample_weight", "groups", "time"]:
        for value, problem in [
            (np.full((4, 2), 0.4), "pass one column, such as model"),
            (np.zeros((4, 3)), "has shape (4, 3): pass one column"),
            (np.zeros((1, 4)), "has shape (1, 4): pass one column"),
            (np.zeros((2, 1, 2)), "pass one column"),
            (0.5, "should be a 1d array, not a single value"),
            (np.float64(0.5), "should be a 1d array, not a single value"),
            (np.array(0.5), "should be a 1d array"),
            ("text", "should be a 1d array, not a single value"),
            ({"a": 1}, "should be a 1d array, not an object of type dict"),
            ({0.1, 0.2}, "should be a 1d array, not an object of type set"),
            ((v for v in SCORES), "should be a 1d array, not an object of type generator"),
            ([[0.1], [0.2, 0.3]], ": pass"),
            (np.ma.masked_less(SCORES, 0.2), "masked array"),
            (np.ma.masked_array(SCORES), "masked array"),
            (Sparse(), "sparse matrix"),
            (Broken(), "cannot be read as an array (it lives on another device)"),
            (np.array(SCORES) + 1j, ": pass"),
            (np.zeros(4, dtype=[("a", "f8")]), "holds values of type"),
            ([0.1, 0.2], "2 rows but scores has 4"),
        ]:
            with subtests.test(name=name, value=value, problem=problem):
                arguments: dict[str, Any] = {"scores": SCORES, "y": LABELS} | {name: value}
                if name == "scores":
                    problem = problem.replace("2 rows but scores has 4", "y has 4 rows but scores has 2")
                    problem = problem.replace("pass one column, such as model", "has rows that sum to")
                with refused(problem) as caught:
                    check_rows(**arguments)
                assert name in str(caught.value)
                assert "\n" not in str(caught.value)


def test_none_is_not_a_column() -> None:
    with refused("scores should be a 1d array, not None"):
        check_rows(None, LABELS)
    with refused("y should be a 1d array, not None"):
        check_rows(SCORES, None)


def test_what_is_not_a_number(subtests) -> None:
    for value, problem in [
        (["0.1", "0.2"], "holds text such as '0.2': convert it with astype(float)"),
        (np.array(["0.1", "0.2"]), "holds text such as '0.1': convert it with astype(float)"),
        (np.array([b"0.1", b"0.2"]), "holds text such as '0.1': convert it with astype(float)"),
        ([0.1, "0.2"], "holds text such as '0.2': convert it with astype(float)"),
        (["10%", "20 %"], "holds text such as '20 %': remove the % signs"),
        (["0,1", "0,2"], "holds text such as '0,2': it has a decimal comma"),
        (["no", "yes"], "holds text such as 'yes': pass probabilities, such as model.predict_proba"),
        (np.array([0.1, 1j]), "complex"),
        (np.array([0.1, 1j], dtype=object), "complex"),
        (np.array([1, 2], dtype="m8[D]"), "holds dates or time spans"),
        (np.array([1, 2], dtype="M8[D]"), "holds dates or time spans"),
        ([dt.timedelta(1), dt.timedelta(2)], "holds dates or time spans"),
        (np.array([object(), 1], dtype=object), "holds values of type object"),
        (np.array([[0.5], None], dtype=object), "holds values of type list"),
        (np.array([np.zeros(2), None], dtype=object), "holds values of type ndarray"),
        ([10**400, 1], "holds a number that float64 cannot hold"),
        (np.array([Decimal("sNaN"), 1], dtype=object), "holds a number that float64 cannot hold"),
        (np.array([], dtype="U1"), "holds values of type"),
    ]:
        with subtests.test(value=value, problem=problem):
            with refused(problem) as caught:
                check_rows(value, [0, 1])
            assert str(caught.value).startswith("scores ")
            with refused(problem):
                check_scores(value, "real")
            with pytest.raises(InputError, match="sample_weight "):
                check_rows([0.2, 0.8], [0, 1], value)


def test_predicted_classes_are_no_scores(subtests) -> None:
    for y, told in {
        (1, 2, 3, 1): "pass probabilities, such as model.predict_proba(X), with a column for each class",
        (1, 2, 2, 1): "pass probabilities, such as model.predict_proba(X)[:, 1]",
        (-1, 1, 1, -1): "pass probabilities, such as model.predict_proba(X)[:, 1]",
    }.items():
        with subtests.test(y=y), refused(f"scores holds labels of y: predicted classes, not probabilities: {told}"):
            check_rows(y[::-1], y)
    assert check_rows([-1, 1, 1, 1], [-1, 1, 1, -1], score_type="logit").score_type == "logit"
    with pytest.warns(CalibrantWarning, match="scores read as logits"):
        assert check_rows([-1.5, 1, 1, 1], [-1, 1, 1, -1]).score_type == "logit"
    with refused("look like percentages"):
        check_rows([10, 20, 30, 40], [1, 0, 1, 0])


def test_a_model_is_no_scores() -> None:
    for call in (
        lambda: check_rows(LogisticRegression(), LABELS),
        lambda: check_class_rows(LogisticRegression(), LABELS),
    ):
        with refused("CalibratedClassifier(model).fit(X, y)"):
            call()


def test_whole_numbers_that_float64_cannot_hold() -> None:
    assert check_rows([0, 2**53], [0, 1], score_type="real").scores[1] == 2**53
    for scores in (np.array([0, 2**53 + 1]), np.array([-(2**53) - 1, 0]), np.array([0, 2**64 - 1], dtype="u8")):
        with refused("scores holds integers beyond 2**53"):
            check_rows(scores, [0, 1], score_type="real")


# --- sizes ---


def test_no_rows(subtests) -> None:
    for empty in [[], (), np.array([]), np.zeros((0, 1)), np.array([], dtype=object)]:
        with subtests.test(empty=empty):
            with refused("scores is empty"):
                check_rows(empty, empty)
            with refused("scores is empty"):
                check_rows(empty, [1])
            with refused("y has 0 rows but scores has 1"):
                check_rows([0.5], empty)
            with refused("y is empty"):
                check_labels(empty)
            with refused("scores is empty"):
                sniff_kind(np.array([]))
            for kind in KINDS:
                assert check_scores(empty, kind).shape == (0,)


def test_one_row_and_two_rows() -> None:
    with warned("y has only one class (1 of 1 rows are positive)"):
        assert_clean(check_rows([0.5], [1]), [0.5], [1])
    assert_clean(check_rows([0.0, 1.0], [0, 1]), [0.0, 1.0], [0, 1])  # two rows are too few to cry leak


def test_lengths_are_named() -> None:
    for name in ("sample_weight", "groups", "time"):
        arguments: dict[str, Any] = {name: [1, 2, 3]}
        with refused(f"{name} has 3 rows but scores has 4"):
            check_rows(SCORES, LABELS, **arguments)


# --- scores ---


def test_missing_scores_are_refused_at_fit(subtests) -> None:
    for missing in [np.nan, None, Decimal("NaN")]:
        with (
            subtests.test(missing=missing),
            refused("scores has 2 missing values (NaN), the first at row 1 counted from 0"),
        ):
            check_rows([0.1, missing, 0.3, missing], LABELS)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_scores_are_refused_at_fit(value: float) -> None:
    for kind in (*KINDS, None):
        with refused("scores has 1 infinity (inf), the first at row 3 counted from 0"):
            check_rows([0.1, 0.2, 0.3, value], LABELS, score_type=kind)


def test_the_first_bad_row_is_found_in_a_long_column() -> None:
    scores = np.full(300_000, 0.5)
    labels = np.arange(300_000) % 2
    scores[[200_001, 250_000]] = np.nan
    with refused("scores has 2 missing values (NaN), the first at row 200001"):
        check_rows(scores, labels)
    weights = np.ones(300_000)
    weights[200_001] = 1.5
    with refused("sample_weight is 1.5 at row 200001"):
        check_rows(labels * 0.5, labels, weights, weight_type="frequency")


def test_negative_zero_becomes_zero(subtests) -> None:
    for dtype in ["f2", "f4", "f8"]:
        with subtests.test(dtype=dtype):
            scores = np.array([-0.0, 0.5, 0.0, 1.0], dtype=dtype)
            rows = check_rows(scores, LABELS)
            assert not np.signbit(rows.scores).any()
            assert np.signbit(scores[0])
            assert not np.signbit(check_scores(scores, "probability")).any()
            below = np.array([-0.0, -0.5, 0.0, 1.0], dtype=dtype)
            assert np.signbit(check_rows(below, LABELS, score_type="real").scores).tolist() == [
                False,
                True,
                False,
                False,
            ]
            assert np.signbit(check_scores([np.nan, -0.0], "real")[1]) == np.False_


@pytest.mark.parametrize("kind", ["logit", "real"])
def test_any_finite_number_is_a_logit_or_a_real(kind: ScoreType) -> None:
    rows = check_rows([-1e300, 50.0, 0.2, 1e300], LABELS, score_type=kind)
    assert rows.score_type == kind
    assert rows.notes == ()


def test_declared_probabilities_lie_between_zero_and_one(subtests) -> None:
    for scores, words in [
        ([0.1, 20.0, 99.0, 1.0], ["2 of 4 rows", "min 0.1, max 99", "divide by 100"]),
        ([-0.5, 0.2, 1.5, 0.3], ["2 of 4 rows", "min -0.5, max 1.5", "score_type='logit' or score_type='real'"]),
        ([0.1, 0.2, 700.0, 0.3], ["1 of 4 rows", "max 700", "score_type='logit' or score_type='real'"]),
        ([0.1, 0.2, 1.00001, 0.3], ["1 of 4 rows", "max 1.00001", "repair or drop"]),
    ]:
        with subtests.test(scores=scores):
            problem = f"scores must lie in [0, 1] to be probabilities, but {words[0]}"
            with refused(problem) as at_fit:
                check_rows(scores, LABELS, score_type="probability")
            with refused(problem) as at_transform:
                check_scores(scores, "probability")
            assert all(word in str(caught.value) for caught in (at_fit, at_transform) for word in words)


def test_rounding_beyond_the_range_is_clipped_when_a_map_is_applied() -> None:
    for dtype in (np.float32, np.float64):
        found = check_scores(np.array([-1e-7, 0.25, np.nan, 1.0000001], dtype=dtype), "probability")
        np.testing.assert_array_equal(found, np.array([0.0, 0.25, np.nan, 1.0], dtype=dtype))
        assert found.dtype == dtype
    matrix, _ = check_class_scores([[-1e-7, 1.0000001], [0.25, 0.75]], ("a", "b"), "probability")
    assert matrix.tolist() == [[0.0, 1.0], [0.25, 0.75]]
    for wrong in ([-1e-5, 1.0], [0.0, 1.00001]):
        with pytest.raises(InputError):
            check_class_scores([wrong], ("a", "b"), "probability")


def test_the_guess_is_made_reported_and_can_be_silenced(subtests) -> None:
    for scores, kind in [
        ([0.0, 1.0], "probability"),
        ([0.3, 0.3], "probability"),
        ([-0.5, 0.5], "logit"),
        ([-40.0, 40.0], "logit"),
        ([-1.0, -2.0], "logit"),
        ([-1e-5, 1e-9], "logit"),
        ([-1e-9, 1e-9], "probability"),
        ([-40.1, 1.0], "real"),
        ([-1.0, 41.0], "real"),
        ([300.0, 850.0], "real"),
        ([0.0, 100.5], "real"),
    ]:
        with subtests.test(scores=scores, kind=kind):
            guess, note = sniff_kind(np.array(scores))
            assert guess == kind
            assert note.as_dict() == {
                "code": "score-type-guessed",
                "text": str(note),
                "score_type": kind,
                "low": min(scores),
                "high": max(scores),
            }
            if kind == "probability":
                rows = check_rows(scores, [0, 1])
            else:
                with pytest.warns(CalibrantWarning) as caught:
                    rows = check_rows(scores, [0, 1])
                assert [warning.message.note for warning in caught] == [note]
            assert rows.score_type == kind
            assert rows.notes == rows.kind_notes == (note,)
            assert check_rows(scores, [0, 1], score_type=kind).notes == ()


def test_the_guess_in_words(subtests) -> None:
    for scores, sentence in [
        ([0.2, 0.9], "scores read as probabilities (all in [0, 1])"),
        (
            [-2.0, 3.5],
            "scores read as logits (from -2 to 3.5): pass score_type='logit' to confirm, or score_type='real' if they "
            "are not log-odds",
        ),
        (
            [300.0, 850.0],
            "scores read as real numbers (from 300 to 850): pass score_type='real' to confirm, or score_type='logit' "
            "if they are log-odds",
        ),
    ]:
        with subtests.test(scores=scores, sentence=sentence):
            assert str(sniff_kind(np.array(scores))[1]) == sentence


def test_percentages_are_refused(subtests) -> None:
    for scores in [[0.0, 100.0], [5.0, 60.0], [0.2, 2.1]]:
        with subtests.test(scores=scores):
            with refused("look like percentages"):
                check_rows(scores, [0, 1])
            with refused("): divide by 100, or pass score_type='real' if they are not"):
                sniff_kind(np.array(scores))
            assert check_rows(scores, [0, 1], score_type="real").score_type == "real"


def test_rounding_is_clipped(subtests) -> None:
    for scores in [[0.5, 1 + 1e-12], [-1e-12, 0.5], [1 + 1e-7, 1 + 1e-7], [-1e-6, 1 + 1e-6]]:
        with subtests.test(scores=scores):
            for given in ({}, {"score_type": "probability"}):
                assert check_rows(scores, [0, 1], **given).scores.tolist() == np.clip(scores, 0, 1).tolist()
            assert check_scores(scores, "probability").tolist() == np.clip(scores, 0, 1).tolist()


def test_sniffing_needs_finite_scores() -> None:
    with refused("missing value (NaN)"):
        sniff_kind(np.array([0.1, np.nan]))
    with refused("infinity"):
        sniff_kind(np.array([0.1, np.inf]))


@pytest.mark.parametrize("option", ["score_type", "weight_type"])
def test_unknown_options(option: str) -> None:
    arguments: dict[str, Any] = {option: "percent"}
    with refused(f"{option} is 'percent', which is not an option: pass one of '"):
        check_rows(SCORES, LABELS, **arguments)
    with refused("score_type is None"):
        check_scores(SCORES, None)  # type: ignore[arg-type]


# --- check_scores ---


def test_float32_stays_float32(subtests) -> None:
    for dtype, out in [
        ("f2", "f8"),
        ("f4", "f4"),
        ("f8", "f8"),
        (">f4", "f4"),
        ("i8", "f8"),
        ("u1", "f8"),
        ("?", "f8"),
        ("O", "f8"),
    ]:
        with subtests.test(dtype=dtype, out=out):
            given_scores = np.array([0, 1, 1]).astype(dtype)
            checked = check_scores(given_scores, "probability")
            assert checked.dtype == np.dtype(out)
            np.testing.assert_array_equal(checked, [0, 1, 1])


def test_a_missing_score_stays_missing(subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            np.testing.assert_array_equal(check_scores([0.5, np.nan], kind), [0.5, np.nan])
            np.testing.assert_array_equal(check_scores([0.5, None], kind), [0.5, np.nan])
            assert np.isnan(check_scores([np.nan, np.nan], kind)).all()
            assert np.isnan(check_scores([None, None], kind)).all()
            assert np.isnan(check_scores(np.full(2, np.nan, dtype="f4"), kind)).all()


def test_infinite_scores_are_refused_at_transform(subtests) -> None:
    for kind in KINDS:
        for scores in [[0.5, np.inf], [np.nan, -np.inf], np.array([np.inf, np.nan], dtype="f4")]:
            with subtests.test(kind=kind, scores=scores), refused("p has 1 infinity (inf)"):
                check_scores(scores, kind, name="p")


def test_missing_scores_do_not_hide_bad_ones() -> None:
    with refused("p must lie in [0, 1] to be probabilities, but 1 of 3 rows do not (min 0.5, max 1.5)"):
        check_scores([np.nan, 1.5, 0.5], "probability", name="p")


def test_masked_scores_are_refused_at_transform() -> None:
    with refused("scores is a masked array"):
        check_scores(np.ma.masked_array(SCORES), "real")


# --- labels ---


def test_two_labels(subtests) -> None:
    for y, positive, labels, notes in [
        ([False, True], None, [0, 1], ()),
        ([0.0, 1.0], None, [0, 1], ()),
        ([-1, 1], None, [0, 1], ("labels -1/1 read as 0/1",)),
        ([-1.0, 1.0], None, [0, 1], ("labels -1/1 read as 0/1",)),
        ([-1, -1], None, [0, 0], ("labels -1/1 read as 0/1",)),
        ([1, 1], None, [1, 1], ()),
        ([0, 0], None, [0, 0], ()),
        ([Decimal(0), Decimal(1)], None, [0, 1], ()),
        ([0, 1], 1, [0, 1], ()),
        ([0, 1], 0, [1, 0], ("labels 1/0 read as 0/1",)),
        ([-1, 1], -1, [1, 0], ("labels 1/-1 read as 0/1",)),
        ([False, True], True, [0, 1], ()),
        ([1, 2], 2, [0, 1], ("labels 1/2 read as 0/1",)),
        ([1.0, 2.0], 2, [0, 1], ("labels 1/2 read as 0/1",)),
        (["no", "yes"], "yes", [0, 1], ("labels 'no'/'yes' read as 0/1",)),
        (np.array(["no", "yes"]), "no", [1, 0], ("labels 'yes'/'no' read as 0/1",)),
        (np.array([b"n", b"y"]), b"y", [0, 1], ("labels 'n'/'y' read as 0/1",)),
        (["no", "no"], "no", [1, 1], ("labels 'no' read as 1",)),
        (["no", "no"], "yes", [0, 0], ("labels 'no'/'yes' read as 0/1",)),
        ([3, 3], "yes", [0, 0], ("labels 3/'yes' read as 0/1",)),
        (["bad", 0], "bad", [1, 0], ("labels 0/'bad' read as 0/1",)),
        (["bad", 0], 0, [0, 1], ("labels 'bad'/0 read as 0/1",)),
        (np.array([0.1, 0.7], dtype="f4"), np.float32(0.7), [0, 1], ...),
    ]:
        with subtests.test(y=y, positive=positive, labels=labels, notes=notes):
            found, given = check_labels(y, positive)
            assert found.dtype == np.uint8
            assert found.tolist() == labels
            if notes is not ...:  # a float32 spelt out is of no interest
                assert tuple(map(str, given)) == notes
                assert {note.code for note in given} <= {"labels-minus-one", "labels-read"}
                assert json.dumps([note.as_dict() for note in given])


def test_label_notes_travel_with_the_rows() -> None:
    (note,) = check_rows([0.2, 0.3], ["no", "yes"], positive="yes").other_notes
    assert (note.code, note.values) == ("labels-read", {"negative": "no", "positive": "yes"})
    assert [note.code for note in check_rows([0.2, 0.3], [-1, 1]).other_notes] == ["labels-minus-one"]


def test_labels_that_are_not_clear(subtests) -> None:
    for y, positive, problem in [
        ([1, 2], None, "y holds the labels 1 and 2: pass positive=2 or positive=1, whichever counts as the event"),
        (["no", "yes"], None, "y holds the labels 'no' and 'yes': pass positive='yes'"),
        (["0", "1"], None, "y holds the labels '0' and '1': pass positive='1'"),
        ([-1, 0], None, "y holds the labels -1 and 0: pass positive=0"),
        (["a", 3], None, "pass positive="),
        ([2, 2], None, "y holds only the label 2: pass positive with the label that counts as the event"),
        ([0, 1, 2], None, "two classes are needed"),
        ([-1, 0, 1], None, "two classes are needed"),
        ([0, 1, 2], 2, "two classes are needed"),
        ([1, 3, 4], None, "pass y == c for one class c against the rest, or y >= c for a grade"),
        (["a", "b", "c"], "a", "y has more than two distinct values ('a', 'b', 'c', ...)"),
        (np.arange(100), None, "y has more than two distinct values (0, 1, 2, ...)"),
        (np.array(["a", "b", "c"]), None, "two classes are needed"),
        (["no", "yes"], "maybe", "positive='maybe' is not among the labels of y, which are 'no' and 'yes'"),
        ([0, 1], 2, "positive=2 is not among the labels of y, which are 0 and 1"),
        (["0", "1"], 1, "positive=1 is not among the labels of y, which are '0' and '1'"),
        ([0.0, np.inf, np.inf], None, "y has 2 infinities (inf), the first at row 1"),
        (np.array([1, 2], dtype="m8[D]"), None, "y holds values of type timedelta64[D]"),
        (np.array([{"a": 1}, {"a": 2}], dtype=object), None, "y holds values that cannot be compared"),
    ]:
        with subtests.test(y=y, positive=positive, problem=problem):
            with refused(problem):
                check_labels(y, positive)
            with refused(problem):
                check_rows(np.linspace(0.2, 0.7, len(y)), y, positive=positive)


def test_missing_labels(subtests) -> None:
    for missing in [np.nan, None, float("nan"), Decimal("NaN"), np.datetime64("NaT")]:
        for values in [(0, 1), (0.0, 1.0), ("no", "yes"), (False, True)]:
            with subtests.test(missing=missing, values=values):
                y = np.array([*values, missing, values[0], missing], dtype=object)
                sentence = (
                    "y has 2 missing values (NaN or null), the first at row 2 counted from 0: "
                    "drop these rows; a label that has not arrived is not a negative"
                )
                with refused(sentence):
                    check_labels(y.tolist(), positive=values[1])
                with refused(sentence):
                    check_rows(np.linspace(0, 1, 5), y)


def test_the_argument_name_in_label_errors() -> None:
    with refused("bad holds the labels 1 and 2"):
        check_labels([1, 2], name="bad")


@pytest.mark.parametrize("value", [0, 1])
def test_one_class_warns(value: int) -> None:
    with warned(f"y has only one class ({value * 812} of 812 rows are positive)"):
        rows = check_rows(np.linspace(0, 1, 812), np.full(812, value))
    assert (rows.labels == value).all()


# --- mistakes that look like data ---


def test_swapped_arguments(subtests) -> None:
    for y in [SCORES, np.array(SCORES, dtype="f4"), np.array(SCORES, dtype=object)]:
        for scores in [LABELS, [False, True, False, True], [1, 1, 1, 1]]:
            with subtests.test(y=y, scores=scores), refused("scores and y look swapped"):
                check_rows(scores, y)


def test_too_many_labels_are_not_always_swapped(subtests) -> None:
    for scores, y in [(LABELS, [0, 1, 2, 3]), (LABELS, [0.2, 0.3, 4.0, 0.1]), (SCORES, SCORES)]:
        with subtests.test(scores=scores, y=y), refused("two classes are needed"):
            check_rows(scores, y)


@pytest.mark.parametrize("n", [3, 200])
def test_scores_that_equal_the_labels(n: int) -> None:
    y = (np.arange(n) % 3 == 0).astype(int)
    with warned("scores equal the labels on every row: a leak, or the wrong column?"):
        check_rows(y.astype(float), y)
    with warned("scores equal 1 - labels on every row"):
        check_rows(1.0 - y, y)
    with warned("scores equal the labels, written as -1/1, on every row"):
        check_rows(2.0 * y - 1, 2 * y - 1, score_type="real")


def test_one_different_row_is_no_leak() -> None:
    y = (np.arange(200) % 3 == 0).astype(int)
    for scores in (y.astype(float), 1.0 - y):
        scores[-1] = 0.5
        check_rows(scores, y)


def test_the_warning_points_at_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_rows([-1.0, 1.0], [0, 1])
    assert [w.filename for w in caught] == [__file__]


# --- weights ---


def test_no_weights_are_counts_of_one() -> None:
    for weights in ("importance", "frequency"):
        rows = check_rows(SCORES, LABELS, weight_type=weights)
        assert rows.weights is None
        assert rows.counts


def test_counts(subtests) -> None:
    for dtype in ["f4", "f8", "i4", "i8", "u1", "u8", "O"]:
        with subtests.test(dtype=dtype):
            rows = check_rows(SCORES, LABELS, np.array([1, 2, 3, 4]).astype(dtype), weight_type="frequency")
            assert rows.weights is not None
            assert rows.weights.dtype == np.int64
            assert rows.weights.tolist() == [1, 2, 3, 4]
            assert rows.counts
            assert [note.code for note in rows.notes] == ["score-type-guessed"]


def test_the_largest_count() -> None:
    rows = check_rows(SCORES, LABELS, [2**53 - 1, 1, 1, 1], weight_type="frequency")
    assert rows.weights is not None
    assert rows.weights[0] == 2**53 - 1


def test_whole_importance_weights_are_noted() -> None:
    rows = check_rows(SCORES, LABELS, [1, 2, 3, 4])
    assert rows.weights is not None
    assert rows.weights.dtype == np.float64
    assert not rows.counts
    (note,) = rows.other_notes
    assert note.code == "integer-weights"
    assert (
        str(note)
        == "weights are integers; if they are repetition counts, pass weight_type='frequency' to keep the guarantees"
    )
    assert len(check_rows(SCORES, LABELS, [1, 2, 3, 4.5]).notes) == 1


def test_weights_that_are_refused(subtests) -> None:
    for w, meaning, problem in [
        ([1, -1, 1, -2], "importance", "sample_weight is negative, first at row 1"),
        ([1, -1, 1, -2], "frequency", "sample_weight is negative, first at row 1"),
        ([1, np.nan, 1, 1], "importance", "sample_weight has 1 missing value (NaN), the first at row 1"),
        ([1, None, 1, 1], "frequency", "sample_weight has 1 missing value (NaN), the first at row 1"),
        ([1, 1, np.inf, 1], "importance", "sample_weight has 1 infinity (inf), the first at row 2"),
        ([0, 0, 0, 0], "importance", "sample_weight is zero on every row"),
        ([0, 0, 0, 0], "frequency", "sample_weight is zero on every row"),
        (
            [1, 1.5, 2.5, 1],
            "frequency",
            "row 1 counted from 0, but weight_type='frequency' takes integers below 2**53: repair it, or",
        ),
        ([1, 1.5, 2.5, 1], "frequency", "sample_weight is 1.5 at row 1"),
        ([1, 1, 1, 2**53], "frequency", "sample_weight is 9007199254740992 at row 3"),
        ([1e308, 1e308, 1, 1], "importance", "sample_weight sums to infinity"),
    ]:
        with subtests.test(w=w, meaning=meaning, problem=problem), refused(problem):
            check_rows(SCORES, LABELS, w, weight_type=meaning)


def test_counts_that_overflow_int64() -> None:
    n = 1100
    with refused("beyond the range of int64"):
        check_rows(np.linspace(0, 1, n), np.arange(n) % 2, np.full(n, 2**53 - 1), weight_type="frequency")


@pytest.mark.parametrize("meaning", ["importance", "frequency"])
def test_a_row_of_weight_zero_is_no_row(meaning: Any) -> None:
    rows = check_rows(
        [*SCORES, -7.0],
        [*LABELS, 5],
        [2, 1, 0, 3, 0],
        weight_type=meaning,
        groups=list("abcde"),
        time=[1, 2, 3, 4, 5],
    )
    assert_clean(rows, [0.1, 0.7, 0.9], [0, 1, 1])
    assert rows.weights is not None
    assert rows.groups is not None
    assert rows.time is not None
    assert rows.weights.tolist() == [2, 1, 3]
    assert rows.groups.tolist() == ["a", "b", "d"]
    assert rows.time.tolist() == [1, 2, 4]
    assert rows.score_type == "probability"
    note = rows.other_notes[-1]
    assert (note.code, note.values) == ("rows-without-weight", {"dropped": 2, "n": 5})
    assert str(note) == "2 of 5 rows have weight zero and were dropped"


def test_missing_values_are_found_before_rows_are_dropped() -> None:
    with refused("scores has 1 missing value"):
        check_rows([np.nan, *SCORES], [1, *LABELS], [0, 1, 1, 1, 1])
    with refused("y has 1 missing value"):
        check_rows([0.5, *SCORES], [None, *LABELS], [0, 1, 1, 1, 1])


def test_classes_are_judged_after_rows_are_dropped() -> None:
    with warned("y has only one class (0 of 2 rows are positive)"):
        check_rows(SCORES, LABELS, [1.5, 0, 1, 0])


# --- groups and time ---


def test_groups_are_kept_as_they_are(subtests) -> None:
    for values in [
        list("abab"),
        [1, 2, 1, 2],
        [0.5, 1.5, 0.5, 1.5],
        [True, False] * 2,
        ["a", 1, "a", 1],
        np.array(list("abab")),
    ]:
        with subtests.test(values=values):
            rows = check_rows(SCORES, LABELS, groups=values)
            assert rows.groups is not None
            assert rows.groups.tolist() == list(values)


def test_groups_and_time_may_not_be_missing(subtests) -> None:
    for name in ["groups", "time"]:
        for values in [
            ["a", None, "b", "b"],
            ["a", float("nan"), "b", "b"],
            [1.0, np.nan, 2.0, 2.0],
            [1, None, 2, 2],
            np.array(["2024-01-01", "NaT", "2024-01-02", "2024-01-02"], dtype="M8[D]"),
            np.array([1, "NaT", 2, 3], dtype="m8[D]"),
        ]:
            with subtests.test(name=name, values=values):
                arguments: dict[str, Any] = {name: values}
                with refused(f"{name} has 1 missing value (NaN or null), the first at row 1"):
                    check_rows(SCORES, LABELS, **arguments)


NAIVE = [dt.datetime(2024, 1, day) for day in (1, 3, 2, 4)]


def test_time_can_be_put_in_order(subtests) -> None:
    for values in [
        [1, 3, 2, 4],
        [0.1, 0.3, 0.2, 0.4],
        NAIVE,
        [d.date() for d in NAIVE],
        [d.replace(tzinfo=dt.UTC) for d in NAIVE],
        np.array(NAIVE, dtype="M8[s]"),
        np.array([1, 3, 2, 4], dtype="m8[D]"),
        ["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-04"],
        np.array(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-04"]),
        ["2024-01", "2024-03", "2024-02", "2024-04"],
        ["2021", "2023", "2022", "2024"],
        ["2024-01-01T23:00-05:00", "2024-01-02T06:00:00Z", "2024-01-02 05:30:00+00:00", "2024-01-02T12:00+01:00"],
    ]:
        with subtests.test(values=values):
            rows = check_rows(SCORES, LABELS, time=values)
            assert rows.time is not None
            assert np.argsort(rows.time).tolist() == [0, 2, 1, 3]
            is_text = isinstance(values[0], str)
            assert (rows.time.dtype == "M8[us]") is is_text
            assert [note.code for note in rows.other_notes] == ["time-from-text"] * is_text
            assert [str(note) for note in rows.other_notes] == ["time read as UTC dates from ISO 8601 text"] * is_text


def test_time_that_has_no_order(subtests) -> None:
    for values, problem in [
        (["03/01/2024", "04/01/2024"] * 2, "time holds text that is not an ISO 8601 date, such as '0"),
        (["1", "2"] * 2, "not an ISO 8601 date"),
        (["2024-01-01", "2024-01-01T00:00Z"] * 2, "time has a time zone in some rows only"),
        ([1, "2024-01-01"] * 2, "time holds values that cannot be sorted"),
        ([NAIVE[0], NAIVE[0].replace(tzinfo=dt.UTC)] * 2, "time holds values that cannot be sorted"),
        (np.array([b"2024", b"2025"] * 2), "time holds values that cannot be sorted"),
        ([object(), object()] * 2, "time holds values that cannot be sorted"),
        (np.array([{}, {}, {}, {}], dtype=object), "time holds values that cannot be compared"),
    ]:
        with subtests.test(values=values, problem=problem), refused(problem):
            check_rows(SCORES, LABELS, time=values)


# --- dataframe libraries ---


def test_pandas_scores(subtests) -> None:
    for dtype in ["float32", "float64", "Float32", "Float64", "category", "object", "double[pyarrow]"]:
        with subtests.test(dtype=dtype):
            pd = pytest.importorskip("pandas")
            if "pyarrow" in dtype:
                pytest.importorskip("pyarrow")
            index = [7, 8, 9, 10]
            scores = pd.Series([0.25, 0.75, 0.5, 1.0], index=index).astype(dtype)
            rows = check_rows(
                scores, pd.Series(LABELS, index=index), pd.Series([1.5, 1, 1, 1]), groups=pd.Series(list("abab"))
            )
            assert_clean(rows, [0.25, 0.75, 0.5, 1.0])
            assert check_scores(scores, "probability").dtype == ("f4" if "32" in dtype else "f8")


def test_pandas_missing_scores(subtests) -> None:
    for dtype in ["Float32", "Float64", "Int64", "boolean", "object", "double[pyarrow]"]:
        with subtests.test(dtype=dtype):
            pd = pytest.importorskip("pandas")
            if "pyarrow" in dtype:
                pytest.importorskip("pyarrow")
            scores = pd.Series([1, None, 0, 1], dtype=dtype)
            with refused("scores has 1 missing value (NaN), the first at row 1"):
                check_rows(scores, LABELS)
            checked = check_scores(scores, "probability")
            np.testing.assert_array_equal(checked, [1, np.nan, 0, 1])
            assert checked.dtype == ("f4" if dtype == "Float32" else "f8")


def test_pandas_labels(subtests) -> None:
    for dtype in ["int8", "bool", "Int64", "boolean", "Float64", "category", "object"]:
        with subtests.test(dtype=dtype):
            pd = pytest.importorskip("pandas")
            assert check_labels(pd.Series(LABELS).astype(dtype))[0].tolist() == LABELS


def test_pandas_text_labels(subtests) -> None:
    for dtype in ["string", "category", "object"]:
        with subtests.test(dtype=dtype):
            pd = pytest.importorskip("pandas")
            y = pd.Series(["no", "yes", "no", "yes"], dtype=dtype)
            assert check_labels(y, "yes")[0].tolist() == LABELS
            with refused("y holds the labels 'no' and 'yes': pass positive='yes'"):
                check_labels(y)
            with refused("y has 1 missing value"):
                check_labels(pd.Series(["no", None, "yes"], dtype=dtype), "yes")


def test_pandas_missing_labels(subtests) -> None:
    for dtype in ["Int64", "boolean", "Float64", "object"]:
        with subtests.test(dtype=dtype):
            pd = pytest.importorskip("pandas")
            with refused("y has 1 missing value (NaN or null), the first at row 1"):
                check_labels(pd.Series([1, None, 0], dtype=dtype))


def test_pandas_text_scores() -> None:
    pd = pytest.importorskip("pandas")
    with refused("convert it with astype(float)"):
        check_rows(pd.Series(["0.1", "0.2"], dtype="string"), [0, 1])


def test_pandas_groups_and_time() -> None:
    pd = pytest.importorskip("pandas")
    days = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-04"]))
    for time in (days, days.dt.tz_localize("Europe/Vienna"), pd.DatetimeIndex(days), days.dt.to_period("D")):
        rows = check_rows(SCORES, LABELS, groups=pd.Series(list("abab"), dtype="category"), time=time)
        assert rows.time is not None
        assert np.argsort(rows.time).tolist() == [0, 2, 1, 3]
    zone = check_rows(SCORES, LABELS, time=days.dt.tz_localize("Europe/Vienna")).time
    assert zone is not None
    assert zone[0] == np.datetime64("2023-12-31T23:00")
    for missing in (pd.Series(["a", None, "b", "b"], dtype="string"), pd.Series([1, None, 2, 2], dtype="Int64")):
        with refused("groups has 1 missing value"):
            check_rows(SCORES, LABELS, groups=missing)
    for late in (days.where(days.index != 1), days.dt.tz_localize("UTC").where(days.index != 1)):
        with refused("time has 1 missing value (NaN or null), the first at row 1"):
            check_rows(SCORES, LABELS, time=late)


def test_large_identifiers_keep_their_digits() -> None:
    pd = pytest.importorskip("pandas")
    ids = [2**60 + k for k in range(4)]
    rows = check_rows(SCORES, LABELS, groups=pd.Series(ids, dtype="Int64"))
    assert rows.groups is not None
    assert rows.groups.tolist() == ids


def frames(scores: list[Any], columns: int) -> list[Any]:
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    data = dict.fromkeys("abc"[:columns], scores)
    return [pd.DataFrame(data), pl.DataFrame(data), pa.table(data)]


def test_a_frame_of_one_column_is_a_column() -> None:
    for frame in frames(SCORES, 1):
        assert_clean(check_rows(frame, LABELS))
    for frame in frames([0.1, None, 0.2, 0.3], 1):
        with refused("scores has 1 missing value"):
            check_rows(frame, LABELS)
    for frame in frames(SCORES, 2):
        with refused("scores has rows that sum to between 0.2 and 1.8"):
            check_rows(frame, LABELS)
    for frame in frames(SCORES, 3):
        with refused("scores has shape (4, 3): pass one column"):
            check_rows(frame, LABELS)


def test_a_lazy_frame_is_not_a_column() -> None:
    pl = pytest.importorskip("polars")
    with refused("scores should be a 1d array, not an object of type LazyFrame"):
        check_rows(pl.DataFrame({"a": SCORES}).lazy(), LABELS)


def series(library: str) -> Callable[[list[Any]], Any]:
    module = pytest.importorskip("pyarrow" if library == "chunked" else library)
    if library == "polars":
        return lambda values: module.Series("column", values)
    if library == "pyarrow":
        return lambda values: module.array(values)
    return lambda values: module.chunked_array([module.array(values[:1]), module.array(values[1:])])


def test_polars_and_arrow_columns(subtests) -> None:
    for library in ["polars", "pyarrow", "chunked"]:
        with subtests.test(library=library):
            column = series(library)
            for labels in (LABELS, [bool(v) for v in LABELS], [float(v) for v in LABELS]):
                rows = check_rows(
                    column(SCORES),
                    column(labels),
                    column([1.5, 1.0, 1.0, 1.0]),
                    groups=column(list("abab")),
                    time=column(NAIVE),
                )
                assert_clean(rows)
                assert rows.groups is not None
                assert rows.time is not None
                assert rows.groups.tolist() == list("abab")
                assert rows.time.dtype.kind == "M"
            assert check_labels(column(["no", "yes"]), "yes")[0].tolist() == [0, 1]
            assert check_scores(column(SCORES), "probability").tolist() == SCORES
            assert check_scores(column([Decimal("0.50"), Decimal("0.25")]), "probability").tolist() == [0.5, 0.25]


def test_polars_and_arrow_nulls(subtests) -> None:
    for library in ["polars", "pyarrow", "chunked"]:
        with subtests.test(library=library):
            column = series(library)
            for scores in (
                [0.1, None, 0.3, 0.4],
                [1, None, 0, 1],
                [True, None, False, True],
                [Decimal("0.1"), None] * 2,
            ):
                with refused(", the first at row 1"):
                    check_rows(column(scores), LABELS)
                assert np.isnan(check_scores(column(scores), "probability")[1])
            for labels in ([1, None, 0], [True, None, False], [1.0, None, 0.0], ["no", None, "yes"]):
                with refused("y has 1 missing value (NaN or null), the first at row 1"):
                    check_labels(column(labels))
            with refused("sample_weight has 1 missing value"):
                check_rows(SCORES, LABELS, column([1, None, 1, 1]))
            for groups in (["a", None, "b", "b"], [1, None, 2, 2], [NAIVE[0], None, NAIVE[0], NAIVE[0]]):
                with refused("groups has 1 missing value"):
                    check_rows(SCORES, LABELS, groups=column(groups))


def test_encoded_text() -> None:
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    text = ["no", "yes", "no"]
    for y in (
        pl.Series(text, dtype=pl.Categorical),
        pl.Series(text, dtype=pl.Enum(["no", "yes"])),
        pa.array(text).dictionary_encode(),
        pa.array(text, type=pa.large_string()),
    ):
        assert check_labels(y, "yes")[0].tolist() == [0, 1, 0]


@pytest.mark.since("numpy", "2.0")
def test_numpy_variable_width_text() -> None:
    dtype = np.dtypes.StringDType(na_object=None)
    assert check_labels(np.array(["no", "yes"], dtype=dtype), "yes")[0].tolist() == [0, 1]
    with refused("y has 1 missing value"):
        check_labels(np.array(["no", None, "yes"], dtype=dtype), "yes")
    with refused("convert it with astype(float)"):
        check_scores(np.array(["0.1"], dtype=dtype), "real")


def test_scipy_sparse() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for matrix in (sparse.csr_matrix([[0.1], [0.2]]), sparse.coo_array([[0.1], [0.2]])):
        with refused("scores is a sparse matrix"):
            check_rows(matrix, [0, 1])


# --- the caller's arrays ---


def test_clean_arrays_are_not_copied() -> None:
    scores, weights, groups = np.array(SCORES), np.array([0.5, 1, 1, 1]), np.array([1, 2, 3, 4])
    rows = check_rows(scores, LABELS, weights, groups=groups, time=groups)
    assert rows.weights is not None
    assert np.shares_memory(rows.scores, scores)
    assert np.shares_memory(rows.weights, weights)
    assert rows.groups is groups
    assert rows.time is groups
    single = scores.astype(np.float32)
    assert np.shares_memory(check_scores(single, "real"), single)


def test_the_callers_arrays_are_never_written_to() -> None:
    arrays = [
        np.array([-0.0, 0.5, 0.2, 0.9]),
        np.array([-1, 1, -1, 1]),
        np.array([1.0, 0.0, 2.0, 3.0]),
        np.array(list("abab")),
        np.array(["2024-01-01"] * 4),
    ]
    before = [a.tobytes() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    scores, y, weights, groups, time = arrays
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        check_rows(scores, y, weights, groups=groups, time=time)
        check_scores(scores, "probability")
    assert [a.tobytes() for a in arrays] == before


def test_scores_beyond_arithmetic_are_refused(subtests) -> None:
    for kind in ["logit", "real", None]:
        with subtests.test(kind=kind), pytest.raises(InputError, match="rescale"):
            check_rows([-1e308, 1e308], [0, 1], score_type=kind)


def test_rows_are_frozen() -> None:
    rows = check_rows(SCORES, LABELS)
    with pytest.raises(AttributeError):
        rows.score_type = "real"  # type: ignore[misc]
    assert rows != check_rows(SCORES, LABELS)


probabilities = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 0.5, 1.0, 5e-324])


@given(data=st.data(), n=st.integers(1, 40))
def test_clean_input_comes_back(data: st.DataObject, n: int) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    number = probabilities if kind == "probability" else st.floats(-1e300, 1e300)
    scores = data.draw(hnp.arrays(np.float64, n, elements=number))
    labels = data.draw(hnp.arrays(np.uint8, n, elements=st.integers(0, 1)))
    counts = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 5)))
    counts[0] += 1
    keep = counts > 0
    kept = scores[keep], labels[keep], counts[keep]
    before = scores.tobytes(), labels.tobytes(), counts.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # one class, or a leak by chance
        rows = check_rows(scores, labels, counts, weight_type="frequency", score_type=kind)
        again = check_rows(rows.scores, rows.labels, rows.weights, weight_type="frequency", score_type=kind)
        forms = [
            check_rows(scores.tolist(), labels.astype(bool), counts.tolist(), weight_type="frequency", score_type=kind),
            check_rows(scores[:, None], labels * 2.0 - 1, counts * 1.0, weight_type="frequency", score_type=kind),
            check_rows(
                scores.astype(object),
                labels.astype(str),
                counts,
                weight_type="frequency",
                score_type=kind,
                positive="1",
            ),
        ]
    for found in (rows, again, *forms):
        assert not np.signbit(found.scores[found.scores == 0]).any()
        for result, wanted in zip((found.scores, found.labels, found.weights), kept, strict=True):
            np.testing.assert_array_equal(result, wanted)
    assert (scores.tobytes(), labels.tobytes(), counts.tobytes()) == before
    np.testing.assert_array_equal(check_scores(scores, kind), scores)


@given(scores=hnp.arrays(np.float32, st.integers(0, 30), elements=st.floats(0, 1, width=32) | st.just(np.nan)))
def test_float32_comes_back(scores: Any) -> None:
    for kind in KINDS:
        checked = check_scores(scores, kind)
        assert checked.dtype == np.float32
        np.testing.assert_array_equal(checked, scores)


def test_the_same_index_in_another_order_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    scores, y = pandas.Series([0.1, 0.9, 0.4]), pandas.Series([0, 1, 1])
    assert check_rows(scores, y.set_axis([7, 8, 9])).labels.tolist() == [0, 1, 1], "another index is no contradiction"
    with pytest.raises(InputError, match="different order"):
        check_rows(scores, y[::-1])


def test_one_stray_score_does_not_decide_what_the_others_mean(subtests) -> None:
    for stray in [-0.01, -1.0, 1.3, 999.0]:
        with subtests.test(stray=stray):
            scores = np.linspace(0.01, 0.99, 200)
            scores[7] = stray
            with pytest.raises(
                InputError, match=r"scores has 1 of 200 values outside \[0, 1\], the first at row 7 counted from 0"
            ):
                check_rows(scores, np.arange(200) % 2)
