"""scikit-learn's own checks, all of them, on the wrappers and on each calibrator behind an adapter.

A calibrator takes one column of scores, and for one-dimensional input scikit-learn runs next to no check. So each one
is put behind a plain classifier that hands it column 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib.metadata import version
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from calibrant import (
    AutoCalibrator,
    BetaScaling,
    CalibratedClassifier,
    HistogramBinning,
    IsotonicCalibrator,
    PlattScaling,
    SplineCalibrator,
    TemperatureScaling,
    calibrators,
)
from calibrant.calibrators import (
    BinwiseShift,
    CrossVennAbers,
    IsotonicBinning,
    LogitShift,
    ScalingBinning,
)
from calibrant.calibrators.binary.base import BinaryCalibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.trees import TreeCalibrator
from calibrant.multiclass import (
    ClasswiseHistogramBinning,
    DirichletScaling,
    MatrixScaling,
    MulticlassAutoCalibrator,
    OneAgainstOne,
    Reduction,
    SimplexBinning,
    StructuredScaling,
    TopLabelHistogramBinning,
    VectorScaling,
)

CALIBRATORS = [
    PlattScaling(),
    BetaScaling(),
    IsotonicCalibrator(),
    HistogramBinning(n_bins=5),
    LogitShift(),
    SplineCalibrator(),
    TemperatureScaling(),
    AutoCalibrator(candidates=["platt", "isotonic"], cv=3),
]

# They need segments, features, a taxonomy or a label for each column besides the scores, which no check passes.
UNLIKE = {
    "MulticlassSegmentCalibrator",
    "MultilabelCalibrator",
    "PathCalibrator",
    "SegmentCalibrator",
    *(name for name in calibrators.__all__ if issubclass(getattr(calibrators, name), TreeCalibrator)),
}


def _unlisted(base: type, listed: Sequence[Any]) -> list[Any]:
    """Every other calibrator of the base class, with its defaults."""
    found = [getattr(calibrators, name) for name in sorted({*calibrators.__all__} - UNLIKE)]
    known = {type(each) for each in listed}
    return [cls() for cls in found if issubclass(cls, base) and cls not in known]


# Behind the adapter only.
OTHERS = [ScalingBinning(4), BinwiseShift(4), IsotonicBinning(random_state=0)]
OTHERS += _unlisted(BinaryCalibrator, [*CALIBRATORS, *OTHERS])

# With all of its candidates it fits a dozen maps at each fit.
ALL_CANDIDATES = pytest.param(AutoCalibrator(), id="AutoCalibrator()", marks=[pytest.mark.full, pytest.mark.slow])


class ColumnZero(ClassifierMixin, BaseEstimator):
    """A calibrator as a classifier of matrices: it sees the expit of column 0 and nothing else."""

    def __init__(self, calibrator: BinaryCalibrator) -> None:
        self.calibrator = calibrator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        encoder = LabelEncoder().fit(y)
        self.classes_ = encoder.classes_
        if len(self.classes_) != 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass: "
                f"{len(self.classes_)} class(es)"
            )
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        # The checks hold whole weights against repeated rows, which is what counts are; they must be declared.
        meaning = "frequency" if weight is not None and (weight == np.floor(weight)).all() else "importance"
        self.calibrator_ = clone(self.calibrator)
        self.calibrator_.fit(
            _expit(X[:, 0]), encoder.transform(y), weight, weight_type=meaning, score_type="probability"
        )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return self.calibrator_.predict_proba(_expit(X[:, 0]))

    def predict(self, X: Any) -> np.ndarray:
        p = self.predict_proba(X)
        return self.classes_[np.argmax(p, axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


def _expit(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(np.asarray(z, dtype=np.float64), -30.0, 30.0)))


TRAIN_CHECKS = (
    "check_classifiers_train",
    "check_classifiers_train(readonly_memmap=True)",
    "check_classifiers_train(readonly_memmap=True, X_dtype=float32)",
)
WEIGHT_CHECKS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")

# Before 1.7 the check makes its labels binary around the first one, after shuffling one of its two copies of the rows.
OLD = tuple(map(int, version("scikit-learn").split(".")[:2])) < (1, 7)

# Scores of one row and of many can differ in the last bit, and a Venn-Abers map jumps at the scores it was fitted to.
JUMPS = ("check_methods_subset_invariance", "check_sample_weight_equivalence_on_sparse_data")


# Calibrators of several classes whose penalty or bins depend on the number of rows, not on the sum of weights.
ROWS_COUNT = (
    VectorScaling,
    MatrixScaling,
    DirichletScaling,
    StructuredScaling,
    OneAgainstOne,
    TopLabelHistogramBinning,
)
BY_ROWS = "weights that are not declared as counts: penalties and bins depend on the number of rows"


def _excluded(estimator: Any) -> dict[str, str]:
    """Checks that an estimator is not asked to pass, and why; `test_exclusions_are_real` runs them."""
    sparse = isinstance(estimator, CalibratedClassifier)
    if sparse and isinstance(estimator.calibrator, AutoCalibrator):
        return dict.fromkeys(WEIGHT_CHECKS, "weights that are not declared as counts: to a choice a row is one row")
    if sparse and isinstance(estimator.calibrator, Reduction) and estimator.calibrator.notion == "confidence":
        return dict.fromkeys(TRAIN_CHECKS, "predict keeps the model's class, also where another has a larger share")
    if sparse and isinstance(estimator.calibrator, ClasswiseHistogramBinning):
        return dict.fromkeys(TRAIN_CHECKS, "rows of class-wise bins need not sum to 1")
    if sparse and estimator.ensemble:
        return dict.fromkeys(WEIGHT_CHECKS, "folds that are separable have targets that depend on the number of rows")
    if sparse and isinstance(estimator.calibrator, ROWS_COUNT):
        return dict.fromkeys(WEIGHT_CHECKS, BY_ROWS)
    if not OLD or (sparse and isinstance(estimator.calibrator, TemperatureScaling)):  # the two problems are mirrored
        return {}
    return dict.fromkeys(WEIGHT_CHECKS[: 1 + sparse], "the check compares two different problems")


# What the checks provoke on purpose, with a handful of rows or with all rows of a class weighted to zero.
pytestmark = [
    pytest.mark.filterwarnings("ignore:y has only one class:calibrant.CalibrantWarning"),
    pytest.mark.filterwarnings(r"ignore:\d+ rows are too few for 5 bins:calibrant.CalibrantWarning"),
    pytest.mark.filterwarnings(r"ignore:.*fewer than \d+ rows(,| in a bin):calibrant.CalibrantWarning"),
]


def _checks(estimator: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The name of each check, with its options, and the check of a new copy."""
    for copy, check in estimator_checks_generator(estimator):
        options = ", ".join(f"{key}={option}" for key, option in check.keywords.items())
        name = check.func.__name__
        yield f"{name}({options})" if options else name, functools.partial(check, copy)


