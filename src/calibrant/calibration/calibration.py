"""A calibration: how it is applied, stored and loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import check_scores
from calibrant.arrays.columns import is_tensor, refuse_names
from calibrant.arrays.rows import event_of
from calibrant.calibration.exportable import Exportable, ignores_groups
from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.content import Content
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import UNCALIBRATED, MulticlassProvenance, Provenance
from calibrant.maps import Columns, Map, MulticlassMap, PathMap, TopMap
from calibrant.maps.base import by_name, needed_columns, unwrapped
from calibrant.maps.classes import top_labels
from calibrant.messages import Advice, Drawn, InputError, Shown, count_text
from calibrant.numerics import to_float32
from calibrant.visible import visible

if TYPE_CHECKING:
    from calibrant.export.scorer import Scorer
    from calibrant.maps.paths import PathForecast


@dataclass(frozen=True)
class Calibration(Drawn, Exportable, Shown):
    """A fitted map with its provenance and its certificate. :func:`load` returns it; it needs only numpy.

    Parameters
    ----------
    map : Map
        A map of one score, or a multiclass map.
    provenance : Provenance or MulticlassProvenance, optional
        Method and data of the fit.
    certificate : Certificate or NoCertificate, optional
        The guarantee of the map, or the reason why there is none.

    Notes
    -----
    Guarantee: that of ``certificate``, if there is one; a bare map has no finite-sample guarantee.

    Examples
    --------
    >>> from calibrant.maps import LogitAffineMap, SoftmaxMap
    >>> text = Calibration(LogitAffineMap(0.8, -0.1)).to_json()
    >>> Calibration.from_json(text).transform([0.5]).round(3).tolist()
    [0.475]
    >>> cooler = Calibration(SoftmaxMap(("cat", "dog"), [2.0], [], "probability", 1e-9))
    >>> cooler.transform([[0.25, 0.75]]).round(3).tolist(), cooler.predict([[0.25, 0.75]]).tolist()
    ([[0.1, 0.9]], ['dog'])
    """

    map: Map
    provenance: Any = None
    """A :class:`Provenance`; for several classes a :class:`MulticlassProvenance`."""
    certificate: Certificate | NoCertificate | None = None

    def __post_init__(self) -> None:
        """Check that this is a map, and that certificate and provenance belong to it."""
        if not isinstance(self.map, Map):
            fix = "forecaster.freeze()" if hasattr(self.map, "freeze") else "one of calibrant.maps, or calibrator.map_"
            raise InputError("map", f"must be a Map, not {type(self.map).__name__}", f"pass {fix}")
        self._content.check()

    @property
    def _content(self) -> Content:
        return Content(self.map, self.provenance, self.certificate)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns; none for a map of one score."""
        return self.map.classes if isinstance(self.map, MulticlassMap) else ()

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in the order of the columns, as written in the labels of the fit."""
        written = bool(self.classes) and self.provenance is not None
        return np.array(self.provenance.as_written(self.classes) if written else self.classes)

    @property
    def score_type(self) -> Any:
        """Type of the input scores: that of the fitted scores, else that of the map, else probabilities."""
        return self._content.score_type

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of the hash of the document, which identify a map."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def midpoints(self) -> Calibration:
        """The calibration with the output of each bin in the middle of its interval; see :func:`midpoint_map`.

        Epsilon is then as small as the certificate allows; the outputs lean toward 1/2.

        Returns
        -------
        Calibration
            With the moved map and its certificate.

        Examples
        --------
        >>> from calibrant import HistogramBinning
        >>> cal = HistogramBinning(1, strategy="width").fit([0.2] * 100, [1] * 2 + [0] * 98)
        >>> moved = cal.calibration_.midpoints()
        >>> moved.certificate.epsilon < cal.certificate().epsilon
        True
        """
        from calibrant.guarantees.midpoints import midpoint_map  # not needed to fit and apply

        if not isinstance(self.certificate, Certificate):
            raise InputError("certificate", "is missing, so there are no intervals", "fit HistogramBinning")
        moved, certificate = midpoint_map(self.certificate)
        return replace(self, map=moved, certificate=certificate)

    def with_origin(
        self,
        *,
        fitted_at: datetime | str | None = None,
        first_day: date | str | None = None,
        last_day: date | str | None = None,
        source: str | Sequence[str] | None = None,
        model: str | None = None,
        model_version: str | None = None,
        parent: Calibration | str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Calibration:
        """The same calibration with a statement of where it comes from, which its document keeps.

        What is not passed stays as it was stated before.

        Parameters
        ----------
        fitted_at
            Time of the fit, with its time zone; if none was stated, by default now, in UTC. Pass it to get the same
            document again.
        first_day, last_day
            First and last day of the rows, such as those of a window of a store.
        source
            Files, tables or stores of the rows.
        model, model_version
            Name and version of the model whose scores are calibrated.
        parent
            The calibration that this one replaces, or its fingerprint.
        meta
            Further entries, such as a ticket or a commit; earlier entries with other keys are kept.

        Returns
        -------
        Calibration
            A copy; entries are in ``provenance``. It needs a provenance, which every fit gives.

        Examples
        --------
        >>> from calibrant import PlattScaling
        >>> cal = PlattScaling().fit([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]).calibration_
        >>> stated = cal.with_origin(fitted_at="2026-03-08T06:00:00+00:00", model="ctr", model_version="14")
        >>> stated.provenance.model, Calibration.from_json(stated.to_json()).provenance.fitted_at
        ('ctr', '2026-03-08T06:00:00+00:00')
        """
        if self.provenance is None:
            raise InputError(
                "origin", "needs a map that was fitted, and this one has no provenance", "fit a calibrator"
            )
        stated = self.provenance.with_stated(
            fitted_at=fitted_at,
            first_day=first_day,
            last_day=last_day,
            source=source,
            model=model,
            model_version=model_version,
            parent=parent.fingerprint if isinstance(parent, Calibration) else parent,
            meta=meta,
        )
        return replace(self, provenance=stated)

    # ------------------------------------------------------------------------------------------------------- applying

    @overload
    def transform(self, scores: Any, score: str, by: Any = None, *, source: Any = None, name: str = ...) -> Any: ...

    @overload
    def transform(
        self, scores: ArrayLike, score: Columns | None = None, by: Columns | None = None, *, source: Any = None
    ) -> NDArray[Any]: ...

    @overload
    def transform(
        self, scores: Any, score: Any = None, by: Any = None, *, source: Any = None, name: str = ...
    ) -> Any: ...

    def transform(
        self, scores: Any, score: Any = None, by: Any = None, *, source: Any = None, name: str = "calibrated"
    ) -> Any:
        """Calibrated probabilities, equal to those of the calibrator; float32 in gives float32 out, NaN gives NaN.

        Parameters
        ----------
        scores
            Scores of one column, or two columns as in the fit; a frame, if ``score`` names its column; or, for a
            multiclass map, a matrix or a frame with one column for each class, found by name.
        score
            Column of scores, if ``scores`` is a frame; otherwise segments may be passed here, as second argument.
        by, source
            Segments, for a map by group, or features, for a tree: one column, or columns by name; ``source`` is an
            alias of ``by``. In a frame, ``by={"region": "area_code"}`` gives the names of the columns there.
        name
            Name of the new column of a frame.

        Returns
        -------
        array, Series, tensor or frame
            Probabilities; two columns for two columns of scores. A pandas or polars Series of scores gives a Series of
            the same index and name. A tensor (torch, JAX, CuPy, the array API) gives a tensor of its library on its
            device, in float64 for float64 and integers, else in float32. For a frame with ``score``, the same kind of
            frame with the column ``name`` added; see :func:`calibrant.engine.apply`. For a multiclass map, one column
            for each of ``map.outputs``, in the form of the input; a row with a missing score has no probabilities.
        """
        column, groups = _score_and_groups(score, by, source)
        if self.classes:
            if column is not None or (groups is not None and not self.map.columns and not ignores_groups(self)):
                raise InputError("scores", "have one column per class and need no other column", "pass them alone")
            matrix, rebuild = self._checked_rows(scores)
            return rebuild(self.map.apply(matrix, self._groups_of_rows(scores, groups)), self.map.outputs)
        if column is not None:
            from calibrant.engine.columns import apply  # here, so that arrays load no engine

            return apply(self, scores, column, name=name, by=self._renamed(groups))
        refuse_names("transform", by=groups)
        if groups is not None and ignores_groups(self):
            groups = None
        event = self.event(scores)
        checked = check_scores(scores if event is None else event.scores, self.score_type)
        found = self.map.apply(checked, needed_columns(self.map, groups, "by"))
        if event is None:
            return self._returned(scores, found)
        from calibrant.arrays.multiclass.frames import rebuilt  # here: few calls have two columns

        both = both_classes(found)
        return rebuilt(scores, both if event.column == 1 else both[:, ::-1], event.columns)

    def event(self, scores: Any) -> Any:
        """The scores of the event, if these are two columns as in the fit; None for one column or several classes."""
        if self.classes:
            return None
        fitted = (getattr(self.provenance, "column", 1), getattr(self.provenance, "columns", ()))
        return event_of(scores, score_type=self.score_type, fitted=fitted)

    @staticmethod
    def _returned(scores: Any, found: NDArray[Any]) -> Any:
        """Results for a Series or a tensor in the same form; otherwise as they are."""
        if type(scores).__name__ == "Series":
            return _like_series(scores, found)
        if not is_tensor(scores):
            return found
        from calibrant.arrays.tensors import as_given  # here: few calls have tensors

        return as_given(scores, found)

    def _renamed(self, by: Any) -> dict[str, str]:
        """Names of the columns of groups in a frame, where they differ from those in the map."""
        needed = self.map.columns
        if by is None or ignores_groups(self):
            return {}
        if isinstance(by, Mapping) and all(isinstance(name, str) for name in by.values()):
            return dict(by)
        names = [by] if isinstance(by, str) else list(by) if isinstance(by, list | tuple) else []
        if len(names) == len(needed) == 1:
            return {needed[0]: names[0]}
        if names and set(needed) <= set(names):
            return {}
        raise InputError(
            "by", "does not name columns of the frame", "leave it out, or pass {'name in the map': 'name in the frame'}"
        )

    def _groups_of_rows(self, scores: Any, by: Any) -> dict[str, Any] | None:
        """The groups that a map of several classes needs, if not passed from columns of the frame of scores."""
        if not self.map.columns:
            return None
        refuse_names("transform", by=by)
        frame = by_name(scores)
        if by is None and isinstance(frame, Mapping):
            by = {name: frame[name] for name in self.map.columns if name in frame}
        return needed_columns(self.map, by, "by")

    def _checked_rows(self, scores: Any) -> Any:
        """A checked matrix of class scores, and a function that returns results in the form of the input."""
        from calibrant.arrays.multiclass.rows import check_class_scores  # here: maps of one score do without

        columns = self.provenance.columns if isinstance(self.provenance, MulticlassProvenance) else ()
        map_ = self._class_map
        return check_class_scores(scores, map_.classes, self.score_type, columns, masked=lambda: map_.keeps_zeros)

    @property
    def _class_map(self) -> MulticlassMap:
        if not isinstance(self.map, MulticlassMap):
            raise InputError("map", "is a map of one score, but a multiclass map is needed", "use transform")
        return self.map

    def predict_proba(self, scores: Any) -> Any:
        """Probabilities of several classes as in :meth:`transform`, as an array also for a frame."""
        found = self.map.apply(self._checked_rows(scores)[0], self._groups_of_rows(scores, None))
        return self._returned(scores, found)

    def predict(self, scores: Any) -> NDArray[Any]:
        """The most likely class after calibration, as written in the labels of the fit.

        A map of top classes keeps the class predicted by the model.
        """
        return np.asarray(self.classes_[self.predict_codes(scores)])

    def predict_codes(self, scores: Any) -> NDArray[np.intp]:
        """Like :meth:`predict`, as indices into ``classes``."""
        matrix, _ = self._checked_rows(scores)
        if np.isnan(matrix[:, 0]).any():
            row = int(np.isnan(matrix[:, 0]).argmax())
            raise InputError(
                "scores",
                f"has a missing value at row {row} counted from 0, so there is no most likely class",
                Advice.DROP_ROWS,
            )
        if isinstance(self.map, TopMap | PathMap):
            return self.map.labels(matrix)[:, 0]
        return top_labels(self.map.apply(matrix, self._groups_of_rows(scores, None)), 1)[:, 0]

    def forecast(self, scores: Any) -> PathForecast:
        """Probabilities along the path of the predicted leaf, for each row; needs a map of a taxonomy."""
        if not isinstance(self.map, PathMap):
            raise InputError(
                "forecast", f"needs a map of a taxonomy, but this is a {type(self.map).__name__}", "use transform"
            )
        return self.map.forecast(self._checked_rows(scores)[0])

    def scorer(self) -> Scorer:
        """The map as a plain Python function of one float, for services that score one case at a time.

        ``score(p)`` is the probability of one score, ``score(p, "north")`` that of a map by segment, with one segment
        for each of ``map.columns``. It does not allocate arrays, may be called from several threads, and costs about as
        much as the formula written inline. None and NaN give NaN, and so does a number that is not a probability, where
        scores are probabilities; anything else is read and refused as in :meth:`transform`.
        Tables give the same doubles as :meth:`transform`; curves differ from it by at most the last bit of ``math.log``
        and ``math.exp`` against numpy's.

        Returns
        -------
        callable
            A function of a score, and of segments if the map needs them, that returns a float. Functions cannot be
            pickled: build one in each process.

        Examples
        --------
        >>> from calibrant.maps import LogitAffineMap
        >>> score = Calibration(LogitAffineMap(0.8, -0.1)).scorer()
        >>> round(score(0.5), 3)
        0.475
        """
        from calibrant.export.scorer import scorer_of  # here, so that reading a document loads no exports

        if self.classes:
            raise InputError(
                "scorer", f"needs a map of one score, but this one has {len(self.classes)} classes", "use transform"
            )
        kind = self.score_type
        score = scorer_of(self.map, self._bounded, lambda s: float(check_scores([s], kind)[0]))
        return (lambda s, *_: score(s)) if ignores_groups(self) else score

    # -------------------------------------------------------------------------------------------------------- storing

    def to_json(self) -> str:
        """The document as JSON text; numbers are preserved bit for bit."""
        from calibrant.export.documents import written

        return written(self._content)

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Read a document; anything unexpected raises :class:`DocumentError`."""
        from calibrant.export.documents import read

        return cls(*read(text))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the JSON document to ``path``, completely or not at all; :func:`calibrant.load` reads it."""
        from calibrant.arrays.paths import local_path  # here: only files need it
        from calibrant.export.files import write_whole

        target = local_path(path)
        refuse_other_format(target)
        write_whole(target, self.to_json() + "\n")

    def __str__(self) -> str:
        """Map, provenance and certificate."""
        lines, data = [f"Calibration: {visible(self.map.words, 1_000)}"], self.provenance
        if data is not None:
            if data.status == "uncalibrated":
                lines.insert(0, UNCALIBRATED)
            lines.append(f"  {visible(data.method)} fitted to {fitted_rows(data)}")
            lines += [f"  {data.origin}"] if data.origin else []
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        return "\n".join(lines)


ROWS_OF = {"by-class": " (rows as sampled)", "known-ratio": " (rows of the source)"}
"""Which rows are counted, if not those of the population that the map is for."""


def fitted_rows(data: Provenance | MulticlassProvenance) -> str:
    """The rows of a fit in words: their number, or their total weight."""
    kind, total = f"{data.score_type} scores", count_text(data.n)
    weighted = data.weight_type in ("importance", "estimated-ratio", "fractional-labels")
    sampled = ROWS_OF.get(data.weight_type, "")
    if isinstance(data, MulticlassProvenance):
        classes = f"rows of {len(data.class_mass):,} classes"
        return (
            f"{classes} with a total weight of {total}, {kind}" if weighted else f"{total} {classes}{sampled}, {kind}"
        )
    events = count_text(data.events)
    if weighted:
        return f"{kind} with a total weight of {total}, {events} of it events"
    return f"{total} {kind} with {events} events{sampled}"


OTHER_FORMATS = {
    ".joblib": "joblib.dump writes the whole calibrator",
    ".onnx": "export_onnx writes ONNX",
    ".pickle": "pickle.dump writes the whole calibrator",
    ".pkl": "pickle.dump writes the whole calibrator",
    ".skops": "skops.io.dump writes the whole calibrator",
    ".sql": "export_sql writes SQL",
}
"""Endings of file names that stand for another format than JSON, and what writes it."""


def refuse_other_format(path: Path) -> None:
    """Refuse the name of a file in another format: the document is JSON."""
    instead = OTHER_FORMATS.get(path.suffix.lower())
    if instead is not None:
        name = f"{path.stem}.json"
        raise InputError("path", f"ends in {path.suffix}, but save writes JSON", f"pass {name!r}; {instead}")


def both_classes(p: NDArray[Any]) -> NDArray[Any]:
    """Columns ``1 - p`` and ``p``; in float32 neither is rounded to 0 or 1."""
    p = np.asarray(p)
    other = 1.0 - p.astype(np.float64)
    return np.column_stack([to_float32(other) if p.dtype == np.float32 else other, p])


def _like_series(given: Any, values: NDArray[Any]) -> Any:
    """Values as a pandas or polars Series with the index and name of the given one; else unchanged."""
    if np.shape(values) != np.shape(given):
        return values
    if hasattr(given, "iloc"):  # pandas
        return type(given)(values, index=given.index, name=given.name)
    return type(given)(given.name, values) if hasattr(given, "to_arrow") else values


def _score_and_groups(score: Any, by: Any, source: Any) -> tuple[str | None, Any]:
    """The column of scores in a frame, None for arrays; and the groups, from whichever argument they were passed as."""
    column = score if isinstance(score, str) else None
    given = [each for each in (None if column is not None else score, by, source) if each is not None]
    if len(given) > 1:
        raise InputError("by", "was passed twice", "pass the groups of the rows once")
    return column, by_name(given[0]) if given else None


def as_calibration(given: Any) -> Calibration:
    """A Calibration of one score, from itself, a map, a fitted calibrator or a calibrated classifier."""
    found = Calibration(given) if isinstance(given, Map) else unwrapped(given)
    if not isinstance(found, Calibration):
        raise InputError(
            "calibration",
            f"must be a Calibration, a map or a fitted calibrator, got {type(given).__name__}",
            "pass one of them, or calibrant.maps.IdentityMap() for the original probabilities",
        )
    if found.classes:
        raise InputError("calibration", f"must be for one score, but this one has {len(found.classes)} classes")
    return found


def load(path: str | PathLike[str]) -> Calibration:
    """Read a calibration that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        A JSON document, written by ``save`` of a calibration or of a fitted calibrator, or by ``calibrant fit``.

    Returns
    -------
    Calibration
        The map with its provenance and its certificate, for one score or for several classes. Its probabilities equal
        those of the saved one bit for bit. Needs only numpy.

    Raises
    ------
    DocumentError
        If the file is not such a document, or its parts contradict each other. Reading runs no code from the file.

    Notes
    -----
    Guarantee: that of the stored certificate, if there is one.

    Examples
    --------
    >>> import tempfile
    >>> from calibrant.maps import LogitAffineMap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Calibration(LogitAffineMap(0.8, -0.1)).save(f"{folder}/map.json")
    ...     loaded = load(f"{folder}/map.json")
    >>> loaded.transform([0.5]).round(3).tolist()
    [0.475]
    """
    from calibrant.arrays.paths import local_path  # here: only files need them
    from calibrant.export.documents import LARGEST
    from calibrant.export.errors import DocumentError
    from calibrant.export.files import read_bounded

    target = local_path(path)
    try:
        return Calibration.from_json(read_bounded(target, LARGEST))
    except DocumentError as error:
        raise DocumentError(error.where, error.problem, target.name) from None
