"""JSON documents: known dataclasses to JSON and back, without executing code.

Reading never imports, looks up an attribute by a name from the document, or evaluates text: kinds are keys of a fixed
dict, fields are checked one by one against the dataclass, and any problem raises a :class:`DocumentError`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args

import numpy as np

from calibrant.arrays import ScoreType
from calibrant.arrays.score_types import MulticlassScoreType
from calibrant.export.errors import DocumentError
from calibrant.guarantees.about import ABOUT, ScoreBins
from calibrant.guarantees.auditing import follows
from calibrant.guarantees.bounds import Coverage, IntervalName
from calibrant.guarantees.certificate import About, Certificate
from calibrant.guarantees.content import Content
from calibrant.guarantees.no_certificate import NoCertificate, NoCertificateCode
from calibrant.guarantees.origins import MAY_BE_ADDED, Assumption, BinRule
from calibrant.guarantees.provenance import MulticlassProvenance, Provenance, Sampling, WeightType
from calibrant.maps import (
    CLASS_KINDS,
    KINDS,
    Axis,
    ClassAxis,
    ClassTreeMap,
    Map,
    MulticlassMap,
    PathMap,
    PerClassMap,
    SimplexBinsMap,
    SimplexScheme,
    SoftmaxMap,
    TreeMap,
)
from calibrant.messages import InputError, Phrase

FORMAT = 1
"""Version of the document format. Readers for all earlier versions are kept."""

MAX_DEPTH = 16

LARGEST = 1 << 25
"""Bytes of a document: JSON of this size takes up to a gigabyte of memory, and a map of it seconds to read."""

OTHERS: dict[str, type[Any]] = {
    "certificate": Certificate,
    "no-certificate": NoCertificate,
    "provenance": Provenance,
    "multiclass-provenance": MulticlassProvenance,
}
"""What a document may contain besides maps, by its name there."""


def written(content: Content) -> str:
    """The document as text; numbers are preserved bit for bit."""
    body = {"format": FORMAT, "map": content.map, "certificate": content.certificate, "provenance": content.provenance}
    text = lines({name: encode(part) for name, part in body.items()})
    if len(text) > LARGEST:
        raise InputError(
            "map", f"has a document of more than {LARGEST:,} bytes, which is not read again", "use fewer groups"
        )
    return text


def read(text: str | bytes) -> Content:
    """The content of a document; anything unexpected raises :class:`DocumentError`."""
    body = parse(text)
    if "format" not in body:
        raise DocumentError("the document", "is JSON, but not a calibration saved by Calibrant: it has no format")
    version = body.pop("format")
    if type(version) is not int or version not in _READERS:
        raise DocumentError("format", f"{version!r} is not supported by this version, which reads {sorted(_READERS)}")
    try:
        return _READERS[version](body)
    except DocumentError:
        raise
    except (ValueError, TypeError, OverflowError, KeyError, RecursionError) as problem:
        raise DocumentError("the document", f"does not describe a calibration: {problem}") from None


def _read_1(body: dict[str, Any]) -> Content:
    if set(body) != {"map", "certificate", "provenance"}:
        raise DocumentError("the document", "must have format, map, certificate and provenance, and nothing else")
    map_ = decode(body["map"], KINDS | CLASS_KINDS, ("map",))
    parts = {
        part: None if body[part] is None else decode(body[part], {name: OTHERS[name] for name in names}, (part,))
        for part, names in (CLASS_PARTS if isinstance(map_, MulticlassMap) else PARTS).items()
    }
    content = Content(map_, **parts)
    content.check()
    if isinstance(content.certificate, Certificate) and not follows(content.certificate):
        raise DocumentError("certificate", "has intervals that do not follow from its counts at its alpha")
    if isinstance(content.certificate, Certificate):
        _check_words(content.certificate)
    return content


def _check_words(certificate: Certificate) -> None:
    """Refuse other assumptions and references than those of such a certificate: a reader trusts both."""
    assumed, about = set(certificate.assumptions), certificate.about
    if len(assumed) < len(certificate.assumptions) or not about.assumed <= assumed <= about.assumed | MAY_BE_ADDED:
        raise DocumentError("certificate.assumptions", f"must be {', '.join(sorted(about.assumed))}")
    if certificate.reference not in about.references:
        raise DocumentError("certificate.reference", f"must be {' or '.join(about.references)}")


PARTS = {"provenance": ("provenance",), "certificate": ("certificate", "no-certificate")}
CLASS_PARTS = PARTS | {"provenance": ("multiclass-provenance",)}
"""What a document may contain besides its map, for one score or several classes."""

_READERS = {1: _read_1}


def encode(value: Any) -> Any:
    """A known dataclass as an object with its kind; arrays as lists."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Phrase):
        return str(value)
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    kind = _kind_of(value)
    told = {field.name: getattr(value, field.name) for field in fields(value) if not _left_out(field, value)}
    return {"is": kind} | {name: encode(item) for name, item in told.items()}


def _kind_of(value: Any) -> str:
    """The name of a dataclass in documents."""
    if isinstance(value, Map):
        return value.kind
    return value.key if isinstance(value, About) else next(name for name, cls in OTHERS.items() if type(value) is cls)


def _left_out(field: Field[Any], value: Any) -> bool:
    """Whether a field that was added later has the value that documents without it mean."""
    return bool(field.metadata.get("optional")) and getattr(value, field.name) == field.default