def _passes(estimator: Any, subtests: pytest.Subtests, without: Collection[str] = ()) -> None:
    """Every check, one subtest each."""
    for name, check in _checks(estimator):
        if name not in without:
            with subtests.test(name):
                check()


def _each(calibrators: Sequence[Any]) -> pytest.MarkDecorator:
    """One case for each calibrator."""
    return pytest.mark.parametrize("calibrator", calibrators, ids=repr)


def _wrapped(calibrator: BinaryCalibrator) -> CalibratedClassifier:
    return CalibratedClassifier(LogisticRegression(), calibrator, cv=3)


def test_the_wrapper(subtests: pytest.Subtests) -> None:
    estimator = _wrapped(PlattScaling())
    _passes(estimator, subtests, _excluded(estimator))


@pytest.mark.full
@_each([*CALIBRATORS[1:], ALL_CANDIDATES])
def test_the_wrapper_of_other_calibrators(calibrator: BinaryCalibrator, subtests: pytest.Subtests) -> None:
    estimator = _wrapped(calibrator)
    _passes(estimator, subtests, _excluded(estimator))


MULTICLASS = [
    TemperatureScaling(),
    Reduction("class-wise", PlattScaling(), normalized=True),
    Reduction("confidence", PlattScaling()),
    MatrixScaling(),
    DirichletScaling(),
    StructuredScaling(),
    OneAgainstOne(),
    TopLabelHistogramBinning(n_bins=2),
    ClasswiseHistogramBinning(n_bins=2),
    SimplexBinning(),
    MulticlassAutoCalibrator(["temperature"], cv=2),
]
MULTICLASS += _unlisted(MulticlassCalibrator, [*MULTICLASS, VectorScaling()])


