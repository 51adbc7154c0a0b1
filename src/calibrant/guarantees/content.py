"""Content of a document (map, certificate, provenance), and whether its parts are consistent."""

from __future__ import annotations

from typing import Any, NamedTuple

from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.no_certificate import NoCertificate
from calibrant.guarantees.provenance import MulticlassProvenance, Provenance
from calibrant.maps import Map, MulticlassMap


class Content(NamedTuple):
    """Map, certificate and provenance of a document."""

    map: Map
    provenance: Provenance | MulticlassProvenance | None
    certificate: Certificate | NoCertificate | None

    @property
    def score_type(self) -> Any:
        """Type of the input scores: that of the fitted scores, else that of the map, else probabilities."""
        if self.provenance is not None:
            return self.provenance.score_type
        return self.map.on if isinstance(self.map, MulticlassMap) else "probability"

    @property
    def bounded(self) -> bool:
        """Whether scores are probabilities: exports give NaN or NULL for other numbers."""
        return self.score_type in ("probability", "independent")

    def check(self) -> None:
        """Reject a certificate of another map or of rows that cannot support it, and provenance of other classes."""
        map_, origin, certificate = self
        if isinstance(origin, MulticlassProvenance if isinstance(map_, MulticlassMap) else Provenance):
            _check_origin(map_, origin)
        elif origin is not None:
            raise ValueError("the provenance describes rows that do not fit this map")
        if certificate is None or isinstance(certificate, NoCertificate):
            return
        if not _describes(certificate, map_, origin):
            raise ValueError("the certificate is not about this map")
        if origin is None and certificate.about.needs_provenance:
            raise ValueError("this certificate needs the provenance of its rows")
        if origin is not None and not certificate.rests_on(origin):
            raise ValueError("rows as the provenance describes them cannot support this certificate")


def _check_origin(map_: Map, origin: Any) -> None:
    if isinstance(map_, MulticlassMap):
        if len(origin.class_mass) != len(map_.classes):
            raise ValueError("the provenance has another number of classes than the map")
        origin.as_written(map_.classes)


def _describes(certificate: Certificate, map_: Map, origin: Any) -> bool:
    kind = "probability" if origin is None else origin.score_type
    return certificate.describes(map_) and (isinstance(map_, MulticlassMap) or certificate.score_type == kind)