def lines(value: Any, indent: str = "") -> str:
    """JSON with one field per line and lists of numbers on one line."""
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {lines(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(inner + lines(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


Place = tuple[str, ...]
"""Place in the document: field names, with indices in lists."""

Read = Callable[[Any, Place], Any]


def decode(value: Any, allowed: Mapping[str, type[Any]], at: Place) -> Any:
    """Build one dataclass of ``allowed`` from an object, each field by its declared type."""
    if len(at) > MAX_DEPTH:
        raise _error(at, "is nested too deeply")
    if not isinstance(value, dict):
        raise _error(at, f"must be an object, found {_name(value)}")
    content = dict(value)
    kind = content.pop("is", None)
    cls = allowed.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise _error(at, f"is of kind {kind!r}, not one of {', '.join(allowed)}")
    declared = {field.name: field for field in fields(cls)}
    unknown, missing = (
        set(content) - set(declared),
        {n for n, f in declared.items() if f.default is MISSING} - set(content),
    )
    if unknown or missing:
        raise _error(at, f"({kind}) has unknown or missing fields {sorted(unknown | missing)}")
    return cls(**{name: _TYPES[str(declared[name].type)](item, (*at, name)) for name, item in content.items()})


def _error(at: Place, problem: str) -> DocumentError:
    return DocumentError(".".join(at), problem)


def _number(value: Any, at: Place) -> float:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise _error(at, f"must be a finite number, found {_name(value)}")
    return value  # type: ignore[no-any-return]


def _integer(value: Any, at: Place) -> int:
    if type(value) is not int or abs(value) > 2**53:
        raise _error(at, f"must be an integer, found {_name(value)}")
    return value


def _word(value: Any, at: Place) -> str:
    if type(value) is not str or len(value) > 10_000:
        raise _error(at, f"must be text, found {_name(value)}")
    return value


def _flag(value: Any, at: Place) -> bool:
    if type(value) is not bool:
        raise _error(at, f"must be true or false, found {_name(value)}")
    return value


def _one_of(allowed: tuple[str, ...]) -> Read:
    def read(value: Any, at: Place) -> str:
        if type(value) is not str or value not in allowed:
            raise _error(at, f"must be one of {', '.join(allowed)}, found {_name(value)}")
        return value

    return read


def _kind(allowed: Mapping[str, type[Any]]) -> Read:
    return lambda value, at: decode(value, allowed, at)


def _listed(value: Any, at: Place) -> list[Any]:
    if type(value) is not list:
        raise _error(at, f"must be a list, found {_name(value)}")
    return value


def _several(read: Read) -> Callable[[Any, Place], list[Any]]:
    """A list, each item read in the same way."""

    def read_all(value: Any, at: Place) -> list[Any]:
        return [read(item, (*at[:-1], f"{at[-1]}[{place}]")) for place, item in enumerate(_listed(value, at))]

    return read_all


def _array(read: Read, dtype: Any) -> Read:
    def read_all(value: Any, at: Place) -> Any:
        try:
            return np.array([read(item, at) for item in _listed(value, at)], dtype=dtype)
        except DocumentError:
            return np.array(_several(read)(value, at), dtype=dtype)  # slower, but reports the place

    return read_all


def _tuple(read: Read) -> Read:
    return lambda value, at: tuple(_several(read)(value, at))


#: Reader of each field type, by the text of its annotation.
_TYPES: dict[str, Read] = {
    "float": _number,
    "int": _integer,
    "str": _word,
    "bool": _flag,
    "ScoreType": _one_of(get_args(ScoreType)),
    "Coverage": _one_of(get_args(Coverage)),
    "IntervalName": _one_of(get_args(IntervalName)),
    "ScoreType | MulticlassScoreType": _one_of((*get_args(ScoreType), *get_args(MulticlassScoreType))),
    "NoCertificateCode": lambda value, at: NoCertificateCode(_word(value, at)),
    "BinRule": lambda value, at: BinRule(_word(value, at)),
    "str | Phrase": _word,
    "Sampling": _one_of(get_args(Sampling)),
    "WeightType": _one_of(get_args(WeightType)),
    "Axis": _one_of(get_args(Axis)),
    "MulticlassScoreType": _one_of(get_args(MulticlassScoreType)),
    "ClassAxis": _one_of(get_args(ClassAxis)),
    "SimplexScheme": _one_of(get_args(SimplexScheme)),
    "PathMap": _kind({PathMap.kind: PathMap}),
    "TreeMap": _kind({TreeMap.kind: TreeMap}),
    "ClassTreeMap": _kind({ClassTreeMap.kind: ClassTreeMap}),
    "tuple[MulticlassMap, ...]": _tuple(_kind({each.kind: each for each in (PerClassMap, SoftmaxMap)})),
    "SimplexBinsMap": _kind({SimplexBinsMap.kind: SimplexBinsMap}),
    "Floats": _array(_number, np.float64),
    "Ints": _array(_integer, np.int64),
    "Flags": _array(_flag, bool),
    "tuple[str, ...]": _tuple(_word),
    "tuple[Assumption, ...]": _tuple(lambda value, at: Assumption(_word(value, at))),
    "About": _kind(ABOUT),
    "tuple[ScoreBins, ...]": _tuple(_kind({ScoreBins.key: ScoreBins})),
    "tuple[Map, ...]": _tuple(_kind(KINDS)),
    "Map | None": lambda value, at: None if value is None else decode(value, KINDS, at),
}


def parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text."""
    try:
        if len(text) > LARGEST:
            raise DocumentError("the document", f"has more than {LARGEST:,} bytes, and so much is not read")
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        if isinstance(text, str) and not text.strip():
            raise DocumentError("the document", "is empty")
        body = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as problem:
        raise DocumentError("the text", f"is not a JSON document: {problem}") from None
    if not isinstance(body, dict):
        raise DocumentError("the document", f"must be an object, found {_name(body)}")
    return body


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise DocumentError("an object", "has a duplicate key")
    return content


def _no_constant(name: str) -> float:
    raise DocumentError(name, "is not a finite number")


def _name(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}.get(
        type(value), repr(value)[:40]
    )