def test_the_wrapper_of_several_classes(subtests: pytest.Subtests) -> None:
    estimator = _wrapped(VectorScaling())
    assert get_tags(estimator).classifier_tags.multi_class
    _passes(estimator, subtests, _excluded(estimator))


@pytest.mark.full
@_each(MULTICLASS)
def test_the_wrapper_of_other_calibrators_of_several_classes(calibrator: Any, subtests: pytest.Subtests) -> None:
    estimator = _wrapped(calibrator)
    _passes(estimator, subtests, _excluded(estimator))


def test_every_estimator_is_checked() -> None:
    checked = {type(each).__name__ for each in (*CALIBRATORS, *MULTICLASS, *OTHERS, VectorScaling())}
    wrappers = {"CalibratedClassifier", "CrossVennAbers"}
    assert checked | wrappers | UNLIKE == set(calibrators.__all__)


def test_the_wrapper_of_a_model_and_a_map_per_fold(subtests: pytest.Subtests) -> None:
    estimator = _wrapped(TemperatureScaling()).set_params(ensemble=True)
    others = {name for name, _ in _checks(estimator) if not name.startswith(NUMBERS)}
    _passes(estimator, subtests, {*others, *_excluded(estimator)})


# Those checks whose numbers depend on the calibrator in the wrapper.
NUMBERS = (*WEIGHT_CHECKS, "check_fit_idempotent", "check_methods_subset_invariance", "check_classifiers_train")


@_each([IsotonicCalibrator(), HistogramBinning(n_bins=5), TopLabelHistogramBinning(n_bins=2), SimplexBinning()])
def test_the_wrapper_of_bins_and_tables(calibrator: BinaryCalibrator, subtests: pytest.Subtests) -> None:
    estimator = _wrapped(calibrator)
    others = {name for name, _ in _checks(estimator) if not name.startswith(NUMBERS)}
    _passes(estimator, subtests, {*others, *_excluded(estimator)})


def test_the_wrapper_of_a_model_per_fold(subtests: pytest.Subtests) -> None:
    _passes(CrossVennAbers(LogisticRegression(), cv=3), subtests, {*JUMPS, *(WEIGHT_CHECKS if OLD else ())})


@_each([*CALIBRATORS, *OTHERS, IsotonicCalibrator(step=True, shrink_ends=False), ALL_CANDIDATES])
def test_calibrators_behind_the_adapter(calibrator: BinaryCalibrator, subtests: pytest.Subtests) -> None:
    estimator = ColumnZero(calibrator)
    _passes(estimator, subtests, _excluded(estimator))


EXCLUSIONS = [
    pytest.param(estimator, name, id=f"{type(estimator).__name__}({calibrator!r}), {name}")
    for calibrator in CALIBRATORS
    for estimator in (_wrapped(calibrator), ColumnZero(calibrator))
    for name in _excluded(estimator)
] + [
    pytest.param(_wrapped(calibrator), name, id=f"several classes, {calibrator!r}, {name}", marks=pytest.mark.full)
    for calibrator in (VectorScaling(), *MULTICLASS)
    for name in _excluded(_wrapped(calibrator))
]


@pytest.mark.parametrize(("estimator", "name"), EXCLUSIONS)
def test_exclusions_are_real(estimator: Any, name: str) -> None:
    with pytest.raises(AssertionError):
        dict(_checks(estimator))[name]()
