"""What the methods for sets of classes share: reading rows, thresholds, sets and the certificate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays.columns import as_set, check_option, read_column
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.multiclass.rows import MulticlassRows, check_class_rows, check_class_scores, is_matrix
from calibrant.arrays.rows import check_rows, check_scores
from calibrant.arrays.score_types import MulticlassScoreType, ScoreType
from calibrant.conformal.classes.sets import ClassSets
from calibrant.conformal.conditional.thresholds import Calibrated, Thresholds, Unseen
from calibrant.conformal.coverage import Coverage
from calibrant.conformal.quantiles import check_alpha
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.messages import InputError
from calibrant.numerics import Floats
from calibrant.reading import located

Empty = Literal["top class", "keep"]

CODED = ({0, 1}, {-1, 1})
"""Labels of two classes whose event is known."""


@dataclass(eq=False)
class ClassConformal(ABC):
    """Base class of methods for sets of classes; a method defines ``_scores``.

    A method gives every class of a row a score, which is low for classes that fit the row. A class is in the set of a
    new row if its score is at most the threshold, the k-th smallest score of the true classes of n calibration rows,
    with k = ceil((1 - alpha)(n + 1)); if k > n, the set holds every class.
    """

    #: Whether rows of probabilities need not sum to 1.
    _loose: ClassVar[bool] = False

    alpha: float = 0.1
    estimator: Any = None
    _: KW_ONLY
    by_class: bool = False
    empty: Empty = "top class"

    def fit(
        self,
        scores: Any,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | str | None = None,
        sample_weight: Any = None,
        classes: Any = None,
        score_type: MulticlassScoreType | None = None,
        score: str | Sequence[str] | None = None,
        label: str | None = None,
    ) -> Self:
        """Find the threshold from calibration rows, which neither the model nor its calibrator was fitted on.

        Parameters
        ----------
        scores
            Matrix or frame with a probability for each class, or one column for two classes: probabilities of the
            event, or its log-odds with ``score_type="logit"``. Logits become probabilities. With an
            ``estimator``: its features.
        y
            The true class of each row.
        groups
            Group of each row, for a guarantee in each group; new rows then need theirs.
        sample_weight
            Density ratio of the new and the calibration population, for rows from another population;
            :func:`calibrant.shift.known_weights` declares one that is known. New rows then need theirs.
        classes
            The labels in the order of the columns; see :func:`calibrant.calibrate`. For one column two labels, the
            event last.
        score_type
            ``"probability"``, ``"logit"`` or ``"independent"``; guessed by default, for a matrix.
        score, label
            Names of the columns of scores and of classes, if ``scores`` is a frame; ``groups`` is then a name too.

        Returns
        -------
        ClassConformal
            The method itself.
        """
        check_alpha(self.alpha)
        self._check()
        if self.estimator is None:
            given = located(scores, y, groups=groups, score=score, label=label, call="fit")
            scores, y, groups = given.scores, given.y, given.groups
        if y is None:
            raise InputError("y", "is missing", "pass the class of each row")
        rows = self._read(scores, y, classes, score_type)
        matrix = probabilities(rows.scores, rows.score_type)
        own = self._scores(matrix)[np.arange(len(rows)), rows.labels]
        self.classes_, self.values_, self.score_type_ = rows.classes, rows.values, rows.score_type
        self.columns_, self.notes_ = rows.columns, rows.notes
        self._calibration = Calibrated(
            own, groups, sample_weight, (rows.labels, rows.classes) if self.by_class else None
        )
        self.thresholds_ = self._calibration.at(self.alpha)
        return self

    def predict_sets(
        self,
        scores: Any,
        alpha: float | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: Any = None,
        unseen: Unseen = "refuse",
    ) -> ClassSets:
        """The sets of new rows.

        Parameters
        ----------
        scores
            As in ``fit``. A row with a missing score has a set of all classes.
        alpha
            Another alpha than that of the method.
        groups
            Group of each row, if ``fit`` had groups.
        sample_weight
            Density ratio of each row, if ``fit`` had weights.
        unseen
            What to do with a group that ``fit`` did not see: ``"refuse"``, or ``"everything"``, a set of all classes,
            which is always right and says nothing.

        Returns
        -------
        ClassSets
            One set per row.
        """
        thresholds = self._fitted(alpha)
        matrix = self._new(scores)
        missing = np.asarray(np.isnan(matrix).any(axis=1))
        limit = thresholds.at(len(matrix), groups=groups, weights=sample_weight, unseen=unseen)
        members = self._scores(np.where(missing[:, None], 0.0, matrix)) <= limit
        members[missing] = True
        filled = None
        if self.empty == "top class":
            filled = np.asarray(~members.any(axis=1))
            members[filled, matrix[filled].argmax(axis=1)] = True
        return ClassSets(members, self.classes_, self.values_, filled, self.certificate(alpha))

    def certificate(self, alpha: float | None = None) -> Coverage | NoCertificate:
        """The guaranteed coverage, or the reason why there is none.

        Parameters
        ----------
        alpha
            Another alpha than that of the method.

        Returns
        -------
        Coverage or NoCertificate
            Prints as a sentence.
        """
        return self._fitted(alpha).certificate(tight=self.empty == "keep")

    # ---------------------------------------------------------------------------------------------- for subclasses

    @abstractmethod
    def _scores(self, p: Floats) -> Floats:
        """Score of every class of every row, low for classes that fit; a function of each row alone."""

    def _check(self) -> None:
        """Refuse options that the method cannot use."""
        check_option("empty", self.empty, ("top class", "keep"))
        if not isinstance(self.by_class, bool | np.bool_):
            raise InputError("by_class", f"must be True or False, not {self.by_class!r}")

    # -------------------------------------------------------------------------------------------------------- rows

    def _read(self, scores: Any, y: Any, classes: Any, score_type: Any) -> MulticlassRows:
        if self.estimator is not None:
            classes = getattr(self.estimator, "classes_", None) if classes is None else classes
            scores = self._estimated(scores)
        self.one_column_ = not is_matrix(scores)
        if self.one_column_:
            return self._read_one_column(scores, y, classes, score_type)
        return check_class_rows(scores, y, classes=classes, score_type=score_type, loose=self._loose)

    def _read_one_column(self, scores: Any, y: Any, classes: Any, score_type: Any) -> MulticlassRows:
        check_option("score_type", score_type, (None, "probability", "logit"))
        self.column_type_: ScoreType = score_type or "probability"
        if classes is None:
            found = as_set(read_column(y, "y"), "y")
            if any(isinstance(label, str) for label in found) or (len(found) == 2 and found not in CODED):
                names = sorted(found, key=str)
                raise InputError(
                    "y",
                    f"holds the labels {first_names([str(name) for name in names])}, and one column of scores does not "
                    "say which of them is the event",
                    f"pass classes={names!r} or classes={names[::-1]!r}, the event last, or a matrix with two columns"
                    if len(names) == 2
                    else "pass classes=, the event last, or a matrix with two columns",
                )
            one = check_rows(scores, y, score_type=self.column_type_)
            return check_class_rows(
                _two_columns(one.scores, self.column_type_), one.labels, classes=(0, 1), score_type="probability"
            )
        names = list(classes)
        if len(names) != 2:
            raise InputError("classes", f"has {len(names)} labels for one column", "pass two of them, the event last")
        columns = _two_columns(check_scores(scores, self.column_type_), self.column_type_)
        return check_class_rows(columns, y, classes=names, score_type="probability")

    def _new(self, scores: Any) -> Floats:
        """Probabilities of new rows."""
        if self.estimator is not None:
            scores = self._estimated(scores)
        if self.one_column_:
            return _two_columns(check_scores(scores, self.column_type_), self.column_type_)
        matrix, _ = check_class_scores(scores, self.classes_, self.score_type_, self.columns_, masked=lambda: True)
        return probabilities(matrix, self.score_type_)

    def _estimated(self, features: Any) -> Any:
        """Probabilities of the estimator."""
        predict = getattr(self.estimator, "predict_proba", None)
        if not callable(predict):
            kind = type(self.estimator).__name__
            raise InputError(
                "estimator", f"has no predict_proba ({kind})", "pass the scores of the model, without estimator"
            )
        return predict(features)

    def _fitted(self, alpha: float | None = None) -> Thresholds:
        if not hasattr(self, "thresholds_"):
            raise InputError(type(self).__name__, "is not fitted", "call fit with calibration rows first")
        return self.thresholds_ if alpha is None else self._calibration.at(check_alpha(alpha))


def probabilities(matrix: Any, score_type: MulticlassScoreType) -> Floats:
    """Scores of classes as probabilities: logits by softmax, each row by itself; others unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> probabilities(np.log([[0.2, 0.8]]), "logit").round(6).tolist()
    [[0.2, 0.8]]
    """
    p = np.asarray(matrix, dtype=np.float64)
    return np.asarray(special.softmax(p, axis=1)) if score_type == "logit" else p


def _two_columns(scores: Any, score_type: ScoreType) -> Floats:
    second = np.asarray(scores, dtype=np.float64)
    if score_type == "logit":
        second = np.asarray(special.expit(second))
    return np.column_stack([1.0 - second, second])
