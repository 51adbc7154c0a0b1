"""A calibrator around a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _clone_parametrized, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays.keys import key_text
from calibrant.calibration import both_classes
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.calibrators.multiclass.base import MulticlassCalibrator
from calibrant.calibrators.scoring import Arguments, ScoringClassifier, Target, check_two, refuse_many, times_left_out
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.provenance import Sampling
from calibrant.maps import TopMap
from calibrant.messages import InputError, Note, Voice, note, warn
from calibrant.numerics import Floats
from calibrant.selection.original_model import OriginalTest
from calibrant.shift.sampling import SamplingCorrection
from calibrant.tallies import Tally

INDEPENDENT: Sampling = "independent"
OUT_OF_FOLD: Sampling = "out-of-fold"

AVERAGED = NoCertificate(
    NoCertificateCode.NO_THEOREM,
    "the probabilities are means over several models with a map each, and no theorem here covers such means: use a "
    "fitted model with HistogramBinning if you need a certificate",
)

rows_without_score = note(
    "rows-without-score",
    "{left_out:,} of {n:,} {nouns.rows} are never held out by cv and have no out-of-fold score: the map is fitted to "
    "the others",
)


fitted_model_retrained = note(
    "fitted-model-retrained",
    "{model} was fitted already, and is trained again on these {nouns.rows}: to keep the fitted model and calibrate it "
    "on {nouns.rows} that it has not seen, pass FrozenEstimator(model) or cv='prefit'",
)


@note("fitted-on-training-rows")
def fitted_on_training_rows(voice: Voice, slope: float | None) -> str:
    """A steep slope of the scores of a fitted model; None where it is not finite."""
    shown, rows = "that is not finite" if slope is None else f"of {slope:.1f}", voice.nouns.rows
    return (
        f"the scores of the fitted model have a slope {shown}: was it trained on these {rows}? If so, pass held-out "
        f"{rows} to fit, or cv=5 to train it here; a model that was stopped very early looks the same"
    )


@dataclass(eq=False, repr=False)
class CalibratedClassifier(ScoringClassifier):
    """A scikit-learn classifier with calibrated probabilities, for two classes or more.

    Parameters
    ----------
    estimator
        The classifier; its ``predict_proba`` (else ``decision_function``) gives the scores.
    calibrator : calibrator or SamplingCorrection, optional
        By default :class:`AutoCalibrator`, and :class:`MulticlassAutoCalibrator` for more than two classes. Any
        calibrator of one score for two classes, such as ``PlattScaling()``; any calibrator of
        :mod:`calibrant.multiclass` for two or more, except ``PathCalibrator`` and those of several ranks, such as
        ``TopKConfidence(2)``. A ``SamplingCorrection`` is applied as it is: nothing is fitted but the estimator.
    cv : int, splitter, list of (train, test) or "prefit", optional
        By default 5 folds, as in scikit-learn. One map is fitted to out-of-fold scores, and the estimator is fitted on
        all rows: one model and one map, not one per fold. An integer gives stratified folds, by whole groups if
        ``groups`` is passed to ``fit``. Rows that a splitter never holds out, such as the first block of
        ``TimeSeriesSplit``, have no score and are left out of the map, with a note. A splitter that holds out a row
        several times needs ``ensemble=True``. ``"prefit"``: ``estimator`` is already fitted and is never refitted; rows
        passed to ``fit`` must be new to it, and a warning asks if two classes are separated too well for that (slope
        above 1.5). The same holds for an estimator in scikit-learn's ``FrozenEstimator``. A fitted estimator is trained
        again under the default, with a warning.
    ensemble : bool
        One model and one map for each fold, and the mean of their probabilities, as in scikit-learn's
        ``CalibratedClassifierCV``. The mean of several models is often a little better than one model. The price:
        predictions take as many times longer as there are folds, each map is fitted to the rows of one fold only, and
        there is no single map to store or export.
    weight_type : {"importance", "frequency"}
        Meaning of ``sample_weight`` for the map; see :meth:`BinaryCalibrator.fit`.
    n_jobs : int, optional
        Number of processes that train the models of the folds (joblib), as in scikit-learn: -1 for all cores. By
        default one model at a time.

    Attributes
    ----------
    classes_
        Labels in the order of the classifier's columns; sorted with ``ensemble=True``.
    estimator_, calibrator_
        The classifier and the fitted calibrator; not with ``ensemble=True``.
    estimators_, calibrators_ : list
        Those of each fold, with ``ensemble=True`` only.
    notes_ : tuple of Note
        What was left out, guessed or decided during the fit; ``str(note)`` is a sentence.
    n_features_in_, feature_names_in_
        Those of the classifier, if it has them.

    Notes
    -----
    A calibrator of top classes, such as ``TopLabelHistogramBinning``, calibrates the probability of the class that the
    model ranks first. The others share the rest in the model's proportions, and ``predict`` keeps the model's class.
    Rows of a class-wise calibrator need not sum to 1, unless it is ``normalized``.
    Guarantee: with a fitted model that of the calibrator, unless ``groups`` are passed; otherwise no finite-sample
    guarantee. Out-of-fold scores come from other models than the one in use, and with ``ensemble=True`` a mean of
    several maps is in use, which no theorem here covers. With ``TimeSeriesSplit`` rows may also depend on each other.
    Cost: one fit of the map; with ``cv``, also one fit of the model per fold and one on all rows. With
    ``ensemble=True``, one fit of the model and of the map per fold.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from calibrant.calibrators.binary.scaling import PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    >>> model = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3).fit(X, y)
    >>> model.classes_.tolist(), model.predict_proba(X[:2]).shape
    (['no', 'yes'], (2, 2))
    >>> three = np.where(X[:, 1] > 1, "maybe", y)
    >>> CalibratedClassifier(LogisticRegression(), cv=3).fit(X, three).predict_proba(X[:2]).shape
    (2, 3)
    """

    estimator: Any
    calibrator: Calibrator | SamplingCorrection | None = None
    _: KW_ONLY
    cv: Literal["prefit"] | int | BaseCrossValidator | Iterable[Any] | None = None
    ensemble: bool = False
    weight_type: Literal["importance", "frequency"] = "importance"
    n_jobs: int | None = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the map, and the estimator unless it is prefit.

        Parameters
        ----------
        X, y
            Rows and labels. The estimator gets them as they are passed: frames stay frames, and the estimator decides
            about missing values.
        sample_weight
            Weight of each row, for the estimator and the map. A ``Pipeline`` passes it to its last step. If the
            estimator takes no weights, only the map uses them, with a warning.
        groups
            Group of each row, for rows that depend on each other: for the splitter, and for the folds of an automatic
            choice. Rows of one group are never used both for a model and for its map. No certificate is then issued.
        **fit_params
            Further arguments of the estimator's ``fit``; those with one entry per row are split with the rows. If
            metadata routing is enabled in scikit-learn, arguments go where they are requested.

        Returns
        -------
        self
            The fitted classifier.
        """
        target, prefit = Target.of(y), self._is_prefit()
        self._method()
        if prefit:
            _check_prefit(self.estimator)
        classes = self._known_classes(target) if prefit else target.found
        calibrator = self._settled(len(classes))
        if isinstance(calibrator, SamplingCorrection) and calibrator.classes:
            _places(calibrator, classes)
        arguments = self._arguments(target, sample_weight, groups, fit_params, trains=not prefit)
        for name in ("estimator_", "calibrator_", "estimators_", "calibrators_"):
            self.__dict__.pop(name, None)
        again = self._trained_again() if not prefit else ()
        if self.ensemble:
            self._fit_ensemble(X, target, calibrator, arguments)
        elif isinstance(calibrator, SamplingCorrection):
            self._fit_corrected(X, target, calibrator, arguments, classes)
        elif prefit:
            model = FrozenEstimator(self.estimator)
            scores = self._scored(model, X, calibrator, classes)
            fitted = self._mapped(calibrator, scores, target, classes, arguments, sampling=INDEPENDENT)
            self._keep(classes, model, fitted, self._seen_before(scores, target, classes, arguments))
        else:
            self._fit_out_of_fold(X, target, calibrator, arguments)
        self.notes_ = (*again, *cast("tuple[Note, ...]", self.__dict__["notes_"]))
        return self

    def _trained_again(self) -> tuple[Note, ...]:
        """A note, and a warning, if the model is fitted and nothing was said about how it is used."""
        if self.cv is not None:
            return ()
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return ()
        found = fitted_model_retrained(type(self.estimator).__name__)
        warn(found)
        return (found,)

    def _seen_before(
        self, scores: Floats, target: Target, classes: NDArray[Any], arguments: Arguments
    ) -> tuple[Note, ...]:
        """A note, and a warning, if the scores of two classes are those of rows that the model was trained on."""
        if scores.ndim > 1 or len(target.found) < 2:
            return ()
        events = target.codes(classes) == 1
        test = OriginalTest.of(Tally.from_arrays(scores, events, arguments.weight, score_type=self._kind()))
        if not test.on_training_rows:
            return ()
        found = fitted_on_training_rows(test.estimated_slope if np.isfinite(test.estimated_slope) else None)
        warn(found)
        return (found,)

    # ------------------------------------------------------------------------------------------------- ways of fitting

    def _fit_corrected(
        self, X: Any, target: Target, calibrator: SamplingCorrection, arguments: Arguments, classes: NDArray[Any]
    ) -> None:
        """A known correction: there are no folds, because no map is fitted."""
        if self._is_prefit():
            self._keep(classes, FrozenEstimator(self.estimator), calibrator)
            return
        if not calibrator.classes:
            check_two(classes)
        model = self._trained(X, target.given, arguments.model)
        self._keep(target.named_by(model), model, calibrator)

    def _fit_out_of_fold(self, X: Any, target: Target, calibrator: Calibrator, arguments: Arguments) -> None:
        """One map of out-of-fold scores, and the model of all rows."""
        splits, classes = self._splits(self.cv, X, target, arguments), target.found
        times = times_left_out(splits, len(target.labels))
        if times.max() > 1:
            raise InputError(
                "cv",
                f"holds out {np.count_nonzero(times > 1):,} of {len(times):,} rows several times, so that they have "
                "several scores",
                "pass ensemble=True, which has a map for each fold, or a splitter such as StratifiedKFold",
            )
        many = _takes_matrix(calibrator, classes)
        scores = np.zeros((len(times), len(classes)) if many else len(times))
        for fold in self._folds(
            splits, X, target.given, arguments.model, lambda model, rows: self._scored(model, rows, calibrator, classes)
        ):
            scores[fold.rows] = fold.scores
        model = self._trained(X, target.given, arguments.model)
        named = classes if many else target.named_by(model)
        if named.tolist() == classes.tolist()[::-1]:
            scores = 1.0 - scores if self._kind() == "probability" else -scores
        rows = np.flatnonzero(times)
        fitted = self._mapped(calibrator, scores[rows], target, named, arguments, rows, OUT_OF_FOLD)
        left_out = len(times) - len(rows)
        self._keep(named, model, fitted, (rows_without_score(left_out, len(times)),) if left_out else ())

    def _fit_ensemble(
        self, X: Any, target: Target, calibrator: Calibrator | SamplingCorrection, arguments: Arguments
    ) -> None:
        """A model and a map for each fold."""
        if self._is_prefit() or isinstance(calibrator, SamplingCorrection):
            why = "a fitted model" if self._is_prefit() else "SamplingCorrection, which is not fitted to folds"
            raise InputError("ensemble", f"needs folds, and does not go with {why}", "leave it out")
        splits, classes = self._splits(self.cv, X, target, arguments), target.found
        folds = list(
            self._folds(
                splits,
                X,
                target.given,
                arguments.model,
                lambda model, rows: self._scored(model, rows, calibrator, classes),
            )
        )
        self.calibrators_ = [
            self._mapped(calibrator, fold.scores, target, classes, arguments, fold.rows, OUT_OF_FOLD) for fold in folds
        ]
        self.estimators_ = [fold.model for fold in folds]
        self.classes_ = target.sorted_as(folds[0].model)
        self.notes_ = tuple(dict.fromkeys(each for one in self.calibrators_ for each in one.notes_))

    def _keep(self, classes: NDArray[Any], model: Any, calibrator: Any, notes: tuple[Note, ...] = ()) -> None:
        self.classes_, self.estimator_, self.calibrator_ = classes, model, calibrator
        self.notes_ = (*notes, *getattr(calibrator, "notes_", ()))

    # ------------------------------------------------------------------------------------------------------------ maps

    def _scored(self, model: Any, X: Any, calibrator: Any, classes: NDArray[Any]) -> Floats:
        """The scores that the calibrator takes: one column per class, or those of the second class."""
        scores = self._matrix if _takes_matrix(calibrator, classes) else self._scores
        return scores(model, X, classes)

    def _mapped(
        self,
        calibrator: Calibrator,
        scores: Floats,
        target: Target,
        classes: NDArray[Any],
        arguments: Arguments,
        rows: NDArray[np.intp] | slice = slice(None),
        sampling: Sampling = INDEPENDENT,
    ) -> Any:
        """A copy of the calibrator, fitted to the scores of these rows."""
        codes = target.codes(classes)[rows]
        described: dict[str, Any] = {
            "weight_type": self.weight_type,
            "groups": None if arguments.groups is None else np.asarray(arguments.groups)[rows],
            "sampling": sampling,
        }
        weight = None if arguments.weight is None else arguments.weight[rows]
        copy = cast(Any, clone(calibrator))
        if scores.ndim == 1:
            return copy.fit(scores, codes == 1, weight, score_type=self._kind(), **described)
        names = _names(classes)
        kind = "probability" if self._kind() == "probability" else "logit"
        return copy.fit(scores, names[codes], weight, classes=names.tolist(), score_type=kind, **described)

    def _settled(self, size: int) -> Any:
        """The calibrator for this number of classes, checked before anything is trained."""
        given = self.calibrator
        if given is None:
            return _automatic(size)
        if isinstance(given, SamplingCorrection):
            if size > 2 and not given.classes:
                raise refuse_many(
                    f"has {size} classes, and {given!r} corrects one score",
                    "pass the weights or the frequencies by class, such as class_weight={'a': 1, 'b': 5, 'c': 20}",
                )
            if self._kind() != "probability":
                raise InputError("calibrator", f"{given!r} needs a model with predict_proba", "pass another calibrator")
            return given
        if isinstance(given, MulticlassCalibrator) and not given._for_classifiers:
            problem = f"is a {type(given).__name__}, which has no probability for every class"
            raise InputError("calibrator", problem, "fit it to the model's scores, outside of a classifier")
        if isinstance(given, MulticlassCalibrator):
            given._check_settings()
            _refuse_ranks(given, size)
            return given
        binary = check_calibrator(given)
        if size > 2:
            raise refuse_many(
                f"has {size} classes, and {binary!r} calibrates one score",
                f"leave calibrator out, or pass Reduction('class-wise', {binary!r}, normalized=True), a map per class",
            )
        return binary

    def _is_prefit(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator) or (isinstance(self.cv, str) and self.cv == "prefit")

    def _known_classes(self, target: Target) -> NDArray[Any]:
        """The classes of the prefit model, else those of ``y`` in sorted order."""
        classes = target.typed(np.asarray(getattr(self.estimator, "classes_", target.found)))
        if len(classes) < 2:
            check_two(classes)
        if not set(target.found.tolist()) <= set(classes.tolist()):
            raise InputError(
                "y",
                f"has the classes {target.found.tolist()}, but the fitted model has {classes.tolist()}",
                "pass its labels",
            )
        return classes

    def __sklearn_clone__(self) -> Self:
        """A clone keeps a prefit model fitted, as cross-validation and grid searches need."""
        if not self._is_prefit() or isinstance(self.estimator, FrozenEstimator):
            return cast(Self, _clone_parametrized(self))
        frozen = type(self)(**(self.get_params(deep=False) | {"estimator": FrozenEstimator(self.estimator)}))
        if hasattr(self, "_metadata_request"):
            frozen._metadata_request = self._metadata_request
        return cast(Self, _clone_parametrized(frozen))

    # ----------------------------------------------------------------------------------------------------- predictions

    def _model(self) -> Any:
        return self.estimators_[0] if hasattr(self, "estimators_") else self.estimator_

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        check_is_fitted(self, "classes_")
        if not hasattr(self, "estimators_"):
            return self._calibrated(self.estimator_, self.calibrator_, X)
        pairs = zip(self.estimators_, self.calibrators_, strict=True)
        return np.asarray(np.mean([self._calibrated(model, calibrator, X) for model, calibrator in pairs], axis=0))

    def _calibrated(self, model: Any, calibrator: Any, X: Any) -> NDArray[Any]:
        if isinstance(calibrator, SamplingCorrection) and calibrator.classes:
            places, matrix = _places(calibrator, self.classes_), self._matrix(model, X, self.classes_)
            out = np.empty_like(matrix)
            out[:, places] = calibrator.predict_proba(matrix[:, places])
            return out
        if not _is_of_classes(calibrator):
            return both_classes(np.asarray(calibrator.transform(self._scores(model, X, self.classes_))))
        matrix = self._matrix(model, X, self.classes_)
        if isinstance(calibrator.map_, TopMap):
            return calibrator.map_.of_every_class(matrix)
        return np.asarray(calibrator.predict_proba(matrix))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest calibrated probability; the model's own class for maps of top classes."""
        check_is_fitted(self, "classes_")
        if isinstance(getattr(getattr(self, "calibrator_", None), "map_", None), TopMap):
            named = self.calibrator_.map_.labels(self._matrix(self.estimator_, X, self.classes_))
            return np.asarray(self.classes_[named[:, 0]])
        return super().predict(X)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted map as JSON, without the model; :func:`calibrant.load` reads it back.

        Parameters
        ----------
        path
            File to write. Apply the map in it to the scores of the same model.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(getattr(self, "calibrator_", None), "save"):
            what = "several maps" if hasattr(self, "calibrators_") else "a correction that was not fitted"
            raise InputError("path", f"is for one fitted map, and the classifier has {what}", "use joblib.dump")
        self.calibrator_.save(path)

    def certificate(self, alpha: float | None = None) -> Certificate | NoCertificate:
        """The guarantee of the fitted map, or the reason why there is none; ``alpha`` defaults to the calibrator's."""
        check_is_fitted(self, "classes_")
        if hasattr(self, "estimators_"):
            return AVERAGED
        return cast("Certificate | NoCertificate", self.calibrator_.certificate(alpha))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """For notebooks: the fitted map in words, above scikit-learn's diagram."""
        from calibrant.notebook import stacked, text_block

        diagram: dict[str, str] = super()._repr_mimebundle_(**options)
        maps = [self.calibrator_] if hasattr(self, "calibrator_") else getattr(self, "calibrators_", [])
        if "text/html" in diagram and maps:
            diagram["text/html"] = stacked(*(text_block(str(each)) for each in maps), diagram["text/html"])
        return diagram

    def __sklearn_tags__(self) -> Any:
        """Several classes, if the calibrator takes them."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = (
            self.calibrator is None
            or isinstance(self.calibrator, MulticlassCalibrator)
            or (isinstance(self.calibrator, SamplingCorrection) and bool(self.calibrator.classes))
        )
        return tags


def _check_prefit(estimator: Any) -> None:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise NotFittedError(
            f"{type(estimator).__name__} is not fitted: fit it first on other rows, or pass cv=5 to fit it here"
        ) from None


def _automatic(size: int) -> Calibrator:
    """The calibrator that is used by default; loaded only then."""
    from calibrant.calibrators.auto import AutoCalibrator
    from calibrant.calibrators.multiclass.auto import MulticlassAutoCalibrator

    return AutoCalibrator() if size <= 2 else MulticlassAutoCalibrator()


def _places(correction: SamplingCorrection, classes: NDArray[Any]) -> list[int]:
    """Where the model has the classes that the correction names; they must be the same."""
    texts = [key_text(value, "y") for value in classes.tolist()]
    if sorted(map(str, texts)) != sorted(correction.classes):
        raise InputError(
            "calibrator",
            f"is for the classes {', '.join(correction.classes)}, but the model has {', '.join(map(str, texts))}",
            "name every class of the model as in y",
        )
    return [texts.index(name) for name in correction.classes]


def _refuse_ranks(calibrator: Any, size: int) -> None:
    """Raise an error if the calibrator has a map for each of several ranks: rows could sum to more than 1."""
    claims = calibrator._aim().claims(size) if hasattr(calibrator, "_aim") else ()
    if any((claim.rank or 0) > 1 for claim in claims):
        raise InputError(
            "calibrator",
            f"has separate maps of the {len(claims)} most likely classes, whose probabilities can sum to more than 1",
            "pass TopLabelHistogramBinning() or a class-wise calibrator, or fit it to the model's scores yourself",
        )


def _takes_matrix(calibrator: Any, classes: NDArray[Any]) -> bool:
    """Whether the calibrator gets one column per class; with two classes those of one score do not."""
    return isinstance(calibrator, MulticlassCalibrator) and not (
        len(classes) == 2 and isinstance(calibrator, BinaryCalibrator)
    )


def _is_of_classes(calibrator: Any) -> bool:
    return isinstance(calibrator, Calibrator) and calibrator._of_classes


def _names(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes as a map of classes can name them: themselves, or else their text, or their numbers."""
    values = classes.tolist()
    try:
        texts = [key_text(value) for value in values]
    except InputError:
        texts = [str(value) for value in values]
        values = texts
    usable = len(set(texts)) == len(texts) and all(texts)
    return np.array(values) if usable else np.arange(len(values))
