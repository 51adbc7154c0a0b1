"""What a document holds, and whether its parts belong together."""

from __future__ import annotations

from typing import Any, NamedTuple

from calibrant.guarantees.certificate import Certificate
from calibrant.guarantees.provenance import ClassProvenance, Provenance
from calibrant.guarantees.refusal import Refusal
from calibrant.maps import ClassMap, Map


class Content(NamedTuple):
    """What a document holds."""

    map: Map
    provenance: Provenance | ClassProvenance | None
    certificate: Certificate | Refusal | None

    def check(self) -> None:
        """Refuse a certificate of another map or of rows that cannot carry it, and provenance of other classes."""
        map_, origin, promise = self
        if isinstance(origin, ClassProvenance if isinstance(map_, ClassMap) else Provenance):
            _check_origin(map_, origin)
        elif origin is not None:
            raise ValueError("the provenance is of rows that this map does not take")
        if promise is None or isinstance(promise, Refusal):
            return
        if not _describes(promise, map_, origin):
            raise ValueError("the certificate is not about this map")
        if origin is not None and not promise.rests_on(origin):
            raise ValueError("rows as the provenance describes them cannot carry this certificate")


def _check_origin(map_: Map, origin: Any) -> None:
    if isinstance(map_, ClassMap):
        if len(origin.class_mass) != len(map_.classes):
            raise ValueError("the provenance is of another number of classes")
        origin.as_written(map_.classes)


def _describes(promise: Certificate, map_: Map, origin: Any) -> bool:
    kind = "probability" if origin is None else origin.kind
    return promise.describes(map_) and (isinstance(map_, ClassMap) or promise.kind == kind)
