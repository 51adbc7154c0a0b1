"""What is not a calibrator of one score is refused wherever one is asked for, before anything is trained or fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from calibrant import (
    AutoCalibrator,
    CalibratedClassifier,
    InputError,
    IsotonicCalibrator,
    PlattScaling,
    SamplingCorrection,
    SegmentCalibrator,
    calibrate,
    crossfit,
    load,
)
from calibrant.calibrators import ScalingBinning
from calibrant.calibrators.binary.base import check_calibrator
from calibrant.multiclass import MulticlassAutoCalibrator, PathCalibrator, Reduction, VectorScaling

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = (X[:, 0] + RNG.logistic(size=120) > 0).astype(int)
SCORES = 1.0 / (1.0 + np.exp(-X[:, 0]))
CLASSES = RNG.dirichlet([1.0, 1.0, 1.0], 120)
NAMED = RNG.integers(0, 3, 120)
SEGMENTS = np.where(X[:, 1] > 0, "a", "b")

PLACES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "prefit": (
        "calibrator",
        lambda wrong: CalibratedClassifier(LogisticRegression().fit(X, Y), wrong, cv="prefit").fit(X, Y),
    ),
    "cv": ("calibrator", lambda wrong: CalibratedClassifier(Untrained(), wrong, cv=3).fit(X, Y)),
    "crossfit": ("calibrator", lambda wrong: crossfit(wrong, SCORES, Y)),
    "reduction": ("calibrator", lambda wrong: Reduction("class-wise", wrong).fit(CLASSES, NAMED)),
    "segments": ("calibrator", lambda wrong: SegmentCalibrator(wrong).fit(SCORES, Y, SEGMENTS)),
    "scaling": ("scaling", lambda wrong: ScalingBinning(scaling=wrong).fit(SCORES, Y)),
    "candidates": ("candidates", lambda wrong: AutoCalibrator([wrong]).fit(SCORES, Y)),
    "calibrate": ("candidates", lambda wrong: calibrate(SCORES, Y, candidates=["platt", wrong])),
    "scaling in cv": (
        "scaling",
        lambda wrong: CalibratedClassifier(Untrained(), ScalingBinning(scaling=wrong), cv=3).fit(X, Y),
    ),
    "candidates in cv": (
        "candidates",
        lambda wrong: CalibratedClassifier(Untrained(), AutoCalibrator([wrong]), cv=3).fit(X, Y),
    ),
    "candidates by segment": (
        "candidates",
        lambda wrong: SegmentCalibrator(AutoCalibrator([wrong])).fit(SCORES, Y, SEGMENTS),
    ),
    "scaling among candidates in cv": (
        "scaling",
        lambda wrong: CalibratedClassifier(Untrained(), AutoCalibrator([ScalingBinning(scaling=wrong)]), cv=3).fit(
            X, Y
        ),
    ),
}

OPTIONAL = ("crossfit", "reduction", "segments", "scaling", "scaling in cv", "scaling among candidates in cv")
"""Places where None stands for a default."""

CLASSIFIERS = ("prefit", "cv")
"""Places that take a correction and calibrators of several classes too; None is the automatic choice."""

TAKEN_BY_CLASSIFIERS = ("SamplingCorrection", "a map of several classes")

WRONG = {
    "IsotonicRegression": (IsotonicRegression(), r"not IsotonicRegression\(\): pass IsotonicCalibrator\(\)"),
    "a class of another library": (IsotonicRegression, r"pass IsotonicCalibrator\(\)"),
    "a class": (PlattScaling, r"must be an instance, and PlattScaling is a class: pass PlattScaling\(\)"),
    "SamplingCorrection": (SamplingCorrection(kept_negatives=0.1), "which has no fit: pass the model's scores"),
    "a map of several classes": (VectorScaling(), r"calibrator of one score, not VectorScaling\(\)"),
    "a map by segment": (SegmentCalibrator(), "needs segments as well"),
    "a number": (5, r"not 5: pass one such as PlattScaling\(\)"),
}


class Untrained(LogisticRegression):
    """A model that must not be trained."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Untrained:
        raise AssertionError("a model was trained")


def test_it_is_refused_with_what_to_pass_instead(subtests) -> None:
    for wrong in WRONG:
        for place in PLACES:
            if place in CLASSIFIERS and wrong in TAKEN_BY_CLASSIFIERS:
                continue
            with subtests.test(wrong=wrong, place=place):
                (argument, use), (given, told) = PLACES[place], WRONG[wrong]
                with pytest.raises(InputError, match=rf"^{argument}.*{told}"):
                    use(given)


def test_names_are_for_candidates(subtests) -> None:
    for place in [each for each in PLACES if not each.startswith("cand") and each != "calibrate"]:
        with subtests.test(place=place):
            argument, use = PLACES[place]
            for name, instead in (
                ("isotonic", "IsotonicCalibrator"),
                ("sigmoid", "PlattScaling"),
                ("no such", "one such as"),
            ):
                with pytest.raises(
                    InputError, match=rf"^{argument} must be a calibrator of one score, not '{name}': pass {instead}"
                ):
                    use(name)


