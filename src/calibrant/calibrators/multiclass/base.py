"""What calibrators of several classes share beyond the others: validation and fit.

A calibrator implements :meth:`ClassCalibrator._fit_classes`, from checked rows to a :class:`Fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays.columns import check_option
from calibrant.arrays.kinds import ClassKind
from calibrant.arrays.multiclass.names import first_names
from calibrant.arrays.multiclass.rows import ClassRows, check_class_rows
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.guarantees.provenance import ClassProvenance, Sampling
from calibrant.maps import ClassMap
from calibrant.maps.classes import top_labels
from calibrant.messages import InputError, Note, Setting, Voice, note, warn

if TYPE_CHECKING:
    pass


class ClassCalibrator(Calibrator):
    """Base of calibrators of a matrix of class scores.

    Attributes
    ----------
    classes_ : ndarray
        The classes in the order of the columns, as they were written in ``y``.
    map_ : ClassMap
        The fitted map: frozen data that applies, prints, compares and exports itself.
    provenance_ : ClassProvenance
        Rows by class, score kind and fingerprint of the data behind it.
    notes_ : tuple of Note
        What was guessed, converted or decided on the way; ``str(note)`` is a sentence.
    """

    def fit(
        self,
        scores: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        weights: Literal["importance", "counts"] = "importance",
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        kind: ClassKind | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to a matrix of class scores and its labels.

        Parameters
        ----------
        scores
            One row per case and one column per class, two or more: an array, or a pandas, polars or pyarrow frame
            whose columns name the classes. Probabilities that sum to 1, or logits.
        y
            The class of each row: text, whole numbers or truth values.
        classes
            The labels in the order of the columns; see :func:`~calibrant.arrays.multiclass.rows.check_class_rows`.
        sample_weight, weights, groups, time, sampling
            As for one score, see :meth:`BinaryCalibrator.fit`.
        kind
            ``"probability"``, ``"logit"`` or ``"independent"``; guessed when not given.
        """
        check_option("sampling", sampling, get_args(Sampling))
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        if y is None:
            raise InputError("y", "is missing", "pass the labels, as in fit(scores, y) or calibrate(scores, y)")
        if isinstance(y, str):
            raise InputError(
                Setting("y", y),
                "looks like the name of a column",
                f"pass the columns of the classes as frame[[...]] and the labels as frame[{y!r}]",
            )
        rows = self._checked_rows(
            scores, y, sample_weight, classes=classes, weights=weights, groups=groups, time=time, kind=kind
        )
        self._fit_rows(rows, sampling)
        _warn_of_order(rows)
        return self

    def _checked_rows(self, scores: Any, y: Any, sample_weight: Any, **options: Any) -> ClassRows:
        """The rows; a calibrator says here which labels it takes beside the classes."""
        return check_class_rows(scores, y, sample_weight, **options)

    def _fit_rows(self, rows: ClassRows, sampling: Sampling = "independent") -> Self:
        self._set(self._fit_classes(rows), (*rows.notes, *_absent(rows)))
        self.classes_ = rows.values
        self.provenance_ = ClassProvenance.of(type(self).__name__, rows, sampling, self._state())
        self.n_features_in_ = len(rows.classes)
        return self

    def _fit_classes(self, rows: ClassRows) -> Fit[ClassMap]:
        """The fitted map, notes, and further attributes; nothing is set here."""
        raise NotImplementedError

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is the most likely one after calibration, as written in ``y``."""
        return np.asarray(self.classes_[self._applicable().predict_codes(scores)])


@note("absent-classes")
def absent_classes(voice: Voice, classes: tuple[str, ...]) -> str:
    """Of classes that no row has."""
    them = "it" if len(classes) == 1 else "them"
    return f"no {voice.nouns.row} has the class {first_names(classes)}: nothing can be learned about {them}"


@note("below-chance")
def below_chance(voice: Voice, right: float, chance: float) -> str:
    """Of columns that may be in another order than the classes."""
    return (
        f"the largest score names the right class in only {100 * right:.3g} % of the {voice.nouns.rows}, and chance in "
        f"{100 * chance:.3g} %: are the columns in the order of classes?"
    )


def _absent(rows: ClassRows) -> tuple[Note, ...]:
    names = tuple(name for name, mass in zip(rows.classes, rows.class_mass, strict=True) if not mass > 0)
    return (absent_classes(names),) if names else ()


def _warn_of_order(rows: ClassRows) -> None:
    """Warn where the largest score is right clearly less often than one that knows nothing of the row would be.

    That one draws a class by the shares in which the largest scores name them, so that a model which names a rare class
    too often is no reason to warn. Four standard errors; columns of which only some are swapped are rarely seen.
    """
    size = len(rows.classes)
    kept = rows.labels < size  # labels beside the classes, as inner nodes of a taxonomy, are no largest score
    mass, labels, top = rows.mass[kept], rows.labels[kept], top_labels(rows.scores, 1)[kept, 0]
    total = float(mass.sum())
    if not total > 0.0:
        return
    named, true = (np.bincount(each, mass, size) / total for each in (top, labels))
    chance = float(np.einsum("k,k->", named, true))
    right = float(mass[top == labels].sum()) / total
    n = total if rows.counts else total**2 / float(np.square(mass).sum())
    if chance - right > 4.0 * np.sqrt(chance * (1.0 - chance) / n):
        warn(below_chance(right, chance))
