"""Reductions to binary problems: by hand, with rare classes, and the certificates that come out of them."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests import worlds

import calibrant
from calibrant import metrics
from calibrant.arrays.multiclass.rows import check_class_rows
from calibrant.calibration import Calibration
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.binary.binning import HistogramBinning
from calibrant.calibrators.binary.scaling import BetaScaling, PlattScaling
from calibrant.calibrators.multiclass.binning import ClasswiseHistogramBinning, TopLabelHistogramBinning
from calibrant.calibrators.multiclass.reduction import Reduction
from calibrant.calibrators.multiclass.scaling import VectorScaling
from calibrant.export.errors import DocumentError
from calibrant.guarantees.bounds import clopper_pearson
from calibrant.guarantees.certificate import Certificate, Coverage
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode, gate
from calibrant.guarantees.provenance import Sampling, WeightType
from calibrant.maps import PerClassMap, TopMap
from calibrant.maps.classes import softmax
from calibrant.messages import CalibrantWarning, InputError
from calibrant.notions import Claim, Classwise, Notion, TopKConfidence, TopKLabel, TopLabel

Floats = NDArray[np.float64]

# Six rows, three classes. Most likely: a a b b b c; right in rows 1, 3 and 5.
# Second: b c a a a a (of equals the earlier one, in rows 5 and 6); right in rows 4 and 6.
SIX = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
LABELS = np.array(["a", "b", "b", "a", "b", "a"])
RATE = HistogramBinning(n_bins=1, extremes="mean")
CLASSES = ("a", "b", "c")


def rows_of(n: int, size: int = 3, seed: int = 0, *, tilt: float = 0.5) -> worlds.Rows:
    return worlds.classes(n, size, [seed, n, size], tilt=tilt)


def fitted(notion: Notion | str, calibrator: BinaryCalibrator = RATE, **options: Any) -> Reduction:
    return Reduction(notion, calibrator, min_rows=1, **options).fit(SIX, LABELS, classes=CLASSES)


# ----------------------------------------------------------------------------------------------------------------------
# Algorithms 5.1 to 5.7 on six rows by hand
# ----------------------------------------------------------------------------------------------------------------------


def test_confidence_is_the_share_of_rows_whose_top_class_is_right() -> None:
    cal = fitted("confidence")
    assert cal.transform(SIX).tolist() == [[3 / 6]] * 6
    assert isinstance(cal.map_, TopMap)
    assert not cal.map_.by_label


def test_top_label_is_that_share_for_each_predicted_class() -> None:
    # a: right in 1 of rows 1, 2; b: in 2 of rows 3, 4, 5; c: in none of row 6
    cal = fitted("top-label")
    assert cal.transform(SIX)[:, 0].tolist() == [1 / 2, 1 / 2, 2 / 3, 2 / 3, 2 / 3, 0.0]
    assert cal.predict(SIX).tolist() == ["a", "a", "b", "b", "b", "c"], "the model's own class, whatever its share"
    assert cal.named_ == {1: {"a": 2, "b": 3, "c": 1}}


def test_class_wise_is_the_share_of_each_class() -> None:
    # 3 of 6 rows are a, 3 are b, none is c
    assert fitted("class-wise").transform(SIX).tolist() == [[3 / 6, 3 / 6, 0.0]] * 6


def test_class_wise_rows_need_not_sum_to_one_and_normalised_ones_do() -> None:
    # Two bins, below and from 0.5 on. a: 2 of 4, 1 of 2; b: 1 of 3 (rows 1, 2, 6), 2 of 3; c: none.
    # Row 3 is below, above, below: 1/2 + 2/3 + 0 = 7/6; normalized 3/7, 4/7, 0.
    halves = HistogramBinning(n_bins=2, strategy="width", extremes="mean")
    plain, divided = (fitted("class-wise", halves, normalized=flag) for flag in (False, True))
    assert plain.transform(SIX[2:3]) == pytest.approx(np.array([[1 / 2, 2 / 3, 0.0]]))
    assert divided.transform(SIX[2:3]) == pytest.approx(np.array([[3 / 7, 4 / 7, 0.0]]))
    assert divided.transform(SIX).sum(axis=1) == pytest.approx(np.ones(6))
    refusal = divided.certificate()
    assert isinstance(refusal, NoCertificate)
    assert "divided by their sums" in str(refusal)
    assert "rows-divided" in {note.code for note in divided.notes_}
    assert "divided by their sums" in str(divided.notes_[-1])
    assert isinstance(plain.certificate(), Certificate)


def test_top_k_confidence_is_the_share_at_each_rank() -> None:
    assert fitted(TopKConfidence(2)).transform(SIX) == pytest.approx(np.array([[3 / 6, 2 / 6]] * 6))


def test_top_k_label_is_the_share_at_each_rank_for_each_class() -> None:
    # second: a in rows 3 to 6, right in 4 and 6; b in row 1 and c in row 2, not right
    cal = fitted(TopKLabel(2))
    assert cal.transform(SIX)[:, 1].tolist() == [0.0, 0.0, 2 / 4, 2 / 4, 2 / 4, 2 / 4]
    assert cal.transform(SIX)[:, 0].tolist() == fitted("top-label").transform(SIX)[:, 0].tolist()
    assert cal.map_.outputs == ("top 1", "top 2")


def test_canonical_calibration_is_refused_with_what_to_use() -> None:
    with pytest.raises(InputError, match="class-wise"):
        fitted("canonical")


# ----------------------------------------------------------------------------------------------------------------------
# What a reduction is made of
# ----------------------------------------------------------------------------------------------------------------------


def test_with_two_classes_a_column_is_what_the_binary_calibrator_makes_of_it(subtests) -> None:
    for calibrator in [HistogramBinning(4), PlattScaling(), BetaScaling()]:
        with subtests.test(calibrator=calibrator):
            p, y = rows_of(400, 2)
            alone = calibrator.fit(p[:, 1], y)
            assert (
                Reduction("class-wise", calibrator).fit(p, y).transform(p)[:, 1].tolist()
                == alone.transform(p[:, 1]).tolist()
            )


def test_logits_give_what_their_softmax_gives_bit_for_bit(subtests) -> None:
    for notion in ["confidence", "top-label", "class-wise", TopKLabel(2)]:
        for dtype in [np.float64, np.float32]:
            with subtests.test(notion=notion, dtype=dtype):
                rng = np.random.default_rng(1)
                z = rng.normal(0, 2, (500, 4)).astype(dtype)
                y = rng.integers(0, 4, 500)
                p = softmax(z.astype(np.float64))
                from_logits = Reduction(notion, HistogramBinning(5)).fit(z, y, score_type="logit")
                from_probabilities = Reduction(notion, HistogramBinning(5)).fit(p, y)
                assert from_logits.map_.on == "logit"
                assert from_logits.map_.maps == from_probabilities.map_.maps  # type: ignore[attr-defined]
                assert from_logits.map_.apply(z.astype(np.float64)).tolist() == from_probabilities.transform(p).tolist()


def test_the_problems_of_rows_are_those_of_their_probabilities(subtests) -> None:
    for kind in ["probability", "logit", "independent"]:
        with subtests.test(kind=kind):
            rng = np.random.default_rng(2)
            z = rng.normal(0, 1, (60, 40)) if kind == "logit" else rng.random((60, 40)).round(2)
            z = z / z.sum(axis=1, keepdims=True) if kind == "probability" else z
            rows = check_class_rows(z, rng.integers(0, 40, 60), classes=range(40), score_type=kind)
            p = softmax(z) if kind == "logit" else z
            for notion in (TopLabel(), Classwise(), TopKLabel(3), TopKConfidence(2)):
                for found, expected in zip(notion.row_problems(rows), notion.problems(p), strict=True):
                    assert (found.claim, found.column) == (expected.claim, expected.column)
                    assert found.scores.tolist() == expected.scores.tolist()
                    assert found.events(rows.labels).tolist() == expected.events(rows.labels).tolist()


def test_counts_are_repeated_rows_and_a_weight_of_zero_is_no_row(subtests) -> None:
    for notion in ["top-label", "class-wise", "confidence"]:
        with subtests.test(notion=notion):
            p, y = rows_of(200)
            k = np.random.default_rng(3).integers(0, 4, 200)
            cal = HistogramBinning(3)
            repeated = Reduction(notion, cal).fit(np.repeat(p, k, axis=0), np.repeat(y, k), classes=range(3))
            counted = Reduction(notion, cal).fit(p, y, k, weight_type="frequency", classes=range(3))
            assert counted.map_ == repeated.map_
            assert str(counted.certificate()) == str(repeated.certificate())
            weighted = Reduction(notion, cal).fit(p, y, k.astype(float), classes=range(3))
            assert weighted.map_ == repeated.map_, "whole importance weights are read as repetition"
            assert isinstance(weighted.certificate(), NoCertificate)


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_does_not_matter_and_that_of_classes_moves_columns(seed: int) -> None:
    p, y = rows_of(80, 3, seed)
    rng = np.random.default_rng(seed)
    order, turn = rng.permutation(80), rng.permutation(3)
    cal = Reduction("class-wise", HistogramBinning(3)).fit(p, y, classes=range(3))
    assert Reduction("class-wise", HistogramBinning(3)).fit(p[order], y[order], classes=range(3)).map_ == cal.map_
    turned = Reduction("class-wise", HistogramBinning(3)).fit(p[:, turn], y, classes=turn)
    assert turned.transform(p[:, turn]).tolist() == cal.transform(p)[:, turn].tolist()


@pytest.mark.filterwarnings("ignore::calibrant.messages.CalibrantWarning")
def test_every_binary_calibrator_goes_through_classes_that_are_rare_absent_or_always_right(subtests) -> None:
    for name in [
        "AutoCalibrator",
        "BayesianBinning",
        "BetaScaling",
        "HistogramBinning",
        "IsotonicCalibrator",
        "LogitShift",
        "PlattScaling",
        "SplineCalibrator",
        "TemperatureScaling",
        "VennAbers",
    ]:
        with subtests.test(name=name):
            p, y = rows_of(120, 4, tilt=0.0)
            y[p.argmax(axis=1) == 0] = 0  # always right
            y[y == 3] = 2  # absent
            for notion in ("top-label", "class-wise"):
                cal = Reduction(notion, getattr(calibrant.calibrators, name)(), min_rows=10).fit(p, y, classes=range(4))
                out = cal.transform(p)
                assert np.isfinite(out).all()
                assert ((out >= 0) & (out <= 1)).all()


def test_what_is_no_binary_calibrator_is_refused() -> None:
    for wrong in (calibrant.SegmentCalibrator(), PlattScaling, "platt", TopLabelHistogramBinning()):
        with pytest.raises(InputError, match=r"^calibrator must be "):
            Reduction("top-label", wrong).fit(SIX, LABELS, classes=CLASSES)  # type: ignore[arg-type]


def test_wrong_options_are_refused_in_a_sentence(subtests) -> None:
    for options, said in [
        ({"normalized": True}, "normalized is for class-wise"),
        ({"rare": "drop"}, "rare is 'drop'"),
        ({"min_rows": 0}, "min_rows must be"),
        ({"notion": "top"}, "notion must be"),
    ]:
        with subtests.test(options=options, said=said), pytest.raises(InputError, match=said):
            Reduction(**{"calibrator": RATE} | options).fit(SIX, LABELS, classes=CLASSES)


# ----------------------------------------------------------------------------------------------------------------------
# Rare classes
# ----------------------------------------------------------------------------------------------------------------------


def skewed() -> tuple[Floats, NDArray[Any]]:
    """240 rows predicted as a, 60 as b, 12 as c, 9 as d, none as e; right in two of three, except c: never."""
    top = np.repeat([0, 1, 2, 3], [240, 60, 12, 9])
    p = np.full((len(top), 5), 0.1)
    p[np.arange(len(top)), top] = 0.6
    y = np.where(np.arange(len(top)) % 3 < 2, top, 4)
    y[0], y[1] = 2, 4  # every class has a row
    return p, np.array(list("abcde"))[np.where(top == 2, 0, y)]


def test_classes_that_few_rows_name_share_a_map_and_are_listed() -> None:
    p, y = skewed()
    cal = Reduction("top-label", RATE).fit(p, y)
    by_class = [cal.map_.maps[j].values.tolist() for j in range(5)]  # type: ignore[attr-defined]
    right = {name: int(((p.argmax(axis=1) == j) & (y == name)).sum()) for j, name in enumerate("abcde")}
    shared = [(right["c"] + right["d"]) / 21]
    assert by_class == [[right["a"] / 240], [right["b"] / 60], shared, shared, shared]
    assert cal.named_[1] == {"a": 240, "b": 60, "c": 12, "d": 9, "e": 0}
    assert cal.notes_[-1].code == "pooled-classes"
    assert str(cal.notes_[-1]) == (
        "classes predicted in fewer than 20 rows, 'c' (12), 'd' (9), 'e' (0): they share one map, fitted to their 21 "
        "rows together"
    )
    promise = cal.certificate()
    assert isinstance(promise, Certificate)
    assert promise.about.columns.tolist() == [0, 1], "no promise about the pool: see docs/certificates/classes.md"
    assert promise.about.named_rows.tolist() == [240, 60, 12, 9, 0]
    assert promise.about.pooled == {(1, 2), (1, 3), (1, 4)}
    assert [*promise.about.left_out()] == ["classes predicted in fewer than 20 rows, 'c' (12), 'd' (9), 'e' (0)"]


def test_where_even_the_pool_is_small_all_rows_make_its_map() -> None:
    p, y = skewed()
    kept = p.argmax(axis=1) < 3  # 12 rows of c are left of the pool
    cal = Reduction("top-label", RATE).fit(p[kept], y[kept], classes=list("abcde"))
    right = (np.array(list("abcde"))[p[kept].argmax(axis=1)] == y[kept]).mean()
    assert cal.map_.maps[4].values.tolist() == [pytest.approx(right)]  # type: ignore[attr-defined]
    assert str(cal.notes_[-1]).endswith("fitted to the rows of all classes")


def test_all_classes_may_be_rare() -> None:
    cal = Reduction("top-label", RATE).fit(SIX, LABELS, classes=CLASSES)
    assert cal.transform(SIX).tolist() == [[0.5]] * 6
    assert str(cal.certificate()) == (
        "No certificate: classes predicted in fewer than 20 rows, 'a' (2), 'b' (3), 'c' (1): classes that share a "
        "map are not covered, so use more rows, or Reduction('confidence', HistogramBinning()), which has one "
        "certificate for all classes together."
    )


def test_a_rare_class_can_be_refused_with_its_count() -> None:
    p, y = skewed()
    with pytest.raises(InputError, match=r"needs 20 rows of each class, but class 'c' is predicted in 12: pass more"):
        Reduction("top-label", RATE, rare="refuse").fit(p, y)
    kept = [0, 1, 2, 3]  # classes that are predicted; second is a, or b where a is first
    with pytest.raises(InputError, match="needs 9 rows of each class, but class 'c' is ranked 2 in 0: pass more"):
        Reduction(TopKLabel(2), RATE, rare="refuse", min_rows=9).fit(p[:, kept] + 0.025, np.where(y == "e", "a", y))


def test_weights_count_by_what_they_are_worth() -> None:
    p, y = skewed()
    w = np.where(p.argmax(axis=1) == 1, np.where(np.arange(len(y)) == 240, 1e6, 1e-6), 1.0)  # b: worth one row
    cal = Reduction("top-label", RATE).fit(p, y, w)
    assert cal.named_[1]["b"] == pytest.approx(1.0, abs=1e-3)
    assert dict(zip(cal.notes_[-1].values["classes"], cal.notes_[-1].values["rows"], strict=True))["b"] < 1.001
    assert "'b' (1)" in str(cal.notes_[-1])


def test_notes_of_the_binary_fits_are_told_once_for_each_sort() -> None:
    p, y = rows_of(900, 5)
    notes = Reduction("top-label", calibrant.IsotonicCalibrator()).fit(p, y).notes_
    (told,) = [note for note in notes if note.code == "of-classes"]
    assert told.values["about"].code == "few-for-rich-map"
    assert str(told).startswith("class '0', class '1', class '2' and 2 more: ")
    assert "this method is likely to overfit" in str(told)


# ----------------------------------------------------------------------------------------------------------------------
# Certificates
# ----------------------------------------------------------------------------------------------------------------------


def spent(promise: Certificate) -> list[float]:
    """What the promised bins of each part cost together."""
    levels = np.where(promise.covered, promise.levels, 0.0)
    return [float(levels[at].sum()) for at in promise.about.slices]


def test_each_bin_has_the_same_share_of_alpha_and_the_exact_interval() -> None:
    """600 and 300 rows in bins of 100: 6 and 3 bins, so each bin of both has alpha / 9."""
    rng = np.random.default_rng(5)
    top = np.repeat([0, 1], [600, 300])
    u = rng.uniform(0.5, 1.0, 900)
    p = np.where(np.arange(2) == top[:, None], u[:, None], 1 - u[:, None])
    y = np.where(rng.random(900) < u, top, 1 - top)
    cal = TopLabelHistogramBinning(100, extremes="mean").fit(p, y)
    promise = cal.certificate(0.2)
    assert isinstance(promise, Certificate)
    assert spent(promise) == pytest.approx([0.2 * 6 / 9, 0.2 * 3 / 9])
    assert promise.levels == pytest.approx(0.2 / 9)
    low, high = clopper_pearson(promise.events, promise.rows, 0.2 / 9)
    assert promise.lower.tolist() == low.tolist()
    assert promise.upper.tolist() == high.tolist()
    assert promise.epsilon == max(promise.about.epsilons(promise).values()) == promise.about.error_bound(promise)
    marginal = cal.certificate(0.2, coverage="marginal")
    assert isinstance(marginal, Certificate)
    assert set(marginal.levels) == {0.2}, "a new row is predicted as one class"


def test_bins_whose_number_was_chosen_spend_their_share_of_a_class() -> None:
    """The rest of alpha has paid for the numbers of bins that were tried."""
    cal = Reduction("class-wise", AutoCalibrator(guarantee=(0.3, 0.1))).fit(*rows_of(3_000))
    for mode in get_args(Coverage):
        promise = cal.certificate(0.2, coverage=mode)
        assert isinstance(promise, Certificate)
        for part, at in zip(promise.about.parts, promise.about.slices, strict=True):
            assert part.share < 1.0
            bins = int(promise.covered[at].sum()) if mode == "simultaneous" else 1
            low, high = clopper_pearson(promise.events[at], promise.rows[at], 0.2 / 3 * part.share / bins)
            assert promise.lower[at] == pytest.approx(low)
            assert promise.upper[at] == pytest.approx(high)


def test_a_marginal_class_wise_promise_is_for_all_classes_of_the_row() -> None:
    p, y = rows_of(600)
    each = ClasswiseHistogramBinning(100).fit(p, y)
    promise = each.certificate(0.3, coverage="marginal")
    assert isinstance(promise, Certificate)
    assert promise.levels == pytest.approx(0.1)
    assert "for all classes at once" in str(promise)
    ranks = Reduction(TopKLabel(2), HistogramBinning(2)).fit(p, y).certificate(0.3, coverage="marginal")
    assert isinstance(ranks, Certificate)
    assert len(ranks.about.parts) == 6
    assert ranks.levels == pytest.approx(0.15)
    whole = each.certificate(0.3)
    assert isinstance(whole, Certificate)
    assert spent(whole) == pytest.approx([0.1] * 3), "claims share rows, and alpha equally"
    mean = np.mean(list(whole.about.epsilons(whole).values()))
    assert whole.about.error_bound(whole) == pytest.approx(mean)


def test_the_promise_reads_as_one_sentence_and_says_what_is_left_out() -> None:
    p, y = skewed()
    with pytest.warns(CalibrantWarning, match="class 'b': fewer than 200 rows"):
        cal = TopLabelHistogramBinning(60).fit(p, y)
    assert str(cal.certificate()).splitlines() == [
        "With confidence 90 %, for every class and each of its bins: among rows predicted as that class with that "
        "probability, the true share of the class differs from the probability by at most 0.134.",
        "  Worst: class 'b'; 1 of 2 are within 0.064.",
        "  The top-label calibration error is then at most 0.134 on what is covered.",
        "  Basis: 321 rows, clopper-pearson intervals in 2 bins; Gupta 2023, Theorem 5.1; bins by Theorem 4.1, given "
        "the edges.",
        "  Not covered: classes predicted in fewer than 20 rows, 'c' (12), 'd' (9), 'e' (0).",
        "  Not covered: 2 bins without a row.",
        "  Assumes: the rows are independent draws from the population that the map will be applied to, and were not "
        "used to train or tune the model; no argument of the fit was chosen using their labels.",
    ]
    assert str(cal.certificate(coverage="marginal")).startswith(
        "For a new row, with probability at least 90 %: in the bin of its predicted class that it falls in, the true "
        "share of that class differs"
    )


def test_every_notion_says_what_it_promises(subtests) -> None:
    for notion, said in [
        ("confidence", "in every bin: among rows whose most likely class has that probability"),
        ("class-wise", "for every class and each of its bins: among rows that give that class that probability"),
        (TopKConfidence(2), "for every rank and each of its bins: among rows whose class of that rank"),
        (TopKLabel(2), "for every rank and class and each of its bins: among rows where that class has that rank"),
    ]:
        with subtests.test(notion=notion, said=said):
            p, y = rows_of(300)
            cal = Reduction(notion, HistogramBinning(2)).fit(p, y)
            assert said in str(cal.certificate())
            marginal = str(cal.certificate(coverage="marginal")).splitlines()[0]
            assert "that it falls in, the " in marginal, "the proof is for the bin, not for the output"
            assert "among" not in marginal


def test_no_certificate_where_none_can_be() -> None:
    p, y = rows_of(300)
    assert "injective" in str(Reduction("top-label", PlattScaling()).fit(p, y).certificate())
    cal = Reduction("class-wise", HistogramBinning(3)).fit(p, y)
    assert "do not depend on the rows" in str(cal.certificate(interval="always-valid"))
    grouped = Reduction("class-wise", HistogramBinning(3)).fit(p, y, groups=np.arange(300) % 7)
    assert "rows of the same group (groups) may depend on each other" in str(grouped.certificate())
    with pytest.raises(InputError, match="alpha must lie"):
        cal.certificate(0.0)
    with pytest.raises(InputError, match="interval is 'exact'"):
        cal.certificate(interval="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [TopLabelHistogramBinning(100), ClasswiseHistogramBinning(100)])
def test_a_stored_promise_comes_back_as_it_was_and_only_with_its_map(method: Any, tmp_path: Path) -> None:
    p, y = rows_of(900)
    method.fit(p, y)
    method.save(tmp_path / "cal.json")
    loaded = calibrant.load(tmp_path / "cal.json")
    assert loaded.map == method.map_
    assert str(loaded.certificate) == str(method.certificate())
    assert loaded.transform(p).tolist() == method.transform(p).tolist()
    assert loaded.predict(p).tolist() == method.predict(p).tolist()
    assert loaded.certificate(0.1) is loaded.certificate
    with pytest.raises(InputError, match="alpha=0"):
        loaded.certificate(0.2)
    other = type(method)(90).fit(p, y)
    assert not loaded.certificate.describes(other.map_)
    divided = Reduction("class-wise", HistogramBinning(3), normalized=True).fit(p, y)
    assert not loaded.certificate.describes(divided.map_)


def test_a_document_whose_promise_contradicts_itself_is_refused(subtests) -> None:
    for field, value in [
        ("alpha", 0.01),
        ("epsilon", 0.001),
        ("n", 3),
        ("columns", [0, 0, 1]),
        ("columns", [0, 1, 7]),
        ("ranks", [1, 1]),
        ("notion", "canonical"),
        ("parts", []),
        ("classes", ["a", "b", "c"]),
        ("score_type", "word"),
        ("n", 901),
        ("n", 9000),
        ("score_type", "logit"),
        ("score_type", "independent"),
        ("notion", "confidence"),
        ("notion", "class-wise"),
        ("notion", "top-k-confidence"),
        ("ranks", [2, 2, 2]),
        ("frame_columns", ["x", "y", "z"]),
        ("named_rows", [300, 300]),
        ("named_rows", [300, 300, 301]),
        ("named_rows", [-1, 400, 501]),
        ("named_rows", [0, 0, 900]),
        ("min_rows", 0),
        ("min_rows", 900),
        ("assumptions", ["none"]),
    ]:
        with subtests.test(field=field, value=value):
            p, y = rows_of(900)
            body = json.loads(TopLabelHistogramBinning(100).fit(p, y).calibration_.to_json())
            Calibration.from_json(json.dumps(body))
            stored = body["certificate"]
            (stored if field in stored else stored["about"])[field] = value
            with pytest.raises(DocumentError):
                Calibration.from_json(json.dumps(body))


@pytest.mark.parametrize(("notion", "other"), [("confidence", "top-label"), ("class-wise", "top-label")])
def test_a_promise_of_one_notion_is_not_read_as_one_of_another(notion: str, other: str) -> None:
    p, y = rows_of(300)
    body = json.loads(Reduction(notion, HistogramBinning(2)).fit(p, y).calibration_.to_json())
    body["certificate"]["about"]["notion"] = other
    with pytest.raises(DocumentError, match="do not match the claims of the notion"):
        Calibration.from_json(json.dumps(body))


def test_the_rows_of_the_parts_are_all_rows_where_nothing_is_left_out() -> None:
    p, y = rows_of(900)
    promise = TopLabelHistogramBinning(100).fit(p, y).certificate()
    assert isinstance(promise, Certificate)
    assert promise.rows.sum() + promise.uncovered_rows == promise.n == 900
    for n in (899, 901):
        with pytest.raises(ValueError, match="n must match the rows of the parts"):
            replace(promise, n=n)
    first, *others = promise.about.parts
    edges = replace(first, uncovered=np.zeros_like(first.uncovered))
    with pytest.raises(ValueError, match="n must match the rows of the parts"):
        replace(promise, about=replace(promise.about, parts=(edges, *others)))
    apart = TopLabelHistogramBinning(100, bins_from="split", random_state=0).fit(p, y).certificate()
    assert isinstance(apart, Certificate)
    assert apart.rows.sum() < apart.n == 900, "some rows chose the edges"


def test_a_promise_is_carried_only_beside_rows_that_pass_the_gate(subtests) -> None:
    cal = TopLabelHistogramBinning(100).fit(*rows_of(900))
    carried = 0
    for weights in get_args(WeightType):
        for sampling in get_args(Sampling):
            with subtests.test(weights=weights, sampling=sampling):
                told = replace(cal.provenance_, weight_type=weights, sampling=sampling)
                if gate(told) is None:
                    carried += bool(calibrant.Calibration(cal.map_, told, cal.certificate()).certificate)
                else:
                    with pytest.raises(ValueError, match="cannot support this certificate"):
                        calibrant.Calibration(cal.map_, told, cal.certificate())
    assert carried > 0


def test_a_promise_is_about_the_kind_of_its_map() -> None:
    cal = ClasswiseHistogramBinning(100).fit(*rows_of(900))
    promise = cal.certificate()
    assert isinstance(promise, Certificate)
    assert promise.describes(cal.map_)
    assert not promise.describes(replace(cal.map_, on="logit"))  # type: ignore[type-var]
    assert not replace(promise, score_type="logit").describes(cal.map_)


def test_fresh_rows_are_held_against_the_promise() -> None:
    p, y = rows_of(3_000)
    promise = TopLabelHistogramBinning(150).fit(p, y).certificate()
    assert isinstance(promise, Certificate)
    fresh, labels = rows_of(3_000, seed=1)
    held = promise.check(fresh, labels)
    assert held
    assert str(held).startswith("3,000 rows: no contradiction with the certificate.")
    broken = promise.check(fresh, (fresh.argmax(axis=1) + 1) % 3, by_bin=True)
    assert not broken
    assert "contradicted in 3 of 3 classes; the worst, class " in str(broken)
    few = promise.check(fresh[:5], labels[:5])
    assert few
    assert str(few).startswith("5 rows: too few to contradict the certificate, whatever the outcomes.")
    marginal = TopLabelHistogramBinning(150).fit(p, y).certificate(coverage="marginal")
    with pytest.raises(InputError, match="coverage='simultaneous'"):
        marginal.check(fresh, labels)  # type: ignore[union-attr]


def test_the_check_counts_the_calibration_rows_as_the_certificate_does(subtests) -> None:
    for notion in ["class-wise", TopKLabel(2), TopKConfidence(2)]:
        with subtests.test(notion=notion):
            p, y = rows_of(400)
            promise = Reduction(notion, HistogramBinning(4)).fit(p, y).certificate()
            assert isinstance(promise, Certificate)
            seen = promise.check(p, y)
            assert seen.rows.tolist() == promise.rows.tolist()
            assert seen.events.tolist() == promise.events.tolist()


# ----------------------------------------------------------------------------------------------------------------------
# Histogram binning of classes
# ----------------------------------------------------------------------------------------------------------------------


def test_bins_are_so_many_as_the_rows_of_a_class_allow() -> None:
    p, y = rows_of(2_000)
    cal = TopLabelHistogramBinning(100).fit(p, y)
    for each in cal.evidence_:
        named = cal.named_[1][str(each.column)]
        assert (each.bins.n > 0).sum() == named // 100
    fixed = TopLabelHistogramBinning(n_bins=4).fit(p, y)
    assert [(each.bins.n > 0).sum() for each in fixed.evidence_] == [4, 4, 4]


def test_few_rows_of_a_class_or_a_bin_are_warned_of() -> None:
    p, y = rows_of(450)
    with pytest.warns(CalibrantWarning, match="fewer than 200 rows, where histogram binning"):
        TopLabelHistogramBinning(50).fit(p, y)
    with pytest.warns(CalibrantWarning, match="each class: fewer than 20 rows in a bin"):
        ClasswiseHistogramBinning(10).fit(p, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClasswiseHistogramBinning(50).fit(p, y)


def test_a_bin_without_the_class_leans_on_its_share_and_not_on_one_half() -> None:
    """Two hundred classes, 10 rows each: with one half in place of the share, rows would sum to about three."""
    rng = np.random.default_rng(6)
    size, n = 200, 2_000
    z = rng.normal(0, 3, (n, size))
    p = softmax(z)
    y = (np.cumsum(p, axis=1) < rng.random((n, 1))).sum(axis=1)
    out = ClasswiseHistogramBinning(100).fit(p, y, classes=range(size)).transform(p)
    assert out.min() > 0.0
    assert out.max() < 1.0
    assert out.sum(axis=1).mean() == pytest.approx(1.0, abs=0.05)
    halves = Reduction("class-wise", HistogramBinning(points_per_bin=100)).fit(p, y, classes=range(size))
    assert halves.transform(p).sum(axis=1).mean() > 2.0
    plain = ClasswiseHistogramBinning(100, extremes="mean").fit(p, y, classes=range(size))
    assert plain.transform(p).min() == 0.0


def test_an_absent_class_gets_a_small_probability_and_a_note() -> None:
    p, y = rows_of(600)
    y[y == 2] = 1
    cal = ClasswiseHistogramBinning(100).fit(p, y, classes=range(3))
    out = cal.transform(p)[:, 2]
    assert 0.0 < out.min() <= out.max() < 1e-3  # 2 / 602 of two rows among 102
    assert "no row has the class '2': nothing can be estimated for it" in [str(note) for note in cal.notes_]


def test_a_thousand_classes_from_few_rows() -> None:
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.full(1_000, 0.05), 300).astype(np.float32)
    y = rng.integers(0, 1_000, 300)
    top = Reduction("top-label", PlattScaling()).fit(p, y, classes=range(1_000))
    assert np.isfinite(top.transform(p)).all()
    assert top.predict(p).tolist() == p.argmax(axis=1).tolist()
    assert "and 995 more: they share one map, fitted to their 300 rows together" in str(top.notes_[-2])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_the_names_of_classes(library: str) -> None:
    frames = pytest.importorskip(library)
    p, y = rows_of(900)
    names = np.array(["cat", "dog", "emu"])
    frame = frames.DataFrame({name: p[:, j] for j, name in enumerate(names)})
    each = ClasswiseHistogramBinning(100).fit(frame, names[y])
    turned = each.transform(frame[["emu", "cat", "dog"]])
    assert list(turned.columns) == ["cat", "dog", "emu"]
    assert np.asarray(turned).tolist() == each.transform(p).tolist()
    top = TopLabelHistogramBinning(100).fit(frame, names[y])
    assert list(top.transform(frame).columns) == ["top 1"]
    assert top.predict(frame).tolist() == names[p.argmax(axis=1)].tolist()
    promise = top.certificate()
    assert isinstance(promise, Certificate)
    assert promise.check(frame, names[y]).n == 900


def test_a_single_row_is_mapped_and_left_as_it_is() -> None:
    row = SIX[2:3].copy()
    assert fitted("class-wise", HistogramBinning(2)).transform(row).tolist() != row.tolist()
    assert row.tolist() == SIX[2:3].tolist()


def test_no_second_matrix_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.arrays.multiclass.rows.MAX_WIDENED", 0)
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.full(100, 0.1), 10_000).astype(np.float32)
    y = rng.integers(0, 100, 10_000)
    for kind, scores in (("probability", p), ("logit", np.log(p + 1e-6))):
        tracemalloc.start()
        ClasswiseHistogramBinning(200).fit(scores, y, classes=range(100), score_type=kind)  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2 * p.nbytes, (kind, peak / p.nbytes)


def test_what_was_fitted_is_printed() -> None:
    p, y = rows_of(900)
    cal = ClasswiseHistogramBinning(100).fit(p, y)
    printed = str(cal).splitlines()
    assert printed[0] == "ClasswiseHistogramBinning() fitted to 900 rows of 3 classes, probability scores"
    assert printed[1] == "  one map for each of 3 classes: 27 bins of 99 to 100 rows"
    assert isinstance(cal.map_, PerClassMap)
    assert str(ClasswiseHistogramBinning(50)) == "ClasswiseHistogramBinning(points_per_bin=50), not fitted"
    scaled = str(Reduction("class-wise", PlattScaling()).fit(p, y))
    assert "one map for each of 3 classes\n" in scaled
    assert "No certificate" in scaled


# ----------------------------------------------------------------------------------------------------------------------
# What looks like a slip
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [VectorScaling(), Reduction("class-wise", PlattScaling())])
def test_columns_in_another_order_than_the_classes_are_warned_of(method: Any) -> None:
    p, y = rows_of(1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.fit(p, y)
    said = r"top-1 accuracy is [\d.]+ %, below the [\d.]+ % of random guessing: do the columns match `classes`"
    with pytest.warns(CalibrantWarning, match=said):
        method.fit(p[:, [1, 2, 0]], y)
    with pytest.warns(CalibrantWarning, match=said):
        method.fit(p[:, [1, 2, 0]], y, np.full(1_000, 0.2))  # weights of one size are no fewer rows


def test_a_model_without_skill_or_with_a_rare_class_too_often_is_not_taken_for_turned_columns() -> None:
    rng = np.random.default_rng(11)
    common = np.array(["a", "a", "a", "a", "a", "a", "a", "a", "b", "c"])[rng.integers(0, 10, 2_000)]
    noise = rng.dirichlet([1.0, 1.0, 1.0], 2_000)
    often = noise * np.where(common[:, None] == np.array(["a", "b", "c"]), 1.2, 1.0) * [0.2, 1.0, 1.0]
    often /= often.sum(axis=1, keepdims=True)
    named = np.array(["a", "b", "c"])[often.argmax(axis=1)]
    assert (named == common).mean() < 0.3  # drawing by the shares of classes is right in 0.66
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scores in (noise, often):
            VectorScaling().fit(scores, common)
        VectorScaling().fit(noise[:12, [1, 2, 0]], np.tile(["a", "b", "c"], 4))


def test_softmax_maps_name_the_methods_that_carry_a_promise() -> None:
    p, y = rows_of(300)
    assert "use TopLabelHistogramBinning or ClasswiseHistogramBinning" in str(VectorScaling().fit(p, y).certificate())


def test_labels_that_are_missing_or_named_are_asked_for() -> None:
    p, _ = rows_of(10)
    with pytest.raises(InputError, match=r"y is missing: .*calibrate\(scores, y\)"):
        calibrant.calibrate(p)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(p).assign(truth=0)
    for argument, names in (("score", {"label": "truth"}), ("score", {"score": [0, 1, 2], "label": "truth"})):
        with pytest.raises(InputError) as told:
            calibrant.calibrate(table, **names)
        assert told.value.argument == argument
    with pytest.raises(InputError, match="label is missing"):
        calibrant.calibrate(table, "truth")
    with pytest.raises(
        InputError, match=r"for several classes use calibrate.*metrics\.ece, displays\.TopLabelDisplay or"
    ):
        HistogramBinning().fit(p, np.zeros(10))


def test_a_smooth_map_of_classes_is_sent_to_binning_of_classes() -> None:
    p = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 300)
    told = Reduction("class-wise", PlattScaling()).fit(p, p.argmax(axis=1)).certificate()
    assert isinstance(told, NoCertificate)
    assert "ClasswiseHistogramBinning" in str(told)


@dataclass(frozen=True)
class OwnLabel(Notion):
    """A notion of a user that makes the claim of top-label, and names no theorem."""

    name: ClassVar[str] = "own-label"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        return (Claim(1, None, True),)


class SecondLabel(Notion):
    """A notion of a user that no map can hold: the class of the second largest score alone."""

    name: ClassVar[str] = "second-label"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        return (Claim(2, None, True),)


class FirstClass(Notion):
    """A notion of a user that no map can hold: one class of several."""

    name: ClassVar[str] = "first-class"

    def claims(self, classes: int) -> tuple[Claim, ...]:
        return (Claim(None, 0, False),)


def test_a_notion_without_a_theorem_is_calibrated_and_not_certified() -> None:
    rng = np.random.default_rng(5)
    scores = rng.dirichlet(np.ones(3), 300)
    y = np.array([rng.choice(3, p=row) for row in scores])
    fitted = Reduction(OwnLabel(), HistogramBinning(n_bins=3)).fit(scores, y)
    refusal = fitted.certificate()
    assert isinstance(refusal, NoCertificate)
    assert refusal.code == NoCertificateCode.NO_THEOREM
    assert "own-label" in str(refusal)


def test_claims_of_another_form_are_refused(subtests: pytest.Subtests) -> None:
    scores = np.random.default_rng(5).dirichlet(np.ones(3), 30)
    y = scores.argmax(axis=1)
    for notion in (SecondLabel(), FirstClass()):
        with subtests.test(notion.name):
            with pytest.raises(InputError, match="claim ranks 1 to k in order, or every class in order"):
                Reduction(notion, HistogramBinning(n_bins=3)).fit(scores, y)
            with pytest.raises(InputError, match="of a form that maps and metrics do not support"):
                metrics.ece(scores, y, notion=notion)