def test_none_is_refused_where_it_has_no_meaning(subtests) -> None:
    for place in [each for each in PLACES if each not in (*OPTIONAL, *CLASSIFIERS)]:
        with subtests.test(place=place):
            argument, use = PLACES[place]
            with pytest.raises(
                InputError, match=rf"^{argument}.* None: pass one such as PlattScaling\(\) or AutoCalibrator\(\)"
            ):
                use(None)


def test_a_name_that_is_no_candidate_is_refused_with_those_that_are(subtests) -> None:
    for place in ["candidates", "calibrate", "candidates in cv", "candidates by segment"]:
        with (
            subtests.test(place=place),
            pytest.raises(InputError, match=r"^candidates must contain .*'platt', .*'blend', not 'plat'"),
        ):
            PLACES[place][1]("plat")


def test_candidates_are_a_list(subtests) -> None:
    for given in ["platt", "blend", PlattScaling(), PlattScaling, 3]:
        for use in (
            lambda given: AutoCalibrator(given).fit(SCORES, Y),
            lambda given: MulticlassAutoCalibrator(given).fit(CLASSES, NAMED),
            lambda given: CalibratedClassifier(Untrained(), AutoCalibrator(given), cv=3).fit(X, Y),
        ):
            with (
                subtests.test(given=given),
                pytest.raises(InputError, match=r"^candidates must be a list, not .*: pass candidates=\["),
            ):
                use(given)


def test_candidates_of_classes_are_refused_with_what_to_pass_instead() -> None:
    for given, told in (
        (PlattScaling(), r"multiclass calibrators or names among .*, not PlattScaling\(\)"),
        (VectorScaling, r"VectorScaling is a class: pass VectorScaling\(\)"),
        ("platt", "names among .*'vector'.*, not 'platt'"),
        (None, "not None"),
    ):
        with pytest.raises(InputError, match=rf"^candidates.*{told}"):
            MulticlassAutoCalibrator([given]).fit(CLASSES, NAMED)


def test_calibrators_of_several_classes_are_refused_before_anything_is_trained(subtests) -> None:
    for given, told in (
        (VectorScaling, r"^calibrator must be an instance, and VectorScaling is a class: pass VectorScaling\(\)"),
        (Reduction("class-wise", "isotonic"), r"^calibrator must be .*: pass IsotonicCalibrator\(\)"),
        (Reduction("no such notion"), "no such notion"),
        (MulticlassAutoCalibrator(["plat"]), r"^candidates must be .* not 'plat'"),
        (PathCalibrator({"a": "top", "b": "top"}), "^calibrator"),
    ):
        with subtests.test(given=given), pytest.raises(InputError, match=told):
            CalibratedClassifier(Untrained(), given, cv=3).fit(X, NAMED)


def test_a_calibrator_of_one_score_is_refused_for_three_classes_with_what_to_pass_instead() -> None:
    told = r"^y has 3 classes, and PlattScaling\(\) calibrates one score.*: leave calibrator out, or pass Reduction\("
    with pytest.raises(InputError, match=told):
        CalibratedClassifier(Untrained(), PlattScaling(), cv=3).fit(X, NAMED)
    with pytest.raises(InputError, match=r"^y has 3 classes, and SamplingCorrection\(class_weight=2\.0\) corrects one"):
        CalibratedClassifier(Untrained(), SamplingCorrection(class_weight=2.0), cv=3).fit(X, NAMED)


def test_a_stored_calibration_is_refused(tmp_path: Any) -> None:
    PlattScaling().fit(SCORES, Y).save(tmp_path / "map.json")
    with pytest.raises(InputError, match="which has no fit: pass the model's scores to its transform instead"):
        CalibratedClassifier(Untrained(), load(tmp_path / "map.json"), cv=3).fit(X, Y)


def test_it_is_refused_in_words_through_a_clone_too() -> None:
    model = CalibratedClassifier(LogisticRegression().fit(X, Y), "isotonic", cv="prefit")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"pass IsotonicCalibrator\(\)"):
        clone(model).fit(X, Y)
    with pytest.raises(InputError, match=r"pass IsotonicCalibrator\(\)"):
        cross_val_score(model, X, Y, error_score="raise")


def test_a_fitted_calibrator_is_fitted_anew() -> None:
    fitted = PlattScaling().fit(SCORES, 1 - Y)
    before = fitted.map_
    assert check_calibrator(fitted) is fitted
    model = LogisticRegression().fit(X, Y)
    wrapped = CalibratedClassifier(model, fitted, cv="prefit").fit(X, Y)
    assert (
        wrapped.calibrator_.map_ == CalibratedClassifier(model, PlattScaling(), cv="prefit").fit(X, Y).calibrator_.map_
    )
    assert fitted.map_ == before


def test_calibrators_with_settings_are_taken() -> None:
    for given in (IsotonicCalibrator(step=True), ScalingBinning(4, scaling=PlattScaling()), AutoCalibrator(["platt"])):
        assert check_calibrator(given) is given
