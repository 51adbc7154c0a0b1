"""A fitted map of several classes with what is known and promised about it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays.class_rows import ClassKind, check_class_scores
from calibrant.export.coding import written
from calibrant.guarantees.certificates import Refusal
from calibrant.guarantees.class_promise import ClassPromise
from calibrant.guarantees.provenance import UNCALIBRATED, ClassProvenance
from calibrant.maps import ClassMap, TopMap
from calibrant.maps.classes import top_labels


@dataclass(frozen=True)
class ClassCalibration:
    """A map of several classes, its certificate and its provenance; what :func:`calibrant.load` returns for one.

    Examples
    --------
    >>> from calibrant.maps import SoftmaxMap
    >>> cooler = ClassCalibration(SoftmaxMap(("cat", "dog"), [2.0], [], "probability", 1e-9))
    >>> cooler.transform([[0.25, 0.75]]).round(3).tolist(), cooler.predict([[0.25, 0.75]]).tolist()
    ([[0.1, 0.9]], ['dog'])
    """

    map: ClassMap
    provenance: ClassProvenance | None = None
    certificate: ClassPromise | Refusal | None = None

    parts: ClassVar[dict[str, tuple[str, ...]]] = {"provenance": ("class-provenance",), "certificate": ()}
    """What its document may hold beside the map."""

    def __post_init__(self) -> None:
        """A certificate speaks of one map, and provenance of its classes; refuse to carry them with another."""
        if isinstance(self.certificate, ClassPromise) and not self.certificate.about(self.map):
            raise ValueError("the certificate is not about this map")
        if self.provenance is not None and len(self.provenance.class_mass) != len(self.map.classes):
            raise ValueError("the provenance is of another number of classes")

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns."""
        return self.map.classes

    @property
    def kind(self) -> ClassKind:
        """What the scores are that it takes: those it was fitted on, else what the map says."""
        return self.map.on if self.provenance is None else self.provenance.kind

    def transform(self, scores: Any) -> Any:
        """Calibrated probabilities, one column for each of ``map.outputs``, as an array or the frame that came.

        Columns of a frame are found by the names of the classes. float32 in gives float32 out; a row with a missing
        score has no probabilities.
        """
        matrix, rebuild = self._checked(scores)
        return rebuild(self.map.apply(matrix), self.map.outputs)

    def predict(self, scores: Any) -> NDArray[Any]:
        """The class that is calibrated as the most likely one, by name; a map of top classes keeps the model's own."""
        return np.array(self.classes)[self.predict_codes(scores)]

    def predict_codes(self, scores: Any) -> NDArray[np.intp]:
        """Like :meth:`predict`, as places among ``classes``."""
        matrix, _ = self._checked(scores)
        if isinstance(self.map, TopMap):
            return self.map.labels(matrix)[:, 0]
        return top_labels(self.map.apply(matrix), 1)[:, 0]

    def _checked(self, scores: Any) -> Any:
        columns = () if self.provenance is None else self.provenance.columns
        return check_class_scores(scores, self.classes, self.kind, columns)

    def to_json(self) -> str:
        """The document as text; numbers survive bit for bit."""
        return written(self.map, self.certificate, self.provenance)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the document to ``path``; :func:`calibrant.load` reads it back."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def __str__(self) -> str:
        """Map, origin and promise."""
        told = [repr(self.map)]
        data = self.provenance
        if data is not None and data.state == "uncalibrated":
            told.insert(0, UNCALIBRATED)
        if data is not None:
            told.append(f"  {data.method} fitted to {data.n:,.12g} rows of {len(self.classes)} classes ({data.kind})")
        if self.certificate is not None:
            told.append(f"  {self.certificate}")
        return "\n".join(told)
