"""Cross Venn-Abers prediction: one model and one Venn-Abers calibrator per fold, merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.binary.venn_abers import VennAbers
from calibrant.calibrators.scoring import ScoringClassifier, Target, refuse_many
from calibrant.fits.venn_abers import merged_pairs
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.numerics import Floats
from calibrant.tallies import Tally


@dataclass(eq=False, repr=False)
class CrossVennAbers(ScoringClassifier):
    r"""Cross Venn-Abers: one model and one :class:`VennAbers` calibrator per fold, merged.

    .. math:: p(x) = \frac{\bar p_1(x)}{\bar q_0(x) + \bar p_1(x)}, \qquad
              \bar p_1 = \prod_{k=1}^{K} p_{1,k}^{1/K}, \qquad
              \bar q_0 = \prod_{k=1}^{K} (1 - p_{0,k})^{1/K},

    where :math:`p_{0,k}(x), p_{1,k}(x)` are the two probabilities of the score of x by the model of fold k, calibrated
    on the rows of fold k, which that model was not trained on. So every row is used for both models and calibration.
    The point prediction is never 0 or 1.

    Parameters
    ----------
    estimator
        The classifier; its ``predict_proba`` (else ``decision_function``) gives the score.
    cv : int, splitter or list of (train, test)
        Folds; an integer gives stratified folds.
    weight_type : {"importance", "frequency"}
        Meaning of ``sample_weight`` for the calibration; see :meth:`BinaryCalibrator.fit`. Models get the weights
        unchanged.
    n_jobs : int, optional
        As in :class:`CalibratedClassifier`.

    Attributes
    ----------
    classes_
        Labels, sorted; models may have their columns in another order.
    estimators_, calibrators_ : list
        The K models and the K fitted :class:`VennAbers`.
    n_features_in_, feature_names_in_
        Those of the models, if they have them.

    Notes
    -----
    Edge cases: a fold whose training rows have one class is an error.
    Guarantee: no finite-sample guarantee. Each of the K pairs has that of :class:`VennAbers`; merging them loses it
    (Vovk, Petej and Fedorova 2015, section 3). There is no single map to save: all K models stay in use. For one model
    and one map see :class:`CalibratedClassifier`.
    Cost: K fits of the model; predictions use all K models.

    References
    ----------
    Vovk, Petej and Fedorova (2015), sections 3 and 4.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=400) > 0, "yes", "no")
    >>> model = CrossVennAbers(LogisticRegression()).fit(X, y)
    >>> model.predict_proba([[0.3, 0.0]]).round(3).tolist()
    [[0.449, 0.551]]
    >>> p0, p1 = model.pair([[0.3, 0.0]])
    >>> p0.round(3).item(), p1.round(3).item()
    (0.509, 0.602)
    """

    estimator: Any
    _: KW_ONLY
    cv: int | BaseCrossValidator | Iterable[Any] = 5
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
        """Fit a model and a calibrator for each fold.

        Parameters
        ----------
        X, y
            Rows, and labels of two classes. The models get them as they are passed: frames stay frames, and the models
            decide about missing values.
        sample_weight, groups, **fit_params
            As in :meth:`CalibratedClassifier.fit`.

        Returns
        -------
        self
            The fitted classifier.
        """
        target, kind = Target.of(y), self._kind()
        classes = target.found
        if len(target.found) > 2:
            raise refuse_many(
                f"has {len(target.found)} classes, and Venn-Abers prediction is for two",
                "pass the model to CalibratedClassifier with cv=5 and ensemble=True",
            )
        arguments = self._arguments(target, sample_weight, groups, fit_params)
        splits = self._splits(self.cv, X, target, arguments)
        folds = list(
            self._folds(
                splits, X, target.given, arguments.model, lambda model, rows: self._scores(model, rows, classes)
            )
        )
        events, weight = target.codes(classes) == 1, arguments.weight
        tallies = [
            Tally.from_arrays(
                fold.scores,
                events[fold.rows],
                None if weight is None else weight[fold.rows],
                weight_type=self.weight_type,
                score_type=kind,
            )
            for fold in folds
        ]
        self.calibrators_ = [VennAbers().fit_tally(tally) for tally in tallies]
        self.classes_, self.estimators_ = target.sorted_as(folds[0].model), [fold.model for fold in folds]
        return self

    def _model(self) -> Any:
        return self.estimators_[0]

    def pair(self, X: ArrayLike) -> tuple[Floats, Floats]:
        r"""The merged probabilities :math:`1 - \bar q_0` and :math:`\bar p_1` of each row.

        The point prediction is computed from them. They are not bounds: where folds disagree, the first can exceed the
        second. The pairs of a fold k are ``calibrators_[k].interval(...)`` of the scores of ``estimators_[k]``.
        """
        return self._merged(X)[:2]

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities, one column per entry of ``classes_``."""
        p = self._merged(X)[2]
        return np.column_stack([1.0 - p, p])

    def _merged(self, X: ArrayLike) -> tuple[Floats, Floats, Floats]:
        check_is_fitted(self, "calibrators_")
        pairs = [
            calibrator.interval(self._scores(model, X, self.classes_))
            for model, calibrator in zip(self.estimators_, self.calibrators_, strict=True)
        ]
        p0, p1 = (np.stack(each) for each in zip(*pairs, strict=True))
        return merged_pairs(p0, p1)

    def certificate(self, alpha: float | None = None) -> NoCertificate:
        """The reason why there is no certificate, whatever ``alpha``."""
        check_is_fitted(self, "calibrators_")
        return NoCertificate(
            NoCertificateCode.NO_THEOREM,
            "merging the folds of cross Venn-Abers loses the guarantee of each fold (Vovk, Petej and Fedorova 2015): "
            "use CalibratedClassifier with a fitted model and HistogramBinning if you need a certificate",
        )
