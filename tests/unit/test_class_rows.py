"""Matrices of class scores: names and order through frames, absent and unseen classes, sums, logits, hostile input."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant.arrays.multiclass.rows import check_class_rows, check_class_scores, is_matrix
from calibrant.arrays.multiclass.spread import SUM_TOLERANCE
from calibrant.calibration import Calibration
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.simplex import SimplexBinning
from calibrant.guarantees.provenance import MulticlassProvenance
from calibrant.maps import IdentityMap, PerClassMap, SoftmaxMap, StepMap, TopMap
from calibrant.messages import CalibrantWarning, InputError
from calibrant.metrics.multiclass.errors import ece

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

ABC = ("a", "b", "c")
P = np.array([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
PLAIN = Calibration(PerClassMap(ABC, (IdentityMap(),) * 3, "probability", False))

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "batch": pa.RecordBatch.from_pydict}
every_frame = pytest.mark.parametrize("kind", FRAMES)


def frame(kind: str, columns: dict[str, Any]) -> Any:
    return FRAMES[kind](columns)


def columns_of(table: Any) -> dict[str, list[Any]]:
    names = table.column_names if hasattr(table, "column_names") else list(table.columns)
    return {
        name: (table[name].to_pylist() if hasattr(table[name], "to_pylist") else list(table[name])) for name in names
    }


# --------------------------------------------------------------------------------------------------------------- frames


def test_columns_of_a_frame_name_the_classes_at_fit(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            rows = check_class_rows(frame(kind, {"b": P[:, 1], "a": P[:, 0], "c": P[:, 2]}), ["a", "c", "c"])
            assert rows.classes == ("b", "a", "c")
            assert rows.labels.tolist() == [1, 2, 2]
            np.testing.assert_array_equal(rows.scores, P[:, [1, 0, 2]])
            assert rows.columns == ()


def test_columns_are_found_by_name_in_any_order_and_others_are_left_alone(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            given = frame(kind, {"id": ["x", "y", "z"], "c": P[:, 2], "a": P[:, 0], "b": P[:, 1]})
            out = PLAIN.transform(given)
            assert type(out) is type(given)
            assert columns_of(out) == {name: P[:, j].tolist() for j, name in enumerate(ABC)}
            assert PLAIN.predict(given).tolist() == ["b", "a", "c"]


def test_the_index_of_pandas_is_kept() -> None:
    given = pd.DataFrame(P, columns=list(ABC), index=[7, 3, 9])
    assert PLAIN.transform(given).index.tolist() == [7, 3, 9]


def test_top_classes_come_back_as_columns_of_ranks(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            top = Calibration(TopMap(ABC, 2, (IdentityMap(), IdentityMap()), "probability"))
            out = top.transform(frame(kind, {name: P[:, j] for j, name in enumerate(ABC)}))
            assert columns_of(out) == {"top 1": [0.7, 0.5, 1.0], "top 2": [0.2, 0.25, 0.0]}


def test_columns_named_otherwise_at_fit_are_found_by_those_names(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            given = frame(kind, {f"p_{name}": P[:, j] for j, name in enumerate(ABC)})
            rows = check_class_rows(given, ["a", "b", "c"], classes=ABC)
            assert rows.columns == ("p_a", "p_b", "p_c")
            fitted = Calibration(PLAIN.map, MulticlassProvenance.of("x", rows))
            turned = frame(kind, {f"p_{name}": P[:, j] for j, name in reversed(list(enumerate(ABC)))})
            assert columns_of(fitted.transform(turned)) == {name: P[:, j].tolist() for j, name in enumerate(ABC)}
            with pytest.raises(InputError, match="no column"):
                PLAIN.transform(given)


SOME = np.random.default_rng(4).dirichlet([1.0, 2.0, 4.0], 600)
DRAWN = np.array(ABC)[(np.random.default_rng(5).random((600, 1)) > SOME.cumsum(axis=1)[:, :2]).sum(axis=1)]
METHODS = [TopLabelHistogramBinning(), ClasswiseHistogramBinning(), SimplexBinning(n_bins=4)]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_columns_in_another_order_are_found_by_name_or_refused_never_swapped(subtests) -> None:
    for kind in FRAMES:
        for method in METHODS:
            with subtests.test(kind=kind, method=type(method).__name__):
                straight = frame(kind, {name: SOME[:, j] for j, name in enumerate(ABC)})
                turned = frame(kind, {name: SOME[:, "abc".index(name)] for name in "cab"})
                for call in (method.fit, ece):
                    with pytest.raises(
                        InputError, match="classes has 'a' where scores has the column 'c': leave it out"
                    ):
                        call(turned, DRAWN, classes=ABC)
                assert ece(turned, DRAWN).value == pytest.approx(ece(straight, DRAWN).value, rel=1e-12)
                fitted = method.fit(straight, DRAWN, classes=ABC)
                assert columns_of(fitted.transform(turned)) == columns_of(fitted.transform(straight))
                assert fitted.predict(turned).tolist() == fitted.predict(SOME).tolist()
                promise = fitted.certificate()
                seen = {str(promise.check(given, np.roll(DRAWN, 1))) for given in (straight, turned, SOME)}
                assert len(seen) == 1
                assert promise.check(turned, DRAWN)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_names_at_fit_come_before_the_names_of_classes(subtests) -> None:
    """Columns 1, 2, 3 are the classes 2, 3, 4: a frame that has all four numbers is read as at fit."""
    for method in METHODS:
        with subtests.test(method=type(method).__name__):
            labels = np.searchsorted(ABC, DRAWN) + 2
            given = pd.DataFrame(SOME, columns=[1, 2, 3])
            fitted = method.fit(given, labels, classes=[2, 3, 4])
            assert fitted.provenance_.columns == ("1", "2", "3")
            more = given.assign(**{"4": 0.5})
            np.testing.assert_array_equal(fitted.transform(more), fitted.transform(SOME))
            promise = Calibration.from_json(fitted.calibration_.to_json()).certificate
            assert promise.about.frame_columns == ("1", "2", "3")
            for checked in (given, given[[3, 1, 2]], more, SOME):
                assert str(promise.check(checked, labels)) == str(promise.check(SOME, labels))
            with pytest.raises(InputError, match="same index in a different order"):
                promise.check(given, pd.Series(labels)[::-1])


def test_a_column_that_no_label_names_is_no_class_of_a_guessed_kind(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            columns: dict[str, Any] = {name: SOME[:, j] for j, name in enumerate(ABC)}
            numbers = {"id": np.arange(600.0), "label": np.searchsorted(ABC, DRAWN), "right": DRAWN == "a"}
            for name, column in numbers.items():
                with pytest.raises(
                    InputError, match=f"column '{name}', which is not a label in y.*drop it, or pass classes="
                ):
                    check_class_rows(frame(kind, columns | {name: column}), DRAWN)
                with pytest.raises(InputError, match=f"column '{name}', which is not a label in y"):
                    check_class_rows(frame(kind, columns | {name: column}), DRAWN, loose=True)
            logits = frame(kind, {name: 9 * SOME[:, j] for j, name in enumerate(ABC)} | {"d": np.full(600, -5.0)})
            assert check_class_rows(logits, DRAWN, score_type="logit").classes == ("a", "b", "c", "d")
            assert check_class_rows(logits, DRAWN, classes=(*ABC, "d")).score_type == "logit"
            absent = frame(kind, columns | {"d": np.zeros(600)})
            assert check_class_rows(absent, DRAWN).classes == ("a", "b", "c", "d"), "probabilities tell themselves"


def test_a_column_without_numbers_is_named(subtests) -> None:
    for kind in FRAMES:
        with subtests.test(kind=kind):
            columns: dict[str, Any] = {name: P[:, j] for j, name in enumerate(ABC)}
            with pytest.raises(
                InputError, match="column 'label', which holds text such as 'b': pass only the columns of class scores"
            ):
                check_class_rows(frame(kind, columns | {"label": ["b", "a", "c"]}), ["b", "a", "c"])
            with pytest.raises(InputError, match="column 'a', which holds text such as 'x'"):
                check_class_rows(frame(kind, {"a": ["x", "y"], "b": ["x", "y"]}), ["a", "b"])


def test_a_column_that_is_missing_is_named(subtests) -> None:
    for kind in FRAMES:
        with (
            subtests.test(kind=kind),
            pytest.raises(InputError, match="scores has no column 'c': its columns are 'a', 'b', 'd'"),
        ):
            PLAIN.transform(frame(kind, {"a": [0.5], "b": [0.5], "d": [0.0]}))


def test_whole_numbers_name_classes_too() -> None:
    rows = check_class_rows(pd.DataFrame(P, columns=[2, 0, 1]), [0, 1, 2])
    assert rows.classes == ("2", "0", "1")
    assert rows.labels.tolist() == [1, 2, 0]
    assert rows.values.tolist() == [2, 0, 1]


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pd.DataFrame(np.column_stack([P, P[:, 0]]), columns=["a", "b", "c", "a"])
    for call in (lambda: PLAIN.transform(twice), lambda: check_class_rows(twice, ["a", "b", "c"])):
        with pytest.raises(InputError, match="same name"):
            call()


def test_missing_values_of_every_frame_empty_their_row() -> None:
    for given in (
        pd.DataFrame({"a": [0.2, 0.5], "b": [0.7, None], "c": [0.1, 0.5]}),
        pd.DataFrame({"a": [0.2, 0.5], "b": pd.array([0.7, None], dtype="Float64"), "c": [0.1, 0.5]}),
        pl.DataFrame({"a": [0.2, 0.5], "b": [0.7, None], "c": [0.1, 0.5]}),
        pa.table({"a": [0.2, 0.5], "b": [0.7, None], "c": [0.1, 0.5]}),
    ):
        found = np.array(list(columns_of(PLAIN.transform(given)).values()), dtype=float).T
        np.testing.assert_array_equal(found, [[0.2, 0.7, 0.1], [np.nan] * 3])
        with pytest.raises(InputError, match=r"has a missing value at row 1 counted from 0"):
            PLAIN.predict(given)
        with pytest.raises(InputError, match="first in row 1"):
            check_class_rows(given, ["a", "b"])


def test_tables_that_are_not_in_memory_are_refused_with_a_way_out() -> None:
    lazy = pl.DataFrame(P, schema=list(ABC)).lazy()
    for call in (lambda: PLAIN.transform(lazy), lambda: check_class_rows(lazy, ["a", "b", "c"])):
        with pytest.raises(InputError, match="to_sql"):
            call()


# -------------------------------------------------------------------------------------------------------------- classes


def test_sorted_labels_name_the_columns_of_an_array() -> None:
    rows = check_class_rows(P, ["c", "a", "b"])
    assert rows.classes == ABC
    assert rows.labels.tolist() == [2, 0, 1]
    (note,) = rows.notes
    assert (note.code, note.values) == ("classes-from-labels", {"classes": ("a", "b", "c")})
    assert str(note) == "columns assigned to 'a', 'b', 'c', the sorted labels: pass classes= to confirm"
    assert check_class_rows(P, ["c", "a", "b"], classes=ABC).notes == ()
    assert check_class_rows(pd.DataFrame(P, columns=list(ABC)), ["c", "a", "b"]).notes == ()
    assert "'3', '4', ..., the sorted" in str(check_class_rows(np.full((6, 6), 1 / 6), np.arange(6)).notes[0])
    assert check_class_rows(P, [10, 9, 11]).classes == ("9", "10", "11")
    assert check_class_rows(P[:, :2] + [[0.1, 0.0], [0.25, 0.0], [1.0, 0.0]], [True, False, True]).classes == (
        "false",
        "true",
    )


def test_a_class_that_no_row_has_must_be_listed_and_is_kept() -> None:
    with pytest.raises(InputError, match=r"y has 2 classes but scores has 3 columns: pass classes=\[\.\.\.\]"):
        check_class_rows(P, ["a", "b", "a"])
    with pytest.raises(InputError, match=r"classes=range\(3\)"):
        check_class_rows(P, [0, 1, 0])
    rows = check_class_rows(P, ["a", "b", "a"], classes=ABC)
    assert rows.class_mass.tolist() == [2.0, 1.0, 0.0]
    assert check_class_rows(P, [0, 1, 0], classes=range(3)).classes == ("0", "1", "2")


def test_a_class_that_no_column_is_for_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="y has the class 'dog', which has no column in scores"):
        check_class_rows(P, ["a", "b", "dog"], classes=ABC)
    with pytest.raises(InputError, match="'dog'"):
        check_class_rows(pd.DataFrame(P, columns=list(ABC)), ["a", "b", "dog"])
    with pytest.raises(InputError, match=r"'p_a', 'q_b', 'r_c'\): pass classes=.* or drop these rows"):
        check_class_rows(pd.DataFrame(P, columns=["p_a", "q_b", "r_c"]), ["a", "b", "c"])


def test_a_common_beginning_or_end_of_the_columns_is_not_part_of_the_classes(subtests) -> None:
    for columns in (["p_a", "p_b", "p_c"], ["a (prob)", "b (prob)", "c (prob)"]):
        with subtests.test(columns=columns):
            rows = check_class_rows(pd.DataFrame(P, columns=columns), ["a", "b", "a"])
            assert (rows.classes, rows.columns, rows.labels.tolist()) == (("a", "b", "c"), tuple(columns), [0, 1, 0])


def test_one_hot_labels_are_refused_with_what_to_pass(subtests) -> None:
    for library in [np.array, pd.DataFrame, pl.DataFrame, np.ndarray.tolist]:
        with subtests.test(library=library):
            with pytest.raises(InputError, match=r"y has several columns: .*y\.argmax\(axis=1\)"):
                check_class_rows(P, library(np.eye(3)))
            with pytest.raises(InputError, match=r"y\.argmax\(axis=1\)"):
                check_class_rows(P[:, 1:], library(np.eye(3)[:, 1:]))


def test_classes_that_do_not_name_the_columns_are_refused(subtests) -> None:
    for classes in [["a", "b"], ["a", "b", "b"], ["a", "b", ""], ["a", "b", None], [1, "1", 2], ["a", "b", "c\0"]]:
        with subtests.test(classes=classes), pytest.raises(InputError, match=r"classes|column"):
            check_class_rows(P, ["a", "b", "a"], classes=classes)


def test_labels_that_name_no_class_are_refused(subtests) -> None:
    for y in [["a", None, "b"], ["a", float("nan"), "b"], [0.5, 1.0, 2.0], [["a"], ["b"]], ["a", "b"], None]:
        with subtests.test(y=y), pytest.raises((InputError, ValueError)):
            check_class_rows(P, y, classes=ABC)


def test_two_classes_and_a_thousand() -> None:
    two = check_class_rows([[0.3, 0.7], [0.6, 0.4]], ["no", "yes"])
    assert two.classes == ("no", "yes")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(1000), 50)
    many = check_class_rows(p, rng.integers(0, 1000, 50), classes=range(1000))
    assert len(many.classes) == 1000
    assert many.score_type == "probability"
    cooled = Calibration(SoftmaxMap(many.classes, [2.0], [], "probability", 1e-9)).transform(p)
    np.testing.assert_allclose(cooled.sum(axis=1), 1.0)


# ----------------------------------------------------------------------------------------------------------- precision


KEPT = {"float16": "float32", "float32": "float32", "float64": "float64", "int8": "float64", "bool": "float64"}


def test_the_precision_of_many_numbers_is_kept_where_it_is_enough(subtests, monkeypatch) -> None:
    monkeypatch.setattr("calibrant.arrays.multiclass.rows.MAX_WIDENED", 0)
    for dtype, kept in KEPT.items():
        with subtests.test(dtype=dtype, kept=kept):
            given = np.eye(3).astype(dtype)
            assert check_class_rows(given, ["a", "b", "c"]).scores.dtype == kept
            assert PLAIN.transform(given).dtype == kept


def test_half_precision_sums_are_probabilities_and_nothing_is_renormalized() -> None:
    rng = np.random.default_rng(1)
    half = rng.dirichlet(np.ones(10), 500).astype(np.float16)
    rows = check_class_rows(half, rng.integers(0, 10, 500), classes=range(10))
    assert rows.score_type == "probability"
    np.testing.assert_array_equal(rows.scores, half.astype(np.float32))


def test_clean_memory_is_shared_and_never_written() -> None:
    p = P.copy()
    p.flags.writeable = False
    rows = check_class_rows(p, ["a", "b", "c"])
    assert np.shares_memory(rows.scores, p)
    dirty = np.array([[np.nan, 0.5, 0.5], [0.2, 0.7, 0.1]])
    dirty.flags.writeable = False
    matrix, _ = check_class_scores(dirty, ABC, "probability")
    assert np.isnan(matrix[0]).all()
    assert np.isnan(dirty[0]).sum() == 1
    over = np.array([[1.0 + 1e-7, 0.0, 0.0]])
    matrix, _ = check_class_scores(over, ABC, "probability")
    assert matrix.max() == 1.0
    assert over.max() > 1.0


# ---------------------------------------------------------------------------------------------------------------- kinds


def test_the_kind_is_told_from_range_and_sums_or_refused() -> None:
    assert check_class_rows(P, ["a", "b", "c"]).score_type == "probability"
    logits = check_class_rows(np.log(P + 0.1) * 3, ["a", "b", "c"])
    assert logits.score_type == "logit"
    (note,) = logits.kind_notes
    assert note.code == "class-logits-guessed"
    assert str(note).endswith("): pass score_type='logit' to confirm")
    with pytest.raises(InputError, match=r"sum to between 0\.5 and 0\.5, not to 1, and scores are never renormalized"):
        check_class_rows(P / 2, ["a", "b", "c"])
    assert check_class_rows(P / 2, ["a", "b", "c"], score_type="independent").score_type == "independent"
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        check_class_rows(P * 2 - [[1.0, 0.0, 0.0]], ["a", "b", "c"], score_type="probability")
    with pytest.raises(InputError, match="score_type"):
        check_class_rows(P, ["a", "b", "c"], score_type="odds")  # type: ignore[arg-type]


def test_percentages_are_refused(subtests) -> None:
    for total in [98.1, 100.0, 101.9]:
        with subtests.test(total=total):
            for options in ({}, {"loose": True}, {"score_type": "probability"}, {"score_type": "independent"}):
                with pytest.raises(InputError, match=r"look like percentages.*: divide by 100"):
                    check_class_rows(P * total, ["a", "b", "c"], **options)
            with pytest.raises(InputError, match="percentages"):
                check_class_scores(P * total, ABC, "probability")
            assert check_class_rows(P * total, ["a", "b", "c"], score_type="logit").score_type == "logit"
            for other in (P * 97.0, P * 103.0):
                with pytest.raises(InputError, match="above 1"):
                    check_class_rows(other, ["a", "b", "c"])
            assert check_class_rows(P * total - [[1.0, -1.0, 0.0]], ["a", "b", "c"]).score_type == "logit"


def test_rows_that_nearly_sum_to_one_may_be_divided() -> None:
    for total in (0.91, 1.09):
        near = P[:2] * total
        with pytest.raises(InputError, match=r"pass scores / scores\.sum\(axis=1, keepdims=True\) if.*'independent'"):
            check_class_rows(near, ["a", "b"], classes=ABC)
        with pytest.raises(
            InputError, match=r"pass scores / scores\.sum\(axis=1, keepdims=True\), since the map"
        ) as told:
            check_class_scores(near, ABC, "probability")
        assert "kind=" not in str(told.value)
        assert (
            check_class_rows(near / near.sum(axis=1, keepdims=True), ["a", "b"], classes=ABC).score_type
            == "probability"
        )
    for far in (P / 2, P * 7, np.log(P + 0.1)):
        with pytest.raises(InputError) as told:
            check_class_scores(far, ABC, "probability")
        assert "kind=" not in str(told.value)
        assert "keepdims" not in str(told.value)


def test_probabilities_in_place_of_logits_are_told() -> None:
    taken = check_class_rows(P, ["a", "b", "c"], classes=ABC, score_type="logit")
    assert taken.score_type == "logit"
    (note,) = taken.kind_notes
    assert note.code == "probabilities-as-logits"
    assert str(note) == "scores look like probabilities but are read as logits because of score_type='logit'"
    with pytest.warns(CalibrantWarning, match="look like probabilities, but the map was fitted on logits: pass logits"):
        check_class_scores(P, ABC, "logit")
    missing = np.vstack([P, [[np.nan, 5.0, 5.0]]])
    with pytest.warns(CalibrantWarning, match="look like probabilities"):
        check_class_scores(missing, ABC, "logit")
    for other in (P[:1], P * 1.1, np.log(P + 0.1), np.empty((0, 3))):
        check_class_scores(other, ABC, "logit")  # a warning would be an error
        if len(other) == 3:
            assert check_class_rows(other, ["a", "b", "c"], classes=ABC, score_type="logit").notes == ()


@pytest.mark.parametrize("off", [SUM_TOLERANCE * 0.9, -SUM_TOLERANCE * 0.9])
def test_a_small_miss_of_one_is_rounding_and_a_larger_one_is_refused(off: float) -> None:
    near = P.copy()
    near[0, 1] += off
    assert check_class_rows(near, ["a", "b", "c"]).scores[0, 1] == near[0, 1]
    near[0, 1] += 2 * off
    with pytest.raises(InputError, match="not to 1"):
        check_class_rows(near, ["a", "b", "c"])


def test_fitted_kinds_are_asked_for_when_applied() -> None:
    rows = check_class_rows(P, ["a", "b", "c"])
    fitted = Calibration(PLAIN.map, MulticlassProvenance.of("x", rows))
    with pytest.raises(InputError, match="not to 1"):
        fitted.transform(P / 2)
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        fitted.transform(P * 7)
    loose = MulticlassProvenance.of("x", check_class_rows(P / 2, ["a", "b", "c"], score_type="independent"))
    assert Calibration(PLAIN.map, loose).transform(P / 2).tolist() == (P / 2).tolist()


def test_huge_finite_logits_are_no_missing_scores() -> None:
    cooler = Calibration(SoftmaxMap(ABC, [2.0], [], "logit", 1e-9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype, large in (("float64", 1.7e308), ("float32", 3.4e38)):
            given = np.array([[large] * 3, [-large] * 3, [large, -large, 0.0], [1.0, 2.0, 3.0]], dtype)
            assert np.isfinite(cooler.transform(given)).all()
            assert check_class_rows(given, ["a", "b", "c", "a"], score_type="logit").score_type == "logit"
    with pytest.raises(InputError, match="infinities"):
        cooler.transform([[np.inf, 1.0, 2.0]])
    sharper = Calibration(SoftmaxMap(ABC, [2.0], [], "logit", 1e-12))
    masked = sharper.transform([[-np.inf, 1.0, 2.0]])  # a masked class
    np.testing.assert_array_equal(masked, sharper.transform([[-1e6, 1.0, 2.0]]))
    for bad in (np.inf, -np.inf):
        with pytest.raises(InputError, match="infinities"):
            cooler.transform([[bad, -bad, 2.0], [1.0, 2.0, np.nan]])
        with pytest.raises(InputError, match="infinities" if bad > 0 else "-inf, first in row 0"):
            check_class_rows([[bad, 1.0, 2.0]] * 3, ["a", "b", "c"])


# ---------------------------------------------------------------------------------------------------------- other input

NOT_A_MATRIX = [
    [],
    [0.2, 0.8],
    [[0.5], [0.5]],
    [[0.5, 0.5], [1.0]],
    np.zeros((2, 2, 2)),
    np.zeros((2, 0)),
    np.array([["a", "b"], ["c", "d"]]),
    np.array([[1j, 0]]),
    np.ma.masked_array([[0.5, 0.5]], mask=[[True, False]]),
    np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"),
    "text",
    None,
    pytest.param(object(), id="an object"),
    {"a": [0.5], "b": [0.5]},
]


def test_what_is_no_matrix_is_refused_in_one_sentence(subtests) -> None:
    for scores in NOT_A_MATRIX:
        with subtests.test(scores=repr(scores)[:30]):
            with pytest.raises(InputError, match=r"scores"):
                check_class_rows(scores, ["a", "b"])
            with pytest.raises(InputError, match=r"scores"):
                check_class_scores(scores, ("a", "b"), "probability")


def test_the_number_of_columns_must_be_that_of_the_classes() -> None:
    with pytest.raises(InputError, match="scores has 2 columns but the map has 3 classes"):
        PLAIN.transform([[0.5, 0.5]])
    assert PLAIN.transform(np.empty((0, 3))).shape == (0, 3)
    with pytest.raises(InputError, match="empty"):
        check_class_rows(np.empty((0, 3)), [])


def test_weights_groups_and_time_are_checked_like_those_of_one_score() -> None:
    rows = check_class_rows(P, ["a", "b", "c"], [1.0, 0.0, 2.0], groups=["g", "h", "g"], time=[1, 2, 3])
    assert len(rows) == 2
    assert rows.classes == ABC
    assert rows.groups.tolist() == ["g", "g"]
    assert rows.class_mass.tolist() == [1.0, 0.0, 2.0]
    for wrong in ([1.0, 2.0], [-1.0, 1.0, 1.0], [np.nan, 1.0, 1.0], [0.0, 0.0, 0.0]):
        with pytest.raises(InputError, match="sample_weight"):
            check_class_rows(P, ["a", "b", "c"], wrong)
    counts = check_class_rows(P, ["a", "b", "c"], [1, 3, 2], weight_type="frequency")
    assert counts.counts
    assert counts.mass.tolist() == [1, 3, 2]


def test_what_has_two_columns_is_a_matrix() -> None:
    for kind in FRAMES:
        assert is_matrix(frame(kind, {"a": [0.5], "b": [0.5]}))
        assert not is_matrix(frame(kind, {"a": [0.5]}))
    assert is_matrix(P)
    assert not is_matrix(P[0])
    assert not is_matrix(None)
    assert not is_matrix("ab")


@settings(max_examples=100, deadline=None)
@drawn(
    arrays(
        np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(allow_nan=True, allow_infinity=True)
    )
)
@pytest.mark.filterwarnings("ignore:scores look like probabilities:calibrant.CalibrantWarning")
def test_any_doubles_give_probabilities_missing_rows_or_a_sentence(scores: Any) -> None:
    cooler = Calibration(SoftmaxMap(ABC, [0.7, -1.2, 3.0], [0.1, 0.0, -4.0], "logit", 1e-12))
    if np.isinf(scores).any():
        with pytest.raises(InputError):
            cooler.transform(scores)
        scores = np.where(np.isinf(scores), np.nan, scores)
    found = cooler.transform(scores)
    missing = np.isnan(scores).any(axis=1)
    assert np.isnan(found[missing]).all()
    assert ((found[~missing] >= 0) & (found[~missing] <= 1)).all()
    np.testing.assert_allclose(found[~missing].sum(axis=1), 1.0)


@settings(max_examples=50, deadline=None)
@drawn(st.permutations(range(5)))
def test_the_order_of_columns_does_not_matter(order: list[int]) -> None:
    names = tuple("abcde")
    parts = tuple(StepMap([0.1 + j / 10], [0.1, 0.2 + j / 10]) for j in range(5))
    calibration = Calibration(PerClassMap(names, parts, "probability", False))
    p = np.random.default_rng(3).dirichlet(np.ones(5), 20)
    turned = pd.DataFrame(p[:, order], columns=[names[j] for j in order])
    np.testing.assert_array_equal(calibration.transform(turned).to_numpy(), calibration.transform(p))
