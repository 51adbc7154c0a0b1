"""Base class of multiclass calibrators: validation and fit.

A calibrator implements :meth:`MulticlassCalibrator._fit_classes`, from checked rows to a :class:`Fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.multiclass.rows import MulticlassRows, check_class_rows
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.guarantees.provenance import MulticlassProvenance, Sampling
from calibrant.maps import MulticlassMap
from calibrant.messages import InputError, Note, Voice, note, warn
from calibrant.metrics.multiclass.scores import order_notes
from calibrant.reading import read


class MulticlassCalibrator(Calibrator):
    """Base class of calibrators of a matrix with one column of scores per class.

    Attributes
    ----------
    classes_ : ndarray
        The classes in the order of the columns, as they were written in ``y``.
    map_ : MulticlassMap
        The fitted map: a frozen value that can be applied, printed, compared and exported.
    provenance_ : MulticlassProvenance
        Rows by class, score type and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided during the fit; ``str(note)`` is a sentence.
    """

    #: Whether the classes have probabilities of their own, as a classifier needs them.
    _for_classifiers: ClassVar[bool] = True

    def fit(
        self,
        scores: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | str | None = None,
        *,
        score: Sequence[str] | None = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
        weight_type: Literal["importance", "frequency"] = "importance",
        groups: ArrayLike | str | None = None,
        time: ArrayLike | str | None = None,
        score_type: MulticlassScoreType | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to a matrix of class scores and labels.

        Parameters
        ----------
        scores
            One row per case and one column per class, two or more: an array, or a pandas, polars or pyarrow frame
            whose columns name the classes. Probabilities that sum to 1, or logits.
        y
            The class of each row: text, integers or booleans.
        score, label
            Names of the columns of scores and of classes, if ``scores`` is a frame that has both; ``sample_weight``,
            ``groups`` and ``time`` are then names too.
        classes
            The labels in the order of the columns; see :func:`~calibrant.arrays.multiclass.rows.check_class_rows`.
        sample_weight, weight_type, groups, time, sampling
            As for one score, see :meth:`BinaryCalibrator.fit`.
        score_type
            ``"probability"``, ``"logit"`` or ``"independent"``; guessed by default.

        Returns
        -------
        self
            The fitted calibrator.
        """
        check_option("sampling", sampling, get_args(Sampling))
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        sides: dict[str, Any] = {"groups": groups, "time": time, "weight_type": weight_type}
        sides |= {"score": score, "label": label}
        given = read(scores, y, sample_weight, call="fit", most=None, classes=classes, score_type=score_type, **sides)
        if given.kind in ("tally", "labels"):
            what = "is a tally, which has one score" if given.kind == "tally" else "is for several labels"
            raise InputError("scores", what, "pass a matrix with one column per class and one label per row")
        rows = self._checked_rows(given.scores, given.y, given.sample_weight, **given.described)
        self._fit_rows(rows, sampling)
        for each in order_notes(rows):
            warn(each)
        return self

    def _checked_rows(self, scores: Any, y: Any, sample_weight: Any, **options: Any) -> MulticlassRows:
        """The checked rows; subclasses define here which labels are valid besides the classes."""
        return check_class_rows(scores, y, sample_weight, **options)

    def _fit_rows(self, rows: MulticlassRows, sampling: Sampling = "independent") -> Self:
        self._set(self._fit_classes(rows), (*rows.notes, *absent_notes(rows)))
        self.classes_ = rows.values
        self.provenance_ = MulticlassProvenance.of(type(self).__name__, rows, sampling, self._status())
        self.n_features_in_ = len(rows.classes)
        return self

    def _check_settings(self) -> None:
        """Reject invalid settings before any row is read, such as a wrong nested calibrator."""

    def _fit_classes(self, rows: MulticlassRows) -> Fit[MulticlassMap]:
        """The fitted map, notes, and further attributes; nothing is set here."""
        raise NotImplementedError

    def predict(self, scores: Any) -> NDArray[Any]:
        """The most likely class after calibration, as written in ``y``."""
        return np.asarray(self.classes_[self._applicable().predict_codes(scores)])


@note("absent-classes")
def absent_classes(voice: Voice, classes: tuple[str, ...]) -> str:
    """Note on classes without rows."""
    them = "it" if len(classes) == 1 else "them"
    return f"no {voice.nouns.row} has the class {first_names(classes)}: nothing can be estimated for {them}"


def absent_notes(rows: MulticlassRows) -> tuple[Note, ...]:
    """A note on classes without rows."""
    names = tuple(name for name, mass in zip(rows.classes, rows.class_mass, strict=True) if not mass > 0)
    return (absent_classes(names),) if names else ()
