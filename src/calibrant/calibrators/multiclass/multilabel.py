"""Multi-label targets: one binary calibrator for each label, with one printout."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from calibrant.arrays.columns import check_option
from calibrant.arrays.sides import check_weights
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.base import Calibrator, Fit
from calibrant.calibrators.binary.base import BinaryCalibrator, check_calibrator
from calibrant.guarantees.certificate import Coverage, IntervalName
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.provenance import MulticlassProvenance, Sampling, library_version
from calibrant.maps import PerClassMap
from calibrant.messages import InputError, Note, Voice, note
from calibrant.numerics import row_fingerprint
from calibrant.reading import read
from calibrant.selection.losses import NAMES

MAX_SHOWN = 20
"""Labels that are printed; ``labels_`` has all."""

SEVERAL = NoCertificate(
    NoCertificateCode.SEVERAL_MAPS,
    "a certificate is for one map, but each label has its own: ask that of a label, labels_[name].certificate()",
)


@note("of-label")
def of_label(voice: Voice, label: str, about: Note) -> str:
    """A note on the rows of one label."""
    return f"{label}: {about.say(voice)}"


def label_problems(scores: Any, y: Any) -> dict[str, tuple[NDArray[Any], NDArray[np.uint8]]]:
    """Scores and labels of each label by its name: that of its column, or else its number from 0.

    Examples
    --------
    >>> problems = label_problems([[0.2, 0.9], [0.6, 0.7]], [[0, 1], [1, 1]])
    >>> {name: (s.tolist(), label.tolist()) for name, (s, label) in problems.items()}
    {'0': ([0.2, 0.6], [0, 1]), '1': ([0.9, 0.7], [1, 1])}
    """
    given = read(scores, y, call="fit")
    if given.kind != "labels":
        fix = "pass a matrix of 0 and 1 with one column per label; classes have one label per row"
        raise InputError("y", "is not a target of several labels", fix)
    names = map(str, given.classes or range(given.y.shape[1]))
    return {
        name: (np.ascontiguousarray(s), label) for name, s, label in zip(names, given.scores.T, given.y.T, strict=True)
    }


@dataclass(eq=False, repr=False)
class MultilabelCalibrator(Calibrator):
    """One binary calibrator for each label of a multi-label target.

    Each column of scores is the probability of one label, and a row may have several labels or none. Labels are
    calibrated separately, so rows need not sum to 1.

    Parameters
    ----------
    calibrator : calibrator, optional
        Calibrator of one score, cloned for each label; by default ``AutoCalibrator()``.
    random_state : int
        Seed of the automatic choices.

    Attributes
    ----------
    labels_ : dict of str to calibrator
        The fitted calibrator of each label.
    map_ : PerClassMap
        The map of each label.

    Notes
    -----
    Edge cases: a label with one class in all rows keeps its scores, with a note.
    Guarantee: no finite-sample guarantee for all labels together; ``labels_[name].certificate()`` gives that of one.
    Cost: that of the calibrator for each label.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random((2000, 2))
    >>> y = rng.random((2000, 2)) < np.column_stack([p[:, 0] ** 2, p[:, 1]])
    >>> cal = MultilabelCalibrator().fit(p, y)
    >>> cal.transform([[0.5, 0.5]]).round(1).tolist()
    [[0.3, 0.5]]
    """

    labels_: dict[str, BinaryCalibrator] = field(init=False)

    calibrator: BinaryCalibrator | None = None
    _: KW_ONLY
    random_state: int = 0

    def fit(
        self,
        scores: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        weight_type: Literal["importance", "frequency"] = "importance",
        groups: ArrayLike | None = None,
        time: ArrayLike | None = None,
        sampling: Sampling = "independent",
    ) -> Self:
        """Fit to a matrix of probabilities and a matrix of labels.

        Parameters
        ----------
        scores
            One column of probabilities per label: an array or a frame.
        y
            A matrix of 0 and 1 with the same columns.
        sample_weight, weight_type, groups, time, sampling
            As for one score, see :meth:`BinaryCalibrator.fit`.

        Returns
        -------
        self
            The fitted calibrator.
        """
        check_option("sampling", sampling, get_args(Sampling))
        if sampling == "independent":
            sampling = "grouped" if groups is not None else "time-ordered" if time is not None else "independent"
        base = AutoCalibrator(random_state=self.random_state) if self.calibrator is None else self.calibrator
        check_calibrator(base)
        problems = label_problems(scores, y)
        described: dict[str, Any] = {"weight_type": weight_type, "groups": groups, "time": time, "sampling": sampling}
        self.labels_, notes = {}, []
        for name, (s, hits) in problems.items():
            try:
                one = clone(base).fit(s, hits, sample_weight, score_type="probability", **described)
            except InputError as problem:
                raise InputError(problem.subject, problem.problem, f"{problem.fix} (label {name!r})") from None
            self.labels_[name] = one
            notes += [of_label(name, each) for each in one.notes_]
        maps = tuple(one.map_ for one in self.labels_.values())
        self._set(Fit(PerClassMap(tuple(problems), maps, "probability", False)), tuple(notes))
        matrix = np.column_stack([s for s, _ in problems.values()]).astype(np.float64)
        hits = np.column_stack([label for _, label in problems.values()])
        mass: Any = np.ones(len(matrix), dtype=np.int64)
        if sample_weight is not None:
            mass = check_weights(sample_weight, weight_type, len(matrix))[0]
        codes = np.unique(hits, axis=0, return_inverse=True)[1].reshape(-1)
        counted = sample_weight is None or weight_type == "frequency"
        states = {one.status_ for one in self.labels_.values()}
        self.provenance_ = MulticlassProvenance(
            method=type(self).__name__,
            score_type="independent",
            n=float(mass.sum()),
            class_mass=(hits * mass[:, None]).sum(axis=0).astype(np.float64),
            weight_type="frequency" if counted else "importance",
            sampling=sampling,
            fingerprint=f"{row_fingerprint(matrix, codes, mass):016x}",
            library=library_version(),
            status=next(each for each in ("calibrated", "kept", "uncalibrated") if each in states),
        )
        self.n_features_in_ = len(problems)
        return self

    def _certify(self, alpha: float, interval: IntervalName, coverage: Coverage) -> NoCertificate:
        return SEVERAL

    def _fitted_to(self) -> str:
        return f"{self.provenance_.n:,.12g} rows with {len(self.labels_):,} labels"

    def _describe(self, voice: Voice) -> str:
        lines = [self._line(name) for name in list(self.labels_)[:MAX_SHOWN]]
        more = len(self.labels_) - len(lines)
        return "\n  ".join([*lines, *([f"and {more:,} more labels."] if more else [])])

    def _line(self, name: str) -> str:
        one = self.labels_[name]
        data = f"{name}: {one.provenance_.events:,.6g} of {one.provenance_.n:,.6g} rows"
        if not isinstance(one, AutoCalibrator):
            return f"{data}; {one.map_!r}."
        chosen = "original model" if one.choice_ == "identity" else one.choice_
        if np.isnan(one.change_.value):
            return f"{data}; {chosen}."
        numbers = f"{one.before_.value:.4f} -> {one.after_.value:.4f} ({one.change_.value:+.4f})"
        return f"{data}; {chosen}; {NAMES[one.loss]} {numbers}."
